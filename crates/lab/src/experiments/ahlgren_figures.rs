//! Ahlgren, Figures 3, 5, 6 and 7: state against registers, modelled with the paper's parameters and measured
//! with synthetic functions.

use fusewire_model::paper::{Axis as Second, Figure, Implementation};
use fusewire_synthetic::{Function, Lanes, Passes, WORDS_MAX};

use super::synthetic::{function, whole};
use crate::Result;
use crate::bench::{Bench, Method};
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::record::{Place, Point};

const STATE: Axis = Axis::linear("state of each function", "words");
const MODELLED: Axis = Axis::linear("modelled cost", "clocks/B");
const MEASURED: Axis = Axis::linear("measured time", "ns/B");
const MEASURED_RATIO: &str = "Integrated by sequential, measured: one loop loses above 1 (orange)";
const RATIO: Axis = Axis::linear("integrated ÷ sequential", "");

const METHOD: &str = "The surfaces of the model are computed from the paper's equations with its parameters. On \
                      this machine the same functions are assembled to order (32-bit words in general registers, \
                      of which eleven are left for words, constant and state; beyond them state lies in memory), \
                      once fused into one loop and once a loop each, and timed in turns from the first-level \
                      cache, with two words of state between steps.";
const DIFFERS: &str = "The paper has a knee where the state of all functions together outgrows the \
                       registers. Beyond it the loop on this machine does not pay an access after the other: \
                       loads and stores overlap with computation, and what it waits for is the word of state that \
                       it stored a turn ago. A loop of one function has nothing else to do meanwhile, so that three loops \
                       have a knee of their own, and a steep one, where one function's state outgrows the registers: \
                       beyond it one loop may win again. The paper's figures are pictures without numbers; what stands beside \
                       the measured surface is the paper's own model, computed.";

const FUNCTIONS: Axis = Axis::linear("functions", "");
const BLOCK: Axis = Axis::linear("block", "B");
const MEMORY: Axis = Axis::linear("memory access", "clocks/word");
const MESSAGE: Axis = Axis::logarithmic("message", "bytes");

fn none() -> Vec<Point> {
    Vec::new()
}

pub(super) const FIGURE_3: Experiment = Experiment {
    name: "ahlgren-figure-3",
    paper: Paper::Ahlgren,
    shows: "Figure 3",
    title: "State on the HP 735, and here",
    question: "From how much state on is one loop of three functions slower than three loops?",
    method: METHOD,
    differs: DIFFERS,
    charts: &[
        Chart::lines("modelled", "The paper's model of the HP 9000-735/99, warm", STATE, MODELLED),
        Chart::lines("measured", "Measured here, warm", STATE, MEASURED),
        Chart::lines("ratio", "Integrated by sequential: one loop loses above 1", STATE, RATIO),
    ],
    published: none,
    needs: Needs::Nothing,
    seconds: [0.2, 0.5],
    run: |bench| run(bench, Figure::Three),
};

pub(super) const FIGURE_5: Experiment = Experiment {
    name: "ahlgren-figure-5",
    paper: Paper::Ahlgren,
    shows: "Figure 5",
    title: "State and number of functions",
    question: "How many functions with how much state can be integrated before it costs?",
    method: METHOD,
    differs: DIFFERS,
    charts: &[
        Chart::surface("modelled", "The paper's model, warm", [STATE, FUNCTIONS], MODELLED),
        Chart::surface(
            "modelled-cold",
            "The paper's model, from memory",
            [STATE, FUNCTIONS],
            MODELLED,
        ),
        Chart::surface("measured", "Measured here, warm", [STATE, FUNCTIONS], MEASURED),
        Chart::surface("ratio", MEASURED_RATIO, [STATE, FUNCTIONS], RATIO),
    ],
    published: none,
    needs: Needs::Nothing,
    seconds: [0.3, 4.0],
    run: |bench| run(bench, Figure::Five),
};

pub(super) const FIGURE_6: Experiment = Experiment {
    name: "ahlgren-figure-6",
    paper: Paper::Ahlgren,
    shows: "Figure 6",
    title: "State and block size",
    question: "Does a larger block pay for state that lies in memory?",
    method: METHOD,
    differs: DIFFERS,
    charts: &[
        Chart::surface("modelled", "The paper's model, warm", [STATE, BLOCK], MODELLED),
        Chart::surface("measured", "Measured here, warm", [STATE, BLOCK], MEASURED),
        Chart::surface("ratio", MEASURED_RATIO, [STATE, BLOCK], RATIO),
    ],
    published: none,
    needs: Needs::Nothing,
    seconds: [0.3, 4.0],
    run: |bench| run(bench, Figure::Six),
};

