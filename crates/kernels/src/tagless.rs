//! The pipelines of the ciphers that make no tag. Level, execution, swap and cipher are matched when one is made, and
//! there is a loop for each check: a message is but a call away from its own. Where stages go over a message one after
//! the other, the check is found out between them.
#![forbid(unsafe_code)]

use crate::arch::gcm::Direction;
use crate::arch::{Bound, Entry, Lanes, LoopBody};
use crate::check::{Check, Found};
use crate::execution::{Apart, Integrated, Passes};
use crate::message::{Piece, Pieces};
use crate::scratch::Scratch;
use crate::stage::{AnyStage, Output, Run, Stage, Then, min, then};
use crate::stages::{
    AnySwap, CxorSum, InternetSum, Nothing, PesDecrypt, PesEncrypt, PesKey, SaferDecrypt,
    SaferEncrypt, SaferKey, SaferSimplifiedDecrypt, SaferSimplifiedEncrypt, SaferSimplifiedKey,
    Swap as SwapStage,
};
use crate::transform::{Opened, Pipeline, Plan, Public};
use crate::{Execution, Level, Swap};
use core::marker::PhantomData;

/// The pipeline of an expanded key.
pub(crate) fn bind<C: Tagless>(plan: Plan, key: C) -> Box<dyn Pipeline> {
    let Plan { level, execution, swap, .. } = plan;
    let by_swap = match execution {
        Execution::Integrated => [by_check::<C, false>(level), by_check::<C, true>(level)],
        _ => [
            [Loops::exactly::<AnyCheck, false, false>(level); 3],
            [Loops::exactly::<AnyCheck, false, true>(level); 3],
        ],
    };
    let (swapper, work, check) = (*swap.stage(), Scratch::default(), Check::default());
    let loops = by_swap[usize::from(swap != Swap::None)];
    let context = Context { execution, swap, swapper, check, key, work };
    Box::new(Untagged { context, loops, by_swap })
}

/// As [`Check::ALL`] lists them.
type ByCheck<C> = [Loops<C>; 3];

fn by_check<C: Tagless, const SWAPS: bool>(level: Level) -> ByCheck<C> {
    Check::ALL.map(|check| match check {
        Check::Internet => Loops::exactly::<InternetSum, true, SWAPS>(level),
        Check::Cxor => Loops::exactly::<CxorSum, true, SWAPS>(level),
        // One without gains little; and of one that does nothing else the compiler makes a call of the C library's copy,
        // which takes up to thirty times as long from 16 KiB on (measured on Zen 3, virtual).
        Check::None => Loops::exactly::<InternetSum, true, SWAPS>(level),
    })
}

/// What a message's loop needs.
struct Context<C> {
    execution: Execution,
    swap: Swap,
    /// The stage of `swap`, here so that a message need not look it up.
    swapper: AnySwap,
    /// Of the message.
    check: Check,
    key: C,
    work: Scratch,
}

/// Both directions.
struct Loops<C> {
    send: Bound<Context<C>, Found>,
    receive: Bound<Context<C>, Found>,
}

impl<C> Clone for Loops<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Loops<C> {}

impl<C: Tagless> Loops<C> {
    fn exactly<K: CheckStage, const INTEGRATED: bool, const SWAPS: bool>(level: Level) -> Loops<C> {
        Loops {
            send: level.bind::<Sending<C, K, INTEGRATED, SWAPS>, _, _>(),
            receive: level.bind::<Receiving<C, K, INTEGRATED, SWAPS>, _, _>(),
        }
    }
}

/// A check as the stage of a loop.
trait CheckStage: AnyStage + Stage<Output: Into<Found>> {
    /// The stage, for a message with that check.
    fn of(check: Check) -> Self;
}

impl CheckStage for InternetSum {
    #[inline(always)]
    fn of(_: Check) -> InternetSum {
        InternetSum
    }
}

impl CheckStage for CxorSum {
    #[inline(always)]
    fn of(_: Check) -> CxorSum {
        CxorSum
    }
}

/// Whichever it is, found out in each pass of its own.
struct AnyCheck(Check);

impl CheckStage for AnyCheck {
    #[inline(always)]
    fn of(check: Check) -> AnyCheck {
        AnyCheck(check)
    }
}

impl Stage for AnyCheck {
    type Output = Found;
    const NAME: &'static str = "check";
    const BLOCK: usize = 2;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 2;
    const ORDERED: bool = true;
    const VECTORS: usize = 8;
}

