//! The program casts: one to many over real sockets, in namespaces of the test's own.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Done, World, bytes, has, on_a_terminal};

const GROUP: &str = "239.7.7.7";
/// Packets to a group need a way, also on loopback.
const SETUP: &str = "ip link set lo multicast on; ip route add 239.0.0.0/8 dev lo src 127.0.0.1";

/// A sender that has said where it is.
struct Sender {
    child: Child,
    out: BufReader<ChildStdout>,
    first: Value,
}

impl Sender {
    fn start(mut command: Command) -> Sender {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("the sender did not start: {:?}", Done::of(child));
        }
        let first = serde_json::from_str(&line).unwrap();
        Sender { child, out, first }
    }

    fn fingerprint(&self) -> String {
        self.first["fingerprint"].as_str().unwrap().into()
    }

    /// Its lines until one has `key` with a text that begins so.
    fn until(&mut self, key: &str, begin: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "ended before {begin}");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line[key].as_str().is_some_and(|value| value.starts_with(begin)) {
                return line;
            }
        }
    }

    fn end(mut self) -> (Done, Value) {
        let summary = self.until("event", "summary");
        (Done::of(self.child), summary)
    }
}

fn make(dir: &Path) {
    fs::create_dir_all(dir.join("folder/empty")).unwrap();
    fs::write(dir.join("big"), bytes(20 << 20, 3)).unwrap();
    for n in 0..50 {
        fs::write(dir.join(format!("folder/f{n}")), bytes(n * 997, n as u64)).unwrap();
    }
    std::os::unix::fs::symlink("f7", dir.join("folder/link")).unwrap();
}

#[track_caller]
fn same(from: &Path, to: &Path) {
    assert!(fs::read(from.join("big")).unwrap() == fs::read(to.join("big")).unwrap());
    for n in 0..50 {
        let name = format!("folder/f{n}");
        assert!(fs::read(from.join(&name)).unwrap() == fs::read(to.join(&name)).unwrap(), "{name}");
    }
    assert_eq!(fs::read_link(to.join("folder/link")).unwrap(), Path::new("f7"));
    assert!(to.join("folder/empty").is_dir());
}

/// Casts `big` and `folder` of what is served.
fn cast(world: &World, more: &[&str]) -> Command {
    let (big, folder) = (world.served("big"), world.served("folder"));
    let group = if more.iter().any(|arg| arg.starts_with("ff")) { None } else { Some(GROUP) };
    let mut args = vec!["cast", big.to_str().unwrap(), folder.to_str().unwrap()];
    args.extend(group);
    args.extend(more);
    args.push("--json");
    world.command("alice", &args)
}

#[test]
fn two_receive_what_one_casts_and_a_stranger_does_not() {
    in_namespace(
        "two_receive_what_one_casts_and_a_stranger_does_not",
        Need::Namespace,
        SETUP,
        || {
            let world = World::new();
            make(&world.path("served"));
            let sender = Sender::start(cast(&world, &["--wait", "2"]));
            let trust = sender.fingerprint();
            let stranger = world.run("mallory", &["receive", GROUP, "-o", "m", "--trust", &trust]);
            let refused = stranger.failed(3, "not on the server's list");
            assert!(refused.err.contains("fusewire cast PATH GROUP --allow"), "{refused:?}");
            let receive = |to| {
                let args = ["receive", GROUP, "-o", to, "--json"];
                world.command("alice", &args).spawn().unwrap()
            };
            let both = [receive("one"), receive("two/")];
            for (child, to) in both.into_iter().zip(["one", "two"]) {
                let summary = Done::of(child).ok().summary();
                assert_eq!(summary["failed"], 0, "{summary}");
                assert_eq!(summary["files_done"], 51, "{summary}");
                same(&world.path("served"), &world.here(to));
            }
            let (done, summary) = sender.end();
            done.ok();
            assert_eq!(
                (&summary["members"], &summary["complete"]),
                (&2.into(), &2.into()),
                "{summary}"
            );
        },
    );
}

