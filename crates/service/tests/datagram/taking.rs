//! An end before datagrams that come all at once, late, twice or never: handed over by hand, so that each case is itself.

use core::iter;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_service::datagram::{Counters, End, Event};
use fusewire_service::fec::{self, Encoder};
use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adu, Fec, Machine, Order, Profile, Step};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_session::{self as session, Cipher, DataPass, Datagrams, Swap};
use fusewire_transport::media::Limits;

use crate::Mixed;
use crate::world::{adu, keys};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Instant {
    Instant::from_ms(ms)
}

/// A profile of one lane.
struct One<const LANE: usize>;

const LANES: [Adu; 9] = [
    Adu::as_it_comes("plain", 200),
    Adu {
        deadline: Some(ms(100)),
        playout: Mode::Fixed(ms(50)),
        ..Adu::as_it_comes("played", 200)
    },
    Adu {
        order: Order::Newest,
        drops_late: false,
        playout: Mode::Fixed(ms(50)),
        ..Adu::as_it_comes("late too", 200)
    },
    Adu { order: Order::Newest, ..Adu::as_it_comes("newest", 200) },
    Adu { deadline: Some(ms(200)), ..Adu::as_it_comes("commands", 200) },
    Adu { deadline: Some(ms(400)), order: Order::Type, ..Adu::as_it_comes("sequence", 200) },
    Adu {
        fec: Fec::Parity(&[Step { packets_max: 60, repairs: 1 }]),
        ..Adu::as_it_comes("parity", 20_000)
    },
    Adu {
        fec: Fec::Parity(&[Step { packets_max: 60, repairs: 2 }]),
        ..Adu::as_it_comes("more parity", 20_000)
    },
    Adu { deadline: Some(ms(400)), order: Order::Type, ..Adu::as_it_comes("parts", 5_000) },
];

impl<const LANE: usize> Profile for One<LANE> {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[LANES[LANE]];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (100_000_000, 100_000_000);
    const BREAKER: Limits = Limits { interval: ms(1000), loss: 1.0, intervals: u32::MAX };
}

/// What was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Came(u64),
    /// Past its deadline.
    Old(u64),
    Gap(u64, u64),
    Late(u64),
}
use Told::{Came, Gap, Late, Old};

/// Two ends, and nothing between them.
struct Pair<const LANE: usize> {
    from: End<One<LANE>>,
    to: End<One<LANE>>,
}

impl<const LANE: usize> Pair<LANE> {
    fn new() -> Pair<LANE> {
        let [from, to] = keys().map(|keys| End::new(Instant::ZERO, keys).unwrap());
        Pair { from, to }
    }

    /// The datagrams of an ADU that is pushed at this time.
    fn send(&mut self, now: Instant, len: usize) -> Vec<Vec<u8>> {
        let number = self.from.push(now, 0, &adu(1, len)).unwrap();
        let (mut out, mut all) = ([0; 1200], Vec::new());
        // What the bucket holds back goes a little later.
        for us in 0..10_000 {
            let now = now + Duration::from_micros(10 * us);
            let next =
                || self.from.poll_transmit(now, &mut out).unwrap().map(|len| out[..len].to_vec());
            all.extend(iter::from_fn(next));
        }
        assert!(!all.is_empty(), "{number} does not go");
        all
    }

    fn take(&mut self, now: Instant, datagrams: &[Vec<u8>]) {
        datagrams.iter().for_each(|datagram| self.to.handle_datagram(now, datagram, 0));
    }

    fn told(&mut self, now: Instant) -> Vec<Told> {
        let mut all = Vec::new();
        while let Some(event) = self.to.poll_event(now) {
            all.push(match event {
                Event::Adu { number, is_late: false, .. } => Came(number),
                Event::Adu { number, .. } => Old(number),
                Event::Gap(skip) => Gap(skip.first, skip.count),
                Event::Late { number, .. } => Late(number),
                other => panic!("{other:?}"),
            });
        }
        all
    }
}

