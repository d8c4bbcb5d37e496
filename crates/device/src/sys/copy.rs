//! A copy out of memory that is shared, by loads and stores of vectors.
//!
//! libc leaves a long `memcpy` to `rep movsb`. Some processors take many times as long for it where the destination lies a few
//! bytes behind the source within a page, as a block that `malloc` has mapped lies behind the begin of a ring. Into such memory libc
//! copies: there the other lies behind, and `rep movsb` need not fetch lines that it fills from who has read them last.

use std::ptr;

/// Bytes of a turn of the loop.
#[cfg(target_arch = "x86_64")]
const TURN: usize = 64;
/// What libc copies by vectors itself.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 2048;

/// Copies `len` bytes.
///
/// # Safety
/// Those at `from` may be read, those at `to` written, and none is both.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len > LONG {
        let turns = len / TURN;
        // SAFETY: whole turns, none beyond `len`.
        unsafe { by_vectors(from, to, turns) };
        let done = turns * TURN;
        // SAFETY: what is left of both.
        return unsafe { ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done) };
    }
    // SAFETY: the caller's.
    unsafe { ptr::copy_nonoverlapping(from, to, len) };
}

/// Copies so many turns.
///
/// # Safety
/// As [`copy`], of `turns` times [`TURN`] bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn by_vectors(from: *const u8, to: *mut u8, turns: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    for turn in 0..turns {
        // SAFETY: SSE2 belongs to every x86-64; these 64 bytes of either are within what the caller names, and need not be
        // aligned.
        unsafe {
            let from = from.add(turn * TURN).cast::<__m128i>();
            let to = to.add(turn * TURN).cast::<__m128i>();
            let parts: [__m128i; 4] = std::array::from_fn(|i| _mm_loadu_si128(from.add(i)));
            for (i, part) in parts.into_iter().enumerate() {
                _mm_storeu_si128(to.add(i), part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_every_alignment_and_length_and_nothing_beside() {
        let from: Vec<u8> = (0..5000).map(|i: u32| (i % 251) as u8 + 1).collect();
        for start in (0..70).chain([4000]) {
            for len in (0..200).chain(2000..2200) {
                let source = &from[start / 2..start / 2 + len];
                let mut to = vec![0; 6500];
                let place = &mut to[start..start + len];
                // SAFETY: of two slices of that length.
                unsafe { copy(source.as_ptr(), place.as_mut_ptr(), len) };
                assert_eq!(&to[start..start + len], source);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|byte| *byte == 0));
            }
        }
    }
}
