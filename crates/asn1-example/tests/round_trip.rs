//! Values of the generated types go through every transfer syntax and come back; what breaks a constraint does not.

use fusewire_asn1_example::{envelope, geography, mapping, telemetry};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::types::{BitString, GeneralizedTime, Oid, PrintableString};
use fusewire_codec::{Problem, jer, lws, oer, xdr};

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
fn there_and_back_in_octets_and_units() {
    let mut signed = report();
    signed.signer = Some(signed.station.clone());
    for value in [report(), signed] {
        let bytes = oer::to_vec(&value).expect("a value");
        for rules in [oer::Rules::Oer, oer::Rules::Coer] {
            assert_eq!(oer::from_bytes::<Report>(&bytes, rules).expect("its encoding"), value);
        }
        for end in 0..bytes.len() {
            assert!(oer::from_bytes::<Report>(&bytes[..end], oer::Rules::Oer).is_err());
        }
        let bytes = xdr::to_vec(&value).expect("a value");
        assert_eq!(xdr::from_bytes::<Report>(&bytes).expect("its encoding"), value);
        for end in 0..bytes.len() {
            assert!(xdr::from_bytes::<Report>(&bytes[..end]).is_err());
        }
    }
}

/// What is wrong with a value, in each of the syntaxes.
fn refusals<T>(value: &T) -> Vec<String>
where
    T: ber::Encode + oer::Encode + jer::Encode + xdr::Encode + lws::Encode,
{
    let mut told = Vec::new();
    for rules in [Rules::Ber, Rules::Der] {
        told.push(ber::to_vec(value, rules).expect_err("too much").to_string());
    }
    told.push(oer::to_vec(value).expect_err("too much").to_string());
    told.push(jer::to_vec(value).expect_err("too much").to_string());
    told.push(xdr::to_vec(value).expect_err("too much").to_string());
    told.push(lws::to_vec::<u32, _>(value).expect_err("too much").to_string());
    told
}

#[test]
fn constraints_hold_when_encoding() {
    let mut value = report();
    value.readings.clear();
    for told in refusals(&value) {
        assert!(told.contains("length 0 is below 1") && told.ends_with("in readings"), "{told}");
    }
    let mut value = report();
    value.station.place = Some(geography::Place { latitude: 700_000, longitude: 0, name: None });
    for told in refusals(&value) {
        assert!(told.contains("700000 is none of -648000 to 648000"), "{told}");
        assert!(told.ends_with("latitude"), "{told}");
    }
    let mut value = report();
    value.urgency = telemetry::Urgency(3);
    refusals(&value);
    let mut value = report();
    value.station.serial = (-1).into();
    for told in refusals(&value) {
        assert!(told.contains("-1 is below 0"), "{told}");
    }
}

#[test]
fn errors_of_encoding_have_the_whole_path() {
    let wrong = geography::Place { latitude: 700_000, longitude: 0, name: None };
    let is_at = |refusals: Vec<String>, path: &str| {
        for told in refusals {
            assert!(told.ends_with(&format!(", in {path}")), "{told}, not in {path}");
        }
    };
    let mut value = report();
    value.station.place = Some(wrong.clone());
    is_at(refusals(&value), "station.place.latitude");
    let mut value = report();
    value.signer = Some(Station { name: text(""), ..value.station.clone() });
    is_at(refusals(&value), "signer.name");
    is_at(refusals(&geography::Site::Place(wrong.clone())), "place.latitude");
    let right = geography::Place { latitude: 1, ..wrong.clone() };
    is_at(refusals(&vec![right, wrong]), "[1].latitude");
}

