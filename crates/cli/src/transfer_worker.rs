//! One side of one transfer, in a process of its own: what `demo` and `bench transfer` start.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fusewire_lab::transfer::{self, Carrier, Manipulation, Method, Role, Sink, Source, Task};
use fusewire_session::Cipher;
use fusewire_transport::congestion::Algorithm;

use crate::output::Result;

/// One side of one transfer.
#[derive(Args)]
pub struct Worker {
    role: WorkerRole,
    #[arg(long)]
    method: Method,
    #[arg(long, default_value = "udp")]
    device: Carrier,
    #[arg(long)]
    interface: Option<String>,
    #[arg(long)]
    bind: Option<IpAddr>,
    #[arg(long, default_value_t = 0)]
    bytes: u64,
    #[arg(long)]
    adu_bytes: usize,
    #[arg(long)]
    datagram_bytes: usize,
    #[arg(long)]
    cipher: Cipher,
    #[arg(long)]
    congestion: Algorithm,
    #[arg(long)]
    identity: PathBuf,
    #[arg(long)]
    connect: Option<SocketAddr>,
    #[arg(long)]
    file: Option<PathBuf>,
    #[arg(long)]
    measure: bool,
    #[arg(long)]
    ahead: bool,
    #[arg(long)]
    early: bool,
    /// Hash the content that is sent.
    #[arg(long)]
    hash: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum WorkerRole {
    Send,
    Receive,
}

/// Does one side.
pub fn work(worker: Worker) -> Result {
    let role = match worker.role {
        WorkerRole::Send => Role::Send(worker.file.map_or(Source::Memory, Source::File)),
        WorkerRole::Receive => Role::Receive {
            connect: worker.connect.ok_or("a receiver needs --connect")?,
            sink: worker.file.map_or(Sink::Null, Sink::File),
        },
    };
    transfer::work(&Task {
        method: worker.method,
        carrier: worker.device,
        interface: worker.interface,
        bind: worker.bind,
        manipulation: Manipulation { ahead: worker.ahead, early: worker.early },
        congestion: worker.congestion,
        role,
        bytes: worker.bytes,
        adu_bytes: worker.adu_bytes,
        datagram_bytes: worker.datagram_bytes,
        cipher: worker.cipher,
        identity: worker.identity,
        measure: worker.measure,
        hash: worker.hash,
    })?;
    Ok(())
}
