//! Measurements for `fusewire bench kernels`: every execution of a pipeline beside the others, in one
//! run.
//!
//! Methods alternate, round after round, on the same buffers; what a method made is compared with the
//! others' before it is timed; a figure is the median over rounds, in bytes of message a second. Up to
//! the cache's size that is the warm case, at 64 MiB the cold one.

mod checks;
mod contest;
mod pipelines;

pub use checks::checks;
pub use contest::alternate;
pub use pipelines::pipelines;

use std::cell::RefCell;

use crate::named::named;
use fusewire_kernels::Level;
use serde::Serialize;
use std::time::Duration;

/// The sizes that the experiments ask for, in bytes.
pub const SIZES: [usize; 10] =
    [256, 512, 1024, 1280, 1408, 4096, 16_384, 65_536, 1_048_576, 67_108_864];

named! {
    /// Which way a pipeline ran.
    Direction {
        /// swap ▸ encipher ▸ sum ▸ store.
        Send = "send",
        /// load ▸ sum ▸ decipher ▸ swap.
        Receive = "receive",
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds in which every method has a turn; the median is over these.
    pub rounds: usize,
    /// Bytes that a method passes in its turn, one message at least.
    pub bytes_a_turn: usize,
    /// After so long no further round begins, when there have been seven.
    pub enough: Duration,
}

impl Effort {
    /// Short, for tests: results mean nothing.
    pub const SMOKE: Effort = Effort { rounds: 3, bytes_a_turn: 1, enough: Duration::ZERO };
    /// Full.
    pub const FULL: Effort =
        Effort { rounds: 41, bytes_a_turn: 2 << 20, enough: Duration::from_millis(1500) };
}

/// What to measure.
pub struct Plan<'a> {
    /// Which instructions.
    pub level: Level,
    /// Lengths of the message, in bytes.
    pub sizes: &'a [usize],
    /// How long.
    pub effort: Effort,
    /// Whether the pipeline or check function of that name is to be measured.
    pub wanted: &'a dyn Fn(&str) -> bool,
    /// Told the name and the length before each.
    pub begins: &'a dyn Fn(&str, usize),
}

impl Plan<'_> {
    /// Whether to measure it; says so if it is.
    fn takes(&self, name: &str, size_bytes: usize) -> bool {
        let wanted = (self.wanted)(name);
        if wanted {
            (self.begins)(name, size_bytes);
        }
        wanted
    }
}

/// What was measured of one pipeline, direction and size. Rates are bytes of message a second.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The stages, joined with ` ▸ `.
    pub pipeline: &'static str,
    /// Which way.
    pub direction: Direction,
    /// Length of the message.
    pub size_bytes: usize,
    /// The CPU level.
    pub level: &'static str,
    /// One loop.
    pub integrated: f64,
    /// Strip by strip.
    pub blocked: f64,
    /// A pass a stage.
    pub sequential: f64,
    /// One loop, each stage called through a function pointer a unit.
    pub function_pointers: Option<f64>,
    /// One 32-bit word at a time through each stage, as Abbott and Peterson have it, in one loop.
    #[serde(skip)]
    pub word_filters: Option<f64>,
    /// The best that others have: for an AEAD aws-lc-rs, or libaegis, which works in the message's place, with a
    /// pass of ours before and after it; for a copy the C library's.
    pub reference: Option<f64>,
}

/// What was measured of one form of a check function that only reads, or of one check in a loop that moves the message.
#[derive(Clone, Debug, Serialize)]
pub struct CheckLine {
    /// `cxor`, `internet`, `iso-tp4` or `crc32c`; or the stages of a loop in which one of the
    /// checks is, `records: ` before those of the data path.
    pub function: &'static str,
    /// `standard`, `op1` to `op4`, `vector`, or `load_only` for a loop that only loads; the check in a loop.
    pub form: &'static str,
    /// Length of the message.
    pub size_bytes: usize,
    /// The CPU level; scalar forms do not use it.
    pub level: &'static str,
    /// Bytes a second.
    #[serde(rename = "bytes_per_s")]
    pub rate: f64,
}

/// The names of all pipelines and check functions, each once.
pub fn names() -> Vec<String> {
    let names = RefCell::new(Vec::new());
    let none = |name: &str| {
        let mut names = names.borrow_mut();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        false
    };
    let plan = Plan {
        level: Level::detect(),
        sizes: &SIZES[..1],
        effort: Effort::SMOKE,
        wanted: &none,
        begins: &|_, _| {},
    };
    pipelines(&plan, &mut |_| {});
    checks(&plan, &mut |_| {});
    names.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_without_measuring() {
        let names = names();
        for name in ["copy ▸ internet ▸ store", "swap32 ▸ aegis-256 ▸ internet ▸ store", "crc32c"]
        {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
    }

    #[test]
    fn every_method_of_every_pipeline_agrees() {
        for level in Level::available() {
            let mut lines = 0;
            let sizes = [256, 1408, 4096 + 8, 16_384];
            let (wanted, begins) = (|_: &str| true, |_: &str, _: usize| {});
            let effort = Effort::SMOKE;
            let mut plan = Plan { level, sizes: &sizes, effort, wanted: &wanted, begins: &begins };
            pipelines(&plan, &mut |line| {
                lines += 1;
                assert!(line.integrated > 0.0 && line.blocked > 0.0 && line.sequential > 0.0);
                let reference = line.pipeline.starts_with("copy")
                    || line.pipeline.contains("gcm")
                    || line.pipeline.contains("aegis")
                    || line.pipeline.contains("poly1305");
                assert_eq!(line.reference.is_some(), reference, "{}", line.pipeline);
                assert!(line.level == level.name());
            });
            assert_eq!(lines, sizes.len() * 20, "ten pipelines, two directions");
            let mut forms = Vec::new();
            let wanted = |name: &str| name == "cxor" || name.contains("check");
            plan.wanted = &wanted;
            checks(&plan, &mut |line| forms.push((line.function, line.form)));
            assert!(forms.contains(&("cxor", "op4")) && forms.contains(&("cxor", "load_only")));
            let alone = forms.iter().filter(|(function, _)| *function == "cxor").count();
            // Two checks in each of three loops, three in two data paths each way.
            assert_eq!((alone, forms.len() - alone), (sizes.len() * 7, sizes.len() * (6 + 12)));
        }
    }
}
