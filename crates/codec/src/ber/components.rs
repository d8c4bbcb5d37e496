//! Components of a SEQUENCE or SET, each by what stands in front of it, and by whether it must be there. Those that end
//! with `into` decode where the value stays (see [`Blank`](crate::Blank)): `place` is still as it makes it.

use super::{Decode, DecodeContents, Decoder, Tag};
use crate::{Error, Step};

/// The functions for components of one kind: in words, the trait that they have; the functions' names, and arguments; how
/// it is seen that one comes next, and how it is read, by value and into its place.
macro_rules! components {
    ($(
        $words:literal, $trait:ident,
        [$required:ident $optional:ident $default:ident $required_into:ident $optional_into:ident]
        ($($tag:ident)?)
        |$from:ident| $is_next:expr, $read:expr, |$place:ident| $read_into:expr;
    )*) => {
        impl<'a> Decoder<'a> {$(
            #[doc = concat!("A component that must be there, ", $words, ".")]
            ///
            /// # Errors
            /// As the component's own, which has `name` in its path.
            #[inline(always)]
            pub fn $required<T: $trait<'a>>(
                &mut self,
                name: &'static str,
                $($tag: Tag,)?
            ) -> Result<T, Error> {
                let $from = self;
                let mut result = $read;
                if let Err(error) = &mut result {
                    error.push(Step::Field(name));
                }
                result
            }

            #[doc = concat!("A component that may be there, ", $words, ".")]
            ///
            /// # Errors
            /// As the component's own, which has `name` in its path.
            #[inline(always)]
            pub fn $optional<T: $trait<'a>>(
                &mut self,
                name: &'static str,
                $($tag: Tag,)?
            ) -> Result<Option<T>, Error> {
                let $from = self;
                if !$is_next {
                    return Ok(None);
                }
                // Matched, not mapped: a large value is moved once less.
                match $read {
                    Ok(value) => Ok(Some(value)),
                    Err(error) => Err(error.in_field(name)),
                }
            }

            #[doc = concat!("A component with a DEFAULT, ", $words, ".")]
            ///
            /// # Errors
            /// As the component's own, which has `name` in its path; in DER also when it is there and is the default.
            #[inline(always)]
            pub fn $default<T: $trait<'a> + PartialEq>(
                &mut self,
                name: &'static str,
                $($tag: Tag,)?
                default: T,
            ) -> Result<T, Error> {
                let value = self.$optional(name $(, $tag)?)?;
                self.unless(name, value, default)
            }

            #[doc = concat!("A component that must be there, ", $words, ".")]
            ///
            /// # Errors
            #[doc = concat!("As [`Decoder::", stringify!($required), "`]. The value is anything then.")]
            #[inline(always)]
            pub fn $required_into<T: $trait<'a>>(
                &mut self,
                name: &'static str,
                $($tag: Tag,)?
                $place: &mut T,
            ) -> Result<(), Error> {
                let $from = self;
                let mut result = $read_into;
                if let Err(error) = &mut result {
                    error.push(Step::Field(name));
                }
                result
            }

            #[doc = concat!("A component that may be there, ", $words, ".")]
            ///
            /// # Errors
            #[doc = concat!("As [`Decoder::", stringify!($optional), "`]. The value is anything then.")]
            #[inline(always)]
            pub fn $optional_into<T: $trait<'a>>(
                &mut self,
                name: &'static str,
                $($tag: Tag,)?
                place: &mut Option<T>,
            ) -> Result<(), Error> {
                let $from = self;
                if !$is_next {
                    return Ok(());
                }
                match T::in_place() {
                    Some(blank) => $from.$required_into(name, $($tag,)? place.insert(blank())),
                    None => $from.$required(name $(, $tag)?).map(|value| *place = Some(value)),
                }
            }
        )*}
    };
}

components! {
    "with a tag of its own or a CHOICE", Decode,
    [required optional default required_into optional_into] ()
    |from| from.next_begins::<T>()?, T::decode(from), |place| T::decode_into(place, from);

    "its tag replaced: IMPLICIT", DecodeContents,
    [implicit optional_implicit default_implicit implicit_into optional_implicit_into] (tag)
    |from| from.next_is(tag), T::decode_as(tag, from), |place| T::as_into(place, tag, from);

    "within a value of `tag`: EXPLICIT", Decode,
    [explicit optional_explicit default_explicit explicit_into optional_explicit_into] (tag)
    |from| from.next_is(tag), from.within(tag, T::decode),
    |place| from.within(tag, |from| T::decode_into(place, from));
}
