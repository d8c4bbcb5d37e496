//! One to many: sessions and a group in memory, members that come late, are slow, or lie.

mod forged;
#[path = "../support/mod.rs"]
mod support;

use fusewire_base::Instant;
use fusewire_files::cast::{
    Board, Caster, Catcher, Hearing as _, Joiner, Mail, OpeningChannel, SealingChannel, Tally,
    Wanted, bus,
};
use fusewire_files::client::get::{self, Existing};
use fusewire_files::client::{Filter, put::Source};
use fusewire_files::memory::{self, MemoryChannel, Settings};
use fusewire_files::message::{Body, Hole, Message, emit};
use fusewire_files::server::{self, Session, Share};
use fusewire_files::{BLOCK_LEN, Received, RemotePath, Scratch};
use fusewire_session::group::{GroupKey, GroupOpened, GroupReceiver, GroupSender};
use fusewire_session::{Cipher, DataPass, Fingerprint};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Log, OCTETS, Run, observer};

const CIPHER: Cipher = Cipher::AES_256_GCM;

fn secret(n: u8) -> [u8; 32] {
    [n; 32]
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A cast: its sender, and who hears it.
struct World {
    dir: tempfile::TempDir,
    share: Arc<Share>,
    board: Arc<Board>,
    bus: Arc<bus::Sender>,
    members: Vec<Member>,
    scratch: Scratch,
    now: Instant,
    /// Bytes in holes, of what was cast.
    holes: u64,
}

struct Member {
    dir: PathBuf,
    session: Option<(Session, MemoryChannel)>,
    joiner: (Joiner, MemoryChannel),
    mail: Arc<Mail>,
    heard: Option<(Catcher, OpeningChannel<bus::Ear>)>,
    /// What it has, when nothing more comes.
    done: Option<get::Here>,
    /// Why it is no member any more.
    broken: Option<String>,
    log: Arc<Mutex<Log>>,
    wanted: Wanted,
    dropped: u64,
}

impl World {
    /// Casts what `make` makes: `a` and `folder`, if they are there.
    fn new(make: impl FnOnce(&Path)) -> World {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir(&from).unwrap();
        make(&from);
        let things = ["a", "folder"].into_iter().filter(|name| from.join(name).exists());
        let things =
            things.map(|n| (n.into(), Source::from_path(&from.join(n)).unwrap())).collect();
        let share = Share::of_several(things, server::Settings::default()).unwrap();
        let board = Board::new(&share, CIPHER, secret(1)).unwrap();
        assert!(Board::new(&share, CIPHER, secret(1)).is_err(), "it is cast already");
        let bus = Arc::new(bus::group(20_000, 64));
        let (members, scratch, now) = (Vec::new(), Scratch::new(), Instant::from_ms(1));
        World { dir, share, board, bus, members, scratch, now, holes: 0 }
    }

    fn from(&self, name: &str) -> PathBuf {
        self.dir.path().join("from").join(name)
    }

    fn to(&self, member: usize, name: &str) -> PathBuf {
        self.members[member].dir.join(name)
    }

    /// One more, with a session, that hears the group once it knows what there is.
    fn join(&mut self) -> usize {
        self.join_as(Wanted { filter: Filter::default(), existing: Existing::Replace, sync: false })
    }

    fn join_all(&mut self, n: usize) {
        for _ in 0..n {
            self.join();
        }
    }

    fn join_as(&mut self, wanted: Wanted) -> usize {
        let at = self.members.len();
        self.join_from(wanted, at as u8, &format!("member {at}"), at as u64)
    }

    /// One with this key, at this host, for this place there.
    fn join_from(&mut self, wanted: Wanted, who: u8, peer: &str, place: u64) -> usize {
        let at = self.members.len();
        let dir = self.dir.path().join(format!("to{at}"));
        let _ = fs::create_dir(&dir);
        let settings = Settings { reorder: 3, seed: at as u64 + 5, ..Settings::default() };
        let (a, b) = memory::pair(settings);
        let mail = Arc::new(Mail::default());
        let who = Fingerprint::from_bytes([who; 32]);
        let session = self.share.session_of(Some(who), OCTETS).named(peer.to_string());
        let session = session.tagged(true);
        let joiner = Joiner::new(&mail, (100 + at as u64, place), OCTETS).unwrap();
        self.members.push(Member {
            dir,
            session: Some((session, a)),
            joiner: (joiner, b),
            mail,
            heard: None,
            done: None,
            broken: None,
            log: Arc::default(),
            wanted,
            dropped: 0,
        });
        at
    }

    /// Turns sessions and members once; who knows what there is hears the group from then on.
    fn turn(&mut self) -> bool {
        let mut worked = false;
        for (at, member) in self.members.iter_mut().enumerate() {
            let (now, scratch) = (self.now, &mut self.scratch);
            if let Some((session, channel)) = &mut member.session {
                worked |= session.turn(channel, scratch, now).is_ok_and(|turn| turn.worked);
            }
            let (joiner, channel) = &mut member.joiner;
            worked |= joiner.turn(channel, scratch, now).is_ok_and(|turn| turn.worked);
            let is_new =
                member.heard.is_none() && member.done.is_none() && member.session.is_some();
            if is_new && member.mail.is_told() && member.broken.is_none() {
                assert!(self.board.admits(100 + at as u64));
                let catcher = Catcher::new(
                    &member.mail,
                    &member.dir,
                    member.wanted.clone(),
                    observer(&member.log),
                );
                let mut catcher = catcher.unwrap();
                while !catcher.check_some() {}
                let channel =
                    OpeningChannel::new(self.bus.join(), &member.mail, DataPass::detect());
                member.heard = Some((catcher, channel));
                worked = true;
            }
            if let Some((catcher, channel)) = &mut member.heard {
                let turn = catcher.turn(channel, scratch, now);
                let over = turn.as_ref().map_or(true, |turn| turn.finished);
                worked |= turn.as_ref().is_ok_and(|turn| turn.worked);
                if let Err(error) = turn {
                    member.broken = Some(error.to_string());
                }
                if over {
                    member.dropped = channel.dropped();
                    member.done = member.heard.take().map(|(catcher, _)| catcher.into_here());
                }
            }
        }
        for (at, (_, standing)) in self.board.members().iter().enumerate() {
            if standing.is_gone {
                self.bus.drop_receiver(at);
            }
        }
        self.now += Duration::from_millis(1);
        worked
    }

    /// Until nothing more happens.
    fn settle(&mut self) {
        let mut idle = 0;
        while idle < 50 {
            idle = if self.turn() { 0 } else { idle + 1 };
        }
    }

    /// Casts all of it; `between` is called after each turn with the bytes that went.
    fn cast(&mut self, mut between: impl FnMut(&mut World, u64)) {
        let bus = Arc::clone(&self.bus);
        let (mut caster, mut channel) = {
            let channel = SealingChannel::new(&*bus, &self.board, DataPass::detect()).unwrap();
            (Caster::new(&self.share, &self.board, 0), channel)
        };
        let mut idle = 0;
        loop {
            let turn = caster.turn(&mut channel, &mut self.scratch, self.now).unwrap();
            between(self, caster.bytes_done());
            if turn.finished {
                break;
            }
            let worked = self.turn();
            idle = if worked || turn.worked { 0 } else { idle + 1 };
            assert!(idle < 1000, "stalled");
        }
        self.holes = caster.bytes_holes();
        let failed = caster.take_failed();
        assert!(failed.iter().all(|(path, _)| path.as_bytes() == b"a"), "{failed:?}");
        self.end();
    }

    fn end(&mut self) {
        self.bus.end();
        self.board.end();
        self.settle();
    }

    /// What member `at` does afterwards: it gets the rest. How many bytes that was.
    fn get_rest(&mut self, at: usize) -> u64 {
        let (plan, log) = self.rest(at);
        let totals = plan.totals();
        assert!(log.failed.is_empty(), "{log:?}");
        let told = self.members[at].done.as_ref().map_or(0, |here| here.told.len());
        assert_eq!(plan.told_here(), told as u64, "{log:?}");
        assert_eq!((totals.files, totals.bytes), (totals.files_done, totals.bytes_done));
        assert!(log.resumes.is_empty(), "what was here before was told of");
        totals.bytes_done - totals.bytes_here - totals.bytes_caught
    }

    /// The same, and what becomes of it.
    fn rest(&self, at: usize) -> (Arc<get::Plan>, Log) {
        let member = &self.members[at];
        let here = Some(Arc::new(member.done.clone().unwrap_or_default()));
        let Wanted { existing, ref filter, .. } = member.wanted;
        let options = get::Options { here, existing, filter: filter.clone(), ..Default::default() };
        let to = member.dir.join("");
        let destination = get::Destination::from_path(&to, &RemotePath::default()).unwrap();
        let log = Arc::default();
        let plan = get::Plan::new(RemotePath::default(), destination, options, observer(&log));
        let mut run = Run::new(&self.share, 1, Settings::default(), OCTETS, || plan.worker(OCTETS));
        run.finish().unwrap();
        let log = log.lock().unwrap().clone();
        (plan, log)
    }

    #[track_caller]
    fn same(&self, at: usize, name: &str) {
        let (from, to) = (self.from(name), self.to(at, name));
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{name} of member {at}");
        let time = |path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&from), time(&to), "{name} of member {at}");
    }

    #[track_caller]
    fn has_no_leftovers(&self, at: usize) {
        let left = walk(&self.members[at].dir);
        let left: Vec<_> =
            left.iter().filter(|p| p.to_string_lossy().contains(".fusewire-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(walk(&path));
        }
        all.push(path);
    }
    all
}

