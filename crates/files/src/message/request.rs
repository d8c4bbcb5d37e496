//! What a client asks for.

use super::{Body, wire};
use crate::meta::{Meta, Version};
use fusewire_codec::xdr::{Decode as _, Decoder, Encode as _, Encoder};
use fusewire_codec::{Error as CodecError, Problem, Sink, Source};

/// A request. Paths are as they came and not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What is at `path`? Answered by an entry. A link at the end is followed.
    Look {
        /// The path.
        path: Vec<u8>,
    },
    /// What is in the folder? Answered by entries and, after the last, by their number.
    List(List),
    /// `credit` more entries of the listing `of`.
    More {
        /// The number of the listing's request.
        of: u32,
        /// How many more.
        credit: u32,
    },
    /// Contents of a file. Answered by data and, after the last, by an end.
    Read(Read),
    /// Make a file, folder or link. A file is answered by what of it is still missing, the others by an end.
    Create(Create),
    /// All that was missing has been sent to the file that `of` made. Answered by an end, once it is stored.
    Commit {
        /// The number of the create request.
        of: u32,
    },
    /// Set permissions and times of what is there.
    Touch {
        /// The path.
        path: Vec<u8>,
        /// Permissions and times; the rest is not used.
        meta: Meta,
    },
    /// Nothing more for the request `of`, which is answered at once.
    Cancel {
        /// The number of the request.
        of: u32,
    },
}

/// What is in a folder?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The folder.
    pub path: Vec<u8>,
    /// Also what is in the folders in it. An entry of a folder comes before those of what is in it.
    pub recursive: bool,
    /// How many entries may be sent before more are asked for.
    pub credit: u32,
}

/// Contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The file.
    pub path: Vec<u8>,
    /// The state that is meant; another is refused.
    pub version: Version,
    /// First byte, a multiple of the block length.
    pub position: u64,
    /// Bytes, up to the end of the file or a multiple of the block length.
    pub len: u64,
    /// How many times over, 1 or more.
    pub copies: u32,
    /// Most bytes of contents in one reply; 0 for as many as fit.
    pub reply_bytes: u32,
    /// Most bytes of contents a second on this connection; 0 for no bound.
    pub bytes_per_s: u64,
    /// The file may grow while it is read: what is there now is meant.
    pub growing: bool,
}

/// Make a file, folder or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Where. Missing folders above it are made.
    pub path: Vec<u8>,
    /// What, and for a file which state of the client's: what is left of the same is taken up again.
    pub meta: Meta,
    /// The link's target, empty for all but links.
    pub target: Vec<u8>,
    /// Whether a file or link that is there may be replaced.
    pub replace: bool,
    /// The bytes that this connection will send: the first, a multiple of the block length.
    pub position: u64,
    /// How many, up to the end of the file or a multiple of the block length.
    pub len: u64,
}

impl Body for Request {
    fn kind(&self) -> u32 {
        match self {
            Request::Look { .. } => 1,
            Request::List(_) => 2,
            Request::More { .. } => 3,
            Request::Read(_) => 4,
            Request::Create(_) => 5,
            Request::Commit { .. } => 6,
            Request::Touch { .. } => 7,
            Request::Cancel { .. } => 8,
        }
    }

    fn is_kind(kind: u32) -> bool {
        (1..=8).contains(&kind)
    }

    fn encode_body<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        wire::RequestBody::from(self).encode(to)
    }

    fn decode_body<'a, S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError> {
        let request = Request::from(wire::RequestBody::decode(from)?);
        // The sum of a position and a length is at most 2^63 - 1. Behind a length come so many bytes.
        let (position, len, behind) = match &request {
            Request::Read(read) => (read.position, read.len, 4 + 4 + 8 + 4),
            Request::Create(create) => (create.position, create.len, 0),
            _ => return Ok(request),
        };
        match position.checked_add(len) {
            Some(end) if end <= i64::MAX as u64 => Ok(request),
            _ => {
                let problem = Problem::Value { value: len, field: "the length of a range" };
                Err(problem.at(from.position() - behind - 8))
            }
        }
    }
}
