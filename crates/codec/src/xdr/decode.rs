//! Bytes into values (RFC 4506, section 4), totally and within limits.

use super::fill_len;
use crate::{Error, Limits, Problem, SliceSource, Source};
use alloc::{vec, vec::Vec};

/// A type that has an XDR form.
pub trait Decode: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// The input is no XDR form of `Self`; the error says what is wrong and where.
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error>;
}

/// Reads one value that takes up all of `bytes`, with the default [`Limits`].
///
/// # Errors
/// As [`Decode::decode`], and [`Problem::LeftOver`].
pub fn from_bytes<T: Decode>(bytes: &[u8]) -> Result<T, Error> {
    let mut decoder = Decoder::new(SliceSource::new(bytes), Limits::default());
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// Reads XDR from a source.
#[derive(Debug)]
pub struct Decoder<S> {
    source: S,
    limits: Limits,
    depth: u32,
    size: u64,
    count: u64,
}

impl<S: Source> Decoder<S> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, limits: Limits) -> Self {
        Decoder { source, limits, depth: 0, size: 0, count: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.source.position()
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.source.remaining()
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`Problem::LeftOver`] when bytes are left.
    pub fn finish(self) -> Result<(), Error> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(Problem::LeftOver { left }.at(self.position())),
        }
    }

    /// Reads a type that can contain itself one level deeper.
    ///
    /// # Errors
    /// [`Problem::TooDeep`], or as `read`'s own.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth >= self.limits.depth {
            return Err(Problem::TooDeep { bound: self.limits.depth }.at(self.position()));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Integer (4.1).
    ///
    /// # Errors
    /// Truncated.
    pub fn int(&mut self) -> Result<i32, Error> {
        self.bytes().map(i32::from_be_bytes)
    }

    /// Unsigned integer (4.2).
    ///
    /// # Errors
    /// Truncated.
    pub fn uint(&mut self) -> Result<u32, Error> {
        self.bytes().map(u32::from_be_bytes)
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
        self.bytes().map(i64::from_be_bytes)
    }

    /// Unsigned hyper integer (4.5).
    ///
    /// # Errors
    /// Truncated.
    pub fn uhyper(&mut self) -> Result<u64, Error> {
        self.bytes().map(u64::from_be_bytes)
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
        let bytes = self.bytes()?;
        self.fill(N)?;
        Ok(bytes)
    }

    /// Variable-length opaque data (4.10) of at most `bound` bytes.
    ///
    /// # Errors
    /// Truncated, longer than `bound`, beyond the limit on size, or a fill byte that is not zero.
    pub fn opaque(&mut self, bound: u32) -> Result<Vec<u8>, Error> {
        let offset = self.position();
        let len = self.length(bound)?;
        self.size += len as u64;
        if self.size > self.limits.size {
            return Err(Problem::TooLarge { bound: self.limits.size }.at(offset));
        }
        let left = self.remaining();
        if len > left {
            return Err(Problem::Truncated { needed: len, left }.at(self.position()));
        }
        let mut bytes = vec![0; len];
        self.source.take(&mut bytes)?;
        self.fill(len)?;
        Ok(bytes)
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
    pub fn array_fixed<T: Decode + Copy + Default, const N: usize>(
        &mut self,
    ) -> Result<[T; N], Error> {
        let mut elements = [T::default(); N];
        for element in &mut elements {
            *element = T::decode(self)?;
        }
        Ok(elements)
    }

    /// Variable-length array (4.13) of at most `bound` elements.
    ///
    /// # Errors
    /// As an element's own, more than `bound`, or beyond the limit on the count.
    pub fn array<T: Decode>(&mut self, bound: u32) -> Result<Vec<T>, Error> {
        let offset = self.position();
        let count = self.length(bound)?;
        self.count += count as u64;
        if self.count > self.limits.count {
            return Err(Problem::TooMany { bound: self.limits.count }.at(offset));
        }
        // Elements that take no bytes cannot be made by the million: what is reserved is bounded by the input.
        let mut elements = Vec::with_capacity(count.min(self.remaining() / super::UNIT));
        for _ in 0..count {
            elements.push(T::decode(self)?);
        }
        Ok(elements)
    }

    /// Optional data (4.19), one level deeper.
    ///
    /// # Errors
    /// As the value's own, or nested too deep.
    pub fn optional<T: Decode>(&mut self) -> Result<Option<T>, Error> {
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

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.source.take(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, len: usize) -> Result<(), Error> {
        let mut fill = [0; 3];
        let fill = &mut fill[..fill_len(len)];
        let offset = self.position();
        self.source.take(fill)?;
        match fill.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(at) => Err(Problem::Fill { found: fill[at] }.at(offset + at)),
        }
    }
}

impl Decode for u32 {
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.uint()
    }
}

impl Decode for i32 {
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.int()
    }
}

impl Decode for u64 {
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.uhyper()
    }
}

impl Decode for i64 {
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.hyper()
    }
}

impl Decode for bool {
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.bool()
    }
}

impl<const N: usize> Decode for [u8; N] {
    fn decode<S: Source>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.opaque_fixed()
    }
}
