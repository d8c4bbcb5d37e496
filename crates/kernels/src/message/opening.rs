//! The way of a message's pieces through the pipeline to where they are unmarshalled.
#![forbid(unsafe_code)]

use super::lent::Lent;
use super::sealing::copy_swapped;
use super::{BLOCK, DIRECT, Pass, joined};
use crate::check::Found;
use crate::Swap;

/// Bytes of a long message that pass ahead of those that are asked for: a unit of the widest level. A short one, for
/// which the gather has room, passes at once: to pass again costs more than to copy what is in the cache.
const AHEAD: usize = 512;

/// Gives the pieces of one message, in order, as they come out of load ▸ sum ▸ decipher ▸ swap. Not yet known to be
/// genuine: see [`Unmarshal`](super::Unmarshal).
pub struct Opening<'t>(Way<'t>);

/// Where the pieces come from.
enum Way<'t> {
    /// Nothing is to be done to them.
    Lent(Lent<'t>),
    Through(Through<'t>),
}

/// A message that passes the pipeline.
///
/// Invariant: `passed` bytes of `src` have passed, a multiple of [`BLOCK`] or all; the last of them, `from..to` of
/// the gather, were not taken yet.
struct Through<'t> {
    pass: Pass<'t>,
    swap: Swap,
    src: &'t [u8],
    passed: usize,
    gather: &'t mut [u8],
    from: usize,
    to: usize,
    len: usize,
    found: Found,
}

impl<'t> Opening<'t> {
    /// Of the first `len` bytes of `src`.
    #[inline]
    pub(super) fn new(
        pass: Pass<'t>,
        swap: Swap,
        src: &'t [u8],
        gather: &'t mut [u8],
        len: usize,
    ) -> Opening<'t> {
        let (passed, from, to, found) = (0, 0, 0, pass.begin());
        Opening(Way::Through(Through { pass, swap, src, passed, gather, from, to, len, found }))
    }

    /// Bytes given so far.
    #[inline]
    pub fn given(&self) -> usize {
        match &self.0 {
            Way::Lent(lent) => lent.given(),
            Way::Through(through) => through.given(),
        }
    }

    /// Bytes left.
    #[inline]
    pub fn left(&self) -> usize {
        match &self.0 {
            Way::Lent(lent) => lent.left(),
            Way::Through(through) => through.left(),
        }
    }

    /// The first `N` bytes of the message, before any is given: what says which shape the rest has. `None`: it has
    /// fewer.
    pub fn peek<const N: usize>(&mut self) -> Option<[u8; N]> {
        const { assert!(N <= BLOCK, "some words") };
        debug_assert_eq!(self.given(), 0, "the first bytes");
        let bytes = match &mut self.0 {
            Way::Lent(lent) => lent.rest(),
            Way::Through(through) => through.ahead(),
        };
        bytes.first_chunk().copied()
    }

    /// Fills `into`. False: fewer bytes are left, and none were given.
    #[inline(always)]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        match &mut self.0 {
            Way::Lent(lent) => lent.take(into),
            Way::Through(through) => through.take(into),
        }
    }

    /// Fills `into` with elements of `width` bytes (1, 2, 4 or 8), in the machine's byte order.
    ///
    /// # Panics
    /// With another width.
    #[inline(never)]
    pub fn take_elements(&mut self, into: &mut [u8], width: usize) -> bool {
        match &mut self.0 {
            Way::Lent(lent) => lent.take_elements(into, width),
            Way::Through(through) => through.take_elements(into, width),
        }
    }

    /// What nobody took passes, too. What was found of the ciphertext; the tag that it should have goes to `tag`.
    #[inline]
    pub(super) fn finish(self, tag: &mut [u8]) -> Found {
        match self.0 {
            Way::Lent(lent) => lent.finish().into(),
            Way::Through(through) => through.finish(tag),
        }
    }
}

impl<'t> From<Lent<'t>> for Opening<'t> {
    #[inline]
    fn from(lent: Lent<'t>) -> Opening<'t> {
        Opening(Way::Lent(lent))
    }
}

impl Through<'_> {
    #[inline]
    fn given(&self) -> usize {
        self.passed.min(self.len) - (self.to - self.from)
    }

    #[inline]
    fn left(&self) -> usize {
        self.len - self.given()
    }

    /// The next bytes, if there are any.
    fn ahead(&mut self) -> &[u8] {
        if self.from == self.to {
            self.pass_ahead();
        }
        &self.gather[self.from..self.to]
    }

    #[inline(always)]
    fn take(&mut self, into: &mut [u8]) -> bool {
        match self.gather[self.from..self.to].get(..into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                self.from += into.len();
                true
            }
            None => self.take_elements(into, 1),
        }
    }

    fn take_elements(&mut self, into: &mut [u8], width: usize) -> bool {
        if into.len() > self.left() {
            return false;
        }
        let ready = (self.to - self.from).min(into.len());
        if !ready.is_multiple_of(width) {
            return self.take_across(into, width);
        }
        let (first, mut rest) = into.split_at_mut(ready);
        copy_swapped(first, &self.gather[self.from..self.from + ready], width);
        self.from += ready;
        if rest.len() >= DIRECT
            && let Some(swap) = joined(self.swap, width)
        {
            let ends = self.passed + rest.len() == self.src.len();
            let whole = if ends { rest.len() } else { rest.len() / BLOCK * BLOCK };
            let (blocks, after) = rest.split_at_mut(whole);
            let src = &self.src[self.passed..self.passed + whole];
            let found = self.pass.run(swap, src, blocks);
            self.found = self.found.then(self.passed, found);
            self.passed += whole;
            rest = after;
        }
        while !rest.is_empty() {
            self.pass_ahead();
            let now = (self.to - self.from).min(rest.len()) / width * width;
            if now == 0 {
                return self.take_across(rest, width);
            }
            let (first, after) = rest.split_at_mut(now);
            copy_swapped(first, &self.gather[self.from..self.from + now], width);
            self.from += now;
            rest = after;
        }
        true
    }

    /// Elements that lie across the ends of what passes at a time.
    fn take_across(&mut self, into: &mut [u8], width: usize) -> bool {
        let mut rest = &mut *into;
        while !rest.is_empty() {
            if self.from == self.to {
                self.pass_ahead();
            }
            let now = (self.to - self.from).min(rest.len());
            let (first, after) = rest.split_at_mut(now);
            first.copy_from_slice(&self.gather[self.from..self.from + now]);
            self.from += now;
            rest = after;
        }
        if width > 1 {
            into.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        true
    }

    /// The next bytes into the gather, of which all was taken.
    fn pass_ahead(&mut self) {
        let src = &self.src[self.passed..];
        let is_short = self.src.len() <= self.gather.len();
        let src = &src[..if is_short { src.len() } else { src.len().min(AHEAD) }];
        if src.is_empty() {
            return;
        }
        let found = self.pass.run(self.swap, src, &mut self.gather[..src.len()]);
        self.found = self.found.then(self.passed, found);
        (self.from, self.to) = (0, src.len().min(self.len.saturating_sub(self.passed)));
        self.passed += src.len();
    }

    #[inline]
    fn finish(mut self, tag: &mut [u8]) -> Found {
        while self.passed < self.src.len() {
            self.pass_ahead();
        }
        self.pass.pieces.finish(&self.pass.piece, tag);
        self.found
    }
}
