//! Packets to ourselves: at once, without the interface, and only where they were sent by us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fusewire_base::Instant;
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{Interface, Link};
use fusewire_stack::ip::net::{Config as NetConfig, Fragment, MacPair, NoPath, Packet, Via};
use fusewire_stack::ip::{Config, Error, Host, HostConfig, SocketId, Stack, TcpStream};

use crate::net::{addr, kinds, net_config, pattern};

const NOW: Instant = Instant::from_ms(5);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}

/// A stack that has a loopback, and the other end of its interface, silent.
fn looping(pair_of: Pair, config: Config) -> (Stack, Memory) {
    let (a, mut b) = pair(pair_of).unwrap();
    let net = net_config(&a, 0);
    let config = Config { loopback: true, ..config };
    let mut stack = Stack::new(Box::new(a), net, config, [7; 32], NOW);
    stack.poll(NOW).unwrap();
    // It has announced its addresses.
    while b.receive().unwrap() > 0 {}
    (stack, b)
}

fn connected(stack: &mut Stack, to: SocketAddr) -> (SocketId, SocketId) {
    let listener = stack.tcp_listen(to, 8).unwrap();
    let client = stack.tcp_connect(NOW, to).unwrap();
    stack.transmit(NOW).unwrap();
    let (server, peer) = stack.tcp_accept(listener).unwrap().expect("at once");
    assert_eq!(peer, stack.local_addr(client).unwrap());
    stack.close(NOW, listener).unwrap();
    (client, server)
}

/// Sends `len` bytes without that time passes.
fn transfer(stack: &mut Stack, (from, to): (SocketId, SocketId), len: usize) {
    let bytes = pattern(3, 0, len);
    let (mut written, mut read, mut out) = (0, 0, vec![0; 70_000]);
    while read < len {
        let count = stack.tcp_write(from, &bytes[written..]).unwrap();
        written += count;
        stack.transmit(NOW).unwrap();
        let before = read;
        while let Some(got) = stack.tcp_read(to, &mut out).unwrap() {
            assert!(out[..got] == bytes[read..read + got], "at {read}");
            read += got;
        }
        stack.transmit(NOW).unwrap();
        assert!(read > before || count > 0, "it stands at {read} of {len}");
    }
}

#[test]
fn tcp_to_ourselves_needs_no_time_and_no_interface() {
    for kind in kinds() {
        let (link, checksum, segmentation) = (kind.link, kind.checksum, kind.segmentation);
        let config = Pair { link, checksum, segmentation, ..Pair::default() };
        let (mut stack, mut wire) = looping(config, Config::default());
        let own = addr(kind.v6, 0);
        let local = if kind.v6 { V6 } else { V4 };
        let other = if kind.v6 { addr(true, 0) } else { Ipv4Addr::new(127, 9, 9, 9).into() };
        for to in [own, local, other] {
            let (client, server) = connected(&mut stack, at(to, 80));
            transfer(&mut stack, (client, server), 3_000_000);
            transfer(&mut stack, (server, client), 1_000_000);
            for id in [client, server] {
                stack.close(NOW, id).unwrap();
            }
            stack.transmit(NOW).unwrap();
        }
        assert_eq!(wire.receive().unwrap(), 0, "{kind:?}");
        assert_eq!(stack.layer().counters().drops.total(), 0, "{kind:?}");
    }
}

#[test]
fn who_names_no_address_means_ourselves() {
    let (mut stack, _wire) = looping(Pair::default(), Config::default());
    for (any, local) in
        [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), V4), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), V6)]
    {
        let listener = stack.tcp_listen(at(any, 80), 1).unwrap();
        let client = stack.tcp_connect(NOW, at(any, 80)).unwrap();
        stack.transmit(NOW).unwrap();
        let (server, _) = stack.tcp_accept(listener).unwrap().expect("at once");
        assert_eq!(stack.tcp_tuple(client).unwrap().remote, at(local, 80));
        assert_eq!(stack.local_addr(server).unwrap(), at(local, 80));
        stack.close(NOW, listener).unwrap();
    }
}

