//! How long the outboard looks for work before it sleeps: as long as that has paid lately. Whoever is to bring it work may
//! need the processor that it looks on: between two looks he is let have it, and need not wake the outboard afterwards. Who has
//! other things to do there would keep it for as long as the kernel lets him, where he had to give way to an outboard that slept and
//! was woken: when that happens, it looks without a break for so long that it does not matter.

use std::time::Duration;

use fusewire_base::Instant;

/// The least part of the most that it looks.
const LEAST: u32 = 32;
/// How often in vain before it looks for the most once more: what comes later than it looks, it does not see.
const PROBE: u32 = 32;

/// Who brings work has the processor for less.
const LONG: Duration = Duration::from_millis(1);
/// What he has had it for longer, it is not lent for so many times as long.
const KEEPS: u32 = 64;

/// How long to look.
#[derive(Debug)]
pub struct Spin {
    most: Duration,
    limit: Duration,
    until: Instant,
    /// It has looked since there was work.
    is_looking: bool,
    vain: u32,
    /// The processor is nobody else's between two looks before that.
    keeps_until: Instant,
}

impl Spin {
    /// At first for the most.
    pub fn new(most: Duration) -> Spin {
        let (until, keeps_until) = (Instant::ZERO, Instant::ZERO);
        Spin { most, limit: most, until, is_looking: false, vain: 0, keeps_until }
    }

    /// Whether others may have the processor between this look and the next.
    pub fn lends(&self, now: Instant) -> bool {
        now >= self.keeps_until
    }

    /// They had it from one moment to another, if they wanted it.
    pub fn lent(&mut self, from: Instant, to: Instant) {
        let time = to.saturating_since(from);
        if time >= LONG {
            self.keeps_until = to + time * KEEPS;
        }
    }

    /// There was work now.
    pub fn worked(&mut self, now: Instant) {
        // What comes much sooner says nothing of a longer look.
        let is_late = now + self.limit / 2 >= self.until;
        if std::mem::take(&mut self.is_looking) && now < self.until && is_late {
            self.limit = (self.limit * 2).min(self.most);
        }
        self.until = now + self.limit;
    }

    /// There was none: whether to look on, or to sleep.
    pub fn looks(&mut self, now: Instant) -> bool {
        if now < self.until {
            self.is_looking = true;
            return true;
        }
        if std::mem::take(&mut self.is_looking) {
            self.vain += 1;
            self.limit = match self.vain.is_multiple_of(PROBE) {
                true => self.most,
                false => (self.limit / 2).max(self.most / LEAST),
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(64);

    /// Work comes `gap` after the last, again and again: how long it looked in all, and how often it slept.
    fn looked(spin: &mut Spin, gap: Duration, times: u32) -> (Duration, u32) {
        let (mut now, mut looked, mut slept) = (Instant::ZERO, Duration::ZERO, 0);
        for _ in 0..times {
            spin.worked(now);
            let next = now + gap;
            let step = Duration::from_nanos(500);
            while now < next {
                if !spin.looks(now) {
                    (now, slept) = (next, slept + 1);
                    break;
                }
                now += step;
                looked += step;
            }
        }
        (looked, slept)
    }

    #[test]
    fn it_looks_as_long_as_it_pays() {
        let mut spin = Spin::new(MOST);
        assert_eq!(
            looked(&mut spin, MOST / 2, 1000).1,
            0,
            "it does not sleep where work comes soon"
        );
        let (vain, slept) = looked(&mut spin, MOST * 10, 1000);
        assert!(slept > 990 && vain < MOST * 150, "{vain:?} in vain, {slept}");
        let (_, slept) = looked(&mut spin, MOST / 2, 1000);
        assert!(slept < 2 * PROBE, "it has slept {slept} times before it looked again");
    }

    #[test]
    fn who_keeps_the_processor_for_long_does_not_have_it_again_soon() {
        let (mut spin, mut now) = (Spin::new(MOST), Instant::ZERO);
        for _ in 0..100 {
            assert!(spin.lends(now));
            let from = now;
            now += LONG / 4;
            spin.lent(from, now);
        }
        // Another, who never rests: what he has of the time that the outboard would look.
        let (mut his, begin) = (Duration::ZERO, now);
        while now < begin + LONG * 10_000 {
            let from = now;
            now += MOST;
            if spin.lends(from) {
                now = from + LONG * 4;
                his += LONG * 4;
                spin.lent(from, now);
            }
        }
        let all = now.saturating_since(begin);
        assert!(his > Duration::ZERO && his < all / 50, "{his:?} of {all:?}");
        assert!(spin.lends(now + LONG * 4 * KEEPS), "it is tried again");
    }

    #[test]
    fn who_is_to_look_never_does_not() {
        let mut spin = Spin::new(Duration::ZERO);
        assert_eq!(looked(&mut spin, MOST, 100), (Duration::ZERO, 100));
    }
}
