//! A get, a put and a list between honest machines, with someone between them who changes messages: to each
//! side it looks as if the other were hostile.
//!
//! Nothing outside of the two folders is touched, and if nothing was changed everything arrives.

use std::fs;
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_files::client::{Ignore, get, list, put};
use fusewire_files::server::{Session, Settings, Share};
use fusewire_files::{Element, Entry, Error, RemotePath, Scratch, Turn};

use crate::Choices;
use crate::channel::{Pipe, Place, pair};

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];
const TURNS_MAX: usize = 400;
/// Turns without work after which nothing more will come.
const IDLE_MAX: usize = 20;
/// Words that stand where sizes, positions, depths and numbers of requests do.
const WORDS: [u32; 8] = [0, 1, 2, 0x0010_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, u32::MAX];
const NAMES: [&[u8; 4]; 6] = [b"../a", b"..\0\0", b"a/b\0", b"/etc", b".\0\0\0", b"link"];

/// Honest transfers, and one change at each of some messages.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..12).map(|n| vec![if n < 6 { n } else { 0x80 + n }]).collect();
    for mode in 0..3 {
        for message in 0..6u8 {
            let mut seed = vec![mode];
            seed.resize(1 + usize::from(message), 0);
            seed.extend([0x81, 2, 9, message, 0x81, 3, 6, message]);
            seeds.push(seed);
        }
    }
    seeds
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mode = choices.u8();
    let element = ELEMENTS[usize::from(mode & 0x7f) / 3 % ELEMENTS.len()];
    let (near, far) = (Place::new(), Place::new());
    let (from, to) = if mode % 3 == 1 { (&near, &far) } else { (&far, &near) };
    let files = files(mode >= 0x80);
    fill(from, &files);
    let remote = RemotePath::from_user(b"tree").expect("a path");
    let settings = Settings { writable: mode % 3 == 1, ..Settings::default() };
    let share = Share::open(&far.inside(), settings).expect("the folder is there");
    let mut between = Between::new(share.session(element), element, choices);
    match mode % 3 {
        0 => {
            let destination =
                get::Destination::from_path(&to.inside().join(""), &remote).expect("a folder");
            let plan = get::Plan::new(remote, destination, Default::default(), Box::new(Ignore));
            let mut worker = plan.worker(element);
            between.run(|pipe, scratch, now| worker.turn(pipe, scratch, now));
            drop(worker);
            // Whatever happened, another connection comes to an end with what is left of it.
            let mut worker = plan.worker(element);
            between.afterwards(&share, |pipe, scratch, now| worker.turn(pipe, scratch, now));
            drop(worker);
            assert!(plan.is_finished());
            let _ = plan.totals();
            let _ = plan.take_error().map(|error| error.to_string());
        }
        1 => {
            let source = put::Source::from_path(&from.inside().join("tree")).expect("a folder");
            let plan = put::Plan::new(source, remote, Default::default(), Box::new(Ignore));
            let mut worker = plan.worker(element);
            between.run(|pipe, scratch, now| worker.turn(pipe, scratch, now));
            drop(worker);
            let mut worker = plan.worker(element);
            between.afterwards(&share, |pipe, scratch, now| worker.turn(pipe, scratch, now));
            drop(worker);
            assert!(plan.is_finished());
            let _ = plan.totals();
            let _ = plan.take_error().map(|error| error.to_string());
        }
        _ => {
            let show = |path: &RemotePath, _: &Entry| {
                let _ = path.to_string();
            };
            let mut list = list::List::new(remote, true, element, show).expect("a list");
            between.run(|pipe, scratch, now| list.turn(pipe, scratch, now));
        }
    }
    let changed = between.changed;
    drop(between);
    near.check();
    far.check();
    if !changed && mode % 3 < 2 {
        for (name, contents) in files {
            let there = fs::read(to.inside().join("tree").join(name)).ok();
            assert!(there == Some(contents), "{name} did not arrive");
        }
    }
}

