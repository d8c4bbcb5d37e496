//! Where what is got ends up, and what is left alone there; each file is counted once.

mod support;

use fusewire_files::Element;
use fusewire_files::client::Totals;
use fusewire_files::client::get::{Destination, Existing, Options, Outlet, Plan};
use fusewire_files::memory::Settings;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};
use support::*;

fn again(from: &Path, path: &str, to: &Path) -> Log {
    let options = Options { existing: Existing::KeepSame, ..Options::default() };
    get_with(from, path, to, options, Settings::default(), Element::Octets).unwrap()
}

/// As the program takes it: with a slash at its end it is a folder to put something into.
fn folder(path: &Path) -> std::path::PathBuf {
    path.join("")
}

#[test]
fn a_folder_goes_to_the_same_place_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(from.path().join("sub/deep")).unwrap();
    fs::write(from.path().join("sub/deep/x"), b"contents").unwrap();
    fs::write(from.path().join("sub/y"), b"more").unwrap();
    let expected = tree(&from.path().join("sub"));
    let name = to.path().join("new");
    for n in 0..2 {
        let log = again(from.path(), "sub", &name);
        assert_eq!((log.failed.len(), log.skipped.len()), (0, 2 * n), "{log:?}");
        assert_eq!(tree(&name), expected, "run {n}");
    }
    // The name of a folder to put it into, which is made where it is missing.
    for n in 0..2 {
        let log = again(from.path(), "sub", &folder(&to.path().join("into")));
        assert_eq!((log.failed.len(), log.skipped.len()), (0, 2 * n), "{log:?}");
        assert_eq!(tree(&to.path().join("into/sub")), expected, "run {n}");
        assert_eq!(fs::read_dir(to.path().join("into")).unwrap().count(), 1);
    }
    // The folder that one is in has no name to give.
    again(from.path(), "sub", &to.path().join("into/."));
    again(from.path(), "sub", &to.path().join("into/sub/.."));
    assert_eq!(fs::read_dir(to.path().join("into")).unwrap().count(), 1);
    // A link to a folder is that folder.
    fs::create_dir(to.path().join("there")).unwrap();
    symlink("there", to.path().join("link")).unwrap();
    for _ in 0..2 {
        again(from.path(), "sub", &to.path().join("link"));
        assert!(to.path().join("there/deep/x").exists() && !to.path().join("there/sub").exists());
    }
    assert!(fs::symlink_metadata(to.path().join("link")).unwrap().is_symlink());
}

#[test]
fn a_file_goes_into_a_folder_that_is_there_or_asked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("x"), b"contents").unwrap();
    fs::create_dir(to.path().join("there")).unwrap();
    for _ in 0..2 {
        for output in
            [to.path().join("name"), to.path().join("there"), folder(&to.path().join("made"))]
        {
            let log = get(from.path(), "x", &output).unwrap();
            assert_eq!(log.failed, []);
        }
        for place in ["name", "there/x", "made/x"] {
            assert_eq!(fs::read(to.path().join(place)).unwrap(), b"contents", "{place}");
        }
        assert_eq!(tree(to.path()).len(), 5);
    }
}

#[test]
fn missing_parents_are_made_when_something_is_stored() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("sub")).unwrap();
    fs::write(from.path().join("sub/x"), b"contents").unwrap();
    let log = get(from.path(), "nowhere", &to.path().join("a/b/c")).unwrap();
    assert_eq!((log.failed.len(), tree(to.path()).len()), (1, 0), "{log:?}");
    for (remote, output, made) in [
        ("sub", to.path().join("a/b/c"), "a/b/c/x"),
        ("sub", folder(&to.path().join("d/e")), "d/e/sub/x"),
        ("sub/x", to.path().join("f/g"), "f/g"),
        ("sub/x", folder(&to.path().join("h/i")), "h/i/x"),
    ] {
        let log = get(from.path(), remote, &output).unwrap();
        assert_eq!(log.failed, [], "{output:?}");
        assert_eq!(fs::read(to.path().join(made)).unwrap(), b"contents", "{made}");
    }
}

