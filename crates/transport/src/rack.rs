//! Loss detection by time (RACK, RFC 8985): what was sent well before something that arrived is lost.

use crate::congestion::{self, Controller, Lost};
use crate::prr;
use crate::queue::{Segment, SendQueue, flag};
use crate::rtt::Estimator;
use core::time::Duration;
use fusewire_base::Instant;

/// Sacked segments that end the patience for reordering (DupThresh).
const DUPLICATE_THRESHOLD: u32 = 3;

/// Recoveries for which a widened reordering window lasts (RFC 8985, section 6.2, step 4).
const REORDER_PERSIST: u8 = 16;

/// What the sender is doing about losses.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery until SND.UNA reaches `until` (RFC 6675), led by PRR (RFC 6937) unless the controller
    /// does that.
    Recovery { until: u64, prr: Option<prr::Recovery> },
    /// Slow start after a timeout until SND.UNA reaches `until`.
    Loss { until: u64 },
}

impl Phase {
    /// Proportional rate reduction, when it rules instead of the window.
    pub fn prr(&self) -> Option<&prr::Recovery> {
        let Phase::Recovery { prr, .. } = self else { return None };
        prr.as_ref()
    }

    pub fn prr_mut(&mut self) -> Option<&mut prr::Recovery> {
        let Phase::Recovery { prr, .. } = self else { return None };
        prr.as_mut()
    }

    /// Everything below `una` has come: whether the recovery is over with that, which the controller hears.
    pub fn leave(&mut self, una: u64, cc: &mut congestion::State, now: Instant) -> bool {
        match *self {
            Phase::Recovery { until, .. } if una >= until => cc.on_recovered(now),
            Phase::Loss { until } if una >= until => {
                if cc.steers_recovery() {
                    cc.on_recovered(now);
                }
            }
            _ => return false,
        }
        *self = Phase::Open;
        true
    }
}

/// RACK's variables (RFC 8985, section 5.2).
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// Send time and end of the most recently sent segment that was delivered.
    sent_at: Instant,
    end: u64,
    /// Its round-trip time.
    rtt: Duration,
    /// Highest position delivered, and what it was before this acknowledgement: the segments of one
    /// acknowledgement say nothing about each other's order.
    fack: u64,
    fack_before: u64,
    pub reordering_seen: bool,
    /// Lowest position that this acknowledgement delivered late.
    late: u64,
    /// How far reordering went, in segments, and how many acknowledgements showed some.
    reordering: u32,
    reorderings: u32,
    /// Extra quarters of the minimum round-trip time to wait.
    extra_quarters: u8,
    /// Recoveries until they are given up.
    persist: u8,
    /// The window was widened in the round that ends here.
    widened: u64,
}

/// What one acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    pub bytes: u64,
    pub segments: u32,
    /// Segments among these that went again in this recovery, so short a time ago that what arrived is what was taken for lost:
    /// less than half the least round trip, and after the question that is answered. XTP counts them.
    pub late: u32,
    /// Send time of the latest segment that was sent once.
    pub latest_once: Option<Instant>,
    /// Last send time of the latest segment that had been sent again.
    pub latest_again: Option<Instant>,
}

/// What [`Rack::detect`] found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Bytes newly taken for lost.
    pub bytes: u64,
    /// `true` if a part of them had been sent more than once.
    pub again: bool,
    /// In so long something more is due.
    pub wait: Option<Duration>,
}

impl Rack {
    /// The deliveries of another acknowledgement follow.
    pub fn begin_ack(&mut self) {
        self.fack_before = self.fack;
        self.late = u64::MAX;
    }

    /// These were all.
    pub fn end_ack(&mut self, max_payload: u32) {
        if self.late < self.fack_before {
            let distance = (self.fack_before - self.late).div_ceil(u64::from(max_payload.max(1)));
            self.reordering = self.reordering.max(distance.min(300) as u32);
            self.reorderings += 1;
        }
    }

    /// Something was delivered.
    pub fn has_delivered(&self) -> bool {
        self.fack > 0
    }

    pub fn reordering(&self) -> u32 {
        self.reordering
    }

    pub fn reorderings(&self) -> u32 {
        self.reorderings
    }

