//! The pair of interfaces in memory: packets arrive as they were sent, and only what was offered is taken.

mod support;

use std::io::IoSlice;
use std::time::Duration;

use fusewire_device::interface::memory::{Config, Memory, pair};
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, Split, TxPacket};
use support::whole;

#[test]
fn packets_arrive_gathered_and_in_order() {
    for link in [Link::Ethernet, Link::Ip] {
        let (mut a, mut b) = pair(Config { link, batch_packets: 2, ..Config::default() }).unwrap();
        assert_eq!(a.capabilities().mac.is_some(), link == Link::Ethernet);
        assert_ne!(a.capabilities().mac.unwrap_or([0; 6]), b.capabilities().mac.unwrap_or([1; 6]));
        let pieces = [IoSlice::new(b"two "), IoSlice::new(b"three")];
        let packets = [whole(b"1 ", &pieces), whole(b"2", &[]), whole(b"3", &[])];
        assert_eq!(a.transmit(&packets).unwrap(), 3);
        assert!(b.wait(None, false).unwrap());
        assert_eq!(b.receive().unwrap(), 2);
        assert_eq!((b.packet(0).bytes, b.packet(1).bytes), (&b"1 two three"[..], &b"2"[..]));
        assert!(b.wait(None, false).unwrap());
        assert_eq!(b.receive().unwrap(), 1);
        assert_eq!(b.packet(0).bytes, b"3");
        assert!(!b.wait(Some(Duration::from_millis(1)), false).unwrap());
        assert_eq!(b.receive().unwrap(), 0);
    }
}

#[test]
fn super_frames_and_partial_checksums_pass_where_they_are_switched_on() {
    let config = Config { checksum: true, segmentation: true, ..Config::default() };
    let checksum = Checksum::Partial { start: 34, offset: 16 };
    let segmentation = Segmentation::Tcp { segment_len: 1000, ecn: true };
    let payload = vec![7; 60_000];
    let pieces = [IoSlice::new(&payload)];
    let packet = TxPacket { header: &[1; 54], payload: &pieces, checksum, segmentation };
    let (mut a, mut b) = pair(config).unwrap();
    assert_eq!(a.transmit(&[packet]).unwrap(), 1);
    assert_eq!(b.receive().unwrap(), 1);
    let got = b.packet(0);
    assert_eq!((got.bytes.len(), got.checksum, got.segmentation), (60_054, checksum, segmentation));

    let (mut a, _b) = pair(Config::default()).unwrap();
    for packet in [
        packet,
        TxPacket { checksum, ..whole(&[1; 54], &[]) },
        TxPacket { segmentation, ..whole(&[1; 54], &[]) },
        whole(&[1; 54], &pieces),
    ] {
        let error = a.transmit(&[packet]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_packet_is_cut_and_made_whole_again() {
    let (mut a, mut b) = pair(Config::default()).unwrap();
    for (memory_len, cut) in [(0, 0), (3, 0), (3, 2), (5, 4), (5, 5), (9, 2), (9, 7)] {
        let mut memory = vec![0; memory_len];
        let split = |b: &mut Memory, memory: &mut [u8]| {
            let (first, second) = memory.split_at_mut(cut);
            b.receive_split(4, [first, second]).unwrap()
        };
        assert_eq!(split(&mut b, &mut memory), Split::Nothing);
        a.transmit(&[whole(b"headbelow", &[]), whole(b"hea", &[])]).unwrap();
        assert_eq!(split(&mut b, &mut memory), Split::Packet { len: 9 });
        let placed = memory_len.min(5);
        assert_eq!((b.packet(0).bytes, &memory[..placed]), (&b"head"[..], &b"below"[..placed]));
        b.rejoin([&memory[..cut], &memory[cut..]]);
        assert_eq!(b.packet(0).bytes, b"headbelow");
        assert_eq!(split(&mut b, &mut memory), Split::Packet { len: 3 });
        assert_eq!(b.packet(0).bytes, b"hea", "shorter than the head");
        b.rejoin([&[], &[]]);
        assert_eq!(b.packet(0).bytes, b"hea");
    }
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (mut a, mut b) = pair(Config { queue_packets: 3, ..Config::default() }).unwrap();
    assert_eq!(a.transmit(&[whole(b"x", &[]); 5]).unwrap(), 5);
    assert_eq!((b.dropped(), a.dropped()), (2, 0));
    assert_eq!(b.receive().unwrap(), 3);
    assert_eq!(a.transmit(&[whole(b"y", &[])]).unwrap(), 1);
    assert_eq!(b.receive().unwrap(), 1);
    assert_eq!(b.packet(0).bytes, b"y");
}

#[test]
fn another_thread_wakes_who_waits() {
    let (mut a, b) = pair(Config::default()).unwrap();
    let waker = a.waker();
    let thread = std::thread::spawn(move || waker.wake());
    assert!(a.wait(Some(Duration::from_secs(10)), false).unwrap());
    thread.join().unwrap();
    drop(b);
}
