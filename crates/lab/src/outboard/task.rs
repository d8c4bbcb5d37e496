//! One end of a measurement, in a process of its own: what it is to do, and what it reports.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::application::{self, Stream};
use super::{client, inline, kernel};
use crate::inca::task::{BULK_BYTES, BULK_READ_BYTES, Report};
use crate::inca::{Protocol, Role};
use crate::named::named;
use crate::process;
use crate::{Error, Result};

/// Messages of a batch.
const BATCH: usize = 64;
/// The most bytes of one.
const BATCH_BYTES: usize = 64 << 10;

named! {
    /// Whose sockets an application has.
    Means {
        /// The kernel's.
        Kernel = "kernel",
        /// Those of an `ip::Host` in its own process.
        Inline = "inline",
        /// An outboard's.
        Outboard = "outboard",
    }
}

/// An outboard that runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Board {
    /// Where it is found.
    pub socket: PathBuf,
    /// Its process.
    pub pid: u32,
}

/// What a process is to do; goes to it as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Whose sockets.
    pub means: Means,
    /// What with them.
    pub role: Role,
    /// Over what.
    pub protocol: Protocol,
    /// Bytes of a message.
    pub size: usize,
    /// Many messages a call.
    pub batch: bool,
    /// Bytes of a stream, as many a call as it likes, and datagrams as many as the kernel merges: the peer of what is
    /// measured.
    pub bulk: bool,
    /// It asks again when there is nothing, and does not sleep.
    pub spins: bool,
    /// Seconds that count.
    pub seconds: f64,
    /// The processor that it stays on.
    pub core: usize,
    /// Its own address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// Congestion control of a stream that the kernel sends; the machine's default when there is none.
    pub congestion: Option<String>,
    /// The interface of a host in its own process.
    pub device: String,
    /// The outboard that runs, whoever it serves.
    pub board: Option<Board>,
    /// It begins at this time, in µs since 1970: many do at once.
    pub begins_us: u64,
}

impl Task {
    /// Messages of a call.
    pub fn messages(&self) -> usize {
        if self.batch { (BATCH_BYTES / self.size).clamp(1, BATCH) } else { 1 }
    }

    /// Bytes of a read or write of a stream.
    pub fn stride(&self) -> usize {
        match (self.bulk, self.role) {
            (false, _) => self.size * self.messages(),
            (true, Role::Receive) => BULK_READ_BYTES,
            (true, _) => BULK_BYTES,
        }
    }

    /// Waits until it is to begin.
    pub fn wait(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        std::thread::sleep(Duration::from_micros(self.begins_us).saturating_sub(now));
    }
}

/// Does the task and prints the report.
///
/// # Errors
/// Whatever went wrong, of any kind.
pub fn work(task: &Task) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(task.core);
    sched_setaffinity(None, &set).map_err(|e| Error::os("choosing a processor")(e.into()))?;
    let report: Report = match task.means {
        Means::Kernel => by(task, &kernel::Sockets)?,
        Means::Inline => by(task, &inline::Sockets::open(task)?)?,
        Means::Outboard => by(task, &&client::Sockets::open(task)?)?,
    };
    process::report(&report)
}

/// Sockets of some means.
pub trait Sockets {
    /// Its streams.
    type Stream: application::Stream;
    /// Its sockets for datagrams.
    type Datagrams: application::Datagrams;

    /// Waits for a connection at the task's address; `ready` is called once one can come.
    fn accept(&self, task: &Task, ready: impl FnOnce() -> Result<()>) -> Result<Self::Stream>;
    /// Connects to the task's peer.
    fn connect(&self, task: &Task) -> Result<Self::Stream>;
    /// A socket at the task's address.
    fn bind(&self, task: &Task) -> Result<Self::Datagrams>;
}

fn by<S: Sockets>(task: &Task, sockets: &S) -> Result<Report> {
    let ready = || process::listens(task.local);
    match (task.protocol, task.role) {
        (Protocol::Udp, role) => {
            let mut socket = sockets.bind(task)?;
            match role {
                Role::Send => application::send_datagrams(task, &mut socket),
                Role::Receive => {
                    ready()?;
                    application::receive_datagrams(task, &mut socket)
                }
                Role::Ask => application::ask_datagrams(task, &mut socket),
                Role::Answer => Err(Error::Unsupported("the wire answers datagrams".into())),
            }
        }
        (Protocol::Tcp, Role::Receive) => {
            application::receive_stream(task, &mut sockets.accept(task, ready)?)
        }
        (Protocol::Tcp, Role::Answer) => {
            let mut stream = sockets.accept(task, ready)?;
            stream.set_nodelay()?;
            application::answer_stream(task, &mut stream)
        }
        (Protocol::Tcp, Role::Send) => application::send_stream(task, &mut sockets.connect(task)?),
        (Protocol::Tcp, Role::Ask) => {
            let mut stream = sockets.connect(task)?;
            stream.set_nodelay()?;
            application::ask_stream(task, &mut stream)
        }
    }
}
