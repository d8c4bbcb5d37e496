//! How fast frames go through shared memory, between two threads that map each other's files.
//!
//! `cargo run --release -p fusewire-device --example shm_rate [SECONDS]` prints, for each length of
//! frame and of ring: written and read in place (`in place`), and copied by the `Device` trait
//! (`copied`); then the round trip of a small frame.

use std::thread;
use std::time::{Duration, Instant};

use fusewire_device::shm::{Shm, pair};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};

/// What the reader does with a frame in place: a load of every byte, as an opening loop would.
fn read(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0, |x, w| x ^ u64::from_ne_bytes(w.try_into().unwrap()))
}

fn write_in_place(shm: &mut Shm, source: &[u8], until: Instant) {
    while Instant::now() < until {
        for _ in 0..64 {
            match shm.reserve(source.len()) {
                Ok(Some(room)) => room.copy_from_slice(source),
                Ok(None) => break,
                Err(_) => return,
            }
            shm.commit(Ecn::NotEct);
            if source.len() > 1 << 14 {
                shm.publish();
            }
        }
        shm.publish();
        if shm.wait(Some(Duration::from_millis(1)), true).is_err() {
            return;
        }
    }
}

fn in_place(frame_len: usize, ring: usize, seconds: f64) -> f64 {
    let (mut a, mut b) = pair(ring).unwrap();
    let start = Instant::now();
    let until = start + Duration::from_secs_f64(seconds);
    let writer = thread::spawn(move || write_in_place(&mut a, &vec![0x5a; frame_len], until));
    let (mut total, mut touched) = (0u64, 0u64);
    while let Ok(place) = b.take() {
        match place {
            Some(place) => {
                touched ^= read(b.bytes(place));
                total += place.frame_len() as u64;
                if frame_len > 1 << 14 {
                    b.release();
                }
            }
            None => {
                b.release();
                let _ = b.wait(Some(Duration::from_millis(1)), false);
            }
        }
    }
    std::hint::black_box(touched);
    writer.join().unwrap();
    total as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn copied(frame_len: usize, ring: usize, seconds: f64) -> f64 {
    let (mut a, mut b) = pair(ring).unwrap();
    let peer = b.local_addr();
    let start = Instant::now();
    let until = start + Duration::from_secs_f64(seconds);
    let writer = thread::spawn(move || {
        let source = vec![0x5a; frame_len];
        let frame =
            TxFrame { peer, header: &source[..16], payload: &source[16..], ecn: Ecn::NotEct };
        while Instant::now() < until {
            if a.transmit(&[frame; 16]).unwrap() < 16 {
                a.wait(Some(Duration::from_millis(1)), true).unwrap();
            }
        }
    });
    let mut batch = RxBatch::new(4);
    let (mut total, mut touched) = (0u64, 0u64);
    while let Ok(count) = b.receive(&mut batch) {
        if count == 0 {
            let _ = b.wait(Some(Duration::from_millis(1)), false);
        }
        for packet in batch.iter() {
            touched ^= read(packet.bytes);
            total += packet.bytes.len() as u64;
        }
    }
    std::hint::black_box(touched);
    writer.join().unwrap();
    total as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Microseconds for a frame of 64 bytes to go and come back, both sides spinning in `wait`.
fn round_trip_us() -> f64 {
    const TURNS: usize = 20_000;
    let (mut a, mut b) = pair(1 << 16).unwrap();
    let exchange = |shm: &mut Shm| {
        shm.reserve(64).unwrap().unwrap().fill(1);
        shm.commit(Ecn::NotEct);
        shm.publish();
    };
    let take = |shm: &mut Shm| {
        while shm.take().unwrap().is_none() {
            shm.wait(None, false).unwrap();
        }
        shm.release();
    };
    let echo = thread::spawn(move || {
        for _ in 0..TURNS {
            take(&mut b);
            exchange(&mut b);
        }
        b
    });
    let start = Instant::now();
    for _ in 0..TURNS {
        exchange(&mut a);
        take(&mut a);
    }
    let us = start.elapsed().as_secs_f64() * 1e6 / TURNS as f64;
    drop(echo.join().unwrap());
    us
}

fn main() {
    const ROUNDS: usize = 5;
    let seconds = std::env::args().nth(1).map_or(0.2, |s| s.parse().expect("seconds"));
    for ring in [1usize << 18, 1 << 20, 1 << 22, 1 << 24] {
        for frame_len in [256, 1452, 16_000, 60_000] {
            let mut rates = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                rates[0].push(in_place(frame_len, ring, seconds));
                rates[1].push(copied(frame_len, ring, seconds));
            }
            rates.iter_mut().for_each(|r| r.sort_by(f64::total_cmp));
            let [place, copy] = rates;
            println!(
                "ring {:>6} KiB, {frame_len:>6} B: in place {:>6.2} GB/s ({:.2} to {:.2}), copied {:>6.2} ({:.2} to {:.2}); round trip {:.2} us",
                ring >> 10,
                place[ROUNDS / 2],
                place[0],
                place[ROUNDS - 1],
                copy[ROUNDS / 2],
                copy[0],
                copy[ROUNDS - 1],
                round_trip_us(),
            );
        }
    }
}
