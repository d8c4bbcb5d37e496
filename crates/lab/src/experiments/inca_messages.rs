//! INCA, Tables 1 to 3 and Figures 2 and 3; and Dabbous, Tables 7 and 8, which want the same: messages by size
//! over the kernel's sockets and over the user-level stack.

use crate::Result;
use crate::bench::Bench;
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::inca::{self, Direction, Line, Plan, Protocol};
use crate::record::{Place, Point};

const BYTES: Axis = Axis::logarithmic("message", "bytes");
const MBITS: Axis = Axis::logarithmic("throughput", "Mbit/s");
const TIME: Axis = Axis::logarithmic("time", "ns");

pub(super) const PROCESSING: Experiment = Experiment {
    name: "inca-processing",
    paper: Paper::Inca,
    shows: "Table 3, the columns of protocol processing",
    title: "Protocol processing alone",
    question: "How long is a packet's way from the frame in memory to the application's buffer, in one loop and in passes?",
    method: "UDP packets (checksum verified, XDR's byte order undone) and TCP segments (checksum verified, acknowledgement \
             made) of each size, in memory: one loop, or a pass for the sum, one for the copy and one more. UDP messages \
             that are arrays of XDR doubles: verified and unmarshalled in one loop, or in two passes. As \
             `fusewire bench inca --parts processing`.",
    differs: "The paper compares its library with Linux 2.0 as it was, system call and interrupts with it; here both sides are \
              this system's stack, and only the passes over the data differ. What the kernel of today takes is in the \
              experiment on messages. With XDR the paper's whole gain at the application rises from 587 to 613 %.",
    charts: &[
        Chart::lines(
            "gain",
            "Passes by one loop",
            BYTES,
            Axis::logarithmic("passes ÷ one loop", ""),
        ),
        Chart::lines("time", "Table 3: processing a UDP packet", BYTES, TIME).own_axis(),
    ],
    published: || {
        let mut points = Vec::new();
        for (size, _, [linux, inca], ..) in TABLE_3 {
            points.push(Place::new("gain", "Linux 2.0 by INCA", size).is(linux / inca));
            points.push(Place::new("time", "UDP, Linux 2.0", size).is(linux * 1000.0));
            points.push(Place::new("time", "UDP, INCA, one loop", size).is(inca * 1000.0));
        }
        points
    },
    needs: Needs::Nothing,
    seconds: [3.0, 25.0],
    run: processing,
};

pub(super) const MESSAGES: Experiment = Experiment {
    name: "inca-messages",
    paper: Paper::Inca,
    shows: "Tables 2 and 3, Figures 2 and 3",
    title: "Messages by size, beside the kernel's sockets",
    question: "How many messages of each size reach the application through a user-level stack and through the kernel's?",
    method: "Two network namespaces joined by veth and TAP; the sender is a kernel that sends as fast as it can; the receiver \
             takes UDP datagrams or pieces of a TCP stream through the kernel's sockets, or through the user-level stack \
             straight on the interface. All in turns; as `fusewire bench inca --parts messages`.",
    differs: "The paper's gains (160 to 587 %) are over kernels of 1996 and 1997 on real networks. The wire here is memory, and \
              the interface is the kernel's TAP, whose crossing costs what a device would. Short UDP messages come in frames \
              of many, as the sending kernel's segmentation offload makes them: the user-level stack takes a frame at a time, \
              the kernel's sockets a message a call, as in the paper, or many a call with UDP_GRO, which stands beside them. Like \
              for like is a message a call on both sides: that line is drawn too. \
              A UDP message beyond the MTU comes in fragments, and a lost one costs them all. The kernel's columns of Table 3 are \
              differences of processor times, ours are timed.",
    charts: &[
        Chart::lines(
            "gain",
            "Tables 2, 3: user-level by kernel",
            BYTES,
            Axis::logarithmic("user level ÷ kernel", ""),
        ),
        Chart::lines(
            "throughput",
            "Figures 2, 3: throughput at the application, UDP",
            BYTES,
            MBITS,
        )
        .own_axis(),
        Chart::lines("throughput-tcp", "Table 2: throughput at the application, TCP", BYTES, MBITS)
            .own_axis(),
        Chart::lines("device", "Table 3: a UDP message from the device to memory", BYTES, TIME)
            .own_axis(),
        Chart::lines("protocol", "Table 3: a UDP message's protocol processing", BYTES, TIME)
            .own_axis(),
    ],
    published: || {
        let mut points = Vec::new();
        for (size, devices, protocols, rates, gain) in TABLE_3 {
            points.push(Place::new("gain", "UDP, Linux 2.0 on a PC", size).is(gain / 100.0));
            for (chart, [kernel, inca], factor) in [
                ("device", devices, 1000.0),
                ("protocol", protocols, 1000.0),
                ("throughput", rates, 1.0),
            ] {
                points.push(Place::new(chart, "Linux 2.0, kernel", size).is(kernel * factor));
                points.push(Place::new(chart, "Linux 2.0, INCA", size).is(inca * factor));
            }
        }
        for (protocol, chart, rows) in
            [("TCP", "throughput-tcp", TABLE_2_TCP), ("UDP", "throughput", TABLE_2_UDP)]
        {
            for (size, [kernel, inca], gain) in rows {
                let place = Place::new("gain", format!("{protocol}, Solaris 2.5.1"), size);
                points.push(place.is(gain / 100.0));
                points.push(Place::new(chart, "Solaris, kernel", size).is(kernel * 8e-6));
                points.push(Place::new(chart, "Solaris, INCA", size).is(inca * 8e-6));
            }
        }
        points
    },
    needs: Needs::Root,
    seconds: [14.0, 130.0],
    run: messages,
};

