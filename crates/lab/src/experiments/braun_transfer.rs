//! Braun and Diot, Table 1 and Figures 6 to 12: the whole transfer on loopback, with and without integration.

use fusewire_session::Cipher;
use fusewire_stack::Congestion;

use crate::Result;
use crate::bench::Bench;
use crate::record::Place;
use crate::transfer::requested::Asking;
use crate::transfer::{
    self, Carrier, Impairment, Line, Manipulation, Method, Plan, Source, Transport, requested,
};

/// What a plan of ours has, but for its methods and sizes.
fn plan(bench: &Bench<'_>, methods: Vec<Method>, sizes: &[usize], cipher: Cipher) -> Plan {
    Plan {
        machine: None,
        methods,
        carrier: Carrier::UDP,
        transports: vec![Transport::default()],
        path: Impairment::default(),
        congestion: Congestion::default(),
        manipulation: Manipulation { swap: true, ..Manipulation::default() },
        bytes: bench.choose(8 << 20, 64 << 20),
        adu_bytes: sizes.iter().map(|size| Some(*size)).collect(),
        datagram_bytes: vec![None],
        cipher,
        source: Source::Memory,
        sink_file: false,
        rounds: 1,
        measure: true,
        program: bench.program.clone(),
        peers: None,
    }
}

/// Runs a plan, looking at the user's wish before each transfer.
fn lines(bench: &mut Bench<'_>, plan: &Plan) -> Result<Vec<Line>> {
    let mut told = Vec::new();
    let lines = transfer::run(plan, &mut |what| told.push(what.to_owned()))?;
    for what in told.into_iter().filter(|what| !what.starts_with("round ")) {
        bench.remark(what);
    }
    Ok(lines)
}

fn name(line: &Line) -> &'static str {
    match line.method {
        Method::Integrated => "ILP",
        Method::Blocked => "in strips",
        Method::Sequential => "non-ILP",
        Method::KernelTcp => "kernel TCP, no cipher",
        Method::KernelTcpRecords => "kernel TCP, the same records, ILP",
        Method::KernelTcpPasses => "kernel TCP, the same records, non-ILP",
        other => other.name(),
    }
}

pub(super) fn packets(bench: &mut Bench<'_>) -> Result<()> {
    let sizes: &[usize] = bench.choose(&[256, 768, 1280], &[256, 512, 768, 1024, 1280]);
    let rounds = bench.choose(2, 15);
    bench.rounds(rounds, |bench, round| {
        for (i, size) in sizes.iter().enumerate() {
            let methods = match round % 2 {
                0 => vec![Method::Integrated, Method::Sequential],
                _ => vec![Method::Sequential, Method::Integrated],
            };
            let plan = plan(bench, methods, &[*size], Cipher::SAFER_SIMPLIFIED);
            for line in lines(bench, &plan)? {
                let at = |chart| Place::new(chart, name(&line), *size);
                if let Some(ns) = line.send_ns_per_packet {
                    bench.sample(at("send-time"), ns / 1e3);
                }
                if let Some(ns) = line.receive_ns_per_packet {
                    bench.sample(at("receive-time"), ns / 1e3);
                }
                bench.sample(at("throughput"), line.bytes_per_s * 8e-6);
            }
            let part = (round as f64 + (i + 1) as f64 / sizes.len() as f64) / rounds as f64;
            bench.step(part, &format!("round {}, packets of {size} bytes", round + 1))?;
        }
        Ok(())
    })?;
    bench.compare("send-time", ["non-ILP", "ILP"], "gain-send", "this machine");
    bench.compare("receive-time", ["non-ILP", "ILP"], "gain-receive", "this machine");
    bench.compare("throughput", ["ILP", "non-ILP"], "gain-throughput", "this machine");
    Ok(())
}

/// How the file is asked for.
const ASKING: [(Asking, &str); 3] = [
    (Asking::Once, "one request"),
    (Asking::Together, "one request, replies together"),
    (Asking::Each, "a request a copy"),
];

/// The paper's application: a request, and replies; beside the same packets in bulk.
pub(super) fn file(bench: &mut Bench<'_>) -> Result<()> {
    let sizes: &[usize] = bench.choose(&[256, 1024], &[256, 512, 768, 1024, 1280]);
    let rounds = bench.choose(2, 15);
    bench.rounds(rounds, |bench, round| {
        for (i, size) in sizes.iter().enumerate() {
            for turn in 0..2 {
                let method = [Method::Integrated, Method::Sequential][(turn + round) % 2];
                let bulk = plan(bench, vec![method], &[*size], Cipher::SAFER_SIMPLIFIED);
                for line in lines(bench, &bulk)? {
                    let series = format!("bulk, {}", name(&line));
                    let place = Place::new("throughput", series, *size);
                    bench.sample(place, line.bytes_per_s * 8e-6);
                }
                for asking in ASKING {
                    asked(bench, method, *size, asking)?;
                }
            }
            let part = (round as f64 + (i + 1) as f64 / sizes.len() as f64) / rounds as f64;
            bench.step(part, &format!("round {}, replies of {size} bytes", round + 1))?;
        }
        Ok(())
    })?;
    bench.compare("send-time", ["non-ILP", "ILP"], "gain", "sending");
    bench.compare("receive-time", ["non-ILP", "ILP"], "gain", "receiving");
    for what in ["bulk"].into_iter().chain(ASKING.map(|(_, what)| what)) {
        let [one, passes] = ["ILP", "non-ILP"].map(|how| format!("{what}, {how}"));
        bench.compare("throughput", [&one, &passes], "gain-throughput", what);
    }
    Ok(())
}

