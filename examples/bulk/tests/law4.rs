//! Law 4 for generated ends: after set-up nothing is allocated for what is sent and received, by any thread of either side,
//! but where more ADUs wait for the application than waited before: on a machine that is busy with other things they do.

#[path = "../../tests/counting.rs"]
mod counting;

use std::sync::Arc;
use std::thread;

use bulk_example::{Allow, Block, Identity, Sink, Source, ToSink};

const BLOCKS: u64 = 6000;
/// Times that more wait than before.
const WAITING: u64 = BLOCKS / 10;

#[test]
fn blocks_allocate_nothing_each() {
    let before = counting::allocations();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(counting::allocations() > before, "allocations are counted");
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let listener =
        Sink::listen("127.0.0.1:0".parse().unwrap(), identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let sending = thread::spawn(move || {
        let source = Source::connect(at, identity, key).unwrap();
        let bytes = vec![7; 8000];
        // More than are counted: what ends a session may allocate.
        for offset in 0..3 * BLOCKS {
            source.send_block(&Block { offset, bytes: bytes[..].into() }).unwrap();
        }
        source.finish().unwrap();
    });
    let mut sink = listener.accept().unwrap();
    let mut counted = Vec::with_capacity(2);
    while let Some(ToSink::Block(block)) = sink.recv().unwrap() {
        if block.offset == BLOCKS || block.offset == 2 * BLOCKS {
            counted.push(counting::allocations());
        }
    }
    sink.finish().unwrap();
    sending.join().unwrap();
    let found = counted[1] - counted[0];
    println!("{found} allocations for {BLOCKS} blocks");
    assert!(found < WAITING, "{found} for {BLOCKS} blocks");
}
