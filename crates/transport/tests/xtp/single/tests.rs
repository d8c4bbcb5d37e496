//! What services 1 to 3 promise.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Impairments, Random, for_each_seed, wireshark};
use fusewire_transport::xtp::Config;
use fusewire_transport::xtp::single::{
    ANSWER_SLACK, Answers, Bounds, Event, Message, Outcome, Patience, Request, TooLong,
    message_len_max,
};
use fusewire_wire::xtp::{Format, Key, NUMBER, Options, Reason, Service};

use super::{PORT, Plan, World, parse};
use crate::frame::Frame;
use crate::loss;
use crate::two_ends::any_link;

const DELAY: Duration = Duration::from_millis(10);

fn outcomes(world: &World) -> Vec<Outcome> {
    world.asked.iter().filter_map(|asked| asked.outcome).collect()
}

fn answered(world: &World) -> usize {
    let is = |outcome: &Outcome| matches!(outcome, Outcome::Answered { .. } | Outcome::Delivered);
    outcomes(world).iter().filter(|outcome| is(outcome)).count()
}

#[test]
fn a_request_and_its_answer_are_two_packets_and_one_round_trip() {
    for (len, proven) in [(0, true), (4, true), (1300, true), (1300, false)] {
        let plan = Plan { answer_max: 1200, proven, ..Plan::default() };
        let mut world = World::new(&plan, &mut Random::new(len.into()));
        let began = world.now;
        world.ask(Service::Transaction, len);
        world.run(|_| {});
        assert_eq!(answered(&world), 1, "{:?}", outcomes(&world));
        assert_eq!(world.packets, [1, 1]);
        assert_eq!(world.now - began, 2 * DELAY);
        world.run_for(Duration::from_secs(100));
        assert_eq!(world.packets, [1, 1], "nothing more is said");
        assert_eq!((world.responder.contexts(), world.responder.answer_bytes()), (0, 0));
    }
}

#[test]
fn a_datagram_is_one_packet_and_an_acknowledged_one_two() {
    let mut world = World::new(&Plan::default(), &mut Random::new(1));
    world.ask(Service::UnacknowledgedDatagram, 500);
    world.run_for(Duration::from_secs(100));
    assert_eq!((world.packets, outcomes(&world)), ([1, 0], vec![Outcome::Sent]));
    assert_eq!((world.datagrams.as_slice(), world.responder.contexts()), (&[0][..], 0));
    world.ask(Service::AcknowledgedDatagram, 500);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.packets, [2, 1]);
    assert_eq!(outcomes(&world)[1], Outcome::Delivered);
}

#[test]
fn what_does_not_fit_is_not_begun() {
    let cfg = Config::default();
    for (service, max) in [
        (Service::UnacknowledgedDatagram, 1368),
        (Service::AcknowledgedDatagram, 13_680),
        (Service::Transaction, 13_680),
    ] {
        assert_eq!(message_len_max(&cfg, service, false), max);
        let message = |len| Message { service, port: 1, len, btag: None, proves_itself: false };
        let key = Key::new(1).unwrap();
        let ask = |len| {
            Request::new(cfg.clone(), message(len), key, Patience::UNKNOWN, super::Instant::ZERO)
        };
        assert!(ask(max).is_ok());
        assert_eq!(ask(max + 1).err(), Some(TooLong { max }));
    }
    // And no more than may be sent before an alloc is known, whatever the window.
    let cfg = Config { initial_window_packets: 100, ..cfg };
    assert_eq!(message_len_max(&cfg, Service::Transaction, false), 16_384);
}

#[test]
fn a_long_request_is_as_many_packets_as_it_needs() {
    let mut world = World::new(&Plan::default(), &mut Random::new(3));
    world.ask(Service::Transaction, 13_000);
    world.run(|_| {});
    assert_eq!((answered(&world), world.packets), (1, [10, 1]));
}

#[test]
fn a_long_answer_is_a_stream() {
    let plan = Plan { answer_max: 300_000, ..Plan::default() };
    let mut random = Random::new(4);
    for _ in 0..20 {
        let mut world = World::new(&plan, &mut random);
        world.ask(Service::Transaction, 100);
        world.run(|_| {});
        assert_eq!(answered(&world), 1, "{:?}", outcomes(&world));
        world.run_for(Duration::from_secs(100));
        assert_eq!(world.responder.contexts(), 0);
    }
}

