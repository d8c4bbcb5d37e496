//! An end before datagrams that come all at once, late, twice or never: handed over by hand, so that each case is itself.

use core::iter;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_service::datagram::{End, Event};
use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adu, Fec, Machine, Order, Profile, Step};
use fusewire_transport::media::Limits;

use crate::world::{adu, keys};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Instant {
    Instant::from_ms(ms)
}

/// A profile of one lane.
struct One<const LANE: usize>;

const LANES: [Adu; 7] = [
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
        let [from, to] = keys().map(|keys| End::new(Instant::ZERO, keys));
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
