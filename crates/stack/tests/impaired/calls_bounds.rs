//! What calls do not take: more than their bounds, packets that are broken or another's; and that none outlives its
//! connection.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_session::record::NUMBERS_WINDOW;
use fusewire_stack::{Asked, CallId};
use fusewire_wire::xtp::{self, Body, Service};

use crate::calls::{Taps, answer_to, call, clean, serve, taps};
use crate::world::{A, B, C, World};

/// How often an end dropped something for this.
pub fn dropped(stack: &fusewire_stack::Stack, cause: &str) -> u64 {
    stack.dropped().iter().filter(|(name, _)| *name == cause).map(|(_, count)| *count).sum()
}

fn begin(world: &mut World, request: &[u8]) -> Option<CallId> {
    world.client.begin_call(world.id, request).unwrap()
}

/// The request that the server's application has now.
fn take_asked(world: &mut World) -> Asked {
    let mut asked = None;
    world.run(1.0, "the request", |w| {
        asked = asked.take().or_else(|| w.server.next_call(w.served.unwrap()));
        asked.is_some()
    });
    asked.expect("it has come").0
}

/// One that nobody answers, and others that are: so many at once, and none whose number would lie so far from the oldest
/// that the peer could not know any more whether it has seen that.
#[test]
fn calls_under_way_have_a_bound_and_so_have_their_numbers() {
    let Taps { mut world, .. } = taps(None, clean(), 6);
    begin(&mut world, b"held").unwrap();
    let held = take_asked(&mut world);
    let (mut begun, mut most, mut seen) = (1u32, 0, HashSet::new());
    loop {
        let before = begun;
        while begin(&mut world, &[&[4][..], &begun.to_be_bytes()].concat()).is_some() {
            begun += 1;
            assert!(begun <= NUMBERS_WINDOW, "the number is too far from the oldest");
        }
        most = most.max(begun - before);
        if begun == before {
            break;
        }
        let mut answered = 0;
        world.run(1.0, "answers", |w| {
            serve(w, &mut seen);
            while let Some((_, answer)) = w.client.take_answer(w.id, None) {
                answer.unwrap();
                answered += 1;
            }
            answered == begun - before
        });
    }
    assert_eq!((most, begun), (255, NUMBERS_WINDOW), "with the one that is held");
    // When that is answered there is room again.
    world.server.answer_call(world.served.unwrap(), held, &b"at last"[..]).unwrap();
    world.run(1.0, "the first answer", |w| w.client.take_answer(w.id, None).is_some());
    assert!(begin(&mut world, b"4 more").is_some());
}

/// An answer is said again as long as its caller may not have it, and no longer: the caller says since when it waits.
#[test]
fn answers_are_kept_while_they_are_waited_for() {
    let Taps { mut world, up, down, replayed, .. } = taps(None, clean(), 11);
    let mut seen = HashSet::new();
    let mut made = |world: &mut World, request: &[u8], again: &[&Vec<u8>]| {
        replayed.0.lock().unwrap().extend(again.iter().map(|frame| frame.to_vec()));
        let before = dropped(&world.server, "call-stray");
        up.take();
        down.take();
        call(world, request, &mut seen);
        let end = world.seconds() + 0.2;
        world.run(1.0, "what is left", |w| w.seconds() >= end);
        let is_answer = |frame: &&Vec<u8>| {
            matches!(xtp::Packet::parse(frame).unwrap().header.body, Body::Data { .. })
        };
        let answers = down.take().iter().filter(is_answer).count();
        // Nothing about what comes again is wrong.
        assert_eq!(dropped(&world.server, "call-tag"), 0);
        (up.take().remove(0), answers, dropped(&world.server, "call-stray") - before)
    };
    let (first, ..) = made(&mut world, b"4 the first", &[]);
    let (second, ..) = made(&mut world, b"4 the second", &[]);
    // The second is known until a third has come, and of the first nothing but that it was.
    let (_, said, dropped) = made(&mut world, b"4 the third", &[&first, &second]);
    assert_eq!((said, dropped), (2, 1));

    let held = begin(&mut world, b"5 held").unwrap();
    let asked = take_asked(&mut world);
    let (beside, ..) = made(&mut world, b"4 beside it", &[]);
    // Whether the answers behind it have come the caller does not say.
    let (_, said, dropped) = made(&mut world, b"4 another", &[&second, &beside]);
    assert_eq!((said, dropped), (2, 1));
    world.server.answer_call(world.served.unwrap(), asked, &b"at last"[..]).unwrap();
    world.run(1.0, "it", |w| w.client.take_answer(w.id, Some(held)).is_some());
    made(&mut world, b"4 behind it", &[]);
    let (_, said, dropped) = made(&mut world, b"4 the last", &[&beside]);
    assert_eq!((said, dropped), (1, 1));

    // Nor is one kept that was given up while the application had it, however late that answers.
    up.take();
    let given_up = begin(&mut world, b"6 given up").unwrap();
    let asked = take_asked(&mut world);
    let request = up.take().remove(0);
    world.client.cancel_call(world.id, given_up);
    made(&mut world, b"4 behind that", &[]);
    world.server.answer_call(world.served.unwrap(), asked, &b"too late"[..]).unwrap();
    let (_, said, dropped) = made(&mut world, b"4 and on", &[&request]);
    assert_eq!((said, dropped), (1, 1));
}

