//! The transfer's messages in the loop: Law 1 with marshalling as a first and last stage, for every level, execution and
//! element; and Law 3, for messages that are cut, changed or forged.

use fusewire_base::{Instant, Sum};
use fusewire_codec::pipeline::{Marshal, Unmarshal, unmarshal};
use fusewire_codec::types::Octets;
use fusewire_files::memory::{self, MemoryChannel};
use fusewire_files::message::*;
use fusewire_files::{Channel, ChannelError, Element, Error, Received, Scratch, Sent};
use fusewire_kernels::{Cipher, Execution, Level, Transform};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::RecordParams;
use fusewire_session::{DataPass, RecordReceiver, RecordSender};
use std::fs;

mod support;

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];
const CIPHERS: [Cipher; 4] =
    [Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305, Cipher::AEGIS_128L, Cipher::NONE];
/// Around what is gathered, what passes by itself, and messages as they are on a path and in memory.
const LENGTHS: [usize; 13] =
    [0, 1, 5, 8, 100, 476, 488, 500, 1364, 2024, 2032, 5003, (64 << 10) - HEAD_LEN];
/// What memory holds where nothing was written.
const BEFORE: u8 = 0xee;

fn contents(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect()
}

/// Data messages of all lengths, and some that are none.
fn messages(contents: &[u8]) -> Vec<Message<'_>> {
    let data =
        |len: usize| Data { copy: 2, position: 1 << 33, contents: (&contents[..len]).into() };
    let hash = || Octets::from([7; 32].to_vec());
    let mut bodies = vec![
        Body::Look(Look { path: b"a/b \xff"[..].into() }),
        Body::List(List { path: vec![b'x'; 4095].into(), recursive: true, credit: 9 }),
        Body::Hole(Hole { copy: 1, piece: Piece { position: 1 << 41, length: 1 << 20 } }),
        Body::Missing(Missing {
            pieces: (0..200).map(|n| Piece { position: n << 20, length: 1 << 19 }).collect(),
            more: true,
            hashing: None,
        }),
        Body::Failed(Failed { code: Code::NoSpace, detail: b"words"[..].into() }),
    ];
    bodies.extend(LENGTHS.into_iter().flat_map(|len| {
        [Body::Data(data(len)), Body::Last(Last { data: data(len), hash: hash() })]
    }));
    bodies.into_iter().map(|body| Message { xid: 4, body }).collect()
}

/// What is received of a message, and its contents.
fn came(message: &Message<'static>) -> (Came, Vec<u8>) {
    let xid = message.xid;
    match message.body.contents() {
        Some((data, hash)) => {
            let (copy, position, len) = (data.copy, data.position, data.contents.len());
            (Came::Contents(Run { xid, copy, position, len }, hash), data.contents.to_vec())
        }
        None => {
            let bytes = emit(message, Element::Octets).unwrap();
            let prefix = Prefix::of(*bytes.first_chunk().unwrap(), Element::Octets);
            (Came::Message(prefix, Box::new(message.clone())), Vec::new())
        }
    }
}

