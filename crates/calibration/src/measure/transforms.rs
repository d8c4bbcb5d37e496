//! Data passes of the transfer, whole: what each cipher costs in each of the three ways.

use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
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
    cipher: Cipher,
    swap: Swap,
    level: Level,
    implementation: Implementation,
    short: Task,
    long: Task,
    cold: Task,
}

/// Its name in `kernels`.
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
    // Those with a parameter would be a measurement for each.
    for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.parameter.is_none()) {
        for swap in [Swap::None, Swap::Bytes32] {
            for implementation in Implementation::ALL {
                let mut add = |bytes: usize, cold: bool| {
                    let (execution, key) = (execution(implementation), &[1; 32][..cipher.key_len]);
                    let mut transform = Transform::new(level, execution, swap, cipher, key);
                    transform.reserve(bytes);
                    let mut run = move |Places { src, dst, .. }: Places<'_>| {
                        let nonce = &[2; 32][..cipher.nonce_len];
                        let tag = &mut [0; 32][..cipher.tag_len];
                        let sum = transform.send(nonce, b"header", src, dst, tag);
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
            cipher: one.cipher.name.to_owned(),
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
