//! The UDP device over loopback: frames arrive whole, in runs and singly, by both IP versions.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fusewire_device::sockets::{self, Entry};
use fusewire_device::udp::{Config, Udp};
use fusewire_device::{Device, Ecn, Event, RxBatch, TxFrame};
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};

/// Runs `test` for each device that the kernel lets us have.
fn each(test: impl Fn(&Entry)) {
    for entry in sockets::ALL {
        match entry.bind(([127, 0, 0, 1], 0).into(), &Config::default()) {
            Ok(_) => test(entry),
            Err(e) => eprintln!("not tested: {}: {e}", entry.name),
        }
    }
}

fn bind(entry: &Entry, addr: &str, offload: bool) -> Box<dyn Device> {
    entry.bind(addr.parse().unwrap(), &Config { offload, ..Config::default() }).unwrap()
}

/// Receives until `count` frames came.
fn collect(device: &mut dyn Device, count: usize) -> Vec<(SocketAddr, Ecn, Vec<u8>)> {
    let mut batch = RxBatch::new(4);
    let mut got = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while got.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} frames came", got.len());
        if device.receive(&mut batch).unwrap() == 0 {
            device.wait(Some(Duration::from_millis(100)), false).unwrap();
        }
        for packet in batch.iter() {
            got.extend(packet.frames().map(|f| (packet.peer, packet.ecn, f.to_vec())));
        }
        batch.clear();
    }
    got
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}

fn round_trip(entry: &Entry, local: &str, remote: &str, send_offload: bool, receive_offload: bool) {
    let mut a = bind(entry, local, send_offload);
    let mut b = bind(entry, remote, receive_offload);
    let peer = b.local_addr();
    let sizes = [60, 60, 60, 20, 1452, 1452, 1452, 9000, 9000, 100, 65_000, 32, 32, 33];
    let data: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &n)| pattern(n, i)).collect();
    let frames: Vec<_> = data
        .iter()
        .map(|d| {
            let (header, payload) = d.split_at(20);
            TxFrame { peer, header, payload, ecn: Ecn::Ect0 }
        })
        .collect();
    assert_eq!(a.transmit(&frames).unwrap(), frames.len());
    let got = collect(&mut *b, frames.len());
    for ((from, ecn, bytes), sent) in got.iter().zip(&data) {
        assert_eq!(from.port(), a.local_addr().port());
        assert_eq!(*ecn, Ecn::Ect0);
        assert_eq!(bytes, sent);
    }
}

#[test]
fn frames_of_many_sizes_arrive_in_order() {
    each(|entry| {
        for send in [true, false] {
            for receive in [true, false] {
                round_trip(entry, "127.0.0.1:0", "127.0.0.1:0", send, receive);
                round_trip(entry, "[::1]:0", "[::1]:0", send, receive);
            }
        }
    });
}

#[test]
fn a_dual_stack_socket_talks_to_an_ipv4_peer() {
    each(|entry| {
        let mut a = bind(entry, "[::]:0", true);
        let mut b = bind(entry, "127.0.0.1:0", true);
        let data = pattern(2000, 3);
        let frames: Vec<_> = data
            .chunks(200)
            .map(|c| TxFrame {
                peer: b.local_addr(),
                header: &c[..20],
                payload: &c[20..],
                ecn: Ecn::Ect1,
            })
            .collect();
        assert_eq!(a.transmit(&frames).unwrap(), 10);
        let got = collect(&mut *b, 10);
        assert!(got.iter().all(|(_, ecn, _)| *ecn == Ecn::Ect1));
        let reply = SocketAddr::from(([127, 0, 0, 1], a.local_addr().port()));
        b.transmit(&[TxFrame { peer: reply, header: &data[..40], payload: &[], ecn: Ecn::Ce }])
            .unwrap();
        let got = collect(&mut *a, 1);
        assert_eq!(got, [(b.local_addr(), Ecn::Ce, data[..40].to_vec())]);
    });
}

