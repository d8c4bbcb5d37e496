//! Values into bytes.

use fusewire_asn1::ast::Simple;
use fusewire_codec::ber::Tag;
use fusewire_codec::types::BitString;

use super::Syntax;
use super::layout::{self, Form};
use crate::characters;
use crate::error::Error;
use crate::number;
use crate::schema::{
    Choice, Integer, Kind, List, Member, RealForm, Schema, Structure as StructureType, TypeId,
};
use crate::value::{Open, Real, Structure, Unknown, Value};

/// Writes a value.
pub fn encode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    value: &Value,
    syntax: Syntax,
) -> Result<Vec<u8>, Error> {
    let mut writer = Writer { schema, syntax, out: Vec::new() };
    writer.value(ty, value)?;
    Ok(writer.out)
}

struct Writer<'s, 'w, 'a> {
    schema: &'s Schema<'w, 'a>,
    syntax: Syntax,
    out: Vec<u8>,
}

fn mismatch(name: &str) -> Error {
    Error::of_value(format!("the value is none of {name}"))
}

impl<'s, 'w, 'a> Writer<'s, 'w, 'a> {
    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// The last so many bytes of a number.
    fn low(&mut self, value: i128, bytes: usize) {
        self.put(&value.to_be_bytes()[16 - bytes..]);
    }

    /// A count or length.
    fn count(&mut self, count: usize) -> Result<(), Error> {
        match self.syntax {
            // X.696, 8.6.
            Syntax::Oer | Syntax::Coer if count < 0x80 => self.out.push(count as u8),
            Syntax::Oer | Syntax::Coer => {
                let octets = (count as u64).to_be_bytes();
                let zeros = octets.iter().take_while(|o| **o == 0).count();
                self.out.push(0x80 | (8 - zeros) as u8);
                self.put(&octets[zeros..]);
            }
            Syntax::Lws(word) if word < 8 && count as u64 >= (1 << (8 * word)) - 1 => {
                self.put(&[0xff; 8][..word]);
                self.low(count as i128, 8);
            }
            Syntax::Lws(word) => self.low(count as i128, word),
            Syntax::Xdr => {
                let count = u32::try_from(count)
                    .map_err(|_| Error::of_value("longer than XDR has a count for"))?;
                self.put(&count.to_be_bytes());
            }
        }
        Ok(())
    }

    /// Bytes whose number the type says.
    fn fixed(&mut self, bytes: &[u8]) {
        self.put(bytes);
        let fill = self.syntax.fill(bytes.len());
        self.put(&[0; 8][..fill]);
    }

    fn counted(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.count(bytes.len())?;
        self.fixed(bytes);
        Ok(())
    }

    /// What is written within, behind its length.
    fn within(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let outer = std::mem::take(&mut self.out);
        let result = write(self);
        let inner = std::mem::replace(&mut self.out, outer);
        result?;
        self.counted(&inner)
    }

