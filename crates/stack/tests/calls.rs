//! Calls beside connections whose transport is XTP.

mod support;

use fusewire_stack::{Config, Error};
use fusewire_transport::either::{self, Protocol};
use support::{content, pair};

fn xtp() -> Config {
    Config { transport: either::Config::of_records(Protocol::Xtp), ..Config::default() }
}

#[test]
fn calls_are_answered_both_ways_beside_the_stream() {
    let pair = pair(&xtp());
    let (client, server) = pair.connect();
    std::thread::scope(|s| {
        s.spawn(|| {
            while let Some(call) = server.next_call().unwrap() {
                let answer: Vec<u8> = call.request().iter().rev().copied().collect();
                call.answer(&answer).unwrap();
            }
            assert_eq!(server.recv_adu().unwrap().as_deref(), Some(&b"an ADU among them"[..]));
            server.finish().unwrap();
        });
        for len in [0, 1, 100, 1200, 5000, 10_000] {
            let request = content(len, len);
            let answer: Vec<u8> = request.iter().rev().copied().collect();
            assert_eq!(client.call_peer(&request).unwrap(), answer, "{len}");
        }
        client.send(b"an ADU among them").unwrap();
        assert!(!client.call_peer(b"x").unwrap().is_empty());
        let max = client.call_len_max().unwrap();
        assert!(max > 10_000);
        let too_long = client.call_peer(&vec![0; max + 1]);
        assert!(matches!(too_long, Err(Error::TooLong { max: most, .. }) if most == max));
        client.finish_sending();
        client.finish().unwrap();
    });
}
