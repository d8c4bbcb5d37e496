//! User-level UDP and TCP beside the kernel's (INCA, tables 2 and 3), over one wire in one run.
//!
//! Every figure is the median of rounds in which kernel and Fusewire alternate; the two ends of a
//! measurement are processes on a processor each. Times of a message are in three columns, as in the paper:
//!
//! | | Fusewire | kernel |
//! |---|---|---|
//! | device to memory | inside the interface's `receive` or `transmit`, at both ends where both are ours | processor time of crossing the veth, up to the door of IP or from it |
//! | protocol processing | frame in memory to application buffer, alone | the rest of the processor time up to the application's buffer, the system call with it |
//! | application | time between two messages | the same |

pub(crate) mod alone;
pub mod cold;
mod columns;
mod floods;
mod fusewire;
pub(crate) mod iperf;
pub(crate) mod kernel;
pub mod numbered;
mod pair;
mod processing;
mod raw;
mod run;
mod segments;
pub(crate) mod task;
mod timed;
mod wires;

use serde::Serialize;

use crate::named::named;
pub use run::{Plan, run};
pub use task::Protocol;
pub(crate) use task::{Role, Task, work};

/// Sizes of a message in the paper's table 3, with table 2's in between.
pub const SIZES: [usize; 12] =
    [10, 50, 100, 200, 500, 1000, 1400, 1500, 2000, 4000, 10_000, 65_000];

named! {
    /// What the measured side does.
    Direction {
        /// It sends to a kernel.
        Send = "send",
        /// It receives from a kernel.
        Receive = "receive",
        /// Both ends are what is measured.
        Both = "both",
    }
}

/// A result.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    /// Messages of one size over one protocol in one direction.
    Messages(Messages),
    /// A stream, in writes and reads of 64 KiB.
    Bulk(Bulk),
    /// A message there and back.
    RoundTrip(RoundTrip),
    /// Protocol processing alone.
    Processing(Processing),
    /// XDR in the receive loop.
    Unmarshalling(Unmarshalling),
    /// A flood of what opens connections.
    Flood(Flood),
}

/// Rates of one means.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rates {
    /// Messages a second: the median of the rounds.
    pub messages_per_s: f64,
    /// The slowest and the fastest round.
    pub range: [f64; 2],
    /// Processor time of the measured side, in ns a message.
    pub cpu_ns: f64,
}

/// Times of a message in ns, in the columns of the paper's tables.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// Device to memory (receiving), or memory to device.
    pub device_ns: Option<f64>,
    /// Protocol processing.
    pub protocol_ns: Option<f64>,
    /// Between one message and the next at the application.
    pub application_ns: Option<f64>,
}

/// See [`Line::Messages`].
#[derive(Clone, Debug, Serialize)]
pub struct Messages {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// What the measured side does.
    pub direction: Direction,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// The kernel's sockets, a call a message.
    pub kernel_messages_per_s: Option<f64>,
    /// Fusewire: over UDP many messages a call, unless both ends are measured; a call a message otherwise.
    pub fusewire_messages_per_s: Option<f64>,
    /// Fusewire by kernel: the median of the rounds' own ratios.
    pub ratio: Option<f64>,
    /// The smallest and the largest of them.
    pub ratio_range: Option<[f64; 2]>,
    /// Fusewire by kernel with `UDP_SEGMENT` and `UDP_GRO`.
    pub ratio_to_offload: Option<f64>,
    /// Fusewire by kernel, a message a call on both sides: over UDP, where [`Messages::ratio`] is of many a call.
    pub ratio_of_single: Option<f64>,
    /// Fusewire by kernel, each message an array of XDR doubles that is unmarshalled: in the loop that sums, and from
    /// where the kernel has put it.
    pub ratio_of_xdr: Option<f64>,
    /// Fusewire by raw device.
    pub ratio_to_raw: Option<f64>,
    /// Three times of the kernel.
    pub kernel: Times,
    /// Three times of Fusewire.
    pub fusewire: Times,
    /// All that was measured, by name.
    pub rates: std::collections::BTreeMap<&'static str, Rates>,
}

/// How a program of ours writes a stream, or reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `tcp_write`, which copies; reading, `tcp_read_into`.
    Plain,
    /// `tcp_write_shared`: the bytes stay with the application until they are acknowledged.
    Shared,
}

impl Api {
    /// The name of its figures.
    pub const fn name(self) -> &'static str {
        match self {
            Api::Plain => "fusewire",
            Api::Shared => "fusewire_shared",
        }
    }
}