    fn value(&mut self, ty: TypeId, value: &Value) -> Result<(), Error> {
        let of = self.schema.get(ty);
        of.allows(value)?;
        match (&of.kind, value) {
            (Kind::Boolean, Value::Boolean(value)) => match self.syntax {
                Syntax::Oer | Syntax::Coer => self.out.push(if *value { 0xff } else { 0 }),
                syntax => self.low(i128::from(*value), syntax.unit()),
            },
            (Kind::Null, Value::Null) => {}
            (Kind::Integer(of), Value::Integer(bytes)) => self.integer(of, bytes)?,
            (Kind::Enumerated(_), Value::Enumerated(n)) => self.enumerated(*n)?,
            (Kind::Real(form), Value::Real(real)) => self.real(*form, real)?,
            (Kind::Bits(names, size), Value::Bits(bytes, unused)) => {
                let is_named = !names.is_empty() && size.least.unwrap_or(0) == 0;
                self.bits(bytes, *unused, is_named, size.fixed())?;
            }
            (Kind::Octets(size), Value::Octets(bytes)) => match size.fixed() {
                Some(len) if len == bytes.len() => self.fixed(bytes),
                Some(len) => return Err(size_error(bytes.len(), len)),
                None => self.counted(bytes)?,
            },
            (
                Kind::Text(simple @ (Simple::Date | Simple::TimeOfDay | Simple::DateTime), _),
                Value::Text(bytes),
            ) if self.syntax.is_oer() => self.moment(*simple, bytes)?,
            (Kind::Text(simple, size), Value::Text(bytes)) => {
                if self.syntax == Syntax::Coer {
                    characters::check_canonical(*simple, bytes)?;
                }
                let len = layout::character_bytes(*simple).zip(size.fixed()).map(|(a, b)| a * b);
                match len.filter(|_| self.syntax.is_oer()) {
                    Some(len) if len == bytes.len() => self.fixed(bytes),
                    Some(len) => return Err(size_error(bytes.len(), len)),
                    None => self.counted(bytes)?,
                }
            }
            (Kind::Oid | Kind::RelativeOid, Value::Oid(bytes)) => self.counted(bytes)?,
            (Kind::Structure(kind), Value::Structure(of)) => self.structure(kind, of)?,
            (Kind::List(kind), Value::List(elements)) => self.list(kind, elements)?,
            (Kind::Choice(kind), value) => self.choice(kind, value, &of.name)?,
            (Kind::Open(_), Value::Open(Open::Raw(bytes, _))) => self.counted(bytes)?,
            (Kind::Open(_), Value::Open(Open::Typed(ty, value))) => {
                self.within(|w| w.value(*ty, value))?;
            }
            (Kind::Opaque(of), _) => return Err(Error::of_type(of.reason())),
            (Kind::Unknown(reason), _) => {
                return Err(Error::of_type(format!("{}: {reason}", of.name)));
            }
            _ => return Err(mismatch(&of.name)),
        }
        Ok(())
    }

    /// A DATE, TIME-OF-DAY or DATE-TIME in OER (X.696, 29): the year as an INTEGER without bounds, an octet for each of
    /// the others.
    fn moment(&mut self, simple: Simple, notation: &[u8]) -> Result<(), Error> {
        let parts = notation.split(|c| !c.is_ascii_digit());
        for (n, part) in parts.enumerate() {
            let value = part.iter().fold(0, |value, c| 10 * value + i128::from(c - b'0'));
            match n == 0 && simple != Simple::TimeOfDay {
                true => self.counted(&number::of(value))?,
                false => self.low(value, 1),
            }
        }
        Ok(())
    }

    fn integer(&mut self, of: &Integer, bytes: &[u8]) -> Result<(), Error> {
        let form = layout::integer(of, self.syntax);
        let bytes = number::minimal(bytes);
        match form {
            Form::Fixed(width, is_signed) => {
                let value =
                    number::to_i128(bytes).ok_or_else(|| Error::of_value("too large a number"))?;
                let bits = 8 * width as u32;
                let (low, high) = match is_signed {
                    true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
                    false => (0, (1_i128 << bits) - 1),
                };
                if value < low || value > high {
                    return Err(Error::of_value(format!("{value} is not from {low} to {high}")));
                }
                let least = match self.syntax {
                    Syntax::Xdr if width > 4 => 8,
                    syntax => syntax.unit(),
                };
                self.low(value, width.max(least));
            }
            Form::Natural if bytes[0] & 0x80 != 0 => {
                return Err(Error::of_value("a number below zero"));
            }
            Form::Natural if bytes[0] == 0 && bytes.len() > 1 => self.counted(&bytes[1..])?,
            Form::Natural => self.counted(bytes)?,
            Form::Any => match self.syntax {
                Syntax::Lws(word) => self.word_integer(bytes, word)?,
                _ => self.counted(bytes)?,
            },
        }
        Ok(())
    }

