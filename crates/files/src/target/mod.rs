//! A file on its way in: written under another name, verified block by block, then renamed.
//!
//! The file that was there before stays untouched until every block of the new one is verified; then one
//! `rename` replaces it. What is broken off is kept, with a record of the verified blocks ([`crate::state`]),
//! if there is enough of it to be worth taking up again. Several connections can write to one target: each
//! has a [`RangeWriter`] of its own, and they meet under a lock once a block.

mod claim;
mod outlet;
mod whole;
mod writer;

pub(crate) use claim::{Asked, Claim, Who};
pub use outlet::Outlet;
pub(crate) use writer::RangeWriter;

use whole::Whole;

use crate::Error;
use crate::blocks::{BLOCK_LEN, BlockHash, BlockHasher, Tree, block_count};
use crate::budget::{Account, Budget, RUN_BYTES};
use crate::folder::open_parent;
use crate::message::{Code, Hashing, Kind, Meta, Time};
use crate::name::{self, PART_SUFFIX, PathError, RemotePath, STATE_SUFFIX};
use crate::ranges::Ranges;
use crate::state::{Identity, RESUMED_BLOCKS_MIN, State};
use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Runs of blocks that are done that need no account.
const RUNS_FREE: usize = 16;

/// What comes of the file may be expected to be all of it, so that it needs no partial file.
pub(crate) fn is_short(meta: &Meta) -> bool {
    meta.size <= whole::LEN_MAX && !meta.sparse
}

/// How a file is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Storing {
    /// What is there may be replaced.
    pub(crate) replace: bool,
    /// The contents are on the disk before the file has its name.
    pub(crate) sync: bool,
    /// What is broken off because the disk is full is removed, and not kept to be taken up again.
    pub(crate) remove_when_full: bool,
    /// Who hashes the contents. What nobody has hashed cannot be taken up again, and is not kept.
    pub(crate) hashing: Hashing,
}

/// A file that is being received.
#[derive(Debug)]
pub(crate) struct Target {
    /// Where it is stored; `None`: what has come is checked and, without an outlet, forgotten.
    spot: Option<Spot>,
    /// The partial file; a short file has none until something comes that is not all of it.
    place: OnceLock<Place>,
    /// What takes the blocks that hold.
    outlet: Option<Arc<Outlet>>,
    /// For messages.
    path: Vec<u8>,
    meta: Meta,
    storing: Storing,
    /// The partial file was empty when it was opened, and one only has written in it: what was not written is
    /// zero.
    fresh: AtomicBool,
    progress: Mutex<Progress>,
}

/// Where a file will be, and what it will be called.
#[derive(Debug)]
struct Spot {
    /// The folder that holds it.
    dir: Arc<Dir>,
    name: Vec<u8>,
}

/// The partial file.
#[derive(Debug)]
struct Place {
    dir: Arc<Dir>,
    part: Vec<u8>,
    state_name: Vec<u8>,
    file: File,
    /// Device and inode of `file`.
    id: (u64, u64),
    /// Nothing was in `file` when it was opened.
    is_empty: bool,
}

#[derive(Debug)]
struct Progress {
    /// Blocks that are verified and written.
    done: Ranges,
    /// For what is known of them, where it is much.
    account: Account,
    /// Joins the hashes; given up when blocks are skipped as holes.
    tree: Option<Tree>,
    root: Option<BlockHash>,
    state: Option<State>,
    /// All of a short file, which came in one piece.
    whole: Option<Whole>,
    /// Blocks that the record tells of and that were not hashed again yet.
    unchecked: Vec<(u64, BlockHash)>,
    /// Range writers at work.
    writers: usize,
    finished: bool,
    /// Another target has taken the place of this one: what is there is not this one's to remove.
    given_up: bool,
    remove: bool,
}

