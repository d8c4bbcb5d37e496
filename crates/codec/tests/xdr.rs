//! XDR: the RFC's own example, every type's bytes, and that decoding is total and bounded.

use fusewire_codec::xdr::{Decode, Decoder, Encode, Encoder, Limits, from_bytes, to_vec};
use fusewire_codec::{Error, Problem, Sink, SliceSink, SliceSource, Source};
use proptest::prelude::*;

const MAX_USER_NAME: u32 = 32;
const MAX_FILE_LEN: u32 = 65535;
const MAX_NAME_LEN: u32 = 255;

/// RFC 4506, section 7.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileType {
    Text,
    Data { creator: Vec<u8> },
    Exec { interpreter: Vec<u8> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    filename: Vec<u8>,
    kind: FileType,
    owner: Vec<u8>,
    data: Vec<u8>,
}

impl Encode for File {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.opaque(&self.filename, MAX_NAME_LEN)?;
        match &self.kind {
            FileType::Text => to.uint(0)?,
            FileType::Data { creator } => {
                to.uint(1)?;
                to.opaque(creator, MAX_NAME_LEN)?;
            }
            FileType::Exec { interpreter } => {
                to.uint(2)?;
                to.opaque(interpreter, MAX_NAME_LEN)?;
            }
        }
        to.opaque(&self.owner, MAX_USER_NAME)?;
        to.opaque(&self.data, MAX_FILE_LEN)
    }
}

impl<'a> Decode<'a> for File {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let filename = from.string(MAX_NAME_LEN)?;
        let kind = from.enumeration("filekind", |n| (n <= 2).then_some(n))?;
        let kind = match kind {
            0 => FileType::Text,
            1 => FileType::Data { creator: from.string(MAX_NAME_LEN)? },
            _ => FileType::Exec { interpreter: from.string(MAX_NAME_LEN)? },
        };
        Ok(File {
            filename,
            kind,
            owner: from.string(MAX_USER_NAME)?,
            data: from.opaque(MAX_FILE_LEN)?,
        })
    }
}

fn sillyprog() -> (File, Vec<u8>) {
    let file = File {
        filename: b"sillyprog".to_vec(),
        kind: FileType::Exec { interpreter: b"lisp".to_vec() },
        owner: b"john".to_vec(),
        data: b"(quit)".to_vec(),
    };
    let mut bytes = vec![0, 0, 0, 9];
    bytes.extend(b"sillyprog\0\0\0");
    bytes.extend([0, 0, 0, 2, 0, 0, 0, 4]);
    bytes.extend(b"lisp");
    bytes.extend([0, 0, 0, 4]);
    bytes.extend(b"john");
    bytes.extend([0, 0, 0, 6]);
    bytes.extend(b"(quit)\0\0");
    (file, bytes)
}

#[test]
fn rfc_4506_section_7_example() {
    let (file, bytes) = sillyprog();
    assert_eq!(bytes.len(), 48);
    assert_eq!(to_vec(&file).unwrap(), bytes);
    assert_eq!(from_bytes::<File>(&bytes).unwrap(), file);
}

#[test]
fn truncation_at_every_length_is_an_error_within_the_input() {
    let (_, bytes) = sillyprog();
    for len in 0..bytes.len() {
        let error = from_bytes::<File>(&bytes[..len]).unwrap_err();
        assert!(matches!(error.problem(), Problem::Truncated { .. }), "{len}: {error}");
        assert!(error.offset() <= len, "{len}: {error}");
    }
    let mut long = bytes.clone();
    long.push(0);
    assert_eq!(from_bytes::<File>(&long).unwrap_err(), Problem::LeftOver { left: 1 }.at(48));
}

#[test]
fn each_illegal_field_is_named_with_its_offset() {
    let (_, bytes) = sillyprog();
    let broken = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        from_bytes::<File>(&bytes).unwrap_err()
    };
    assert_eq!(broken(14, 7), Problem::Fill { found: 7 }.at(14));
    assert_eq!(broken(19, 3), Problem::Discriminant { found: 3, type_name: "filekind" }.at(16));
    assert_eq!(broken(2, 1), Problem::TooLong { found: 265, bound: 255 }.at(0));
    assert_eq!(broken(31, 33), Problem::TooLong { found: 33, bound: 32 }.at(28));
}

#[test]
fn a_length_allocates_nothing_that_is_not_there() {
    let error = from_bytes::<Blob>(&[0x7f, 0xff, 0xff, 0xff, 1, 2]).unwrap_err();
    assert_eq!(error, Problem::Truncated { needed: 0x7fff_ffff, left: 2 }.at(4));
    let error = from_bytes::<Blob>(&[0, 0xff, 0xff, 0xff, 1, 2]).unwrap_err();
    assert_eq!(error, Problem::Truncated { needed: 0xff_ffff, left: 2 }.at(4));
}

#[derive(Debug)]
struct Blob;
impl<'a> Decode<'a> for Blob {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.opaque(u32::MAX).map(|_| Blob)
    }
}

/// The linked list of RFC 4506, section 4.19.
#[derive(Debug)]
struct List(#[allow(dead_code)] Option<Box<List>>);
impl<'a> Decode<'a> for List {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(List(from.optional_data::<List>()?.map(Box::new)))
    }
}

