//! Groups: who hears them, whom they come back to, and how far they go.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fusewire_device::interface::Link;
use fusewire_device::interface::memory::{Config as Pair, pair};
use fusewire_stack::ip::net::MembershipChange;
use fusewire_stack::ip::net::MembershipChange::{
    Block, Join, JoinSource, Leave, LeaveSource, Unblock,
};
use fusewire_stack::ip::{Config, Error, Host, HostConfig, Marking, Sharing, SocketId, Stack};

use crate::net::{Kind, Net, addr, kinds, net_config, pattern};

const PLAIN: Kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: true };

fn group(v6: bool) -> IpAddr {
    if v6 { "ff02::1234".parse().unwrap() } else { "239.1.2.3".parse().unwrap() }
}

fn any(v6: bool) -> SocketAddr {
    if v6 { "[::]:7" } else { "0.0.0.0:7" }.parse().unwrap()
}

#[test]
fn groups_are_joined_and_left() {
    for v6 in [false, true] {
        let group = group(v6);
        let mut net = Net::new(Kind { v6, link: Link::Ethernet, ..PLAIN }, 1500, Config::default());
        let server = net.stacks[1].udp_bind(any(v6)).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let heard = |net: &mut Net| {
            let sent = net.stacks[0].udp_send(net.now, client, b"all", Some((group, 7).into()));
            assert_eq!(sent.unwrap(), Ok(true));
            net.settle();
            net.stacks[1].udp_recv(server, &mut [0; 8]).unwrap().map(|received| received.to)
        };
        assert_eq!(heard(&mut net), None);
        net.stacks[1].udp_change_membership(net.now, server, group, Join).unwrap();
        assert_eq!(heard(&mut net), Some(group));
        net.stacks[1].udp_change_membership(net.now, server, group, Leave).unwrap();
        assert_eq!(heard(&mut net), None);
        let error = net.stacks[1].udp_change_membership(net.now, server, addr(v6, 0), Join);
        assert!(matches!(error, Err(Error::Misuse(_))));
    }
}

#[test]
fn each_socket_hears_the_sources_that_it_asked_for() {
    for v6 in [false, true] {
        let group: IpAddr = if v6 { "ff32::1234" } else { "232.1.2.3" }.parse().unwrap();
        let mut net = Net::new(Kind { v6, link: Link::Ethernet, ..PLAIN }, 1500, Config::default());
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let servers = [(); 3].map(|()| net.stacks[1].udp_bind((group, 7).into()).unwrap());
        let mut heard = |changes: &[(usize, MembershipChange)]| {
            for (server, change) in changes {
                let (stack, server) = (&mut net.stacks[1], servers[*server]);
                stack.udp_change_membership(net.now, server, group, *change).unwrap();
            }
            let sent = net.stacks[0].udp_send(net.now, client, b"all", Some((group, 7).into()));
            assert_eq!(sent.unwrap(), Ok(true));
            net.settle();
            let stack = &mut net.stacks[1];
            servers.map(|server| stack.udp_recv(server, &mut [0; 8]).unwrap().is_some())
        };
        let [sender, other] = [0, 5].map(|which| addr(v6, which));
        let joined = [(0, JoinSource(sender)), (1, JoinSource(other)), (2, Join)];
        assert_eq!(heard(&joined), [true, false, true], "{group}");
        assert_eq!(heard(&[(2, Block(sender)), (1, JoinSource(sender))]), [true, true, false]);
        assert_eq!(heard(&[(0, Leave), (1, LeaveSource(sender))]), [false; 3]);
        assert_eq!(heard(&[(2, Unblock(sender))]), [false, false, true]);
    }
}

/// All that waits in a socket for datagrams: bytes, who sent them, and where they were sent to.
fn all(stack: &mut Stack, id: SocketId) -> Vec<(Vec<u8>, SocketAddr, IpAddr)> {
    let (mut all, mut out) = (Vec::new(), vec![0; 65_536]);
    while let Some(got) = stack.udp_recv(id, &mut out).unwrap() {
        assert!(got.is_shared);
        all.push((out[..got.len].to_vec(), got.from, got.to));
    }
    all
}

