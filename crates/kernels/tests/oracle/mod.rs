//! Pipelines in every execution, at every level, beside slow, obvious oracles; the tests of `experiments` use it too.

use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, InPlace, Integrated, Sequential};
use fusewire_kernels::stage::AnyStage;
use std::fmt::Debug;

/// Where messages lie in their buffers, in bytes from an aligned place.
const ALIGNMENTS: [usize; 6] = [0, 1, 7, 16, 33, 63];

/// Lengths of messages.
pub fn lengths() -> impl Iterator<Item = usize> {
    (0..600).chain([1023, 1024, 1408, 4095, 4096, 4097, 4104, 9000, 12_345, 65_536 + 24, 300_001])
}

/// A message.
pub fn noise(len: usize) -> Vec<u8> {
    // Long runs of 0xff and 0x00 between noise: carries and their absence.
    let byte = |i: u32| match i >> 7 & 7 {
        0 => 0xff,
        1 => 0,
        _ => (i.wrapping_mul(2_654_435_761) >> 19) as u8,
    };
    (0..len as u32).map(byte).collect()
}

/// Reverses the bytes of each word.
pub fn slow_swap<const BYTES: usize>(bytes: &mut [u8]) {
    bytes.chunks_exact_mut(BYTES).for_each(<[u8]>::reverse);
}

/// PES, word by word.
pub fn slow_pes(key: [u32; 2], bytes: &mut [u8], encrypt: bool) {
    for (i, word) in bytes.chunks_exact_mut(4).enumerate() {
        let (add, xor) = (key[i % 2], key[(i + 1) % 2]);
        let x = u32::from_le_bytes(word.try_into().unwrap());
        let y = if encrypt { x.wrapping_add(add) ^ xor } else { (x ^ xor).wrapping_sub(add) };
        word.copy_from_slice(&y.to_le_bytes());
    }
}

/// Runs a pipeline in every way and compares.
pub fn check<S>(name: &str, stage: S, oracle: impl Fn(&mut [u8]) -> S::Output)
where
    S: AnyStage,
    S::Output: PartialEq + Debug,
{
    let stage = &stage;
    for level in Level::available() {
        for len in lengths() {
            if S::WHOLE_BLOCKS && !len.is_multiple_of(S::BLOCK) {
                continue;
            }
            let alignments = if len < 600 { &ALIGNMENTS[..] } else { &ALIGNMENTS[1..4] };
            for &at in alignments {
                let mut memory = noise(at + len);
                let src = memory[at..].to_vec();
                let mut want = src.clone();
                let found = oracle(&mut want);
                let mut dst_memory = vec![0xa5; len + 128];
                let mut work = vec![0x5a; len + 3];
                let mut same = |how: &str, run: &mut dyn FnMut(&mut [u8]) -> S::Output| {
                    dst_memory.fill(0xa5);
                    let place = 63 - at..63 - at + len;
                    let got = run(&mut dst_memory[place.clone()]);
                    let what = || format!("{name}, {how}, {level}, {len} bytes at {at}");
                    assert_eq!(got, found, "{}", what());
                    assert!(dst_memory[place.clone()] == want, "bytes of {}", what());
                    let beside = dst_memory[..place.start].iter().chain(&dst_memory[place.end..]);
                    assert!(beside.copied().all(|b| b == 0xa5), "beyond: {}", what());
                };
                same("integrated", &mut |dst| {
                    level.run(Integrated { stage, src: &memory[at..], dst })
                });
                same("blocked", &mut |dst| level.run(Blocked { stage, src: &memory[at..], dst }));
                same("sequential", &mut |dst| {
                    let work = &mut work[3..];
                    level.run(Sequential { stage, src: &memory[at..], work, dst })
                });
                let got = level.run(InPlace { stage, bytes: &mut memory[at..] });
                assert!(got == found && memory[at..] == want, "{name} in place, {level}, {len}");
            }
        }
    }
}

/// Fails when a level of this machine was left out: what the CPU says is asked for here once more,
/// apart from the crate.
#[test]
fn every_level_of_this_machine_is_covered() {
    let covered: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    println!("levels covered: {}", covered.join(", "));
    assert!(covered.contains(&"portable"));
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    assert!(!has("avx2") || covered.contains(&"avx2"));
    assert!(!has("vaes") || covered.contains(&"avx2-aesni"));
    let avx512 = ["avx512bw", "avx512vl", "avx512dq", "avx512vbmi", "avx512ifma", "gfni"];
    assert!(!(has("vaes") && avx512.into_iter().all(has)) || covered.contains(&"avx512"));
}
