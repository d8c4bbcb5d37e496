//! Law 1: every execution of every pipeline gives the same bytes and sums, at every level, length,
//! alignment and split, and they are those of a slow, obvious oracle.
//!
//! AEAD pipelines have their own oracle (the library) in `gcm.rs`, `chacha.rs` and `transform.rs`.

use fusewire_base::Sum;
use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, InPlace, Integrated, Parts, Scan, Sequential};
use fusewire_kernels::stage::{AnyStage, Stage, then};
use fusewire_kernels::stages::{
    Copy, Crc32c, Cxor, CxorSum, InternetSum, Nothing, PesDecrypt, PesEncrypt, PesKey, Swap,
    crc32c_of,
};
use std::fmt::Debug;

/// Where messages lie in their buffers, in bytes from an aligned place.
const ALIGNMENTS: [usize; 6] = [0, 1, 7, 16, 33, 63];

fn lengths() -> impl Iterator<Item = usize> {
    (0..600).chain([1023, 1024, 1408, 4095, 4096, 4097, 4104, 9000, 12_345, 65_536 + 24, 300_001])
}

fn noise(len: usize) -> Vec<u8> {
    // Long runs of 0xff and 0x00 between noise: carries and their absence.
    let byte = |i: u32| match i >> 7 & 7 {
        0 => 0xff,
        1 => 0,
        _ => (i.wrapping_mul(2_654_435_761) >> 19) as u8,
    };
    (0..len as u32).map(byte).collect()
}

fn slow_swap<const BYTES: usize>(bytes: &mut [u8]) {
    bytes.chunks_exact_mut(BYTES).for_each(<[u8]>::reverse);
}

fn slow_pes(key: [u32; 2], bytes: &mut [u8], encrypt: bool) {
    for (i, word) in bytes.chunks_exact_mut(4).enumerate() {
        let (add, xor) = (key[i % 2], key[(i + 1) % 2]);
        let x = u32::from_le_bytes(word.try_into().unwrap());
        let y = if encrypt { x.wrapping_add(add) ^ xor } else { (x ^ xor).wrapping_sub(add) };
        word.copy_from_slice(&y.to_le_bytes());
    }
}

/// Runs a pipeline in every way and compares.
fn check<S>(name: &str, stage: S, oracle: impl Fn(&mut [u8]) -> S::Output)
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

/// Every split into B, C, A at blocks.
fn check_parts<S>(name: &str, stage: S, oracle: impl Fn(&mut [u8]) -> S::Output)
where
    S: AnyStage,
    S::Output: PartialEq + Debug,
{
    for level in Level::available() {
        for len in [0usize, 8, 40, 200, 328] {
            let src = noise(len);
            let mut want = src.clone();
            let found = oracle(&mut want);
            for b in (0..=len).step_by(8) {
                for c in (b..=len).step_by(8) {
                    let mut dst = vec![0; len];
                    let parts = Parts { stage: &stage, src: &src, dst: &mut dst, cuts: [b, c] };
                    assert_eq!(level.run(parts), found, "{name}, {level}, parts {b} {c} {len}");
                    assert_eq!(dst, want, "{name}, {level}, parts {b} {c} {len}");
                }
            }
        }
    }
}

fn swap_and_sum<const BYTES: usize>() {
    let name = <Swap<BYTES> as Stage>::NAME;
    let oracle = |bytes: &mut [u8]| {
        slow_swap::<BYTES>(bytes);
        ((), Sum::of(bytes))
    };
    check(name, then(Swap::<BYTES>, InternetSum), oracle);
    check_parts(name, then(Swap::<BYTES>, InternetSum), oracle);
}

#[test]
fn swaps_and_the_internet_sum() {
    swap_and_sum::<2>();
    swap_and_sum::<4>();
    swap_and_sum::<8>();
}

#[test]
fn copy_and_the_internet_sum() {
    let send = |bytes: &mut [u8]| ((), Sum::of(bytes));
    check("copy ▸ sum", then(Copy, InternetSum), send);
    check("nothing ▸ sum", then(Nothing, InternetSum), send);
    check("sum ▸ copy", then(InternetSum, Copy), |bytes| (Sum::of(bytes), ()));
}

#[test]
fn pes_in_both_directions() {
    let key = PesKey::new(*b"\xff\xfe\x01\x80\x7f\x00\xc3\x5a");
    let send = |bytes: &mut [u8]| {
        slow_swap::<4>(bytes);
        slow_pes(key.words(), bytes, true);
        ((), ((), Sum::of(bytes)))
    };
    let stage = then(Swap::<4>, then(PesEncrypt(key), InternetSum));
    check("swap32 ▸ pes ▸ sum", stage, send);
    check_parts("swap32 ▸ pes ▸ sum", stage, send);
    let receive = |bytes: &mut [u8]| {
        let sum = Sum::of(bytes);
        slow_pes(key.words(), bytes, false);
        slow_swap::<4>(bytes);
        (sum, ((), ()))
    };
    let stage = then(InternetSum, then(PesDecrypt(key), Swap::<4>));
    check("sum ▸ pes ▸ swap32", stage, receive);
}

#[test]
fn check_functions_of_order() {
    let oracle = |bytes: &mut [u8]| {
        let found = (Cxor::of(bytes), crc32c_of(bytes));
        slow_swap::<8>(bytes);
        (found, ())
    };
    let stage = then(then(CxorSum, Crc32c), Swap::<8>);
    check("cxor ▸ crc32c ▸ swap64", stage, oracle);
}

#[test]
fn scans_find_what_pipelines_find() {
    // Two million units and more: sums that are put together now and then are.
    let mut long = noise(9 << 20);
    long[1 << 20..5 << 20].fill(0xff);
    for level in Level::available() {
        for len in [9 << 20, (9 << 20) - 77] {
            let bytes = &long[..len];
            assert_eq!(fusewire_kernels::sum(level, bytes), Sum::of(bytes), "{level}");
            assert_eq!(level.run(Scan { stage: &CxorSum, src: bytes }), Cxor::of(bytes));
        }
    }
}

/// The vectors of RFC 1071, section 3, and sums that are 0 and 0xffff.
#[test]
fn rfc_1071() {
    for level in Level::available() {
        let sum = |bytes: &[u8]| fusewire_kernels::sum(level, bytes);
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).folded(), 0xddf2);
        assert_eq!(sum(&[]).checksum(), 0xffff);
        assert_eq!(sum(&[0; 100]).folded(), 0);
        assert!(sum(&[0xff; 100]).verifies());
        // A message with its checksum, cut anywhere, its pieces summed apart and joined.
        let mut bytes = noise(300);
        bytes[16..18].fill(0);
        let check = sum(&bytes).checksum();
        bytes[16..18].copy_from_slice(&check.to_be_bytes());
        for cut in 0..=300 {
            let (a, b) = bytes.split_at(cut);
            assert!(sum(a).then(cut, sum(b)).verifies(), "{level}, cut at {cut}");
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
