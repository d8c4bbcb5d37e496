//! `fusewire bench transfer`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fusewire_lab::transfer::{
    self, Carrier, Impairment, Line, Manipulation, Method, Plan, Source, Transport,
};
use fusewire_session::{Check, Cipher, HeaderProtection};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::either::{Protocol, Retransmission};

use super::meant;
use crate::options::{Protecting, cipher_names, congestion_names};
use crate::output::{Columns, Result, figure, lines, rate};
use crate::progress::Progress;

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Methods to compare [default: all that are here]. Ours run cipher, checksum or tag, and the store, in one loop or a
    /// pass each; contents are octets, of which nothing is marshalled (but see `--swap`). `kernel_tcp_passes` is
    /// `kernel_tcp_records` with a pass for each; auto is the one of integrated, blocked and sequential that
    /// `fusewire model calibrate` found to be fastest here with the cipher, and says which.
    #[arg(long, value_delimiter = ',', value_name = "METHOD")]
    methods: Vec<Method>,
    /// What carries the methods of ours: udp, io-uring or shm; over veth between two namespaces (needs root) packet or xdp,
    /// each beside udp, or veth, which is udp there, and kernel TCP.
    #[arg(long, default_value = "udp")]
    device: Carrier,
    /// Bytes of content for each transfer [default: 1073741824, or what takes ten seconds at `--rate` if that is less].
    #[arg(long)]
    bytes: Option<u64>,
    /// Sizes of an ADU, in bytes; `largest` is what fits a datagram.
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = size, default_value = "256,512,768,1024,1280,16384,largest")]
    adu_bytes: Vec<Size>,
    /// Sizes of a datagram, in bytes; `auto` is the largest that the path carries, which small ADUs share; with `--measure`
    /// it is what an ADU needs.
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = size, default_value = "auto")]
    datagram_bytes: Vec<Size>,
    #[arg(long, default_value_t = Cipher::AES_256_GCM, help = format!("The cipher: {}", cipher_names()))]
    cipher: Cipher,
    /// The transports of ours, a row each: tcp, xtp.
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "tcp")]
    transport: Vec<Protocol>,
    /// What XTP sends again, a row each: selective, go-back-n.
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "selective")]
    retransmission: Vec<Retransmission>,
    /// What proves records without a tag, over XTP, a row each: internet, its checksum; cxor, a trailer; none but UDP's own
    /// checksum. Where the cipher makes a tag, that is it.
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "internet")]
    check: Vec<Check>,
    #[command(flatten)]
    path: Impaired,
    #[arg(long, value_name = "NAME", default_value_t, help = format!("Congestion control of ours: {}", congestion_names()))]
    congestion: Algorithm,
    /// Send this file; made bytes in memory when absent.
    #[arg(long, value_name = "PATH")]
    source: Option<PathBuf>,
    /// Write to a file in memory instead of forgetting.
    #[arg(long)]
    sink_file: bool,
    /// Seal ahead into the retransmission memory, and not only what can leave at once.
    #[arg(long)]
    ahead: bool,
    /// Open each ADU right after its frame came, and copy it when the application asks.
    #[arg(long)]
    early: bool,
    /// The content is 32-bit words: swap their bytes as the first stage, in all that carries our records.
    #[arg(long)]
    swap: bool,
    #[command(flatten)]
    protecting: Protecting,
    /// Rounds; the result is the median.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measure the processing time of a packet too (costs a few per cent): each ADU of ours goes in one of its own.
    #[arg(long)]
    measure: bool,
}

/// What lies between both ends of ours, each way alike.
#[derive(Args, Clone, Copy)]
pub(super) struct Impaired {
    /// Lose so many of a hundred datagrams of ours, each way.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    loss: f64,
    /// Milliseconds there and back, for ours.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    round_trip: f64,
    /// Megabits a second that go through, of ours [default: what the machine does].
    #[arg(long, value_name = "MBIT/S", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
}

/// Bytes of content, where nobody says how many.
const BYTES: u64 = 1 << 30;
/// Seconds that they take at most, where a rate is said.
const SECONDS: u64 = 10;

impl Impaired {
    /// Bytes of content for a transfer through it.
    fn bytes(self) -> u64 {
        self.bytes_per_s().map_or(BYTES, |rate| BYTES.min(rate * SECONDS))
    }

