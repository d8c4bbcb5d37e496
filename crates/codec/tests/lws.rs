//! LWS: the examples of its specification, each word size, and that decoding is total.

use fusewire_codec::lws::{Decode, Encode, Word, from_bytes, to_vec};
use fusewire_codec::types::{BitString, Integer, Octets, Oid, PrintableString, Utf8String};
use fusewire_codec::{Error, Problem};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn as_hex<W: Word>(value: &impl Encode) -> String {
    hex(&to_vec::<W, _>(value).unwrap())
}

/// The examples of docs/lws.md, of 16, 32 and 64-bit words.
#[test]
fn specification() {
    fn all(value: impl Encode, [of16, of32, of64]: [&str; 3]) {
        assert_eq!(as_hex::<u16>(&value), of16.replace(' ', ""));
        assert_eq!(as_hex::<u32>(&value), of32.replace(' ', ""));
        assert_eq!(as_hex::<u64>(&value), of64.replace(' ', ""));
    }
    all(true, ["0001", "00000001", "0000000000000001"]);
    all(-2i64, ["fffe", "fffffffe", "fffffffffffffffe"]);
    all(70_000i64, ["8000 0002 0001 1170", "00011170", "0000000000011170"]);
    all(-32_768i64, ["8000 0001 8000", "ffff8000", "ffffffffffff8000"]);
    all(
        1i64 << 40,
        ["8000 0003 0100 0000 0000", "80000000 00000002 00000100 00000000", "0000010000000000"],
    );
    all(7u8, ["0007", "00000007", "0000000000000007"]);
    all(70_000u32, ["0001 1170", "00011170", "0000000000011170"]);
    all(1.5f64, ["3ff8 0000 0000 0000", "3ff80000 00000000", "3ff8000000000000"]);
    all(
        Octets::new(b"abc"),
        ["0003 6162 6300", "00000003 61626300", "0000000000000003 6162630000000000"],
    );
    all(
        vec![1i64, -1],
        [
            "0002 0001 0001 ffff",
            "00000002 00000001 00000001 ffffffff",
            "0000000000000002 0000000000000001 0000000000000001 ffffffffffffffff",
        ],
    );
    all(
        vec![1i64, 70_000],
        [
            "0002 0002 0000 0001 0001 1170",
            "00000002 00000001 00000001 00011170",
            "0000000000000002 0000000000000001 0000000000000001 0000000000011170",
        ],
    );
    all(
        vec![1u8, 2, 3],
        ["0003 0102 0300", "00000003 01020300", "0000000000000003 0102030000000000"],
    );
    all(
        BitString::new(&[0xa0], 5).unwrap(),
        ["0003 a000", "00000003 a0000000", "0000000000000003 a000000000000000"],
    );
    all(
        Oid::from_arcs(&[1, 2, 840]).unwrap(),
        ["0003 2a86 4800", "00000003 2a864800", "0000000000000003 2a86480000000000"],
    );
    all((), ["", "", ""]);
    let wide = Integer::from_be_bytes(&[1, 0, 0, 0, 0, 0, 0, 0, 0]);
    all(
        wide,
        [
            "8000 0005 0001 0000 0000 0000 0000",
            "80000000 00000003 00000001 00000000 00000000",
            "8000000000000000 0000000000000002 0000000000000001 0000000000000000",
        ],
    );
}

#[test]
fn a_count_too_large_for_a_word_escapes() {
    let bytes = vec![7u8; 65_535];
    let encoded = to_vec::<u16, _>(&Octets::new(&bytes)).unwrap();
    assert_eq!(hex(&encoded[..10]), "ffff000000000000ffff");
    assert_eq!(&*from_bytes::<u16, Octets>(&encoded).unwrap(), &*bytes);
}

