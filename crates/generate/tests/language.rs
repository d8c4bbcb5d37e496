//! What is said of specifications that are wrong: where, what was expected, and nothing else.

use fusewire_asn1::Source;
use fusewire_generate::language::{Absent, check, check_files};

const MODULE: &str = "M DEFINITIONS ::= BEGIN A ::= SEQUENCE { n INTEGER (0..9) } END";
const HEAD: &str = "roles = [\"a\", \"b\"]\nnetwork = {rtt_ms = 10, rate_mbit = 1, loss = 0.1}\n";

/// Line, column, message and help of everything that is wrong.
fn said(text: &str) -> Vec<String> {
    let modules = vec![Source::new("M.asn1", MODULE.as_bytes())];
    let checked = check(Source::new("s.toml", text.as_bytes()), modules);
    let one = |d: &fusewire_asn1::Diagnostic| {
        let at = d.position(&checked.sources[d.file]);
        format!("{}:{} {} ({})", at.line, at.column, d.message, d.help)
    };
    checked.diagnostics.iter().map(one).collect()
}

#[test]
fn each_fault_is_named_and_no_other() {
    let cases = [
        ("type = \"M.A\"", ""),
        ("type = \"M.A\", deadline = 5", "`deadline` has no unit"),
        ("type = \"M.A\", deadline_s = 5", "another unit"),
        ("type = \"M.A\", realiability = \"avoid\"", "is `reliability` meant?"),
        ("type = \"M.A\", order = \"newst\"", "is \"newest\" meant?"),
        ("type = \"M.B\"", "module `M` has no type `B`"),
        ("type = \"N.A\"", "no file has a module `N`"),
        ("type = \"M.A\", from = \"c\"", "no role is called `c`"),
        ("type = \"M.A\", rate_hz = [9, 1]", "write the least first"),
        ("type = \"M.A\", reliability = \"require\", loss = 0.1", "lets some be lost"),
        ("type = \"M.A\", deadline_ms = 5", "drops what is late"),
        ("type = \"M.A\", order = \"newest\"", "drops what is older"),
        ("type = \"M.A\", late = \"deliver\"", "says nothing without `deadline_ms`"),
        ("type = \"M.A\", adapt = [\"quality\"]", "says no range for it"),
        ("type = \"M.A\", after = [\"X\"]", "goes in a circle"),
        ("type = \"M.A\", reply = \"Y\"", "no type of ADU is called `Y`"),
        ("type = \"M.A\", replayable = true", "is of requests"),
        ("type = \"M.A\", integrity = \"none\"", "lets changed bytes through"),
        ("type = \"M.A\", reliability = \"avoid\", order = \"newest\", newest = \"n\"", ""),
        (
            "type = \"M.A\", reliability = \"avoid\", order = \"newest\", newest = \"m\"",
            "`M.A` has no component `m`",
        ),
        ("type = \"M.A\", newest = \"n\"", "says nothing without `order = \"newest\"`"),
        ("type = \"M.A\", loss = 2", "expected a number from 0 to 1"),
        // What could not be read is said once, as it stands there, and is held against nothing.
        ("type = \"M.A\", deadline_ms = -5, late = \"deliver\"", "`deadline_ms` is -5 (expected"),
        (
            "type = \"M.A\", deadline_ms = 99999999999999999999, late = \"deliver\"",
            "is 99999999999999999999 (expected a number from 0",
        ),
        ("type = \"M.A\", deadline_ms = nan, late = \"deliver\"", "`deadline_ms` is nan (expected"),
        ("type = \"M.A\", deadline_ms = 1e300, late = \"deliver\"", "`deadline_ms` is 1e300 (exp"),
        (
            "type = \"M.A\", rate_hz = [0, inf], adapt = [\"frequency\"]",
            "`rate_hz` is inf (expected",
        ),
        ("type = \"M.A\", reliability = 1, loss = 0.1, order = \"newest\"", "`reliability` is an"),
        ("type = \"M.A\", confidential = 1, authentic = 1, integrity = \"none\"", "2"),
        ("type = \"M.A\", reply = 1, replayable = true", "`reply` is an integer"),
        ("type = \"M.A\", deadline_ms = 5, late = 1", "`late` is an integer"),
        ("type = \"M.A\", after = [\"B\"]", "3:33 no type of ADU is called `B`"),
        ("type = \"M.A\", rate_hz = 0", "`rate_hz = 0` lets nothing be sent"),
        ("type = \"M.A\", size_bytes = 5", "`size_bytes = 5` is more than its type takes: 4 "),
        ("type = \"M.A\", size_bytes = 0", "`size_bytes = 0` is less than its type takes: 1 "),
        (
            "type = \"M.A\", loss = 0, loss_run = 0, loss = 0",
            "(it stands at 3:24 already: leave one out)",
        ),
    ];
    for (adu, expected) in cases {
        let said = said(&format!("{HEAD}adu.X = {{{adu}}}\n"));
        match expected {
            "" => assert_eq!(said, [""; 0], "{adu}"),
            _ => {
                let own: Vec<_> = said.iter().filter(|s| s.starts_with("3:")).collect();
                if let Ok(count) = expected.parse::<usize>() {
                    assert_eq!(own.len(), count, "{adu}: {said:#?}");
                    continue;
                }
                assert_eq!(own.len(), 1, "{adu}: {said:#?}");
                assert!(own[0].contains(expected), "{adu}: {said:#?}");
            }
        }
    }
}

