//! What can be wrong with a message, where, and in which part of the value.

use crate::ber::Tag;
use core::fmt;

#[cfg(feature = "alloc")]
use alloc::{boxed::Box, vec::Vec};

/// Why a value could not be marshalled or unmarshalled: the problem, its offset, and the path to it.
///
/// It is one pointer, so that a result travels in registers; only what fails allocates.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    #[cfg(feature = "alloc")]
    detail: Box<Detail>,
    #[cfg(not(feature = "alloc"))]
    detail: Detail,
}

#[derive(Clone, PartialEq, Eq)]
struct Detail {
    problem: Problem,
    offset: usize,
    /// Innermost first. Without an allocator there is none.
    #[cfg(feature = "alloc")]
    path: Vec<Step>,
}

/// One step from a value into a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into the component or alternative of that name.
    Field(&'static str),
    /// Into the element at that index, from 0.
    Index(usize),
}

impl Error {
    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.detail.problem
    }

    /// Bytes before the field that is wrong, from the start of the message. When encoding: bytes that were
    /// written before.
    pub fn offset(&self) -> usize {
        self.detail.offset
    }

    /// The same error of a part that begins `by` bytes into the message.
    pub(crate) fn later(mut self, by: usize) -> Error {
        self.detail.offset += by;
        self
    }

    /// The way from the outermost value to what is wrong, outermost first.
    #[cfg(feature = "alloc")]
    pub fn path(&self) -> impl Iterator<Item = Step> + '_ {
        self.detail.path.iter().rev().copied()
    }

    /// The same error, seen from one value further out.
    #[cold]
    #[must_use]
    pub fn within(mut self, step: Step) -> Error {
        self.push(step);
        self
    }

    /// Sees the error from one value further out.
    #[cold]
    #[inline(never)]
    #[cfg_attr(not(feature = "alloc"), allow(unused_variables, reason = "there is no path"))]
    pub fn push(&mut self, step: Step) {
        #[cfg(feature = "alloc")]
        self.detail.path.push(step);
    }

    /// The same error, seen from the value of which the wrong one is component `name`.
    #[must_use]
    pub fn in_field(self, name: &'static str) -> Error {
        self.within(Step::Field(name))
    }

    /// The same error, seen from the value of which the wrong one is element `index`.
    #[must_use]
    pub fn in_element(self, index: usize) -> Error {
        self.within(Step::Index(index))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.detail.problem, self.detail.offset)?;
        #[cfg(feature = "alloc")]
        for (i, step) in self.path().enumerate() {
            if i == 0 {
                f.write_str(", in ")?;
            }
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self}: {:?})", self.detail.problem)
    }
}

impl core::error::Error for Error {}

