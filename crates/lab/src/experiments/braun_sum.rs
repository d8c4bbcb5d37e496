//! Braun and Diot, section 1: an array of 20 integers marshalled and summed, one after the other and in one loop; and
//! what Clark and Tennenhouse found of a copy and a sum before.

use std::hint::black_box;

use fusewire_experiments::textbook;
use fusewire_kernels::execution::{Integrated, Scan};
use fusewire_kernels::stage::{AnyStage, then};
use fusewire_kernels::stages::{Copy, InternetSum, Swap};

use crate::bench::{Bench, Method};
use crate::record::Place;
use crate::{Error, Result};

const APART: &str = "one after the other";
const ONE: &str = "one loop";
const THEN: &str = "this machine, a word at a time";
const VECTORS: &str = "this machine, vectors";
/// The first is the paper's; to the other Clark and Tennenhouse's size is not told, so this is ours.
const INTEGERS: usize = 20;
const COPIED: usize = 1024;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let xdr = "XDR of 20 integers, and sum";
    both(bench, xdr, INTEGERS, textbook::xdr, &Swap::<4>)?;
    both(bench, "copy of 4 KiB, and sum", COPIED, textbook::as_it_is, &Copy)?;
    for series in [THEN, VECTORS] {
        let [one, apart] = [ONE, APART].map(|way| format!("{way}, {series}"));
        bench.compare("rate", [&one, &apart], "gain", series);
    }
    Ok(())
}

/// One way of doing the work, which returns the sum.
type Summing<'a> = Box<dyn FnMut() -> u16 + 'a>;

fn both<S: AnyStage<Output = ()>>(
    bench: &mut Bench<'_>,
    what: &str,
    count: usize,
    becomes: fn(u32) -> [u8; 4],
    stage: &S,
) -> Result<()> {
    let level = bench.level;
    let words: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let len = bytes.len();
    let mut to: [Vec<u8>; 4] = std::array::from_fn(|_| vec![0; len]);
    let pipeline = then(stage, InternetSum);
    let [a, b, c, d] = &mut to;
    let mut ways: [(&str, Summing<'_>); 4] = [
        (
            THEN,
            Box::new(|| {
                textbook::put(black_box(&words), becomes, a);
                textbook::words(black_box(&a[..])).folded()
            }),
        ),
        (THEN, Box::new(|| textbook::put_and_sum(black_box(&words), becomes, b).folded())),
        (
            VECTORS,
            Box::new(|| {
                let src = black_box(&bytes[..]);
                level.run(Integrated { stage, src, dst: c });
                level.run(Scan { stage: &InternetSum, src: black_box(&c[..]) }).folded()
            }),
        ),
        (
            VECTORS,
            Box::new(|| {
                let src = black_box(&bytes[..]);
                level.run(Integrated { stage: &pipeline, src, dst: d }).1.folded()
            }),
        ),
    ];
    // Zero is written in two ways.
    let sums: Vec<u16> = ways.iter_mut().map(|(_, way)| way() % 0xffff).collect();
    let mut methods = Vec::new();
    for (i, (series, mut way)) in ways.into_iter().enumerate() {
        let place = Place::new("rate", format!("{}, {series}", [APART, ONE][i % 2]), what);
        let call = move || {
            black_box(way());
        };
        methods.push((place, Method::mbits(len, call)));
    }
    bench.turns(bench.choose(15, 101), &mut methods)?;
    drop(methods);
    if sums.iter().any(|sum| *sum != sums[0]) || to.iter().any(|bytes| *bytes != to[0]) {
        let message = format!("{what}: other bytes, or another sum");
        return Err(Error::Wrong { method: "one loop".to_owned(), what: message });
    }
    Ok(())
}
