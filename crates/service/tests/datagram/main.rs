//! Datagram ends against each other: what arrives, what is lost and told, on good links and bad, and before liars.

mod course;
mod in_time;
mod rfc8867;
mod taking;
mod tcp;
mod world;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use fusewire_base::Instant;
use fusewire_service::datagram::{End, Event, Refused};
use fusewire_service::lifetime::Why;
use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adu, Fec, Machine, Order, Profile, Step};
use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::media::Cause;
use world::{World, adu, keys};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One lane that corrects by copies, one by parity, one that keeps a sequence.
struct Mixed;

const COPIED: Adu = Adu {
    priority: 0,
    deadline: Some(ms(180)),
    order: Order::Newest,
    fec: Fec::Copy { distance: 3 },
    playout: Mode::Fixed(ms(90)),
    fixed_bits: 32_000,
    ..Adu::as_it_comes("copied", 200)
};
const PARITY: Adu = Adu {
    deadline: Some(ms(250)),
    order: Order::Newest,
    fec: Fec::Parity(&[
        Step { packets_max: 4, repairs: 0 },
        Step { packets_max: 8, repairs: 1 },
        Step { packets_max: 60, repairs: 2 },
    ]),
    ..Adu::as_it_comes("parity", 20_000)
};
const SEQUENCE: Adu =
    Adu { deadline: Some(ms(400)), order: Order::Type, ..Adu::as_it_comes("sequence", 3_000) };

impl Profile for Mixed {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[COPIED, PARITY, SEQUENCE];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (20_000_000, 20_000_000);
}

fn link() -> Impairments {
    Impairments { rate: Some(4_000_000), delay: ms(20), ..Impairments::default() }
}

/// What came of the ADUs of a lane.
#[derive(Debug, Default)]
struct Heard {
    came: BTreeMap<u64, Instant>,
    gaps: u64,
    late: u64,
}

/// Sends ADUs of all three lanes one way for so many seconds, and checks each that arrives: its bytes, once, behind those
/// before it.
fn stream(links: Impairments, random: &mut Random, seconds: u64) -> ([Heard; 3], [u64; 3]) {
    let mut world = World::<Mixed>::new([links, link()], random);
    let mut heard: [Heard; 3] = Default::default();
    let (mut sent, mut random) = ([0u64; 3], random.fork());
    let mut lens: [Vec<usize>; 3] = Default::default();
    let end = Instant::from_ms(seconds * 1000);
    let mut push = |at: usize, now: Instant, end_of: &mut End<Mixed>| {
        for (lane, every) in [20, 33, 50].into_iter().enumerate() {
            if at != 0 || now >= end || !now.as_ms().is_multiple_of(every) {
                continue;
            }
            let len = random.range(1..Mixed::SENDS[lane].len_max as u64 + 1) as usize;
            assert_eq!(end_of.push(now, lane, &adu(sent[lane], len)), Ok(sent[lane]));
            sent[lane] += 1;
            lens[lane].push(len);
        }
    };
    let mut said = Vec::new();
    world.run(end + ms(1000), &mut push, |at, now, event| {
        assert_eq!(at, 1, "{event:?}");
        match event {
            Event::Adu { lane, number, bytes, .. } => {
                said.push((lane, number, bytes.to_vec(), now))
            }
            Event::Gap(skip) => heard[skip.lane].gaps += skip.count,
            Event::Late { lane, .. } => heard[lane].late += 1,
            other => panic!("{other:?}"),
        }
    });
    for (lane, number, bytes, at) in said {
        assert!(bytes == adu(number, lens[lane][number as usize]), "{lane} {number}");
        let heard = &mut heard[lane].came;
        assert!(heard.last_key_value().is_none_or(|(last, _)| *last < number), "order");
        heard.insert(number, at);
    }
    (heard, sent)
}

#[test]
fn on_a_good_link_all_arrives_in_order_and_evenly() {
    for_each_seed_of(10, "on_a_good_link_all_arrives_in_order_and_evenly", |_, random| {
        let (heard, sent) = stream(Impairments { jitter: ms(30), ..link() }, random, 5);
        for (heard, sent) in heard.iter().zip(sent) {
            assert_eq!((heard.came.len() as u64, heard.gaps, heard.late), (sent, 0, 0));
        }
        // Behind the fastest, which may come later than the first.
        let played: Vec<_> = heard[0].came.values().skip(50).collect();
        let uneven = played.windows(2).filter(|w| (*w[1] - *w[0]).abs_diff(ms(20)) > ms(2)).count();
        assert!(uneven < 8, "{uneven} of {}", played.len());
    });
}

