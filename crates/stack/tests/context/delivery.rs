//! Messages arrive as they were sent, by every mechanism, over any link; and how contexts open and end.

use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_device::impair::Rules;
use fusewire_stack::Error;
use fusewire_stack::context::{
    About, Check, Code, ControlBlock, Ended, Event, Kind, Rate, Reason, Retransmission,
};

use crate::world::{SERVICE, World, addrs, block, content};

const LENS: [usize; 9] = [1, 7, 1000, 1400, 2000, 5001, 16_384, 40_000, 3];

/// Sends `count` messages one way and back, over such a link, and sees that all come in order and as they were.
fn both_ways(world: &mut World, ours: &ControlBlock, theirs: &ControlBlock, count: usize) {
    let context = world.open(ours.clone(), theirs.clone());
    let (mut sent, mut echoed) = (0, 0);
    let lens = LENS.into_iter().cycle();
    let messages: Vec<Vec<u8>> = lens.take(count).enumerate().map(|(n, l)| content(n, l)).collect();
    let tag = |n: usize| ours.tags.then_some(n as u64 ^ 0x5555);
    world.run(600, |world| {
        let [first, second] = &mut world.ends;
        while sent < count {
            let about = About { tag: tag(sent), sort: None };
            if !first.send(context, &messages[sent], about) {
                break;
            }
            sent += 1;
        }
        while let Some((back, message, bytes)) = second.messages.get(echoed) {
            assert_eq!(message.tag, tag(echoed), "of {echoed}");
            let (back, bytes) = (*back, bytes.clone());
            let (front, rest) = bytes.split_at(bytes.len() / 3);
            let pieces = [front, rest].map(IoSlice::new);
            if !second.contexts.send(back, &pieces, About::default()).unwrap() {
                break;
            }
            echoed += 1;
        }
        first.messages.len() == count
    });
    let got: Vec<&Vec<u8>> = world.ends[0].messages.iter().map(|m| &m.2).collect();
    assert!(got.iter().zip(&messages).all(|(got, sent)| *got == sent), "bytes differ");
    world.ends[0].contexts.finish(context);
    let called = world.called();
    world.ends[1].contexts.finish(called);
    world.run(300, |world| {
        world.ends[0].ended(context).is_some() && world.ends[1].ended(called).is_some()
    });
    assert_eq!(world.ends[0].ended(context), Some(Ended::InOrder));
    assert_eq!(world.ends[1].ended(called), Some(Ended::InOrder));
}

fn blocks() -> Vec<ControlBlock> {
    let tagged = ControlBlock { tags: true, ..block() };
    vec![
        block(),
        tagged.clone(),
        ControlBlock { check: Check::Cxor, ..block() },
        ControlBlock { check: Check::Cxor, ..tagged.clone() },
        ControlBlock { edge: true, sort: Some(9), ..tagged.clone() },
        ControlBlock { retransmission: Retransmission::GoBackN, fastnak: false, ..block() },
        ControlBlock { send_bytes: 64 << 10, receive_bytes: 64 << 10, ..tagged },
        ControlBlock { packet_bytes: Some(600), congestion: None, noflow: true, ..block() },
    ]
}

#[test]
fn messages_arrive_by_every_mechanism() {
    for block in blocks() {
        both_ways(&mut World::new(), &block, &block, 60);
    }
}

#[test]
fn messages_arrive_over_a_bad_link() {
    let rules = Rules {
        loss: 0.05,
        duplicate: 0.03,
        corrupt: 0.03,
        reorder: 0.1,
        delay: Duration::from_millis(3),
        ..Rules::NONE
    };
    for (seed, block) in (0..).zip(blocks()) {
        both_ways(&mut World::over(rules, 100 + seed), &block, &block, 40);
    }
}

/// CXOR is used if both want it, and then alone: the check of such packets covers the header.
#[test]
fn cxor_is_agreed_on() {
    let cxor = ControlBlock { check: Check::Cxor, ..block() };
    for (theirs, agreed) in [(cxor.clone(), true), (block(), false)] {
        let mut world = World::new();
        both_ways(&mut world, &cxor, &theirs, 20);
        let log = world.ends[0].log.lock().unwrap();
        let is_data = |packet: &&Vec<u8>| packet[11] & 31 == 0;
        let trailers = log.iter().filter(is_data).filter(|p| p[8] & 0x44 == 0x44).count();
        assert_eq!(trailers > 10, agreed, "{trailers}");
        assert_eq!(trailers, if agreed { log.iter().filter(is_data).count() } else { 0 });
    }
}

