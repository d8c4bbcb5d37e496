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

#[test]
fn a_machine_is_calibrated_kept_and_asked() {
    let world = World::new();
    let file = world.path("machine.json");
    let file = file.to_str().unwrap();
    let machine =
        world.run("alice", &["model", "calibrate", "--quick", "--json", "--machine", file]);
    assert_eq!(machine.ok().lines()[0]["version"], 7);
    let ask = |pipeline: &str, more: &[&str]| {
        world.run("alice", &[&["model", "predict", pipeline, "--machine", file], more].concat())
    };
    let lines =
        ask("scalar64:state=4,instructions=10 * 3", &["--json", "--bytes", "4096"]).ok().lines();
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line["cycles_per_byte"].as_f64().unwrap() > 0.0));
    assert!(ask("swap32 > internet", &[]).ok().out.contains("bound by"));
    // Every pipeline and check function of the benchmark can be predicted, in both directions.
    let none = world.run("alice", &["bench", "kernels", "--pipelines", "no-such-pipeline"]);
    assert_eq!(none.code, 2, "{none:?}");
    let names = || none.err.lines().filter_map(|line| line.strip_prefix("  "));
    let pipelines = || names().filter(|name| !name.contains("check"));
    assert!(pipelines().count() > 10, "{}", none.err);
    for pipeline in pipelines() {
        let mut received: Vec<_> = pipeline.trim_end_matches(" ▸ store").split(" ▸ ").collect();
        received.reverse();
        for pipeline in [pipeline, &received.join(" ▸ ")] {
            let lines = ask(pipeline, &["--json", "--bytes", "256"]).ok().lines();
            assert_eq!(lines.len(), 6, "{pipeline}");
        }
        let advice = ["advise", "--pipeline", pipeline, "--machine", file];
        assert!(world.run("alice", &advice).ok().out.contains("A message of"), "{pipeline}");
    }
    for (pipeline, expected) in [
        ("swap32 > rot13 > internet", "cannot predict `rot13`"),
        ("nothing-like-this", "was not calibrated"),
        ("scalar64:state=4,colour=2", "no parameter `colour=2`"),
        ("scalar64:reads", "does nothing"),
        ("decimal:state=1", "has no `decimal`"),
    ] {
        let done = ask(pipeline, &[]);
        assert!(done.code == 2 && done.err.contains(expected), "{done:?}");
    }
}

/// A file is data: another version, absurd values and no machine at all are named.
#[test]
fn files_that_are_no_machine_are_refused() {
    let world = World::new();
    let file = world.path("machine.json");
    let path = file.to_str().unwrap();
    let ask = || world.run("alice", &["model", "predict", "copy", "--machine", path]);
    let done = ask();
    assert!(done.code == 1 && done.err.contains("fusewire model calibrate"), "{done:?}");
    world.run("alice", &["model", "calibrate", "--quick", "--machine", path]).ok();
    let good = std::fs::read_to_string(&file).unwrap();
    for (from, to, expected) in [
        ("\"version\": 7", "\"version\": 5", "version 5"),
        ("\"registers\": 11", "\"registers\": 0", "registers is 0"),
        ("\"ns_per_cycle\": ", "\"ns_per_cycle\": -", "ns_per_cycle is -"),
        ("{", "[", "invalid"),
        ("\"processor\"", "\"owner\": 1, \"processor\"", "unknown field"),
    ] {
        std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let done = ask();
        assert!(done.code == 1 && done.err.contains(expected), "{to}: {done:?}");
    }
    // Whatever else another version has.
    std::fs::write(&file, "{ \"version\": 2, \"owner\": 1 }").unwrap();
    let done = ask();
    assert!(done.code == 1 && done.err.contains("of version 2"), "{done:?}");
}