impl Target {
    /// For the file at `path`, which will be in `dir`: opens the partial file, and takes up what is left of an earlier
    /// transfer of the same state of the same file. For a short file that waits until something has come.
    pub(crate) fn open(
        dir: Arc<Dir>,
        path: &RemotePath,
        meta: Meta,
        storing: Storing,
        memory: &Arc<Budget>,
    ) -> Result<Target, Error> {
        let shown = path.as_bytes();
        let Some(name) = path.name() else {
            return Err(Error::path(shown, PathError::Component("")));
        };
        let spot = Spot { dir, name: name.to_vec() };
        let is_short = is_short(&meta);
        // What takes the place of a short file is looked at when it does.
        if !is_short || !storing.replace {
            check_place(&spot.dir, name, shown, storing.replace)?;
        }
        let mut target = Target::new(Some(spot), shown, meta, storing, memory);
        if !is_short {
            target.take_up()?;
        }
        Ok(target)
    }

    /// There is a record of an earlier transfer of `path`, which would be in `dir`.
    pub(crate) fn has_record(dir: &Dir, path: &RemotePath) -> bool {
        let name = name::unfinished(path.name().unwrap_or_default(), STATE_SUFFIX);
        dir.symlink_metadata(OsStr::from_bytes(&name)).is_ok()
    }

    /// Removes what an earlier transfer of `path` below `root` has left, unless one is going on.
    pub(crate) fn remove_leftovers(root: &Dir, path: &RemotePath) -> Result<(), Error> {
        let Some(name) = path.name() else { return Ok(()) };
        let dir = open_parent(root, path)?;
        // Whoever holds the lock goes on; this one is refused then, in `open`.
        let part = name::unfinished(name, PART_SUFFIX);
        let _locked = open_part(&dir, &part, path.as_bytes())?;
        for name in [name::unfinished(name, STATE_SUFFIX), part] {
            match rustix::fs::unlinkat(&dir, OsStr::from_bytes(&name), AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => {
                    return Err(Error::os("remove what is left of", path.as_bytes(), error));
                }
            }
        }
        Ok(())
    }

