//! The deadlines of a connection, and what happens when one passes. What the retransmission timers do is in `recovery`.

use super::connection::{Connection, Probe};
use super::state::State;
use crate::deadlines::timers;
use core::time::Duration;
use fusewire_base::Instant;

/// Longest time between zero-window probes.
const PERSIST_MAX: Duration = Duration::from_secs(60);

timers! {
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
