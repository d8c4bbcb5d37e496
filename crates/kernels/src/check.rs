//! The check functions that a pipeline can have in its loop, and what they find.
#![forbid(unsafe_code)]

use crate::{Cxor, Level};
use core::fmt;
use core::str::FromStr;
use fusewire_base::Sum;

/// The check function in the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Check {
    /// The Internet sum.
    #[default]
    Internet,
    /// CXOR, where the cipher has no tag; beside a tag none.
    Cxor,
    /// None: something else proves the bytes, as a tag does.
    None,
}

impl Check {
    /// All of them.
    pub const ALL: [Check; 3] = [Check::Internet, Check::Cxor, Check::None];

    /// As settings spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Check::Internet => "internet",
            Check::Cxor => "cxor",
            Check::None => "none",
        }
    }

    /// What it finds of no bytes.
    #[inline]
    pub const fn begin(self) -> Found {
        match self {
            Check::Internet => Found::Sum(Sum::ZERO),
            Check::Cxor => Found::Cxor(Cxor { xor: 0, rxor: 0 }),
            Check::None => Found::Nothing,
        }
    }

    /// What it finds of `bytes`, in a pass of its own.
    #[inline]
    pub fn of(self, level: Level, bytes: &[u8]) -> Found {
        match self {
            Check::Internet => Found::Sum(crate::sum(level, bytes)),
            Check::Cxor => Found::Cxor(crate::cxor(level, bytes)),
            Check::None => Found::Nothing,
        }
    }

    /// What it finds of `src`, which is copied to `dst`, as long, in the same loop.
    #[inline]
    pub fn copy(self, level: Level, src: &[u8], dst: &mut [u8]) -> Found {
        match self {
            Check::Internet => Found::Sum(crate::copy_sum(level, src, dst)),
            Check::Cxor => Found::Cxor(crate::copy_cxor(level, src, dst)),
            Check::None => {
                dst.copy_from_slice(src);
                Found::Nothing
            }
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Check {
    type Err = String;

    fn from_str(name: &str) -> Result<Check, String> {
        Check::ALL.into_iter().find(|check| check.name() == name).ok_or_else(|| {
            format!("the check function is one of {}", Check::ALL.map(Check::name).join(", "))
        })
    }
}

/// What a check function found of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// None was asked, or what it found cannot be joined.
    #[default]
    Nothing,
    /// [`Check::Internet`].
    Sum(Sum),
    /// [`Check::Cxor`].
    Cxor(Cxor),
}

impl Found {
    /// That of `len` bytes and of what follows them, `next`. CXOR's words do not join in the middle of one: behind an odd
    /// number of bytes, nothing is known of both.
    #[must_use]
    #[inline]
    pub const fn then(self, len: usize, next: Found) -> Found {
        match (self, next) {
            (Found::Sum(sum), Found::Sum(next)) => Found::Sum(sum.then(len, next)),
            (Found::Cxor(cxor), Found::Cxor(next)) if len.is_multiple_of(2) => {
                Found::Cxor(cxor.then(len, next))
            }
            _ => Found::Nothing,
        }
    }

    /// The Internet sum, if that was asked.
    #[inline]
    pub const fn sum(self) -> Option<Sum> {
        match self {
            Found::Sum(sum) => Some(sum),
            Found::Cxor(_) | Found::Nothing => None,
        }
    }

    /// Nothing, if nobody has asked.
    #[inline(always)]
    pub(crate) const fn if_any(self, check: Check) -> Found {
        if matches!(check, Check::None) { Found::Nothing } else { self }
    }

    /// The same of a cipher that finds the Internet sum alone.
    #[inline(always)]
    pub(crate) const fn if_asked(self, check: Check) -> Found {
        if matches!(check, Check::Internet) { self } else { Found::Nothing }
    }

    /// CXOR, if that was asked.
    #[inline]
    pub const fn cxor(self) -> Option<Cxor> {
        match self {
            Found::Cxor(cxor) => Some(cxor),
            Found::Sum(_) | Found::Nothing => None,
        }
    }
}

impl From<Sum> for Found {
    #[inline]
    fn from(sum: Sum) -> Found {
        Found::Sum(sum)
    }
}

impl From<Cxor> for Found {
    #[inline]
    fn from(cxor: Cxor) -> Found {
        Found::Cxor(cxor)
    }
}

/// It is that sum.
impl PartialEq<Sum> for Found {
    fn eq(&self, sum: &Sum) -> bool {
        self.sum() == Some(*sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for check in Check::ALL {
            assert_eq!(check.to_string().parse(), Ok(check));
        }
        assert!("sum".parse::<Check>().is_err());
    }

    #[test]
    fn pieces_join_where_they_can() {
        let level = Level::detect();
        let bytes: Vec<u8> = (0..99u32).map(|i| (i * 37 + 11) as u8).collect();
        for check in Check::ALL {
            let whole = check.of(level, &bytes);
            assert_eq!(check.begin().then(0, whole), whole);
            for at in 0..bytes.len() {
                let (first, next) = bytes.split_at(at);
                let mut to = vec![0; next.len()];
                let joined = check.of(level, first).then(at, check.copy(level, next, &mut to));
                let joins = check != Check::Cxor || at % 2 == 0;
                assert_eq!(joined, if joins { whole } else { Found::Nothing }, "{check} at {at}");
                assert_eq!(to, next);
            }
        }
        assert_eq!(Check::None.of(level, &bytes), Found::Nothing);
        assert_eq!(Check::Internet.of(level, &bytes), Sum::of(&bytes));
    }
}
