//! `fusewire outboard` by the program itself: it says when it is ready, serves, is seen, and leaves nothing behind.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use fusewire_outboard::client::Client;
use fusewire_outboard::protocol::{Family, Kind, SocketType};
use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Done, World};

const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };

fn cpu_ms(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    ticks * 1000 / rustix::param::clock_ticks_per_second()
}

#[test]
fn an_outboard_serves_is_seen_and_leaves_nothing_behind() {
    let name = "an_outboard_serves_is_seen_and_leaves_nothing_behind";
    in_namespace(name, Need::Root, "", || {
        let (world, peer) = (World::new(), Peer::new());
        std::fs::create_dir(world.path("run")).unwrap();
        sh(&format!(
            "ip link add v0 type veth peer name v1 netns {}\nip link set v0 up",
            peer.pid()
        ));
        peer.sh("ip addr add 10.9.0.1/24 dev v1 && ip link set v1 up");
        let path = world.path("run").join("fusewire-outboard.sock");
        let command = |args: &[&str]| {
            let mut command = world.command("alice", args);
            command.env("XDG_RUNTIME_DIR", world.path("run"));
            command
        };
        let args = ["outboard", "--device", "packet:v0", "--address", "10.9.0.2/24", "--json"];
        let mut child = command(&args).spawn().unwrap();
        let (mut line, mut out) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
        out.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["event"], "ready");
        assert_eq!(ready["addresses"], serde_json::json!(["10.9.0.2/24"]));
        assert_eq!(ready["socket"].as_str(), path.to_str());

        let client = Client::new(&path).unwrap();
        let (p, handle) = client.socket(STREAM).unwrap();
        client.connect(p.as_fd(), handle, Some("10.9.0.1:7".parse().unwrap())).unwrap();
        assert_eq!(client.connected(p.as_fd(), handle), Err(Errno::CONNREFUSED));
        let (listener, handle) = client.socket(STREAM).unwrap();
        client.bind(handle, "10.9.0.2:9000".parse().unwrap()).unwrap();
        client.listen(handle, 8).unwrap();
        let seen = Done::of(command(&["ss", "--json"]).spawn().unwrap()).ok().out;
        assert!(seen.contains("10.9.0.2:9000") && seen.contains("LISTEN"), "{seen}");

        // Nothing to do costs nothing.
        let (begin, before) = (Instant::now(), cpu_ms(&child));
        std::thread::sleep(Duration::from_secs(3));
        let share = (cpu_ms(&child) - before) as f64 / begin.elapsed().as_millis() as f64;
        assert!(share < 0.01, "{share} of a core");

        // One at a place.
        let other = ["outboard", "--device", "packet:v0", "--address", "10.9.0.3/24"];
        let done = Done::of(command(&other).spawn().unwrap());
        assert!(done.code == 1 && done.err.contains("somebody listens there already"), "{done:?}");

        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!path.exists());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(err.contains("outboard   packet:v0") && err.contains("10.9.0.2/24"), "{err}");
        assert_eq!(client.socket(STREAM).err(), Some(Errno::NETDOWN));
        drop(listener);

        let wrong = Done::of(command(&["outboard", "--device", "packet:none"]).spawn().unwrap());
        assert!(wrong.code == 1 && wrong.err.contains("no interface none"), "{wrong:?}");
    });
}
