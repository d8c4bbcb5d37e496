//! BOOLEAN, INTEGER, ENUMERATED, REAL, NULL.

use super::{Decoder, Encoder, Header, Rules, Tag};
use crate::types::integer::{needless, signed_len};
use crate::types::{Integer, Octets, real};
use crate::{Error, Problem};

impl Encoder<'_> {
    /// Writes an INTEGER or ENUMERATED.
    ///
    /// # Errors
    /// There is no room.
    #[inline(always)]
    pub fn integer(&mut self, tag: Tag, value: i64) -> Result<(), Error> {
        let len = signed_len(value);
        if let Some(single) = tag.single()
            && len <= 6
        {
            // Tag, length and contents are one word, of which the front is stored for nothing.
            let head = u64::from(single) << 8 | len as u64;
            let word = head << (8 * len) | value as u64 & !(u64::MAX << (8 * len));
            return self.tail(word.to_be_bytes(), len + 2);
        }
        self.tail(value.to_be_bytes(), len)?;
        self.header_of(tag, false, len)
    }

    /// Writes the contents of an INTEGER or ENUMERATED.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn integer_contents(&mut self, value: i64) -> Result<(), Error> {
        self.tail(value.to_be_bytes(), signed_len(value))
    }

    /// Writes an INTEGER that may be beyond an `i64`.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn unsigned(&mut self, tag: Tag, value: u64) -> Result<(), Error> {
        if let Ok(value) = i64::try_from(value) {
            return self.integer(tag, value);
        }
        self.tail(value.to_be_bytes(), 8)?;
        self.byte(0)?;
        self.header_of(tag, false, 9)
    }
}

impl<'a> Decoder<'a> {
    /// The contents of an INTEGER or ENUMERATED.
    ///
    /// # Errors
    /// They are none, or wider than 64 bits.
    #[inline(always)]
    pub fn integer_contents(&mut self, header: Header) -> Result<i64, Error> {
        let offset = self.at;
        // One load; bytes behind the contents are shifted out.
        if let Some(chunk) = self.peek_chunk::<8>()
            && !header.constructed
        {
            let len = header.end - self.at;
            if len.wrapping_sub(1) < 8 {
                let word = i64::from_be_bytes(*chunk);
                let value = word >> (64 - 8 * len);
                self.at = header.end;
                if self.rules == Rules::Der && signed_len(value) != len {
                    return Err(Problem::NotCanonical("the shortest INTEGER").at(offset));
                }
                return Ok(value);
            }
        }
        let contents = self.integer_octets(header)?;
        Integer::minimal(Octets::new(contents))
            .to_i64()
            .ok_or_else(|| Problem::IntegerTooWide { bytes: contents.len() }.at(offset))
    }

    /// The contents of an INTEGER without those in front that say nothing.
    ///
    /// # Errors
    /// They are none.
    pub fn integer_octets(&mut self, header: Header) -> Result<&'a [u8], Error> {
        let offset = self.at;
        let contents = self.primitive(header)?;
        if contents.is_empty() {
            return Err(Problem::Contents("an INTEGER").at(offset));
        }
        match needless(contents) {
            0 => Ok(contents),
            _ if self.rules == Rules::Der => {
                Err(Problem::NotCanonical("the shortest INTEGER").at(offset))
            }
            needless => Ok(&contents[needless..]),
        }
    }

    #[cold]
    #[inline(never)]
    fn too_wide(&self, offset: usize) -> Error {
        Problem::IntegerTooWide { bytes: self.at - offset }.at(offset)
    }
}

