//! CXOR, the check function of XTP 3.6, optimised by hand after Dabbous (section 4.2.1). What it is, and in vectors:
//! [`fusewire_kernels::stages::CxorSum`].
//!
//! | function | the paper's | words |
//! |---|---|---|
//! | [`standard`] | std | a loop of xor, turn by one, xor |
//! | [`op1`] | op1 | turns saved to the end: an array of 16 columns |
//! | [`op2`] | op2 | the array made 16 variables, the loop unrolled |
//! | [`op3`] | op3 | the xor made from the columns at the end |
//! | [`op4`] | op4 | long words: four columns in each of four 64-bit words |
//!
//! They are kept scalar: the optimiser would make vector code of op2 to op4.

use fusewire_kernels::arch::in_register;
use fusewire_kernels::stages::Cxor;

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

/// `cxor` and what the last `bytes`, fewer than 32 behind a multiple of 32, add to it.
#[inline(always)]
fn with_rest(cxor: Cxor, bytes: &[u8]) -> Cxor {
    let rest = Cxor::of(bytes);
    Cxor { xor: cxor.xor ^ rest.xor, rxor: cxor.rxor ^ rest.rxor }
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
    Cxor { xor: xor.swap_bytes(), ..from_columns(columns) }
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
    let cxor = Cxor { xor: xor.swap_bytes(), ..from_columns(columns) };
    with_rest(cxor, rows.remainder())
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
    with_rest(from_columns(columns), rows.remainder())
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
    with_rest(from_long_columns(columns), rows.remainder())
}

#[inline(always)]
fn xor_long(columns: &mut [u64; 4], row: &[u8]) {
    for (column, long) in columns.iter_mut().zip(row.chunks_exact(8)) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(long);
        *column = in_register(*column ^ u64::from_le_bytes(bytes));
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

    #[test]
    fn every_form_gives_the_same() {
        let message: Vec<u8> = (0..1000u32).map(|i| (i * i * 31 + i * 7) as u8).collect();
        for len in (0..300).chain([999, 1000]) {
            let bytes = &message[..len];
            for (name, form) in FORMS {
                assert_eq!(form(bytes), Cxor::of(bytes), "{name}, {len} bytes");
            }
        }
    }
}
