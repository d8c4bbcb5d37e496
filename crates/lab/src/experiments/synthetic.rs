//! Synthetic functions, as Ahlgren's figures are measured with; memory that is in no cache; and this machine as his
//! model describes one.

use std::time::{Duration, Instant};

use fusewire_calibration::turn;
use fusewire_model::paper::Machine;
use fusewire_synthetic::{Error, Function, Lanes, Program};

use crate::Result;
use crate::bench::Bench;

/// A function that writes.
pub(super) fn function(state_words: usize, instructions: usize, block_words: usize) -> Function {
    Function::new(state_words, instructions, block_words)
}

/// One that only reads.
pub(super) fn reader(state_words: usize, instructions: usize, block_words: usize) -> Function {
    Function { writes: false, ..function(state_words, instructions, block_words) }
}

/// That a message had whole units, as those of experiments have.
///
/// # Panics
/// When it had not.
pub(super) fn whole(done: std::result::Result<(), Error>) {
    assert!(done.is_ok(), "messages have whole units");
}

/// A message that is in no cache.
pub(super) const COLD: usize = 64 << 10;
/// Memory that such messages lie in.
const FAR: usize = 256 << 20;

/// Places that are cold: none comes again before all of the memory was run over, and none lies beside the last.
struct Places {
    next: usize,
    far: usize,
}

impl Places {
    fn next(&mut self) -> usize {
        // Odd, and the places are a power of two many.
        let step = self.far / COLD * 5 / 8 + 1;
        self.next = (self.next + step * COLD) % self.far;
        self.next
    }
}

/// Sources and destinations that are in no cache.
pub(super) struct Far {
    src: Vec<u8>,
    dst: Vec<u8>,
    places: Places,
}

impl Far {
    pub(super) fn new(bench: &Bench<'_>) -> Far {
        let far = bench.choose(FAR / 2, FAR);
        // Each page touched, or all would be the one page of zeros.
        let src = (0..far).map(|i| (i / 4096) as u8 | 1).collect();
        Far { src, dst: vec![1; far], places: Places { next: 0, far } }
    }

    /// The same place again and again, of `len` bytes.
    pub(super) fn near(&mut self, len: usize) -> (&[u8], &mut [u8]) {
        (&self.src[..len], &mut self.dst[..len])
    }

    /// The next place, of [`COLD`] bytes.
    pub(super) fn next(&mut self) -> (&[u8], &mut [u8]) {
        let at = self.places.next();
        (&self.src[at..at + COLD], &mut self.dst[at..at + COLD])
    }
}

/// Functions in one loop, and a loop each: the first moves the message, others work where it is.
pub(super) struct Apart {
    one: Program,
    apart: Vec<Program>,
}

impl Apart {
    pub(super) fn new(functions: &[Function]) -> Result<Apart> {
        let one = Program::new(Lanes::Scalar32, functions)?;
        Ok(Apart { one, apart: Program::passes(Lanes::Scalar32, functions)? })
    }

    /// In one loop.
    pub(super) fn all(&mut self, src: &[u8], dst: &mut [u8]) {
        whole(self.one.run(src, dst));
    }

    pub(super) fn pass(&mut self, pass: usize, src: &[u8], dst: &mut [u8]) {
        let program = &mut self.apart[pass];
        whole(match (pass, program.writes()) {
            (0, _) => program.run(src, dst),
            (_, true) => program.run_in_place(dst),
            (_, false) => program.read(dst),
        });
    }

    /// Each pass finds its message in no cache.
    pub(super) fn cold(&mut self, integrated: bool, far: &mut Far) {
        if integrated {
            let (src, dst) = far.next();
            return self.all(src, dst);
        }
        for pass in 0..self.apart.len() {
            let (src, dst) = far.next();
            self.pass(pass, src, dst);
        }
    }
}

/// Bytes of a message in the first-level cache: whole units of one word and of eight.
const NEAR: usize = 8 << 10;
/// What is measured of it, so often, and of that the fastest.
const LOOKS: usize = 15;

