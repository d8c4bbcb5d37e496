//! Values into bytes, last byte first: contents stand before their length is known.

use fusewire_asn1::ast::Simple;
use fusewire_codec::Limits;
use fusewire_codec::ber::{Decoder, Rules, Tag};
use fusewire_codec::types::BitString;

use crate::characters;
use crate::error::Error;
use crate::number;
use crate::schema::{Kind, List, Member, Opaque, Schema, Structure as StructureType, TypeId};
use crate::value::{Open, Structure, Unknown, Value};

pub fn encode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    value: &Value,
    rules: Rules,
) -> Result<Vec<u8>, Error> {
    let mut writer = Writer { schema, der: rules == Rules::Der, reversed: Vec::new() };
    writer.value(ty, value)?;
    writer.reversed.reverse();
    Ok(writer.reversed)
}

struct Writer<'s, 'w, 'a> {
    schema: &'s Schema<'w, 'a>,
    der: bool,
    /// What is written, its last byte first.
    reversed: Vec<u8>,
}

impl Writer<'_, '_, '_> {
    fn put(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    /// The header of contents that were written behind `start`.
    fn header(&mut self, tag: Tag, is_constructed: bool, start: usize) {
        let len = self.reversed.len() - start;
        if len < 0x80 {
            self.reversed.push(len as u8);
        } else {
            let octets = (len as u64).to_be_bytes();
            let zeros = octets.iter().take_while(|o| **o == 0).count();
            self.put(&octets[zeros..]);
            self.reversed.push(0x80 | (8 - zeros) as u8);
        }
        let form = tag.class() << 6 | if is_constructed { 0x20 } else { 0 };
        let mut number = tag.number();
        if number < 31 {
            return self.reversed.push(form | number as u8);
        }
        let mut more = 0;
        while number > 0 {
            self.reversed.push((number & 0x7f) as u8 | more);
            (number, more) = (number >> 7, 0x80);
        }
        self.reversed.push(form | 31);
    }

    fn value(&mut self, ty: TypeId, value: &Value) -> Result<(), Error> {
        let of = self.schema.get(ty);
        let start = self.reversed.len();
        of.allows(value)?;
        self.contents(ty, value)?;
        let composite = matches!(of.kind, Kind::Structure(_) | Kind::List(_));
        let has_own = of.kind.has_tag();
        for (n, tag) in of.tags.iter().enumerate().rev() {
            let is_innermost = n + 1 == of.tags.len();
            self.header(*tag, composite || !(is_innermost && has_own), start);
        }
        Ok(())
    }

    fn contents(&mut self, ty: TypeId, value: &Value) -> Result<(), Error> {
        let of = self.schema.get(ty);
        match (&of.kind, value) {
            (Kind::Boolean, Value::Boolean(value)) => self.put(&[if *value { 0xff } else { 0 }]),
            (Kind::Null, Value::Null) => {}
            (Kind::Integer(_), Value::Integer(bytes)) => self.put(number::minimal(bytes)),
            (Kind::Enumerated(_), Value::Enumerated(n)) => self.put(&number::of(i128::from(*n))),
            (Kind::Real(_), Value::Real(real)) => match (self.der, &real.contents) {
                (true, Some(contents)) => {
                    let contents = crate::real::canonical(contents);
                    let wrong = || Error::of_value("a REAL that DER has no form for");
                    self.put(&contents.ok_or_else(wrong)?);
                }
                _ => self.put(&real.contents()),
            },
            (Kind::Bits(names, _), Value::Bits(bytes, unused)) => {
                self.bits(bytes, *unused, self.der && !names.is_empty())?;
            }
            (Kind::Text(simple, _), Value::Text(bytes)) => {
                if self.der {
                    characters::check_canonical(*simple, bytes)?;
                }
                match simple {
                    // X.690, 8.26.
                    Simple::Date | Simple::TimeOfDay | Simple::DateTime => {
                        let digits = bytes.iter().copied().filter(u8::is_ascii_digit);
                        self.put(&digits.collect::<Vec<_>>());
                    }
                    _ => self.put(bytes),
                }
            }
            (Kind::Octets(_), Value::Octets(bytes))
            | (Kind::Oid | Kind::RelativeOid, Value::Oid(bytes)) => self.put(bytes),
            (Kind::Structure(kind), Value::Structure(of)) => self.structure(kind, of)?,
            (Kind::List(kind), Value::List(elements)) => self.list(kind, elements)?,
            (Kind::Choice(kind), Value::Choice(index, value)) => {
                let alternative = kind.alternatives.get(*index);
                let alternative = alternative.ok_or_else(|| mismatch(&of.name))?;
                self.value(alternative.ty, value).map_err(|e| e.in_field(&alternative.name))?;
            }
            (Kind::Choice(kind), Value::UnknownChoice(Unknown::Ber(bytes))) => {
                self.unknown(bytes, &kind.alternatives)?;
            }
            (Kind::Choice(_), Value::UnknownChoice(_)) => {
                return Err(Error::of_value("an alternative that was read from another encoding"));
            }
            (Kind::Open(_), Value::Open(Open::Raw(bytes, _))) => self.put(bytes),
            (Kind::Open(_), Value::Open(Open::Typed(ty, value))) => self.value(*ty, value)?,
            (Kind::Opaque(of), Value::Open(Open::Raw(bytes, _))) => self.opaque(of, bytes)?,
            (Kind::Unknown(reason), _) => {
                return Err(Error::of_type(format!("{}: {reason}", of.name)));
            }
            _ => return Err(mismatch(&of.name)),
        }
        Ok(())
    }

    fn bits(&mut self, bytes: &[u8], unused: u8, trimmed: bool) -> Result<(), Error> {
        let bits = BitString::new(bytes, unused).ok_or_else(|| mismatch("BIT STRING"))?;
        let bits = if trimmed { bits.trimmed() } else { bits };
        self.put(bits.as_bytes());
        self.put(&[bits.unused()]);
        Ok(())
    }

    fn structure(&mut self, kind: &StructureType, of: &Structure) -> Result<(), Error> {
        if of.members.len() != kind.members.len() {
            return Err(mismatch("the SEQUENCE or SET"));
        }
        let (start, mut parts) = (self.reversed.len(), Vec::new());
        let unknown_at = kind.unknown_at.unwrap_or(kind.members.len());
        for n in (0..=kind.members.len()).rev() {
            if n < kind.members.len() {
                self.member(kind, of, n)?;
                parts.push(self.reversed.len());
            }
            if n == unknown_at {
                for unknown in of.unknown.iter().rev() {
                    let Unknown::Ber(bytes) = unknown else {
                        return Err(Error::of_value("an extension addition of another encoding"));
                    };
                    self.unknown(bytes, &[])?;
                    parts.push(self.reversed.len());
                }
            }
        }
        if kind.is_set {
            self.sort_tags(start, &parts);
        }
        Ok(())
    }

    /// An extension that its type does not know: one encoding, whose tag is not one of the alternatives'. (The additions of
    /// a SEQUENCE are known by their place, too.)
    fn unknown(&mut self, bytes: &[u8], alternatives: &[Member]) -> Result<(), Error> {
        let rules = if self.der { Rules::Der } else { Rules::Ber };
        let mut decoder = Decoder::new(bytes, rules, Limits::default());
        let tag = decoder.peek()?;
        decoder.any()?;
        decoder.finish()?;
        if let Some(known) = alternatives.iter().find(|a| self.schema.begins_with(a.ty, tag)) {
            let name = &known.name;
            let message =
                format!("cannot write tag {tag} as an unknown alternative: `{name}` has it");
            return Err(Error::of_value(message));
        }
        self.put(bytes);
        Ok(())
    }

    /// A value of a type that is not there: one encoding, with the tag that the type is known to have.
    fn opaque(&mut self, of: &Opaque, bytes: &[u8]) -> Result<(), Error> {
        let rules = if self.der { Rules::Der } else { Rules::Ber };
        let found = Decoder::new(bytes, rules, Limits::default()).peek()?;
        if let Some(expected) = of.tag.filter(|tag| *tag != found) {
            let name = &of.name;
            let message = format!("expected tag {expected} for `{name}`, found {found}");
            return Err(Error::of_value(message));
        }
        self.unknown(bytes, &[])
    }

    fn member(&mut self, kind: &StructureType, of: &Structure, n: usize) -> Result<(), Error> {
        let member = &kind.members[n];
        match &of.members[n] {
            // X.690, 11.5.
            Some(value) if self.der && member.default.as_ref() == Some(value) => Ok(()),
            Some(value) => self.value(member.ty, value).map_err(|e| e.in_field(&member.name)),
            None if member.is_optional => Ok(()),
            None => Err(Error::of_value("a component is missing").in_field(&member.name)),
        }
    }

    /// The components of a SET in the order of their tags (X.690, 10.3), as generated code writes them in BER,
    /// too. `ends` are where each ends, in what is reversed.
    fn sort_tags(&mut self, start: usize, ends: &[usize]) {
        let mut parts = Vec::with_capacity(ends.len());
        let mut from = start;
        for &end in ends {
            let mut part = self.reversed[from..end].to_vec();
            part.reverse();
            from = end;
            if !part.is_empty() {
                parts.push(part);
            }
        }
        let tag = |part: &Vec<u8>| {
            let decoder = Decoder::new(part, Rules::Ber, Limits::default());
            decoder.peek().ok()
        };
        parts.sort_by_key(tag);
        self.reversed.truncate(start);
        for part in parts.iter().rev() {
            self.put(part);
        }
    }

    fn list(&mut self, kind: &List, elements: &[Value]) -> Result<(), Error> {
        let (start, mut ends) = (self.reversed.len(), Vec::new());
        for (n, element) in elements.iter().enumerate().rev() {
            self.value(kind.element, element).map_err(|e| e.in_element(n))?;
            ends.push(self.reversed.len());
        }
        // X.690, 11.6.
        if kind.is_set && self.der && elements.len() > 1 {
            let mut parts = Vec::with_capacity(ends.len());
            let mut from = start;
            for end in ends {
                let mut part = self.reversed[from..end].to_vec();
                part.reverse();
                parts.push(part);
                from = end;
            }
            parts.sort();
            self.reversed.truncate(start);
            parts.iter().rev().for_each(|p| self.put(p));
        }
        Ok(())
    }
}

fn mismatch(name: &str) -> Error {
    Error::of_value(format!("the value is none of {name}"))
}
