//! What a synthetic function is, and what cannot be made.
#![forbid(unsafe_code)]

/// What a word is, and so which registers hold words and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lanes {
    /// 32 bits in a general register, as in the paper.
    Scalar32,
    /// 64 bits in a general register.
    Scalar64,
    /// 256 bits, AVX2.
    Avx2,
    /// 512 bits, AVX-512.
    Avx512,
}

impl Lanes {
    /// All of them.
    pub const ALL: [Lanes; 4] = [Lanes::Scalar32, Lanes::Scalar64, Lanes::Avx2, Lanes::Avx512];

    /// As tables name it.
    pub const fn name(self) -> &'static str {
        match self {
            Lanes::Scalar32 => "scalar32",
            Lanes::Scalar64 => "scalar64",
            Lanes::Avx2 => "avx2",
            Lanes::Avx512 => "avx512",
        }
    }

    /// Bytes in a word.
    pub const fn word_bytes(self) -> usize {
        match self {
            Lanes::Scalar32 => 4,
            Lanes::Scalar64 => 8,
            Lanes::Avx2 => 32,
            Lanes::Avx512 => 64,
        }
    }

    /// Registers for words, state and what a function needs besides.
    pub const fn registers(self) -> usize {
        match self {
            // Sixteen without the stack, two pointers, the index and the state's memory.
            Lanes::Scalar32 | Lanes::Scalar64 => 11,
            Lanes::Avx2 => 16,
            Lanes::Avx512 => 32,
        }
    }

    /// Words of general registers.
    pub const fn is_scalar(self) -> bool {
        matches!(self, Lanes::Scalar32 | Lanes::Scalar64)
    }

    /// Whether this CPU has them.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            match self {
                Lanes::Scalar32 | Lanes::Scalar64 => true,
                Lanes::Avx2 => std::is_x86_feature_detected!("avx2"),
                Lanes::Avx512 => std::is_x86_feature_detected!("avx512f"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }
}

/// Words that a unit can have: they are in registers.
pub const WORDS_MAX: usize = 8;

/// A data-manipulation function to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// State, in words.
    pub state_words: usize,
    /// Instructions on a block, one for each word of state at least.
    pub instructions: usize,
    /// Words in a block: 1 to [`WORDS_MAX`].
    pub block_words: usize,
    /// Whether it puts out what it made of the block.
    pub writes: bool,
    /// Table look-ups on a block (general registers only).
    pub lookups: usize,
    /// Entries of 8 bytes in its table, a power of two.
    pub table_entries: usize,
}

impl Function {
    /// A function that writes, without tables.
    pub const fn new(state_words: usize, instructions: usize, block_words: usize) -> Function {
        Function {
            state_words,
            instructions,
            block_words,
            writes: true,
            lookups: 0,
            table_entries: 0,
        }
    }

    /// Steps on a block, look-ups aside.
    pub fn steps(&self) -> usize {
        self.instructions.max(self.state_words)
    }

    /// Steps that change words, and so want the constant at hand.
    pub(crate) fn changes(&self) -> bool {
        self.writes && self.steps() > self.state_words
    }
}

/// Bounds, so that no description asks for gigabytes of code or tables.
const STATE_MAX: usize = 1024;
const INSTRUCTIONS_MAX: usize = 4096;
const TABLE_ENTRIES_MAX: usize = 1 << 20;
const FUNCTIONS_MAX: usize = 64;

/// What cannot be made or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No function, or too many.
    #[error("1 to {FUNCTIONS_MAX} functions can be joined, not {0}")]
    Functions(usize),
    /// A parameter out of bounds.
    #[error("function {index}: {parameter} is {found}, and must be {expected}")]
    Parameter {
        /// Which function, from 0.
        index: usize,
        /// Which parameter.
        parameter: &'static str,
        /// What it is.
        found: usize,
        /// What it may be.
        expected: &'static str,
    },
    /// The least common multiple of the blocks does not fit into registers.
    #[error("a unit of {0} words does not fit the {WORDS_MAX} registers for it")]
    Unit(usize),
    /// This CPU, or the assembler for it, has no such words.
    #[error("no {} here", .0.name())]
    Lanes(Lanes),
    /// The message is no whole number of units, or the places differ in length.
    #[error(
        "a message of {src} bytes to a place of {dst}: whole units of {unit} are wanted, and one length"
    )]
    Length {
        /// Message.
        src: usize,
        /// Place.
        dst: usize,
        /// Unit.
        unit: usize,
    },
    /// The operating system gave no memory for code.
    #[error("memory for code: {0}")]
    System(#[from] rustix::io::Errno),
}

/// Words in a unit of them all, if they can be made.
pub(crate) fn check(lanes: Lanes, functions: &[Function]) -> Result<usize, Error> {
    if functions.is_empty() || functions.len() > FUNCTIONS_MAX {
        return Err(Error::Functions(functions.len()));
    }
    let mut unit = 1;
    for (index, f) in functions.iter().enumerate() {
        let wrong = |parameter, found, expected| {
            Err(Error::Parameter { index, parameter, found, expected })
        };
        if f.block_words == 0 || f.block_words > WORDS_MAX {
            return wrong("block_words", f.block_words, "1 to 8");
        }
        if f.state_words > STATE_MAX {
            return wrong("state_words", f.state_words, "1024 at most");
        }
        if f.instructions > INSTRUCTIONS_MAX || f.lookups > INSTRUCTIONS_MAX {
            return wrong("instructions or lookups", f.instructions.max(f.lookups), "4096 at most");
        }
        if !f.writes && f.state_words == 0 {
            return wrong("state_words", 0, "1 at least in a function that only reads");
        }
        if f.lookups > 0 && !lanes.is_scalar() {
            return wrong("lookups", f.lookups, "0 in vectors");
        }
        if f.lookups > 0 && !f.writes {
            return wrong("lookups", f.lookups, "0 in a function that only reads");
        }
        let table = f.table_entries;
        if (f.lookups > 0 && !table.is_power_of_two()) || table > TABLE_ENTRIES_MAX {
            return wrong("table_entries", table, "a power of two, 1048576 at most");
        }
        unit = lcm(unit, f.block_words);
    }
    if unit > WORDS_MAX {
        return Err(Error::Unit(unit));
    }
    if !lanes.is_available() {
        return Err(Error::Lanes(lanes));
    }
    Ok(unit)
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// What step `j` of a function does to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Adds word `word` to state `state`.
    Accumulate { state: usize, word: usize },
    /// Adds the constant to the word.
    Add { word: usize },
    /// Inverts the word, a vector in the bits of the constant. Unlike a rotation this leaves the
    /// flags alone, which would be one more chain through the loop.
    Invert { word: usize },
}

impl Function {
    /// Its steps, in order.
    pub(crate) fn each_step(self) -> impl Iterator<Item = Step> {
        (0..self.steps()).map(move |j| {
            let word = j % self.block_words;
            if j < self.state_words {
                Step::Accumulate { state: j, word }
            } else if !self.writes {
                Step::Accumulate { state: j % self.state_words, word }
            } else if (j / self.block_words).is_multiple_of(2) {
                Step::Add { word }
            } else {
                Step::Invert { word }
            }
        })
    }
}

/// What `Add` adds to every 32-bit lane.
pub(crate) const CONSTANT: u32 = 0x1E37_79B9;

/// Entry `index` of the table of function `function`.
pub(crate) fn table_entry(function: usize, index: usize) -> u64 {
    let x = (function as u64 + 1) << 32 | index as u64;
    let x = (x ^ x >> 16).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ x >> 32
}
