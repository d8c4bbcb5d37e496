//! LWS of each word: what decodes is encoded and decodes as the same.
use fusewire_codec::lws::{Decode, Encode, Word, from_bytes, to_vec};
use fusewire_codec::types::{BitString, Integer, Octets, Oid, PrintableString};

/// Runs one input: the first byte chooses a type and a word.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    match first % 3 {
        0 => of::<u16>(first / 3, data),
        1 => of::<u32>(first / 3, data),
        _ => of::<u64>(first / 3, data),
    }
}

fn of<W: Word>(kind: u8, data: &[u8]) {
    match kind % 8 {
        0 => each::<W, Vec<i64>>(data),
        1 => each::<W, Vec<Integer<'_>>>(data),
        2 => each::<W, Vec<Vec<i16>>>(data),
        3 => each::<W, Vec<PrintableString<'_>>>(data),
        4 => each::<W, Vec<Octets<'_>>>(data),
        5 => each::<W, Vec<BitString<'_>>>(data),
        6 => each::<W, Vec<Vec<bool>>>(data),
        _ => each::<W, Vec<Oid<'_>>>(data),
    }
}

fn each<'a, W: Word, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(data: &'a [u8]) {
    match from_bytes::<W, T>(data) {
        Ok(value) => {
            let bytes = to_vec::<W, _>(&value).expect("what was decoded encodes");
            assert!(bytes.len() <= data.len(), "no encoding is longer than ours");
        }
        Err(error) => assert!(error.offset() <= data.len() + 8, "{error}"),
    }
}

/// A value of each type, of 32-bit words; and a wide number of 16-bit words.
pub fn seeds() -> Vec<Vec<u8>> {
    let encoded: [&[u8]; 8] = [
        b"\0\0\0\x02\0\0\0\x01\0\0\0\x05\xff\xff\xff\xff",
        b"\0\0\0\x01\x80\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0",
        b"\0\0\0\x01\0\0\0\x03\0\x01\0\x02\0\x03\0\0",
        b"\0\0\0\x01\0\0\0\x03abc\0",
        b"\0\0\0\x02\0\0\0\0\0\0\0\x04abcd",
        b"\0\0\0\x01\0\0\0\x03\xa0\0\0\0",
        b"\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\0\0\0",
        b"\0\0\0\x01\0\0\0\x03\x2a\x86\x48\0",
    ];
    let words = (0..).zip(encoded).map(|(kind, bytes)| [&[3 * kind + 1], bytes].concat());
    words.chain([b"\0\0\x01\0\x03\x01\0\0\0\0\0".to_vec()]).collect()
}