#[test]
fn a_frame_that_is_too_big_is_told_and_the_others_leave() {
    each(|entry| {
        let mut a = bind(entry, "127.0.0.1:0", true);
        let mut b = bind(entry, "127.0.0.1:0", true);
        let peer = b.local_addr();
        let (small, large) = (pattern(100, 1), pattern(65_520, 2));
        let frame = |bytes| TxFrame { peer, header: &[], payload: bytes, ecn: Ecn::NotEct };
        assert_eq!(a.transmit(&[frame(&small), frame(&large), frame(&small)]).unwrap(), 3);
        assert_eq!(a.poll_event(), Some(Event::TooBig { peer, len: large.len() }));
        assert_eq!(a.poll_event(), None);
        assert_eq!(collect(&mut *b, 2).len(), 2);
    });
}

#[test]
fn a_peer_that_refuses_is_told_and_harms_nothing() {
    each(|entry| {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let mut a = bind(entry, addr, true);
            let mut b = bind(entry, addr, true);
            let gone = bind(entry, addr, true).local_addr();
            let data = pattern(500, 1);
            let frame = |peer| TxFrame { peer, header: &data, payload: &[], ecn: Ecn::NotEct };
            let mut told = 0;
            for _ in 0..20 {
                // The error of the first is pending when the second is sent, which goes elsewhere.
                assert_eq!(a.transmit(&[frame(gone)]).unwrap(), 1);
                assert_eq!(a.transmit(&[frame(b.local_addr()), frame(gone)]).unwrap(), 2);
                assert_eq!(a.receive(&mut RxBatch::new(1)).unwrap(), 0);
                while let Some(event) = a.poll_event() {
                    assert_eq!(event, Event::Unreachable { peer: gone, is_closed: true });
                    told += 1;
                }
            }
            assert!(told >= 20, "{told} of 40 refusals were told");
            assert_eq!(collect(&mut *b, 20).len(), 20);
            // All errors were taken: an idle socket sleeps.
            a.receive(&mut RxBatch::new(1)).unwrap();
            while a.wait(Some(Duration::ZERO), false).unwrap() {}
            assert!(!a.wait(Some(Duration::from_millis(20)), false).unwrap());
        }
    });
}

#[test]
fn a_refusal_wakes_a_sleeper() {
    each(|entry| {
        let mut a = bind(entry, "127.0.0.1:0", true);
        let gone = bind(entry, "127.0.0.1:0", true).local_addr();
        let frame = TxFrame { peer: gone, header: &[1; 40], payload: &[], ecn: Ecn::NotEct };
        a.transmit(&[frame]).unwrap();
        assert!(a.wait(Some(Duration::from_secs(10)), false).unwrap());
        assert_eq!(a.poll_event(), Some(Event::Unreachable { peer: gone, is_closed: true }));
    });
}

#[test]
fn says_what_it_got() {
    each(|entry| {
        let with = bind(entry, "127.0.0.1:0", true);
        assert!(with.caps().receive_buffer_bytes > 0);
        let without = bind(entry, "127.0.0.1:0", false);
        assert!(!without.caps().segmentation_offload && !without.caps().receive_offload);
        assert!(without.caps().notes.iter().any(|n| n.contains("not asked for")));
    });
}

#[test]
fn buffers_go_round_and_frames_of_a_region_arrive() {
    each(|entry| {
        let (mut a, mut b) = (bind(entry, "127.0.0.1:0", true), bind(entry, "127.0.0.1:0", true));
        let peer = b.local_addr();
        let mut region = a.region(1 << 20);
        let mut sent = 0u64;
        for round in 0..200 {
            // In bulk, so that the kernel takes the memory where it can; it stays as it is until it has come.
            let chunk = 60_000;
            let start = round % 16 * chunk;
            let bytes = pattern(chunk, round);
            region[start..start + chunk].copy_from_slice(&bytes);
            let memory = &region[start..start + chunk];
            let frames: Vec<_> = memory
                .chunks(1200)
                .map(|c| TxFrame { peer, header: &c[..20], payload: &c[20..], ecn: Ecn::NotEct })
                .collect();
            assert_eq!(a.transmit_from(&region, &frames).unwrap(), frames.len());
            let got = collect(&mut *b, frames.len());
            assert!(got.iter().map(|(_, _, f)| &f[..]).eq(bytes.chunks(1200)), "round {round}");
            sent += bytes.len() as u64;
        }
        assert_eq!(sent, 12_000_000);
    });
}

