//! `fusewire bench inca --quick`: each measurement once, over wires that it makes and takes away. Needs root.

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use support::{number, quick_bench};

/// Runs it; `None` without the rights that it takes.
fn quick(test: &str, args: &[&str]) -> Option<(Vec<Value>, String)> {
    quick_bench("inca", test, args)
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
