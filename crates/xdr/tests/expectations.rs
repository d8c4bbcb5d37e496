//! `expect/NAME.x` gives `NAME.diag` and, where nothing is wrong, `NAME.rs`. With `FUSEWIRE_UPDATE=1` they are
//! written anew, for a look at what changed.

use std::fs;
use std::path::{Path, PathBuf};

use fusewire_xdr::rust::{Options, generate};
use fusewire_xdr::{Source, check};

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
fn files_give_what_is_expected_of_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expect");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder") {
        let path = entry.expect("the folder").path();
        if path.extension().is_none_or(|e| e != "x") {
            continue;
        }
        count += 1;
        let bytes = fs::read(&path).expect("a file");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let checked = check(Source::new(name, &bytes));
        let said: String =
            checked.diagnostics.iter().map(|d| d.display(&checked.source).to_string()).collect();
        expect(&path.with_extension("diag"), &said, &mut wrong);
        if let Some(text) = generate(&checked, &Options::default()) {
            expect(&path.with_extension("rs"), &text, &mut wrong);
        }
    }
    assert!(count > 0, "no files");
    assert!(wrong.is_empty(), "other than expected, FUSEWIRE_UPDATE=1 writes them anew: {wrong:?}");
}
