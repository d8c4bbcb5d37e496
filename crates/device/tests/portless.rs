//! XTP as IP protocol 36 beside the kernel, on its own address: all of it is ours, fragments too, the kernel does not say
//! that it is not spoken, and one process has it.

mod support;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fusewire_device::interface::Interface;
use fusewire_device::interface::flows::{Flows, Port, Protocol};
use fusewire_device::interface::packet::{self, Packet};
use fusewire_device::interface::reserved_port::ReservedPort;
use fusewire_device::interface::xdp::{self, Xdp};
use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socket_with};
use support::process::words;
use support::receive_until;

const XTP: u8 = 36;
/// Ours, and the other host's.
const V4: [&str; 2] = ["10.79.0.2", "10.79.0.1"];
const V6: [&str; 2] = ["fd79::2", "fd79::1"];

/// Our end of the pair is `fwb`.
fn hosts() -> Peer {
    let peer = Peer::new();
    sh("echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad");
    sh(&format!(
        "ip link add fwb type veth peer name fwa netns {}\n\
         ip addr add 10.79.0.2/24 dev fwb\nip addr add fd79::2/64 dev fwb nodad\nip link set fwb up",
        peer.pid()
    ));
    peer.sh("ip addr add 10.79.0.1/24 dev fwa\nip addr add fd79::1/64 dev fwa nodad\nip link set fwa up");
    peer
}

fn open(device: &str, ports: impl IntoIterator<Item = Port>) -> Box<dyn Interface> {
    let flows = Flows::ports(ports);
    match device {
        "xdp" => Box::new(Xdp::open(&xdp::Config { flows, ..xdp::Config::new("fwb") }).unwrap()),
        _ => {
            Box::new(Packet::open(&packet::Config { flows, ..packet::Config::new("fwb") }).unwrap())
        }
    }
}

fn raw(to: IpAddr, protocol: u8) -> std::os::fd::OwnedFd {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let number = rustix::net::Protocol::from_raw(u32::from(protocol).try_into().unwrap());
    socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(number)).unwrap()
}

/// The other host sends so many bytes of a protocol, which the kernel there fragments where they are too many.
fn send(peer: &Peer, to: &str, protocol: u8, len: usize) {
    let mut sender = peer.command(std::env::current_exe().unwrap().to_str().unwrap());
    sender.args(["--exact", "the_other_host", "--ignored", "--nocapture"]);
    sender.env("FUSEWIRE_TEST_PROCESS", format!("{to} {protocol}/{len}"));
    let output = sender.env_remove("FUSEWIRE_TEST_NAMESPACE").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "the tests above start it as a process of its own"]
fn the_other_host() {
    let Some((to, what)) = words() else { return };
    let (protocol, len) = what.split_once('/').unwrap();
    let to: IpAddr = to.parse().unwrap();
    let bytes = vec![0xf3; len.parse().unwrap()];
    let socket = raw(to, protocol.parse().unwrap());
    let to = SocketAddr::new(to, 0);
    assert_eq!(rustix::net::sendto(&socket, &bytes, SendFlags::empty(), &to), Ok(bytes.len()));
}

