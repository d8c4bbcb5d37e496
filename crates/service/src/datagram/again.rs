//! ADUs that are sent again as long as they come in time: which datagram took which piece of them, and what became of it.
//!
//! ```text
//!  begin ──▶ kept ── on_sent ──▶ under way ── on_report: came ────────────▶ let go, when all of it has
//!              ▲                     │ lost, or nobody says in time
//!              └── sent again ◀──────┤ in time
//!                                    └ too late ──▶ told, and let go
//! ```
//! A piece is sealed anew, from the memory where its ADU was written: under a number of its own it is told of by reports like any
//! other, and is lost or comes for itself. It is lost where a report tells of a later one that came [`jitter`](crate::profile::Network)
//! ago: on a path whose times vary by no more it would be there. Nothing is kept for longer than its deadline and a report take.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::{Instant, Seq};
use fusewire_wire::feedback::{Metric, Report};

use crate::fec::Bits;
use crate::lifetime::Why;
use crate::profile::Adu;

/// Datagrams that are known to be under way at most: of more the oldest are taken for arrived.
const FLIGHT_MAX: usize = 4096;

/// An ADU that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Its number in its lane.
    pub number: u64,
    /// Where its memory is.
    pub slot: usize,
    /// When it was pushed, as it travels.
    pub sent: u32,
    /// Its packets.
    pub packets: u8,
    /// Until when it is of use.
    pub until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    kept: Kept,
    came: Bits,
    lost: Bits,
    /// Each of its packets was sent once.
    is_whole: bool,
}

/// A piece that is under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// The number of its datagram.
    path: u64,
    at: Instant,
    lane: usize,
    number: u64,
    index: u8,
}

/// An ADU whose memory is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub lane: usize,
    pub number: u64,
    pub slot: usize,
    /// What became of it, unless it came.
    pub why: Option<Why>,
}

/// Those of all lanes.
#[derive(Debug)]
pub struct Again {
    lanes: Box<[VecDeque<Entry>]>,
    flight: VecDeque<Flight>,
    gone: VecDeque<Gone>,
}

impl Again {
    /// For these lanes, whose ADUs have so many packets at most.
    pub fn new(lanes: &[Adu], packets: impl Fn(&Adu) -> usize) -> Again {
        let kept: usize = lanes.iter().map(|lane| lane.kept).sum();
        let flight: usize = lanes.iter().map(|lane| 2 * lane.kept * packets(lane)).sum();
        Again {
            lanes: lanes.iter().map(|lane| VecDeque::with_capacity(lane.kept)).collect(),
            flight: VecDeque::with_capacity(flight.min(FLIGHT_MAX)),
            gone: VecDeque::with_capacity(2 * kept),
        }
    }

    /// An ADU begins to be sent. Where as many are kept as may be, the oldest that can be goes: what is missing of it is not sent
    /// again.
    pub fn begin(&mut self, lane: usize, most: usize, kept: Kept) {
        let entries = &mut self.lanes[lane];
        if entries.len() >= most
            && let Some(at) = entries.iter().position(|entry| entry.is_whole)
        {
            let is_missing = entries[at].lost.first().is_some();
            self.let_go(lane, at, is_missing.then_some(Why::Displaced));
        }
        let (came, lost) = (Bits::default(), Bits::default());
        self.lanes[lane].push_back(Entry { kept, came, lost, is_whole: false });
    }

    /// A datagram of this number takes a piece.
    pub fn on_sent(&mut self, at: Instant, path: u64, lane: usize, number: u64, index: u8) {
        if self.flight.len() == self.flight.capacity()
            && let Some(oldest) = self.flight.pop_front()
        {
            self.came(&oldest);
        }
        self.flight.push_back(Flight { path, at, lane, number, index });
    }

    /// All of an ADU was sent once.
    pub fn whole(&mut self, lane: usize, number: u64) {
        let Some(at) = self.place(lane, number) else { return };
        let entry = &mut self.lanes[lane][at];
        entry.is_whole = true;
        self.settle(lane, at);
    }

    /// An ADU is not sent any further, and somebody else has its memory.
    pub fn forget(&mut self, lane: usize, number: u64) {
        if let Some(at) = self.place(lane, number) {
            self.lanes[lane].remove(at);
        }
    }