const LONG: usize = 5 * BLOCK_LEN as usize + 12_345;

fn make_all(from: &Path) {
    fs::write(from.join("a"), bytes(LONG, 1)).unwrap();
    fs::create_dir_all(from.join("folder/deep/empty")).unwrap();
    for (n, len) in
        [0, 1, 100, 20_000, 262_144, 262_145, BLOCK_LEN as usize].into_iter().enumerate()
    {
        fs::write(from.join(format!("folder/f{n}")), bytes(len, 10 + n as u64)).unwrap();
    }
    for n in 0..200 {
        fs::write(from.join(format!("folder/deep/s{n}")), bytes(n * 7, n as u64)).unwrap();
    }
    std::os::unix::fs::symlink("deep/s1", from.join("folder/link")).unwrap();
    fs::write(from.join("secret"), b"not cast").unwrap();
}

const NAMES: [&str; 10] = [
    "a",
    "folder/f1",
    "folder/f2",
    "folder/f3",
    "folder/f4",
    "folder/f5",
    "folder/f6",
    "folder/deep/s1",
    "folder/deep/s199",
    "folder/link",
];

#[test]
fn all_members_have_all_and_nothing_was_sent_twice() {
    let mut world = World::new(make_all);
    world.join_all(4);
    world.settle();
    world.cast(|_, _| {});
    for at in 0..4 {
        assert_eq!(world.members[at].broken, None);
        assert_eq!(world.get_rest(at), 0, "member {at} had all from the group");
        NAMES.iter().for_each(|name| world.same(at, name));
        world.same(at, "folder/f0");
        assert!(world.to(at, "folder/deep/empty").is_dir());
        assert!(!world.to(at, "secret").exists());
        world.has_no_leftovers(at);
        let log = world.members[at].log.lock().unwrap().clone();
        let (_, _, hash) = log.done.iter().find(|(path, ..)| path == "a").unwrap();
        assert_eq!(*hash, Some(blake3::hash(&bytes(LONG, 1)).into()));
        assert_eq!(world.members[at].dropped, 0);
    }
    let tally = Tally { files: 9, bytes: 8, failed: 7, wanted: Some(6) };
    world.members[2].mail.report(tally);
    world.settle();
    let told: Vec<_> = world.board.members().into_iter().map(|(_, m)| m.tally).collect();
    assert_eq!(told, [None, None, Some(tally), None]);
}

