//! A pipeline of stages as [`Sink`] and [`Source`]: `marshal ▸ swap ▸ encrypt ▸ sum ▸ store` is one pass, and
//! `load ▸ sum ▸ decrypt ▸ swap ▸ unmarshal` the other.
//!
//! [`Message`] is a value on its way out: whatever implements [`lws::Encode`], [`oer::Encode`] or [`xdr::Encode`],
//! generated or not. Scalars gather; arrays pass from the application's memory, their bytes swapped in the loop that
//! encrypts them. (BER is written backwards, so it is a slice before it passes: [`ber::encode_in`](crate::ber::encode_in).)
//!
//! [`Placed`] is memory on the way in: an array of numbers, whose bytes are swapped in the loop that deciphers them, a
//! value of any type that LWS, OER or XDR reads (an `Option`), or both one behind the other. A message is not known to be
//! genuine before its tag, which comes last: so what is unmarshalled in the pass goes to memory that is borrowed until the
//! tag was judged, and is wiped if it is wrong, and a length in it may reserve no more than the message is long. BER is
//! opened first, and decoded from there.
//!
//! ```
//! use fusewire_codec::pipeline::{Message, Placed};
//! use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
//!
//! let (level, cipher) = (Level::detect(), Cipher::AES_256_GCM);
//! let mut transform = Transform::new(level, Execution::Integrated, Swap::None, cipher, &[7; 32]);
//! let samples: Vec<i32> = (0..4096).collect();
//!
//! let message = Message::lws::<u32>(&samples)?;
//! let (mut sealed, mut tag) = (vec![0; message.len()], [0; 16]);
//! transform.send_message(&[1; 12], b"header", &message, &mut sealed, &mut tag);
//!
//! let mut received = vec![0; 4096];
//! let mut placed = Placed::lws::<u32>(&mut received[..]);
//! let opened = transform.receive_message(&[1; 12], b"header", (&sealed, sealed.len()), &tag, &mut placed);
//! assert!(opened.authentic);
//! placed.finish()?;
//! assert_eq!(received, samples);
//! # Ok::<(), fusewire_codec::Error>(())
//! ```

use crate::lws::{self, Word};
use crate::{Cursor, Error, Length, Limits, Problem, Sink, Source, oer, xdr};
use core::marker::PhantomData;
use core::ops::Range;
pub use fusewire_kernels::message::{
    Lent, Marshal, Opening, Sealing, Sum, Unmarshal, marshal, unmarshal,
};

impl Sink for Sealing<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match Sealing::put(self, bytes) {
            true => Ok(()),
            false => Err(full(self, bytes.len())),
        }
    }

    #[inline(always)]
    fn position(&self) -> usize {
        self.taken()
    }

    #[inline]
    fn put_elements(&mut self, elements: &[u8], width: usize) -> Result<(), Error> {
        match Sealing::put_elements(self, elements, width) {
            true => Ok(()),
            false => Err(full(self, elements.len())),
        }
    }

    #[inline]
    fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        Sealing::lend(self, len)
    }

    fn take_back(&mut self, len: usize) {
        Sealing::take_back(self, len);
    }
}

#[cold]
fn full(sealing: &Sealing<'_>, needed: usize) -> Error {
    Problem::Full { needed, left: sealing.left() }.at(sealing.taken())
}

macro_rules! sources {
    ($($from:ident, #[$inline:meta];)*) => {$(
        impl<'a> Source<'a> for $from<'_> {
            #[inline(always)]
            fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
                match $from::take(self, into) {
                    true => Ok(()),
                    false => Err(truncated((self.given(), self.left()), into.len())),
                }
            }

            #[$inline]
            fn position(&self) -> usize {
                self.given()
            }

            #[$inline]
            fn remaining(&self) -> usize {
                self.left()
            }

            #[$inline]
            fn take_elements(&mut self, into: &mut [u8], width: usize) -> Result<(), Error> {
                match $from::take_elements(self, into, width) {
                    true => Ok(()),
                    false => Err(truncated((self.given(), self.left()), into.len())),
                }
            }
        }
    )*};
}

