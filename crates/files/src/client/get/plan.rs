//! What is to be got, shared by all connections.

use super::destination::{Destination, FilePlace, Place};
use super::folders::{Base, Folder};
use super::recheck::Recheck;
use super::worker::Getter;
use super::{Existing, Options, Outlet};
use crate::blocks::BlockHash;
use crate::budget::Budget;
use crate::client::Journal;
use crate::client::ledger::{self, Fate, Shared};
use crate::client::report::{Event, Observer, Skip, Totals};
use crate::client::{list, range_len, unchanged};
use crate::folder::Last;
use crate::message::{Code, Entry, Kind, Meta};
use crate::meta::Found;
use crate::name::{PathError, link_stays_inside};
use crate::target::{Storing, Target};
use crate::{Element, Error, RemotePath, place};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Jobs that may wait before no more entries of the folder are asked for.
pub(super) const JOBS_MAX: usize = 4096;

/// Bytes of memory for what a server has begun to send and not ended.
const MEMORY_BYTES_MAX: usize = 256 << 20;

/// What is to be got, shared by all connections.
pub struct Plan {
    pub(super) remote: RemotePath,
    pub(super) options: Options,
    /// What takes the file, if that is no file.
    outlet: Option<Arc<Outlet>>,
    /// For what the server has begun to send and not ended.
    pub(super) memory: Arc<Budget>,
    /// Where the last file went.
    parent: Mutex<Last>,
    pub(super) shared: Shared<Job, Walk>,
}

type Ledger = ledger::Ledger<Job, Walk>;

/// Where the listing is.
pub(super) struct Walk {
    destination: Destination,
    /// The folders that the listing is in, outermost first; the first is the root.
    folders: Vec<Arc<Folder>>,
    paths: Vec<RemotePath>,
    /// Everything below this depth is in a folder that is left out; the root lies at -1.
    skip_below: Option<i64>,
    /// Something was found that the filter takes.
    has_match: bool,
    /// Files that there are to be, and that the listing has not had.
    told: BTreeMap<RemotePath, Meta>,
    /// Of the files that there were to be, those that are here.
    told_here: u64,
}

/// Something to do for one connection.
#[derive(Debug)]
pub(super) enum Job {
    /// Find out what is there.
    Look,
    /// List the folder that is there.
    List,
    /// A whole file, nothing of which was begun.
    File(Arc<File>),
    /// A range of a file that is open.
    Range { file: Arc<File>, target: Arc<Target>, range: Range<u64> },
}

/// A file to get.
#[derive(Debug)]
pub(super) struct File {
    /// On the server.
    pub(super) remote: RemotePath,
    /// Below the root of the transfer.
    pub(super) path: RemotePath,
    /// Below the folder of the destination.
    local: RemotePath,
    pub(super) meta: Meta,
    folder: Arc<Folder>,
    /// There was to be one.
    is_told: bool,
    /// It lies in the folder that is got.
    is_listed: bool,
    /// The hash of its contents, if an interrupted run completed it.
    pub(super) recorded: Option<BlockHash>,
    pub(super) fate: Fate,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl Plan {
    /// Gets `remote`, a file or a folder with all that is in it.
    pub fn new(
        remote: RemotePath,
        destination: Destination,
        mut options: Options,
        observer: Box<dyn Observer>,
    ) -> Arc<Plan> {
        let outlet = match &destination.file {
            FilePlace::Outlet(outlet) if !options.forget => Some(Arc::clone(outlet)),
            _ => None,
        };
        let (folders, paths, skip_below) = (Vec::new(), Vec::new(), None);
        let here = options.here.as_mut().map(Arc::make_mut);
        let told = here.map(|here| std::mem::take(&mut here.told)).unwrap_or_default();
        let walk =
            Walk { destination, folders, paths, skip_below, has_match: false, told, told_here: 0 };
        let shared = Shared::new(observer, VecDeque::from([Job::Look]), walk);
        let (memory, parent) = (Budget::new(MEMORY_BYTES_MAX), Mutex::default());
        Arc::new(Plan { remote, options, outlet, memory, parent, shared })
    }

    /// A worker for a connection whose contents are marshalled as `element`.
    pub fn worker(self: &Arc<Self>, element: Element) -> super::Worker {
        Getter::worker(Arc::clone(self), element)
    }

    /// Everything was got, skipped or has failed.
    pub fn is_finished(&self) -> bool {
        let ledger = self.lock();
        ledger.jobs.is_empty() && ledger.active == 0
    }

    /// It is finished, and no listing was broken off, which leaves nothing to do as it is not begun twice.
    pub fn is_done(&self) -> bool {
        self.is_finished() && !self.lock().is_cut_short
    }

    /// What has come of a transfer that was broken off is kept, to go on from there.
    pub fn keeps(&self) -> bool {
        let is_kept = self.options.hashing.is_received();
        self.outlet.is_none() && !self.options.forget && is_kept
    }

    /// Sums so far.
    pub fn totals(&self) -> Totals {
        self.shared.totals()
    }

    /// Of the files that there were to be ([`Here::told`](super::Here::told)) so many are here.
    pub fn told_here(&self) -> u64 {
        self.lock().told_here
    }

    /// The first failure, for the exit code and the last line.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.take_error()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.shared.lock()
    }