#[test]
fn integrated_blocked_and_sequential_give_the_same_bytes_both_ways() {
    let contents = contents(64 << 10);
    let levels = Level::available();
    let (nonce, aad, key) = ([1; 32], [5; 16], [7; 32]);
    for element in ELEMENTS {
        for message in messages(&contents) {
            let plain = emit(&message, element).unwrap();
            let owned = open(&mut plain.clone(), element).unwrap();
            assert_eq!(owned, message);
            for cipher in CIPHERS {
                let (nonce, key) = (&nonce[..cipher.nonce_len], &key[..cipher.key_len]);
                let mut expected = None;
                for (level, execution) in
                    levels.iter().flat_map(|level| EXECUTIONS.map(|execution| (*level, execution)))
                {
                    let what = format!("{cipher} {level} {execution:?} {element:?}");
                    let of = || Transform::new(level, execution, element.swap_of(), cipher, key);
                    // In passes of its own, and in the loop.
                    let mut apart = (vec![0; plain.len()], vec![0; cipher.tag_len]);
                    let sum = of().send(nonce, &aad, &plain, &mut apart.0, &mut apart.1);
                    let expected = &*expected.get_or_insert((apart.clone(), sum));
                    assert!((&apart, sum) == (&expected.0, expected.1), "{what}, apart");
                    let mut one = (vec![BEFORE; plain.len()], vec![0; cipher.tag_len]);
                    let leaving = Leaving::of(&message, element).unwrap();
                    let sum = of().send_message(nonce, &aad, &leaving, &mut one.0, &mut one.1);
                    assert!((&one, sum) == (&expected.0, Some(expected.1)), "{what}, sealed");
                    // And back, contents to where they belong and nothing behind them but what the message has there.
                    let (wanted, bytes) = came(&owned);
                    let mut room = vec![BEFORE; plain.len() + 100];
                    let mut arriving = Arriving::new(&mut room, element);
                    let src = (&one.0[..], plain.len());
                    let opened = of().receive_message(nonce, &aad, src, &one.1, &mut arriving);
                    assert!(opened.authentic && opened.sum == expected.1, "{what}");
                    assert_eq!(arriving.finish().as_ref(), Ok(&wanted), "{what}");
                    assert!(room.starts_with(&bytes), "{what}: contents");
                    let filled = bytes.len().next_multiple_of(4);
                    let written = match wanted {
                        Came::Contents(_, hash) => filled + hash.map_or(0, |hash| hash.len()),
                        Came::Message(..) => plain.len(),
                    };
                    assert!(room[written..].iter().all(|&byte| byte == BEFORE), "{what}: behind");
                    if cipher.tag_len == 0 {
                        continue;
                    }
                    one.1[0] ^= 1;
                    let mut room = vec![BEFORE; plain.len() + 100];
                    let mut arriving = Arriving::new(&mut room, element);
                    let opened = of().receive_message(nonce, &aad, src, &one.1, &mut arriving);
                    assert!(!opened.authentic, "{what}");
                    assert!(arriving.finish().is_err(), "{what}: a forged message is seen");
                    assert!(room.iter().all(|&byte| byte == 0 || byte == BEFORE), "{what}");
                }
            }
        }
    }
    println!("levels: {levels:?}");
    assert_eq!(levels, Level::available());
}

fn records(cipher: Cipher, element: Element) -> (RecordSender, RecordReceiver) {
    let params = RecordParams::new(cipher, element.swap_of(), 1 << 17, DataPass::detect());
    let secret = || TrafficSecret::from_bytes([9; 32]);
    let sender = RecordSender::new(params, secret(), 0).unwrap();
    (sender, RecordReceiver::new(params, secret(), 0).unwrap())
}

/// Opens a record; what is seen of it, if anything is.
fn opened(
    receiver: &mut RecordReceiver,
    record: &[u8],
    element: Element,
    room: &mut [u8],
) -> (bool, Option<Came>) {
    let mut arriving = Arriving::new(room, element);
    let genuine = receiver.open_message(0, record, &mut arriving, |sum| sum == Sum::of(record));
    (genuine.is_ok(), arriving.finish().ok())
}

#[test]
fn a_record_that_is_cut_or_changed_shows_nothing() {
    let contents = contents(64);
    for element in ELEMENTS {
        for cipher in [Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305, Cipher::AEGIS_256] {
            let data = Data { copy: 0, position: 1 << 20, contents: contents[..].into() };
            let hash = [7; 32].to_vec().into();
            for body in [
                Body::Last(Last { data, hash }),
                Body::Look(Look { path: b"folder/file"[..].into() }),
            ] {
                let message = Message { xid: 9, body };
                let leaving = Leaving::of(&message, element).unwrap();
                let (mut sender, _) = records(cipher, element);
                let mut record = vec![0; sender.record_len(leaving.marshalled_len())];
                sender.seal_message(0, &leaving, &mut record).unwrap();
                let (_, mut receiver) = records(cipher, element);
                let nothing = |receiver: &mut RecordReceiver, record: &[u8], what: &str| {
                    let mut room = [BEFORE; 200];
                    let (genuine, seen) = opened(receiver, record, element, &mut room);
                    assert!(!genuine && seen.is_none(), "{cipher} {element:?} {what}: {seen:?}");
                    let is_wiped = room.iter().all(|&byte| byte == 0 || byte == BEFORE);
                    assert!(is_wiped, "{cipher} {element:?} {what} leaves something");
                };
                for len in 0..record.len() {
                    nothing(&mut receiver, &record[..len], &format!("cut to {len}"));
                }
                for at in 0..record.len() {
                    let mut forged = record.clone();
                    forged[at] ^= 1 << (at % 8);
                    nothing(&mut receiver, &forged, &format!("with byte {at} changed"));
                }
                let mut room = [BEFORE; 200];
                let (genuine, seen) = opened(&mut receiver, &record, element, &mut room);
                assert!(genuine && seen.is_some(), "{cipher} {element:?}");
            }
        }
    }
}

