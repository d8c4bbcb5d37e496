//! The second implementation of XTP (`conformance/xtp`, Python), as a process.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One of its programs as a process; `None` where there is no Python, which is said.
pub fn start(program: &str, arguments: &[&str]) -> Option<Child> {
    let mut command = Command::new("python3");
    command.arg("-B").arg(root().join("conformance/xtp").join(program)).args(arguments);
    match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => Some(child),
        Err(error) => {
            println!("skipped: python3 cannot be run: {error}");
            None
        }
    }
}

/// Waits for the line by which it says that it hears; what follows is left.
pub fn hears(child: &mut Child) {
    let pipe = child.stdout.as_mut().expect("a pipe");
    let (mut line, mut byte) = (String::new(), [0]);
    // A buffer would take what follows.
    while byte != *b"\n" {
        pipe.read_exact(&mut byte).expect("a line");
        line.push(byte[0].into());
    }
    assert_eq!(line, "hears\n");
}

/// What it says until it ends, which it does well.
pub fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("what it says");
    assert!(child.wait().expect("it ends").success(), "the peer says {text}");
    text
}

/// The port that a peer which listens says first.
pub fn port(child: &mut Child) -> (u16, BufReader<ChildStdout>) {
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("its port");
    let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
    (port.unwrap_or_else(|| panic!("it says {line:?}")), lines)
}

/// A number that it said under this name.
pub fn number(said: &str, name: &str) -> u64 {
    let behind =
        said.split(&format!("\"{name}\": ")).nth(1).unwrap_or_else(|| panic!("no {name}: {said}"));
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name} is no number: {said}"))
}

/// Words that it has to have said.
pub fn assert_said(said: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(said.contains(word), "no {word}: {said}"));
}
