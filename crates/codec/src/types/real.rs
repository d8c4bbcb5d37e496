//! REAL: the contents octets of X.690, section 8.5 (and 11.3 for DER), from and to binary64.

use crate::Problem;

/// Bytes of the longest contents that [`encode`] gives: first octet, two of exponent, seven of mantissa.
pub const MAX_LEN: usize = 10;

/// The contents octets of `value`, at the end of an array of [`MAX_LEN`], and how many they are.
///
/// Base 2, the mantissa odd, the exponent as short as it can be: DER's form. Zero has no octets.
#[inline]
pub fn encode(value: f64) -> ([u8; MAX_LEN], usize) {
    let mut octets = [0; MAX_LEN];
    let bits = value.to_bits();
    let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
    if biased == 0x7ff || bits << 1 == 0 {
        return special(value);
    }
    let (mantissa, exponent) = match biased {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, biased - 1075),
    };
    let zeros = mantissa.trailing_zeros();
    let (mantissa, exponent) = (mantissa >> zeros, exponent + zeros as i32);
    let mantissa_len = 8 - mantissa.leading_zeros() as usize / 8;
    let wide = usize::from(i32::from(exponent as i8) != exponent);
    let sign = (bits >> 57) as u8 & 0x40;
    // First octet and exponent right before the mantissa, all as one number.
    let exponent_bits = if wide == 1 { exponent as u16 } else { exponent as u16 & 0xff };
    let head = u32::from(0x80 | sign | wide as u8) << (8 + 8 * wide) | u32::from(exponent_bits);
    let whole = u128::from(head) << (8 * mantissa_len) | u128::from(mantissa);
    octets.copy_from_slice(&whole.to_be_bytes()[16 - MAX_LEN..]);
    (octets, 2 + wide + mantissa_len)
}

#[cold]
fn special(value: f64) -> ([u8; MAX_LEN], usize) {
    let mut octets = [0; MAX_LEN];
    octets[MAX_LEN - 1] = match value {
        _ if value.is_nan() => 0x42,
        f64::INFINITY => 0x40,
        f64::NEG_INFINITY => 0x41,
        _ if value.is_sign_negative() => 0x43,
        _ => return (octets, 0),
    };
    (octets, 1)
}

/// The value of contents octets, rounded to nearest where it has more bits than binary64; beyond its range it
/// is infinite, below it zero.
///
/// # Errors
/// The octets are no REAL; with `canonical`, or not in DER's form.
#[inline]
pub fn decode(contents: &[u8], canonical: bool) -> Result<f64, Problem> {
    // What [`encode`] gives: base 2, no scaling, one or two octets of exponent, seven of mantissa at most.
    if let [first @ (0x80 | 0x81 | 0xc0 | 0xc1), exponent, ref rest @ ..] = *contents
        && rest.len() <= 8
        && rest.len() > usize::from(first & 1)
    {
        let wide = first & 1 == 1;
        let low = rest[0];
        let mut number = rest.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
        let exponent = match wide {
            true => i32::from(i16::from_be_bytes([exponent, low])),
            false => i32::from(exponent as i8),
        };
        if wide {
            // The first of those octets was the exponent's.
            number &= u64::MAX >> (64 - 8 * (rest.len() - 1)).min(63);
        }
        let canonical_exponent = !wide || i32::from(exponent as i8) != exponent;
        let minimal = rest[usize::from(wide)] != 0 && number & 1 == 1 && canonical_exponent;
        if number < 1 << 53
            && number != 0
            && (minimal || !canonical)
            && (-1022..960).contains(&exponent)
        {
            // Both factors are exact, and so is their product.
            let scale = f64::from_bits(((exponent + 1023) as u64) << 52);
            let magnitude = number as f64 * scale;
            return Ok(if first & 0x40 == 0 { magnitude } else { -magnitude });
        }
    }
    decode_any(contents, canonical)
}

#[cold]
#[inline(never)]
fn decode_any(contents: &[u8], canonical: bool) -> Result<f64, Problem> {
    match *contents {
        [] => Ok(0.0),
        [0x40] => Ok(f64::INFINITY),
        [0x41] => Ok(f64::NEG_INFINITY),
        [0x42] => Ok(f64::NAN),
        [0x43] => Ok(-0.0),
        [first, ref rest @ ..] if first & 0x80 != 0 => binary(first, rest, canonical),
        [first, ref rest @ ..] if first & 0xc0 == 0 => decimal(first, rest, canonical),
        _ => Err(Problem::Contents("a REAL")),
    }
}

