//! Arrays of numbers between memory and the wire: loops over elements, compiled for a level.
//!
//! They are written without intrinsics. What they need is only that the compiler may use the level's vectors, and has
//! elements in pieces of fixed size to see that it can.
#![forbid(unsafe_code)]

use crate::Level;
use crate::arch::{Lanes, LoopBody};
use crate::execution::Integrated;
use crate::stage::then;
use crate::stages::{InternetSum, Swap as SwapStage};
use fusewire_base::Sum;

/// Copies `from` to `to`, which is as long, the bytes of each `width` (2, 4 or 8) reversed where the machine is
/// little-endian: to network byte order and back. Of any other width they are only copied.
#[inline]
pub fn swap(level: Level, from: &[u8], to: &mut [u8], width: usize) {
    assert_eq!(from.len(), to.len(), "source and destination must have one length");
    level.run(Swap { from, to, width });
}

/// [`swap`], and the Internet sum of `from`, in one loop.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn swap_sum(level: Level, from: &[u8], to: &mut [u8], width: usize) -> Sum {
    assert_eq!(from.len(), to.len(), "source and destination must have one length");
    let (src, dst) = (from, to);
    match width {
        2 => level.run(Integrated { stage: &then(InternetSum, SwapStage::<2>), src, dst }).0,
        4 => level.run(Integrated { stage: &then(InternetSum, SwapStage::<4>), src, dst }).0,
        8 => level.run(Integrated { stage: &then(InternetSum, SwapStage::<8>), src, dst }).0,
        _ => crate::copy_sum(level, src, dst),
    }
}

/// Writes the low halves of `from` to `to`, which has four bytes for each, in network byte order. Says whether all are
/// what their low halves are with their sign; otherwise what was written means nothing.
#[inline]
pub fn narrow(level: Level, from: &[i64], to: &mut [u8]) -> bool {
    assert_eq!(4 * from.len(), to.len(), "four bytes for each number");
    level.run(Narrow { from, to })
}

/// The numbers of four bytes each, in network byte order and with a sign, that `from` is; bytes that are left over are
/// not looked at.
#[inline]
pub fn widen(level: Level, from: &[u8]) -> Vec<i64> {
    level.run(Widen { from })
}

struct Swap<'a> {
    from: &'a [u8],
    to: &'a mut [u8],
    width: usize,
}

impl<L: Lanes> LoopBody<L> for Swap<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: L) {
        reverse_each(self.from, self.to, self.width);
    }
}

/// [`swap`] for what it is inlined into.
#[inline(always)]
pub(crate) fn reverse_each(from: &[u8], to: &mut [u8], width: usize) {
    macro_rules! words {
        ($type:ty) => {
            for (to, from) in to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
                *to = <$type>::from_ne_bytes(*from).to_be_bytes();
            }
        };
    }
    match width {
        2 => words!(u16),
        4 => words!(u32),
        8 => words!(u64),
        _ => to.copy_from_slice(from),
    }
}

struct Narrow<'a> {
    from: &'a [i64],
    to: &'a mut [u8],
}

impl<L: Lanes> LoopBody<L> for Narrow<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self, _: L) -> bool {
        let mut wide = 0;
        for (to, &value) in self.to.as_chunks_mut().0.iter_mut().zip(self.from) {
            // Not zero where the bits from 31 on are not all the same.
            wide |= value.wrapping_add(1 << 31) as u64 >> 32;
            *to = (value as u32).to_be_bytes();
        }
        wide == 0
    }
}

struct Widen<'a> {
    from: &'a [u8],
}

impl<L: Lanes> LoopBody<L> for Widen<'_> {
    type Output = Vec<i64>;

    #[inline(always)]
    fn run(self, _: L) -> Vec<i64> {
        let numbers = self.from.as_chunks().0;
        numbers.iter().map(|bytes| i64::from(i32::from_be_bytes(*bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every level, every length up to several vectors, at any alignment, against the obvious.
    #[test]
    fn every_level_and_length() {
        let levels = Level::available();
        let bytes: Vec<u8> = (0..2048u32).map(|i| ((i * 73) >> 2) as u8).collect();
        for &level in &levels {
            for len in (0..100).chain([255, 256, 257]) {
                let offset = len % 9;
                for width in [1, 2, 4, 8] {
                    let from = &bytes[offset..offset + len / width * width];
                    let mut to = vec![0; from.len()];
                    swap(level, from, &mut to, width);
                    let wanted = from.chunks(width).flat_map(|chunk| chunk.iter().rev());
                    assert!(to.iter().eq(wanted), "{level} swap {width} of {len}");
                    let from = &bytes[offset..offset + 3 * len / width * width];
                    let (mut to, mut wanted) = (vec![0; from.len()], vec![0; from.len()]);
                    let sum = swap_sum(level, from, &mut to, width);
                    swap(level, from, &mut wanted, width);
                    assert_eq!((to, sum), (wanted, Sum::of(from)), "{level} {width} of {len}");
                }
                let from = &bytes[offset..offset + 4 * len];
                let wide = widen(level, from);
                let wanted = from.chunks(4).map(|c| i32::from_be_bytes(c.try_into().unwrap()));
                assert!(wide.iter().copied().eq(wanted.map(i64::from)), "{level} widen {len}");
                let mut to = vec![0; 4 * len];
                assert!(narrow(level, &wide, &mut to), "{level} narrow {len}");
                assert_eq!(to, from);
            }
        }
        println!("levels: {levels:?}");
    }

    /// One number that is too wide is found wherever it is.
    #[test]
    fn what_is_too_wide_is_found() {
        let edges = [i64::from(i32::MIN), i64::from(i32::MAX), 0, -1];
        let beyond = [i64::from(i32::MIN) - 1, i64::from(i32::MAX) + 1, i64::MIN, i64::MAX];
        for level in Level::available() {
            for at in 0..70 {
                let mut values: Vec<i64> = edges.into_iter().cycle().take(70).collect();
                let mut to = vec![0; 280];
                assert!(narrow(level, &values, &mut to), "{level}");
                for wide in beyond {
                    values[at] = wide;
                    assert!(!narrow(level, &values, &mut to), "{level}: {wide} at {at}");
                }
            }
        }
    }
}
