//! JSON into values, beside their type. Numbers are taken as text, for they may have any width.

use std::collections::BTreeMap;

use fusewire_codec::types::{Oid, RelativeOid};
use serde_json::value::RawValue;

use crate::characters;
use crate::error::Error;
use crate::number;
use crate::open::{Frames, typed};
use crate::schema::{Kind, Schema, Structure as StructureType, TypeId};
use crate::value::{Open, Place, Real, Structure, Unknown, Value};

/// The value that JSON means, of a type.
///
/// # Errors
/// It is no JSON, or none of the type.
pub fn from_json(schema: &Schema<'_, '_>, text: &str, ty: TypeId) -> Result<Value, Error> {
    let raw: &RawValue =
        serde_json::from_str(text).map_err(|e| Error::of_value(format!("this is no JSON: {e}")))?;
    Reader { schema, frames: Vec::new(), depth: 0 }.value(raw, ty)
}

/// Values within values.
const DEPTH_MAX: u32 = 128;

struct Reader<'s, 'w, 'a> {
    schema: &'s Schema<'w, 'a>,
    frames: Frames,
    depth: u32,
}

type Members<'j> = BTreeMap<String, &'j RawValue>;

fn wrong(what: &str, raw: &RawValue) -> Error {
    let found: String = raw.get().chars().take(40).collect();
    Error::of_value(format!("`{found}` is not {what}"))
}

fn members(raw: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(raw.get()).ok()
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn hex(raw: &RawValue) -> Option<Vec<u8>> {
    data_encoding::HEXUPPER_PERMISSIVE.decode(string(raw)?.as_bytes()).ok()
}

/// `{"octets": "…"}`.
fn octets(raw: &RawValue) -> Option<Vec<u8>> {
    let members = members(raw)?;
    hex(members.get("octets").filter(|_| members.len() == 1)?)
}

impl Reader<'_, '_, '_> {
    fn value(&mut self, raw: &RawValue, ty: TypeId) -> Result<Value, Error> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::of_value("nested too deeply"));
        }
        self.depth += 1;
        let value = self.of_kind(raw, ty);
        self.depth -= 1;
        value
    }

    fn of_kind(&mut self, raw: &RawValue, ty: TypeId) -> Result<Value, Error> {
        let schema = self.schema;
        let text = raw.get();
        match &schema.get(ty).kind {
            Kind::Boolean => match text {
                "true" => Ok(Value::Boolean(true)),
                "false" => Ok(Value::Boolean(false)),
                _ => Err(wrong("true or false", raw)),
            },
            Kind::Null if text == "null" => Ok(Value::Null),
            Kind::Null => Err(wrong("null", raw)),
            Kind::Integer(_) => {
                let wide = || octets(raw).map(|b| number::minimal(&b).to_vec());
                let bytes = number::from_decimal(text).or_else(wide);
                bytes.map(Value::Integer).ok_or_else(|| wrong("a whole number", raw))
            }
            Kind::Enumerated(of) => {
                let named = string(raw).and_then(|name| of.items.iter().find(|(n, _)| *n == name));
                let number = text.parse().ok().filter(|_| of.is_extensible);
                let number = named.map(|(_, n)| *n).or(number);
                number.map(Value::Enumerated).ok_or_else(|| wrong("a name of the ENUMERATED", raw))
            }
            Kind::Real(_) => real(raw),
            Kind::Bits(_, size) => bits(raw, size.fixed()),
            Kind::Octets(_) => {
                hex(raw).map(Value::Octets).ok_or_else(|| wrong("hexadecimal digits", raw))
            }
            Kind::Oid | Kind::RelativeOid => {
                oid(raw, matches!(schema.get(ty).kind, Kind::RelativeOid))
            }
            Kind::Text(simple, _) => {
                let coding = characters::coding(*simple);
                let bytes = match string(raw) {
                    Some(text) => characters::encode(coding, &text),
                    None => octets(raw),
                };
                bytes
                    .map(Value::Text)
                    .ok_or_else(|| wrong("a string of the type's characters", raw))
            }
            Kind::Structure(of) => self.structure(raw, of, ty),
            Kind::List(of) => {
                let elements: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
                let elements = elements.ok_or_else(|| wrong("an array", raw))?;
                let read = elements.into_iter().enumerate().map(|(n, element)| {
                    self.value(element, of.element).map_err(|e| e.in_element(n))
                });
                read.collect::<Result<_, _>>().map(Value::List)
            }
            Kind::Choice(of) => {
                let members = members(raw).filter(|m| m.len() == 1);
                let (name, inner) = members
                    .and_then(|m| m.into_iter().next())
                    .ok_or_else(|| wrong("an object with one alternative", raw))?;
                if name == "$unknown" {
                    let bytes = hex(inner).ok_or_else(|| wrong("hexadecimal digits", inner))?;
                    return Ok(Value::UnknownChoice(Unknown::Ber(bytes)));
                }
                let index = of.alternatives.iter().position(|a| a.name == name);
                let index = index.ok_or_else(|| {
                    Error::of_value(format!("the CHOICE has no alternative `{name}`"))
                })?;
                let value = self.value(inner, of.alternatives[index].ty);
                Ok(Value::Choice(index, Box::new(value.map_err(|e| e.in_field(&name))?)))
            }
            Kind::Open(table) => {
                let known = table.as_ref().and_then(|t| typed(schema, &self.frames, t));
                if let Some(ty) = known {
                    return Ok(Value::Open(Open::Typed(ty, Box::new(self.value(raw, ty)?))));
                }
                let bytes = octets(raw).ok_or_else(|| {
                    wrong(
                        "the encoding of a type that is not known here, as {\"octets\": \"…\"}",
                        raw,
                    )
                })?;
                Ok(Value::Open(Open::Raw(bytes, Place::default())))
            }
            Kind::Unknown(reason) => Err(Error::of_type(reason.clone())),
        }
    }

    fn structure(
        &mut self,
        raw: &RawValue,
        of: &StructureType,
        ty: TypeId,
    ) -> Result<Value, Error> {
        let given = members(raw).ok_or_else(|| wrong("an object", raw))?;
        let mut unknown = Vec::new();
        for (name, inner) in &given {
            if name == "$unknown" {
                let parts: Option<Vec<&RawValue>> = serde_json::from_str(inner.get()).ok();
                let parts = parts.and_then(|p| p.into_iter().map(hex).collect::<Option<Vec<_>>>());
                let parts = parts.ok_or_else(|| wrong("a list of hexadecimal digits", inner))?;
                unknown.extend(parts.into_iter().map(Unknown::Ber));
            } else if !of.members.iter().any(|m| m.name == *name) {
                return Err(Error::of_value(format!("the type has no component `{name}`")));
            }
        }
        self.frames.push((ty, of.members.iter().map(|_| None).collect()));
        let at = self.frames.len() - 1;
        // What tables ask about comes before what they say the type of.
        let is_key = |n: &usize| {
            let kind = &self.schema.get(of.members[*n].ty).kind;
            !matches!(kind, Kind::Open(_) | Kind::List(_) | Kind::Structure(_))
        };
        let (keys, others): (Vec<usize>, Vec<usize>) = (0..of.members.len()).partition(is_key);
        let mut result = Ok(());
        for n in keys.into_iter().chain(others) {
            let member = &of.members[n];
            let Some(inner) = given.get(&member.name) else {
                if !member.is_optional && result.is_ok() {
                    let message = format!("the component `{}` is missing", member.name);
                    result = Err(Error::of_value(message));
                }
                continue;
            };
            match self.value(inner, member.ty) {
                Ok(value) => self.frames[at].1[n] = Some(value),
                Err(error) if result.is_ok() => result = Err(error.in_field(&member.name)),
                Err(_) => {}
            }
            if result.is_err() {
                break;
            }
        }
        let members = self.frames.pop().map(|f| f.1).unwrap_or_default();
        result.map(|()| Value::Structure(Structure { members, unknown }))
    }
}

