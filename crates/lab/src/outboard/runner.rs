//! Runs one measurement: applications, their peers, and the outboard beside them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::network::{End, Network, PREFIX, Wire};
use super::task::{Board, Means, Task};
use crate::inca::task::Report;
use crate::inca::{Protocol, Role};
use crate::namespace::Killed;
use crate::process::{Process, said};
use crate::scratch::Scratch;
use crate::worker;
use crate::{Error, Result};

/// The application's processor.
pub const APPLICATION: usize = 1;
/// The peer's.
pub const PEER: usize = 0;
/// How long it takes to start a process, with much to spare.
const START: Duration = Duration::from_millis(150);

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Whose sockets the application has.
    pub means: Means,
    /// Over what.
    pub protocol: Protocol,
    /// What the application does.
    pub role: Role,
    /// Bytes of a message.
    pub size: usize,
    /// Many messages a call.
    pub batch: bool,
    /// As much a call as the kernel can.
    pub bulk: bool,
}

/// Reports of both ends.
#[derive(Clone, Debug)]
pub struct Reports {
    /// The application's.
    pub application: Report,
    /// Its peer's; empty where there is none.
    pub peer: Report,
}

impl Case {
    /// Messages a second that arrived.
    pub fn rate(&self, reports: &Reports) -> f64 {
        match (self.role, self.protocol) {
            // The peer of a stream counts bytes.
            (Role::Send, Protocol::Tcp) if !self.bulk => reports.peer.rate() / self.size as f64,
            (Role::Send, _) => reports.peer.rate(),
            _ => reports.application.rate(),
        }
    }
}

/// The processors of an outboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Of all of it,
    pub all: usize,
    /// but of what sends, where that has its own,
    pub transmit: Option<usize>,
    /// and of what receives.
    pub receive: Option<usize>,
}

/// An outboard that runs until this is dropped.
pub struct Outboard {
    _child: Killed,
    _folder: Scratch,
    /// Where it is found.
    pub board: Board,
}

impl Outboard {
    /// Starts the program's own on a wire.
    ///
    /// # Errors
    /// What it says.
    pub fn start(wire: &Wire<'_>, program: &PathBuf, cores: Cores) -> Result<Outboard> {
        let folder = Scratch::new()?;
        let socket = folder.path().join("outboard");
        let mut command = wire.application.namespace.command("taskset");
        command.args(["--cpu-list", &cores.all.to_string()]).arg(program).arg("outboard");
        for (option, cpu) in [("--transmit-cpu", cores.transmit), ("--receive-cpu", cores.receive)]
        {
            if let Some(cpu) = cpu {
                command.args([option, &cpu.to_string()]);
            }
        }
        command.args(["--device", &wire.device.to_string(), "--json", "--quiet"]);
        command.args(["--address", &format!("{}/{PREFIX}", wire.application.address)]);
        command.arg("--socket").arg(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Killed(command.spawn().map_err(Error::os("starting an outboard"))?);
        let (pid, mut line) = (child.0.id(), String::new());
        if let Some(out) = child.0.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        if line.is_empty() {
            let _ = child.0.kill();
            return Err(Error::Unsupported(said(&mut child.0, "the outboard ended at once")));
        }
        Ok(Outboard { _child: child, _folder: folder, board: Board { socket, pid } })
    }
}

/// Runs measurements over a network.
pub struct Runner<'a> {
    /// The network.
    pub network: &'a Network,
    /// This program, which runs the tasks.
    pub program: PathBuf,
    /// Seconds that count.
    pub seconds: f64,
    /// Congestion control of the kernel's TCP senders; the machine's default when there is none.
    pub congestion: Option<String>,
    outboard: Outboard,
    port: u16,
}