/// The first message is there when the first packet is: nothing has to come back before.
#[test]
fn the_first_message_comes_with_the_first_packet() {
    let mut world = World::new();
    let context = world.open(block(), block());
    world.ends[0].send(context, b"at once", About::default());
    world.step();
    assert_eq!(world.ends[1].messages[0].2, b"at once");
    assert_eq!(world.ends[0].log.lock().unwrap().len(), 1, "one packet");
}

/// Before there is an alloc no more than 16,384 bytes leave, however long packets may be.
#[test]
fn a_long_first_message_leaves_in_pieces() {
    let mut world = World::new();
    let context = world.open(ControlBlock::default(), ControlBlock::default());
    world.ends[0].send(context, &content(1, 40_000), About::default());
    world.run(5, |world| world.ends[1].messages.len() == 1);
    assert_eq!(world.ends[1].messages[0].2, content(1, 40_000));
}

#[test]
fn a_service_that_nobody_has_is_refused() {
    let mut world = World::new();
    let context = world.connect(block());
    world.run(5, |world| world.ends[0].ended(context).is_some());
    let Some(Ended::Refused(diag)) = world.ends[0].ended(context) else { panic!() };
    assert_eq!((diag.code, diag.reason), (Code::ContextRefused, Reason::NoListener));
    let gone = world.ends[0].contexts.send(context, &[IoSlice::new(b"x")], About::default());
    assert!(matches!(gone, Err(Error::Closed)));
}

#[test]
fn who_ends_at_once_is_heard() {
    let mut world = World::new();
    let context = world.open(block(), block());
    world.ends[0].send(context, &content(1, 3000), About::default());
    world.run(5, |world| world.ends[0].heard(&Event::Open) == 1);
    world.ends[0].contexts.abort(context);
    let called = world.called();
    world.run(5, |world| world.ends[1].ended(called).is_some());
    assert_eq!(world.ends[1].ended(called), Some(Ended::Aborted));
    assert_eq!(world.ends[0].ended(context), Some(Ended::Ours));
    world.step();
    assert_eq!((world.ends[0].contexts.count(), world.ends[1].contexts.count()), (0, 0));
}

#[test]
fn aborting_reports_the_end_of_contexts_that_never_connected_or_never_sent() {
    let mut world = World::new();
    let kinds = [Kind::Stream, Kind::Datagram, Kind::Acknowledged, Kind::Transaction];
    for (n, kind) in kinds.into_iter().enumerate() {
        for connects in [false, true] {
            let contexts = &mut world.ends[0].contexts;
            let block = ControlBlock { kind, ..block() };
            let memory = vec![7; block.receive_bytes as usize];
            let context = contexts.context(block).unwrap();
            contexts.lend(context, memory.clone()).unwrap();
            if connects {
                contexts.connect(context, addrs()[1], SERVICE).unwrap();
            }
            if connects && kind != Kind::Stream {
                let max = contexts.message_len_max(context);
                let long =
                    contexts.send(context, &[IoSlice::new(&vec![0; max + 1])], About::default());
                assert!(matches!(long, Err(Error::TooLong { .. })), "{long:?}");
            }
            contexts.abort(context);
            contexts.abort(context);
            let late = contexts.send(context, &[IoSlice::new(b"late")], About::default());
            assert!(matches!(late, Err(Error::Closed)), "{kind:?} {late:?}");
            if !connects {
                let late = contexts.connect(context, addrs()[1], SERVICE);
                assert!(matches!(late, Err(Error::Closed)), "{late:?}");
            }
            assert!(
                contexts.take_back(context) == Some(memory),
                "{kind:?}: lent memory comes back"
            );
            world.run(1, |world| world.ends[0].ended(context).is_some());
            assert_eq!(world.ends[0].ended(context), Some(Ended::Ours), "{kind:?} {connects}");
            world.step();
            assert_eq!(world.ends[0].contexts.count(), 0, "{kind:?} {connects}");
            assert_eq!(
                world.ends[0].heard(&Event::Closed(Ended::Ours)),
                2 * n + 1 + usize::from(connects)
            );
        }
    }
}

