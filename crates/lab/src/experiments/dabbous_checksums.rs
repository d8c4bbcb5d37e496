//! Dabbous, Tables 4 to 6: checksums of TCP, ISO TP4 and XTP, and XTP's made faster step by step.

use std::hint::black_box;

use fusewire_experiments::{FletcherSum, cxor, textbook};
use fusewire_kernels::execution::Scan;
use fusewire_kernels::stages::CxorSum;

use crate::bench::{Bench, Method};
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::record::{Place, Point};
use crate::{Error, Result};

const RATE: Axis = Axis::logarithmic("throughput", "Mbit/s");

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dabbous-checksums",
    paper: Paper::Dabbous,
    shows: "Tables 4, 5 and 6",
    title: "Checksums, and XTP's in four steps",
    question: "How fast are the checksums of TCP, ISO TP4 and XTP in software, and how much does rewriting \
               XTP's loop gain?",
    method: "A message of 4 KiB from the first-level cache. XTP's check function as the standard writes it \
             (exclusive-or and rotate, 16 bits at a time), with the paper's four steps: op1 an array of sixteen \
             words and rotations at the end, op2 sixteen variables, op3 half of the exclusive-ors at the end, \
             op4 long words (of 64 bits); and with this machine's vectors. TCP's and ISO's sums are written as then, a short word \
             or a byte at a time, and with vectors. The sums are compared before anything is timed.",
    differs: "Loops as then are kept scalar, or the compiler would make vectors of some of them. The paper's machines do one \
              thing after the other, so that each operation that a step saves is time saved; here several run at once. op1 stores \
              words of its array that it reads again soon and loses more than it did then; op3 saves exclusive-ors that ran beside \
              the loads and does not gain over op2. op4 is what the vectors of today begin with; its long words have 64 \
              bits here, those of the paper's machines had 32. Table 5 counts a \
              loop around each operation, here too.",
    charts: &[
        Chart::bars("table-4", "Table 4: three checksums", RATE).own_axis(),
        Chart::bars(
            "table-5",
            "Table 5: basic operations in a loop",
            Axis::logarithmic("time", "ns"),
        )
        .own_axis(),
        Chart::bars(
            "table-6",
            "Table 6: steps of the XTP checksum, to the standard loop",
            Axis::logarithmic("throughput ÷ that of the standard loop", ""),
        ),
        Chart::bars("table-6-rates", "Table 6: throughput", RATE).own_axis(),
    ],
    published,
    needs: Needs::Nothing,
    seconds: [0.2, 1.0],
    run,
};

const MACHINES: [&str; 4] = ["Sun 3/60", "Sparc IPX", "DEC 5000/200", "SS-10/41"];
/// Table 4, Mbit/s.
const TABLE_4: [(&str, [f64; 4]); 3] = [
    ("TCP", [2.61, 13.3, 30.52, 31.75]),
    ("ISO TP4", [1.21, 6.50, 10.69, 12.46]),
    ("XTP, standard", [1.36, 7.02, 13.67, 13.88]),
];
/// Table 5, µs.
const TABLE_5: [(&str, [f64; 4]); 2] = [
    ("rotate by 1", [6.24, 1.00, 0.687, 0.651]),
    ("short exclusive-or", [4.00, 0.88, 0.445, 0.45]),
];
/// Table 6, Mbit/s.
const TABLE_6: [(&str, [f64; 4]); 5] = [
    ("standard", [1.36, 7.02, 13.67, 13.88]),
    ("op1", [1.46, 6.83, 10.93, 13.14]),
    ("op2", [2.95, 16.54, 36.96, 28.47]),
    ("op3", [5.78, 31.25, 66.06, 52.63]),
    ("op4", [22.59, 172.05, 173.53, 296.3]),
];

fn published() -> Vec<Point> {
    let mut points = Vec::new();
    for (machine, name) in MACHINES.iter().enumerate() {
        for (check, rates) in TABLE_4 {
            points.push(Place::new("table-4", *name, check).is(rates[machine]));
        }
        for (operation, us) in TABLE_5 {
            points.push(Place::new("table-5", *name, operation).is(us[machine] * 1000.0));
        }
        for (form, rates) in TABLE_6 {
            points.push(Place::new("table-6-rates", *name, form).is(rates[machine]));
            let ratio = rates[machine] / TABLE_6[0].1[machine];
            points.push(Place::new("table-6", *name, form).is(ratio));
        }
    }
    points
}

const LEN: usize = 4096;
const HERE: &str = "this machine";
const THEN: &str = "this machine, as then";
const VECTORS: &str = "this machine, vectors";

fn run(bench: &mut Bench<'_>) -> Result<()> {
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