    fn bytes_per_s(self) -> Option<u64> {
        self.rate.map(|mbits| u64::from(mbits) * 125_000)
    }

    pub(super) fn impairment(self) -> Impairment {
        Impairment {
            loss: self.loss / 100.0,
            round_trip: Duration::from_secs_f64(self.round_trip / 1e3),
            rate: self.bytes_per_s(),
        }
    }
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    within(text, 50.0)
}

pub(super) fn milliseconds(text: &str) -> std::result::Result<f64, String> {
    within(text, 10_000.0)
}

fn within(text: &str, most: f64) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 0 to {most}"))
}

#[derive(Clone, Copy, Debug)]
struct Size(Option<usize>);

/// The longest ADU that shared memory is measured with.
const BYTES_MAX: usize = 256 << 10;

fn size(text: &str) -> std::result::Result<Size, String> {
    if matches!(text, "largest" | "auto") {
        return Ok(Size(None));
    }
    match text.parse() {
        Ok(bytes) if (64..=BYTES_MAX).contains(&bytes) => Ok(Size(Some(bytes))),
        _ => Err(format!("expected 64 to {BYTES_MAX}, `auto` or `largest`")),
    }
}

/// Where `cargo xtask bench` puts the peers.
const PEERS: &str = "FUSEWIRE_PEERS";

/// The program of the peers, where it is built.
pub(super) fn peers() -> Option<PathBuf> {
    std::env::var_os(PEERS).map(PathBuf::from).filter(|p| p.is_file())
}

/// Runs the comparison.
pub fn run(options: Options) -> Result {
    let machine = match options.methods.contains(&Method::Auto) {
        true => crate::machine::kept_machine()?,
        false => None,
    };
    let transports =
        meant(Transport::each(&options.transport, &options.retransmission, &options.check))?;
    meant(transports.iter().try_for_each(|transport| transport.fits(options.cipher)))?;
    let plan = Plan {
        methods: if options.methods.is_empty() { Method::USUAL.to_vec() } else { options.methods },
        carrier: options.device,
        manipulation: Manipulation {
            ahead: options.ahead,
            early: options.early,
            swap: options.swap,
            record_padding: options.protecting.asked().map(HeaderProtection::padding),
        },
        transports,
        path: options.path.impairment(),
        congestion: options.congestion,
        bytes: options.bytes.unwrap_or_else(|| options.path.bytes()),
        adu_bytes: options.adu_bytes.iter().map(|s| s.0).collect(),
        datagram_bytes: options.datagram_bytes.iter().map(|s| s.0).collect(),
        cipher: options.cipher,
        source: options.source.map_or(Source::Memory, Source::File),
        sink_file: options.sink_file,
        rounds: options.rounds as usize,
        measure: options.measure,
        machine,
        program: std::env::current_exe()?,
        peers: peers(),
    };
    let progress = Progress::new();
    let found = transfer::run(&plan, &mut |what| progress.round(what))?;
    progress.clear();
    lines(&found, COLUMNS, options.json)
}

const COLUMNS: &Columns<Line> = &[
    ("method", -24, name),
    ("ADU B", 8, |l| number(l.adu_bytes)),
    ("datagram", 9, |l| number(l.datagram_bytes)),
    ("goodput", 12, |l| rate(l.bytes_per_s)),
    ("from – to", 17, |l| l.bytes_per_s_range.map(|r| format!("{:.2}", r / 1e9)).join(" – ")),
    ("CPU s/GiB", 10, |l| format!("{:.2}", l.cpu_s_per_gib)),
    ("send ns", 9, |l| figure(l.send_ns_per_packet, 0)),
    ("recv ns", 9, |l| figure(l.receive_ns_per_packet, 0)),
    ("answers/GiB", 12, |l| figure(l.answers_per_gib, 0)),
];

fn number(n: Option<usize>) -> String {
    n.map_or("–".into(), |n| n.to_string())
}

fn name(line: &Line) -> String {
    let method = match line.execution {
        Some(execution) => format!("{}: {execution}", line.method),
        None => line.method.to_string(),
    };
    let method = match line.transport.as_deref() {
        Some(transport) if transport != Protocol::default().name() => {
            format!("{method}, {transport}")
        }
        _ => method,
    };
    match line.receiver_device {
        Some(receiver) => format!("{method} {}>{receiver}", line.device),
        None => method,
    }
}