#[test]
fn what_is_wrong_is_said() {
    let error = |bytes: &[u8]| *from_bytes::<u32, Vec<Octets>>(bytes).unwrap_err().problem();
    assert_eq!(error(&[0, 0, 0, 1, 0, 0, 0, 9, 1]), Problem::Truncated { needed: 9, left: 1 });
    assert_eq!(error(&[0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 2, 0]), Problem::Fill { found: 2 });
    assert_eq!(error(&[0, 1, 0, 1]), Problem::TooMany { bound: 65_536 });
    assert_eq!(error(&[0, 0, 0, 0, 0]), Problem::LeftOver { left: 1 });
    let error: Error =
        from_bytes::<u32, Vec<bool>>(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap_err();
    assert_eq!(error.to_string(), "boolean 0x2 is neither false nor true at offset 8, in [1]");
    assert!(from_bytes::<u16, i64>(&[0x80, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    assert!(from_bytes::<u16, u8>(&[1, 0]).is_err());
}

fn round_trip<W: Word, T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = to_vec::<W, _>(value).unwrap();
    assert_eq!(bytes.len() % W::BYTES, 0);
    assert_eq!(from_bytes::<W, T>(&bytes).as_ref(), Ok(value));
    for len in 0..bytes.len() {
        assert!(from_bytes::<W, T>(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
    }
}

fn each<T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug>(value: &T) {
    round_trip::<u16, T>(value);
    round_trip::<u32, T>(value);
    round_trip::<u64, T>(value);
}

proptest! {
    #[test]
    fn values_round_trip(shift in 0u32..64, value: i64, mut ints in proptest::collection::vec(any::<i64>(), 0..20)) {
        each(&(value >> shift));
        ints.iter_mut().for_each(|int| *int >>= shift);
        each(&ints);
        each(&ints.iter().map(|int| *int as i32).collect::<Vec<_>>());
        each(&ints.iter().map(|int| *int as u16).collect::<Vec<_>>());
        each(&ints.iter().map(|int| *int as i8).collect::<Vec<_>>());
        each(&ints.iter().map(|int| *int as f64).collect::<Vec<_>>());
        each(&ints.iter().map(|int| Integer::from(*int)).map(|int| int.to_i64().unwrap()).collect::<Vec<_>>());
    }

    #[test]
    fn strings_round_trip(text in "[A-Za-z0-9 ]{0,40}", wide in proptest::collection::vec(any::<u8>(), 1..40)) {
        let value = vec![PrintableString::new(text.as_bytes()).unwrap(); 2];
        let bytes = to_vec::<u32, _>(&value).unwrap();
        prop_assert_eq!(from_bytes::<u32, Vec<PrintableString>>(&bytes).unwrap(), value);
        let value = Integer::from_be_bytes(&wide);
        for bytes in [to_vec::<u16, _>(&value), to_vec::<u32, _>(&value)] {
            prop_assert!(bytes.unwrap().len() >= wide.len() / 8);
        }
        let bytes = to_vec::<u32, _>(&value).unwrap();
        prop_assert_eq!(from_bytes::<u32, Integer>(&bytes).unwrap(), value);
    }

    #[test]
    fn any_bytes_decode_or_err(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = from_bytes::<u16, Vec<i64>>(&bytes);
        let _ = from_bytes::<u32, Vec<Vec<Utf8String>>>(&bytes);
        let _ = from_bytes::<u64, Vec<BitString>>(&bytes);
        let _ = from_bytes::<u16, Integer>(&bytes);
    }
}

/// Elements are found by their index; those that are none are said to be, with their place.
#[test]
fn elements_by_their_index() {
    use fusewire_codec::lws::{self, Elements, FixedSize, Word};
    use fusewire_codec::{Error, Problem, Sink, Source};

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Point {
        id: u16,
        set: bool,
        at: f64,
    }
    impl lws::Encode for Point {
        fn encode<S: Sink, W: Word>(&self, to: &mut lws::Encoder<S, W>) -> Result<(), Error> {
            self.id.encode(to)?;
            self.set.encode(to)?;
            self.at.encode(to)
        }
    }
    impl<'a> lws::Decode<'a> for Point {
        fn decode<S: Source<'a>, W: Word>(from: &mut lws::Decoder<S, W>) -> Result<Self, Error> {
            let id = from.field("id", lws::Decode::decode)?;
            let set = from.field("set", lws::Decode::decode)?;
            Ok(Point { id, set, at: from.field("at", lws::Decode::decode)? })
        }
    }
    impl FixedSize<'_> for Point {
        fn size<W: Word>() -> usize {
            u16::size::<W>() + bool::size::<W>() + f64::size::<W>()
        }
    }

    fn walk<W: Word>(points: &[Point], size: usize) {
        let bytes = lws::to_vec::<W, &[Point]>(&points).unwrap();
        assert_eq!(bytes.len(), W::BYTES + size * points.len());
        let view = lws::from_bytes::<W, Elements<'_, Point>>(&bytes).unwrap();
        assert_eq!(view.len(), points.len());
        for index in (0..points.len()).rev() {
            assert_eq!(view.get(index).unwrap(), Some(points[index]));
        }
        assert_eq!(view.get(points.len()).unwrap(), None);
        assert_eq!(view.iter().collect::<Result<Vec<_>, _>>().unwrap(), points);
        // The same elements as the decoder's, and its refusals.
        for len in 0..bytes.len() {
            lws::from_bytes::<W, Elements<'_, Point>>(&bytes[..len]).unwrap_err();
        }
    }
    let points: Vec<Point> =
        (0..9).map(|i| Point { id: 300 * i, set: i % 2 == 0, at: f64::from(i) / 4.0 }).collect();
    walk::<u16>(&points, 2 + 2 + 8);
    walk::<u32>(&points, 4 + 4 + 8);
    walk::<u64>(&points, 8 + 8 + 8);

    // Numbers lie closer than words; what fills the last one is zero.
    let bytes = lws::to_vec::<u32, Vec<u16>>(&vec![2, 300, 4]).unwrap();
    assert_eq!(bytes, [0, 0, 0, 3, 0, 2, 1, 44, 0, 4, 0, 0]);
    let view = lws::from_bytes::<u32, Elements<'_, u16>>(&bytes).unwrap();
    assert_eq!(view.get(1).unwrap(), Some(300));
    let mut filled = bytes.clone();
    filled[11] = 1;
    lws::from_bytes::<u32, Elements<'_, u16>>(&filled).unwrap_err();

    // One element that is none does not hide the others.
    let mut bytes = lws::to_vec::<u32, Vec<Point>>(&points).unwrap();
    bytes[4 + 2 * 16 + 7] = 7;
    let view = lws::from_bytes::<u32, Elements<'_, Point>>(&bytes).unwrap();
    let error = view.get(2).unwrap_err();
    assert_eq!(error.problem(), &Problem::Boolean { found: 7 });
    assert_eq!(error.to_string(), "boolean 0x7 is neither false nor true at offset 40, in [2].set");
    assert_eq!(view.get(3).unwrap(), Some(points[3]));

    // A count that the message has no room for.
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    lws::from_bytes::<u32, Elements<'_, u64>>(&huge).unwrap_err();
    lws::from_bytes::<u32, Elements<'_, ()>>(&[0, 0, 0, 9]).unwrap();
    // Any number of what takes no room is too many.
    lws::from_bytes::<u64, Elements<'_, ()>>(&[0xff; 8]).unwrap_err();
}
