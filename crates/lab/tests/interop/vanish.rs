//! What goes away under way: the link, its MTU, our address. The API says so, and nothing hangs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fusewire_stack::ip::{Error, Event};

use crate::lan::{Lan, Link, PATIENCE, TAP, at, can_run, content, ours};
use crate::services::{Echo, Server};

const BYTES: usize = 4 << 20;

/// A kernel's program that writes until it cannot any more.
fn writer(lan: &Lan, port: u16) -> std::thread::JoinHandle<std::io::Result<()>> {
    let namespace = lan.namespace.clone();
    std::thread::spawn(move || {
        let write = || {
            let mut stream = TcpStream::connect(at(ours(false), port))?;
            stream.set_write_timeout(Some(Duration::from_secs(2)))?;
            loop {
                stream.write_all(&[7; 1 << 14])?;
            }
        };
        namespace.run(write).unwrap()
    })
}

#[test]
fn a_deleted_link_is_an_error_at_once() {
    if !can_run(&[]) {
        return;
    }
    for offload in [false, true] {
        let mut lan = Lan::new(Link { mtu: 1500, offload });
        let listener = lan.stack.tcp_listen(at(ours(false), 7), 4).unwrap();
        let peer = writer(&lan, 7);
        let (id, _) = lan.drive("connecting", |lan| lan.stack.tcp_accept(listener).unwrap());
        let mut buffer = vec![0; 1 << 16];
        lan.drive("some of the transfer", |lan| lan.stack.tcp_read(id, &mut buffer).unwrap());
        lan.namespace.ip(&format!("link delete {TAP}")).unwrap();
        let started = Instant::now();
        let error = loop {
            let now = lan.clock.now();
            let waited = lan.stack.wait(now, Some(Duration::from_millis(100)), false);
            match waited.and_then(|_| lan.stack.poll(lan.clock.now())) {
                Ok(_) => assert!(started.elapsed() < Duration::from_secs(30), "nobody is told"),
                Err(error) => break error,
            }
        };
        println!("offload {offload}: {error}");
        assert!(peer.join().unwrap().is_err());
    }
}

#[test]
fn a_smaller_mtu_is_followed() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    for offload in [false, true] {
        let mut lan = Lan::new(Link { mtu: 1500, offload });
        let address = at(ours(false), 7);
        let mut server = Server::new(&mut lan.stack, address, |_| Echo);
        let namespace = lan.namespace.clone();
        let received = lan.against(
            "an echo while the MTU changes",
            move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut writer = stream.try_clone().unwrap();
                let write = std::thread::spawn(move || {
                    for (i, chunk) in content(BYTES).chunks(BYTES / 4).enumerate() {
                        let mtu = [1500, 1000, 1400, 700][i];
                        namespace.ip(&format!("link set {TAP} mtu {mtu}")).unwrap();
                        writer.write_all(chunk).unwrap();
                    }
                    writer.shutdown(std::net::Shutdown::Write).unwrap();
                });
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                write.join().unwrap();
                received
            },
            |lan| server.step(lan),
        );
        assert_eq!(blake3::hash(&received), blake3::hash(&content(BYTES)), "offload {offload}");
        assert_eq!(lan.stack.capabilities().mtu, 700);
    }
}

#[test]
fn a_removed_address_ends_its_connections() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    let listener = lan.stack.tcp_listen(at(ours(false), 7), 4).unwrap();
    let udp = lan.stack.udp_bind(at(ours(false), 9)).unwrap();
    let peer = writer(&lan, 7);
    let (id, _) = lan.drive("connecting", |lan| lan.stack.tcp_accept(listener).unwrap());
    let mut buffer = vec![0; 1 << 16];
    lan.drive("some of the transfer", |lan| lan.stack.tcp_read(id, &mut buffer).unwrap());
    let now = lan.clock.now();
    lan.stack.remove_address(now, ours(false)).unwrap();
    let error = lan.drive("the error", |lan| {
        loop {
            match lan.stack.tcp_read(id, &mut buffer) {
                Ok(Some(len)) if len > 0 => {}
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        }
    });
    assert!(matches!(error, Error::NotOurs(_)), "{error}");
    assert!(lan.events.contains(&(id, Event::Closed)), "{:?}", lan.events);
    assert!(matches!(lan.stack.udp_recv(udp, &mut buffer), Err(Error::NotOurs(_))));
    let now = lan.clock.now();
    let error = lan.stack.tcp_connect(now, at(crate::lan::kernel(false), 7)).unwrap_err();
    assert!(matches!(error, Error::NoRoute | Error::NotOurs(_)), "{error}");
    // The peer was told.
    lan.drive("the peer's error", |_| peer.is_finished().then_some(()));
    assert!(peer.join().unwrap().is_err());
    capture.check(2);
}
