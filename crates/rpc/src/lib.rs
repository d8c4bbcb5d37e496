//! ONC RPC version 2 (RFC 5531): what the stubs call that `fusewire xdr compile` writes.
//!
//! ```text
//!  Client ── message ──▶ Transport ──▶ Records      a byte stream: kernel TCP, stack::ip TCP, any Read + Write
//!                                      Datagrams    UDP: the kernel's, stack::ip's
//!                                      Adus         any stack::Link: encrypted
//!                                      OpenedByCall the same, opened by the first message, which goes with the handshake
//!                                      Transactions an endpoint's connection over XTP: encrypted, a packet each way
//!  Server ◀── message ── Transport
//!    └─▶ Services ─▶ Service (program, version) ─▶ the application
//! ```
//! A [`Transport`] carries whole messages. A byte stream needs record marking for that (section 11), which
//! [`Records`] does; a datagram and an ADU of Fusewire's own transport hold one message each as they are.
//!
//! Every message is hostile: what is read is bounded before it is kept, a reply that nobody waits for is
//! counted and forgotten, and whatever is wrong with a call is answered as section 9 says or dropped.
#![forbid(unsafe_code)]

mod adus;
pub mod auth;
mod client;
mod datagrams;
mod error;
mod listen;
pub mod message;
mod opened;
mod pass;
mod records;
mod replies;
mod server;
mod transactions;
mod transport;

pub use adus::Adus;
pub use auth::{AuthStat, AuthSys, Credential};
pub use client::{Client, Config, Pending};
pub use datagrams::{Datagrams, Socket};
pub use error::{Error, Fault};
pub use fusewire_codec::Limits;
pub use listen::{ListenConfig, serve_streams};
pub use opened::OpenedByCall;
pub use records::{RecordConfig, Records};
pub use server::{Call, Prepared, Reply, Server, Service, Services, Turn, argument, no_more};
pub use transactions::Transactions;
pub use transport::{Arrival, Patient, Stream, Transport};