#[test]
fn an_overtaken_one_leaves_its_room() {
    const LATE_TOO: usize = 2;
    let mut pair = Pair::<LATE_TOO>::new();
    let first = pair.send(at(0), 100);
    pair.take(at(0), &first);
    assert_eq!(pair.told(at(50)), [Came(0)]);
    for n in 0..40 {
        let now = 100 + 20 * n;
        let both = [pair.send(at(now), 100), pair.send(at(now + 1), 100)].concat();
        pair.take(at(now + 80), &both);
        let number = 1 + 2 * n;
        assert_eq!(pair.told(at(now + 80)), [Gap(number, 1), Old(number + 1)], "{n}");
    }
}

/// More than there is room for: of the newest the newest are there; what has none is counted.
#[test]
fn more_at_once_than_there_is_room_for() {
    const NEWEST: usize = 3;
    let mut pair = Pair::<NEWEST>::new();
    let all: Vec<_> = (0..20).flat_map(|n| pair.send(at(n), 100)).collect();
    pair.take(at(30), &all);
    let told = pair.told(at(30));
    assert_eq!(told.last(), Some(&Came(19)), "{told:?}");
    assert!((12..20).all(|n| told.contains(&Came(n))), "{told:?}");
    const PLAIN: usize = 0;
    let mut pair = Pair::<PLAIN>::new();
    for n in 0..20 {
        assert_eq!(pair.to.is_crowded(), n >= 15, "{n}");
        let datagrams = pair.send(at(n), 100);
        pair.take(at(30), &datagrams);
    }
    assert_eq!(pair.told(at(30)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(Came));
    assert_eq!((pair.to.counters().no_room, pair.to.is_crowded()), (4, false));
}

/// After a loss, and after an outage: all that comes is delivered, and each other number told once.
#[test]
fn a_gap_costs_nothing_that_comes() {
    for outage in [1, 63, 64, 65, 470, 5000] {
        const PLAIN: usize = 0;
        let mut pair = Pair::<PLAIN>::new();
        let (mut came, mut gone) = (Vec::new(), Vec::new());
        let first = 3;
        for n in 0..first + outage + 300 {
            let datagrams = pair.send(at(n), 100);
            if !(first..first + outage).contains(&n) {
                pair.take(at(n), &datagrams);
            }
            for told in pair.told(at(n)) {
                match told {
                    Came(number) => came.push(number),
                    Gap(first, count) => gone.extend(first..first + count),
                    other => panic!("{other:?}"),
                }
            }
        }
        let end = first + outage;
        let want: Vec<_> = (0..first).chain(end..end + 300).collect();
        assert_eq!((came, gone), (want, (first..end).collect()), "{outage}");
    }
}

#[test]
fn each_that_is_late_is_told() {
    const PLAYED: usize = 1;
    let mut pair = Pair::<PLAYED>::new();
    let first = pair.send(at(0), 100);
    pair.take(at(0), &first);
    assert_eq!(pair.told(at(50)), [Came(0)]);
    let late: Vec<_> = (1..6).flat_map(|n| pair.send(at(100 + n), 100)).collect();
    pair.take(at(400), &late);
    let mut told = pair.told(at(400));
    told.retain(|told| matches!(told, Late(_)));
    assert_eq!(told, [1, 2, 3, 4, 5].map(Late));
}

#[test]
fn what_was_held_for_long_is_late_and_what_follows_is_not() {
    const COMMANDS: usize = 4;
    let mut pair = Pair::<COMMANDS>::new();
    let first = pair.send(at(0), 100);
    pair.take(at(0), &first);
    assert_eq!(pair.told(at(0)), [Came(0)]);
    let held: Vec<_> = (1..40).flat_map(|n| pair.send(at(20 * n), 100)).collect();
    pair.take(at(10_900), &held);
    let told = pair.told(at(10_900));
    assert!(told.iter().all(|told| matches!(told, Late(_) | Gap(..))), "{told:?}");
    let late: Vec<_> = told.iter().filter(|told| matches!(told, Late(_))).collect();
    assert_eq!(late.len(), 39, "each is told");
    let next = pair.send(at(11_000), 100);
    pair.take(at(11_000), &next);
    assert_eq!(pair.told(at(11_000)), [Came(40)]);
}

/// Of a packet that was restored the original tells that nothing was lost.
#[test]
fn what_is_restored_and_comes_is_not_lost() {
    const PARITY: usize = 6;
    let mut pair = Pair::<PARITY>::new();
    let mut report = [0; 1200];
    for n in 0..50 {
        let mut all = pair.send(at(100 * n), 8000);
        let last = all.len() - 1;
        all.swap(last - 1, last);
        pair.take(at(100 * n + 50), &all);
        assert_eq!(pair.told(at(100 * n + 50)), [Came(n)]);
        let now = at(100 * n + 99);
        while let Some(len) = pair.to.poll_transmit(now, &mut report).unwrap() {
            pair.from.handle_datagram(now, &report[..len], 0);
        }
    }
    assert!(pair.to.counters().restored >= 50);
    assert!(
        pair.from.seen().received > 0 && pair.from.seen().loss == 0.0,
        "{:?}",
        pair.from.seen()
    );
}

/// What waits for one that will not come is in time when it is handed over.
#[test]
fn nothing_waits_longer_than_its_deadline() {
    const SEQUENCE: usize = 5;
    let mut pair = Pair::<SEQUENCE>::new();
    let all: Vec<_> = [0, 100, 200, 1000, 1100].map(|now| pair.send(at(now), 100)).into();
    pair.take(at(0), &all[0]);
    assert_eq!(pair.told(at(0)), [Came(0)]);
    pair.take(at(550), &all[1]);
    assert_eq!(pair.told(at(550))[0], Late(1));
    pair.take(at(550), &all[2]);
    assert_eq!(pair.told(at(550)), [Came(2)], "nothing waits for what was late");
    // 3 is lost, and 4 was 300 ms on its way.
    pair.take(at(1400), &all[4]);
    for now in [1400, 1450] {
        assert_eq!(pair.told(at(now)), []);
    }
    assert_eq!(pair.told(at(1490)), [Gap(3, 1), Came(4)]);
    // Whoever asks too late has what is too late.
    let all: Vec<_> = [2000, 2010].map(|now| pair.send(at(now), 100)).into();
    pair.take(at(2020), &all[1]);
    assert_eq!(pair.told(at(2600)), [Gap(5, 1), Late(6)]);
}

/// ADUs of which a part was lost leave their room when they are given up: it is not taken from those that are waited for.
#[test]
fn what_was_given_up_leaves_its_room() {
    const PARTS: usize = 8;
    let mut pair = Pair::<PARTS>::new();
    let cut = |pair: &mut Pair<PARTS>, now| {
        let mut datagrams = pair.send(at(now), 5_000);
        let last = datagrams.pop().unwrap();
        pair.take(at(now), &datagrams);
        last
    };
    (0..10).for_each(|n| drop(cut(&mut pair, 20 * n)));
    let whole = pair.send(at(220), 5_000);
    pair.take(at(220), &whole);
    assert_eq!(pair.told(at(220)), []);
    assert_eq!(pair.told(at(600)), [Gap(0, 10), Came(10)]);
    let mut last = Vec::new();
    for n in 0..5 {
        last = vec![cut(&mut pair, 1000 + 20 * n)];
    }
    let whole = pair.send(at(1100), 5_000);
    pair.take(at(1100), &whole);
    assert_eq!(pair.told(at(1100)), [], "what is missing may come");
    pair.take(at(1110), &last);
    assert_eq!(pair.told(at(1110)), []);
    assert_eq!(pair.told(at(1460)), [Gap(11, 4), Came(15), Came(16)]);
    assert_eq!(pair.to.counters().incomplete, 10);
}

/// A peer says what it likes, with its keys.
struct Peer {
    keys: Datagrams,
    next: u32,
}

impl Peer {
    fn new() -> Peer {
        let [keys, _] = keys();
        Peer { keys, next: 0 }
    }

    /// A datagram with this body.
    fn say(&mut self, body: &[u8]) -> Vec<u8> {
        let record = self.keys.sender.seal(self.next, body).unwrap();
        let len = (record.len() as u16).to_be_bytes();
        let number = self.next.to_be_bytes();
        self.next += 1;
        [&self.keys.id.to_be_bytes()[..], &len, &number, &record].concat()
    }
}

/// Parity whose packets never were: it takes what it takes to find that out, so often and no more.
#[test]
fn a_peer_cannot_have_parity_computed_at_will() {
    const MORE_PARITY: usize = 7;
    let mut pair = Pair::<MORE_PARITY>::new();
    let limits = fec::Limits { packets: 2, repairs: 2, blocks: 1, len_max: 10 };
    let (mut peer, mut encoder) = (Peer::new(), Encoder::new(&limits));
    let mut flood = |to: &mut End<_>, now, blocks: core::ops::Range<u32>| {
        let before = to.counters().restored;
        for block in blocks {
            encoder.begin(block, 2, 2, 10);
            [[1; 10], [2; 10]].iter().for_each(|packet| encoder.push(packet));
            for index in 0..2 {
                let repair = encoder.repair(index);
                let header = [&[0x80, 0, 0, 0][..], &block.to_be_bytes(), &[0; 8]].concat();
                let body = [&header[..], &repair.header(), repair.symbol].concat();
                to.handle_datagram(now, &peer.say(&body), 0);
            }
        }
        to.counters().restored - before
    };
    assert_eq!(flood(&mut pair.to, at(0), 0..500), 2 * 32);
    assert_eq!(
        flood(&mut pair.to, at(1000), 500..1000),
        2 * 32,
        "a second brings no more than a burst"
    );
    let paced: u64 = (0..100)
        .map(|n| flood(&mut pair.to, at(2000 + n), 1000 + 20 * n as u32..1020 + 20 * n as u32))
        .sum();
    assert!((2 * 24..=2 * 60).contains(&paced), "{paced}");
    // Whoever keeps to what was agreed on loses nothing by it.
    let mut honest = Pair::<MORE_PARITY>::new();
    for n in 0..200 {
        let mut datagrams = honest.send(at(30 * n), 8_000);
        datagrams.drain(1..3);
        honest.take(at(30 * n), &datagrams);
        assert_eq!(honest.told(at(30 * n)), [Came(n)]);
    }
}

/// Who has no keys moves nothing, whatever is changed of what the peer has sent, and wherever it ends.
#[test]
fn what_is_forged_moves_nothing() {
    const PLAYED: usize = 1;
    let mut pair = Pair::<PLAYED>::new();
    let first = pair.send(at(0), 100);
    pair.take(at(5), &first);
    let next = pair.send(at(20), 100);
    let state = |end: &End<_>| {
        let counters = Counters { refused: 0, ..end.counters() };
        (counters, end.playout_delay(0), end.poll_timeout())
    };
    let before = state(&pair.to);
    for bit in 0..8 * next[0].len() {
        let mut forged = next[0].clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        pair.take(at(30), &[forged]);
        pair.take(at(30), &[next[0][..bit / 8].to_vec()]);
        assert_eq!(state(&pair.to), before, "bit {bit}");
    }
    pair.take(at(30), &next);
    assert_eq!(pair.told(at(80)), [Came(0), Came(1)]);
}

/// More forged packets than the cipher bears: the session must end, and who drives it is told.
#[test]
fn too_many_forged_packets_end_it() {
    let like = RecordParams {
        integrity_limit: 3,
        ..RecordParams::new(Cipher::AES_128_GCM, Swap::None, 1 << 16, DataPass::detect())
    };
    let [from, mut to] = keys();
    to.receiver = NumberedReceiver::new(like, TrafficSecret::from_bytes([1; 32])).unwrap();
    let mut pair = Pair::<0> {
        from: End::new(Instant::ZERO, from).unwrap(),
        to: End::new(Instant::ZERO, to).unwrap(),
    };
    let mut out = [0; 1200];
    for n in 0..4 {
        assert!(pair.to.poll_transmit(at(n), &mut out).is_ok(), "{n}");
        let mut forged = pair.send(at(n), 100);
        *forged[0].last_mut().unwrap() ^= 1;
        pair.take(at(n), &forged);
    }
    let ends = pair.to.poll_transmit(at(5), &mut out);
    assert!(matches!(ends, Err(session::Error::IntegrityLimit { .. })), "{ends:?}");
}

/// A peer that takes no records as long as these datagrams is told of when the end is made, not for each that it does not get.
#[test]
fn a_peer_that_takes_only_short_records_is_refused() {
    let like = RecordParams::new(Cipher::AES_128_GCM, Swap::None, 100, DataPass::detect());
    let [mut keys, _] = keys();
    keys.sender = NumberedSender::new(like, TrafficSecret::from_bytes([1; 32])).unwrap();
    let refused = End::<One<0>>::new(Instant::ZERO, keys).unwrap_err();
    assert!(
        matches!(refused, session::Error::Misuse(session::Misuse::BodyTooLong { max: 100, .. })),
        "{refused}"
    );
}

/// Two lanes, of which the less important has long ADUs.
struct Uneven;

impl Profile for Uneven {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] =
        &[Adu { priority: 0, ..Adu::as_it_comes("short", 100) }, Adu::as_it_comes("long", 11_000)];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (100_000_000, 100_000_000);
}

