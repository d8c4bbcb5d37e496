//! OER and COER: what decodes is encoded; what COER takes is encoded as it was.
use fusewire_codec::oer::{Decode, Decoder, Encode, Rules, from_bytes, to_vec};
use fusewire_codec::types::{BitString, Integer, Octets, Oid, PrintableString, UtcTime};
use fusewire_codec::{Limits, SliceSource};

/// Runs one input: the first byte chooses a type.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    match first % 10 {
        0 => each::<Vec<i64>>(data),
        1 => each::<Vec<Integer<'_>>>(data),
        2 => each::<Vec<Vec<u16>>>(data),
        3 => each::<Vec<PrintableString<'_>>>(data),
        4 => each::<Vec<Octets<'_>>>(data),
        5 => each::<Vec<BitString<'_>>>(data),
        6 => each::<Vec<Vec<bool>>>(data),
        7 => each::<Vec<Oid<'_>>>(data),
        8 => each::<Vec<UtcTime<'_>>>(data),
        _ => parts(data),
    }
}

/// What structures are made of.
fn parts(data: &[u8]) {
    for rules in [Rules::Oer, Rules::Coer] {
        let decoder = || Decoder::new(SliceSource::new(data), rules, Limits::default());
        let _ = decoder().tag();
        let _ = decoder().additions();
        let _ = decoder().presence(13);
        let _ = decoder().enumerated();
        let _ = decoder().natural();
        let _ = decoder().counted(f64::decode);
    }
}

fn each<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(data: &'a [u8]) {
    for rules in [Rules::Oer, Rules::Coer] {
        match from_bytes::<T>(data, rules) {
            Ok(value) => {
                let bytes = to_vec(&value).expect("what was decoded encodes");
                if rules == Rules::Coer {
                    assert_eq!(bytes, data, "one encoding for each value");
                }
            }
            Err(error) => assert!(error.offset() <= data.len(), "{error}"),
        }
    }
}

/// A value of each type.
pub fn seeds() -> Vec<Vec<u8>> {
    let encoded: [&[u8]; 10] = [
        b"\x01\x03\x01\x05\x02\xff\x00\x03\x01\x00\x00",
        b"\x01\x01\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09",
        b"\x01\x01\x01\x02\x00\x01\x00\x02",
        b"\x01\x01\x03abc",
        b"\x01\x02\x00\x81\x01x",
        b"\x01\x01\x02\x05\xa0",
        b"\x01\x01\x01\x02\xff\x00",
        b"\x01\x01\x03\x88\x37\x03",
        b"\x01\x01\x0d910517103015Z",
        b"\x7f\x81\x48\x02\x06\x80",
    ];
    (0..).zip(encoded).map(|(kind, bytes)| [&[kind], bytes].concat()).collect()
}