#[test]
fn what_is_served_is_what_was_named_and_nothing_beside_it() {
    let world = World::new(make_all);
    for (path, found) in [
        ("a", true),
        ("folder/f1", true),
        ("folder", true),
        ("", true),
        ("secret", false),
        ("a/x", false),
    ] {
        let (plan, log) =
            support::get_plan(path, &world.dir.path().join("got"), get::Options::default());
        let mut run =
            Run::new(&world.share, 1, Settings::default(), OCTETS, || plan.worker(OCTETS));
        run.finish().unwrap();
        assert_eq!(plan.take_error().is_none(), found, "{path}: {log:?}");
        let _ = fs::remove_dir_all(world.dir.path().join("got"));
        let _ = fs::remove_file(world.dir.path().join("got"));
    }
    let source = || Source::from_path(&world.from("a")).unwrap();
    let several = |names: &[&str]| {
        let things = names.iter().map(|name| ((*name).into(), source())).collect();
        Share::of_several(things, server::Settings { writable: true, ..Default::default() })
    };
    assert!(
        several(&["x", "x"]).is_err() && several(&["../x"]).is_err() && several(&[""]).is_err()
    );
}

#[test]
fn who_comes_late_gets_what_was_missed_and_no_more() {
    let mut world = World::new(|from| fs::write(from.join("a"), bytes(LONG, 2)).unwrap());
    world.join();
    world.settle();
    world.cast(|world, sent| {
        if sent > 2 * BLOCK_LEN && world.members.len() == 1 {
            world.join();
            world.settle();
        }
    });
    assert_eq!(world.get_rest(0), 0);
    let rest = world.get_rest(1);
    assert!((2 * BLOCK_LEN..=3 * BLOCK_LEN).contains(&rest), "{rest}");
    (0..2).for_each(|at| world.same(at, "a"));
    world.has_no_leftovers(1);
}