#[test]
fn nobody_answers() {
    let mut world = World::over(Rules { loss: 1.0, ..Rules::NONE }, 5);
    let context = world.connect(block());
    world.run(40, |world| world.ends[0].ended(context).is_some());
    assert_eq!(world.ends[0].ended(context), Some(Ended::TimedOut));
}

/// Nothing is sent again: the application hears what is missing, and of messages that it tore.
#[test]
fn gaps_are_told_where_nothing_is_sent_again() {
    let rules = Rules { loss: 0.1, ..Rules::NONE };
    let mut world = World::over(rules, 77);
    let ours = ControlBlock { noerr: true, tags: true, congestion: None, ..block() };
    // What was torn has memory as well, which has to be there for others.
    let theirs = ControlBlock { receive_bytes: 64 << 10, ..block() };
    let context = world.open(ours, theirs);
    let mut sent = 0;
    world.run(60, |world| {
        let about = About { tag: Some(sent as u64), sort: None };
        if sent < 400 && world.ends[0].send(context, &content(sent, 3000), about) {
            sent += 1;
        }
        sent == 400 && world.ends[0].contexts.unsent(context) == 0
    });
    let end = &world.ends[1];
    let gaps = end.heard.iter().map(|(_, event)| match event {
        Event::Gap(gap) => gap.end - gap.start,
        _ => 0,
    });
    let gaps: u64 = gaps.sum();
    assert!(gaps > 20_000, "{gaps} bytes never came");
    let (whole, torn): (Vec<_>, Vec<_>) = end.messages.iter().partition(|m| m.1.is_whole);
    assert!(whole.len() > 250 && torn.len() > 20, "{} whole, {} torn", whole.len(), torn.len());
    for (_, message, bytes) in whole {
        let tag = message.tag.expect("a message that came whole has its first packet") as usize;
        assert_eq!(*bytes, content(tag, 3000));
    }
}

/// A message that is whole is told, though one before it is not.
#[test]
fn a_message_overtakes_one_that_lacks_a_packet() {
    let mut world = World::new();
    let theirs = ControlBlock { overtaking: true, ..block() };
    let context = world.open(ControlBlock { tags: true, ..block() }, theirs);
    let about = |n| About { tag: Some(n), sort: None };
    world.ends[0].send(context, &content(0, 100), about(0));
    world.run(5, |world| world.ends[1].messages.len() == 1);
    world.run_for(Duration::from_millis(10));
    world.ends[0].lose.store(1, Ordering::Relaxed);
    world.ends[0].send(context, &content(1, 1000), about(1));
    world.ends[0].send(context, &content(2, 5000), about(2));
    world.step();
    let tags = |world: &World| world.ends[1].messages.iter().map(|m| m.1.tag).collect::<Vec<_>>();
    assert_eq!(tags(&world), [Some(0), Some(2)], "the second is told before the first");
    world.run(30, |world| world.ends[1].messages.len() == 3);
    assert_eq!(tags(&world), [Some(0), Some(2), Some(1)]);
    for ((_, _, bytes), (n, len)) in
        world.ends[1].messages.iter().zip([(0, 100), (2, 5000), (1, 1000)])
    {
        assert_eq!(*bytes, content(n, len));
    }
}

#[test]
fn a_message_longer_than_the_receive_buffer_ends_the_context() {
    let mut world = World::new();
    let theirs = ControlBlock { receive_bytes: 32 << 10, ..block() };
    let context = world.open(block(), theirs);
    assert!(world.ends[0].send(context, &content(1, 100 << 10), About::default()));
    world.run(60, |world| world.ends[0].ended(context).is_some());
    let called = world.called();
    assert_eq!(world.ends[1].ended(called), Some(Ended::TooLong));
    assert_eq!(world.ends[0].ended(context), Some(Ended::Aborted));
}

