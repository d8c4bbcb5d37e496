//! Two ends in one process: data, sleeping and waking, an end that goes, an end that lies.

use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

const RING: usize = 1 << 16;
const LONG: Option<Duration> = Some(Duration::from_secs(10));

fn frame<'a>(to: &Shm, header: &'a [u8], payload: &'a [u8]) -> TxFrame<'a> {
    TxFrame { peer: to.ends.local, header, payload, ecn: Ecn::Ect0 }
}

fn pattern(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 131 + i * 7 + (i >> 8)) as u8).collect()
}

#[test]
fn frames_of_all_lengths_pass_in_order_round_and_round_the_ring() {
    let (mut a, mut b) = pair(RING).unwrap();
    let mut batch = RxBatch::new(2);
    let lens = (1..400).chain([1000, 1452, 9000, 16_000, max_frame(RING)]).cycle();
    for (n, len) in lens.take(2000).enumerate() {
        let bytes = pattern(n, len);
        let (header, payload) = bytes.split_at(len.min(32));
        assert_eq!(a.transmit(&[frame(&b, header, payload)]).unwrap(), 1);
        assert_eq!(b.receive(&mut batch).unwrap(), 1);
        let packet = batch.iter().next().unwrap();
        assert_eq!((packet.peer, packet.ecn), (a.ends.local, Ecn::Ect0));
        assert_eq!(packet.bytes, bytes);
    }
}

#[test]
fn frames_are_written_and_read_in_place_and_a_full_ring_says_so() {
    let (mut a, mut b) = pair(RING).unwrap();
    let mut sent = 0u8;
    while let Some(room) = a.reserve(1000).unwrap() {
        assert_eq!(room.as_ptr() as usize % 16, 0);
        room.fill(sent);
        a.commit(Ecn::Ce);
        sent += 1;
    }
    assert_eq!(sent, 64);
    assert_eq!(b.take().unwrap(), None, "nothing is seen before it is published");
    a.publish();
    assert!(!a.wait(Some(Duration::ZERO), true).unwrap());
    let places: Vec<Place> = std::iter::from_fn(|| b.take().unwrap()).collect();
    for (n, &place) in places.iter().enumerate() {
        assert_eq!((place.frame_len(), place.ecn), (1000, Ecn::Ce));
        assert_eq!(b.bytes(place), [n as u8; 1000]);
    }
    assert!(a.reserve(1000).unwrap().is_none(), "what is taken is not yet released");
    b.release();
    assert!(a.wait(LONG, true).unwrap());
    assert!(a.reserve(1000).unwrap().is_some());
}

#[test]
#[should_panic(expected = "holds")]
fn a_released_place_is_not_given_again() {
    let (mut a, mut b) = pair(RING).unwrap();
    a.transmit(&[frame(&b, &[1; 10], &[])]).unwrap();
    let place = b.take().unwrap().unwrap();
    b.release();
    b.bytes(place);
}

#[test]
fn a_batch_that_is_full_leaves_the_rest() {
    let (mut a, mut b) = pair(RING).unwrap();
    for len in [100, 200, 300] {
        a.transmit(&[frame(&b, &pattern(len, len), &[])]).unwrap();
    }
    let mut batch = RxBatch::new(1);
    for len in [100, 200, 300] {
        assert_eq!(b.receive(&mut batch).unwrap(), 1);
        assert_eq!(batch.iter().next().unwrap().bytes, pattern(len, len));
    }
    assert_eq!(b.receive(&mut batch).unwrap(), 0);
}

#[test]
fn too_big_and_a_stranger_are_told() {
    let (mut a, b) = pair(RING).unwrap();
    let big = vec![0; max_frame(RING) + 1];
    let stranger = "10.0.0.1:1".parse().unwrap();
    let lost = TxFrame { peer: stranger, header: &[0; 20], payload: &[], ecn: Ecn::NotEct };
    assert_eq!(a.transmit(&[frame(&b, &big, &[]), lost]).unwrap(), 2);
    assert_eq!(a.poll_event(), Some(Event::TooBig { peer: b.ends.local, len: big.len() }));
    assert_eq!(a.poll_event(), Some(Event::Unreachable { peer: stranger, is_closed: false }));
}

