//! Values of the generated types as JSON: there and back, by the interpreter of the modules too; what is hostile is
//! refused.

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_example::{geography, telemetry};
use fusewire_asn1_values::{Encoding, Limits, Schema, jer as by_module};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::types::{Any, BitString, GeneralizedTime, Oid, PrintableString};
use fusewire_codec::{Problem, jer};

use telemetry::{Flags, Reading, Report, State, Station};

fn report() -> Report<'static> {
    let text = |text: &'static str| PrintableString::try_from(text).expect("printable");
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
            Reading::Vector(vec![1.into(), 300.into()]),
            Reading::State(State::Broken),
            Reading::Nested(Box::new(Reading::Level(f64::NEG_INFINITY))),
        ],
        remarks: None,
        urgency: telemetry::Urgency::ROUTINE,
        flags: Flags(BitString::new(&[0x80], 7).expect("one bit")),
        signature: None,
        signer: None,
    }
}

fn json(value: &Report<'_>) -> String {
    String::from_utf8(jer::to_vec(value).expect("a value")).expect("text")
}

fn refused(text: &str) -> Problem {
    *jer::from_bytes::<Report>(text.as_bytes()).expect_err(text).problem()
}

#[test]
fn what_is_written_is_read_by_the_interpreter_and_back() {
    let mut signed = report();
    signed.signer = Some(signed.station.clone());
    let files: Vec<File> = [
        include_str!("../asn1/Telemetry.asn1"),
        include_str!("../asn1/Geography.asn1"),
        include_str!("../asn1/Mapping.asn1"),
    ]
    .iter()
    .enumerate()
    .map(|(n, text)| File::parse(n, Source::new(format!("{n}"), text.as_bytes())))
    .collect();
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named("Telemetry.Report").expect("the type");
    for value in [report(), signed] {
        let text = json(&value);
        assert_eq!(jer::from_bytes::<Report>(text.as_bytes()).as_ref(), Ok(&value), "{text}");
        let told = by_module::from_json(&schema, &text, ty).expect("the value");
        let der = Encoding::Tagged(Rules::Der).encode(&schema, ty, &told).expect("a value");
        assert_eq!(der, ber::to_vec(&value, Rules::Der).expect("a value"), "{text}");
        let told = Encoding::Tagged(Rules::Der).decode(&schema, ty, &der, Limits::default());
        assert_eq!(by_module::to_json(&schema, &told.expect("its encoding"), ty), text);
        for end in 0..text.len() {
            assert!(jer::from_bytes::<Report>(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}

#[test]
fn space_order_and_escapes_are_free() {
    let place = geography::Place { latitude: 5, longitude: -6, name: None };
    for text in [
        r#"{"latitude":5,"longitude":-6}"#,
        " {\t\"longitude\" :\r\n -6 , \"latitude\":5 } ",
        r#"{"l\u0061titude":5,"longitude":-6}"#,
    ] {
        assert_eq!(jer::from_bytes::<geography::Place>(text.as_bytes()).as_ref(), Ok(&place));
    }
}

#[test]
fn what_is_hostile_is_refused() {
    let text = json(&report());
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        text.replacen(from, to, 1)
    };
    assert_eq!(refused(&with("{\"station\"", "{\"flags\":{},\"flags\":{},\"station\"")), {
        Problem::Contents("a BIT STRING with its length")
    });
    assert_eq!(refused(&with("\"serial\":77", "\"serial\":77,\"serial\":77")), Problem::Twice);
    assert_eq!(refused(&with("\"serial\":77,", "")), Problem::Missing);
    assert_eq!(
        refused(&with("\"serial\":77", &format!("\"serial\":{}", "9".repeat(100_000)))),
        Problem::Contents("a whole number")
    );
    assert_eq!(refused(&with("12.5", "1e999")), Problem::Contents("a number"));
    for wrong in ["077", "+77", "7.", "0x4d", "\"77\"", "77e", "-", "NaN", "[77]"] {
        refused(&with("\"serial\":77", &format!("\"serial\":{wrong}")));
    }
    for wrong in ["\\ud800", "\\u12", "\\x41", "\n", "\\"] {
        refused(&with("Mast 3", wrong));
    }
    let deep = |n: usize| {
        let nested = format!("{}{{\"level\":1.0}}{}", "{\"nested\":".repeat(n), "}".repeat(n));
        with("{\"count\":-5}", &nested)
    };
    assert!(jer::from_bytes::<Report>(deep(20).as_bytes()).is_ok());
    assert!(matches!(refused(&deep(10_000)), Problem::TooDeep { .. }));
    // What is passed over is as bounded as what is read.
    let unknown = |value: String| with("{\"station\"", &format!("{{\"later\":{value},\"station\""));
    assert!(jer::from_bytes::<Report>(unknown("{\"a\":[null,1]}".to_owned()).as_bytes()).is_ok());
    let brackets = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(matches!(refused(&unknown(brackets)), Problem::TooDeep { .. }));
    let many = format!("[{}0]", "0,".repeat(1 << 20));
    assert!(matches!(refused(&unknown(many)), Problem::TooMany { .. }));
    assert!(matches!(refused(&(text.clone() + "x")), Problem::LeftOver { left: 1 }));
}

#[test]
fn open_types_are_the_json_that_they_are() {
    let form = br#"[{"latitude":1,"longitude":2}]"#;
    let layer = Oid::from_arcs(&[1, 3, 99999, 2, 1]).expect("an identifier");
    let sheet = geography::Sheet { layer, form: Any::new(form) };
    let bytes = jer::to_vec(&sheet).expect("a value");
    let text = std::str::from_utf8(&bytes).expect("text");
    assert_eq!(text, r#"{"layer":"1.3.99999.2.1","form":[{"latitude":1,"longitude":2}]}"#);
    let back: geography::Sheet = jer::from_bytes(&bytes).expect("its encoding");
    assert_eq!(back, sheet);
    match back.decode_form_jer().expect("its form") {
        geography::SheetForm::Type1(places) => assert_eq!(places[0].longitude, 2),
        other => panic!("{other:?}"),
    }
    // What came from another encoding is no JSON, and neither is it lost.
    let sheet = geography::Sheet { form: Any::new(b"\x05\x00"), ..sheet };
    let bytes = jer::to_vec(&sheet).expect("a value");
    assert!(bytes.ends_with(br#""form":{"octets":"0500"}}"#));
    assert_eq!(jer::from_bytes::<geography::Sheet>(&bytes).as_ref(), Ok(&sheet));
}
