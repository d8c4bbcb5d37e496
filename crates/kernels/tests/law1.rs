//! Law 1: every execution of every pipeline gives the same bytes and sums, at every level, length,
//! alignment and split, and they are those of a slow, obvious oracle.
//!
//! AEAD pipelines have their own oracle (the library) in `gcm.rs`, `chacha.rs` and `transform.rs`.

mod oracle;

use fusewire_base::Sum;
use fusewire_kernels::Level;
use fusewire_kernels::execution::{Parts, Scan};
use fusewire_kernels::stage::{AnyStage, Stage, then};
use fusewire_kernels::stages::{
    Copy, Crc32c, Cxor, CxorSum, InternetSum, Nothing, PesDecrypt, PesEncrypt, PesKey, Swap,
    crc32c_of,
};
use oracle::{check, noise, slow_pes, slow_swap};
use std::fmt::Debug;

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

/// Where the Internet sum is in the data path.
#[test]
fn cxor_in_the_place_of_the_sum() {
    check("copy ▸ cxor", then(Copy, CxorSum), |bytes| ((), Cxor::of(bytes)));
    let key = PesKey::new(*b"\xff\xfe\x01\x80\x7f\x00\xc3\x5a");
    let send = |bytes: &mut [u8]| {
        slow_swap::<4>(bytes);
        slow_pes(key.words(), bytes, true);
        ((), ((), Cxor::of(bytes)))
    };
    let stage = then(Swap::<4>, then(PesEncrypt(key), CxorSum));
    check("swap32 ▸ pes ▸ cxor", stage, send);
    let receive = |bytes: &mut [u8]| {
        let cxor = Cxor::of(bytes);
        slow_pes(key.words(), bytes, false);
        slow_swap::<4>(bytes);
        (cxor, ((), ()))
    };
    let stage = then(CxorSum, then(PesDecrypt(key), Swap::<4>));
    check("cxor ▸ pes ▸ swap32", stage, receive);
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
