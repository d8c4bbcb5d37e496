//! Services 1 to 3 in contexts: one message, and what is said to it.

use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_device::impair::Rules;
use fusewire_device::{Device, Ecn, TxFrame};
use fusewire_stack::Error;
use fusewire_stack::context::{
    About, Context, ControlBlock, Ended, Event, Facts, Kept, Kind, Placement, Reason, Scatter,
};

use crate::world::{World, addrs, block, content};

fn of(kind: Kind) -> ControlBlock {
    ControlBlock { kind, tags: true, ..block() }
}

fn ask(world: &mut World, block: ControlBlock, message: &[u8], tag: u64) -> Context {
    let context = world.connect(block);
    let about = About { tag: Some(tag), sort: None };
    assert!(world.ends[0].send(context, message, about));
    context
}

/// Packets that left each end.
fn left(world: &World) -> [usize; 2] {
    [0, 1].map(|end: usize| world.ends[end].log.lock().unwrap().len())
}

#[test]
fn a_datagram_is_one_packet_and_nothing_comes_back() {
    let mut world = World::new();
    world.listen(of(Kind::Datagram));
    let context = ask(&mut world, of(Kind::Datagram), b"a word", 77);
    world.run_for(Duration::from_secs(3));
    assert_eq!(left(&world), [1, 0]);
    let (_, message, bytes) = &world.ends[1].messages[0];
    assert_eq!((message.tag, &bytes[..]), (Some(77), &b"a word"[..]));
    assert_eq!(world.ends[0].ended(context), Some(Ended::InOrder));
    assert_eq!([0, 1].map(|end: usize| world.ends[end].contexts.count()), [0, 0]);
}

#[test]
fn an_acknowledged_datagram_says_that_it_was_handed_over() {
    let mut world = World::new();
    world.ends[1].releases = false;
    world.listen(of(Kind::Acknowledged));
    let context = ask(&mut world, of(Kind::Acknowledged), &content(1, 900), 5);
    world.run_for(Duration::from_millis(900));
    assert_eq!(world.ends[1].messages[0].2, content(1, 900));
    assert_eq!((world.ends[0].ended(context), left(&world)), (None, [1, 0]), "nobody has it");
    let (theirs, message, _) = world.ends[1].messages[0].clone();
    world.ends[1].contexts.release(theirs, &message);
    world.run(1, |world| world.ends[0].ended(context).is_some());
    assert_eq!(world.ends[0].ended(context), Some(Ended::InOrder));
    assert_eq!(left(&world), [1, 1], "two packets in all");
}

/// Answers every request that was heard with the same bytes, the other way round.
fn answer(world: &mut World, answered: &mut usize) {
    while let Some((context, _, bytes)) = world.ends[1].messages.get(*answered) {
        let (context, mut answer) = (*context, bytes.clone());
        answer.reverse();
        let pieces = answer.split_at(answer.len() / 2);
        let pieces = [IoSlice::new(pieces.0), IoSlice::new(pieces.1)];
        assert!(world.ends[1].contexts.send(context, &pieces, About::default()).unwrap());
        *answered += 1;
    }
}

#[test]
fn a_transaction_is_two_packets() {
    let mut world = World::new();
    world.listen(of(Kind::Transaction));
    let context = ask(&mut world, of(Kind::Transaction), &content(2, 1000), 9);
    let mut answered = 0;
    world.run(1, |world| {
        answer(world, &mut answered);
        world.ends[0].ended(context).is_some()
    });
    let (of, message, bytes) = &world.ends[0].messages[0];
    let mut wanted = content(2, 1000);
    wanted.reverse();
    assert_eq!((*of, message.is_whole, bytes), (context, true, &wanted));
    assert_eq!(world.ends[1].messages[0].1.tag, Some(9));
    assert_eq!(world.ends[0].ended(context), Some(Ended::InOrder));
    world.run_for(Duration::from_secs(5));
    assert_eq!(left(&world), [1, 1]);
    assert_eq!([0, 1].map(|end: usize| world.ends[end].contexts.count()), [0, 0]);
}

