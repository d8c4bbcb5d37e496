//! What a receiver keeps of arrivals, and the reports that it makes of them (RFC 8888, section 3).

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_wire::feedback::{self, Metric};

/// Congestion experienced (RFC 3168, section 5).
const CE: u8 = 3;
/// Packets that are remembered.
const WINDOW: u64 = 1024;
/// How far early reports lie apart ([`Arrivals::hasten`]).
pub const EARLY: Duration = Duration::from_millis(25);
/// Gaps that are waited for at once; of more, those that came last are told together.
const GAPS_MAX: usize = 64;
/// How far reports lie apart that go because the next would have no room for all.
const CROWDED: Duration = Duration::from_millis(5);
/// Of those that it has room for, one in so many must have come since the last that goes sooner than otherwise: numbers alone, which a
/// peer can leap over, draw none.
const CAME_SHARE: u64 = 8;
/// Packets that a report has room for until somebody says how much it has: 1,024 bytes.
const ROOM: u64 = feedback::fitting(1024) as u64;
/// Units of the report's timestamp in one of the arrival's offset.
const TO_OFFSET: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// One past the packet's number; 0: none.
    next: u64,
    at: Instant,
    ecn: u8,
}

/// Numbers that are missing, and when that is told at the latest.
#[derive(Clone, Debug)]
struct Gap {
    at: Instant,
    numbers: Range<u64>,
}

/// When packets came, of the last 1,024 numbers, and what of it the sender was told.
///
/// Each report tells again what the one before told, and of each gap that is waited for ([`hasten`](Arrivals::hasten)) until it was
/// told twice when its time was over: one that is lost takes nothing with it. Where a report would have no room for that, it goes
/// sooner. The numbers are those of packets
/// that have proven themselves: a forged one would move the window.
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_transport::media::Arrivals;
/// use fusewire_wire::feedback::{Metric, Report};
///
/// let mut arrivals = Arrivals::new(Duration::from_millis(100));
/// arrivals.on_packet(Instant::from_ms(10), 0, 0);
/// arrivals.on_packet(Instant::from_ms(40), 2, 0);
/// assert_eq!(arrivals.poll_timeout(), Some(Instant::from_ms(110)));
/// let mut bytes = [0; 1200];
/// let len = arrivals.report(Instant::from_ms(110), &mut bytes).unwrap();
/// let report = Report::parse(&bytes[..len]).unwrap();
/// let told: Vec<Metric> = report.metrics().collect();
/// assert_eq!(told, [Metric::received(0, 102), Metric::Missing, Metric::received(0, 71)]);
/// assert_eq!(arrivals.poll_timeout(), None, "nothing has come since");
/// ```
#[derive(Clone, Debug)]
pub struct Arrivals {
    interval: Duration,
    slots: Box<[Slot]>,
    /// The first number that ever came.
    first: u64,
    /// One past the highest.
    end: u64,
    /// Where the last report ended, and the one before.
    told: [u64; 2],
    /// When the next report is due, when there is something to tell.
    due: Option<Instant>,
    /// What is to be told before that, the first in front; before when it is not; and when the last report went.
    gaps: VecDeque<Gap>,
    held_until: Instant,
    reported: Option<Instant>,
    /// Packets that have come since then.
    came: u64,
    /// The first number of those that the last report told for the first time when their time was over.
    again: u64,
    /// Packets that a report has room for.
    room: u64,
}

impl Arrivals {
    /// Reports every `interval` while something comes: 100 ms is what NADA recommends (RFC 8698, section 5.3: DELTA), below
    /// 250 ms its loop holds (section 6.3).
    pub fn new(interval: Duration) -> Arrivals {
        let none = Slot { next: 0, at: Instant::ZERO, ecn: 0 };
        Arrivals {
            interval,
            slots: vec![none; WINDOW as usize].into(),
            first: 0,
            end: 0,
            told: [0; 2],
            due: None,
            gaps: VecDeque::with_capacity(GAPS_MAX),
            held_until: Instant::ZERO,
            reported: None,
            came: 0,
            again: u64::MAX,
            room: ROOM,
        }
    }

