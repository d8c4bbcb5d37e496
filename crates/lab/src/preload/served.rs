//! A server that runs, on one side or the other, and what it costs.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::programs::Program;
use crate::namespace::Killed;
use crate::outboard::network::{End, Wire};
use crate::outboard::runner::Outboard;
use crate::process::said;
use crate::{Error, Result, cpu};

/// How long a server may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that has answered.
pub struct Served {
    child: Killed,
    pub address: SocketAddr,
}

/// Where it runs, and over what.
pub struct Place<'a> {
    pub wire: &'a Wire<'a>,
    pub core: usize,
    /// A folder that is its own.
    pub folder: PathBuf,
    /// This program, and the outboard whose sockets the server gets; the kernel's without.
    pub outboard: Option<(&'a PathBuf, &'a Outboard)>,
}

impl Served {
    /// Starts it, and asks it once.
    ///
    /// # Errors
    /// What it says; it does not answer, or what it answers is wrong.
    pub fn start(program: Program, place: &Place<'_>) -> Result<Served> {
        fs::create_dir_all(&place.folder).map_err(Error::os("making a folder"))?;
        for (name, content) in program.files() {
            fs::write(place.folder.join(name), content).map_err(Error::os("writing a file"))?;
        }
        let end = &place.wire.application;
        let mut command = end.namespace.command("taskset");
        command.args(["--cpu-list", &place.core.to_string()]);
        if let Some((fusewire, outboard)) = place.outboard {
            command.arg(fusewire).args(["run", "--outboard"]).arg(&outboard.board.socket).arg("--");
        }
        command.args(program.command(&place.folder)).current_dir(&place.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = Killed(command.spawn().map_err(Error::os("starting a server"))?);
        let address = SocketAddr::new(end.address, program.port());
        let mut served = Served { child, address };
        let near = &place.wire.peer;
        let begun = Instant::now();
        while let Err(why) = near.namespace.run(|| ask(program, address))? {
            if begun.elapsed() > PATIENCE || !matches!(served.child.0.try_wait(), Ok(None)) {
                let _ = served.child.0.kill();
                let what = format!("{program:?}: {}", said(&mut served.child.0, &why));
                return Err(Error::Unsupported(what));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    /// Processor time of it and of its children so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let mut parents: HashMap<u32, Vec<u32>> = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if let Some(parent) = cpu::parent(pid) {
                parents.entry(parent).or_default().push(pid);
            }
        }
        let (mut waiting, mut seconds) = (vec![self.child.0.id()], 0.0);
        while let Some(pid) = waiting.pop() {
            seconds += cpu::run_seconds(pid);
            waiting.extend(parents.remove(&pid).unwrap_or_default());
        }
        seconds
    }
}

/// Asks a question, and compares the answer.
fn ask(program: Program, address: SocketAddr) -> std::result::Result<(), String> {
    let os = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(os)?;
    let Some((question, answer)) = program.question() else { return Ok(()) };
    stream.set_read_timeout(Some(PATIENCE)).map_err(os)?;
    stream.write_all(question.as_bytes()).map_err(os)?;
    let mut found = Vec::new();
    while !found.ends_with(answer.as_bytes()) {
        let mut part = [0; 4096];
        match stream.read(&mut part).map_err(os)? {
            0 => return Err(format!("answered {}", String::from_utf8_lossy(&found))),
            len => found.extend_from_slice(&part[..len]),
        }
    }
    Ok(())
}

/// What an interface receives is handled on this processor from now on.
///
/// # Errors
/// The system has no such setting.
pub fn steer(end: &End<'_>, interface: &str, core: usize) -> Result<()> {
    // What /sys shows is a matter of who mounted it.
    let mask = 1u64 << core;
    let script = format!(
        "mount -t sysfs sysfs /sys && echo {mask:x} > /sys/class/net/{interface}/queues/rx-0/rps_cpus"
    );
    let mut command = end.namespace.command("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let output = command.output().map_err(Error::os("starting unshare"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::Unsupported(format!("receive packet steering: {why}")))
        }
    }
}
