//! What the trace of each connection costs: segments from one IP stack to another in this process, over
//! memory, with the trace and without by turns in one run, on the same two connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fusewire_device::interface::memory::{Config as Pair, pair};
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Config, SocketId, Stack, TcpConfig};
use serde::Serialize;

use crate::{Error, Result};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Turns of each kind.
    pub turns: usize,
    /// Time of a turn.
    pub turn: Duration,
}

/// What one kind of segment showed.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// `trace`.
    pub experiment: &'static str,
    /// Payload bytes of a segment; 0: super-frames of up to 64 KiB.
    pub segment_bytes: usize,
    /// Segments or super-frames, and acknowledgements, that were noted a second.
    pub entries_per_s: f64,
    /// Nanoseconds for one of them, sent and received, with the trace: the median of the turns.
    pub with_ns: f64,
    /// The same without.
    pub without_ns: f64,
    /// Time with the trace over time without: the median of the pairs of turns.
    pub ratio: f64,
    /// Its quartiles.
    pub ratio_low: f64,
    /// See `ratio_low`.
    pub ratio_high: f64,
    /// Bytes that arrived, as they were sent.
    pub verified_bytes: u64,
}

const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))];

struct Bench {
    stacks: [Stack; 2],
    ids: [SocketId; 2],
    clock: Clock,
    segment_bytes: usize,
    bytes: Vec<u8>,
    memory: Vec<u8>,
    /// Bytes written and bytes read.
    moved: [u64; 2],
}

fn failed(what: impl std::fmt::Display) -> Error {
    Error::Unsupported(what.to_string())
}

impl Bench {
    fn new(segment_bytes: usize) -> Result<Bench> {
        let super_frames = segment_bytes == 0;
        let config = Pair { checksum: true, segmentation: super_frames, ..Pair::default() };
        let (a, b) = pair(config).map_err(Error::os("making interfaces in memory"))?;
        let clock = Clock::new();
        let tcp = TcpConfig { nagle: false, ..Config::default().tcp };
        let mut number = 0;
        let mut stacks = [a, b].map(|interface| {
            let address = ADDRESSES[number];
            number += 1;
            let net = NetConfig {
                addresses: Cidr::new(address, 24).into_iter().collect(),
                duplicate_detection: false,
                ..Stack::net_config(&interface)
            };
            let config = Config { tcp: tcp.clone(), ..Config::default() };
            Stack::new(Box::new(interface), net, config, [number as u8; 32], clock.now())
        });
        let at = SocketAddr::new(ADDRESSES[1], 80);
        let listener = stacks[1].tcp_listen(at, 1).map_err(failed)?;
        let client = stacks[0].tcp_connect(clock.now(), at).map_err(failed)?;
        let mut accepted = None;
        for _ in 0..1000 {
            for stack in &mut stacks {
                stack.poll(clock.now()).map_err(Error::os("polling"))?;
            }
            accepted = accepted.or(stacks[1].tcp_accept(listener).map_err(failed)?);
        }
        let (server, _) = accepted.ok_or_else(|| failed("two stacks in memory do not connect"))?;
        let len = if super_frames { 1 << 16 } else { segment_bytes };
        let bytes = (0..len).map(|i| (i * 131 + (i >> 8)) as u8).collect();
        let memory = vec![0; 1 << 17];
        let ids = [client, server];
        Ok(Bench { stacks, ids, clock, segment_bytes, bytes, memory, moved: [0; 2] })
    }

    fn trace(&mut self, on: bool) -> Result<()> {
        for (stack, id) in self.stacks.iter_mut().zip(self.ids) {
            stack.tcp_set_trace(id, on).map_err(failed)?;
        }
        Ok(())
    }

    /// Entries that both have noted so far, or would have.
    fn noted(&mut self) -> Result<u64> {
        let mut sum = 0;
        for (stack, id) in self.stacks.iter_mut().zip(self.ids) {
            let counters = stack.tcp_info(id).map_err(failed)?.counters;
            sum += match self.segment_bytes {
                // A super-frame is one entry and counts as many segments.
                0 => stack.counters().sent + stack.counters().received,
                _ => counters.segments_sent + counters.segments_received,
            };
        }
        Ok(sum)
    }

