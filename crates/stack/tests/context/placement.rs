//! Data go to memory of the application's in the pass that checks them, in any pieces; and away again if they are false.

use std::collections::BTreeMap;

use fusewire_stack::context::{
    About, Check, Context, ControlBlock, Facts, Kept, Placement, Scatter,
};

use crate::world::{World, block, content};

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
