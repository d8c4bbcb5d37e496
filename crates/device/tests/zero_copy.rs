//! Frames that leave from a region: the kernel takes the memory, and nobody at the other end can tell.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_device::udp::{Config, Udp};
use fusewire_device::{Device, Ecn, Event, Region, RxBatch, TxFrame};

const HEADER: usize = 32;

fn bind(addr: &str) -> Udp {
    Udp::bind(addr.parse().unwrap(), &Config::default()).unwrap()
}

/// This kernel can send without a copy; an older one copies, and there is nothing to see here.
fn can(device: &Udp) -> bool {
    let copies = device.caps().notes.iter().any(|note| note.starts_with("frames are copied"));
    if copies {
        eprintln!("skipped: {:?}", device.caps().notes);
    }
    !copies
}

/// Fills the region with a pattern that tells every place.
fn fill(region: &mut Region, seed: u8) {
    for (i, b) in region.iter_mut().enumerate() {
        *b = (i ^ (i >> 8)) as u8 ^ seed;
    }
}

/// Neighbouring frames of `len` bytes from byte `start` of the region.
fn frames<'a>(
    region: &'a Region,
    peer: SocketAddr,
    start: usize,
    len: usize,
    count: usize,
) -> Vec<TxFrame<'a>> {
    region[start..start + len * count]
        .chunks(len)
        .map(|bytes| {
            let (header, payload) = bytes.split_at(HEADER);
            TxFrame { peer, header, payload, ecn: Ecn::Ect0 }
        })
        .collect()
}

fn collect(device: &mut Udp, bytes: usize) -> Vec<u8> {
    let mut batch = RxBatch::new(4);
    let mut got = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while got.len() < bytes {
        assert!(Instant::now() < deadline, "only {} of {bytes} bytes came", got.len());
        if device.receive(&mut batch).unwrap() == 0 {
            device.wait(Some(Duration::from_millis(100)), false).unwrap();
        }
        for packet in batch.iter() {
            assert_eq!(packet.ecn, Ecn::Ect0);
            packet.frames().for_each(|f| got.extend_from_slice(f));
        }
    }
    got
}

/// At any offset in its pages, in segments of any size, singly and in runs of several messages.
#[test]
fn frames_arrive_as_they_lie_in_the_region() {
    for addr in ["127.0.0.1:0", "[::1]:0"] {
        let (mut a, mut b) = (bind(addr), bind(addr));
        if !can(&a) {
            return;
        }
        let mut region = a.region(1 << 20);
        fill(&mut region, 7);
        let peer = b.local_addr();
        for (start, len, count) in [
            (0, 1452, 45),
            (1, 1452, 100),
            (4095, 9000, 7),
            (77, 65_000, 1),
            (3, 60_001, 3),
            (5, 300, 64),
        ] {
            let frames = frames(&region, peer, start, len, count);
            assert_eq!(a.transmit_from(&region, &frames).unwrap(), count);
            assert_eq!(collect(&mut b, len * count), region[start..start + len * count]);
            assert!(a.takes_memory(peer), "{count} frames of {len} bytes went by a copy");
        }
    }
}

/// What is small, or lies elsewhere, is copied; the order is kept.
#[test]
fn copied_frames_keep_their_place_between_the_others() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let mut region = a.region(1 << 20);
    fill(&mut region, 1);
    let peer = b.local_addr();
    let apart = [0xee; 1000];
    let mut all = frames(&region, peer, 100, 1000, 20);
    all.push(TxFrame { peer, header: &region[200_000..200_032], payload: &apart, ecn: Ecn::Ect0 });
    all.extend(frames(&region, peer, 50_000, 1200, 20));
    all.push(TxFrame { peer, header: &region[..40], payload: &[], ecn: Ecn::Ect0 });
    let expected: Vec<u8> = all.iter().flat_map(|f| [f.header, f.payload].concat()).collect();
    assert_eq!(a.transmit_from(&region, &all).unwrap(), all.len());
    assert_eq!(collect(&mut b, expected.len()), expected);
}

/// Datagrams of a peer with a socket of its own, and of others, both come; a sleeper wakes for both.
#[test]
fn everybody_is_still_heard() {
    let (mut a, mut b, mut c) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    if !can(&a) {
        return;
    }
    let mut region = a.region(1 << 16);
    fill(&mut region, 2);
    let to = a.local_addr();
    a.transmit_from(&region, &frames(&region, b.local_addr(), 0, 1000, 20)).unwrap();
    assert!(a.takes_memory(b.local_addr()) && !a.takes_memory(c.local_addr()));
    collect(&mut b, 20_000);
    for (is_b, byte) in [(true, 1u8), (false, 2), (true, 3)] {
        let device = if is_b { &mut b } else { &mut c };
        let bytes = [byte; 500];
        let frame = TxFrame { peer: to, header: &bytes, payload: &[], ecn: Ecn::Ect0 };
        device.transmit(&[frame]).unwrap();
        assert!(a.wait(Some(Duration::from_secs(10)), false).unwrap());
        assert_eq!(collect(&mut a, 500), bytes);
    }
    while a.wait(Some(Duration::ZERO), false).unwrap() {
        a.receive(&mut RxBatch::new(1)).unwrap();
    }
    assert!(!a.wait(Some(Duration::from_millis(20)), false).unwrap(), "nothing waits any more");
}

/// The second socket on the address must not let a stranger bind it too.
#[test]
fn the_address_stays_ours() {
    let (mut a, b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let region = a.region(1 << 16);
    a.transmit_from(&region, &frames(&region, b.local_addr(), 0, 1000, 20)).unwrap();
    let second = Udp::bind(a.local_addr(), &Config::default());
    assert_eq!(second.err().map(|e| e.kind()), Some(std::io::ErrorKind::AddrInUse));
}

#[test]
fn a_peer_that_goes_away_is_told_and_harms_nothing() {
    let (mut a, mut c) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let gone = bind("127.0.0.1:0").local_addr();
    let mut region = a.region(1 << 16);
    fill(&mut region, 3);
    let mut told = 0;
    for _ in 0..10 {
        assert_eq!(a.transmit_from(&region, &frames(&region, gone, 0, 1000, 20)).unwrap(), 20);
        let to_c = frames(&region, c.local_addr(), 9, 1000, 20);
        assert_eq!(a.transmit_from(&region, &to_c).unwrap(), 20);
        assert_eq!(collect(&mut c, 20_000), region[9..20_009]);
        assert_eq!(a.receive(&mut RxBatch::new(1)).unwrap(), 0);
        while let Some(event) = a.poll_event() {
            assert_eq!(event, Event::Unreachable { peer: gone, is_closed: true });
            told += 1;
        }
    }
    assert!(told >= 5, "{told} of 10 refusals were told");
    while a.wait(Some(Duration::ZERO), false).unwrap() {
        a.receive(&mut RxBatch::new(1)).unwrap();
    }
    assert!(!a.wait(Some(Duration::from_millis(20)), false).unwrap(), "an idle device sleeps");
}

/// More peers than sockets: all are served.
#[test]
fn many_peers_are_served_though_sockets_are_few() {
    let mut a = bind("127.0.0.1:0");
    let mut region = a.region(1 << 16);
    fill(&mut region, 4);
    for i in 0..300 {
        let mut b = bind("127.0.0.1:0");
        let sent = frames(&region, b.local_addr(), i, 1000, 10);
        assert_eq!(a.transmit_from(&region, &sent).unwrap(), 10);
        assert_eq!(collect(&mut b, 10_000), region[i..i + 10_000]);
    }
}
