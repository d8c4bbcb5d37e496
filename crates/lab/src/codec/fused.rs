//! marshal ▸ AES-256-GCM ▸ Internet ▸ store of an array of INTEGERs, in one pass and in passes of their own.

use super::Plan;
use crate::{Error, Result};
use fusewire_kernels::{CipherKey, Execution, Swap, Transform};
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

/// Elements of the array: 16 KiB of LWS32.
const ELEMENTS: i32 = 4096;

/// One direction of the pipeline.
#[derive(Clone, Debug, Serialize)]
pub struct Fused {
    /// What it is.
    pub pipeline: &'static str,
    /// `send` or `receive`.
    pub direction: &'static str,
    /// Bytes of the encoding.
    pub bytes: usize,
    /// Bytes in a second, in one pass.
    pub integrated: f64,
    /// Bytes in a second, each stage as the best pass of its own that there is.
    pub sequential: f64,
    /// Their ratio, the median of rounds that each ran both.
    pub ratio: f64,
}

pub(super) fn run(plan: &Plan<'_>) -> Result<Vec<Fused>> {
    let array: Vec<u8> = (0..ELEMENTS).flat_map(i32::to_ne_bytes).collect();
    let key = CipherKey::Aes256Gcm([7; 32]);
    let make = |execution| Transform::new(plan.level, execution, Swap::Bytes32, &key);
    let mut one = make(Execution::Integrated);
    let mut apart = make(Execution::Sequential);
    apart.reserve(array.len());
    let nonce = [1; 12];
    let (mut sealed, mut again) = (vec![0; array.len()], vec![0; array.len()]);
    let (mut tag, mut tag_again) = ([0; 16], [0; 16]);
    let sum = one.send(&nonce, &[], &array, &mut sealed, &mut tag);
    let sum_again = apart.send(&nonce, &[], &array, &mut again, &mut tag_again);
    if (&sealed, tag, sum) != (&again, tag_again, sum_again) {
        return Err(Error::Wrong { method: "pipeline".into(), what: "the passes differ".into() });
    }
    let mut opened = vec![0; array.len()];
    let mut send = |transform: &mut Transform| {
        transform.send(&nonce, &[], black_box(&array), black_box(&mut again), &mut tag_again);
    };
    let mut receive = |transform: &mut Transform| {
        transform.receive(&nonce, &[], black_box(&sealed), &tag, black_box(&mut opened));
    };
    Ok(vec![
        compare(plan, "send", array.len(), &mut one, &mut apart, &mut send),
        compare(plan, "receive", array.len(), &mut one, &mut apart, &mut receive),
    ])
}

fn compare(
    plan: &Plan<'_>,
    direction: &'static str,
    bytes: usize,
    one: &mut Transform,
    apart: &mut Transform,
    run: &mut dyn FnMut(&mut Transform),
) -> Fused {
    let time = |transform: &mut Transform, run: &mut dyn FnMut(&mut Transform), count: u32| {
        let begin = Instant::now();
        (0..count).for_each(|_| run(transform));
        begin.elapsed().as_nanos() as f64 / f64::from(count)
    };
    let once = time(one, run, 100);
    let count = (plan.round.as_nanos() as f64 / once).max(1.0) as u32;
    let mut rounds: Vec<[f64; 2]> =
        (0..plan.rounds.max(1)).map(|_| [time(one, run, count), time(apart, run, count)]).collect();
    let mut median = |of: fn(&[f64; 2]) -> f64| {
        rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&rounds[rounds.len() / 2])
    };
    Fused {
        pipeline: "marshal ▸ AES-256-GCM ▸ Internet ▸ store",
        direction,
        bytes,
        integrated: bytes as f64 / median(|round| round[0]) * 1e9,
        sequential: bytes as f64 / median(|round| round[1]) * 1e9,
        ratio: median(|round| round[1] / round[0]),
    }
}
