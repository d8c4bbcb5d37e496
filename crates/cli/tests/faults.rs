//! What breaks off can go on: killed clients and servers, Ctrl-C, SIGTERM.

mod support;

use std::fs;
use std::net::UdpSocket;

use rustix::process::{Pid, Signal, kill_process};
use support::{Done, World, bytes, wait_for_part};

/// Long enough to be caught in the middle at the rate below.
const LEN: usize = 24 << 20;
const RATE: &str = "16M";

#[test]
fn a_killed_client_goes_on_where_it_was() {
    let world = World::new();
    let content = bytes(LEN, 1);
    fs::write(world.served("big"), &content).unwrap();
    let server = world.serve(&[]);
    let url = server.url("big");
    let mut child = world.command("alice", &["get", &url, "--rate", RATE]).spawn().unwrap();
    wait_for_part(&world.path("here"), 6 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!world.here("big").exists());
    let summary = world.run("alice", &["get", &url, "--json"]).ok().summary();
    assert!(summary["bytes_resumed"].as_u64().unwrap() >= 1 << 20, "{summary}");
    assert!(fs::read(world.here("big")).unwrap() == content);
}

#[test]
fn ctrl_c_keeps_what_has_come_and_says_so() {
    let world = World::new();
    let content = bytes(LEN, 2);
    fs::write(world.served("big"), &content).unwrap();
    let server = world.serve(&[]);
    let url = server.url("big");
    let child = world.command("alice", &["get", &url, "--rate", RATE]).spawn().unwrap();
    wait_for_part(&world.path("here"), 6 << 20);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let done = Done::of(child).failed(130, "run the same command again");
    assert!(!world.here("big").exists(), "{done:?}");
    let summary = world.run("alice", &["get", &url, "--json"]).ok().summary();
    assert!(summary["bytes_resumed"].as_u64().unwrap() >= 1 << 20, "{summary}");
    assert!(fs::read(world.here("big")).unwrap() == content);
}

#[test]
fn a_server_that_vanishes_is_an_error_and_the_next_one_goes_on() {
    let world = World::new();
    let content = bytes(LEN, 3);
    fs::write(world.served("big"), &content).unwrap();
    let server = world.serve(&[]);
    let (address, url) = (server.address.clone(), server.url("big"));
    let child = world.command("alice", &["get", &url, "--rate", RATE]).spawn().unwrap();
    wait_for_part(&world.path("here"), 6 << 20);
    server.kill();
    Done::of(child).failed(4, "run the same command again");
    let _server = world.serve_again(&address, &[]);
    let summary = world.run("alice", &["get", &url, "--json"]).ok().summary();
    assert!(summary["bytes_resumed"].as_u64().unwrap() >= 1 << 20, "{summary}");
    assert!(fs::read(world.here("big")).unwrap() == content);
}

#[test]
fn sigterm_lets_transfers_end() {
    let world = World::new();
    let content = bytes(LEN / 2, 4);
    fs::write(world.served("big"), &content).unwrap();
    for device in ["udp", "kernel-tcp"] {
        let server = world.serve(&[]);
        let args = ["get", &server.url("big"), "--rate", RATE, "--device", device];
        let child = world.command("alice", &args).spawn().unwrap();
        wait_for_part(&world.path("here"), 2 << 20);
        server.terminate();
        Done::of(child).ok();
        server.wait().ok();
        assert!(fs::read(world.here("big")).unwrap() == content);
        fs::remove_file(world.here("big")).unwrap();
    }
}

#[test]
fn nobody_there_is_exit_code_4() {
    let world = World::new();
    // A port of which we know that nobody listens: ours, and we do not answer TCP.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("fusewire://{}/a", socket.local_addr().unwrap());
    world.run("alice", &["get", &url, "--device", "kernel-tcp"]).failed(4, "cannot connect");
    world
        .run("alice", &["get", "fusewire://no.such.host.invalid/a"])
        .failed(4, "no.such.host.invalid");
}