#[test]
fn nobody_there_is_said_at_once_however_often() {
    let (mut stack, _wire) = looping(Pair::default(), Config::default());
    for port in 1000..2000 {
        let to = if port % 2 == 0 { V4 } else { V6 };
        let client = stack.tcp_connect(NOW, at(to, port)).unwrap();
        stack.transmit(NOW).unwrap();
        assert_eq!(stack.take_error(client).unwrap(), Some(Error::Refused), "{port}");
        stack.close(NOW, client).unwrap();
        let udp = stack.udp_bind(at(to, 0)).unwrap();
        stack.udp_connect(udp, Some(at(to, port))).unwrap();
        assert!(stack.udp_send(NOW, udp, b"?", None).unwrap().unwrap());
        stack.transmit(NOW).unwrap();
        assert_eq!(stack.take_error(udp).unwrap(), Some(Error::Refused), "{port}");
        stack.close(NOW, udp).unwrap();
    }
}

#[test]
fn datagrams_to_ourselves_are_whole_and_bounded() {
    for kind in kinds() {
        let (link, checksum, segmentation) = (kind.link, kind.checksum, kind.segmentation);
        let config = Pair { link, checksum, segmentation, ..Pair::default() };
        let limits = Config { udp_queue_bytes: 4 << 20, ..Config::default() };
        let (mut stack, mut wire) = looping(config, limits);
        let to = if kind.v6 { V6 } else { V4 };
        let server = stack.udp_bind(at(to, 53)).unwrap();
        let client = stack.udp_bind(at(if kind.v6 { V6 } else { V4 }, 0)).unwrap();
        let from = stack.local_addr(client).unwrap();
        let longest = if kind.v6 { 65_527 } else { 65_507 };
        let (message, mut out) = (pattern(9, 0, longest), vec![0; 65_536]);
        for len in [0, 1, 1400, 9000, longest] {
            let sent = stack.udp_send(NOW, client, &message[..len], Some(at(to, 53)));
            assert!(sent.unwrap().unwrap());
            stack.transmit(NOW).unwrap();
            let got = stack.udp_recv(server, &mut out).unwrap().expect("at once");
            assert_eq!((got.len, got.from, got.to), (len, from, to));
            assert!(out[..len] == message[..len]);
        }
        let many =
            stack.udp_send_batch(NOW, client, &message[..50_000], 100, Some(at(to, 53))).unwrap();
        assert_eq!(many.unwrap(), 500);
        stack.transmit(NOW).unwrap();
        let mut count = 0;
        while let Some(got) = stack.udp_recv(server, &mut out).unwrap() {
            assert!(out[..got.len] == message[count * 100..][..100]);
            count += 1;
        }
        assert_eq!(count, 500);
        // Nobody takes them: a device that is full, until they are taken.
        let mut taken = 0;
        while stack.udp_send(NOW, client, &message[..60_000], Some(at(to, 53))).unwrap().unwrap() {
            taken += 1;
            assert!(taken < 100, "it has a bound");
        }
        assert!(stack.has_unread() && stack.poll_timeout() == Some(Instant::ZERO));
        stack.poll(NOW).unwrap();
        assert!(!stack.has_unread());
        let mut came = 0;
        while stack.udp_recv(server, &mut out).unwrap().is_some() {
            came += 1;
        }
        assert_eq!(came, taken);
        assert_eq!(wire.receive().unwrap(), 0, "{kind:?}");
    }
}

/// A UDP datagram from 127.0.0.1 to 127.0.0.1, or to and from our own address, as somebody on the link sends it.
fn forged(source: IpAddr, destination: IpAddr, macs: Option<MacPair>) -> Vec<u8> {
    let via = Via {
        source,
        destination,
        next_hop: destination,
        macs,
        mtu: 1500,
        may_fragment: false,
        hop_limit: 64,
        loops: false,
        is_shared: false,
        generation: 0,
    };
    let datagram = [0, 7, 0, 53, 0, 9, 0, 0, b'!'];
    let mut frame = vec![0; via.header_len()];
    let whole = Fragment { offset: 0, len: datagram.len(), more: false, identification: 0 };
    via.emit_fragment(&Packet::new(17, datagram.len()), &whole, &mut frame);
    frame.extend_from_slice(&datagram);
    frame
}

