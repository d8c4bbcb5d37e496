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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cipher, Execution, Swap, Transform};

    fn key(len: usize) -> Vec<u8> {
        (0..len as u8).map(|i| i * 7 + 3).collect()
    }

    const NUMBERS: [u64; 5] = [0, 1, 0x0102_0304_0506_0708, 1 << 32, u64::MAX];

    /// NIST's Known Answer Test "KeySbox" (AESAVS, appendix C.1) enciphers zeros, which is number 0.
    #[test]
    fn the_block_of_number_zero_is_aes_of_zeros() {
        let mut key = [0; 16];
        key[..16].copy_from_slice(&[
            0x10, 0xa5, 0x88, 0x69, 0xd7, 0x4b, 0xe5, 0xa3, 0x74, 0xcf, 0x86, 0x7c, 0xfb, 0x47,
            0x38, 0x59,
        ]);
        let expected = 0x6d25_1e69_44b0_51e0_4eaa_6fb4_dbf7_8465_u128;
        for level in Level::available() {
            assert_eq!(u128::from_be_bytes(Mask::aes(level, &key).of(0)), expected, "{level}");
        }
    }

    /// AES-GCM with a nonce of 96 bits enciphers its first block with AES(key, nonce | 2) (NIST SP 800-38D, section
    /// 7.1): a number's upper half 0 and its lower half 2 are such a counter block.
    #[test]
    fn aes_is_that_of_gcm() {
        for cipher in [Cipher::AES_128_GCM, Cipher::AES_256_GCM] {
            let key = key(cipher.key_len);
            for level in Level::available() {
                let mask = cipher.mask.unwrap()(level, &key);
                for high in [0u32, 1, 0x0506_0708] {
                    let mut nonce = [0; 12];
                    nonce[8..].copy_from_slice(&high.to_be_bytes());
                    let expected = keystream(cipher, &key, &nonce);
                    assert_eq!(mask.of(u64::from(high) << 32 | 2), expected, "{cipher} {level}");
                }
            }
        }
    }

    /// RFC 8439, appendix A.1.
    #[test]
    fn chacha_is_that_of_the_rfc() {
        // Test vector 1: key, counter and nonce are zeros.
        let expected = [
            0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86,
            0xbd, 0x28,
        ];
        assert_eq!(Mask::chacha(Level::PORTABLE, &[0; 32]).of(0), expected);
        // Test vector 5: a nonce whose last byte is 2.
        let expected = [
            0xc2, 0xc6, 0x4d, 0x37, 0x8c, 0xd5, 0x36, 0x37, 0x4a, 0xe2, 0x04, 0xb9, 0xef, 0x93,
            0x3f, 0xcd,
        ];
        assert_eq!(Mask::chacha(Level::PORTABLE, &[0; 32]).of(2), expected);
    }

    #[test]
    fn every_number_and_key_has_a_mask_of_its_own() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.mask.is_some(), cipher.tag_len > 0, "{cipher}");
            let Some(make) = cipher.mask else { continue };
            let mut other = key(cipher.key_len);
            other[cipher.key_len - 1] ^= 1;
            let level = Level::detect();
            let both = [make(level, &key(cipher.key_len)), make(level, &other)];
            let mut masks: Vec<_> =
                NUMBERS.iter().flat_map(|n| both.iter().map(|m| m.of(*n))).collect();
            assert_eq!(masks[0], both[0].of(NUMBERS[0]), "the same again");
            masks.sort_unstable();
            masks.dedup();
            assert_eq!(masks.len(), 2 * NUMBERS.len());
        }
    }

    fn keystream(cipher: Cipher, key: &[u8], nonce: &[u8]) -> [u8; 16] {
        let level = Level::detect();
        let mut gcm = Transform::new(level, Execution::Integrated, Swap::None, cipher, key);
        let (mut block, mut tag) = ([0; 16], [0; 16]);
        gcm.send(nonce, &[], &[0; 16], &mut block, &mut tag);
        block
    }
}
