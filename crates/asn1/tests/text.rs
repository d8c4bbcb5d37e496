//! Text on both ways: tokens and places of modules, what is said of them, and lines of Rust.

use fusewire_asn1::lexer::{self, Token, TokenKind, TokenKind::*};
use fusewire_asn1::rust::Lines;
use fusewire_asn1::{Diagnostic, Position, Source, Span};

fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
    let tokens = lexer::tokens(text);
    let of = |t: &Token| (t.kind, &text[t.span.start as usize..t.span.end as usize]);
    assert_eq!(tokens.iter().map(|t| of(t).1).collect::<String>(), text, "lossless");
    tokens.iter().filter(|t| !t.kind.is_trivia()).map(of).collect()
}

#[test]
fn words_numbers_and_signs() {
    assert_eq!(
        kinds("A-b--x--c ::= 1..5 3.14 2e-3 '01'B 'F'H \"a\"\"b\" &Id &x ..."),
        [
            (Upper, "A-b"),
            (Lower, "c"),
            (Assign, "::="),
            (Number, "1"),
            (Range, ".."),
            (Number, "5"),
            (Real, "3.14"),
            (Real, "2e-3"),
            (Bits, "'01'B"),
            (Hex, "'F'H"),
            (Text, "\"a\"\"b\""),
            (FieldUpper, "&Id"),
            (FieldLower, "&x"),
            (Ellipsis, "..."),
        ]
    );
}

#[test]
fn doubled_apostrophes_are_one_string() {
    assert_eq!(kinds("''111''B ''''H"), [(Bits, "''111''B"), (Hex, "''''H")]);
    assert_eq!(kinds("''2''B")[0].0, Unknown);
    assert_eq!(kinds("''B ''H"), [(Bits, "''B"), (Hex, "''H")]);
}

#[test]
fn comments_end_and_nest() {
    assert_eq!(
        kinds("a --x- -- b -- c\nd /* /* */ e */ f"),
        [(Lower, "a"), (Lower, "b"), (Lower, "d"), (Lower, "f"),]
    );
    assert!(!lexer::tokens("/* /* */").last().expect("a token").is_whole);
}

#[test]
fn any_bytes_are_tokens() {
    kinds("\u{e9}'\"\u{2028} '012'B \u{1}");
}

#[test]
fn positions_count_from_one() {
    let source = Source::new("m", "ab\r\nc\u{e9}d\n".as_bytes());
    assert_eq!(source.position(0), Position { line: 1, column: 1 });
    assert_eq!(source.position(4), Position { line: 2, column: 1 });
    assert_eq!(source.position(7), Position { line: 2, column: 3 });
    assert_eq!(source.position(9), Position { line: 3, column: 1 });
    assert_eq!(source.line(1), "c\u{e9}d");
    assert_eq!(source.line(7), "");
}

#[test]
fn latin1_is_read() {
    assert_eq!(Source::new("m", b"-- \xe9").text(), "-- \u{e9}");
}

#[test]
fn shows_the_place() {
    let source = Source::new("m.asn", b"A ::= FOO\x1b\n");
    let d = Diagnostic::error(0, Span::new(6, 9), "FOO is not defined").help("define it");
    let expected =
        "m.asn:1:7: error: FOO is not defined\n1 | A ::= FOO \n          ^^^\n  help: define it\n";
    assert_eq!(d.display(&source).to_string(), expected);
}

#[test]
fn brackets_indent() {
    let mut out = Lines::new();
    writeln!(out, "fn f(");
    writeln!(out, "a: u8,");
    writeln!(out, ") -> u8 {{");
    writeln!(out, "/// Not open: (");
    writeln!(out, "if a > 1 {{");
    writeln!(out, "{}", ["1", "2"].join("\n+ "));
    writeln!(out, "}} else {{");
    writeln!(out);
    writeln!(out, "a");
    writeln!(out, "}}");
    writeln!(out, "}}");
    let expected = "fn f(\n    a: u8,\n) -> u8 {\n    /// Not open: (\n    if a > 1 {\n        1\n            \
                    + 2\n    } else {\n\n        a\n    }\n}\n";
    assert_eq!(out.into_text(), expected);
}
