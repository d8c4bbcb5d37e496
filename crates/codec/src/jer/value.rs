//! What each type is in JSON.

use super::{Decode, Decoder, Encode, Encoder};
use crate::forward::{holders, values};
use crate::types::characters::Coding;
use crate::types::time::of_notation;
use crate::types::{
    Alphabet, Any, BitString, Date, DateTime, Integer, Octets, Oid, RelativeOid, Text, TimeOfDay,
};

/// Numbers of the machine.
macro_rules! numbers {
    ($($type:ty),*) => {
        values! { [] $($type => |value, to| to.number(*value), |from| from.machine_integer();)* }
    };
}

numbers! { u8, u16, u32, u64, i8, i16, i32, i64 }

values! { []
    bool => |value, to| to.bool(*value), |from| from.bool();
    () => |_value, to| to.null(), |from| from.null();
    f64 => |value, to| to.real(*value), |from| from.real();
    Integer<'a> =>
        |value, to| to.integer(value.as_be_bytes()),
        |from| from.integer().map(|bytes| Integer::of(Octets::from(bytes)));
    /// BIT STRING of any length.
    BitString<'a> =>
        |bits, to| to.bits(bits.as_bytes(), bits.unused(), None), |from| from.bits(None);
    Octets<'a> => |octets, to| to.digits(octets), |from| from.digits();
    Oid<'a> =>
        |oid, to| to.oid(oid.as_contents(), false),
        |from, offset| Oid::decoded(from.oid(false)?, offset);
    RelativeOid<'a> =>
        |oid, to| to.oid(oid.as_contents(), true),
        |from, offset| RelativeOid::decoded(from.oid(true)?, offset);
    Text<'a, A> [A: Alphabet] =>
        |text, to| to.characters(Coding::of_tag(A::TAG.into()), text.as_bytes()),
        |from, offset| Text::decoded(from.characters(Coding::of_tag(A::TAG.into()))?, offset);
    /// The useful time types: their notation.
    Date => |date, to| to.string(date.as_str()),
        |from, offset| of_notation(from.string()?.as_bytes(), offset);
    TimeOfDay => |time, to| to.string(time.as_str()),
        |from, offset| of_notation(from.string()?.as_bytes(), offset);
    DateTime => |both, to| to.string(both.as_str()),
        |from, offset| of_notation(from.string()?.as_bytes(), offset);
    /// An open type.
    Any<'a> => |any, to| to.open(any.as_bytes()), |from| from.open();
}

holders! { []
    list |list, to| to.array(list, |to, element| element.encode(to)), |from| from.array(T::decode),
    pointer |from| T::decode(from)
}
