//! A member's side of the group: contents go to their files, and hold when their hashes have come over the session.
//!
//! Whatever is wrong with what the group was sent, of a member that plays the sender or because it came too late, costs
//! the file at hand that, and no more: the rest of it is got over a session. What is here already is not taken again.

use super::Mail;
use crate::blocks::{BLOCK_LEN, BlockHash};
use crate::budget::Budget;
use crate::channel::ChannelError;
use crate::client::get::{Existing, Here};
use crate::client::{Event, Filter, Observer, unchanged};
use crate::error::{Error, Violation};
use crate::folder::Last;
use crate::inbox::Receiver;
use crate::machine::{Machine, Step, Work};
use crate::message::{Body, Hashed, Hashing, Hole, Meta, Prefix, Run};
use crate::meta::Found;
use crate::target::{RangeWriter, Storing, Target, is_short};
use crate::{Element, Kind, RemotePath};
use cap_std::fs::Dir;
use rustix::fs::AtFlags;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// Bytes of short files that wait for their hashes before no more is taken from the group.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Bytes of memory for what has begun to come and not ended.
const MEMORY_BYTES_MAX: usize = 256 << 20;

/// What of a cast is wanted, and where.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which files.
    pub filter: Filter,
    /// What to do where a file is already.
    pub existing: Existing,
    /// Files are on the disk before they have their name.
    pub sync: bool,
}

/// Takes what the group is sent: a machine that is finished when nothing more can come.
pub type Catcher = Machine<Catching>;

/// What it does.
pub struct Catching {
    mail: Arc<Mail>,
    dir: Arc<Dir>,
    wanted: Wanted,
    observer: Box<dyn Observer>,
    memory: Arc<Budget>,
    /// Where the last file went.
    parent: Last,
    /// By their numbers.
    files: Vec<(RemotePath, Meta)>,
    coming: HashMap<u32, Coming>,
    /// What an earlier transfer has left of these is to be hashed.
    leftovers: Vec<u32>,
    done: HashSet<RemotePath>,
    /// Files in whose place something is that may not be replaced.
    declined: HashSet<RemotePath>,
    /// What was found of an earlier transfer, in bytes.
    before: HashMap<RemotePath, u64>,
    /// Bytes of short files in memory.
    held: usize,
    bytes_done: u64,
    /// Bytes hashed or cleared, beyond those that arrived.
    work: u64,
}

impl std::fmt::Debug for Catching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catching").field("done", &self.done.len()).finish_non_exhaustive()
    }
}

/// A file of which something has come: contents or a hash.
#[derive(Debug, Default)]
struct Coming {
    contents: Contents,
    /// Hashes that no contents have been compared with.
    hashes: BTreeMap<u64, BlockHash>,
    /// The sender says that all of it was sent, and that it was one state of the file.
    is_sent: bool,
}

#[derive(Debug, Default)]
enum Contents {
    #[default]
    Nothing,
    /// All of a short file up to here.
    Short(Vec<u8>),
    Long {
        target: Arc<Target>,
        writers: Vec<RangeWriter>,
        /// Blocks that have come and have no hash.
        waiting: BTreeSet<u64>,
    },
    /// Not taken from the group: not wanted, or wrong.
    Left,
}

impl Catcher {
    /// Takes files of the cast that `mail` was told of, into the folder at `dir`.
    ///
    /// # Errors
    /// The folder cannot be opened; `mail` was not told of all files.
    pub fn new(
        mail: &Arc<Mail>,
        dir: &Path,
        wanted: Wanted,
        observer: Box<dyn Observer>,
    ) -> Result<Catcher, Error> {
        let shown = dir.as_os_str().as_bytes();
        let dir = Dir::open_ambient_dir(dir, cap_std::ambient_authority())
            .map_err(|e| Error::os("open the folder", shown, e))?;
        let mut catching = Catching {
            mail: Arc::clone(mail),
            dir: Arc::new(dir),
            wanted,
            observer,
            memory: Budget::new(MEMORY_BYTES_MAX),
            parent: Last::default(),
            files: mail.files().ok_or(Error::Ended)?,
            coming: HashMap::new(),
            leftovers: Vec::new(),
            done: HashSet::new(),
            declined: HashSet::new(),
            before: HashMap::new(),
            held: 0,
            bytes_done: 0,
            work: 0,
        };
        catching.look();
        Ok(Machine::of(catching, Element::Octets, true))
    }

