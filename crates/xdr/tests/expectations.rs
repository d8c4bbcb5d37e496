//! `expect/NAME.x` gives `NAME.diag` and, where nothing is wrong, `NAME.rs`, and its programs `NAME.programs.rs`. With
//! `FUSEWIRE_UPDATE=1` they are written anew, for a look at what changed.

use std::path::Path;

use fusewire_testkit::expect;
use fusewire_xdr::rust::{Options, generate};
use fusewire_xdr::{Source, check};

#[test]
fn files_give_what_is_expected_of_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expect");
    expect::each_file(&folder, "x", |name, bytes, expect| {
        let checked = check(Source::new(name.to_owned(), bytes));
        let said = checked.diagnostics.iter().map(|d| d.display(&checked.source).to_string());
        expect("diag", &said.collect::<String>());
        if let Some(text) = generate(&checked, &Options::default()) {
            let programs = text.find("\n/// The program ").unwrap_or(text.len());
            expect("rs", &text[..programs]);
            expect("programs.rs", &text[programs..]);
        }
    });
}
