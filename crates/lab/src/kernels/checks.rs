//! The check functions on their own: the forms of CXOR beside each other and beside a loop that only
//! loads, and the others; and CXOR in the loops that move a message, where the Internet sum is otherwise.

use super::contest::{Buffers, Check, Message, Method, contest};
use super::{CheckLine, Plan};
use fusewire_experiments::{FletcherSum, cxor};
use fusewire_kernels::arch::Lanes;
use fusewire_kernels::execution::{Integrated, Scan};
use fusewire_kernels::stage::{AnyStage, Output, Run, Stage, then};
use fusewire_kernels::stages::{
    Copy as CopyStage, Crc32c, Cxor, CxorSum, InternetSum, PesEncrypt, PesKey, Swap,
};
use fusewire_kernels::{self as records, Cipher, Execution, Level, Swap as Words, Transform};

/// Measures every form at the sizes given.
pub fn checks(plan: &Plan<'_>, each: &mut dyn FnMut(&CheckLine)) {
    for &size_bytes in plan.sizes {
        let buffers = &mut Buffers::new(size_bytes);
        if plan.takes("cxor", size_bytes) {
            forms_of_cxor(plan, buffers, each);
        }
        type Check = fn(Level, &[u8]) -> u64;
        let others: [(&'static str, Check); 3] = [
            ("internet", |level, src| u64::from(fusewire_kernels::sum(level, src).folded())),
            ("iso-tp4", |level, src| u64::from(level.run(Scan { stage: &FletcherSum, src }).c1)),
            ("crc32c", |level, src| u64::from(level.run(Scan { stage: &Crc32c, src }))),
        ];
        for (function, check) in others {
            if plan.takes(function, size_bytes) {
                let run = |b: &mut Buffers, turns| {
                    b.turns(turns, |Message { src, .. }| check(plan.level, src))
                };
                compare(plan, buffers, function, vec![("vector", Box::new(run))], each);
            }
        }
        let pes = PesEncrypt(PesKey::new(*b"fusewire"));
        in_the_loop(plan, buffers, "copy ▸ check ▸ store", CopyStage, each);
        in_the_loop(plan, buffers, "swap32 ▸ check ▸ store", Swap::<4>, each);
        let stage = then(Swap::<4>, pes);
        in_the_loop(plan, buffers, "swap32 ▸ pes ▸ check ▸ store", stage, each);
        for data_path in DATA_PATHS {
            in_the_data_path(plan, buffers, data_path, each);
        }
    }
}

/// What carries records without a tag, in one loop each way, and what the two are called.
const DATA_PATHS: [(Cipher, Words, [&str; 2]); 2] = [
    (
        Cipher::NONE,
        Words::None,
        ["records: check ▸ store, sent", "records: check ▸ store, received"],
    ),
    (
        Cipher::PES,
        Words::Bytes32,
        ["records: swap32 ▸ pes ▸ check ▸ store", "records: check ▸ pes ▸ swap32 ▸ store"],
    ),
];

/// Both directions, with each check in turns. None is there for what the others cost.
fn in_the_data_path(
    plan: &Plan<'_>,
    buffers: &mut Buffers,
    (cipher, words, [send, receive]): (Cipher, Words, [&'static str; 2]),
    each: &mut dyn FnMut(&CheckLine),
) {
    for (function, sends) in [(send, true), (receive, false)] {
        if !plan.takes(function, buffers.src.len()) {
            continue;
        }
        let forms = records::Check::ALL.map(|check| {
            let (one_loop, key) = (Execution::Integrated, &b"fusewire"[..cipher.key_len]);
            let mut transform = Transform::new(plan.level, one_loop, words, cipher, key);
            transform.set_check(check);
            let run = move |b: &mut Buffers, turns| {
                let found = b.turns(turns, |Message { src, dst, .. }| match sends {
                    true => transform.send(&[], &[], src, dst, &mut []),
                    false => transform.receive(&[], &[], src, &[], dst).sum,
                });
                core::hint::black_box(found);
            };
            (check.name(), Box::new(run) as Method<'_, ()>)
        });
        compare(plan, buffers, function, forms.into(), each);
    }
}

/// `before ▸ check ▸ store` with the Internet sum and with CXOR, in turns. Both store the same.
fn in_the_loop<S: AnyStage + Clone>(
    plan: &Plan<'_>,
    buffers: &mut Buffers,
    function: &'static str,
    before: S,
    each: &mut dyn FnMut(&CheckLine),
) {
    if !plan.takes(function, buffers.src.len()) {
        return;
    }
    let level = plan.level;
    let (internet, cxor) = (then(before.clone(), InternetSum), then(before, CxorSum));
    let forms: Vec<(&'static str, Method<'_, ()>)> =
        vec![("internet", method(level, internet)), ("cxor", method(level, cxor))];
    compare(plan, buffers, function, forms, each);
}

/// One loop over the message. What it finds is Law 1's to judge.
fn method<'a, S: AnyStage + 'a>(level: Level, stage: S) -> Method<'a, ()> {
    Box::new(move |b, turns| {
        let found = b.turns(turns, |Message { src, dst, .. }| {
            level.run(Integrated { stage: &stage, src, dst })
        });
        core::hint::black_box(found);
    })
}

fn forms_of_cxor(plan: &Plan<'_>, buffers: &mut Buffers, each: &mut dyn FnMut(&CheckLine)) {
    let level = plan.level;
    let mut forms: Vec<(&'static str, Method<'_, Cxor>)> = Vec::new();
    let run = |b: &mut Buffers, turns| {
        b.turns(turns, |Message { src, .. }| level.run(Scan { stage: &LoadOnly, src }));
        Cxor::default()
    };
    forms.push(("load_only", Box::new(run)));
    for (name, form) in cxor::FORMS {
        let run = move |b: &mut Buffers, turns| b.turns(turns, |Message { src, .. }| form(src));
        forms.push((name, Box::new(run)));
    }
    let run = |b: &mut Buffers, turns| {
        b.turns(turns, |Message { src, .. }| level.run(Scan { stage: &CxorSum, src }))
    };
    forms.push(("vector", Box::new(run)));
    compare(plan, buffers, "cxor", forms, each);
}

fn compare<T: PartialEq + core::fmt::Debug>(
    plan: &Plan<'_>,
    buffers: &mut Buffers,
    function: &'static str,
    forms: Vec<(&'static str, Method<'_, T>)>,
    each: &mut dyn FnMut(&CheckLine),
) {
    let check = |form| if form == "load_only" { Check::Nothing } else { Check::All };
    let names: Vec<_> = forms.iter().map(|(form, _)| *form).collect();
    let mut methods: Vec<_> =
        forms.into_iter().map(|(form, method)| (method, check(form))).collect();
    let size_bytes = buffers.src.len();
    for (form, rate) in names.into_iter().zip(contest(buffers, plan.effort, &mut methods)) {
        each(&CheckLine { function, form, size_bytes, level: plan.level.name(), rate });
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
