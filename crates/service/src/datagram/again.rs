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
//! ago: on a path whose times vary by no more it would be there. What nobody tells of in time is sent again, too, but not lost by
//! that: a report that says that it came is heard as long as its ADU is kept. While no report comes at all that time doubles: it is
//! the way back that is broken, in all likelihood. An ADU of which it is not known that it was lost when it is given up is told as
//! such ([`Why::Unknown`]). Nothing is kept for longer than its deadline and two reports take.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::{Instant, Seq};
use fusewire_wire::feedback::{Metric, Report};

use crate::fec::Bits;
use crate::lifetime::Why;
use crate::profile::Adu;

/// Datagrams that are known to be under way at most: of more it is not known what became of the oldest.
const FLIGHT_MAX: usize = 4096;
/// How often the time doubles that a report may take.
const DOUBLED_MAX: u32 = 6;

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
    /// Those that are to go again.
    lost: Bits,
    /// Those of which a packet was forgotten.
    unknown: Bits,
    /// Each of its packets was sent once; some were sent again.
    is_whole: bool,
    is_again: bool,
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
    /// Nobody has told of it in time.
    is_overdue: bool,
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
    /// How often something was overdue since the last report.
    silent: u32,
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
            silent: 0,
        }
    }

    /// An ADU begins to be sent. Where as many are kept as may be, the oldest that can be goes: what is missing of it is not sent
    /// again.
    pub fn begin(&mut self, lane: usize, most: usize, kept: Kept) {
        let entries = &mut self.lanes[lane];
        if entries.len() >= most
            && let Some(at) = entries.iter().position(|entry| entry.is_whole)
        {
            self.give_up(lane, at, Why::Displaced);
        }
        let (came, lost, unknown) = Default::default();
        self.lanes[lane].push_back(Entry {
            kept,
            came,
            lost,
            unknown,
            is_whole: false,
            is_again: false,
        });
    }

    /// A datagram of this number takes a piece.
    pub fn on_sent(&mut self, at: Instant, path: u64, lane: usize, number: u64, index: u8) {
        if self.flight.len() == self.flight.capacity()
            && let Some(oldest) = self.flight.pop_front()
            && let Some(entry) = self.entry(&oldest)
        {
            entry.unknown.set(oldest.index.into());
        }
        self.flight.push_back(Flight { path, at, lane, number, index, is_overdue: false });
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
            self.flight.retain(|flight| (flight.lane, flight.number) != (lane, number));
        }
    }

    /// A report of datagrams, of which the next has the number `next`.
    pub fn on_report(&mut self, report: &Report<'_>, next: u64, jitter: Duration) {
        let Some(begin) = Seq(report.begin).to_offset(Seq(0), next) else { return };
        self.silent = 0;
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
                // With it others of its ADU may go.
                Metric::Received { .. } => {
                    self.flight.remove(at);
                    self.came(&flight);
                }
                Metric::Missing if path < settled => {
                    self.flight.remove(at);
                    // What was overdue goes again already.
                    if !flight.is_overdue {
                        self.lost(&flight);
                    }
                }
                Metric::Missing => {}
            }
        }
    }

    /// Those of which nobody has said anything for so long go again, and what could not come any more is given up: so long behind
    /// its deadline nobody will say what became of it.
    pub fn handle_timeout(&mut self, now: Instant, patience: Duration) {
        let doubled = self.doubled(patience);
        let first = self.flight.partition_point(|flight| flight.is_overdue);
        let mut next = first;
        while let Some(flight) = self.flight.get_mut(next)
            && flight.at + doubled <= now
        {
            flight.is_overdue = true;
            let flight = *flight;
            self.lost(&flight);
            next += 1;
        }
        if next > first {
            self.silent = (self.silent + 1).min(DOUBLED_MAX);
        }
        for lane in 0..self.lanes.len() {
            let is_over = |entry: &Entry| entry.is_whole && entry.kept.until + patience <= now;
            while let Some(at) = self.lanes[lane].iter().position(is_over) {
                self.give_up(lane, at, Why::Expired);
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self, patience: Duration) -> Option<Instant> {
        let first = self.flight.partition_point(|flight| flight.is_overdue);
        let overdue = self.flight.get(first).map(|flight| flight.at + self.doubled(patience));
        let whole = |lane: &VecDeque<Entry>| Some(lane.iter().find(|e| e.is_whole)?.kept.until);
        let over = self.lanes.iter().filter_map(whole).min().map(|until| until + patience);
        [overdue, over].into_iter().flatten().min()
    }

    /// How long a report may take, with how often none came.
    fn doubled(&self, patience: Duration) -> Duration {
        patience * (1 << self.silent)
    }

    /// Packets of a lane that are to go again.
    pub fn waiting(&self, lane: usize) -> usize {
        let lost = |entry: &Entry| entry.lost.count(entry.kept.packets.into());
        self.lanes[lane].iter().map(lost).sum()
    }

    /// Something is missing of an ADU, and would come too late, `way` from now.
    pub fn is_hopeless(&self, lane: usize, number: u64, now: Instant, way: Duration) -> bool {
        self.place(lane, number).is_some_and(|at| {
            let entry = &self.lanes[lane][at];
            entry.lost.first().is_some() && now + way > entry.kept.until
        })
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
                self.give_up(lane, at, Why::Expired);
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
            entry.is_again = true;
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

    fn entry(&mut self, flight: &Flight) -> Option<&mut Entry> {
        let at = self.place(flight.lane, flight.number)?;
        Some(&mut self.lanes[flight.lane][at])
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
        let Some(entry) = self.entry(flight) else { return };
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

    /// It goes although not all of it is known to have come: for this where some of it is known not to have.
    fn give_up(&mut self, lane: usize, at: usize, why: Why) {
        let Entry { kept: Kept { number, packets, .. }, came, mut unknown, .. } =
            self.lanes[lane][at];
        let of_it = |flight: &&Flight| (flight.lane, flight.number) == (lane, number);
        for flight in self.flight.iter().filter(of_it) {
            unknown.set(flight.index.into());
        }
        let is_lost = |index| !came.has(index) && !unknown.has(index);
        let why = if (0..packets.into()).any(is_lost) { why } else { Why::Unknown };
        self.let_go(lane, at, Some(why));
    }

    fn let_go(&mut self, lane: usize, at: usize, why: Option<Why>) {
        let Some(Entry { kept: Kept { number, slot, .. }, is_again, .. }) =
            self.lanes[lane].remove(at)
        else {
            return;
        };
        // Of what was sent once and came nothing is under way.
        if is_again || why.is_some() {
            self.flight.retain(|flight| (flight.lane, flight.number) != (lane, number));
        }
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
        // A report is still heard that says that it came all the same: it is sent again no more.
        let mut again = self::again(2);
        send(&mut again, 0, 2);
        again.handle_timeout(Instant::from_ms(110), 100 * MS);
        assert_eq!(next(&mut again, 110), Some((0, 0)));
        again.on_sent(Instant::from_ms(110), 7, 0, 0, 0);
        report(&mut again, 5, &[Metric::received(0, 1); 2], Duration::ZERO);
        assert_eq!((next(&mut again, 111), again.waits()), (None, false));
        assert_eq!(again.poll_gone(), Some(Gone { lane: 0, number: 0, slot: 10, why: None }));
        assert_eq!(again.poll_timeout(100 * MS), None);
    }

    #[test]
    fn what_is_not_all_sent_is_hopeless_where_a_piece_would_come_too_late() {
        let mut again = again(2);
        begin(&mut again, 0, 3);
        for index in 0..2 {
            again.on_sent(Instant::from_ms(10), 5 + u64::from(index), 0, 0, index);
        }
        let hopeless = |again: &Again, ms| again.is_hopeless(0, 0, Instant::from_ms(ms), 20 * MS);
        assert!(!hopeless(&again, 190), "nothing is missing");
        report(&mut again, 5, &[Metric::Missing, Metric::received(0, 1)], Duration::ZERO);
        assert_eq!((again.waiting(0), again.waits()), (1, true));
        assert!(!hopeless(&again, 180) && hopeless(&again, 181));
        assert_eq!(next(&mut again, 180), Some((0, 0)));
        assert_eq!(again.waiting(0), 0);
    }

    #[test]
    fn a_report_that_says_again_what_was_overdue_sends_nothing_twice() {
        let mut again = again(2);
        send(&mut again, 0, 1);
        again.handle_timeout(Instant::from_ms(110), 100 * MS);
        assert_eq!(next(&mut again, 110), Some((0, 0)));
        again.on_sent(Instant::from_ms(110), 6, 0, 0, 0);
        report(&mut again, 5, &[Metric::Missing, Metric::Missing, Metric::received(0, 9)], MS);
        assert_eq!(next(&mut again, 120), Some((0, 0)), "the second is lost, too");
        again.on_sent(Instant::from_ms(120), 8, 0, 0, 0);
        let mut again = self::again(2);
        send(&mut again, 0, 1);
        again.handle_timeout(Instant::from_ms(110), 100 * MS);
        assert_eq!(next(&mut again, 110), Some((0, 0)));
        again.on_sent(Instant::from_ms(110), 9, 0, 0, 0);
        report(&mut again, 5, &[Metric::Missing, Metric::received(0, 9)], MS);
        assert_eq!(next(&mut again, 120), None, "it is under way");
    }

    #[test]
    fn while_no_report_comes_less_goes_again() {
        let mut again = again(9);
        let count = |again: &mut Again, from: u64| {
            let mut count = 0;
            for ms in from..from + 1000 {
                let now = Instant::from_ms(ms);
                if ms % 20 == 0 {
                    let (number, until) = (ms, now + 150 * MS);
                    let kept = Kept { number, slot: 0, sent: 0, packets: 1, until };
                    again.begin(0, 99, kept);
                    again.on_sent(now, ms, 0, number, 0);
                    again.whole(0, number);
                }
                again.handle_timeout(now, 100 * MS);
                while next(again, ms).is_some() {
                    count += 1;
                }
            }
            count
        };
        assert_eq!(count(&mut again, 100), 1, "of fifty");
        let why = core::iter::from_fn(|| again.poll_gone()).map(|gone| gone.why);
        assert!(why.eq([Some(Why::Unknown); 38]), "nobody knows");
    }

    #[test]
    fn what_is_forgotten_is_not_taken_for_arrived() {
        let mut again = again(1);
        let many = again.flight.capacity() as u64;
        begin(&mut again, 0, 1);
        for path in 0..=many {
            again.on_sent(Instant::from_ms(10), path, 0, if path == 0 { 0 } else { 9 }, 0);
        }
        again.whole(0, 0);
        assert_eq!(again.poll_gone(), None);
        again.handle_timeout(Instant::from_ms(300), 100 * MS);
        let gone = Gone { lane: 0, number: 0, slot: 10, why: Some(Why::Unknown) };
        assert_eq!(again.poll_gone(), Some(gone));
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
        let gone = Gone { lane: 0, number: 1, slot: 11, why: Some(Why::Unknown) };
        assert_eq!(again.poll_gone(), Some(gone), "nobody knows what became of it");
        // One that another has is nobody's here.
        again.forget(0, 3);
        again.forget(0, 2);
        report(&mut again, 11, &[Metric::Missing, Metric::received(0, 1)], Duration::ZERO);
        assert_eq!((next(&mut again, 20), again.poll_gone()), (None, None));
    }
}