/// Memory that is lent is where messages lie, and comes back.
#[test]
fn a_lent_buffer_is_used_and_given_back() {
    let mut world = World::new();
    world.listen(block());
    let contexts = &mut world.ends[0].contexts;
    let context = contexts.context(block()).unwrap();
    assert!(contexts.lend(context, vec![0; 10]).is_err(), "too short");
    contexts.lend(context, vec![0xee; 2 << 20]).unwrap();
    contexts.connect(context, addrs()[1], crate::world::SERVICE).unwrap();
    assert!(contexts.connect(context, addrs()[1], crate::world::SERVICE).is_err(), "once");
    world.run(5, |world| world.ends[1].heard.iter().any(|e| e.1 == Event::Open));
    let called = world.called();
    world.ends[1].send(called, &content(4, 5000), About::default());
    world.run(5, |world| world.ends[0].messages.len() == 1);
    world.ends[0].contexts.abort(context);
    world.ends[0].contexts.flush();
    let mut back = None;
    while let Some((of, event)) = world.ends[0].contexts.poll_event() {
        if matches!(event, Event::Closed(_)) {
            back = world.ends[0].contexts.take_back(of);
        }
    }
    assert_eq!(back.unwrap()[..5001], [content(4, 5000), vec![0xee]].concat());
}

/// Packets of one length leave together: messages are cut evenly, for a few packets more if need be. 2,003 bytes make no
/// equal ones, and 16,390 none in so few.
#[test]
fn messages_are_cut_evenly() {
    let cases = [
        (2000, 2),
        (2003, 2),
        (2001, 3),
        (4000, 4),
        (1368, 1),
        (9000, 8),
        (16_384, 16),
        (16_390, 12),
    ];
    for (len, packets) in cases {
        let mut world = World::new();
        let context = world.open(block(), block());
        world.ends[0].send(context, b"x", About::default());
        world.run(5, |world| world.ends[0].heard(&Event::Open) == 1);
        world.run_for(Duration::from_millis(10));
        world.ends[0].log.lock().unwrap().clear();
        world.ends[0].send(context, &content(1, len), About::default());
        world.run(5, |world| world.ends[1].messages.len() == 2);
        let log = world.ends[0].log.lock().unwrap();
        let lens = log.iter().filter(|p| p[11] & 31 == 0).map(|p| p.len() - 32);
        let lens: Vec<usize> = lens.collect();
        assert_eq!(lens.len(), packets, "{lens:?}");
        assert!(lens[0] - lens[packets - 1] < packets, "{lens:?}");
    }
}

/// As many bytes as wrap both rings, in messages of all lengths, over one packet and more.
#[test]
fn long_streams_of_messages_wrap_all_memory() {
    for (check, tags) in [(Check::Internet, false), (Check::Cxor, false), (Check::Cxor, true)] {
        let block = ControlBlock { check, tags, ..ControlBlock::default() };
        let mut world = World::new();
        let context = world.open(block.clone(), block);
        for n in 0..60 {
            let message = content(n, 1 + n * 1999);
            let third = message.len() / 3;
            let pieces = [&message[..third], &[], &message[third..]].map(IoSlice::new);
            // Where messages have none it is nobody's.
            let about = About { tag: Some(n as u64 + 7), sort: None };
            assert!(world.ends[0].contexts.send(context, &pieces, about).unwrap());
            world.run(30, |world| world.ends[1].messages.len() == n + 1);
            assert!(world.ends[1].messages[n].2 == message, "{n} by {check:?}");
            assert_eq!(world.ends[1].messages[n].1.tag, about.tag.filter(|_| tags));
        }
    }
}

/// What a receiver wants to be sent may change while it is open: its peer's pace follows.
#[test]
fn another_rate_is_followed() {
    let mut world = World::new();
    let rate = |rate| Rate { rate, burst: 5000 };
    let theirs = ControlBlock { in_rate: rate(400_000), ..block() };
    let context = world.open(block(), theirs.clone());
    let message = content(1, 10_000);
    let took = |world: &mut World, seconds: u64| {
        let had = world.ends[1].messages.len();
        let end = world.now() + seconds * 1_000_000_000;
        world.run(seconds + 1, |world| {
            while world.ends[0].send(context, &message, About::default()) {}
            world.now() >= end
        });
        (world.ends[1].messages.len() - had) * message.len()
    };
    took(&mut world, 1);
    for bytes_a_second in [50_000, 800_000] {
        let called = world.called();
        world.ends[1].contexts.set_in_rate(called, rate(bytes_a_second)).unwrap();
        took(&mut world, 1);
        let (took, most) = (took(&mut world, 4), 4 * bytes_a_second as usize);
        assert!((most * 8 / 10..=most + 15_000).contains(&took), "{took} of {most}");
    }
    // What is not open has what its control block says.
    let made = world.ends[1].contexts.context(theirs).unwrap();
    let refused = world.ends[1].contexts.set_in_rate(made, Rate::NONE);
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}
