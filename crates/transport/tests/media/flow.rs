//! A flow of bulk data beside the call: our own controllers of TCP, over a sender that always has something to send. The
//! bottleneck keeps the order, so that a gap is a loss.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_testkit::Link;
use fusewire_transport::congestion::{Acked, Algorithm, Config, Controller, Sent, Signal, State};

use crate::call::Carried;

const MSS: usize = 1200;

/// Sender and receiver, and the way back, which only delays.
pub struct Flow {
    controller: State,
    delay: Duration,
    /// Under way: number, when it was sent.
    under_way: VecDeque<(u64, Instant)>,
    next: u64,
    acks: VecDeque<(Instant, u64)>,
    /// Until this is acknowledged, a loss belongs to the recovery that is under way.
    recover: u64,
    srtt: Duration,
    heard: Instant,
    pub bytes: u64,
}

impl Flow {
    pub fn new(algorithm: Algorithm, delay: Duration, now: Instant) -> Flow {
        let config = Config { mss: MSS as u32, ..Config::default() };
        Flow {
            controller: State::new(algorithm, &config),
            delay,
            under_way: VecDeque::new(),
            next: 0,
            acks: VecDeque::new(),
            recover: 0,
            srtt: 2 * delay,
            heard: now,
            bytes: 0,
        }
    }

    fn in_flight(&self) -> u64 {
        (self.under_way.len() * MSS) as u64
    }

    pub fn run(&mut self, now: Instant, link: &mut Link<Carried>) {
        while self.acks.front().is_some_and(|ack| ack.0 <= now) {
            let (_, number) = self.acks.pop_front().unwrap();
            self.on_ack(now, number);
        }
        if now - self.heard > Duration::from_secs(1) && !self.under_way.is_empty() {
            let in_flight = self.in_flight();
            self.controller.on_congestion(now, Signal::Timeout, in_flight);
            self.under_way.clear();
            (self.recover, self.heard) = (self.next, now);
        }
        while self.in_flight() + MSS as u64 <= self.controller.window() {
            self.under_way.push_back((self.next, now));
            let sent = Sent { now, bytes: MSS as u64, in_flight: self.in_flight() };
            self.controller.on_sent(&sent);
            link.send(now, Carried::Other(self.next, MSS));
            self.next += 1;
        }
    }

    pub fn on_packet(&mut self, now: Instant, number: u64) {
        self.bytes += MSS as u64;
        self.acks.push_back((now + self.delay, number));
    }

    fn on_ack(&mut self, now: Instant, number: u64) {
        let before = self.in_flight();
        self.heard = now;
        let mut is_lost = false;
        while let Some(&(first, sent)) = self.under_way.front()
            && first <= number
        {
            self.under_way.pop_front();
            if first < number {
                is_lost = true;
                continue;
            }
            let rtt = now - sent;
            self.srtt = (7 * self.srtt + rtt) / 8;
            self.controller.on_acked(&Acked {
                now,
                bytes: MSS as u64,
                in_flight_before: before,
                in_flight: self.in_flight(),
                snd_una: number * MSS as u64,
                snd_nxt: self.next * MSS as u64,
                rtt: Some(rtt),
                srtt: self.srtt,
                window_limited: true,
                newest: None,
            });
        }
        if number >= self.recover && self.recover > 0 {
            self.controller.on_recovered(now);
            self.recover = 0;
        }
        if is_lost && self.recover == 0 {
            self.controller.on_congestion(now, Signal::Loss, before);
            self.recover = self.next;
        }
    }
}
