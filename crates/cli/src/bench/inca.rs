//! `fusewire bench inca`.

use std::io::Write;

use clap::{Args, ValueEnum};
use fusewire_lab::inca::{
    self, Bulk, Line, Messages, Plan, Processing, Protocol, RoundTrip, Task, Unmarshalling,
};

use crate::output::{Result, json};

/// Sizes of a smoke test: one that shares super-frames, one that has a packet to itself.
const QUICK_SIZES: [usize; 2] = [100, 1400];

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Protocols.
    #[arg(long, value_delimiter = ',', default_value = "udp,tcp")]
    protocols: Vec<ProtocolName>,
    /// Directions.
    #[arg(long, value_delimiter = ',', default_value = "receive,send,both")]
    directions: Vec<DirectionName>,
    /// Sizes of a message, in bytes [default: the paper's].
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_000))]
    sizes: Vec<u32>,
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "processing,messages,bulk,round-trip")]
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

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolName {
    Udp,
    Tcp,
}

#[derive(Clone, Copy, ValueEnum)]
enum DirectionName {
    Receive,
    Send,
    Both,
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
    let protocol = |name: &ProtocolName| match name {
        ProtocolName::Udp => Protocol::Udp,
        ProtocolName::Tcp => Protocol::Tcp,
    };
    let direction = |name: &DirectionName| match name {
        DirectionName::Receive => inca::Direction::Receive,
        DirectionName::Send => inca::Direction::Send,
        DirectionName::Both => inca::Direction::Both,
    };
    let plan = Plan {
        protocols: options.protocols.iter().map(protocol).collect(),
        directions: options.directions.iter().map(direction).collect(),
        sizes,
        messages: options.parts.contains(&Part::Messages),
        bulk: options.parts.contains(&Part::Bulk),
        processing: options.parts.contains(&Part::Processing),
        round_trip: options.parts.contains(&Part::RoundTrip),
        rounds: if options.quick { 1 } else { options.rounds as usize },
        seconds: f64::from(if options.quick { 20 } else { options.milliseconds }) / 1000.0,
        congestion: Some(options.congestion.clone()).filter(|name| name != "system"),
        program: std::env::current_exe()?,
    };
    let mut printed = Ok(());
    let mut table = Table::default();
    inca::run(&plan, &mut |line| {
        if printed.is_err() {
            return;
        }
        match line {
            Ok(line) if options.json => printed = json(line),
            Ok(line) => printed = table.line(line),
            Err(why) => eprintln!("{why}"),
        }
    })?;
    printed
}

/// Prints lines under the heading of their kind.
#[derive(Default)]
struct Table {
    heading: Option<&'static str>,
}

impl Table {
    fn line(&mut self, line: &Line) -> Result {
        match line {
            Line::Messages(line) => self.messages(line),
            Line::Bulk(line) => self.bulk(line),
            Line::RoundTrip(line) => self.round_trip(line),
            Line::Processing(line) => self.processing(line),
            Line::Unmarshalling(line) => self.unmarshalling(line),
        }
    }

    fn heading(&mut self, heading: &'static str) -> Result {
        if self.heading != Some(heading) {
            self.heading = Some(heading);
            writeln!(std::io::stdout(), "{heading}")?;
        }
        Ok(())
    }

    fn messages(&mut self, line: &Messages) -> Result {
        self.heading(
            "                           messages a second, in 1000                          Fusewire by       \
             \u{20}       ns: device, protocol, application\n\
             what           bytes     kernel   with GSO        raw   fusewire   a call each |  kernel  GSO  \
             raw |            kernel           fusewire",
        )?;
        let rate = |name: &str| thousands(line.rates.get(name).map(|r| r.messages_per_s));
        let ns = |times: &inca::Times| {
            [times.device_ns, times.protocol_ns, times.application_ns]
                .map(|t| t.map_or("–".into(), |t| format!("{t:.0}")))
                .join(" ")
        };
        let (offload, single) = match line.direction {
            inca::Direction::Both => ("kernel_offload", "fusewire_batch"),
            _ => ("kernel_offload", "fusewire_single"),
        };
        writeln!(
            std::io::stdout(),
            "{:<3} {:<8} {:>7} {:>10} {:>10} {:>10} {:>10} {:>13} | {:>7} {:>4} {:>4} | {:>17} {:>18}",
            line.protocol.name(),
            line.direction.name(),
            line.size_bytes,
            rate("kernel"),
            rate(offload),
            rate("raw"),
            rate("fusewire"),
            rate(single),
            ratio(line.ratio),
            ratio(line.ratio_to_offload),
            ratio(line.ratio_to_raw),
            ns(&line.kernel),
            ns(&line.fusewire)
        )?;
        Ok(())
    }

