//! Values decoded where they stay.
//!
//! A value that a function returns is moved: out of the result, into the component, with it into the element. Of a
//! type with many components that is most of the work. Such a type ([`Decode::in_place`]) is decoded over a value that
//! costs next to nothing to make ([`Blank`]).

use super::{Decode, Decoder};
use crate::types::{Any, BitString, Integer, Octets, Oid, RelativeOid, Text};
use crate::{Error, Problem};

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

impl<'a> Decoder<'a> {
    /// A value of the type may come next.
    ///
    /// # Errors
    /// No tag comes, or contents of indefinite length are not closed.
    #[inline(always)]
    pub fn next_begins<T: Decode<'a>>(&self) -> Result<bool, Error> {
        Ok(self.at != self.end && T::begins_with(self.peek()?) && (!self.open || self.more()?))
    }

    /// The error of a component that is there twice.
    #[cold]
    #[inline(never)]
    pub fn twice(&self, name: &'static str) -> Error {
        self.error(Problem::Twice).in_field(name)
    }

    /// Elements up to the end of the contents, each over what `blank` makes.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub(super) fn elements_in_place<T: Decode<'a>>(
        &mut self,
        blank: fn() -> T,
    ) -> Result<Vec<T>, Error> {
        let mut elements: Vec<T> = Vec::new();
        while self.more()? {
            self.budget.elements(1, self.at)?;
            if elements.is_empty() {
                let start = self.at;
                // What is wrong with it, its decoder says.
                let end = self.any_header().map_or(start, |(_, header)| header.end);
                self.at = start;
                let room = self.expect::<T>(end - start, self.end - end.max(start));
                elements.reserve_exact(room);
            }
            // Made in the vector: what is pushed is made beside it, and moved.
            elements.extend(core::iter::once_with(blank));
            let index = elements.len() - 1;
            if let Err(error) = T::decode_into(&mut elements[index], self) {
                return Err(error.in_element(index));
            }
        }
        Ok(elements)
    }
}