#[test]
fn who_comes_late_or_was_broken_off_has_all_in_the_end() {
    in_namespace(
        "who_comes_late_or_was_broken_off_has_all_in_the_end",
        Need::Namespace,
        SETUP,
        || {
            let world = World::new();
            make(&world.path("served"));
            let mut sender = Sender::start(cast(&world, &["--rate", "2M"]));
            let args = |to| ["receive", GROUP, "-o", to, "--json"];
            let first = world.command("alice", &args("one")).spawn().unwrap();
            let broken = world.command("alice", &args("two")).spawn().unwrap();
            sender.until("state", "receiving");
            support::wait_for_part(&world.here("two"), 3 << 20);
            kill_process(Pid::from_child(&broken), Signal::INT).unwrap();
            Done::of(broken).failed(130, "kept");
            let again = world.command("alice", &args("two")).spawn().unwrap();
            let late = world.command("alice", &args("three")).spawn().unwrap();
            for (child, to) in [(first, "one"), (again, "two"), (late, "three")] {
                let done = Done::of(child).ok();
                same(&world.path("served"), &world.here(to));
                // What comes by the group was not here before.
                let resumed = done.lines().iter().any(|line| line["event"] == "resumed");
                assert_eq!(resumed, to == "two", "{to}: {done:?}");
                let here = done.summary()["bytes_resumed"].as_u64().unwrap();
                assert_eq!(here >= 1 << 20, to == "two", "{to}: {done:?}");
            }
            let (done, summary) = sender.end();
            // Who was broken off and came again is one.
            assert_eq!(
                (&summary["members"], &summary["complete"]),
                (&3.into(), &3.into()),
                "{summary}"
            );
            done.ok();
        },
    );
}

#[test]
fn who_is_taken_off_the_list_is_no_receiver_any_more() {
    let name = "who_is_taken_off_the_list_is_no_receiver_any_more";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        let key = |user| world.run(user, &["key", "show"]).ok().out;
        let (carol, bob) = (key("carol"), key("bob"));
        let list = world.path("list");
        fs::write(&list, format!("{carol}{bob}")).unwrap();
        let allow = ["--allow", list.to_str().unwrap(), "--rate", "5M", "--wait", "2"];
        let mut sender = Sender::start(cast(&world, &allow));
        let trust = sender.fingerprint();
        let untrusting = world.run("bob", &["receive", GROUP, "-o", "bob"]);
        untrusting.failed(3, "--trust");
        let receive = |user| {
            let args = ["receive", GROUP, "-o", user, "--json", "--trust", &trust];
            world.command(user, &args).spawn().unwrap()
        };
        fs::create_dir(world.here("bob")).unwrap();
        let (stays, goes) = (receive("carol"), receive("bob"));
        support::wait_for_part(&world.here("bob"), 2 << 20);
        fs::write(&list, carol).unwrap();
        kill_process(Pid::from_child(&sender.child), Signal::HUP).unwrap();
        let gone = Done::of(goes);
        assert!(gone.code == 3 || gone.code == 4, "{gone:?}");
        assert!(!world.here("bob/big").exists());
        Done::of(stays).ok();
        same(&world.path("served"), &world.here("carol"));
        sender.until("state", "removed");
        let (done, summary) = sender.end();
        let of = |state: &str| summary[state].as_u64().unwrap();
        assert_eq!((of("complete"), of("removed"), of("gone")), (1, 1, 0), "{summary}");
        done.ok();
    });
}

/// A file that no group is sent, as it is empty, is taken away while others are cast.
#[test]
fn what_never_came_has_failed_and_the_sender_is_told() {
    let name = "what_never_came_has_failed_and_the_sender_is_told";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        let mut sender = Sender::start(cast(&world, &["--rate", "10M"]));
        let args = ["receive", GROUP, "-o", "to", "--json"];
        let receiver = world.command("alice", &args).spawn().unwrap();
        sender.until("state", "receiving");
        fs::remove_file(world.served("folder/f0")).unwrap();
        let done = Done::of(receiver).failed(1, "1 failure");
        let summary = done.summary();
        let of = |what: &str| summary[what].as_u64().unwrap();
        assert_eq!((of("files"), of("files_done"), of("failed")), (51, 50, 1), "{summary}");
        let failed = done.lines().into_iter().find(|line| line["event"] == "failed").unwrap();
        assert_eq!(failed["path"], "folder/f0", "{done:?}");
        let told = sender.until("state", "incomplete");
        assert_eq!((&told["files"], &told["failed"]), (&50.into(), &1.into()), "{told}");
        sender.end().0.failed(1, "not every receiver has everything");
    });
}