    /// Returns `true` if what is left is given up.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// The next job, which the worker must end with [`Plan::end`] or give back.
    pub(super) fn take(&self) -> Option<Job> {
        self.lock().take()
    }

    /// What one connection may take of the rate: connections that will have nothing to do get nothing.
    pub(super) fn bytes_per_s(&self) -> u64 {
        let ledger = self.lock();
        let all = self.options.connections.max(1) as usize;
        let share = match ledger.totals.all_found {
            true => (ledger.active + ledger.jobs.len()).clamp(1, all),
            // There may be more to come.
            false => all,
        };
        self.options.bytes_per_s.div_ceil(share as u64)
    }

    /// A job that was taken is ended.
    pub(super) fn end(&self) {
        self.shared.end();
    }

    /// A job that was taken is for somebody else.
    pub(super) fn give_back(&self, job: Job) {
        let mut ledger = self.lock();
        ledger.active -= 1;
        match job {
            // What was listed once must not be listed again: files would be got twice. Why the connection ended is
            // reported with the connection.
            Job::List => ledger.is_cut_short = true,
            _ if ledger.has_ended => {}
            job => ledger.jobs.push_front(job),
        }
    }

    /// One more range of an open file for everybody.
    pub(super) fn add_range(&self, file: &Arc<File>, target: &Arc<Target>, range: Range<u64>) {
        let job = Job::Range { file: file.clone(), target: target.clone(), range };
        let mut ledger = self.lock();
        if !ledger.has_ended {
            ledger.jobs.push_front(job);
        }
    }

    /// More entries can be taken.
    pub(super) fn wants_entries(&self) -> bool {
        self.lock().jobs.len() < JOBS_MAX / 2
    }

    /// More contents can be taken.
    pub(super) fn wants_contents(&self) -> bool {
        self.outlet.as_ref().is_none_or(|outlet| outlet.has_room())
    }

    /// What was found at the path itself.
    pub(super) fn found(&self, entry: &Entry) -> Result<(), Error> {
        let mut guard = self.lock();
        let ledger = &mut *guard;
        let Destination { file, folder: whole } = &ledger.destination;
        let root = RemotePath::default();
        match entry.meta.kind {
            Kind::File => {
                // What is handed on needs no place; the folder's will do.
                let Place { dir, name } = match file {
                    FilePlace::Named(place) => place,
                    FilePlace::Outlet(_) => whole,
                };
                if name.as_bytes().is_empty() && self.outlet.is_none() {
                    return Err(Error::path(b"", PathError::Component("")));
                }
                let name = name.clone();
                let dir = dir.try_clone().map_err(|e| Error::os("open", b".", e))?;
                let base = Base::new(&Place { dir, name: root.clone() })?;
                let folder = Folder {
                    base,
                    path: root.clone(),
                    meta: None,
                    above: None,
                    is_lazy: false,
                    is_ready: true.into(),
                };
                let shown = RemotePath::new(self.remote.name().unwrap_or_default().to_vec());
                let file = File {
                    remote: self.remote.clone(),
                    path: shown.unwrap_or_default(),
                    local: name,
                    meta: entry.meta,
                    folder: Arc::new(folder),
                    is_told: false,
                    is_listed: false,
                    recorded: None,
                    fate: Fate::default(),
                };
                match self.unchanged(&file.folder, &file.local, &file.meta) {
                    Some(why) => ledger.skip(&file.path, why),
                    None => add(ledger, file, &self.options),
                }
                ledger.totals.all_found = true;
                Ok(())
            }
            Kind::Folder if self.outlet.is_some() => {
                Err(Error::local(Code::NotAFile, self.remote.as_bytes()))
            }
            Kind::Folder => {
                let (base, forget) = (Base::new(whole)?, self.options.forget);
                // Where no name was given the folder is the user's own and keeps its time.
                let is_made = !whole.name.as_bytes().is_empty() && !forget;
                let is_lazy = self.options.filter.has_include();
                if !is_lazy && !forget {
                    base.dir()?;
                }
                let folder = Folder {
                    base,
                    path: root.clone(),
                    meta: is_made.then_some(entry.meta),
                    above: None,
                    is_lazy,
                    is_ready: forget.into(),
                };
                (ledger.folders, ledger.paths) = (vec![Arc::new(folder)], vec![root]);
                ledger.jobs.push_back(Job::List);
                Ok(())
            }
            Kind::Link | Kind::Other | Kind::Unknown(_) => {
                Err(Error::local(Code::NotAFile, self.remote.as_bytes()))
            }
        }
    }

