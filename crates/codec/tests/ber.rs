//! BER and DER: forms of X.690, what only BER takes, round trips, and that decoding is total and bounded.

use fusewire_codec::ber::{
    self, Decode, Decoder, Encode, EncodeContents, Rules, Tag, from_bytes, to_vec,
};
use fusewire_codec::types::{
    Any, BitString, Ia5String, Integer, Octets, Oid, PrintableString, RelativeOid, SetOf, UtcTime,
    Utf8String,
};
use fusewire_codec::{Error, Limits, Problem, Step};
use proptest::prelude::*;

fn hex(value: &impl Encode) -> String {
    to_vec(value, Rules::Der).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn forms_of_the_standard() {
    assert_eq!(hex(&true), "0101ff");
    assert_eq!(hex(&()), "0500");
    assert_eq!(hex(&0i64), "020100");
    assert_eq!(hex(&-128i8), "020180");
    assert_eq!(hex(&128u8), "02020080");
    assert_eq!(hex(&i64::MIN), "02088000000000000000");
    assert_eq!(hex(&u64::MAX), "020900ffffffffffffffff");
    assert_eq!(hex(&1.5f64), "090380ff03");
    assert_eq!(hex(&0.0f64), "0900");
    assert_eq!(
        hex(&BitString::new(&[0x0a, 0x3b, 0x5f, 0x29, 0x1c, 0xd0], 4).unwrap()),
        "0307040a3b5f291cd0"
    );
    assert_eq!(hex(&Oid::from_arcs(&[2, 100, 3]).unwrap()), "0603813403");
    assert_eq!(hex(&RelativeOid::from_arcs(&[8571, 3, 2]).unwrap()), "0d04c27b0302");
    assert_eq!(hex(&Oid::from_arcs(&[1, 2, 840, 113_549]).unwrap()), "06062a864886f70d");
    assert_eq!(Oid::from_arcs(&[2, 999, 3]).unwrap().to_string(), "2.999.3");
    assert_eq!(hex(&PrintableString::new(b"Jones").unwrap()), "13054a6f6e6573");
    assert_eq!(hex(&vec![1i64, 300]), "30070201010202012c");
    assert_eq!(hex(&SetOf(vec![300i64, 1])), "31070201010202012c");
    assert_eq!(&to_vec(&Octets::new(&[7; 300]), Rules::Ber).unwrap()[..4], [4, 0x82, 1, 44]);
    let mut room = [0; 32];
    let mut to = ber::Encoder::new(&mut room, Rules::Der);
    to.implicit(Tag::private(1000), &5i64).unwrap();
    let start = to.start();
    assert_eq!(room[start..], [0xdf, 0x87, 0x68, 1, 5]);
    let mut from = Decoder::new(&room[start..], Rules::Der, Limits::default());
    assert_eq!(from.implicit::<i64>("x", Tag::private(1000)).unwrap(), 5);
}

#[test]
fn only_ber_takes_what_is_not_canonical() {
    fn refused<'a, T: Decode<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8], value: T) {
        assert_eq!(from_bytes::<T>(bytes, Rules::Ber), Ok(value));
        let error = from_bytes::<T>(bytes, Rules::Der).unwrap_err();
        let problem = error.problem();
        assert!(
            matches!(
                problem,
                Problem::NotCanonical(_)
                    | Problem::Form { .. }
                    | Problem::Boolean { .. }
                    | Problem::Contents(_)
            ),
            "{error}"
        );
    }
    refused(&[1, 1, 7], true);
    refused(&[2, 2, 0, 5], 5i64);
    refused(&[2, 0x81, 1, 5], 5i64);
    refused(&[2, 0x83, 0, 0, 1, 5], 5i64);
    refused(&[0x30, 0x80, 2, 1, 5, 2, 1, 6, 0, 0], vec![5i64, 6]);
    refused(&[0x31, 6, 2, 1, 6, 2, 1, 5], SetOf(vec![6i64, 5]));
    refused(&[0x24, 0x80, 4, 1, b'a', 0x24, 3, 4, 1, b'b', 4, 0, 0, 0], Octets::from(b"ab"));
    refused(&[0x33, 6, 4, 1, b'a', 4, 1, b'b'], PrintableString::new(b"ab").unwrap());
    refused(&[0x23, 8, 3, 2, 0, 0xff, 3, 2, 4, 0xf0], BitString::new(&[0xff, 0xf0], 4).unwrap());
    refused(&[3, 2, 4, 0xff], BitString::new(&[0xf0], 4).unwrap());
    refused(&[9, 3, 0x80, 0, 2], 2.0);
    refused(b"\x17\x0b9105171030Z", UtcTime::new(b"9105171030Z").unwrap());
}

