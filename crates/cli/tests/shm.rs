//! Transfers over shared memory, by the program itself.

mod support;

use std::fs;
use std::time::Duration;

use support::{BIG, World, bytes, share_at_rest, wait_for_part};

#[test]
fn files_and_folders_go_both_ways_unchanged() {
    let world = World::new();
    fs::create_dir_all(world.served("sub/deep")).unwrap();
    for n in 0..20 {
        fs::write(world.served(&format!("sub/deep/{n}.dat")), bytes(n * 1000, n as u64)).unwrap();
    }
    fs::write(world.served("sub/big"), bytes(40 << 20, 7)).unwrap();
    let server = world.serve(&["--writable", "--log-level", "info"]);
    let args = ["get", &server.url("sub"), "-j", "3", "--device", "shm", "--json"];
    let summary = world.run("alice", &args).ok().summary();
    assert_eq!((&summary["files_done"], &summary["failed"]), (&21.into(), &0.into()), "{summary}");
    for name in ["deep/0.dat", "deep/19.dat", "big"] {
        let (served, here) = (world.served("sub").join(name), world.here("sub").join(name));
        assert!(fs::read(served).unwrap() == fs::read(here).unwrap(), "{name}");
    }
    world.run("alice", &["put", "sub", &server.url("back"), "--device", "shm"]).ok();
    for name in ["deep/19.dat", "big"] {
        let (back, here) = (world.served("back").join(name), world.here("sub").join(name));
        assert!(fs::read(back).unwrap() == fs::read(here).unwrap(), "{name}");
    }
    let done = world.run("alice", &["ls", &server.url(""), "--device", "shm"]).ok();
    assert_eq!(done.out, "back/\nsub/\n");
    let log = server.stop().ok().err;
    assert_eq!(log.matches("connected over shared memory").count(), 5, "{log}");
}

#[test]
fn elements_ciphers_and_executions_change_no_byte() {
    let world = World::new();
    let content = bytes(1_234_567, 3);
    fs::write(world.served("a"), &content).unwrap();
    let server = world.serve(&["--allow-insecure", "--execution", "blocked"]);
    for args in [
        &[][..],
        &["--element", "int32"],
        &["--element", "int64", "--execution", "sequential"],
        &["--cipher", "chacha20-poly1305", "--execution", "blocked"],
        &["--cipher", "pes", "--element", "int16"],
        &["--cipher", "none"],
        &["--copies", "3", "--reply-bytes", "700"],
        &["--cpu-level", "portable"],
    ] {
        let url = server.url("a");
        let mut all = vec!["get", &url, "-o", "copy", "--device", "shm"];
        all.extend(args);
        world.run("alice", &all).ok();
        assert!(fs::read(world.here("copy")).unwrap() == content, "{args:?}");
        fs::remove_file(world.here("copy")).unwrap();
    }
}

#[test]
fn a_server_may_refuse_and_auto_does_without() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&["--no-shm"]);
    let url = server.url("a");
    let done = world.run("alice", &["get", &url, "--device", "shm"]);
    let done = done.failed(4, "the server does not offer any");
    assert!(done.err.contains("--device udp"), "{done:?}");
    world.run("alice", &["get", &url, "--device", "auto"]).ok();
    assert_eq!(fs::read(world.here("a")).unwrap(), b"content");
    fs::remove_file(world.here("a")).unwrap();
    drop(server);
    let server = world.serve(&["--log-level", "info"]);
    world.run("alice", &["get", &server.url("a"), "--device", "auto"]).ok();
    assert_eq!(fs::read(world.here("a")).unwrap(), b"content");
    let log = server.stop().ok().err;
    assert!(log.contains("connected over shared memory"), "{log}");
}

#[test]
fn only_whom_the_session_allows_comes_to_the_memory() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&[]);
    let args = ["get", &server.url("a"), "--device", "shm", "--trust", &server.fingerprint];
    world.run("mallory", &args).failed(3, "not on the server's list");
}

#[test]
fn waiting_costs_no_time_of_the_processor() {
    let world = World::new();
    fs::write(world.served("big"), bytes(BIG, 4)).unwrap();
    let server = world.serve(&[]);
    // A client that asks for little: the connection is idle nearly all the time.
    let args = ["get", &server.url("big"), "--rate", "1k", "--device", "shm"];
    let mut child = world.command("alice", &args).spawn().unwrap();
    wait_for_part(&world.path("here"), 0);
    let share = share_at_rest(server.pid(), Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(share <= 0.02, "{share} of a processor");
}
