//! Stores past the caches, for bytes that another processor reads next.
//!
//! An ordinary store first fetches its line, from the cache of whoever read it last. Where that is
//! another core the fetch costs more than everything else that is done to the bytes. A non-temporal
//! store of a whole line fetches nothing.

const LINE: usize = 64;

/// Copies `from` to `to` past the caches: whole lines of `to` with non-temporal stores, the rest with
/// ordinary ones. Another thread or the kernel sees the bytes after [`stream_fence`].
///
/// # Panics
/// When the lengths differ.
pub fn stream_copy(from: &[u8], to: &mut [u8]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    assert_eq!(from.len(), to.len());
    let head = (to.as_ptr() as usize).wrapping_neg() % LINE;
    if to.len() < head + LINE {
        to.copy_from_slice(from);
        return;
    }
    to[..head].copy_from_slice(&from[..head]);
    let (lines, _) = to[head..].as_chunks_mut::<LINE>();
    let (sources, _) = from[head..].as_chunks::<LINE>();
    for (line, source) in lines.iter_mut().zip(sources) {
        let (line, source) =
            (line.as_mut_ptr().cast::<__m128i>(), source.as_ptr().cast::<__m128i>());
        // SAFETY: both are 64 bytes long; `line` begins a cache line, so each quarter is aligned to
        // 16. SSE2 belongs to every x86-64. The bytes are this thread's until `stream_fence`.
        unsafe {
            let parts: [__m128i; 4] = core::array::from_fn(|i| _mm_loadu_si128(source.add(i)));
            for (i, part) in parts.into_iter().enumerate() {
                _mm_stream_si128(line.add(i), part);
            }
        }
    }
    let done = head + lines.len() * LINE;
    to[done..].copy_from_slice(&from[done..]);
}

/// Makes the stores of [`stream_copy`] visible before every store that follows.
#[inline]
pub fn stream_fence() {
    // SAFETY: SSE belongs to every x86-64, and a fence touches no memory.
    unsafe { core::arch::x86_64::_mm_sfence() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_every_alignment_and_length_and_nothing_beside() {
        let from: Vec<u8> = (0..400).map(|i| i as u8 ^ 0x5a).collect();
        for start in 0..70 {
            for len in 0..330 {
                let mut to = [0u8; 500];
                stream_copy(&from[start / 2..start / 2 + len], &mut to[start..start + len]);
                stream_fence();
                assert_eq!(to[start..start + len], from[start / 2..start / 2 + len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|b| *b == 0));
            }
        }
    }
}
