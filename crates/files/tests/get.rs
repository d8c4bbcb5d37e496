//! Getting files and folders: what arrives is what was sent, on every kind of channel.

mod support;

use fusewire_files::client::Filter;
use fusewire_files::client::get::{Existing, Options};
use fusewire_files::memory::Settings;
use fusewire_files::{Element, Error};
use std::fs;
use std::os::unix::fs::MetadataExt;
use support::*;

#[test]
fn a_tree_arrives_whole_on_every_kind_of_channel() {
    let from = tempfile::tempdir().unwrap();
    make_tree(from.path());
    let expected = tree(from.path());
    for (max_adu, capacity, reorder, connections) in [
        (1408, 64, 0, 1),
        (1408, 3, 2, 1),
        (65_000, 8, 0, 1),
        (1408, 200, 150, 3),
        (300, 1, 0, 1),
        (9000, 40, 39, 4),
    ] {
        for element in [Element::Octets, Element::Int16, Element::Int32, Element::Int64] {
            let to = tempfile::tempdir().unwrap();
            let settings = Settings { max_adu, capacity, reorder, seed: max_adu as u64 };
            let options = Options { connections, ..Options::default() };
            let log =
                get_with(from.path(), "/", &to.path().join("copy"), options, settings, element)
                    .unwrap();
            assert_eq!(log.failed, []);
            assert_eq!(tree(&to.path().join("copy")), expected, "{settings:?} {element:?}");
            for (path, size, hash) in &log.done {
                if !path.contains('\\') {
                    let contents = fs::read(from.path().join(path)).unwrap();
                    assert_eq!(contents.len() as u64, *size);
                    assert_eq!(*hash, Some(blake3::hash(&contents).into()), "{path}");
                }
            }
            assert_no_leftovers(to.path());
        }
    }
}

#[test]
fn one_file_goes_where_cp_would_put_it() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("d/x"), b"contents").unwrap();
    get(from.path(), "/d/x", to.path()).unwrap();
    get(from.path(), "/d/x", &to.path().join("y")).unwrap();
    assert_eq!(fs::read(to.path().join("x")).unwrap(), b"contents");
    assert_eq!(fs::read(to.path().join("y")).unwrap(), b"contents");
    let log = get(from.path(), "/d/none", &to.path().join("z")).unwrap();
    assert_eq!(log.failed, [(String::new(), "no such file or folder".to_owned())]);
    assert!(!to.path().join("z").exists());
}

#[test]
fn several_connections_share_a_big_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes((200 << 20) + 12_345, 3);
    fs::write(from.path().join("big"), &contents).unwrap();
    let options = Options { connections: 3, ..Options::default() };
    let settings = Settings { max_adu: 65_000, capacity: 8, ..Settings::default() };
    let log = get_with(from.path(), "big", to.path(), options, settings, Element::Octets).unwrap();
    assert_eq!(
        log.done,
        [("big".to_owned(), contents.len() as u64, Some(blake3::hash(&contents).into()))]
    );
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    assert_no_leftovers(to.path());
}

#[test]
fn holes_are_kept() {
    use std::os::unix::fs::FileExt;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = fs::File::create(from.path().join("sparse")).unwrap();
    const MIB: u64 = 1 << 20;
    for at in [0, 3 * MIB + 8192, 7 * MIB, 8 * MIB - 4096, 20 * MIB + 4096] {
        file.write_all_at(&bytes(4096, at + 1), at).unwrap();
    }
    file.set_len(40 * MIB + 100).unwrap();
    fs::File::create(from.path().join("all-hole")).unwrap().set_len(5 * MIB + 3).unwrap();
    for (reorder, max_adu) in [(0, 1408), (60, 1408), (5, 65_000)] {
        let settings = Settings { reorder, max_adu, ..Settings::default() };
        let copy = to.path().join(format!("copy{reorder}-{max_adu}"));
        let log = get_with(from.path(), "", &copy, Options::default(), settings, Element::Octets)
            .unwrap();
        assert_eq!(log.failed, []);
        assert_eq!(tree(&copy), tree(from.path()));
        for name in ["sparse", "all-hole"] {
            let (a, b) = (
                fs::metadata(from.path().join(name)).unwrap(),
                fs::metadata(copy.join(name)).unwrap(),
            );
            assert!(
                b.blocks() <= a.blocks() + 64,
                "{name}: {} blocks of {}",
                b.blocks(),
                a.blocks()
            );
        }
    }
}