sources! { Opening, #[inline]; Lent, #[inline(always)]; }

#[cold]
#[inline(never)]
fn truncated((given, left): (usize, usize), needed: usize) -> Error {
    Problem::Truncated { needed, left }.at(given)
}

/// How a value is written.
pub trait Encoding<T: ?Sized> {
    /// Writes it.
    ///
    /// # Errors
    /// The sink is full, or the value is none of its type.
    fn encode(value: &T, to: impl Sink) -> Result<(), Error>;
}

/// LWS of words `W`.
#[derive(Clone, Copy, Debug)]
pub struct Lws<W>(PhantomData<W>);

impl<W: Word, T: lws::Encode + ?Sized> Encoding<T> for Lws<W> {
    #[inline]
    fn encode(value: &T, to: impl Sink) -> Result<(), Error> {
        value.encode(&mut lws::Encoder::<_, W>::new(to))
    }
}

/// OER.
#[derive(Clone, Copy, Debug)]
pub struct Oer(());

impl<T: oer::Encode + ?Sized> Encoding<T> for Oer {
    #[inline]
    fn encode(value: &T, to: impl Sink) -> Result<(), Error> {
        value.encode(&mut oer::Encoder::new(to))
    }
}

/// XDR.
#[derive(Clone, Copy, Debug)]
pub struct Xdr(());

impl<T: xdr::Encode + ?Sized> Encoding<T> for Xdr {
    #[inline]
    fn encode(value: &T, to: impl Sink) -> Result<(), Error> {
        value.encode(&mut xdr::Encoder::new(to))
    }
}

/// A value that is encoded while it is sent. What is wrong with it is found out when this is made.
#[derive(Debug)]
pub struct Message<'v, T: ?Sized, E> {
    value: &'v T,
    len: usize,
    encoding: PhantomData<E>,
}

