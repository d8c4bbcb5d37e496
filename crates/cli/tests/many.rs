//! Many connections, and floods of those that never become one.

mod support;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fusewire_base::{Seq, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_stack::PORT;
use fusewire_wire::tcp::{Flags, Header, Options};
use support::{World, bytes};

#[test]
fn connections_share_a_server_fairly() {
    let world = World::new();
    let args = ["bench", "connections", "--open", "60", "--transferring", "8", "--bytes", "2MiB"];
    let args = [&args[..], &["--idle-seconds", "0.5", "--json"]].concat();
    let line = world.run("alice", &args).ok().summary();
    assert_eq!((&line["verified"], &line["open"]), (&true.into(), &60.into()), "{line}");
    assert!(line["server_memory_bytes"].as_u64().unwrap() < 128 << 20, "{line}");
    assert!(line["slowest_to_median"].as_f64().unwrap() > 0.1, "{line}");
}

/// A segment as our stack would put it into a datagram.
fn segment(mut header: Header) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    header.checksum = 0;
    let len = header.emit(&mut bytes);
    bytes.truncate(len);
    let sum = pseudo_header_sum(6, len) + Sum::of(&bytes);
    bytes[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    bytes
}

fn syn(port: u16) -> Vec<u8> {
    let options = Options {
        mss: Some(1400),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 0)),
        ..Options::default()
    };
    segment(Header {
        src_port: port,
        dst_port: PORT,
        seq: Seq(u32::from(port) * 7919),
        flags: Flags::SYN,
        window: 65_535,
        options,
        ..Header::default()
    })
}

/// Completes the handshake of TCP for each port, and leaves it at that.
fn half_open(server: SocketAddr, ports: std::ops::Range<u16>) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (mut opened, mut buffer) = (0, [0; 2048]);
    for port in ports {
        socket.send(&syn(port)).unwrap();
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let Ok(reply) = Header::parse(&buffer[..len]) else { continue };
        if !reply.flags.has(Flags::SYN | Flags::ACK) {
            continue;
        }
        let timestamps = reply.options.timestamps.map(|(value, _)| (2, value));
        let ack = segment(Header {
            src_port: reply.dst_port,
            dst_port: PORT,
            seq: reply.ack,
            ack: reply.seq + 1,
            flags: Flags::ACK,
            window: 512,
            options: Options { timestamps, ..Options::default() },
            ..Header::default()
        });
        socket.send(&ack).unwrap();
        opened += 1;
    }
    opened
}

#[test]
fn floods_keep_nobody_out_and_take_little() {
    let world = World::new();
    let content = bytes(3_000_000, 5);
    fs::write(world.served("a"), &content).unwrap();
    let server = world.serve(&["--log-level", "info"]);
    let address: SocketAddr = server.address.parse().unwrap();
    // More than the table holds, from a client that never says hello.
    assert!(half_open(address, 1000..6000) > 4000);
    let flood = std::thread::spawn(move || {
        let sockets: Vec<_> = (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        // For so long, and so many.
        let start = Instant::now();
        let mut sent = 0u32;
        while start.elapsed() < Duration::from_secs(3) || sent < 10_000 {
            let socket = &sockets[sent as usize % sockets.len()];
            let _ = socket.send_to(&syn(sent as u16), address);
            let _ = socket.send_to(b"no segment", address);
            sent += 1;
            if sent.is_multiple_of(100) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        sent
    });
    std::thread::sleep(Duration::from_millis(300));
    for device in ["udp", "shm", "kernel-tcp"] {
        let args = ["get", &server.url("a"), "-o", "copy", "--device", device];
        world.run("alice", &args).ok();
        assert!(fs::read(world.here("copy")).unwrap() == content);
        fs::remove_file(world.here("copy")).unwrap();
    }
    assert!(flood.join().unwrap() >= 10_000);
    assert!(server.peak_memory() < 256 << 20, "{} bytes", server.peak_memory());
    let done = server.stop().ok();
    let told = done.err.lines().rfind(|l| l.contains("dropped so far")).unwrap();
    let count = |cause: &str| -> u64 {
        let plain = told.replace("\x1b[3m", "").replace("\x1b[0m", "").replace("\x1b[2m", "");
        let at = plain.find(&format!("{cause}=")).unwrap() + cause.len() + 1;
        plain[at..].split(' ').next().unwrap().parse().unwrap()
    };
    assert!(count("transport-malformed") > 1000 && count("cookies") > 1000, "{told}");
    assert!(count("handshake-unfinished") > 900, "{told}");
}