    /// Steps 2 and 3 of RFC 8985, section 6.2, for one newly delivered segment. `echo_is_older` says
    /// that the acknowledgement echoes a timestamp from before the segment's last transmission.
    fn on_delivered(&mut self, s: &Segment, now: Instant, min_rtt: Duration, echo_is_older: bool) {
        let end = s.end();
        if !s.has(flag::RETRANSMITTED) && end < self.fack_before {
            self.reordering_seen = true;
            self.late = self.late.min(s.start);
        }
        self.fack = self.fack.max(end);
        let rtt = now - s.sent_at;
        if s.has(flag::RETRANSMITTED) && (echo_is_older || rtt < min_rtt) {
            return;
        }
        self.rtt = rtt;
        if (s.sent_at, end) > (self.sent_at, self.end) {
            (self.sent_at, self.end) = (s.sent_at, end);
        }
    }

    /// What was sent at `sent_at`, when all below `end` had been, has arrived, and its answer took `rtt`.
    pub fn on_echo(&mut self, sent_at: Instant, end: u64, rtt: Duration) {
        if (sent_at, end) >= (self.sent_at, self.end) {
            (self.sent_at, self.end, self.rtt) = (sent_at, end, rtt);
        }
    }

    /// Something that was sent again had only been late: more patience, once a round (RFC 8985, section 6.2, step 4).
    pub fn widen(&mut self, una: u64, nxt: u64) {
        if una >= self.widened {
            self.widened = nxt;
            self.extra_quarters = self.extra_quarters.saturating_add(1);
            self.persist = REORDER_PERSIST;
        }
    }

    /// A recovery is over: after some without what is late the patience is what it was.
    pub fn narrow(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.extra_quarters = 0;
        }
    }

    fn reordering_window(
        &self,
        sacked: u32,
        recovering: bool,
        min_rtt: Duration,
        srtt: Duration,
    ) -> Duration {
        if !self.reordering_seen && (recovering || sacked >= DUPLICATE_THRESHOLD) {
            return Duration::ZERO;
        }
        (min_rtt / 4 * (1 + u32::from(self.extra_quarters))).min(srtt)
    }

    /// Accounts for one newly delivered segment: `at` is the time and the least round-trip time; `echo` says of a time of
    /// sending that the acknowledgement echoes one from before.
    pub fn deliver(
        &mut self,
        delivered: &mut Delivered,
        s: &Segment,
        at: (Instant, Duration),
        echo: impl Fn(Instant) -> bool,
    ) {
        delivered.segments += 1;
        if s.has(flag::RETRANSMITTED) {
            delivered.latest_again = delivered.latest_again.max(Some(s.sent_at));
            self.on_delivered(s, at.0, at.1, echo(s.sent_at));
        } else {
            delivered.latest_once = delivered.latest_once.max(Some(s.sent_at));
            self.on_delivered(s, at.0, at.1, false);
        }
    }

    /// Section 6.2, step 5: marks what was sent well before something that arrived.
    pub fn detect(
        &self,
        now: Instant,
        queue: &mut SendQueue,
        cc: &mut congestion::State,
        rtt: &Estimator,
        recovering: bool,
    ) -> Found {
        let mut found = Found::default();
        let min_rtt = rtt.min().unwrap_or_default();
        let srtt = rtt.srtt().unwrap_or_default();
        let patience = self.rtt + self.reordering_window(queue.sacked(), recovering, min_rtt, srtt);
        let newest = (self.sent_at, self.end);
        for index in 0..queue.sent() {
            let s = *queue.at(index);
            if newest <= (s.sent_at, s.end()) {
                if s.has(flag::RETRANSMITTED) {
                    continue;
                }
                // First transmissions lie in order of time: none after this was sent earlier.
                break;
            }
            if s.has(flag::SACKED | flag::LOST) {
                continue;
            }
            let due = s.sent_at + patience;
            if due <= now {
                found.bytes += mark_lost(now, queue, cc, index);
                found.again |= s.has(flag::RETRANSMITTED);
            } else {
                found.wait = found.wait.max(Some(due - now));
            }
        }
        found
    }
}

/// A segment is taken for lost. Returns the bytes that thereby left the network.
pub(super) fn mark_lost(
    now: Instant,
    queue: &mut SendQueue,
    cc: &mut congestion::State,
    index: usize,
) -> u64 {
    let bytes = queue.mark_lost(index);
    if bytes > 0 && cc.keeps_packets() {
        let (start, packet) = (queue.at(index).start, queue.packet(index));
        cc.on_lost(&Lost { now, start, bytes, packet });
    }
    bytes
}
