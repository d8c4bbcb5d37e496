//! Whole numbers of any width, as the encodings have them: two's complement, most significant byte first.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

/// A longer number is not written in decimal, which takes the square of its length.
pub const DECIMAL_BYTES_MAX: usize = 8 << 10;

/// More digits are not read.
pub const DECIMAL_DIGITS_MAX: usize = 20 << 10;

/// What a limb holds: the largest power of ten below 2^64.
const LIMB: u64 = 10_000_000_000_000_000_000;

/// Without bytes in front that only repeat the sign; at least one byte.
pub fn minimal(bytes: &[u8]) -> &[u8] {
    let repeats = |pair: &&[u8]| matches!((pair[0], pair[1] >> 7), (0, 0) | (0xff, 1));
    match bytes {
        [] => &[0],
        bytes => &bytes[bytes.windows(2).take_while(repeats).count()..],
    }
}

/// The bytes of a number.
pub fn of(value: i128) -> Vec<u8> {
    minimal(&value.to_be_bytes()).to_vec()
}

/// The number, if 128 bits hold it.
pub fn to_i128(bytes: &[u8]) -> Option<i128> {
    let bytes = minimal(bytes);
    let first = if bytes[0] & 0x80 == 0 { 0 } else { -1_i128 };
    (bytes.len() <= 16).then(|| bytes.iter().fold(first, |n, &b| n << 8 | i128::from(b)))
}

/// In decimal; nothing where it is longer than [`DECIMAL_BYTES_MAX`].
pub fn to_decimal(bytes: &[u8]) -> Option<String> {
    let bytes = minimal(bytes);
    if let Some(small) = to_i128(bytes) {
        return Some(small.to_string());
    }
    if bytes.len() > DECIMAL_BYTES_MAX {
        return None;
    }
    let negative = bytes[0] & 0x80 != 0;
    let mut words = words_of(bytes, negative);
    let mut limbs = Vec::new();
    while !words.is_empty() {
        let mut rest = 0_u128;
        for word in &mut words {
            let part = rest << 64 | u128::from(*word);
            *word = (part / u128::from(LIMB)) as u64;
            rest = part % u128::from(LIMB);
        }
        limbs.push(rest as u64);
        let zeros = words.iter().take_while(|w| **w == 0).count();
        words.drain(..zeros);
    }
    let mut text = if negative { "-".to_owned() } else { String::new() };
    for (n, limb) in limbs.iter().rev().enumerate() {
        let width = if n == 0 { 0 } else { 19 };
        let _ = write!(text, "{limb:0width$}");
    }
    Some(text)
}

/// The magnitude in words of 64 bits, most significant first, none of them zero in front.
fn words_of(bytes: &[u8], negative: bool) -> Vec<u64> {
    let mut words = Vec::with_capacity(bytes.len() / 8 + 1);
    for chunk in bytes.rchunks(8) {
        let mut word = [if negative { 0xff } else { 0 }; 8];
        word[8 - chunk.len()..].copy_from_slice(chunk);
        words.push(u64::from_be_bytes(word));
    }
    if negative {
        let mut carry = true;
        for word in &mut words {
            let (negated, over) = (!*word).overflowing_add(u64::from(carry));
            (*word, carry) = (negated, over);
        }
        if carry {
            words.push(1);
        }
    }
    while words.last() == Some(&0) {
        words.pop();
    }
    words.reverse();
    words
}

/// From decimal digits, perhaps with a minus sign in front; nothing where it is none or too long.
pub fn from_decimal(text: &str) -> Option<Vec<u8>> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits.trim_start()),
        None => (false, text),
    };
    let right = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !right || digits.len() > DECIMAL_DIGITS_MAX {
        return None;
    }
    // Least significant first.
    let mut words: Vec<u64> = Vec::new();
    for chunk in digits.as_bytes().chunks(18) {
        let scale = 10_u64.pow(chunk.len() as u32);
        let mut carry = chunk.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'));
        for word in &mut words {
            let part = u128::from(*word) * u128::from(scale) + u128::from(carry);
            *word = part as u64;
            carry = (part >> 64) as u64;
        }
        if carry > 0 {
            words.push(carry);
        }
    }
    words.push(0);
    if negative {
        let mut carry = true;
        for word in &mut words {
            let (negated, over) = (!*word).overflowing_add(u64::from(carry));
            (*word, carry) = (negated, over);
        }
    }
    let bytes: Vec<u8> = words.iter().rev().flat_map(|w| w.to_be_bytes()).collect();
    Some(minimal(&bytes).to_vec())
}
