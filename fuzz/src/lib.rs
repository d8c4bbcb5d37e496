//! What the fuzz targets share: a reader that turns any bytes into choices, and a wire to meddle with.
//!
//! A target never fails for want of input: past its end [`Choices`] gives zeros, and loops ask
//! [`Choices::is_empty`].
#![forbid(unsafe_code)]

pub mod wire;

/// Input bytes read as decisions.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Decisions from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices(bytes)
    }

    /// Whether every byte was used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte, or zero.
    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) << 8 | u16::from(self.u8())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// Up to `len` bytes: fewer at the end.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
