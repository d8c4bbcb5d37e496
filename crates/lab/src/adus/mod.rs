//! Runs of numbered ADUs over one wire, by every transport, as Dabbous measured (section 4.2.2): raw data, two processes.
//!
//! A run ends when its last ADU has come; its throughput is what was received by the time from the first to the last. The
//! wire is the kernel's loopback, with the paper's MTU in a namespace of its own where that can be made.

mod contexts;
mod endpoint;
mod kernel;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inca::numbered::{NUMBERS, PAUSE, RUNS};
use crate::namespace::Namespace;
use crate::process::Process;
use crate::worker;
use crate::{Error, Result, Scratch};

/// Who hears nothing for so long gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A network of the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub name: &'static str,
    /// Bytes of an IP packet on it (section 4.2.2).
    pub mtu: usize,
    /// NDU: bytes of a packet of ours, its header included.
    pub packet_bytes: usize,
}

/// Both of them.
pub(crate) const NETWORKS: [Network; 2] = [
    Network { name: "Ethernet", mtu: 1460, packet_bytes: 1400 },
    Network { name: "FDDI", mtu: 4312, packet_bytes: 4000 },
];

/// What carries ADUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Means {
    /// Contexts of XTP, with selective repeat.
    Xtp,
    /// The same, and nothing goes again (NOERR).
    XtpOnce,
    /// Our TCP in UDP: an endpoint without a cipher.
    Tcp,
    KernelTcp,
    /// An ADU a datagram.
    KernelUdp,
}

impl Means {
    /// As a series is called.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Means::Xtp => "XTP",
            Means::XtpOnce => "XTP without repetition",
            Means::Tcp => "our TCP in UDP",
            Means::KernelTcp => "kernel TCP",
            Means::KernelUdp => "kernel UDP",
        }
    }
}

/// The wire of one network.
pub(crate) struct Wire {
    pub network: Network,
    /// Nothing: the loopback that is there, with its own MTU.
    namespace: Option<Namespace>,
    program: PathBuf,
    /// The endpoint's key.
    scratch: Scratch,
}

impl Wire {
    /// Makes it, and says what is other than it should be.
    ///
    /// # Errors
    /// No folder for a key.
    pub(crate) fn new(network: Network, program: &Path) -> Result<(Wire, Option<String>)> {
        let mtu = network.mtu;
        let made = Namespace::new().and_then(|namespace| {
            namespace.ip(&format!("link set lo mtu {mtu}"))?;
            Ok(namespace)
        });
        let remark = made.as_ref().err().map(|_| {
            "the kernel's UDP and TCP have packets of the loopback's own length: without root no interface with the paper's \
             can be made"
                .to_owned()
        });
        let (namespace, program) = (made.ok(), program.to_owned());
        Ok((Wire { network, namespace, program, scratch: Scratch::new()? }, remark))
    }

    fn command(&self) -> Command {
        match &self.namespace {
            Some(namespace) => namespace.command(&self.program),
            None => Command::new(&self.program),
        }
    }
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Where the receiver is; nothing for itself.
    to: Option<SocketAddr>,
    means: Means,
    packet_bytes: usize,
    adu_bytes: usize,
    /// ADUs of a run.
    adus: u32,
    identity: PathBuf,
}

/// What a side says at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Report {
    /// ADUs a second, of each run whose last one came.
    rates: Vec<f64>,
    /// ADUs that were sent.
    sent: u32,
    spent: Spent,
}

/// Time of one side of contexts, in ns; what it waits is not in it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spent {
    /// All.
    pub work_ns: f64,
    /// Of it, in the kernel.
    pub kernel_ns: f64,
}

impl Spent {
    fn by(self, adus: f64) -> Spent {
        Spent { work_ns: self.work_ns / adus, kernel_ns: self.kernel_ns / adus }
    }
}

/// What was found of ADUs of one size.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Bytes of ADUs a second, of each run whose last one came.
    pub rates: Vec<f64>,
    /// Runs whose last one did not.
    pub lost: u32,
    /// An ADU's, of sender and receiver; of contexts alone.
    pub spent: [Spent; 2],
}

impl Found {
    /// The best run, in Mbit/s; nothing when none counts.
    pub(crate) fn best_mbits(&self) -> Option<f64> {
        self.rates.iter().copied().reduce(f64::max).map(|rate| rate * 8e-6)
    }
}

