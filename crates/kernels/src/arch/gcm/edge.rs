//! Where a batch comes from and goes to: whole vectors of the message, or its ragged end.

use super::fused::Message;
use crate::arch::{self, Vector};
use core::marker::PhantomData;

/// Memory of the widest two vectors, aligned.
#[repr(C, align(64))]
pub(super) struct Lines(pub(super) [u8; 128]);

/// Moves vectors between the message and the registers, and swaps elements on the way.
pub(super) trait Edge<V: Vector> {
    /// Vector `i` of the source, zero beyond the end. Called once for each `i`.
    unsafe fn load(&self, i: usize) -> V;
    /// Vector `i` of plaintext, swapped.
    unsafe fn swap(&self, i: usize, v: V) -> V;
    /// Vector `i` of ciphertext, zero beyond the end.
    unsafe fn trim(&self, i: usize, v: V) -> V;
    /// Puts vector `i` into the destination.
    unsafe fn store(&mut self, i: usize, v: V);
}

/// Whole vectors.
pub(super) struct Whole<V: Vector> {
    /// The shuffle that swaps.
    pub(super) swap: V,
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
}

impl<V: Vector> Edge<V> for Whole<V> {
    #[inline(always)]
    unsafe fn load(&self, i: usize) -> V {
        // SAFETY: the caller vouches for a whole batch at `src`.
        unsafe { V::load(self.src.add(i * V::BYTES)) }
    }

    #[inline(always)]
    unsafe fn swap(&self, _: usize, v: V) -> V {
        // SAFETY: the level, as the caller vouches.
        unsafe { V::shuffle(v, self.swap) }
    }

    #[inline(always)]
    unsafe fn trim(&self, _: usize, v: V) -> V {
        v
    }

    #[inline(always)]
    unsafe fn store(&mut self, i: usize, v: V) {
        // SAFETY: the caller vouches for a whole batch at `dst`.
        unsafe { V::store(self.dst.add(i * V::BYTES), v) }
    }
}

/// `M` vectors of which the last two may reach beyond the end: these pass through memory of ours.
pub(super) struct Ragged<V, const M: usize> {
    src: *const u8,
    dst: *mut u8,
    element: usize,
    /// Bytes in the last two vectors, `1..=2 * BYTES`.
    rest: usize,
    /// The last two vectors of the source, and of the destination.
    source: *const u8,
    target: *mut u8,
    lanes: PhantomData<V>,
}

impl<V: Vector, const M: usize> Ragged<V, M> {
    /// The last bytes of a message, which pass through `lines`.
    ///
    /// # Safety
    /// `lines` must outlive what this returns, and be left alone meanwhile.
    #[inline(always)]
    pub(super) unsafe fn new(end: &Message<'_>, lines: &mut [Lines; 2]) -> Self {
        let Message { src, dst, len, element, .. } = *end;
        let rest = len - (M - 2) * V::BYTES;
        let [source, target] = lines;
        let (source, target) = (source.0.as_mut_ptr(), target.0.as_mut_ptr());
        // SAFETY: two vectors are at most 128 bytes; `rest` bytes lie at this place of `src`, and no
        // more than fit two vectors.
        unsafe {
            let zero = V::zero();
            V::store(source, zero);
            V::store(source.add(V::BYTES), zero);
            copy_small(src.add(len - rest), source, rest);
        }
        Ragged { src, dst, element, rest, source, target, lanes: PhantomData }
    }

    /// Ones over the first `count` bytes, counted from the last two vectors' begin, in vector `i`.
    #[inline(always)]
    unsafe fn mask(&self, i: usize, count: usize) -> V {
        let count = count.saturating_sub((i + 2 - M) * V::BYTES).min(V::BYTES);
        // SAFETY: at most 64 bytes before the middle of the 128, 64 bytes read.
        unsafe { V::load(ONES_THEN_ZEROS.0.as_ptr().add(64 - count)) }
    }

