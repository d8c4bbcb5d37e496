//! `fusewire bench files`.

use std::path::{Path, PathBuf};

use clap::Args;
use fusewire_lab::files::{self, Case, Line, Method, Plan};

use crate::options;
use crate::output::{Columns, Result, figure, lines, size};
use crate::progress::Progress;

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// What is transferred.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CASE",
        default_value = "small,again,large,resume"
    )]
    cases: Vec<Case>,
    /// Methods to compare; rsync and cp are left out where they are not installed.
    #[arg(long, value_delimiter = ',', value_name = "METHOD", default_value = "fusewire,rsync,cp")]
    methods: Vec<Method>,
    /// Folders to work in, each with its file system; may be given again [default: the folder for temporary files,
    /// and /dev/shm].
    #[arg(long = "dir", value_name = "PATH")]
    dirs: Vec<PathBuf>,
    /// Small files.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Bytes of all small files together.
    #[arg(long, value_name = "BYTES", default_value = "89600kB", value_parser = options::bytes)]
    bytes: u64,
    /// Bytes of the large file.
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = options::bytes)]
    large_bytes: u64,
    /// Rounds; the result is the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// A smoke test: one round of little; figures of it mean nothing.
    #[arg(long, conflicts_with_all = ["files", "bytes", "large_bytes", "rounds"])]
    quick: bool,
}

/// Below so many bytes a large file would be there before it can be broken off in the middle.
const BROKEN_OFF_MIN: u64 = 512 << 20;

/// Runs the comparison.
pub fn run(options: Options) -> Result {
    let quick = options.quick;
    let large_bytes = if quick { 12 << 20 } else { options.large_bytes };
    let plan = Plan {
        cases: options.cases,
        methods: options.methods,
        dirs: if options.dirs.is_empty() { default_dirs() } else { options.dirs },
        files: if quick { 150 } else { options.files as usize },
        bytes: if quick { 600_000 } else { options.bytes },
        large_bytes,
        half_at_rate: (large_bytes < BROKEN_OFF_MIN).then(|| "16M".to_owned()),
        settled: !quick,
        rounds: if quick { 1 } else { options.rounds as usize },
        program: std::env::current_exe()?,
    };
    let stop = crate::transfer::stop_flag()?;
    let progress = Progress::new();
    let found = files::run(&plan, &stop, &mut |what| progress.report(what));
    progress.clear();
    lines(&super::whole(found)?, COLUMNS, options.json)
}

fn default_dirs() -> Vec<PathBuf> {
    let memory = Path::new("/dev/shm");
    let mut dirs = vec![std::env::temp_dir()];
    dirs.extend(memory.is_dir().then(|| memory.to_path_buf()));
    dirs
}

const COLUMNS: &Columns<Line> = &[
    ("on", -10, |l| l.filesystem.clone()),
    ("case", -7, |l| l.case.name().into()),
    ("", -5, |l| l.direction.name().into()),
    ("method", -20, |l| l.method.name().into()),
    ("seconds", 9, |l| format!("{:.3}", l.seconds)),
    ("from – to", 19, |l| l.seconds_range.map(|s| format!("{s:.3}")).join(" – ")),
    ("CPU s", 7, |l| format!("{:.2}", l.cpu_seconds)),
    ("to rsync", 9, |l| figure(l.ratio_to_rsync, 2)),
    ("", 0, |l| l.bytes_there.map_or(String::new(), |b| format!(" {} there", size(b)))),
];
