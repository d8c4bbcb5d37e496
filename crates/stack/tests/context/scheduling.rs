//! SORT: contexts of a host, and messages of a context, in the order of their priority; and nobody starves.

use std::collections::HashMap;
use std::time::Duration;

use fusewire_device::impair::Rules;
use fusewire_stack::context::{About, Context, ControlBlock};

use crate::world::{World, block, content};

/// One of so many, as `docs/xtp.md` has it.
const ODDS: usize = 16;

/// Whose the packets with data are that left, by their sort.
fn sorts(world: &World) -> Vec<u16> {
    let log = world.ends[0].log.lock().unwrap();
    let data = log.iter().filter(|packet| packet[11] & 31 == 0 && packet.len() > 32);
    data.map(|packet| u16::from_be_bytes([packet[18], packet[19]])).collect()
}

/// Open contexts with these sorts, each with so many packets of data to send, and nothing in flight.
fn waiting(sorts: &[u16], packets: usize) -> (World, Vec<Context>) {
    let mut world = World::new();
    world.listen(block());
    let of = |sort| ControlBlock { sort: Some(sort), congestion: None, ..block() };
    let contexts: Vec<Context> = sorts.iter().map(|sort| world.connect(of(*sort))).collect();
    for context in &contexts {
        world.ends[0].send(*context, b"hello", About::default());
    }
    world.run(20, |world| world.ends[1].messages.len() == sorts.len());
    world.run_for(Duration::from_secs(1));
    world.ends[0].log.lock().unwrap().clear();
    let len = world.ends[0].contexts.packet_data(contexts[0]);
    for turn in 0..packets {
        for context in &contexts {
            assert!(world.ends[0].send(*context, &content(turn, len), About::default()));
        }
    }
    (world, contexts)
}

/// Strictly by sort, but for one packet of sixteen, which is of the context that waits longest.
#[test]
fn contexts_leave_in_the_order_of_their_sort() {
    let (mut world, _) = waiting(&[5, 900, 30, 7], 200);
    world.ends[0].contexts.flush();
    let order = sorts(&world);
    assert_eq!(order.len(), 800, "all of it leaves at once");
    // As long as the largest has something: all but one of sixteen are its own.
    let first = &order[..160];
    assert_eq!(first.iter().filter(|sort| **sort == 900).count(), 150, "{first:?}");
    for window in first.windows(ODDS) {
        assert!(window.iter().filter(|sort| **sort != 900).count() <= 1);
    }
    let others: Vec<u16> = first.iter().copied().filter(|sort| *sort != 900).collect();
    assert_eq!(others[..6], [5, 30, 7, 5, 30, 7], "whoever waits longest");
    // Strictly: but for the odd ones, who has less is served when who has more has nothing left.
    let last = |sort: u16| order.iter().rposition(|s| *s == sort).unwrap();
    assert!(last(900) < last(30) && last(30) < last(7) && last(7) < last(5));
}

/// With many contexts of any sorts, of which each always has something to send: of `n` none waits for more than `16 n`
/// packets of others.
#[test]
fn no_context_starves() {
    let count = 40;
    let given: Vec<u16> = (0..count).map(|n| 1 + n).collect();
    let (mut world, _) = waiting(&given, 120);
    world.ends[0].contexts.flush();
    let order = sorts(&world);
    let mut last: HashMap<u16, usize> = given.iter().map(|sort| (*sort, 0)).collect();
    let mut left: HashMap<u16, usize> = given.iter().map(|sort| (*sort, 120)).collect();
    let bound = ODDS * usize::from(count);
    let mut longest = 0;
    for (at, sort) in order.iter().enumerate() {
        let waited = at - last.insert(*sort, at).unwrap();
        longest = longest.max(waited);
        *left.get_mut(sort).unwrap() -= 1;
    }
    assert!(left.values().all(|left| *left == 0));
    assert!(longest <= bound, "{longest} packets of others, at most {bound}");
    assert!(longest > ODDS, "the bound was tried");
}

