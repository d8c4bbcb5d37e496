//! Bytes into values, by the primitives that generated decoders are made of.

use fusewire_codec::Problem;
use fusewire_codec::ber::{DecodeContents, Decoder, Header, Rules, Tag};
use fusewire_codec::types::{self, BitString, Moment, Oid, RelativeOid, real};

use fusewire_asn1::ast::Simple;

use crate::error::Error;
use crate::limits::{Budget, Limits};
use crate::schema::{Choice, Kind, List, Member, Schema, Structure as StructureType, TypeId};
use crate::value::{Open, Place, Real, Structure, Unknown, Value};

/// Reads a value that takes up all of `bytes`, its open types as they are.
pub fn decode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    bytes: &[u8],
    rules: Rules,
    limits: Limits,
) -> Result<Value, Error> {
    let mut decoder = Decoder::new(bytes, rules, limits.codec());
    let mut walk = Walk { schema, budget: Budget::new(limits) };
    let value = walk.value(ty, &mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

struct Walk<'s, 'w, 'a> {
    schema: &'s Schema<'w, 'a>,
    budget: Budget,
}

/// What `read` reads within contents, with an error of ours.
fn inside<'d, T>(
    from: &mut Decoder<'d>,
    header: Header,
    read: impl FnOnce(&mut Decoder<'d>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut own = None;
    let result = from.constructed(header, |from| {
        read(from).map_err(|error| {
            own = Some(error);
            Problem::BadTag.at(0)
        })
    });
    result.map_err(|error| own.unwrap_or_else(|| error.into()))
}

impl Walk<'_, '_, '_> {
    fn value(&mut self, ty: TypeId, from: &mut Decoder<'_>) -> Result<Value, Error> {
        let offset = from.position();
        self.budget.enter(offset)?;
        let of = self.schema.get(ty);
        let value = match of.tags.as_slice() {
            [] => self.untagged(ty, from),
            _ => self.tagged(ty, 0, from),
        };
        self.budget.leave();
        let value = value?;
        match of.objection(&value) {
            Some(objection) => Err(Error::at_value(objection, offset)),
            None => Ok(value),
        }
    }

    /// Behind the first `passed` of a type's tags.
    fn tagged(
        &mut self,
        ty: TypeId,
        passed: usize,
        from: &mut Decoder<'_>,
    ) -> Result<Value, Error> {
        let of = self.schema.get(ty);
        let header = from.header(of.tags[passed])?;
        let has_own = of.kind.has_tag();
        if has_own && passed + 1 == of.tags.len() {
            return self.contents(ty, from, header);
        }
        inside(from, header, |from| match passed + 1 < of.tags.len() {
            true => self.tagged(ty, passed + 1, from),
            false => self.untagged(ty, from),
        })
    }

    /// A CHOICE or an open type, without tags of its own.
    fn untagged(&mut self, ty: TypeId, from: &mut Decoder<'_>) -> Result<Value, Error> {
        match &self.schema.get(ty).kind {
            Kind::Choice(of) => self.choice(of, ty, from),
            Kind::Open(_) => {
                let offset = from.position();
                let bytes = from.any()?;
                Ok(Value::Open(Open::Raw(bytes.to_vec(), Place(offset))))
            }
            Kind::Opaque(of) => {
                let offset = from.position();
                if let Some(expected) = of.tag
                    && from.more()?
                    && from.peek()? != expected
                {
                    let found = from.peek()?;
                    return Err(Error::at(Problem::Tag { expected, found }, offset));
                }
                let bytes = from.any()?;
                Ok(Value::Open(Open::Raw(bytes.to_vec(), Place(offset))))
            }
            Kind::Unknown(reason) => Err(Error::at_type(
                format!("{}: {reason}", self.schema.get(ty).name),
                from.position(),
            )),
            _ => Err(from.error(Problem::BadTag).into()),
        }
    }

    fn choice(&mut self, of: &Choice, ty: TypeId, from: &mut Decoder<'_>) -> Result<Value, Error> {
        if !from.more()? {
            return Err(from.error(Problem::Missing).into());
        }
        let tag = from.peek()?;
        let found = self.schema.alternative_of(of, tag);
        match found {
            Some(index) => {
                let alternative = &of.alternatives[index];
                let value = self.value(alternative.ty, from);
                let value = value.map_err(|e| e.in_field(&alternative.name))?;
                Ok(Value::Choice(index, Box::new(value)))
            }
            None if of.is_extensible => {
                Ok(Value::UnknownChoice(Unknown::Ber(from.any()?.to_vec())))
            }
            None => Err(Error::at_value(
                format!("tag {tag} is none of {}", self.schema.get(ty).name),
                from.position(),
            )),
        }
    }

    fn contents(
        &mut self,
        ty: TypeId,
        from: &mut Decoder<'_>,
        header: Header,
    ) -> Result<Value, Error> {
        let der = from.rules() == Rules::Der;
        let offset = from.position();
        Ok(match &self.schema.get(ty).kind {
            Kind::Boolean => Value::Boolean(bool::decode_contents(from, header)?),
            Kind::Null => {
                <()>::decode_contents(from, header)?;
                Value::Null
            }
            Kind::Integer(_) => Value::Integer(from.integer_octets(header)?.to_vec()),
            Kind::Enumerated(of) => {
                let found = from.integer_contents(header)?;
                if !of.is_extensible && !of.items.iter().any(|(_, n)| *n == found) {
                    let message = format!("{found} is no {}", self.schema.get(ty).name);
                    return Err(Error::at_value(message, offset));
                }
                Value::Enumerated(found)
            }
            Kind::Real(_) => {
                let contents = from.primitive(header)?;
                let value = real::decode(contents, der).map_err(|p| p.at(offset))?;
                Value::Real(Real::of(value, contents))
            }
            Kind::Bits(names, _) => {
                let bits = BitString::decode_contents(from, header)?;
                // X.690, 11.2.2.
                if der && !names.is_empty() && bits.trimmed().len() != bits.len() {
                    let problem = Problem::NotCanonical("no zero bits at the end of named bits");
                    return Err(Error::at(problem, offset));
                }
                Value::Bits(bits.as_bytes().to_vec(), bits.unused())
            }
            Kind::Octets(_) => Value::Octets(from.string(header)?.to_vec()),
            Kind::Oid => Value::Oid(Oid::decode_contents(from, header)?.as_contents().to_vec()),
            Kind::RelativeOid => {
                Value::Oid(RelativeOid::decode_contents(from, header)?.as_contents().to_vec())
            }
            Kind::Text(simple, _) => Value::Text(text(*simple, from, header)?),
            Kind::Structure(of) => inside(from, header, |from| match of.is_set {
                true => self.set(of, from),
                false => self.sequence(of, from),
            })?,
            Kind::List(of) => inside(from, header, |from| self.list(of, from))?,
            Kind::Choice(_) | Kind::Open(_) | Kind::Opaque(_) | Kind::Unknown(_) => {
                return Err(Error::at(Problem::BadTag, offset));
            }
        })
    }

    fn list(&mut self, of: &List, from: &mut Decoder<'_>) -> Result<Value, Error> {
        let mut elements = Vec::new();
        let in_order = of.is_set && from.rules() == Rules::Der;
        let mut last: Option<&[u8]> = None;
        while from.more()? {
            self.budget.element(from.position())?;
            let start = from.position();
            let encoding = if in_order { Some(from.clone().any()?) } else { None };
            let element = self.value(of.element, from).map_err(|e| e.in_element(elements.len()))?;
            if let (Some(before), Some(this)) = (last, encoding)
                && this < before
            {
                let problem = Problem::NotCanonical("the elements of a SET OF in order");
                return Err(Error::at(problem, start).in_element(elements.len()));
            }
            last = encoding;
            elements.push(element);
        }
        Ok(Value::List(elements))
    }

    fn sequence(&mut self, of: &StructureType, from: &mut Decoder<'_>) -> Result<Value, Error> {
        let mut structure = Structure::default();
        for (n, member) in of.members.iter().enumerate() {
            if of.unknown_at == Some(n) {
                self.unknown(&of.members[n..], &mut structure, from)?;
            }
            let is_there = from.more()? && self.is_there(&of.members[n..], from.peek()?);
            // What has to be there and has another tag says so itself.
            if !is_there && member.is_optional {
                structure.members.push(None);
                continue;
            }
            if !from.more()? {
                return Err(from.error(Problem::Missing).into())
                    .map_err(|e: Error| e.in_field(&member.name));
            }
            let value = self.member(of, n, from)?;
            structure.members.push(Some(value));
        }
        if of.unknown_at == Some(of.members.len()) {
            self.unknown(&[], &mut structure, from)?;
        }
        Ok(Value::Structure(structure))
    }

    /// Returns `true` if the first of the members begins with the tag, and none of those that may follow instead of it
    /// has the tag (X.680, 25.6), if its own tag is not known.
    fn is_there(&self, members: &[Member], tag: Tag) -> bool {
        let Some((member, rest)) = members.split_first() else { return false };
        if !member.is_optional || !self.schema.takes_any(member.ty) {
            return self.schema.begins_with(member.ty, tag);
        }
        let required = rest.iter().position(|m| !m.is_optional);
        let next = &rest[..required.map_or(rest.len(), |n| n + 1)];
        let has_tag =
            |m: &Member| !self.schema.takes_any(m.ty) && self.schema.begins_with(m.ty, tag);
        !next.iter().any(has_tag)
    }

    fn member(
        &mut self,
        of: &StructureType,
        n: usize,
        from: &mut Decoder<'_>,
    ) -> Result<Value, Error> {
        let member = &of.members[n];
        let offset = from.position();
        self.budget.element(offset)?;
        let value = self.value(member.ty, from).map_err(|e| e.in_field(&member.name))?;
        if from.rules() == Rules::Der && member.default.as_ref() == Some(&value) {
            let problem = Problem::NotCanonical("nothing, for a default value");
            return Err(Error::at(problem, offset).in_field(&member.name));
        }
        Ok(value)
    }

    /// Additions that the type does not know, up to a component that it knows.
    fn unknown(
        &mut self,
        rest: &[crate::schema::Member],
        structure: &mut Structure,
        from: &mut Decoder<'_>,
    ) -> Result<(), Error> {
        while from.more()? {
            let tag = from.peek()?;
            if rest.iter().any(|m| self.schema.begins_with(m.ty, tag)) {
                return Ok(());
            }
            self.budget.element(from.position())?;
            structure.unknown.push(Unknown::Ber(from.any()?.to_vec()));
        }
        Ok(())
    }

    fn set(&mut self, of: &StructureType, from: &mut Decoder<'_>) -> Result<Value, Error> {
        let mut structure =
            Structure { members: of.members.iter().map(|_| None).collect(), unknown: Vec::new() };
        let mut last = None;
        while from.more()? {
            let (tag, offset) = (from.peek()?, from.position());
            if from.rules() == Rules::Der && last.is_some_and(|last| tag < last) {
                let problem = Problem::NotCanonical("the components of a SET, once, in order");
                return Err(Error::at(problem, offset));
            }
            last = Some(tag);
            let known = |n: &usize| self.schema.begins_with(of.members[*n].ty, tag);
            let mut candidates: Vec<usize> = (0..of.members.len()).filter(known).collect();
            let any = candidates.first().copied();
            // An open type takes what no other does.
            candidates.sort_by_key(|n| self.schema.takes_any(of.members[*n].ty));
            let free = candidates.into_iter().find(|n| structure.members[*n].is_none());
            match (free, any) {
                (Some(n), _) => structure.members[n] = Some(self.member(of, n, from)?),
                (None, Some(n)) => {
                    let error = Error::at(Problem::Twice, offset);
                    return Err(error.in_field(&of.members[n].name));
                }
                (None, None) if of.unknown_at.is_some() => {
                    self.budget.element(offset)?;
                    structure.unknown.push(Unknown::Ber(from.any()?.to_vec()));
                }
                (None, None) => {
                    let message = format!("tag {tag} is none of the SET");
                    return Err(Error::at_value(message, offset));
                }
            }
        }
        let missing = of.members.iter().zip(&structure.members);
        match missing.into_iter().find(|(m, v)| v.is_none() && !m.is_optional) {
            Some((member, _)) => {
                Err(Error::from(from.error(Problem::Missing)).in_field(&member.name))
            }
            None => Ok(Value::Structure(structure)),
        }
    }
}

