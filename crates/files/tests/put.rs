//! Putting files and folders.

mod support;

use fusewire_files::Element;
use fusewire_files::client::put::{Options, Plan, Source, Upload};
use fusewire_files::memory::Settings;
use std::fs;
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
        let to = tempfile::tempdir().unwrap();
        let settings = Settings { max_adu, capacity, reorder, seed: max_adu as u64 };
        let options = Options { connections, ..Options::default() };
        let log = put_with(from.path(), "a/copy", to.path(), options, settings).unwrap();
        assert_eq!(log.failed, []);
        assert_eq!(tree(&to.path().join("a/copy")), expected, "{settings:?}");
        assert_no_leftovers(to.path());
    }
}

#[test]
fn several_connections_share_a_big_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes((200 << 20) + 12_345, 3);
    let path = from.path().join("big");
    fs::write(&path, &contents).unwrap();
    for connections in [1, 3] {
        let options = Options { connections, ..Options::default() };
        let settings = Settings { max_adu: 65_000, capacity: 8, ..Settings::default() };
        let name = format!("to{connections}");
        let log = put_with(&path, &name, to.path(), options, settings).unwrap();
        assert_eq!(log.failed, []);
        assert_eq!(log.done.len(), 1);
        assert!(fs::read(to.path().join(name)).unwrap() == contents);
        assert_no_leftovers(to.path());
    }
}

#[test]
fn a_server_that_is_not_writable_refuses() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    let log = std::sync::Arc::default();
    let plan = Plan::new(
        Source::from_path(from.path()).unwrap(),
        remote("x"),
        Options::default(),
        observer(&log),
    );
    let mut run =
        Run::new(&share(to.path(), false), 1, Settings::default(), Element::Octets, || {
            plan.worker(Element::Octets)
        });
    run.finish().unwrap();
    // It ends the transfer, because everything else would fail for the same reason.
    let failed = log.lock().unwrap().failed.clone();
    assert_eq!((failed.len(), failed[0].0.as_str()), (1, ""));
    assert!(failed[0].1.starts_with("the server does not allow writing"), "{failed:?}");
    assert_eq!(plan.totals().files_done, 0);
    assert_eq!(tree(to.path()).len(), 0);
}

#[test]
fn nothing_is_replaced_unless_asked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("x"), b"new").unwrap();
    fs::write(to.path().join("x"), b"old").unwrap();
    fs::create_dir(to.path().join("d")).unwrap();
    let path = from.path().join("x");
    let keep = Options { replace: false, ..Options::default() };
    let log = put_with(&path, "x", to.path(), keep, Settings::default()).unwrap();
    assert_eq!(log.failed, []);
    assert_eq!(log.skipped, [("x".to_owned(), "already there".to_owned())]);
    assert_eq!(fs::read(to.path().join("x")).unwrap(), b"old");
    let log = put_with(&path, "d", to.path(), Options::default(), Settings::default()).unwrap();
    assert_eq!(log.failed, [("x".to_owned(), "not a regular file".to_owned())]);
    let log = put_with(&path, "x", to.path(), Options::default(), Settings::default()).unwrap();
    assert_eq!(log.failed, []);
    assert_eq!(fs::read(to.path().join("x")).unwrap(), b"new");
    assert_no_leftovers(to.path());
}

#[test]
fn the_rate_holds() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("x");
    fs::write(&path, bytes(3_000_000, 1)).unwrap();
    let options = Options { bytes_per_s: 1_000_000, ..Options::default() };
    let plan = Plan::new(
        Source::from_path(&path).unwrap(),
        remote("x"),
        options,
        observer(&std::sync::Arc::default()),
    );
    let mut run =
        Run::new(&share(to.path(), true), 1, Settings::default(), Element::Octets, || {
            plan.worker(Element::Octets)
        });
    run.finish().unwrap();
    let s = run.now.as_ms() as f64 / 1000.0;
    assert!((2.9..3.3).contains(&s), "{s} s");
}

#[test]
fn several_things_are_put_over_one_connection() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(&from.path().join("tree"));
    for n in 0..300 {
        fs::write(from.path().join(format!("f{n:03}")), bytes(n, n as u64)).unwrap();
    }
    fs::create_dir(from.path().join("over")).unwrap();
    fs::write(from.path().join("over/f007"), b"what comes later stays").unwrap();
    let upload = |path: std::path::PathBuf, remote_path: &str, label: &str, after_all: bool| {
        let source = Source::from_path(&path)?;
        Ok(Upload { source, remote: remote(remote_path), label: remote(label), after_all })
    };
    let root = from.path().to_path_buf();
    let mut uploads: Vec<_> = (0..300)
        .map(|n| upload(root.join(format!("f{n:03}")), &format!("to/f{n:03}"), "", false))
        .collect();
    uploads.insert(150, upload(root.join("tree"), "to/tree", "tree", false));
    uploads.insert(10, upload(root.join("nowhere"), "to/nowhere", "", false));
    uploads.push(upload(root.join("over"), "to", "over", true));
    let log = std::sync::Arc::default();
    let plan = Plan::of(uploads.into_iter(), Options::default(), observer(&log));
    let mut run =
        Run::new(&share(to.path(), true), 1, Settings::default(), Element::Octets, || {
            plan.worker(Element::Octets)
        });
    run.finish().unwrap();
    assert!(plan.is_finished());
    let (log, totals) = (log.lock().unwrap().clone(), plan.totals());
    assert_eq!(log.failed.len(), 1, "{:?}", log.failed);
    assert!(log.failed[0].1.contains("nowhere"), "{:?}", log.failed);
    assert_eq!(
        (totals.files_done, totals.failed, totals.all_found),
        (log.done.len() as u64, 1, true)
    );
    assert_eq!(tree(&to.path().join("to/tree")), tree(&from.path().join("tree")));
    assert_eq!(fs::read(to.path().join("to/f299")).unwrap(), bytes(299, 299));
    assert_eq!(fs::read(to.path().join("to/f007")).unwrap(), b"what comes later stays");
    let told = |path: &str| log.done.iter().filter(|(done, ..)| done == path).count();
    assert_eq!(["f000", "tree/f1", "over/f007", "f007"].map(told), [1, 1, 1, 1]);
    assert_no_leftovers(to.path());
}

#[test]
fn what_is_the_same_there_stays_if_asked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    for connections in [1, 3] {
        let options = Options { keep_same: true, connections, ..Options::default() };
        let put = || put_with(from.path(), "copy", to.path(), options.clone(), Settings::default());
        let first = put().unwrap();
        assert_eq!((first.failed.len(), first.skipped.len()), (0, 0));
        assert_eq!(tree(&to.path().join("copy")), tree(from.path()));
        let again = put().unwrap();
        assert_eq!((again.failed.len(), again.done.len()), (0, 0), "{again:?}");
        assert_eq!(again.skipped.len(), first.done.len());
        // One that is newer there stays, one that is older is replaced.
        let (name, size, _) = first.done.iter().max_by_key(|(_, size, _)| *size).unwrap();
        let changed = to.path().join("copy").join(name);
        fs::write(&changed, bytes(*size as usize, 1)).unwrap();
        let newer = put().unwrap();
        assert_eq!((newer.done.len(), newer.skipped.len()), (0, first.done.len()));
        let file = fs::File::options().write(true).open(&changed).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let third = put().unwrap();
        assert_eq!((third.done.len(), third.skipped.len()), (1, first.done.len() - 1));
        assert_eq!(tree(&to.path().join("copy")), tree(from.path()));
        fs::remove_dir_all(to.path().join("copy")).unwrap();
    }
}
