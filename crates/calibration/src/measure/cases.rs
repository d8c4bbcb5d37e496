//! Pipelines to check the model with. None of them was measured by calibration.

use fusewire_model::{Function, Pipeline};
use fusewire_synthetic::Lanes;

use crate::Error;
use crate::measure::random::Random;
use crate::measure::runner::synthetic;
use crate::measure::stages::{self, Case};
use fusewire_kernels::Level;

/// All that this machine can run: described functions as listed here, or with a seed drawn at random; and stages.
pub(crate) fn cases(seed: Option<u64>) -> Result<Vec<Case>, Error> {
    let mut all = Vec::new();
    let mut random = seed.map(Random::new);
    for lanes in Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()) {
        let shapes = match &mut random {
            Some(random) => (0..DRAWN).map(|_| drawn(lanes, random)).collect(),
            None => shapes(lanes),
        };
        for functions in shapes {
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
    let f = |state, instructions, block| Function::new(lanes.name(), state, instructions, block);
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

/// Pipelines of each kind of words that are drawn.
const DRAWN: usize = 12;

/// 2 to 7 functions of any kind.
fn drawn(lanes: Lanes, random: &mut Random) -> Vec<Function> {
    let functions = 2 + random.below(6);
    let doublings = random.below(4);
    let one = |_| {
        let block_words = 1 << random.below(doublings + 1);
        let looks_up = lanes.is_scalar() && random.below(5) == 0;
        let writes = looks_up || random.below(5) > 0;
        let least = u32::from(!writes);
        Function {
            words: lanes.name().to_owned(),
            state_words: (random.below(lanes.registers() as u32)).max(least),
            instructions: random.below(12) * block_words,
            block_words,
            writes,
            lookups: if looks_up { 1 + random.below(3) } else { 0 },
            table_bytes: if looks_up { 4096 << random.below(5) } else { 0 },
        }
    };
    (0..functions).map(one).collect()
}
