//! Stages of the kernels: what each costs in a loop of its own, and what it adds to one.

use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, Integrated, Scan, Sequential};
use fusewire_kernels::stage::{AnyStage, Output, Stage, then};
use fusewire_kernels::stages::{Copy, CxorSum, FletcherSum, InternetSum, PesEncrypt, PesKey, Swap};
use fusewire_model::machine::{self, Machine};
use fusewire_model::{Implementation, Pipeline};

use crate::Effort;
use crate::arena::{Arena, Places};
use crate::runner::Runner;
use crate::timing::{Clock, Times, turn};

/// For measuring only.
const PES: PesEncrypt = PesEncrypt(PesKey::new(*b"measured"));
const SHORT: usize = 512;
const LONG: usize = 8192;

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

/// A stage alone: its pass through if it writes, over the message if it only reads.
struct Alone<S> {
    stage: S,
    level: Level,
}

trait OnePass {
    fn pass(&self, places: Places<'_>);
}

/// One that writes.
struct Through<S>(Alone<S>);
impl<S: AnyStage> OnePass for Through<S> {
    fn pass(&self, places: Places<'_>) {
        let Places { src, dst, .. } = places;
        std::hint::black_box(self.0.level.run(Integrated { stage: &self.0.stage, src, dst }));
    }
}

/// One that reads.
struct Reads<S>(Alone<S>);
impl<S: AnyStage> OnePass for Reads<S> {
    fn pass(&self, places: Places<'_>) {
        std::hint::black_box(self.0.level.run(Scan { stage: &self.0.stage, src: places.src }));
    }
}

/// A stage, alone; in a loop with others that keep the processor busy, and those without it; and in
/// strips, once and with a pass of copying before it.
struct Subject {
    name: &'static str,
    writes: bool,
    state_bytes: usize,
    alone: Box<dyn OnePass>,
    joined: Box<dyn OnePass>,
    others: Box<dyn OnePass>,
    strip: Box<dyn OnePass>,
    two_strips: Box<dyn OnePass>,
}

/// One that runs in strips.
struct Strips<S>(Alone<S>);
impl<S: AnyStage> OnePass for Strips<S> {
    fn pass(&self, places: Places<'_>) {
        let Places { src, dst, .. } = places;
        std::hint::black_box(self.0.level.run(Blocked { stage: &self.0.stage, src, dst }));
    }
}

fn subject<S, B>(stage: S, beside: B, level: Level, alone: Box<dyn OnePass>) -> Subject
where
    S: AnyStage + core::marker::Copy + 'static,
    B: AnyStage + core::marker::Copy + 'static,
{
    Subject {
        name: S::NAME,
        writes: S::OUTPUT == Output::Same,
        state_bytes: S::STATE,
        alone,
        joined: Box::new(Through(Alone { stage: then(stage, beside), level })),
        others: Box::new(Through(Alone { stage: beside, level })),
        strip: Box::new(Strips(Alone { stage: beside, level })),
        two_strips: Box::new(Strips(Alone { stage: then(beside, stage), level })),
    }
}

fn writing<S, B>(stage: S, beside: B, level: Level) -> Subject
where
    S: AnyStage + core::marker::Copy + 'static,
    B: AnyStage + core::marker::Copy + 'static,
{
    subject(stage, beside, level, Box::new(Through(Alone { stage, level })))
}

fn reading<S, B>(stage: S, beside: B, level: Level) -> Subject
where
    S: AnyStage + core::marker::Copy + 'static,
    B: AnyStage + core::marker::Copy + 'static,
{
    subject(stage, beside, level, Box::new(Reads(Alone { stage, level })))
}

fn name<S: Stage>() -> &'static str {
    S::NAME
}

/// Beside each lie others that compute; not itself, or the optimiser would do once what is there twice.
fn subjects(level: Level) -> Vec<Subject> {
    let sums = then(FletcherSum, InternetSum);
    let cipher = then(PES, FletcherSum);
    vec![
        writing(Copy, sums, level),
        writing(Swap::<4>, sums, level),
        writing(Swap::<8>, sums, level),
        writing(PES, sums, level),
        reading(InternetSum, cipher, level),
        reading(CxorSum, sums, level),
        reading(FletcherSum, then(PES, InternetSum), level),
    ]
}

/// Measures every stage at every level.
pub(crate) fn measure(machine: &mut Machine, arena: &mut Arena, clock: &mut Clock, effort: Effort) {
    for level in Level::available() {
        let subjects = subjects(level);
        let mut times = vec![[(); 6].map(|()| Times::default()); subjects.len()];
        for _ in 0..effort.rounds {
            for (subject, times) in subjects.iter().zip(&mut times) {
                let each = [
                    (&subject.alone, SHORT),
                    (&subject.alone, LONG),
                    (&subject.joined, LONG),
                    (&subject.others, LONG),
                    (&subject.strip, SHORT),
                    (&subject.two_strips, SHORT),
                ];
                for ((pass, len), times) in each.into_iter().zip(times) {
                    let ns_per_cycle = clock.quiet();
                    let ns = turn(effort.turn, || pass.pass(arena.warm(len)));
                    times.add(ns / ns_per_cycle);
                }
            }
        }
        for (subject, times) in subjects.iter().zip(&mut times) {
            let [short, long, joined, others, strip, two_strips] =
                times.each_mut().map(Times::undisturbed);
            let per_byte = ((long - short) / (LONG - SHORT) as f64).max(1e-3);
            let pass_cycles = (two_strips - strip - per_byte * SHORT as f64).max(0.0);
            machine.stages.push(machine::Stage {
                name: subject.name.to_owned(),
                level: level.name().to_owned(),
                writes: subject.writes,
                state_bytes: subject.state_bytes as u32,
                alone_cycles_per_byte: per_byte,
                joined_cycles_per_byte: ((joined - others) / LONG as f64).max(0.0),
                pass_cycles,
                call_cycles: (short - per_byte * SHORT as f64 - pass_cycles).max(0.0),
            });
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
    vec![
        case(&[copy, internet], then(Copy, InternetSum), level),
        case(&[swap4, internet], then(Swap::<4>, InternetSum), level),
        case(&[swap4, pes, internet], then(Swap::<4>, then(PES, InternetSum)), level),
        case(&[pes, swap8], then(PES, Swap::<8>), level),
        case(&[internet, pes, swap4], then(InternetSum, then(PES, Swap::<4>)), level),
        case(&[swap8, cxor], then(Swap::<8>, CxorSum), level),
        case(&[pes, iso], then(PES, FletcherSum), level),
        case(
            &[swap4, pes, cxor, internet],
            then(Swap::<4>, then(PES, then(CxorSum, InternetSum))),
            level,
        ),
    ]
}
