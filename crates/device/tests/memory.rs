//! Memory devices behave as UDP sockets do, without the network.

use std::time::Duration;

use fusewire_device::memory::{Config, Network, pair};
use fusewire_device::{Device, Ecn, Event, RxBatch, TxFrame};

fn frame<'a>(peer: &impl Device, header: &'a [u8], payload: &'a [u8]) -> TxFrame<'a> {
    TxFrame { peer: peer.local_addr(), header, payload, ecn: Ecn::Ect0 }
}

#[test]
fn equal_frames_come_as_one_super_packet_that_ends_with_a_shorter_one() {
    let (mut a, mut b) = pair(Config::default()).unwrap();
    let sent = [&[1u8; 30][..], &[2; 30], &[3; 10], &[4; 10], &[5; 20]];
    for bytes in sent {
        a.transmit(&[frame(&b, &bytes[..5], &bytes[5..])]).unwrap();
    }
    assert!(b.wait(None, false).unwrap());
    let mut batch = RxBatch::new(4);
    assert_eq!(b.receive(&mut batch).unwrap(), 3);
    let lens: Vec<_> = batch.iter().map(|p| (p.segment_len, p.bytes.len())).collect();
    assert_eq!(lens, [(30, 70), (10, 10), (20, 20)]);
    let frames: Vec<_> = batch.iter().flat_map(|p| p.frames()).collect();
    assert_eq!(frames, sent);
    assert!(batch.iter().all(|p| p.peer == a.local_addr() && p.ecn == Ecn::Ect0));
    assert!(!b.wait(Some(Duration::ZERO), false).unwrap());
}

#[test]
fn what_does_not_fit_the_batch_stays() {
    let (mut a, mut b) = pair(Config { coalesce: false, ..Config::default() }).unwrap();
    for n in 0..5u8 {
        a.transmit(&[frame(&b, &[n; 40], &[])]).unwrap();
    }
    let mut batch = RxBatch::new(2);
    let mut got = Vec::new();
    while b.wait(Some(Duration::ZERO), false).unwrap() {
        b.receive(&mut batch).unwrap();
        got.extend(batch.iter().map(|p| p.bytes[0]));
    }
    assert_eq!(got, [0, 1, 2, 3, 4]);
}

#[test]
fn a_full_mailbox_drops_and_counts() {
    let (mut a, mut b) = pair(Config { mailbox_bytes: 100, ..Config::default() }).unwrap();
    for _ in 0..4 {
        assert_eq!(a.transmit(&[frame(&b, &[0; 40], &[])]).unwrap(), 1);
    }
    assert_eq!(b.dropped(), 2);
    let mut batch = RxBatch::new(2);
    b.receive(&mut batch).unwrap();
    a.transmit(&[frame(&b, &[0; 40], &[])]).unwrap();
    assert_eq!((b.receive(&mut batch).unwrap(), b.dropped()), (1, 2));
}

#[test]
fn too_big_and_unreachable_are_told() {
    let network = Network::new(Config { max_datagram: 50, ..Config::default() });
    let mut a = network.attach("10.0.0.1:1".parse().unwrap()).unwrap();
    let b = network.attach("10.0.0.2:1".parse().unwrap()).unwrap();
    assert!(network.attach("10.0.0.2:1".parse().unwrap()).is_err());
    let peer = b.local_addr();
    a.transmit(&[frame(&b, &[0; 20], &[0; 31])]).unwrap();
    drop(b);
    a.transmit(&[TxFrame { peer, header: &[0; 20], payload: &[], ecn: Ecn::NotEct }]).unwrap();
    assert_eq!(a.poll_event(), Some(Event::TooBig { peer, len: 51 }));
    assert_eq!(a.poll_event(), Some(Event::Unreachable { peer, is_closed: false }));
    assert_eq!(a.poll_event(), None);
}
