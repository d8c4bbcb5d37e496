//! Folders that are got: made when something is stored in them, writable meanwhile, and finished last.

use super::destination::Place;
use crate::message::Meta;
use crate::{Error, RemotePath, place};
use cap_std::fs::Dir;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The folder that everything is stored below. It is made when it is opened first.
#[derive(Debug)]
pub(super) struct Base {
    place: Place,
    dir: OnceLock<Arc<Dir>>,
}

impl Base {
    /// Returns the base at `place`, which may be missing.
    pub(super) fn new(place: &Place) -> Result<Arc<Base>, Error> {
        let dir = place.dir.try_clone().map_err(|e| Error::os("open", b".", e))?;
        let place = Place { dir, name: place.name.clone() };
        Ok(Arc::new(Base { place, dir: OnceLock::new() }))
    }

    /// Opens the folder, and makes it if it is missing.
    pub(super) fn dir(&self) -> Result<&Arc<Dir>, Error> {
        if let Some(dir) = self.dir.get() {
            return Ok(dir);
        }
        let Place { dir, name } = &self.place;
        place::make_folder(dir, name)?;
        let dir = Arc::new(crate::folder::open(dir, name)?);
        Ok(self.dir.get_or_init(|| dir))
    }

    /// Opens the folder, if it is there.
    pub(super) fn dir_if_there(&self) -> Option<&Arc<Dir>> {
        if self.dir.get().is_none() {
            let Place { dir, name } = &self.place;
            let dir = Arc::new(crate::folder::open(dir, name).ok()?);
            return Some(self.dir.get_or_init(|| dir));
        }
        self.dir.get()
    }
}

/// A folder whose permissions and time are set when nothing is stored in it any more.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) base: Arc<Base>,
    /// Below the base.
    pub(super) path: RemotePath,
    /// Its permissions and time; `None` for a folder that keeps its own.
    pub(super) meta: Option<Meta>,
    /// The folder that holds it, which is finished later.
    pub(super) above: Option<Arc<Folder>>,
    /// `true` if it is finished only if something was stored in it.
    pub(super) is_lazy: bool,
    /// It is there, and its owner may write to it.
    pub(super) is_ready: AtomicBool,
}

impl Folder {
    /// Makes the folder and those above it, where they are missing, and lets its owner write to it until it is finished.
    ///
    /// # Errors
    /// The path of the folder that cannot be made, and why.
    pub(super) fn prepare(&self) -> Result<(), (RemotePath, Error)> {
        if self.is_ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(above) = &self.above {
            above.prepare()?;
        }
        let made = self.base.dir().and_then(|dir| {
            place::make_folder(dir, &self.path)?;
            match self.meta {
                Some(_) => place::let_owner_write(dir, &self.path),
                None => Ok(()),
            }
        });
        made.map_err(|error| (self.path.clone(), error))?;
        self.is_ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns `true` if there is a folder at its place.
    pub(super) fn is_there(&self) -> bool {
        self.base.dir_if_there().is_some_and(|dir| crate::folder::open(dir, &self.path).is_ok())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let is_ready = self.is_ready.load(Ordering::Relaxed);
        let is_finished = !self.is_lazy || is_ready;
        if let (true, Some(_), Some(dir)) = (is_ready, &self.meta, self.base.dir_if_there()) {
            place::remove_spares(dir, &self.path);
        }
        if let (true, Some(meta), Some(dir)) = (is_finished, &self.meta, self.base.dir_if_there())
            && let Err(error) = place::touch(dir, &self.path, meta)
        {
            tracing::warn!(%error, "folder left without its time");
        }
    }
}
