//! What a transaction becomes that is more than two packets: a context of which the one stream has ended.

use super::super::connection::{Connection, Keys, Name, Origin, first_sync};
use super::super::state::State;
use super::super::sync::Sync;
use super::super::timers::Timer;
use super::super::{Config, Header};
use crate::machine::Cut;
use crate::rtt::Estimator;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Address, Key, Limits, Service, TrafficControl};

/// What a responder knows of a request.
pub(super) struct Asked {
    pub own: Key,
    pub peer: Key,
    pub address: Address,
    /// Bytes of it.
    pub len: u64,
    /// The latest sync of its sender's.
    pub sync: u32,
    pub limits: Option<Limits>,
    /// Bytes that may be sent; without bound to an address that is proven.
    pub credit: u64,
}

impl Asked {
    /// The responder's context: all of the request has come, which it tells by TCNTL at once; what is committed is the
    /// answer.
    pub fn context(&self, cfg: &Config, service: Service, now: Instant) -> Connection {
        let cfg = Config { service, messages: false, btag: false, cxor: false, ..cfg.clone() };
        let first = Name { key: self.peer, returned: false };
        let origin = Origin {
            state: State::HalfOpen,
            keys: Keys { own: self.own, peer: Some(self.peer), first },
            address: self.address,
            sync: first_sync(self.own),
        };
        let mut c = Connection::new(&cfg, &origin, now);
        if let Some(limits) = &self.limits {
            c.take_limits(limits);
        }
        let recv = &mut c.recv;
        (recv.nxt, recv.consumed, recv.adv, recv.fin) = (self.len, self.len, self.len, self.len);
        recv.done = true;
        c.sync.note_peer(self.sync);
        c.credit = self.credit;
        c.send.alloc = c.send.alloc.max(cfg.answer_alloc.into());
        c.events.answer = true;
        c.timers.set(Timer::Over, now + cfg.opening_timeout);
        c
    }
}

impl Connection {
    /// All that will be sent in it, at once; false when there is no room for so much.
    pub(super) fn send_all(&mut self, len: u32) -> bool {
        if len > 0 {
            let Some(reservation) = self.reserve(len) else { return false };
            self.commit(reservation, Cut::Record);
        }
        self.finish();
        true
    }

    /// The initiator's context, once the responder has told that all of the request has come; `None` if what came is not
    /// that.
    pub(super) fn asked(
        cfg: &Config,
        keys: (Key, Option<Key>),
        address: Address,
        len: u64,
        now: Instant,
        questions: (&Sync, &Estimator),
        told: (&Header, &TrafficControl),
    ) -> Option<Connection> {
        let (own, cookie) = keys;
        let state = if cookie.is_some() { State::Cookie } else { State::Opening };
        let first = Name { key: own, returned: true };
        let keys = Keys { own, peer: cookie, first };
        let origin = Origin { state, keys, address, sync: questions.0.latest };
        let cfg = Config {
            messages: false,
            btag: false,
            cxor: false,
            service: Service::Transaction,
            initial_recv_window: cfg.recv_window,
            ..cfg.clone()
        };
        let mut c = Connection::new(&cfg, &origin, now);
        c.sync = questions.0.clone();
        c.rtt = questions.1.clone();
        let send = &mut c.send;
        (send.una, send.nxt, send.end) = (len, len, len);
        (send.finishing, send.wclosed, send.done, send.first_due) = (true, true, true, false);
        c.final_traffic(now, told.0, told.1);
        (c.state() == State::Open).then_some(c)
    }
}
