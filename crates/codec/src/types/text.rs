//! The character strings of X.680, section 41, and the times that are such strings.
//!
//! They are kept as the bytes of their encoding, which have been checked: asking 26 bytes of each string
//! whether they are UTF-8 costs more than all the rest of decoding it.

use super::Octets;
use core::fmt;
use core::marker::PhantomData;

/// What a kind of character string may hold.
pub trait Alphabet {
    /// The universal tag of the type (X.680, table 1).
    const TAG: u32;
    /// The name of the type.
    const NAME: &'static str;
    /// The bytes are characters of it.
    fn holds(bytes: &[u8]) -> bool;
    /// The first byte that [`Alphabet::holds`] refuses.
    fn offender(bytes: &[u8]) -> Option<usize> {
        (0..bytes.len()).find(|&i| !Self::holds(&bytes[i..=i]))
    }
}

/// A character string of the alphabet `A`.
pub struct Text<'a, A>(Octets<'a>, PhantomData<fn() -> A>);

impl<'a, A: Alphabet> Text<'a, A> {
    /// From the bytes of its encoding; `None` when one of them is no character of the alphabet.
    #[inline]
    pub fn new(bytes: impl Into<Octets<'a>>) -> Option<Self> {
        let bytes = bytes.into();
        A::holds(&bytes).then_some(Text(bytes, PhantomData))
    }

    /// From bytes that are known to be right: for constants. They are not looked at.
    pub const fn from_constant(bytes: &'a [u8]) -> Self {
        Text(Octets::new(bytes), PhantomData)
    }

    /// From bytes that the alphabet holds.
    #[inline(always)]
    pub(crate) fn checked(bytes: Octets<'a>) -> Self {
        Text(bytes, PhantomData)
    }

    /// From bytes that were read at an offset.
    #[inline(always)]
    pub(crate) fn decoded(octets: Octets<'a>, offset: usize) -> Result<Self, crate::Error> {
        match A::holds(&octets) {
            true => Ok(Text::checked(octets)),
            false => Err(character::<A>(&octets).at(offset)),
        }
    }

    /// The bytes of its encoding.
    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a string, where its bytes are UTF-8: always so for NumericString, PrintableString, IA5String,
    /// VisibleString, UTF8String and the times.
    pub fn as_str(&self) -> Option<&str> {
        core::str::from_utf8(&self.0).ok()
    }

    /// The same, borrowing from nothing.
    #[cfg(feature = "alloc")]
    pub fn into_owned(self) -> Text<'static, A> {
        Text(self.0.into_owned(), PhantomData)
    }
}

impl<A> Clone for Text<'_, A> {
    fn clone(&self) -> Self {
        Text(self.0.clone(), PhantomData)
    }
}

impl<A> Default for Text<'_, A> {
    fn default() -> Self {
        Text(Octets::default(), PhantomData)
    }
}

impl<A> PartialEq for Text<'_, A> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<A> Eq for Text<'_, A> {}

impl<A> PartialOrd for Text<'_, A> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<A> Ord for Text<'_, A> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<A> core::hash::Hash for Text<'_, A> {
    fn hash<H: core::hash::Hasher>(&self, to: &mut H) {
        self.0.hash(to);
    }
}

impl<A: Alphabet> fmt::Debug for Text<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(\"{}\")", A::NAME, self.0.escape_ascii())
    }
}

impl<'a, A: Alphabet> TryFrom<&'a str> for Text<'a, A> {
    type Error = crate::Problem;
    fn try_from(text: &'a str) -> Result<Self, crate::Problem> {
        Text::new(text.as_bytes()).ok_or_else(|| character::<A>(text.as_bytes()))
    }
}

/// What is wrong with bytes that `A` does not hold.
#[cold]
pub(crate) fn character<A: Alphabet>(bytes: &[u8]) -> crate::Problem {
    match A::offender(bytes).and_then(|at| bytes.get(at)) {
        Some(&found) => crate::Problem::Character { found, type_name: A::NAME },
        None => crate::Problem::Contents(A::NAME),
    }
}

