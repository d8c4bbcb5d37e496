//! `fusewire bench inca --quick`: each measurement once, over wires that it makes and takes away. Needs root.

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use fusewire_testkit::namespace::is_root;
use serde_json::Value;
use support::Done;

/// One after the other: each takes both of two processors.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs it; `None` without the rights that it takes.
fn quick(test: &str, args: &[&str]) -> Option<(Vec<Value>, String)> {
    if !is_root() {
        eprintln!("skipped: {test} needs root");
        return None;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewire"));
    command.args(["bench", "inca", "--quick", "--json"]).args(args);
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let done = Done::of(command.spawn().unwrap()).ok();
    let lines = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Some((lines, done.err))
}

fn number(line: &Value, path: &str) -> f64 {
    line.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn messages_go_every_way(test: &str, protocol: &str) {
    let Some((lines, err)) = quick(test, &["--parts", "messages", "--protocols", protocol]) else {
        return;
    };
    let mut seen = BTreeSet::new();
    for line in &lines {
        assert_eq!(line["what"], "messages", "{line}");
        assert_eq!(line["protocol"], protocol, "{line}");
        seen.insert((line["direction"].to_string(), line["size_bytes"].as_u64()));
        for path in [
            "/kernel_messages_per_s",
            "/fusewire_messages_per_s",
            "/ratio",
            "/fusewire/device_ns",
            "/fusewire/protocol_ns",
            "/fusewire/application_ns",
            "/kernel/application_ns",
        ] {
            assert!(number(line, path) > 0.0, "{path} of {line}\n{err}");
        }
    }
    assert_eq!(seen.len(), 3 * 2, "directions and sizes: {seen:?}\n{err}");
}

#[test]
fn datagrams_go_every_way() {
    messages_go_every_way("datagrams_go_every_way", "udp");
}

#[test]
fn streams_go_every_way() {
    messages_go_every_way("streams_go_every_way", "tcp");
}

#[test]
fn bulk_and_round_trips_have_their_lines() {
    let name = "bulk_and_round_trips_have_their_lines";
    let Some((lines, err)) = quick(name, &["--parts", "bulk,round-trip"]) else { return };
    let bulk: Vec<_> = lines.iter().filter(|line| line["what"] == "bulk").collect();
    let kinds: Vec<_> = bulk
        .iter()
        .map(|l| (l["direction"].as_str().unwrap(), l["api"].as_str().unwrap()))
        .collect();
    let expected = [
        ("receive", "plain"),
        ("send", "plain"),
        ("send", "shared"),
        ("both", "plain"),
        ("both", "shared"),
    ];
    assert_eq!(kinds, expected, "{lines:?}\n{err}");
    for line in bulk {
        if line["api"] == "shared" {
            assert!(number(line, "/bits_per_s/fusewire_shared") > 0.0, "{line}\n{err}");
        }
        for path in ["/bits_per_s/kernel", "/bits_per_s/fusewire", "/cpu_s_per_gib/fusewire"] {
            assert!(number(line, path) > 0.0, "{path} of {line}\n{err}");
        }
    }
    let trips: Vec<_> = lines.iter().filter(|line| line["what"] == "round_trip").collect();
    let sizes: Vec<_> = trips.iter().map(|line| line["size_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 1000], "{lines:?}\n{err}");
    for line in trips {
        for name in ["kernel", "kernel_spinning", "raw", "fusewire"] {
            let path = format!("/round_trip_ns/{name}");
            assert!(number(line, &path) > 0.0, "{path} of {line}\n{err}");
        }
    }
}
