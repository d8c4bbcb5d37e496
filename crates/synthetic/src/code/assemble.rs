//! From a list of functions to one loop.
//!
//! ```text
//! entry(src_end: RDI, dst_end: RSI, -len: RDX, context: RCX)
//!     constant and state into registers, as far as there are any
//!     loop:  words of the unit ← [RDI + RDX …]
//!            each function on each of its blocks
//!            [RSI + RDX …] ← words, if any function writes
//!            RDX += unit; until it is zero
//!     state back to the context
//! ```

use super::encode::{DST, Encoder, INDEX, Memory, Operand, SRC, Width};
use crate::function::{CONSTANT, Function, Lanes, Step};

/// General registers that are free, those that a caller keeps first.
const GENERAL: [u8; 11] = [0, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15];
/// Of them, those that must be as they were at the end.
const KEPT: [u8; 6] = [3, 5, 12, 13, 14, 15];

/// Where things lie in the context; offsets in bytes from a multiple of 64.
pub(crate) struct Layout {
    /// State of function `i`, word `j`.
    pub(crate) states: Vec<Vec<i32>>,
    /// The table of function `i`, if it has one.
    pub(crate) tables: Vec<Option<i32>>,
    /// Words of 64 bits in all.
    pub(crate) len_words: usize,
    /// Whether any function writes.
    pub(crate) writes: bool,
}

pub(crate) struct Assembled {
    pub(super) bytes: Vec<u8>,
    pub(super) unit_bytes: usize,
    pub(super) layout: Layout,
}

/// A register, or a place in the context.
#[derive(Clone, Copy)]
enum Place {
    Register(u8),
    Memory(i32),
}

struct Assembler<'a> {
    code: Encoder,
    lanes: Lanes,
    functions: &'a [Function],
    words: Vec<u8>,
    states: Vec<Vec<Place>>,
    tables: Vec<Option<i32>>,
    constant: Option<u8>,
    spare: Option<u8>,
}

/// The loop for functions that were checked, whose unit has `unit_words` words.
pub(crate) fn assemble(lanes: Lanes, functions: &[Function], unit_words: usize) -> Assembled {
    let slot = if lanes.is_scalar() { 8 } else { lanes.word_bytes() as i32 };
    // The constant comes first.
    let mut at = 64;
    let mut states = Vec::new();
    for function in functions {
        let offsets = (0..function.state_words as i32).map(|j| at + j * slot);
        states.push(offsets.collect::<Vec<_>>());
        at += function.state_words as i32 * slot;
    }
    let mut tables = Vec::new();
    for function in functions {
        at = (at + 63) & !63;
        tables.push((function.lookups > 0).then_some(at));
        if function.lookups > 0 {
            at += function.table_entries as i32 * 8;
        }
    }
    let free: Vec<u8> =
        if lanes.is_scalar() { GENERAL.to_vec() } else { (0..lanes.registers() as u8).collect() };
    let mut free = free.into_iter();
    let words = free.by_ref().take(unit_words).collect();
    let wants_constant = !lanes.is_scalar() && functions.iter().any(Function::changes);
    let constant = if wants_constant { free.next() } else { None };
    let state_words: usize = functions.iter().map(|f| f.state_words).sum();
    let overflows = !lanes.is_scalar() && state_words > free.len();
    let looks_up = functions.iter().any(|f| f.lookups > 0);
    let spare = if overflows || looks_up { free.next() } else { None };
    let places = states.iter().map(|offsets| {
        let place = |offset: &i32| match free.next() {
            Some(register) => Place::Register(register),
            None => Place::Memory(*offset),
        };
        offsets.iter().map(place).collect()
    });
    let places = places.collect();
    let layout = Layout {
        states,
        tables: tables.clone(),
        len_words: at as usize / 8,
        writes: functions.iter().any(|f| f.writes),
    };
    let mut assembler = Assembler {
        code: Encoder::default(),
        lanes,
        functions,
        words,
        states: places,
        tables,
        constant,
        spare,
    };
    assembler.whole(&layout);
    let unit_bytes = unit_words * lanes.word_bytes();
    Assembled { bytes: assembler.code.bytes, unit_bytes, layout }
}

