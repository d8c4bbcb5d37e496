//! `fusewire bench generate`, for a second a case, where the programs that it compares lie beside it.

mod support;

use support::World;

#[test]
fn both_ways_are_measured_and_held_against_what_is_wanted() {
    let world = World::new();
    let args = [
        ["bench", "generate"],
        ["--json", "--seconds=1"],
        ["--rounds=1", "--sizes=64"],
        ["--loss=1", "--round-trip=4"],
        ["--course", "2"],
    ]
    .concat();
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
        ["bulk", "instructions a KiB"],
        ["rpc", "p50 of 64 B, µs"],
        ["rpc", "p99 of 64 B, µs"],
        ["rpc", "CPU time of 64 B, µs"],
        ["rpc", "instructions, 64 B"],
        ["conference", "ADUs in time"],
        ["conference", "MB in time, TCP tuned"],
        ["bulk", ".text, KiB"],
        ["bulk", "lines of the user"],
        ["rpc", ".text, KiB"],
        ["rpc", "lines of the user"],
    ];
    assert_eq!(figures, expected);
    for line in &lines {
        assert!(line["wanted"].is_object(), "{line}");
        let number = |part: &str| line[part].as_f64();
        let (Some(generated), Some(by_hand)) = (number("generated"), number("by_hand")) else {
            // Not every machine counts them, or lets them be read.
            assert!(line["figure"].as_str().unwrap().starts_with("instructions"), "{line}");
            assert!(line["ratio"].is_null() && line["holds"].is_null(), "{line}");
            continue;
        };
        let ratio = number("ratio").unwrap();
        assert!(generated > 0.0 && by_hand > 0.0, "{line}");
        assert!((ratio - generated / by_hand).abs() < 1e-9, "{line}");
        let wanted = &line["wanted"];
        let is_so = wanted["at_most"].as_f64().is_none_or(|most| ratio <= most)
            && wanted["at_least"].as_f64().is_none_or(|least| ratio >= least);
        assert_eq!(line["holds"], is_so, "{line}");
    }
    // An answer has gone both ways of the path.
    let half = lines.iter().find(|line| line["figure"] == "p50 of 64 B, µs").unwrap();
    assert!(
        ["generated", "by_hand"].iter().all(|of| half[of].as_f64().unwrap() > 4000.0),
        "{half}"
    );
    // Code is as long as by hand, which is longer than is wanted: the verdict is the command's.
    let text = lines.iter().find(|line| line["figure"] == ".text, KiB").unwrap();
    assert_eq!(text["holds"], false, "{text}");
    let checked = [&args[..], &["--check"]].concat();
    world.run("alice", &checked).failed(1, "ratios are not as is wanted");
}