/// Requests of several packets and answers that are streams, over a link that loses, doubles, reorders and breaks packets:
/// each is handed over once, and as it was.
#[test]
fn transactions_survive_a_bad_link() {
    let rules = Rules {
        loss: 0.05,
        duplicate: 0.05,
        corrupt: 0.03,
        reorder: 0.1,
        delay: Duration::from_millis(3),
        ..Rules::NONE
    };
    for (kind, lens) in [
        (Kind::Transaction, [1, 700, 1300, 5000, 12_000]),
        (Kind::Acknowledged, [1, 1300, 2600, 9000, 12_000]),
    ] {
        let mut world = World::over(rules, 40);
        world.listen(of(kind));
        let mut answered = 0;
        for n in 0..100 {
            let message = content(n, lens[n % lens.len()]);
            let context = ask(&mut world, of(kind), &message, n as u64);
            world.run(120, |world| {
                if kind == Kind::Transaction {
                    answer(world, &mut answered);
                }
                world.ends[0].ended(context).is_some()
            });
            assert_eq!(world.ends[0].ended(context), Some(Ended::InOrder), "{kind:?} {n}");
            assert_eq!(world.ends[1].messages.len(), n + 1, "at most once");
            let (_, told, bytes) = world.ends[1].messages.last().unwrap();
            assert_eq!((told.tag, bytes), (Some(n as u64), &message));
            if kind == Kind::Transaction {
                let mut wanted = message;
                wanted.reverse();
                assert_eq!(world.ends[0].messages.last().unwrap().2, wanted);
            }
        }
    }
}

/// Answers may be longer than a packet, and longer than requests.
#[test]
fn a_long_answer_is_a_stream() {
    let mut world = World::new();
    world.listen(of(Kind::Transaction));
    let context = ask(&mut world, of(Kind::Transaction), b"all of it", 1);
    world.run(1, |world| world.ends[1].messages.len() == 1);
    let theirs = world.ends[1].messages[0].0;
    let long = content(6, 700_000);
    let lent = world.ends[1].contexts.send_lent(theirs, long.clone(), About::default());
    assert_eq!(lent.unwrap(), Ok(()));
    world.run(20, |world| world.ends[0].ended(context).is_some());
    assert_eq!(world.ends[0].messages[0].2, long);
    // More than the asker has room for.
    let little = ControlBlock { receive_bytes: 100_000, ..of(Kind::Transaction) };
    let context = ask(&mut world, little, b"all of it", 2);
    world.run(1, |world| world.ends[1].messages.len() == 2);
    let theirs = world.ends[1].messages[1].0;
    assert_eq!(world.ends[1].contexts.send_lent(theirs, long, About::default()).unwrap(), Ok(()));
    world.run(60, |world| world.ends[0].ended(context).is_some());
    assert_eq!(world.ends[0].ended(context), Some(Ended::TooLong));
}

/// One piece of memory, for whatever comes.
struct Into(Vec<u8>, Vec<Facts>);

impl Placement for Into {
    fn place<'a>(&'a mut self, _: Context, facts: &Facts, into: &mut Scatter<'a>) {
        self.1.push(*facts);
        let (head, rest) = self.0[facts.offset as usize..][..facts.len].split_at_mut(facts.len / 3);
        into.push(head);
        into.push(rest);
    }
}

/// Requests and answers go where the application says, and answers to memory that was lent.
#[test]
fn both_are_placed_in_the_pass_that_checks_them() {
    let mut world = World::new();
    world.listen(of(Kind::Transaction));
    ask(&mut world, of(Kind::Transaction), &content(1, 4000), 3);
    let mut requests = Into(vec![0; 5000], Vec::new());
    for _ in 0..8 {
        world.step_with(&mut Kept, &mut requests);
    }
    assert_eq!(requests.0[..4000], content(1, 4000));
    assert!(requests.1[0].tag == Some(3) && requests.1.last().unwrap().ends);
    assert!(world.ends[1].messages[0].2.is_empty(), "it does not lie in memory of the context's");
    let theirs = world.ends[1].messages[0].0;
    world.ends[1].send(theirs, &content(2, 900), About::default());
    let mut answers = Into(vec![0; 1000], Vec::new());
    for _ in 0..8 {
        world.step_with(&mut answers, &mut Kept);
    }
    assert_eq!(answers.0[..900], content(2, 900));
    // Lent memory comes back with the end.
    let small = ControlBlock { receive_bytes: 16_384, ..of(Kind::Transaction) };
    let context = world.ends[0].contexts.context(small).unwrap();
    world.ends[0].contexts.lend(context, vec![0xee; 20_000]).unwrap();
    world.ends[0].contexts.connect(context, addrs()[1], crate::world::SERVICE).unwrap();
    world.ends[0].releases = false;
    world.ends[0].send(context, b"again", About::default());
    world.run(1, |world| world.ends[1].messages.len() == 2);
    let theirs = world.ends[1].messages[1].0;
    world.ends[1].send(theirs, &content(3, 800), About::default());
    world.run(1, |world| world.ends[0].ended(context).is_some());
    let back = world.ends[0].contexts.take_back(context).expect("the memory");
    assert_eq!((&back[..800], back.len()), (&content(3, 800)[..], 20_000));
    assert_eq!(back[800], 0xee);
}

