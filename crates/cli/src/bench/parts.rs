//! `fusewire bench parts`.

use std::io::Write;

use clap::Args;
use fusewire_lab::kernels::Effort;
use fusewire_lab::parts::{self, Line, Plan};
use fusewire_session::Cipher;

use super::kernels::level;
use crate::output::{Result, json};

/// Which messages.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Bytes of data in a message.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 28), default_value = "256,512,1024,1280,1408,4096,16384,65536,1048576")]
    sizes: Vec<u32>,
    /// Bytes that marshalling makes at a time.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..), default_value = "128")]
    piece_bytes: u32,
    /// A cipher with a block of 8 bytes: pes, safer-simplified, safer-k64:R. All are insecure.
    #[arg(long, default_value_t = Cipher::SAFER_SIMPLIFIED)]
    cipher: Cipher,
    /// CPU level [default: the best of this machine].
    #[arg(long, value_name = "NAME")]
    level: Option<String>,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// Measures and prints each line as soon as it is there.
pub fn run(options: &Options) -> Result {
    let level = level(options.level.as_deref())?;
    let sizes: Vec<usize> = options.sizes.iter().map(|n| *n as usize).collect();
    let plan = Plan {
        level,
        cipher: options.cipher,
        sizes: &sizes,
        piece_bytes: options.piece_bytes as usize,
        effort: if options.smoke { Effort::SMOKE } else { Effort::FULL },
    };
    if !options.json {
        writeln!(
            std::io::stdout().lock(),
            "GB/s of {} at level {}; pieces of {} bytes\n{:>9} {:>9} {:>12} {:>6} {:>12} {:>12} {:>6} {:>9}",
            options.cipher,
            level.name(),
            plan.piece_bytes,
            "bytes",
            "B, C, A",
            "length first",
            "ratio",
            "pieces B,C,A",
            "length first",
            "ratio",
            "open"
        )?;
    }
    let mut written: Result = Ok(());
    parts::run(&plan, &mut |line| {
        if written.is_ok() {
            written = if options.json { json(line) } else { row(line) };
        }
    })?;
    written
}

fn row(line: &Line) -> Result {
    writeln!(
        std::io::stdout().lock(),
        "{:>9} {:>9.2} {:>12.2} {:>6.2} {:>12.2} {:>12.2} {:>6.2} {:>9.2}",
        line.size_bytes,
        line.parts / 1e9,
        line.length_first / 1e9,
        line.parts / line.length_first,
        line.parts_pieces / 1e9,
        line.length_first_pieces / 1e9,
        line.parts_pieces / line.length_first_pieces,
        line.open / 1e9
    )?;
    Ok(())
}
