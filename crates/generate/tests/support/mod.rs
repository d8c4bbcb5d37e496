//! Specifications as tests have them.
#![allow(dead_code, reason = "each test uses its own of it")]

use std::sync::{Mutex, PoisonError};

use fusewire_asn1::Source;
use fusewire_generate::language::{Checked, check, files};
use fusewire_model::Implementation;
use fusewire_model::machine::{Machine as Calibrated, Transform};

/// The four in `examples/`.
pub const EXAMPLES: [&str; 4] = ["bulk", "rpc", "conference", "telemetry"];

/// A file in `examples/`.
pub fn file(path: &str) -> Vec<u8> {
    let path = format!("{}/../../examples/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of an example.
pub fn text(name: &str) -> String {
    String::from_utf8(file(&format!("{name}/{name}.toml"))).expect("text")
}

/// A specification with this text in place of an example's, beside that one's modules.
pub fn with_text(name: &str, text: &str) -> Checked {
    let source = Source::new(format!("{name}.toml"), text.as_bytes());
    let modules = files(&source).into_iter().map(|module| {
        let bytes = file(&format!("{name}/{module}"));
        Source::new(module, &bytes)
    });
    let modules = modules.collect();
    check(source, modules)
}

/// One of `tests/cases`, one text of it replaced; as it is where that is empty.
pub fn case(name: &str, from: &str, to: &str) -> Checked {
    let folder = format!("{}/tests/cases", env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read(format!("{folder}/{file}")).expect("a case");
    let text = String::from_utf8(read(&format!("{name}.toml"))).expect("text");
    assert!(from.is_empty() || text.contains(from), "{name} has no `{from}`");
    let text = if from.is_empty() { text } else { text.replacen(from, to, 1) };
    let source = Source::new(format!("{name}.toml"), text.as_bytes());
    let modules = files(&source).into_iter().map(|module| Source::new(&module, &read(&module)));
    let modules = modules.collect();
    check(source, modules)
}

/// An example, one text of it replaced; as it is where that is empty.
pub fn changed(name: &str, from: &str, to: &str) -> Checked {
    let whole = text(name);
    assert!(from.is_empty() || whole.contains(from), "{name} has no `{from}`");
    let whole = if from.is_empty() { whole } else { whole.replacen(from, to, 1) };
    with_text(name, &whole)
}

/// A machine on which separate passes are faster, of this cipher alone.
pub fn machine(cipher: &str) -> Calibrated {
    let text = include_str!("../../../model/tests/machine.json");
    let mut machine: Calibrated = serde_json::from_str(text).expect("a machine");
    let transform = |implementation, cold_cycles_per_byte| Transform {
        cipher: cipher.to_owned(),
        swap_bytes: 4,
        implementation,
        cold_cycles_per_byte,
        ..machine.transforms[0].clone()
    };
    let [integrated, blocked, sequential] = Implementation::ALL;
    machine.transforms =
        vec![transform(integrated, 2.0), transform(blocked, 3.0), transform(sequential, 1.0)];
    machine
}

/// The place of a clause's text, `key = value`, if it is written.
fn place(checked: &Checked, name: &str) -> Option<std::ops::Range<usize>> {
    let clauses = checked.specification.clauses();
    let clause = clauses.iter().find(|clause| clause.clause().name == name)?.clause().clone();
    let (start, end) = (clause.span.start as usize, clause.span.end as usize);
    (clause.origin == fusewire_generate::language::value::Origin::Written).then_some(start..end)
}

/// The text of a specification with another value of a clause, which may not have been written.
pub fn with_value(checked: &Checked, name: &str, value: &str) -> String {
    let text = checked.sources[0].text();
    let (table, key) = name.rsplit_once('.').unwrap_or(("", name));
    let clause = format!("{key} = {value}");
    if let Some(place) = place(checked, name) {
        return format!("{}{clause}{}", &text[..place.start], &text[place.end..]);
    }
    // Tables stand on a line each, in braces.
    let begin = if table.is_empty() { String::new() } else { format!("{table} = {{") };
    match text.lines().find(|line| !table.is_empty() && line.starts_with(&begin)) {
        Some(line) => {
            let inner = line.strip_suffix('}').expect("a table on a line");
            text.replacen(line, &format!("{inner}, {clause}}}"), 1)
        }
        None if table.is_empty() => format!("{clause}\n{text}"),
        None => format!("{text}{table} = {{{clause}}}\n"),
    }
}

/// A part of `docs/generate.md`, behind `mark` and up to `end`, is this. With `FUSEWIRE_UPDATE_DOCS` set it is made so.
#[track_caller]
pub fn page(mark: &str, end: &str, expected: &str) {
    // Tests of one program write its parts one behind the other.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = format!("{}/../../docs/generate.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(mark).unwrap_or_else(|| panic!("no {mark}")) + mark.len();
    let end = begin + text[begin..].find(end).unwrap_or_else(|| panic!("no {end} behind {mark}"));
    if std::env::var_os("FUSEWIRE_UPDATE_DOCS").is_some() {
        let text = format!("{}{expected}{}", &text[..begin], &text[end..]);
        std::fs::write(&path, text).unwrap();
    } else {
        assert_eq!(&text[begin..end], expected, "docs/generate.md differs from the code");
    }
}
