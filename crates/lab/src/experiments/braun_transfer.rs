//! Braun and Diot, Table 1 and Figures 6 to 12: the whole transfer on loopback, with and without integration.

use fusewire_session::Cipher;
use fusewire_stack::Congestion;

use crate::Result;
use crate::bench::Bench;
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::record::{Place, Point};
use crate::transfer::{self, Carrier, Line, Manipulation, Method, Plan, Source};

const BYTES: Axis = Axis::linear("packet", "bytes");
const RATIO: Axis = Axis::linear("non-ILP ÷ ILP", "");
const NS: Axis = Axis::linear("time a packet", "ns");
const US: Axis = Axis::linear("time a packet", "µs");

pub(super) const PACKETS: Experiment = Experiment {
    name: "braun-packets",
    paper: Paper::BraunDiot,
    shows: "Table 1, Figures 6 to 10",
    title: "Packet times and throughput by size",
    question: "How long does it take to send and to receive a packet, and how much goes through, with one loop (ILP) and \
               with separate passes (non-ILP)?",
    method: "Two processes on loopback over UDP, as in the paper, with ADUs of 256 to 1280 bytes, one to a packet: the \
             simplified SAFER cipher, the checksum and the store in one loop, or in a pass each. Packet times are those of \
             the user-level processing without system calls; each round runs both, one after the other.",
    differs: "Nothing is marshalled here, and no bytes are swapped: contents are octets. The paper's packet times and its \
              loop have XDR in them, one stage more that integration gains from. The cipher's table look-ups are done in vectors here, and an ADU of 1 KiB never leaves the first-level cache between \
              passes. Between the two processes lies the kernel's loopback, which takes its time with either.",
    charts: &[
        Chart::lines("gain-send", "Figure 7: sending, non-ILP time by ILP time", BYTES, RATIO),
        Chart::lines("gain-receive", "Figure 6: receiving, non-ILP time by ILP time", BYTES, RATIO),
        Chart::lines(
            "gain-throughput",
            "Figures 8, 9: throughput, ILP by non-ILP",
            BYTES,
            Axis::linear("ILP ÷ non-ILP", ""),
        ),
        Chart::lines("send-time", "Figure 7: sending a packet", BYTES, US).own_axis(),
        Chart::lines("receive-time", "Figure 6: receiving a packet", BYTES, US).own_axis(),
        Chart::lines(
            "throughput",
            "Figures 8, 9: throughput",
            BYTES,
            Axis::linear("throughput", "Mbit/s"),
        )
        .own_axis(),
    ],
    published,
    needs: Needs::Nothing,
    seconds: [2.0, 35.0],
    run: packets,
};

