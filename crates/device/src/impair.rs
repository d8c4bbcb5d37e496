//! A bad link around any device: loss, duplicates, corruption, reordering, delay and a rate limit,
//! in either direction, from a seed.
//!
//! Time comes from the caller's clock, so that a test can run on a virtual one: the same seed, clock
//! and frames give the same fate to every frame.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fusewire_base::Instant;

use crate::{Device, Ecn, RxBatch, TxFrame};

/// What a link does to frames. Probabilities lie in `0.0..=1.0` and are drawn frame by frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that one bit of a frame is flipped.
    pub corrupt: f64,
    /// Probability that a frame is held back for `reorder_delay`, so that later ones pass it.
    pub reorder: f64,
    /// How long a frame that is to be passed is held back.
    pub reorder_delay: Duration,
    /// Time on the way, for every frame.
    pub delay: Duration,
    /// Up to so much more, evenly spread; frames may pass each other.
    pub jitter: Duration,
    /// Bytes a second that pass; `None` for no limit.
    pub rate: Option<u64>,
    /// Bytes that may wait for the rate limit before frames are dropped at the tail.
    pub queue_bytes: usize,
    /// Probability that a frame that understands congestion marks is marked, in place of a loss.
    pub mark: f64,
}

impl Rules {
    /// A good link.
    pub const NONE: Rules = Rules {
        loss: 0.0,
        duplicate: 0.0,
        corrupt: 0.0,
        reorder: 0.0,
        reorder_delay: Duration::from_millis(1),
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        rate: None,
        queue_bytes: 1 << 20,
        mark: 0.0,
    };
}

impl Default for Rules {
    fn default() -> Self {
        Rules::NONE
    }
}

/// What a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in.
    pub offered: u64,
    /// Frames that came out, duplicates included.
    pub released: u64,
    /// Frames that were lost by chance.
    pub lost: u64,
    /// Frames that were dropped because the queue was full.
    pub overflowed: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames that were held back.
    pub reordered: u64,
    /// Frames that were marked.
    pub marked: u64,
}

/// splitmix64: small, fast, good enough for a bad link, and the same everywhere.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn chance(&mut self, probability: f64) -> bool {
        // Drawn also when the answer is known, so that changing one rule leaves the others' draws alone.
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    /// First field: frames leave in order of this.
    release: Instant,
    serial: u64,
    slot: usize,
}

#[derive(Debug)]
struct Frame {
    peer: SocketAddr,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// One direction.
#[derive(Debug)]
struct Link {
    rules: Rules,
    dice: Dice,
    held: BinaryHeap<Reverse<Held>>,
    frames: Vec<Frame>,
    spare: Vec<usize>,
    held_bytes: usize,
    /// When the last byte that was let through will have passed the rate limit.
    busy_until: Instant,
    serial: u64,
    counters: Counters,
}

impl Link {
    /// Bytes held at most, whatever the rules: a longer queue is a mistake of the test.
    const MAX_HELD_BYTES: usize = 64 << 20;

    fn new(rules: Rules, seed: u64) -> Self {
        Link {
            rules,
            dice: Dice(seed),
            held: BinaryHeap::new(),
            frames: Vec::new(),
            spare: Vec::new(),
            held_bytes: 0,
            busy_until: Instant::ZERO,
            serial: 0,
            counters: Counters::default(),
        }
    }

    fn is_transparent(&self) -> bool {
        self.rules == Rules::NONE && self.held.is_empty()
    }

    fn offer(&mut self, now: Instant, peer: SocketAddr, ecn: Ecn, parts: [&[u8]; 2]) {
        let rules = self.rules;
        self.counters.offered += 1;
        let lost = self.dice.chance(rules.loss);
        let duplicated = self.dice.chance(rules.duplicate);
        let marked = self.dice.chance(rules.mark) && ecn != Ecn::NotEct;
        if lost {
            self.counters.lost += 1;
            return;
        }
        let ecn = if marked { Ecn::Ce } else { ecn };
        self.counters.marked += u64::from(marked);
        self.counters.duplicated += u64::from(duplicated);
        for _ in 0..1 + u8::from(duplicated) {
            self.enqueue(now, peer, ecn, parts);
        }
    }

