//! `fusewire bench inca`.

use clap::{Args, ValueEnum};
use fusewire_lab::inca::{self, Bulk, Direction, Flood, Line, Messages, Plan, Protocol, RoundTrip};

use crate::output::{Result, figure, json, text, then};

/// Sizes of a smoke test: one that shares super-frames, one that has a packet to itself.
const QUICK_SIZES: [usize; 2] = [100, 1400];

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Protocols: udp, tcp.
    #[arg(long, value_delimiter = ',', default_value = "udp,tcp")]
    protocols: Vec<Protocol>,
    /// Directions: receive, send, both.
    #[arg(long, value_delimiter = ',', default_value = "receive,send,both")]
    directions: Vec<Direction>,
    /// Sizes of a message, in bytes [default: the paper's].
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_000))]
    sizes: Vec<u32>,
    /// What to measure.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "processing,messages,bulk,round-trip,floods"
    )]
    parts: Vec<Part>,
    /// Rounds; the result is the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds that count, of one round of one means.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(10..=60_000))]
    milliseconds: u32,
    /// A smoke test: one short round of two sizes; figures of it mean nothing.
    #[arg(long, conflicts_with_all = ["sizes", "rounds", "milliseconds"])]
    quick: bool,
    /// Congestion control of the kernel's TCP senders, iperf3's too; `system` for the machine's default. One that
    /// paces (bbr) has its timers measured too.
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    congestion: String,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// Protocol processing alone, by size.
    Processing,
    /// Messages of each size.
    Messages,
    /// A stream over TCP.
    Bulk,
    /// 64 bytes there and back.
    RoundTrip,
    /// SYNs and FIRSTs at a server of ours that serves somebody; in memory, without rights.
    Floods,
}

/// Runs the comparison.
pub fn run(options: &Options) -> Result {
    let sizes = if options.quick {
        QUICK_SIZES.to_vec()
    } else if options.sizes.is_empty() {
        inca::SIZES.to_vec()
    } else {
        options.sizes.iter().map(|s| *s as usize).collect()
    };
    let plan = Plan {
        protocols: options.protocols.clone(),
        directions: options.directions.clone(),
        sizes,
        messages: options.parts.contains(&Part::Messages),
        bulk: options.parts.contains(&Part::Bulk),
        processing: options.parts.contains(&Part::Processing),
        round_trip: options.parts.contains(&Part::RoundTrip),
        floods: options.parts.contains(&Part::Floods),
        rounds: if options.quick { 1 } else { options.rounds as usize },
        seconds: f64::from(if options.quick { 20 } else { options.milliseconds }) / 1000.0,
        congestion: Some(options.congestion.clone()).filter(|name| name != "system"),
        program: std::env::current_exe()?,
    };
    let (mut written, mut heading) = (Ok(()), "");
    inca::run(&plan, &mut |line| match line {
        Ok(line) => then(&mut written, || match options.json {
            true => json(line),
            false => print(line, &mut heading),
        }),
        Err(why) => eprintln!("{why}"),
    })?;
    written
}

const MESSAGES: &str = "                           messages a second, in 1000                          \
                        Fusewire by                ns: device, protocol, application\n\
                        what           bytes     kernel   with GSO        raw   fusewire   a call each |  \
                        kernel  GSO  raw |            kernel           fusewire";
const BULK: &str = "bulk over TCP: Gbit/s (processor seconds a GiB of the measured side)";
const ROUND_TRIP: &str = "there and back: µs";
const PROCESSING: &str = "processing alone, frame in memory to application: ns (cycles) a packet\n\
                          \u{20}   bytes           one loop     a pass for each    ratio";
const UNMARSHALLING: &str = "XDR in the receive loop, frame in memory to numbers: ns (cycles) a message\n\
                             \u{20}           bytes           one loop          two passes    ratio";

const FLOODS: &str = "floods at a server that serves somebody: GB/s of ADUs while they go elsewhere, and to the server\n\
                      over      bytes   elsewhere   under   ratio    ns each   contexts   bound    cookies   bytes out by in";

