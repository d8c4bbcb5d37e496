//! A message that passes the pipeline while it is marshalled, or unmarshalled: pieces, in their order.
//!
//! ```text
//! send      scalars ──▶ gather ──┐                      receive   ciphertext
//!                                ├─▶ swap ▸ cipher               ──▶ load ▸ sum ▸ decipher ▸ swap ─┬─▶ gather ──▶ scalars
//!           arrays ──────────────┘   ▸ sum ▸ store                                                 └─▶ arrays
//! ```
//! Scalars gather until there are enough for a pass; a long piece passes from where it is and to where it goes,
//! whole blocks of the cipher at a time, the bytes of its elements swapped on the way. What is neither lies in
//! the gather: never more than [`GATHER`] bytes, which stay in the first-level cache.
//!
//! Ciphers that go on where they stopped can do that: AES-GCM where the level has AES, AEGIS, and those without a tag.
//! ChaCha20-Poly1305, the library's ciphers and the executions that are not integrated have the message gathered
//! whole, and passed at once. The bytes are the same.
#![forbid(unsafe_code)]

mod lent;
mod opening;
mod sealing;

pub use lent::Lent;
pub use opening::Opening;
pub use sealing::Sealing;

use crate::{Level, Swap};
use crate::arch::gcm::Direction;
use crate::check::{Check, Found};
use crate::suites::TAG_LEN_MAX;
use crate::transform::{Opened, Public, Transform};
use aws_lc_rs::constant_time::verify_slices_are_equal;
pub use fusewire_base::Sum;
use zeroize::Zeroize;

/// Bytes that are gathered at most: a multiple of every unit.
pub const GATHER: usize = 2048;
/// From so many bytes on a piece passes by itself: a unit of the widest level.
const DIRECT: usize = 512;
/// Between pieces a cipher stops only at the end of a block, or of a vector of the widest level; so do words that are
/// swapped.
const BLOCK: usize = 64;

/// A message that is marshalled when it is sent.
pub trait Marshal {
    /// Bytes that [`Marshal::marshal`] gives.
    fn marshalled_len(&self) -> usize;

    /// Gives all bytes of the message, in order.
    fn marshal(&self, to: &mut Sealing<'_>);
}

/// Memory that a message is unmarshalled into while it is received.
///
/// Nothing of it may be seen before the message is known to be genuine, and what comes may be anything:
/// `unmarshal` has a shape that the bytes do not change, allocates nothing, and writes only where nobody reads
/// yet. If the message turns out to be none, `wipe` is called, and the memory must hold nothing of it.
pub trait Unmarshal {
    /// Takes what it wants of the message, in order.
    fn unmarshal(&mut self, from: &mut Opening<'_>);

    /// The same of a message that is taken from where it lies; its sum, if somebody wants to know. Worth its own code where
    /// it is generic over what it reads from: most of what a short message costs is the way there.
    #[inline]
    fn unmarshal_lent(&mut self, from: Lent<'_>) -> Sum {
        let mut opening = Opening::from(from);
        self.unmarshal(&mut opening);
        // Of what is lent, that is the sum.
        opening.finish(&mut []).sum().unwrap_or_default()
    }

    /// Forgets what it took.
    fn wipe(&mut self);
}

/// Bytes that are marshalled already.
impl Marshal for [u8] {
    fn marshalled_len(&self) -> usize {
        self.len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(self);
    }
}

impl Marshal for Vec<u8> {
    fn marshalled_len(&self) -> usize {
        self.len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        self[..].marshal(to);
    }
}

/// A borrowed message is one too.
impl<M: Marshal + ?Sized> Marshal for &M {
    fn marshalled_len(&self) -> usize {
        (**self).marshalled_len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        (**self).marshal(to);
    }
}

/// A message that is as long, as it is.
impl Unmarshal for [u8] {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        from.take(self);
    }

    fn wipe(&mut self) {
        self.fill(0);
    }
}

/// All of a message, however long. What it reserves before the message is known to be genuine is what the message has.
impl Unmarshal for Vec<u8> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        self.resize(from.left(), 0);
        from.take(self);
    }

    fn wipe(&mut self) {
        self.zeroize();
    }
}

/// Marshals a message into memory of its length, where it is to wait. False: it gave more or fewer bytes than it had
/// said.
pub fn marshal<M: Marshal + ?Sized>(message: &M, into: &mut [u8]) -> bool {
    let len = into.len();
    let mut sealing = Sealing::new(None, Swap::None, into, &mut [], len);
    message.marshal(&mut sealing);
    sealing.is_whole()
}

/// Unmarshals a message that has been opened before, and is genuine.
pub fn unmarshal<U: Unmarshal + ?Sized>(bytes: &[u8], into: &mut U) {
    unmarshal_at(Level::PORTABLE, bytes, false, into);
}

