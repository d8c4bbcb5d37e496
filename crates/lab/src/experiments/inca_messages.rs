//! INCA, Tables 1 to 3 and Figures 2 and 3; and Dabbous, Tables 7 and 8, which want the same: messages by size
//! over the kernel's sockets and over the user-level stack.

use crate::Result;
use crate::bench::Bench;
use crate::inca::cold::Cold;
use crate::inca::{self, Direction, Line, Plan, Protocol, numbered};
use crate::record::Place;

fn plan(bench: &Bench<'_>) -> Plan {
    Plan {
        protocols: vec![Protocol::Udp, Protocol::Tcp],
        directions: vec![Direction::Receive],
        sizes: inca::SIZES.to_vec(),
        messages: false,
        bulk: false,
        processing: false,
        floods: false,
        round_trip: false,
        rounds: 1,
        seconds: bench.choose(0.04, 0.12),
        congestion: Some("cubic".to_owned()),
        program: bench.program.clone(),
    }
}

/// Runs a plan; what failed becomes a remark.
fn lines(bench: &mut Bench<'_>, plan: &Plan) -> Result<Vec<Line>> {
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    inca::run(plan, &mut |line| match line {
        Ok(line) => lines.push(line.clone()),
        Err(why) => wrong.push(why.to_owned()),
    })?;
    wrong.into_iter().for_each(|why| bench.remark(why));
    Ok(lines)
}

pub(super) fn processing(bench: &mut Bench<'_>) -> Result<()> {
    let sizes = bench.choose(vec![10, 200, 1000, 1500, 10_000, 65_000], inca::SIZES.to_vec());
    let rounds = bench.choose(2, 7);
    bench.rounds(rounds, |bench, round| {
        for (i, size) in sizes.iter().enumerate() {
            let plan = Plan { processing: true, sizes: vec![*size], ..plan(bench) };
            for line in lines(bench, &plan)? {
                if let Line::Unmarshalling(line) = &line {
                    let place = Place::new("gain", "UDP with XDR doubles, this machine", *size);
                    bench.sample(place, line.two_passes_ns / line.integrated_ns);
                }
                let Line::Processing(line) = line else { continue };
                let protocol = if line.protocol == Protocol::Udp { "UDP" } else { "TCP" };
                let at = |series: &str| Place::new("time", format!("{protocol}, {series}"), *size);
                bench.sample(at("one loop"), line.integrated_ns);
                bench.sample(at("passes"), line.sequential_ns);
                let place = Place::new("gain", format!("{protocol}, this machine"), *size);
                bench.sample(place, line.sequential_ns / line.integrated_ns);
            }
            let part = (round as f64 + (i + 1) as f64 / sizes.len() as f64) / rounds as f64;
            bench.step(part, &format!("round {}, {size} bytes", round + 1))?;
        }
        Ok(())
    })
}

/// Section 2.4: what the caches forget between two packets.
pub(super) fn cold(bench: &mut Bench<'_>) -> Result<()> {
    let sizes = bench.choose(vec![10, 200, 1000, 1500], vec![10, 100, 200, 500, 1000, 1500, 4000]);
    let packets = bench.choose(30, 100);
    bench.rounds(bench.choose(2, 11), |bench, _| {
        for size in &sizes {
            for what in Cold::ALL {
                let found = inca::cold::measure(*size, what, packets)?;
                for (way, ns) in ["one loop", "passes"].into_iter().zip(found) {
                    let series = format!("{way}, {}", what.words());
                    bench.sample(Place::new("time", series, *size), ns);
                }
                let [one, passes] = found;
                bench.sample(Place::new("gain", what.words(), *size), passes / one.max(1.0));
            }
        }
        Ok(())
    })
}

pub(super) fn messages(bench: &mut Bench<'_>) -> Result<()> {
    let sizes = bench.choose(vec![10, 200, 1400, 10_000], inca::SIZES.to_vec());
    let rounds = bench.choose(1, 3);
    bench.rounds(rounds, |bench, round| {
        for (i, size) in sizes.iter().enumerate() {
            let plan = Plan { messages: true, sizes: vec![*size], ..plan(bench) };
            for line in lines(bench, &plan)? {
                let Line::Messages(line) = line else { continue };
                message(bench, *size, &line);
            }
            let part = (round as f64 + (i + 1) as f64 / sizes.len() as f64) / rounds as f64;
            bench.step(part, &format!("round {}, messages of {size} bytes", round + 1))?;
        }
        Ok(())
    })
}

