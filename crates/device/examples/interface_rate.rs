//! How fast an interface carries UDP messages to and from a kernel socket with segmentation offload, and how
//! long a message of 64 bytes is under way and back: the raw device, no protocol.
//!
//! `cargo run --release -p fusewire-device --example interface_rate [DEVICE] [SECONDS]` with DEVICE one of
//! `tap`, `tun`, `packet`, `packet-blocks`, `packet-bypass`, `xdp`, `xdp-generic` or `all`. It runs in a network namespace
//! of its own, as root or, but for XDP, where unprivileged ones are allowed; TAP stands alone, the others
//! have one end of a veth pair.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::interface::packet::{self, Packet};
use fusewire_device::interface::tap::{self, Tap};
use fusewire_device::interface::xdp::{self, Xdp};
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, TxPacket};
use fusewire_device::udp::{self, Udp};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_testkit::namespace::sh;
use support::{Flow, VETH, mac_of, udp_payload, veth_flow};

const INSIDE: &str = "FUSEWIRE_RATE_INSIDE";
const ALL: [&str; 7] =
    ["tap", "tun", "packet", "packet-blocks", "packet-bypass", "xdp", "xdp-generic"];
/// Most datagrams of a super-frame that every kernel with segmentation offload sends.
const MOST_SEGMENTS: usize = 64;

fn open(name: &str) -> (Box<dyn Interface>, Flow) {
    if let "tap" | "tun" = name {
        let link = if name == "tap" { Link::Ethernet } else { Link::Ip };
        let tap = Tap::open(&tap::Config { link, ..tap::Config::default() }).unwrap();
        let flow = Flow::new("10.77.0.2:7000", "10.77.0.1:7001");
        sh(&format!("ip addr add 10.77.0.1/24 dev {}", tap.name()));
        let Some(mac) = tap.capabilities().mac else { return (Box::new(tap), flow) };
        let text = mac.map(|b| format!("{b:02x}")).join(":");
        sh(&format!("ip neigh add 10.77.0.2 lladdr {text} dev {}", tap.name()));
        let flow = flow.over(mac, mac_of(tap.name()));
        return (Box::new(tap), flow);
    }
    sh(&format!("ip link del fwa 2>/dev/null || true\n{VETH}"));
    if name.starts_with("xdp") {
        let config = xdp::Config { generic: name == "xdp-generic", ..xdp::Config::new("fwb") };
        return (Box::new(Xdp::open(&config).unwrap()), veth_flow());
    }
    let config = packet::Config {
        blocks: name == "packet-blocks",
        bypass_queue: name == "packet-bypass",
        ..packet::Config::new("fwb")
    };
    (Box::new(Packet::open(&config).unwrap()), veth_flow())
}

/// Messages that our end sends in a second, as counted by a kernel socket with `UDP_GRO`.
fn send(interface: &mut dyn Interface, flow: Flow, size: usize, time: Duration) -> f64 {
    let capabilities = interface.capabilities().clone();
    let segments = if capabilities.udp_segmentation {
        capabilities.udp_segments_max().min(65_000 / size)
    } else {
        1
    };
    let payload = vec![7; segments * size];
    let mut header = flow.udp(&payload);
    let pieces = [IoSlice::new(&payload)];
    let mut packet = support::whole(&[], &pieces);
    if segments > 1 {
        packet.checksum = flow.partial(&mut header, payload.len(), 17);
        packet.segmentation = Segmentation::Udp { segment_len: size as u16 };
    } else if capabilities.checksum {
        packet.checksum = flow.partial(&mut header, payload.len(), 17);
    }
    let packets = [TxPacket { header: &header, ..packet }; 16];
    let (stop, ready, count) = (AtomicBool::new(false), Barrier::new(2), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut socket = Udp::bind(flow.to.into(), &udp::Config::default()).unwrap();
            let mut batch = RxBatch::new(16);
            ready.wait();
            while !stop.load(Ordering::Relaxed) {
                socket.receive(&mut batch).unwrap();
                let messages: usize =
                    batch.iter().map(|s| s.bytes.len().div_ceil(s.segment_len)).sum();
                count.fetch_add(messages as u64, Ordering::Relaxed);
            }
        });
        ready.wait();
        let start = Instant::now();
        while start.elapsed() < time {
            if interface.transmit(&packets).unwrap() == 0 {
                interface.wait(Some(Duration::from_millis(1)), true).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
    })
}

