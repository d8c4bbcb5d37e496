//! What a GCM key becomes before the first message: round keys, the counter table, the powers of H.
//!
//! Powers are kept multiplied by x, so that a carry-less product of byte-reversed operands needs no
//! shift (Gueron and Kounavis, "Intel Carry-Less Multiplication Instruction and its Usage for
//! Computing the GCM Mode", 2014, section 2.4 and figure 5).

use core::arch::x86_64::*;
use zeroize::Zeroize;

/// Powers kept: H^`POWERS` first, H^1 last. One more than a multiple of 4, so that the vectors of a
/// message of whole cache lines begin at whole cache lines of the table.
pub(super) const POWERS: usize = 69;
/// Blocks of one aggregate: what is multiplied before the next reduction.
pub(super) const AGGREGATE: usize = 64;
/// Zeros after the powers, and entries of the counter table repeated after its end: what the
/// vectors of a last batch may touch beyond what they need.
const BEYOND: usize = 64;
/// Round keys of AES-256.
const KEYS: usize = 15;

/// The reverse of the sixteen bytes of a block: GHASH reads a block as a polynomial whose first bit
/// is the lowest coefficient.
pub(super) const REVERSE: [u8; 16] = crate::arch::reversal(16);

/// All that the loop reads of a key. Filled for one vector width.
#[repr(C, align(64))]
#[derive(Zeroize)]
pub(crate) struct Context {
    /// Round keys, each repeated over the width of a vector, one after the other.
    pub(super) keys: [u8; KEYS * 64],
    /// What the low byte `i` of the counter changes in the state after the first round, against 0.
    pub(super) counter: [[u8; 16]; 256 + BEYOND],
    /// H^`POWERS` down to H^1, times x, then zeros.
    pub(super) powers: [[u8; 16]; POWERS + BEYOND],
    /// For the power at the same index: the XOR of its halves, then that of the power one vector on.
    pub(super) middles: [[u8; 16]; POWERS + BEYOND],
    /// AES rounds: 10 or 14.
    pub(super) rounds: usize,
}

impl Context {
    pub(super) const fn empty() -> Context {
        Context {
            keys: [0; KEYS * 64],
            counter: [[0; 16]; 256 + BEYOND],
            powers: [[0; 16]; POWERS + BEYOND],
            middles: [[0; 16]; POWERS + BEYOND],
            rounds: 0,
        }
    }

    /// Expands `key` (16 or 32 bytes) for vectors of `blocks` blocks.
    ///
    /// # Safety
    /// The CPU must have AES-NI, PCLMULQDQ and SSSE3.
    #[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
    pub(super) fn expand(&mut self, key: &[u8], blocks: usize) {
        let mut keys = [_mm_setzero_si128(); KEYS];
        self.rounds = expand(key, &mut keys);
        for (i, &round_key) in keys.iter().enumerate() {
            for lane in 0..blocks {
                let at = 16 * (i * blocks + lane);
                self.keys[at..at + 16].copy_from_slice(&bytes(round_key));
            }
        }
        self.fill_counter(keys[0]);
        self.fill_powers(&keys[..=self.rounds], blocks);
        // SAFETY: plain vectors on the stack, written once more and never read again.
        unsafe { core::ptr::write_volatile(&mut keys, [_mm_setzero_si128(); KEYS]) };
    }

    #[target_feature(enable = "aes,ssse3")]
    fn fill_counter(&mut self, key: __m128i) {
        let zero = _mm_setzero_si128();
        let base = _mm_aesenc_si128(key, zero);
        for (i, entry) in self.counter.iter_mut().enumerate() {
            let mut low = [0; 16];
            low[15] = i as u8;
            let state = _mm_xor_si128(key, block(&low));
            *entry = bytes(_mm_xor_si128(_mm_aesenc_si128(state, zero), base));
        }
    }

    #[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
    fn fill_powers(&mut self, keys: &[__m128i], blocks: usize) {
        let mut state = keys[0];
        for &key in &keys[1..keys.len() - 1] {
            state = _mm_aesenc_si128(state, key);
        }
        let h = _mm_aesenclast_si128(state, keys[keys.len() - 1]);
        let first = times_x(_mm_shuffle_epi8(h, block(&REVERSE)));
        let mut power = first;
        for i in (0..POWERS).rev() {
            self.powers[i] = bytes(power);
            power = multiply(power, first);
        }
        for i in 0..POWERS + BEYOND {
            let zero = [0; 16];
            let near = middle(&self.powers[i]);
            let far = middle(self.powers.get(i + blocks).unwrap_or(&zero));
            self.middles[i][..8].copy_from_slice(&near);
            self.middles[i][8..].copy_from_slice(&far);
        }
    }
}

/// Round keys of AES-128 or AES-256, as a key of 16 or 32 bytes says, and how many rounds there are.
///
/// # Safety
/// The CPU must have AES-NI and SSSE3.
#[target_feature(enable = "aes,ssse3")]
pub(in crate::arch) fn round_keys(key: &[u8], to: &mut [[u8; 16]; KEYS]) -> usize {
    let mut keys = [_mm_setzero_si128(); KEYS];
    let rounds = expand(key, &mut keys);
    for (to, key) in to.iter_mut().zip(keys) {
        *to = bytes(key);
    }
    // SAFETY: plain vectors on the stack, written once more and never read again.
    unsafe { core::ptr::write_volatile(&mut keys, [_mm_setzero_si128(); KEYS]) };
    rounds
}

