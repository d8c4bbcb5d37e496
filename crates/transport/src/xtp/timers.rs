//! The deadlines of a context, and what happens when one passes.

use super::connection::Connection;
use super::state::State;
use crate::congestion::{Controller, Signal};
use crate::deadlines::timers;
use crate::rack::Phase;
use core::time::Duration;
use fusewire_base::Instant;

/// The tail is asked about no sooner than so long after twice the round-trip time.
const TAIL_MIN: Duration = Duration::from_millis(2);
/// Longest time between questions about an exhausted window.
const PERSIST_MAX: Duration = Duration::from_secs(60);
/// When what waits for nothing else is asked about, before there is a round-trip time.
const TAIL_INITIAL: Duration = Duration::from_secs(1);

timers! {
    /// WTIMER: a packet with SREQ is unanswered.
    W,
    /// Nothing has come for a while, and data are under way (RFC 8985, section 7).
    Tail,
    /// RACK's reordering window (RFC 8985, section 6.3).
    Reorder,
    /// The window is exhausted.
    Persist,
    /// CTIMER: nothing was accepted for long.
    C,
    /// The end of a context that is half open, or inactive.
    Over,
    /// Pacing or RTIMER lets something out.
    Pace,
}

impl Connection {
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
        if self.timers.take(Timer::Over, now) {
            return self.on_over();
        }
        if self.timers.take(Timer::Reorder, now) {
            self.on_reorder_timeout(now);
        }
        if self.timers.take(Timer::Tail, now) {
            self.on_tail_timeout(now);
        }
        if self.timers.take(Timer::W, now) {
            self.on_wtimer(now);
        }
        if self.timers.take(Timer::Persist, now) {
            self.send.persists = self.send.persists.saturating_add(1);
            self.send.ask = true;
            self.counters.probes += 1;
        }
        if self.timers.take(Timer::C, now) {
            self.on_ctimer(now);
        }
    }

    /// A packet with SREQ has left.
    pub(super) fn start_wtimer(&mut self, now: Instant) {
        if !self.timers.is_set(Timer::W) {
            self.timers.set(Timer::W, now + self.wtimer(now));
        }
    }

    /// WTIMER, but no longer than CTIMEOUT leaves.
    fn wtimer(&self, now: Instant) -> Duration {
        let end = self.patience();
        self.rtt.rto().min(end - now).max(Duration::from_millis(1))
    }

    /// When CTIMEOUT is over.
    fn patience(&self) -> Instant {
        if self.is_opening() {
            self.began + self.settings.opening_timeout
        } else {
            self.heard_at() + self.settings.ctimeout
        }
    }

    /// An answer came, or an echo: WTIMER runs for the next question, if one is unanswered.
    pub(super) fn restart_wtimer(&mut self, now: Instant) {
        self.timers.clear(Timer::W);
        if self.sync.waits() {
            self.start_wtimer(now);
        }
    }

    fn on_wtimer(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        if now >= self.patience() {
            return self.time_out();
        }
        self.rtt.back_off();
        self.timers.clear(Timer::Tail);
        if self.is_opening() {
            // There is nobody to ask: FIRST goes again, with all its data.
            self.send.queue.mark_all_lost();
            self.send.first_due = true;
        } else {
            self.sync.shake_hands();
            if self.sync.retries == 1 && self.send.queue.in_flight() > 0 {
                let outstanding = self.send.nxt - self.send.una;
                self.cc.on_congestion(now, Signal::Timeout, outstanding);
                self.phase = Phase::Loss { until: self.send.nxt };
            }
            self.send.ask = true;
        }
        self.timers.set(Timer::W, now + self.wtimer(now));
    }

    /// Schedules the question about the tail, or leaves it to WTIMER.
    pub(super) fn arm_tail(&mut self, now: Instant) {
        let unanswered = self.send.queue.sent() > 0 || self.send.wclosed && !self.send.done;
        if !unanswered || self.sync.is_shaking_hands() || self.is_opening() {
            return self.timers.clear(Timer::Tail);
        }
        if self.send.queue.lost() > 0 && now < self.send.resend_at {
            // Nothing new is under way until then.
            return self.timers.clear(Timer::Tail);
        }
        // What nothing else would ask about is asked about in any case.
        let forced = !self.sync.waits();
        if !forced && (self.send.probed || !self.settings.tail_probe) {
            return self.timers.clear(Timer::Tail);
        }
        let wait = self.rtt.srtt().map_or(TAIL_INITIAL, |srtt| 2 * srtt + TAIL_MIN);
        self.timers.set(Timer::Tail, now + wait.max(TAIL_MIN));
    }

    fn on_tail_timeout(&mut self, now: Instant) {
        if now >= self.patience() {
            return self.time_out();
        }
        self.send.probed = true;
        self.send.ask = true;
        self.counters.tail_loss_probes += 1;
        self.start_wtimer(now);
    }

    /// The window is exhausted, and nothing is under way.
    pub(super) fn arm_persist(&mut self, now: Instant) {
        if !self.timers.is_set(Timer::Persist) {
            let factor = 1u32 << self.send.persists.min(10);
            let wait = (self.rtt.rto() * factor).min(PERSIST_MAX.min(self.settings.wtimer_max));
            self.timers.set(Timer::Persist, now + wait);
        }
    }

    /// Something was accepted, or the peer is known.
    pub(super) fn arm_ctimer(&mut self, now: Instant) {
        if let Some(keep_alive) = self.settings.keep_alive
            && matches!(self.state, State::Open)
            && !self.timers.is_set(Timer::C)
        {
            self.timers.set(Timer::C, now + keep_alive.idle);
        }
    }

    fn on_ctimer(&mut self, now: Instant) {
        let Some(keep_alive) = self.settings.keep_alive else { return };
        let idle = now - self.recv.heard_at;
        let wait = if idle < keep_alive.idle {
            keep_alive.idle - idle
        } else {
            self.send.ask = true;
            self.counters.probes += 1;
            keep_alive.idle
        };
        self.timers.set(Timer::C, now + wait);
    }

    fn on_over(&mut self) {
        match self.state {
            State::HalfOpen => {
                self.events.timed_out = true;
                self.enter_quiescent();
            }
            State::Inactive => self.enter_quiescent(),
            _ => {}
        }
    }

    /// How an idle context asks.
    pub fn keep_alive(&self) -> Option<crate::machine::KeepAlive> {
        self.settings.keep_alive
    }

    /// Questions on an idle context, or none, from `now` on.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<crate::machine::KeepAlive>) {
        self.settings.keep_alive = keep_alive;
        self.timers.clear(Timer::C);
        self.arm_ctimer(now);
    }
}