/// Runs of so many ADUs each over a wire.
///
/// # Errors
/// A side failed, or an ADU was not what was sent.
pub(crate) fn measure(wire: &Wire, means: Means, adu_bytes: usize, adus: u32) -> Result<Found> {
    let start = |to: Option<SocketAddr>| {
        let mut command = wire.command();
        let packet_bytes = wire.network.packet_bytes;
        let identity = wire.scratch.path().join("key");
        let task = Task { to, means, packet_bytes, adu_bytes, adus, identity };
        worker::Task::Adus(task).pass_to(&mut command)?;
        Process::spawn(means.words(), if to.is_some() { "send" } else { "receive" }, command)
    };
    let mut receiver = start(None)?;
    let mut sender = start(Some(receiver.address()?))?;
    let received: Report = receiver.last_report()?;
    let sent: Report = sender.last_report()?;
    if sent.sent != RUNS * adus {
        return Err(wrong(means, &format!("{} ADUs were sent", sent.sent)));
    }
    let all = f64::from(sent.sent);
    Ok(Found {
        lost: RUNS.saturating_sub(received.rates.len() as u32),
        rates: received.rates.iter().map(|rate| rate * adu_bytes as f64).collect(),
        spent: [sent.spent.by(all), received.spent.by(all)],
    })
}

fn wrong(means: Means, what: &str) -> Error {
    Error::Wrong { method: means.words().to_owned(), what: what.to_owned() }
}

/// Does one side.
///
/// # Errors
/// Whatever went wrong.
pub(crate) fn work(task: &Task) -> Result<()> {
    match task.means {
        Means::Xtp | Means::XtpOnce => contexts::work(task),
        Means::Tcp => endpoint::work(task),
        Means::KernelTcp => kernel::tcp(task),
        Means::KernelUdp => kernel::udp(task),
    }
}

/// Byte `at` of each ADU behind its numbers.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Between two runs everything that was under way arrives.
fn rest<T>(_: &mut T) -> Result<()> {
    std::thread::sleep(PAUSE);
    Ok(())
}

/// All ADUs by `send`; `pause` after each run. How many they are.
fn runs<T>(
    task: &Task,
    to: &mut T,
    mut send: impl FnMut(&mut T, &[u8]) -> Result<()>,
    mut pause: impl FnMut(&mut T) -> Result<()>,
) -> Result<u32> {
    let mut adu: Vec<u8> = (0..task.adu_bytes.max(NUMBERS.end)).map(byte).collect();
    for run in 0..RUNS {
        for number in 0..task.adus {
            let numbers = u64::from(run) << 32 | u64::from(number);
            adu[NUMBERS].copy_from_slice(&numbers.to_be_bytes());
            send(to, &adu)?;
        }
        pause(to)?;
    }
    Ok(RUNS * task.adus)
}

/// Run and number of an ADU that has come whole.
fn look(task: &Task, pieces: [&[u8]; 2]) -> Result<(u32, u32)> {
    let at = |at: usize| pieces[0].get(at).or_else(|| pieces[1].get(at - pieces[0].len()));
    let len = pieces[0].len() + pieces[1].len();
    let is_right =
        len == task.adu_bytes && at(0) == Some(&byte(0)) && at(len - 1) == Some(&byte(len - 1));
    if !is_right {
        return Err(wrong(task.means, "an ADU is not what was sent"));
    }
    let numbers = NUMBERS.map(|n| at(n).copied().unwrap_or(0));
    let numbers = numbers.fold(0u64, |all, byte| all << 8 | u64::from(byte));
    Ok(((numbers >> 32) as u32, numbers as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(adu_bytes: usize) -> Task {
        Task {
            to: None,
            means: Means::Xtp,
            packet_bytes: 1400,
            adu_bytes,
            adus: 3,
            identity: PathBuf::new(),
        }
    }

    #[test]
    fn what_is_sent_is_what_is_looked_for() {
        let task = task(2000);
        let mut all = Vec::new();
        let mut pauses = 0;
        let send = |all: &mut Vec<Vec<u8>>, adu: &[u8]| {
            all.push(adu.to_vec());
            Ok(())
        };
        let sent = runs(&task, &mut all, send, |_| {
            pauses += 1;
            Ok(())
        });
        assert_eq!((sent.unwrap(), pauses, all.len()), (3 * RUNS, RUNS, 3 * RUNS as usize));
        for (i, adu) in all.iter().enumerate() {
            let expected = (i as u32 / 3, i as u32 % 3);
            // Also where memory ended in the middle of the numbers.
            for (a, b) in [adu.split_at(2000), adu.split_at(5), adu.split_at(1)] {
                assert_eq!(look(&task, [a, b]).unwrap(), expected);
            }
        }
        let short = [&all[0][..1999], &[]];
        assert!(look(&task, short).is_err());
        all[0][1999] ^= 1;
        assert!(look(&task, [&all[0], &[]]).is_err());
    }
}
