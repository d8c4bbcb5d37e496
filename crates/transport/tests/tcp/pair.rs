//! Two machines and the wire between them, step by step: each test decides what the wire does.
//!
//! Every header goes through its bytes. A payload is the range of its sender's stream offsets, so that the
//! receiver's plan can be checked against where the bytes really belong.

use core::ops::Range;
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{Cut, Event, Initial, TransmitKind, Verdict};
use fusewire_transport::tcp::{Config, Connection, State, Transmit};
use fusewire_wire::tcp::{Flags, Header, MAX_HEADER_LEN};

/// One segment on the wire.
#[derive(Clone, Debug)]
pub struct Packet {
    pub header: Header,
    pub payload: Range<u64>,
    pub kind: TransmitKind,
    pub retransmission: bool,
    pub marked: bool,
    pub ecn_capable: bool,
}

impl Packet {
    pub fn len(&self) -> u32 {
        (self.payload.end - self.payload.start) as u32
    }

    pub fn has(&self, flags: Flags) -> bool {
        self.header.flags.has(flags)
    }
}

impl From<Transmit> for Packet {
    fn from(t: Transmit) -> Packet {
        let mut bytes = [0; MAX_HEADER_LEN];
        let len = t.header.emit(&mut bytes);
        let header = Header::parse(&bytes[..len]).expect("what a connection emits is legal");
        let payload = t.payload.unwrap_or(0..0);
        Packet {
            header,
            payload,
            kind: t.kind,
            retransmission: t.retransmission,
            marked: false,
            ecn_capable: t.ecn_capable,
        }
    }
}

/// One endpoint with what its application saw.
pub struct End {
    pub tcp: Connection,
    pub events: Vec<Event>,
    /// Ranges accepted, in the order in which they came.
    pub accepted: Vec<Range<u64>>,
    /// Consume what is in order at once.
    pub reads: bool,
}

impl End {
    pub fn new(tcp: Connection) -> End {
        End { tcp, events: Vec::new(), accepted: Vec::new(), reads: true }
    }

    pub fn drain_events(&mut self) {
        while let Some(event) = self.tcp.poll_event() {
            self.events.push(event);
        }
    }

    pub fn take(&mut self, now: Instant, p: &Packet) {
        let initial = self.tcp.handle_initial(now, &p.header, p.len());
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Control => Verdict::Control,
            Initial::Payload(plan) if plan.duplicate => {
                assert_eq!(plan.len, 0);
                Verdict::Control
            }
            Initial::Payload(plan) => {
                assert_eq!(plan.trim_front + plan.len + plan.trim_back, p.len());
                assert_eq!(
                    plan.offset,
                    p.payload.start + u64::from(plan.trim_front),
                    "payload misplaced"
                );
                let range = plan.offset..plan.offset + u64::from(plan.len);
                for seen in &self.accepted {
                    assert!(
                        seen.end <= range.start || range.end <= seen.start,
                        "{range:?} taken twice"
                    );
                }
                self.accepted.push(range);
                Verdict::Accept { len: plan.len }
            }
        };
        self.tcp.handle_final(now, &p.header, &initial, verdict, p.marked);
        self.tcp.assert_invariants();
        if self.reads {
            self.tcp.consumed(self.tcp.rcv_nxt_offset());
        }
        self.drain_events();
    }

    pub fn output(&mut self, now: Instant) -> Vec<Packet> {
        let mut out = Vec::new();
        while let Some(t) = self.tcp.poll_transmit(now) {
            out.push(Packet::from(t));
            assert!(out.len() < 10_000, "endless output");
        }
        self.tcp.assert_invariants();
        self.drain_events();
        out
    }

    pub fn saw(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Queues `len` bytes as one ADU.
    pub fn send(&mut self, len: u32) {
        let r = self.tcp.reserve(len).expect("room");
        self.tcp.commit(r, Cut::Record);
    }
}

/// Two endpoints.
pub struct Pair {
    pub now: Instant,
    pub a: End,
    pub b: End,
    /// One way.
    pub delay: Duration,
}

pub const ISS_A: Seq = Seq(u32::MAX - 5_000);
pub const ISS_B: Seq = Seq(77);

/// A beginning whose timestamps are soon to wrap.
pub fn start(iss: Seq) -> Start {
    Start { iss, timestamp_offset: u32::MAX - 20_000 }
}