    /// Hashes some of what earlier transfers have left; true when there is none. Before the group is joined.
    pub fn check_some(&mut self) -> bool {
        self.work.check_some()
    }

    /// Bytes of contents that came and hold, or were here.
    pub fn bytes_done(&self) -> u64 {
        self.work.bytes_done
    }

    /// What is here, and what was wanted. Of files that are not complete what has come is kept where there is enough of it,
    /// for who gets them.
    pub fn into_here(self) -> Here {
        let Catching { files, wanted, done: whole, declined, before, .. } = self.work;
        let is_told =
            |path: &RemotePath| is_taken(&wanted.filter, path) && !declined.contains(path);
        let told = files.into_iter().filter(|(path, _)| is_told(path)).collect();
        Here { whole, before, told }
    }
}

impl Catching {
    /// Finds out what is not to be taken, and what is here in part.
    fn look(&mut self) {
        for number in 0..self.files.len() as u32 {
            let (path, meta) = &self.files[number as usize];
            let taken = is_taken(&self.wanted.filter, path);
            let (path, meta) = (path.clone(), *meta);
            let stays = taken && self.stays(&path, &meta);
            if stays && self.wanted.existing == Existing::Refuse {
                self.declined.insert(path.clone());
            }
            if !taken || meta.size == 0 || stays {
                let contents = Contents::Left;
                self.coming.insert(number, Coming { contents, ..Coming::default() });
            } else if !is_short(&meta)
                && let Ok(dir) = self.parent.parent_if_there(&self.dir, &path)
                && Target::has_record(&dir, &path)
            {
                self.leftovers.push(number);
            }
        }
        self.parent.forget();
    }

