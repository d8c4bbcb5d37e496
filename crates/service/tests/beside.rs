//! What must arrive, and datagrams, in one end: neither waits for the other, nor for what is refused.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fusewire_codec::pipeline::Xdr;
use fusewire_service::datagram::session::{self, Heard, Listener, Session, Told};
use fusewire_service::profile::{Adu, AduType, Machine, Profile};
use fusewire_service::{Allow, Error, Identity};

/// A type that is a number.
macro_rules! adu {
    ($name:ident: $adu:expr) => {
        struct $name;

        impl AduType for $name {
            const ADU: Adu = $adu;
            type Encoding = Xdr;
        }
    };
}

adu!(Sample: Adu::as_it_comes("Sample", 4));
adu!(Event: Adu { len_max: 4, ..Adu::new("Event", 2) });
adu!(Unknown: Adu { len_max: 4, ..Adu::new("Unknown", 3) });

const EVENT: u8 = Event::ADU.number;
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(10);

macro_rules! end {
    ($name:ident: $sends:expr, $takes:expr, beside $sent:expr, $taken:expr) => {
        struct $name(Session<$name>);

        impl From<Session<$name>> for $name {
            fn from(session: Session<$name>) -> $name {
                $name(session)
            }
        }

        impl Profile for $name {
            const NAME: &'static str = "tested";
            const MACHINE: Machine = Machine::Datagram;
            const SENDS: &'static [Adu] = $sends;
            const TAKES: &'static [Adu] = $takes;
            const RATES: (u64, u64) = (8_000_000, 8_000_000);
            const SENDS_BESIDE: &'static [Adu] = $sent;
            const TAKES_BESIDE: &'static [Adu] = $taken;
        }
    };
}

end!(Sends: &[Sample::ADU], &[], beside &[Event::ADU, Unknown::ADU], &[]);
end!(Takes: &[], &[Sample::ADU], beside &[], &[Event::ADU]);
end!(TakesNone: &[], &[Sample::ADU], beside &[], &[]);

/// Two ends of a session.
fn met<P: Profile + From<Session<P>> + Send>() -> (Session<Sends>, P) {
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let key = identity.fingerprint();
    let loopback = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let listener = Listener::<P>::bind(loopback, identity.clone(), Allow::OwnKey).unwrap();
    let at = listener.local_addr();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept().unwrap());
        let sends = session::connect::<Sends>(at, identity, key).unwrap();
        (sends.0, accepted.join().unwrap())
    })
}

#[test]
fn datagrams_come_while_the_stream_has_more() {
    const BACKLOG: u32 = 300;
    const SAMPLES: u32 = 30;
    let (mut sends, Takes(mut takes)) = met::<Takes>();
    for n in 0..BACKLOG {
        sends.send_beside::<Event, _>(&n).unwrap();
    }
    let (mut events, mut samples) = (0, 0);
    let mut take = |timeout, events: &mut u32| match takes.recv(timeout).unwrap() {
        Some(Heard::Beside(EVENT, ..)) => *events += 1,
        Some(Heard::Adu(..)) => samples += 1,
        Some(other) => panic!("{other:?}"),
        None => {}
    };
    take(LONG, &mut events);
    assert_eq!(events, 1);
    for n in 0..SAMPLES {
        sends.send::<Sample, _>(&n).unwrap();
        assert_eq!(sends.recv(Duration::ZERO).unwrap(), None);
        thread::sleep(10 * MS);
        take(MS, &mut events);
        take(MS, &mut events);
    }
    assert_eq!(samples, SAMPLES, "beside {events} events of {BACKLOG}");
}

#[test]
fn what_was_sent_before_the_end_comes_before_it() {
    let (mut sends, Takes(mut takes)) = met::<Takes>();
    sends.send::<Sample, _>(&7u32).unwrap();
    let ending = thread::spawn(move || sends.finish_timeout(LONG));
    // So that both are there when the first is asked for.
    thread::sleep(200 * MS);
    assert!(matches!(takes.recv(LONG).unwrap(), Some(Heard::Adu(0, [0, 0, 0, 7], _))));
    for _ in 0..2 {
        assert_eq!(takes.recv(LONG).unwrap(), Some(Heard::Told(Told::Ended)));
    }
    takes.finish_timeout(LONG).unwrap();
    ending.join().unwrap().unwrap();
}

