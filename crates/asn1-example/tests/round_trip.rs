//! Values of the generated types go through BER, DER and LWS and come back.

use fusewire_asn1_example::{geography, telemetry};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::lws;
use fusewire_codec::types::{BitString, GeneralizedTime, Oid, PrintableString};

use telemetry::{Flags, Reading, Report, State, Station};

fn text(text: &'static str) -> PrintableString<'static> {
    text.try_into().expect("printable")
}

fn report() -> Report<'static> {
    Report {
        station: Station {
            name: text("Mast 3"),
            place: Some(geography::Place { latitude: 189_000, longitude: -44_000, name: None }),
            serial: 77.into(),
            altitude: Some(12.5),
        },
        taken: GeneralizedTime::try_from("20260101120000Z").expect("a time"),
        readings: vec![
            Reading::Count((-5).into()),
            Reading::Level(0.25),
            Reading::Vector(vec![1.into(), 300.into()]),
            Reading::State(State::Broken),
            Reading::Nested(Box::new(Reading::Level(f64::INFINITY))),
        ],
        remarks: None,
        urgency: telemetry::Urgency::ROUTINE,
        flags: Flags(BitString::new(&[0x80], 7).expect("one bit")),
        signature: None,
        signer: None,
    }
}

#[test]
fn there_and_back() {
    for rules in [Rules::Ber, Rules::Der] {
        let bytes = ber::to_vec(&report(), rules).expect("a value");
        assert_eq!(ber::from_bytes::<Report>(&bytes, rules).expect("its encoding"), report());
    }
}

#[test]
fn there_and_back_in_words() {
    let mut signed = report();
    signed.signer = Some(signed.station.clone());
    for value in [report(), signed] {
        let bytes = lws::to_vec::<u32, _>(&value).expect("a value");
        assert_eq!(lws::from_bytes::<u32, Report>(&bytes).expect("its encoding"), value);
        let bytes = lws::to_vec::<u16, _>(&value).expect("a value");
        assert_eq!(lws::from_bytes::<u16, Report>(&bytes).expect("its encoding"), value);
        for end in 0..bytes.len() {
            assert!(lws::from_bytes::<u16, Report>(&bytes[..end]).is_err());
        }
    }
}

#[test]
fn defaults_are_left_out_and_come_back() {
    let bytes = ber::to_vec(&report(), Rules::Der).expect("a value");
    let mut other = report();
    other.urgency = telemetry::Urgency::NOW;
    let more = ber::to_vec(&other, Rules::Der).expect("a value");
    assert_eq!(more.len(), bytes.len() + 3);
    assert_eq!(&more[more.len() - 3..], b"\x81\x01\x02");
}

#[test]
fn errors_say_where() {
    let mut bytes = ber::to_vec(&report(), Rules::Der).expect("a value");
    let at = bytes.windows(3).position(|w| w == b"\x84\x01\x07").expect("the state");
    bytes[at + 2] = 0x60;
    // The item is unknown to this version, which the extension marker lets pass.
    assert!(ber::from_bytes::<Report>(&bytes, Rules::Der).is_ok());
    bytes[at] = 0x9e;
    let error = ber::from_bytes::<Report>(&bytes, Rules::Der).expect_err("no such alternative");
    assert!(error.to_string().contains("readings[3]"), "{error}");
}

#[test]
fn open_types_are_decoded_by_their_table() {
    let place = geography::Place { latitude: 1, longitude: 2, name: None };
    let form = ber::to_vec(&vec![place.clone()], Rules::Der).expect("a value");
    let sheet = geography::Sheet {
        layer: Oid::from_arcs(&[1, 3, 99999, 2, 1]).expect("an identifier"),
        form: fusewire_codec::types::Any::new(&form),
    };
    let bytes = ber::to_vec(&sheet, Rules::Der).expect("a value");
    let back: geography::Sheet = ber::from_bytes(&bytes, Rules::Der).expect("its encoding");
    match back.decode_form(Rules::Der).expect("its form") {
        geography::SheetForm::Type1(places) => assert_eq!(places, [place]),
        other => panic!("{other:?}"),
    }
    assert_eq!(telemetry::ID_REPORT, Oid::from_arcs(&[1, 3, 99999, 1, 1]).expect("an identifier"));
    assert_eq!(geography::MAX_READINGS, 1000);
}