    /// Removes what an earlier transfer has left of the file `name`, which is complete, unless one is going on.
    pub(crate) fn remove_stale(dir: &Dir, name: &[u8]) {
        let part = name::unfinished(name, PART_SUFFIX);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(dir, OsStr::from_bytes(&part), flags, Mode::empty())
        else {
            return;
        };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for name in [name::unfinished(name, STATE_SUFFIX), part] {
                let _ = rustix::fs::unlinkat(dir, OsStr::from_bytes(&name), AtFlags::empty());
            }
        }
    }

    /// Checks what comes for `path` and stores nothing.
    pub(crate) fn forgetting(
        path: &RemotePath,
        meta: Meta,
        hashing: Hashing,
        memory: &Arc<Budget>,
    ) -> Target {
        let storing = Storing { replace: false, sync: false, remove_when_full: false, hashing };
        Target::new(None, path.as_bytes(), meta, storing, memory)
    }

    /// Checks what comes for `path` and hands it on.
    pub(crate) fn passing_on(
        path: &RemotePath,
        meta: Meta,
        outlet: Arc<Outlet>,
        hashing: Hashing,
        memory: &Arc<Budget>,
    ) -> Target {
        let mut target = Target::forgetting(path, meta, hashing, memory);
        target.outlet = Some(outlet);
        target
    }

    fn new(
        spot: Option<Spot>,
        path: &[u8],
        meta: Meta,
        storing: Storing,
        memory: &Arc<Budget>,
    ) -> Target {
        let progress = Progress {
            done: Ranges::default(),
            account: memory.account(),
            tree: Some(Tree::new(block_count(meta.size))),
            root: (meta.size == 0 && storing.hashing.is_received())
                .then(|| blake3::hash(b"").into()),
            state: None,
            whole: None,
            unchecked: Vec::new(),
            writers: 0,
            finished: false,
            given_up: false,
            remove: false,
        };
        let (path, progress) = (path.to_vec(), Mutex::new(progress));
        let (place, fresh) = (OnceLock::new(), AtomicBool::new(true));
        Target { spot, place, outlet: None, path, meta, storing, fresh, progress }
    }

    fn take_up(&mut self) -> Result<(), Error> {
        let Some(spot) = &self.spot else { return Ok(()) };
        let size = self.meta.size;
        let place = spot.open_part(&self.path)?;
        let progress = self.progress.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !self.storing.hashing.is_received() {
            let _ = place.unlink(&place.state_name);
        } else if block_count(size) >= RESUMED_BLOCKS_MIN {
            let compared = self.storing.hashing.is_sent();
            let identity = Identity { version: self.meta.version, size, compared };
            let (state, mut blocks) = State::open(&place.dir, &place.state_name, identity)?;
            blocks.retain(|(index, _)| *index < block_count(size));
            blocks.reverse();
            *self.fresh.get_mut() = blocks.is_empty();
            progress.state = Some(state);
            progress.unchecked = blocks;
            progress.charge()?;
        }
        place.make_room(size, *self.fresh.get_mut(), &self.path)?;
        self.place = OnceLock::from(place);
        Ok(())
    }

    /// It has its partial file, which it keeps open.
    pub(crate) fn is_open(&self) -> bool {
        self.place.get().is_some()
    }

    /// It is not forgotten.
    fn is_stored(&self) -> bool {
        self.spot.is_some()
    }

    /// The partial file, which is opened if that was not done; nothing where nothing is stored.
    fn place(&self) -> Result<Option<&Place>, Error> {
        let Some(spot) = &self.spot else { return Ok(None) };
        if let Some(place) = self.place.get() {
            return Ok(Some(place));
        }
        let _alone = self.lock();
        if self.place.get().is_none() {
            check_place(&spot.dir, &spot.name, &self.path, self.storing.replace)?;
            let place = spot.open_part(&self.path)?;
            place.make_room(self.meta.size, true, &self.path)?;
            return Ok(Some(self.place.get_or_init(|| place)));
        }
        Ok(self.place.get())
    }

    /// Takes `bytes`, verified and all of the file; false where they have to be written to the partial file.
    fn take_whole(&self, bytes: &[u8]) -> Result<bool, Error> {
        let Some(spot) = &self.spot else { return Ok(false) };
        let mut progress = self.lock();
        if progress.whole.is_none() && !progress.finished && self.place.get().is_none() {
            progress.whole = whole::write(spot, bytes, &self.path)?;
        }
        Ok(progress.whole.is_some() || progress.finished)
    }

    /// Who hashes what comes.
    pub(crate) fn hashing(&self) -> Hashing {
        self.storing.hashing
    }

    /// Of block `index`.
    fn hasher(&self, index: u64) -> BlockHasher {
        match self.storing.hashing.is_received() {
            true => BlockHasher::new(index),
            false => BlockHasher::counting(),
        }
    }

    /// What is known of the file.
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What somebody has begun to write is somebody else's now: it is not zero.
    pub(crate) fn taken_over(&self) {
        self.fresh.store(false, Ordering::Relaxed);
    }

    /// Leaves the partial file, and the lock on it, to another target.
    pub(crate) fn give_up(&self) {
        let mut progress = self.lock();
        progress.given_up = true;
        progress.state = None;
        progress.unchecked.clear();
        if let Some(place) = self.place.get() {
            let _ = rustix::fs::flock(&place.file, FlockOperation::Unlock);
        }
    }

    /// The file is complete and has its name.
    pub(crate) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// Hashes up to `blocks` blocks that an earlier transfer left, and takes those that it hashed from `blocks`;
    /// true when none is left to hash.
    pub(crate) fn check_some(&self, blocks: &mut usize) -> Result<bool, Error> {
        while *blocks > 0 {
            let Some((index, hash)) = self.lock().unchecked.pop() else { return Ok(true) };
            *blocks -= 1;
            let mut hasher = BlockHasher::new(index);
            let range = self.block_range(index);
            // A file that cannot be read, or is shorter than it should be, is simply sent again.
            if self.hash_file(range.clone(), &mut hasher).is_err() || hasher.hash() != Some(hash) {
                continue;
            }
            let mut progress = self.lock();
            progress.done.insert(index..index + 1);
            if range == (0..self.meta.size) {
                progress.root = hasher.root();
            }
            if let Some(tree) = &mut progress.tree {
                tree.insert(index, hash);
            }
        }
        Ok(self.lock().unchecked.is_empty())
    }

    fn block_range(&self, index: u64) -> Range<u64> {
        let start = index * BLOCK_LEN;
        start..(start + BLOCK_LEN).min(self.meta.size)
    }

    /// Hashes bytes that are in the partial file, if there is one.
    fn hash_file(&self, range: Range<u64>, hasher: &mut BlockHasher) -> Result<(), Error> {
        if hasher.only_counts() {
            hasher.skip(range.end - range.start);
            return Ok(());
        }
        let Some(Place { file, .. }) = self.place.get() else { return Ok(()) };
        let mut buffer = [0; 32 << 10];
        let mut at = range.start;
        while at < range.end {
            let want = (range.end - at).min(buffer.len() as u64) as usize;
            match rustix::io::pread(file, &mut buffer[..want], at) {
                Ok(0) => return Err(Error::local(Code::Shrunk, &self.path)),
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    at += n as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::os("read", &self.path, error)),
            }
        }
        Ok(())
    }

    /// The bytes of `range` that are still missing, in pieces that begin and end with blocks.
    pub(crate) fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let blocks = range.start / BLOCK_LEN..block_count(range.end);
        let missing = self.lock().done.missing(blocks);
        missing
            .into_iter()
            .map(|b| b.start * BLOCK_LEN..(b.end * BLOCK_LEN).min(self.meta.size))
            .collect()
    }

    /// Bytes that are verified and written.
    pub(crate) fn done_bytes(&self) -> u64 {
        let missing: u64 = self.missing(0..self.meta.size).iter().map(|r| r.end - r.start).sum();
        self.meta.size - missing
    }

    /// Block `index` is written and verified; `contents` are for an outlet.
    fn block_done(&self, index: u64, hasher: &BlockHasher, contents: Vec<u8>) -> Result<(), Error> {
        let mut progress = self.lock();
        if !progress.done.insert(index..index + 1) {
            return Ok(());
        }
        progress.charge()?;
        if let Some(outlet) = &self.outlet {
            outlet.block(index, contents)?;
        }
        let Some(hash) = hasher.hash() else {
            progress.tree = None;
            return Ok(());
        };
        if let Some(state) = &mut progress.state {
            state.append(index, &hash)?;
        }
        if self.meta.size <= BLOCK_LEN {
            progress.root = hasher.root();
        }
        if let Some(tree) = &mut progress.tree {
            tree.insert(index, hash);
        }
        Ok(())
    }

    /// Blocks that lie in a hole.
    fn blocks_skipped(&self, blocks: Range<u64>) -> Result<(), Error> {
        let mut progress = self.lock();
        progress.tree = None;
        let missing = progress.done.missing(blocks);
        for range in missing {
            progress.done.insert(range.clone());
            if let Some(outlet) = &self.outlet {
                let bytes =
                    self.block_range(range.start).start..self.block_range(range.end - 1).end;
                outlet.zeros(range, bytes.end - bytes.start)?;
            }
        }
        progress.charge()
    }

    /// Notes why the transfer of this file ends: on a full disk what there is may have to go.
    pub(crate) fn fail(&self, error: &Error) {
        if error.is_no_space() && self.storing.remove_when_full {
            self.lock().remove = true;
        }
    }

    /// Everything is there but for what an outlet has not taken yet.
    pub(crate) fn is_draining(&self) -> bool {
        let progress = self.lock();
        let missing = !progress.done.missing(0..block_count(self.meta.size)).is_empty();
        self.outlet.is_some() && !progress.finished && progress.writers == 0 && !missing
    }

    /// If everything is there and nobody else is writing: sets permissions and times and gives the file its
    /// name. True when the file is complete.
    pub(crate) fn finish(&self) -> Result<bool, Error> {
        let mut progress = self.lock();
        let blocks = block_count(self.meta.size);
        if progress.finished {
            return Ok(true);
        }
        if progress.given_up {
            return Err(Error::local(Code::Busy, &self.path));
        }
        if progress.writers > 0 || !progress.done.missing(0..blocks).is_empty() {
            return Ok(false);
        }
        if progress.root.is_none() {
            progress.root = progress.tree.as_ref().and_then(Tree::root);
        }
        match &self.spot {
            Some(spot) if self.meta.size == 0 && self.place.get().is_none() => {
                progress.whole = whole::write(spot, b"", &self.path)?;
            }
            _ => {}
        }
        if let (Some(spot), Some(whole)) = (&self.spot, progress.whole.take()) {
            whole.give_name(spot, &self.path, &self.meta, self.storing)?;
            // Another copy of it came in pieces.
            if let Some(place) = self.place.get().filter(|place| place.is_ours()) {
                let _ = place.unlink(&place.part);
            }
            Target::remove_stale(&spot.dir, &spot.name);
            progress.finished = true;
            return Ok(true);
        }
        drop(progress);
        // A short file that is nothing but a hole, or where no file can be without a name, has none by now.
        let place = self.place()?;
        let mut progress = self.lock();
        if let (Some(spot), Some(place), false) = (&self.spot, place, progress.finished) {
            self.give_name(spot, place)?;
            progress.state = None;
            if block_count(self.meta.size) >= RESUMED_BLOCKS_MIN {
                let _ = place.unlink(&place.state_name);
            }
        }
        if let Some(outlet) = &self.outlet
            && !outlet.finish()?
        {
            return Ok(false);
        }
        progress.finished = true;
        Ok(true)
    }

    /// Permissions, time and name for what is complete.
    fn give_name(&self, spot: &Spot, place: &Place) -> Result<(), Error> {
        let os = |action| move |e: rustix::io::Errno| Error::os(action, &self.path, e);
        if self.storing.sync {
            rustix::fs::fdatasync(&place.file).map_err(os("write"))?;
        }
        rustix::fs::fchmod(&place.file, Mode::from_raw_mode(self.meta.mode.into()))
            .map_err(os("set the permissions of"))?;
        rustix::fs::futimens(&place.file, &timestamps(self.meta.mtime))
            .map_err(os("set the time of"))?;
        if !place.is_ours() {
            return Err(Error::local(Code::Changed, &self.path));
        }
        let (part, name) = (OsStr::from_bytes(&place.part), OsStr::from_bytes(&spot.name));
        let flags =
            if self.storing.replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&*place.dir, part, &*place.dir, name, flags)
            .map_err(os("replace"))?;
        if self.storing.sync { spot.sync().map_err(os("write the folder of")) } else { Ok(()) }
    }

    /// The hash of the whole file, once it is finished; nothing for a file with large holes.
    pub(crate) fn root(&self) -> Option<BlockHash> {
        self.lock().root
    }
}

