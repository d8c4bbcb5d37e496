//! ADUs that come unevenly are handed over as evenly as they were sent.
//!
//! ```text
//!  sent       |   |   |   |   |                 sender's clock
//!  came           |  || |        |  |           on the way: the least time, and what queues add
//!  handed over        |   |   |   |   |         sent + least time on the way + delay
//!                     └ delay ┘
//! ```
//! The clocks of the two have nothing to do with each other: what is known is how much longer than the fastest an ADU was on
//! its way. So delays are counted from the fastest of the last ADUs, half of [`WINDOW`] to all of it, or more where those come in less
//! than five seconds, and of no more than [`AGE_MAX`], which follows clocks that drift apart.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;

/// ADUs by whose times on the way the delay is chosen.
pub const WINDOW: usize = 512;
/// What came before that says nothing any more of how long one takes: clocks that drift by 1 in 10,000 are 60 ms apart by then. Of
/// one that comes behind nothing newer nobody knows how old it is.
pub const AGE_MAX: Duration = Duration::from_secs(600);
/// For so long half of them is looked at at least: what comes fast is not forgotten sooner than a queue stands.
const HALF_MIN: Duration = Duration::from_secs(5);
/// ADUs after which the quantile is taken anew.
const EVERY: usize = 16;
/// A delay that is too long falls by this share of the time that passes: nobody hears that.
const FALL: u32 = 32;
/// What is added to the quantile: as much as clocks drift apart, and queues grow, before it is taken anew.
const MARGIN: Duration = Duration::from_millis(1);
/// Of a sender whose clock leaps by more, everything is forgotten: at once where that makes it faster, or else when so many ADUs
/// in a row say so, over at least so long. What was held on its way says so, too, for a moment.
const LEAP: i64 = 10_000_000_000;
const LEAP_ADUS: u32 = 16;
const LEAP_TIME: Duration = Duration::from_secs(1);

/// How long after the fastest an ADU is handed over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// As it comes.
    None,
    /// So long. To have it handed over so long after it was sent, take half of the least round trip time from that.
    Fixed(Duration),
    /// So long that of the last ADUs only this share came later: by the distribution of their times, as in Moon, Kurose and
    /// Towsley, Packet audio playout delay adjustment, 1998, section 4. It rises at once, and falls slowly.
    Adaptive {
        /// No less: what a correction may need.
        least: Duration,
        /// No more.
        most: Duration,
        /// The share that may come too late, such as 0.01.
        late: f64,
    },
}

/// Why an ADU is not held: its time is over. It is for the caller to drop it, or to hand it over all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late<T> {
    /// By so much.
    pub by: Duration,
    /// What was given.
    pub adu: T,
}

/// ADUs that wait for their time, in the order in which they were sent.
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_service::playout::{Mode, Playout};
///
/// let (ms, any) = (Instant::from_ms, Duration::MAX);
/// let mut playout = Playout::new(Mode::Fixed(Duration::from_millis(30)), 8);
/// // Sent at 1000 and 1020 of the sender's clock; the second is 25 ms longer on its way.
/// playout.push(ms(5), ms(1000), any, "first").unwrap();
/// playout.push(ms(50), ms(1020), any, "second").unwrap();
/// assert_eq!(playout.poll_timeout(), Some(ms(35)));
/// assert_eq!(playout.poll(ms(34)), None);
/// assert_eq!(playout.poll(ms(35)), Some("first"));
/// assert_eq!(playout.poll(ms(55)), Some("second"), "20 ms behind the first, as it was sent");
/// let late = playout.push(ms(100), ms(1040), any, "third").unwrap_err();
/// assert_eq!((late.by, late.adu), (Duration::from_millis(25), "third"));
/// ```
#[derive(Clone, Debug)]
pub struct Playout<T> {
    mode: Mode,
    times: Times,
    /// Behind the fastest, as it is now.
    delay: Duration,
    /// When the last came, and how much longer than the fastest it took.
    last: Option<Instant>,
    behind: Duration,
    /// By when they were sent; when they are due.
    held: VecDeque<Held<T>>,
    room: usize,
}

