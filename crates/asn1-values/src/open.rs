//! Open types whose values' types other components say: decoded once these are known, which in a SET may be
//! behind them.

use crate::encoding::Encoding;
use crate::error::Error;
use crate::limits::Limits;
use crate::schema::{Kind, Schema, Table, TypeId};
use crate::value::{Open, Value};

/// How a value within an encoding is decoded.
pub(crate) type Decode<'f> = dyn FnMut(TypeId, &[u8], Limits) -> Result<Value, Error> + 'f;

/// Decodes the open types in a value that a table says the types of. One that is none of that type is an error,
/// for the table is part of the type.
pub(crate) fn resolve(
    schema: &Schema<'_, '_>,
    value: &mut Value,
    ty: TypeId,
    limits: Limits,
    decode: &mut Decode<'_>,
) -> Result<(), Error> {
    // What a value within decodes to counts against the same limit.
    let limits = Limits { count: limits.count.saturating_sub(value.count()), ..limits };
    let mut walk = Walk { schema, limits, decode, frames: Vec::new(), depth: 0 };
    walk.value(value, ty)
}

struct Walk<'s, 'w, 'a, 'f, 'g> {
    schema: &'s Schema<'w, 'a>,
    limits: Limits,
    decode: &'f mut Decode<'g>,
    /// The components of the SEQUENCEs and SETs around, outermost first; the one at hand is taken out.
    frames: Frames,
    depth: u32,
}

impl Walk<'_, '_, '_, '_, '_> {
    fn value(&mut self, value: &mut Value, ty: TypeId) -> Result<(), Error> {
        self.depth += 1;
        let result = self.parts(value, ty);
        self.depth -= 1;
        result
    }

    fn parts(&mut self, value: &mut Value, ty: TypeId) -> Result<(), Error> {
        let schema = self.schema;
        match (value, &schema.get(ty).kind) {
            (Value::Structure(structure), Kind::Structure(of)) => {
                self.frames.push((ty, std::mem::take(&mut structure.members)));
                let at = self.frames.len() - 1;
                let mut result = Ok(());
                for (n, member) in of.members.iter().enumerate() {
                    let Some(mut part) = self.frames[at].1[n].take() else { continue };
                    if result.is_ok() {
                        result = self.value(&mut part, member.ty);
                        result = result.map_err(|e| e.in_field(&member.name));
                    }
                    self.frames[at].1[n] = Some(part);
                }
                structure.members = self.frames.pop().map(|f| f.1).unwrap_or_default();
                result
            }
            (Value::List(elements), Kind::List(of)) => {
                for (n, element) in elements.iter_mut().enumerate() {
                    self.value(element, of.element).map_err(|e| e.in_element(n))?;
                }
                Ok(())
            }
            (Value::Choice(index, inner), Kind::Choice(of)) => {
                let alternative = &of.alternatives[*index];
                self.value(inner, alternative.ty).map_err(|e| e.in_field(&alternative.name))
            }
            (Value::Open(open), Kind::Open(Some(table))) => self.open(open, table),
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: &mut Open, table: &Table) -> Result<(), Error> {
        let Open::Raw(bytes, place) = open else { return Ok(()) };
        let Some(ty) = typed(self.schema, &self.frames, table) else { return Ok(()) };
        let limits = self.limits.within(self.depth);
        let value = (self.decode)(ty, bytes, limits).map_err(|e| e.moved(place.0))?;
        self.limits.count = self.limits.count.saturating_sub(value.count());
        *open = Open::Typed(ty, Box::new(value));
        Ok(())
    }
}

/// Checks the open types in a value that is to be encoded: a value that a table says the type of must be one of that
/// type.
///
/// # Errors
/// It is not.
pub(crate) fn check(
    schema: &Schema<'_, '_>,
    value: &Value,
    ty: TypeId,
    encoding: Encoding,
) -> Result<(), Error> {
    Check { schema, encoding, frames: Vec::new() }.value(value, ty)
}

