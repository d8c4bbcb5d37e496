//! Values into JSON, in the order of the type.

use fusewire_codec::{self as codec, jer::Encoder};

use crate::characters;
use crate::schema::{Kind, Schema, TypeId};
use crate::value::{Open, Unknown, Value};

/// A value of a type on one line. Components that are their DEFAULT are left out.
pub fn to_json(schema: &Schema<'_, '_>, value: &Value, ty: TypeId) -> String {
    let mut to = Encoder::new(Vec::new());
    // A vector takes all, and what is written is UTF-8.
    let _ = print(schema, value, ty, &mut to);
    String::from_utf8(to.into_inner()).unwrap_or_default()
}

type Json = Encoder<Vec<u8>>;

/// An extension that the type does not know: hexadecimal digits, with what says where they stand if the encoding needs
/// that.
fn unknown(value: &Unknown, to: &mut Json) -> Result<(), codec::Error> {
    let (key, octets) = match value {
        Unknown::Ber(octets) => return to.digits(octets),
        Unknown::Counted(_, octets) => ("number", octets),
        Unknown::Tagged(_, octets) => ("tag", octets),
    };
    to.object(|to| {
        to.name(key)?;
        match value {
            Unknown::Tagged(tag, _) => to.string(&tag.to_string())?,
            Unknown::Counted(number, _) => to.number(i128::from(*number))?,
            Unknown::Ber(_) => {}
        }
        to.name("octets")?;
        to.digits(octets)
    })
}

fn print(
    schema: &Schema<'_, '_>,
    value: &Value,
    ty: TypeId,
    to: &mut Json,
) -> Result<(), codec::Error> {
    match (value, &schema.get(ty).kind) {
        (Value::Structure(of), Kind::Structure(kind)) => to.object(|to| {
            for (member, value) in kind.members.iter().zip(&of.members) {
                let Some(value) = value.as_ref().filter(|v| member.default.as_ref() != Some(v))
                else {
                    continue;
                };
                to.name(&member.name)?;
                print(schema, value, member.ty, to)?;
            }
            if of.unknown.is_empty() {
                return Ok(());
            }
            to.name("$unknown")?;
            to.array(&of.unknown, |to, part| unknown(part, to))
        }),
        (Value::List(elements), Kind::List(kind)) => {
            to.array(elements, |to, element| print(schema, element, kind.element, to))
        }
        (Value::Choice(index, value), Kind::Choice(kind)) => {
            let Some(alternative) = kind.alternatives.get(*index) else { return Ok(()) };
            to.object(|to| {
                to.name(&alternative.name)?;
                print(schema, value, alternative.ty, to)
            })
        }
        (Value::Open(Open::Typed(ty, value)), _) => print(schema, value, *ty, to),
        (value, kind) => scalar(value, kind, to),
    }
}

fn scalar(value: &Value, kind: &Kind, to: &mut Json) -> Result<(), codec::Error> {
    match (value, kind) {
        (Value::Boolean(value), _) => to.bool(*value),
        (Value::Integer(bytes), _) => to.integer(bytes),
        (Value::Enumerated(number), kind) => {
            let named = match kind {
                Kind::Enumerated(of) => of.items.iter().find(|(_, n)| n == number),
                _ => None,
            };
            match named {
                Some((name, _)) => to.string(name),
                None => to.number(*number),
            }
        }
        (Value::Real(real), _) => to.real(real.value),
        (Value::Bits(bytes, unused), kind) => {
            let fixed = match kind {
                Kind::Bits(_, size) => size.fixed(),
                _ => None,
            };
            to.bits(bytes, *unused, fixed)
        }
        (Value::Octets(bytes), _) => to.digits(bytes),
        (Value::Oid(contents), kind) => to.oid(contents, matches!(kind, Kind::RelativeOid)),
        (Value::Text(bytes), Kind::Text(simple, _)) => {
            to.characters(characters::coding(*simple), bytes)
        }
        (Value::UnknownChoice(of), _) => to.object(|to| {
            to.name("$unknown")?;
            unknown(of, to)
        }),
        (Value::Text(bytes) | Value::Open(Open::Raw(bytes, _)), _) => to.octets(bytes),
        // A value that is none of its type, which no decoder gives, is nothing either.
        (Value::Null | Value::Structure(_) | Value::List(_) | Value::Choice(..), _)
        | (Value::Open(_), _) => to.null(),
    }
}
