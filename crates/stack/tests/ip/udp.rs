//! UDP between two stacks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{Around, Checksum, Interface, Link, Segmentation, TxPacket};
use fusewire_kernels::stages::Swap;
use fusewire_stack::Cause;
use fusewire_stack::ip::net::{Packet, Via};
use fusewire_stack::ip::{Config, Error, Event, Stack};
use fusewire_wire::udp;

use crate::net::{Kind, Net, addr, kinds, net_config, pattern};

#[test]
fn messages_of_all_sizes_arrive_as_they_were_sent() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let from = net.stacks[0].local_addr(client).unwrap();
        let to = net.addr(1, 7);
        let most = if kind.v6 { 1452 } else { 1472 };
        for len in (0..=most).step_by(13).chain([most]) {
            let message = pattern(3, len, len);
            let sent = net.stacks[0].udp_send(net.now, client, &message, Some(to)).unwrap();
            assert_eq!(sent, Ok(true));
            net.settle();
            let mut out = [0; 2000];
            let got = net.stacks[1].udp_recv(server, &mut out).unwrap().expect("arrived");
            assert_eq!((got.len, got.from, got.to), (len, from, to.ip()), "{kind:?}");
            assert_eq!(out[..len], message, "{kind:?}");
        }
        let longest = if kind.v6 { 65_527 } else { 65_507 };
        for len in [most + 1, 3000, longest] {
            let long = pattern(3, len, len);
            assert_eq!(net.stacks[0].udp_send(net.now, client, &long, Some(to)).unwrap(), Ok(true));
            net.settle();
            let mut out = vec![0; 65_536];
            let got = net.stacks[1].udp_recv(server, &mut out).unwrap().expect("put together");
            assert!(got.len == len && out[..len] == long, "{kind:?} {len}");
        }
        let long = vec![0; longest + 1];
        let error = net.stacks[0].udp_send(net.now, client, &long, Some(to)).unwrap();
        assert_eq!(error, Err(Error::TooLong { len: longest + 1, max: longest }));
        let error = net.stacks[0].udp_send(net.now, client, &long, None).unwrap();
        assert_eq!(error, Err(Error::NotConnected));
    }
}

/// What can never be sent is refused by the call that asks for it, though it is not known yet where the peer is; and the
/// next one is none the worse for it.
#[test]
fn a_message_that_is_too_long_is_refused_before_the_neighbour_has_answered() {
    for v6 in [false, true] {
        let kind = Kind { v6, link: Link::Ethernet, checksum: false, segmentation: false };
        let mut net = Net::new(kind, 1500, Config::default());
        let (now, to) = (net.now, Some(net.addr(1, 7)));
        let from = net.addr(0, 0);
        let stack = &mut net.stacks[0];
        let client = stack.udp_bind(from).unwrap();
        let max = if v6 { 65_527 } else { 65_507 };
        let too_long = |len| Err(Error::TooLong { len, max });
        let refused = stack.udp_send(now, client, &[0; 70_000], to).unwrap();
        assert_eq!(refused, too_long(70_000));
        let refused = stack.udp_send_batch(now, client, &[0; 70_000], 66_000, to).unwrap();
        assert_eq!(refused.map(|_| true), too_long(66_000));
        let refused = stack.udp_send_with(now, client, &Swap::<4>, &vec![0; max + 1], to).unwrap();
        assert_eq!(refused, too_long(max + 1));
        let refused = stack.udp_send_batch(now, client, &[0; 10], 0, to).unwrap();
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
        assert_eq!(stack.udp_send(now, client, b"short", to).unwrap(), Ok(true));
        assert_eq!(stack.take_error(client), Ok(None));
        net.settle();
        assert_eq!(net.stacks[0].take_error(client), Ok(None));
        assert_eq!(net.stacks[0].counters().udp_messages_sent, 1);
    }
}

