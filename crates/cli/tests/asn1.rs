//! `fusewire asn1`: what a user of the program sees.

mod support;

use std::io::Write;
use std::process::Stdio;

use support::{Done, World};

/// A run with bytes on standard input.
fn run(args: &[&str], input: &[u8]) -> Done {
    let world = World::new();
    let mut command = world.command("alice", args);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Done::of(child)
}

#[test]
fn dump_shows_ber_from_standard_input_and_keeps_colours_from_pipes() {
    let done = run(&["asn1", "dump"], b"\x30\x03\x02\x01\x05");
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(done.out, "    0  2+3      SEQUENCE\n    2  2+1        INTEGER 5\n");
    let done = run(&["asn1", "dump", "--color", "always", "-"], b"\x05\0");
    assert!(done.out.contains("\x1b[36mNULL"), "{}", done.out);
    let done = run(&["asn1", "dump", "--json", "--input", "hex"], b"05 00");
    let line: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(line["type"], "NULL");
}

#[test]
fn dump_of_malformed_bytes_shows_what_was_read_and_fails() {
    let done = run(&["asn1", "dump"], b"\x30\x05\x02\x01\x05\x04\x07\x1b");
    assert_eq!(done.code, 1);
    assert!(done.out.contains("INTEGER 5"), "{}", done.out);
    assert!(done.out.ends_with("error: the length says 7 bytes, 0 left\n"), "{}", done.out);
    assert_eq!(done.err, "fusewire: no BER: the length says 7 bytes, 0 left at offset 7\n");
    let done = run(&["asn1", "dump", "--input", "pem"], b"nothing");
    assert_eq!(done.code, 1);
    assert!(done.err.contains("this is no PEM"), "{}", done.err);
}
