//! Dabbous, Tables 1 to 3: BER and the light-weight syntax.

use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::codec::{self, Plan, object};
use crate::record::Place;

const CODECS: [&str; 6] =
    ["BER", "LWS16", "LWS32", "LWS64", "BER, interpreted", "LWS32, interpreted"];

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (level, round) = (bench.level, Duration::from_micros(bench.choose(400, 2000)));
    bench.rounds(bench.choose(5, 11), |bench, _| {
        let plan = Plan { values: None, peers: None, rounds: 1, round, level };
        let lines = object::run(&plan)?;
        let ns = |codec: &str, of: &str, direction: &str| {
            let is = |l: &&codec::Line| l.codec == codec && l.of == of && l.direction == direction;
            lines.iter().find(is).map(|line| line.ns_per_element)
        };
        for of in ["ints", "reals", "strings", "mpdus"] {
            for codec in CODECS {
                let Some(time) = ns(codec, of, "encode") else { continue };
                bench.sample(Place::new("table-2-times", codec, of), time);
                let Some(ber) = ns("BER", of, "encode")
                    .filter(|_| codec.starts_with("LWS") && !codec.contains(','))
                else {
                    continue;
                };
                bench.sample(
                    Place::new("table-2", format!("this machine, {codec}"), of),
                    ber / time,
                );
            }
            // Both before they were compiled for their type, as the paper's were before it made them fast.
            if let (Some(ber), Some(lws)) =
                (ns("BER, interpreted", of, "encode"), ns("LWS32, interpreted", of, "encode"))
            {
                let series = "this machine, LWS32, both interpreted";
                bench.sample(Place::new("table-2", series, of), ber / lws);
            }
            for direction in ["encode", "decode"] {
                for codec in ["BER", "LWS32"] {
                    let around = ns(&format!("{codec}, OPAQUE"), of, direction);
                    let Some((around, alone)) = around.zip(ns(codec, of, direction)) else {
                        continue;
                    };
                    let series = format!("{codec}, {direction}");
                    bench.sample(Place::new("opaque", series, of), around / alone);
                }
            }
        }
        for (codec, name) in [("BER", "BER"), ("LWS32", "LWS")] {
            for direction in ["encode", "decode"] {
                let Some(time) = ns(&format!("{codec}, interpreted"), "mpdus", direction) else {
                    continue;
                };
                let series = format!("{name}, {direction}");
                bench.sample(Place::new("table-3", series, "this machine, interpreted"), time);
            }
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
