//! Values one at a time.

use super::{Decode, Decoder, Encode, Encoder, Rules};
use crate::forward::{holders, values};
use crate::types::{
    Alphabet, Any, BitString, Date, DateTime, Integer, Moment, NOT_CANONICAL_TIME, Octets, Oid,
    RelativeOid, Text, TimeOfDay, canonical_time, real,
};
use crate::{Error, Problem, Sink, Source};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

impl<S: Sink> Encoder<S> {
    /// An INTEGER that is not below zero and has no upper bound (10.3), of any width.
    ///
    /// # Errors
    /// The sink is full, or it is below zero.
    pub fn natural_wide(&mut self, value: &Integer<'_>) -> Result<(), Error> {
        match value.as_be_bytes() {
            [first, ..] if first & 0x80 != 0 => {
                Err(self.error(Problem::Contents("an INTEGER of 0 or more")))
            }
            [0, rest @ ..] if !rest.is_empty() => self.octets(rest),
            octets => self.octets(octets),
        }
    }

    /// A REAL that is constrained to binary64 (12.3).
    ///
    /// # Errors
    /// The sink is full.
    pub fn binary64(&mut self, value: f64) -> Result<(), Error> {
        self.put(&value.to_bits().to_be_bytes())
    }

    /// A REAL that is constrained to binary32 (12.2).
    ///
    /// # Errors
    /// The sink is full.
    pub fn binary32(&mut self, value: f32) -> Result<(), Error> {
        self.put(&value.to_bits().to_be_bytes())
    }

    /// A BIT STRING of a fixed size (13.2): its octets alone, which [`BitString::as_bytes`] has.
    ///
    /// # Errors
    /// The sink is full.
    pub fn bits_fixed(&mut self, bits: &BitString<'_>) -> Result<(), Error> {
        self.put(bits.as_bytes())
    }
}

impl<'a, S: Source<'a>> Decoder<S> {
    /// An INTEGER that is not below zero and has no upper bound (10.3), of any width.
    ///
    /// # Errors
    /// Truncated, empty, or in COER not the shortest.
    #[cfg(feature = "alloc")]
    pub fn natural_wide(&mut self) -> Result<Integer<'a>, Error> {
        let offset = self.position();
        let octets = self.octets()?;
        let Some(&first) = octets.first() else {
            return Err(Problem::Contents("an INTEGER").at(offset));
        };
        self.canonical(first != 0 || octets.len() == 1, offset, "the shortest INTEGER")?;
        if first & 0x80 == 0 {
            return Ok(Integer::of(octets));
        }
        let mut signed = Vec::with_capacity(octets.len() + 1);
        signed.push(0);
        signed.extend_from_slice(&octets);
        Ok(Integer::of(Octets::from(signed)))
    }

    /// A REAL that is constrained to binary64 (12.3).
    ///
    /// # Errors
    /// Truncated.
    pub fn binary64(&mut self) -> Result<f64, Error> {
        self.chunk().map(|bits| f64::from_bits(u64::from_be_bytes(bits)))
    }

    /// A REAL that is constrained to binary32 (12.2).
    ///
    /// # Errors
    /// Truncated.
    pub fn binary32(&mut self) -> Result<f32, Error> {
        self.chunk().map(|bits| f32::from_bits(u32::from_be_bytes(bits)))
    }

    /// A BIT STRING of `len` bits (13.2).
    ///
    /// # Errors
    /// Truncated, or bits behind the last are set.
    pub fn bits_fixed(&mut self, len: usize) -> Result<BitString<'a>, Error> {
        let offset = self.position();
        let bytes = self.octets_fixed(len.div_ceil(8))?;
        BitString::decoded(bytes, (len.wrapping_neg() % 8) as u8, offset)
    }
}

/// The machine's integers, which INTEGERs are constrained to.
macro_rules! integers {
    ($($type:ty),*) => {
        values! { [] $(
            #[inline(always)]
            $type =>
                |value, to| to.fixed(*value as i64, size_of::<$type>()),
                |from| from.fixed(size_of::<$type>()).map(|value| value as $type),
                all |values, to| to.numbers(values), |count, from| from.numbers(count);
        )* }
    };
}

integers!(i8, i16, i32, u8, u16, u32, u64);

