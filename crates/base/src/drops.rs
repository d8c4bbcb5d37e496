//! Why things are dropped: every cause has a name and a counter, and is one line of a list.

use core::marker::PhantomData;

/// A cause of a list that [`causes!`](crate::causes) makes.
pub trait Cause: Copy + 'static {
    /// All of the list, in the order of their numbers.
    const ALL: &'static [Self];

    /// Its name as users and metrics see it.
    fn name(self) -> &'static str;

    /// Its place in the list.
    fn place(self) -> usize;
}

/// Makes a list of causes, and the type that counts them:
///
/// ```
/// fusewire_base::causes! {
///     /// Why a letter was not delivered.
///     Cause, counted by Drops {
///         /// Nobody lives there.
///         Stray = "letter-stray",
///         /// The box is full.
///         Full = "letter-box-full",
///     }
/// }
///
/// let mut drops = Drops::default();
/// drops.count(Cause::Full);
/// assert_eq!(drops.of(Cause::Full), 1);
/// assert!(drops.named().eq([("letter-stray", 0), ("letter-box-full", 1)]));
/// ```
///
/// Two causes of one name do not compile. `counted by Drops of u32` takes half the memory.
#[macro_export]
macro_rules! causes {
    (
        $(#[$about:meta])*
        $Cause:ident, counted by $Drops:ident $(of $Count:ty)? {
            $($(#[$doc:meta])+ $Variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $Cause {
            $($(#[$doc])+ $Variant,)+
        }

        impl $Cause {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$Cause] = &[$($Cause::$Variant),+];

            /// Its name as users and metrics see it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Cause::$Variant => $name,)+
                }
            }
        }

        impl $crate::Cause for $Cause {
            const ALL: &'static [$Cause] = $Cause::ALL;

            fn name(self) -> &'static str {
                $Cause::name(self)
            }

            fn place(self) -> usize {
                self as usize
            }
        }

        const _: () = assert!($crate::are_distinct(&[$($name),+]), "two causes of one name");

        #[doc = concat!("How often each [`", stringify!($Cause), "`] was.")]
        pub type $Drops = $crate::Drops<$Cause, { $Cause::ALL.len() } $(, $Count)?>;
    };
}

/// No two of the names are the same.
pub const fn are_distinct(names: &[&str]) -> bool {
    let mut a = 0;
    while a < names.len() {
        let mut b = 0;
        while b < a {
            if is_same(names[a].as_bytes(), names[b].as_bytes()) {
                return false;
            }
            b += 1;
        }
        a += 1;
    }
    true
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// What drops are counted in. It stops at the largest.
pub trait Count: Copy + Default + Into<u64> + TryFrom<u64> {
    /// The largest.
    const MAX: Self;
}

impl Count for u64 {
    const MAX: u64 = u64::MAX;
}

impl Count for u32 {
    const MAX: u32 = u32::MAX;
}

/// How often each cause of a list was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drops<C, const N: usize, U = u64> {
    counts: [U; N],
    causes: PhantomData<C>,
}

impl<C, const N: usize, U: Count> Default for Drops<C, N, U> {
    fn default() -> Self {
        Drops { counts: [U::default(); N], causes: PhantomData }
    }
}

impl<C: Cause, const N: usize, U: Count> Drops<C, N, U> {
    /// One more.
    #[inline]
    pub fn count(&mut self, cause: C) {
        self.add(cause, 1);
    }

    /// So many more.
    #[inline]
    pub fn add(&mut self, cause: C, n: u64) {
        let count = &mut self.counts[cause.place()];
        *count = U::try_from((*count).into().saturating_add(n)).unwrap_or(U::MAX);
    }

    /// Those that somebody else has counted too.
    pub fn merge(&mut self, other: &Self) {
        C::ALL.iter().for_each(|cause| self.add(*cause, other.of(*cause)));
    }

    /// How often this one was.
    pub fn of(&self, cause: C) -> u64 {
        self.counts[cause.place()].into()
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.named().map(|(_, n)| n).sum()
    }

    /// Every name with its count.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        C::ALL.iter().map(|cause| (cause.name(), self.of(*cause)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    causes! {
        /// Two.
        Two, counted by Twos of u32 {
            /// The first.
            One = "one",
            /// The other.
            Other = "other",
        }
    }

    #[test]
    fn every_cause_has_its_place_and_its_counter() {
        let mut drops = Twos::default();
        drops.count(Two::Other);
        drops.add(Two::Other, 2);
        let mut sum = drops;
        sum.merge(&drops);
        sum.count(Two::One);
        assert!(sum.named().eq([("one", 1), ("other", 6)]) && sum.total() == 7);
        sum.add(Two::One, u64::MAX);
        assert_eq!(sum.of(Two::One), u32::MAX.into());
        for (place, cause) in Two::ALL.iter().enumerate() {
            assert_eq!(cause.place(), place);
        }
    }

    #[test]
    fn names_are_told_apart() {
        assert!(are_distinct(&["a", "ab", "b", ""]));
        assert!(!are_distinct(&["a", "ab", "b", "ab"]));
    }
}
