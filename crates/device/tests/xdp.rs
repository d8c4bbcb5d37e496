//! AF_XDP against the kernel over a veth pair: packets both ways, steering, and what is left behind.

mod support;

use std::io::{ErrorKind, IoSlice};
use std::net::UdpSocket;
use std::time::Duration;

use fusewire_device::interface::flows::{Flows, Port, Protocol};
use fusewire_device::interface::packet::{self, Packet};
use fusewire_device::interface::xdp::{Config, Xdp, open_queues};
use fusewire_device::interface::{Change, Checksum, Interface};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use support::{VETH, content, exchange, receive_until, udp_payload, veth_flow, whole};

#[test]
fn packets_go_both_ways_in_every_mode() {
    in_namespace("packets_go_both_ways_in_every_mode", Need::Root, VETH, || {
        for (generic, copy, need_wakeup, busy_poll_us) in [
            (false, false, true, None),
            (false, true, false, None),
            (true, false, true, Some(20)),
            (true, false, false, None),
        ] {
            let config = Config { generic, copy, need_wakeup, busy_poll_us, ..Config::new("fwb") };
            let mut xdp = Xdp::open(&config).unwrap();
            let notes = xdp.capabilities().notes.join("; ");
            eprintln!("{notes}");
            assert_eq!(notes.contains("generic"), generic);
            exchange::datagrams(&mut xdp, veth_flow());
        }
        assert!(!sh("ip link show fwb").contains("xdp"), "the program is gone");
    });
}

#[test]
fn rings_go_round() {
    in_namespace("rings_go_round", Need::Root, VETH, || {
        let mut xdp = Xdp::open(&Config::new("fwb")).unwrap();
        let flow = veth_flow();
        let socket = UdpSocket::bind(flow.to).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut buffer = [0; 2000];
        // More than there are frames.
        for n in 0..250u8 {
            let payload = [&[n][..], &content(1000)].concat();
            let header = flow.udp(&payload);
            let pieces = [IoSlice::new(&payload[..300]), IoSlice::new(&payload[300..])];
            assert_eq!(xdp.transmit(&[whole(&header, &pieces); 20]).unwrap(), 20);
            for _ in 0..20 {
                let len = socket.recv(&mut buffer).unwrap();
                assert!(buffer[..len] == payload[..]);
            }
            let mut came = 0;
            for _ in 0..20 {
                socket.send_to(&payload, flow.from).unwrap();
            }
            receive_until(&mut xdp, |packet| {
                if let Some(got) = udp_payload(support::ETHERNET, packet.bytes, 7000) {
                    assert!(got == payload);
                    came += 1;
                }
                came == 20
            });
        }
        assert_eq!(xdp.dropped(), 0);
    });
}

