//! rkyv: archived, and checked and deserialised again.

use crate::{Case, Values, both};
use rkyv::rancor::Error;

macro_rules! list {
    ($cases:expr, $of:literal, $value:expr, $type:ty) => {{
        let value: $type = $value;
        both(
            $cases,
            ("rkyv", $of),
            (value.len(), value),
            |value| rkyv::to_bytes::<Error>(value).expect("encodes"),
            |bytes| rkyv::from_bytes::<$type, Error>(bytes),
        );
    }};
}

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    list!(cases, "ints", values.ints.clone(), Vec<i64>);
    list!(cases, "reals", values.reals.clone(), Vec<f64>);
    list!(cases, "strings", values.strings.clone(), Vec<String>);
}
