//! A sender and receivers of a group over any device: each receiver gets every message, and both sides come to their end.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_device::Device;
use fusewire_device::interface::Interface;
use fusewire_stack::Clock;
use fusewire_stack::group::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use fusewire_stack::ip::{self, net};
use fusewire_stack::on_interface::OnInterface;

const LIMIT: Duration = Duration::from_secs(60);

/// Bytes of the message that begins at `offset`.
pub fn fill(offset: u64, bytes: &mut [u8]) {
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = ((offset + n as u64).wrapping_mul(31) >> 3) as u8;
    }
}

pub fn is_right(offset: u64, bytes: &[u8]) -> bool {
    let mut expected = vec![0; bytes.len()];
    fill(offset, &mut expected);
    expected == bytes
}

/// Joins what it hears, and takes all; the lengths of the messages.
fn receive<D: Device>(mut receiver: Receiver<D>, key: u64) -> (Vec<usize>, Vec<ReceiverEvent>) {
    let (mut lens, mut events) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while !receiver.is_over() {
        assert!(start.elapsed() < LIMIT, "{} {events:?}", lens.len());
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

/// Sends messages of so many lengths to all of them.
pub fn every_message<S: Device, R: Device>(
    mut sender: Sender<S>,
    receivers: Vec<impl FnOnce() -> Receiver<R> + Send>,
    lens: &[usize],
) {
    std::thread::scope(|s| {
        let count = receivers.len();
        let receivers =
            receivers.into_iter().zip(1..).map(|(make, key)| s.spawn(move || receive(make(), key)));
        let receivers: Vec<_> = receivers.collect();
        let (mut sent, mut joined, mut done) = (0, 0, 0);
        let start = Instant::now();
        while !sender.has_ended() {
            assert!(start.elapsed() < LIMIT, "sent {sent} joined {joined}");
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
            if joined == count {
                while sent < lens.len() && sender.send(lens[sent], fill).unwrap().is_some() {
                    sent += 1;
                }
                if sent == lens.len() {
                    sender.finish();
                }
            }
        }
        // The last words leave, and again for whom they were lost.
        while receivers.iter().any(|receiver| !receiver.is_finished()) {
            sender.drive(Some(Duration::from_millis(10))).unwrap();
        }
        for receiver in receivers {
            let (got, events) = receiver.join().unwrap();
            assert_eq!(got, lens, "{events:?}");
            assert_eq!(events.last(), Some(&ReceiverEvent::Ended), "{events:?}");
        }
        assert_eq!(done, count);
    });
}

/// The same from one device to another.
pub fn from_one_to_another(
    sender: impl Device,
    receiver: impl Device,
    group: SocketAddr,
    lens: &[usize],
) {
    let sender = Sender::over(sender, &SenderConfig::new(group)).unwrap();
    let config = ReceiverConfig::new(group);
    every_message(sender, vec![move || Receiver::over(receiver, &config)], lens);
}

/// XTP as protocol 36 of IP, on an address of its own.
pub fn over_ip(interface: impl Interface + 'static, own: &str) -> OnInterface {
    let net = net::Config {
        addresses: vec![own.parse().unwrap()],
        duplicate_detection: false,
        ..ip::Stack::net_config(&interface)
    };
    let (clock, address) = (Clock::new(), net.addresses[0].address());
    let now = clock.now();
    let stack = ip::Stack::new(Box::new(interface), net, ip::Config::default(), [9; 32], now);
    OnInterface::over_ip(stack, SocketAddr::new(address, 0), clock).unwrap()
}