/// The message says the address and port that were asked for.
#[test]
fn an_address_that_is_not_ours_is_told_with_its_port() {
    let kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let (now, there) = (net.now, net.addr(1, 80));
    let stack = &mut net.stacks[0];
    let wrong = "10.0.0.77:80".parse().unwrap();
    assert_eq!(stack.udp_bind(wrong), Err(Error::NotOurs(wrong)));
    assert_eq!(stack.tcp_listen(wrong, 8), Err(Error::NotOurs(wrong)));
    let config = stack.config().tcp.clone();
    let refused = stack.tcp_connect_with(now, there, Some(wrong), &config);
    assert_eq!(refused, Err(Error::NotOurs(wrong)));
}

#[test]
fn batches_leave_and_arrive_as_views() {
    for kind in kinds() {
        for (message_len, bytes) in [(1, 300), (10, 12_345), (200, 20_000), (1400, 65_000), (50, 0)]
        {
            let mut net = Net::new(kind, 1500, Config::default());
            let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
            let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
            net.stacks[0].udp_connect(client, Some(net.addr(1, 7))).unwrap();
            let sent = pattern(9, 0, bytes);
            let count = net.stacks[0]
                .udp_send_batch(net.now, client, &sent, message_len, None)
                .unwrap()
                .unwrap();
            assert_eq!(count, bytes.div_ceil(message_len).max(1));
            let mut got = Vec::new();
            let mut messages = 0;
            for queued in [false, true] {
                if queued {
                    net.settle();
                }
                let (now, stack) = (net.now, &mut net.stacks[1]);
                messages += stack
                    .udp_recv_batch(now, server, |batch| {
                        for message in batch.iter() {
                            assert!(message.len() <= message_len);
                            got.extend_from_slice(message);
                        }
                    })
                    .unwrap()
                    .unwrap();
            }
            if kind.segmentation || count < 64 {
                assert_eq!((messages, got.len()), (count, bytes), "{kind:?} {message_len}");
            }
            assert_eq!(got, sent[..got.len()], "{kind:?} {message_len}");
            // The first leave when the neighbour has answered.
            let counters = *net.stacks[1].counters();
            assert_eq!(counters.udp_messages_received, messages as u64);
            assert_eq!(
                counters.udp_messages_received + counters.drops.of(Cause::UdpOverflow),
                count as u64
            );
            if kind.segmentation {
                assert!(counters.received <= count.div_ceil(20) as u64 + 8, "{counters:?}");
            }
        }
    }
}

