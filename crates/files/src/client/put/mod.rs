//! Putting a file or a folder.

mod plan;
mod worker;

pub use plan::Plan;
pub use worker::Worker;

use super::{Filter, Journal};
use crate::message::Hashing;
use crate::{Error, RemotePath};
use cap_std::fs::Dir;
use std::path::Path;
use std::sync::Arc;

/// How to put.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which files of a folder.
    pub filter: Filter,
    /// Files and links that are there may be replaced.
    pub replace: bool,
    /// Files that are there and have the same size and time, or are newer, stay as they are.
    pub keep_same: bool,
    /// Begin anew, whatever an earlier transfer has left.
    pub anew: bool,
    /// Where complete files are recorded; those that it names are not put again if they are there unchanged.
    pub journal: Option<Arc<Journal>>,
    /// Most bytes of contents in one message; 0 for as many as fit.
    pub reply_bytes: u32,
    /// Most bytes a second over all connections; 0 for no bound.
    pub bytes_per_s: u64,
    /// How many connections share the plan.
    pub connections: u32,
    /// Who hashes contents, if the server agrees. Without the sender's hash, tags alone say that what came is what was
    /// sent: for connections whose cipher has them.
    pub hashing: Hashing,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            filter: Filter::default(),
            replace: true,
            keep_same: false,
            anew: false,
            journal: None,
            reply_bytes: 0,
            bytes_per_s: 0,
            connections: 1,
            hashing: Hashing::Both,
        }
    }
}

/// What to put: `name` in `dir`, or all of `dir` if the name is empty.
#[derive(Debug)]
pub struct Source {
    /// The folder. Nothing is read outside.
    pub dir: Dir,
    /// A file in it, or nothing.
    pub name: RemotePath,
}

/// One of several things to put.
#[derive(Debug)]
pub struct Upload {
    /// What.
    pub source: Source,
    /// Its path on the server.
    pub remote: RemotePath,
    /// Where it is told of: before the paths of what is in a folder; empty for a file, which has its name.
    pub label: RemotePath,
    /// It may replace what is put before it, and begins when all of that is there.
    pub after_all: bool,
}

impl Source {
    /// The file or folder at `path`; a link at its end is followed.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn from_path(path: &Path) -> Result<Source, Error> {
        use std::os::unix::ffi::OsStrExt as _;
        let os = |e| Error::os("open", path.as_os_str().as_bytes(), e);
        let path = std::fs::canonicalize(path).map_err(os)?;
        let (dir, name) = match path.is_dir() {
            true => (path.as_path(), &b""[..]),
            false => (
                path.parent().unwrap_or(Path::new("/")),
                path.file_name().unwrap_or_default().as_bytes(),
            ),
        };
        let name = RemotePath::new(name.to_vec()).map_err(|e| Error::path(name, e))?;
        Ok(Source {
            dir: Dir::open_ambient_dir(dir, cap_std::ambient_authority()).map_err(os)?,
            name,
        })
    }
}
