//! The useful time types (X.680, 38.4): DATE, TIME-OF-DAY and DATE-TIME.
//!
//! A value is kept as its notation, which has a fixed length, so values are ordered as their notations are.

use crate::Problem;
use core::fmt;

/// A time type.
pub trait Moment: Copy + PartialEq {
    /// The universal tag of the type (X.680, table 1).
    const TAG: u32;
    /// The name of the type.
    const NAME: &'static str;
    /// The notation: `0` stands for a digit, another character for itself.
    const FORM: &'static [u8];

    /// From notation; `None` if it is not a value of the type.
    fn new(notation: &[u8]) -> Option<Self>;

    /// The notation.
    fn as_bytes(&self) -> &[u8];
}

/// More digits than these no notation has.
pub(crate) const DIGITS_MAX: usize = 14;

/// Longer notation than this there is not.
const LEN_MAX: usize = 19;

/// The digits of a value, and their number: its contents octets in BER (X.690, 8.26).
pub(crate) fn digits_of<M: Moment>(moment: &M) -> ([u8; DIGITS_MAX], usize) {
    let (mut digits, mut len) = ([0; DIGITS_MAX], 0);
    for digit in moment.as_bytes().iter().filter(|c| c.is_ascii_digit()) {
        digits[len] = *digit;
        len += 1;
    }
    (digits, len)
}

/// The value of digits that were read at an offset.
pub(crate) fn of_digits<M: Moment>(digits: &[u8], offset: usize) -> Result<M, crate::Error> {
    let (mut notation, mut rest) = ([0; LEN_MAX], digits.iter());
    for (to, form) in notation.iter_mut().zip(M::FORM) {
        *to = if *form == b'0' { rest.next().copied().unwrap_or(0) } else { *form };
    }
    match (rest.next(), M::new(&notation[..M::FORM.len()])) {
        (None, Some(moment)) => Ok(moment),
        _ => Err(Problem::Contents(M::NAME).at(offset)),
    }
}

/// The value of notation that was read at an offset.
pub(crate) fn of_notation<M: Moment>(notation: &[u8], offset: usize) -> Result<M, crate::Error> {
    M::new(notation).ok_or_else(|| Problem::Contents(M::NAME).at(offset))
}

/// Returns `true` if digits stand where `form` has `0`, and its own characters elsewhere.
const fn fits(notation: &[u8], form: &[u8]) -> bool {
    if notation.len() != form.len() {
        return false;
    }
    let mut at = 0;
    while at < form.len() {
        let is_right = match form[at] {
            b'0' => notation[at].is_ascii_digit(),
            other => notation[at] == other,
        };
        if !is_right {
            return false;
        }
        at += 1;
    }
    true
}

/// The number that some digits of a notation are.
const fn number(notation: &[u8], from: usize, len: usize) -> u16 {
    let (mut value, mut at) = (0, from);
    while at < from + len {
        value = 10 * value + (notation[at] - b'0') as u16;
        at += 1;
    }
    value
}

/// Days of a month of the Gregorian calendar.
const fn days(year: u16, month: u16) -> u16 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The years of `Year=Basic` (X.680, 38.4.1 and table 6).
const YEAR_MIN: u16 = 1582;

const fn is_date(notation: &[u8]) -> bool {
    if !fits(notation, Date::FORM) {
        return false;
    }
    let (year, month) = (number(notation, 0, 4), number(notation, 5, 2));
    let day = number(notation, 8, 2);
    year >= YEAR_MIN && month >= 1 && month <= 12 && day >= 1 && day <= days(year, month)
}

/// A day ends with 24:00:00, and a minute may have a leap second.
const fn is_time(notation: &[u8]) -> bool {
    if !fits(notation, TimeOfDay::FORM) {
        return false;
    }
    let (hour, minute) = (number(notation, 0, 2), number(notation, 3, 2));
    let second = number(notation, 6, 2);
    (hour < 24 && minute < 60 && second <= 60) || (hour == 24 && minute == 0 && second == 0)
}

const fn is_date_time(notation: &[u8]) -> bool {
    if !fits(notation, DateTime::FORM) {
        return false;
    }
    let (date, time) = notation.split_at(11);
    is_date(date.split_at(10).0) && is_time(time)
}

/// Two digits.
fn two(value: u8) -> [u8; 2] {
    [b'0' + value / 10, b'0' + value % 10]
}

