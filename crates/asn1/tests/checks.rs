//! Each module here breaks one rule of X.680 or keeps to one that a reader could mistake. A row has the module's body and
//! a part of the message; an empty message is for a module without an error.

use fusewire_asn1::{Checked, Source, check};

fn checked(text: &str) -> Checked {
    check(vec![Source::new("m.asn1".to_owned(), text.as_bytes())])
}

fn errors(text: &str) -> Vec<String> {
    let checked = checked(text);
    let errors = checked.diagnostics.iter().filter(|d| d.is_error());
    errors.map(|d| d.message.clone()).collect()
}

/// Modules with automatic tags, by their bodies.
const BODIES: [(&str, &str); 49] = [
    // X.680 20.4 to 20.6: numbers of additional items.
    ("E ::= ENUMERATED { red, green, ..., blue(1) }", "1 is the number of `green` already"),
    ("E ::= ENUMERATED { a, b, ..., c, d(2) }", "2 is the number of `c` already"),
    ("E ::= ENUMERATED { red(5), ..., green(7), blue(6) }", "6 is below the number"),
    ("E ::= ENUMERATED { a, ..., b(5), c(5) }", "5 is the number of `b` already"),
    ("E ::= ENUMERATED { a(1), b(1) }", "1 is the number of `a` already"),
    ("E ::= ENUMERATED { a, ..., a }", "`a` is there twice"),
    ("E ::= ENUMERATED { a, b(3), ..., c, d(9), e }", ""),
    // X.680 51.2: constraints and the types that they apply to.
    ("I ::= INTEGER (SIZE(0..4))", "SIZE does not apply"),
    ("B ::= BOOLEAN (SIZE (3))", "SIZE does not apply"),
    ("O ::= OCTET STRING (FROM (\"a\"))", "FROM does not apply"),
    ("I ::= INTEGER (WITH COMPONENT (1))", "WITH COMPONENT does not apply"),
    ("I ::= INTEGER (WITH COMPONENTS { a PRESENT })", "WITH COMPONENTS does not apply"),
    ("I ::= INTEGER (PATTERN \"a\")", "PATTERN does not apply"),
    ("S ::= SEQUENCE (SIZE (1..4)) OF INTEGER", ""),
    ("P ::= PrintableString (SIZE (1..4) ^ FROM (\"a\"..\"z\"))", ""),
    (
        "S ::= SEQUENCE { a INTEGER OPTIONAL } T ::= S (WITH COMPONENTS { zz PRESENT })",
        "no component `zz`",
    ),
    (
        "N ::= SEQUENCE { ... } REF-ID ::= N R ::= SEQUENCE { f REF-ID.&id }",
        "only a class has fields",
    ),
    // Numbers below zero.
    ("T ::= BIT STRING { one(-2) }", "found -2"),
    ("O ::= OCTET STRING (SIZE (-1..4))", "found -1"),
    // Values beside their types.
    ("S ::= SEQUENCE { a INTEGER (0..9) DEFAULT 12 }", "found 12"),
    ("v INTEGER (0..9) ::= 12", "found 12"),
    ("v INTEGER (0..9, ...) ::= 12", ""),
    ("v PrintableString (SIZE (1..3)) ::= \"abcd\"", "found 4 characters"),
    ("v NumericString ::= \"12a\"", "the character `a`"),
    ("v OCTET STRING (SIZE (2)) ::= '010203'H", "found 3 octets"),
    ("N ::= NumericString (FROM(\"0\"..\"9\" | \"#\"))", "no character `#`"),
    ("T ::= SEQUENCE { c UTF8String DEFAULT c1 } c1 GeneralString ::= \"Cyprus\"", "another type"),
    ("I ::= INTEGER (5..3)", "5 is above 3"),
    ("A ::= INTEGER (1..5) (7..9)", "leave no value"),
    ("F{C} ::= SEQUENCE { f C DEFAULT cyan } I ::= F{INTEGER{ red(0) }}", "default `cyan`"),
    ("F{C} ::= SEQUENCE { f C DEFAULT red } I ::= F{INTEGER{ red(0) }}", ""),
    (
        "P ::= SEQUENCE { s SEQUENCE (SIZE (32)) OF OCTET STRING DEFAULT '00'H }",
        "no value of the SEQUENCE OF",
    ),
    // X.680 annex F: names of values of most string types stand for values of the others.
    ("T ::= SEQUENCE { c UTF8String DEFAULT c1 } c1 PrintableString ::= \"Cyprus\"", ""),
    ("v IA5String ::= w w VisibleString ::= \"a\"", ""),
    ("v GeneralizedTime ::= w w VisibleString ::= \"20260101000000Z\"", ""),
    ("v GraphicString ::= w w TeletexString ::= \"a\"", "another type"),
    ("A ::= REAL (0<..<1) B ::= REAL (0.5..0.7)", ""),
    ("A ::= INTEGER (0<..<1)", "leave no value"),
    ("A ::= IA5String (FROM (\"\"))", ""),
    ("A ::= IA5String (SIZE (1)) (FROM (\"\"))", "leave no value"),
    ("F{T, T:d} ::= SEQUENCE { a T DEFAULT d } G ::= F{INTEGER, 5}", ""),
    // Definitions by themselves.
    ("alpha INTEGER ::= beta beta INTEGER ::= alpha", "`alpha` is defined by itself"),
    (
        "alpha INTEGER ::= beta beta INTEGER ::= alpha T ::= INTEGER (0..alpha)",
        "`beta` is defined by itself",
    ),
    ("alpha INTEGER ::= beta beta INTEGER ::= 4", ""),
    ("A ::= B B ::= A", "`A` is defined by itself"),
    // X.680 12.1 and 12.9: a lexical item is as long as it can be.
    ("A ::= REAL (1. .. 2) B ::= REAL (1...2) C ::= REAL (1.0..2.5e3) D ::= INTEGER (1..2)", ""),
    ("C ::= CHOICE { a [1] INTEGER, ..., b [1] BOOLEAN }", "`b` has the tag [1]"),
    ("C ::= CHOICE { a INTEGER } S ::= SEQUENCE { COMPONENTS OF C }", "COMPONENTS OF"),
    ("IMPORTS X FROM M; T ::= X", "M imports from itself"),
];

