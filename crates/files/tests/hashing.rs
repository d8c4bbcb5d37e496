//! Who hashes: both sides, the receiver alone, or nobody, where tags of the connection vouch for what comes.

mod support;

use fusewire_base::Instant;
use fusewire_files::Hashing;
use fusewire_files::client::{get, put};
use fusewire_files::memory::{self, MemoryChannel, Settings};
use fusewire_files::message::{self, Body, Commit, Message, Missing, Piece, Put, Stored};
use fusewire_files::{Channel as _, Error, Kind, Received, Scratch, Sent, Violation};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use support::raw::*;
use support::*;

const ALL: [Hashing; 3] = [Hashing::Both, Hashing::Receiver, Hashing::Nobody];
const SETTINGS: Settings = Settings { max_adu: 9000, capacity: 20, reorder: 6, seed: 5 };
/// Empty, in one piece, a block, blocks and a rest.
const SIZES: [usize; 6] = [0, 5, 200_000, 1 << 20, (1 << 20) + 1, (5 << 20) + 77];

/// Kind of a message that ends a block with its hash.
const LAST: [u8; 4] = [0, 0, 0, 17];

/// Ends of blocks that are under way with their hashes.
fn count_hashes(channel: &MemoryChannel, count: &mut usize) {
    channel.tamper(|adu| *count += messages(adu).iter().filter(|m| m[4..8] == LAST).count());
}

#[test]
fn a_get_is_hashed_by_whom_it_is_to_be() {
    for (tagged, hashing) in [true, false].into_iter().flat_map(|t| ALL.map(|h| (t, h))) {
        for size in SIZES {
            let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let contents = bytes(size, 3);
            fs::write(from.path().join("f"), &contents).unwrap();
            let (plan, log) =
                get_plan("f", to.path(), get::Options { hashing, ..get::Options::default() });
            let share = share(from.path(), false);
            let mut run = Run::new(&share, 1, SETTINGS, OCTETS, || plan.worker(OCTETS));
            run.ends[0].0 = share.session(OCTETS).tagged(tagged);
            let mut hashes = 0;
            while !run.step().unwrap() {
                count_hashes(&run.ends[0].1, &mut hashes);
            }
            let log = log.lock().unwrap().clone();
            assert_eq!(log.failed, [], "{hashing:?} {size}");
            assert!(fs::read(to.path().join("f")).unwrap() == contents, "{hashing:?} {size}");
            let hash = blake3::hash(&contents);
            let known = (hashing != Hashing::Nobody).then_some(*hash.as_bytes());
            assert_eq!(log.done, [("f".to_owned(), size as u64, known)], "{hashing:?}");
            // Where nothing else vouches for what comes the server sends them unasked, and the client takes them.
            let expected = size > 0 && (hashing == Hashing::Both || !tagged);
            assert_eq!(hashes > 0, expected, "{tagged} {hashing:?} {size}");
            assert_eq!(tree(to.path()).len(), 1);
        }
    }
}

/// Puts `f` over a connection that has tags or has none; how many blocks came with their hashes.
fn put_over(tagged: bool, from: &Path, to: &Path, hashing: Hashing) -> Result<(usize, Log), Error> {
    let log = Arc::default();
    let source = put::Source::from_path(from).unwrap();
    let options = put::Options { hashing, ..put::Options::default() };
    let plan = put::Plan::new(source, remote("f"), options, observer(&log));
    let mut session = share(to, true).session(OCTETS).tagged(tagged);
    let (mut server, mut client) = memory::pair(SETTINGS);
    let (mut worker, mut scratch) = (plan.worker(OCTETS), Scratch::new());
    let mut hashes = 0;
    for turn in 0.. {
        assert!(turn < 100_000, "it ends");
        let is_finished = worker.turn(&mut client, &mut scratch, Instant::from_ms(turn))?.finished;
        count_hashes(&client, &mut hashes);
        if session.turn(&mut server, &mut scratch, Instant::from_ms(turn))?.finished && is_finished
        {
            break;
        }
    }
    let log = log.lock().unwrap().clone();
    Ok((hashes, log))
}