#[test]
fn a_longer_answer_than_what_came_waits_for_the_key() {
    let plan = Plan { answer_max: 20_000, proven: false, ..Plan::default() };
    let mut random = Random::new(12);
    for _ in 0..20 {
        let mut world = World::new(&plan, &mut random);
        world.ask(Service::Transaction, 10);
        world.run(|_| {});
        assert_eq!(answered(&world), 1);
    }
}

#[test]
fn an_answer_that_takes_long_is_waited_for_without_more_requests() {
    let plan = Plan { work: Duration::from_secs(200), ..Plan::default() };
    let mut random = Random::new(5);
    for _ in 0..20 {
        let mut world = World::new(&plan, &mut random);
        world.ask(Service::Transaction, 100);
        world.run(|_| {});
        assert_eq!(answered(&world), 1, "{:?}", outcomes(&world));
        let firsts = world.recorded.iter().filter(|bytes| bytes[11] & 31 == Format::First as u8);
        assert!(firsts.count() <= 2);
        assert!(world.packets[0] <= 12, "{:?}", world.packets);
    }
}

#[test]
fn a_lost_answer_is_said_again_and_not_made_again() {
    let mut world = World::new(&Plan::default(), &mut Random::new(6));
    world.ask(Service::Transaction, 100);
    world.ask(Service::AcknowledgedDatagram, 100);
    world.links[1].impairments_mut().loss = 1.0;
    world.run_for(Duration::from_millis(2500));
    assert_eq!((world.handed.len(), world.packets), (2, [4, 4]));
    world.links[1].impairments_mut().loss = 0.0;
    world.run(|_| {});
    assert_eq!((answered(&world), world.packets), (2, [6, 6]));
}

#[test]
fn a_lost_request_goes_again_and_is_given_up_in_the_end() {
    let mut world = World::new(&Plan::default(), &mut Random::new(7));
    world.links[0].impairments_mut().loss = 1.0;
    let began = world.now;
    world.ask(Service::Transaction, 100);
    world.ask(Service::AcknowledgedDatagram, 100);
    world.run(|_| {});
    assert_eq!(outcomes(&world), [Outcome::TimedOut; 2]);
    assert_eq!(world.now - began, Duration::from_secs(30));
    assert_eq!(world.packets[0], 10, "at 0, 1, 3, 7 and 15 s");
}

/// Requests of all kinds over bad links: each is handed over once at most, and its answer is its own.
#[test]
fn no_request_is_handed_over_twice_and_no_answer_is_anothers() {
    let mut all = (0, 0);
    for_each_seed("transactions", |_, random| {
        let work = Duration::from_secs(*random.pick(&[1, 1, 40]));
        let plan = Plan {
            config: Config { nocheck: true, recv_window: 1 << 20, ..loss::config(random) },
            links: [any_link(random), any_link(random)],
            work: random.duration_below(work),
            proven: random.chance(0.5),
            answer_max: *random.pick(&[0, 100, 1000, 20_000, 100_000]),
            refuses: random.chance(0.2).then_some(5),
            ..Plan::default()
        };
        let config = Config {
            initial_window_packets: 10,
            send_buffer: 1 << 20,
            max_packets_in_flight: 1000,
            noflow: false,
            cxor: false,
            opening_timeout: Duration::from_secs(30),
            ..plan.config.clone()
        };
        let plan = Plan { config, ..plan };
        let mut world = World::new(&plan, random);
        let longest = message_len_max(&plan.config, Service::Transaction, true);
        for _ in 0..random.range(1..30) {
            let service = *random.pick(&[
                Service::Transaction,
                Service::Transaction,
                Service::AcknowledgedDatagram,
            ]);
            let most = (*random.pick(&[100, 1000, longest])).min(longest);
            world.ask(service, random.below(u64::from(most) + 1) as u32);
            world.run_for(random.duration_below(Duration::from_millis(300)));
        }
        world.run(|_| {});
        all = (all.0 + answered(&world), all.1 + world.asked.len());
        // Nothing is kept for ever.
        world.run_for(Duration::from_secs(110_000));
        assert_eq!((world.responder.contexts(), world.responder.answer_bytes()), (0, 0));
    });
    println!("{} of {} answered", all.0, all.1);
    assert!(all.0 * 10 > all.1 * 8, "{all:?}");
}

