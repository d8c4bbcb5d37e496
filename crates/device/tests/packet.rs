//! AF_PACKET against the kernel over a veth pair: the ring in both forms, super-frames, filters, queues.

mod support;

use std::io::IoSlice;
use std::net::UdpSocket;
use std::time::Duration;

use fusewire_device::interface::flows::{Flows, Port, Protocol};
use fusewire_device::interface::packet::{Config, Packet};
use fusewire_device::interface::{Interface, Link, Split};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use support::{VETH, content, exchange, receive_until, udp_payload, veth_flow, whole};

const LINK: Link = Link::Ethernet;
/// Headers of a datagram.
const HEAD: usize = 14 + 20 + 8;

#[test]
fn packets_and_super_frames_go_both_ways() {
    in_namespace("packets_and_super_frames_go_both_ways", Need::Namespace, VETH, || {
        for (blocks, bypass_queue) in [(false, false), (true, false), (false, true)] {
            let config = Config { blocks, bypass_queue, ..Config::new("fwb") };
            let mut packet = Packet::open(&config).unwrap();
            exchange::datagrams(&mut packet, veth_flow());
            exchange::udp_super_frames(&mut packet, veth_flow());
            exchange::tcp_super_frames(&mut packet, veth_flow());
        }
        for blocks in [false, true] {
            let config = Config { blocks, super_frames: false, ..Config::new("fwb") };
            let mut packet = Packet::open(&config).unwrap();
            let got = packet.capabilities();
            assert!(!got.checksum && !got.tcp_segmentation && !got.udp_segmentation);
            assert_eq!(got.max_packet_bytes, 1514);
            assert!(got.notes[0].contains("no super-frames"), "{:?}", got.notes);
            exchange::datagrams(&mut packet, veth_flow());
        }
    });
}

fn waits_beside(packet: &Packet) -> bool {
    packet.capabilities().notes.iter().any(|note| note.contains("beside the ring"))
}

/// Root of the whole system, and not of a namespace of users.
fn has_all_rights() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"))
}

/// With an interface beside whose ring super-frames wait, and a socket of the kernel's that sends such of datagrams this long.
fn beside_the_ring(test: &str, datagram_len: u16, inside: impl FnOnce(Packet, UdpSocket)) {
    in_namespace(test, Need::Namespace, VETH, || {
        let packet = Packet::open(&Config::new("fwb")).unwrap();
        let got = packet.capabilities();
        // Who has not all rights has as much memory as the system lets everybody have.
        let is_beside = waits_beside(&packet);
        assert!(is_beside || !has_all_rights(), "{:?}", got.notes);
        if !is_beside || !got.udp_segmentation {
            return eprintln!("skipped: {:?}", got.notes);
        }
        let socket = UdpSocket::bind("10.78.0.1:7001").unwrap();
        fusewire_device::kernel_udp::segment_sends(&socket, datagram_len).unwrap();
        socket.connect("10.78.0.2:7000").unwrap();
        inside(packet, socket);
    });
}

/// One after another: those of the ring by `receive`, what is beside it into the memory of who asks, whole or cut.
#[test]
fn super_frames_wait_beside_the_ring_in_their_turn() {
    let test = "super_frames_wait_beside_the_ring_in_their_turn";
    beside_the_ring(test, 1000, |mut packet, socket| {
        // The second is the next when it is looked for, unless the kernels say something of their own between.
        let mut cut = 0;
        for _ in 0..10 {
            let lens = [100, 20_000, 30_000, 200, 50_000, 1000, 40_000];
            let sent = lens.map(|len| content(len + 7)[7..].to_vec());
            let mut came = Vec::new();
            for part in [&sent[..1], &sent[1..]] {
                for payload in part {
                    socket.send(payload).unwrap();
                }
                let all = came.len() + part.len();
                cut += take_in_turn(&mut packet, &mut came, all);
            }
            assert!(came == sent, "{:?}", came.iter().map(Vec::len).collect::<Vec<_>>());
        }
        assert!(cut > 0, "none was beside the ring when it was looked for");
        assert_eq!(packet.dropped(), 0);
    });
}