/// Table 1: packet size; throughput of ILP and non-ILP in Mbit/s; µs of ILP send and receive, of non-ILP send
/// and receive.
type Row = (f64, [f64; 6]);
const TABLE_1: [(&str, [Row; 5]); 7] = [
    (
        "SPARCstation 10-30",
        [
            (256.0, [1.74, 1.58, 128.0, 118.0, 124.0, 141.0]),
            (512.0, [3.22, 2.58, 187.0, 176.0, 201.0, 228.0]),
            (768.0, [4.35, 4.15, 260.0, 263.0, 289.0, 280.0]),
            (1024.0, [5.43, 4.95, 311.0, 300.0, 369.0, 356.0]),
            (1280.0, [6.02, 4.3, 374.0, 363.0, 468.0, 456.0]),
        ],
    ),
    (
        "SPARCstation 10-41",
        [
            (256.0, [2.34, 2.19, 103.0, 90.0, 101.0, 123.0]),
            (512.0, [4.35, 3.67, 149.0, 144.0, 169.0, 182.0]),
            (768.0, [5.53, 5.27, 192.0, 194.0, 248.0, 241.0]),
            (1024.0, [6.68, 5.95, 248.0, 249.0, 315.0, 312.0]),
            (1280.0, [8.39, 6.88, 304.0, 300.0, 379.0, 379.0]),
        ],
    ),
    (
        "SPARCstation 10-51",
        [
            (256.0, [3.02, 2.64, 77.0, 72.0, 91.0, 88.0]),
            (512.0, [5.41, 4.69, 124.0, 116.0, 147.0, 147.0]),
            (768.0, [7.78, 7.01, 158.0, 158.0, 202.0, 195.0]),
            (1024.0, [9.23, 8.35, 194.0, 206.0, 241.0, 240.0]),
            (1280.0, [9.48, 8.65, 239.0, 248.0, 301.0, 310.0]),
        ],
    ),
    (
        "SPARCstation 20-60",
        [
            (256.0, [3.45, 3.26, 65.0, 61.0, 82.0, 79.0]),
            (512.0, [7.17, 6.52, 98.0, 96.0, 112.0, 110.0]),
            (768.0, [9.05, 8.09, 130.0, 141.0, 159.0, 155.0]),
            (1024.0, [10.44, 8.86, 162.0, 163.0, 212.0, 204.0]),
            (1280.0, [11.66, 9.61, 199.0, 199.0, 253.0, 256.0]),
        ],
    ),
    (
        "DEC AXP 3000/500",
        [
            (256.0, [2.52, 2.53, 100.0, 73.0, 103.0, 73.0]),
            (512.0, [4.43, 4.30, 135.0, 109.0, 149.0, 120.0]),
            (768.0, [6.07, 5.72, 174.0, 156.0, 195.0, 163.0]),
            (1024.0, [7.40, 6.95, 214.0, 195.0, 252.0, 195.0]),
            (1280.0, [8.59, 8.07, 252.0, 227.0, 302.0, 237.0]),
        ],
    ),
    (
        "DEC AXP 3000/600",
        [
            (256.0, [2.57, 2.59, 85.0, 74.0, 86.0, 73.0]),
            (512.0, [4.36, 4.39, 122.0, 93.0, 137.0, 109.0]),
            (768.0, [6.36, 6.12, 146.0, 127.0, 162.0, 140.0]),
            (1024.0, [7.83, 7.52, 187.0, 160.0, 214.0, 167.0]),
            (1280.0, [8.98, 8.56, 227.0, 191.0, 256.0, 201.0]),
        ],
    ),
    (
        "DEC AXP 3000/800",
        [
            (256.0, [3.51, 3.46, 69.0, 55.0, 70.0, 54.0]),
            (512.0, [5.98, 5.90, 100.0, 85.0, 107.0, 80.0]),
            (768.0, [8.02, 7.46, 127.0, 110.0, 150.0, 114.0]),
            (1024.0, [9.78, 9.30, 164.0, 139.0, 189.0, 151.0]),
            (1280.0, [11.44, 10.72, 193.0, 165.0, 244.0, 183.0]),
        ],
    ),
];

/// Machines whose times are drawn too: those that the text speaks of.
const DRAWN: [&str; 3] = ["SPARCstation 10-30", "SPARCstation 20-60", "DEC AXP 3000/800"];

fn published() -> Vec<Point> {
    let mut points = Vec::new();
    for (machine, rows) in TABLE_1 {
        for (size, [ilp, non, ilp_send, ilp_receive, non_send, non_receive]) in rows {
            let mut add = |chart: &str, series: &str, value| {
                points.push(Place::new(chart, series, size).is(value));
            };
            add("gain-send", machine, non_send / ilp_send);
            add("gain-receive", machine, non_receive / ilp_receive);
            add("gain-throughput", machine, ilp / non);
            if DRAWN.contains(&machine) {
                for (chart, values) in [
                    ("send-time", [ilp_send, non_send]),
                    ("receive-time", [ilp_receive, non_receive]),
                    ("throughput", [ilp, non]),
                ] {
                    add(chart, &format!("{machine}, ILP"), values[0]);
                    add(chart, &format!("{machine}, non-ILP"), values[1]);
                }
            }
        }
    }
    points
}

/// What a plan of ours has, but for its methods and sizes.
fn plan(bench: &Bench<'_>, methods: Vec<Method>, sizes: &[usize], cipher: Cipher) -> Plan {
    Plan {
        machine: None,
        methods,
        carrier: Carrier::UDP,
        congestion: Congestion::default(),
        manipulation: Manipulation::default(),
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
        Method::KernelTcpPasses => "kernel TCP, the same records, non-ILP",
        other => other.name(),
    }
}

