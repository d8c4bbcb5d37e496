//! XTP straight over IP on interfaces of this host, whose packets another program reads: a pair of veth in a namespace, an
//! address of our own at each end. Needs root.

mod support;

#[path = "support/groups.rs"]
mod groups;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fusewire_device::impair::{Impair, Rules};
use fusewire_device::interface::Interface as _;
use fusewire_device::interface::flows::Flows;
use fusewire_device::interface::packet::{self, Packet};
use fusewire_stack::on_interface::{self, Carrier, Kind, Name, OnInterface, Own, Settings};
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{Clock, Config};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use fusewire_testkit::wireshark;
use support::{content, join, over};

const VETH: &str = "for a in all default; do echo 0 > /proc/sys/net/ipv6/conf/$a/accept_dad; done\n\
                    ip link add fwa type veth peer name fwb\nip link set fwa up\nip link set fwb up\n";
/// Of the server on `fwa`, and of the client on `fwb`.
const V4: [&str; 2] = ["10.82.0.1/24", "10.82.0.2/24"];
const V6: [&str; 2] = ["fd82::1/64", "fd82::2/64"];
const XTP: u8 = 36;

fn settings(kind: Kind, interface: &str, own: &str) -> Settings {
    let address = own.parse().unwrap();
    Settings {
        name: Name { kind, interface: interface.into(), queue: None },
        own: vec![Own { address, gateway: None }],
        carrier: Carrier::Ip,
    }
}

fn host(own: &str) -> IpAddr {
    own.split_once('/').unwrap().0.parse().unwrap()
}

/// Loses packets of both directions at the client.
fn lossy(device: OnInterface, loss: f64) -> Impair<OnInterface> {
    let (rules, clock) = (Rules { loss, ..Rules::NONE }, Clock::new());
    Impair::new(device, rules, rules, 36, move || clock.now())
}

/// Sends ADUs both ways between the two ends.
fn transfer(kind: Kind, ends: [&str; 2], loss: f64) {
    let to = SocketAddr::new(host(ends[0]), 9293);
    // On a busy machine it may take longer than the patience to see that nobody has an address.
    let patiently = |open: &dyn Fn() -> io::Result<OnInterface>| {
        (0..5).find_map(|_| open().ok()).expect("an address of our own")
    };
    let server =
        patiently(&|| on_interface::listen(&settings(kind, "fwa", ends[0]), None, to.port()));
    let client = patiently(&|| on_interface::connect(&settings(kind, "fwb", ends[1]), to));
    let transport = transport::Config::of_records(Protocol::Xtp);
    let config = Config { transport, ..Config::default() };
    let pair = join(over(lossy(client, loss), config.clone()), over(server, config));
    assert_eq!(pair.server.local_addr(), to);
    let (client, server) = pair.connect();
    assert_eq!(client.remote_addr().unwrap(), SocketAddr::new(to.ip(), 0), "it has no port");
    let adus: Vec<_> = (0..200).map(|n| content(n, 1 + n * 150)).collect();
    std::thread::scope(|s| {
        for link in [&client, &server] {
            s.spawn(|| {
                for adu in &adus {
                    link.send(adu).unwrap();
                }
                link.finish_sending();
            });
        }
        for link in [&client, &server] {
            s.spawn(|| {
                for adu in &adus {
                    assert!(link.recv_adu().unwrap().as_ref() == Some(adu));
                }
                assert_eq!(link.recv_adu().unwrap(), None);
            });
        }
    });
    client.finish().unwrap();
    server.finish().unwrap();
}

