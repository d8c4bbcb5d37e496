//! Strings of octets, bits and characters, object identifiers, and ANY.

use super::scalar::tagged;
use super::{
    Decode, DecodeContents, Decoder, Encode, EncodeContents, Encoder, Header, Rules, Tag, Tagged,
};
use crate::types::{
    Alphabet, Any, BitString, Octets, Oid, RelativeOid, Text, canonical_time, character,
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

/// Types whose contents are bytes that they have at hand.
macro_rules! bytes {
    ($type:ty, $as_bytes:ident $(, $generic:ident: $bound:path)?) => {
        impl<$($generic: $bound)?> EncodeContents for $type {
            #[inline(always)]
            fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
                to.put(self.$as_bytes())
            }
        }
    };
}

tagged!('a, Octets<'a>, Tag::OCTET_STRING);
bytes!(Octets<'_>, as_bytes);
bytes!(Text<'_, A>, as_bytes, A: Alphabet);
tagged!('a, Oid<'a>, Tag::OID);
bytes!(Oid<'_>, as_contents);
tagged!('a, RelativeOid<'a>, Tag::RELATIVE_OID);
bytes!(RelativeOid<'_>, as_contents);
tagged!('a, BitString<'a>, Tag::BIT_STRING);

impl<'a> DecodeContents<'a> for Octets<'a> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.string(header)
    }
}

impl<A: Alphabet> Tagged for Text<'_, A> {
    const TAG: Tag = Tag::universal(A::TAG);
    const CONSTRUCTED: bool = false;
}

impl<A: Alphabet> Encode for Text<'_, A> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(<Self as Tagged>::TAG, to)
    }
}

impl<'a, A: Alphabet> Decode<'a> for Text<'a, A> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        <Self as DecodeContents>::decode_as(<Self as Tagged>::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == <Self as Tagged>::TAG
    }
    #[cfg(feature = "alloc")]
    fn decode_all(from: &mut Decoder<'a>) -> Result<alloc::vec::Vec<Self>, Error> {
        super::array::decode_texts(from)
    }
}

impl<'a, A: Alphabet> DecodeContents<'a> for Text<'a, A> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        let offset = from.at;
        let octets = from.string(header)?;
        if !A::holds(&octets) {
            return Err(character::<A>(&octets).at(offset));
        }
        if from.rules == Rules::Der && !canonical_time::<A>(&octets) {
            return Err(Problem::NotCanonical("a time in UTC with seconds").at(offset));
        }
        Ok(Text::checked(octets))
    }
}

impl<'a> DecodeContents<'a> for Oid<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        let offset = from.at;
        let contents = from.primitive(header)?;
        Oid::from_contents(contents)
            .ok_or_else(|| Problem::Contents("an OBJECT IDENTIFIER").at(offset))
    }
}

impl<'a> DecodeContents<'a> for RelativeOid<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        let offset = from.at;
        let contents = from.primitive(header)?;
        RelativeOid::from_contents(contents)
            .ok_or_else(|| Problem::Contents("a RELATIVE-OID").at(offset))
    }
}

impl EncodeContents for BitString<'_> {
    #[inline]
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        to.put(self.as_bytes())?;
        to.byte(self.unused())
    }
}

impl<'a> DecodeContents<'a> for BitString<'a> {
    #[inline]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.bits(header)
    }
}

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
