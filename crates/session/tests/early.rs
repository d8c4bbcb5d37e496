//! ADUs that go with the handshake: where they arrive, where they wait, and what no side takes.

mod common;

use common::{Direction, Link, Sides, error};
use fusewire_session::{
    Allow, Cipher, EARLY_LEN_MAX, Error, Established, Handshake, HandshakeError, HeaderProtection,
    RecordType, Refusal, Swap, Trust,
};
use std::sync::Arc;

const BODIES: [&[u8]; 3] = [b"the first", b"", b"the third of them"];

fn saying<'a>(sides: &Sides, bodies: &[&[u8]]) -> Link<'a> {
    let mut client = Handshake::client(&sides.client).unwrap();
    assert!(bodies.iter().all(|body| client.send_early(body)));
    Link::new(client, Handshake::server(&sides.server).unwrap())
}

/// The next record of a direction: nobody has sealed at its offset, and its index counts on.
fn next_record(from: &mut Established, to: &mut Established, index: u64) {
    let offset = from.sender.next_offset();
    assert_eq!(offset, to.receiver.start_offset());
    let mut record = vec![0; from.sender.record_len(5)];
    from.sender.seal(offset, RecordType::Adu, b"later", &mut record).unwrap();
    let mut body = [0; 5];
    let opened = to.receiver.open(offset, &record, &mut body).unwrap();
    assert_eq!((&body, opened.header.index), (b"later", index));
}

/// Every cipher as the one that is chosen, the first of those offered or another.
#[test]
fn they_arrive_whichever_cipher_is_chosen() {
    for cipher in Cipher::ALL {
        for (element, first) in [(Swap::None, cipher), (Swap::Bytes32, Cipher::AES_256_GCM)] {
            let mut sides = Sides::new();
            sides.client.settings.ciphers = vec![first, cipher];
            sides.server.settings.ciphers = vec![cipher];
            sides.client.element = element;
            for settings in [&mut sides.client.settings, &mut sides.server.settings] {
                settings.allow_insecure = true;
            }
            let (client, server) = saying(&sides, &BODIES).run();
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            assert_eq!((client.options.cipher, server.options.cipher), (cipher, cipher));
            assert_eq!(server.early, BODIES);
            assert!(client.early.is_empty(), "nothing goes twice");
            next_record(&mut client, &mut server, 3);
            next_record(&mut server, &mut client, 0);
        }
    }
}

#[test]
fn they_arrive_whatever_the_cuts_and_the_padding() {
    for chunk in [1, 7, 1000, usize::MAX] {
        for padding in [None, Some(1), Some(256)] {
            let mut sides = Sides::new();
            sides.client.settings.protection = padding.and_then(HeaderProtection::with_padding);
            let mut link = saying(&sides, &BODIES);
            link.chunk = chunk;
            let (client, server) = link.run();
            assert_eq!(server.unwrap().early, BODIES);
            client.unwrap();
        }
    }
}

/// With padding, what is seen does not tell how long they are.
#[test]
fn padding_hides_their_lengths() {
    let sent = |padding, body: &[u8]| {
        let mut sides = Sides::new();
        sides.client.settings.protection = HeaderProtection::with_padding(padding);
        let mut link = saying(&sides, &[body]);
        let (client, server) = link.run();
        assert!(client.is_ok() && server.unwrap().early == [body]);
        link.sent[Direction::ToServer as usize].len()
    };
    assert_eq!(sent(64, b""), sent(64, &[1; 64]));
    assert_eq!(sent(1, b"") + 64, sent(1, &[1; 64]));
}

/// Who does not know of them, or does without, on either side: they are the client's to send as records.
#[test]
fn with_a_server_that_does_not_take_them_they_are_left() {
    for (client_does, server_does) in [(true, false), (false, true), (false, false)] {
        let mut sides = Sides::new();
        sides.client.element = Swap::Bytes32;
        sides.client.settings.early = client_does;
        sides.server.settings.early = server_does;
        let (client, server) = saying(&sides, &BODIES).run();
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.early, BODIES);
        assert!(server.early.is_empty());
        next_record(&mut client, &mut server, 0);
    }
}

#[test]
fn only_a_client_that_knows_its_server_says_them_and_only_at_first() {
    let mut sides = Sides::new();
    assert!(!Handshake::server(&sides.server).unwrap().send_early(b"x"));
    sides.client.trust = Trust::Ask;
    let mut asking = Handshake::client(&sides.client).unwrap();
    assert!(!asking.send_early(b"x"), "to whoever answers");
    let sides = Sides::new();
    let mut link = saying(&sides, &[]);
    assert!(!link.client.send_early(&[0; EARLY_LEN_MAX]));
    let (client, server) = link.run();
    assert!(client.is_ok() && server.unwrap().early.is_empty());
    assert!(!link.client.send_early(b"x"), "its Hello has left");
}

/// As many bytes as there may be, beside all else that a handshake needs.
#[test]
fn all_that_may_go_is_taken() {
    let sides = Sides::new();
    for len in [0, 100, 1000] {
        let mut link = saying(&sides, &[]);
        let count = (0..1000).filter(|_| link.client.send_early(&vec![7; len])).count();
        let (client, server) = link.run();
        let server = server.unwrap();
        assert_eq!(server.early.len(), count);
        assert!(server.early.iter().all(|body| *body == vec![7; len]));
        assert!(client.unwrap().early.is_empty() && count >= 8);
    }
}

#[test]
fn a_client_that_may_not_be_here_is_not_heard() {
    let mut sides = Sides::new();
    sides.server.allow = Allow::List(Arc::default());
    let (client, server) = saying(&sides, &BODIES).run();
    let told = Error::from(HandshakeError::RefusedByPeer(Refusal::NotAllowed));
    assert_eq!(error(client).to_string(), told.to_string());
    let Error::Handshake(HandshakeError::ClientNotAllowed(_)) = error(server) else { panic!() };
}

#[test]
fn none_is_longer_than_the_server_takes() {
    let mut sides = Sides::new();
    sides.server.settings.body_len_max = 9;
    assert!(saying(&sides, &BODIES[..2]).run().1.is_ok());
    let refused = error(saying(&sides, &BODIES).run().1);
    assert!(refused.to_string().contains("an ADU of the agreed length"), "{refused}");
}

/// A bit of any byte of the client's second flight, and its end anywhere: nobody takes what is not whole and genuine.
#[test]
fn none_is_taken_from_a_flight_that_was_changed_or_cut() {
    let sides = Sides::new();
    let mut link = saying(&sides, &BODIES);
    let (client, server) = link.run();
    assert!(client.is_ok() && server.is_ok());
    let len = link.sent[0].len();
    let mut tried = 0;
    for cuts in [false, true] {
        for target in len - 200..len {
            let mut link = saying(&sides, &BODIES);
            let mut seen = 0;
            link.tamper = Box::new(move |direction, flight| {
                let range = seen..seen + flight.len();
                if direction == Direction::ToServer {
                    seen = range.end;
                    match (range.contains(&target), cuts) {
                        (true, true) => flight.truncate(target - range.start),
                        (true, false) => flight[target - range.start] ^= 1 << (target % 8),
                        _ => {}
                    }
                }
            });
            let (client, server) = link.run();
            // Legacy bytes of a TLS record's header mean nothing (RFC 8446, section 5.1).
            if let Ok(server) = server {
                assert!(!cuts && server.early == BODIES, "{target} of {len}");
                client.unwrap();
            } else {
                tried += 1;
            }
        }
    }
    assert!(tried > 370, "{tried}");
}
