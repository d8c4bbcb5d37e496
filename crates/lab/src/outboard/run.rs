//! Rounds: every means in turn, medians at the end, a line as soon as it is known.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fusewire_stack::on_interface::Kind;

use super::network::Network;
use super::runner::{Case, Cores, Reports, Runner};
use super::task::Means;
use super::{Bulk, DATAGRAM_BYTES, Line, Messages, Rates, RoundTrip, Share, Shares};
use crate::Result;
use crate::inca::iperf::{self, Iperf};
use crate::inca::{Direction, Protocol, Role};
use crate::stats::{median, range};

/// Bytes of messages that go there and back.
const ROUND_TRIP_BYTES: [usize; 2] = [64, 1000];
/// Bytes of the messages of many applications.
const SHARED_BYTES: usize = 200;
/// Rounds of bulk, and of many applications, last longer: slow start is to be over, and everybody to have had turns.
const LONG: f64 = 4.0;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How Fusewire takes the interface.
    pub device: Kind,
    /// Over what.
    pub protocols: Vec<Protocol>,
    /// Which way.
    pub directions: Vec<Direction>,
    /// Bytes of a message.
    pub sizes: Vec<usize>,
    /// Messages of each size.
    pub messages: bool,
    /// Bulk too.
    pub bulk: bool,
    /// Round trips too.
    pub round_trip: bool,
    /// So many applications at once, too.
    pub applications: Option<usize>,
    /// The outboard's processor; a third, or else the peer's.
    pub outboard_cpu: Option<usize>,
    /// The processor of a thread of its own that sends.
    pub transmit_cpu: Option<usize>,
    /// The processor of a thread of its own that receives.
    pub receive_cpu: Option<usize>,
    /// Congestion control of the kernel's TCP senders; none: the machine's default.
    pub congestion: Option<String>,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// Seconds that count, of one round of one means.
    pub seconds: f64,
    /// This program, which runs our processes.
    pub program: PathBuf,
}

/// Runs it; `tell` hears of each result and of each measurement that failed.
///
/// # Errors
/// When the wires cannot be made: not root. The outboard does not start. A measurement that fails is told and left out.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(std::result::Result<&Line, &str>)) -> Result<()> {
    let network = Network::new(plan.device, plan.congestion.as_deref())?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let all = plan.outboard_cpu.unwrap_or(if processors > 2 { 2 } else { 0 });
    let cores = Cores { all, transmit: plan.transmit_cpu, receive: plan.receive_cpu };
    let mut runner = Runner::new(&network, plan.program.clone(), cores)?;
    runner.congestion.clone_from(&plan.congestion);
    let mut bench = Bench { plan, runner, tell };
    for &protocol in &plan.protocols {
        for &direction in &plan.directions {
            for &size in plan.sizes.iter().filter(|_| plan.messages) {
                if protocol == Protocol::Tcp || size <= DATAGRAM_BYTES {
                    bench.messages(protocol, direction, size);
                }
            }
            if plan.bulk && protocol == Protocol::Tcp {
                bench.bulk(direction);
            }
            if let Some(count) = plan.applications {
                bench.shares(protocol, direction, count);
            }
        }
        for size in ROUND_TRIP_BYTES.into_iter().filter(|_| plan.round_trip) {
            bench.round_trip(protocol, size);
        }
    }
    Ok(())
}

struct Bench<'a> {
    plan: &'a Plan,
    runner: Runner<'a>,
    tell: &'a mut dyn FnMut(std::result::Result<&Line, &str>),
}

/// Result of a round: the rate, and both reports; none when it failed.
type Round = Option<(f64, Reports)>;

/// The rounds of each means.
type Rounds = BTreeMap<&'static str, Vec<Round>>;

fn role(direction: Direction) -> Role {
    if direction == Direction::Receive { Role::Receive } else { Role::Send }
}

