//! Pipelines to check the model with. None of them was measured by calibration.

use fusewire_model::{Function, Pipeline};
use fusewire_synthetic::Lanes;

use crate::Error;
use crate::runner::synthetic;
use crate::stages::{self, Case};
use fusewire_kernels::Level;

/// All that this machine can run.
pub(crate) fn cases() -> Result<Vec<Case>, Error> {
    let mut all = Vec::new();
    for lanes in Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()) {
        for functions in shapes(lanes) {
            let made = synthetic(lanes, &functions)?;
            all.push((Pipeline::Functions(functions), Box::new(made) as Box<_>));
        }
    }
    let levels = Level::available();
    for level in [levels.first(), levels.last()].into_iter().flatten() {
        all.extend(stages::cases(*level));
    }
    Ok(all)
}

/// Where one loop should gain: little state. Where it should not: state that each function alone has
/// registers for, and all together have not; tables that each fit the first-level cache alone.
fn shapes(lanes: Lanes) -> Vec<Vec<Function>> {
    let r = lanes.registers() as u32;
    let f = |state_words, instructions, block_words| Function {
        words: lanes.name().to_owned(),
        state_words,
        instructions,
        block_words,
        writes: true,
        lookups: 0,
        table_bytes: 0,
    };
    let reads =
        |state, instructions, block| Function { writes: false, ..f(state, instructions, block) };
    let most = r - 3;
    let mut shapes = vec![
        // The paper's loop: byte swap, pseudo-encryption, checksum.
        vec![f(0, 5, 1), f(0, 6, 2), reads(1, 4, 1)],
        vec![f(1, 4, 1); 3],
        vec![f(1, 12, 2); 5],
        vec![f(2, 20, 4); 2],
        vec![f(0, 10, 8), reads(2, 8, 1)],
        vec![f(most / 2, 3, 1); 3],
        vec![f(most, 3, 1); 2],
        vec![f(most, 3, 1); 4],
        vec![f(most, most, 1); 8],
        vec![f(most - 1, 10, 1); 3],
        vec![f(most / 2 + 1, 3, 1); 6],
    ];
    if lanes.is_scalar() {
        let table = |kib: u32| Function { lookups: 2, table_bytes: kib << 10, ..f(1, 4, 1) };
        shapes.push(vec![table(16); 2]);
        shapes.push(vec![table(32); 4]);
    }
    shapes
}