/// What passes both ends while `body` runs: IP's packets of XTP.
fn watched(body: impl FnOnce() + Send) -> Vec<Vec<u8>> {
    let done = AtomicBool::new(false);
    let (ready, watching) = mpsc::channel();
    let watch = |name: &str, ready: mpsc::Sender<()>| {
        let flows = Flows::everything();
        let config = packet::Config { flows, ..packet::Config::new(name) };
        let mut interface = Packet::open(&config).unwrap();
        let mut packets = Vec::new();
        ready.send(()).unwrap();
        while !done.load(Ordering::Relaxed) {
            interface.wait(Some(Duration::from_millis(50)), false).unwrap();
            for at in 0..interface.receive().unwrap() {
                let bytes = interface.packet(at).bytes;
                let protocol = match bytes[12..14] {
                    [8, 0] => bytes[23],
                    [0x86, 0xdd] => bytes[20],
                    _ => 0,
                };
                if protocol == XTP && packets.len() < 2000 {
                    packets.push(bytes[14..].to_vec());
                }
            }
        }
        packets
    };
    std::thread::scope(|s| {
        let threads = ["fwa", "fwb"].map(|name| {
            let ready = ready.clone();
            s.spawn(move || watch(name, ready))
        });
        drop(ready);
        threads.iter().for_each(|_| watching.recv().expect("it watches"));
        let result = s.spawn(body).join();
        done.store(true, Ordering::Relaxed);
        result.expect("nothing failed");
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn every_device_carries_it_with_loss_and_without() {
    in_namespace("every_device_carries_it_with_loss_and_without", Need::Root, VETH, || {
        for kind in [Kind::Packet, Kind::Xdp] {
            for ends in [V4, V6] {
                for loss in [0.0, 0.01] {
                    let start = Instant::now();
                    transfer(kind, ends, loss);
                    eprintln!("{kind:?} {} loss {loss}: {:?}", ends[0], start.elapsed());
                }
            }
        }
    });
}

#[test]
fn wireshark_reads_what_is_on_the_wire() {
    in_namespace("wireshark_reads_what_is_on_the_wire", Need::Root, VETH, || {
        for ends in [V4, V6] {
            let packets = watched(|| transfer(Kind::Packet, ends, 0.02));
            let is_v6 = ends == V6;
            let start = if is_v6 { 40 } else { 20 };
            // Whole, never to be fragmented, and no mark of congestion wanted.
            for packet in &packets {
                if is_v6 {
                    assert_eq!((packet[0] & 0xf, packet[1] >> 4), (0, 0), "its traffic class");
                } else {
                    assert_eq!((packet[1], packet[6]), (0, 0x40), "TOS and don't-fragment");
                }
            }
            for format in [0, 1, 2, 3, 5] {
                let found = packets.iter().filter(|packet| packet[start + 11] & 31 == format);
                assert!(found.count() > 0, "none of format {format} of {}", packets.len());
            }
            let is_first = |packet: &[u8]| packet[start + 11] & 31 == 2;
            let name = if is_v6 { "xtp-on-ipv6" } else { "xtp-on-ipv4" };
            let fields = ["xtp.checksum.status", "_ws.malformed"];
            let Some(rows) = wireshark::fields(name, &packets, &[], &fields) else { return };
            for (packet, row) in packets.iter().zip(&rows) {
                assert_eq!(row[..], ["1", ""], "{packet:02x?}");
            }
            let complaints = wireshark::complaints(name, &packets, &[]).unwrap();
            for (at, line) in complaints {
                // The dissector does not know the address segment of IPv6, and takes what follows for another.
                let known = line.ends_with("Unsupported aformat(6)")
                    || line.ends_with("bogus length(0, must be 8)");
                assert!(is_v6 && known && is_first(&packets[at]), "{line}: {:02x?}", packets[at]);
            }
        }
    });
}

/// One stream to a group, straight over IP: on addresses of our own, and with one end or the other beside the kernel.
#[test]
fn every_device_carries_groups() {
    in_namespace("every_device_carries_groups", Need::Root, VETH, || {
        let lens: Vec<usize> = (0..60).map(|n| 1 + n * 7919 % 60_000).collect();
        for kind in [Kind::Packet, Kind::Xdp] {
            for (ends, group) in [(V4, "239.255.7.7:9294"), (V6, "[ff02::7:7]:9294")] {
                let group: SocketAddr = group.parse().unwrap();
                // By XDP what is sent to groups on our own addresses stays the kernel's.
                let all = [Some(1), None, Some(0)];
                let some = if kind == Kind::Xdp || ends == V6 { 1 } else { all.len() };
                for beside in all.into_iter().take(some) {
                    let mut devices =
                        [("fwa", 0), ("fwb", 1)].map(|(name, end)| settings(kind, name, ends[end]));
                    if let Some(end) = beside {
                        devices[end].own.clear();
                        let name = &devices[end].name.interface;
                        sh(&format!("ip addr add {} dev {name}", ends[end]));
                    }
                    carries_groups(devices, group, &lens);
                    sh("ip addr flush dev fwa scope global; ip addr flush dev fwb scope global");
                }
            }
        }
    });
}

fn carries_groups(ends: [Settings; 2], group: SocketAddr, lens: &[usize]) {
    let is_v6 = group.is_ipv6();
    let any = if is_v6 { IpAddr::from([0u16; 8]) } else { IpAddr::from([0u8; 4]) };
    let open = |settings: &Settings| {
        let opened = || on_interface::listen(settings, Some(any), 0);
        // On a busy machine it may take longer than the patience to see that nobody has an address.
        (0..5).find_map(|_| opened().ok()).unwrap_or_else(|| opened().expect("a device"))
    };
    let (sender, mut receiver) = (open(&ends[0]), open(&ends[1]));
    receiver.join(group.ip()).unwrap();
    groups::from_one_to_another(sender, receiver, group, lens);
}
