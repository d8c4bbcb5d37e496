//! ICMP errors: believed when they quote what is under way, and counted when they do not (RFC 5927, section 4).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_device::interface::Interface;
use fusewire_device::interface::memory::Memory;
use fusewire_device::{Ecn, TxFrame};
use fusewire_stack::ip::net::{Cause, Packet};
use fusewire_stack::ip::{Config, Error, Event, Failure, SocketId, Stack};
use fusewire_transport::tcp::State;
use fusewire_wire::icmp::{self, Message};
use fusewire_wire::tcp::{Flags, Header};

use crate::bounds::{alone, drive, segment, send, via};
use crate::net::addr;

/// The packet that the stack has sent last.
fn sent(other: &mut Memory) -> Vec<u8> {
    let count = other.receive().unwrap();
    assert!(count > 0, "it sends something");
    other.packet(count - 1).bytes.to_vec()
}

/// An error from a router about the packet that begins with `quote`.
fn error(message: Message, quote: &[u8]) -> Vec<u8> {
    let via = via("192.0.2.99".parse().unwrap());
    let mut body = [&[0; icmp::HEADER_LEN], quote].concat();
    message.emit(None, &mut body);
    let mut out = [0; 200];
    let start = via.emit(&Packet::new(icmp::NUMBER, body.len()), &mut out);
    [&out[..start], &body].concat()
}

const NOBODY: Message = Message::Unreachable { code: icmp::unreachable::PORT };
const NO_PROTOCOL: Message = Message::Unreachable { code: icmp::unreachable::PROTOCOL };
const NARROW: Message = Message::TooBig { mtu: 700 };

#[test]
fn an_error_ends_an_open_only_when_it_quotes_its_syn() {
    let (mut stack, mut other, now) = alone(Config::default());
    let remote = SocketAddr::new(IpAddr::from([192, 0, 2, 9]), 80);
    let id = stack.tcp_connect(now, remote).unwrap();
    drive(&mut stack, now);
    let syn = sent(&mut other);
    // The sequence number, the port there, our port.
    for (n, at) in [20 + 4, 20 + 3, 20 + 1].into_iter().enumerate() {
        let mut forged = syn[..28].to_vec();
        forged[at] ^= 0x40;
        send(&mut other, &error(NOBODY, &forged));
        drive(&mut stack, now);
        assert_eq!(stack.counters().drops.of(fusewire_stack::Cause::IcmpStray), n as u64 + 1);
        assert_eq!(stack.poll_event(), None);
    }
    send(&mut other, &error(NOBODY, &syn[..28]));
    drive(&mut stack, now);
    assert_eq!(stack.poll_event(), Some((id, Event::Closed)));
    assert_eq!(stack.take_error(id), Ok(Some(Error::Refused)));
    assert_eq!(stack.counters().drops.of(fusewire_stack::Cause::IcmpStray), 3);
}

#[test]
fn a_path_is_narrowed_by_what_quotes_a_packet_of_ours() {
    let (mut stack, mut other, now) = alone(Config::default());
    let remote = SocketAddr::new(IpAddr::from([192, 0, 2, 9]), 80);
    let socket = stack.udp_bind(SocketAddr::new(addr(false, 1), 0)).unwrap();
    stack.udp_connect(socket, Some(remote)).unwrap();
    assert_eq!(stack.udp_send(now, socket, &[1; 1400], None).unwrap(), Ok(true));
    drive(&mut stack, now);
    let datagram = sent(&mut other);
    let mut forged = datagram[..28].to_vec();
    forged[20] ^= 0x40;
    send(&mut other, &error(NARROW, &forged));
    drive(&mut stack, now);
    assert_eq!(
        stack.counters().drops.of(fusewire_stack::Cause::IcmpStray),
        1,
        "from no port of ours"
    );
    assert_eq!(stack.udp_send(now, socket, &[1; 1400], None).unwrap(), Ok(true));
    drive(&mut stack, now);
    assert_eq!(sent(&mut other).len(), 1428);
    send(&mut other, &error(NARROW, &datagram[..28]));
    drive(&mut stack, now);
    assert_eq!(stack.udp_send(now, socket, &[1; 1400], None).unwrap(), Ok(true));
    drive(&mut stack, now);
    assert!(sent(&mut other).len() <= 700, "in fragments");
    send(&mut other, &error(NOBODY, &datagram[..28]));
    drive(&mut stack, now);
    assert_eq!(stack.udp_recv(socket, &mut [0; 8]), Err(Error::Refused));
    assert_eq!(stack.counters().drops.of(fusewire_stack::Cause::IcmpStray), 1);
}

