//! What constraints of a type ask of its values, which generated code does around each of them. Each is a
//! compare and a branch; what fails is worded apart from that.

use crate::Problem;
use crate::types::Integer;

/// A number is within its bounds: `holds` says whether.
///
/// # Errors
/// It does not hold.
#[inline(always)]
pub fn number(holds: bool, found: impl Into<i128>, least: i128, most: i128) -> Result<(), Problem> {
    match holds {
        true => Ok(()),
        false => Err(out_of_range(found.into(), least, most)),
    }
}

#[cold]
#[inline(never)]
fn out_of_range(found: i128, least: i128, most: i128) -> Problem {
    Problem::Range { found, least, most }
}

/// An INTEGER of any width is in one of some ranges, in order; [`i128::MIN`] and [`i128::MAX`] are no bounds.
///
/// # Errors
/// It is not.
#[inline]
pub fn integer(value: &Integer<'_>, ranges: &[(i128, i128)]) -> Result<(), Problem> {
    // What 128 bits do not hold lies beyond them on its side.
    let found = match value.as_be_bytes().len() {
        0..=16 => signed(value),
        _ if value.is_negative() => i128::MIN,
        _ => i128::MAX,
    };
    let holds = ranges.iter().any(|(least, most)| (least..=most).contains(&&found));
    let least = ranges.first().map_or(i128::MIN, |range| range.0);
    number(holds, found, least, ranges.last().map_or(i128::MAX, |range| range.1))
}

/// An INTEGER of any width as one of the machine's, which its constraint makes it.
///
/// # Errors
/// It is wider.
#[inline]
pub fn machine_integer<T: TryFrom<i128>>(value: &Integer<'_>) -> Result<T, Problem> {
    let bytes = value.as_be_bytes().len();
    let too_wide = Problem::IntegerTooWide { bytes };
    if bytes > 16 {
        return Err(too_wide);
    }
    T::try_from(signed(value)).map_err(|_| too_wide)
}

/// An INTEGER of 128 bits at most.
fn signed(value: &Integer<'_>) -> i128 {
    let sign = if value.is_negative() { -1 } else { 0 };
    value.as_be_bytes().iter().fold(sign, |all, &octet| all << 8 | i128::from(octet))
}

/// A string or list is as long as its type allows: `holds` says whether.
///
/// # Errors
/// It does not hold.
#[inline(always)]
pub fn size(holds: bool, found: usize, least: u64, most: u64) -> Result<(), Problem> {
    match holds {
        true => Ok(()),
        false => Err(wrong_size(found as u64, least, most)),
    }
}

#[cold]
#[inline(never)]
fn wrong_size(found: u64, least: u64, most: u64) -> Problem {
    match found < least {
        true => Problem::TooShort { found, bound: least },
        false => Problem::TooLong { found, bound: most },
    }
}

/// Characters of one byte each are of a permitted alphabet: bit *n* of `alphabet` stands for character *n*.
///
/// # Errors
/// One is not.
#[inline]
pub fn alphabet(bytes: &[u8], alphabet: u128, type_name: &'static str) -> Result<(), Problem> {
    let is_wrong = |&&byte: &&u8| byte >= 0x80 || alphabet >> byte & 1 == 0;
    match bytes.iter().find(is_wrong) {
        None => Ok(()),
        Some(&found) => Err(Problem::Character { found, type_name }),
    }
}

/// Characters of `width` bytes each (UTF-8 if it is 0) are within one of `ranges`.
///
/// # Errors
/// One is not.
pub fn characters(bytes: &[u8], width: usize, ranges: &[(u32, u32)]) -> Result<(), Problem> {
    let holds = |c: u32| ranges.iter().any(|&(least, most)| (least..=most).contains(&c));
    let all = match width {
        0 => match core::str::from_utf8(bytes) {
            Ok(text) => text.chars().all(|c| holds(c.into())),
            Err(_) => false,
        },
        _ => bytes
            .chunks(width)
            .all(|c| holds(c.iter().fold(0, |all, &byte| all << 8 | u32::from(byte)))),
    };
    match all {
        true => Ok(()),
        false => Err(Problem::Contents("characters of the permitted alphabet")),
    }
}

/// How many characters UTF-8 has.
#[inline]
pub fn utf8_len(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte as i8 >= -0x40).count()
}
