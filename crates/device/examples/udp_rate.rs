//! How fast the UDP device carries plain frames over loopback: a blast, no protocol, no cipher.
//!
//! `cargo run --release -p fusewire-device --example udp_rate [SECONDS]` prints, for each size of
//! datagram, bytes received and frames lost, and what the choices of the data path cost: header and
//! payload apart or next to each other, super-packets a call, memory in use at each side.
//! `FUSEWIRE_RATE_KEEP=1` keeps the receiver from reading the bytes (the kernel's copy alone).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use fusewire_device::udp::{Config, Udp};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};

/// How frames lie in the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// Frame after frame: a run is one piece.
    Contiguous,
    /// Header and payload together, a gap between frames: one piece a frame.
    Framed,
    /// Header and payload apart: two pieces a frame.
    Apart,
}

#[derive(Clone, Copy)]
struct Setting {
    frame_len: usize,
    layout: Layout,
    /// Bytes handed to one `transmit`.
    transmit_bytes: usize,
    /// Bytes of the sender's memory that are sent in turn.
    memory_bytes: usize,
    /// Slots of the receiver's batch.
    slots: usize,
}

struct Outcome {
    sent: u64,
    received: u64,
    seconds: f64,
    supers: u64,
    /// CPU seconds of the two threads.
    sender_s: f64,
    receiver_s: f64,
}

/// CPU seconds of this thread.
fn cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

const HEADER: usize = 32;

/// Returns bytes sent and CPU seconds.
fn blast(setting: Setting, peer: SocketAddr, ready: &Barrier, stop: &AtomicBool) -> (u64, f64) {
    let mut device = Udp::bind("127.0.0.1:0".parse().unwrap(), &Config::default()).unwrap();
    let stride = setting.frame_len + if setting.layout == Layout::Framed { 64 } else { 0 };
    let count = (setting.memory_bytes / stride).max(1);
    let memory = vec![0x5au8; count * stride];
    let headers = vec![0xa5u8; count * 64];
    let frames: Vec<TxFrame<'_>> = (0..count)
        .map(|i| {
            let whole = &memory[i * stride..][..setting.frame_len];
            let (mut header, payload) = whole.split_at(HEADER);
            if setting.layout == Layout::Apart {
                header = &headers[i * 64..][..HEADER];
            }
            TxFrame { peer, header, payload, ecn: Ecn::NotEct }
        })
        .collect();
    let per_call = (setting.transmit_bytes / setting.frame_len).clamp(1, count);
    let mut sent = 0u64;
    ready.wait();
    let start = cpu_s();
    while !stop.load(Ordering::Relaxed) {
        for group in frames.chunks(per_call) {
            let mut rest = group;
            while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
                let n = device.transmit(rest).unwrap();
                sent += rest[..n].iter().map(|f| f.len() as u64).sum::<u64>();
                rest = &rest[n..];
            }
        }
    }
    (sent, cpu_s() - start)
}

fn run(setting: Setting, seconds: f64, read: bool) -> Outcome {
    let mut device = Udp::bind("127.0.0.1:0".parse().unwrap(), &Config::default()).unwrap();
    let peer = device.local_addr();
    let stop = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(Barrier::new(2));
    let sender = thread::spawn({
        let (ready, stop) = (ready.clone(), stop.clone());
        move || blast(setting, peer, &ready, &stop)
    });
    let mut batch = RxBatch::new(setting.slots);
    ready.wait();
    let (mut received, mut supers, mut touched) = (0u64, 0u64, 0u64);
    let (start, cpu) = (Instant::now(), cpu_s());
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        let count = device.receive(&mut batch).unwrap();
        supers += count as u64;
        if count == 0 {
            device.wait(Some(Duration::from_millis(1)), false).unwrap();
        }
        for packet in batch.iter() {
            received += packet.bytes.len() as u64;
            if read {
                let words = packet.bytes.chunks_exact(8);
                touched ^= words.fold(0, |x, w| x ^ u64::from_ne_bytes(w.try_into().unwrap()));
            }
        }
    }
    let (seconds, receiver_s) = (start.elapsed().as_secs_f64(), cpu_s() - cpu);
    stop.store(true, Ordering::Relaxed);
    std::hint::black_box(touched);
    let (sent, sender_s) = sender.join().unwrap();
    Outcome { sent, received, seconds, supers, sender_s, receiver_s }
}