#[test]
fn a_put_is_hashed_by_whom_the_server_agrees_to() {
    for (tagged, hashing) in [true, false].into_iter().flat_map(|t| ALL.map(|h| (t, h))) {
        for size in SIZES {
            let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let contents = bytes(size, 4);
            let path = from.path().join("f");
            fs::write(&path, &contents).unwrap();
            let (hashes, log) = put_over(tagged, &path, to.path(), hashing).unwrap();
            assert_eq!(log.failed, [], "{tagged} {hashing:?} {size}");
            assert!(fs::read(to.path().join("f")).unwrap() == contents, "{hashing:?} {size}");
            // Where nothing else vouches for what comes the server does not do without.
            let expected = size > 0 && (hashing == Hashing::Both || !tagged);
            assert_eq!(hashes > 0, expected, "{tagged} {hashing:?} {size}");
            assert_eq!(tree(to.path()).len(), 1);
        }
    }
}

#[test]
fn a_server_says_who_hashes_what_it_misses() {
    let dir = tempfile::tempdir().unwrap();
    for (tagged, asked, agreed) in [
        (true, Some(Hashing::Receiver), Some(Hashing::Receiver)),
        (true, Some(Hashing::Nobody), Some(Hashing::Nobody)),
        (true, Some(Hashing::Both), None),
        (true, Some(Hashing::Unknown(9)), None),
        (true, None, None),
        (false, Some(Hashing::Receiver), None),
        (false, Some(Hashing::Nobody), None),
    ] {
        let mut client = Raw::new(&share(dir.path(), true));
        client.session = share(dir.path(), true).session(OCTETS).tagged(tagged);
        let expected = missing(9, agreed);
        assert_eq!(client.ask(file(9, asked)), [expected], "{tagged} {asked:?}");
    }
}

/// Asks to make `f`.
fn file(len: u64, hashing: Option<Hashing>) -> Body<'static> {
    Body::Put(Put {
        path: octets(b"f"),
        meta: meta(Kind::File, len),
        piece: Piece { position: 0, length: len },
        replace: true,
        hashing,
        ..Put::default()
    })
}

/// All of it is missing.
fn missing(len: u64, hashing: Option<Hashing>) -> Body<'static> {
    let pieces = vec![Piece { position: 0, length: len }];
    Body::Missing(Missing { pieces, more: false, hashing })
}

#[test]
fn who_asks_for_hashes_joins_no_upload_that_has_fewer() {
    const LEN: u64 = 5 << 20;
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path(), true);
    let tagged = || {
        let mut client = Raw::new(&share);
        client.session = share.session(OCTETS).tagged(true);
        client
    };
    for weaker in [Hashing::Receiver, Hashing::Nobody] {
        let (mut first, mut second) = (tagged(), tagged());
        assert_eq!(first.ask(file(LEN, Some(weaker))), [missing(LEN, Some(weaker))]);
        let xid = first.xid;
        first.send(&data(xid, 0, &[1; 1000], None));
        assert_eq!(first.replies().unwrap(), []);
        // It begins one of its own, with hashes, in place of the other.
        assert_eq!(second.ask(file(LEN, None)), [missing(LEN, None)], "{weaker:?}");
        first.send(&data(xid, 1000, &[1; 1000], None));
        let replies = first.replies().unwrap();
        assert!(matches!(&replies[..], [Body::Failed(_)]), "{weaker:?} {replies:?}");
    }
}

