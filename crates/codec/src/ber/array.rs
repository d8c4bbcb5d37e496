//! SEQUENCE OF and SET OF, and their loops over integers.

use super::{Encode, EncodeContents, Encoder, Tag, Tagged};
use crate::Error;
use crate::types::integer::signed_len;

#[cfg(feature = "alloc")]
use super::{Decode, DecodeContents, Decoder, Header};
#[cfg(feature = "alloc")]
use crate::{
    Problem,
    types::{Alphabet, Octets, SetOf, Text},
};
#[cfg(feature = "alloc")]
use alloc::{boxed::Box, vec::Vec};

/// All values as INTEGERs, each with one store.
#[inline]
pub(super) fn encode_integers<T: Copy + Into<i64>>(
    values: &[T],
    to: &mut Encoder<'_>,
) -> Result<(), Error> {
    let loops = Backwards { values, free: to.free() };
    let (rest, at) = crate::run(values.len(), loops);
    to.advance_to(at);
    // Long ones, and the last room there is.
    if let [before @ .., value] = &values[..rest] {
        to.integer(Tag::INTEGER, (*value).into())?;
        return encode_rest(before, to);
    }
    Ok(())
}

/// INTEGERs of up to six bytes, last first: how many are left, and how much is free.
struct Backwards<'v, T> {
    values: &'v [T],
    free: &'v mut [u8],
}

impl<T: Copy + Into<i64>> crate::Loops for Backwards<'_, T> {
    type Output = (usize, usize);

    #[inline(always)]
    fn run(self) -> (usize, usize) {
        let mut at = self.free.len();
        let mut rest = self.values.len();
        while let Some(left) = rest.checked_sub(1) {
            let value: i64 = self.values[left].into();
            let len = signed_len(value);
            let place = self.free.get_mut(..at).and_then(<[u8]>::last_chunk_mut::<8>);
            let Some(place) = place.filter(|_| len <= 6) else { break };
            let head = u64::from(Tag::INTEGER.number()) << 8 | len as u64;
            *place = (head << (8 * len) | value as u64 & !(u64::MAX << (8 * len))).to_be_bytes();
            at -= len + 2;
            rest = left;
        }
        (rest, at)
    }
}

#[inline(never)]
fn encode_rest<T: Copy + Into<i64>>(values: &[T], to: &mut Encoder<'_>) -> Result<(), Error> {
    values.iter().rev().try_for_each(|&value| to.integer(Tag::INTEGER, value.into()))
}

/// Elements that contents of indefinite length have room for before any was read.
#[cfg(feature = "alloc")]
const OPEN_ROOM: usize = 16;

/// All INTEGERs up to the end of the contents.
#[cfg(feature = "alloc")]
pub(super) fn decode_integers<'a, T>(from: &mut Decoder<'a>) -> Result<Vec<T>, Error>
where
    T: DecodeContents<'a> + TryFrom<i64>,
{
    let most = from.budget.elements_left().min(from.remaining() as u64 / 3 + 1) as usize;
    // Where contents of indefinite length end is not known, and not as far as the message goes.
    let room = if from.open { most.min(OPEN_ROOM) } else { most };
    let mut elements: Vec<T> = Vec::with_capacity(room);
    let loops = Forwards {
        data: from.data,
        at: from.at,
        end: from.end,
        most: elements.capacity().min(most),
        is_canonical: from.rules() == super::Rules::Der,
        elements: &mut elements,
    };
    let at = crate::run(room, loops);
    from.at = at;
    from.budget.elements(elements.len() as u64, at)?;
    while from.more()? {
        from.budget.elements(1, from.at)?;
        elements.push(T::decode(from).map_err(|e| e.in_element(elements.len()))?);
    }
    Ok(elements)
}

/// All character strings up to the end of the contents.
#[cfg(feature = "alloc")]
pub(super) fn decode_texts<'a, A: Alphabet>(
    from: &mut Decoder<'a>,
) -> Result<Vec<Text<'a, A>>, Error> {
    let mut elements: Vec<Text<'a, A>> = Vec::new();
    // Contents of indefinite length, and times, of which DER has one form, are asked about one by one.
    let is_plain = !from.open
        && from.at != from.end
        && (from.rules() == super::Rules::Ber || !matches!(A::TAG, 23 | 24));
    if let (true, Some(&[_, len])) = (is_plain, from.peek_chunk()) {
        let (len, rest) = (2 + usize::from(len), from.remaining());
        let room = from.expect::<Text<'a, A>>(len, rest.saturating_sub(len));
        elements.reserve_exact(room);
        let most = from.budget.elements_left().min(room as u64) as usize;
        let (data, at, end) = (from.data, from.at, from.end);
        let loops = Texts { data, at, end, most, elements: &mut elements };
        let at = crate::run(room, loops);
        from.at = at;
        from.budget.elements(elements.len() as u64, at)?;
    }
    while from.more()? {
        from.budget.elements(1, from.at)?;
        elements.push(Text::decode(from).map_err(|e| e.in_element(elements.len()))?);
    }
    Ok(elements)
}

/// Strings in one piece of fewer than 128 bytes. Gives where the first begins that is none of them.
#[cfg(feature = "alloc")]
struct Texts<'d, 'v, A> {
    data: &'d [u8],
    at: usize,
    end: usize,
    most: usize,
    elements: &'v mut Vec<Text<'d, A>>,
}

