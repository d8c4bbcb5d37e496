//! The stack without its features: encrypted messages over UDP, and nothing that they do not need.

use std::process::Command;

use crate::shell::{Result, cargo, step};

/// What has the features.
pub const PACKAGE: &str = "fusewire-stack";

/// What a program does without that sends messages over UDP: interfaces, `io_uring`, the view.
const UNNEEDED: [&str; 7] = [
    "fusewire-net",
    "fusewire-view",
    "io-uring",
    "netlink-packet-core",
    "netlink-packet-route",
    "serde",
    "tokio",
];

fn command(of_cargo: &str) -> Command {
    let mut command = cargo();
    command.args([of_cargo, "--package", PACKAGE, "--no-default-features"]);
    command
}

/// It compiles without a remark.
pub fn lints() -> Result {
    let mut lints = command("clippy");
    step("lints of the stack over UDP alone", lints.args(["--", "-D", "warnings"]))
}

/// It builds none of what it does not need, and a message goes there and back.
pub fn run() -> Result {
    let mut tree = command("tree");
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{lib}"]);
    let output = tree.output().map_err(|e| format!("cargo tree: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    if let Some(name) = unneeded(&String::from_utf8_lossy(&output.stdout)) {
        return Err(format!("{PACKAGE} without features builds {name}, which it does not need"));
    }
    let mut message = command("run");
    step("a message by the stack over UDP alone", message.args(["--quiet", "--example", "message"]))
}

/// The first of [`UNNEEDED`] among the names of libraries, one a line.
fn unneeded(libraries: &str) -> Option<&'static str> {
    let is_there = |name: &str| libraries.lines().any(|line| line == name.replace('-', "_"));
    UNNEEDED.into_iter().find(|name| is_there(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_seen() {
        assert_eq!(unneeded("fusewire_stack\nserde_core\nrustix\n"), None);
        assert_eq!(unneeded("fusewire_stack\nfusewire_net\n"), Some("fusewire-net"));
    }
}
