//! Braun and Diot, section 3.2.2: message parts B, C, A beside a length that is known first.

use fusewire_session::Cipher;
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::kernels::Effort;
use crate::parts::{self, Plan};
use crate::record::Place;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let effort = Effort {
        rounds: 7,
        bytes_a_turn: bench.choose(64 << 10, 256 << 10),
        enough: Duration::from_millis(bench.choose(10, 60)),
    };
    let level = bench.level;
    let sizes: &[usize] = bench.choose(
        &[256, 1024, 4096, 16_384, 65_536],
        &[256, 1024, 4096, 16_384, 65_536, 1 << 20, 8 << 20],
    );
    // The paper's, and one that leaves more to gain.
    let ciphers = [(Cipher::SAFER_SIMPLIFIED, "safer"), (Cipher::PES, "pes")];
    bench.rounds(bench.choose(3, 31), |bench, _| {
        for (cipher, name) in ciphers {
            let whole = format!("whole-{name}");
            for piece_bytes in [256, 4096] {
                let pieces = format!("pieces-{piece_bytes}-{name}");
                let plan = Plan { level, cipher, sizes, piece_bytes, transports: &[], effort };
                parts::run(&plan, &mut |line| {
                    let size = line.size_bytes;
                    let mut add = |chart: &str, series: &str, rate: f64| {
                        bench.sample(Place::new(chart, series, size), rate / 1e9);
                    };
                    // Shorter data is one piece.
                    if size > piece_bytes {
                        add(&pieces, ORDER, line.parts_pieces);
                        add(&pieces, FIRST, line.length_first_pieces);
                    }
                    if piece_bytes == 256 {
                        add(&whole, ORDER, line.parts);
                        add(&whole, FIRST, line.length_first);
                        add(&whole, "taking it apart", line.open);
                    }
                })?;
            }
        }
        Ok(())
    })
}

const ORDER: &str = "parts B, C, A";
const FIRST: &str = "length first";
