//! Pipelines whose cipher is a stage that gives a tag: one loop, or each stage apart, compiled in the shells that
//! the cipher runs in.
#![forbid(unsafe_code)]

use crate::arch::{Lanes, LoopBody};
use crate::execution::{Apart, Integrated};
use crate::message::{Piece, Pieces};
use crate::scratch::Scratch;
use crate::stage::{Run, then};
use crate::stages::{InternetSum, Nothing};
use crate::transform::{Opened, Pipeline, Plan, Public};
use crate::{Check, Execution, Found, Level, Swap};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use fusewire_base::Sum;

/// An expanded key that makes a stage of each message. A message's nonce has the suite's length.
pub(crate) trait Tagged: Send + Sync {
    /// Bytes.
    type Tag: AsRef<[u8]> + Send + Sync;
    /// swap ▸ encipher ▸ sum ▸ store: [`Pass::sending`] in the shell of a level.
    fn send(&mut self, public: &Public<'_>, pass: Pass<'_>) -> (Self::Tag, Sum);
    /// load ▸ sum ▸ decipher ▸ swap ▸ store: [`Pass::receiving`]. Gives the tag that the message should have.
    fn receive(&mut self, public: &Public<'_>, pass: Pass<'_>) -> (Sum, Self::Tag);

    /// Messages can stop between pieces, and go on.
    const IN_PIECES: bool = false;
    /// The next piece of a message, behind `done` bytes of it. With the last the tag is there.
    fn piece(&mut self, _: &Piece<'_>, _done: usize, _: Pass<'_>) -> (Sum, Option<Self::Tag>) {
        unreachable!("messages of this key do not stop")
    }
}

/// The pipeline of such a key.
pub(crate) struct Staged<K: Tagged> {
    plan: Plan,
    key: K,
    work: Scratch,
    /// Of a message in pieces.
    done: usize,
    tag: Option<K::Tag>,
}

impl<K: Tagged> Staged<K> {
    pub(crate) fn new(plan: Plan, key: K) -> Staged<K> {
        Staged { plan, key, work: Scratch::default(), done: 0, tag: None }
    }
}

impl<K: Tagged> Pipeline for Staged<K> {
    fn send(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &mut [u8]) -> Found {
        let pass = Pass::new(self.plan, public.check, src, dst, &mut self.work);
        let (found, sum) = self.key.send(public, pass);
        tag.copy_from_slice(found.as_ref());
        public.found(sum)
    }

    fn receive(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &[u8]) -> Opened {
        let pass = Pass::new(self.plan, public.check, src, dst, &mut self.work);
        let (sum, found) = self.key.receive(public, pass);
        let authentic = verify_slices_are_equal(found.as_ref(), tag).is_ok();
        if !authentic {
            dst.fill(0);
        }
        Opened { sum: public.found(sum), authentic }
    }

    fn is_one_pass(&self) -> bool {
        self.plan.execution == Execution::Integrated
    }

    fn reserve(&mut self, len: usize) {
        if self.plan.execution == Execution::Sequential {
            self.work.reserve(len);
        }
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        (self.done, self.tag) = (0, None);
        if K::IN_PIECES && self.is_one_pass() { Some(self) } else { None }
    }
}

impl<K: Tagged> Pieces for Staged<K> {
    fn pass(&mut self, piece: &Piece<'_>, swap: Swap, src: &[u8], dst: &mut [u8]) -> Found {
        let plan = Plan { swap, ..self.plan };
        let pass = Pass::new(plan, piece.public.check, src, dst, &mut self.work);
        let (sum, tag) = self.key.piece(piece, self.done, pass);
        (self.done, self.tag) = (self.done + src.len(), tag);
        piece.public.found(sum)
    }

    fn finish(&mut self, piece: &Piece<'_>, tag: &mut [u8]) {
        if self.tag.is_none() {
            // A message of no bytes has no pieces.
            self.pass(piece, self.plan.swap, &[], &mut []);
        }
        let found = self.tag.take();
        tag.copy_from_slice(found.as_ref().map_or(&[], |found| found.as_ref()));
    }
}

/// One message's pass, but for the cipher.
pub(crate) struct Pass<'a> {
    pub(crate) level: Level,
    pub(crate) src: &'a [u8],
    execution: Execution,
    swap: Swap,
    check: Check,
    dst: &'a mut [u8],
    work: &'a mut [u8],
}

impl<'a> Pass<'a> {
    #[inline(always)]
    fn new(
        plan: Plan,
        check: Check,
        src: &'a [u8],
        dst: &'a mut [u8],
        work: &'a mut Scratch,
    ) -> Pass<'a> {
        let Plan { level, execution, swap, .. } = plan;
        let work = if execution == Execution::Sequential { work.room(src.len()) } else { &mut [] };
        Pass { level, src, execution, swap, check, dst, work }
    }

    /// swap ▸ cipher ▸ sum ▸ store.
    #[inline(always)]
    pub(crate) fn sending<C>(self, cipher: C) -> Sending<'a, C> {
        Sending { pass: self, cipher }
    }

    /// load ▸ sum ▸ decipher ▸ swap ▸ store.
    #[inline(always)]
    pub(crate) fn receiving<C>(self, cipher: C) -> Receiving<'a, C> {
        Receiving { pass: self, cipher }
    }

    /// A pipeline over the message, as the execution says.
    #[inline(always)]
    fn run<L: Lanes, S: Run<L>>(self, lanes: L, stage: &S) -> S::Output {
        let Pass { execution, src, dst, work, .. } = self;
        match execution {
            Execution::Integrated => Integrated { stage, src, dst }.run(lanes),
            apart => Apart::new(apart, stage, src, work, dst).run(lanes),
        }
    }
}

/// A message that is sent.
pub(crate) struct Sending<'a, C> {
    pass: Pass<'a>,
    cipher: C,
}

impl<L: Lanes, C: Run<L>> LoopBody<L> for Sending<'_, C> {
    type Output = (C::Output, Sum);
    #[inline(always)]
    fn run(self, lanes: L) -> (C::Output, Sum) {
        let Sending { pass, cipher } = self;
        if (pass.swap, pass.check) == (Swap::None, Check::None) {
            let (found, ()) = pass.run(lanes, &then(cipher, Nothing));
            return (found, Sum::ZERO);
        }
        let rest = then(cipher, InternetSum);
        let ((), found) = match pass.swap {
            Swap::None => pass.run(lanes, &then(Nothing, rest)),
            swap => pass.run(lanes, &then(swap.stage(), rest)),
        };
        found
    }
}

/// A message that is received.
pub(crate) struct Receiving<'a, C> {
    pass: Pass<'a>,
    cipher: C,
}

impl<L: Lanes, C: Run<L>> LoopBody<L> for Receiving<'_, C> {
    type Output = (Sum, C::Output);
    #[inline(always)]
    fn run(self, lanes: L) -> (Sum, C::Output) {
        let Receiving { pass, cipher } = self;
        if (pass.swap, pass.check) == (Swap::None, Check::None) {
            let (found, ()) = pass.run(lanes, &then(cipher, Nothing));
            return (Sum::ZERO, found);
        }
        let (sum, (found, ())) = match pass.swap {
            Swap::None => pass.run(lanes, &then(InternetSum, then(cipher, Nothing))),
            swap => pass.run(lanes, &then(InternetSum, then(cipher, swap.stage()))),
        };
        (sum, found)
    }
}
