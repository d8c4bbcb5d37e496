//! Getting a file or a folder.

mod plan;
mod worker;

pub use plan::Plan;
pub use worker::Worker;

use super::Filter;
use crate::{Error, RemotePath};
use cap_std::fs::Dir;
use std::path::Path;

/// What to do where a file is already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace it, once the new one is complete.
    #[default]
    Replace,
    /// Replace it unless it has the same size and time.
    KeepSame,
    /// Never replace anything.
    Refuse,
}

/// How to get.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which files of a folder.
    pub filter: Filter,
    /// What to do where a file is already.
    pub existing: Existing,
    /// Files are on the disk before they have their name.
    pub sync: bool,
    /// How many times the contents are sent (the paper's request field); all but one are only checked.
    pub copies: u32,
    /// Most bytes of contents in one reply (the paper's request field); 0 for as many as fit.
    pub reply_bytes: u32,
    /// Most bytes a second over all connections; 0 for no bound.
    pub bytes_per_s: u64,
    /// How many connections share the plan.
    pub connections: u32,
    /// Take files that grow while they are read, as they were at first.
    pub growing: bool,
    /// Begin anew, whatever an earlier transfer has left.
    pub anew: bool,
    /// Contents are checked and forgotten; nothing is made at the destination.
    pub forget: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            filter: Filter::default(),
            existing: Existing::Replace,
            sync: false,
            copies: 1,
            reply_bytes: 0,
            bytes_per_s: 0,
            connections: 1,
            growing: false,
            anew: false,
            forget: false,
        }
    }
}

/// Where to put what is got: below `dir` under `name`, or `dir` itself if the name is empty.
#[derive(Debug)]
pub struct Destination {
    /// The folder. Nothing is written outside.
    pub dir: Dir,
    /// One name in it, or none.
    pub name: RemotePath,
}

impl Destination {
    /// Understands `path` as `cp` does: into a folder that is there, under the remote's own name; otherwise
    /// under the name that the path ends in.
    ///
    /// # Errors
    /// The folder cannot be opened, or neither side gives a name.
    pub fn from_path(path: &Path, remote: &RemotePath) -> Result<Destination, Error> {
        use std::os::unix::ffi::OsStrExt as _;
        let open = |path: &Path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            Dir::open_ambient_dir(path, cap_std::ambient_authority())
                .map_err(|e| Error::os("open the folder", path.as_os_str().as_bytes(), e))
        };
        let named = |name: &[u8]| RemotePath::from_user(name).map_err(|e| Error::path(name, e));
        if path.is_dir() {
            return Ok(Destination {
                dir: open(path)?,
                name: named(remote.name().unwrap_or_default())?,
            });
        }
        let name = path.file_name().unwrap_or_default().as_bytes();
        Ok(Destination { dir: open(path.parent().unwrap_or(Path::new("")))?, name: named(name)? })
    }
}
