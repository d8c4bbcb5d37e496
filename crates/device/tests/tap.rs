//! TAP and TUN against the kernel: single packets and super-frames, both ways, and what comes when it goes.

mod support;

use std::io::IoSlice;
use std::net::UdpSocket;
use std::time::Duration;

use fusewire_device::interface::tap::{Config, Tap, open_queues};
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, Split, TxPacket};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use support::{Flow, exchange, mac_of, receive_until, udp_payload, whole};

const OURS: &str = "10.77.0.2:7000";

/// A device whose kernel end is 10.77.0.1, and a flow from us to a port there.
fn open(link: Link) -> (Tap, Flow) {
    let name = "fwtest%d".to_string();
    let tap = Tap::open(&Config { name, link, ..Config::default() }).unwrap();
    let name = tap.name();
    sh(&format!("ip addr add 10.77.0.1/24 dev {name}"));
    let mut flow = Flow::new(OURS, "10.77.0.1:7001");
    if let Some(mac) = tap.capabilities().mac {
        let text = mac.map(|b| format!("{b:02x}")).join(":");
        sh(&format!("ip neigh add 10.77.0.2 lladdr {text} dev {name}"));
        flow = flow.over(mac, mac_of(name));
    }
    (tap, flow)
}

#[test]
fn packets_and_super_frames_go_both_ways() {
    in_namespace("packets_and_super_frames_go_both_ways", Need::Tap, "", || {
        for link in [Link::Ethernet, Link::Ip] {
            let (mut tap, flow) = open(link);
            exchange::datagrams(&mut tap, flow);
            exchange::udp_super_frames(&mut tap, flow);
            exchange::tcp_super_frames(&mut tap, flow);
        }
    });
}

#[test]
fn packets_and_super_frames_are_cut_and_made_whole_again() {
    let test = "packets_and_super_frames_are_cut_and_made_whole_again";
    in_namespace(test, Need::Tap, "", || {
        for (link, head_len) in [(Link::Ethernet, 42), (Link::Ip, 28)] {
            let (mut tap, flow) = open(link);
            let socket = UdpSocket::bind(flow.to).unwrap();
            let payload: Vec<u8> = (0..1400u32).map(|i| (i * 7) as u8).collect();
            // More memory than the packet needs, less, and none: what is over stays with the device.
            for memory_len in [65_536, 1400, 1399, 100, 0] {
                socket.send_to(&payload, OURS).unwrap();
                let mut memory = vec![0; memory_len];
                let cut = memory_len / 3;
                let len = loop {
                    let (first, second) = memory.split_at_mut(cut);
                    match tap.receive_split(head_len, [first, second]).unwrap() {
                        // Whatever else the kernel says on an interface that is new is shorter.
                        Split::Packet { len } if len == head_len + payload.len() => break len,
                        Split::Nothing => drop(tap.wait(Some(Duration::from_secs(5)), false)),
                        other => assert_ne!(other, Split::Unsupported),
                    }
                };
                let placed = memory_len.min(len - head_len);
                assert_eq!(memory[..placed], payload[..placed]);
                assert_eq!(tap.packet(0).bytes.len(), head_len);
                tap.rejoin([&memory[..cut], &memory[cut..]]);
                let packet = tap.packet(0);
                assert_eq!(packet.bytes[head_len..], payload, "memory of {memory_len}");
                assert!(matches!(packet.checksum, Checksum::Partial { .. }));
            }
            let mut memory = [0; 8];
            while tap.receive_split(head_len, [&mut memory, &mut []]).unwrap() != Split::Nothing {}
        }
    });
}

