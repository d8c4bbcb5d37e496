//! A pipeline of stages as [`Sink`] and [`Source`]: `marshal ▸ swap ▸ encrypt ▸ sum ▸ store` is one pass, and
//! `load ▸ sum ▸ decrypt ▸ swap ▸ unmarshal` the other.
//!
//! [`Message`] is a value on its way out: whatever implements [`lws::Encode`], [`oer::Encode`] or [`xdr::Encode`],
//! generated or not. Scalars gather; arrays pass from the application's memory, their bytes swapped in the loop that
//! encrypts them. (BER is written backwards, so it is a slice before it passes: [`ber::encode_in`](crate::ber::encode_in).)
//!
//! [`Placed`] is memory on the way in. A message is not known to be genuine before its tag, which comes last, so what
//! is unmarshalled in the pass has a fixed shape, goes to memory that is borrowed until the tag was judged, and is
//! wiped if it is wrong. A message of another shape is opened first, and decoded from there.
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

use crate::lws::{self, FixedSize, Word};
use crate::{Error, Length, Limits, Problem, Sink, Source, oer};
use core::marker::PhantomData;
use fusewire_kernels::message::{Marshal, Opening, Sealing, Unmarshal};

#[cfg(feature = "alloc")]
use crate::xdr;

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

impl<'a> Source<'a> for Opening<'_> {
    #[inline(always)]
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        match Opening::take(self, into) {
            true => Ok(()),
            false => Err(truncated(self, into.len())),
        }
    }

    fn position(&self) -> usize {
        self.given()
    }

    fn remaining(&self) -> usize {
        self.left()
    }

    #[inline]
    fn take_elements(&mut self, into: &mut [u8], width: usize) -> Result<(), Error> {
        match Opening::take_elements(self, into, width) {
            true => Ok(()),
            false => Err(truncated(self, into.len())),
        }
    }
}

#[cold]
fn truncated(opening: &Opening<'_>, needed: usize) -> Error {
    Problem::Truncated { needed, left: opening.left() }.at(opening.given())
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
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug)]
pub struct Xdr(());

#[cfg(feature = "alloc")]
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
        Message::new(value)
    }

    /// In OER.
    ///
    /// # Errors
    /// The value is none of its type.
    pub fn oer(value: &'v T) -> Result<Message<'v, T, Oer>, Error>
    where
        T: oer::Encode,
    {
        Message::new(value)
    }

    /// In XDR.
    ///
    /// # Errors
    /// A variable length exceeds its bound.
    #[cfg(feature = "alloc")]
    pub fn xdr(value: &'v T) -> Result<Message<'v, T, Xdr>, Error>
    where
        T: xdr::Encode,
    {
        Message::new(value)
    }
}

impl<'v, T: ?Sized, E> Message<'v, T, E> {
    /// A pass over the value that only counts: arrays of numbers cost nothing.
    fn new(value: &'v T) -> Result<Self, Error>
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

/// What can be read before it is known to be genuine: of a fixed shape, and wiped if it is not.
pub trait Place {
    /// Reads it.
    ///
    /// # Errors
    /// The input is no encoding of it.
    fn place<'a, S: Source<'a>, W: Word>(
        &mut self,
        from: &mut lws::Decoder<S, W>,
    ) -> Result<(), Error>;

    /// Holds nothing any more.
    fn wipe(&mut self);
}

/// A SEQUENCE OF numbers, as many as the memory has room for.
impl<T: for<'a> FixedSize<'a> + bytemuck::Pod> Place for [T] {
    fn place<'a, S: Source<'a>, W: Word>(
        &mut self,
        from: &mut lws::Decoder<S, W>,
    ) -> Result<(), Error> {
        let count = from.count(0)?;
        if count != self.len() {
            let (found, bound) = (count as u64, self.len() as u64);
            return Err(from.error(match found < bound {
                true => Problem::TooShort { found, bound },
                false => Problem::TooLong { found, bound },
            }));
        }
        from.numbers_into(self)
    }

    fn wipe(&mut self) {
        self.fill(T::zeroed());
    }
}

/// A value whose encodings have one size.
impl<T: for<'a> FixedSize<'a>> Place for Option<T> {
    fn place<'a, S: Source<'a>, W: Word>(
        &mut self,
        from: &mut lws::Decoder<S, W>,
    ) -> Result<(), Error> {
        *self = Some(T::decode(from)?);
        Ok(())
    }

    fn wipe(&mut self) {
        *self = None;
    }
}

/// A SEQUENCE of two, one behind the other.
impl<A: Place, B: Place + ?Sized> Place for (A, &mut B) {
    fn place<'a, S: Source<'a>, W: Word>(
        &mut self,
        from: &mut lws::Decoder<S, W>,
    ) -> Result<(), Error> {
        self.0.place(from)?;
        self.1.place(from)
    }

    fn wipe(&mut self) {
        self.0.wipe();
        self.1.wipe();
    }
}

/// Memory that a message in LWS of words `W` is unmarshalled into while it is received.
#[derive(Debug)]
pub struct Placed<'v, P: ?Sized, W> {
    into: &'v mut P,
    /// `None` before a message came.
    result: Option<Result<(), Error>>,
    word: PhantomData<W>,
}

impl<'v, P: Place + ?Sized> Placed<'v, P, ()> {
    /// In LWS of words `W`.
    pub fn lws<W: Word>(into: &'v mut P) -> Placed<'v, P, W> {
        Placed { into, result: None, word: PhantomData }
    }
}

impl<P: Place + ?Sized, W: Word> Placed<'_, P, W> {
    /// Says, of a message that is genuine, whether it was one of this shape.
    ///
    /// # Errors
    /// It was not, or none came; the memory holds nothing of it.
    pub fn finish(self) -> Result<(), Error> {
        let result = self.result.unwrap_or_else(|| Err(Problem::Missing.at(0)));
        if result.is_err() {
            self.into.wipe();
        }
        result
    }
}

impl<P: Place + ?Sized, W: Word> Unmarshal for Placed<'_, P, W> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        let mut decoder = lws::Decoder::<_, W>::new(from, Limits::default());
        self.result = Some(self.into.place(&mut decoder).and_then(|()| decoder.finish()));
    }

    fn wipe(&mut self) {
        self.into.wipe();
        self.result = None;
    }
}
