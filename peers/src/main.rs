//! The transports that `fusewire bench transfer` compares with: QUIC by quinn and by s2n-quic; quinn for
//! `fusewire bench latency` too.
//!
//! Two processes a transfer. The sender listens on loopback and prints `LISTEN ADDR`; the receiver
//! connects, opens one stream, and drains it. Each prints one JSON line at its end. Both are
//! single-threaded and tuned as their authors advise for bulk data: large windows, segmentation and
//! receive offload, one datagram size on the whole path.

#![forbid(unsafe_code)]

mod quinn_latency;
mod quinn_peer;
mod s2n_peer;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use clap::{Parser, Subcommand, ValueEnum};

/// Flow-control window of a stream and a connection, in bytes.
pub const WINDOW: u32 = 8 << 20;
/// What one application read or write carries, in bytes.
pub const CHUNK: usize = 256 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// QUIC peers for `fusewire bench transfer`.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Clone, Copy, ValueEnum)]
enum Peer {
    Quinn,
    S2n,
}

#[derive(Subcommand)]
enum Role {
    /// Listen on loopback, send to the first who connects.
    Send {
        peer: Peer,
        #[arg(long)]
        bytes: u64,
        /// UDP payload of a full datagram, in bytes.
        #[arg(long, default_value_t = 1452)]
        datagram: u16,
        /// A file to send; made bytes in memory when absent.
        #[arg(long)]
        file: Option<PathBuf>,
        /// Hash what is sent: its receiver stores it and compares.
        #[arg(long)]
        hash: bool,
        /// Where the certificate for the receiver goes.
        #[arg(long)]
        certificate: PathBuf,
    },
    /// Connect and drain.
    Receive {
        peer: Peer,
        #[arg(long)]
        connect: SocketAddr,
        #[arg(long, default_value_t = 1452)]
        datagram: u16,
        /// A file to write; forgotten when absent.
        #[arg(long)]
        file: Option<PathBuf>,
        #[arg(long)]
        certificate: PathBuf,
    },
    /// Listen on loopback and answer messages of 64 bytes, by quinn (for `fusewire bench latency`).
    LatencyServe {
        #[command(flatten)]
        load: quinn_latency::Load,
        #[arg(long)]
        certificate: PathBuf,
    },
    /// Connect and ask.
    LatencyAsk {
        #[command(flatten)]
        load: quinn_latency::Load,
        #[arg(long)]
        connect: SocketAddr,
        #[arg(long)]
        seconds: f64,
        #[arg(long)]
        certificate: PathBuf,
    },
}

/// Where the sender's bytes come from. A file is hashed as Fusewire hashes it, when it is to be.
pub enum Source {
    Memory { chunk: Bytes, left: u64 },
    File { file: std::fs::File, left: u64, hasher: Option<Box<blake3::Hasher>> },
}

impl Source {
    fn new(path: Option<PathBuf>, bytes: u64, hash: bool) -> Result<Self, Error> {
        Ok(match path {
            None => Source::Memory {
                chunk: (0..CHUNK).map(|i| (i * 31 % 251) as u8).collect::<Vec<_>>().into(),
                left: bytes,
            },
            Some(path) => {
                let file = std::fs::File::open(path)?;
                let left = file.metadata()?.len();
                Source::File { file, left, hasher: hash.then(Box::default) }
            }
        })
    }

    /// The next chunk; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Source::Memory { left: 0, .. } | Source::File { left: 0, .. } => Ok(None),
            Source::Memory { chunk, left } => {
                let n = (*left).min(chunk.len() as u64);
                *left -= n;
                Ok(Some(chunk.slice(..n as usize)))
            }
            Source::File { file, left, hasher } => {
                let len = (*left).min(CHUNK as u64) as usize;
                // From a line on, as Fusewire's own: a few bytes into a page, where large allocations begin, a copy from
                // the page cache takes four times as long on some processors.
                let mut buffer = vec![0; len + LINE];
                let start = buffer.as_ptr().align_offset(LINE).min(LINE);
                let chunk = &mut buffer[start..start + len];
                file.read_exact(chunk)?;
                if let Some(hasher) = hasher {
                    hasher.update(chunk);
                }
                *left -= len as u64;
                Ok(Some(Bytes::from(buffer).slice(start..start + len)))
            }
        }
    }
}

/// Where the receiver's bytes go.
pub struct Sink {
    file: Option<(std::fs::File, Box<blake3::Hasher>)>,
    pub bytes: u64,
    started: Option<(Instant, f64)>,
}

impl Sink {
    fn new(path: Option<PathBuf>) -> Result<Self, Error> {
        let file = path.map(std::fs::File::create).transpose()?.map(|f| (f, Box::default()));
        Ok(Sink { file, bytes: 0, started: None })
    }

    /// The handshake is done: time starts.
    pub fn start(&mut self) {
        self.started = Some((Instant::now(), cpu_seconds()));
    }

    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len() as u64;
        if let Some((file, hasher)) = &mut self.file {
            hasher.update(bytes);
            file.write_all(bytes)?;
        }
        Ok(())
    }

    fn report(&self) {
        let (start, cpu) = self.started.expect("a transfer was made");
        report("receive", self.bytes, start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    }
}

/// User and system time of this process so far.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

pub fn report(role: &str, bytes: u64, seconds: f64, cpu_s: f64) {
    println!(
        "{}",
        serde_json::json!({ "role": role, "bytes": bytes, "seconds": seconds, "cpu_s": cpu_s })
    );
}

/// Tells the receiver's parent where we are.
pub fn listening(addr: SocketAddr) {
    println!("LISTEN {addr}");
    let _ = std::io::stdout().flush();
}

/// A key of our own, whose certificate the other side reads from a file.
fn certificate_for(path: &std::path::Path) -> Result<rcgen::CertifiedKey, Error> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    std::fs::write(path, made.cert.pem())?;
    Ok(made)
}

fn main() -> Result<(), Error> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match Args::parse().role {
        Role::Send { peer, bytes, datagram, file, hash, certificate } => {
            let made = certificate_for(&certificate)?;
            let source = Source::new(file, bytes, hash)?;
            runtime.block_on(async {
                match peer {
                    Peer::Quinn => quinn_peer::send(made, datagram, source).await,
                    Peer::S2n => s2n_peer::send(made, datagram, source).await,
                }
            })
        }
        Role::Receive { peer, connect, datagram, file, certificate } => {
            let pem = std::fs::read_to_string(certificate)?;
            let mut sink = Sink::new(file)?;
            runtime.block_on(async {
                match peer {
                    Peer::Quinn => quinn_peer::receive(connect, &pem, datagram, &mut sink).await,
                    Peer::S2n => s2n_peer::receive(connect, &pem, datagram, &mut sink).await,
                }
            })?;
            sink.report();
            Ok(())
        }
        Role::LatencyServe { load, certificate } => {
            let made = certificate_for(&certificate)?;
            runtime.block_on(quinn_latency::serve(made, load))
        }
        Role::LatencyAsk { load, connect, seconds, certificate } => {
            let pem = std::fs::read_to_string(certificate)?;
            runtime.block_on(quinn_latency::ask(connect, &pem, load, seconds))
        }
    }
}
