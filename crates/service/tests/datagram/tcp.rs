//! The same ADUs over TCP: one stream, our own CUBIC, and a sender that knows at once of each loss, which no real one does. So it
//! is better than TCP is.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_testkit::{Impairments, Link, Packet, Random};
use fusewire_transport::congestion::{Acked, Algorithm, Config, Controller, Sent, Signal, State};

const MSS: u64 = 1148;

/// A segment: its number.
#[derive(Clone, Debug)]
struct Segment(u64);

impl Packet for Segment {
    fn len_bytes(&self) -> usize {
        1200
    }
    fn corrupt(&mut self, _: &mut Random) {}
    fn mark(&mut self) -> bool {
        false
    }
}

/// Sender and receiver, and the way back, which only delays.
pub struct Tcp {
    link: Link<Segment>,
    controller: State,
    /// Segments on their way, each with when it left, in the order in which they left.
    under_way: VecDeque<(u64, Instant)>,
    again: VecDeque<u64>,
    next: u64,
    acks: VecDeque<(Instant, u64)>,
    recover: u64,
    srtt: Duration,
    heard: Instant,
    /// Bytes that were written, and acknowledged in order.
    written: u64,
    came: Vec<bool>,
    in_order: u64,
    /// ADUs: where each ends, and its lane and number.
    ends: VecDeque<(u64, usize, usize)>,
}

impl Tcp {
    pub fn new(link: Impairments, random: Random) -> Tcp {
        let config = Config { mss: MSS as u32, ..Config::default() };
        Tcp {
            link: Link::new(link, random),
            controller: State::new(Algorithm::Cubic, &config),
            under_way: VecDeque::new(),
            again: VecDeque::new(),
            next: 0,
            acks: VecDeque::new(),
            recover: 0,
            srtt: Duration::from_millis(100),
            heard: Instant::ZERO,
            written: 0,
            came: Vec::new(),
            in_order: 0,
            ends: VecDeque::new(),
        }
    }

    pub fn impairments_mut(&mut self) -> &mut Impairments {
        self.link.impairments_mut()
    }

    /// Writes an ADU, if so much may wait.
    pub fn write(&mut self, lane: usize, number: usize, bytes: u64, buffer: u64) -> bool {
        // The last segment may be short, as below.
        let fits = self.written.saturating_sub(self.in_order * MSS) + bytes <= buffer;
        if fits {
            self.written += bytes;
            self.ends.push_back((self.written, lane, number));
        }
        fits
    }

    /// What is due; ADUs that have come with all before them.
    pub fn run(&mut self, now: Instant, mut came: impl FnMut(usize, usize)) {
        while let Some(Segment(number)) = self.link.poll(now) {
            let at = number as usize;
            self.came.resize(self.came.len().max(at + 1), false);
            self.came[at] = true;
            self.acks.push_back((now + Duration::from_millis(50), number));
        }
        let mut whole = self.in_order as usize;
        while self.came.get(whole) == Some(&true) {
            whole += 1;
        }
        self.in_order = whole as u64;
        // The last segment may be short: what was written ends with it.
        let bytes = (self.in_order * MSS).min(self.written);
        while let Some((_, lane, number)) = self.ends.pop_front_if(|(end, ..)| *end <= bytes) {
            came(lane, number);
        }
        while let Some((_, number)) = self.acks.pop_front_if(|(at, _)| *at <= now) {
            self.on_ack(now, number);
        }
        if now - self.heard > Duration::from_secs(1) && !self.under_way.is_empty() {
            self.controller.on_congestion(now, Signal::Timeout, self.in_flight());
            self.again.extend(self.under_way.drain(..).map(|(number, _)| number));
            (self.recover, self.heard) = (self.next, now);
        }
        while self.in_flight() + MSS <= self.controller.window() {
            let number = match self.again.pop_front() {
                Some(number) => number,
                None if self.next * MSS < self.written => {
                    self.next += 1;
                    self.next - 1
                }
                None => break,
            };
            self.under_way.push_back((number, now));
            let sent = Sent { now, bytes: MSS, in_flight: self.in_flight() };
            self.controller.on_sent(&sent);
            self.link.send(now, Segment(number));
        }
    }

    fn in_flight(&self) -> u64 {
        self.under_way.len() as u64 * MSS
    }

    /// The path keeps the order: what left before this one and was not told of is lost.
    fn on_ack(&mut self, now: Instant, number: u64) {
        let before = self.in_flight();
        self.heard = now;
        let Some(at) = self.under_way.iter().position(|(n, _)| *n == number) else { return };
        let lost: Vec<_> = self.under_way.drain(..at).map(|(number, _)| number).collect();
        let Some((_, sent)) = self.under_way.pop_front() else { return };
        let rtt = now - sent;
        self.srtt = (7 * self.srtt + rtt) / 8;
        let waits = self.next * MSS < self.written || !self.again.is_empty();
        self.controller.on_acked(&Acked {
            now,
            bytes: MSS,
            in_flight_before: before,
            in_flight: self.in_flight(),
            snd_una: number * MSS,
            snd_nxt: self.next * MSS,
            rtt: Some(rtt),
            srtt: self.srtt,
            window_limited: waits,
            newest: None,
        });
        if self.recover > 0 && number >= self.recover {
            self.controller.on_recovered(now);
            self.recover = 0;
        }
        if !lost.is_empty() && self.recover == 0 {
            self.controller.on_congestion(now, Signal::Loss, before);
            self.recover = self.next;
        }
        self.again.extend(lost);
    }
}
