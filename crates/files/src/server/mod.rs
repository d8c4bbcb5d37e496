//! The server's side: what is shared by all connections ([`Share`]) and one connection ([`Session`]).

mod list;
mod session;
mod store;

pub use session::Session;
pub(crate) use session::open_file;

use crate::budget::Budget;
use crate::target::Target;
use crate::{Element, Error, RemotePath};
use cap_std::fs::Dir;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

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
    root: Dir,
    settings: Settings,
    open_folders: AtomicUsize,
    uploads: Mutex<HashMap<RemotePath, Weak<Target>>>,
    /// For what uploads have begun and not ended.
    memory: Arc<Budget>,
}

impl Share {
    /// Serves the folder at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, settings: Settings) -> Result<Arc<Share>, Error> {
        use std::os::unix::ffi::OsStrExt as _;
        let root = Dir::open_ambient_dir(path, cap_std::ambient_authority())
            .map_err(|e| Error::os("open the folder", path.as_os_str().as_bytes(), e))?;
        Ok(Share::new(root, settings))
    }

    /// Serves an open folder.
    pub fn new(root: Dir, settings: Settings) -> Arc<Share> {
        let uploads = Mutex::new(HashMap::new());
        let memory = Budget::new(settings.memory_bytes_max);
        Arc::new(Share { root, settings, open_folders: AtomicUsize::new(0), uploads, memory })
    }

    /// A session for a new connection whose contents are marshalled as `element`.
    pub fn session(self: &Arc<Self>, element: Element) -> Session {
        Session::new(Arc::clone(self), element)
    }

    /// Leave to open one more folder, until the lease is dropped.
    fn lease_folder(self: &Arc<Self>) -> Option<FolderLease> {
        let max = self.settings.open_folders_max;
        let more = |open| (open < max).then_some(open + 1);
        self.open_folders.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(FolderLease(Arc::clone(self)))
    }

    /// The upload to `path` that is going on, if there is one, or what `open` makes.
    fn upload(
        &self,
        path: &RemotePath,
        open: impl FnOnce() -> Result<Target, Error>,
    ) -> Result<Arc<Target>, Error> {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = uploads.get(path).and_then(Weak::upgrade) {
            return Ok(target);
        }
        uploads.retain(|_, target| target.strong_count() > 0);
        let target = Arc::new(open()?);
        uploads.insert(path.clone(), Arc::downgrade(&target));
        Ok(target)
    }

    /// The upload to `path` is complete: the next one begins anew.
    fn forget_upload(&self, path: &RemotePath) {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }
}

#[derive(Debug)]
struct FolderLease(Arc<Share>);

impl Drop for FolderLease {
    fn drop(&mut self) {
        self.0.open_folders.fetch_sub(1, Ordering::Relaxed);
    }
}
