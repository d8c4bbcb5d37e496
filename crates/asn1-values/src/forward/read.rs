//! Bytes into values.

use fusewire_asn1::ast::Simple;
use fusewire_codec::Problem;
use fusewire_codec::ber::{MAX_NUMBER, Tag};
use fusewire_codec::types::{BitString, Oid, RelativeOid, real};

use super::Syntax;
use super::layout::{self, Form};
use crate::characters;
use crate::error::Error;
use crate::limits::{Budget, Limits};
use crate::number;
use crate::schema::{
    Choice, Integer, Kind, List, Member, RealForm, Schema, Structure as StructureType, TypeId,
};
use crate::value::{Open, Place, Real, Structure, Unknown, Value};

/// Reads a value that takes up all of `data`, its open types as they are.
pub fn decode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    data: &[u8],
    syntax: Syntax,
    limits: Limits,
) -> Result<Value, Error> {
    let mut reader = Reader { schema, syntax, data, at: 0, budget: Budget::new(limits) };
    let value = reader.value(ty)?;
    match data.len() - reader.at {
        0 => Ok(value),
        left => Err(reader.error(Problem::LeftOver { left })),
    }
}

struct Reader<'s, 'w, 'a, 'd> {
    schema: &'s Schema<'w, 'a>,
    syntax: Syntax,
    data: &'d [u8],
    at: usize,
    budget: Budget,
}

