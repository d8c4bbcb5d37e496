//! What a client must not be able to do that may write: lead others out of the folder, touch what is not its
//! own, lock the owner out, or use more than its share.

mod support;

use fusewire_base::Instant;
use fusewire_files::channel::{Channel, MAX_ADU_LEN, Received};
use fusewire_files::message::{
    self, Body, Cancel, Code, Commit, Entries, Failed, Get, Look, Piece, Put, Stored, Touch,
};
use fusewire_files::server::{self, Share};
use fusewire_files::{Kind, Meta};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use support::raw::*;
use support::*;

const STORED: [Body<'static>; 1] = [Body::Stored(Stored { complete: true })];

/// A served folder, empty, beside a secret.
fn served() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    fs::create_dir(&served).unwrap();
    fs::write(dir.path().join("secret"), b"secret").unwrap();
    (dir, served)
}

/// Where the unfinished file `name` is kept.
fn unfinished(name: &str, suffix: &str) -> String {
    format!(".fusewire-{}{suffix}", &blake3::hash(name.as_bytes()).to_hex()[..16])
}

fn file(path: &[u8], size: u64) -> Body<'static> {
    Body::Put(Put {
        path: octets(path),
        meta: meta(Kind::File, size),
        replace: true,
        piece: Piece { position: 0, length: size },
        ..Put::default()
    })
}

fn touch(path: &[u8], mode: u16) -> Body<'static> {
    Body::Touch(Touch { path: octets(path), meta: Meta { mode, ..meta(Kind::Folder, 0) } })
}

fn hash(block: u64, contents: &[u8]) -> [u8; 32] {
    use blake3::hazmat::HasherExt as _;
    blake3::Hasher::new().set_input_offset(block << 20).update(contents).finalize_non_root()
}

/// A block of contents, in messages that are short enough; the hash behind them.
fn block(raw: &mut Raw, xid: u32, index: u64, contents: &[u8]) {
    let last = contents.len().saturating_sub(1) / (64 << 10);
    for (n, piece) in contents.chunks(64 << 10).enumerate() {
        let hash = (n == last).then(|| hash(index, contents));
        raw.send(&data(xid, (index << 20) + ((n as u64) << 16), piece, hash));
    }
}

