//! How what was found differs from what was found before.

use crate::record::{Point, Record};

/// How a record differs from one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When the other was taken.
    pub since: String,
    /// Points that both have.
    pub points: usize,
    /// Median of the factors between the values.
    pub median: f64,
    /// Points that changed by more than both their spreads and a twentieth.
    pub beyond_spread: usize,
    /// What became of the control loop's time, a factor: as much of a change is the machine's.
    pub control: f64,
}

impl Change {
    /// Against the newest of `before` that is of the same kind and from the same machine.
    pub fn between(before: &[Record], record: &Record) -> Option<Change> {
        let alike = |r: &&Record| r.quick == record.quick && r.machine == record.machine;
        let before = before.iter().rev().find(alike)?;
        let low = |p: &Point| p.low.unwrap_or(p.value);
        let high = |p: &Point| p.high.unwrap_or(p.value);
        let mut factors = Vec::new();
        let mut beyond_spread = 0;
        for point in &record.points {
            let Some(old) = before.points.iter().find(|old| old.place == point.place) else {
                continue;
            };
            if old.value > 0.0 && point.value > 0.0 {
                let factor = point.value / old.value;
                factors.push(factor);
                let apart = low(point) > high(old) || high(point) < low(old);
                beyond_spread += usize::from(apart && (factor - 1.0).abs() > 0.05);
            }
        }
        factors.sort_by(f64::total_cmp);
        let median = *factors.get(factors.len() / 2)?;
        let control = record.noise.median_ns / before.noise.median_ns;
        Some(Change {
            since: before.taken.clone(),
            points: factors.len(),
            median,
            beyond_spread,
            control: if control.is_finite() && control > 0.0 { control } else { 1.0 },
        })
    }

    /// In words.
    pub fn words(&self) -> String {
        let Change { since, points, median, beyond_spread, control } = self;
        let percent = |factor: f64| (factor - 1.0) * 100.0;
        format!(
            "{:+.1} % since {since} in the middle, {beyond_spread} of {points} beyond their spread; the control \
             loop {:+.0} %",
            percent(*median),
            percent(*control)
        )
    }
}
