//! Values decoded where they stay.
//!
//! A value that a function returns is moved: out of the result, into the component, with it into the element. Of a
//! type with many components that is most of the work. Such a type ([`Decode::in_place`]) is decoded over a value that
//! costs next to nothing to make ([`Blank`]).

use super::{Decode, DecodeContents, Decoder, Tag};
use crate::types::{Any, BitString, Integer, Octets, Oid, RelativeOid, Text};
use crate::{Error, Problem, Step};

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

/// As the methods of the same names without `into`; `place` is still as [`Blank::blank`] makes it.
impl<'a> Decoder<'a> {
    /// A component that must be there, with a tag of its own or a CHOICE.
    ///
    /// # Errors
    /// As [`Decoder::required`].
    #[inline(always)]
    pub fn required_into<T: Decode<'a>>(
        &mut self,
        name: &'static str,
        place: &mut T,
    ) -> Result<(), Error> {
        named(T::decode_into(place, self), name)
    }

    /// A component that must be there, its tag replaced: IMPLICIT.
    ///
    /// # Errors
    /// As [`Decoder::implicit`].
    #[inline(always)]
    pub fn implicit_into<T: DecodeContents<'a>>(
        &mut self,
        name: &'static str,
        tag: Tag,
        place: &mut T,
    ) -> Result<(), Error> {
        named(T::as_into(place, tag, self), name)
    }

    /// A component that must be there, within a value of `tag`: EXPLICIT.
    ///
    /// # Errors
    /// As [`Decoder::explicit`].
    #[inline(always)]
    pub fn explicit_into<T: Decode<'a>>(
        &mut self,
        name: &'static str,
        tag: Tag,
        place: &mut T,
    ) -> Result<(), Error> {
        named(self.within(tag, |from| T::decode_into(place, from)), name)
    }

    /// A component that may be there, with a tag of its own or a CHOICE.
    ///
    /// # Errors
    /// As [`Decoder::optional`].
    #[inline(always)]
    pub fn optional_into<T: Decode<'a>>(
        &mut self,
        name: &'static str,
        place: &mut Option<T>,
    ) -> Result<(), Error> {
        if !self.next_begins::<T>()? {
            return Ok(());
        }
        match T::in_place() {
            Some(blank) => self.required_into(name, place.insert(blank())),
            None => self.required(name).map(|value| *place = Some(value)),
        }
    }

    /// A component that may be there, its tag replaced: IMPLICIT.
    ///
    /// # Errors
    /// As [`Decoder::optional_implicit`].
    #[inline(always)]
    pub fn optional_implicit_into<T: DecodeContents<'a>>(
        &mut self,
        name: &'static str,
        tag: Tag,
        place: &mut Option<T>,
    ) -> Result<(), Error> {
        if !self.next_is(tag) {
            return Ok(());
        }
        match T::in_place() {
            Some(blank) => self.implicit_into(name, tag, place.insert(blank())),
            None => self.implicit(name, tag).map(|value| *place = Some(value)),
        }
    }

    /// A component that may be there, within a value of `tag`: EXPLICIT.
    ///
    /// # Errors
    /// As [`Decoder::optional_explicit`].
    #[inline(always)]
    pub fn optional_explicit_into<T: Decode<'a>>(
        &mut self,
        name: &'static str,
        tag: Tag,
        place: &mut Option<T>,
    ) -> Result<(), Error> {
        if !self.next_is(tag) {
            return Ok(());
        }
        match T::in_place() {
            Some(blank) => self.explicit_into(name, tag, place.insert(blank())),
            None => self.explicit(name, tag).map(|value| *place = Some(value)),
        }
    }

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

/// What went wrong with the component `name`.
#[inline(always)]
fn named(mut result: Result<(), Error>, name: &'static str) -> Result<(), Error> {
    if let Err(error) = &mut result {
        error.push(Step::Field(name));
    }
    result
}