/// Who waits already, and is given another sort, waits with that.
#[test]
fn another_sort_counts_for_what_waits() {
    let (mut world, contexts) = waiting(&[5, 3], 40);
    world.ends[0].contexts.set_sort(contexts[1], Some(900));
    world.ends[0].contexts.flush();
    let order = sorts(&world);
    // What it had given before keeps its own.
    let before = order.iter().position(|sort| *sort == 5).unwrap();
    assert_eq!((order[0], before), (900, ODDS - 1), "{order:?}");
}

/// Of one sort all have as much, and a single one has all turns.
#[test]
fn contexts_of_one_sort_share() {
    let (mut world, contexts) = waiting(&[4, 4, 4], 160);
    world.ends[0].contexts.flush();
    let keys = |packet: &Vec<u8>| packet[..8].to_vec();
    let log = world.ends[0].log.lock().unwrap();
    let half: Vec<Vec<u8>> = log[..240].iter().map(keys).collect();
    for key in half.iter().collect::<std::collections::HashSet<_>>() {
        let taken = half.iter().filter(|k| *k == key).count();
        assert!((64..=96).contains(&taken), "{taken} of 240, of {} contexts", contexts.len());
    }
}

/// Messages that wait in one context: the larger sort first, one of sixteen the one that waits longest.
#[test]
fn messages_of_a_context_leave_in_the_order_of_their_sort() {
    // A link on which something waits.
    let rules = Rules { rate: Some(1 << 20), delay: Duration::from_millis(5), ..Rules::NONE };
    let mut world = World::over(rules, 9);
    let ours = ControlBlock { sort: Some(0), tags: true, ..block() };
    let context = world.open(ours, block());
    let mut sent = Vec::new();
    for n in 0..200u64 {
        let sort = [3, 50, 9, 700][n as usize % 4];
        let about = About { tag: Some(n), sort: Some(sort) };
        assert!(world.ends[0].send(context, &content(n as usize, 5000), about));
        sent.push(sort);
    }
    world.run(60, |world| world.ends[1].messages.len() == 200);
    let order: Vec<u16> = world.ends[1]
        .messages
        .iter()
        .map(|(_, message, bytes)| {
            let n = message.tag.unwrap() as usize;
            assert_eq!(*bytes, content(n, 5000));
            sent[n]
        })
        .collect();
    // The first left before others were there.
    let largest = order[1..48].iter().filter(|sort| **sort == 700).count();
    assert!((44..=46).contains(&largest), "{order:?}");
    for window in order[1..48].windows(ODDS) {
        let odd = window.iter().filter(|sort| **sort != 700).count();
        assert!(odd <= 1, "one of sixteen at most: {window:?}");
    }
    let odd = order[1..48].iter().position(|sort| *sort != 700).unwrap();
    assert_eq!(order[1 + odd], 50, "the one that waits longest");
    let at = |sort: u16| order.iter().rposition(|s| *s == sort).unwrap();
    assert!(at(700) < at(50) && at(50) < at(9) && at(9) < at(3));
}

/// Of one sort messages keep their order, and are read once, where they were lent.
#[test]
fn lent_messages_keep_their_order() {
    let mut world = World::new();
    let context = world.open(block(), block());
    let mut refused = 0;
    let mut n = 0;
    world.run(60, |world| {
        while n < 300 {
            let message = content(n, 30_000);
            match world.ends[0].contexts.send_lent(context, message, About::default()).unwrap() {
                Ok(()) => n += 1,
                Err(back) => {
                    assert_eq!(back, content(n, 30_000), "it comes back as it was");
                    refused += 1;
                    break;
                }
            }
        }
        world.ends[1].messages.len() == 300
    });
    assert!(refused > 0, "the buffer was full");
    let all = world.ends[1].messages.iter().enumerate();
    assert!(all.into_iter().all(|(n, (_, _, bytes))| *bytes == content(n, 30_000)));
}
