//! JSON into values, beside their type. What stands in an object is looked at in the order of the type, so each part is
//! first passed over, and read from its text.

use std::collections::BTreeMap;

use fusewire_codec::{self as codec, SliceSource, jer::Decoder};

use crate::characters;
use crate::error::Error;
use crate::number;
use crate::open::{Frames, typed};
use crate::schema::{Kind, Schema, Structure as StructureType, TypeId, tags};
use crate::value::{Open, Place, Real, Structure, Unknown, Value};

/// The value that JSON means, of a type.
///
/// # Errors
/// It is no JSON, or none of the type.
pub fn from_json(schema: &Schema<'_, '_>, text: &str, ty: TypeId) -> Result<Value, Error> {
    let mut json = decoder(text.as_bytes());
    let whole = json.skip().and_then(|whole| json.finish().map(|()| whole));
    let whole = whole.map_err(|e| Error::of_value(format!("this is no JSON: {e}")))?;
    Reader { schema, frames: Vec::new() }.value(whole, ty)
}

type Json<'j> = Decoder<SliceSource<'j>>;

/// Of JSON in memory, values within values 128 deep.
fn decoder(text: &[u8]) -> Json<'_> {
    let limits = codec::Limits { depth: 128, size: u64::MAX, count: u64::MAX };
    Decoder::new(SliceSource::new(text), limits)
}

fn wrong(what: &str, text: &[u8]) -> Error {
    let found: String = String::from_utf8_lossy(text).chars().take(40).collect();
    Error::of_value(format!("`{found}` is not {what}"))
}

/// All of a text, by one of the decoder's functions.
fn read<'j, T>(
    text: &'j [u8],
    what: &str,
    read: impl FnOnce(&mut Json<'j>) -> Result<T, codec::Error>,
) -> Result<T, Error> {
    let mut json = decoder(text);
    read(&mut json).and_then(|value| json.finish().map(|()| value)).map_err(|_| wrong(what, text))
}

type Members<'j> = BTreeMap<String, &'j [u8]>;

fn members(text: &[u8]) -> Result<Members<'_>, Error> {
    let (mut members, mut twice) = (Members::new(), None);
    read(text, "an object", |json| {
        json.object(|json, name| {
            if members.insert(name.to_owned(), json.skip()?).is_some() {
                twice = Some(name.to_owned());
            }
            Ok(())
        })
    })?;
    match twice {
        Some(name) => Err(Error::of_value(format!("the component `{name}` is there twice"))),
        None => Ok(members),
    }
}

/// An extension that the type does not know.
fn unknown(text: &[u8]) -> Result<Unknown, Error> {
    if !text.starts_with(b"{") {
        let what = "the hexadecimal digits of an extension";
        return read(text, what, Json::digits).map(|octets| Unknown::Ber(octets.into_vec()));
    }
    let what =
        "an extension: {\"number\": …, \"octets\": \"…\"} or {\"tag\": \"[…]\", \"octets\": \"…\"}";
    let parts = members(text)?;
    let part = |name: &str| parts.get(name).copied().ok_or_else(|| wrong(what, text));
    let octets = read(part("octets")?, "hexadecimal digits", Json::digits)?.into_vec();
    if parts.len() != 2 {
        return Err(wrong(what, text));
    }
    if let Ok(tag) = part("tag") {
        let tag = read(tag, "a tag", Json::string)?;
        let tag = tags::parse(&tag).ok_or_else(|| wrong(what, text))?;
        return Ok(Unknown::Tagged(tag, octets));
    }
    let number = number::to_i128(&read(part("number")?, "a whole number", Json::integer)?);
    let number = number.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| wrong(what, text))?;
    Ok(Unknown::Counted(number, octets))
}

struct Reader<'s, 'w, 'a> {
    schema: &'s Schema<'w, 'a>,
    frames: Frames,
}

