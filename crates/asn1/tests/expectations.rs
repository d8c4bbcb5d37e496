//! `expect/NAME.asn1` gives `NAME.tree`, `NAME.diag` and, where nothing is wrong, `NAME.ENCODING.rs` for each encoding.
//! With `FUSEWIRE_UPDATE=1` they are written anew, for a look at what changed.

use std::path::Path;

use fusewire_asn1::rust::{Encoding, Options, generate, joined};
use fusewire_asn1::{Source, check};
use fusewire_testkit::expect;

#[test]
fn modules_give_what_is_expected_of_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expect");
    expect::each_file(&folder, "asn1", |name, bytes, expect| {
        let checked = check(vec![Source::new(name.to_owned(), bytes)]);
        let file = &checked.files[0];
        expect("tree", &file.tree.print(&file.source));
        let said = checked.diagnostics.iter().map(|d| d.display(&file.source).to_string());
        expect("diag", &said.collect::<String>());
        if !checked.is_ok(0) {
            return;
        }
        // The code for BER is that for DER.
        for encoding in Encoding::all().into_iter().filter(|e| *e != Encoding::Der) {
            let options = Options { encodings: vec![encoding], ..Options::default() };
            let text = joined(&generate(&checked.files, &options));
            let extension = format!("{encoding:?}.rs").to_lowercase();
            expect(&extension, &format!("//! What is expected.\n{text}"));
        }
    });
}
