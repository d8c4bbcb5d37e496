//! Law 1 for what is here: each gives the bytes and sums of a slow, obvious oracle, at every level and length.

use fusewire_base::Sum;
use fusewire_experiments::word_filter::{WordFilter, whole_blocks, word_filters};
use fusewire_experiments::{ByPointer, Fletcher, FletcherSum};
use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, Integrated, Scan, Sequential};
use fusewire_kernels::stage::{AnyStage, Stage, then};
use fusewire_kernels::stages::{
    Copy, Cxor, CxorSum, InternetSum, PesDecrypt, PesEncrypt, PesKey, Swap,
};
use std::fmt::Debug;

fn lengths() -> impl Iterator<Item = usize> {
    (0..600).chain([1023, 1024, 1408, 4095, 4096, 4097, 4104, 9000, 65_536 + 24, 300_001])
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
fn check<S: AnyStage>(name: &str, stage: S, oracle: impl Fn(&mut [u8]) -> S::Output)
where
    S::Output: PartialEq + Debug,
{
    let stage = &stage;
    for level in Level::available() {
        for len in lengths().filter(|len| !S::WHOLE_BLOCKS || len.is_multiple_of(S::BLOCK)) {
            let src = &noise(len + 1)[1..];
            let mut want = src.to_vec();
            let found = oracle(&mut want);
            let (mut dst, mut work) = (vec![0; len], vec![0; len]);
            let same = |how: &str, got: S::Output, dst: &mut Vec<u8>| {
                assert_eq!(got, found, "{name}, {how}, {level}, {len} bytes");
                assert!(*dst == want, "bytes of {name}, {how}, {level}, {len} bytes");
                dst.fill(0);
            };
            let got = level.run(Integrated { stage, src, dst: &mut dst });
            same("integrated", got, &mut dst);
            let got = level.run(Blocked { stage, src, dst: &mut dst });
            same("blocked", got, &mut dst);
            let got = level.run(Sequential { stage, src, work: &mut work, dst: &mut dst });
            same("sequential", got, &mut dst);
        }
    }
}

fn check_words<S: WordFilter>(name: &str, stage: S, oracle: impl Fn(&mut [u8]) -> S::Output)
where
    S::Output: PartialEq + Debug,
{
    for len in lengths().filter(|len| len.is_multiple_of(8)) {
        let src = noise(len);
        let mut want = src.clone();
        let found = oracle(&mut want);
        let mut dst = vec![0; len];
        assert_eq!(word_filters(&stage, &src, &mut dst), found, "{name} by words, {len} bytes");
        assert!(dst == want, "bytes of {name} by words, {len} bytes");
        let mut dst = vec![0; len];
        assert_eq!(whole_blocks(&stage, &src, &mut dst), found, "{name} by blocks, {len} bytes");
        assert!(dst == want, "bytes of {name} by blocks, {len} bytes");
    }
}

fn swap_and_sum<const BYTES: usize>() {
    let name = <Swap<BYTES> as Stage>::NAME;
    let oracle = |bytes: &mut [u8]| {
        slow_swap::<BYTES>(bytes);
        ((), Sum::of(bytes))
    };
    check(name, then(ByPointer(Swap::<BYTES>), ByPointer(InternetSum)), oracle);
    check_words(name, then(Swap::<BYTES>, InternetSum), oracle);
}

#[test]
fn swaps_copy_and_the_internet_sum() {
    swap_and_sum::<2>();
    swap_and_sum::<4>();
    swap_and_sum::<8>();
    let oracle = |bytes: &mut [u8]| ((), Sum::of(bytes));
    check("copy ▸ sum", then(ByPointer(Copy), ByPointer(InternetSum)), oracle);
    check_words("copy ▸ sum", then(Copy, InternetSum), oracle);
}

#[test]
fn pes_in_both_directions() {
    let key = PesKey::new(*b"\xff\xfe\x01\x80\x7f\x00\xc3\x5a");
    let send = |bytes: &mut [u8]| {
        slow_swap::<4>(bytes);
        slow_pes(key.words(), bytes, true);
        ((), ((), Sum::of(bytes)))
    };
    let (swap, sum) = (ByPointer(Swap::<4>), ByPointer(InternetSum));
    check("swap32 ▸ pes ▸ sum", then(swap, then(ByPointer(PesEncrypt(key)), sum)), send);
    check_words("swap32 ▸ pes ▸ sum", then(Swap::<4>, then(PesEncrypt(key), InternetSum)), send);
    let receive = |bytes: &mut [u8]| {
        let sum = Sum::of(bytes);
        slow_pes(key.words(), bytes, false);
        slow_swap::<4>(bytes);
        (sum, ((), ()))
    };
    check("sum ▸ pes ▸ swap32", then(sum, then(ByPointer(PesDecrypt(key)), swap)), receive);
    let stage = then(InternetSum, then(PesDecrypt(key), Swap::<4>));
    check_words("sum ▸ pes ▸ swap32", stage, receive);
}

#[test]
fn check_functions_of_order() {
    let oracle = |bytes: &mut [u8]| {
        let found = (Cxor::of(bytes), Fletcher::of(bytes));
        slow_swap::<8>(bytes);
        (found, ())
    };
    let stage = then(then(CxorSum, FletcherSum), Swap::<8>);
    check("cxor ▸ fletcher ▸ swap64", stage, oracle);
    let stage = then(then(ByPointer(CxorSum), ByPointer(FletcherSum)), Swap::<8>);
    check("cxor ▸ fletcher ▸ swap64, by pointer", stage, oracle);
}

#[test]
fn scans_find_what_pipelines_find() {
    // Two million units and more: sums that are put together now and then are.
    let mut long = noise(9 << 20);
    long[1 << 20..5 << 20].fill(0xff);
    for level in Level::available() {
        for len in [9 << 20, (9 << 20) - 77] {
            let src = &long[..len];
            assert_eq!(level.run(Scan { stage: &FletcherSum, src }), Fletcher::of(src), "{level}");
        }
    }
}

/// Fails when a level of this machine was left out: what the CPU says is asked for here once more.
#[test]
fn every_level_of_this_machine_is_covered() {
    let covered: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    println!("levels covered: {}", covered.join(", "));
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    assert!(covered.contains(&"portable"));
    assert!(!has("avx2") || covered.contains(&"avx2"));
    assert!(!has("avx512vbmi") || !has("gfni") || covered.contains(&"avx512"));
}
