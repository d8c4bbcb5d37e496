//! AES-128-GCM and AES-256-GCM (NIST SP 800-38D, 96-bit nonces) fused with byte swap and Internet sum.
#![forbid(unsafe_code)]

use crate::arch::gcm::{Direction, FIRST, Found, Fused, HashStart, Inputs, Key};
use crate::execution::STRIP;
use crate::transform::{swap_pass, swap_pass_in_place};
use crate::{Check, Level, Opened, Swap};
use fusewire_base::Sum;

/// An expanded key: round keys, powers of the hash key, the counter's table. Wiped when dropped.
pub struct GcmKey {
    level: Level,
    key: Key,
}

impl GcmKey {
    /// Expands `key`, of 16 bytes (AES-128) or 32 (AES-256), for a level. `None` if the level has no AES
    /// instructions.
    ///
    /// # Panics
    /// When `key` has another length.
    pub fn new(level: Level, key: &[u8]) -> Option<GcmKey> {
        assert!(matches!(key.len(), 16 | 32), "an AES key of {} bytes", key.len());
        Some(GcmKey { level, key: Key::new(level, key)? })
    }

    /// swap ▸ encrypt ▸ sum ▸ store in one loop. Gives the sum of `dst`, and the tag.
    ///
    /// # Panics
    /// When `dst` is not as long as `src`.
    pub fn seal(
        &self,
        swap: Swap,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        self.seal_as(Fused::of(swap, Check::Internet), nonce, aad, src, dst, tag)
    }

    #[inline]
    pub(crate) fn seal_as(
        &self,
        fused: Fused,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        let found = self.key.run(Direction::Seal, fused, whole(nonce, aad, src.len()), src, dst);
        *tag = found.tag;
        found.sum
    }

    /// load ▸ sum ▸ decrypt ▸ swap ▸ store in one loop. The sum is that of `src`. `dst` is wiped when the
    /// tag is wrong, and is nobody's to read before.
    ///
    /// # Panics
    /// When `dst` is not as long as `src`.
    pub fn open(
        &self,
        swap: Swap,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> Opened {
        self.open_as(Fused::of(swap, Check::Internet), nonce, aad, src, tag, dst)
    }

    #[inline]
    pub(crate) fn open_as(
        &self,
        fused: Fused,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> Opened {
        let found = self.key.run(Direction::Open, fused, whole(nonce, aad, src.len()), src, dst);
        verified(found.sum, &found.tag, tag, dst)
    }

    /// AES-GCM as a pass of its own, where the bytes are: for comparisons.
    pub fn seal_in_place(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        bytes: &mut [u8],
        tag: &mut [u8; 16],
    ) {
        *tag = self.key.seal_in_place(whole(nonce, aad, bytes.len()), bytes).tag;
    }

    /// The inverse as a pass of its own, from `src` to `dst`, which is as long. `dst` is wiped when the tag is wrong.
    ///
    /// # Panics
    /// When `dst` is not as long as `src`.
    pub fn open_alone(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> bool {
        self.open_as(Fused::Nothing, nonce, aad, src, tag, dst).authentic
    }

    /// One piece of a message, in one loop.
    #[inline(never)]
    pub(crate) fn piece(
        &self,
        direction: Direction,
        fused: Fused,
        inputs: Inputs<'_>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Found {
        self.key.run(direction, fused, inputs, src, dst)
    }

    /// The tag of a message whose pieces have passed.
    pub(crate) fn tag(&self, strips: Strips<'_>) -> [u8; 16] {
        strips.finish(&self.key)
    }

    /// As [`GcmKey::seal`], each stage over a strip in turn.
    pub(crate) fn seal_blocked(
        &self,
        swap: Swap,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        assert_eq!(src.len(), dst.len(), "source and destination must have one length");
        let (mut sum, mut strips) = (Sum::ZERO, Strips::new(nonce, aad, src.len()));
        for (src, dst) in src.chunks(STRIP).zip(dst.chunks_mut(STRIP)) {
            swap_pass(self.level, swap, src, dst);
            strips.next(dst.len(), |inputs| self.key.seal_in_place(inputs, dst));
            sum += crate::sum(self.level, dst);
        }
        *tag = strips.finish(&self.key);
        sum
    }

    /// As [`GcmKey::open`], each stage over a strip in turn.
    pub(crate) fn open_blocked(
        &self,
        swap: Swap,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> Opened {
        assert_eq!(src.len(), dst.len(), "source and destination must have one length");
        let fused = Fused::Nothing;
        let (mut sum, mut strips) = (Sum::ZERO, Strips::new(nonce, aad, src.len()));
        for (src, dst) in src.chunks(STRIP).zip(dst.chunks_mut(STRIP)) {
            sum += crate::sum(self.level, src);
            strips.next(dst.len(), |inputs| self.key.run(Direction::Open, fused, inputs, src, dst));
            swap_pass_in_place(self.level, swap, dst);
        }
        verified(sum, &strips.finish(&self.key), tag, dst)
    }

    /// A message of `len` bytes that passes by itself, without swap or sum, and in pieces.
    pub fn pieces<'a>(&'a self, nonce: &'a [u8; 12], aad: &'a [u8], len: usize) -> Pieces<'a> {
        Pieces { key: &self.key, strips: Strips::new(nonce, aad, len) }
    }
}

/// A message in pieces, each but the last a whole number of blocks.
pub struct Pieces<'a> {
    key: &'a Key,
    strips: Strips<'a>,
}

impl Pieces<'_> {
    /// Encrypts the next piece where it is.
    pub fn seal(&mut self, piece: &mut [u8]) {
        self.strips.next(piece.len(), |inputs| self.key.seal_in_place(inputs, piece));
    }