    /// An entry of the folder, in the order of the walk.
    pub(super) fn entry(&self, entry: &Entry) -> Result<(), Error> {
        let mut guard = self.lock();
        let ledger = &mut *guard;
        let depth = entry.depth as usize;
        ledger.folders.truncate(depth + 1);
        ledger.paths.truncate(depth + 1);
        if ledger.has_ended {
            return Ok(());
        }
        if ledger.skip_below.is_some_and(|skip| i64::from(entry.depth) > skip) {
            ledger.hold_place(entry);
            return Ok(());
        }
        ledger.skip_below = None;
        let path = list::below(&ledger.paths, entry)?;
        let Some(parent) = ledger.folders.last().cloned() else { return Ok(()) };
        let told = ledger.told.remove(&path);
        if let Some(meta) = told.filter(|_| entry.meta.kind != Kind::File) {
            // What has taken its place was not cast, and takes no file's place here.
            ledger.skip_below = (entry.meta.kind == Kind::Folder).then_some(entry.depth.into());
            ledger.hold_place(entry);
            self.lost(ledger, &parent, &path, &meta);
            return Ok(());
        }
        match entry.meta.kind {
            Kind::Folder if !self.options.filter.takes_folder(path.as_bytes()) => {
                ledger.skip_below = Some(entry.depth.into());
                ledger.hold_place(entry);
            }
            Kind::Folder => {
                if entry.unread {
                    ledger.fail(&path, list::unread(&self.remote, &path));
                }
                self.folder(ledger, path.clone(), &parent, entry);
                if entry.unread || ledger.skip_below.is_some() {
                    self.failed_below(ledger, &path);
                }
            }
            _ if !self.options.filter.takes_file(path.as_bytes()) => {}
            Kind::Other | Kind::Unknown(_) => ledger.skip(&path, Skip::NotAFile),
            Kind::Link if !link_stays_inside(&entry.target, depth) => {
                ledger.skip(&path, Skip::LinkLeadsOut)
            }
            Kind::Link if self.options.forget => {}
            Kind::Link => {
                ledger.has_match = true;
                let dir = parent.base.dir_if_there();
                if dir.is_some_and(|dir| place::has_link(dir, &path, &entry.target)) {
                    return Ok(());
                }
                if !self.prepare(ledger, &parent) {
                    return Ok(());
                }
                let replace = self.options.existing != Existing::Refuse;
                let made = parent
                    .base
                    .dir()
                    .and_then(|dir| place::make_link(dir, &path, &entry.target, replace));
                match made {
                    Ok(()) => {}
                    Err(error) if self.refuses(&error) => ledger.skip(&path, Skip::Exists),
                    Err(error) => ledger.fail(&path, error),
                }
            }
            Kind::File => self.file(ledger, path, parent, (entry.meta, told.is_some())),
        }
        Ok(())
    }

