//! XDR inside the receive loop (the INCA paper, sections 2 and 3.3.2; RFC 4506): arrays of numbers leave network
//! order in the very loop that sums them and stores them in the application's memory.
//!
//! ```text
//!  frame ──load ▸ sum ▸ swap ▸ store──▶ the application's array ──checksum right?──▶ told
//!                                                               └─wrong──▶ wiped, counted, not told
//! ```
//! Until the call returns the application cannot reach its array, and then hears of what was verified alone.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use fusewire_base::{Instant, Sum};
use fusewire_kernels::Level;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stage::then;
use fusewire_kernels::stages::{InternetSum, Swap};

use super::config::{Error, Result, SocketId};
use super::stack::Stack;
use super::udp::{Incoming, Messages, Taken, Taker};

mod sealed {
    pub trait Sealed: bytemuck::Pod {}
}

/// A number that XDR has: integers of sections 4.1, 4.2 and 4.5, floating point of 4.6 and 4.7.
pub trait Number: sealed::Sealed {}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl sealed::Sealed for $type {}
        impl Number for $type {}
    )*};
}

numbers! { i32 u32 f32 i64 u64 f64 }

/// How the array lies in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// `numbers[n]` (section 4.12): the elements, and nothing else.
    Fixed,
    /// `numbers<max>` (section 4.13): their count, and they.
    Variable {
        /// The most that there may be.
        max: u32,
    },
}

impl Array {
    /// Bytes before the elements, and how many elements there are; `None` when `message` is no such array of
    /// elements of `width` bytes, or has more than `most`.
    fn layout(self, message: &[u8], width: usize, most: usize) -> Option<(usize, usize)> {
        let (head, told) = match self {
            Array::Fixed => (0, None),
            Array::Variable { max } => {
                let count = u32::from_be_bytes(*message.first_chunk()?);
                (4, Some(count).filter(|count| *count <= max).map(Some)?)
            }
        };
        let body = message.len() - head;
        let count = body / width;
        let fits = body.is_multiple_of(width) && count <= most;
        (fits && told.is_none_or(|told| told as usize == count)).then_some((head, count))
    }
}

/// From network order to the machine's; the sum of `src` in the same loop, where it is asked for.
fn unmarshal(level: Level, width: usize, src: &[u8], dst: &mut [u8], sums: bool) -> Sum {
    // Network order is the other one wherever the loops run.
    const { assert!(cfg!(target_endian = "little")) };
    match (width, sums) {
        (4, true) => level.run(Integrated { stage: &then(InternetSum, Swap::<4>), src, dst }).0,
        (_, true) => level.run(Integrated { stage: &then(InternetSum, Swap::<8>), src, dst }).0,
        (4, false) => {
            level.run(Integrated { stage: &Swap::<4>, src, dst });
            Sum::ZERO
        }
        (_, false) => {
            level.run(Integrated { stage: &Swap::<8>, src, dst });
            Sum::ZERO
        }
    }
}

/// A [`Taker`] of messages that are arrays of numbers.
struct Numbers<'a, T, F> {
    array: Array,
    memory: &'a mut [T],
    /// Elements that are in use.
    filled: usize,
    told: F,
}

impl<T: Number, F: FnMut(SocketAddr, Option<Range<usize>>)> Numbers<'_, T, F> {
    fn layout(&self, message: &[u8]) -> Option<(usize, usize)> {
        self.array.layout(message, size_of::<T>(), self.memory.len())
    }

    /// Takes verified messages as far as there is room; returns their bytes.
    fn take_verified(&mut self, level: Level, messages: &Messages<'_>) -> usize {
        let mut taken = 0;
        for message in messages.iter() {
            let range = match self.layout(message) {
                Some((head, count)) => {
                    let range = self.filled..self.filled + count;
                    let Some(memory) = self.memory.get_mut(range.clone()) else { return taken };
                    let dst = bytemuck::cast_slice_mut(memory);
                    unmarshal(level, size_of::<T>(), &message[head..], dst, false);
                    self.filled = range.end;
                    Some(range)
                }
                None => None,
            };
            taken += message.len();
            (self.told)(messages.from, range);
        }
        taken
    }
}

impl<T: Number, F: FnMut(SocketAddr, Option<Range<usize>>)> Taker for Numbers<'_, T, F> {
    fn take(&mut self, level: Level, incoming: &Incoming<'_>) -> Taken {
        let messages = &incoming.messages;
        let counts = messages.iter().filter_map(|message| self.layout(message));
        let needed = counts.map(|(_, count)| count).sum::<usize>();
        let start = self.filled;
        if needed > self.memory.len() - start {
            return Taken::NoRoom;
        }
        let Some(head) = incoming.head else {
            self.take_verified(level, messages);
            return Taken::Verified;
        };
        let (mut sum, mut summed, mut at) = (head, 0, start);
        for message in messages.iter() {
            let (front, count) = self.layout(message).unwrap_or((message.len(), 0));
            let (front, elements) = message.split_at(front);
            sum = sum.then(summed, fusewire_kernels::sum(level, front));
            summed += front.len();
            let dst = bytemuck::cast_slice_mut(&mut self.memory[at..at + count]);
            let elements_sum = unmarshal(level, size_of::<T>(), elements, dst, true);
            sum = sum.then(summed, elements_sum);
            (summed, at) = (summed + elements.len(), at + count);
        }
        if !sum.verifies() {
            bytemuck::cast_slice_mut::<T, u8>(&mut self.memory[start..at]).fill(0);
            return Taken::Wrong;
        }
        for message in messages.iter() {
            let range = self.layout(message).map(|(_, count)| self.filled..self.filled + count);
            self.filled = range.as_ref().map_or(self.filled, |range| range.end);
            (self.told)(messages.from, range);
        }
        Taken::Verified
    }
}

impl Stack {
    /// As [`Stack::udp_recv_batch`] of messages that are XDR arrays: their numbers come to lie in `memory`, array
    /// after array, in the loop that verifies them. `told` is told of each message who sent it and where its
    /// elements are; `None` when it is no such array, or has more elements than all of `memory`. What `memory`
    /// has no room for waits in the queue. Returns how many elements there are.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_batch`].
    pub fn udp_recv_numbers<T: Number>(
        &mut self,
        now: Instant,
        id: SocketId,
        array: Array,
        memory: &mut [T],
        told: impl FnMut(SocketAddr, Option<Range<usize>>),
    ) -> io::Result<Result<usize, Error>> {
        let level = self.core.config.level;
        let mut numbers = Numbers { array, memory, filled: 0, told };
        let udp = match self.core.table.udp(id) {
            Ok(udp) => udp,
            Err(error) => return Ok(Err(error)),
        };
        let mut any = false;
        while let Some(messages) = udp.queue.front() {
            let (all, taken) = (messages.bytes.len(), numbers.take_verified(level, &messages));
            any = true;
            udp.queue.skip(taken);
            if taken < all {
                return Ok(Ok(numbers.filled));
            }
        }
        if !any && let Some(error) = udp.error.take() {
            return Ok(Err(error));
        }
        self.udp_recv_direct(now, id, &mut numbers)?;
        Ok(Ok(numbers.filled))
    }
}