/// ICMP errors that say that a protocol is not spoken, of both IP versions, which our kernel has sent.
fn refusals() -> u64 {
    let v4 = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = v4.lines().filter(|line| line.starts_with("Icmp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "OutDestUnreachs").unwrap();
    let v6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
    let v6 = v6.lines().find(|line| line.starts_with("Icmp6OutParmProblems")).unwrap();
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    number(values.split(' ').nth(at).unwrap()) + number(v6.split_once(' ').unwrap().1)
}

/// Waits until there are so many, and no more.
#[track_caller]
fn until_refused(times: u64, what: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    while refusals() < times && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(refusals(), times, "{what}");
}

/// The protocol of a packet of this host's, as its header names it, and a fragment's own.
fn protocol_of(bytes: &[u8]) -> u8 {
    match (bytes[14] >> 4, bytes[20]) {
        (6, 44) => bytes[54],
        (6, next) => next,
        _ => bytes[23],
    }
}

#[test]
fn all_of_it_is_ours_and_the_kernel_keeps_silent() {
    in_namespace("all_of_it_is_ours_and_the_kernel_keeps_silent", Need::Root, "", || {
        let peer = hosts();
        for [ours, _] in [V4, V6] {
            let before = refusals();
            send(&peer, ours, XTP, 100);
            until_refused(before + 1, "nobody speaks it, and the kernel says so");
            // Of errors only some are sent a second.
            std::thread::sleep(Duration::from_millis(1100));
            for device in ["packet", "xdp"] {
                let at = SocketAddr::new(ours.parse().unwrap(), 0);
                let reserved = ReservedPort::new(Protocol::Xtp, at).unwrap();
                let port = reserved.port();
                assert_eq!(port, Port { addr: at.ip(), protocol: Protocol::Xtp, port: 0 });
                let mut interface = open(device, [port]);
                let before = refusals();
                // Whole, and in three pieces. Another protocol is not ours.
                send(&peer, ours, 253, 100);
                std::thread::sleep(Duration::from_millis(1100));
                until_refused(before + 1, &format!("{device}: another protocol is the kernel's"));
                for (len, pieces) in [(32, 1), (1400, 1), (3000, 3)] {
                    send(&peer, ours, XTP, len);
                    let mut came = 0;
                    receive_until(&mut *interface, |packet| {
                        assert_eq!(protocol_of(packet.bytes), XTP, "{device}");
                        came += 1;
                        came == pieces
                    });
                }
                assert_eq!(refusals(), before + 1, "{device}");
            }
        }
    });
}

/// With rights and a kernel that allow it. Nobody has reserved anything here, so the kernel refuses what it sees.
#[test]
fn of_what_is_ours_the_kernel_sees_nothing() {
    in_namespace("of_what_is_ours_the_kernel_sees_nothing", Need::Root, "", || {
        let peer = hosts();
        sh(
            "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit",
        );
        for [ours, _] in [V4, V6] {
            let port = Port { addr: ours.parse().unwrap(), protocol: Protocol::Xtp, port: 0 };
            let mut interface = open("packet", []);
            let notes = interface.capabilities().notes.clone();
            if !notes.iter().any(|note| note.contains("ends here")) {
                return eprintln!("skipped: {notes:?}");
            }
            let mut refused = refusals();
            let mut refuses = |times, what| {
                refused += times;
                until_refused(refused, &format!("{ours}: {what}"));
            };
            send(&peer, ours, XTP, 100);
            refuses(1, "it is not ours yet");
            interface.steer(&Flows::ports([port])).unwrap();
            for (len, pieces) in [(100, 1), (1400, 1), (3000, 3)] {
                send(&peer, ours, XTP, len);
                let mut came = 0;
                receive_until(&mut *interface, |packet| {
                    came += usize::from(protocol_of(packet.bytes) == XTP);
                    came == pieces
                });
                refuses(0, "it is ours");
            }
            send(&peer, ours, 253, 100);
            refuses(1, "another protocol");
            interface.steer(&Flows::default()).unwrap();
            send(&peer, ours, XTP, 100);
            refuses(1, "it is ours no more");
            interface.steer(&Flows::ports([port])).unwrap();
            drop(interface);
            send(&peer, ours, XTP, 100);
            refuses(1, "nobody is there");
        }
    });
}

#[test]
fn one_has_it_on_an_address() {
    in_namespace("one_has_it_on_an_address", Need::Root, "ip link set lo up", || {
        for (ours, other) in [("127.0.0.1", "127.0.0.2"), ("::1", "::2")] {
            if other == "::2" {
                sh("ip addr add ::2/128 dev lo nodad");
            }
            let reserve = |addr: &str| {
                let at = SocketAddr::new(addr.parse().unwrap(), 0);
                ReservedPort::new(Protocol::Xtp, at).map_err(|e| e.kind())
            };
            let first = reserve(ours).unwrap();
            assert_eq!(reserve(ours).unwrap_err(), ErrorKind::AddrInUse);
            let beside = reserve(other).unwrap();
            drop((first, beside));
            // A program of somebody else's, on any address.
            let stranger = raw(ours.parse().unwrap(), XTP);
            assert_eq!(reserve(ours).unwrap_err(), ErrorKind::AddrInUse);
            drop(stranger);
            let _another_protocol = raw(ours.parse().unwrap(), XTP + 1);
            reserve(ours).unwrap();
        }
    });
}
