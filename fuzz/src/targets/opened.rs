//! Values that are unmarshalled in the pass that opens their record, in each syntax: what a peer sealed that says
//! anything at all, and records that somebody else has changed. What opening gives is what decoding the opened body
//! gives; nothing is left of what is not genuine or no value.
use super::mpdu::generated::mpdu::MPDU;
use super::record::{CIPHERS, data_pass, mutate};
use crate::Choices;
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::pipeline::Placed;
use fusewire_codec::{lws, oer, xdr};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::RecordParams;
use fusewire_session::{RecordReceiver, RecordSender, RecordType, Swap};

const BODY_LEN_MAX: u32 = 1 << 16;

/// A value with strings, lists and what is OPTIONAL.
type Value = Vec<MPDU<'static>>;

/// What may be seen of a record: whether it opened, whether what it says is of the shape, and what was unmarshalled.
struct Seen<T> {
    is_open: bool,
    has_shape: bool,
    value: T,
}

/// Opens a record into this memory.
type Open<T> = fn(&mut RecordReceiver, &[u8], T) -> Seen<T>;

/// One syntax: how a record is opened into a value and into memory for numbers, what an opened body says as each, and
/// how they are written.
struct Syntax {
    open: fn(&mut RecordReceiver, &[u8]) -> Seen<Option<Value>>,
    is: fn(&[u8], Option<&Value>) -> bool,
    open_numbers: Open<Vec<i32>>,
    numbers: fn(&[u8]) -> Option<Vec<i32>>,
    encoded: fn(&Value) -> Vec<u8>,
    encoded_numbers: fn(&Vec<i32>) -> Vec<u8>,
}

macro_rules! syntaxes {
    ($($name:ident: $syntax:ident $(::<$word:ty>)?, |$bytes:ident| $decoded:expr;)*) => {$(
        const $name: Syntax = Syntax {
            open: |receiver, record| {
                let mut value = None::<Value>;
                let mut placed = Placed::$syntax$(::<$word>)?(&mut value);
                let is_open = receiver.open_message(0, record, &mut placed, |_| true).is_ok();
                let has_shape = placed.finish().is_ok();
                Seen { is_open, has_shape, value }
            },
            is: |$bytes, value: Option<&Value>| $decoded.ok().as_ref() == value,
            open_numbers: |receiver, record, mut value| {
                let mut placed = Placed::$syntax$(::<$word>)?(&mut value[..]);
                let is_open = receiver.open_message(0, record, &mut placed, |_| true).is_ok();
                let has_shape = placed.finish().is_ok();
                Seen { is_open, has_shape, value }
            },
            numbers: |$bytes| $decoded.ok(),
            encoded: |value| $syntax::to_vec$(::<$word, _>)?(value).expect("it encodes"),
            encoded_numbers: |value| $syntax::to_vec$(::<$word, _>)?(value).expect("it encodes"),
        };
    )*};
}

syntaxes! {
    LWS_16: lws::<u16>, |bytes| lws::from_bytes::<u16, _>(bytes);
    LWS_32: lws::<u32>, |bytes| lws::from_bytes::<u32, _>(bytes);
    LWS_64: lws::<u64>, |bytes| lws::from_bytes::<u64, _>(bytes);
    OER: oer, |bytes| oer::from_bytes(bytes, oer::Rules::Oer);
    XDR: xdr, |bytes| xdr::from_bytes(bytes);
}

/// LWS: the first byte chooses the word.
pub fn lws(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    run(&[LWS_16, LWS_32, LWS_64][usize::from(first) % 3], data);
}

/// OER.
pub fn oer(data: &[u8]) {
    run(&OER, data);
}

/// XDR.
pub fn xdr(data: &[u8]) {
    run(&XDR, data);
}

/// Cipher, execution and level, what the record is changed by, the shape that the receiver expects; and all the rest is
/// the body.
fn run(syntax: &Syntax, data: &[u8]) {
    let mut choices = Choices::new(data);
    let cipher = CIPHERS[usize::from(choices.u8()) % CIPHERS.len()];
    let data_pass = data_pass(choices.u8());
    let (shape, room) = (choices.u8(), choices.u8());
    let mut changes = Choices::new(choices.bytes(8));
    let body = choices.rest();
    let body = &body[..body.len().min(BODY_LEN_MAX as usize)];
    let params = RecordParams::new(cipher, Swap::None, BODY_LEN_MAX, data_pass);
    let secret = || TrafficSecret::from_bytes([0x5a; 32]);
    let mut sender = RecordSender::new(params, secret(), 0).expect("an epoch holds a record");
    let mut receiver = RecordReceiver::new(params, secret(), 0).expect("as the sender");
    let mut record = vec![0; sender.record_len(body.len())];
    sender.seal(0, RecordType::Adu, body, &mut record).expect("there is room");
    let sealed = record.clone();
    if shape & 0x80 != 0 {
        mutate(&mut changes, 0, &mut record);
    }
    let is_genuine = record == sealed;
    let (is_open, says) = if shape & 1 == 0 {
        let seen = (syntax.open)(&mut receiver, &record);
        assert_eq!(seen.has_shape, seen.value.is_some(), "a value is there, or an error");
        let says = !is_genuine || (syntax.is)(body, seen.value.as_ref());
        (seen.is_open, says)
    } else {
        let seen = (syntax.open_numbers)(&mut receiver, &record, vec![0x5a; room.into()]);
        let wanted = (syntax.numbers)(body).filter(|numbers| numbers.len() == usize::from(room));
        assert!(seen.has_shape || seen.value.iter().all(|n| *n == 0), "something of it is left");
        let says = !is_genuine || wanted == seen.has_shape.then_some(seen.value);
        (seen.is_open, says)
    };
    assert!(says, "opening says something else than decoding");
    match is_genuine {
        true => assert!(is_open, "a sealed record was refused"),
        false => assert!(!is_open || cipher.tag_len == 0, "a forged record was opened"),
    }
}

/// LWS of each word.
pub fn lws_seeds() -> Vec<Vec<u8>> {
    let words = (0..).zip([LWS_16, LWS_32, LWS_64]);
    words
        .flat_map(|(word, syntax)| {
            seeds(&syntax).into_iter().map(move |seed| [&[word], &seed[..]].concat())
        })
        .collect()
}

/// OER.
pub fn oer_seeds() -> Vec<Vec<u8>> {
    seeds(&OER)
}

/// XDR.
pub fn xdr_seeds() -> Vec<Vec<u8>> {
    seeds(&XDR)
}

/// A short message and some numbers, whole and cut; the same as two records that were changed.
fn seeds(syntax: &Syntax) -> Vec<Vec<u8>> {
    let mpdus: Value = ber::from_bytes(include_bytes!("../../mpdu.ber"), Rules::Ber).expect("it");
    let numbers: Vec<i32> = (0..40i32).map(|i| i.wrapping_mul(77_777_777) % 1_000_003).collect();
    let (value, array) = ((syntax.encoded)(&mpdus), (syntax.encoded_numbers)(&numbers));
    let with = |head: [u8; 12], body: &[u8]| [&head[..], body].concat();
    vec![
        with([0; 12], &value),
        with([1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &value[..value.len() / 2]),
        with([0, 0, 1, 40, 0, 0, 0, 0, 0, 0, 0, 0], &array),
        with([2, 4, 1, 41, 0, 0, 0, 0, 0, 0, 0, 0], &array),
        with([0, 0, 0x80, 0, 0, 0, 30, 4, 3, 0, 0, 0], &value),
        with([1, 16, 0x81, 40, 0, 0, 50, 0, 0, 0, 0, 0], &array),
    ]
}
