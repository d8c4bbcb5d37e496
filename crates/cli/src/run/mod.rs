//! `fusewire run`: a program with an outboard's sockets in place of the kernel's.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use fusewire_outboard::client::Client;
use fusewire_outboard::reach::{self, Unreached};
use fusewire_outboard::rules::Rules;
use fusewire_outboard::server::default_path;
use fusewire_stack::on_interface::Name;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::device::OwnAddresses;
use crate::output::{Code, Failure, Result, printable};

/// What is loaded into the program.
const LIBRARY: &str = "libfusewire_preload.so";

/// How long one is waited for that is not there: it may have been started just now.
const COMING: Duration = Duration::from_secs(5);

/// What `--help` says of exit codes.
const RUN_EXIT_CODES: &str = "\
Exit codes: the program's, or 128 and the number of the signal that ended it; 1 when there is no outboard or no library, \
2 when the command line is wrong, 126 when the program cannot be run, 127 when it is not found.";

/// Which sockets, and which program.
#[derive(Args)]
#[command(after_help = RUN_EXIT_CODES)]
pub struct Run {
    /// Where the outboard is that runs already [default: fusewire-outboard.sock in the folder that XDG_RUNTIME_DIR names, or
    /// else /run/fusewire-outboard.sock].
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    outboard: Option<PathBuf>,
    /// Start an outboard on a network interface, for as long as the program runs: xdp:INTERFACE[/QUEUE], packet:INTERFACE,
    /// tap:NAME, or auto:INTERFACE.
    #[arg(long, value_name = "DEVICE")]
    device: Option<Name>,
    #[command(flatten)]
    own: OwnAddresses,
    /// With --address, 127.0.0.0/8, ::1 and the addresses themselves lead to the outboard's own sockets.
    #[arg(long, requires = "addresses")]
    loopback: bool,
    /// With --device, a user who may make sockets besides you and root: one to whom the program gives up its user before it
    /// has them (as `fusewire outboard --allow`).
    #[arg(long, value_name = "UID[:PORTS][@ADDRESSES]", requires = "device")]
    allow: Vec<String>,
    /// A file of rules that say which sockets are the outboard's and which the kernel's (docs/preload.md)
    /// [default: FUSEWIRE_RULES, or else all but loopback are the outboard's].
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The library to load into it [default: libfusewire_preload.so beside this program, or in ../lib/fusewire or ../lib].
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Do not name programs that cannot be preloaded, neither this one nor those that it executes.
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program; comes back only with what went wrong before.
pub fn run(run: &Run) -> Result {
    if run.device.is_none() && run.own.is_some() {
        let what = "--address is of an outboard that --device starts: name the interface, or leave it to the outboard \
                    that runs";
        return Err(Failure::new(Code::Usage, what).into());
    }
    let library = library(run.library.as_deref())?;
    let rules = rules(run.rules.as_deref())?;
    let [program, arguments @ ..] = &run.command[..] else {
        return Err(Failure::new(Code::Usage, "which program?").into());
    };
    let folders = std::env::var_os("PATH");
    let folders = folders.as_ref().map_or(reach::FOLDERS, |folders| folders.as_bytes());
    let Some(found) = reach::Program::find(program.as_bytes(), folders) else {
        eprintln(format_args!("{}: not found", printable(&program.to_string_lossy())));
        std::process::exit(127);
    };
    let path = found.path().to_path_buf();
    let unreached = found.out_of_reach(folders);
    if let Some(unreached) = unreached.filter(|_| !run.quiet) {
        let (path, why) = (path.to_string_lossy(), unreached.why());
        eprintln(format_args!("{}: its sockets stay the kernel's: {why}", printable(&path)));
    }
    let own = run.device.as_ref().map(|device| Own::start(device, run)).transpose()?;
    let place = own.as_ref().map(|own| own.place.clone()).or_else(|| run.outboard.clone());
    let place = std::path::absolute(place.unwrap_or_else(default_path))?;
    is_there(&place, run.quiet)?;

    let mut command = Command::new(&path);
    command.arg0(program).args(arguments);
    command.env("FUSEWIRE_OUTBOARD", &place);
    let preloaded = preload(&library)?;
    if unreached != Some(Unreached::OtherLibc) {
        command.env("LD_PRELOAD", preloaded);
    }
    if run.quiet {
        command.env("FUSEWIRE_QUIET", "1");
    }
    rules.map(|rules| command.env("FUSEWIRE_RULES", rules));
    match own {
        // The program is this process, then: its signals and its end are its own.
        None => cannot_run(&path, &command.exec()),
        Some(own) => {
            let code = wait(&mut command, &path, own)?;
            std::process::exit(code)
        }
    }
}

fn eprintln(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "fusewire: {what}");
}

fn cannot_run(path: &Path, error: &std::io::Error) -> ! {
    eprintln(format_args!("{}: {error}", printable(&path.to_string_lossy())));
    std::process::exit(126)
}

