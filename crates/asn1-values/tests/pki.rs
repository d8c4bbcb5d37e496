//! Real data: what others encoded, by the modules that are published for it.

use std::path::{Path, PathBuf};

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::input::{Form, encodings};
use fusewire_asn1_values::value::Open;
use fusewire_asn1_values::{Encoding, Limits, Schema, Value, jer, notation};
use fusewire_codec::ber::Rules;

fn modules(names: &[&str]) -> Option<Vec<File>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let beside = beside.map(|f| f.join("shared/data/asn1")).find(|f| f.is_dir());
    let root = std::env::var_os("FUSEWIRE_ASN1").map(PathBuf::from).or(beside).unwrap_or_default();
    let root = root.join("modules");
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
    let certificates = encodings(&bundle, Form::Auto).unwrap();
    assert!(certificates.len() > 50, "{} certificates", certificates.len());
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named("PKIX1Explicit93.Certificate").unwrap();
    let (mut typed, mut texts) = (0, Vec::new());
    for (n, part) in certificates.iter().enumerate() {
        let value =
            Encoding::Tagged(Rules::Der).decode(&schema, ty, &part.bytes, Limits::default());
        let value = value.unwrap_or_else(|e| panic!("certificate {n}: {e}"));
        let again = Encoding::Tagged(Rules::Der).encode(&schema, ty, &value).unwrap();
        assert_eq!(again, *part.bytes, "certificate {n}");
        let json = jer::to_json(&schema, &value, ty);
        let back =
            jer::from_json(&schema, &json, ty).unwrap_or_else(|e| panic!("{n}: {e}: {json}"));
        assert_eq!(
            Encoding::Tagged(Rules::Der).encode(&schema, ty, &back).unwrap(),
            *part.bytes,
            "{json}"
        );
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
        assert_eq!(
            Encoding::Tagged(Rules::Der).encode(&schema, ty, &value).unwrap(),
            *part.bytes,
            "{text}"
        );
    }
}

/// Messages of LDAP (RFC 4511): a simple bind without a name (4.2), a search of the root DSE (4.5.1), and the request to
/// begin TLS (4.14.1), each byte for byte.
#[test]
fn messages_of_ldap_are_der_byte_for_byte() {
    let names = ["ietf_rfc_rfc4511_Lightweight-Directory-Access-Protocol-V3.asn1"];
    let Some(files) = modules(&names) else { return };
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named("Lightweight-Directory-Access-Protocol-V3.LDAPMessage").unwrap();
    let messages: [(&[u8], &str); 3] = [
        (b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", "protocolOp bindRequest : {"),
        (
            b"\x30\x25\x02\x01\x02\x63\x20\x04\x00\x0a\x01\x00\x0a\x01\x00\x02\x01\x00\x02\x01\x00\
              \x01\x01\x00\x87\x0bobjectClass\x30\x00",
            "filter present : '6F626A656374436C617373'H",
        ),
        (
            b"\x30\x1d\x02\x01\x03\x77\x18\x80\x161.3.6.1.4.1.1466.20037",
            "protocolOp extendedReq : {",
        ),
    ];
    for (bytes, part) in messages {
        let value =
            Encoding::Tagged(Rules::Der).decode(&schema, ty, bytes, Limits::default()).unwrap();
        let text = notation::to_text(&schema, &value, ty);
        assert!(text.contains(part), "{text}");
        assert_eq!(
            Encoding::Tagged(Rules::Der).encode(&schema, ty, &value).unwrap(),
            bytes,
            "{text}"
        );
    }
}

/// What `openssl cms` signs, by RFC 3852: the ContentInfo and the SignedData in it.
#[test]
fn what_openssl_signs_is_der_byte_for_byte() {
    let names = [
        "ietf_rfc_rfc3852_CryptographicMessageSyntax2004.asn1",
        "ietf_rfc_rfc3852_AttributeCertificateVersion1.asn1",
        "ietf_rfc_rfc2459_PKIX1Explicit93.asn1",
    ];
    let Some(mut files) = modules(&names) else { return };
    // It imports from the modules of 1988, which are those of 1993 in what it takes from them, but for this type.
    let of_1988 =
        "PKIX1Explicit88 { iso(1) identified-organization(3) dod(6) internet(1) security(5)
        mechanisms(5) pkix(7) mod(0) pkix1-explicit(18) } DEFINITIONS EXPLICIT TAGS ::= BEGIN
        IMPORTS Certificate, CertificateList, CertificateSerialNumber, Name FROM PKIX1Explicit93;
        AlgorithmIdentifier ::= SEQUENCE { algorithm OBJECT IDENTIFIER,
            parameters ANY DEFINED BY algorithm OPTIONAL } END";
    files.push(File::parse(files.len(), Source::new("1988", of_1988.as_bytes())));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cms");
    std::fs::create_dir_all(&folder).unwrap();
    let openssl = |arguments: &str| {
        let words = arguments.split(' ');
        let output =
            std::process::Command::new("openssl").args(words).current_dir(&folder).output();
        output.is_ok_and(|o| o.status.success())
    };
    std::fs::write(folder.join("text"), "One pass over the bytes.\n").unwrap();
    let is_made = openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -subj /CN=fusewire",
    ) && openssl(
        "cms -sign -binary -nodetach -in text -signer cert -inkey key -outform DER -out signed",
    );
    if !is_made {
        return eprintln!("not there: openssl");
    }
    let bytes = std::fs::read(folder.join("signed")).unwrap();
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let mut whole = |name: &str, bytes: &[u8]| {
        let ty = schema.type_named(&format!("CryptographicMessageSyntax2004.{name}")).unwrap();
        let value = Encoding::Tagged(Rules::Der).decode(&schema, ty, bytes, Limits::default());
        let value = value.unwrap_or_else(|e| panic!("{name}: {e}"));
        let text = notation::to_text(&schema, &value, ty);
        assert_eq!(
            Encoding::Tagged(Rules::Der).encode(&schema, ty, &value).unwrap(),
            bytes,
            "{text}"
        );
        (value, text)
    };
    let (info, _) = whole("ContentInfo", &bytes);
    let Value::Structure(info) = info else { panic!("{info:?}") };
    let Some(Value::Open(Open::Raw(inner, _))) = &info.members[1] else { panic!("{info:?}") };
    let (_, text) = whole("SignedData", inner);
    assert!(text.contains("signerInfos {"), "{text}");
}
