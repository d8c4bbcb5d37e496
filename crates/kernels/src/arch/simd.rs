//! The levels that have vectors: their tokens and shells, and what every width does alike.

use super::vector::{Vector, Wide};
use super::{Entry, Lanes, LoopBody, Zip, reversal};
use core::arch::x86_64::*;
use core::marker::PhantomData;

/// The token of the level that has vectors `V`, and of what comes with them.
#[derive(Clone, Copy, Debug)]
pub struct Simd<V, F = Plain>(PhantomData<(V, F)>);

/// What the level's name says.
#[derive(Clone, Copy, Debug)]
pub struct Plain;
/// AES-NI besides: 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aesni;
/// VAES besides: 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct Vaes;

/// What comes with a level's vectors.
pub(crate) trait Besides: Copy + Send + Sync + 'static {
    #[doc(hidden)]
    fn call<V: Wide, K: LoopBody<Simd<V, Self>>>(lanes: Simd<V, Self>, body: K) -> K::Output;
}

impl Besides for Plain {
    #[inline(always)]
    fn call<V: Wide, K: LoopBody<Simd<V>>>(_: Simd<V>, body: K) -> K::Output {
        // SAFETY: the token proves the instructions.
        unsafe { V::call(body) }
    }
}

/// Loops that use AES are not called by pointer.
macro_rules! besides {
    ($($name:ident)*) => {$(
        impl Besides for $name {
            #[inline(always)]
            fn call<V: Wide, K: LoopBody<Simd<V, Self>>>(
                lanes: Simd<V, Self>,
                body: K,
            ) -> K::Output {
                body.run(lanes)
            }
        }
    )*};
}
besides!(Aesni Vaes);

/// The token of the avx2 level: 256 bits.
pub type Avx2 = Simd<__m256i>;
/// The token of the avx512 level: 512 bits, with VBMI and IFMA.
pub type Avx512 = Simd<__m512i>;

