//! Ahlgren, Figure 4: Abbott and Peterson's model, which knows no state, beside his and beside what was measured.

use fusewire_model::paper::{
    AbbottPeterson, BSWAP_PES_CKSUM, Cache, Function, HP_9000_735, Implementation, Machine,
    TABLE_2, clocks,
};
use fusewire_synthetic::{Lanes, Passes};

use super::synthetic::{function, here, whole};
use crate::Result;
use crate::bench::Bench;
use crate::record::{Place, Point};

/// Cycles a word: what Table 2 has in ns a byte.
fn cycles_a_word(machine: &Machine, ns_per_byte: f64) -> f64 {
    ns_per_byte * machine.clock_mhz / 1e3 * f64::from(machine.word_bytes)
}

/// What the paper measured with the real functions.
pub(super) fn published() -> Vec<Point> {
    let point = |row: &fusewire_model::paper::Published| {
        let at = format!("{}, {}", row.machine.name, row.cache.name());
        let series = format!("{}, measured (Table 2)", row.implementation.name());
        Place::new("cycles", series, at).is(cycles_a_word(row.machine, row.real))
    };
    TABLE_2.iter().map(point).collect()
}

/// Their model of functions on words: three layers or so, of which some write.
fn abbott(functions: &[Function], machine: &Machine, cache: Cache) -> AbbottPeterson {
    let words = f64::from(machine.word_bytes);
    let instructions: f64 =
        functions.iter().map(|f| f.instructions * words / f64::from(f.block_bytes)).sum();
    AbbottPeterson {
        layers: functions.len() as u32,
        write_layers: functions.iter().filter(|f| f.writes).count() as u32,
        computation_cycles: instructions * machine.clocks_per_instruction,
        access_cycles: match cache {
            Cache::Warm => machine.cache_clocks_per_word,
            Cache::Cold => machine.memory_clocks_per_word,
        },
    }
}

const BOTH: [Implementation; 2] = [Implementation::Integrated, Implementation::Sequential];
const THEIRS: &str = "Abbott and Peterson";
const HIS: &str = "Ahlgren";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    for row in &TABLE_2 {
        let (machine, cache, implementation) = (row.machine, row.cache, row.implementation);
        let at = format!("{}, {}", machine.name, cache.name());
        let theirs = abbott(&BSWAP_PES_CKSUM, machine, cache).cycles_per_word(implementation);
        let his = clocks(machine, &BSWAP_PES_CKSUM, cache, implementation)?.0 * 4.0;
        for (whose, cycles) in [(THEIRS, theirs), (HIS, his)] {
            let series = format!("{}, {whose}", implementation.name());
            bench.computed(Place::new("cycles", series, at.clone()), cycles);
        }
    }
    let own = here(bench, None)?;
    for state in 0..=16u32 {
        let functions = [described(state); 3];
        for implementation in BOTH {
            let name = implementation.name();
            let model = |chart: &str, machine: &Machine| -> Result<[(Place, f64); 2]> {
                let theirs =
                    abbott(&functions, machine, Cache::Warm).cycles_per_word(implementation);
                let his = clocks(machine, &functions, Cache::Warm, implementation)?.0 * 4.0;
                Ok([(THEIRS, theirs), (HIS, his)].map(|(whose, cycles)| {
                    (Place::new(chart, format!("{name}, {whose}"), f64::from(state)), cycles)
                }))
            };
            for (place, cycles) in model("state", &HP_9000_735)? {
                bench.computed(place, cycles);
            }
            for (place, cycles) in model("state-here", &own)? {
                bench.sample(place, cycles);
            }
        }
    }
    measured(bench, &own)
}

/// Figure 3's.
fn described(state_words: u32) -> Function {
    Function { name: "synthetic", state_words, instructions: 10.0, block_bytes: 4, writes: true }
}

/// Words of state that are measured.
const STATES: [usize; 9] = [0, 2, 4, 6, 8, 10, 12, 14, 16];
const LEN: usize = 8 << 10;

fn measured(bench: &mut Bench<'_>, own: &Machine) -> Result<()> {
    let (src, mut dst) = (vec![0x5a; LEN], vec![1; LEN]);
    let mut loops = Vec::new();
    for state in STATES {
        loops.push((state, Passes::new(Lanes::Scalar32, &[function(state, 10, 1); 3])?));
    }
    let length = std::time::Duration::from_micros(bench.choose(60, 200));
    bench.rounds(bench.choose(5, 101), |bench, _| {
        for (state, loops) in &mut loops {
            for implementation in BOTH {
                let mut call = || match implementation {
                    Implementation::Integrated => whole(loops.integrated(&src, &mut dst)),
                    Implementation::Sequential => whole(loops.sequential(&src, &mut dst)),
                };
                let ns = fusewire_calibration::turn(length, &mut call) / LEN as f64;
                let series = format!("{}, measured", implementation.name());
                let place = Place::new("state-here", series, *state as f64);
                bench.sample(place, cycles_a_word(own, ns));
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_clock_an_instruction_both_models_say_nearly_the_same() {
        // Ahlgren, section 6.1: basically the same result with a CPI of 1; they differ in the loop, of three or of one.
        for implementation in BOTH {
            for cache in [Cache::Warm, Cache::Cold] {
                let machine = Machine { loop_instructions: 3.0, ..HP_9000_735 };
                let functions = [described(0); 3];
                let theirs = abbott(&functions, &machine, cache).cycles_per_word(implementation);
                let his = clocks(&machine, &functions, cache, implementation).unwrap().0 * 4.0;
                assert!((theirs - his).abs() < 1e-9, "{theirs} {his}");
            }
        }
    }

    #[test]
    fn theirs_knows_no_state() {
        let cycles = |state| {
            abbott(&[described(state); 3], &HP_9000_735, Cache::Warm)
                .cycles_per_word(Implementation::Integrated)
        };
        assert!((cycles(0) - cycles(16)).abs() < f64::EPSILON);
    }
}