/// All bytes have the property. They are asked in blocks of sixteen, which LLVM makes vectors of; a block at
/// the end, or of a short string, has some of them twice.
#[inline(always)]
fn all(bytes: &[u8], property: impl Fn(u8) -> bool) -> bool {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        if bytes.len() <= 32 {
            let mut bad = 0;
            for (&first, &last) in first.iter().zip(last) {
                bad |= u8::from(!(property(first) & property(last)));
            }
            return bad == 0;
        }
        let (blocks, _) = bytes.as_chunks::<16>();
        let mut found = bad(last, &property);
        for block in blocks {
            found |= bad(block, &property);
        }
        return found == 0;
    }
    let mut block = [0; 16];
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        block[..8].copy_from_slice(first);
        block[8..].copy_from_slice(last);
        return bad(&block, &property) == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        for (at, half) in [first, last, first, last].into_iter().enumerate() {
            block[4 * at..4 * at + 4].copy_from_slice(half);
        }
        return bad(&block, &property) == 0;
    }
    bytes.iter().all(|&byte| property(byte))
}

/// What a closure says, its argument's type being known.
#[inline(always)]
fn ask(holds: impl Fn(&[u8]) -> bool, bytes: &[u8]) -> bool {
    holds(bytes)
}

/// Not zero when one of the bytes does not have the property.
#[inline(always)]
fn bad(block: &[u8; 16], property: impl Fn(u8) -> bool) -> u8 {
    let mut bad = 0;
    for &byte in block {
        bad |= u8::from(!property(byte));
    }
    bad
}

