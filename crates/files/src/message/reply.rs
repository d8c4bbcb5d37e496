//! What a server answers.

use super::{Body, Code, wire};
use crate::meta::Entry;
use fusewire_codec::xdr::{Decode as _, Decoder, Encode as _, Encoder};
use fusewire_codec::{Error as CodecError, Sink, Source};
use std::fmt;
use std::io;

/// Most entries in one message.
pub const MAX_ENTRIES: u32 = 256;
/// Most bytes of the words that go with a failure.
pub const MAX_DETAIL_LEN: u32 = 512;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What is at the path that was asked for.
    Entry(Entry),
    /// Entries of a folder.
    Entries {
        /// The number of the first, from 0.
        first: u64,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// The end of a listing.
    Listed {
        /// How many entries there were.
        count: u64,
    },
    /// The end of a read: all data was sent.
    Done {
        /// The file has grown since; what was asked for was sent.
        grew: bool,
    },
    /// A file can be sent.
    Created {
        /// What is missing of the range asked for: first byte and number of bytes of each piece, in order.
        missing: Vec<(u64, u64)>,
        /// There were too many pieces for one message: when these are stored, ask again.
        more: bool,
    },
    /// The end of a commit, or of a create or touch that needs no contents.
    Stored {
        /// The file is complete under its name.
        complete: bool,
    },
    /// The request has failed, and nothing more comes for it.
    Failed {
        /// Why.
        code: Code,
        /// More, in words.
        detail: Vec<u8>,
    },
}

impl Code {
    /// What an error of the operating system is told as.
    pub fn of_os(error: &io::Error) -> Code {
        match error.kind() {
            io::ErrorKind::NotFound => Code::NotFound,
            io::ErrorKind::PermissionDenied => Code::Denied,
            io::ErrorKind::AlreadyExists => Code::Exists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::NoSpace,
            io::ErrorKind::FileTooLarge => Code::TooLarge,
            io::ErrorKind::NotADirectory => Code::NotAFolder,
            io::ErrorKind::IsADirectory => Code::NotAFile,
            io::ErrorKind::InvalidFilename => Code::BadPath,
            io::ErrorKind::ReadOnlyFilesystem => Code::Denied,
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => Code::Busy,
            _ => Code::Io,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::NotFound => "no such file or folder",
            Code::Denied => "permission denied",
            Code::BadPath => "not a path that can be used",
            Code::NotAFile => "not a regular file",
            Code::NotAFolder => "not a folder",
            Code::Changed => "the file changed while it was being transferred",
            Code::Shrunk => "the file became shorter while it was being read",
            Code::ReadOnly => "the server does not allow writing",
            Code::Exists => "already there",
            Code::NoSpace => "no space left on the disk",
            Code::TooLarge => "larger than the file system allows",
            Code::Busy => "in use by another transfer, or too much at once",
            Code::WrongHash => "contents were damaged on the way",
            Code::Cancelled => "broken off",
            Code::BadRequest => "request cannot be met",
            Code::Protocol => "protocol error",
            Code::Io => "input or output error",
            Code::Broken => "connection broken",
        })
    }
}

impl Body for Reply {
    fn kind(&self) -> u32 {
        match self {
            Reply::Entry(_) => 32,
            Reply::Entries { .. } => 33,
            Reply::Listed { .. } => 34,
            Reply::Done { .. } => 35,
            Reply::Created { .. } => 36,
            Reply::Stored { .. } => 37,
            Reply::Failed { .. } => 38,
        }
    }

    fn is_kind(kind: u32) -> bool {
        (32..=38).contains(&kind)
    }

    fn encode_body<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        wire::ReplyBody::from(self).encode(to)
    }

    fn decode_body<'a, S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError> {
        wire::ReplyBody::decode(from).map(Reply::from)
    }
}