fn asked(
    bench: &mut Bench<'_>,
    method: Method,
    reply_bytes: usize,
    (asking, what): (Asking, &str),
) -> Result<()> {
    let how = if method == Method::Integrated { "ILP" } else { "non-ILP" };
    let found = requested::run(&requested::Plan {
        method,
        cipher: Cipher::SAFER_SIMPLIFIED,
        reply_bytes,
        copies: bench.choose(200, 2000),
        asking,
        program: bench.program.clone(),
    })?;
    let place = Place::new("throughput", format!("{what}, {how}"), reply_bytes);
    bench.sample(place, found.bytes_per_s * 8e-6);
    for (chart, ns) in [("send-time", found.send_ns), ("receive-time", found.receive_ns)] {
        if let Some(ns) = ns.filter(|_| asking == Asking::Once) {
            bench.sample(Place::new(chart, how, reply_bytes), ns / 1e3);
        }
    }
    Ok(())
}

pub(super) fn ciphers(bench: &mut Bench<'_>) -> Result<()> {
    bench.rounds(bench.choose(2, 15), |bench, round| {
        for (cipher, words) in
            [(Cipher::SAFER_SIMPLIFIED, "simplified SAFER"), (Cipher::PES, "pseudo-encryption")]
        {
            let mut methods = vec![
                Method::Integrated,
                Method::Sequential,
                Method::KernelTcpRecords,
                Method::KernelTcpPasses,
            ];
            if cipher == Cipher::PES {
                methods.push(Method::KernelTcp);
            }
            if round % 2 == 1 {
                methods.reverse();
            }
            let plan = plan(bench, methods, &[1024], cipher);
            for line in lines(bench, &plan)? {
                for (way, ns) in
                    [("send", line.send_ns_per_packet), ("receive", line.receive_ns_per_packet)]
                {
                    let Some(ns) = ns else { continue };
                    bench.sample(Place::new("time", name(&line), format!("{words}, {way}")), ns);
                }
                let at = if line.method == Method::KernelTcp { "no cipher" } else { words };
                bench.sample(Place::new("throughput", name(&line), at), line.bytes_per_s * 8e-6);
            }
        }
        Ok(())
    })?;
    bench.compare("time", ["non-ILP", "ILP"], "gain", "this machine");
    Ok(())
}

pub(super) fn when(bench: &mut Bench<'_>) -> Result<()> {
    let ways = [
        ("late, when there is room", [false, false]),
        ("early, when there is room", [false, true]),
        ("late, ahead", [true, false]),
    ];
    bench.rounds(bench.choose(3, 15), |bench, round| {
        for i in 0..ways.len() {
            let (series, [ahead, early]) = ways[(i + round) % ways.len()];
            let mut plan =
                plan(bench, vec![Method::Integrated], &[1024, 16_384], Cipher::SAFER_SIMPLIFIED);
            plan.manipulation = Manipulation { ahead, early, ..plan.manipulation };
            for line in lines(bench, &plan)? {
                let small = line.adu_bytes == Some(1024);
                let at = if small { "ADUs of 1 KiB" } else { "ADUs of 16 KiB" };
                bench.sample(Place::new("throughput", series, at), line.bytes_per_s * 8e-6);
                for (way, ns) in
                    [("send", line.send_ns_per_packet), ("receive", line.receive_ns_per_packet)]
                {
                    if let Some(ns) = ns.filter(|_| small) {
                        bench.sample(Place::new("time", series, way), ns);
                    }
                }
            }
        }
        Ok(())
    })?;
    let [late, early, ahead] = ways.map(|(series, _)| series);
    bench.compare("time", [early, late], "gain", "early, this machine");
    bench.compare("time", [ahead, late], "gain", "ahead, this machine");
    Ok(())
}

/// The paper's parts in the records of the transport: type, length and index lie behind what is encrypted first.
pub(super) fn protected(bench: &mut Bench<'_>) -> Result<()> {
    let ways =
        [("in the clear", None), ("enciphered", Some(1)), ("enciphered, filled up", Some(256))];
    let sizes: &[usize] =
        bench.choose(&[256, 1024, 16_384], &[64, 256, 512, 1024, 1388, 4096, 16_384]);
    let rounds = bench.choose(2, 15);
    bench.rounds(rounds, |bench, round| {
        for (i, size) in sizes.iter().enumerate() {
            for turn in 0..ways.len() {
                let (series, padding) = ways[(turn + round) % ways.len()];
                let mut plan = plan(bench, vec![Method::Integrated], &[*size], Cipher::AES_256_GCM);
                plan.manipulation.record_padding = padding;
                for line in lines(bench, &plan)? {
                    let at = |chart| Place::new(chart, series, *size);
                    bench.sample(at("throughput"), line.bytes_per_s * 8e-6);
                    bench.sample(at("cpu"), line.cpu_s_per_gib);
                }
            }
            let part = (round as f64 + (i + 1) as f64 / sizes.len() as f64) / rounds as f64;
            bench.step(part, &format!("round {}, ADUs of {size} bytes", round + 1))?;
        }
        Ok(())
    })?;
    for (series, _) in &ways[1..] {
        bench.compare("throughput", [series, ways[0].0], "part", series);
    }
    Ok(())
}
