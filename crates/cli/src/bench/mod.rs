//! `fusewire bench …`.

mod cast;
mod codec;
mod connections;
mod files;
mod generate;
mod inca;
mod kernels;
mod latency;
mod outboard;
mod parts;
mod preload;
mod trace;
mod transfer;

use clap::Subcommand;

use crate::output::{Code, Failure, Result};

/// What to measure.
#[derive(Subcommand)]
pub enum Bench {
    /// The whole transfer, beside sequential processing, kernel TCP, HTTPS and QUIC.
    Transfer(transfer::Options),
    /// Many connections to one server: fairness, memory, CPU time at rest.
    Connections(connections::Options),
    /// Many small files, a large one, a tree again, a large one resumed, beside rsync and cp.
    Files(files::Options),
    /// One file to many hosts at once, beside uftp and udpcast. Needs root.
    Cast(cast::Options),
    /// Round trips of 64 bytes, alone and beside idle connections; beside kernel UDP, `ip::Host` and quinn.
    Latency(latency::Options),
    /// Each pipeline: one loop beside strips, separate passes and the best library.
    Kernels(kernels::Options),
    /// A message whose length is in its encrypted part, beside one whose length is known first.
    Parts(parts::Options),
    /// User-level UDP and TCP beside the kernel's, over one wire. Needs root.
    Inca(inca::Options),
    /// The outboard beside the kernel's sockets and a stack in the application's process. Needs root.
    Outboard(outboard::Options),
    /// Unmodified programs over an outboard beside the kernel's sockets: redis, nginx, memcached, iperf3. Needs root.
    Preload(preload::Options),
    /// What the trace of each connection costs.
    Trace(trace::Options),
    /// Each encoding of the performance object, beside other codecs.
    Codec(codec::Options),
    /// Generated ends beside the same by hand on the general endpoint: rates, round trips, size of code, lines to write.
    Generate(generate::Options),
}

/// Runs it.
pub fn run(bench: Bench) -> Result {
    match bench {
        Bench::Transfer(options) => transfer::run(options),
        Bench::Connections(options) => connections::run(&options),
        Bench::Files(options) => files::run(options),
        Bench::Cast(options) => cast::run(options),
        Bench::Latency(options) => latency::run(&options),
        Bench::Kernels(options) => kernels::run(&options),
        Bench::Parts(options) => parts::run(&options),
        Bench::Inca(options) => inca::run(&options),
        Bench::Outboard(options) => outboard::run(&options),
        Bench::Preload(options) => preload::run(&options),
        Bench::Trace(options) => trace::run(&options),
        Bench::Codec(options) => codec::run(&options),
        Bench::Generate(options) => generate::run(&options),
    }
}

/// What options mean together, where they mean something.
fn meant<T>(found: fusewire_lab::Result<T>) -> Result<T> {
    Ok(found.map_err(|error| Failure::new(Code::Usage, error.to_string()))?)
}

/// What was measured to its end; interrupted, it says so.
fn whole<T>(found: fusewire_lab::Result<T>) -> Result<T> {
    match found {
        Err(fusewire_lab::Error::Interrupted) => {
            let why = "interrupted; what was made is removed";
            Err(Failure::new(Code::Interrupted, why).into())
        }
        other => Ok(other?),
    }
}