#[test]
fn staged_messages_leave_together() {
    let kind = Kind { v6: false, link: Link::Ethernet, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
    let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
    let to = Some(net.addr(1, 7));
    let lens: Vec<usize> = (0..300).map(|i| if i % 100 < 90 { 64 } else { i }).collect();
    for (i, len) in lens.iter().enumerate() {
        let message = vec![i as u8; *len];
        assert_eq!(net.stacks[0].udp_stage(net.now, client, &message, to).unwrap(), Ok(true));
    }
    net.settle();
    for (i, len) in lens.iter().enumerate() {
        let mut out = [0; 2000];
        let got = net.stacks[1].udp_recv(server, &mut out).unwrap().expect("arrived");
        assert_eq!(out[..got.len], vec![i as u8; *len]);
    }
    assert!(net.stacks[0].counters().sent <= 40, "{:?}", net.stacks[0].counters());
}

/// What was staged or waits for a neighbour goes, whatever became of what went before to somebody else.
#[test]
fn what_cannot_go_keeps_nothing_back_that_can() {
    let kind = Kind { v6: false, link: Link::Ethernet, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let servers = [7, 8].map(|port| net.stacks[1].udp_bind(net.addr(1, port)).unwrap());
    let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
    let (no_way, nobody) = ("203.0.113.9:7".parse().unwrap(), "192.0.2.77:7".parse().unwrap());
    let [first, second] = [7, 8].map(|port| net.addr(1, port));
    let stage = |net: &mut Net, word: &[u8], to| {
        let staged = net.stacks[0].udp_stage(net.now, client, word, Some(to)).unwrap();
        assert_eq!(staged, Ok(true), "to {to}");
    };
    let have = |net: &mut Net, word: &[u8]| {
        for server in servers {
            let mut out = [0; 10];
            let got = net.stacks[1].udp_recv(server, &mut out).unwrap();
            assert_eq!(got.map(|got| out[..got.len].to_vec()), Some(word.to_vec()));
        }
    };
    for to in [no_way, first, second] {
        stage(&mut net, b"way", to);
    }
    net.settle();
    have(&mut net, b"way");
    assert_eq!(net.stacks[0].counters().drops.of(Cause::UdpUnresolved), 1);
    // Whoever sends by a call of his own hears of it, once.
    let told = net.stacks[0].udp_send(net.now, client, b"told", Some(first)).unwrap();
    assert_eq!(told, Err(Error::NoRoute));
    // Nor does a neighbour who never answers, of whom is heard later.
    for (word, to) in [(&b"one"[..], nobody), (b"and two", nobody), (b"meanwhile", first)] {
        stage(&mut net, word, to);
    }
    stage(&mut net, b"meanwhile", second);
    net.settle();
    have(&mut net, b"meanwhile");
    net.run(Duration::from_secs(10));
    for to in [first, second] {
        stage(&mut net, b"again", to);
    }
    net.settle();
    have(&mut net, b"again");
    assert_eq!(net.stacks[0].counters().drops.of(Cause::UdpUnresolved), 3);
    assert_eq!(net.stacks[0].take_error(client), Ok(Some(Error::Unreachable)));
}

/// What waits for neighbours that are not there takes nobody's place who is asked for as well.
#[test]
fn silent_neighbours_keep_nothing_back_that_is_for_another() {
    let kind = Kind { v6: false, link: Link::Ethernet, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
    let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
    let there = net.addr(1, 7);
    for host in 10..50 {
        let silent = ([192, 0, 2, host], 7).into();
        for _ in 0..100 {
            let sent = net.stacks[0].udp_send(net.now, client, &[7; 1400], Some(silent)).unwrap();
            assert_eq!(sent, Ok(true));
        }
    }
    let lost = net.stacks[0].counters().drops.of(Cause::UdpUnresolved);
    assert!(lost >= 40 * 36, "each has so many places: {lost}");
    let sent = net.stacks[0].udp_send(net.now, client, b"there", Some(there)).unwrap();
    assert_eq!(sent, Ok(true));
    net.settle();
    assert_eq!(net.stacks[1].udp_recv(server, &mut [0; 10]).unwrap().unwrap().len, 5);
    net.run(Duration::from_secs(10));
    assert_eq!(net.stacks[0].counters().drops.of(Cause::UdpUnresolved), 4000);
}

/// What answers while another is asked for is heard by what waits for it.
#[test]
fn an_answer_that_comes_while_another_is_asked_for_is_heard() {
    let kind = Kind { v6: false, link: Link::Ethernet, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
    let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
    let there = net.addr(1, 7);
    let sent = net.stacks[0].udp_send(net.now, client, b"there", Some(there)).unwrap();
    assert_eq!(sent, Ok(true));
    net.stacks[0].poll(net.now).unwrap();
    net.stacks[1].poll(net.now).unwrap();
    // The answer is taken in the turn in which what is staged begins to wait.
    let silent = Some(([192, 0, 2, 77], 7).into());
    assert_eq!(net.stacks[0].udp_stage(net.now, client, b"lost", silent).unwrap(), Ok(true));
    net.settle();
    assert_eq!(net.stacks[1].udp_recv(server, &mut [0; 10]).unwrap().unwrap().len, 5);
}

/// An interface that may be full.
struct Full {
    inner: Memory,
    is_full: Arc<AtomicBool>,
}

impl Around for Full {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut Memory {
        &mut self.inner
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        if self.is_full.load(Ordering::Relaxed) { Ok(0) } else { self.inner.transmit(packets) }
    }
}

/// Two stacks on Ethernet, and what says that the first one's interface is full.
fn with_full_interface() -> (Net, Arc<AtomicBool>) {
    let (a, b) = pair(Pair { link: Link::Ethernet, ..Pair::default() }).unwrap();
    let now = fusewire_base::Instant::from_ms(5);
    let is_full = Arc::new(AtomicBool::new(false));
    let configs = [net_config(&a, 0), net_config(&b, 1)];
    let a = Full { inner: a, is_full: is_full.clone() };
    let interfaces: [Box<dyn Interface>; 2] = [Box::new(a), Box::new(b)];
    let mut nets = interfaces
        .into_iter()
        .zip(configs)
        .map(|(interface, net)| Stack::new(interface, net, Config::default(), [1; 32], now));
    let stacks = [(); 2].map(|()| nets.next().unwrap());
    let events = [Vec::new(), Vec::new()];
    (Net { stacks, now, v6: false, events, wire: None }, is_full)
}

/// Who asks a stack until it has no more to do, and sleeps until it will have, does not ask for ever while the interface is full.
#[test]
fn what_a_full_interface_has_no_room_for_is_not_work() {
    let (mut net, is_full) = with_full_interface();
    let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
    is_full.store(true, Ordering::Relaxed);
    let silent = Some(net.addr(7, 7));
    assert_eq!(net.stacks[0].udp_send(net.now, client, b"hello", silent).unwrap(), Ok(true));
    for _ in 0..20 {
        let mut polls = std::iter::repeat_with(|| net.stacks[0].poll(net.now).unwrap());
        assert!(polls.by_ref().take(10).any(|worked| !worked), "at {:?}", net.now);
        let due = net.stacks[0].poll_timeout();
        assert!(due.is_none_or(|at| at > net.now), "{due:?} at {:?}", net.now);
        assert!(net.stacks[0].is_blocked());
        net.now += Duration::from_millis(400);
    }
    is_full.store(false, Ordering::Relaxed);
    net.settle();
    assert!(!net.stacks[0].is_blocked());
}

/// What waited for an answer and finds the interface full then waits on, in its order, and is counted where it waits for too long.
#[test]
fn what_waited_for_an_answer_waits_for_room_too() {
    for is_full_for_long in [false, true] {
        let (mut net, is_full) = with_full_interface();
        let now = net.now;
        let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let there = Some(net.addr(1, 7));
        for len in 0..3 {
            let sent = net.stacks[0].udp_send(now, client, &[1; 3][..len], there).unwrap();
            assert_eq!(sent, Ok(true));
        }
        // A batch, of which a part may leave.
        let sent = net.stacks[0].udp_send_batch(now, client, &[1; 12], 3, there).unwrap();
        assert_eq!(sent, Ok(4));
        net.stacks[0].poll(now).unwrap();
        net.stacks[1].poll(now).unwrap();
        is_full.store(true, Ordering::Relaxed);
        net.stacks[0].poll(now).unwrap();
        assert!(net.stacks[0].is_blocked());
        if is_full_for_long {
            net.now += Duration::from_secs(4);
            net.stacks[0].poll(net.now).unwrap();
        }
        is_full.store(false, Ordering::Relaxed);
        net.settle();
        let mut lens = Vec::new();
        while let Some(got) = net.stacks[1].udp_recv(server, &mut [0; 10]).unwrap() {
            lens.push(got.len);
        }
        let lost = net.stacks[0].counters().drops.of(Cause::UdpUnresolved);
        let all = vec![0, 1, 2, 3, 3, 3, 3];
        let expected = if is_full_for_long { (vec![], 7) } else { (all, 0) };
        assert_eq!((lens, lost), expected);
        assert!(!net.stacks[0].is_blocked());
    }
}

/// Who was the peer, and is silent, is no matter of the next one's.
#[test]
fn a_connected_socket_does_not_hear_what_became_of_its_earlier_peer() {
    let kind = Kind { v6: false, link: Link::Ethernet, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
    let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
    let (nobody, there) = ("192.0.2.77:7".parse().unwrap(), net.addr(1, 7));
    for stays in [true, false] {
        // The first waits for an answer, and what is staged by then finds that there is none.
        net.stacks[0].udp_connect(client, Some(nobody)).unwrap();
        let sent = net.stacks[0].udp_send(net.now, client, b"lost", None).unwrap();
        assert_eq!(sent, Ok(true));
        if !stays {
            net.stacks[0].udp_connect(client, Some(there)).unwrap();
        }
        net.run(Duration::from_secs(4));
        let staged = net.stacks[0].udp_stage(net.now, client, b"lost", Some(nobody)).unwrap();
        assert_eq!(staged, Ok(true));
        net.settle();
        let told = stays.then_some(Error::Unreachable);
        assert_eq!(net.stacks[0].take_error(client), Ok(told), "the peer stays: {stays}");
        let was_told = net.events[0].contains(&(client, Event::Error));
        assert_eq!(was_told, stays);
        net.events[0].clear();
        net.run(Duration::from_secs(60));
    }
    let sent = net.stacks[0].udp_send(net.now, client, b"there", None).unwrap();
    assert_eq!(sent, Ok(true));
    net.settle();
    assert_eq!(net.stacks[1].udp_recv(server, &mut [0; 10]).unwrap().unwrap().len, 5);
}

#[test]
fn a_connected_socket_hears_its_peer_alone_and_ports_are_exclusive() {
    let kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: false };
    let mut net = Net::new(kind, 1500, Config::default());
    let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
    assert_eq!(net.stacks[1].udp_bind(net.addr(1, 7)), Err(Error::InUse(net.addr(1, 7))));
    assert!(matches!(net.stacks[1].udp_bind(net.addr(0, 9)), Err(Error::NotOurs(_))));
    let [friend, stranger] = [0, 0].map(|port| net.stacks[0].udp_bind(net.addr(0, port)).unwrap());
    let peer = net.stacks[0].local_addr(friend).unwrap();
    net.stacks[1].udp_connect(server, Some(peer)).unwrap();
    for client in [stranger, friend] {
        let to = Some(net.addr(1, 7));
        net.stacks[0].udp_send(net.now, client, b"hello", to).unwrap().unwrap();
    }
    net.stacks[0].udp_send(net.now, friend, b"nobody", Some(net.addr(1, 8))).unwrap().unwrap();
    net.settle();
    let mut out = [0; 10];
    assert_eq!(net.stacks[1].udp_recv(server, &mut out).unwrap().unwrap().from, peer);
    assert_eq!(net.stacks[1].udp_recv(server, &mut out), Ok(None));
    let counters = net.stacks[1].counters();
    assert_eq!((counters.drops.of(Cause::UdpNotPeer), counters.drops.of(Cause::UdpStray)), (1, 1));
    net.stacks[1].close(net.now, server).unwrap();
    assert_eq!(net.stacks[1].udp_recv(server, &mut out), Err(Error::NoSocket));
    assert_eq!(net.stacks[1].sockets(), 0);
}

#[test]
fn a_datagram_without_a_checksum_is_taken_over_ipv4_alone() {
    for v6 in [false, true] {
        let (a, mut other) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
        let now = fusewire_base::Instant::from_ms(5);
        let net = net_config(&a, 1);
        let mut stack = Stack::new(Box::new(a), net, Config::default(), [1; 32], now);
        let socket = stack.udp_bind((addr(v6, 1), 7).into()).unwrap();
        let via = Via {
            source: addr(v6, 0),
            destination: addr(v6, 1),
            next_hop: addr(v6, 1),
            macs: None,
            mtu: 1500,
            may_fragment: false,
            hop_limit: 64,
            loops: false,
            is_shared: false,
            generation: 0,
        };
        let mut frame = vec![0; via.header_len()];
        via.emit(&Packet::new(udp::NUMBER, 12), &mut frame);
        let header = udp::Header { src_port: 1, dst_port: 7, len: 12, checksum: 0 };
        let mut body = [1; 12];
        header.emit(&mut body);
        frame.extend(body);
        let packet = TxPacket {
            header: &frame,
            payload: &[],
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        };
        other.transmit(&[packet]).unwrap();
        stack.poll(now).unwrap();
        let got = stack.udp_recv(socket, &mut [0; 8]).unwrap();
        assert_eq!(got.is_some(), !v6, "RFC 8200, section 8.1");
        assert_eq!(stack.counters().drops.of(Cause::NoChecksum), u64::from(v6));
    }
}
