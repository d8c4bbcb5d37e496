//! Ahlgren, Table 2: BSWAP/PES/CKSUM, modelled and measured.

use std::hint::black_box;

use fusewire_kernels::Level;
use fusewire_kernels::execution::{InPlace, Integrated, Scan};
use fusewire_kernels::stage::then;
use fusewire_kernels::stages::{InternetSum, PesEncrypt, PesKey, Swap};
use fusewire_model::paper::{
    BSWAP_PES_CKSUM, Cache, Implementation, MACHINES, Machine, TABLE_2, time,
};

use super::synthetic::{Apart, COLD, Far, function, here, reader};
use crate::Result;
use crate::bench::Bench;
use crate::record::{Place, Point};

/// The paper's points.
pub(super) fn published() -> Vec<Point> {
    let mut points = Vec::new();
    for row in &TABLE_2 {
        let at = format!("{}, {}", row.machine.name, row.cache.name());
        let series = row.implementation.name();
        points.push(Place::new("modelled", series, at.clone()).is(row.modelled));
        points.push(Place::new("measured", series, format!("{at}, real")).is(row.real));
        points.push(Place::new("measured", series, format!("{at}, synthetic")).is(row.synthetic));
        if row.implementation == Implementation::Sequential {
            let other = TABLE_2.iter().find(|other| {
                other.machine.name == row.machine.name
                    && other.cache == row.cache
                    && other.implementation == Implementation::Integrated
            });
            let Some(other) = other else { continue };
            points.push(Place::new("gain", "real", at.clone()).is(row.real / other.real));
            points.push(Place::new("gain", "synthetic", at).is(row.synthetic / other.synthetic));
        }
    }
    points.extend(MACHINES.iter().flat_map(parameters).map(|(place, value)| place.is(value)));
    points
}

/// Table 3 of one machine.
fn parameters(machine: &Machine) -> [(Place, f64); 7] {
    [
        ("R (words)", f64::from(machine.registers)),
        ("A_C (clocks/word)", machine.cache_clocks_per_word),
        ("A_M (clocks/word)", machine.memory_clocks_per_word),
        ("CPI (clocks)", machine.clocks_per_instruction),
        ("L (instructions)", machine.loop_instructions),
        ("C (MHz)", machine.clock_mhz),
        ("W (bytes)", f64::from(machine.word_bytes)),
    ]
    .map(|(parameter, value)| (Place::new("table-3", machine.name, parameter), value))
}

const WARM: usize = 8192;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    for row in &TABLE_2 {
        let at = format!("{}, {}", row.machine.name, row.cache.name());
        let ns = time(row.machine, &BSWAP_PES_CKSUM, row.cache, row.implementation)?;
        bench.computed(Place::new("modelled", row.implementation.name(), at), ns.0);
    }
    let mut far = Far::new(bench);
    let machine = here(bench, Some(&mut far))?;
    for (place, value) in parameters(&machine) {
        bench.sample(place, value);
    }
    for (place, cache) in [("warm", Cache::Warm), ("cold", Cache::Cold)] {
        for implementation in [Implementation::Integrated, Implementation::Sequential] {
            let ns = time(&machine, &BSWAP_PES_CKSUM, cache, implementation)?;
            let at = format!("this machine, {place}");
            bench.sample(Place::new("modelled", implementation.name(), at), ns.0);
        }
    }
    // Table 4: a function of five instructions, one of six on two words, one that only reads.
    let mut loops = Apart::new(&[function(0, 5, 1), function(0, 6, 2), reader(1, 4, 1)])?;
    let mut medians = Vec::new();
    bench.rounds(bench.choose(9, 41), |bench, _| {
        for (place, len) in [("warm", WARM), ("cold", COLD)] {
            for (kind, series) in [
                ("real", "integrated"),
                ("real", "sequential"),
                ("synthetic", "integrated"),
                ("synthetic", "sequential"),
            ] {
                let mut call = || {
                    let passes = if series == "integrated" { 1 } else { PASSES };
                    for pass in 0..passes {
                        let (src, dst) = if place == "cold" { far.next() } else { far.near(len) };
                        match (kind, series) {
                            ("real", "integrated") => real_in_one(src, dst),
                            ("real", _) => real_pass(pass, src, dst),
                            (_, "integrated") => loops.all(src, dst),
                            _ => loops.pass(pass, src, dst),
                        }
                    }
                };
                let turn =
                    std::time::Duration::from_micros(if place == "cold" { 400 } else { 150 });
                let ns = fusewire_calibration::turn(turn, &mut call) / len as f64;
                let at = format!("this machine, {place}, {kind}");
                bench.sample(Place::new("measured", series, at), ns);
                medians.push((place, kind, series, ns));
            }
        }
        for (place, kind) in
            [("warm", "real"), ("warm", "synthetic"), ("cold", "real"), ("cold", "synthetic")]
        {
            let last = |series| {
                let found = medians.iter().rev().find(|m| (m.0, m.1, m.2) == (place, kind, series));
                found.map_or(f64::NAN, |m| m.3)
            };
            let gain = last("sequential") / last("integrated");
            bench.sample(Place::new("gain", kind, format!("this machine, {place}")), gain);
        }
        Ok(())
    })
}

/// Passes of the sequential implementation.
const PASSES: usize = 3;

const KEY: PesKey = PesKey::new(*b"fusewire");

fn portable() -> Level {
    Level::available()[0]
}

fn real_in_one(src: &[u8], dst: &mut [u8]) {
    let stage = &then(Swap::<4>, then(PesEncrypt(KEY), InternetSum));
    black_box(portable().run(Integrated { stage, src, dst }));
}

/// Swaps to its place, enciphers there, sums there.
fn real_pass(pass: usize, src: &[u8], dst: &mut [u8]) {
    match pass {
        0 => portable().run(Integrated { stage: &Swap::<4>, src, dst }),
        1 => portable().run(InPlace { stage: &PesEncrypt(KEY), bytes: dst }),
        _ => {
            black_box(portable().run(Scan { stage: &InternetSum, src: dst }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passes_do_what_one_loop_does() {
        let src: Vec<u8> = (0..WARM).map(|i| (i * i / 7) as u8).collect();
        let (mut one, mut apart) = (vec![0; WARM], vec![0; WARM]);
        real_in_one(&src, &mut one);
        for pass in 0..PASSES {
            real_pass(pass, &src, &mut apart);
        }
        assert!(one == apart && one != src);
    }
}
