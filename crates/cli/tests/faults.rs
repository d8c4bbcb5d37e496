//! What breaks off can go on: killed clients and servers, Ctrl-C, SIGTERM.

mod support;

use std::fs;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
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

/// Kills a `get` or `put` of a folder in the middle, and runs the same command again.
fn a_folder_goes_on_after_a_kill(verb: &str) {
    const FILES: u64 = 1500;
    let world = World::new();
    let (from, to) = match verb {
        "get" => (world.served("sub"), world.here("sub")),
        _ => (world.here("sub"), world.served("sub")),
    };
    fs::create_dir_all(from.join("deep")).unwrap();
    for n in 0..FILES {
        fs::write(
            from.join(if n % 2 == 0 { format!("{n}") } else { format!("deep/{n}") }),
            bytes(700, n),
        )
        .unwrap();
    }
    let server = world.serve(&["--writable"]);
    let url = server.url("sub");
    let args = if verb == "get" { ["get", &url, "--json"] } else { ["put", "sub", &url] };
    let slow = [&args[..], &["--rate", "300k"]].concat();
    let mut child = world.command("alice", &slow).spawn().unwrap();
    let names = |dir: &Path| -> Vec<std::path::PathBuf> {
        let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        names
            .filter(|path| path.is_file() && !path.to_string_lossy().contains(".fusewire-"))
            .collect()
    };
    let complete = || -> Vec<_> { [names(&to), names(&to.join("deep"))].concat() };
    while complete().len() < 400 {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // A crash can lose contents: what was recorded is compared again.
    let damaged = &complete()[0];
    let modified = fs::metadata(damaged).unwrap().modified().unwrap();
    if verb == "get" {
        fs::write(damaged, [0; 700]).unwrap();
    } else {
        fs::write(damaged, [0; 600]).unwrap();
    }
    fs::File::options().write(true).open(damaged).unwrap().set_modified(modified).unwrap();
    let there = complete().len() as u64;
    assert!(there < FILES - 100, "all has come already");
    let done = world.run("alice", &[&args[..], &["--json"][..(verb != "get") as usize]].concat());
    let summary = done.ok().summary();
    let of = |key: &str| summary[key].as_u64().unwrap();
    assert_eq!((of("files"), of("files_done"), of("failed")), (FILES, FILES, 0), "{summary}");
    // The client may not have known that the last files were complete.
    let resumed = of("files_resumed");
    assert!((there - 300..there).contains(&resumed), "{there}: {summary}");
    // The server may have had contents of others that were not committed yet.
    let bytes_resumed = of("bytes_resumed") / 700;
    assert!((resumed..resumed + 200).contains(&bytes_resumed), "{summary}");
    for n in 0..FILES {
        let name = if n % 2 == 0 { format!("{n}") } else { format!("deep/{n}") };
        assert!(fs::read(to.join(&name)).unwrap() == bytes(700, n), "{name}");
    }
    assert_eq!(fs::read_dir(world.path("alice").join("fusewire/unfinished")).unwrap().count(), 0);
    // A finished transfer begins anew.
    let again = world.run("alice", &args).ok();
    assert!(!again.err.contains("there already"), "{again:?}");
}

#[test]
fn a_folder_that_is_got_goes_on_after_a_kill() {
    a_folder_goes_on_after_a_kill("get");
}

#[test]
fn a_folder_that_is_put_goes_on_after_a_kill() {
    a_folder_goes_on_after_a_kill("put");
}

#[test]
fn an_interrupted_folder_says_how_many_files_were_there() {
    let world = World::new();
    fs::create_dir(world.served("sub")).unwrap();
    for n in 0..300 {
        fs::write(world.served("sub").join(n.to_string()), bytes(1000, n)).unwrap();
    }
    let server = world.serve(&[]);
    let (url, to) = (server.url("sub"), world.here("sub"));
    let slow = ["get", &url, "--rate", "100k"];
    let child = world.command("alice", &slow).spawn().unwrap();
    while fs::read_dir(&to).map_or(0, Iterator::count) < 100 {
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Done::of(child).failed(130, "run the same command again");
    let done = world.run("alice", &["get", &url]).ok();
    assert!(done.err.contains(" files, ") && done.err.contains(" were there already"), "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(!done.err.starts_with("got 300 files"), "{done:?}");
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

/// Three hosts in a row: the test's namespace with the server, a router, and the client's. Packets leave one by one, because
/// super-packets pass a narrow veth whole.
struct Row {
    router: Peer,
    client: Peer,
}

impl Row {
    fn new() -> Row {
        let (router, client) = (Peer::new(), Peer::new());
        router.join([("s0", &["10.9.1.1/24"]), ("s1", &["10.9.1.2/24"])]);
        let pid = client.pid();
        router.sh(&format!(
            "sysctl -qw net.ipv4.ip_forward=1
             ip link add c1 type veth peer name c0 netns {pid}
             ip addr add 10.9.2.2/24 dev c1 && ip link set c1 up gso_max_segs 1
             ip link set s1 gso_max_segs 1"
        ));
        client.sh("ip addr add 10.9.2.1/24 dev c0 && ip link set c0 up gso_max_segs 1
             ip route add default via 10.9.2.2");
        sh("ip link set s0 gso_max_segs 1; ip route add 10.9.2.0/24 via 10.9.1.2");
        Row { router, client }
    }

    /// Narrows the path between the router and the host that receives: the router reports it, or drops packets because the
    /// receiver's own end is narrower than the router knows.
    fn narrow(&self, to_client: bool, reports: bool, mtu: u32) {
        match (to_client, reports) {
            (true, true) => self.router.sh(&format!("ip link set c1 mtu {mtu}")),
            (true, false) => self.client.sh(&format!("ip link set c0 mtu {mtu}")),
            (false, true) => self.router.sh(&format!("ip link set s1 mtu {mtu}")),
            (false, false) => sh(&format!("ip link set s0 mtu {mtu}")),
        };
    }
}

/// Waits until a folder has so many whole files.
fn wait_for_files(folder: &std::path::Path, count: usize) {
    let is_whole = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        if entries.filter(is_whole).count() >= count {
            return;
        }
        assert!(Instant::now() < end, "no {count} files in {}", folder.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The MTU falls in the middle of a transfer, with and without an ICMP message. TCP of the kernel goes on within 3 s. Many
/// files, because the messages of a file keep the length that fitted when the file was opened.
#[test]
fn transfers_go_on_over_a_path_that_becomes_narrower() {
    in_namespace("transfers_go_on_over_a_path_that_becomes_narrower", Need::Root, "", || {
        let content = bytes(512 << 10, 1);
        let mut took = Vec::new();
        for way in ["udp", "xtp"] {
            for (n, (gets, reports)) in
                [(true, false), (true, true), (false, false), (false, true)].into_iter().enumerate()
            {
                let (world, row) = (World::new(), Row::new());
                let from = if gets { world.served("many") } else { world.here("many") };
                let to = if gets { world.here("many") } else { world.served("many") };
                fs::create_dir(&from).unwrap();
                (0..12).for_each(|n| fs::write(from.join(format!("f{n:02}")), &content).unwrap());
                let served = world.path("served");
                let mut serve = vec!["serve", served.to_str().unwrap(), "--json", "--writable"];
                serve.extend(["--listen", "10.9.1.1:0"]);
                serve.extend(served_over(way));
                let server = support::Server::start(world.command("alice", &serve));
                let url = server.url(if gets { "many" } else { "" });
                let mut args = if gets { vec!["get", &url] } else { vec!["put", "many", &url] };
                args.extend(["--rate", "2M", "--trust", &server.fingerprint]);
                args.extend(support::over(way));
                let mut command = row.client.command(env!("CARGO_BIN_EXE_fusewire"));
                command.args(args).current_dir(world.path("here"));
                command.env("XDG_STATE_HOME", world.path("alice"));
                command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
                let child = command.spawn().unwrap();
                wait_for_files(&to, 4);
                row.narrow(gets, reports, [1300, 1280][n % 2]);
                let begun = Instant::now();
                Done::of(child).ok();
                let what = format!("{way}, gets {gets}, reports {reports}");
                for n in 0..12 {
                    assert!(fs::read(to.join(format!("f{n:02}"))).unwrap() == content, "{what}");
                }
                took.push((what, begun.elapsed().as_secs_f64()));
            }
        }
        // Two seconds of this is the rate that is asked for.
        assert!(took.iter().all(|(_, seconds)| *seconds < 12.0), "{took:?}");
    });
}
