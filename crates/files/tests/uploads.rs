//! Uploads that meet what others have begun: leftovers are hashed as work, in turn; the user's later attempt takes
//! over from an earlier one that hangs; nobody else gets in between.

mod support;

use fusewire_base::Instant;
use fusewire_files::Element;
use fusewire_files::client::put::{Options, Plan, Source, Worker};
use fusewire_files::memory::{self, Settings};
use fusewire_files::server::Share;
use fusewire_session::Fingerprint;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use support::*;

const SETTINGS: Settings = Settings { max_adu: 9000, capacity: 20, reorder: 6, seed: 5 };
/// Turns in which several blocks of a file come, and not all.
const SOME_TURNS: u64 = 40;

/// A put of `from` to `path` by a client with the key `owner`, over `connections`.
struct Putting {
    run: Run<Worker>,
    plan: Arc<Plan>,
    log: Arc<Mutex<Log>>,
}

impl Putting {
    fn new(share: &Arc<Share>, from: &Path, path: &str, owner: u8, options: Options) -> Putting {
        let log = Arc::default();
        let connections = options.connections;
        let source = Source::from_path(from).unwrap();
        let plan = Plan::new(source, remote(path), options, observer(&log));
        let mut run =
            Run::new(share, 0, SETTINGS, Element::Octets, || plan.worker(Element::Octets));
        for _ in 0..connections {
            let (server, client) = memory::pair(SETTINGS);
            let owner = Some(Fingerprint::from_bytes([owner; 32]));
            let session = share.session_of(owner, Element::Octets);
            run.ends.push((session, server, plan.worker(Element::Octets), client));
        }
        Putting { run, plan, log }
    }

    fn turns(&mut self, turns: u64) -> bool {
        self.run.steps(turns)
    }

    fn finish(&mut self) -> Log {
        self.run.finish().unwrap();
        assert!(self.plan.is_finished());
        self.log.lock().unwrap().clone()
    }
}

fn one(share: &Arc<Share>, from: &Path, owner: u8) -> Putting {
    Putting::new(share, from, "big", owner, Options::default())
}

/// Several files on the server, of each of which some blocks have come.
fn leave_some(from: &Path, share: &Arc<Share>, names: &[&str]) {
    for name in names {
        fs::write(from.join(name), bytes(12 << 20, name.len() as u64)).unwrap();
        let mut put = Putting::new(share, &from.join(name), name, 1, Options::default());
        assert!(!put.turns(SOME_TURNS));
    }
}

#[test]
fn what_is_there_already_is_hashed_without_a_pause() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let share = share(to.path(), true);
    leave_some(from.path(), &share, &["big"]);
    let mut put = Putting::new(&share, &from.path().join("big"), "big", 1, Options::default());
    // The server's session alone: each of its turns has something to do until all is hashed.
    let mut turns = 0;
    while put.log.lock().unwrap().resumed == 0 {
        let (session, server, worker, client) = &mut put.run.ends[0];
        worker.turn(client, &mut put.run.scratch, Instant::from_ms(1)).unwrap();
        let turn = session.turn(server, &mut put.run.scratch, Instant::from_ms(1)).unwrap();
        assert!(turn.worked, "a pause in turn {turns}");
        turns += 1;
    }
    let log = put.finish();
    assert!(log.resumed >= 4 << 20 && turns >= (log.resumed >> 21) - 1, "{turns}: {log:?}");
    assert_eq!(log.failed, []);
}

#[test]
fn uploads_are_hashed_again_in_turn() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let share = share(to.path(), true);
    let names = ["a", "bb", "ccc"];
    leave_some(from.path(), &share, &names);
    let mut put = Putting::new(&share, from.path(), "", 1, Options::default());
    let mut ready = Vec::new();
    while ready.len() < names.len() {
        assert!(!put.turns(1));
        let turns = put.run.turns;
        ready.resize(put.log.lock().unwrap().resumes.len(), turns);
    }
    let log = put.finish();
    assert_eq!(log.failed, []);
    // Two blocks a turn, of one upload after the other: what is ready first has waited for the others' turns.
    let mut turns: Vec<u64> = log.resumes.iter().map(|bytes| (bytes >> 20).div_ceil(2)).collect();
    turns.sort_unstable();
    assert!(turns[0] >= 2, "{log:?}");
    let all: u64 = turns.iter().sum();
    assert!(ready[0] >= 3 * (turns[0] - 1) && ready[2] >= all, "{ready:?}: {turns:?}");
}

#[test]
fn the_users_next_attempt_takes_over_from_one_that_hangs() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("big");
    for size in [3000, 12 << 20] {
        let contents = bytes(size, 9);
        fs::write(&path, &contents).unwrap();
        let share = share(to.path(), true);
        let mut hangs = one(&share, &path, 1);
        let turns = if size < 1 << 20 { 1 } else { SOME_TURNS };
        assert!(!hangs.turns(turns));
        let log = one(&share, &path, 1).finish();
        assert_eq!(log.failed, [], "{size}");
        assert_eq!(log.resumed > 0, size > 1 << 20);
        assert!(fs::read(to.path().join("big")).unwrap() == contents);
        // The one that hung may go on, and is told.
        let log = hangs.finish();
        let told = log.failed.iter().all(|(_, why)| why.contains("has taken its place"));
        assert!(told && log.failed.len() + log.done.len() == 1, "{log:?}");
        assert!(fs::read(to.path().join("big")).unwrap() == contents);
        assert_no_leftovers(to.path());
        fs::remove_file(to.path().join("big")).unwrap();
    }
}