#[test]
fn what_comes_from_the_link_is_never_taken_for_ours() {
    for link in [Link::Ip, Link::Ethernet] {
        let (mut stack, mut wire) = looping(Pair { link, ..Pair::default() }, Config::default());
        let server = stack.udp_bind("0.0.0.0:53".parse().unwrap()).unwrap();
        let ours = stack.capabilities().mac.map(fusewire_wire::ethernet::Address);
        let own = addr(false, 0);
        let pairs = [(V4, V4), (V4, own), (own, V4), (own, own), (addr(false, 1), V4)];
        for (source, destination) in pairs {
            let macs = ours.map(|mac| MacPair { source: mac, destination: mac });
            let frame = forged(source, destination, macs);
            let header = &frame[..];
            let packet = fusewire_device::interface::TxPacket { header, ..Default::default() };
            wire.transmit(&[packet]).unwrap();
            stack.poll(NOW).unwrap();
            assert_eq!(
                stack.udp_recv(server, &mut [0; 16]).unwrap(),
                None,
                "{source} {destination}"
            );
        }
        let frame =
            forged(addr(false, 1), own, ours.map(|mac| MacPair { source: mac, destination: mac }));
        let packet = fusewire_device::interface::TxPacket { header: &frame, ..Default::default() };
        wire.transmit(&[packet]).unwrap();
        stack.poll(NOW).unwrap();
        assert!(stack.udp_recv(server, &mut [0; 16]).unwrap().is_some(), "it could have come");
    }
}

#[test]
fn without_the_switch_there_is_no_way_back() {
    let (a, _b) = pair(Pair::default()).unwrap();
    let net = net_config(&a, 0);
    let mut stack = Stack::new(Box::new(a), net, Config::default(), [7; 32], NOW);
    assert_eq!(stack.route(NOW, V4, None), Err(NoPath::NoRoute));
    assert_eq!(stack.route(NOW, addr(false, 0), None), Err(NoPath::Own));
    assert_eq!(stack.tcp_listen(at(V4, 80), 1), Err(Error::NotOurs(at(V4, 80))));
    // Beside a kernel that has the addresses what is for them is the kernel's.
    let (a, _b) = pair(Pair::default()).unwrap();
    let net = NetConfig { responds: false, ..net_config(&a, 0) };
    let config = Config { loopback: true, ..Config::default() };
    let mut stack = Stack::new(Box::new(a), net, config, [7; 32], NOW);
    assert_eq!(stack.route(NOW, V4, None), Err(NoPath::NoRoute));
    // From ourselves nothing goes elsewhere.
    let (mut stack, _wire) = looping(Pair::default(), Config::default());
    assert_eq!(stack.route(NOW, addr(false, 1), Some(V4)), Err(NoPath::NoRoute));
}

fn send_all(stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        bytes = &bytes[stream.send(bytes).unwrap()..];
    }
}

#[test]
fn a_host_talks_to_itself_across_threads() {
    let (a, _b) = pair(Pair::default()).unwrap();
    let net = NetConfig { loopback: true, ..net_config(&a, 0) };
    let host = Host::new(Box::new(a), net, HostConfig::default()).unwrap();
    let listener = host.tcp_listen(at(V4, 80), 4).unwrap();
    let echo = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        loop {
            match stream.recv(&mut buffer).unwrap() {
                0 => return,
                len => send_all(&stream, &buffer[..len]),
            }
        }
    });
    let stream = host.tcp_connect(at(V4, 80)).unwrap();
    let mut buffer = [0; 4096];
    for round in 0..2000usize {
        let message = pattern(1, round, 1 + round % 4000);
        send_all(&stream, &message);
        let mut got = 0;
        while got < message.len() {
            got += stream.recv(&mut buffer[got..]).unwrap();
        }
        assert!(buffer[..got] == message[..]);
    }
    drop(stream);
    echo.join().unwrap();
}
