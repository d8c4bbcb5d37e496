//! Law 4: blocks allocate when they are made, and then no more.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_service::datagram::End;
use fusewire_service::fec::{Copies, Decoder, Encoder, Limits};
use fusewire_service::lifetime::Lifetime;
use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adu, Fec, Machine, Order, Profile, Step};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_session::{Cipher, DataPass, Datagrams, Swap};
use fusewire_testkit::counting::{self, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Blocks of every size within the limits, with as much lost as may be.
#[test]
fn correction_allocates_nothing() {
    let limits = Limits { packets: 40, repairs: 6, blocks: 3, len_max: 200 };
    let (mut encoder, mut decoder) = (Encoder::new(&limits), Decoder::new(&limits));
    let mut copies = Copies::new(3, 200);
    let packet = [7; 200];
    let count = counting::during(|| {
        let mut block = 0;
        for packets in 1..=40u8 {
            for repairs in 1..=6u8 {
                block += 1;
                let longest = usize::from(200 - packets);
                encoder.begin(block, packets, repairs, longest);
                for index in 0..packets {
                    let packet = &packet[..longest - usize::from(index % 3)];
                    copies.push(Instant::ZERO, packet, Lifetime::ENDLESS);
                    encoder.push(packet);
                    if index >= repairs {
                        decoder.on_packet(block, index, packet);
                    }
                }
                let mut restored = 0;
                for index in 0..repairs {
                    let _ = decoder.on_repair(&encoder.repair(index));
                }
                while decoder.poll().is_some() {
                    restored += 1;
                }
                assert_eq!(restored, packets.min(repairs));
            }
        }
    });
    assert_eq!(count, 0);
    assert!(counting::during(|| drop(Copies::new(1, 10))) > 0, "it counts");
}

struct Both;

impl Profile for Both {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[
        Adu {
            priority: 0,
            deadline: Some(Duration::from_millis(180)),
            order: Order::Newest,
            fec: Fec::Copy { distance: 3 },
            playout: Mode::Adaptive {
                least: Duration::from_millis(70),
                most: Duration::from_millis(110),
                late: 0.01,
            },
            ..Adu::as_it_comes("copied", 200)
        },
        Adu {
            deadline: Some(Duration::from_millis(250)),
            order: Order::Type,
            fec: Fec::Parity(&[Step { packets_max: 60, repairs: 2 }]),
            ..Adu::as_it_comes("parity", 20_000)
        },
        Adu {
            deadline: Some(Duration::from_millis(200)),
            order: Order::Type,
            kept: 20,
            ..Adu::as_it_comes("again", 3_000)
        },
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (8_000_000, 8_000_000);
}

fn ends() -> [End<Both>; 2] {
    let like = || RecordParams::new(Cipher::AES_128_GCM, Swap::None, 1 << 16, DataPass::detect());
    let secret = |byte| TrafficSecret::from_bytes([byte; 32]);
    [(1, 2), (2, 1)].map(|(own, peer)| {
        let keys = Datagrams {
            id: 7,
            sender: NumberedSender::new(like(), secret(own)).unwrap(),
            receiver: NumberedReceiver::new(like(), secret(peer)).unwrap(),
        };
        End::new(Instant::ZERO, keys).unwrap()
    })
}

/// Two ends that talk, with every nineteenth datagram lost: once they have begun, nothing.
#[test]
fn datagrams_allocate_nothing() {
    let mut ends = ends();
    let (mut out, adu) = ([0; 1200], [7; 5000]);
    let (mut now, mut heard, mut datagrams) = (Instant::ZERO, 0, 0u32);
    let mut run = |seconds: u64| {
        let until = now + Duration::from_secs(seconds);
        while now < until {
            for at in 0..2 {
                let [first, second] = &mut ends;
                let (end, peer) = if at == 0 { (first, second) } else { (second, first) };
                if now.as_ms().is_multiple_of(20) {
                    let _ = end.push(now, 0, &adu[..160]);
                    let _ = end.push(now, 1, &adu);
                    let _ = end.push(now, 2, &adu[..2_500]);
                }
                end.handle_timeout(now);
                while let Some(len) = end.poll_transmit(now, &mut out).unwrap() {
                    datagrams += 1;
                    if !datagrams.is_multiple_of(19) {
                        peer.handle_datagram(now, &out[..len], 0);
                    }
                }
                while end.poll_event(now).is_some() {
                    heard += 1;
                }
            }
            now += Duration::from_millis(1);
        }
    };
    run(5);
    assert_eq!(counting::during(|| run(20)), 0);
    let counters = ends[0].counters();
    assert!(heard > 5_000 && counters.restored > 20 && counters.sent_again > 20, "{counters:?}");
}

/// As many at once as there is room for, and more, before anything is asked for.
#[test]
fn datagrams_that_come_at_once_allocate_nothing() {
    let [mut from, mut to] = ends();
    let mut now = Instant::ZERO;
    let mut take = |count: u64| {
        let mut datagrams = Vec::new();
        for _ in 0..count {
            for lane in [0, 1] {
                let mut out = [0; 1200];
                let _ = from.push(now, lane, &[7; 150]);
                if let Some(len) = from.poll_transmit(now, &mut out).unwrap() {
                    datagrams.push(out[..len].to_vec());
                }
            }
            now += Duration::from_millis(2);
        }
        let came = to.counters().opened;
        let made = counting::during(|| {
            datagrams.iter().for_each(|datagram| to.handle_datagram(now, datagram, 0));
            while to.poll_event(now).is_some() {}
        });
        assert!(to.counters().opened >= came + 2 * count);
        made
    };
    take(5);
    assert_eq!([take(16), take(40)], [0, 0]);
}