pub(super) const FIGURE_7: Experiment = Experiment {
    name: "ahlgren-figure-7",
    paper: Paper::Ahlgren,
    shows: "Figure 7",
    title: "State and memory access time",
    question: "Does slow memory make integration pay again, whatever the state?",
    method: METHOD,
    differs: "A machine's memory cannot be made slower, so that the measured surface has the message's length as \
              its second axis: each length lies in the next slower place, from the first-level cache to memory. \
              In the paper's model slow memory wins over state in memory; where the prefetchers of today hide \
              memory behind the loop, it does so less.",
    charts: &[
        Chart::surface("modelled", "The paper's model, from memory", [STATE, MEMORY], MODELLED),
        Chart::surface(
            "measured",
            "Measured here, by place of the message",
            [STATE, MESSAGE],
            MEASURED,
        ),
        Chart::surface("ratio", MEASURED_RATIO, [STATE, MESSAGE], RATIO),
    ],
    published: none,
    needs: Needs::Nothing,
    seconds: [1.0, 55.0],
    run: |bench| run(bench, Figure::Seven),
};

fn way(implementation: Implementation) -> &'static str {
    match implementation {
        Implementation::Integrated => "integrated",
        Implementation::Sequential => "sequential",
    }
}

/// Words of state that are measured.
const STATES: [usize; 9] = [0, 2, 4, 6, 8, 10, 12, 14, 16];
const LEN: usize = 8 << 10;

fn run(bench: &mut Bench<'_>, figure: Figure) -> Result<()> {
    for point in figure.points()? {
        let cold = point.cache == fusewire_model::paper::Cache::Cold;
        let chart = if cold && figure != Figure::Seven { "modelled-cold" } else { "modelled" };
        let (x, series) = (f64::from(point.state_words), way(point.implementation));
        let place = match figure {
            Figure::Three if cold => continue,
            Figure::Three => Place::new(chart, series, x),
            _ => Place::surface(chart, series, x, point.other.into()),
        };
        bench.computed(place, point.clocks.0);
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
                bench.sample(case.place("measured", way(implementation)), ns);
            }
            if i % 24 == 23 {
                let part = (round as f64 + i as f64 / cases.len() as f64) / rounds as f64;
                bench.step(part, "")?;
            }
        }
        Ok(())
    })?;
    bench.compare("measured", ["integrated", "sequential"], "ratio", "this machine");
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

pub(super) const WORD_FILTERS: Experiment = Experiment {
    name: "ahlgren-word-filters",
    paper: Paper::Ahlgren,
    shows: "section 6.2",
    title: "Word filters, or the least common multiple",
    question: "Is it better to hand on word by word, or in units that all functions have whole?",
    method: "Byte swap, pseudo-encryption of blocks of two words, and Internet sum over messages in the cache and \
             in memory: Abbott and Peterson's word filters, whose cipher collects two words before it works, and the \
             same stages in units of the least common multiple, both word by word in general registers, so that they \
             differ in the unit alone, as Ahlgren's do; and beside them this system's loop at the portable level. The \
             results are compared before anything is timed.",
    differs: "Ahlgren's two loops gain 25 to 35 % from the larger unit. A processor of today foresees the branch that word \
              filters have in the loop, so that what is left of their price are the instructions. Once the units are whole \
              the compiler can make vectors of the loop, which it cannot of word filters: that is the third method, and \
              as much again.",
    charts: &[
        Chart::bars(
            "gain",
            "Time of word filters by that of units of the least common multiple",
            Axis::linear("word filters ÷ whole units", ""),
        ),
        Chart::bars("time", "Time here", Axis::linear("time", "ns/B")),
    ],
    published: || {
        vec![
            Place::new("gain", "by the same with whole units", "cached").is(1.25),
            Place::new("gain", "by the same with whole units", "not cached").is(1.35),
        ]
    },
    needs: Needs::Nothing,
    seconds: [1.0, 4.0],
    run: word_filters,
};

const WORDS: &str = "word filters";
const UNITS: &str = "whole units";
const PORTABLE: &str = "this system's loop, portable";

fn word_filters(bench: &mut Bench<'_>) -> Result<()> {
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
