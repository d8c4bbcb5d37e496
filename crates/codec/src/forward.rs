//! What the syntaxes that write forwards have in common: an encoder is an [`Output`] with rules of its own, as a decoder
//! is a [`Cursor`](crate::Cursor); the traits of a type; and what each type is, as a table of how it is written and read.

use crate::{Error, Problem, Sink};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Writes a syntax to a sink: `R` says which, and holds what it must know.
#[derive(Debug)]
pub struct Output<S, R> {
    pub(crate) sink: S,
    #[cfg_attr(not(feature = "alloc"), allow(dead_code, reason = "they say which syntax it is"))]
    pub(crate) rules: R,
}

impl<S: Sink, R> Output<S, R> {
    /// The sink.
    pub fn into_inner(self) -> S {
        self.sink
    }

    /// Bytes written so far.
    pub fn position(&self) -> usize {
        self.sink.position()
    }

    /// An error at this point.
    #[cold]
    pub fn error(&self, problem: Problem) -> Error {
        problem.at(self.position())
    }

    /// `bytes` behind the last `head_len` bytes of `head`, filled with zeros up to a multiple of `unit`; both are 2, 4 or
    /// 8. Where the sink lends, with few stores.
    #[inline(always)]
    pub(crate) fn filled_octets(
        &mut self,
        head: u64,
        head_len: usize,
        bytes: &[u8],
        unit: usize,
    ) -> Result<(), Error> {
        let (head, fill) = (head.to_be_bytes(), bytes.len().wrapping_neg() % unit);
        if let Some(room) = self.sink.lend(head_len + bytes.len() + fill) {
            let (start, rest) = room.split_at_mut(head_len);
            start.copy_from_slice(&head[8 - head_len..]);
            // The last unit is zeros before bytes come over it.
            if let Some(last) = rest.len().checked_sub(unit) {
                rest[last..].copy_from_slice(&[0; 8][..unit]);
            }
            crate::ber::copy(&mut rest[..bytes.len()], bytes);
            return Ok(());
        }
        self.sink.put(&head[8 - head_len..])?;
        self.sink.put(bytes)?;
        self.sink.put(&[0; 8][..fill])
    }

    /// Numbers as they lie in memory, each in network byte order.
    #[inline]
    pub(crate) fn numbers<T: bytemuck::NoUninit>(&mut self, values: &[T]) -> Result<(), Error> {
        self.sink.put_elements(bytemuck::cast_slice(values), size_of::<T>())
    }
}

#[cfg(feature = "alloc")]
impl<R: Default> Output<Vec<u8>, R> {
    /// What `write` writes, in a vector of its own.
    pub(crate) fn apart(
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        let mut output = Output { sink: Vec::new(), rules: R::default() };
        write(&mut output)?;
        Ok(output.sink)
    }
}

/// A syntax in which what its receiver may not know stands behind a count of its bytes: an open type, and what a version
/// adds.
#[cfg(feature = "alloc")]
pub trait PutCounted: Clone {
    /// Writes bytes behind their count.
    ///
    /// # Errors
    /// The sink is full.
    fn put<S: Sink>(to: &mut Output<S, Self>, bytes: &[u8]) -> Result<(), Error>;
}

#[cfg(feature = "alloc")]
impl<S: Sink, R: PutCounted> Output<S, R> {
    /// What `write` writes, behind a count of its bytes: who does not know it can pass over it.
    ///
    /// # Errors
    /// As `write`'s own.
    pub fn counted(
        &mut self,
        write: impl FnOnce(&mut Output<Vec<u8>, R>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut inner = Output { sink: Vec::new(), rules: self.rules.clone() };
        write(&mut inner)?;
        R::put(self, &inner.sink)
    }
}

/// The traits of a syntax, by its name; and what its encoder and decoder are generic over beside sink and source.
macro_rules! traits {
    ($name:literal $(, $w:ident: $word:ident)?) => {
        #[doc = concat!("A type that ", $name, " can write.")]
        pub trait Encode {
            /// Writes the value.
            ///
            /// # Errors
            /// The sink is full, or the value is none of its type.
            fn encode<S: $crate::Sink $(, $w: $word)?>(
                &self,
                to: &mut Encoder<S $(, $w)?>,
            ) -> Result<(), $crate::Error>;

            /// Writes all values, one after the other: the elements of a SEQUENCE OF, which their count is in front of.
            ///
            /// # Errors
            /// As [`Encode::encode`].
            fn encode_all<S: $crate::Sink $(, $w: $word)?>(
                values: &[Self],
                to: &mut Encoder<S $(, $w)?>,
            ) -> Result<(), $crate::Error>
            where
                Self: Sized,
            {
                values
                    .iter()
                    .enumerate()
                    .try_for_each(|(i, value)| value.encode(to).map_err(|e| e.in_element(i)))
            }
        }

        #[doc = concat!("A type that ", $name, " can read.")]
        pub trait Decode<'a>: Sized {
            /// Reads a value.
            ///
            /// # Errors
            /// The input is no encoding of `Self`; the error says what is wrong and where.
            fn decode<S: $crate::Source<'a> $(, $w: $word)?>(
                from: &mut Decoder<S $(, $w)?>,
            ) -> Result<Self, $crate::Error>;

            /// For a type that is faster to decode where it stays than to move, what it is decoded over.
            #[inline(always)]
            fn in_place() -> Option<fn() -> Self> {
                None
            }

            /// As [`Decode::decode`], into a value that is still as [`Blank::blank`]($crate::Blank::blank) makes it.
            ///
            /// # Errors
            /// As [`Decode::decode`]; the value is then no value of the message.
            #[inline(always)]
            fn decode_into<S: $crate::Source<'a> $(, $w: $word)?>(
                place: &mut Self,
                from: &mut Decoder<S $(, $w)?>,
            ) -> Result<(), $crate::Error> {
                *place = Self::decode(from)?;
                Ok(())
            }

