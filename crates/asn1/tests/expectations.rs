//! `expect/NAME.asn1` gives `NAME.tree`, `NAME.diag` and, where nothing is wrong, `NAME.rs`. With
//! `FUSEWIRE_UPDATE=1` they are written anew, for a look at what changed.

use std::fs;
use std::path::{Path, PathBuf};

use fusewire_asn1::rust::{Encoding, Options, generate, joined};
use fusewire_asn1::{Source, check};

fn expect(path: &Path, found: &str, wrong: &mut Vec<PathBuf>) {
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == found {
        return;
    }
    if std::env::var_os("FUSEWIRE_UPDATE").is_some() {
        fs::write(path, found).expect("a file that can be written");
    } else {
        wrong.push(path.to_owned());
    }
}

#[test]
fn modules_give_what_is_expected_of_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expect");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder") {
        let path = entry.expect("the folder").path();
        if path.extension().is_none_or(|e| e != "asn1") {
            continue;
        }
        count += 1;
        let bytes = fs::read(&path).expect("a module");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let checked = check(vec![Source::new(name, &bytes)]);
        let file = &checked.files[0];
        expect(&path.with_extension("tree"), &file.tree.print(&file.source), &mut wrong);
        let said: String =
            checked.diagnostics.iter().map(|d| d.display(&file.source).to_string()).collect();
        expect(&path.with_extension("diag"), &said, &mut wrong);
        if checked.is_ok(0) {
            let options = Options { encodings: Encoding::all(), ..Options::default() };
            let text =
                format!("//! What is expected.\n{}", joined(&generate(&checked.files, &options)));
            expect(&path.with_extension("rs"), &text, &mut wrong);
        }
    }
    assert!(count > 0, "no modules");
    assert!(wrong.is_empty(), "other than expected, FUSEWIRE_UPDATE=1 writes them anew: {wrong:?}");
}