#[test]
fn packets_of_several_frames_go_both_ways() {
    let jumbo = format!("{VETH}ip link set fwa mtu 9000\nip link set fwb mtu 9000");
    in_namespace("packets_of_several_frames_go_both_ways", Need::Root, &jumbo, || {
        let flow = veth_flow();
        let socket = UdpSocket::bind(flow.to).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut buffer = [0; 9000];
        for generic in [false, true] {
            let mut xdp = Xdp::open(&Config { generic, ..Config::new("fwb") }).unwrap();
            assert_eq!(xdp.capabilities().max_packet_bytes, 9014);
            assert!(xdp.capabilities().notes.join("; ").contains("comes in several"));
            // Around one, two and three frames; and often enough that every frame was used.
            for round in 0..400 {
                let len = [1, 3790, 4053, 4054, 4055, 8000, 8149, 8150, 8151, 8972][round % 10];
                let payload = content(len + round % 10);
                let payload = &payload[round % 10..];
                let header = flow.udp(payload);
                let pieces: Vec<_> = payload.chunks(1000 + round).map(IoSlice::new).collect();
                assert_eq!(xdp.transmit(&[whole(&header, &pieces); 3]).unwrap(), 3);
                for _ in 0..3 {
                    let got = socket.recv(&mut buffer).unwrap();
                    assert!(buffer[..got] == *payload, "{got} of {len} bytes");
                }
                for _ in 0..3 {
                    socket.send_to(payload, flow.from).unwrap();
                }
                let mut came = 0;
                receive_until(&mut xdp, |packet| {
                    if let Some(got) = udp_payload(support::ETHERNET, packet.bytes, 7000) {
                        assert!(got == payload, "{} of {len} bytes", got.len());
                        came += 1;
                    }
                    came == 3
                });
            }
            assert_eq!(xdp.dropped(), 0);
        }
        // Opened with small frames; the MTU grows afterwards.
        sh("ip link set fwb mtu 1500\nip link set fwa mtu 1500");
        let mut xdp = Xdp::open(&Config::new("fwb")).unwrap();
        sh("ip link set fwa mtu 9000\nip link set fwb mtu 9000");
        while xdp.poll_change() != Some(Change::Mtu(9000)) {
            assert!(xdp.wait(Some(Duration::from_secs(5)), false).unwrap());
        }
        let payload = content(8972);
        let header = flow.udp(&payload);
        assert_eq!(xdp.transmit(&[whole(&header, &[IoSlice::new(&payload)])]).unwrap(), 1);
        assert_eq!(socket.recv(&mut buffer).unwrap(), payload.len());
        socket.send_to(&payload, flow.from).unwrap();
        receive_until(&mut xdp, |packet| {
            udp_payload(support::ETHERNET, packet.bytes, 7000) == Some(&payload)
        });
    });
}

#[test]
fn our_flows_come_and_the_rest_stays_the_kernels() {
    let test = "our_flows_come_and_the_rest_stays_the_kernels";
    in_namespace(test, Need::Root, VETH, || {
        let port = |port| Port { addr: [10, 78, 0, 2].into(), protocol: Protocol::Udp, port };
        let flows = Flows::ports([port(7000), port(7100)]);
        let mut xdp = Xdp::open(&Config { flows, ..Config::new("fwb") }).unwrap();
        let socket = UdpSocket::bind("10.78.0.1:7001").unwrap();
        let came = |xdp: &mut Xdp, everything: bool| {
            let all = [7000u16, 7100, 7200];
            all.iter().for_each(|to| {
                socket.send_to(&to.to_be_bytes(), ("10.78.0.2", *to)).unwrap();
            });
            let mut ports = Vec::new();
            while xdp.wait(Some(Duration::from_millis(100)), false).unwrap() {
                for i in 0..xdp.receive().unwrap() {
                    let bytes = xdp.packet(i).bytes;
                    let ours = |to: &&u16| udp_payload(support::ETHERNET, bytes, **to).is_some();
                    match all.iter().find(ours) {
                        Some(to) => ports.push(*to),
                        // What the other host's IPv6 says by itself.
                        None => assert!(everything && bytes[12..14] == [0x86, 0xdd], "{bytes:?}"),
                    }
                }
            }
            ports
        };
        assert_eq!(came(&mut xdp, false), [7000, 7100]);
        xdp.steer(&Flows::ports([port(7200)])).unwrap();
        assert_eq!(came(&mut xdp, false), [7200]);
        xdp.steer(&Flows::everything()).unwrap();
        assert_eq!(came(&mut xdp, true), [7000, 7100, 7200]);
        // An address of our own: everything for it, and ARP.
        xdp.steer(&Flows::addrs([[10, 78, 0, 2].into()])).unwrap();
        assert_eq!(came(&mut xdp, false), [7000, 7100, 7200]);
        sh("ip neigh del 10.78.0.2 dev fwa");
        socket.send_to(b"who has it", "10.78.0.2:7000").unwrap();
        receive_until(&mut xdp, |packet| packet.bytes[12..14] == [8, 6]);
    });
}

