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
    bench.rounds(bench.choose(3, 31), |bench, _| {
        for (piece_bytes, pieces) in [(256, "pieces"), (4096, "pieces-4096")] {
            let plan = Plan { level, cipher: Cipher::PES, sizes, piece_bytes, effort };
            parts::run(&plan, &mut |line| {
                let size = line.size_bytes;
                // Shorter data is one piece.
                if size > piece_bytes {
                    bench.sample(Place::new(pieces, ORDER, size), line.parts_pieces / 1e9);
                    bench.sample(Place::new(pieces, FIRST, size), line.length_first_pieces / 1e9);
                }
                if piece_bytes == 256 {
                    bench.sample(Place::new("whole", ORDER, size), line.parts / 1e9);
                    bench.sample(Place::new("whole", FIRST, size), line.length_first / 1e9);
                    bench.sample(Place::new("whole", "taking it apart", size), line.open / 1e9);
                }
            })?;
        }
        Ok(())
    })
}

const ORDER: &str = "parts B, C, A";
const FIRST: &str = "length first";
