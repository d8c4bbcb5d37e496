//! `fusewire demo`: two processes, one pass beside separate passes, from memory to memory and from file to file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use fusewire_lab::transfer::{self, Carrier, Impairment, Line, Method, Plan, Source, Transport};
use fusewire_lab::{Scratch, make_file};
use fusewire_session::{Cipher, Level};
use fusewire_transport::congestion::Algorithm;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::options;
use crate::output::{Columns, Result, count, figure, head, json, printable, rate, row, size};
use crate::progress::Progress;

/// A shorter file is sent several times end to end, so that there is something to measure.
const ENOUGH_BYTES: u64 = 256 << 20;
/// Both processes and the scratch folder together take twice this.
const MOST_BYTES: u64 = 4 << 30;

/// What to send, and how often.
#[derive(Args)]
pub struct Demo {
    /// The file to send [default: this program].
    #[arg(long, value_name = "PATH", conflicts_with = "bytes")]
    file: Option<PathBuf>,
    /// Send so many made bytes instead, for example 300M.
    #[arg(long, value_name = "N", value_parser = some_bytes)]
    bytes: Option<u64>,
    /// Rounds of one transfer each; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    #[arg(long, default_value_t = Cipher::AES_256_GCM, help = format!("The cipher: {}", options::cipher_names()))]
    cipher: Cipher,
    /// Print JSON lines: one a method, and a last one with `verified`.
    #[arg(long)]
    json: bool,
}

fn some_bytes(text: &str) -> std::result::Result<u64, String> {
    let bytes = options::bytes(text)?;
    let bound = || format!("expected 1 to {}", size(MOST_BYTES));
    Some(bytes).filter(|bytes| (1..=MOST_BYTES).contains(bytes)).ok_or_else(bound)
}

