//! A host that is asked what it does while it does it, over the Unix socket of its process.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fusewire_device::interface::memory::{Config as Pair, pair};
use fusewire_device::pcapng::read::Splitter;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Host, HostConfig, Stack};
use fusewire_view::client::{self, Process};
use fusewire_view::place;

/// The folder of this test's process.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let name = format!("fusewire-observe-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        place::choose(folder.clone());
        folder
    })
}

fn hosts() -> [Host; 2] {
    let (a, b) = pair(Pair::default()).unwrap();
    let mut number = 0;
    [a, b].map(|interface| {
        number += 1;
        let address = format!("192.0.2.{number}/24").parse::<Cidr>().unwrap();
        let net = NetConfig {
            addresses: vec![address],
            duplicate_detection: false,
            ..Stack::net_config(&interface)
        };
        Host::new(Box::new(interface), net, HostConfig::default()).unwrap()
    })
}

fn me() -> Process {
    let mut all = client::processes();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn ask(request: &str) -> String {
    let mut stream =
        UnixStream::connect(folder().join(format!("{}.sock", std::process::id()))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_running_host_tells_what_it_does() {
    folder();
    let [a, b] = hosts();
    let at: SocketAddr = "192.0.2.2:80".parse().unwrap();
    let listener = b.tcp_listen(at, 8).unwrap();
    let _udp = b.udp_bind("192.0.2.2:53".parse().unwrap()).unwrap();
    b.observe().unwrap();
    b.observe().unwrap();
    let mut client = a.tcp_connect(at).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&[7; 100_000]).unwrap();
    let mut got = vec![0; 60_000];
    server.read_exact(&mut got).unwrap();

    let report = me().report().unwrap();
    assert_eq!((report.pid, report.stacks.len()), (std::process::id(), 1));
    let stack = &report.stacks[0];
    assert!(stack.answered && stack.kind == "ip" && stack.device == "memory");
    assert_eq!(stack.addresses, ["192.0.2.2/24"]);
    assert!(
        stack.counters["packets_received"] > 2 && stack.counters["tcp_bytes_received"] >= 60_000
    );
    let found = |protocol: &str, state: &str| {
        let mut sockets = stack.sockets.iter();
        sockets.find(|s| s.protocol == protocol && s.state == state).expect("in the list").clone()
    };
    found("udp", "UNCONN");
    found("tcp", "LISTEN");
    let stream = found("tcp", "ESTAB");
    assert_eq!(
        (stream.local, stream.remote.map(|r| r.ip())),
        (at, Some("192.0.2.1".parse().unwrap()))
    );
    let tcp = stream.transport.as_ref().unwrap();
    assert!(tcp.bytes_received >= 60_000 && tcp.sack && tcp.timestamps);

    let trace = me().trace(stack.id, &stream.id).unwrap();
    assert!(trace.iter().any(|s| s.what == "received" && s.len > 0 && s.flags.contains('A')));
    assert!(trace.windows(2).all(|w| w[0].ago_us >= w[1].ago_us));
    assert!(me().trace(stack.id, "999.0").is_err() && me().trace(77, &stream.id).is_err());

    // Counters do not go down when a connection goes.
    drop((client, server));
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let report = me().report().unwrap();
        assert!(report.stacks[0].counters["tcp_bytes_received"] >= 60_000);
        if !report.stacks[0].sockets.iter().any(|s| s.state == "ESTAB") {
            break;
        }
        assert!(Instant::now() < end);
    }
    what_programs_ask();
    a_capture_of_it(&a, &b);
    drop((listener, _udp, b));
    assert!(client::processes().is_empty(), "the socket goes with the last host");
    let _ = std::fs::remove_dir_all(folder());
}

fn what_programs_ask() {
    let metrics = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    assert!(metrics.contains("fusewire_packets_received_total{pid="), "{metrics}");
    assert!(ask("metrics\n").contains("# TYPE fusewire_sockets gauge"));
    assert!(ask("GET /snapshot HTTP/1.0\r\n\r\n").contains("\"stacks\":["));
    assert!(ask("GET /etc/passwd HTTP/1.1\r\n\r\n").contains(" 404 "));
    for wrong in ["nonsense\n", "\n", "trace\n", "capture x\n", "capture 0 x\n", "\u{1b}[2J\n"] {
        assert!(ask(wrong).starts_with("{\"error\":"), "{wrong:?}");
    }
    // Too long: whatever becomes of it, the next is served.
    let path = folder().join(format!("{}.sock", std::process::id()));
    let _ = UnixStream::connect(path).unwrap().write_all(&[b'x'; 1 << 20]);
    assert!(ask("snapshot\n").starts_with("{\"pid\":"));
}

fn a_capture_of_it(a: &Host, b: &Host) {
    let mut capturing = me().capture(0, Some(96)).unwrap();
    // It has begun when the section header is there.
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 1 << 16]);
    let len = capturing.read(&mut buffer).unwrap();
    splitter.push(&buffer[..len]);
    assert!(ask("capture 0\n").contains("under way"));
    let from = a.udp_bind("192.0.2.1:7".parse().unwrap()).unwrap();
    from.send_to(b"for nobody", "192.0.2.2:9".parse().unwrap()).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while b.counters().drops.of(fusewire_stack::Cause::UdpStray) == 0 {
        assert!(Instant::now() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    capturing.stop().unwrap();
    let mut rest = Vec::new();
    capturing.read_to_end(&mut rest).unwrap();
    splitter.push(&rest);
    let mut comments = Vec::new();
    while let Some(block) = splitter.next().unwrap() {
        comments.extend(block.packet().and_then(|(_, comment)| Some(comment?.to_string())));
    }
    assert!(comments.iter().any(|c| c.starts_with("no such port: answered")), "{comments:?}");
}

#[test]
fn too_many_clients_are_told_so_and_the_rest_is_served() {
    // In a process of its own: a socket belongs to one.
    let Some(folder) = std::env::var_os("FUSEWIRE_TEST_CLIENTS") else {
        let folder = std::env::temp_dir().join(format!("fusewire-clients-{}", std::process::id()));
        let name = "too_many_clients_are_told_so_and_the_rest_is_served";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("FUSEWIRE_TEST_CLIENTS", &folder)
            .status()
            .unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        assert!(status.success());
        return;
    };
    place::choose(folder.into());
    let [a, _b] = hosts();
    a.observe().unwrap();
    let path = place::folder().unwrap().join(format!("{}.sock", std::process::id()));
    let idle: Vec<_> = (0..8).map(|_| UnixStream::connect(&path).unwrap()).collect();
    // The eighth has its thread before the ninth is looked at: one listener takes them in turn.
    let mut ninth = UnixStream::connect(&path).unwrap();
    let mut told = String::new();
    ninth.read_to_string(&mut told).unwrap();
    assert!(told.contains("too many clients"), "{told}");
    drop(idle);
    let end = Instant::now() + Duration::from_secs(10);
    while me().report().is_err() {
        assert!(Instant::now() < end, "nobody is served any more");
    }
}
