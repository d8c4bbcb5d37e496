//! Bytes into values (RFC 4506, section 4), totally and within limits.

use super::fill_len;
use crate::cursor::Cursor;
use crate::types::Octets;
use crate::{Error, Limits, Problem, SliceSource, Source};
use alloc::{boxed::Box, string::String, vec, vec::Vec};

/// A type that has an XDR form.
pub trait Decode<'a>: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// The input is no XDR form of `Self`; the error says what is wrong and where.
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error>;

    /// Reads `count` values, which the limits have been asked about.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_all<S: Source<'a>>(count: usize, from: &mut Decoder<S>) -> Result<Vec<Self>, Error> {
        from.elements(count, Self::decode)
    }
}

/// Reads one value that takes up all of `bytes`, with the default [`Limits`].
///
/// # Errors
/// As [`Decode::decode`], and [`Problem::LeftOver`].
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut decoder = Decoder::new(SliceSource::new(bytes), Limits::default());
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// Reads XDR from a source.
pub type Decoder<S> = Cursor<S, Units>;

/// What [`Decoder`] knows of its syntax: nothing, for all of it is in multiples of [`super::UNIT`].
#[derive(Debug)]
pub struct Units;

impl<'a, S: Source<'a>> Decoder<S> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, limits: Limits) -> Self {
        Cursor::of(source, Units, limits)
    }

    /// Integer (4.1).
    ///
    /// # Errors
    /// Truncated.
    pub fn int(&mut self) -> Result<i32, Error> {
        self.chunk().map(i32::from_be_bytes)
    }

    /// Unsigned integer (4.2).
    ///
    /// # Errors
    /// Truncated.
    pub fn uint(&mut self) -> Result<u32, Error> {
        self.chunk().map(u32::from_be_bytes)
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

    /// Hyper integer (4.5).
    ///
    /// # Errors
    /// Truncated.
    pub fn hyper(&mut self) -> Result<i64, Error> {
        self.chunk().map(i64::from_be_bytes)
    }

    /// Unsigned hyper integer (4.5).
    ///
    /// # Errors
    /// Truncated.
    pub fn uhyper(&mut self) -> Result<u64, Error> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// Floating point (4.6).
    ///
    /// # Errors
    /// Truncated.
    pub fn float(&mut self) -> Result<f32, Error> {
        self.uint().map(f32::from_bits)
    }

    /// Double-precision floating point (4.7).
    ///
    /// # Errors
    /// Truncated.
    pub fn double(&mut self) -> Result<f64, Error> {
        self.uhyper().map(f64::from_bits)
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

    fn length(&mut self, bound: u32) -> Result<usize, Error> {
        let offset = self.position();
        let found = self.uint()?;
        if found > bound {
            return Err(Problem::TooLong { found: found.into(), bound: bound.into() }.at(offset));
        }
        Ok(found as usize)
    }

    pub(crate) fn fill(&mut self, len: usize) -> Result<(), Error> {
        self.zeros(fill_len(len))
    }
}

/// Types that an array of is numbers in network order.
macro_rules! numbers {
    ($($type:ty, $read:ident;)*) => {$(
        impl<'a> Decode<'a> for $type {
            #[inline]
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                from.$read()
            }
            fn decode_all<S: Source<'a>>(count: usize, from: &mut Decoder<S>) -> Result<Vec<Self>, Error> {
                from.numbers(count)
            }
        }
    )*};
}

numbers! { u32, uint; i32, int; u64, uhyper; i64, hyper; f32, float; f64, double; }

impl<'a> Decode<'a> for bool {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.bool()
    }
}

/// Optional data (4.19).
impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.optional_data()
    }
}

/// What a type contains itself through (4.19).
impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        T::decode(from).map(Box::new)
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.opaque_fixed()
    }
}

/// Void (4.16).
impl<'a> Decode<'a> for () {
    fn decode<S: Source<'a>>(_: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(())
    }
}
