//! Whole handshakes in memory: agreement, trust, refusals, tampering, truncation, bounds.

mod common;

use common::{Direction, Link, Sides, error};
use fusewire_session::{
    Allow, Cipher, Error, Established, Execution, Executions, Handshake, HandshakeError,
    HeaderProtection, Identity, RecordType, Refusal, Swap, Terms, Trust,
};
use std::sync::Arc;
use std::time::Duration;

fn exchange(from: &mut Established, to: &mut Established, body: &[u8]) -> Vec<u8> {
    let offset = from.sender.next_offset();
    let mut record = vec![0; from.sender.record_len(body.len())];
    let sealed = from.sender.seal(offset, RecordType::Adu, body, &mut record).unwrap();
    let mut out = vec![0; body.len()];
    let opened = to.receiver.open(offset, &record, &mut out).unwrap();
    assert_eq!(sealed, opened.sum);
    assert_eq!(out, body);
    record
}

#[test]
fn both_sides_agree_whatever_the_cuts() {
    for chunk in [1, 2, 3, 5, 7, 64, 1000, usize::MAX] {
        let mut sides = Sides::new();
        sides.client.element = Swap::Bytes32;
        sides.client.settings.body_len_max = 5000;
        sides.server.settings.body_len_max = 70_000;
        let (client, server) = sides.run(chunk);
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.peer, sides.server.settings.identity.fingerprint());
        assert_eq!(server.peer, sides.client.settings.identity.fingerprint());
        assert!(client.trusted && server.trusted);
        assert_eq!(client.options.cipher, Cipher::AES_256_GCM);
        assert_eq!(client.options.element, Swap::Bytes32);
        assert_eq!(server.options.element, Swap::Bytes32);
        assert_eq!(
            (client.options.send_body_len_max, client.options.receive_body_len_max),
            (70_000, 5000)
        );
        assert_eq!(
            (server.options.send_body_len_max, server.options.receive_body_len_max),
            (5000, 70_000)
        );
        assert_eq!(client.sender.next_offset(), server.receiver.start_offset());
        assert_eq!(server.sender.next_offset(), client.receiver.start_offset());
        exchange(&mut client, &mut server, b"from the client!");
        exchange(&mut server, &mut client, b"from the server, longer.");
    }
}

#[test]
fn both_sides_export_the_same_and_another_session_something_else() {
    let exported = |exporter: &fusewire_session::Exporter, label: &[u8], context: &[u8]| {
        let mut out = [0; 40];
        exporter.export(label, context, &mut out);
        out
    };
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2 {
        let (client, server) = Sides::new().run(usize::MAX);
        let (client, server) = (client.unwrap().exporter, server.unwrap().exporter);
        for (label, context) in [(&b"a"[..], &b""[..]), (b"a", b"x"), (b"ax", b"")] {
            let out = exported(&client, label, context);
            assert_eq!(out, exported(&server, label, context));
            assert!(seen.insert(out));
        }
    }
}

/// What is known of another cipher or element does not count; each side chooses for itself.
#[test]
fn the_data_pass_runs_as_is_fastest_for_the_cipher_that_is_agreed_on() {
    let mut sides = Sides::new();
    sides.client.element = Swap::Bytes32;
    sides.client.settings.executions = Executions::new([
        (Cipher::CHACHA20_POLY1305, Swap::Bytes32, Execution::Blocked),
        (Cipher::AES_256_GCM, Swap::None, Execution::Blocked),
        (Cipher::AES_256_GCM, Swap::Bytes32, Execution::Sequential),
    ]);
    let (client, server) = sides.run(usize::MAX);
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    assert_eq!(client.sender.execution(), Execution::Sequential);
    assert_eq!(server.sender.execution(), Execution::Integrated);
    exchange(&mut client, &mut server, b"whatever runs it");
    exchange(&mut server, &mut client, b"the bytes are the same");
}

/// Each side says how long it lets the connection be silent; the smaller counts, for both.
#[test]
fn the_smaller_idle_timeout_counts_on_both_sides() {
    let seconds = |s: Option<u64>| s.map(Duration::from_secs);
    let cases = [
        (Some(30), Some(30), Some(30)),
        (Some(5), Some(30), Some(5)),
        (Some(30), Some(7), Some(7)),
        (None, Some(7), Some(7)),
        (Some(9), None, Some(9)),
        (None, None, None),
    ];
    for (client, server, agreed) in cases {
        let mut sides = Sides::new();
        assert_eq!(sides.client.settings.idle_timeout, seconds(Some(30)));
        assert_eq!(sides.server.settings.idle_timeout, seconds(Some(30)));
        sides.client.settings.idle_timeout = seconds(client);
        sides.server.settings.idle_timeout = seconds(server);
        let (client, server) = sides.established();
        assert_eq!(client.options.idle_timeout, seconds(agreed));
        assert_eq!(server.options.idle_timeout, seconds(agreed));
    }
}

