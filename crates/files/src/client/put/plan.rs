//! What is to be put, shared by all connections.

use super::{Options, Source};
use crate::client::range_len;
use crate::client::report::{Event, Observer, Skip, Totals};
use crate::message::Code;
use crate::meta::{Kind, Meta};
use crate::name::{MAX_DEPTH, is_reserved, link_stays_inside};
use crate::{Element, Error, RemotePath};
use cap_std::fs::{Dir, ReadDir};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is to be put, shared by all connections. The folder is walked as fast as files are sent.
pub struct Plan {
    pub(super) dir: Dir,
    pub(super) options: Options,
    /// Where on the server.
    remote: RemotePath,
    /// Bytes that were sent.
    pub(super) bytes_sent: AtomicU64,
    ledger: Mutex<Ledger>,
    /// Folders whose contents are all there.
    touches: Arc<Mutex<VecDeque<(RemotePath, Meta)>>>,
}

struct Ledger {
    observer: Box<dyn Observer>,
    /// What to put, before the first job was taken.
    start: Option<RemotePath>,
    /// The walk, outermost folder first.
    walk: Vec<Level>,
    jobs: VecDeque<Job>,
    active: usize,
    totals: Totals,
    first_error: Option<Error>,
}

struct Level {
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
    touches: Arc<Mutex<VecDeque<(RemotePath, Meta)>>>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(meta) = self.meta {
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
    /// Send a range of a file, or all of it.
    Send(Arc<File>, Range<u64>),
    /// Set permissions and time of a folder.
    Touch(RemotePath, Meta),
}

/// A file, folder or link to put.
#[derive(Debug)]
pub(super) struct File {
    /// On the server.
    pub(super) remote: RemotePath,
    /// Below the folder of the source.
    pub(super) path: RemotePath,
    pub(super) meta: Meta,
    _folder: Arc<Folder>,
    failed: AtomicBool,
    done: AtomicBool,
    /// Ranges that are not stored yet.
    pub(super) ranges: AtomicU64,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("remote", &self.remote).finish_non_exhaustive()
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
        let ledger = Ledger {
            observer,
            start: Some(source.name),
            walk: Vec::new(),
            jobs: VecDeque::new(),
            active: 0,
            totals: Totals::default(),
            first_error: None,
        };
        Arc::new(Plan {
            dir: source.dir,
            options,
            remote,
            bytes_sent: AtomicU64::new(0),
            ledger: Mutex::new(ledger),
            touches: Arc::default(),
        })
    }

    /// A worker for a connection whose contents are marshalled as `element`.
    pub fn worker(self: &Arc<Self>, element: Element) -> super::Worker {
        super::Worker::new(Arc::clone(self), element)
    }

    /// Everything was put, skipped or has failed.
    pub fn is_finished(&self) -> bool {
        let ledger = self.lock();
        let touches = self.touches.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        ledger.start.is_none()
            && ledger.walk.is_empty()
            && ledger.jobs.is_empty()
            && ledger.active == 0
            && touches
    }

    /// Sums so far.
    pub fn totals(&self) -> Totals {
        let mut totals = self.lock().totals;
        totals.bytes_done += self.bytes_sent.load(Ordering::Relaxed);
        totals
    }