/// Where a key stood before is said, of the same table.
#[test]
fn a_key_that_stands_twice_is_named_with_its_first_place() {
    let other = "adu.Y = {type = \"M.A\", loss_run = 0}\n";
    for (adus, expected) in [
        (format!("{other}adu.X = {{type = \"M.A\"}}\nadu.Y = {{type = \"M.A\"}}\n"), "5:5", "3:5"),
        (
            format!("{other}adu.X = {{loss_run = 0, type = \"M.A\", loss_run = 0}}\n"),
            "4:38",
            "4:10",
        ),
        ("[adu.X]\ntype = \"M.A\"\ntype = \"M.A\"\n".to_owned(), "5:1", "4:1"),
    ]
    .map(|(text, second, first)| (text, (second, first)))
    {
        let said = said(&format!("{HEAD}{adus}"));
        let (second, first) = expected;
        let expected =
            format!("{second} duplicate key (it stands at {first} already: leave one out)");
        assert_eq!(said, [expected], "{adus}");
    }
    let adu = "adu.X = {type = \"M.A\", after = [\"Y\", \"Y\"]}\nadu.Y = {type = \"M.A\"}\n";
    assert_eq!(said(&format!("{HEAD}{adu}")), ["3:38 `Y` stands twice (leave one out)"]);
}

/// TOML is UTF-8, and ASN.1 of old is not.
#[test]
fn what_is_no_utf8_is_said_with_its_place() {
    let text = [HEAD.as_bytes(), b"adu.X = {type = \"M.A\"} # f\xfcr\n"].concat();
    let module = MODULE.replace(" END", " -- f END").into_bytes();
    let module = module.iter().map(|b| if *b == b'f' { 0xfc } else { *b }).collect::<Vec<_>>();
    let module = || vec![Source::new("M.asn1", &[&module[..], b"\nEND"].concat())];
    let checked = check(Source::new("s.toml", &text), module());
    let [wrong] = &checked.diagnostics[..] else { panic!("{:?}", checked.diagnostics) };
    let at = wrong.position(&checked.sources[0]);
    assert_eq!((at.line, at.column, &wrong.message[..]), (3, 27, "the file is no UTF-8"));
    let text = text.iter().filter(|b| **b != 0xfc).copied().collect::<Vec<_>>();
    assert!(check(Source::new("s.toml", &text), module()).is_ok());
}

/// A bracket that is not closed makes each line that follows it wrong: that one is reported, and nothing else.
#[test]
fn unclosed_bracket_gives_one_error() {
    let adus = "[adu.X]\ntype = \"M.A\"\nrate_hz = [1, 2]\nreliability = \"avoid\"\n\n[adu.Y]\ntype = \"M.A\"\n";
    let whole = format!("{HEAD}{adus}");
    for (from, to, expected) in [
        ("\"b\"]", "\"b\"", "1:9 `[` is not closed (write `]`)"),
        ("loss = 0.1}", "loss = 0.1", "2:11 `{` is not closed (write `}`"),
        ("[adu.X]", "[adu.X", "3:1 `[` is not closed (write `]`)"),
        ("[1, 2]", "[1, 2", "5:11 `[` is not closed (write `]`)"),
    ] {
        let said = said(&whole.replacen(from, to, 1));
        assert!(said.len() == 1 && said[0].starts_with(expected), "{to}: {said:#?}");
    }
    // Nor does another error of TOML bring others with it.
    let said = said(&whole.replacen("\"avoid\"", "\"avoid", 1));
    assert!(said.len() == 1 && said[0].starts_with("6:"), "{said:#?}");
}

/// Many peers of a pair have a session each: only if the first role sends to all at once it is a group.
#[test]
fn receivers_of_a_pair_are_advised_by_who_sends() {
    for (from, advises) in [("a", true), ("b", false), ("both", false)] {
        let adu = format!("adu.X = {{type = \"M.A\", from = \"{from}\"}}\n");
        let said = said(&format!("{HEAD}peers = {{receivers = 500}}\n{adu}"));
        assert_eq!(said.len(), 1, "{said:#?}");
        assert_eq!(said[0].contains("shape = \"group\""), advises, "{said:#?}");
        assert!(said[0].contains("a `b` accepts any number of peers"), "{said:#?}");
    }
}

