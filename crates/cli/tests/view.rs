//! `ss`, `top`, `metrics` and `capture` look at a server that works, and at a stack beside a kernel.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fusewire_device::interface::tap::{self, Tap};
use fusewire_lab::namespace::{self, Namespace};
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Host, HostConfig, Stack};
use serde_json::Value;
use support::{Done, World};

/// The program, looking where `world` keeps its sockets.
fn look(world: &World, args: &[&str]) -> Done {
    let mut command = world.command("alice", args);
    command.env("XDG_RUNTIME_DIR", world.path("run"));
    Done::of(command.spawn().unwrap())
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Comments and checksum verdicts of the packets in a file, or a word why not.
fn tshark(file: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    for check in ["ip", "tcp", "udp"] {
        command.arg("-o").arg(format!("{check}.check_checksum:TRUE"));
    }
    command.args(["-n", "-T", "fields", "-e", "tcp.checksum.status", "-e", "frame.comment", "-r"]);
    match command.arg(file).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            Some(text.lines().map(str::to_string).collect())
        }
        Err(error) => {
            println!("skipped: tshark cannot be run: {error}");
            None
        }
    }
}

#[test]
fn a_server_at_work_is_seen() {
    is_seen_at_work("tcp", "estab");
}

#[test]
fn a_server_over_xtp_is_seen() {
    is_seen_at_work("xtp", "open");
}

