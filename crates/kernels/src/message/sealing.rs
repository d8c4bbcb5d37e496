//! The way of a message's pieces from the application through the pipeline.
#![forbid(unsafe_code)]

use super::{BLOCK, DIRECT, Pass, Segments, check_width, joined};
use crate::arrays::reverse_each;
use crate::check::Found;
use crate::Swap;

/// Takes the pieces of one message, in order, through swap ▸ cipher ▸ sum ▸ store.
///
/// Invariant: `passed` bytes lie in `dst` as they will be sent, a multiple of [`BLOCK`]; the `waiting` that came
/// after them lie in the gather, which has room for a multiple of [`BLOCK`].
pub struct Sealing<'t> {
    /// `None`: the gather has room for all of it, and it passes later.
    pass: Option<Pass<'t>>,
    swap: Swap,
    gather: &'t mut [u8],
    waiting: usize,
    dst: &'t mut [u8],
    passed: usize,
    len: usize,
    /// Of all, if nobody wants to know those of segments.
    found: Found,
    pub(super) segments: Option<&'t mut dyn Segments>,
    refused: bool,
}

impl<'t> Sealing<'t> {
    pub(super) fn new(
        pass: Option<Pass<'t>>,
        swap: Swap,
        gather: &'t mut [u8],
        dst: &'t mut [u8],
        len: usize,
    ) -> Sealing<'t> {
        let found = pass.as_ref().map_or(Found::Nothing, Pass::begin);
        let (waiting, passed, segments) = (0, 0, None);
        Sealing { pass, swap, gather, waiting, dst, passed, len, found, segments, refused: false }
    }

    /// Bytes taken so far.
    #[inline(always)]
    pub fn taken(&self) -> usize {
        self.passed + self.waiting
    }

    /// Bytes of the message that are still to come.
    #[inline]
    pub fn left(&self) -> usize {
        self.len.saturating_sub(self.taken())
    }

    /// Takes `bytes`. False: the message is longer than it had said, and nothing was taken.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        match self.gather[self.waiting..].get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.waiting += bytes.len();
                true
            }
            None => self.put_elements(bytes, 1),
        }
    }

    /// Takes elements of `width` bytes (1, 2, 4 or 8) as they lie in memory, in network byte order.
    ///
    /// # Panics
    /// With another width.
    #[inline(never)]
    pub fn put_elements(&mut self, elements: &[u8], width: usize) -> bool {
        if elements.len() > self.left() {
            self.refused = true;
            return false;
        }
        let Some(swap) = self.directly(elements.len(), width) else {
            self.collect(elements, width);
            return true;
        };
        // Up to the end of a block with what waits; whole blocks from where they are; the rest waits.
        let head = self.waiting.wrapping_neg() % BLOCK;
        let (head, rest) = elements.split_at(head);
        self.collect(head, width);
        self.pass_gathered();
        let ends = self.passed + rest.len() == self.dst.len();
        let whole = if ends { rest.len() } else { rest.len() / BLOCK * BLOCK };
        let (blocks, rest) = rest.split_at(whole);
        let dst = &mut self.dst[self.passed..self.passed + whole];
        if let Some(pass) = &mut self.pass {
            match &mut self.segments {
                None => {
                    self.found = self.found.then(self.passed, pass.run(swap, blocks, dst));
                }
                Some(segments) => pass.run_segments(*segments, self.passed, swap, blocks, dst),
            }
        }
        self.passed += whole;
        self.collect(rest, width);
        true
    }

    /// The swap with which so many bytes pass from where they are, if that is worth it, and the elements do not
    /// lie across the ends of blocks.
    fn directly(&self, len: usize, width: usize) -> Option<Swap> {
        let fits = self.pass.is_some() && self.taken().is_multiple_of(width);
        if len < DIRECT || !fits { None } else { joined(self.swap, width) }
    }

    /// Lends the next `len` bytes, if they are few; they count as taken.
    #[inline]
    pub fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        let room = self.gather.get_mut(self.waiting..)?.get_mut(..len)?;
        self.waiting += len;
        Some(room)
    }

    /// Takes back the last `len` bytes, which were lent just now.
    pub fn take_back(&mut self, len: usize) {
        self.waiting = self.waiting.saturating_sub(len);
    }

    /// By way of the gather.
    fn collect(&mut self, mut elements: &[u8], width: usize) {
        // An element that the gather's end would cut is put there byte by byte.
        while !elements.is_empty() {
            if self.waiting == self.gather.len() {
                self.pass_gathered();
            }
            let room = (self.gather.len() - self.waiting).min(elements.len());
            let whole = room / width * width;
            if whole == 0 {
                let (element, rest) = elements.split_at(width);
                for &byte in element.iter().rev() {
                    if self.waiting == self.gather.len() {
                        self.pass_gathered();
                    }
                    self.gather[self.waiting] = byte;
                    self.waiting += 1;
                }
                elements = rest;
                continue;
            }
            let (now, rest) = elements.split_at(whole);
            copy_swapped(&mut self.gather[self.waiting..self.waiting + whole], now, width);
            self.waiting += whole;
            elements = rest;
        }
    }

    /// Whole blocks of what waits pass.
    fn pass_gathered(&mut self) {
        let whole = self.waiting / BLOCK * BLOCK;
        if whole == 0 || self.pass.is_none() {
            return;
        }
        self.pass_waiting(whole);
        self.gather.copy_within(whole..self.waiting, 0);
        self.passed += whole;
        self.waiting -= whole;
    }

    /// The first `len` bytes of what waits pass.
    fn pass_waiting(&mut self, len: usize) {
        let Some(pass) = self.pass.as_mut().filter(|_| len > 0) else { return };
        let (src, dst) = (&self.gather[..len], &mut self.dst[self.passed..self.passed + len]);
        match &mut self.segments {
            None => self.found = self.found.then(self.passed, pass.run(self.swap, src, dst)),
            Some(segments) => pass.run_segments(*segments, self.passed, self.swap, src, dst),
        }
    }

    /// All of the message was given, and no more.
    pub(super) fn is_whole(&self) -> bool {
        !self.refused && self.taken() == self.len
    }

    /// The last pass, filled up with zeros to the end of `dst`. What was found of the ciphertext; the tag, if
    /// there is one, goes to `tag`.
    pub(super) fn finish(mut self, tag: &mut [u8]) -> Option<Found> {
        if !self.is_whole() {
            return None;
        }
        while self.taken() < self.dst.len() {
            if self.waiting == self.gather.len() {
                self.pass_gathered();
            }
            let room = (self.gather.len() - self.waiting).min(self.dst.len() - self.taken());
            self.gather[self.waiting..self.waiting + room].fill(0);
            self.waiting += room;
        }
        self.pass_waiting(self.waiting);
        let pass = self.pass.take()?;
        pass.pieces.finish(&pass.piece, tag);
        Some(self.found)
    }
}

/// From `from` to `to`, which is as long, each `width` bytes reversed.
pub(super) fn copy_swapped(to: &mut [u8], from: &[u8], width: usize) {
    check_width(width);
    reverse_each(from, to, width);
}
