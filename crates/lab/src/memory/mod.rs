//! Accesses to memory and misses of caches: one side of a measurement.
//!
//! The worker passes messages through a pipeline; valgrind's lackey writes down each instruction, load and store, from
//! which [`caches`] knows what misses. A run without messages is taken off, so that only the pipeline counts.

mod caches;

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use caches::Simulated;
pub use caches::{Cache, Caches, Counted, Widths, kinds};

use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
use serde::{Deserialize, Serialize};

use crate::worker::{self, by_name};
use crate::{Error, Result};

/// What a worker does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Which instructions.
    #[serde(with = "by_name")]
    pub level: Level,
    /// In one loop, or in passes.
    pub integrated: bool,
    /// Sending, or receiving.
    pub send: bool,
    /// The simplified SAFER cipher, or the pseudo-encryption.
    pub safer: bool,
    /// Messages.
    pub messages: u32,
}

/// Bytes of a message: the paper's 1 KiB packets.
pub const MESSAGE: usize = 1024;
/// Messages that lie after each other, as in the paper's file of 15 KiB.
pub const FILE: usize = 15;
/// And go to so many places in turn, as into a ring for retransmission.
pub const RING: usize = 64;

/// Messages on their way.
pub(crate) struct Messages {
    transform: Transform,
    send: bool,
    file: Vec<u8>,
    ring: Vec<u8>,
    from: usize,
    to: usize,
}

impl Messages {
    /// From a file of so many messages, again and again, to a ring of so many.
    pub(crate) fn new(task: &Task, file: usize, ring: usize) -> Messages {
        let execution = if task.integrated { Execution::Integrated } else { Execution::Sequential };
        let cipher = if task.safer { Cipher::SAFER_SIMPLIFIED } else { Cipher::PES };
        let mut transform =
            Transform::new(task.level, execution, Swap::Bytes32, cipher, b"fusewire");
        transform.reserve(MESSAGE);
        let (file, ring) = (vec![0x5a; file * MESSAGE], vec![1; ring * MESSAGE]);
        Messages { transform, send: task.send, file, ring, from: 0, to: 0 }
    }

    /// The next one.
    pub(crate) fn pass(&mut self) {
        let src = &self.file[self.from..self.from + MESSAGE];
        let dst = &mut self.ring[self.to..self.to + MESSAGE];
        if self.send {
            black_box(self.transform.send(&[0; 12], &[], src, dst, &mut [0; 16]));
        } else {
            black_box(self.transform.receive(&[0; 12], &[], src, &[0; 16], dst));
        }
        self.from = (self.from + MESSAGE) % self.file.len();
        self.to = (self.to + MESSAGE) % self.ring.len();
    }
}

/// Does it: what valgrind watches.
pub(crate) fn work(task: &Task) -> Result<()> {
    let mut messages = Messages::new(task, FILE, RING);
    (0..task.messages).for_each(|_| messages.pass());
    Ok(())
}

/// What one run of a task does, with all that the program does besides, in each of the caches.
///
/// # Errors
/// When valgrind or the worker fails.
pub fn counted(program: &Path, task: &Task, caches: &[Caches]) -> Result<Counted> {
    let mut command = Command::new("valgrind");
    // The trace goes where errors go.
    command.args(["--tool=lackey", "--basic-counts=no", "--trace-mem=yes"]).arg(program);
    worker::Task::Memory(*task).pass_to(&mut command)?;
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::os("starting valgrind"))?;
    let mut simulated = Simulated::new(caches);
    let mut others = Vec::new();
    if let Some(trace) = child.stderr.take() {
        let mut trace = BufReader::with_capacity(1 << 20, trace);
        let mut line = Vec::new();
        while trace.read_until(b'\n', &mut line).map_err(Error::os("reading a trace"))? > 0 {
            if take(&line, &mut simulated).is_none() {
                others.push(String::from_utf8_lossy(&line).trim_end().to_owned());
                let more = others.len().saturating_sub(3);
                others.drain(..more);
            }
            line.clear();
        }
    }
    let status = child.wait().map_err(Error::os("waiting for valgrind"))?;
    match status.success() {
        true => Ok(simulated.counted()),
        false => Err(failed(others.join("; ").chars().take(200).collect())),
    }
}

/// A line of the trace: `I  ADDRESS,BYTES`, ` L …` (load), ` S …` (store), ` M …` (both); nothing if it is none.
fn take(line: &[u8], to: &mut Simulated) -> Option<()> {
    let line = line.trim_ascii_end();
    let (kind, rest) = line.split_at_checked(3)?;
    let comma = rest.iter().rposition(|byte| *byte == b',')?;
    let number =
        |digits: &[u8], radix| u64::from_str_radix(str::from_utf8(digits).ok()?, radix).ok();
    let at = number(&rest[..comma], 16)?;
    let size = number(&rest[comma + 1..], 10).filter(|size| (1..=512).contains(size))?;
    at.checked_add(size)?;
    match kind {
        b"I  " => to.fetch(at, size),
        b" L " => to.access(at, size, false),
        b" S " => to.access(at, size, true),
        b" M " => {
            to.access(at, size, false);
            to.access(at, size, true);
        }
        _ => return None,
    }
    Some(())
}

fn failed(message: String) -> Error {
    Error::Worker { method: "valgrind".to_owned(), role: "counted", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read() {
        let cache = Cache { bytes: 1024, ways: 2, line: 32, allocates: true };
        let caches = Caches { data: cache, instructions: cache, second: cache };
        let mut simulated = Simulated::new(&[caches]);
        let mut take = |line: &[u8]| take(line, &mut simulated).is_some();
        for line in ["I  04001090,3\n", " L 1ffefff6b0,8\n", " S 1ffefff6b0,4\n", " M 0421c7cc,4\n"]
        {
            assert!(take(line.as_bytes()), "{line}");
        }
        for line in [
            "==7== Lackey",
            " L zz,8",
            " L 10",
            " L 10,0",
            " L 10,999",
            "X  10,4",
            " L ffffffffffffffff,8",
        ] {
            assert!(!take(line.as_bytes()), "{line}");
        }
        let counted = simulated.counted();
        assert_eq!((counted.accesses[&4], counted.accesses[&8]), ([1.0, 2.0], [1.0, 0.0]));
        assert_eq!(counted.misses[0].first[&4], [1.0, 0.0]);
        assert_eq!(counted.code_bytes, 3.0);
    }
}