#[derive(Clone, Debug)]
struct Held<T> {
    sent: Instant,
    due: Instant,
    adu: T,
}

impl<T> Playout<T> {
    /// With room for so many: when another comes, the first is handed over before its time.
    ///
    /// # Panics
    /// If there is none, or a share is none.
    pub fn new(mode: Mode, room: usize) -> Playout<T> {
        assert!(room > 0);
        let delay = match mode {
            Mode::None => Duration::ZERO,
            Mode::Fixed(delay) => delay,
            Mode::Adaptive { least, most, late } => {
                assert!(least <= most && (0.0..1.0).contains(&late));
                least
            }
        };
        let held = VecDeque::with_capacity(room + 1);
        Playout { mode, times: Times::new(), delay, last: None, behind: Duration::ZERO, held, room }
    }

    /// How long behind the fastest ADUs are handed over now.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// How much longer than the fastest the last ADU was on its way.
    pub fn behind(&self) -> Duration {
        self.behind
    }

    /// ADUs that are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// An ADU came that was sent at `sent` by the sender's clock, and is handed over at most so long behind the fastest, whatever
    /// the delay is.
    ///
    /// # Errors
    /// Gives it back when its time is over.
    pub fn push(
        &mut self,
        now: Instant,
        sent: Instant,
        most: Duration,
        adu: T,
    ) -> Result<(), Late<T>> {
        let took = self.times.push(now, sent);
        self.behind = took;
        if self.mode == Mode::None {
            self.held.push_back(Held { sent, due: now, adu });
            return Ok(());
        }
        let passed = self.last.map_or(Duration::ZERO, |last| now.saturating_since(last));
        self.last = Some(now);
        self.adapt(passed);
        if took > self.delay {
            return Err(Late { by: took - self.delay, adu });
        }
        let due = now + self.delay.min(most).saturating_sub(took);
        let behind = self.held.iter().rposition(|other| other.sent <= sent);
        self.held.insert(behind.map_or(0, |at| at + 1), Held { sent, due, adu });
        Ok(())
    }

    fn adapt(&mut self, passed: Duration) {
        let Mode::Adaptive { least, most, late } = self.mode else { return };
        let wanted = (self.times.wanted(late) + MARGIN).clamp(least, most);
        let lowest = self.delay.saturating_sub(passed / FALL);
        self.delay = wanted.max(lowest);
    }

    /// The next ADU whose time has come.
    pub fn poll(&mut self, now: Instant) -> Option<T> {
        let is_due = self.held.front().is_some_and(|first| first.due <= now);
        if is_due { self.held.pop_front().map(|first| first.adu) } else { self.poll_overflow() }
    }

    /// The first, where more are held than there is room for.
    pub fn poll_overflow(&mut self) -> Option<T> {
        let is_over = self.held.len() > self.room;
        if is_over { self.held.pop_front().map(|first| first.adu) } else { None }
    }

    /// When [`poll`](Self::poll) has something without anything having come.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held.front().map(|first| first.due)
    }
}

/// How long the last ADUs were on their way: differences of two clocks, in nanoseconds, of which only differences mean anything.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    last: Box<[i64]>,
    next: usize,
    /// Of them, so many are there.
    count: usize,
    sorted: Box<[i64]>,
    /// The least of this half of the window, and of the half before; since when each is, and ADUs of this one.
    least: [i64; 2],
    since: [Instant; 2],
    half: usize,
    /// The quantile, as it was taken last.
    quantile: Option<i64>,
    /// ADUs in a row that say that the sender's clock has leapt back, and since when.
    leapt: (u32, Instant),
}

impl Times {
    pub fn new() -> Times {
        let none = || vec![0; WINDOW].into_boxed_slice();
        Times {
            last: none(),
            next: 0,
            count: 0,
            sorted: none(),
            least: [i64::MAX; 2],
            since: [Instant::ZERO; 2],
            half: 0,
            quantile: None,
            leapt: (0, Instant::ZERO),
        }
    }

