//! Runs of numbered messages, as Dabbous measured (section 4.2.2): a run ends when its last message comes, and counts only
//! if that comes; its throughput is what was received by the time from the first message to the last.

use std::time::{Duration, Instant};

use super::pair::{Between, Pair, Runner};
use super::run::Plan;
use super::task::{MARK, Means, Protocol, Report, Role, Task};
use super::wires::Wires;
use crate::Result;

/// Runs of one pair of processes.
pub(crate) const RUNS: u32 = 12;
/// Between two of them everything that was under way arrives.
pub(crate) const PAUSE: Duration = Duration::from_millis(4);
/// Bytes of a message that are its run and its number.
pub(crate) const NUMBERS: std::ops::Range<usize> = 1..9;

/// What was found of messages of one size.
#[derive(Clone, Debug)]
pub struct Found {
    /// `kernel` or `fusewire`, at both ends.
    pub means: &'static str,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// Messages of a run.
    pub packets: u32,
    /// Messages a second, of each run whose last message came.
    pub messages_per_s: Vec<f64>,
    /// Runs whose last message did not come.
    pub lost: u32,
}

/// Runs of each size and length, both ends the kernel's sockets, and both the user-level stack; `failed` hears what did
/// not work.
///
/// # Errors
/// When the wires cannot be made: not root.
pub fn measure(
    plan: &Plan,
    protocol: Protocol,
    packets: &[u32],
    failed: &mut dyn FnMut(&str),
) -> Result<Vec<Found>> {
    let wires = Wires::new()?;
    let mut runner = Runner::new(&wires, plan);
    let mut all = Vec::new();
    for &size in &plan.sizes {
        for &packets in packets {
            for (means, between) in
                [(Means::Kernel, Between::BridgedKernels), (Means::Fusewire, Between::BridgedTaps)]
            {
                let pair = Pair {
                    between,
                    protocol,
                    role: Role::Send,
                    subject: means,
                    peer: means,
                    size,
                    bulk: false,
                    peer_bulk: false,
                    packets,
                };
                match runner.run(&pair) {
                    Err(error) => failed(&format!("runs of {packets}, {size} bytes: {error}")),
                    Ok(reports) => {
                        let messages_per_s = reports.peer.runs;
                        let lost = RUNS.saturating_sub(messages_per_s.len() as u32);
                        let (means, size_bytes) = (means.name(), size);
                        all.push(Found { means, size_bytes, packets, messages_per_s, lost });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// Sends the runs of a task. `send` sends a message, `pause` waits.
pub(super) fn send(
    task: &Task,
    mut send: impl FnMut(&[u8]) -> Result<()>,
    mut pause: impl FnMut(Duration) -> Result<()>,
) -> Result<Report> {
    let mut message = vec![MARK; task.size.max(NUMBERS.end)];
    let start = Instant::now();
    for run in 0..RUNS {
        for number in 0..task.packets {
            let numbers = u64::from(run) << 32 | u64::from(number);
            message[NUMBERS].copy_from_slice(&numbers.to_be_bytes());
            send(&message)?;
        }
        pause(PAUSE)?;
    }
    let messages = u64::from(RUNS) * u64::from(task.packets);
    let seconds = start.elapsed().as_secs_f64();
    pause(10 * PAUSE)?;
    Ok(Report { messages, seconds, ..Report::default() })
}

/// Receives them. `next` gives the bytes of the next message; nothing when there is none for long.
pub(super) fn receive(
    task: &Task,
    mut next: impl FnMut(&mut [u8]) -> Result<Option<usize>>,
) -> Result<Report> {
    let (mut runs, mut message) = (Runs::new(task.packets), vec![0; 1 << 16]);
    let mut messages = 0;
    while !runs.is_over() {
        let Some(len) = next(&mut message)? else { break };
        messages += 1;
        if let Some(numbers) = message[..len].get(NUMBERS).and_then(|bytes| bytes.first_chunk()) {
            let numbers = u64::from_be_bytes(*numbers);
            runs.see((numbers >> 32) as u32, numbers as u32, Instant::now);
        }
    }
    Ok(Report { messages, seconds: 1.0, runs: runs.rates, ..Report::default() })
}

/// What a receiver has seen.
pub(crate) struct Runs {
    packets: u32,
    /// The run that is under way: which, when its first message came, and how many have come.
    now: Option<(u32, Instant, u32)>,
    /// Messages a second, of each run whose last message came.
    pub(crate) rates: Vec<f64>,
    over: bool,
}

impl Runs {
    /// None, of so many messages each.
    pub(crate) fn new(packets: u32) -> Runs {
        Runs { packets, now: None, rates: Vec::new(), over: false }
    }

    /// The last has come.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// A message came; `at` is asked of the first and the last of a run.
    pub(crate) fn see(&mut self, run: u32, number: u32, at: impl Fn() -> Instant) {
        // What a sender sends to find its peer has no number.
        if run >= RUNS || number >= self.packets {
            return;
        }
        let (first, seen) = match self.now {
            Some((known, first, seen)) if known == run => (first, seen + 1),
            _ => (at(), 1),
        };
        self.now = Some((run, first, seen));
        if number + 1 == self.packets {
            let seconds = (at() - first).as_secs_f64();
            // The first began the time and is not in it.
            if seen > 1 && seconds > 0.0 {
                self.rates.push(f64::from(seen - 1) / seconds);
            }
            self.over = run + 1 == RUNS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_from_its_first_message_to_its_last_if_that_comes() {
        let start = Instant::now();
        let at = |ms| move || start + Duration::from_millis(ms);
        let mut runs = Runs::new(5);
        runs.see(u32::MAX, 0, at(0));
        // Five messages, four times between them; then one is lost on the way, then the last.
        (0..5).for_each(|i| runs.see(0, i, at(u64::from(i) * 10)));
        [0, 1, 3, 4].into_iter().for_each(|i| runs.see(1, i, at(100 + u64::from(i) * 10)));
        (0..4).for_each(|i| runs.see(2, i, at(200 + u64::from(i))));
        assert_eq!(runs.rates, [100.0, 75.0]);
        assert!(!runs.is_over());
        (0..5).for_each(|i| runs.see(RUNS - 1, i, at(300 + u64::from(i))));
        assert!(runs.is_over() && runs.rates.len() == 3);
    }
}