/// Unmarshals a message that nobody has enciphered from where it lies, with the loops of a level, and sums it on the way if
/// `sums`. Whoever calls judges the sum before anything of `into` is shown, and wipes it if it is wrong (Law 3).
#[inline]
pub fn unmarshal_at<U: Unmarshal + ?Sized>(
    level: Level,
    bytes: &[u8],
    sums: bool,
    into: &mut U,
) -> Sum {
    into.unmarshal_lent(Lent::new(level, (bytes, bytes.len()), sums))
}

/// Where the segments end that a message is cut into as it leaves, each of which has a sum of its own.
pub trait Segments {
    /// The offset in the message, beyond `at`, where the segment with the byte at `at` ends; perhaps beyond the message.
    fn end(&self, at: usize) -> usize;

    /// So many bytes at `at`, all of one segment, have this sum. They follow one another.
    fn add(&mut self, at: usize, len: usize, sum: Sum);
}

/// What the pieces of one message have in common.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) direction: Direction,
    pub(crate) public: Public<'a>,
    /// Bytes of the whole message.
    pub(crate) len: usize,
}

/// A pipeline that goes on where it stopped. It was begun by [`Pipeline::pieces`](crate::transform::Pipeline::pieces).
pub(crate) trait Pieces {
    /// Gives what was found of the ciphertext. A piece that is not the message's last is whole blocks. `swap` holds for
    /// this piece, in place of the pipeline's own.
    fn pass(&mut self, piece: &Piece<'_>, swap: Swap, src: &[u8], dst: &mut [u8]) -> Found;

    /// Writes the tag, if there is one.
    fn finish(&mut self, piece: &Piece<'_>, tag: &mut [u8]);
}

/// The pass of one message.
struct Pass<'t> {
    pieces: &'t mut dyn Pieces,
    piece: Piece<'t>,
}

impl Pass<'_> {
    /// Before the first piece.
    #[inline]
    fn begin(&self) -> Found {
        self.piece.public.check.begin()
    }

    fn run(&mut self, swap: Swap, src: &[u8], dst: &mut [u8]) -> Found {
        self.pieces.pass(&self.piece, swap, src, dst)
    }

    /// As [`Pass::run`] of bytes at `at` in the message, whose segments hear of their sums. A block that lies across the
    /// end of one is summed once it is stored.
    fn run_segments(
        &mut self,
        segments: &mut dyn Segments,
        at: usize,
        swap: Swap,
        src: &[u8],
        dst: &mut [u8],
    ) {
        let mut done = 0;
        while done < src.len() {
            let (from, left) = (at + done, src.len() - done);
            let room = segments.end(from) - from;
            let whole = if room >= left { left } else { room / BLOCK * BLOCK };
            let len = if whole == 0 { left.min(BLOCK) } else { whole };
            let dst = &mut dst[done..done + len];
            match self.run(swap, &src[done..done + len], dst).sum() {
                Some(sum) if whole > 0 => segments.add(from, len, sum),
                _ => add_each(segments, from, dst),
            }
            done += len;
        }
    }
}

/// Tells each segment the sum of its share of `bytes`, which lie at `at` in the message.
fn add_each(segments: &mut dyn Segments, at: usize, mut bytes: &[u8]) {
    let mut from = at;
    while !bytes.is_empty() {
        let share = bytes.len().min(segments.end(from) - from);
        let (here, rest) = bytes.split_at(share);
        segments.add(from, share, Sum::of_few(here));
        (from, bytes) = (from + share, rest);
    }
}

/// Elements are as wide as numbers are.
#[inline(always)]
fn check_width(width: usize) {
    assert!(matches!(width, 1 | 2 | 4 | 8), "elements of 1, 2, 4 or 8 bytes");
}

/// The swap that makes of words of `own`, which the pipeline swaps anyway, and of elements of `width` bytes in the
/// machine's order what is wanted: elements in network order, all of it swapped by `own`. `None`: no one swap does.
fn joined(own: Swap, width: usize) -> Option<Swap> {
    let elements = Swap::of(width);
    match (own, elements) {
        (own, Swap::None) => Some(own),
        (Swap::None, elements) => Some(elements),
        (own, elements) => (own == elements).then_some(Swap::None),
    }
}

impl Transform {
    /// What [`Transform::send`] makes of the message's bytes, which pass as they are marshalled, filled up with zeros
    /// to the length of `dst`: the message's at least, and whole blocks of [`Transform::block_len`].
    ///
    /// `None`: the message gave more or fewer bytes than it had said; `dst` has been wiped.
    ///
    /// # Panics
    /// When `dst` has another length.
    pub fn send_message<M: Marshal + ?Sized>(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        message: &M,
        dst: &mut [u8],
        tag: &mut [u8],
    ) -> Option<Found> {
        self.send_in(nonce, aad, message, dst, tag, None)
    }

