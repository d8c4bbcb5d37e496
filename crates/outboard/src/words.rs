//! Words that an application and the outboard share, as the protocols of this crate see them: [`crate::ring`],
//! [`crate::waiter`], [`crate::news`] and [`crate::commands`]: wherever they lie, so that a model checker can stand behind them; those
//! that the two really share are [`Placed`].

use std::sync::atomic::{Ordering, fence};

use fusewire_device::Shared;

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
    /// [`Words::swap`]): on some machines that is one. The models checked here have the fence, as it is where it is one of its own:
    /// that such a change is as good is for the machine's manual to say.
    fn fence_behind_change(&self) {
        self.fence();
    }
}

/// Words that lie in memory that is shared.
pub trait Placed {
    /// What names them.
    type Word;

    /// In which file a word lies, and where.
    fn place(&self, word: Self::Word) -> (&Shared, usize);
}

impl<P: Placed> Words<P::Word> for P {
    #[inline]
    fn load(&self, word: P::Word) -> u64 {
        let (file, at) = self.place(word);
        file.load(at)
    }
    #[inline]
    fn store(&self, word: P::Word, value: u64) {
        let (file, at) = self.place(word);
        file.store(at, value);
    }
    #[inline]
    fn compare_exchange(&self, word: P::Word, old: u64, new: u64) -> Result<u64, u64> {
        let (file, at) = self.place(word);
        file.compare_exchange(at, old, new)
    }
    #[inline]
    fn fetch_or(&self, word: P::Word, bits: u64) -> u64 {
        let (file, at) = self.place(word);
        file.fetch_or(at, bits)
    }
    #[inline]
    fn swap(&self, word: P::Word, value: u64) -> u64 {
        let (file, at) = self.place(word);
        file.swap(at, value)
    }
    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    #[inline]
    fn fence_behind_change(&self) {
        fusewire_device::fence_behind_change();
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
