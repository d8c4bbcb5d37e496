//! prost: the same values as fields of a message.

use crate::{Case, Values, both};
use prost::Message;

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

fn message<M: Message + Default + Clone + 'static>(
    cases: &mut Vec<Case>,
    of: &'static str,
    elements: usize,
    value: M,
) {
    both(cases, ("prost", of), (elements, value), M::encode_to_vec, |bytes| M::decode(bytes));
}

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    message(cases, "ints", values.ints.len(), Ints { values: values.ints.clone() });
    message(cases, "reals", values.reals.len(), Reals { values: values.reals.clone() });
    message(cases, "strings", values.strings.len(), Strings { values: values.strings.clone() });
}