#[test]
fn who_wants_less_is_complete_and_who_could_not_have_it_says_so() {
    let name = "who_wants_less_is_complete_and_who_could_not_have_it_says_so";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        for (more, code, files, wanted) in
            [(&["--include", "f1*"][..], 0, 11, 11), (&["--no-clobber"], 0, 50, 50)]
        {
            fs::create_dir_all(world.here("to")).unwrap();
            fs::write(world.here("to/big"), "here already").unwrap();
            let mut sender = Sender::start(cast(&world, &[]));
            let args = ["receive", GROUP, "-o", "to", "--json"];
            let done = world.run("alice", &[&args[..], more].concat());
            assert_eq!(done.code, code, "{done:?}");
            let state = if code == 0 { "complete" } else { "incomplete" };
            let told = sender.until("state", state);
            let of = |what: &str| told[what].as_u64().unwrap();
            let failed = code as u64;
            assert_eq!((of("files"), of("wanted"), of("failed")), (files, wanted, failed));
            assert_eq!(fs::read(world.here("to/big")).unwrap(), b"here already");
            let (done, summary) = sender.end();
            assert_eq!((done.code, &summary["gone"]), (code, &0.into()), "{done:?} {summary}");
            fs::remove_dir_all(world.here("to")).unwrap();
        }
    });
}

/// Two casts of one host and one user to one group: each receiver chooses, by what the sender prints.
#[test]
fn of_two_casts_the_one_that_is_named_is_taken() {
    let name = "of_two_casts_the_one_that_is_named_is_taken";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        for name in ["one", "two"] {
            fs::write(world.served(name), name).unwrap();
        }
        let start = |name: &str, listen: &[&str]| {
            let path = world.served(name);
            let args = ["cast", path.to_str().unwrap(), GROUP, "--json", "--wait", "2"];
            Sender::start(world.command("alice", &[&args[..], listen].concat()))
        };
        let senders = [start("one", &[]), start("two", &["--listen", "127.0.0.1:0"])];
        // The port of a cast is taken: another one of this host has a free port.
        let third = start("one", &[]);
        assert!(!third.first["address"].as_str().unwrap().ends_with(":9295"));
        let mut child = third.child;
        child.kill().unwrap();
        child.wait().unwrap();
        let receive = |from: &str, to: &str| {
            let args = ["receive", GROUP, "-o", to, "--json", "--from", from];
            world.command("alice", &args).spawn().unwrap()
        };
        let mut receivers = Vec::new();
        for (sender, name) in senders.iter().zip(["one", "two"]) {
            let address = sender.first["address"].as_str().unwrap();
            let (_, port) = address.rsplit_once(':').unwrap();
            receivers.push((receive(address, &format!("{name}-a")), name));
            receivers.push((receive(&format!(":{port}"), &format!("{name}-b")), name));
        }
        for (child, _) in receivers {
            Done::of(child).ok();
        }
        for name in ["one", "two"] {
            for to in ["a", "b"] {
                let to = world.here(&format!("{name}-{to}"));
                let has = |name: &str| to.join(name).exists();
                assert_eq!((has("one"), has("two")), (name == "one", name == "two"), "{name}");
            }
        }
        for sender in senders {
            sender.end().0.ok();
        }
        world.run("alice", &["receive", GROUP, "--from", "port"]).failed(2, "HOST:PORT");
        // What it prints for people is what `--from` takes.
        let path = world.served("one");
        let args = ["cast", path.to_str().unwrap(), GROUP, "--after", "0"];
        let done = world.run("alice", &args).failed(4, "nobody");
        let line = done.err.lines().find_map(|line| line.strip_prefix("sessions")).unwrap();
        assert!(line.trim().strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()));
    });
}

