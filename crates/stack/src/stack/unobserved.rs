//! A stack without the feature `view`: nobody asks it anything.

use super::Stack;

/// There is none.
pub(super) enum Asked {}

impl Stack {
    /// Nothing to answer.
    #[inline]
    pub(super) fn answer(&self) {
        debug_assert!(self.asked.is_none());
    }
}