impl Progress {
    /// Accounts for what is known of the blocks that are done, but for the little that any file needs.
    fn charge(&mut self) -> Result<(), Error> {
        let runs = self.done.runs().saturating_sub(RUNS_FREE) * RUN_BYTES;
        self.account.set(runs + self.unchecked.len() * size_of::<(u64, BlockHash)>())
    }
}

impl Drop for Target {
    /// Keeps what is worth keeping and removes the rest.
    fn drop(&mut self) {
        let progress = self.progress.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = self.place.get().filter(|_| !progress.finished && !progress.given_up)
        else {
            return;
        };
        let worth = progress.done.runs() > 0 || !progress.unchecked.is_empty();
        if progress.state.is_some() && worth && !progress.remove || !place.is_ours() {
            return;
        }
        for name in [&place.part, &place.state_name] {
            let _ = place.unlink(name);
        }
    }
}

impl Spot {
    /// Opens the partial file, and locks it against other transfers.
    fn open_part(&self, path: &[u8]) -> Result<Place, Error> {
        let part = name::unfinished(&self.name, PART_SUFFIX);
        let state_name = name::unfinished(&self.name, STATE_SUFFIX);
        let (file, opened) = open_part(&self.dir, &part, path)?;
        let (id, is_empty) = ((opened.dev(), opened.ino()), opened.len() == 0);
        Ok(Place { dir: Arc::clone(&self.dir), part, state_name, file, id, is_empty })
    }