/// What is in memory is removed, also when a signal ends the program.
fn heed_signals() -> Result {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            Scratch::remove_all();
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// What is sent.
struct Subject {
    path: PathBuf,
    bytes: u64,
    /// In words.
    is: String,
}

impl Subject {
    fn make(demo: &Demo, dir: &Path) -> Result<Subject> {
        let path = dir.join("source");
        if let Some(bytes) = demo.bytes {
            make_file(&path, bytes)?;
            return Ok(Subject { path, bytes, is: format!("{} made", size(bytes)) });
        }
        let (file, name) = match &demo.file {
            Some(file) => (file.clone(), printable(&file.display().to_string())),
            None => (std::env::current_exe()?, "this program itself".to_string()),
        };
        let there = std::fs::metadata(&file).map_err(|e| format!("{name}: {e}"))?;
        if !there.is_file() {
            return Err(format!("{name} is no regular file").into());
        }
        let len = there.len();
        if len == 0 {
            return Err(format!("{name} is empty").into());
        }
        if len >= ENOUGH_BYTES {
            return Ok(Subject { path: file, bytes: len, is: format!("{name}, {}", size(len)) });
        }
        let times = ENOUGH_BYTES.div_ceil(len);
        let mut out = File::create(&path)?;
        repeat(&std::fs::read(&file)?, times, &mut out)?;
        let bytes = out.metadata()?.len();
        let is = format!(
            "{name}, {}, {times} times end to end so that there is something to measure: {}",
            size(len),
            size(bytes)
        );
        Ok(Subject { path, bytes, is })
    }
}

/// Writes `content` so many times, in pieces that are worth a call.
fn repeat(content: &[u8], times: u64, out: &mut impl Write) -> std::io::Result<()> {
    const PIECE: usize = 1 << 20;
    let in_piece = (PIECE / content.len().max(1)).max(1);
    let piece = content.repeat(in_piece);
    let mut left = times;
    while left > 0 {
        let n = left.min(in_piece as u64);
        out.write_all(&piece[..n as usize * content.len()])?;
        left -= n;
    }
    Ok(())
}

/// Transfers, compares, and shows.
pub fn run(demo: &Demo) -> Result {
    let scratch = Scratch::new()?;
    heed_signals()?;
    let subject = Subject::make(demo, scratch.path())?;
    if !demo.json {
        println!(
            "Fusewire: between two processes on this machine, from memory to memory and from file to file"
        );
        println!();
        println!("  file    {}", subject.is);
        println!(
            "  way     our TCP in UDP datagrams on loopback, {}, level {}",
            demo.cipher,
            Level::detect().name()
        );
        println!("  passes  cipher, tag or checksum, store: of octets, nothing is marshalled");
        println!("  rounds  {}, the methods taking turns; figures are medians", demo.rounds);
        println!();
    }
    let plan = Plan {
        machine: None,
        methods: vec![Method::Integrated, Method::Sequential, Method::KernelTcp],
        carrier: Carrier::UDP,
        manipulation: transfer::Manipulation::default(),
        transports: vec![Transport::default()],
        path: Impairment::default(),
        congestion: Algorithm::default(),
        bytes: subject.bytes,
        adu_bytes: vec![None],
        datagram_bytes: vec![None],
        cipher: demo.cipher,
        source: Source::Memory,
        sink_file: false,
        rounds: demo.rounds as usize,
        measure: true,
        program: std::env::current_exe()?,
        peers: None,
    };
    let files = Plan { source: Source::File(subject.path), sink_file: true, ..plan.clone() };
    let progress = Progress::new();
    let mut found = Vec::new();
    for plan in [&plan, &files] {
        found.extend(transfer::run(plan, &mut |what| {
            if progress.terminal {
                progress.report(&format!("  {what}"));
            }
        })?);
    }
    progress.clear();
    // Every file was compared with the source, and bytes from memory counted: what differs is an error above.
    let (memory, files) = found.split_at(found.iter().take_while(|l| l.sink == "null").count());
    if demo.json {
        found.iter().try_for_each(json)?;
        return json(&json!({
            "verified": true,
            "transfers": found.len() as u64 * u64::from(demo.rounds),
            "bytes": subject.bytes,
            "integrated_to_sequential": { "memory": ratio(memory), "file": ratio(files) },
        }));
    }
    table(memory, files)?;
    println!();
    if let (Some(memory), Some(file)) = (ratio(memory), ratio(files)) {
        println!(
            "One pass over the bytes is {memory:.2} times as fast as separate passes between memories, {file:.2} \
             times between files."
        );
    }
    if let Some(where_to) = find(files, Method::Integrated).and_then(where_time_goes) {
        println!("{where_to}");
    }
    let compared = files.len() as u64 * u64::from(demo.rounds);
    println!("{} between files compared byte by byte: all the same.", count(compared, "transfer"));
    Ok(())
}

fn find(lines: &[Line], method: Method) -> Option<&Line> {
    lines.iter().find(|l| l.method == method)
}

fn ratio(lines: &[Line]) -> Option<f64> {
    let of = |method| find(lines, method).map(|l| l.bytes_per_s);
    Some(of(Method::Integrated)? / of(Method::Sequential)?)
}

/// In a sentence, for a transfer between files.
fn where_time_goes(line: &Line) -> Option<String> {
    let (all, file, hash) =
        (line.cpu_s_per_gib, line.file_cpu_s_per_gib?, line.hash_cpu_s_per_gib?);
    let rest = all - file - hash;
    Some(format!(
        "Of the {all:.2} CPU s that a GiB between files takes in one pass, {hash:.2} are BLAKE3 at both ends, \
         {file:.2} reading and writing the files, and {rest:.2} the transfer, which alone has passes to save."
    ))
}

fn table(memory: &[Line], files: &[Line]) -> Result {
    head(COLUMNS)?;
    for (title, lines) in [("memory to memory", memory), ("file to file, hashed", files)] {
        let base = find(lines, Method::Sequential).map(|l| l.bytes_per_s);
        println!("  {title}");
        lines.iter().try_for_each(|line| row(COLUMNS, &(line.clone(), base)))?;
    }
    Ok(())
}

/// Beside each line the rate of separate passes.
const COLUMNS: &Columns<(Line, Option<f64>)> = &[
    ("", -29, |(line, _)| {
        let name = match line.method {
            Method::Integrated => "integrated, encrypted",
            Method::Sequential => "sequential, encrypted",
            Method::KernelTcp => "kernel TCP, not encrypted",
            other => other.name(),
        };
        format!("    {name}")
    }),
    ("goodput", 10, |(line, _)| rate(line.bytes_per_s)),
    ("ratio", 7, |(line, base)| figure(base.map(|base| line.bytes_per_s / base), 2)),
    ("CPU s/GiB", 11, |(line, _)| format!("{:.2}", line.cpu_s_per_gib)),
    ("send ns/pkt", 12, |(line, _)| figure(line.send_ns_per_packet, 0)),
    ("recv ns/pkt", 12, |(line, _)| figure(line.receive_ns_per_packet, 0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_file_is_repeated_in_few_calls() {
        struct Calls(Vec<u8>, usize);
        impl Write for Calls {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.extend(bytes);
                self.1 += 1;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        for (len, times) in [(3, 3_000_001), (1, 1), ((1 << 20) + 1, 3), (700_000, 5)] {
            let content: Vec<u8> = (0..len).map(|n: usize| n as u8).collect();
            let mut out = Calls(Vec::new(), 0);
            repeat(&content, times, &mut out).unwrap();
            assert!(out.0 == content.repeat(times as usize), "{len} bytes, {times} times");
            assert!(out.1 <= 10, "{} calls", out.1);
        }
        assert_eq!(some_bytes("1M"), Ok(1_000_000));
        assert!(some_bytes("0").is_err() && some_bytes("5GiB").is_err());
    }
}
