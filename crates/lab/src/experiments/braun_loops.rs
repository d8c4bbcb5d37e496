//! Braun and Diot, sections 3.2 and 4.1: the data manipulations alone, over all pipelines of `kernels`; and
//! function pointers in place of macros.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::PLACED;
use crate::Result;
use crate::bench::Bench;
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::kernels::{Direction, Effort, Plan, pipelines};
use crate::record::{Place, Point};

const BYTES: Axis = Axis::logarithmic("message", "bytes");

pub(super) const LOOPS: Experiment = Experiment {
    name: "braun-loops",
    paper: Paper::BraunDiot,
    shows: "section 4.1 and the conclusion: what the loops alone gain",
    title: "The data manipulations alone",
    question: "What does one loop gain over strips and over separate passes, for which pipeline and message size?",
    method: "Every pipeline of this system, named by its cipher (byte swap, cipher, Internet sum, store; of those that \
             authenticate cipher, tag, store), send and receive, from 256 bytes to beyond the second-level cache: one \
             loop, strips in the first-level cache, a pass for each stage, and the best library's (aws-lc-rs with \
             passes of ours around it; the C library's copy). The methods take turns on the same buffers and must make \
             the same bytes and sums before they are timed; the whole is repeated and the median is shown.",
    differs: "The paper says that loops alone gain up to 50 % and whole systems 10 to 20 %, less the more a cipher computes. \
              Here it depends on what the stages fill. Where they leave the processor's ports free, one loop saves passes \
              over memory (copy and sum, pseudo-encryption, simplified SAFER); the AES-GCMs gain because cipher and tag keep \
              different ports busy in one loop; SAFER K-64 is bound by its own instructions and gains little; of \
              ChaCha20-Poly1305 cipher and tag both have much state and fill the same ports, and passes of their own suit them \
              better. Short messages pay for the start of a longer loop.",
    charts: &[
        Chart::lines(
            "gain-send",
            "Sending: sequential time by integrated",
            BYTES,
            Axis::linear("sequential ÷ integrated", ""),
        ),
        Chart::lines(
            "gain-receive",
            "Receiving: sequential time by integrated",
            BYTES,
            Axis::linear("sequential ÷ integrated", ""),
        ),
        Chart::lines(
            "blocked",
            "Sending: time in strips by integrated",
            BYTES,
            Axis::linear("blocked ÷ integrated", ""),
        ),
        Chart::lines(
            "rate",
            "Sending: throughput of one loop, and of a plain copy",
            BYTES,
            Axis::logarithmic("throughput", "GB/s"),
        ),
        Chart::lines(
            "library",
            "Sending: one loop by the best library with passes around it",
            BYTES,
            Axis::linear("library's time ÷ integrated", ""),
        ),
    ],
    published: || {
        // Section 1: 70 Mbit/s of XDR and sum one after the other, 100 in one loop.
        vec![
            Place::new("gain-send", format!("copy and sum (Clark, Tennenhouse{PLACED})"), 4096.0)
                .is(1.5),
            Place::new("gain-send", "XDR of 20 integers and sum (section 1)", 80.0)
                .is(100.0 / 70.0),
        ]
    },
    needs: Needs::Nothing,
    seconds: [4.0, 150.0],
    run: |bench| run(bench, false),
};

pub(super) const POINTERS: Experiment = Experiment {
    name: "braun-pointers",
    paper: Paper::BraunDiot,
    shows: "section 3.2.1",
    title: "Inlined, or through function pointers",
    question: "Does a loop whose stages are called through pointers keep what integration gains?",
    method: "The same loop twice: compiled as one, and with each stage called through a function pointer for each \
             unit; beside them a pass for each stage.",
    differs: "The paper gives no numbers: function calls lose all benefits, as they do here where pointers reach passes. A call is cheap today, but a unit that \
              passes through a pointer passes through memory, and the compiler sees one stage at a time.",
    charts: &[Chart::bars(
        "pointers",
        "Time through pointers by that of the inlined loop, 4 KiB",
        Axis::linear("÷ time of the inlined loop", ""),
    )],
    published: Vec::<Point>::new,
    needs: Needs::Nothing,
    seconds: [0.5, 5.0],
    run: |bench| run(bench, true),
};

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

fn run(bench: &mut Bench<'_>, pointers: bool) -> Result<()> {
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
