//! OER and COER (X.696), LWS (`docs/lws.md`) and XDR (RFC 4506): what is written forwards, and mostly without tags.
//!
//! The three have one shape: components in order behind what says which are there, counted additions, counted
//! lists. [`Syntax`] says which is meant; the few places where they differ ask it.

mod layout;
mod read;
mod write;

use crate::error::Error;
use crate::limits::Limits;
use crate::open;
use crate::schema::{Schema, TypeId};
use crate::value::Value;

/// A transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// OER; what is written is COER.
    Oer,
    /// COER: one encoding for each value, and nothing else is read.
    Coer,
    /// LWS of words of so many bytes: 2, 4 or 8.
    Lws(usize),
    /// XDR.
    Xdr,
}

impl Syntax {
    fn is_oer(self) -> bool {
        matches!(self, Syntax::Oer | Syntax::Coer)
    }

    /// Everything takes a multiple of so many bytes.
    fn unit(self) -> usize {
        match self {
            Syntax::Oer | Syntax::Coer => 1,
            Syntax::Lws(word) => word,
            Syntax::Xdr => 4,
        }
    }

    /// Zeros behind so many bytes.
    fn fill(self, len: usize) -> usize {
        len.wrapping_neg() % self.unit()
    }
}

/// Decodes a value that takes up all of `bytes`.
///
/// # Errors
/// The bytes are no encoding of one; in COER also when they are not canonical.
pub fn decode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    bytes: &[u8],
    syntax: Syntax,
    limits: Limits,
) -> Result<Value, Error> {
    let mut value = read::whole(schema, ty, bytes, syntax, limits)?;
    open::resolve(schema, &mut value, ty, limits, &mut |ty, bytes, limits| {
        decode(schema, ty, bytes, syntax, limits)
    })?;
    Ok(value)
}

/// Encodes a value.
///
/// # Errors
/// It is none of its type, or has no such encoding.
pub fn encode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    value: &Value,
    syntax: Syntax,
) -> Result<Vec<u8>, Error> {
    write::whole(schema, ty, value, syntax)
}
