//! TCP sequence numbers: 32-bit, compared modulo 2^32 (RFC 9293, section 3.4).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence number. Order is the RFC's: `a < b` when `b` lies less than 2^31 ahead of `a`, so it is
/// not transitive over a whole turn and `Seq` is deliberately not `Ord`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// `self` lies before `other`.
    pub const fn lt(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self` lies before `other` or is equal to it.
    pub const fn le(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// `self` lies after `other`.
    pub const fn gt(self, other: Seq) -> bool {
        other.lt(self)
    }

    /// `self` lies after `other` or is equal to it.
    pub const fn ge(self, other: Seq) -> bool {
        other.le(self)
    }

    /// The 64-bit stream offset that `self` stands for, given one within 2^31 of it: `near` is the
    /// 64-bit offset whose low 32 bits, added to `origin`, make the nearest known sequence number.
    pub const fn to_offset(self, origin: Seq, near: u64) -> Option<u64> {
        let low = self.0.wrapping_sub(origin.0);
        let diff = low.wrapping_sub(near as u32) as i32;
        near.checked_add_signed(diff as i64)
    }
}

impl Add<u32> for Seq {
    type Output = Seq;
    fn add(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}

impl Sub<Seq> for Seq {
    type Output = u32;
    /// Bytes from `other` to `self`, modulo 2^32.
    fn sub(self, other: Seq) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_across_the_wrap() {
        let a = Seq(u32::MAX - 1);
        let b = a + 4;
        assert_eq!(b, Seq(2));
        assert!(a.lt(b) && a.le(b) && b.gt(a) && b.ge(a) && !b.lt(a));
        assert!(a.le(a) && a.ge(a) && !a.lt(a));
        assert_eq!(b - a, 4);
    }

    #[test]
    fn offset_is_recovered_on_both_sides_of_the_wrap() {
        let origin = Seq(u32::MAX - 99);
        for near in [0u64, 100, (1 << 32) - 5, 1 << 32, (7 << 32) + 12_345] {
            for delta in [-90i64, -1, 0, 1, 1_000_000, i64::from(i32::MAX)] {
                let Some(offset) = near.checked_add_signed(delta) else { continue };
                let seq = origin + offset as u32;
                assert_eq!(seq.to_offset(origin, near), Some(offset));
            }
        }
        assert_eq!((origin + u32::MAX).to_offset(origin, 0), None);
    }
}
