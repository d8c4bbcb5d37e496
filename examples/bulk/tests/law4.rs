//! Law 4 for generated ends: after set-up nothing is allocated for what is sent and received, by any thread of either side.

use std::sync::{Arc, mpsc};
use std::thread;

use bulk_example::{Allow, Block, Identity, Sink, Source, ToSink};
use fusewire_testkit::counting::{self, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

const BLOCKS: u64 = 6000;
/// Blocks that wait for the application at most, on a busy machine too. An end keeps memory for more, which is allocated when
/// so many wait for the first time.
const AHEAD: u64 = 32;

#[test]
fn blocks_allocate_nothing_each() {
    let before = counting::of_all();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(counting::of_all() > before, "allocations are counted");
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let listener =
        Sink::listen("127.0.0.1:0".parse().unwrap(), identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let (ahead, taken) = mpsc::sync_channel(AHEAD as usize);
    let sending = thread::spawn(move || {
        let source = Source::connect(at, identity, key).unwrap();
        let bytes = vec![7; 8000];
        // More than are counted: what ends a session may allocate.
        for offset in 0..3 * BLOCKS {
            ahead.send(()).unwrap();
            source.send_block(&Block { offset, bytes: bytes[..].into() }).unwrap();
        }
        source.finish().unwrap();
    });
    let mut sink = listener.accept().unwrap();
    let mut counted = Vec::with_capacity(2);
    while let Some(ToSink::Block(block)) = sink.recv().unwrap() {
        taken.recv().unwrap();
        if block.offset == BLOCKS || block.offset == 2 * BLOCKS {
            counted.push(counting::of_all());
        }
    }
    sink.finish().unwrap();
    sending.join().unwrap();
    let found = counted[1] - counted[0];
    println!("{found} allocations for {BLOCKS} blocks");
    assert!(found <= AHEAD, "{found} for {BLOCKS} blocks");
}
