//! The sender: its state, what is queued, what can be asked of it.

use super::super::connection::MIN_PAYLOAD;
use super::super::rate::RateControl;
use super::super::sync::Sync;
use super::config::SenderConfig;
use super::member::{Leaving, Member, MemberInfo};
use super::membership::{Ask, Gone};
use super::timers::{Timer, Timers};
use super::{To, Transmit};
use crate::challenge::Limit;
use crate::congestion::{self, Controller};
use crate::machine::{Counters, Info, Reservation};
use crate::pacing::Pacer;
use crate::queue::{Segment, SendQueue, flag};
use crate::rack::Phase;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{HEADER_LEN, Key, Limits, OFFSET_MAX, Service, Traffic};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// A message has at most this part of the buffer.
const MESSAGES_MIN: u32 = 4;
/// DIAGs a second to those that are no members (`docs/xtp.md`, section 12).
const REFUSALS_A_SECOND: u32 = 100;
/// What one batch for the device carries, and the sleep that is not worth taking.
const PACING_BURST: u64 = 64 << 10;
const PACING_QUANTUM: Duration = Duration::from_millis(1);

/// What happened to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// Somebody wants to join: [`Sender::accept`] or [`Sender::deny`].
    Asked {
        /// Its own key.
        key: Key,
        /// Where it is.
        from: SocketAddr,
    },
    /// Who was accepted knows it.
    Joined {
        /// The member.
        id: Key,
        /// Its first byte.
        begins_at: u64,
    },
    /// All members have everything below.
    Acked {
        /// The offset.
        upto: u64,
    },
    /// A member has everything up to the end, and knows that this is known.
    Done {
        /// The member.
        id: Key,
    },
    /// Somebody is a member no more.
    Left {
        /// Who was.
        id: Key,
        /// Why.
        why: Leaving,
    },
    /// All have everything, or were dropped.
    Ended,
}

/// Where a sender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// All have everything: it answers still.
    Lingering,
    Over,
}

/// A stream to a group (`docs/xtp.md`, section 16), of the reliable service or of the other.
///
/// Positions are stream offsets. `una <= nxt <= end`, always: `una` is the lowest `rseq` of the members.
#[derive(Debug)]
pub struct Sender {
    pub(super) cfg: SenderConfig,
    pub(super) key: Key,
    pub(super) stage: Stage,
    pub(super) queue: SendQueue,
    pub(super) una: u64,
    pub(super) nxt: u64,
    pub(super) end: u64,
    reserved: u32,
    pub(super) max_payload: u32,
    pub(super) finishing: bool,
    /// WCLOSE has left.
    pub(super) wclosed: bool,
    pub(super) members: BTreeMap<Key, Member>,
    pub(super) asks: VecDeque<Ask>,
    pub(super) gone: VecDeque<Gone>,
    pub(super) sync: Sync,
    /// When the latest question to all left.
    pub(super) asked_at: Instant,
    /// What was sent last, and whether who has not answered was asked alone since.
    pub(super) sent_at: Instant,
    pub(super) probed: bool,
    /// The lowest alloc, and how long the answers to a question take.
    pub(super) edge: u64,
    pub(super) pause: Duration,
    /// Questions without an answer from who waits longest.
    pub(super) retries: u32,
    pub(super) cc: congestion::State,
    pub(super) pacer: Pacer,
    pub(super) rate: RateControl,
    pub(super) phase: Phase,
    /// The member whose losses the controller hears, and where the round ends after which it is chosen anew.
    pub(super) worst: Option<Key>,
    pub(super) round_end: u64,
    pub(super) timers: Timers,
    pub(super) looked_at: Instant,
    pub(super) limit: Limit,
    /// FIRST is due, and with SREQ.
    pub(super) first_due: bool,
    pub(super) ask_first: bool,
    pub(super) stamp: Instant,
    pub(super) window_limited: bool,
    pub(super) ran_dry: bool,
    /// Packets to one receiver each.
    pub(super) outgoing: VecDeque<(To, Transmit)>,
    pub(super) events: VecDeque<SenderEvent>,
    pub(super) acked: bool,
    pub(super) counters: Counters,
}

