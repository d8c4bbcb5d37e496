//! The server's side: what is shared by all connections ([`Share`]) and one connection ([`Session`]).

mod list;
mod roots;
mod session;
mod store;

pub(crate) use list::Listing;
pub use session::Session;
pub(crate) use session::open_file;

use crate::budget::Budget;
use crate::cast::Board;
use crate::client::put::Source;
use crate::message::{Code, Hashing, Meta};
use crate::target::{Asked, Claim, Target, Who};
use crate::{Element, Error, RemotePath};
use cap_std::fs::Dir;
use fusewire_session::Fingerprint;
use roots::Roots;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// How a folder is served.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Clients may make and replace files.
    pub writable: bool,
    /// Most bytes of contents a second on each connection; 0 for no bound.
    pub bytes_per_s: u64,
    /// Uploaded files are on the disk before they have their name.
    pub sync: bool,
    /// Folders that all listings together may have open at once; a listing that needs more waits.
    pub open_folders_max: usize,
    /// Bytes of memory for what all uploads together have begun and not ended, beside a little that each
    /// connection has for itself; what needs more is refused.
    pub memory_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            writable: false,
            bytes_per_s: 0,
            sync: false,
            open_folders_max: 512,
            memory_bytes_max: 256 << 20,
        }
    }
}

/// A served folder, shared by all connections.
#[derive(Debug)]
pub struct Share {
    roots: Roots,
    settings: Settings,
    open_folders: AtomicUsize,
    /// How many sessions there were.
    sessions: AtomicU64,
    uploads: Mutex<HashMap<RemotePath, GoingOn>>,
    /// For what uploads have begun and not ended.
    memory: Arc<Budget>,
    /// What is cast of it, if something is.
    cast: OnceLock<Arc<Board>>,
}

/// An upload that goes on.
#[derive(Debug)]
struct GoingOn {
    target: Weak<Target>,
    /// Who writes which range of it.
    claims: Vec<Weak<Claim>>,
}

impl Share {
    /// Serves the folder at `path`, also one that takes its place later.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, settings: Settings) -> Result<Arc<Share>, Error> {
        use std::os::unix::ffi::OsStrExt as _;
        let root = Dir::open_ambient_dir(path, cap_std::ambient_authority())
            .map_err(|e| Error::os("open the folder", path.as_os_str().as_bytes(), e))?;
        Ok(Share::of(Roots::served(root, std::path::absolute(path).ok()), settings))
    }

    /// Serves an open folder.
    pub fn new(root: Dir, settings: Settings) -> Arc<Share> {
        Share::of(Roots::served(root, None), settings)
    }

    /// Serves several files and folders under the names given, as if they lay in a folder; for reading alone.
    ///
    /// # Errors
    /// A name is none, or there twice.
    pub fn of_several(
        things: Vec<(Vec<u8>, Source)>,
        settings: Settings,
    ) -> Result<Arc<Share>, Error> {
        let settings = Settings { writable: false, ..settings };
        Ok(Share::of(Roots::named(things)?, settings))
    }

    fn of(roots: Roots, settings: Settings) -> Arc<Share> {
        let uploads = Mutex::new(HashMap::new());
        let memory = Budget::new(settings.memory_bytes_max);
        let (open_folders, sessions) = (AtomicUsize::new(0), AtomicU64::new(0));
        let cast = OnceLock::new();
        Arc::new(Share { roots, settings, open_folders, sessions, uploads, memory, cast })
    }

    /// What is cast of it.
    fn cast(&self) -> Option<&Arc<Board>> {
        self.cast.get()
    }

    /// What is cast of it, from now on; false if something is already.
    pub(crate) fn set_cast(&self, board: &Arc<Board>) -> bool {
        self.cast.set(Arc::clone(board)).is_ok()
    }

    /// A session for a new connection whose contents are marshalled as `element`.
    pub fn session(self: &Arc<Self>, element: Element) -> Session {
        self.session_of(None, element)
    }

    /// As [`Share::session`], of the client with this key's fingerprint: what it uploads, later sessions of the
    /// same client take over, and nobody else.
    pub fn session_of(self: &Arc<Self>, owner: Option<Fingerprint>, element: Element) -> Session {
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        Session::serving(Arc::clone(self), Who { owner, session }, element)
    }

    /// Leave to open one more folder, until the lease is dropped.
    fn lease_folder(self: &Arc<Self>) -> Option<FolderLease> {
        let max = self.settings.open_folders_max;
        let more = |open| (open < max).then_some(open + 1);
        self.open_folders.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(FolderLease(Arc::clone(self)))
    }

    /// The upload to `path` that is going on, if there is one of this state of the file and hashed alike, or what `open`
    /// makes. The claim to the range is taken note of; those that it takes over are revoked.
    ///
    /// # Errors
    /// Somebody else uploads to `path`, or a later session; what `open` says.
    fn upload(
        &self,
        path: &RemotePath,
        (meta, hashing): (&Meta, Hashing),
        (who, claim): (Who, &Arc<Claim>),
        range: &Range<u64>,
        open: impl FnOnce() -> Result<Target, Error>,
    ) -> Result<Arc<Target>, Error> {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(going) = uploads.get_mut(path)
            && let Some(target) = going.target.upgrade().filter(|target| !target.is_finished())
        {
            let there = target.meta();
            let another = there.version != meta.version
                || there.size != meta.size
                || target.hashing() != hashing;
            going.ask(&target, who, range, another)?;
            if !another {
                going.claims.push(Arc::downgrade(claim));
                return Ok(target);
            }
            target.give_up();
            uploads.remove(path);
        }
        uploads.retain(|_, going| going.target.strong_count() > 0);
        let target = Arc::new(open()?);
        let going =
            GoingOn { target: Arc::downgrade(&target), claims: vec![Arc::downgrade(claim)] };
        uploads.insert(path.clone(), going);
        Ok(target)
    }

    /// The upload to `path` is complete: the next one begins anew.
    fn forget_upload(&self, path: &RemotePath, target: &Arc<Target>) {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        if uploads.get(path).is_some_and(|going| going.target.as_ptr() == Arc::as_ptr(target)) {
            uploads.remove(path);
        }
    }
}

impl GoingOn {
    /// Revokes what `who` takes over, or refuses him.
    fn ask(
        &mut self,
        target: &Target,
        who: Who,
        range: &Range<u64>,
        another: bool,
    ) -> Result<(), Error> {
        self.claims.retain(|claim| claim.strong_count() > 0);
        let claims: Vec<_> = self.claims.iter().filter_map(Weak::upgrade).collect();
        let asked: Vec<_> = claims.iter().map(|claim| claim.asked(who, range, another)).collect();
        if asked.contains(&Asked::Busy) {
            let detail = b"another upload of this file is going on".to_vec();
            return Err(Error::Refused { code: Code::Busy, detail });
        }
        for (claim, _) in claims.iter().zip(&asked).filter(|(_, a)| **a == Asked::TakesOver) {
            target.taken_over();
            claim.revoke(target);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct FolderLease(Arc<Share>);

impl Drop for FolderLease {
    fn drop(&mut self) {
        self.0.open_folders.fetch_sub(1, Ordering::Relaxed);
    }
}
