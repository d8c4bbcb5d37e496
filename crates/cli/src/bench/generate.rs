//! `fusewire bench generate`.

use std::time::Duration;

use clap::Args;
use fusewire_lab::generated::{self, Line, Plan, Wanted};

use crate::output::{Code, Columns, Failure, Result, figure, lines};
use crate::progress::Progress;

use super::transfer::Impaired;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Seconds that each case works, a round.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=50))]
    seconds: u64,
    /// Bytes of a value that is asked for.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BYTES",
        default_value = "64,256,1024,4096,16384"
    )]
    sizes: Vec<usize>,
    /// Rounds; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    path: Impaired,
    /// Seconds of the conference's course (RFC 8867, section 5.1), by a clock that nobody waits for.
    #[arg(long, value_name = "SECONDS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    course: u64,
    /// Fail where a ratio is not as is wanted.
    #[arg(long)]
    check: bool,
}

/// Runs it.
pub fn run(options: &Options) -> Result {
    let own = std::env::current_exe()?;
    let folder = own.parent().unwrap_or(&own).to_owned();
    if !generated::are_in(&folder) {
        let why = "the programs that are compared are not beside this one: `cargo xtask bench generate` builds them";
        return Err(Failure::new(Code::Usage, why).into());
    }
    let (sizes, rounds) = (options.sizes.clone(), options.rounds as usize);
    let counts = generated::are_counted();
    let (path, course) = (options.path.impairment(), Duration::from_secs(options.course));
    let plan = Plan { folder, seconds: options.seconds, sizes, rounds, counts, path, course };
    let progress = Progress::new();
    let found = generated::run(&plan, &mut |what| progress.round(what))?;
    progress.clear();
    lines(&found, COLUMNS, options.json)?;
    let missed = found.iter().filter(|line| line.holds == Some(false)).count();
    match options.check && missed > 0 {
        true => {
            let why = format!("{missed} of {} ratios are not as is wanted", found.len());
            Err(Failure::new(Code::Failed, why).into())
        }
        false => Ok(()),
    }
}

const COLUMNS: &Columns<Line> = &[
    ("program", -10, |l| l.program.into()),
    ("figure", -22, |l| l.figure.clone()),
    ("generated", 10, |l| figure(l.generated, 2)),
    ("by hand", 10, |l| figure(l.by_hand, 2)),
    ("ratio", 7, |l| figure(l.ratio, 2)),
    ("from – to", 13, |l| match l.ratio_range {
        Some(range) => range.map(|ratio| format!("{ratio:.2}")).join(" – "),
        None => "–".into(),
    }),
    ("wanted", 8, |l| match l.wanted {
        Wanted::AtLeast(ratio) => format!("≥ {ratio:.2}"),
        Wanted::AtMost(ratio) => format!("≤ {ratio:.2}"),
    }),
    ("holds", 6, |l| l.holds.map_or("–", |holds| if holds { "yes" } else { "no" }).into()),
];
