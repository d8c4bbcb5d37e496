//! One stream to many over UDP on this host.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_stack::group::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};

/// Bytes of the message that begins at `offset`.
fn fill(offset: u64, bytes: &mut [u8]) {
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = ((offset + n as u64).wrapping_mul(31) >> 3) as u8;
    }
}

fn is_right(offset: u64, bytes: &[u8]) -> bool {
    let mut expected = vec![0; bytes.len()];
    fill(offset, &mut expected);
    expected == bytes
}

/// A group of this process's own.
fn group(n: u16) -> SocketAddr {
    let pid = std::process::id();
    ([239, 255, (pid >> 8) as u8, pid as u8], 20_000 + n).into()
}

/// Joins what it hears, and takes all; the lengths of the messages.
fn receive(config: &ReceiverConfig, key: u64) -> (Vec<usize>, Vec<ReceiverEvent>) {
    let mut receiver = Receiver::open(config).unwrap();
    let (mut lens, mut events) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while !receiver.is_over() {
        assert!(start.elapsed() < Duration::from_secs(60), "{lens:?} {events:?}");
        receiver.drive(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Heard(heard) = &event {
                receiver.join(heard, key).unwrap();
            }
            events.push(event);
        }
        while let Some(len) = receiver.recv(|offset, bytes| {
            assert!(is_right(offset, bytes));
            bytes.len()
        }) {
            lens.push(len);
        }
    }
    (lens, events)
}

#[test]
fn every_receiver_gets_every_message() {
    every_message(group(1), false);
}

#[test]
fn and_messages_that_prove_themselves() {
    every_message(group(2), true);
}

fn every_message(group: SocketAddr, nocheck: bool) {
    let config =
        ReceiverConfig { interface: Some("lo".into()), nocheck, ..ReceiverConfig::new(group) };
    let receivers = (1..=2).map(|key| {
        let config = config.clone();
        std::thread::spawn(move || receive(&config, key))
    });
    let receivers: Vec<_> = receivers.collect();
    let config = SenderConfig {
        interface: Some("lo".into()),
        local: ([127, 0, 0, 1], 0).into(),
        nocheck,
        ..SenderConfig::new(group)
    };
    let mut sender = Sender::open(&config).unwrap();
    let lens: Vec<usize> = (0..400).map(|n| 1 + n * 7919 % 60_000).collect();
    let (mut sent, mut joined, mut done) = (0, 0, 0);
    let start = Instant::now();
    while !sender.has_ended() {
        assert!(start.elapsed() < Duration::from_secs(60), "sent {sent} joined {joined}");
        sender.drive(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Asked { ask, .. } => {
                    sender.accept(ask).unwrap().unwrap();
                }
                SenderEvent::Joined { begins_at, .. } => {
                    assert_eq!(begins_at, 0);
                    joined += 1;
                }
                SenderEvent::Done { .. } => done += 1,
                SenderEvent::Left { why, .. } => panic!("left: {why:?}"),
                _ => {}
            }
        }
        if joined == 2 {
            while sent < lens.len() && sender.send(lens[sent], fill).is_some() {
                sent += 1;
            }
            if sent == lens.len() {
                sender.finish();
            }
        }
    }
    // The last words leave.
    sender.drive(Some(Duration::ZERO)).unwrap();
    for receiver in receivers {
        let (got, events) = receiver.join().unwrap();
        assert_eq!(got, lens, "{events:?}");
        assert_eq!(events.last(), Some(&ReceiverEvent::Ended), "{events:?}");
    }
    assert_eq!(done, 2);
}
