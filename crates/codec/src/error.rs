//! What can be wrong with a message, and where.

/// Why a value could not be marshalled or unmarshalled, and at which offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at offset {offset}")]
pub struct Error {
    /// What is wrong.
    pub problem: Problem,
    /// Bytes before the field that is wrong, from the start of the message.
    pub offset: usize,
}

/// What is wrong, by blame: the first group is the input's fault, the second the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The input ends inside a field.
    #[error("truncated: {needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// Bytes follow where the message should have ended.
    #[error("{left} bytes left over")]
    LeftOver {
        /// How many.
        left: usize,
    },
    /// A variable length exceeds the bound of its type (RFC 4506, sections 4.10 to 4.13).
    #[error("length {found} exceeds the bound of {bound}")]
    TooLong {
        /// The length that the input gives.
        found: u64,
        /// The largest that is allowed.
        bound: u64,
    },
    /// A fill byte is not zero (RFC 4506, section 3).
    #[error("fill byte {found:#04x} is not zero")]
    Fill {
        /// The byte found.
        found: u8,
    },
    /// A boolean is neither 0 nor 1 (RFC 4506, section 4.4).
    #[error("boolean {found:#x} is neither 0 nor 1")]
    Boolean {
        /// The word found.
        found: u32,
    },
    /// A number that the enumeration or union does not have (RFC 4506, sections 4.3 and 4.15).
    #[error("{found} is no {type_name}")]
    Discriminant {
        /// The word found.
        found: u32,
        /// Name of the enumeration or union.
        type_name: &'static str,
    },
    /// A value that its type allows and its meaning does not.
    #[error("{value} is not allowed for {field}")]
    Value {
        /// The value found.
        value: u64,
        /// Name of the field.
        field: &'static str,
    },
    /// Types are nested deeper than the limit.
    #[error("nested deeper than {bound}")]
    TooDeep {
        /// The limit.
        bound: u32,
    },
    /// The message has more elements in all its arrays than the limit.
    #[error("more than {bound} elements")]
    TooMany {
        /// The limit.
        bound: u64,
    },
    /// All variable-length data together exceed the limit.
    #[error("more than {bound} bytes of variable length")]
    TooLarge {
        /// The limit.
        bound: u64,
    },
    /// The sink has no room left.
    #[error("no room: {needed} bytes needed, {left} left")]
    Full {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that there is room for.
        left: usize,
    },
}

impl Problem {
    /// This problem at `offset`.
    pub const fn at(self, offset: usize) -> Error {
        Error { problem: self, offset }
    }
}
