//! JER: what decodes is encoded, and decodes as the same; what is no JSON is an error within the input.

use fusewire_codec::ber;
use fusewire_codec::jer::{Decode, Decoder, Encode, from_bytes, to_vec};
use fusewire_codec::types::{Any, BitString, BmpString, Integer, Oid, PrintableString};
use fusewire_codec::{Limits, SliceSource};

use super::mpdu::generated::mpdu::MPDU;

/// Runs one input: the first byte chooses a type.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    match first % 8 {
        0 => each::<Vec<MPDU<'_>>>(data),
        1 => each::<Vec<Integer<'_>>>(data),
        2 => each::<Vec<Vec<u16>>>(data),
        3 => each::<Vec<PrintableString<'_>>>(data),
        4 => each::<Vec<BitString<'_>>>(data),
        5 => each::<Vec<BmpString<'_>>>(data),
        6 => each::<Vec<Oid<'_>>>(data),
        _ => each::<Vec<Any<'_>>>(data),
    }
    let decoder = || Decoder::new(SliceSource::new(data), Limits::default());
    let _ = decoder().real();
    if let Ok(text) = decoder().skip() {
        assert!(std::str::from_utf8(text).is_ok() && text.len() <= data.len());
    }
}

fn each<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(data: &'a [u8]) {
    match from_bytes::<T>(data) {
        Ok(value) => {
            // It lies there as long as what is decoded from it.
            let bytes = to_vec(&value).expect("what was decoded encodes").leak();
            assert_eq!(from_bytes::<T>(bytes).as_ref(), Ok(&value));
        }
        Err(error) => assert!(error.offset() <= data.len(), "{error}"),
    }
}

/// A value of each type.
pub fn seeds() -> Vec<Vec<u8>> {
    let mpdus: Vec<MPDU<'_>> =
        ber::from_bytes(include_bytes!("../../mpdu.ber"), ber::Rules::Ber).expect("the message");
    let mpdus = to_vec(&mpdus).expect("encodes");
    let encoded: [&[u8]; 8] = [
        &mpdus,
        b"[1, -340282366920938463463374607431768211456, {\"octets\":\"00FF\"}]",
        b"[[], [0,65535]]",
        b"[\"a\\u0062\\\"]",
        b"[{\"value\":\"B0\",\"length\":5}]",
        "[\"ä\\ud83d\\ude00\", \"😀\"]".as_bytes(),
        b"[\"2.999.3\", {\"octets\":\"883703\"}]",
        b"[null, {\"octets\":\"0500\"}, {\"a\": [1e-7, true]}]",
    ];
    (0..).zip(encoded).map(|(kind, bytes)| [&[kind], bytes].concat()).collect()
}