    fn enqueue(&mut self, now: Instant, peer: SocketAddr, ecn: Ecn, parts: [&[u8]; 2]) {
        let rules = self.rules;
        let len = parts[0].len() + parts[1].len();
        let corrupted = self.dice.chance(rules.corrupt);
        let reordered = self.dice.chance(rules.reorder);
        let (bit, spread) = (self.dice.next(), self.dice.next());
        let Some(passed) = self.pass_rate(now, len) else {
            self.counters.overflowed += 1;
            return;
        };
        if self.held_bytes + len > Self::MAX_HELD_BYTES {
            self.counters.overflowed += 1;
            return;
        }
        let mut release = passed + rules.delay;
        if let jitter @ 1.. = u64::try_from(rules.jitter.as_nanos()).unwrap_or(u64::MAX) {
            release += Duration::from_nanos(spread % jitter);
        }
        if reordered {
            self.counters.reordered += 1;
            release += rules.reorder_delay;
        }
        let slot = self.store(peer, ecn, parts);
        if corrupted && len > 0 {
            self.counters.corrupted += 1;
            let bit = bit % (len as u64 * 8);
            self.frames[slot].bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        self.held_bytes += len;
        self.serial += 1;
        self.held.push(Reverse(Held { release, serial: self.serial, slot }));
    }

    /// When a frame that comes now has passed the rate limit; `None` when the queue before it is full.
    fn pass_rate(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate @ 1..) = self.rules.rate else { return Some(now) };
        let time = |bytes: u64| {
            let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        if self.busy_until.saturating_since(now) > time(self.rules.queue_bytes as u64) {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + time(len as u64);
        Some(self.busy_until)
    }

    fn store(&mut self, peer: SocketAddr, ecn: Ecn, parts: [&[u8]; 2]) -> usize {
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.frames.push(Frame { peer, ecn, bytes: Vec::new() });
            self.frames.len() - 1
        });
        let frame = &mut self.frames[slot];
        (frame.peer, frame.ecn) = (peer, ecn);
        frame.bytes.clear();
        parts.iter().for_each(|part| frame.bytes.extend_from_slice(part));
        slot
    }

    fn next_release(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.release)
    }

    /// The frame that is due, if any; it stays until `release`.
    fn due(&self, now: Instant) -> Option<&Frame> {
        let Reverse(held) = self.held.peek()?;
        (held.release <= now).then(|| &self.frames[held.slot])
    }

    /// Forgets the frame that `due` gave.
    fn release(&mut self) {
        if let Some(Reverse(held)) = self.held.pop() {
            self.held_bytes -= self.frames[held.slot].bytes.len();
            self.spare.push(held.slot);
            self.counters.released += 1;
        }
    }
}

/// A device behind a bad link.
pub struct Impair<D: Device> {
    inner: D,
    clock: Box<dyn Fn() -> Instant + Send>,
    outgoing: Link,
    incoming: Link,
    batch: RxBatch,
    /// What goes out is treated by these, if there are any.
    follows: Option<Arc<Mutex<Rules>>>,
    /// Dropped, it waits until all has left.
    delivers: bool,
}

impl<D: Device> Impair<D> {
    /// Puts a link with rules for each direction before `inner`.
    pub fn new(
        inner: D,
        outgoing: Rules,
        incoming: Rules,
        seed: u64,
        clock: impl Fn() -> Instant + Send + 'static,
    ) -> Self {
        let mut dice = Dice(seed);
        Impair {
            inner,
            clock: Box::new(clock),
            outgoing: Link::new(outgoing, dice.next()),
            incoming: Link::new(incoming, dice.next()),
            batch: RxBatch::new(4),
            follows: None,
            delivers: false,
        }
    }

    /// What goes out from now on is treated by what these rules say then: a link that changes.
    #[must_use]
    pub fn following(mut self, outgoing: Arc<Mutex<Rules>>) -> Self {
        self.follows = Some(outgoing);
        self
    }