#[cfg(feature = "alloc")]
impl<A: Alphabet> crate::Loops for Texts<'_, '_, A> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Some(tag) = Tag::universal(A::TAG).single() else { return self.at };
        let (contents, mut at) = (&self.data[..self.end], self.at);
        while self.elements.len() < self.most
            && let Some((&[identifier, len @ 0..0x80], rest)) =
                contents.get(at..).and_then(<[u8]>::split_first_chunk)
            && identifier == tag
            && let Some(bytes) = rest.get(..usize::from(len))
            && A::holds(bytes)
        {
            self.elements.push(Text::checked(Octets::new(bytes)));
            at += 2 + bytes.len();
        }
        at
    }
}

/// INTEGERs whose tag, length and contents are one load: contents of up to six bytes. Gives where the first begins
/// that is none of them.
#[cfg(feature = "alloc")]
struct Forwards<'d, 'v, T> {
    data: &'d [u8],
    at: usize,
    end: usize,
    most: usize,
    is_canonical: bool,
    elements: &'v mut Vec<T>,
}

#[cfg(feature = "alloc")]
impl<T: TryFrom<i64>> crate::Loops for Forwards<'_, '_, T> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let mut at = self.at;
        while self.elements.len() < self.most
            && let Some(chunk) = self.data.get(at..).and_then(<[u8]>::first_chunk::<8>)
        {
            let word = u64::from_le_bytes(*chunk);
            let len = (word >> 8) as u8 as usize;
            let next = at + 2 + len;
            if word as u8 != 2 || len.wrapping_sub(1) > 5 || next > self.end {
                break;
            }
            let value = ((word.swap_bytes() << 16) as i64) >> (64 - 8 * len);
            if self.is_canonical && signed_len(value) != len {
                break;
            }
            let Ok(value) = T::try_from(value) else { break };
            self.elements.push(value);
            at = next;
        }
        at
    }
}

/// Lists: their tag, and how their contents are written.
macro_rules! written {
    ($($(#[$attr:meta])* $list:ty, $tag:expr => |$values:ident, $to:ident| $put:expr;)*) => {$(
        $(#[$attr])*
        impl<T> Tagged for $list {
            const TAG: Tag = $tag;
            const CONSTRUCTED: bool = true;
        }

        $(#[$attr])*
        impl<T: Encode> Encode for $list {
            fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
                self.encode_as($tag, to)
            }
        }

        $(#[$attr])*
        impl<T: Encode> EncodeContents for $list {
            #[inline]
            fn encode_contents(&self, $to: &mut Encoder<'_>) -> Result<(), Error> {
                let $values = self;
                $put
            }
        }
    )*};
}

/// Lists: how their contents are read.
#[cfg(feature = "alloc")]
macro_rules! read {
    ($($list:ty, $tag:expr => |$from:ident, $header:ident| $take:expr;)*) => {$(
        impl<'a, T: Decode<'a>> Decode<'a> for $list {
            fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
                Self::decode_as($tag, from)
            }
            fn begins_with(tag: Tag) -> bool {
                tag == $tag
            }
        }

        impl<'a, T: Decode<'a>> DecodeContents<'a> for $list {
            #[inline]
            fn decode_contents($from: &mut Decoder<'a>, $header: Header) -> Result<Self, Error> {
                $take
            }
        }
    )*};
}

written! {
    #[cfg(feature = "alloc")]
    Vec<T>, Tag::SEQUENCE => |values, to| T::encode_all(values, to);
    #[cfg(feature = "alloc")]
    SetOf<T>, Tag::SET => |values, to| to.set_of(values);
    // What is encoded need not be a vector.
    &[T], Tag::SEQUENCE => |values, to| T::encode_all(values, to);
}

#[cfg(feature = "alloc")]
read! {
    Vec<T>, Tag::SEQUENCE => |from, header| from.constructed(header, T::decode_all);
    SetOf<T>, Tag::SET => |from, header| {
        if from.rules() == super::Rules::Ber {
            return from.constructed(header, T::decode_all).map(SetOf);
        }
        // DER: each encoding is at least the one before it.
        let mut last: &[u8] = &[];
        from.constructed(header, |from| {
            from.elements(|from| {
                let (data, start) = (from.data, from.at);
                let element = T::decode(from)?;
                let encoding = &data[start..from.at];
                if encoding < last {
                    return Err(
                        Problem::NotCanonical("the elements of a SET OF in order").at(start)
                    );
                }
                last = encoding;
                Ok(element)
            })
        })
        .map(SetOf)
    };
}

/// What a type contains itself through.
#[cfg(feature = "alloc")]
impl<T: Tagged> Tagged for Box<T> {
    const TAG: Tag = T::TAG;
    const CONSTRUCTED: bool = T::CONSTRUCTED;
}

#[cfg(feature = "alloc")]
impl<T: Encode> Encode for Box<T> {
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        (**self).encode(to)
    }
}

#[cfg(feature = "alloc")]
impl<T: EncodeContents> EncodeContents for Box<T> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        (**self).encode_contents(to)
    }
}

#[cfg(feature = "alloc")]
impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        T::decode(from).map(Box::new)
    }
    fn begins_with(tag: Tag) -> bool {
        T::begins_with(tag)
    }
}

#[cfg(feature = "alloc")]
impl<'a, T: DecodeContents<'a>> DecodeContents<'a> for Box<T> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        T::decode_contents(from, header).map(Box::new)
    }
}
