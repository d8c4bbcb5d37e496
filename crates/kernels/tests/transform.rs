//! `Transform`: round trips, agreement of executions and levels, forged tags.

use fusewire_base::Sum;
use fusewire_kernels::{Check, Cipher, Cxor, Execution, Found, Level, Swap, Transform};

const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];
const SWAPS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];

fn new(level: Level, execution: Execution, swap: Swap, cipher: Cipher) -> Transform {
    let key: Vec<u8> = (1..=cipher.key_len as u8).collect();
    Transform::new(level, execution, swap, cipher, &key)
}

fn message(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

/// What a check finds, the slow way: beside a tag there is no CXOR.
fn slow(check: Check, cipher: Cipher, bytes: &[u8]) -> Found {
    match check {
        Check::Internet => Found::Sum(Sum::of(bytes)),
        Check::Cxor if cipher.tag_len == 0 => Found::Cxor(Cxor::of(bytes)),
        Check::Cxor | Check::None => Found::Nothing,
    }
}

#[test]
fn what_is_sent_is_received() {
    let nonces = [3; 32];
    let aad = [1, 2, 3, 4, 5];
    for level in Level::available() {
        for cipher in Cipher::ALL {
            let nonce = &nonces[..cipher.nonce_len];
            for swap in SWAPS {
                for len in [0, 8, 16, 64, 104, 1000, 1024, 1400, 5000, 8216] {
                    let src = message(len);
                    let mut seen = None;
                    for (execution, check) in
                        EXECUTIONS.into_iter().flat_map(|e| Check::ALL.map(|check| (e, check)))
                    {
                        let mut send = new(level, execution, swap, cipher);
                        let mut receive = new(level, execution, swap, cipher);
                        send.set_check(check);
                        receive.set_check(check);
                        let (mut sealed, mut opened) = (vec![0; len], vec![0; len]);
                        let mut tag = vec![0; cipher.tag_len];
                        let sent = send.send(nonce, &aad, &src, &mut sealed, &mut tag);
                        assert_eq!(sent, slow(check, cipher, &sealed), "{execution:?} {check}");
                        let found = receive.receive(nonce, &aad, &sealed, &tag, &mut opened);
                        assert!(found.authentic);
                        assert_eq!(found.sum, sent, "{execution:?} {check}");
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
    fn once(level: Level, execution: Execution, cipher: Cipher) -> bool {
        new(level, execution, Swap::None, cipher).stores_once()
    }
    for level in Level::available() {
        for cipher in Cipher::ALL {
            for execution in [Execution::Blocked, Execution::Sequential] {
                assert!(!once(level, execution, cipher), "{execution:?}");
            }
        }
        assert!(once(level, Execution::Integrated, Cipher::CHACHA20_POLY1305));
    }
    // The library's AES, where a level has none.
    assert!(!once(Level::PORTABLE, Execution::Integrated, Cipher::AES_256_GCM));
}

#[test]
fn a_forgery_is_wiped() {
    for level in Level::available() {
        for cipher in Cipher::ALL {
            for execution in EXECUTIONS {
                let mut transform = new(level, execution, Swap::Bytes32, cipher);
                if transform.tag_len() == 0 {
                    continue;
                }
                let src = message(333);
                let nonce = &[1; 32][..cipher.nonce_len];
                let (mut sealed, mut tag) = (vec![0; 333], vec![0; cipher.tag_len]);
                transform.send(nonce, b"aad", &src, &mut sealed, &mut tag);
                for break_it in 0..3 {
                    let (mut sealed, mut tag, mut aad) = (sealed.clone(), tag.clone(), *b"aad");
                    match break_it {
                        0 => sealed[300] ^= 1,
                        1 => tag[15] ^= 0x80,
                        _ => aad[0] ^= 1,
                    }
                    let mut opened = vec![0xee; 333];
                    let found = transform.receive(nonce, &aad, &sealed, &tag, &mut opened);
                    assert!(!found.authentic);
                    assert_eq!(found.sum, Sum::of(&sealed));
                    assert_eq!(opened, vec![0; 333]);
                }
            }
        }
    }
}