/// A peer that has the keys may send anything: what is no message is an error, and no contents.
#[test]
fn a_genuine_record_of_a_message_that_is_cut_or_wrong_shows_no_contents() {
    let contents = contents(64);
    for element in ELEMENTS {
        let data = Data { copy: 0, position: 1 << 20, contents: contents[..].into() };
        let body = Body::Last(Last { data, hash: [7; 32].to_vec().into() });
        let whole = emit(&Message { xid: 9, body }, element).unwrap();
        let sealed = |bytes: &Vec<u8>| {
            let (mut sender, receiver) = records(Cipher::AES_256_GCM, element);
            let mut record = vec![0; sender.record_len(bytes.len())];
            sender.seal_message(0, bytes, &mut record).unwrap();
            (record, receiver)
        };
        for len in 0..whole.len() {
            let (record, mut receiver) = sealed(&whole[..len].to_vec());
            let mut room = [BEFORE; 200];
            let (genuine, seen) = opened(&mut receiver, &record, element, &mut room);
            assert!(genuine && seen.is_none(), "{element:?} cut to {len}: {seen:?}");
            assert!(room.iter().all(|&byte| byte == 0 || byte == BEFORE), "{element:?} {len}");
        }
        // Whatever the head says, what is seen is what reading the whole message at once gives.
        for at in 0..HEAD_LEN {
            for bit in 0..8 {
                let mut other = whole.clone();
                other[at] ^= 1 << bit;
                let (record, mut receiver) = sealed(&other);
                let mut room = [BEFORE; 200];
                let (genuine, seen) = opened(&mut receiver, &record, element, &mut room);
                let wanted = open(&mut other, element).ok().map(|message| came(&message).0);
                assert!(genuine && seen == wanted, "{element:?} bit {bit} of byte {at}");
            }
        }
    }
}

/// A channel on which somebody forges: before each ADU comes one that is none, as a connection opens what it takes
/// for a segment until it knows better.
struct Forged {
    channel: MemoryChannel,
    /// Of forged ADUs.
    made: usize,
    /// Genuine ones come no more.
    alone: bool,
}

impl Channel for Forged {
    fn max_adu(&self) -> usize {
        self.channel.max_adu()
    }

    fn room(&mut self) -> usize {
        self.channel.room()
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        self.channel.send(message)
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        let mut adu = Vec::new();
        let received = self.channel.recv(&mut adu)?;
        let Received::Adu { .. } = received else { return Ok(received) };
        for at in [adu.len() - 1, 30 % adu.len(), 3] {
            let mut forged = adu.clone();
            forged[at] ^= 0x40;
            unmarshal(&forged, into);
            into.wipe();
            self.made += 1;
        }
        unmarshal(&adu, into);
        if self.alone {
            into.wipe();
            return Ok(Received::Nothing);
        }
        Ok(received)
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.channel.finish()
    }
}

/// Transfers a file over two such channels; how many ADUs were forged.
fn transfer(alone_from: usize) -> (usize, Result<bool, Error>, Vec<String>) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = support::bytes(3_000_000, 5);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let mut session = support::share(from.path(), false).session(Element::Octets);
    let (plan, log) = support::get_plan("f", to.path(), Default::default());
    let mut worker = plan.worker(Element::Octets);
    let forged = |channel| Forged { channel, made: 0, alone: false };
    let (a, b) = memory::pair(memory::Settings::default());
    let (mut server, mut client, mut scratch) = (forged(a), forged(b), Scratch::new());
    let mut finished = Ok(false);
    for turn in 0..2000 {
        client.alone = turn >= alone_from;
        let now = Instant::from_ms(turn as u64);
        finished = worker.turn(&mut client, &mut scratch, now).map(|turn| turn.finished);
        if !matches!(finished, Ok(false)) {
            break;
        }
        session.turn(&mut server, &mut scratch, now).unwrap();
    }
    let there = fs::read(to.path().join("f")).ok();
    assert_eq!(there.is_some(), matches!(finished, Ok(true)), "a name before all is there");
    assert!(there.is_none_or(|there| there == bytes), "other contents");
    let done = log.lock().unwrap().done.iter().map(|(path, ..)| path.clone()).collect();
    (server.made + client.made, finished, done)
}

#[test]
fn what_is_forged_changes_nothing_and_is_not_counted() {
    let (made, finished, done) = transfer(usize::MAX);
    assert!(made > 1000 && finished.unwrap() && done.len() == 1, "{made}");
    for alone_from in [1, 5, 20] {
        let (made, finished, done) = transfer(alone_from);
        assert!(made > 3 && !finished.unwrap() && done.is_empty(), "{made}");
    }
}
