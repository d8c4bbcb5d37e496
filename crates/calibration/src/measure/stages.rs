//! Stages of the kernels: what each costs in a loop of its own, and what it adds to one.

use fusewire_experiments::FletcherSum;
use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, Integrated, Scan, Sequential};
use fusewire_kernels::stage::{AnyStage, Output, Stage, then};
use fusewire_kernels::stages::{
    Copy as CopyStage, Crc32c, CxorSum, InternetSum, PesEncrypt, PesKey, Swap,
};
use fusewire_model::machine;
use fusewire_model::{Implementation, Pipeline};

use crate::measure::arena::Places;
use crate::measure::fit::fit;
use crate::measure::plan::{Plan, Task};
use crate::measure::runner::Runner;
use crate::measure::timing::{self, quantile, turn};

/// For measuring only.
pub(crate) const PES: PesEncrypt = PesEncrypt(PesKey::new(*b"measured"));
/// Messages that stages are measured with. Short ones are not on a line with long ones: what a stage does before and
/// after its loop goes on beside the loop as far as that is short, and the processor foresees the end of a loop of few
/// turns.
pub(crate) const LENGTHS: [usize; 5] = [256, 512, 1024, 2048, 8192];
/// Messages that pipelines are measured with from memory to memory.
const FAR: [usize; 6] = [512, 1024, 2048, 4096, 32 << 10, 256 << 10];
/// How many of [`LENGTHS`] are one strip.
const STRIPS: usize = 4;

/// A stage that can be measured again and again.
pub(crate) trait Measured: AnyStage + Copy + 'static {}

impl<S: AnyStage + Copy + 'static> Measured for S {}

/// A pipeline of `kernels` that is run as the model says.
#[derive(Clone, Copy)]
struct Real<S> {
    stage: S,
    level: Level,
}

impl<S: AnyStage> Runner for Real<S> {
    fn run(&mut self, src: &[u8], dst: &mut [u8], work: &mut [u8], implementation: Implementation) {
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
    /// Pairs that run blocked, and sequential.
    apart: Vec<Apart>,
    far: Vec<PlannedFar>,
}

struct One {
    name: &'static str,
    writes: bool,
    state_bytes: usize,
    tasks: ByLength,
}

/// One for each of [`LENGTHS`].
pub(crate) type ByLength = [Task; LENGTHS.len()];

struct Two {
    of: [usize; 2],
    tasks: ByLength,
}

struct Apart {
    of: [usize; 2],
    blocked: ByLength,
    sequential: ByLength,
}

/// From memory to memory, and near; of the longest that lie near, if the message is longer.
struct PlannedFar {
    implementation: Implementation,
    /// Passes of it write what one before wrote.
    rewrites: bool,
    bytes: usize,
    near_bytes: usize,
    near: Task,
    far: Task,
}

/// One loop that reads and stores.
#[derive(Clone, Copy)]
struct Fused<S>(S, Level);
impl<S: AnyStage> Runner for Fused<S> {
    fn run(&mut self, src: &[u8], dst: &mut [u8], _: &mut [u8], _: Implementation) {
        std::hint::black_box(self.1.run(Integrated { stage: &self.0, src, dst }));
    }
}

/// One loop that only reads.
#[derive(Clone, Copy)]
struct Reads<S>(S, Level);
impl<S: AnyStage> Runner for Reads<S> {
    fn run(&mut self, src: &[u8], _: &mut [u8], _: &mut [u8], _: Implementation) {
        std::hint::black_box(self.1.run(Scan { stage: &self.0, src }));
    }
}

/// Runs it over messages near, as whole pipelines are run: behind a pointer.
fn near(
    plan: &mut Plan,
    runner: impl Runner + Copy + 'static,
    implementation: Implementation,
) -> ByLength {
    LENGTHS.map(|bytes| one_near(plan, runner, implementation, bytes))
}

fn one_near(
    plan: &mut Plan,
    runner: impl Runner + Copy + 'static,
    implementation: Implementation,
    bytes: usize,
) -> Task {
    let mut runner: Box<dyn Runner> = Box::new(runner);
    plan.add(move |arena, length| {
        let Places { src, dst, work } = arena.warm(bytes);
        turn(length, || runner.run(src, dst, work, implementation))
    })
}

/// Runs it from memory to memory.
fn far(
    plan: &mut Plan,
    runner: impl Runner + Copy + 'static,
    implementation: Implementation,
    bytes: usize,
) -> Task {
    let mut runner: Box<dyn Runner> = Box::new(runner);
    plan.add(move |arena, _| {
        timing::far(arena, bytes, |Places { src, dst, work }| {
            runner.run(src, dst, work, implementation);
        })
    })
}

/// A loop that stores.
pub(crate) fn fused<S: Measured>(plan: &mut Plan, stage: S, level: Level) -> ByLength {
    near(plan, Fused(stage, level), Implementation::Integrated)
}

/// A loop that only reads.
pub(crate) fn scanned<S: Measured>(plan: &mut Plan, stage: S, level: Level) -> ByLength {
    near(plan, Reads(stage, level), Implementation::Integrated)
}

impl AtLevel {
    fn alone<S: Stage>(&mut self, tasks: ByLength) {
        let (writes, state_bytes) = (S::OUTPUT == Output::Same, S::STATE);
        self.alone.push(One { name: S::NAME, writes, state_bytes, tasks });
    }

