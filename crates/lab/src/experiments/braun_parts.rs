//! Braun and Diot, section 3.2.2: message parts B, C, A beside a length that is known first.

use fusewire_kernels::measure::Effort;
use fusewire_session::{Cipher, Kernel};
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::experiment::{Axis, Beside, Chart, Experiment, Kind, Needs, Paper};
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
             in pieces of 256 bytes as marshalling makes it: part by part, or in order, for which pieces must be \
             collected until the length is known. All ways must make the same message.",
    differs: "The paper describes the order and gives no numbers for it. Whole, the two orders do the same work; in \
              pieces, the order B, C, A saves a pass.",
    charts: &[
        Chart {
            id: "pieces",
            title: "Data in pieces",
            kind: Kind::Lines { x: BYTES },
            value: Axis::linear("throughput", "GB/s"),
            beside: Beside::Together,
        },
        Chart {
            id: "whole",
            title: "Data whole",
            kind: Kind::Lines { x: BYTES },
            value: Axis::linear("throughput", "GB/s"),
            beside: Beside::Together,
        },
    ],
    published: Vec::<Point>::new,
    needs: Needs::Nothing,
    seconds: [2.0, 10.0],
    run,
};

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let effort = Effort {
        rounds: 7,
        bytes_a_turn: bench.choose(64 << 10, 256 << 10),
        enough: Duration::from_millis(bench.choose(10, 60)),
    };
    let level = bench.level;
    bench.rounds(bench.choose(3, 9), |bench, _| {
        let plan = Plan {
            kernel: Kernel { level, ..Kernel::detect() },
            cipher: Cipher::Pes,
            sizes: &[256, 1024, 4096, 16_384, 65_536],
            piece_bytes: 256,
            effort,
        };
        parts::run(&plan, &mut |line| {
            for (chart, series, rate) in [
                ("pieces", "parts B, C, A", line.parts_pieces),
                ("pieces", "length first", line.length_first_pieces),
                ("whole", "parts B, C, A", line.parts),
                ("whole", "length first", line.length_first),
                ("whole", "taking it apart", line.open),
            ] {
                bench.sample(Place::new(chart, series, line.size_bytes), rate / 1e9);
            }
        })
    })
}