    /// One past the highest number that has come; 0: none has.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A report goes at this time, if none is due before, but no sooner than [`EARLY`] behind the last: these are missing by then,
    /// and their sender would send them again. Times that are said one after another do not go back. What has come by then is
    /// not told early; what is missing is told by each report until then, however often others go.
    pub fn hasten(&mut self, at: Instant, numbers: Range<u64>) {
        let is_full = self.gaps.len() == GAPS_MAX;
        match self.gaps.back_mut().filter(|_| is_full) {
            Some(last) => {
                last.at = at.max(last.at);
                last.numbers.end = numbers.end.max(last.numbers.end);
            }
            None => self.gaps.push_back(Gap { at, numbers }),
        }
    }

    /// No report goes early before this: so many have gone already.
    pub fn hold_early(&mut self, until: Instant) {
        self.held_until = until;
    }

    /// What is due now is so only because something is missing.
    pub fn is_early(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| now < due)
    }

    /// A packet came with these two bits of ECN. Of one that comes twice the first counts, but for a mark of congestion; one
    /// that lies 1,024 below the highest is not told of.
    pub fn on_packet(&mut self, now: Instant, number: u64, ecn: u8) {
        if self.end == 0 {
            (self.first, self.told) = (number, [number; 2]);
        } else if number + WINDOW < self.end || number < self.first {
            return;
        }
        self.due.get_or_insert(now + self.interval);
        self.end = self.end.max(number + 1);
        self.came += 1;
        // Half of its room, as it tells again what the one before told.
        let is_crowded = self.end - self.told[0] >= (self.room / 2).max(1);
        if is_crowded && self.came >= self.room / CAME_SHARE {
            let soon = self.reported.map_or(now, |last| now.max(last + CROWDED));
            self.due = self.due.map(|due| due.min(soon));
        }
        let slot = &mut self.slots[(number % WINDOW) as usize];
        if slot.next != number + 1 {
            *slot = Slot { next: number + 1, at: now, ecn };
        } else if ecn == CE {
            slot.ecn = ecn;
        }
    }

    /// When [`report`](Self::report) is due; `None`: nothing has come since the last one.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let apart = self.reported.map_or(self.held_until, |last| self.held_until.max(last + EARLY));
        let early = self.gaps.front().map(|gap| gap.at.max(apart));
        [self.due, early].into_iter().flatten().min()
    }

    /// Something of these is missing, and can be told.
    fn is_open(&self, numbers: &Range<u64>) -> bool {
        let from = numbers.start.max(self.first).max(self.end.saturating_sub(WINDOW));
        (from..numbers.end.min(self.end)).any(|number| {
            let slot = &self.slots[(number % WINDOW) as usize];
            slot.next != number + 1
        })
    }

    /// Writes a report into `bytes` and says how long it is, if one is due. Where all does not fit, the newest does.
    pub fn report(&mut self, now: Instant, bytes: &mut [u8]) -> Option<usize> {
        self.room = (feedback::fitting(bytes.len()) as u64).min(WINDOW);
        if self.poll_timeout().is_none_or(|due| now < due) || bytes.len() < feedback::HEADER_LEN {
            return None;
        }
        let mut over = u64::MAX;
        while let Some(gap) = self.gaps.pop_front_if(|gap| gap.at <= now) {
            if self.is_open(&gap.numbers) {
                over = over.min(gap.numbers.start);
            }
        }
        if over == u64::MAX && self.is_early(now) {
            return None;
        }
        let waits = self.gaps.iter().filter(|gap| self.is_open(&gap.numbers));
        let waits = waits.map(|gap| gap.numbers.start).min().unwrap_or(u64::MAX);
        let begin = self.told[1].min(self.again).min(over).min(waits);
        let begin = begin.max(self.end.saturating_sub(self.room)).max(self.first);
        self.again = over;
        self.reported = Some(now);
        let timestamp = units(now);
        let metrics = (begin..self.end).map(|number| {
            let slot = &self.slots[(number % WINDOW) as usize];
            match slot.next == number + 1 {
                true => {
                    Metric::received(slot.ecn, timestamp.saturating_sub(units(slot.at)) / TO_OFFSET)
                }
                false => Metric::Missing,
            }
        });
        let len = feedback::emit(begin as u32, timestamp as u32, metrics, bytes);
        self.told = [self.end, self.told[0]];
        (self.due, self.came) = (None, 0);
        Some(len)
    }
}