#[test]
fn what_goes_wrong_is_told() {
    let mut world = World::new();
    let transaction = of(Kind::Transaction);
    world.listen(transaction.clone());
    // Longer than a message of these services may be.
    let context = world.connect(transaction.clone());
    let contexts = &mut world.ends[0].contexts;
    let max = contexts.message_len_max(context);
    assert!((10_000..=16_384).contains(&max), "{max}");
    let much = vec![1; max + 1];
    let told = contexts.send(context, &[IoSlice::new(&much)], About::default());
    assert!(matches!(told, Err(Error::TooLong { len, max: m }) if (len, m) == (max + 1, max)));
    assert!(contexts.send(context, &[IoSlice::new(&much[1..])], About::default()).unwrap());
    let told = contexts.send(context, &[IoSlice::new(b"more")], About::default());
    assert!(matches!(told, Err(Error::Misuse(_))), "one message");
    assert_eq!(contexts.unsent(context), max);
    // Given up where it was to be answered.
    world.run(1, |world| world.ends[1].messages.len() == 1);
    let theirs = world.ends[1].messages[0].0;
    world.ends[1].contexts.abort(theirs);
    world.run(5, |world| world.ends[0].ended(context).is_some());
    assert_eq!(world.ends[0].ended(context), Some(Ended::Aborted));
    let told = world.ends[1].contexts.send(theirs, &[IoSlice::new(b"late")], About::default());
    assert!(matches!(told, Err(Error::Closed)));
    // A service that nobody has, and one of another kind.
    for (service, kind, reason) in
        [(9, Kind::Transaction, Reason::NoListener), (7, Kind::Stream, Reason::Service)]
    {
        let context = world.ends[0].contexts.context(ControlBlock { kind, ..block() }).unwrap();
        world.ends[0].contexts.connect(context, addrs()[1], service).unwrap();
        world.ends[0].send(context, b"anybody?", About::default());
        world.run(5, |world| world.ends[0].ended(context).is_some());
        match world.ends[0].ended(context) {
            Some(Ended::Refused(diag)) => assert_eq!(diag.reason, reason),
            other => panic!("{other:?}"),
        }
    }
    // Nobody at all.
    world.ends[0].lose.store(usize::MAX, Ordering::Relaxed);
    let context = ask(&mut world, transaction.clone(), b"hello?", 0);
    world.run(60, |world| world.ends[0].ended(context).is_some());
    assert_eq!(world.ends[0].ended(context), Some(Ended::TimedOut));
    world.ends[0].lose.store(0, Ordering::Relaxed);
    // Whoever asks gives up, and so does the service.
    let context = ask(&mut world, transaction.clone(), b"never mind", 0);
    world.ends[0].contexts.abort(context);
    world.step();
    assert_eq!(world.ends[0].ended(context), Some(Ended::Ours));
    let context = ask(&mut world, transaction, b"still there?", 0);
    let before = world.ends[1].messages.len();
    world.run(1, |world| world.ends[1].messages.len() > before);
    let theirs = world.ends[1].messages.last().unwrap().0;
    world.ends[1].contexts.stop_listening(crate::world::SERVICE);
    world.step();
    assert_eq!(world.ends[1].ended(theirs), Some(Ended::Aborted));
    world.run(60, |world| world.ends[0].ended(context).is_some());
    assert!(world.ends[0].contexts.count() == 0 && world.ends[1].contexts.count() <= 1);
}

