//! How long who calls looks for the answer before it sleeps.
//!
//! A call costs two packets, and between them nothing happens that would keep either end awake. A sleep of one makes its
//! packet late, and whoever waits for that sleeps too: two ends that have slept once would do so before each packet. So
//! the end that calls looks on for as long as answers take lately, where that is not long.

use std::time::Duration;

use fusewire_base::Instant;

/// The longest that is looked for an answer, by the stack's `spin`.
const LOOKS_MAX: u32 = 8;

/// How eager who calls is for its answers.
#[derive(Debug)]
pub(crate) struct Eager {
    /// How long answers take, smoothed.
    took: Duration,
    until: Instant,
}

impl Default for Eager {
    fn default() -> Eager {
        Eager { took: Duration::ZERO, until: Instant::ZERO }
    }
}

impl Eager {
    /// A call has begun. An end that sleeps for it will have slept in vain when twice the time that answers take is
    /// short.
    pub fn began(&mut self, now: Instant, spin: Duration) {
        let twice = 2 * self.took;
        let looks = if twice <= LOOKS_MAX * spin { twice.max(spin) } else { spin };
        self.until = now + looks;
    }

    /// A call was answered after so long; `is_last` if none is under way now.
    pub fn answered(&mut self, took: Duration, spin: Duration, is_last: bool) {
        // One that is very late says little of the next.
        self.took = (3 * self.took + took.min(2 * LOOKS_MAX * spin)) / 4;
        if is_last {
            self.until = Instant::ZERO;
        }
    }

    /// An answer may be here at any moment.
    pub fn is_eager(&self, now: Instant) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(50);

    /// After these answers, in microseconds: for how long one more is looked for.
    fn looks(answers: &[u64], spin: Duration) -> u64 {
        let mut eager = Eager::default();
        let mut now = Instant::ZERO;
        for took in answers {
            eager.began(now, spin);
            eager.answered(Duration::from_micros(*took), spin, true);
            assert!(!eager.is_eager(now), "nothing is under way");
        }
        eager.began(now, spin);
        let mut us = 0;
        while eager.is_eager(now) {
            us += 1;
            now += Duration::from_micros(1);
        }
        us
    }

    #[test]
    fn short_answers_are_looked_for_and_long_ones_are_not() {
        assert_eq!(looks(&[], SPIN), 50);
        assert_eq!(looks(&[10; 30], SPIN), 50);
        // Both ends slept: not for the next.
        assert!((200..=230).contains(&looks(&[115; 30], SPIN)));
        assert_eq!(looks(&[5000; 30], SPIN), 50);
        assert_eq!(looks(&[115; 30], Duration::ZERO), 0, "who does not spin sleeps");
    }

    #[test]
    fn one_late_answer_is_soon_forgotten() {
        let mut answers = vec![115; 30];
        answers.push(50_000);
        assert_eq!(looks(&answers, SPIN), 50);
        answers.extend([115; 4]);
        assert!(looks(&answers, SPIN) > 200);
    }

    #[test]
    fn more_than_one_may_be_under_way() {
        let mut eager = Eager::default();
        eager.began(Instant::ZERO, SPIN);
        eager.answered(SPIN, SPIN, false);
        assert!(eager.is_eager(Instant::ZERO));
    }
}
