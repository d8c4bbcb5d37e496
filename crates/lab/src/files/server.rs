//! The two servers, each in a process of its own: they serve one folder, to be read and written.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cpu::cpu_seconds;
use crate::{Error, Result};

/// Longest that the rsync daemon may take before it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

fn failed(method: &str, message: &str) -> Error {
    Error::Worker { method: method.into(), role: "server", message: message.into() }
}

impl Server {
    /// `fusewire serve FOLDER --writable`, for its own user, whose state is in `state`.
    pub fn fusewire(program: &Path, folder: &Path, state: &Path) -> Result<Server> {
        let mut child = Command::new(program)
            .arg("serve")
            .arg(folder)
            .args(["--listen", "127.0.0.1:0", "--writable", "--json", "--quiet"])
            .env("XDG_STATE_HOME", state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(Error::os("starting the server"))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let mut server = Server { child, address: ([127, 0, 0, 1], 0).into() };
        let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        // Why not is on standard error, which is ours too.
        let silent = || failed("fusewire", "did not say where it listens");
        let address = value["address"].as_str().and_then(|a| a.parse().ok());
        server.address = address.ok_or_else(silent)?;
        Ok(server)
    }

    /// An rsync daemon that serves `folder` as the module `area`; its own files lie in `state`.
    pub fn rsync(folder: &Path, state: &Path) -> Result<Server> {
        // It takes no port 0: one that is free now.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
        let address = free.map_err(Error::os("looking for a free port"))?;
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
        let child = Command::new("rsync")
            .args(["--daemon", "--no-detach", "--address=127.0.0.1"])
            .arg(format!("--port={}", address.port()))
            .arg(format!("--config={}", config.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(Error::os("starting the rsync daemon"))?;
        let (mut server, began) = (Server { child, address }, Instant::now());
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().map_err(Error::os("starting the rsync daemon"))?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                return Err(failed("rsync", "the daemon does not listen"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// CPU time so far, of itself and of those of its children that have ended, in seconds.
    pub fn cpu_s(&self) -> f64 {
        cpu_seconds(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
