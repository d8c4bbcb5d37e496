//! Stages of the kernels: what each costs in a loop of its own, and what it adds to one.

use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, Integrated, Scan, Sequential};
use fusewire_kernels::stage::{AnyStage, Output, Stage, then};
use fusewire_kernels::stages::{Copy, CxorSum, FletcherSum, InternetSum, PesEncrypt, PesKey, Swap};
use fusewire_model::machine;
use fusewire_model::{Implementation, Pipeline};

use crate::arena::Places;
use crate::fit::fit;
use crate::plan::{Plan, Task};
use crate::runner::Runner;
use crate::timing::turn;

/// For measuring only.
pub(crate) const PES: PesEncrypt = PesEncrypt(PesKey::new(*b"measured"));
pub(crate) const SHORT: usize = 1024;
pub(crate) const LONG: usize = 8192;

/// A pipeline of the kernels that is run as the model says.
struct Real<S> {
    stage: S,
    level: Level,
}

impl<S: AnyStage> Runner for Real<S> {
    fn run(&mut self, implementation: Implementation, places: Places<'_>) {
        let Places { src, dst, work } = places;
        let (level, stage) = (self.level, &self.stage);
        match implementation {
            Implementation::Integrated => {
                std::hint::black_box(level.run(Integrated { stage, src, dst }));
            }
            Implementation::Blocked => {
                std::hint::black_box(level.run(Blocked { stage, src, dst }));
            }
            Implementation::Sequential => {
                std::hint::black_box(level.run(Sequential { stage, src, work, dst }));
            }
        }
    }
}

/// What is measured of stages at one level.
pub(crate) struct Tasks(Vec<AtLevel>);

struct AtLevel {
    level: Level,
    alone: Vec<One>,
    pairs: Vec<Two>,
    /// Pairs, as indices, that run blocked.
    apart: Vec<([usize; 2], Task)>,
}

struct One {
    name: &'static str,
    writes: bool,
    state_bytes: usize,
    short: Task,
    long: Task,
}

struct Two {
    of: [usize; 2],
    short: Task,
    long: Task,
}

/// One loop that reads and stores.
struct Fused<S>(S, Level);
impl<S: AnyStage> Runner for Fused<S> {
    fn run(&mut self, _: Implementation, Places { src, dst, .. }: Places<'_>) {
        std::hint::black_box(self.1.run(Integrated { stage: &self.0, src, dst }));
    }
}

/// One loop that only reads.
struct Reads<S>(S, Level);
impl<S: AnyStage> Runner for Reads<S> {
    fn run(&mut self, _: Implementation, Places { src, .. }: Places<'_>) {
        std::hint::black_box(self.1.run(Scan { stage: &self.0, src }));
    }
}

/// Strips.
struct Strips<S>(S, Level);
impl<S: AnyStage> Runner for Strips<S> {
    fn run(&mut self, _: Implementation, Places { src, dst, .. }: Places<'_>) {
        std::hint::black_box(self.1.run(Blocked { stage: &self.0, src, dst }));
    }
}

/// Runs it over a message near, as whole pipelines are run: behind a pointer.
fn near(plan: &mut Plan, mut runner: Box<dyn Runner>, bytes: usize) -> Task {
    plan.add(move |arena, length| {
        turn(length, || runner.run(Implementation::Integrated, arena.warm(bytes)))
    })
}

/// Tasks of two lengths.
pub(crate) fn fused<S: AnyStage + core::marker::Copy + 'static>(
    plan: &mut Plan,
    stage: S,
    level: Level,
) -> [Task; 2] {
    [SHORT, LONG].map(|bytes| near(plan, Box::new(Fused(stage, level)), bytes))
}

impl AtLevel {
    fn alone<S: Stage>(&mut self, [short, long]: [Task; 2]) {
        let (writes, state_bytes) = (S::OUTPUT == Output::Same, S::STATE);
        self.alone.push(One { name: S::NAME, writes, state_bytes, short, long });
    }

