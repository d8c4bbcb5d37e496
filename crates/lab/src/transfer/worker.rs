//! One side of one transfer, in a process of its own.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fusewire_base::Lines;
use fusewire_session::Cipher;
use fusewire_stack::{Adu, Application, Congestion, ConnectionId, Link};
use serde::{Deserialize, Serialize};

use super::{
    Carrier, Impairment, Manipulation, Method, Sink, Source, Transport, fusewire, kernel_tcp, shm,
};
use crate::cpu::{own_cpu_seconds, thread_cpu_seconds};
use crate::process::{self, Alive};
use crate::worker::by_name;
use crate::{Error, Result};

/// Bytes that the sender reads at once, and the receiver writes at once: stays in the second-level cache.
pub const CHUNK: usize = 256 << 10;

/// Which side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Listens, and sends to the first that connects.
    Send(Source),
    /// Connects and drains.
    Receive {
        /// Where the sender listens.
        connect: SocketAddr,
        /// Where the bytes go.
        sink: Sink,
    },
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// How.
    pub method: Method,
    /// What carries it, where it is ours.
    #[serde(with = "by_name")]
    pub carrier: Carrier,
    /// The interface that carries it, where it is one.
    pub interface: Option<String>,
    /// The address of this side's UDP socket; loopback's unless it is said.
    pub bind: Option<IpAddr>,
    /// When the data pass runs.
    pub manipulation: Manipulation,
    /// The transport, where it is ours.
    pub transport: Transport,
    /// What lies between both ends, where they are ours.
    pub path: Impairment,
    /// Congestion control, where it is ours.
    #[serde(with = "by_name")]
    pub congestion: Congestion,
    /// Which side.
    pub role: Role,
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes of an ADU.
    pub adu_bytes: usize,
    /// Most bytes of a datagram.
    pub datagram_bytes: usize,
    /// The cipher.
    #[serde(with = "by_name")]
    pub cipher: Cipher,
    /// The key file that both sides share.
    pub identity: PathBuf,
    /// Measure the time in the three steps.
    pub measure: bool,
    /// Hash the content of a file that is sent: its receiver stores it and compares.
    pub hash: bool,
}

impl Role {
    /// The name of it.
    pub const fn name(&self) -> &'static str {
        match self {
            Role::Send(_) => "send",
            Role::Receive { .. } => "receive",
        }
    }
}

impl Task {
    /// Bytes to read at once: whole ADUs, so that only the last one is short.
    pub fn chunk(&self) -> usize {
        (CHUNK / self.adu_bytes).max(1) * self.adu_bytes
    }
}

/// What a worker prints at its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Bytes of content.
    pub bytes: u64,
    /// From the completed handshake to the last byte.
    pub seconds: f64,
    /// User and system time in between.
    pub cpu_s: f64,
    /// Packet processing time.
    #[serde(default)]
    pub ns_per_packet: Option<f64>,
    /// BLAKE3 of the content, where a file was read or written.
    #[serde(default)]
    pub hash: Option<String>,
    /// What of the processor time went into the file, where there is one.
    #[serde(default)]
    pub file: Option<FileCost>,
    /// Packets that this side sent, over the transport of ours, and those of them that it sent again.
    #[serde(default)]
    pub packets: Option<Packets>,
}

/// Processor time that content costs beside its transfer.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct FileCost {
    /// Reading or writing it.
    pub io_s: f64,
    /// Its hash.
    pub hash_s: f64,
}

/// Does `work`, and adds the processor time that it takes.
fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = thread_cpu_seconds();
    let done = work();
    *seconds += thread_cpu_seconds() - start;
    done
}

/// Does the task and prints the report.
///
/// # Errors
/// Whatever went wrong, of any kind.
pub fn work(task: &Task) -> Result<()> {
    let report = match task.method {
        method if method.is_ours() && task.carrier == Carrier::Shm => shm::work(task)?,
        Method::Integrated | Method::Blocked | Method::Sequential => fusewire::work(task)?,
        Method::KernelTcp => kernel_tcp::work_plain(task)?,
        Method::KernelTcpRecords | Method::KernelTcpPasses => kernel_tcp::work_records(task)?,
        Method::Https | Method::QuicS2n | Method::QuicQuinn | Method::Auto => {
            return Err(Error::Unsupported(format!("{} is not a worker of ours", task.method)));
        }
    };
    process::report(&report)
}

/// Wall and CPU time since the start.
pub struct Stopwatch {
    wall: Instant,
    cpu: f64,
}

impl Stopwatch {
    pub fn start() -> Self {
        Stopwatch { wall: Instant::now(), cpu: own_cpu_seconds() }
    }

    pub fn report(&self, bytes: u64, hash: Option<blake3::Hash>) -> Report {
        Report {
            bytes,
            seconds: self.wall.elapsed().as_secs_f64(),
            cpu_s: own_cpu_seconds() - self.cpu,
            hash: hash.map(|h| h.to_hex().to_string()),
            ..Report::default()
        }
    }
}

/// The sender's content, chunk by chunk, in memory that begins at a line: what is read into is else four times slower.
pub struct Reader {
    file: Option<File>,
    hasher: Option<blake3::Hasher>,
    buffer: Lines,
    at: u64,
    end: u64,
    cost: FileCost,
    alive: Alive,
}