impl Assembler<'_> {
    fn whole(&mut self, layout: &Layout) {
        for register in KEPT {
            self.code.push(register);
        }
        if let Some(register) = self.constant {
            self.load(register, Memory::Context(0));
        }
        self.each_register(layout, |this, register, offset| {
            this.load(register, Memory::Context(offset));
        });
        self.code.test(INDEX);
        let empty = self.code.jump_if_zero();
        self.code.align();
        let start = self.code.bytes.len();
        self.body(layout.writes);
        let unit = self.words.len() * self.lanes.word_bytes();
        self.code.add_immediate(true, INDEX, unit as i32);
        self.code.loop_to(start);
        self.code.land(empty);
        self.each_register(layout, |this, register, offset| {
            this.store(Memory::Context(offset), register);
        });
        if !self.lanes.is_scalar() {
            self.code.zero_upper();
        }
        for register in KEPT.into_iter().rev() {
            self.code.pop(register);
        }
        self.code.ret();
    }

    /// All state that has registers.
    fn each_register(&mut self, layout: &Layout, mut does: impl FnMut(&mut Self, u8, i32)) {
        for (i, offsets) in layout.states.iter().enumerate() {
            for (j, offset) in offsets.iter().enumerate() {
                if let Place::Register(register) = self.states[i][j] {
                    does(self, register, *offset);
                }
            }
        }
    }

    fn body(&mut self, writes: bool) {
        let word_bytes = self.lanes.word_bytes() as i32;
        for (i, word) in self.words.clone().into_iter().enumerate() {
            self.load(word, Memory::Message(SRC, i as i32 * word_bytes));
        }
        for index in 0..self.functions.len() {
            let function = self.functions[index];
            for block in self.words.clone().chunks_exact(function.block_words) {
                self.block(index, function, block);
            }
        }
        if writes {
            for (i, word) in self.words.clone().into_iter().enumerate() {
                self.store(Memory::Message(DST, i as i32 * word_bytes), word);
            }
        }
    }

    fn block(&mut self, index: usize, function: Function, block: &[u8]) {
        if let (Some(table), Some(spare)) = (self.tables[index], self.spare) {
            for lookup in 0..function.lookups {
                let word = block[lookup % function.block_words];
                self.code.copy(spare, word);
                self.code.and_immediate(spare, function.table_entries as i32 - 1);
                self.code.xor_from(self.is_wide(), word, Memory::Table(spare, table));
            }
        }
        for step in function.each_step() {
            match step {
                Step::Accumulate { state, word } => {
                    self.accumulate(self.states[index][state], block[word]);
                }
                Step::Add { word } => self.add_constant(block[word]),
                Step::Invert { word } => self.invert(block[word]),
            }
        }
    }

    fn accumulate(&mut self, state: Place, word: u8) {
        match (self.vector_width(), state) {
            (None, Place::Register(r)) => {
                self.code.add(self.is_wide(), Operand::Register(r), word);
            }
            (None, Place::Memory(at)) => {
                let state = Operand::Memory(Memory::Context(at));
                self.code.add(self.is_wide(), state, word);
            }
            (Some(width), Place::Register(r)) => {
                self.code.vector_add(width, r, r, Operand::Register(word));
            }
            (Some(width), Place::Memory(at)) => {
                // There is one whenever state of vectors lies in memory.
                let Some(spare) = self.spare else { return };
                let state = Memory::Context(at);
                self.code.vector_add(width, spare, word, Operand::Memory(state));
                self.code.vector_store(width, state, spare);
            }
        }
    }

    fn add_constant(&mut self, word: u8) {
        match (self.vector_width(), self.constant) {
            (Some(width), Some(constant)) => {
                self.code.vector_add(width, word, word, Operand::Register(constant));
            }
            _ => self.code.add_immediate(self.is_wide(), word, CONSTANT as i32),
        }
    }

    fn invert(&mut self, word: u8) {
        match (self.vector_width(), self.constant) {
            (Some(width), Some(constant)) => {
                self.code.vector_xor(width, word, word, Operand::Register(constant));
            }
            _ => self.code.invert(self.is_wide(), word),
        }
    }

    fn load(&mut self, register: u8, from: Memory) {
        match self.vector_width() {
            Some(width) => self.code.vector_load(width, register, from),
            None => self.code.load(self.is_wide(), register, from),
        }
    }

    fn store(&mut self, to: Memory, register: u8) {
        match self.vector_width() {
            Some(width) => self.code.vector_store(width, to, register),
            None => self.code.store(self.is_wide(), to, register),
        }
    }

    fn is_wide(&self) -> bool {
        self.lanes == Lanes::Scalar64
    }

    fn vector_width(&self) -> Option<Width> {
        match self.lanes {
            Lanes::Scalar32 | Lanes::Scalar64 => None,
            Lanes::Avx2 => Some(Width::Y),
            Lanes::Avx512 => Some(Width::Z),
        }
    }
}