impl<L: Lanes> Run<L> for AnyCheck {
    type State = (<InternetSum as Run<L>>::State, <CxorSum as Run<L>>::State);
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        (InternetSum.start(lanes), CxorSum.start(lanes))
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        match self.0 {
            Check::Internet => InternetSum.unit(lanes, &mut state.0, x),
            Check::Cxor => CxorSum.unit(lanes, &mut state.1, x),
            Check::None => {}
        }
    }
    #[inline(always)]
    fn pause<const N: usize>(&self, lanes: L, state: &mut Self::State) {
        Run::<L>::pause::<N>(&InternetSum, lanes, &mut state.0);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Found {
        match self.0 {
            Check::Internet => InternetSum.finish(lanes, state.0, len).into(),
            Check::Cxor => CxorSum.finish(lanes, state.1, len).into(),
            Check::None => Found::Nothing,
        }
    }
    #[inline(always)]
    fn pass(&self, lanes: L, state: &mut Self::State, passes: &mut Passes<'_>) {
        match self.0 {
            Check::Internet => passes.run(lanes, &InternetSum, &mut state.0),
            Check::Cxor => passes.run(lanes, &CxorSum, &mut state.1),
            Check::None => {}
        }
    }
}

/// A pipeline without tags.
struct Untagged<C> {
    context: Context<C>,
    /// For the swap of the context.
    loops: ByCheck<C>,
    /// Without a swap, and with one, whichever the context has.
    by_swap: [ByCheck<C>; 2],
}

impl<C: Tagless> Pipeline for Untagged<C> {
    #[inline]
    fn send(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, _: &mut [u8]) -> Found {
        self.context.check = public.check;
        let found = self.loops[public.check as usize].send.run(&mut self.context, src, dst);
        found.if_any(public.check)
    }

    #[inline]
    fn receive(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, _: &[u8]) -> Opened {
        self.context.check = public.check;
        let found = self.loops[public.check as usize].receive.run(&mut self.context, src, dst);
        Opened { sum: found.if_any(public.check), authentic: true }
    }

    fn is_one_pass(&self) -> bool {
        self.context.execution == Execution::Integrated
    }

    fn reserve(&mut self, len: usize) {
        if self.context.execution == Execution::Sequential {
            self.context.work.reserve(len);
        }
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        if self.is_one_pass() { Some(self) } else { None }
    }
}

impl<C: Tagless> Pieces for Untagged<C> {
    fn pass(&mut self, piece: &Piece<'_>, swap: Swap, src: &[u8], dst: &mut [u8]) -> Found {
        let context = &mut self.context;
        let (own, check) = ((context.swap, context.swapper), piece.public.check);
        (context.swap, context.swapper) = (swap, *swap.stage());
        context.check = check;
        let Loops { send, receive } = self.by_swap[usize::from(swap != Swap::None)][check as usize];
        let found = match piece.direction {
            Direction::Seal => send.run(context, src, dst),
            Direction::Open => receive.run(context, src, dst),
        };
        (context.swap, context.swapper) = own;
        found.if_any(check)
    }

    fn finish(&mut self, _: &Piece<'_>, _: &mut [u8]) {}
}

/// An expanded key, and the stages that a loop makes of it.
pub(crate) trait Tagless: Send + Sync + Sized + 'static {
    /// It begins enciphering with a byte shuffle, or ends deciphering with one, so that a swap known when the loop is
    /// compiled becomes part of it.
    const SHUFFLES: [bool; 2] = [false; 2];
    type Encipher<'a>: AnyStage + Stage<Output = ()>;
    type Decipher<'a>: AnyStage + Stage<Output = ()>;
    fn encipher(&self) -> Self::Encipher<'_>;
    fn decipher(&self) -> Self::Decipher<'_>;
}

/// No key.
pub(crate) struct Plain;

impl Tagless for Plain {
    type Encipher<'a> = Nothing;
    type Decipher<'a> = Nothing;
    #[inline(always)]
    fn encipher(&self) -> Nothing {
        Nothing
    }
    #[inline(always)]
    fn decipher(&self) -> Nothing {
        Nothing
    }
}

impl Tagless for PesKey {
    type Encipher<'a> = PesEncrypt;
    type Decipher<'a> = PesDecrypt;
    #[inline(always)]
    fn encipher(&self) -> PesEncrypt {
        PesEncrypt(*self)
    }
    #[inline(always)]
    fn decipher(&self) -> PesDecrypt {
        PesDecrypt(*self)
    }
}

