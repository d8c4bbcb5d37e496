//! TAP and TUN against the kernel: single packets and super-frames, both ways, and what comes when it goes.

mod support;

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use etherparse::{TcpHeader, TransportSlice};
use fusewire_device::interface::tap::{Config, Tap, open_queues};
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, TxPacket};
use fusewire_device::udp::{self, Udp};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use support::{Flow, content, receive_until, slice, udp_payload, whole};

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
        let kernel = sh(&format!("ip -o link show {name}"));
        let kernel = kernel.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
        let mut octets = kernel.split(':').map(|b| u8::from_str_radix(b, 16).unwrap());
        flow = flow.over(mac, std::array::from_fn(|_| octets.next().unwrap()));
    }
    (tap, flow)
}

#[test]
fn datagrams_go_both_ways_alone() {
    in_namespace("datagrams_go_both_ways_alone", Need::Namespace, "", || {
        for link in [Link::Ethernet, Link::Ip] {
            let (mut tap, flow) = open(link);
            let socket = UdpSocket::bind(flow.to).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let (payload, mut buffer) = (content(1400), [0; 2000]);
            let header = flow.udp(&payload);
            let pieces: Vec<_> = payload.chunks(100).map(IoSlice::new).collect();
            assert_eq!(tap.transmit(&[whole(&header, &pieces); 3]).unwrap(), 3);
            for _ in 0..3 {
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..len], from), (&payload[..], flow.from.into()));
            }
            for len in [1, 100, 1400] {
                socket.send_to(&payload[..len], flow.from).unwrap();
            }
            let mut lens = Vec::new();
            receive_until(&mut tap, |packet| {
                if let Some(got) = udp_payload(link, packet.bytes, 7000) {
                    assert_eq!(got, &payload[..got.len()]);
                    assert!(matches!(packet.checksum, Checksum::Partial { offset: 6, .. }));
                    lens.push(got.len());
                }
                lens.len() == 3
            });
            assert_eq!(lens, [1, 100, 1400]);
        }
    });
}

#[test]
fn udp_super_frames_go_both_ways() {
    in_namespace("udp_super_frames_go_both_ways", Need::Namespace, "", || {
        for link in [Link::Ethernet, Link::Ip] {
            let (mut tap, flow) = open(link);
            if !tap.capabilities().udp_segmentation {
                return eprintln!("skipped: {:?}", tap.capabilities().notes);
            }
            let mut socket = Udp::bind(flow.to.into(), &udp::Config::default()).unwrap();
            let payload = content(50 * 1000 + 10);
            let mut header = flow.udp(&payload);
            let checksum = flow.partial(&mut header, payload.len(), 17);
            let segmentation = Segmentation::Udp { segment_len: 1000 };
            let pieces = [IoSlice::new(&payload[..777]), IoSlice::new(&payload[777..])];
            let packet = TxPacket { header: &header, payload: &pieces, checksum, segmentation };
            assert_eq!(tap.transmit(&[packet]).unwrap(), 1);
            let (mut batch, mut lens, mut all) = (RxBatch::new(4), Vec::new(), Vec::new());
            while lens.len() < 51 {
                assert!(socket.wait(Some(Duration::from_secs(5)), false).unwrap(), "{lens:?}");
                socket.receive(&mut batch).unwrap();
                for frame in batch.iter().flat_map(|s| s.frames()) {
                    lens.push(frame.len());
                    all.extend_from_slice(frame);
                }
            }
            assert!(lens[..50].iter().all(|len| *len == 1000) && lens[50] == 10, "{lens:?}");
            assert!(all == payload);

            let frame = |bytes| TxFrame {
                peer: flow.from.into(),
                header: &[],
                payload: bytes,
                ecn: Ecn::NotEct,
            };
            let frames: Vec<_> = payload.chunks(1000).map(frame).collect();
            assert_eq!(socket.transmit(&frames).unwrap(), 51);
            let (mut all, mut largest) = (Vec::new(), 0);
            receive_until(&mut tap, |packet| {
                if let Some(got) = udp_payload(link, packet.bytes, 7000) {
                    assert_eq!(packet.segmentation, Segmentation::Udp { segment_len: 1000 });
                    all.extend_from_slice(got);
                    largest = largest.max(got.len());
                }
                all.len() >= payload.len()
            });
            assert!(all == payload && largest > 20_000, "{largest}");
        }
    });
}

