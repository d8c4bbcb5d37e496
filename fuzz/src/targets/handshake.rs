//! The handshake: arbitrary bytes and changed flights into both sides, and the messages behind TLS.
use std::sync::{Arc, LazyLock};

use crate::Choices;
use fusewire_session::hello::{Answer, Choice, Hello, Refusal};
use fusewire_session::{
    Allow, Cipher, ClientConfig, Established, Handshake, HeaderProtection, Identity, ServerConfig,
    Trust,
};

/// More than an honest flight has, and what a side may keep of a dishonest one.
const OUTPUT_MAX: usize = 16 << 10;

static SIDES: LazyLock<(ClientConfig, ServerConfig)> = LazyLock::new(|| {
    let client = Arc::new(Identity::ephemeral().expect("a key"));
    let server = Arc::new(Identity::ephemeral().expect("a key"));
    let trust = Trust::Pinned(server.fingerprint());
    let list = [client.fingerprint()].into_iter().collect();
    let mut server = ServerConfig::new(server);
    server.allow = Allow::List(Arc::new(list));
    (ClientConfig::new(client, trust), server)
});

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    match choices.u8() % 4 {
        0 => messages(choices.rest()),
        1 => raw(Handshake::client(&SIDES.0).expect("a client"), choices),
        2 => raw(Handshake::server(&SIDES.1).expect("a server"), choices),
        _ => between(choices),
    }
}

/// The messages, the flights of an honest handshake, and such a handshake.
pub fn seeds() -> Vec<Vec<u8>> {
    let message = |emit: &dyn Fn(&mut Vec<u8>)| {
        let mut out = vec![0];
        emit(&mut out);
        out
    };
    let (version, element, body_len_max) = (1, fusewire_session::Swap::Bytes32, 65_536);
    let ciphers = vec![Cipher::AES_256_GCM, Cipher::SAFER_K64];
    let idle_timeout = Some(core::time::Duration::from_secs(30));
    let hello = Hello {
        version,
        allow_insecure: true,
        element,
        body_len_max,
        ciphers,
        shared_memory: true,
        idle_timeout,
        protection: HeaderProtection::with_padding(256),
        early: 2,
        terms: fusewire_session::Terms::of(&["a", "b"]),
    };
    let (cipher, shared_memory) = (Cipher::AES_256_GCM, Some(b"0123a".to_vec()));
    let protection = hello.protection;
    let choice = Choice {
        version,
        cipher,
        element,
        body_len_max,
        shared_memory,
        idle_timeout,
        protection,
        terms: true,
    };
    let mut seeds = vec![
        message(&|out| hello.emit(out)),
        message(&|out| choice.emit(out)),
        message(&|out| Answer::Refusal(Refusal::NotAllowed).emit(out)),
        message(&|out| Answer::Refusal(Refusal::Terms(3)).emit(out)),
        vec![3],
    ];
    let mut client = Handshake::client(&SIDES.0).expect("a client");
    let mut server = Handshake::server(&SIDES.1).expect("a server");
    for side in [2, 1, 2] {
        let (from, to) =
            if side == 2 { (&mut client, &mut server) } else { (&mut server, &mut client) };
        let mut flight = Vec::new();
        from.write(&mut flight);
        to.read(&flight).expect("an honest flight");
        let len = flight.len() as u16;
        seeds.push([&[side][..], &len.to_be_bytes(), &flight].concat());
    }
    seeds
}

/// What parses is emitted and parses again as the same.
fn messages(bytes: &[u8]) {
    if let Ok(hello) = Hello::parse(bytes) {
        let mut out = Vec::new();
        hello.emit(&mut out);
        // A Hello of unknown ciphers alone is legal to read and not to write.
        if !hello.ciphers.is_empty() {
            assert_eq!(Hello::parse(&out).ok(), Some(hello));
        }
    }
    if let Ok(answer) = Answer::parse(bytes) {
        let mut out = Vec::new();
        answer.emit(&mut out);
        assert_eq!(Answer::parse(&out).ok(), Some(answer));
    }
    if let Some(code) = bytes.first_chunk::<2>()
        && let Some(cipher) = Cipher::from_code(*code)
    {
        assert_eq!(Cipher::from_code(cipher.code()), Some(cipher));
    }
}

/// One side alone: it never comes to an end, for the bytes are nobody's.
fn raw(mut side: Handshake, mut choices: Choices<'_>) {
    let mut out = Vec::new();
    side.write(&mut out);
    while !choices.is_empty() {
        let len = usize::from(choices.u16());
        let bytes = choices.bytes(len);
        let read = side.read(bytes);
        side.write(&mut out);
        assert!(side.poll().is_none(), "a handshake with nobody");
        assert!(out.len() <= OUTPUT_MAX, "{} bytes of answers", out.len());
        match read {
            Ok(n) => assert_eq!(n, bytes.len()),
            Err(_) => {
                assert!(side.read(b"x").is_err(), "an error stays");
                let _ = side.ended().to_string();
                break;
            }
        }
    }
}

/// Two honest sides, and someone between them who changes what he likes.
fn between(mut choices: Choices<'_>) {
    let mut sides = [
        Handshake::client(&SIDES.0).expect("a client"),
        Handshake::server(&SIDES.1).expect("a server"),
    ];
    let mut done: [Option<Established>; 2] = [None, None];
    let mut failed = [false; 2];
    let mut changed = false;
    for turn in 0..12 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        let mut flight = Vec::new();
        sides[from].write(&mut flight);
        assert!(flight.len() <= OUTPUT_MAX);
        changed |= tamper(&mut choices, &mut flight);
        let mut rest = &flight[..];
        while !rest.is_empty() && !failed[to] && done[to].is_none() {
            let piece = match choices.u8() {
                0 => rest.len(),
                n => usize::from(n).min(rest.len()),
            };
            match sides[to].read(&rest[..piece]) {
                Ok(0) => break,
                Ok(n) => rest = &rest[n..],
                Err(_) => failed[to] = true,
            }
        }
        for (side, done) in sides.iter_mut().zip(&mut done) {
            if let Some(established) = side.poll() {
                *done = Some(established);
            }
        }
    }
    if !changed {
        assert!(done.iter().all(Option::is_some), "an honest handshake failed");
    }
    if let [Some(client), Some(server)] = &done {
        assert_eq!(client.options.cipher, server.options.cipher);
        assert_eq!(client.peer, SIDES.1.settings.identity.fingerprint());
        assert_eq!(server.peer, SIDES.0.settings.identity.fingerprint());
        // Someone between can slip a record in that TLS passes over: offsets then differ and no record
        // opens, which is as good as cutting the connection.
        let offsets = |from: &Established, to: &Established| {
            (from.sender.next_offset(), to.receiver.start_offset())
        };
        for (sent, received) in [offsets(client, server), offsets(server, client)] {
            assert!(changed || sent == received);
        }
    }
}

/// True if the flight is another now.
fn tamper(choices: &mut Choices<'_>, flight: &mut Vec<u8>) -> bool {
    let before = flight.clone();
    for _ in 0..choices.u8() % 3 {
        let at = usize::from(choices.u16()) % flight.len().max(1);
        match choices.u8() % 5 {
            0 => flight.truncate(at),
            1 => {
                let len = usize::from(choices.u8());
                flight.splice(at..at, choices.bytes(len).iter().copied());
            }
            2 => {
                let again = flight[at..].to_vec();
                flight.extend(again);
            }
            _ if flight.is_empty() => {}
            3 => flight[at] = choices.u8(),
            _ => flight[at] ^= 1 << (choices.u8() & 7),
        }
    }
    *flight != before
}
