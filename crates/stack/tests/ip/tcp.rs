//! TCP between two stacks.

use std::time::Duration;

use fusewire_device::interface::Link;
use fusewire_stack::Cause;
use fusewire_stack::ip::{Config, Error, Event, SendFlags, SocketId, State};
use fusewire_transport::machine::DropCause;

use crate::net::{Kind, Net, kinds, pattern};

const PLAIN: Kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: true };

/// A client of stack 0 and what stack 1 accepted.
pub fn connected(net: &mut Net, port: u16) -> (SocketId, SocketId) {
    let listener = net.stacks[1].tcp_listen(net.addr(1, port), 8).unwrap();
    let client = net.stacks[0].tcp_connect(net.now, net.addr(1, port)).unwrap();
    net.settle();
    let end = net.now + Duration::from_secs(60);
    while !net.had(1, listener, Event::Acceptable) && net.now < end {
        net.step(Duration::from_secs(1));
    }
    assert!(net.had(0, client, Event::Connected));
    let (server, remote) = net.stacks[1].tcp_accept(listener).unwrap().expect("a connection");
    assert_eq!(remote, net.stacks[0].local_addr(client).unwrap());
    (client, server)
}

/// Sends `len` bytes from stack `from` and checks what comes out of the other.
pub fn transfer(
    net: &mut Net,
    from: usize,
    ids: (SocketId, SocketId),
    len: usize,
    piece: usize,
    direct: bool,
) {
    let (mut written, mut read) = (0, 0);
    let bytes = pattern(1, 0, len);
    let mut out = vec![0; 100_000];
    let end = net.now + Duration::from_secs(600);
    while read < len {
        let mut moved = false;
        while written < len {
            let next = &bytes[written..len.min(written + piece)];
            match net.stacks[from].tcp_write(ids.0, next).unwrap() {
                0 => break,
                n => written += n,
            }
        }
        net.stacks[from].transmit(net.now).unwrap();
        let stack = &mut net.stacks[1 - from];
        loop {
            let got = if direct {
                stack.tcp_read_into(net.now, ids.1, &mut out).unwrap().unwrap()
            } else {
                stack.tcp_read(ids.1, &mut out).unwrap()
            };
            let Some(n) = got else { break };
            assert_eq!(out[..n], bytes[read..read + n], "at {read}");
            (read, moved) = (read + n, true);
        }
        if moved {
            net.settle();
        } else {
            net.step(Duration::from_secs(1));
        }
        assert!(net.now < end, "{read} of {len} bytes after ten minutes");
    }
}

#[test]
fn what_is_followed_by_more_leaves_with_what_says_nothing() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, server) = connected(&mut net, 7);
    let mut out = [0; 16];
    for lays in [false, true] {
        let more = SendFlags { more: true, ..SendFlags::default() };
        assert_eq!(net.stacks[0].tcp_send(client, b"ab", more), Ok(2));
        net.stacks[0].transmit(net.now).unwrap();
        net.settle();
        assert_eq!(net.stacks[1].tcp_read(server, &mut out), Ok(None), "it waits");
        if lays {
            let fill = |[a, _]: [&mut [u8]; 2]| {
                a[..2].copy_from_slice(b"cd");
                Ok(2)
            };
            net.stacks[0].tcp_write_from(client, 2, fill).unwrap().unwrap().unwrap();
        } else {
            assert_eq!(net.stacks[0].tcp_write(client, b"cd"), Ok(2));
        }
        net.stacks[0].transmit(net.now).unwrap();
        net.settle();
        assert_eq!(net.stacks[1].tcp_read(server, &mut out), Ok(Some(4)));
        assert_eq!(&out[..4], b"abcd");
        net.step(Duration::from_secs(1));
    }
}

#[test]
fn streams_of_all_kinds_arrive_whole() {
    for kind in kinds() {
        for mtu in [1500, 1280, 9000] {
            for (len, piece, direct) in
                [(1, 1, false), (3_000_000, 65_536, true), (1_000_000, 777, false)]
            {
                let mut net = Net::new(kind, mtu, Config::default());
                let (client, server) = connected(&mut net, 80);
                transfer(&mut net, 0, (client, server), len, piece, direct);
                transfer(&mut net, 1, (server, client), len / 3 + 1, piece, direct);
                for (which, id) in [(0, client), (1, server)] {
                    let info = net.stacks[which].tcp_info(id).unwrap();
                    assert_eq!(
                        (info.counters.timeouts, info.counters.recoveries),
                        (0, 0),
                        "{kind:?} {mtu}"
                    );
                    // A tail loss probe may come twice.
                    let drops = info.counters.drops.total();
                    let known = info.counters.dropped(DropCause::OutOfWindow);
                    assert!(drops == known && known < 5, "{kind:?} {mtu} {:?}", info.counters);
                }
                if kind.segmentation && len > 100_000 {
                    let sent = net.stacks[0].counters().sent as usize;
                    assert!(sent < len / mtu / 2, "{sent} packets for {len} bytes");
                }
                closes_in_order(&mut net, client, server);
            }
        }
    }
}