    fn processing(&mut self, line: &Processing) -> Result {
        self.heading(
            "processing alone, frame in memory to application: ns (cycles) a packet\n\
             \u{20}   bytes           one loop     a pass for each    ratio",
        )?;
        let cycles = |c: Option<f64>| c.map_or("–".into(), |c| format!("{c:.0}"));
        writeln!(
            std::io::stdout(),
            "{} {:>5} {:>10.1} ({:>6}) {:>10.1} ({:>6}) {:>8.2}",
            line.protocol.name(),
            line.size_bytes,
            line.integrated_ns,
            cycles(line.integrated_cycles),
            line.sequential_ns,
            cycles(line.sequential_cycles),
            line.ratio
        )?;
        Ok(())
    }

    fn unmarshalling(&mut self, line: &Unmarshalling) -> Result {
        self.heading(
            "XDR in the receive loop, frame in memory to numbers: ns (cycles) a message\n\
             \u{20}           bytes           one loop          two passes    ratio",
        )?;
        let cycles = |c: Option<f64>| c.map_or("–".into(), |c| format!("{c:.0}"));
        writeln!(
            std::io::stdout(),
            "{} {} {:>5} {:>10.1} ({:>6}) {:>10.1} ({:>6}) {:>8.2}",
            line.protocol.name(),
            line.xdr,
            line.size_bytes,
            line.integrated_ns,
            cycles(line.integrated_cycles),
            line.two_passes_ns,
            cycles(line.two_passes_cycles),
            line.ratio
        )?;
        Ok(())
    }

    fn bulk(&mut self, line: &Bulk) -> Result {
        self.heading("bulk over TCP: Gbit/s (processor seconds a GiB of the measured side)")?;
        let one = |name: &str| {
            let bits = line.bits_per_s.get(name)? / 1e9;
            let cpu = line.cpu_s_per_gib.get(name).copied();
            Some(format!("{name} {} ({})", ratio(Some(bits)), ratio(cpu)))
        };
        let names = ["kernel", "iperf3", "iperf3_zero_copy", "raw", line.api.name()];
        writeln!(
            std::io::stdout(),
            "tcp {:<8} {} | Fusewire by the kernel's {}, by zero-copy {}, by raw {}",
            line.direction.name(),
            names.into_iter().filter_map(one).collect::<Vec<_>>().join("  "),
            ratio(line.ratio),
            ratio(line.ratio_to_zero_copy),
            ratio(line.ratio_to_raw)
        )?;
        Ok(())
    }

    fn round_trip(&mut self, line: &RoundTrip) -> Result {
        self.heading("64 bytes there and back: µs")?;
        let one = |(name, ns): (&&str, &f64)| format!("{name} {:.2}", ns / 1000.0);
        let all: Vec<_> = line.round_trip_ns.iter().map(one).collect();
        writeln!(
            std::io::stdout(),
            "{} | Fusewire by raw {}",
            all.join("  "),
            ratio(line.ratio_to_raw)
        )?;
        Ok(())
    }
}

fn thousands(rate: Option<f64>) -> String {
    rate.map_or("–".into(), |rate| format!("{:.0}", rate / 1000.0))
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("–".into(), |r| if r < 10.0 { format!("{r:.2}") } else { format!("{r:.1}") })
}

/// One side of one measurement.
#[derive(Args)]
pub struct Worker {
    /// What it is to do, as JSON.
    task: String,
}

/// Does one side.
pub fn work(worker: &Worker) -> Result {
    let task: Task = serde_json::from_str(&worker.task)?;
    inca::work(&task)?;
    Ok(())
}