impl Sender {
    /// A group begins: `poll_transmit` gives FIRST. `key` is drawn from a generator that nobody foretells.
    pub fn new(cfg: &SenderConfig, key: Key, now: Instant) -> Sender {
        let mut s = Sender {
            key,
            stage: Stage::Open,
            queue: SendQueue::new(cfg.max_packets_in_flight),
            una: 0,
            nxt: 0,
            end: 0,
            reserved: 0,
            max_payload: 0,
            finishing: false,
            wclosed: false,
            members: BTreeMap::new(),
            asks: VecDeque::new(),
            gone: VecDeque::new(),
            sync: Sync::new((key.bits() >> 16) as u32),
            asked_at: now,
            sent_at: now,
            probed: false,
            edge: u64::MAX,
            pause: Duration::ZERO,
            retries: 0,
            cc: congestion::State::new(
                congestion::Algorithm::default(),
                &congestion::Config::default(),
            ),
            pacer: Pacer::new(PACING_BURST, PACING_QUANTUM),
            rate: RateControl::new(cfg.out_rate),
            phase: Phase::Open,
            worst: None,
            round_end: 0,
            timers: Timers::default(),
            looked_at: now,
            limit: Limit::new(now, REFUSALS_A_SECOND),
            first_due: true,
            ask_first: false,
            stamp: now,
            window_limited: false,
            ran_dry: false,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            acked: false,
            counters: Counters::default(),
            cfg: cfg.clone(),
        };
        let body = cfg.send_tpdu_len.saturating_sub(HEADER_LEN);
        s.max_payload = u32::try_from(body).unwrap_or(u32::MAX).max(MIN_PAYLOAD);
        s.start_controller();
        s.refresh();
        s.timers.set(Timer::Announce, now + s.cfg.announce);
        s.timers.set(Timer::Look, now + super::timers::LOOK);
        s
    }

    /// A controller begins.
    pub(super) fn start_controller(&mut self) {
        let config = congestion::Config {
            mss: self.max_payload,
            initial_window: self.cfg.initial_window_packets,
            selective: true,
            seed: self.key.bits(),
            ..congestion::Config::default()
        };
        self.cc = congestion::State::new(self.cfg.congestion.unwrap_or_default(), &config);
        self.queue.keep_packets(Controller::keeps_packets(&self.cc));
        self.pacer = Pacer::new(PACING_BURST, PACING_QUANTUM);
        self.phase = Phase::Open;
    }

    /// Members answer, and what they miss goes again.
    pub fn is_reliable(&self) -> bool {
        self.cfg.service == Service::Multicast
    }

    /// Its key: that of what goes to the group.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Most bytes of a message in one packet.
    pub fn max_payload(&self) -> u32 {
        self.max_payload
    }

    /// Most bytes of a message.
    pub fn max_message(&self) -> u32 {
        let packets = self.cfg.max_packets_in_flight as u64 * u64::from(self.max_payload);
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        (self.cfg.send_buffer.min(packets) / MESSAGES_MIN).max(1)
    }

    /// Bytes of a message that may be reserved now. None after `finish`.
    pub fn send_room(&self) -> u32 {
        if self.is_finishing() || self.reserved > 0 {
            return 0;
        }
        let queued = self.end - self.una;
        let bytes = u64::from(self.cfg.send_buffer).saturating_sub(queued);
        let bytes = bytes.min(OFFSET_MAX - self.end).min(self.max_message().into());
        // A piece may be cut in two where the members' window ends.
        let packets = self.queue.room().saturating_sub(2) as u64;
        bytes.min(packets * u64::from(self.max_payload)) as u32
    }

    /// Reserves the next message, of `len` bytes; `None` when there is no room, or one is open already.
    pub fn reserve(&mut self, len: u32) -> Option<Reservation> {
        if len == 0 || len > self.send_room() {
            return None;
        }
        self.reserved = len;
        Some(Reservation::new(self.end, len))
    }

    /// The reserved message is written: queues it.
    pub fn commit(&mut self, reservation: Reservation) {
        debug_assert_eq!((reservation.offset(), reservation.len()), (self.end, self.reserved));
        self.reserved = 0;
        let mut left = reservation.len();
        while left > 0 {
            let len = left.min(self.max_payload);
            left -= len;
            let flags = if left == 0 { flag::PUSH } else { 0 };
            let (start, sent_at) = (self.end, Instant::ZERO);
            self.queue.push(Segment { start, sent_at, len, unit: 0, whole: false, flags });
            self.end += u64::from(len);
        }
    }

    /// [`Sender::finish`] was called, or the stream is over: nothing more is reserved.
    pub fn is_finishing(&self) -> bool {
        self.finishing || self.stage != Stage::Open
    }

    /// No more will be sent: WCLOSE follows what is queued.
    pub fn finish(&mut self) {
        self.finishing |= self.stage == Stage::Open;
    }

