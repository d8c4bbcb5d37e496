//! `fusewire bench codec`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fusewire_lab::codec::{self, Agreement, Line, Plan, Target};
use serde_json::json;

use super::kernels::level;
use crate::output::{Result, json};

/// Which values, and how long.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// A folder with ints.ber, strings.ber and mpdus.ber [default: values made alike].
    #[arg(long, value_name = "FOLDER")]
    values: Option<PathBuf>,
    /// Undisturbed rounds of each case; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// CPU level of pipelines and arrays [default: the best of this machine].
    #[arg(long, value_name = "NAME")]
    level: Option<String>,
    /// Time nothing: compare with the bytes of the other codecs, both ways, for as many seeds of values.
    #[arg(long, value_name = "SEEDS", num_args = 0..=1, default_missing_value = "200", conflicts_with_all = ["values", "rounds", "level"])]
    verify: Option<u64>,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// Where the program of the other codecs is (`peers/codec`).
const PEERS: &str = "FUSEWIRE_CODEC_PEERS";

/// Measures and prints.
pub fn run(options: &Options) -> Result {
    let peers = std::env::var_os(PEERS).map(PathBuf::from).filter(|path| path.is_file());
    if let Some(seeds) = options.verify {
        return verify(peers.as_deref(), seeds, options.json);
    }
    let plan = Plan {
        values: options.values.as_deref(),
        peers: peers.as_deref(),
        rounds: if options.smoke { 1 } else { options.rounds as usize },
        round: Duration::from_millis(if options.smoke { 0 } else { 5 }),
        level: level(options.level.as_deref())?,
    };
    let lines = codec::run(&plan)?;
    let targets = codec::targets(&lines);
    if options.json {
        lines.iter().try_for_each(json)?;
        return targets.iter().try_for_each(json);
    }
    cases(&lines)?;
    paper(&lines)?;
    ratios(&targets)
}

/// What was the same, a line for each codec, type and direction. A difference is an error.
fn verify(peers: Option<&Path>, seeds: u64, as_json: bool) -> Result {
    let missing = "the other codecs are not there: run cargo xtask bench codec --verify";
    let agreements = codec::agree(peers.ok_or(missing)?, 0..seeds)?;
    if agreements.is_empty() {
        return Err("no other codec was there to compare with".into());
    }
    if as_json {
        return agreements.iter().try_for_each(json);
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "the same for {seeds} seeds\n{:<14} {:<8} {:<7} {:>9} {:>9} {:>11}",
        "codec", "type", "", "encodings", "elements", "bytes"
    )?;
    for Agreement { codec, of, direction, encodings, elements, bytes } in &agreements {
        writeln!(
            out,
            "{codec:<14} {of:<8} {direction:<7} {encodings:>9} {elements:>9} {bytes:>11}"
        )?;
    }
    Ok(())
}

fn cases(lines: &[Line]) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<24} {:<8} {:<7} {:>11} {:>11} {:>11} {:>7} {:>8}",
        "codec", "type", "", "ns/element", "fastest", "slowest", "bytes", "GB/s"
    )?;
    for line in lines {
        let [fastest, slowest] = line.ns_per_element_range;
        writeln!(
            out,
            "{:<24} {:<8} {:<7} {:>11.3} {fastest:>11.3} {slowest:>11.3} {:>7} {:>8.2}",
            line.codec,
            line.of,
            line.direction,
            line.ns_per_element,
            line.bytes,
            line.bytes_per_s / 1e9
        )?;
    }
    let rounds: usize = lines.iter().map(|line| line.rounds).sum();
    let disturbed: usize = lines.iter().map(|line| line.disturbed).sum();
    writeln!(
        out,
        "\nmedians of {rounds} rounds; {disturbed} more were disturbed and do not count"
    )?;
    Ok(())
}

/// Tables 2 and 3 of the paper.
fn paper(lines: &[Line]) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\nDabbous, tables 2 and 3, for this machine\n{:<8} {:<6} {:>9} {:>9} {:>7} {:>9}",
        "type", "", "code µs", "decode µs", "bytes", "Mbit/s"
    )?;
    for of in ["ints", "ints32", "reals", "strings", "mpdus"] {
        for codec in ["BER", "LWS16", "LWS32", "LWS64"] {
            let find = |direction| {
                let is = |line: &&Line| {
                    line.codec == codec && line.of == of && line.direction == direction
                };
                lines.iter().find(is)
            };
            let (Some(encode), Some(decode)) = (find("encode"), find("decode")) else { continue };
            let us = |line: &Line| line.ns_per_element * line.elements as f64 / 1e3;
            writeln!(
                out,
                "{of:<8} {codec:<6} {:>9.3} {:>9.3} {:>7} {:>9.0}",
                us(encode),
                us(decode),
                decode.bytes,
                decode.bytes_per_s * 8.0 / 1e6
            )?;
        }
    }
    Ok(())
}

fn ratios(targets: &[Target]) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nhow many times as fast")?;
    for target in targets {
        let ratio = target.ratio.map_or("not measured".into(), |ratio| format!("{ratio:.2}"));
        writeln!(
            out,
            "{:<24} ÷ {:<22} {:<8} {:<7} {ratio:>12}  wanted {:.1}",
            target.codec, target.against, target.of, target.direction, target.wanted
        )?;
    }
    if targets
        .iter()
        .all(|target| target.ratio.is_none_or(|_| target.against == "BER" || target.of == "array"))
    {
        let hint = json!({ "peers": PEERS });
        writeln!(
            out,
            "the other codecs were not there: {hint}; cargo xtask bench codec builds them"
        )?;
    }
    Ok(())
}
