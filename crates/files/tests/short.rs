//! Files that come in one piece need no partial file, and keep every promise that the others keep.

mod support;

use fusewire_base::Instant;
use fusewire_codec::pipeline::{Marshal, Unmarshal};
use fusewire_files::channel::{Channel, ChannelError, Received, Sent};
use fusewire_files::client::{Ignore, get, put};
use fusewire_files::message::{Body, Code, Commit, Failed, Piece, Put, Stored};
use fusewire_files::{Kind, Meta, Scratch, Time, memory};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use support::raw::*;
use support::*;

const STORED: [Body<'static>; 1] = [Body::Stored(Stored { complete: true })];

fn served() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    fs::create_dir(&served).unwrap();
    (dir, served)
}

fn file(path: &[u8], size: u64, replace: bool) -> Body<'static> {
    Body::Put(Put {
        path: octets(path),
        meta: Meta { mode: 0o640, mtime: Time { s: 7, ns: 8 }, ..meta(Kind::File, size) },
        replace,
        piece: Piece { position: 0, length: size },
        ..Put::default()
    })
}

fn hash(contents: &[u8]) -> [u8; 32] {
    use blake3::hazmat::HasherExt as _;
    blake3::Hasher::new().update(contents).finalize_non_root()
}

/// Puts a file in one piece; what the server says to its commit.
fn put(raw: &mut Raw, path: &[u8], contents: &[u8], replace: bool) -> Vec<Body<'static>> {
    let created = raw.ask(file(path, contents.len() as u64, replace));
    let [Body::Missing(_)] = created.as_slice() else { return created };
    let xid = raw.xid;
    if !contents.is_empty() {
        raw.send(&data(xid, 0, contents, Some(hash(contents))));
    }
    raw.ask(Body::Commit(Commit { of: xid }))
}

#[test]
fn nothing_is_seen_before_the_commit_and_nothing_is_left_without_one() {
    let (_dir, served) = served();
    fs::write(served.join("x"), b"before").unwrap();
    for committed in [false, true] {
        let mut raw = Raw::new(&share(&served, true));
        raw.ask(file(b"x", 5, true));
        raw.ask(file(b"y", 5, true));
        for xid in [1, 2] {
            raw.send(&data(xid, 0, b"after", Some(hash(b"after"))));
        }
        assert_eq!(raw.replies().unwrap(), []);
        assert_eq!(fs::read_dir(&served).unwrap().count(), 1, "something can be seen");
        assert_eq!(fs::read(served.join("x")).unwrap(), b"before");
        if committed {
            assert_eq!(raw.ask(Body::Commit(Commit { of: 1 })), STORED);
            assert_eq!(raw.ask(Body::Commit(Commit { of: 2 })), STORED);
        }
    }
    for name in ["x", "y"] {
        let there = fs::metadata(served.join(name)).unwrap();
        assert_eq!(fs::read(served.join(name)).unwrap(), b"after");
        assert_eq!((there.mode() & 0o777, there.mtime(), there.mtime_nsec()), (0o640, 7, 8));
    }
    assert_no_leftovers(&served);
}

#[test]
fn pieces_in_any_order_and_holes_become_the_same_file() {
    let (_dir, served) = served();
    let contents = bytes(5000, 3);
    let whole = hash(&contents);
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut raw = Raw::new(&share(&served, true));
        raw.ask(file(b"x", 5000, true));
        for n in order {
            let piece = n * 2000..((n + 1) * 2000).min(5000);
            let hash = (piece.end == 5000).then_some(whole);
            raw.send(&data(1, piece.start as u64, &contents[piece], hash));
        }
        assert_eq!(raw.ask(Body::Commit(Commit { of: 1 })), STORED);
        assert_eq!(fs::read(served.join("x")).unwrap(), contents, "{order:?}");
    }
    let mut raw = Raw::new(&share(&served, true));
    raw.ask(file(b"zeros", 5000, true));
    raw.send(&hole(1, 0, 0, 5000));
    assert_eq!(raw.ask(Body::Commit(Commit { of: 1 })), STORED);
    assert_eq!(fs::read(served.join("zeros")).unwrap(), [0; 5000]);
    assert_eq!(put(&mut raw, b"empty", b"", true), STORED);
    assert_eq!(fs::read(served.join("empty")).unwrap(), b"");
    assert_no_leftovers(&served);
}