/// Opens a connection from the kernel to us by hand, and returns it with our next sequence numbers.
fn accept(tap: &mut Tap, flow: &Flow) -> (TcpStream, u32, u32) {
    let (to, link) = (flow.from, tap.capabilities().link);
    let thread = std::thread::spawn(move || TcpStream::connect(to).unwrap());
    let mut peer = (0, 0);
    receive_until(tap, |packet| {
        let transport = slice(link, packet.bytes).and_then(|s| s.transport);
        let Some(TransportSlice::Tcp(tcp)) = transport else { return false };
        peer = (tcp.source_port(), tcp.sequence_number().wrapping_add(1));
        tcp.syn()
    });
    let flow = Flow { to: std::net::SocketAddrV4::new(*flow.to.ip(), peer.0), ..*flow };
    let mut header = TcpHeader::new(0, 0, 1000, 65_535);
    (header.syn, header.ack, header.acknowledgment_number) = (true, true, peer.1);
    header.set_options(&[etherparse::TcpOptionElement::MaximumSegmentSize(1460)]).unwrap();
    assert_eq!(tap.transmit(&[whole(&flow.tcp(header, &[]), &[])]).unwrap(), 1);
    (thread.join().unwrap(), 1001, peer.1)
}

#[test]
fn tcp_super_frames_go_both_ways() {
    in_namespace("tcp_super_frames_go_both_ways", Need::Namespace, "", || {
        for link in [Link::Ethernet, Link::Ip] {
            let (mut tap, flow) = open(link);
            let _listener = TcpListener::bind(flow.to).unwrap();
            let (mut stream, ours, theirs) = accept(&mut tap, &flow);
            let std::net::SocketAddr::V4(peer) = stream.local_addr().unwrap() else { panic!() };
            let flow = Flow { to: peer, ..flow };
            let payload = content(20 * 1460);
            let mut header = TcpHeader::new(0, 0, ours, 65_535);
            (header.ack, header.acknowledgment_number) = (true, theirs);
            let mut header = flow.tcp(header, &payload);
            let checksum = flow.partial(&mut header, payload.len(), 6);
            let segmentation = Segmentation::Tcp { segment_len: 1460, ecn: false };
            let pieces = [IoSlice::new(&payload)];
            let packet = TxPacket { header: &header, payload: &pieces, checksum, segmentation };
            assert_eq!(tap.transmit(&[packet]).unwrap(), 1);
            let mut got = vec![0; payload.len()];
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.read_exact(&mut got).unwrap();
            assert!(got == payload);

            stream.write_all(&payload[..10_000]).unwrap();
            let (mut all, mut largest) = (Vec::new(), 0);
            receive_until(&mut tap, |packet| {
                let transport = slice(link, packet.bytes).and_then(|s| s.transport);
                let Some(TransportSlice::Tcp(tcp)) = transport else { return false };
                if tcp.payload().len() > 1460 {
                    let whole = Segmentation::Tcp { segment_len: 1460, ecn: false };
                    assert_eq!(packet.segmentation, whole);
                }
                largest = largest.max(tcp.payload().len());
                all.extend_from_slice(tcp.payload());
                all.len() >= 10_000
            });
            assert!(all == payload[..10_000] && largest > 1460, "{largest}");
        }
    });
}

#[test]
fn queues_share_an_interface_and_a_flow_keeps_to_one() {
    let test = "queues_share_an_interface_and_a_flow_keeps_to_one";
    in_namespace(test, Need::Namespace, "", || {
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
    in_namespace(test, Need::Namespace, "", || {
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
    in_namespace(test, Need::Namespace, "", || {
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
    in_namespace("what_was_not_offered_is_refused", Need::Namespace, "", || {
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
