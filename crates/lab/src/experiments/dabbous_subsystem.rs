//! Dabbous, section 5: what configuring by requirements gains over one transport for all, on a link by a virtual clock.

use std::time::Duration;

use crate::Result;
use crate::bench::{Bench, quantile};
use crate::record::Place;
use crate::subsystem::{Call, Offered, Path, Way, answers, blocks, call};

/// Shares of packets that are lost.
const LOSSES: [f64; 3] = [0.0, 0.01, 0.03];
/// That of charts which are about something else.
const LOSS: f64 = 0.01;
const NEAR: Duration = Duration::from_millis(20);
const FAR: Duration = Duration::from_millis(100);
/// Bits a second of the path of blocks and of requests, and of calls.
const WIDE: u64 = 20_000_000;
const CALLS: u64 = 2_500_000;
/// Bytes of a block: a packet has room for it. And how often there is one where a sink waits for each.
const BLOCK: usize = 1024;
const BLOCKS_EVERY: Duration = Duration::from_millis(4);
/// Requests a second.
const REQUESTS_HZ: [f64; 3] = [10.0, 50.0, 250.0];
/// Of them, that of which bytes are counted.
const COUNTED_HZ: f64 = 50.0;
/// Paths of calls, in bits a second.
const CALL_PATHS: [u64; 3] = [600_000, 1_000_000, 2_500_000];
/// Sounds and pictures, by their lanes.
const LANES: [&str; 2] = ["sound", "pictures"];

/// How long, of virtual time, and how many requests.
struct Size {
    blocks: Duration,
    requests: u64,
    call: Duration,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let size = Size {
        blocks: Duration::from_secs(bench.choose(2, 20)),
        requests: bench.choose(200, 2000),
        call: Duration::from_secs(bench.choose(10, 60)),
    };
    // Each round is another seed: what is found is spread by which packets were lost, and by nothing else.
    bench.rounds(bench.choose(1, 7), |bench, round| {
        for way in Way::BOTH {
            let seed = round as u64;
            requests(bench, way, &size, seed)?;
            bulk(bench, way, &size, seed)?;
            conference(bench, way, &size, seed)?;
        }
        Ok(())
    })
}

/// What a chart about delays has of each way.
fn delays(bench: &mut Bench<'_>, chart: &str, way: Way, at: f64, sorted_ms: &[f64]) {
    for (part, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")] {
        let series = format!("{}, {name}", way.words());
        let value = quantile(sorted_ms, part).unwrap_or(f64::NAN);
        bench.sample(Place::new(chart, series, at), value);
    }
}

fn requests(bench: &mut Bench<'_>, way: Way, size: &Size, seed: u64) -> Result<()> {
    let path = Path { round_trip: NEAR, bits_per_s: WIDE, loss: LOSS };
    for hz in REQUESTS_HZ {
        let found = answers(way, &path, hz, size.requests, seed)?;
        delays(bench, "answers", way, hz, &found.delays_ms);
        if hz == COUNTED_HZ {
            bench.sample(Place::new("wire", way.words(), "rpc"), found.wire);
        }
    }
    bench.step(0.0, way.words())
}

fn bulk(bench: &mut Bench<'_>, way: Way, size: &Size, seed: u64) -> Result<()> {
    for loss in LOSSES {
        let path = Path { round_trip: NEAR, bits_per_s: WIDE, loss };
        let offered = Offered::Every(BLOCKS_EVERY);
        let found = blocks(way, &path, offered, BLOCK, size.blocks, seed)?;
        delays(bench, "blocks", way, loss * 100.0, &found.delays_ms);
        let found = blocks(way, &path, Offered::AsTaken, BLOCK, size.blocks, seed)?;
        bench.sample(Place::new("rate", way.words(), loss * 100.0), found.mbits);
        if loss == LOSS {
            bench.sample(Place::new("wire", way.words(), "bulk"), found.wire);
        }
    }
    bench.step(0.0, way.words())
}

fn conference(bench: &mut Bench<'_>, way: Way, size: &Size, seed: u64) -> Result<()> {
    for (chart, round_trip) in [("in-time", FAR), ("in-time-near", NEAR)] {
        for loss in LOSSES {
            let path = Path { round_trip, bits_per_s: CALLS, loss };
            let found = call(way, &path, size.call, seed)?;
            in_time(bench, chart, way, loss * 100.0, &found);
            if round_trip == FAR && loss == LOSS {
                let wire = found.wire_bytes as f64 / found.bytes_in_time as f64;
                bench.sample(Place::new("wire", way.words(), "conference"), wire);
            }
        }
    }
    for bits_per_s in CALL_PATHS {
        let path = Path { round_trip: FAR, bits_per_s, loss: LOSS };
        let found = call(way, &path, size.call, seed)?;
        let at = bits_per_s as f64 / 1e6;
        in_time(bench, "narrow", way, at, &found);
        let mbits = found.bytes_in_time as f64 * 8e-6 / size.call.as_secs_f64();
        bench.sample(Place::new("narrow-rate", way.words(), at), mbits);
    }
    bench.step(0.0, way.words())
}

fn in_time(bench: &mut Bench<'_>, chart: &str, way: Way, at: f64, found: &Call) {
    for (lane, name) in LANES.iter().enumerate() {
        let series = format!("{name}, {}", way.words());
        bench.sample(Place::new(chart, series, at), found.share_in_time(lane) * 100.0);
    }
}
