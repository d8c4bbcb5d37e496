//! Masks against published vectors, and against the ciphers whose blocks they are.

use fusewire_kernels::{Cipher, Execution, Level, Mask, Swap, Transform};

fn key(len: usize) -> Vec<u8> {
    (0..len as u8).map(|i| i * 7 + 3).collect()
}

fn mask(cipher: Cipher, level: Level, key: &[u8]) -> Mask {
    cipher.mask.expect("it has masks")(level, key)
}

const NUMBERS: [u64; 5] = [0, 1, 0x0102_0304_0506_0708, 1 << 32, u64::MAX];

/// NIST's Known Answer Test "KeySbox" (AESAVS, appendix C.1) enciphers zeros, which is number 0.
#[test]
fn the_block_of_number_zero_is_aes_of_zeros() {
    let mut key = [0; 16];
    key[..16].copy_from_slice(&[
        0x10, 0xa5, 0x88, 0x69, 0xd7, 0x4b, 0xe5, 0xa3, 0x74, 0xcf, 0x86, 0x7c, 0xfb, 0x47, 0x38,
        0x59,
    ]);
    let expected = 0x6d25_1e69_44b0_51e0_4eaa_6fb4_dbf7_8465_u128;
    for level in Level::available() {
        assert_eq!(
            u128::from_be_bytes(mask(Cipher::AES_128_GCM, level, &key).of(0)),
            expected,
            "{level}"
        );
    }
}

/// AES-GCM with a nonce of 96 bits enciphers its first block with AES(key, nonce | 2) (NIST SP 800-38D, section
/// 7.1): a number's upper half 0 and its lower half 2 are such a counter block.
#[test]
fn aes_is_that_of_gcm() {
    for cipher in [Cipher::AES_128_GCM, Cipher::AES_256_GCM] {
        let key = key(cipher.key_len);
        for level in Level::available() {
            let mask = mask(cipher, level, &key);
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
        0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86, 0xbd,
        0x28,
    ];
    assert_eq!(mask(Cipher::CHACHA20_POLY1305, Level::PORTABLE, &[0; 32]).of(0), expected);
    // Test vector 5: a nonce whose last byte is 2.
    let expected = [
        0xc2, 0xc6, 0x4d, 0x37, 0x8c, 0xd5, 0x36, 0x37, 0x4a, 0xe2, 0x04, 0xb9, 0xef, 0x93, 0x3f,
        0xcd,
    ];
    assert_eq!(mask(Cipher::CHACHA20_POLY1305, Level::PORTABLE, &[0; 32]).of(2), expected);
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
