//! Round trips of 64 bytes on loopback, with nothing else going on and with many idle connections beside: what it costs
//! a request that others wait.
//!
//! Two processes a case, each with all the connections of it. Every idle one has its thread, or its task, waiting in `recv`
//! at both ends; one more asks and is answered, and each answer is compared with what was asked.

mod calls;
pub mod cold;
mod fusewire;
mod host;
mod kernel;
mod raw;
mod talk;
mod tasks;
mod tunnel;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::namespace::{self, Namespace};
use crate::process::Process;
use crate::scratch::Scratch;
use crate::stats::median;
use crate::worker;
use crate::{Error, Result};

/// Bytes of a message, either way.
pub const BYTES: usize = 64;
/// The link of the user-level host, and the addresses on it.
const TAP: &str = "fwlatency";
const TAP_KERNEL: &str = "10.77.8.1/24";

named! {
    /// What carries the messages.
    Stack {
        /// An `Endpoint` of ours at both ends, encrypted, over UDP.
        Fusewire = "fusewire",
        /// Calls beside connections of ours over XTP, encrypted, over UDP.
        FusewireCalls = "fusewire_calls",
        /// The kernel's UDP sockets, not encrypted, a socket a connection.
        KernelUdp = "kernel_udp",
        /// `ip::Host` on a TAP, TCP, not encrypted; the kernel's TCP asks.
        IpHost = "ip_host",
        /// quinn at both ends, encrypted, a stream a connection.
        Quinn = "quinn",
    }
}

impl Stack {
    const fn has(self, api: Api) -> bool {
        match self {
            Stack::Fusewire | Stack::IpHost => true,
            Stack::FusewireCalls | Stack::KernelUdp => matches!(api, Api::Blocking),
            Stack::Quinn => matches!(api, Api::Async),
        }
    }
}

named! {
    /// How a connection is waited for.
    Api {
        /// A thread a connection, in a call that blocks.
        Blocking = "blocking",
        /// A task a connection, all of them in one thread.
        Async = "async",
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What carries the messages.
    pub stacks: Vec<Stack>,
    /// Idle connections beside the one that asks; 0 also with somebody in `accept`.
    pub idle: Vec<usize>,
    /// How long each case asks, a round.
    pub seconds: f64,
    /// Rounds; figures are the medians of theirs.
    pub rounds: usize,
    /// The program that has the workers.
    pub program: PathBuf,
    /// That of the peers, where it is built.
    pub peers: Option<PathBuf>,
}

/// What came of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What carried the messages.
    pub stack: Stack,
    /// How connections were waited for.
    pub api: Api,
    /// Idle connections, each with its thread or task.
    pub idle_connections: usize,
    /// A thread or a task was in `accept`.
    pub accepting: bool,
    /// The median round trip, in µs.
    pub round_trip_us_p50: f64,
    /// One in a hundred took longer, in µs.
    pub round_trip_us_p99: f64,
    /// `round_trip_us_p50` by that of the connection alone.
    pub ratio_to_alone: Option<f64>,
}

/// Which side a worker is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Side {
    /// Answers until it is killed.
    Serve,
    /// Asks what listens there.
    Ask(SocketAddr),
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Which side.
    pub side: Side,
    /// Over what; not [`Stack::Quinn`].
    pub stack: Stack,
    /// How connections are waited for.
    pub api: Api,
    /// Idle connections.
    pub idle: usize,
    /// Somebody is in `accept`.
    pub accepting: bool,
    /// How long to ask.
    pub seconds: f64,
    /// The key file of both sides.
    pub identity: PathBuf,
}

/// What the side that asks prints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    p50_us: f64,
    p99_us: f64,
}

/// Does one side.
///
/// # Errors
/// Whatever went wrong.
pub fn work(task: &Task) -> Result<()> {
    match (task.stack, task.side) {
        (Stack::Fusewire, _) => fusewire::work(task),
        (Stack::FusewireCalls, _) => calls::work(task),
        (Stack::KernelUdp, _) => kernel::udp(task),
        (Stack::IpHost, Side::Serve) => host::serve(task),
        (Stack::IpHost, Side::Ask(to)) => kernel::ask_tcp(task, to),
        (Stack::Quinn, _) => Err(Error::Unsupported("quinn is not a worker of ours".into())),
    }
}

#[derive(Clone, Copy)]
struct Case {
    stack: Stack,
    api: Api,
    idle: usize,
    accepting: bool,
}

impl Case {
    fn describe(&self) -> String {
        let accepting = if self.accepting { ", somebody in accept" } else { "" };
        let Case { stack, api, idle, .. } = self;
        format!("{}, {}, {idle} idle connections{accepting}", stack.name(), api.name())
    }
}

