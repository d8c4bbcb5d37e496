//! Connections that break: nothing is lost, nothing half-done is under its name, and what came need not come again.

mod support;

use fusewire_files::Element;
use fusewire_files::client::{get, put};
use fusewire_files::memory::Settings;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use support::*;

const SETTINGS: Settings = Settings { max_adu: 9000, capacity: 20, reorder: 6, seed: 5 };

/// Gets `big` and breaks the connection after `turns`; true if it was complete before that.
fn broken_get(from: &Path, to: &Path, turns: u64) -> (bool, Log) {
    let (plan, log) = get_plan("big", to, get::Options::default());
    let mut run = Run::new(&share(from, false), 1, SETTINGS, Element::Octets, || {
        plan.worker(Element::Octets)
    });
    let complete = run.steps(turns);
    run.ends[0].1.cut();
    drop(run);
    let log = log.lock().unwrap().clone();
    (complete, log)
}

#[test]
fn a_get_goes_on_where_it_was_broken_off() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes((11 << 20) + 7, 9);
    fs::write(from.path().join("big"), &contents).unwrap();
    fs::write(to.path().join("big"), b"what was there before").unwrap();
    let (mut resumed, mut breaks) = (0, 0);
    for turns in [1, 3, 10, 20, 30, 15, 25, 14, 9, 1000] {
        let (complete, log) = broken_get(from.path(), to.path(), turns);
        if log.resumed > 0 {
            assert!(log.resumed >= resumed, "{} after {resumed}", log.resumed);
            resumed = log.resumed;
        }
        if complete {
            break;
        }
        breaks += 1;
        assert_eq!(fs::read(to.path().join("big")).unwrap(), b"what was there before");
    }
    assert!(breaks >= 4 && resumed > 5 << 20, "{breaks} breaks, {resumed} bytes resumed");
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    assert_no_leftovers(to.path());
}

#[test]
fn leftovers_that_were_damaged_or_are_of_another_state_come_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes(8 << 20, 2);
    fs::write(from.path().join("big"), &contents).unwrap();
    let part = |suffix: &str| {
        let names = fs::read_dir(to.path()).unwrap().map(|e| e.unwrap().path());
        names.into_iter().find(|p| p.extension().is_some_and(|e| e == suffix)).unwrap()
    };
    let break_off = || {
        let (complete, _) = broken_get(from.path(), to.path(), 30);
        assert!(!complete);
    };
    // A block that was verified is changed on the disk.
    break_off();
    let mut bytes_of_part = fs::read(part("part")).unwrap();
    bytes_of_part[1000] ^= 1;
    fs::write(part("part"), bytes_of_part).unwrap();
    let log = get(from.path(), "big", to.path()).unwrap();
    assert!(log.resumed > 0 && log.resumed < 8 << 20);
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    // The record is cut short, or is nonsense, or the partial file is gone.
    for damage in 0..4 {
        break_off();
        let state = fs::read(part("state")).unwrap();
        match damage {
            0 => fs::write(part("state"), &state[..state.len() - 3]).unwrap(),
            1 => fs::write(part("state"), vec![0xff; state.len()]).unwrap(),
            2 => fs::write(part("part"), b"").unwrap(),
            _ => fs::remove_file(part("part")).unwrap(),
        }
        let log = get(from.path(), "big", to.path()).unwrap();
        assert_eq!(log.failed, []);
        assert!(fs::read(to.path().join("big")).unwrap() == contents, "damage {damage}");
        assert_no_leftovers(to.path());
    }
    // The file on the server is another one by now.
    break_off();
    let other = bytes(8 << 20, 77);
    fs::write(from.path().join("big"), &other).unwrap();
    let log = get(from.path(), "big", to.path()).unwrap();
    assert_eq!(log.resumed, 0);
    assert!(fs::read(to.path().join("big")).unwrap() == other);
    assert_no_leftovers(to.path());
}

#[test]
fn holes_over_leftovers_are_zeros() {
    use std::os::unix::fs::FileExt;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = fs::File::create(from.path().join("big")).unwrap();
    for block in 0..4u64 {
        file.write_all_at(&bytes(1 << 20, block), block << 20).unwrap();
    }
    file.set_len(9 << 20).unwrap();
    file.write_all_at(b"end", (9 << 20) - 3).unwrap();
    assert!(!broken_get(from.path(), to.path(), 14).0);
    // Rubbish where the holes will be, as a crash can leave it.
    let names = fs::read_dir(to.path()).unwrap().map(|e| e.unwrap().path());
    let part = names.into_iter().find(|p| p.extension().is_some_and(|e| e == "part")).unwrap();
    let rubbish = fs::File::options().write(true).open(part).unwrap();
    rubbish.write_all_at(&[7; 3 << 20], 5 << 20).unwrap();
    let log = get(from.path(), "big", to.path()).unwrap();
    assert!(log.resumed > 0, "nothing was resumed");
    assert_eq!(tree(to.path()), tree(from.path()));
}

