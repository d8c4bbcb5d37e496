//! What can go wrong, by blame.

use crate::channel::ChannelError;
use crate::message::{Code, DETAIL_LEN_MAX};
use crate::name::{PathError, Shown};
use std::io;

/// Why a transfer, or one file of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer sent a message that is no message.
    #[error("malformed message from the peer: {0}")]
    Malformed(#[from] fusewire_codec::Error),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Peer(#[from] Violation),
    /// The peer refused a request.
    #[error("{code}{}", if detail.is_empty() { String::new() } else { format!(": {}", Shown(detail)) })]
    Refused {
        /// Why.
        code: Code,
        /// The peer's own words, unescaped.
        detail: Vec<u8>,
    },
    /// A name or path that cannot be used.
    #[error("{}: {problem}", Shown(path))]
    Path {
        /// The name or path.
        path: Vec<u8>,
        /// What is wrong with it.
        problem: PathError,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", Shown(path))]
    Os {
        /// What was tried, to stand between "cannot" and the path.
        action: &'static str,
        /// With which file.
        path: Vec<u8>,
        /// Why not.
        source: io::Error,
    },
    /// A file here could not be used as asked.
    #[error("{}: {code}", Shown(path))]
    Local {
        /// Why.
        code: Code,
        /// The file.
        path: Vec<u8>,
    },
    /// A link would be replaced by a file, and nobody has said that it may be.
    #[error("{} is a link to {}, which would be replaced", Shown(path), Shown(target))]
    Link {
        /// The link.
        path: Vec<u8>,
        /// Where it leads.
        target: Vec<u8>,
    },
    /// The contents that came have another hash than the contents that were read.
    #[error(
        "{}: contents are damaged: bytes {start} to {end} have another hash than those the peer read",
        Shown(path)
    )]
    WrongHash {
        /// The file.
        path: Vec<u8>,
        /// First byte of the block that is wrong.
        start: u64,
        /// First byte after it.
        end: u64,
    },
    /// The folder has nothing that a pattern to include matches.
    #[error(
        "nothing matches the patterns to include: one without a slash is compared with names, one with a slash with the \
         whole path below the folder, as in a/** for everything in a"
    )]
    Unmatched,
    /// A file that was told of is not there any more.
    #[error("it is gone from where it was to come from, and had not come before")]
    Gone,
    /// Too much was begun and not ended.
    #[error(
        "what was begun and not ended needs more than the {max} bytes of memory there are for it"
    )]
    Memory {
        /// Bytes that there are.
        max: usize,
    },
    /// The connection broke.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The connection ended before everything had come.
    #[error("the peer ended the connection before everything had come")]
    Ended,
}

impl Error {
    pub(crate) fn os(action: &'static str, path: &[u8], source: impl Into<io::Error>) -> Self {
        Error::Os { action, path: path.to_vec(), source: source.into() }
    }

    pub(crate) fn path(path: &[u8], problem: PathError) -> Self {
        Error::Path { path: path.to_vec(), problem }
    }

    pub(crate) fn local(code: Code, path: &[u8]) -> Self {
        Error::Local { code, path: path.to_vec() }
    }

    /// What kind of failure this is, as the peer and the exit code are told.
    pub fn code(&self) -> Code {
        match self {
            Error::Malformed(_) | Error::Peer(_) => Code::Protocol,
            Error::Refused { code, .. } | Error::Local { code, .. } => *code,
            Error::Path { .. } => Code::BadPath,
            Error::Link { .. } => Code::Exists,
            Error::Os { source, .. } => Code::of_os(source),
            Error::WrongHash { .. } => Code::WrongHash,
            Error::Gone | Error::Unmatched => Code::NotFound,
            Error::Memory { .. } => Code::Busy,
            Error::Channel(_) | Error::Ended => Code::Broken,
        }
    }

    /// What helps a peer where the code says little; paths are the peer's to add.
    pub(crate) fn detail(&self) -> Vec<u8> {
        let words = match (self, self.code()) {
            (Error::Os { source, .. }, Code::Io | Code::Denied) => source.to_string(),
            (Error::Path { problem, .. }, _) => problem.to_string(),
            (Error::Memory { .. }, _) => self.to_string(),
            (Error::Refused { detail, .. }, _) => return detail.clone(),
            _ => String::new(),
        };
        let mut words = words.into_bytes();
        words.truncate(DETAIL_LEN_MAX);
        words
    }

    /// True when only this file has failed and the connection can go on.
    pub fn is_about_one_file(&self) -> bool {
        !matches!(self, Error::Malformed(_) | Error::Peer(_) | Error::Channel(_) | Error::Ended)
    }

    /// Returns `true` if everything that is left of a transfer would fail for the same reason.
    pub fn ends_all(&self) -> bool {
        matches!(self.code(), Code::NoSpace | Code::ReadOnly)
    }

    /// True for a full disk or quota.
    pub fn is_no_space(&self) -> bool {
        self.code() == Code::NoSpace
    }
}

/// How the peer broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A message that this side is never sent.
    #[error("message of kind {kind} was not expected here")]
    Unexpected {
        /// Its kind.
        kind: u32,
    },
    /// An answer to a request that was never made.
    #[error("answer to request {xid}, which was never made")]
    UnknownRequest {
        /// The number it gave.
        xid: u32,
    },
    /// A request under a number that is in use or not higher than the last.
    #[error("request number {xid} is not higher than the last")]
    RequestNumber {
        /// The number it gave.
        xid: u32,
    },
    /// Data outside what was asked for, or across the border of a block.
    #[error("data for bytes {start} to {end}, outside what was asked for")]
    DataRange {
        /// First byte.
        start: u64,
        /// First byte after.
        end: u64,
    },
    /// Data that had come already.
    #[error("data for bytes {start} to {end} came twice")]
    DataTwice {
        /// First byte.
        start: u64,
        /// First byte after.
        end: u64,
    },
    /// Data scattered so widely that keeping track would need too much memory.
    #[error("data is too scattered")]
    DataScattered,
    /// A hash where none belongs, or a second one.
    #[error("hash at byte {at}, which ends no block that needs one")]
    Hash {
        /// Where.
        at: u64,
    },
    /// Agreed to less hashing than was asked for.
    #[error("agreed to less hashing than was asked for")]
    Hashing,
    /// A copy that was not asked for.
    #[error("copy {copy}, of {copies} asked for")]
    Copy {
        /// The copy's number, from 0.
        copy: u32,
        /// How many were asked for.
        copies: u32,
    },
    /// An entry of a listing that does not fit the ones before.
    #[error("entry {index} of a listing does not fit the ones before")]
    Listing {
        /// The entry's number, from 0.
        index: u64,
    },
    /// A name in a listing that cannot be one.
    #[error("a listing has the name {}: {problem}", Shown(name))]
    Name {
        /// The name.
        name: Vec<u8>,
        /// What is wrong with it.
        problem: PathError,
    },
    /// More than was agreed on.
    #[error("more {what} than the {bound} allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        bound: u64,
    },
    /// What was told of a group cannot be.
    #[error("told of a group: {what}")]
    Group {
        /// What.
        what: &'static str,
    },
    /// An answer that says that all was sent, when less or more was.
    #[error("end of request {xid} does not fit what was asked for")]
    Done {
        /// The request.
        xid: u32,
    },
}
