//! Running the plan: round after round, every method and case in turn; medians at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::network::{Network, RECEIVER_LINK, SENDER_LINK};
use super::{Case, Line, Method};
use crate::cpu::cpu_seconds;
use crate::made::{hash_file, make_file};
use crate::namespace::Killed;
use crate::scratch::Scratch;
use crate::stats::{median, range};
use crate::{Error, Result};

/// Longest that one cast may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is looked how far a cast is.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// What receivers that tell nobody that they listen need for that.
const BEGINNING: Duration = Duration::from_millis(500);
/// The group of ours, and of udpcast its two.
const GROUP: &str = "239.77.0.1";
const UDPCAST_GROUPS: [&str; 2] = ["239.77.0.2", "239.77.0.3"];
/// The name of what is cast.
const NAME: &str = "file";

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which methods.
    pub methods: Vec<Method>,
    /// Which cases; the first is what others are compared with.
    pub cases: Vec<Case>,
    /// Most bytes a second; none: no bound.
    pub rate_bytes_per_s: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// This program.
    pub program: PathBuf,
}

/// What one cast has cost.
#[derive(Clone, Copy, Debug)]
struct Sample {
    bytes_per_s: f64,
    ratio: f64,
    sender_cpu_s: f64,
    receiver_cpu_s: f64,
}

/// Runs the plan. `progress` hears of each cast before it begins, and what is left out. What was made is removed, also
/// when `stop` became true.
///
/// # Errors
/// What failed first: also what came and is not what was sent; [`Error::Interrupted`] after `stop`.
pub fn run(plan: &Plan, stop: &AtomicBool, progress: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let scratch = Scratch::new()?;
    let file = scratch.path().join(NAME);
    make_file(&file, plan.bytes)?;
    let hash = hash_file(&file)?;
    let mut runs = Vec::new();
    for &method in &plan.methods {
        if let Some(missing) = method.programs().iter().find(|program| !is_there(program)) {
            progress(&format!("{method} is left out: {missing} is not installed"));
            continue;
        }
        runs.extend(plan.cases.iter().map(|&case| (method, case, Vec::new())));
    }
    for round in 1..=plan.rounds {
        let mut first: Option<(Method, f64)> = None;
        for (method, case, samples) in &mut runs {
            let Case { receivers, lost_percent } = *case;
            let rounds = plan.rounds;
            progress(&format!(
                "round {round} of {rounds}: {method}, {receivers} receivers, {lost_percent} % lost"
            ));
            let cast = Cast { plan, method: *method, case: *case, dir: scratch.path(), stop };
            let mut sample = cast.run(hash)?;
            let rate = match first {
                Some((of, rate)) if of == *method => rate,
                _ => sample.bytes_per_s,
            };
            first = Some((*method, rate));
            sample.ratio = sample.bytes_per_s / rate;
            samples.push(sample);
        }
    }
    Ok(runs.into_iter().map(|(method, case, samples)| line(plan, method, case, &samples)).collect())
}

fn line(plan: &Plan, method: Method, case: Case, samples: &[Sample]) -> Line {
    let gib = plan.bytes as f64 / f64::from(1 << 30);
    let of = |value: fn(&Sample) -> f64| median(samples.iter().map(value)).unwrap_or_default();
    Line {
        method,
        case,
        rate_bytes_per_s: plan.rate_bytes_per_s,
        bytes: plan.bytes,
        bytes_per_s: of(|s| s.bytes_per_s),
        bytes_per_s_range: range(samples.iter().map(|s| s.bytes_per_s)).unwrap_or_default(),
        ratio_to_first: of(|s| s.ratio),
        sender_cpu_s_per_gib: of(|s| s.sender_cpu_s) / gib,
        receiver_cpu_s_per_gib: of(|s| s.receiver_cpu_s) / gib,
        rounds: samples.len(),
    }
}

/// Whether a program is installed.
fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).is_file())
}

/// One cast.
struct Cast<'a> {
    plan: &'a Plan,
    method: Method,
    case: Case,
    dir: &'a Path,
    stop: &'a AtomicBool,
}

