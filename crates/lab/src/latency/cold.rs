//! Cold requests: from nothing to the answer's first byte, over a path with a round trip of so many milliseconds.
//!
//! Two processes a case: encrypted, with the request behind the handshake or in it; and raw, as TCP and XTP's transactions
//! have it. Each request has an endpoint of its own, so that its peer knows nothing of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::Device;
use fusewire_device::udp::{self, Udp};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::transport::{Config as Transport, Protocol};
use fusewire_stack::{Config, Connection, Endpoint};
use serde::{Deserialize, Serialize};

use super::BYTES;
use super::kernel::park;
use super::raw;
use super::talk::{echo, thread};
use crate::named::named;
use crate::process::{self, Process, listens};
use crate::scratch::Scratch;
use crate::stats::median;
use crate::transfer::Impairment;
use crate::worker::{self, by_name};
use crate::{Error, Result};

named! {
    /// When a request leaves.
    Way {
        /// In a record, once the session is open.
        Behind = "behind",
        /// Within the handshake, as soon as the server is known.
        Within = "within",
        /// As soon as the transport lets it, and nothing is encrypted: over TCP behind its handshake; over XTP in its first
        /// packet, as a transaction, whose second packet is the answer.
        Raw = "raw",
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A row each, for each way.
    pub transports: Vec<Protocol>,
    /// There and back.
    pub round_trip: Duration,
    /// Of a round.
    pub requests: u32,
    /// Rounds, in which the transports take turns.
    pub rounds: u32,
    /// The program that has the workers.
    pub program: PathBuf,
}

/// What came of a transport.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// `tcp` or `xtp`.
    pub transport: &'static str,
    /// When the request left.
    pub request: Way,
    /// Of the path, in ms.
    pub round_trip_ms: f64,
    /// Requests that were answered.
    pub requests: usize,
    /// From the call to the open session, in ms: the median. Raw, to when the request could leave.
    pub connected_ms: f64,
    /// From the call to the first byte of the answer, in ms: the median.
    pub first_byte_ms: f64,
    /// The smallest and the largest.
    pub first_byte_ms_range: [f64; 2],
    /// The median by the path's round trip.
    pub round_trips: f64,
    /// By the median of the first row of the same way.
    pub ratio: f64,
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Where the server listens; nothing for the server.
    ask: Option<SocketAddr>,
    #[serde(with = "by_name")]
    transport: Protocol,
    way: Way,
    path: Impairment,
    requests: u32,
    identity: PathBuf,
}

/// Milliseconds of each request: until it was connected, and until its answer came.
type Times = Vec<[f64; 2]>;

/// Runs it. `progress` hears what begins.
///
/// # Errors
/// What failed first.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let scratch = Scratch::new()?;
    let cases = cases(plan);
    let mut times: Vec<Times> = vec![Times::new(); cases.len()];
    for round in 0..plan.rounds {
        for ((way, transport), times) in cases.iter().zip(&mut times) {
            progress(&format!("round {} of {}: {transport}, {way}", round + 1, plan.rounds));
            let start = |ask: Option<SocketAddr>| {
                let mut command = Command::new(&plan.program);
                let task = Task {
                    ask,
                    transport: *transport,
                    way: *way,
                    path: Impairment { round_trip: plan.round_trip, ..Impairment::default() },
                    requests: plan.requests,
                    identity: scratch.path().join("key"),
                };
                worker::Task::Cold(task).pass_to(&mut command)?;
                Process::spawn(
                    transport.name(),
                    if ask.is_some() { "ask" } else { "serve" },
                    command,
                )
            };
            let mut server = start(None)?;
            let address = server.address()?;
            times.extend(start(Some(address))?.last_report::<Times>()?);
        }
    }
    Ok(lines(plan, &times))
}

fn cases(plan: &Plan) -> Vec<(Way, Protocol)> {
    let of = |way: &Way| plan.transports.iter().map(|transport| (*way, *transport)).collect();
    Way::ALL.iter().flat_map(|way| -> Vec<_> { of(way) }).collect()
}

fn lines(plan: &Plan, times: &[Times]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let round_trip_ms = plan.round_trip.as_secs_f64() * 1e3;
    for ((way, transport), times) in cases(plan).into_iter().zip(times) {
        let all = |which: usize| times.iter().map(move |times| times[which]);
        let (Some(connected_ms), Some(first_byte_ms)) = (median(all(0)), median(all(1))) else {
            continue;
        };
        let range = all(1).fold([f64::INFINITY, 0.0], |r, ms| [r[0].min(ms), r[1].max(ms)]);
        let first = lines.iter().find(|line| line.request == way);
        let first_ms = first.map_or(first_byte_ms, |line| line.first_byte_ms);
        lines.push(Line {
            transport: transport.name(),
            request: way,
            round_trip_ms,
            requests: times.len(),
            connected_ms,
            first_byte_ms,
            first_byte_ms_range: range,
            round_trips: first_byte_ms / round_trip_ms,
            ratio: first_byte_ms / first_ms,
        });
    }
    lines
}

