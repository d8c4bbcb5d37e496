//! Octets into values, totally and within limits.

use super::Rules;
#[cfg(feature = "alloc")]
use super::{Decode, Encoder};
use crate::ber::Tag;
use crate::cursor::{Cursor, TakeCounted};
#[cfg(feature = "alloc")]
use crate::types::Any;
use crate::types::Octets;
use crate::types::integer::{needless, signed_len};
use crate::{Error, Limits, Problem, Source};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Reads OER or COER from a source.
pub type Decoder<S> = Cursor<S, Rules>;

impl<'a, S: Source<'a>> Decoder<S> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, rules: Rules, limits: Limits) -> Self {
        Cursor::of(source, rules, limits)
    }

    /// Which rules hold.
    #[inline(always)]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// A component with a DEFAULT, which in COER is there only if it differs (X.696, 16.2.3).
    ///
    /// # Errors
    /// As `read`'s own, which has `name` in its path; in COER also when it is there and is the default.
    #[inline(always)]
    pub fn default<T: PartialEq>(
        &mut self,
        present: bool,
        name: &'static str,
        default: T,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let offset = self.position();
        let Some(value) = self.optional(present, name, read)? else { return Ok(default) };
        self.canonical(value != default, offset, "nothing, for a default value")
            .map_err(|e| e.in_field(name))?;
        Ok(value)
    }

    /// In COER, an error unless `holds`.
    #[inline(always)]
    pub(super) fn canonical(
        &self,
        holds: bool,
        offset: usize,
        what: &'static str,
    ) -> Result<(), Error> {
        match holds || self.rules == Rules::Oer {
            true => Ok(()),
            false => Err(Problem::NotCanonical(what).at(offset)),
        }
    }

    #[inline(always)]
    pub(super) fn octet(&mut self) -> Result<u8, Error> {
        self.chunk::<1>().map(|[octet]| octet)
    }

    /// Up to eight octets, as the last of eight.
    #[inline(always)]
    fn tail(&mut self, len: usize) -> Result<[u8; 8], Error> {
        let mut octets = [0; 8];
        self.source.take(&mut octets[8 - len..])?;
        Ok(octets)
    }

    /// A length determinant (8.6); as many octets are there.
    ///
    /// # Errors
    /// Truncated, malformed, or in COER not the shortest.
    #[inline(always)]
    pub fn length(&mut self) -> Result<usize, Error> {
        let first = self.octet()?;
        if first < 0x80 {
            return Ok(usize::from(first));
        }
        self.long_length(usize::from(first & 0x7f))
    }

    #[inline(never)]
    fn long_length(&mut self, mut count: usize) -> Result<usize, Error> {
        let offset = self.position() - 1;
        if count == 0 {
            return Err(Problem::BadLength.at(offset));
        }
        let mut zeros = false;
        while count > 8 {
            zeros = true;
            if self.octet()? != 0 {
                return Err(Problem::BadLength.at(offset));
            }
            count -= 1;
        }
        let octets = self.tail(count)?;
        zeros |= octets[8 - count] == 0;
        let len = u64::from_be_bytes(octets);
        self.canonical(!zeros && len >= 0x80, offset, "the shortest length")?;
        usize::try_from(len).map_err(|_| Problem::BadLength.at(offset))
    }

    /// Octets whose number the type says.
    ///
    /// # Errors
    /// Truncated.
    #[inline(always)]
    pub fn octets_fixed(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        self.lent(len)
    }

    /// Octets behind their length.
    ///
    /// # Errors
    /// Truncated.
    #[inline(always)]
    pub fn octets(&mut self) -> Result<Octets<'a>, Error> {
        let len = self.length()?;
        self.octets_fixed(len)
    }

    /// An INTEGER whose bounds make it `bytes` octets (10.2): 1, 2, 4 or 8, with a sign.
    ///
    /// # Errors
    /// Truncated.
    #[inline(always)]
    pub fn fixed(&mut self, bytes: usize) -> Result<i64, Error> {
        Ok(match bytes {
            1 => i64::from(self.octet()? as i8),
            2 => i64::from(i16::from_be_bytes(self.chunk()?)),
            4 => i64::from(i32::from_be_bytes(self.chunk()?)),
            _ => i64::from_be_bytes(self.chunk()?),
        })
    }

    /// An INTEGER without bounds (10.4), if 64 bits hold it.
    ///
    /// # Errors
    /// Truncated, empty, wider than 64 bits, or in COER not the shortest.
    #[inline(always)]
    pub fn integer(&mut self) -> Result<i64, Error> {
        let offset = self.position();
        let len = self.length()?;
        if len.wrapping_sub(1) >= 8 {
            return self.odd_integer(len, offset);
        }
        let octets = self.tail(len)?;
        let value = i64::from_be_bytes(octets) << (64 - 8 * len) >> (64 - 8 * len);
        self.canonical(signed_len(value) == len, offset, "the shortest INTEGER")?;
        Ok(value)
    }

    #[cold]
    fn odd_integer(&mut self, len: usize, offset: usize) -> Result<i64, Error> {
        let octets = self.octets_fixed(len)?;
        if octets.is_empty() {
            return Err(Problem::Contents("an INTEGER").at(offset));
        }
        let needless = needless(&octets);
        self.canonical(needless == 0, offset, "the shortest INTEGER")?;
        let octets = &octets[needless..];
        if octets.len() > 8 {
            return Err(Problem::IntegerTooWide { bytes: octets.len() }.at(offset));
        }
        let first = if octets[0] & 0x80 == 0 { 0 } else { -1i64 };
        Ok(octets.iter().fold(first, |value, &octet| value << 8 | i64::from(octet)))
    }

    /// An INTEGER that is not below zero and has no upper bound (10.3), if 64 bits hold it.
    ///
    /// # Errors
    /// Truncated, empty, wider than 64 bits, or in COER not the shortest.
    #[inline]
    pub fn natural(&mut self) -> Result<u64, Error> {
        let offset = self.position();
        let len = self.length()?;
        let octets = self.octets_fixed(len)?;
        let zeros = octets.iter().take_while(|octet| **octet == 0).count();
        if octets.is_empty() {
            return Err(Problem::Contents("an INTEGER").at(offset));
        }
        self.canonical(zeros == 0 || octets.len() == 1, offset, "the shortest INTEGER")?;
        let significant = &octets[zeros..];
        if significant.len() > 8 {
            return Err(Problem::IntegerTooWide { bytes: significant.len() }.at(offset));
        }
        Ok(significant.iter().fold(0, |value, &octet| value << 8 | u64::from(octet)))
    }

    /// An ENUMERATED (11).
    ///
    /// # Errors
    /// Truncated, wider than 64 bits, or in COER not the shortest.
    #[inline]
    pub fn enumerated(&mut self) -> Result<i64, Error> {
        let offset = self.position();
        let first = self.octet()?;
        if first < 0x80 {
            return Ok(i64::from(first));
        }
        let len = usize::from(first & 0x7f);
        if !(1..=8).contains(&len) {
            return Err(Problem::Contents("an ENUMERATED").at(offset));
        }
        let octets = self.tail(len)?;
        let value = i64::from_be_bytes(octets) << (64 - 8 * len) >> (64 - 8 * len);
        let shortest = signed_len(value) == len && !(0..0x80).contains(&value);
        self.canonical(shortest, offset, "the shortest ENUMERATED")?;
        Ok(value)
    }

    /// A SEQUENCE's preamble (16.2), as [`super::Encoder::presence`] has it.
    ///
    /// # Errors
    /// Truncated, or bits are set that stand for nothing.
    #[inline(always)]
    pub fn presence(&mut self, count: u32) -> Result<u64, Error> {
        debug_assert!((1..=64).contains(&count));
        let offset = self.position();
        let mut octets = [0; 8];
        self.source.take(&mut octets[..count.div_ceil(8) as usize])?;
        let bits = u64::from_be_bytes(octets);
        match bits.trailing_zeros() >= 64 - count {
            true => Ok(bits >> (64 - count)),
            false => Err(Problem::Fill { found: bits as u8 }.at(offset)),
        }
    }

    /// Which extension additions follow (16.4): the first in the highest of 64 bits, and how many bits there
    /// are. More than 64 are more than there is.
    ///
    /// # Errors
    /// Truncated or malformed.
    pub fn additions(&mut self) -> Result<(u64, u32), Error> {
        const BAD: Problem = Problem::Contents("a bitmap of extension additions");
        let offset = self.position();
        let octets = self.octets()?;
        let [unused @ 0..=7, bytes @ ..] = &*octets else { return Err(BAD.at(offset)) };
        if bytes.is_empty() || bytes.len() > 8 {
            return Err(BAD.at(offset));
        }
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        let (bits, count) = (u64::from_be_bytes(bits), 8 * bytes.len() as u32 - u32::from(*unused));
        match count == 64 || bits << count == 0 {
            true => Ok((bits, count)),
            false => Err(Problem::Fill { found: bits as u8 }.at(offset)),
        }
    }

    /// The tag of a CHOICE's alternative (20.1 and 8.7).
    ///
    /// # Errors
    /// Truncated or malformed.
    #[inline]
    pub fn tag(&mut self) -> Result<Tag, Error> {
        let offset = self.position();
        let first = self.octet()?;
        let mut number = u32::from(first & 63);
        if number == 63 {
            number = 0;
            loop {
                let octet = self.octet()?;
                // The first may not be padding.
                if number == 0 && octet == 0x80 {
                    return Err(Problem::BadTag.at(offset));
                }
                number = number.checked_mul(128).ok_or_else(|| Problem::BadTag.at(offset))?
                    | u32::from(octet & 0x7f);
                if octet < 0x80 {
                    break;
                }
            }
            if number < 63 {
                return Err(Problem::BadTag.at(offset));
            }
        }
        Tag::from_parts(first >> 6, number).ok_or_else(|| Problem::BadTag.at(offset))
    }

    /// The tag of an untagged CHOICE, which was read before: it stands in front of the CHOICE around it, too (20.1).
    ///
    /// # Errors
    /// Truncated, malformed, or another tag than `expected`.
    pub fn same_tag(&mut self, expected: Tag) -> Result<(), Error> {
        let offset = self.position();
        match self.tag()? {
            found if found == expected => Ok(()),
            found => Err(Problem::Tag { expected, found }.at(offset)),
        }
    }

    /// The error of a tag or number that the type does not have.
    #[cold]
    pub fn unknown(&self, found: Tag, type_name: &'static str) -> Error {
        self.error(Problem::UnknownTag { found, type_name })
    }

    /// An alternative behind `...` that this version does not know, as it is encoded: tag, length, octets.
    ///
    /// # Errors
    /// Truncated.
    #[cfg(feature = "alloc")]
    pub fn unknown_alternative(&mut self, tag: Tag) -> Result<Any<'a>, Error> {
        let octets = self.octets()?;
        let whole = Encoder::apart(|to| {
            to.tag(tag)?;
            to.octets(&octets)
        });
        whole.map(|whole| Any(Octets::from(whole)))
    }

    /// Passes over an extension addition that is not known.
    ///
    /// # Errors
    /// Truncated.
    pub fn skip_addition(&mut self) -> Result<(), Error> {
        self.octets().map(drop)
    }

    /// A SEQUENCE OF: its quantity, and its elements.
    ///
    /// # Errors
    /// As an element's own, or more than the limit on the count.
    #[cfg(feature = "alloc")]
    pub fn sequence_of<T: Decode<'a>>(&mut self) -> Result<Vec<T>, Error> {
        let count = self.quantity()?;
        self.nested(|from| T::decode_all(count, from))
    }

    /// A SEQUENCE OF: its quantity, and its elements, each read by `read`.
    ///
    /// # Errors
    /// As `read`'s own, or more than the limit on the count.
    #[cfg(feature = "alloc")]
    pub fn sequence_of_each<T>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let count = self.quantity()?;
        self.nested(|from| from.elements(count, read))
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn quantity(&mut self) -> Result<usize, Error> {
        let offset = self.position();
        let count = self.natural()?;
        self.budget.elements(count, offset)?;
        usize::try_from(count).map_err(|_| Problem::BadLength.at(offset))
    }

    /// `count` INTEGERs without bounds: of as many as may be looked at together, length and octets are one
    /// load.
    #[cfg(feature = "alloc")]
    pub(super) fn integers(&mut self, count: usize) -> Result<Vec<i64>, Error> {
        let left = self.remaining();
        if 2 * count as u64 > left as u64 {
            return Err(self.error(Problem::Truncated { needed: 2 * count, left }));
        }
        let mut values = Vec::with_capacity(count);
        let (ahead, canonical) = (self.source.ahead(), self.rules == Rules::Coer);
        let mut at = 0;
        while values.len() < values.capacity().min(count)
            && let Some(chunk) = ahead.get(at..).and_then(<[u8]>::first_chunk::<8>)
        {
            let word = u64::from_le_bytes(*chunk);
            let len = word as u8 as usize;
            if len.wrapping_sub(1) > 6 {
                break;
            }
            let value = ((word.swap_bytes() << 8) as i64) >> (64 - 8 * len);
            if canonical && signed_len(value) != len {
                break;
            }
            values.push(value);
            at += 1 + len;
        }
        self.source.lend(at);
        for i in values.len()..count {
            values.push(self.integer().map_err(|e| e.in_element(i))?);
        }
        Ok(values)
    }
}

impl TakeCounted for Rules {
    fn count<'a, S: Source<'a>>(from: &mut Decoder<S>) -> Result<usize, Error> {
        from.length()
    }
}