/// See [`Line::Bulk`].
#[derive(Clone, Debug, Serialize)]
pub struct Bulk {
    /// TCP.
    pub protocol: Protocol,
    /// What the measured side does.
    pub direction: Direction,
    /// How we write; the ratios are of this. Lines of one direction share their rounds.
    pub api: Api,
    /// Bits a second, by name: `kernel`, `iperf3`, `iperf3_zero_copy`, `raw`, `fusewire`, `fusewire_shared`.
    pub bits_per_s: std::collections::BTreeMap<&'static str, f64>,
    /// Processor seconds a GiB of the measured side, by name.
    pub cpu_s_per_gib: std::collections::BTreeMap<&'static str, f64>,
    /// Fusewire by iperf3 (by our own kernel sender and reader where there is no iperf3).
    pub ratio: Option<f64>,
    /// The smallest and the largest of the rounds.
    pub ratio_range: Option<[f64; 2]>,
    /// Fusewire by iperf3 that sends with `sendfile`.
    pub ratio_to_zero_copy: Option<f64>,
    /// Fusewire by raw device.
    pub ratio_to_raw: Option<f64>,
}

/// See [`Line::RoundTrip`].
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// UDP.
    pub protocol: Protocol,
    /// Bytes of the message.
    pub size_bytes: usize,
    /// Median round trip in ns, by name: `kernel`, `kernel_spinning`, `raw`, `fusewire`.
    pub round_trip_ns: std::collections::BTreeMap<&'static str, f64>,
    /// Fusewire by raw device.
    pub ratio_to_raw: Option<f64>,
}

/// See [`Line::Processing`]: from the frame in memory to the application's buffer, with the checksum
/// verified; of UDP XDR's byte order undone, of TCP the acknowledgement made.
#[derive(Clone, Debug, Serialize)]
pub struct Processing {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// Bytes of the message.
    pub size_bytes: usize,
    /// Nanoseconds a packet in one loop.
    pub integrated_ns: f64,
    /// Nanoseconds a packet with a pass for the sum, one for the copy, and one for the byte order (UDP) or for
    /// a second copy, out of the socket's memory (TCP).
    pub sequential_ns: f64,
    /// The same in cycles, where the kernel tells the processor's clock.
    pub integrated_cycles: Option<f64>,
    /// See `integrated_cycles`.
    pub sequential_cycles: Option<f64>,
    /// Sequential by integrated.
    pub ratio: f64,
}

impl Processing {
    fn new(protocol: Protocol, size_bytes: usize, found: &alone::Found) -> Processing {
        let alone::Found { ns, cycles, ratio } = *found;
        Processing {
            protocol,
            size_bytes,
            integrated_ns: ns[0],
            sequential_ns: ns[1],
            integrated_cycles: cycles[0],
            sequential_cycles: cycles[1],
            ratio,
        }
    }
}

/// See [`Line::Flood`]: SYNs, or FIRSTs, each from another port or with another key, at a server over the encapsulated
/// transport that somebody sends ADUs to meanwhile; and the same packets at another host.
#[derive(Clone, Debug, Serialize)]
pub struct Flood {
    /// `tcp` or `xtp`.
    pub protocol: &'static str,
    /// Bytes of a packet of the flood.
    pub packet_bytes: usize,
    /// Packets in all, half of them to the server.
    pub packets: u64,
    /// Bytes of ADUs a second while the flood goes elsewhere; of one processor that does all.
    pub beside_bytes_per_s: Option<f64>,
    /// The same while it comes to the server.
    pub under_bytes_per_s: Option<f64>,
    /// Under the flood by beside it: the median of the rounds' own ratios.
    pub ratio: Option<f64>,
    /// Nanoseconds that the server takes for one, and for its answer.
    pub ns_per_packet: Option<f64>,
    /// Contexts, or connections, at most that the server kept for them.
    pub contexts_max: usize,
    /// What bounds them.
    pub contexts_bound: usize,
    /// Cookies that it gave, beyond that.
    pub cookies: u64,
    /// Bytes that came to it in them.
    pub in_bytes: u64,
    /// Bytes that it said to their senders.
    pub out_bytes: u64,
}

/// See [`Line::Unmarshalling`]: an array of XDR doubles in a UDP message, from the frame in memory to the numbers of
/// the application, the checksum verified.
#[derive(Clone, Debug, Serialize)]
pub struct Unmarshalling {
    /// UDP.
    pub protocol: Protocol,
    /// Its type in XDR.
    pub xdr: &'static str,
    /// Bytes of the message: the count, and eight for each number.
    pub size_bytes: usize,
    /// Nanoseconds a message, verified and unmarshalled in one loop.
    pub integrated_ns: f64,
    /// Nanoseconds a message with a pass that verifies and one that unmarshals, neither of which copies.
    pub two_passes_ns: f64,
    /// The same in cycles, where the kernel tells the processor's clock.
    pub integrated_cycles: Option<f64>,
    /// See `integrated_cycles`.
    pub two_passes_cycles: Option<f64>,
    /// Two passes by integrated.
    pub ratio: f64,
}
