//! Character strings as Unicode, and back; times.

use fusewire_asn1::ast::Simple;
use fusewire_codec::types::NOT_CANONICAL_TIME;

pub use fusewire_codec::types::characters::{Coding, decode, encode, is_unsafe};

use crate::error::Error;

/// The coding of a type of character strings.
pub fn coding(simple: Simple) -> Coding {
    match simple {
        Simple::TeletexString
        | Simple::VideotexString
        | Simple::GraphicString
        | Simple::GeneralString
        | Simple::ObjectDescriptor => Coding::Latin,
        Simple::BmpString => Coding::Two,
        Simple::UniversalString => Coding::Four,
        _ => Coding::Utf8,
    }
}

/// The characters of a string whose type has that tag of class UNIVERSAL.
pub fn of_tag(tag: u64, bytes: &[u8]) -> Option<String> {
    decode(Coding::of_tag(tag), bytes)
}

/// Whether bytes are a string of the type.
pub fn holds(simple: Simple, bytes: &[u8]) -> bool {
    use fusewire_codec::types::{self as of, Moment};
    match simple {
        Simple::Utf8String | Simple::OidIri | Simple::RelativeOidIri => {
            of::Utf8String::new(bytes).is_some()
        }
        Simple::NumericString => of::NumericString::new(bytes).is_some(),
        Simple::PrintableString => of::PrintableString::new(bytes).is_some(),
        Simple::Ia5String => of::Ia5String::new(bytes).is_some(),
        Simple::UtcTime => of::UtcTime::new(bytes).is_some(),
        Simple::GeneralizedTime => of::GeneralizedTime::new(bytes).is_some(),
        Simple::Date => of::Date::new(bytes).is_some(),
        Simple::TimeOfDay => of::TimeOfDay::new(bytes).is_some(),
        Simple::DateTime => of::DateTime::new(bytes).is_some(),
        Simple::UniversalString => of::UniversalString::new(bytes).is_some(),
        Simple::BmpString => of::BmpString::new(bytes).is_some(),
        Simple::TeletexString
        | Simple::VideotexString
        | Simple::GraphicString
        | Simple::GeneralString
        | Simple::ObjectDescriptor => true,
        _ => of::VisibleString::new(bytes).is_some(),
    }
}

/// Checks that bytes are a string of the type.
///
/// # Errors
/// They are not: the error shows what a value of the type looks like, and what was found.
pub fn check(simple: Simple, bytes: &[u8]) -> Result<(), Error> {
    if holds(simple, bytes) {
        return Ok(());
    }
    let expected = match simple {
        Simple::UtcTime => "a UTCTime such as 240229235958Z",
        Simple::GeneralizedTime => "a GeneralizedTime such as 20240229235958Z",
        Simple::Date => "a DATE such as 2024-02-29, of a year from 1582 to 9999",
        Simple::TimeOfDay => "a TIME-OF-DAY such as 23:59:58",
        Simple::DateTime => "a DATE-TIME such as 2024-02-29T23:59:58",
        Simple::NumericString => "digits and spaces of a NumericString",
        Simple::PrintableString => "letters, digits, spaces and '()+,-./:=? of a PrintableString",
        Simple::Ia5String => "ASCII characters of an IA5String",
        Simple::Utf8String | Simple::OidIri | Simple::RelativeOidIri => "UTF-8",
        Simple::UniversalString => "four bytes for each character of a UniversalString",
        Simple::BmpString => "two bytes for each character of a BMPString",
        _ => "printing ASCII characters and spaces of a VisibleString",
    };
    let found: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
    Err(Error::of_value(format!("expected {expected}, found {found:?}")))
}

/// Checks that a time is in the one form that DER and COER have for it (X.690, 11.7 and 11.8).
///
/// # Errors
/// It is not.
pub fn check_canonical(simple: Simple, bytes: &[u8]) -> Result<(), Error> {
    use fusewire_codec::types::{Generalized, Utc, canonical_time};
    let is_canonical = match simple {
        Simple::UtcTime => canonical_time::<Utc>(bytes),
        Simple::GeneralizedTime => canonical_time::<Generalized>(bytes),
        _ => true,
    };
    match is_canonical {
        true => Ok(()),
        false => {
            let found = String::from_utf8_lossy(bytes).into_owned();
            let message = format!("not canonical: {NOT_CANONICAL_TIME}, found {found:?}");
            Err(Error::of_value(message))
        }
    }
}

/// A UTCTime (two digits of the year) or GeneralizedTime (four) as ISO 8601 writes it; nothing where it is
/// none. Two digits are a year of 1950 to 2049 (RFC 5280, 4.1.2.5.1).
pub fn iso_time(bytes: &[u8], year_digits: usize) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let is_whole = match year_digits {
        2 => matches!(digits, 10 | 12) && !rest.is_empty() && !rest.starts_with(['.', ',']),
        _ => matches!(digits, 10 | 12 | 14),
    };
    if !is_whole {
        return None;
    }
    let (year, rest_digits) = number.split_at(year_digits);
    let century = match year_digits {
        2 if year >= "50" => "19",
        2 => "20",
        _ => "",
    };
    let year = format!("{century}{year}");
    let pairs: Vec<&str> =
        (0..rest_digits.len()).step_by(2).map(|n| &rest_digits[n..n + 2]).collect();
    let ranges = [("01", "12"), ("01", "31"), ("00", "23"), ("00", "59"), ("00", "60")];
    if !pairs.iter().zip(ranges).all(|(p, (low, high))| *p >= low && *p <= high) {
        return None;
    }
    let mut iso = format!("{year}-{}-{}T{}", pairs[0], pairs[1], pairs[2]);
    pairs[3..].iter().for_each(|p| iso += &format!(":{p}"));
    let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
    iso += &rest[..rest.len() - zone.len()].replace(',', ".");
    let offset = zone.trim_start_matches(['+', '-']);
    match zone {
        "" | "Z" => iso += zone,
        _ if offset.len() + 1 == zone.len()
            && matches!(offset.len(), 2 | 4)
            && offset.bytes().all(|b| b.is_ascii_digit()) =>
        {
            iso += zone;
            if offset.len() == 4 {
                iso.insert(iso.len() - 2, ':');
            }
        }
        _ => return None,
    }
    Some(iso)
}
