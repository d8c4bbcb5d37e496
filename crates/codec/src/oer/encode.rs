//! Values into octets.

use crate::ber::Tag;
use crate::forward::Output;
#[cfg(feature = "alloc")]
use crate::forward::PutCounted;
use crate::types::integer::signed_len;
use crate::{Error, Problem, Sink};

/// Writes COER to a sink, and times as they are given, unless made by [`Encoder::canonical`].
pub type Encoder<S> = Output<S, Coer>;

/// The rules that an [`Encoder`] follows.
#[derive(Clone, Debug, Default)]
pub struct Coer {
    /// Only canonical times are written.
    has_canonical_times: bool,
}

impl<S: Sink> Encoder<S> {
    /// Writes to `sink`.
    pub fn new(sink: S) -> Self {
        Output { sink, rules: Coer::default() }
    }

    /// Writes to `sink`, and refuses times that are not in the form that COER has for them (X.690, 11.7 and 11.8).
    pub fn canonical(sink: S) -> Self {
        Output { sink, rules: Coer { has_canonical_times: true } }
    }

    /// Returns `true` if times must be canonical.
    #[inline(always)]
    pub(super) fn has_canonical_times(&self) -> bool {
        self.rules.has_canonical_times
    }

    /// Octets without a length, whose number the type says.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sink.put(bytes)
    }

    /// A length determinant in its shortest form (8.6).
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn length(&mut self, len: usize) -> Result<(), Error> {
        if len < 0x80 {
            return self.sink.put(&[len as u8]);
        }
        self.long_length(len as u64)
    }

    #[inline(never)]
    fn long_length(&mut self, len: u64) -> Result<(), Error> {
        let count = 8 - len.leading_zeros() as usize / 8;
        self.sink.put(&[0x80 | count as u8])?;
        self.sink.put(&len.to_be_bytes()[8 - count..])
    }

    /// Octets behind their length: OCTET STRING (14), open types (30), most character strings (27).
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn octets(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.length(bytes.len())?;
        self.sink.put(bytes)
    }

    /// An INTEGER whose bounds make it `bytes` octets (10.2): 1, 2, 4 or 8.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn fixed(&mut self, value: i64, bytes: usize) -> Result<(), Error> {
        let octets = value.to_be_bytes();
        match bytes {
            1 => self.sink.put(&octets[7..]),
            2 => self.sink.put(&octets[6..]),
            4 => self.sink.put(&octets[4..]),
            _ => self.sink.put(&octets),
        }
    }

    /// An INTEGER without bounds, or with one that may be below zero (10.4).
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn integer(&mut self, value: i64) -> Result<(), Error> {
        let len = signed_len(value);
        let mut octets = [0; 9];
        octets[0] = len as u8;
        octets[1..].copy_from_slice(&((value as u64) << (64 - 8 * len)).to_be_bytes());
        self.sink.put(&octets[..=len])
    }

    /// An INTEGER that is not below zero and has no upper bound (10.3); also the quantity of a SEQUENCE OF (17.2).
    ///
    /// # Errors
    /// The sink is full.
    #[inline]
    pub fn natural(&mut self, value: u64) -> Result<(), Error> {
        let len = 8 - (value | 1).leading_zeros() as usize / 8;
        self.sink.put(&[len as u8])?;
        self.sink.put(&value.to_be_bytes()[8 - len..])
    }

    /// An ENUMERATED (11).
    ///
    /// # Errors
    /// The sink is full.
    #[inline]
    pub fn enumerated(&mut self, value: i64) -> Result<(), Error> {
        if (0..0x80).contains(&value) {
            return self.sink.put(&[value as u8]);
        }
        let len = signed_len(value);
        self.sink.put(&[0x80 | len as u8])?;
        self.sink.put(&value.to_be_bytes()[8 - len..])
    }

    /// A SEQUENCE's preamble (16.2): a bit for the extension marker if there is one, then one for each
    /// component of the root that is OPTIONAL or has a DEFAULT; `count` of them, 64 at most, the first in the
    /// highest of the `count` bits.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn presence(&mut self, bits: u64, count: u32) -> Result<(), Error> {
        debug_assert!((1..=64).contains(&count));
        let octets = (bits << (64 - count)).to_be_bytes();
        self.sink.put(&octets[..count.div_ceil(8) as usize])
    }

    /// Which extension additions follow (16.4): as [`Encoder::presence`], but as a BIT STRING of variable size.
    ///
    /// # Errors
    /// The sink is full.
    pub fn additions(&mut self, bits: u64, count: u32) -> Result<(), Error> {
        self.length(1 + count.div_ceil(8) as usize)?;
        self.sink.put(&[(count.wrapping_neg() % 8) as u8])?;
        self.presence(bits, count)
    }

    /// The tag of a CHOICE's alternative (20.1 and 8.7).
    ///
    /// # Errors
    /// The sink is full.
    #[inline]
    pub fn tag(&mut self, tag: Tag) -> Result<(), Error> {
        let (class, number) = (tag.class() << 6, tag.number());
        if number < 63 {
            return self.sink.put(&[class | number as u8]);
        }
        let groups = (32 - number.leading_zeros()).div_ceil(7);
        self.sink.put(&[class | 63])?;
        (0..groups).rev().try_for_each(|group| {
            let more = if group == 0 { 0 } else { 0x80 };
            self.sink.put(&[(number >> (7 * group)) as u8 & 0x7f | more])
        })
    }

    /// The tag in front of an alternative that is an untagged CHOICE: the outermost tag of the alternative selected
    /// in it, which that CHOICE writes again itself (20.1).
    ///
    /// # Errors
    /// The sink is full, or `tag` is `None` because the selected alternative has no tag.
    pub fn selected_tag(&mut self, tag: Option<Tag>) -> Result<(), Error> {
        match tag {
            Some(tag) => self.tag(tag),
            None => Err(self.error(Problem::Unsupported("an alternative without a tag"))),
        }
    }

    /// INTEGERs without bounds, some at a time on the stack.
    #[inline]
    pub(super) fn integers(&mut self, values: &[i64]) -> Result<(), Error> {
        let mut strip = [0; Strip::LEN];
        for values in values.chunks(Strip::SOME) {
            let loops = Strip { values, strip: &mut strip };
            let len = crate::run(values.len(), loops);
            self.sink.put(&strip[..len])?;
        }
        Ok(())
    }
}

/// Some INTEGERs, in memory for as many; gives how much they took.
struct Strip<'v> {
    values: &'v [i64],
    strip: &'v mut [u8; Strip::LEN],
}

impl Strip<'_> {
    const SOME: usize = 64;
    const LEN: usize = 9 * Strip::SOME + 8;
}

impl crate::Loops for Strip<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let mut at = 0;
        for &value in self.values {
            let len = signed_len(value);
            self.strip[at] = len as u8;
            if let Some(place) = self.strip[at + 1..].first_chunk_mut() {
                // Octets behind the value are overwritten by the next.
                *place = ((value as u64) << (64 - 8 * len)).to_be_bytes();
            }
            at += 1 + len;
        }
        at
    }
}

#[cfg(feature = "alloc")]
impl PutCounted for Coer {
    fn put<S: Sink>(to: &mut Encoder<S>, bytes: &[u8]) -> Result<(), Error> {
        to.octets(bytes)
    }
}
