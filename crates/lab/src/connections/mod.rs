//! Many connections to one server: do all of them work, is it fair, and what does the server take for it?
//!
//! The server is the program itself, `fusewire serve`, in a process of its own. Clients are threads here, each
//! with a socket, a stack and a connection as `fusewire get` has them; they check the contents by the tree hash and
//! forget them. Connections that only stay open share the stack and socket of one more thread.

mod clients;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_session::Identity;
use serde::Serialize;

use crate::made::{hash_file, make_file};
use crate::scratch::Scratch;
use crate::server::Server;
use crate::stats::{median, range};
use crate::{Error, Result};
use clients::{Clients, Transfer};

/// Rest after connections were made, before CPU time at rest is measured.
const SETTLE: Duration = Duration::from_millis(500);

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections open at once.
    pub open: usize,
    /// How many of them transfer.
    pub transferring: usize,
    /// Bytes that each of those gets.
    pub bytes: u64,
    /// How long CPU time at rest is measured, with no connection and with all.
    pub idle: Duration,
    /// The program that serves.
    pub program: PathBuf,
}

/// What came of it. Rates are bytes a second of one connection.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Connections that were open at once.
    pub open: usize,
    /// How many of them transferred.
    pub transferring: usize,
    /// Bytes that each was to get.
    pub bytes: u64,
    /// Every one got them, and the tree hash was right.
    pub verified: bool,
    /// What failed, and why.
    pub failures: Vec<String>,
    /// Seconds until all connections were open.
    pub open_s: f64,
    /// Seconds from the first request to the last byte.
    pub transfer_s: f64,
    /// All bytes of all connections over that time.
    pub bytes_per_s: f64,
    /// Rate of the slowest connection.
    pub bytes_per_s_min: f64,
    /// The median of the connections' rates.
    pub bytes_per_s_median: f64,
    /// Rate of the fastest connection.
    pub bytes_per_s_max: f64,
    /// `bytes_per_s_min` over `bytes_per_s_median`.
    pub slowest_to_median: f64,
    /// Most memory that the server had at any time (VmHWM).
    pub server_memory_bytes: u64,
    /// The same before the transfers began, with all connections open.
    pub server_memory_idle_bytes: u64,
    /// CPU seconds of the server while connections were opened.
    pub server_open_cpu_s: f64,
    /// CPU seconds of the server while they transferred.
    pub server_transfer_cpu_s: f64,
    /// CPU time of the server at rest without connections, in per cent of a core.
    pub server_idle_percent: f64,
    /// The same with all connections open.
    pub server_idle_open_percent: f64,
}

/// Runs it. `progress` hears what begins.
///
/// # Errors
/// The server could not be started or died, or the system refused. Connections that fail are counted instead.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Outcome> {
    if plan.transferring == 0 || plan.transferring > plan.open {
        let text = "at least one connection transfers, and no more than are open";
        return Err(Error::Unsupported(text.into()));
    }
    let scratch = Scratch::new()?;
    let (served, state) = (scratch.path().join("served"), scratch.path().join("state"));
    std::fs::create_dir(&served).map_err(Error::os("making the folder to serve"))?;
    let file = served.join(clients::NAME);
    make_file(&file, plan.bytes)?;
    let hash = hash_file(&file)?;
    let server = Server::fusewire(&plan.program, &served, &state, &["--no-kernel-tcp"])?;
    // The server has made its key by now: its own user's clients have it too.
    let identity = state.join("fusewire").join("identity.pem");
    let identity = Arc::new(Identity::load_or_create(&identity)?);

    progress("the server at rest, without connections");
    std::thread::sleep(SETTLE);
    let server_idle_percent = cpu_percent(&server, plan.idle)?;

    progress(&format!("opening {} connections", plan.open));
    let (began, cpu) = (Instant::now(), server.threads_cpu_s()?);
    let clients = Clients::open(&server, identity, plan.open, plan.transferring)?;
    let (open_s, server_open_cpu_s) =
        (began.elapsed().as_secs_f64(), server.threads_cpu_s()? - cpu);

    progress("the server at rest, with all of them open");
    std::thread::sleep(SETTLE);
    let server_idle_open_percent = cpu_percent(&server, plan.idle)?;
    let server_memory_idle_bytes = server.peak_memory()?;

    progress(&format!("{} transfers of {} bytes", plan.transferring, plan.bytes));
    let (began, cpu) = (Instant::now(), server.threads_cpu_s()?);
    let (transfers, mut failures) = clients.transfer();
    let transfer_s = began.elapsed().as_secs_f64();
    let server_transfer_cpu_s = server.threads_cpu_s()? - cpu;
    let server_memory_bytes = server.peak_memory()?;
    server.stop()?;

    let mut rates = Vec::new();
    for transfer in &transfers {
        match check(transfer, &hash, plan.bytes) {
            Ok(rate) => rates.push(rate),
            Err(why) => failures.push(why),
        }
    }
    let [min, max] = range(rates.iter().copied()).unwrap_or_default();
    let median = median(rates.iter().copied()).unwrap_or_default();
    Ok(Outcome {
        open: plan.open,
        transferring: plan.transferring,
        bytes: plan.bytes,
        verified: failures.is_empty() && rates.len() == plan.transferring,
        failures,
        open_s,
        transfer_s,
        bytes_per_s: (rates.len() as u64 * plan.bytes) as f64 / transfer_s,
        bytes_per_s_min: min,
        bytes_per_s_median: median,
        bytes_per_s_max: max,
        slowest_to_median: if median > 0.0 { min / median } else { 0.0 },
        server_memory_bytes,
        server_memory_idle_bytes,
        server_open_cpu_s,
        server_transfer_cpu_s,
        server_idle_percent,
        server_idle_open_percent,
    })
}

/// CPU time of the server over a while, in per cent of a core.
fn cpu_percent(server: &Server, over: Duration) -> Result<f64> {
    let (cpu, began) = (server.threads_cpu_s()?, Instant::now());
    std::thread::sleep(over);
    let used = server.threads_cpu_s()? - cpu;
    Ok(used / began.elapsed().as_secs_f64().max(1e-9) * 100.0)
}

/// The rate of a transfer that got what it should.
fn check(transfer: &Transfer, hash: &blake3::Hash, bytes: u64) -> std::result::Result<f64, String> {
    match transfer.hash {
        Some(found) if found == *hash.as_bytes() => {}
        Some(_) => return Err("what came is not what was served".into()),
        None => return Err("a transfer ended without a file".into()),
    }
    Ok(bytes as f64 / transfer.took.as_secs_f64().max(1e-9))
}
