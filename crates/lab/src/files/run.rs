//! Running the plan: on each file system, round after round, every method in turn; medians at the end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client::{Transfer, World, bytes_of_part};
use super::{Case, Direction, Line, Method, tree};
use crate::cpu::children_cpu_seconds;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::stats::{median, range};
use crate::{Error, Result};

/// What the servers' CPU time is waited for after a transfer: their children are counted when they have ended.
const SETTLE: Duration = Duration::from_millis(50);

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which cases.
    pub cases: Vec<Case>,
    /// Which methods.
    pub methods: Vec<Method>,
    /// Folders to work in, each with the file system that it is on.
    pub dirs: Vec<PathBuf>,
    /// Small files.
    pub files: usize,
    /// Bytes of them together.
    pub bytes: u64,
    /// Bytes of the large file.
    pub large_bytes: u64,
    /// What slows transfers down that are to be broken off in the middle, as `--rate` takes it; none for those that
    /// take long enough.
    pub half_at_rate: Option<String>,
    /// Before each transfer, what others wrote is written to the disk, and not while it is timed.
    pub settled: bool,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// This program.
    pub program: PathBuf,
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    case: Case,
    direction: Direction,
    method: Method,
}

impl Run {
    fn is_possible(self) -> bool {
        // What `cp` has begun it begins anew.
        (self.method, self.case) != (Method::Cp, Case::Resume)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    cpu_seconds: f64,
    bytes_there: Option<u64>,
}

/// Runs the plan. `progress` hears of each transfer before it begins, and what is left out. What was made is removed,
/// also when `stop` became true.
///
/// # Errors
/// What failed first; [`Error::Interrupted`] after `stop`.
pub fn run(plan: &Plan, stop: &AtomicBool, progress: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let runs = runs(plan, progress);
    let mut lines = Vec::new();
    for dir in &plan.dirs {
        lines.extend(in_dir(plan, dir, &runs, stop, progress)?);
    }
    Ok(lines)
}

/// Whether a program is installed.
fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn runs(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Vec<Run> {
    let mut runs = Vec::new();
    for &method in &plan.methods {
        if matches!(method, Method::Rsync | Method::Cp) && !is_there(method.name()) {
            progress(&format!("{method} is left out: it is not installed"));
            continue;
        }
        for &direction in method.directions() {
            for &case in &plan.cases {
                let run = Run { case, direction, method };
                runs.extend(run.is_possible().then_some(run));
            }
        }
    }
    // `again` needs what `small` leaves.
    runs.sort_by_key(|run| Case::ALL.iter().position(|case| *case == run.case));
    runs
}

fn in_dir(
    plan: &Plan,
    dir: &Path,
    runs: &[Run],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Line>> {
    check_room(plan, dir)?;
    let dir = dir.canonicalize().map_err(Error::os("looking for the folder"))?;
    let scratch = Scratch::below(&dir)?;
    let filesystem = filesystem(&dir);
    progress(&format!("{filesystem}: making the files"));
    let (area, state) = (scratch.path().join("area"), scratch.path().join("state"));
    for folder in [&area.join("from"), &area.join("to"), &state] {
        fs::create_dir_all(folder).map_err(Error::os("making a folder"))?;
    }
    let program = &plan.program;
    let has = |method| runs.iter().any(|run| run.method == method);
    let fusewire = Server::fusewire(program, &area, &state, &["--writable"])?;
    let rsync = has(Method::Rsync).then(|| Server::rsync(&area, &state)).transpose()?;
    let world = World { program, area, state, fusewire, rsync, stop };
    let bench = Bench { plan, world, expected: RefCell::default(), filesystem: &filesystem };
    bench.make()?;
    let mut samples: HashMap<Run, Vec<Sample>> = HashMap::new();
    for round in 0..plan.rounds {
        for &case in Case::ALL {
            let mut of_case: Vec<Run> = runs.iter().filter(|r| r.case == case).copied().collect();
            if round % 2 == 1 {
                of_case.reverse();
            }
            for run in of_case {
                let Run { case, direction, method } = run;
                let of = plan.rounds;
                let round_of = format!("round {} of {of}", round + 1);
                progress(&format!(
                    "{filesystem}, {round_of}: {} {case}, {method}",
                    direction.name()
                ));
                let sample = bench.transfer(run, round)?;
                samples.entry(run).or_default().push(sample);
            }
        }
    }
    Ok(runs.iter().filter_map(|run| bench.line(&dir, *run, &samples)).collect())
}

/// The tree in every place that it goes to, and the large file twice.
fn check_room(plan: &Plan, dir: &Path) -> Result<()> {
    let found =
        rustix::fs::statvfs(dir).map_err(|e| Error::os("looking for the folder")(e.into()))?;
    let there = found.f_bavail.saturating_mul(found.f_frsize);
    let is_large = plan.cases.iter().any(|case| !case.is_tree());
    // A small file takes whole pages.
    let tree = plan.bytes + plan.files as u64 * 4096;
    let trees = 1 + (plan.rounds * plan.methods.len() * 2) as u64;
    let needed = tree * trees + if is_large { 2 * plan.large_bytes } else { 0 };
    if there >= needed {
        return Ok(());
    }
    let (dir, gb) = (dir.display(), |bytes: u64| bytes as f64 / 1e9);
    let (needed, there) = (gb(needed), gb(there));
    Err(Error::Unsupported(format!("{dir}: {needed:.1} GB are needed, {there:.1} GB are free")))
}

/// The kind of file system that a path, which has no links in it, is on.
fn filesystem(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut best = (0, "unknown");
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (words.next(), words.next()) else { continue };
        if path.starts_with(point) && point.len() >= best.0 {
            best = (point.len(), kind);
        }
    }
    best.1.to_owned()
}

struct Bench<'a> {
    plan: &'a Plan,
    world: World<'a>,
    /// The hash of what has to come, by its name.
    expected: RefCell<HashMap<&'static str, blake3::Hash>>,
    filesystem: &'a str,
}

impl Bench<'_> {
    fn goes_on(&self) -> bool {
        !self.world.stop.load(Ordering::Relaxed)
    }

