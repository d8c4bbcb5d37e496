//! Values into bytes (RFC 4506, section 4).

use super::{Encode, UNIT, Units, fill_len};
use crate::forward::{Output, PutCounted};
use crate::{Error, Problem, Sink};

/// Writes XDR to a sink.
pub type Encoder<S> = Output<S, Units>;

impl<S: Sink> Encoder<S> {
    /// Writes to `sink`.
    pub fn new(sink: S) -> Self {
        Output { sink, rules: Units }
    }

    /// Boolean (4.4).
    ///
    /// # Errors
    /// The sink is full.
    pub fn bool(&mut self, value: bool) -> Result<(), Error> {
        self.uint(u32::from(value))
    }

    /// Fixed-length opaque data (4.9), and a quadruple (4.8) as its sixteen bytes.
    ///
    /// # Errors
    /// The sink is full.
    pub fn opaque_fixed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sink.put(bytes)?;
        self.sink.put(&[0; 3][..fill_len(bytes.len())])
    }

    /// Variable-length opaque data (4.10) of at most `bound` bytes.
    ///
    /// # Errors
    /// The sink is full, or there are more bytes than `bound`.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8], bound: u32) -> Result<(), Error> {
        let count = self.bounded(bytes.len(), bound)?;
        self.filled_octets(count.into(), UNIT, bytes, UNIT)
    }

    /// String (4.11) of at most `bound` bytes.
    ///
    /// # Errors
    /// The sink is full, or the string is longer than `bound`.
    pub fn string(&mut self, text: &str, bound: u32) -> Result<(), Error> {
        self.opaque(text.as_bytes(), bound)
    }

    /// Fixed-length array (4.12): the elements, one after the other.
    ///
    /// # Errors
    /// As an element's own.
    pub fn array_fixed<T: Encode>(&mut self, elements: &[T]) -> Result<(), Error> {
        T::encode_all(elements, self)
    }

    /// Variable-length array (4.13) of at most `bound` elements.
    ///
    /// # Errors
    /// As an element's own, or there are more of them than `bound`.
    pub fn array<T: Encode>(&mut self, elements: &[T], bound: u32) -> Result<(), Error> {
        self.count(elements.len(), bound)?;
        self.array_fixed(elements)
    }

    /// Variable-length array (4.13) of at most `bound` elements, each written by `write`.
    ///
    /// # Errors
    /// As `write`'s own, or there are more elements than `bound`.
    pub fn array_of<T>(
        &mut self,
        elements: &[T],
        bound: u32,
        mut write: impl FnMut(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.count(elements.len(), bound)?;
        elements
            .iter()
            .enumerate()
            .try_for_each(|(i, element)| write(self, element).map_err(|e| e.in_element(i)))
    }

    /// A list of optional data (4.19, the type that ends with an optional one of itself), each element
    /// without its end written by `write`.
    ///
    /// # Errors
    /// As `write`'s own.
    pub fn list_of<T>(
        &mut self,
        elements: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (i, element) in elements.iter().enumerate() {
            self.bool(true)?;
            write(self, element).map_err(|e| e.in_element(i))?;
        }
        self.bool(false)
    }

    /// Whether a fixed length (4.9, 4.12) of `bound` is what a vector has.
    ///
    /// # Errors
    /// It is not.
    pub fn exactly(&self, len: usize, bound: u32) -> Result<(), Error> {
        let (found, bound) = (len as u64, u64::from(bound));
        match found.cmp(&bound) {
            core::cmp::Ordering::Equal => Ok(()),
            core::cmp::Ordering::Less => Err(self.error(Problem::TooShort { found, bound })),
            core::cmp::Ordering::Greater => Err(self.error(Problem::TooLong { found, bound })),
        }
    }

    /// Optional data (4.19).
    ///
    /// # Errors
    /// As the value's own.
    pub fn optional_data<T: Encode>(&mut self, value: Option<&T>) -> Result<(), Error> {
        self.bool(value.is_some())?;
        value.map_or(Ok(()), |value| value.encode(self))
    }

    fn count(&mut self, len: usize, bound: u32) -> Result<(), Error> {
        let count = self.bounded(len, bound)?;
        self.uint(count)
    }

    #[inline(always)]
    fn bounded(&self, len: usize, bound: u32) -> Result<u32, Error> {
        match u32::try_from(len) {
            Ok(count) if count <= bound => Ok(count),
            _ => Err(self.error(Problem::TooLong { found: len as u64, bound: bound.into() })),
        }
    }
}

/// As opaque data.
impl PutCounted for Units {
    fn put<S: Sink>(to: &mut Encoder<S>, bytes: &[u8]) -> Result<(), Error> {
        to.opaque(bytes, u32::MAX)
    }
}
