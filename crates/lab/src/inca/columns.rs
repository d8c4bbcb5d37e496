//! The kernel's columns: its time at the device and in its protocols, from processor times of what leaves for
//! nowhere, of what crosses the wire and is thrown away, and of what arrives.

use super::pair::{Between, Far, Pair, Runner};
use super::run::Rounds;
use super::task::{Means, Protocol, Role};
use super::{Direction, Messages};
use crate::stats::median;

/// Bytes of the messages whose super-frames tell what it costs one to cross: as long as a stream's are.
const CROSSING_BYTES: usize = 1000;

/// Fills in the kernel's times, as far as they can be measured.
pub fn kernel(runner: &mut Runner<'_>, rounds: usize, line: &mut Messages, results: &Rounds) {
    let mut columns = Columns { runner, rounds, size: line.size_bytes };
    let far = if line.direction == Direction::Both { Far::Bridge } else { Far::Wire };
    let times = match line.protocol {
        Protocol::Udp => columns.datagrams(line.direction, far, results),
        Protocol::Tcp => columns.stream(line.direction, far, results),
    };
    if let Some((device, protocol)) = times {
        line.kernel.device_ns = Some(device.max(0.0));
        line.kernel.protocol_ns = protocol.map(|ns| ns.max(0.0));
    }
}

struct Columns<'a, 'w> {
    runner: &'a mut Runner<'w>,
    rounds: usize,
    size: usize,
}

impl Columns<'_, '_> {
    /// Processor time of a message that is sent to nobody, in ns.
    fn sent(&mut self, means: Means, size: usize, far: Far) -> Option<f64> {
        let one = |_| self.runner.send_to_nobody(means, size, far).ok().map(|r| r.cpu_ns());
        median((0..self.rounds).filter_map(one))
    }

    /// Processor time of both ends of the kernel's own pair, in ns a message.
    fn both_ends(&self, results: &Rounds) -> Option<f64> {
        let both = results.get("kernel")?.iter().flatten();
        median(both.map(|(_, r)| r.subject.cpu_ns() + self.peer_ns(r.peer.cpu_ns())))
    }

    /// A peer of a stream counts bytes.
    fn peer_ns(&self, ns: f64) -> f64 {
        ns * self.size as f64
    }

    fn datagrams(
        &mut self,
        direction: Direction,
        far: Far,
        results: &Rounds,
    ) -> Option<(f64, Option<f64>)> {
        let means = match direction {
            Direction::Receive => Means::KernelOffload,
            _ => Means::Kernel,
        };
        let stays = self.sent(means, self.size, Far::Nowhere)?;
        let crosses = self.sent(means, self.size, far)?;
        let device = crosses - stays;
        let ends = || {
            let all = results.get("kernel")?.iter().flatten();
            median(all.map(|(_, r)| r.subject.cpu_ns() + r.peer.cpu_ns()))
        };
        let protocol = match direction {
            // The softirq half of receiving runs on the sender's processor.
            Direction::Receive => ends().map(|ns| ns - crosses),
            Direction::Both => ends().map(|ns| ns - device),
            Direction::Send => Some(stays),
        };
        Some((device, protocol))
    }

    /// A super-frame of datagrams crosses as one of a stream does: what it costs is shared by as many bytes.
    fn stream(
        &mut self,
        direction: Direction,
        far: Far,
        results: &Rounds,
    ) -> Option<(f64, Option<f64>)> {
        let stays = self.sent(Means::KernelOffload, CROSSING_BYTES, Far::Nowhere)?;
        let crosses = self.sent(Means::KernelOffload, CROSSING_BYTES, far)?;
        let device = (crosses - stays).max(0.0) * self.size as f64 / CROSSING_BYTES as f64;
        let protocol = match direction {
            Direction::Both => self.both_ends(results).map(|ns| ns - device),
            // Without what a sender spends that has a TAP before it, where nothing of receiving is its own.
            Direction::Receive => {
                let raw = results.get("raw").into_iter().flatten().flatten();
                let sending = median(raw.map(|(_, r)| self.peer_ns(r.peer.cpu_ns())));
                let both = self.both_ends(results);
                both.zip(sending).map(|(both, sending)| both - sending - device)
            }
            Direction::Send => self.sends_to_a_tap(),
        };
        Some((device, protocol))
    }

    /// Processor time of the kernel's sender alone, a call a message.
    fn sends_to_a_tap(&mut self) -> Option<f64> {
        let pair = Pair {
            between: Between::KernelAndTap,
            protocol: Protocol::Tcp,
            role: Role::Receive,
            subject: Means::Raw,
            peer: Means::Kernel,
            size: self.size,
            bulk: false,
            peer_bulk: false,
            packets: 0,
        };
        let one = |_| self.runner.run(&pair).ok().map(|r| r.peer.cpu_ns());
        median((0..self.rounds).filter_map(one))
    }
}
