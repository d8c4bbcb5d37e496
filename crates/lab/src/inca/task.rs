//! One side of one measurement, in a process of its own: what it is to do, and what it reports.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::timed::Spent;
use crate::cpu::{own_cpu_seconds, run_seconds};
use crate::named::named;
use crate::process;
use crate::stats::median;
use crate::{Error, Result};

/// Time at the beginning that does not count.
const WARM: Duration = Duration::from_millis(80);
/// How long a sender goes on after its own end, so that the reader's time is full to its end.
const TAIL: Duration = Duration::from_millis(100);
/// A reader that hears nothing for as long gives up.
pub const PATIENCE: Duration = Duration::from_millis(2500);
/// Largest message that an IP packet of 1500 bytes carries over UDP.
pub const PACKET_BYTES: usize = 1472;
/// How long a reader of a stream sleeps when nothing is there, instead of being woken for each packet.
pub const NAP: Duration = Duration::from_micros(30);
/// Bytes of one write of bulk data.
pub const BULK_BYTES: usize = 64 << 10;
/// Bytes of one read of bulk data, by whatever means.
pub const BULK_READ_BYTES: usize = 256 << 10;
/// Window that we let a sender of a stream fill. The peer is next door: what is under way and what is queued behind it
/// are to stay within the caches of two processors; more makes nothing faster.
pub const WINDOW: u32 = 512 << 10;
/// Memory that we send a stream from. Twice as much: a reader that was asleep is to find the next super-frames there
/// while the acknowledgement of those before is on its way.
pub const SEND_BUFFER: u32 = 1 << 20;
/// Questions in vain between two looks at the clock, and how much of the time between these counts at most: who
/// naps each time is as long about it.
const ASKS: u32 = 1 << 10;
const STEP_MAX: Duration = Duration::from_millis(200);
/// Messages between two looks at the clock, where they are counted one by one.
const CLOCK_EVERY: u64 = 32;
/// Round trips of one measurement at the most.
const ROUND_TRIPS: usize = 200_000;

named! {
    /// Which machinery a process uses.
    Means {
        /// The kernel's sockets, a call a message; it sleeps when there is nothing.
        Kernel = "kernel",
        /// The kernel's sockets, many messages a call (`UDP_SEGMENT`, `UDP_GRO`).
        KernelOffload = "kernel_offload",
        /// The kernel's sockets, a call a message; it asks again when there is nothing.
        KernelSpinning = "kernel_spinning",
        /// The interface alone: prepared frames out, frames in and away.
        Raw = "raw",
        /// Fusewire, a call a message.
        Fusewire = "fusewire",
        /// Fusewire, many messages a call.
        FusewireBatch = "fusewire_batch",
        /// The kernel's sockets, a call a message, whose XDR doubles are unmarshalled from there.
        KernelXdr = "kernel_xdr",
        /// Fusewire, many messages a call, whose XDR doubles are unmarshalled in the loop that sums.
        FusewireXdr = "fusewire_xdr",
        /// Fusewire, a stream whose bytes stay with the application until they are acknowledged.
        FusewireShared = "fusewire_shared",
    }
}

named! {
    /// What a process does with it.
    Role {
        /// Sends messages until the time is up.
        Send = "send",
        /// Reads messages until the time is up.
        Receive = "receive",
        /// Sends a message, waits for it to come back, and so on.
        Ask = "ask",
        /// Sends back what comes, until it is killed.
        Answer = "answer",
    }
}

named! {
    /// UDP or TCP.
    Protocol {
        /// A message is a datagram.
        Udp = "udp",
        /// A message is so many bytes of the stream.
        Tcp = "tcp",
    }
}

/// What a process is to do; goes to it as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// With what.
    pub means: Means,
    /// What.
    pub role: Role,
    /// Over what.
    pub protocol: Protocol,
    /// Bytes of a message.
    pub size: usize,
    /// Bytes of one write or read of a TCP stream, where it is not a message.
    pub bulk: bool,
    /// Seconds that count.
    pub seconds: f64,
    /// The processor that it stays on.
    pub core: usize,
    /// Its own address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// The peer's Ethernet address, where there is no one to ask.
    pub peer_mac: [u8; 6],
    /// The TAP that it holds.
    pub tap: String,
    /// Congestion control of a stream that the kernel sends; the system's own when there is none.
    pub congestion: Option<String>,
    /// Messages of a run, all of them numbered; 0 where the time decides when it is over.
    pub packets: u32,
}

impl Task {
    /// Messages of one UDP super-frame: as many as the kernel's own senders put into one.
    pub fn messages_per_super_frame(&self) -> usize {
        if self.size > PACKET_BYTES {
            return 1;
        }
        (65_000 / self.size).clamp(1, fusewire_device::kernel_udp::segments_max())
    }

    /// Bytes of one read or write of a stream.
    pub fn stride(&self) -> usize {
        match (self.bulk, self.role) {
            (false, _) => self.size,
            (true, Role::Receive) => BULK_READ_BYTES,
            (true, _) => BULK_BYTES,
        }
    }