impl Bench<'_> {
    /// The order turns, so that no means always follows the same one.
    fn round(
        &mut self,
        round: usize,
        cases: &[(&'static str, Case)],
        what: &str,
        all: &mut Rounds,
    ) {
        for i in 0..cases.len() {
            let (name, case) = &cases[(i + round) % cases.len()];
            let result = self.runner.run(case).map(|reports| (case.rate(&reports), reports));
            if let Err(e) = &result {
                (self.tell)(Err(&format!("{what}, {name}: {e}")));
            }
            all.entry(name).or_default().push(result.ok());
        }
    }

    fn rounds(&mut self, seconds: f64, cases: &[(&'static str, Case)], what: &str) -> Rounds {
        self.runner.seconds = seconds;
        let mut all = Rounds::new();
        (0..self.plan.rounds).for_each(|round| self.round(round, cases, what, &mut all));
        all
    }

    fn messages(&mut self, protocol: Protocol, direction: Direction, size: usize) {
        let what = format!("{protocol} {direction} {size} bytes");
        let cases = cases(protocol, role(direction), size);
        let rounds = self.rounds(self.plan.seconds, &cases, &what);
        let rates = rounds.iter().filter_map(|(n, r)| Some((*n, rates(r)?))).collect();
        let ratio = |a, b| median(ratios(&rounds, a, b, |(rate, _)| *rate));
        let line = Messages {
            protocol,
            direction,
            size_bytes: size,
            rates,
            ratio: ratio("outboard", "kernel"),
            ratio_range: range(ratios(&rounds, "outboard", "kernel", |(rate, _)| *rate)),
            ratio_of_batch: ratio("outboard_batch", "kernel_batch"),
            ratio_of_batch_to_single: ratio("outboard_batch", "kernel"),
            ratio_to_inline: ratio("outboard", "inline"),
            application_ratio: median(ratios(&rounds, "outboard", "kernel", |(_, reports)| {
                reports.application.cpu_ns()
            })),
        };
        (self.tell)(Ok(&Line::Messages(line)));
    }

    fn bulk(&mut self, direction: Direction) {
        let what = format!("bulk {direction}");
        let case = |means| Case {
            means,
            protocol: Protocol::Tcp,
            role: role(direction),
            size: 64 << 10,
            batch: false,
            bulk: true,
        };
        let cases: Vec<_> = Means::ALL.iter().map(|m| (m.name(), case(*m))).collect();
        self.runner.seconds = self.plan.seconds * LONG;
        let (mut rounds, mut theirs) = (Rounds::new(), Vec::new());
        for round in 0..self.plan.rounds {
            self.round(round, &cases, &what, &mut rounds);
            theirs.push(self.iperf(direction).ok());
        }
        (self.tell)(Ok(&Line::Bulk(bulk_line(direction, &rounds, &theirs))));
    }

    /// iperf3 over the kernel's wire.
    fn iperf(&self, direction: Direction) -> Result<Iperf> {
        let wire = self.runner.network.wire(Means::Kernel);
        let between = iperf::Between {
            near: wire.peer.namespace,
            far: wire.application.namespace,
            at: wire.peer.address,
            seconds: self.runner.seconds,
        };
        iperf::run(&between, direction, false)
    }

    fn round_trip(&mut self, protocol: Protocol, size: usize) {
        if let (Protocol::Udp, Some(why)) = (protocol, &self.runner.network.no_echo) {
            return (self.tell)(Err(&format!("round trips of datagrams: {why}")));
        }
        let role = Role::Ask;
        let case = |means| Case { means, protocol, role, size, batch: false, bulk: false };
        let cases: Vec<_> = Means::ALL.iter().map(|m| (m.name(), case(*m))).collect();
        let what = format!("{protocol} round trip of {size} bytes");
        let rounds = self.rounds(self.plan.seconds, &cases, &what);
        let ns =
            |(_, reports): &(f64, Reports)| reports.application.round_trip_ns.unwrap_or(f64::NAN);
        let of = |rounds: &[Round]| median(rounds.iter().flatten().map(ns));
        let line = RoundTrip {
            protocol,
            size_bytes: size,
            round_trip_ns: rounds.iter().filter_map(|(n, r)| Some((*n, of(r)?))).collect(),
            ratio_to_inline: median(ratios(&rounds, "outboard", "inline", ns)),
            ratio_to_kernel: median(ratios(&rounds, "outboard", "kernel", ns)),
        };
        (self.tell)(Ok(&Line::RoundTrip(line)));
    }

    fn shares(&mut self, protocol: Protocol, direction: Direction, applications: usize) {
        self.runner.seconds = self.plan.seconds * LONG;
        let mut all: BTreeMap<&'static str, Vec<Share>> = BTreeMap::new();
        for round in 0..self.plan.rounds {
            let mut means = [Means::Kernel, Means::Outboard];
            means.rotate_left(round % 2);
            for means in means {
                let (size, role) = (SHARED_BYTES, role(direction));
                let case = Case { means, protocol, role, size, batch: false, bulk: false };
                match self.runner.run_all(&case, applications) {
                    Ok(reports) => {
                        let rates = reports.iter().map(|reports| case.rate(reports)).collect();
                        all.entry(means.name()).or_default().push(share(rates));
                    }
                    Err(e) => {
                        let what = format!("{protocol} {direction}, {applications} applications");
                        (self.tell)(Err(&format!("{what}, {means}: {e}")));
                    }
                }
            }
        }
        let of = |shares: &[Share], what: fn(&Share) -> f64| median(shares.iter().map(what));
        let by: BTreeMap<_, _> = all
            .iter()
            .filter_map(|(name, shares)| {
                let messages_per_s = of(shares, |share| share.messages_per_s)?;
                let (least, most) = (of(shares, |s| s.least)?, of(shares, |s| s.most)?);
                Some((*name, Share { messages_per_s, least, most }))
            })
            .collect();
        let rate = |name: &str| by.get(name).map(|share| share.messages_per_s);
        let ratio = rate("outboard").and_then(|ours| Some(ours / rate("kernel")?));
        let size_bytes = SHARED_BYTES;
        let line = Shares { protocol, direction, size_bytes, applications, by, ratio };
        (self.tell)(Ok(&Line::Shares(line)));
    }
}

/// How even rates are.
fn share(rates: Vec<f64>) -> Share {
    let messages_per_s: f64 = rates.iter().sum();
    let even = messages_per_s / rates.len().max(1) as f64;
    let [least, most] = range(rates).unwrap_or_default();
    Share { messages_per_s, least: least / even, most: most / even }
}

/// What the rounds of bulk say.
fn bulk_line(direction: Direction, rounds: &Rounds, theirs: &[Option<Iperf>]) -> Bulk {
    const GIB: f64 = (1u64 << 30) as f64;
    let (mut bits_per_s, mut application_s_per_gib) = (BTreeMap::new(), BTreeMap::new());
    let mut outboard_s_per_gib = None;
    for (name, rounds) in rounds {
        if let Some(rates) = rates(rounds) {
            bits_per_s.insert(*name, rates.messages_per_s * 8.0);
            application_s_per_gib.insert(*name, rates.application_ns * 1e-9 * GIB);
            outboard_s_per_gib = outboard_s_per_gib.or(rates.outboard_ns.map(|ns| ns * 1e-9 * GIB));
        }
    }
    let of = |what: fn(&Iperf) -> f64| median(theirs.iter().flatten().map(what));
    bits_per_s.extend(of(|i| i.bits_per_s).map(|bits| ("iperf3", bits)));
    application_s_per_gib.extend(of(|i| i.cpu_s_per_gib).map(|cpu| ("iperf3", cpu)));
    let ours = rounds.get("outboard").map_or(&[][..], |rounds| rounds);
    let by_theirs = |(ours, theirs): (&Round, &Option<Iperf>)| {
        Some(ours.as_ref()?.0 * 8.0 / theirs.as_ref()?.bits_per_s)
    };
    let mut by: Vec<f64> = ours.iter().zip(theirs).filter_map(by_theirs).collect();
    if by.is_empty() {
        by = ratios(rounds, "outboard", "kernel", |(rate, _)| *rate);
    }
    Bulk {
        direction,
        bits_per_s,
        application_s_per_gib,
        outboard_s_per_gib,
        ratio: median(by.iter().copied()),
        ratio_range: range(by),
        ratio_to_inline: median(ratios(rounds, "outboard", "inline", |(rate, _)| *rate)),
    }
}

/// Who competes.
fn cases(protocol: Protocol, role: Role, size: usize) -> Vec<(&'static str, Case)> {
    let case = |means, batch| Case { means, protocol, role, size, batch, bulk: false };
    let mut all: Vec<_> = Means::ALL.iter().map(|m| (m.name(), case(*m, false))).collect();
    let batches = [
        ("kernel_batch", case(Means::Kernel, true)),
        ("inline_batch", case(Means::Inline, true)),
        ("outboard_batch", case(Means::Outboard, true)),
    ];
    let has_batches = |case: &Case| case.protocol == Protocol::Tcp || case.role == Role::Send;
    all.extend(batches.into_iter().filter(|(_, case)| has_batches(case)));
    if protocol == Protocol::Udp {
        all.push(("kernel_offload", Case { bulk: true, ..case(Means::Kernel, true) }));
    }
    all
}

fn rates(rounds: &[Round]) -> Option<Rates> {
    let all = || rounds.iter().flatten();
    let outboard = |(_, reports): &(f64, Reports)| {
        let report = &reports.application;
        Some(report.beside_cpu_s? * 1e9 / report.messages.max(1) as f64)
    };
    let peer = |(rate, reports): &(f64, Reports)| {
        let report = &reports.peer;
        (report.seconds > 0.0).then(|| report.cpu_s / report.seconds * 1e9 / rate)
    };
    Some(Rates {
        messages_per_s: median(all().map(|(rate, _)| *rate))?,
        range: range(all().map(|(rate, _)| *rate))?,
        application_ns: median(all().map(|(_, r)| r.application.cpu_ns()))?,
        outboard_ns: median(all().filter_map(outboard)),
        peer_ns: median(all().filter_map(peer)),
    })
}

/// What `of` says of `a` by what it says of `b` in the same round.
fn ratios(rounds: &Rounds, a: &str, b: &str, of: impl Fn(&(f64, Reports)) -> f64) -> Vec<f64> {
    let (Some(a), Some(b)) = (rounds.get(a), rounds.get(b)) else { return Vec::new() };
    let ratio = |(a, b): (&Round, &Round)| Some(of(a.as_ref()?) / of(b.as_ref()?));
    a.iter().zip(b).filter_map(ratio).filter(|r| r.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_an_even_one() {
        let share = share(vec![50.0, 100.0, 150.0, 100.0]);
        assert_eq!((share.messages_per_s, share.least, share.most), (400.0, 0.5, 1.5));
    }

    #[test]
    fn every_way_has_all_means() {
        for &protocol in Protocol::ALL {
            for role in [Role::Send, Role::Receive] {
                let cases = cases(protocol, role, 64);
                for means in Means::ALL {
                    assert!(cases.iter().any(|(name, case)| *name == means.name() && !case.batch));
                }
            }
        }
    }
}
