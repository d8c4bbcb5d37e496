//! What reports of arrivals say of a path: delay, loss, marks and rate, as RFC 8698, section 5.1 has the receiver find them,
//! here at the sender (section 6.4).

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_wire::feedback::{Metric, Report};

use super::losses::LossIntervals;
use super::nada::{ALPHA, LOGWIN, MIN_FILTER, QEPS};

/// Congestion experienced (RFC 3168, section 5).
const CE: u8 = 3;
/// Units of a report's timestamp in one of its offsets.
const OFFSET_UNIT: i64 = 64;
/// Minutes over which the least delay holds ("tens of minutes", section 5.1.1; one by one, as RFC 6817 keeps it).
const BASE_MINUTES: usize = 10;

/// The largest reading of the receiver's clock, in 1/65,536 s: differences of such, in nanoseconds, fit into 64 bits.
const CLOCK_MAX: i64 = 1 << 47;

/// A queue that has stood for less says nothing of rates.
const STOOD_MIN: Duration = Duration::from_millis(50);

/// Times of the first and the last of some packets, and bytes of the first.
#[derive(Clone, Copy, Debug)]
struct Span {
    sent: (Instant, Instant),
    came: (i64, i64),
    first: u64,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u32,
    fate: Fate,
    is_marked: bool,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No report has told of it, or not when it came: it counts for nothing.
    Untold,
    /// A report says that it had not come.
    Missing,
    /// When it came by the receiver's clock, ns.
    Came(i64),
}

/// The aggregate of one report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    /// d_queue after the minimum filter, ms.
    pub queue_ms: f64,
    /// p_loss, smoothed.
    pub loss: f64,
    /// p_mark, smoothed.
    pub mark: f64,
    /// r_recv, bit/s.
    pub received: f64,
    /// The criteria of accelerated ramp-up (section 4.2).
    pub is_free: bool,
    /// From the newest packet that came to this report, without the time that the receiver kept it.
    pub rtt: Duration,
    /// The least of the last minutes.
    pub rtt_least: Duration,
}

/// What went through a queue while it stood, bit/s: as it was sent, what is missing with it, and as it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    pub sent: f64,
    pub came: f64,
}

/// What was sent and what of it came.
#[derive(Clone, Debug)]
pub(super) struct Path {
    sent: VecDeque<Sent>,
    packets_max: usize,
    /// Number of the front of `sent`.
    first: u64,
    /// One past the highest that is known to have come; below it, what did not come is missing.
    end: u64,
    /// Packets below `end` that came in order.
    came: u64,
    /// The receiver's clock: the latest timestamp, in 1/65,536 s since the first.
    clock: Option<(u32, i64)>,
    bases: Least,
    /// d_base, ns of two clocks.
    base: i64,
    rtts: Least,
    losses: LossIntervals,
    loss: f64,
    mark: f64,
    /// Packets of the last observation window.
    in_window: u32,
    /// When there was loss or a queue last.
    busy: Option<Instant>,
}

impl Path {
    pub fn new(packets_max: usize) -> Path {
        Path {
            sent: VecDeque::with_capacity(packets_max),
            packets_max,
            first: 0,
            end: 0,
            came: 0,
            clock: None,
            bases: Least::new(),
            base: 0,
            rtts: Least::new(),
            losses: LossIntervals::default(),
            loss: 0.0,
            mark: 0.0,
            in_window: 0,
            busy: None,
        }
    }

