//! Values one at a time.

use super::{Decode, Decoder, Encode, Encoder, Word};
use crate::forward::{holders, values};
use crate::types::time::of_notation;
use crate::types::{
    Alphabet, Any, BitString, Date, DateTime, Integer, Moment, Octets, Oid, RelativeOid, Text,
    TimeOfDay,
};
use crate::{Error, Problem, Sink, Source};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

impl<S: Sink, W: Word> Encoder<S, W> {
    /// An INTEGER that its type does not constrain: a word; or the word that is only a sign bit, a count of
    /// words, and that many.
    ///
    /// # Errors
    /// The sink is full.
    #[inline(always)]
    pub fn integer(&mut self, value: i64) -> Result<(), Error> {
        let shift = 64 - 8 * W::BYTES as u32;
        let fits = (value << shift) >> shift == value && value != i64::MIN >> shift;
        match fits {
            true => self.fixed(value, 1),
            false => self.wide(&value.to_be_bytes()),
        }
    }

    /// An INTEGER that does not fit a word, as two's complement.
    #[inline(never)]
    fn wide(&mut self, value: &[u8]) -> Result<(), Error> {
        let sign = if value[0] & 0x80 == 0 { 0 } else { 0xff };
        let excess = value.iter().take_while(|byte| **byte == sign).count();
        // The byte behind what only repeats the sign must have it, too.
        let needless = match value.get(excess) {
            Some(next) if (next ^ sign) & 0x80 == 0 => excess,
            _ => excess.saturating_sub(1),
        };
        let value = &value[needless..];
        let words = value.len().div_ceil(W::BYTES);
        self.fixed(i64::MIN >> (64 - 8 * W::BYTES), 1)?;
        self.count(words)?;
        self.sink.put(&[sign; 8][..words * W::BYTES - value.len()])?;
        self.sink.put(value)
    }
}

impl<'a, S: Source<'a>, W: Word> Decoder<S, W> {
    /// An INTEGER that its type does not constrain, if 64 bits hold it.
    ///
    /// # Errors
    /// Truncated, or wider than 64 bits.
    #[inline(always)]
    pub fn integer(&mut self) -> Result<i64, Error> {
        let value = self.fixed(1)?;
        match value == i64::MIN >> (64 - 8 * W::BYTES) {
            false => Ok(value),
            true => self.wide(),
        }
    }

    #[inline(never)]
    fn wide(&mut self) -> Result<i64, Error> {
        let offset = self.position();
        let words = self.count(W::BYTES)?;
        if words == 0 {
            return Err(Problem::Contents("an INTEGER").at(offset));
        }
        let mut value = self.fixed(1)?;
        for _ in 1..words {
            let next = self.word()?;
            let shift = 8 * W::BYTES as u32;
            let kept = value.checked_shl(shift).filter(|kept| kept >> shift == value);
            let kept = if shift == 64 { (value == next as i64 >> 63).then_some(0) } else { kept };
            let Some(kept) = kept else {
                return Err(Problem::IntegerTooWide { bytes: words * W::BYTES }.at(offset));
            };
            value = kept | next as i64;
        }
        Ok(value)
    }
}

/// The machine's integers, which INTEGERs are constrained to.
macro_rules! integers {
    ($($type:ty),*) => {
        values! { [W: Word] $(
            #[inline(always)]
            $type =>
                |value, to| to.fixed(*value as i64, size_of::<$type>()),
                |from, offset| {
                    let value = from.fixed(size_of::<$type>())?;
                    let narrow = value as $type;
                    // What has as many bytes as were read is itself; of what has fewer, the word repeats the sign.
                    match size_of::<$type>() >= W::BYTES || narrow as i64 == value {
                        true => Ok(narrow),
                        false => Err(Problem::IntegerTooWide { bytes: W::BYTES }.at(offset)),
                    }
                },
                all |values, to| to.filled(values), |count, from| from.filled(count);
        )* }
    };
}

integers!(i8, i16, i32, u8, u16, u32, u64);