/// Sends `count` frames and sleeps whenever the ring is full.
fn send_all(a: &mut Shm, peer: SocketAddr, count: usize) {
    for n in 0..count {
        let bytes = pattern(n, 1 + n * 37 % 9000);
        let frame = TxFrame { peer, header: &bytes, payload: &[], ecn: Ecn::NotEct };
        while a.transmit(&[frame]).unwrap() == 0 {
            assert!(a.wait(LONG, true).unwrap(), "no room came");
        }
    }
}

/// As `pair`, with each ring at one address for both ends.
fn pair_at_one_address() -> (Shm, Shm) {
    let (_, a) = half::create(RING).unwrap();
    let (_, b) = half::create(RING).unwrap();
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (left, right) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let (local, peer) = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
    let (views, ends) = ((a.peer_view(), b.peer_view()), Ends { local, peer });
    (
        Shm::new(left, a, views.1, ends).unwrap(),
        Shm::new(right, b, views.0, Ends { local: peer, peer: local }).unwrap(),
    )
}

#[test]
fn two_threads_sleep_and_wake_each_other_and_lose_nothing() {
    pass_from_thread_to_thread(pair(RING).unwrap(), 20_000);
}

/// `cargo xtask sanitize` runs this with ThreadSanitizer.
#[test]
fn no_byte_is_read_while_it_is_written() {
    pass_from_thread_to_thread(pair_at_one_address(), 2000);
}

fn pass_from_thread_to_thread((mut a, mut b): (Shm, Shm), count: usize) {
    let peer = b.ends.local;
    let sender = thread::spawn(move || {
        send_all(&mut a, peer, count);
        a
    });
    let mut n = 0;
    while n < count {
        while let Some(place) = b.take().unwrap() {
            assert!(b.bytes(place) == pattern(n, 1 + n * 37 % 9000), "frame {n}");
            n += 1;
        }
        b.release();
        if n < count {
            assert!(b.wait(LONG, false).unwrap(), "no data came after {n} frames");
        }
    }
    drop(sender.join().unwrap());
}