/// What came and was not released has a bound of bytes; with room again there is more.
#[test]
fn messages_that_nobody_takes_have_a_bound() {
    let mut world = World::new();
    world.ends[1].releases = false;
    world.listen(ControlBlock { receive_bytes: 20_000, ..of(Kind::Datagram) });
    for n in 0..100 {
        ask(&mut world, of(Kind::Datagram), &content(n, 1000), n as u64);
    }
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.ends[1].messages.len(), 20);
    assert_eq!(world.ends[1].contexts.count(), 20);
    let heard = world.ends[1].messages.clone();
    for (context, message, bytes) in &heard {
        assert_eq!(*bytes, content(message.tag.unwrap() as usize, 1000));
        world.ends[1].contexts.release(*context, message);
    }
    assert_eq!(world.ends[1].contexts.count(), 0);
    for n in 0..100 {
        ask(&mut world, of(Kind::Datagram), &content(n, 1000), n as u64);
    }
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.ends[1].messages.len(), 40);
}

/// Messages of several contexts, and answers among streams, leave in the order of their sort.
#[test]
fn they_are_scheduled_with_the_others() {
    let mut world = World::new();
    world.listen(of(Kind::Datagram));
    for n in 0..60u64 {
        let sort = Some([3, 50, 9][n as usize % 3]);
        let context = world.connect(ControlBlock { sort, ..of(Kind::Datagram) });
        let about = About { tag: Some(n), sort: (n == 33).then_some(700) };
        assert!(world.ends[0].send(context, &content(1, 500), about));
    }
    world.ends[0].contexts.flush();
    let log = world.ends[0].log.lock().unwrap();
    let sorts: Vec<u16> = log.iter().map(|p| u16::from_be_bytes([p[18], p[19]])).collect();
    assert!(log.iter().all(|packet| packet[8] & 2 == 2), "SORT is set");
    assert_eq!((sorts.len(), sorts[0]), (60, 700), "{sorts:?}");
    let first = sorts[1..20].iter().filter(|sort| **sort == 50).count();
    assert!((17..=18).contains(&first), "all but one of sixteen: {sorts:?}");
    let at = |sort: u16| sorts.iter().rposition(|s| *s == sort).unwrap();
    assert!(at(50) < at(9) && at(9) < at(3), "{sorts:?}");
}

/// A request with a bit that is wrong, each of them: nothing is told, no context stays, and nothing where it was placed.
#[test]
fn what_fails_leaves_nothing() {
    for kind in [Kind::Datagram, Kind::Acknowledged, Kind::Transaction] {
        let mut world = World::new();
        world.listen(of(kind));
        ask(&mut world, of(kind), b"some message", 7);
        world.ends[0].lose.store(1, Ordering::Relaxed);
        world.ends[0].contexts.flush();
        let packet = world.ends[0].log.lock().unwrap()[0].clone();
        let mut forger = world.network.attach(([192, 0, 2, 9], 9).into()).unwrap();
        let [_, mut second] = world.ends;
        let mut send = |bytes: &[u8]| {
            let frame = TxFrame { peer: addrs()[1], header: bytes, payload: &[], ecn: Ecn::NotEct };
            forger.transmit(&[frame]).unwrap();
        };
        let mut placed = 0;
        for bit in 0..packet.len() * 8 {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            send(&forged);
            let mut into = Into(vec![0xaa; 1 << 16], Vec::new());
            second.poll(&mut into);
            placed += into.1.len();
            assert!(second.heard.is_empty(), "{kind:?}: bit {bit}");
            assert_eq!(second.contexts.count(), 0, "{kind:?}: bit {bit}");
            assert!(into.0.iter().all(|byte| [0xaa, 0].contains(byte)), "bit {bit}");
        }
        assert!(placed >= 12 * 8, "some were placed before they were judged: {placed}");
        send(&packet);
        second.poll(&mut Kept);
        assert_eq!(second.messages[0].2, b"some message");
        assert!(matches!(second.heard[0].1, Event::Accepted { .. }));
    }
}