#[test]
fn a_folder_does_not_replace_a_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(from.path().join("sub/y")).unwrap();
    fs::write(from.path().join("sub/y/x"), b"contents").unwrap();
    fs::write(to.path().join("file"), b"mine").unwrap();
    let log = get(from.path(), "sub", &to.path().join("file")).unwrap();
    assert_eq!(log.failed, [(String::new(), "file: not a folder".to_owned())]);
    fs::create_dir(to.path().join("new")).unwrap();
    fs::write(to.path().join("new/y"), b"mine").unwrap();
    let log = get(from.path(), "sub", &to.path().join("new")).unwrap();
    assert_eq!(log.failed, [("y".to_owned(), "y: not a folder".to_owned())]);
    for path in ["file", "new/y"] {
        assert_eq!(fs::read(to.path().join(path)).unwrap(), b"mine");
    }
}

#[test]
fn a_link_is_not_replaced_unless_asked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("x"), b"new").unwrap();
    fs::write(to.path().join("mine"), b"old").unwrap();
    for (link, target) in [("link", "mine"), ("dangling", "nowhere")] {
        let link = to.path().join(link);
        symlink(target, &link).unwrap();
        let error = Destination::from_path(&link, &remote("x")).unwrap_err().to_string();
        assert!(error.contains("is a link to") && error.contains(target), "{error}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
    }
    let link = to.path().join("link");
    let destination = Destination::replacing_links(&link, &remote("x")).unwrap();
    let plan = Plan::new(
        remote("x"),
        destination,
        Options::default(),
        observer(&std::sync::Arc::default()),
    );
    let worker = || plan.worker(Element::Octets);
    let mut run =
        Run::new(&share(from.path(), false), 1, Settings::default(), Element::Octets, worker);
    run.finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    assert_eq!(fs::read(link).unwrap(), b"new");
    assert_eq!(fs::read(to.path().join("mine")).unwrap(), b"old");
}

/// Gets `path` to a destination that has a thread of its own, with segments out of order.
fn get_through(from: &Path, path: &str, to: Destination, copies: u32) -> (Log, Totals) {
    let log = std::sync::Arc::default();
    let options = Options { copies, ..Options::default() };
    let plan = Plan::new(remote(path), to, options, observer(&log));
    let settings = Settings { reorder: 60, capacity: 200, ..Settings::default() };
    let worker = || plan.worker(Element::Octets);
    let mut run = Run::new(&share(from, false), 1, settings, Element::Octets, worker);
    // What its thread takes is not counted in turns.
    while !run.step().unwrap() {
        std::thread::yield_now();
    }
    let log = log.lock().unwrap().clone();
    (log, plan.totals())
}

fn pipe() -> (io::PipeReader, Destination) {
    let (theirs, ours) = io::pipe().unwrap();
    let outlet = Outlet::new("a pipe", || Ok(Box::new(ours) as Box<dyn Write>));
    (theirs, Destination::to_outlet(outlet).unwrap())
}

#[test]
fn what_is_no_file_is_written_to() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes((3 << 20) + 77, 1);
    fs::write(from.path().join("x"), &contents).unwrap();
    let fifo = to.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    symlink("fifo", to.path().join("link")).unwrap();
    for name in ["fifo", "link"] {
        let reader = {
            let fifo = fifo.clone();
            std::thread::spawn(move || fs::read(fifo).unwrap())
        };
        let destination = Destination::from_path(&to.path().join(name), &remote("x")).unwrap();
        let (log, _) = get_through(from.path(), "x", destination, 1);
        assert_eq!(log.failed, []);
        assert_eq!(
            log.done,
            [("x".to_owned(), contents.len() as u64, Some(blake3::hash(&contents).into()))]
        );
        assert!(reader.join().unwrap() == contents, "{name}");
    }
    assert!(fs::symlink_metadata(to.path().join("link")).unwrap().is_symlink());
    // A folder is no stream of bytes.
    fs::create_dir(from.path().join("d")).unwrap();
    let log = get(from.path(), "d", &fifo).unwrap();
    assert_eq!(log.failed.len(), 1);
    assert_eq!(tree(to.path()).len(), 2);
}

