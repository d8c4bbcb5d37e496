//! What a call allocates, by both sides: the bodies of request and answer, which the application gets, and
//! what it is known by. The generated ends add nothing to what the same calls by hand allocate.

use std::sync::Arc;
use std::thread;

use fusewire_testkit::counting::{self, Counting};
use rpc_example::{Allow, AskServer, Client, Get, Got, Identity, Server};

#[global_allocator]
static COUNTING: Counting = Counting;

const CALLS: u64 = 2000;
/// Allocations of a call, both sides together.
const A_CALL: u64 = 6;

#[test]
fn a_call_allocates_no_more_than_its_records() {
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let listener =
        Server::listen("127.0.0.1:0".parse().unwrap(), identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let serving = thread::spawn(move || {
        let mut server = listener.accept().unwrap();
        while let Some(AskServer::Get(get, answer)) = server.next_call().unwrap() {
            let value = Some(get.key);
            answer.send(&Got { version: 1, value }).unwrap();
        }
        server.finish().unwrap();
    });
    let mut client = Client::connect(at, identity, key).unwrap();
    let mut counted = [0; 2];
    for counted in &mut counted {
        for _ in 0..CALLS {
            let got = client.ask_get(&Get { key: b"key"[..].into() }).unwrap();
            assert_eq!(got.value.as_deref(), Some(&b"key"[..]));
        }
        *counted = counting::of_all();
    }
    client.finish().unwrap();
    serving.join().unwrap();
    let each = (counted[1] - counted[0]) as f64 / CALLS as f64;
    println!("{each:.2} allocations a call");
    assert!(each < A_CALL as f64, "{each}");
}