#[test]
fn another_hash_is_another_file_and_is_not_stored() {
    let (_dir, served) = served();
    fs::write(served.join("x"), b"before").unwrap();
    let mut raw = Raw::new(&share(&served, true));
    raw.ask(file(b"x", 5, true));
    raw.send(&data(1, 0, b"after", Some(hash(b"other"))));
    let replies = raw.replies().unwrap();
    assert!(
        matches!(replies[..], [Body::Failed(Failed { code: Code::WrongHash, .. })]),
        "{replies:?}"
    );
    assert_eq!(raw.code(Body::Commit(Commit { of: 1 })), Code::BadRequest);
    assert_eq!(fs::read(served.join("x")).unwrap(), b"before");
    assert_no_leftovers(&served);
}

#[test]
fn only_files_and_links_are_replaced_and_only_by_leave() {
    let (dir, served) = served();
    fs::write(dir.path().join("secret"), b"secret").unwrap();
    fs::write(served.join("file"), b"before").unwrap();
    fs::create_dir(served.join("folder")).unwrap();
    symlink("../secret", served.join("link")).unwrap();
    let pipe = served.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut raw = Raw::new(&share(&served, true));
    let failed = |replies: Vec<Body<'static>>| match replies.as_slice() {
        [Body::Failed(Failed { code, .. })] => *code,
        other => panic!("{other:?}"),
    };
    for name in [&b"file"[..], b"folder", b"link", b"pipe"] {
        assert_eq!(failed(put(&mut raw, name, b"after", false)), Code::Exists);
    }
    for name in [&b"folder"[..], b"pipe"] {
        assert_eq!(failed(put(&mut raw, name, b"after", true)), Code::NotAFile);
    }
    for name in ["file", "link"] {
        assert_eq!(put(&mut raw, name.as_bytes(), b"after", true), STORED);
        assert!(fs::symlink_metadata(served.join(name)).unwrap().is_file(), "{name}");
        assert_eq!(fs::read(served.join(name)).unwrap(), b"after");
    }
    // One that came to be while the contents were on their way.
    raw.ask(file(b"late", 5, false));
    let xid = raw.xid;
    raw.send(&data(xid, 0, b"after", Some(hash(b"after"))));
    fs::write(served.join("late"), b"somebody else's").unwrap();
    assert_eq!(raw.code(Body::Commit(Commit { of: xid })), Code::Exists);
    assert_eq!(fs::read(served.join("late")).unwrap(), b"somebody else's");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(fs::read(dir.path().join("secret")).unwrap(), b"secret");
    assert_no_leftovers(&served);
}

#[test]
fn a_folder_that_is_another_by_now_is_found_again() {
    let (_dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    assert_eq!(put(&mut raw, b"d/one", b"1", true), STORED);
    fs::rename(served.join("d"), served.join("moved")).unwrap();
    assert_eq!(put(&mut raw, b"d/two", b"2", true), STORED);
    assert_eq!(fs::read(served.join("d/two")).unwrap(), b"2");
    assert_eq!(fs::read_dir(served.join("moved")).unwrap().count(), 1);
}

#[test]
fn many_come_in_few_messages_and_one_that_fails_harms_no_other() {
    let (_dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    let contents = |n: u32| bytes(n as usize * 10, u64::from(n));
    let creates: Vec<_> =
        (1..20).map(|n| emit(n, file(format!("{n}").as_bytes(), n.into(), true))).collect();
    raw.send(&bundle(&creates));
    assert_eq!(raw.replies().unwrap().len(), 19);
    let rest: Vec<_> = (1..20)
        .flat_map(|n| {
            let bytes = &contents(n)[..n as usize];
            let hash = if n == 7 { [0; 32] } else { hash(bytes) };
            [data(n, 0, bytes, Some(hash)), emit(100 + n, Body::Commit(Commit { of: n }))]
        })
        .collect();
    raw.send(&bundle(&rest));
    raw.replies().unwrap();
    for n in 1..20 {
        let there = fs::read(served.join(format!("{n}"))).ok();
        let expected = (n != 7).then(|| contents(n)[..n as usize].to_vec());
        assert_eq!(there, expected, "{n}");
    }
    assert_no_leftovers(&served);
}

/// A channel that counts what is sent.
struct Counting(memory::MemoryChannel, usize);

impl Channel for Counting {
    fn max_adu(&self) -> usize {
        self.0.max_adu()
    }
    fn room(&mut self) -> usize {
        self.0.room()
    }
    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        let sent = self.0.send(message)?;
        self.1 += usize::from(sent == Sent::Taken);
        Ok(sent)
    }
    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        self.0.recv(into)
    }
    fn finish(&mut self) -> Result<(), ChannelError> {
        self.0.finish()
    }
}

