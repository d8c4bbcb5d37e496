//! Functions as their user describes them, and which of them cannot run in one loop.
//!
//! A description is data from a file: every value is looked at before the model sees it.

use serde::Deserialize;

use crate::machine::Machine;
use crate::pipeline::{Function, Pipeline};
use crate::predict::lcm_bounded;

/// The version of the form of descriptions.
pub const VERSION: u32 = 1;
/// More than anybody means.
const FUNCTIONS_MAX: usize = 64;
const VALUE_MAX: u32 = 1 << 24;

/// Functions that a message passes, first first, and how the message comes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Of the form; another than [`VERSION`] is refused.
    pub version: u32,
    /// What the functions work on: a name of [`crate::machine::Words`].
    pub words: String,
    /// Bytes of a message, if it is known.
    #[serde(default)]
    pub bytes: Option<u32>,
    /// In what order the bytes of a message come to the loop.
    #[serde(default)]
    pub arrives: Arrival,
    /// Whether the length of the header is known before the loop begins.
    #[serde(default = "yes")]
    pub header_length_known: bool,
    /// The functions.
    pub functions: Vec<Described>,
}

fn yes() -> bool {
    true
}

/// In what order bytes come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// First to last.
    #[default]
    FirstToLast,
    /// As they happen to: segments before holes are filled.
    AnyOrder,
    /// Parts of a message of which the first is treated last, because its length field is known last.
    Parts,
}

/// In what order a function must see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// It is not ordering-constrained.
    #[default]
    Any,
    /// From the first byte of a message to the last.
    FirstToLast,
    /// From the last to the first.
    LastToFirst,
}

/// What a function puts out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// A block for each block.
    #[default]
    Same,
    /// Nothing: it only reads.
    None,
    /// More or fewer bytes than it takes.
    OtherLength,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// Its name, for the answer.
    pub name: String,
    /// Bytes that it treats together: whole words.
    pub block_bytes: u32,
    /// State that it keeps from block to block, in words.
    #[serde(default)]
    pub state_words: u32,
    /// Instructions that compute, on a block.
    #[serde(default)]
    pub instructions: Option<u32>,
    /// In their place: cycles for which a block keeps the busiest of the ports that compute, as
    /// `llvm-mca` and its like say.
    #[serde(default)]
    pub port_cycles: Option<f64>,
    /// What it puts out.
    #[serde(default)]
    pub output: Output,
    /// Table look-ups on a block.
    #[serde(default)]
    pub lookups: u32,
    /// Its table, in bytes.
    #[serde(default)]
    pub table_bytes: u32,
    /// In what order it must see the bytes.
    #[serde(default)]
    pub order: Order,
    /// What it puts out first depends on bytes that come later.
    #[serde(default)]
    pub needs_whole_message: bool,
}

/// Why functions cannot run in one loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// An ordering-constrained function, and bytes in another order.
    #[error(
        "rule `order`: {function} is ordering-constrained ({wants}), and the bytes come {come}: put them \
         in order first, or run it in a pass of its own"
    )]
    Order {
        /// Which.
        function: String,
        /// The order that it wants.
        wants: &'static str,
        /// The order that there is.
        come: &'static str,
    },
    /// Two functions that want different orders.
    #[error(
        "rule `order`: {0} goes from first to last and {1} from last to first: one loop has one order"
    )]
    Opposite(String, String),
    /// Later functions want what is not there yet.
    #[error(
        "rule `whole-message`: what {0} puts out first depends on bytes that come later, so {1} cannot \
         have it in the same turn: end the loop after {0}"
    )]
    WholeMessage(String, String),
    /// A loop has units.
    #[error(
        "rule `same-length`: {0} puts out more or fewer bytes than it takes, so a unit in is no unit out: \
         run it in a pass of its own"
    )]
    OtherLength(String),
    /// Nobody knows where the loop begins.
    #[error(
        "rule `header-length`: where the payload begins must be known before the loop, or its blocks are \
         not aligned: make the header's length constant, or parse it in the initial step"
    )]
    HeaderLength,
    /// The least common multiple of the blocks.
    #[error(
        "rule `unit`: blocks of {blocks} bytes join to units of {unit} words, and {words} has {registers} \
         registers: a unit must fit into them"
    )]
    Unit {
        /// The blocks' lengths.
        blocks: String,
        /// Words in a unit.
        unit: u64,
        /// The kind of words.
        words: String,
        /// Registers that there are.
        registers: u32,
    },
}

