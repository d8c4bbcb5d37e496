//! Words that an application and the outboard share, as the protocols of this crate see them: [`crate::ring`],
//! [`crate::waiter`], [`crate::news`] and [`crate::commands`]. No memory here, so that a model checker can stand behind them.

/// Access to the words that `W` names.
pub trait Words<W> {
    /// Reads a word, with acquire order.
    fn load(&self, word: W) -> u64;
    /// Writes one, with release order.
    fn store(&self, word: W, value: u64);
    /// Puts `new` in place of `old`, or gives what there is.
    ///
    /// # Errors
    /// It was another.
    fn compare_exchange(&self, word: W, old: u64, new: u64) -> Result<u64, u64>;
    /// Sets bits, and gives what there was.
    fn fetch_or(&self, word: W, bits: u64) -> u64;
    /// Puts `value` there, and gives what there was.
    fn swap(&self, word: W, value: u64) -> u64;
    /// A sequentially consistent fence.
    fn fence(&self);
    /// The same right behind a change of a word by this thread ([`Words::compare_exchange`], [`Words::fetch_or`],
    /// [`Words::swap`]): on some machines that is one.
    fn fence_behind_change(&self) {
        self.fence();
    }
}

/// Words in loom's memory, by their numbers.
#[cfg(test)]
pub mod model {
    use loom::sync::atomic::{AtomicU64, Ordering, fence};

    use super::Words;

    /// `N` of them, zeros at first.
    pub struct Modelled<const N: usize>([AtomicU64; N]);

    impl<const N: usize> Default for Modelled<N> {
        fn default() -> Self {
            Modelled(std::array::from_fn(|_| AtomicU64::new(0)))
        }
    }

    impl<W: Into<usize>, const N: usize> Words<W> for Modelled<N> {
        fn load(&self, word: W) -> u64 {
            self.0[word.into()].load(Ordering::Acquire)
        }
        fn store(&self, word: W, value: u64) {
            self.0[word.into()].store(value, Ordering::Release);
        }
        fn compare_exchange(&self, word: W, old: u64, new: u64) -> Result<u64, u64> {
            self.0[word.into()].compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
        }
        fn fetch_or(&self, word: W, bits: u64) -> u64 {
            self.0[word.into()].fetch_or(bits, Ordering::AcqRel)
        }
        fn swap(&self, word: W, value: u64) -> u64 {
            self.0[word.into()].swap(value, Ordering::AcqRel)
        }
        fn fence(&self) {
            fence(Ordering::SeqCst);
        }
    }

    /// Runs every interleaving of a small exchange.
    pub fn check(body: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.max_branches = 10_000;
        model.check(body);
    }
}