/// 2 % of the datagrams, two in a row: what the specification of a conference takes for given.
#[test]
fn correction_keeps_losses_below_what_the_clauses_say() {
    let (mut sent, mut came) = ([0, 0], [0, 0]);
    for_each_seed_of(10, "correction_keeps_losses_below_what_the_clauses_say", |_, random| {
        let bad = Impairments { loss: 0.02, loss_burst: 2.0, jitter: ms(10), ..link() };
        let (heard, all) = stream(bad, random, 20);
        for lane in 0..2 {
            sent[lane] += all[lane];
            came[lane] += heard[lane].came.len() as u64;
        }
        // Each number is delivered, or told gone or late, but for those that the end leaves open.
        let Heard { came, gaps, late } = &heard[2];
        let told = came.len() as u64 + gaps;
        assert!(told <= all[2] && told + 3 >= all[2] && *late <= *gaps, "{told} of {}", all[2]);
    });
    let lost = |lane: usize| 1.0 - came[lane] as f64 / sent[lane] as f64;
    println!("lost: copied {:.2} %, parity {:.2} %", 100.0 * lost(0), 100.0 * lost(1));
    assert!(lost(0) < 0.005 && lost(1) < 0.05, "{sent:?} {came:?}");
}

/// A path that changes, doubles and reorders: no ADU twice, none that is not as it was sent.
#[test]
fn a_path_that_meddles_is_seen_through() {
    for_each_seed_of(20, "a_path_that_meddles_is_seen_through", |_, random| {
        let meddles = Impairments {
            corrupt: 0.1,
            duplicate: 0.2,
            reorder: 0.2,
            reorder_delay: ms(40),
            ..link()
        };
        let (heard, sent) = stream(meddles, random, 5);
        assert!(heard.iter().zip(sent).all(|(heard, sent)| heard.came.len() as u64 > sent / 4));
    });
}

/// Whatever comes, it is no panic; and who is not the peer moves nothing.
#[test]
fn what_is_not_the_peers_is_passed_over() {
    for_each_seed_of(50, "what_is_not_the_peers_is_passed_over", |_, random| {
        let mut world = World::<Mixed>::new([link(), link()], random);
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut noise = random.fork();
        let mut came = BTreeSet::new();
        world.run(
            Instant::from_ms(1500),
            |at, now, end| {
                if at == 0 && now.as_ms().is_multiple_of(20) {
                    let _ = end.push(now, noise.below(3) as usize, &adu(1, 150));
                    let mut out = [0; 1200];
                    if let Some(len) = end.poll_transmit(now, &mut out).unwrap() {
                        seen.push(out[..len].to_vec());
                    }
                    return;
                }
                for _ in 0..3 {
                    let mut bytes = match seen.is_empty() || noise.chance(0.3) {
                        true => vec![0x12; noise.below(80) as usize],
                        false => noise.pick(&seen).clone(),
                    };
                    if let Some(len) = (bytes.len() as u64).checked_sub(1) {
                        bytes[noise.below(len + 1) as usize] ^= noise.range(1..256) as u8;
                        bytes.truncate(noise.below(len + 2) as usize);
                    }
                    let before = end.counters();
                    end.handle_datagram(now, &bytes, 3);
                    // Of two packets in a datagram one may be whole: a byte of the other is not as it was.
                    assert!(end.counters().opened <= before.opened + 1);
                }
            },
            |_, _, event| {
                if let Event::Adu { lane, number, .. } = event {
                    assert!(came.insert((lane, number)), "{number} of {lane} comes twice");
                }
            },
        );
    });
}

