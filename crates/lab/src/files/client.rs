//! The clients: one process for each transfer.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Case, Direction, Method};
use crate::process::said;
use crate::server::Server;
use crate::{Error, Result};

/// Longest that one transfer may take before it counts as stalled.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked whether the user wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often it is looked how much of a large file has come.
const LOOK_AT_PART: Duration = Duration::from_micros(500);

/// Where things are: `area/from` is transferred to folders in `area/to`.
pub struct World<'a> {
    pub program: &'a Path,
    pub area: PathBuf,
    pub state: PathBuf,
    pub fusewire: Server,
    pub rsync: Option<Server>,
    pub stop: &'a AtomicBool,
}

/// One transfer: `area/from/NAME` to `area/to/FOLDER/NAME`.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    pub case: Case,
    pub direction: Direction,
    pub method: Method,
    /// `tree` or `large`.
    pub name: &'a str,
    /// Where it goes, in `area/to`.
    pub folder: &'a str,
}

impl World<'_> {
    /// The client of a transfer; `rate` slows down what is to be broken off in the middle.
    fn command(&self, transfer: &Transfer<'_>, rate: Option<&str>) -> Command {
        let Transfer { case, direction, method, name, folder } = *transfer;
        let (from, to) = (format!("from/{name}"), format!("to/{folder}/"));
        let remote = |path: &str| match (method, &self.rsync) {
            (Method::Rsync, Some(rsync)) => {
                format!("rsync://127.0.0.1:{}/area/{path}", rsync.address.port())
            }
            _ => format!("fusewire://{}/{path}", self.fusewire.address),
        };
        let mut command = match method {
            Method::Cp => Command::new("cp"),
            Method::Rsync => Command::new("rsync"),
            Method::Udp | Method::KernelTcp | Method::Shm => Command::new(self.program),
        };
        command.current_dir(&self.area).env("XDG_STATE_HOME", &self.state);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match (method, direction) {
            (Method::Cp, _) => {
                command.args(["-r", "--preserve=mode,timestamps"]);
                command.args((case == Case::Again).then_some("--update")).args([from, to]);
            }
            (Method::Rsync, direction) => {
                // Permissions, times and links: what is kept by all of them.
                command.arg("-rlpt").args((case == Case::Resume).then_some("--append-verify"));
                match direction {
                    Direction::Put => command.args([from, remote(&to)]),
                    _ => command.args([remote(&from), to]),
                };
            }
            (_, Direction::Put) => drop(command.args(["put", &from, &remote(&to)])),
            (..) => drop(command.args(["get", &remote(&from), "-o", &to])),
        }
        if let Some(device) = method.device() {
            command.args(["--quiet", "--device", device]);
            command.args((case == Case::Again).then_some("--update"));
            command.args(rate.map(|rate| format!("--rate={rate}")));
        }
        command
    }

    /// Runs a client to its end; the seconds that it took.
    pub fn run(&self, transfer: &Transfer<'_>) -> Result<f64> {
        let mut command = self.command(transfer, None);
        let began = Instant::now();
        let mut child = command.spawn().map_err(Error::os("starting a client"))?;
        let status = self.wait(&mut child)?;
        let seconds = began.elapsed().as_secs_f64();
        if status.success() {
            return Ok(seconds);
        }
        let message = said(&mut child, &status.to_string());
        Err(Error::Worker { method: transfer.method.name().into(), role: "client", message })
    }

    /// Waits for a client, and ends it when the user wants to stop, or it takes too long.
    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        let pid = Pid::from_child(child);
        let (done, waiting) = mpsc::channel::<()>();
        let status = std::thread::scope(|scope| {
            scope.spawn(move || {
                let began = Instant::now();
                while waiting.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if self.stop.load(Ordering::Relaxed) || began.elapsed() > PATIENCE {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                }
            });
            let status = child.wait();
            drop(done);
            status
        });
        let status = status.map_err(Error::os("waiting for a client"))?;
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(status) }
    }

    /// Leaves about half of `bytes` bytes at the destination, as the method leaves it when it is broken off.
    pub fn half(&self, transfer: &Transfer<'_>, bytes: u64, rate: Option<&str>) -> Result<()> {
        let folder = self.area.join("to").join(transfer.folder);
        if transfer.method == Method::Rsync {
            return half_a_copy(&self.area.join("from").join(transfer.name), &folder, bytes / 2);
        }
        let mut child = self
            .command(&Transfer { case: Case::Large, ..*transfer }, rate)
            .spawn()
            .map_err(Error::os("starting a client"))?;
        let began = Instant::now();
        while bytes_of_part(&folder) < bytes / 2 {
            let ended = child.try_wait().map_err(Error::os("waiting for a client"))?.is_some();
            let stopped = self.stop.load(Ordering::Relaxed);
            if ended || stopped || began.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                let message = "ended before it could be broken off in the middle".into();
                let method = transfer.method.name().into();
                let failed = Error::Worker { method, role: "client", message };
                return Err(if stopped { Error::Interrupted } else { failed });
            }
            std::thread::sleep(LOOK_AT_PART);
        }
        // Its user's Ctrl-C. How it ends then is not asked.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        self.wait(&mut child).map(drop)
    }

    /// CPU time of both servers so far.
    pub fn servers_cpu_s(&self) -> f64 {
        self.fusewire.cpu_s() + self.rsync.as_ref().map_or(0.0, Server::cpu_s)
    }
}

/// The first `bytes` bytes of a file, as an rsync that was broken off leaves them with `--inplace`.
fn half_a_copy(from: &Path, folder: &Path, bytes: u64) -> Result<()> {
    let os = || Error::os("making half a file");
    let to = folder.join(from.file_name().unwrap_or_default());
    let mut half = std::io::Read::take(fs::File::open(from).map_err(os())?, bytes);
    let mut to = fs::File::create(to).map_err(os())?;
    std::io::copy(&mut half, &mut to).map(drop).map_err(os())
}

/// Bytes on the disk of what is on its way into `folder`.
pub fn bytes_of_part(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|e| e.file_name().as_encoded_bytes().ends_with(b".part"));
    parts.filter_map(|e| Some(e.metadata().ok()?.blocks() * 512)).max().unwrap_or(0)
}
