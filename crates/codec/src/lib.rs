//! What generated code calls: values of ASN.1 and XDR types into bytes and back.
//!
//! Every transfer syntax is a module with an encoder, a decoder, and the traits that a type implements for
//! it. A decoder is total: every input gives a value or an [`Error`] that says what was wrong, at which
//! offset and in which part of the value, within the [`Limits`] on depth, size and count. Strings borrow
//! from the input where they lie in one piece; nothing is allocated for a length before the bytes behind it
//! are known to be there, and nothing for an element alone.
//!
//! # BER and DER
//! One pair of traits serves both; [`ber::Rules`] says which. The encoder writes backwards, so a type's
//! components are encoded in reverse order. A type `T` has
//!
//! | trait | who | what |
//! |---|---|---|
//! | [`ber::Encode`], [`ber::Decode`] | every type | the complete encoding |
//! | [`ber::Tagged`] | all but CHOICE and ANY | the outermost tag |
//! | [`ber::EncodeContents`], [`ber::DecodeContents`] | all but CHOICE and ANY | the contents octets; `encode_as` and `decode_as` put another tag in front: IMPLICIT |
//!
//! This is how a generator writes a type, here for
//! ```asn1
//! Example ::= SEQUENCE {
//!     id       INTEGER,
//!     name     PrintableString,
//!     kind     Kind,
//!     scale    [0] IMPLICIT REAL OPTIONAL,
//!     parts    [1] EXPLICIT SEQUENCE OF INTEGER OPTIONAL,
//!     body     Body,
//!     urgent   [4] IMPLICIT BOOLEAN DEFAULT FALSE,
//!     ... }
//! Kind ::= ENUMERATED { small(0), large(1) }
//! Body ::= CHOICE { text [2] IMPLICIT IA5String, inner [3] IMPLICIT Pair }
//! Pair ::= SET { left [0] IMPLICIT INTEGER, right [1] IMPLICIT INTEGER OPTIONAL }
//! ```
//! ```
//! use fusewire_codec::ber::{self, Tag};
//! use fusewire_codec::types::{Ia5String, PrintableString};
//! use fusewire_codec::{Error, Problem};
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Example<'a> {
//!     id: i64,
//!     name: PrintableString<'a>,
//!     kind: Kind,
//!     scale: Option<f64>,
//!     parts: Option<Vec<i64>>,
//!     body: Body<'a>,
//!     urgent: bool,
//! }
//!
//! impl ber::Tagged for Example<'_> {
//!     const TAG: Tag = Tag::SEQUENCE;
//!     const CONSTRUCTED: bool = true;
//! }
//!
//! // These two are the same for every type with a tag of its own.
//! impl ber::Encode for Example<'_> {
//!     fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//!         ber::EncodeContents::encode_as(self, <Self as ber::Tagged>::TAG, to)
//!     }
//! }
//! impl<'a> ber::Decode<'a> for Example<'a> {
//!     fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, Error> {
//!         <Self as ber::DecodeContents>::decode_as(<Self as ber::Tagged>::TAG, from)
//!     }
//!     fn begins_with(tag: Tag) -> bool {
//!         tag == <Self as ber::Tagged>::TAG
//!     }
//! }
//!
//! impl ber::EncodeContents for Example<'_> {
//!     // Last component first. Those that have their DEFAULT are left out.
//!     fn encode_contents(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//!         if self.urgent {
//!             to.implicit(Tag::context(4), &self.urgent)?;
//!         }
//!         ber::Encode::encode(&self.body, to).map_err(|e| e.in_field("body"))?;
//!         if let Some(parts) = &self.parts {
//!             to.explicit(Tag::context(1), parts)?;
//!         }
//!         if let Some(scale) = &self.scale {
//!             to.implicit(Tag::context(0), scale)?;
//!         }
//!         ber::Encode::encode(&self.kind, to)?;
//!         ber::Encode::encode(&self.name, to)?;
//!         ber::Encode::encode(&self.id, to)
//!     }
//! }
//! impl<'a> ber::DecodeContents<'a> for Example<'a> {
//!     fn decode_contents(from: &mut ber::Decoder<'a>, header: ber::Header) -> Result<Self, Error> {
//!         from.constructed(header, |from| {
//!             let value = Example {
//!                 id: from.required("id")?,
//!                 name: from.required("name")?,
//!                 kind: from.required("kind")?,
//!                 scale: from.optional_implicit("scale", Tag::context(0))?,
//!                 parts: from.optional_explicit("parts", Tag::context(1))?,
//!                 body: from.required("body")?,
//!                 // In DER a component that is there must differ from its DEFAULT.
//!                 urgent: from.default_implicit("urgent", Tag::context(4), false)?,
//!             };
//!             from.skip_rest()?; // The extension marker; without one, `constructed` refuses what is left.
//!             Ok(value)
//!         })
//!     }
//! }
//!
//! // ENUMERATED: the number, with the traits of a type that has a tag.
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! enum Kind { Small, Large }
//! # impl ber::Tagged for Kind {
//! #     const TAG: Tag = Tag::ENUMERATED;
//! #     const CONSTRUCTED: bool = false;
//! # }
//! # impl ber::Encode for Kind {
//! #     fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//! #         ber::EncodeContents::encode_as(self, <Self as ber::Tagged>::TAG, to)
//! #     }
//! # }
//! # impl<'a> ber::Decode<'a> for Kind {
//! #     fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, Error> {
//! #         <Self as ber::DecodeContents>::decode_as(<Self as ber::Tagged>::TAG, from)
//! #     }
//! #     fn begins_with(tag: Tag) -> bool {
//! #         tag == <Self as ber::Tagged>::TAG
//! #     }
//! # }
//! impl ber::EncodeContents for Kind {
//!     fn encode_contents(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//!         to.integer_contents(*self as i64)
//!     }
//! }
//! impl<'a> ber::DecodeContents<'a> for Kind {
//!     fn decode_contents(from: &mut ber::Decoder<'a>, header: ber::Header) -> Result<Self, Error> {
//!         match from.integer_contents(header)? {
//!             0 => Ok(Kind::Small),
//!             1 => Ok(Kind::Large),
//!             found => Err(from.error(Problem::Discriminant { found, type_name: "Kind" })),
//!         }
//!     }
//! }
//!
//! // CHOICE: no tag of its own, so complete encodings only.
//! #[derive(Clone, Debug, PartialEq)]
//! enum Body<'a> { Text(Ia5String<'a>), Inner(Pair) }
//! impl ber::Encode for Body<'_> {
//!     fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//!         match self {
//!             Body::Text(text) => to.implicit(Tag::context(2), text),
//!             Body::Inner(inner) => to.implicit(Tag::context(3), inner),
//!         }
//!     }
//! }
//! impl<'a> ber::Decode<'a> for Body<'a> {
//!     fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, Error> {
//!         const TEXT: Tag = Tag::context(2);
//!         const INNER: Tag = Tag::context(3);
//!         match from.peek()? {
//!             TEXT => from.implicit("text", TEXT).map(Body::Text),
//!             INNER => from.implicit("inner", INNER).map(Body::Inner),
//!             _ => Err(from.unknown("Body")),
//!         }
//!     }
//!     fn begins_with(tag: Tag) -> bool {
//!         tag == Tag::context(2) || tag == Tag::context(3)
//!     }
//! }
//!
//! // SET: encoded in the order of the tags, decoded in any.
//! #[derive(Clone, Debug, PartialEq)]
//! struct Pair { left: i64, right: Option<i64> }
//! # impl ber::Tagged for Pair {
//! #     const TAG: Tag = Tag::SET;
//! #     const CONSTRUCTED: bool = true;
//! # }
//! # impl ber::Encode for Pair {
//! #     fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//! #         ber::EncodeContents::encode_as(self, <Self as ber::Tagged>::TAG, to)
//! #     }
//! # }
//! # impl<'a> ber::Decode<'a> for Pair {
//! #     fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, Error> {
//! #         <Self as ber::DecodeContents>::decode_as(<Self as ber::Tagged>::TAG, from)
//! #     }
//! #     fn begins_with(tag: Tag) -> bool {
//! #         tag == <Self as ber::Tagged>::TAG
//! #     }
//! # }
//! impl ber::EncodeContents for Pair {
//!     fn encode_contents(&self, to: &mut ber::Encoder<'_>) -> Result<(), Error> {
//!         if let Some(right) = &self.right {
//!             to.implicit(Tag::context(1), right)?;
//!         }
//!         to.implicit(Tag::context(0), &self.left)
//!     }
//! }
//! impl<'a> ber::DecodeContents<'a> for Pair {
//!     fn decode_contents(from: &mut ber::Decoder<'a>, header: ber::Header) -> Result<Self, Error> {
//!         const LEFT: Tag = Tag::context(0);
//!         const RIGHT: Tag = Tag::context(1);
//!         from.constructed(header, |from| {
//!             // First as they are in DER, which costs what a SEQUENCE does; then whatever is left.
//!             let mut left = from.optional_implicit("left", LEFT)?;
//!             let mut right = from.optional_implicit("right", RIGHT)?;
//!             while from.out_of_order()? {
//!                 match from.peek()? {
//!                     LEFT => from.once(&mut left, "left", |from| ber::DecodeContents::decode_as(LEFT, from))?,
//!                     RIGHT => from.once(&mut right, "right", |from| ber::DecodeContents::decode_as(RIGHT, from))?,
//!                     _ => return Err(from.unknown("Pair")),
//!                 }
//!             }
//!             Ok(Pair { left: left.ok_or_else(|| from.missing("left"))?, right })
//!         })
//!     }
//! }
//!
//! let value = Example {
//!     id: 300,
//!     name: "fuse".try_into().unwrap(),
//!     kind: Kind::Large,
//!     scale: None,
//!     parts: Some(vec![1, -1]),
//!     body: Body::Inner(Pair { left: 7, right: None }),
//!     urgent: false,
//! };
//! let bytes = ber::to_vec(&value, ber::Rules::Der).unwrap();
//! assert_eq!(bytes, b"\x30\x1c\x02\x02\x01\x2c\x13\x04fuse\x0a\x01\x01\
//!     \xa1\x08\x30\x06\x02\x01\x01\x02\x01\xff\xa3\x03\x80\x01\x07");
//! assert_eq!(ber::from_bytes::<Example>(&bytes, ber::Rules::Der).unwrap(), value);
//!
//! let mut broken = bytes.clone();
//! broken[28] = 0;
//! let error = ber::from_bytes::<Example>(&broken, ber::Rules::Ber).unwrap_err();
//! assert_eq!(error.to_string(), "contents are not an INTEGER at offset 29, in body.inner.left");
//! ```
//! In the same manner: EXPLICIT tags of a type itself (`T ::= [5] EXPLICIT U`) are a [`ber::Tagged`] type
//! with `CONSTRUCTED = true` whose contents are the complete encoding of `U`. The Rust type of SEQUENCE OF is
//! `Vec`, of SET OF [`types::SetOf`]; of a value that its type does not constrain to 64 bits
//! [`types::Integer`], which keeps every width.
//!
//! # XDR and LWS
//! [`xdr`] and [`lws`] write forwards into a [`Sink`] and read from a [`Source`]: slices and vectors are both,
//! and so can a pipeline of stages be, which is why both traits can move bytes in small pieces. Components
//! are encoded in order. Arrays of numbers go through [`Sink::put_elements`] and [`Source::take_elements`],
//! which a pipeline gives to its stage for byte order.
//!
//! In LWS the example above is (the types as there, `Kind` and `Pair` left out):
//! ```
//! use fusewire_codec::lws::{self, Word};
//! use fusewire_codec::types::{Ia5String, PrintableString};
//! use fusewire_codec::{Error, Sink, Source};
//!
//! # #[derive(Clone, Debug, PartialEq)]
//! struct Example<'a> {
//!     id: i64,
//!     name: PrintableString<'a>,
//!     scale: Option<f64>,
//!     body: Body<'a>,
//!     urgent: bool,
//! }
//! # #[derive(Clone, Debug, PartialEq)]
//! enum Body<'a> { Text(Ia5String<'a>), Number(i64) }
//!
//! impl lws::Encode for Example<'_> {
//!     fn encode<S: Sink, W: Word>(&self, to: &mut lws::Encoder<S, W>) -> Result<(), Error> {
//!         // One bit each for the extension marker (if there is one), OPTIONAL and DEFAULT, the first highest.
//!         to.presence(u64::from(self.scale.is_some()) << 1 | u64::from(self.urgent), 3)?;
//!         self.id.encode(to)?;
//!         self.name.encode(to)?;
//!         if let Some(scale) = &self.scale {
//!             scale.encode(to)?;
//!         }
//!         self.body.encode(to).map_err(|e| e.in_field("body"))?;
//!         if self.urgent {
//!             self.urgent.encode(to)?;
//!         }
//!         Ok(())
//!     }
//! }
//! impl<'a> lws::Decode<'a> for Example<'a> {
//!     fn decode<S: Source<'a>, W: Word>(from: &mut lws::Decoder<S, W>) -> Result<Self, Error> {
//!         let present = from.presence(3)?;
//!         // `nested` counts the depth: for types that can contain themselves.
//!         let value = Example {
//!             id: from.field("id", lws::Decode::decode)?,
//!             name: from.field("name", lws::Decode::decode)?,
//!             scale: from.optional(present & 2 != 0, "scale", lws::Decode::decode)?,
//!             body: from.field("body", lws::Decode::decode)?,
//!             urgent: from.optional(present & 1 != 0, "urgent", lws::Decode::decode)?.unwrap_or(false),
//!         };
//!         if present & 4 != 0 {
//!             from.skip_additions()?;
//!         }
//!         Ok(value)
//!     }
//! }
//!
//! // CHOICE: the index of the alternative. An ENUMERATED is its number: `to.integer(self as i64)`.
//! impl lws::Encode for Body<'_> {
//!     fn encode<S: Sink, W: Word>(&self, to: &mut lws::Encoder<S, W>) -> Result<(), Error> {
//!         match self {
//!             Body::Text(text) => to.index(0).and_then(|()| text.encode(to)),
//!             Body::Number(number) => to.index(1).and_then(|()| number.encode(to)),
//!         }
//!     }
//! }
//! impl<'a> lws::Decode<'a> for Body<'a> {
//!     fn decode<S: Source<'a>, W: Word>(from: &mut lws::Decoder<S, W>) -> Result<Self, Error> {
//!         match from.index()? {
//!             0 => from.field("text", lws::Decode::decode).map(Body::Text),
//!             1 => from.field("number", lws::Decode::decode).map(Body::Number),
//!             other => Err(from.unknown(other as i64, "Body")),
//!         }
//!     }
//! }
//!
//! let value = Example {
//!     id: 300,
//!     name: "fuse".try_into().unwrap(),
//!     scale: None,
//!     body: Body::Number(-1),
//!     urgent: true,
//! };
//! let bytes = lws::to_vec::<u32, _>(&value).unwrap();
//! assert_eq!(bytes, b"\x20\0\0\0\0\0\x01\x2c\0\0\0\x04fuse\0\0\0\x01\xff\xff\xff\xff\0\0\0\x01");
//! assert_eq!(lws::from_bytes::<u32, Example>(&bytes).unwrap(), value);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "vectors")]
extern crate std;

pub mod ber;
mod blank;
pub mod check;
mod cursor;
mod error;
mod forward;
mod io;
#[cfg(feature = "alloc")]
pub mod jer;
mod limits;
pub mod lws;
pub mod oer;
#[cfg(feature = "pipeline")]
pub mod pipeline;
pub mod types;
#[cfg(feature = "vectors")]
pub mod vectors;
#[cfg(feature = "alloc")]
pub mod xdr;

pub use blank::Blank;
pub use cursor::Cursor;
pub use error::{Error, Problem, Step};
pub use forward::Output;
pub use io::{Length, Sink, SliceSink, SliceSource, Source};
pub use limits::Limits;

/// A loop that can be compiled for other instructions than the rest.
pub(crate) trait Loops {
    /// What comes of it.
    type Output;
    /// Runs it. It is always inlined.
    fn run(self) -> Self::Output;
}

/// Runs a loop over so many elements, with the instructions of this CPU where the crate has them.
#[inline(always)]
pub(crate) fn run<T: Loops>(count: usize, loops: T) -> T::Output {
    #[cfg(feature = "vectors")]
    return vectors::run(count, loops);
    #[cfg(not(feature = "vectors"))]
    {
        let _ = count;
        loops.run()
    }
}
