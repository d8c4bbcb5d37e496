//! Braun and Diot, section 3.2.2: message parts B, C, A beside a length that is known first.

use fusewire_session::Cipher;
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::kernels::Effort;
use crate::parts::{self, Plan};
use crate::record::{Place, Point};

const BYTES: Axis = Axis::logarithmic("data", "bytes");

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "braun-parts",
    paper: Paper::BraunDiot,
    shows: "section 3.2.2 and Figure 4",
    title: "Parts B, C, A, or the length first",
    question: "A length that is encrypted and known last: what does taking the message in the order B, C, A cost, and \
               what does it save?",
    method: "Messages of the paper's format (length, data, alignment) under the pseudo-encryption, with data whole and \
             in pieces of 256 bytes and of 4 KiB, as marshalling makes it: part by part, or in order, for which pieces must be \
             collected until the length is known. All ways must make the same message.",
    differs: "The paper describes the order and gives no numbers for it. Whole, the two orders do the same work. In pieces, \
              the order B, C, A saves the pass that collects them and pays with a start of the loop for each piece: it \
              gains where that pass costs more than the starts do, which is with long pieces and beyond the caches, and \
              loses with short ones that stay near.",
    charts: &[
        Chart::lines(
            "pieces",
            "Data in pieces of 256 bytes",
            BYTES,
            Axis::linear("throughput", "GB/s"),
        ),
        Chart::lines(
            "pieces-4096",
            "Data in pieces of 4 KiB",
            BYTES,
            Axis::linear("throughput", "GB/s"),
        ),
        Chart::lines("whole", "Data whole", BYTES, Axis::linear("throughput", "GB/s")),
    ],
    published: Vec::<Point>::new,
    needs: Needs::Nothing,
    seconds: [0.5, 3.0],
    run,
};

fn run(bench: &mut Bench<'_>) -> Result<()> {
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