    /// Decrypts the next piece from `src` to `dst`, which is as long. Nobody may read it before the tag is right.
    pub fn open(&mut self, src: &[u8], dst: &mut [u8]) {
        let run =
            |inputs: Inputs<'_>| self.key.run(Direction::Open, Fused::Nothing, inputs, src, dst);
        self.strips.next(src.len(), run);
    }

    /// The tag of what has passed.
    pub fn finish(self) -> [u8; 16] {
        self.strips.finish(self.key)
    }
}

/// A message in one call.
fn whole<'a>(nonce: &'a [u8; 12], aad: &'a [u8], len: usize) -> Inputs<'a> {
    let lengths = Some([aad.len(), len]);
    Inputs { nonce, start: HashStart::Aad(aad), lengths, counter: FIRST }
}

/// Compares in constant time, and wipes `dst` when the tags differ.
fn verified(sum: Sum, found: &[u8; 16], tag: &[u8; 16], dst: &mut [u8]) -> Opened {
    let authentic = aws_lc_rs::constant_time::verify_slices_are_equal(found, tag).is_ok();
    if !authentic {
        dst.fill(0);
    }
    Opened { sum: sum.into(), authentic }
}

/// How far a message in strips has come.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    done: usize,
    found: Found,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { done: 0, found: Found { tag: [0; 16], sum: Sum::ZERO } }
    }
}

impl Progress {
    /// The rest of the message.
    pub(crate) fn of<'a>(self, nonce: &'a [u8; 12], aad: &'a [u8], len: usize) -> Strips<'a> {
        Strips { nonce, aad, len, progress: self }
    }
}

/// A message in strips.
pub(crate) struct Strips<'a> {
    nonce: &'a [u8; 12],
    aad: &'a [u8],
    len: usize,
    progress: Progress,
}

impl<'a> Strips<'a> {
    pub(crate) fn new(nonce: &'a [u8; 12], aad: &'a [u8], len: usize) -> Strips<'a> {
        Progress::default().of(nonce, aad, len)
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// The next `len` bytes go through `run`. Gives their sum.
    #[inline]
    pub(crate) fn next(&mut self, len: usize, run: impl FnOnce(Inputs<'_>) -> Found) -> Sum {
        let Progress { done, found } = &mut self.progress;
        let start = match *done {
            0 => HashStart::Aad(self.aad),
            _ => HashStart::Hash(&found.tag),
        };
        let counter = FIRST.wrapping_add((*done / 16) as u32);
        *done += len;
        let lengths = (*done == self.len).then_some([self.aad.len(), self.len]);
        *found = run(Inputs { nonce: self.nonce, start, lengths, counter });
        found.sum
    }

    /// The tag.
    fn finish(self, key: &Key) -> [u8; 16] {
        if self.len > 0 {
            return self.progress.found.tag;
        }
        let fused = Fused::Nothing;
        let inputs = whole(self.nonce, self.aad, 0);
        key.run(Direction::Seal, fused, inputs, &[], &mut []).tag
    }
}
