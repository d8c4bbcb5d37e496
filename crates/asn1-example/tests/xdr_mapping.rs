//! The examples of docs/xdr.md, and what OER makes of widths, fixed sizes and extensions.

use fusewire_asn1_example::mapping::*;
use fusewire_codec::types::{Any, BitString, Octets as Bytes, Oid};
use fusewire_codec::{oer, xdr};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Encodes, compares, decodes.
fn in_xdr<'a, T>(value: &T, expected: &str, bytes: &'a mut Vec<u8>)
where
    T: xdr::Encode + xdr::Decode<'a> + PartialEq + std::fmt::Debug,
{
    *bytes = xdr::to_vec(value).expect("a value");
    assert_eq!(hex(bytes), expected.replace(' ', ""), "{value:?}");
    assert_eq!(&xdr::from_bytes::<T>(bytes).expect("its encoding"), value);
}

#[test]
fn documented_examples() {
    let numbers = Numbers {
        flag: true,
        small: 7,
        signed: -2,
        long: -2,
        any: 300.into(),
        real: 1.5,
        nothing: (),
    };
    let expected = "00000001 00000007 fffffffe fffffffffffffffe 00000002 012c0000 3ff8000000000000";
    in_xdr(&numbers, expected, &mut Vec::new());
    let strings = Strings {
        three: Bytes::new(b"abc"),
        some: Bytes::new(b"abc"),
        text: "ab".try_into().expect("text"),
        bits3: BitString::new(&[0xa0], 5).expect("bits"),
        bits: BitString::new(&[0xa0], 5).expect("bits"),
        oid: Oid::from_arcs(&[1, 2, 840]).expect("an identifier"),
        none: None,
    };
    let expected = "61626300 00000003 61626300 00000002 61620000 a0000000 00000005 00000001 a0000000 \
                    00000003 2a864800 00000000";
    in_xdr(&strings, expected, &mut Vec::new());
    let lists = Lists { pair: vec![1, 2], some: vec![1, 2] };
    let expected = "00000001 00000002 00000002 00000001 00000002";
    in_xdr(&lists, expected, &mut Vec::new());
    in_xdr(&Pick::Count(5), "00000007 00000005", &mut Vec::new());
    in_xdr(&Grown { a: true, b: None }, "00000001 00000000", &mut Vec::new());
    let grown = Grown { a: true, b: Some(false) };
    let mut bytes = Vec::new();
    in_xdr(&grown, "00000001 00000001 00000008 00000001 00000000", &mut bytes);
    // Who knows less passes over it.
    assert_eq!(xdr::from_bytes::<Young>(&bytes).expect("more than is known"), Young { a: true });
}

fn octets() -> Octets<'static> {
    Octets {
        byte: 0xff,
        word: 0x1234,
        signed: -2,
        more: 0x80.into(),
        open: 5.into(),
        any: 0x80.into(),
        fixed: "Hi".try_into().expect("text"),
        letters: "a0z".try_into().expect("text"),
        odd: 6,
        left: None,
        right: None,
        alone: None,
    }
}

#[test]
fn octet_encoding_rules() {
    let root = "ff 1234 fe 0180 0105 020080 4869 03613079 06".replace("03613079", "0361307a");
    let check = |value: &Octets<'_>, expected: &str| {
        let bytes = oer::to_vec(value).expect("a value");
        assert_eq!(hex(&bytes), expected.replace(' ', ""), "{value:?}");
        let back = oer::from_bytes::<Octets>(&bytes, oer::Rules::Coer).expect("its encoding");
        assert_eq!(&back, value);
    };
    check(&octets(), &format!("00 {root}"));
    // Bits of additions: 7 unused of 2 bits are 6; the group has a bit for its one optional component.
    let grouped = Octets { left: Some(9), ..octets() };
    check(&grouped, &format!("80 {root} 02 06 80 02 00 09"));
    let whole = Octets { left: Some(9), right: Some(true), alone: Some(true), ..octets() };
    check(&whole, &format!("80 {root} 02 06 c0 03 80 09 ff 01 ff"));
    // What is always in a group is there when the group is.
    let torn = Octets { right: Some(true), ..octets() };
    let told = oer::to_vec(&torn).expect_err("left is missing").to_string();
    assert!(told.ends_with("in left"), "{told}");
}

#[test]
fn alternatives_behind_their_tags() {
    let check = |value: &Either<'_>, expected: &str| {
        let bytes = oer::to_vec(value).expect("a value");
        assert_eq!(hex(&bytes), expected, "{value:?}");
        let back = oer::from_bytes::<Either>(&bytes, oer::Rules::Coer).expect("its encoding");
        assert_eq!(&back, value);
    };
    check(&Either::First(true), "81ff");
    check(&Either::Nested(Inner::A(false)), "828200");
    check(&Either::Nested(Inner::B(true)), "bf46bf46ff");
    check(&Either::Added(()), "8900");
    // An alternative of a later version is kept as it came.
    let bytes = [0x89, 1, 0xaa];
    let kept = oer::from_bytes::<Fewer>(&bytes, oer::Rules::Oer).expect("more than is known");
    assert_eq!(kept, Fewer::Unknown(Any::new(&bytes)));
    assert_eq!(oer::to_vec(&kept).expect("as it came"), bytes);
}

#[test]
fn sets_of_numbers_and_characters() {
    for odd in [1, 3, 5, 6, 7] {
        assert!(oer::to_vec(&Octets { odd, ..octets() }).is_ok(), "{odd}");
    }
    for odd in [0, 2, 4, 8, 255] {
        assert!(oer::to_vec(&Octets { odd, ..octets() }).is_err(), "{odd}");
    }
    let letters = "aB".try_into().expect("text");
    let told = oer::to_vec(&Octets { letters, ..octets() }).expect_err("a capital").to_string();
    assert!(told.contains("byte 0x42 is no character of IA5String"), "{told}");
    let bytes = oer::to_vec(&octets()).expect("a value");
    let at = bytes.windows(3).position(|w| w == b"a0z").expect("the letters");
    let mut wrong = bytes.clone();
    wrong[at] = b'A';
    let error = oer::from_bytes::<Octets>(&wrong, oer::Rules::Oer).expect_err("a capital");
    assert_eq!(error.offset(), at - 1, "{error}");
    assert!(error.to_string().ends_with("in letters"), "{error}");
    // The number is the last.
    let mut wrong = bytes.clone();
    let last = wrong.len() - 1;
    wrong[last] = 4;
    let error = oer::from_bytes::<Octets>(&wrong, oer::Rules::Oer).expect_err("a gap");
    assert_eq!((error.offset(), error.to_string().ends_with("in odd")), (last, true), "{error}");
}