    /// A report of datagrams, of which the next has the number `next`.
    pub fn on_report(&mut self, report: &Report<'_>, next: u64, jitter: Duration) {
        let Some(begin) = Seq(report.begin).to_offset(Seq(0), next) else { return };
        let jitter = (jitter.as_secs_f64() * 1024.0).ceil() as u64;
        let metrics = || (begin..next).zip(report.metrics());
        // What came so long ago: those before it would have come, too.
        let is_settled = |metric: Metric| match metric {
            Metric::Missing => false,
            Metric::Received { before, .. } => {
                before.is_none_or(|before| u64::from(before) >= jitter)
            }
        };
        let settled = metrics().filter(|(_, metric)| is_settled(*metric)).map(|(path, _)| path);
        let settled = settled.last().unwrap_or(0);
        for (path, metric) in metrics() {
            let Ok(at) = self.flight.binary_search_by_key(&path, |flight| flight.path) else {
                continue;
            };
            let flight = self.flight[at];
            match metric {
                Metric::Received { .. } => self.came(&flight),
                Metric::Missing if path < settled => self.lost(&flight),
                Metric::Missing => continue,
            }
            self.flight.remove(at);
        }
    }

    /// Those of which nobody has said anything for so long are lost.
    pub fn handle_timeout(&mut self, now: Instant, patience: Duration) {
        while let Some(flight) = self.flight.front().copied()
            && flight.at + patience <= now
        {
            self.flight.pop_front();
            self.lost(&flight);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self, patience: Duration) -> Option<Instant> {
        self.flight.front().map(|flight| flight.at + patience)
    }

    /// Something is to be sent again.
    pub fn waits(&self) -> bool {
        self.lanes.iter().flatten().any(|entry| entry.lost.first().is_some())
    }

    /// The lane whose piece is to be sent again: of the most important by this. What would come too late, `way` from now, is not.
    pub fn next_lane(
        &mut self,
        now: Instant,
        way: Duration,
        priority: impl Fn(usize) -> u32,
    ) -> Option<usize> {
        for lane in 0..self.lanes.len() {
            let is_over = |entry: &Entry| {
                entry.is_whole && entry.lost.first().is_some() && now + way > entry.kept.until
            };
            while let Some(at) = self.lanes[lane].iter().position(is_over) {
                self.let_go(lane, at, Some(Why::Expired));
            }
        }
        let waits = |lane: &usize| self.lanes[*lane].iter().any(|e| e.lost.first().is_some());
        (0..self.lanes.len()).filter(waits).min_by_key(|lane| priority(*lane))
    }

    /// The next piece of a lane, which is sent again: its ADU, and its index.
    pub fn take(&mut self, lane: usize) -> Option<(Kept, u8)> {
        self.lanes[lane].iter_mut().find_map(|entry| {
            let index = entry.lost.first()?;
            entry.lost.clear(index);
            Some((entry.kept, index as u8))
        })
    }

    /// The next ADU whose memory is free.
    pub fn poll_gone(&mut self) -> Option<Gone> {
        self.gone.pop_front()
    }

    fn place(&self, lane: usize, number: u64) -> Option<usize> {
        self.lanes[lane].iter().position(|entry| entry.kept.number == number)
    }

    fn came(&mut self, flight: &Flight) {
        let Some(at) = self.place(flight.lane, flight.number) else { return };
        let entry = &mut self.lanes[flight.lane][at];
        entry.came.set(flight.index.into());
        // It may have been taken for lost, and sent again.
        entry.lost.clear(flight.index.into());
        self.settle(flight.lane, at);
    }

    fn lost(&mut self, flight: &Flight) {
        let Some(at) = self.place(flight.lane, flight.number) else { return };
        let entry = &mut self.lanes[flight.lane][at];
        if !entry.came.has(flight.index.into()) {
            entry.lost.set(flight.index.into());
        }
    }

    /// It goes if all of it has come.
    fn settle(&mut self, lane: usize, at: usize) {
        let entry = &self.lanes[lane][at];
        let packets = usize::from(entry.kept.packets);
        if entry.is_whole && entry.came.count(packets) == packets {
            self.let_go(lane, at, None);
        }
    }

    fn let_go(&mut self, lane: usize, at: usize, why: Option<Why>) {
        let Some(Entry { kept: Kept { number, slot, .. }, .. }) = self.lanes[lane].remove(at)
        else {
            return;
        };
        self.gone.push_back(Gone { lane, number, slot, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::feedback;

    const MS: Duration = Duration::from_millis(1);

    fn again(kept: usize) -> Again {
        Again::new(&[Adu { kept, ..Adu::as_it_comes("tested", 100) }], |_| 3)
    }

    fn begin(again: &mut Again, number: u64, packets: u8) {
        let until = Instant::from_ms(200);
        let slot = 10 + number as usize;
        again.begin(0, 2, Kept { number, slot, sent: 0, packets, until });
    }

    fn report(again: &mut Again, begin: u32, metrics: &[Metric], jitter: Duration) {
        let mut bytes = [0; 100];
        let len = feedback::emit(begin, 0, metrics.iter().copied(), &mut bytes);
        again.on_report(&Report::parse(&bytes[..len]).unwrap(), 100, jitter);
    }

    fn next(again: &mut Again, ms: u64) -> Option<(u64, u8)> {
        let lane = again.next_lane(Instant::from_ms(ms), 20 * MS, |_| 0)?;
        again.take(lane).map(|(kept, index)| (kept.number, index))
    }

    /// Sent as the datagrams from 5 on, at 10 ms.
    fn send(again: &mut Again, number: u64, packets: u8) {
        begin(again, number, packets);
        for index in 0..packets {
            let path = 5 + u64::from(index);
            again.on_sent(Instant::from_ms(10), path, 0, number, index);
        }
        again.whole(0, number);
    }

    #[test]
    fn what_is_reported_lost_is_sent_again_and_what_came_let_go() {
        let mut again = again(2);
        send(&mut again, 0, 3);
        let came = Metric::received(0, 1);
        report(&mut again, 5, &[came, Metric::Missing, came], Duration::ZERO);
        assert_eq!(next(&mut again, 50), Some((0, 1)));
        assert_eq!((next(&mut again, 50), again.poll_gone()), (None, None));
        again.on_sent(Instant::from_ms(50), 9, 0, 0, 1);
        report(&mut again, 9, &[came], Duration::ZERO);
        assert_eq!(again.poll_gone(), Some(Gone { lane: 0, number: 0, slot: 10, why: None }));
    }

    #[test]
    fn what_may_only_be_late_is_waited_for() {
        let mut again = again(2);
        send(&mut again, 0, 2);
        // The one behind it came 9.8 ms before the report, and times vary by 10 ms.
        report(&mut again, 5, &[Metric::Missing, Metric::received(0, 10)], 10 * MS);
        assert_eq!(next(&mut again, 50), None);
        report(&mut again, 5, &[Metric::Missing, Metric::received(0, 11)], 10 * MS);
        assert_eq!(next(&mut again, 50), Some((0, 0)));
        // Where nothing is behind it nobody says so, and time does.
        let mut again = self::again(2);
        send(&mut again, 0, 1);
        assert_eq!(again.poll_timeout(100 * MS), Some(Instant::from_ms(110)));
        again.handle_timeout(Instant::from_ms(109), 100 * MS);
        assert_eq!(next(&mut again, 109), None);
        again.handle_timeout(Instant::from_ms(110), 100 * MS);
        assert_eq!(next(&mut again, 110), Some((0, 0)));
        // It came all the same, and is sent again no more.
        again.on_sent(Instant::from_ms(110), 6, 0, 0, 0);
        again.handle_timeout(Instant::from_ms(210), 100 * MS);
        assert_eq!(next(&mut again, 175), Some((0, 0)));
    }

    #[test]
    fn what_would_come_too_late_is_given_up_and_told() {
        let mut again = again(2);
        send(&mut again, 0, 2);
        let came = Metric::received(0, 1);
        report(&mut again, 5, &[Metric::Missing, came], Duration::ZERO);
        assert!(again.waits());
        assert_eq!(next(&mut again, 181), None);
        let gone = Gone { lane: 0, number: 0, slot: 10, why: Some(Why::Expired) };
        assert_eq!((again.poll_gone(), again.poll_gone()), (Some(gone), None));
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut again = again(2);
        send(&mut again, 0, 1);
        report(&mut again, 5, &[Metric::Missing, Metric::received(0, 1)], Duration::ZERO);
        for number in 1..3 {
            begin(&mut again, number, 1);
            again.on_sent(Instant::from_ms(10), 10 + number, 0, number, 0);
            again.whole(0, number);
        }
        let gone = Gone { lane: 0, number: 0, slot: 10, why: Some(Why::Displaced) };
        assert_eq!(again.poll_gone(), Some(gone));
        begin(&mut again, 3, 1);
        let gone = Gone { lane: 0, number: 1, slot: 11, why: None };
        assert_eq!(again.poll_gone(), Some(gone), "nobody knows that it was lost");
        // One that another has is nobody's here.
        again.forget(0, 3);
        again.forget(0, 2);
        report(&mut again, 11, &[Metric::Missing, Metric::received(0, 1)], Duration::ZERO);
        assert_eq!((next(&mut again, 20), again.poll_gone()), (None, None));
    }
}
