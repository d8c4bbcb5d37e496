//! AES-GCM as one loop with the stages before and after it: the key, and the loop in every level's
//! shell. The loop itself is in `fused`; what it reads of a key is in `context`.

mod context;
mod counter;
mod digest;
mod edge;
mod fused;
#[cfg(test)]
mod tests;

use super::{AesLoopBody, Vector};
use crate::{Check, Level, Swap};
pub(super) use context::round_keys;
use context::{Context, REVERSE};
use core::arch::x86_64::*;
pub(crate) use fused::HashStart;
use fused::{Message, Outcome};
use fusewire_base::Sum;
use zeroize::Zeroize;

/// The counter of a message's first block (NIST SP 800-38D, section 7.1, steps 2 and 3).
pub(crate) const FIRST: u32 = 2;

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
pub(crate) enum Fused {
    Nothing,
    /// Words of so many bytes (1: none, 2, 4 or 8) of the plaintext are swapped, the ciphertext is
    /// summed.
    SwapAndSum(usize),
}

impl Fused {
    /// What has neither passes a shorter loop; what has one of the two passes that of both.
    #[inline]
    pub(crate) fn of(swap: Swap, check: Check) -> Fused {
        match (swap, check) {
            (Swap::None, Check::None) => Fused::Nothing,
            _ => Fused::SwapAndSum(swap.bytes()),
        }
    }
}

/// The public inputs of a message, or of a piece of it that is a whole number of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) nonce: &'a [u8; 12],
    pub(crate) start: HashStart<'a>,
    /// Bytes of additional data and of ciphertext, if the message ends with this call.
    pub(crate) lengths: Option<[usize; 2]>,
    /// The counter of the first block, `FIRST` at the begin of a message.
    pub(crate) counter: u32,
}

/// What GHASH and the sum made of the ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The tag; for a piece that does not end its message, what the next takes as [`HashStart::Hash`].
    pub(crate) tag: [u8; 16],
    /// Zero if it was not asked for.
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

    /// Runs `src` through the loop to `dst`, which must be as long.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        direction: Direction,
        fused: Fused,
        inputs: Inputs<'_>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Found {
        use Direction::{Open, Seal};
        assert_eq!(src.len(), dst.len(), "source and destination must have one length");
        let element = match fused {
            Fused::Nothing => 1,
            Fused::SwapAndSum(bytes) => bytes,
        };
        let message = inputs.message(element, src.as_ptr(), dst.as_mut_ptr(), src.len());
        match (direction, fused) {
            (Seal, Fused::SwapAndSum(_)) => self.job::<true, true>(message),
            (Open, Fused::SwapAndSum(_)) => self.job::<false, true>(message),
            (Seal, Fused::Nothing) => self.job::<true, false>(message),
            (Open, Fused::Nothing) => self.job::<false, false>(message),
        }
    }

    /// Seals `bytes` where they are, without swap or sum.
    #[inline]
    pub(crate) fn seal_in_place(&self, inputs: Inputs<'_>, bytes: &mut [u8]) -> Found {
        let at = bytes.as_mut_ptr();
        self.job::<true, false>(inputs.message(1, at, at, bytes.len()))
    }

    /// `message` points to readable and writable memory of the callers above.
    #[inline(always)]
    fn job<const SEAL: bool, const FUSED: bool>(&self, message: Message<'_>) -> Found {
        let context: &Context = &self.context;
        match self.level.run_aes(Job::<SEAL, FUSED> { context, message }) {
            Ok(found) => found,
            Err(_) => unreachable!("a key exists only at a level with AES"),
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.context.zeroize();
    }
}

impl<'a> Inputs<'a> {
    fn message(self, element: usize, src: *const u8, dst: *mut u8, len: usize) -> Message<'a> {
        let Inputs { nonce, start, lengths, counter } = self;
        assert!(
            lengths.is_some() || (len > 0 && len.is_multiple_of(16)),
            "pieces are whole blocks"
        );
        Message { nonce, start, lengths, counter, element, src, dst, len }
    }
}

struct Expand<'a> {
    context: &'a mut Context,
    key: &'a [u8],
}

/// One message through one loop.
struct Job<'a, const SEAL: bool, const FUSED: bool> {
    context: &'a Context,
    message: Message<'a>,
}

impl AesLoopBody for Expand<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: AES-NI, PCLMULQDQ and SSE4.1, as the caller vouches.
        unsafe { self.context.expand(self.key, V::BLOCKS) }
    }
}

/// A key is expanded for its own level, and the pointers come from slices of the message's length.
impl<const SEAL: bool, const FUSED: bool> AesLoopBody for Job<'_, SEAL, FUSED> {
    type Output = Found;
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> Found {
        let Job { context, message } = self;
        // SAFETY: as the caller vouches, and above.
        unsafe {
            let Outcome { hash, mask, sum } = fused::run::<V, SEAL, FUSED>(context, message);
            let found = if message.lengths.is_some() {
                _mm_xor_si128(_mm_shuffle_epi8(hash, narrow(&REVERSE)), mask)
            } else {
                hash
            };
            let mut tag = [0; 16];
            _mm_storeu_si128(tag.as_mut_ptr().cast(), found);
            Found { tag, sum: Sum::from_folded(u16::from_be(Sum::from_words(sum).folded())) }
        }
    }
}

/// A block in memory.
///
/// # Safety
/// None but the baseline of x86-64.
#[inline(always)]
unsafe fn narrow(block: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}