    fn writing<S: Measured>(&mut self, plan: &mut Plan, stage: S) {
        self.alone::<S>(fused(plan, stage, self.level));
    }

    fn reading<S: Measured>(&mut self, plan: &mut Plan, stage: S) {
        self.alone::<S>(scanned(plan, stage, self.level));
    }

    fn pair<A: Measured, B: Measured>(&mut self, plan: &mut Plan, a: A, b: B) {
        let tasks = fused(plan, then(a, b), self.level);
        if let Some(of) = self.indices::<A, B>() {
            self.pairs.push(Two { of, tasks });
        }
    }

    fn apart<A: Measured, B: Measured>(&mut self, plan: &mut Plan, a: A, b: B) {
        let real = Real { stage: then(a, b), level: self.level };
        let blocked = near(plan, real, Implementation::Blocked);
        let sequential = near(plan, real, Implementation::Sequential);
        if let Some(of) = self.indices::<A, B>() {
            self.apart.push(Apart { of, blocked, sequential });
        }
    }

    /// A pipeline with so many stages that write.
    fn far(&mut self, plan: &mut Plan, writes: usize, stage: impl Measured) {
        let real = Real { stage, level: self.level };
        for implementation in Implementation::ALL {
            for bytes in FAR {
                let near_bytes = bytes.min(LENGTHS[LENGTHS.len() - 1]);
                self.far.push(PlannedFar {
                    implementation,
                    rewrites: writes > 1 && implementation != Implementation::Integrated,
                    bytes,
                    near_bytes,
                    near: one_near(plan, real, implementation, near_bytes),
                    far: far(plan, real, implementation, bytes),
                });
            }
        }
    }

    fn indices<A: Stage, B: Stage>(&self) -> Option<[usize; 2]> {
        let index = |name| self.alone.iter().position(|one| one.name == name);
        Some([index(A::NAME)?, index(B::NAME)?])
    }