/// Messages that our end gets in a second from a kernel socket with `UDP_SEGMENT`.
fn receive(interface: &mut dyn Interface, flow: Flow, size: usize, time: Duration) -> f64 {
    let (stop, link) = (AtomicBool::new(false), interface.capabilities().link);
    let headers = flow.network_end() + 8;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut socket = Udp::bind(flow.to.into(), &udp::Config::default()).unwrap();
            let payload = vec![7; size];
            let peer = flow.from.into();
            let frame = TxFrame { peer, header: &[], payload: &payload, ecn: Ecn::NotEct };
            let frames = vec![frame; MOST_SEGMENTS * 8];
            while !stop.load(Ordering::Relaxed) {
                if socket.transmit(&frames).unwrap() == 0 {
                    socket.wait(Some(Duration::from_millis(1)), true).unwrap();
                }
            }
        });
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < time {
            for i in 0..interface.receive().unwrap() {
                let packet = interface.packet(i);
                let part = match packet.segmentation {
                    Segmentation::Udp { segment_len } => usize::from(segment_len),
                    _ if udp_payload(link, packet.bytes, flow.from.port()).is_none() => continue,
                    _ => size,
                };
                count += (packet.bytes.len() - headers).div_ceil(part);
            }
        }
        stop.store(true, Ordering::Relaxed);
        count as f64 / start.elapsed().as_secs_f64()
    })
}

/// Median round trip of 64 bytes in microseconds; both ends spin.
fn round_trip(interface: &mut dyn Interface, flow: Flow, time: Duration) -> f64 {
    let (stop, link) = (AtomicBool::new(false), interface.capabilities().link);
    let socket = UdpSocket::bind(flow.to).unwrap();
    socket.set_nonblocking(true).unwrap();
    let payload = [7; 64];
    let header = flow.udp(&payload);
    let pieces = [IoSlice::new(&payload)];
    let packet = TxPacket { checksum: Checksum::InPlace, ..support::whole(&header, &pieces) };
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 100];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    socket.send_to(&buffer[..len], from).unwrap();
                }
            }
        });
        let start = Instant::now();
        while start.elapsed() < time {
            let sent = Instant::now();
            interface.transmit(&[packet]).unwrap();
            let came = loop {
                let count = interface.receive().unwrap();
                let ours = |i| udp_payload(link, interface.packet(i).bytes, flow.from.port());
                if (0..count).any(|i| ours(i).is_some()) {
                    break true;
                }
                if sent.elapsed() > Duration::from_millis(100) {
                    break false;
                }
            };
            if came {
                times.push(sent.elapsed().as_nanos());
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |ns| *ns as f64 / 1000.0)
}

type Measure = fn(&mut dyn Interface, Flow, usize, Duration) -> f64;

fn main() {
    if std::env::var_os(INSIDE).is_none() {
        let user =
            if fusewire_testkit::namespace::is_root() { None } else { Some("--map-root-user") };
        let error = Command::new("unshare")
            .args(user)
            .args(["--net", "--"])
            .args(std::env::args_os())
            .env(INSIDE, "1")
            .exec();
        panic!("unshare: {error}");
    }
    let mut args = std::env::args().skip(1);
    let which = args.next().unwrap_or_else(|| "all".into());
    let seconds = args.next().map_or(0.5, |s| s.parse().unwrap());
    let time = Duration::from_secs_f64(seconds);
    let sizes = [16, 64, 200, 1000, 1400];
    println!("million messages a second by size; round trip of 64 bytes in µs");
    println!("{:14} {:8} {:>8}", "device", "", "rtt");
    for name in ALL.iter().filter(|name| which == "all" || which == **name) {
        let (mut interface, flow) = open(name);
        println!("# {}", interface.capabilities().notes.join("; "));
        let rtt = round_trip(&mut *interface, flow, time);
        for (word, run) in [("send", send as Measure), ("receive", receive)] {
            print!("{name:14} {word:8} {rtt:8.1}");
            for size in sizes {
                print!(" {size:5}: {:6.2}", run(&mut *interface, flow, size, time) / 1e6);
            }
            println!("   dropped {}", interface.dropped());
        }
    }
}
