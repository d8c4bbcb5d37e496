//! SAFER: published vectors, an oracle of tables and bytes, vectors of our own for the simplified
//! cipher, at every level.

use fusewire_base::Sum;
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};

const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    core::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
}

fn message(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

/// exp by repeated multiplication and log by search.
fn exp(i: u8) -> u8 {
    ((0..i).fold(1u32, |x, _| x * 45 % 257) & 0xff) as u8
}
fn log(y: u8) -> u8 {
    (0..=255).find(|&i| exp(i) == y).unwrap()
}

/// The subkeys by the rule of the schedule, a byte at a time.
fn subkeys(key1: [u8; 8], key2: [u8; 8], rounds: usize, strengthened: bool) -> Vec<[u8; 8]> {
    let parity = |k: &[u8; 8]| k.iter().fold(0, |x, y| x ^ y);
    let mut a = key1.map(|k| k.rotate_left(5)).to_vec();
    a.push(parity(&key1).rotate_left(5));
    let mut b = key2.to_vec();
    b.push(parity(&key2));
    let mut all = vec![key2];
    for i in 1..=rounds {
        for register in [&mut a, &mut b] {
            register.iter_mut().for_each(|k| *k = k.rotate_left(6));
        }
        let skip = |n: usize| if strengthened { n % 9 } else { 0 };
        let pick = |r: &[u8], n: usize, bias: usize| -> [u8; 8] {
            core::array::from_fn(|j| {
                let bias = exp(exp((bias + j + 1) as u8));
                r[(skip(n) + j) % 9].wrapping_add(bias)
            })
        };
        all.push(pick(&a, 2 * i - 1, 18 * i));
        all.push(pick(&b, 2 * i, 18 * i + 9));
    }
    all
}

const XORED: [bool; 8] = [true, false, false, true, true, false, false, true];

fn mix(x: &mut [u8; 8], k: [u8; 8]) {
    for i in 0..8 {
        x[i] = if XORED[i] { x[i] ^ k[i] } else { x[i].wrapping_add(k[i]) };
    }
}

fn substitute(x: &mut [u8; 8], k1: [u8; 8], k2: [u8; 8]) {
    mix(x, k1);
    for i in 0..8 {
        x[i] = if XORED[i] { exp(x[i]).wrapping_add(k2[i]) } else { log(x[i]) ^ k2[i] };
    }
}

fn pht(x: &mut [u8; 8]) {
    for i in [0, 2, 4, 6] {
        let (a, b) = (x[i], x[i + 1]);
        x[i] = a.wrapping_mul(2).wrapping_add(b);
        x[i + 1] = a.wrapping_add(b);
    }
}

/// A block by the rule.
fn encrypt(mut x: [u8; 8], keys: &[[u8; 8]]) -> [u8; 8] {
    for pair in keys[..keys.len() - 1].chunks(2) {
        substitute(&mut x, pair[0], pair[1]);
        for layer in 0..3 {
            pht(&mut x);
            if layer < 2 {
                x = [0, 2, 4, 6, 1, 3, 5, 7].map(|i| x[i]);
            }
        }
    }
    mix(&mut x, keys[keys.len() - 1]);
    x
}

fn simplified(mut x: [u8; 8], key: [u8; 8]) -> [u8; 8] {
    let keys = subkeys(key, key, 1, false);
    substitute(&mut x, keys[0], keys[1]);
    pht(&mut x);
    x
}

/// Enciphers at every level and execution, compares, deciphers and compares.
fn check(cipher: Cipher, key: &[u8], src: &[u8], want: &[u8]) {
    for level in Level::available() {
        for execution in EXECUTIONS {
            let mut send = Transform::new(level, execution, Swap::None, cipher, key);
            let mut receive = Transform::new(level, execution, Swap::None, cipher, key);
            assert_eq!((send.tag_len(), send.block_len()), (0, 8));
            let mut sealed = vec![0; src.len()];
            let mut tag = [0xee; 16];
            let sum = send.send(&[0; 12], b"", src, &mut sealed, &mut tag);
            assert_eq!(sealed, want, "{level} {execution:?} {} bytes", src.len());
            assert_eq!(sum, Sum::of(want));
            assert_eq!(tag, [0xee; 16]);
            let mut opened = vec![0; src.len()];
            let found = receive.receive(&[0; 12], b"", &sealed, &tag, &mut opened);
            assert_eq!(opened, src, "{level} {execution:?} {} bytes back", src.len());
            assert!(found.authentic && found.sum == sum);
        }
    }
}

#[test]
fn published_vectors() {
    // Key, plaintext, ciphertext; from libtomcrypt and Crypto++.
    let k64 = [
        ("0807060504030201", "0102030405060708", "C8F29CDD87783ED9"),
        ("0000000000000000", "0000000000000000", "032808C90EE7AB7F"),
        ("0000000000000000", "0102030405060708", "7D28038633B92EB4"),
        ("0102030405060708", "1011121314151617", "71E5CF7F083A59C5"),
        ("0102030405060708", "18191A1B1C1D1E1F", "356F702CC7FA8161"),
    ];
    let sk64 = [
        ("0102030405060708", "0102030405060708", "5FCE9BA2058438C7"),
        ("0000000000000000", "0000000000000000", "032808C90EE7AB7F"),
        ("0000000000000000", "0102030405060708", "7D28038633B92EB4"),
        ("0000000000000001", "7071727374757677", "9ABE2C85BE2D7614"),
        ("0000000000000001", "78797A7B7C7D7E7F", "EBC4A9C6C25CF215"),
        ("0102030405060708", "8081828384858687", "54E72BA2D744C566"),
        ("0102030405060708", "88898A8B8C8D8E8F", "57F55D0F7EB6F8FE"),
    ];
    for (key, plain, cipher) in k64 {
        check(Cipher::SAFER_K64, &bytes::<8>(key), &bytes::<8>(plain), &bytes::<8>(cipher));
    }
    for (key, plain, cipher) in sk64 {
        check(
            Cipher::SAFER_SK64.with(6).unwrap(),
            &bytes::<8>(key),
            &bytes::<8>(plain),
            &bytes::<8>(cipher),
        );
    }
    let key = bytes::<16>("01020304050607080000000000000000");
    check(
        Cipher::SAFER_SK128,
        &key,
        &bytes::<8>("0102030405060708"),
        &bytes::<8>("FF7811E4B3A72E71"),
    );
}

/// The vectors of `docs/safer.md`.
#[test]
fn simplified_vectors() {
    let vectors = [
        ("0000000000000000", "0000000000000000", "210A95DA0E7F01C4"),
        ("0000000000000000", "0102030405060708", "4906400E6F9C7E3E"),
        ("0102030405060708", "0102030405060708", "210213293780771F"),
        ("0807060504030201", "FFFEFDFCFBFAF9F8", "9CF0AB49143E1723"),
        ("FFFFFFFFFFFFFFFF", "8080808080808080", "8799BCD9821C28C3"),
    ];
    for (key, plain, cipher) in vectors {
        let want = simplified(bytes(plain), bytes(key));
        let text: String = want.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(text, cipher);
        check(Cipher::SAFER_SIMPLIFIED, &bytes::<8>(key), &bytes::<8>(plain), &want);
    }
}

/// Every byte in every place, with keys that leave the tables' indices as they are or not.
#[test]
fn every_byte_in_every_place() {
    for key in [[0; 8], [0x53, 1, 0xff, 0x80, 7, 0xaa, 0x10, 0xc4]] {
        let src: Vec<u8> = (0..=255).flat_map(|x| [x; 8]).collect();
        let blocks = src.as_chunks::<8>().0;
        let want: Vec<u8> = blocks.iter().flat_map(|&x| simplified(x, key)).collect();
        check(Cipher::SAFER_SIMPLIFIED, &key, &src, &want);
        let keys = subkeys(key, key, 1, false);
        let want: Vec<u8> = blocks.iter().flat_map(|&x| encrypt(x, &keys)).collect();
        check(Cipher::SAFER_K64.with(1).unwrap(), &key, &src, &want);
    }
}

#[test]
fn every_length_and_number_of_rounds() {
    let (key1, key2) = (bytes("13579BDF02468ACE"), bytes("FEDCBA9876543210"));
    let mut long = [0; 16];
    long[..8].copy_from_slice(&key1);
    long[8..].copy_from_slice(&key2);
    let src = message(4200);
    let blocks = src.as_chunks::<8>().0;
    for rounds in 1..=13u8 {
        let r = usize::from(rounds);
        let ciphers = [
            (Cipher::SAFER_K64, &key1[..], subkeys(key1, key1, r, false)),
            (Cipher::SAFER_SK64, &key1[..], subkeys(key1, key1, r, true)),
            (Cipher::SAFER_SK128, &long[..], subkeys(key1, key2, r, true)),
        ];
        for (cipher, key, keys) in ciphers {
            let cipher = cipher.with(rounds).unwrap();
            let want: Vec<u8> = blocks[..37].iter().flat_map(|&x| encrypt(x, &keys)).collect();
            for len in (0..=37 * 8).step_by(if rounds == 3 { 8 } else { 104 }) {
                check(cipher, key, &src[..len], &want[..len]);
            }
        }
    }
    let want: Vec<u8> = blocks.iter().flat_map(|&x| simplified(x, key1)).collect();
    for len in (0..600).step_by(8).chain([4096, 4104, 4200]) {
        check(Cipher::SAFER_SIMPLIFIED, &key1, &src[..len], &want[..len]);
    }
}

#[test]
fn no_rounds_are_refused() {
    for cipher in [Cipher::SAFER_K64, Cipher::SAFER_SK64, Cipher::SAFER_SK128] {
        assert_eq!((cipher.with(0), cipher.with(14)), (None, None));
    }
}
