//! The deadlines of a connection: a flat array, so that arming one is a store.

use fusewire_base::Instant;

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