/// Runs it. `progress` hears what begins, and what is left out and why.
///
/// # Errors
/// What failed of ours and of the kernel's; a peer that fails is left out.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let scratch = Scratch::new()?;
    let cases = cases(plan, progress);
    let mut reports: Vec<Vec<Report>> = vec![Vec::new(); cases.len()];
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let case = cases[at];
            progress(&format!("round {} of {}: {}", round + 1, plan.rounds, case.describe()));
            match one(plan, &case, scratch.path()) {
                Ok(report) => reports[at].push(report),
                Err(error) if case.stack == Stack::Quinn => {
                    progress(&format!("{}: {error}", case.describe()))
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(lines(&cases, &reports))
}

fn cases(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Vec<Case> {
    let mut cases = Vec::new();
    for &stack in &plan.stacks {
        let missing = match stack {
            Stack::IpHost => namespace::available().err().map(|why| format!("no namespace: {why}")),
            Stack::Quinn if plan.peers.is_none() => {
                Some("its peer is not built: run `cargo xtask bench latency`".into())
            }
            _ => None,
        };
        if let Some(why) = missing {
            progress(&format!("{} is left out: {why}", stack.name()));
            continue;
        }
        for api in Api::ALL.iter().copied().filter(|api| stack.has(*api)) {
            for &idle in &plan.idle {
                cases.push(Case { stack, api, idle, accepting: false });
                if idle == 0 && stack != Stack::KernelUdp {
                    cases.push(Case { stack, api, idle, accepting: true });
                }
            }
        }
    }
    cases
}

fn lines(cases: &[Case], reports: &[Vec<Report>]) -> Vec<Line> {
    let median = |reports: &[Report], of: fn(&Report) -> f64| median(reports.iter().map(of));
    let mut lines: Vec<Line> = Vec::new();
    for (case, reports) in cases.iter().zip(reports) {
        let (Some(p50), Some(p99)) = (median(reports, |r| r.p50_us), median(reports, |r| r.p99_us))
        else {
            continue;
        };
        let alone = lines.iter().find(|line| {
            (line.stack, line.api) == (case.stack, case.api)
                && (line.idle_connections, line.accepting) == (0, false)
        });
        let ratio_to_alone = alone.map(|alone| p50 / alone.round_trip_us_p50);
        lines.push(Line {
            stack: case.stack,
            api: case.api,
            idle_connections: case.idle,
            accepting: case.accepting,
            round_trip_us_p50: p50,
            round_trip_us_p99: p99,
            ratio_to_alone,
        });
    }
    lines
}

/// One case: two processes.
fn one(plan: &Plan, case: &Case, dir: &Path) -> Result<Report> {
    let network = (case.stack == Stack::IpHost).then(Namespace::new).transpose()?;
    let Case { stack, api, idle, accepting } = *case;
    let start = |side: Side| {
        let (mut command, role) = (program(plan, stack, network.as_ref()), side.role());
        match stack {
            Stack::Quinn => {
                command.arg(format!("latency-{role}"));
                command.arg("--certificate").arg(dir.join("peer.pem"));
                command.args(["--idle", &idle.to_string()]);
                command.args(accepting.then_some("--accepting"));
                if let Side::Ask(to) = side {
                    command.args(["--connect", &to.to_string()]);
                    command.args(["--seconds", &plan.seconds.to_string()]);
                }
            }
            _ => {
                let (seconds, identity) = (plan.seconds, dir.join("key"));
                let task = Task { side, stack, api, idle, accepting, seconds, identity };
                worker::Task::Latency(task).pass_to(&mut command)?;
            }
        }
        Process::spawn(stack.name(), role, command)
    };
    let mut server = start(Side::Serve)?;
    let address = server.address()?;
    if let Some(network) = &network {
        network.ip(&format!("address add {TAP_KERNEL} dev {TAP}"))?;
    }
    start(Side::Ask(address))?.report()
}

/// The program that runs one side.
fn program(plan: &Plan, stack: Stack, network: Option<&Namespace>) -> Command {
    match (network, &plan.peers) {
        (Some(network), _) => network.command(&plan.program),
        (None, Some(peers)) if stack == Stack::Quinn => Command::new(peers),
        _ => Command::new(&plan.program),
    }
}

impl Side {
    const fn role(self) -> &'static str {
        match self {
            Side::Serve => "serve",
            Side::Ask(_) => "ask",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_same_stack_alone() {
        let case = |api, idle, accepting| Case { stack: Stack::Fusewire, api, idle, accepting };
        let cases = [
            case(Api::Blocking, 0, false),
            case(Api::Blocking, 0, true),
            case(Api::Async, 0, false),
            case(Api::Async, 800, false),
            case(Api::Async, 50, false),
        ];
        let of =
            |all: &[f64]| all.iter().map(|us| Report { p50_us: *us, p99_us: us * 2.0 }).collect();
        let reports = [of(&[10.0, 9.0, 50.0]), of(&[12.0]), of(&[20.0]), of(&[30.0]), of(&[])];
        let lines = lines(&cases, &reports);
        let ratios: Vec<f64> = lines.iter().filter_map(|line| line.ratio_to_alone).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(
            lines.iter().map(|l| l.round_trip_us_p50).collect::<Vec<_>>(),
            [10.0, 12.0, 20.0, 30.0]
        );
        assert_eq!(ratios, [1.2, 1.5]);
    }

    #[test]
    fn every_stack_has_a_case_alone_and_with_each_number_beside_it() {
        let plan = Plan {
            stacks: vec![Stack::Fusewire, Stack::KernelUdp, Stack::Quinn],
            idle: vec![0, 50],
            seconds: 1.0,
            rounds: 1,
            program: PathBuf::new(),
            peers: None,
        };
        let mut told = Vec::new();
        let cases = cases(&plan, &mut |what| told.push(what.to_owned()));
        // Ours both ways, each also with somebody in accept.
        assert_eq!(cases.len(), 2 * 3 + 2);
        assert!(told.len() == 1 && told[0].contains("quinn is left out"), "{told:?}");
    }
}