#[test]
fn a_responder_that_begins_anew_answers_what_comes_again_and_disowns_what_it_does_not_know() {
    for_each_seed("responder anew", |_, random| {
        let mut link = any_link(random);
        link.loss = link.loss.min(0.1);
        let plan = Plan {
            links: [link.clone(), link],
            work: Duration::from_secs(10),
            answer_max: *random.pick(&[100, 50_000]),
            ..Plan::default()
        };
        let mut world = World::new(&plan, random);
        for _ in 0..10 {
            world.ask(Service::Transaction, 100);
        }
        world.run_for(random.duration_below(Duration::from_secs(8)));
        world.restart();
        world.run(|_| {});
        let right = |o: &Outcome| {
            matches!(o, Outcome::Answered { .. } | Outcome::Reset | Outcome::TimedOut)
        };
        assert!(outcomes(&world).iter().all(right), "{:?}", outcomes(&world));
    });
}

#[test]
fn requests_of_strangers_fill_no_memory_and_others_are_still_answered() {
    let bounds = Bounds { contexts: 64, half_open: 16, answer_bytes: 10_000 };
    let work = Duration::from_secs(5);
    let mut plan = Plan { bounds, proven: false, work, ..Plan::default() };
    plan.config.linger = Duration::from_secs(1);
    let mut random = Random::new(8);
    let mut world = World::new(&plan, &mut random);
    world.ask(Service::Transaction, 1400);
    let first = {
        world.run_for(Duration::ZERO);
        world.recorded[0].clone()
    };
    let mut made = 0;
    for n in 0..2000u32 {
        let mut bytes = first.clone();
        bytes[..8].copy_from_slice(&(u64::from(n) + 1).to_be_bytes());
        // Not all of the message, so that it waits for the rest.
        bytes[8..12].copy_from_slice(&[0, 0x20, 0, 0x22]);
        fusewire_wire::xtp::seal(&mut bytes);
        let from = [10, 1, (n >> 8) as u8, n as u8];
        world.arrive_at_responder(&Frame { bytes }, from);
        made = made.max(world.responder.contexts());
        world.responder.assert_invariants();
    }
    assert_eq!(made, 16, "half-open contexts have a bound");
    assert!(world.responder.cookies_given() > 1900);
    world.run(|_| {});
    assert_eq!(answered(&world), 1, "a cookie opens");
    let shown = |bytes: &&Vec<u8>| bytes[11] & 31 == Format::First as u8 && bytes[0] & 0x80 != 0;
    let shown = world.recorded.iter().find(shown).expect("a cookie was shown").clone();
    // Seen on the way, it opens nothing more, nor from elsewhere, nor one that nobody gave; also not when what it opened is
    // gone.
    let mut other = shown.clone();
    other[7] ^= 1;
    fusewire_wire::xtp::seal(&mut other);
    let handed = world.handed.len();
    for _ in 0..2 {
        world.arrive_at_responder(&Frame { bytes: shown.clone() }, super::CLIENT);
        world.arrive_at_responder(&Frame { bytes: shown.clone() }, [10, 0, 0, 3]);
        world.arrive_at_responder(&Frame { bytes: other.clone() }, super::CLIENT);
        world.run_for(Duration::from_secs(2));
        assert_eq!((world.handed.len(), world.responder.contexts()), (handed, 16));
    }
}

#[test]
fn nothing_is_remembered_of_what_nobody_waits_for() {
    let mut world = World::new(&Plan::default(), &mut Random::new(9));
    for number in 0..1000 {
        world.ask(Service::Transaction, 1000);
        world.run(|_| {});
        let done = world.served.iter().filter(|(_, served)| served.number < Some(number));
        for id in done.map(|(id, _)| *id).collect::<Vec<_>>() {
            world.responder.forget(id);
        }
        world.settle();
        assert_eq!((world.responder.contexts(), world.served.len()), (1, 1));
    }
    assert_eq!((world.handed.len(), answered(&world)), (1000, 1000));
    assert!(world.responder.answer_bytes() <= world.plan.answer_max as usize);
    // Nor are those remembered longer that wait to be forgotten for their age.
    let shown = format!("{:?}", world.responder);
    let inactive = shown.split("inactive: ").nth(1).and_then(|rest| rest.split(',').next());
    assert!(inactive.unwrap().parse::<usize>().unwrap() < 100, "{shown}");

    // Nor what its application has not answered, whose answer is nobody's then.
    let mut world = World::new(
        &Plan { work: Duration::from_secs(100), ..Plan::default() },
        &mut Random::new(9),
    );
    world.ask(Service::Transaction, 1000);
    world.run_until(|_| {}, |world| !world.handed.is_empty());
    let ids: Vec<_> = world.served.keys().copied().collect();
    assert_eq!((world.responder.contexts(), ids.len()), (1, 1));
    world.responder.forget(ids[0]);
    assert_eq!((world.responder.contexts(), world.responder.waits_for_answer(ids[0])), (0, false));
    world.responder.answer(world.now, ids[0], 1000, false);
    assert_eq!((world.responder.contexts(), world.responder.answer_bytes()), (0, 0));
    world.responder.assert_invariants();
}

