//! Ahlgren's future work: MD5 and SAFER, modelled and measured.

use std::hint::black_box;
use std::time::Duration;

use fusewire_experiments::md5;
use fusewire_kernels::Level;
use fusewire_kernels::execution::{InPlace, Integrated, Scan};
use fusewire_kernels::stage::then;
use fusewire_kernels::stages::{InternetSum, SaferEncrypt, SaferKey, Swap};
use fusewire_model::paper::{BSWAP_PES_CKSUM, Cache, Function, Implementation, MACHINES, time};

use super::synthetic::{Apart, COLD, Far, function, here, reader};
use crate::Result;
use crate::bench::Bench;
use crate::record::Place;

/// The paper's minimum.
const ROUNDS: u8 = 6;
/// On a block of eight bytes: in each round a key word twice and a table for each byte, and two operations for each pair
/// three times; a key word for each byte at the end.
const SAFER_INSTRUCTIONS: u32 = ROUNDS as u32 * (8 * 3 + 3 * 8) + 8;

const BSWAP: Function = BSWAP_PES_CKSUM[0];
const CKSUM: Function = BSWAP_PES_CKSUM[2];
const SAFER: Function = Function {
    name: "SAFER K-64",
    state_words: 0,
    instructions: SAFER_INSTRUCTIONS as f64,
    block_bytes: 8,
    writes: true,
};
const MD5: Function = Function {
    name: "MD5",
    state_words: 4,
    instructions: md5::INSTRUCTIONS as f64,
    block_bytes: md5::BLOCK as u32,
    writes: false,
};

const WITH_SAFER: &str = "BSWAP, SAFER, CKSUM";
const WITH_MD5: &str = "BSWAP, MD5";
const BOTH: [Implementation; 2] = [Implementation::Integrated, Implementation::Sequential];
const WARM: usize = 8 << 10;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let described: [(&str, &[Function]); 2] =
        [(WITH_SAFER, &[BSWAP, SAFER, CKSUM]), (WITH_MD5, &[BSWAP, MD5])];
    let mut far = Far::new(bench);
    let own = here(bench, Some(&mut far))?;
    for (what, functions) in described {
        for implementation in BOTH {
            for (place, cache) in [("warm", Cache::Warm), ("cold", Cache::Cold)] {
                for machine in MACHINES {
                    let at = format!("{what}: {}, {place}", machine.name);
                    let ns = time(&machine, functions, cache, implementation)?;
                    bench.computed(Place::new("modelled", implementation.name(), at), ns.0);
                }
                let series = format!("{}, modelled", implementation.name());
                let ns = time(&own, functions, cache, implementation)?;
                bench.sample(Place::new("here", series, format!("{what}, {place}")), ns.0);
            }
        }
    }
    let mut loops = Loops::new()?;
    bench.rounds(bench.choose(5, 31), |bench, _| {
        for place in ["warm", "cold"] {
            for what in [WITH_SAFER, WITH_MD5] {
                for implementation in BOTH {
                    for kind in ["real", "synthetic"] {
                        let ns = loops.time(bench, &mut far, (what, place, kind), implementation);
                        let series = format!("{}, {kind}", implementation.name());
                        bench.sample(Place::new("here", series, format!("{what}, {place}")), ns);
                    }
                }
            }
        }
        Ok(())
    })?;
    for kind in ["modelled", "real", "synthetic"] {
        let [one, apart] = BOTH.map(|implementation| format!("{}, {kind}", implementation.name()));
        bench.compare("here", [&apart, &one], "gain", kind);
    }
    Ok(())
}

struct Loops {
    key: SaferKey,
    safer: Apart,
    /// MD5's block is longer than what can be made to order: half of it, with half of the instructions.
    md5: Apart,
}

impl Loops {
    fn new() -> Result<Loops> {
        let (safer, md5) = (SAFER_INSTRUCTIONS as usize, md5::INSTRUCTIONS as usize);
        Ok(Loops {
            key: SaferKey::k64(*b"fusewire", ROUNDS),
            safer: Apart::new(&[function(0, 5, 1), function(0, safer, 2), reader(1, 4, 1)])?,
            md5: Apart::new(&[function(0, 5, 1), reader(4, md5 / 2, 8)])?,
        })
    }

    /// Nanoseconds a byte.
    fn time(
        &mut self,
        bench: &Bench<'_>,
        far: &mut Far,
        (what, place, kind): (&str, &str, &str),
        implementation: Implementation,
    ) -> f64 {
        let integrated = implementation == Implementation::Integrated;
        let cold = place == "cold";
        let len = if cold { COLD } else { WARM };
        let passes = match (integrated, what) {
            (true, _) => 1,
            (false, WITH_SAFER) => 3,
            (false, _) => 2,
        };
        let mut call = || {
            for pass in 0..passes {
                let (src, dst) = if cold { far.next() } else { far.near(len) };
                match (kind, integrated) {
                    ("real", _) => self.real(what, integrated, pass, src, dst),
                    (_, true) => self.synthetic(what).all(src, dst),
                    _ => self.synthetic(what).pass(pass, src, dst),
                }
            }
        };
        let length = Duration::from_micros(bench.choose(150, 800));
        fusewire_calibration::turn(length, &mut call) / len as f64
    }

    fn synthetic(&mut self, what: &str) -> &mut Apart {
        if what == WITH_SAFER { &mut self.safer } else { &mut self.md5 }
    }

    fn real(&self, what: &str, integrated: bool, pass: usize, src: &[u8], dst: &mut [u8]) {
        let portable = Level::available()[0];
        let safer = SaferEncrypt(&self.key);
        match (what, integrated, pass) {
            (WITH_SAFER, true, _) => {
                let stage = &then(Swap::<4>, then(safer, InternetSum));
                black_box(portable.run(Integrated { stage, src, dst }));
            }
            (WITH_SAFER, _, 0) => portable.run(Integrated { stage: &Swap::<4>, src, dst }),
            (WITH_SAFER, _, 1) => portable.run(InPlace { stage: &safer, bytes: dst }),
            (WITH_SAFER, ..) => {
                black_box(portable.run(Scan { stage: &InternetSum, src: dst }));
            }
            (_, true, _) => {
                black_box(md5::swap_and_sum(src, dst));
            }
            (_, _, 0) => md5::swap(src, dst),
            _ => {
                black_box(md5::sum(dst));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passes_do_what_one_loop_does() {
        let loops = Loops::new().unwrap();
        let src: Vec<u8> = (0..WARM).map(|i| (i * i / 7) as u8).collect();
        for (what, passes) in [(WITH_SAFER, 3), (WITH_MD5, 2)] {
            let (mut one, mut apart) = (vec![0; WARM], vec![1; WARM]);
            loops.real(what, true, 0, &src, &mut one);
            (0..passes).for_each(|pass| loops.real(what, false, pass, &src, &mut apart));
            assert!(one == apart && one != src, "{what}");
        }
    }
}
