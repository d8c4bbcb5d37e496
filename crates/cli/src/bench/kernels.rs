//! `fusewire bench kernels`.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use clap::Args;
use fusewire_lab::kernels::{self, CheckLine, Effort, Line, Plan, SIZES};
use fusewire_session::Level;
use serde_json::json;

use crate::output::{Code, Failure, Result, json};

/// Which pipelines, and how long.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Lengths of the message, in bytes [default: 256 to 64 MiB].
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(8..=1 << 28))]
    sizes: Vec<u32>,
    /// Measure only pipelines and check functions with one of these words in their name.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pipelines: Vec<String>,
    /// CPU level: portable, avx2-aesni, avx2, avx512 [default: the best of this machine].
    #[arg(long, value_name = "NAME")]
    level: Option<String>,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// The level of that name, or this machine's best.
pub(crate) fn level(name: Option<&str>) -> Result<Level> {
    let Some(name) = name else { return Ok(Level::detect()) };
    Level::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Level::available().into_iter().map(Level::name).collect();
        let message =
            format!("this machine has no level {name:?}; its levels are {}", names.join(", "));
        Failure::new(Code::Usage, message).into()
    })
}

/// Measures and prints each line as soon as it is there.
pub fn run(options: &Options) -> Result {
    let level = level(options.level.as_deref())?;
    let sizes: Vec<usize> = match options.sizes.is_empty() {
        true => SIZES.to_vec(),
        false => options.sizes.iter().map(|n| *n as usize).collect(),
    };
    let progress = Progress::new();
    let plan = Plan {
        level,
        sizes: &sizes,
        effort: if options.smoke { Effort::SMOKE } else { Effort::FULL },
        wanted: &|name| {
            options.pipelines.is_empty()
                || options.pipelines.iter().any(|word| name.contains(word.as_str()))
        },
        begins: &|name, size| progress.report(name, size),
    };
    if !options.json {
        heading(level)?;
    }
    let mut written: Result = Ok(());
    kernels::pipelines(&plan, &mut |line| {
        progress.clear();
        if written.is_ok() {
            written = if options.json { values(line) } else { row(line) };
        }
    });
    written?;
    if !options.json {
        check_heading()?;
    }
    let mut written: Result = Ok(());
    // Of the length at hand: what the other forms of CXOR are compared with.
    let (mut load_only, mut standard) = (0.0, 0.0);
    kernels::checks(&plan, &mut |line| {
        progress.clear();
        if written.is_ok() {
            match line.form {
                "load_only" => (load_only, standard) = (line.rate, 0.0),
                "standard" => standard = line.rate,
                _ => {}
            }
            let beside =
                (line.function == "cxor" && standard > 0.0).then_some([standard, load_only]);
            written = if options.json { json(&check_value(line)) } else { check_row(line, beside) };
        }
    });
    progress.clear();
    written
}

/// What is being measured, on standard error: in place on a terminal, elsewhere a line a length.
struct Progress {
    terminal: bool,
    size: Cell<usize>,
}

impl Progress {
    fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), size: Cell::new(0) }
    }

    fn report(&self, name: &str, size: usize) {
        if self.terminal {
            eprint!("\r\x1b[K{name}, {size} bytes");
            let _ = std::io::stderr().flush();
        } else if self.size.replace(size) != size {
            eprintln!("{size} bytes");
        }
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

fn values(line: &Line) -> Result {
    json(&json!({
        "pipeline": line.pipeline,
        "direction": line.direction.name(),
        "size_bytes": line.size_bytes,
        "level": line.level,
        "integrated": line.integrated,
        "blocked": line.blocked,
        "sequential": line.sequential,
        "function_pointers": line.function_pointers,
        "reference": line.reference,
    }))?;
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

fn heading(level: Level) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "GB/s at level {}; ÷seq and ÷ref: integrated to sequential, to reference",
        level.name()
    )?;
    writeln!(
        out,
        "{:<45} {:<7} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "pipeline",
        "way",
        "bytes",
        "integ",
        "block",
        "sequ",
        "pointer",
        "words",
        "ref",
        "÷seq",
        "÷ref"
    )?;
    Ok(())
}

fn row(line: &Line) -> Result {
    let gb = |rate: f64| format!("{:.2}", rate / 1e9);
    let maybe = |rate: Option<f64>| rate.map_or("–".into(), gb);
    let ratio = line.reference.map(|reference| 1e9 * line.integrated / reference);
    writeln!(
        std::io::stdout().lock(),
        "{:<45} {:<7} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6.2} {:>6}",
        line.pipeline,
        line.direction.name(),
        line.size_bytes,
        gb(line.integrated),
        gb(line.blocked),
        gb(line.sequential),
        maybe(line.function_pointers),
        maybe(line.word_filters),
        maybe(line.reference),
        line.integrated / line.sequential,
        maybe(ratio)
    )?;
    Ok(())
}

fn check_value(line: &CheckLine) -> serde_json::Value {
    json!({
        "function": line.function,
        "form": line.form,
        "size_bytes": line.size_bytes,
        "level": line.level,
        "bytes_per_s": line.rate,
    })
}

fn check_heading() -> Result {
    writeln!(
        std::io::stdout().lock(),
        "\n{:<22} {:>9} {:>7} {:>6} {:>6}  of CXOR: to the standard loop, to a loop that only loads",
        "check function",
        "bytes",
        "GB/s",
        "÷std",
        "÷load"
    )?;
    Ok(())
}

fn check_row(line: &CheckLine, beside: Option<[f64; 2]>) -> Result {
    let ratios = beside.map_or_else(String::new, |[standard, load_only]| {
        format!(" {:>6.2} {:>6.2}", line.rate / standard, line.rate / load_only)
    });
    writeln!(
        std::io::stdout().lock(),
        "{:<22} {:>9} {:>7.2}{ratios}",
        format!("{}, {}", line.function, line.form),
        line.size_bytes,
        line.rate / 1e9,
    )?;
    Ok(())
}
