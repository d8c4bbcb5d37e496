//! rasn, BER, DER and OER; and the der crate.

use crate::{Case, Values, both};
use rasn::prelude::{Decode, Encode};
use rasn::types::{Integer, PrintableString};

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    // An i64 is a bounded INTEGER to rasn's OER, of eight octets each; ours is the unbounded one.
    let unbounded: Vec<Integer> = values.ints.iter().copied().map(Integer::from).collect();
    let strings: Vec<PrintableString> = values
        .strings
        .iter()
        .map(|s| PrintableString::try_from(s.as_str()).expect("printable"))
        .collect();
    ber(cases, "ints", &values.ints);
    oer(cases, "ints", &unbounded);
    ber(cases, "strings", &strings);
    oer(cases, "strings", &strings);
    let strings: Vec<der::asn1::PrintableString> = values
        .strings
        .iter()
        .map(|s| der::asn1::PrintableString::new(s).expect("printable"))
        .collect();
    der(cases, "ints", &values.ints);
    der(cases, "strings", &strings);
}

/// BER and DER.
pub fn ber<T: Encode + Decode + Clone + 'static>(
    cases: &mut Vec<Case>,
    of: &'static str,
    values: &Vec<T>,
) {
    both(
        cases,
        ("rasn BER", of),
        (values.len(), values.clone()),
        |values| rasn::ber::encode(values).expect("encodes"),
        rasn::ber::decode::<Vec<T>>,
    );
    both(
        cases,
        ("rasn DER", of),
        (values.len(), values.clone()),
        |values| rasn::der::encode(values).expect("encodes"),
        rasn::der::decode::<Vec<T>>,
    );
}

fn oer<T: Encode + Decode + Clone + 'static>(
    cases: &mut Vec<Case>,
    of: &'static str,
    values: &Vec<T>,
) {
    both(
        cases,
        ("rasn OER", of),
        (values.len(), values.clone()),
        |values| rasn::oer::encode(values).expect("encodes"),
        rasn::oer::decode::<Vec<T>>,
    );
}

fn der<T>(cases: &mut Vec<Case>, of: &'static str, values: &Vec<T>)
where
    T: Clone + 'static,
    Vec<T>: der::Encode + for<'a> der::Decode<'a, Error = der::Error>,
{
    both(
        cases,
        ("der", of),
        (values.len(), values.clone()),
        |values| der::Encode::to_der(values).expect("encodes"),
        |bytes| <Vec<T> as der::Decode>::from_der(bytes),
    );
}
