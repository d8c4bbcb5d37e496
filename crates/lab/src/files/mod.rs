//! Files, as users transfer them: many small ones, a large one, a tree again without a change, the second half of a
//! large one; over `fusewire serve`, over an rsync daemon, and by `cp`, on each file system that is asked for.
//!
//! Servers and clients are processes, the clients new ones for each transfer: seconds are from a client's start to
//! its end. What has come is compared with what was to come, by hash, permissions and time, before its seconds count.
//! Contents are in the page cache, and what was written before is on the disk, when a transfer begins. The rsync
//! daemon does not encrypt.

mod client;
mod run;
mod tree;

use std::path::PathBuf;

use serde::Serialize;

use crate::named::named;
pub use run::{Plan, run};

named! {
    /// What is transferred, in the order of a report.
    Case {
        /// A tree of small files.
        Small = "small",
        /// The same tree to the same place, where nothing has changed.
        Again = "again",
        /// One large file.
        Large = "large",
        /// A large file of which about half is there.
        Resume = "resume",
    }
}

impl Case {
    /// It is about the tree, not about the large file.
    const fn is_tree(self) -> bool {
        matches!(self, Case::Small | Case::Again)
    }
}

named! {
    /// Who asks for it.
    Direction {
        /// The client gets it from the server.
        Get = "get",
        /// The client puts it on the server.
        Put = "put",
        /// There is no server.
        Copy = "copy",
    }
}

named! {
    /// How, in the order of a report.
    Method {
        /// `fusewire`, over our TCP in UDP datagrams.
        Udp = "fusewire",
        /// `fusewire --device kernel-tcp`.
        KernelTcp = "fusewire-kernel-tcp",
        /// `fusewire --device shm`.
        Shm = "fusewire-shm",
        /// `rsync` with a daemon over loopback, which does not encrypt.
        Rsync = "rsync",
        /// `cp`.
        Cp = "cp",
    }
}

impl Method {
    /// What `--device` is told, where it is our program.
    const fn device(self) -> Option<&'static str> {
        match self {
            Method::Udp => Some("udp"),
            Method::KernelTcp => Some("kernel-tcp"),
            Method::Shm => Some("shm"),
            Method::Rsync | Method::Cp => None,
        }
    }

    const fn directions(self) -> &'static [Direction] {
        match self {
            Method::Cp => &[Direction::Copy],
            _ => &[Direction::Get, Direction::Put],
        }
    }
}

/// One line of the result: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What.
    pub case: Case,
    /// Who asked.
    pub direction: Direction,
    /// How.
    pub method: Method,
    /// The kind of file system, as the kernel names it.
    pub filesystem: String,
    /// The folder that was given.
    pub dir: PathBuf,
    /// Files that were to be there at the end.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Of them, bytes that were there already; absent where none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_there: Option<u64>,
    /// Seconds from the client's start to its end.
    pub seconds: f64,
    /// Smallest and largest of the rounds.
    pub seconds_range: [f64; 2],
    /// CPU seconds of client and server.
    pub cpu_seconds: f64,
    /// Seconds over those of rsync in the same round, the same way; absent where there is no rsync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_rsync: Option<f64>,
    /// Rounds.
    pub rounds: usize,
}
