//! The performance object of Dabbous (section 3) through every encoding, beside the codecs of others.
//!
//! All cases take turns, round by round; those of others in a process that waits while ours run, on the same CPU. A
//! case's figure is the median of its rounds in which that CPU was ours alone ([`schedule`]).

mod differential;
mod fused;
pub mod object;
mod ours;
mod peers;
mod schedule;
mod values;

/// What the compiler makes of `fuzz/mpdu.asn1`; a test of the compiler sees that it is up to date.
#[allow(
    dead_code,
    clippy::redundant_closure,
    clippy::upper_case_acronyms,
    reason = "all of the module, of which not all is used, by its names"
)]
mod p1 {
    include!("p1.rs.in");
}

pub use differential::{Agreement, agree};

use crate::Result;
use ours::Typed;
use peers::Peers;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};
use values::Values;

/// What to measure.
pub struct Plan<'a> {
    /// A folder with `ints.ber`, `strings.ber` and `mpdus.ber`; otherwise values are made.
    pub values: Option<&'a Path>,
    /// The program of the peers.
    pub peers: Option<&'a Path>,
    /// Rounds of each case.
    pub rounds: usize,
    /// How long a round takes.
    pub round: Duration,
    /// The CPU level of pipelines and of arrays, which the first run of a process decides.
    pub level: fusewire_kernels::Level,
}

/// One codec, one type, one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Whose, and which encoding.
    pub codec: String,
    /// `ints`, `ints32` (constrained to 32 bits, as XDR has them), `reals`, `strings` or `mpdus`; `array`: of 16 KiB,
    /// encrypted and summed, too.
    #[serde(rename = "type")]
    pub of: String,
    /// `encode` or `decode`.
    pub direction: &'static str,
    /// Elements of the value.
    pub elements: usize,
    /// Nanoseconds for an element: the median.
    pub ns_per_element: f64,
    /// The fastest and the slowest of the rounds that count.
    pub ns_per_element_range: [f64; 2],
    /// How many rounds count.
    pub rounds: usize,
    /// Rounds that do not count: something else slowed the CPU down.
    pub disturbed: usize,
    /// Bytes of the encoding.
    pub bytes: usize,
    /// Bytes of the encoding in a second.
    pub bytes_per_s: f64,
}

/// What is run, and how large it is.
struct Case<'v> {
    codec: String,
    of: String,
    direction: &'static str,
    elements: usize,
    bytes: usize,
    round: Box<dyn FnMut() + 'v>,
}

impl Case<'_> {
    fn time(&mut self, rounds: u64) -> u64 {
        let begin = Instant::now();
        (0..rounds).for_each(|_| (self.round)());
        begin.elapsed().as_nanos() as u64
    }
}

/// Seeds for which peers must agree with us before any is timed.
const SEEDS: u64 = 8;

/// Runs all cases.
///
/// # Errors
/// The values are none, a codec does not read what it wrote, or the peers fail or make something else.
pub fn run(plan: &Plan<'_>) -> Result<Vec<Line>> {
    // Before the first array, which would decide it.
    if fusewire_codec::vectors::use_level(plan.level) != plan.level {
        return Err(crate::Error::Unsupported(
            "another CPU level, once arrays were encoded".into(),
        ));
    }
    if let Some(program) = plan.peers {
        agree(program, 0..SEEDS)?;
    }
    let values = match plan.values {
        Some(folder) => Values::read(folder)?,
        None => Values::made(1),
    };
    let typed = Typed::of(&values)?;
    // Before the peers start, which so get the same CPU.
    let _cpu = schedule::Pinned::new()?;
    let mut cases = Vec::new();
    typed.cases(&mut cases)?;
    fused::cases(plan, &mut cases)?;
    let ours = cases.len();
    let mut peers = match plan.peers {
        Some(program) => Some(Peers::start(program, &values, &typed)?),
        None => None,
    };
    cases.extend(peers.iter().flat_map(|peers| &peers.cases).map(Case::from));
    let time = |case: usize, repeats: u64, cases: &mut [Case<'_>]| match &mut peers {
        Some(peers) if case >= ours => peers.time(case - ours, repeats),
        _ => Ok(cases[case].time(repeats)),
    };
    let samples = schedule::run(plan, &mut cases, time)?;
    Ok(cases.iter().zip(samples).map(|(case, samples)| line(case, samples)).collect())
}

