//! Files of the XDR language: what is said of them lies in them, and code comes of what is right.

use fusewire_xdr::rust::{Options, generate};
use fusewire_xdr::{Source, check};

/// Runs one input: one file.
pub fn run(data: &[u8]) {
    let checked = check(Source::new("input", data));
    for diagnostic in &checked.diagnostics {
        assert!(diagnostic.span.end as usize <= checked.source().text().len());
        let shown = checked.display(diagnostic).to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "a control character");
    }
    let options = Options { utf8_strings: data.len() % 2 == 1, no_stubs: data.len() % 3 == 1 };
    let text = generate(&checked, &options);
    assert_eq!(text.is_some(), checked.is_ok());
    if let Some(text) = text {
        // Strings are repeated as they are.
        let lines = || text.lines().filter(|line| !line.contains("&str = "));
        let count = |sign| lines().map(|line| line.matches(sign).count()).sum::<usize>();
        assert_eq!(count('{'), count('}'), "braces");
    }
}

/// A file of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let expected: [&[u8]; 5] = [
        include_bytes!("../../../crates/xdr/tests/expect/kinds.x"),
        include_bytes!("../../../crates/xdr/tests/expect/old.x"),
        include_bytes!("../../../crates/xdr/tests/expect/errors.x"),
        include_bytes!("../../../crates/xdr/tests/expect/extended.x"),
        include_bytes!("../../../crates/xdr/tests/expect/cycles.x"),
    ];
    expected.map(<[u8]>::to_vec).to_vec()
}
