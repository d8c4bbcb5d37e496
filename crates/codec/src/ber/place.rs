//! Values decoded where they stay.
//!
//! A value that a function returns is moved: out of the result, into the component, with it into the element. Of a
//! type with many components that is most of the work. Such a type ([`Decode::in_place`]) is decoded over a value that
//! costs next to nothing to make ([`Blank`](crate::Blank)).

use super::{Decode, Decoder};
use crate::{Error, Problem};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

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