    /// What is there stays, whatever comes.
    fn stays(&mut self, path: &RemotePath, meta: &Meta) -> bool {
        if self.wanted.existing == Existing::Replace {
            return false;
        }
        let Ok(dir) = self.parent.parent_if_there(&self.dir, path) else { return false };
        let name = OsStr::from_bytes(path.name().unwrap_or_default());
        let Ok(there) = rustix::fs::statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return false;
        };
        let found = Found::of_stat(&there);
        self.wanted.existing == Existing::Refuse
            || found.kind == Kind::File && unchanged((found.mtime, found.len), meta).is_some()
    }

    fn check_some(&mut self) -> bool {
        let Some(number) = self.leftovers.last().copied() else { return true };
        let mut blocks = 16;
        let target = match self.coming.get(&number).map(|coming| &coming.contents) {
            Some(Contents::Long { target, .. }) => Ok(Arc::clone(target)),
            _ => self.open(number),
        };
        let checked = target.and_then(|target| {
            let is_checked = target.check_some(&mut blocks)?;
            let writers = if is_checked { self.writers(&target)? } else { Vec::new() };
            Ok((is_checked, Contents::Long { target, writers, waiting: BTreeSet::new() }))
        });
        let (is_checked, contents) = checked.unwrap_or_else(|error| {
            tracing::debug!(%error, "left to a session");
            (true, Contents::Left)
        });
        if let (true, Contents::Long { target, .. }) = (is_checked, &contents) {
            let (path, bytes) = (&self.files[number as usize].0, target.done_bytes());
            if bytes > 0 {
                self.bytes_done += bytes;
                self.before.insert(path.clone(), bytes);
                self.observer.event(Event::Resumed { path, bytes });
            }
        }
        self.coming.insert(number, Coming { contents, ..Coming::default() });
        if is_checked {
            self.leftovers.pop();
        }
        false
    }

    /// Opens what file `number` is written to.
    fn open(&mut self, number: u32) -> Result<Arc<Target>, Error> {
        let (path, meta) = &self.files[number as usize];
        let storing = Storing {
            replace: self.wanted.existing != Existing::Refuse,
            sync: self.wanted.sync,
            remove_when_full: false,
            hashing: Hashing::Both,
        };
        let parent = self.parent.parent(&self.dir, path)?;
        Target::open(parent, path, *meta, storing, &self.memory).map(Arc::new)
    }

    /// For what is missing of it.
    fn writers(&self, target: &Arc<Target>) -> Result<Vec<RangeWriter>, Error> {
        let missing = target.missing(0..target.meta().size).into_iter();
        missing.map(|range| RangeWriter::new(Arc::clone(target), range, &self.memory)).collect()
    }

    /// Contents of file `number`, or so many zeros, from `position` on.
    fn take(&mut self, number: u32, position: u64, bytes: Result<&[u8], u64>) -> Result<(), Error> {
        let meta = self.files[number as usize].1;
        if self.coming.get(&number).is_none_or(|c| matches!(c.contents, Contents::Nothing)) {
            let contents = match is_short(&meta) {
                true => Contents::Short(Vec::new()),
                false => {
                    let target = self.open(number)?;
                    let writers = self.writers(&target)?;
                    Contents::Long { target, writers, waiting: BTreeSet::new() }
                }
            };
            self.coming.entry(number).or_default().contents = contents;
        }
        let coming = self.coming.entry(number).or_default();
        match (&mut coming.contents, bytes) {
            (Contents::Nothing | Contents::Left, _) => {}
            (Contents::Short(come), Ok(bytes)) => {
                let end = position.saturating_add(bytes.len() as u64);
                if position != come.len() as u64 || end > meta.size {
                    return Err(Violation::DataRange { start: position, end }.into());
                }
                come.extend_from_slice(bytes);
                self.held += bytes.len();
            }
            (Contents::Short(_), Err(_)) => {
                return Err(Violation::DataRange { start: position, end: position }.into());
            }
            (Contents::Long { writers, waiting, .. }, bytes) => {
                let Some(writer) = writers.iter_mut().find(|w| w.range().contains(&position))
                else {
                    return Ok(());
                };
                let end = position.saturating_add(bytes.map_or_else(|len| len, |b| b.len() as u64));
                let block = position / BLOCK_LEN;
                let ends = end.is_multiple_of(BLOCK_LEN) || end == meta.size;
                let written = match bytes {
                    Ok(bytes) => writer.contents(position, bytes, None),
                    Err(len) => writer.hole(position, len),
                };
                self.work += writer.take_work();
                written?;
                if ends {
                    waiting.insert(block);
                }
            }
        }
        self.settle(number)
    }

    /// What the sender says of a block, or of a whole file.
    fn hear(&mut self, hashed: &Hashed) -> Result<(), Error> {
        let Hashed { file, block, ref hash } = *hashed;
        if self.files.get(file as usize).is_none_or(|(path, _)| self.done.contains(path)) {
            return Ok(());
        }
        let coming = self.coming.entry(file).or_default();
        if matches!(coming.contents, Contents::Left) {
            return Ok(());
        }
        match hash.first_chunk() {
            Some(hash) => drop(coming.hashes.insert(block.into(), *hash)),
            None => coming.is_sent = true,
        }
        self.settle(file)
    }

    /// Compares what has come with the hashes that have; gives the file its name when it is complete.
    fn settle(&mut self, number: u32) -> Result<(), Error> {
        let meta = self.files[number as usize].1;
        let Some(coming) = self.coming.get_mut(&number) else { return Ok(()) };
        let target = match &mut coming.contents {
            Contents::Nothing | Contents::Left => return Ok(()),
            Contents::Short(come) => {
                if come.len() as u64 != meta.size || !coming.is_sent {
                    return Ok(());
                }
                let Some(hash) = coming.hashes.remove(&0) else { return Ok(()) };
                let come = std::mem::take(come);
                self.held -= come.len();
                let target = self.open(number)?;
                let mut writer = RangeWriter::new(Arc::clone(&target), 0..meta.size, &self.memory)?;
                writer.contents(0, &come, Some(hash))?;
                self.bytes_done += meta.size;
                target
            }
            Contents::Long { target, writers, waiting } => {
                let known: Vec<u64> = waiting
                    .iter()
                    .filter(|block| coming.hashes.contains_key(block))
                    .copied()
                    .collect();
                for block in known {
                    waiting.remove(&block);
                    let end = (block + 1).saturating_mul(BLOCK_LEN).min(meta.size);
                    let hash = coming.hashes.remove(&block);
                    let writer = writers.iter_mut().find(|w| w.range().contains(&(end - 1)));
                    if let (Some(writer), Some(hash)) = (writer, hash) {
                        writer.contents(end, &[], Some(hash))?;
                    }
                }
                if !coming.is_sent || !writers.iter().all(RangeWriter::is_complete) {
                    return Ok(());
                }
                writers.clear();
                let before = self.before.get(&self.files[number as usize].0);
                self.bytes_done += meta.size.saturating_sub(before.copied().unwrap_or_default());
                Arc::clone(target)
            }
        };
        if target.finish()? {
            let (path, size) = (&self.files[number as usize].0, meta.size);
            self.observer.event(Event::Done { path, size, hash: target.root() });
            self.done.insert(path.clone());
            self.coming.remove(&number);
        }
        Ok(())
    }

    /// What is wrong with one file leaves it to a session.
    fn left(&mut self, number: u32, result: Result<(), Error>) -> Result<(), Error> {
        let error = match result {
            Ok(()) => return Ok(()),
            Err(error @ (Error::Channel(_) | Error::Ended)) => return Err(error),
            Err(error) => error,
        };
        tracing::debug!(number, %error, "left to a session");
        let coming = self.coming.entry(number).or_default();
        if let Contents::Short(come) = &coming.contents {
            self.held -= come.len();
        }
        coming.contents = Contents::Left;
        coming.hashes.clear();
        Ok(())
    }
}