    /// Has names that were given in the folder on the disk.
    fn sync(&self) -> rustix::io::Result<()> {
        // The handle only names the folder; what can be synchronised is opened through it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&*self.dir, ".", flags, Mode::empty());
        dir.and_then(rustix::fs::fsync)
    }
}

impl Place {
    /// Makes the partial file `size` bytes long; all of them zero if it is to be `fresh`.
    fn make_room(&self, size: u64, fresh: bool, path: &[u8]) -> Result<(), Error> {
        let os = |e| Error::os("make room for", path, e);
        // A file that was cut to nothing ext4 writes to the disk when it is closed.
        if fresh && !self.is_empty {
            self.file.set_len(0).map_err(os)?;
        }
        if size > 0 { self.file.set_len(size).map_err(os) } else { Ok(()) }
    }

    /// The partial file still has its name. Who keeps to the lock does not touch it; somebody may have tidied up.
    fn is_ours(&self) -> bool {
        let part = OsStr::from_bytes(&self.part);
        rustix::fs::statat(&*self.dir, part, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|there| (there.st_dev, there.st_ino) == self.id)
    }

    fn unlink(&self, name: &[u8]) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&*self.dir, OsStr::from_bytes(name), AtFlags::empty())
    }
}

/// The time `mtime` for modification; access stays as it is.
pub(crate) fn timestamps(mtime: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.s, tv_nsec: mtime.ns.into() },
    }
}

