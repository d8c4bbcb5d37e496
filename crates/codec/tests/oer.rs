//! OER and COER: forms of X.696, round trips, and that decoding is total.

use fusewire_codec::ber::Tag;
use fusewire_codec::oer::{
    Decode, Decoder, Encode, Encoder, Rules, from_bytes, to_canonical_vec, to_vec,
};
use fusewire_codec::types::{Any, BitString, Integer, Octets, Oid, PrintableString, UtcTime};
use fusewire_codec::{Limits, Problem, SliceSource};
use proptest::prelude::*;

fn hex(value: &impl Encode) -> String {
    to_vec(value).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn forms_of_the_standard() {
    assert_eq!(hex(&true), "ff");
    assert_eq!(hex(&7u8), "07");
    assert_eq!(hex(&-2i16), "fffe");
    assert_eq!(hex(&70_000u32), "00011170");
    assert_eq!(hex(&0i64), "0100");
    assert_eq!(hex(&128i64), "020080");
    assert_eq!(hex(&-129i64), "02ff7f");
    assert_eq!(hex(&i64::MIN), "088000000000000000");
    assert_eq!(hex(&Octets::new(b"abc")), "03616263");
    assert_eq!(&to_vec(&Octets::new(&[0; 300])).unwrap()[..3], [0x82, 1, 44]);
    assert_eq!(hex(&BitString::new(&[0xa0], 5).unwrap()), "0205a0");
    assert_eq!(hex(&Oid::from_arcs(&[2, 999, 3]).unwrap()), "03883703");
    assert_eq!(hex(&1.5f64), "0380ff03");
    assert_eq!(hex(&vec![1i64, -1]), "0102010101ff");
    assert_eq!(hex(&vec![1u16, 2]), "010200010002");
    let mut to = Encoder::new(Vec::new());
    to.tag(Tag::context(2)).unwrap();
    to.tag(Tag::application(200)).unwrap();
    to.enumerated(5).unwrap();
    to.enumerated(-1).unwrap();
    to.enumerated(200).unwrap();
    to.natural(255).unwrap();
    to.natural(256).unwrap();
    to.presence(0b101, 3).unwrap();
    to.additions(0b10, 2).unwrap();
    to.counted(|to| 9u8.encode(to)).unwrap();
    to.binary64(1.0).unwrap();
    to.binary32(1.0).unwrap();
    let bytes = to.into_inner();
    let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        written,
        "827f81480581ff8200c801ff020100a00206800109\
        3ff00000000000003f800000"
    );
    let mut from = Decoder::new(SliceSource::new(&bytes), Rules::Coer, Limits::default());
    assert_eq!(from.tag().unwrap(), Tag::context(2));
    assert_eq!(from.tag().unwrap(), Tag::application(200));
    assert_eq!([5, -1, 200].map(|_| from.enumerated().unwrap()), [5, -1, 200]);
    assert_eq!([from.natural().unwrap(), from.natural().unwrap()], [255, 256]);
    assert_eq!(from.presence(3).unwrap(), 0b101);
    assert_eq!(from.additions().unwrap(), (1 << 63, 2));
    assert_eq!(from.counted(u8::decode).unwrap(), 9);
    assert_eq!((from.binary64().unwrap(), from.binary32().unwrap()), (1.0, 1.0));
    from.finish().unwrap();
}

#[test]
fn what_coer_refuses_oer_may_take() {
    fn refused<'a, T: Decode<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8], value: T) {
        assert_eq!(from_bytes::<T>(bytes, Rules::Oer).unwrap(), value);
        let error = from_bytes::<T>(bytes, Rules::Coer).unwrap_err();
        assert!(matches!(error.problem(), Problem::NotCanonical(_)), "{error}");
    }
    refused(&[1], true);
    refused(&[2, 0, 1], 1i64);
    refused(&[0x81, 1, 1], 1i64);
    refused(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 5], 5i64);
    refused(&[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7], Octets::new(&[7]));
    refused(&[3, 0x80, 0, 2], 2.0);
    for bad in [&[][..], &[0], &[0x80], &[0xff], &[9, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 1, 1]] {
        assert!(from_bytes::<i64>(bad, Rules::Oer).is_err(), "{bad:x?}");
    }
    let error = from_bytes::<Vec<bool>>(&[2, 0xff, 0xff], Rules::Oer).unwrap_err();
    assert_eq!(*error.problem(), Problem::Truncated { needed: 1, left: 0 }, "{error}");
}

proptest! {
    #[test]
    fn values_round_trip(shift in 0u32..64, mut ints in proptest::collection::vec(any::<i64>(), 0..100),
                         text in "[A-Za-z0-9 ]{0,200}", wide in proptest::collection::vec(any::<u8>(), 1..40)) {
        ints.iter_mut().for_each(|int| *int >>= shift);
        for rules in [Rules::Oer, Rules::Coer] {
            let bytes = to_vec(&ints).unwrap();
            prop_assert_eq!(&from_bytes::<Vec<i64>>(&bytes, rules).unwrap(), &ints);
            for len in 0..bytes.len() {
                prop_assert!(from_bytes::<Vec<i64>>(&bytes[..len], rules).is_err());
            }
            let one_by_one: Vec<u8> = ints.iter().flat_map(|int| to_vec(int).unwrap()).collect();
            prop_assert!(bytes.ends_with(&one_by_one));
            let narrow: Vec<i32> = ints.iter().map(|int| *int as i32).collect();
            prop_assert_eq!(&from_bytes::<Vec<i32>>(&to_vec(&narrow).unwrap(), rules).unwrap(), &narrow);
            let reals: Vec<f64> = ints.iter().map(|int| *int as f64 / 3.0).collect();
            prop_assert_eq!(&from_bytes::<Vec<f64>>(&to_vec(&reals).unwrap(), rules).unwrap(), &reals);
            let strings = vec![PrintableString::new(text.as_bytes()).unwrap(); 3];
            let bytes = to_vec(&strings).unwrap();
            prop_assert_eq!(&from_bytes::<Vec<PrintableString>>(&bytes, rules).unwrap(), &strings);
            let integer = Integer::from_be_bytes(&wide);
            let bytes = to_vec(&integer).unwrap();
            prop_assert_eq!(&from_bytes::<Integer>(&bytes, rules).unwrap(), &integer);
        }
    }

    #[test]
    fn any_bytes_decode_or_err(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = from_bytes::<Vec<i64>>(&bytes, Rules::Oer);
        let _ = from_bytes::<Vec<Vec<BitString>>>(&bytes, Rules::Oer);
        let _ = from_bytes::<Any>(&bytes, Rules::Coer);
        let _ = from_bytes::<Vec<f64>>(&bytes, Rules::Coer);
        let _ = Decoder::new(SliceSource::new(&bytes), Rules::Oer, Limits::default()).tag();
        let _ = Decoder::new(SliceSource::new(&bytes), Rules::Oer, Limits::default()).additions();
    }
}

/// Also within an addition, which is encoded apart.
#[test]
fn canonical_encoders_refuse_other_times() {
    let time = UtcTime::try_from("2402292359Z").expect("a time");
    assert!(to_vec(&time).is_ok());
    assert!(to_canonical_vec(&time).is_err());
    let mut encoder = Encoder::canonical(Vec::new());
    assert!(encoder.counted(|to| time.encode(to)).is_err());
    let time = UtcTime::try_from("240229235958Z").expect("a time");
    assert_eq!(to_canonical_vec(&time), to_vec(&time));
}