    /// The prefix of the network that both are on.
    pub fn prefix(&self) -> u8 {
        if matches!(self.local.ip(), IpAddr::V4(_)) { 24 } else { 64 }
    }
}

/// What a process prints at its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Messages in the time that counts.
    pub messages: u64,
    /// The time that counts.
    pub seconds: f64,
    /// User and system time in it.
    pub cpu_s: f64,
    /// Seconds of it inside the interface's own `receive` or `transmit`, where that was measured.
    pub device_s: Option<f64>,
    /// Processor time in it of the process beside, where there is one.
    #[serde(default)]
    pub beside_cpu_s: Option<f64>,
    /// Median round trip, in ns.
    pub round_trip_ns: Option<f64>,
    /// Messages that were not what was sent.
    pub wrong: u64,
    /// Messages a second of each run of numbered ones.
    #[serde(default)]
    pub runs: Vec<f64>,
}

impl Report {
    /// Messages a second.
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.seconds.max(1e-9)
    }

    /// Nanoseconds of processor time a message.
    pub fn cpu_ns(&self) -> f64 {
        self.cpu_s * 1e9 / self.messages.max(1) as f64
    }
}

/// Does the task and prints the report.
///
/// # Errors
/// Whatever went wrong, of any kind.
pub fn work(task: &Task) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(task.core);
    sched_setaffinity(None, &set).map_err(|e| Error::os("choosing a processor")(e.into()))?;
    let report = match task.means {
        Means::Kernel | Means::KernelOffload | Means::KernelSpinning | Means::KernelXdr => {
            super::kernel::work(task)?
        }
        Means::Raw => super::raw::work(task)?,
        Means::Fusewire | Means::FusewireBatch | Means::FusewireShared | Means::FusewireXdr => {
            super::fusewire::work(task)?
        }
    };
    process::report(&report)
}

/// How things stood when the time that counts began.
#[derive(Clone, Copy)]
struct Begin {
    at: Instant,
    cpu_s: f64,
    beside_s: Option<f64>,
    messages: u64,
    device: Duration,
}

/// Counts messages in the time that counts.
#[derive(Default)]
pub struct Meter {
    seconds: Duration,
    started: Option<Instant>,
    counted_from: Option<Begin>,
    /// Another process, whose time counts too.
    beside: Option<u32>,
    ends: Option<Instant>,
    /// When something was last counted.
    last: Option<Instant>,
    messages: u64,
    /// Counted one by one since the last look at the clock.
    pending: u64,
    /// Time inside the interface.
    pub device: Duration,
    /// Where it is told, if it is.
    spent: Option<Spent>,
    /// Messages that were not what was sent.
    pub wrong: u64,
    report: Option<Report>,
}

impl Meter {
    /// Starts with the first message.
    pub fn new(task: &Task) -> Self {
        Meter::lasting(task.seconds)
    }

    /// Starts with the first message, and counts for so long.
    pub fn lasting(seconds: f64) -> Self {
        Meter { seconds: Duration::from_secs_f64(seconds), ..Meter::default() }
    }

    /// The time of process `beside` counts too.
    #[must_use]
    pub fn beside(self, beside: Option<u32>) -> Self {
        Meter { beside, ..self }
    }

    /// `spent` tells the time inside the interface.
    #[must_use]
    pub fn with_device(self, spent: &Spent) -> Self {
        Meter { spent: Some(spent.clone()), ..self }
    }

    /// Adds messages; false once the time is up.
    pub fn count(&mut self, messages: u64) -> bool {
        self.messages += messages;
        let now = Instant::now();
        let started = *self.started.get_or_insert(now);
        self.last = Some(now);
        if let Some(spent) = &self.spent {
            self.device = spent.so_far();
        }
        if let Some(begin) = self.counted_from {
            let elapsed = now - begin.at;
            if self.report.is_none() && elapsed >= self.seconds {
                self.report = Some(self.since(begin, elapsed));
                self.ends = Some(now);
            }
        } else if now - started >= WARM {
            let (messages, device) = (self.messages, self.device);
            let (cpu_s, beside_s) = (own_cpu_seconds(), self.beside.map(run_seconds));
            self.counted_from = Some(Begin { at: now, cpu_s, beside_s, messages, device });
        }
        self.report.is_none()
    }

    /// As [`Meter::count`], for a sender: true for a while after the time is up.
    pub fn count_sent(&mut self, messages: u64) -> bool {
        self.count(messages) || self.ends.is_some_and(|at| at.elapsed() < TAIL)
    }

    /// Adds one message; looks at the clock only now and then.
    #[inline]
    pub fn count_one(&mut self) -> bool {
        self.pending += 1;
        if self.pending < CLOCK_EVERY {
            return true;
        }
        let messages = std::mem::take(&mut self.pending);
        self.count(messages)
    }