/// A server protects headers for who asks; of two paddings the larger counts. Who asks does not do without.
#[test]
fn header_protection_is_agreed_on_or_there_is_no_connection() {
    let padded = |bytes: usize| HeaderProtection::with_padding(bytes);
    let cases = [
        (None, None, Ok(None)),
        (padded(1), None, Ok(padded(1))),
        (padded(64), padded(1), Ok(padded(64))),
        (padded(64), padded(256), Ok(padded(256))),
        (None, padded(1), Err(Refusal::HeaderProtection)),
    ];
    for (asked, server, agreed) in cases {
        let mut sides = Sides::new();
        sides.client.settings.protection = asked;
        sides.server.settings.protection = server;
        let (client, server) = sides.run(usize::MAX);
        match agreed {
            Ok(agreed) => {
                let (mut client, mut server) = (client.unwrap(), server.unwrap());
                let options = [client.options.protection, server.options.protection];
                assert_eq!(options, [agreed; 2]);
                let record = exchange(&mut client, &mut server, b"from the client");
                assert_eq!(record[..4] == [1, 0, 0, 0], agreed.is_none());
                exchange(&mut server, &mut client, b"from the server");
            }
            Err(refusal) => {
                let (client, server) = (error(client), error(server));
                assert!(client.to_string().contains(&refusal.to_string()), "{client}");
                assert!(server.to_string().contains(&refusal.to_string()), "{server}");
            }
        }
    }
}

/// Two ends of one specification talk; of two, each learns the first clause that differs, also where one side has none.
#[test]
fn ends_of_different_terms_refuse_each_other() {
    let clauses = ["adu.Block.type = Bulk.Block", "adu.Block.order = none", "adu.Done.number = 2"];
    let changed = |at: usize| {
        let mut texts = clauses;
        texts[at] = "another";
        Terms::of(&texts)
    };
    let cases = [
        (Terms::of(&clauses), Terms::of(&clauses), None),
        (Terms::of(&clauses), changed(0), Some(0)),
        (Terms::of(&clauses), changed(2), Some(2)),
        (Terms::of(&clauses[..2]), Terms::of(&clauses), Some(2)),
        (Terms::of(&clauses), Terms::default(), Some(0)),
        (Terms::default(), Terms::of(&clauses), Some(0)),
    ];
    for (asked, had, differs) in cases {
        let mut sides = Sides::new();
        sides.client.settings.terms = asked;
        sides.server.settings.terms = had;
        let (client, server) = sides.run(usize::MAX);
        let Some(at) = differs else {
            exchange(&mut client.unwrap(), &mut server.unwrap(), b"from the client");
            continue;
        };
        let refusal = Refusal::Terms(at);
        let refused = |e: &Error, by: HandshakeError| matches!(e, Error::Handshake(e) if *e == by);
        let (client, server) = (error(client), error(server));
        assert!(refused(&client, HandshakeError::RefusedByPeer(refusal)), "{client}");
        assert!(refused(&server, HandshakeError::RefusedByUs(refusal)), "{server}");
    }
}

/// Of the common ciphers one is taken that can protect headers.
#[test]
fn header_protection_wants_a_cipher_that_authenticates() {
    let mut sides = Sides::new();
    sides.client.settings.protection = Some(HeaderProtection::default());
    for settings in [&mut sides.client.settings, &mut sides.server.settings] {
        settings.allow_insecure = true;
        settings.ciphers = vec![Cipher::SAFER_K64, Cipher::NONE, Cipher::CHACHA20_POLY1305];
    }
    assert_eq!(sides.established().0.options.cipher, Cipher::CHACHA20_POLY1305);
    sides.server.settings.ciphers.pop();
    let (client, _) = sides.run(usize::MAX);
    assert!(error(client).to_string().contains("no common cipher"));
    sides.client.settings.ciphers.pop();
    let refused = Handshake::client(&sides.client).err().unwrap().to_string();
    assert!(refused.contains("a cipher that authenticates"), "{refused}");
}

