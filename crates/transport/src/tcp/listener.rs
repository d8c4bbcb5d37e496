//! Passive open: LISTEN and SYN-RECEIVED (RFC 9293, section 3.10.7.2), with a bounded table of half-open
//! connections and SYN cookies when it is full (RFC 4987).
//!
//! A half-open connection costs one flat entry; a [`Connection`] is made when the handshake is complete.

use super::config::Config;
use super::connection::{Connection, Offer, user_timeout_field};
use super::window::window_shift;
use super::{ListenerAction, Tuple};
use crate::isn::{Generator, Start};
use crate::machine::{self, DropCause, Secrets};
use crate::syn_cookie::{self, Client, Cookies};
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_wire::tcp::{Flags, Header, Options};

/// Entries that one hash may lead to.
const WAYS: usize = 4;
/// First retransmission of SYN-ACK; each further one waits twice as long.
const SYN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// A cookie is looked for so long after the last one was given.
const COOKIE_LIFETIME: Duration = Duration::from_secs(128);
/// A cookie says no smaller MSS.
const COOKIE_MSS_MIN: u16 = 536;
const NEVER: Instant = Instant::from_ns(u64::MAX);

#[derive(Clone, Copy, Debug)]
struct HalfOpen {
    tuple: Tuple,
    offer: Offer,
    iss: Seq,
    /// When the first SYN-ACK was sent.
    began: Instant,
    /// When the next one is.
    due: Instant,
    transmissions: u8,
}

/// A listening port.
#[derive(Debug)]
pub struct Listener {
    cfg: Config,
    generator: Generator,
    cookies: Cookies,
    /// Sets of [`WAYS`] entries, found by a keyed hash.
    table: Box<[Option<HalfOpen>]>,
    half_open: usize,
    backlog: usize,
    /// Accepted connections that the application has not taken.
    waiting: usize,
    /// No SYN-ACK is due before this.
    due: Instant,
    /// Where [`poll_reply`](machine::Listener::poll_reply) goes on, and when the entries before that are due.
    cursor: usize,
    due_before_cursor: Instant,
    cookies_until: Instant,
    cookies_issued: u64,
    cookies_accepted: u64,
    drops: u64,
}

impl Listener {
    /// A listener whose connections are made with `cfg`. At most `backlog` connections wait for the
    /// application, and about as many are half open before cookies take over.
    pub fn new(cfg: &Config, backlog: usize, secrets: &Secrets) -> Listener {
        let sets = backlog.max(1).div_ceil(WAYS).next_power_of_two();
        Listener {
            cfg: cfg.clone(),
            generator: Generator::new(&secrets.isn),
            cookies: Cookies::new(&secrets.cookie),
            table: vec![None; sets * WAYS].into_boxed_slice(),
            half_open: 0,
            backlog: backlog.max(1),
            waiting: 0,
            due: NEVER,
            cursor: 0,
            due_before_cursor: NEVER,
            cookies_until: Instant::ZERO,
            cookies_issued: 0,
            cookies_accepted: 0,
            drops: 0,
        }
    }

    /// Connections to come are made with `cfg`.
    pub fn set_config(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
    }

    fn handle_syn(
        &mut self,
        now: Instant,
        tuple: &Tuple,
        h: &Header,
        slot: Option<usize>,
    ) -> ListenerAction {
        if let Some(entry) = slot.and_then(|slot| self.table[slot]).filter(|e| e.offer.irs == h.seq)
        {
            return ListenerAction::Reply(self.syn_ack(now, &entry, None));
        }
        if self.waiting >= self.backlog {
            return self.dropped(DropCause::Backlog);
        }
        let ecn = h.flags.has(Flags::ECE | Flags::CWR);
        let offer = Offer::from_syn(h, ecn, self.cfg.default_mss);
        let mut entry = HalfOpen {
            tuple: *tuple,
            offer,
            iss: self.generator.isn(now, tuple),
            began: now,
            due: now + SYN_ACK_TIMEOUT,
            transmissions: 1,
        };
        if let Some(slot) = slot.or_else(|| self.free_slot(now, tuple)) {
            self.half_open += usize::from(self.table[slot].is_none());
            self.table[slot] = Some(entry);
            self.due = self.due.min(entry.due);
            // What lies ahead of the cursor is still looked at.
            if slot < self.cursor {
                self.due_before_cursor = self.due_before_cursor.min(entry.due);
            }
            return ListenerAction::Reply(self.syn_ack(now, &entry, None));
        }
        let kept = self.cookie_offer(&offer);
        entry.iss = self.cookies.issue(now, Client { flow: tuple, isn: h.seq }, &kept);
        self.cookies_until = now + COOKIE_LIFETIME;
        self.cookies_issued += 1;
        ListenerAction::Reply(self.syn_ack(now, &entry, Some(&kept)))
    }