values! { []
    #[inline(always)]
    i64 =>
        |value, to| to.integer(*value), |from| from.integer(),
        all |values, to| to.integers(values), |count, from| from.integers(count);
    Integer<'a> =>
        |value, to| to.octets(value.as_be_bytes()),
        |from, offset| {
            let octets = from.octets()?;
            let len = octets.len();
            let value = Integer::decoded(octets, offset)?;
            from.canonical(value.as_be_bytes().len() == len, offset, "the shortest INTEGER")?;
            Ok(value)
        };
    #[inline(always)]
    bool =>
        |value, to| to.put(&[if *value { 0xff } else { 0 }]),
        |from, offset| {
            let found = from.octet()?;
            from.canonical(matches!(found, 0 | 0xff), offset, "a BOOLEAN of 0 or 255")?;
            Ok(found != 0)
        };
    /// NULL: nothing (15).
    () => |_value, _to| Ok(()), |_from| Ok(());
    /// REAL that is not constrained to a number of the machine (12.4): as BER has its contents.
    #[inline]
    f64 =>
        |value, to| {
            let (octets, len) = real::encode(*value);
            to.octets(&octets[real::MAX_LEN - len..])
        },
        |from, offset| {
            let octets = from.octets()?;
            real::decode(&octets, from.rules() == Rules::Coer).map_err(|problem| problem.at(offset))
        };
    #[inline(always)]
    Octets<'a> => |octets, to| to.octets(octets), |from| from.octets();
    /// Character strings without a fixed size (27).
    #[inline(always)]
    Text<'a, A> [A: Alphabet] =>
        |text, to| {
            if to.has_canonical_times() && !canonical_time::<A>(text.as_bytes()) {
                return Err(to.error(Problem::NotCanonical(NOT_CANONICAL_TIME)));
            }
            to.octets(text.as_bytes())
        },
        |from, offset| {
            let text = Text::<A>::decoded(from.octets()?, offset)?;
            if from.rules() == Rules::Coer && !canonical_time::<A>(text.as_bytes()) {
                return Err(Problem::NotCanonical(NOT_CANONICAL_TIME).at(offset));
            }
            Ok(text)
        };
    /// BIT STRING of a variable size (13.3): length, a count of unused bits, octets.
    BitString<'a> =>
        |bits, to| {
            to.length(1 + bits.as_bytes().len())?;
            to.put(&[bits.unused()])?;
            to.put(bits.as_bytes())
        },
        |from, offset| {
            let len = from.length()?.checked_sub(1);
            let len = len.ok_or_else(|| Problem::Contents("a BIT STRING").at(offset))?;
            let unused = from.octet()?;
            BitString::decoded(from.octets_fixed(len)?, unused, offset)
        };
    /// The year as an INTEGER without bounds, month and day as an octet each (29).
    Date =>
        |date, to| {
            to.integer(date.year().into())?;
            to.put(&[date.month(), date.day()])
        },
        |from, offset| {
            let year = u16::try_from(from.integer()?).ok();
            let [month, day] = from.chunk()?;
            year.and_then(|year| Date::of(year, month, day))
                .ok_or_else(|| Problem::Contents(Date::NAME).at(offset))
        };
    /// An octet each (29).
    TimeOfDay =>
        |time, to| to.put(&[time.hour(), time.minute(), time.second()]),
        |from, offset| {
            let [hour, minute, second] = from.chunk()?;
            TimeOfDay::of(hour, minute, second)
                .ok_or_else(|| Problem::Contents(TimeOfDay::NAME).at(offset))
        };
    /// One after the other (29).
    DateTime =>
        |both, to| {
            both.date().encode(to)?;
            both.time().encode(to)
        },
        |from| Ok(DateTime::of(Date::decode(from)?, TimeOfDay::decode(from)?));
    /// As BER has its contents (21).
    Oid<'a> =>
        |oid, to| to.octets(oid.as_contents()), |from, offset| Oid::decoded(from.octets()?, offset);
    /// As BER has its contents (22).
    RelativeOid<'a> =>
        |oid, to| to.octets(oid.as_contents()),
        |from, offset| RelativeOid::decoded(from.octets()?, offset);
    /// Open types (30): counted, as they are.
    Any<'a> => |any, to| to.octets(any.as_bytes()), |from| from.octets().map(Any);
}

// SEQUENCE OF (17): a quantity, and the elements. What is behind a pointer is one level deeper.
holders! { []
    list |list, to| {
        to.natural(list.len() as u64)?;
        T::encode_all(list, to)
    },
    |from| from.sequence_of(),
    pointer |from| from.nested(T::decode)
}