    fn writing<S: AnyStage + core::marker::Copy + 'static>(&mut self, plan: &mut Plan, stage: S) {
        self.alone::<S>(fused(plan, stage, self.level));
    }

    fn reading<S: AnyStage + core::marker::Copy + 'static>(&mut self, plan: &mut Plan, stage: S) {
        let level = self.level;
        let tasks = [SHORT, LONG].map(|bytes| near(plan, Box::new(Reads(stage, level)), bytes));
        self.alone::<S>(tasks);
    }

    fn pair<A, B>(&mut self, plan: &mut Plan, a: A, b: B)
    where
        A: AnyStage + core::marker::Copy + 'static,
        B: AnyStage + core::marker::Copy + 'static,
    {
        let [short, long] = fused(plan, then(a, b), self.level);
        if let Some(of) = self.indices::<A, B>() {
            self.pairs.push(Two { of, short, long });
        }
    }

    fn blocked<A, B>(&mut self, plan: &mut Plan, a: A, b: B)
    where
        A: AnyStage + core::marker::Copy + 'static,
        B: AnyStage + core::marker::Copy + 'static,
    {
        let task = near(plan, Box::new(Strips(then(a, b), self.level)), SHORT);
        if let Some(of) = self.indices::<A, B>() {
            self.apart.push((of, task));
        }
    }

    fn indices<A: Stage, B: Stage>(&self) -> Option<[usize; 2]> {
        let index = |name| self.alone.iter().position(|one| one.name == name);
        Some([index(A::NAME)?, index(B::NAME)?])
    }

    /// With each stage of a list: it alone, and in a loop with each that was there before.
    fn all(&mut self, plan: &mut Plan) {
        self.writing(plan, Copy);
        self.writing(plan, Swap::<4>);
        self.writing(plan, Swap::<8>);
        self.writing(plan, PES);
        self.reading(plan, InternetSum);
        self.reading(plan, CxorSum);
        self.reading(plan, FletcherSum);
        self.pair(plan, Swap::<4>, PES);
        self.pair(plan, PES, Swap::<8>);
        self.pair(plan, Swap::<4>, InternetSum);
        self.pair(plan, Swap::<8>, InternetSum);
        self.pair(plan, PES, InternetSum);
        self.pair(plan, Swap::<4>, CxorSum);
        self.pair(plan, Swap::<8>, CxorSum);
        self.pair(plan, PES, CxorSum);
        self.pair(plan, CxorSum, InternetSum);
        self.pair(plan, Swap::<4>, FletcherSum);
        self.pair(plan, Swap::<8>, FletcherSum);
        self.pair(plan, PES, FletcherSum);
        self.pair(plan, FletcherSum, InternetSum);
        self.pair(plan, FletcherSum, CxorSum);
        self.blocked(plan, Swap::<4>, InternetSum);
        self.blocked(plan, PES, CxorSum);
    }
}

pub(crate) fn tasks(plan: &mut Plan) -> Tasks {
    let at_level = |level| {
        let mut at = AtLevel { level, alone: vec![], pairs: vec![], apart: vec![] };
        at.all(plan);
        at
    };
    Tasks(Level::available().iter().copied().map(at_level).collect())
}

/// Cycles without a byte, and a byte.
pub(crate) fn line(plan: &Plan, short: &Task, long: &Task) -> (f64, f64) {
    let [short, long] = [short, long].map(|task| plan.undisturbed(task));
    let per_byte = ((long - short) / (LONG - SHORT) as f64).max(1e-3);
    ((short - per_byte * SHORT as f64).max(0.0), per_byte)
}

pub(crate) fn evaluate(tasks: &Tasks, plan: &Plan) -> Vec<machine::Level> {
    tasks.0.iter().map(|at| at.evaluate(plan)).collect()
}

impl AtLevel {
    fn evaluate(&self, plan: &Plan) -> machine::Level {
        let alone: Vec<_> = self.alone.iter().map(|o| line(plan, &o.short, &o.long)).collect();
        let pairs: Vec<_> = self.pairs.iter().map(|p| line(plan, &p.short, &p.long)).collect();
        let work = self.work(&alone, &pairs);
        let starts = self.starts(&alone, &pairs);
        let passes = self.apart.iter().map(|(of, task)| {
            let [a, b] = *of;
            let apart = alone[a].1 + alone[b].1;
            plan.undisturbed(task) - alone[0].0 - starts[a] - starts[b] - apart * SHORT as f64
        });
        let pass_cycles = (passes.sum::<f64>() / self.apart.len() as f64).max(0.0);
        let mut level = machine::Level {
            name: self.level.name().to_owned(),
            pass_cycles,
            stages: Vec::new(),
            pairs: Vec::new(),
        };
        for (i, one) in self.alone.iter().enumerate() {
            level.stages.push(machine::Stage {
                name: one.name.to_owned(),
                writes: one.writes,
                state_bytes: one.state_bytes as u32,
                alone_cycles_per_byte: alone[i].1,
                work_cycles_per_byte: work[i],
                // The copy's is that of every run; a run has one pass at least.
                start_cycles: if i == 0 { (alone[0].0 - pass_cycles).max(0.0) } else { starts[i] },
            });
        }
        for (pair, (_, cycles_per_byte)) in self.pairs.iter().zip(pairs) {
            let names = pair.of.map(|i| self.alone[i].name.to_owned());
            level.pairs.push(machine::Pair { names, cycles_per_byte });
        }
        level
    }