impl Reader {
    pub fn open(task: &Task, source: &Source, chunk: usize) -> Result<Self> {
        let mut buffer = Lines::new(chunk);
        buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 31 % 251) as u8);
        let (end, cost) = (task.bytes, FileCost::default());
        let alive = Alive::from_now();
        let memory = Reader { file: None, hasher: None, buffer, at: 0, end, cost, alive };
        let Source::File(path) = source else { return Ok(memory) };
        let file = File::open(path).map_err(Error::os("opening the source"))?;
        let end = file.metadata().map_err(Error::os("looking at the source"))?.len();
        let hasher = task.hash.then(blake3::Hasher::new);
        Ok(Reader { file: Some(file), hasher, end, ..memory })
    }

    /// The next chunk; empty at the end.
    pub fn next(&mut self) -> Result<&[u8]> {
        self.alive.goes_on();
        let len = (self.end - self.at).min(self.buffer.len() as u64) as usize;
        let buffer = &mut self.buffer[..len];
        if let Some(file) = &self.file {
            timed(&mut self.cost.io_s, || file.read_exact_at(buffer, self.at))
                .map_err(Error::os("reading the source"))?;
        }
        if let Some(hasher) = &mut self.hasher {
            timed(&mut self.cost.hash_s, || hasher.update(buffer));
        }
        self.at += len as u64;
        Ok(buffer)
    }

    /// What was read.
    pub fn report(&self, watch: &Stopwatch) -> Report {
        let hash = self.hasher.as_ref().map(blake3::Hasher::finalize);
        let file = self.file.is_some().then_some(self.cost);
        Report { file, ..watch.report(self.at, hash) }
    }
}

/// Packets of one side: all that it sent, and those that it sent again.
pub type Packets = [u64; 2];

/// Sends the content and ends.
pub fn send<L: Link>(link: &mut L, task: &Task, source: &Source) -> Result<Report> {
    let mut reader = Reader::open(task, source, task.chunk())?;
    let watch = Stopwatch::start();
    loop {
        let chunk = reader.next()?;
        if chunk.is_empty() {
            break;
        }
        link.send_batch(chunk.chunks(task.adu_bytes))?;
    }
    link.finish()?;
    Ok(reader.report(&watch))
}

/// Receives until the sender's authenticated end, and ends.
pub fn receive<L: Link>(link: &mut L, task: &Task, sink: &Sink) -> Result<Report> {
    let mut drain = Drain { writer: Writer::create(sink, task.adu_bytes)?, next: 0 };
    let watch = Stopwatch::start();
    if task.manipulation.early {
        while let Some(adu) = link.recv_adu()? {
            if let Some(memory) = drain.writer.place(adu.len()) {
                memory.copy_from_slice(&adu);
                drain.writer.placed(adu.len());
            }
            link.recycle(adu);
        }
    } else {
        link.recv_with(&mut drain, |_| false)?;
    }
    drain.writer.flush()?;
    let report = drain.writer.report(&watch);
    link.finish()?;
    Ok(report)
}

/// Puts each ADU behind the one before. One that comes before its turn is kept by the link until then.
struct Drain {
    writer: Writer,
    next: u64,
}

impl Application for Drain {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        if adu.index == self.next { self.writer.place(adu.len) } else { None }
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.writer.placed(adu.len);
        self.next += 1;
    }
}

/// The receiver's content, in order. With a null sink it is stored into `buffer` and forgotten.
pub struct Writer {
    file: Option<Output>,
    buffer: Lines,
    filled: usize,
    bytes: u64,
    alive: Alive,
}

/// The file that it goes to.
struct Output {
    file: File,
    hasher: blake3::Hasher,
    cost: FileCost,
}

impl Writer {
    /// `adu` is the longest piece that comes at once.
    pub fn create(sink: &Sink, adu: usize) -> Result<Self> {
        let (file, room) = match sink {
            Sink::Null => (None, adu),
            Sink::File(path) => (Some(Output::create(path)?), CHUNK.max(adu)),
        };
        Ok(Writer { file, buffer: Lines::new(room), filled: 0, bytes: 0, alive: Alive::from_now() })
    }

    /// Memory for the next `len` bytes.
    pub fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.file.is_some() && self.filled + len > self.buffer.len() && self.flush().is_err() {
            return None;
        }
        self.buffer.get_mut(self.filled..self.filled + len)
    }

    /// The memory of the last `place` holds its bytes.
    pub fn placed(&mut self, len: usize) {
        let before = self.bytes;
        self.bytes += len as u64;
        if self.bytes / CHUNK as u64 != before / CHUNK as u64 {
            self.alive.goes_on();
        }
        if self.file.is_some() {
            self.filled += len;
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write(&self.buffer[..self.filled]).map_err(Error::os("writing the sink"))?;
            self.filled = 0;
        }
        Ok(())
    }

    /// What was written.
    pub fn report(&self, watch: &Stopwatch) -> Report {
        let hash = self.file.as_ref().map(|file| file.hasher.finalize());
        let file = self.file.as_ref().map(|file| file.cost);
        Report { file, ..watch.report(self.bytes, hash) }
    }
}

impl Output {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(Error::os("creating the sink"))?;
        Ok(Output { file, hasher: blake3::Hasher::new(), cost: FileCost::default() })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        timed(&mut self.cost.hash_s, || self.hasher.update(bytes));
        timed(&mut self.cost.io_s, || self.file.write_all(bytes))
    }
}