#[test]
fn who_comes_again_is_the_receiver_that_was_there() {
    let wanted = || Wanted { filter: Filter::default(), existing: Existing::Replace, sync: false };
    let first = (1, "10.0.0.1:5000", 7);
    for (again, is_same) in [
        ((1, "10.0.0.1:6000", 7), true),
        ((2, "10.0.0.1:6000", 7), false),
        ((1, "10.0.0.2:5000", 7), false),
        ((1, "10.0.0.1:6000", 8), false),
    ] {
        // What it was is still there, or is gone: of that nothing is kept.
        for is_gone in [false, true] {
            let mut world = World::new(make_all);
            for (n, (who, peer, place)) in [first, again].into_iter().enumerate() {
                world.join_from(wanted(), who, peer, place);
                world.settle();
                if n == 0 && is_gone {
                    world.members[0].session = None;
                }
            }
            let all = world.board.members();
            let parts = all.iter().filter(|(_, standing)| standing.has_part()).count();
            let replaced = all.iter().filter(|(_, standing)| standing.is_replaced).count();
            assert_eq!(parts, 1 + usize::from(!is_same && !is_gone), "{again:?} {all:?}");
            assert_eq!(replaced, usize::from(is_same && !is_gone), "{again:?} {all:?}");
            assert_eq!(world.board.admits(100), !is_same && !is_gone);
            assert!(world.board.admits(101));
        }
    }
}

/// The sender stops after `until` bytes, and each member at once.
fn broken_off(world: &mut World, until: u64) {
    let bus = Arc::clone(&world.bus);
    let mut channel = SealingChannel::new(&*bus, &world.board, DataPass::detect()).unwrap();
    let mut caster = Caster::new(&world.share, &world.board, 0);
    while caster.bytes_done() < until {
        caster.turn(&mut channel, &mut world.scratch, world.now).unwrap();
        world.turn();
    }
    world.settle();
    world.members.clear();
}