#[test]
fn what_is_too_old_is_not_sent_and_what_is_too_long_not_taken() {
    let [keys, _] = keys();
    let mut end = End::<Mixed>::new(Instant::ZERO, keys).unwrap();
    assert_eq!(end.push(Instant::ZERO, 0, &[0; 201]), Err(Refused::Length));
    assert_eq!(end.push(Instant::ZERO, 0, &[]), Err(Refused::Length));
    assert_eq!(end.push(Instant::ZERO, 1, &[1; 5000]), Ok(0));
    for n in 0..Mixed::ADUS as u64 {
        assert_eq!(end.push(Instant::ZERO, 0, &[1; 20]), Ok(n), "the less important makes room");
    }
    assert_eq!(end.push(Instant::ZERO, 0, &[1; 20]), Err(Refused::Full));
    let lost = Event::Lost { lane: 1, number: 0, why: Why::Displaced };
    assert_eq!(end.poll_event(Instant::ZERO), Some(lost));
    let later = Instant::from_ms(180);
    end.handle_timeout(later);
    assert_eq!(end.poll_transmit(later, &mut [0; 1200]).unwrap(), None);
    for number in 0..Mixed::ADUS as u64 {
        let lost = Event::Lost { lane: 0, number, why: Why::Expired };
        assert_eq!(end.poll_event(later), Some(lost));
    }
    assert_eq!(end.poll_event(later), None);
}

/// Lanes that are as important have a packet in turn, so that what is short does not wait for all of what is long; what is less
/// important waits for all of it.
#[test]
fn what_is_as_important_goes_packet_by_packet_in_turn() {
    struct Alike;
    impl Profile for Alike {
        const NAME: &'static str = "tested";
        const MACHINE: Machine = Machine::Datagram;
        const SENDS: &'static [Adu] = &[
            Adu::as_it_comes("long", 9_000),
            Adu::as_it_comes("short", 200),
            Adu::as_it_comes("other", 200),
            Adu { priority: 200, ..Adu::as_it_comes("less", 200) },
        ];
        const TAKES: &'static [Adu] = Self::SENDS;
        const RATES: (u64, u64) = (20_000_000, 20_000_000);
    }
    let [one, other] = keys();
    let (mut from, mut to) =
        [one, other].map(|keys| End::<Alike>::new(Instant::ZERO, keys).unwrap()).into();
    let mut now = Instant::ZERO;
    // Two long ones wait, and one packet of the first has gone, when the others come.
    let mut went = Vec::new();
    let mut goes = |from: &mut End<Alike>, long: Duration| {
        let (until, mut out) = (now + long, [0; 1200]);
        while now < until {
            while let Some(len) = from.poll_transmit(now, &mut out).unwrap() {
                to.handle_datagram(now, &out[..len], 0);
                match to.poll_event(now) {
                    Some(Event::Adu { lane, .. }) => went.push(lane),
                    _ => went.push(0),
                }
            }
            now += Duration::from_micros(100);
        }
        went.len()
    };
    let push = |from: &mut End<Alike>, lanes: &[usize]| {
        for lane in lanes {
            from.push(Instant::ZERO, *lane, &vec![1; Alike::SENDS[*lane].len_max]).unwrap();
        }
    };
    push(&mut from, &[0, 0]);
    let begun = goes(&mut from, Duration::from_micros(100));
    push(&mut from, &[3, 1, 1, 2, 2]);
    goes(&mut from, ms(100));
    let (before, rest) = went.split_at(begun);
    assert!((1..8).contains(&before.len()) && before.iter().all(|lane| *lane == 0));
    assert_eq!(rest[..6], [1, 2, 0, 1, 2, 0]);
    assert!(rest[6..rest.len() - 1].iter().all(|lane| *lane == 0) && rest.last() == Some(&3));
}

/// RFC 8084: what does not adapt stops where nothing comes back, and goes on when somebody says so.
#[test]
fn a_fixed_rate_stops_on_a_broken_path() {
    let mut random = Random::new(1);
    let mut world = World::<Mixed>::new([link(), link()], &mut random);
    let push = |at: usize, now: Instant, end: &mut End<Mixed>| {
        if at == 0 && now.as_ms().is_multiple_of(20) {
            let _ = end.push(now, 0, &adu(1, 100));
        }
    };
    let mut tripped = Vec::new();
    world.run(Instant::from_ms(5_000), push, |_, _, event| {
        assert!(!matches!(event, Event::Tripped(_)))
    });
    world.links[0].impairments_mut().loss = 1.0;
    world.run(Instant::from_ms(20_000), push, |at, now, event| {
        if let Event::Tripped(cause) = event {
            tripped.push((at, now, cause));
        }
    });
    assert!(
        matches!(tripped[..], [(0, at, Cause::Silence)] if at <= Instant::from_ms(17_000)),
        "{tripped:?}"
    );
    let sent = world.ends[0].counters().sent;
    world.run(Instant::from_ms(21_000), push, |_, _, _| {});
    assert_eq!(world.ends[0].counters().sent, sent, "nothing goes");
    world.links[0].impairments_mut().loss = 0.0;
    let now = world.now;
    world.ends[0].close_breaker(now);
    world.run(Instant::from_ms(23_000), push, |_, _, event| {
        assert!(!matches!(event, Event::Tripped(_)))
    });
    assert!(world.ends[0].counters().sent > sent + 80);
}

