//! Arrays of numbers: elements of one size, as close as their alignment allows, so that a loop over them is a
//! copy that reverses bytes.

use super::{Encoder, Word};
use crate::{Error, Sink};

#[cfg(feature = "alloc")]
use super::{Decode, Decoder, fill_len};
#[cfg(feature = "alloc")]
use crate::types::{Alphabet, Octets, Text};
#[cfg(feature = "alloc")]
use crate::{Problem, Source};
#[cfg(feature = "alloc")]
use alloc::vec::Vec;
#[cfg(feature = "alloc")]
use core::marker::PhantomData;

/// Elements that are narrowed on the stack at a time, where a sink does not lend.
const STRIP: usize = 64;

impl<S: Sink, W: Word> Encoder<S, W> {
    /// Numbers of the size that their type has, filled to a word.
    #[inline]
    pub(super) fn filled<T: bytemuck::NoUninit>(&mut self, values: &[T]) -> Result<(), Error> {
        self.numbers(values)?;
        self.fill(size_of_val(values))
    }

    /// INTEGERs that their type does not constrain: a word that says how many words each has, and they.
    #[inline]
    pub(super) fn integers(&mut self, values: &[i64]) -> Result<(), Error> {
        if W::BYTES == 4 && self.all_narrow(values) {
            return Ok(());
        }
        let words = words::<W>(values);
        self.fixed(words as i64, 1)?;
        match words * W::BYTES {
            2 => self.narrow(values, |value| (value as i16).to_be_bytes()),
            4 => self.narrow(values, |value| (value as i32).to_be_bytes()),
            8 => self.numbers(values),
            // Three words of 16 bits.
            _ => self
                .narrow::<6>(values, |value| core::array::from_fn(|i| value.to_be_bytes()[2 + i])),
        }
    }

    /// Writes INTEGERs that each fit a word of 32 bits into memory that is lent, in one loop that also finds
    /// out whether they do; otherwise writes nothing.
    #[inline]
    fn all_narrow(&mut self, values: &[i64]) -> bool {
        let len = 4 + 4 * values.len();
        let Some((count, room)) = self.sink.lend(len).and_then(<[u8]>::split_first_chunk_mut)
        else {
            return false;
        };
        *count = 1u32.to_be_bytes();
        #[cfg(feature = "vectors")]
        if room.len() >= crate::vectors::LEAST {
            let fits = crate::vectors::narrow(values, room);
            if !fits {
                self.sink.take_back(len);
            }
            return fits;
        }
        let mut wide = 0;
        for (to, value) in room.as_chunks_mut().0.iter_mut().zip(values) {
            let (upper, lower) = ((value >> 32) as i32, *value as i32);
            wide |= upper ^ (lower >> 31);
            *to = lower.to_be_bytes();
        }
        if wide != 0 {
            self.sink.take_back(len);
        }
        wide == 0
    }

    #[inline(always)]
    fn narrow<const N: usize>(
        &mut self,
        values: &[i64],
        octets: impl Fn(i64) -> [u8; N],
    ) -> Result<(), Error> {
        if self.sink.pass_over(N * values.len()) {
            return Ok(());
        }
        if let Some(room) = self.sink.lend(N * values.len()) {
            for (to, value) in room.as_chunks_mut().0.iter_mut().zip(values) {
                *to = octets(*value);
            }
            return Ok(());
        }
        let mut strip = [[0; N]; STRIP];
        for values in values.chunks(STRIP) {
            for (to, value) in strip.iter_mut().zip(values) {
                *to = octets(*value);
            }
            self.sink.put(strip[..values.len()].as_flattened())?;
        }
        Ok(())
    }
}

/// The fewest words that hold each of the values.
#[inline]
fn words<W: Word>(values: &[i64]) -> usize {
    // Bits in which a value differs from its sign, in halves, which vectors have shifts for.
    let (mut high, mut low) = (0u32, 0u32);
    for value in values {
        let (upper, lower) = ((value >> 32) as i32, *value as i32);
        high |= (upper ^ (lower >> 31)) as u32;
        low |= (lower ^ (lower >> 31)) as u32;
    }
    let bits = match high {
        0 => 33 - low.leading_zeros(),
        _ => {
            let all = values.iter().fold(0, |all, value| all | (value ^ (value >> 63)));
            65 - all.leading_zeros()
        }
    };
    (bits as usize).div_ceil(8 * W::BYTES)
}