    fn handle_ack(
        &mut self,
        now: Instant,
        tuple: &Tuple,
        h: &Header,
        payload_len: u32,
        slot: Option<usize>,
    ) -> ListenerAction {
        let reset = |listener: &mut Self| match reset_for(h, payload_len) {
            Some(reset) => ListenerAction::Reply(reset),
            None => listener.dropped(DropCause::Closed),
        };
        if h.flags.has(Flags::SYN) {
            return reset(self);
        }
        let ports = (tuple.flow.local, tuple.flow.remote);
        if let Some(slot) = slot
            && let Some(entry) = self.table[slot]
        {
            if h.ack != entry.iss + 1 {
                return reset(self);
            }
            // The client may have filled the window, and sent FIN behind it.
            let ahead = h.seq - (entry.offer.irs + 1);
            if ahead > self.cfg.recv_window.saturating_add(1) {
                return self.dropped(DropCause::OutOfWindow);
            }
            if self.waiting >= self.backlog {
                // The entry stays: the SYN-ACK goes out again and brings another ACK.
                return self.dropped(DropCause::Backlog);
            }
            self.remove(slot);
            self.waiting += 1;
            let start = self.start(tuple, entry.iss);
            let mut c = Connection::accept(&self.cfg, ports, start, &entry.offer, entry.began);
            if entry.transmissions > 1 {
                c.handshake_timed_out(now);
            }
            return ListenerAction::Accept(Box::new(c));
        }
        if now >= self.cookies_until {
            return reset(self);
        }
        let (isn, cookie) = (Seq(h.seq.0.wrapping_sub(1)), Seq(h.ack.0.wrapping_sub(1)));
        let timestamps = h.options.timestamps;
        let echo = timestamps.map(|t| t.1);
        let Some(kept) = self.cookies.check(now, Client { flow: tuple, isn }, cookie, echo) else {
            // A guess, or what a client sent behind its first segment, which was lost or overtaken and
            // comes again: a reset would end a handshake that is right.
            return self.dropped(DropCause::BadAck);
        };
        if self.waiting >= self.backlog {
            // The client believes that it is connected, and sends again what is not acknowledged.
            return self.dropped(DropCause::Backlog);
        }
        let offer = Offer {
            irs: isn,
            window: 0,
            mss: kept.mss,
            window_scale: kept.window_scale,
            timestamp: timestamps.map(|t| t.0).filter(|_| kept.timestamps),
            sack: kept.sack,
            ecn: kept.ecn,
            user_timeout: None,
        };
        self.waiting += 1;
        self.cookies_accepted += 1;
        let start = self.start(tuple, cookie);
        let mut c = Connection::accept(&self.cfg, ports, start, &offer, now);
        c.forget_handshake_time(now);
        ListenerAction::Accept(Box::new(c))
    }

    /// The timestamp offset is the flow's: nothing has to remember it.
    fn start(&self, tuple: &Tuple, iss: Seq) -> Start {
        Start { iss, timestamp_offset: self.generator.timestamp_offset(tuple) }
    }

    /// What a cookie carries: only what we want too.
    fn cookie_offer(&self, offer: &Offer) -> syn_cookie::Offer {
        let timestamps = offer.timestamp.is_some() && self.cfg.timestamps;
        syn_cookie::Offer {
            mss: offer.mss.max(COOKIE_MSS_MIN),
            window_scale: offer.window_scale.filter(|_| timestamps && self.cfg.window_scaling),
            sack: timestamps && offer.sack && self.cfg.sack,
            ecn: timestamps && offer.ecn && self.cfg.ecn,
            timestamps,
        }
    }

    fn syn_ack(
        &self,
        now: Instant,
        entry: &HalfOpen,
        cookie: Option<&syn_cookie::Offer>,
    ) -> Header {
        let (cfg, offer) = (&self.cfg, &entry.offer);
        let offset = self.generator.timestamp_offset(&entry.tuple);
        let clock = (now.as_ms() as u32).wrapping_add(offset);
        let (scaling, sack, ecn) = match cookie {
            Some(kept) => (kept.window_scale.is_some(), kept.sack, kept.ecn),
            None => (
                cfg.window_scaling && offer.window_scale.is_some(),
                cfg.sack && offer.sack,
                cfg.ecn && offer.ecn,
            ),
        };
        let value = cookie.map_or(clock, |kept| Cookies::timestamp(clock, kept));
        Header {
            src_port: entry.tuple.flow.local,
            dst_port: entry.tuple.flow.remote,
            seq: entry.iss,
            ack: offer.irs + 1,
            flags: if ecn { Flags::SYN | Flags::ACK | Flags::ECE } else { Flags::SYN | Flags::ACK },
            window: cfg.initial_recv_window.min(cfg.recv_window).min(u32::from(u16::MAX)) as u16,
            options: Options {
                mss: Some(cfg.mss),
                window_scale: scaling.then(|| window_shift(cfg)),
                sack_permitted: sack,
                timestamps: offer
                    .timestamp
                    .filter(|_| cfg.timestamps)
                    .map(|theirs| (value, theirs)),
                user_timeout: cfg.user_timeout.map(user_timeout_field),
                ..Options::default()
            },
            ..Header::default()
        }
    }

