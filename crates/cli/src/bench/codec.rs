//! `fusewire bench codec`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fusewire_lab::codec::{self, Agreement, Line, Plan, Target};
use fusewire_session::Level;
use serde_json::json;

use crate::output::{Columns, Result, head, json, row, text};

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
    level: Option<Level>,
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
        level: options.level.unwrap_or_else(Level::detect),
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
    text(format_args!("the same for {seeds} seeds"))?;
    head(AGREEMENTS)?;
    agreements.iter().try_for_each(|agreement| row(AGREEMENTS, agreement))
}

const AGREEMENTS: &Columns<Agreement> = &[
    ("codec", -14, |a| a.codec.clone()),
    ("type", -8, |a| a.of.clone()),
    ("", -7, |a| a.direction.into()),
    ("encodings", 9, |a| a.encodings.to_string()),
    ("elements", 9, |a| a.elements.to_string()),
    ("bytes", 11, |a| a.bytes.to_string()),
];

const CASES: &Columns<Line> = &[
    ("codec", -24, |l| l.codec.clone()),
    ("type", -8, |l| l.of.clone()),
    ("", -7, |l| l.direction.into()),
    ("ns/element", 11, |l| format!("{:.3}", l.ns_per_element)),
    ("fastest", 11, |l| format!("{:.3}", l.ns_per_element_range[0])),
    ("slowest", 11, |l| format!("{:.3}", l.ns_per_element_range[1])),
    ("bytes", 7, |l| l.bytes.to_string()),
    ("GB/s", 8, |l| format!("{:.2}", l.bytes_per_s / 1e9)),
];

fn cases(lines: &[Line]) -> Result {
    head(CASES)?;
    lines.iter().try_for_each(|line| row(CASES, line))?;
    let rounds: usize = lines.iter().map(|line| line.rounds).sum();
    let disturbed: usize = lines.iter().map(|line| line.disturbed).sum();
    text(format_args!(
        "\nmedians of {rounds} rounds; {disturbed} more were disturbed and do not count"
    ))?;
    Ok(())
}

fn us(line: &Line) -> String {
    format!("{:.3}", line.ns_per_element * line.elements as f64 / 1e3)
}

/// Tables 2 and 3 of the paper.
fn paper(lines: &[Line]) -> Result {
    text("\nDabbous, tables 2 and 3, for this machine")?;
    // Of one codec and type, encoded and decoded.
    let columns: &Columns<(&Line, &Line)> = &[
        ("type", -8, |(encode, _)| encode.of.clone()),
        ("", -6, |(encode, _)| encode.codec.clone()),
        ("code µs", 9, |(encode, _)| us(encode)),
        ("decode µs", 9, |(_, decode)| us(decode)),
        ("bytes", 7, |(_, decode)| decode.bytes.to_string()),
        ("Mbit/s", 9, |(_, decode)| format!("{:.0}", decode.bytes_per_s * 8.0 / 1e6)),
    ];
    head(columns)?;
    for of in ["ints", "ints32", "reals", "strings", "mpdus"] {
        for codec in ["BER", "LWS16", "LWS32", "LWS64"] {
            let find = |direction| {
                let is = |line: &&Line| {
                    line.codec == codec && line.of == of && line.direction == direction
                };
                lines.iter().find(is)
            };
            if let (Some(encode), Some(decode)) = (find("encode"), find("decode")) {
                row(columns, &(encode, decode))?;
            }
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
