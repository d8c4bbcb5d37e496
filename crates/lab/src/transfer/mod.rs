//! The whole transfer: two processes on loopback, one method after the other, alternately.
//!
//! The sender listens and prints `LISTEN ADDR`; the receiver connects and drains. Each prints one JSON
//! line at its end. Time runs from the completed handshake to the last byte in the receiver's memory;
//! CPU seconds are both processes'.

mod fusewire;
mod https;
mod impaired;
mod kernel_tcp;
#[cfg(feature = "experiments")]
pub mod requested;
mod run;
mod shm;
mod veth;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use fusewire_device::sockets::{self, Entry};
use fusewire_session::{Check, Cipher};
use fusewire_stack::on_interface::Kind;
use fusewire_stack::transport::{Protocol, Retransmission};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::named::named;
use crate::worker::by_name;
pub use impaired::Impairment;
pub use run::{Plan, run};
pub(crate) use worker::{Task, work};

named! {
    /// How the bytes travel.
    Method {
        /// Fusewire, one loop.
        Integrated = "integrated",
        /// Fusewire, each stage over strips that stay in the first-level cache.
        Blocked = "blocked",
        /// Fusewire, each stage over the whole ADU: aws-lc-rs and our best separate passes.
        Sequential = "sequential",
        /// Kernel TCP, 64 KiB writes, blocking receiver, no cipher.
        KernelTcp = "kernel_tcp",
        /// Our records over kernel TCP (the paper's Figure 12).
        KernelTcpRecords = "kernel_tcp_records",
        /// nginx and curl.
        Https = "https",
        /// s2n-quic.
        QuicS2n = "quic_s2n",
        /// quinn.
        QuicQuinn = "quic_quinn",
        /// [`Method::KernelTcpRecords`] with a pass for each stage, as the paper's kernel TCP had it.
        KernelTcpPasses = "kernel_tcp_passes",
        /// Fusewire, in the way of the three that the model takes for the cipher and the ADU.
        Auto = "auto",
    }
}

impl Method {
    /// All that are alike nothing else, in the order of a report: [`Method::Auto`] is one of the first three, and
    /// [`Method::KernelTcpPasses`] is for who asks for it.
    pub const USUAL: &'static [Method] = Method::ALL.first_chunk::<8>().unwrap();

    /// Over the transport of ours.
    pub const fn is_ours(self) -> bool {
        matches!(self, Method::Integrated | Method::Blocked | Method::Sequential | Method::Auto)
    }

    /// It carries records of ours, so that the size of an ADU and the stages of a pipeline mean something to it.
    pub const fn has_records(self) -> bool {
        self.is_ours() || matches!(self, Method::KernelTcpRecords | Method::KernelTcpPasses)
    }

    /// The kernel's TCP carries it.
    pub const fn is_kernel_tcp(self) -> bool {
        matches!(self, Method::KernelTcp | Method::KernelTcpRecords | Method::KernelTcpPasses)
    }

    /// The size of a datagram can be chosen.
    pub const fn has_datagrams(self) -> bool {
        self.is_ours() || matches!(self, Method::QuicS2n | Method::QuicQuinn)
    }
}

/// What carries the transfers of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Our own TCP in UDP datagrams, by one of the kernel's sockets.
    Socket(&'static Entry),
    /// Shared memory.
    Shm,
    /// The kernel's UDP over veth, beside its TCP there.
    Veth,
    /// UDP datagrams of our own on a network interface: over veth, beside kernel UDP.
    Interface(Kind),
}

impl Carrier {
    /// Kernel UDP.
    pub const UDP: Carrier = Carrier::Socket(&sockets::ALL[0]);

    /// It runs between two namespaces, which are joined by veth.
    const fn is_over_veth(self) -> bool {
        matches!(self, Carrier::Veth | Carrier::Interface(_))
    }

    /// All that can be measured.
    fn all() -> impl Iterator<Item = Carrier> + Clone {
        let others = [
            Carrier::Shm,
            Carrier::Veth,
            Carrier::Interface(Kind::Packet),
            Carrier::Interface(Kind::Xdp),
        ];
        sockets::ALL.iter().map(Carrier::Socket).chain(others)
    }

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Socket(socket) => socket.name,
            Carrier::Shm => "shm",
            Carrier::Veth => "veth",
            Carrier::Interface(kind) => kind.name(),
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Carrier {
    type Err = String;
    fn from_str(text: &str) -> Result<Carrier, String> {
        crate::named::find(Carrier::all(), Carrier::name, text)
    }
}

/// What the data pass begins with, in whatever carries our records, and when it runs, over the transport of ours: the
/// papers' alternatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manipulation {
    /// The sender seals ahead into its retransmission memory, and not only what can leave at once.
    pub ahead: bool,
    /// The receiver opens each ADU right after its frame came, into memory of the stack, and copies it
    /// when the application asks; and not only then, into the application's own.
    pub early: bool,
    /// The content is 32-bit words, which the pipeline's first stage puts into network order, as XDR has them, and
    /// its last brings back.
    pub swap: bool,
    /// Headers are protected, and bodies filled up to a multiple of so many bytes: a power of two up to 1024, 1 for as
    /// they are.
    pub record_padding: Option<usize>,
}

