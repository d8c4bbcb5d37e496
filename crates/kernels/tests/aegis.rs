//! AEGIS against a library (libaegis, by the crate `aegis`): every length, split into swap and sum, at every level
//! and in every execution; and the draft's own vectors.

use aegis::aegis128l::Aegis128L;
use aegis::aegis128x2::Aegis128X2;
use aegis::aegis256::Aegis256;
use fusewire_base::Sum;
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};

const AEGIS: [Cipher; 3] = [Cipher::AEGIS_128L, Cipher::AEGIS_256, Cipher::AEGIS_128X2];
const SWAPS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

fn noise(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

/// What the library makes of the swapped message.
fn oracle(
    cipher: Cipher,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    plain: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    if cipher == Cipher::AEGIS_128L {
        let (key, nonce) = (key.try_into().unwrap(), nonce.try_into().unwrap());
        let (sealed, tag) = Aegis128L::<16>::new(key, nonce).encrypt(plain, aad);
        return (sealed, tag.to_vec());
    }
    if cipher == Cipher::AEGIS_128X2 {
        let (key, nonce) = (key.try_into().unwrap(), nonce.try_into().unwrap());
        let (sealed, tag) = Aegis128X2::<16>::new(key, nonce).encrypt(plain, aad);
        return (sealed, tag.to_vec());
    }
    let (key, nonce) = (key.try_into().unwrap(), nonce.try_into().unwrap());
    let (sealed, tag) = Aegis256::<32>::new(key, nonce).encrypt(plain, aad);
    (sealed, tag.to_vec())
}

fn check(
    transform: &mut Transform,
    cipher: Cipher,
    key: &[u8],
    swap: Swap,
    aad: &[u8],
    len: usize,
) {
    let (src, nonce) = (noise(len, 9), &noise(cipher.nonce_len, len as u32));
    let mut plain = src.clone();
    plain.chunks_exact_mut(swap.bytes()).for_each(<[u8]>::reverse);
    let (want, want_tag) = oracle(cipher, key, nonce, aad, &plain);
    let (mut sealed, mut tag) = (vec![0xaa; len], vec![0; cipher.tag_len]);
    let sum = transform.send(nonce, aad, &src, &mut sealed, &mut tag);
    assert!(sealed == want && tag == want_tag, "{cipher} {swap:?}, {len} bytes");
    assert_eq!(sum, Sum::of(&want));
    let mut opened = vec![0xaa; len];
    let found = transform.receive(nonce, aad, &sealed, &tag, &mut opened);
    assert!(found.authentic && opened == src, "{cipher} {swap:?}, {len} bytes");
    assert_eq!(found.sum, sum);
}

#[test]
fn every_length_is_as_the_library_says() {
    let mut levels = 0;
    for level in Level::available() {
        levels += 1;
        for cipher in AEGIS {
            let key = &noise(cipher.key_len, 5);
            for (execution, swap) in EXECUTIONS.into_iter().flat_map(|e| SWAPS.map(|s| (e, s))) {
                let transform = &mut Transform::new(level, execution, swap, cipher, key);
                for len in (0..600).chain([4095, 4096, 4097, 4112, 5000, 8191, 70_001]) {
                    check(transform, cipher, key, swap, &noise(len * 7 % 41, 3), len);
                }
            }
        }
    }
    assert_eq!(levels, Level::available().len());
}

#[test]
fn every_length_of_additional_data() {
    for level in Level::available() {
        for cipher in AEGIS {
            let key = &noise(cipher.key_len, 5);
            let (execution, swap) = (Execution::Integrated, Swap::Bytes32);
            let transform = &mut Transform::new(level, execution, swap, cipher, key);
            for aad in 0..=130 {
                for len in [0, 1, 15, 16, 17, 31, 32, 33, 100, 1024, 1388] {
                    check(transform, cipher, key, swap, &noise(aad, 1), len);
                }
            }
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| (digit(pair[0]) << 4) | digit(pair[1])).collect()
}

/// The draft's vectors at every level and in every execution: how many there are, and how many of forgeries.
fn vectors(cipher: Cipher, json: &str) -> [usize; 2] {
    let mut counts = [0; 2];
    for vector in json.split('{').skip(1) {
        let field = |name: &str| {
            let line = vector.lines().find(|line| line.contains(&format!("\"{name}\":")))?;
            line.split('"').nth(3)
        };
        let bytes = |name: &str| hex(field(name).unwrap_or_default());
        let tag = bytes(if cipher.tag_len == 16 { "tag128" } else { "tag256" });
        if field("key").is_none() || tag.is_empty() {
            continue;
        }
        let forged = field("error").is_some();
        let (key, nonce, aad, ciphertext) =
            (&bytes("key"), &bytes("nonce"), &bytes("ad"), bytes("ct"));
        for level in Level::available() {
            for execution in EXECUTIONS {
                let transform = &mut Transform::new(level, execution, Swap::None, cipher, key);
                let mut opened = vec![0xee; ciphertext.len()];
                let found = transform.receive(nonce, aad, &ciphertext, &tag, &mut opened);
                assert_eq!(found.authentic, !forged, "{level} {execution:?}");
                assert_eq!(found.sum, Sum::of(&ciphertext));
                if forged {
                    assert!(opened.iter().all(|byte| *byte == 0));
                    continue;
                }
                assert_eq!(opened, bytes("msg"), "{level} {execution:?}");
                let (mut sealed, mut made) = (vec![0; opened.len()], vec![0; tag.len()]);
                transform.send(nonce, aad, &opened, &mut sealed, &mut made);
                assert_eq!((&sealed, &made), (&ciphertext, &tag), "{level} {execution:?}");
            }
        }
        counts[usize::from(forged)] += 1;
    }
    counts
}

#[test]
fn vectors_of_the_draft() {
    let of_long = vectors(Cipher::AEGIS_128L, include_str!("data/aegis-128l.json"));
    let of_wide = vectors(Cipher::AEGIS_256, include_str!("data/aegis-256.json"));
    let of_twin = vectors(Cipher::AEGIS_128X2, include_str!("data/aegis-128x2.json"));
    assert_eq!([of_long, of_wide, of_twin], [[5, 4], [5, 4], [2, 0]]);
}