#[test]
fn what_is_here_in_part_is_not_got_again() {
    let content = bytes(LONG, 2);
    let mut world = World::new(|from| fs::write(from.join("a"), &content).unwrap());
    world.join();
    world.settle();
    broken_off(&mut world, 3 * BLOCK_LEN + 5);
    let dir = world.dir.path().join("to0");
    assert!(!dir.join("a").exists() && walk(&dir).len() == 2, "{:?}", walk(&dir));
    // The same is cast again, of which the first half is here already.
    let things = vec![("a".into(), Source::from_path(&world.from("a")).unwrap())];
    world.share = Share::of_several(things, server::Settings::default()).unwrap();
    world.board = Board::new(&world.share, CIPHER, secret(9)).unwrap();
    world.bus = Arc::new(bus::group(20_000, 64));
    world.join();
    world.settle();
    assert_eq!(world.members[0].log.lock().unwrap().resumed, 3 * BLOCK_LEN);
    world.cast(|_, _| {});
    assert_eq!(world.members[0].log.lock().unwrap().resumes.len(), 1);
    // What the group was sent since is nothing that was here.
    let (plan, log) = world.rest(0);
    let totals = plan.totals();
    let caught = LONG as u64 - 3 * BLOCK_LEN;
    assert_eq!((totals.bytes_here, totals.bytes_caught), (3 * BLOCK_LEN, caught), "{log:?}");
    assert_eq!(totals.bytes_done, LONG as u64);
    world.same(0, "a");
    world.has_no_leftovers(0);
}

/// Files are taken away while they are cast: what has come of them whole stays, and the others have failed.
#[test]
fn what_is_gone_before_it_has_come_has_failed() {
    let mut world = World::new(make_all);
    world.join_all(2);
    let filter = Filter::new(&[], &["f3".into(), "deep".into()]).unwrap();
    world.join_as(Wanted { filter, existing: Existing::Replace, sync: false });
    let kept = world.dir.path().join("to3/folder/f3");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    fs::copy(world.from("folder/f3"), &kept).unwrap();
    let filter = Filter::default();
    world.join_as(Wanted { filter, existing: Existing::KeepSame, sync: false });
    world.settle();
    (1..4).for_each(|at| world.bus.drop_receiver(at));
    world.cast(|_, _| {});
    for name in ["folder/f3", "folder/f0"] {
        fs::remove_file(world.from(name)).unwrap();
    }
    fs::remove_dir_all(world.from("folder/deep")).unwrap();
    let all = 208;
    // Of what is gone this one has all but the empty files, which no group is sent.
    let (plan, log) = world.rest(0);
    let totals = plan.totals();
    assert_eq!(plan.told_here(), all - 2);
    assert_eq!((totals.files, totals.files_done, totals.failed), (all, all - 2, 2), "{log:?}");
    // The first of these has nothing of it, the next did not want all, and the last keeps what is newer.
    for (at, failed, none) in [(1, 202, ""), (2, 1, "folder/f3"), (3, 201, "folder/f3")] {
        let (plan, log) = world.rest(at);
        let totals = plan.totals();
        assert_eq!((totals.failed, totals.files - totals.files_done), (failed, failed), "{log:?}");
        assert_eq!(log.failed.len() as u64, failed);
        for (path, why) in &log.failed {
            assert!(why.contains("gone") && path != none, "{path}: {why}");
        }
        world.same(at, "folder/f6");
    }
}

