//! Records whose bodies are marshalled and unmarshalled in the pass: the bytes that the marshalled body has, and
//! nothing shown of what is not genuine.

mod ends;

use fusewire_base::Sum;
use fusewire_codec::lws;
use fusewire_codec::pipeline::{Message, Placed};
use fusewire_codec::types::{Octets, PrintableString};
use fusewire_codec::{Error as CodecError, Problem, Sink, Source, oer, xdr};
use fusewire_session::record::RecordParams;
use fusewire_session::{
    Cipher, DataPass, Error, Execution, Level, Marshal, Misuse, RecordReceiver, RecordSender,
    RecordType, Swap,
};
use proptest::prelude::*;

const CIPHERS: [Cipher; 5] = [
    Cipher::AES_256_GCM,
    Cipher::CHACHA20_POLY1305,
    Cipher::NONE,
    Cipher::PES,
    Cipher::SAFER_K64.with(1).unwrap(),
];

fn pair(cipher: Cipher, element: Swap, data_pass: DataPass) -> (RecordSender, RecordReceiver) {
    ends::pair(RecordParams::new(cipher, element, 1 << 20, data_pass), 0)
}

/// A message with scalars, strings and arrays of every width, as the compiler writes it.
#[derive(Debug, PartialEq)]
struct Sample<'a> {
    id: i64,
    name: PrintableString<'a>,
    octets: Octets<'a>,
    shorts: Vec<i16>,
    reals: Vec<f64>,
    wide: Vec<i64>,
}

macro_rules! forwards {
    ($($syntax:ident $([$word:ident])?;)*) => {$(
        impl $syntax::Encode for Sample<'_> {
            fn encode<S: Sink $(, $word: $syntax::Word)?>(
                &self,
                to: &mut $syntax::Encoder<S $(, $word)?>,
            ) -> Result<(), CodecError> {
                self.id.encode(to)?;
                self.name.encode(to)?;
                self.octets.encode(to)?;
                self.shorts.encode(to)?;
                self.reals.encode(to)?;
                self.wide.encode(to)
            }
        }

        impl<'a> $syntax::Decode<'a> for Sample<'a> {
            fn decode<S: Source<'a> $(, $word: $syntax::Word)?>(
                from: &mut $syntax::Decoder<S $(, $word)?>,
            ) -> Result<Self, CodecError> {
                Ok(Sample {
                    id: $syntax::Decode::decode(from)?,
                    name: $syntax::Decode::decode(from)?,
                    octets: $syntax::Decode::decode(from)?,
                    shorts: $syntax::Decode::decode(from)?,
                    reals: $syntax::Decode::decode(from)?,
                    wide: $syntax::Decode::decode(from)?,
                })
            }
        }
    )*};
}

forwards! {
    lws [W];
    oer;
    xdr;
}

