//! BER and DER of any type: what decodes is shown, read and encoded as it was.

use std::path::PathBuf;

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::{Encoding, Limits, Schema, Value, jer, notation};
use fusewire_codec::ber::Rules;

fn files(texts: &[(&str, &[u8])]) -> Vec<File> {
    let files = texts.iter().enumerate();
    files.map(|(n, (name, text))| File::parse(n, Source::new(*name, text))).collect()
}

fn shared(path: &str) -> Option<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/asn1");
    let root = std::env::var_os("FUSEWIRE_ASN1").map_or(root, PathBuf::from);
    std::fs::read(root.join(path)).ok()
}

/// Decodes, shows, reads what was shown, and encodes both; gives what is shown.
fn round(files: &[File], ty: &str, bytes: &[u8], rules: Rules) -> String {
    let world = World::new(files);
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty).unwrap();
    let value = Encoding::Tagged(rules).decode(&schema, id, bytes, Limits::default()).unwrap();
    assert_eq!(Encoding::Tagged(rules).encode(&schema, id, &value).unwrap(), bytes, "{value:?}");
    let shown = notation::to_text(&schema, &value, id);
    let again = read(files, ty, &shown, rules);
    assert_eq!(again, bytes, "{shown}");
    shown
}

fn read(files: &[File], ty: &str, text: &str, rules: Rules) -> Vec<u8> {
    let input = notation::Text::new(files.len(), "input", text, files, "NULL").unwrap();
    let world = World::new(files.iter().chain([input.file()]));
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty).unwrap();
    let value =
        notation::from_text(&mut schema, &input, id).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Encoding::Tagged(rules).encode(&schema, id, &value).unwrap()
}

fn fails(files: &[File], ty: &str, bytes: &[u8], rules: Rules) -> String {
    let world = World::new(files);
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty).unwrap();
    Encoding::Tagged(rules).decode(&schema, id, bytes, Limits::default()).unwrap_err().to_string()
}

const EVERYTHING: &str = include_str!("everything.asn1");

#[test]
fn every_type_is_shown_read_and_encoded_as_it_was() {
    let files = files(&[("everything.asn1", EVERYTHING.as_bytes())]);
    let bytes = read(&files, "Everything.All", include_str!("everything.txt"), Rules::Der);
    let all = round(&files, "Everything.All", &bytes, Rules::Der);
    assert_eq!(all, include_str!("everything.txt").trim_end());
}

#[test]
fn defaults_sets_and_named_bits_are_der() {
    let files = files(&[("everything.asn1", EVERYTHING.as_bytes())]);
    let fails = |bytes: &[u8]| fails(&files, "Everything.Small", bytes, Rules::Der);
    assert_eq!(round(&files, "Everything.Small", b"\x30\x00", Rules::Der), "{}");
    assert_eq!(
        round(&files, "Everything.Small", b"\x30\x03\x81\x01\x07", Rules::Der),
        "{\n  b 7\n}"
    );
    assert!(fails(b"\x30\x03\x81\x01\x05").contains("default value at offset 2, in b"));
    assert!(
        fails(b"\x30\x04\x82\x02\x06\x80").contains("named bits"),
        "{}",
        fails(b"\x30\x04\x82\x02\x06\x80")
    );
    assert!(
        fails(b"\x30\x06\xa3\x04\x02\x00\x02\x01")
            .starts_with("contents are not an INTEGER at offset 6, in d[0]")
    );
    assert!(
        fails(b"\x30\x08\xa3\x06\x02\x01\x05\x02\x01\x04")
            .contains("SET OF in order at offset 7, in d[1]")
    );
    assert!(fails(b"\x30\x02\x05\x00").contains("left over"));
}

#[test]
fn mpdus_of_p1_are_byte_for_byte() {
    let (Some(p1), Some(mpdus)) = (shared("p1/P1-1984-unnamed.asn"), shared("perf/mpdus.ber"))
    else {
        return eprintln!("not there: shared/data/asn1");
    };
    let list = b"L DEFINITIONS ::= BEGIN IMPORTS MPDU FROM P1; L ::= SEQUENCE OF MPDU END";
    let files = files(&[("p1", &p1), ("list", list)]);
    let shown = round(&files, "L.L", &mpdus, Rules::Ber);
    assert_eq!(shown.matches("mpduID {").count(), 18, "{shown}");
}

#[test]
fn a_value_knows_how_many_values_it_is() {
    let one = Value::List(vec![Value::Null, Value::Choice(0, Box::new(Value::Boolean(true)))]);
    assert_eq!(one.count(), 4);
}

