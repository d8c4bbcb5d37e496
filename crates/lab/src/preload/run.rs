//! Rounds: the same load on the kernel's and on the outboard's server in turn, medians at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use fusewire_stack::on_interface::Kind;

use super::programs::{Load, Program};
use super::served::{Place, Served, steer};
use super::{Line, Rates};
use crate::outboard::Means;
use crate::outboard::network::{Network, Wire};
use crate::outboard::runner::{APPLICATION, Cores, Outboard, PEER};
use crate::scratch::Scratch;
use crate::stats::{median, range};
use crate::{Error, Result, cpu};

/// Whose sockets servers have.
const MEANS: [Means; 2] = [Means::Kernel, Means::Outboard];

/// Congestion control of the kernels' streams: one that does not pace, which would measure its timers.
const CONGESTION: &str = "cubic";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How Fusewire takes the interface.
    pub device: Kind,
    /// Which loads.
    pub loads: Vec<Load>,
    /// The outboard's processor; a third, or else the server's.
    pub outboard_cpu: Option<usize>,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// Seconds of a round of one means, of which some load programs know whole ones alone.
    pub seconds: f64,
    /// This program, which runs servers over the outboard.
    pub program: PathBuf,
}

/// Runs it; `tell` hears of each result, of each program that is missing, and of each measurement that failed.
///
/// # Errors
/// When the wires cannot be made: not root. The outboard does not start. A measurement that fails is told and left out.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(std::result::Result<&Line, &str>)) -> Result<()> {
    let network = Network::new(plan.device, Some(CONGESTION))?;
    let wires = MEANS.map(|means| network.wire(means));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let board = plan.outboard_cpu.unwrap_or(if processors > 2 { 2 } else { APPLICATION });
    let cores = Cores { all: board, transmit: None, receive: None };
    let outboard = Outboard::start(&wires[1], &plan.program, cores)?;
    // A TAP's other end is the outboard's own.
    let steered = if plan.device == Kind::Tap { 1 } else { 2 };
    for (wire, core) in wires.iter().zip([APPLICATION, board]).take(steered) {
        if let Err(why) = steer(&wire.application, &wire.device.interface, core) {
            tell(Err(&format!("what is received is counted where it was sent: {why}")));
        }
    }
    let bench = Bench { plan, wires: &wires, outboard: &outboard, board };
    for program in Program::ALL {
        let loads: Vec<_> = plan.loads.iter().filter(|load| load.program() == program).collect();
        if loads.is_empty() {
            continue;
        }
        match bench.servers(program) {
            Ok((_folder, servers)) => {
                loads.into_iter().for_each(|load| bench.load(*load, &servers, tell));
            }
            Err(why) => tell(Err(&why.to_string())),
        }
    }
    Ok(())
}

struct Bench<'a> {
    plan: &'a Plan,
    wires: &'a [Wire<'a>; 2],
    outboard: &'a Outboard,
    board: usize,
}

/// What a round has cost.
struct Round {
    per_s: f64,
    seconds: f64,
    server_s: f64,
    outboard_s: Option<f64>,
    /// Busy seconds of the server's processor, of the outboard's where it is another, of the load's.
    busy_s: [Option<f64>; 3],
}

impl Round {
    /// Busy seconds on far's side.
    fn far_s(&self) -> f64 {
        self.busy_s[..2].iter().flatten().sum()
    }

    /// Processor seconds of the server and the outboard.
    fn both_s(&self) -> f64 {
        self.server_s + self.outboard_s.unwrap_or(0.0)
    }

    /// What came by a second of so many.
    fn by(&self, seconds: f64) -> f64 {
        self.per_s * self.seconds / seconds
    }
}

