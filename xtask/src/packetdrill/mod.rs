//! `cargo xtask packetdrill`: runs packetdrill scripts on Fusewire's TCP, or on the kernel's.
//!
//! packetdrill itself (GPL-2.0) is not a part of this repository: the user names a source folder or has the
//! program. Everything runs without root and without a network interface; scripts that call shell commands
//! (`sysctl` above all) run in a network namespace of their own, where `tc` and `ethtool` are two shell
//! scripts of ours which note what the script says of its device.

mod applicable;
mod program;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::shell::{Result, root};
use run::{Outcome, Run};

/// What to run, and how.
#[derive(Args)]
pub struct Options {
    /// Scripts, or folders of scripts; our own when there is none.
    paths: Vec<PathBuf>,
    /// packetdrill's source folder (which is copied and built under `target/`) or the program itself; else
    /// $FUSEWIRE_PACKETDRILL, else the program on the PATH.
    #[arg(long, value_name = "SOURCE_FOLDER")]
    packetdrill: Option<PathBuf>,
    /// A line of JSON for each run, and one for all.
    #[arg(long)]
    json: bool,
    /// On the kernel's TCP instead, in a namespace of its own: root and /dev/net/tun are needed.
    #[arg(long)]
    kernel: bool,
    /// Over an outboard in a thread of the library's.
    #[arg(long, conflicts_with = "kernel")]
    outboard: bool,
    /// Only over these.
    #[arg(long, value_enum, value_delimiter = ',')]
    ip: Vec<Ip>,
    /// Scripts at a time; half the processors otherwise.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Also what passed.
    #[arg(long)]
    verbose: bool,
}

/// What a script runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Ip {
    /// IPv4 sockets.
    Ipv4,
    /// IPv6 sockets with mapped IPv4 addresses.
    Mapped,
    /// IPv6.
    Ipv6,
}

impl Ip {
    const ALL: [Ip; 3] = [Ip::Ipv4, Ip::Mapped, Ip::Ipv6];

    fn name(self) -> &'static str {
        match self {
            Ip::Ipv4 => "ipv4",
            Ip::Mapped => "mapped",
            Ip::Ipv6 => "ipv6",
        }
    }
}

/// Runs the scripts, prints what came of it, fails if one failed.
pub fn run(options: &Options) -> Result {
    let program = program::find(options.packetdrill.as_deref())?
        .ok_or("no packetdrill: give --packetdrill SOURCE_FOLDER or set FUSEWIRE_PACKETDRILL")?;
    let tally = all(options, &program)?;
    tally.print(options.json);
    match tally.count(|o| matches!(o, Outcome::Failed(_))) {
        0 => Ok(()),
        failed => Err(format!("packetdrill: {failed} runs failed")),
    }
}

/// Our own scripts, inline or over an outboard, where there is a packetdrill; else says that there is none.
pub fn own(outboard: bool) -> Result {
    if program::find(None)?.is_none() {
        println!(
            "── conformance: skipped, there is no packetdrill (set FUSEWIRE_PACKETDRILL to its source folder)"
        );
        return Ok(());
    }
    println!("── conformance{}", if outboard { " over an outboard" } else { "" });
    run(&Options {
        paths: Vec::new(),
        packetdrill: None,
        json: false,
        kernel: false,
        outboard,
        ip: Vec::new(),
        jobs: None,
        verbose: false,
    })
}