#[test]
fn json_goes_both_ways() {
    let files = files(&[("everything.asn1", EVERYTHING.as_bytes())]);
    let bytes = read(&files, "Everything.All", include_str!("everything.txt"), Rules::Der);
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let id = schema.type_named("Everything.All").unwrap();
    let value =
        Encoding::Tagged(Rules::Der).decode(&schema, id, &bytes, Limits::default()).unwrap();
    let json = jer::to_json(&schema, &value, id);
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed["reals"][3], "INF");
    assert_eq!(parsed["fixedBits"], "ABC0");
    assert_eq!(parsed["bits"], serde_json::json!({ "value": "B0", "length": 5 }));
    assert_eq!(parsed["oid"], "1.2.840.113549");
    assert_eq!(parsed["choices"][2]["within"]["deeper"], "AA");
    assert_eq!(parsed["table"][0]["values"][0], "t");
    assert_eq!(parsed["strings"]["ia5"], "a\nb\u{7f}");
    assert!(!json.contains(fusewire_asn1_values::characters::is_unsafe), "{json}");
    let again = jer::from_json(&schema, &json, id).unwrap();
    assert_eq!(Encoding::Tagged(Rules::Der).encode(&schema, id, &again).unwrap(), bytes, "{json}");
    let wrong = |text: &str| jer::from_json(&schema, text, id).unwrap_err().to_string();
    assert!(wrong("{").starts_with("this is no JSON"));
    assert_eq!(wrong(r#"{"boolean":1}"#), "`1` is not true or false, in boolean");
    assert_eq!(wrong(r#"{"nothing":1}"#), "the type has no component `nothing`");
}

/// `ContentInfo` and the others are of modules that are not given.
const PARTS: &str = "P DEFINITIONS ::= BEGIN
    IMPORTS ContentInfo, Extra, Kind FROM PKCS-7;
    PFX ::= SEQUENCE { version INTEGER, authSafe ContentInfo, extra Extra OPTIONAL, end BOOLEAN }
    Tagged ::= SEQUENCE { a [0] IMPLICIT Kind, b [1] EXPLICIT Kind OPTIONAL }
    One ::= CHOICE { other Kind, number INTEGER }
    Both ::= SET { other Kind, number INTEGER }
END";

#[test]
fn a_component_of_a_missing_module_is_opaque() {
    let files = files(&[("p.asn1", PARTS.as_bytes())]);
    for (ty, bytes, part) in [
        ("PFX", &[0x30, 11, 2, 1, 3, 0x30, 3, 2, 1, 5, 1, 1, 0xff][..], "authSafe '3003020105'H"),
        ("PFX", &[0x30, 11, 2, 1, 3, 2, 1, 5, 5, 0, 1, 1, 0xff], "extra '0500'H"),
        ("Tagged", &[0x30, 8, 0x80, 1, 9, 0xa1, 3, 2, 1, 7], "a '800109'H"),
        ("Tagged", &[0x30, 8, 0x80, 1, 9, 0xa1, 3, 2, 1, 7], "b '020107'H"),
        ("One", &[4, 1, 9], "other : '040109'H"),
        ("One", &[2, 1, 9], "number : 9"),
        ("Both", &[0x31, 6, 2, 1, 9, 4, 1, 7], "other '040107'H"),
    ] {
        for rules in [Rules::Ber, Rules::Der] {
            let shown = round(&files, ty, bytes, rules);
            assert!(shown.contains(part), "{shown}, not {part}");
        }
        let world = World::new(&files);
        let mut schema = Schema::new(&world);
        let id = schema.type_named(ty).unwrap();
        let der = Encoding::Tagged(Rules::Der);
        let value = der.decode(&schema, id, bytes, Limits::default()).unwrap();
        let json = jer::to_json(&schema, &value, id);
        let again = jer::from_json(&schema, &json, id).unwrap();
        assert_eq!(der.encode(&schema, id, &again).unwrap(), bytes, "{json}");
    }
    let wrong = fails(&files, "Tagged", &[0x30, 3, 0x81, 1, 9], Rules::Ber);
    assert!(wrong.contains("in a") && wrong.contains("[0]"), "{wrong}");
}

#[test]
fn an_opaque_value_is_one_encoding_and_needs_one_that_says_its_length() {
    let files = files(&[("p.asn1", PARTS.as_bytes())]);
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let id = schema.type_named("Tagged").unwrap();
    let encode = |encoding: &str, octets: &str| {
        let json = format!(r#"{{"a":{{"octets":"{octets}"}}}}"#);
        let value = jer::from_json(&schema, &json, id).unwrap();
        let encoding = Encoding::from_name(encoding).unwrap();
        encoding.encode(&schema, id, &value).map_err(|e| e.to_string())
    };
    assert_eq!(encode("ber", "800109"), Ok(vec![0x30, 3, 0x80, 1, 9]));
    for octets in ["", "80", "800109FF", "040109"] {
        assert!(encode("ber", octets).is_err(), "{octets}");
    }
    for encoding in ["oer", "xdr", "lws32"] {
        let told = encode(encoding, "800109").unwrap_err();
        assert!(told.contains("`Kind` is of a module that is not there"), "{told}");
    }
}