    /// A word, or where that has no room the one that is only a sign bit, a count of words, and these.
    fn word_integer(&mut self, bytes: &[u8], word: usize) -> Result<(), Error> {
        let value = number::to_i128(bytes);
        let least = -(1_i128 << (8 * word - 1));
        match value.filter(|v| *v > least && *v < -least) {
            Some(value) => self.low(value, word),
            None => {
                self.low(least, word);
                self.count(bytes.len().div_ceil(word))?;
                self.extended(bytes, bytes.len().next_multiple_of(word));
            }
        }
        Ok(())
    }

    /// With the sign in front, as many bytes as are wanted.
    fn extended(&mut self, bytes: &[u8], len: usize) {
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
        self.out.extend(std::iter::repeat_n(sign, len - bytes.len()));
        self.put(bytes);
    }

    fn enumerated(&mut self, n: i64) -> Result<(), Error> {
        let bytes = number::of(i128::from(n));
        match self.syntax {
            // X.696, 11.
            Syntax::Oer | Syntax::Coer if (0..0x80).contains(&n) => self.out.push(n as u8),
            Syntax::Oer | Syntax::Coer => {
                self.out.push(0x80 | bytes.len() as u8);
                self.put(&bytes);
            }
            Syntax::Lws(word) => self.word_integer(&bytes, word)?,
            Syntax::Xdr => {
                let n = i32::try_from(n).map_err(|_| Error::of_value("a number beyond 32 bits"))?;
                self.put(&n.to_be_bytes());
            }
        }
        Ok(())
    }

    fn real(&mut self, form: RealForm, real: &Real) -> Result<(), Error> {
        match (self.syntax, form) {
            (Syntax::Oer | Syntax::Coer, RealForm::Any) => {
                let plain = Real::new(real.value);
                self.counted(&plain.contents())?;
            }
            (Syntax::Oer | Syntax::Coer | Syntax::Xdr, RealForm::Binary32) => {
                self.put(&(real.value as f32).to_bits().to_be_bytes());
            }
            _ => self.put(&real.value.to_bits().to_be_bytes()),
        }
        Ok(())
    }

    fn bits(
        &mut self,
        bytes: &[u8],
        unused: u8,
        is_named: bool,
        fixed: Option<usize>,
    ) -> Result<(), Error> {
        let bits = BitString::new(bytes, unused).ok_or_else(|| mismatch("BIT STRING"))?;
        if let Some(len) = fixed {
            if bits.len() != len {
                return Err(size_error(bits.len(), len));
            }
            self.fixed(bytes);
            return Ok(());
        }
        match self.syntax {
            Syntax::Oer | Syntax::Coer => {
                // X.696, 13.3.1.
                let bits = if is_named { bits.trimmed() } else { bits };
                self.count(1 + bits.as_bytes().len())?;
                self.out.push(bits.unused());
                self.put(bits.as_bytes());
            }
            Syntax::Lws(_) => {
                self.count(bits.len())?;
                self.fixed(bytes);
            }
            Syntax::Xdr => {
                self.low(i128::from(unused), 4);
                self.counted(bytes)?;
            }
        }
        Ok(())
    }

    /// Bits, the first in the highest of the first byte.
    fn presence(&mut self, bits: &[bool]) {
        let mut bytes = vec![0_u8; bits.len().div_ceil(8)];
        for (n, bit) in bits.iter().enumerate() {
            bytes[n / 8] |= u8::from(*bit) << (7 - n % 8);
        }
        self.fixed(&bytes);
    }

