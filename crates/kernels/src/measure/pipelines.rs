//! The pipelines of the experiments and their methods.
#![forbid(unsafe_code)]

use super::contest::{Buffers, Check, Message, Method, contest};
use super::{Direction, Effort, Line};
use crate::Level;
use crate::execution::{Blocked, ByPointer, Integrated, Sequential};
use crate::stage::{AnyStage, then};
use crate::stages::{Copy, InternetSum, PesDecrypt, PesEncrypt, PesKey, Swap};
use fusewire_base::Sum;

/// Measures every pipeline in both directions at the sizes given, and hands each line on as soon as
/// it is there.
pub fn pipelines(level: Level, sizes: &[usize], effort: Effort, each: &mut dyn FnMut(&Line)) {
    let key = PesKey::new(*b"fusewire");
    for &size in sizes {
        let buffers = &mut Buffers::new(size);
        let mut go = |pipeline, direction, subject: Subject<'_>| {
            each(&subject.measure(pipeline, direction, level, effort, buffers));
        };
        let copy_sum = "copy ▸ internet ▸ store";
        let sum = |(_, sum)| sum;
        go(copy_sum, Direction::Send, Subject::new(level, then(Copy, InternetSum), sum).memcpy());
        let sum = |(sum, _)| sum;
        go(
            copy_sum,
            Direction::Receive,
            Subject::new(level, then(InternetSum, Copy), sum).memcpy(),
        );
        let pes = "swap32 ▸ pes ▸ internet ▸ store";
        let send = then(Swap::<4>, then(PesEncrypt(key), InternetSum));
        go(pes, Direction::Send, Subject::new(level, send, |((), ((), sum))| sum));
        let receive = then(InternetSum, then(PesDecrypt(key), Swap::<4>));
        go(pes, Direction::Receive, Subject::new(level, receive, |(sum, _)| sum));
    }
}

/// One pipeline's methods.
struct Subject<'a> {
    integrated: Method<'a>,
    blocked: Method<'a>,
    sequential: Method<'a>,
    function_pointers: Method<'a>,
    reference: Option<Method<'a>>,
    reference_is: &'static str,
    reference_check: Check,
}

impl<'a> Subject<'a> {
    /// Of a pipeline of stages that run at every level; `sum` finds the sum in what it gives.
    fn new<S>(level: Level, stage: S, sum: fn(S::Output) -> Sum) -> Subject<'a>
    where
        S: AnyStage + core::marker::Copy + 'a,
    {
        let by_pointer = ByPointer(stage);
        Subject {
            integrated: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, .. }| {
                    sum(level.run(Integrated { stage: &stage, src, dst }))
                })
            }),
            blocked: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, .. }| {
                    sum(level.run(Blocked { stage: &stage, src, dst }))
                })
            }),
            sequential: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, work }| {
                    sum(level.run(Sequential { stage: &stage, src, work, dst }))
                })
            }),
            function_pointers: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, .. }| {
                    sum(level.run(Integrated { stage: &by_pointer, src, dst }))
                })
            }),
            reference: None,
            reference_is: "sequential",
            reference_check: Check::All,
        }
    }

    /// The reference is a plain copy.
    fn memcpy(mut self) -> Self {
        self.reference = Some(Box::new(|b, turns| {
            b.turns(turns, |Message { src, dst, .. }| dst.copy_from_slice(src));
            Sum::ZERO
        }));
        self.reference_is = "memcpy";
        self.reference_check = Check::Nothing;
        self
    }

    fn measure(
        self,
        pipeline: &'static str,
        direction: Direction,
        level: Level,
        effort: Effort,
        buffers: &mut Buffers,
    ) -> Line {
        let mut methods = vec![
            (self.integrated, Check::All),
            (self.blocked, Check::All),
            (self.sequential, Check::All),
            (self.function_pointers, Check::All),
        ];
        let has_reference = self.reference.is_some();
        if let Some(reference) = self.reference {
            methods.push((reference, self.reference_check));
        }
        let rates = contest(buffers, effort, &mut methods);
        Line {
            pipeline,
            direction,
            size_bytes: buffers.src.len(),
            level: level.name(),
            integrated: rates[0],
            blocked: rates[1],
            sequential: rates[2],
            function_pointers: Some(rates[3]),
            word_filters: None,
            reference: if has_reference { rates[4] } else { rates[2] },
            reference_is: self.reference_is,
        }
    }
}
