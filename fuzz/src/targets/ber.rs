//! BER and DER: what decodes is encoded and decodes as the same; what DER takes is encoded as it was.
use fusewire_codec::Limits;
use fusewire_codec::ber::{Decode, Decoder, Encode, Rules, from_bytes, to_vec};
use fusewire_codec::types::{
    Any, BitString, BmpString, GeneralizedTime, Integer, Octets, Oid, PrintableString, RelativeOid,
    SetOf, UtcTime, Utf8String,
};

/// Runs one input: the first byte chooses a type.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    match first % 16 {
        0 => each::<Vec<i64>>(data),
        1 => each::<Vec<Integer<'_>>>(data),
        2 => reals(data),
        3 => each::<Vec<PrintableString<'_>>>(data),
        4 => each::<Vec<Octets<'_>>>(data),
        5 => each::<Vec<BitString<'_>>>(data),
        6 => each::<SetOf<Oid<'_>>>(data),
        7 => each::<SetOf<Vec<Any<'_>>>>(data),
        8 => each::<Vec<Utf8String<'_>>>(data),
        9 => each::<Vec<UtcTime<'_>>>(data),
        10 => each::<Vec<GeneralizedTime<'_>>>(data),
        11 => each::<Vec<Vec<bool>>>(data),
        12 => each::<Vec<u64>>(data),
        13 => each::<Vec<RelativeOid<'_>>>(data),
        14 => each::<Vec<BmpString<'_>>>(data),
        _ => each::<Any<'_>>(data),
    }
}

/// A REAL may have more bits than the program's: only that it decodes to what it is encoded as.
fn reals(data: &[u8]) {
    for rules in [Rules::Ber, Rules::Der] {
        let Ok(values) = from_bytes::<Vec<f64>>(data, rules) else { continue };
        let bytes = to_vec(&values, Rules::Der).expect("encodes");
        let again = from_bytes::<Vec<f64>>(&bytes, Rules::Der).expect("decodes again");
        let bits = |values: &[f64]| values.iter().map(|real| real.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&again), bits(&values));
    }
}

fn each<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(data: &'a [u8]) {
    for rules in [Rules::Ber, Rules::Der] {
        let mut decoder = Decoder::new(data, rules, Limits::default());
        match T::decode(&mut decoder) {
            Ok(value) => {
                let used = &data[..decoder.position()];
                let bytes = to_vec(&value, rules).expect("what was decoded encodes");
                if rules == Rules::Der {
                    assert_eq!(bytes, used, "one encoding for each value");
                }
            }
            Err(error) => assert!(error.offset() <= data.len(), "{error}"),
        }
    }
}

/// A value of each type.
pub fn seeds() -> Vec<Vec<u8>> {
    let encoded: [&[u8]; 16] = [
        b"\x30\x0a\x02\x01\x05\x02\x02\xff\x00\x02\x01\x00",
        b"\x30\x0b\x02\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09",
        b"\x30\x0d\x09\x03\x80\xff\x03\x09\x00\x09\x04\x0315.",
        b"\x30\x80\x13\x03abc\x33\x05\x04\x03def\x00\x00",
        b"\x30\x80\x24\x80\x04\x01a\x24\x03\x04\x01b\x00\x00\x04\x00\x00\x00",
        b"\x30\x0c\x03\x02\x04\xf0\x23\x06\x03\x01\x00\x03\x01\x00",
        b"\x31\x09\x06\x02\x2a\x03\x06\x03\x88\x37\x03",
        b"\x31\x08\x30\x06\x1f\x81\x00\x01x\x05",
        b"\x30\x04\x0c\x02\xc3\xa9",
        b"\x30\x0f\x17\x0d910517103015Z",
        b"\x30\x14\x18\x1219910517103015.25Z",
        b"\x30\x08\x30\x06\x01\x01\xff\x01\x01\x00",
        b"\x30\x0b\x02\x09\x00\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x30\x05\x0d\x03\xc2\x7b\x03",
        b"\x30\x04\x1e\x02\x00a",
        b"\xbf\x87\x68\x80\x02\x01\x05\x00\x00",
    ];
    (0..).zip(encoded).map(|(kind, bytes)| [&[kind], bytes].concat()).collect()
}
