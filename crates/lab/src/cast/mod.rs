//! One file to many hosts at once: `fusewire cast`, and what else does that.
//!
//! Each receiver is a host of its own, a network namespace at a bridge; packets to the group are lost at each by itself
//! where that is asked for, single ones, as they leave the bridge. Files lie in memory, and each that has come is
//! compared with what was sent. All run on this machine: where its cores are fewer than senders and receivers, they share
//! them, so CPU time of each side is beside the rate; the bridge's work, one copy for each receiver, is done in the
//! sender's time.

mod network;
mod run;

use serde::Serialize;

use crate::named::named;
pub use run::{Plan, run};

named! {
    /// How, in the order of a report.
    Method {
        /// `fusewire cast` and `receive`: encrypted, and verified by hash.
        Fusewire = "fusewire",
        /// `uftp` and `uftpd`, which do not encrypt here.
        Uftp = "uftp",
        /// `udp-sender` and `udp-receiver` (udpcast), which do not encrypt.
        Udpcast = "udpcast",
    }
}

impl Method {
    /// The programs of both sides, where they are not ours.
    const fn programs(self) -> &'static [&'static str] {
        match self {
            Method::Fusewire => &[],
            Method::Uftp => &["uftp", "uftpd"],
            Method::Udpcast => &["udp-sender", "udp-receiver"],
        }
    }
}

/// Receivers, and what each loses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Case {
    /// How many.
    pub receivers: u32,
    /// Packets of a hundred to the group that each loses by itself.
    pub lost_percent: f64,
}

/// One line of the result: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// How.
    pub method: Method,
    /// Of whom.
    #[serde(flatten)]
    pub case: Case,
    /// Most bytes a second that were asked for; absent where there was no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bytes_per_s: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the file a second, to all of them.
    pub bytes_per_s: f64,
    /// Least and most of the rounds.
    pub bytes_per_s_range: [f64; 2],
    /// The rate by that of the first case of this method in the same round.
    pub ratio_to_first: f64,
    /// CPU seconds of the sender, and of the bridge, for a GiB.
    pub sender_cpu_s_per_gib: f64,
    /// The same of a receiver: the mean of all.
    pub receiver_cpu_s_per_gib: f64,
    /// Rounds.
    pub rounds: usize,
}