    /// What is on its way out arrives although the device is dropped, as on a wire: dropping it sleeps so long. For clocks
    /// that go by themselves.
    #[must_use]
    pub fn delivering(mut self) -> Self {
        self.delivers = true;
        self
    }

    /// What happened to outgoing and to incoming frames.
    pub fn counters(&self) -> (Counters, Counters) {
        (self.outgoing.counters, self.incoming.counters)
    }

    /// When the next held frame is due: a virtual clock may jump there.
    pub fn next_release(&self) -> Option<Instant> {
        let (a, b) = (self.outgoing.next_release(), self.incoming.next_release());
        a.into_iter().chain(b).min()
    }

    /// The device behind the link.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Sends what is due; false when the inner device is full.
    fn pump_out(&mut self, now: Instant) -> io::Result<bool> {
        while let Some(frame) = self.outgoing.due(now) {
            let tx =
                TxFrame { peer: frame.peer, header: &frame.bytes, payload: &[], ecn: frame.ecn };
            if self.inner.transmit(&[tx])? == 0 {
                return Ok(false);
            }
            self.outgoing.release();
        }
        Ok(true)
    }

    /// Takes what waits in the inner device.
    fn pump_in(&mut self, now: Instant) -> io::Result<()> {
        while self.inner.receive(&mut self.batch)? > 0 {
            for packet in self.batch.iter() {
                for frame in packet.frames() {
                    self.incoming.offer(now, packet.peer, packet.ecn, [frame, &[]]);
                }
            }
            // A bounded amount at a time: what the link cannot hold would only be dropped.
            if self.incoming.held_bytes > Link::MAX_HELD_BYTES / 2 {
                break;
            }
        }
        Ok(())
    }
}

impl<D: Device> Drop for Impair<D> {
    fn drop(&mut self) {
        while self.delivers
            && let Some(at) = self.outgoing.next_release()
        {
            std::thread::sleep(at.saturating_since((self.clock)()));
            if !matches!(self.pump_out((self.clock)()), Ok(true)) {
                break;
            }
        }
    }
}

impl<D: Device> Device for Impair<D> {
    crate::forward!(self => self.inner; caps local_addr named waker as_fd drops poll_event);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        if let Some(rules) = &self.follows {
            self.outgoing.rules = *rules.lock().unwrap_or_else(PoisonError::into_inner);
        }
        if self.outgoing.is_transparent() {
            return self.inner.transmit(frames);
        }
        let now = (self.clock)();
        for frame in frames {
            self.outgoing.offer(now, frame.peer, frame.ecn, [frame.header, frame.payload]);
        }
        self.pump_out(now)?;
        Ok(frames.len())
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let now = (self.clock)();
        self.pump_out(now)?;
        if self.incoming.is_transparent() {
            return self.inner.receive(batch);
        }
        self.pump_in(now)?;
        batch.clear();
        while let Some(frame) = self.incoming.due(now) {
            if frame.bytes.len() <= batch.slot_bytes()
                && !batch.push_frame(frame.peer, frame.ecn, &frame.bytes, true)
            {
                break;
            }
            self.incoming.release();
        }
        Ok(batch.len())
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let now = (self.clock)();
        let writable = self.pump_out(now)?;
        if self.incoming.due(now).is_some() {
            return Ok(true);
        }
        let due = self.next_release().map(|t| t.saturating_since(now));
        let sooner = due.filter(|due| timeout.is_none_or(|timeout| *due < timeout));
        let ready = self.inner.wait(sooner.or(timeout), want_write || !writable)?;
        let now = (self.clock)();
        self.pump_out(now)?;
        Ok(ready || sooner.is_some())
    }

    fn next_timeout(&self) -> Option<Duration> {
        let now = (self.clock)();
        let held = self.next_release().map(|at| at.saturating_since(now));
        held.into_iter().chain(self.inner.next_timeout()).min()
    }
}

#[cfg(test)]
#[path = "impair_tests.rs"]
mod tests;