#[test]
fn bytes_after_the_handshake_are_not_taken() {
    let sides = Sides::new();
    let mut client = Handshake::client(&sides.client).unwrap();
    let mut server = Handshake::server(&sides.server).unwrap();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    client.write(&mut a);
    assert_eq!(server.read(&a).unwrap(), a.len());
    let first_len = a.len();
    server.write(&mut b);
    assert_eq!(client.read(&b).unwrap(), b.len());
    // The client's second flight, with bytes of records behind it.
    a.clear();
    client.write(&mut a);
    let len = a.len();
    a.extend([1, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(server.read(&a).unwrap(), len);
    assert_eq!(server.read(&a[len..]).unwrap(), 0);
    assert!(server.poll().is_none(), "the Choice was not written yet");
    b.clear();
    server.write(&mut b);
    let established = server.poll().unwrap();
    assert_eq!(established.receiver.start_offset() as usize, first_len + len);
    assert!(server.poll().is_none(), "a result is given once");
    let len = b.len();
    b.push(1);
    assert_eq!(client.read(&b).unwrap(), len);
    assert!(client.poll().is_some());
}

#[test]
fn two_connections_never_share_keys() {
    let sides = Sides::new();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..8 {
        let (mut client, mut server) = sides.established();
        assert!(seen.insert(exchange(&mut client, &mut server, &[0; 64])));
        assert!(seen.insert(exchange(&mut server, &mut client, &[0; 64])));
    }
    // And a record of one is not authentic in another.
    let (mut client, _) = sides.established();
    let (_, mut server) = sides.established();
    let mut record = vec![0; client.sender.record_len(4)];
    let offset = client.sender.next_offset();
    client.sender.seal(offset, RecordType::Adu, b"abcd", &mut record).unwrap();
    let failed =
        server.receiver.open(server.receiver.start_offset(), &record, &mut [0; 4]).unwrap_err();
    assert!(matches!(failed.error, Error::NotAuthentic { .. }));
}

#[test]
fn own_record_is_not_authentic_when_reflected() {
    let (mut client, _) = Sides::new().established();
    let mut record = vec![0; client.sender.record_len(4)];
    let offset = client.sender.next_offset();
    client.sender.seal(offset, RecordType::Adu, b"abcd", &mut record).unwrap();
    let failed = client.receiver.open(offset, &record, &mut [0; 4]).unwrap_err();
    assert!(!failed.error.is_fatal());
}

#[test]
fn a_server_with_another_key_is_refused_before_the_client_shows_its_own() {
    let mut sides = Sides::new();
    let expected = Identity::ephemeral().unwrap().fingerprint();
    sides.client.trust = Trust::Pinned(expected);
    let client = Handshake::client(&sides.client).unwrap();
    let server = Handshake::server(&sides.server).unwrap();
    let mut link = Link::new(client, server);
    let (client, server) = link.run();
    let found = sides.server.settings.identity.fingerprint();
    let Error::Handshake(HandshakeError::UntrustedServer { expected: e, found: f }) = error(client)
    else {
        panic!()
    };
    assert_eq!((e, f), (expected, found));
    // The server was told by an alert, and saw no certificate.
    let Error::Handshake(HandshakeError::Tls(rustls::Error::AlertReceived(_))) = error(server)
    else {
        panic!()
    };
}

#[test]
fn ask_leaves_the_decision_to_the_caller() {
    let mut sides = Sides::new();
    sides.client.trust = Trust::Ask;
    let (client, _) = sides.established();
    assert_eq!(client.peer, sides.server.settings.identity.fingerprint());
    assert!(!client.trusted);
}

#[test]
fn clients_are_allowed_by_policy_and_told_in_words() {
    let mut sides = Sides::new();
    sides.server.allow = Allow::OwnKey;
    let (client, server) = sides.run(usize::MAX);
    let own = sides.client.settings.identity.fingerprint();
    let told = Error::from(HandshakeError::RefusedByPeer(Refusal::NotAllowed));
    assert_eq!(error(client).to_string(), told.to_string());
    assert_eq!(
        error(server).to_string(),
        Error::from(HandshakeError::ClientNotAllowed(own)).to_string()
    );

    sides.server.allow = Allow::List(Arc::default());
    assert!(sides.run(usize::MAX).1.is_err());

    sides.server.allow = Allow::Public;
    sides.established();

    sides.server.allow = Allow::OwnKey;
    sides.client.settings.identity = sides.server.settings.identity.clone();
    sides.established();
}

#[test]
fn insecure_ciphers_need_both_sides() {
    let insecure = Cipher::PES;
    let refused = |sides: &Sides| {
        let (client, server) = sides.run(usize::MAX);
        (error(client).to_string(), error(server).to_string())
    };
    let reason = Refusal::Insecure.to_string();

    let mut sides = Sides::new();
    sides.client.settings.ciphers = vec![insecure];
    assert!(Handshake::client(&sides.client).is_err(), "a list that contradicts the flag");
    sides.client.settings.allow_insecure = true;
    let (client, server) = refused(&sides);
    assert!(client.contains(&reason) && server.contains(&reason), "{client}, {server}");

    // Allowed by the server too: agreed.
    sides.server.settings.ciphers.push(insecure);
    sides.server.settings.allow_insecure = true;
    let (mut client, mut server) = sides.established();
    assert_eq!((client.options.cipher, server.options.cipher), (insecure, insecure));
    exchange(&mut client, &mut server, b"not a multiple of eight");

    // Only the server: it never comes to it, since the client does not offer.
    sides.client.settings.ciphers = Cipher::DEFAULT.to_vec();
    sides.client.settings.allow_insecure = false;
    assert_eq!(sides.established().0.options.cipher, Cipher::AES_256_GCM);
}

#[test]
fn the_clients_order_decides_among_common_ciphers() {
    let mut sides = Sides::new();
    sides.client.settings.ciphers =
        vec![Cipher::CHACHA20_POLY1305, Cipher::AES_128_GCM, Cipher::AES_256_GCM];
    assert_eq!(sides.established().0.options.cipher, Cipher::CHACHA20_POLY1305);
    sides.server.settings.ciphers = vec![Cipher::AES_256_GCM, Cipher::AES_128_GCM];
    assert_eq!(sides.established().1.options.cipher, Cipher::AES_128_GCM);
    sides.client.settings.ciphers = vec![Cipher::CHACHA20_POLY1305];
    let (client, server) = sides.run(usize::MAX);
    assert!(error(client).to_string().contains("no common cipher"));
    assert!(error(server).to_string().contains("no common cipher"));
}

/// Where the version in a TLS record's header lies, which must be ignored (RFC 8446, section 5.1), and the
/// outer type, which is constant once records are encrypted and which rustls does not look at then.
fn legacy_header_bytes(sent: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (0, Vec::new());
    while at < sent.len() {
        found.extend([at, at + 1, at + 2]);
        at += 5 + usize::from(u16::from_be_bytes([sent[at + 3], sent[at + 4]]));
    }
    assert_eq!(at, sent.len());
    found
}

/// Names the TLS record that byte `target` lies in.
fn around(sent: &[u8], target: usize) -> String {
    let mut at = 0;
    while at + 5 <= sent.len() {
        let end = at + 5 + usize::from(u16::from_be_bytes([sent[at + 3], sent[at + 4]]));
        if target < end {
            return format!("in the record at {at} to {end}: {:02x?}", &sent[at..at + 5]);
        }
        at = end;
    }
    "in no record".into()
}

/// Every byte of every flight, one bit at a time: Hello and Choice are inside, so this is also what a
/// downgrade would have to get past. Whatever happens, no two sides that differ come to an agreement.
#[test]
fn no_tampered_byte_is_accepted() {
    let sides = Sides::new();
    let mut link = Link::new(
        Handshake::client(&sides.client).unwrap(),
        Handshake::server(&sides.server).unwrap(),
    );
    let (client, server) = link.run();
    assert!(client.is_ok() && server.is_ok());
    let lens = [link.sent[0].len(), link.sent[1].len()];
    let ignored = [legacy_header_bytes(&link.sent[0]), legacy_header_bytes(&link.sent[1])];
    let mut tried = 0;
    for direction in [Direction::ToServer, Direction::ToClient] {
        let len = lens[direction as usize];
        // Each byte of the last record, which has our message, and every seventh elsewhere.
        let targets = (0..len).filter(|at| at % 7 == 0 || *at + 60 > len);
        for target in targets {
            let client = Handshake::client(&sides.client).unwrap();
            let server = Handshake::server(&sides.server).unwrap();
            let mut seen = 0;
            let mut link = Link::new(client, server);
            link.tamper = Box::new(move |w, flight| {
                if w == direction {
                    if (seen..seen + flight.len()).contains(&target) {
                        flight[target - seen] ^= 1 << (target % 8);
                    }
                    seen += flight.len();
                }
            });
            let (client, server) = link.run();
            tried += 1;
            if let (Ok(mut client), Ok(mut server)) = (client, server) {
                assert_eq!(client.options.cipher, server.options.cipher);
                exchange(&mut client, &mut server, b"the same keys");
                assert!(
                    ignored[direction as usize].contains(&target),
                    "{direction:?} byte {target}: {}",
                    around(&link.sent[direction as usize], target)
                );
            }
        }
    }
    assert!(tried > 400, "{tried}");
}

#[test]
fn a_stream_that_ends_anywhere_is_an_error() {
    let sides = Sides::new();
    let mut link = Link::new(
        Handshake::client(&sides.client).unwrap(),
        Handshake::server(&sides.server).unwrap(),
    );
    let (client, server) = link.run();
    assert!(client.is_ok() && server.is_ok());
    let lens = [link.sent[0].len(), link.sent[1].len()];
    for direction in [Direction::ToServer, Direction::ToClient] {
        for cut in (0..lens[direction as usize]).step_by(13).chain([lens[direction as usize] - 1]) {
            let client = Handshake::client(&sides.client).unwrap();
            let server = Handshake::server(&sides.server).unwrap();
            let mut left = cut;
            let mut link = Link::new(client, server);
            link.tamper = Box::new(move |w, flight| {
                if w == direction {
                    flight.truncate(left);
                    left -= flight.len();
                }
            });
            let (client, server) = link.run();
            let short = match direction {
                Direction::ToServer => server,
                Direction::ToClient => client,
            };
            assert!(
                matches!(error(short), Error::Handshake(HandshakeError::Ended)),
                "{direction:?} {cut}"
            );
        }
    }
}

#[test]
fn a_handshake_without_end_is_cut_off() {
    let sides = Sides::new();
    // A record that announces more than a handshake may have: refused at its header.
    let mut server = Handshake::server(&sides.server).unwrap();
    let refused = server.read(&[22, 3, 1, 0x41, 0]).unwrap_err();
    assert!(matches!(refused, Error::Handshake(HandshakeError::TooLong { .. })), "{refused}");
    assert!(server.read(&[0]).is_err(), "an error stays");
    // Small records without end: the beginning of a ClientHello of 60,000 bytes, 100 at a time.
    let mut server = Handshake::server(&sides.server).unwrap();
    let mut record = vec![22, 3, 1, 0, 100, 1, 0, 0xea, 0x60];
    record.resize(105, 3);
    let mut taken = 0;
    let refused = loop {
        match server.read(&record) {
            Ok(n) => taken += n,
            Err(refused) => break refused,
        }
        record[5..9].fill(3);
        assert!(taken < 20_000);
    };
    assert!(matches!(refused, Error::Handshake(_)), "{refused}");
}

#[test]
fn garbage_is_refused() {
    let sides = Sides::new();
    for byte in 0..=255u8 {
        let mut server = Handshake::server(&sides.server).unwrap();
        let garbage = [byte; 4096];
        let mut at = 0;
        let refused = loop {
            match server.read(&garbage[at..]) {
                Ok(n) => at += n,
                Err(refused) => break refused,
            }
            if at == garbage.len() {
                break server.ended();
            }
        };
        assert!(matches!(refused, Error::Handshake(_)), "{byte}: {refused}");
        assert!(server.poll().is_none());
    }
}

#[test]
fn shared_memory_needs_both_sides_and_has_keys_of_its_own() {
    for (asked, offered) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut sides = Sides::new();
        sides.client.shared_memory = asked;
        sides.server.shared_memory = offered.then(|| b"a socket".to_vec());
        let (client, server) = sides.run(usize::MAX);
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.rendezvous.is_some(), asked && offered);
        assert_eq!(server.rendezvous.is_some(), asked && offered);
        let (Some(mut a), Some(mut b)) = (client.rendezvous.take(), server.rendezvous.take())
        else {
            continue;
        };
        assert_eq!((&a.name[..], &b.name[..]), (&b"a socket"[..], &b"a socket"[..]));
        assert_eq!((a.own_token, a.peer_token), (b.peer_token, b.own_token));
        assert_ne!(a.own_token, a.peer_token);
        assert_eq!((a.peer, b.peer), (client.peer, server.peer));
        let text = format!("{a:?}");
        assert!(text.contains("peer") && !text.contains("token"), "{text}");
        // Records from offset 0, that the stream's keys do not open.
        let mut record = vec![0; a.sender.record_len(5)];
        a.sender.seal(0, RecordType::Adu, b"hello", &mut record).unwrap();
        let mut body = [0; 5];
        let offset = server.receiver.start_offset();
        assert!(server.receiver.open(offset, &record, &mut body).is_err());
        let head = record[..16].try_into().unwrap();
        b.receiver.open_in_place(0, head, &record, &mut body).unwrap();
        assert_eq!(&body, b"hello");
        exchange(&mut client, &mut server, b"the stream goes on");
    }
}
