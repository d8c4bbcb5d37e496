//! Servers in processes of their own, which serve one folder; and what the system knows of them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::namespace::Killed;
use crate::process::{comes_to_listen, free_address};
use crate::{Error, Result};

/// A running server; killed when dropped.
pub struct Server {
    method: &'static str,
    child: Killed,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// `fusewire serve FOLDER` with more options, for its own user, whose state is in `state`.
    pub fn fusewire(
        program: &Path,
        folder: &Path,
        state: &Path,
        options: &[&str],
    ) -> Result<Server> {
        let mut command = Command::new(program);
        command.arg("serve").arg(folder).args(["--listen", "127.0.0.1:0", "--json", "--quiet"]);
        command.args(options).env("XDG_STATE_HOME", state).stdout(Stdio::piped());
        let mut server = Server::start("fusewire", command, ([127, 0, 0, 1], 0).into())?;
        let mut line = String::new();
        if let Some(out) = server.child.0.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = value["address"].as_str().and_then(|a| a.parse().ok());
        server.address = address.ok_or_else(|| server.failed("did not say where it listens"))?;
        Ok(server)
    }

    /// An rsync daemon that serves `folder` as the module `area`; its own files lie in `state`.
    pub fn rsync(folder: &Path, state: &Path) -> Result<Server> {
        let address = free_address()?;
        let config = state.join("rsyncd.conf");
        let user = match rustix::process::geteuid().is_root() {
            true => "uid = 0\ngid = 0\n",
            false => "",
        };
        let text = format!(
            "{user}use chroot = no\nread only = no\nlog file = /dev/null\n[area]\npath = {}\n",
            folder.display()
        );
        fs::write(&config, text).map_err(Error::os("writing the rsync daemon's configuration"))?;
        let mut command = Command::new("rsync");
        command.args(["--daemon", "--no-detach", "--address=127.0.0.1"]);
        command.arg(format!("--port={}", address.port()));
        command.arg(format!("--config={}", config.display())).stdout(Stdio::null());
        let mut server = Server::start("rsync", command, address)?;
        match comes_to_listen(&mut server.child.0, address) {
            true => Ok(server),
            false => Err(server.failed("the daemon does not listen")),
        }
    }

    /// What it says on standard error goes to ours.
    fn start(method: &'static str, mut command: Command, address: SocketAddr) -> Result<Server> {
        let child = command.stdin(Stdio::null()).spawn().map_err(Error::os("starting a server"))?;
        Ok(Server { method, child: Killed(child), address })
    }

    fn failed(&self, what: &str) -> Error {
        Error::Worker { method: self.method.into(), role: "server", message: what.into() }
    }

    /// CPU time so far, of itself and of those of its children that have ended, in seconds.
    pub fn cpu_s(&self) -> f64 {
        crate::cpu::cpu_seconds(self.child.0.id())
    }

    /// CPU time of all its threads so far, in seconds, to the nanosecond.
    pub fn threads_cpu_s(&self) -> Result<f64> {
        let tasks = format!("/proc/{}/task", self.child.0.id());
        let tasks = fs::read_dir(tasks).map_err(Error::os("looking at the server"))?;
        let on_cpu = |task: std::io::Result<fs::DirEntry>| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        };
        Ok(tasks.filter_map(on_cpu).sum::<f64>() * 1e-9)
    }

    /// The most memory that it had at any time, in bytes (`VmHWM`).
    pub fn peak_memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.0.id()));
        let status = status.map_err(|_| self.failed("is gone"))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        Ok(kib.unwrap_or(0) * 1024)
    }

    /// SIGTERM, and its end, which has to be in order.
    pub fn stop(mut self) -> Result<()> {
        let _ = kill_process(Pid::from_child(&self.child.0), Signal::TERM);
        let status = self.child.0.wait().map_err(Error::os("waiting for the server"))?;
        if status.success() { Ok(()) } else { Err(self.failed("failed at its end")) }
    }
}
