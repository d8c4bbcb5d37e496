//! Tags: class and number (X.690, 8.1.2).

use core::fmt;

/// Class and number of a tag. The class is in the two highest bits, so that tags are ordered as DER orders
/// the components of a SET (X.680, 8.6): universal, application, context-specific, private; then by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(u32);

/// The highest tag number that there may be here.
pub const MAX_NUMBER: u32 = (1 << 30) - 1;

impl Tag {
    /// BOOLEAN.
    pub const BOOLEAN: Tag = Tag::universal(1);
    /// INTEGER.
    pub const INTEGER: Tag = Tag::universal(2);
    /// BIT STRING.
    pub const BIT_STRING: Tag = Tag::universal(3);
    /// OCTET STRING.
    pub const OCTET_STRING: Tag = Tag::universal(4);
    /// NULL.
    pub const NULL: Tag = Tag::universal(5);
    /// OBJECT IDENTIFIER.
    pub const OID: Tag = Tag::universal(6);
    /// EXTERNAL and INSTANCE OF.
    pub const EXTERNAL: Tag = Tag::universal(8);
    /// REAL.
    pub const REAL: Tag = Tag::universal(9);
    /// ENUMERATED.
    pub const ENUMERATED: Tag = Tag::universal(10);
    /// RELATIVE-OID.
    pub const RELATIVE_OID: Tag = Tag::universal(13);
    /// SEQUENCE and SEQUENCE OF.
    pub const SEQUENCE: Tag = Tag::universal(16);
    /// SET and SET OF.
    pub const SET: Tag = Tag::universal(17);

    #[inline(always)]
    const fn new(class: u32, number: u32) -> Tag {
        assert!(number <= MAX_NUMBER, "a tag number of at most 30 bits");
        Tag(class << 30 | number)
    }

    /// `[UNIVERSAL number]`.
    ///
    /// # Panics
    /// This and the other three: when the number is larger than [`MAX_NUMBER`].
    #[inline(always)]
    pub const fn universal(number: u32) -> Tag {
        Tag::new(0, number)
    }

    /// `[APPLICATION number]`.
    #[inline(always)]
    pub const fn application(number: u32) -> Tag {
        Tag::new(1, number)
    }

    /// `[number]`.
    #[inline(always)]
    pub const fn context(number: u32) -> Tag {
        Tag::new(2, number)
    }

    /// `[PRIVATE number]`.
    #[inline(always)]
    pub const fn private(number: u32) -> Tag {
        Tag::new(3, number)
    }

    /// Universal 0, application 1, context-specific 2, private 3.
    #[inline(always)]
    pub const fn class(self) -> u8 {
        (self.0 >> 30) as u8
    }

    /// The number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0 & MAX_NUMBER
    }

    /// From a class of 0 to 3 and a number; `None` when it is larger than [`MAX_NUMBER`].
    pub(crate) const fn from_parts(class: u8, number: u32) -> Option<Tag> {
        if number > MAX_NUMBER { None } else { Some(Tag((class as u32) << 30 | number)) }
    }

    /// The tag of an identifier octet that is not the first of several.
    #[inline(always)]
    pub(crate) const fn of_octet(identifier: u8) -> Tag {
        Tag((identifier as u32 & 0xc0) << 24 | identifier as u32 & 0x1f)
    }

    /// The identifier octet without the bit of the form, if there is but one.
    #[inline(always)]
    pub(crate) const fn single(self) -> Option<u8> {
        if self.number() < 31 { Some(self.class() << 6 | self.number() as u8) } else { None }
    }

    /// The identifier octets, at the end of the array, and how many they are.
    #[inline]
    pub(crate) const fn octets(self, constructed: bool) -> ([u8; 6], usize) {
        let form = if constructed { 0x20 } else { 0 };
        let mut octets = [0; 6];
        if let Some(single) = self.single() {
            octets[5] = single | form;
            return (octets, 1);
        }
        let (mut number, mut len) = (self.number(), 0);
        while number > 0 || len == 0 {
            let more = if len == 0 { 0 } else { 0x80 };
            octets[5 - len] = (number & 0x7f) as u8 | more;
            number >>= 7;
            len += 1;
        }
        octets[5 - len] = self.class() << 6 | 31 | form;
        (octets, len + 1)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = ["UNIVERSAL ", "APPLICATION ", "", "PRIVATE "][usize::from(self.class())];
        write!(f, "[{class}{}]", self.number())
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