    /// Cookies given out, and handshakes completed with one.
    pub fn cookies(&self) -> (u64, u64) {
        (self.cookies_issued, self.cookies_accepted)
    }

    /// Segments dropped without an answer.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    fn dropped(&mut self, cause: DropCause) -> ListenerAction {
        self.drops += 1;
        ListenerAction::Drop(cause)
    }

    fn set_of(&self, tuple: &Tuple) -> core::ops::Range<usize> {
        let sets = self.table.len() / WAYS;
        let first = (self.generator.flow_hash(tuple) as usize & (sets - 1)) * WAYS;
        first..first + WAYS
    }

    fn find(&self, tuple: &Tuple) -> Option<usize> {
        if self.half_open == 0 {
            return None;
        }
        self.set_of(tuple).find(|slot| self.table[*slot].is_some_and(|e| e.tuple == *tuple))
    }

    /// A free entry, or one that has waited for its last retransmission.
    fn free_slot(&mut self, now: Instant, tuple: &Tuple) -> Option<usize> {
        if self.half_open >= self.backlog {
            return None;
        }
        let last = self.cfg.syn_transmissions;
        self.set_of(tuple)
            .find(|slot| self.table[*slot].is_none_or(|e| e.due <= now && e.transmissions >= last))
    }

    fn remove(&mut self, slot: usize) {
        if self.table[slot].take().is_some() {
            self.half_open -= 1;
        }
    }
}

impl machine::Listener for Listener {
    type Protocol = Config;

    fn handle_stray(
        &mut self,
        now: Instant,
        tuple: &Tuple,
        h: &Header,
        payload_len: u32,
    ) -> ListenerAction {
        let slot = self.find(tuple);
        if h.flags.has(Flags::RST) {
            if let Some(slot) = slot
                && self.table[slot].is_some_and(|e| h.seq == e.offer.irs + 1)
            {
                self.remove(slot);
            }
            return self.dropped(DropCause::Closed);
        }
        if h.flags.has(Flags::ACK) {
            return self.handle_ack(now, tuple, h, payload_len, slot);
        }
        if !h.flags.has(Flags::SYN) {
            return self.dropped(DropCause::NoAck);
        }
        self.handle_syn(now, tuple, h, slot)
    }

    fn poll_reply(&mut self, now: Instant) -> Option<(Tuple, Header)> {
        if now < self.due {
            return None;
        }
        // One turn over the table for all that are due, however many.
        while self.cursor < self.table.len() {
            let slot = self.cursor;
            self.cursor += 1;
            let Some(mut entry) = self.table[slot] else { continue };
            let due = entry.due <= now;
            if due && entry.transmissions >= self.cfg.syn_transmissions {
                self.remove(slot);
                continue;
            }
            if due {
                entry.due = now + SYN_ACK_TIMEOUT * (1 << entry.transmissions.min(6));
                entry.transmissions += 1;
                self.table[slot] = Some(entry);
            }
            self.due_before_cursor = self.due_before_cursor.min(entry.due);
            if due {
                return Some((entry.tuple, self.syn_ack(now, &entry, None)));
            }
        }
        self.cursor = 0;
        self.due = core::mem::replace(&mut self.due_before_cursor, NEVER);
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.due).filter(|at| *at != NEVER)
    }

    fn taken(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn half_open(&self) -> usize {
        self.half_open
    }

    fn cookies_given(&self) -> u64 {
        self.cookies_issued
    }
}

/// The RST that answers a segment which belongs to no connection and no listener (RFC 9293, section
/// 3.10.7.1); none for an RST.
pub fn reset_for(h: &Header, payload_len: u32) -> Option<Header> {
    if h.flags.has(Flags::RST) {
        return None;
    }
    let mut reset = Header {
        src_port: h.dst_port,
        dst_port: h.src_port,
        flags: Flags::RST,
        ..Header::default()
    };
    if h.flags.has(Flags::ACK) {
        reset.seq = h.ack;
    } else {
        let len =
            payload_len + u32::from(h.flags.has(Flags::SYN)) + u32::from(h.flags.has(Flags::FIN));
        reset.ack = h.seq + len;
        reset.flags |= Flags::ACK;
    }
    Some(reset)
}
