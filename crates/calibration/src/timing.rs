//! Many short rounds, the fast ones of them.

use fusewire_synthetic::{Function, Lanes, Program};
use std::time::{Duration, Instant};

/// The clock of the core, and whether somebody else uses its other thread.
///
/// Both change from one millisecond to the next. A chain of additions and complements takes a cycle each,
/// whatever else goes on. Instructions that do not wait for each other go on as fast as the core can:
/// with another thread on it, half as fast or so. [`Clock::quiet`] waits for a moment without.
pub struct Clock {
    chain: Program,
    abreast: Program,
    message: [u8; Clock::BYTES],
    place: [u8; Clock::BYTES],
    /// The cycles that instructions abreast take, each, when nobody else is there.
    best: f64,
    /// How often somebody else was there for as long as anybody would wait, and how often not.
    disturbed: u64,
    quiet: u64,
}

impl Clock {
    const BYTES: usize = 1024;
    /// More than a processor looks ahead, or one chain would begin before the other ends.
    const CHAIN: usize = 1024;
    const CHAIN_BYTES: usize = 32;
    const ABREAST: usize = 64;
    /// Another thread on the core costs more than this.
    const NEAR: f64 = 1.08;
    /// As long as anybody would wait, in looks at it.
    const LOOKS: usize = 200;

    /// Ready to be asked, having looked for a while at how fast the core can be. `best` is what an
    /// earlier one has seen, or infinity.
    ///
    /// # Errors
    /// When this CPU has no such instructions.
    pub fn new(best: f64) -> Result<Clock, fusewire_synthetic::Error> {
        let program =
            |steps, block| Program::new(Lanes::Scalar64, &[Function::new(0, steps, block)]);
        let mut clock = Clock {
            chain: program(Clock::CHAIN, 1)?,
            abreast: program(Clock::ABREAST, 8)?,
            message: [1; Clock::BYTES],
            place: [0; Clock::BYTES],
            best,
            disturbed: 0,
            quiet: 0,
        };
        // Not the least of all: a look in which the chain was interrupted says too little.
        let mut looks = Times::default();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(800) {
            looks.add(clock.look().1);
        }
        clock.best = clock.best.min(looks.quantile(0.02));
        Ok(clock)
    }

    /// Cycles that an instruction abreast of others takes when nobody else is there.
    pub fn best(&self) -> f64 {
        self.best
    }

    /// Part of the moments that were asked for and were not to be had.
    pub fn disturbed(&self) -> f64 {
        self.disturbed as f64 / (self.disturbed + self.quiet).max(1) as f64
    }

    /// Waits for a moment without others, but not for long; ns a cycle in it.
    pub fn quiet(&mut self) -> f64 {
        let mut last = 0.0;
        for _ in 0..Clock::LOOKS {
            let (ns_per_cycle, cycles) = self.look();
            if cycles <= self.best * Clock::NEAR {
                self.quiet += 1;
                return ns_per_cycle;
            }
            last = ns_per_cycle;
        }
        self.disturbed += 1;
        last
    }

    /// ns a cycle, and cycles an instruction abreast of others.
    fn look(&mut self) -> (f64, f64) {
        let (message, place) = (&self.message, &mut self.place);
        let chain = &message[..Clock::CHAIN_BYTES];
        let chain = shortest(&mut self.chain, chain, &mut place[..Clock::CHAIN_BYTES]);
        let ns_per_cycle = chain / (Clock::CHAIN * Clock::CHAIN_BYTES / 8) as f64;
        let abreast = shortest(&mut self.abreast, message, place);
        let cycles = abreast / ns_per_cycle / (Clock::ABREAST * Clock::BYTES / 64) as f64;
        (ns_per_cycle, cycles)
    }
}

/// The shorter of two runs, in ns.
fn shortest(program: &mut Program, message: &[u8], place: &mut [u8]) -> f64 {
    let mut once = || {
        let start = Instant::now();
        let done = program.run(message, place);
        debug_assert!(done.is_ok());
        start.elapsed().as_nanos() as f64
    };
    once().min(once())
}

/// What one thing took, over its rounds.
#[derive(Clone, Debug, Default)]
pub struct Times {
    ns: Vec<f64>,
}

impl Times {
    /// Adds a round.
    pub fn add(&mut self, ns: f64) {
        self.ns.push(ns);
    }

    /// What it takes when nothing disturbs it: the fifth part of the rounds that is fastest ends here.
    pub fn undisturbed(&mut self) -> f64 {
        self.quantile(0.2)
    }

    /// Of memory, where chance is a part of the matter: the faster quarter ends here.
    pub fn typical(&mut self) -> f64 {
        self.quantile(0.25)
    }

    fn quantile(&mut self, part: f64) -> f64 {
        self.ns.sort_by(f64::total_cmp);
        let at = (self.ns.len().saturating_sub(1)) as f64 * part;
        self.ns.get(at as usize).copied().unwrap_or(f64::NAN)
    }
}

/// ns a call over a turn, the first call aside: it brings back what others pushed out of the caches.
pub fn turn(length: Duration, mut call: impl FnMut()) -> f64 {
    call();
    let once = Instant::now();
    call();
    let ns = once.elapsed().as_nanos().max(20);
    let count = (length.as_nanos() / ns).clamp(1, 10_000);
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// ns of a call whose memory is new each time: no call before it, several in a turn.
pub fn cold_turn(count: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}
