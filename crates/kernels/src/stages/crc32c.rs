//! CRC-32C (Castagnoli; RFC 3720, appendix B.4), eight bytes at a time: the CPU's instruction, or
//! eight tables at the portable level.
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::stage::{Output, Run, Stage};

/// Finds the CRC. A byte's place in it depends on every byte before: it is ordering-constrained.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c;

impl Stage for Crc32c {
    type Output = u32;
    const NAME: &'static str = "crc32c";
    const BLOCK: usize = 8;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 4;
    const ORDERED: bool = true;
}

/// The slow, obvious CRC-32C of `bytes`.
pub fn crc32c_of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| step(crc, *byte))
}

/// One byte, bit by bit.
#[inline(always)]
fn step(crc: u32, byte: u8) -> u32 {
    (0..8)
        .fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
}

#[inline(always)]
fn bytes_of<L: Lanes>(lanes: L, x: L::V) -> [u8; 64] {
    let mut bytes = [0; 64];
    lanes.store(&mut bytes, x);
    bytes
}

impl<L: Lanes> Run<L> for Crc32c {
    type State = u32;
    #[inline(always)]
    fn start(&self, _: L) -> u32 {
        !0
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, crc: &mut u32, x: &mut [L::V; N]) {
        for x in x {
            for word in bytes_of(lanes, *x)[..L::WIDTH].chunks_exact(8) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                *crc = lanes.crc32c(*crc, u64::from_le_bytes(bytes));
            }
        }
    }
    #[inline(always)]
    fn tail(&self, lanes: L, crc: &mut u32, x: &mut L::V, valid: usize) {
        let bytes = bytes_of(lanes, *x);
        let mut words = bytes[..valid].chunks_exact(8);
        for word in &mut words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            *crc = lanes.crc32c(*crc, u64::from_le_bytes(bytes));
        }
        for byte in words.remainder() {
            *crc = step(*crc, *byte);
        }
    }
    #[inline(always)]
    fn finish(&self, _: L, crc: u32, _: usize) -> u32 {
        !crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::execution::Scan;

    #[test]
    fn rfc_3720_vectors() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        let vectors: [(&[u8], u32); 5] = [
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&rising, 0x46dd_794e),
            (&falling, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
        ];
        for (bytes, crc) in vectors {
            assert_eq!(crc32c_of(bytes), crc);
            for level in Level::available() {
                assert_eq!(level.run(Scan { stage: &Crc32c, src: bytes }), crc, "{level}");
            }
        }
    }
}