#[test]
fn kept_answers_have_a_bound_and_the_oldest_goes_first() {
    let bounds = Bounds { contexts: 1000, answer_bytes: 5000, ..Bounds::default() };
    let plan = Plan { bounds, ..Plan::default() };
    let mut world = World::new(&plan, &mut Random::new(9));
    for _ in 0..200 {
        world.ask(Service::Transaction, 1000);
        world.run(|_| {});
        assert!(world.responder.answer_bytes() <= 5000);
    }
    assert_eq!((answered(&world), world.responder.contexts()), (200, 200));
    // The first is known, though its answer is not; the last has both.
    let firsts: Vec<_> =
        world.recorded.iter().filter(|b| b[11] & 31 == Format::First as u8).cloned().collect();
    let before = world.packets[1];
    world.arrive_at_responder(&Frame { bytes: firsts[0].clone() }, super::CLIENT);
    world.run_for(Duration::from_secs(1));
    assert_eq!((world.handed.len(), world.packets[1]), (200, before));
    world.arrive_at_responder(&Frame { bytes: firsts[199].clone() }, super::CLIENT);
    world.run_for(Duration::from_millis(1));
    assert_eq!((world.handed.len(), world.packets[1]), (200, before + 1));
    // The caller has forgotten it: DIAG 3 lets the answer go.
    let kept = world.responder.answer_bytes();
    world.run_for(Duration::from_secs(1));
    assert!(world.responder.answer_bytes() < kept);

    let bounds = Bounds { contexts: 8, ..Bounds::default() };
    let mut world = World::new(&Plan { bounds, ..Plan::default() }, &mut Random::new(9));
    for _ in 0..20 {
        world.ask(Service::Transaction, 1000);
        world.run(|_| {});
        assert!(world.responder.contexts() <= 8);
    }
    assert_eq!(answered(&world), 20);
}

/// What another than the responder says, who has seen the request or not, ends nothing.
#[test]
fn forged_answers_are_dropped() {
    for_each_seed("forged answers", |_, random| {
        let plan = Plan { work: Duration::from_millis(500), ..Plan::default() };
        let mut world = World::new(&plan, random);
        world.ask(Service::Transaction, 100);
        world.run_for(2 * DELAY);
        let request = parse(&world.recorded[0]);
        let whole = Options::RCLOSE | Options::WCLOSE | Options::EOM;
        let mut answer = fusewire_transport::xtp::Header {
            returned: true,
            options: whole,
            data_len: 9,
            body: fusewire_wire::xtp::Body::Data { btag: None },
            ..request
        };
        match random.below(5) {
            1 => answer.key = Key::new(random.next_u64()).unwrap(),
            2 => answer.seq = 1,
            3 => answer.options = whole.without(Options::RCLOSE),
            4 => answer.options = whole.without(Options::EOM),
            _ => answer.options = whole.without(Options::WCLOSE),
        }
        world.links[1].send(world.now, Frame::forged(&answer, b"forged!!!"));
        let control = fusewire_wire::xtp::Control {
            rseq: random.range(101..200),
            alloc: 1 << 20,
            echo: request.sync,
        };
        let control = fusewire_transport::xtp::Header {
            options: Options::END,
            data_len: 0,
            body: fusewire_wire::xtp::Body::Cntl(control),
            seq: 0,
            ..answer
        };
        world.links[1].send(world.now, Frame::forged(&control, &[]));
        world.run(|_| {});
        assert_eq!(answered(&world), 1, "{:?}", outcomes(&world));
    });
}

