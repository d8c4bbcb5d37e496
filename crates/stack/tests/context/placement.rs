//! Data go to memory of the application's in the pass that checks them, in any pieces; and away again if they are false.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_device::{Device, Ecn, TxFrame};
use fusewire_stack::context::{
    About, Check, Context, ControlBlock, Event, Facts, Kept, Placement, Scatter,
};
use fusewire_transport::machine::DropCause;

use crate::world::{World, addrs, block, content};

/// The whole stream in one piece of memory, taken in pieces of these lengths.
struct Stream {
    memory: Vec<u8>,
    pieces: Vec<usize>,
    asked: BTreeMap<u64, Facts>,
}

impl Placement for Stream {
    fn place<'a>(&'a mut self, _: Context, facts: &Facts, into: &mut Scatter<'a>) {
        self.asked.insert(facts.offset, *facts);
        let mut rest = &mut self.memory[facts.offset as usize..][..facts.len];
        for piece in self.pieces.iter().copied() {
            let (first, behind) = rest.split_at_mut(piece.min(rest.len()));
            into.push(first);
            rest = behind;
        }
        into.push(rest);
    }
}

#[test]
fn data_are_scattered_in_the_pass_that_checks_them() {
    for check in [Check::Internet, Check::Cxor] {
        for pieces in [vec![], vec![2], vec![7, 0, 64], vec![1, 1, 1, 500], vec![1376, 1]] {
            let block = ControlBlock { check, tags: true, ..block() };
            let mut world = World::new();
            let context = world.open(block.clone(), block);
            let mut stream =
                Stream { memory: vec![0; 100_000], pieces, asked: BTreeMap::default() };
            let messages: Vec<Vec<u8>> = (0..9).map(|n| content(n, 1 + n * 1301)).collect();
            for (n, message) in messages.iter().enumerate() {
                if n == 1 {
                    // From here on packets have the check that was agreed on.
                    while world.ends[0].heard(&Event::Open) == 0 {
                        world.step_with(&mut Kept, &mut stream);
                    }
                }
                let about = About { tag: Some(n as u64), sort: None };
                assert!(world.ends[0].send(context, message, about));
            }
            for _ in 0..400 {
                world.step_with(&mut Kept, &mut stream);
            }
            assert_eq!(world.ends[1].messages.len(), messages.len());
            for (n, (told, sent)) in world.ends[1].messages.iter().zip(&messages).enumerate() {
                let range = told.1.range.start as usize..told.1.range.end as usize;
                assert_eq!(stream.memory[range], sent[..]);
                assert_eq!(stream.asked[&told.1.range.start].tag, Some(n as u64));
                assert!(told.2.is_empty(), "it does not lie in the context's buffer");
            }
        }
    }
}

/// Gives memory for so many bytes a packet, and no more.
struct Little(Vec<u8>, usize);

impl Placement for Little {
    fn place<'a>(&'a mut self, _: Context, facts: &Facts, into: &mut Scatter<'a>) {
        let len = facts.len.min(self.1);
        into.push(&mut self.0[facts.offset as usize..][..len]);
    }
}

/// What has no room comes again.
#[test]
fn what_is_placed_in_part_comes_again() {
    let mut world = World::new();
    let context = world.open(block(), block());
    let message = content(3, 9000);
    assert!(world.ends[0].send(context, &message, About::default()));
    let mut little = Little(vec![0; 9000], 1000);
    while world.ends[1].messages.is_empty() {
        assert!(world.now() < 60_000_000_000);
        world.step_with(&mut Kept, &mut little);
    }
    assert_eq!(little.0, message);
}

/// Of a packet some was taken, odd and even, and the same packet comes again: what is asked for then is what is new of it,
/// which has no tag any more.
#[test]
fn of_a_packet_that_comes_again_only_the_rest_is_placed() {
    for check in [Check::Internet, Check::Cxor] {
        for (taken, pieces) in [(5, vec![]), (5, vec![2]), (6, vec![]), (6, vec![2])] {
            let block = ControlBlock { check, tags: true, ..block() };
            let mut world = World::new();
            let context = world.open(block.clone(), block);
            world.ends[0].send(context, b"hello", About::default());
            world.run(5, |world| world.ends[0].heard(&Event::Open) == 1);
            world.run_for(Duration::from_millis(10));
            world.ends[0].log.lock().unwrap().clear();
            world.ends[0].lose.store(1, Ordering::Relaxed);
            let about = About { tag: Some(7), sort: None };
            assert!(world.ends[0].send(context, b"some message", about));
            world.ends[0].contexts.flush();
            let packet = world.ends[0].log.lock().unwrap()[0].clone();
            let (network, called) = (world.network.clone(), world.called());
            let [first, mut second] = world.ends;
            drop(first);
            let mut again = network.attach(addrs()[0]).unwrap();
            let frame =
                TxFrame { peer: addrs()[1], header: &packet, payload: &[], ecn: Ecn::NotEct };
            again.transmit(&[frame]).unwrap();
            let mut little = Little(vec![0; 100], taken);
            second.poll(&mut little);
            let drops = second.contexts.info(called).unwrap().counters.drops;
            assert_eq!((second.messages.len(), drops.of(DropCause::NoMemory)), (1, 1));
            assert_eq!(little.0[5..][..taken], b"some message"[..taken]);
            assert_eq!(little.0[5 + taken..17], [0; 12][taken..], "no more than was asked for");
            again.transmit(&[frame]).unwrap();
            let (memory, asked) = (little.0, BTreeMap::default());
            let mut stream = Stream { memory, pieces, asked };
            second.poll(&mut stream);
            assert_eq!(second.messages[1].1.tag, Some(7));
            assert_eq!(stream.memory[5..17], *b"some message");
            let facts = &stream.asked[&(5 + taken as u64)];
            let found = (facts.len, facts.tag, facts.ends, facts.in_order);
            assert_eq!((stream.asked.len(), found), (1, (12 - taken, None, true, true)));
        }
    }
}
