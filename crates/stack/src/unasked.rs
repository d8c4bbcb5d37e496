//! Without the feature `view` nobody is asked anything.

use std::convert::Infallible;
use std::marker::PhantomData;

/// What would be asked of an `S`.
type Question<S> = Box<dyn FnOnce(&mut S)>;

/// There is none.
pub(crate) struct Asked<S>(Infallible, PhantomData<S>);

impl<S> Asked<S> {
    /// No question.
    #[inline]
    pub fn next(&self) -> Option<Question<S>> {
        match self.0 {}
    }
}
