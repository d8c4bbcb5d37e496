//! Identifier and length octets (X.690, 8.1.2 and 8.1.3), read.

use super::{Decoder, Rules, Tag};
use crate::{Error, Problem};

/// What identifier and length octets say of the contents that follow.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Where the contents end; of indefinite length, where they end at the latest.
    pub(crate) end: usize,
    pub(crate) constructed: bool,
    pub(crate) indefinite: bool,
}

impl Header {
    /// The contents are encodings.
    pub fn is_constructed(self) -> bool {
        self.constructed
    }
}

impl<'a> Decoder<'a> {
    /// Reads a header that must have `tag`.
    ///
    /// Both of its octets are looked at together, in the form that they almost always have: the tag that is
    /// expected, in one octet, and a length below 128.
    ///
    /// # Errors
    /// Another tag, or no header at all.
    #[inline(always)]
    pub fn header(&mut self, tag: Tag) -> Result<Header, Error> {
        if let (Some(&[identifier, len]), Some(single)) = (self.peek_chunk(), tag.single())
            && identifier & !0x20 == single
            && len < 0x80
        {
            let end = self.at + 2 + usize::from(len);
            if end <= self.end {
                self.at += 2;
                return Ok(Header { end, constructed: identifier & 0x20 != 0, indefinite: false });
            }
        }
        self.slow_header(tag)
    }

    #[inline(never)]
    fn slow_header(&mut self, tag: Tag) -> Result<Header, Error> {
        // The next most frequent forms: a length in one octet more or two, where it takes as many.
        if let (Some(&[identifier, form, high, low]), Some(single)) =
            (self.peek_chunk(), tag.single())
            && identifier & !0x20 == single
        {
            let (len, octets) = match form {
                0x81 if high >= 0x80 => (usize::from(high), 3),
                0x82 if high > 0 => (usize::from(high) << 8 | usize::from(low), 4),
                _ => (usize::MAX, 0),
            };
            if len <= (self.end - self.at).saturating_sub(octets) {
                self.at += octets;
                let constructed = identifier & 0x20 != 0;
                return Ok(Header { end: self.at + len, constructed, indefinite: false });
            }
        }
        let offset = self.at;
        if !self.more()? {
            return Err(Problem::Missing.at(offset));
        }
        let (found, header) = self.any_header()?;
        match found == tag {
            true => Ok(header),
            false => Err(Problem::Tag { expected: tag, found }.at(offset)),
        }
    }

    /// Reads a header, whatever its tag.
    ///
    /// # Errors
    /// It is none.
    pub fn any_header(&mut self) -> Result<(Tag, Header), Error> {
        let (tag, constructed, len) = self.identifier()?;
        self.at += len;
        let offset = self.at;
        let first = self.octet()?;
        if first < 0x80 {
            return self.contents(usize::from(first), constructed).map(|header| (tag, header));
        }
        if first == 0x80 {
            if self.rules == Rules::Der {
                return Err(Problem::NotCanonical("a definite length").at(offset));
            }
            if !constructed {
                return Err(Problem::BadLength.at(offset));
            }
            return Ok((tag, Header { end: self.end, constructed, indefinite: true }));
        }
        let count = usize::from(first & 0x7f);
        if first == 0xff {
            return Err(Problem::BadLength.at(offset));
        }
        let octets = self.take(count)?;
        let zeros = octets.iter().take_while(|octet| **octet == 0).count();
        let significant = &octets[zeros..];
        if significant.len() > size_of::<usize>() {
            return Err(Problem::BadLength.at(offset));
        }
        let len = significant.iter().fold(0, |len, &octet| len << 8 | usize::from(octet));
        if self.rules == Rules::Der && (zeros > 0 || len < 0x80) {
            return Err(Problem::NotCanonical("the shortest length").at(offset));
        }
        self.contents(len, constructed).map(|header| (tag, header))
    }

    fn contents(&self, len: usize, constructed: bool) -> Result<Header, Error> {
        let left = self.end - self.at;
        match len <= left {
            true => Ok(Header { end: self.at + len, constructed, indefinite: false }),
            false => Err(Problem::Truncated { needed: len, left }.at(self.at)),
        }
    }

    /// The tag that comes next, and stays.
    ///
    /// # Errors
    /// There is none, or it is malformed.
    #[inline(always)]
    pub fn peek(&self) -> Result<Tag, Error> {
        match self.data[..self.end].get(self.at) {
            Some(&identifier) if identifier & 0x1f != 0x1f => Ok(Tag::of_octet(identifier)),
            _ => self.slow_peek(),
        }
    }

    #[cold]
    #[inline(never)]
    fn slow_peek(&self) -> Result<Tag, Error> {
        self.identifier().map(|(tag, ..)| tag)
    }

    /// The next tag is `tag`. At the end of the contents it is not.
    #[inline(always)]
    pub fn next_is(&self, tag: Tag) -> bool {
        match (self.data[..self.end].get(self.at), tag.single()) {
            (Some(identifier), Some(single)) => identifier & !0x20 == single,
            (Some(identifier), None) if identifier & 0x1f == 0x1f => self.slow_peek() == Ok(tag),
            _ => false,
        }
    }

    /// Tag, form, and how many octets they take.
    fn identifier(&self) -> Result<(Tag, bool, usize), Error> {
        let rest = &self.data[self.at..self.end];
        let Some(&first) = rest.first() else {
            return Err(Problem::Truncated { needed: 2, left: 0 }.at(self.at));
        };
        let (class, constructed) = (first >> 6, first & 0x20 != 0);
        if first & 0x1f != 0x1f {
            return Ok((Tag::of_octet(first), constructed, 1));
        }
        let (mut number, mut len) = (0u32, 1);
        loop {
            let Some(&octet) = rest.get(len) else {
                let needed = len + 2;
                return Err(Problem::Truncated { needed, left: rest.len() }.at(self.at));
            };
            len += 1;
            // Six octets of 7 bits are more than a number here has; the first may not be padding.
            if len > 6 || (len == 2 && octet == 0x80) {
                return Err(Problem::BadTag.at(self.at));
            }
            number = number.checked_mul(128).ok_or_else(|| Problem::BadTag.at(self.at))?
                | u32::from(octet & 0x7f);
            if octet & 0x80 == 0 {
                break;
            }
        }
        match Tag::from_parts(class, number) {
            Some(tag) if number >= 31 => Ok((tag, constructed, len)),
            _ => Err(Problem::BadTag.at(self.at)),
        }
    }
}