fn closes_in_order(net: &mut Net, client: SocketId, server: SocketId) {
    let mut out = [0; 10];
    net.stacks[0].tcp_finish(client).unwrap();
    net.settle();
    assert!(net.had(1, server, Event::PeerFinished));
    assert_eq!(net.stacks[1].tcp_read(server, &mut out), Ok(Some(0)));
    assert_eq!(net.stacks[0].tcp_state(client), Ok(State::FinWait2));
    assert_eq!(net.stacks[0].tcp_write(client, b"late"), Err(Error::Finished));
    // Half closed: the other way goes on.
    assert_eq!(net.stacks[1].tcp_write(server, b"still"), Ok(5));
    net.settle();
    assert_eq!(net.stacks[0].tcp_read(client, &mut out), Ok(Some(5)));
    net.stacks[1].close(net.now, server).unwrap();
    net.settle();
    assert_eq!(net.stacks[1].sockets(), 1, "the listener");
    assert_eq!(net.stacks[0].tcp_state(client), Ok(State::TimeWait));
    net.stacks[0].close(net.now, client).unwrap();
    assert_eq!(net.stacks[0].sockets(), 1);
    net.run(Duration::from_secs(61));
    assert_eq!(net.stacks[0].sockets(), 0);
}

#[test]
fn nobodys_port_refuses() {
    for v6 in [false, true] {
        let mut net = Net::new(Kind { v6, ..PLAIN }, 1500, Config::default());
        let client = net.stacks[0].tcp_connect(net.now, net.addr(1, 9)).unwrap();
        net.settle();
        assert!(net.had(0, client, Event::Closed));
        assert_eq!(net.stacks[0].take_error(client), Ok(Some(Error::Refused)));
        assert_eq!(net.stacks[0].tcp_read(client, &mut [0]), Err(Error::Refused));
        assert_eq!(net.stacks[0].tcp_write(client, &[0]), Err(Error::Refused));
        net.stacks[0].close(net.now, client).unwrap();
        assert_eq!(net.stacks[0].sockets(), 0);
        assert_eq!(net.stacks[1].counters().drops.of(Cause::Stray), 1);
    }
}

#[test]
fn abort_resets_the_peer() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    net.stacks[0].abort(net.now, client).unwrap();
    net.settle();
    assert_eq!(net.stacks[1].tcp_read(server, &mut [0]), Err(Error::Reset));
    net.stacks[0].close(net.now, client).unwrap();
    net.stacks[1].close(net.now, server).unwrap();
    assert_eq!((net.stacks[0].sockets(), net.stacks[1].sockets()), (0, 1));
}

#[test]
fn closing_with_unread_bytes_resets() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    net.stacks[0].tcp_write(client, b"never read").unwrap();
    net.settle();
    net.stacks[1].close(net.now, server).unwrap();
    net.settle();
    assert_eq!(net.stacks[0].tcp_read(client, &mut [0]), Err(Error::Reset));
    assert_eq!(net.stacks[1].sockets(), 1);
}

/// As HTTP's servers do that answer early: the answer has its end, and nobody takes the rest.
#[test]
fn who_finishes_and_then_resets_has_said_all() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    net.stacks[0].tcp_write(client, b"never read").unwrap();
    net.settle();
    net.stacks[1].tcp_write(server, b"answer").unwrap();
    net.stacks[1].tcp_finish(server).unwrap();
    net.settle();
    net.stacks[1].close(net.now, server).unwrap();
    net.settle();
    let stack = &mut net.stacks[0];
    assert_eq!(stack.tcp_state(client), Ok(State::Closed));
    assert_eq!(stack.tcp_read(client, &mut [0; 9]), Ok(Some(6)));
    assert_eq!([(); 2].map(|()| stack.tcp_read(client, &mut [0; 9])), [Ok(Some(0)); 2]);
    assert_eq!(stack.tcp_write(client, b"more"), Err(Error::Broken));
    assert_eq!(stack.take_error(client), Ok(Some(Error::Broken)));
}

#[test]
fn a_listener_that_closes_resets_who_waits() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let listener = net.stacks[1].tcp_listen(net.addr(1, 80), 8).unwrap();
    let client = net.stacks[0].tcp_connect(net.now, net.addr(1, 80)).unwrap();
    net.settle();
    net.stacks[1].close(net.now, listener).unwrap();
    net.settle();
    assert_eq!(net.stacks[0].tcp_read(client, &mut [0]), Err(Error::Reset));
    assert_eq!(net.stacks[1].sockets(), 0);
}

