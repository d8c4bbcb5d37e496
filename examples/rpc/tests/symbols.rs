//! What was not chosen is not in the program: by its symbols.

use std::process::Command;

const CHOSEN: &[&str] = &["PeerCall"];
const NOT_CHOSEN: &[&str] = &["next_free", "take_next", "send_message_timeout"];

#[test]
fn what_was_not_chosen_is_not_in_the_program() {
    let program = env!("CARGO_BIN_EXE_rpc-example");
    let Ok(nm) = Command::new("nm").arg(program).output() else {
        println!("skipped: there is no nm");
        return;
    };
    let symbols = String::from_utf8_lossy(&nm.stdout);
    let is_there = |name: &&&str| symbols.contains(**name);
    let missing: Vec<_> = CHOSEN.iter().filter(|name| !is_there(name)).collect();
    assert!(nm.status.success() && missing.is_empty(), "not in the program: {missing:?}");
    let found: Vec<_> = NOT_CHOSEN.iter().filter(is_there).collect();
    assert!(found.is_empty(), "in the program: {found:?}");
}
