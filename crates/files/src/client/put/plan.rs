//! What is to be put, shared by all connections.

use super::worker::Putter;
use super::{Options, Source, Upload};
use crate::client::Journal;
use crate::client::ledger::{self, Fate, Shared};
use crate::client::range_len;
use crate::client::report::{Observer, Skip, Totals};
use crate::folder::Last;
use crate::message::{Code, Kind, Meta};
use crate::name::{MAX_DEPTH, is_reserved, link_stays_inside};
use crate::target::is_short;
use crate::{Element, Error, PathError, RemotePath};
use cap_std::fs::{Dir, ReadDir};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// What is to be put, shared by all connections. The folder is walked as fast as files are sent.
pub struct Plan {
    pub(super) options: Options,
    /// Told to the server with each version, so that nothing of an earlier transfer fits; none to take it up.
    salt: Option<u128>,
    pub(super) shared: Shared<Job, Walk>,
    /// Folders whose contents are all there.
    touches: Arc<Mutex<VecDeque<(RemotePath, Meta)>>>,
}

type Ledger = ledger::Ledger<Job, Walk>;

/// Where the walk through what is put is.
pub(super) struct Walk {
    /// What is still to be looked at.
    uploads: Uploads,
    /// One of them that waits until all before it are there.
    held: Option<Upload>,
    /// The walk, outermost folder first.
    walk: Vec<Level>,
    /// Something was found that the filter takes.
    has_match: bool,
    /// The folder that was looked into last.
    last: Last,
}

/// One thing after the other; those that cannot be opened are failures.
type Uploads = Box<dyn Iterator<Item = Result<Upload, Error>> + Send>;

/// A thing to put: where it is here, and where on the server.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) dir: Dir,
    remote: RemotePath,
    /// What stands before its paths where they are told; empty when there is nothing else to put.
    label: RemotePath,
}

struct Level {
    root: Arc<Root>,
    entries: ReadDir,
    /// Below the root of the transfer.
    path: RemotePath,
    folder: Arc<Folder>,
}

/// A folder on the server, whose permissions and time are set when all that is in it is there.
#[derive(Debug)]
struct Folder {
    remote: RemotePath,
    meta: Option<Meta>,
    /// The folder that holds it, whose turn comes later.
    above: Option<Arc<Folder>>,
    /// Something was found in it that is put, or it is put even if it is empty.
    is_used: AtomicBool,
    touches: Arc<Mutex<VecDeque<(RemotePath, Meta)>>>,
}

impl Folder {
    /// Something in it is put, so it will be there.
    fn uses(&self) {
        if !self.is_used.swap(true, Ordering::Relaxed)
            && let Some(above) = &self.above
        {
            above.uses();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(meta) = self.meta.filter(|_| *self.is_used.get_mut()) {
            let touch = (self.remote.clone(), meta);
            self.touches.lock().unwrap_or_else(PoisonError::into_inner).push_back(touch);
        }
    }
}

/// Something to do for one connection.
#[derive(Debug)]
pub(super) enum Job {
    /// Make a folder or a link: the thing and, for a link, its target.
    Make(Arc<File>, Vec<u8>),
    /// Find out whether a file is there already.
    Look(Arc<File>),
    /// Send a range of a file, or all of it.
    Send(Arc<File>, Range<u64>),
    /// Set permissions and time of a folder.
    Touch(RemotePath, Meta),
}

/// A file, folder or link to put.
#[derive(Debug)]
pub(super) struct File {
    pub(super) root: Arc<Root>,
    /// On the server.
    pub(super) remote: RemotePath,
    /// Below the folder of the source.
    pub(super) path: RemotePath,
    pub(super) meta: Meta,
    folder: Arc<Folder>,
    pub(super) fate: Fate,
    /// An interrupted run completed it.
    pub(super) is_recorded: bool,
    /// Ranges that are not stored yet.
    pub(super) ranges: AtomicU64,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Plan {
    /// Puts `source` on the server, under the path `remote`.
    pub fn new(
        source: Source,
        remote: RemotePath,
        options: Options,
        observer: Box<dyn Observer>,
    ) -> Arc<Plan> {
        let upload = Upload { source, remote, label: RemotePath::default(), after_all: false };
        Plan::of(std::iter::once(Ok(upload)), options, observer)
    }

    /// Puts one thing after the other; each is opened when its turn comes.
    pub fn of(
        uploads: impl Iterator<Item = Result<Upload, Error>> + Send + 'static,
        options: Options,
        observer: Box<dyn Observer>,
    ) -> Arc<Plan> {
        let walk = Walk {
            uploads: Box::new(uploads),
            held: None,
            walk: Vec::new(),
            has_match: false,
            last: Last::default(),
        };
        Arc::new(Plan {
            salt: options.anew.then(now_ns),
            options,
            shared: Shared::new(observer, VecDeque::new(), walk),
            touches: Arc::default(),
        })
    }

    /// A worker for a connection whose contents are marshalled as `element`.
    pub fn worker(self: &Arc<Self>, element: Element) -> super::Worker {
        Putter::worker(Arc::clone(self), element)
    }

    /// Everything was put, skipped or has failed.
    pub fn is_finished(&self) -> bool {
        let ledger = self.lock();
        if ledger.has_ended {
            return ledger.active == 0;
        }
        let touches = self.touches.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        ledger.totals.all_found
            && ledger.walk.is_empty()
            && ledger.jobs.is_empty()
            && ledger.active == 0
            && touches
    }

    /// What has come of a transfer that was broken off is kept, to go on from there.
    pub fn keeps(&self) -> bool {
        self.options.hashing.is_received()
    }

    /// Sums so far.
    pub fn totals(&self) -> Totals {
        self.shared.totals()
    }

    /// The first failure, for the exit code and the last line.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.take_error()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.shared.lock()
    }

