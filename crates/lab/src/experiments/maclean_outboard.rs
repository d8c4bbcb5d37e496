//! MacLean and Barvick, Figures 4 to 7, measured on the outboard of this system.

use std::time::Duration;

use crate::Result;
use crate::bench::{Bench, machine};
use crate::board::alone::{Alone, Memory, Packet, header_ns};
use crate::board::operation::{self, Waiting};
use crate::record::Place;

/// Bytes of the paper's payload: 54 words.
const PAYLOAD: usize = 216;
/// Bytes of a word.
const WORD: f64 = 4.0;
/// A payload so long that nearly all of a packet's time is its words'.
const LONG: usize = 8192;
/// Payloads of Figure 5.
const PAYLOADS: [usize; 8] = [64, 128, PAYLOAD, 512, 1024, 2048, 4096, LONG];
/// Packets of a message of Figures 6 and 7.
const PACKETS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Far memory is so many times the last cache, but no more than this.
const FAR_TIMES: u64 = 4;
const FAR_MAX: u64 = 256 << 20;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let last = machine(bench.level).caches.iter().map(|(_, bytes)| *bytes).max();
    let far = (last.unwrap_or(32 << 20) * FAR_TIMES).min(FAR_MAX);
    // What is short is not far, but it is quick to make.
    let far = bench.choose((far / 16) as usize, far as usize);
    let window = Duration::from_millis(bench.choose(5, 40));
    bench.rounds(bench.choose(2, 7), |bench, round| {
        alone(bench, far, window)?;
        operations(bench, window)?;
        let busy = operation::stream(1448, 2 * window)?;
        let place = |at| Place::new("activities", "this machine", at);
        bench.sample(place("1: the application"), busy.application * 100.0);
        bench.sample(place("2 to 8: the outboard"), busy.board * 100.0);
        let both = (busy.application + busy.board - 1.0).max(0.0);
        bench.sample(place("both at once, at least"), both * 100.0);
        bench.step(0.0, &format!("round {}", round + 1))
    })
}

/// Figures 4 and 5.
fn alone(bench: &mut Bench<'_>, far: usize, window: Duration) -> Result<()> {
    let sizes = bench.choose(vec![64, PAYLOAD, 1024, LONG], PAYLOADS.to_vec());
    let mut found: Vec<(usize, &str, Packet)> = Vec::new();
    for (name, memory) in [("near memory", Memory::Near), ("far memory", Memory::Far(far))] {
        for &size in &sizes {
            let packet = Alone::new(size, memory)?.measure(window)?;
            let rate = 1e9 / packet.send_ns;
            bench.sample(Place::new("figure-5-packets", name, size), rate);
            let mbit = rate * size as f64 * 8e-6;
            bench.sample(Place::new("figure-5-payload", name, size), mbit);
            found.push((size, name, packet));
        }
    }
    let of = |size, memory| {
        found.iter().find(|(s, m, _)| (*s, *m) == (size, memory)).map(|(.., packet)| *packet)
    };
    let bar = |at: &str| Place::new("figure-4", "this machine", at);
    bench.sample(bar("header"), header_ns(window));
    for (memory, short) in [("near memory", true), ("far memory", false)] {
        let (Some(one), Some(long)) = (of(PAYLOAD, memory), of(LONG, memory)) else { continue };
        let word = (long.send_ns - one.send_ns) * WORD / (LONG - PAYLOAD) as f64;
        // A round in which a short packet took longer than a long one was disturbed.
        if word <= 0.0 {
            continue;
        }
        bench.sample(bar(&format!("a word of {memory}")), word);
        let at = format!("header and payload, {memory}");
        bench.sample(bar(&at), one.send_ns);
        if short {
            let transport = one.send_ns - word * PAYLOAD as f64 / WORD;
            bench.sample(bar("transport, header with it"), transport.max(0.0));
            let side = |at: &str| Place::new("sides", "this machine", at);
            bench.sample(side("transmitter"), one.send_ns);
            bench.sample(side("receiver"), one.receive_ns);
        }
    }
    Ok(())
}

/// Figures 6 and 7.
fn operations(bench: &mut Bench<'_>, window: Duration) -> Result<()> {
    let packets = bench.choose(vec![1, 8, 64], PACKETS.to_vec());
    let mut last: Option<(usize, f64)> = None;
    for &packets in &packets {
        let message = packets * PAYLOAD;
        let board = operation::alone(PAYLOAD, message, window)?;
        let rate = |ns: f64| packets as f64 * 1e9 / ns;
        bench.sample(Place::new("figure-6-time", "outboard alone", message), board / 1e3);
        bench.sample(Place::new("figure-7", "alone", message), rate(board));
        if let Some((fewer, before)) = last {
            let segment = Place::new("segment", "outboard alone", message);
            bench.sample(segment, ((board - before) / (packets - fewer) as f64).max(0.0));
        }
        last = Some((packets, board));
        for (name, waiting) in [("spinning", Waiting::Spinning), ("sleeping", Waiting::Sleeping)] {
            let all = operation::by_outboard(PAYLOAD, message, waiting, window)?;
            let more = (all - board).max(0.0);
            let time = |series: String| Place::new("figure-6-time", series, message);
            bench.sample(time(format!("operation, {name}")), all / 1e3);
            bench.sample(time(format!("overhead, {name}")), more / 1e3);
            bench.sample(Place::new("figure-6", name, message), more / all * 100.0);
            bench.sample(Place::new("figure-7", name, message), rate(all));
        }
    }
    Ok(())
}
