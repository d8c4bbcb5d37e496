//! What an application says of the IP header is in each packet, from the first on, and until it says otherwise
//! (RFC 9293, MUST-48, MUST-49, SHLD-21, SHLD-22).

use std::net::IpAddr;
use std::time::Duration;

use fusewire_device::interface::memory::{Config as Pair, pair};
use fusewire_device::interface::{Interface, Link};
use fusewire_stack::ip::{Ancillary, Config, Error, Event, Marking, Stack};

use crate::net::{Kind, Net, addr, kinds, net_config};

/// Traffic class and hop limit of an IP packet.
fn marks(packet: &[u8]) -> (u8, u8) {
    match packet[0] >> 4 {
        4 => (packet[1], packet[8]),
        _ => ((packet[0] << 4) | (packet[1] >> 4), packet[7]),
    }
}

#[test]
fn every_packet_of_a_connection_is_marked_from_the_first_on() {
    for v6 in [false, true] {
        let (a, mut b) = pair(Pair { link: Link::Ip, mtu: 1500, ..Pair::default() }).unwrap();
        let mut now = fusewire_base::Instant::from_ms(5);
        let net = net_config(&a, 0);
        let mut stack = Stack::new(Box::new(a), net, Config::default(), [1; 32], now);
        let id = stack.tcp_connect(now, (addr(v6, 1), 7).into()).unwrap();
        let marking = Marking { traffic_class: 0xb8, hop_limit: Some(9), ..Marking::default() };
        stack.set_marking(id, marking).unwrap();
        let nowhere = Marking { hop_limit: Some(0), ..marking };
        assert!(matches!(stack.set_marking(id, nowhere), Err(Error::Misuse(_))));
        assert_eq!(stack.marking(id), Ok(marking));
        let mut seen = Vec::new();
        let mut turn = |stack: &mut Stack, now| {
            stack.poll(now).unwrap();
            for index in 0..b.receive().unwrap() {
                seen.push(marks(b.packet(index).bytes));
            }
        };
        turn(&mut stack, now);
        // Changed while it is open: the SYN that is sent again says so, and keeps ECN's bits as they are.
        stack.set_marking(id, Marking { traffic_class: 0x2b, ..Marking::default() }).unwrap();
        now += Duration::from_secs(3);
        turn(&mut stack, now);
        // RST of our own: still the connection's.
        let hops = stack.layer().config().hop_limit;
        assert_eq!(seen[0], (0xb8, 9));
        assert!(seen.len() > 1 && seen[1..].iter().all(|m| *m == (0x28, hops)), "{seen:?}");
    }
}

#[test]
fn a_listener_hands_its_marking_down() {
    for kind in kinds() {
        let mut net = Net::new(Kind { ..kind }, 1500, Config::default());
        let marking = Marking { traffic_class: 0x48, hop_limit: Some(33), ..Marking::default() };
        let listener = net.stacks[1].tcp_listen(net.addr(1, 7), 4).unwrap();
        net.stacks[1].set_marking(listener, marking).unwrap();
        let client = net.stacks[0].tcp_connect(net.now, net.addr(1, 7)).unwrap();
        net.run(Duration::from_millis(50));
        assert!(net.had(0, client, Event::Connected));
        let (accepted, _) = net.stacks[1].tcp_accept(listener).unwrap().unwrap();
        assert_eq!(net.stacks[1].marking(accepted), Ok(marking));
        assert_eq!(net.stacks[0].marking(client), Ok(Marking::default()));
    }
}

#[test]
fn a_datagram_that_must_stay_whole_is_refused_when_it_is_too_long() {
    for v6 in [false, true] {
        let kind = Kind { v6, link: Link::Ip, checksum: true, segmentation: true };
        let mut net = Net::new(kind, 1500, Config::default());
        let id = net.stacks[0].udp_bind(net.addr(0, 7)).unwrap();
        let (to, now) = (Some(net.addr(1, 7)), net.now);
        let most = 1500 - 8 - if v6 { 40 } else { 20 };
        for is_whole in [false, true] {
            net.stacks[0].set_marking(id, Marking { is_whole, ..Marking::default() }).unwrap();
            let mut send = |len: usize| net.stacks[0].udp_send(now, id, &vec![1; len], to).unwrap();
            assert_eq!(send(most), Ok(true));
            let refused = Err(Error::TooLong { len: most + 1, max: most });
            assert_eq!(send(most + 1), if is_whole { refused } else { Ok(true) });
        }
    }
}

#[test]
fn datagrams_are_marked_and_those_to_groups_go_no_further() {
    let (a, mut b) = pair(Pair { link: Link::Ip, mtu: 1500, ..Pair::default() }).unwrap();
    let now = fusewire_base::Instant::from_ms(5);
    let net = net_config(&a, 0);
    let mut stack = Stack::new(Box::new(a), net, Config::default(), [1; 32], now);
    let id = stack.udp_bind((addr(false, 0), 9).into()).unwrap();
    stack
        .set_marking(id, Marking { traffic_class: 0x2d, hop_limit: Some(5), ..Marking::default() })
        .unwrap();
    let group = "239.1.2.3".parse().unwrap();
    for to in [addr(false, 1), group] {
        assert_eq!(stack.udp_send(now, id, &[7; 4000], Some((to, 7).into())).unwrap(), Ok(true));
        let seen: Vec<_> = (0..b.receive().unwrap()).map(|i| marks(b.packet(i).bytes)).collect();
        let hops = if to == group { 1 } else { 5 };
        assert!(seen.len() == 3 && seen.iter().all(|m| *m == (0x2d, hops)), "{to}: {seen:?}");
    }
}

