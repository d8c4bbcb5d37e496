//! Ahlgren, Figures 3, 5, 6 and 7: state against registers, modelled with the paper's parameters and measured
//! with synthetic functions.

use fusewire_model::paper::{
    Axis as Second, Cache, Figure, Function as Described, Implementation, time,
};
use fusewire_synthetic::{Function, Lanes, Passes, WORDS_MAX};

use super::synthetic::{Apart, COLD, Far, function, here, whole};
use crate::Result;
use crate::bench::{Bench, Method};
use crate::record::Place;

/// Words of state that are measured.
const STATES: [usize; 9] = [0, 2, 4, 6, 8, 10, 12, 14, 16];
const LEN: usize = 8 << 10;

pub(super) fn run(bench: &mut Bench<'_>, figure: Figure) -> Result<()> {
    for point in figure.points()? {
        let cold = point.cache == Cache::Cold;
        let chart = if cold && figure != Figure::Seven { "modelled-cold" } else { "modelled" };
        let (x, series) = (f64::from(point.state_words), point.implementation.name());
        let place = match figure {
            Figure::Three if cold => continue,
            Figure::Three => Place::new(chart, series, x),
            _ => Place::surface(chart, series, x, point.other.into()),
        };
        bench.computed(place, point.clocks.0);
    }
    if figure == Figure::Three {
        modelled_here(bench)?;
    }
    let cases = cases(bench, figure);
    let longest = cases.iter().map(|case| case.len).max().unwrap_or(LEN);
    let src = vec![0x5a; longest];
    let mut dst = vec![1; longest];
    let mut made = Vec::new();
    for case in &cases {
        made.push(Passes::new(Lanes::Scalar32, &case.functions)?);
    }
    // Messages as long as memory is take their time.
    let rounds = bench.choose(5, if figure == Figure::Seven { 9 } else { 101 });
    bench.rounds(rounds, |bench, round| {
        for (i, (case, made)) in cases.iter().zip(&mut made).enumerate() {
            let (src, dst) = (&src[..case.len], &mut dst[..case.len]);
            let turn = bench.choose(60, 200);
            let turn = std::time::Duration::from_micros(turn);
            for integrated in [round % 2 == 0, round % 2 != 0] {
                let implementation = if integrated {
                    Implementation::Integrated
                } else {
                    Implementation::Sequential
                };
                let mut call = || match integrated {
                    true => whole(made.integrated(src, dst)),
                    false => whole(made.sequential(src, dst)),
                };
                let ns = fusewire_calibration::turn(turn, &mut call) / case.len as f64;
                bench.sample(case.place("measured", implementation.name()), ns);
            }
            if i % 24 == 23 {
                let part = (round as f64 + i as f64 / cases.len() as f64) / rounds as f64;
                bench.step(part, "")?;
            }
        }
        Ok(())
    })?;
    bench.compare("measured", ["integrated", "sequential"], "ratio", "this machine");
    if figure == Figure::Five { from_memory(bench, &cases) } else { Ok(()) }
}

/// Figure 3 by the model with this machine's parameters.
fn modelled_here(bench: &mut Bench<'_>) -> Result<()> {
    let machine = here(bench, None)?;
    for state in 0..=16u32 {
        let (name, instructions) = ("synthetic", 10.0);
        let one =
            Described { name, state_words: state, instructions, block_bytes: 4, writes: true };
        for implementation in [Implementation::Integrated, Implementation::Sequential] {
            let ns = time(&machine, &[one; 3], Cache::Warm, implementation)?;
            let place = Place::new("modelled-here", implementation.name(), f64::from(state));
            bench.sample(place, ns.0);
        }
    }
    Ok(())
}

/// Figure 5b: each loop finds its message in no cache.
fn from_memory(bench: &mut Bench<'_>, cases: &[Case]) -> Result<()> {
    let mut far = Far::new(bench);
    let mut loops = Vec::new();
    for case in cases {
        loops.push(Apart::new(&case.functions)?);
    }
    let length = std::time::Duration::from_micros(bench.choose(60, 400));
    bench.rounds(bench.choose(3, 31), |bench, round| {
        for (i, (case, loops)) in cases.iter().zip(&mut loops).enumerate() {
            for integrated in [round % 2 == 0, round % 2 != 0] {
                let implementation = if integrated {
                    Implementation::Integrated
                } else {
                    Implementation::Sequential
                };
                let mut call = || loops.cold(integrated, &mut far);
                let ns = fusewire_calibration::turn(length, &mut call) / COLD as f64;
                bench.sample(case.place("measured-cold", implementation.name()), ns);
            }
            if i % 24 == 23 {
                bench.step(i as f64 / cases.len() as f64, "from memory")?;
            }
        }
        Ok(())
    })?;
    bench.compare("measured-cold", ["integrated", "sequential"], "ratio-cold", "this machine");
    Ok(())
}

