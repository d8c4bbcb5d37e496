//! `Transform`: round trips, agreement of executions and levels, forged tags.

use fusewire_base::Sum;
use fusewire_kernels::{CipherKey, Execution, Level, Swap, Transform};

const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];
const SWAPS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];

fn keys() -> Vec<CipherKey> {
    vec![
        CipherKey::None,
        CipherKey::Pes(*b"pes key!"),
        CipherKey::Aes256Gcm([7; 32]),
        CipherKey::Aes128Gcm([8; 16]),
        CipherKey::ChaCha20Poly1305([9; 32]),
        CipherKey::SaferSimplified(*b"safer ky"),
        CipherKey::SaferK64 { key: *b"safer ky", rounds: 6 },
    ]
}

fn message(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

#[test]
fn what_is_sent_is_received() {
    let nonce = [3; 12];
    let aad = [1, 2, 3, 4, 5];
    for level in Level::available() {
        for key in &keys() {
            for swap in SWAPS {
                for len in [0, 8, 16, 64, 104, 1000, 1024, 1400, 5000] {
                    let src = message(len);
                    let mut seen = None;
                    for execution in EXECUTIONS {
                        let mut send = Transform::new(level, execution, swap, key);
                        let mut receive = Transform::new(level, execution, swap, key);
                        let (mut sealed, mut opened) = (vec![0; len], vec![0; len]);
                        let mut tag = [0; 16];
                        let sum = send.send(&nonce, &aad, &src, &mut sealed, &mut tag);
                        assert_eq!(sum, Sum::of(&sealed));
                        let found = receive.receive(&nonce, &aad, &sealed, &tag, &mut opened);
                        assert!(found.authentic);
                        assert_eq!(found.sum, sum);
                        assert_eq!(opened, src);
                        let this = (sealed, tag);
                        assert!(seen.get_or_insert(this.clone()) == &this, "{execution:?} differs");
                    }
                }
            }
        }
    }
}

#[test]
fn only_a_fused_loop_writes_ciphertext_alone() {
    fn once(level: Level, execution: Execution, key: &CipherKey) -> bool {
        Transform::new(level, execution, Swap::None, key).stores_once()
    }
    for level in Level::available() {
        for key in &keys() {
            for execution in [Execution::Blocked, Execution::Sequential] {
                assert!(!once(level, execution, key), "{execution:?}");
            }
        }
        let chacha = CipherKey::ChaCha20Poly1305([9; 32]);
        assert!(once(level, Execution::Integrated, &chacha));
    }
    // The library's AES, where a level has none.
    let aes = CipherKey::Aes256Gcm([7; 32]);
    assert!(!once(Level::PORTABLE, Execution::Integrated, &aes));
}

#[test]
fn a_forgery_is_wiped() {
    for level in Level::available() {
        for key in &keys() {
            for execution in EXECUTIONS {
                let mut transform = Transform::new(level, execution, Swap::Bytes32, key);
                if transform.tag_len() == 0 {
                    continue;
                }
                let src = message(333);
                let (mut sealed, mut tag) = (vec![0; 333], [0; 16]);
                transform.send(&[1; 12], b"aad", &src, &mut sealed, &mut tag);
                for break_it in 0..3 {
                    let (mut sealed, mut tag, mut aad) = (sealed.clone(), tag, *b"aad");
                    match break_it {
                        0 => sealed[300] ^= 1,
                        1 => tag[15] ^= 0x80,
                        _ => aad[0] ^= 1,
                    }
                    let mut opened = vec![0xee; 333];
                    let found = transform.receive(&[1; 12], &aad, &sealed, &tag, &mut opened);
                    assert!(!found.authentic);
                    assert_eq!(found.sum, Sum::of(&sealed));
                    assert_eq!(opened, vec![0; 333]);
                }
            }
        }
    }
}
