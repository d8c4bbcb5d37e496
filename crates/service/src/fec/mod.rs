//! Packets that are corrected when some of them are lost, without being asked for again.
//!
//! ```text
//!  copy, 2 later     0 ─ 1 ─ 2+0 ─ 3+1 ─ 4+2 …              one burst shorter than the distance costs nothing
//!  parity, 4+2       0 ─ 1 ─ 2 ─ 3 ─ P0 ─ P1                any four of the six are enough
//! ```
//! What is protected are packets as they travel, sealed: what is restored is opened as if it had come by itself, so that a
//! restored packet proves itself by its own tag, and a late original is refused as the replay that it is. Repairs must travel
//! sealed themselves, and only packets that were opened be told to the [`Decoder`]: then a forged packet spoils nothing.
//!
//! [`Copies`] is for ADUs of one packet that come at a steady pace; [`Encoder`] and [`Decoder`] are for ADUs that are cut into
//! packets, each of which is a block. One packet of parity is the exclusive or of the block's; more are Reed-Solomon's over
//! GF(2^16), by the crate `reed-solomon-simd`, which makes tables of 9 MiB for the whole process when it is used first.

mod decoder;
mod encoder;

pub use decoder::{Counters, Decoder, Limits, Refused, Restored};
pub use encoder::{Copies, Encoder};

/// Packets of a block at most, and of its parity.
pub const PACKETS_MAX: usize = 255;
/// Bytes of a repair in front of its parity.
pub const HEADER_LEN: usize = 8;
/// Bytes in front of a packet within its symbol: its length.
const PREFIX: usize = 2;

/// A packet of parity.
///
/// ```text
///  0               4         5         6         7
/// +---------------+---------+---------+---------+---------+-----------
/// | block         | packets | repairs | index   | 0       | symbol …
/// +---------------+---------+---------+---------+---------+-----------
/// ```
/// A symbol is a packet behind its length in two bytes, with zeros behind it up to the length of the block's longest, and to
/// an even one. The exclusive or of all, or what the code makes of them, is the repair's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair<'a> {
    /// The block.
    pub block: u32,
    /// Packets of it, from 1.
    pub packets: u8,
    /// Repairs of it, from 1.
    pub repairs: u8,
    /// Which of these this is, from 0.
    pub index: u8,
    /// As long as the symbols of the block.
    pub symbol: &'a [u8],
}

impl<'a> Repair<'a> {
    /// All of `bytes`; `None` where they are none.
    pub fn parse(bytes: &'a [u8]) -> Option<Repair<'a>> {
        let (header, symbol) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let [a, b, c, d, packets, repairs, index, zero] = *header;
        let is_one = packets > 0 && index < repairs && zero == 0;
        let is_symbol = symbol.len() > PREFIX && symbol.len().is_multiple_of(2);
        let block = u32::from_be_bytes([a, b, c, d]);
        (is_one && is_symbol).then_some(Repair { block, packets, repairs, index, symbol })
    }

    /// What goes in front of the symbol.
    pub fn header(&self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.block.to_be_bytes();
        [a, b, c, d, self.packets, self.repairs, self.index, 0]
    }
}

/// Bytes of the symbols of a block whose longest packet has `longest` bytes.
pub const fn symbol_len(longest: usize) -> usize {
    (PREFIX + longest).next_multiple_of(2)
}

/// Adds to a sum in GF(2^n), which is shorter nowhere.
fn add(sum: &mut [u8], bytes: &[u8]) {
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum ^= byte;
    }
}

/// The length in front of a packet.
fn prefix(packet: &[u8]) -> [u8; PREFIX] {
    (packet.len() as u16).to_be_bytes()
}

/// Packets by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits([u64; PACKETS_MAX.div_ceil(64)]);

impl Bits {
    pub fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    pub fn set(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub fn clear(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    /// The first of them.
    pub fn first(&self) -> Option<usize> {
        let at = self.0.iter().position(|word| *word != 0)?;
        Some(64 * at + self.0[at].trailing_zeros() as usize)
    }

    /// How many below.
    pub fn count(&self, below: usize) -> usize {
        (0..below).filter(|&at| self.has(at)).count()
    }
}