/// Why a description says nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Written for another version.
    #[error("the description is of version {0}, this program wants {VERSION}")]
    Version(u32),
    /// No or too many functions.
    #[error("a description has 1 to {FUNCTIONS_MAX} functions, not {0}")]
    Functions(usize),
    /// A value that no function has.
    #[error("{function}: {parameter} is {found}, and must be {expected}")]
    Absurd {
        /// Which function.
        function: String,
        /// Which value.
        parameter: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// Work is said twice, or not at all.
    #[error("{0}: `instructions` or `port_cycles` must say its work, and only one of them")]
    Work(String),
    /// The machine does not know the words.
    #[error(transparent)]
    Machine(#[from] crate::machine::Error),
    /// They cannot run in one loop.
    #[error("these functions cannot be integrated. {0}")]
    Rule(#[from] Rule),
}

impl Description {
    /// The pipeline as the model takes it.
    ///
    /// # Errors
    /// When a value is absurd, the machine has no such words, or the functions cannot run in one loop.
    pub fn pipeline(&self, machine: &Machine) -> Result<Pipeline, Error> {
        if self.version != VERSION {
            return Err(Error::Version(self.version));
        }
        if self.functions.is_empty() || self.functions.len() > FUNCTIONS_MAX {
            return Err(Error::Functions(self.functions.len()));
        }
        let words = machine.words_named(&self.words)?;
        let functions = self
            .functions
            .iter()
            .map(|function| function.function(words))
            .collect::<Result<_, _>>()?;
        self.rules(words)?;
        Ok(Pipeline::Functions(functions))
    }

    /// The rules that joined functions must keep (Braun and Diot, "Protocol Implementation Using
    /// Integrated Layer Processing": ordering-constrained functions, sizes of data units, headers).
    fn rules(&self, words: &crate::machine::Words) -> Result<(), Rule> {
        if !self.header_length_known {
            return Err(Rule::HeaderLength);
        }
        let mut ordered: Option<&Described> = None;
        for (i, function) in self.functions.iter().enumerate() {
            let name = || function.name.clone();
            if function.output == Output::OtherLength {
                return Err(Rule::OtherLength(name()));
            }
            if let (true, Some(next)) = (function.needs_whole_message, self.functions.get(i + 1)) {
                return Err(Rule::WholeMessage(name(), next.name.clone()));
            }
            if function.order == Order::Any {
                continue;
            }
            if let Some(come) = self.arrives.against(function.order) {
                return Err(Rule::Order { function: name(), wants: function.order.words(), come });
            }
            match ordered {
                Some(other) if other.order != function.order => {
                    let (a, b) = match function.order {
                        Order::LastToFirst => (other, function),
                        _ => (function, other),
                    };
                    return Err(Rule::Opposite(a.name.clone(), b.name.clone()));
                }
                _ => ordered = Some(function),
            }
        }
        let blocks = self.functions.iter().map(|f| u64::from(f.block_bytes / words.word_bytes));
        let unit = blocks.fold(1, |a, b| lcm_bounded(a, b.max(1)));
        if unit > u64::from(words.registers) {
            let blocks: Vec<_> = self.functions.iter().map(|f| f.block_bytes.to_string()).collect();
            return Err(Rule::Unit {
                blocks: blocks.join(", "),
                unit,
                words: words.name.clone(),
                registers: words.registers,
            });
        }
        Ok(())
    }
}

impl Arrival {
    /// In words, if who wants `order` does not get it.
    fn against(self, order: Order) -> Option<&'static str> {
        match (self, order) {
            (_, Order::Any) | (Arrival::FirstToLast, Order::FirstToLast | Order::LastToFirst) => {
                None
            }
            (Arrival::AnyOrder, _) => Some("in any order"),
            (Arrival::Parts, _) => Some("in parts, the first of them last"),
        }
    }
}

impl Order {
    const fn words(self) -> &'static str {
        match self {
            Order::Any => "any order",
            Order::FirstToLast => "first byte to last",
            Order::LastToFirst => "last byte to first",
        }
    }
}

impl Described {
    fn function(&self, words: &crate::machine::Words) -> Result<Function, Error> {
        let absurd = |parameter, found: String, expected: String| Error::Absurd {
            function: self.name.clone(),
            parameter,
            found,
            expected,
        };
        let word = words.word_bytes;
        if self.block_bytes == 0
            || !self.block_bytes.is_multiple_of(word)
            || self.block_bytes > 64 * word
        {
            let expected = format!("1 to 64 words of {word} bytes: say what whole words take");
            return Err(absurd("block_bytes", self.block_bytes.to_string(), expected));
        }
        for (parameter, found) in [
            ("state_words", self.state_words),
            ("lookups", self.lookups),
            ("table_bytes", self.table_bytes),
            ("instructions", self.instructions.unwrap_or(0)),
        ] {
            if found > VALUE_MAX {
                return Err(absurd(parameter, found.to_string(), format!("{VALUE_MAX} at most")));
            }
        }
        let instructions = match (self.instructions, self.port_cycles) {
            (Some(instructions), None) => instructions,
            (None, Some(cycles)) if (0.0..=1e6).contains(&cycles) => {
                (cycles * words.compute_per_cycle).round() as u32
            }
            (None, Some(cycles)) => {
                return Err(absurd("port_cycles", cycles.to_string(), "0 to 1000000".to_owned()));
            }
            _ => return Err(Error::Work(self.name.clone())),
        };
        Ok(Function {
            words: words.name.clone(),
            state_words: self.state_words,
            instructions,
            block_words: self.block_bytes / word,
            writes: self.output != Output::None,
            lookups: self.lookups,
            table_bytes: self.table_bytes,
        })
    }
}