/// Whether the filter takes a file, and all folders that it lies in.
fn is_taken(filter: &Filter, path: &RemotePath) -> bool {
    let bytes = path.as_bytes();
    let mut slashes = (0..bytes.len()).filter(|at| bytes[*at] == b'/');
    slashes.all(|at| filter.takes_folder(&bytes[..at])) && filter.takes_file(bytes)
}

impl Work for Catching {
    fn receiver(&mut self) -> &mut dyn Receiver {
        self
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        if let Some(why) = self.mail.refusal() {
            return Err(ChannelError { reason: why }.into());
        }
        for hashed in self.mail.take_hashes() {
            step.turn.worked = true;
            let heard = self.hear(&hashed);
            self.left(hashed.file, heard)?;
        }
        Ok(())
    }

    fn ends(&self, peer_finished: bool) -> Result<bool, Error> {
        Ok(peer_finished && (self.mail.is_over() || self.mail.is_closed()))
    }

    fn rest(&mut self) {
        self.parent.forget();
    }
}

impl Receiver for Catching {
    fn element(&self) -> Element {
        Element::Octets
    }

    /// The hash that came with them may be anybody's: it says nothing.
    fn contents(&mut self, run: Run, bytes: &[u8], _: Option<BlockHash>) -> Result<(), Error> {
        if run.xid as usize >= self.files.len() || bytes.is_empty() {
            return Ok(());
        }
        let taken = self.take(run.xid, run.position, Ok(bytes));
        self.left(run.xid, taken)
    }

    /// Zeros within a block count for its hash. That whole blocks are zero nobody has said over a session.
    fn hole(&mut self, number: u32, Hole { piece, .. }: Hole) -> Result<(), Error> {
        let Some((_, meta)) = self.files.get(number as usize) else { return Ok(()) };
        if piece.length == 0 || crate::blocks::is_bordered(&piece.range(), meta.size) {
            return Ok(());
        }
        let taken = self.take(number, piece.position, Err(piece.length));
        self.left(number, taken)
    }

    /// No other message comes from the group.
    fn message(&mut self, prefix: Prefix, _: Body<'static>) -> Result<(), Error> {
        tracing::debug!(kind = prefix.kind, "dropped a message of the group");
        Ok(())
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn accepts(&self) -> bool {
        self.held < HELD_BYTES_MAX
    }
}
