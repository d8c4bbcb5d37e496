//! The receiver: hearing of groups, joining one, and its end.

use super::super::messages::{Message, Messages};
use super::super::receive::Receive;
use super::super::sync::Sync;
use super::super::{Config, Header, Transmit};
use super::config::ReceiverConfig;
use crate::deadlines::{Deadline, Deadlines};
use crate::machine::Counters;
use core::ops::Range;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Address, First, HEADER_LEN, Key, Limits, Reason, Service, Traffic};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Senders that are heard of at a time.
const HEARD_MAX: usize = 16;
/// What others cause to be told, and nobody has asked for yet.
const EVENTS_MAX: usize = 256;
/// How often WTIMER doubles at most while somebody asks to join; and while it says that it has everything, since the
/// sender answers for no longer than a minute.
const DOUBLINGS: u32 = 6;
const DOUBLINGS_AT_END: u32 = 3;

/// A sender that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Where it is.
    pub from: SocketAddr,
    /// Its key.
    pub key: Key,
    /// What it announces: with limits.
    pub traffic: Traffic,
    /// The group's address segment.
    pub address: Address,
    /// Where the next message begins.
    pub seq: u64,
}

impl Heard {
    /// Its members answer, and what they miss goes again.
    pub fn is_reliable(&self) -> bool {
        self.traffic.service == Service::Multicast
    }

    fn limits(&self) -> Limits {
        self.traffic.limits.unwrap_or_default()
    }

    /// The most that it sends, in bytes a second, if there is a bound.
    pub fn rate(&self) -> Option<u32> {
        Some(self.limits().outrate).filter(|rate| !matches!(rate, 0 | &u32::MAX))
    }

    /// Bytes a second below which a member is dropped for which others wait.
    pub fn floor(&self) -> u32 {
        self.limits().inrate
    }

    /// How long a member may be silent that was asked.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.limits().inburst.into())
    }
}

/// What happened to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// There is a group.
    Heard(Heard),
    /// It is a member.
    Joined {
        /// Its first byte.
        begins_at: u64,
    },
    /// It may not join.
    Refused(Reason),
    /// It is a member no more: what has come may not be all.
    Dropped(Reason),
    /// Bytes in which a message lies that did not come whole (service 5).
    Lost(Range<u64>),
    /// Everything has come, up to the end.
    Finished {
        /// The end.
        offset: u64,
    },
    /// The sender knows that.
    Ended,
    /// Nobody was heard.
    TimedOut,
}

/// Where a receiver stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Listening,
    Joining,
    Member,
    Over,
}

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Timer {
    /// WTIMER: JCNTL, or RCLOSE, is unanswered.
    W,
    /// The delay before an answer is over.
    Answer,
    /// CTIMEOUT, or no more patience.
    Over,
}

impl Deadline for Timer {
    fn place(self) -> usize {
        self as usize
    }
}

pub(super) type Timers = Deadlines<Timer, { Timer::Over as usize + 1 }>;

/// A receiver of a group's stream. It takes packets in two steps, as [`crate::machine::Connection`] says.
///
/// `consumed <= rcv_nxt <= adv`, always.
#[derive(Debug)]
pub struct Receiver {
    pub(super) cfg: ReceiverConfig,
    pub(super) stage: Stage,
    pub(super) heard: VecDeque<Heard>,
    /// Whose group it is, or wants to be, in.
    pub(super) sender: Option<Heard>,
    /// Our key, and the sender's for us.
    pub(super) own: Option<Key>,
    pub(super) peer: Option<Key>,
    pub(super) recv: Receive,
    pub(super) messages: Messages,
    pub(super) sync: Sync,
    pub(super) delay: Duration,
    pub(super) timers: Timers,
    /// JCNTLs, or RCLOSEs, without an answer.
    pub(super) retries: u32,
    /// JCNTL is due.
    pub(super) join_due: bool,
    /// We were asked, or have something to say; there is a gap to report.
    pub(super) asked: bool,
    pub(super) gap: bool,
    pub(super) since: Instant,
    pub(super) last: Option<Transmit>,
    pub(super) finished: bool,
    pub(super) events: VecDeque<ReceiverEvent>,
    pub(super) counters: Counters,
}

