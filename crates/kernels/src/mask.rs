//! Masks: 16 bytes from a key and a number, which nobody tells from random ones without the key. What is xored with
//! one is enciphered, and deciphered in the same way, as long as no number comes twice.
//!
//! ```text
//! AES         AES(key, 8 zero bytes | number)                                          RFC 9001, section 5.4.3
//! ChaCha20    the first 16 bytes of the block of key, counter 0, 4 zero bytes | number  RFC 9001, section 5.4.4
//! ```
//! Numbers are big-endian. RFC 9001 makes its masks from a sample of the ciphertext instead.
#![forbid(unsafe_code)]

use crate::Level;
use crate::arch::aes::AesKey;
use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, UnboundCipherKey};
use zeroize::Zeroizing;

/// The expanded key of masks. Wiped when dropped.
pub struct Mask(Key);

enum Key {
    Aes(Box<AesKey>),
    /// Where the level has no AES.
    Library(Box<EncryptingKey>),
    ChaCha(Zeroizing<[u32; 8]>),
}

impl Mask {
    /// By AES-128 or AES-256, as the key's length says.
    ///
    /// # Panics
    /// With a key of another length.
    pub(crate) fn aes(level: Level, key: &[u8]) -> Mask {
        if let Some(key) = AesKey::new(level, key) {
            return Mask(Key::Aes(Box::new(key)));
        }
        let algorithm = match key.len() {
            16 => &AES_128,
            32 => &AES_256,
            other => panic!("an AES key of {other} bytes"),
        };
        let key = UnboundCipherKey::new(algorithm, key).and_then(EncryptingKey::ecb);
        Mask(Key::Library(Box::new(key.expect("the key's length is the algorithm's"))))
    }

    /// By ChaCha20.
    ///
    /// # Panics
    /// Unless the key has 32 bytes.
    pub(crate) fn chacha(_: Level, key: &[u8]) -> Mask {
        let (words, rest) = key.as_chunks();
        assert!(rest.is_empty() && words.len() == 8, "a ChaCha20 key of 32 bytes");
        Mask(Key::ChaCha(Zeroizing::new(core::array::from_fn(|i| u32::from_le_bytes(words[i])))))
    }

    /// The mask of a number.
    #[inline]
    pub fn of(&self, number: u64) -> [u8; 16] {
        match &self.0 {
            Key::Aes(key) => key.encipher(u128::from(number).to_be_bytes()),
            Key::Library(key) => {
                let mut block = u128::from(number).to_be_bytes();
                key.encrypt(&mut block).expect("one block");
                block
            }
            Key::ChaCha(key) => chacha(key, number),
        }
    }
}

/// Half a block of ChaCha20, of which 16 bytes are used (RFC 8439, section 2.3).
fn chacha(key: &[u32; 8], number: u64) -> [u8; 16] {
    const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
    let mut rows = [CONSTANTS, [0; 4], [0; 4], [0; 4]];
    rows[1].copy_from_slice(&key[..4]);
    rows[2].copy_from_slice(&key[4..]);
    // Of counter and nonce, which are little-endian words.
    rows[3][2] = ((number >> 32) as u32).swap_bytes();
    rows[3][3] = (number as u32).swap_bytes();
    for _ in 0..10 {
        round(&mut rows);
        turn(&mut rows, [1, 2, 3]);
        round(&mut rows);
        turn(&mut rows, [3, 2, 1]);
    }
    let mut out = [0; 16];
    for (out, (row, constant)) in
        out.as_chunks_mut().0.iter_mut().zip(rows[0].iter().zip(CONSTANTS))
    {
        *out = row.wrapping_add(constant).to_le_bytes();
    }
    out
}

/// A quarter round in each column.
#[inline(always)]
fn round([a, b, c, d]: &mut [[u32; 4]; 4]) {
    for i in 0..4 {
        a[i] = a[i].wrapping_add(b[i]);
        d[i] = (d[i] ^ a[i]).rotate_left(16);
        c[i] = c[i].wrapping_add(d[i]);
        b[i] = (b[i] ^ c[i]).rotate_left(12);
        a[i] = a[i].wrapping_add(b[i]);
        d[i] = (d[i] ^ a[i]).rotate_left(8);
        c[i] = c[i].wrapping_add(d[i]);
        b[i] = (b[i] ^ c[i]).rotate_left(7);
    }
}

/// Rows 1 to 3 turned left by so many words: diagonals become columns, and back.
#[inline(always)]
fn turn([_, b, c, d]: &mut [[u32; 4]; 4], by: [usize; 3]) {
    b.rotate_left(by[0]);
    c.rotate_left(by[1]);
    d.rotate_left(by[2]);
}
