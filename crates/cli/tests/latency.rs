//! `fusewire bench latency`, at its smallest.

mod support;

use support::{Done, World};

#[test]
fn round_trips_are_measured_with_and_without_others() {
    let world = World::new();
    let args = [
        "bench",
        "latency",
        "--stacks",
        "fusewire,fusewire_calls,kernel_udp,quinn",
        "--idle",
        "0,6",
    ];
    let args = [&args[..], &["--seconds", "0.01", "--rounds", "1", "--json"]].concat();
    let mut command = world.command("alice", &args);
    let run = Done::of(command.env_remove("FUSEWIRE_PEERS").spawn().unwrap()).ok();
    let (lines, told) = (run.lines(), &run.err);
    let case = |line: &serde_json::Value| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        (text("stack"), text("api"), line["idle_connections"].as_u64().unwrap())
    };
    let cases: Vec<_> = lines.iter().map(case).collect();
    let ours = |api: &str, idle| ("fusewire".to_owned(), api.to_owned(), idle);
    for api in ["blocking", "async"] {
        // Alone, and with somebody in accept.
        assert_eq!(cases.iter().filter(|case| **case == ours(api, 0)).count(), 2, "{told}");
        assert_eq!(cases.iter().filter(|case| **case == ours(api, 6)).count(), 1, "{told}");
    }
    assert_eq!(cases.iter().filter(|case| case.0 == "fusewire_calls").count(), 3);
    assert_eq!(cases.iter().filter(|case| case.0 == "kernel_udp").count(), 2);
    for line in &lines {
        let us = |name: &str| line[name].as_f64().unwrap();
        assert!(0.0 < us("round_trip_us_p50"), "{line}");
        assert!(us("round_trip_us_p50") <= us("round_trip_us_p99"), "{line}");
    }
    // Without `cargo xtask bench latency` there is none.
    assert!(told.contains("quinn is left out"), "{told}");
}

#[test]
fn a_cold_request_takes_fewer_round_trips_over_xtp() {
    let world = World::new();
    let args = ["bench", "latency", "--cold", "--requests", "5", "--rounds", "1", "--json"];
    let lines = world.run("alice", &args).ok().lines();
    let of = |nth: usize, name: &str| lines[nth][name].as_f64().unwrap();
    assert_eq!(lines.len(), 6);
    let cases = lines.iter().map(|line| [&line["request"], &line["transport"]]);
    let all = ["behind", "within", "raw"].map(|request| [[request, "tcp"], [request, "xtp"]]);
    assert!(cases.eq(all.into_iter().flatten()), "{lines:?}");
    assert!((0..6).all(|nth| of(nth, "requests") == 5.0));
    // The machine may be busy, and a round trip has 20 ms; no less than what must go there and back.
    for (nth, least) in [4.0, 3.0, 3.0, 2.0, 2.0, 1.0].into_iter().enumerate() {
        assert!(of(nth, "round_trips") >= least, "{lines:?}");
    }
    assert!(of(1, "ratio") < 0.95 && of(3, "ratio") < 0.9 && of(5, "ratio") < 0.8, "{lines:?}");
    assert!(of(3, "round_trips") < of(1, "round_trips"), "{lines:?}");
}