    /// Work of each stage that, joined with loading and storing, comes nearest to all.
    fn work(&self, alone: &[(f64, f64)], pairs: &[(f64, f64)]) -> Vec<f64> {
        let copy = alone[0].1;
        let joined = |work: f64| (copy.powi(6) + work.powi(6)).powf(1.0 / 6.0);
        let start: Vec<f64> = alone.iter().map(|(_, per_byte)| per_byte.max(1e-3)).collect();
        let mut found = fit(&start, &mut |work| {
            let one = self.alone.iter().zip(alone).zip(work);
            let one = one.filter(|((one, _), _)| one.writes);
            let one = one.map(|((_, took), work)| (joined(*work), took.1));
            let two = self.pairs.iter().zip(pairs);
            let two = two.map(|(two, took)| (joined(work[two.of[0]] + work[two.of[1]]), took.1));
            one.chain(two).map(|(said, took)| (said / took).ln().powi(2)).sum()
        });
        // A copy's is what every loop does.
        found[0] = 0.0;
        found
    }

    /// Cycles of each stage's start and end beyond those of a copy: what comes nearest to all, step by
    /// step.
    fn starts(&self, alone: &[(f64, f64)], pairs: &[(f64, f64)]) -> Vec<f64> {
        let copy = alone[0].0;
        let mut starts: Vec<f64> = alone.iter().map(|(start, _)| (start - copy).max(0.0)).collect();
        for _ in 0..50 {
            for i in 1..starts.len() {
                let mut sum = alone[i].0 - copy;
                let mut count = 1.0;
                for (two, (took, _)) in self.pairs.iter().zip(pairs) {
                    let other = match two.of {
                        [a, b] if a == i => b,
                        [a, b] if b == i => a,
                        _ => continue,
                    };
                    sum += took - copy - starts[other];
                    count += 1.0;
                }
                starts[i] = (sum / count).max(0.0);
            }
        }
        starts
    }
}

/// A pipeline's names, and how it runs.
pub(crate) type Case = (Pipeline, Box<dyn Runner>);

fn case<S: AnyStage + 'static>(names: &[&str], stage: S, level: Level) -> Case {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let pipeline = Pipeline::Stages { names, level: level.name().to_owned() };
    (pipeline, Box::new(Real { stage, level }))
}

fn name<S: Stage>() -> &'static str {
    S::NAME
}

/// Pipelines of the kernels to check the model with, at one level.
pub(crate) fn cases(level: Level) -> Vec<Case> {
    let names = [
        name::<Copy>(),
        name::<Swap<4>>(),
        name::<Swap<8>>(),
        name::<PesEncrypt>(),
        name::<InternetSum>(),
        name::<CxorSum>(),
        name::<FletcherSum>(),
    ];
    let [copy, swap4, swap8, pes, internet, cxor, iso] = names;
    let sums = || then(CxorSum, InternetSum);
    vec![
        case(&[swap4, pes, internet], then(Swap::<4>, then(PES, InternetSum)), level),
        case(&[internet, pes, swap4], then(InternetSum, then(PES, Swap::<4>)), level),
        case(&[swap8, cxor, internet], then(Swap::<8>, sums()), level),
        case(&[pes, swap8, iso], then(PES, then(Swap::<8>, FletcherSum)), level),
        case(&[copy, iso, internet], then(Copy, then(FletcherSum, InternetSum)), level),
        case(&[cxor, pes, swap8], then(CxorSum, then(PES, Swap::<8>)), level),
        case(&[swap4, iso, cxor], then(Swap::<4>, then(FletcherSum, CxorSum)), level),
        case(&[swap4, pes, cxor, internet], then(Swap::<4>, then(PES, sums())), level),
    ]
}