/// A level's shells: functions that whole loops are compiled in.
macro_rules! shells {
    ($level:ident: $token:ty, $features:literal) => {
        pub(super) mod $level {
            use super::*;

            /// Compiles a whole kernel for the level.
            ///
            /// # Safety
            /// The CPU has the features that the attribute names.
            #[target_feature(enable = $features)]
            pub(in crate::arch) unsafe fn shell<K: LoopBody<$token>>(body: K) -> K::Output {
                body.run(Simd(PhantomData))
            }

            /// Compiles a bound loop for the level.
            ///
            /// # Safety
            /// As for `shell`.
            #[target_feature(enable = $features)]
            pub(in crate::arch) unsafe fn entry<E: Entry<$token>>(
                context: &mut E::Context,
                src: &[u8],
                dst: &mut [u8],
            ) -> E::Output {
                if const { E::UNIT == 1 } || src.len().is_multiple_of(E::UNIT) {
                    return E::run(Simd(PhantomData), context, src, dst);
                }
                // SAFETY: the same features.
                unsafe { general::<E>(context, src, dst) }
            }

            /// The loop for messages that have a rest.
            ///
            /// # Safety
            /// As for `shell`.
            #[target_feature(enable = $features)]
            #[inline(never)]
            unsafe fn general<E: Entry<$token>>(
                context: &mut E::Context,
                src: &[u8],
                dst: &mut [u8],
            ) -> E::Output {
                E::run(Simd(PhantomData), context, src, dst)
            }
        }
    };
}
shells!(avx2: Avx2, "avx2,bmi1,bmi2,sse4.2,popcnt");
shells!(avx512: Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512ifma,vaes,vpclmulqdq,gfni,avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq");

/// Compiles a whole kernel for AVX2 with AES-NI.
///
/// # Safety
/// The CPU has the features that the attribute names. So it is for the others.
#[target_feature(enable = "avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq")]
pub(super) unsafe fn shell_aesni<K: LoopBody<Simd<__m256i, Aesni>>>(body: K) -> K::Output {
    body.run(Simd(PhantomData))
}

/// Compiles a whole kernel for AVX2 with VAES.
///
/// # Safety
/// As for `shell_aesni`.
#[target_feature(enable = "avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq,vaes,vpclmulqdq")]
pub(super) unsafe fn shell_vaes<K: LoopBody<Simd<__m256i, Vaes>>>(body: K) -> K::Output {
    body.run(Simd(PhantomData))
}

/// A loop over AES blocks, generic over the vector that a level has for them. `run` must be `#[inline(always)]`.
pub(crate) trait AesLoopBody {
    /// What the loop leaves besides what it stores.
    type Output;
    /// Runs the loop.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, those of AES among them.
    unsafe fn run<V: Vector>(self) -> Self::Output;
}

/// Levels with AES, and their vectors of AES blocks, whose instructions are among the level's.
pub(super) trait AesLanes: Lanes {
    type Blocks: Vector;
}
impl AesLanes for Simd<__m256i, Aesni> {
    type Blocks = __m128i;
}
impl AesLanes for Simd<__m256i, Vaes> {
    type Blocks = __m256i;
}
impl AesLanes for Avx512 {
    type Blocks = __m512i;
}

/// An AES loop in the shell of a level that has AES.
pub(super) struct Aes<K>(pub(super) K);

impl<L: AesLanes, K: AesLoopBody> LoopBody<L> for Aes<K> {
    type Output = K::Output;
    #[inline(always)]
    fn run(self, _: L) -> K::Output {
        // SAFETY: the token proves the instructions.
        unsafe { self.0.run::<L::Blocks>() }
    }
}

/// `2^(i + first)` for the 16-bit lanes `i` of a vector, powers going round after 2^15: a product with it
/// has in its halves what a turn by as many bits leaves at each end.
const fn powers16(first: usize) -> [u8; 64] {
    let mut powers = [0; 64];
    let mut i = 0;
    while i < 32 {
        let power = 1u16 << ((i + first) % 16);
        [powers[2 * i], powers[2 * i + 1]] = power.to_le_bytes();
        i += 1;
    }
    powers
}

/// Methods of one expression of the vector's instructions, which the token proves.
macro_rules! proven {
    ($($name:ident($($x:ident: $t:ty),*) $(-> $r:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($x: $t),*) $(-> $r)? {
            // SAFETY: the token proves the instructions; slices and arrays have the bytes that are read or written.
            unsafe { $body }
        }
    )*};
}

impl<V: Wide, F: Besides> Lanes for Simd<V, F> {
    type V = V;
    const WIDTH: usize = V::BYTES;
    const SHUFFLES: bool = true;
    const MOST_VECTORS: usize = 16;
    const AVERAGES: bool = true;

    proven! {
        load(from: &[u8]) -> V = V::load(from[..V::BYTES].as_ptr());
        store(to: &mut [u8], x: V) = V::store(to[..V::BYTES].as_mut_ptr(), x);
        load_partial(from: &[u8]) -> V = V::load_partial(from);
        store_partial(to: &mut [u8], x: V) = V::store_partial(to, x);
        zero() -> V = V::zero();
        keep(x: V, valid: usize) -> V = V::keep(x, valid);
        splat16(x: u16) -> V = V::splat16(x);
        splat32(x: u32) -> V = V::splat32(x);
        splat64(x: u64) -> V = V::splat64(x);
        splat128(x: [u8; 16]) -> V = V::repeat(&x);
        xor(a: V, b: V) -> V = V::xor(a, b);
        and(a: V, b: V) -> V = V::and(a, b);
        or(a: V, b: V) -> V = V::or(a, b);
        add8(a: V, b: V) -> V = V::add8(a, b);
        sub8(a: V, b: V) -> V = V::sub8(a, b);
        average16(a: V, b: V) -> V = V::average16(a, b);
        add32(a: V, b: V) -> V = V::add32(a, b);
        sub32(a: V, b: V) -> V = V::sub32(a, b);
        add64(a: V, b: V) -> V = V::add64(a, b);
        sub64(a: V, b: V) -> V = V::sub64(a, b);
        mul32(a: V, b: V) -> V = V::mul32(a, b);
        shuffle(x: V, control: [u8; 16]) -> V = V::shuffle(x, V::repeat(&control));
        shuffle_by(x: V, control: V) -> V = V::shuffle(x, control);
        sum_bytes(x: V) -> V = V::distance8(x, V::zero());
        dot_bytes(x: V, weights: V) -> V = V::dot16(V::dot8(x, weights), V::splat16(1));
        // The level includes SSE4.2.
        crc32c(crc: u32, bytes: u64) -> u32 = _mm_crc32_u64(u64::from(crc), bytes) as u32;
        sum64(x: V) -> u64 = V::sum64(x);
        pin(x: V) -> V = V::hide(x);
        keep_load(x: V) = V::pin(&mut { x });
    }
    #[inline(always)]
    fn rotl32<const BITS: u32>(self, x: V) -> V {
        // SAFETY: the token proves the instructions. So it is for the others.
        unsafe { V::rotl32::<BITS>(x) }
    }
    #[inline(always)]
    fn shl64<const BITS: u32>(self, x: V) -> V {
        // SAFETY: as above.
        unsafe { V::shl64::<BITS>(x) }
    }
    #[inline(always)]
    fn shr64<const BITS: u32>(self, x: V) -> V {
        // SAFETY: as above.
        unsafe { V::shr64::<BITS>(x) }
    }
    #[inline(always)]
    fn swap<const BYTES: usize>(self, x: V) -> V {
        self.shuffle(x, const { reversal(BYTES) })
    }
    #[inline(always)]
    fn turn16<const FIRST: usize>(self, x: V) -> V {
        let powers = self.load(const { &powers16(FIRST) });
        // SAFETY: as above.
        unsafe { V::or(V::mul16_low(x, powers), V::mul16_high(x, powers)) }
    }
    #[inline(always)]
    fn xor64(self, x: V) -> u64 {
        // SAFETY: as above.
        unsafe {
            let x = V::fold(x);
            _mm_cvtsi128_si64(_mm_xor_si128(x, _mm_unpackhi_epi64(x, x))) as u64
        }
    }
    #[inline(always)]
    fn call<K: LoopBody<Self>>(self, body: K) -> K::Output {
        F::call(self, body)
    }
}

impl<V: Wide> Zip for Simd<V> {
    proven! {
        zip8(pair: [V; 2]) -> [V; 2] = [V::zip8_low(pair[0], pair[1]), V::zip8_high(pair[0], pair[1])];
        zip64(pair: [V; 2]) -> [V; 2] =
            [V::unpack_low(pair[0], pair[1]), V::unpack_high(pair[0], pair[1])];
        odd8(a: V, b: V) -> V = V::odd8(a, b);
    }
}