/// X.690, 8.5.7.
fn binary(first: u8, rest: &[u8], canonical: bool) -> Result<f64, Problem> {
    const BAD: Problem = Problem::Contents("a REAL in binary");
    let base_bits = match first >> 4 & 3 {
        0 => 1,
        1 => 3,
        2 => 4,
        _ => return Err(BAD),
    };
    let scale = i64::from(first >> 2 & 3);
    let (len, rest) = match (first & 3, rest) {
        (3, [len, rest @ ..]) => (usize::from(*len), rest),
        (3, []) => return Err(BAD),
        (len, rest) => (usize::from(len) + 1, rest),
    };
    let Some((exponent, mantissa)) = rest.split_at_checked(len) else { return Err(BAD) };
    if len == 0 || mantissa.is_empty() {
        return Err(BAD);
    }
    let needless = crate::types::integer::needless(exponent);
    let lead = mantissa.iter().take_while(|byte| **byte == 0).count();
    let significant = &mantissa[lead..];
    if canonical {
        if base_bits != 1 || scale != 0 || needless != 0 || (first & 3 == 3 && len < 4) {
            return Err(Problem::NotCanonical("base 2, no scale, the shortest exponent"));
        }
        if lead != 0 || mantissa[mantissa.len() - 1] & 1 == 0 {
            return Err(Problem::NotCanonical("an odd mantissa without leading zeros"));
        }
    }
    let sign = if first & 0x40 == 0 { 1.0 } else { -1.0 };
    if significant.is_empty() {
        return Ok(sign * 0.0);
    }
    // An exponent of more than six octets is beyond every range: only its sign matters.
    let exponent = &exponent[needless..];
    let negative = exponent[0] & 0x80 != 0;
    let power = match exponent.len() {
        0..=6 => exponent
            .iter()
            .fold(if negative { -1i64 } else { 0 }, |value, &byte| value << 8 | i64::from(byte)),
        _ if negative => -(1 << 47),
        _ => 1 << 47,
    };
    // The first 64 bits, the lowest set if any beyond them is: rounding then is right.
    let (head, tail) = significant.split_at(significant.len().min(8));
    let mut number = head.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    number |= u64::from(tail.iter().any(|byte| *byte != 0));
    let power = power * base_bits + scale + 8 * tail.len() as i64;
    Ok(sign * scaled(number, power))
}

/// `number` times two to `power`, rounded to nearest, ties to even. The lowest bit of a number with more than
/// 53 bits is sticky.
fn scaled(number: u64, power: i64) -> f64 {
    let shift = number.leading_zeros();
    let (number, power) = (number << shift, power - i64::from(shift));
    // The value is in [2^(power+63), 2^(power+64)).
    if power > 1023 - 63 {
        return f64::INFINITY;
    }
    // Bits that fall off: 11, and more where the result is subnormal.
    let drop = (-1074 - power).max(11);
    if drop > 64 {
        return 0.0;
    }
    let (kept, rest) = match drop {
        64 => (0, number),
        drop => (number >> drop, number << (64 - drop)),
    };
    let half = 1 << 63;
    let up = rest > half || (rest == half && kept & 1 == 1);
    let kept = kept + u64::from(up);
    // `kept` has 53 bits at most, or is two to the 53rd; a subnormal's are its representation.
    if drop > 11 || kept == 0 {
        return f64::from_bits(kept);
    }
    let biased = (power + 11 + 1075) as u64;
    // The implicit bit adds one to the exponent, and so does a carry out of the mantissa.
    f64::from_bits(((biased - 1) << 52) + kept)
}

/// X.690, 8.5.8: a number in characters (ISO 6093), forms NR1 to NR3.
fn decimal(first: u8, text: &[u8], canonical: bool) -> Result<f64, Problem> {
    const BAD: Problem = Problem::Contents("a REAL in decimal");
    /// Longer than any number that says something, and short enough for the stack.
    const MOST: usize = 400;
    if canonical && !canonical_decimal(first, text) {
        return Err(Problem::NotCanonical("a decimal in the form NR3 of X.690, 11.3.2"));
    }
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    let text = &text[spaces..];
    let has = |wanted: &[u8]| text.iter().any(|byte| wanted.contains(byte));
    let form_fits = match first & 0x3f {
        1 => !has(b".,eE"),
        2 => has(b".,") && !has(b"eE"),
        3 => has(b".,") && has(b"eE"),
        _ => false,
    };
    let known = |byte: &u8| byte.is_ascii_digit() || b"+-.,eE".contains(byte);
    if !form_fits || text.len() > MOST || !text.iter().all(known) {
        return Err(BAD);
    }
    let mut buffer = [0; MOST];
    let buffer = &mut buffer[..text.len()];
    for (to, from) in buffer.iter_mut().zip(text) {
        *to = if *from == b',' { b'.' } else { *from };
    }
    core::str::from_utf8(buffer).ok().and_then(|text| text.parse().ok()).ok_or(BAD)
}

/// X.690, 11.3.2: NR3, no space, no plus sign but in `E+0`, no zeros at either end of the mantissa, a full
/// stop behind it.
fn canonical_decimal(first: u8, text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let Some(stop) = digits.iter().position(|byte| *byte == b'.') else { return false };
    let (mantissa, exponent) = (&digits[..stop], &digits[stop + 1..]);
    let plain = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    let ends = |digits: &[u8]| match digits {
        [first, .., last] => *first != b'0' && *last != b'0',
        [only] => *only != b'0',
        [] => false,
    };
    let exponent_fits = match exponent {
        b"E+0" => true,
        [b'E', b'-', power @ ..] | [b'E', power @ ..] => {
            plain(power) && power.first().is_some_and(|first| *first != b'0')
        }
        _ => false,
    };
    first == 3 && plain(mantissa) && ends(mantissa) && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(value: f64) -> std::vec::Vec<u8> {
        let (octets, len) = encode(value);
        octets[MAX_LEN - len..].to_vec()
    }

    #[test]
    fn every_power_of_two_and_its_neighbours() {
        for biased in 0..0x7ffu64 {
            for fraction in [0, 1, 1 << 51, (1 << 52) - 1, 0x0123_4567_89ab_cdef & ((1 << 52) - 1)]
            {
                for sign in [0, 1 << 63] {
                    let value = f64::from_bits(sign | biased << 52 | fraction);
                    let contents = octets(value);
                    let back = decode(&contents, true).unwrap();
                    assert_eq!(back.to_bits(), value.to_bits(), "{value:e} {contents:x?}");
                    let slow = decode_any(&contents, true).unwrap();
                    assert_eq!(slow.to_bits(), value.to_bits(), "{value:e} {contents:x?}");
                }
            }
        }
    }
}