fn all(options: &Options, program: &Path) -> Result<Tally> {
    let bench = run::Bench::new(program, options.kernel, options.outboard)?;
    let own = [root().join("conformance")];
    let mut scripts = Vec::new();
    for path in if options.paths.is_empty() { &own[..] } else { &options.paths } {
        collect(path, &mut scripts)?;
    }
    let mut runs: Vec<(PathBuf, Ip)> = Vec::new();
    for script in scripts {
        let ips = Ip::ALL.into_iter().filter(|ip| options.ip.is_empty() || options.ip.contains(ip));
        runs.extend(ips.filter(|ip| applicable::to(&script, *ip)).map(|ip| (script.clone(), ip)));
    }
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = options.jobs.unwrap_or(processors.div_ceil(2)).clamp(1, 64);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((script, ip)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = bench.run(script, *ip);
                    report(&run, options);
                    done.lock().expect("no thread panics").push(run);
                }
            });
        }
    });
    let mut runs = done.into_inner().expect("no thread panics");
    runs.sort_by(|a, b| (&a.script, a.ip).cmp(&(&b.script, b.ip)));
    Ok(Tally(runs))
}

fn collect(path: &Path, scripts: &mut Vec<PathBuf>) -> Result {
    if !path.is_dir() {
        let full = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        scripts.push(full);
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut entries: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() || entry.extension().is_some_and(|e| e == "pkt") {
            collect(&entry, scripts)?;
        }
    }
    Ok(())
}

fn report(run: &Run, options: &Options) {
    if options.json {
        let (outcome, reason) = run.outcome.words();
        println!(
            "{}",
            json!({
                "script": run.script, "ip": run.ip.name(), "tests": run.tests.name(),
                "outcome": outcome, "reason": reason, "seconds": run.seconds,
            })
        );
        return;
    }
    match &run.outcome {
        Outcome::Passed if !options.verbose => {}
        Outcome::Passed => {
            println!("   passed          {:6} {}", run.ip.name(), run.script.display())
        }
        Outcome::NotApplicable(_) => {}
        Outcome::Failed(reason) => {
            println!("   FAILED          {:6} {}", run.ip.name(), run.script.display());
            for line in reason.lines().take(6) {
                println!("      {line}");
            }
        }
    }
}

/// What a script looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tests {
    /// Packets and system calls.
    Wire,
    /// TCP_INFO's fields too.
    Info,
}

impl Tests {
    fn name(self) -> &'static str {
        match self {
            Tests::Wire => "wire",
            Tests::Info => "wire and TCP_INFO",
        }
    }
}

struct Tally(Vec<Run>);

impl Tally {
    fn count(&self, which: impl Fn(&Outcome) -> bool) -> usize {
        self.0.iter().filter(|run| which(&run.outcome)).count()
    }

    fn print(&self, as_json: bool) {
        let sums = |tests: Option<Tests>| {
            let mut sums = [0; 3];
            for run in self.0.iter().filter(|run| tests.is_none_or(|t| t == run.tests)) {
                sums[match run.outcome {
                    Outcome::Passed => 0,
                    Outcome::Failed(_) => 1,
                    Outcome::NotApplicable(_) => 2,
                }] += 1;
            }
            sums
        };
        if as_json {
            let line = |[passed, failed, not_applicable]: [usize; 3]| json!({"passed": passed, "failed": failed, "not_applicable": not_applicable});
            println!(
                "{}",
                json!({"all": line(sums(None)), "wire": line(sums(Some(Tests::Wire))), "tcp_info": line(sums(Some(Tests::Info)))})
            );
            return;
        }
        let mut reasons: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in &self.0 {
            if let Outcome::NotApplicable(reason) = &run.outcome {
                reasons.entry(reason).or_default().push(run);
            }
        }
        for (reason, runs) in reasons {
            println!("   not applicable: {reason}: {} runs", runs.len());
            let mut scripts: Vec<_> = runs.iter().map(|run| run.script.file_name()).collect();
            scripts.dedup();
            for script in scripts.into_iter().flatten().take(4) {
                println!("      {}", script.display());
            }
        }
        for tests in [Tests::Wire, Tests::Info] {
            let [passed, failed, not_applicable] = sums(Some(tests));
            if passed + failed + not_applicable > 0 {
                println!(
                    "   {}: {passed} passed, {failed} failed, {not_applicable} not applicable",
                    tests.name()
                );
            }
        }
    }
}
