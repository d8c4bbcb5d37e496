//! Running one test for many seeds.
//!
//! `FUSEWIRE_SEEDS=10000` sets how many; `FUSEWIRE_SEED=17` replays one, and `FUSEWIRE_SEED=5000..10000` runs those
//! from 5,000 to 9,999, so that several processes share a long run. A failure prints the seed and the line that
//! replays it; with `FUSEWIRE_KEEP_GOING=1` the other seeds run all the same.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::Random;

/// How many seeds a test runs with when the environment does not say.
pub const DEFAULT: u64 = 300;

/// Runs `test` once for each seed. `name` is the test's own path, for the line that replays it.
///
/// # Panics
/// When `test` does, after printing the seed.
pub fn for_each_seed(name: &str, test: impl FnMut(u64, &mut Random)) {
    for_each_seed_of(DEFAULT, name, test);
}

/// As [`for_each_seed`], for a test whose single run is long: `default` seeds where the environment
/// does not say, and of the number that it says a share as small.
///
/// # Panics
/// When `test` does, after printing the seed.
pub fn for_each_seed_of(default: u64, name: &str, mut test: impl FnMut(u64, &mut Random)) {
    let named = std::env::var("FUSEWIRE_SEED").ok().and_then(|text| range(&text));
    let count = std::env::var("FUSEWIRE_SEEDS").ok().and_then(|text| number(&text));
    let seeds = match (named, count) {
        (Some(seeds), _) => seeds,
        (None, Some(count)) => 0..(count * default / DEFAULT).max(1),
        (None, None) => 0..default,
    };
    let keep_going = std::env::var_os("FUSEWIRE_KEEP_GOING").is_some();
    let mut failed = Vec::new();
    for seed in seeds {
        let run = AssertUnwindSafe(|| test(seed, &mut Random::new(seed)));
        if let Err(panic) = catch_unwind(run) {
            eprintln!(
                "{name} failed with seed {seed}; again: FUSEWIRE_SEED={seed} cargo test {name}"
            );
            failed.push(seed);
            if !keep_going {
                resume_unwind(panic);
            }
        }
    }
    assert!(failed.is_empty(), "{name}: {} seeds failed: {failed:?}", failed.len());
}

/// `17` or `5000..10000`.
fn range(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((first, end)) => Some(number(first)?..number(end)?),
        None => number(text).map(|seed| seed..seed + 1),
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_or_those_from_one_to_another() {
        assert_eq!(range("17"), Some(17..18));
        assert_eq!(range("0x10..20"), Some(16..20));
        assert_eq!(range("..20"), None);
        assert_eq!(range("seventeen"), None);
    }

    #[test]
    fn a_failure_stops_at_its_seed() {
        let mut ran = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            for_each_seed_of(10, "a_failure_stops_at_its_seed", |seed, _| {
                ran.push(seed);
                assert!(seed < 3, "seed 3 fails on purpose");
            });
        }));
        if std::env::var_os("FUSEWIRE_SEED").is_none() {
            assert!(result.is_err() || ran.len() < 4);
            assert!(ran.iter().copied().eq(0..ran.len() as u64));
        }
    }
}
