//! A folder of ours that is removed with what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

/// A folder in memory, where the system has one.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    /// The file system's.
    pub fn new() -> Result<Self> {
        Scratch::below(&base())
    }

    /// A folder in `base`.
    ///
    /// # Errors
    /// The file system's.
    pub fn below(base: &Path) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("{}{n}", own()));
        fs::create_dir(&dir).map_err(Error::os("making a scratch folder"))?;
        Ok(Scratch(dir))
    }

    /// Removes all of this process that lie in memory, for who ends it before they are dropped.
    pub fn remove_all() {
        for entry in fs::read_dir(base()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&own()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// What names of this process's begin with.
fn own() -> String {
    format!("fusewire-bench-{}-", std::process::id())
}

/// Memory, where the system has a file system in it.
fn base() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
