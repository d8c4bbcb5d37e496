//! Fewer bytes than a vector, loaded and stored without touching a byte beyond them and without a
//! call: two overlapping pieces of half the size, a level down where they do not fit.

use core::arch::x86_64::*;

/// Controls for a byte shuffle: from `16 + n` on, 16 of them move a vector down by `n` bytes and fill
/// with zeros; from `16 - n` on, up.
static SLIDE: [u8; 48] = {
    let mut slide = [0x80; 48];
    let mut i = 0;
    while i < 16 {
        slide[16 + i] = i as u8;
        i += 1;
    }
    slide
};

/// # Safety
/// The CPU has SSSE3.
#[inline(always)]
unsafe fn slide(x: __m128i, at: usize) -> __m128i {
    let control = &SLIDE[at..at + 16];
    // SAFETY: 16 bytes are readable; SSSE3 by contract.
    unsafe { _mm_shuffle_epi8(x, _mm_loadu_si128(control.as_ptr().cast())) }
}

#[inline(always)]
fn u64_at(from: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&from[at..at + 8]);
    u64::from_le_bytes(bytes)
}

#[inline(always)]
fn u32_at(from: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&from[at..at + 4]);
    u64::from(u32::from_le_bytes(bytes))
}

/// Fewer than 16 bytes and zeros after them.
///
/// # Safety
/// The CPU has SSSE3.
#[inline(always)]
unsafe fn load16(from: &[u8]) -> __m128i {
    let n = from.len();
    let (low, high) = match n {
        8..=15 => (u64_at(from, 0), (u64_at(from, n - 8) >> 8) >> (8 * (15 - n))),
        4..=7 => (u32_at(from, 0) | u32_at(from, n - 4) << (8 * (n - 4)), 0),
        1..=3 => {
            let at = |i: usize| u64::from(from[i]) << (8 * i);
            (at(0) | at(n / 2) | at(n - 1), 0)
        }
        _ => (0, 0),
    };
    // SAFETY: SSE2.
    unsafe { _mm_set_epi64x(high as i64, low as i64) }
}

/// Fewer than 32 bytes and zeros after them.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn load32(from: &[u8]) -> __m256i {
    let n = from.len();
    debug_assert!(n < 32);
    // SAFETY: AVX2 by contract; 16 bytes are readable at both places when there are 16 or more.
    unsafe {
        if n < 16 {
            return _mm256_set_m128i(_mm_setzero_si128(), load16(from));
        }
        let low = _mm_loadu_si128(from.as_ptr().cast());
        let high = _mm_loadu_si128(from[n - 16..].as_ptr().cast());
        _mm256_set_m128i(slide(high, 16 + (32 - n)), low)
    }
}

/// The first bytes of `x`, fewer than 16.
///
/// # Safety
/// The CPU has SSE4.1.
#[inline(always)]
unsafe fn store16(to: &mut [u8], x: __m128i) {
    let n = to.len();
    // SAFETY: SSE4.1 by contract.
    let (low, high) = unsafe { (_mm_cvtsi128_si64(x) as u64, _mm_extract_epi64::<1>(x) as u64) };
    match n {
        8..=15 => {
            let last = (low >> (8 * (n - 8))) | ((high << 8) << (8 * (15 - n)));
            to[n - 8..].copy_from_slice(&last.to_le_bytes());
            to[..8].copy_from_slice(&low.to_le_bytes());
        }
        4..=7 => {
            to[n - 4..].copy_from_slice(&((low >> (8 * (n - 4))) as u32).to_le_bytes());
            to[..4].copy_from_slice(&(low as u32).to_le_bytes());
        }
        1..=3 => {
            to[n - 1] = (low >> (8 * (n - 1))) as u8;
            to[n / 2] = (low >> (8 * (n / 2))) as u8;
            to[0] = low as u8;
        }
        _ => {}
    }
}

/// The first bytes of `x`, fewer than 32.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn store32(to: &mut [u8], x: __m256i) {
    let n = to.len();
    debug_assert!(n < 32);
    // SAFETY: AVX2 by contract; 16 bytes are writable at both places when there are 16 or more.
    unsafe {
        let low = _mm256_castsi256_si128(x);
        if n < 16 {
            return store16(to, low);
        }
        let high = _mm256_extracti128_si256::<1>(x);
        let last = _mm_or_si128(slide(low, 16 + (n - 16)), slide(high, 16 - (32 - n)));
        _mm_storeu_si128(to[n - 16..].as_mut_ptr().cast(), last);
        _mm_storeu_si128(to.as_mut_ptr().cast(), low);
    }
}