    /// As [`Transform::send_message`] without a cipher, for a message that will be cut: each segment hears of its sum.
    /// False: the message gave more or fewer bytes than it had said; `dst` has been wiped, and what the segments heard means
    /// nothing.
    ///
    /// # Panics
    /// As [`Transform::send_message`]; with a cipher that has a nonce, or a tag.
    pub fn send_segments<M: Marshal + ?Sized>(
        &mut self,
        message: &M,
        dst: &mut [u8],
        segments: &mut dyn Segments,
    ) -> bool {
        self.send_in(&[], &[], message, dst, &mut [], Some(segments)).is_some()
    }

    fn send_in<M: Marshal + ?Sized>(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        message: &M,
        dst: &mut [u8],
        tag: &mut [u8],
        segments: Option<&mut dyn Segments>,
    ) -> Option<Found> {
        let len = message.marshalled_len();
        assert!(self.has_room(dst.len(), len), "room for the message");
        let Some(pieces) = self.pipeline.pieces() else {
            let sum = self.send_gathered(nonce, aad, message, dst, tag)?;
            if let Some(segments) = segments {
                add_each(segments, 0, dst);
            }
            return Some(sum);
        };
        let public = Public { nonce, aad, check: self.check };
        let piece = Piece { direction: Direction::Seal, public, len: dst.len() };
        let (pass, gather) = (Pass { pieces, piece }, self.gather.room(GATHER));
        let mut sealing = Sealing::new(Some(pass), self.swap, gather, dst, len);
        // For as long as the message passes.
        sealing.segments = match segments {
            Some(segments) => Some(segments),
            None => None,
        };
        message.marshal(&mut sealing);
        let sum = sealing.finish(tag);
        if sum.is_none() {
            dst.zeroize();
        }
        sum
    }

    #[inline(never)]
    fn send_gathered<M: Marshal + ?Sized>(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        message: &M,
        dst: &mut [u8],
        tag: &mut [u8],
    ) -> Option<Found> {
        let len = message.marshalled_len();
        let mut gather = core::mem::take(&mut self.gather);
        let whole = gather.room(dst.len());
        whole[len..].fill(0);
        let mut sealing = Sealing::new(None, Swap::None, &mut whole[..len], &mut [], len);
        message.marshal(&mut sealing);
        let sum = sealing.is_whole().then(|| self.send(nonce, aad, whole, dst, tag));
        self.gather = gather;
        if sum.is_none() {
            dst.zeroize();
        }
        sum
    }

    fn has_room(&self, filled: usize, len: usize) -> bool {
        filled >= len && filled.is_multiple_of(self.block_len())
    }

    /// What [`Transform::receive`] does with a message that `into` unmarshals as it passes, `len` bytes of it;
    /// what is left of `src` is padding. If it is not authentic `into` has been wiped.
    ///
    /// The sum may still have to be judged by the caller, and nothing of `into` be shown before.
    ///
    /// # Panics
    /// When `src` is not as long as the message at least, and whole blocks of [`Transform::block_len`].
    #[inline]
    pub fn receive_message<U: Unmarshal + ?Sized>(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        (src, len): (&[u8], usize),
        tag: &[u8],
        into: &mut U,
    ) -> Opened {
        assert!(self.has_room(src.len(), len), "a whole message");
        if self.lends && self.check != Check::Cxor {
            let sums = self.check == Check::Internet;
            let sum = into.unmarshal_lent(Lent::new(self.level, (src, len), sums));
            return Opened { sum: Found::Sum(sum).if_asked(self.check), authentic: true };
        }
        self.receive_through(nonce, aad, (src, len), tag, into)
    }

    #[inline(never)]
    fn receive_through<U: Unmarshal + ?Sized>(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        (src, len): (&[u8], usize),
        tag: &[u8],
        into: &mut U,
    ) -> Opened {
        let Some(pieces) = self.pipeline.pieces() else {
            return self.receive_gathered(nonce, aad, (src, len), tag, into);
        };
        let public = Public { nonce, aad, check: self.check };
        let piece = Piece { direction: Direction::Open, public, len: src.len() };
        let (pass, gather) = (Pass { pieces, piece }, self.gather.room(GATHER));
        let mut opening = Opening::new(pass, self.swap, src, gather, len);
        into.unmarshal(&mut opening);
        let mut found = [0; TAG_LEN_MAX];
        let found = &mut found[..self.cipher.tag_len];
        let sum = opening.finish(found);
        let authentic = found.is_empty() || verify_slices_are_equal(found, tag).is_ok();
        if !authentic {
            self.gather.room(GATHER).zeroize();
            into.wipe();
        }
        Opened { sum, authentic }
    }

    #[inline(never)]
    fn receive_gathered<U: Unmarshal + ?Sized>(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        (src, len): (&[u8], usize),
        tag: &[u8],
        into: &mut U,
    ) -> Opened {
        let mut gather = core::mem::take(&mut self.gather);
        let whole = gather.room(src.len());
        let opened = self.receive(nonce, aad, src, tag, whole);
        if opened.authentic {
            unmarshal_at(Level::PORTABLE, &whole[..len], false, into);
        } else {
            into.wipe();
        }
        self.gather = gather;
        opened
    }
}
