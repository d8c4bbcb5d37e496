//! Dabbous, Table 9: raw ADUs over XTP by their size, in packets of one length, and over the kernel's TCP beside.

use crate::Result;
use crate::bench::Bench;
use crate::contexts::{self, Plan};
use crate::record::Place;

/// Those of the table.
const ADU_BYTES: [usize; 4] = [2000, 4000, 8192, 16_384];
/// What carries them: NDUs of the paper's Ethernet and FDDI.
const MEANS: [(&str, Option<usize>); 3] =
    [("NDU 1400", Some(1400)), ("NDU 4000", Some(4000)), ("kernel TCP", None)];

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let run_bytes = bench.choose(4 << 20, 16 << 20);
    let rounds = bench.choose(1, 9);
    let cases = ADU_BYTES.len() * MEANS.len();
    bench.rounds(rounds, |bench, round| {
        let mut best = [[0.0f64; MEANS.len()]; ADU_BYTES.len()];
        for (nth, (size, means)) in ADU_BYTES
            .iter()
            .flat_map(|size| MEANS.iter().map(move |means| (size, means)))
            .enumerate()
        {
            let plan = Plan {
                packet_bytes: means.1,
                adu_bytes: *size,
                adus: (run_bytes / size) as u32,
                program: bench.program.clone(),
            };
            let rates = contexts::measure(&plan)?;
            let rate = rates.into_iter().fold(0.0, f64::max);
            best[nth / MEANS.len()][nth % MEANS.len()] = rate;
            bench.sample(Place::new("throughput", means.0, *size), rate * 8e-6);
            let part = (round as f64 + (nth + 1) as f64 / cases as f64) / rounds as f64;
            bench.step(part, &format!("round {}, ADUs of {size} bytes, {}", round + 1, means.0))?;
        }
        for (rates, size) in best.iter().zip(ADU_BYTES) {
            for ((rate, first), (series, _)) in rates.iter().zip(best[0]).zip(MEANS) {
                bench.sample(Place::new("gain", series, size), rate / first);
            }
        }
        Ok(())
    })
}