/// Nanoseconds for a cache line to go from one core to the other and back. Virtual machines move
/// their cores about; without this number no other here can be understood.
fn core_to_core_ns() -> f64 {
    const TURNS: u64 = 20_000;
    let line = Arc::new(AtomicU64::new(0));
    let other = thread::spawn({
        let line = line.clone();
        move || {
            for i in 0..TURNS {
                while line.load(Ordering::Acquire) != 2 * i + 1 {
                    std::hint::spin_loop();
                }
                line.store(2 * i + 2, Ordering::Release);
            }
        }
    });
    let start = Instant::now();
    for i in 0..TURNS {
        line.store(2 * i + 1, Ordering::Release);
        while line.load(Ordering::Acquire) != 2 * i + 2 {
            std::hint::spin_loop();
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / TURNS as f64;
    other.join().unwrap();
    ns
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the settings of a group in turn, `ROUNDS` times, and prints a line for each.
fn report(title: &str, group: &[(String, Setting)], seconds: f64, read: bool) {
    const ROUNDS: usize = 7;
    let mut rates = vec![Vec::new(); group.len()];
    let mut lost = vec![Vec::new(); group.len()];
    let mut each = vec![Vec::new(); group.len()];
    let mut sender = vec![Vec::new(); group.len()];
    let mut receiver = vec![Vec::new(); group.len()];
    let mut distance = Vec::new();
    for _ in 0..ROUNDS {
        distance.push(core_to_core_ns());
        for (i, &(_, setting)) in group.iter().enumerate() {
            let o = run(setting, seconds, read);
            rates[i].push(o.received as f64 / o.seconds / 1e9);
            lost[i].push(100.0 * (1.0 - o.received as f64 / o.sent.max(1) as f64));
            sender[i].push(o.sent as f64 / o.sender_s / 1e9);
            receiver[i].push(o.received as f64 / o.receiver_s / 1e9);
            each[i].push(o.received as f64 / o.supers.max(1) as f64);
        }
    }
    println!("{title}; core to core and back {:.0} ns", median(&mut distance));
    for (i, (label, setting)) in group.iter().enumerate() {
        let rate = median(&mut rates[i]);
        println!(
            "  {label:<24} {:>6} B {rate:>6.2} GB/s ({:.2} to {:.2}), lost {:>4.1} %; a CPU second sends {:>5.2} GB, receives {:>5.2}; {:>6.0} B a super-packet",
            setting.frame_len,
            rates[i][0],
            rates[i][ROUNDS - 1],
            median(&mut lost[i]),
            median(&mut sender[i]),
            median(&mut receiver[i]),
            median(&mut each[i]),
        );
    }
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(0.2, |s| s.parse().expect("seconds"));
    let read = std::env::var_os("FUSEWIRE_RATE_KEEP").is_none();
    let base = Setting {
        frame_len: 1452,
        layout: Layout::Contiguous,
        transmit_bytes: 256 << 10,
        memory_bytes: 256 << 10,
        slots: 4,
    };
    let layouts = [Layout::Contiguous, Layout::Framed, Layout::Apart];
    for frame_len in [1452, 9000, 16_000, 65_000] {
        let group =
            layouts.map(|layout| (format!("{layout:?}"), Setting { frame_len, layout, ..base }));
        report("layout", &group, seconds, read);
    }
    let group = [1, 2, 4, 8, 16].map(|slots| (format!("{slots} slots"), Setting { slots, ..base }));
    report("receive", &group, seconds, read);
    let group = [64, 128, 256, 512].map(|kib| {
        let setting = Setting { transmit_bytes: kib << 10, memory_bytes: 512 << 10, ..base };
        (format!("{kib} KiB a call"), setting)
    });
    report("transmit", &group, seconds, read);
    let group = [128, 512, 2048, 65_536]
        .map(|kib| (format!("{kib} KiB of memory"), Setting { memory_bytes: kib << 10, ..base }));
    report("sender's memory", &group, seconds, read);
}