#[test]
fn constraints_hold_when_decoding() {
    let tile = |low: i32| geography::Corner {
        at: geography::Place { latitude: 1, longitude: 2, name: None },
        of: vec![1, low, 3],
    };
    let bytes = ber::to_vec(&tile(0x0009_0705), Rules::Der).expect("a value");
    let at = bytes.windows(3).position(|w| w == [9, 7, 5]).expect("the element");
    let mut wrong = bytes.clone();
    wrong[at] = 0x7f;
    let error = ber::from_bytes::<geography::Corner>(&wrong, Rules::Der).expect_err("no angle");
    assert!(error.to_string().ends_with("in of[1]"), "{error}");
    assert!(error.to_string().contains("none of -648000 to 648000 at offset"), "{error}");

    let bytes = oer::to_vec(&tile(0x0009_0705)).expect("a value");
    // No bits, 4 and 4 bytes of angles, a quantity of 3, three times 4 bytes.
    assert_eq!(bytes.len(), 1 + 4 + 4 + 2 + 12);
    let mut wrong = bytes.clone();
    wrong[15] = 0x7f;
    let error =
        oer::from_bytes::<geography::Corner>(&wrong, oer::Rules::Oer).expect_err("no angle");
    assert!(error.to_string().ends_with("in of[1]"), "{error}");

    let bytes = xdr::to_vec(&tile(0x0009_0705)).expect("a value");
    let mut wrong = bytes.clone();
    let at = bytes.windows(4).position(|w| w == [0, 9, 7, 5]).expect("the element");
    wrong[at] = 0x7f;
    let error = xdr::from_bytes::<geography::Corner>(&wrong).expect_err("no angle");
    assert!(error.to_string().ends_with("in of[1]"), "{error}");
    // Five elements are more than the type has, whatever follows.
    let mut wrong = bytes;
    wrong[at - 5] = 5;
    let error = xdr::from_bytes::<geography::Corner>(&wrong).expect_err("too many");
    assert!(error.to_string().contains("length 5 exceeds the bound of 4"), "{error}");
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

/// The components of a SET come in any order in BER and in one in DER, each once, and what must be there is.
fn set_in_any_order<'a, T>(value: &T, required: &[&str], room: &'a mut Vec<Vec<u8>>)
where
    T: ber::Encode + ber::Decode<'a> + PartialEq + std::fmt::Debug,
{
    let bytes = ber::to_vec(value, Rules::Der).expect("a value");
    // All lengths are of one octet.
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut rest = &bytes[2..];
    while let [_, len, ..] = rest {
        let (part, after) = rest.split_at(2 + usize::from(*len));
        parts.push(part);
        rest = after;
    }
    let set =
        |parts: &[&[u8]]| [&[bytes[0], parts.concat().len() as u8], &*parts.concat()].concat();
    assert_eq!(set(&parts), bytes);
    for at in 0..parts.len() {
        let mut turned = parts.clone();
        turned.rotate_left(at);
        let mut twice = parts.clone();
        twice.push(parts[at]);
        let mut fewer = parts.clone();
        fewer.remove(at);
        room.extend([turned, twice, fewer].map(|parts| set(&parts)));
    }
    let mut missing = Vec::new();
    for (at, [turned, twice, fewer]) in room.as_chunks().0.iter().enumerate() {
        assert_eq!(ber::from_bytes::<T>(turned, Rules::Ber).as_ref(), Ok(value));
        assert_eq!(ber::from_bytes::<T>(turned, Rules::Der).is_ok(), at == 0);
        let error = ber::from_bytes::<T>(twice, Rules::Ber).expect_err("it is there twice");
        assert!(matches!(error.problem(), Problem::Twice), "{error}");
        assert_eq!(error.path().count(), 1, "{error}");
        missing.extend(ber::from_bytes::<T>(fewer, Rules::Ber).err().map(|e| e.to_string()));
    }
    assert_eq!(missing.len(), required.len(), "{missing:?}");
    for name in required {
        assert!(missing.iter().any(|e| e.ends_with(&format!(", in {name}"))), "{missing:?}");
    }
}

#[test]
fn known_types_come_before_types_of_missing_modules() {
    // Neither the content nor what may follow it is known, but a BOOLEAN is no extra.
    let without = b"\x30\x0b\x02\x01\x03\x30\x03\x02\x01\x05\x01\x01\xff";
    let with = b"\x30\x0d\x02\x01\x03\x30\x03\x02\x01\x05\x05\x00\x01\x01\xff";
    for (bytes, has_extra) in [(&without[..], false), (&with[..], true)] {
        let letter = ber::from_bytes::<envelope::Letter>(bytes, Rules::Der).expect("a letter");
        assert_eq!((letter.extra.is_some(), letter.sealed), (has_extra, true));
        assert_eq!(letter.content.as_bytes(), b"\x30\x03\x02\x01\x05");
        assert_eq!(ber::to_vec(&letter, Rules::Der).expect("a value"), bytes);
    }
    let page = |bytes| ber::from_bytes::<envelope::Page>(bytes, Rules::Der).expect("a page");
    assert_eq!(page(b"\x02\x01\x07"), envelope::Page::Number(7.into()));
    assert!(matches!(page(b"\x04\x01\x07"), envelope::Page::Other(_)));
}

#[test]
fn components_of_sets() {
    set_in_any_order(&report().station, &["name", "serial"], &mut Vec::new());
    let spot = |x| mapping::Spot { x, y: 300 };
    let spots = mapping::Spots { left: spot(1), right: spot(2), far: Some(spot(3)), flag: true };
    set_in_any_order(&spots, &["left", "right", "flag"], &mut Vec::new());
}