#[test]
fn what_goes_to_a_group_comes_to_members_here_too() {
    for kind in kinds() {
        let config = Config { udp_queue_bytes: 4 << 20, ..Config::default() };
        let mut net = Net::new(kind, 1500, config);
        let group = group(kind.v6);
        let client = net.stacks[0].udp_bind(net.addr(0, 9)).unwrap();
        let from = net.addr(0, 9);
        let [near, far] = [0, 1].map(|which| {
            let stack = &mut net.stacks[which];
            let local = if which == 0 { (group, 7).into() } else { any(kind.v6) };
            let member = stack.udp_bind(local).unwrap();
            stack.udp_change_membership(net.now, member, group, Join).unwrap();
            member
        });
        // Nobody's who has not asked for it.
        let elsewhere = net.stacks[0].udp_bind((group, 7).into()).unwrap();
        net.settle();
        let message = pattern(9, 0, 300_000);
        let (mut sent_in_all, mut returned_in_all) = (0, 0);
        let mut heard = |bytes: &[u8], message_len: usize, marking: Marking| {
            net.stacks[0].set_marking(client, marking).unwrap();
            let to = Some((group, 7).into());
            let sent = net.stacks[0].udp_send_batch(net.now, client, bytes, message_len, to);
            let count = bytes.len().div_ceil(message_len.max(1)).max(1);
            assert_eq!(sent.unwrap(), Ok(count), "{kind:?}");
            let counters = *net.stacks[0].counters();
            sent_in_all += count as u64;
            assert_eq!(counters.udp_messages_sent, sent_in_all, "what stays here, too");
            let here = all(&mut net.stacks[0], near);
            returned_in_all += here.len() as u64;
            assert_eq!(counters.udp_messages_returned, returned_in_all);
            net.settle();
            assert_eq!(all(&mut net.stacks[0], near), [], "once");
            assert_eq!(all(&mut net.stacks[0], elsewhere), []);
            let wanted: Vec<_> = match bytes.is_empty() {
                true => vec![(Vec::new(), from, group)],
                false => bytes.chunks(message_len).map(|one| (one.to_vec(), from, group)).collect(),
            };
            let there = all(&mut net.stacks[1], far);
            [here, there].map(|got| got == wanted || (assert_eq!(got, []), false).1)
        };
        for (len, each) in [
            (0, 0),
            (1, 1),
            (1400, 1400),
            (9000, 9000),
            (65_507, 65_507),
            if kind.v6 { (65_527, 65_527) } else { (2, 1) },
            (5000, 99),
            (300_000, 999),
        ] {
            let mut heard = |marking| heard(&message[..len], each, marking);
            let usual = Marking::default();
            assert_eq!(heard(usual), [true, true], "{kind:?}, {len} bytes");
            let (keeps_v4, keeps_v6) = (!kind.v6, kind.v6);
            assert_eq!(heard(Marking { keeps_v4, keeps_v6, ..usual }), [false, true], "{kind:?}");
            let other = Marking { keeps_v4: kind.v6, keeps_v6: !kind.v6, ..usual };
            assert_eq!(heard(other), [true, true], "{kind:?}");
            let stays = Marking { group_hops: Some(0), ..usual };
            assert_eq!(heard(stays), [true, false], "{kind:?}");
            assert_eq!(heard(Marking { keeps_v4, keeps_v6, ..stays }), [false, false], "{kind:?}");
        }
        assert_eq!(net.stacks[0].counters().drops.total(), 0, "{kind:?}");
    }
}

#[test]
fn what_goes_to_all_of_a_network_comes_back_whatever_is_said_of_groups() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let server = net.stacks[0].udp_bind(any(false)).unwrap();
    let marking = Marking { keeps_v4: true, keeps_v6: true, ..Marking::default() };
    net.stacks[0].set_marking(server, marking).unwrap();
    for all_of in ["192.0.2.255:7", "255.255.255.255:7"] {
        let to = all_of.parse().unwrap();
        assert_eq!(net.stacks[0].udp_send(net.now, server, b"all", Some(to)).unwrap(), Ok(true));
        let got = all(&mut net.stacks[0], server);
        assert_eq!(got, [(b"all".to_vec(), net.addr(0, 7), to.ip())], "who sends is one of them");
    }
}