    /// A file of the folder, that there was to be or not.
    fn file(
        &self,
        ledger: &mut Ledger,
        path: RemotePath,
        folder: Arc<Folder>,
        (meta, is_told): (Meta, bool),
    ) {
        ledger.has_match = true;
        if self.is_here(ledger, &folder, &path, &meta) {
            ledger.told_here += u64::from(is_told);
            return;
        }
        if self.outlet.is_none() && !self.prepare(ledger, &folder) {
            return;
        }
        let mut names = path.as_bytes().split(|&byte| byte == b'/');
        let remote = names.try_fold(self.remote.clone(), |remote, name| remote.join(name));
        let remote = match remote {
            Ok(remote) => remote,
            // Below the served folder it lies deeper than below this one.
            Err(problem) => return ledger.fail(&path, Error::path(path.as_bytes(), problem)),
        };
        let recorded = self.journal().and_then(|journal| journal.find(&path, meta.version));
        let (local, fate, is_listed) = (path.clone(), Fate::default(), true);
        let file = File { remote, path, local, meta, folder, is_told, is_listed, recorded, fate };
        add(ledger, file, &self.options);
    }

    /// A folder in the one that is listed. One that cannot be made stands for what is in it.
    fn folder(&self, ledger: &mut Ledger, path: RemotePath, above: &Arc<Folder>, entry: &Entry) {
        let forget = self.options.forget;
        ledger.totals.lost.count(&entry.meta);
        let folder = Arc::new(Folder {
            base: Arc::clone(&above.base),
            path: path.clone(),
            meta: (!forget).then_some(entry.meta),
            above: Some(Arc::clone(above)),
            is_lazy: above.is_lazy,
            is_ready: forget.into(),
        });
        ledger.folders.push(Arc::clone(&folder));
        ledger.paths.push(path);
        if !forget && !folder.is_lazy && !folder.is_there() {
            self.prepare(ledger, &folder);
        }
    }

    /// Makes the folders that the listing is in, up to `folder`, ready to store something. One that cannot be made is a
    /// failure, and what is in it is left out: `false`.
    fn prepare(&self, ledger: &mut Ledger, folder: &Folder) -> bool {
        let Err((path, error)) = folder.prepare() else { return true };
        ledger.skip_below = Some(path.depth() as i64 - 1);
        ledger.fail(&path, error);
        false
    }

    /// Counts a file that has come another way or may stay, if it has.
    fn is_here(
        &self,
        ledger: &mut Ledger,
        folder: &Folder,
        path: &RemotePath,
        meta: &Meta,
    ) -> bool {
        if self.has_whole(path) {
            ledger.have(meta, self.before(path));
        } else if let Some(why) = self.unchanged(folder, path, meta) {
            ledger.skip(path, why);
        } else {
            return false;
        }
        true
    }

    /// There was to be a file that the folder has not: it is here, or it has failed.
    fn lost(&self, ledger: &mut Ledger, folder: &Folder, path: &RemotePath, meta: &Meta) {
        if self.is_here(ledger, folder, path, meta) {
            ledger.told_here += 1;
            return;
        }
        ledger.totals.files += 1;
        ledger.totals.bytes = ledger.totals.bytes.saturating_add(meta.size);
        ledger.fail(path, Error::Gone);
    }

    /// It has come another way.
    fn has_whole(&self, path: &RemotePath) -> bool {
        self.options.here.as_ref().is_some_and(|here| here.whole.contains(path))
    }

    /// Bytes of what has come another way that were here before.
    fn before(&self, path: &RemotePath) -> u64 {
        let before = self.options.here.as_ref().and_then(|here| here.before.get(path));
        before.copied().unwrap_or_default()
    }

    /// A folder has failed, and stands for what was to be in it and has not come.
    fn failed_below(&self, ledger: &mut Ledger, folder: &RemotePath) {
        let from = ledger
            .told
            .range::<RemotePath, _>(folder..)
            .take_while(|(path, _)| path.as_bytes().starts_with(folder.as_bytes()));
        let below = from.filter(|(path, _)| path.below(folder).is_some());
        let below: Vec<RemotePath> = below.map(|(path, _)| path.clone()).collect();
        for path in below {
            if let Some(meta) = ledger.told.remove(&path) {
                self.have_told(ledger, &path, &meta);
            }
        }
    }

