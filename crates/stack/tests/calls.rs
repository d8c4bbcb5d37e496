//! Calls beside connections whose transport is XTP.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewire_device::TxFrame;
use fusewire_stack::{Config, Error};
use fusewire_transport::either::{self, Protocol};
use support::{content, endpoint, join, over, pair};

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

/// The packets of an answer go to the device together.
#[test]
fn the_packets_of_an_answer_leave_together() {
    let most = Arc::new(AtomicUsize::new(0));
    let noted = most.clone();
    let left = move |frames: &[TxFrame<'_>]| {
        noted.fetch_max(frames.len(), Ordering::Relaxed);
    };
    // No longer packets than those of Ethernet, so that there are several.
    let server = over(support::shown(1452, left, |_: &_| ()), xtp());
    let pair = join(endpoint(xtp()), server);
    let (client, server) = pair.connect();
    let together = std::thread::scope(|s| {
        s.spawn(|| {
            while let Some(call) = server.next_call().unwrap() {
                call.answer(&content(7, 20_000)).unwrap();
            }
            server.finish().unwrap();
        });
        let answer = client.call_peer(b"all of it");
        let together = most.load(Ordering::Relaxed);
        client.finish().unwrap();
        assert!(answer.unwrap() == content(7, 20_000));
        together
    });
    // What a path of which nothing is known takes at once (RFC 6928), and the TCNTL before it.
    assert!((9..=11).contains(&together), "{together}");
}