    /// Writes what `store` kept back.
    #[inline(always)]
    pub(super) unsafe fn finish(&self) {
        // SAFETY: `rest` bytes lie at this place of `dst`.
        unsafe { copy_small(self.target, self.dst.add((M - 2) * V::BYTES), self.rest) };
    }
}

impl<V: Vector, const M: usize> Edge<V> for Ragged<V, M> {
    #[inline(always)]
    unsafe fn load(&self, i: usize) -> V {
        // SAFETY: only the last two vectors reach beyond the end.
        unsafe {
            let whole = i + 2 < M;
            V::load(if whole {
                self.src.add(i * V::BYTES)
            } else {
                self.source.add((i + 2 - M) * V::BYTES)
            })
        }
    }

    #[inline(always)]
    unsafe fn swap(&self, i: usize, v: V) -> V {
        // SAFETY: the level, as the caller vouches.
        unsafe {
            let reversed = V::repeat(reversal(self.element));
            if i + 2 < M {
                return V::shuffle(v, reversed);
            }
            // An element that the end cuts stays as it is.
            let identity = V::repeat(reversal(1));
            let mask = self.mask(i, self.rest & !(self.element - 1));
            V::shuffle(v, V::xor(identity, V::and(mask, V::xor(identity, reversed))))
        }
    }

    #[inline(always)]
    unsafe fn trim(&self, i: usize, v: V) -> V {
        // SAFETY: the level, as the caller vouches.
        if i + 2 < M { v } else { unsafe { V::and(v, self.mask(i, self.rest)) } }
    }

    #[inline(always)]
    unsafe fn store(&mut self, i: usize, v: V) {
        // SAFETY: as for `load`.
        unsafe {
            let whole = i + 2 < M;
            V::store(
                if whole {
                    self.dst.add(i * V::BYTES)
                } else {
                    self.target.add((i + 2 - M) * V::BYTES)
                },
                v,
            )
        }
    }
}

/// The shuffle that reverses each `element` (1, 2, 4 or 8) bytes of a block.
#[inline(always)]
pub(super) fn reversal(element: usize) -> &'static [u8; 16] {
    static REVERSALS: [[u8; 16]; 4] =
        [arch::reversal(1), arch::reversal(2), arch::reversal(4), arch::reversal(8)];
    match element {
        1 => &REVERSALS[0],
        2 => &REVERSALS[1],
        4 => &REVERSALS[2],
        _ => &REVERSALS[3],
    }
}

static ONES_THEN_ZEROS: Lines = {
    let mut bytes = [0; 128];
    let mut i = 0;
    while i < 64 {
        bytes[i] = 0xff;
        i += 1;
    }
    Lines(bytes)
};

/// Copies `len <= 128` bytes with moves that overlap, without a loop.
///
/// # Safety
/// `from` and `to` must be good for `len` bytes and not overlap.
#[inline(always)]
pub(super) unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    /// Two moves of `T`, from the begin and up to the end.
    #[inline(always)]
    unsafe fn pair<T: Copy>(from: *const u8, to: *mut u8, len: usize) {
        let last = len - size_of::<T>();
        // SAFETY: `size_of::<T>() <= len`, so both ends lie within.
        unsafe {
            let head = from.cast::<T>().read_unaligned();
            let tail = from.add(last).cast::<T>().read_unaligned();
            to.cast::<T>().write_unaligned(head);
            to.add(last).cast::<T>().write_unaligned(tail);
        }
    }
    debug_assert!(len <= 128);
    // SAFETY: each arm moves no more than `len` bytes from either end.
    unsafe {
        match len {
            64.. => pair::<[u8; 64]>(from, to, len),
            32.. => pair::<[u8; 32]>(from, to, len),
            16.. => pair::<[u8; 16]>(from, to, len),
            8.. => pair::<u64>(from, to, len),
            4.. => pair::<u32>(from, to, len),
            2.. => pair::<u16>(from, to, len),
            1 => *to = *from,
            0 => {}
        }
    }
}
