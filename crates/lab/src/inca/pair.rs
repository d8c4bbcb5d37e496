//! Two processes that measure together, each on its processor.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::iperf;
use super::run::Plan;
use super::task::{Means, Protocol, Report, Role, Task};
use super::wires::{self, Wires, at};
use crate::namespace::Namespace;
use crate::process::Process;
use crate::worker;
use crate::{Error, Result};

/// Where a pair of processes sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Between {
    /// Kernel near and kernel far, over the veth.
    Kernels,
    /// Kernel near, and whoever holds the TAP.
    KernelAndTap,
    /// Two kernels over the bridge.
    BridgedKernels,
    /// Two TAPs over the bridge.
    BridgedTaps,
}

/// One measurement: what the measured side does, and what its peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Over which wire.
    pub between: Between,
    /// Over which protocol.
    pub protocol: Protocol,
    /// What the measured side does: send, receive or ask.
    pub role: Role,
    /// With what.
    pub subject: Means,
    /// What its peer uses for the counterpart.
    pub peer: Means,
    /// Bytes of a message.
    pub size: usize,
    /// The measured side reads or writes bulk.
    pub bulk: bool,
    /// So does its peer, over TCP.
    pub peer_bulk: bool,
    /// See [`Task::packets`].
    pub packets: u32,
}

/// How far a message goes that is sent to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Far {
    /// To an interface that throws it away.
    Nowhere,
    /// Over the veth, up to the door of IP.
    Wire,
    /// Over the bridge, up to the door of IP.
    Bridge,
}

/// Reports of both sides.
#[derive(Clone, Debug)]
pub struct Reports {
    /// The measured side's.
    pub subject: Report,
    /// Its peer's; empty for one that answers.
    pub peer: Report,
}

impl Pair {
    /// Messages a second that arrived.
    pub fn rate(&self, reports: &Reports) -> f64 {
        match self.role {
            Role::Send => {
                // The peer of a stream counts bytes.
                let unit = match (self.protocol, self.bulk) {
                    (Protocol::Tcp, false) => self.size as f64,
                    _ => 1.0,
                };
                reports.peer.rate() / unit
            }
            _ => reports.subject.rate(),
        }
    }
}

/// Runs pairs over the wires.
pub struct Runner<'a> {
    /// The wires.
    pub wires: &'a Wires,
    /// This program, which runs the tasks.
    pub program: PathBuf,
    /// Seconds that count.
    pub seconds: f64,
    /// See [`Task::congestion`].
    pub congestion: Option<String>,
    port: u16,
}

impl<'a> Runner<'a> {
    /// A runner.
    pub fn new(wires: &'a Wires, plan: &Plan) -> Self {
        Runner {
            wires,
            program: plan.program.clone(),
            seconds: plan.seconds,
            congestion: plan.congestion.clone(),
            port: 5000,
        }
    }