    /// A packet leaves; its number.
    pub fn on_sent(&mut self, at: Instant, bytes: usize) -> u64 {
        if self.sent.len() == self.packets_max {
            self.sent.pop_front();
            self.first += 1;
            self.end = self.end.max(self.first);
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.sent.push_back(Sent { at, bytes, fate: Fate::Untold, is_marked: false });
        self.first + self.sent.len() as u64 - 1
    }

    /// Packets since the last loss event, and between two (see [`LossIntervals::current`]).
    pub fn losses(&self) -> Option<(f64, f64)> {
        self.losses.current(self.came, self.in_window)
    }

    /// One past the highest number that is known to have come.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// A report came; what is known with it, unless it tells nothing. Numbers that were not sent are passed over.
    pub fn on_report(&mut self, now: Instant, report: &Report<'_>) -> Option<Summary> {
        let clock = self.read_clock(report.timestamp);
        let begin = near(report.begin, self.next())?;
        let mut newest = None;
        for (number, metric) in (begin..).zip(report.metrics()) {
            let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
            let Some(sent) = at.and_then(|at| self.sent.get_mut(at)) else { continue };
            match (metric, sent.fate) {
                (Metric::Missing, Fate::Untold) => sent.fate = Fate::Missing,
                (Metric::Received { ecn, before: Some(before) }, Fate::Untold | Fate::Missing) => {
                    let arrival = to_ns(clock - i64::from(before) * OFFSET_UNIT);
                    sent.fate = Fate::Came(arrival);
                    sent.is_marked = ecn == CE;
                    newest = newest.max(Some((number, sent.at, arrival)));
                }
                _ => {}
            }
        }
        let (number, sent_at, arrival) = newest?;
        let kept = Duration::from_nanos((to_ns(clock) - arrival).max(0) as u64);
        let rtt = (now - sent_at).saturating_sub(kept);
        self.pass_over(number, rtt);
        Some(self.summarise(now, rtt))
    }

    /// The receiver's clock, in 1/65,536 s since its first report: it runs on over the 18 hours that 32 bits hold. One that leaps
    /// ever on stands still where nanoseconds could not be told any more, after a century.
    fn read_clock(&mut self, timestamp: u32) -> i64 {
        let (last, units) = self.clock.unwrap_or((timestamp, 0));
        let units = units + i64::from(timestamp.wrapping_sub(last) as i32);
        let units = units.clamp(-CLOCK_MAX, CLOCK_MAX);
        self.clock = Some((timestamp, units));
        units
    }

    /// What lies below `number` and has not come is taken for lost: order is not waited for (section 5.1.2).
    fn pass_over(&mut self, number: u64, rtt: Duration) {
        for number in self.end..=number {
            let sent = self.sent[(number - self.first) as usize];
            match sent.fate {
                Fate::Untold => {}
                Fate::Missing => self.losses.on_lost(self.came, sent.at, rtt),
                Fate::Came(_) => self.came += 1,
            }
        }
        self.end = self.end.max(number + 1);
    }

    fn summarise(&mut self, now: Instant, rtt: Duration) -> Summary {
        let at = (self.end - self.first) as usize;
        let known = || self.sent.range(..at).rev();
        let (mut total, mut missing, mut marked, mut bytes) = (0u32, 0u32, 0u32, 0u64);
        let (mut samples, mut filtered, mut base, mut latest) = (0, i64::MAX, i64::MAX, None);
        // Of the window by arrival; what is missing counts where it lies between packets of the window.
        let mut between = 0;
        for sent in known() {
            let arrival = match sent.fate {
                Fate::Untold => continue,
                Fate::Missing => {
                    between += 1;
                    continue;
                }
                Fate::Came(arrival) => arrival,
            };
            let latest = *latest.get_or_insert(arrival);
            if latest - arrival > LOGWIN.as_nanos() as i64 {
                break;
            }
            (total, missing, between) = (total + between + 1, missing + between, 0);
            marked += u32::from(sent.is_marked);
            bytes += u64::from(sent.bytes);
            let delay = arrival - sent.at.as_ns() as i64;
            if samples < MIN_FILTER {
                filtered = filtered.min(delay);
            }
            samples += 1;
            base = base.min(delay);
        }
        self.in_window = total;
        let base = self.bases.with(now, base);
        self.base = base;
        let share = |part: u32| f64::from(part) / f64::from(total.max(1));
        // Equation 10.
        self.loss += ALPHA * (share(missing) - self.loss);
        self.mark += ALPHA * (share(marked) - self.mark);
        let queue = Duration::from_nanos((filtered - base).max(0) as u64);
        Summary {
            queue_ms: queue.as_secs_f64() * 1e3,
            loss: self.loss,
            mark: self.mark,
            received: bytes as f64 * 8.0 / LOGWIN.as_secs_f64(),
            is_free: self.is_free(now, missing > 0 || queue >= QEPS),
            rtt,
            rtt_least: Duration::from_nanos(self.rtts.with(now, rtt.as_nanos() as i64) as u64),
        }
    }

    /// Of the newest packets, back to the last before which there was less than half of such a queue: an application that had made less
    /// until then says nothing of what the path carries. `None`: it has not stood for long enough to tell.
    pub fn standing(&self, queue: Duration) -> Option<Standing> {
        let known = self.sent.range(..(self.end - self.first) as usize).rev();
        let least = self.base + (queue.as_nanos() / 2) as i64;
        // What is missing counts where it lies between packets that came.
        let (mut sent_bytes, mut came_bytes, mut missing) = (0, 0, 0);
        let mut span: Option<Span> = None;
        for sent in known {
            let bytes = u64::from(sent.bytes);
            match sent.fate {
                Fate::Untold => {}
                Fate::Missing => missing += bytes,
                Fate::Came(arrival) => {
                    let newest = span.map_or(arrival, |span| span.came.1);
                    let has_stood = arrival - sent.at.as_ns() as i64 >= least;
                    if !has_stood || newest - arrival > LOGWIN.as_nanos() as i64 {
                        break;
                    }
                    sent_bytes += bytes + std::mem::take(&mut missing);
                    came_bytes += bytes;
                    span = Some(match span {
                        None => Span {
                            sent: (sent.at, sent.at),
                            came: (arrival, arrival),
                            first: bytes,
                        },
                        Some(Span { sent: (_, last), came: (first, newest), .. }) => Span {
                            sent: (sent.at, last),
                            came: (first.min(arrival), newest.max(arrival)),
                            first: bytes,
                        },
                    });
                }
            }
        }
        let Span { sent, came, first } = span?;
        let (sent, came) = (sent.1 - sent.0, Duration::from_nanos((came.1 - came.0) as u64));
        // What begins a span is none of what went by within it.
        let rate = |bytes: u64, time: Duration| (bytes - first) as f64 * 8.0 / time.as_secs_f64();
        (sent >= STOOD_MIN && came >= STOOD_MIN)
            .then(|| Standing { sent: rate(sent_bytes, sent), came: rate(came_bytes, came) })
    }

    /// The criteria of accelerated ramp-up (section 4.2): for the observation window neither loss nor a queue. The delays
    /// are those after the filter, for which equation 3 has DFILT: where a packet takes 10 ms to leave, each single one
    /// shows that much.
    fn is_free(&mut self, now: Instant, is_busy: bool) -> bool {
        if is_busy {
            self.busy = Some(now);
        }
        self.busy.is_none_or(|busy| now - busy > LOGWIN)
    }
}

/// The least of the last minutes: d_base of delays. One for each minute.
#[derive(Clone, Debug)]
struct Least(VecDeque<(u64, i64)>);

impl Least {
    fn new() -> Least {
        Least(VecDeque::with_capacity(BASE_MINUTES + 1))
    }

