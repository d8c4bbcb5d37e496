//! Values that cost next to nothing to make, for decoders to fill where they stay.

use crate::types::{Any, BitString, Integer, Octets, Oid, RelativeOid, Text};

#[cfg(feature = "alloc")]
use crate::types::SetOf;
#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// A type of which there is a value to decode over.
pub trait Blank {
    /// It: numbers are zero and strings empty.
    fn blank() -> Self;
}

macro_rules! blank {
    ($($(#[$attr:meta])* $type:ty $([$generic:ident])? => $blank:expr;)*) => {$(
        $(#[$attr])*
        impl $(<$generic>)? Blank for $type {
            #[inline(always)]
            fn blank() -> Self {
                $blank
            }
        }
    )*};
    ($($type:ty),*) => { blank! { $($type => <$type>::default();)* } };
}

blank!(i8, i16, i32, i64, u8, u16, u32, u64, f64, bool, (), Octets<'_>, BitString<'_>, Any<'_>);

blank! {
    Integer<'_> => Integer::minimal(Octets::new(&[0]));
    Oid<'_> => Oid::from_constant(&[0]);
    RelativeOid<'_> => RelativeOid::from_constant(&[0]);
    Text<'_, A> [A] => Text::default();
    #[cfg(feature = "alloc")]
    Vec<T> [T] => Vec::new();
    #[cfg(feature = "alloc")]
    SetOf<T> [T] => SetOf(Vec::new());
}