/// This machine in the parameters of Ahlgren's Table 1, for functions on words of 32 bits in general registers.
///
/// `R` and `L` are the assembler's: of eleven registers one holds the word and one the constant, and two instructions
/// turn the loop. The others are measured: `C` by a chain of instructions of one clock each; `CPI` by what thirty
/// instructions more take in a turn; `A_C` by what seven words more take, loaded and stored and nothing else; `A_M` by
/// the same from memory.
pub(super) fn here(bench: &Bench<'_>, far: Option<&mut Far>) -> Result<Machine> {
    let length = Duration::from_micros(bench.choose(60, 200));
    let fastest = |call: &mut dyn FnMut()| {
        let looks = (0..LOOKS).map(|_| turn(length, &mut *call));
        looks.fold(f64::INFINITY, f64::min)
    };
    let clock_ns = (0..LOOKS).map(|_| chain_ns()).fold(f64::INFINITY, f64::min);
    let (src, mut dst) = (vec![0x5a; NEAR], vec![1; NEAR]);
    // Clocks of a turn of a loop with one function.
    let mut turn_of = |instructions: usize, words: usize| -> Result<f64> {
        let mut program = Program::new(Lanes::Scalar32, &[function(0, instructions, words)])?;
        let ns = fastest(&mut || whole(program.run(&src, &mut dst)));
        Ok(ns / clock_ns / (NEAR / (4 * words)) as f64)
    };
    let [few, many] = [turn_of(10, 1)?, turn_of(40, 1)?];
    let [one, eight] = [turn_of(0, 1)?, turn_of(0, 8)?];
    let least = 0.01;
    let clocks_per_instruction = ((many - few) / 30.0).max(least);
    let cache_clocks_per_word = ((eight - one) / 14.0).max(least);
    let loop_instructions = 2.0;
    let memory_clocks_per_word = match far {
        None => cache_clocks_per_word,
        Some(far) => {
            let mut copy = Apart::new(&[function(0, 0, 8)])?;
            let ns = fastest(&mut || copy.cold(true, far));
            let turn = ns / clock_ns / (COLD / 32) as f64;
            ((turn - loop_instructions * clocks_per_instruction) / 16.0).max(least)
        }
    };
    Ok(Machine {
        name: "this machine",
        registers: 9,
        cache_clocks_per_word,
        memory_clocks_per_word,
        clocks_per_instruction,
        loop_instructions,
        clock_mhz: 1e3 / clock_ns,
        word_bytes: 4,
    })
}

/// Nanoseconds of an instruction in a chain: turn and exclusive-or, of one clock each.
fn chain_ns() -> f64 {
    const TURNS: u64 = 20_000;
    let start = Instant::now();
    let mut x = std::hint::black_box(1u64);
    for i in 0..TURNS {
        x = x.rotate_left(5) ^ i;
    }
    std::hint::black_box(x);
    start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_comes_again_while_it_may_be_in_a_cache() {
        for far in [FAR / 2, FAR] {
            let mut places = Places { next: 0, far };
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..far / COLD {
                let at = places.next();
                assert!(at.is_multiple_of(COLD) && at + COLD <= far);
                assert!(seen.insert(at), "{at} after {} places", seen.len());
            }
        }
    }

    #[test]
    fn each_but_the_first_pass_works_where_the_message_is() {
        // Five accesses a word: one pass moves, one works in place, one only reads.
        let apart = Apart::new(&[function(0, 5, 1), function(0, 6, 2), reader(1, 4, 1)]).unwrap();
        assert_eq!(
            apart.apart.iter().map(Program::writes).collect::<Vec<_>>(),
            [true, true, false]
        );
    }

    #[test]
    fn this_machine_is_one_that_the_model_takes() {
        let mut watch = |_: f64, _: &str| true;
        let level = fusewire_kernels::Level::detect();
        let bench = Bench::new(true, level, "fusewire".into(), &mut watch);
        let machine = here(&bench, None).unwrap();
        assert!((100.0..20_000.0).contains(&machine.clock_mhz), "{machine:?}");
        assert!((0.01..20.0).contains(&machine.clocks_per_instruction), "{machine:?}");
        let functions = [fusewire_model::paper::BSWAP_PES_CKSUM[0]];
        let warm = fusewire_model::paper::Cache::Warm;
        let one = fusewire_model::paper::Implementation::Integrated;
        assert!(fusewire_model::paper::time(&machine, &functions, warm, one).unwrap().0 > 0.0);
    }
}