#[test]
fn small_files_take_fewer_adus_than_they_are() {
    const FILES: usize = 500;
    let (dir, served) = served();
    fs::create_dir(served.join("from")).unwrap();
    for n in 0..FILES {
        fs::write(served.join(format!("from/{n}")), bytes(n % 900, n as u64)).unwrap();
    }
    for (reply_bytes, putting) in [(0, false), (0, true), (700, false), (700, true)] {
        let settings = memory::Settings { max_adu: 65_000, ..memory::Settings::default() };
        let (server, client) = memory::pair(settings);
        let (mut server, mut client) = (Counting(server, 0), Counting(client, 0));
        let mut session = share(&served, true).session(OCTETS);
        let mut scratch = Scratch::new();
        let to = format!("to-{reply_bytes}-{putting}");
        type Turn = Box<dyn FnMut(&mut Counting, &mut Scratch) -> bool>;
        let mut turn: Turn = if putting {
            let source = put::Source::from_path(&served.join("from")).unwrap();
            let options = put::Options { reply_bytes, ..put::Options::default() };
            let plan = put::Plan::new(source, remote(&to), options, Box::new(Ignore));
            let mut worker = plan.worker(OCTETS);
            Box::new(move |c, s| worker.turn(c, s, Instant::ZERO).unwrap().finished)
        } else {
            let options = get::Options { reply_bytes, ..get::Options::default() };
            let (plan, _) = get_plan("from", &dir.path().join(&to), options);
            let mut worker = plan.worker(OCTETS);
            Box::new(move |c, s| worker.turn(c, s, Instant::ZERO).unwrap().finished)
        };
        for turns in 0.. {
            if turn(&mut client, &mut scratch) {
                break;
            }
            assert!(turns < 10_000, "stalled, {to}");
            session.turn(&mut server, &mut scratch, Instant::ZERO).unwrap();
        }
        let (adus, is_bundled) = (server.1 + client.1, reply_bytes == 0);
        assert!(is_bundled == (adus < FILES / 2), "{adus} ADUs, {to}");
        let there = if putting { served.join(to) } else { dir.path().join(to) };
        assert_eq!(tree(&there), tree(&served.join("from")));
    }
}

/// Files without a name in `folder` that this process holds open.
fn open_files(folder: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = open.filter_map(|fd| fs::read_link(fd.path()).ok());
    links
        .filter(|to| to.starts_with(folder) && to.as_os_str().as_bytes().ends_with(b"(deleted)"))
        .count()
}

#[test]
fn what_is_begun_is_bounded_and_open_files_are_more_so() {
    let (_dir, served) = served();
    let share = share(&served, true);
    let mut raw = Raw::new(&share);
    let create = |raw: &mut Raw, count: u32| {
        for n in 1..=count {
            let request = file(format!("{n}").as_bytes(), 5, true);
            raw.send(&emit(n, request));
        }
        raw.xid = count;
        raw.replies().unwrap().len()
    };
    assert_eq!(create(&mut raw, 300), 256);
    drop(raw);
    // Each is committed as soon as it has come: none waits for the open files of others.
    let mut raw = Raw::new(&share);
    assert_eq!(create(&mut raw, 250), 250);
    for n in 1..=250 {
        raw.send(&data(n, 0, b"after", Some(hash(b"after"))));
        raw.send(&emit(250 + n, Body::Commit(Commit { of: n })));
    }
    let stored = raw.replies().unwrap().into_iter().filter(|reply| *reply == STORED[0]);
    assert_eq!(stored.count(), 250);
    assert_eq!(fs::read_dir(&served).unwrap().count(), 250);
    // None is committed.
    let mut raw = Raw::new(&share);
    assert_eq!(create(&mut raw, 200), 200);
    for n in 1..=200 {
        raw.send(&data(n, 0, b"after", Some(hash(b"after"))));
    }
    raw.replies().unwrap();
    assert_eq!(open_files(&served.canonicalize().unwrap()), 64);
    drop(raw);
    assert_eq!(open_files(&served.canonicalize().unwrap()), 0);
}