#[test]
fn holes_are_not_counted_as_sent() {
    in_namespace("holes_are_not_counted_as_sent", Need::Namespace, SETUP, || {
        let world = World::new();
        let path = world.served("sparse");
        fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
        let args = ["cast", path.to_str().unwrap(), GROUP, "--json"];
        let sender = Sender::start(world.command("alice", &args));
        world.run("alice", &["receive", GROUP, "-o", "to", "--json"]).ok();
        let (done, summary) = sender.end();
        assert_eq!(
            (&summary["bytes_holes"], &summary["bytes_per_s"]),
            (&(1 << 30).into(), &0.0.into())
        );
        done.ok();
    });
}

#[test]
fn who_waits_on_a_terminal_sees_it() {
    if !has("script") {
        return;
    }
    in_namespace("who_waits_on_a_terminal_sees_it", Need::Namespace, SETUP, || {
        let world = World::new();
        let args = ["receive", GROUP, "--patience", "1"];
        let done = on_a_terminal(&world, "alice", &args, "");
        assert!(done.code == 4 && done.out.contains("waiting for a sender"), "{done:?}");
        let done = on_a_terminal(&world, "alice", &[&args[..], &["-q"]].concat(), "");
        assert!(!done.out.contains("waiting"), "{done:?}");
    });
}

#[test]
fn nobody_there_is_said_and_nothing_heard_too() {
    in_namespace("nobody_there_is_said_and_nothing_heard_too", Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        let args = ["receive", GROUP, "--patience", "1"];
        world.run("alice", &args).failed(4, "nothing is heard");
        Done::of(cast(&world, &["--after", "1", "--wait", "2"]).spawn().unwrap())
            .failed(4, "nobody");
        let big = world.served("big");
        let cast =
            |more: &[&str]| world.run("alice", &[&["cast", big.to_str().unwrap()], more].concat());
        cast(&["10.0.0.1"]).failed(2, "no group's address");
        cast(&[big.to_str().unwrap(), GROUP]).failed(2, "more than one PATH is named big");
        // What would change nothing for the group, or show its key.
        for (option, value) in [
            ("--header-protection", None),
            ("--record-padding", Some("1024")),
            ("--cipher", Some("none")),
            ("--cipher", Some("aes-256-gcm,none")),
        ] {
            let options: Vec<&str> = [GROUP, option].into_iter().chain(value).collect();
            cast(&options).failed(2, option);
            world.run("alice", &[&["receive"], &options[..]].concat()).failed(2, option);
        }
        cast(&[GROUP, "--interface", "none7"]).failed(1, "");
        // Straight on IP: on an interface, and the sessions have to have some way.
        let own = ["--device", "packet:lo", "--address", "10.9.9.9/24"];
        let tap = ["--device", "tap:fwt", "--address", "10.9.9.9/24"];
        for (carried, text) in [
            (&[][..], "needs a --device"),
            (&own, "beside the kernel"),
            (&tap, "beside the kernel"),
        ] {
            let all = [&[GROUP, "--carrier", "ip"], carried].concat();
            cast(&all).failed(2, text);
            world.run("alice", &[&["receive"], &all[..]].concat()).failed(2, text);
        }
        let nothing = world.served("nothing");
        world.run("alice", &["cast", nothing.to_str().unwrap(), GROUP]).failed(1, "nothing");
    });
}

#[test]
fn receivers_end_when_their_sender_is_ended() {
    let name = "receivers_end_when_their_sender_is_ended";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        let mut sender = Sender::start(cast(&world, &["--rate", "4M"]));
        let args = ["receive", GROUP, "-o", "to", "--json", "--connect-timeout", "1"];
        let receiver = world.command("alice", &args).spawn().unwrap();
        sender.until("state", "receiving");
        support::wait_for_part(&world.here("to"), 1 << 20);
        kill_process(Pid::from_child(&sender.child), Signal::INT).unwrap();
        let (done, summary) = sender.end();
        assert_eq!(summary["interrupted"], true, "{summary}");
        done.failed(130, "receivers keep");
        // It goes by the end of its session, and asks for the rest where nobody is any more. Who heeds the group alone
        // listens to it for two minutes.
        let began = Instant::now();
        Done::of(receiver).failed(4, "cannot connect");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
    });
}

