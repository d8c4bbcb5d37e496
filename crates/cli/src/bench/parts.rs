//! `fusewire bench parts`.

use clap::Args;
use fusewire_lab::kernels::Effort;
use fusewire_lab::parts::{self, Line, Plan};
use fusewire_lab::transfer::Transport;
use fusewire_session::{Check, Cipher, Level};
use fusewire_transport::either::{Protocol, Retransmission};

use super::meant;
use crate::output::{Columns, Result, head, json, row, text, then};

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
    /// Transports of ours that carry the messages to where they are taken apart, between two ends in memory, a row each
    /// besides that of none: tcp, xtp.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    transport: Vec<Protocol>,
    /// What proves them over XTP, a row each: internet, cxor, none.
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "internet")]
    check: Vec<Check>,
    /// CPU level [default: the best of this machine].
    #[arg(long, value_name = "NAME")]
    level: Option<Level>,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// Measures and prints each line as soon as it is there.
pub fn run(options: &Options) -> Result {
    let sizes: Vec<usize> = options.sizes.iter().map(|n| *n as usize).collect();
    let ways = [Retransmission::default()];
    let transports = meant(Transport::each(&options.transport, &ways, &options.check))?;
    let plan = Plan {
        level: options.level.unwrap_or_else(Level::detect),
        cipher: options.cipher,
        sizes: &sizes,
        piece_bytes: options.piece_bytes as usize,
        transports: &transports,
        effort: if options.smoke { Effort::SMOKE } else { Effort::FULL },
    };
    if !options.json {
        let (cipher, level) = (options.cipher, plan.level.name());
        text(format_args!(
            "GB/s of {cipher} at level {level}; pieces of {} bytes",
            plan.piece_bytes
        ))?;
        head(COLUMNS)?;
    }
    let mut written = Ok(());
    parts::run(&plan, &mut |line| {
        then(&mut written, || if options.json { json(line) } else { row(COLUMNS, line) });
    })?;
    written
}

const COLUMNS: &Columns<Line> = &[
    ("over", -12, |l| l.transport.clone().unwrap_or_else(|| "–".into())),
    ("bytes", 9, |l| l.size_bytes.to_string()),
    ("B, C, A", 9, |l| gb(l.parts)),
    ("length first", 12, |l| gb(l.length_first)),
    ("ratio", 6, |l| format!("{:.2}", l.parts / l.length_first)),
    ("pieces B,C,A", 12, |l| gb(l.parts_pieces)),
    ("length first", 12, |l| gb(l.length_first_pieces)),
    ("ratio", 6, |l| format!("{:.2}", l.parts_pieces / l.length_first_pieces)),
    ("open", 9, |l| gb(l.open)),
];

fn gb(rate: f64) -> String {
    format!("{:.2}", rate / 1e9)
}
