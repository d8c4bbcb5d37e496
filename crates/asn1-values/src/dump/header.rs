//! Identifier and length octets (X.690, 8.1.2 and 8.1.3), with the form that they were in.

use super::{Class, Error, Problem};

/// Identifier and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The tag's class.
    pub class: Class,
    /// The tag's number.
    pub number: u64,
    /// The contents are encodings.
    pub constructed: bool,
    /// The length.
    pub length: Length,
    /// Octets of both.
    pub octets: usize,
}

/// A length, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// In one octet.
    Short(usize),
    /// In that many octets behind the first.
    Long(usize, u8),
    /// Up to the end-of-contents octets.
    Indefinite,
}

impl Length {
    /// Octets of the contents, where they are said.
    pub fn definite(self) -> Option<usize> {
        match self {
            Length::Short(len) | Length::Long(len, _) => Some(len),
            Length::Indefinite => None,
        }
    }

    /// Whether fewer octets would have said it.
    pub fn is_padded(self) -> bool {
        match self {
            Length::Long(len, octets) => {
                let needed = (usize::BITS - len.leading_zeros()).div_ceil(8) as u8;
                len < 0x80 || octets > needed
            }
            _ => false,
        }
    }

    /// The form's word.
    pub fn form(self) -> &'static str {
        match self {
            Length::Short(_) => "short",
            Length::Long(..) => "long",
            Length::Indefinite => "indefinite",
        }
    }
}

impl Header {
    /// End-of-contents octets.
    pub fn is_end(&self) -> bool {
        let tag = (self.class, self.number, self.constructed);
        tag == (Class::Universal, 0, false) && self.length == Length::Short(0) && self.octets == 2
    }
}

/// The header at the start of `rest`, which is at `offset` of the file; what it announces is there.
pub fn read(rest: &[u8], offset: usize) -> Result<Header, Error> {
    let truncated = |needed| Error::at(offset, Problem::Truncated { needed, left: rest.len() });
    let &first = rest.first().ok_or_else(|| truncated(2))?;
    let (mut number, mut at) = (u64::from(first & 0x1f), 1);
    if number == 0x1f {
        number = 0;
        loop {
            let &octet = rest.get(at).ok_or_else(|| truncated(at + 2))?;
            if number >> 57 != 0 || (at == 1 && octet == 0x80) {
                let problem = if at == 1 { Problem::TagPadded } else { Problem::TagTooLong };
                return Err(Error::at(offset, problem));
            }
            number = number << 7 | u64::from(octet & 0x7f);
            at += 1;
            if octet & 0x80 == 0 {
                break;
            }
        }
        if number < 31 {
            return Err(Error::at(offset, Problem::TagPadded));
        }
    }
    let constructed = first & 0x20 != 0;
    let &len = rest.get(at).ok_or_else(|| truncated(at + 1))?;
    at += 1;
    let length = match len {
        0..=0x7f => Length::Short(usize::from(len)),
        0x80 if constructed => Length::Indefinite,
        0x80 => return Err(Error::at(offset, Problem::IndefinitePrimitive)),
        0xff => return Err(Error::at(offset, Problem::ReservedLength)),
        _ => {
            let count = usize::from(len & 0x7f);
            let octets = rest.get(at..at + count).ok_or_else(|| truncated(at + count))?;
            at += count;
            let zeros = octets.iter().take_while(|o| **o == 0).count();
            if count - zeros > size_of::<usize>() {
                return Err(Error::at(offset, Problem::LengthTooLong { octets: count - zeros }));
            }
            let len = octets.iter().fold(0, |len, &o| len << 8 | usize::from(o));
            Length::Long(len, count as u8)
        }
    };
    Ok(Header { class: Class::of(first), number, constructed, length, octets: at })
}
