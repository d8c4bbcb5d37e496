//! The codecs that `fusewire bench codec` compares with.
//!
//! One argument: a folder with the values (`ints`, big-endian 64-bit numbers; `reals`, big-endian binary64;
//! `strings`, a line each; `mpdus.ber`). It says which codecs it has (`codec type direction elements bytes`
//! a line, then an empty one), and then for each line `N ROUNDS` on standard input how many nanoseconds
//! that many rounds of the Nth took. For no rounds it says what the Nth makes, in hexadecimal: encoding, the bytes of
//! the values; decoding, the bytes that are encoded again of what it reads in `given`, in the same folder, or `error`
//! and why it does not. Those in C are programs of their own that speak the same way.
#![forbid(unsafe_code)]

mod mpdu;
mod program;
mod prosts;
mod rasns;
mod rkyvs;

use std::fmt::Display;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// The performance object's values.
pub struct Values {
    pub ints: Vec<i64>,
    pub reals: Vec<f64>,
    pub strings: Vec<String>,
    pub mpdus: Vec<u8>,
}

/// One codec, of one type, in one direction.
pub struct Case {
    pub codec: &'static str,
    pub of: &'static str,
    pub direction: &'static str,
    pub elements: usize,
    pub bytes: usize,
    pub round: Box<dyn FnMut()>,
    /// What is encoded; where it decodes, of what it is given.
    pub made: Box<dyn Fn(&[u8]) -> Result<Vec<u8>, String>>,
}

impl Case {
    /// The answer to no rounds.
    fn hex(&self, folder: &Path) -> std::io::Result<String> {
        let given = match self.direction {
            "decode" => std::fs::read(folder.join("given"))?,
            _ => Vec::new(),
        };
        Ok(match (self.made)(&given) {
            Ok(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Err(error) => format!("error {}", error.replace('\n', " ")),
        })
    }
}

fn read(folder: &Path) -> std::io::Result<Values> {
    let numbers = |name: &str| -> std::io::Result<Vec<[u8; 8]>> {
        Ok(std::fs::read(folder.join(name))?.as_chunks().0.to_vec())
    };
    Ok(Values {
        ints: numbers("ints")?.into_iter().map(i64::from_be_bytes).collect(),
        reals: numbers("reals")?.into_iter().map(f64::from_be_bytes).collect(),
        strings: std::fs::read_to_string(folder.join("strings"))?
            .lines()
            .map(String::from)
            .collect(),
        mpdus: std::fs::read(folder.join("mpdus.ber"))?,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder has the values?")?;
    let values = read(Path::new(&folder))?;
    let mut cases = Vec::new();
    rasns::cases(&values, &mut cases);
    mpdu::cases(&values, &mut cases);
    prosts::cases(&values, &mut cases);
    rkyvs::cases(&values, &mut cases);
    let mut programs = program::all(Path::new(&folder))?;
    let mut out = std::io::stdout().lock();
    for case in &cases {
        writeln!(
            out,
            "{} {} {} {} {}",
            case.codec, case.of, case.direction, case.elements, case.bytes
        )?;
    }
    for case in programs.iter().flat_map(|program| &program.cases) {
        writeln!(out, "{case}")?;
    }
    writeln!(out)?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (which, rounds) = line.split_once(' ').ok_or("a number and rounds")?;
        let (mut which, rounds): (usize, u64) = (which.parse()?, rounds.parse()?);
        if let Some(case) = cases.get_mut(which) {
            if rounds == 0 {
                writeln!(out, "{}", case.hex(Path::new(&folder))?)?;
            } else {
                let begin = Instant::now();
                (0..rounds).for_each(|_| (case.round)());
                writeln!(out, "{}", begin.elapsed().as_nanos())?;
            }
        } else {
            which -= cases.len();
            let mut programs = programs.iter_mut();
            let program = programs.find(|program| {
                let has = which < program.cases.len();
                which -= if has { 0 } else { program.cases.len() };
                has
            });
            writeln!(out, "{}", program.ok_or("no such case")?.time(which, rounds)?)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Both directions of a codec.
pub fn both<T: 'static, B: AsRef<[u8]> + 'static, E: Display>(
    cases: &mut Vec<Case>,
    (codec, of): (&'static str, &'static str),
    (elements, value): (usize, T),
    encode: impl Fn(&T) -> B + 'static,
    decode: impl Fn(&[u8]) -> Result<T, E> + 'static,
) {
    let all = Rc::new((value, encode, decode));
    let encoded = (all.1)(&all.0);
    let bytes = encoded.as_ref().len();
    let mut add = |direction, round, made| {
        cases.push(Case { codec, of, direction, elements, bytes, round, made });
    };
    let (timed, asked) = (all.clone(), all.clone());
    add(
        "encode",
        Box::new(move || drop(black_box((timed.1)(black_box(&timed.0))))),
        Box::new(move |_| Ok((asked.1)(&asked.0).as_ref().to_vec())),
    );
    let timed = all.clone();
    add(
        "decode",
        Box::new(move || {
            let value = (timed.2)(black_box(encoded.as_ref()));
            drop(black_box(value.map_err(|error| error.to_string()).expect("decodes")));
        }),
        Box::new(move |given| match (all.2)(given) {
            Ok(value) => Ok((all.1)(&value).as_ref().to_vec()),
            Err(error) => Err(error.to_string()),
        }),
    );
}