#[test]
fn an_outlet_takes_a_file_in_order_holes_as_zeros() {
    use std::os::unix::fs::FileExt;
    let from = tempfile::tempdir().unwrap();
    const MIB: u64 = 1 << 20;
    let file = fs::File::create(from.path().join("sparse")).unwrap();
    for at in [3 * MIB + 8192, 7 * MIB, 70 * MIB - 4096] {
        file.write_all_at(&bytes(4096, at + 1), at).unwrap();
    }
    file.set_len(90 * MIB + 100).unwrap();
    fs::write(from.path().join("empty"), b"").unwrap();
    for (name, copies) in [("sparse", 1), ("sparse", 2), ("empty", 1)] {
        let (mut theirs, destination) = pipe();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            all
        });
        let (log, totals) = get_through(from.path(), name, destination, copies);
        assert_eq!((log.failed.len(), log.done.len()), (0, 1), "{log:?}");
        assert!(reader.join().unwrap() == fs::read(from.path().join(name)).unwrap());
        if name == "sparse" {
            assert!(totals.bytes_holes > u64::from(copies) * 80 * MIB, "{totals:?}");
            assert!(totals.bytes_holes < totals.bytes_done, "{totals:?}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_an_error_of_the_file() {
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("x"), bytes(40 << 20, 1)).unwrap();
    let (mut theirs, destination) = pipe();
    let reader = std::thread::spawn(move || theirs.read_exact(&mut [0; 1000]).unwrap());
    let (log, _) = get_through(from.path(), "x", destination, 1);
    reader.join().unwrap();
    assert_eq!((log.failed.len(), log.done.len()), (1, 0), "{log:?}");
    assert!(log.failed[0].1.starts_with("cannot write to a pipe: Broken pipe"), "{log:?}");
}

#[test]
fn a_slow_reader_of_an_outlet_holds_the_server_up() {
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("x"), bytes(60 << 20, 1)).unwrap();
    let (mut theirs, destination) = pipe();
    let log = std::sync::Arc::default();
    let plan = Plan::new(remote("x"), destination, Options::default(), observer(&log));
    let worker = || plan.worker(Element::Octets);
    let mut run =
        Run::new(&share(from.path(), false), 1, Settings::default(), Element::Octets, worker);
    let mut idle = 0;
    while idle < 100 {
        let before = plan.totals().bytes_done;
        run.step().unwrap();
        idle = if plan.totals().bytes_done == before { idle + 1 } else { 0 };
    }
    let held = plan.totals().bytes_done;
    assert!((8 << 20..24 << 20).contains(&held), "{held} bytes are held in memory");
    let reader = std::thread::spawn(move || io::copy(&mut theirs, &mut io::sink()).unwrap());
    while !run.step().unwrap() {
        std::thread::yield_now();
    }
    assert_eq!((reader.join().unwrap(), plan.totals().files_done), (60 << 20, 1));
}

#[test]
fn what_is_newer_here_is_left_alone_by_an_update() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let now = SystemTime::now();
    let write = |path: std::path::PathBuf, contents: &[u8], age: u64| {
        fs::write(&path, contents).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(now - Duration::from_secs(age)).unwrap();
    };
    for (name, age_there, age_here) in [("newer", 100, 50), ("older", 50, 100), ("same", 50, 50)] {
        write(from.path().join(name), b"theirs", age_there);
        write(to.path().join(name), b"my own", age_here);
    }
    // The same time and another size: not the same file.
    write(from.path().join("longer"), b"theirs, longer", 50);
    write(to.path().join("longer"), b"my own", 50);
    let log = again(from.path(), "", to.path());
    assert_eq!(log.failed, []);
    let read = |name: &str| fs::read_to_string(to.path().join(name)).unwrap();
    assert_eq!(
        ["newer", "older", "same", "longer"].map(read),
        ["my own", "theirs", "my own", "theirs, longer"]
    );
    let mut skipped: Vec<_> = log.skipped.iter().map(|(path, _)| path.as_str()).collect();
    skipped.sort_unstable();
    assert_eq!(skipped, ["newer", "same"]);
}

#[test]
fn a_file_with_holes_is_counted_once() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Several ranges, none with a byte in it, so that all are there before the first is said to be done.
    fs::File::create(from.path().join("sparse")).unwrap().set_len(300 << 20).unwrap();
    let log = get(from.path(), "sparse", to.path()).unwrap();
    assert_eq!(log.done, [("sparse".to_owned(), 300 << 20, None)]);
}