    /// As [`Meter::count_one`], for a sender.
    #[inline]
    pub fn count_one_sent(&mut self) -> bool {
        self.count_one() || self.ends.is_some_and(|at| at.elapsed() < TAIL)
    }

    /// The time is up.
    pub fn is_done(&self) -> bool {
        self.report.is_some()
    }

    fn since(&self, begin: Begin, elapsed: Duration) -> Report {
        let beside_s = begin.beside_s.zip(self.beside.map(run_seconds));
        Report {
            messages: self.messages - begin.messages,
            seconds: elapsed.as_secs_f64(),
            cpu_s: own_cpu_seconds() - begin.cpu_s,
            beside_cpu_s: beside_s.map(|(before, now)| now - before),
            device_s: Some((self.device - begin.device).as_secs_f64()).filter(|s| *s > 0.0),
            ..Report::default()
        }
    }

    /// The report; an error when nothing came, or nothing for most of the time that counts. A reader that
    /// began late on a busy machine is content with half of it.
    pub fn report(mut self) -> Result<Report> {
        if let (None, Some(begin), Some(last)) = (&self.report, self.counted_from, self.last)
            && (last - begin.at) * 2 >= self.seconds
        {
            self.report = Some(self.since(begin, last - begin.at));
        }
        let report = self
            .report
            .ok_or_else(|| Error::Unsupported(format!("stalled after {}", self.messages)))?;
        Ok(Report { wrong: self.wrong, ..report })
    }
}

/// Ends a wait that has been in vain for [`PATIENCE`], without a look at the clock each time. Time in which the
/// process did not run does not count: on a loaded machine, or one that stops processes, what it waits for has
/// stood still as well.
#[derive(Default)]
pub struct Vain {
    asked: u32,
    spent: Duration,
    last: Option<Instant>,
}

impl Vain {
    /// Asked once more; true when it is over.
    pub fn is_over(&mut self, worked: bool) -> bool {
        if worked {
            *self = Vain::default();
            return false;
        }
        self.asked += 1;
        self.asked.is_multiple_of(ASKS) && self.looks(Instant::now())
    }

    fn looks(&mut self, now: Instant) -> bool {
        if let Some(last) = self.last.replace(now) {
            self.spent += (now - last).min(STEP_MAX);
        }
        self.spent > PATIENCE
    }
}

/// Waits until the kernel sends over a TAP that was just opened: it takes notice of that in a thread of its
/// own, and throws away what it is to send until then.
///
/// # Errors
/// `ip` cannot be started.
pub fn settle(tap: &str) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let output = Command::new("ip")
            .args(["-oneline", "link", "show", "dev", tap])
            .output()
            .map_err(Error::os("starting ip"))?;
        if String::from_utf8_lossy(&output.stdout).contains("state UP") {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Measures round trips for so long.
pub fn ask(seconds: f64, mut once: impl FnMut() -> Result<()>) -> Result<Report> {
    let mut ns = Vec::with_capacity(ROUND_TRIPS);
    let started = Instant::now();
    let end = started + WARM + Duration::from_secs_f64(seconds);
    let mut last = started;
    while last < end && ns.len() < ROUND_TRIPS {
        once()?;
        let now = Instant::now();
        if now - started > WARM {
            ns.push((now - last).as_nanos() as f64);
        }
        last = now;
    }
    if ns.is_empty() {
        return Err(Error::Unsupported("no answer came in time".into()));
    }
    let messages = ns.len() as u64;
    let seconds = ns.iter().sum::<f64>() * 1e-9;
    let round_trip_ns = median(ns);
    Ok(Report { messages, seconds, round_trip_ns, ..Report::default() })
}

/// The first byte of every datagram.
pub const MARK: u8 = 0x5a;

/// Bytes of a stream, from `at` on: each tells its place.
pub fn stream_byte(at: u64) -> u8 {
    (at % 251) as u8
}

/// What a datagram is as XDR: a fixed array of doubles, of as many as are in it.
pub const DOUBLE_BYTES: usize = 8;

/// Looks at the first byte of each datagram of `size` in `bytes`, as an application would; returns how
/// many there are, and how many are wrong.
pub fn look(bytes: &[u8], size: usize) -> (u64, u64) {
    let mut seen = (0, 0);
    for message in bytes.chunks(size) {
        seen.0 += 1;
        seen.1 += u64::from(message[0] != MARK || message.len() != size);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nobody_ran_is_not_waited() {
        let mut vain = Vain::default();
        let mut now = Instant::now();
        for _ in 0..5 {
            assert!(!vain.looks(now));
            now += Duration::from_secs(3600);
        }
        let mut looks = 0;
        while !vain.looks(now) {
            (now, looks) = (now + Duration::from_millis(1), looks + 1);
            assert!(looks < 10_000);
        }
        assert!(looks > 1000, "{looks}");
        assert!(!vain.is_over(true) && vain.spent == Duration::ZERO);
    }
}
