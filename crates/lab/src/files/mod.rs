//! Files, as users transfer them: many small ones, a large one, a tree again without a change, the second half of a
//! large one; over `fusewire serve`, over an rsync daemon, and by `cp`, on each file system that is asked for.
//!
//! Servers and clients are processes, the clients new ones for each transfer: seconds are from a client's start to
//! its end. What has come is compared with what was to come, by hash, permissions and time, before its seconds count.
//! Contents are in the page cache, and what was written before is on the disk, when a transfer begins. The rsync
//! daemon does not encrypt.

mod client;
mod run;
mod server;
mod tree;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

pub use run::{Plan, run};

/// What is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// A tree of small files.
    Small,
    /// The same tree to the same place, where nothing has changed.
    Again,
    /// One large file.
    Large,
    /// A large file of which about half is there.
    Resume,
}

impl Case {
    /// All, in the order of a report.
    pub const ALL: [Case; 4] = [Case::Small, Case::Again, Case::Large, Case::Resume];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Case::Small => "small",
            Case::Again => "again",
            Case::Large => "large",
            Case::Resume => "resume",
        }
    }

    /// It is about the tree, not about the large file.
    const fn is_tree(self) -> bool {
        matches!(self, Case::Small | Case::Again)
    }
}

/// Who asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client gets it from the server.
    Get,
    /// The client puts it on the server.
    Put,
    /// There is no server.
    Copy,
}

impl Direction {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Get => "get",
            Direction::Put => "put",
            Direction::Copy => "copy",
        }
    }
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Method {
    /// `fusewire`, over our TCP in UDP datagrams.
    #[serde(rename = "fusewire")]
    Udp,
    /// `fusewire --device kernel-tcp`.
    #[serde(rename = "fusewire-kernel-tcp")]
    KernelTcp,
    /// `fusewire --device shm`.
    #[serde(rename = "fusewire-shm")]
    Shm,
    /// `rsync` with a daemon over loopback, which does not encrypt.
    #[serde(rename = "rsync")]
    Rsync,
    /// `cp`.
    #[serde(rename = "cp")]
    Cp,
}

impl Method {
    /// All, in the order of a report.
    pub const ALL: [Method; 5] =
        [Method::Udp, Method::KernelTcp, Method::Shm, Method::Rsync, Method::Cp];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Udp => "fusewire",
            Method::KernelTcp => "fusewire-kernel-tcp",
            Method::Shm => "fusewire-shm",
            Method::Rsync => "rsync",
            Method::Cp => "cp",
        }
    }

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

macro_rules! named {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<$name, String> {
                $name::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
                    let names: Vec<_> = $name::ALL.into_iter().map($name::name).collect();
                    format!("expected one of {}, found {text:?}", names.join(", "))
                })
            }
        }
    };
}

named!(Case);
named!(Method);

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