            /// Reads the elements of a SEQUENCE OF, `count` of them, which the limits have been asked about.
            ///
            /// # Errors
            /// As [`Decode::decode`].
            #[cfg(feature = "alloc")]
            fn decode_all<S: $crate::Source<'a> $(, $w: $word)?>(
                count: usize,
                from: &mut Decoder<S $(, $w)?>,
            ) -> Result<alloc::vec::Vec<Self>, $crate::Error> {
                match Self::in_place() {
                    None => from.elements(count, Self::decode),
                    Some(blank) => from.elements_in_place(count, blank, Self::decode_into),
                }
            }
        }
    };
}
pub(crate) use traits;

/// A function of the traits, of what stands in a row of [`values`].
macro_rules! function {
    (encode [$($w:ident: $word:ident)?] $(#[$attr:meta])* |$value:ident, $to:ident| $put:expr) => {
        $(#[$attr])*
        fn encode<S: $crate::Sink $(, $w: $word)?>(
            &self,
            $to: &mut Encoder<S $(, $w)?>,
        ) -> Result<(), $crate::Error> {
            let $value = self;
            $put
        }
    };
    (encode_all [$($w:ident: $word:ident)?] |$values:ident, $to:ident| $put:expr) => {
        fn encode_all<S: $crate::Sink $(, $w: $word)?>(
            $values: &[Self],
            $to: &mut Encoder<S $(, $w)?>,
        ) -> Result<(), $crate::Error> {
            $put
        }
    };
    (decode [$($w:ident: $word:ident)?] $(#[$attr:meta])*
     |$from:ident $(, $offset:ident)?| $take:expr) => {
        $(#[$attr])*
        fn decode<S: $crate::Source<'a> $(, $w: $word)?>(
            $from: &mut Decoder<S $(, $w)?>,
        ) -> Result<Self, $crate::Error> {
            $(let $offset = $from.position();)?
            $take
        }
    };
    (decode_all [$($w:ident: $word:ident)?] |$count:ident, $from:ident| $take:expr) => {
        #[cfg(feature = "alloc")]
        fn decode_all<S: $crate::Source<'a> $(, $w: $word)?>(
            $count: usize,
            $from: &mut Decoder<S $(, $w)?>,
        ) -> Result<alloc::vec::Vec<Self>, $crate::Error> {
            $take
        }
    };
}
pub(crate) use function;

/// What types are in a syntax: a row has how a value is written and read, the latter perhaps with the offset where it
/// began; and how many are at once, where that is not one by one. `[W: Word]` is what the encoder is generic over.
macro_rules! values {
    ($g:tt $(
        $(#[$attr:meta])*
        $type:ty $([$generic:ident: $bound:ident])? =>
            |$value:ident, $to:ident| $put:expr,
            |$from:ident $(, $offset:ident)?| $take:expr
            $(, all |$values:ident, $all_to:ident| $put_all:expr,
                |$count:ident, $all_from:ident| $take_all:expr)?;
    )*) => {$(
        impl<'a $(, $generic: $bound)?> Encode for $type {
            $crate::forward::function! { encode $g $(#[$attr])* |$value, $to| $put }
            $($crate::forward::function! { encode_all $g |$values, $all_to| $put_all })?
        }

        impl<'a $(, $generic: $bound)?> Decode<'a> for $type {
            $crate::forward::function! { decode $g $(#[$attr])* |$from $(, $offset)?| $take }
            $($crate::forward::function! { decode_all $g |$count, $all_from| $take_all })?
        }
    )*};
}
pub(crate) use values;

/// What holds values of a type `T`: SEQUENCE OF, by how a slice is written and a vector read; SET OF, which is the same in
/// the order at hand; and what a type contains itself through, by how the value behind it is read.
macro_rules! holders {
    ($g:tt list |$list:ident, $to:ident| $put:expr, |$from:ident| $take:expr,
     pointer |$pointer:ident| $value:expr) => {
        impl<T: Encode> Encode for &[T] {
            $crate::forward::function! { encode $g #[inline] |$list, $to| $put }
        }

        #[cfg(feature = "alloc")]
        impl<T: Encode> Encode for alloc::vec::Vec<T> {
            $crate::forward::function! { encode $g #[inline] |list, to| list.as_slice().encode(to) }
        }

        #[cfg(feature = "alloc")]
        impl<'a, T: Decode<'a>> Decode<'a> for alloc::vec::Vec<T> {
            $crate::forward::function! { decode $g #[inline] |$from| $take }
        }

        #[cfg(feature = "alloc")]
        impl<T: Encode> Encode for $crate::types::SetOf<T> {
            $crate::forward::function! { encode $g |list, to| list.0.encode(to) }
        }

        #[cfg(feature = "alloc")]
        impl<'a, T: Decode<'a>> Decode<'a> for $crate::types::SetOf<T> {
            $crate::forward::function! { decode $g
            |from| alloc::vec::Vec::decode(from).map($crate::types::SetOf) }
        }

        #[cfg(feature = "alloc")]
        impl<T: Encode> Encode for alloc::boxed::Box<T> {
            $crate::forward::function! { encode $g |value, to| (**value).encode(to) }
        }

        #[cfg(feature = "alloc")]
        impl<'a, T: Decode<'a>> Decode<'a> for alloc::boxed::Box<T> {
            $crate::forward::function! { decode $g
            |$pointer| $value.map(alloc::boxed::Box::new) }
        }
    };
}
pub(crate) use holders;
