//! OER, LWS and XDR of any type.

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::{Encoding, Limits, Schema, Syntax, Value, jer, notation};

const SYNTAXES: [Syntax; 6] =
    [Syntax::Oer, Syntax::Coer, Syntax::Lws(2), Syntax::Lws(4), Syntax::Lws(8), Syntax::Xdr];

fn file(text: &str) -> File {
    File::parse(0, Source::new("test.asn1", text.as_bytes()))
}

/// The value that notation means.
fn value(file: &File, ty: &str, text: &str) -> Value {
    let files = std::slice::from_ref(file);
    let input = notation::Text::new(1, "input", text, files, ty).unwrap();
    let world = World::new(files.iter().chain([input.file()]));
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty).unwrap();
    notation::from_text(&mut schema, &input, id).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn everything_goes_through_every_encoding() {
    let module = file(include_str!("everything.asn1"));
    let text = include_str!("everything.txt");
    let input =
        notation::Text::new(1, "input", text, std::slice::from_ref(&module), "All").unwrap();
    let world = World::new([&module, input.file()]);
    let mut schema = Schema::new(&world);
    let id = schema.type_named("Everything.All").unwrap();
    let value = notation::from_text(&mut schema, &input, id).unwrap();
    for syntax in SYNTAXES {
        let bytes = Encoding::Forward(syntax).encode(&schema, id, &value).unwrap();
        let again = Encoding::Forward(syntax).decode(&schema, id, &bytes, Limits::default());
        let again = again.unwrap_or_else(|e| panic!("{syntax:?}: {e}"));
        assert_eq!(
            Encoding::Forward(syntax).encode(&schema, id, &again).unwrap(),
            bytes,
            "{syntax:?}"
        );
        for len in 0..bytes.len() {
            let cut = Encoding::Forward(syntax)
                .decode(&schema, id, &bytes[..len], Limits::default())
                .unwrap_err();
            assert!(cut.offset.is_some_and(|o| o <= len), "{cut}");
        }
    }
}

/// The examples of docs/lws.md.
#[test]
fn lws_is_what_its_page_says() {
    let module = file(
        "M DEFINITIONS IMPLICIT TAGS ::= BEGIN
        Byte ::= INTEGER (0..255) Wide ::= INTEGER (0..4294967295) Any ::= INTEGER Real ::= REAL
        Octets ::= OCTET STRING Bits ::= BIT STRING Oid ::= OBJECT IDENTIFIER
        Bytes ::= SEQUENCE OF Byte Numbers ::= SEQUENCE OF INTEGER
        Ex ::= SEQUENCE { id INTEGER, name PrintableString, scale REAL OPTIONAL,
            body CHOICE { text IA5String, number INTEGER }, urgent BOOLEAN DEFAULT FALSE, ... } END",
    );
    let world = World::new([&module]);
    let mut schema = Schema::new(&world);
    let mut check = |ty: &str, text: &str, expected: [&str; 3]| {
        let value = value(&module, ty, text);
        let id = schema.type_named(ty).unwrap();
        for (word, expected) in [2, 4, 8].into_iter().zip(expected) {
            let syntax = Syntax::Lws(word);
            let bytes = Encoding::Forward(syntax).encode(&schema, id, &value).unwrap();
            assert_eq!(hex(&bytes), expected.replace(' ', ""), "{ty} {text}");
            let again =
                Encoding::Forward(syntax).decode(&schema, id, &bytes, Limits::default()).unwrap();
            assert_eq!(again, value);
        }
    };
    check("Byte", "7", ["0007", "00000007", "0000000000000007"]);
    check("Wide", "70000", ["00011170", "00011170", "0000000000011170"]);
    check("Any", "-2", ["fffe", "fffffffe", "fffffffffffffffe"]);
    check("Any", "70000", ["8000 0002 0001 1170", "00011170", "0000000000011170"]);
    check("Any", "-32768", ["8000 0001 8000", "ffff8000", "ffffffffffff8000"]);
    check(
        "Any",
        "1099511627776",
        ["8000 0003 0100 0000 0000", "80000000 00000002 00000100 00000000", "0000010000000000"],
    );
    check("Real", "1.5", ["3ff8 0000 0000 0000", "3ff80000 00000000", "3ff8000000000000"]);
    check(
        "Octets",
        "'616263'H",
        ["0003 6162 6300", "00000003 61626300", "0000000000000003 6162630000000000"],
    );
    check(
        "Bits",
        "'101'B",
        ["0003 a000", "00000003 a0000000", "0000000000000003 a000000000000000"],
    );
    check(
        "Oid",
        "{1 2 840}",
        ["0003 2a86 4800", "00000003 2a864800", "0000000000000003 2a86480000000000"],
    );
    check(
        "Bytes",
        "{1, 2, 3}",
        ["0003 0102 0300", "00000003 01020300", "0000000000000003 0102030000000000"],
    );
    check(
        "Numbers",
        "{1, -1}",
        [
            "0002 0001 0001 ffff",
            "00000002 00000001 00000001 ffffffff",
            "0000000000000002 0000000000000001 0000000000000001 ffffffffffffffff",
        ],
    );
    check(
        "Numbers",
        "{1, 70000}",
        [
            "0002 0002 0000 0001 0001 1170",
            "00000002 00000001 00000001 00011170",
            "0000000000000002 0000000000000001 0000000000000001 0000000000011170",
        ],
    );
    let text = "{ id 300, name \"fuse\", body number:-1, urgent TRUE }";
    check(
        "Ex",
        text,
        [
            "2000 012c 0004 6675 7365 0001 ffff 0001",
            "20000000 0000012c 00000004 66757365 00000001 ffffffff 00000001",
            "2000000000000000 000000000000012c 0000000000000004 6675736500000000 0000000000000001 ffffffffffffffff 0000000000000001",
        ],
    );
}