/// Seals both ways and compares.
fn same<M: Marshal>(data_pass: DataPass, element: Swap, cipher: Cipher, message: &M, body: &[u8]) {
    let (mut one, _) = pair(cipher, element, data_pass);
    let (mut apart, mut receiver) = pair(cipher, element, data_pass);
    assert_eq!(message.marshalled_len(), body.len());
    for _ in 0..2 {
        let offset = one.next_offset();
        let len = one.record_len(body.len());
        let (mut record, mut expected) = (vec![0xaa; len], vec![0xbb; len]);
        let sum = one.seal_message(offset, message, &mut record).unwrap();
        let expected_sum = apart.seal(offset, RecordType::Adu, body, &mut expected).unwrap();
        assert!(record == expected, "{cipher:?} {element:?}: other bytes");
        assert_eq!((sum, sum), (expected_sum, Sum::of(&record).into()));
        let mut opened = vec![0; body.len()];
        receiver.open(offset, &record, &mut opened).unwrap();
        assert_eq!(opened, body);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    #[test]
    fn one_pass_makes_the_record_of_the_marshalled_body(
        id: i64,
        name in "[A-Za-z0-9 ]{0,40}",
        octets in proptest::collection::vec(any::<u8>(), 0..3000),
        shorts in proptest::collection::vec(any::<i16>(), 0..2000),
        reals in proptest::collection::vec(any::<f64>(), 0..600),
        wide in proptest::collection::vec(any::<i64>(), 0..600),
    ) {
        let name = PrintableString::new(name.as_bytes()).unwrap();
        let octets = Octets::new(&octets);
        let value = Sample { id, name, octets, shorts, reals, wide };
        for execution in [Execution::Integrated, Execution::Sequential] {
            let data_pass = DataPass { level: Level::detect(), execution };
            for cipher in CIPHERS {
                for element in [Swap::None, Swap::Bytes16, Swap::Bytes64] {
                    let body = lws::to_vec::<u16, _>(&value).unwrap();
                    same(data_pass, element, cipher, &Message::lws::<u16>(&value).unwrap(), &body);
                    let body = lws::to_vec::<u32, _>(&value).unwrap();
                    same(data_pass, element, cipher, &Message::lws::<u32>(&value).unwrap(), &body);
                    let body = lws::to_vec::<u64, _>(&value).unwrap();
                    same(data_pass, element, cipher, &Message::lws::<u64>(&value).unwrap(), &body);
                    let body = xdr::to_vec(&value).unwrap();
                    same(data_pass, element, cipher, &Message::xdr(&value).unwrap(), &body);
                }
            }
        }
    }
}

#[test]
fn fixed_shapes_are_unmarshalled_in_the_pass() {
    for cipher in CIPHERS {
        let (mut sender, mut receiver) = pair(cipher, Swap::None, DataPass::detect());
        let reals: Vec<f64> = (0..500).map(|i| f64::from(i) / 3.0).collect();
        let message = Message::lws::<u32>(&reals).unwrap();
        let mut record = vec![0; sender.record_len(message.len())];
        let sum = sender.seal_message(0, &message, &mut record).unwrap();

        let mut found = vec![0.0; 500];
        let mut placed = Placed::lws::<u32>(&mut found[..]);
        let opened = receiver.open_message(0, &record, &mut placed, |s| s == sum).unwrap();
        assert_eq!(opened.sum, sum);
        placed.finish().unwrap();
        assert_eq!(found, reals);

        // The sum is not the one that the transport has: it was not for us to see.
        let (_, mut receiver) = pair(cipher, Swap::None, DataPass::detect());
        let mut placed = Placed::lws::<u32>(&mut found[..]);
        receiver.open_message(0, &record, &mut placed, |_| false).unwrap_err();
        placed.finish().unwrap_err();
        assert!(found.iter().all(|real| *real == 0.0));

        // Genuine, but with another number of elements.
        for len in [499, 501] {
            let (_, mut receiver) = pair(cipher, Swap::None, DataPass::detect());
            let mut other = vec![1.0; len];
            let mut placed = Placed::lws::<u32>(&mut other[..]);
            receiver.open_message(0, &record, &mut placed, |_| true).unwrap();
            let error = placed.finish().unwrap_err();
            let wrong =
                matches!(error.problem(), Problem::TooLong { .. } | Problem::TooShort { .. });
            assert!(wrong, "{error}");
            assert!(other.iter().all(|real| *real == 0.0));
        }
    }
}

fn sample(len: i64) -> Sample<'static> {
    Sample {
        id: -len,
        name: PrintableString::new(b"A sample").unwrap(),
        octets: Octets::from((0..len).map(|i| i as u8).collect::<Vec<_>>()),
        shorts: (0..len).map(|i| i as i16 - 77).collect(),
        reals: (0..len).map(|i| i as f64 / 3.0).collect(),
        wide: (0..len).map(|i| i << (i % 60)).collect(),
    }
}

/// Opens `record`, and says what may be seen of it, by the syntax of `message`.
macro_rules! opened {
    ($receiver:expr, $record:expr, $syntax:ident $(::<$word:ty>)?) => {{
        let mut value = None::<Sample<'static>>;
        let mut placed = Placed::$syntax$(::<$word>)?(&mut value);
        let opened = $receiver.open_message(0, $record, &mut placed, |sum| sum == Sum::of($record));
        (opened, placed.finish(), value)
    }};
}