#[test]
fn what_has_begun_is_not_starved() {
    let [keys, _] = keys();
    let mut end = End::<Uneven>::new(Instant::ZERO, keys).unwrap();
    end.push(at(0), 1, &[7; 11_000]).unwrap();
    let mut out = [0; 1200];
    let mut long = Vec::new();
    for n in 0..1000 {
        end.push(at(n), 0, &[1; 100]).unwrap();
        let len = end.poll_transmit(at(n), &mut out).unwrap().unwrap();
        if len > 500 {
            long.push(n);
        }
    }
    assert_eq!(long.len(), 10, "{long:?}");
    assert!(long.windows(2).all(|two| two[1] - two[0] >= 60), "importance still counts: {long:?}");
}

/// One lane that is sent again, and one that is less important and long.
struct Loses<const RATE: u64, const KEPT: usize>;

impl<const RATE: u64, const KEPT: usize> Profile for Loses<RATE, KEPT> {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[
        Adu {
            priority: 0,
            kept: KEPT,
            deadline: Some(ms(60_000)),
            ..Adu::as_it_comes("again", 100)
        },
        Adu::as_it_comes("long", 11_000),
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (RATE, RATE);
}

#[test]
fn what_goes_again_starves_nothing() {
    let [keys, _] = keys();
    let mut end = End::<Loses<100_000_000, 400>>::new(Instant::ZERO, keys).unwrap();
    let mut out = [0; 1200];
    for n in 0..400 {
        end.push(at(n), 0, &[1; 100]).unwrap();
        end.poll_transmit(at(n), &mut out).unwrap().unwrap();
    }
    // Nobody has told of any.
    end.handle_timeout(at(2000));
    end.push(at(2000), 1, &[7; 3_000]).unwrap();
    let goes = |n: u64| end.poll_transmit(at(2000 + n), &mut out).unwrap().unwrap() > 500;
    let long: Vec<u64> =
        (0..400).map(goes).zip(0..).filter(|(is, _)| *is).map(|(_, n)| n).collect();
    assert_eq!(long.len(), 3, "{long:?}");
    assert!(long.iter().zip(1..).all(|(at, nth)| *at <= 65 * nth), "{long:?}");
    assert!(long[0] >= 60, "importance still counts: {long:?}");
    assert_eq!(end.counters().sent_again, 397);
}

#[test]
fn more_than_is_kept_is_not_asked_for_early() {
    let [from, to] = keys();
    let mut from = End::<Loses<100_000_000, 40>>::new(Instant::ZERO, from).unwrap();
    let mut to = End::<Loses<100_000_000, 40>>::new(Instant::ZERO, to).unwrap();
    let mut out = [0; 1200];
    let mut due = None;
    for n in 0..=45 {
        from.push(at(n), 0, &[1; 100]).unwrap();
        let len = from.poll_transmit(at(n), &mut out).unwrap().unwrap();
        if [0, 43, 45].contains(&n) {
            to.handle_datagram(at(n), &out[..len], 0);
            while to.poll_event(at(n)).is_some() {}
            due = to.poll_timeout();
        }
        // 42 are missing, and 40 kept.
        assert!(n != 43 || due == Some(at(100)), "{due:?}");
    }
    assert!(due < Some(at(100)), "one is missing");
}

/// Every other packet is missing, of a rate that early reports would take much of.
#[test]
fn early_reports_take_a_share_of_the_rate() {
    const SECONDS: u64 = 8;
    let [from, to] = keys();
    let mut from = End::<Loses<100_000, 400>>::new(Instant::ZERO, from).unwrap();
    let mut to = End::<Loses<100_000, 400>>::new(Instant::ZERO, to).unwrap();
    let (mut out, mut sent, mut reports) = ([0; 1200], 0, 0);
    for n in 0..1000 * SECONDS {
        from.handle_timeout(at(n));
        let _ = from.push(at(n), 0, &[1; 20]);
        while let Some(len) = from.poll_transmit(at(n), &mut out).unwrap() {
            sent += 1;
            if sent % 2 == 0 {
                to.handle_datagram(at(n), &out[..len], 0);
                while to.poll_event(at(n)).is_some() {}
            }
        }
        while to.poll_transmit(at(n), &mut out).unwrap().is_some() {
            reports += 1;
        }
    }
    // Some at once, then a twentieth of the rate: each has more than a hundred bytes.
    let early = reports - 10 * SECONDS;
    assert!((20..45 + 6 * SECONDS).contains(&early), "{early} of {reports}");
}

/// What was said before a long silence does not go again behind it.
#[test]
fn a_copy_that_is_too_old_is_not_sent() {
    let [keys, _] = keys();
    let mut end = End::<Mixed>::new(Instant::ZERO, keys).unwrap();
    let (mut out, mut copied) = ([0; 1200], 0);
    for (now, is_copied) in [
        (0, false),
        (20, false),
        (40, false),
        (60, true),
        (11_000, false),
        (11_020, false),
        (11_040, false),
        (11_060, true),
    ] {
        end.push(at(now), 0, &[1; 100]).unwrap();
        end.poll_transmit(at(now), &mut out).unwrap().unwrap();
        let before = core::mem::replace(&mut copied, end.counters().sent_correction_bytes);
        assert_eq!(copied > before, is_copied, "{now}");
    }
}

/// What goes over IPv6 is no longer than was said, headers included, and counted as long as it is.
#[test]
fn headers_of_ipv6_are_counted() {
    for (keys, around) in keys().into_iter().zip([28, 48]) {
        let mut end = End::<One<6>>::new(Instant::ZERO, keys).unwrap();
        if around == 48 {
            end.set_ipv6();
        }
        end.push(at(0), 0, &[7; 5_000]).unwrap();
        let mut out = [0; 1200];
        let len = end.poll_transmit(at(0), &mut out).unwrap().unwrap();
        assert_eq!(end.counters().sent_bytes, (len + around) as u64);
        assert!(len + 48 <= 1200, "{len}");
    }
}
