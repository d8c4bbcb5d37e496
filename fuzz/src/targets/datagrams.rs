//! An end of datagrams and a peer that has the keys, and says with them what it likes; or somebody who has not.
//!
//! Whatever comes, and whether events are asked for behind each datagram or not, an ADU that is delivered keeps its lane's limits,
//! comes once, and behind those before it where that is its order; time passes, the end has something to do no oftener than there is
//! something to do; and who keeps the rules afterwards is heard.
use core::time::Duration;
use std::collections::BTreeSet;

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
        Adu {
            order: Order::Newest,
            drops_late: false,
            playout: Mode::Fixed(ms(20)),
            window: 4,
            ..Adu::as_it_comes("late too", 400)
        },
        Adu { window: 4, ..Adu::as_it_comes("plain", 400) },
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const MTU: usize = 320;
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

/// An end, who has its peer's keys, and what was told.
struct Talk {
    end: End<Any>,
    peer: Datagrams,
    /// The next packet's number.
    number: u32,
    now: Instant,
    /// Of each lane the last number that was delivered, and one past the highest that was spoken of.
    last: [Option<u64>; LANES],
    spoken: [u32; LANES],
    /// Of the lane without an order those that were delivered.
    came: BTreeSet<u64>,
}

const LANES: usize = Any::SENDS.len();
const PLAIN: usize = 3;

impl Talk {
    fn sealed(&mut self, body: &[u8]) -> Vec<u8> {
        if let [kind, _, _, _, a, b, c, d, ..] = *body
            && let Some(spoken) = self.spoken.get_mut(usize::from(kind & 0x7f))
        {
            *spoken = (*spoken).max(u32::from_be_bytes([a, b, c, d]).saturating_add(1));
        }
        let record = self.peer.sender.seal(self.number, body).expect("it is new");
        let len = (record.len() as u16).to_be_bytes();
        let number = self.number.to_be_bytes();
        self.number += 1;
        [&7u32.to_be_bytes()[..], &len, &number, &record].concat()
    }

    /// All that is to be told; how much.
    fn ask(&mut self) -> usize {
        let mut turns = 0;
        while let Some(event) = self.end.poll_event(self.now) {
            turns += 1;
            let Event::Adu { lane, number, bytes, .. } = event else { continue };
            assert!((1..=Any::TAKES[lane].len_max).contains(&bytes.len()));
            let last = self.last[lane].replace(number);
            match lane {
                PLAIN => assert!(self.came.insert(number), "twice"),
                _ => assert!(last.is_none_or(|last| last < number), "order"),
            }
        }
        turns
    }

    /// Lanes in which nothing is dropped for its time alone go on, whatever was said before.
    fn goes_on(&mut self) {
        for lane in [2, PLAIN] {
            let Some(from) = Some(self.spoken[lane]).filter(|from| *from < 1 << 31) else {
                continue;
            };
            let before = self.came.len();
            for n in from..from + 100 {
                let body = [&[lane as u8, 0, 1, 0][..], &n.to_be_bytes(), &[0; 8], &[1]].concat();
                let datagram = self.sealed(&body);
                self.end.handle_datagram(self.now, &datagram, 0);
                self.now += ms(25);
                self.ask();
            }
            assert_eq!(
                self.last[lane],
                Some(u64::from(from) + 99),
                "{} is deaf",
                Any::TAKES[lane].name
            );
            assert!(lane != PLAIN || self.came.len() >= before + 100, "some are lost");
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let [peer, own] = keys();
    let mut talk = Talk {
        end: End::new(Instant::ZERO, own).expect("bodies of any length"),
        peer,
        number: 0,
        now: Instant::ZERO,
        last: [None; LANES],
        spoken: [0; LANES],
        came: BTreeSet::new(),
    };
    let mut out = [0; Any::MTU];
    while !choices.is_empty() {
        let (step, len) = (choices.u8(), usize::from(choices.u8()));
        let bytes = choices.bytes(len);
        let datagram = match step % 4 {
            0 => [&7u32.to_be_bytes()[..], bytes].concat(),
            1 => {
                let _ = talk.end.push(talk.now, usize::from(step >> 6), bytes);
                Vec::new()
            }
            _ => {
                // Sometimes numbers are left out.
                talk.number += u32::from(step >> 6);
                talk.sealed(bytes)
            }
        };
        talk.end.handle_datagram(talk.now, &datagram, step >> 4);
        talk.now += Duration::from_millis(u64::from(step >> 2 & 15));
        // Sometimes more comes before anybody asks.
        if len % 4 == 3 {
            continue;
        }
        let now = talk.now;
        talk.end.handle_timeout(now);
        let mut turns = 0;
        while talk.end.poll_transmit(now, &mut out).expect("numbers are left").is_some() {
            turns += 1;
        }
        assert!(turns + talk.ask() < 1000, "it does not come to rest");
    }
    talk.goes_on();
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
    let pushes: Vec<u8> = (0..6).flat_map(|n| step(61 | n << 6, vec![n; 90])).collect();
    let video: Vec<u8> = (0..8).filter(|n| n % 5 != 2).flat_map(|n| adu(1, n)).collect();
    // Late, and more than one before anybody asks.
    let held =
        |lane: u8, n: u32| step(30, [header(lane, 0, 1, n, 0, n), vec![n as u8; 35]].concat());
    let held: Vec<u8> = (0..20).flat_map(|n| held(2 + (n / 7 % 2) as u8, n)).collect();
    let leap = [adu(0, 5), adu(0, u32::MAX), adu(1, 1 << 31), adu(1, 3)].concat();
    let report = [&pushes[..], &step(62, report), &pushes].concat();
    vec![audio, video, report, leap, held]
}