    /// The next job, which the worker must end with [`Plan::end`] or give back.
    pub(super) fn take(&self) -> Option<Job> {
        let mut ledger = self.lock();
        if ledger.has_ended {
            return None;
        }
        while ledger.jobs.is_empty() && !ledger.totals.all_found {
            if !ledger.walk.is_empty() {
                self.walk(&mut ledger);
            } else if !self.next_upload(&mut ledger) {
                break;
            }
        }
        if ledger.jobs.is_empty() {
            let touch = self.touches.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            ledger.jobs.extend(touch.map(|(path, meta)| Job::Touch(path, meta)));
        }
        ledger.take()
    }

    /// A job that was taken is ended.
    pub(super) fn end(&self) {
        self.shared.end();
    }

    /// A job that was taken is for somebody else.
    pub(super) fn give_back(&self, job: Job) {
        let mut ledger = self.lock();
        ledger.active -= 1;
        if !ledger.has_ended {
            ledger.jobs.push_front(job);
        }
    }

    /// Looks at the next thing to put; false when it has to wait for those before it.
    fn next_upload(&self, ledger: &mut Ledger) -> bool {
        let upload = match ledger.held.take().map(Ok).or_else(|| ledger.uploads.next()) {
            Some(Ok(upload)) => upload,
            Some(Err(error)) => {
                ledger.fail(&RemotePath::default(), error);
                return true;
            }
            None => {
                let is_unmatched = self.options.filter.has_include() && !ledger.has_match;
                if is_unmatched && ledger.totals.failed == 0 {
                    ledger.fail(&RemotePath::default(), Error::Unmatched);
                }
                ledger.totals.all_found = true;
                return true;
            }
        };
        let touches = self.touches.lock().unwrap_or_else(PoisonError::into_inner).len();
        if upload.after_all && ledger.active + touches > 0 {
            ledger.held = Some(upload);
            return false;
        }
        let label = upload.label.clone();
        if let Err(error) = self.start(ledger, upload) {
            ledger.fail(&label, error);
        }
        true
    }

    fn start(&self, ledger: &mut Ledger, upload: Upload) -> Result<(), Error> {
        let Upload { source: Source { dir, name }, remote, label, .. } = upload;
        let metadata =
            dir.metadata(name.as_path()).map_err(|e| Error::os("look at", name.as_bytes(), e))?;
        ledger.last.forget();
        let meta = Meta::of(&metadata).with_attributes(&dir, &name, &mut ledger.last);
        let root = Arc::new(Root { dir, remote: remote.clone(), label });
        let folder = |meta| {
            let touches = Arc::clone(&self.touches);
            let (above, is_used) = (None, (!self.options.filter.has_include()).into());
            Arc::new(Folder { remote: remote.clone(), meta, above, is_used, touches })
        };
        match meta.kind {
            Kind::File => {
                let file = file(&root, remote.clone(), name, meta, folder(None));
                self.add_file(ledger, file);
                Ok(())
            }
            Kind::Folder => {
                let entries =
                    root.dir.entries().map_err(|e| Error::os("list", name.as_bytes(), e))?;
                // The served folder itself keeps its own time.
                let touched = (!remote.as_bytes().is_empty()).then_some(meta);
                let folder = folder(touched);
                let path = RemotePath::default();
                if touched.is_some() && !self.options.filter.has_include() {
                    let file = file(&root, remote.clone(), path.clone(), meta, folder.clone());
                    ledger.jobs.push_back(Job::Make(Arc::new(file), Vec::new()));
                }
                ledger.walk.push(Level { root, entries, path, folder });
                Ok(())
            }
            Kind::Link | Kind::Other | Kind::Unknown(_) => {
                Err(Error::local(Code::NotAFile, name.as_bytes()))
            }
        }
    }