#[test]
fn modules_that_break_a_rule_are_refused() {
    for (body, message) in BODIES {
        let text = format!("M DEFINITIONS AUTOMATIC TAGS ::= BEGIN {body} END");
        let found = errors(&text);
        match message {
            "" => assert!(found.is_empty(), "{body}: {found:?}"),
            _ => assert!(found.iter().any(|f| f.contains(message)), "{body}: {found:?}"),
        }
    }
}

/// A blue that decodes as green is the reason for this test: items with one number are never generated.
#[test]
fn duplicates_of_definitions_and_modules_are_refused() {
    let twice = "M DEFINITIONS ::= BEGIN A ::= INTEGER END";
    let other = "M DEFINITIONS ::= BEGIN A ::= BOOLEAN END";
    assert_eq!(errors(&format!("{twice}\n{other}")), ["the module `M` is defined twice"]);
    let version =
        |number: u32| format!("M {{ 1 2 {number} }} DEFINITIONS ::= BEGIN A ::= INTEGER END");
    assert_eq!(errors(&format!("{}\n{}", version(3), version(4))), [""; 0]);
    assert_eq!(
        errors(&format!("{}\n{}", version(3), version(3))),
        ["the module `M` is defined twice"]
    );
    let body = "M DEFINITIONS ::= BEGIN A ::= INTEGER A ::= BOOLEAN END";
    assert_eq!(errors(body), ["`A` is defined twice"]);
}

#[test]
fn tags_before_open_types_are_explicit() {
    let module = |body: &str| format!("M DEFINITIONS ::= BEGIN {body} END");
    let choice = "C ::= CHOICE { a INTEGER } S ::= SEQUENCE { c [1] IMPLICIT C }";
    assert!(errors(&module(choice))[0].contains("X.680 31.2.9"));
    let open = "K ::= CLASS { &Type } S ::= SEQUENCE { i INTEGER OPTIONAL, t K.&Type }";
    assert!(errors(&module(open))[0].contains("which may be absent"));
    // Modules after X.208 have both with ANY.
    for body in [
        "T ::= SEQUENCE { any [1] IMPLICIT ANY }",
        "T ::= SEQUENCE { i INTEGER OPTIONAL, any ANY }",
    ] {
        let checked = checked(&module(body));
        assert!(
            checked.is_ok(0) && checked.diagnostics.len() == 1,
            "{body}: {:?}",
            checked.diagnostics
        );
    }
}

#[test]
fn parameterized_references_begin_a_list_of_imports() {
    let rest = "X ::= INTEGER (one..9) Y ::= INTEGER (0..three) END
        B DEFINITIONS ::= BEGIN one INTEGER ::= 1 END
        C DEFINITIONS ::= BEGIN two {INTEGER : p} INTEGER ::= p three INTEGER ::= 3 END";
    for imports in ["two {}, three FROM C", "three, two {} FROM C", "three FROM C"] {
        let text = format!("A DEFINITIONS ::= BEGIN IMPORTS one FROM B {imports}; {rest}");
        assert_eq!(errors(&text), [""; 0], "{imports}");
    }
}

#[test]
fn a_missing_module_is_a_warning() {
    let text = "P DEFINITIONS ::= BEGIN IMPORTS ContentInfo FROM PKCS-7; PFX ::= SEQUENCE { a ContentInfo } END";
    let checked = checked(text);
    let messages: Vec<_> = checked.diagnostics.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(messages, ["no module `PKCS-7` is among the files"]);
    assert!(checked.is_ok(0));
}
