//! INCA, section 2.4: a packet's processing when other work has pushed the code, or code and data, out of the caches.

use std::hint::black_box;
use std::time::Instant;

use fusewire_synthetic::{Function, Lanes, Program};

use super::alone;
use super::processing::Alone;
use crate::Result;
use crate::stats::median;

/// What lies in no near cache when the packet comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cold {
    /// Nothing: it was processed just before.
    Nothing,
    /// Code, in the first level.
    Code,
    /// Code and data, in the first level and in the second.
    All,
}

impl Cold {
    /// All of them.
    pub const ALL: [Cold; 3] = [Cold::Nothing, Cold::Code, Cold::All];

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Cold::Nothing => "warm",
            Cold::Code => "code cold",
            Cold::All => "code and data cold",
        }
    }
}

/// Code that is run in between: functions of 4096 instructions, together beyond any first-level cache of instructions.
const FUNCTIONS: usize = 8;
/// Data that is read in between, beyond the second level.
const FAR: usize = 4 << 20;

/// Nanoseconds of a packet with a message of `size` bytes, in one loop and in passes: medians of `packets` each.
///
/// # Errors
/// What the stack says.
pub fn measure(size: usize, cold: Cold, packets: usize) -> Result<[f64; 2]> {
    let mut alone = Alone::new(&alone::message(size), 1)?;
    let code = [Function::new(0, 4096, 1); FUNCTIONS];
    let mut code = Program::new(Lanes::Scalar32, &code).map_err(alone::failed)?;
    let far = vec![1u8; FAR];
    let mut word = [[0u8; 4]; 2];
    let clock_ns = (0..64).map(|_| Instant::now().elapsed().as_nanos() as f64);
    let clock_ns = clock_ns.fold(f64::INFINITY, f64::min);
    let mut times = [Vec::new(), Vec::new()];
    let mut evict = || match cold {
        Cold::Nothing => Ok(()),
        Cold::Code | Cold::All => {
            if cold == Cold::All {
                black_box(far.iter().step_by(64).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
            }
            let [src, dst] = &mut word;
            code.run(src, dst).map_err(alone::failed)
        }
    };
    for _ in 0..packets {
        for (way, times) in times.iter_mut().enumerate() {
            // Every other time some are told that nothing waits.
            for _ in 0..2 {
                evict()?;
                let start = Instant::now();
                let taken = alone.once(way)?;
                let ns = start.elapsed().as_nanos() as f64;
                if taken == 1 {
                    times.push((ns - clock_ns).max(0.0));
                    break;
                }
            }
        }
    }
    Ok(times.map(|times| median(times).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_measured_both_ways() {
        for cold in Cold::ALL {
            let found = measure(200, cold, 9).unwrap();
            assert!(found.iter().all(|ns| *ns > 0.0 && ns.is_finite()), "{cold:?} {found:?}");
        }
    }
}
