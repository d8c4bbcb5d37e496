//! The clock of the core, and turns of what is measured.

use crate::measure::arena::{Arena, Places};
use fusewire_synthetic::{Function, Lanes, Program};
use std::time::{Duration, Instant};

/// The clock of the core, and whether somebody else uses its other thread.
///
/// Both change from one millisecond to the next. A chain of additions through state takes a cycle each, whatever else goes
/// on: one turn's goes on where the one before ended, and none of it beside another. Instructions that do not wait for each other go on as fast as the core can:
/// with another thread on it, half as fast or so.
pub(crate) struct Clock {
    chain: Program,
    abreast: Program,
    message: [u8; Clock::BYTES],
    place: [u8; Clock::BYTES],
}

/// What the clock says.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) ns_per_cycle: f64,
    /// Cycles that an instruction takes abreast of others.
    pub(crate) control: f64,
}

impl Clock {
    const BYTES: usize = 1024;
    const CHAIN: usize = 1024;
    const CHAIN_BYTES: usize = 32;
    const ABREAST: usize = 64;

    pub(crate) fn new() -> Result<Clock, fusewire_synthetic::Error> {
        let chain = Function { writes: false, ..Function::new(1, Clock::CHAIN, 1) };
        Ok(Clock {
            chain: Program::new(Lanes::Scalar64, &[chain])?,
            abreast: Program::new(Lanes::Scalar64, &[Function::new(0, Clock::ABREAST, 8)])?,
            message: [1; Clock::BYTES],
            place: [0; Clock::BYTES],
        })
    }

    pub(crate) fn look(&mut self) -> Look {
        let (message, place) = (&self.message, &mut self.place);
        let chain = &message[..Clock::CHAIN_BYTES];
        let chain = shortest(|| self.chain.read(chain));
        let ns_per_cycle = chain / (Clock::CHAIN * Clock::CHAIN_BYTES / 8) as f64;
        let abreast = shortest(|| self.abreast.run(message, place));
        let control = abreast / ns_per_cycle / (Clock::ABREAST * Clock::BYTES / 64) as f64;
        Look { ns_per_cycle, control }
    }
}

/// The shorter of two runs, in ns.
fn shortest(mut run: impl FnMut() -> Result<(), fusewire_synthetic::Error>) -> f64 {
    let mut once = || {
        let start = Instant::now();
        let done = run();
        debug_assert!(done.is_ok());
        start.elapsed().as_nanos().max(1) as f64
    };
    once().min(once())
}

/// The value that a part of all lie below.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1)) as f64 * part;
    values.get(at as usize).copied().unwrap_or(f64::NAN)
}

/// ns a call over a turn, the first call aside: it brings back what others pushed out of the caches.
pub fn turn(length: Duration, mut call: impl FnMut()) -> f64 {
    call();
    let once = Instant::now();
    call();
    let ns = once.elapsed().as_nanos().max(20);
    let count = (length.as_nanos() / ns).clamp(1, 100_000);
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Bytes of a message near that come before cold ones: code, state, tables and what the processor foresees are as they
/// are in the midst of work. Their words have chosen nearly all entries of each table.
const SETTLED: usize = 16 << 10;

/// ns of a run over a message of so many bytes in memory, in the midst of work.
pub(crate) fn far(arena: &mut Arena, bytes: usize, mut run: impl FnMut(Places<'_>)) -> f64 {
    run(arena.warm(SETTLED));
    cold_turn(cold_calls(bytes), || run(arena.cold(bytes)))
}

/// ns of a call whose memory is new each time, the first call aside: it brings back the code, which is not what is
/// cold.
pub(crate) fn cold_turn(count: usize, mut call: impl FnMut()) -> f64 {
    call();
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Calls in a turn over messages of so many bytes in memory.
pub(crate) fn cold_calls(bytes: usize) -> usize {
    ((32 << 10) / bytes.max(1)).clamp(1, 16)
}
