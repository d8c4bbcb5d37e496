//! Without the feature `view` nobody is asked anything.

use std::convert::Infallible;
use std::marker::PhantomData;

/// There is none.
pub(crate) struct Asked<S>(Infallible, PhantomData<S>);

impl<S> Asked<S> {
    /// No question.
    #[inline]
    pub fn next(&self) -> Option<Box<dyn FnOnce(&mut S)>> {
        match self.0 {}
    }
}