/// The transport of ours, what it sends again, and what proves records without a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transport {
    /// Which.
    #[serde(with = "by_name")]
    pub protocol: Protocol,
    /// What XTP sends again; TCP has SACK.
    #[serde(with = "by_name")]
    pub retransmission: Retransmission,
    /// What proves records without a tag; TCP has the Internet checksum.
    #[serde(with = "by_name")]
    pub check: Check,
}

impl Transport {
    /// Each protocol, and XTP in each of these ways, with each of these checks.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for TCP, if the Internet checksum is none of them; for TCP alone, if a way is not its own.
    pub fn each(
        protocols: &[Protocol],
        ways: &[Retransmission],
        checks: &[Check],
    ) -> crate::Result<Vec<Transport>> {
        let mut all: Vec<Transport> = Vec::new();
        let own = [Retransmission::default()];
        if !protocols.contains(&Protocol::Xtp)
            && let Some(way) = ways.iter().find(|way| !own.contains(way))
        {
            let why =
                format!("{way} is a retransmission of xtp's, and xtp is not among the transports");
            return Err(Error::Unsupported(why));
        }
        for &protocol in protocols {
            let is_xtp = protocol == Protocol::Xtp;
            if !is_xtp && !checks.contains(&Check::Internet) {
                let why = format!("{protocol} has the internet check alone: the others are xtp's");
                return Err(Error::Unsupported(why));
            }
            let ways = if is_xtp { ways } else { &own };
            let checks = if is_xtp { checks } else { &[Check::Internet] };
            for &retransmission in ways {
                for &check in checks {
                    let transport = Transport { protocol, retransmission, check };
                    if !all.contains(&transport) {
                        all.push(transport);
                    }
                }
            }
        }
        Ok(all)
    }

    /// Those have their own check beside the tags of a cipher.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is none.
    pub fn fits(self, cipher: Cipher) -> crate::Result<()> {
        if self.check == Check::Internet || cipher.tag_len == 0 {
            return Ok(());
        }
        let check = self.check;
        Err(Error::Unsupported(format!(
            "check {check} is for records without a tag, and {cipher} makes one: choose a cipher that makes none"
        )))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.fmt(f)?;
        match self.retransmission {
            Retransmission::SelectiveRepeat => {}
            other => write!(f, " {other}")?,
        }
        match self.check {
            Check::Internet => Ok(()),
            Check::Cxor => f.write_str(" cxor"),
            Check::None => f.write_str(" no check"),
        }
    }
}

/// Where the sender's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Made bytes in a buffer of 256 KiB that stays in the cache.
    Memory,
    /// A file, read with pread and hashed.
    File(PathBuf),
}

/// Where the receiver's bytes go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sink {
    /// Deciphered and stored into an application buffer, then forgotten.
    Null,
    /// A file, hashed.
    File(PathBuf),
}

/// One line of the result: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// How.
    pub method: Method,
    /// What [`Method::Auto`] took; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Method>,
    /// `tcp` or `xtp`, of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// `udp`, `shm`, `packet`, `xdp`, `kernel-tcp`: the sender's.
    pub device: &'static str,
    /// The receiver's, of ours over veth, where the two may differ; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_device: Option<&'static str>,
    /// `memory` or `file`.
    pub source: &'static str,
    /// `null` or `file`.
    pub sink: &'static str,
    /// The cipher's name.
    pub cipher: String,
    /// Bytes of an ADU; absent where there are none.
    pub adu_bytes: Option<usize>,
    /// Bytes of a datagram's payload; absent where there are none.
    pub datagram_bytes: Option<usize>,
    /// The sender sealed ahead; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<bool>,
    /// The receiver opened early; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early: Option<bool>,
    /// Words were swapped; absent where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<bool>,
    /// Headers were protected, and bodies filled up to a multiple of so many bytes; absent where headers were in the
    /// clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_padding: Option<usize>,
    /// Bytes of content a second.
    pub bytes_per_s: f64,
    /// Smallest and largest of the rounds.
    pub bytes_per_s_range: [f64; 2],
    /// CPU seconds of both sides for a GiB of content.
    pub cpu_s_per_gib: f64,
    /// Of these, those that reading and writing take; between two files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_cpu_s_per_gib: Option<f64>,
    /// Of these, those that the hash takes at both ends; between two files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_cpu_s_per_gib: Option<f64>,
    /// Processing of a packet by the sender, without system calls; ours only.
    pub send_ns_per_packet: Option<f64>,
    /// Processing of a packet by the receiver, without system calls; ours only.
    pub receive_ns_per_packet: Option<f64>,
    /// Packets that the sender sent for a GiB of content; ours only, as the next two.
    pub packets_per_gib: Option<f64>,
    /// Those of them that it had sent before.
    pub again_per_gib: Option<f64>,
    /// Packets that the receiver sent for a GiB: what it acknowledged with.
    pub answers_per_gib: Option<f64>,
}
