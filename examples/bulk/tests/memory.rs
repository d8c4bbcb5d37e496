//! An end has no more memory than `EXPLAIN.md` says, and not much less: what the stack may hold of it for one connection. A new
//! one has none of the stack's rings yet.

#[path = "../../memory.rs"]
mod memory;

use std::sync::Arc;
use std::thread;

use bulk_example::{Allow, Identity, Sink, Source};
use fusewire_testkit::counting::{self, Counting};
use memory::{assert_is_said, at_most};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn an_end_holds_what_is_said() {
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let listener =
        Sink::listen("127.0.0.1:0".parse().unwrap(), identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let taking = thread::spawn(move || {
        let (held, end) = counting::kept(|| listener.accept().unwrap());
        // Until the other is done with it.
        (held, end, listener)
    });
    let (first, end) = counting::kept(|| Source::connect(at, identity, key).unwrap());
    let (second, _other, _listener) = taking.join().unwrap();
    drop(end);
    assert_is_said("bulk.toml", [(first, at_most::<Source>()), (second, at_most::<Sink>())]);
}
