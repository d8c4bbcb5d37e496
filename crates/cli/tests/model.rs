//! `fusewire model` says what the paper says, and what this machine does.

mod support;

use support::World;

#[test]
fn the_published_table_is_computed() {
    let world = World::new();
    let lines = world.run("alice", &["model", "paper", "--json"]).ok().lines();
    assert_eq!(lines.len(), 12);
    for line in &lines {
        let (ns, published) =
            (line["ns_per_byte"].as_f64().unwrap(), &line["published_ns_per_byte"]);
        assert_eq!(Some(ns.round()), published.as_f64(), "{line}");
    }
    let text = world.run("alice", &["model", "paper"]).ok().out;
    assert!(text.contains("SPARCstation 2 ") && text.contains("372 (372, 344)"), "{text}");
}

#[test]
fn figures_are_surfaces() {
    let world = World::new();
    for (figure, axis) in [
        ("3", "functions"),
        ("5", "functions"),
        ("6", "block_bytes"),
        ("7", "memory_clocks_per_word"),
    ] {
        let lines =
            world.run("alice", &["model", "paper", "--figure", figure, "--json"]).ok().lines();
        assert!(lines.len() >= 34 && lines.iter().all(|line| line[axis].is_u64()), "{figure}");
    }
    assert_eq!(world.run("alice", &["model", "paper", "--figure", "4"]).code, 2);
}
