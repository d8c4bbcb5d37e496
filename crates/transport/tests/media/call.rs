//! One call on a virtual clock: frames by the controller's target, a bucket, a bottleneck, and reports on the way back.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_testkit::{Impairments, Link, Packet, Random};
use fusewire_transport::media::{Arrivals, Config, DELTA, Nada};
use fusewire_transport::pacing::Pacer;
use fusewire_wire::feedback::Report;

/// Bytes of a packet of media at most.
const PACKET: usize = 1000;
/// What the bucket lets out at once: what comes in the time between two looks at it.
const BURST: u64 = 1500;
const FRAMES_HZ: u64 = 30;

/// What the bottleneck carries.
#[derive(Clone, Debug)]
pub enum Carried {
    /// Of the call: number, bytes, when it was sent.
    Media(u64, usize, Instant),
    /// Of the flow beside it: number, bytes.
    Other(u64, usize),
}

impl Packet for Carried {
    fn len_bytes(&self) -> usize {
        match self {
            Carried::Media(_, bytes, _) | Carried::Other(_, bytes) => *bytes,
        }
    }
    fn corrupt(&mut self, _: &mut Random) {}
    fn mark(&mut self) -> bool {
        false
    }
}

#[derive(Clone, Debug)]
struct Bytes(Vec<u8>);

impl Packet for Bytes {
    fn len_bytes(&self) -> usize {
        self.0.len()
    }
    fn corrupt(&mut self, _: &mut Random) {}
    fn mark(&mut self) -> bool {
        false
    }
}

/// Sender and receiver of media, and the way back.
pub struct Call {
    pub nada: Nada,
    pacer: Pacer,
    arrivals: Arrivals,
    back: Link<Bytes>,
    /// Frames that wait for the bucket: bytes.
    waiting: VecDeque<usize>,
    next_frame: Instant,
    random: Random,
    /// Bits a second that the application makes at most.
    pub makes_at_most: u64,
    /// When each byte of media came, and how long its packet waited.
    pub came: Vec<(Instant, usize, Duration)>,
}

impl Call {
    pub fn new(config: Config, delay: Duration, loss: f64, mut random: Random) -> Call {
        let way_back = Impairments { delay, loss, ..Impairments::default() };
        Call {
            nada: Nada::new(Instant::ZERO, config),
            pacer: Pacer::new(BURST, Duration::ZERO),
            arrivals: Arrivals::new(DELTA),
            back: Link::new(way_back, random.fork()),
            waiting: VecDeque::new(),
            next_frame: Instant::ZERO,
            random,
            makes_at_most: u64::MAX,
            came: Vec::new(),
        }
    }

    /// Does all that is due, and gives to the bottleneck what leaves.
    pub fn run(&mut self, now: Instant, link: &mut Link<Carried>) {
        while let Some(report) = self.back.poll(now) {
            self.nada.on_report(now, &Report::parse(&report.0).unwrap());
        }
        self.nada.handle_timeout(now);
        if now >= self.next_frame {
            self.next_frame += Duration::from_nanos(1_000_000_000 / FRAMES_HZ);
            let waiting = self.waiting.iter().sum();
            let target = self.nada.target(waiting);
            // A coder hits its target on the mean.
            let bytes = target.media.min(self.makes_at_most) / 8 / FRAMES_HZ;
            let mut bytes = self.random.range(bytes * 8 / 10..bytes * 12 / 10 + 1) as usize;
            while bytes > 0 {
                let len = bytes.min(PACKET);
                self.waiting.push_back(len);
                bytes -= len;
            }
            self.pacer.set_pace(target.send / 8, BURST);
        }
        while self.pacer.room(now) > 0
            && let Some(bytes) = self.waiting.pop_front()
        {
            let number = self.nada.on_sent(now, bytes);
            self.pacer.on_sent(now, bytes as u64);
            link.send(now, Carried::Media(number, bytes, now));
        }
        let mut bytes = [0; 1200];
        if let Some(len) = self.arrivals.report(now, &mut bytes) {
            self.back.send(now, Bytes(bytes[..len].to_vec()));
        }
    }

    /// A packet of the call's came.
    pub fn on_packet(&mut self, now: Instant, number: u64, bytes: usize, sent: Instant) {
        self.arrivals.on_packet(now, number, 0);
        self.came.push((now, bytes, now - sent));
    }

    /// Bits a second that came in this part of the run.
    pub fn rate(&self, from: Instant, to: Instant) -> f64 {
        let within = self.came.iter().filter(|(at, ..)| (from..to).contains(at));
        within.map(|(_, bytes, _)| *bytes as f64 * 8.0).sum::<f64>() / (to - from).as_secs_f64()
    }

    /// What share of the packets waited no longer than.
    pub fn queue(&self, delay: Duration, share: f64) -> Duration {
        let mut waits: Vec<_> = self.came.iter().map(|(_, _, took)| *took - delay).collect();
        waits.sort();
        waits[(waits.len() as f64 * share) as usize]
    }
}
