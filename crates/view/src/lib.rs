//! The live view of running stacks: what a stack tells of itself, the Unix socket where a process is asked,
//! and how the answers look to programs. It knows no stack: whoever runs one gives a [`Source`].
//!
//! ```text
//!  a process with stacks                                who asks (`fusewire ss`, curl, a script)
//!  Source ─┐
//!  Source ─┴▶ server (a thread) ◀── PID.sock, 0600 ──── client: a request line, or GET
//!                     └──▶ report (JSON), prometheus, trace, capture (pcapng)
//! ```
//! The server runs in a thread of its own and asks each stack for a few sockets at a time, so that the data
//! path waits for no more than that. What comes over the socket is as hostile as the network, on both sides:
//! lengths, times and the number of clients have bounds. `docs/observe.md` has the requests.
#![forbid(unsafe_code)]

pub mod client;
pub mod http;
pub mod place;
pub mod prometheus;
pub mod report;
pub mod request;
pub mod server;

pub use fusewire_device::capture::feed::{Blocks, Options as CaptureOptions};
pub use report::{Counts, End, Report, Segment, Socket, Stack, Transport};
pub use server::{Observed, Page, Source, observe};
