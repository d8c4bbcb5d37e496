//! Sockets that share a port, and connections that a listener keeps back.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fusewire_device::interface::Link;
use fusewire_stack::ip::{Config, Error, SendFlags, Sharing, State, TcpConfig};

use crate::net::{Kind, Net, addr};

const KIND: Kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: true };
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80);
const SHARED: Sharing = Sharing { port: true, address: false, v6_only: false, owner: 0 };

#[test]
fn strangers_never_share_a_port_and_who_shares_goes_on_when_one_is_gone() {
    let mut net = Net::new(KIND, 1500, Config::default());
    let settings = TcpConfig::default();
    let stack = &mut net.stacks[1];
    let mut listeners: Vec<_> =
        (0..3).map(|_| stack.tcp_listen_sharing(ANY, 64, &settings, SHARED).unwrap()).collect();
    let other = Sharing { owner: 7, ..SHARED };
    for refused in [other, Sharing::default()] {
        let listened = stack.tcp_listen_sharing(ANY, 64, &settings, refused);
        assert_eq!(listened, Err(Error::InUse(ANY)));
    }
    let connect = |net: &mut Net, count| {
        for _ in 0..count {
            net.stacks[0].tcp_connect(net.now, SocketAddr::new(addr(false, 1), 80)).unwrap();
        }
        net.settle();
    };
    connect(&mut net, 60);
    let mut came = 0;
    for listener in &listeners {
        let before = came;
        while net.stacks[1].tcp_accept(*listener).unwrap().is_some() {
            came += 1;
        }
        assert!(came > before, "each has some");
    }
    assert_eq!(came, 60);
    let gone = listeners.remove(1);
    net.stacks[1].close(net.now, gone).unwrap();
    connect(&mut net, 60);
    for listener in &listeners {
        while net.stacks[1].tcp_accept(*listener).unwrap().is_some() {
            came += 1;
        }
    }
    assert_eq!(came, 120);
}

#[test]
fn who_says_nothing_is_there_to_accept_in_the_end_and_nobody_waits_for_one_that_is_gone() {
    let mut net = Net::new(KIND, 1500, Config::default());
    let to = SocketAddr::new(addr(false, 1), 80);
    let listener = net.stacks[1].tcp_listen(ANY, 8).unwrap();
    net.stacks[1].tcp_set_defer(listener, Some(Duration::from_secs(5))).unwrap();
    let clients: Vec<_> = (0..4).map(|_| net.stacks[0].tcp_connect(net.now, to).unwrap()).collect();
    net.settle();
    assert!(net.stacks[1].tcp_accept(listener).unwrap().is_none());
    // One says something, one that it has nothing to say, one is gone.
    assert_eq!(net.stacks[0].tcp_write(clients[0], b"hello"), Ok(5));
    net.stacks[0].tcp_finish(clients[1]).unwrap();
    net.stacks[0].abort(net.now, clients[2]).unwrap();
    net.settle();
    let sockets = net.stacks[1].sockets();
    for client in &clients[..2] {
        let local = net.stacks[0].local_addr(*client).unwrap();
        let (_, from) = net.stacks[1].tcp_accept(listener).unwrap().expect("one that has come");
        assert_eq!(from, local);
    }
    assert!(net.stacks[1].tcp_accept(listener).unwrap().is_none());
    assert_eq!(sockets, 4, "the listener, two that have come, one that waits");
    net.run(Duration::from_secs(6));
    let (_, from) = net.stacks[1].tcp_accept(listener).unwrap().expect("the patient one");
    assert_eq!(from, net.stacks[0].local_addr(clients[3]).unwrap());
    // What a listener keeps back ends with it.
    let late = net.stacks[0].tcp_connect(net.now, to).unwrap();
    net.settle();
    assert_eq!(net.stacks[0].tcp_state(late), Ok(State::Established));
    net.stacks[1].close(net.now, listener).unwrap();
    net.settle();
    assert_eq!(net.stacks[0].take_error(late), Ok(Some(Error::Reset)));
    assert_eq!(net.stacks[1].sockets(), 3);
}

#[test]
fn a_cork_holds_what_fills_no_segment_and_lets_it_go() {
    let mut net = Net::new(KIND, 1500, Config::default());
    let (client, server) = crate::tcp::connected(&mut net, 80);
    net.stacks[0].tcp_set_cork(client, true).unwrap();
    for piece in [&b"ab"[..], b"cd"] {
        assert_eq!(net.stacks[0].tcp_send(client, piece, SendFlags::default()), Ok(2));
        net.settle();
    }
    assert_eq!(net.stacks[1].tcp_read(server, &mut [0; 8]), Ok(None));
    net.stacks[0].tcp_set_cork(client, false).unwrap();
    net.settle();
    assert_eq!(net.stacks[1].tcp_read(server, &mut [0; 8]), Ok(Some(4)));
    // Without it nothing waits.
    assert_eq!(net.stacks[0].tcp_send(client, b"ef", SendFlags::default()), Ok(2));
    net.settle();
    assert_eq!(net.stacks[1].tcp_read(server, &mut [0; 8]), Ok(Some(2)));
}