#[test]
fn oer_is_what_x696_says() {
    let module = file(
        "M DEFINITIONS AUTOMATIC TAGS ::= BEGIN
        A ::= SEQUENCE { a INTEGER (0..255), b INTEGER (-1..1) OPTIONAL, c INTEGER (0..MAX), ...,
            d BOOLEAN, [[ e INTEGER OPTIONAL, f NULL ]] }
        C ::= CHOICE { a NULL, b ENUMERATED { x(200) }, ..., c OCTET STRING (SIZE (2)) }
        L ::= SEQUENCE OF BIT STRING
        S ::= SET { z [5] BOOLEAN, y [2] IA5String (SIZE (2)) } END",
    );
    let world = World::new([&module]);
    let mut schema = Schema::new(&world);
    let mut check = |ty: &str, text: &str, expected: &str| {
        let value = value(&module, ty, text);
        let id = schema.type_named(ty).unwrap();
        let bytes = Encoding::Forward(Syntax::Coer).encode(&schema, id, &value).unwrap();
        assert_eq!(hex(&bytes), expected.replace(' ', ""), "{ty} {text}");
        let again =
            Encoding::Forward(Syntax::Coer).decode(&schema, id, &bytes, Limits::default()).unwrap();
        assert_eq!(again, value);
    };
    check("A", "{ a 5, c 300 }", "00 05 02 012c");
    check("A", "{ a 5, b -1, c 0, d TRUE }", "c0 05 ff 0100 0206 80 01ff");
    check("A", "{ a 5, c 128, f NULL }", "80 05 0180 0206 40 01 00");
    check("C", "a : NULL", "80");
    check("C", "b : x", "81 8200c8");
    check("C", "c : '0102'H", "82 02 0102");
    check("L", "{ '101'B, ''B }", "0102 0205a0 0100");
    check("S", "{ z TRUE, y \"ab\" }", "6162 ff");
    let a = schema.type_named("A").unwrap();
    let wrong = |bytes: &[u8]| {
        Encoding::Forward(Syntax::Coer)
            .decode(&schema, a, bytes, Limits::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(wrong(&[0, 5, 2, 0, 5]), "not canonical: the shortest INTEGER at offset 2, in c");
    assert_eq!(wrong(&[1, 5, 1, 5]), "fill byte 0x01 is not zero at offset 0");
    // An addition of a later version is kept.
    let later = [0x80, 5, 1, 5, 2, 5, 0x20, 3, 1, 2, 3];
    let value =
        Encoding::Forward(Syntax::Coer).decode(&schema, a, &later, Limits::default()).unwrap();
    assert_eq!(Encoding::Forward(Syntax::Coer).encode(&schema, a, &value).unwrap(), later);
}

#[test]
fn bounds_hold() {
    let module = file(
        "M DEFINITIONS ::= BEGIN N ::= SEQUENCE OF NULL T ::= SEQUENCE { t T } O ::= SEQUENCE OF OCTET STRING END",
    );
    let world = World::new([&module]);
    let mut schema = Schema::new(&world);
    let limits = Limits { depth: 20, count: 1000, ..Limits::default() };
    for (ty, bytes) in [("N", &[4, 0x7f, 0xff, 0xff, 0xff][..]), ("T", &[])] {
        let id = schema.type_named(ty).unwrap();
        let error = Encoding::Forward(Syntax::Oer)
            .decode(&schema, id, bytes, limits)
            .unwrap_err()
            .to_string();
        assert!(error.contains("more than 1000") || error.contains("deeper than 20"), "{error}");
    }
    let id = schema.type_named("O").unwrap();
    let error = Encoding::Forward(Syntax::Xdr)
        .decode(&schema, id, &[0, 0, 0, 1, 0x7f, 0, 0, 0], limits)
        .unwrap_err();
    assert_eq!(error.to_string(), "truncated: 2130706432 bytes needed, 0 left at offset 8, in [0]");
}

/// A type of two versions.
const VERSIONS: &str = "
    V1 DEFINITIONS AUTOMATIC TAGS ::= BEGIN
    Box ::= SEQUENCE { m M, k K, tail INTEGER (0..255) }
    M ::= SEQUENCE { a INTEGER (0..255), ... }
    K ::= CHOICE { n NULL, ... }
    END
    V2 DEFINITIONS AUTOMATIC TAGS ::= BEGIN
    Box ::= SEQUENCE { m M, k K, tail INTEGER (0..255) }
    M ::= SEQUENCE { a INTEGER (0..255), ..., inner SEQUENCE { x INTEGER (0..255), y OCTET STRING },
        [[ b INTEGER (0..255) OPTIONAL, c BOOLEAN ]], d UTF8String OPTIONAL }
    K ::= CHOICE { n NULL, ..., s SEQUENCE { p INTEGER (0..65535) }, t UTF8String }
    END";

#[test]
fn unknown_extensions_survive_notation_and_json() {
    let versions = file(VERSIONS);
    let text =
        "{ m { a 1, inner { x 2, y 'AABB'H }, b 7, c TRUE, d \"zz\" }, k s : { p 258 }, tail 9 }";
    let value = value(&versions, "V2.Box", text);
    let encodings = Encoding::ALL;
    for (name, _, encoding) in encodings {
        let files = std::slice::from_ref(&versions);
        let world = World::new(files);
        let mut schema = Schema::new(&world);
        let new = schema.type_named("V2.Box").unwrap();
        let old = schema.type_named("V1.Box").unwrap();
        let bytes = encoding.encode(&schema, new, &value).unwrap();
        let known = encoding.decode(&schema, old, &bytes, Limits::default()).unwrap();

        let shown = notation::to_text(&schema, &known, old);
        let read = self::value(&versions, "V1.Box", &shown);
        assert_eq!(read, known, "{name}: {shown}");
        assert_eq!(encoding.encode(&schema, old, &read).unwrap(), bytes, "{name}: {shown}");

        let json = jer::to_json(&schema, &known, old);
        let read = jer::from_json(&schema, &json, old).unwrap_or_else(|e| panic!("{e}: {json}"));
        assert_eq!(read, known, "{name}: {json}");
        assert_eq!(encoding.encode(&schema, old, &read).unwrap(), bytes, "{name}: {json}");
    }
}

#[test]
fn unknown_extensions_are_written_as_their_page_says() {
    let versions = file(VERSIONS);
    let world = World::new([&versions]);
    let mut schema = Schema::new(&world);
    let id = schema.type_named("V1.Box").unwrap();
    let check = |name: &str, bytes: &str, text: &str, json: &str| {
        let encoding = Encoding::from_name(name).unwrap();
        let digit = |n: usize| u8::from_str_radix(&bytes[n..n + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..bytes.len()).step_by(2).map(digit).collect();
        let value = encoding.decode(&schema, id, &bytes, Limits::default()).unwrap();
        let shown = notation::to_text(&schema, &value, id);
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!(words.join(" "), text);
        assert_eq!(jer::to_json(&schema, &value, id), json);
    };
    check(
        "oer",
        "80010205e0040202aabb038007ff03027a7a8102010209",
        "{ m { a 1, ... 0 : '0202AABB'H, ... 1 : '8007FF'H, ... 2 : '027A7A'H }, k ... [1] : '0102'H, tail 9 }",
        r#"{"m":{"a":1,"$unknown":[{"number":0,"octets":"0202AABB"},{"number":1,"octets":"8007FF"},{"number":2,"octets":"027A7A"}]},"k":{"$unknown":{"tag":"[1]","octets":"0102"}},"tail":9}"#,
    );
    check(
        "der",
        "3010a0068001018401ffa10382 01 05820109".replace(' ', "").as_str(),
        "{ m { a 1, ... '8401FF'H }, k ... '820105'H, tail 9 }",
        r#"{"m":{"a":1,"$unknown":["8401FF"]},"k":{"$unknown":"820105"},"tail":9}"#,
    );
}

#[test]
fn unknown_extensions_are_refused_where_nothing_may_follow() {
    let module = file(
        "M DEFINITIONS AUTOMATIC TAGS ::= BEGIN
        Closed ::= SEQUENCE { a INTEGER } Pick ::= CHOICE { n NULL }
        Open ::= SEQUENCE { a INTEGER, ..., b BOOLEAN OPTIONAL } OpenPick ::= CHOICE { n NULL, ... } END",
    );
    let refusal = |ty: &str, text: &str, encoding: &str| {
        let files = std::slice::from_ref(&module);
        let input = notation::Text::new(1, "input", text, files, ty).unwrap();
        let world = World::new(files.iter().chain([input.file()]));
        let mut schema = Schema::new(&world);
        let id = schema.type_named(ty).unwrap();
        let read = notation::from_text(&mut schema, &input, id);
        let encoding = Encoding::from_name(encoding).unwrap();
        read.and_then(|value| encoding.encode(&schema, id, &value)).unwrap_err().to_string()
    };
    let closed = refusal("Closed", "{ a 1, ... '8101FF'H }", "ber");
    assert_eq!(closed, "input:1:8: the type has no extension marker `...`");
    assert!(refusal("Pick", "... '8100'H", "ber").contains("CHOICE"));
    assert!(refusal("Open", "{ a 1, ... 0 : 'FF'H }", "oer").contains("known or given twice"));
    assert!(refusal("Open", "{ a 1, ... '8105'H }", "ber").contains("truncated"));
    assert!(refusal("Open", "{ a 1, ... '8101FF'H }", "oer").contains("another encoding"));
    assert!(refusal("OpenPick", "... '8000'H", "ber").contains("`n` has it"));
    assert!(refusal("OpenPick", "... [0] : '00'H", "oer").contains("has it"));
    assert!(refusal("OpenPick", "... 0 : '00'H", "xdr").contains("has it"));
}

#[test]
fn an_open_type_of_a_missing_module_keeps_its_octets() {
    let text = "M DEFINITIONS AUTOMATIC TAGS ::= BEGIN IMPORTS Missing FROM Elsewhere;
        K ::= CLASS { &id INTEGER UNIQUE, &Type } WITH SYNTAX { &Type ID &id }
        Set K ::= { { Missing ID 1 } | { BOOLEAN ID 2 }, ... }
        T ::= SEQUENCE { id K.&id ({Set}), value K.&Type ({Set}{@id}) } END";
    let files = [file(text)];
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let id = schema.type_named("T").unwrap();
    let oer = Encoding::from_name("oer").unwrap();
    for (bytes, shown) in [(&b"\x01\x01\x02\xab\xcd"[..], "'ABCD'H"), (b"\x01\x02\x01\xff", "TRUE")]
    {
        let value = oer.decode(&schema, id, bytes, Limits::default()).unwrap();
        let text = notation::to_text(&schema, &value, id);
        assert!(text.contains(shown), "{text}");
        assert_eq!(oer.encode(&schema, id, &value).unwrap(), bytes);
    }
}

#[test]
fn values_of_open_types_are_checked_by_their_table() {
    let module = file(
        "M DEFINITIONS AUTOMATIC TAGS ::= BEGIN
        CLS ::= CLASS { &id INTEGER UNIQUE, &Type } WITH SYNTAX { ID &id TYPE &Type }
        Set CLS ::= { { ID 1 TYPE BOOLEAN } | { ID 2 TYPE Inner }, ... }
        Inner ::= SEQUENCE { of Pair, name IA5String (SIZE (1..3)) }
        Pair ::= SEQUENCE { id CLS.&id ({Set}), v CLS.&Type ({Set}{@id}) }
        Pairs ::= SEQUENCE { pairs SEQUENCE OF Pair } END",
    );
    let encode = |text: &str, encoding: Encoding| {
        let files = std::slice::from_ref(&module);
        let input = notation::Text::new(1, "input", text, files, "Pairs").unwrap();
        let world = World::new(files.iter().chain([input.file()]));
        let mut schema = Schema::new(&world);
        let id = schema.type_named("Pairs").unwrap();
        let value = notation::from_text(&mut schema, &input, id).unwrap();
        encoding.encode(&schema, id, &value).map_err(|e| e.to_string())
    };
    for (name, _, encoding) in Encoding::ALL {
        let good = "{ pairs { { id 1, v BOOLEAN : TRUE }, { id 9, v NULL : NULL },
            { id 2, v Inner : { of { id 1, v BOOLEAN : TRUE }, name \"a\" } } } }";
        encode(good, encoding).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (wrong, path) in [
            ("{ pairs { { id 1, v IA5String : \"abc\" } } }", "in pairs[0].v"),
            ("{ pairs { { id 9, v 'FF'H }, { id 1, v 'AABBCCDDEE'H } } }", "in pairs[1].v"),
            (
                "{ pairs { { id 2, v Inner : { of { id 1, v IA5String : \"abc\" }, name \"a\" } } } }",
                "in pairs[0].v.of.v",
            ),
        ] {
            let error = encode(wrong, encoding).expect_err(name);
            assert!(error.contains("expected a value of BOOLEAN"), "{name}: {error}");
            assert!(error.ends_with(path), "{name}: {error}");
        }
    }
}