#[test]
fn a_too_big_that_quotes_udp_narrows_nothing_for_tcp_and_counts_only_for_recent_peers() {
    let (mut stack, mut other, now) = alone(Config::default());
    let socket = stack.udp_bind(SocketAddr::new(addr(false, 1), 5353)).unwrap();
    let [peer, elsewhere] = [80, 81].map(|port| SocketAddr::from(([192, 0, 2, 9], port)));
    let send_large = |stack: &mut Stack, other: &mut Memory, at: Instant, to| {
        assert_eq!(stack.udp_send(at, socket, &[1; 1400], Some(to)).unwrap(), Ok(true));
        drive(stack, at);
        sent(other)
    };
    let datagram = send_large(&mut stack, &mut other, now, peer);
    // A datagram that was never sent: to another port, and to the same one long after the last.
    let mut forged = datagram[..28].to_vec();
    forged[23] ^= 1;
    send(&mut other, &error(NARROW, &forged));
    drive(&mut stack, now);
    let late = now + Duration::from_secs(11);
    send(&mut other, &error(NARROW, &datagram[..28]));
    drive(&mut stack, late);
    assert_eq!(stack.counters().drops.of(fusewire_stack::Cause::IcmpStray), 2);
    let datagram = send_large(&mut stack, &mut other, late, peer);
    assert_eq!(datagram.len(), 1428);
    // One that was sent narrows the path for every socket of UDP, and for no other.
    send(&mut other, &error(NARROW, &datagram[..28]));
    drive(&mut stack, late);
    assert!(send_large(&mut stack, &mut other, late, elsewhere).len() <= 700, "in fragments");
    assert_eq!(stack.layer().mtu_to(peer.ip()), 1500);
    assert_eq!(stack.layer().udp_mtu_to(peer.ip()), 700);
}

#[test]
fn a_transport_on_top_finds_its_paths_itself_and_hears_of_each_peer() {
    let (mut stack, mut other, now) = alone(Config::default());
    let socket = stack.udp_bind(SocketAddr::new(addr(false, 1), 7)).unwrap();
    stack.udp_carry(socket).unwrap();
    let peers = [9, 10].map(|last| SocketAddr::from(([192, 0, 2, last], 80)));
    let bytes = [1; 1473];
    let frame = |peer, len| TxFrame {
        peer,
        header: &bytes[..20],
        payload: &bytes[20..len],
        ecn: Ecn::Ect0,
    };
    let frames = [frame(peers[0], 1472), frame(peers[1], 1473), frame(peers[1], 1472)];
    let sum = |frame: &TxFrame<'_>| Sum::of(&bytes[..frame.len()]);
    assert_eq!(stack.udp_send_frames(now, socket, &frames, sum).unwrap(), Ok(3));
    let error_of = |error| Some(Failure { peer: peers[1], error });
    let too_long = Error::TooLong { len: 1473, max: 1472 };
    assert_eq!(stack.udp_poll_failure(socket), error_of(too_long));
    assert_eq!(other.receive().unwrap(), 2);
    let datagrams = [0, 1].map(|at| other.packet(at).bytes.to_vec());
    assert!(datagrams.iter().all(|datagram| datagram.len() == 1500 && datagram[1] == 2));
    // Anybody can say it, and who probes does not need to hear it.
    send(&mut other, &error(NARROW, &datagrams[1][..28]));
    drive(&mut stack, now);
    assert_eq!(stack.udp_send_frames(now, socket, &frames[2..], sum).unwrap(), Ok(1));
    assert_eq!(sent(&mut other).len(), 1500);
    send(&mut other, &error(NOBODY, &datagrams[1][..28]));
    drive(&mut stack, now);
    assert_eq!(stack.udp_poll_failure(socket), error_of(Error::Refused));
    assert_eq!(stack.udp_poll_failure(socket), None);
    assert_eq!(stack.udp_recv(socket, &mut [0; 8]), Ok(None), "the other peer is there");
    assert_eq!(stack.counters().drops.of(fusewire_stack::Cause::IcmpStray), 0);
}

