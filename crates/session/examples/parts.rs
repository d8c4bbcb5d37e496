//! Braun and Diot's message, its length inside the encrypted part, against a length that is known first
//! and lies outside, as in records: nanoseconds a message.
//!
//! `cargo run --release -p fusewire-session --example parts`

use fusewire_kernels::Transform;
use fusewire_session::parts::{PartsReceiver, PartsSender, message_len};
use fusewire_session::{Cipher, Execution, Kernel, Level, Swap};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 300;
const KEY: [u8; 8] = [3, 1, 4, 1, 5, 9, 2, 6];

fn time(calls: usize, f: &mut dyn FnMut(), least: &mut f64) {
    let begin = Instant::now();
    (0..calls).for_each(|_| f());
    *least = least.min(begin.elapsed().as_nanos() as f64 / calls as f64);
}

fn main() {
    let kernel = Kernel { level: Level::detect(), execution: Execution::Integrated };
    println!(
        "level {}, 32-bit elements, nanoseconds a message, least of {ROUNDS} alternations",
        kernel.level.name()
    );
    println!(
        "{:18} {:>8} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}",
        "cipher",
        "bytes",
        "first",
        "A,B,C",
        "B,C,A",
        "÷ first",
        "open first",
        "open parts",
        "÷ first"
    );
    for cipher in [Cipher::PES, Cipher::SAFER_SIMPLIFIED, Cipher::SAFER_K64] {
        let element = Swap::Bytes32;
        let mut sender = PartsSender::new(cipher, element, kernel, KEY).expect("valid");
        let mut receiver = PartsReceiver::new(cipher, element, kernel, KEY).expect("valid");
        let mut transform = Transform::new(kernel.level, kernel.execution, element, cipher, &KEY);
        for len in [256, 512, 1024, 1280, 1408, 16_384] {
            let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let mut message = vec![0; message_len(len)];
            let (mut in_order, mut first) = (message.clone(), vec![0; len]);
            let (mut out, mut out_first) = (vec![0; len], vec![0; len]);
            let calls = (200_000 / len).max(8);
            let mut least = [f64::MAX; 5];
            for _ in 0..ROUNDS {
                let mut known_first = || {
                    black_box(transform.send(
                        &[0; 12],
                        &[],
                        black_box(&data),
                        &mut first,
                        &mut [0; 16],
                    ));
                };
                time(calls, &mut known_first, &mut least[0]);
                let mut abc = || {
                    black_box(sender.seal_in_order(black_box(&data), &mut in_order)).expect("fits");
                };
                time(calls, &mut abc, &mut least[1]);
                let mut bca = || {
                    black_box(sender.seal(black_box(&data), &mut message)).expect("fits");
                };
                time(calls, &mut bca, &mut least[2]);
                let mut open_first = || {
                    black_box(transform.receive(
                        &[0; 12],
                        &[],
                        black_box(&first),
                        &[0; 16],
                        &mut out_first,
                    ));
                };
                time(calls, &mut open_first, &mut least[3]);
                let mut open_parts = || {
                    black_box(receiver.open(black_box(&message), &mut out)).expect("well-formed");
                };
                time(calls, &mut open_parts, &mut least[4]);
            }
            assert!(message == in_order && out == data && out_first == data);
            let [first, abc, bca, open_first, open_parts] = least;
            println!(
                "{:18} {len:>8} {first:>10.1} {abc:>10.1} {bca:>10.1} {:>8.2} {open_first:>10.1} {open_parts:>10.1} {:>8.2}",
                cipher.to_string(),
                bca / first,
                open_parts / open_first
            );
        }
    }
}