impl<'v, T: ?Sized> Message<'v, T, ()> {
    /// In LWS of words `W`.
    ///
    /// # Errors
    /// The value is none of its type.
    pub fn lws<W: Word>(value: &'v T) -> Result<Message<'v, T, Lws<W>>, Error>
    where
        T: lws::Encode,
    {
        Message::of(value)
    }

    /// In OER.
    ///
    /// # Errors
    /// The value is none of its type.
    pub fn oer(value: &'v T) -> Result<Message<'v, T, Oer>, Error>
    where
        T: oer::Encode,
    {
        Message::of(value)
    }

    /// In XDR.
    ///
    /// # Errors
    /// A variable length exceeds its bound.
    pub fn xdr(value: &'v T) -> Result<Message<'v, T, Xdr>, Error>
    where
        T: xdr::Encode,
    {
        Message::of(value)
    }
}

impl<'v, T: ?Sized, E> Message<'v, T, E> {
    /// In encoding `E`. A pass over the value that only counts: arrays of numbers cost nothing.
    ///
    /// # Errors
    /// The value is none of its type.
    pub fn of(value: &'v T) -> Result<Self, Error>
    where
        E: Encoding<T>,
    {
        let mut length = Length::default();
        E::encode(value, &mut length)?;
        Ok(Message { value, len: length.position(), encoding: PhantomData })
    }

    /// Bytes of the encoding.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The encoding is no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: ?Sized, E: Encoding<T>> Marshal for Message<'_, T, E> {
    fn marshalled_len(&self) -> usize {
        self.len
    }

    #[inline]
    fn marshal(&self, to: &mut Sealing<'_>) {
        // It was counted, so it fits; if the value has changed since, what was given is not what was said.
        let _ = E::encode(self.value, to);
    }
}

/// A syntax that is read forwards, each length before what it measures: so it can be read in the pass. BER is none of
/// them where its lengths are indefinite or its strings in pieces: it is opened first, and decoded from there.
pub trait Syntax {
    /// What its decoder knows.
    type Rules;

    /// Reads from `source` within `limits`.
    fn decoder<'a, S: Source<'a>>(source: S, limits: Limits) -> Cursor<S, Self::Rules>;

    /// The count in front of elements.
    ///
    /// # Errors
    /// Truncated, or beyond the limits.
    fn count<'a, S: Source<'a>>(from: &mut Cursor<S, Self::Rules>) -> Result<usize, Error>;

    /// What follows `len` bytes of elements up to the syntax's unit.
    ///
    /// # Errors
    /// Truncated, or not zeros.
    fn fill<'a, S: Source<'a>>(from: &mut Cursor<S, Self::Rules>, len: usize) -> Result<(), Error>;
}

impl<W: Word> Syntax for Lws<W> {
    type Rules = lws::Words<W>;

    #[inline]
    fn decoder<'a, S: Source<'a>>(source: S, limits: Limits) -> lws::Decoder<S, W> {
        lws::Decoder::new(source, limits)
    }

    #[inline]
    fn count<'a, S: Source<'a>>(from: &mut lws::Decoder<S, W>) -> Result<usize, Error> {
        from.count(0)
    }

    #[inline]
    fn fill<'a, S: Source<'a>>(from: &mut lws::Decoder<S, W>, len: usize) -> Result<(), Error> {
        from.fill(len)
    }
}

/// Canonical or not.
impl Syntax for Oer {
    type Rules = oer::Rules;

    #[inline]
    fn decoder<'a, S: Source<'a>>(source: S, limits: Limits) -> oer::Decoder<S> {
        oer::Decoder::new(source, oer::Rules::Oer, limits)
    }

    #[inline]
    fn count<'a, S: Source<'a>>(from: &mut oer::Decoder<S>) -> Result<usize, Error> {
        from.quantity()
    }

    #[inline]
    fn fill<'a, S: Source<'a>>(_: &mut oer::Decoder<S>, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

impl Syntax for Xdr {
    type Rules = xdr::Units;

    #[inline]
    fn decoder<'a, S: Source<'a>>(source: S, limits: Limits) -> xdr::Decoder<S> {
        xdr::Decoder::new(source, limits)
    }

    #[inline]
    fn count<'a, S: Source<'a>>(from: &mut xdr::Decoder<S>) -> Result<usize, Error> {
        from.count(u32::MAX)
    }

    #[inline]
    fn fill<'a, S: Source<'a>>(from: &mut xdr::Decoder<S>, len: usize) -> Result<(), Error> {
        from.fill(len)
    }
}

/// A number whose elements lie side by side in syntax `E`, as in memory but for the order of their bytes.
pub trait Packed<E>: bytemuck::Pod {}

macro_rules! packed {
    (words: $($type:ty),*) => { $(impl<W: Word> Packed<Lws<W>> for $type {})* };
    ($syntax:ty: $($type:ty),*) => { $(impl Packed<$syntax> for $type {})* };
}

packed!(words: i8, i16, i32, u8, u16, u32, u64, f64);
packed!(Oer: i8, i16, i32, u8, u16, u32, u64);
packed!(Xdr: i32, i64, u32, u64, f32, f64);

/// How a value is read.
pub trait Decoding<T>: Syntax {
    /// Reads one.
    ///
    /// # Errors
    /// The input is none.
    fn decode<S: Source<'static>>(from: &mut Cursor<S, Self::Rules>) -> Result<T, Error>;
}

macro_rules! decoding {
    ($($module:ident, $syntax:ty $(, $word:ident)?;)*) => {$(
        impl<$($word: Word,)? T: $module::Decode<'static>> Decoding<T> for $syntax {
            #[inline]
            fn decode<S: Source<'static>>(from: &mut Cursor<S, Self::Rules>) -> Result<T, Error> {
                T::decode(from)
            }
        }
    )*};
}

decoding! { lws, Lws<W>, W; oer, Oer; xdr, Xdr; }

/// Memory for what is read before it is known to be genuine, in syntax `E`; wiped if it is not.
pub trait Place<E: Syntax> {
    /// Reads it. What is allocated on the way is bounded by the message's length.
    ///
    /// # Errors
    /// The input is no encoding of it.
    fn place<S: Source<'static>>(&mut self, from: &mut Cursor<S, E::Rules>) -> Result<(), Error>;

    /// Holds nothing any more.
    fn wipe(&mut self);
}

/// A SEQUENCE OF numbers, or an array of XDR's, as many as the memory has room for.
impl<E: Syntax, T: Packed<E>> Place<E> for [T] {
    fn place<S: Source<'static>>(&mut self, from: &mut Cursor<S, E::Rules>) -> Result<(), Error> {
        let count = E::count(from)?;
        if count != self.len() {
            let (found, bound) = (count as u64, self.len() as u64);
            return Err(from.error(match found < bound {
                true => Problem::TooShort { found, bound },
                false => Problem::TooLong { found, bound },
            }));
        }
        from.source.take_elements(bytemuck::cast_slice_mut(self), size_of::<T>())?;
        E::fill(from, size_of_val(self))
    }

    fn wipe(&mut self) {
        self.fill(T::zeroed());
    }
}

/// Memory for a fixed-length array of XDR's (RFC 4506, section 4.12): as many elements, and nothing in front of them.
#[derive(Debug)]
pub struct Fixed<'m, T>(
    /// All of the elements.
    pub &'m mut [T],
);

impl<T: Packed<Xdr>> Place<Xdr> for Fixed<'_, T> {
    #[inline]
    fn place<S: Source<'static>>(&mut self, from: &mut xdr::Decoder<S>) -> Result<(), Error> {
        from.source.take_elements(bytemuck::cast_slice_mut(self.0), size_of::<T>())
    }

    fn wipe(&mut self) {
        self.0.fill(T::zeroed());
    }
}

/// Memory for the arrays of many messages, each behind those that were kept, of as many numbers as it has. A message whose
/// array it has no room for is none of this shape.
#[derive(Debug)]
pub struct Arrays<'m, T> {
    memory: &'m mut [T],
    /// Elements that are kept, and where the last array ends.
    kept: usize,
    filled: usize,
}