#[test]
fn copies_are_sent_and_checked_and_replies_bounded() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    for (copies, reply_bytes, reorder) in [(3, 0, 0), (2, 1000, 40), (1, 1, 0), (1, u32::MAX, 3)] {
        let copy = to.path().join(format!("{copies}-{reply_bytes}"));
        let options = Options { copies, reply_bytes, ..Options::default() };
        let settings = Settings { reorder, ..Settings::default() };
        let log = get_with(from.path(), "", &copy, options, settings, Element::Octets).unwrap();
        assert_eq!(log.failed, []);
        assert_eq!(tree(&copy), tree(from.path()));
    }
}

#[test]
fn what_is_forgotten_was_checked() {
    use std::os::unix::fs::FileExt;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    let sparse = fs::File::create(from.path().join("sparse")).unwrap();
    sparse.write_all_at(&bytes(70_000, 1), (3 << 20) + 8192).unwrap();
    sparse.set_len(5 << 20).unwrap();
    for (copies, reorder, max_adu) in [(1, 0, 65_000), (1, 60, 1408), (2, 150, 9000)] {
        let options = Options { copies, forget: true, ..Options::default() };
        let settings = Settings { reorder, max_adu, capacity: 200, ..Settings::default() };
        let log =
            get_with(from.path(), "", &to.path().join("copy"), options, settings, Element::Octets)
                .unwrap();
        assert_eq!(log.failed, []);
        let files = tree(from.path());
        let files = files.keys().filter(|path| {
            fs::symlink_metadata(from.path().join(path)).unwrap().file_type().is_file()
        });
        assert_eq!(log.done.len(), files.count());
        for (path, _, hash) in log.done.iter().filter(|(path, ..)| !path.contains('\\')) {
            let contents = fs::read(from.path().join(path)).unwrap();
            assert!(*hash == Some(blake3::hash(&contents).into()) || path == "sparse", "{path}");
        }
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }
}

#[test]
fn filters_and_what_is_there_already() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    let copy = to.path().join("copy");
    let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let filter = Filter::new(&strings(&["f1*"]), &strings(&["sub/deeper", "f16"])).unwrap();
    let options = Options { filter, ..Options::default() };
    get_with(from.path(), "", &copy, options, Settings::default(), Element::Octets).unwrap();
    let taken = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        !path.starts_with("sub/deeper")
            && (path == "sub" || name.starts_with("f1") && name != "f16")
    };
    let names = |dir| tree(dir).into_keys().map(|p| p.display().to_string()).collect::<Vec<_>>();
    let expected: Vec<String> = names(from.path()).into_iter().filter(|path| taken(path)).collect();
    assert_eq!(names(&copy), expected);
    let keep = || Options { existing: Existing::KeepSame, ..Options::default() };
    let two = to.path().join("two");
    let settings = Settings::default();
    let log = get_with(from.path(), "", &two, keep(), settings, Element::Octets).unwrap();
    assert_eq!((log.skipped.len(), log.failed.len()), (0, 0));
    fs::write(from.path().join("f1"), b"33").unwrap();
    // An empty name in a folder that is there is that folder itself.
    let before = log.done.len();
    let log = get_with(from.path(), "", &two, keep(), settings, Element::Octets).unwrap();
    assert_eq!(log.done.iter().map(|(path, ..)| path.as_str()).collect::<Vec<_>>(), ["f1"]);
    assert_eq!(log.skipped.len(), before - 1);
    let options = Options { existing: Existing::Refuse, ..Options::default() };
    let log = get_with(from.path(), "f17", &two, options, settings, Element::Octets).unwrap();
    assert_eq!(log.failed, []);
    assert_eq!(log.skipped, [("f17".to_owned(), "already there".to_owned())]);
}