#[test]
fn a_client_takes_no_less_hashing_than_it_asked_for() {
    let from = tempfile::tempdir().unwrap();
    let path = from.path().join("f");
    fs::write(&path, bytes(5000, 4)).unwrap();
    let known = |hashing| match hashing {
        Hashing::Both => 2,
        Hashing::Receiver => 1,
        _ => 0,
    };
    for (asked, agreed) in ALL.into_iter().flat_map(|asked| ALL.map(|agreed| (asked, agreed))) {
        let source = put::Source::from_path(&path).unwrap();
        let options = put::Options { hashing: asked, ..put::Options::default() };
        let plan = put::Plan::new(source, remote("f"), options, observer(&Arc::default()));
        let (mut worker, mut scratch) = (plan.worker(OCTETS), Scratch::new());
        let (mut server, mut client) = memory::pair(SETTINGS);
        let (mut adu, mut sent, mut refused) = (Vec::new(), Vec::new(), None);
        for turn in 0..50 {
            match worker.turn(&mut client, &mut scratch, Instant::from_ms(turn)) {
                Ok(_) => {}
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
            while let Received::Adu { .. } = server.recv(&mut adu).unwrap() {
                for mut message in messages(&adu) {
                    let Message { xid, body } = message::open(&mut message, OCTETS).unwrap();
                    match body {
                        Body::Put(_) => {
                            let answer = emit(xid, missing(5000, Some(agreed)));
                            assert_eq!(server.send(&answer).unwrap(), Sent::Taken);
                        }
                        body => sent.push(body),
                    }
                }
            }
        }
        let what = format!("asked for {asked:?}, got {agreed:?}: {refused:?}");
        if known(agreed) < known(asked) {
            assert!(matches!(refused, Some(Error::Peer(Violation::Hashing))), "{what}");
            assert!(sent.is_empty(), "{what}, and sent {sent:?}");
        } else {
            assert!(refused.is_none() && !sent.is_empty(), "{what}");
        }
    }
}

#[test]
fn a_lone_hash_says_nothing_where_none_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path(), true);
    let contents = bytes((1 << 20) + 9, 2);
    let len = contents.len() as u64;
    for hashing in [Hashing::Receiver, Hashing::Nobody] {
        let mut client = Raw::new(&share);
        client.session = share.session(OCTETS).tagged(true);
        client.ask(file(len, Some(hashing)));
        let xid = client.xid;
        // Before its block is complete, behind it, and at the end of the file.
        client.send(&data(xid, 1 << 20, &[], Some([7; 32])));
        for (n, piece) in contents.chunks(50_000).enumerate() {
            client.send(&data(xid, n as u64 * 50_000, piece, None));
        }
        for end in [1 << 20, len] {
            client.send(&data(xid, end, &[], Some([7; 32])));
        }
        assert_eq!(client.replies().unwrap(), [], "{hashing:?}");
        let stored = Body::Stored(Stored { complete: true });
        assert_eq!(client.ask(Body::Commit(Commit { of: xid })), [stored], "{hashing:?}");
        assert!(fs::read(dir.path().join("f")).unwrap() == contents);
    }
}

#[test]
fn what_nobody_has_hashed_is_not_kept_and_what_the_receiver_has_is() {
    for hashing in [Hashing::Receiver, Hashing::Nobody] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let contents = bytes((9 << 20) + 7, 9);
        fs::write(from.path().join("f"), &contents).unwrap();
        fs::write(to.path().join("f"), b"before").unwrap();
        let options = get::Options { hashing, ..get::Options::default() };
        let break_off = |options: &get::Options, turns| {
            let (plan, log) = get_plan("f", to.path(), options.clone());
            let share = share(from.path(), false);
            let mut run = Run::new(&share, 1, SETTINGS, OCTETS, || plan.worker(OCTETS));
            run.ends[0].0 = share.session(OCTETS).tagged(true);
            let complete = run.steps(turns);
            run.ends[0].1.cut();
            drop(run);
            let log = log.lock().unwrap().clone();
            assert_eq!(plan.keeps(), options.hashing != Hashing::Nobody);
            (complete, log)
        };
        // What an earlier transfer has left, and was hashed, is no part of what is not.
        assert!(!break_off(&get::Options::default(), 30).0);
        let left = tree(to.path()).len();
        assert_eq!(left, 3, "the file, the partial one and its record");
        let (complete, log) = break_off(&options, 20);
        assert!(!complete);
        assert_eq!(log.resumed > 0, hashing == Hashing::Receiver);
        assert_eq!(fs::read(to.path().join("f")).unwrap(), b"before");
        let left = tree(to.path()).len();
        assert_eq!(left, if hashing == Hashing::Receiver { 3 } else { 1 }, "{hashing:?}");
        if hashing == Hashing::Receiver {
            // Nor is what was compared with nothing a part of what is compared.
            let (complete, log) = break_off(&get::Options::default(), 30);
            assert!(!complete && log.resumed == 0, "{}", log.resumed);
        }
        let (complete, log) = break_off(&options, 100_000);
        assert!(complete);
        assert_eq!(log.resumed > 0, hashing == Hashing::Receiver);
        assert!(fs::read(to.path().join("f")).unwrap() == contents);
        assert_eq!(tree(to.path()).len(), 1);
    }
}
