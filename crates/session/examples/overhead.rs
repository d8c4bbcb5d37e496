//! What a record costs beyond the transform: `seal` and `open` against the bare transform, alternating.
//!
//! `cargo run --release -p fusewire-session --example overhead`

use fusewire_kernels::{Execution, Level, Swap, Transform};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{HEADER_LEN, RecordParams};
use fusewire_session::{Cipher, DataPass, RecordReceiver, RecordSender, RecordType};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 400;
const CALLS: usize = 200;

/// The least nanoseconds a call over all rounds, of each of the two.
fn contest(mut a: impl FnMut(), mut b: impl FnMut()) -> (f64, f64) {
    let mut least = (f64::MAX, f64::MAX);
    let time = |f: &mut dyn FnMut(), least: &mut f64| {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| f());
        *least = least.min(begin.elapsed().as_nanos() as f64 / CALLS as f64);
    };
    for _ in 0..ROUNDS {
        time(&mut a, &mut least.0);
        time(&mut b, &mut least.1);
    }
    least
}

fn main() {
    let level = Level::detect();
    let data_pass = DataPass { level, execution: Execution::Integrated };
    println!("level {}, nanoseconds a call, least of {ROUNDS} x {CALLS} calls", level.name());
    println!(
        "{:18} {:>6} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7}",
        "cipher", "bytes", "send", "seal", "+", "receive", "open", "+"
    );
    for cipher in [Cipher::NONE, Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305] {
        for len in [64, 1024, 1408, 16_384] {
            let params = RecordParams::new(cipher, Swap::Bytes32, 1 << 20, data_pass);
            let secret = || TrafficSecret::from_bytes([1; 32]);
            let mut sender = RecordSender::new(params, secret(), 0).expect("valid");
            let mut receiver = RecordReceiver::new(params, secret(), 0).expect("valid");
            let mut transform = Transform::new(
                level,
                Execution::Integrated,
                Swap::Bytes32,
                cipher,
                &[7; 32][..cipher.key_len],
            );
            let body = vec![5u8; len];
            let mut record = vec![0u8; sender.record_len(len)];
            let mut other = vec![0u8; len];
            let mut tag = [0; 16];
            let header = [3; HEADER_LEN];
            let (send, seal) = contest(
                || {
                    black_box(transform.send(
                        &[1; 12],
                        &header,
                        black_box(&body),
                        &mut other,
                        &mut tag,
                    ));
                },
                || {
                    let offset = sender.next_offset();
                    black_box(sender.seal(offset, RecordType::Adu, black_box(&body), &mut record))
                        .expect("valid");
                },
            );
            let ciphertext = other.clone();
            let mut out = vec![0u8; len];
            let mut out_2 = vec![0u8; len];
            let offset = sender.next_offset() - record.len() as u64;
            let (receive, open) = contest(
                || {
                    let opened = transform.receive(
                        &[1; 12],
                        &header,
                        black_box(&ciphertext),
                        &tag,
                        &mut out,
                    );
                    assert!(black_box(opened).authentic);
                },
                || {
                    black_box(receiver.open(offset, black_box(&record), &mut out_2))
                        .expect("authentic");
                },
            );
            println!(
                "{:18} {len:>6} {send:>9.1} {seal:>9.1} {:>7.1} {receive:>9.1} {open:>9.1} {:>7.1}",
                cipher.to_string(),
                seal - send,
                open - receive
            );
        }
    }
}
