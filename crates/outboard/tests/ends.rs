//! Who closes at once behind what he has sent: it goes, whatever he has left unread, and what he had is free.

mod scene;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use fusewire_outboard::client;
use fusewire_outboard::protocol::{Family, Kind, SocketType};
use fusewire_stack::byte_stream::ByteListener;
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::event::PollFlags;
use rustix::io::IoSlice;
use rustix::net::SendFlags;

use scene::{ROLE, SETUP, STREAM, Scene, at, content};

const DATAGRAM: SocketType = SocketType { family: Family::V4, kind: Kind::Datagram };
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const ROUNDS: usize = 60;

/// Not a test: the kernel's peer.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    if std::env::var(ROLE).is_ok() {
        scene::kernel();
    }
}

#[test]
fn what_was_written_goes_before_the_reset() {
    in_namespace("what_was_written_goes_before_the_reset", Need::Root, SETUP, || {
        let mut scene = Scene::new();
        for round in 0..ROUNDS {
            // By the pair, by the rings, and by rings that are given up.
            let socket = scene.socket(7005);
            if round % 3 > 0 {
                socket.lease();
            }
            assert_eq!(socket.shown(PollFlags::IN, 5000), PollFlags::IN);
            // More than one segment, and all of it within the first windows.
            socket.send_all(&content(1, 5000));
            if round % 3 == 2 {
                scene.rings.give_up(socket.p.as_fd(), &socket.way);
                socket.send_all(&content(1, 100));
            }
            socket.close();
            let sent = if round % 3 == 2 { 5100 } else { 5000 };
            let said = scene.next_line();
            assert_eq!(said, format!("{sent} then Err(ConnectionReset)"), "{round}");
        }
    });
}

#[test]
fn a_datagram_goes_although_its_socket_is_closed() {
    in_namespace("a_datagram_goes_although_its_socket_is_closed", Need::Root, SETUP, || {
        let mut scene = Scene::new();
        for len in 1..=ROUNDS {
            // Nobody knows the peer's Ethernet address yet when the first goes.
            let (p, _) = scene.client.socket(DATAGRAM).unwrap();
            let bytes = vec![7; len];
            let to = Some(at(7000));
            client::send_to(&p, &[IoSlice::new(&bytes)], to, SendFlags::empty()).unwrap();
            drop(p);
            assert_eq!(scene.next_line(), format!("heard {len}"));
        }
    });
}

#[test]
fn a_port_is_free_once_its_socket_is_closed() {
    in_namespace("a_port_is_free_once_its_socket_is_closed", Need::Root, SETUP, || {
        let scene = Scene::new();
        let local = SocketAddr::new(IpAddr::V4(OURS), 9000);
        for (round, of) in [STREAM, DATAGRAM].into_iter().cycle().take(ROUNDS).enumerate() {
            let (p, handle) = scene.client.socket(of).unwrap();
            assert_eq!(scene.client.bind(handle, local), Ok(()), "round {round}");
            if of == STREAM && round % 4 == 0 {
                scene.client.listen(handle, 8).unwrap();
            }
            // Somebody has it still.
            let (other, second) = scene.client.socket(of).unwrap();
            let taken = Err(rustix::io::Errno::ADDRINUSE);
            assert_eq!(scene.client.bind(second, local), taken, "round {round}");
            drop((p, other));
        }
    });
}

/// Who ends a server of streams does not wait until it looks by itself.
#[test]
fn who_waits_for_a_connection_can_be_woken() {
    in_namespace("who_waits_for_a_connection_can_be_woken", Need::Root, SETUP, || {
        let scene = Scene::new();
        let outboard = client::Outboard::at(&scene.path).unwrap();
        let listener = client::Listener::bind(&outboard, SocketAddr::new(OURS.into(), 7)).unwrap();
        let (waker, (tells, told)) = (listener.waker(), mpsc::channel());
        std::thread::spawn(move || tells.send(listener.accept_within(Duration::from_secs(600))));
        // Whether it waits by then or not.
        waker.wake();
        let accepted = told.recv_timeout(Duration::from_secs(60)).expect("it was woken").unwrap();
        assert!(accepted.is_none());
    });
}
