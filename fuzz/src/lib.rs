//! The fuzz targets, one for each door that untrusted bytes come through, and what they share: a reader
//! that turns any bytes into choices, and a wire to meddle with.
//!
//! A target is a function of bytes. It runs under libFuzzer (`cargo xtask fuzz`), and over the inputs
//! kept in `corpus/` as an ordinary test. It never fails for want of input: past its end [`Choices`] gives
//! zeros, and loops ask [`Choices::is_empty`].
#![forbid(unsafe_code)]

pub mod channel;
pub mod targets;
pub mod wire;

/// A door.
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs one input; panics if anything is wrong.
    pub run: fn(&[u8]),
    /// Inputs to begin with, made from what honest sides send.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// The target of that name.
    pub fn from_name(name: &str) -> Option<&'static Target> {
        targets::TARGETS.iter().find(|t| t.name == name)
    }
}

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
