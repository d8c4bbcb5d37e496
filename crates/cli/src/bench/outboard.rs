//! `fusewire bench outboard`.

use clap::{Args, ValueEnum};
use fusewire_lab::inca::Direction;
use fusewire_lab::outboard::{
    self, Bulk, Line, Messages, Plan, Protocol, Rates, RoundTrip, Shares,
};
use fusewire_stack::on_interface::Kind;

use super::whole;
use crate::output::{Code, Failure, Result, figure, json, text, then};

/// Sizes of a smoke test: one that shares segments, one that fills one, one that IP cuts.
const QUICK_SIZES: [usize; 3] = [64, 1388, 16 << 10];

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// How Fusewire takes the interface: packet, xdp or tap.
    #[arg(long, value_name = "DEVICE", default_value = "packet")]
    device: Device,
    /// Protocols: udp, tcp.
    #[arg(long, value_delimiter = ',', default_value = "udp,tcp")]
    protocols: Vec<Protocol>,
    /// Directions: send, receive.
    #[arg(long, value_delimiter = ',', default_value = "send,receive")]
    directions: Vec<Direction>,
    /// Sizes of a message, in bytes [default: 10, 64, 200, 1388, 16384, 65536].
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    sizes: Vec<u32>,
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "messages,bulk,round-trip,applications")]
    parts: Vec<Part>,
    /// How many applications share.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    applications: u32,
    /// The outboard's processor [default: a third one, or else the peer's, 0; the application's is 1].
    #[arg(long, value_name = "N")]
    outboard_cpu: Option<usize>,
    /// A thread of the outboard's own sends, on this processor.
    #[arg(long, value_name = "N")]
    transmit_cpu: Option<usize>,
    /// A thread of the outboard's own receives, on this processor.
    #[arg(long, value_name = "N")]
    receive_cpu: Option<usize>,
    /// Congestion control of the kernel's TCP senders, iperf3's too; `system` for the machine's default. One that
    /// paces (bbr) has its timers measured too.
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    congestion: String,
    /// Rounds; the result is the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds that count, of one round of one means.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(10..=60_000))]
    milliseconds: u32,
    /// A smoke test: one short round of three sizes; figures of it mean nothing.
    #[arg(long, conflicts_with_all = ["sizes", "rounds", "milliseconds"])]
    quick: bool,
}

/// How Fusewire takes an interface that a bench makes.
#[derive(Clone, Copy, ValueEnum)]
pub enum Device {
    /// AF_PACKET.
    Packet,
    /// AF_XDP.
    Xdp,
    /// TAP.
    Tap,
}

