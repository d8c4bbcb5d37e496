//! Abbott and Peterson's word filters, beside the least common multiple: each stage takes one 32-bit
//! word and hands one on; a stage with a larger block collects words until it has one.
//!
//! They are here to be measured. Ahlgren (section 6) and Braun and Diot give the reason against them:
//! the branch and the memory for "has the block come together?" are in the inner loop. The code is
//! scalar on purpose, as theirs was; words are kept in general registers.

use fusewire_base::Sum;
use fusewire_kernels::arch::in_register;
use fusewire_kernels::stage::{Stage, Then};
use fusewire_kernels::stages::{Copy, InternetSum, PesDecrypt, PesEncrypt, Swap};

/// A stage that works word by word. Words are little-endian, as the CPU has them.
pub trait WordFilter: Stage {
    /// What it keeps between words.
    type Memory: Default;
    /// Takes a word; hands on what it can.
    fn word(&self, memory: &mut Self::Memory, word: u32, next: &mut impl FnMut(u32));
    /// A whole block of the least common multiple, which no stage has to wait for.
    fn block(&self, memory: &mut Self::Memory, words: [u32; 2]) -> [u32; 2];
    /// What it found.
    fn found(&self, memory: Self::Memory) -> Self::Output;
}

/// One loop over the words of `src` to `dst`.
///
/// # Panics
/// When the lengths differ or are no multiple of 8.
#[inline(never)]
pub fn word_filters<F: WordFilter>(filter: &F, src: &[u8], dst: &mut [u8]) -> F::Output {
    assert_eq!(src.len(), dst.len(), "source and destination must have one length");
    assert!(src.len().is_multiple_of(8), "whole blocks of 8");
    let mut memory = F::Memory::default();
    let mut dst = dst.chunks_exact_mut(4);
    for word in src.chunks_exact(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        filter.word(&mut memory, in_register(word.into()) as u32, &mut |word| {
            if let Some(place) = dst.next() {
                place.copy_from_slice(&word.to_le_bytes());
            }
        });
    }
    filter.found(memory)
}

/// The same in blocks of the least common multiple of all stages, 8 bytes: what Ahlgren and Braun and Diot hold
/// against word filters. As scalar as they are, so that the two differ in the unit alone.
///
/// # Panics
/// When the lengths differ or are no multiple of 8.
#[inline(never)]
pub fn whole_blocks<F: WordFilter>(filter: &F, src: &[u8], dst: &mut [u8]) -> F::Output {
    assert_eq!(src.len(), dst.len(), "source and destination must have one length");
    assert!(src.len().is_multiple_of(8), "whole blocks of 8");
    let mut memory = F::Memory::default();
    let word = |bytes: &[u8]| {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        in_register(word.into()) as u32
    };
    for (src, dst) in src.chunks_exact(8).zip(dst.chunks_exact_mut(8)) {
        let [x0, x1] = filter.block(&mut memory, [word(&src[..4]), word(&src[4..])]);
        dst[..4].copy_from_slice(&x0.to_le_bytes());
        dst[4..].copy_from_slice(&x1.to_le_bytes());
    }
    filter.found(memory)
}

impl<A: WordFilter, B: WordFilter> WordFilter for Then<A, B> {
    type Memory = (A::Memory, B::Memory);
    #[inline(always)]
    fn word(&self, memory: &mut Self::Memory, word: u32, next: &mut impl FnMut(u32)) {
        let (a, b) = memory;
        self.0.word(a, word, &mut |word| self.1.word(b, word, next));
    }
    #[inline(always)]
    fn block(&self, (a, b): &mut Self::Memory, words: [u32; 2]) -> [u32; 2] {
        self.1.block(b, self.0.block(a, words))
    }
    #[inline(always)]
    fn found(&self, memory: Self::Memory) -> Self::Output {
        (self.0.found(memory.0), self.1.found(memory.1))
    }
}

impl WordFilter for Copy {
    type Memory = ();
    #[inline(always)]
    fn word(&self, _: &mut (), word: u32, next: &mut impl FnMut(u32)) {
        next(word);
    }
    #[inline(always)]
    fn block(&self, _: &mut (), words: [u32; 2]) -> [u32; 2] {
        words
    }
    #[inline(always)]
    fn found(&self, _: ()) {}
}

/// Half a block, when there is one.
#[derive(Default)]
pub struct Half(Option<u32>);

impl Half {
    /// The block that `word` makes whole.
    #[inline(always)]
    fn join(&mut self, word: u32) -> Option<[u32; 2]> {
        match self.0.take() {
            Some(first) => Some([first, word]),
            None => {
                self.0 = Some(word);
                None
            }
        }
    }
}

impl<const BYTES: usize> WordFilter for Swap<BYTES> {
    type Memory = Half;
    #[inline(always)]
    fn word(&self, half: &mut Half, word: u32, next: &mut impl FnMut(u32)) {
        match BYTES {
            2 => next(word.swap_bytes().rotate_left(16)),
            4 => next(word.swap_bytes()),
            _ => {
                if let Some([x0, x1]) = half.join(word) {
                    next(x1.swap_bytes());
                    next(x0.swap_bytes());
                }
            }
        }
    }
    #[inline(always)]
    fn block(&self, _: &mut Half, [x0, x1]: [u32; 2]) -> [u32; 2] {
        match BYTES {
            2 => [x0.swap_bytes().rotate_left(16), x1.swap_bytes().rotate_left(16)],
            4 => [x0.swap_bytes(), x1.swap_bytes()],
            _ => [x1.swap_bytes(), x0.swap_bytes()],
        }
    }
    #[inline(always)]
    fn found(&self, _: Half) {}
}

impl WordFilter for PesEncrypt {
    type Memory = Half;
    #[inline(always)]
    fn word(&self, half: &mut Half, word: u32, next: &mut impl FnMut(u32)) {
        if let Some(block) = half.join(word) {
            let [y0, y1] = self.block(half, block);
            next(y0);
            next(y1);
        }
    }
    #[inline(always)]
    fn block(&self, _: &mut Half, [x0, x1]: [u32; 2]) -> [u32; 2] {
        let [k0, k1] = self.0.words();
        [x0.wrapping_add(k0) ^ k1, x1.wrapping_add(k1) ^ k0]
    }
    #[inline(always)]
    fn found(&self, _: Half) {}
}

impl WordFilter for PesDecrypt {
    type Memory = Half;
    #[inline(always)]
    fn word(&self, half: &mut Half, word: u32, next: &mut impl FnMut(u32)) {
        if let Some(block) = half.join(word) {
            let [x0, x1] = self.block(half, block);
            next(x0);
            next(x1);
        }
    }
    #[inline(always)]
    fn block(&self, _: &mut Half, [y0, y1]: [u32; 2]) -> [u32; 2] {
        let [k0, k1] = self.0.words();
        [(y0 ^ k1).wrapping_sub(k0), (y1 ^ k0).wrapping_sub(k1)]
    }
    #[inline(always)]
    fn found(&self, _: Half) {}
}

impl WordFilter for InternetSum {
    type Memory = u64;
    #[inline(always)]
    fn word(&self, sum: &mut u64, word: u32, next: &mut impl FnMut(u32)) {
        *sum += u64::from(word);
        next(word);
    }
    #[inline(always)]
    fn block(&self, sum: &mut u64, words: [u32; 2]) -> [u32; 2] {
        *sum += u64::from(words[0]) + u64::from(words[1]);
        words
    }
    #[inline(always)]
    fn found(&self, sum: u64) -> Sum {
        Sum::from_folded(u16::from_be(Sum::from_words(sum).folded()))
    }
}
