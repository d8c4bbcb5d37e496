//! Data passes of the transfer, whole: what each cipher costs in each of the three ways.

use fusewire_kernels::{CipherKey, Execution, Level, Swap, Transform};
use fusewire_model::Implementation;
use fusewire_model::machine;

use crate::measure::arena::Places;
use crate::measure::plan::{Plan, Task};
use crate::measure::timing::{cold_calls, cold_turn, turn};

const SHORT: usize = 1024;
const LONG: usize = 8192;
const COLD: usize = 32 << 10;

/// What is measured of one of them.
pub(crate) struct Planned {
    cipher: &'static str,
    swap: Swap,
    level: Level,
    implementation: Implementation,
    short: Task,
    long: Task,
    cold: Task,
}

/// As `--cipher` names them.
fn ciphers() -> [(&'static str, CipherKey); 6] {
    [
        ("none", CipherKey::None),
        ("aes-256-gcm", CipherKey::Aes256Gcm([1; 32])),
        ("aes-128-gcm", CipherKey::Aes128Gcm([1; 16])),
        ("chacha20-poly1305", CipherKey::ChaCha20Poly1305([1; 32])),
        ("pes", CipherKey::Pes([1; 8])),
        ("safer-simplified", CipherKey::SaferSimplified([1; 8])),
    ]
}

/// The kernels' name for it.
pub(crate) const fn execution(implementation: Implementation) -> Execution {
    match implementation {
        Implementation::Integrated => Execution::Integrated,
        Implementation::Blocked => Execution::Blocked,
        Implementation::Sequential => Execution::Sequential,
    }
}

pub(crate) fn tasks(plan: &mut Plan) -> Vec<Planned> {
    let level = Level::detect();
    let mut all = Vec::new();
    for (cipher, key) in ciphers() {
        for swap in [Swap::None, Swap::Bytes32] {
            for implementation in Implementation::ALL {
                let mut add = |bytes: usize, cold: bool| {
                    let mut transform =
                        Transform::new(level, execution(implementation), swap, &key);
                    transform.reserve(bytes);
                    let mut run = move |Places { src, dst, .. }: Places<'_>| {
                        let sum = transform.send(&[2; 12], b"header", src, dst, &mut [0; 16]);
                        std::hint::black_box(sum);
                    };
                    plan.add(move |arena, length| {
                        if cold {
                            return cold_turn(cold_calls(bytes), || run(arena.cold(bytes)));
                        }
                        turn(length, || run(arena.warm(bytes)))
                    })
                };
                let (short, long, cold) = (add(SHORT, false), add(LONG, false), add(COLD, true));
                all.push(Planned { cipher, swap, level, implementation, short, long, cold });
            }
        }
    }
    all
}

pub(crate) fn evaluate(all: Vec<Planned>, plan: &Plan) -> Vec<machine::Transform> {
    let evaluate = |one: Planned| {
        let [short, long] = [&one.short, &one.long].map(|task| plan.undisturbed(task));
        let cycles_per_byte = ((long - short) / (LONG - SHORT) as f64).max(1e-3);
        let start_cycles = (short - cycles_per_byte * SHORT as f64).max(0.0);
        let cold = (plan.typical(&one.cold) - start_cycles) / COLD as f64;
        machine::Transform {
            cipher: one.cipher.to_owned(),
            swap_bytes: one.swap.bytes() as u32,
            level: one.level.name().to_owned(),
            implementation: one.implementation,
            start_cycles,
            cycles_per_byte,
            cold_cycles_per_byte: cold.max(1e-3),
        }
    };
    all.into_iter().map(evaluate).collect()
}
