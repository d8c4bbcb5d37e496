//! Values into words.

use super::{Word, Words, fill_len};
use crate::forward::Output;
#[cfg(feature = "alloc")]
use crate::forward::PutCounted;
use crate::{Error, Sink};

/// Writes LWS of words `W` to a sink.
pub type Encoder<S, W> = Output<S, Words<W>>;

impl<S: Sink, W: Word> Encoder<S, W> {
    /// Writes to `sink`.
    pub fn new(sink: S) -> Self {
        Output { sink, rules: Words::default() }
    }

    /// An integer of `bytes` bytes (1, 2, 4 or 8), or of a word if that is more.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn fixed(&mut self, value: i64, bytes: usize) -> Result<(), Error> {
        let octets = value.to_be_bytes();
        match bytes.max(W::BYTES) {
            2 => self.sink.put(&octets[6..]),
            4 => self.sink.put(&octets[4..]),
            _ => self.sink.put(&octets),
        }
    }

    /// A BOOLEAN: a word, 0 or 1.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn bool(&mut self, value: bool) -> Result<(), Error> {
        self.fixed(i64::from(value), 1)
    }

    /// The alternative of a CHOICE: a word, from 0 in the order of the type.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn index(&mut self, index: u32) -> Result<(), Error> {
        self.fixed(i64::from(index), 1)
    }

    /// Which OPTIONAL and DEFAULT components follow, `count` of them, 64 at most, the first in the highest of
    /// the `count` bits.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn presence(&mut self, bits: u64, count: u32) -> Result<(), Error> {
        debug_assert!((1..=64).contains(&count));
        let octets = (bits << (64 - count)).to_be_bytes();
        let len = count.div_ceil(8) as usize;
        self.sink.put(&octets[..len + fill_len::<W>(len)])
    }

    /// A count: a word, or where it has not room for it one of all ones and then 64 bits.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn count(&mut self, count: usize) -> Result<(), Error> {
        let count = count as u64;
        if W::BYTES < 8 && count >= (1 << (8 * W::BYTES % 64)) - 1 {
            self.sink.put(&[0xff; 8][..W::BYTES])?;
            return self.sink.put(&count.to_be_bytes());
        }
        self.fixed(count as i64, 1)
    }

    /// Bytes whose length the type says, filled to a word.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn octets_fixed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sink.put(bytes)?;
        self.fill(bytes.len())
    }

    /// A count of bytes, and the bytes.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn octets(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if W::BYTES == 8 || (bytes.len() as u64) < (1 << (8 * W::BYTES % 64)) - 1 {
            return self.filled_octets(bytes.len() as u64, W::BYTES, bytes, W::BYTES);
        }
        self.count(bytes.len())?;
        self.octets_fixed(bytes)
    }

    /// Zeros behind `len` bytes.
    #[inline(always)]
    pub(super) fn fill(&mut self, len: usize) -> Result<(), Error> {
        match fill_len::<W>(len) {
            0 => Ok(()),
            fill => self.sink.put(&[0; 8][..fill]),
        }
    }
}

#[cfg(feature = "alloc")]
impl<W: Word> PutCounted for Words<W> {
    fn put<S: Sink>(to: &mut Encoder<S, W>, bytes: &[u8]) -> Result<(), Error> {
        to.octets(bytes)
    }
}
