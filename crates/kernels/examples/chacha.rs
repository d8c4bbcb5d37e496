//! ChaCha20-Poly1305 and SAFER beside their references: `cargo run --release -p fusewire-kernels
//! --example chacha [SIZE…] [NAME…]`. GB/s of message, medians of alternating rounds.

use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
use std::time::Instant;

const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let names: Vec<&String> = arguments.iter().filter(|a| a.parse::<usize>().is_err()).collect();
    let sizes = if sizes.is_empty() {
        vec![256, 512, 1024, 1280, 1408, 4096, 16_384, 65_536, 1 << 20]
    } else {
        sizes
    };
    let ciphers = [Cipher::CHACHA20_POLY1305, Cipher::SAFER_SIMPLIFIED, Cipher::SAFER_K64];
    let level = Level::detect();
    println!(
        "swap32 ▸ cipher ▸ Internet ▸ store at level {level}, GB/s; ratio is integrated ÷ sequential"
    );
    for cipher in ciphers {
        let name = cipher.name;
        if !names.is_empty() && !names.iter().any(|n| *n == name) {
            continue;
        }
        for &size in &sizes {
            let rates = measure(level, cipher, size);
            let [send, receive] = rates;
            println!(
                "{name:18} {size:8}  send {:5.2} {:5.2} {:5.2} ratio {:4.2}   receive {:5.2} {:5.2} {:5.2} ratio {:4.2}",
                send[0],
                send[1],
                send[2],
                send[0] / send[2],
                receive[0],
                receive[1],
                receive[2],
                receive[0] / receive[2],
            );
        }
    }
}

/// GB/s of each execution, sending and receiving.
fn measure(level: Level, cipher: Cipher, size: usize) -> [[f64; 3]; 2] {
    let src: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
    let (mut dst, mut opened) = (vec![0; size], vec![0; size]);
    let mut tag = [0; 16];
    let key = &[7; 32][..cipher.key_len];
    let mut transforms = EXECUTIONS.map(|e| Transform::new(level, e, Swap::Bytes32, cipher, key));
    let turns = ((1 << 19) / size).max(1);
    let mut seconds: [[Vec<f64>; 3]; 2] = Default::default();
    for _ in 0..60 {
        for (i, transform) in transforms.iter_mut().enumerate() {
            transform.send(&[1; 12], &[2; 16], &src, &mut dst, &mut tag);
            let start = Instant::now();
            for _ in 0..turns {
                transform.send(&[1; 12], &[2; 16], &src, &mut dst, &mut tag);
            }
            seconds[0][i].push(start.elapsed().as_secs_f64());
        }
        for (i, transform) in transforms.iter_mut().enumerate() {
            transform.receive(&[1; 12], &[2; 16], &dst, &tag, &mut opened);
            let start = Instant::now();
            for _ in 0..turns {
                let found = transform.receive(&[1; 12], &[2; 16], &dst, &tag, &mut opened);
                assert!(found.authentic);
            }
            seconds[1][i].push(start.elapsed().as_secs_f64());
        }
    }
    assert_eq!(opened, src);
    seconds.map(|direction| {
        direction.map(|mut s| {
            s.sort_by(f64::total_cmp);
            (size * turns) as f64 / s[s.len() / 2] / 1e9
        })
    })
}