impl Bench<'_> {
    /// One on each side.
    fn servers(&self, program: Program) -> Result<(Scratch, [Served; 2])> {
        if let Some(missing) = program.needs().into_iter().find(|name| !is_there(name)) {
            return Err(Error::Unsupported(format!("{missing} is not there")));
        }
        let folder = Scratch::new()?;
        let start = |means: usize| {
            let place = Place {
                wire: &self.wires[means],
                core: APPLICATION,
                folder: folder.path().join(MEANS[means].name()),
                outboard: (MEANS[means] == Means::Outboard)
                    .then_some((&self.plan.program, self.outboard)),
            };
            Served::start(program, &place)
        };
        let servers = [start(0)?, start(1)?];
        Ok((folder, servers))
    }

    fn load(
        &self,
        load: Load,
        servers: &[Served; 2],
        tell: &mut dyn FnMut(std::result::Result<&Line, &str>),
    ) {
        let mut rounds: [Vec<Option<Round>>; 2] = Default::default();
        for round in 0..self.plan.rounds {
            for i in 0..2 {
                let means = (i + round) % 2;
                let result = self.round(load, means, &servers[means]);
                if let Err(why) = &result {
                    tell(Err(&format!("{load}, {}: {why}", MEANS[means])));
                }
                rounds[means].push(result.ok());
            }
        }
        let rates: BTreeMap<_, _> = MEANS
            .iter()
            .zip(&rounds)
            .filter_map(|(means, rounds)| Some((means.name(), rates(rounds)?)))
            .collect();
        let core = |round: &Round| round.by(round.far_s());
        let line = Line {
            load,
            unit: load.unit(),
            rates,
            ratio: median(ratios(&rounds, |round| round.per_s)),
            ratio_range: range(ratios(&rounds, |round| round.per_s)),
            ratio_a_core: median(ratios(&rounds, core)),
            ratio_a_core_range: range(ratios(&rounds, core)),
            ratio_a_core_of_processes: median(ratios(&rounds, |round| round.by(round.both_s()))),
            ratio_a_core_of_server: median(ratios(&rounds, |round| round.by(round.server_s))),
        };
        tell(Ok(&line));
    }

    /// Runs a load once.
    fn round(&self, load: Load, means: usize, server: &Served) -> Result<Round> {
        let is_outboard = MEANS[means] == Means::Outboard;
        let is_apart = is_outboard && self.board != APPLICATION;
        let mut command = self.wires[means].peer.namespace.command("taskset");
        command.args(["--cpu-list", &PEER.to_string()]);
        command.args(["timeout", &format!("{:.0}", 20.0 + self.plan.seconds * 10.0)]);
        command.args(load.command(server.address, self.plan.seconds)).stdin(Stdio::null());
        let look = || {
            let board = is_outboard.then(|| cpu::run_seconds(self.outboard.board.pid));
            let busy = [Some(APPLICATION), is_apart.then_some(self.board), Some(PEER)]
                .map(|core| core.map(cpu::busy_seconds));
            (Instant::now(), server.cpu_seconds(), board, busy)
        };
        let before = look();
        let output = command.output().map_err(Error::os("starting a load"))?;
        let after = look();
        let out = String::from_utf8_lossy(&output.stdout);
        let rate = load.rate(&out).filter(|_| output.status.success());
        let per_s = rate.ok_or_else(|| {
            let err = String::from_utf8_lossy(&output.stderr);
            Error::Unsupported(format!("{} {}", out.trim(), err.trim()))
        })?;
        let less = |(before, after): (Option<f64>, Option<f64>)| Some(after? - before?);
        Ok(Round {
            per_s,
            seconds: after.0.duration_since(before.0).as_secs_f64(),
            server_s: after.1 - before.1,
            outboard_s: less((before.2, after.2)),
            busy_s: std::array::from_fn(|i| less((before.3[i], after.3[i]))),
        })
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn rates(rounds: &[Option<Round>]) -> Option<Rates> {
    let of =
        |what: &dyn Fn(&Round) -> Option<f64>| median(rounds.iter().flatten().filter_map(what));
    let busy = |which: usize| of(&|round| Some(round.busy_s[which]? / round.seconds));
    Some(Rates {
        per_s: of(&|round| Some(round.per_s))?,
        range: range(rounds.iter().flatten().map(|round| round.per_s))?,
        per_core_s: of(&|round| Some(round.by(round.far_s())))?,
        per_server_s: of(&|round| Some(round.by(round.server_s)))?,
        server_busy: busy(0)?,
        outboard_busy: busy(1),
        load_busy: busy(2)?,
        outboard: of(&|round| Some(round.outboard_s? / round.seconds)),
    })
}

/// What `of` says of the outboard's rounds by what it says of the kernel's.
fn ratios(rounds: &[Vec<Option<Round>>; 2], of: impl Fn(&Round) -> f64) -> Vec<f64> {
    let [kernel, outboard] = rounds;
    let ratio = |(ours, theirs): (&Option<Round>, &Option<Round>)| {
        Some(of(ours.as_ref()?) / of(theirs.as_ref()?))
    };
    outboard.iter().zip(kernel).filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
}
