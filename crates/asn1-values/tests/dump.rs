//! What is shown of BER without a module.

use fusewire_asn1_values::dump::text::{Style, error_line, line};
use fusewire_asn1_values::dump::{Error, Options, Problem, json, walk};

fn shown(data: &[u8], options: Options) -> (Vec<String>, Result<(), Error>) {
    let style = Style::for_bytes(data.len(), false);
    let mut lines = Vec::new();
    let result = walk(data, options, |event| lines.push(line(&event, style)));
    (lines, result)
}

fn all(data: &[u8]) -> Vec<String> {
    let (lines, result) = shown(data, Options::default());
    result.unwrap();
    lines
}

#[test]
fn every_type_of_the_standard_is_read() {
    let one = |data: &[u8]| {
        let lines = all(data);
        assert_eq!(lines.len(), 1);
        lines[0][16..].to_owned()
    };
    assert_eq!(one(b"\x01\x01\xff"), "BOOLEAN TRUE");
    assert_eq!(one(b"\x02\x02\xff\x7f"), "INTEGER -129");
    assert_eq!(
        one(b"\x02\x11\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        "INTEGER 340282366920938463463374607431768211456"
    );
    assert_eq!(one(b"\x0a\x01\x07"), "ENUMERATED 7");
    assert_eq!(one(b"\x03\x02\x03\xa8"), "BIT STRING 5 bits: a8");
    assert_eq!(one(b"\x04\x02\x00\xff"), "OCTET STRING 00ff");
    assert_eq!(one(b"\x05\0"), "NULL");
    assert_eq!(one(b"\x06\x06\x2a\x86\x48\x86\xf7\x0d"), "OBJECT IDENTIFIER 1.2.840.113549");
    assert_eq!(one(b"\x0d\x02\x88\x37"), "RELATIVE-OID 1079");
    assert_eq!(one(b"\x09\x03\x80\xff\x03"), "REAL 1.5");
    assert_eq!(one(b"\x0c\x04a\xc3\xa9\""), "UTF8String \"a\u{e9}\\\"\"");
    assert_eq!(one(b"\x1e\x04\0a\x20\xac"), "BMPString \"a\u{20ac}\"");
    assert_eq!(one(b"\x1c\x04\0\0\0a"), "UniversalString \"a\"");
    assert_eq!(one(b"\x14\x01\xe9"), "TeletexString \"\u{e9}\"");
    assert_eq!(one(b"\x17\x0d991231235959Z"), "UTCTime \"991231235959Z\" 1999-12-31T23:59:59Z");
    assert_eq!(one(b"\x18\x0a1991051710"), "GeneralizedTime \"1991051710\" 1991-05-17T10");
    assert_eq!(one(b"\x5f\x87\x68\x01\x05"), "[APPLICATION 1000] 05");
    assert_eq!(one(b"\x81\x02ab"), "[1] \"ab\"");
    assert_eq!(one(b"\x81\0"), "[1] empty");
    assert_eq!(one(b"\x04\x81\x01a"), "OCTET STRING (length longer than need be) 61");
    assert_eq!(one(b"\x01\x02\0\0"), "BOOLEAN (a BOOLEAN is one octet) 0000");
    assert_eq!(one(b"\x17\x02zz"), "UTCTime (no time) 7a7a");
}

#[test]
fn nesting_offsets_and_indefinite_lengths() {
    let lines = all(b"\x30\x80\xa1\x03\x02\x01\x05\x24\x80\x04\x01a\0\0\0\0\x05\0");
    assert_eq!(
        lines,
        [
            "    0  2+inf    SEQUENCE",
            "    2  2+3        [1]",
            "    4  2+1          INTEGER 5",
            "    7  2+inf      OCTET STRING in pieces",
            "    9  2+1          OCTET STRING 61",
            "   12  2+0        end-of-contents",
            "   14  2+0      end-of-contents",
            "   16  2+0      NULL",
        ]
    );
}

#[test]
fn strings_that_hold_encodings_are_looked_into_when_asked() {
    let data = b"\x30\x0e\x04\x03\x02\x01\x05\x03\x04\x00\x30\x01\x01\x04\x01\x05";
    assert_eq!(all(data).len(), 4);
    let data = b"\x30\x0f\x04\x03\x02\x01\x05\x03\x05\x00\x30\x02\x05\x00\x04\x01\x05";
    let nested = Options { nested: true, ..Options::default() };
    let (lines, result) = shown(data, nested);
    assert_eq!(result, Ok(()));
    let tails: Vec<_> = lines.iter().map(|l| &l[16..]).collect();
    assert_eq!(
        tails,
        [
            "SEQUENCE",
            "  OCTET STRING holding",
            "    INTEGER 5",
            "  BIT STRING holding",
            "    SEQUENCE",
            "      NULL",
            "  OCTET STRING 05",
        ]
    );
}

#[test]
fn what_comes_before_an_error_is_shown_and_its_place_said() {
    let fails = |data: &[u8], count: usize, offset: usize, problem: Problem| {
        let (lines, result) = shown(data, Options::default());
        assert_eq!(result, Err(Error { offset, problem }), "{data:x?}");
        assert_eq!(lines.len(), count, "{data:x?}");
    };
    fails(b"\x30\x05\x02\x01\x05\x04\x09abc", 3, 7, Problem::Beyond { needed: 9, left: 0 });
    fails(b"\x30\x09\x02\x01\x05\x04\x09ab", 3, 7, Problem::Beyond { needed: 9, left: 2 });
    fails(b"\x30\x09\x02\x01\x05\x05\0", 3, 2, Problem::Beyond { needed: 9, left: 5 });
    fails(b"\x05\0\x1f", 1, 2, Problem::Truncated { needed: 3, left: 1 });
    fails(b"\x1f\x1e\0", 0, 0, Problem::TagPadded);
    fails(b"\x1f\x80\x1f\0", 0, 0, Problem::TagPadded);
    fails(b"\x1f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0", 0, 0, Problem::TagTooLong);
    fails(b"\x04\x80", 0, 0, Problem::IndefinitePrimitive);
    fails(b"\x04\xff", 0, 0, Problem::ReservedLength);
    fails(b"\x04\x89\x01\0\0\0\0\0\0\0\0", 0, 0, Problem::LengthTooLong { octets: 9 });
    fails(b"\x30\x80\x05\0", 2, 0, Problem::Unclosed);
    fails(b"\x05\0\0\0", 1, 2, Problem::StrayEnd);
    fails(b"\x30\x02\0\0", 1, 2, Problem::StrayEnd);
    let deep = [0x30, 0x80].repeat(100);
    let (lines, result) = shown(&deep, Options { depth: 5, nested: true });
    assert_eq!(result, Err(Error { offset: 10, problem: Problem::TooDeep { bound: 5 } }));
    assert_eq!(lines.len(), 6);
    let line = error_line(&result.unwrap_err(), Style::for_bytes(9, false));
    assert_eq!(line, "   10  error: nested deeper than 5");
}

#[test]
fn nothing_that_a_terminal_acts_on_gets_through() {
    let lines = all(b"\x0c\x0b\x1b[31m\xe2\x80\xae\x07\n\t\x30\x02\x16\0");
    assert!(lines.iter().all(|l| !l.contains(fusewire_asn1_values::characters::is_unsafe)));
    assert!(lines[0].ends_with(r#"UTF8String "\u{1b}[31m\u{202e}\u{7}\n\t""#), "{}", lines[0]);
}

#[test]
fn json_has_an_object_for_each() {
    let mut objects = Vec::new();
    let data = b"\x30\x80\x02\x01\x05\x04\x03ab";
    let error = walk(data, Options::default(), |e| objects.push(json::object(&e))).unwrap_err();
    objects.push(json::error(&error));
    let lines: Vec<_> = objects.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(objects[0]["form"], "indefinite");
    assert!(objects[0]["length"].is_null());
    assert_eq!((&objects[1]["value"], &objects[1]["type"]), (&5.into(), &"INTEGER".into()));
    assert_eq!(objects[2]["hex"], "6162");
    assert_eq!(objects[3]["offset"], 7);
}