#[test]
fn of_two_that_put_the_same_contents_the_later_one_goes_on() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("big");
    let contents = bytes(150 << 20, 4);
    fs::write(&path, &contents).unwrap();
    let share = share(to.path(), true);
    let options = Options { connections: 2, ..Options::default() };
    let mut first = Putting::new(&share, &path, "big", 1, options.clone());
    assert!(!first.turns(SOME_TURNS));
    let mut second = Putting::new(&share, &path, "big", 1, options);
    let (mut ended, mut turns) = ([false; 2], 0);
    while ended != [true; 2] {
        ended[0] = ended[0] || first.turns(1);
        ended[1] = ended[1] || second.turns(1);
        turns += 1;
        assert!(turns < 1_000_000, "{:?} {:?}", first.log, second.log);
    }
    assert_eq!(second.finish().failed, []);
    let log = first.finish();
    assert!(log.failed.len() == 1 && log.failed[0].1.contains("another upload"), "{log:?}");
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    assert_no_leftovers(to.path());
}

#[test]
fn another_state_of_the_file_takes_over_too() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("big");
    fs::write(&path, bytes(12 << 20, 1)).unwrap();
    let share = share(to.path(), true);
    let mut hangs = one(&share, &path, 1);
    assert!(!hangs.turns(SOME_TURNS));
    let contents = bytes(11 << 20, 2);
    fs::write(&path, &contents).unwrap();
    let log = one(&share, &path, 1).finish();
    assert_eq!((log.failed.len(), log.resumed), (0, 0), "{log:?}");
    drop(hangs);
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
    assert_no_leftovers(to.path());
}

#[test]
fn another_user_is_refused_before_anything_is_sent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("big");
    let contents = bytes(12 << 20, 9);
    fs::write(&path, &contents).unwrap();
    let share = share(to.path(), true);
    let mut first = one(&share, &path, 1);
    assert!(!first.turns(SOME_TURNS));
    let mut second = one(&share, &path, 2);
    let log = second.finish();
    assert!(log.failed.len() == 1 && log.failed[0].1.contains("is going on"), "{log:?}");
    assert_eq!(second.plan.totals().bytes_done, 0);
    // The first did not notice.
    let log = first.finish();
    assert_eq!((log.failed.len(), log.done.len()), (0, 1), "{log:?}");
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
}

#[test]
fn who_asks_for_it_begins_anew() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let share = share(to.path(), true);
    leave_some(from.path(), &share, &["big"]);
    let path = from.path().join("big");
    let anew = Options { anew: true, ..Options::default() };
    let log = Putting::new(&share, &path, "big", 1, anew).finish();
    assert_eq!((log.resumed, log.failed.len(), log.done.len()), (0, 0, 1), "{log:?}");
    assert!(fs::read(to.path().join("big")).unwrap() == fs::read(&path).unwrap());
    assert_no_leftovers(to.path());
}

#[test]
fn hashed_zeros_count_in_a_turns_budget() {
    use std::os::unix::fs::FileExt;
    const BLOCKS: u64 = 40;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    for block in 0..BLOCKS {
        file.write_all_at(&bytes(4096, block), block << 20).unwrap();
    }
    file.set_len(BLOCKS << 20).unwrap();
    let share = share(to.path(), true);
    let settings = Settings { max_adu: 9000, capacity: 400, ..SETTINGS };
    let (plan, log) = {
        let log = Arc::default();
        let source = Source::from_path(&path).unwrap();
        (Plan::new(source, remote("sparse"), Options::default(), observer(&log)), log)
    };
    let mut run = Run::new(&share, 1, settings, OCTETS, || plan.worker(OCTETS));
    // The client sends everything before the server's session looks at any of it.
    let (session, server, worker, client) = &mut run.ends[0];
    let now = Instant::from_ms(1);
    let scratch = &mut run.scratch;
    for _ in 0..3 {
        worker.turn(client, scratch, now).unwrap();
        session.turn(server, scratch, now).unwrap();
    }
    while worker.turn(client, scratch, now).unwrap().worked {}
    let mut turns = 0;
    while session.turn(server, scratch, now).unwrap().worked {
        turns += 1;
    }
    assert!(turns + 4 >= BLOCKS, "{turns} turns for {BLOCKS} blocks, which are nearly all zeros");
    run.finish().unwrap();
    assert_eq!(log.lock().unwrap().failed, []);
    assert!(fs::read(to.path().join("sparse")).unwrap() == fs::read(&path).unwrap());
}
