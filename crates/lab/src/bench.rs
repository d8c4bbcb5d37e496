//! What experiments measure with: rounds in which everything takes turns, a control loop between them, medians
//! and quartiles at the end.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fusewire_calibration::{caches, turn};
use fusewire_kernels::Level;

use crate::record::{At, Machine, Noise, Place, Point};
use crate::{Error, Result};

/// Told how far an experiment is, 0 to 1, and what it does; gives whether to go on.
pub type Watch<'a> = dyn FnMut(f64, &str) -> bool + 'a;

/// One run of one experiment.
pub struct Bench<'a> {
    /// A short run.
    pub quick: bool,
    /// Which instructions the loops use.
    pub level: Level,
    /// This program, which runs processes of ours.
    pub program: PathBuf,
    control: Control,
    watch: &'a mut Watch<'a>,
    computed: Vec<Point>,
    samples: Vec<(Place, Vec<f64>)>,
    index: HashMap<String, usize>,
    remarks: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Ready to measure.
    pub fn new(quick: bool, level: Level, program: PathBuf, watch: &'a mut Watch<'a>) -> Bench<'a> {
        let mut control = Control::default();
        (0..8).for_each(|_| control.look());
        Bench {
            quick,
            level,
            program,
            control,
            watch,
            computed: Vec::new(),
            samples: Vec::new(),
            index: HashMap::new(),
            remarks: Vec::new(),
        }
    }

    /// The one for a short run, the other otherwise.
    pub fn choose<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Adds what was computed and not measured: nothing on this machine can disturb it.
    pub fn computed(&mut self, place: Place, value: f64) {
        self.computed.push(place.is(value));
    }

    /// Adds a measurement.
    pub fn sample(&mut self, place: Place, value: f64) {
        let key = format!("{}\0{}\0{:?}\0{:?}", place.chart, place.series, place.at, place.second);
        match self.index.get(&key) {
            Some(&at) => self.samples[at].1.push(value),
            None => {
                self.index.insert(key, self.samples.len());
                self.samples.push((place, vec![value]));
            }
        }
    }

    /// Says what had to be left out.
    pub fn remark(&mut self, remark: impl Into<String>) {
        // What a program of somebody's said may be long, and colourful.
        let remark: String =
            remark.into().replace(char::is_control, " ").chars().take(300).collect();
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Says how far it is, and looks at how quiet the machine is.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when the user wants no more.
    pub fn step(&mut self, part: f64, what: &str) -> Result<()> {
        self.control.look();
        if (self.watch)(part, what) { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Rounds: `each` measures everything once, and is told which round it is.
    ///
    /// # Errors
    /// The first of `each`, or the user's wish to end.
    pub fn rounds(
        &mut self,
        count: usize,
        mut each: impl FnMut(&mut Bench<'a>, usize) -> Result<()>,
    ) -> Result<()> {
        for round in 0..count {
            self.step(round as f64 / count as f64, &format!("round {} of {count}", round + 1))?;
            each(self, round)?;
        }
        self.step(1.0, "done")
    }

    /// Rounds of loops in turns: ns a call of each, forwards and backwards alternately.
    ///
    /// # Errors
    /// As [`Bench::rounds`].
    pub fn turns(&mut self, rounds: usize, methods: &mut [(Place, Method<'_>)]) -> Result<()> {
        let length = self.choose(Duration::from_micros(150), Duration::from_micros(600));
        self.rounds(rounds, |bench, round| {
            let count = methods.len();
            for i in 0..count {
                let i = if round % 2 == 0 { i } else { count - 1 - i };
                let (place, method) = &mut methods[i];
                let ns = turn(length, &mut *method.call) * method.factor;
                bench.sample(place.clone(), if method.inverse { 1.0 / ns } else { ns });
                if i % 16 == 15 {
                    bench.step((round as f64 + i as f64 / count as f64) / rounds as f64, "")?;
                }
            }
            Ok(())
        })
    }

    /// Rates of one chart, round by round, by those of the same series at `to`: into another chart.
    pub fn ratios(&mut self, from: &str, to: impl Into<At>, into: &str) {
        let to = to.into();
        self.by(from, |place| {
            let base = Place { at: to.clone(), ..place.clone() };
            Some((base, Place { chart: into.to_owned(), ..place.clone() }))
        });
    }

    /// How one series compares with another at every place of a chart, round by round: `over` by `under`, into
    /// another chart.
    pub fn compare(&mut self, from: &str, [over, under]: [&str; 2], into: &str, series: &str) {
        self.by(from, |place| {
            let of = |chart: &str, series: &str| {
                let (chart, series) = (chart.to_owned(), series.to_owned());
                Place { chart, series, ..place.clone() }
            };
            (place.series == over).then(|| (of(from, under), of(into, series)))
        });
    }

    /// Samples of a chart, round by round, by those of another place in it: which, and where the ratios go.
    fn by(&mut self, from: &str, places: impl Fn(&Place) -> Option<(Place, Place)>) {
        let mut found = Vec::new();
        for (place, samples) in self.samples.iter().filter(|(place, _)| place.chart == from) {
            let Some((base, into)) = places(place) else { continue };
            let others = self.samples.iter().find(|(place, _)| *place == base);
            let pairs = samples.iter().zip(others.iter().flat_map(|(_, others)| others));
            found.extend(pairs.map(|(a, b)| (into.clone(), a / b)));
        }
        found.into_iter().for_each(|(place, ratio)| self.sample(place, ratio));
    }

    /// What was found: points, remarks, noise.
    pub fn finish(self) -> (Vec<Point>, Vec<String>, Noise) {
        let measured = self.samples.into_iter().map(|(place, samples)| point(place, samples));
        let points = self.computed.into_iter().chain(measured).collect();
        (points, self.remarks, self.control.noise())
    }
}

/// A loop to time, and what becomes of its ns a call.
pub struct Method<'m> {
    /// Does it once.
    pub call: Box<dyn FnMut() + 'm>,
    /// ns are multiplied by it,
    pub factor: f64,
    /// and inverted, for rates.
    pub inverse: bool,
}

impl<'m> Method<'m> {
    /// Whose ns a byte are wanted, or another unit by `factor`.
    pub fn new(factor: f64, call: impl FnMut() + 'm) -> Method<'m> {
        Method { call: Box::new(call), factor, inverse: false }
    }

    /// Whose Mbit/s are wanted, of `bytes` bytes a call.
    pub fn mbits(bytes: usize, call: impl FnMut() + 'm) -> Method<'m> {
        Method { inverse: true, ..Method::new(1e-3 / (bytes as f64 * 8.0), call) }
    }
}

/// What `part` of sorted samples lies below: between two of them, as much nearer to one as it lies.
pub(crate) fn quantile(samples: &[f64], part: f64) -> Option<f64> {
    let at = (samples.len().max(1) - 1) as f64 * part;
    let [below, above] = [at.floor(), at.ceil()].map(|at| samples.get(at as usize).copied());
    Some(below? + (above? - below?) * at.fract())
}

fn point(place: Place, mut samples: Vec<f64>) -> Point {
    samples.retain(|value| value.is_finite());
    samples.sort_by(f64::total_cmp);
    let n = samples.len();
    let measured = n > 1;
    Point {
        place,
        value: quantile(&samples, 0.5).unwrap_or(0.0),
        low: quantile(&samples, 0.25).filter(|_| measured),
        high: quantile(&samples, 0.75).filter(|_| measured),
        samples: (n > 0).then_some(n as u32),
    }
}

/// A loop that takes as long as it takes: what others do on this core is seen in it.
#[derive(Default)]
struct Control {
    ns: Vec<f64>,
}

impl Control {
    const TURNS: u64 = 20_000;
    /// A look that takes so much longer than the fastest was disturbed.
    const NEAR: f64 = 1.125;
    /// Part of the looks that may be.
    const MUCH: f64 = 0.2;

    fn look(&mut self) {
        let once = || {
            let start = Instant::now();
            let mut x = black_box([1u64, 2, 3, 4]);
            for i in 0..Control::TURNS {
                // Four chains abreast: another thread on the core is seen, and not only the clock.
                for x in &mut x {
                    *x = x.rotate_left(5) ^ i;
                }
                x = black_box(x);
            }
            start.elapsed().as_nanos() as f64
        };
        // The better of two: what the caches forgot is nobody's noise.
        self.ns.push(once().min(once()));
    }

    fn noise(mut self) -> Noise {
        self.ns.sort_by(f64::total_cmp);
        let best = self.ns.first().copied().unwrap_or(0.0);
        let disturbed = self.ns.iter().filter(|ns| **ns > best * Control::NEAR).count();
        let disturbed = disturbed as f64 / self.ns.len().max(1) as f64;
        Noise {
            looks: self.ns.len() as u32,
            best_ns: best,
            median_ns: self.ns.get(self.ns.len() / 2).copied().unwrap_or(best),
            disturbed,
            noisy: disturbed > Control::MUCH,
        }
    }
}

/// This machine, with loops of that level.
pub fn machine(level: Level) -> Machine {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let system = rustix::system::uname();
    let words = [system.sysname(), system.release(), system.machine()];
    let system = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
    Machine {
        processor: fusewire_calibration::processor(),
        cpus,
        level: level.name().to_owned(),
        system,
        caches: caches().into_iter().map(|cache| (cache.name, cache.bytes)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_on_both_sides_of_the_middle() {
        let of = |samples: &[f64]| [0.25, 0.5, 0.75].map(|part| quantile(samples, part).unwrap());
        assert_eq!(of(&[1.0, 2.0, 3.0]), [1.5, 2.0, 2.5]);
        assert_eq!(of(&[1.0, 2.0]), [1.25, 1.5, 1.75]);
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 5.0]), [2.0, 3.0, 4.0]);
        assert_eq!(of(&[7.0]), [7.0; 3]);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
