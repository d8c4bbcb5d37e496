//! The demo and the benches run and print what they promise.

mod support;

use support::World;

#[test]
fn the_demo_verifies_and_prints_the_lines_of_the_bench() {
    let world = World::new();
    let done = world.run("alice", &["demo", "--bytes", "3000001", "--rounds", "1", "--json"]).ok();
    let lines = done.lines();
    let methods: Vec<_> = lines.iter().filter_map(|l| l["method"].as_str()).collect();
    assert_eq!(methods, ["integrated", "sequential", "kernel_tcp"]);
    for line in &lines[..3] {
        assert!(line["bytes_per_s"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!((&line["source"], &line["sink"]), (&"file".into(), &"file".into()));
    }
    assert!(lines[0]["send_ns_per_packet"].as_f64().unwrap() > 0.0);
    assert_eq!(lines[3]["verified"], true);
    let done = world.run("alice", &["demo", "--bytes", "3000001", "--rounds", "1"]).ok();
    assert!(done.out.contains("integrated") && done.out.contains("all the same"), "{done:?}");
}

#[test]
fn kernels_are_measured() {
    let world = World::new();
    let args =
        ["bench", "kernels", "--sizes", "256,1024", "--smoke", "--json", "--pipelines", "pes"];
    let lines = world.run("alice", &args).ok().lines();
    assert_eq!(lines.len(), 4, "two sizes, two directions");
    for line in lines {
        for key in ["integrated", "blocked", "sequential", "reference"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key}: {line}");
        }
    }
}