    /// The kernels, for iperf3.
    pub fn between(&self) -> iperf::Between<'_> {
        iperf::Between {
            near: &self.wires.near,
            far: &self.wires.far,
            at: wires::NEAR,
            seconds: self.seconds,
        }
    }

    /// A port that no earlier measurement used, so that nothing of it is in the way.
    fn next_port(&mut self) -> u16 {
        self.port = if self.port < 30_000 { self.port + 1 } else { 5000 };
        self.port
    }

    /// Runs a pair once.
    ///
    /// # Errors
    /// What either process says, or that it stalled.
    pub fn run(&mut self, pair: &Pair) -> Result<Reports> {
        let port = self.next_port();
        let (subject, peer) = self.addresses(pair.between, port);
        let task = |means, role, bulk, me: &Place<'_>, other: &Place<'_>, core| Task {
            means,
            role,
            protocol: pair.protocol,
            size: pair.size,
            bulk,
            seconds: self.seconds,
            core,
            local: me.address,
            peer: other.address,
            peer_mac: wires::KERNEL_MAC,
            tap: me.tap.to_string(),
            congestion: self.congestion.clone(),
            packets: pair.packets,
        };
        let peer_bulk = pair.protocol == Protocol::Tcp && pair.peer_bulk;
        let counterpart = match pair.role {
            Role::Send => Role::Receive,
            Role::Receive => Role::Send,
            Role::Ask => Role::Answer,
            Role::Answer => Role::Ask,
        };
        let one = task(pair.subject, pair.role, pair.bulk, &subject, &peer, 1);
        let two = task(pair.peer, counterpart, peer_bulk, &peer, &subject, 0);
        let start = |task: &Task, place: &Place<'_>| self.start(task, place.namespace);
        let subject_is_first = pair.role == Role::Receive;
        let (first, second) = if subject_is_first {
            ((&one, &subject), (&two, &peer))
        } else {
            ((&two, &peer), (&one, &subject))
        };
        let mut listens = start(first.0, first.1)?;
        listens.address()?;
        let mut starts = start(second.0, second.1)?;
        if pair.role == Role::Ask {
            return Ok(Reports { subject: report(&mut starts)?, peer: Report::default() });
        }
        // The reader first: when it fails it has the better reason.
        let listened = report(&mut listens);
        let started = report(&mut starts);
        let (listened, started) = (listened?, started?);
        Ok(if subject_is_first {
            Reports { subject: listened, peer: started }
        } else {
            Reports { subject: started, peer: listened }
        })
    }

    /// Sends from the kernel to where nobody is, and reports the sender.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn send_to_nobody(&mut self, means: Means, size: usize, far: Far) -> Result<Report> {
        let port = self.next_port();
        let (namespace, from, to) = match far {
            Far::Nowhere => (&self.wires.near, wires::host(2, 1), wires::NOWHERE),
            Far::Wire => (&self.wires.near, wires::NEAR, wires::NOBODY),
            Far::Bridge => (&self.wires.left, wires::BRIDGE_KERNEL[0], wires::BRIDGE_NOBODY),
        };
        let task = Task {
            means,
            role: Role::Send,
            protocol: Protocol::Udp,
            size,
            bulk: false,
            seconds: self.seconds,
            core: 0,
            local: at(from, port),
            peer: at(to, port),
            peer_mac: [0; 6],
            tap: String::new(),
            congestion: None,
            packets: 0,
        };
        report(&mut self.start(&task, namespace)?)
    }

    fn addresses(&self, between: Between, port: u16) -> (Place<'a>, Place<'a>) {
        let wires = self.wires;
        let place = |namespace, ip, tap| Place { namespace, address: at(ip, port), tap };
        match between {
            Between::Kernels => {
                (place(&wires.far, wires::FAR, ""), place(&wires.near, wires::NEAR, ""))
            }
            Between::KernelAndTap => (
                place(&wires.near, wires::TAP_OURS, wires::TAP),
                place(&wires.near, wires::TAP_KERNEL, ""),
            ),
            Between::BridgedKernels => (
                place(&wires.left, wires::BRIDGE_KERNEL[0], ""),
                place(&wires.right, wires::BRIDGE_KERNEL[1], ""),
            ),
            Between::BridgedTaps => (
                place(&wires.middle, wires::BRIDGE_OURS[0], wires::BRIDGE_TAPS[0]),
                place(&wires.middle, wires::BRIDGE_OURS[1], wires::BRIDGE_TAPS[1]),
            ),
        }
    }

    fn start(&self, task: &Task, namespace: &Namespace) -> Result<Process> {
        let mut command = namespace.command(&self.program);
        worker::Task::Inca(task.clone()).pass_to(&mut command)?;
        Process::spawn(task.means.name(), task.role.name(), command)
    }
}

struct Place<'a> {
    namespace: &'a Namespace,
    address: SocketAddr,
    tap: &'static str,
}

/// What a process reports at its end, all of whose messages were what was sent.
fn report(process: &mut Process) -> Result<Report> {
    let report: Report = process.report()?;
    match report.wrong {
        0 => Ok(report),
        wrong => Err(Error::Wrong {
            method: "messages".into(),
            what: format!("{wrong} are not what was sent"),
        }),
    }
}
