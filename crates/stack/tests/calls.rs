//! Calls beside connections whose transport is XTP.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fusewire_device::TxFrame;
use fusewire_stack::{Config, Error};
use fusewire_transport::either::{self, Protocol};
use support::{content, endpoint, join, over, pair};

/// For what comes at once.
const PATIENCE: Duration = Duration::from_secs(20);

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

/// What has come before the end is told after it, but for what nobody wants to know any more.
#[test]
fn an_answer_is_told_after_the_end() {
    let pair = pair(&xtp());
    let (client, server) = pair.connect();
    let calls = [1, 2].map(|n| client.begin_call(&[n][..]).unwrap());
    for _ in 0..2 {
        let call = server.next_call().unwrap().unwrap();
        let answer = call.request().to_vec();
        call.answer(&answer).unwrap();
    }
    drop(server);
    assert!(matches!(client.recv_adu(), Err(Error::Reset(_))));
    client.cancel_call(calls[0]);
    assert_eq!(client.answer_to(calls[1], PATIENCE).unwrap().unwrap(), [2]);
    assert!(matches!(client.next_answer(Some(PATIENCE)), Err(Error::Reset(_))));
    assert!(matches!(client.call_peer(b"more"), Err(Error::Reset(_))));
}

/// Who answers after the end is told what ended the connection.
#[test]
fn an_answer_after_the_end_fails_of_its_cause() {
    let pair = pair(&xtp());
    let (client, server) = pair.connect();
    client.begin_call(&b"a request"[..]).unwrap();
    let call = server.next_call().unwrap().unwrap();
    drop(client);
    assert!(matches!(server.recv_adu(), Err(Error::Reset(_))));
    assert!(matches!(call.answer(b"too late"), Err(Error::Reset(_))));
}

/// Answers that nobody takes have a bound, and who takes one lets another call begin.
#[test]
fn answers_that_wait_count_as_calls() {
    let pair = pair(&xtp());
    let (client, server) = pair.connect();
    for n in 0..256u32 {
        client.begin_call(&n.to_be_bytes()[..]).unwrap();
        server.next_call().unwrap().unwrap().answer(b"an answer").unwrap();
    }
    let more = client.begin_call_timeout(&b"more"[..], Duration::from_millis(100));
    assert!(matches!(more, Err(Error::Elapsed)), "{more:?}");
    std::thread::scope(|s| {
        let begun = s.spawn(|| client.begin_call_timeout(&b"more"[..], PATIENCE));
        client.next_answer(Some(PATIENCE)).unwrap().1.unwrap();
        begun.join().unwrap().unwrap();
    });
    let more = client.begin_call_timeout(&b"more"[..], Duration::ZERO);
    assert!(matches!(more, Err(Error::Elapsed)), "{more:?}");
}