#[test]
fn what_is_said_of_xtp_is_believed_when_it_quotes_a_key_that_left() {
    let (mut stack, mut other, now) = alone(Config::default());
    let own = addr(false, 1);
    let socket = stack.xtp_bind(own).unwrap();
    let in_use = Err(Error::InUse(SocketAddr::new(own, 0)));
    assert_eq!(stack.xtp_bind(own), in_use, "one has all of it");
    let peers = [9, 10].map(|last| SocketAddr::from(([192, 0, 2, last], 0)));
    let bytes: Vec<u8> = (0..1481u32).map(|at| (at * 7 + 1) as u8).collect();
    let frame = |peer, len| TxFrame {
        peer,
        header: &bytes[..32],
        payload: &bytes[32..len],
        ecn: Ecn::NotEct,
    };
    let sum = |_: &TxFrame<'_>| panic!("nobody needs it");
    let frames = [frame(peers[0], 1480), frame(peers[0], 1481)];
    assert_eq!(stack.udp_send_frames(now, socket, &frames, sum).unwrap(), Ok(2));
    let too_long = |max| Failure { peer: peers[0], error: Error::TooLong { len: max + 1, max } };
    assert_eq!(stack.udp_poll_failure(socket), Some(too_long(1480)));
    let packet = sent(&mut other);
    assert_eq!((packet.len(), packet[9]), (1500, 36));
    assert!(packet[20..] == bytes[..1480], "IP's payload is the packet");
    // Another key, another peer: they are nobody's.
    for (n, at) in [20, 27, 19].into_iter().enumerate() {
        let mut forged = packet[..28].to_vec();
        forged[at] ^= 1;
        for message in [NARROW, NO_PROTOCOL] {
            send(&mut other, &error(message, &forged));
            drive(&mut stack, now);
        }
        let stray = stack.counters().drops.of(fusewire_stack::Cause::IcmpStray);
        assert_eq!(stray, 2 * (n as u64 + 1));
    }
    assert_eq!(stack.udp_poll_failure(socket), None);
    send(&mut other, &error(NO_PROTOCOL, &packet[..28]));
    drive(&mut stack, now);
    let refused = Failure { peer: peers[0], error: Error::Refused };
    assert_eq!(stack.udp_poll_failure(socket), Some(refused));
    send(&mut other, &error(NARROW, &packet[..28]));
    drive(&mut stack, now);
    let frames = [frame(peers[0], 681), frame(peers[0], 680), frame(peers[1], 1480)];
    assert_eq!(stack.udp_send_frames(now, socket, &frames, sum).unwrap(), Ok(3));
    assert_eq!(stack.udp_poll_failure(socket), Some(too_long(680)));
    assert_eq!(other.receive().unwrap(), 2, "the other path is as it was");
    let counters = stack.counters();
    assert_eq!((counters.xtp_packets_sent, counters.udp_messages_sent), (3, 0));
    // Whoever has none of it any more does not speak it.
    let via = via("192.0.2.9".parse().unwrap());
    let mut packet = [0; 80];
    let start = via.emit(&Packet::new(36, 40), &mut packet);
    send(&mut other, &packet[..start + 40]);
    drive(&mut stack, now);
    assert_eq!(stack.counters().xtp_packets_received, 1);
    stack.close(now, socket).unwrap();
    send(&mut other, &packet[..start + 40]);
    drive(&mut stack, now);
    assert_eq!(stack.layer().counters().drops.of(Cause::ProtocolUnknown), 1);
    assert_eq!(sent(&mut other)[20..22], [3, 2], "protocol unreachable");
}