/// One point of a measured surface.
struct Case {
    state: usize,
    second: Option<f64>,
    len: usize,
    functions: Vec<Function>,
}

impl Case {
    fn place(&self, chart: &str, series: &str) -> Place {
        match self.second {
            None => Place::new(chart, series, self.state as f64),
            Some(second) => Place::surface(chart, series, self.state as f64, second),
        }
    }
}

fn cases(bench: &Bench<'_>, figure: Figure) -> Vec<Case> {
    let mut cases = Vec::new();
    let seconds: Vec<usize> = match figure.axis() {
        Second::Functions if figure == Figure::Three => vec![3],
        Second::Functions => (1..=8).collect(),
        Second::BlockBytes => (1..=WORDS_MAX).map(|words| words * 4).collect(),
        Second::MemoryClocks => bench.choose(
            vec![8 << 10, 64 << 10, 1 << 20],
            vec![8 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20],
        ),
    };
    for second in seconds {
        for state in STATES {
            let (len, functions) = match figure {
                Figure::Three => (LEN, vec![function(state, 10, 1); 3]),
                Figure::Five => (LEN, vec![function(state, 3, 1); second]),
                // A multiple of every block.
                Figure::Six => (6720, vec![function(state, 3 * second / 4, second / 4); 3]),
                Figure::Seven => (second, vec![function(state, 3, 1); 3]),
            };
            let second = (figure != Figure::Three).then_some(second as f64);
            cases.push(Case { state, second, len, functions });
        }
    }
    cases
}

const WORDS: &str = "word filters";
const UNITS: &str = "whole units";
const PORTABLE: &str = "this system's loop, portable";

pub(super) fn word_filters(bench: &mut Bench<'_>) -> Result<()> {
    use fusewire_experiments::word_filter::{whole_blocks, word_filters};
    use fusewire_kernels::execution::Integrated;
    use fusewire_kernels::stage::then;
    use fusewire_kernels::stages::{InternetSum, PesEncrypt, PesKey, Swap};
    use std::hint::black_box;

    let level = fusewire_kernels::Level::available()[0];
    let pipeline = || then(Swap::<4>, then(PesEncrypt(PesKey::new(*b"fusewire")), InternetSum));
    let cold = 64 << 20;
    let src = vec![0x5a; cold];
    let mut one = vec![1; cold];
    let mut other = vec![1; cold];
    let mut third = vec![1; cold];
    let whole =
        level.run(Integrated { stage: &pipeline(), src: &src[..LEN], dst: &mut one[..LEN] });
    for method in [word_filters, whole_blocks] {
        other.fill(0);
        if whole != method(&pipeline(), &src[..LEN], &mut other[..LEN])
            || one[..LEN] != other[..LEN]
        {
            let what = "another message, or another sum".to_owned();
            return Err(crate::Error::Wrong { method: "word filters".to_owned(), what });
        }
    }
    for (place, len) in [("cached", LEN), ("not cached", cold)] {
        let factor = 1.0 / len as f64;
        let (src, one) = (&src[..len], &mut one[..len]);
        let (other, third) = (&mut other[..len], &mut third[..len]);
        let mut methods = [
            (
                Place::new("time", PORTABLE, place),
                Method::new(factor, || {
                    black_box(level.run(Integrated { stage: &pipeline(), src, dst: one }));
                }),
            ),
            (
                Place::new("time", WORDS, place),
                Method::new(factor, || {
                    black_box(word_filters(&pipeline(), src, other));
                }),
            ),
            (
                Place::new("time", UNITS, place),
                Method::new(factor, || {
                    black_box(whole_blocks(&pipeline(), src, third));
                }),
            ),
        ];
        let rounds = if len == LEN { bench.choose(15, 61) } else { bench.choose(3, 15) };
        bench.turns(rounds, &mut methods)?;
    }
    bench.compare("time", [WORDS, UNITS], "gain", "by the same with whole units");
    bench.compare("time", [WORDS, PORTABLE], "gain", "by this system's loop");
    Ok(())
}
