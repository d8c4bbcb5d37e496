//! REAL's contents octets as DER has them (X.690 clause 11.3), whatever BER had, every digit kept.

use crate::number;

/// Exponents beyond so many digits are not made shorter: what they say no machine holds.
const EXPONENT_DIGITS_MAX: usize = 15;

/// The contents in DER's form; nothing where they are no REAL, or of an exponent that is too long.
pub fn canonical(contents: &[u8]) -> Option<Vec<u8>> {
    match *contents {
        [] => Some(Vec::new()),
        [first, ref rest @ ..] if first & 0x80 != 0 => binary(first, rest),
        [first @ 1..=3, ref text @ ..] => decimal(first, text),
        [0x40..=0x43] => Some(contents.to_vec()),
        _ => None,
    }
}

/// Base 2, no scale, an odd mantissa, the shortest exponent (11.3.1).
fn binary(first: u8, rest: &[u8]) -> Option<Vec<u8>> {
    let base_bits = [1, 3, 4].get(usize::from(first >> 4 & 3))?;
    let (len, rest) = match (first & 3, rest) {
        (3, [len, rest @ ..]) => (usize::from(*len), rest),
        (3, []) => return None,
        (len, rest) => (usize::from(len) + 1, rest),
    };
    let (exponent, mantissa) = rest.split_at_checked(len)?;
    let exponent = number::to_i128(exponent).filter(|n| n.unsigned_abs() < 1 << 100)?;
    let zeros = mantissa.iter().rev().take_while(|b| **b == 0).count();
    let mantissa = &mantissa[..mantissa.len() - zeros];
    let Some(last) = mantissa.last() else {
        // No number but zero, which has a sign in a form of its own.
        return Some(if first & 0x40 == 0 { Vec::new() } else { vec![0x43] });
    };
    let shift = last.trailing_zeros();
    let exponent =
        exponent * base_bits + i128::from(first >> 2 & 3) + 8 * zeros as i128 + i128::from(shift);
    let mut odd = Vec::with_capacity(mantissa.len());
    let mut above = 0;
    for &byte in mantissa {
        odd.push((u16::from(above) << 8 | u16::from(byte)).wrapping_shr(shift) as u8);
        above = byte;
    }
    let lead = odd.iter().take_while(|b| **b == 0).count();
    let exponent = number::of(exponent);
    let mut out = vec![0x80 | first & 0x40];
    match exponent.len() {
        len @ 1..=3 => out[0] |= len as u8 - 1,
        len => {
            out[0] |= 3;
            out.push(len as u8);
        }
    }
    out.extend(exponent);
    out.extend(&odd[lead..]);
    Some(out)
}

/// `-digits.E-digits`, the digits of the mantissa without zeros at their ends (11.3.2).
fn decimal(form: u8, text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?.trim_start_matches(' ').replace(',', ".");
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let (mantissa, exponent) = match text.split_once(['E', 'e']) {
        Some((mantissa, exponent)) if form == 3 => (mantissa, exponent),
        None if form < 3 => (text, "0"),
        _ => return None,
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some(parts) if form > 1 => parts,
        None if form == 1 => (mantissa, ""),
        _ => return None,
    };
    let (below, power) = match exponent.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || power.is_empty() || !are_digits(&digits) || !are_digits(power) {
        return None;
    }
    let shown = digits.trim_end_matches('0');
    if shown.is_empty() {
        return Some(if sign.is_empty() { Vec::new() } else { vec![0x43] });
    }
    let power = power.trim_start_matches('0');
    if power.len() > EXPONENT_DIGITS_MAX {
        return None;
    }
    let power = power.parse::<i64>().unwrap_or(0) * if below { -1 } else { 1 };
    let power = power + (digits.len() - shown.len()) as i64 - fraction.len() as i64;
    let plus = if power == 0 { "+" } else { "" };
    let shown = shown.trim_start_matches('0');
    Some(format!("\x03{sign}{shown}.E{plus}{power}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_codec::types::real::decode;

    #[test]
    fn each_is_the_same_number_in_the_form_of_der() {
        for (of, der) in [
            (&b""[..], &b""[..]),
            (b"\x42", b"\x42"),
            (b"\x80\0\x04", b"\x80\x02\x01"),
            (b"\xc0\0\x04", b"\xc0\x02\x01"),
            (b"\x80\0\0\x06\0", b"\x80\x09\x03"),
            // 5 * 2^1 * 16^-1, and 3 * 2^3 * 8^200.
            (b"\xa4\xff\x05", b"\x80\xfd\x05"),
            (b"\x9d\0\xc8\x03", b"\x81\x02\x5b\x03"),
            (b"\x83\x04\0\0\0\x01\x03", b"\x80\x01\x03"),
            (b"\x83\x04\x01\0\0\0\x01", b"\x83\x04\x01\0\0\0\x01"),
            (b"\x80\x05\0", b""),
            (b"\xc0\x05\0", b"\x43"),
            (b"\x01 -0120", b"\x03-12.E1"),
            (b"\x02+3,1250", b"\x033125.E-3"),
            (b"\x0312.0e+2", b"\x0312.E2"),
            (b"\x0312.5E1", b"\x03125.E+0"),
            (b"\x02.000", b""),
        ] {
            assert_eq!(canonical(of).as_deref(), Some(der), "{of:x?}");
            let bits = |contents, is_der| decode(contents, is_der).map(f64::to_bits);
            assert_eq!(bits(of, false), bits(der, true), "{of:x?}");
        }
        for wrong in [&b"\x80"[..], b"\xb0\0\x01", b"\x83\0\x01", b"\x01", b"\x011.0", b"\x0312"] {
            assert!(decode(wrong, false).is_err(), "{wrong:x?}");
        }
        for wrong in [&b"\x80"[..], b"\xb0\0\x01", b"\x01", b"\x011.0", b"\x0312", b"\x031.Ex"] {
            assert_eq!(canonical(wrong), None, "{wrong:x?}");
        }
        // More digits than a number of the machine has stay.
        let long = b"\x80\0\x01\0\0\0\0\0\0\0\0\x01";
        assert_eq!(canonical(long).as_deref(), Some(&long[..]));
    }
}