impl Receiver {
    /// One that listens.
    pub fn new(cfg: &ReceiverConfig, now: Instant) -> Receiver {
        Receiver {
            stage: Stage::Listening,
            heard: VecDeque::new(),
            sender: None,
            own: None,
            peer: None,
            recv: Receive::new(&Config::default(), now),
            messages: Messages::new(true),
            sync: Sync::new(0),
            delay: Duration::ZERO,
            timers: Timers::default(),
            retries: 0,
            join_due: false,
            asked: false,
            gap: false,
            since: now,
            last: None,
            finished: false,
            events: VecDeque::new(),
            counters: Counters::default(),
            cfg: cfg.clone(),
        }
    }

    /// Asks to be a member of what was heard, by a key that nobody foretells; reads at once what nobody answers
    /// (service 5). Whatever it was a member of before is forgotten.
    pub fn join(&mut self, now: Instant, heard: &Heard, own: Key) {
        let (cfg, events) = (self.cfg.clone(), core::mem::take(&mut self.events));
        let (heard_of, counters) =
            (core::mem::take(&mut self.heard), core::mem::take(&mut self.counters));
        *self = Receiver { heard: heard_of, events, counters, ..Receiver::new(&cfg, now) };
        // Anybody can announce a stream by another's key.
        let is_it = |known: &&Heard| known.key == heard.key && known.from == heard.from;
        let known = self.heard.iter().find(is_it);
        self.sender = Some(*known.unwrap_or(heard));
        self.own = Some(own);
        self.sync = Sync::new((own.bits() >> 16) as u32);
        self.timers.set(Timer::Over, now + self.cfg.patience);
        if heard.is_reliable() {
            self.stage = Stage::Joining;
            self.join_due = true;
        } else {
            self.become_member(now, self.sender.map_or(0, |sender| sender.seq));
        }
    }

    /// The stream begins.
    pub(super) fn become_member(&mut self, now: Instant, begins_at: u64) {
        self.stage = Stage::Member;
        let config = Config {
            recv_window: self.cfg.recv_window,
            initial_recv_window: self.cfg.recv_window,
            max_ranges: self.cfg.max_ranges,
            ..Config::default()
        };
        self.recv = Receive::new(&config, now);
        self.recv.begin_at(begins_at);
        self.messages.begin_at(begins_at);
        self.timers.set(Timer::Over, now + self.cfg.ctimeout);
        self.timers.clear(Timer::W);
        self.retries = 0;
        self.events.push_back(ReceiverEvent::Joined { begins_at });
    }