impl Pair {
    /// Both ends made by an active open; the handshake has not begun. `b` acts only when told.
    pub fn closed(cfg_a: &Config, cfg_b: &Config) -> Pair {
        let now = Instant::from_ms(1000);
        let a = End::new(Connection::connect(cfg_a, 1000, 2000, start(ISS_A), now));
        let b = End::new(Connection::connect(cfg_b, 2000, 1000, start(ISS_B), now));
        Pair { now, a, b, delay: Duration::from_millis(5) }
    }

    /// After a handshake through a listener.
    pub fn open(cfg_a: &Config, cfg_b: &Config) -> Pair {
        use crate::listener::{accept, listener, tuple};
        use fusewire_transport::machine::Listener as _;
        let mut pair = Pair::closed(cfg_a, cfg_b);
        let mut listening = listener(cfg_b, 8);
        let syn = pair.a.output(pair.now).remove(0);
        pair.wait();
        let reply = listening.handle_stray(pair.now, &tuple(1), &syn.header, 0);
        let fusewire_transport::tcp::ListenerAction::Reply(syn_ack) = reply else {
            panic!("{reply:?}")
        };
        let syn_ack = Packet::from(Transmit {
            header: syn_ack,
            payload: None,
            retransmission: false,
            kind: TransmitKind::Syn,
            ecn_capable: false,
        });
        pair.wait();
        let now = pair.now;
        pair.a.take(now, &syn_ack);
        let ack = pair.a.output(now).remove(0);
        pair.wait();
        let mut b = End::new(accept(&mut listening, pair.now, &tuple(1), &ack));
        b.take(pair.now, &ack);
        pair.b = b;
        assert_eq!(
            (pair.a.tcp.state(), pair.b.tcp.state()),
            (State::Established, State::Established)
        );
        assert!(pair.a.saw(Event::Established) && pair.b.saw(Event::Established));
        pair
    }

    pub fn wait(&mut self) {
        self.now += self.delay;
    }

    /// Time passes; timers that are due go off.
    pub fn sleep(&mut self, d: Duration) {
        self.now += d;
        self.a.tcp.handle_timeout(self.now);
        self.b.tcp.handle_timeout(self.now);
        self.a.drain_events();
        self.b.drain_events();
    }

    /// Jumps to the next deadline of either end; false when there is none.
    pub fn sleep_to_timer(&mut self) -> bool {
        let next = self.a.tcp.poll_timeout().into_iter().chain(self.b.tcp.poll_timeout()).min();
        let Some(at) = next else { return false };
        let d = at - self.now;
        self.sleep(d);
        true
    }

    /// Carries what both have to send until neither has anything, dropping what `lose` says: it is given
    /// the sender (`true` for `a`) and the packet. Sleeps are left to the caller.
    pub fn exchange(&mut self, mut lose: impl FnMut(bool, &Packet) -> bool) -> usize {
        let mut carried = 0;
        loop {
            let from_a = self.a.output(self.now);
            let from_b = self.b.output(self.now);
            if from_a.is_empty() && from_b.is_empty() {
                return carried;
            }
            carried += from_a.len() + from_b.len();
            assert!(carried < 200_000, "endless exchange");
            self.wait();
            let now = self.now;
            for p in from_a.into_iter().filter(|p| !lose(true, p)) {
                self.b.take(now, &p);
            }
            for p in from_b.into_iter().filter(|p| !lose(false, p)) {
                self.a.take(now, &p);
            }
            self.a.tcp.handle_timeout(now);
            self.b.tcp.handle_timeout(now);
        }
    }

    /// Exchanges and sleeps until `done`, at most for an hour of virtual time.
    pub fn run_until(
        &mut self,
        mut lose: impl FnMut(bool, &Packet) -> bool,
        done: impl Fn(&Pair) -> bool,
    ) {
        let end = self.now + Duration::from_secs(3600);
        loop {
            self.exchange(&mut lose);
            if done(self) {
                return;
            }
            assert!(
                self.sleep_to_timer(),
                "stuck: {:?} {:?}",
                self.a.tcp.state(),
                self.b.tcp.state()
            );
            assert!(self.now < end, "an hour has passed: {:?} {:?}", self.a.tcp, self.b.tcp);
        }
    }

    /// Nothing lost.
    pub fn settle(&mut self) {
        self.exchange(|_, _| false);
    }

    pub fn received(&self) -> u64 {
        self.b.tcp.rcv_nxt_offset()
    }
}