/// Other things stand by then where files did, and files where none were.
#[test]
fn what_takes_the_place_of_a_file_is_not_taken_for_it() {
    let mut world = World::new(make_all);
    world.join_all(2);
    world.settle();
    world.bus.drop_receiver(1);
    world.cast(|_, _| {});
    for name in ["folder/f0", "folder/f1", "folder/f3"] {
        fs::remove_file(world.from(name)).unwrap();
    }
    fs::create_dir(world.from("folder/f1")).unwrap();
    for (name, text) in [("folder/f1/inside", "not cast"), ("folder/new", "not cast, too")] {
        fs::write(world.from(name), text).unwrap();
    }
    for name in ["folder/f0", "folder/f3"] {
        std::os::unix::fs::symlink("f6", world.from(name)).unwrap();
    }
    // One has what had come, and all but the empty file had; the other has nothing of the three.
    for (at, failed) in [(0, 1), (1, 3)] {
        let (plan, log) = world.rest(at);
        let totals = plan.totals();
        assert_eq!((totals.failed, log.failed.len() as u64), (failed, failed), "{log:?}");
        assert!(log.failed.iter().all(|(_, why)| why.contains("gone")), "{log:?}");
        // What is new came, too, and stands for nothing that did not.
        assert_eq!((plan.told_here(), totals.files_done), (208 - failed, 209 - failed));
        world.same(at, "folder/new");
        world.has_no_leftovers(at);
        assert!(fs::symlink_metadata(world.to(at, "folder/f0")).is_err());
    }
    for (name, was) in [("folder/f1", bytes(1, 11)), ("folder/f3", bytes(20_000, 13))] {
        assert!(fs::symlink_metadata(world.to(0, name)).unwrap().is_file(), "{name}");
        assert!(fs::read(world.to(0, name)).unwrap() == was, "{name}");
        assert!(fs::symlink_metadata(world.to(1, name)).is_err(), "{name}");
    }
}

/// A sender that has no folder to open any more.
#[test]
fn a_listing_that_fails_is_one_failure_and_nothing_is_gone() {
    let mut world = World::new(make_all);
    world.join_all(2);
    world.settle();
    world.bus.drop_receiver(1);
    world.cast(|_, _| {});
    let things = vec![("a".into(), Source::from_path(&world.from("a")).unwrap())];
    let settings = server::Settings { open_folders_max: 0, ..server::Settings::default() };
    world.share = Share::of_several(things, settings).unwrap();
    // All but the empty files had come to one.
    for (at, here) in [(0, 206), (1, 0)] {
        let (plan, log) = world.rest(at);
        let totals = plan.totals();
        assert!(log.failed.len() == 1 && !log.failed[0].1.contains("gone"), "{log:?}");
        assert_eq!((totals.failed, totals.files_done, plan.told_here()), (1, here, here));
        assert!(totals.all_found);
    }
}

fn hear(ear: &bus::Ear) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut ear = ear;
    while let Received::Adu { .. } = ear.recv(&mut |message| all.push(message.to_vec())).unwrap() {}
    all
}

#[test]
fn who_is_removed_opens_nothing_that_is_cast_afterwards() {
    let mut world = World::new(make_all);
    world.join_all(3);
    world.settle();
    let (mut is_removed, spy, mut overheard) = (false, world.bus.join(), Vec::new());
    let gone = Fingerprint::from_bytes([1; 32]);
    world.cast(|world, sent| {
        overheard.extend(hear(&spy));
        if sent > 2 * BLOCK_LEN && !is_removed {
            is_removed = true;
            assert!(world.board.readmit(&|key| key != gone, secret(2)));
            assert!(!world.board.readmit(&|_| true, secret(3)), "nobody has to go");
            assert_eq!(world.board.key().epoch, 2);
            assert!(!world.board.admits(101) && world.board.admits(100));
        }
    });
    let [_, removed, _] = &mut world.members[..] else { panic!() };
    let told = world.board.members();
    let told: Vec<_> = told.iter().map(|(_, m)| (m.is_gone, m.is_removed)).collect();
    assert_eq!(told, [(false, false), (true, true), (false, false)]);
    let refused = removed.mail.refusal().unwrap();
    assert!(refused.contains("not a member"), "{refused}");
    assert!(!removed.done.as_ref().unwrap().whole.iter().any(|path| path.as_bytes() == b"a"));
    // Who hears all the same, and knows the old secret, opens nothing of it.
    let later: Vec<_> = overheard.iter().filter(|m| m[..4] == [0, 0, 0, 2]).collect();
    assert!(later.len() > 100 && later.len() < overheard.len());
    for (epoch, n) in [(1, 1), (2, 1)] {
        let mut old = GroupReceiver::new(1 << 17, DataPass::detect());
        old.learn(GroupKey::new(epoch, CIPHER, secret(n))).unwrap();
        let opened = later.iter().filter(|message| {
            let opened = old.open(message, &mut vec![0; message.len() - 48][..]);
            matches!(opened, Ok(GroupOpened::Genuine))
        });
        assert_eq!(opened.count(), 0);
    }
    for at in [0, 2] {
        assert_eq!((world.get_rest(at), world.members[at].dropped), (0, 0));
        NAMES.iter().for_each(|name| world.same(at, name));
    }
}

