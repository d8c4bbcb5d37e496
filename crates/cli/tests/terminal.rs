//! What a terminal shows: the question about a server's key, the bar; and captures in tshark.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{World, bytes, has, on_a_terminal};

#[test]
fn a_new_server_is_asked_about() {
    if !has("script") {
        return;
    }
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&["--public"]);
    let url = server.url("a");
    let done = on_a_terminal(&world, "bob", &["get", &url], "no\n");
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains(&server.fingerprint) && !world.here("a").exists(), "{done:?}");
    let done = on_a_terminal(&world, "bob", &["get", &url], "what\nyes\n");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out.matches("(yes/no)?").count(), 2, "{done:?}");
    // It is remembered.
    fs::remove_file(world.here("a")).unwrap();
    world.run("bob", &["get", &url]).ok();
    assert_eq!(fs::read_to_string(world.here("a")).unwrap(), "content");
}

#[test]
fn a_bar_shows_rate_and_time_left() {
    if !has("script") {
        return;
    }
    let world = World::new();
    fs::write(world.served("a"), bytes(6 << 20, 1)).unwrap();
    let server = world.serve(&[]);
    let args = ["get", &server.url("a"), "--rate", "5M"];
    let done = on_a_terminal(&world, "alice", &args, "");
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("MB/s") && done.out.contains(" left"), "{done:?}");
    assert!(done.out.contains("of 6.3 MB"), "{done:?}");
    let done = on_a_terminal(&world, "alice", &[&args[..], &["-q"]].concat(), "");
    assert_eq!((done.code, done.out.as_str()), (0, ""));
}

fn tshark(file: &Path, more: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-o", "tcp.check_checksum:TRUE"]).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_capture_is_tcp_without_a_wrong_checksum() {
    let world = World::new();
    fs::write(world.served("a"), bytes(300_000, 1)).unwrap();
    let server = world.serve(&[]);
    let args = ["get", &server.url("a"), "--capture", "c.pcapng", "--key-log", "keys"];
    let args = [&args[..], &["--datagram-bytes", "1452", "--device", "udp"]].concat();
    let done = world.run("alice", &args).ok();
    assert!(done.err.contains("session keys are written to"), "{done:?}");
    assert!(fs::read_to_string(world.here("keys")).unwrap().lines().count() >= 2);
    if !has("tshark") {
        return;
    }
    let capture = world.here("c.pcapng");
    let fields =
        ["-T", "fields", "-e", "tcp.checksum.status", "-e", "tcp.len", "-e", "tcp.flags.syn"];
    let out = tshark(&capture, &fields);
    let lines: Vec<Vec<&str>> = out.lines().map(|l| l.split('\t').collect()).collect();
    assert!(lines.len() > 200, "{out}");
    assert!(lines.iter().all(|l| l[0] == "1"), "a checksum is wrong, or it is no TCP");
    let bytes: usize = lines.iter().map(|l| l[1].parse::<usize>().unwrap()).sum();
    assert!(bytes > 300_000);
    assert_eq!(lines.iter().filter(|l| matches!(l[2], "1" | "True")).count(), 2);
}

/// The process of this name among the descendants of `pid`.
fn descendant(pid: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().filter_map(|child| child.parse().ok()).find_map(|child| {
        let comm = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if comm.trim_end() == name { Some(child) } else { descendant(child, name) }
    })
}

#[test]
fn top_gives_the_terminal_back_however_it_is_ended() {
    if !has("script") {
        return;
    }
    let world = World::new();
    for signal in [None, Some("TERM"), Some("INT"), Some("HUP")] {
        let plain = world.command("alice", &[]);
        let program = plain.get_program().to_str().unwrap();
        // What the terminal is like afterwards.
        let line = format!("'{program}' top --interval 0.1; echo code=$?; stty -a");
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env_remove("RUST_LOG");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut out = Vec::new();
        let mut is_ended = false;
        loop {
            let mut buffer = [0; 4096];
            let len = output.read(&mut buffer).unwrap();
            if len == 0 {
                break;
            }
            out.extend(&buffer[..len]);
            // Before it has the terminal, Ctrl-C is a signal of the terminal's.
            if !is_ended && String::from_utf8_lossy(&out).contains("\u{1b}[?1049h") {
                is_ended = true;
                match signal {
                    None => input.write_all(b"\x03").unwrap(),
                    Some(name) => {
                        let top = descendant(child.id(), "fusewire").expect("it runs");
                        let kill = Command::new("kill")
                            .args([&format!("-{name}"), &top.to_string()])
                            .status();
                        assert!(kill.unwrap().success());
                    }
                }
            }
        }
        child.wait().unwrap();
        let out = String::from_utf8_lossy(&out);
        let after = out.rsplit("\u{1b}[?1049l").next().unwrap();
        assert!(is_ended && after.contains("code=0"), "{signal:?}: {out}");
        for mode in ["icanon", "echo", "isig"] {
            let has = |word: &str| after.split([' ', ';', '\r', '\n']).any(|w| w == word);
            assert!(has(mode) && !has(&format!("-{mode}")), "{signal:?} {mode}: {after}");
        }
    }
}

#[test]
fn top_gives_the_terminal_back() {
    if !has("script") {
        return;
    }
    let world = World::new();
    // `s` sorts by something else.
    let done = on_a_terminal(&world, "alice", &["top", "--interval", "0.1"], "sq");
    assert_eq!(done.code, 0, "{done:?}");
    let (on, off) = (done.out.find("\u{1b}[?1049h"), done.out.rfind("\u{1b}[?1049l"));
    assert!(on.is_some() && on < off, "{done:?}");
    assert!(done.out.contains("fusewire top "), "{done:?}");
}