/// Does one side.
///
/// # Errors
/// Whatever went wrong.
pub(crate) fn work(task: &Task) -> Result<()> {
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    match task.ask {
        None => serve(task, identity),
        Some(server) => {
            let trust = Trust::Pinned(identity.fingerprint());
            let client = ClientConfig::new(identity, trust);
            let times: Result<Times> =
                (0..task.requests).map(|n| ask(task, server, &client, n)).collect();
            process::report(&times?)
        }
    }
}

fn device(task: &Task, seed: u64) -> Result<Box<dyn Device>> {
    let device = Udp::bind((Ipv4Addr::LOCALHOST, 0).into(), &udp::Config::default())
        .map_err(Error::os("binding the UDP socket"))?;
    Ok(task.path.before(Box::new(device), seed))
}

fn endpoint(task: &Task, seed: u64) -> Result<Endpoint> {
    let device = device(task, seed)?;
    let config = Config { transport: Transport::of_records(task.transport), ..Config::default() };
    Ok(Endpoint::new(device, config)?)
}

fn serve(task: &Task, identity: Arc<Identity>) -> Result<()> {
    match (task.way, task.transport) {
        (Way::Raw, Protocol::Tcp) => return raw::serve_tcp(device(task, 0)?),
        (Way::Raw, Protocol::Xtp) => return raw::serve_xtp(device(task, 0)?),
        _ => {}
    }
    let endpoint = endpoint(task, 0)?;
    let listener = endpoint.listen(ServerConfig::new(identity))?;
    listens(endpoint.local_addr())?;
    thread(move || {
        loop {
            let connection: Connection = listener.accept()?;
            thread(move || echo(connection))?;
        }
    })?;
    park()
}

fn ask(task: &Task, server: SocketAddr, client: &ClientConfig, n: u32) -> Result<[f64; 2]> {
    let question = [n as u8; BYTES];
    let seed = u64::from(n) + 1;
    let (times, answer) = match (task.way, task.transport) {
        (Way::Raw, Protocol::Tcp) => raw::ask_tcp(device(task, seed)?, server, n, &question)?,
        (Way::Raw, Protocol::Xtp) => raw::ask_xtp(device(task, seed)?, server, &question)?,
        _ => ask_encrypted(endpoint(task, seed)?, task.way, server, client, &question)?,
    };
    if answer != question {
        let what = "an answer is not what was asked".to_owned();
        return Err(Error::Wrong { method: "cold requests".to_owned(), what });
    }
    Ok(times)
}

fn ask_encrypted(
    endpoint: Endpoint,
    way: Way,
    server: SocketAddr,
    client: &ClientConfig,
    question: &[u8; BYTES],
) -> Result<raw::Asked> {
    let began = Instant::now();
    let ms = || began.elapsed().as_secs_f64() * 1e3;
    let (connection, connected) = if way == Way::Within {
        (endpoint.connect_sending(server, client, &[question])?, ms())
    } else {
        let connection = endpoint.connect(server, client)?;
        let connected = ms();
        connection.send(question)?;
        (connection, connected)
    };
    let mut answer = [!question[0]; BYTES];
    connection.recv(&mut answer)?;
    Ok(([connected, ms()], answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_first_row_of_their_way() {
        let plan = Plan {
            transports: vec![Protocol::Tcp, Protocol::Xtp],
            round_trip: Duration::from_millis(20),
            requests: 3,
            rounds: 1,
            program: PathBuf::new(),
        };
        let of = |all: &[f64]| all.iter().map(|ms| [ms - 10.0, *ms]).collect::<Times>();
        let behind = [of(&[60.0, 80.0, 61.0]), of(&[40.0, 44.0, 42.7])];
        let within = [of(&[50.0]), of(&[30.0])];
        let raw = [of(&[40.0]), of(&[20.0])];
        let lines = lines(&plan, &[behind, within, raw].concat());
        assert_eq!((lines[0].first_byte_ms, lines[0].ratio), (61.0, 1.0));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(lines[1].round_trips, 2.135) && near(lines[1].connected_ms, 32.7));
        assert!(near(lines[1].ratio, 0.7));
        assert_eq!(lines[1].first_byte_ms_range, [40.0, 44.0]);
        assert_eq!((lines[2].request, lines[2].ratio), (Way::Within, 1.0));
        assert!(near(lines[3].ratio, 0.6) && lines[3].transport == "xtp");
        assert!(near(lines[5].ratio, 0.5) && lines[5].request == Way::Raw);
    }
}
