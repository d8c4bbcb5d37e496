//! The decoder that is generated for the user message of X.411 (1984): what decodes is encoded and decodes as the
//! same, in BER, DER and LWS; what DER takes is encoded as it was.

use fusewire_codec::ber::{self, Rules};
use fusewire_codec::{Error, lws};
use generated::mpdu::MPDU;

#[allow(dead_code, missing_docs, clippy::all, reason = "generated")]
pub(super) mod generated {
    include!(concat!(env!("OUT_DIR"), "/mpdu.rs"));
}

/// Runs one input: the first byte chooses the encoding.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    match first % 5 {
        0 => basic(data),
        1 => distinguished(data),
        2 => words::<u16>(data),
        3 => words::<u32>(data),
        _ => words::<u64>(data),
    }
}

fn basic(data: &[u8]) {
    match ber::from_bytes::<Vec<MPDU<'_>>>(data, Rules::Ber) {
        Ok(mpdus) => {
            let bytes = ber::to_vec(&mpdus, Rules::Ber).expect("what was decoded encodes");
            let again: Vec<MPDU<'_>> = ber::from_bytes(&bytes, Rules::Ber).expect("decodes again");
            assert_eq!(again, mpdus);
            every_word(&mpdus);
        }
        Err(error) => placed(&error, data),
    }
}

fn distinguished(data: &[u8]) {
    match ber::from_bytes::<Vec<MPDU<'_>>>(data, Rules::Der) {
        Ok(mpdus) => {
            let bytes = ber::to_vec(&mpdus, Rules::Der).expect("what was decoded encodes");
            assert_eq!(bytes, data, "one encoding for each value");
            let basic: Vec<MPDU<'_>> = ber::from_bytes(data, Rules::Ber).expect("DER is BER");
            assert_eq!(basic, mpdus);
        }
        Err(error) => placed(&error, data),
    }
}

fn words<W: lws::Word>(data: &[u8]) {
    match lws::from_bytes::<W, Vec<MPDU<'_>>>(data) {
        Ok(mpdus) => through::<W>(&mpdus),
        Err(error) => placed(&error, data),
    }
}

fn every_word(mpdus: &Vec<MPDU<'_>>) {
    through::<u16>(mpdus);
    through::<u32>(mpdus);
    through::<u64>(mpdus);
}

fn through<W: lws::Word>(mpdus: &Vec<MPDU<'_>>) {
    let bytes = lws::to_vec::<W, _>(mpdus).expect("what was decoded encodes");
    assert_eq!(Ok(bytes.len()), lws::encoded_len::<W, _>(mpdus));
    let again: Vec<MPDU<'_>> = lws::from_bytes::<W, _>(&bytes).expect("decodes again");
    assert_eq!(&again, mpdus);
}

fn placed(error: &Error, data: &[u8]) {
    assert!(error.offset() <= data.len(), "{error}");
}

/// A short message, with what is OPTIONAL and without it, definite and indefinite, in both tag orders of its SET.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = include_bytes!("../../mpdu.ber");
    let mpdus: Vec<MPDU<'_>> = ber::from_bytes(whole, Rules::Ber).expect("the message");
    let der = ber::to_vec(&mpdus, Rules::Der).expect("encodes");
    let words = [
        lws::to_vec::<u16, _>(&mpdus).expect("encodes"),
        lws::to_vec::<u32, _>(&mpdus).expect("encodes"),
        lws::to_vec::<u64, _>(&mpdus).expect("encodes"),
    ];
    [whole.to_vec(), der]
        .into_iter()
        .chain(words)
        .zip(0u8..)
        .map(|(b, k)| [vec![k], b].concat())
        .collect()
}