    /// With this sample among them.
    fn with(&mut self, now: Instant, sample: i64) -> i64 {
        let (minute, minutes) = (now.as_ms() / 60_000, &mut self.0);
        match minutes.back_mut() {
            Some(last) if last.0 == minute => last.1 = last.1.min(sample),
            _ => {
                if minutes.len() == BASE_MINUTES {
                    minutes.pop_front();
                }
                minutes.push_back((minute, sample));
            }
        }
        while minutes.front().is_some_and(|b| b.0 + BASE_MINUTES as u64 <= minute) {
            minutes.pop_front();
        }
        minutes.iter().map(|least| least.1).min().unwrap_or(sample)
    }
}

/// Of 1/65,536 s.
fn to_ns(units: i64) -> i64 {
    ((i128::from(units) * 1_000_000_000) >> 16) as i64
}

/// The number whose low half this is, of those below `next`; `None`: there is none.
fn near(low: u32, next: u64) -> Option<u64> {
    next.checked_sub(u64::from((next as u32).wrapping_sub(low)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::feedback::emit;

    /// A peer may say of its clock what it likes.
    #[test]
    fn a_clock_that_leaps_ever_on_overflows_nothing() {
        for step in [1u32 << 31, (1 << 31) - 1] {
            let mut path = Path::new(64);
            for n in 0..20_000u32 {
                let now = Instant::from_ms(n.into());
                path.on_sent(now, 100);
                let mut bytes = [0; 64];
                let timestamp = (n * 20).wrapping_mul(step);
                let len = emit(n, timestamp, [Metric::received(0, 1)], &mut bytes);
                assert!(path.on_report(now, &Report::parse(&bytes[..len]).unwrap()).is_some());
                // As many reports that tell nothing.
                for part in 1..20 {
                    path.read_clock((n * 20 + part).wrapping_mul(step));
                }
            }
        }
    }
}
