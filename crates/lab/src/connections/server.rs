//! `fusewire serve` in a process of its own, and what the system knows of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// The key file that it uses, and its own user's clients.
    pub identity: PathBuf,
}

impl Server {
    /// Serves `scratch/served` to its own user, whose state is in `scratch/state`.
    pub fn start(program: &Path, scratch: &Path) -> Result<Server> {
        let state = scratch.join("state");
        let mut child = Command::new(program)
            .arg("serve")
            .arg(scratch.join("served"))
            .args(["--listen", "127.0.0.1:0", "--json", "--quiet", "--no-kernel-tcp"])
            .env("XDG_STATE_HOME", &state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(Error::os("starting the server"))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = value["address"].as_str().and_then(|a| a.parse().ok());
        let identity = state.join("fusewire").join("identity.pem");
        // Only for its folder: the server has made its key by now.
        let mut server = Server { child, address: ([127, 0, 0, 1], 0).into(), identity };
        match address {
            Some(address) => server.address = address,
            None => return Err(server.failed("did not say where it listens")),
        }
        Ok(server)
    }

    fn failed(&mut self, what: &str) -> Error {
        let _ = self.child.kill();
        // Why is on standard error, which is ours too.
        Error::Worker { method: "connections".into(), role: "server", message: what.into() }
    }

    fn proc(&mut self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        match fs::read_to_string(&path) {
            Ok(text) if !text.is_empty() => Ok(text),
            _ => Err(self.failed("is gone")),
        }
    }

    /// CPU time of all its threads so far, in seconds.
    pub fn cpu_s(&mut self) -> Result<f64> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = fs::read_dir(tasks).map_err(Error::os("looking at the server"))?;
        let on_cpu = |task: std::io::Result<fs::DirEntry>| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        };
        Ok(tasks.filter_map(on_cpu).sum::<f64>() * 1e-9)
    }

    /// CPU time over a while, in per cent of a core.
    pub fn cpu_percent(&mut self, over: Duration) -> Result<f64> {
        let (cpu, began) = (self.cpu_s()?, Instant::now());
        std::thread::sleep(over);
        let used = self.cpu_s()? - cpu;
        Ok(used / began.elapsed().as_secs_f64().max(1e-9) * 100.0)
    }

    /// The most memory that it had at any time, in bytes.
    pub fn peak_memory(&mut self) -> Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        Ok(kib.unwrap_or(0) * 1024)
    }

    /// SIGTERM, and its end, which has to be in order.
    pub fn stop(mut self) -> Result<()> {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let status = self.child.wait().map_err(Error::os("waiting for the server"))?;
        if status.success() { Ok(()) } else { Err(self.failed("failed at its end")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
