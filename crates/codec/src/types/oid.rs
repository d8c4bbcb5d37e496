//! OBJECT IDENTIFIER and RELATIVE-OID, kept as their contents octets (X.690, 8.19 and 8.20).

use super::Octets;
use crate::{Error, Problem};
use core::fmt;

/// What both are: contents octets.
macro_rules! oids {
    ($($article:literal $name:literal, $oid:ident;)*) => {$(
        #[doc = concat!($name, ".")]
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $oid<'a>(Octets<'a>);

        impl<'a> $oid<'a> {
            #[doc = concat!("From contents octets; `None` when they are no ", $name, ".")]
            pub fn from_contents(contents: impl Into<Octets<'a>>) -> Option<Self> {
                let contents = contents.into();
                well_formed(&contents).then_some($oid(contents))
            }

            /// From contents octets that are known to be right: for constants. They are not looked at.
            pub const fn from_constant(contents: &'a [u8]) -> Self {
                $oid(Octets::new(contents))
            }

            /// From contents octets that were read at an offset.
            pub(crate) fn decoded(contents: Octets<'a>, offset: usize) -> Result<Self, Error> {
                let oid = $oid::from_contents(contents);
                oid.ok_or_else(|| Problem::Contents(concat!($article, " ", $name)).at(offset))
            }

            /// The contents octets.
            pub fn as_contents(&self) -> &[u8] {
                &self.0
            }

            /// The same, borrowing from nothing.
            #[cfg(feature = "alloc")]
            pub fn into_owned(self) -> $oid<'static> {
                $oid(self.0.into_owned())
            }
        }

        impl fmt::Display for $oid<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dotted(f, self.arcs())
            }
        }

        impl fmt::Debug for $oid<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($oid), "({})"), self)
            }
        }
    )*};
}

oids! { "an" "OBJECT IDENTIFIER", Oid; "a" "RELATIVE-OID", RelativeOid; }

/// Whole sub-identifiers, none of them padded, at least one.
fn well_formed(bytes: &[u8]) -> bool {
    let mut begins = true;
    for &byte in bytes {
        if begins && byte == 0x80 {
            return false;
        }
        begins = byte & 0x80 == 0;
    }
    begins && !bytes.is_empty()
}

impl Oid<'_> {
    /// From arcs; `None` when there are fewer than two or the first two are none that there can be.
    #[cfg(feature = "alloc")]
    pub fn from_arcs(arcs: &[u128]) -> Option<Oid<'static>> {
        let [first @ 0..=2, second, rest @ ..] = arcs else { return None };
        if *first < 2 && *second > 39 {
            return None;
        }
        let mut contents = alloc::vec::Vec::new();
        push_arc(&mut contents, second.checked_add(first * 40)?);
        rest.iter().for_each(|&arc| push_arc(&mut contents, arc));
        Some(Oid(Octets::from(contents)))
    }

    /// Its arcs; one that is too large for the type saturates.
    pub fn arcs(&self) -> impl Iterator<Item = u128> + '_ {
        let mut subs = subidentifiers(&self.0);
        let first = subs.next().unwrap_or(0);
        let root = (first / 40).min(2);
        [root, first - 40 * root].into_iter().chain(subs)
    }
}

impl RelativeOid<'_> {
    /// From arcs; `None` when there are none.
    #[cfg(feature = "alloc")]
    pub fn from_arcs(arcs: &[u128]) -> Option<RelativeOid<'static>> {
        let mut contents = alloc::vec::Vec::new();
        arcs.iter().for_each(|&arc| push_arc(&mut contents, arc));
        (!arcs.is_empty()).then(|| RelativeOid(Octets::from(contents)))
    }

    /// Its arcs; one that is too large for the type saturates.
    pub fn arcs(&self) -> impl Iterator<Item = u128> + '_ {
        subidentifiers(&self.0)
    }
}

fn subidentifiers(bytes: &[u8]) -> impl Iterator<Item = u128> + '_ {
    bytes.split_inclusive(|byte| byte & 0x80 == 0).map(|sub| {
        if sub.len() > 18 {
            return u128::MAX;
        }
        sub.iter().fold(0, |value, &byte| value << 7 | u128::from(byte & 0x7f))
    })
}

#[cfg(feature = "alloc")]
fn push_arc(to: &mut alloc::vec::Vec<u8>, arc: u128) {
    let groups = (128 - (arc | 1).leading_zeros()).div_ceil(7);
    for group in (0..groups).rev() {
        let more = if group == 0 { 0 } else { 0x80 };
        to.push((arc >> (7 * group)) as u8 & 0x7f | more);
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, arcs: impl Iterator<Item = u128>) -> fmt::Result {
    for (i, arc) in arcs.enumerate() {
        if i > 0 {
            f.write_str(".")?;
        }
        write!(f, "{arc}")?;
    }
    Ok(())
}