/// A character string, its characters looked at.
fn text(simple: Simple, from: &mut Decoder<'_>, header: Header) -> Result<Vec<u8>, Error> {
    macro_rules! of {
        ($type:ident) => {
            types::$type::decode_contents(from, header)?.as_bytes().to_vec()
        };
    }
    Ok(match simple {
        Simple::ObjectDescriptor => of!(ObjectDescriptor),
        Simple::Utf8String | Simple::OidIri | Simple::RelativeOidIri => of!(Utf8String),
        Simple::NumericString => of!(NumericString),
        Simple::PrintableString => of!(PrintableString),
        Simple::TeletexString => of!(TeletexString),
        Simple::VideotexString => of!(VideotexString),
        Simple::Ia5String => of!(Ia5String),
        Simple::UtcTime => of!(UtcTime),
        Simple::GeneralizedTime => of!(GeneralizedTime),
        Simple::GraphicString => of!(GraphicString),
        Simple::GeneralString => of!(GeneralString),
        Simple::UniversalString => of!(UniversalString),
        Simple::BmpString => of!(BmpString),
        Simple::Date => of!(Date),
        Simple::TimeOfDay => of!(TimeOfDay),
        Simple::DateTime => of!(DateTime),
        _ => of!(VisibleString),
    })
}
