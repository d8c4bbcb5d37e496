//! `fusewire outboard` by the program itself: it says when it is ready, serves, is seen, and leaves nothing behind.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::Child;
use std::time::Duration;

use fusewire_outboard::client::{self, Client, Rings, Way};
use fusewire_outboard::protocol::{Family, Kind, SocketType};
use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::io::{Errno, IoSlice};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Done, World, share_at_rest};

const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };

/// More requests than it takes until they go by slots.
const MANY: usize = 40;

/// Capabilities in effect, whether programs give it none, and whether a filter is on its system calls (2).
fn rights_of(child: &Child) -> (u64, u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let field = |name: &str, radix| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), radix).unwrap()
    };
    (field("CapEff:", 16), field("NoNewPrivs:", 10), field("Seccomp:", 10))
}

#[test]
fn an_outboard_serves_is_seen_and_leaves_nothing_behind() {
    let name = "an_outboard_serves_is_seen_and_leaves_nothing_behind";
    in_namespace(name, Need::Root, "", || {
        let (world, _peer) = (World::new(), Peer::joined());
        std::fs::create_dir(world.path("run")).unwrap();
        let path = world.path("run").join("fusewire-outboard.sock");
        let command = |args: &[&str]| {
            let mut command = world.command("alice", args);
            command.env("XDG_RUNTIME_DIR", world.path("run"));
            command
        };
        let device = ["outboard", "--device", "packet:v0", "--address", "10.9.0.2/24"];
        let mut child = command(&device)
            .args(["--loopback", "--json", "--sockets-max", "9"])
            .args(["--allow", "1:80@10.9.0.2"])
            .spawn()
            .unwrap();
        let (mut line, mut out) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
        out.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["event"], "ready");
        assert_eq!(ready["addresses"], serde_json::json!(["10.9.0.2/24"]));
        assert_eq!(ready["socket"].as_str(), path.to_str());
        assert_eq!((&ready["confined"], rights_of(&child)), (&Value::Bool(true), (0, 1, 2)));

        let client = Client::new(&path).unwrap();
        let (p, handle) = client.socket(STREAM).unwrap();
        client.connect(p.as_fd(), handle, Some("10.9.0.1:7".parse().unwrap())).unwrap();
        assert_eq!(client.connected(p.as_fd(), handle), Err(Errno::CONNREFUSED));
        let (listener, handle) = client.socket(STREAM).unwrap();
        client.bind(handle, "10.9.0.2:9000".parse().unwrap()).unwrap();
        client.listen(handle, 8).unwrap();
        let seen = Done::of(command(&["ss", "--json"]).spawn().unwrap()).ok().out;
        assert!(seen.contains("10.9.0.2:9000") && seen.contains("LISTEN"), "{seen}");
        // And who has it.
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        let application = format!("{}/{}", comm.trim_end(), std::process::id());
        // Another outboard of this user's may be listed first.
        let is_ours = |line| {
            let socket: Value = serde_json::from_str(line).unwrap();
            socket["names"]["application"] == application.as_str()
        };
        assert!(seen.lines().any(is_ours), "{seen}");
        let listed = Done::of(command(&["ss"]).spawn().unwrap()).ok().out;
        assert!(listed.contains(&format!("for {application}")), "{listed}");

        // It has a way back to itself, and says so.
        let welcome = client.welcome().unwrap();
        let local = ("127.0.0.1".parse().unwrap(), 8);
        assert!(welcome.addresses().contains(&local), "{:?}", welcome.addresses());
        for to in ["127.0.0.1:9001", "10.9.0.2:9000"] {
            let (server, handle) = client.socket(STREAM).unwrap();
            if to.starts_with("127") {
                client.bind(handle, to.parse().unwrap()).unwrap();
                client.listen(handle, 8).unwrap();
            }
            let (p, handle) = client.socket(STREAM).unwrap();
            client.connect(p.as_fd(), handle, Some(to.parse().unwrap())).unwrap();
            client.connected(p.as_fd(), handle).unwrap();
            let server = if to.starts_with("127") { &server } else { &listener };
            let accepted = client::accept(server.as_fd(), true).unwrap();
            assert_eq!(client.local(handle), Ok(accepted.peer));
            assert_eq!(rustix::io::write(&p, b"to myself"), Ok(9));
            let mut bytes = [0; 16];
            assert_eq!(rustix::io::read(&accepted.p, &mut bytes), Ok(9));
            assert_eq!(&bytes[..9], b"to myself");
        }

        // A user has so many sockets, and it is counted.
        let all: Vec<_> = std::iter::from_fn(|| client.socket(STREAM).ok()).take(20).collect();
        assert!(all.len() < 9, "{} sockets besides those above", all.len());
        assert_eq!(client.socket(STREAM).err(), Some(Errno::MFILE));
        let metrics = Done::of(command(&["metrics"]).spawn().unwrap()).ok().out;
        let refused = metrics.lines().find(|line| line.contains("outboard_sockets_refused"));
        assert!(refused.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");

        // Nothing to do costs nothing.
        let share = share_at_rest(child.id(), Duration::from_secs(3));
        assert!(share < 0.01, "{share} of a core");

        // One at a place.
        let other = ["outboard", "--device", "packet:v0", "--address", "10.9.0.3/24"];
        let done = Done::of(command(&other).spawn().unwrap());
        assert!(done.code == 1 && done.err.contains("somebody listens there already"), "{done:?}");
        assert_eq!(done.err.matches(path.to_str().unwrap()).count(), 1, "{done:?}");

        // What is no socket stays.
        let file = world.here("file");
        std::fs::write(&file, "kept").unwrap();
        let done = Done::of(command(&other).args(["--socket", "file"]).spawn().unwrap());
        assert!(done.code == 1 && done.err.contains("something else than a socket"), "{done:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");

        // Addresses that no host has.
        for (own, why) in [
            ("0.0.0.0/0", "nobody's"),
            ("224.0.0.5/24", "a group's"),
            ("ff02::5/64", "a group's"),
            ("10.9.0.255/24", "all of its network"),
            ("10.9.0.3", "how long is the prefix of its network"),
        ] {
            let args = ["outboard", "--device", "packet:v0", "--address", own];
            let done = Done::of(command(&args).spawn().unwrap());
            assert!(done.code == 2 && done.err.contains(why), "{own}: {done:?}");
        }
        let none = Done::of(command(&other).args(["--sockets-max", "0"]).spawn().unwrap());
        assert!(none.code == 2 && none.err.contains("--sockets-max"), "{none:?}");

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

#[test]
fn an_outboard_that_a_hundred_applications_have_rests() {
    let name = "an_outboard_that_a_hundred_applications_have_rests";
    in_namespace(
        name,
        Need::Root,
        "ip link add v0 type veth peer name v1\nip link set v0 up",
        || {
            let world = World::new();
            std::fs::create_dir(world.path("run")).unwrap();
            let command = |args: &[&str]| {
                let mut command = world.command("alice", args);
                command.env("XDG_RUNTIME_DIR", world.path("run"));
                command
            };
            let place = world.path("socket");
            let device =
                ["outboard", "--device", "packet:v0", "--address", "10.9.0.2/24", "--loopback"];
            let socket = ["--socket", place.to_str().unwrap(), "--json"];
            let mut child = command(&[&device[..], &socket].concat()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("ready"), "{line}");
            let client = Client::new(&place).unwrap();
            let (listener, handle) = client.socket(STREAM).unwrap();
            client.bind(handle, "10.9.0.2:9000".parse().unwrap()).unwrap();
            client.listen(handle, 8).unwrap();
            let mut applications = Vec::new();
            for count in [0, 1, 100] {
                while applications.len() < count {
                    let (client, rings) = (Client::new(&place).unwrap(), Rings::new().unwrap());
                    let (p, handle) = client.socket(STREAM).unwrap();
                    client
                        .connect(p.as_fd(), handle, Some("10.9.0.2:9000".parse().unwrap()))
                        .unwrap();
                    client.connected(p.as_fd(), handle).unwrap();
                    let way = Way::default();
                    // As many as a user may have.
                    let leased = rings.lease(&client, p.as_fd(), handle, &way);
                    assert!(applications.len() >= 20 || leased.is_ok(), "{leased:?}");
                    // Often enough for slots of its own.
                    (0..MANY).for_each(|_| assert!(client.local(handle).is_ok()));
                    let with = (p.as_fd(), handle, &way);
                    assert_eq!(
                        rings.send(
                            &client,
                            with,
                            &[IoSlice::new(b"before it rests")],
                            SendFlags::empty()
                        ),
                        Ok(15)
                    );
                    let accepted = client::accept(listener.as_fd(), true).unwrap();
                    applications.push((client, rings, p, way, accepted));
                }
                let slots = world.counted("commands_by_slots");
                assert!(slots >= 8 * count.min(20) as u64, "{slots} with {count} applications");
                assert!(world.counted("leases_begun") >= count.min(20) as u64);
                let share = share_at_rest(child.id(), Duration::from_secs(3));
                assert!(share < 0.01, "{share} of a core, with {count} applications");
            }
            child.kill().unwrap();
            child.wait().unwrap();
        },
    );
}

/// Rights of `CAP_NET_BIND_SERVICE`, `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`, as `/proc` has them.
const BESIDE_THE_KERNEL: u64 = 1 << 10 | 1 << 12 | 1 << 13 | 1 << 39;
const BPF: u64 = 1 << 39;

#[test]
fn each_device_serves_with_the_rights_that_it_keeps() {
    let name = "each_device_serves_with_the_rights_that_it_keeps";
    in_namespace(name, Need::Root, "", || {
        let (world, _peer) = (World::new(), Peer::joined());
        std::fs::create_dir(world.path("run")).unwrap();
        sh("ip addr add 10.9.0.5/24 dev v0");
        for (device, own, peer, rights) in [
            ("packet:v0", Some("10.9.0.2"), "10.9.0.1", 0),
            ("packet:v0", None, "10.9.0.1", BESIDE_THE_KERNEL),
            ("xdp:v0", Some("10.9.0.2"), "10.9.0.1", BPF),
            ("xdp:v0", None, "10.9.0.1", BESIDE_THE_KERNEL),
            ("tap:fw0", Some("10.8.0.2"), "10.8.0.1", 0),
        ] {
            let mut command = world.command("alice", &["outboard", "--device", device, "--json"]);
            if let Some(own) = own {
                command.args(["--address", &format!("{own}/24")]);
            }
            let mut child = command.env("XDG_RUNTIME_DIR", world.path("run")).spawn().unwrap();
            let (mut line, mut out) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
            out.read_line(&mut line).unwrap();
            assert!(line.contains("ready"), "{device}: {line}");
            assert_eq!(rights_of(&child), (rights, 1, 2), "{device} {own:?}");
            if device == "tap:fw0" {
                sh("ip addr add 10.8.0.1/24 dev fw0");
            }
            let client = Client::new(&world.path("run").join("fusewire-outboard.sock")).unwrap();
            // A port of the kernel's, and of those below 1024.
            let (_listener, handle) = client.socket(STREAM).unwrap();
            let local = format!("{}:80", own.unwrap_or("10.9.0.5"));
            client.bind(handle, local.parse().unwrap()).unwrap();
            client.listen(handle, 8).unwrap();
            let (p, handle) = client.socket(STREAM).unwrap();
            let to = format!("{peer}:7").parse().unwrap();
            client.connect(p.as_fd(), handle, Some(to)).unwrap();
            assert_eq!(client.connected(p.as_fd(), handle), Err(Errno::CONNREFUSED), "{device}");
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            assert!(child.wait().unwrap().success());
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            assert!(!err.contains("WARN") && !err.contains("ERROR"), "{device}: {err}");
        }
    });
}

/// A process's threads, by name, with the processors that they may be on.
fn threads(child: &Child) -> Vec<(String, String)> {
    let of = |thread: std::fs::DirEntry| {
        let comm = std::fs::read_to_string(thread.path().join("comm")).unwrap();
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        let on = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        (comm.trim_end().into(), on.unwrap_or_default().trim().into())
    };
    let all = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    all.flatten().map(of).collect()
}

#[test]
fn it_has_the_threads_that_it_is_told_to_and_ends_with_them() {
    let name = "it_has_the_threads_that_it_is_told_to_and_ends_with_them";
    in_namespace(name, Need::Root, "", || {
        let (world, _peer) = (World::new(), Peer::joined());
        std::fs::create_dir(world.path("run")).unwrap();
        let all = &["--cpu", "0", "--transmit-cpu", "0", "--receive-cpu", "0"][..];
        let start = |device: &str, own: &str, threads: &[&str]| {
            let args = ["outboard", "--device", device, "--address", own, "--json"];
            let mut command = world.command("alice", &args);
            command.args(threads);
            command.env("XDG_RUNTIME_DIR", world.path("run")).spawn().unwrap()
        };
        for (device, own, peer) in
            [("packet:v0", "10.9.0.2/24", "10.9.0.1:7"), ("tap:fw0", "10.8.0.2/24", "10.8.0.1:7")]
        {
            let mut child = start(device, own, all);
            let (mut line, mut out) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
            out.read_line(&mut line).unwrap();
            assert!(line.contains("ready"), "{device}: {line}");
            assert_eq!(rights_of(&child), (0, 1, 2), "{device}");
            let threads = threads(&child);
            for name in ["transmit", "receive", "fusewire"] {
                let on = threads.iter().find(|thread| thread.0 == name).map(|thread| &*thread.1);
                assert_eq!(on, Some("0"), "{device}, {name}: {threads:?}");
            }
            if device == "tap:fw0" {
                sh("ip addr add 10.8.0.1/24 dev fw0");
            }
            let client = Client::new(&world.path("run").join("fusewire-outboard.sock")).unwrap();
            let (p, handle) = client.socket(STREAM).unwrap();
            client.connect(p.as_fd(), handle, Some(peer.parse().unwrap())).unwrap();
            assert_eq!(client.connected(p.as_fd(), handle), Err(Errno::CONNREFUSED), "{device}");
            let share = share_at_rest(child.id(), Duration::from_secs(3));
            assert!(share < 0.01, "{share} of a core, with {device}");
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            assert!(child.wait().unwrap().success());
        }
        for (threads, why) in [
            (all, "sends in the thread that receives alone"),
            (&["--receive-cpu", "0"], "receives in the thread that sends alone"),
        ] {
            let done = Done::of(start("xdp:v0", "10.9.0.2/24", threads));
            assert!(done.code == 1 && done.err.contains(why), "{done:?}");
        }
    });
}

#[test]
fn a_service_manager_gives_it_its_socket_and_hears_when_it_is_ready() {
    let name = "a_service_manager_gives_it_its_socket_and_hears_when_it_is_ready";
    in_namespace(name, Need::Tap, "", || {
        let world = World::new();
        std::fs::create_dir(world.path("run")).unwrap();
        let (place, manager) = (world.path("run/activated.sock"), world.path("run/notify"));
        let (unix, kind) = (AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let listener = rustix::net::socket_with(unix, kind, flags, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&place).unwrap()).unwrap();
        rustix::net::listen(&listener, 16).unwrap();
        let notified = UnixDatagram::bind(&manager).unwrap();
        notified.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let command = |args: &[&str]| {
            let own = ["outboard", "--device", "tap:fw0", "--address", "10.9.0.2/24"];
            let mut command = world.command("alice", &[&own[..], args].concat());
            command.env("XDG_RUNTIME_DIR", world.path("run")).env("NOTIFY_SOCKET", &manager);
            // As a manager would have it: the socket is descriptor 0, which no test may take by a number that is its own.
            command.env("LISTEN_FDS", "1").env("LISTEN_FDS_FIRST_FD", "0");
            command.stdin(listener.try_clone().unwrap());
            command
        };
        // Somebody was there first, and waits.
        let early = std::thread::spawn({
            let client = Client::new(&place).unwrap();
            move || client.welcome().map(|_| client)
        });
        let child = command(&[]).spawn().unwrap();
        let hears = || {
            let mut bytes = [0; 256];
            let len = notified.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..len]).trim_end().to_string()
        };
        assert_eq!(hears(), "READY=1");
        let client = early.join().unwrap().unwrap();
        assert!(client.socket(STREAM).is_ok());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(hears(), "STOPPING=1");
        let done = Done::of(child);
        assert!(done.code == 0 && done.err.contains("activated.sock"), "{done:?}");
        assert!(place.exists(), "what is not its own it leaves");

        let two = Done::of(command(&["--socket", "other.sock"]).spawn().unwrap());
        assert!(two.code == 2 && two.err.contains("LISTEN_FDS"), "{two:?}");
        let wrong =
            command(&[]).stdin(OwnedFd::from(UnixDatagram::unbound().unwrap())).spawn().unwrap();
        let wrong = Done::of(wrong);
        assert!(wrong.code == 2 && wrong.err.contains("ListenSequentialPacket"), "{wrong:?}");
    });
}