#[target_feature(enable = "aes")]
fn expand(key: &[u8], keys: &mut [__m128i; KEYS]) -> usize {
    match key.len() {
        16 => expand_128(key, keys),
        32 => expand_256(key, keys),
        other => unreachable!("an AES key of {other} bytes"),
    }
}

/// The XOR of the halves of a power.
fn middle(power: &[u8; 16]) -> [u8; 8] {
    core::array::from_fn(|i| power[i] ^ power[i + 8])
}

#[inline]
#[target_feature(enable = "sse2")]
fn bytes(v: __m128i) -> [u8; 16] {
    // SAFETY: both are sixteen plain bytes.
    unsafe { core::mem::transmute(v) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn block(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: both are sixteen plain bytes.
    unsafe { core::mem::transmute(*bytes) }
}

/// Multiplies a reflected polynomial by x, modulo the polynomial of GCM. Without branches.
#[inline]
#[target_feature(enable = "sse2")]
fn times_x(h: __m128i) -> __m128i {
    let high_bits = _mm_srli_epi64::<63>(h);
    let shifted = _mm_or_si128(_mm_slli_epi64::<1>(h), _mm_slli_si128::<8>(high_bits));
    // The bit that fell off the top, as a mask over all bits.
    let carry = _mm_sub_epi64(_mm_setzero_si128(), _mm_srli_si128::<8>(high_bits));
    let carry = _mm_unpacklo_epi64(carry, carry);
    _mm_xor_si128(
        shifted,
        _mm_and_si128(carry, _mm_set_epi64x(0xc200_0000_0000_0000_u64 as i64, 1)),
    )
}

/// The product of two reflected polynomials of which one is kept times x.
#[inline]
#[target_feature(enable = "sse2,pclmulqdq")]
pub(super) fn multiply(a: __m128i, b: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(a, b);
    let high = _mm_clmulepi64_si128::<0x11>(a, b);
    let middle =
        _mm_xor_si128(_mm_clmulepi64_si128::<0x01>(a, b), _mm_clmulepi64_si128::<0x10>(a, b));
    reduce(low, middle, high)
}

/// Reduces `low + middle * x^64 + high * x^128`; `middle` is the sum of the two cross products.
#[inline]
#[target_feature(enable = "sse2,pclmulqdq")]
pub(super) fn reduce(low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
    let poly = _mm_set_epi64x(0, 0xc200_0000_0000_0000_u64 as i64);
    let first = _mm_clmulepi64_si128::<0x00>(low, poly);
    let middle = _mm_xor_si128(_mm_xor_si128(middle, first), _mm_shuffle_epi32::<0x4e>(low));
    let second = _mm_clmulepi64_si128::<0x00>(middle, poly);
    _mm_xor_si128(_mm_xor_si128(high, second), _mm_shuffle_epi32::<0x4e>(middle))
}

/// `w[i] ^ w[i-1] ^ w[i-2] ^ w[i-3]` over the words of a round key (FIPS 197, section 5.2).
#[inline]
#[target_feature(enable = "sse2")]
fn spread(key: __m128i) -> __m128i {
    let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    _mm_xor_si128(key, _mm_slli_si128::<8>(key))
}

#[target_feature(enable = "aes")]
fn expand_128(key: &[u8], keys: &mut [__m128i; 15]) -> usize {
    #[inline]
    #[target_feature(enable = "aes")]
    fn next<const RCON: i32>(key: __m128i) -> __m128i {
        let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<RCON>(key));
        _mm_xor_si128(spread(key), word)
    }
    keys[0] = block(key.first_chunk().expect("an AES-128 key"));
    keys[1] = next::<0x01>(keys[0]);
    keys[2] = next::<0x02>(keys[1]);
    keys[3] = next::<0x04>(keys[2]);
    keys[4] = next::<0x08>(keys[3]);
    keys[5] = next::<0x10>(keys[4]);
    keys[6] = next::<0x20>(keys[5]);
    keys[7] = next::<0x40>(keys[6]);
    keys[8] = next::<0x80>(keys[7]);
    keys[9] = next::<0x1b>(keys[8]);
    keys[10] = next::<0x36>(keys[9]);
    10
}

#[target_feature(enable = "aes")]
fn expand_256(key: &[u8], keys: &mut [__m128i; 15]) -> usize {
    /// Round keys `i` and `i + 1` from `i - 2` and `i - 1`.
    #[inline]
    #[target_feature(enable = "aes")]
    fn next<const RCON: i32>(keys: &mut [__m128i; 15], i: usize) {
        let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<RCON>(keys[i - 1]));
        keys[i] = _mm_xor_si128(spread(keys[i - 2]), word);
        if i < 14 {
            let word = _mm_shuffle_epi32::<0xaa>(_mm_aeskeygenassist_si128::<0>(keys[i]));
            keys[i + 1] = _mm_xor_si128(spread(keys[i - 1]), word);
        }
    }
    keys[0] = block(key[..16].first_chunk().expect("an AES-256 key"));
    keys[1] = block(key[16..].first_chunk().expect("an AES-256 key"));
    next::<0x01>(keys, 2);
    next::<0x02>(keys, 4);
    next::<0x04>(keys, 6);
    next::<0x08>(keys, 8);
    next::<0x10>(keys, 10);
    next::<0x20>(keys, 12);
    next::<0x40>(keys, 14);
    14
}
