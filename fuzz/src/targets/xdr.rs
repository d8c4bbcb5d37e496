//! XDR: what decodes is encoded as it was.
use fusewire_codec::types::Octets;
use fusewire_codec::xdr::{Decode, Decoder, Encode, Encoder};
use fusewire_codec::{Error, Limits, Sink, SliceSource, Source};

/// Something of everything.
#[derive(Debug, PartialEq)]
enum Message<'a> {
    Numbers { ints: Vec<i32>, hypers: Vec<u64>, doubles: Vec<u64> },
    Strings(Vec<Octets<'a>>),
    List(Option<Box<Node>>),
    Fixed { opaque: [u8; 5], flag: bool, words: [u32; 3] },
}

#[derive(Debug, PartialEq)]
struct Node {
    value: i64,
    next: Option<Box<Node>>,
}

impl Encode for Node {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.hyper(self.value)?;
        self.next.encode(to)
    }
}

impl<'a> Decode<'a> for Node {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(Node { value: from.hyper()?, next: from.field("next", Decode::decode)? })
    }
}

impl Encode for Message<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        match self {
            Message::Numbers { ints, hypers, doubles } => {
                to.uint(0)?;
                to.array(ints, 1000)?;
                to.array(hypers, 1000)?;
                to.array(doubles, 1000)
            }
            Message::Strings(strings) => {
                to.uint(1)?;
                to.array_of(strings, 100, |to, string| to.opaque(string, 50))
            }
            Message::List(list) => {
                to.uint(2)?;
                list.encode(to)
            }
            Message::Fixed { opaque, flag, words } => {
                to.uint(3)?;
                to.opaque_fixed(opaque)?;
                to.bool(*flag)?;
                to.array_fixed(words)
            }
        }
    }
}

impl<'a> Decode<'a> for Message<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(match from.enumeration("message", |n| (n < 4).then_some(n))? {
            0 => Message::Numbers {
                ints: from.array(1000)?,
                hypers: from.array(1000)?,
                doubles: from.array(1000)?,
            },
            1 => Message::Strings(from.array_of(100, |from| from.octets(50))?),
            2 => Message::List(Decode::decode(from)?),
            _ => Message::Fixed {
                opaque: from.opaque_fixed()?,
                flag: from.bool()?,
                words: from.array_fixed()?,
            },
        })
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut from = Decoder::new(SliceSource::new(data), Limits::default());
    match Message::decode(&mut from) {
        Ok(message) => {
            let mut to = Encoder::new(Vec::new());
            message.encode(&mut to).expect("what was decoded encodes");
            assert_eq!(to.into_inner(), &data[..from.position()], "one encoding for each value");
        }
        Err(error) => assert!(error.offset() <= data.len(), "{error}"),
    }
}

/// A message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let node = |value, next| Some(Box::new(Node { value, next }));
    let messages = [
        Message::Numbers { ints: vec![1, -1], hypers: vec![5], doubles: vec![] },
        Message::Strings(vec![Octets::new(b"abc"), Octets::new(b"")]),
        Message::List(node(1, node(2, None))),
        Message::Fixed { opaque: [1; 5], flag: true, words: [1, 2, 3] },
    ];
    let encoded = messages.iter().map(|message| {
        let mut to = Encoder::new(Vec::new());
        message.encode(&mut to).expect("encodes");
        to.into_inner()
    });
    encoded.collect()
}