#[test]
fn what_goes_beside_a_datagram_is_in_its_packet_alone() {
    let (a, mut b) = pair(Pair { link: Link::Ip, mtu: 1500, ..Pair::default() }).unwrap();
    let now = fusewire_base::Instant::from_ms(5);
    let mut net = net_config(&a, 0);
    let (own, to) = (net.addresses[0].address(), Some((addr(false, 1), 7).into()));
    net.addresses.push("10.77.0.1/24".parse().unwrap());
    let mut stack = Stack::new(Box::new(a), net, Config::default(), [1; 32], now);
    let id = stack.udp_bind((addr(false, 0), 9).into()).unwrap();
    let other = "10.77.0.1".parse().unwrap();
    let beside = |local, traffic_class, hop_limit| Ancillary {
        local,
        traffic_class,
        hop_limit,
        ..Ancillary::default()
    };
    let mut send = |what: &Ancillary, len| {
        // One that is staged leaves before it, and says nothing of that.
        assert_eq!(stack.udp_stage(now, id, &[1; 9], to).unwrap(), Ok(true));
        let sent = stack.udp_send_beside(now, id, &vec![7; len], to, what).unwrap();
        assert!(stack.flush_udp(now, id).unwrap());
        sent
    };
    let mut seen = || {
        let seen = |packet: &[u8]| {
            (IpAddr::from(*packet[12..].first_chunk::<4>().unwrap()), marks(packet))
        };
        (0..b.receive().unwrap()).map(|i| seen(b.packet(i).bytes)).collect::<Vec<_>>()
    };
    let usual = (own, (0, 64));
    for (what, is) in [
        (beside(Some(other), None, None), (other, (0, 64))),
        (beside(None, Some(0x2d), None), (own, (0x2d, 64))),
        (beside(Some(own), Some(0), Some(5)), (own, (0, 5))),
        // Where one came that is answered so: nobody's alone.
        (beside(Some("10.77.0.255".parse().unwrap()), None, Some(6)), (own, (0, 6))),
        (beside(Some("255.255.255.255".parse().unwrap()), None, Some(6)), (own, (0, 6))),
        (beside(Some("239.1.2.3".parse().unwrap()), None, Some(6)), (own, (0, 6))),
    ] {
        assert_eq!(send(&what, 100), Ok(true));
        assert_eq!(seen(), [usual, is]);
        // Of each of its fragments.
        assert_eq!(send(&what, 2000), Ok(true));
        assert_eq!(seen(), [usual, is, is]);
    }
    let foreign = beside(Some(addr(false, 1)), None, None);
    assert_eq!(send(&foreign, 1), Err(Error::NoRoute));
    assert_eq!(send(&Ancillary { interface: 3, ..Ancillary::default() }, 1), Err(Error::NoRoute));
    assert!(matches!(send(&beside(None, None, Some(0)), 1), Err(Error::Misuse(_))));
    assert_eq!(seen(), [usual; 3]);
}

#[test]
fn what_goes_to_a_neighbour_alone_has_no_hops_with_ipv6() {
    let (a, mut b) = pair(Pair { link: Link::Ip, mtu: 1500, ..Pair::default() }).unwrap();
    let now = fusewire_base::Instant::from_ms(5);
    let net = net_config(&a, 0);
    let mut stack = Stack::new(Box::new(a), net, Config::default(), [1; 32], now);
    let id = stack.udp_bind((addr(true, 0), 9).into()).unwrap();
    let (to, none) =
        (Some((addr(true, 1), 7).into()), Ancillary { hop_limit: Some(0), ..Ancillary::default() });
    assert_eq!(stack.udp_send_beside(now, id, b"near", to, &none).unwrap(), Ok(true));
    let seen: Vec<_> = (0..b.receive().unwrap()).map(|i| marks(b.packet(i).bytes)).collect();
    assert_eq!(seen, [(0, 0)]);
}

#[test]
fn who_receives_is_told_how_it_came() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let to = Some(net.addr(1, 7));
        let marked =
            Ancillary { traffic_class: Some(0xb9), hop_limit: Some(9), ..Ancillary::default() };
        for beside in [marked, Ancillary::default()] {
            net.stacks[0].udp_send_beside(net.now, client, b"one", to, &beside).unwrap().unwrap();
            net.settle();
            let told = net.stacks[1].udp_peek(server).unwrap().unwrap().beside(4);
            let local = Some(net.addr(1, 7).ip());
            let (class, hops) = (beside.traffic_class.unwrap_or(0), beside.hop_limit.unwrap_or(64));
            let (traffic_class, hop_limit) = (Some(class), Some(hops));
            let is = Ancillary { local, interface: 4, traffic_class, hop_limit, ..marked };
            assert_eq!(told, is);
            let received = net.stacks[1].udp_recv(server, &mut [0; 9]).unwrap().unwrap();
            assert_eq!((received.traffic_class, received.hop_limit), (class, hops));
        }
    }
}