impl<'d> Reader<'_, '_, '_, 'd> {
    fn error(&self, problem: Problem) -> Error {
        Error::at(problem, self.at)
    }

    /// In COER, an error unless it holds.
    fn canonical(&self, holds: bool, offset: usize, what: &'static str) -> Result<(), Error> {
        match holds || self.syntax != Syntax::Coer {
            true => Ok(()),
            false => Err(Error::at(Problem::NotCanonical(what), offset)),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'d [u8], Error> {
        let rest = &self.data[self.at..];
        match rest.get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.error(Problem::Truncated { needed: len, left: rest.len() })),
        }
    }

    fn octet(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    /// So many bytes as a number without sign.
    fn unsigned(&mut self, len: usize) -> Result<u64, Error> {
        Ok(self.take(len)?.iter().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    /// A word of LWS or a unit of XDR.
    fn word(&mut self) -> Result<u64, Error> {
        self.unsigned(self.syntax.unit())
    }

    /// Bytes whose number the type says, and the zeros behind them.
    fn fixed(&mut self, len: usize) -> Result<&'d [u8], Error> {
        let bytes = self.take(len)?;
        let offset = self.at;
        let fill = self.take(self.syntax.fill(len))?;
        match fill.iter().position(|b| *b != 0) {
            None => Ok(bytes),
            Some(n) => Err(Error::at(Problem::Fill { found: fill[n] }, offset + n)),
        }
    }

    /// A count or length.
    fn count(&mut self) -> Result<usize, Error> {
        let offset = self.at;
        let count = match self.syntax {
            Syntax::Oer | Syntax::Coer => self.length()?,
            Syntax::Lws(word) => match self.word()? {
                all if word < 8 && all == (1 << (8 * word)) - 1 => self.unsigned(8)?,
                count => count,
            },
            Syntax::Xdr => self.word()?,
        };
        usize::try_from(count).map_err(|_| Error::at(Problem::BadLength, offset))
    }

    /// X.696, 8.6.
    fn length(&mut self) -> Result<u64, Error> {
        let offset = self.at;
        let first = self.octet()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let octets = self.take(usize::from(first & 0x7f))?;
        let zeros = octets.iter().take_while(|o| **o == 0).count();
        if octets.is_empty() || octets.len() - zeros > 8 {
            return Err(Error::at(Problem::BadLength, offset));
        }
        let len = octets.iter().fold(0, |n, &b| n << 8 | u64::from(b));
        self.canonical(zeros == 0 && len >= 0x80, offset, "the shortest length")?;
        Ok(len)
    }

    fn counted(&mut self) -> Result<&'d [u8], Error> {
        let len = self.count()?;
        self.fixed(len)
    }

    /// What `read` reads behind its length; it has to be all of that.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let bytes = self.counted()?;
        let behind = self.at;
        let (whole, start) = (self.data, behind - self.syntax.fill(bytes.len()) - bytes.len());
        // What is within ends where its length says, and its offsets are of the whole.
        self.data = &whole[..start + bytes.len()];
        self.at = start;
        let result = read(self);
        let left = self.data.len() - self.at;
        let error = self.error(Problem::LeftOver { left });
        (self.data, self.at) = (whole, behind);
        match result {
            Ok(_) if left > 0 => Err(error),
            result => result,
        }
    }

    fn value(&mut self, ty: TypeId) -> Result<Value, Error> {
        let offset = self.at;
        self.budget.enter(offset)?;
        let value = self.of_kind(ty);
        self.budget.leave();
        self.allowed(ty, value?, offset)
    }

    /// A value, if the constraints of its type allow it.
    fn allowed(&self, ty: TypeId, value: Value, offset: usize) -> Result<Value, Error> {
        match self.schema.get(ty).objection(&value) {
            Some(objection) => Err(Error::at_value(objection, offset)),
            None => Ok(value),
        }
    }

    fn of_kind(&mut self, ty: TypeId) -> Result<Value, Error> {
        let schema = self.schema;
        let of = schema.get(ty);
        let offset = self.at;
        let contents = |what| Error::at(Problem::Contents(what), offset);
        Ok(match &of.kind {
            Kind::Boolean => Value::Boolean(self.boolean()?),
            Kind::Null => Value::Null,
            Kind::Integer(of) => Value::Integer(self.integer(of)?),
            Kind::Enumerated(kind) => {
                let found = self.enumerated()?;
                if !kind.is_extensible && !kind.items.iter().any(|(_, n)| *n == found) {
                    return Err(Error::at_value(format!("{found} is no {}", of.name), offset));
                }
                Value::Enumerated(found)
            }
            Kind::Real(form) => Value::Real(self.real(*form)?),
            Kind::Bits(names, size) => {
                let is_named = !names.is_empty() && size.least.unwrap_or(0) == 0;
                self.bits(is_named, size.fixed())?
            }
            Kind::Octets(size) => Value::Octets(match size.fixed() {
                Some(len) => self.fixed(len)?.to_vec(),
                None => self.counted()?.to_vec(),
            }),
            Kind::Text(simple @ (Simple::Date | Simple::TimeOfDay | Simple::DateTime), _)
                if self.syntax.is_oer() =>
            {
                Value::Text(self.moment(*simple)?)
            }
            Kind::Text(simple, size) => {
                let len = layout::character_bytes(*simple).zip(size.fixed());
                let len = len.and_then(|(a, b)| a.checked_mul(b)).filter(|_| self.syntax.is_oer());
                let bytes = match len {
                    Some(len) => self.fixed(len)?,
                    None => self.counted()?,
                };
                if !characters::holds(*simple, bytes) {
                    let message = format!("characters that {} does not have", of.name);
                    return Err(Error::at_value(message, offset));
                }
                if self.syntax == Syntax::Coer {
                    let checked = characters::check_canonical(*simple, bytes);
                    checked.map_err(|e| e.found_at(offset))?;
                }
                Value::Text(bytes.to_vec())
            }
            Kind::Oid => {
                let oid = Oid::from_contents(self.counted()?);
                let oid = oid.ok_or_else(|| contents("an OBJECT IDENTIFIER"))?;
                Value::Oid(oid.as_contents().to_vec())
            }
            Kind::RelativeOid => {
                let oid = RelativeOid::from_contents(self.counted()?);
                let oid = oid.ok_or_else(|| contents("a RELATIVE-OID"))?;
                Value::Oid(oid.as_contents().to_vec())
            }
            Kind::Structure(of) => self.structure(of)?,
            Kind::List(of) => self.list(of)?,
            Kind::Choice(kind) => self.choice(kind, &of.name)?,
            Kind::Open(_) => {
                let bytes = self.counted()?;
                let place = self.at - self.syntax.fill(bytes.len()) - bytes.len();
                Value::Open(Open::Raw(bytes.to_vec(), Place(place)))
            }
            Kind::Opaque(of) => return Err(Error::at_type(of.reason(), offset)),
            Kind::Unknown(reason) => {
                return Err(Error::at_type(format!("{}: {reason}", of.name), offset));
            }
        })
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        let offset = self.at;
        if self.syntax.is_oer() {
            let found = self.octet()?;
            self.canonical(matches!(found, 0 | 0xff), offset, "a BOOLEAN of 0 or 255")?;
            return Ok(found != 0);
        }
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Error::at(Problem::Boolean { found: found as u32 }, offset)),
        }
    }

    /// A DATE, TIME-OF-DAY or DATE-TIME in OER (X.696, 29), as notation.
    fn moment(&mut self, simple: Simple) -> Result<Vec<u8>, Error> {
        let offset = self.at;
        let mut notation = String::new();
        if simple != Simple::TimeOfDay {
            let year = self.integer(&Integer::default())?;
            let year = number::to_i128(&year).unwrap_or(-1);
            let (month, day) = (self.octet()?, self.octet()?);
            notation += &format!("{year:04}-{month:02}-{day:02}");
        }
        if simple == Simple::DateTime {
            notation.push('T');
        }
        if simple != Simple::Date {
            let (hour, minute, second) = (self.octet()?, self.octet()?, self.octet()?);
            notation += &format!("{hour:02}:{minute:02}:{second:02}");
        }
        let checked = characters::check(simple, notation.as_bytes());
        checked.map_err(|e| e.found_at(offset))?;
        Ok(notation.into_bytes())
    }

    /// An INTEGER in as few bytes as it takes.
    fn integer(&mut self, of: &Integer) -> Result<Vec<u8>, Error> {
        let offset = self.at;
        match layout::integer(of, self.syntax) {
            Form::Fixed(width, is_signed) => {
                let least = match self.syntax {
                    Syntax::Xdr if width > 4 => 8,
                    syntax => syntax.unit(),
                };
                let bytes = self.take(width.max(least))?;
                let (excess, bytes) = bytes.split_at(bytes.len() - width);
                let sign = if is_signed && bytes[0] & 0x80 != 0 { 0xff } else { 0 };
                if excess.iter().any(|b| *b != sign) {
                    let problem = Problem::IntegerTooWide { bytes: width + excess.len() };
                    return Err(Error::at(problem, offset));
                }
                Ok(signed(bytes, is_signed))
            }
            Form::Natural => {
                let bytes = self.counted()?;
                self.whole_number(bytes, offset)?;
                let shortest = bytes.len() == 1 || bytes[0] != 0;
                self.canonical(shortest, offset, "the shortest INTEGER")?;
                Ok(signed(bytes, false))
            }
            Form::Any => match self.syntax {
                Syntax::Lws(word) => self.word_integer(word),
                _ => {
                    let bytes = self.counted()?;
                    self.whole_number(bytes, offset)?;
                    let shortest = number::minimal(bytes);
                    let is_shortest = shortest.len() == bytes.len();
                    self.canonical(is_shortest, offset, "the shortest INTEGER")?;
                    Ok(shortest.to_vec())
                }
            },
        }
    }

    fn whole_number(&self, bytes: &[u8], offset: usize) -> Result<(), Error> {
        match bytes.is_empty() {
            true => Err(Error::at(Problem::Contents("an INTEGER"), offset)),
            false => Ok(()),
        }
    }

    fn word_integer(&mut self, word: usize) -> Result<Vec<u8>, Error> {
        let offset = self.at;
        let bytes = self.take(word)?;
        if bytes[0] != 0x80 || bytes[1..].iter().any(|b| *b != 0) {
            return Ok(number::minimal(bytes).to_vec());
        }
        let words = self.count()?;
        let len = words.checked_mul(word).ok_or_else(|| self.error(Problem::BadLength))?;
        let bytes = self.take(len)?;
        self.whole_number(bytes, offset)?;
        Ok(number::minimal(bytes).to_vec())
    }

    fn enumerated(&mut self) -> Result<i64, Error> {
        let offset = self.at;
        let bytes = match self.syntax {
            Syntax::Oer | Syntax::Coer => {
                let first = self.octet()?;
                if first < 0x80 {
                    return Ok(i64::from(first));
                }
                let bytes = self.take(usize::from(first & 0x7f))?;
                self.whole_number(bytes, offset)?;
                let shortest = number::minimal(bytes).len() == bytes.len();
                let is_long = bytes.len() > 1 || bytes[0] & 0x80 != 0;
                self.canonical(shortest && is_long, offset, "the shortest ENUMERATED")?;
                bytes.to_vec()
            }
            Syntax::Lws(word) => self.word_integer(word)?,
            Syntax::Xdr => self.take(4)?.to_vec(),
        };
        let number = number::to_i128(&bytes).and_then(|n| i64::try_from(n).ok());
        number.ok_or_else(|| Error::at(Problem::IntegerTooWide { bytes: bytes.len() }, offset))
    }

    fn real(&mut self, form: RealForm) -> Result<Real, Error> {
        let offset = self.at;
        Ok(match (self.syntax, form) {
            (Syntax::Oer | Syntax::Coer, RealForm::Any) => {
                let contents = self.counted()?;
                let value = real::decode(contents, self.syntax == Syntax::Coer);
                Real::new(value.map_err(|p| Error::at(p, offset))?)
            }
            (Syntax::Oer | Syntax::Coer | Syntax::Xdr, RealForm::Binary32) => {
                Real::new(f64::from(f32::from_bits(self.unsigned(4)? as u32)))
            }
            _ => Real::new(f64::from_bits(self.unsigned(8)?)),
        })
    }

    fn bits(&mut self, is_named: bool, fixed: Option<usize>) -> Result<Value, Error> {
        let offset = self.at;
        let wrong = || Error::at(Problem::Contents("a BIT STRING"), offset);
        let (unused, bytes) = match (fixed, self.syntax) {
            (Some(len), _) => ((len.wrapping_neg() % 8) as u8, self.fixed(len.div_ceil(8))?),
            (None, Syntax::Oer | Syntax::Coer) => {
                let [unused @ 0..=7, bytes @ ..] = self.counted()? else { return Err(wrong()) };
                (*unused, bytes)
            }
            (None, Syntax::Lws(_)) => {
                let len = self.count()?;
                ((len.wrapping_neg() % 8) as u8, self.fixed(len.div_ceil(8))?)
            }
            (None, Syntax::Xdr) => {
                let unused = u8::try_from(self.word()?).map_err(|_| wrong())?;
                (unused, self.counted()?)
            }
        };
        let bits = BitString::new(bytes, unused).ok_or_else(wrong)?;
        if fixed.is_none() && is_named {
            let is_trimmed = bits.trimmed().len() == bits.len();
            self.canonical(is_trimmed, offset, "no zero bits at the end of named bits")?;
        }
        Ok(Value::Bits(bytes.to_vec(), unused))
    }

    /// Bits, the first in the highest of the first byte; those that stand for nothing are zero.
    fn presence(&mut self, count: usize) -> Result<Vec<bool>, Error> {
        let offset = self.at;
        let bytes = self.fixed(count.div_ceil(8))?;
        let bit = |n: usize| bytes[n / 8] & (0x80 >> (n % 8)) != 0;
        if let Some(n) = (count..8 * bytes.len()).find(|n| bit(*n)) {
            return Err(Error::at(Problem::Fill { found: bytes[n / 8] }, offset));
        }
        Ok((0..count).map(bit).collect())
    }

    fn component(&mut self, member: &Member) -> Result<Value, Error> {
        let offset = self.at;
        self.budget.element(offset)?;
        let value = self.value(member.ty).map_err(|e| e.in_field(&member.name))?;
        if member.default.as_ref() == Some(&value) {
            let checked = self.canonical(false, offset, "nothing, for a default value");
            checked.map_err(|e| e.in_field(&member.name))?;
        }
        Ok(value)
    }

    fn structure(&mut self, of: &StructureType) -> Result<Value, Error> {
        let mut structure =
            Structure { members: of.members.iter().map(|_| None).collect(), unknown: Vec::new() };
        let root = layout::root(self.schema, of, self.syntax);
        if self.syntax == Syntax::Xdr {
            for n in root {
                structure.members[n] = self.xdr_component(&of.members[n])?;
            }
            if of.unknown_at.is_some() {
                let count = self.count()?;
                self.budget.elements(count as u64, self.at)?;
                self.additions(of, &mut structure, &vec![true; count])?;
            }
            return Ok(Value::Structure(structure));
        }
        let marker = usize::from(of.unknown_at.is_some());
        let optional = root.iter().filter(|n| of.members[**n].is_optional).count();
        let mut bits = self.presence(marker + optional)?.into_iter();
        let extended = marker == 1 && bits.next() == Some(true);
        for n in root {
            let member = &of.members[n];
            if !member.is_optional || bits.next() == Some(true) {
                structure.members[n] = Some(self.component(member)?);
            }
        }
        if !extended {
            return Ok(Value::Structure(structure));
        }
        let offset = self.at;
        let there = match self.syntax {
            Syntax::Oer | Syntax::Coer => {
                let wrong = Error::at(Problem::Contents("a bitmap of extension additions"), offset);
                let [unused @ 0..=7, bytes @ ..] = self.counted()? else { return Err(wrong) };
                let bits = BitString::new(bytes, *unused).filter(|b| !b.is_empty()).ok_or(wrong)?;
                self.budget.elements(bits.len() as u64, offset)?;
                (0..bits.len()).map(|n| bits.bit(n)).collect()
            }
            _ => {
                let count = self.count()?;
                self.budget.elements(count as u64, offset)?;
                vec![true; count]
            }
        };
        let any = there.contains(&true);
        self.canonical(any, offset, "no bitmap, without additions")?;
        self.additions(of, &mut structure, &there)?;
        Ok(Value::Structure(structure))
    }

    fn additions(
        &mut self,
        of: &StructureType,
        structure: &mut Structure,
        there: &[bool],
    ) -> Result<(), Error> {
        let known = layout::additions(of);
        for (n, _) in there.iter().enumerate().filter(|(_, there)| **there) {
            let Some(members) = known.get(n) else {
                let bytes = self.counted()?;
                if !bytes.is_empty() || self.syntax.is_oer() {
                    structure.unknown.push(Unknown::Counted(n as u64, bytes.to_vec()));
                }
                continue;
            };
            self.within(|r| r.addition(of, structure, members))?;
        }
        Ok(())
    }

    fn addition(
        &mut self,
        of: &StructureType,
        structure: &mut Structure,
        members: &[usize],
    ) -> Result<(), Error> {
        if self.syntax == Syntax::Xdr {
            for &n in members {
                structure.members[n] = self.xdr_component(&of.members[n])?;
            }
            return Ok(());
        }
        let syntax = self.syntax;
        let has_bit = |n: &&usize| layout::has_bit(&of.members[**n], syntax);
        let mut bits = self.presence(members.iter().filter(has_bit).count())?.into_iter();
        for n in members {
            if !has_bit(&n) || bits.next() == Some(true) {
                structure.members[*n] = Some(self.component(&of.members[*n])?);
            }
        }
        Ok(())
    }

    fn xdr_component(&mut self, member: &Member) -> Result<Option<Value>, Error> {
        let is_there = !member.is_optional || member.default.is_some() || {
            self.boolean().map_err(|e| e.in_field(&member.name))?
        };
        if !is_there {
            return Ok(None);
        }
        // A default is always written, so that it says nothing.
        let value = self.component(member)?;
        Ok(Some(value).filter(|value| member.default.as_ref() != Some(value)))
    }

    fn list(&mut self, of: &List) -> Result<Value, Error> {
        let offset = self.at;
        let count = match (of.size.fixed(), self.syntax) {
            (_, Syntax::Oer | Syntax::Coer) => {
                let bytes = self.counted()?;
                self.whole_number(bytes, offset)?;
                let zeros = bytes.iter().take_while(|b| **b == 0).count();
                let shortest = zeros == 0 || bytes.len() == 1;
                self.canonical(shortest, offset, "the shortest quantity")?;
                if bytes.len() - zeros > 8 {
                    return Err(Error::at(Problem::BadLength, offset));
                }
                bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))
            }
            (Some(count), _) => count as u64,
            (None, _) => self.count()? as u64,
        };
        self.budget.elements(count, offset)?;
        if let Syntax::Lws(word) = self.syntax
            && let Some(elements) = self.packed(of, count as usize, word)?
        {
            return Ok(Value::List(elements));
        }
        let mut elements = Vec::new();
        for n in 0..count as usize {
            elements.push(self.value(of.element).map_err(|e| e.in_element(n))?);
        }
        Ok(Value::List(elements))
    }

    /// Numbers of one size in LWS: as close as that allows.
    fn packed(
        &mut self,
        of: &List,
        count: usize,
        word: usize,
    ) -> Result<Option<Vec<Value>>, Error> {
        let schema = self.schema;
        let offset = self.at;
        let (width, is_signed) = match &schema.get(of.element).kind {
            Kind::Real(_) => (8, None),
            Kind::Integer(of) => match layout::integer(of, self.syntax) {
                Form::Fixed(width, is_signed) => (width, Some(is_signed)),
                _ => {
                    let words = usize::try_from(self.word()?).ok().filter(|n| *n > 0);
                    let width = words.and_then(|n| n.checked_mul(word));
                    let wrong = Problem::Contents("a number of words");
                    (width.ok_or_else(|| Error::at(wrong, offset))?, Some(true))
                }
            },
            _ => return Ok(None),
        };
        let len = count.checked_mul(width).ok_or_else(|| self.error(Problem::BadLength))?;
        let bytes = self.fixed(len)?;
        let value = |bytes: &[u8]| match is_signed {
            Some(is_signed) => Value::Integer(signed(bytes, is_signed)),
            None => {
                let bits = bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b));
                Value::Real(Real::new(f64::from_bits(bits)))
            }
        };
        let values = bytes.chunks(width).enumerate().map(|(n, bytes)| {
            self.allowed(of.element, value(bytes), offset).map_err(|e| e.in_element(n))
        });
        values.collect::<Result<_, _>>().map(Some)
    }

    fn choice(&mut self, of: &Choice, name: &str) -> Result<Value, Error> {
        let offset = self.at;
        if self.syntax.is_oer() {
            let tag = self.tag()?;
            return self.tagged(of, name, tag, offset);
        }
        let found = self.word()?;
        let index = match self.syntax {
            Syntax::Xdr => {
                let numbers = layout::discriminants(self.schema, of);
                numbers.iter().position(|n| u64::from(*n) == found)
            }
            _ => usize::try_from(found).ok().filter(|n| *n < of.alternatives.len()),
        };
        match index {
            Some(index) => self.alternative(of, index),
            None if of.is_extensible => {
                let bytes = self.counted()?;
                Ok(Value::UnknownChoice(Unknown::Counted(found, bytes.to_vec())))
            }
            None => Err(Error::at_value(format!("{found} is no alternative of {name}"), offset)),
        }
    }

    fn alternative(&mut self, of: &Choice, index: usize) -> Result<Value, Error> {
        let alternative = &of.alternatives[index];
        self.alternative_by(of, index, |r| r.value(alternative.ty))
    }

    /// An alternative, read by `read`: behind its length if it is an addition.
    fn alternative_by(
        &mut self,
        of: &Choice,
        index: usize,
        read: impl FnOnce(&mut Self) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        let alternative = &of.alternatives[index];
        let value = match alternative.addition {
            Some(_) => self.within(read),
            None => read(self),
        };
        let value = value.map_err(|e| e.in_field(&alternative.name))?;
        Ok(Value::Choice(index, Box::new(value)))
    }

    /// The alternative that begins with a tag.
    fn tagged(&mut self, of: &Choice, name: &str, tag: Tag, offset: usize) -> Result<Value, Error> {
        let schema = self.schema;
        let found = schema.alternative_of(of, tag);
        let Some(index) = found else {
            if of.is_extensible {
                return Ok(Value::UnknownChoice(Unknown::Tagged(tag, self.counted()?.to_vec())));
            }
            return Err(Error::at_value(format!("tag {tag} is none of {name}"), offset));
        };
        let ty = of.alternatives[index].ty;
        let is_untagged = schema.get(ty).tags.is_empty();
        self.alternative_by(of, index, |r| {
            if is_untagged {
                r.same_tag(tag)?;
            }
            r.value(ty)
        })
    }

    /// Looks at the tag that an untagged CHOICE begins with: it was read in front of the CHOICE, too (X.696, 20.1).
    fn same_tag(&mut self, expected: Tag) -> Result<(), Error> {
        let offset = self.at;
        let found = self.tag()?;
        self.at = offset;
        match found == expected {
            true => Ok(()),
            false => Err(Error::at(Problem::Tag { expected, found }, offset)),
        }
    }

    /// X.696, 8.7.
    fn tag(&mut self) -> Result<Tag, Error> {
        let offset = self.at;
        let wrong = || Error::at(Problem::BadTag, offset);
        let first = self.octet()?;
        let mut number = u64::from(first & 63);
        if number == 63 {
            number = 0;
            loop {
                let octet = self.octet()?;
                if number == 0 && octet == 0x80 || number > u64::from(MAX_NUMBER) {
                    return Err(wrong());
                }
                number = number << 7 | u64::from(octet & 0x7f);
                if octet < 0x80 {
                    break;
                }
            }
            if number < 63 {
                return Err(wrong());
            }
        }
        let number = u32::try_from(number).ok().filter(|n| *n <= MAX_NUMBER).ok_or_else(wrong)?;
        let make = [Tag::universal, Tag::application, Tag::context, Tag::private];
        Ok(make[usize::from(first >> 6)](number))
    }
}

/// Two's complement in as few bytes as it takes.
fn signed(bytes: &[u8], is_signed: bool) -> Vec<u8> {
    if is_signed {
        return number::minimal(bytes).to_vec();
    }
    let mut wide = vec![0];
    wide.extend(bytes);
    number::minimal(&wide).to_vec()
}
