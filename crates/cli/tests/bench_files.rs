//! `fusewire bench files --quick`: each transfer once, verified, and nothing is left of it.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Done, World};

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn every_case_is_measured_and_nothing_is_left() {
    let world = World::new();
    let dir = world.path("here");
    let dir = dir.to_str().unwrap();
    let methods = "fusewire,fusewire-kernel-tcp,fusewire-shm,rsync,cp";
    let args = ["bench", "files", "--quick", "--json", "--dir", dir, "--methods", methods];
    let done = world.run("alice", &args).ok();
    let lines = done.lines();
    let seen: BTreeSet<_> = lines
        .iter()
        .map(|line| ["method", "direction", "case"].map(|part| line[part].as_str().unwrap()))
        .collect();
    assert_eq!(seen.len(), lines.len());
    let rsync = is_installed("rsync");
    for method in methods.split(',') {
        if !is_installed(method) && !method.starts_with("fusewire") {
            assert!(done.err.contains(&format!("{method} is left out")), "{done:?}");
            continue;
        }
        let directions = if method == "cp" { &["copy"][..] } else { &["get", "put"] };
        for direction in directions {
            for case in ["small", "again", "large", "resume"] {
                let is_there = method != "cp" || case != "resume";
                assert_eq!(seen.contains(&[method, direction, case]), is_there, "{method} {case}");
            }
        }
    }
    for line in &lines {
        let seconds = line["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0 && seconds < 60.0, "{line}");
        assert_eq!(line["ratio_to_rsync"].is_f64(), rsync, "{line}");
        if line["case"] == "resume" {
            let there = line["bytes_there"].as_u64().unwrap();
            assert!((6 << 20..=12 << 20).contains(&there), "{line}");
        }
    }
    assert!(is_empty(&world.path("here")), "something is left");
}

#[test]
fn ctrl_c_ends_it_and_nothing_is_left() {
    let world = World::new();
    let dir = world.path("here");
    let args = ["bench", "files", "--files", "3000", "--bytes", "3MB", "--rounds", "50"];
    let mut command = world.command("alice", &args);
    command.args(["--cases", "small", "--methods", "fusewire", "--dir"]).arg(&dir);
    let running = command.spawn().unwrap();
    let (start, patience) = (Instant::now(), Duration::from_secs(60));
    let has_begun = || {
        let scratch = fs::read_dir(&dir).unwrap().next();
        scratch.is_some_and(|s| {
            fs::read_dir(s.unwrap().path().join("area/to")).is_ok_and(|mut to| to.next().is_some())
        })
    };
    while !has_begun() {
        assert!(start.elapsed() < patience, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    Done::of(running).failed(130, "interrupted; what was made is removed");
    assert!(is_empty(&dir), "something is left");
}
