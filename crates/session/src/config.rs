//! What each side asks of a session.

use crate::allow_list::AllowList;
use crate::error::Misuse;
use crate::fingerprint::Fingerprint;
use crate::identity::Identity;
use crate::key_log::KeyLogFile;
use crate::record::HeaderProtection;
use crate::terms::Terms;
use fusewire_kernels::{Cipher, Execution, Level, Swap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The longest body that a record may be configured to have, in bytes.
pub const BODY_LEN_MAX: u32 = 1 << 24;

/// The longest body taken unless configured otherwise, in bytes.
pub const BODY_LEN_MAX_DEFAULT: u32 = 1 << 20;

/// How long a connection may be silent unless configured otherwise.
pub const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Which code runs the data pass; both sides choose for themselves.
#[derive(Clone, Copy, Debug)]
pub struct DataPass {
    /// CPU level.
    pub level: Level,
    /// Integrated, blocked or sequential.
    pub execution: Execution,
}

impl DataPass {
    /// Integrated at the best level of this machine.
    pub fn detect() -> DataPass {
        DataPass { level: Level::detect(), execution: Execution::Integrated }
    }
}

/// Which execution is fastest for which cipher and element, as far as somebody has measured it; for the
/// others [`DataPass::execution`] holds.
#[derive(Clone, Debug, Default)]
pub struct Executions(Arc<[(Cipher, Swap, Execution)]>);

impl Executions {
    /// Of those that are known.
    pub fn new(known: impl IntoIterator<Item = (Cipher, Swap, Execution)>) -> Executions {
        Executions(known.into_iter().collect())
    }

    /// The one for a cipher and an element.
    pub fn of(&self, cipher: Cipher, element: Swap) -> Option<Execution> {
        let known = self.0.iter().find(|known| known.0 == cipher && known.1 == element);
        known.map(|(_, _, execution)| *execution)
    }
}

/// Which server a client believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The one with this key. Another ends the handshake before the client shows its own key.
    Pinned(Fingerprint),
    /// Any: [`Established::peer`](crate::Established::peer) says which, and the caller decides before it
    /// seals or shows a single byte. [`KnownHosts::check`](crate::KnownHosts::check) is for that.
    Ask,
}

/// Which clients a server serves.
#[derive(Clone, Debug)]
pub enum Allow {
    /// Only those with the server's own key.
    OwnKey,
    /// Those on the list.
    List(Arc<AllowList>),
    /// Those on a list that may be replaced meanwhile; a handshake asks it once.
    Changing(Arc<RwLock<AllowList>>),
    /// Everyone; the client's key is known all the same.
    Public,
}

impl Allow {
    /// Whether a server with the key `own` serves the client with the key `client`.
    pub fn allows(&self, own: Fingerprint, client: Fingerprint) -> bool {
        match self {
            Allow::OwnKey => own == client,
            Allow::List(list) => list.contains(client),
            Allow::Changing(list) => {
                list.read().unwrap_or_else(PoisonError::into_inner).contains(client)
            }
            Allow::Public => true,
        }
    }
}

/// What each side says for itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This side's key.
    pub identity: Arc<Identity>,
    /// A client's: ciphers to offer, best first. A server's: those that may be chosen; the client's order decides.
    pub ciphers: Vec<Cipher>,
    /// Whether an insecure cipher of the list may be chosen. The peer must allow it too.
    pub allow_insecure: bool,
    /// The longest body that this side takes, in bytes.
    pub body_len_max: u32,
    /// Give a connection up of which nothing was heard for so long. Each side says its own in the handshake and
    /// the smaller counts, for both; an idle connection asks after its peer at a third of it. `None`: this
    /// side never gives up for that.
    pub idle_timeout: Option<Duration>,
    /// Have headers of records protected, and bodies filled up, or do without the connection. A server protects them
    /// for each client that asks, also where this is `None`; of two paddings the larger counts, for both.
    pub protection: Option<HeaderProtection>,
    /// Let a client's first ADUs go with its part of the handshake, if the other side does too.
    pub early: bool,
    /// What the peer's application must have said alike, or there is no connection.
    pub terms: Terms,
    /// Code of the data pass.
    pub data_pass: DataPass,
    /// How the data pass runs with the cipher and the element that are agreed on, where it is known what is
    /// fastest.
    pub executions: Executions,
    /// Where to log keys for debugging.
    pub key_log: Option<Arc<KeyLogFile>>,
}

impl Settings {
    /// The secure defaults.
    pub fn new(identity: Arc<Identity>) -> Settings {
        Settings {
            identity,
            ciphers: Cipher::DEFAULT.to_vec(),
            allow_insecure: false,
            body_len_max: BODY_LEN_MAX_DEFAULT,
            idle_timeout: Some(IDLE_TIMEOUT_DEFAULT),
            protection: None,
            early: true,
            terms: Terms::default(),
            data_pass: DataPass::detect(),
            executions: Executions::default(),
            key_log: None,
        }
    }

    /// Refuses what no session can be made from.
    pub(crate) fn check(&self) -> Result<(), Misuse> {
        if self.ciphers.is_empty() || self.ciphers.len() > crate::hello::CIPHERS_MAX {
            return Err(Misuse::Config("one to 32 ciphers are needed"));
        }
        if !self.allow_insecure && self.ciphers.iter().any(|c| c.is_insecure()) {
            return Err(Misuse::Config(
                "an insecure cipher is listed but insecure ciphers are not allowed",
            ));
        }
        if self.protection.is_some() && self.ciphers.iter().all(|c| c.mask.is_none()) {
            return Err(Misuse::Config(
                "header protection needs a cipher that authenticates what it enciphers",
            ));
        }
        if self.body_len_max == 0 || self.body_len_max > BODY_LEN_MAX {
            return Err(Misuse::Config("the longest body must have 1 to 2^24 bytes"));
        }
        Ok(())
    }
}

/// A client's side of a session.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What a server says too.
    pub settings: Settings,
    /// Which server to believe.
    pub trust: Trust,
    /// Elements of an ADU's body, in the machine's byte order on both sides, big-endian on the wire.
    pub element: Swap,
    /// Ask to go on over shared memory: see [`Established::rendezvous`](crate::Established::rendezvous).
    pub shared_memory: bool,
}

impl ClientConfig {
    /// The secure defaults.
    pub fn new(identity: Arc<Identity>, trust: Trust) -> ClientConfig {
        let settings = Settings::new(identity);
        ClientConfig { settings, trust, element: Swap::None, shared_memory: false }
    }
}

/// A server's side of its sessions.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What a client says too.
    pub settings: Settings,
    /// Which clients to serve.
    pub allow: Allow,
    /// Where this side waits with its shared memory, for clients that ask for it: the name of a Unix
    /// socket in the abstract namespace, of 1 to 107 bytes. `None` to do without.
    pub shared_memory: Option<Vec<u8>>,
}

impl ServerConfig {
    /// The secure defaults: only the own key is served.
    pub fn new(identity: Arc<Identity>) -> ServerConfig {
        let settings = Settings::new(identity);
        ServerConfig { settings, allow: Allow::OwnKey, shared_memory: None }
    }
}
