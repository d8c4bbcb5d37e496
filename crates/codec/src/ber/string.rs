//! Strings of octets, bits and characters, object identifiers, and ANY.

use super::scalar::values;
use super::{Decode, Decoder, Encode, Encoder, Header, Rules, Tag};
use crate::types::time::{digits_of, of_digits};
use crate::types::{
    Alphabet, Any, BitString, Date, DateTime, Moment, NOT_CANONICAL_TIME, Octets, Oid, RelativeOid,
    Text, TimeOfDay, canonical_time,
};
use crate::{Error, Problem};

impl<'a> Decoder<'a> {
    /// The contents of a string of octets or characters: lent, or put together from their pieces.
    ///
    /// # Errors
    /// Malformed, or in pieces under DER.
    #[inline(always)]
    pub fn string(&mut self, header: Header) -> Result<Octets<'a>, Error> {
        if header.constructed {
            return self.pieces(header);
        }
        self.primitive(header).map(Octets::new)
    }

    /// X.690, 8.7.3: each piece is an OCTET STRING, which can be in pieces itself. (Pieces of character
    /// strings are OCTET STRINGs, too: 8.23.3.)
    #[cfg(feature = "alloc")]
    #[inline(never)]
    fn pieces(&mut self, header: Header) -> Result<Octets<'a>, Error> {
        let mut whole = alloc::vec::Vec::new();
        self.gather(
            header,
            &mut |from, header| {
                let piece = from.primitive(header)?;
                from.budget.bytes(piece.len() as u64, from.at)?;
                whole.extend_from_slice(piece);
                Ok(())
            },
            Tag::OCTET_STRING,
        )?;
        Ok(Octets::from(whole))
    }

    #[cfg(not(feature = "alloc"))]
    fn pieces(&mut self, _: Header) -> Result<Octets<'a>, Error> {
        Err(self.error(Problem::Unsupported("strings in pieces, without an allocator")))
    }

    /// Gives the pieces of a string in pieces to `take`.
    #[cfg(feature = "alloc")]
    fn gather(
        &mut self,
        header: Header,
        take: &mut dyn FnMut(&mut Self, Header) -> Result<(), Error>,
        tag: Tag,
    ) -> Result<(), Error> {
        if self.rules == Rules::Der {
            return Err(self.error(Problem::Form { constructed: true }));
        }
        self.constructed(header, |from| {
            while from.more()? {
                from.budget.elements(1, from.at)?;
                let piece = from.header(tag)?;
                match piece.constructed {
                    true => from.gather(piece, take, tag)?,
                    false => take(from, piece)?,
                }
            }
            Ok(())
        })
    }

    /// The contents of a BIT STRING.
    fn bits(&mut self, header: Header) -> Result<BitString<'a>, Error> {
        const BAD: Problem = Problem::Contents("a BIT STRING");
        let offset = self.at;
        if header.constructed {
            return self.bit_pieces(header);
        }
        let [unused @ 0..=7, bytes @ ..] = self.primitive(header)? else {
            return Err(BAD.at(offset));
        };
        match BitString::new(bytes, *unused) {
            Some(bits) => Ok(bits),
            None if self.rules == Rules::Der || bytes.is_empty() => Err(BAD.at(offset)),
            None => self.masked(bytes, *unused),
        }
    }

    /// BER leaves the bits behind the last to the sender (X.690, 8.6.2.4); they are made zero.
    #[cfg(feature = "alloc")]
    fn masked(&mut self, bytes: &[u8], unused: u8) -> Result<BitString<'a>, Error> {
        self.budget.bytes(bytes.len() as u64, self.at)?;
        let mut bytes = bytes.to_vec();
        if let Some(last) = bytes.last_mut() {
            *last &= 0xff << unused;
        }
        BitString::new(bytes, unused).ok_or_else(|| self.error(Problem::Contents("a BIT STRING")))
    }

    #[cfg(not(feature = "alloc"))]
    fn masked(&mut self, _: &[u8], _: u8) -> Result<BitString<'a>, Error> {
        Err(self.error(Problem::Unsupported("unused bits that are set, without an allocator")))
    }

    #[cfg(feature = "alloc")]
    #[inline(never)]
    fn bit_pieces(&mut self, header: Header) -> Result<BitString<'a>, Error> {
        const BAD: Problem = Problem::Contents("a BIT STRING in pieces");
        let (mut whole, mut unused) = (alloc::vec::Vec::new(), 0);
        let offset = self.at;
        self.gather(
            header,
            &mut |from, header| {
                let offset = from.at;
                let [bits @ 0..=7, piece @ ..] = from.primitive(header)? else {
                    return Err(BAD.at(offset));
                };
                // Only the last piece may end within a byte.
                if unused != 0 || (piece.is_empty() && *bits != 0) {
                    return Err(BAD.at(offset));
                }
                unused = *bits;
                from.budget.bytes(piece.len() as u64, from.at)?;
                whole.extend_from_slice(piece);
                Ok(())
            },
            Tag::BIT_STRING,
        )?;
        if let Some(last) = whole.last_mut() {
            *last &= 0xff << unused;
        }
        BitString::new(whole, unused).ok_or_else(|| BAD.at(offset))
    }

    #[cfg(not(feature = "alloc"))]
    fn bit_pieces(&mut self, _: Header) -> Result<BitString<'a>, Error> {
        Err(self.error(Problem::Unsupported("strings in pieces, without an allocator")))
    }
}

values! {
    #[inline(always)]
    Octets<'a>, Tag::OCTET_STRING => |octets, to| to.put(octets), |from, header| from.string(header);
    #[inline(always)]
    Text<'a, A> [A: Alphabet], Tag::universal(A::TAG) =>
        |text, to| {
            if to.rules() == Rules::Der && !canonical_time::<A>(text.as_bytes()) {
                return Err(to.error(Problem::NotCanonical(NOT_CANONICAL_TIME)));
            }
            to.put(text.as_bytes())
        },
        |from, header, offset| {
            let text = Text::<A>::decoded(from.string(header)?, offset)?;
            if from.rules == Rules::Der && !canonical_time::<A>(text.as_bytes()) {
                return Err(Problem::NotCanonical(NOT_CANONICAL_TIME).at(offset));
            }
            Ok(text)
        },
        decode_all super::array::decode_texts;
    Oid<'a>, Tag::OID =>
        |oid, to| to.put(oid.as_contents()),
        |from, header, offset| Oid::decoded(from.primitive(header)?.into(), offset);
    RelativeOid<'a>, Tag::RELATIVE_OID =>
        |oid, to| to.put(oid.as_contents()),
        |from, header, offset| RelativeOid::decoded(from.primitive(header)?.into(), offset);
    #[inline]
    BitString<'a>, Tag::BIT_STRING =>
        |bits, to| {
            to.put(bits.as_bytes())?;
            to.byte(bits.unused())
        },
        |from, header| from.bits(header);
}

/// The useful time types: their digits (X.690, 8.26).
macro_rules! moments {
    ($($type:ty),*) => {
        values! { $(
            $type, Tag::universal(<$type as Moment>::TAG) =>
                |moment, to| {
                    let (digits, len) = digits_of(moment);
                    to.put(&digits[..len])
                },
                |from, header, offset| of_digits(from.primitive(header)?, offset);
        )* }
    };
}

moments!(Date, TimeOfDay, DateTime);

impl Encode for Any<'_> {
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        to.put(self.as_bytes())
    }
}

impl<'a> Decode<'a> for Any<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        from.any().map(Any::new)
    }
    fn begins_with(_: Tag) -> bool {
        true
    }
}
