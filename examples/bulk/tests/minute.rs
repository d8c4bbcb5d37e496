//! The program as its README runs it, for some seconds, of which nothing is judged by the clock; it fails where less is seen than is promised.

use std::process::Command;

#[test]
fn it_runs_and_says_what_it_promises() {
    let ran = Command::new(env!("CARGO_BIN_EXE_bulk-example")).arg("3").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("bytes are here") && said.contains(" blocks overtaken, "), "{said}");
}

#[test]
fn blocks_of_no_bytes_or_more_than_fit_are_refused() {
    for bytes in ["0", "65537", "many"] {
        let words = ["source", "127.0.0.1:1", "KEY", "60", bytes];
        let ran = Command::new(env!("CARGO_BIN_EXE_bulk-example")).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("source ADDRESS KEY [SECONDS [BYTES]]"), "{bytes}: {said}");
    }
}