    /// What this ADU took is beyond all measure; if that is so of many, or never could be, the sender has another clock, and all is
    /// forgotten.
    fn is_beyond(&mut self, now: Instant, took: i64) -> bool {
        if self.count == 0 || took.abs_diff(self.fastest()) <= LEAP as u64 {
            self.leapt.0 = 0;
            return false;
        }
        let (count, since) = &mut self.leapt;
        if *count == 0 {
            *since = now;
        }
        *count += 1;
        let is_many = *count >= LEAP_ADUS && now.saturating_since(*since) >= LEAP_TIME;
        if took > self.fastest() && !is_many {
            return true;
        }
        self.forget();
        false
    }

    fn forget(&mut self) {
        (self.next, self.count, self.least, self.half) = (0, 0, [i64::MAX; 2], 0);
        (self.quantile, self.leapt.0) = (None, 0);
    }

    /// A half of the window is over when it has its ADUs and its least time, or half of the most. Nothing counts for longer than all of that.
    fn turn(&mut self, now: Instant) {
        if self.count == 0 {
            self.since = [now; 2];
            return;
        }
        let age = |since: Instant| now.saturating_since(since);
        let is_full = self.half >= WINDOW / 2 && age(self.since[0]) >= HALF_MIN;
        if self.least[0] < i64::MAX && (is_full || age(self.since[0]) >= AGE_MAX / 2) {
            self.least = [i64::MAX, self.least[0]];
            self.since = [now, self.since[0]];
            self.half = 0;
        }
        if age(self.since[1]) >= AGE_MAX {
            self.least[1] = i64::MAX;
        }
        if self.fastest() == i64::MAX {
            self.forget();
            self.since = [now; 2];
        }
    }

    fn fastest(&self) -> i64 {
        self.least[0].min(self.least[1])
    }

    /// An ADU came; how much longer than the fastest it was on its way.
    pub fn push(&mut self, now: Instant, sent: Instant) -> Duration {
        let took = now.as_ns().wrapping_sub(sent.as_ns()) as i64;
        self.turn(now);
        if self.is_beyond(now, took) {
            return Duration::from_nanos(took.abs_diff(self.fastest()));
        }
        self.least[0] = self.least[0].min(took);
        self.half += 1;
        self.last[self.next] = took;
        self.next = (self.next + 1) % WINDOW;
        self.count = (self.count + 1).min(WINDOW);
        if self.next.is_multiple_of(EVERY) || self.count < EVERY {
            self.quantile = None;
        }
        Duration::from_nanos((took - self.fastest()) as u64)
    }