#[test]
fn queues_share_an_interface_and_a_flow_keeps_to_one() {
    let test = "queues_share_an_interface_and_a_flow_keeps_to_one";
    in_namespace(test, Need::Tap, "", || {
        let config = Config { name: "fwtestq".into(), link: Link::Ip, ..Config::default() };
        let mut queues = open_queues(&config, 2).unwrap();
        assert_eq!((queues[0].name(), queues[1].name()), ("fwtestq", "fwtestq"));
        sh("ip addr add 10.77.0.1/24 dev fwtestq");
        let flow = Flow::new(OURS, "10.77.0.1:7001");
        let socket = UdpSocket::bind(flow.to).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let header = flow.udp(b"x");
        for q in [1, 0, 1] {
            let pieces = [IoSlice::new(b"x")];
            assert_eq!(queues[q].transmit(&[whole(&header, &pieces)]).unwrap(), 1);
            let (_, from) = socket.recv_from(&mut [0; 8]).unwrap();
            socket.send_to(b"answer", from).unwrap();
            receive_until(&mut queues[q], |packet| {
                udp_payload(Link::Ip, packet.bytes, 7000) == Some(b"answer")
            });
        }
    });
}

#[test]
fn a_deleted_interface_fails_and_a_downed_one_says_so() {
    let test = "a_deleted_interface_fails_and_a_downed_one_says_so";
    in_namespace(test, Need::Tap, "", || {
        let (mut tap, flow) = open(Link::Ip);
        let header = flow.udp(b"x");
        let pieces = [IoSlice::new(b"x")];
        sh(&format!("ip link set {} down", tap.name()));
        let error = tap.transmit(&[whole(&header, &pieces)]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NetworkDown);
        sh(&format!("ip link set {} up", tap.name()));
        assert_eq!(tap.transmit(&[whole(&header, &pieces)]).unwrap(), 1);
        sh(&format!("ip link del {}", tap.name()));
        assert!(tap.wait(Some(Duration::from_secs(5)), false).unwrap(), "it wakes who waits");
        tap.receive().unwrap_err();
        tap.transmit(&[whole(&header, &pieces)]).unwrap_err();
    });
}

#[test]
fn a_persistent_interface_stays_and_another_does_not() {
    let test = "a_persistent_interface_stays_and_another_does_not";
    in_namespace(test, Need::Tap, "", || {
        for persistent in [true, false] {
            let name = format!("fwtest{persistent}");
            let config = Config { name, persistent, mtu: Some(9000), ..Config::default() };
            let tap = Tap::open(&config).unwrap();
            assert_eq!(tap.capabilities().mtu, 9000);
            drop(tap);
            let there = sh("ip -o link").contains(&config.name);
            assert_eq!(there, persistent);
            if persistent {
                drop(Tap::open(&config).unwrap());
                let error = Tap::open(&Config { link: Link::Ip, ..config }).err().unwrap();
                assert!(error.to_string().contains("of another kind"), "{error}");
            }
        }
    });
}

#[test]
fn what_was_not_offered_is_refused() {
    in_namespace("what_was_not_offered_is_refused", Need::Tap, "", || {
        let (mut tap, flow) = open(Link::Ip);
        let most = tap.capabilities().udp_segments_max();
        let pieces = [IoSlice::new(&[7; 200])];
        for (segments, taken) in [(most, true), (most + 1, false)] {
            let mut header = flow.udp(&[7; 200][..segments]);
            let checksum = flow.partial(&mut header, segments, 17);
            let segmentation = Segmentation::Udp { segment_len: 1 };
            let pieces = [IoSlice::new(&pieces[0][..segments])];
            let packet = TxPacket { header: &header, payload: &pieces, checksum, segmentation };
            assert_eq!(tap.transmit(&[packet]).is_ok(), taken, "{segments} datagrams");
        }
        let config = Config { name: "fwtest%d".into(), offload: false, ..Config::default() };
        let mut tap = Tap::open(&config).unwrap();
        let partial = Checksum::Partial { start: 34, offset: 6 };
        let segmentation = Segmentation::Udp { segment_len: 10 };
        for packet in [
            TxPacket { checksum: partial, ..whole(&[0; 60], &[]) },
            TxPacket { segmentation, ..whole(&[0; 60], &[]) },
            whole(&[], &[]),
            whole(&[0; 1515], &[]),
        ] {
            let error = tap.transmit(&[packet]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        }
        assert_eq!(tap.transmit(&[whole(&[0; 1514], &[])]).unwrap(), 1);
    });
}