#[cfg(feature = "alloc")]
impl<'a, S: Source<'a>, W: Word> Decoder<S, W> {
    /// Numbers of the size that their type has, filled to a word.
    pub(super) fn filled<T: bytemuck::Pod>(&mut self, count: usize) -> Result<Vec<T>, Error> {
        let values = self.numbers(count)?;
        self.fill(size_of_val(&*values))?;
        Ok(values)
    }

    /// INTEGERs that their type does not constrain, if 64 bits hold them.
    pub(super) fn integers(&mut self, count: usize) -> Result<Vec<i64>, Error> {
        let offset = self.position();
        let words = self.word()? as usize;
        match words.checked_mul(W::BYTES) {
            Some(2) => self.widen(count, |bytes| i64::from(i16::from_be_bytes(bytes))),
            Some(4) => {
                #[cfg(feature = "vectors")]
                if let Some(len) = count.checked_mul(4)
                    && len >= crate::vectors::LEAST
                    && let Some(bytes) = self.source.lend(len)
                {
                    return Ok(crate::vectors::widen(bytes));
                }
                self.widen(count, |bytes| i64::from(i32::from_be_bytes(bytes)))
            }
            Some(6) => self.widen(count, |[a, b, rest @ ..]: [u8; 6]| {
                let low = u64::from(u32::from_be_bytes(rest)) as i64;
                i64::from(i16::from_be_bytes([a, b])) << 32 | low
            }),
            Some(8) => self.filled(count),
            None | Some(0) => Err(Problem::Contents("a number of words").at(offset)),
            Some(bytes) => Err(Problem::IntegerTooWide { bytes }.at(offset)),
        }
    }

    /// Character strings: those that lie in memory in one loop.
    pub(super) fn texts<A: Alphabet>(&mut self, count: usize) -> Result<Vec<Text<'a, A>>, Error> {
        let mut elements = self.room(count);
        let most = count.min(elements.capacity());
        let (data, word) = (self.source.ahead(), PhantomData::<W>);
        let loops = Texts { data, most, elements: &mut elements, word };
        let len = crate::run(count, loops);
        self.skip(len)?;
        for i in elements.len()..count {
            elements.push(Text::decode(self).map_err(|e| e.in_element(i))?);
        }
        Ok(elements)
    }

    #[inline(always)]
    fn widen<const N: usize>(
        &mut self,
        count: usize,
        value: impl Fn([u8; N]) -> i64,
    ) -> Result<Vec<i64>, Error> {
        self.are_there(count.saturating_mul(N))?;
        if let Some(bytes) = self.source.lend(N * count) {
            return Ok(bytes.as_chunks().0.iter().map(|bytes| value(*bytes)).collect());
        }
        let (mut values, mut strip) = (Vec::with_capacity(count), [[0; N]; STRIP]);
        while values.len() < count {
            let strip = &mut strip[..STRIP.min(count - values.len())];
            self.source.take(strip.as_flattened_mut())?;
            values.extend(strip.iter().map(|bytes| value(*bytes)));
        }
        Ok(values)
    }
}

/// Strings of which the count needs no escape. Gives where the first begins that is none of them.
#[cfg(feature = "alloc")]
struct Texts<'d, 'v, A, W> {
    data: &'d [u8],
    most: usize,
    elements: &'v mut Vec<Text<'d, A>>,
    word: PhantomData<W>,
}

#[cfg(feature = "alloc")]
impl<A: Alphabet, W: Word> crate::Loops for Texts<'_, '_, A, W> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let mut rest = self.data;
        while self.elements.len() < self.most
            && let Some((bytes, behind)) = string::<W>(rest)
            && A::holds(bytes)
        {
            self.elements.push(Text::checked(Octets::new(bytes)));
            rest = behind;
        }
        self.data.len() - rest.len()
    }
}

/// The bytes of a string, and what follows the zeros behind it.
#[cfg(feature = "alloc")]
#[inline(always)]
fn string<W: Word>(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, data) = match W::BYTES {
        2 => data.split_first_chunk().map(|(len, data)| (u16::from_be_bytes(*len).into(), data))?,
        4 => data.split_first_chunk().map(|(len, data)| (u32::from_be_bytes(*len).into(), data))?,
        _ => data.split_first_chunk().map(|(len, data)| (u64::from_be_bytes(*len), data))?,
    };
    if W::BYTES < 8 && len == u64::MAX >> (64 - 8 * W::BYTES) {
        return None;
    }
    let len = usize::try_from(len).ok()?;
    let (whole, rest) = data.split_at_checked(len.checked_add(fill_len::<W>(len))?)?;
    (crate::cursor::fill(whole, len, W::BYTES) == 0).then(|| (&whole[..len], rest))
}
