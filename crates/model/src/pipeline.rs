//! What the model is asked about.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A data-manipulation function, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// What kind of words it works on: a name of [`crate::machine::Words`].
    pub words: String,
    /// State, in words.
    pub state_words: u32,
    /// Instructions that compute, on a block.
    pub instructions: u32,
    /// Words in a block.
    pub block_words: u32,
    /// Whether it puts out what it made.
    pub writes: bool,
    /// Table look-ups on a block.
    pub lookups: u32,
    /// Its table, in bytes.
    pub table_bytes: u32,
}

impl Function {
    /// One that writes and looks nothing up.
    pub fn new(words: &str, state_words: u32, instructions: u32, block_words: u32) -> Function {
        Function {
            words: words.to_owned(),
            state_words,
            instructions,
            block_words,
            writes: true,
            lookups: 0,
            table_bytes: 0,
        }
    }

    /// Instructions on a block: each word of state takes one.
    pub(crate) fn steps(&self) -> u32 {
        self.instructions.max(self.state_words)
    }

    /// Bytes of its table, if it looks anything up.
    pub(crate) fn table(&self) -> u64 {
        if self.lookups > 0 { self.table_bytes.into() } else { 0 }
    }

    /// Instructions that change the block, and so follow from each other.
    pub(crate) fn changes(&self) -> u32 {
        if self.writes { self.steps() - self.state_words } else { 0 }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:state={},instructions={},block={}",
            self.words, self.state_words, self.instructions, self.block_words
        )?;
        if self.lookups > 0 {
            write!(f, ",lookups={},table={}", self.lookups, self.table_bytes)?;
        }
        if !self.writes {
            write!(f, ",reads")?;
        }
        Ok(())
    }
}

/// A pipeline, in the order in which a message passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Described functions.
    Functions(Vec<Function>),
    /// Calibrated stages, by name, at a CPU level.
    Stages {
        /// Their names.
        names: Vec<String>,
        /// The CPU level.
        level: String,
    },
    /// The data pass of a record: byte swap, cipher, Internet checksum and store.
    DataPass {
        /// The cipher's name.
        cipher: String,
        /// `true` if 32-bit words are swapped.
        swaps: bool,
        /// `true` for receiving: checksum, cipher, byte swap.
        receives: bool,
        /// The CPU level.
        level: String,
    },
}

/// How a pipeline is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Implementation {
    /// One loop; a unit passes all functions in registers.
    Integrated,
    /// Each function in turn over a strip that stays in the first-level cache.
    Blocked,
    /// Each function over the whole message.
    Sequential,
}

impl Implementation {
    /// All of them.
    pub const ALL: [Implementation; 3] =
        [Implementation::Integrated, Implementation::Blocked, Implementation::Sequential];

    /// As options, tables and JSON name it.
    pub const fn name(self) -> &'static str {
        match self {
            Implementation::Integrated => "integrated",
            Implementation::Blocked => "blocked",
            Implementation::Sequential => "sequential",
        }
    }
}

/// Where message and place lie before the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cache {
    /// As near as they fit.
    Warm,
    /// In memory.
    Cold,
}

impl Cache {
    /// For a sentence.
    pub const fn in_words(self) -> &'static str {
        match self {
            Cache::Warm => "in the cache",
            Cache::Cold => "in memory",
        }
    }

    /// `warm` or `cold`.
    pub const fn name(self) -> &'static str {
        match self {
            Cache::Warm => "warm",
            Cache::Cold => "cold",
        }
    }
}