/// Primitive types with a tag of their own: a row has how the contents are written and read, the latter perhaps with the
/// offset where they begin; how a value is written behind a tag, where that is done at once; and how many are.
macro_rules! values {
    ($(
        $(#[$attr:meta])*
        $type:ty $([$generic:ident: $bound:path])?, $tag:expr =>
            |$value:ident, $to:ident| $put:expr,
            $(as |$own:ident, $as_tag:ident, $as_to:ident| $put_as:expr,)?
            |$from:ident, $header:ident $(, $offset:ident)?| $take:expr
            $(, encode_all $put_all:path)? $(, decode_all $take_all:path)?;
    )*) => {$(
        impl<'a $(, $generic: $bound)?> $crate::ber::Tagged for $type {
            const TAG: Tag = $tag;
            const CONSTRUCTED: bool = false;
        }

        impl<'a $(, $generic: $bound)?> $crate::ber::Encode for $type {
            #[inline(always)]
            fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
                $crate::ber::EncodeContents::encode_as(self, <Self as $crate::ber::Tagged>::TAG, to)
            }
            $(fn encode_all(values: &[Self], to: &mut Encoder<'_>) -> Result<(), Error> {
                $put_all(values, to)
            })?
        }

        impl<'a $(, $generic: $bound)?> $crate::ber::EncodeContents for $type {
            $(#[$attr])*
            fn encode_contents(&self, $to: &mut Encoder<'_>) -> Result<(), Error> {
                let $value = self;
                $put
            }
            $(#[inline(always)]
            fn encode_as(&self, $as_tag: Tag, $as_to: &mut Encoder<'_>) -> Result<(), Error> {
                let $own = self;
                $put_as
            })?
        }

        impl<'a $(, $generic: $bound)?> $crate::ber::Decode<'a> for $type {
            #[inline(always)]
            fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
                $crate::ber::DecodeContents::decode_as(<Self as $crate::ber::Tagged>::TAG, from)
            }
            fn begins_with(tag: Tag) -> bool {
                tag == <Self as $crate::ber::Tagged>::TAG
            }
            $(#[cfg(feature = "alloc")]
            fn decode_all(from: &mut Decoder<'a>) -> Result<alloc::vec::Vec<Self>, Error> {
                $take_all(from)
            })?
        }

        impl<'a $(, $generic: $bound)?> $crate::ber::DecodeContents<'a> for $type {
            $(#[$attr])*
            fn decode_contents($from: &mut Decoder<'a>, $header: Header) -> Result<Self, Error> {
                $(let $offset = $from.at;)?
                $take
            }
        }
    )*};
}
pub(super) use values;

/// Types whose encoding the machine's integers have.
macro_rules! integers {
    ($($type:ty),*) => {
        values! { $(
            #[inline(always)]
            $type, Tag::INTEGER =>
                |value, to| to.integer_contents(i64::from(*value)),
                as |value, tag, to| to.integer(tag, i64::from(*value)),
                |from, header, offset| {
                    let value = from.integer_contents(header)?;
                    Self::try_from(value).map_err(|_| from.too_wide(offset))
                },
                encode_all super::array::encode_integers, decode_all super::array::decode_integers;
        )* }
    };
}

integers!(i8, i16, i32, i64, u8, u16, u32);

values! {
    u64, Tag::INTEGER =>
        |value, to| match i64::try_from(*value) {
            Ok(value) => to.integer_contents(value),
            Err(_) => {
                to.chunk(value.to_be_bytes())?;
                to.byte(0)
            }
        },
        as |value, tag, to| to.unsigned(tag, *value),
        |from, header, offset| {
            let contents = from.integer_octets(header)?;
            let magnitude = match contents {
                [0, rest @ ..] => rest,
                contents => contents,
            };
            if contents[0] & 0x80 != 0 || magnitude.len() > 8 {
                return Err(from.too_wide(offset));
            }
            Ok(magnitude.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
        };
    #[inline]
    Integer<'a>, Tag::INTEGER =>
        |value, to| to.put(value.as_be_bytes()),
        |from, header| from.integer_octets(header).map(|octets| Integer::minimal(Octets::new(octets)));
    #[inline]
    bool, Tag::BOOLEAN =>
        |value, to| to.byte(if *value { 0xff } else { 0 }),
        |from, header, offset| match (from.primitive(header)?, from.rules) {
            ([0], _) => Ok(false),
            ([0xff], _) | ([_], Rules::Ber) => Ok(true),
            ([found], Rules::Der) => Err(Problem::Boolean { found: u32::from(*found) }.at(offset)),
            _ => Err(Problem::Contents("a BOOLEAN").at(offset)),
        };
    (), Tag::NULL =>
        |_value, _to| Ok(()),
        |from, header, offset| match from.primitive(header)? {
            [] => Ok(()),
            _ => Err(Problem::Contents("NULL").at(offset)),
        };
    #[inline(always)]
    f64, Tag::REAL =>
        |value, to| {
            let (octets, len) = real::encode(*value);
            to.put(&octets[real::MAX_LEN - len..])
        },
        as |value, tag, to| {
            let (octets, len) = real::encode(*value);
            if let Some(single) = tag.single()
                && let Some(place) = to.free().last_chunk_mut::<16>()
            {
                // Header and contents are one number of twelve bytes; what is stored in front of it is free.
                let mut number = [0; 16];
                number[16 - real::MAX_LEN..].copy_from_slice(&octets);
                let head = u128::from(single) << 8 | len as u128;
                *place = (u128::from_be_bytes(number) | head << (8 * len)).to_be_bytes();
                to.advance_to(to.start() - len - 2);
                return Ok(());
            }
            to.put(&octets[real::MAX_LEN - len..])?;
            to.header_of(tag, false, len)
        },
        |from, header, offset| {
            let contents = from.primitive(header)?;
            real::decode(contents, from.rules == Rules::Der).map_err(|problem| problem.at(offset))
        };
}
