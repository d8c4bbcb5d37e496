//! How fast one sender reaches many receivers: `cargo run --release -p fusewire-stack --example group_rate -- send|receive
//! GROUP:PORT INTERFACE [RECEIVERS] [MEBIBYTES]`, each in a network namespace of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_stack::Result;
use fusewire_stack::group::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};

/// Bytes of a message.
const MESSAGE: usize = 64 << 10;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |n: usize| words.get(n).map(String::as_str);
    let usage = "send|receive GROUP:PORT INTERFACE [RECEIVERS] [MEBIBYTES]";
    let (Some(does), Some(group), Some(interface)) = (word(0), word(1), word(2)) else {
        panic!("{usage}");
    };
    let group: SocketAddr = group.parse().expect(usage);
    let number = |n, default| word(n).map_or(default, |word| word.parse().expect(usage));
    match does {
        "send" => send(group, interface, number(3, 1), number(4, 256) << 20),
        _ => receive(group, interface),
    }
}

fn send(group: SocketAddr, interface: &str, receivers: usize, total: usize) -> Result<()> {
    let interface = Some(interface.to_owned());
    let mut sender = Sender::open(&SenderConfig { interface, ..SenderConfig::new(group) })?;
    let (mut joined, mut sent, mut start) = (0, 0, Instant::now());
    while !sender.has_ended() {
        sender.drive(Some(Duration::from_millis(100)))?;
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Asked { ask, .. } => drop(sender.accept(ask)?),
                SenderEvent::Joined { .. } => {
                    joined += 1;
                    start = Instant::now();
                }
                SenderEvent::Left { why, .. } => println!("left: {why:?}"),
                _ => {}
            }
        }
        if joined < receivers {
            continue;
        }
        while sent < total && sender.send(MESSAGE, |at, room| room.fill(at as u8))?.is_some() {
            sent += MESSAGE;
        }
        if sent >= total {
            sender.finish();
        }
    }
    let s = start.elapsed().as_secs_f64();
    let c = sender.counters();
    println!(
        "{:.1} MB/s to {receivers}; {} packets, {} again, {} answers",
        sent as f64 / s / 1e6,
        c.data_segments_sent,
        c.retransmissions,
        c.segments_received,
    );
    sender.drive(Some(Duration::ZERO))
}

fn receive(group: SocketAddr, interface: &str) -> Result<()> {
    let interface = Some(interface.to_owned());
    let mut receiver = Receiver::open(&ReceiverConfig { interface, ..ReceiverConfig::new(group) })?;
    let (mut bytes, key) = (0, u64::from(std::process::id()));
    while !receiver.is_over() {
        receiver.drive(Some(Duration::from_millis(100)))?;
        while let Some(event) = receiver.poll_event() {
            match event {
                ReceiverEvent::Heard(heard) => receiver.join(&heard, key)?,
                ReceiverEvent::Dropped(reason) => println!("dropped: {reason:?}"),
                _ => {}
            }
        }
        while let Some(len) = receiver.recv(|_, bytes| bytes.len()) {
            bytes += len;
        }
    }
    println!("{bytes} bytes");
    Ok(())
}
