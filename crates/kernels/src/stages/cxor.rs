//! CXOR, the check function of XTP 3.6, and its optimisation by hand after Dabbous (section 4.2.1).
//!
//! The form fixed here, over the message's 16-bit words `w[0..n]`, big-endian, an odd last byte being
//! the high half of a word whose low half is zero:
//!
//! ```text
//! xor  = w[0] ^ w[1] ^ … ^ w[n-1]
//! rxor = rotl(w[0], 0) ^ rotl(w[1], 1) ^ … ^ rotl(w[n-1], (n-1) mod 16)
//! ```
//! So zeros behind the message change nothing. A turn by 8 exchanges a word's bytes and turns can be
//! made in any order: words are taken as the CPU has them and both results have their bytes exchanged
//! at the end. Words whose numbers are equal modulo 16 are turned alike: they are xored first, in
//! columns, and turned once.
//!
//! | function | the paper's | words |
//! |---|---|---|
//! | [`standard`] | std | a loop of xor, turn by one, xor |
//! | [`op1`] | op1 | turns saved to the end: an array of 16 columns |
//! | [`op2`] | op2 | the array made 16 variables, the loop unrolled |
//! | [`op3`] | op3 | the xor made from the columns at the end |
//! | [`op4`] | op4 | long words: four columns in each of four 64-bit words |
//! | [`CxorSum`] | | vectors: all columns in one |
//!
//! The scalar ones are kept scalar: the optimiser would make vector code of op2 to op4.
#![forbid(unsafe_code)]

use crate::arch::{Lanes, in_register};
use crate::stage::{Output, Run, Stage};

/// The two halves of the check function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cxor {
    /// Exclusive-or of all words.
    pub xor: u16,
    /// Exclusive-or of all words, each turned left one bit further than the one before.
    pub rxor: u16,
}

impl Cxor {
    /// The slow, obvious way.
    pub fn of(bytes: &[u8]) -> Cxor {
        let mut cxor = Cxor::default();
        for (i, word) in bytes.chunks(2).enumerate() {
            let low = word.get(1).copied().unwrap_or(0);
            let word = u16::from_be_bytes([word[0], low]);
            cxor.xor ^= word;
            cxor.rxor ^= word.rotate_left(i as u32 % 16);
        }
        cxor
    }

    /// The 32 bits: `xor`, then `rxor`.
    pub const fn bits(self) -> u32 {
        (self.xor as u32) << 16 | self.rxor as u32
    }

    /// From columns of little-endian words.
    #[inline(always)]
    fn from_columns(columns: [u16; 16]) -> Cxor {
        let mut cxor = Cxor::default();
        for (i, column) in columns.into_iter().enumerate() {
            cxor.xor ^= column;
            cxor.rxor ^= column.rotate_left(i as u32);
        }
        Cxor { xor: cxor.xor.swap_bytes(), rxor: cxor.rxor.swap_bytes() }
    }

    /// From columns of little-endian words, four in each long word. Four columns are turned at once:
    /// those of a long word by 0, 4, 8 or 12 bits, then each by 0 to 3.
    #[inline(always)]
    fn from_long_columns([a, b, c, d]: [u64; 4]) -> Cxor {
        const BYTES: u64 = 0x00ff_00ff_00ff_00ff;
        const NIBBLES: u64 = 0x000f_000f_000f_000f;
        let turn8 = |x: u64| (x & BYTES) << 8 | x >> 8 & BYTES;
        let turn4 = |x: u64| x << 4 & !NIBBLES | x >> 12 & NIBBLES;
        let all = a ^ b ^ c ^ d;
        let all = all ^ all >> 32;
        let turned = a ^ turn8(c) ^ turn4(b ^ turn8(d));
        let column = |i: u32| ((turned >> (16 * i)) as u16).rotate_left(i);
        let rxor = column(0) ^ column(1) ^ column(2) ^ column(3);
        Cxor { xor: ((all ^ all >> 16) as u16).swap_bytes(), rxor: rxor.swap_bytes() }
    }

    /// `self` and what the last `bytes`, fewer than 32 behind a multiple of 32, add to it.
    #[inline(always)]
    fn with_rest(self, bytes: &[u8]) -> Cxor {
        let rest = Cxor::of(bytes);
        Cxor { xor: self.xor ^ rest.xor, rxor: self.rxor ^ rest.rxor }
    }
}

/// A little-endian word.
#[inline(always)]
fn word(bytes: &[u8], i: usize) -> u16 {
    u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])
}

/// A word or column in a register of its own.
#[inline(always)]
fn scalar(x: u16) -> u16 {
    in_register(u64::from(x)) as u16
}

/// The paper's standard loop: for each short word an exclusive-or, a turn and an exclusive-or.
pub fn standard(bytes: &[u8]) -> Cxor {
    let (mut xor, mut rxor) = (0u16, 0u16);
    let mut words = bytes.chunks_exact(2);
    let count = words.len() as u32;
    for two in &mut words {
        let word = word(two, 0);
        xor ^= word;
        rxor = rxor.rotate_right(1) ^ word;
    }
    // Every word has been turned right once for each that followed it.
    rxor = rxor.rotate_left(count.wrapping_sub(1) % 16);
    if let [last] = words.remainder() {
        xor ^= u16::from(*last);
        rxor ^= u16::from(*last).rotate_left(count % 16);
    }
    Cxor { xor: xor.swap_bytes(), rxor: rxor.swap_bytes() }
}

