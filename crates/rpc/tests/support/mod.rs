//! What `kinds.x` says, by our compiler, and a server of it.

#[allow(dead_code, reason = "not every test calls everything")]
pub mod kinds {
    include!("../../../xdr/tests/expect/kinds.rs");
    include!("../../../xdr/tests/expect/kinds.programs.rs");
}

use fusewire_rpc::{Call, Credential, Fault, Services};
use kinds::*;

pub struct Kinds;

/// What `KINDS_LARGE` returns, and `KINDS_TAKE` takes.
pub fn content(len: u32) -> Vec<u8> {
    (0..len).map(|i| i.wrapping_mul(31).wrapping_add(i >> 8) as u8).collect()
}

impl kinds_prog::kinds_first::Server for Kinds {
    fn kinds_sum(&self, _: &Call<'_>, of: Pair) -> Result<i32, Fault> {
        Ok(of.a.wrapping_add(of.b))
    }
}

impl kinds_prog::kinds_second::Server for Kinds {
    fn kinds_echo(&self, _: &Call<'_>, what: Everything) -> Result<Everything, Fault> {
        Ok(what)
    }

    fn kinds_large(&self, _: &Call<'_>, len: u32) -> Result<Blob, Fault> {
        Ok(content(len.min(8 << 20)))
    }

    fn kinds_count(&self, call: &Call<'_>) -> Result<u32, Fault> {
        match call.credential {
            Credential::Sys(sys) => Ok(sys.uid),
            _ => Ok(0),
        }
    }

    fn kinds_reverse(&self, _: &Call<'_>, mut list: Entries) -> Result<Entries, Fault> {
        list.reverse();
        Ok(list)
    }

    fn kinds_greet(&self, _: &Call<'_>, who: Name) -> Result<Name, Fault> {
        Ok([b"hi ".as_slice(), &who].concat())
    }

    fn kinds_take(&self, _: &Call<'_>, what: Blob) -> Result<(), Fault> {
        if what == content(what.len() as u32) { Ok(()) } else { Err(Fault::System) }
    }

    fn kinds_fail(&self, _: &Call<'_>) -> Result<i32, Fault> {
        Err(Fault::System)
    }
}

pub fn services() -> Services {
    Services::new()
        .with(kinds_prog::kinds_first::Service(Kinds))
        .with(kinds_prog::kinds_second::Service(Kinds))
}

fn scalars(n: i32) -> Scalars {
    Scalars {
        i: n,
        u: 4_000_000_000,
        h: -5_000_000_000,
        uh: 18_000_000_000_000_000_000,
        f: 1.5,
        d: -2.25,
        b: true,
        c: Colour::Blue,
    }
}

/// A value with every kind of type in it.
#[allow(dead_code, reason = "not every test calls everything")]
pub fn everything() -> Everything {
    let leaf = |value| Some(Box::new(Tree { value, left: None, right: None }));
    Everything {
        s: scalars(i32::MIN),
        o: Octets {
            fixed: *b"\x01\x02\x03\x04\x05",
            variable: b"abcdefg".to_vec(),
            text: "text ä".into(),
            sum: [0xaa; 16],
            called: b"sixteen letters!".to_vec(),
            large: vec![b'x'; 5000],
        },
        l: Lists {
            triple: [-1, 0, 1],
            some: vec![1, -1, 1 << 62, 4, 5, 6, 7, 8],
            pair: [scalars(1), scalars(2)],
            several: (0..3).map(scalars).collect(),
            names: vec![b"one".to_vec(), Vec::new()],
            two: [b"a".to_vec(), b"bcd".to_vec()],
            rows: vec![vec![7, 8, 9], Vec::new()],
            ds: vec![0.1, -1e300],
            colours: vec![Colour::Red, Colour::Green, Colour::Blue],
        },
        m: Maybe {
            one: Some(scalars(9)),
            chain: (0..5).map(|value| Entry { value, text: b"link".to_vec() }).collect(),
            root: Some(Tree { value: 1, left: leaf(2), right: leaf(3) }),
        },
        shapes: vec![Shape::Red(5), Shape::Green(b"green".to_vec()), Shape::Blue(Vec::new())],
        outcomes: vec![
            Outcome::Case0(b"data".to_vec()),
            Outcome::CaseMinus1,
            Outcome::Default(77, -77),
        ],
        choices: [Choice::True(scalars(3)), Choice::False],
        steps: vec![
            Step::Case1(vec![1, 2]),
            Step::Case2147483648(Shape::Red(1)),
            Step::Default(12),
        ],
    }
}