/// Declares an alphabet and its string.
macro_rules! alphabets {
    ($($(#[$doc:meta])* $alphabet:ident, $string:ident, $tag:literal, $name:literal, $holds:expr;)*) => {$(
        #[doc = concat!("The alphabet of ", $name, ".")]
        #[derive(Clone, Copy, Debug)]
        pub enum $alphabet {}

        impl Alphabet for $alphabet {
            const TAG: u32 = $tag;
            const NAME: &'static str = $name;
            #[inline(always)]
            fn holds(bytes: &[u8]) -> bool {
                ask($holds, bytes)
            }
        }

        $(#[$doc])*
        pub type $string<'a> = Text<'a, $alphabet>;
    )*};
}

/// The characters that most strings are of, which are asked for first.
#[inline(always)]
const fn usual(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    letter | (byte.wrapping_sub(b'+') < 16) | (byte == b' ')
}

#[cold]
#[inline(never)]
fn all_printable(bytes: &[u8]) -> bool {
    all(bytes, printable)
}

const fn printable(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    // The plus sign to the colon, and the apostrophe to the closing parenthesis.
    let middle = byte.wrapping_sub(b'+') < 16;
    let quotes = byte.wrapping_sub(b'\'') < 3;
    letter | middle | quotes | (byte == b' ') | (byte == b'=') | (byte == b'?')
}

alphabets! {
    /// UTF8String.
    Utf8, Utf8String, 12, "UTF8String", |bytes| core::str::from_utf8(bytes).is_ok();
    /// NumericString: digits and space.
    Numeric, NumericString, 18, "NumericString",
        |bytes| all(bytes, |byte| (byte.wrapping_sub(b'0') < 10) | (byte == b' '));
    /// PrintableString: letters, digits, space and `'()+,-./:=?`.
    Printable, PrintableString, 19, "PrintableString",
        |bytes| all(bytes, usual) || all_printable(bytes);
    /// TeletexString (T61String), whose sets are switched by escape sequences: any bytes.
    Teletex, TeletexString, 20, "TeletexString", |_| true;
    /// VideotexString: any bytes.
    Videotex, VideotexString, 21, "VideotexString", |_| true;
    /// IA5String: ASCII.
    Ia5, Ia5String, 22, "IA5String", |bytes| all(bytes, |byte| byte < 0x80);
    /// UTCTime: two digits of the year; seconds and zone as X.680, section 47 allows.
    Utc, UtcTime, 23, "UTCTime", |bytes| time(bytes, 2);
    /// GeneralizedTime: four digits of the year; fractions and zone as X.680, section 46 allows.
    Generalized, GeneralizedTime, 24, "GeneralizedTime", |bytes| time(bytes, 4);
    /// GraphicString: any bytes.
    Graphic, GraphicString, 25, "GraphicString", |_| true;
    /// VisibleString (ISO646String): printing ASCII and space.
    Visible, VisibleString, 26, "VisibleString", |bytes| all(bytes, |byte| byte.wrapping_sub(0x20) < 0x5f);
    /// GeneralString: any bytes.
    General, GeneralString, 27, "GeneralString", |_| true;
    /// UniversalString: four bytes a character.
    Universal, UniversalString, 28, "UniversalString", |bytes| {
        let (characters, rest) = bytes.as_chunks::<4>();
        rest.is_empty() && characters.iter().all(|c| char::from_u32(u32::from_be_bytes(*c)).is_some())
    };
    /// BMPString: two bytes a character.
    Bmp, BmpString, 30, "BMPString", |bytes| bytes.len().is_multiple_of(2);
    /// ObjectDescriptor: a GraphicString.
    Descriptor, ObjectDescriptor, 7, "ObjectDescriptor", |_| true;
}

/// Digits in pairs behind a year of `year` digits: month to second, as many as are there; then a fraction
/// of a GeneralizedTime, then the zone. Fields are within their ranges; DER's form is [`canonical_time`].
fn time(bytes: &[u8], year: usize) -> bool {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let least = if year == 2 { year + 8 } else { year + 6 };
    if digits < least || digits > year + 10 || !(digits - year).is_multiple_of(2) {
        return false;
    }
    let (date, mut rest) = bytes.split_at(digits);
    let (pairs, _) = date[year..].as_chunks::<2>();
    const RANGES: [(u8, u8); 5] = [(1, 12), (1, 31), (0, 23), (0, 59), (0, 60)];
    let within = |(pair, (least, most)): (&[u8; 2], (u8, u8))| {
        let value = (pair[0] - b'0') * 10 + (pair[1] - b'0');
        (least..=most).contains(&value)
    };
    if !pairs.iter().zip(RANGES).all(within) {
        return false;
    }
    if let (4, [b'.' | b',', fraction @ ..]) = (year, rest) {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    match rest {
        b"Z" => true,
        [] => year == 4,
        [b'+' | b'-', zone @ ..] => {
            zone.iter().all(u8::is_ascii_digit)
                && (zone.len() == 4 || (year == 4 && zone.len() == 2))
        }
        _ => false,
    }
}

/// How a time that [`canonical_time`] refuses should be.
pub const NOT_CANONICAL_TIME: &str =
    "expected a time with seconds, in UTC (`Z`), without zeros at the end of a fraction";

/// Returns `true` unless the bytes are a UTCTime or GeneralizedTime in another form than DER and COER have (X.690, 11.7
/// and 11.8): with seconds, in UTC, and no fraction that ends in zero.
pub fn canonical_time<A: Alphabet>(bytes: &[u8]) -> bool {
    let year = match A::TAG {
        23 => 2,
        24 => 4,
        _ => return true,
    };
    let [digits @ .., b'Z'] = bytes else { return false };
    match digits.split_at_checked(year + 10) {
        Some((_, [])) => true,
        Some((_, [b'.', .., last])) => *last != b'0',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_is_what_the_table_says() {
        let table = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '()+,-./:=?";
        for byte in 0..=255u8 {
            assert_eq!(printable(byte), table.as_bytes().contains(&byte), "{byte:#x}");
            for at in [0, 15, 16, 20] {
                let mut text = [b'a'; 21];
                text[at] = byte;
                assert_eq!(Printable::holds(&text), printable(byte), "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn times() {
        for good in ["910517103015Z", "9105171030Z", "9105171030+0100", "910517103015-0500"] {
            assert!(Utc::holds(good.as_bytes()), "{good}");
        }
        for bad in
            ["", "91051710", "911317103015Z", "910517103015", "910517103015Z0", "910517253015Z"]
        {
            assert!(!Utc::holds(bad.as_bytes()), "{bad}");
        }
        for good in ["1991051710", "19910517103015.25Z", "19910517103015,2", "1991051710+01"] {
            assert!(Generalized::holds(good.as_bytes()), "{good}");
        }
        assert!(!Generalized::holds(b"19910517103015."));
        assert!(canonical_time::<Generalized>(b"19910517103015.25Z"));
        assert!(!canonical_time::<Generalized>(b"19910517103015.20Z"));
        assert!(!canonical_time::<Generalized>(b"19910517103015."));
        assert!(!canonical_time::<Utc>(b"9105171030Z"));
        assert!(canonical_time::<Utc>(b"910517103015Z"));
    }
}
