//! What a context keeps for its application: memory that is let go in any order, messages that wait for their turn, and what
//! it takes before it is open or when it is over.

use fusewire_stack::Error;
use fusewire_stack::context::{About, Context, ControlBlock, Event, Kind};

use crate::world::{SERVICE, World, addrs, block, content};

/// An open context, and nothing in flight.
fn opened(theirs: ControlBlock) -> (World, Context) {
    let mut world = World::new();
    let context = world.open(block(), theirs);
    world.run(5, |world| world.ends[0].heard(&Event::Open) == 1);
    (world, context)
}

/// Messages that are released the last first: all their memory is there again for the next, many times over.
#[test]
fn memory_is_let_go_in_any_order() {
    let (mut world, context) = opened(ControlBlock { receive_bytes: 32 << 10, ..block() });
    world.ends[1].releases = false;
    for round in 0..20 {
        for n in 0..4 {
            assert!(world.ends[0].send(context, &content(n, 7000), About::default()));
        }
        world.run(5, |world| world.ends[1].messages.len() == 4);
        let order = [[3, 2, 1, 0], [2, 3, 0, 1], [0, 1, 2, 3], [3, 1, 2, 0]][round % 4];
        let heard = std::mem::take(&mut world.ends[1].messages);
        assert!((0..).zip(&heard).all(|(n, (.., bytes))| *bytes == content(n, 7000)));
        for n in order {
            let (of, message, _) = &heard[n];
            world.ends[1].contexts.release(*of, message);
        }
    }
}

/// What is lent waits; what is copied does not leave before it, and the end leaves behind both.
#[test]
fn messages_and_the_end_leave_in_order() {
    let (mut world, context) = opened(block());
    let [end, _] = &mut world.ends;
    let lend = |end: &mut crate::world::End, n| {
        let lent = end.contexts.send_lent(context, content(n, 3000), About::default());
        assert_eq!(lent.unwrap(), Ok(()));
    };
    lend(end, 1);
    assert!(end.send(context, &content(2, 3000), About::default()));
    lend(end, 3);
    end.contexts.finish(context);
    let more = end.contexts.send_lent(context, content(4, 10), About::default());
    assert!(matches!(more, Err(Error::Misuse(_))), "{more:?}");
    world.run(5, |world| world.ends[1].heard(&Event::Finished) == 1);
    let bytes: Vec<&Vec<u8>> = world.ends[1].messages.iter().map(|(.., bytes)| bytes).collect();
    assert_eq!(bytes, [1, 2, 3].map(|n| content(n, 3000)).iter().collect::<Vec<_>>());
}

/// A context that was ended takes nothing, before its application has heard of that and after.
#[test]
fn what_is_over_takes_nothing() {
    let (mut world, context) = opened(block());
    world.ends[0].contexts.abort(context);
    for _ in 0..2 {
        let contexts = &mut world.ends[0].contexts;
        assert!(!contexts.takes_message(context));
        let more = contexts.send_lent(context, content(1, 10), About::default());
        assert!(matches!(more, Err(Error::Closed)), "{more:?}");
        world.step();
    }
}

#[test]
fn a_context_for_one_message_has_one_peer() {
    let mut world = World::new();
    for kind in [Kind::Datagram, Kind::Acknowledged, Kind::Transaction] {
        let contexts = &mut world.ends[0].contexts;
        let context = contexts.context(ControlBlock { kind, ..block() }).unwrap();
        contexts.connect(context, addrs()[1], SERVICE).unwrap();
        let again = contexts.connect(context, addrs()[0], SERVICE);
        assert!(matches!(again, Err(Error::Misuse(_))), "{again:?}");
        assert_eq!(contexts.remote_addr(context), Some(addrs()[1]));
    }
}

/// Packets that would hold nothing are made longer.
#[test]
fn packets_have_room_for_data() {
    for packet_bytes in [Some(0), Some(33)] {
        let mut world = World::new();
        let tiny = ControlBlock { packet_bytes, ..block() };
        let context = world.open(tiny.clone(), tiny);
        assert!(world.ends[0].contexts.packet_data(context) >= 400);
        assert!(world.ends[0].send(context, &content(1, 2000), About::default()));
        world.run(5, |world| world.ends[1].messages.len() == 1);
        assert_eq!(world.ends[1].messages[0].2, content(1, 2000));
    }
}