#[test]
fn the_longest_packets_there_are_come_at_once() {
    let test = "the_longest_packets_there_are_come_at_once";
    beside_the_ring(test, 1400, |mut packet, socket| {
        for round in 0..5 {
            // With their headers as long as the kernel leaves whole (`gso_max_size`).
            let sent = [1, 2, 3, 4, 5, 6].map(|n| vec![n + 10 * round; 65_535 - HEAD]);
            for payload in &sent {
                socket.send(payload).unwrap();
            }
            let mut came: Vec<Vec<u8>> = Vec::new();
            while came.len() < sent.len() {
                let count = packet.receive().unwrap();
                for i in 0..count {
                    let payload = udp_payload(LINK, packet.packet(i).bytes, 7000);
                    came.extend(payload.map(<[u8]>::to_vec));
                }
                if count == 0 {
                    packet.wait(Some(Duration::from_millis(100)), false).unwrap();
                }
            }
            let firsts: Vec<_> = came.iter().map(|payload| (payload.len(), payload[0])).collect();
            assert!(came == sent, "round {round}: {firsts:?}");
        }
        assert_eq!(packet.dropped(), 0);
    });
}

#[test]
fn what_the_socket_says_to_who_looks_is_told() {
    beside_the_ring("what_the_socket_says_to_who_looks_is_told", 1000, |mut packet, socket| {
        // What the kernels say of their own goes by.
        let mut is_there = || {
            socket.send(&[7; 20_000]).unwrap();
            packet.peek().is_some() || packet.receive().is_err()
        };
        assert!((0..500).any(|_| is_there()));
        sh("ip link set fwb down");
        let mut memory = vec![0; 65_536];
        // The socket says it in place of the packet, which is there yet.
        let split = packet.receive_split(HEAD, [&mut memory, &mut []]).unwrap();
        assert_eq!(split, Split::Packet { len: HEAD + 20_000 });
        let error = packet.wait(Some(Duration::from_millis(10)), false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NETDOWN.raw_os_error()));
        // It is told once.
        assert!(packet.wait(Some(Duration::from_millis(10)), false).is_ok());
    });
}

/// Takes datagrams for port 7000 until there are so many; how many were beside the ring when they were looked for.
fn take_in_turn(packet: &mut Packet, came: &mut Vec<Vec<u8>>, all: usize) -> usize {
    let (mut cut, mut memory) = (0, vec![0; 25_000]);
    while came.len() < all {
        let ours = packet.peek().and_then(|(front, len)| {
            assert!(front.bytes.len() >= 1514 && len > 1514, "{len}");
            (front.bytes[36..38] == [27, 88]).then(|| (front.bytes.to_vec(), len))
        });
        if let Some((front, len)) = ours {
            // Where the one part ends is another place each time.
            let at = (cut * 7001) % memory.len();
            let (first, second) = memory.split_at_mut(at);
            let split = packet.receive_split(HEAD, [&mut *first, &mut *second]).unwrap();
            assert_eq!(split, Split::Packet { len });
            assert_eq!(packet.packet(0).bytes, &front[..HEAD]);
            if len - HEAD <= first.len() + second.len() {
                came.push(memory[..len - HEAD].to_vec());
                assert!(came[came.len() - 1].starts_with(&front[HEAD..]), "what was shown");
            } else {
                packet.rejoin([first, second]);
                came.push(udp_payload(LINK, packet.packet(0).bytes, 7000).unwrap().to_vec());
            }
            cut += 1;
            continue;
        }
        let count = packet.receive().unwrap();
        for i in 0..count {
            came.extend(udp_payload(LINK, packet.packet(i).bytes, 7000).map(<[u8]>::to_vec));
        }
        if count == 0 {
            packet.wait(Some(Duration::from_millis(100)), false).unwrap();
        }
    }
    cut
}

#[test]
fn the_ring_goes_round_and_what_does_not_fit_is_counted() {
    let test = "the_ring_goes_round_and_what_does_not_fit_is_counted";
    in_namespace(test, Need::Namespace, VETH, || {
        // Four blocks: one is held, and what the kernels say to each other by themselves may close another meanwhile.
        let ring_bytes = 1 << 20;
        for (blocks, super_frames) in [(false, true), (true, true), (false, false), (true, false)] {
            let config = Config { blocks, super_frames, ring_bytes, ..Config::new("fwb") };
            let mut packet = Packet::open(&config).unwrap();
            if !blocks && (!super_frames || waits_beside(&packet)) {
                assert_eq!(packet.queue_packets(), 1024, "in two megabytes");
            }
            let socket = UdpSocket::bind("10.78.0.1:7001").unwrap();
            let payload = content(1400);
            for n in 0..1200u32 {
                let numbered = [&n.to_be_bytes(), &payload[4..]].concat();
                socket.send_to(&numbered, "10.78.0.2:7000").unwrap();
                receive_until(&mut packet, |packet| {
                    let got = udp_payload(LINK, packet.bytes, 7000);
                    got.is_some_and(|got| got == numbered)
                });
            }
            assert_eq!(packet.dropped(), 0);
            for _ in 0..2000 {
                socket.send_to(&payload, "10.78.0.2:7000").unwrap();
            }
            let mut got = 0;
            while packet.wait(Some(Duration::from_millis(100)), false).unwrap() {
                let count = packet.receive().unwrap();
                let ours = |i| udp_payload(LINK, packet.packet(i).bytes, 7000);
                got += (0..count).filter(|i| ours(*i).is_some()).count() as u64;
            }
            assert!(packet.dropped() >= 2000 - got && got < 2000, "{got} {}", packet.dropped());
        }
    });
}

