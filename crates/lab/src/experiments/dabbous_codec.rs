//! Dabbous, Tables 1 to 3: BER and the light-weight syntax.

use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::codec::{self, Plan};
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::record::{Place, Point};

const RATIO: Axis = Axis::logarithmic("BER's time ÷ LWS's", "");
const ELEMENT: Axis = Axis::logarithmic("time an element", "ns");

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dabbous-codec",
    paper: Paper::Dabbous,
    shows: "Tables 1, 2 and 3",
    title: "BER and the light-weight syntax",
    question: "How much faster than BER is a word-oriented syntax, and does it stay so when both are made fast?",
    method: "The paper's performance object: 400 integers, 200 reals, 124 strings of 26 characters, 18 envelopes of X.411 \
             messages, through BER and through LWS with words of 16, 32 and 64 bits, encoded and decoded by code \
             that the ASN.1 compiler generated. Every value is read back before it is timed.",
    differs: "The paper's BER of Table 2 is the one before its optimisations, on a Sun 3. Ours is compiled for the type \
              with what Table 3's rows did and more. Sizes differ from Table 3 where values are made alike \
              and not the same.",
    charts: &[
        Chart::bars("table-2", "Table 2: encoding, BER by LWS", RATIO),
        Chart::bars("table-2-times", "Table 2: encoding an element", ELEMENT).own_axis(),
        Chart::bars("table-3", "Table 3: an envelope (MPDU), encoded and decoded", ELEMENT)
            .own_axis(),
        Chart::bars(
            "table-3-rate",
            "Table 3: decoding envelopes",
            Axis::logarithmic("throughput", "Mbit/s"),
        )
        .own_axis(),
        Chart::bars("table-3-size", "Table 3: bytes of an envelope", Axis::linear("size", "B")),
    ],
    published,
    needs: Needs::Nothing,
    seconds: [0.5, 5.0],
    run,
};

/// Table 1: elements. Table 2: µs for all of them, BER and LWS, on a Sun 3/60.
const TABLE_2: [(&str, f64, f64, f64); 4] = [
    ("ints", 400.0, 5999.0, 1333.0),
    ("reals", 200.0, 13_666.0, 2333.0),
    ("strings", 124.0, 7833.0, 5499.0),
    ("mpdus", 18.0, 62_330.0, 37_998.0),
];
/// Table 3: µs of encoding in BER and LWS, of decoding in BER and LWS.
const TABLE_3: [(&str, [f64; 4]); 6] = [
    ("Sun 3, initial", [3462.0, 2111.0, 16_212.0, 13_527.0]),
    ("Sun 3", [1861.0, 2018.0, 6944.0, 6398.0]),
    ("SS 10/30", [112.0, 199.0, 318.0, 225.0]),
    ("DEC 5000/300", [208.0, 208.0, 372.0, 212.0]),
    ("HP 9000/715", [100.0, 100.0, 339.0, 155.0]),
    ("DEC Alpha", [74.0, 55.0, 176.0, 92.6]),
];

/// Table 3: Mbit/s of decoding, BER and LWS.
const TABLE_3_RATES: [(&str, f64, f64); 6] = [
    ("Sun 3, initial", 0.24, 0.6),
    ("Sun 3", 0.62, 1.29),
    ("SS 10/30", 13.58, 36.59),
    ("DEC 5000/300", 11.6, 38.8),
    ("HP 9000/715", 12.74, 53.1),
    ("DEC Alpha", 24.54, 88.9),
];

fn published() -> Vec<Point> {
    let mut points = Vec::new();
    for (of, elements, ber, lws) in TABLE_2 {
        points.push(Place::new("table-2", "Sun 3/60", of).is(ber / lws));
        points.push(Place::new("table-2-times", "BER", of).is(ber * 1000.0 / elements));
        points.push(Place::new("table-2-times", "LWS", of).is(lws * 1000.0 / elements));
    }
    for (machine, us) in TABLE_3 {
        for (i, series) in
            ["BER, encode", "LWS, encode", "BER, decode", "LWS, decode"].iter().enumerate()
        {
            points.push(Place::new("table-3", *series, machine).is(us[i] * 1000.0));
        }
    }
    for (machine, ber, lws) in TABLE_3_RATES {
        points.push(Place::new("table-3-rate", "BER", machine).is(ber));
        points.push(Place::new("table-3-rate", "LWS", machine).is(lws));
    }
    for (codec, bytes) in [
        ("BER, Table 3, initial", 480.0),
        ("BER, Table 3", 540.0),
        ("LWS, Table 3, initial", 1011.0),
        ("LWS, Table 3", 1029.0),
    ] {
        points.push(Place::new("table-3-size", "bytes", codec).is(bytes));
    }
    points
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (level, round) = (bench.level, Duration::from_micros(bench.choose(400, 2000)));
    bench.rounds(bench.choose(5, 11), |bench, _| {
        let plan = Plan { values: None, peers: None, rounds: 1, round, level };
        let lines = codec::run(&plan)?;
        let ns = |codec: &str, of: &str, direction: &str| {
            let is = |l: &&codec::Line| l.codec == codec && l.of == of && l.direction == direction;
            lines.iter().find(is).map(|line| line.ns_per_element)
        };
        for (of, ..) in TABLE_2 {
            for codec in ["BER", "LWS16", "LWS32", "LWS64"] {
                let Some(time) = ns(codec, of, "encode") else { continue };
                bench.sample(Place::new("table-2-times", codec, of), time);
                let Some(ber) = ns("BER", of, "encode").filter(|_| codec != "BER") else {
                    continue;
                };
                bench.sample(
                    Place::new("table-2", format!("this machine, {codec}"), of),
                    ber / time,
                );
            }
        }
        for (codec, name) in [("BER", "BER"), ("LWS32", "LWS")] {
            for direction in ["encode", "decode"] {
                let Some(time) = ns(codec, "mpdus", direction) else { continue };
                let series = format!("{name}, {direction}");
                bench.sample(Place::new("table-3", series, "this machine"), time);
            }
            let line = lines.iter().find(|line| line.codec == codec && line.of == "mpdus");
            let Some(line) = line else { continue };
            let bytes = line.bytes as f64 / line.elements.max(1) as f64;
            if let Some(time) = ns(codec, "mpdus", "decode") {
                let place = Place::new("table-3-rate", name, "this machine");
                bench.sample(place, bytes * 8e3 / time);
            }
            bench.sample(
                Place::new("table-3-size", "bytes", format!("{name}, this machine")),
                bytes,
            );
        }
        Ok(())
    })
}
