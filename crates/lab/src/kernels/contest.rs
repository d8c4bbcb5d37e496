//! Methods that do the same to the same buffers, checked against each other and timed in turns.

use super::Effort;
use crate::stats::median;
use core::hint::black_box;
use fusewire_base::Sum;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

/// Memory that begins at a cache line, `colour` bytes into a page, so that no result hangs on where
/// the allocator puts it.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

const PAGE: usize = 4096;

impl Aligned {
    fn new(len: usize, colour: usize) -> Aligned {
        let bytes = vec![0; len + PAGE + colour];
        let start = (PAGE - bytes.as_ptr() as usize % PAGE) % PAGE + colour;
        Aligned { bytes, start, len }
    }
}

impl Deref for Aligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// What every method of a contest works on. `src`, `dst` and `work` have one length.
pub(super) struct Buffers {
    pub(super) src: Aligned,
    pub(super) dst: Aligned,
    pub(super) work: Aligned,
    /// The tag of `src`, where it is something sealed.
    pub(super) tag: [u8; 32],
}

/// What a method finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) sum: Sum,
    /// Zero without an AEAD.
    pub(super) tag: [u8; 32],
}

impl Buffers {
    pub(super) fn new(len: usize) -> Buffers {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let mut src = Aligned::new(len, 0);
        for byte in &mut src[..] {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            *byte = word as u8;
        }
        Buffers { src, dst: Aligned::new(len, 1472), work: Aligned::new(len, 2816), tag: [0; 32] }
    }
}

/// Source, destination and scratch memory of one message.
pub(super) struct Message<'a> {
    pub(super) src: &'a [u8],
    pub(super) dst: &'a mut [u8],
    pub(super) work: &'a mut [u8],
}

impl Buffers {
    /// Does it `turns` times, at least once, and gives what the last time found. The optimiser sees
    /// neither that the buffers are the same each time nor that nobody reads between: the allocator's
    /// memory is known elsewhere, and who takes what was found may look at it.
    #[inline(always)]
    pub(super) fn turns<T>(&mut self, turns: usize, mut once: impl FnMut(Message<'_>) -> T) -> T {
        let (src, dst, work) = (&*self.src, &mut *self.dst, &mut *self.work);
        for _ in 1..turns {
            black_box(once(Message { src, dst, work }));
        }
        once(Message { src, dst, work })
    }
}

/// One way to do it, so many times. What it gives is compared, as are the bytes in `dst`.
pub(super) type Method<'a, T = Found> = Box<dyn FnMut(&mut Buffers, usize) -> T + 'a>;

/// Bytes a second of each method, in the order given.
///
/// # Panics
/// When two methods differ in what they give or store.
pub(super) fn contest<T: PartialEq + core::fmt::Debug>(
    buffers: &mut Buffers,
    effort: Effort,
    methods: &mut [(Method<'_, T>, Check)],
) -> Vec<f64> {
    let len = buffers.src.len();
    let mut first: Option<(T, Vec<u8>)> = None;
    for (i, (method, check)) in methods.iter_mut().enumerate() {
        buffers.dst.fill(0);
        let found = method(buffers, 1);
        match &first {
            _ if *check == Check::Nothing => {}
            None => first = Some((found, buffers.dst.to_vec())),
            Some((want, stored)) => {
                assert_eq!(&found, want, "method {i} gives something else, {len} bytes");
                assert!(*buffers.dst == **stored, "method {i} stores other bytes, {len} bytes");
            }
        }
    }
    drop(first);
    alternate(len, effort, methods.len(), &mut |i, turns| {
        black_box(methods[i].0(buffers, turns));
    })
}

/// Bytes a second of `methods` methods in turns, on messages of `len` bytes: `go(i, n)` runs the method
/// `i` for `n` times. The median over rounds.
pub fn alternate(
    len: usize,
    effort: Effort,
    methods: usize,
    go: &mut dyn FnMut(usize, usize),
) -> Vec<f64> {
    let turns = (effort.bytes_a_turn / len.max(1)).max(1);
    let mut seconds = vec![Vec::with_capacity(effort.rounds); methods];
    let start = Instant::now();
    for round in 0..effort.rounds {
        for i in 0..methods {
            let i = if round % 2 == 0 { i } else { methods - 1 - i };
            // One time untimed brings code and buffers where they are when the method is alone.
            go(i, 1);
            let start = Instant::now();
            go(i, turns);
            seconds[i].push(start.elapsed().as_secs_f64());
        }
        // Messages that take long need fewer rounds.
        if round >= 6 && start.elapsed() > effort.enough {
            break;
        }
    }
    seconds.into_iter().map(|s| (len * turns) as f64 / median(s).unwrap_or(f64::NAN)).collect()
}

/// What a contest compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Result and bytes.
    All,
    /// Nothing: the method does only a part, for comparison.
    Nothing,
}
