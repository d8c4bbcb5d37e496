//! Partial one's-complement sums: the Internet checksum before its last step (RFC 1071).
//!
//! A `Sum` is the sum modulo 2^16 - 1 of big-endian 16-bit words, so sums of pieces can be made
//! where the bytes are and joined where the header is.

use core::ops::{Add, AddAssign};

/// One's-complement sum of big-endian 16-bit words, folded to 16 bits and not complemented.
///
/// `0x0000` and `0xffff` both stand for zero; `==` treats them as equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u16);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// From a folded 16-bit sum of big-endian words.
    pub const fn from_folded(sum: u16) -> Self {
        Sum(sum)
    }

    /// From an unfolded sum of big-endian words.
    pub const fn from_words(mut sum: u64) -> Self {
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        Sum(sum as u16)
    }

    /// The slow, obvious sum of `bytes`; an odd last byte is the high half of a word (RFC 1071, section 1).
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = 0u64;
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            sum += u64::from(*last) << 8;
        }
        Sum::from_words(sum)
    }

    /// The sum of a few bytes, of a header say: eight at a time in one register, with no way to vectors.
    #[inline]
    pub fn of_few(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks();
        // What is left, behind zeros: from a whole word, where there is one.
        let last = match (bytes.last_chunk(), rest.len()) {
            (_, 0) => 0,
            (Some(last), len) => u64::from_le_bytes(*last) >> (64 - 8 * len),
            (None, _) => rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte)),
        };
        let sum = words.iter().fold(last, |sum, word| {
            let (sum, carry) = sum.overflowing_add(u64::from_le_bytes(*word));
            sum + u64::from(carry)
        });
        Sum::from_little_endian(sum)
    }

    /// From a sum of little-endian words: byte order is nothing to it until its end (RFC 1071, section 2B).
    ///
    /// To add a number to itself turned by half leaves in the upper half what both halves add up to, end-around carry
    /// included.
    #[inline(always)]
    pub const fn from_little_endian(sum: u64) -> Self {
        let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
        let sum = (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
        Sum(sum.swap_bytes())
    }

    /// The folded sum, `0..=0xffff`.
    pub const fn folded(self) -> u16 {
        self.0
    }

    /// What goes into a header's checksum field when the field was zero in the sum: the complement.
    pub const fn checksum(self) -> u16 {
        !self.0
    }

    /// True for the sum of a message whose checksum field was included and right.
    pub const fn verifies(self) -> bool {
        self.0 == 0xffff
    }

    /// The sum of a piece that follows `self`, of which `self` covers `len` bytes: a piece at an odd
    /// offset counts with its bytes swapped (RFC 1071, section 2B).
    #[must_use]
    pub const fn then(self, len: usize, next: Sum) -> Sum {
        let next = if len % 2 == 1 { next.0.swap_bytes() } else { next.0 };
        let sum = self.0 as u32 + next as u32;
        Sum((sum as u16) + (sum >> 16) as u16)
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub const fn word(self, word: u16) -> Sum {
        self.then(0, Sum(word))
    }
}

impl PartialEq for Sum {
    fn eq(&self, other: &Sum) -> bool {
        self.0 % 0xffff == other.0 % 0xffff
    }
}
impl Eq for Sum {}

impl Add for Sum {
    type Output = Sum;
    /// Joins the sums of two pieces that both lie at even offsets.
    fn add(self, other: Sum) -> Sum {
        self.then(0, other)
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1071_example() {
        // RFC 1071, section 3.
        let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn pieces_join_at_every_split() {
        let bytes: Vec<u8> = (0..67u32).map(|i| (i * 37 + 11) as u8).collect();
        for a in 0..=bytes.len() {
            let (x, y) = bytes.split_at(a);
            assert_eq!(Sum::of(x).then(a, Sum::of(y)), Sum::of(&bytes), "split at {a}");
        }
    }

    #[test]
    fn a_message_with_its_checksum_verifies() {
        let mut bytes = vec![1, 2, 3, 4, 0, 0, 7];
        let check = Sum::of(&bytes).checksum();
        bytes[4..6].copy_from_slice(&check.to_be_bytes());
        assert!(Sum::of(&bytes).verifies());
        bytes[0] ^= 0x10;
        assert!(!Sum::of(&bytes).verifies());
    }

    /// At every length and place, also where each word carries.
    #[test]
    fn few_bytes_have_the_sum_of_any() {
        let bytes: Vec<u8> = (0..300u32).map(|i| ((i * i) >> 3) as u8).collect();
        for bytes in [&bytes[..], &[0xff; 300], &[0; 300]] {
            for start in 0..9 {
                for len in 0..200 {
                    let bytes = &bytes[start..start + len];
                    let sum = Sum::of_few(bytes);
                    assert_eq!(sum, Sum::of(bytes), "{len} at {start}");
                    assert_eq!(sum.folded() == 0, bytes.iter().all(|&byte| byte == 0), "{len}");
                }
            }
        }
    }

    #[test]
    fn large_sums_fold() {
        assert_eq!(Sum::from_words(u64::MAX), Sum::from_folded(0xffff));
        assert_eq!(Sum::from_words(0x1_0000), Sum::from_folded(1));
    }
}
