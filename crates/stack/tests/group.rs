//! One stream to many: over UDP on this host, over a device in memory that loses, and straight over IP.

#[path = "support/groups.rs"]
mod groups;

use std::net::SocketAddr;

use fusewire_device::impair::{Impair, Rules};
use fusewire_device::interface::memory;
use fusewire_device::memory::Network;
use fusewire_stack::group::{Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig};
use fusewire_stack::{Clock, Error};

/// A group of this process's own.
fn group(n: u16) -> SocketAddr {
    let pid = std::process::id();
    ([239, 255, (pid >> 8) as u8, pid as u8], 20_000 + n).into()
}

fn lens(count: usize) -> Vec<usize> {
    (0..count).map(|n| 1 + n * 7919 % 60_000).collect()
}

#[test]
fn every_receiver_gets_every_message() {
    over_udp(group(1), false);
}

#[test]
fn and_messages_that_prove_themselves() {
    over_udp(group(2), true);
}

fn over_udp(group: SocketAddr, nocheck: bool) {
    let config =
        ReceiverConfig { interface: Some("lo".into()), nocheck, ..ReceiverConfig::new(group) };
    let receiver = || Receiver::open(&config).unwrap();
    let sender = SenderConfig {
        interface: Some("lo".into()),
        local: ([127, 0, 0, 1], 0).into(),
        nocheck,
        ..SenderConfig::new(group)
    };
    let sender = Sender::open(&sender).unwrap();
    groups::every_message(sender, vec![receiver; 2], &lens(400));
}

/// One in twenty packets is lost each way, some come twice and some out of order.
#[test]
fn a_device_that_loses_brings_every_message_too() {
    let network = Network::default();
    let group = group(3);
    // Who has the group's name is the one that hears it.
    let [near, far] = [([10, 0, 0, 1], 7).into(), group].map(|at| network.attach(at).unwrap());
    let rules = Rules { loss: 0.05, duplicate: 0.02, reorder: 0.02, ..Rules::NONE };
    let clock = Clock::new();
    let near = Impair::new(near, rules, rules, 5, move || clock.now());
    groups::from_one_to_another(near, far, group, &lens(100));
}

/// A loss costs the message that was lost and not the next one, too, where messages prove themselves.
#[test]
fn without_answers_a_loss_costs_one_message() {
    const COUNT: u64 = 1000;
    let network = Network::default();
    let group = group(4);
    let [near, far] = [([10, 0, 0, 1], 7).into(), group].map(|at| network.attach(at).unwrap());
    let clock = Clock::new();
    let rules = Rules { loss: 0.1, ..Rules::NONE };
    let far = Impair::new(far, Rules::NONE, rules, 7, move || clock.now());
    let config = SenderConfig {
        reliable: false,
        rate: Some(2_000_000),
        nocheck: true,
        ..SenderConfig::new(group)
    };
    let mut sender = Sender::over(near, &config).unwrap();
    let config = ReceiverConfig { nocheck: true, ..ReceiverConfig::new(group) };
    let mut receiver = Receiver::over(far, &config);
    let (mut sent, mut whole, mut others, mut reads) = (0, 0, 0, false);
    let begun = std::time::Instant::now();
    while !receiver.is_over() {
        assert!(begun.elapsed().as_secs() < 60, "{sent} {whole} {others}");
        for _ in 0..2 {
            sender.drive(Some(std::time::Duration::from_millis(1))).unwrap();
            receiver.drive(Some(std::time::Duration::from_millis(1))).unwrap();
        }
        while let Some(event) = receiver.poll_event() {
            match event {
                ReceiverEvent::Heard(heard) => receiver.join(&heard, 1).unwrap(),
                ReceiverEvent::Joined { .. } => reads = true,
                _ => {}
            }
        }
        while reads && sent < COUNT && sender.send(64, |_, bytes| bytes.fill(9)).unwrap().is_some()
        {
            sent += 1;
        }
        if sent == COUNT {
            sender.finish();
        }
        while let Some(is_whole) = receiver.recv(|_, bytes| *bytes == [9; 64]) {
            whole += u64::from(is_whole);
            others += u64::from(!is_whole);
        }
    }
    assert!((850..=940).contains(&whole) && others == 0, "{whole} {others}");
}

#[test]
fn a_group_is_reached_straight_over_ip() {
    for (ends, group) in [
        (["10.0.0.1/24", "10.0.0.2/24"], "239.255.7.7:9294"),
        (["fd00::1/64", "fd00::2/64"], "[ff02::7:7]:9294"),
    ] {
        let group: SocketAddr = group.parse().unwrap();
        let (a, b) = memory::pair(memory::Config::default()).unwrap();
        let (near, mut far) = (groups::over_ip(a, ends[0]), groups::over_ip(b, ends[1]));
        far.join(group.ip()).unwrap();
        groups::from_one_to_another(near, far, group, &lens(200));
    }
}

/// Who may not send a message, now or ever, is told so; for want of room there is another word.
#[test]
fn what_can_never_be_sent_is_an_error() {
    let near = Network::default().attach(([10, 0, 0, 1], 7).into()).unwrap();
    let config = SenderConfig::new("239.255.7.9:9294".parse().unwrap());
    let mut sender = Sender::over(near, &config).unwrap();
    let max = sender.max_message();
    let mut send = |len| sender.send(len, |_, bytes| bytes.fill(1));
    assert!(matches!(send(0), Err(Error::Misuse(_))));
    assert!(
        matches!(send(max + 1), Err(Error::TooLong { len, max: most }) if (len, most) == (max + 1, max))
    );
    assert!(matches!(send(usize::MAX), Err(Error::TooLong { .. })));
    assert_eq!(send(max).unwrap(), Some(0..max as u64));
    while let Some(range) = send(max).unwrap() {
        assert!(range.end <= 4 * config.buffer as u64, "there is an end of room");
    }
    sender.finish();
    assert!(matches!(sender.send(1, |_, _| ()), Err(Error::Misuse(_))));
}

#[test]
fn who_has_not_joined_hears_nothing() {
    let group: SocketAddr = "239.255.7.8:9294".parse().unwrap();
    let (a, b) = memory::pair(memory::Config::default()).unwrap();
    let (near, far) = (groups::over_ip(a, "10.0.0.1/24"), groups::over_ip(b, "10.0.0.2/24"));
    let mut sender = Sender::over(near, &SenderConfig::new(group)).unwrap();
    let mut receiver = Receiver::over(far, &ReceiverConfig::new(group));
    for joins in [false, true] {
        if joins {
            receiver.device_mut().join(group.ip()).unwrap();
        }
        let start = std::time::Instant::now();
        let mut heard = false;
        while start.elapsed().as_millis() < 1500 && !heard {
            for _ in 0..2 {
                sender.drive(Some(std::time::Duration::from_millis(5))).unwrap();
                receiver.drive(Some(std::time::Duration::from_millis(5))).unwrap();
            }
            heard = receiver.poll_event().is_some();
        }
        assert_eq!(heard, joins);
    }
}