impl<'m, T> Arrays<'m, T> {
    /// In `memory`, of which nothing is used yet.
    pub fn new(memory: &'m mut [T]) -> Arrays<'m, T> {
        Arrays { memory, kept: 0, filled: 0 }
    }

    /// Keeps the array that was placed last; where it lies in the memory.
    pub fn keep(&mut self) -> Range<usize> {
        let range = self.kept..self.filled;
        self.kept = self.filled;
        range
    }
}

impl<E: Syntax, T: Packed<E>> Place<E> for Arrays<'_, T> {
    #[inline]
    fn place<S: Source<'static>>(&mut self, from: &mut Cursor<S, E::Rules>) -> Result<(), Error> {
        let count = E::count(from)?;
        let room = &mut self.memory[self.kept..];
        let bound = room.len() as u64;
        let Some(array) = room.get_mut(..count) else {
            return Err(from.error(Problem::TooLong { found: count as u64, bound }));
        };
        from.source.take_elements(bytemuck::cast_slice_mut(array), size_of::<T>())?;
        self.filled = self.kept + count;
        E::fill(from, count * size_of::<T>())
    }

    /// But for what is kept.
    fn wipe(&mut self) {
        self.memory[self.kept..self.filled].fill(T::zeroed());
        self.filled = self.kept;
    }
}

/// A value of any shape.
impl<T, E: Decoding<T>> Place<E> for Option<T> {
    fn place<S: Source<'static>>(&mut self, from: &mut Cursor<S, E::Rules>) -> Result<(), Error> {
        *self = Some(E::decode(from)?);
        Ok(())
    }

    fn wipe(&mut self) {
        *self = None;
    }
}

/// A SEQUENCE of two, one behind the other.
impl<E: Syntax, A: Place<E>, B: Place<E> + ?Sized> Place<E> for (A, &mut B) {
    fn place<S: Source<'static>>(&mut self, from: &mut Cursor<S, E::Rules>) -> Result<(), Error> {
        self.0.place(from)?;
        self.1.place(from)
    }

    fn wipe(&mut self) {
        self.0.wipe();
        self.1.wipe();
    }
}

/// Memory that a message in syntax `E` is unmarshalled into while it is received.
#[derive(Debug)]
pub struct Placed<'v, P: ?Sized, E> {
    into: &'v mut P,
    /// `None` before a message came.
    result: Option<Result<(), Error>>,
    syntax: PhantomData<E>,
}

impl<'v, P: ?Sized> Placed<'v, P, ()> {
    /// In LWS of words `W`.
    pub fn lws<W: Word>(into: &'v mut P) -> Placed<'v, P, Lws<W>>
    where
        P: Place<Lws<W>>,
    {
        Placed::new(into)
    }

    /// In OER.
    pub fn oer(into: &'v mut P) -> Placed<'v, P, Oer>
    where
        P: Place<Oer>,
    {
        Placed::new(into)
    }

    /// In XDR.
    pub fn xdr(into: &'v mut P) -> Placed<'v, P, Xdr>
    where
        P: Place<Xdr>,
    {
        Placed::new(into)
    }
}

impl<'v, E: Syntax, P: Place<E> + ?Sized> Placed<'v, P, E> {
    fn new(into: &'v mut P) -> Self {
        into.wipe();
        Placed { into, result: None, syntax: PhantomData }
    }

    /// Says, of a message that is genuine, whether it was one of this shape.
    ///
    /// # Errors
    /// It was not, or none came; the memory holds nothing of it.
    pub fn finish(mut self) -> Result<(), Error> {
        self.placed().map(drop)
    }

    /// As [`Placed::finish`], before the next message comes into the same memory, which is given.
    ///
    /// # Errors
    /// As [`Placed::finish`].
    #[inline]
    pub fn placed(&mut self) -> Result<&mut P, Error> {
        match self.result.take().unwrap_or_else(|| Err(Problem::Missing.at(0))) {
            Ok(()) => Ok(self.into),
            Err(error) => {
                self.into.wipe();
                Err(error)
            }
        }
    }
}

impl<E: Syntax, P: Place<E> + ?Sized> Placed<'_, P, E> {
    #[inline(always)]
    fn read(&mut self, from: impl Source<'static>) {
        let mut decoder = E::decoder(from, Limits::default());
        self.result = Some(self.into.place(&mut decoder).and_then(|()| decoder.finish()));
    }
}

impl<E: Syntax, P: Place<E> + ?Sized> Unmarshal for Placed<'_, P, E> {
    #[inline]
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        self.read(from);
    }

    #[inline]
    fn unmarshal_lent(&mut self, mut from: Lent<'_>) -> Sum {
        self.read(&mut from);
        from.finish()
    }

    fn wipe(&mut self) {
        self.into.wipe();
        self.result = None;
    }
}
