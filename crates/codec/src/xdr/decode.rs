//! Bytes into values (RFC 4506, section 4), totally and within limits.

use super::{Decode, Encoder, UNIT, Units, fill_len};
use crate::cursor::{Cursor, TakeCounted};
use crate::types::{Alphabet, Any, Octets, Text};
use crate::{Error, Limits, Problem, Source};
use alloc::{string::String, vec, vec::Vec};

/// Reads XDR from a source.
pub type Decoder<S> = Cursor<S, Units>;

impl<'a, S: Source<'a>> Decoder<S> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, limits: Limits) -> Self {
        Cursor::of(source, Units, limits)
    }

    /// Enumeration (4.3), and the discriminant of a union (4.15): `known` says what each number means.
    ///
    /// # Errors
    /// Truncated, or a number that `known` does not know.
    pub fn enumeration<T>(
        &mut self,
        type_name: &'static str,
        known: impl FnOnce(u32) -> Option<T>,
    ) -> Result<T, Error> {
        let offset = self.position();
        let found = self.uint()?;
        known(found).ok_or(Problem::Discriminant { found: found.into(), type_name }.at(offset))
    }

    /// Boolean (4.4).
    ///
    /// # Errors
    /// Truncated, or neither 0 nor 1.
    pub fn bool(&mut self) -> Result<bool, Error> {
        let offset = self.position();
        match self.uint()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Problem::Boolean { found }.at(offset)),
        }
    }

    /// Fixed-length opaque data (4.9), and a quadruple (4.8) as its sixteen bytes.
    ///
    /// # Errors
    /// Truncated, or a fill byte that is not zero.
    pub fn opaque_fixed<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.chunk()?;
        self.fill(N)?;
        Ok(bytes)
    }

    /// Variable-length opaque data (4.10) of at most `bound` bytes, in a vector of its own.
    ///
    /// # Errors
    /// As [`Decoder::octets`].
    pub fn opaque(&mut self, bound: u32) -> Result<Vec<u8>, Error> {
        let offset = self.position();
        let octets = self.octets(bound)?;
        self.budget.bytes(octets.len() as u64, offset)?;
        Ok(octets.into_vec())
    }

    /// Variable-length opaque data (4.10) or a string (4.11) of at most `bound` bytes, lent where the source
    /// lends.
    ///
    /// # Errors
    /// Truncated, longer than `bound`, beyond the limit on size, or a fill byte that is not zero.
    #[inline]
    pub fn octets(&mut self, bound: u32) -> Result<Octets<'a>, Error> {
        let len = self.length(bound)?;
        self.octets_fixed(len)
    }

    /// Fixed-length opaque data (4.9) of `len` bytes, in a vector of its own: for lengths that no array on the
    /// stack should have.
    ///
    /// # Errors
    /// Truncated, beyond the limit on size, or a fill byte that is not zero.
    pub fn opaque_exact(&mut self, len: u32) -> Result<Vec<u8>, Error> {
        let len = len as usize;
        self.are_there(len)?;
        self.budget.bytes(len as u64, self.position())?;
        let mut bytes = vec![0; len];
        self.source.take(&mut bytes)?;
        self.fill(len)?;
        Ok(bytes)
    }

    /// String (4.11) of at most `bound` bytes that is UTF-8.
    ///
    /// # Errors
    /// As [`Decoder::opaque`], or no UTF-8.
    pub fn utf8(&mut self, bound: u32) -> Result<String, Error> {
        let offset = self.position();
        String::from_utf8(self.opaque(bound)?).map_err(|_| Problem::Contents("UTF-8").at(offset))
    }

    /// String (4.11) of at most `bound` bytes. RFC 4506 says nothing of the character set, so these are bytes.
    ///
    /// # Errors
    /// As [`Decoder::opaque`].
    pub fn string(&mut self, bound: u32) -> Result<Vec<u8>, Error> {
        self.opaque(bound)
    }

    /// Fixed-length array (4.12).
    ///
    /// # Errors
    /// As an element's own.
    pub fn array_fixed<T: Decode<'a> + Copy + Default, const N: usize>(
        &mut self,
    ) -> Result<[T; N], Error> {
        let mut elements = [T::default(); N];
        for element in &mut elements {
            *element = T::decode(self)?;
        }
        Ok(elements)
    }

    /// Fixed-length array (4.12) of elements that each `read` reads.
    ///
    /// # Errors
    /// As `read`'s own.
    pub fn array_exact<T, const N: usize>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<[T; N], Error> {
        let offset = self.position();
        let elements = self.elements(N, read)?;
        let wrong = |found: u64| Problem::TooShort { found, bound: N as u64 }.at(offset);
        elements.try_into().map_err(|other: Vec<T>| wrong(other.len() as u64))
    }

    /// A list of optional data (4.19, the type that ends with an optional one of itself), each element
    /// without its end read by `read`. It takes no depth, however long it is.
    ///
    /// # Errors
    /// As `read`'s own, or beyond the limit on the count.
    pub fn list_of<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        loop {
            let offset = self.position();
            if !self.bool()? {
                return Ok(elements);
            }
            self.budget.elements(1, offset)?;
            elements.push(read(self).map_err(|e| e.in_element(elements.len()))?);
        }
    }

    /// Variable-length array (4.13) of at most `bound` elements.
    ///
    /// # Errors
    /// As an element's own, more than `bound`, or beyond the limit on the count.
    pub fn array<T: Decode<'a>>(&mut self, bound: u32) -> Result<Vec<T>, Error> {
        let count = self.count(bound)?;
        T::decode_all(count, self)
    }

    /// Variable-length array (4.13) of at most `bound` elements, each read by `read`.
    ///
    /// # Errors
    /// As `read`'s own, more than `bound`, or beyond the limit on the count.
    pub fn array_of<T>(
        &mut self,
        bound: u32,
        read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let count = self.count(bound)?;
        self.elements(count, read)
    }

    /// The count of a variable-length array (4.13) of at most `bound` elements.
    ///
    /// # Errors
    /// Truncated, more than `bound`, or beyond the limit on the count.
    #[inline]
    pub fn count(&mut self, bound: u32) -> Result<usize, Error> {
        let offset = self.position();
        let count = self.length(bound)?;
        self.budget.elements(count as u64, offset)?;
        Ok(count)
    }

    /// Optional data (4.19), one level deeper.
    ///
    /// # Errors
    /// As the value's own, or nested too deep.
    pub fn optional_data<T: Decode<'a>>(&mut self) -> Result<Option<T>, Error> {
        if !self.bool()? {
            return Ok(None);
        }
        self.nested(T::decode).map(Some)
    }

    /// Passes over opaque data: an extension addition that is not known.
    ///
    /// # Errors
    /// As [`Decoder::octets`].
    pub fn skip_counted(&mut self) -> Result<(), Error> {
        self.octets(u32::MAX).map(drop)
    }

    /// A string of at most `bound` bytes.
    ///
    /// # Errors
    /// As [`Decoder::octets`], or it is of other characters.
    pub fn text<A: Alphabet>(&mut self, bound: u32) -> Result<Text<'a, A>, Error> {
        let offset = self.position();
        Text::decoded(self.octets(bound)?, offset)
    }

    /// Opaque data of fixed length (4.9), lent where the source lends.
    ///
    /// # Errors
    /// Truncated, beyond the limit on size, or a fill byte that is not zero.
    pub fn octets_fixed(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        self.filled_octets(len, UNIT)
    }

    /// An alternative behind `...` that this version does not know, as it is encoded: its number and opaque data.
    ///
    /// # Errors
    /// As [`Decoder::octets`].
    pub fn unknown(&mut self, number: u32) -> Result<Any<'a>, Error> {
        let octets = self.octets(u32::MAX)?;
        let whole = Encoder::apart(|to| {
            to.uint(number)?;
            to.opaque(&octets, u32::MAX)
        });
        whole.map(|whole| Any(Octets::from(whole)))
    }

    #[inline]
    fn length(&mut self, bound: u32) -> Result<usize, Error> {
        let offset = self.position();
        let found = self.uint()?;
        if found > bound {
            return Err(Problem::TooLong { found: found.into(), bound: bound.into() }.at(offset));
        }
        Ok(found as usize)
    }

    #[inline]
    pub(crate) fn fill(&mut self, len: usize) -> Result<(), Error> {
        self.zeros(fill_len(len))
    }
}

/// Opaque data that a value fills.
impl TakeCounted for Units {
    fn count<'a, S: Source<'a>>(from: &mut Decoder<S>) -> Result<usize, Error> {
        let offset = from.position();
        let len = from.uint()? as usize;
        let left = from.remaining();
        if !len.is_multiple_of(UNIT) {
            return Err(Problem::BadLength.at(offset));
        }
        if len > left {
            return Err(from.error(Problem::Truncated { needed: len, left }));
        }
        Ok(len)
    }
}