pub(super) const OVERHEAD: Experiment = Experiment {
    name: "inca-overhead",
    paper: Paper::Inca,
    shows: "Table 1",
    title: "Overhead against latency",
    question: "What of a message's time is the network's, and what is the software's at its ends?",
    method: "64 bytes there and back over veth and TAP: the raw device alone is latency (what no protocol can avoid here), and \
             what the kernel's sockets and the user-level stack take beyond it is overhead. As `fusewire bench inca --parts \
             round-trip`.",
    differs: "The paper's ratio is, by its own figures, the cost with overhead by that of latency alone (41.88 by 1.353 Mbit/s are \
              30.95 for FDDI), and is made alike here; the one for Ethernet cannot be read in the table and is computed from \
              its throughputs, the text has 3.6. Its messages have 1000 bytes, on networks of 10 to 640 Mbit/s whose latency \
              is real; the latency here is that of a device in memory whose ends \
              spin. The kernel sleeps until a message comes, as it is used, or spins too.",
    charts: &[
        Chart::bars(
            "cost",
            "Table 1: cost with overhead by cost of latency alone",
            Axis::logarithmic("with overhead ÷ latency alone", ""),
        )
        .own_axis(),
        Chart::bars("round-trip", "A round trip of 64 bytes here", Axis::linear("time", "µs")),
    ],
    published: || {
        [("Ethernet", 3.536 / 0.985), ("FDDI", 30.95), ("ATM", 59.43), ("Myrinet", 182.39)]
            .map(|(network, ratio)| Place::new("cost", "kernel", network).is(ratio))
            .to_vec()
    },
    needs: Needs::Root,
    seconds: [2.0, 9.0],
    run: overhead,
};

pub(super) const DABBOUS_UDP: Experiment = Experiment {
    name: "dabbous-udp",
    paper: Paper::Dabbous,
    shows: "Table 7",
    title: "UDP throughput by packet size",
    question: "How much goes through UDP by size of the packet?",
    method: "As INCA's messages, both ends measured: the kernel's sockets at both, or the user-level stack at both.",
    differs: DABBOUS_DIFFERS,
    charts: &[Chart::lines("throughput", "Table 7", BYTES, MBITS).own_axis()],
    published: || throughput(&TABLE_7),
    needs: Needs::Root,
    seconds: [6.0, 75.0],
    run: |bench| dabbous(bench, Protocol::Udp),
};

pub(super) const DABBOUS_TCP: Experiment = Experiment {
    name: "dabbous-tcp",
    paper: Paper::Dabbous,
    shows: "Table 8",
    title: "TCP throughput by packet size",
    question: "How much goes through TCP by size of the application's writes?",
    method: "As INCA's messages, both ends measured: the kernel's sockets at both, or the user-level stack at both.",
    differs: DABBOUS_DIFFERS,
    charts: &[Chart::lines("throughput", "Table 8", BYTES, MBITS).own_axis()],
    published: || throughput(&TABLE_8),
    needs: Needs::Root,
    seconds: [5.0, 60.0],
    run: |bench| dabbous(bench, Protocol::Tcp),
};

const DABBOUS_DIFFERS: &str = "Ethernet and FDDI bound the paper's figures at 10 and 30 Mbit/s; the wire here is memory and \
                               bounds nothing, so that the cost of a packet does. Cliffs of the kernel's buffers (TCP below \
                               1024 bytes) have no counterpart.";

/// Table 2: size; bytes a second at the application with Solaris and INCA; INCA by Solaris in %.
type Rates = [(f64, [f64; 2], f64); 5];
const TABLE_2_TCP: Rates = [
    (50.0, [296_940.0, 1_024_989.0], 345.0),
    (100.0, [587_251.0, 2_022_163.0], 344.0),
    (200.0, [1_143_687.0, 4_008_016.0], 350.0),
    (1000.0, [5_480_053.0, 16_863_975.0], 308.0),
    (1400.0, [7_391_061.0, 22_876_191.0], 310.0),
];
const TABLE_2_UDP: Rates = [
    (50.0, [612_182.0, 3_491_376.0], 570.0),
    (100.0, [1_161_724.0, 6_250_000.0], 538.0),
    (200.0, [2_245_702.0, 10_099_480.0], 450.0),
    (1000.0, [10_008_908.0, 20_175_934.0], 202.0),
    (1400.0, [13_440_473.0, 21_463_175.0], 160.0),
];

