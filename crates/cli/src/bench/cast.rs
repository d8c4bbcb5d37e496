//! `fusewire bench cast`.

use clap::Args;
use fusewire_lab::cast::{self, Case, Line, Method, Plan};

use crate::options;
use crate::output::{Columns, Result, lines, rate};
use crate::progress::Progress;

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Methods to compare; what is not installed is left out.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METHOD",
        default_value = "fusewire,uftp,udpcast"
    )]
    methods: Vec<Method>,
    /// Receivers, and of a hundred packets those that each loses by itself; the first is what others are compared with.
    #[arg(long, value_delimiter = ',', value_name = "N[:LOST]", default_value = "1,8,1:1,8:1", value_parser = case)]
    cases: Vec<Case>,
    /// Most bytes a second, for example 40M [default: no bound].
    #[arg(long, value_name = "BYTES/S", value_parser = options::rate)]
    rate: Option<u64>,
    /// Bytes of the file.
    #[arg(long, value_name = "BYTES", default_value = "80MB", value_parser = options::bytes)]
    bytes: u64,
    /// Rounds; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// Receivers and what each loses.
fn case(text: &str) -> std::result::Result<Case, String> {
    let (receivers, lost) = text.split_once(':').unwrap_or((text, "0"));
    let case = receivers.parse().ok().zip(lost.parse().ok());
    match case {
        Some((receivers @ 1..=200, lost_percent)) if (0.0..=50.0).contains(&lost_percent) => {
            Ok(Case { receivers, lost_percent })
        }
        _ => Err("expected N or N:LOST, 1 to 200 and 0 to 50 %, for example 8:1".into()),
    }
}

/// Runs the comparison.
pub fn run(options: Options) -> Result {
    let plan = Plan {
        methods: options.methods,
        cases: options.cases,
        rate_bytes_per_s: options.rate,
        bytes: options.bytes,
        rounds: options.rounds as usize,
        program: std::env::current_exe()?,
    };
    let stop = crate::transfer::stop_flag()?;
    let progress = Progress::new();
    let found = cast::run(&plan, &stop, &mut |what| progress.round(what));
    progress.clear();
    lines(&super::whole(found)?, COLUMNS, options.json)
}

const COLUMNS: &Columns<Line> = &[
    ("method", -9, |l| l.method.name().into()),
    ("receivers", 9, |l| l.case.receivers.to_string()),
    ("lost", 6, |l| format!("{} %", l.case.lost_percent)),
    ("rate", 11, |l| rate(l.bytes_per_s)),
    ("from – to", 23, |l| l.bytes_per_s_range.map(rate).join(" – ")),
    ("÷ first", 8, |l| format!("{:.2}", l.ratio_to_first)),
    ("sender CPU s/GiB", 17, |l| format!("{:.2}", l.sender_cpu_s_per_gib)),
    ("each receiver", 14, |l| format!("{:.2}", l.receiver_cpu_s_per_gib)),
];
