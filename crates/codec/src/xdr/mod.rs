//! XDR: External Data Representation (RFC 4506).
//!
//! Everything is big-endian and takes a multiple of four bytes. [`Encoder`] and [`Decoder`] have one method
//! for each type of section 4; [`Encode`] and [`Decode`] are what a message type implements, by hand or by
//! a generator. Constants (4.17) and type definitions (4.18) are the implementing language's own. There is
//! no 128-bit float in Rust, so a quadruple (4.8) is its sixteen bytes.

mod decode;
mod encode;
mod value;

pub use crate::Limits;
pub use decode::{Decode, Decoder, Units, from_bytes};
pub use encode::{Encode, Encoder, to_vec};

/// All items are multiples of this many bytes (RFC 4506, section 3).
pub const UNIT: usize = 4;

/// Zero bytes that follow `len` bytes of opaque data, 0 to 3.
pub const fn fill_len(len: usize) -> usize {
    len.wrapping_neg() % UNIT
}
