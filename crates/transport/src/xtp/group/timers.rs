//! The sender's deadlines.

use super::sender::{Sender, Stage};
use crate::congestion::{Controller, Signal};
use crate::deadlines::timers;
use crate::rack::Phase;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::Key;

/// How often it is looked at who holds the others.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// How long after the last packet of few all are asked.
const TAIL: Duration = Duration::from_millis(25);
/// Who has not answered is asked alone no sooner than so long after twice what answers take.
const PROBE_MIN: Duration = Duration::from_millis(2);
/// Who is silent is asked about so often before it is dropped.
pub(super) const TRIES: u32 = 32;
/// No WTIMER is shorter where that many questions would need it.
const WTIMER_LEAST: Duration = Duration::from_millis(5);
/// Members that are asked alone at once.
const ALONE_MAX: usize = 16;

timers! {
    /// FIRST.
    Announce,
    /// Who holds the others.
    Look,
    /// WTIMER: somebody has not answered.
    W,
    /// All are to be asked of what was sent since they were.
    Tail,
    /// What was reported may be late.
    Reorder,
    /// Pacing or RTIMER lets something out.
    Pace,
    /// The end of who answers still.
    Over,
}

impl Sender {
    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest.
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
            self.stage = Stage::Over;
            self.timers = Timers::default();
            self.outgoing.clear();
            self.members.clear();
            return;
        }
        if self.timers.take(Timer::Announce, now) {
            self.first_due = true;
            self.timers.set(Timer::Announce, now + self.cfg.announce);
        }
        if self.timers.take(Timer::Reorder, now) {
            self.on_reorder_timeout(now);
        }
        if self.timers.take(Timer::Tail, now) {
            self.on_tail(now);
        }
        if self.timers.take(Timer::W, now) {
            self.on_wtimer(now);
        }
        if self.timers.take(Timer::Look, now) {
            self.timers.set(Timer::Look, now + LOOK);
            self.look(now);
        }
    }

    /// Largest WTIMER: a member is asked alone [`TRIES`] times before it counts as silent.
    pub(super) fn wtimer_max(&self) -> Duration {
        (self.cfg.silence / TRIES).max(WTIMER_LEAST)
    }

    /// WTIMER of the slowest.
    fn rto(&self) -> Duration {
        let longest = self.wtimer_max();
        let rto = self.members.values().map(|m| m.rtt.rto()).max().unwrap_or(longest);
        rto.saturating_mul(1 << self.retries.min(10)).min(longest)
    }

    /// Somebody was asked.
    pub(super) fn start_wtimer(&mut self, now: Instant) {
        if !self.timers.is_set(Timer::W) {
            self.timers.set(Timer::W, now + self.rto());
        }
    }

    /// Somebody has answered, or is gone: WTIMER runs for who has not for longest.
    pub(super) fn restart_wtimer(&mut self, now: Instant) {
        let Some(oldest) = self.members.values().filter_map(|m| m.waits_since).min() else {
            self.retries = 0;
            return self.timers.clear(Timer::W);
        };
        if self.retries > 0 && oldest + self.rto() > now {
            self.retries = 0;
        }
        if self.retries == 0 {
            self.timers.set(Timer::W, (oldest + self.rto()).max(now));
        }
    }

    fn on_wtimer(&mut self, now: Instant) {
        let waiting = self.waiting();
        if waiting.is_empty() {
            return;
        }
        self.counters.timeouts += 1;
        let nobody = waiting.len() == self.members.len();
        if nobody && self.retries == 0 && self.queue.in_flight() > 0 {
            self.cc.on_congestion(now, Signal::Timeout, self.nxt - self.una);
            self.phase = Phase::Loss { until: self.nxt };
        }
        self.retries += 1;
        for id in waiting {
            self.ask_alone(now, id);
        }
        self.timers.set(Timer::W, now + self.rto());
    }

    /// Those that have not answered, who waits longest first.
    fn waiting(&self) -> Vec<Key> {
        let mut waiting: Vec<(Instant, Key)> =
            self.members.iter().filter_map(|(id, m)| Some((m.waits_since?, *id))).collect();
        waiting.sort_unstable();
        waiting.into_iter().take(ALONE_MAX).map(|(_, id)| id).collect()
    }

    /// Schedules the question about what was sent since all were asked, or about who has not answered.
    pub(super) fn arm_tail(&mut self, now: Instant) {
        self.timers.clear(Timer::Tail);
        if !self.is_reliable() || self.members.is_empty() {
            return;
        }
        let next = self.queue.next_unsent();
        let exhausted = next.is_some_and(|s| s.end() > self.edge);
        let under_way = self.una < self.nxt;
        let at = if self.sync.packets > 0 && under_way {
            let stuck = exhausted || next.is_some_and(|s| !self.fits(s.len));
            let few = (self.sync.packets as usize) < 2 * self.members.len();
            let rest = if few && !stuck { self.sent_at + TAIL } else { now };
            rest.max(self.asked_at + self.pause)
        } else if under_way && self.members.values().any(|m| m.waits()) {
            if self.probed {
                return;
            }
            self.asked_at + 2 * self.pause + PROBE_MIN
        } else if under_way || exhausted {
            // Members tell when their windows open: this is for when that was lost.
            self.asked_at.max(self.sent_at) + self.cfg.wtimer_min
        } else {
            return;
        };
        // Not at once: what lets more out may have come with what is being looked at.
        self.timers.set(Timer::Tail, at.max(now + Duration::from_micros(1)));
    }

    fn on_tail(&mut self, now: Instant) {
        let waiting = self.waiting();
        if self.sync.packets > 0 || waiting.is_empty() {
            self.ask_first = true;
            return;
        }
        self.probed = true;
        self.counters.tail_loss_probes += 1;
        for id in waiting {
            self.ask_alone(now, id);
        }
    }
}