/// A request under another key, of which a bit is wrong: it is not even looked at.
#[test]
fn a_request_with_a_wrong_check_is_dropped() {
    let Taps { mut world, up, replayed, .. } = taps(None, clean(), 7);
    let mut seen = HashSet::new();
    call(&mut world, b"4 the first", &mut seen);
    let mut other = up.take().remove(0);
    other[0] ^= 1;
    replayed.0.lock().unwrap().push(other);
    call(&mut world, b"4 the second", &mut seen);
    let counts = ["transport-checksum", "call-tag"].map(|cause| dropped(&world.server, cause));
    assert_eq!(counts, [1, 0]);
}

/// An answer from another address than was asked, under the key that was asked with.
#[test]
fn an_answer_comes_from_who_was_asked() {
    let Taps { mut world, network, up, down, .. } = taps(None, clean(), 8);
    let mut seen = HashSet::new();
    call(&mut world, b"4 the first", &mut seen);
    up.take();
    let mut forged = down.take().remove(0);
    let second = begin(&mut world, b"5 the second").unwrap();
    world.run(1.0, "the request", |_| !up.0.lock().unwrap().is_empty());
    forged[..8].copy_from_slice(&up.take()[0][..8]);
    forged[0] |= 0x80;
    xtp::seal(&mut forged);
    let mut stranger = network.attach(C.parse().unwrap()).unwrap();
    let to_client =
        TxFrame { peer: A.parse().unwrap(), header: &forged, payload: &[], ecn: Ecn::NotEct };
    stranger.transmit(&[to_client]).unwrap();
    let mut answer = None;
    world.run(3.0, "the second", |w| {
        serve(w, &mut seen);
        answer = answer.take().or_else(|| w.client.take_answer(w.id, Some(second)));
        answer.is_some()
    });
    assert_eq!(answer.unwrap().1.unwrap(), answer_to(b"5 the second"));
    let counts = ["call-stray", "call-tag"].map(|cause| dropped(&world.client, cause));
    assert_eq!(counts, [1, 0]);
}

/// A request that was seen on the way and comes first from elsewhere, as anybody can have it come: that address has shown
/// nothing, and is not sent a long answer.
#[test]
fn an_address_that_has_no_session_gets_no_more_than_it_sent() {
    let Taps { mut world, network, up, is_cut, .. } = taps(None, clean(), 9);
    is_cut.store(true, Ordering::Relaxed);
    begin(&mut world, &[3; 700]).unwrap();
    world.run(1.0, "the request", |_| !up.0.lock().unwrap().is_empty());
    let request = up.take().remove(0);
    let mut stranger = network.attach(C.parse().unwrap()).unwrap();
    let to_server =
        TxFrame { peer: B.parse().unwrap(), header: &request, payload: &[], ecn: Ecn::NotEct };
    stranger.transmit(&[to_server]).unwrap();
    let (mut seen, mut batch, mut came) = (HashSet::new(), RxBatch::new(8), 0);
    let end = world.seconds() + 5.0;
    world.run(6.0, "answers", |w| {
        serve(w, &mut seen);
        while stranger.receive(&mut batch).unwrap() > 0 {
            came += batch.iter().flat_map(|p| p.frames()).map(<[u8]>::len).sum::<usize>();
        }
        w.seconds() >= end
    });
    assert_eq!(seen.len(), 1, "it is genuine");
    assert!(came <= 3 * request.len(), "{came} bytes for {}", request.len());
}

/// Calls that nobody wants any more, because their connection is gone or by themselves: nothing is asked for them again.
#[test]
fn a_call_ends_with_its_connection_or_when_it_is_given_up() {
    let is_request = |frame: &Vec<u8>| {
        let header = xtp::Packet::parse(frame).unwrap().header;
        matches!(header.body, Body::First(first) if first.traffic.service == Service::Transaction)
    };
    for how in ["held", "given up", "with its connection"] {
        let Taps { mut world, up, is_cut, .. } = taps(None, clean(), 10);
        is_cut.store(true, Ordering::Relaxed);
        let (id, call) = (world.id, begin(&mut world, b"4 never mind").unwrap());
        match how {
            "given up" => assert!(!world.client.cancel_call(id, call), "none has come"),
            "with its connection" => world.client.abort(id),
            _ => {}
        }
        let end = world.seconds() + 5.0;
        world.run(6.0, "a while", |w| w.seconds() >= end);
        let asked = up.take().iter().filter(|frame| is_request(frame)).count();
        assert_eq!(asked > 1, how == "held", "{how}: {asked} times");
    }
}
