//! Many connections and many entries: bounded memory, and nobody starves.

mod support;

use fusewire_base::Instant;
use fusewire_files::client::{Ignore, get, list};
use fusewire_files::memory::Settings;
use fusewire_files::{Element, Entry, RemotePath, Scratch, memory};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::*;

/// What is in memory is the whole process's, so that one of these tests runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_thousand_sessions_are_small_and_served_in_turn() {
    let _alone = alone();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    const LEN: usize = 2 << 20;
    for i in 0..100 {
        fs::write(from.path().join(format!("f{i}")), bytes(LEN, i)).unwrap();
    }
    let share = share(from.path(), false);
    let settings = Settings { max_adu: 9000, capacity: 8, ..Settings::default() };
    let mut scratch = Scratch::new();
    let before = resident();
    let mut idle: Vec<_> = (0..900)
        .map(|_| {
            let (server, client) = memory::pair(settings);
            (share.session(Element::Octets), server, client)
        })
        .collect();
    let mut busy: Vec<_> = (0..100)
        .map(|i| {
            let (server, client) = memory::pair(settings);
            let (plan, log) = get_plan(&format!("f{i}"), to.path(), get::Options::default());
            let worker = plan.worker(Element::Octets);
            (share.session(Element::Octets), server, worker, client, plan, log, false)
        })
        .collect();
    let (mut rounds, mut middle_checked) = (0, false);
    while busy.iter().any(|b| !b.6) {
        rounds += 1;
        assert!(rounds < 100_000);
        for (session, server, worker, client, _, _, finished) in &mut busy {
            session.turn(server, &mut scratch, Instant::ZERO).unwrap();
            *finished |= worker.turn(client, &mut scratch, Instant::ZERO).unwrap().finished;
        }
        for (session, server, _) in &mut idle {
            let turn = session.turn(server, &mut scratch, Instant::ZERO).unwrap();
            assert!(!turn.worked);
        }
        let mut done: Vec<u64> = busy.iter().map(|b| b.4.totals().bytes_done).collect();
        done.sort_unstable();
        if !middle_checked && done[50] > LEN as u64 / 2 {
            middle_checked = true;
            assert!(
                done[0] * 3 >= done[50],
                "the slowest has {} of the median {}",
                done[0],
                done[50]
            );
            let grown = resident().saturating_sub(before);
            assert!(grown < 64 << 20, "{grown} bytes for 1,000 sessions and their clients");
        }
    }
    assert!(middle_checked);
    for (i, (.., log, _)) in busy.iter().enumerate() {
        assert_eq!(log.lock().unwrap().done.len(), 1);
        assert!(fs::read(to.path().join(format!("f{i}"))).unwrap() == bytes(LEN, i as u64));
    }
}

fn folder_of(entries: usize) {
    let _alone = alone();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for i in 0..entries {
        fs::write(from.path().join(format!("a file with a name of some length {i:08}")), b"")
            .unwrap();
    }
    let share = share(from.path(), false);
    let before = resident();
    let mut seen = 0;
    let show = |_: &RemotePath, _: &Entry| seen += 1;
    let mut listing = Some(list::List::new(remote(""), true, OCTETS, show).unwrap());
    let listing = || listing.take().unwrap();
    Run::new(&share, 1, Settings::default(), OCTETS, listing).finish().unwrap();
    assert_eq!(seen, entries);
    // No log of what is done: that grows, and is the test's.
    let destination = get::Destination::from_path(&to.path().join("copy"), &remote("")).unwrap();
    let plan = get::Plan::new(remote(""), destination, get::Options::default(), Box::new(Ignore));
    let mut run =
        Run::new(&share, 1, Settings::default(), Element::Octets, || plan.worker(Element::Octets));
    run.finish().unwrap();
    assert_eq!(plan.totals().files_done, entries as u64);
    let grown = resident().saturating_sub(before);
    println!("{entries} entries: {grown} bytes more in memory");
    assert!(grown < 16 << 20, "{grown} bytes for {entries} entries");
}

#[test]
fn a_folder_with_many_entries_takes_no_more_memory() {
    folder_of(20_000);
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak` runs it"]
fn a_folder_with_a_million_entries_takes_no_more_memory() {
    folder_of(1_000_000);
}