#[test]
fn the_rate_holds() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("x"), bytes(3_000_000, 1)).unwrap();
    for connections in [1u32, 2] {
        let options = Options { bytes_per_s: 1_000_000, connections, ..Options::default() };
        let (plan, _) = get_plan("x", to.path(), options);
        let start = fusewire_base::Instant::from_ms(1);
        let mut run = Run::new(
            &share(from.path(), false),
            connections as usize,
            Settings::default(),
            Element::Octets,
            || plan.worker(Element::Octets),
        );
        run.finish().unwrap();
        let s = run.now.saturating_since(start).as_secs_f64();
        // One file of less than a range goes over one connection, which may then take all of the rate.
        assert!((3.0 * 0.97..3.0 * 1.1).contains(&s), "{s} s over {connections}");
    }
}

#[test]
fn a_listing_is_streamed() {
    let from = tempfile::tempdir().unwrap();
    for i in 0..5000 {
        fs::write(from.path().join(format!("{i:05}")), b"").unwrap();
    }
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("d/e"), b"").unwrap();
    for reorder in [0, 30] {
        let settings = Settings { reorder, ..Settings::default() };
        let mut names = ls(from.path(), "/", true, settings).unwrap();
        names.sort();
        assert_eq!(names.len(), 5002);
        assert_eq!(
            (names[0].as_str(), names[5000].as_str(), names[5001].as_str()),
            ("00000", "d", "d/e")
        );
        assert_eq!(ls(from.path(), "/", false, settings).unwrap().len(), 5001);
        assert_eq!(ls(from.path(), "/d", false, settings).unwrap(), ["e"]);
        assert_eq!(ls(from.path(), "/00007", false, settings).unwrap(), [""]);
    }
    let error = ls(from.path(), "/none", false, Settings::default()).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

/// Also where something has failed before, which is what is told of first.
#[test]
fn who_breaks_off_a_listing_is_not_done() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for i in 0..3000 {
        fs::write(from.path().join(format!("{i:05}")), b"").unwrap();
    }
    // It can be listed, and no file takes its place.
    fs::create_dir_all(to.path().join("copy/00000")).unwrap();
    let (plan, log) = get_plan("", &to.path().join("copy"), Options::default());
    let mut run = Run::new(&share(from.path(), false), 1, Settings::default(), OCTETS, || {
        plan.worker(OCTETS)
    });
    while log.lock().unwrap().failed.is_empty() {
        assert!(!run.steps(1), "nothing failed");
    }
    assert!(!plan.totals().all_found && !plan.is_done());
    drop(run);
    let mut rest = Run::new(&share(from.path(), false), 1, Settings::default(), OCTETS, || {
        plan.worker(OCTETS)
    });
    rest.finish().unwrap();
    assert!(plan.is_finished() && !plan.is_done());
    let error = plan.take_error().unwrap();
    assert!(!matches!(error, Error::Ended), "{error}");
}

#[test]
fn what_lies_too_deep_is_said_and_the_rest_is_got() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut deep = from.path().to_path_buf();
    for _ in 0..135 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
        fs::write(deep.join("f"), b"x").unwrap();
    }
    for (path, got) in [("", 127), ("d", 127), ("d/d/d", 125)] {
        let log = get(from.path(), path, &to.path().join("copy")).unwrap();
        assert_eq!(log.done.len(), got, "{path}: {:?}", log.failed);
        assert!(!log.failed.is_empty());
        assert!(
            log.failed.iter().all(|(_, why)| why.ends_with("deeper than 128 folders")),
            "{path}: {:?}",
            log.failed
        );
        fs::remove_dir_all(to.path().join("copy")).unwrap();
    }
}
