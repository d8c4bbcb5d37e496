//! What breaks off can go on: killed clients and servers, Ctrl-C, SIGTERM.

mod support;

use std::fs;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use support::{Done, World, bytes, served_over};

const WAYS: [&str; 4] = ["udp", "xtp", "kernel-tcp", "shm"];

#[test]
fn a_killed_client_goes_on_where_it_was() {
    for way in WAYS {
        let world = World::new();
        let mut big = world.get_big(way, 2 << 20);
        big.child.kill().unwrap();
        big.child.wait().unwrap();
        world.goes_on(way, &big.url, &big.content);
        if !matches!(way, "udp" | "xtp") {
            // The killed one's end was seen: a drain need not wait for it.
            big.server.stop().ok();
        }
    }
}

#[test]
fn ctrl_c_keeps_what_has_come_and_says_so() {
    let world = World::new();
    let big = world.get_big("udp", 2 << 20);
    kill_process(Pid::from_child(&big.child), Signal::INT).unwrap();
    Done::of(big.child).failed(130, "run the same command again");
    world.goes_on("udp", &big.url, &big.content);
}

#[test]
fn ctrl_c_while_a_folder_is_listed_says_nothing_of_the_peer() {
    let world = World::new();
    for n in 0..6000 {
        fs::write(world.served(&n.to_string()), bytes(500, n)).unwrap();
    }
    let server = world.serve(&[]);
    for more in [&[][..], &["--json"]] {
        let args = ["get", &server.url(""), "-o", "to", "--rate", "100k", "--no-resume"];
        let child = world.command("alice", &[&args[..], more].concat()).spawn().unwrap();
        let count = || fs::read_dir(world.here("to")).map_or(0, Iterator::count);
        while count() < 20 {
            std::thread::sleep(Duration::from_millis(2));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let done = Done::of(child).failed(130, "interrupted");
        assert!(!done.err.contains("peer") && !done.err.contains("failed"), "{done:?}");
        if !more.is_empty() {
            assert_eq!(done.summary()["failed"], 0, "{done:?}");
        }
        fs::remove_dir_all(world.here("to")).unwrap();
    }
}

#[test]
fn a_server_that_vanishes_is_an_error_and_the_next_one_goes_on() {
    for way in WAYS {
        let world = World::new();
        let big = world.get_big(way, 2 << 20);
        let address = big.server.address.clone();
        big.server.kill();
        Done::of(big.child).failed(4, "run the same command again");
        let _server = world.serve_again(&address, &served_over(way));
        world.goes_on(way, &big.url, &big.content);
    }
}

#[test]
fn sigterm_lets_transfers_end() {
    let ends = |way| {
        let world = World::new();
        let big = world.get_big(way, 2 << 20);
        big.server.terminate();
        Done::of(big.child).ok();
        big.server.wait().ok();
        assert!(fs::read(world.here("big")).unwrap() == big.content);
    };
    std::thread::scope(|scope| WAYS.map(|way| scope.spawn(move || ends(way))).map(drop));
}

/// Nobody waits in silence for who has gone.
#[test]
fn a_second_signal_resets_what_goes_on() {
    for way in WAYS {
        let world = World::new();
        let big = world.get_big(way, 2 << 20);
        big.server.terminate();
        big.server.interrupt();
        assert!(matches!(big.server.wait().code, 130 | 143), "{way}");
        // Memory that is shared has no word for it.
        let word = if way == "shm" { "run the same command again" } else { "reset the connection" };
        Done::of(big.child).failed(4, word);
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

/// A port at which nobody listens, and nobody can: for UDP it has another peer, for TCP it is bound and no more.
fn nobodys() -> (UdpSocket, OwnedFd) {
    for _ in 0..100 {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect("127.0.0.1:9").unwrap();
        let flags = SocketFlags::CLOEXEC;
        let tcp = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        if rustix::net::bind(&tcp, &udp.local_addr().unwrap()).is_ok() {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both");
}

#[test]
fn nobody_there_is_said_at_once() {
    let world = World::new();
    let (udp, _tcp) = nobodys();
    let url = format!("fusewire://{}/a", udp.local_addr().unwrap());
    let start = Instant::now();
    let wait = ["get", &url, "--connect-timeout", "60"];
    world.run("alice", &wait).failed(4, "nobody listens");
    for device in ["udp", "kernel-tcp"] {
        let done = world.run("alice", &[&wait[..], &["--device", device]].concat());
        done.failed(4, "fusewire serve DIR --listen 127.0.0.1:");
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // Somebody is there and says nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("fusewire://{}/a", silent.local_addr().unwrap());
    world.run("alice", &["get", &url, "--connect-timeout", "1"]).failed(4, "no answer");
}

#[test]
fn begin_anew_is_an_option() {
    let world = World::new();
    let mut big = world.get_big("udp", 2 << 20);
    big.child.kill().unwrap();
    big.child.wait().unwrap();
    let summary = world.run("alice", &["get", &big.url, "--no-resume", "--json"]).ok().summary();
    assert_eq!(summary["bytes_resumed"], 0, "{summary}");
    assert!(fs::read(world.here("big")).unwrap() == big.content);
    assert_eq!(fs::read_dir(world.path("here")).unwrap().count(), 1, "something is left over");
}

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let world = World::new();
    fs::write(world.here("big"), "before").unwrap();
    let big = world.get_big("udp", 2 << 20);
    fs::File::options().write(true).open(world.served("big")).unwrap().set_len(1 << 20).unwrap();
    let done = Done::of(big.child).failed(1, "shorter");
    assert_eq!(fs::read_to_string(world.here("big")).unwrap(), "before", "{done:?}");
}

#[test]
fn a_file_that_may_not_be_so_large_is_an_error() {
    let world = World::new();
    fs::write(world.served("big"), bytes(4 << 20, 8)).unwrap();
    fs::write(world.here("big"), "before").unwrap();
    let server = world.serve(&[]);
    let get = world.command("alice", &["get", &server.url("big")]);
    let mut shell = std::process::Command::new("sh");
    let program = get.get_program().to_str().unwrap();
    shell.args(["-c", &format!("ulimit -f 2048; exec {program} get {}", server.url("big"))]);
    shell.current_dir(world.path("here")).env("XDG_STATE_HOME", world.path("alice"));
    shell.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    shell.stderr(std::process::Stdio::piped());
    let done = Done::of(shell.spawn().unwrap()).failed(1, "big");
    assert!(done.err.to_lowercase().contains("large"), "{done:?}");
    assert_eq!(fs::read_to_string(world.here("big")).unwrap(), "before");
}

#[test]
fn names_that_are_too_long_are_errors() {
    let world = World::new();
    let server = world.serve(&["--writable"]);
    for len in [256, 4096, 60_000] {
        let name = "n".repeat(len);
        let url = server.url(&name);
        let done = world.run("alice", &["get", &url]);
        assert!(
            matches!(done.code, 1 | 2) && done.err.contains("more than"),
            "{len}: {}",
            done.err.len()
        );
        fs::write(world.here("a"), "content").unwrap();
        let done = world.run("alice", &["put", "a", &url]);
        assert!(
            matches!(done.code, 1 | 2) && done.err.contains("more than"),
            "{len}: {}",
            done.err.len()
        );
    }
    assert_eq!(fs::read_dir(world.path("served")).unwrap().count(), 0);
}

#[test]
fn what_goes_to_dev_null_is_checked_and_forgotten() {
    let world = World::new();
    fs::create_dir(world.served("sub")).unwrap();
    fs::write(world.served("sub/a"), bytes(3 << 20, 9)).unwrap();
    let server = world.serve(&[]);
    let args = ["get", &server.url("sub"), "-o", "/dev/null", "--json"];
    let lines = world.run("alice", &args).ok().lines();
    let hash = lines[0]["blake3"].as_str().unwrap();
    assert_eq!((hash.len(), &lines[0]["path"]), (64, &"a".into()), "{lines:?}");
    use std::os::unix::fs::FileTypeExt as _;
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(fs::read_dir(world.path("here")).unwrap().count(), 0);
}