#[test]
fn a_plan_survives_its_connections() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes((150 << 20) + 1, 4);
    fs::write(from.path().join("big"), &contents).unwrap();
    let (plan, log) =
        get_plan("big", to.path(), get::Options { connections: 2, ..get::Options::default() });
    let share = share(from.path(), false);
    let settings = Settings { max_adu: 65_000, capacity: 6, ..SETTINGS };
    let mut turns = 25;
    loop {
        let mut run =
            Run::new(&share, 2, settings, Element::Octets, || plan.worker(Element::Octets));
        let complete = run.steps(turns);
        if complete {
            break;
        }
        run.ends.iter().for_each(|end| end.1.cut());
        turns *= 4;
    }
    assert!(turns > 100, "it was never broken off");
    assert_eq!(log.lock().unwrap().failed, []);
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    assert_no_leftovers(to.path());
}

#[test]
fn a_put_goes_on_where_it_was_broken_off() {
    for connections in [1u32, 2] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let contents = bytes((13 << 20) + 7, 9);
        let path = from.path().join("big");
        fs::write(&path, &contents).unwrap();
        fs::write(to.path().join("big"), b"what was there before").unwrap();
        let share = share(to.path(), true);
        let (mut resumed, mut breaks) = (0, 0);
        for turns in [1, 5, 20, 40, 25, 30, 14, 1000] {
            let log = Arc::default();
            let options = put::Options { connections, ..put::Options::default() };
            let plan = put::Plan::new(
                put::Source::from_path(&path).unwrap(),
                remote("big"),
                options,
                observer(&log),
            );
            let mut run = Run::new(&share, connections as usize, SETTINGS, Element::Octets, || {
                plan.worker(Element::Octets)
            });
            let complete = run.steps(turns);
            drop(run);
            let log = log.lock().unwrap().clone();
            assert_eq!(log.failed, []);
            resumed = log.resumed.max(resumed);
            if complete {
                break;
            }
            breaks += 1;
            assert_eq!(fs::read(to.path().join("big")).unwrap(), b"what was there before");
        }
        assert!(breaks >= 4 && resumed > 5 << 20, "{breaks} breaks, {resumed} bytes resumed");
        assert!(fs::read(to.path().join("big")).unwrap() == contents);
        assert_no_leftovers(to.path());
    }
}

#[test]
fn two_transfers_to_one_file_do_not_mix() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contents = bytes(9 << 20, 1);
    fs::write(from.path().join("big"), &contents).unwrap();
    let (plan, _log) = get_plan("big", to.path(), get::Options::default());
    let mut run = Run::new(&share(from.path(), false), 1, SETTINGS, Element::Octets, || {
        plan.worker(Element::Octets)
    });
    assert!(!run.steps(10));
    let second = get(from.path(), "big", to.path()).unwrap();
    assert_eq!(second.failed.len(), 1);
    assert!(second.failed[0].1.contains("in use by another transfer"), "{:?}", second.failed);
    run.finish().unwrap();
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    assert_no_leftovers(to.path());
}

#[test]
fn stale_partial_files_go_when_the_file_is_complete() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = to.path().join("copy");
    for name in ["same", "other", "locked"] {
        fs::write(from.path().join(name), name).unwrap();
    }
    get(from.path(), "", &copy).unwrap();
    let part = |name: &str, suffix: &str| {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        copy.join(format!(".fusewire-{}{suffix}", &hash[..16]))
    };
    let leave = |update: bool| {
        for name in ["same", "other", "locked"] {
            fs::write(part(name, ".part"), "left").unwrap();
            fs::write(part(name, ".state"), "left").unwrap();
        }
        fs::write(part("same", "-999999999-0.part"), "left").unwrap();
        // A running transfer keeps its partial files.
        let own = part("other", &format!("-{}-7.part", std::process::id()));
        fs::write(&own, "own").unwrap();
        let locked = fs::File::open(part("locked", ".part")).unwrap();
        rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
        fs::write(from.path().join("new"), format!("{update}")).unwrap();
        let existing = if update { get::Existing::KeepSame } else { get::Existing::Replace };
        let options = get::Options { existing, ..get::Options::default() };
        let log = get_with(from.path(), "", &copy, options, Settings::default(), OCTETS).unwrap();
        assert_eq!(log.failed, []);
        let expected = [own.clone(), part("locked", ".part"), part("locked", ".state")];
        let is_left = |path: &std::path::PathBuf| path.to_string_lossy().contains(".fusewire-");
        let entries = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path());
        let mut left: Vec<_> = entries.filter(is_left).collect();
        left.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(left, expected, "{update}");
        for path in expected {
            fs::remove_file(path).unwrap();
        }
    };
    leave(true);
    leave(false);
}