/// Adds what was found of messages of one size over one protocol.
fn message(bench: &mut Bench<'_>, size: usize, line: &inca::Messages) {
    let udp = line.protocol == Protocol::Udp;
    let (protocol, chart) = if udp { ("UDP", "throughput") } else { ("TCP", "throughput-tcp") };
    for (series, name) in [
        ("kernel", "kernel"),
        ("kernel, many a call", "kernel_offload"),
        ("user level", "fusewire"),
        ("user level, a message a call", "fusewire_single"),
        ("kernel, then XDR", "kernel_xdr"),
        ("user level, XDR in its loop", "fusewire_xdr"),
    ] {
        let Some(rates) = line.rates.get(name) else { continue };
        let mbits = rates.messages_per_s * size as f64 * 8e-6;
        bench.sample(Place::new(chart, series, size), mbits);
    }
    for (series, ratio) in [
        ("", line.ratio),
        (" by many a call", line.ratio_to_offload),
        (", a message a call on both sides", line.ratio_of_single),
    ] {
        let Some(ratio) = ratio else { continue };
        bench.sample(Place::new("gain", format!("{protocol}, this machine{series}"), size), ratio);
    }
    for (at, ratio) in [("without XDR", line.ratio), ("with XDR", line.ratio_of_xdr)] {
        let Some(ratio) = ratio.filter(|_| udp && line.ratio_of_xdr.is_some()) else { continue };
        bench.sample(Place::new("gain-xdr", format!("this machine, {size} bytes"), at), ratio);
    }
    for (series, times) in [("kernel", &line.kernel), ("user level", &line.fusewire)] {
        for (chart, ns) in [("device", times.device_ns), ("protocol", times.protocol_ns)] {
            if let Some(ns) = ns.filter(|ns| udp && *ns > 0.0) {
                bench.sample(Place::new(chart, series, size), ns);
            }
        }
    }
}

pub(super) fn overhead(bench: &mut Bench<'_>) -> Result<()> {
    bench.rounds(bench.choose(2, 7), |bench, _| {
        let plan = Plan { round_trip: true, ..plan(bench) };
        for line in lines(bench, &plan)? {
            let Line::RoundTrip(line) = line else { continue };
            let series = format!("{} bytes", line.size_bytes);
            for (name, ns) in &line.round_trip_ns {
                let at = name.replace('_', ", ");
                bench.sample(Place::new("round-trip", series.clone(), at), ns / 1e3);
            }
            let Some(raw) = line.round_trip_ns.get("raw") else { continue };
            let here = format!("TAP and veth, {series}");
            // One way, as a message each time: the table's throughput.
            let mbits = |ns: f64| line.size_bytes as f64 * 8e3 / (ns / 2.0);
            bench.sample(Place::new("table-1", "latency alone", here.clone()), mbits(*raw));
            for (name, series) in [
                ("kernel", "kernel"),
                ("kernel_spinning", "kernel, spinning"),
                ("fusewire", "user level"),
            ] {
                let Some(ns) = line.round_trip_ns.get(name) else { continue };
                bench.sample(Place::new("cost", series, here.clone()), ns / raw);
                let series = format!("with overhead, {series}");
                bench.sample(Place::new("table-1", series, here.clone()), mbits(*ns));
            }
        }
        Ok(())
    })
}

pub(super) fn dabbous(bench: &mut Bench<'_>, protocol: Protocol) -> Result<()> {
    // Those of the paper's tables.
    let sizes = match protocol {
        Protocol::Udp => [1000, 1400, 2000, 3000, 4000, 4600, 9000],
        Protocol::Tcp => [1023, 1024, 1400, 2000, 3000, 4000, 5000],
    };
    let sizes = bench.choose(vec![sizes[1], sizes[4], sizes[6]], sizes.to_vec());
    let packets: &[u32] = bench.choose(&[20, 500], &[15, 20, 100, 500]);
    let rounds = bench.choose(1, 5);
    bench.rounds(rounds, |bench, round| {
        runs(bench, protocol, &sizes, packets)?;
        for (i, size) in sizes.iter().enumerate() {
            let plan = Plan {
                messages: true,
                sizes: vec![*size],
                protocols: vec![protocol],
                directions: vec![Direction::Both],
                ..plan(bench)
            };
            for line in lines(bench, &plan)? {
                let Line::Messages(line) = line else { continue };
                for (name, rates) in &line.rates {
                    let series = match *name {
                        "kernel" => "kernel sockets, without end",
                        "kernel_offload" => "kernel sockets with segmentation offload, without end",
                        "fusewire" => "user level, without end",
                        "fusewire_batch" => "user level, many a call, without end",
                        other => other,
                    };
                    let mbits = rates.messages_per_s * *size as f64 * 8e-6;
                    bench.sample(Place::new("throughput", series, *size), mbits);
                }
            }
            let part = (round as f64 + (i + 1) as f64 / sizes.len() as f64) / rounds as f64;
            bench.step(part, &format!("round {}, {size} bytes", round + 1))?;
        }
        Ok(())
    })
}

/// By the paper's method: numbered messages, from the first to the last.
fn runs(bench: &mut Bench<'_>, protocol: Protocol, sizes: &[usize], packets: &[u32]) -> Result<()> {
    let plan = Plan { sizes: sizes.to_vec(), ..plan(bench) };
    let mut wrong = Vec::new();
    let found = numbered::measure(&plan, protocol, packets, &mut |why| wrong.push(why.to_owned()))?;
    wrong.into_iter().for_each(|why| bench.remark(why));
    for found in found {
        let whose = if found.means == "kernel" { "kernel sockets" } else { "user level" };
        let series = format!("{whose}, runs of {}", found.packets);
        for rate in &found.messages_per_s {
            let mbits = rate * found.size_bytes as f64 * 8e-6;
            bench.sample(Place::new("throughput", series.clone(), found.size_bytes), mbits);
        }
        if protocol == Protocol::Udp {
            let runs = f64::from(found.lost) + found.messages_per_s.len() as f64;
            let part = f64::from(found.lost) / runs.max(1.0) * 100.0;
            bench.sample(Place::new("lost", series, found.size_bytes), part);
        }
    }
    Ok(())
}