#[test]
fn links_through_links_do_not_lead_out() {
    let (dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    assert_eq!(raw.ask(create(b"p", Kind::Link, b".")), STORED);
    // By its name it lies two folders deep; where it would come to lie, it leads out.
    for path in [&b"p/x"[..], b"p/p/x", b"p/p/p/p/x", b"p/new/x"] {
        for kind in [Kind::Link, Kind::Folder, Kind::File] {
            let target: &[u8] = if kind == Kind::Link { b"../secret" } else { b"" };
            let shown = String::from_utf8_lossy(path).into_owned();
            let code = raw.code(create(path, kind, target));
            assert_eq!(code, Code::NotAFolder, "{shown} {kind:?}");
        }
    }
    assert_eq!(raw.code(touch(b"p/p", 0o700)), Code::NotAFolder);
    assert_no_link_leads_out(&served);
    assert_eq!(tree(&served).len(), 1, "{:?}", tree(&served));
    // Folders that are folders are made as they were, and links in them lead as far up as they lie deep.
    assert_eq!(raw.ask(create(b"a/b/l", Kind::Link, b"../../f")), STORED);
    assert_eq!(raw.ask(create(b"a/b/c/d", Kind::Folder, b"")), STORED);
    assert_eq!(raw.code(create(b"a/b/m", Kind::Link, b"../../../secret")), Code::BadPath);
    assert_eq!(fs::read_link(served.join("a/b/l")).unwrap(), Path::new("../../f"));
    assert!(served.join("a/b/c/d").is_dir());
    assert_no_link_leads_out(&served);
    drop(dir);
}

#[test]
fn links_do_not_lead_to_unfinished_files() {
    let (dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    for suffix in [".part", ".state"] {
        let name = unfinished("x", suffix);
        let targets = [name.clone(), format!("./{name}"), format!("d/{name}"), format!("{name}/x")];
        for target in targets {
            let code = raw.code(create(b"l", Kind::Link, target.as_bytes()));
            assert_eq!(code, Code::BadPath, "{target}");
        }
    }
    // Nor is one told of that is there.
    symlink(unfinished("x", ".part"), served.join("there")).unwrap();
    let list = message::List { path: octets(b""), recursive: true, credit: 9 };
    let replies = raw.ask(Body::List(list));
    let [Body::Entries(Entries { entries, .. }), _] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((entries.len(), &entries[0].target[..]), (1, &b""[..]));
    drop(dir);
}

#[test]
fn a_link_disturbs_no_upload_of_its_name() {
    let (_dir, served) = served();
    fs::write(served.join("f"), b"before").unwrap();
    let share = share(&served, true);
    let (mut one, mut other) = (Raw::new(&share), Raw::new(&share));
    one.ask(file(b"x", 4));
    let xid = one.xid;
    block(&mut one, xid, 0, b"1234");
    assert_eq!(one.replies().unwrap(), []);
    for _ in 0..3 {
        assert_eq!(other.ask(create(b"x", Kind::Link, b"f")), STORED);
    }
    assert_eq!(fs::read_link(served.join("x")).unwrap(), Path::new("f"));
    assert_eq!(one.ask(Body::Commit(Commit { of: xid })), STORED);
    assert!(fs::symlink_metadata(served.join("x")).unwrap().is_file());
    assert_eq!(fs::read(served.join("x")).unwrap(), b"1234");
    assert_eq!(fs::read(served.join("f")).unwrap(), b"before");
    // Where nothing may be replaced nothing is.
    let Body::Put(link) = create(b"x", Kind::Link, b"f") else { unreachable!() };
    let code = other.code(Body::Put(Put { replace: false, ..link }));
    assert_eq!(code, Code::Exists);
    assert_no_leftovers(&served);
}

/// Somebody removes the partial file, and somebody else begins one of the same name.
#[test]
fn what_gets_the_name_is_what_was_written() {
    for (len, committed) in [(1 << 19, true), (1 << 19, false), (4 << 20, true), (4 << 20, false)] {
        let (_dir, served) = served();
        fs::write(served.join("x"), b"before").unwrap();
        let part = served.join(unfinished("x", ".part"));
        let mut raw = Raw::new(&share(&served, true));
        raw.ask(file(b"x", len));
        let xid = raw.xid;
        for (index, contents) in (0..).zip(bytes(len as usize, 1).chunks(1 << 20)) {
            block(&mut raw, xid, index, contents);
        }
        assert_eq!(raw.replies().unwrap(), []);
        fs::remove_file(&part).unwrap();
        fs::write(&part, b"somebody else's").unwrap();
        if committed {
            assert_eq!(raw.code(Body::Commit(Commit { of: xid })), Code::Changed);
        }
        drop(raw);
        assert_eq!(fs::read(served.join("x")).unwrap(), b"before");
        assert_eq!(fs::read(&part).unwrap(), b"somebody else's", "{len} {committed}");
    }
}

#[test]
fn a_record_is_nobody_elses_to_read_or_to_lead_away() {
    let (dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    raw.ask(file(b"x", 4 << 20));
    for suffix in [".part", ".state"] {
        let mode = fs::metadata(served.join(unfinished("x", suffix))).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
    // The unfinished names of another file are links that lead out, or pipes.
    for suffix in [".part", ".state"] {
        let path = served.join(unfinished("y", suffix));
        for target in ["../secret", "../made"] {
            symlink(target, &path).unwrap();
            raw.code(file(b"y", 4 << 20));
            assert_eq!(fs::read(dir.path().join("secret")).unwrap(), b"secret", "{suffix}");
            assert!(!dir.path().join("made").exists(), "{suffix}");
            let _ = fs::remove_file(&path);
        }
        // Inside the folder the kernel lets links lead, so the record would be written into `f`.
        fs::write(served.join("f"), b"a file").unwrap();
        symlink("f", &path).unwrap();
        raw.code(file(b"y", 4 << 20));
        assert_eq!(fs::read(served.join("f")).unwrap(), b"a file", "{suffix}");
        let _ = fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(raw.code(file(b"y", 4 << 20)), Code::NotAFile, "{suffix}");
        let _ = fs::remove_file(&path);
    }
}

#[test]
fn nobody_locks_the_owner_out() {
    let (_dir, served) = served();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&served, fs::Permissions::from_mode(0o751)).unwrap();
    let mut raw = Raw::new(&share(&served, true));
    for of in [0, 0o777] {
        assert_eq!(raw.code(touch(b"", of)), Code::BadRequest);
        assert_eq!(mode(&served), 0o751);
    }
    assert_eq!(raw.ask(create(b"d", Kind::Folder, b"")), STORED);
    for (of, expected) in [(0, 0o700), (0o055, 0o755), (0o777, 0o777)] {
        assert_eq!(raw.ask(touch(b"d", of)), STORED);
        assert_eq!(mode(&served.join("d")), expected, "{of:o}");
    }
}

/// A bound of bytes a second holds however often a client changes what it wants of it.
#[test]
fn a_changed_rate_is_no_new_beginning() {
    const RATE: u64 = 100_000;
    let (_dir, served) = served();
    let contents = bytes(1 << 20, 5);
    fs::write(served.join("f"), &contents).unwrap();
    let settings = server::Settings { bytes_per_s: RATE, ..server::Settings::default() };
    let share = Share::open(&served, settings).unwrap();
    let mut raw = Raw::new(&share);
    let [Body::Entry(entry)] = &raw.ask(Body::Look(Look { path: octets(b"f") }))[..] else {
        panic!("no entry")
    };
    let (version, start) = (entry.meta.version, Instant::from_ms(1_000));
    let (mut now, end) = (start, Instant::from_ms(6_000));
    let (mut received, mut adu, mut wanted) = (0, Vec::new(), 0);
    while now < end {
        wanted = if wanted == RATE { RATE - 1 } else { RATE };
        raw.xid += 1;
        let Body::Get(read) = read(b"f", version, 1 << 20) else { unreachable!() };
        let request = Body::Get(Get { bytes_per_s: wanted, ..read });
        let message = emit(raw.xid, request);
        raw.send(&message);
        // As soon as something comes it is broken off, and asked for at another rate.
        let before = received;
        while now < end && received == before {
            let turn = raw.session.turn(&mut raw.server, &mut raw.scratch, now).unwrap();
            while let Received::Adu { len } = raw.channel.recv(&mut adu).unwrap() {
                received += len as u64;
            }
            now = match turn.wait_until {
                Some(at) if !turn.worked => at,
                _ => now + std::time::Duration::from_micros(10),
            };
        }
        let of = raw.xid;
        raw.ask_at(now, Body::Cancel(Cancel { of }));
    }
    let most = RATE * 5 + 2 * MAX_ADU_LEN as u64;
    assert!(received <= most, "{received} bytes in 5 s, {most} at most");
    assert!(received > RATE * 4, "{received} bytes only");
}

/// What replies say was refused because it would take too much memory.
fn refused_for_memory(replies: &[Body<'static>]) -> usize {
    let for_memory = |reply: &&Body<'static>| match reply {
        Body::Failed(Failed { code: Code::Busy, detail }) => {
            assert!(detail.windows(15).any(|w| w == b"bytes of memory"), "{reply:?}");
            true
        }
        other => panic!("{other:?}"),
    };
    replies.iter().filter(for_memory).count()
}

/// Two bytes of zeros in the middle of block `index`: enough to begin it.
fn speck(xid: u32, index: u64) -> Vec<u8> {
    hole(xid, 0, (index << 20) + 9, 2)
}

#[test]
fn what_is_begun_in_one_session_takes_bounded_memory() {
    const BLOCK_COST: usize = 2_000;
    let (_dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    let (mut begun, mut refused) = (0, 0);
    let uploads: Vec<u32> = (0..63)
        .map(|n| {
            raw.ask(file(format!("f{n}").as_bytes(), 250 << 20));
            raw.xid
        })
        .collect();
    for &xid in &uploads {
        for index in 0..250 {
            raw.send(&speck(xid, index));
        }
        match refused_for_memory(&raw.replies().unwrap()) {
            0 => begun += 250,
            n => refused += n,
        }
    }
    assert!(begun * BLOCK_COST <= 8 << 20, "{begun} blocks begun");
    assert!(begun * BLOCK_COST >= 6 << 20, "{begun} blocks begun only");
    assert!(refused > 30, "{refused} uploads refused");
    // What is given up makes room again, and so does the end of the session.
    for &xid in &uploads {
        raw.ask(Body::Cancel(Cancel { of: xid }));
    }
    raw.ask(file(b"small", 4));
    let xid = raw.xid;
    block(&mut raw, xid, 0, b"1234");
    assert_eq!(raw.ask(Body::Commit(Commit { of: xid })), STORED);
}

/// Every second block of a file that is all hole: nothing of it takes room on the disk.
#[test]
fn a_file_of_holes_takes_bounded_memory() {
    let (_dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    const BLOCKS: u64 = 1 << 20;
    assert!(matches!(raw.ask(file(b"x", BLOCKS << 20))[..], [Body::Missing(_)]));
    let xid = raw.xid;
    let mut sent = 0;
    let refused = (0..BLOCKS / 2).step_by(1000).any(|start| {
        for index in start..start + 1000 {
            sent += 1;
            raw.send(&hole(xid, 0, index << 21, 1 << 20));
        }
        refused_for_memory(&raw.replies().unwrap()) == 1
    });
    assert!(refused && sent <= 200_000, "{sent} holes taken");
}

#[test]
fn who_has_begun_something_is_not_at_rest() {
    let (_dir, served) = served();
    let mut raw = Raw::new(&share(&served, true));
    assert!(raw.session.is_at_rest());
    raw.ask(file(b"x", 4));
    let xid = raw.xid;
    assert!(raw.session.is_idle() && !raw.session.is_at_rest());
    block(&mut raw, xid, 0, b"1234");
    assert_eq!(raw.ask(Body::Commit(Commit { of: xid })), STORED);
    assert!(raw.session.is_at_rest());
    fs::create_dir(served.join("d")).unwrap();
    let list = message::List { path: octets(b""), recursive: true, credit: 1 };
    assert_eq!(raw.ask(Body::List(list)).len(), 1);
    assert!(!raw.session.is_at_rest());
    let of = raw.xid;
    raw.ask(Body::Cancel(Cancel { of }));
    assert!(raw.session.is_at_rest());
}

#[test]
fn all_sessions_together_take_bounded_memory_and_each_can_work() {
    let (_dir, served) = served();
    let settings = server::Settings {
        writable: true,
        memory_bytes_max: 1 << 20,
        ..server::Settings::default()
    };
    let share = Share::open(&served, settings).unwrap();
    let mut sessions: Vec<Raw> = (0..20).map(|_| Raw::new(&share)).collect();
    let (mut begun, mut refused) = (0, 0);
    for (n, raw) in sessions.iter_mut().enumerate() {
        raw.ask(file(format!("big{n}").as_bytes(), 200 << 20));
        let xid = raw.xid;
        for index in 0..200 {
            raw.send(&speck(xid, index));
        }
        match refused_for_memory(&raw.replies().unwrap()) {
            0 => begun += 1,
            _ => refused += 1,
        }
    }
    assert!((2..=4).contains(&begun) && refused == 20 - begun, "{begun} begun, {refused} refused");
    // A few files at once are for everybody, whatever the others do.
    for (n, raw) in sessions.iter_mut().enumerate() {
        let xids: Vec<u32> = (0..8)
            .map(|of| {
                raw.ask(file(format!("small{n}-{of}").as_bytes(), 4));
                let xid = raw.xid;
                raw.send(&data(xid, 0, b"12", None));
                xid
            })
            .collect();
        assert_eq!(raw.replies().unwrap(), []);
        for xid in xids {
            raw.send(&data(xid, 2, b"34", Some(hash(0, b"1234"))));
            assert_eq!(raw.ask(Body::Commit(Commit { of: xid })), STORED);
        }
    }
    drop(sessions);
    // All of it was given back.
    let mut raw = Raw::new(&share);
    raw.ask(file(b"last", 200 << 20));
    let xid = raw.xid;
    for index in 0..200 {
        raw.send(&speck(xid, index));
    }
    assert_eq!(raw.replies().unwrap(), []);
}
