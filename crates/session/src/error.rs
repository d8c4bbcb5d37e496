//! What can go wrong, by blame: malformed input, a peer's violation, a refusal, misuse by the caller,
//! the operating system.

use crate::fingerprint::Fingerprint;
use crate::hello::Refusal;
use fusewire_kernels::Cipher;
use std::path::PathBuf;
use std::sync::Arc;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that no rule of ours or of TLS allows. `offset` counts from the start of what was parsed.
    #[error("malformed {what}: expected {expected}, found {found} at byte {offset}")]
    Malformed {
        /// What was being parsed.
        what: &'static str,
        /// What the rule asks for.
        expected: &'static str,
        /// The number found instead.
        found: u64,
        /// Where, in bytes from the start of `what`.
        offset: usize,
    },
    /// Text (a file's line, an argument) that does not parse.
    #[error("{what}: expected {expected}, found {found:?}")]
    Text {
        /// What was being parsed, with file and line where there are such.
        what: String,
        /// What the rule asks for.
        expected: &'static str,
        /// What was found, shortened.
        found: String,
    },
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The peer broke a rule of the record protocol.
    #[error("peer violation: {0}")]
    Violation(#[from] Violation),
    /// The caller broke a rule of this crate.
    #[error("misuse: {0}")]
    Misuse(#[from] Misuse),
    /// A record's tag is wrong: it was forged, corrupted, or sealed with another key. The record is to be
    /// dropped as if it had never come.
    #[error("the record at stream offset {offset} is not authentic")]
    NotAuthentic {
        /// Stream offset of the record.
        offset: u64,
    },
    /// More records failed authentication than the cipher allows in a connection (RFC 9001, section
    /// 6.6). The connection must end.
    #[error(
        "{failed} records failed authentication, {cipher} allows {limit}: the connection must end"
    )]
    IntegrityLimit {
        /// Records that failed.
        failed: u64,
        /// The limit.
        limit: u64,
        /// The cipher in use.
        cipher: Cipher,
    },
    /// The stream ended before its end-of-stream record.
    #[error("truncated: the stream ended at offset {at} without its end-of-stream record")]
    Truncated {
        /// Where the stream ended.
        at: u64,
    },
    /// A known host shows another key.
    #[error(
        "the key of {host} has changed: known is {known}, shown is {found}. If you know why, run \
         `fusewire key forget {host}` and connect again; otherwise someone may be in between ({})",
        path.display()
    )]
    KeyChanged {
        /// Host and port.
        host: String,
        /// The key in the file.
        known: Fingerprint,
        /// The key that the server showed.
        found: Fingerprint,
        /// The file.
        path: PathBuf,
    },
    /// A key file that others may read or write.
    #[error("{} is open to others (mode {mode:04o}): run `chmod 600 {}`", path.display(), path.display())]
    KeyFileMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file of keys that belongs to somebody else, who can change it.
    #[error(
        "{} belongs to user {owner}, not to user {user} or root: `chown` it, or copy it", path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// The user whose it is.
        owner: u32,
        /// The user who runs this program.
        user: u32,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Os {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: Arc<std::io::Error>,
    },
    /// The crypto library refused (out of entropy or memory).
    #[error("the cryptographic library failed to {0}")]
    Crypto(&'static str),
}

impl Error {
    pub(crate) fn os(
        action: &'static str,
        path: &std::path::Path,
        source: std::io::Error,
    ) -> Error {
        Error::Os { action, path: path.to_path_buf(), source: Arc::new(source) }
    }

    /// True when the connection cannot go on; false when only the record at hand is to be dropped.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Error::NotAuthentic { .. } | Error::Malformed { .. })
    }
}

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// TLS itself failed.
    #[error("TLS handshake: {0}")]
    Tls(rustls::Error),
    /// The server showed another key than the pinned one.
    #[error("the server's key is {found}, trusted is {expected}")]
    UntrustedServer {
        /// The pinned key.
        expected: Fingerprint,
        /// The server's.
        found: Fingerprint,
    },
    /// The client's key is not allowed here (told by the server's own policy).
    #[error("the client's key {0} is not allowed")]
    ClientNotAllowed(Fingerprint),
    /// The peer refused, and says why.
    #[error("the peer refused: {0}")]
    RefusedByPeer(Refusal),
    /// We refused, and told the peer why.
    #[error("refused: {0}")]
    RefusedByUs(Refusal),
    /// The peer did not agree on the application protocol `fusewire/2`, with or without ADUs in the handshake.
    #[error("the peer does not speak fusewire/2: one of the two programs is of an older version")]
    NoCommonProtocol,
    /// The peer sent more than a handshake may have.
    #[error("the handshake is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// A TLS record where a message of ours was due did not hold exactly one.
    #[error("expected one {expected} message in one TLS record")]
    Message {
        /// The message that was due.
        expected: &'static str,
    },
    /// The stream ended before the handshake did.
    #[error("the stream ended within the handshake")]
    Ended,
}

/// Rules of the record protocol that a peer broke with an authentic record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A record lies after the end-of-stream record.
    #[error("a record at offset {offset} lies after the end of the stream at {end}")]
    AfterEnd {
        /// The record's offset.
        offset: u64,
        /// Where the end-of-stream record ends.
        end: u64,
    },
    /// An end-of-stream record that has a body.
    #[error("the end-of-stream record at offset {offset} has a body")]
    EndWithBody {
        /// The record's offset.
        offset: u64,
    },
    /// A second end-of-stream record, at another offset.
    #[error("end-of-stream records end at {first} and at {second}")]
    TwoEnds {
        /// End of the first seen.
        first: u64,
        /// End of the second.
        second: u64,
    },
    /// What opens an epoch of a group, told of late or with a cipher that does not do.
    #[error("the key of epoch {epoch} of the group is not one that could come now")]
    GroupKey {
        /// The epoch.
        epoch: u32,
    },
    /// A message of a group that lies behind what was opened already.
    #[error(
        "a message of epoch {epoch} of the group, at offset {offset}, came before, or too late"
    )]
    GroupReplay {
        /// Its epoch.
        epoch: u32,
        /// Its offset.
        offset: u64,
    },
}

/// Rules of this crate that its caller broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// An offset is sealed once, and records follow each other without a gap.
    #[error("sealing at offset {found}, the next record begins at {expected}")]
    Offset {
        /// Where the next record begins.
        expected: u64,
        /// Where the caller wants it.
        found: u64,
    },
    /// An earlier `seal` was begun and did not end: the connection must end.
    #[error("an earlier record was begun and never finished")]
    Unfinished,
    /// A record after the end-of-stream record.
    #[error("sealing after the end-of-stream record")]
    AfterEnd,
    /// A body longer than the peer takes.
    #[error("a body of {len} bytes, the peer takes {max}")]
    BodyTooLong {
        /// Its length.
        len: usize,
        /// The most the peer takes.
        max: usize,
    },
    /// The end-of-stream record has no body.
    #[error("the end-of-stream record has no body")]
    EndWithBody,
    /// A buffer of the wrong length.
    #[error("a buffer of {found} bytes where {expected} are needed")]
    BufferLen {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// An offset outside the key epochs that can be in flight.
    #[error("offset {offset} lies in key epoch {epoch}, in use is {current}")]
    Epoch {
        /// The offset.
        offset: u64,
        /// Its epoch.
        epoch: u64,
        /// The epoch in use.
        current: u64,
    },
    /// Configuration that contradicts itself.
    #[error("configuration: {0}")]
    Config(&'static str),
}