/// A file of two blocks takes its time.
fn files(large: bool) -> [(&'static str, Vec<u8>); 4] {
    [
        ("a", vec![7; 300]),
        ("d/b", vec![0x35; if large { (1 << 20) + 5 } else { 50_000 }]),
        ("d/empty", Vec::new()),
        ("d/e/c", b"more".to_vec()),
    ]
}

fn fill(place: &Place, files: &[(&str, Vec<u8>)]) {
    let tree = place.inside().join("tree");
    fs::create_dir_all(tree.join("d/e")).expect("folders");
    for (name, contents) in files {
        fs::write(tree.join(name), contents).expect("a file");
    }
    std::os::unix::fs::symlink("d/b", tree.join("link")).expect("a link");
    let sparse = fs::File::create(tree.join("sparse")).expect("a file");
    sparse.set_len(3 << 20).expect("a hole");
}

struct Between<'a> {
    session: Option<Session>,
    element: Element,
    choices: Choices<'a>,
    changed: bool,
}

impl<'a> Between<'a> {
    fn new(session: Session, element: Element, choices: Choices<'a>) -> Self {
        Between { session: Some(session), element, choices, changed: false }
    }

    /// An honest session after what happened.
    fn afterwards(
        &mut self,
        share: &Arc<Share>,
        turn: impl FnMut(&mut Pipe, &mut Scratch, Instant) -> Result<Turn, Error>,
    ) {
        self.session = Some(share.session(self.element));
        self.choices.rest();
        let before = std::mem::replace(&mut self.changed, false);
        self.run(turn);
        self.changed = before;
    }

    /// Turns both sides until they are finished, one has failed, or nothing goes on any more.
    fn run(
        &mut self,
        mut turn: impl FnMut(&mut Pipe, &mut Scratch, Instant) -> Result<Turn, Error>,
    ) {
        let [mut client, mut server] = pair(32);
        let mut scratch = Scratch::new();
        let mut now = Instant::from_ms(1);
        let mut idle = 0;
        for _ in 0..TURNS_MAX {
            now += std::time::Duration::from_millis(5);
            let here = turn(&mut client, &mut scratch, now);
            self.meddle(&client);
            let there = match &mut self.session {
                Some(session) => session.turn(&mut server, &mut scratch, now),
                None => return,
            };
            self.meddle(&server);
            let (Ok(here), Ok(there)) = (&here, &there) else {
                for error in [here.err(), there.err()].into_iter().flatten() {
                    assert!(self.changed, "{error}");
                }
                self.session = None;
                return;
            };
            if here.finished && there.finished {
                return;
            }
            idle = if here.worked || there.worked { 0 } else { idle + 1 };
            if idle > IDLE_MAX {
                assert!(self.changed, "an honest transfer stands still");
                return;
            }
        }
        assert!(self.changed, "an honest transfer does not end");
    }

    /// One choice a message: nothing, or what to do with it.
    fn meddle(&mut self, from: &Pipe) {
        let mut way = from.sent();
        let mut at = 0;
        while at < way.adus.len() && !self.choices.is_empty() {
            let step = self.choices.u8();
            at += 1;
            if step < 0x80 {
                continue;
            }
            self.changed = true;
            match step % 8 {
                0 => drop(way.adus.remove(at - 1)),
                1 | 2 => self.word(&mut way.adus[at - 1]),
                3 => self.name(&mut way.adus[at - 1]),
                4 => {
                    let again = way.adus[at - 1].clone();
                    way.adus.push_back(again);
                }
                5 => {
                    let len = usize::from(self.choices.u16());
                    way.adus[at - 1].truncate(len);
                }
                6 => {
                    let len = usize::from(self.choices.u8());
                    way.adus[at - 1] = self.choices.bytes(len).to_vec();
                }
                _ => way.finished = true,
            }
        }
    }

    /// Another word at some place.
    fn word(&mut self, adu: &mut [u8]) {
        let at = usize::from(self.choices.u8()) * 4;
        let form = self.choices.u8();
        let word = match WORDS.get(usize::from(form)) {
            Some(word) => *word,
            None => u32::from(form) - 8,
        };
        if let Some(there) = adu.get_mut(at..at + 4) {
            there.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Another name or target at some place.
    fn name(&mut self, adu: &mut [u8]) {
        let name = NAMES[usize::from(self.choices.u8()) % NAMES.len()];
        let at = usize::from(self.choices.u8()) * 4;
        if let Some(there) = adu.get_mut(at..at + 4) {
            there.copy_from_slice(name);
        }
    }
}

impl Drop for Between<'_> {
    fn drop(&mut self) {
        // The session holds files of the folder that is removed next.
        self.session = None;
    }
}