impl<'a> Runner<'a> {
    /// With an outboard that runs on `cores`.
    ///
    /// # Errors
    /// It does not.
    pub fn new(network: &'a Network, program: PathBuf, cores: Cores) -> Result<Runner<'a>> {
        let outboard = Outboard::start(&network.wire(Means::Outboard), &program, cores)?;
        Ok(Runner { network, program, seconds: 0.1, congestion: None, outboard, port: 5000 })
    }

    /// A port that no earlier measurement used, so that nothing of it is in the way.
    fn next_port(&mut self) -> u16 {
        self.port = if self.port < 30_000 { self.port + 1 } else { 5000 };
        self.port
    }

    /// Runs a case once.
    ///
    /// # Errors
    /// What either process says, or that it stalled.
    pub fn run(&mut self, case: &Case) -> Result<Reports> {
        self.run_all(case, 1)?.pop().ok_or_else(|| Error::Unsupported("nobody ran".into()))
    }

    /// Runs so many applications at once, each with a peer of its own.
    ///
    /// # Errors
    /// What any process says, or that it stalled.
    pub fn run_all(&mut self, case: &Case, count: usize) -> Result<Vec<Reports>> {
        let network = self.network;
        let wire = network.wire(case.means);
        let echoes = (case.role, case.protocol) == (Role::Ask, Protocol::Udp);
        let begin = if count > 1 { START * count as u32 } else { Duration::ZERO };
        let begin = SystemTime::now() + begin;
        let begins = begin.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut running = Vec::new();
        for _ in 0..count {
            let port = self.next_port();
            let near = if echoes { wire.echo } else { wire.peer.address };
            let ends = [(wire.application.address, port).into(), (near, port).into()];
            let mut application = self.application(case, &wire, ends);
            application.begins_us = begins.as_micros() as u64;
            let mut peer = peer_of(&application);
            peer.board = None;
            let answers = (!echoes).then_some((peer, &wire.peer));
            running.push(self.start_both((application, &wire.application), answers)?);
        }
        running.into_iter().map(Pair::end).collect()
    }

    fn application(&self, case: &Case, wire: &Wire<'_>, [local, peer]: [SocketAddr; 2]) -> Task {
        let is_outboard = case.means == Means::Outboard;
        Task {
            means: case.means,
            role: case.role,
            protocol: case.protocol,
            size: case.size,
            batch: case.batch,
            bulk: case.bulk,
            spins: case.role == Role::Ask
                || (case.role, case.protocol) == (Role::Receive, Protocol::Udp),
            seconds: self.seconds,
            core: APPLICATION,
            local,
            peer,
            congestion: self.congestion.clone(),
            device: wire.device.to_string(),
            board: is_outboard.then(|| self.outboard.board.clone()),
            begins_us: 0,
        }
    }

    /// Starts who listens, and then the other.
    fn start_both(
        &self,
        application: (Task, &End<'_>),
        peer: Option<(Task, &End<'_>)>,
    ) -> Result<Pair> {
        let start = |(task, end): &(Task, &End<'_>)| {
            let mut command = end.namespace.command(&self.program);
            worker::Task::Outboard(Box::new(task.clone())).pass_to(&mut command)?;
            Process::spawn(task.means.name(), task.role.name(), command)
        };
        let asks = application.0.role == Role::Ask;
        let Some(peer) = peer else {
            return Ok(Pair { application: start(&application)?, peer: None, asks });
        };
        let receives = application.0.role == Role::Receive;
        let (first, second) = if receives { (&application, &peer) } else { (&peer, &application) };
        let mut first = start(first)?;
        first.address()?;
        let second = start(second)?;
        let (application, peer) = if receives { (first, second) } else { (second, first) };
        Ok(Pair { application, peer: Some(peer), asks })
    }
}

/// What the peer does for an application.
fn peer_of(application: &Task) -> Task {
    let role = match application.role {
        Role::Send => Role::Receive,
        Role::Receive => Role::Send,
        Role::Ask => Role::Answer,
        Role::Answer => Role::Ask,
    };
    Task {
        means: Means::Kernel,
        role,
        bulk: role != Role::Answer,
        batch: role != Role::Answer,
        spins: false,
        core: PEER,
        local: application.peer,
        peer: application.local,
        ..application.clone()
    }
}

/// Both ends at work.
struct Pair {
    application: Process,
    peer: Option<Process>,
    asks: bool,
}

impl Pair {
    fn end(mut self) -> Result<Reports> {
        let application = self.application.report::<Report>();
        let peer = match &mut self.peer {
            Some(peer) if !self.asks => peer.report::<Report>(),
            _ => Ok(Report::default()),
        };
        let reports = Reports { application: application?, peer: peer? };
        match reports.application.wrong + reports.peer.wrong {
            0 => Ok(reports),
            wrong => Err(Error::Wrong {
                method: "messages".into(),
                what: format!("{wrong} are not what was sent"),
            }),
        }
    }
}