macro_rules! moments {
    ($($(#[$doc:meta])* $name:ident, $len:literal, $tag:literal, $asn:literal, $form:literal, $holds:path, $blank:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            /// From notation that is known to be right: for constants.
            ///
            /// # Panics
            /// It is not a value of the type.
            pub const fn from_constant(notation: &[u8; $len]) -> $name {
                assert!($holds(notation), concat!("expected a ", $asn));
                $name(*notation)
            }

            /// The notation.
            pub fn as_str(&self) -> &str {
                core::str::from_utf8(&self.0).unwrap_or_default()
            }
        }

        impl Moment for $name {
            const TAG: u32 = $tag;
            const NAME: &'static str = concat!("a ", $asn);
            const FORM: &'static [u8] = $form;

            fn new(notation: &[u8]) -> Option<$name> {
                if !$holds(notation) {
                    return None;
                }
                notation.try_into().ok().map($name)
            }

            fn as_bytes(&self) -> &[u8] {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Problem;
            fn try_from(notation: &str) -> Result<$name, Problem> {
                $name::new(notation.as_bytes()).ok_or(Problem::Contents($name::NAME))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", $asn, self.as_str())
            }
        }

        impl crate::Blank for $name {
            #[inline(always)]
            fn blank() -> $name {
                $name(*$blank)
            }
        }
    )*};
}

moments! {
    /// DATE: a day of the years 1582 to 9999, `2024-02-29`.
    Date, 10, 31, "DATE", b"0000-00-00", is_date, b"1582-01-01";
    /// TIME-OF-DAY: local time to the second, `23:59:58`.
    TimeOfDay, 8, 32, "TIME-OF-DAY", b"00:00:00", is_time, b"00:00:00";
    /// DATE-TIME: both, `2024-02-29T23:59:58`.
    DateTime, 19, 33, "DATE-TIME", b"0000-00-00T00:00:00", is_date_time, b"1582-01-01T00:00:00";
}

impl Date {
    /// A day; `None` if there is no such day, or the year is not from 1582 to 9999.
    pub fn of(year: u16, month: u8, day: u8) -> Option<Date> {
        if year > 9999 || month > 12 || day > 31 {
            return None;
        }
        let ([a, b], [c, d]) = (two((year / 100) as u8), two((year % 100) as u8));
        let ([e, f], [g, h]) = (two(month), two(day));
        Date::new(&[a, b, c, d, b'-', e, f, b'-', g, h])
    }

    /// The year.
    pub fn year(&self) -> u16 {
        number(&self.0, 0, 4)
    }

    /// The month, from one.
    pub fn month(&self) -> u8 {
        number(&self.0, 5, 2) as u8
    }

    /// The day of the month, from one.
    pub fn day(&self) -> u8 {
        number(&self.0, 8, 2) as u8
    }
}

impl TimeOfDay {
    /// A time; `None` if no day has it.
    pub fn of(hour: u8, minute: u8, second: u8) -> Option<TimeOfDay> {
        if hour > 24 || minute > 59 || second > 60 {
            return None;
        }
        let ([a, b], [c, d], [e, f]) = (two(hour), two(minute), two(second));
        TimeOfDay::new(&[a, b, b':', c, d, b':', e, f])
    }

    /// The hour: 24 only at the end of a day.
    pub fn hour(&self) -> u8 {
        number(&self.0, 0, 2) as u8
    }

    /// The minute.
    pub fn minute(&self) -> u8 {
        number(&self.0, 3, 2) as u8
    }

    /// The second: 60 is a leap second.
    pub fn second(&self) -> u8 {
        number(&self.0, 6, 2) as u8
    }
}

impl DateTime {
    /// A time of a day.
    pub fn of(date: Date, time: TimeOfDay) -> DateTime {
        let mut notation = [b'T'; 19];
        notation[..10].copy_from_slice(&date.0);
        notation[11..].copy_from_slice(&time.0);
        DateTime(notation)
    }

    /// The day.
    pub fn date(&self) -> Date {
        self.0.first_chunk().copied().map_or(Date(*b"1582-01-01"), Date)
    }

    /// The time of the day.
    pub fn time(&self) -> TimeOfDay {
        self.0.last_chunk().copied().map_or(TimeOfDay(*b"00:00:00"), TimeOfDay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        for good in ["1582-01-01", "2024-02-29", "2000-02-29", "9999-12-31", "2023-04-30"] {
            let date = Date::try_from(good).expect(good);
            assert_eq!(Date::of(date.year(), date.month(), date.day()), Some(date), "{good}");
        }
        let wrong = ["1581-12-31", "2023-02-29", "1900-02-29", "2024-13-01", "2024-00-01"];
        let more =
            ["2024-04-31", "2024-01-00", "20240229", "2024-2-29", "2024-02-29 ", "nodate", ""];
        for wrong in wrong.into_iter().chain(more) {
            assert!(Date::try_from(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Date::of(2024, 2, 30), None);
        assert_eq!(Date::of(10_000, 1, 1), None);
    }

    #[test]
    fn times_are_of_a_day() {
        for good in ["00:00:00", "23:59:60", "24:00:00"] {
            let time = TimeOfDay::try_from(good).expect(good);
            let again = TimeOfDay::of(time.hour(), time.minute(), time.second());
            assert_eq!(again, Some(time), "{good}");
        }
        for wrong in ["24:00:01", "23:60:00", "23:59:61", "235958", "23:59", "23:59:58Z"] {
            assert!(TimeOfDay::try_from(wrong).is_err(), "{wrong}");
        }
        let both = DateTime::try_from("2024-02-29T23:59:58").expect("a time");
        assert_eq!(DateTime::of(both.date(), both.time()), both);
        assert_eq!((both.date().as_str(), both.time().as_str()), ("2024-02-29", "23:59:58"));
        assert!(DateTime::try_from("2024-02-29 23:59:58").is_err());
        assert!(DateTime::try_from("2023-02-29T23:59:58").is_err());
    }
}