/// Refuses to replace what must not be replaced.
fn check_place(dir: &Dir, name: &[u8], path: &[u8], replace: bool) -> Result<(), Error> {
    match dir.symlink_metadata(OsStr::from_bytes(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::os("look at", path, error)),
        Ok(_) if !replace => Err(Error::local(Code::Exists, path)),
        Ok(there) => match Meta::of(&there).kind {
            Kind::File | Kind::Link => Ok(()),
            Kind::Folder | Kind::Other | Kind::Unknown(_) => {
                Err(Error::local(Code::NotAFile, path))
            }
        },
    }
}

/// Opens the partial file and locks it against other transfers; what it was then.
fn open_part(dir: &Dir, part: &[u8], path: &[u8]) -> Result<(File, Metadata), Error> {
    let os = |e| Error::os("write", path, e);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    // The one who held the lock may have renamed the file while this one waited to open it.
    for _ in 0..16 {
        let file = dir.open_with(OsStr::from_bytes(part), &options).map_err(os)?;
        let opened = file.metadata().map_err(os)?;
        if !opened.is_file() {
            return Err(Error::local(Code::NotAFile, path));
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::local(Code::Busy, path)),
            Err(error) => return Err(os(error.into())),
        }
        match dir.symlink_metadata(OsStr::from_bytes(part)) {
            Ok(there) if (there.dev(), there.ino()) == (opened.dev(), opened.ino()) => {
                return Ok((file, opened));
            }
            _ => {}
        }
    }
    Err(Error::local(Code::Busy, path))
}
