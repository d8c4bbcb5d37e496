//! prost: the same values as fields of a message.

use crate::{Case, Values, pair};
use prost::Message;
use std::hint::black_box;

#[derive(Clone, PartialEq, Message)]
struct Ints {
    #[prost(sfixed64, repeated, tag = "1")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Reals {
    #[prost(double, repeated, tag = "1")]
    values: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Strings {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

fn both<M: Message + Default + Clone + 'static>(
    cases: &mut Vec<Case>,
    of: &'static str,
    elements: usize,
    value: M,
) {
    let bytes = value.encode_to_vec();
    pair(
        cases,
        ("prost", of),
        (elements, bytes.len()),
        move || drop(black_box(black_box(&value).encode_to_vec())),
        move || drop(black_box(M::decode(black_box(&bytes[..])).expect("decodes"))),
    );
}

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    both(cases, "ints", values.ints.len(), Ints { values: values.ints.clone() });
    both(cases, "reals", values.reals.len(), Reals { values: values.reals.clone() });
    both(cases, "strings", values.strings.len(), Strings { values: values.strings.clone() });
}
