//! The checksums of TCP and of ISO TP4 as they were written before vectors: a short word or a byte at a time. They
//! are here to be measured beside Dabbous' Table 4, whose loops were of this kind, and are kept scalar as [`cxor`]'s
//! are. And integers that become XDR, and are summed: the first example of Braun and Diot, a word at a time.
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

/// What `word` becomes on its way.
type Word = fn(u32) -> [u8; 4];

/// An integer in XDR (RFC 4506, section 4.1).
pub fn xdr(word: u32) -> [u8; 4] {
    word.to_be_bytes()
}

/// An integer as it is.
pub fn as_it_is(word: u32) -> [u8; 4] {
    word.to_ne_bytes()
}

/// Writes each word as `becomes` has it.
///
/// # Panics
/// When `to` is not four bytes for each.
#[inline(always)]
pub fn put(words: &[u32], becomes: Word, to: &mut [u8]) {
    assert_eq!(to.len(), 4 * words.len());
    for (word, to) in words.iter().zip(to.chunks_exact_mut(4)) {
        to.copy_from_slice(&becomes(in_register(u64::from(*word)) as u32));
    }
}

/// RFC 1071 a word of 32 bits at a time.
#[inline(always)]
pub fn words(bytes: &[u8]) -> Sum {
    let words = bytes.chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]]);
    folded(words.fold(0, |sum, four| sum + in_register(u64::from(u32::from_be_bytes(four)))))
}

/// [`put`] and [`words`] in one loop.
///
/// # Panics
/// As [`put`].
#[inline(always)]
pub fn put_and_sum(words: &[u32], becomes: Word, to: &mut [u8]) -> Sum {
    assert_eq!(to.len(), 4 * words.len());
    let mut sum = 0;
    for (word, to) in words.iter().zip(to.chunks_exact_mut(4)) {
        let word = becomes(in_register(u64::from(*word)) as u32);
        to.copy_from_slice(&word);
        sum += u64::from(u32::from_be_bytes(word));
    }
    folded(sum)
}

/// Fewer than 2^32 words were added.
fn folded(mut sum: u64) -> Sum {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    Sum::from_folded(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_kernels::Level;

    #[test]
    fn one_loop_writes_and_finds_what_two_do() {
        for count in [0usize, 1, 20, 1024] {
            let all: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
            for becomes in [xdr as Word, as_it_is] {
                let (mut apart, mut one) = (vec![0; 4 * count], vec![1; 4 * count]);
                put(&all, becomes, &mut apart);
                let sum = put_and_sum(&all, becomes, &mut one);
                assert!(apart == one && sum.folded() == words(&apart).folded(), "{count}");
                assert_eq!(sum.folded() % 0xffff, internet(&apart).folded() % 0xffff, "{count}");
                let slow: Vec<u8> = all.iter().flat_map(|word| becomes(*word)).collect();
                assert_eq!(one, slow);
            }
        }
    }

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
