//! One direction of a simulated link: a queue of limited length, a rate, a delay, and what goes wrong.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use fusewire_base::Instant;

use crate::Random;

/// What a link carries.
pub trait Packet: Clone {
    /// Length on the wire.
    fn len_bytes(&self) -> usize;
    /// Changes something, so that a checksum finds it.
    fn corrupt(&mut self, random: &mut Random);
    /// Sets the congestion mark; false when the sender is not ECN-capable, and the packet is dropped
    /// where it would have been marked.
    fn mark(&mut self) -> bool;
}

/// How a link behaves. Probabilities are of one packet each.
#[derive(Clone, Debug)]
pub struct Impairments {
    /// Bytes a second; `None`: at once.
    pub rate: Option<u64>,
    /// Propagation delay.
    pub delay: Duration,
    /// Up to so much more delay for each packet, without changing their order.
    pub jitter: Duration,
    /// Bytes that wait for the rate; what comes when it is full is dropped.
    pub queue_bytes: usize,
    /// Packets longer than this are dropped.
    pub mtu_bytes: usize,
    /// Lost.
    pub loss: f64,
    /// Losses come in bursts of this mean length; 1 for independent ones.
    pub loss_burst: f64,
    /// Delayed by up to `reorder_delay` more and overtaken.
    pub reorder: f64,
    /// See `reorder`.
    pub reorder_delay: Duration,
    /// Delivered twice, the copy up to `reorder_delay` later.
    pub duplicate: f64,
    /// Changed.
    pub corrupt: f64,
    /// Marked with congestion experienced.
    pub mark: f64,
    /// Marked when so many bytes wait.
    pub mark_queue_bytes: usize,
}

impl Default for Impairments {
    fn default() -> Self {
        Impairments {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue_bytes: usize::MAX,
            mtu_bytes: usize::MAX,
            loss: 0.0,
            loss_burst: 1.0,
            reorder: 0.0,
            reorder_delay: Duration::ZERO,
            duplicate: 0.0,
            corrupt: 0.0,
            mark: 0.0,
            mark_queue_bytes: usize::MAX,
        }
    }
}

/// What happened to the packets of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent into the link.
    pub sent: u64,
    /// Came out, copies included.
    pub delivered: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Dropped because they were too long.
    pub too_long: u64,
    /// Delayed, so that others overtake.
    pub reordered: u64,
    /// Copied.
    pub duplicated: u64,
    /// Changed.
    pub corrupted: u64,
    /// Marked.
    pub marked: u64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link<P> {
    impairments: Impairments,
    random: Random,
    /// When the rate has carried all that was sent.
    busy_until: Instant,
    /// When the last packet that was not reordered arrives.
    last_arrival: Instant,
    /// Arrival time, number of arrival, place in `packets`.
    arrivals: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    packets: Vec<Option<P>>,
    free: Vec<usize>,
    /// What waits for the rate: when each has left, and its length.
    queue: VecDeque<(Instant, usize)>,
    queued_bytes: usize,
    in_burst: bool,
    numbered: u64,
    counts: Counts,
}

impl<P: Packet> Link<P> {
    /// A link with its own randomness.
    pub fn new(impairments: Impairments, random: Random) -> Self {
        Link {
            impairments,
            random,
            busy_until: Instant::ZERO,
            last_arrival: Instant::ZERO,
            arrivals: BinaryHeap::new(),
            packets: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_burst: false,
            numbered: 0,
            counts: Counts::default(),
        }
    }

