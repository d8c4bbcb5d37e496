//! An end of datagrams and a peer that has the keys, and says with them what it likes; or somebody who has not.
//!
//! Whatever comes, an ADU that is delivered keeps its lane's limits and comes behind those before it where that is its order; time
//! passes, and the end has something to do no oftener than there is something to do.
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_service::datagram::{End, Event};
use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adu, Fec, Machine, Order, Profile, Step};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_session::{Cipher, DataPass, Datagrams, Swap};

use crate::Choices;

struct Any;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Profile for Any {
    const NAME: &'static str = "fuzzed";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[
        Adu {
            deadline: Some(ms(100)),
            order: Order::Newest,
            fec: Fec::Copy { distance: 2 },
            playout: Mode::Adaptive { least: ms(5), most: ms(50), late: 0.1 },
            window: 4,
            ..Adu::as_it_comes("copied", 80)
        },
        Adu {
            deadline: Some(ms(200)),
            order: Order::Type,
            fec: Fec::Parity(&[Step { packets_max: 4, repairs: 1 }]),
            window: 4,
            ..Adu::as_it_comes("parity", 400)
        },
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const MTU: usize = 300;
    const RATES: (u64, u64) = (100_000, 1_000_000);
}

fn keys() -> [Datagrams; 2] {
    let like = || RecordParams::new(Cipher::AES_128_GCM, Swap::None, 1 << 16, DataPass::detect());
    let secret = |byte| TrafficSecret::from_bytes([byte; 32]);
    [(1, 2), (2, 1)].map(|(own, peer)| Datagrams {
        id: 7,
        sender: NumberedSender::new(like(), secret(own)).expect("a cipher with tags"),
        receiver: NumberedReceiver::new(like(), secret(peer)).expect("a cipher with tags"),
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let [mut peer, own] = keys();
    let mut end = End::<Any>::new(Instant::ZERO, own);
    let (mut now, mut number, mut out) = (Instant::ZERO, 0, [0; Any::MTU]);
    let mut last: [Option<u64>; 2] = [None; 2];
    while !choices.is_empty() {
        let (step, len) = (choices.u8(), usize::from(choices.u8()));
        let bytes = choices.bytes(len);
        let mut datagram = 7u32.to_be_bytes().to_vec();
        match step % 4 {
            0 => datagram.extend(bytes),
            1 => {
                let _ = end.push(now, usize::from(step >> 7), bytes);
            }
            _ => {
                // Sometimes numbers are left out.
                number += u32::from(step >> 6);
                let record = peer.sender.seal(number, bytes).expect("it is new");
                datagram.extend((record.len() as u16).to_be_bytes());
                datagram.extend(number.to_be_bytes());
                datagram.extend(record);
                number += 1;
            }
        }
        end.handle_datagram(now, &datagram, step >> 4);
        now += Duration::from_millis(u64::from(step >> 2 & 15));
        end.handle_timeout(now);
        let mut turns = 0;
        while end.poll_transmit(now, &mut out).expect("numbers are left").is_some() {
            turns += 1;
        }
        while let Some(event) = end.poll_event(now) {
            turns += 1;
            if let Event::Adu { lane, number, bytes, .. } = event {
                assert!((1..=Any::TAKES[lane].len_max).contains(&bytes.len()));
                assert!(last[lane].is_none_or(|last| last < number), "order");
                last[lane] = Some(number);
            }
        }
        assert!(turns < 1000, "it does not come to rest");
    }
}

/// What an honest peer sends, with pieces left out and moved.
pub fn seeds() -> Vec<Vec<u8>> {
    let header = |kind: u8, index: u8, count: u8, adu: u32, sent: u32, path: u32| {
        let words = [adu, sent, path].map(u32::to_be_bytes).concat();
        [&[kind, index, count, 0][..], &words].concat()
    };
    let step = |step: u8, body: Vec<u8>| [vec![step, body.len() as u8], body].concat();
    let adu = |lane: u8, n: u32| {
        step(30, [header(lane, 0, 1, n, 200u32.wrapping_mul(n), n), vec![n as u8; 40]].concat())
    };
    let report = [header(127, 0, 0, 0, 0, 0), vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 9]].concat();
    let audio: Vec<u8> = (0..12).flat_map(|n| adu(0, n ^ 1)).collect();
    let pushes: Vec<u8> = (0..6).flat_map(|n| step(61 | n << 7, vec![n; 90])).collect();
    let video: Vec<u8> = (0..8).filter(|n| n % 5 != 2).flat_map(|n| adu(1, n)).collect();
    let leap = [adu(0, 5), adu(0, u32::MAX), adu(1, 1 << 31), adu(1, 3)].concat();
    let report = [&pushes[..], &step(62, report), &pushes].concat();
    vec![audio, video, report, leap]
}