    /// A component that is there, and is not its default.
    fn said<'v>(member: &Member, value: &'v Option<Value>) -> Option<&'v Value> {
        value.as_ref().filter(|value| member.default.as_ref() != Some(value))
    }

    fn structure(&mut self, kind: &StructureType, of: &Structure) -> Result<(), Error> {
        if of.members.len() != kind.members.len() {
            return Err(mismatch("the SEQUENCE or SET"));
        }
        let root = layout::root(self.schema, kind, self.syntax);
        let mut additions =
            layout::additions(kind).into_iter().map(Addition::Known).collect::<Vec<_>>();
        for unknown in &of.unknown {
            let Unknown::Counted(n, bytes) = unknown else {
                return Err(Error::of_value("an extension addition of another encoding"));
            };
            let at = usize::try_from(*n).ok().filter(|n| *n < UNKNOWN_MAX);
            let at = at.ok_or_else(|| Error::of_value("an extension addition too far behind"))?;
            while additions.len() <= at {
                additions.push(Addition::Absent);
            }
            if !matches!(additions[at], Addition::Absent) {
                let message =
                    format!("cannot write the extension addition {n}: it is known or given twice");
                return Err(Error::of_value(message));
            }
            additions[at] = Addition::Unknown(bytes);
        }
        let there: Vec<bool> = additions.iter().map(|a| a.is_there(kind, of)).collect();
        let extended = there.contains(&true);
        if self.syntax == Syntax::Xdr {
            return self.xdr_structure(kind, of, &root, &additions, extended);
        }
        let mut bits = Vec::new();
        if kind.unknown_at.is_some() {
            bits.push(extended);
        }
        let optional = root.iter().filter(|n| kind.members[**n].is_optional);
        bits.extend(optional.map(|n| Self::said(&kind.members[*n], &of.members[*n]).is_some()));
        if !bits.is_empty() {
            self.presence(&bits);
        }
        for n in root {
            self.member(&kind.members[n], &of.members[n])?;
        }
        if !extended {
            return Ok(());
        }
        if self.syntax.is_oer() {
            // X.696, 16.4.
            self.count(1 + there.len().div_ceil(8))?;
            self.out.push((there.len().wrapping_neg() % 8) as u8);
            self.presence(&there);
        } else {
            self.count(there.len())?;
        }
        for (addition, there) in additions.iter().zip(there) {
            match there {
                false if self.syntax.is_oer() => {}
                _ => self.addition(addition, kind, of)?,
            }
        }
        Ok(())
    }

    fn member(&mut self, member: &Member, value: &Option<Value>) -> Result<(), Error> {
        match Self::said(member, value) {
            Some(value) => self.value(member.ty, value).map_err(|e| e.in_field(&member.name)),
            None if member.is_optional => Ok(()),
            None => Err(Error::of_value("a component is missing").in_field(&member.name)),
        }
    }

    /// An addition, behind its length.
    fn addition(
        &mut self,
        addition: &Addition<'_>,
        kind: &StructureType,
        of: &Structure,
    ) -> Result<(), Error> {
        let members = match addition {
            Addition::Known(members) => members,
            Addition::Unknown(bytes) => return self.counted(bytes),
            Addition::Absent => return self.count(0),
        };
        self.within(|w| {
            let parts = || members.iter().map(|n| (&kind.members[*n], &of.members[*n]));
            let bits: Vec<bool> = parts()
                .filter(|(m, _)| layout::has_bit(m, w.syntax))
                .map(|(m, v)| Self::said(m, v).is_some())
                .collect();
            if w.syntax == Syntax::Xdr {
                return parts().try_for_each(|(m, v)| w.xdr_member(m, v));
            }
            if !bits.is_empty() {
                w.presence(&bits);
            }
            parts().try_for_each(|(member, value)| match (member.is_needed, value) {
                (true, None) if !layout::has_bit(member, w.syntax) => {
                    Err(Error::of_value("a component is missing").in_field(&member.name))
                }
                _ => w.member(member, value),
            })
        })
    }

    fn list(&mut self, kind: &List, elements: &[Value]) -> Result<(), Error> {
        match (kind.size.fixed(), self.syntax) {
            (_, Syntax::Oer | Syntax::Coer) => {
                // X.696, 17.2: a quantity is a number without a sign.
                let octets = (elements.len() as u64).to_be_bytes();
                let zeros = octets.iter().take_while(|o| **o == 0).count().min(7);
                self.counted(&octets[zeros..])?;
            }
            (Some(len), _) if len == elements.len() => {}
            (Some(len), _) => return Err(size_error(elements.len(), len)),
            (None, _) => self.count(elements.len())?,
        }
        if let Syntax::Lws(word) = self.syntax
            && self.packed(kind, elements, word)?
        {
            return Ok(());
        }
        for (n, element) in elements.iter().enumerate() {
            self.value(kind.element, element).map_err(|e| e.in_element(n))?;
        }
        Ok(())
    }

    /// Numbers of one size in LWS: as close as that allows.
    fn packed(&mut self, kind: &List, elements: &[Value], word: usize) -> Result<bool, Error> {
        let start = self.out.len();
        let of = self.schema.get(kind.element);
        match &of.kind {
            Kind::Real(_) => {
                for (n, element) in elements.iter().enumerate() {
                    self.value(kind.element, element).map_err(|e| e.in_element(n))?;
                }
            }
            Kind::Integer(bounds) => {
                for (n, element) in elements.iter().enumerate() {
                    of.allows(element).map_err(|e| e.in_element(n))?;
                }
                let form = layout::integer(bounds, self.syntax);
                let numbers: Option<Vec<&[u8]>> = elements
                    .iter()
                    .map(|e| match e {
                        Value::Integer(bytes) => Some(number::minimal(bytes)),
                        _ => None,
                    })
                    .collect();
                let numbers = numbers.ok_or_else(|| mismatch("INTEGER"))?;
                let width = match form {
                    Form::Fixed(width, _) => width,
                    _ => {
                        let longest = numbers.iter().map(|n| n.len()).max().unwrap_or(1);
                        let words = longest.div_ceil(word);
                        self.low(words as i128, word);
                        words * word
                    }
                };
                for (n, bytes) in numbers.into_iter().enumerate() {
                    let is_below = bytes[0] & 0x80 != 0;
                    let bytes = match form {
                        // A number that fills all of its bytes without a sign.
                        Form::Fixed(_, false) if bytes[0] == 0 && bytes.len() > 1 => &bytes[1..],
                        _ => bytes,
                    };
                    if bytes.len() > width || (form == Form::Fixed(width, false) && is_below) {
                        return Err(Error::of_value("a number beyond its bounds").in_element(n));
                    }
                    match form {
                        Form::Fixed(_, false) => {
                            self.out.extend(std::iter::repeat_n(0, width - bytes.len()));
                            self.put(bytes);
                        }
                        _ => self.extended(bytes, width),
                    }
                }
            }
            _ => return Ok(false),
        }
        let fill = self.syntax.fill(self.out.len() - start);
        self.put(&[0; 8][..fill]);
        Ok(true)
    }

    fn choice(&mut self, kind: &Choice, value: &Value, name: &str) -> Result<(), Error> {
        match value {
            Value::Choice(index, value) => {
                let alternative = kind.alternatives.get(*index).ok_or_else(|| mismatch(name))?;
                self.alternative(kind, *index, value)?;
                let write = |w: &mut Self| {
                    w.value(alternative.ty, value).map_err(|e| e.in_field(&alternative.name))
                };
                match alternative.addition {
                    Some(_) => self.within(write),
                    None => write(self),
                }
            }
            Value::UnknownChoice(Unknown::Tagged(tag, bytes)) if self.syntax.is_oer() => {
                if kind.alternatives.iter().any(|a| self.schema.begins_with(a.ty, *tag)) {
                    return Err(known_alternative(tag, name));
                }
                self.tag(*tag);
                self.counted(bytes)
            }
            Value::UnknownChoice(Unknown::Counted(n, bytes)) if !self.syntax.is_oer() => {
                let is_known = match self.syntax {
                    Syntax::Xdr => layout::discriminants(self.schema, kind)
                        .iter()
                        .any(|known| u64::from(*known) == *n),
                    _ => *n < kind.alternatives.len() as u64,
                };
                if is_known {
                    return Err(known_alternative(n, name));
                }
                self.low(i128::from(*n), self.syntax.unit());
                self.counted(bytes)
            }
            Value::UnknownChoice(_) => {
                Err(Error::of_value("an alternative that was read from another encoding"))
            }
            _ => Err(mismatch(name)),
        }
    }

    /// What says which alternative follows.
    fn alternative(&mut self, kind: &Choice, index: usize, value: &Value) -> Result<(), Error> {
        match self.syntax {
            Syntax::Oer | Syntax::Coer => {
                let alternative = &kind.alternatives[index];
                let tag = layout::outermost_tag(self.schema, alternative.ty, value);
                self.tag(tag.ok_or_else(|| {
                    Error::of_type("an alternative without a tag").in_field(&alternative.name)
                })?);
            }
            Syntax::Lws(word) => self.low(index as i128, word),
            Syntax::Xdr => {
                let numbers = layout::discriminants(self.schema, kind);
                self.put(&numbers[index].to_be_bytes());
            }
        }
        Ok(())
    }

    /// X.696, 8.7.
    fn tag(&mut self, tag: Tag) {
        let (class, number) = (tag.class(), tag.number());
        if number < 63 {
            return self.out.push(class << 6 | number as u8);
        }
        self.out.push(class << 6 | 63);
        let groups = (32 - number.leading_zeros()).div_ceil(7);
        for group in (0..groups).rev() {
            let more = if group == 0 { 0 } else { 0x80 };
            self.out.push((number >> (7 * group)) as u8 & 0x7f | more);
        }
    }

    /// A structure: what is OPTIONAL is optional-data, what has a default is always there, additions are counted.
    fn xdr_structure(
        &mut self,
        kind: &StructureType,
        of: &Structure,
        root: &[usize],
        additions: &[Addition<'_>],
        extended: bool,
    ) -> Result<(), Error> {
        for &n in root {
            self.xdr_member(&kind.members[n], &of.members[n])?;
        }
        if kind.unknown_at.is_none() {
            return Ok(());
        }
        if !extended {
            return self.count(0);
        }
        self.count(additions.len())?;
        additions.iter().try_for_each(|a| self.addition(a, kind, of))
    }

    fn xdr_member(&mut self, member: &Member, value: &Option<Value>) -> Result<(), Error> {
        let value = match (value, &member.default) {
            (None, Some(default)) => Some(default),
            (value, _) => value.as_ref(),
        };
        if member.is_optional && member.default.is_none() {
            self.low(i128::from(value.is_some()), 4);
        }
        match value {
            Some(value) => self.value(member.ty, value).map_err(|e| e.in_field(&member.name)),
            None if member.is_optional => Ok(()),
            None => Err(Error::of_value("a component is missing").in_field(&member.name)),
        }
    }
}

/// An unknown addition is not further behind.
const UNKNOWN_MAX: usize = 4096;

/// An extension addition.
enum Addition<'v> {
    /// Its components.
    Known(Vec<usize>),
    /// Its octets.
    Unknown(&'v [u8]),
    /// It is before one that is not known.
    Absent,
}

impl Addition<'_> {
    fn is_there(&self, kind: &StructureType, of: &Structure) -> bool {
        match self {
            Addition::Known(members) => members.iter().any(|n| {
                let (member, value) = (&kind.members[*n], &of.members[*n]);
                value.as_ref().is_some_and(|v| member.default.as_ref() != Some(v))
            }),
            Addition::Unknown(_) => true,
            Addition::Absent => false,
        }
    }
}

fn size_error(found: usize, wanted: usize) -> Error {
    Error::of_value(format!("the size is {found}, and has to be {wanted}"))
}

fn known_alternative(number: &dyn std::fmt::Display, name: &str) -> Error {
    Error::of_value(format!("cannot write {number} as an unknown alternative: {name} has it"))
}
