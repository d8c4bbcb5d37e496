//! What is said of the four specifications in `examples/`: kept in `explained/`, to be read by people.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-generate --test explained` writes it anew.

mod support;

use fusewire_generate::choice::choose;
use fusewire_generate::explain::explain;

use support::{EXAMPLES, changed};

#[test]
fn explanations_are_those_that_were_read() {
    for name in EXAMPLES {
        let checked = changed(name, "", "");
        assert!(checked.is_ok(), "{}", checked.wrong());
        let choice = choose(&checked.specification, None).expect("it can be had");
        let found = explain(&checked, &choice).markdown();
        let path = format!("{}/tests/explained/{name}.md", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("FUSEWIRE_UPDATE_DOCS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(found, kept, "{path} differs");
    }
}
