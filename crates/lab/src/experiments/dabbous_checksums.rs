//! Dabbous, Tables 4 to 6: checksums of TCP, ISO TP4 and XTP, and XTP's made faster step by step.

use std::hint::black_box;

use fusewire_experiments::{FletcherSum, cxor, textbook};
use fusewire_kernels::execution::Scan;
use fusewire_kernels::stages::CxorSum;

use crate::bench::{Bench, Method};
use crate::record::Place;
use crate::{Error, Result};

const LEN: usize = 4096;
const HERE: &str = "this machine";
const THEN: &str = "this machine, as then";
const VECTORS: &str = "this machine, vectors";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let level = bench.level;
    let message: Vec<u8> = (0..LEN as u32).map(|i| (i * i * 31 + i * 7) as u8).collect();
    let src = &message[..];
    let want = cxor::standard(src);
    let same = cxor::FORMS.iter().all(|(_, form)| form(src) == want)
        && level.run(Scan { stage: &CxorSum, src }) == want
        && textbook::internet(src).folded() == fusewire_kernels::sum(level, src).folded()
        && textbook::iso(src) == level.run(Scan { stage: &FletcherSum, src });
    if !same {
        let what = "the forms of a checksum differ".to_owned();
        return Err(Error::Wrong { method: "checksums".to_owned(), what });
    }
    let mut methods: Vec<(Place, Method<'_>)> = Vec::new();
    let src = || black_box(src);
    let tcp = move || {
        black_box(fusewire_kernels::sum(level, src()));
    };
    let iso = move || {
        black_box(level.run(Scan { stage: &FletcherSum, src: src() }));
    };
    let xtp = move || {
        black_box(cxor::standard(src()));
    };
    let vectors = move || {
        black_box(level.run(Scan { stage: &CxorSum, src: src() }));
    };
    let tcp_then = move || {
        black_box(textbook::internet(src()));
    };
    let iso_then = move || {
        black_box(textbook::iso(src()));
    };
    methods.push((Place::new("table-4", THEN, "TCP"), Method::mbits(LEN, tcp_then)));
    methods.push((Place::new("table-4", THEN, "ISO TP4"), Method::mbits(LEN, iso_then)));
    methods.push((Place::new("table-4", THEN, "XTP, standard"), Method::mbits(LEN, xtp)));
    methods.push((Place::new("table-4", VECTORS, "TCP"), Method::mbits(LEN, tcp)));
    methods.push((Place::new("table-4", VECTORS, "ISO TP4"), Method::mbits(LEN, iso)));
    methods.push((Place::new("table-4", VECTORS, "XTP, standard"), Method::mbits(LEN, vectors)));
    for (name, form) in cxor::FORMS {
        let call = move || {
            black_box(form(src()));
        };
        methods.push((Place::new("table-6-rates", HERE, name), Method::mbits(LEN, call)));
    }
    methods.push((Place::new("table-6-rates", HERE, "vectors"), Method::mbits(LEN, vectors)));
    // As the paper has it: the operation in a loop, nothing abreast.
    const TIMES: usize = 1000;
    let rotate = || {
        let mut x = black_box(0x1234u16);
        (0..TIMES).for_each(|_| x = black_box(x.rotate_left(1)));
    };
    methods.push((
        Place::new("table-5", HERE, "rotate by 1"),
        Method::new(1.0 / TIMES as f64, rotate),
    ));
    let xor = || {
        let mut x = black_box(0x1234u16);
        (0..TIMES).for_each(|i| x = black_box(x ^ i as u16));
    };
    let place = Place::new("table-5", HERE, "short exclusive-or");
    methods.push((place, Method::new(1.0 / TIMES as f64, xor)));
    bench.turns(bench.choose(15, 101), &mut methods)?;
    bench.ratios("table-6-rates", "standard", "table-6");
    Ok(())
}