#[test]
fn a_second_user_of_the_interface_is_refused_with_advice() {
    let test = "a_second_user_of_the_interface_is_refused_with_advice";
    in_namespace(test, Need::Root, VETH, || {
        let first = Xdp::open(&Config::new("fwb")).unwrap();
        let error = Xdp::open(&Config::new("fwb")).err().unwrap();
        assert!(error.kind() == ErrorKind::ResourceBusy, "{error}");
        assert!(error.to_string().contains("AF_PACKET"), "{error}");
        drop(first);
        assert_eq!(open_queues(&Config::new("fwb"), 1).unwrap().len(), 1);
        let error = Xdp::open(&Config { queue: 9, ..Config::new("fwb") }).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = Xdp::open(&Config::new("fwnone")).err().unwrap();
        assert!(error.to_string().contains("fwnone"));
        sh("ip link set fwa mtu 65000\nip link set fwb mtu 65000");
        let error = Xdp::open(&Config::new("fwb")).err().unwrap();
        assert!(error.kind() == ErrorKind::Unsupported, "{error}");
    });
}

#[test]
fn ipv6_is_steered_by_port_and_by_address() {
    in_namespace("ipv6_is_steered_by_port_and_by_address", Need::Root, VETH, || {
        let ours: std::net::IpAddr = "fd00:78::2".parse().unwrap();
        let port = |port| Port { addr: ours, protocol: Protocol::Udp, port };
        let xdp_flows = Flows::ports([port(7000)]);
        let mut xdp = Xdp::open(&Config { flows: xdp_flows, ..Config::new("fwb") }).unwrap();
        let flows = Flows::ports([port(7100)]);
        let mut packet =
            Packet::open(&packet::Config { flows, ..packet::Config::new("fwb") }).unwrap();
        let text = support::mac_of("fwb").map(|b| format!("{b:02x}")).join(":");
        sh(&format!("ip neigh add fd00:78::2 lladdr {text} dev fwa"));
        let socket = UdpSocket::bind("[fd00:78::1]:7001").unwrap();
        let came = |interface: &mut dyn Interface| {
            for to in [7000u16, 7100, 7200] {
                socket.send_to(b"six", (ours, to)).unwrap();
            }
            let mut ports = Vec::new();
            while interface.wait(Some(Duration::from_millis(100)), false).unwrap() {
                for i in 0..interface.receive().unwrap() {
                    let packet = interface.packet(i);
                    assert!(matches!(packet.checksum, Checksum::Partial { start: 54, offset: 6 }));
                    let port = [7000, 7100, 7200].into_iter().find(|port| {
                        udp_payload(support::ETHERNET, packet.bytes, *port) == Some(b"six")
                    });
                    ports.push(port.expect("nothing but our flows"));
                }
            }
            ports
        };
        assert_eq!(came(&mut xdp), [7000]);
        // The first went to XDP before: the socket of AF_PACKET sees what is left.
        assert_eq!(came(&mut packet), [7100, 7100]);
        xdp.receive().unwrap();
        xdp.steer(&Flows::addrs([ours])).unwrap();
        assert_eq!(came(&mut xdp), [7000, 7100, 7200]);
        // A solicitation for our address is ours too.
        sh("ip neigh del fd00:78::2 dev fwa");
        socket.send_to(b"who has it", (ours, 7000)).unwrap();
        receive_until(&mut xdp, |packet| packet.bytes[54] == 135);
    });
}

#[test]
fn more_flows_than_there_is_room_for_are_refused_and_the_others_stay() {
    let test = "more_flows_than_there_is_room_for_are_refused_and_the_others_stay";
    in_namespace(test, Need::Root, VETH, || {
        let of = |hosts: std::ops::Range<u8>| {
            let ports = move |host: u8| {
                let addr = [10, 78, 0, host].into();
                (0..=u16::MAX).map(move |port| Port { addr, protocol: Protocol::Udp, port })
            };
            Flows::ports(hosts.flat_map(ports))
        };
        let mut xdp = Xdp::open(&Config { flows: of(2..3), ..Config::new("fwb") }).unwrap();
        let error = xdp.steer(&of(2..7)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory, "{error}");
        assert!(error.to_string().contains("262144 flows"), "{error}");
        // What was not taken has left no trace: there is room for as much as before.
        xdp.steer(&of(2..6)).unwrap();
    });
}