    /// With each stage of a list: it alone, and in a loop with each that was there before.
    fn all(&mut self, plan: &mut Plan) {
        self.writing(plan, CopyStage);
        self.writing(plan, Swap::<4>);
        self.writing(plan, Swap::<8>);
        self.writing(plan, PES);
        self.reading(plan, InternetSum);
        self.reading(plan, CxorSum);
        self.reading(plan, FletcherSum);
        self.reading(plan, Crc32c);
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
        self.pair(plan, Swap::<4>, Crc32c);
        self.pair(plan, PES, Crc32c);
        self.apart(plan, Swap::<4>, InternetSum);
        self.apart(plan, PES, CxorSum);
        self.apart(plan, FletcherSum, Swap::<8>);
        self.far(plan, 1, then(Swap::<4>, then(CxorSum, InternetSum)));
        self.far(plan, 1, then(PES, then(FletcherSum, InternetSum)));
        self.far(plan, 2, then(PES, then(Swap::<8>, CxorSum)));
        self.far(plan, 2, then(Swap::<4>, then(PES, FletcherSum)));
    }
}

pub(crate) fn tasks(plan: &mut Plan) -> Tasks {
    let at_level = |level| {
        let mut at = AtLevel { level, alone: vec![], pairs: vec![], apart: vec![], far: vec![] };
        at.all(plan);
        at
    };
    Tasks(Level::available().iter().copied().map(at_level).collect())
}

/// Cycles of a message of each length.
pub(crate) fn cycles(plan: &Plan, tasks: &ByLength) -> Vec<f64> {
    tasks.iter().map(|task| plan.undisturbed(task).max(0.1)).collect()
}

pub(crate) fn evaluate(tasks: &Tasks, plan: &Plan) -> Vec<machine::Level> {
    tasks.0.iter().map(|at| at.evaluate(plan)).collect()
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

impl AtLevel {
    fn evaluate(&self, plan: &Plan) -> machine::Level {
        let alone: Vec<_> = self.alone.iter().map(|one| cycles(plan, &one.tasks)).collect();
        let pairs: Vec<_> = self.pairs.iter().map(|pair| cycles(plan, &pair.tasks)).collect();
        let work: Vec<Vec<f64>> = (0..LENGTHS.len())
            .map(|i| {
                let at = |all: &[Vec<f64>]| all.iter().map(|cycles| cycles[i]).collect::<Vec<_>>();
                self.work(&at(&alone), &at(&pairs))
            })
            .collect();
        let (mut shared, mut last_copy) = (Vec::new(), vec![Vec::new(); LENGTHS.len()]);
        for apart in &self.apart {
            let [a, b] = apart.of;
            let blocked = cycles(plan, &apart.blocked);
            let sequential = cycles(plan, &apart.sequential);
            for i in 0..STRIPS {
                shared.push(alone[a][i] + alone[b][i] - blocked[i]);
            }
            for (i, last_copy) in last_copy.iter_mut().enumerate() {
                let saved = if i < STRIPS { blocked[i] } else { alone[a][i] + alone[b][i] };
                last_copy.push(sequential[i] - saved);
            }
        }
        let mut level = machine::Level {
            name: self.level.name().to_owned(),
            lengths: LENGTHS.map(|bytes| bytes as f64).to_vec(),
            shared_cycles: median(shared).max(0.0),
            last_copy_cycles: last_copy.into_iter().map(|all| median(all).max(0.0)).collect(),
            stages: Vec::new(),
            pairs: Vec::new(),
            far: self.far.iter().map(|planned| planned.evaluate(plan)).collect(),
        };
        for (i, (one, alone_cycles)) in self.alone.iter().zip(alone).enumerate() {
            level.stages.push(machine::Stage {
                name: one.name.to_owned(),
                writes: one.writes,
                state_bytes: one.state_bytes as u32,
                alone_cycles,
                work_cycles: work.iter().map(|work| work[i]).collect(),
            });
        }
        for (pair, cycles) in self.pairs.iter().zip(pairs) {
            let names = pair.of.map(|i| self.alone[i].name.to_owned());
            level.pairs.push(machine::Pair { names, cycles });
        }
        level
    }

    /// Work of each stage that, joined with loading and storing, comes nearest to all; of messages of one length.
    fn work(&self, alone: &[f64], pairs: &[f64]) -> Vec<f64> {
        let copy = alone[0];
        let joined = |work: f64| (copy.powi(6) + work.powi(6)).powf(1.0 / 6.0);
        let mut found = fit(alone, &mut |work| {
            let one = self.alone.iter().zip(alone).zip(work);
            let one = one.filter(|((one, _), _)| one.writes);
            let one = one.map(|((_, took), work)| (joined(*work), took));
            let two = self.pairs.iter().zip(pairs);
            let two = two.map(|(two, took)| (joined(work[two.of[0]] + work[two.of[1]]), took));
            one.chain(two).map(|(said, took)| (said / took).ln().powi(2)).sum()
        });
        // A copy's is what every loop does.
        found[0] = 0.0;
        found
    }
}

impl PlannedFar {
    fn evaluate(&self, plan: &Plan) -> machine::Far {
        let near = plan.undisturbed(&self.near) / self.near_bytes as f64;
        let cycles = plan.typical(&self.far) / self.bytes as f64;
        machine::Far {
            implementation: self.implementation,
            rewrites: self.rewrites,
            bytes: self.bytes as f64,
            near_cycles_per_byte: near,
            cycles_per_byte: (cycles - near).max(0.0),
        }
    }
}

/// A pipeline's names, and how it runs.
pub(crate) type Case = (Pipeline, Box<dyn Runner>);

fn case<S: AnyStage + 'static>(names: &[&str], stage: S, level: Level) -> Case {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let pipeline = Pipeline::Stages { names, level: level.name().to_owned() };
    (pipeline, Box::new(Real { stage, level }))
}

/// Pipelines of `kernels` to check the model with, at one level.
pub(crate) fn cases(level: Level) -> Vec<Case> {
    let names = [
        CopyStage::NAME,
        <Swap<4> as Stage>::NAME,
        <Swap<8> as Stage>::NAME,
        PesEncrypt::NAME,
        InternetSum::NAME,
        CxorSum::NAME,
        FletcherSum::NAME,
    ];
    let [copy, swap4, swap8, pes, internet, cxor, iso] = names;
    let sums = || then(CxorSum, InternetSum);
    vec![
        case(&[swap4, pes, internet], then(Swap::<4>, then(PES, InternetSum)), level),
        case(&[internet, pes, swap4], then(InternetSum, then(PES, Swap::<4>)), level),
        case(&[swap8, cxor, internet], then(Swap::<8>, sums()), level),
        case(&[pes, swap8, iso], then(PES, then(Swap::<8>, FletcherSum)), level),
        case(&[copy, iso, internet], then(CopyStage, then(FletcherSum, InternetSum)), level),
        case(&[cxor, pes, swap8], then(CxorSum, then(PES, Swap::<8>)), level),
        case(&[swap4, iso, cxor], then(Swap::<4>, then(FletcherSum, CxorSum)), level),
        case(&[swap4, pes, cxor, internet], then(Swap::<4>, then(PES, sums())), level),
    ]
}
