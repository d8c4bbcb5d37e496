//! The paper's message, with its length inside the encrypted part: B, C, A makes the bytes of A, B, C and
//! of a slow oracle that builds the whole message first.

use fusewire_base::Sum;
use fusewire_experiments::parts::{Error, PartsReceiver, PartsSender, message_len};
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};

const KEY: [u8; 8] = [3, 1, 4, 1, 5, 9, 2, 6];
const CIPHERS: [Cipher; 4] =
    [Cipher::PES, Cipher::SAFER_SIMPLIFIED, Cipher::SAFER_K64.with(1).unwrap(), Cipher::SAFER_K64];
const ELEMENTS: [Swap; 3] = [Swap::None, Swap::Bytes16, Swap::Bytes32];

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 73 + 5) as u8).collect()
}

fn swapped(element: Swap, data: &[u8]) -> Vec<u8> {
    let width = match element {
        Swap::None => 1,
        Swap::Bytes16 => 2,
        Swap::Bytes32 => 4,
        Swap::Bytes64 => 8,
    };
    // Alignment bytes are marshalled like data: elements may reach into them.
    let mut out = data.to_vec();
    out.resize(data.len().next_multiple_of(4), 0);
    out.chunks_mut(width).for_each(<[u8]>::reverse);
    out
}

/// Whole message in the clear, then one block after the other.
fn oracle(cipher: Cipher, element: Swap, data: &[u8]) -> Vec<u8> {
    let mut message = (data.len() as u32).to_be_bytes().to_vec();
    message.extend(swapped(element, data));
    message.resize(message_len(data.len()), 0);
    let (level, execution) = (Level::PORTABLE, Execution::Sequential);
    let mut transform = Transform::new(level, execution, Swap::None, cipher, &KEY);
    let mut out = vec![0; message.len()];
    for (src, dst) in message.chunks(8).zip(out.chunks_mut(8)) {
        transform.send(&[0; 12], &[], src, dst, &mut [0; 16]);
    }
    out
}

fn sides(level: Level, element: Swap, cipher: Cipher) -> (PartsSender, PartsReceiver) {
    (
        PartsSender::new(level, element, cipher, KEY).unwrap(),
        PartsReceiver::new(level, element, cipher, KEY).unwrap(),
    )
}

#[test]
fn both_orders_make_the_same_message_which_opens() {
    for level in Level::available() {
        for cipher in CIPHERS {
            for element in ELEMENTS {
                let (mut sender, mut receiver) = sides(level, element, cipher);
                for len in (0..70).chain([255, 256, 1019, 1020, 1021, 1408, 4097]) {
                    let data = data(len);
                    let mut message = vec![0xee; message_len(len) + 5];
                    let mut in_order = vec![0; message_len(len)];
                    let (sealed_len, sum) = sender.seal(&data, &mut message).unwrap();
                    assert_eq!(sealed_len, message_len(len));
                    assert_eq!(message[sealed_len..], [0xee; 5]);
                    message.truncate(sealed_len);
                    assert_eq!(
                        sender.seal_in_order(&data, &mut in_order).unwrap(),
                        (sealed_len, sum)
                    );
                    assert_eq!(message, in_order, "{cipher} {element:?} {len}");
                    assert_eq!(
                        message,
                        oracle(cipher, element, &data),
                        "{cipher} {element:?} {len}"
                    );
                    assert_eq!(sum, Sum::of(&message));
                    let mut out = vec![0xee; len + 3];
                    assert_eq!(receiver.open(&message, &mut out).unwrap(), (len, sum));
                    assert_eq!(out[..len], data);
                    assert_eq!(out[len..], [0xee; 3]);
                }
            }
        }
    }
}

#[test]
fn pieces_of_any_size_make_the_same_message() {
    let (mut sender, _) = sides(Level::detect(), Swap::Bytes32, Cipher::SAFER_SIMPLIFIED);
    let data = data(300);
    let mut expected = vec![0; message_len(300)];
    let whole = sender.seal(&data, &mut expected).unwrap();
    for size in 1..=40 {
        let mut dst = vec![0; message_len(300)];
        let mut message = sender.begin(&mut dst);
        data.chunks(size).for_each(|piece| message.push(piece).unwrap());
        assert_eq!(message.finish().unwrap(), whole);
        assert_eq!(dst, expected, "pieces of {size}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (mut sender, mut receiver) = sides(Level::detect(), Swap::None, Cipher::PES);
    let mut dst = [0; 24];
    assert!(sender.seal(&[1; 21], &mut dst).is_err());
    assert!(sender.seal_in_order(&[1; 21], &mut dst).is_err());
    assert_eq!(dst, [0; 24]);
    assert!(sender.begin(&mut []).finish().is_err());
    sender.seal(&[1; 20], &mut dst).unwrap();
    assert!(receiver.open(&dst, &mut [0; 19]).is_err());
    for len in 0..24 {
        assert!(matches!(receiver.open(&dst[..len], &mut [0; 20]), Err(Error::Malformed { .. })));
    }
    let level = Level::detect();
    assert!(PartsSender::new(level, Swap::None, Cipher::AES_256_GCM, KEY).is_err());
    assert!(PartsReceiver::new(level, Swap::Bytes64, Cipher::PES, KEY).is_err());
}
