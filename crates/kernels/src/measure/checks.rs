//! The check functions on their own: the forms of CXOR beside each other and beside a loop that only
//! loads, and the others.
#![forbid(unsafe_code)]

use super::contest::{Buffers, Check, Message, Method, contest};
use super::{CheckLine, Effort};
use crate::Level;
use crate::arch::Lanes;
use crate::execution::Scan;
use crate::stage::{Output, Run, Stage};
use crate::stages::{Crc32c, Cxor, CxorSum, FletcherSum, cxor};

/// Measures every form at the sizes given.
pub fn checks(level: Level, sizes: &[usize], effort: Effort, each: &mut dyn FnMut(&CheckLine)) {
    for &size_bytes in sizes {
        let buffers = &mut Buffers::new(size_bytes);
        let mut go = |names: &[(&'static str, &'static str)], rates: Vec<f64>| {
            for (&(function, form), rate) in names.iter().zip(rates) {
                each(&CheckLine { function, form, size_bytes, level: level.name(), rate });
            }
        };
        let mut methods: Vec<(Method<'_, Cxor>, Check)> = Vec::new();
        let mut names = Vec::new();
        for (name, form) in cxor::FORMS {
            let run = move |b: &mut Buffers, turns| b.turns(turns, |Message { src, .. }| form(src));
            methods.push((Box::new(run), Check::All));
            names.push(("cxor", name));
        }
        let run = |b: &mut Buffers, turns| {
            b.turns(turns, |Message { src, .. }| level.run(Scan { stage: &CxorSum, src }))
        };
        methods.push((Box::new(run), Check::All));
        names.push(("cxor", "vector"));
        let run = |b: &mut Buffers, turns| {
            b.turns(turns, |Message { src, .. }| level.run(Scan { stage: &LoadOnly, src }));
            Cxor::default()
        };
        methods.push((Box::new(run), Check::Nothing));
        names.push(("none", "load_only"));
        go(&names, contest(buffers, effort, &mut methods));

        let sum = |b: &mut Buffers, turns| {
            b.turns(turns, |Message { src, .. }| u64::from(crate::sum(level, src).folded()))
        };
        let fletcher = |b: &mut Buffers, turns| {
            b.turns(turns, |Message { src, .. }| {
                u64::from(level.run(Scan { stage: &FletcherSum, src }).c1)
            })
        };
        let crc = |b: &mut Buffers, turns| {
            b.turns(turns, |Message { src, .. }| u64::from(level.run(Scan { stage: &Crc32c, src })))
        };
        let mut methods: [(Method<'_, u64>, Check); 3] = [
            (Box::new(sum), Check::Nothing),
            (Box::new(fletcher), Check::Nothing),
            (Box::new(crc), Check::Nothing),
        ];
        let names = [("internet", "vector"), ("iso-tp4", "vector"), ("crc32c", "vector")];
        go(&names, contest(buffers, effort, &mut methods));
    }
}

/// Loads and does nothing else.
#[derive(Clone, Copy)]
struct LoadOnly;

impl Stage for LoadOnly {
    type Output = ();
    const NAME: &'static str = "load only";
    const BLOCK: usize = 1;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 0;
    const ORDERED: bool = false;
    const VECTORS: usize = 8;
}

impl<L: Lanes> Run<L> for LoadOnly {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, _: &mut (), x: &mut [L::V; N]) {
        for x in x {
            lanes.keep_load(*x);
        }
    }
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
}
