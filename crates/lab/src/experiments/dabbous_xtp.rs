//! Dabbous, Tables 7 to 9 by one method over one wire: raw ADUs by their size over UDP, TCP and XTP, in packets of the
//! paper's two networks; and Figure 1 with the time that each part of it takes.

use std::hint::black_box;
use std::time::Duration;

use fusewire_calibration::turn;

use crate::Result;
use crate::adus::{self, Found, Means, NETWORKS, Network, Wire};
use crate::bench::Bench;
use crate::record::Place;

/// A table of the paper: its chart, its sizes, and what carries them here.
struct Table {
    chart: &'static str,
    adu_bytes: &'static [usize],
    means: &'static [Means],
}

const TABLES: [Table; 3] = [
    Table {
        chart: "table-7",
        adu_bytes: &[1000, 1400, 2000, 3000, 4000, 4600, 9000],
        means: &[Means::KernelUdp, Means::XtpOnce],
    },
    Table {
        chart: "table-8",
        adu_bytes: &[1023, 1024, 1400, 2000, 3000, 4000, 5000],
        means: &[Means::KernelTcp, Means::Tcp, Means::Xtp],
    },
    Table {
        chart: "throughput",
        adu_bytes: &[2000, 4000, 8192, 16_384],
        means: &[Means::Xtp, Means::KernelTcp],
    },
];
/// Datagrams of a run: with those few the paper found most, as the receiver's queue holds them.
const DATAGRAMS: u32 = 20;
/// The ADU of Figure 1.
const FIGURE_BYTES: usize = 8192;

/// What is measured once in a round.
struct Case {
    table: &'static Table,
    wire: usize,
    means: Means,
    adu_bytes: usize,
}

fn cases(is_quick: bool) -> Vec<Case> {
    let mut all = Vec::new();
    for table in &TABLES {
        // The last table is the one that everything is about.
        let is_short = is_quick && table.chart != "throughput";
        let sizes = table.adu_bytes.iter().enumerate().filter(|(i, _)| !is_short || i % 3 == 1);
        for (_, adu_bytes) in sizes {
            for wire in 0..NETWORKS.len() {
                for &means in table.means {
                    all.push(Case { table, wire, means, adu_bytes: *adu_bytes });
                }
            }
        }
    }
    all
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let mut wires = Vec::new();
    for network in NETWORKS {
        let (wire, remark) = Wire::new(network, &bench.program)?;
        remark.into_iter().for_each(|remark| bench.remark(remark));
        wires.push(wire);
    }
    // More than the kernel's TCP keeps for a receiver that does not read yet.
    let run_bytes = bench.choose(8 << 20, 16 << 20);
    let rounds = bench.choose(1, 5);
    let cases = cases(bench.quick);
    bench.rounds(rounds, |bench, round| {
        let (count, mut first) = (cases.len(), true);
        for nth in 0..count {
            let case = &cases[if round % 2 == 0 { nth } else { count - 1 - nth }];
            let wire = &wires[case.wire];
            let adus = match case.means {
                Means::KernelUdp => DATAGRAMS,
                _ => (run_bytes / case.adu_bytes) as u32,
            };
            let found = adus::measure(wire, case.means, case.adu_bytes, adus)?;
            add(bench, case, wire.network, &found);
            if std::mem::take(&mut first) {
                loops(bench);
            }
            let part = (round as f64 + (nth + 1) as f64 / count as f64) / rounds as f64;
            let (means, network) = (case.means.words(), wire.network.name);
            let what = format!("round {}, {} bytes, {means}, {network}", round + 1, case.adu_bytes);
            bench.step(part, &what)?;
        }
        Ok(())
    })?;
    for network in NETWORKS {
        let name = |means: Means| series(means, network);
        let (xtp, tcp) = (name(Means::Xtp), name(Means::KernelTcp));
        bench.compare("throughput", [&xtp, &tcp], "by-tcp", network.name);
    }
    bench.ratios("throughput", TABLES[2].adu_bytes[0], "gain");
    Ok(())
}

fn series(means: Means, network: Network) -> String {
    format!("{}, {}", means.words(), network.name)
}

fn add(bench: &mut Bench<'_>, case: &Case, network: Network, found: &Found) {
    let (series, size) = (series(case.means, network), case.adu_bytes);
    match found.best_mbits() {
        Some(mbits) => bench.sample(Place::new(case.table.chart, series, size), mbits),
        None => bench.remark(format!("{series}, {size} bytes: no run's last datagram came")),
    }
    if case.means == Means::KernelUdp {
        let part = f64::from(found.lost) / f64::from(found.lost + found.rates.len() as u32) * 100.0;
        bench.sample(Place::new("lost", network.name, size), part);
    }
    if case.means == Means::Xtp && size == FIGURE_BYTES {
        for (side, spent) in ["sender", "receiver"].into_iter().zip(found.spent) {
            let series = format!("{side}, {}", network.name);
            let mut part =
                |at: &str, ns: f64| bench.sample(Place::new("figure-1", series.clone(), at), ns);
            part("application and library", spent.work_ns - spent.kernel_ns);
            part("kernel", spent.kernel_ns);
        }
    }
}

/// The loop that copies and checks, alone, over as much memory as the contexts have, for Figure 1.
fn loops(bench: &mut Bench<'_>) {
    const MEMORY: usize = 1 << 20;
    // Both were written before.
    let (from, mut to) = (vec![7u8; MEMORY], vec![1u8; MEMORY]);
    for network in NETWORKS {
        let level = bench.level;
        let each = network.packet_bytes;
        let mut at = 0;
        let length = bench.choose(Duration::from_micros(200), Duration::from_millis(2));
        let ns = turn(length, || {
            for _ in 0..16 {
                at = if at + each > MEMORY { 0 } else { at };
                let (from, to) = (&from[at..][..each], &mut to[at..][..each]);
                black_box(fusewire_kernels::copy_cxor(level, from, to));
                at += each;
            }
        });
        let ns = ns / (16 * each) as f64 * FIGURE_BYTES as f64;
        for side in ["sender", "receiver"] {
            let series = format!("{side}, {}", network.name);
            bench.sample(Place::new("figure-1", series, "of it the loop: copy and check"), ns);
        }
    }
}