/// A listening stack, and a peer whose handshake is done; the stack has sent the peer some bytes, which are
/// the packet here.
fn open() -> (Stack, Memory, Instant, SocketId, Vec<u8>) {
    let (mut stack, mut other, now) = alone(Config::default());
    let listener = stack.tcp_listen(SocketAddr::new(addr(false, 1), 80), 8).unwrap();
    let syn = Header {
        src_port: 4000,
        dst_port: 80,
        seq: Seq(1000),
        flags: Flags::SYN,
        window: 60_000,
        ..Header::default()
    };
    send(&mut other, &segment(addr(false, 0), &syn, &[], false));
    drive(&mut stack, now);
    let syn_ack = Header::parse(&sent(&mut other)[20..]).unwrap();
    let ack = Header { seq: Seq(1001), ack: syn_ack.seq + 1, flags: Flags::ACK, ..syn };
    send(&mut other, &segment(addr(false, 0), &ack, &[], false));
    drive(&mut stack, now);
    let (id, _) = stack.tcp_accept(listener).unwrap().unwrap();
    stack.tcp_write(id, &[7; 1000]).unwrap();
    drive(&mut stack, now);
    let data = sent(&mut other);
    (stack, other, now, id, data)
}

#[test]
fn nothing_that_a_router_says_ends_an_open_connection() {
    let (mut stack, mut other, mut now, id, data) = open();
    let codes = [0, 1, 2, 3, 5, 13];
    let unreachable = codes.map(|code| Message::Unreachable { code });
    let others = [
        Message::TimeExceeded { code: icmp::time_exceeded::TTL },
        Message::ParameterProblem { code: 0, pointer: 9 },
        // Source quench; a redirect.
        Message::Other { kind: 4, code: 0, rest: [0; 4] },
        Message::Other { kind: 5, code: 1, rest: [192, 0, 2, 98] },
    ];
    for message in others.into_iter().chain(unreachable) {
        send(&mut other, &error(message, &data[..28]));
        drive(&mut stack, now);
        assert_eq!(stack.tcp_state(id), Ok(State::Established), "{message:?}");
        assert_eq!(stack.take_error(id), Ok(None), "{message:?}");
    }
    assert_eq!(stack.counters().drops.of(fusewire_stack::Cause::IcmpStray), 0);
    // When nobody answers any more, the application hears what a router said (RFC 5461).
    let end = now + Duration::from_secs(3600);
    while stack.tcp_state(id).is_ok_and(|state| state != State::Closed) && now < end {
        now = stack.poll_timeout().unwrap_or(end).max(now + Duration::from_millis(1));
        drive(&mut stack, now);
    }
    assert_eq!(stack.take_error(id), Ok(Some(Error::Unreachable)));
}

#[test]
fn tcp_is_spoken_with_one_alone() {
    let (mut stack, mut other, now) = alone(Config::default());
    stack.tcp_listen(SocketAddr::new(addr(false, 1), 80), 8).unwrap();
    for to in ["255.255.255.255", "192.0.2.255", "239.1.2.3", "ff02::1", "0.0.0.0"] {
        let to: IpAddr = to.parse().unwrap();
        let refused = stack.tcp_connect(now, SocketAddr::new(to, 80));
        assert_eq!(refused, Err(Error::Unreachable), "{to}");
    }
    for to in ["255.255.255.255", "192.0.2.255", "224.0.0.1"] {
        let syn = Header { src_port: 4000, dst_port: 80, flags: Flags::SYN, ..Header::default() };
        let mut packet = segment(addr(false, 0), &syn, &[], false);
        let to: std::net::Ipv4Addr = to.parse().unwrap();
        // The checksums of IP and of TCP follow the address.
        let moved = Sum::of(&addr_v4(1)).folded();
        let now_to = Sum::of(&to.octets()).folded();
        packet[16..20].copy_from_slice(&to.octets());
        for at in [10, 36] {
            let old = u16::from_be_bytes([packet[at], packet[at + 1]]);
            let sum = Sum::from_folded(!old) + Sum::from_folded(!moved) + Sum::from_folded(now_to);
            packet[at..at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
        }
        send(&mut other, &packet);
        drive(&mut stack, now);
    }
    assert_eq!(stack.layer().counters().drops.of(Cause::TcpToGroup), 3);
    assert_eq!(other.receive().unwrap(), 0, "nobody is answered");
}

fn addr_v4(which: usize) -> [u8; 4] {
    match addr(false, which) {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("IPv4 was asked for"),
    }
}
