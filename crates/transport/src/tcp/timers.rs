//! The deadlines of a connection, a flat array, so that arming one is a store; and what happens when one
//! passes. What the retransmission timers do is in `recovery`.

use super::connection::{Connection, Probe};
use super::state::State;
use core::time::Duration;
use fusewire_base::Instant;

/// Longest time between zero-window probes.
const PERSIST_MAX: Duration = Duration::from_secs(60);

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Timer {
    /// Retransmission (RFC 6298).
    Rto,
    /// Tail loss probe (RFC 8985, section 7).
    TailLoss,
    /// RACK's reordering window (RFC 8985, section 6.3).
    Reorder,
    /// Delayed acknowledgement.
    DelayedAck,
    /// Zero or small window (RFC 9293, section 3.8.6.1).
    Persist,
    /// Keep-alive.
    KeepAlive,
    /// 2 MSL, and FIN-WAIT-2.
    TimeWait,
    /// Pacing lets something out.
    Pace,
}

const TIMERS: usize = Timer::Pace as usize + 1;
const NEVER: Instant = Instant::from_ns(u64::MAX);

/// All deadlines.
#[derive(Clone, Debug)]
pub(super) struct Timers([Instant; TIMERS]);

impl Default for Timers {
    fn default() -> Self {
        Timers([NEVER; TIMERS])
    }
}

impl Timers {
    pub fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }

    pub fn clear(&mut self, timer: Timer) {
        self.0[timer as usize] = NEVER;
    }

    pub fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize] != NEVER
    }

    pub fn at(&self, timer: Timer) -> Option<Instant> {
        Some(self.0[timer as usize]).filter(|at| *at != NEVER)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        let mut earliest = NEVER;
        for at in self.0 {
            earliest = earliest.min(at);
        }
        Some(earliest).filter(|at| *at != NEVER)
    }

    /// Takes a deadline that has passed: true once.
    pub fn take(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.0[timer as usize] <= now;
        if due {
            self.clear(timer);
        }
        due
    }
}

impl Connection {
    pub(super) fn arm_persist(&mut self, now: Instant) {
        if !self.timers.is_set(Timer::Persist) {
            let factor = 1u32 << self.send.probes.min(10);
            let wait = (self.rtt.rto() * factor).min(PERSIST_MAX.min(self.settings.rto_max));
            self.timers.set(Timer::Persist, now + wait);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Time has passed. Follow it with `poll_transmit` and `poll_event`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timers.next().is_none_or(|at| at > now) {
            return;
        }
        self.timers.take(Timer::Pace, now);
        if self.timers.take(Timer::DelayedAck, now) {
            self.events.send_ack = true;
        }
        if self.timers.take(Timer::Reorder, now) {
            self.on_reorder_timeout(now);
        }
        if self.timers.take(Timer::TailLoss, now) {
            self.on_tail_loss_timeout(now);
        }
        if self.timers.take(Timer::Rto, now) {
            self.on_rto(now);
        }
        if self.timers.take(Timer::Persist, now) {
            self.on_persist_timeout(now);
        }
        if self.timers.take(Timer::KeepAlive, now) {
            self.on_keep_alive_timeout(now);
        }
        if self.timers.take(Timer::TimeWait, now) {
            match self.settings.fin_wait_2 {
                Some(silence)
                    if self.state == State::FinWait2 && now - self.recv.heard_at < silence =>
                {
                    self.timers.set(Timer::TimeWait, self.recv.heard_at + silence);
                }
                _ => self.enter_closed(),
            }
        }
    }

    fn on_persist_timeout(&mut self, now: Instant) {
        let edge = self.send.una + u64::from(self.send.wnd);
        if edge > self.send.nxt {
            self.send.probe = Probe::SmallWindow;
            return;
        }
        self.send.probes = self.send.probes.saturating_add(1);
        let patience = self.settings.user_timeout.unwrap_or(Duration::MAX);
        let unheard = now - self.recv.heard_at;
        if unheard >= patience
            || (self.send.probes > self.settings.max_retransmissions && unheard > PERSIST_MAX * 2)
        {
            return self.time_out();
        }
        self.send.probe = Probe::Empty;
        self.arm_persist(now);
    }

    fn on_keep_alive_timeout(&mut self, now: Instant) {
        let Some(keep_alive) = self.settings.keep_alive else { return };
        let idle = now - self.recv.heard_at;
        if idle < keep_alive.idle {
            self.send.probes = 0;
            self.timers.set(Timer::KeepAlive, self.recv.heard_at + keep_alive.idle);
            return;
        }
        // Unacknowledged data is the retransmission timer's.
        if self.send.una == self.send.nxt {
            if self.send.probes >= keep_alive.probes {
                return self.time_out();
            }
            self.send.probes += 1;
            self.send.probe = Probe::Empty;
        }
        self.timers.set(Timer::KeepAlive, now + keep_alive.interval);
    }
}
