//! Accesses to memory and misses of caches, counted by valgrind: one side of a measurement.
//!
//! The worker passes messages through a pipeline; valgrind's lackey counts its loads and stores by width,
//! cachegrind their misses. A run without messages is taken off, so that only the pipeline counts.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

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
/// Messages lie after each other in so many bytes, as in the paper's file of 15 KiB.
const FILE: usize = 15 * MESSAGE;
/// And go to other places each time, as into a ring for retransmission.
const RING: usize = 64 * MESSAGE;

/// Does it: what valgrind watches.
pub(crate) fn work(task: &Task) -> Result<()> {
    let execution = if task.integrated { Execution::Integrated } else { Execution::Sequential };
    let cipher = match task.safer {
        true => Cipher::SAFER_SIMPLIFIED,
        false => Cipher::PES,
    };
    let mut transform = Transform::new(task.level, execution, Swap::Bytes32, cipher, b"fusewire");
    transform.reserve(MESSAGE);
    let file = vec![0x5a; FILE];
    let mut ring = vec![1; RING];
    let (mut from, mut to) = (0, 0);
    for _ in 0..task.messages {
        let (src, dst) = (&file[from..from + MESSAGE], &mut ring[to..to + MESSAGE]);
        if task.send {
            black_box(transform.send(&[0; 12], &[], src, dst, &mut [0; 16]));
        } else {
            black_box(transform.receive(&[0; 12], &[], src, &[0; 16], dst));
        }
        from = (from + MESSAGE) % FILE;
        to = (to + MESSAGE) % RING;
    }
    Ok(())
}

/// A cache as cachegrind takes it: bytes, ways, bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// All of it.
    pub bytes: u64,
    /// Lines that an address may lie in.
    pub ways: u32,
    /// Of a line.
    pub line: u32,
}

/// The two first-level caches of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Of data.
    pub data: Cache,
    /// Of instructions.
    pub instructions: Cache,
}

/// What cachegrind counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// Reads and writes of data.
    pub accesses: f64,
    /// Of them, those that the first level had not.
    pub data: f64,
    /// Instructions that the first level had not.
    pub instructions: f64,
}

/// Loads and stores of each width, in bytes.
pub type Widths = BTreeMap<u32, [f64; 2]>;

/// Loads and stores by width, of the whole process.
///
/// # Errors
/// When valgrind or the worker fails.
pub fn accesses(program: &Path, task: &Task) -> Result<Widths> {
    let tool = ["--tool=lackey", "--basic-counts=no", "--detailed-counts=yes"];
    Ok(widths(&valgrind(program, task, &tool)?))
}

/// Accesses to data and first-level misses, of the whole process.
///
/// # Errors
/// When valgrind or the worker fails.
pub fn misses(program: &Path, task: &Task, caches: Caches) -> Result<Misses> {
    let of = |cache: Cache| format!("{},{},{}", cache.bytes, cache.ways, cache.line);
    let data = format!("--D1={}", of(caches.data));
    let instructions = format!("--I1={}", of(caches.instructions));
    // Larger than any first level; its misses are not asked for.
    let last = format!("--LL={},16,{}", 8 << 20, caches.data.line.max(caches.instructions.line));
    let tool = [
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--cachegrind-out-file=/dev/null",
        &data,
        &instructions,
        &last,
    ];
    let text = valgrind(program, task, &tool)?;
    let found = references(&text);
    found.ok_or_else(|| failed(format!("no counts in what it said: {}", tail(&text))))
}

fn failed(message: String) -> Error {
    Error::Worker { method: "valgrind".to_owned(), role: "counted", message }
}

fn tail(text: &str) -> String {
    text.lines().rev().take(3).collect::<Vec<_>>().join("; ").chars().take(200).collect()
}

fn valgrind(program: &Path, task: &Task, tool: &[&str]) -> Result<String> {
    let mut command = Command::new("valgrind");
    command.args(tool).arg(program);
    worker::Task::Memory(*task).pass_to(&mut command)?;
    let output = command.output().map_err(Error::os("starting valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(failed(tail(&text))),
    }
}

/// The number in a column, with the commas that valgrind puts into it.
fn number(word: &str) -> Option<f64> {
    word.replace(',', "").parse().ok()
}

/// Lackey's table: type, loads, stores.
fn widths(text: &str) -> Widths {
    let mut widths = Widths::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("=="));
        let bits = words
            .next()
            .and_then(|name| name.trim_start_matches(['I', 'F', 'D', 'V']).parse().ok());
        let counts = (words.next().and_then(number), words.next().and_then(number));
        if let (Some(bits @ 1..=512), (Some(loads), Some(stores))) = (bits, counts) {
            let entry = widths.entry(u32::max(bits / 8, 1)).or_default();
            entry[0] += loads;
            entry[1] += stores;
        }
    }
    widths
}

/// Cachegrind's summary: `D   refs:      62,543  (46,345 rd   + 16,198 wr)`, and `D1  misses:` and `I1  misses:` alike.
fn references(text: &str) -> Option<Misses> {
    let count = |name: &str| {
        let (_, rest) = text.lines().find_map(|line| line.split_once(name))?;
        number(rest.split_whitespace().next()?)
    };
    Some(Misses {
        accesses: count("D   refs:")?,
        data: count("D1  misses:")?,
        instructions: count("I1  misses:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_says_is_read() {
        let lackey = "==7==    Type        Loads       Stores       AluOps\n\
                      ==7==    -------------------------------------------\n\
                      ==7==    I1             0            0      102,044\n\
                      ==7==    I8        34,000       10,001      115,566\n\
                      ==7==    I64       93,812       37,003      387,206\n\
                      ==7==    V256       1,000        2,000            0\n";
        let widths = widths(lackey);
        assert_eq!(widths[&1], [34_000.0, 10_001.0]);
        assert_eq!((widths[&8], widths[&32]), ([93_812.0, 37_003.0], [1000.0, 2000.0]));
        let cachegrind = "==9== I   refs:        187,742\n\
                          ==9== I1  misses:        1,204\n\
                          ==9== D   refs:        62,543  (46,345 rd   + 16,198 wr)\n\
                          ==9== D1  misses:       3,027  ( 2,436 rd   +    591 wr)\n";
        let misses = Misses { accesses: 62_543.0, data: 3027.0, instructions: 1204.0 };
        assert_eq!(references(cachegrind), Some(misses));
        assert_eq!(references("no table"), None);
    }
}