/// An instant in 1/65,536 s.
fn units(at: Instant) -> u64 {
    ((u128::from(at.as_ns()) << 16) / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::feedback::Report;

    fn told(arrivals: &mut Arrivals, at: Instant, room: usize) -> (u32, Vec<Metric>) {
        let mut bytes = vec![0; room];
        let len = arrivals.report(at, &mut bytes).expect("due");
        let report = Report::parse(&bytes[..len]).unwrap();
        (report.begin, report.metrics().collect())
    }

    #[test]
    fn a_report_goes_early_where_it_is_asked_for_but_not_at_once_behind_another() {
        let ms = Instant::from_ms;
        let mut arrivals = Arrivals::new(Duration::from_millis(100));
        arrivals.on_packet(ms(1000), 0, 0);
        arrivals.on_packet(ms(1010), 2, 0);
        arrivals.hasten(ms(1012), 1..2);
        assert_eq!(arrivals.poll_timeout(), Some(ms(1012)));
        assert_eq!(told(&mut arrivals, ms(1012), 1200).1.len(), 3);
        assert_eq!(arrivals.poll_timeout(), None);
        arrivals.on_packet(ms(1015), 4, 0);
        arrivals.hasten(ms(1017), 3..4);
        assert_eq!(arrivals.poll_timeout(), Some(ms(1012) + EARLY));
        assert_eq!(arrivals.report(ms(1036), &mut [0; 1200]), None);
        assert_eq!(told(&mut arrivals, ms(1037), 1200).1.len(), 5);
        // Nor before it may, nor where what was missing has come.
        arrivals.on_packet(ms(1100), 6, 0);
        arrivals.hasten(ms(1102), 5..6);
        arrivals.hold_early(ms(1110));
        assert_eq!(arrivals.poll_timeout(), Some(ms(1110)));
        arrivals.on_packet(ms(1105), 5, 0);
        assert_eq!(arrivals.report(ms(1110), &mut [0; 1200]), None);
        assert_eq!(arrivals.poll_timeout(), Some(ms(1200)));
    }

    /// Times vary by 90 ms: each of two gaps has its report, and the second is told though others went between, and again.
    #[test]
    fn each_gap_is_told_when_its_time_is_over_and_once_more() {
        let ms = Instant::from_ms;
        let mut arrivals = Arrivals::new(Duration::from_millis(100));
        arrivals.on_packet(ms(1000), 0, 0);
        arrivals.on_packet(ms(1010), 2, 0);
        arrivals.hasten(ms(1100), 1..2);
        arrivals.on_packet(ms(1050), 4, 0);
        arrivals.hasten(ms(1140), 3..4);
        let has = |(begin, metrics): (u32, Vec<Metric>), number: u32| {
            begin <= number && metrics[(number - begin) as usize] == Metric::Missing
        };
        assert!(has(told(&mut arrivals, ms(1100), 1200), 1));
        assert_eq!(arrivals.poll_timeout(), Some(ms(1140)));
        assert!(has(told(&mut arrivals, ms(1140), 1200), 3));
        // The third is waited for while three reports go.
        arrivals.on_packet(ms(1150), 6, 0);
        arrivals.hasten(ms(1500), 5..6);
        for n in 0..3 {
            arrivals.on_packet(ms(1160 + 100 * n), 7 + n, 0);
            assert!(has(told(&mut arrivals, ms(1260 + 100 * n), 1200), 5), "{n}");
        }
        assert!(has(told(&mut arrivals, ms(1500), 1200), 5));
        arrivals.on_packet(ms(1510), 10, 0);
        assert!(has(told(&mut arrivals, ms(1610), 1200), 5), "the one before may be lost");
        arrivals.on_packet(ms(1620), 11, 0);
        assert!(!has(told(&mut arrivals, ms(1720), 1200), 5));
    }

    /// 20,000 packets a second, of which each is told twice.
    #[test]
    fn a_report_goes_sooner_where_it_would_have_no_room() {
        let mut arrivals = Arrivals::new(Duration::from_millis(100));
        let mut times = vec![0; 10_000];
        for number in 0..times.len() as u64 {
            let now = Instant::from_ms(1000) + Duration::from_micros(50) * number as u32;
            arrivals.on_packet(now, number, 0);
            let mut bytes = [0; 1024];
            if let Some(len) = arrivals.report(now, &mut bytes) {
                let report = Report::parse(&bytes[..len]).unwrap();
                for at in 0..report.count() {
                    times[report.begin as usize + at] += 1;
                }
            }
        }
        let untold = times[..9_000].iter().filter(|times| **times < 2).count();
        assert_eq!(untold, 0);
    }

    /// One packet a millisecond, each a thousand behind the one before: as many reports go as of any others.
    #[test]
    fn leaps_draw_no_more_reports() {
        let (mut arrivals, mut bytes) = (Arrivals::new(Duration::from_millis(100)), [0; 1024]);
        let mut reports = 0;
        for ms in 0..10_000 {
            let now = Instant::from_ms(1000 + ms);
            arrivals.on_packet(now, 1000 * ms, 0);
            reports += u32::from(arrivals.report(now, &mut bytes).is_some());
        }
        // As often as its interval, and for each 63 that came.
        assert!((90..=170).contains(&reports), "{reports}");
    }

    #[test]
    fn a_report_tells_again_what_the_one_before_told() {
        let mut arrivals = Arrivals::new(Duration::from_millis(100));
        let mut at = Instant::from_ms(1000);
        for round in 0..20u64 {
            for n in 0..10 {
                arrivals.on_packet(at, round * 10 + n, 0);
            }
            at += Duration::from_millis(100);
            let (begin, metrics) = told(&mut arrivals, at, 1200);
            assert_eq!(u64::from(begin), round.saturating_sub(1) * 10);
            assert_eq!(metrics.len() as u64, if round == 0 { 10 } else { 20 });
        }
    }

    #[test]
    fn copies_marks_and_what_is_too_old() {
        let mut arrivals = Arrivals::new(Duration::ZERO);
        arrivals.on_packet(Instant::from_ms(1), 5000, 2);
        arrivals.on_packet(Instant::from_ms(2), 5000, 3);
        arrivals.on_packet(Instant::from_ms(3), 5000, 0);
        arrivals.on_packet(Instant::from_ms(3), 3000, 0);
        let (begin, metrics) = told(&mut arrivals, Instant::from_ms(1001), 1200);
        assert_eq!((begin, metrics), (5000, vec![Metric::received(3, 1024)]));
        // A leap forgets what lies below.
        arrivals.on_packet(Instant::from_ms(1002), 1 << 40, 0);
        let (begin, metrics) = told(&mut arrivals, Instant::from_ms(1002), 1 << 14);
        assert_eq!(u64::from(begin), ((1u64 << 40) - 1023) & 0xFFFF_FFFF);
        assert_eq!(metrics.iter().filter(|m| **m != Metric::Missing).count(), 1);
        assert_eq!(metrics.len(), 1024);
        // What does not fit is the oldest.
        arrivals.on_packet(Instant::from_ms(1003), (1 << 40) + 1, 0);
        assert_eq!(told(&mut arrivals, Instant::from_ms(1003), 14).1.len(), 2);
    }
}
