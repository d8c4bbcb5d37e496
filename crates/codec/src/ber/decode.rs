//! Bytes into values, totally and within limits.
//!
//! The decoder holds all of the input and where the contents end that it is in, so that eight bytes can be
//! loaded at once also near the end of contents. Of contents of indefinite length the end is where those
//! around them end, and `open` says that end-of-contents octets come before.

use super::{Header, Rules, Tag, Tagged};
use crate::limits::Budget;
use crate::{Error, Limits, Problem};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// A value of an ASN.1 type. What has a tag of its own is also [`DecodeContents`]; a CHOICE or ANY is not.
pub trait Decode<'a>: Sized {
    /// Reads the complete encoding: identifier, length, contents.
    ///
    /// # Errors
    /// The input is no encoding of `Self`; the error says what is wrong and where.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error>;

    /// A value of the type may begin with `tag`; what tells whether one that is OPTIONAL is there.
    fn begins_with(tag: Tag) -> bool;

    /// Reads complete encodings up to the end of the contents.
    ///
    /// # Errors
    /// As [`Decode::decode`], or there are more than the limit.
    #[cfg(feature = "alloc")]
    #[inline]
    fn decode_all(from: &mut Decoder<'a>) -> Result<Vec<Self>, Error> {
        match Self::in_place() {
            None => from.elements(Self::decode),
            Some(blank) => from.elements_in_place(blank),
        }
    }

    /// What makes the value that is decoded over ([`Decode::decode_into`]), for types that are large: their components
    /// so come at once to where they stay. None for all others.
    #[inline(always)]
    fn in_place() -> Option<fn() -> Self> {
        None
    }

    /// As [`Decode::decode`], into a value that is still as [`Blank::blank`](crate::Blank::blank) makes it.
    ///
    /// # Errors
    /// As [`Decode::decode`]. The value is anything then.
    #[inline(always)]
    fn decode_into(place: &mut Self, from: &mut Decoder<'a>) -> Result<(), Error> {
        *place = Self::decode(from)?;
        Ok(())
    }
}

/// A value of a type with a tag of its own, which IMPLICIT tagging can replace.
pub trait DecodeContents<'a>: Tagged + Decode<'a> {
    /// Reads the contents that `header` announces.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error>;

    /// Reads the complete encoding with `tag` in place of the type's own.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    #[inline(always)]
    fn decode_as(tag: Tag, from: &mut Decoder<'a>) -> Result<Self, Error> {
        let header = from.header(tag)?;
        Self::decode_contents(from, header)
    }

    /// As [`DecodeContents::decode_contents`], into a value that is still as [`Blank::blank`](crate::Blank::blank) makes it.
    ///
    /// # Errors
    /// As [`Decode::decode`]. The value is anything then.
    #[inline(always)]
    fn contents_into(
        place: &mut Self,
        from: &mut Decoder<'a>,
        header: Header,
    ) -> Result<(), Error> {
        *place = Self::decode_contents(from, header)?;
        Ok(())
    }

    /// As [`DecodeContents::decode_as`], into a value that is still as [`Blank::blank`](crate::Blank::blank) makes it.
    ///
    /// # Errors
    /// As [`Decode::decode`]. The value is anything then.
    #[inline(always)]
    fn as_into(place: &mut Self, tag: Tag, from: &mut Decoder<'a>) -> Result<(), Error> {
        let header = from.header(tag)?;
        Self::contents_into(place, from, header)
    }
}

/// Reads BER or DER from a slice, and lends from it.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    /// `at <= end <= data.len()`.
    pub(super) data: &'a [u8],
    pub(super) at: usize,
    pub(super) end: usize,
    /// The contents are of indefinite length: end-of-contents octets close them.
    pub(super) open: bool,
    pub(super) rules: Rules,
    pub(crate) budget: Budget,
}

impl<'a> Decoder<'a> {
    /// Reads `data` within `limits`.
    pub fn new(data: &'a [u8], rules: Rules, limits: Limits) -> Self {
        let budget = Budget::new(limits);
        Decoder { data, at: 0, end: data.len(), open: false, rules, budget }
    }

