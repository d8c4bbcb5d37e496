//! Braun and Diot, sections 3.2 and 4.1: the data manipulations alone, over all pipelines of `kernels`; and
//! function pointers in place of macros.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::kernels::{Direction, Effort, Plan, pipelines};
use crate::record::Place;

/// The name without what all have, as people write it.
fn short(pipeline: &str) -> String {
    let name = pipeline.trim_end_matches(" ▸ store").trim_end_matches(" ▸ internet");
    let name = name.trim_start_matches("swap32 ▸ ");
    let words = match name {
        "copy" => "copy and sum",
        "pes" => "pseudo-encryption",
        "safer-simplified" => "simplified SAFER",
        "safer-k64:6" => "SAFER K-64 (6 rounds)",
        "aes-128-gcm" => "AES-128-GCM",
        "aes-256-gcm" => "AES-256-GCM",
        "chacha20-poly1305" => "ChaCha20-Poly1305",
        name => name,
    };
    words.to_owned()
}

pub(super) fn run(bench: &mut Bench<'_>, pointers: bool) -> Result<()> {
    let sizes: Vec<usize> = match (pointers, bench.quick) {
        (true, _) => vec![4096],
        (false, true) => vec![256, 1024, 4096, 65_536, 4 << 20],
        (false, false) => {
            vec![256, 512, 1024, 1280, 4096, 16_384, 65_536, 1 << 20, 8 << 20, 64 << 20]
        }
    };
    let effort = Effort {
        rounds: bench.choose(3, 5),
        bytes_a_turn: bench.choose(64 << 10, 256 << 10),
        enough: Duration::from_millis(bench.choose(15, 100)),
    };
    let level = bench.level;
    let rounds = bench.choose(3, if pointers { 7 } else { 3 });
    bench.rounds(rounds, |bench, round| {
        let mut lines = Vec::new();
        let (told, ended) = (RefCell::new((&mut *bench, 0)), Cell::new(None));
        // Seven pipelines, two directions.
        let all = 14 * sizes.len();
        let begins = |name: &str, size: usize| {
            let (bench, done) = &mut *told.borrow_mut();
            let part = (round as f64 + (*done as f64 / all as f64).min(1.0)) / rounds as f64;
            *done += 1;
            let what = format!("round {} of {rounds}, {}, {size} bytes", round + 1, short(name));
            if let Err(end) = bench.step(part, &what) {
                ended.set(Some(end));
            }
        };
        let goes_on = |_: &str| {
            let end = ended.take();
            let goes_on = end.is_none();
            ended.set(end);
            goes_on
        };
        let plan = Plan { level, sizes: &sizes, effort, wanted: &goes_on, begins: &begins };
        pipelines(&plan, &mut |line| lines.push(line.clone()));
        if let Some(end) = ended.into_inner() {
            return Err(end);
        }
        for line in lines {
            let (name, send) = (short(line.pipeline), line.direction == Direction::Send);
            let over = |rate: f64| line.integrated / rate;
            if pointers {
                let at = format!("{name}, {}", line.direction.name());
                let Some(rate) = line.function_pointers else { continue };
                bench.sample(Place::new("pointers", "function pointers", at.clone()), over(rate));
                bench.sample(
                    Place::new("pointers", "a pass for each stage", at),
                    over(line.sequential),
                );
                continue;
            }
            let chart = if send { "gain-send" } else { "gain-receive" };
            bench.sample(Place::new(chart, name.clone(), line.size_bytes), over(line.sequential));
            if !send {
                continue;
            }
            bench.sample(Place::new("blocked", name.clone(), line.size_bytes), over(line.blocked));
            bench.sample(Place::new("rate", name.clone(), line.size_bytes), line.integrated / 1e9);
            let Some(reference) = line.reference else { continue };
            if line.pipeline.starts_with("copy") {
                bench.sample(
                    Place::new("rate", "memory: plain copy", line.size_bytes),
                    reference / 1e9,
                );
            } else {
                bench.sample(Place::new("library", name, line.size_bytes), over(reference));
            }
        }
        Ok(())
    })
}
