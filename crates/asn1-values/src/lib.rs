//! Values of ASN.1 types without generated code.
//!
//! [`schema`] has types as modules define them, [`value`] a value of any type as a tree. [`Encoding`] reads and
//! writes values as bytes, [`notation`] is how people do and [`jer`] how JSON does. [`dump`] shows
//! any BER without its module; [`input`] takes it out of PEM or hexadecimal text.
//!
//! ```
//! use fusewire_asn1::{File, Source, names::World};
//! use fusewire_asn1_values::{Encoding, Limits, Schema, notation};
//! use fusewire_codec::ber::Rules;
//!
//! let module = "M DEFINITIONS ::= BEGIN Point ::= SEQUENCE { x INTEGER, y INTEGER OPTIONAL } END";
//! let file = File::parse(0, Source::new("m.asn", module.as_bytes()));
//! let world = World::new([&file]);
//! let mut schema = Schema::new(&world);
//! let point = schema.type_named("M.Point")?;
//! let der = Encoding::Tagged(Rules::Der);
//! let value = der.decode(&schema, point, b"\x30\x03\x02\x01\x05", Limits::default())?;
//! assert_eq!(notation::to_text(&schema, &value, point), "{\n  x 5\n}");
//! assert_eq!(der.encode(&schema, point, &value)?, b"\x30\x03\x02\x01\x05");
//! # Ok::<(), fusewire_asn1_values::Error>(())
//! ```
#![forbid(unsafe_code)]

mod ber;
pub mod characters;
pub mod dump;
mod encoding;
mod error;
mod forward;
pub mod input;
pub mod jer;
mod limits;
pub mod notation;
mod open;
mod real;
pub mod schema;
pub mod value;

pub use fusewire_codec::types::number;

pub use encoding::Encoding;
pub use error::{Error, Problem, Step};
pub use forward::Syntax;
pub use limits::Limits;
pub use schema::Schema;
pub use value::Value;
