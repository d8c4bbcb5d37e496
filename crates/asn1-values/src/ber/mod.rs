//! BER and DER (X.690) of any type.

mod decode;
mod encode;

use fusewire_codec::ber::Rules;

use crate::Limits;
use crate::error::Error;
use crate::open;
use crate::schema::{Schema, TypeId};
use crate::value::Value;

/// Decodes a value that takes up all of `bytes`.
///
/// # Errors
/// The bytes are no encoding of one; in DER also when they are not canonical.
pub fn decode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    bytes: &[u8],
    rules: Rules,
    limits: Limits,
) -> Result<Value, Error> {
    let mut walk = decode::Walk::new(schema, limits);
    walk.whole(ty, bytes, rules).and_then(|mut value| {
        open::resolve(schema, &mut value, ty, limits, &mut |ty, bytes, limits| {
            decode(schema, ty, bytes, rules, limits)
        })?;
        Ok(value)
    })
}

/// Encodes a value.
///
/// # Errors
/// It is none of its type.
pub fn encode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    value: &Value,
    rules: Rules,
) -> Result<Vec<u8>, Error> {
    encode::encode(schema, ty, value, rules)
}