    /// Changes the link's behaviour for what is sent from now on.
    pub fn impairments_mut(&mut self) -> &mut Impairments {
        &mut self.impairments
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Packets on their way.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// Sends a packet at `now`, which never runs backwards.
    pub fn send(&mut self, now: Instant, mut packet: P) {
        self.counts.sent += 1;
        let len = packet.len_bytes();
        if len > self.impairments.mtu_bytes {
            self.counts.too_long += 1;
            return;
        }
        while self.queue.front().is_some_and(|(left, _)| *left <= now) {
            self.queued_bytes -= self.queue.pop_front().map_or(0, |(_, len)| len);
        }
        if self.queued_bytes.saturating_add(len) > self.impairments.queue_bytes {
            self.counts.overflowed += 1;
            return;
        }
        let full = self.queued_bytes >= self.impairments.mark_queue_bytes;
        if (full || self.random.chance(self.impairments.mark)) && !self.mark(&mut packet) {
            return;
        }
        let left = self.leave(now, len);
        // Loss comes after the bottleneck: a lost packet has used its share of the rate.
        if self.is_lost() {
            self.counts.lost += 1;
            return;
        }
        if self.random.chance(self.impairments.corrupt) {
            self.counts.corrupted += 1;
            packet.corrupt(&mut self.random);
        }
        self.deliver(left, packet);
    }

    fn mark(&mut self, packet: &mut P) -> bool {
        if packet.mark() {
            self.counts.marked += 1;
            true
        } else {
            self.counts.overflowed += 1;
            false
        }
    }

    /// When a packet of `len` bytes has left the queue.
    fn leave(&mut self, now: Instant, len: usize) -> Instant {
        let Some(rate) = self.impairments.rate else { return now };
        let ns = (len as u128 * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        let start = self.busy_until.max(now);
        self.busy_until = start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        self.queue.push_back((self.busy_until, len));
        self.queued_bytes += len;
        self.busy_until
    }

    /// Gilbert's two-state model: the mean rate is `loss`, the mean length of a burst `loss_burst`.
    fn is_lost(&mut self) -> bool {
        let Impairments { loss, loss_burst, .. } = self.impairments;
        if loss <= 0.0 {
            return false;
        }
        if loss >= 1.0 || loss_burst <= 1.0 {
            return self.random.chance(loss);
        }
        let end = 1.0 / loss_burst;
        let begin = end * loss / (1.0 - loss);
        self.in_burst =
            if self.in_burst { !self.random.chance(end) } else { self.random.chance(begin) };
        self.in_burst
    }

    fn deliver(&mut self, left: Instant, packet: P) {
        let jitter = self.random.duration_below(self.impairments.jitter);
        let mut at = (left + self.impairments.delay + jitter).max(self.last_arrival);
        let aside = self.impairments.reorder_delay;
        if self.random.chance(self.impairments.duplicate) {
            self.counts.duplicated += 1;
            let later = at + self.random.duration_below(aside);
            self.arrive(later, packet.clone());
        }
        if self.random.chance(self.impairments.reorder) {
            self.counts.reordered += 1;
            at += self.random.duration_below(aside);
        } else {
            self.last_arrival = at;
        }
        self.arrive(at, packet);
    }

    fn arrive(&mut self, at: Instant, packet: P) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.packets.push(None);
            self.packets.len() - 1
        });
        self.packets[place] = Some(packet);
        self.arrivals.push(Reverse((at, self.numbered, place)));
        self.numbered += 1;
    }

    /// When the next packet arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes a packet that has arrived by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<P> {
        let Reverse((at, _, place)) = *self.arrivals.peek()?;
        if at > now {
            return None;
        }
        self.arrivals.pop();
        self.free.push(place);
        self.counts.delivered += 1;
        self.packets[place].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Numbered {
        number: u64,
        len: usize,
        changed: bool,
        marked: bool,
    }

    impl Packet for Numbered {
        fn len_bytes(&self) -> usize {
            self.len
        }
        fn corrupt(&mut self, _random: &mut Random) {
            self.changed = true;
        }
        fn mark(&mut self) -> bool {
            self.marked = true;
            self.number % 4 != 3
        }
    }

    fn packet(number: u64) -> Numbered {
        Numbered { number, len: 1000, changed: false, marked: false }
    }

    /// Sends `count` packets, one each `gap`; returns arrivals in order.
    fn run(
        impairments: Impairments,
        count: u64,
        gap: Duration,
    ) -> (Vec<(Instant, Numbered)>, Counts) {
        let mut link = Link::new(impairments, Random::new(5));
        let mut now = Instant::ZERO;
        for number in 0..count {
            link.send(now, packet(number));
            now += gap;
        }
        let mut arrived = Vec::new();
        while let Some(at) = link.next_arrival() {
            if at > Instant::ZERO {
                assert!(link.poll(Instant::from_ns(at.as_ns() - 1)).is_none());
            }
            arrived.push((at, link.poll(at).unwrap()));
        }
        (arrived, *link.counts())
    }

    #[test]
    fn rate_delay_and_queue() {
        let impairments = Impairments {
            rate: Some(1_000_000),
            delay: Duration::from_millis(20),
            queue_bytes: 10_000,
            ..Impairments::default()
        };
        let (arrived, counts) = run(impairments, 50, Duration::ZERO);
        assert_eq!((arrived.len(), counts.overflowed), (10, 40));
        for (i, (at, packet)) in arrived.iter().enumerate() {
            assert_eq!((packet.number, *at), (i as u64, Instant::from_ms(21 + i as u64)));
        }
    }

    #[test]
    fn probabilities_are_met() {
        let gap = Duration::from_millis(1);
        for loss_burst in [1.0, 5.0] {
            let lossy = Impairments { loss: 0.2, loss_burst, ..Impairments::default() };
            let (_, counts) = run(lossy, 50_000, gap);
            assert!((9_000..11_000).contains(&counts.lost), "{counts:?}");
        }
        let mixed = Impairments {
            reorder: 0.1,
            duplicate: 0.1,
            reorder_delay: Duration::from_millis(50),
            corrupt: 0.1,
            mark: 0.1,
            ..Impairments::default()
        };
        let (arrived, counts) = run(mixed, 10_000, gap);
        for count in [counts.reordered, counts.duplicated, counts.corrupted] {
            assert!((850..1150).contains(&count), "{counts:?}");
        }
        assert!((650..850).contains(&counts.marked) && (200..300).contains(&counts.overflowed));
        assert!(arrived.iter().filter(|(_, p)| p.changed).count() as u64 >= counts.corrupted);
        assert_eq!(arrived.len() as u64, counts.sent - counts.overflowed + counts.duplicated);
        assert!(arrived.windows(2).any(|w| w[0].1.number > w[1].1.number), "overtaken");
    }

    #[test]
    fn jitter_alone_keeps_the_order() {
        let jittery = Impairments { jitter: Duration::from_millis(30), ..Impairments::default() };
        let (arrived, _) = run(jittery, 1000, Duration::from_millis(1));
        assert!(arrived.windows(2).all(|w| w[0].1.number < w[1].1.number && w[0].0 <= w[1].0));
    }

    #[test]
    fn long_packets_do_not_fit() {
        let narrow = Impairments { mtu_bytes: 999, ..Impairments::default() };
        assert_eq!(run(narrow, 10, Duration::ZERO).1.too_long, 10);
    }
}