/// Who says that a request ends here, and then that it ends there, has not asked.
#[test]
fn a_request_has_one_end() {
    for ends_twice in [false, true] {
        let mut world = World::new(&Plan::default(), &mut Random::new(11));
        world.ask(Service::Transaction, 10);
        world.run(|_| {});
        let first = parse(&world.recorded[0]);
        let end = Options::WCLOSE | Options::EOM;
        let ending = first.options.without(Options::NOCHECK);
        let going_on = ending.without(end);
        let early = if ends_twice { ending } else { going_on };
        for (seq, options) in [(50, early), (100, ending), (0, going_on)] {
            let key = Key::new(77).expect("not zero");
            let piece =
                fusewire_transport::xtp::Header { key, seq, options, data_len: 50, ..first };
            world.arrive_at_responder(&Frame::forged(&piece, &[7; 50]), super::CLIENT);
        }
        let mut events = std::iter::from_fn(|| world.responder.poll_event());
        assert_eq!(events.any(|(_, event)| matches!(event, Event::Arrived(_))), !ends_twice);
    }
}

/// A cookie is asked for once: what asks for another changes nothing of the one that is shown.
#[test]
fn a_second_cookie_is_not_taken() {
    let bounds = Bounds { half_open: 0, ..Bounds::default() };
    let plan = Plan { bounds, proven: false, ..Plan::default() };
    let mut world = World::new(&plan, &mut Random::new(13));
    world.ask(Service::Transaction, 10);
    world.run_for(2 * DELAY);
    let asks = |bytes: &&Vec<u8>| bytes[11] & 31 == Format::Tcntl as u8;
    let mut second = parse(world.recorded.iter().find(asks).expect("a cookie is asked for"));
    if let fusewire_wire::xtp::Body::Tcntl(tcntl) = &mut second.body {
        tcntl.xkey = Key::new(77).expect("not zero");
    }
    let before = world.packets[0];
    world.links[1].send(world.now, Frame::forged(&second, &[]));
    world.run(|_| {});
    assert_eq!((answered(&world), world.packets[0]), (1, before), "{:?}", outcomes(&world));
}

/// Who has a request's key at another address than its initiator's cannot end it.
#[test]
fn a_request_is_ended_from_its_own_address_alone() {
    for from in [super::CLIENT, [10, 0, 0, 3]] {
        let plan = Plan { answer_max: 300_000, ..Plan::default() };
        let mut world = World::new(&plan, &mut Random::new(14));
        world.ask(Service::Transaction, 10);
        world.run_until(|_| {}, |world| world.packets[0] > 1);
        let told = parse(world.recorded.last().expect("it says what came"));
        assert!(
            told.returned && matches!(told.body, fusewire_wire::xtp::Body::Cntl(_)),
            "{told:?}"
        );
        let options = told.options | Options::RCLOSE | Options::WCLOSE | Options::END;
        let over = fusewire_transport::xtp::Header { options, ..told };
        world.arrive_at_responder(&Frame::forged(&over, &[]), from);
        world.run(|_| {});
        assert_eq!(answered(&world), usize::from(from != super::CLIENT), "{:?}", outcomes(&world));
    }
}

#[test]
fn who_is_not_listened_to_is_refused() {
    let config = Config { nocheck: false, ..Config::default() };
    let mut world = World::new(&Plan { config, ..Plan::default() }, &mut Random::new(10));
    for _ in 0..20 {
        world.ask(Service::Transaction, 10);
    }
    world.run(|_| {});
    let refused =
        outcomes(&world).iter().filter(|o| **o == Outcome::Refused(Reason::Options)).count();
    assert!(refused > 3 && refused + answered(&world) == 20, "{:?}", outcomes(&world));
}

#[test]
fn wireshark_reads_every_packet_of_transactions() {
    let mut random = Random::new(11);
    let bad = Impairments { loss: 0.2, delay: DELAY, ..Impairments::default() };
    let mut all = Vec::new();
    for answer_max in [100, 30_000] {
        let plan = Plan {
            links: [bad.clone(), bad.clone()],
            work: Duration::from_secs(2),
            answer_max,
            refuses: Some(7),
            proven: false,
            ..Plan::default()
        };
        let mut world = World::new(&plan, &mut random);
        for n in 0..20 {
            let services = [
                Service::Transaction,
                Service::AcknowledgedDatagram,
                Service::UnacknowledgedDatagram,
            ];
            world.ask(services[n % 3], 1 + 37 * n as u32);
        }
        world.run(|_| {});
        all.append(&mut world.recorded);
    }
    let packets: Vec<_> = all.iter().map(|bytes| wireshark::ipv4(NUMBER, bytes)).collect();
    let names = ["xtp.key", "_ws.malformed"];
    let Some(rows) = wireshark::fields("xtp-single", &packets, &[], &names) else { return };
    assert_eq!(rows.len(), all.len());
    for (row, bytes) in rows.iter().zip(&all) {
        let key: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((row[0].as_str(), row[1].as_str()), (&*format!("0x{key}"), ""), "{bytes:02x?}");
    }
    println!("{} packets, port {PORT}", rows.len());
}

