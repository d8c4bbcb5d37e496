//! Processes that measure for us: they are told what to do, say lines, and are killed when they are dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::namespace::Killed;
use crate::{Error, Result};

/// A process that says nothing for so long is ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// One side of a measurement, at work.
pub struct Process {
    /// What it does and which side it is, for errors.
    method: String,
    role: &'static str,
    child: Killed,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it. Errors name `method` and `role`.
    pub fn spawn(method: &str, role: &'static str, mut command: Command) -> Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Killed(command.spawn().map_err(Error::os("starting a worker"))?);
        let out = child.0.stdout.take().ok_or_else(|| Error::Unsupported("no output".into()))?;
        Ok(Process { method: method.to_owned(), role, child, output: BufReader::new(out) })
    }

    /// One line of what it says.
    fn line(&mut self) -> Result<String> {
        let is_there = !self.output.buffer().is_empty() || {
            let mut fds = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            fusewire_device::sleep(&mut fds, Some(PATIENCE)).is_ok_and(|n| n > 0)
        };
        let mut line = String::new();
        match is_there.then(|| self.output.read_line(&mut line)) {
            Some(Ok(n)) if n > 0 => Ok(line.trim().to_owned()),
            Some(_) => Err(self.failed("ended without a word")),
            None => Err(self.failed("said nothing for too long")),
        }
    }

    /// Waits for what [`listens`] says: where it does.
    pub fn address(&mut self) -> Result<SocketAddr> {
        let line = self.line()?;
        let address = line.strip_prefix("LISTEN ").and_then(|address| address.parse().ok());
        address.ok_or_else(|| self.failed(&line))
    }

    /// Waits for what [`report`] says.
    pub fn report<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|_| self.failed(&line))
    }

    /// The same of one that ends with it.
    pub fn last_report<T: DeserializeOwned>(&mut self) -> Result<T> {
        let report = self.report()?;
        let status = self.child.0.wait().map_err(Error::os("waiting for a worker"))?;
        if status.success() { Ok(report) } else { Err(self.failed("failed after its report")) }
    }

    /// What is wrong with it: what it says itself, or else `message`.
    fn failed(&mut self, message: &str) -> Error {
        let _ = self.child.0.kill();
        let message = said(&mut self.child.0, message);
        Error::Worker { method: self.method.clone(), role: self.role, message }
    }
}

/// What a child that has ended said on standard error, or else `message`.
pub fn said(child: &mut Child, message: &str) -> String {
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.read_to_string(&mut said);
    }
    if said.trim().is_empty() { message.to_owned() } else { said.trim().to_owned() }
}

/// Tells the parent where we listen.
pub fn listens(address: SocketAddr) -> Result<()> {
    println!("LISTEN {address}");
    std::io::stdout().flush().map_err(Error::os("printing the address"))
}

/// Tells the parent what was found.
pub fn report(report: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(report)
        .map_err(|e| Error::Os { action: "writing a report", source: e.into() })?;
    println!("{line}");
    std::io::stdout().flush().map_err(Error::os("printing the report"))
}

/// A TCP address of loopback that is free now, for programs that take no port 0.
pub fn free_address() -> Result<SocketAddr> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    free.map_err(Error::os("looking for a free port"))
}

/// Waits until a child that was just started listens there; whether it does.
pub fn comes_to_listen(child: &mut Child, address: SocketAddr) -> bool {
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        let ended = !matches!(child.try_wait(), Ok(None));
        if ended || began.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