    /// The first failure, for the exit code and the last line.
    pub fn take_error(&self) -> Option<Error> {
        self.lock().first_error.take()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, which the worker must end with [`Plan::end`] or give back.
    pub(super) fn take(&self) -> Option<Job> {
        let mut ledger = self.lock();
        if let Some(name) = ledger.start.take()
            && let Err(error) = self.start(&mut ledger, &name)
        {
            ledger.fail(&RemotePath::default(), error);
            ledger.totals.all_found = true;
        }
        while ledger.jobs.is_empty() && !ledger.walk.is_empty() {
            self.walk(&mut ledger);
        }
        let job = ledger.jobs.pop_front().or_else(|| {
            let touch = self.touches.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            touch.map(|(path, meta)| Job::Touch(path, meta))
        })?;
        ledger.active += 1;
        Some(job)
    }

    /// A job that was taken is ended.
    pub(super) fn end(&self) {
        self.lock().active -= 1;
    }

    /// A job that was taken is for somebody else.
    pub(super) fn give_back(&self, job: Job) {
        let mut ledger = self.lock();
        ledger.active -= 1;
        ledger.jobs.push_front(job);
    }

    fn start(&self, ledger: &mut Ledger, name: &RemotePath) -> Result<(), Error> {
        let metadata = self
            .dir
            .metadata(name.as_path())
            .map_err(|e| Error::os("look at", name.as_bytes(), e))?;
        let meta = Meta::of(&metadata);
        let folder = |meta| {
            Arc::new(Folder {
                remote: self.remote.clone(),
                meta,
                touches: Arc::clone(&self.touches),
            })
        };
        match meta.kind {
            Kind::File => {
                let file = self.file(self.remote.clone(), name.clone(), meta, folder(None));
                self.add_file(ledger, file);
                ledger.totals.all_found = true;
                Ok(())
            }
            Kind::Folder => {
                let entries =
                    self.dir.entries().map_err(|e| Error::os("list", name.as_bytes(), e))?;
                // The served folder itself keeps its own time.
                let touched = (!self.remote.as_bytes().is_empty()).then_some(meta);
                let folder = folder(touched);
                if touched.is_some() {
                    let file =
                        self.file(self.remote.clone(), RemotePath::default(), meta, folder.clone());
                    ledger.jobs.push_back(Job::Make(Arc::new(file), Vec::new()));
                }
                ledger.walk.push(Level { entries, path: RemotePath::default(), folder });
                Ok(())
            }
            Kind::Link | Kind::Other => Err(Error::local(Code::NotAFile, name.as_bytes())),
        }
    }

    /// One step of the walk.
    fn walk(&self, ledger: &mut Ledger) {
        let Some(level) = ledger.walk.last_mut() else { return };
        let entry = match level.entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                let path = level.path.clone();
                ledger.walk.pop();
                let error = Error::os("list", path.as_bytes(), error);
                return ledger.fail(&path, error);
            }
            None => {
                ledger.walk.pop();
                ledger.totals.all_found = ledger.walk.is_empty();
                return;
            }
        };
        let name = entry.file_name();
        let (path, folder) = (level.path.clone(), level.folder.clone());
        if is_reserved(name.as_bytes()) {
            return;
        }
        let path = match path.join(name.as_bytes()) {
            Ok(path) => path,
            Err(problem) => return ledger.fail(&path, Error::path(name.as_bytes(), problem)),
        };
        let os = |e| Error::os("look at", path.as_bytes(), e);
        match entry.metadata().map_err(os) {
            Ok(metadata) => {
                if let Err(error) = self.entry(ledger, &path, Meta::of(&metadata), folder) {
                    ledger.fail(&path, error);
                }
            }
            Err(error) => ledger.fail(&path, error),
        }
    }

    fn entry(
        &self,
        ledger: &mut Ledger,
        path: &RemotePath,
        meta: Meta,
        folder: Arc<Folder>,
    ) -> Result<(), Error> {
        let filter = &self.options.filter;
        match meta.kind {
            Kind::Folder if !filter.takes_folder(path.as_bytes()) => {}
            Kind::Folder if ledger.walk.len() >= MAX_DEPTH => {
                return Err(Error::path(path.as_bytes(), crate::PathError::TooDeep));
            }
            Kind::Folder => {
                let os = |e| Error::os("list", path.as_bytes(), e);
                let entries =
                    self.dir.open_dir(path.as_path()).and_then(|dir| dir.entries()).map_err(os)?;
                let remote = self.below(path)?;
                let touches = Arc::clone(&self.touches);
                let inner = Arc::new(Folder { remote: remote.clone(), meta: Some(meta), touches });
                let file = self.file(remote, path.clone(), meta, inner.clone());
                ledger.jobs.push_back(Job::Make(Arc::new(file), Vec::new()));
                ledger.walk.push(Level { entries, path: path.clone(), folder: inner });
            }
            _ if !filter.takes_file(path.as_bytes()) => {}
            Kind::Other => ledger.skip(path, Skip::NotAFile),
            Kind::Link => {
                let os = |e| Error::os("read the link", path.as_bytes(), e);
                let target = self.dir.read_link_contents(path.as_path()).map_err(os)?;
                let target = target.as_os_str().as_bytes();
                if link_stays_inside(target, path.depth() - 1) {
                    let file = self.file(self.below(path)?, path.clone(), meta, folder);
                    ledger.jobs.push_back(Job::Make(Arc::new(file), target.to_vec()));
                } else {
                    ledger.skip(path, Skip::LinkLeadsOut);
                }
            }
            Kind::File => {
                let file = self.file(self.below(path)?, path.clone(), meta, folder);
                self.add_file(ledger, file);
            }
        }
        Ok(())
    }

    /// Where `path` goes on the server.
    fn below(&self, path: &RemotePath) -> Result<RemotePath, Error> {
        let mut remote = self.remote.clone();
        for name in path.as_bytes().split(|&byte| byte == b'/') {
            remote = remote.join(name).map_err(|e| Error::path(path.as_bytes(), e))?;
        }
        Ok(remote)
    }

    /// `remote` is where it goes, `path` where it is below the root of the transfer.
    fn file(&self, remote: RemotePath, path: RemotePath, meta: Meta, folder: Arc<Folder>) -> File {
        let (failed, done, ranges) = (false.into(), false.into(), 0.into());
        File { remote, path, meta, _folder: folder, failed, done, ranges }
    }

    fn add_file(&self, ledger: &mut Ledger, file: File) {
        let meta = file.meta;
        let file = Arc::new(file);
        ledger.totals.files += 1;
        ledger.totals.bytes += meta.size;
        let step = if self.options.connections > 1 { range_len(meta.size) } else { u64::MAX };
        let ranges = meta.size.div_ceil(step).max(1);
        file.ranges.store(ranges, Ordering::Relaxed);
        for n in 0..ranges {
            let start = n * step;
            let range = start..start.saturating_add(step).min(meta.size);
            ledger.jobs.push_back(Job::Send(file.clone(), range));
        }
    }

    /// Bytes that the server has from an earlier transfer.
    pub(super) fn resumed(&self, file: &File, bytes: u64) {
        let mut ledger = self.lock();
        ledger.totals.bytes_done += bytes;
        ledger.totals.bytes_here += bytes;
        ledger.observer.event(Event::Resumed { path: &file.path, bytes });
    }

    /// A file is complete on the server; told once.
    pub(super) fn done(&self, file: &File, hash: Option<[u8; 32]>) {
        if file.meta.kind == Kind::File && !file.done.swap(true, Ordering::Relaxed) {
            let mut ledger = self.lock();
            ledger.totals.files_done += 1;
            let size = file.meta.size;
            ledger.observer.event(Event::Done { path: &file.path, size, hash });
        }
    }

    /// A file, folder or link has failed; told once.
    pub(super) fn failed(&self, file: &File, error: Error) {
        if !file.failed.swap(true, Ordering::Relaxed) {
            self.lock().fail(&file.path, error);
        }
    }

    /// The time of a folder could not be set.
    pub(super) fn failed_at(&self, path: &RemotePath, error: Error) {
        self.lock().fail(path, error);
    }
}

impl File {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

impl Ledger {
    fn skip(&mut self, path: &RemotePath, why: Skip) {
        self.totals.skipped += 1;
        self.observer.event(Event::Skipped { path, why });
    }

    fn fail(&mut self, path: &RemotePath, error: Error) {
        self.totals.failed += 1;
        self.observer.event(Event::Failed { path, error: &error });
        self.first_error.get_or_insert(error);
    }
}
