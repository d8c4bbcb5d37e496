//! The paper's machines (Table 3), functions (Table 4) and what it measured with them (Table 2).

use super::{Cache, Function, Implementation, Machine};

/// HP 9000-735/99.
pub const HP_9000_735: Machine = Machine {
    name: "HP 9000-735/99",
    registers: 13,
    cache_clocks_per_word: 1.0,
    memory_clocks_per_word: 4.0,
    clocks_per_instruction: 1.0,
    loop_instructions: 1.0,
    clock_mhz: 99.0,
    word_bytes: 4,
};

/// SPARCstation 2.
pub const SPARCSTATION_2: Machine = Machine {
    name: "SPARCstation 2",
    registers: 8,
    cache_clocks_per_word: 3.0,
    memory_clocks_per_word: 7.0,
    clocks_per_instruction: 1.0,
    loop_instructions: 5.0,
    clock_mhz: 40.0,
    word_bytes: 4,
};

/// SPARCstation model 20/71.
pub const SPARCSTATION_20: Machine = Machine {
    name: "SPARCstation 20/71",
    registers: 8,
    cache_clocks_per_word: 1.0,
    memory_clocks_per_word: 2.4,
    clocks_per_instruction: 0.5,
    loop_instructions: 5.0,
    clock_mhz: 75.0,
    word_bytes: 4,
};

/// All of Table 3.
pub const MACHINES: [Machine; 3] = [HP_9000_735, SPARCSTATION_2, SPARCSTATION_20];

/// Abbott and Peterson's loop with blocks of two words: byte swap, pseudo-encryption, Internet
/// checksum (Table 4).
pub const BSWAP_PES_CKSUM: [Function; 3] = [
    Function { name: "BSWAP", state_words: 0, instructions: 5.0, block_bytes: 4, writes: true },
    Function { name: "PES", state_words: 0, instructions: 6.0, block_bytes: 8, writes: true },
    Function { name: "CKSUM", state_words: 1, instructions: 4.0, block_bytes: 4, writes: false },
];

/// What the paper prints for one machine, place of the message and implementation, in ns a byte.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// On what.
    pub machine: &'static Machine,
    /// From where.
    pub cache: Cache,
    /// How.
    pub implementation: Implementation,
    /// Measured with the real functions.
    pub real: f64,
    /// Measured with synthetic functions.
    pub synthetic: f64,
    /// Modelled.
    pub modelled: f64,
}

const fn published(
    machine: &'static Machine,
    cache: Cache,
    implementation: Implementation,
    [real, synthetic, modelled]: [f64; 3],
) -> Published {
    Published { machine, cache, implementation, real, synthetic, modelled }
}

/// Table 2.
pub const TABLE_2: [Published; 12] = {
    use Cache::{Cold, Warm};
    use Implementation::{Integrated, Sequential};
    [
        published(&HP_9000_735, Cold, Sequential, [95.0, 95.0, 87.0]),
        published(&HP_9000_735, Cold, Integrated, [49.0, 49.0, 52.0]),
        published(&HP_9000_735, Warm, Sequential, [54.0, 54.0, 49.0]),
        published(&HP_9000_735, Warm, Integrated, [37.0, 37.0, 37.0]),
        published(&SPARCSTATION_2, Cold, Sequential, [344.0, 351.0, 372.0]),
        published(&SPARCSTATION_2, Cold, Integrated, [174.0, 186.0, 178.0]),
        published(&SPARCSTATION_2, Warm, Sequential, [230.0, 236.0, 247.0]),
        published(&SPARCSTATION_2, Warm, Integrated, [125.0, 137.0, 128.0]),
        published(&SPARCSTATION_20, Cold, Sequential, [78.0, 82.0, 81.0]),
        published(&SPARCSTATION_20, Cold, Integrated, [39.0, 39.0, 40.0]),
        published(&SPARCSTATION_20, Warm, Sequential, [54.0, 57.0, 58.0]),
        published(&SPARCSTATION_20, Warm, Integrated, [32.0, 33.0, 31.0]),
    ]
};