    /// A group was announced.
    pub(super) fn hear(&mut self, from: SocketAddr, h: &Header, first: &First) {
        let heard =
            Heard { from, key: h.key, traffic: first.traffic, address: first.address, seq: h.seq };
        if first.address.dstport() != self.cfg.address.dstport() {
            return;
        }
        if let Some(known) = self.heard.iter_mut().find(|k| k.key == h.key && k.from == from) {
            *known = heard;
            return;
        }
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(heard);
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(ReceiverEvent::Heard(heard));
        }
    }

    /// What happened; `None` when there is nothing new.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// The next message, which has come whole. Its bytes are kept until [`Receiver::consumed`].
    pub fn poll_message(&mut self) -> Option<Message> {
        if self.stage == Stage::Over && !self.finished {
            return None;
        }
        while let Some(message) = self.messages.poll(self.recv.nxt, &self.recv.ranges, false) {
            let range = &message.range;
            let gaps = &mut self.recv.gaps;
            while gaps.front().is_some_and(|gap| gap.1 <= range.start) {
                gaps.pop_front();
            }
            if gaps.front().is_none_or(|gap| gap.0 >= range.end) {
                return Some(message);
            }
            let lost = range.clone();
            // Where the message before ended may be lost, too: what lies behind the gap is one, or proves itself none.
            let behind = self.recv.gaps.iter().take_while(|gap| gap.0 < lost.end).last();
            let behind = behind.map(|gap| gap.1).filter(|start| *start < lost.end);
            if let Some(start) = behind.filter(|_| self.cfg.nocheck) {
                self.note_lost(lost.start..start);
                return Some(Message { range: start..lost.end, tag: message.tag });
            }
            self.consumed(lost.end);
            self.note_lost(lost);
        }
        None
    }

    /// These bytes lack some.
    fn note_lost(&mut self, range: Range<u64>) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(ReceiverEvent::Lost(range));
        }
    }

    /// The application has consumed everything below the stream offset `upto`.
    pub fn consumed(&mut self, upto: u64) {
        if !self.recv.consume(upto) {
            return;
        }
        self.messages.consumed(self.recv.consumed);
        if self.peer.is_none() {
            // Nobody is told.
            self.recv.widen();
        }
        if self.recv.has_opened() && self.answers() {
            self.asked = true;
        }
    }

    /// It is a member that answers.
    pub(super) fn answers(&self) -> bool {
        self.stage == Stage::Member && self.peer.is_some()
    }

    /// The end of it, and why.
    pub(super) fn end(&mut self, event: ReceiverEvent) {
        if self.stage != Stage::Over {
            self.stage = Stage::Over;
            self.timers = Timers::default();
            self.join_due = false;
            self.events.push_back(event);
        }
    }

    /// Is a member no more, because the application does not want to be.
    pub fn leave(&mut self) {
        // Who only asked has no R yet that would prove it.
        if self.stage == Stage::Member {
            self.last = self.goodbye();
        }
        self.end(ReceiverEvent::Ended);
    }

    /// Where to send what [`Receiver::poll_transmit`] gives.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.sender.map(|sender| sender.from)
    }

    /// Everything below has come, or was passed over.
    pub fn rcv_nxt(&self) -> u64 {
        self.recv.nxt
    }

    /// Everything has come up to the end.
    pub fn has_finished(&self) -> bool {
        self.finished
    }

    /// It has asked to join, and was not answered.
    pub fn is_joining(&self) -> bool {
        self.stage == Stage::Joining
    }

    /// It will do nothing more, unless it joins.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over && self.last.is_none()
    }

    /// Counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Time has passed. Follow it with `poll_transmit` and `poll_event`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timers.take(Timer::Over, now) {
            self.end(ReceiverEvent::TimedOut);
        }
        if self.timers.take(Timer::W, now) {
            self.retries = self.retries.saturating_add(1);
            self.counters.timeouts += 1;
            match self.stage {
                Stage::Joining => self.join_due = true,
                _ => self.asked |= self.finished,
            }
        }
    }

    /// WTIMER, doubled for each question that nobody answered.
    pub(super) fn wtimer(&self) -> Duration {
        let doublings = if self.finished { DOUBLINGS_AT_END } else { DOUBLINGS };
        self.cfg.wtimer.saturating_mul(1 << self.retries.min(doublings))
    }

    /// Our traffic segment.
    pub(super) fn traffic(&self) -> Traffic {
        let maxdata = u32::try_from(self.cfg.tpdu_len.saturating_sub(HEADER_LEN));
        let limits = Limits { maxdata: maxdata.unwrap_or(u32::MAX).max(512), ..Limits::default() };
        Traffic { service: Service::Multicast, limits: Some(limits) }
    }

    /// The body of what is for nobody.
    pub(super) fn is_over_stage(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Checks what must hold between calls, by counting anew. For tests.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn assert_invariants(&self) {
        let r = &self.recv;
        assert!(r.consumed <= r.nxt && r.nxt <= r.adv, "{} {} {}", r.consumed, r.nxt, r.adv);
        assert!(r.ranges.is_consistent(r.nxt, r.adv), "nxt {} adv {}", r.nxt, r.adv);
        match self.stage {
            Stage::Over => assert!(self.poll_timeout().is_none()),
            Stage::Joining => {
                assert!(self.join_due || self.timers.is_set(Timer::W), "does not ask");
            }
            Stage::Member => {
                let asks = self.asked || self.timers.is_set(Timer::W);
                assert!(!self.finished || self.peer.is_none() || asks, "does not tell its end");
            }
            Stage::Listening => {}
        }
    }
}
