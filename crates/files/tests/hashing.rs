//! Who hashes: both sides, the receiver alone, or nobody, where tags of the connection vouch for what comes.

mod support;

use fusewire_base::Instant;
use fusewire_files::Hashing;
use fusewire_files::client::{get, put};
use fusewire_files::memory::{self, MemoryChannel, Settings};
use fusewire_files::message::{Body, Missing, Piece, Put};
use fusewire_files::{Error, Kind, Scratch};
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
    for hashing in ALL {
        for size in SIZES {
            let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let contents = bytes(size, 3);
            fs::write(from.path().join("f"), &contents).unwrap();
            let (plan, log) =
                get_plan("f", to.path(), get::Options { hashing, ..get::Options::default() });
            let share = share(from.path(), false);
            let mut run = Run::new(&share, 1, SETTINGS, OCTETS, || plan.worker(OCTETS));
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
            assert_eq!(hashes > 0, hashing == Hashing::Both && size > 0, "{hashing:?} {size}");
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
        let piece = Piece { position: 0, length: 9 };
        let put = Put {
            path: octets(b"f"),
            meta: meta(Kind::File, 9),
            piece: piece.clone(),
            replace: true,
            hashing: asked,
            ..Put::default()
        };
        let pieces = vec![piece];
        let expected = Body::Missing(Missing { pieces, more: false, hashing: agreed });
        assert_eq!(client.ask(Body::Put(put)), [expected], "{tagged} {asked:?}");
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