/// What is wrong, by blame: the first group is the input's fault, the second the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The input ends inside a field.
    Truncated {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// Bytes follow where the message or a constructed value should have ended.
    LeftOver {
        /// How many.
        left: usize,
    },
    /// A variable length exceeds the bound of its type.
    TooLong {
        /// The length that the input gives.
        found: u64,
        /// The largest that is allowed.
        bound: u64,
    },
    /// A length or count is below the least that its type has.
    TooShort {
        /// The length that the input gives.
        found: u64,
        /// The least that is allowed.
        bound: u64,
    },
    /// A fill byte or bit is not zero.
    Fill {
        /// The byte found.
        found: u8,
    },
    /// A boolean is none (XDR and LWS: neither 0 nor 1; DER and COER: neither 0 nor 255).
    Boolean {
        /// The word found.
        found: u32,
    },
    /// A number that the enumeration, union or choice does not have.
    Discriminant {
        /// The number found.
        found: i64,
        /// Name of the enumeration, union or choice.
        type_name: &'static str,
    },
    /// A value that its type allows and its meaning or a constraint does not.
    Value {
        /// The value found.
        value: u64,
        /// Name of the field or the type.
        field: &'static str,
    },
    /// A number that a constraint of its type does not allow.
    Range {
        /// The number found.
        found: i128,
        /// The least that is allowed.
        least: i128,
        /// The largest that is allowed. What is between them may have gaps.
        most: i128,
    },
    /// A tag where another one was expected.
    Tag {
        /// What the type has.
        expected: Tag,
        /// What the input has.
        found: Tag,
    },
    /// A tag that no component or alternative has.
    UnknownTag {
        /// The tag found.
        found: Tag,
        /// The type that does not have it.
        type_name: &'static str,
    },
    /// A tag that is too long, or one of a small number in the long form.
    BadTag,
    /// A component that is not OPTIONAL is missing.
    Missing,
    /// A component of a SET is there twice.
    Twice,
    /// A primitive encoding where only a constructed one may stand, or the reverse.
    Form {
        /// It is constructed and should be primitive.
        constructed: bool,
    },
    /// A length in a form that is not allowed: reserved, indefinite where it may not be, or wider than the
    /// address space.
    BadLength,
    /// The input is not canonical (DER, COER): what should have been there.
    NotCanonical(&'static str),
    /// The contents are no value of their type: what they should be.
    Contents(&'static str),
    /// A character that the string type does not have.
    Character {
        /// The first byte that is no character of it.
        found: u8,
        /// The type.
        type_name: &'static str,
    },
    /// An INTEGER that the program's type for it cannot hold.
    IntegerTooWide {
        /// Bytes of it.
        bytes: usize,
    },
    /// Types are nested deeper than the limit.
    TooDeep {
        /// The limit.
        bound: u32,
    },
    /// The message has more elements in all its arrays than the limit.
    TooMany {
        /// The limit.
        bound: u64,
    },
    /// All variable-length data together exceed the limit.
    TooLarge {
        /// The limit.
        bound: u64,
    },
    /// The value cannot be read without an allocator, or not in this encoding.
    Unsupported(&'static str),
    /// The sink has no room left.
    Full {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that there is room for.
        left: usize,
    },
}

impl Problem {
    /// This problem at `offset`.
    #[cold]
    #[inline(never)]
    pub fn at(self, offset: usize) -> Error {
        let detail = Detail {
            problem: self,
            offset,
            #[cfg(feature = "alloc")]
            path: Vec::new(),
        };
        #[cfg(feature = "alloc")]
        let detail = Box::new(detail);
        Error { detail }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Problem as P;
        match *self {
            P::Truncated { needed, left } => {
                write!(f, "truncated: {needed} bytes needed, {left} left")
            }
            P::LeftOver { left } => write!(f, "{left} bytes left over"),
            P::TooLong { found, bound } => write!(f, "length {found} exceeds the bound of {bound}"),
            P::TooShort { found, bound } => write!(f, "length {found} is below {bound}"),
            P::Fill { found } => write!(f, "fill byte {found:#04x} is not zero"),
            P::Boolean { found } => write!(f, "boolean {found:#x} is neither false nor true"),
            P::Discriminant { found, type_name } => write!(f, "{found} is no {type_name}"),
            P::Value { value, field } => write!(f, "{value} is not allowed for {field}"),
            P::Range { found, least: i128::MIN, most } => write!(f, "{found} is above {most}"),
            P::Range { found, least, most: i128::MAX } => write!(f, "{found} is below {least}"),
            P::Range { found, least, most } => write!(f, "{found} is none of {least} to {most}"),
            P::Tag { expected, found } => write!(f, "tag {found} where {expected} is expected"),
            P::UnknownTag { found, type_name } => write!(f, "tag {found} in {type_name}"),
            P::BadTag => f.write_str("tag in a form that is not allowed"),
            P::Missing => f.write_str("a component is missing"),
            P::Twice => f.write_str("a component is there twice"),
            P::Form { constructed: true } => f.write_str("constructed, but should be primitive"),
            P::Form { constructed: false } => f.write_str("primitive, but should be constructed"),
            P::BadLength => f.write_str("length in a form that is not allowed"),
            P::NotCanonical(what) => write!(f, "not canonical: {what}"),
            P::Contents(what) => write!(f, "contents are not {what}"),
            P::Character { found, type_name } => {
                write!(f, "byte {found:#04x} is no character of {type_name}")
            }
            P::IntegerTooWide { bytes } => write!(f, "INTEGER of {bytes} bytes is too wide"),
            P::TooDeep { bound } => write!(f, "nested deeper than {bound}"),
            P::TooMany { bound } => write!(f, "more than {bound} elements"),
            P::TooLarge { bound } => write!(f, "more than {bound} bytes of variable length"),
            P::Unsupported(what) => write!(f, "not supported: {what}"),
            P::Full { needed, left } => {
                write!(f, "no room: {needed} bytes needed, {left} left")
            }
        }
    }
}

impl core::error::Error for Problem {}