fn real(raw: &RawValue) -> Result<Value, Error> {
    let number = match string(raw).as_deref() {
        Some("INF") => Some(f64::INFINITY),
        Some("-INF") => Some(f64::NEG_INFINITY),
        Some("NaN") => Some(f64::NAN),
        Some("-0") => Some(-0.0),
        Some(_) => None,
        None => raw.get().parse().ok(),
    };
    let number = number.ok_or_else(|| wrong("a number", raw))?;
    Ok(Value::Real(Real::new(number)))
}

fn bits(raw: &RawValue, fixed: Option<usize>) -> Result<Value, Error> {
    let read = || {
        let (bytes, length) = match (members(raw), fixed) {
            (Some(members), _) => {
                (hex(members.get("value")?)?, members.get("length")?.get().parse().ok()?)
            }
            (None, Some(length)) => (hex(raw)?, length),
            (None, None) => return None,
        };
        (length.div_ceil(8) == bytes.len()).then_some((bytes, length))
    };
    let (mut bytes, length) =
        read().ok_or_else(|| wrong("{\"value\": \"…\", \"length\": bits}", raw))?;
    let unused = (length.wrapping_neg() % 8) as u8;
    if let Some(last) = bytes.last_mut() {
        *last &= 0xff << unused;
    }
    Ok(Value::Bits(bytes, unused))
}

fn oid(raw: &RawValue, is_relative: bool) -> Result<Value, Error> {
    let read = || {
        if let Some(contents) = octets(raw) {
            return Some(contents);
        }
        let text = string(raw)?;
        let arcs: Option<Vec<u128>> = text.split('.').map(|arc| arc.parse().ok()).collect();
        match is_relative {
            true => Some(RelativeOid::from_arcs(&arcs?)?.as_contents().to_vec()),
            false => Some(Oid::from_arcs(&arcs?)?.as_contents().to_vec()),
        }
    };
    read().map(Value::Oid).ok_or_else(|| wrong("an object identifier with dots", raw))
}