    /// There was to be a file of which another failure stands, unless it is here.
    fn have_told(&self, ledger: &mut Ledger, path: &RemotePath, meta: &Meta) {
        if self.has_whole(path) {
            ledger.have(meta, self.before(path));
            ledger.told_here += 1;
        }
    }

    /// Why a file that is in its place may stay there, if it may.
    fn unchanged(&self, folder: &Folder, local: &RemotePath, meta: &Meta) -> Option<Skip> {
        if self.options.existing == Existing::Replace || self.options.forget {
            return None;
        }
        let name = local.name().map(OsStr::from_bytes)?;
        let dir = self.parent().parent_if_there(folder.base.dir_if_there()?, local).ok()?;
        let there = rustix::fs::statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        match (self.options.existing, Found::of_stat(&there)) {
            (Existing::Refuse, _) => Some(Skip::Exists),
            (_, Found { kind: Kind::File, mtime, len, .. }) => {
                let why = unchanged((mtime, len), meta);
                if why == Some(Skip::Same) {
                    Target::remove_stale(&dir, name.as_bytes());
                }
                why
            }
            _ => None,
        }
    }

    /// No more entries come: all were taken, or the listing has failed and stands for what was to be in it.
    pub(super) fn listed(&self, is_complete: bool) {
        let mut guard = self.lock();
        let ledger = &mut *guard;
        ledger.totals.all_found = true;
        let is_unmatched = self.options.filter.has_include() && !ledger.has_match;
        if is_complete && is_unmatched && ledger.totals.failed == 0 {
            ledger.fail(&RemotePath::default(), Error::Unmatched);
        }
        let folders = std::mem::take(&mut ledger.folders);
        let root = folders.first().filter(|_| is_complete);
        for (path, meta) in std::mem::take(&mut ledger.told) {
            match root {
                Some(root) => self.lost(ledger, root, &path, &meta),
                None => self.have_told(ledger, &path, &meta),
            }
        }
        drop(guard);
        // Innermost first, so that an outer folder's time is set after what is in it was touched.
        folders.into_iter().rev().for_each(drop);
    }

    /// Returns the journal, if anything is stored that can be compared with it.
    fn journal(&self) -> Option<&Journal> {
        self.options.journal.as_deref().filter(|_| self.keeps())
    }

    /// Opens a file that an interrupted run has completed, if it looks as that run left it.
    pub(super) fn recheck(&self, file: &Arc<File>) -> Option<Recheck> {
        let hash = file.recorded?;
        let name = file.local.name().map(OsStr::from_bytes)?;
        let base = file.folder.base.dir_if_there()?;
        let dir = self.parent().parent_if_there(base, &file.local).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let contents = rustix::fs::openat(&*dir, name, flags, Mode::empty()).ok()?;
        let there = Found::of_stat(&rustix::fs::fstat(&contents).ok()?).meta();
        let Meta { kind, mode, mtime, size, .. } = there;
        let is_left = (kind, mode, mtime, size)
            == (Kind::File, file.meta.mode, file.meta.mtime, file.meta.size);
        is_left.then(|| Recheck::new(Arc::clone(file), contents, hash))
    }

    /// A file that an interrupted run has completed holds.
    pub(super) fn kept(&self, file: &File) {
        let sizes = (file.meta.size, self.bytes_of(&file.meta));
        self.shared.kept(&file.fate, &file.path, sizes, file.recorded);
        if file.is_told {
            self.lock().told_here += 1;
        }
    }

    /// Opens the file to write to.
    pub(super) fn open(&self, file: &File) -> Result<Arc<Target>, Error> {
        let hashing = self.options.hashing;
        if self.options.forget {
            return Ok(Arc::new(Target::forgetting(&file.local, file.meta, hashing, &self.memory)));
        }
        if let Some(outlet) = &self.outlet {
            let outlet = Arc::clone(outlet);
            let target = Target::passing_on(&file.path, file.meta, outlet, hashing, &self.memory);
            return Ok(Arc::new(target));
        }
        let replace = self.options.existing != Existing::Refuse;
        let Options { sync, .. } = self.options;
        let storing = Storing { replace, sync, remove_when_full: false, hashing };
        if self.options.anew {
            Target::remove_leftovers(file.folder.base.dir()?, &file.local)?;
        }
        let dir = self.parent().parent(file.folder.base.dir()?, &file.local)?;
        Target::open(dir, &file.local, file.meta, storing, &self.memory).map(Arc::new)
    }

