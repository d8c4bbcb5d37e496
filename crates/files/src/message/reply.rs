//! What a server answers.

use super::Body;
use crate::meta::Entry;
use fusewire_codec::xdr::{Decode as _, Decoder, Encode as _, Encoder};
use fusewire_codec::{Error as CodecError, Sink, Source};
use std::fmt;
use std::io;

/// Most entries in one message.
pub const MAX_ENTRIES: u32 = 256;
/// Most ranges in one message.
pub const MAX_RANGES: u32 = 512;
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

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Code {
    /// No such file or folder.
    NotFound = 1,
    /// The permissions do not allow it.
    Denied = 2,
    /// The path is none that can be asked for.
    BadPath = 3,
    /// It is not a regular file.
    NotAFile = 4,
    /// It is not a folder.
    NotAFolder = 5,
    /// The file changed while it was read or since it was looked at.
    Changed = 6,
    /// The file became shorter while it was read.
    Shrunk = 7,
    /// The server was not started with leave to write.
    ReadOnly = 8,
    /// Something is there already.
    Exists = 9,
    /// The disk or quota is full.
    NoSpace = 10,
    /// The file is larger than the file system allows.
    TooLarge = 11,
    /// Something else is being done with it, or too much at once.
    Busy = 12,
    /// The contents that came have another hash than those that were read.
    WrongHash = 13,
    /// Broken off because it was asked for.
    Cancelled = 14,
    /// A request that cannot be met as it stands.
    BadRequest = 15,
    /// The message breaks the protocol.
    Protocol = 16,
    /// The operating system says otherwise.
    Io = 17,
    /// The connection broke. Never sent.
    Broken = 18,
}

const CODES: [Code; 18] = [
    Code::NotFound,
    Code::Denied,
    Code::BadPath,
    Code::NotAFile,
    Code::NotAFolder,
    Code::Changed,
    Code::Shrunk,
    Code::ReadOnly,
    Code::Exists,
    Code::NoSpace,
    Code::TooLarge,
    Code::Busy,
    Code::WrongHash,
    Code::Cancelled,
    Code::BadRequest,
    Code::Protocol,
    Code::Io,
    Code::Broken,
];

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

    fn encode_body<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        match self {
            Reply::Entry(entry) => entry.encode(to),
            Reply::Entries { first, entries } => {
                to.uhyper(*first)?;
                to.array(entries, MAX_ENTRIES)
            }
            Reply::Listed { count } => to.uhyper(*count),
            Reply::Done { grew } => to.bool(*grew),
            Reply::Created { missing, more } => {
                let ranges: Vec<Piece> = missing.iter().map(|&(p, l)| Piece(p, l)).collect();
                to.array(&ranges, MAX_RANGES)?;
                to.bool(*more)
            }
            Reply::Stored { complete } => to.bool(*complete),
            Reply::Failed { code, detail } => {
                to.uint(*code as u32)?;
                to.opaque(detail, MAX_DETAIL_LEN)
            }
        }
    }

    fn decode_body<'a, S: Source<'a>>(
        kind: u32,
        from: &mut Decoder<S>,
    ) -> Result<Option<Self>, CodecError> {
        Ok(Some(match kind {
            32 => Reply::Entry(Entry::decode(from)?),
            33 => Reply::Entries { first: from.uhyper()?, entries: from.array(MAX_ENTRIES)? },
            34 => Reply::Listed { count: from.uhyper()? },
            35 => Reply::Done { grew: from.bool()? },
            36 => {
                let ranges: Vec<Piece> = from.array(MAX_RANGES)?;
                Reply::Created {
                    missing: ranges.iter().map(|r| (r.0, r.1)).collect(),
                    more: from.bool()?,
                }
            }
            37 => Reply::Stored { complete: from.bool()? },
            38 => {
                let code = from.enumeration("code", |n| {
                    CODES.iter().copied().find(|code| *code as u32 == n)
                })?;
                Reply::Failed { code, detail: from.opaque(MAX_DETAIL_LEN)? }
            }
            _ => return Ok(None),
        }))
    }
}

/// A first byte and a number of bytes.
struct Piece(u64, u64);

impl fusewire_codec::xdr::Encode for Piece {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        to.uhyper(self.0)?;
        to.uhyper(self.1)
    }
}

impl<'a> fusewire_codec::xdr::Decode<'a> for Piece {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError> {
        Ok(Piece(from.uhyper()?, from.uhyper()?))
    }
}
