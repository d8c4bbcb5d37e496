//! AES-GCM as one loop with the stages before and after it: the key, and the loop in every level's
//! shell. The loop itself is in `fused`; what it reads of a key is in `context`.

mod context;
mod edge;
mod fused;
mod lanes;

use super::{Aesni, Avx2, Avx512, Kernel, Vaes};
use crate::Level;
use context::Context;
use core::arch::x86_64::__m128i;
use fused::{Message, Outcome};
use fusewire_base::Sum;
use lanes::{Double, GcmLanes, Quad, Single};
use zeroize::Zeroize;

/// An expanded AES-GCM key for one level. Wiped when dropped.
pub(crate) struct Key {
    level: Level,
    context: Box<Context>,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Seal,
    Open,
}

/// What the loop does besides AES-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    /// Bytes of the plaintext's elements that are reversed: 1 (none), 2, 4 or 8.
    pub(crate) element: usize,
    /// Whether the ciphertext is summed; without it, `element` must be 1.
    pub(crate) sum: bool,
}

/// One message's public inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) nonce: &'a [u8; 12],
    pub(crate) aad: &'a [u8],
    pub(crate) src: &'a [u8],
    /// The counter of the first block: 2, but for tests.
    pub(crate) counter: u32,
}

/// The tag that the ciphertext has, and its sum (zero if it was not asked for).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) tag: [u8; 16],
    pub(crate) sum: Sum,
}

impl Key {
    /// Expands `key`, of 16 or 32 bytes. `None` if the level has no AES instructions.
    pub(crate) fn new(level: Level, key: &[u8]) -> Option<Key> {
        let mut context = Box::new(Context::empty());
        let expand = Expand { context: &mut context, key };
        level.run_aes(expand).ok()?;
        Some(Key { level, context })
    }

    /// Runs `call.src` through the loop to `dst`, which must be as long.
    #[inline(never)]
    pub(crate) fn run(
        &self,
        direction: Direction,
        around: Around,
        call: Call<'_>,
        dst: &mut [u8],
    ) -> Digest {
        use Direction::{Open, Seal};
        match (direction, around.element, around.sum) {
            (Seal, 1, true) => self.job::<true, 1, true>(call, dst),
            (Seal, 2, true) => self.job::<true, 2, true>(call, dst),
            (Seal, 4, true) => self.job::<true, 4, true>(call, dst),
            (Seal, 8, true) => self.job::<true, 8, true>(call, dst),
            (Seal, 1, false) => self.job::<true, 1, false>(call, dst),
            (Open, 1, true) => self.job::<false, 1, true>(call, dst),
            (Open, 2, true) => self.job::<false, 2, true>(call, dst),
            (Open, 4, true) => self.job::<false, 4, true>(call, dst),
            (Open, 8, true) => self.job::<false, 8, true>(call, dst),
            (Open, 1, false) => self.job::<false, 1, false>(call, dst),
            _ => unreachable!("{around:?} has no loop"),
        }
    }

    #[inline(always)]
    fn job<const SEAL: bool, const ELEMENT: usize, const SUM: bool>(
        &self,
        call: Call<'_>,
        dst: &mut [u8],
    ) -> Digest {
        let context: &Context = &self.context;
        match self.level.run_aes(Job::<SEAL, ELEMENT, SUM> { context, call, dst }) {
            Ok(digest) => digest,
            Err(_) => unreachable!("a key exists only at a level with AES"),
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.context.zeroize();
    }
}

struct Expand<'a> {
    context: &'a mut Context,
    key: &'a [u8],
}

/// One message through one loop.
struct Job<'a, const SEAL: bool, const ELEMENT: usize, const SUM: bool> {
    context: &'a Context,
    call: Call<'a>,
    dst: &'a mut [u8],
}

impl<const SEAL: bool, const ELEMENT: usize, const SUM: bool> Job<'_, SEAL, ELEMENT, SUM> {
    /// # Safety
    /// The CPU has the instructions of `L`, for whose width the context was expanded.
    #[inline(always)]
    unsafe fn go<L: GcmLanes>(self) -> Digest {
        let Call { nonce, aad, src, counter } = self.call;
        assert_eq!(src.len(), self.dst.len(), "source and destination must have one length");
        let (len, dst) = (src.len(), self.dst.as_mut_ptr());
        let message = Message { nonce, aad, counter, src: src.as_ptr(), dst, len };
        // SAFETY: instructions and context as the caller vouches; both slices have `len` bytes, and one
        // of them is exclusive.
        let Outcome { tag, sum } = unsafe {
            if self.context.rounds == 14 {
                fused::run::<L, 14, SEAL, ELEMENT, SUM>(self.context, message)
            } else {
                fused::run::<L, 10, SEAL, ELEMENT, SUM>(self.context, message)
            }
        };
        // SAFETY: both are sixteen plain bytes.
        let tag = unsafe { core::mem::transmute::<__m128i, [u8; 16]>(tag) };
        Digest { tag, sum: Sum::from_folded(u16::from_be(Sum::from_words(sum).folded())) }
    }
}

/// The lanes of a level's shell.
macro_rules! at_level {
    ($token:ty, $lanes:ty) => {
        impl Kernel<$token> for Expand<'_> {
            type Output = ();
            #[inline(always)]
            fn run(self, _: $token) {
                // SAFETY: the token proves AES-NI, PCLMULQDQ and SSSE3.
                unsafe { self.context.expand(self.key, <$lanes>::BLOCKS) }
            }
        }

        impl<const SEAL: bool, const ELEMENT: usize, const SUM: bool> Kernel<$token>
            for Job<'_, SEAL, ELEMENT, SUM>
        {
            type Output = Digest;
            #[inline(always)]
            fn run(self, _: $token) -> Digest {
                // SAFETY: the token proves the instructions; a key is expanded for its own level.
                unsafe { self.go::<$lanes>() }
            }
        }
    };
}
at_level!(Avx2<Aesni>, Single);
at_level!(Avx2<Vaes>, Double);
at_level!(Avx512, Quad);