    /// Makes what is transferred.
    fn make(&self) -> Result<()> {
        let from = self.world.area.join("from");
        for (name, is_tree) in [("tree", true), ("large", false)] {
            if !self.plan.cases.iter().any(|case| case.is_tree() == is_tree) {
                continue;
            }
            let path = from.join(name);
            match is_tree {
                true => tree::make(&path, self.plan.files, self.plan.bytes)?,
                false => tree::make_file(&path, self.plan.large_bytes)?,
            }
            let digest = tree::digest(&path, &|| self.goes_on())?;
            self.expected.borrow_mut().insert(name, digest);
        }
        Ok(())
    }

    /// One transfer, of which all is known to have come.
    fn transfer(&self, run: Run, round: usize) -> Result<Sample> {
        if !self.goes_on() {
            return Err(Error::Interrupted);
        }
        let Run { case, direction, method } = run;
        let name = if case.is_tree() { "tree" } else { "large" };
        let folder = format!("{name}-{}-{method}-{round}", direction.name());
        let there = self.world.area.join("to").join(&folder);
        let transfer = Transfer { case, direction, method, name, folder: &folder };
        fs::create_dir_all(&there).map_err(Error::os("making a folder"))?;
        if case == Case::Again && !there.join(name).exists() {
            self.world.run(&Transfer { case: Case::Small, ..transfer })?;
        }
        let mut bytes_there = None;
        if case == Case::Resume {
            let (bytes, rate) = (self.plan.large_bytes, self.plan.half_at_rate.as_deref());
            self.world.half(&transfer, bytes, rate)?;
            bytes_there = Some(match method {
                Method::Rsync => bytes / 2,
                _ => bytes_of_part(&there).min(bytes),
            });
        }
        if self.plan.settled {
            let disk = File::open(&there).map_err(Error::os("opening a folder"))?;
            rustix::fs::syncfs(&disk).map_err(|e| Error::os("writing to the disk")(e.into()))?;
        }
        let cpu = (children_cpu_seconds(), self.world.servers_cpu_s());
        let seconds = self.world.run(&transfer)?;
        std::thread::sleep(SETTLE);
        let (client, servers) = (children_cpu_seconds(), self.world.servers_cpu_s());
        let cpu_seconds = client - cpu.0 + servers - cpu.1;
        self.verify(&transfer, &there.join(name))?;
        // What ext4 has deleted it avoids for a minute when it makes new files, which slows those down: small files
        // stay until all is done. tmpfs has no such memory, and less room.
        if !case.is_tree() || self.filesystem == "tmpfs" && !self.comes_again(case) {
            fs::remove_dir_all(&there).map_err(Error::os("removing what has come"))?;
        }
        Ok(Sample { seconds, cpu_seconds, bytes_there })
    }

    fn comes_again(&self, case: Case) -> bool {
        case == Case::Small && self.plan.cases.contains(&Case::Again)
    }

    fn verify(&self, transfer: &Transfer<'_>, path: &Path) -> Result<()> {
        let digest = tree::digest(path, &|| self.goes_on())?;
        if self.expected.borrow().get(transfer.name) == Some(&digest) {
            return Ok(());
        }
        let what = format!("{} {} is not what was sent", transfer.direction.name(), transfer.case);
        Err(Error::Wrong { method: transfer.method.to_string(), what })
    }

    fn line(&self, dir: &Path, run: Run, samples: &HashMap<Run, Vec<Sample>>) -> Option<Line> {
        let own = samples.get(&run)?;
        let seconds = || own.iter().map(|s| s.seconds);
        // The copy has no direction: it is set beside what is got.
        let direction = if run.method == Method::Cp { Direction::Get } else { run.direction };
        let rsync = samples.get(&Run { method: Method::Rsync, direction, ..run });
        let ratios =
            |rsync| own.iter().zip::<&Vec<Sample>>(rsync).map(|(a, b)| a.seconds / b.seconds);
        let is_tree = run.case.is_tree();
        let there = own.iter().filter_map(|s| s.bytes_there).map(|bytes| bytes as f64);
        Some(Line {
            case: run.case,
            direction: run.direction,
            method: run.method,
            filesystem: self.filesystem.to_owned(),
            dir: dir.to_path_buf(),
            files: if is_tree { self.plan.files as u64 } else { 1 },
            bytes: if is_tree { self.plan.bytes } else { self.plan.large_bytes },
            bytes_there: median(there).map(|bytes| bytes as u64),
            seconds_range: range(seconds())?,
            rounds: own.len(),
            seconds: median(seconds())?,
            cpu_seconds: median(own.iter().map(|s| s.cpu_seconds))?,
            ratio_to_rsync: rsync.and_then(|rsync| median(ratios(rsync))),
        })
    }
}
