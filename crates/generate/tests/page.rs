//! The tables of `docs/generate.md` are what the code has.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-generate --test page` writes them anew.

mod support;

use std::fmt::Write;

use fusewire_generate::catalogue::{CATALOGUE, Function, Mechanism};
use fusewire_generate::language::keys::{Key, TABLES};

use support::page;

/// The tables of keys, each below its name.
fn keys() -> String {
    let mut text = String::new();
    for (table, keys) in TABLES {
        let title = match table {
            "" => "The file".to_owned(),
            name => format!("`{name}`"),
        };
        let _ = write!(
            text,
            "### {title}\n\n| clause | value [default] | says | TAPS |\n|---|---|---|---|\n"
        );
        for Key { name, expects, default, says, taps, is_wire } in keys {
            let local = if *is_wire { "" } else { " *local*" };
            let _ = writeln!(text, "| `{name}`{local} | {expects} [{default}] | {says} | {taps} |");
        }
        text.push('\n');
    }
    text
}

/// The catalogue.
fn mechanisms() -> String {
    let mut text =
        "| function | mechanism | it | needs; excludes |\n|---|---|---|---|\n".to_owned();
    let any = |of: &[Mechanism]| -> String {
        let names: Vec<_> = of.iter().map(|one| one.name()).collect();
        let function = of.first().map_or("", |one| one.entry().function.name());
        format!("{function} {}", names.join(" or "))
    };
    for entry in &CATALOGUE {
        let needs: Vec<_> = entry.needs.iter().map(|need| any(need)).collect();
        let mut limits = needs.join(", ");
        if !entry.excludes.is_empty() {
            let excludes: Vec<_> = entry.excludes.iter().map(|one| any(&[*one])).collect();
            let _ = write!(limits, "; excludes {}", excludes.join(", "));
        }
        let of = if entry.function.is_of_adu() { " *of a type*" } else { "" };
        let function = entry.function.name();
        let _ = writeln!(text, "| {function}{of} | {} | {} | {limits} |", entry.name, entry.does);
    }
    text
}

#[test]
fn tables_are_those_of_the_code() {
    page("<!-- tables: keys -->\n\n", "At most 64", &keys());
    page("<!-- table: mechanisms -->\n", "\n## What is refused", &(mechanisms()));
}

#[test]
fn every_function_has_a_row() {
    let text = mechanisms();
    assert!(Function::ALL.iter().all(|f| text.contains(&format!("| {}", f.name()))));
}
