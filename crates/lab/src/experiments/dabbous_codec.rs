//! Dabbous, Tables 1 to 3: BER and the light-weight syntax.

use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::codec::{self, Plan};
use crate::record::Place;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (level, round) = (bench.level, Duration::from_micros(bench.choose(400, 2000)));
    bench.rounds(bench.choose(5, 11), |bench, _| {
        let plan = Plan { values: None, peers: None, rounds: 1, round, level };
        let lines = codec::run(&plan)?;
        let ns = |codec: &str, of: &str, direction: &str| {
            let is = |l: &&codec::Line| l.codec == codec && l.of == of && l.direction == direction;
            lines.iter().find(is).map(|line| line.ns_per_element)
        };
        for of in ["ints", "reals", "strings", "mpdus"] {
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