#[test]
fn depth_and_count_are_bounded() {
    let ones: Vec<u8> = [0, 0, 0, 1].repeat(1_000_000);
    let error = from_bytes::<List>(&ones).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooDeep { bound: 32 });
    let mut array = Encoder::new(Vec::new());
    array.array(&[7u32; 100], u32::MAX).unwrap();
    let bytes = array.into_inner();
    let limits = Limits { count: 99, ..Limits::default() };
    let mut decoder = Decoder::new(SliceSource::new(&bytes), limits);
    assert_eq!(decoder.array::<u32>(u32::MAX).unwrap_err(), Problem::TooMany { bound: 99 }.at(0));
    let mut decoder = Decoder::new(SliceSource::new(&bytes), Limits::default());
    assert_eq!(decoder.array::<u32>(u32::MAX).unwrap(), [7; 100]);
}

#[test]
fn a_full_slice_is_an_error() {
    let (file, bytes) = sillyprog();
    for len in 0..bytes.len() {
        let mut room = vec![0; len];
        let error = file.encode(&mut Encoder::new(SliceSink::new(&mut room))).unwrap_err();
        assert!(matches!(error.problem(), Problem::Full { .. }), "{len}: {error}");
    }
}

#[test]
fn numbers_have_the_bytes_of_the_rfc() {
    let mut to = Encoder::new(Vec::new());
    to.int(-2).unwrap();
    to.hyper(-3).unwrap();
    to.float(1.0).unwrap();
    to.double(-2.5).unwrap();
    to.bool(true).unwrap();
    to.opaque_fixed(&[9]).unwrap();
    to.optional_data::<u64>(Some(&5)).unwrap();
    to.array_fixed(&[1i32, -1]).unwrap();
    let bytes = to.into_inner();
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "fffffffefffffffffffffffd3f800000c0040000000000000000000109000000000000010000000000000005\
         00000001ffffffff"
    );
    let mut from = Decoder::new(SliceSource::new(&bytes), Limits::default());
    assert_eq!((from.int().unwrap(), from.hyper().unwrap()), (-2, -3));
    assert_eq!((from.float().unwrap(), from.double().unwrap()), (1.0, -2.5));
    assert!(from.bool().unwrap());
    assert_eq!(from.opaque_fixed().unwrap(), [9]);
    assert_eq!(from.optional_data::<u64>().unwrap(), Some(5));
    assert_eq!(from.array_fixed::<i32, 2>().unwrap(), [1, -1]);
    from.finish().unwrap();
    assert_eq!(from_bytes::<bool>(&[0, 0, 0, 2]).unwrap_err(), Problem::Boolean { found: 2 }.at(0));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_err(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(file) = from_bytes::<File>(&bytes) {
            prop_assert_eq!(to_vec(&file).unwrap(), bytes);
        }
    }

    #[test]
    fn files_round_trip(filename in proptest::collection::vec(any::<u8>(), 0..=255),
                        owner in proptest::collection::vec(any::<u8>(), 0..=32),
                        data in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let file = File { filename, kind: FileType::Text, owner, data };
        let bytes = to_vec(&file).unwrap();
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(from_bytes::<File>(&bytes).unwrap(), file);
    }
}

#[test]
fn a_list_of_optional_data_is_as_long_as_the_count_allows() {
    let numbers: Vec<u32> = (0..40_000).collect();
    let mut encoder = Encoder::new(Vec::new());
    encoder.list_of(&numbers, |to, n| to.uint(*n)).unwrap();
    let bytes = encoder.into_inner();
    assert_eq!(bytes[..12], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    let read = |count| {
        let limits = Limits { count, ..Limits::default() };
        let mut decoder = Decoder::new(SliceSource::new(&bytes), limits);
        let list = decoder.list_of(Decoder::uint)?;
        decoder.finish().map(|()| list)
    };
    assert_eq!(read(40_000).unwrap(), numbers);
    assert_eq!(*read(39_999).unwrap_err().problem(), Problem::TooMany { bound: 39_999 });
}

#[test]
fn fixed_lengths_are_exact() {
    let mut decoder = Decoder::new(SliceSource::new(b"abcde\0\0\0"), Limits::default());
    assert_eq!(decoder.opaque_exact(5).unwrap(), b"abcde");
    let left = decoder.opaque_exact(u32::MAX).unwrap_err();
    assert_eq!(*left.problem(), Problem::Truncated { needed: u32::MAX as usize, left: 0 });
    let mut decoder = Decoder::new(SliceSource::new(b"\0\0\0\x01\0\0\0\x02"), Limits::default());
    assert_eq!(decoder.array_exact(Decoder::int).unwrap(), [1, 2]);
    let encoder = Encoder::new(Vec::new());
    assert!(encoder.exactly(3, 3).is_ok());
    assert_eq!(
        *encoder.exactly(2, 3).unwrap_err().problem(),
        Problem::TooShort { found: 2, bound: 3 }
    );
    assert_eq!(
        *encoder.exactly(4, 3).unwrap_err().problem(),
        Problem::TooLong { found: 4, bound: 3 }
    );
    let mut decoder = Decoder::new(SliceSource::new(b"\0\0\0\x01\xff\0\0\0"), Limits::default());
    assert_eq!(*decoder.utf8(9).unwrap_err().problem(), Problem::Contents("UTF-8"));
}
