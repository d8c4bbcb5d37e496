//! What both sides of a session know when it goes on over shared memory. `docs/records.md`, section 4.
//!
//! The client asks for it in its Hello, the server's Choice names a Unix socket, and both come to
//! the same tokens and keys without sending them. No descriptor and no memory here: whoever owns the
//! socket shows and checks the tokens.

use crate::fingerprint::Fingerprint;
use crate::handshake::Options;
use crate::keys::Token;
use crate::record::{RecordReceiver, RecordSender};
use core::fmt;

/// Name, tokens and keys of one session's shared memory.
pub struct Rendezvous {
    /// The server's Unix socket, in the abstract namespace.
    pub name: Vec<u8>,
    /// What this side shows.
    pub own_token: Token,
    /// What the other side must show.
    pub peer_token: Token,
    /// The peer's key.
    pub peer: Fingerprint,
    /// What was agreed on.
    pub options: Options,
    /// Seals the records that this side puts into its ring, from offset 0.
    pub sender: RecordSender,
    /// Opens those of the peer's ring.
    pub receiver: RecordReceiver,
}

impl fmt::Debug for Rendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendezvous")
            .field("name", &self.name)
            .field("peer", &self.peer)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
