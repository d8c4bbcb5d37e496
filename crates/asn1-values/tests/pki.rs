//! Real data: what others encoded, by the modules that are published for it.

use std::path::PathBuf;

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::input::{Form, parts};
use fusewire_asn1_values::{Limits, Schema, ber, jer, notation};
use fusewire_codec::ber::Rules;

fn modules(names: &[&str]) -> Option<Vec<File>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/asn1");
    let root = std::env::var_os("FUSEWIRE_ASN1").map_or(root, PathBuf::from).join("modules");
    let mut files = Vec::new();
    for (id, name) in names.iter().enumerate() {
        let Ok(text) = std::fs::read(root.join(name)) else {
            eprintln!("not there: {name}");
            return None;
        };
        files.push(File::parse(id, Source::new(*name, &text)));
    }
    Some(files)
}

/// The certificates that the system trusts, in DER byte for byte; as JSON and back; the first of them also as notation.
#[test]
fn the_systems_certificates_are_der_byte_for_byte() {
    let Ok(bundle) = std::fs::read("/etc/ssl/certs/ca-certificates.crt") else {
        return eprintln!("not there: the system's CA bundle");
    };
    let names = ["ietf_rfc_rfc2459_PKIX1Explicit93.asn1", "ietf_rfc_rfc2459_PKIX1Implicit93.asn1"];
    let Some(files) = modules(&names) else { return };
    let certificates = parts(&bundle, Form::Auto).unwrap();
    assert!(certificates.len() > 50, "{} certificates", certificates.len());
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named("PKIX1Explicit93.Certificate").unwrap();
    let (mut typed, mut texts) = (0, Vec::new());
    for (n, part) in certificates.iter().enumerate() {
        let value = ber::decode(&schema, ty, &part.bytes, Rules::Der, Limits::default());
        let value = value.unwrap_or_else(|e| panic!("certificate {n}: {e}"));
        let again = ber::encode(&schema, ty, &value, Rules::Der).unwrap();
        assert_eq!(again, *part.bytes, "certificate {n}");
        let json = jer::to_json(&schema, &value, ty);
        let back =
            jer::from_json(&schema, &json, ty).unwrap_or_else(|e| panic!("{n}: {e}: {json}"));
        assert_eq!(ber::encode(&schema, ty, &back, Rules::Der).unwrap(), *part.bytes, "{json}");
        let text = notation::to_text(&schema, &value, ty);
        typed += text.matches("value DirectoryString {").count();
        texts.push(text);
    }
    assert!(typed > certificates.len(), "{typed} typed:\n{}", texts[0]);
    for (text, part) in texts.iter().zip(&certificates).take(5) {
        let input = notation::Text::new(files.len(), "text", text, &files, "Certificate").unwrap();
        let world = World::new(files.iter().chain([input.file()]));
        let mut schema = Schema::new(&world);
        let ty = schema.type_named("PKIX1Explicit93.Certificate").unwrap();
        let value =
            notation::from_text(&mut schema, &input, ty).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(ber::encode(&schema, ty, &value, Rules::Der).unwrap(), *part.bytes, "{text}");
    }
}
