//! Data passes of records, measured whole: each cipher, in both directions, in each of the three implementations.

use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
use fusewire_model::Implementation;
use fusewire_model::machine;

use crate::measure::arena::Places;
use crate::measure::plan::{Plan, Task};
use crate::measure::stages::{ByLength, LENGTHS, cycles};
use crate::measure::timing::{cold_calls, cold_turn, turn};

/// Bytes of the message that is measured from memory.
const COLD: usize = 32 << 10;

const HEADER: &[u8] = b"header";

/// A data pass.
#[derive(Clone, Copy)]
struct DataPass {
    level: Level,
    implementation: Implementation,
    swap: Swap,
    cipher: Cipher,
}

/// The measurements of one data pass in one direction.
pub(crate) struct Planned {
    pass: DataPass,
    receives: bool,
    near: ByLength,
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
    // A cipher with a parameter is measured with the usual one.
    for cipher in Cipher::ALL {
        for swap in [Swap::None, Swap::Bytes32] {
            for implementation in Implementation::ALL {
                let pass = DataPass { level, implementation, swap, cipher };
                let cold = pass.cold(plan);
                for receives in [false, true] {
                    let near = LENGTHS.map(|bytes| match receives {
                        false => pass.sent(plan, bytes),
                        true => pass.received(plan, bytes),
                    });
                    all.push(Planned { pass, receives, near, cold });
                }
            }
        }
    }
    all
}

impl DataPass {
    fn transform(&self, implementation: Implementation, bytes: usize) -> Transform {
        let key = &[1; 32][..self.cipher.key_len];
        let way = execution(implementation);
        let mut transform = Transform::new(self.level, way, self.swap, self.cipher, key);
        transform.reserve(bytes);
        transform
    }

    /// Seals a message, and returns its tag.
    fn seal(&self, transform: &mut Transform, src: &[u8], dst: &mut [u8]) -> [u8; 32] {
        let mut tag = [0; 32];
        let nonce = &[2; 32][..self.cipher.nonce_len];
        let sum = transform.send(nonce, HEADER, src, dst, &mut tag[..self.cipher.tag_len]);
        std::hint::black_box(sum);
        tag
    }

    fn sent(self, plan: &mut Plan, bytes: usize) -> Task {
        let mut transform = self.transform(self.implementation, bytes);
        plan.add(move |arena, length| {
            let Places { src, dst, .. } = arena.warm(bytes);
            turn(length, || {
                std::hint::black_box(self.seal(&mut transform, src, dst));
            })
        })
    }

    /// The message is sealed before each turn, because a message with a wrong tag is also wiped.
    fn received(self, plan: &mut Plan, bytes: usize) -> Task {
        let mut sealer = self.transform(Implementation::Integrated, bytes);
        let mut transform = self.transform(self.implementation, bytes);
        let message = vec![3; bytes];
        // Begins at a cache line, as the arena's places do.
        let mut memory = vec![0; bytes + 64];
        let start = memory.as_ptr().align_offset(64).min(64);
        plan.add(move |arena, length| {
            let sealed = &mut memory[start..start + bytes];
            let tag = self.seal(&mut sealer, &message, sealed);
            let (nonce, tag) = (&[2; 32][..self.cipher.nonce_len], &tag[..self.cipher.tag_len]);
            let Places { dst, .. } = arena.warm(bytes);
            turn(length, || {
                std::hint::black_box(transform.receive(nonce, HEADER, sealed, tag, dst));
            })
        })
    }

    /// A message that is sent from memory to memory. What memory adds is the same when it is received.
    fn cold(self, plan: &mut Plan) -> Task {
        let mut transform = self.transform(self.implementation, COLD);
        plan.add(move |arena, _| {
            cold_turn(cold_calls(COLD), || {
                let Places { src, dst, .. } = arena.cold(COLD);
                self.seal(&mut transform, src, dst);
            })
        })
    }
}

pub(crate) fn evaluate(all: Vec<Planned>, plan: &Plan) -> Vec<machine::Transform> {
    let evaluate = |one: Planned| {
        let near = cycles(plan, &one.near);
        let cold = plan.typical(&one.cold) / COLD as f64;
        machine::Transform {
            cipher: one.pass.cipher.to_string(),
            swap_bytes: one.pass.swap.bytes() as u32,
            level: one.pass.level.name().to_owned(),
            receives: one.receives,
            implementation: one.pass.implementation,
            near: LENGTHS.iter().map(|bytes| *bytes as f64).zip(near).collect(),
            cold_cycles_per_byte: cold.max(1e-3),
        }
    };
    all.into_iter().map(evaluate).collect()
}