    /// The delay that all but this share of the last ADUs kept.
    fn wanted(&mut self, late: f64) -> Duration {
        let quantile = self.quantile.unwrap_or_else(|| {
            let sorted = &mut self.sorted[..self.count];
            sorted.copy_from_slice(&self.last[..self.count]);
            let at = (self.count as f64 * (1.0 - late)).ceil() as usize;
            *sorted.select_nth_unstable(at.clamp(1, self.count) - 1).1
        });
        self.quantile = Some(quantile);
        Duration::from_nanos(quantile.saturating_sub(self.fastest()).max(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_testkit::{Random, for_each_seed_of};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// ADUs every 20 ms from a clock of its own, that are 40 ms and up to this jitter on their way; in the order in which they
    /// come: when, when they were sent, and their number.
    fn arrivals(
        random: &mut Random,
        count: u64,
        jitter: impl Fn(u64) -> Duration,
    ) -> Vec<(Instant, Instant, u64)> {
        let mut all: Vec<_> = (0..count)
            .map(|n| {
                let sent = Instant::from_ms(1_000_000) + n as u32 * ms(20);
                let at = Instant::from_ms(0) + n as u32 * ms(20) + ms(40);
                (at + random.duration_below(jitter(n)), sent, n)
            })
            .collect();
        all.sort();
        all
    }

    type Played = Vec<(Instant, u64)>;
    type AllLate = Vec<(u64, Duration)>;

    /// What was handed over, when; and what was late.
    fn play(playout: &mut Playout<u64>, arrivals: &[(Instant, Instant, u64)]) -> (Played, AllLate) {
        let (mut played, mut late) = (Vec::new(), Vec::new());
        let mut arrivals = arrivals.iter().peekable();
        loop {
            let next = arrivals.peek().map(|(at, ..)| *at);
            let due = playout.poll_timeout().filter(|due| next.is_none_or(|next| *due <= next));
            if let Some(due) = due {
                played.push((due, playout.poll(due).expect("due")));
            } else if let Some(&(at, sent, n)) = arrivals.next() {
                if let Err(Late { by, adu }) = playout.push(at, sent, Duration::MAX, n) {
                    late.push((adu, by));
                }
            } else {
                return (played, late);
            }
        }
    }

    #[test]
    fn with_a_delay_as_long_as_the_jitter_all_is_even_and_in_order() {
        for_each_seed_of(50, "with_a_delay_as_long_as_the_jitter_all_is_even", |_, random| {
            let mut playout = Playout::new(Mode::Fixed(ms(50)), 16);
            // The first is the fastest, so that nothing moves behind it.
            let arrivals = arrivals(random, 1000, |n| ms(if n == 0 { 0 } else { 50 }));
            let arrivals: Vec<_> = arrivals.into_iter().filter(|a| a.2 < 250).collect();
            let (played, late) = play(&mut playout, &arrivals);
            assert!(late.is_empty());
            for (n, (at, adu)) in played.iter().enumerate() {
                assert_eq!((*at, *adu), (Instant::from_ms(90 + 20 * n as u64), n as u64));
            }
            assert_eq!(played.len(), 250);
        });
    }

    #[test]
    fn what_is_late_is_told_with_how_much() {
        for_each_seed_of(50, "what_is_late_is_told_with_how_much", |_, random| {
            let mut playout = Playout::new(Mode::Fixed(ms(10)), 16);
            let arrivals = arrivals(random, 250, |n| ms(if n == 0 { 0 } else { 50 }));
            let (played, late) = play(&mut playout, &arrivals);
            assert_eq!(played.len() + late.len(), 250);
            // Four of five are more than 10 ms behind the fastest.
            assert!((170..230).contains(&late.len()), "{}", late.len());
            for (adu, by) in late {
                let (at, ..) = arrivals.iter().find(|(_, _, n)| *n == adu).unwrap();
                assert_eq!(by, *at - (Instant::from_ms(20 * adu + 50)));
            }
        });
    }

    /// The share of late ones is near what was asked for, whatever the jitter is, and the delay is not longer than that takes;
    /// when the jitter ends it falls back.
    #[test]
    fn the_delay_follows_the_jitter_both_ways() {
        for_each_seed_of(20, "the_delay_follows_the_jitter_both_ways", |_, random| {
            let mode = Mode::Adaptive { least: ms(5), most: ms(200), late: 0.02 };
            let mut playout = Playout::new(mode, 32);
            let jitter = |n| ms(if (1000..3000).contains(&n) { 100 } else { 20 });
            let all = arrivals(random, 6000, jitter);
            let share = |late: &[(u64, Duration)], from: u64| {
                late.iter().filter(|(n, _)| *n >= from).count() as f64 / 1000.0
            };
            let part = |from, to| -> Vec<_> {
                all.iter().filter(|(_, _, n)| (from..to).contains(n)).copied().collect()
            };
            let (_, late) = play(&mut playout, &part(0, 1000));
            assert!((ms(17)..ms(22)).contains(&playout.delay()), "{:?}", playout.delay());
            assert!(share(&late, 0) < 0.06, "{}", share(&late, 0));
            play(&mut playout, &part(1000, 2000));
            let (_, late) = play(&mut playout, &part(2000, 3000));
            assert!((ms(92)..ms(101)).contains(&playout.delay()), "{:?}", playout.delay());
            assert!(share(&late, 2000) < 0.05, "{}", share(&late, 2000));
            play(&mut playout, &part(3000, 6000));
            assert!((ms(17)..ms(22)).contains(&playout.delay()), "{:?}", playout.delay());
        });
    }

    #[test]
    fn clocks_may_drift_apart_and_leap() {
        let mode = Mode::Adaptive { least: ms(5), most: ms(100), late: 0.01 };
        for drift in [-1i64, 1] {
            let mut playout = Playout::new(mode, 8);
            let mut late = 0;
            // 1 in 1,000, for a quarter of an hour: 900 ms.
            for n in 0..45_000i64 {
                let now = Instant::from_us((20_000 * n + 40_000) as u64);
                let sent = Instant::from_us((1_000_000_000 + (20_000 + drift * 20) * n) as u64);
                late += u64::from(playout.push(now, sent, Duration::MAX, n).is_err());
                while playout.poll(now).is_some() {}
            }
            assert!(late < 450 && playout.delay() <= ms(15), "{late}, {:?}", playout.delay());
            // The sender begins again. For a second that may as well be a path that has held all of it.
            for n in 0..=50u64 {
                let now = Instant::from_ms(1_000_000 + 20 * n);
                let pushed = playout.push(now, Instant::from_ms(7 + 20 * n), Duration::MAX, 0);
                assert_eq!(pushed.is_ok(), n == 50, "{n}");
            }
            let now = Instant::from_ms(1_001_000);
            assert_eq!(playout.poll_timeout().map(|due| due <= now + ms(100)), Some(true));
            // Forward it leaps at once.
            assert!(playout.push(now, Instant::from_ms(100_000), Duration::MAX, 0).is_ok());
        }
    }

    /// However often they come, a queue that stands for four seconds is one, and behind ten it is the way.
    #[test]
    fn how_old_one_is_does_not_depend_on_how_many_come() {
        for hz in [10u64, 150, 1000, 10_000] {
            let mut playout = Playout::new(Mode::None, 1);
            let mut behind = |from_s: u64, to_s: u64, late: Duration| {
                for n in from_s * hz..to_s * hz {
                    let sent = Instant::from_ns(n * 1_000_000_000 / hz);
                    playout.push(sent + late, sent, Duration::MAX, ()).unwrap();
                    while playout.poll(sent + late).is_some() {}
                }
                playout.behind()
            };
            assert_eq!(behind(0, 6, ms(0)), ms(0));
            assert_eq!(behind(6, 10, ms(300)), ms(300), "{hz}");
            if hz >= 150 {
                assert_eq!(behind(10, 17, ms(300)), ms(0), "{hz}");
            }
        }
    }

    /// However seldom they come, for a month, from a clock that is slower or faster by 1 in 10,000: no more than drift makes in the
    /// window, and nothing where one is the only one in it.
    #[test]
    fn what_comes_seldom_is_not_late_for_drift() {
        for (every_s, most) in [(1, 61), (20, 61), (200, 61), (400, 61), (3600, 0)] {
            for drift in [-1i64, 1] {
                let mut playout = Playout::new(Mode::None, 1);
                for n in 0..3000i64 {
                    let ns = n * every_s * 1_000_000_000;
                    let now = Instant::from_ns(ns as u64);
                    let sent = Instant::from_ns((1 << 50) + (ns + drift * ns / 10_000) as u64);
                    playout.push(now, sent, Duration::MAX, ()).unwrap();
                    while playout.poll(now).is_some() {}
                    assert!(playout.behind() <= ms(most), "{every_s} s: {:?}", playout.behind());
                    assert!(n == 0 || drift > 0 || most == 0 || playout.behind() > ms(0));
                }
            }
        }
    }

    #[test]
    fn whatever_a_peer_says_nothing_is_held_for_long_or_beyond_the_room() {
        for_each_seed_of(100, "whatever_a_peer_says_nothing_is_held_for_long", |_, random| {
            let most = ms(100);
            let mode = Mode::Adaptive { least: ms(5), most, late: random.unit() };
            let mut playout = Playout::new(mode, 8);
            let mut now = Instant::from_ms(5);
            for n in 0..2000 {
                now += random.duration_below(ms(10));
                let sent = match random.below(3) {
                    0 => random.next_u64(),
                    1 => now.as_ns() + random.below(1 << 30),
                    _ => random.below(1 << 40),
                };
                let _ = playout.push(now, Instant::from_ns(sent), Duration::MAX, n);
                while playout.poll(now).is_some() {}
                assert!(playout.len() <= 8);
                assert!(playout.poll_timeout().is_none_or(|due| due <= now + most));
            }
        });
    }
}
