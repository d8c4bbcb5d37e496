//! The pipeline swaps whole ADUs ([`Element`]). So what lies before contents, and messages without contents, are swapped
//! once more: here, as they are encoded and decoded.

use super::HEAD_LEN;
use crate::Element;
use fusewire_codec::pipeline::Opening;
use fusewire_codec::{Error, Problem, Sink, Source};

/// Bytes of the widest element.
const UNIT_MAX: usize = 8;

/// How many bytes at the front of a message are swapped: a whole number of units, or all.
fn swapped_len(is_data: bool, element: Element) -> usize {
    match element {
        Element::Octets => 0,
        _ if is_data => HEAD_LEN,
        _ => usize::MAX,
    }
}

/// Swaps what passes to `to`, a unit at a time.
pub(super) struct Swapping<S> {
    to: S,
    element: Element,
    /// Bytes that are still to be swapped.
    left: usize,
    /// The first bytes of a unit.
    unit: [u8; UNIT_MAX],
    held: usize,
}

impl<S: Sink> Swapping<S> {
    pub(super) fn new(to: S, is_data: bool, element: Element) -> Swapping<S> {
        let left = swapped_len(is_data, element);
        Swapping { to, element, left, unit: [0; UNIT_MAX], held: 0 }
    }
}

impl<S: Sink> Sink for Swapping<S> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.left == 0 { self.to.put(bytes) } else { self.put_swapped(bytes) }
    }

    fn position(&self) -> usize {
        self.to.position() + self.held
    }
}

impl<S: Sink> Swapping<S> {
    #[inline(never)]
    fn put_swapped(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (mut swapped, rest) = bytes.split_at(bytes.len().min(self.left));
        while !swapped.is_empty() {
            let unit = &mut self.unit[..self.element.unit()];
            let (these, after) = swapped.split_at(swapped.len().min(unit.len() - self.held));
            unit[self.held..self.held + these.len()].copy_from_slice(these);
            (self.held, self.left) = (self.held + these.len(), self.left - these.len());
            if self.held == unit.len() {
                self.element.swap(unit);
                self.to.put(unit)?;
                self.held = 0;
            }
            swapped = after;
        }
        if rest.is_empty() { Ok(()) } else { self.to.put(rest) }
    }
}

/// Swaps what comes out of the loop, a unit at a time, and lends what has no fixed length from `room`, which it is
/// unmarshalled to. Of a message that is a whole number of units.
pub(super) struct Unswapping<'r, 'f, 'o> {
    from: &'f mut Opening<'o>,
    element: Element,
    /// Bytes that are still to be swapped.
    left: usize,
    /// A unit, of which the last `ready` bytes are not taken.
    unit: [u8; UNIT_MAX],
    ready: usize,
    room: Option<&'r mut [u8]>,
}

impl<'r, 'f, 'o> Unswapping<'r, 'f, 'o> {
    /// All of a data message, or of another.
    pub(super) fn new(
        from: &'f mut Opening<'o>,
        room: Option<&'r mut [u8]>,
        element: Element,
    ) -> Self {
        let left = swapped_len(room.is_some(), element);
        Unswapping { from, element, left, unit: [0; UNIT_MAX], ready: 0, room }
    }

    #[inline(never)]
    fn take_swapped(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let (needed, left) = (into.len(), self.remaining());
        if needed > left {
            return Err(Problem::Truncated { needed, left }.at(self.position()));
        }
        let mut into = into;
        while !into.is_empty() {
            let unit = &mut self.unit[..self.element.unit()];
            if self.ready == 0 {
                if self.left == 0 {
                    return Source::take(self.from, into);
                }
                Source::take(self.from, unit)?;
                self.element.swap(unit);
                (self.ready, self.left) = (unit.len(), self.left - unit.len());
            }
            let (these, after) = into.split_at_mut(into.len().min(self.ready));
            these.copy_from_slice(&unit[unit.len() - self.ready..][..these.len()]);
            self.ready -= these.len();
            into = after;
        }
        Ok(())
    }
}

impl<'r> Source<'r> for Unswapping<'r, '_, '_> {
    #[inline(always)]
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        if self.left | self.ready == 0 {
            return Source::take(self.from, into);
        }
        self.take_swapped(into)
    }

    #[inline]
    fn position(&self) -> usize {
        self.from.given() - self.ready
    }

    #[inline]
    fn remaining(&self) -> usize {
        self.from.left() + self.ready
    }

    #[inline]
    fn lend(&mut self, len: usize) -> Option<&'r [u8]> {
        // What is too long for the message is found out by who asks.
        if self.left > 0 || self.ready > 0 || len > self.from.left() {
            return None;
        }
        let (lent, rest) = self.room.take()?.split_at_mut_checked(len)?;
        self.room = Some(rest);
        self.from.take(lent).then_some(lent)
    }
}