    /// Sixteen segments there, and their acknowledgements back.
    fn round(&mut self) -> Result<()> {
        let Bench { stacks: [from, to], ids, clock, bytes, memory, moved, .. } = self;
        for _ in 0..16 {
            let now = clock.now();
            // What a full ring did not take comes next, so that a byte tells its place.
            let begin = (moved[0] % bytes.len() as u64) as usize;
            let taken = from.tcp_write(ids[0], &bytes[begin..]).map_err(failed)?;
            moved[0] += taken as u64;
            from.transmit(now).map_err(Error::os("sending"))?;
            if taken < bytes.len() - begin {
                break;
            }
        }
        loop {
            let now = clock.now();
            let worked = to.poll(now).map_err(Error::os("receiving"))?;
            let mut read = 0;
            while let Some(len) = to.tcp_read(ids[1], memory).map_err(failed)? {
                let place = (moved[1] % bytes.len() as u64) as usize;
                if len == 0 || memory[0] != bytes[place] {
                    return Err(failed("what arrived is not what was sent"));
                }
                read += len;
                moved[1] += len as u64;
            }
            from.poll(now).map_err(Error::os("receiving"))?;
            if !worked && read == 0 {
                return Ok(());
            }
        }
    }

    /// Rounds for as long as a turn: nanoseconds an entry, and entries a second.
    fn turn(&mut self, time: Duration) -> Result<(f64, f64)> {
        let (begin, before) = (std::time::Instant::now(), self.noted()?);
        while begin.elapsed() < time {
            self.round()?;
        }
        let (took, entries) = (begin.elapsed(), self.noted()? - before);
        if entries == 0 {
            return Err(failed("nothing moved"));
        }
        Ok((took.as_nanos() as f64 / entries as f64, entries as f64 / took.as_secs_f64()))
    }
}

fn at(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * part).round() as usize).copied().unwrap_or(f64::NAN)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Measures segments of these sizes, and hands each line on.
///
/// # Errors
/// When nothing arrives.
pub fn run(plan: &Plan, sizes: &[usize], each: &mut dyn FnMut(&Line)) -> Result<()> {
    for &size in sizes {
        each(&measure(plan, size)?);
    }
    Ok(())
}

fn measure(plan: &Plan, segment_bytes: usize) -> Result<Line> {
    let mut bench = Bench::new(segment_bytes)?;
    bench.turn(plan.turn)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for turn in 0..plan.turns.max(1) {
        let mut ns = [0.0; 2];
        // Which comes first changes, so that a drift of the machine favours neither.
        for step in 0..2 {
            let on = (turn + step) % 2 == 0;
            bench.trace(on)?;
            let (each, rate) = bench.turn(plan.turn)?;
            ns[usize::from(on)] = each;
            rates.extend(on.then_some(rate));
        }
        without.push(ns[0]);
        with.push(ns[1]);
        ratios.push(ns[1] / ns[0]);
    }
    let trace = bench.stacks[0].tcp_trace(bench.ids[0]).map_err(failed)?;
    if trace.is_empty() || bench.moved[0] != bench.moved[1] {
        return Err(failed("the trace is empty, or bytes are missing"));
    }
    let ratios = sorted(ratios);
    Ok(Line {
        experiment: "trace",
        segment_bytes,
        entries_per_s: at(&sorted(rates), 0.5),
        with_ns: at(&sorted(with), 0.5),
        without_ns: at(&sorted(without), 0.5),
        ratio: at(&ratios, 0.5),
        ratio_low: at(&ratios, 0.25),
        ratio_high: at(&ratios, 0.75),
        verified_bytes: bench.moved[1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_measured() {
        let plan = Plan { turns: 2, turn: Duration::from_millis(5) };
        let mut lines = Vec::new();
        run(&plan, &[1, 1448, 0], &mut |line| lines.push(line.clone())).unwrap();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|l| l.ratio > 0.0 && l.verified_bytes > 0), "{lines:?}");
    }
}
