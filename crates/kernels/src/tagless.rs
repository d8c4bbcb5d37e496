//! The loops of the ciphers that make no tag, chosen once for a transform: level, execution, swap and
//! cipher are matched when it is made, and a message is but a call away from its loop.
#![forbid(unsafe_code)]

use crate::arch::{Bound, Entry, Kernel, Lanes};
use crate::execution::{Apart, Integrated};
use crate::scratch::Scratch;
use crate::stage::{AnyStage, Run, Stage, Then, min, then};
use crate::stages::{
    InternetSum, Nothing, PesDecrypt, PesEncrypt, PesKey, SaferDecrypt, SaferEncrypt, SaferKey,
    SaferSimplifiedDecrypt, SaferSimplifiedEncrypt, SaferSimplifiedKey, Swap as SwapStage,
};
use crate::transform::{Cipher, Parts};
use crate::{Execution, Level, Swap};
use core::marker::PhantomData;
use fusewire_base::Sum;

/// Both directions of a transform whose cipher makes no tag.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    pub(crate) send: Bound<Parts, Sum>,
    pub(crate) receive: Bound<Parts, Sum>,
}

impl Loops {
    /// None for a cipher with a tag.
    pub(crate) fn bind(level: Level, parts: &Parts) -> Option<Loops> {
        Loops::bind_for(level, parts, parts.swap != Swap::None)
    }

    /// With a swap, whichever `parts` has when a message comes, or without one.
    pub(crate) fn bind_for(level: Level, parts: &Parts, swaps: bool) -> Option<Loops> {
        let integrated = parts.execution == Execution::Integrated;
        match parts.cipher {
            Cipher::None => Some(Loops::of::<Plain>(level, integrated, swaps)),
            Cipher::Pes(_) => Some(Loops::of::<PesKey>(level, integrated, swaps)),
            Cipher::SaferSimplified(_) => {
                Some(Loops::of::<SaferSimplifiedKey>(level, integrated, swaps))
            }
            Cipher::Safer(_) => Some(Loops::of::<SaferKey>(level, integrated, swaps)),
            Cipher::ChaCha(_) | Cipher::Gcm(_) | Cipher::Library(_) => None,
        }
    }

    fn of<C: Tagless>(level: Level, integrated: bool, swaps: bool) -> Loops {
        match (integrated, swaps) {
            (true, true) => Loops::exactly::<C, true, true>(level),
            (true, false) => Loops::exactly::<C, true, false>(level),
            (false, true) => Loops::exactly::<C, false, true>(level),
            (false, false) => Loops::exactly::<C, false, false>(level),
        }
    }

    fn exactly<C: Tagless, const INTEGRATED: bool, const SWAPS: bool>(level: Level) -> Loops {
        Loops {
            send: level.bind::<Sending<C, INTEGRATED, SWAPS>, _, _>(),
            receive: level.bind::<Receiving<C, INTEGRATED, SWAPS>, _, _>(),
        }
    }
}

/// An expanded key, and the stages that a loop makes of it.
trait Tagless: Sized + 'static {
    /// It begins enciphering with a byte shuffle, so that a swap known when the loop is compiled becomes part
    /// of it.
    const SHUFFLES: bool = false;
    type Encipher<'a>: AnyStage + Stage<Output = ()>;
    type Decipher<'a>: AnyStage + Stage<Output = ()>;
    /// The key in `cipher`, when it is of this kind.
    fn of(cipher: &Cipher) -> Option<&Self>;
    fn encipher(&self) -> Self::Encipher<'_>;
    fn decipher(&self) -> Self::Decipher<'_>;
}

/// No key.
struct Plain;

impl Tagless for Plain {
    type Encipher<'a> = Nothing;
    type Decipher<'a> = Nothing;
    #[inline(always)]
    fn of(_: &Cipher) -> Option<&Self> {
        Some(&Plain)
    }
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
    fn of(cipher: &Cipher) -> Option<&Self> {
        if let Cipher::Pes(key) = cipher { Some(key) } else { None }
    }
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
    const SHUFFLES: bool = true;
    type Encipher<'a> = SaferSimplifiedEncrypt<'a>;
    type Decipher<'a> = SaferSimplifiedDecrypt<'a>;
    #[inline(always)]
    fn of(cipher: &Cipher) -> Option<&Self> {
        if let Cipher::SaferSimplified(key) = cipher { Some(key) } else { None }
    }
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
    type Encipher<'a> = SaferEncrypt<'a>;
    type Decipher<'a> = SaferDecrypt<'a>;
    #[inline(always)]
    fn of(cipher: &Cipher) -> Option<&Self> {
        if let Cipher::Safer(key) = cipher { Some(key) } else { None }
    }
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
    type Context = Parts;
    type Output = Sum;
    #[inline(always)]
    fn run(lanes: L, parts: &mut Parts, src: &[u8], dst: &mut [u8]) -> Sum {
        let Parts { execution, swap, swapper, cipher, work } = parts;
        let cipher = C::of(cipher).expect("the cipher that the loop is bound to").encipher();
        let rest = then(cipher, InternetSum);
        let ((), ((), sum)) = if SWAPS && INTEGRATED && C::SHUFFLES && *swap == Swap::Bytes32 {
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
    type Context = Parts;
    type Output = Sum;
    #[inline(always)]
    fn run(lanes: L, parts: &mut Parts, src: &[u8], dst: &mut [u8]) -> Sum {
        let Parts { execution, swap, swapper, cipher, work } = parts;
        let cipher = C::of(cipher).expect("the cipher that the loop is bound to").decipher();
        let (sum, ((), ())) = if SWAPS && INTEGRATED && C::SHUFFLES && *swap == Swap::Bytes32 {
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
