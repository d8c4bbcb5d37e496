//! Passive open: who takes FIRST (`docs/xtp.md`, section 7). A bounded number of contexts is half open; beyond it nothing is
//! kept, and the key that is told is a cookie.

use super::config::Config;
use super::connection::{Connection, Keys as Names, Name, Origin, first_sync};
use super::cookies::{Keys, Opening, Spent};
use super::half_open::Places;
use super::state::State;
use super::timers::Timer;
use super::{Ends, Header, ListenerAction};
use crate::machine::{self, DropCause, Secrets};
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Code, Diag, First, Key, Options, Reason, Service};

/// More than is ever sent before a peer is heard.
pub(super) const PROVEN: u64 = 1 << 62;

/// A listening service.
#[derive(Debug)]
pub struct Listener {
    cfg: Config,
    keys: Keys,
    cookies: Keys,
    spent: Spent,
    places: Places,
    backlog: usize,
    /// Accepted contexts that the application has not taken.
    waiting: usize,
    cookies_given: u64,
    cookies_accepted: u64,
    drops: u64,
}

impl Listener {
    /// A listener whose contexts are made with `cfg`. At most `backlog` are half open, and at most as many wait for the
    /// application.
    pub fn new(cfg: &Config, backlog: usize, secrets: &Secrets) -> Listener {
        Listener {
            cfg: cfg.clone(),
            keys: Keys::new(&secrets.isn),
            cookies: Keys::new(&secrets.cookie),
            spent: Spent::default(),
            places: Places::default(),
            backlog: backlog.max(1),
            waiting: 0,
            cookies_given: 0,
            cookies_accepted: 0,
            drops: 0,
        }
    }

    /// Cookies given out, and contexts made of one.
    pub fn cookies(&self) -> (u64, u64) {
        (self.cookies_given, self.cookies_accepted)
    }

    /// Packets dropped without an answer.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    fn dropped(&mut self, cause: DropCause) -> ListenerAction {
        self.drops += 1;
        ListenerAction::Drop(cause)
    }

    /// Why FIRST is refused, if it is.
    fn refuses(&self, ends: &Ends, h: &Header, first: &First) -> Option<Reason> {
        if let Err(reason) = first.address.fits(ends.local.ip(), ends.remote) {
            return Some(reason);
        }
        let wanted = self.cfg.service;
        let service = first.traffic.service;
        if service != wanted && service != Service::Unspecified {
            return Some(Reason::Service);
        }
        let unproven = h.options.has(Options::NOCHECK) && !self.cfg.nocheck;
        (h.options.has(Options::MULTI) || unproven).then_some(Reason::Options)
    }

    /// FIRST under the sender's own key.
    fn open(&mut self, now: Instant, ends: &Ends, h: &Header, first: &First) -> ListenerAction {
        if self.places.has_opened(now, ends.remote, h.key) {
            return self.dropped(DropCause::BlindOpen);
        }
        if self.waiting >= self.backlog {
            return self.dropped(DropCause::Backlog);
        }
        if let Some(place) = self.places.take(self.backlog, ends.remote, h.key) {
            let own = self.keys.key(now, &(ends.remote, h.key));
            let mut c = self.accept(now, h, first, own, h.key, ends.flow);
            c.half_open = Some(place);
            if self.places.is_proven(now, ends.remote) {
                c.credit = PROVEN;
            }
            c.timers.set(Timer::Over, now + c.settings.half_open_timeout);
            return ListenerAction::Accept(Box::new(c));
        }
        self.cookies_given += 1;
        let service = self.cfg.service;
        ListenerAction::Reply(self.cookies.tell_cookie(now, ends, (h, first), service))
    }

    /// FIRST under a key that we have returned, if it is a cookie of ours.
    fn open_by_cookie(
        &mut self,
        now: Instant,
        ends: &Ends,
        h: &Header,
        first: &First,
    ) -> ListenerAction {
        let Some(peer) = first.xkey else { return self.dropped(DropCause::Malformed) };
        if !self.cookies.is_cookie(now, &Opening::of(ends, h, first, peer), h.key) {
            return self.dropped(DropCause::BlindOpen);
        }
        self.spent.forget(now);
        if self.spent.has(h.key) {
            return self.dropped(DropCause::BlindOpen);
        }
        if self.waiting >= self.backlog || !self.spent.spend(now, h.key) {
            return self.dropped(DropCause::Backlog);
        }
        self.cookies_accepted += 1;
        let mut c = self.accept(now, h, first, h.key, peer, ends.flow);
        self.places.note_shown(now, ends.remote, peer);
        // The address is proven; that a context was made is told until it is known.
        c.credit = PROVEN;
        c.timers.set(Timer::Over, now + c.settings.opening_timeout);
        ListenerAction::Accept(Box::new(c))
    }

    /// A context that waits for the FIRST which opens it.
    fn accept(
        &mut self,
        now: Instant,
        h: &Header,
        first: &First,
        own: Key,
        peer: Key,
        name: Name,
    ) -> Connection {
        self.waiting += 1;
        let mut cfg = self.cfg.clone();
        cfg.cxor &= h.options.has(Options::RES);
        let origin = Origin {
            state: State::HalfOpen,
            keys: Names { own, peer: Some(peer), first: name },
            address: first.address,
            sync: first_sync(own),
        };
        let mut c = Connection::new(&cfg, &origin, now);
        c.send.trailers = cfg.cxor;
        if let Some(limits) = &first.traffic.limits {
            c.take_limits(limits);
        }
        c.events.established = true;
        c
    }
}

impl machine::Listener for Listener {
    type Protocol = Config;

    fn handle_stray(&mut self, now: Instant, ends: &Ends, h: &Header, _: u32) -> ListenerAction {
        let Body::First(first) = &h.body else {
            return match machine::Header::refusal(h, h.data_len) {
                Some(diag) => ListenerAction::Reply(diag),
                None => self.dropped(DropCause::Closed),
            };
        };
        if let Some(reason) = self.refuses(ends, h, first) {
            return match refused(h, reason) {
                Some(diag) => ListenerAction::Reply(diag),
                None => self.dropped(DropCause::Protocol),
            };
        }
        if h.returned {
            self.open_by_cookie(now, ends, h, first)
        } else {
            self.open(now, ends, h, first)
        }
    }

    fn taken(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn half_open(&self) -> usize {
        self.places.taken()
    }

    fn cookies_given(&self) -> u64 {
        self.cookies_given
    }
}

/// DIAG 1 for a FIRST; who sends a datagram, or to many, is told nothing.
pub(super) fn refused(h: &Header, reason: Reason) -> Option<Header> {
    let datagram = matches!(
        &h.body, Body::First(first) if first.traffic.service == Service::UnacknowledgedDatagram
    );
    let diag = Diag { code: Code::ContextRefused, reason };
    let is_told = !h.returned && !datagram && !h.options.has(Options::MULTI);
    is_told.then(|| diag_for(h.key, true, diag))
}

/// A DIAG under `key`.
pub(super) fn diag_for(key: Key, returned: bool, diag: Diag) -> Header {
    Header {
        key,
        returned,
        options: Options::NONE,
        sort: 0,
        check: 0,
        sync: 0,
        seq: 0,
        data_len: 0,
        body: Body::Diag(diag),
    }
}