    /// Bytes read so far.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes left of the contents at hand.
    pub fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// Which rules hold.
    #[inline(always)]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// An error at this point.
    #[cold]
    #[inline(never)]
    pub fn error(&self, problem: Problem) -> Error {
        problem.at(self.at)
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`Problem::LeftOver`] when bytes are left.
    pub fn finish(self) -> Result<(), Error> {
        match self.end - self.at {
            0 => Ok(()),
            left => Err(Problem::LeftOver { left }.at(self.at)),
        }
    }

    /// The next `N` bytes of the input, if there are as many, which may be beyond the contents.
    #[inline(always)]
    pub(crate) fn peek_chunk<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.data.get(self.at..)?.first_chunk()
    }

    pub(super) fn octet(&mut self) -> Result<u8, Error> {
        self.take(1).map(|octets| octets[0])
    }

    /// The next `len` bytes of the contents.
    ///
    /// # Errors
    /// There are not as many.
    #[inline(always)]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let data = self.data;
        match data[self.at..self.end].get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.truncated(len)),
        }
    }

    #[cold]
    #[inline(never)]
    fn truncated(&self, needed: usize) -> Error {
        Problem::Truncated { needed, left: self.end - self.at }.at(self.at)
    }

    /// Contents that must be primitive.
    ///
    /// # Errors
    /// They are constructed.
    #[inline(always)]
    pub fn primitive(&mut self, header: Header) -> Result<&'a [u8], Error> {
        if header.constructed {
            return Err(self.error(Problem::Form { constructed: true }));
        }
        let data = self.data;
        // The header was made for this place, and its end checked.
        let contents = &data[self.at..header.end];
        self.at = header.end;
        Ok(contents)
    }

    /// Contents that must be constructed: `read` reads all of them.
    ///
    /// # Errors
    /// They are primitive, nested too deep, not read to their end, or as `read`'s own.
    #[inline(always)]
    pub fn constructed<T>(
        &mut self,
        header: Header,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !header.constructed {
            return Err(self.error(Problem::Form { constructed: false }));
        }
        self.budget.enter(self.at)?;
        let around = (self.end, self.open);
        (self.end, self.open) = (header.end, header.indefinite);
        // The result stays where it is made: large values are not moved.
        let result = read(self);
        if result.is_ok() {
            if self.open || self.at != self.end {
                self.close()?;
            }
            (self.end, self.open) = around;
            self.budget.leave();
        }
        result
    }

    /// The end of contents.
    #[inline(never)]
    fn close(&mut self) -> Result<(), Error> {
        if self.more()? {
            return Err(Problem::LeftOver { left: self.end - self.at }.at(self.at));
        }
        if self.open {
            self.at += 2;
        }
        Ok(())
    }

    /// There is another encoding in these contents.
    ///
    /// # Errors
    /// Contents of indefinite length are not closed.
    #[inline(always)]
    pub fn more(&self) -> Result<bool, Error> {
        match self.open {
            false => Ok(self.at < self.end),
            true => self.more_of_open(),
        }
    }

    #[inline(never)]
    fn more_of_open(&self) -> Result<bool, Error> {
        match self.data[self.at..self.end] {
            [0, 0, ..] => Ok(false),
            [_, _, ..] => Ok(true),
            _ => Err(self.truncated(2)),
        }
    }

    /// What `read` reads, within a value of `tag`.
    ///
    /// # Errors
    /// As `read`'s own, or another tag.
    #[inline(always)]
    pub fn within<T>(
        &mut self,
        tag: Tag,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let header = self.header(tag)?;
        self.constructed(header, read)
    }

    /// `value`, or `default` where there is none (X.690, 11.5).
    ///
    /// # Errors
    /// In DER, when it is the default.
    #[inline(always)]
    pub fn unless<T: PartialEq>(
        &self,
        name: &'static str,
        value: Option<T>,
        default: T,
    ) -> Result<T, Error> {
        match value {
            None => Ok(default),
            Some(value) if self.rules == Rules::Der && value == default => Err(self
                .error(Problem::NotCanonical("nothing, for a default value"))
                .in_field(name)),
            Some(value) => Ok(value),
        }
    }

    /// Whether components of a SET are left, after each has been tried in the order that DER has them in.
    ///
    /// # Errors
    /// Some are, under DER.
    #[inline(always)]
    pub fn out_of_order(&self) -> Result<bool, Error> {
        let more = self.more()?;
        if more && self.rules == Rules::Der {
            return Err(
                self.error(Problem::NotCanonical("the components of a SET, once, in order"))
            );
        }
        Ok(more)
    }

    /// Asks for the order that DER has of the components of a SET that began at `start`, if any are left after each has
    /// been tried: those that are not known stand between the others.
    ///
    /// # Errors
    /// A tag is lower than the one in front of it, under DER.
    #[inline(always)]
    pub fn in_order(&self, start: usize) -> Result<(), Error> {
        match self.rules == Rules::Der && self.more()? {
            true => self.ascending(start),
            false => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn ascending(&self, start: usize) -> Result<(), Error> {
        let mut walk = self.clone();
        walk.at = start;
        let mut last = None;
        while walk.more()? {
            let tag = walk.peek()?;
            if last.is_some_and(|last| tag < last) {
                let problem = Problem::NotCanonical("the components of a SET, once, in order");
                return Err(walk.error(problem));
            }
            last = Some(tag);
            walk.any()?;
        }
        Ok(())
    }

    /// Reads a component of a SET into its slot.
    ///
    /// # Errors
    /// It is there already, or as `read`'s own; `name` is in its path.
    #[inline(always)]
    pub fn once<T>(
        &mut self,
        slot: &mut Option<T>,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<(), Error> {
        if slot.is_some() {
            return Err(self.twice(name));
        }
        *slot = Some(read(self).map_err(|e| e.in_field(name))?);
        Ok(())
    }

    /// The error of a component that is missing.
    #[cold]
    #[inline(never)]
    pub fn missing(&self, name: &'static str) -> Error {
        self.error(Problem::Missing).in_field(name)
    }

    /// The error of a tag that no component or alternative of the type has.
    #[cold]
    #[inline(never)]
    pub fn unknown(&self, type_name: &'static str) -> Error {
        match self.peek() {
            Ok(found) => self.error(Problem::UnknownTag { found, type_name }),
            Err(error) => error,
        }
    }

    /// Passes over the extension additions that this version of a type does not know.
    ///
    /// # Errors
    /// They are no encodings.
    pub fn skip_rest(&mut self) -> Result<(), Error> {
        while self.more()? {
            self.any()?;
        }
        Ok(())
    }

    /// The next complete encoding, whatever it is.
    ///
    /// # Errors
    /// It is none, or nested too deep.
    pub fn any(&mut self) -> Result<&'a [u8], Error> {
        let (data, start) = (self.data, self.at);
        if !self.more()? {
            return Err(self.error(Problem::Missing));
        }
        let (_, header) = self.any_header()?;
        match header.indefinite {
            false => self.at = header.end,
            true => self.constructed(header, Self::skip_rest)?,
        }
        Ok(&data[start..self.at])
    }

    /// Elements up to the end of the contents, each read by `read`.
    ///
    /// # Errors
    /// As `read`'s own, or there are more than the limit.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub fn elements<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        if !self.more()? {
            return Ok(elements);
        }
        let start = self.at;
        loop {
            self.budget.elements(1, self.at)?;
            match read(self) {
                Ok(element) if elements.is_empty() => {
                    elements.reserve_exact(self.expect::<T>(self.at - start, self.end - self.at));
                    elements.push(element);
                }
                Ok(element) => elements.push(element),
                Err(error) => return Err(error.in_element(elements.len())),
            }
            if !self.more()? {
                return Ok(elements);
            }
        }
    }

    /// How many elements there will be if all are half as long as the first, `len` bytes of it and `rest` behind:
    /// room for too many costs less than moving them. No more than take up a few times the input.
    #[cfg(feature = "alloc")]
    pub(super) fn expect<T>(&self, len: usize, rest: usize) -> usize {
        if self.open {
            // They may end with the next element; all that follows them is not theirs to reserve for.
            return 1;
        }
        let alike = 2 * rest / len.max(1) + 1;
        alike.min(4 * rest / size_of::<T>().max(1) + 1)
    }
}
