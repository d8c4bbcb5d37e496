//! What is in a program and what is not, by its symbols: a mechanism that was not chosen is not in the code.

use std::process::Command;

/// Each of `chosen` is in the name of a function of the program, and none of the others.
pub fn has(program: &str, chosen: &[&str], not_chosen: &[&str]) {
    let Ok(nm) = Command::new("nm").arg(program).output() else {
        println!("skipped: there is no nm");
        return;
    };
    let symbols = String::from_utf8_lossy(&nm.stdout);
    let is_there = |name: &&&str| symbols.contains(**name);
    let missing: Vec<_> = chosen.iter().filter(|name| !is_there(name)).collect();
    assert!(nm.status.success() && missing.is_empty(), "not in the program: {missing:?}");
    let found: Vec<_> = not_chosen.iter().filter(is_there).collect();
    assert!(found.is_empty(), "in the program: {found:?}");
}
