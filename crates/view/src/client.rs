//! Asking other processes. What they answer is believed no more than the network: lengths and times have
//! bounds, and who shows a text to a terminal takes control characters out of it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::place;
use crate::report::{Report, Segment};
use crate::request::Request;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const ANSWER_MAX: usize = 64 << 20;

/// A process that may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    path: PathBuf,
}

/// The processes that this user may ask. One that has died meanwhile does not answer.
pub fn processes() -> Vec<Process> {
    let mut all = Vec::new();
    for folder in place::folders() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Some(pid) = place::pid(&entry.file_name()) {
                all.push(Process { pid, path: entry.path() });
            }
        }
    }
    all.sort_by(|a, b| (a.pid, &a.path).cmp(&(b.pid, &b.path)));
    all
}

impl Process {
    /// Everything that it tells of itself.
    ///
    /// # Errors
    /// It is dead ([`is_dead`]), it is not ours, or its answer makes no sense.
    pub fn report(&self) -> io::Result<Report> {
        self.json(Request::Snapshot)
    }

    /// What a connection did last, oldest first.
    ///
    /// # Errors
    /// It has no such connection; as [`Process::report`].
    pub fn trace(&self, stack: u32, socket: &str) -> io::Result<Vec<Segment>> {
        if socket.contains(char::is_whitespace) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a socket"));
        }
        self.json(Request::Trace { stack, socket })
    }

    /// Begins a capture of one of its stacks: pcapng comes out of the stream until [`Capturing::stop`] and
    /// its end.
    ///
    /// # Errors
    /// Another one is under way; as [`Process::report`].
    pub fn capture(&self, stack: u32, snap_len: Option<usize>) -> io::Result<Capturing> {
        let mut stream = self.connect()?;
        stream.write_all(format!("{}\n", Request::Capture { stack, snap_len }).as_bytes())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // The head of a capture comes at once, and so does a refusal, which is an object of JSON.
        let mut head = [0; 64];
        let len = stream.read(&mut head)?;
        let mut head = head[..len].to_vec();
        if head.first() == Some(&b'{') {
            head.extend(read_all(&mut stream)?);
            let Refusal { error } = serde_json::from_slice(&head)?;
            return Err(io::Error::other(error));
        }
        Ok(Capturing { stream, head })
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let stream = place::connect(&self.path)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn json<T: DeserializeOwned>(&self, request: Request<'_>) -> io::Result<T> {
        let mut stream = self.connect()?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let answer = read_all(&mut stream)?;
        if let Ok(Refusal { error }) = serde_json::from_slice(&answer) {
            return Err(io::Error::other(error));
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}

#[derive(serde::Deserialize)]
struct Refusal {
    error: String,
}

/// Nobody listens there any more.
pub fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn read_all(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(answer),
            Ok(len) if answer.len() + len <= ANSWER_MAX => answer.extend(&buffer[..len]),
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "it never ends")),
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// A capture under way.
#[derive(Debug)]
pub struct Capturing {
    stream: UnixStream,
    /// What has come of it already.
    head: Vec<u8>,
}

impl Capturing {
    /// It is enough; what is there already still comes.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn stop(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// The same capture, for who stops it from another thread; one of the two reads.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn try_clone(&self) -> io::Result<Capturing> {
        Ok(Capturing { stream: self.stream.try_clone()?, head: self.head.clone() })
    }
}

impl Read for Capturing {
    /// The next bytes; 0 at the end. A quiet network is no error.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.head.is_empty() {
            let len = self.head.len().min(into.len());
            into[..len].copy_from_slice(&self.head[..len]);
            self.head.drain(..len);
            return Ok(len);
        }
        loop {
            match self.stream.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}
