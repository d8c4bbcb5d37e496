//! The paper's Figures 3, 5, 6 and 7 as points: cycles per byte over two parameters.

use super::{Cache, Error, Function, HP_9000_735, Implementation, Machine, clocks};
use crate::ClocksPerByte;

/// What lies along the second axis of a figure; the first is the state of each function, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// How many functions.
    Functions,
    /// Input block of each, in bytes.
    BlockBytes,
    /// A memory access, in clocks a word.
    MemoryClocks,
}

impl Axis {
    /// As figures and JSON name it.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Functions => "functions",
            Axis::BlockBytes => "block_bytes",
            Axis::MemoryClocks => "memory_clocks_per_word",
        }
    }
}

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// State on the HP 9000-735/99: 3 functions of 10 instructions on blocks of 4.
    Three,
    /// State and number of functions.
    Five,
    /// State and block size, from the cache.
    Six,
    /// State and memory access time, from memory.
    Seven,
}

/// A point of a surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// State of each function, in words.
    pub state_words: u32,
    /// Where it lies on the second axis.
    pub other: u32,
    /// Where the message was.
    pub cache: Cache,
    /// How the functions are run.
    pub implementation: Implementation,
    /// What it costs.
    pub clocks: ClocksPerByte,
}

/// The machine of Figures 5 to 7: 10 registers, everything else as simple as can be.
const PLAIN: Machine = Machine {
    name: "ten registers",
    registers: 10,
    cache_clocks_per_word: 1.0,
    memory_clocks_per_word: 5.0,
    clocks_per_instruction: 1.0,
    loop_instructions: 1.0,
    clock_mhz: 100.0,
    word_bytes: 4,
};

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 4] = [Figure::Three, Figure::Five, Figure::Six, Figure::Seven];

    /// Its number in the paper.
    pub const fn number(self) -> u32 {
        match self {
            Figure::Three => 3,
            Figure::Five => 5,
            Figure::Six => 6,
            Figure::Seven => 7,
        }
    }

    /// The second axis.
    pub const fn axis(self) -> Axis {
        match self {
            Figure::Three | Figure::Five => Axis::Functions,
            Figure::Six => Axis::BlockBytes,
            Figure::Seven => Axis::MemoryClocks,
        }
    }

    fn others(self) -> &'static [u32] {
        match self {
            Figure::Three => &[3],
            Figure::Five => &[1, 2, 3, 4, 5, 6, 7, 8],
            Figure::Six => &[4, 8, 12, 16, 20, 24, 28, 32],
            Figure::Seven => &[1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20],
        }
    }

    fn caches(self) -> &'static [Cache] {
        match self {
            Figure::Three | Figure::Five => &[Cache::Warm, Cache::Cold],
            Figure::Six => &[Cache::Warm],
            Figure::Seven => &[Cache::Cold],
        }
    }

    /// The surface, both implementations, for state of 0 to 16 words a function.
    ///
    /// # Errors
    /// As [`clocks`].
    pub fn points(self) -> Result<Vec<Point>, Error> {
        let mut points = Vec::new();
        for &cache in self.caches() {
            for implementation in [Implementation::Sequential, Implementation::Integrated] {
                for &other in self.others() {
                    for state_words in 0..=16 {
                        let (machine, functions) = self.case(state_words, other);
                        let clocks = clocks(&machine, &functions, cache, implementation)?;
                        points.push(Point { state_words, other, cache, implementation, clocks });
                    }
                }
            }
        }
        Ok(points)
    }

    /// The machine and the functions of a point.
    fn case(self, state_words: u32, other: u32) -> (Machine, Vec<Function>) {
        let function = |instructions, block_bytes| Function {
            name: "synthetic",
            state_words,
            instructions,
            block_bytes,
            writes: true,
        };
        match self {
            Figure::Three => (HP_9000_735, vec![function(10.0, 4); 3]),
            Figure::Five => (PLAIN, vec![function(3.0, 4); other as usize]),
            // A block beyond a word takes the registers that hold it from the state.
            Figure::Six => {
                let registers = PLAIN.registers.saturating_sub(other / 4 - 1);
                (
                    Machine { registers, ..PLAIN },
                    vec![function(3.0 * f64::from(other / 4), other); 3],
                )
            }
            Figure::Seven => {
                let machine = Machine { memory_clocks_per_word: other.into(), ..PLAIN };
                (machine, vec![function(3.0, 4); 3])
            }
        }
    }
}
