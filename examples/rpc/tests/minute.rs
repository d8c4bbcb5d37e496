//! The program as its README runs it, for some seconds, of which nothing is judged by the clock; it fails where less is seen than is promised.

use std::process::Command;

#[test]
fn it_runs_and_says_what_it_promises() {
    let ran = Command::new(env!("CARGO_BIN_EXE_rpc-example")).arg("4").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(
        said.contains("answers, half within") && said.contains(" requests executed for "),
        "{said}"
    );
}