/// As on Linux: it hears what is for all, and nothing else, and sends from the host's own address.
#[test]
fn who_is_bound_to_all_of_a_network_sends_from_our_address() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    for all_of in ["192.0.2.255:7", "255.255.255.255:7"] {
        let bound = net.stacks[1].udp_bind(all_of.parse().unwrap()).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 9)).unwrap();
        for (to, hears) in [(net.addr(1, 7), false), (all_of.parse().unwrap(), true)] {
            let sent = net.stacks[0].udp_send(net.now, client, b"here", Some(to)).unwrap();
            assert_eq!(sent, Ok(true));
            net.settle();
            assert_eq!(net.stacks[1].udp_recv(bound, &mut [0; 9]).unwrap().is_some(), hears);
        }
        let sent = net.stacks[1].udp_send(net.now, bound, b"back", Some(net.addr(0, 9))).unwrap();
        assert_eq!(sent, Ok(true));
        net.settle();
        let got = net.stacks[0].udp_recv(client, &mut [0; 9]).unwrap().expect("an answer");
        assert_eq!(got.from, net.addr(1, 7));
        net.stacks[0].close(net.now, client).unwrap();
        net.stacks[1].close(net.now, bound).unwrap();
    }
    let listener = net.stacks[1].tcp_listen("192.0.2.255:7".parse().unwrap(), 1);
    assert!(matches!(listener, Err(Error::NotOurs(_))));
}

/// When our last address of that network is taken away.
#[test]
fn who_is_bound_to_all_of_what_is_ours_no_more_is_told_and_sends_on() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let bound = net.stacks[1].udp_bind("10.9.8.255:7".parse().unwrap());
    assert!(matches!(bound, Err(Error::NotOurs(_))));
    for address in ["10.9.8.1/24", "10.9.8.2/24"] {
        assert!(net.stacks[1].add_address(net.now, address.parse().unwrap()));
    }
    net.run(Duration::from_secs(5));
    let bound = net.stacks[1].udp_bind("10.9.8.255:7".parse().unwrap()).unwrap();
    let client = net.stacks[0].udp_bind(net.addr(0, 9)).unwrap();
    let to = Some(net.addr(0, 9));
    for (address, tells) in [("10.9.8.1", false), ("10.9.8.2", true)] {
        net.stacks[1].remove_address(net.now, address.parse().unwrap()).unwrap();
        let told = net.stacks[1].udp_send(net.now, bound, b"told", to).unwrap();
        assert_eq!(matches!(told, Err(Error::NotOurs(_))), tells, "{address}: {told:?}");
        assert_eq!(net.stacks[1].udp_send(net.now, bound, b"more", to).unwrap(), Ok(true));
        net.settle();
        while let Some(got) = net.stacks[0].udp_recv(client, &mut [0; 9]).unwrap() {
            assert_eq!(got.from, net.addr(1, 7));
        }
    }
}

/// As on Linux: a socket that is bound to an address of its own, or to those of IPv6, hears none of it.
#[test]
fn what_goes_to_all_of_a_network_comes_to_who_is_bound_for_it() {
    for (local, v6_only, hears) in [
        ("0.0.0.0:7", false, true),
        ("192.0.2.2:7", false, false),
        ("[::]:7", false, true),
        ("[::]:7", true, false),
        ("192.0.2.255:7", false, true),
        ("255.255.255.255:7", false, false),
    ] {
        let mut net = Net::new(PLAIN, 1500, Config::default());
        let sharing = Sharing { v6_only, ..Sharing::default() };
        let server = net.stacks[1].udp_bind_sharing(local.parse().unwrap(), sharing).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 9)).unwrap();
        let to = "192.0.2.255:7".parse().unwrap();
        assert_eq!(net.stacks[0].udp_send(net.now, client, b"all", Some(to)).unwrap(), Ok(true));
        net.settle();
        let heard = !all(&mut net.stacks[1], server).is_empty();
        assert_eq!(heard, hears, "{local}, of IPv6 alone: {v6_only}");
    }
}

#[test]
fn who_waits_hears_what_comes_back() {
    let (near, _far) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    let net = net_config(&near, 0);
    let host = Host::new(Box::new(near), net, HostConfig::default()).unwrap();
    for v6 in [false, true] {
        let member = host.udp_bind(any(v6)).unwrap();
        member.change_membership(group(v6), Join).unwrap();
        let sender = host.udp_bind((addr(v6, 0), 0).into()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut out = [0; 16];
                let got = member.recv_from(&mut out).unwrap();
                (out[..got.len].to_vec(), got.from)
            });
            std::thread::sleep(Duration::from_millis(100));
            sender.send_to(b"woken", (group(v6), 7).into()).unwrap();
            assert_eq!(waits.join().unwrap(), (b"woken".to_vec(), sender.local_addr().unwrap()));
        });
    }
}