/// Another announces the same group, and is heard first.
#[test]
fn who_plays_the_sender_is_passed_over() {
    let name = "who_plays_the_sender_is_passed_over";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        let secret = world.served("folder");
        let args = ["cast", secret.to_str().unwrap(), GROUP, "--json", "--public"];
        let mut impostor = Sender::start(world.command("mallory", &args));
        let wrong = impostor.fingerprint();
        let trust = world.run("alice", &["key", "show"]).ok().out;
        let args = ["receive", GROUP, "-o", "one", "--trust", trust.trim(), "--json"];
        // Nobody else is there.
        world.run("alice", &args).failed(3, &wrong);
        let patient = [&args[..], &["--patience", "60"]].concat();
        let child = world.command("alice", &patient).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let sender = Sender::start(cast(&world, &[]));
        assert_eq!(sender.fingerprint(), trust.trim());
        Done::of(child).ok();
        same(&world.path("served"), &world.here("one"));
        sender.end().0.ok();
        impostor.child.kill().unwrap();
        impostor.child.wait().unwrap();
    });
}

/// A bridge, and a host at it for each receiver.
fn hosts(n: usize) -> Vec<Peer> {
    sh("ip link add br7 type bridge mcast_snooping 0; ip link set br7 up; ip addr add 10.77.0.1/24 dev br7;
        ip route add 239.0.0.0/8 dev br7");
    (0..n)
        .map(|at| {
            let peer = Peer::new();
            sh(&format!(
                "ip link add v{at} type veth peer name eth0 netns {}; ip link set v{at} master br7 up",
                peer.pid()
            ));
            peer.sh(&format!(
                "ip addr add 10.77.0.{}/24 dev eth0; ip link set eth0 up; ip route add 239.0.0.0/8 dev eth0",
                at + 2
            ));
            peer
        })
        .collect()
}

fn receive_at(world: &World, peer: &Peer, group: &[&str], to: &str) -> Child {
    let mut command = peer.command(env!("CARGO_BIN_EXE_fusewire"));
    command.arg("receive").args(group).args(["-o", to, "--json"]);
    command.current_dir(world.path("here"));
    command.env("XDG_STATE_HOME", world.path("alice")).env_remove("RUST_LOG");
    command.env("XDG_CACHE_HOME", world.path("cache"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_frozen_and_a_killed_one_of_eight_hosts_hold_up_nobody() {
    let name = "a_frozen_and_a_killed_one_of_eight_hosts_hold_up_nobody";
    in_namespace(name, Need::Root, "", || {
        let world = World::new();
        make(&world.path("served"));
        // Far more than a sender keeps, and long to go.
        fs::write(world.served("big"), bytes(60 << 20, 3)).unwrap();
        let peers = hosts(8);
        let more = ["--wait", "8", "--rate", "10M", "--silence", "4000"];
        let mut sender = Sender::start(cast(&world, &more));
        let mut children: Vec<Child> = peers
            .iter()
            .enumerate()
            .map(|(at, peer)| receive_at(&world, peer, &[GROUP], &format!("to{at}")))
            .collect();
        sender.until("state", "receiving");
        support::wait_for_part(&world.here("to0"), 2 << 20);
        support::wait_for_part(&world.here("to7"), 2 << 20);
        let frozen = children.remove(7);
        let mut killed = children.remove(0);
        kill_process(Pid::from_child(&frozen), Signal::STOP).unwrap();
        let began = Instant::now();
        let another = world.here("to1");
        support::wait_for_part(&another, 0);
        let watch = std::thread::spawn(move || support::longest_pause(&another));
        killed.kill().unwrap();
        killed.wait().unwrap();
        // Others have more than a sender keeps, so that they do not wait for it any longer. It goes on where it was, and gets the
        // rest by itself; its session lives longer than four seconds.
        support::wait_for_part(&world.here("to1"), 24 << 20);
        assert_eq!(sender.until("state", "left behind")["state"], "left behind: silent");
        kill_process(Pid::from_child(&frozen), Signal::CONT).unwrap();
        for (at, child) in children.into_iter().enumerate() {
            Done::of(child).ok();
            same(&world.path("served"), &world.here(&format!("to{}", at + 1)));
        }
        // One that says nothing is let go after as long as is stated, and looked for once a second; the rest is a busy machine's.
        let (pause, stated) = (watch.join().unwrap(), Duration::from_secs(4 + 1));
        assert!(pause < stated + Duration::from_secs(5), "{pause:?} without growth");
        // Six seconds of the cast were left. Eight programs on a busy machine take longer; who waited for the frozen one would
        // wait for ever.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
        Done::of(frozen).ok();
        same(&world.path("served"), &world.here("to7"));
        let (done, summary) = sender.end();
        assert_eq!(summary["complete"], 7, "{summary}");
        done.failed(1, "not every receiver");
    });
}

/// Lengths of the packets in a capture (pcapng, enhanced packet blocks).
fn captured(path: &Path) -> Vec<u32> {
    let bytes = fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut lengths) = (0, Vec::new());
    while at + 28 <= bytes.len() {
        if word(at) == 6 {
            lengths.push(word(at + 24));
        }
        at += word(at + 4) as usize;
    }
    lengths
}

#[test]
fn a_group_has_what_the_options_say() {
    in_namespace("a_group_has_what_the_options_say", Need::Namespace, SETUP, || {
        let world = World::new();
        make(&world.path("served"));
        let there = world.path("cast.pcapng");
        let options = ["--datagram-bytes", "700", "--congestion", "cubic"];
        let capture = ["--capture", there.to_str().unwrap()];
        let sender = Sender::start(cast(&world, &[&options[..], &capture[..]].concat()));
        world.run("alice", &["receive", GROUP, "-o", "to", "--json"]).ok();
        sender.end().0.ok();
        same(&world.path("served"), &world.here("to"));
        // With the headers of Ethernet and IPv6 that a capture of TPDUs has.
        let sessions = captured(&there);
        let group = captured(&world.path("cast.group.pcapng"));
        assert!(group.len() > (20 << 20) / 700 && sessions.len() > 10);
        assert_eq!(group.iter().max(), Some(&(700 + 14 + 40)));
    });
}

/// Groups of a site and of the link, which has addresses with a zone, over links that take less than usual.
#[test]
fn groups_of_ipv6_are_cast_to() {
    in_namespace("groups_of_ipv6_are_cast_to", Need::Root, "", || {
        let world = World::new();
        make(&world.path("served"));
        let nothing = world.run("alice", &["receive", "ff12::7", "--patience", "1"]);
        nothing.failed(1, "needs its network interface");
        let peers = hosts(2);
        sh("ip link set br7 mtu 1400; ip addr add fd77::1/64 dev br7 nodad");
        for (at, peer) in peers.iter().enumerate() {
            sh(&format!("ip link set v{at} mtu 1400"));
            peer.sh(&format!(
                "ip link set eth0 mtu 1400; ip addr add fd77::{}/64 dev eth0 nodad",
                at + 2
            ));
        }
        // Addresses of the link are looked whether another has them.
        std::thread::sleep(Duration::from_secs(3));
        for (group, name) in [("ff15::7:7", "site"), ("ff12::7:7", "link")] {
            let sender = Sender::start(cast(&world, &[group, "--interface", "br7", "--wait", "2"]));
            let receive = [group, "--interface", "eth0"];
            let to = |at| format!("{name}{at}");
            let pairs = peers.iter().enumerate();
            let children: Vec<Child> =
                pairs.map(|(at, peer)| receive_at(&world, peer, &receive, &to(at))).collect();
            for (at, child) in children.into_iter().enumerate() {
                Done::of(child).ok();
                same(&world.path("served"), &world.here(&to(at)));
            }
            let (done, summary) = sender.end();
            done.ok();
            assert_eq!(summary["complete"], 2, "{summary}");
        }
    });
}

/// The group's packets are protocol 36 of IP, the sessions are in UDP; of both IP versions, and with XDP at a receiver.
#[test]
fn a_group_is_cast_to_without_udp() {
    in_namespace("a_group_is_cast_to_without_udp", Need::Root, "", || {
        let world = World::new();
        make(&world.path("served"));
        let peers = hosts(3);
        sh("ip addr add fd77::1/64 dev br7 nodad");
        for (at, peer) in peers.iter().enumerate() {
            peer.sh(&format!("ip addr add fd77::{}/64 dev eth0 nodad", at + 2));
        }
        std::thread::sleep(Duration::from_secs(3));
        let over_ip = |device| ["--carrier", "ip", "--device", device];
        for (group, name) in [(GROUP, "v4"), ("ff15::7:7", "v6")] {
            let more = [&["--wait", "2"][..], &over_ip("packet:br7")].concat();
            let named = if group == GROUP { &[][..] } else { &[group] };
            let sender = Sender::start(cast(&world, &[named, &more].concat()));
            // In UDP there is nothing of it.
            let deaf = receive_at(
                &world,
                &peers[2],
                &[group, "--interface", "eth0", "--patience", "2"],
                "deaf",
            );
            Done::of(deaf).failed(4, "nothing is heard");
            let children =
                ["packet:eth0", "xdp:eth0"].into_iter().zip(&peers).map(|(device, peer)| {
                    let to = format!("{name}-{}", device.replace(':', "-"));
                    let args = [&[group][..], &over_ip(device)].concat();
                    (receive_at(&world, peer, &args, &to), to)
                });
            for (child, to) in children.collect::<Vec<_>>() {
                Done::of(child).ok();
                same(&world.path("served"), &world.here(&to));
            }
            let (done, summary) = sender.end();
            done.ok();
            assert_eq!(summary["complete"], 2, "{summary}");
        }
        let args = [&[GROUP, "--interface", "br7"][..], &over_ip("packet:br7")].concat();
        let receive = world.run("alice", &[&["receive"], &args[..]].concat());
        receive.failed(2, "--device says which interface");
    });
}

#[test]
fn a_cast_without_a_route_fails_at_once_and_names_the_option() {
    let name = "a_cast_without_a_route_fails_at_once_and_names_the_option";
    in_namespace(name, Need::Namespace, "", || {
        let world = World::new();
        fs::write(world.served("a"), "content").unwrap();
        let path = world.served("a");
        for group in [GROUP, "ff15::7"] {
            let args = ["cast", path.to_str().unwrap(), group];
            world.run("alice", &args).failed(1, "--interface");
        }
        world.run("alice", &["receive", GROUP]).failed(1, "--interface");
    });
}

#[test]
fn a_second_cast_is_trusted_because_the_port_of_its_sessions_stays() {
    let name = "a_second_cast_is_trusted_because_the_port_of_its_sessions_stays";
    in_namespace(name, Need::Namespace, SETUP, || {
        let world = World::new();
        fs::write(world.served("a"), "content").unwrap();
        let path = world.served("a");
        let start = || {
            let args = ["cast", path.to_str().unwrap(), GROUP, "--json", "--public"];
            Sender::start(world.command("alice", &args))
        };
        let sender = start();
        let address = sender.first["address"].as_str().unwrap();
        assert!(address.ends_with(":9295"), "{address}");
        let trust = sender.fingerprint();
        world.run("bob", &["receive", GROUP, "-o", "one", "--trust", &trust]).ok();
        sender.end().0.ok();
        let sender = start();
        world.run("bob", &["receive", GROUP, "-o", "two"]).ok();
        sender.end().0.ok();
        let done = world.run("bob", &["key", "show", "--hosts"]).ok();
        assert_eq!(done.out.lines().count(), 2, "one key and one host: {done:?}");
    });
}
