//! What a transfer tells of itself.

use crate::{Error, RemotePath};

/// Is told what happens, from whichever connection's thread it happens in.
pub trait Observer: Send {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}

/// Looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Observer for Ignore {
    fn event(&mut self, _: Event<'_>) {}
}

impl<F: FnMut(Event<'_>) + Send> Observer for F {
    fn event(&mut self, event: Event<'_>) {
        self(event);
    }
}

/// What happened. Paths are below the root of the transfer; show them with their `Display`, which escapes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A file is complete under its name.
    Done {
        /// Which.
        path: &'a RemotePath,
        /// Bytes of contents.
        size: u64,
        /// BLAKE3 of the contents; not known for files with large holes and for uploads over more than one
        /// connection.
        hash: Option<[u8; 32]>,
    },
    /// A file that an interrupted run completed is still there and right.
    Kept {
        /// Which.
        path: &'a RemotePath,
        /// Bytes of contents.
        size: u64,
        /// BLAKE3 of the contents, where it was compared.
        hash: Option<[u8; 32]>,
    },
    /// What an earlier transfer left of a file was found to be right.
    Resumed {
        /// Which file.
        path: &'a RemotePath,
        /// Bytes that need not come again.
        bytes: u64,
    },
    /// A file grew while it was read: what it had at first was transferred.
    Grew {
        /// Which.
        path: &'a RemotePath,
    },
    /// An entry is not transferred, and that is no failure.
    Skipped {
        /// Which.
        path: &'a RemotePath,
        /// Why.
        why: Skip,
    },
    /// A file was not transferred.
    Failed {
        /// Which.
        path: &'a RemotePath,
        /// Why.
        error: &'a Error,
    },
}

/// Why an entry is not transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// A file of the same size and time is there.
    Same,
    /// A file that was changed later is there.
    Newer,
    /// Something is there, and nothing may be replaced.
    Exists,
    /// The link is absolute or may lead out of the folder that is transferred.
    LinkLeadsOut,
    /// A device, pipe or socket.
    NotAFile,
}

impl Skip {
    /// Returns `true` if a file stays because of what is there already.
    pub fn is_there(self) -> bool {
        matches!(self, Skip::Same | Skip::Newer | Skip::Exists)
    }
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Skip::Same => "already there, of the same size and time",
            Skip::Newer => "already there, and newer",
            Skip::Exists => "already there",
            Skip::LinkLeadsOut => "a link that leads out of the folder",
            Skip::NotAFile => "a device, pipe or socket",
        })
    }
}

/// Sums over a transfer, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files found so far.
    pub files: u64,
    /// Bytes of contents to transfer, as far as is known, over all copies.
    pub bytes: u64,
    /// Everything was found: `files` and `bytes` do not grow any more.
    pub all_found: bool,
    /// Files complete.
    pub files_done: u64,
    /// Files among these that an interrupted run had completed.
    pub files_here: u64,
    /// Bytes transferred, or found to be here already.
    pub bytes_done: u64,
    /// Of these, bytes that were here already.
    pub bytes_here: u64,
    /// Of these, bytes that have come another way, as [`Here`](super::get::Here) says.
    pub bytes_caught: u64,
    /// Of these, bytes that lie in holes and were not sent.
    pub bytes_holes: u64,
    /// Entries skipped.
    pub skipped: u64,
    /// Files among these that exist already and stay unchanged.
    pub unchanged: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Counts of properties that were not kept.
    pub lost: crate::Lost,
}
