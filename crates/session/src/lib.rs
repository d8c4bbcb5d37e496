//! Identity, handshake, keys and records.
//!
//! A session begins with a TLS 1.3 handshake (rustls, raw public keys on both sides) over the
//! transport's stream and one message of ours each way, [`hello`]. From the byte after it, the stream
//! of that direction is a row of records of ours, [`record`], keyed from the TLS exporter, [`keys`].
//! `docs/records.md` is the specification.
//!
//! This crate knows no device and no protocol machine: bytes come in and go out through arguments, and
//! a record's place in the stream is a 64-bit offset that the caller gives. It opens files only where
//! the caller names them: [`Identity`], [`KnownHosts`], [`AllowList`], [`KeyLogFile`].
#![forbid(unsafe_code)]

mod allow_list;
mod calls;
mod config;
mod datagrams;
pub mod early;
mod error;
mod exporter;
mod fingerprint;
pub mod group;
mod handshake;
pub mod hello;
mod identity;
mod key_log;
pub mod keys;
mod known_hosts;
mod paths;
pub mod record;
mod rendezvous;
mod state_file;
mod terms;
mod tls;

pub use allow_list::AllowList;
pub use calls::Calls;
pub use config::{
    Allow, BODY_LEN_MAX, ClientConfig, DataPass, Executions, IDLE_TIMEOUT_DEFAULT, ServerConfig,
    Settings, Trust,
};
pub use datagrams::Datagrams;
pub use early::EARLY_LEN_MAX;
pub use error::{Error, HandshakeError, Misuse, Violation};
pub use exporter::{Draws, Exporter, MacKey, TAG_LEN};
pub use fingerprint::Fingerprint;
pub use fusewire_kernels::message::{Marshal, Sealing, Unmarshal, marshal, unmarshal};
pub use fusewire_kernels::suites::{self, Cipher};
pub use fusewire_kernels::{Check, Cxor, Execution, Found, Level, Swap};
pub use handshake::{Established, HANDSHAKE_LEN_MAX, Handshake, Options, Side};
pub use hello::Refusal;
pub use identity::Identity;
pub use key_log::KeyLogFile;
pub use known_hosts::{Known, KnownHosts};
pub use paths::{Paths, paths};
pub use record::{
    HeaderProtection, OpenError, Opened, RecordHeader, RecordReceiver, RecordSender, RecordType,
};
pub use rendezvous::Rendezvous;
pub use terms::{TERMS_MAX, Terms};