#[test]
fn what_is_refused_holds_nothing_back() {
    let (sends, Takes(mut takes)) = met::<Takes>();
    for n in 0..3u32 {
        sends.send_beside::<Unknown, _>(&n).unwrap();
        sends.send_beside::<Event, _>(&n).unwrap();
        assert!(matches!(takes.recv(LONG), Err(Error::Unknown { number: 3 })));
        let event = takes.recv(LONG).unwrap();
        assert!(matches!(event, Some(Heard::Beside(EVENT, bytes, _)) if *bytes == n.to_be_bytes()));
    }
    assert_eq!(takes.recv(Duration::ZERO).unwrap(), None);
}

#[test]
fn who_takes_nothing_beside_refuses_whatever_comes() {
    let (sends, TakesNone(mut takes)) = met::<TakesNone>();
    for n in 0..2u32 {
        sends.send_beside::<Event, _>(&n).unwrap();
        assert!(matches!(takes.recv(LONG), Err(Error::Unknown { number: EVENT })));
    }
    let ending = thread::spawn(move || sends.finish_timeout(LONG));
    assert_eq!(takes.recv(LONG).unwrap(), Some(Heard::Told(Told::Ended)));
    takes.finish_timeout(LONG).unwrap();
    ending.join().unwrap().unwrap();
}

#[test]
fn who_goes_on_sending_does_not_put_off_the_end() {
    let (mut sends, Takes(mut takes)) = met::<Takes>();
    sends.connection().finish_sending();
    let mut samples = 0;
    let begun = std::time::Instant::now();
    // One is there each time, and none may be the last.
    for n in 0u32.. {
        assert!(begun.elapsed() < 6 * LONG, "{samples} came, and no end");
        sends.send::<Sample, _>(&n).unwrap();
        sends.recv(Duration::ZERO).unwrap();
        thread::sleep(2 * MS);
        match takes.recv(LONG).unwrap() {
            Some(Heard::Adu(..)) => samples += 1,
            Some(Heard::Told(Told::Ended)) if n > 0 => {
                assert!(samples > 0, "what was there comes first");
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// More than is read at once, and than there is room for.
#[test]
fn however_much_was_sent_before_the_end_comes_before_it() {
    const SAMPLES: u32 = 200;
    let (mut sends, Takes(mut takes)) = met::<Takes>();
    for n in 0..SAMPLES {
        sends.send::<Sample, _>(&n).unwrap();
        while sends.counters().sent <= u64::from(n) {
            sends.recv(MS).unwrap();
        }
    }
    let ending = thread::spawn(move || sends.finish_timeout(6 * LONG));
    // So that all are there, and the end, when the first is asked for.
    thread::sleep(200 * MS);
    for n in 0..SAMPLES {
        let heard = takes.recv(LONG).unwrap();
        assert!(
            matches!(heard, Some(Heard::Adu(0, bytes, _)) if bytes == n.to_be_bytes()),
            "{n}: {heard:?}"
        );
    }
    assert_eq!(takes.recv(LONG).unwrap(), Some(Heard::Told(Told::Ended)));
    takes.finish_timeout(LONG).unwrap();
    ending.join().unwrap().unwrap();
}

/// Who has heard the end still sends, and hears the reports of it.
#[test]
fn behind_the_end_ones_own_goes_on() {
    let (mut sends, Takes(mut takes)) = met::<Takes>();
    takes.connection().finish_sending();
    let begun = std::time::Instant::now();
    let (mut is_ended, mut samples) = (false, 0);
    while !is_ended || samples == 0 || sends.seen().rtt.is_zero() {
        assert!(begun.elapsed() < 6 * LONG, "ended: {is_ended}, {samples} came");
        is_ended |= sends.recv(MS).unwrap() == Some(Heard::Told(Told::Ended));
        if is_ended && sends.counters().sent < 20 {
            sends.send::<Sample, _>(&7u32).unwrap();
        }
        samples += u32::from(matches!(takes.recv(MS).unwrap(), Some(Heard::Adu(..))));
    }
}