/// What one pass makes of a value is the value again, in each syntax, at each level, by each execution; and nothing is
/// seen of a record that anybody has changed, whichever byte it was.
macro_rules! values {
    ($($test:ident: $syntax:ident $(::<$word:ty>)?;)*) => {$(
        #[test]
        fn $test() {
            for level in Level::available() {
                for (cipher, execution) in CIPHERS.into_iter().flat_map(|cipher| {
                    [(cipher, Execution::Integrated), (cipher, Execution::Sequential)]
                }) {
                    let data_pass = DataPass { level, execution };
                    for len in [0, 1, 40, 700] {
                        let sent = sample(len);
                        let message = Message::$syntax$(::<$word>)?(&sent).unwrap();
                        let (mut sender, mut receiver) = pair(cipher, Swap::None, data_pass);
                        let mut record = vec![0; sender.record_len(message.len())];
                        sender.seal_message(0, &message, &mut record).unwrap();
                        let (opened, shape, value) =
                            opened!(receiver, &record, $syntax$(::<$word>)?);
                        opened.unwrap();
                        shape.unwrap();
                        assert_eq!(value, Some(sent), "{cipher:?} {data_pass:?}");
                    }
                }
            }
            let (mut sender, _) = pair(Cipher::AES_256_GCM, Swap::None, DataPass::detect());
            let sent = sample(30);
            let message = Message::$syntax$(::<$word>)?(&sent).unwrap();
            let mut record = vec![0; sender.record_len(message.len())];
            sender.seal_message(0, &message, &mut record).unwrap();
            for at in 0..record.len() {
                let (_, mut receiver) = pair(Cipher::AES_256_GCM, Swap::None, DataPass::detect());
                record[at] ^= 1 << (at % 8);
                let (opened, shape, value) = opened!(receiver, &record, $syntax$(::<$word>)?);
                opened.unwrap_err();
                assert!(matches!(shape.unwrap_err().problem(), Problem::Missing), "byte {at}");
                assert_eq!(value, None, "byte {at}");
                let cut = &record[..at];
                let (opened, shape, value) = opened!(receiver, cut, $syntax$(::<$word>)?);
                assert!(opened.is_err() && shape.is_err() && value.is_none(), "{at} bytes");
                record[at] ^= 1 << (at % 8);
            }
        }
    )*};
}

values! {
    values_of_lws_16: lws::<u16>;
    values_of_lws_32: lws::<u32>;
    values_of_lws_64: lws::<u64>;
    values_of_oer: oer;
    values_of_xdr: xdr;
}

/// The sender is who it says, and what it says is no value: an error, whatever its lengths say.
#[test]
fn what_is_genuine_and_no_value_is_refused() {
    let bytes = xdr::to_vec(&sample(30)).unwrap();
    for at in 0..bytes.len() {
        let cut = &bytes[..at];
        let mut huge = bytes.clone();
        huge[at..(at + 4).min(bytes.len())].fill(0xff);
        for body in [cut, &huge[..]] {
            let (mut sender, mut receiver) =
                pair(Cipher::AES_256_GCM, Swap::None, DataPass::detect());
            let mut record = vec![0; sender.record_len(body.len())];
            sender.seal(0, RecordType::Adu, body, &mut record).unwrap();
            let (opened, shape, value) = opened!(receiver, &record, xdr);
            opened.unwrap();
            assert_eq!(shape.is_ok(), value.is_some(), "at {at}");
            assert!(body.len() == bytes.len() || value.is_none(), "{at} bytes");
        }
    }
}

/// A header of fixed size, and an array behind it.
#[test]
fn a_header_and_an_array() {
    let (mut sender, mut receiver) = pair(Cipher::AES_256_GCM, Swap::None, DataPass::detect());
    struct Sent(u32, Vec<i32>);
    impl lws::Encode for Sent {
        fn encode<S: Sink, W: lws::Word>(
            &self,
            to: &mut lws::Encoder<S, W>,
        ) -> Result<(), CodecError> {
            self.0.encode(to)?;
            self.1.encode(to)
        }
    }
    let sent = Sent(77, (0..1000).collect());
    let message = Message::lws::<u32>(&sent).unwrap();
    let mut record = vec![0; sender.record_len(message.len())];
    sender.seal_message(0, &message, &mut record).unwrap();
    let mut array = vec![0i32; 1000];
    let mut both = (None::<u32>, &mut array[..]);
    let mut placed = Placed::lws::<u32>(&mut both);
    receiver.open_message(0, &record, &mut placed, |_| true).unwrap();
    placed.finish().unwrap();
    assert_eq!((both.0, array), (Some(77), sent.1));
}

/// A body that is not as long as it says ends the sender: its bytes were under a nonce that must not be used twice.
#[test]
fn a_body_of_another_length_ends_the_sender() {
    struct Liar(usize);
    impl Marshal for Liar {
        fn marshalled_len(&self) -> usize {
            100
        }
        fn marshal(&self, to: &mut fusewire_kernels::message::Sealing<'_>) {
            to.put(&vec![1; self.0]);
        }
    }
    for len in [99, 101, 5000] {
        let (mut sender, _) = pair(Cipher::AES_256_GCM, Swap::None, DataPass::detect());
        let mut record = vec![0xaa; sender.record_len(100)];
        let error = sender.seal_message(0, &Liar(len), &mut record).unwrap_err();
        assert!(matches!(error, Error::Misuse(Misuse::Unfinished)), "{error}");
        let again = sender.seal(0, RecordType::Adu, &[1; 100], &mut record).unwrap_err();
        assert!(matches!(again, Error::Misuse(Misuse::Unfinished)), "{again}");
    }
}