/// A side at work.
struct Side {
    child: Killed,
    role: &'static str,
    /// What it says on standard output and error.
    said: PathBuf,
}

impl Side {
    fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// It has ended; its CPU time can still be read.
    fn has_ended(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid() as i32) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    fn end(&mut self) -> Result<ExitStatus> {
        self.child.0.wait().map_err(Error::os("waiting for a side of a cast"))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Cast<'_> {
    fn run(&self, hash: blake3::Hash) -> Result<Sample> {
        let network = Network::new(self.case)?;
        let places: Vec<PathBuf> = (0..self.case.receivers).map(|n| self.place(n)).collect();
        for place in &places {
            let _ = fs::remove_dir_all(place);
            fs::create_dir(place).map_err(Error::os("making a receiver's folder"))?;
        }
        let sampled = self.run_over(&network, &places);
        let same = places.iter().map(|place| hash_file(&place.join(NAME)));
        let same = sampled.and_then(|sample| {
            let same = same.collect::<Result<Vec<_>>>()?.iter().all(|found| *found == hash);
            if same { Ok(sample) } else { Err(self.failed("receiver", "has something else")) }
        });
        for place in &places {
            let _ = fs::remove_dir_all(place);
        }
        same
    }

    fn run_over(&self, network: &Network, places: &[PathBuf]) -> Result<Sample> {
        let start_all = |trust: &str| -> Result<Vec<Side>> {
            let pairs = network.receivers.iter().zip(places);
            pairs
                .map(|(host, place)| {
                    let program = self.program(1);
                    self.start(
                        host.command(program),
                        self.receives(place, trust),
                        "receiver",
                        place,
                    )
                })
                .collect()
        };
        let start_sender = || {
            let command = network.sender.command(self.program(0));
            self.start(command, self.sends(), "sender", &self.dir.join("sender"))
        };
        let (mut sender, mut receivers) = if self.method == Method::Fusewire {
            let mut sender = start_sender()?;
            let trust = self.trust(&mut sender)?;
            (sender, start_all(&trust)?)
        } else {
            let receivers = start_all("")?;
            std::thread::sleep(BEGINNING);
            (start_sender()?, receivers)
        };
        let seconds = self.wait(&sender, &receivers, places)?;
        let sender_cpu_s = cpu_seconds(sender.pid());
        let cpus: Vec<f64> = receivers.iter().map(|side| cpu_seconds(side.pid())).collect();
        if !sender.end()?.success() {
            return Err(self.failed("sender", &sender.said()));
        }
        for receiver in &mut receivers {
            if self.method == Method::Uftp {
                let _ = kill_process(Pid::from_child(&receiver.child.0), Signal::TERM);
            } else if !receiver.end()?.success() {
                return Err(self.failed("receiver", &receiver.said()));
            }
        }
        let seconds = self.own_seconds(&sender).unwrap_or(seconds);
        Ok(Sample {
            bytes_per_s: self.plan.bytes as f64 / seconds.max(1e-9),
            ratio: 1.0,
            sender_cpu_s,
            receiver_cpu_s: cpus.iter().sum::<f64>() / cpus.len().max(1) as f64,
        })
    }

    fn failed(&self, role: &'static str, message: &str) -> Error {
        let message = message.trim().lines().last().unwrap_or_default().to_owned();
        Error::Worker { method: self.method.name().into(), role, message }
    }

    /// Where a receiver puts what comes.
    fn place(&self, n: u32) -> PathBuf {
        self.dir.join(format!("to{n}"))
    }

    /// The program of the sender, or of a receiver.
    fn program(&self, side: usize) -> PathBuf {
        let own = || self.plan.program.clone();
        self.method.programs().get(side).map_or_else(own, |program| PathBuf::from(*program))
    }

    fn start(
        &self,
        mut command: Command,
        arguments: Vec<String>,
        role: &'static str,
        state: &Path,
    ) -> Result<Side> {
        let said = state.with_extension("said");
        let out = File::create(&said).map_err(Error::os("making a file for what is said"))?;
        let err = out.try_clone().map_err(Error::os("making a file for what is said"))?;
        let home = state.with_extension("state");
        command.env("XDG_STATE_HOME", &home).env("XDG_CACHE_HOME", &home);
        command.args(arguments).current_dir(self.dir).stdin(Stdio::null()).stdout(out).stderr(err);
        let child = Killed(command.spawn().map_err(Error::os("starting a side of a cast"))?);
        Ok(Side { child, role, said })
    }

    fn sends(&self) -> Vec<String> {
        let (file, n) = (self.dir.join(NAME), self.case.receivers);
        let (file, rate) = (file.display(), self.plan.rate_bytes_per_s);
        let text = match (self.method, rate) {
            (Method::Fusewire, rate) => {
                let rate = rate.map_or(String::new(), |rate| format!("--rate {rate}"));
                format!("cast {file} {GROUP} --wait {n} --public --json {rate}")
            }
            (Method::Uftp, rate) => {
                let kbit = rate.map_or(-1, |rate| (rate * 8 / 1000) as i64);
                format!("-R {kbit} -I {SENDER_LINK} -B 4194304 {file}")
            }
            (Method::Udpcast, rate) => {
                let rate =
                    rate.map_or(String::new(), |r| format!("--max-bitrate {}k", r * 8 / 1000));
                let [meet, data] = UDPCAST_GROUPS;
                let groups = format!("--mcast-rdv-address {meet} --mcast-data-address {data}");
                format!(
                    "--nokbd --file {file} --interface {SENDER_LINK} --min-receivers {n} \
                     --full-duplex {groups} {rate}"
                )
            }
        };
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn receives(&self, place: &Path, trust: &str) -> Vec<String> {
        let place = place.display();
        let text = match self.method {
            Method::Fusewire => format!("receive {GROUP} -o {place} --trust {trust} --quiet"),
            Method::Uftp => format!("-d -D {place} -I {RECEIVER_LINK} -B 4194304"),
            Method::Udpcast => {
                let meet = UDPCAST_GROUPS[0];
                let to = format!("--file {place}/{NAME} --interface {RECEIVER_LINK}");
                format!("--nokbd {to} --mcast-rdv-address {meet}")
            }
        };
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// The fingerprint that our sender prints at its start.
    fn trust(&self, sender: &mut Side) -> Result<String> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) && !sender.has_ended() {
            if let Some(line) = sender.said().lines().find(|line| line.contains("fingerprint")) {
                let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
                return Ok(value["fingerprint"].as_str().unwrap_or_default().to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(self.failed("sender", &sender.said()))
    }

    /// Waits for the end; seconds from when something had come to a receiver until all had all.
    fn wait(&self, sender: &Side, receivers: &[Side], places: &[PathBuf]) -> Result<f64> {
        let (started, mut began, mut ended) = (Instant::now(), None, None);
        let len = |place: &PathBuf| fs::metadata(place.join(NAME)).map_or(0, |found| found.len());
        loop {
            let lens: Vec<u64> = places.iter().map(len).collect();
            if began.is_none() && lens.iter().any(|len| *len > 0) {
                began = Some(Instant::now());
            }
            if ended.is_none() && lens.iter().all(|len| *len == self.plan.bytes) {
                ended = Some(Instant::now());
            }
            // A daemon goes on.
            let waits = |side: &Side| self.method != Method::Uftp && !side.has_ended();
            if sender.has_ended() && !receivers.iter().any(waits) {
                break;
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if started.elapsed() > PATIENCE {
                return Err(self.failed(sender.role, "did not end"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let (began, ended) = (began.unwrap_or(started), ended.unwrap_or_else(Instant::now));
        Ok(ended.saturating_duration_since(began).as_secs_f64())
    }

    /// The seconds that the sender itself says that it took, if it does.
    fn own_seconds(&self, sender: &Side) -> Option<f64> {
        let said = sender.said();
        match self.method {
            Method::Fusewire => {
                let line = said.lines().find(|line| line.contains("\"summary\""))?;
                serde_json::from_str::<serde_json::Value>(line).ok()?["seconds"].as_f64()
            }
            Method::Uftp => {
                let (_, rest) = said.split_once("Total elapsed time:")?;
                rest.split_whitespace().next()?.parse().ok()
            }
            Method::Udpcast => None,
        }
    }
}
