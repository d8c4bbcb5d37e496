//! `--execution auto` asks the calibration that is kept, and does without.

mod support;

use std::fs;

use support::{World, bytes};

#[test]
fn auto_takes_the_models_choice_and_no_byte_differs() {
    let world = World::new();
    let content = bytes(300_000, 5);
    fs::write(world.served("a"), &content).unwrap();
    let server = world.serve(&[]);
    let get = |execution: &str, to: &str| {
        let args = ["--log-level", "debug", "get", &server.url("a"), "-o", to];
        let done = world.run("alice", &[&args, &["--execution", execution][..]].concat()).ok();
        assert!(fs::read(world.here(to)).unwrap() == content, "{execution}");
        done.err.contains("the model's choice")
    };
    assert!(!get("auto", "before"), "nothing is calibrated");
    world.run("alice", &["model", "calibrate", "--quick"]).ok();
    assert!(get("auto", "after"));
    assert!(!get("integrated", "told"));
    let folder = world.path("cache").join("fusewire");
    for kept in fs::read_dir(folder).unwrap() {
        fs::write(kept.unwrap().path(), "{ \"version\": 7 }").unwrap();
    }
    assert!(!get("auto", "malformed"), "what is kept is no machine, and one loop goes on");
    assert_eq!(server.stop().code, 0);
}