fn is_seen_at_work(transport: &str, state: &str) {
    let world = World::new();
    std::fs::create_dir(world.path("run")).unwrap();
    let nobody = look(&world, &["ss", "4000000"]);
    assert_eq!(nobody.code, 1);
    assert!(nobody.err.contains("process 4000000 has no stack"), "{}", nobody.err);
    std::fs::write(world.served("big"), support::bytes(96 << 20, 1)).unwrap();
    let served = world.path("served");
    let mut serve = world.command("alice", &["serve", served.to_str().unwrap(), "--json"]);
    serve
        .args(["--listen", "127.0.0.1:0", "--rate", "1M", "--congestion", "bbr"])
        .args(["--transport", transport])
        .env("XDG_RUNTIME_DIR", world.path("run"));
    let server = support::Server::start(serve);
    let pid = server.pid().to_string();
    let url = server.url("big");
    let mut get = world.command("alice", &["get", &url, "--quiet", "--transport", transport]);
    let mut get = get.env("XDG_RUNTIME_DIR", world.path("run")).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let open = loop {
        let done = look(&world, &["ss", "--json", "--trace", "--state", state, &pid]);
        assert_eq!(done.code, 0, "{}", done.err);
        let found = lines(&done.out);
        let busy = |s: &&Value| s["transport"]["bytes_acked"].as_u64().is_some_and(|n| n > 100_000);
        if let Some(open) = found.iter().find(busy) {
            break open.clone();
        }
        assert!(Instant::now() < end, "no connection is seen: {}", done.out);
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(
        (&open["pid"], &open["device"]),
        (&pid.parse::<u32>().unwrap().into(), &"udp".into())
    );
    assert!(open["trace"].as_array().is_some_and(|t| t.iter().any(|s| s["what"] == "sent")));
    assert_eq!(open["transport"]["congestion_control"], "bbr");
    assert!(
        open["transport"]["pacing_bytes_per_s"].as_u64().is_some_and(|rate| rate > 0),
        "{open}"
    );
    let text = look(&world, &["ss", "-i", &pid]).out;
    assert!(
        text.contains("LISTEN") && text.contains("rtt:") && text.contains("bytes_acked:"),
        "{text}"
    );
    // Where it listens is where it is called, whatever ports are within its datagrams.
    let called = url.split('/').nth(2).unwrap();
    let listens = |line: &str| line.contains("LISTEN") && line.contains(called);
    assert!(text.lines().any(listens), "{called}: {text}");
    let top = look(&world, &["top", "--once", "--interval", "0.5", "--json", &pid]);
    let rate = lines(&top.out)[0]["sent_bytes_per_s"].as_f64().unwrap();
    assert!(rate > 100_000.0, "{}", top.out);
    let packets = lines(&top.out)[0]["packets_sent_per_s"].as_f64().unwrap();
    assert!(packets > 10.0, "{}", top.out);
    let report = look(&world, &["top", "--interval", "0.1", &pid]).out;
    assert!(report.starts_with("fusewire top ") && !report.contains('\u{1b}'), "{report}");
    let metrics = look(&world, &["metrics", &pid]).out;
    assert!(metrics.contains(&format!("fusewire_up{{pid=\"{pid}\"")), "{metrics}");
    assert!(metrics.contains(&format!("protocol=\"{transport}\"")), "{metrics}");
    let file = world.path("capture.pcapng");
    let done = look(&world, &["capture", &pid, "-w", file.to_str().unwrap(), "--seconds", "1"]);
    assert_eq!(done.code, 0, "{}", done.err);
    if let Some(packets) = tshark(&file) {
        assert!(packets.len() > 10, "{packets:?}");
        let wrong = |packet: &String| transport == "tcp" && !packet.starts_with('1');
        assert!(!packets.iter().any(wrong), "a wrong checksum: {packets:?}");
    }
    for (protocol, is_there) in [(transport, true), ("udp", false)] {
        let args = ["capture", &pid, "-w", "-", "--seconds", "1", "--protocol", protocol];
        let mut command = world.command("alice", &args);
        let output = command.env("XDG_RUNTIME_DIR", world.path("run")).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(!told.contains("0 packets captured"), is_there, "{protocol}: {told}");
        assert_eq!(output.stdout.len() > 2000, is_there, "{protocol}: {told}");
    }
    let _ = get.kill();
    let _ = get.wait();
}

/// A stack of ours on a TAP, seen from outside while a kernel talks to it.
#[test]
fn a_stack_beside_a_kernel_is_seen() {
    if let Err(why) = namespace::available() {
        println!("skipped: {why}");
        return;
    }
    let world = World::new();
    let run = world.path("run");
    std::fs::create_dir(&run).unwrap();
    fusewire_view::place::choose(run.join("fusewire"));
    let network = Namespace::new().unwrap();
    let config = tap::Config { name: "fwview".into(), ..tap::Config::default() };
    let tap = network.run(|| Tap::open(&config).unwrap()).unwrap();
    network.ip("address add 10.77.8.1/24 dev fwview").unwrap();
    let addresses = vec!["10.77.8.2/24".parse::<Cidr>().unwrap()];
    let net = NetConfig { addresses, duplicate_detection: false, ..Stack::net_config(&tap) };
    let host = Host::new(Box::new(tap), net, HostConfig::default()).unwrap();
    host.observe().unwrap();
    let ours: SocketAddr = "10.77.8.2:80".parse().unwrap();
    let listener = host.tcp_listen(ours, 4).unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..len]).unwrap();
        }
    });
    let pid = std::process::id().to_string();
    let file = world.path("capture.pcapng");
    let mut capture = world.command("alice", &["capture", &pid, "-w", file.to_str().unwrap()]);
    capture.env("XDG_RUNTIME_DIR", &run).args(["--seconds", "4"]);
    let capture = capture.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(&file).map_or(0, |m| m.len()) < 80 {
        assert!(Instant::now() < end, "no capture begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (talked, wait) = channel();
    let (go_on, told) = channel::<()>();
    let talk = move || {
        let mut stream = TcpStream::connect(ours).unwrap();
        stream.write_all(&[7; 100_000][..4096]).unwrap();
        stream.read_exact(&mut [0; 4096]).unwrap();
        assert!(TcpStream::connect("10.77.8.2:81").is_err(), "nobody listens there");
        let udp = UdpSocket::bind("10.77.8.1:0").unwrap();
        udp.send_to(b"for nobody", "10.77.8.2:9").unwrap();
        talked.send(()).unwrap();
        told.recv().unwrap();
    };
    std::thread::scope(|scope| {
        let network = &network;
        let kernel = scope.spawn(move || network.run(talk).unwrap());
        wait.recv_timeout(Duration::from_secs(20)).unwrap();
        let done = look(&world, &["ss", "--json", "--port", "80", "--state", "estab", &pid]);
        let found = lines(&done.out);
        assert_eq!(found.len(), 1, "{}{}", done.out, done.err);
        assert!(found[0]["transport"]["bytes_received"].as_u64() >= Some(4096), "{}", done.out);
        assert_eq!(
            (&found[0]["device"], &found[0]["local"]),
            (&"tap".into(), &"10.77.8.2:80".into())
        );
        let metrics = look(&world, &["metrics", &pid]).out;
        assert!(metrics.contains("cause=\"udp-stray\"} 1"), "{metrics}");
        go_on.send(()).unwrap();
        kernel.join().unwrap();
    });
    let done = Done::of(capture);
    assert_eq!(done.code, 0, "{}", done.err);
    if let Some(packets) = tshark(&file) {
        let has = |word: &str| packets.iter().any(|p| p.contains(word));
        assert!(has("no such port: answered with an ICMP error"), "{packets:?}");
        assert!(has("no such connection or port: answered with RST"), "{packets:?}");
        assert!(packets.iter().all(|p| !p.starts_with('0')), "a wrong checksum: {packets:?}");
    }
    echo.join().unwrap();
    drop(host);
    assert!(!run.join(format!("fusewire/{pid}.sock")).exists(), "the socket goes with the host");
}