fn line(case: &Case<'_>, schedule::Samples { times, disturbed }: schedule::Samples) -> Line {
    let elements = case.elements.max(1) as f64;
    let median = times[times.len() / 2];
    Line {
        codec: case.codec.clone(),
        of: case.of.clone(),
        direction: case.direction,
        elements: case.elements,
        ns_per_element: median / elements,
        ns_per_element_range: [times[0] / elements, times[times.len() - 1] / elements],
        rounds: times.len(),
        disturbed,
        bytes: case.bytes,
        bytes_per_s: case.bytes as f64 / median * 1e9,
    }
}

/// What the issue asks of us: the ratio of `against` to `of`, at least `wanted`.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// Ours.
    pub codec: &'static str,
    /// What it is compared with.
    pub against: &'static str,
    /// The type.
    #[serde(rename = "type")]
    pub of: &'static str,
    /// The direction.
    pub direction: &'static str,
    /// The ratio to reach.
    pub wanted: f64,
    /// How many times as fast ours is; nothing when one of both was not measured.
    pub ratio: Option<f64>,
}

/// The table of targets.
pub fn targets(lines: &[Line]) -> Vec<Target> {
    const WANTED: &[(&str, &str, &str, f64, f64)] = &[
        ("BER", "rasn BER", "ints", 4.0, 4.0),
        ("BER", "rasn BER", "strings", 1.5, 5.0),
        ("BER", "rasn BER", "mpdus", 2.0, 5.0),
        ("BER", "asn1c", "reals", 20.0, 10.0),
        ("LWS32", "BER", "ints", 5.8, 5.8),
        ("LWS32", "BER", "ints32", 5.8, 5.8),
        ("LWS32", "libtirpc XDR", "ints32", 8.0, 8.0),
        ("XDR", "libtirpc XDR", "ints32", 8.0, 8.0),
        ("OER", "rasn OER", "ints", 3.0, 3.0),
    ];
    let ns = |codec: &str, of: &str, direction: &str| {
        let is = |line: &&Line| line.codec == codec && line.of == of && line.direction == direction;
        lines.iter().find(is).map(|line| line.ns_per_element)
    };
    let both = WANTED.iter().flat_map(|&(codec, against, of, encode, decode)| {
        [("encode", encode), ("decode", decode)].map(|(direction, wanted)| {
            let (theirs, own) = (ns(against, of, direction), ns(codec, of, direction));
            let ratio = theirs.zip(own).map(|(theirs, own)| theirs / own);
            Target { codec, against, of, direction, wanted, ratio }
        })
    });
    both.chain(one_pass(&ns)).collect()
}

/// One pass beside the faster of those of their own. Only what is sent has a ratio to reach.
fn one_pass(ns: &dyn Fn(&str, &str, &str) -> Option<f64>) -> impl Iterator<Item = Target> {
    [("encode", 1.3), ("decode", 1.0)].into_iter().map(|(direction, wanted)| {
        let apart = fused::APART.map(|codec| (ns(codec, fused::TYPE, direction), codec));
        let [ours, library] = apart;
        let (theirs, against) = match (ours.0, library.0) {
            (Some(one), Some(other)) if one < other => ours,
            _ => library,
        };
        let ratio = theirs.zip(ns(fused::ONE, fused::TYPE, direction)).map(|(a, b)| a / b);
        Target { codec: fused::ONE, against, of: fused::TYPE, direction, wanted, ratio }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every case of ours is made, verified and run once, in one pass and apart.
    #[test]
    fn every_case_runs() {
        let level = fusewire_kernels::Level::detect();
        let round = Duration::ZERO;
        let plan = Plan { values: None, peers: None, rounds: 1, round, level };
        let lines = run(&plan).expect("every codec reads what it wrote");
        let codecs = |of: &str| lines.iter().filter(|line| line.of == of).count();
        assert!(codecs("array") >= 4, "one pass and the library's, each way");
        assert!(codecs("mpdus") >= 12);
        let measured = targets(&lines).into_iter().filter(|target| target.ratio.is_some());
        assert!(measured.map(|target| target.codec).any(|codec| codec == fused::ONE));
    }
}
