//! What is said of specifications that are wrong: where, what was expected, and nothing else.

use fusewire_asn1::Source;
use fusewire_generate::language::check;

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
        ("type = \"M.A\", loss = 2", "expected a number from 0 to 1"),
    ];
    for (adu, expected) in cases {
        let said = said(&format!("{HEAD}adu.X = {{{adu}}}\n"));
        match expected {
            "" => assert_eq!(said, [""; 0], "{adu}"),
            _ => {
                let own: Vec<_> = said.iter().filter(|s| s.starts_with("3:")).collect();
                assert_eq!(own.len(), 1, "{adu}: {said:#?}");
                assert!(own[0].contains(expected), "{adu}: {said:#?}");
            }
        }
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