#[test]
fn what_is_wrong_is_said_and_where() {
    fn error<'a, T: Decode<'a> + std::fmt::Debug>(bytes: &'a [u8]) -> Error {
        from_bytes::<T>(bytes, Rules::Ber).unwrap_err()
    }
    assert_eq!(
        error::<i64>(&[4, 1, 0]),
        Problem::Tag { expected: Tag::INTEGER, found: Tag::OCTET_STRING }.at(0)
    );
    assert_eq!(error::<i64>(&[2, 2, 0]), Problem::Truncated { needed: 2, left: 1 }.at(2));
    assert_eq!(error::<i64>(&[2, 0]), Problem::Contents("an INTEGER").at(2));
    assert_eq!(
        error::<i64>(&[2, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        Problem::IntegerTooWide { bytes: 9 }.at(2)
    );
    assert_eq!(error::<u8>(&[2, 1, 0xff]), Problem::IntegerTooWide { bytes: 1 }.at(2));
    assert_eq!(error::<i64>(&[2, 1, 5, 0]), Problem::LeftOver { left: 1 }.at(3));
    assert_eq!(error::<i64>(&[2, 0x80, 5, 0, 0]), Problem::BadLength.at(1));
    assert_eq!(error::<i64>(&[2, 0xff, 5]), Problem::BadLength.at(1));
    assert_eq!(error::<i64>(&[0x22, 3, 2, 1, 5]), Problem::Form { constructed: true }.at(2));
    assert_eq!(error::<Any>(&[0x1f, 0x1e, 0]), Problem::BadTag.at(0));
    assert_eq!(error::<Any>(&[0x1f, 0x80, 0x1f, 0]), Problem::BadTag.at(0));
    assert_eq!(error::<Oid>(&[6, 2, 0x80, 1]), Problem::Contents("an OBJECT IDENTIFIER").at(2));
    let character = Problem::Character { found: b'_', type_name: "PrintableString" };
    let found = error::<Vec<Vec<PrintableString>>>(&[0x30, 7, 0x30, 0, 0x30, 3, 0x13, 1, b'_']);
    assert_eq!(found, character.at(8).in_element(0).in_element(1));
    assert_eq!(found.path().collect::<Vec<_>>(), [Step::Index(1), Step::Index(0)]);
}

#[test]
fn depth_and_count_and_size_are_bounded() {
    let nested = [0x30, 0x80].repeat(100_000);
    let error = from_bytes::<Any>(&nested, Rules::Ber).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooDeep { bound: 32 });
    let pieces = [0x24, 0x80].repeat(100_000);
    let error = from_bytes::<Octets>(&pieces, Rules::Ber).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooDeep { bound: 32 });
    let many = to_vec(&vec![1i64; 100], Rules::Der).unwrap();
    for rules in [Rules::Ber, Rules::Der] {
        let limits = Limits { count: 99, ..Limits::default() };
        let error = Vec::<i64>::decode(&mut Decoder::new(&many, rules, limits)).unwrap_err();
        assert_eq!(*error.problem(), Problem::TooMany { bound: 99 });
        let limits = Limits { count: 100, ..Limits::default() };
        assert!(Vec::<i64>::decode(&mut Decoder::new(&many, rules, limits)).is_ok());
    }
    let limits = Limits { size: 1, ..Limits::default() };
    let error =
        Octets::decode(&mut Decoder::new(&[0x24, 4, 4, 2, 1, 2], Rules::Ber, limits)).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooLarge { bound: 1 });
}