struct Check<'s, 'w, 'a, 'v> {
    schema: &'s Schema<'w, 'a>,
    encoding: Encoding,
    /// The SEQUENCEs and SETs around, outermost first.
    frames: Vec<(TypeId, &'v [Option<Value>])>,
}

impl<'v> Check<'_, '_, '_, 'v> {
    fn value(&mut self, value: &'v Value, ty: TypeId) -> Result<(), Error> {
        match (value, &self.schema.get(ty).kind) {
            (Value::Structure(structure), Kind::Structure(of)) => {
                self.frames.push((ty, &structure.members));
                for (member, part) in of.members.iter().zip(&structure.members) {
                    if let Some(part) = part {
                        self.value(part, member.ty).map_err(|e| e.in_field(&member.name))?;
                    }
                }
                self.frames.pop();
                Ok(())
            }
            (Value::List(elements), Kind::List(of)) => elements
                .iter()
                .enumerate()
                .try_for_each(|(n, e)| self.value(e, of.element).map_err(|e| e.in_element(n))),
            (Value::Choice(index, inner), Kind::Choice(of)) => match of.alternatives.get(*index) {
                Some(of) => self.value(inner, of.ty).map_err(|e| e.in_field(&of.name)),
                None => Ok(()),
            },
            (Value::Open(open), Kind::Open(table)) => {
                let expected = table.as_ref().and_then(|t| typed(self.schema, &self.frames, t));
                self.open(open, expected)
            }
            _ => Ok(()),
        }
    }

    fn open(&self, open: &Open, expected: Option<TypeId>) -> Result<(), Error> {
        let Check { schema, encoding, .. } = *self;
        if let Open::Typed(ty, inner) = open {
            check(schema, inner, *ty, encoding)?;
        }
        let Some(expected) = expected else { return Ok(()) };
        let name = &schema.get(expected).name;
        let (bytes, found) = match open {
            Open::Typed(ty, _) if *ty == expected => return Ok(()),
            Open::Typed(ty, inner) => {
                (&encoding.encode(schema, *ty, inner)?, &schema.get(*ty).name)
            }
            Open::Raw(bytes, _) => (bytes, &"octets".to_owned()),
        };
        // Two notations of one type are two types of the schema: the encoding decides.
        match encoding.decode(schema, expected, bytes, Limits::default()) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::of_value(format!(
                "expected a value of {name}, which the table gives the open type, found {found}: {error}"
            ))),
        }
    }
}

/// The SEQUENCEs and SETs around a value, outermost first, each with the components that are known.
pub(crate) type Frames = Vec<(TypeId, Vec<Option<Value>>)>;

/// The type that a table gives, by the values of the components that it asks about. None for a type of a missing module,
/// whose values stay as they are encoded.
pub(crate) fn typed(
    schema: &Schema<'_, '_>,
    frames: &[(TypeId, impl AsRef<[Option<Value>]>)],
    table: &Table,
) -> Option<TypeId> {
    let mut fingerprint = Vec::new();
    for path in &table.keys {
        let (ty, members) = frames.get(frames.len().checked_sub(path.up + 1)?)?;
        let (mut ty, mut members) = (*ty, members.as_ref());
        let mut found = None;
        for &at in &path.members {
            let Kind::Structure(of) = &schema.get(ty).kind else { return None };
            let member = of.members.get(at)?;
            let value = members.get(at)?.as_ref().or(member.default.as_ref())?;
            ty = member.ty;
            members = match value {
                Value::Structure(inner) => &inner.members,
                _ => &[],
            };
            found = Some(value);
        }
        if !found?.key(&mut fingerprint) {
            return None;
        }
    }
    let ty = table.rows.get(&fingerprint).copied();
    ty.filter(|ty| !matches!(schema.get(*ty).kind, Kind::Opaque(_)))
}
