//! The pipelines of the ciphers that make no tag. Level, execution, swap and cipher are matched when one is made,
//! and a message is but a call away from its loop.
#![forbid(unsafe_code)]

use crate::arch::gcm::Direction;
use crate::arch::{Bound, Entry, Lanes, LoopBody};
use crate::execution::{Apart, Integrated};
use crate::message::{Piece, Pieces};
use crate::scratch::Scratch;
use crate::stage::{AnyStage, Run, Stage, Then, min, then};
use crate::stages::{
    AnySwap, InternetSum, Nothing, PesDecrypt, PesEncrypt, PesKey, SaferDecrypt, SaferEncrypt,
    SaferKey, SaferSimplifiedDecrypt, SaferSimplifiedEncrypt, SaferSimplifiedKey,
    Swap as SwapStage,
};
use crate::transform::{Opened, Pipeline, Plan, Public};
use crate::{Execution, Level, Swap};
use core::marker::PhantomData;
use fusewire_base::Sum;

/// The pipeline of an expanded key.
pub(crate) fn bind<C: Tagless>(plan: Plan, key: C) -> Box<dyn Pipeline> {
    let Plan { level, execution, swap, .. } = plan;
    let by_swap = match execution {
        Execution::Integrated => {
            [Loops::exactly::<true, false>(level), Loops::exactly::<true, true>(level)]
        }
        _ => [Loops::exactly::<false, false>(level), Loops::exactly::<false, true>(level)],
    };
    let (swapper, work) = (*swap.stage(), Scratch::default());
    let loops = by_swap[usize::from(swap != Swap::None)];
    Box::new(Untagged { context: Context { execution, swap, swapper, key, work }, loops, by_swap })
}

/// What a message's loop needs.
struct Context<C> {
    execution: Execution,
    swap: Swap,
    /// The stage of `swap`, here so that a message need not look it up.
    swapper: AnySwap,
    key: C,
    work: Scratch,
}

/// Both directions.
struct Loops<C> {
    send: Bound<Context<C>, Sum>,
    receive: Bound<Context<C>, Sum>,
}

impl<C> Clone for Loops<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Loops<C> {}

impl<C: Tagless> Loops<C> {
    fn exactly<const INTEGRATED: bool, const SWAPS: bool>(level: Level) -> Loops<C> {
        Loops {
            send: level.bind::<Sending<C, INTEGRATED, SWAPS>, _, _>(),
            receive: level.bind::<Receiving<C, INTEGRATED, SWAPS>, _, _>(),
        }
    }
}

/// A pipeline without tags.
struct Untagged<C> {
    context: Context<C>,
    /// For the swap of the context.
    loops: Loops<C>,
    /// Without a swap, and with one, whichever the context has.
    by_swap: [Loops<C>; 2],
}

impl<C: Tagless> Pipeline for Untagged<C> {
    #[inline]
    fn send(&mut self, src: &[u8], dst: &mut [u8], _: &Public<'_>, _: &mut [u8]) -> Sum {
        self.loops.send.run(&mut self.context, src, dst)
    }

    #[inline]
    fn receive(&mut self, src: &[u8], dst: &mut [u8], _: &Public<'_>, _: &[u8]) -> Opened {
        let sum = self.loops.receive.run(&mut self.context, src, dst);
        Opened { sum, authentic: true }
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
    fn pass(&mut self, piece: &Piece<'_>, swap: Swap, src: &[u8], dst: &mut [u8]) -> Sum {
        let context = &mut self.context;
        let own = (context.swap, context.swapper);
        (context.swap, context.swapper) = (swap, *swap.stage());
        let Loops { send, receive } = self.by_swap[usize::from(swap != Swap::None)];
        let sum = match piece.direction {
            Direction::Seal => send.run(context, src, dst),
            Direction::Open => receive.run(context, src, dst),
        };
        (context.swap, context.swapper) = own;
        sum
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

/// swap ▸ cipher ▸ sum ▸ store.
struct Sending<C, const INTEGRATED: bool, const SWAPS: bool>(PhantomData<C>);

/// load ▸ sum ▸ decipher ▸ swap ▸ store.
struct Receiving<C, const INTEGRATED: bool, const SWAPS: bool>(PhantomData<C>);

impl<L: Lanes, C: Tagless, const INTEGRATED: bool, const SWAPS: bool> Entry<L>
    for Sending<C, INTEGRATED, SWAPS>
where
    for<'a> C::Encipher<'a>: Run<L>,
{
    const UNIT: usize = unit::<L, Then<InternetSum, C::Encipher<'static>>>(INTEGRATED);
    type Context = Context<C>;
    type Output = Sum;
    #[inline(always)]
    fn run(lanes: L, context: &mut Context<C>, src: &[u8], dst: &mut [u8]) -> Sum {
        let Context { execution, swap, swapper, key, work } = context;
        let rest = then(key.encipher(), InternetSum);
        let ((), ((), sum)) = if SWAPS && INTEGRATED && C::SHUFFLES[0] && *swap == Swap::Bytes32 {
            let stage = &then(SwapStage::<4>, rest);
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else if SWAPS {
            let stage = &then(*swapper, rest);
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else {
            path::<L, _, INTEGRATED>(lanes, &then(Nothing, rest), *execution, work, src, dst)
        };
        sum
    }
}

impl<L: Lanes, C: Tagless, const INTEGRATED: bool, const SWAPS: bool> Entry<L>
    for Receiving<C, INTEGRATED, SWAPS>
where
    for<'a> C::Decipher<'a>: Run<L>,
{
    const UNIT: usize = unit::<L, Then<InternetSum, C::Decipher<'static>>>(INTEGRATED);
    type Context = Context<C>;
    type Output = Sum;
    #[inline(always)]
    fn run(lanes: L, context: &mut Context<C>, src: &[u8], dst: &mut [u8]) -> Sum {
        let Context { execution, swap, swapper, key, work } = context;
        let cipher = key.decipher();
        let (sum, ((), ())) = if SWAPS && INTEGRATED && C::SHUFFLES[1] && *swap == Swap::Bytes32 {
            let stage = &then(InternetSum, then(cipher, SwapStage::<4>));
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else if SWAPS {
            let stage = &then(InternetSum, then(cipher, *swapper));
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        } else {
            let stage = &then(InternetSum, then(cipher, Nothing));
            path::<L, _, INTEGRATED>(lanes, stage, *execution, work, src, dst)
        };
        sum
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
