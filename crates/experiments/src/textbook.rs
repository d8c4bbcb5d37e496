//! The checksums of TCP and of ISO TP4 as they were written before vectors: a short word or a byte at a time. They
//! are here to be measured beside Dabbous' Table 4, whose loops were of this kind, and are kept scalar as [`cxor`]'s
//! are.
//!
//! [`cxor`]: crate::cxor

use crate::Fletcher;
use fusewire_base::Sum;
use fusewire_kernels::arch::in_register;

/// RFC 1071, section 4.1: short words are added up, carries at the end.
pub fn internet(bytes: &[u8]) -> Sum {
    let mut sum = 0u64;
    let mut words = bytes.chunks_exact(2);
    for two in &mut words {
        sum += in_register(u64::from(u16::from_be_bytes([two[0], two[1]])));
    }
    if let [last] = words.remainder() {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    Sum::from_folded(sum as u16)
}

/// RFC 905, annex B: a byte is added to the sum, the sum to the sum of sums; both are reduced before 32 bits are full.
pub fn iso(bytes: &[u8]) -> Fletcher {
    /// After so many bytes `c1` is still below 2^32, begun with two sums below 255.
    const BYTES: usize = 5000;
    let (mut c0, mut c1) = (0u32, 0u32);
    for part in bytes.chunks(BYTES) {
        for byte in part {
            c0 += in_register(u64::from(*byte)) as u32;
            c1 += c0;
        }
        c0 %= 255;
        c1 %= 255;
    }
    Fletcher { c0: c0 as u8, c1: c1 as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_kernels::Level;

    #[test]
    fn they_find_what_the_stages_find() {
        let level = Level::detect();
        for len in [0usize, 1, 2, 31, 4096, 5000, 5001, 70_001] {
            for fill in [None, Some(0xff)] {
                let bytes: Vec<u8> =
                    (0..len).map(|i| fill.unwrap_or((i * 31 + (i >> 7)) as u8)).collect();
                let sum = fusewire_kernels::sum(level, &bytes).folded();
                // Zero is written in two ways.
                assert_eq!(internet(&bytes).folded() % 0xffff, sum % 0xffff, "{len}");
                assert_eq!(iso(&bytes), Fletcher::of(&bytes), "{len}");
            }
        }
    }
}