    /// One step of the walk.
    fn walk(&self, ledger: &mut Ledger) {
        let Some(level) = ledger.walk.last_mut() else { return };
        let entry = match level.entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                let (path, shown) = (level.path.clone(), level.root.shown(&level.path));
                ledger.walk.pop();
                let error = Error::os("list", path.as_bytes(), error);
                return ledger.fail(&shown, error);
            }
            None => {
                ledger.walk.pop();
                return;
            }
        };
        let name = entry.file_name();
        let (path, folder, root) = (level.path.clone(), level.folder.clone(), level.root.clone());
        if is_reserved(name.as_bytes()) {
            return;
        }
        let path = match path.join(name.as_bytes()) {
            Ok(path) => path,
            Err(problem) => {
                let error = Error::path(name.as_bytes(), problem);
                return ledger.fail(&root.shown(&path), error);
            }
        };
        let os = |e| Error::os("look at", path.as_bytes(), e);
        match entry.metadata().map_err(os) {
            Ok(metadata) => {
                let meta = Meta::of(&metadata).with_attributes(&root.dir, &path, &mut ledger.last);
                if let Err(error) = self.entry(ledger, &root, &path, meta, folder) {
                    ledger.fail(&root.shown(&path), error);
                }
            }
            Err(error) => ledger.fail(&root.shown(&path), error),
        }
    }

    fn entry(
        &self,
        ledger: &mut Ledger,
        root: &Arc<Root>,
        path: &RemotePath,
        meta: Meta,
        folder: Arc<Folder>,
    ) -> Result<(), Error> {
        let filter = &self.options.filter;
        match meta.kind {
            Kind::Folder if !filter.takes_folder(path.as_bytes()) => {}
            Kind::Folder if ledger.walk.len() >= MAX_DEPTH => {
                return Err(Error::path(path.as_bytes(), PathError::TooDeep));
            }
            Kind::Folder => {
                let os = |e| Error::os("list", path.as_bytes(), e);
                let entries =
                    root.dir.open_dir(path.as_path()).and_then(|dir| dir.entries()).map_err(os)?;
                let remote = root.below(path)?;
                let touches = Arc::clone(&self.touches);
                ledger.totals.lost.count(&meta);
                let is_lazy = self.options.filter.has_include();
                let inner = Arc::new(Folder {
                    remote: remote.clone(),
                    meta: Some(meta),
                    above: Some(folder),
                    is_used: (!is_lazy).into(),
                    touches,
                });
                // The server makes the folders above what is stored.
                if !is_lazy {
                    let file = file(root, remote, path.clone(), meta, inner.clone());
                    ledger.jobs.push_back(Job::Make(Arc::new(file), Vec::new()));
                }
                let (root, path) = (root.clone(), path.clone());
                ledger.walk.push(Level { root, entries, path, folder: inner });
            }
            _ if !filter.takes_file(path.as_bytes()) => {}
            Kind::Other | Kind::Unknown(_) => ledger.skip(&root.shown(path), Skip::NotAFile),
            Kind::Link => {
                let os = |e| Error::os("read the link", path.as_bytes(), e);
                let target = root.dir.read_link_contents(path.as_path()).map_err(os)?;
                let target = target.as_os_str().as_bytes();
                if link_stays_inside(target, path.depth() - 1) {
                    ledger.has_match = true;
                    folder.uses();
                    let file = file(root, root.below(path)?, path.clone(), meta, folder);
                    ledger.jobs.push_back(Job::Make(Arc::new(file), target.to_vec()));
                } else {
                    ledger.skip(&root.shown(path), Skip::LinkLeadsOut);
                }
            }
            Kind::File => {
                let file = file(root, root.below(path)?, path.clone(), meta, folder);
                self.add_file(ledger, file);
            }
        }
        Ok(())
    }

    fn add_file(&self, ledger: &mut Ledger, mut file: File) {
        let journal = self.journal();
        file.is_recorded =
            journal.is_some_and(|j| j.find(&file.remote, file.meta.version).is_some());
        let (meta, file) = (file.meta, Arc::new(file));
        ledger.has_match = true;
        file.folder.uses();
        ledger.totals.files += 1;
        ledger.totals.bytes += meta.size;
        ledger.totals.lost.count(&meta);
        match self.options.keep_same || file.is_recorded {
            true => ledger.jobs.push_back(Job::Look(file)),
            false => self.add_ranges(ledger, &file),
        }
    }

    /// A file that is not there yet, or is another one there.
    pub(super) fn send(&self, file: &Arc<File>) {
        self.add_ranges(&mut self.lock(), file);
    }

    fn add_ranges(&self, ledger: &mut Ledger, file: &Arc<File>) {
        let meta = file.meta;
        let step = if self.options.connections > 1 { range_len(meta.size) } else { u64::MAX };
        let ranges = meta.size.div_ceil(step).max(1);
        file.ranges.store(ranges, Ordering::Relaxed);
        for n in 0..ranges {
            let start = n * step;
            let range = start..start.saturating_add(step).min(meta.size);
            ledger.jobs.push_back(Job::Send(file.clone(), range));
        }
    }

    /// What the server is to take the file for.
    pub(super) fn meta_of(&self, file: &File) -> Meta {
        let Some(salt) = self.salt else { return file.meta };
        let salted =
            blake3::hash(&[&file.meta.version.to_bytes()[..], &salt.to_be_bytes()].concat());
        let version = salted.as_bytes().first_chunk().map_or(0, |half| u128::from_be_bytes(*half));
        Meta { version: version.into(), ..file.meta }
    }

    /// Returns `true` if what is left is given up.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// What is there already stays.
    pub(super) fn leave(&self, file: &File, why: Skip) {
        let mut ledger = self.lock();
        ledger.totals.files -= 1;
        ledger.totals.bytes -= file.meta.size;
        ledger.skip(&file.shown(), why);
    }

    /// Returns the journal if files are hashed, because files without a hash do not count as complete later.
    fn journal(&self) -> Option<&Journal> {
        self.options.journal.as_deref().filter(|_| self.keeps())
    }

    /// A file that an interrupted run has completed is there unchanged.
    pub(super) fn kept(&self, file: &File) {
        let size = file.meta.size;
        self.shared.kept(&file.fate, &file.shown(), (size, size), None);
    }

    /// Bytes that the server has from an earlier transfer.
    pub(super) fn resumed(&self, file: &File, bytes: u64) {
        self.lock().resumed(&file.shown(), bytes, bytes);
    }

    /// A file is complete on the server; told once.
    pub(super) fn done(&self, file: &File) {
        if file.meta.kind == Kind::File {
            let is_first = self.shared.done(&file.fate, &file.shown(), &file.meta, || None);
            if let Some(journal) = self.journal().filter(|_| is_first) {
                journal.append(&file.remote, (file.meta.version, file.meta.size), None);
            }
        }
    }

    /// A file, folder or link has failed; told once.
    pub(super) fn failed(&self, file: &File, error: Error) {
        if !self.options.replace && error.code() == Code::Exists {
            return match file.meta.kind {
                Kind::File => self.shared.leave(&file.fate, &file.shown(), file.meta.size),
                _ => self.lock().skip(&file.shown(), Skip::Exists),
            };
        }
        self.shared.failed(&file.fate, &file.shown(), error);
    }

    /// The time of a folder could not be set.
    pub(super) fn failed_at(&self, path: &RemotePath, error: Error) {
        self.lock().fail(path, error);
    }
}