/// Calls, one after the other, over a path of 20 ms: how long that took of which one of a hundred takes longer, and packets
/// up for each.
fn calls_over(plan: &Plan, count: usize, random: &mut Random) -> (Duration, f64) {
    let mut world = World::new(plan, random);
    let (mut answers, mut times) = (Answers::default(), Vec::new());
    for n in 0..count {
        world.plan.patience = answers.patience(2 * DELAY, 2 * DELAY);
        let began = world.now;
        world.ask(Service::Transaction, 100);
        world.run(|_| {});
        assert_eq!(outcomes(&world).len(), n + 1);
        times.push(world.now - began);
        if let Some(took) = world.asked[n].request.took() {
            answers.came(took, world.now);
        }
    }
    assert_eq!(answered(&world), count);
    times.sort();
    (times[count * 99 / 100], world.packets[0] as f64 / count as f64)
}

#[test]
fn a_call_of_which_a_packet_is_lost_is_answered_soon() {
    let mut plan = Plan::default();
    plan.links.iter_mut().for_each(|link| link.loss = 0.02);
    let (p99, packets) = calls_over(&plan, 2000, &mut Random::new(21));
    println!("2 % lost, 20 ms: 99 of 100 calls took at most {p99:?}, {packets:.3} packets up");
    assert!(p99 > 4 * DELAY, "nothing was lost");
    assert!(p99 <= 8 * DELAY + ANSWER_SLACK, "{p99:?}");
    assert!(packets < 1.08, "{packets}");
}

/// Answers that went again tell no time: what the connection knows of a path that has become longer has to.
#[test]
fn a_probe_waits_for_a_path_that_has_become_longer() {
    let ms = Duration::from_millis;
    let mut answers = Answers::default();
    for _ in 0..100 {
        answers.came(ms(20), Instant::ZERO);
    }
    let probe = |srtt| answers.patience(srtt, ms(18)).probe.map(|wait| wait.as_millis());
    assert_eq!(probe(ms(20)), Some(21));
    assert_eq!(probe(ms(60)), Some(61));
    assert_eq!(probe(ms(5)), Some(21), "what answers take is not less for it");
    assert_eq!(probe(ms(5000)), Some(2000));
}

/// A service that takes its time is not asked again for that, once that is known.
#[test]
fn a_slow_service_is_not_asked_twice() {
    for work_ms in [100, 1000] {
        let mut plan = Plan { work: Duration::from_millis(work_ms), ..Plan::default() };
        let (_, packets) = calls_over(&plan, 200, &mut Random::new(22));
        println!("up to {work_ms} ms of work: {packets:.3} packets up");
        assert!(packets < 1.1, "{packets}");
        // Where packets are lost, too, and so answers that came late may be to the one or the other.
        plan.links.iter_mut().for_each(|link| link.loss = 0.05);
        let (_, packets) = calls_over(&plan, 200, &mut Random::new(23));
        assert!(packets < 1.3, "{packets}");
    }
}

/// One probe, and WTIMER after it, which is doubled.
#[test]
fn a_request_goes_again_once_for_a_probe() {
    let ms = Duration::from_millis;
    let message = Message {
        service: Service::Transaction,
        port: PORT,
        len: 3000,
        btag: None,
        proves_itself: false,
    };
    let rtt_min = ms(20);
    for (probe, wtimer, waits) in [
        (Some(ms(50)), ms(40), [50, 200, 400, 800]),
        (Some(ms(330)), ms(321), [321, 642, 1284, 2568]),
        (None, ms(1000), [1000, 2000, 4000, 8000]),
    ] {
        let (cfg, mut now) = (Config::default(), super::Instant::from_ms(7));
        let patience = Patience { probe, wtimer, rtt_min };
        let mut request =
            Request::new(cfg.clone(), message, Key::new(3).unwrap(), patience, now).unwrap();
        for wait in waits {
            let left = std::iter::from_fn(|| request.poll_transmit(now)).count();
            assert_eq!(left, 3, "all of it");
            let next = request.poll_timeout().unwrap();
            assert_eq!(next - now, ms(wait), "{probe:?} {wtimer:?}");
            now = next;
            request.handle_timeout(now);
        }
    }
}