/// The paper's first optimisation: an array of columns, turned at the end.
pub fn op1(bytes: &[u8]) -> Cxor {
    let mut columns = [0u16; 16];
    let mut xor = 0;
    let mut words = bytes.chunks_exact(2);
    for (i, two) in (&mut words).enumerate() {
        let word = scalar(word(two, 0));
        xor ^= word;
        columns[i % 16] ^= word;
    }
    let count = bytes.len() / 2;
    if let [last] = words.remainder() {
        xor ^= u16::from(*last);
        columns[count % 16] ^= u16::from(*last);
    }
    Cxor { xor: xor.swap_bytes(), ..Cxor::from_columns(columns) }
}

/// The paper's second: the columns are variables, the loop is unrolled over them.
pub fn op2(bytes: &[u8]) -> Cxor {
    let mut columns = [0u16; 16];
    let mut xor = 0;
    let mut rows = bytes.chunks_exact(32);
    for row in &mut rows {
        for (i, column) in columns.iter_mut().enumerate() {
            let word = scalar(word(row, i));
            xor ^= word;
            *column ^= word;
        }
    }
    let cxor = Cxor { xor: xor.swap_bytes(), ..Cxor::from_columns(columns) };
    cxor.with_rest(rows.remainder())
}

/// The paper's third: the xor is that of the columns.
pub fn op3(bytes: &[u8]) -> Cxor {
    let mut columns = [0u16; 16];
    let mut rows = bytes.chunks_exact(32);
    for row in &mut rows {
        for (i, column) in columns.iter_mut().enumerate() {
            *column = scalar(*column ^ word(row, i));
        }
    }
    Cxor::from_columns(columns).with_rest(rows.remainder())
}

/// The paper's fourth: four columns in a long word, of 64 bits today. A turn of the loop takes four
/// rows, so that the loop's own instructions do not count.
pub fn op4(bytes: &[u8]) -> Cxor {
    let mut columns = [0u64; 4];
    let mut rows = bytes.chunks_exact(128);
    for four in &mut rows {
        for row in four.chunks_exact(32) {
            xor_long(&mut columns, row);
        }
        columns = columns.map(in_register);
    }
    let mut rows = rows.remainder().chunks_exact(32);
    for row in &mut rows {
        xor_long(&mut columns, row);
        columns = columns.map(in_register);
    }
    Cxor::from_long_columns(columns).with_rest(rows.remainder())
}

#[inline(always)]
fn xor_long(columns: &mut [u64; 4], row: &[u8]) {
    for (column, long) in columns.iter_mut().zip(row.chunks_exact(8)) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(long);
        *column = in_register(*column ^ u64::from_le_bytes(bytes));
    }
}

/// The stage: finds the check function in vectors.
#[derive(Clone, Copy, Debug)]
pub struct CxorSum;

impl Stage for CxorSum {
    type Output = Cxor;
    const NAME: &'static str = "cxor";
    const BLOCK: usize = 2;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 1;
    const ORDERED: bool = true;
    const VECTORS: usize = 8;
}

impl<L: Lanes> Run<L> for CxorSum {
    /// Columns. A vector of 16 bytes has but 8 of the 16, so there are two: that of the next vector and
    /// that of the one after.
    type State = [L::V; 2];
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        [lanes.zero(); 2]
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        if N == 1 {
            *state = [state[1], lanes.xor(state[0], x[0])];
            return;
        }
        let mut all = *x;
        let mut n = N;
        while n > 2 {
            n /= 2;
            for i in 0..n {
                all[i] = lanes.xor(all[i], all[i + n]);
            }
        }
        for (state, all) in state.iter_mut().zip(all) {
            *state = lanes.xor(*state, all);
        }
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Cxor {
        let [a, b] = state;
        let (all, turned) = if L::WIDTH == 16 {
            // The columns 0 to 7 are in the vector before last if there is an odd number of them.
            let (a, b) = if len.div_ceil(16) % 2 == 1 { (b, a) } else { (a, b) };
            let turned = lanes.xor(lanes.turn16::<0>(a), lanes.turn16::<8>(b));
            (lanes.xor(a, b), turned)
        } else {
            let all = lanes.xor(a, b);
            (all, lanes.turn16::<0>(all))
        };
        let word = |x: u64| {
            let x = x ^ x >> 32;
            ((x ^ x >> 16) as u16).swap_bytes()
        };
        Cxor { xor: word(lanes.xor64(all)), rxor: word(lanes.xor64(turned)) }
    }
}

/// A scalar form of the sum.
pub type Form = fn(&[u8]) -> Cxor;

/// The scalar forms by the paper's names.
pub const FORMS: [(&str, Form); 5] =
    [("standard", standard), ("op1", op1), ("op2", op2), ("op3", op3), ("op4", op4)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::execution::Scan;

    #[test]
    fn every_form_gives_the_same() {
        let message: Vec<u8> = (0..1000u32).map(|i| (i * i * 31 + i * 7) as u8).collect();
        for len in (0..300).chain([999, 1000]) {
            let bytes = &message[..len];
            let want = Cxor::of(bytes);
            for (name, form) in FORMS {
                assert_eq!(form(bytes), want, "{name}, {len} bytes");
            }
            for level in Level::available() {
                assert_eq!(level.run(Scan { stage: &CxorSum, src: bytes }), want, "{level} {len}");
            }
        }
    }

    #[test]
    fn words_turn_one_bit_further_each() {
        let cxor = Cxor::of(&[0x80, 0x01, 0x80, 0x01, 0x40]);
        assert_eq!(cxor, Cxor { xor: 0x4000, rxor: 0x8001 ^ 0x0003 ^ 0x0001 });
        assert_eq!(cxor.bits(), 0x4000_8003);
    }
}
