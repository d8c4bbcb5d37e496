//! Ends that send, ask, and are sent and asked at once: by halves in threads of their own, and in turns.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fusewire_generate_example::both::{
    Allow, AskLeft, AskRight, Error, Identity, Key, Left, Line, NextRight, Right, ToLeft, ToRight,
    Value,
};
use fusewire_generate_example::rich;

const MANY: u32 = 500;

fn pair() -> (Left, Right) {
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let listener =
        Right::listen("127.0.0.1:0".parse().unwrap(), identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let left = thread::spawn(move || Left::connect(at, identity, key).unwrap());
    let right = listener.accept().unwrap();
    let left = left.join().unwrap();
    assert_eq!((left.peer(), right.peer()), (key, key));
    (left, right)
}

fn line(n: u32) -> Line<'static> {
    Line { number: n as u16, text: "said".try_into().expect("UTF-8") }
}

/// Both ends send all the time, and each waits for what comes meanwhile.
#[test]
fn halves_send_while_they_wait() {
    let (left, right) = pair();
    let ((left_sends, mut left_takes), (right_sends, mut right_takes)) =
        (left.split(), right.split());
    thread::scope(|scope| {
        let copies = [right_sends.clone(), right_sends].map(|copy| {
            scope.spawn(move || (0..MANY).for_each(|n| copy.send_said(&line(n)).unwrap()))
        });
        let sending = scope.spawn(move || {
            (0..MANY).for_each(|n| left_sends.send_said(&line(n)).unwrap());
            left_sends.finish();
        });
        scope.spawn(move || {
            for _ in 0..2 * MANY {
                assert!(matches!(left_takes.recv().unwrap(), Some(ToLeft::Said(_))));
            }
            // It ends the other half, too.
            sending.join().unwrap();
            left_takes.finish().unwrap();
        });
        for n in 0..MANY {
            let Some(ToRight::Said(said)) = right_takes.recv().unwrap() else {
                panic!("{n} is missing")
            };
            assert_eq!(u32::from(said.number), n);
        }
        assert!(right_takes.recv().unwrap().is_none());
        copies.into_iter().for_each(|copy| copy.join().unwrap());
        right_takes.finish().unwrap();
    });
}

/// Who waits for both gets both: a peer that has sent much does not keep what it asks waiting.
#[test]
fn messages_and_calls_take_turns() {
    let (left, mut right) = pair();
    let (sends, mut takes) = left.split();
    let mut asks = sends.clone();
    let before = thread::scope(|scope| {
        for n in 0..MANY {
            sends.send_said(&line(n)).unwrap();
        }
        // All of these wait here before anybody looks.
        thread::sleep(Duration::from_millis(100));
        let asking = scope.spawn(move || asks.ask_get(&Key { key: 7 }).unwrap().value.to_vec());
        let (mut said, mut before) = (0, None);
        while said < MANY || before.is_none() {
            match right.next(Some(Duration::from_secs(20))).unwrap().expect("more comes") {
                NextRight::To(ToRight::Said(line)) => {
                    assert_eq!(u32::from(line.number), said);
                    said += 1;
                    // Half of them are slower than any call comes.
                    if before.is_none() {
                        thread::sleep(Duration::from_millis(20));
                    }
                }
                NextRight::Ask(AskRight::Get(key, answer)) => {
                    assert_eq!(key.key, 7);
                    answer.send(&Value { value: b"seven"[..].into() }).unwrap();
                    before = Some(said);
                }
            }
        }
        assert_eq!(asking.join().unwrap(), b"seven");
        before.unwrap()
    });
    assert!(before < MANY / 2, "the call came behind {before} messages");
    // Nothing more comes, for as long as one waits.
    let waited = Instant::now();
    assert!(matches!(right.next(Some(Duration::from_millis(50))), Err(Error::Stack(_))));
    assert!(waited.elapsed() >= Duration::from_millis(50));
    // Both ask: the other way, too.
    let asking = thread::spawn(move || {
        let value = right.ask_get(&Key { key: 8 }).unwrap().value.to_vec();
        right.finish().unwrap();
        value
    });
    let Some(AskLeft::Get(_, answer)) = takes.next_call().unwrap() else { panic!("is not asked") };
    answer.send(&Value { value: b"eight"[..].into() }).unwrap();
    takes.finish().unwrap();
    assert_eq!(asking.join().unwrap(), b"eight");
}

/// A peer that is there and says nothing holds nobody for ever.
#[test]
fn who_is_silent_is_left() {
    let (left, right) = pair();
    let begun = Instant::now();
    assert!(matches!(left.finish_timeout(Duration::from_millis(50)), Err(Error::Stack(_))));
    assert!((50..10_000).contains(&begun.elapsed().as_millis()));
    right.close(7);
    assert!(right.send_said(&line(0)).is_err());
    // An answer that is wanted when it is late, too, is not waited for without an end.
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let at = "127.0.0.1:0".parse().unwrap();
    let listener = rich::Keeper::listen(at, identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let asking = thread::spawn(move || {
        let mut asker = rich::Asker::connect(at, identity, key).unwrap();
        let begun = Instant::now();
        let found = asker.ask_ask(&rich::Name { name: 1 }).map(|_| ());
        (found, begun.elapsed())
    });
    let _silent = listener.accept().unwrap();
    let (found, waited) = asking.join().unwrap();
    assert!(matches!(found, Err(Error::Expired { adu: "Ask" })), "{found:?}");
    assert!(waited >= Duration::from_millis(16 * 300), "{waited:?}");
}