impl Tagless for SaferSimplifiedKey {
    const SHUFFLES: [bool; 2] = [true; 2];
    type Encipher<'a> = SaferSimplifiedEncrypt<'a>;
    type Decipher<'a> = SaferSimplifiedDecrypt<'a>;
    #[inline(always)]
    fn encipher(&self) -> SaferSimplifiedEncrypt<'_> {
        SaferSimplifiedEncrypt(self)
    }
    #[inline(always)]
    fn decipher(&self) -> SaferSimplifiedDecrypt<'_> {
        SaferSimplifiedDecrypt(self)
    }
}

impl Tagless for SaferKey {
    // Deciphering takes half as long again when the compiler knows the swap (measured on Zen 3).
    const SHUFFLES: [bool; 2] = [true, false];
    type Encipher<'a> = SaferEncrypt<'a>;
    type Decipher<'a> = SaferDecrypt<'a>;
    #[inline(always)]
    fn encipher(&self) -> SaferEncrypt<'_> {
        SaferEncrypt(self)
    }
    #[inline(always)]
    fn decipher(&self) -> SaferDecrypt<'_> {
        SaferDecrypt(self)
    }
}

/// swap ▸ cipher ▸ check ▸ store.
struct Sending<C, K, const INTEGRATED: bool, const SWAPS: bool>(PhantomData<(C, K)>);

/// load ▸ check ▸ decipher ▸ swap ▸ store.
struct Receiving<C, K, const INTEGRATED: bool, const SWAPS: bool>(PhantomData<(C, K)>);

impl<L: Lanes, C: Tagless, K: CheckStage, const INTEGRATED: bool, const SWAPS: bool> Entry<L>
    for Sending<C, K, INTEGRATED, SWAPS>
where
    for<'a> C::Encipher<'a>: Run<L>,
    K: Run<L>,
{
    const UNIT: usize = unit::<L, Then<C::Encipher<'static>, K>>(INTEGRATED);
    type Context = Context<C>;
    type Output = Found;
    #[inline(always)]
    fn run(lanes: L, context: &mut Context<C>, src: &[u8], dst: &mut [u8]) -> Found {
        let Context { execution, swap, swapper, check, key, work } = context;
        let rest = then(key.encipher(), K::of(*check));
        let ((), ((), found)) = if SWAPS && INTEGRATED && C::SHUFFLES[0] && *swap == Swap::Bytes32 {
            let stage = &then(SwapStage::<4>, rest);
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else if SWAPS {
            let stage = &then(*swapper, rest);
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else {
            path::<L, _, INTEGRATED>(lanes, &then(Nothing, rest), *execution, work, src, dst)
        };
        found.into()
    }
}

impl<L: Lanes, C: Tagless, K: CheckStage, const INTEGRATED: bool, const SWAPS: bool> Entry<L>
    for Receiving<C, K, INTEGRATED, SWAPS>
where
    for<'a> C::Decipher<'a>: Run<L>,
    K: Run<L>,
{
    const UNIT: usize = unit::<L, Then<K, C::Decipher<'static>>>(INTEGRATED);
    type Context = Context<C>;
    type Output = Found;
    #[inline(always)]
    fn run(lanes: L, context: &mut Context<C>, src: &[u8], dst: &mut [u8]) -> Found {
        let Context { execution, swap, swapper, check, key, work } = context;
        let (cipher, check) = (key.decipher(), K::of(*check));
        let (found, ((), ())) = if SWAPS && INTEGRATED && C::SHUFFLES[1] && *swap == Swap::Bytes32 {
            let stage = &then(check, then(cipher, SwapStage::<4>));
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else if SWAPS {
            let stage = &then(check, then(cipher, *swapper));
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else {
            let stage = &then(check, then(cipher, Nothing));
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        };
        found.into()
    }
}

/// Bytes of the longest unit of a pipeline and of its stages. Where each stage goes over strips of its own,
/// 1: a message of whole units says nothing of its strips.
const fn unit<L: Lanes, S: Stage>(integrated: bool) -> usize {
    if integrated { min(S::VECTORS, L::MOST_VECTORS) * L::WIDTH } else { 1 }
}

/// The pipeline over one message.
#[inline(always)]
fn path<L: Lanes, S: Run<L>, const INTEGRATED: bool>(
    lanes: L,
    stage: &S,
    execution: Execution,
    work: &mut Scratch,
    src: &[u8],
    dst: &mut [u8],
) -> S::Output {
    if INTEGRATED {
        return Integrated { stage, src, dst }.run(lanes);
    }
    let work = if execution == Execution::Sequential { work.room(src.len()) } else { &mut [] };
    Apart::new(execution, stage, src, work, dst).run(lanes)
}
