//! Where a batch comes from and goes to: whole vectors of the message, or its ragged end.

use super::lanes::GcmLanes;
use core::marker::PhantomData;

/// Memory of the widest two vectors, aligned.
#[repr(C, align(64))]
pub(super) struct Lines(pub(super) [u8; 128]);

/// Moves vectors between the message and the registers, and swaps elements on the way.
pub(super) trait Edge<L: GcmLanes, const ELEMENT: usize> {
    /// Vector `i` of the source, zero beyond the end. Called once for each `i`.
    unsafe fn load(&self, i: usize) -> L::V;
    /// Vector `i` of plaintext, swapped.
    unsafe fn swap(&self, i: usize, v: L::V) -> L::V;
    /// Vector `i` of ciphertext, zero beyond the end.
    unsafe fn trim(&self, i: usize, v: L::V) -> L::V;
    /// Puts vector `i` into the destination.
    unsafe fn store(&mut self, i: usize, v: L::V);
}

/// Whole vectors.
pub(super) struct Whole {
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
}

impl<L: GcmLanes, const ELEMENT: usize> Edge<L, ELEMENT> for Whole {
    #[inline(always)]
    unsafe fn load(&self, i: usize) -> L::V {
        // SAFETY: the caller vouches for a whole batch at `src`.
        unsafe { L::load(self.src.add(i * L::BYTES)) }
    }

    #[inline(always)]
    unsafe fn swap(&self, _: usize, v: L::V) -> L::V {
        if ELEMENT == 1 {
            return v;
        }
        // SAFETY: the level, as the caller vouches; the constant has sixteen bytes.
        unsafe { L::shuffle(v, L::repeat(&const { reversal(ELEMENT) })) }
    }

    #[inline(always)]
    unsafe fn trim(&self, _: usize, v: L::V) -> L::V {
        v
    }

    #[inline(always)]
    unsafe fn store(&mut self, i: usize, v: L::V) {
        // SAFETY: the caller vouches for a whole batch at `dst`.
        unsafe { L::store(self.dst.add(i * L::BYTES), v) }
    }
}

/// `M` vectors of which the last two may reach beyond the end: these pass through memory of ours.
pub(super) struct Ragged<L, const M: usize> {
    src: *const u8,
    dst: *mut u8,
    /// Bytes in the last two vectors, `1..=2 * BYTES`.
    rest: usize,
    source: Lines,
    target: Lines,
    lanes: PhantomData<L>,
}

impl<L: GcmLanes, const M: usize> Ragged<L, M> {
    /// The last `left` bytes of a message.
    #[inline(always)]
    pub(super) unsafe fn new(src: *const u8, dst: *mut u8, left: usize) -> Self {
        let rest = left - (M - 2) * L::BYTES;
        let mut edge = Ragged {
            src,
            dst,
            rest,
            source: Lines([0; 128]),
            target: Lines([0; 128]),
            lanes: PhantomData,
        };
        // SAFETY: `rest` bytes lie at this place of `src`, and no more than 128 fit two vectors.
        unsafe { copy_small(src.add(left - rest), edge.source.0.as_mut_ptr(), rest) };
        edge
    }

    /// Ones over the first `count` bytes, counted from the last two vectors' begin, in vector `i`.
    #[inline(always)]
    unsafe fn mask(&self, i: usize, count: usize) -> L::V {
        let count = count.saturating_sub((i + 2 - M) * L::BYTES).min(L::BYTES);
        // SAFETY: at most 64 bytes before the middle of the 128, 64 bytes read.
        unsafe { L::load(ONES_THEN_ZEROS.0.as_ptr().add(64 - count)) }
    }

    /// Writes what `store` kept back.
    #[inline(always)]
    pub(super) unsafe fn finish(&self) {
        // SAFETY: `rest` bytes lie at this place of `dst`.
        unsafe { copy_small(self.target.0.as_ptr(), self.dst.add((M - 2) * L::BYTES), self.rest) };
    }
}

impl<L: GcmLanes, const ELEMENT: usize, const M: usize> Edge<L, ELEMENT> for Ragged<L, M> {
    #[inline(always)]
    unsafe fn load(&self, i: usize) -> L::V {
        // SAFETY: only the last two vectors reach beyond the end.
        unsafe {
            let whole = i + 2 < M;
            L::load(if whole {
                self.src.add(i * L::BYTES)
            } else {
                self.source.0.as_ptr().add((i + 2 - M) * L::BYTES)
            })
        }
    }

    #[inline(always)]
    unsafe fn swap(&self, i: usize, v: L::V) -> L::V {
        if ELEMENT == 1 {
            return v;
        }
        // SAFETY: the level, as the caller vouches; the constants have sixteen bytes.
        unsafe {
            let reversed = L::repeat(&const { reversal(ELEMENT) });
            if i + 2 < M {
                return L::shuffle(v, reversed);
            }
            // An element that the end cuts stays as it is.
            let identity = L::repeat(&const { reversal(1) });
            let mask = self.mask(i, self.rest - self.rest % ELEMENT);
            L::shuffle(v, L::xor(identity, L::and(mask, L::xor(identity, reversed))))
        }
    }

    #[inline(always)]
    unsafe fn trim(&self, i: usize, v: L::V) -> L::V {
        // SAFETY: the level, as the caller vouches.
        if i + 2 < M { v } else { unsafe { L::and(v, self.mask(i, self.rest)) } }
    }

    #[inline(always)]
    unsafe fn store(&mut self, i: usize, v: L::V) {
        // SAFETY: as for `load`.
        unsafe {
            let whole = i + 2 < M;
            L::store(
                if whole {
                    self.dst.add(i * L::BYTES)
                } else {
                    self.target.0.as_mut_ptr().add((i + 2 - M) * L::BYTES)
                },
                v,
            )
        }
    }
}

/// A shuffle that reverses each `element` bytes of a block.
const fn reversal(element: usize) -> [u8; 16] {
    let mut control = [0; 16];
    let mut i = 0;
    while i < 16 {
        control[i] = (i - i % element + element - 1 - i % element) as u8;
        i += 1;
    }
    control
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
