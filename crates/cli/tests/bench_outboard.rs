//! `fusewire bench outboard --quick`: each measurement once, over wires that it makes and takes away. Needs root.

mod support;

use serde_json::Value;
use support::{number, quick_bench};

/// Runs it; `None` without the rights that it takes.
fn quick(test: &str, args: &[&str]) -> Option<(Vec<Value>, String)> {
    quick_bench("outboard", test, args)
}

fn messages_go_both_ways(test: &str, protocol: &str) {
    let args = ["--parts", "messages", "--protocols", protocol];
    let Some((lines, err)) = quick(test, &args) else { return };
    assert_eq!(lines.len(), 2 * 3, "directions and sizes\n{err}");
    for line in &lines {
        assert_eq!((&line["what"], &line["protocol"]), (&"messages".into(), &protocol.into()));
        let batches = protocol == "tcp" || line["direction"] == "send";
        for means in ["kernel", "inline", "outboard"] {
            for batch in ["", "_batch"].into_iter().take(1 + usize::from(batches)) {
                let path = format!("/rates/{means}{batch}/messages_per_s");
                assert!(number(line, &path) > 0.0, "{path} of {line}\n{err}");
            }
        }
        for path in ["/rates/outboard/outboard_ns", "/ratio", "/ratio_to_inline"] {
            assert!(number(line, path) > 0.0, "{path} of {line}\n{err}");
        }
    }
}

#[test]
fn datagrams_go_both_ways() {
    messages_go_both_ways("datagrams_go_both_ways", "udp");
}

#[test]
fn streams_go_both_ways() {
    messages_go_both_ways("streams_go_both_ways", "tcp");
}

#[test]
fn bulk_round_trips_and_shares_have_their_lines() {
    let args =
        ["--parts", "bulk,round-trip,applications", "--applications", "3", "--protocols", "tcp"];
    let name = "bulk_round_trips_and_shares_have_their_lines";
    let Some((lines, err)) = quick(name, &args) else { return };
    let of = |what: &str| lines.iter().filter(|line| line["what"] == what).collect::<Vec<_>>();
    assert_eq!([of("bulk").len(), of("round_trip").len(), of("shares").len()], [2, 2, 2], "{err}");
    for line in &lines {
        let paths: &[&str] = match line["what"].as_str().unwrap() {
            "bulk" => &["/bits_per_s/outboard", "/outboard_s_per_gib", "/ratio"],
            "round_trip" => &["/round_trip_ns/outboard", "/ratio_to_inline", "/ratio_to_kernel"],
            _ => &["/by/outboard/least", "/by/kernel/most", "/ratio"],
        };
        for path in paths {
            assert!(number(line, path) > 0.0, "{path} of {line}\n{err}");
        }
    }
}
