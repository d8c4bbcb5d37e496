//! What a file may be wrapped in, and times as ISO 8601 has them.

use fusewire_asn1_values::characters::iso_time;
use fusewire_asn1_values::input::{Form, encodings};

#[test]
fn forms_are_recognised() {
    let ber = b"\x30\x03\x02\x01\x05";
    let one = |file: &'static [u8]| {
        let found = encodings(file, Form::Auto).unwrap();
        assert_eq!(found.len(), 1);
        found[0].bytes.to_vec()
    };
    assert_eq!(one(ber), ber);
    assert_eq!(one(b"30 03 02:01,05\n"), ber);
    assert_eq!(one(b"0x30, 0x03, 0x02, 0x01, 0x05"), ber);
    assert_eq!(one(b"text\n-----BEGIN A B-----\nMAMCAQU=\n-----END A B-----\n"), ber);
    assert_eq!(one(b"-----BEGIN X-----\nA: b\n\nMAMC\nAQU=\n-----END X-----"), ber);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let wrong = |file: &[u8], form| encodings(file, form).unwrap_err().to_string();
    assert_eq!(wrong(b"30\n0g", Form::Hex), "this is no hexadecimal text: `g` in line 2");
    assert_eq!(
        wrong(b"\n-----BEGIN A-----\n-----END B-----", Form::Pem),
        "this is no PEM: an END of another label than BEGIN's in line 3"
    );
    assert!(wrong(b"300", Form::Hex).contains("odd"));
    assert!(wrong(b"", Form::Pem).contains("BEGIN"));
    assert!(wrong(b"-----BEGIN A-----\n!\n-----END A-----", Form::Pem).contains("base 64"));
}

#[test]
fn times() {
    let iso = |text: &str, year| iso_time(text.as_bytes(), year);
    assert_eq!(iso("991231235959Z", 2).as_deref(), Some("1999-12-31T23:59:59Z"));
    assert_eq!(iso("4912312359Z", 2).as_deref(), Some("2049-12-31T23:59Z"));
    assert_eq!(iso("9105171030+0100", 2).as_deref(), Some("1991-05-17T10:30+01:00"));
    assert_eq!(iso("20240229235960.5Z", 4).as_deref(), Some("2024-02-29T23:59:60.5Z"));
    assert_eq!(iso("1991051710", 4).as_deref(), Some("1991-05-17T10"));
    for wrong in ["", "Z", "99", "991331235959Z", "991231235959X", "991231235959+1"] {
        assert_eq!(iso(wrong, 2), None, "{wrong}");
    }
}