#[test]
fn a_room_too_small_is_full_at_every_length() {
    let value = (vec![1i64, -70_000, i64::MAX], "fusewire");
    let whole = to_vec(&value.0, Rules::Der).unwrap();
    for len in 0..whole.len() {
        let error = ber::encode_at_end(&value.0, Rules::Der, &mut vec![0; len]).unwrap_err();
        assert!(matches!(error.problem(), Problem::Full { .. }), "{len}: {error}");
    }
    assert_eq!(ber::encode_at_end(&value.0, Rules::Der, &mut vec![0; whole.len()]).unwrap(), whole);
    let text = Ia5String::new(value.1.as_bytes()).unwrap();
    for len in 0..10 {
        assert!(ber::encode_at_end(&text, Rules::Der, &mut vec![0; len]).is_err());
    }
    for len in 0..5 {
        assert!(ber::encode_at_end(&1.5, Rules::Der, &mut vec![0; len]).is_err());
    }
    assert_eq!(ber::encode_at_end(&1.5, Rules::Der, &mut [0; 5]).unwrap(), [9, 3, 0x80, 0xff, 3]);
}

/// Each value alone and in a vector, truncated at every length, under both rules.
fn round_trip<T>(value: &T)
where
    T: EncodeContents + for<'a> Decode<'a> + PartialEq + std::fmt::Debug + Clone,
{
    let many = vec![value.clone(); 3];
    let bytes = to_vec(&many, Rules::Der).unwrap();
    for rules in [Rules::Ber, Rules::Der] {
        assert_eq!(from_bytes::<Vec<T>>(&bytes, rules).as_ref(), Ok(&many));
        for len in 0..bytes.len() {
            assert!(from_bytes::<Vec<T>>(&bytes[..len], rules).is_err(), "{len}");
        }
    }
    let mut tagged = [0; 1000];
    let mut to = ber::Encoder::new(&mut tagged, Rules::Der);
    to.implicit(Tag::context(40), value).unwrap();
    let mut contents = [0; 1000];
    let mut alone = ber::Encoder::new(&mut contents, Rules::Der);
    value.encode_contents(&mut alone).unwrap();
    let (start, alone) = (to.start(), alone.start());
    let (tagged, contents) = (&tagged[start..], &contents[alone..]);
    assert_eq!(tagged[..2], [if T::CONSTRUCTED { 0xbf } else { 0x9f }, 40]);
    assert!(tagged.ends_with(contents));
}

proptest! {
    #[test]
    fn values_round_trip(shift in 0u32..64, value: i64, real: f64, bytes in proptest::collection::vec(any::<u8>(), 0..200),
                         text in "[A-Za-z0-9 ]{0,60}", ints in proptest::collection::vec(any::<i64>(), 0..50)) {
        round_trip(&(value >> shift));
        round_trip(&((value >> shift) as u64));
        round_trip(&(value as i16));
        round_trip(&(value as u32));
        if !real.is_nan() {
            round_trip(&real);
        }
        round_trip(&(value < 0));
        let ints: Vec<i64> = ints.iter().map(|int| int >> shift).collect();
        round_trip(&ints);
        let octets = Octets::from(bytes.clone());
        let encoded = to_vec(&octets, Rules::Der).unwrap();
        prop_assert_eq!(from_bytes::<Octets>(&encoded, Rules::Der).unwrap(), octets);
        let strings = vec![PrintableString::new(text.as_bytes()).unwrap(); 3];
        let encoded = to_vec(&strings, Rules::Der).unwrap();
        prop_assert_eq!(from_bytes::<Vec<PrintableString>>(&encoded, Rules::Der).unwrap(), strings);
        let integer = Integer::from_be_bytes(&bytes);
        let encoded = to_vec(&integer, Rules::Der).unwrap();
        prop_assert_eq!(from_bytes::<Integer>(&encoded, Rules::Der).unwrap(), integer);
    }

    #[test]
    fn any_bytes_decode_or_err(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = from_bytes::<Any>(&bytes, Rules::Ber);
        let _ = from_bytes::<Vec<i64>>(&bytes, Rules::Ber);
        let _ = from_bytes::<Vec<Utf8String>>(&bytes, Rules::Ber);
        let mut one = vec![3, bytes.len() as u8];
        one.extend(&bytes);
        let _ = from_bytes::<BitString>(&one, Rules::Ber);
        one[0] = 9;
        // One that is not decimal, nor has more bits than there is room for, is written as it was.
        let binary = bytes.first().is_none_or(|first| first & 0xc0 != 0) && bytes.len() <= 8;
        if let Ok(value) = from_bytes::<f64>(&one, Rules::Der) && binary && value.is_normal() {
            prop_assert_eq!(&to_vec(&value, Rules::Der).unwrap(), &one);
        }
    }

    #[test]
    fn sets_are_sorted(ints in proptest::collection::vec(any::<i32>(), 0..20)) {
        let set: SetOf<i32> = ints.into_iter().collect();
        let encoded = to_vec(&set, Rules::Der).unwrap();
        let back = from_bytes::<SetOf<i32>>(&encoded, Rules::Der).unwrap();
        let mut encodings: Vec<Vec<u8>> = set.iter().map(|int| to_vec(int, Rules::Der).unwrap()).collect();
        encodings.sort();
        prop_assert!(encoded.ends_with(&encodings.concat()));
        prop_assert_eq!(back.len(), set.len());
    }
}