#[test]
fn a_filter_lets_only_our_flows_come_and_can_be_changed() {
    let test = "a_filter_lets_only_our_flows_come_and_can_be_changed";
    in_namespace(test, Need::Namespace, VETH, || {
        let port = |port| Port { addr: [10, 78, 0, 2].into(), protocol: Protocol::Udp, port };
        // Two users of one interface, each with a port.
        let open = |n| {
            let flows = Flows::ports([port(n)]);
            Packet::open(&Config { flows, ..Config::new("fwb") }).unwrap()
        };
        let mut users = [open(7000), open(7100)];
        let socket = UdpSocket::bind("10.78.0.1:7001").unwrap();
        let all = [7000u16, 7100, 7200, 7300];
        let came = |users: &mut [Packet; 2]| {
            all.iter().for_each(|to| {
                socket.send_to(&to.to_be_bytes(), ("10.78.0.2", *to)).unwrap();
            });
            users.each_mut().map(|user| {
                let mut ports = Vec::new();
                while user.wait(Some(Duration::from_millis(50)), false).unwrap() {
                    let count = user.receive().unwrap();
                    for bytes in (0..count).map(|i| user.packet(i).bytes) {
                        let found = all.iter().find(|to| udp_payload(LINK, bytes, **to).is_some());
                        ports.push(found.copied().unwrap_or(0));
                    }
                }
                ports
            })
        };
        assert_eq!(came(&mut users), [vec![7000], vec![7100]]);
        users[1].steer(&Flows::ports([port(7200), port(7300)])).unwrap();
        assert_eq!(came(&mut users), [vec![7000], vec![7200, 7300]]);
        users[0].steer(&Flows::default()).unwrap();
        assert_eq!(came(&mut users), [vec![], vec![7200, 7300]]);
        users[1].steer(&Flows::everything()).unwrap();
        let mut all_of_it = came(&mut users)[1].clone();
        all_of_it.retain(|port| *port != 0);
        assert_eq!(all_of_it, all);
        let too_many = Flows::ports((0..3000).map(port));
        let error = users[0].steer(&too_many).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    });
}

#[test]
fn queues_of_a_group_split_the_flows() {
    in_namespace("queues_of_a_group_split_the_flows", Need::Namespace, VETH, || {
        let config = Config { fanout: Some(77), ..Config::new("fwb") };
        let mut queues = [Packet::open(&config).unwrap(), Packet::open(&config).unwrap()];
        let sockets: Vec<_> = (0..32).map(|_| UdpSocket::bind("10.78.0.1:0").unwrap()).collect();
        for _ in 0..3 {
            for socket in &sockets {
                let from = socket.local_addr().unwrap().port();
                socket.send_to(&from.to_be_bytes(), "10.78.0.2:7000").unwrap();
            }
        }
        let came = queues.each_mut().map(|queue| {
            let mut from = Vec::new();
            while queue.wait(Some(Duration::from_millis(50)), false).unwrap() {
                let count = queue.receive().unwrap();
                from.extend((0..count).filter_map(|i| {
                    udp_payload(LINK, queue.packet(i).bytes, 7000).map(<[u8]>::to_vec)
                }));
            }
            from
        });
        assert_eq!(came[0].len() + came[1].len(), 96);
        assert!(!came[0].is_empty() && !came[1].is_empty(), "all flows on one queue");
        assert!(came[0].iter().all(|from| !came[1].contains(from)), "a flow on both queues");
    });
}

#[test]
fn a_deleted_interface_fails() {
    in_namespace("a_deleted_interface_fails", Need::Namespace, VETH, || {
        let mut packet = Packet::open(&Config::new("fwb")).unwrap();
        sh("ip link del fwb");
        packet.wait(Some(Duration::from_secs(5)), false).unwrap_err();
        let header = [0; 60];
        packet.transmit(&[whole(&header, &[IoSlice::new(b"x")])]).unwrap_err();
        let error = Packet::open(&Config::new("fwb")).err().unwrap();
        assert!(error.to_string().contains("fwb"), "{error}");
    });
}