fn packets(bench: &mut Bench<'_>) -> Result<()> {
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

pub(super) const CIPHERS: Experiment = Experiment {
    name: "braun-ciphers",
    paper: Paper::BraunDiot,
    shows: "Figures 11 and 12",
    title: "A simpler cipher, and kernel TCP",
    question: "Does a simpler cipher leave integration more to gain, and how far is the user-level TCP from the kernel's?",
    method: "As packet times by size (cipher, checksum and store), with ADUs of 1 KiB, under the simplified SAFER cipher and \
             under the pseudo-encryption, and beside them kernel TCP without a cipher and kernel TCP that carries the same \
             encrypted records, made with a pass for each stage as in the paper's Figure 12.",
    differs: "Nothing is marshalled here, and no bytes are swapped, as they were in the paper on both sides. Kernel TCP gathers records into segments of 64 KiB on loopback, which the paper's kernel did not, while the \
              user-level TCP sends a packet for each ADU of 1 KiB: its distance from the kernel is that of many small \
              packets. `fusewire bench transfer` has larger ones.",
    charts: &[
        Chart::bars("gain", "Figure 11: non-ILP by ILP, packets of 1 KiB", RATIO),
        Chart::bars("time", "Figure 11: time of a packet here", NS),
        Chart::bars(
            "throughput",
            "Figure 12: throughput here",
            Axis::linear("throughput", "Mbit/s"),
        ),
    ],
    published: || {
        let gain = |at, value| Place::new("gain", "SPARCstation 10-30", at).is(value);
        // Section 4.1: 16 % of both with the SAFER cipher; 32 and 40 % with the simple one.
        vec![
            gain("simplified SAFER, send", 369.0 / 311.0),
            gain("simplified SAFER, receive", 356.0 / 300.0),
            gain("pseudo-encryption, send", 1.0 / (1.0 - 0.32)),
            gain("pseudo-encryption, receive", 1.0 / (1.0 - 0.40)),
        ]
    },
    needs: Needs::Nothing,
    seconds: [2.0, 16.0],
    run: ciphers,
};

fn ciphers(bench: &mut Bench<'_>) -> Result<()> {
    bench.rounds(bench.choose(2, 15), |bench, round| {
        for (cipher, words) in
            [(Cipher::SAFER_SIMPLIFIED, "simplified SAFER"), (Cipher::PES, "pseudo-encryption")]
        {
            let mut methods = vec![Method::Integrated, Method::Sequential, Method::KernelTcpPasses];
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

pub(super) const WHEN: Experiment = Experiment {
    name: "braun-when",
    paper: Paper::BraunDiot,
    shows: "sections 3.2.2 and 3.2.3",
    title: "When to manipulate: early, late, ahead",
    question: "Receiving: right after the frame came, or when the application asks? Sending: ahead, or when there is room?",
    method: "Integrated transfers (cipher, checksum and store; nothing is marshalled) on loopback with ADUs of 1 KiB and \
             16 KiB under the simplified SAFER cipher. Late and when there is room are this system's ways; early opens each ADU into memory of the stack and copies it \
             when asked, ahead seals beyond what can leave at once.",
    differs: "The paper finds 5 µs between early and late on a SPARCstation 10-30 (of about 300 µs) and takes early, for simpler \
              acknowledgements; here late saves a copy into the application's own memory. For sending ahead the paper \
              expects nothing that shows beside a network's latency (about 100 µs of milliseconds).",
    charts: &[
        Chart::bars("throughput", "Throughput", Axis::linear("throughput", "Mbit/s")),
        Chart::bars("time", "User-level time of a packet of 1 KiB", NS),
        Chart::bars(
            "gain",
            "Time of a packet of 1 KiB by that of this system's way",
            Axis::linear("÷ time of late, when there is room", ""),
        ),
    ],
    published: || {
        // Table 1 was measured early: 300 µs to receive; late was 5 µs less (section 3.2.3).
        vec![Place::new("gain", "early, SPARCstation 10-30", "receive").is(300.0 / 295.0)]
    },
    needs: Needs::Nothing,
    seconds: [3.0, 25.0],
    run: when,
};

fn when(bench: &mut Bench<'_>) -> Result<()> {
    let ways = [
        ("late, when there is room", Manipulation { ahead: false, early: false }),
        ("early, when there is room", Manipulation { ahead: false, early: true }),
        ("late, ahead", Manipulation { ahead: true, early: false }),
    ];
    bench.rounds(bench.choose(3, 15), |bench, round| {
        for i in 0..ways.len() {
            let (series, manipulation) = ways[(i + round) % ways.len()];
            let mut plan =
                plan(bench, vec![Method::Integrated], &[1024, 16_384], Cipher::SAFER_SIMPLIFIED);
            plan.manipulation = manipulation;
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