values! { [W: Word]
    #[inline(always)]
    i64 =>
        |value, to| to.integer(*value), |from| from.integer(),
        all |values, to| to.integers(values), |count, from| from.integers(count);
    /// REAL: binary64 (IEEE 754).
    #[inline(always)]
    f64 =>
        |value, to| to.fixed(value.to_bits() as i64, 8),
        |from| from.fixed(8).map(|bits| f64::from_bits(bits as u64)),
        all |values, to| to.filled(values), |count, from| from.filled(count);
    #[inline(always)]
    bool => |value, to| to.bool(*value), |from| from.bool();
    /// NULL: nothing.
    () => |_value, _to| Ok(()), |_from| Ok(());
    #[inline(always)]
    Octets<'a> => |octets, to| to.octets(octets), |from| from.octets();
    /// Character strings: a count of the bytes of their encoding, and those.
    #[inline(always)]
    Text<'a, A> [A: Alphabet] =>
        |text, to| to.octets(text.as_bytes()),
        |from, offset| Text::decoded(from.octets()?, offset),
        all |values, to| values
            .iter()
            .enumerate()
            .try_for_each(|(i, text)| to.octets(text.as_bytes()).map_err(|e| e.in_element(i))),
        |count, from| from.texts(count);
    /// The useful time types: as strings, their notation.
    Date => |date, to| to.octets(date.as_bytes()),
        |from, offset| of_notation(&from.octets()?, offset);
    TimeOfDay => |time, to| to.octets(time.as_bytes()),
        |from, offset| of_notation(&from.octets()?, offset);
    DateTime => |both, to| to.octets(both.as_bytes()),
        |from, offset| of_notation(&from.octets()?, offset);
    /// A count of bits, and the bits.
    BitString<'a> =>
        |bits, to| {
            to.count(bits.len())?;
            to.octets_fixed(bits.as_bytes())
        },
        |from, offset| {
            let bits = from.count(0)?;
            let bytes = from.octets_fixed(bits.div_ceil(8))?;
            BitString::decoded(bytes, (bits.wrapping_neg() % 8) as u8, offset)
        };
    /// Counted, as BER has its contents.
    Oid<'a> =>
        |oid, to| to.octets(oid.as_contents()), |from, offset| Oid::decoded(from.octets()?, offset);
    /// Counted, as BER has its contents.
    RelativeOid<'a> =>
        |oid, to| to.octets(oid.as_contents()),
        |from, offset| RelativeOid::decoded(from.octets()?, offset);
    /// ANY and open types: counted, as they are.
    Any<'a> => |any, to| to.octets(any.as_bytes()), |from| from.octets().map(Any);
}

impl Encode for Integer<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        match self.to_i64() {
            Some(value) => to.integer(value),
            None => to.wide(self.as_be_bytes()),
        }
    }

    /// As INTEGERs of 64 bits: a word that says how many words each of them has, and they.
    fn encode_all<S: Sink, W: Word>(values: &[Self], to: &mut Encoder<S, W>) -> Result<(), Error> {
        let widest = values.iter().map(|value| value.as_be_bytes().len()).max().unwrap_or(1);
        let words = widest.div_ceil(W::BYTES);
        to.fixed(words as i64, 1)?;
        values.iter().try_for_each(|value| {
            let octets = value.as_be_bytes();
            let sign = if value.is_negative() { 0xff } else { 0 };
            (octets.len()..words * W::BYTES).try_for_each(|_| to.sink.put(&[sign]))?;
            to.sink.put(octets)
        })
    }
}

#[cfg(feature = "alloc")]
impl<'a> Decode<'a> for Integer<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let value = from.fixed(1)?;
        if value != i64::MIN >> (64 - 8 * W::BYTES) {
            return Ok(Integer::from(value));
        }
        let offset = from.position();
        let words = from.count(W::BYTES)?;
        if words == 0 {
            return Err(Problem::Contents("an INTEGER").at(offset));
        }
        Ok(Integer::of(from.octets_fixed(words * W::BYTES)?))
    }

    fn decode_all<S: Source<'a>, W: Word>(
        count: usize,
        from: &mut Decoder<S, W>,
    ) -> Result<Vec<Self>, Error> {
        let offset = from.position();
        let len = usize::try_from(from.word()?).ok().and_then(|n| n.checked_mul(W::BYTES));
        let len = len.filter(|&len| len > 0);
        let len = len.ok_or_else(|| Problem::Contents("a number of words").at(offset))?;
        from.elements(count, |from| from.octets_fixed(len).map(Integer::of))
    }
}

// SEQUENCE OF: a count, and the elements. What is behind a pointer is one level deeper.
holders! { [W: Word]
    list |list, to| {
        to.count(list.len())?;
        T::encode_all(list, to)
    },
    |from| from.sequence_of(),
    pointer |from| from.nested(T::decode)
}