#[test]
fn an_end_that_goes_leaves_its_frames_and_wakes_the_other() {
    let (mut a, mut b) = pair(RING).unwrap();
    a.transmit(&[frame(&b, &[7; 50], &[])]).unwrap();
    drop(a);
    let mut batch = RxBatch::new(1);
    assert_eq!(b.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.iter().next().unwrap().bytes, [7; 50]);
    assert!(b.wait(LONG, false).unwrap());
    assert_eq!(b.receive(&mut batch).unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    let lost = TxFrame { peer: b.ends.peer, header: &[0; 20], payload: &[], ecn: Ecn::NotEct };
    assert_eq!(b.transmit(&[lost]).unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
}

#[test]
fn another_thread_wakes_a_sleeper() {
    let (mut a, _b) = pair(RING).unwrap();
    let waker = a.waker();
    let thread = thread::spawn(move || waker.wake());
    assert!(a.wait(LONG, false).unwrap());
    thread.join().unwrap();
}

/// The error that `b` ends with after `lie` wrote into `a`'s memory. It stays with that error.
fn caught(lie: impl FnOnce(&mut Shm)) -> Violation {
    let (mut a, mut b) = pair(RING).unwrap();
    a.transmit(&[frame(&b, &[7; 50], &[])]).unwrap();
    lie(&mut a);
    let mut error = None;
    for _ in 0..3 {
        error = error.or(b.take().err());
    }
    b.release();
    let mut batch = RxBatch::new(1);
    let error = error.unwrap_or_else(|| b.reserve(max_frame(RING)).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(b.receive(&mut batch).is_err() && b.reserve(1).is_err() && b.wait(LONG, true).unwrap());
    *error.into_inner().unwrap().downcast().unwrap()
}

#[test]
fn a_lying_index_or_length_ends_the_connection() {
    for head in [63, 65, 129, RING as u64 + 128, 1 << 32, u64::MAX - 63, u64::MAX] {
        let violation = caught(|a| a.own.store(place(Word::Head), head));
        assert!(matches!(violation, Violation::Index { name: "head", .. }), "{head}: {violation}");
    }
    for len in [0, 49 + 64, 1 << 16, 1 << 31, u32::MAX] {
        let violation = caught(|a| a.own.slice_mut(0, 4).copy_from_slice(&len.to_le_bytes()));
        assert!(matches!(violation, Violation::Length { .. }), "{len}: {violation}");
    }
    // A tail that claims to have released what was never sent; seen when room runs short.
    let (mut a, b) = pair(RING).unwrap();
    b.own.store(place(Word::Tail), 64);
    while a.reserve(1000).is_ok_and(|room| room.is_some()) {
        a.commit(Ecn::NotEct);
    }
    let error = a.reserve(1000).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_peer_that_scribbles_all_over_its_memory_harms_nobody_else() {
    let mut state = 1u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..300 {
        let (mut a, mut b) = pair(RING).unwrap();
        for _ in 0..20 {
            match random() % 4 {
                0 => a.own.store(place(Word::Head), (random() % (2 * RING as u64)) & !63),
                1 => a.own.store(place(Word::Tail), (random() % 1024) & !63),
                2 => a.own.store(place(Word::Sleep), random()),
                _ => {
                    let at = (random() % RING as u64) & !63;
                    let len = (random() % 2000) as u32;
                    a.own.slice_mut(at, 4).copy_from_slice(&len.to_le_bytes());
                }
            }
            while let Ok(Some(place)) = b.take() {
                assert_eq!(b.bytes(place).len(), place.frame_len());
            }
            b.release();
            let out =
                TxFrame { peer: b.ends.peer, header: &[0; 300], payload: &[], ecn: Ecn::NotEct };
            let _ = b.transmit(&[out; 8]);
            let _ = b.wait(Some(Duration::ZERO), true);
        }
    }
}

#[test]
fn a_writer_that_races_the_reader_gives_bytes_or_an_end_and_no_crash() {
    let (mut a, mut b) = pair(RING).unwrap();
    let writer = thread::spawn(move || {
        for n in 0..20_000u64 {
            let len = ((n * 0x9e37_79b9) >> 7) as u32 % 3000;
            a.own.slice_mut(n * 64 % RING as u64, 4).copy_from_slice(&len.to_le_bytes());
            a.own.store(place(Word::Head), n * 64);
        }
    });
    let mut batch = RxBatch::new(1);
    while !writer.is_finished() {
        if b.receive(&mut batch).is_err() {
            break;
        }
    }
    writer.join().unwrap();
}

#[test]
fn strangers_are_turned_away() {
    let mut listener = Listener::bind().unwrap();
    let ends = Ends { local: "10.0.0.1:1".parse().unwrap(), peer: "10.0.0.2:1".parse().unwrap() };
    // A token that no session has is the owner's to refuse; an answer with a wrong one is the caller's.
    let call = Call::new(listener.name(), &[1; 32], &[2; 32], RING).unwrap();
    let mut caller = listener.accept().unwrap().unwrap();
    assert_eq!(caller.poll().unwrap(), Some(&[1; 32]));
    let _shm = caller.answer(&[3; 32], RING, ends).unwrap();
    assert_eq!(call.poll(ends).err().unwrap().kind(), io::ErrorKind::InvalidData);
    // A caller that is dropped ends the call.
    let call = Call::new(listener.name(), &[1; 32], &[2; 32], RING).unwrap();
    let Ok(Err(call)) = call.poll(ends) else { panic!("there is no answer yet") };
    drop(listener.accept().unwrap().unwrap());
    assert_eq!(call.poll(ends).err().unwrap().kind(), io::ErrorKind::ConnectionAborted);
    // Rings that cannot be.
    for bytes in [0, 1000, 1 << 30] {
        assert!(Call::new(listener.name(), &[1; 32], &[2; 32], bytes).is_err());
    }
    let name = listener.name().to_vec();
    drop(listener);
    assert!(Call::new(&name, &[1; 32], &[2; 32], RING).is_err());
}
