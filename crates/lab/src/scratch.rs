//! A folder of ours that is removed with what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

/// A folder in memory, where the system has one.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Result<Self> {
        // Memory, where the system has a file system in it.
        let base = Path::new("/dev/shm");
        if base.is_dir() { Scratch::below(base) } else { Scratch::below(&std::env::temp_dir()) }
    }

    /// A folder in `base`.
    pub fn below(base: &Path) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("fusewire-bench-{}-{n}", std::process::id()));
        fs::create_dir(&dir).map_err(Error::os("making a scratch folder"))?;
        Ok(Scratch(dir))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
