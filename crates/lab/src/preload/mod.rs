//! Unmodified programs over an outboard beside the same ones on the kernel's sockets, in one run: a server in a namespace of
//! its own, asked by programs of the kernel's in another.
//!
//! ```text
//!   near, load programs, processor 0 ── veth ── far, the server, processor 1            kernel
//!   near                             ── veth ── far, the server and the outboard        outboard
//! ```
//! What far's interface receives is handled on the server's processor (the outboard's, where that is another), as the queue
//! of a card would be: on a veth it would be done, and counted, on the processor of who sent it. So the busy time of the
//! processors on far's side is what the requests cost there, whoever did the work: the kernel, the outboard, or the program.
//! A rate a core is what came by a second of that time.

mod programs;
mod run;
mod served;

use std::collections::BTreeMap;

use serde::Serialize;

pub use programs::Load;
pub use run::{Plan, run};

/// What one load of one program says.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Which.
    pub load: Load,
    /// What is counted: requests, or bytes.
    pub unit: &'static str,
    /// By name: `kernel`, `outboard`.
    pub rates: BTreeMap<&'static str, Rates>,
    /// Outboard by kernel, of rates: the median of the rounds' own ratios.
    pub ratio: Option<f64>,
    /// The smallest and the largest of them.
    pub ratio_range: Option<[f64; 2]>,
    /// Of rates a core of far's side.
    pub ratio_a_core: Option<f64>,
    /// The smallest and the largest of them.
    pub ratio_a_core_range: Option<[f64; 2]>,
    /// Of rates by processor time of the server's processes and of the outboard's together, which other work on the machine
    /// does not disturb: of what the kernel does, only what is done while one of them runs is in it.
    pub ratio_a_core_of_processes: Option<f64>,
    /// Of rates by that of the server's processes alone.
    pub ratio_a_core_of_server: Option<f64>,
}

/// Medians of one means.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rates {
    /// Requests, or bytes, a second.
    pub per_s: f64,
    /// The slowest and the fastest round.
    pub range: [f64; 2],
    /// The same by a second of busy time of the processors on far's side.
    pub per_core_s: f64,
    /// By a second of processor time of the server's own processes.
    pub per_server_s: f64,
    /// The part of the time in which the server's processor was busy: what bounds the rate, where it is nearly 1.
    pub server_busy: f64,
    /// That of the processor of the outboard, where it is another.
    pub outboard_busy: Option<f64>,
    /// That of the load program's processor: it bounds the rate, where it is nearly 1.
    pub load_busy: f64,
    /// Seconds of the outboard's processor time a second.
    pub outboard: Option<f64>,
}
