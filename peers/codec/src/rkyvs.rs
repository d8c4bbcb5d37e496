//! rkyv: archived, and checked and deserialised again.

use crate::{Case, Values, pair};
use rkyv::rancor::Error;
use std::hint::black_box;

macro_rules! both {
    ($cases:expr, $of:literal, $value:expr, $type:ty) => {{
        let value: $type = $value;
        let (elements, bytes) = (value.len(), rkyv::to_bytes::<Error>(&value).expect("encodes"));
        pair(
            $cases,
            ("rkyv", $of),
            (elements, bytes.len()),
            move || drop(black_box(rkyv::to_bytes::<Error>(black_box(&value)).expect("encodes"))),
            move || {
                drop(black_box(
                    rkyv::from_bytes::<$type, Error>(black_box(&bytes)).expect("decodes"),
                ))
            },
        );
    }};
}

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    both!(cases, "ints", values.ints.clone(), Vec<i64>);
    both!(cases, "reals", values.reals.clone(), Vec<f64>);
    both!(cases, "strings", values.strings.clone(), Vec<String>);
}