/// The indefinite form has end-of-contents octets for a length, at every level, and decodes as the same; DER has none.
#[test]
fn indefinite_lengths_on_request() {
    use fusewire_codec::ber::Encoder;
    let value = vec![vec![1i64, -2], vec![], vec![300]];
    let mut room = [0xaa; 64];
    let mut encoder = Encoder::new(&mut room, Rules::Ber).indefinite();
    fusewire_codec::ber::Encode::encode(&value, &mut encoder).unwrap();
    let start = encoder.start();
    let bytes = &room[start..];
    let expected =
        b"\x30\x80\x30\x80\x02\x01\x01\x02\x01\xfe\0\0\x30\x80\0\0\x30\x80\x02\x02\x01\x2c\0\0\0\0";
    assert_eq!(bytes, expected);
    assert_eq!(from_bytes::<Vec<Vec<i64>>>(bytes, Rules::Ber).unwrap(), value);
    from_bytes::<Vec<Vec<i64>>>(bytes, Rules::Der).unwrap_err();

    let der = to_vec(&value, Rules::Der).unwrap();
    let mut room = [0; 64];
    let mut encoder = Encoder::new(&mut room, Rules::Der).indefinite();
    fusewire_codec::ber::Encode::encode(&value, &mut encoder).unwrap();
    let start = encoder.start();
    assert_eq!(room[start..], der);

    // An explicit tag, and one of several octets.
    let mut room = [0; 32];
    let mut encoder = Encoder::new(&mut room, Rules::Ber).indefinite();
    encoder.explicit(Tag::application(1000), &true).unwrap();
    let start = encoder.start();
    assert_eq!(&room[start..], b"\x7f\x87\x68\x80\x01\x01\xff\0\0");
    for len in 0..9 {
        let mut room = [0; 9];
        let mut encoder = Encoder::new(&mut room[..len], Rules::Ber).indefinite();
        encoder.explicit(Tag::application(1000), &true).unwrap_err();
    }
}

/// Many arrays of indefinite length, each of which might go on to the end of the message, reserve for what they have.
#[test]
fn indefinite_arrays_reserve_for_what_they_have() {
    let inner = |element: &[u8]| [b"\x30\x80", element, b"\0\0"].concat();
    let outer = |inner: Vec<u8>| [b"\x30\x80", &*inner.repeat(20_000), b"\0\0"].concat();
    let integers = outer(inner(b"\x02\x01\x05"));
    let integers: Vec<Vec<i64>> = from_bytes(&integers, Rules::Ber).unwrap();
    assert!(integers.len() == 20_000 && integers.iter().all(|one| one.capacity() <= 16));
    let booleans = outer(inner(b"\x01\x01\xff"));
    let booleans: Vec<Vec<bool>> = from_bytes(&booleans, Rules::Ber).unwrap();
    assert!(booleans.len() == 20_000 && booleans.iter().all(|one| one.capacity() <= 16));
    // As many as there are, all the same.
    let long = inner(&b"\x02\x01\x05".repeat(1000));
    assert_eq!(from_bytes::<Vec<i64>>(&long, Rules::Ber).unwrap(), vec![5; 1000]);
}