/// Modules are shared by specifications: a type that no ADU carries is a warning, where the module defines it.
#[test]
fn type_that_nothing_carries_is_a_warning() {
    let module = MODULE.replace(" END", "\nB ::= SEQUENCE { a A } END");
    let modules = vec![Source::new("M.asn1", module.as_bytes())];
    let text = format!("{HEAD}adu.X = {{type = \"M.A\"}}\n");
    let checked = check(Source::new("s.toml", text.as_bytes()), modules);
    let said: Vec<_> = checked
        .diagnostics
        .iter()
        .map(|d| {
            let source = &checked.sources[d.file];
            let at = d.position(source);
            format!("{}:{}:{} {}", source.name(), at.line, at.column, d.message)
        })
        .collect();
    assert_eq!(said, ["M.asn1:2:1 no ADU carries `M.B`"]);
    assert!(checked.is_ok() && checked.warnings().contains("M.asn1:2:1: warning"));
    // What an ADU's type is made of is carried with it.
    let text = format!("{HEAD}adu.X = {{type = \"M.B\"}}\n");
    let modules = vec![Source::new("M.asn1", module.as_bytes())];
    assert!(check(Source::new("s.toml", text.as_bytes()), modules).is_ok());
}

#[test]
fn beside_a_file_that_is_not_there_no_other_is_called_unused() {
    let text = format!(
        "asn1 = [\"Gone.asn1\", \"N.asn1\", \"M.asn1\"]\n{HEAD}adu.X = {{type = \"M.A\"}}\n"
    );
    let module = |name: &str| {
        let text = MODULE.replace("M DEFINITIONS", &format!("{name} DEFINITIONS"));
        Ok(Source::new(format!("{name}.asn1"), text.as_bytes()))
    };
    let name = "Gone.asn1".to_owned();
    let gone = Err(Absent { name, why: "no such file".to_owned(), beside: Vec::new() });
    let said = |files| {
        let checked = check_files(Source::new("s.toml", text.as_bytes()), files);
        checked.diagnostics.into_iter().map(|d| d.message).collect::<Vec<_>>()
    };
    // What is absent may import it.
    let of_absent = said(vec![gone, module("N"), module("M")]);
    assert_eq!(of_absent, ["`Gone.asn1` cannot be read: no such file"]);
    let of_whole = said(vec![module("Gone"), module("N"), module("M")]);
    assert_eq!(of_whole, ["no ADU's type comes from this file"; 2]);
}

/// Names that would be one in Rust, each with the place of the second.
#[test]
fn names_that_clash_are_named() {
    let adus = |lines: &str| format!("{HEAD}{lines}");
    let roles = |roles: &str| {
        let adu = "adu.X = {type = \"M.A\"}\n";
        format!("{HEAD}{adu}").replace("[\"a\", \"b\"]", roles)
    };
    let call = |request: &str, rest: &str| {
        adus(&format!(
            "adu.{request} = {{type = \"M.A\", reply = \"Y\"}}\nadu.Y = {{type = \"M.A\", from = \"b\"}}\n{rest}"
        ))
    };
    let message = |name: &str| format!("adu.{name} = {{type = \"M.A\"}}\n");
    for (text, expected) in [
        (roles("[\"a_b\", \"aB\"]"), "1:17 `aB` and `a_b` are both `AB` in Rust"),
        (roles("[\"x\", \"toX\"]"), "1:15 `toX` and `x` are both `ToX` in Rust"),
        (adus(&(message("GetX") + &message("Get_X"))), "4:5 `Get_X` and `GetX` are both `GetX`"),
        (adus(&(message("GETX") + &message("Getx"))), "4:5 `Getx` and `GETX` are both `getx`"),
        (call("Get", "").replace("\"b\"", "\"answerGet\""), "3:5 `Get` and `answerGet` are both"),
        // Of two namespaces.
        (call("Move", &message("SendMove")), ""),
        (call("Finish", &message("Listener")), ""),
        (roles("[\"listener\", \"stream\"]"), ""),
    ] {
        let said = said(&text);
        match expected {
            "" => assert_eq!(said, [""; 0], "{text}"),
            _ => assert!(said.len() == 1 && said[0].starts_with(expected), "{text}{said:#?}"),
        }
    }
}

/// A crate is called as its file, and as no crate that it needs.
#[test]
fn crates_hide_no_others() {
    for (file, name) in [
        ("a b/Weather.toml", "weather"),
        ("codec.toml", "codec"),
        ("\u{dc}ber.toml", "ber"),
        ("a--b_c.toml", "a-b-c"),
        ("1.toml", "s-1"),
        (".toml", "s"),
        ("core.toml", "core-ends"),
        ("type.toml", "type-ends"),
        ("fusewire-codec.toml", "fusewire-codec-ends"),
    ] {
        let checked = check(Source::new(file, b""), Vec::new());
        assert_eq!(checked.specification.name, name, "{file}");
    }
}

#[test]
fn what_is_no_specification_is_no_panic() {
    for text in [
        "",
        "=",
        "adu",
        "adu = 1",
        "roles = [1]",
        "[network]\n[network]",
        "adu.X.type = 1",
        "\u{feff}x",
    ] {
        assert!(!said(text).is_empty(), "{text:?}");
    }
    let whole = format!("{HEAD}adu.X = {{type = \"M.A\", deadline_ms = 5, late = \"deliver\"}}\n");
    for end in 0..whole.len() {
        said(&whole[..end]);
    }
}
