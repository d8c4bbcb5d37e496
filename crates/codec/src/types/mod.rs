//! The values that ASN.1 types have and Rust has no type for; all of them borrow from the input where they
//! can.

mod bits;
#[cfg(feature = "alloc")]
pub mod characters;
pub(crate) mod integer;
#[cfg(feature = "alloc")]
pub mod number;
mod octets;
mod oid;
pub mod real;
mod text;
pub(crate) mod time;

pub use bits::BitString;
pub use integer::Integer;
pub use octets::{Any, Octets};
pub use oid::{Oid, RelativeOid};
pub use text::{
    Alphabet, Bmp, BmpString, GeneralString, Generalized, GeneralizedTime, GraphicString, Ia5,
    Ia5String, NOT_CANONICAL_TIME, Numeric, NumericString, ObjectDescriptor, Printable,
    PrintableString, TeletexString, Text, Universal, UniversalString, Utc, UtcTime, Utf8,
    Utf8String, VideotexString, Visible, VisibleString, canonical_time,
};
pub use time::{Date, DateTime, Moment, TimeOfDay};

/// The elements of a SET OF: as a vector, but DER sorts their encodings.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetOf<T>(pub alloc::vec::Vec<T>);

#[cfg(feature = "alloc")]
impl<T> core::ops::Deref for SetOf<T> {
    type Target = alloc::vec::Vec<T>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[cfg(feature = "alloc")]
impl<T> core::ops::DerefMut for SetOf<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

#[cfg(feature = "alloc")]
impl<T> From<alloc::vec::Vec<T>> for SetOf<T> {
    fn from(elements: alloc::vec::Vec<T>) -> Self {
        SetOf(elements)
    }
}

#[cfg(feature = "alloc")]
impl<T> FromIterator<T> for SetOf<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        SetOf(elements.into_iter().collect())
    }
}