/// Far more than a window is lost in a row: the lanes go on with what comes behind it.
#[test]
fn after_a_long_silence_it_goes_on() {
    let mut random = Random::new(7);
    let mut world = World::<Mixed>::new([link(), link()], &mut random);
    let push = |at: usize, now: Instant, end: &mut End<Mixed>| {
        for (lane, every) in [20, 33, 10].into_iter().enumerate() {
            if at == 0 && now.as_ms().is_multiple_of(every) {
                let _ = end.push(now, lane, &adu(1, 100));
            }
        }
    };
    let mut came = [0; 3];
    for (loss, until) in [(0.0, 1000), (1.0, 6000), (0.0, 8000)] {
        world.links[0].impairments_mut().loss = loss;
        came = [0; 3];
        world.run(Instant::from_ms(until), push, |_, _, event| {
            if let Event::Adu { lane, .. } = event {
                came[lane] += 1;
            }
        });
    }
    assert!(came[0] > 80 && came[1] > 50 && came[2] > 160, "{came:?}");
}

/// A conference.
struct Adapting;

impl Profile for Adapting {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[COPIED, PARITY];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (250_000, 2_000_000);
}

/// What adapts goes no lower than its least: where nobody is there it stops, too.
#[test]
fn what_adapts_stops_where_nobody_answers() {
    let mut random = Random::new(3);
    let mut world = World::<Adapting>::new([link(), link()], &mut random);
    let push = |at: usize, now: Instant, end: &mut End<Adapting>| {
        if at == 0 && now.as_ms().is_multiple_of(20) {
            let _ = end.push(now, 0, &adu(1, 100));
        }
    };
    world.run(Instant::from_ms(5_000), push, |_, _, event| {
        assert!(!matches!(event, Event::Tripped(_)))
    });
    world.links[0].impairments_mut().loss = 1.0;
    let mut tripped = Vec::new();
    world.run(Instant::from_ms(20_000), push, |at, _, event| {
        if let Event::Tripped(cause) = event {
            tripped.push((at, cause));
        }
    });
    assert_eq!(tripped, [(0, Cause::Silence)]);
    let sent = world.ends[0].counters().sent;
    world.run(Instant::from_ms(21_000), push, |_, _, _| {});
    assert_eq!(world.ends[0].counters().sent, sent, "nothing goes");
}

/// A queue in front of what one sends says nothing of what comes.
#[test]
fn a_queue_of_ones_own_makes_nothing_late() {
    let mut random = Random::new(4);
    let near = Impairments { jitter: ms(20), rate: Some(12_500_000), delay: ms(30), ..link() };
    let mut world =
        World::<Mixed>::new([near, Impairments { delay: ms(30), ..link() }], &mut random);
    let push = |_: usize, now: Instant, end: &mut End<Mixed>| {
        if now.as_ms().is_multiple_of(20) {
            let _ = end.push(now, 0, &adu(1, 100));
        }
    };
    world.run(Instant::from_ms(3_000), push, |_, _, _| {});
    // What the second sends stands in a queue of 400 ms: its path is longer, not that from the first.
    world.links[1].impairments_mut().delay = ms(430);
    let (mut came, mut late) = (0, 0);
    world.run(Instant::from_ms(8_000), push, |at, _, event| match event {
        Event::Adu { .. } if at == 1 => came += 1,
        Event::Late { .. } if at == 1 => late += 1,
        _ => {}
    });
    assert!(late == 0 && came >= 245, "{late} late of {came}");
}
