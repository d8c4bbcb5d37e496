//! `fusewire bench kernels`.

use std::cell::Cell;

use clap::Args;
use fusewire_lab::kernels::{self, CheckLine, Effort, Line, Plan, SIZES};
use fusewire_session::Level;
use serde_json::json;

use crate::output::{Code, Columns, Failure, Result, figure, head, json, row, text, then};
use crate::progress::Progress;

/// Which pipelines, and how long.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Lengths of the message, in bytes, multiples of 8 [default: 256 to 64 MiB].
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u32>,
    /// Measure only pipelines and check functions with one of these words in their name.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pipelines: Vec<String>,
    /// CPU level: portable, avx2-aesni, avx2, avx512 [default: the best of this machine].
    #[arg(long, value_name = "NAME")]
    level: Option<Level>,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// Most bytes of a message.
const SIZE_MAX: u32 = 1 << 28;
/// What every pipeline takes: block ciphers nothing else.
const BLOCK: u32 = 8;

fn size(text: &str) -> std::result::Result<u32, String> {
    let fits = |size: &u32| (BLOCK..=SIZE_MAX).contains(size) && size.is_multiple_of(BLOCK);
    let size = text.parse().ok().filter(fits);
    size.ok_or_else(|| format!("expected a multiple of {BLOCK} from {BLOCK} to {SIZE_MAX}"))
}

/// Measures and prints each line as soon as it is there.
pub fn run(options: &Options) -> Result {
    let level = options.level.unwrap_or_else(Level::detect);
    let sizes: Vec<usize> = match options.sizes.is_empty() {
        true => SIZES.to_vec(),
        false => options.sizes.iter().map(|n| *n as usize).collect(),
    };
    known(&options.pipelines)?;
    let (progress, size_told) = (Progress::new(), Cell::new(0));
    let plan = Plan {
        level,
        sizes: &sizes,
        effort: if options.smoke { Effort::SMOKE } else { Effort::FULL },
        wanted: &|name| {
            options.pipelines.is_empty()
                || options.pipelines.iter().any(|word| name.contains(word.as_str()))
        },
        begins: &|name, size| match progress.terminal {
            true => progress.report(&format!("{name}, {size} bytes")),
            // Elsewhere a line a length.
            false if size_told.replace(size) != size => progress.report(&format!("{size} bytes")),
            false => {}
        },
    };
    if !options.json {
        text(format_args!(
            "GB/s at level {level}; ÷seq and ÷ref: integrated to sequential, to reference"
        ))?;
        head(COLUMNS)?;
    }
    let mut written = Ok(());
    kernels::pipelines(&plan, &mut |line| {
        progress.clear();
        then(&mut written, || if options.json { values(line) } else { row(COLUMNS, line) });
    });
    written?;
    if !options.json {
        text("")?;
        head(CHECKS)?;
    }
    let mut written = Ok(());
    // Of the length at hand: what CXOR is compared with.
    let mut beside = Beside::default();
    kernels::checks(&plan, &mut |line| {
        progress.clear();
        let figures = beside.figures(line);
        then(&mut written, || match options.json {
            true => json(line),
            false => row(CHECKS, &(line.clone(), figures)),
        });
    });
    progress.clear();
    written
}

/// Refuses words that are in the name of no pipeline and no check function.
fn known(words: &[String]) -> Result {
    let names = kernels::names();
    let unknown = words.iter().find(|word| !names.iter().any(|name| name.contains(word.as_str())));
    let Some(word) = unknown else { return Ok(()) };
    let names = names.join("\n  ");
    let why = format!("--pipelines: expected words from these names, found `{word}`:\n  {names}");
    Err(Failure::new(Code::Usage, why).into())
}

fn values(line: &Line) -> Result {
    json(line)?;
    let Some(word_filters) = line.word_filters else { return Ok(()) };
    json(&json!({
        "function": line.pipeline,
        "form": "word_filters",
        "direction": line.direction.name(),
        "size_bytes": line.size_bytes,
        "level": line.level,
        "bytes_per_s": word_filters,
        "least_common_multiple": line.integrated,
    }))
}

const COLUMNS: &Columns<Line> = &[
    ("pipeline", -45, |l| l.pipeline.into()),
    ("way", -7, |l| l.direction.name().into()),
    ("bytes", 9, |l| l.size_bytes.to_string()),
    ("integ", 7, |l| gb(Some(l.integrated))),
    ("block", 7, |l| gb(Some(l.blocked))),
    ("sequ", 7, |l| gb(Some(l.sequential))),
    ("pointer", 7, |l| gb(l.function_pointers)),
    ("words", 7, |l| gb(l.word_filters)),
    ("ref", 7, |l| gb(l.reference)),
    ("÷seq", 6, |l| format!("{:.2}", l.integrated / l.sequential)),
    ("÷ref", 6, |l| figure(l.reference.map(|reference| l.integrated / reference), 2)),
];

/// Rates that CXOR's stand beside.
#[derive(Default)]
struct Beside {
    load_only: f64,
    standard: f64,
    /// In the loop at hand.
    internet: f64,
}

/// A rate of CXOR divided by that of the standard loop, of one that only loads, of the loop with the Internet sum.
type Figures = [Option<f64>; 3];

impl Beside {
    fn figures(&mut self, line: &CheckLine) -> Figures {
        match (line.function, line.form) {
            ("cxor", "load_only") => (self.load_only, self.standard) = (line.rate, 0.0),
            ("cxor", "standard") => self.standard = line.rate,
            (_, "internet") => self.internet = line.rate,
            _ => {}
        }
        let to = |rate: f64| Some(line.rate / rate);
        match (line.function, line.form) {
            ("cxor", _) if self.standard > 0.0 => [to(self.standard), to(self.load_only), None],
            (_, "cxor") => [None, None, to(self.internet)],
            _ => [None; 3],
        }
    }
}

const CHECKS: &Columns<(CheckLine, Figures)> = &[
    ("check function", -38, |(l, _)| format!("{}, {}", l.function, l.form)),
    ("bytes", 9, |(l, _)| l.size_bytes.to_string()),
    ("GB/s", 7, |(l, _)| gb(Some(l.rate))),
    ("÷std", 6, |(_, figures)| quotient(figures[0])),
    ("÷load", 6, |(_, figures)| quotient(figures[1])),
    ("÷inet", 6, |(_, figures)| quotient(figures[2])),
    (" of CXOR: to the standard loop, one that only loads, the Internet sum", 0, |_| String::new()),
];

fn quotient(figure: Option<f64>) -> String {
    figure.map_or(String::new(), |figure| format!("{figure:.2}"))
}

fn gb(rate: Option<f64>) -> String {
    figure(rate.map(|rate| rate / 1e9), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_ciphers_take_whole_blocks() {
        assert_eq!((size("8"), size("1392")), (Ok(8), Ok(1392)));
        assert!(["0", "1388", "4", "268435464", "x"].iter().all(|text| size(text).is_err()));
    }
}