    /// What happened; `None` when there is nothing new.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        if core::mem::take(&mut self.acked) {
            return Some(SenderEvent::Acked { upto: self.una });
        }
        self.events.pop_front()
    }

    /// Everything below is not needed any more.
    pub fn acked(&self) -> u64 {
        self.una
    }

    /// What was sent so far.
    pub fn sent(&self) -> u64 {
        self.nxt
    }

    /// What is queued so far.
    pub fn queued(&self) -> u64 {
        self.end
    }

    /// All have everything, or were dropped.
    pub fn has_ended(&self) -> bool {
        self.stage != Stage::Open
    }

    /// Nothing will be sent any more.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Those who may read.
    pub fn members(&self) -> impl Iterator<Item = MemberInfo> + '_ {
        self.members.iter().map(|(id, member)| member.info(*id))
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Estimates and counters. The round trip is that of the slowest member; without a controller there is no window.
    pub fn info(&self) -> Info {
        let controls = self.is_reliable() && self.cfg.congestion.is_some();
        Info {
            srtt: self.srtt().unwrap_or_default(),
            congestion: self.cfg.congestion.unwrap_or_default(),
            cwnd: if controls { self.congestion_window() } else { 0 },
            ssthresh: Controller::slow_start_threshold(&self.cc),
            in_flight: self.queue.in_flight(),
            unacked: self.queued().saturating_sub(self.acked()),
            max_payload: self.max_payload,
            sack: true,
            pacing_rate: self.rate.rate().or(self.pacer.rate()),
            counters: self.counters,
            ..Info::default()
        }
    }

    /// The congestion window; without a controller there is none.
    pub(super) fn congestion_window(&self) -> u64 {
        let controls = self.is_reliable() && self.cfg.congestion.is_some();
        let least = super::answers::PACKETS_LEAST * u64::from(self.max_payload);
        if controls { Controller::window(&self.cc).max(least) } else { u64::MAX / 2 }
    }

    /// What the lowest alloc lets out.
    pub(super) fn alloc(&self) -> u64 {
        if !self.is_reliable() {
            return u64::MAX;
        }
        self.members.values().map(|m| m.alloc).min().unwrap_or(self.nxt)
    }

    /// The traffic segment.
    pub(super) fn traffic(&self) -> Traffic {
        let answers = self.is_reliable();
        let limits = Limits {
            maxdata: u32::try_from(self.cfg.send_tpdu_len - HEADER_LEN)
                .unwrap_or(u32::MAX)
                .max(512),
            inrate: if answers { self.cfg.floor } else { 0 },
            inburst: if answers { self.cfg.silence.as_millis() as u32 } else { 0 },
            outrate: self.cfg.out_rate.rate,
            outburst: self.cfg.out_rate.burst,
        };
        Traffic { service: self.cfg.service, limits: Some(limits) }
    }

    /// The time over which answers are spread.
    pub(super) fn spread(&self) -> Duration {
        let slots = self.members.values().map(|m| m.slot + 1).max().unwrap_or(1);
        self.cfg.slot * slots
    }

    /// The round trip of the slowest.
    pub(super) fn srtt(&self) -> Option<Duration> {
        self.members.values().filter_map(|m| m.rtt.srtt()).max()
    }

    /// A time of sending like no other.
    pub(super) fn next_stamp(&mut self, now: Instant) -> Instant {
        self.stamp = now.max(self.stamp + Duration::from_nanos(1));
        self.stamp
    }

    /// Checks what must hold between calls, by counting anew. For tests.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn assert_invariants(&self) {
        assert!(self.una <= self.nxt && self.nxt <= self.end, "{self:?}");
        assert!(self.queue.is_consistent());
        if self.stage == Stage::Over {
            assert!(self.poll_timeout().is_none());
            return;
        }
        assert_eq!(self.queue.bounds().unwrap_or((self.end, self.end)), (self.una, self.end));
        let lowest = self.members.values().map(|m| m.rseq).min();
        assert!(lowest.is_none_or(|rseq| rseq == self.una.max(rseq)), "una {}", self.una);
        for m in self.members.values() {
            assert!(m.begins_at <= m.rseq && m.rseq <= self.end && self.una <= m.rseq, "{m:?}");
            assert!(m.rseq <= m.alloc, "{m:?}");
        }
        assert!(self.outgoing.len() <= 4 * self.cfg.members_max + 64);
        assert!(self.asks.len() <= self.cfg.members_max);
    }

    /// Checks what must hold when `poll_transmit` gives nothing more: something will happen.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_waits(&self) {
        let timed = [Timer::W, Timer::Tail, Timer::Reorder, Timer::Pace];
        let timed = timed.into_iter().any(|timer| self.timers.is_set(timer));
        let waits = self.stage == Stage::Open && self.una < self.nxt;
        assert!(!waits || timed, "in flight without a timer: {self:?}");
    }
}
