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

/// A process that says nothing for so long is ended. One with more to do than that says so ([`Alive`]).
const PATIENCE: Duration = Duration::from_secs(60);
/// What it says.
const GOES_ON: &str = "GOES ON";
/// How often at most.
const GOES_ON_EVERY: Duration = Duration::from_secs(5);

/// One side of a measurement, at work.
pub struct Process {
    /// What it does and which side it is, for errors.
    method: String,
    role: &'static str,
    child: Killed,
    output: BufReader<ChildStdout>,
    patience: Duration,
}

impl Process {
    /// Starts it. Errors name `method` and `role`.
    pub fn spawn(method: &str, role: &'static str, mut command: Command) -> Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Killed(command.spawn().map_err(Error::os("starting a worker"))?);
        let out = child.0.stdout.take().ok_or_else(|| Error::Unsupported("no output".into()))?;
        let (method, output) = (method.to_owned(), BufReader::new(out));
        Ok(Process { method, role, child, output, patience: PATIENCE })
    }

    /// Its number.
    #[cfg(feature = "experiments")]
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// One line of what it says, but that it goes on.
    pub fn line(&mut self) -> Result<String> {
        loop {
            let line = self.any_line()?;
            if line != GOES_ON {
                return Ok(line);
            }
        }
    }

    fn any_line(&mut self) -> Result<String> {
        let is_there = !self.output.buffer().is_empty() || {
            let mut fds = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            fusewire_device::sleep(&mut fds, Some(self.patience)).is_ok_and(|n| n > 0)
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

    /// The last line that it says before it ends, or an empty one.
    #[cfg(feature = "experiments")]
    pub fn last_line(mut self) -> Result<String> {
        let mut last = None;
        loop {
            match self.line() {
                Ok(line) => last = Some(line),
                Err(error) => {
                    let status = self.child.0.wait().map_err(Error::os("waiting for a worker"))?;
                    return if status.success() {
                        Ok(last.unwrap_or_default())
                    } else {
                        Err(error)
                    };
                }
            }
        }
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

/// Tells the parent now and then that work goes on: it ends who says nothing, and work that is slow is not at a stand.
pub struct Alive {
    said: Instant,
}

impl Alive {
    /// From now on.
    pub fn from_now() -> Alive {
        Alive { said: Instant::now() }
    }

    /// To be called when some of the work is done.
    pub fn goes_on(&mut self) {
        if self.said.elapsed() >= GOES_ON_EVERY {
            self.said = Instant::now();
            // Who does not hear it any more has ended us.
            let _ = writeln!(std::io::stdout(), "{GOES_ON}");
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut process = Process::spawn("shell", "test", command).unwrap();
        process.patience = Duration::from_millis(200);
        process
    }

    #[test]
    fn who_goes_on_has_not_ended_and_who_says_nothing_is_ended() {
        let mut works = shell(&format!("echo {GOES_ON}; echo {GOES_ON}; echo 7"));
        works.patience = PATIENCE;
        assert_eq!(works.report::<u32>().unwrap(), 7);
        let error = shell("exec sleep 60").report::<u32>().unwrap_err();
        assert!(error.to_string().contains("said nothing for too long"), "{error}");
    }

    #[test]
    fn it_is_not_said_each_time() {
        let mut alive = Alive::from_now();
        let began = alive.said;
        alive.goes_on();
        assert_eq!(alive.said, began);
        alive.said -= GOES_ON_EVERY;
        alive.goes_on();
        assert!(alive.said >= began);
    }
}