#[test]
fn backlog_bounds_and_many_connect() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let listener = net.stacks[1].tcp_listen(net.addr(1, 80), 4).unwrap();
    let mut greeted = 0;
    for _ in 0..3 {
        let clients: Vec<_> =
            (0..12).map(|_| net.stacks[0].tcp_connect(net.now, net.addr(1, 80)).unwrap()).collect();
        for _ in 0..20 {
            net.run(Duration::from_millis(500));
            while let Some((id, _)) = net.stacks[1].tcp_accept(listener).unwrap() {
                net.stacks[1].tcp_write(id, b"hi").unwrap();
            }
        }
        for client in clients {
            match net.stacks[0].tcp_read(client, &mut [0; 8]) {
                Ok(Some(2)) => greeted += 1,
                // The queue was full when its handshake ended, and it has nothing to send again.
                unheard => assert_eq!(unheard, Ok(None)),
            }
        }
    }
    assert!((12..36).contains(&greeted), "{greeted}");
    assert!(net.stacks[1].counters().cookies > 0);
}

/// What is urgent is told and stays in its place in the stream (RFC 6093); what was looked at stays until it is taken.
#[test]
fn urgent_bytes_are_told_and_bytes_may_be_looked_at() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    assert_eq!(net.stacks[0].tcp_write(client, b"hurry, please"), Ok(13));
    net.stacks[0].tcp_mark_urgent(client).unwrap();
    net.settle();
    assert!(net.had(1, server, Event::Urgent));
    let stack = &mut net.stacks[1];
    for (shown, taken) in [(&b"hurry, please"[..], 7), (b"please", 6), (b"", 0)] {
        let (front, back) = stack.tcp_peek(server).unwrap();
        assert_eq!([front, back].concat(), shown);
        stack.tcp_consume(server, taken).unwrap();
    }
}

#[test]
fn clients_that_find_the_accept_queue_full_are_served_later() {
    const CLIENTS: usize = 300;
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let listener = net.stacks[1].tcp_listen(net.addr(1, 80), 64).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| net.stacks[0].tcp_connect(net.now, net.addr(1, 80)).unwrap())
        .collect();
    let (mut asked, mut answered) = (vec![false; CLIENTS], vec![false; CLIENTS]);
    let mut servers = Vec::new();
    let end = net.now + Duration::from_secs(60);
    // The server begins to accept when all handshakes that can end have ended.
    let begin = net.now + Duration::from_secs(1);
    while answered.contains(&false) {
        assert!(net.now < end, "{} of {CLIENTS}", answered.iter().filter(|is| **is).count());
        for (n, client) in clients.iter().enumerate() {
            if !asked[n] && net.stacks[0].tcp_write(*client, b"ask").unwrap() > 0 {
                asked[n] = true;
            }
            let read = net.stacks[0].tcp_read(*client, &mut [0; 8]).unwrap();
            answered[n] |= read == Some(3);
        }
        while net.now >= begin
            && let Some((server, _)) = net.stacks[1].tcp_accept(listener).unwrap()
        {
            servers.push(server);
        }
        for server in &servers {
            if net.stacks[1].tcp_read(*server, &mut [0; 8]).unwrap() == Some(3) {
                assert_eq!(net.stacks[1].tcp_write(*server, b"yes"), Ok(3));
            }
        }
        net.step(Duration::from_millis(50));
    }
    assert_eq!(servers.len(), CLIENTS);
}

#[test]
fn room_is_shown_when_a_third_of_the_send_buffer_is_free() {
    const BUFFER: u32 = 60_000;
    let mut config = Config::default();
    config.tcp.send_buffer = BUFFER;
    let mut net = Net::new(PLAIN, 1500, config);
    let (client, server) = connected(&mut net, 80);
    let (mut shown, mut hidden) = (0, 0);
    for _ in 0..40 {
        while net.stacks[0].tcp_write(client, &[7; 9000]).unwrap() > 0 {
            net.settle();
        }
        assert!(!net.stacks[0].readiness(client).unwrap().writable);
        loop {
            net.stacks[1].tcp_read(server, &mut [0; 5000]).unwrap();
            net.step(Duration::from_millis(10));
            let room = net.stacks[0].tcp_room(client).unwrap().1;
            if net.stacks[0].readiness(client).unwrap().writable {
                assert!(room * 3 >= BUFFER as usize, "{room}");
                shown += 1;
                break;
            }
            hidden += usize::from(room > 0);
        }
    }
    assert!(shown == 40 && hidden > 0, "{shown} {hidden}");
}
