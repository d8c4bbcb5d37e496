//! The outboard beside a stack in the application's own process and the kernel's sockets, in one run, by one
//! application each that does the same (`application`), with a kernel as peer.
//!
//! Every figure is the median of rounds in which they alternate. The application has a processor for itself; its peer,
//! and the outboard where there is no third, share another. What processor time a message takes is told of the
//! application and of the outboard.

pub(crate) mod application;
pub(crate) mod client;
mod inline;
mod kernel;
pub(crate) mod network;
mod run;
pub(crate) mod runner;
mod task;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::inca::Direction;
pub use crate::inca::Protocol;
pub use run::{Plan, run};
pub use task::Means;
pub(crate) use task::{Task, work};

/// Sizes of a message: those of which a call's price is nearly all, a segment, a super-frame's worth.
pub const SIZES: [usize; 6] = [10, 64, 200, 1388, 16 << 10, 64 << 10];
/// The most bytes of a datagram.
pub const DATAGRAM_BYTES: usize = 65_507;

/// A result.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    /// Messages of one size, one way.
    Messages(Messages),
    /// A stream, in writes of 64 KiB and reads of 256 KiB.
    Bulk(Bulk),
    /// A message there and back.
    RoundTrip(RoundTrip),
    /// Many applications at once.
    Shares(Shares),
}

/// Rates of one means.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rates {
    /// Messages a second that arrived: the median of the rounds.
    pub messages_per_s: f64,
    /// The slowest and the fastest round.
    pub range: [f64; 2],
    /// Processor time of the application, in ns a message.
    pub application_ns: f64,
    /// Processor time of the outboard, in ns a message.
    pub outboard_ns: Option<f64>,
    /// Processor time of the peer, the kernel's work for it included, in ns a message that arrived. Where it shares a processor
    /// with the outboard, no more than 10⁹ divided by both together can arrive in a second.
    pub peer_ns: Option<f64>,
}

/// See [`Line::Messages`]. By name: `kernel`, `inline`, `outboard`, a call a message; with `_batch` up to 64 a call: of a
/// stream by `writev` and `readv`, of datagrams by `sendmmsg`, `UdpSocket::send_batch` and what the outboard has;
/// `kernel_offload`: by `UDP_SEGMENT` and `UDP_GRO`.
#[derive(Clone, Debug, Serialize)]
pub struct Messages {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// What the application does.
    pub direction: Direction,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// All that was measured.
    pub rates: BTreeMap<&'static str, Rates>,
    /// Outboard by kernel, a call a message: the median of the rounds' own ratios.
    pub ratio: Option<f64>,
    /// The smallest and the largest of them.
    pub ratio_range: Option<[f64; 2]>,
    /// Outboard by kernel, many a call.
    pub ratio_of_batch: Option<f64>,
    /// Many a call by the kernel's, a call a message.
    pub ratio_of_batch_to_single: Option<f64>,
    /// Outboard by inline, a call a message.
    pub ratio_to_inline: Option<f64>,
    /// The application's processor time a message: outboard by kernel, a call a message.
    pub application_ratio: Option<f64>,
}

/// See [`Line::Bulk`].
#[derive(Clone, Debug, Serialize)]
pub struct Bulk {
    /// What the application does.
    pub direction: Direction,
    /// Bits a second: `kernel`, `inline`, `outboard`, `iperf3`.
    pub bits_per_s: BTreeMap<&'static str, f64>,
    /// Processor seconds a GiB of the application.
    pub application_s_per_gib: BTreeMap<&'static str, f64>,
    /// Processor seconds a GiB of the outboard.
    pub outboard_s_per_gib: Option<f64>,
    /// Outboard by iperf3 (by the kernel's where there is none): the median of the rounds' own ratios.
    pub ratio: Option<f64>,
    /// The smallest and the largest of them.
    pub ratio_range: Option<[f64; 2]>,
    /// Outboard by inline.
    pub ratio_to_inline: Option<f64>,
}

/// See [`Line::RoundTrip`]. Datagrams come back from the wire itself, and nobody sleeps; a stream's peer is a process, which
/// sleeps between messages.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// Bytes of the message.
    pub size_bytes: usize,
    /// Median round trip in ns: `kernel`, `inline`, `outboard`.
    pub round_trip_ns: BTreeMap<&'static str, f64>,
    /// Outboard by inline: the median of the rounds' own ratios.
    pub ratio_to_inline: Option<f64>,
    /// Outboard by kernel.
    pub ratio_to_kernel: Option<f64>,
}

/// See [`Line::Shares`].
#[derive(Clone, Debug, Serialize)]
pub struct Shares {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// What the applications do.
    pub direction: Direction,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// How many there are.
    pub applications: usize,
    /// Of each means.
    pub by: BTreeMap<&'static str, Share>,
    /// Outboard by kernel, all applications together.
    pub ratio: Option<f64>,
}

/// How applications share what there is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Share {
    /// Messages a second of all together.
    pub messages_per_s: f64,
    /// The least share, of an even one.
    pub least: f64,
    /// The largest.
    pub most: f64,
}