/// Table 3: size; µs from device to memory with Linux and INCA; µs of protocol processing; Mbit/s at the
/// application; INCA by Linux in %.
type Row = (f64, [f64; 2], [f64; 2], [f64; 2], f64);
const TABLE_3: [Row; 10] = [
    (10.0, [1829.0, 1344.0], [1889.0, 15.0], [0.02, 0.06], 274.0),
    (100.0, [1893.0, 1506.0], [1991.0, 18.0], [0.21, 0.52], 255.0),
    (200.0, [2013.0, 1517.0], [2055.0, 42.0], [0.39, 1.03], 261.0),
    (500.0, [2193.0, 1551.0], [2008.0, 45.0], [0.95, 2.51], 263.0),
    (1000.0, [2569.0, 1595.0], [2029.0, 79.0], [1.74, 4.78], 275.0),
    (1500.0, [3043.0, 2069.0], [3927.0, 110.0], [1.72, 5.51], 320.0),
    (2000.0, [3043.0, 2069.0], [4357.0, 160.0], [2.16, 7.18], 332.0),
    (4000.0, [3280.0, 2306.0], [7463.0, 305.0], [2.98, 12.26], 411.0),
    (10_000.0, [4228.0, 3254.0], [18_347.0, 663.0], [3.54, 20.42], 576.0),
    (65_000.0, [13_234.0, 12_260.0], [95_056.0, 6186.0], [4.80, 28.19], 587.0),
];

/// Dabbous, Table 7: octets; Mbit/s over Ethernet and FDDI.
const TABLE_7: [[f64; 3]; 7] = [
    [1000.0, 6.90, 7.02],
    [1400.0, 9.57, 10.32],
    [2000.0, 9.52, 13.22],
    [3000.0, 9.66, 16.66],
    [4000.0, 9.47, 29.03],
    [4600.0, 9.32, 24.53],
    [9000.0, 9.21, 24.66],
];
/// Table 8.
const TABLE_8: [[f64; 3]; 7] = [
    [1023.0, 7.25, 8.43],
    [1024.0, 8.35, 19.05],
    [1400.0, 9.91, 20.74],
    [2000.0, 9.82, 18.86],
    [3000.0, 9.16, 18.04],
    [4000.0, 9.00, 17.60],
    [5000.0, 8.71, 15.73],
];

fn throughput(table: &[[f64; 3]]) -> Vec<Point> {
    let of = |[size, ethernet, fddi]: &[f64; 3]| {
        [
            Place::new("throughput", "Ethernet", *size).is(*ethernet),
            Place::new("throughput", "FDDI", *size).is(*fddi),
        ]
    };
    table.iter().flat_map(of).collect()
}

fn plan(bench: &Bench<'_>) -> Plan {
    Plan {
        protocols: vec![Protocol::Udp, Protocol::Tcp],
        directions: vec![Direction::Receive],
        sizes: inca::SIZES.to_vec(),
        messages: false,
        bulk: false,
        processing: false,
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

fn processing(bench: &mut Bench<'_>) -> Result<()> {
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

fn messages(bench: &mut Bench<'_>) -> Result<()> {
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
    for (series, times) in [("kernel", &line.kernel), ("user level", &line.fusewire)] {
        for (chart, ns) in [("device", times.device_ns), ("protocol", times.protocol_ns)] {
            if let Some(ns) = ns.filter(|ns| udp && *ns > 0.0) {
                bench.sample(Place::new(chart, series, size), ns);
            }
        }
    }
}

fn overhead(bench: &mut Bench<'_>) -> Result<()> {
    bench.rounds(bench.choose(2, 7), |bench, _| {
        let plan = Plan { round_trip: true, ..plan(bench) };
        for line in lines(bench, &plan)? {
            let Line::RoundTrip(line) = line else { continue };
            for (name, ns) in &line.round_trip_ns {
                bench.sample(
                    Place::new("round-trip", "this machine", name.replace('_', ", ")),
                    ns / 1e3,
                );
            }
            let Some(raw) = line.round_trip_ns.get("raw") else { continue };
            for (name, series) in [
                ("kernel", "kernel"),
                ("kernel_spinning", "kernel, spinning"),
                ("fusewire", "user level"),
            ] {
                let Some(ns) = line.round_trip_ns.get(name) else { continue };
                let place = Place::new("cost", series, "TAP and veth, 64 bytes");
                bench.sample(place, ns / raw);
            }
        }
        Ok(())
    })
}

fn dabbous(bench: &mut Bench<'_>, protocol: Protocol) -> Result<()> {
    let table = if protocol == Protocol::Udp { &TABLE_7 } else { &TABLE_8 };
    let sizes: Vec<usize> = table.iter().map(|row| row[0] as usize).collect();
    let sizes = bench.choose(vec![sizes[1], sizes[4], sizes[6]], sizes);
    let rounds = bench.choose(1, 5);
    bench.rounds(rounds, |bench, round| {
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
                        "kernel" => "kernel sockets",
                        "kernel_offload" => "kernel sockets with segmentation offload",
                        "fusewire" => "user level",
                        "fusewire_batch" => "user level, many a call",
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