impl Reader<'_, '_, '_> {
    fn value(&mut self, text: &[u8], ty: TypeId) -> Result<Value, Error> {
        let schema = self.schema;
        match &schema.get(ty).kind {
            Kind::Boolean => read(text, "true or false", Json::bool).map(Value::Boolean),
            Kind::Null => read(text, "null", Json::null).map(|()| Value::Null),
            Kind::Integer(_) => read(text, "a whole number", Json::integer).map(Value::Integer),
            Kind::Enumerated(of) => {
                let named = |name: &str| Some(of.items.iter().find(|(n, _)| n == name)?.1);
                let numbered = |number| Some(number).filter(|_| of.is_extensible);
                read(text, "a name of the ENUMERATED", |j| j.item("", named, numbered))
                    .map(Value::Enumerated)
            }
            Kind::Real(_) => {
                read(text, "a number", Json::real).map(|real| Value::Real(Real::new(real)))
            }
            Kind::Bits(_, size) => {
                let what = "{\"value\": \"…\", \"length\": bits}";
                let bits = read(text, what, |json| json.bits(size.fixed()))?;
                Ok(Value::Bits(bits.as_bytes().to_vec(), bits.unused()))
            }
            Kind::Octets(_) => {
                read(text, "hexadecimal digits", Json::digits).map(|o| Value::Octets(o.into_vec()))
            }
            kind @ (Kind::Oid | Kind::RelativeOid) => {
                let is_relative = matches!(kind, Kind::RelativeOid);
                read(text, "an object identifier with dots", |json| json.oid(is_relative))
                    .map(|contents| Value::Oid(contents.into_vec()))
            }
            Kind::Text(simple, _) => {
                let coding = characters::coding(*simple);
                let what = "a string of the type's characters";
                let bytes = read(text, what, |json| json.characters(coding))?;
                match characters::holds(*simple, &bytes) {
                    true => Ok(Value::Text(bytes.into_vec())),
                    false => Err(wrong(what, text)),
                }
            }
            Kind::Structure(of) => self.structure(text, of, ty),
            Kind::List(of) => {
                let elements = read(text, "an array", |json| json.array(Json::skip))?;
                let read = elements.into_iter().enumerate().map(|(n, element)| {
                    self.value(element, of.element).map_err(|e| e.in_element(n))
                });
                read.collect::<Result<_, _>>().map(Value::List)
            }
            Kind::Choice(of) => {
                let (name, inner) = read(text, "an object with one alternative", |json| {
                    json.alternative(|json, name, _| Ok((name.to_owned(), json.skip()?)))
                })?;
                if name == "$unknown" && of.is_extensible {
                    return unknown(inner).map(Value::UnknownChoice);
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
                    return Ok(Value::Open(Open::Typed(ty, Box::new(self.value(text, ty)?))));
                }
                let what = "the encoding of a type that is not known here, as {\"octets\": \"…\"}";
                let bytes = read(text, what, Json::octets)?;
                Ok(Value::Open(Open::Raw(bytes.into_vec(), Place::default())))
            }
            Kind::Opaque(_) => {
                let what = "the encoding of a type that is not there, as {\"octets\": \"…\"}";
                let bytes = read(text, what, Json::octets)?;
                Ok(Value::Open(Open::Raw(bytes.into_vec(), Place::default())))
            }
            Kind::Unknown(reason) => Err(Error::of_type(reason.clone())),
        }
    }

    fn structure(&mut self, text: &[u8], of: &StructureType, ty: TypeId) -> Result<Value, Error> {
        let given = members(text)?;
        let mut extensions = Vec::new();
        for (name, inner) in &given {
            if name == "$unknown" && of.unknown_at.is_some() {
                for part in read(inner, "a list of extensions", |json| json.array(Json::skip))? {
                    extensions.push(unknown(part)?);
                }
            } else if of.unknown_at.is_none() && !of.members.iter().any(|m| m.name == *name) {
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
        result.map(|()| Value::Structure(Structure { members, unknown: extensions }))
    }
}