impl Device {
    /// Its name in the stack.
    pub fn kind(self) -> Kind {
        match self {
            Device::Packet => Kind::Packet,
            Device::Xdp => Kind::Xdp,
            Device::Tap => Kind::Tap,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// Messages of each size.
    Messages,
    /// A stream over TCP.
    Bulk,
    /// A message there and back.
    RoundTrip,
    /// Many applications at once.
    Applications,
}

/// Runs the comparison.
pub fn run(options: &Options) -> Result {
    if options.directions.contains(&Direction::Both) {
        let what = "--directions both: the peer is a kernel; give send or receive";
        return Err(Failure::new(Code::Usage, what).into());
    }
    let sizes = if options.quick {
        QUICK_SIZES.to_vec()
    } else if options.sizes.is_empty() {
        outboard::SIZES.to_vec()
    } else {
        options.sizes.iter().map(|s| *s as usize).collect()
    };
    let has = |part| options.parts.contains(&part);
    let plan = Plan {
        device: options.device.kind(),
        protocols: options.protocols.clone(),
        directions: options.directions.clone(),
        sizes,
        messages: has(Part::Messages),
        bulk: has(Part::Bulk),
        round_trip: has(Part::RoundTrip),
        applications: has(Part::Applications).then_some(options.applications as usize),
        outboard_cpu: options.outboard_cpu,
        transmit_cpu: options.transmit_cpu,
        receive_cpu: options.receive_cpu,
        congestion: Some(options.congestion.clone()).filter(|name| name != "system"),
        rounds: if options.quick { 1 } else { options.rounds as usize },
        seconds: f64::from(if options.quick { 20 } else { options.milliseconds }) / 1000.0,
        program: std::env::current_exe()?,
    };
    let (mut written, mut heading) = (Ok(()), "");
    whole(outboard::run(&plan, &mut |line| match line {
        Ok(line) => then(&mut written, || match options.json {
            true => json(line),
            false => print(line, &mut heading),
        }),
        Err(why) => eprintln!("{why}"),
    }))?;
    written
}

const MESSAGES: &str = "                      messages a second, in 1000: a call a message, up to 64 a call     |   \
                        outboard by kernel     by  | ns of a processor a message\n\
                        what          bytes    kernel       inline     outboard         GSO | \
                        single batch b/single inline | kernel  inline  outboard + its own + its peer's";
const BULK: &str = "a stream: Gbit/s (processor seconds a GiB of the application)";
const ROUND_TRIP: &str = "there and back: µs";
const SHARES: &str =
    "many applications: messages a second of all, in 1000 (least and largest share of an even one)";

/// Prints a line, under the heading of its kind where the one before was of another.
fn print(line: &Line, last: &mut &'static str) -> Result {
    let (heading, line) = match line {
        Line::Messages(line) => (MESSAGES, messages(line)),
        Line::Bulk(line) => (BULK, bulk(line)),
        Line::RoundTrip(line) => (ROUND_TRIP, round_trip(line)),
        Line::Shares(line) => (SHARES, shares(line)),
    };
    if *last != heading {
        *last = heading;
        text(heading)?;
    }
    text(line)
}

fn messages(line: &Messages) -> String {
    let rates = |name: &str| line.rates.get(name);
    let rate = |name: &str| figure(rates(name).map(|r| r.messages_per_s / 1000.0), 0);
    let both = |[single, batch]: [&str; 2]| format!("{} {}", rate(single), rate(batch));
    let ns = |name: &str, of: fn(&Rates) -> Option<f64>| figure(rates(name).and_then(of), 0);
    let application: fn(&Rates) -> Option<f64> = |r| Some(r.application_ns);
    format!(
        "{:<3} {:<8} {:>6} {:>12} {:>12} {:>12} {:>11} | {:>6} {:>5} {:>8} {:>6} | {:>6} {:>7} {:>9} + {} + {}",
        line.protocol,
        line.direction,
        line.size_bytes,
        both(["kernel", "kernel_batch"]),
        both(["inline", "inline_batch"]),
        both(["outboard", "outboard_batch"]),
        rate("kernel_offload"),
        ratio(line.ratio),
        ratio(line.ratio_of_batch),
        ratio(line.ratio_of_batch_to_single),
        ratio(line.ratio_to_inline),
        ns("kernel", application),
        ns("inline", application),
        ns("outboard", application),
        ns("outboard", |r| r.outboard_ns),
        ns("outboard", |r| r.peer_ns)
    )
}

fn bulk(line: &Bulk) -> String {
    let one = |(name, bits): (&&str, &f64)| {
        let cpu = line.application_s_per_gib.get(name).copied();
        format!("{name} {} ({})", ratio(Some(bits / 1e9)), ratio(cpu))
    };
    let all: Vec<_> = line.bits_per_s.iter().map(one).collect();
    format!(
        "tcp {:<8} {} | the outboard's own ({}) | outboard by iperf3 {}, by inline {}",
        line.direction,
        all.join("  "),
        ratio(line.outboard_s_per_gib),
        ratio(line.ratio),
        ratio(line.ratio_to_inline)
    )
}

fn round_trip(line: &RoundTrip) -> String {
    let one = |(name, ns): (&&str, &f64)| format!("{name} {:.2}", ns / 1000.0);
    let all: Vec<_> = line.round_trip_ns.iter().map(one).collect();
    format!(
        "{:<3} {:>5} B  {} | outboard by inline {}, by kernel {}",
        line.protocol,
        line.size_bytes,
        all.join("  "),
        ratio(line.ratio_to_inline),
        ratio(line.ratio_to_kernel)
    )
}

fn shares(line: &Shares) -> String {
    let one = |(name, share): (&&str, &outboard::Share)| {
        let rate = share.messages_per_s / 1000.0;
        format!("{name} {rate:.0} ({:.2} to {:.2})", share.least, share.most)
    };
    let all: Vec<_> = line.by.iter().map(one).collect();
    format!(
        "{:<3} {:<8} {:>5} B, {} of them  {} | outboard by kernel {}",
        line.protocol,
        line.direction,
        line.size_bytes,
        line.applications,
        all.join("  "),
        ratio(line.ratio)
    )
}

fn ratio(ratio: Option<f64>) -> String {
    figure(ratio, if ratio.is_some_and(|r| r < 10.0) { 2 } else { 1 })
}