/// Prints a line, under the heading of its kind where the one before was of another.
fn print(line: &Line, last: &mut &'static str) -> Result {
    let (heading, line) = match line {
        Line::Messages(line) => (MESSAGES, messages(line)),
        Line::Bulk(line) => (BULK, bulk(line)),
        Line::RoundTrip(line) => (ROUND_TRIP, round_trip(line)),
        Line::Processing(l) => {
            let loops = (l.integrated_ns, l.integrated_cycles);
            let passes = (l.sequential_ns, l.sequential_cycles);
            (PROCESSING, by_turns(l.protocol.name(), l.size_bytes, [loops, passes], l.ratio))
        }
        Line::Unmarshalling(l) => {
            let loops = (l.integrated_ns, l.integrated_cycles);
            let passes = (l.two_passes_ns, l.two_passes_cycles);
            let what = format!("{} {}", l.protocol, l.xdr);
            (UNMARSHALLING, by_turns(&what, l.size_bytes, [loops, passes], l.ratio))
        }
        Line::Flood(line) => (FLOODS, flood(line)),
    };
    if *last != heading {
        *last = heading;
        text(heading)?;
    }
    text(line)
}

fn messages(line: &Messages) -> String {
    let rate = |name: &str| figure(line.rates.get(name).map(|r| r.messages_per_s / 1000.0), 0);
    let ns = |times: &inca::Times| {
        let all = [times.device_ns, times.protocol_ns, times.application_ns];
        all.map(|ns| figure(ns, 0)).join(" ")
    };
    let single = match line.direction {
        Direction::Both => "fusewire_batch",
        _ => "fusewire_single",
    };
    format!(
        "{:<3} {:<8} {:>7} {:>10} {:>10} {:>10} {:>10} {:>13} | {:>7} {:>4} {:>4} | {:>17} {:>18}",
        line.protocol,
        line.direction,
        line.size_bytes,
        rate("kernel"),
        rate("kernel_offload"),
        rate("raw"),
        rate("fusewire"),
        rate(single),
        ratio(line.ratio),
        ratio(line.ratio_to_offload),
        ratio(line.ratio_to_raw),
        ns(&line.kernel),
        ns(&line.fusewire)
    )
}

/// Times in ns, with cycles, of one loop and of passes.
fn by_turns(what: &str, size: usize, times: [(f64, Option<f64>); 2], ratio: f64) -> String {
    let [one, passes] = times.map(|(ns, cycles)| format!("{ns:>10.1} ({:>6})", figure(cycles, 0)));
    format!("{what} {size:>5} {one} {passes} {ratio:>8.2}")
}

fn bulk(line: &Bulk) -> String {
    let one = |name: &str| {
        let bits = line.bits_per_s.get(name)? / 1e9;
        let cpu = line.cpu_s_per_gib.get(name).copied();
        Some(format!("{name} {} ({})", ratio(Some(bits)), ratio(cpu)))
    };
    let names = ["kernel", "iperf3", "iperf3_zero_copy", "raw", line.api.name()];
    format!(
        "tcp {:<8} {} | Fusewire by the kernel's {}, by zero-copy {}, by raw {}",
        line.direction,
        names.into_iter().filter_map(one).collect::<Vec<_>>().join("  "),
        ratio(line.ratio),
        ratio(line.ratio_to_zero_copy),
        ratio(line.ratio_to_raw)
    )
}

fn round_trip(line: &RoundTrip) -> String {
    let one = |(name, ns): (&&str, &f64)| format!("{name} {:.2}", ns / 1000.0);
    let all: Vec<_> = line.round_trip_ns.iter().map(one).collect();
    let (size, raw) = (line.size_bytes, ratio(line.ratio_to_raw));
    format!("{size:>5} B  {} | Fusewire by raw {raw}", all.join("  "))
}

fn flood(line: &Flood) -> String {
    let gb = |rate: Option<f64>| figure(rate.map(|rate| rate / 1e9), 3);
    format!(
        "{:<6} {:>8} {:>11} {:>7} {:>7} {:>10} {:>10} {:>7} {:>10} {:>17.2}",
        line.protocol,
        line.packet_bytes,
        gb(line.beside_bytes_per_s),
        gb(line.under_bytes_per_s),
        ratio(line.ratio),
        figure(line.ns_per_packet, 0),
        line.contexts_max,
        line.contexts_bound,
        line.cookies,
        line.out_bytes as f64 / line.in_bytes.max(1) as f64
    )
}

fn ratio(ratio: Option<f64>) -> String {
    figure(ratio, if ratio.is_some_and(|r| r < 10.0) { 2 } else { 1 })
}