/// The library: what was named, or one that lies where it is built or installed.
fn library(named: Option<&Path>) -> Result<PathBuf> {
    let folder = std::env::current_exe()?.parent().map(Path::to_path_buf).unwrap_or_default();
    let places = match named {
        Some(path) => vec![std::path::absolute(path)?],
        // Cargo leaves what is only depended upon in its own folder.
        None => {
            ["deps", "", "../lib/fusewire", "../lib"].map(|at| folder.join(at).join(LIBRARY)).into()
        }
    };
    let found = places.iter().find(|place| place.is_file()).cloned();
    if let Some(path) = found.as_ref().filter(|path| !reach::is_library(path)) {
        let what = format!("{}: it is no library that this program can load", path.display());
        return Err(Failure::new(Code::Failed, what).into());
    }
    found.ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let what = format!(
            "no library to load: expected {}; cargo builds it beside the program, --library names another",
            places.join(" or ")
        );
        Failure::new(Code::Failed, what).into()
    })
}

/// The rules' text, as the library takes them: it is read and checked once, here.
fn rules(file: Option<&Path>) -> Result<Option<String>> {
    let Some(file) = file else {
        return std::env::var_os("FUSEWIRE_RULES").map_or(Ok(None), |given| rules_given(&given));
    };
    let wrong = |what: String| Failure::new(Code::Usage, format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Rules::parse(&text, "").map_err(|error| wrong(error.to_string()))?;
    // What begins as a path would be taken for one.
    Ok(Some(format!("\n{text}")))
}

/// The same of what the library would read itself: without them all would be the kernel's.
fn rules_given(given: &OsStr) -> Result<Option<String>> {
    if given.as_bytes().starts_with(b"/") || given.as_bytes().starts_with(b".") {
        return rules(Some(Path::new(given)));
    }
    let wrong = |what: String| Failure::new(Code::Usage, format!("FUSEWIRE_RULES: {what}"));
    let text = given.to_str().ok_or_else(|| wrong("it is no text".into()))?;
    Rules::parse(text, "").map_err(|error| wrong(error.to_string()))?;
    Ok(Some(text.into()))
}

/// The value of `LD_PRELOAD`: ours before what is loaded anyway.
fn preload(library: &Path) -> Result<OsString> {
    // The dynamic linker ends names there.
    if library.as_os_str().as_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        let what =
            format!("{}: a path that has spaces or colons cannot be loaded", library.display());
        return Err(Failure::new(Code::Failed, what).into());
    }
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    Ok(all)
}

/// That an outboard is where the program will look for one.
fn is_there(place: &Path, is_quiet: bool) -> Result {
    let client = Client::new(place)?;
    let (mut welcome, begun) = (client.welcome(), Instant::now());
    if welcome == Err(Errno::NETDOWN) && !is_quiet {
        let seconds = COMING.as_secs();
        let place = place.to_string_lossy();
        eprintln(format_args!("{}: waiting {seconds} s for an outboard", printable(&place)));
    }
    while welcome == Err(Errno::NETDOWN) && begun.elapsed() < COMING {
        std::thread::sleep(Duration::from_millis(20));
        welcome = client.welcome();
    }
    welcome.map(drop).map_err(|error| {
        let why = match error {
            Errno::NETDOWN => {
                "no outboard is there (fusewire outboard starts one, --device another)".into()
            }
            Errno::ACCESS => "its outboard is not for this user (fusewire outboard --allow)".into(),
            error => error.to_string(),
        };
        Failure::new(Code::Failed, format!("{}: {why}", place.display())).into()
    })
}

/// An outboard of the program's own, a process beside it, which ends with this one.
struct Own {
    place: PathBuf,
    child: Child,
}

impl Own {
    fn start(device: &Name, run: &Run) -> Result<Own> {
        // Processes of other namespaces may have the same number, and the same folder.
        let random = u64::from_le_bytes(fusewire_device::random()?);
        let name = format!("fusewire-run-{random:016x}.sock");
        let place = default_path().with_file_name(name);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["outboard", "--quiet", "--json", "--device", &device.to_string()]);
        command.args(["--with-parent", &std::process::id().to_string(), "--socket"]).arg(&place);
        for own in run.own.list(device)? {
            command.args(["--address", &own.address.to_string()]);
            if let Some(gateway) = own.gateway {
                command.args(["--gateway", &gateway.to_string()]);
            }
        }
        command.args(run.loopback.then_some("--loopback"));
        for user in &run.allow {
            command.args(["--allow", user]);
        }
        // A group of its own: Ctrl-C is for the program, which may have something to say to its peers.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().map(BufReader::new);
        let said = out.map_or(Ok(0), |mut out| out.read_line(&mut line));
        if said.is_ok_and(|len| len > 0) {
            return Ok(Own { place, child });
        }
        // It has said why itself.
        let _ = child.wait();
        Err(Failure::new(Code::Failed, "").into())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Runs the program as a child, for its outboard ends after it; gives its exit code.
fn wait(command: &mut Command, path: &Path, own: Own) -> Result<i32> {
    // The terminal sends these to the program too: it decides.
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP])?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // To exit drops nothing.
            drop(own);
            cannot_run(path, &error)
        }
    };
    let pid = Pid::from_child(&child);
    let handle = signals.handle();
    let forwarder = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in &mut signals {
            let _ = Signal::from_named_raw(signal).map(|signal| kill_process(pid, signal));
        }
    })?;
    let status = child.wait();
    handle.close();
    let _ = forwarder.join();
    drop(own);
    let status = status?;
    Ok(status.code().unwrap_or(128 + status.signal().unwrap_or(0)))
}
