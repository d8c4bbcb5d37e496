//! The same functions, slow and obvious: what programs are held to.
#![forbid(unsafe_code)]

use crate::function::{CONSTANT, Error, Function, Lanes, Step, check, table_entry};

/// What the functions make of a message, one after the other over the whole of it, and the state of each
/// in the end, as words of 64 bits (a vector has several; a 32-bit word is the low half of one).
///
/// # Errors
/// When the functions cannot be, or the message is no whole number of units.
pub fn oracle(
    lanes: Lanes,
    functions: &[Function],
    message: &[u8],
) -> Result<(Vec<u8>, Vec<u64>), Error> {
    let unit = check(lanes, functions)? * lanes.word_bytes();
    if !message.len().is_multiple_of(unit) {
        return Err(Error::Length { src: message.len(), dst: message.len(), unit });
    }
    let mut bytes = message.to_vec();
    let mut states = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let mut state = vec![Word::zero(lanes); function.state_words];
        for block in bytes.chunks_exact_mut(function.block_words * lanes.word_bytes()) {
            let mut words: Vec<_> = block
                .chunks_exact(lanes.word_bytes())
                .map(|b| Word::from_bytes(lanes, b))
                .collect();
            for lookup in 0..function.lookups {
                let word = &mut words[lookup % function.block_words];
                word.0[0] ^= table_entry(index, word.0[0] as usize & (function.table_entries - 1));
                word.trim();
            }
            for step in function.each_step() {
                match step {
                    Step::Accumulate { state: i, word } => state[i].add(&words[word].clone()),
                    Step::Add { word } => words[word].add_constant(),
                    Step::Invert { word } => words[word].invert(),
                }
            }
            for (place, word) in block.chunks_exact_mut(lanes.word_bytes()).zip(&words) {
                word.to_bytes(place);
            }
        }
        states.extend(state.iter().flat_map(|word| word.0.iter().copied()));
    }
    Ok((bytes, states))
}

#[derive(Clone)]
struct Word(Vec<u64>, Lanes);

impl Word {
    fn zero(lanes: Lanes) -> Word {
        Word(vec![0; lanes.word_bytes().div_ceil(8)], lanes)
    }

    fn from_bytes(lanes: Lanes, bytes: &[u8]) -> Word {
        let mut word = Word::zero(lanes);
        for (i, byte) in bytes.iter().enumerate() {
            word.0[i / 8] |= u64::from(*byte) << (8 * (i % 8));
        }
        word
    }

    fn to_bytes(&self, place: &mut [u8]) {
        for (i, byte) in place.iter_mut().enumerate() {
            *byte = (self.0[i / 8] >> (8 * (i % 8))) as u8;
        }
    }

    /// A word of 32 bits has nothing above them.
    fn trim(&mut self) {
        if self.1 == Lanes::Scalar32 {
            self.0[0] &= u64::from(u32::MAX);
        }
    }

    /// As one integer in a general register, as 32-bit lanes in a vector.
    fn add(&mut self, other: &Word) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a = if self.1.is_scalar() { a.wrapping_add(*b) } else { add_lanes(*a, *b) };
        }
        self.trim();
    }

    fn add_constant(&mut self) {
        let constant = u64::from(CONSTANT);
        for a in &mut self.0 {
            *a = if self.1.is_scalar() {
                a.wrapping_add(constant)
            } else {
                add_lanes(*a, constant << 32 | constant)
            };
        }
        self.trim();
    }

    fn invert(&mut self) {
        let constant = u64::from(CONSTANT);
        for a in &mut self.0 {
            *a ^= if self.1.is_scalar() { u64::MAX } else { constant << 32 | constant };
        }
        self.trim();
    }
}

fn add_lanes(a: u64, b: u64) -> u64 {
    let high = (a >> 32).wrapping_add(b >> 32) << 32;
    high | u64::from((a as u32).wrapping_add(b as u32))
}