#[test]
fn a_ring_outlives_the_thread_that_asked_it_and_is_given_back() {
    each(|entry| {
        let mut b = bind(entry, "127.0.0.1:0", true);
        let mut a = bind(entry, "127.0.0.1:0", true);
        // Asked in a thread that ends: what it asked for ends with it.
        b = std::thread::spawn(move || {
            assert_eq!(b.receive(&mut RxBatch::new(2)).unwrap(), 0);
            b
        })
        .join()
        .unwrap();
        let frame =
            TxFrame { peer: b.local_addr(), header: &[7; 99], payload: &[], ecn: Ecn::NotEct };
        a.transmit(&[frame]).unwrap();
        assert_eq!(collect(&mut *b, 1)[0].2, [7; 99]);
        // Nothing is written to memory of ours once it is gone, and the port is free at once.
        let addr = b.local_addr();
        drop(b);
        a.transmit(&[frame]).unwrap();
        assert!(entry.bind(addr, &Config::default()).is_ok());
    });
}

/// Octets of traffic class that IP's headers to a port have, as a socket of packets sees them.
fn classes(seen: &OwnedFd, port: u16) -> BTreeSet<u8> {
    let mut found = BTreeSet::new();
    let mut bytes = vec![0; 1 << 17];
    while let Ok((len, _)) = recv(seen, &mut bytes[..], RecvFlags::DONTWAIT) {
        let packet = SlicedPacket::from_ip(&bytes[..len]).unwrap();
        let Some(TransportSlice::Udp(udp)) = packet.transport else { continue };
        if udp.destination_port() == port {
            found.insert(match packet.net.unwrap() {
                NetSlice::Ipv4(_) => bytes[1],
                _ => bytes[0] << 4 | bytes[1] >> 4,
            });
        }
    }
    found
}

#[test]
fn what_leaves_has_its_code_point() {
    in_namespace("what_leaves_has_its_code_point", Need::Namespace, "", || {
        let all = Protocol::from_raw(u32::from(3u16.to_be()).try_into().unwrap());
        let seen = socket(AddressFamily::PACKET, SocketType::DGRAM, Some(all)).unwrap();
        let config = Config { dscp: 64, ..Config::default() };
        assert!(Udp::bind(([127, 0, 0, 1], 0).into(), &config).is_err());
        let config = Config { dscp: 46, ..config };
        for (local, remote) in
            [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0"), ("[::]:0", "127.0.0.1:0")]
        {
            let mut a = Udp::bind(local.parse().unwrap(), &config).unwrap();
            let mut b = Udp::bind(remote.parse().unwrap(), &Config::default()).unwrap();
            let peer = b.local_addr();
            let region = a.region(1 << 20);
            for (ecn, expected) in [(Ecn::NotEct, 46 << 2), (Ecn::Ect0, 46 << 2 | 2)] {
                let frames = region[..16_000].chunks(1000).map(|bytes| {
                    let (header, payload) = bytes.split_at(32);
                    TxFrame { peer, header, payload, ecn }
                });
                let frames: Vec<_> = frames.collect();
                // One is copied; many are not where the kernel can.
                for count in [1, frames.len()] {
                    let sent = a.transmit_from(&region, &frames[..count]).unwrap();
                    collect(&mut b, sent);
                    assert_eq!(classes(&seen, peer.port()), BTreeSet::from([expected]));
                }
            }
        }
    });
}
