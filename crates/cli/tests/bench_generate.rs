//! `fusewire bench generate`, for a second a case, where the programs that it compares lie beside it.

mod support;

use support::World;

#[test]
fn both_ways_are_measured_and_held_against_what_is_wanted() {
    let world = World::new();
    let args = ["bench", "generate", "--json", "--seconds", "1", "--rounds", "1", "--sizes", "64"];
    let done = world.run("alice", &args);
    if done.err.contains("not beside this one") {
        println!("skipped: the examples are not built");
        return;
    }
    let done = done.ok();
    let lines = done.lines();
    let figures: Vec<_> = lines
        .iter()
        .map(|line| ["program", "figure"].map(|part| line[part].as_str().unwrap()))
        .collect();
    let expected = [
        ["bulk", "MB/s"],
        ["bulk", "CPU s/GiB"],
        ["rpc", "p50 of 64 B, µs"],
        ["rpc", "p99 of 64 B, µs"],
        ["rpc", "CPU time of 64 B, µs"],
        ["bulk", ".text, KiB"],
        ["bulk", "lines of the user"],
        ["rpc", ".text, KiB"],
        ["rpc", "lines of the user"],
    ];
    assert_eq!(figures, expected);
    for line in &lines {
        let number = |part: &str| line[part].as_f64().unwrap();
        let (generated, by_hand) = (number("generated"), number("by_hand"));
        assert!(generated > 0.0 && by_hand > 0.0, "{line}");
        assert!((number("ratio") - generated / by_hand).abs() < 1e-9, "{line}");
        assert!(line["wanted"].is_object(), "{line}");
    }
}