    fn parent(&self) -> MutexGuard<'_, Last> {
        self.parent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing happens now: no folder is kept open.
    pub(super) fn rest(&self) {
        self.parent().forget();
    }

    /// What is missing of an open file, as jobs; the first is the caller's own, the rest is for everybody.
    pub(super) fn split(&self, file: &Arc<File>, target: &Arc<Target>) -> Option<Job> {
        let here = target.done_bytes();
        // What is handed on in order comes over one connection.
        let step = if self.outlet.is_some() { u64::MAX } else { range_len(file.meta.size) };
        let mut pieces = VecDeque::new();
        for missing in target.missing(0..file.meta.size) {
            let mut at = missing.start;
            while at < missing.end {
                let end = missing.end.min(at.saturating_add(step));
                pieces.push_back(Job::Range {
                    file: file.clone(),
                    target: target.clone(),
                    range: at..end,
                });
                at = end;
            }
        }
        let mut ledger = self.lock();
        if ledger.has_ended {
            return pieces.pop_front();
        }
        if here > 0 {
            let all = here.saturating_mul(self.options.copies.into());
            match &self.options.here {
                Some(_) => ledger.caught(here, self.before(&file.path), all),
                None => ledger.resumed(&file.path, here, all),
            }
        }
        let first = pieces.pop_front();
        while let Some(job) = pieces.pop_back() {
            ledger.jobs.push_front(job);
        }
        first
    }

    /// A file is complete; told once.
    pub(super) fn done(&self, file: &File, target: &Target) {
        let is_first = self.shared.done(&file.fate, &file.path, &file.meta, || target.root());
        if is_first && file.is_told {
            self.lock().told_here += 1;
        }
        if is_first
            && file.is_listed
            && let (Some(journal), Some(hash)) = (self.journal(), target.root())
        {
            journal.append(&file.path, (file.meta.version, file.meta.size), Some(hash));
        }
    }

    /// A file grew while it was read.
    pub(super) fn grew(&self, file: &File) {
        if file.fate.grows() {
            self.lock().observer.event(Event::Grew { path: &file.path });
        }
    }

    /// A file has failed; told once.
    pub(super) fn failed(&self, file: &File, error: Error) {
        if self.refuses(&error) {
            // It appeared after its place was looked at.
            return self.shared.leave(&file.fate, &file.path, self.bytes_of(&file.meta));
        }
        self.shared.failed(&file.fate, &file.path, error);
    }

    /// Returns `true` if `error` says that something is there and may not be replaced, as the user wants it.
    fn refuses(&self, error: &Error) -> bool {
        self.options.existing == Existing::Refuse && error.code() == Code::Exists
    }

    /// Bytes of a file, in all copies of it.
    fn bytes_of(&self, meta: &Meta) -> u64 {
        meta.size.saturating_mul(self.options.copies.into())
    }

    /// What was to be got is not there or cannot be got.
    pub(super) fn failed_whole(&self, error: Error) {
        self.lock().fail(&RemotePath::default(), error);
    }
}

impl Drop for Plan {
    /// The journal of a transfer that needs no other run goes.
    fn drop(&mut self) {
        let (is_done, totals) = (self.is_done(), self.totals());
        if let Some(journal) = &self.options.journal
            && is_done
            && totals.all_found
            && totals.failed == 0
        {
            journal.remove();
        }
    }
}

impl Walk {
    /// Keeps the stacks as deep as the listing where nothing is made.
    fn hold_place(&mut self, entry: &Entry) {
        if let (Kind::Folder, Some(folder), Some(path)) =
            (entry.meta.kind, self.folders.last().cloned(), self.paths.last().cloned())
        {
            self.folders.push(folder);
            self.paths.push(path);
        }
    }
}

fn add(ledger: &mut Ledger, file: File, options: &Options) {
    ledger.totals.files += 1;
    ledger.totals.lost.count(&file.meta);
    // The server says how long its files are: together they can be more than there are numbers.
    let bytes = file.meta.size.saturating_mul(options.copies.into());
    ledger.totals.bytes = ledger.totals.bytes.saturating_add(bytes);
    ledger.jobs.push_back(Job::File(Arc::new(file)));
}
