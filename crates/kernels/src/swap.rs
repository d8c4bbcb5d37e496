//! Which words a pipeline byte-swaps: what is said when it runs. The stage is `stages::swap`.
#![forbid(unsafe_code)]

use crate::stages::AnySwap;

/// Which words a pipeline byte-swaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swap {
    /// None.
    None,
    /// 16-bit words.
    Bytes16,
    /// 32-bit words.
    Bytes32,
    /// 64-bit words.
    Bytes64,
}

impl Swap {
    /// Bytes of a word; 1 for none.
    pub const fn bytes(self) -> usize {
        match self {
            Swap::None => 1,
            Swap::Bytes16 => 2,
            Swap::Bytes32 => 4,
            Swap::Bytes64 => 8,
        }
    }

    /// Of words of `bytes` bytes.
    ///
    /// # Panics
    /// Unless they are 1, 2, 4 or 8.
    pub const fn of(bytes: usize) -> Swap {
        match bytes {
            1 => Swap::None,
            2 => Swap::Bytes16,
            4 => Swap::Bytes32,
            8 => Swap::Bytes64,
            _ => panic!("words of 1, 2, 4 or 8 bytes"),
        }
    }

    /// The stage; one that swaps, whichever.
    #[inline(always)]
    pub(crate) fn stage(self) -> &'static AnySwap {
        static STAGES: [AnySwap; 4] =
            [AnySwap::new(2), AnySwap::new(2), AnySwap::new(4), AnySwap::new(8)];
        &STAGES[self as usize]
    }
}