#[test]
fn a_member_that_is_dropped_or_gone_costs_the_others_nothing() {
    let mut world = World::new(make_all);
    world.join_all(3);
    world.settle();
    let bus = Arc::clone(&world.bus);
    let mut has_gone = false;
    world.cast(|world, sent| {
        if sent > 2 * BLOCK_LEN && !has_gone {
            has_gone = true;
            bus.drop_receiver(0);
            // The machine of this one is gone, and its session with it.
            world.members[2].session = None;
            world.members[2].heard = None;
        }
    });
    assert!(world.members[0].broken.as_ref().unwrap().contains("too slow"));
    let gone: Vec<_> = world.board.members().into_iter().map(|(_, m)| m.is_gone).collect();
    assert_eq!(gone, [false, false, true]);
    assert!(!world.board.members()[2].1.is_removed);
    assert_eq!(world.get_rest(1), 0);
    assert!(world.get_rest(0) > 2 * BLOCK_LEN);
    (0..2).for_each(|at| NAMES.iter().for_each(|name| world.same(at, name)));
}

#[test]
fn a_file_that_changes_while_it_is_cast_is_not_put_together_of_two() {
    let mut world = World::new(|from| fs::write(from.join("a"), bytes(LONG, 2)).unwrap());
    world.join();
    world.settle();
    let path = world.from("a");
    let mut has_changed = false;
    world.cast(|_, sent| {
        if sent > BLOCK_LEN && !has_changed {
            has_changed = true;
            std::thread::sleep(Duration::from_millis(20));
            fs::write(&path, bytes(LONG, 3)).unwrap();
        }
    });
    assert!(world.members[0].done.as_ref().unwrap().whole.is_empty());
    world.get_rest(0);
    world.same(0, "a");
    world.has_no_leftovers(0);
}

#[test]
fn holes_come_and_only_a_session_says_that_blocks_are_zero() {
    let mut world = World::new(|from| {
        let file = fs::File::create(from.join("a")).unwrap();
        file.set_len(LONG as u64 * 2).unwrap();
        use std::os::unix::fs::FileExt as _;
        file.write_all_at(&bytes(300_000, 4), 3 * BLOCK_LEN + 65_536).unwrap();
        file.write_all_at(&bytes(300_000, 5), 9 * BLOCK_LEN).unwrap();
    });
    world.join();
    world.settle();
    world.cast(|_, _| {});
    assert!(world.holes > 8 * BLOCK_LEN && world.holes < LONG as u64 * 2 - 600_000);
    world.get_rest(0);
    world.same(0, "a");
    world.has_no_leftovers(0);
}

#[test]
fn what_is_not_wanted_or_stays_is_not_taken() {
    let mut world = World::new(make_all);
    let filter = Filter::new(&[], &["deep".into(), "a".into()]).unwrap();
    world.join_as(Wanted { filter, existing: Existing::Replace, sync: false });
    let keep = Wanted { filter: Filter::default(), existing: Existing::KeepSame, sync: false };
    let (dir, from) = (world.dir.path().join("to1"), world.from("a"));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("a"), bytes(LONG, 77)).unwrap();
    let time = fs::metadata(from).unwrap().modified().unwrap();
    fs::File::options().write(true).open(dir.join("a")).unwrap().set_modified(time).unwrap();
    world.join_as(keep);
    world.settle();
    world.cast(|_, _| {});
    for at in 0..2 {
        world.get_rest(at);
    }
    assert!(!world.to(0, "folder/deep").exists() && !world.to(0, "a").exists());
    world.same(0, "folder/f6");
    assert!(fs::read(world.to(1, "a")).unwrap() == bytes(LONG, 77), "of the same size and time");
    world.same(1, "folder/deep/s7");
}
