//! rasn, BER and OER; and the der crate.

use crate::{Case, Values, pair};
use rasn::types::{Integer, PrintableString};
use std::hint::black_box;

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    let ints = values.ints.clone();
    let strings: Vec<PrintableString> = values
        .strings
        .iter()
        .map(|s| PrintableString::try_from(s.as_str()).expect("printable"))
        .collect();

    let ber = rasn::ber::encode(&ints).expect("encodes");
    let (value, len) = (ints.clone(), ber.len());
    pair(
        cases,
        ("rasn BER", "ints"),
        (ints.len(), len),
        move || drop(black_box(rasn::ber::encode(black_box(&value)).expect("encodes"))),
        move || drop(black_box(rasn::ber::decode::<Vec<i64>>(black_box(&ber)).expect("decodes"))),
    );

    // An i64 is a bounded INTEGER to rasn's OER, of eight octets each; ours is the unbounded one.
    let unbounded: Vec<Integer> = ints.iter().copied().map(Integer::from).collect();
    let oer = rasn::oer::encode(&unbounded).expect("encodes");
    let (value, len) = (unbounded, oer.len());
    pair(
        cases,
        ("rasn OER", "ints"),
        (ints.len(), len),
        move || drop(black_box(rasn::oer::encode(black_box(&value)).expect("encodes"))),
        move || {
            drop(black_box(rasn::oer::decode::<Vec<Integer>>(black_box(&oer)).expect("decodes")))
        },
    );

    let ber = rasn::ber::encode(&strings).expect("encodes");
    let (value, len) = (strings.clone(), ber.len());
    pair(
        cases,
        ("rasn BER", "strings"),
        (strings.len(), len),
        move || drop(black_box(rasn::ber::encode(black_box(&value)).expect("encodes"))),
        move || {
            drop(black_box(
                rasn::ber::decode::<Vec<PrintableString>>(black_box(&ber)).expect("decodes"),
            ))
        },
    );

    let oer = rasn::oer::encode(&strings).expect("encodes");
    let (value, len) = (strings.clone(), oer.len());
    pair(
        cases,
        ("rasn OER", "strings"),
        (strings.len(), len),
        move || drop(black_box(rasn::oer::encode(black_box(&value)).expect("encodes"))),
        move || {
            drop(black_box(
                rasn::oer::decode::<Vec<PrintableString>>(black_box(&oer)).expect("decodes"),
            ))
        },
    );

    {
        use der::{Decode, Encode};
        let value = ints.clone();
        let bytes = value.to_der().expect("encodes");
        let len = bytes.len();
        pair(
            cases,
            ("der", "ints"),
            (ints.len(), len),
            move || drop(black_box(black_box(&value).to_der().expect("encodes"))),
            move || drop(black_box(Vec::<i64>::from_der(black_box(&bytes)).expect("decodes"))),
        );
        let value: Vec<der::asn1::PrintableString> = values
            .strings
            .iter()
            .map(|s| der::asn1::PrintableString::new(s).expect("printable"))
            .collect();
        let bytes = value.to_der().expect("encodes");
        pair(
            cases,
            ("der", "strings"),
            (value.len(), bytes.len()),
            move || drop(black_box(black_box(&value).to_der().expect("encodes"))),
            move || {
                drop(black_box(
                    Vec::<der::asn1::PrintableString>::from_der(black_box(&bytes))
                        .expect("decodes"),
                ))
            },
        );
    }
}
