//! What a receiver keeps of arrivals, and the reports that it makes of them (RFC 8888, section 3).

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::feedback::{self, Metric};

/// Congestion experienced (RFC 3168, section 5).
const CE: u8 = 3;
/// Packets that are remembered.
const WINDOW: u64 = 1024;
/// How far early reports lie apart ([`Arrivals::hasten`]).
pub const EARLY: Duration = Duration::from_millis(25);
/// Units of the report's timestamp in one of the arrival's offset.
const TO_OFFSET: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// One past the packet's number; 0: none.
    next: u64,
    at: Instant,
    ecn: u8,
}

/// When packets came, of the last 1,024 numbers, and what of it the sender was told.
///
/// Each report tells again what the one before told: one that is lost takes nothing with it. The numbers are those of packets
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
    /// When one is asked for before that, and when the last one went.
    early: Option<Instant>,
    reported: Option<Instant>,
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
            early: None,
            reported: None,
        }
    }

    /// One past the highest number that has come; 0: none has.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A report goes at this time, if none is due before, but no sooner than [`EARLY`] behind the last: something is missing that
    /// its sender would send again.
    pub fn hasten(&mut self, at: Instant) {
        self.early = Some(self.early.map_or(at, |early| early.min(at)));
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
        let slot = &mut self.slots[(number % WINDOW) as usize];
        if slot.next != number + 1 {
            *slot = Slot { next: number + 1, at: now, ecn };
        } else if ecn == CE {
            slot.ecn = ecn;
        }
    }

    /// When [`report`](Self::report) is due; `None`: nothing has come since the last one.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let early = self.early.map(|at| self.reported.map_or(at, |last| at.max(last + EARLY)));
        [self.due, early].into_iter().flatten().min()
    }

    /// Writes a report into `bytes` and says how long it is, if one is due. Where all does not fit, the newest does.
    pub fn report(&mut self, now: Instant, bytes: &mut [u8]) -> Option<usize> {
        if self.poll_timeout().is_none_or(|due| now < due) || bytes.len() < feedback::HEADER_LEN {
            return None;
        }
        self.early = self.early.filter(|early| *early > now);
        let room = (feedback::fitting(bytes.len()) as u64).min(WINDOW);
        let begin = self.told[1].max(self.end.saturating_sub(room));
        if begin == self.end && self.due.is_none_or(|due| now < due) {
            return None;
        }
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
        self.due = None;
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
        arrivals.hasten(ms(1012));
        arrivals.hasten(ms(1050));
        assert_eq!(arrivals.poll_timeout(), Some(ms(1012)));
        assert_eq!(told(&mut arrivals, ms(1012), 1200).1.len(), 3);
        assert_eq!(arrivals.poll_timeout(), None);
        arrivals.on_packet(ms(1015), 4, 0);
        arrivals.hasten(ms(1017));
        assert_eq!(arrivals.poll_timeout(), Some(ms(1012) + EARLY));
        assert_eq!(arrivals.report(ms(1036), &mut [0; 1200]), None);
        assert_eq!(told(&mut arrivals, ms(1037), 1200).1.len(), 5);
        // What was told twice already is no report.
        arrivals.on_packet(ms(1038), 5, 0);
        told(&mut arrivals, ms(1138), 1200);
        arrivals.hasten(ms(1140));
        told(&mut arrivals, ms(1170), 1200);
        arrivals.hasten(ms(1200));
        assert_eq!(arrivals.report(ms(1300), &mut [0; 1200]), None);
        assert_eq!(arrivals.poll_timeout(), None);
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
