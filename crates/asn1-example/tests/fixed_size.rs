//! What the compiler says of types whose encodings in LWS all have one size is so, and their arrays can be read in any
//! order.

use fusewire_asn1_example::mapping::{Sample, Small, Spot};
use fusewire_codec::lws::{self, Elements, FixedSize, Word};
use fusewire_codec::types::{BitString, Octets};
use fusewire_codec::{Problem, Step};

fn sample(n: i8) -> Sample<'static> {
    let spot = |x| Spot { x, y: u16::from(n as u8) };
    Sample {
        flag: n % 2 == 0,
        small: Small(n),
        long: i64::from(n) - 4_999_999_000,
        wide: u64::MAX - n as u64,
        real: f64::from(n) / 3.0,
        three: Octets::from([n as u8, 1, 2].to_vec()),
        bits: BitString::new(vec![n as u8, 0xe0], 5).expect("eleven bits"),
        smalls: vec![Small(n), Small(-n), Small(0)],
        spots: vec![spot(1), spot(2)],
    }
}

fn all_sizes<W: Word>() {
    let samples: Vec<Sample<'_>> = (-9..=9).map(sample).collect();
    let size = <Sample<'_> as FixedSize>::size::<W>();
    for sample in &samples {
        assert_eq!(lws::encoded_len::<W, _>(sample), Ok(size));
    }
    let bytes = lws::to_vec::<W, _>(&samples).expect("samples");
    let elements: Elements<'_, Sample<'_>> = lws::from_bytes::<W, _>(&bytes).expect("samples");
    assert_eq!(elements.len(), samples.len());
    for at in [18, 0, 7, 17, 7] {
        assert_eq!(elements.get(at).expect("a sample").as_ref(), samples.get(at));
    }
    assert_eq!(elements.get(19).expect("nothing is wrong"), None);

    // Numbers lie closer than words, within a struct of their own too; what is asked of one is asked of each.
    let smalls: Vec<Small> = (-9..=9).map(Small).collect();
    assert_eq!(<Small as FixedSize>::stride::<W>(), 1);
    let mut bytes = lws::to_vec::<W, _>(&smalls).expect("numbers");
    bytes[W::BYTES + 4] = 10;
    let elements: Elements<'_, Small> = lws::from_bytes::<W, _>(&bytes).expect("numbers");
    assert_eq!(elements.get(5), Ok(Some(Small(-4))));
    let error = elements.get(4).expect_err("10 is none of -9 to 9");
    assert!(matches!(error.problem(), Problem::Range { found: 10, .. }), "{error}");
    assert_eq!(error.offset(), W::BYTES + 4);
    assert_eq!(error.path().collect::<Vec<_>>(), [Step::Index(4)]);
}

#[test]
fn of_every_word() {
    all_sizes::<u16>();
    all_sizes::<u32>();
    all_sizes::<u64>();
}