impl Drop for Plan {
    /// The journal of a transfer that needs no other run goes.
    fn drop(&mut self) {
        let (is_finished, totals) = (self.is_finished(), self.totals());
        if let Some(journal) = &self.options.journal
            && is_finished
            && totals.all_found
            && totals.failed == 0
        {
            journal.remove();
        }
    }
}

/// `remote` is where it goes, `path` where it is below its root.
fn file(
    root: &Arc<Root>,
    remote: RemotePath,
    path: RemotePath,
    meta: Meta,
    folder: Arc<Folder>,
) -> File {
    let (fate, ranges, is_recorded) = (Fate::default(), 0.into(), false);
    File { root: root.clone(), remote, path, meta, folder, fate, is_recorded, ranges }
}

impl Root {
    /// Where `path` goes on the server.
    fn below(&self, path: &RemotePath) -> Result<RemotePath, Error> {
        join(&self.remote, path).map_err(|e| Error::path(path.as_bytes(), e))
    }

    /// `path` as it is told.
    fn shown(&self, path: &RemotePath) -> RemotePath {
        join(&self.label, path).unwrap_or_else(|_| path.clone())
    }
}

/// `path` in `folder`.
fn join(folder: &RemotePath, path: &RemotePath) -> Result<RemotePath, PathError> {
    let mut all = folder.clone();
    for name in path.as_bytes().split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        all = all.join(name)?;
    }
    Ok(all)
}

/// Another number with each transfer.
fn now_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

impl Job {
    /// An upload of a file that is long.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Job::Send(file, _) if file.is_long())
    }
}

impl File {
    /// Its path as it is told.
    fn shown(&self) -> RemotePath {
        self.root.shown(&self.path)
    }

    /// It does not come in one piece.
    pub(super) fn is_long(&self) -> bool {
        !is_short(&self.meta)
    }
}
