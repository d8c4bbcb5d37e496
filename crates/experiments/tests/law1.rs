//! Law 1 for what is here: each gives the bytes and sums of a slow, obvious oracle, at every level and length.

#[path = "../../kernels/tests/oracle/mod.rs"]
mod oracle;

use fusewire_base::Sum;
use fusewire_experiments::word_filter::{WordFilter, whole_blocks, word_filters};
use fusewire_experiments::{ByPointer, Fletcher, FletcherSum};
use fusewire_kernels::Level;
use fusewire_kernels::execution::Scan;
use fusewire_kernels::stage::{Stage, then};
use fusewire_kernels::stages::{
    Copy, Cxor, CxorSum, InternetSum, PesDecrypt, PesEncrypt, PesKey, Swap,
};
use oracle::{check, lengths, noise, slow_pes, slow_swap};
use std::fmt::Debug;

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
