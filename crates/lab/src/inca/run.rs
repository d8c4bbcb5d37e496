//! Rounds: every means in turn, medians at the end, a line as soon as it is known.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::pair::{Between, Pair, Reports, Runner};
use super::task::{DOUBLE_BYTES, Means, Protocol, Report, Role};
use super::wires::Wires;
use super::{
    Api, Bulk, Direction, Line, Messages, Rates, RoundTrip, Times, columns, floods, iperf,
    processing, segments,
};
use crate::Result;
use crate::stats::{median, range};

/// Bytes of messages that go there and back: a short one, and that of INCA's Table 1.
const ROUND_TRIP_BYTES: [usize; 2] = [64, 1000];
/// Rounds of a bulk transfer last longer than those of messages: slow start is to be over.
const BULK_FACTOR: f64 = 4.0;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
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
    /// Protocol processing alone too.
    pub processing: bool,
    /// Floods too.
    pub floods: bool,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// Seconds that count, of one round of one means.
    pub seconds: f64,
    /// Congestion control of streams that the kernel sends, iperf3's too; the system's own when there is none.
    pub congestion: Option<String>,
    /// This program, which runs our processes.
    pub program: PathBuf,
}

/// Runs it; `tell` hears of each result and of each measurement that failed.
///
/// # Errors
/// When the wires cannot be made: not root. A measurement that fails is told and left out.
pub fn run(plan: &Plan, report: &mut dyn FnMut(std::result::Result<&Line, &str>)) -> Result<()> {
    if plan.processing {
        processing_alone(plan, report);
    }
    if plan.floods {
        for protocol in fusewire_stack::transport::Protocol::ALL {
            match floods::measure(protocol, plan.rounds) {
                Ok(line) => report(Ok(&Line::Flood(line))),
                Err(e) => report(Err(&format!("flood over {protocol}: {e}"))),
            }
        }
    }
    if !(plan.messages || plan.bulk || plan.round_trip) {
        return Ok(());
    }
    let wires = Wires::new()?;
    if let Some(name) = &plan.congestion {
        wires.near.begin_streams_with(name)?;
        wires.far.begin_streams_with(name)?;
    }
    let runner = Runner::new(&wires, plan);
    let mut bench = Bench { plan, runner, report };
    for &protocol in plan.protocols.iter().filter(|_| plan.messages) {
        for &direction in &plan.directions {
            for &size in &plan.sizes {
                bench.messages(protocol, direction, size);
            }
        }
    }
    if plan.bulk && plan.protocols.contains(&Protocol::Tcp) {
        for &direction in &plan.directions {
            bench.bulk(direction);
        }
    }
    for size in ROUND_TRIP_BYTES.into_iter().filter(|_| plan.round_trip) {
        bench.round_trip(size);
    }
    Ok(())
}

/// Protocol processing alone, by protocol and size; and XDR in the receive loop.
fn processing_alone(plan: &Plan, report: &mut dyn FnMut(std::result::Result<&Line, &str>)) {
    let mut one = |what: &str, size, line: Result<Option<Line>>| match line {
        Ok(Some(line)) => report(Ok(&line)),
        Ok(None) => {}
        Err(e) => report(Err(&format!("{what} {size} bytes: {e}"))),
    };
    for &protocol in &plan.protocols {
        for &size in &plan.sizes {
            let line = match protocol {
                Protocol::Udp => processing::measure(size, plan.rounds),
                Protocol::Tcp => segments::measure(size, plan.rounds),
            };
            one("processing", size, line.map(|line| Some(Line::Processing(line))));
        }
    }
    for &size in plan.sizes.iter().filter(|_| plan.protocols.contains(&Protocol::Udp)) {
        let line = processing::unmarshalling(size, plan.rounds);
        one("unmarshalling", size, line.map(|line| line.map(Line::Unmarshalling)));
    }
}

struct Bench<'a> {
    plan: &'a Plan,
    runner: Runner<'a>,
    report: &'a mut dyn FnMut(std::result::Result<&Line, &str>),
}

/// Result of a round: the rate, and both reports; none when it failed.
pub type Round = Option<(f64, Reports)>;

/// The rounds of each means.
pub type Rounds = BTreeMap<&'static str, Vec<Round>>;

impl Bench<'_> {
    fn rounds(&mut self, pairs: &[(&'static str, Pair)], what: &str) -> Rounds {
        let mut rounds = Rounds::new();
        for round in 0..self.plan.rounds {
            self.round(round, pairs, what, &mut rounds);
        }
        rounds
    }

    /// The order turns, so that no means always follows the same one.
    fn round(
        &mut self,
        round: usize,
        pairs: &[(&'static str, Pair)],
        what: &str,
        rounds: &mut Rounds,
    ) {
        for i in 0..pairs.len() {
            let (name, pair) = &pairs[(i + round) % pairs.len()];
            let result = self.runner.run(pair).map(|reports| (pair.rate(&reports), reports));
            if let Err(e) = &result {
                (self.report)(Err(&format!("{what}, {name}: {e}")));
            }
            rounds.entry(name).or_default().push(result.ok());
        }
    }

    fn messages(&mut self, protocol: Protocol, direction: Direction, size: usize) {
        let what = format!("{} {} {size} bytes", protocol.name(), direction.name());
        let pairs = pairs(protocol, direction, size);
        let rounds = self.rounds(&pairs, &what);
        let rates: BTreeMap<_, _> =
            rounds.iter().filter_map(|(n, r)| Some((*n, rates(r)?))).collect();
        let rate = |name: &str| rates.get(name).map(|r: &Rates| r.messages_per_s);
        let ratio_to = |name: &str, other: &str| median(ratios(&rounds, name, other));
        let mut line = Messages {
            protocol,
            direction,
            size_bytes: size,
            kernel_messages_per_s: rate("kernel"),
            fusewire_messages_per_s: rate("fusewire"),
            ratio: ratio_to("fusewire", "kernel"),
            ratio_range: range(ratios(&rounds, "fusewire", "kernel")),
            ratio_to_offload: ratio_to("fusewire", "kernel_offload"),
            ratio_of_single: ratio_to("fusewire_single", "kernel"),
            ratio_of_xdr: ratio_to("fusewire_xdr", "kernel_xdr"),
            ratio_to_raw: ratio_to("fusewire", "raw"),
            kernel: Times::default(),
            fusewire: Times::default(),
            rates,
        };
        let application = |rate: Option<f64>| rate.map(|rate| 1e9 / rate);
        line.kernel.application_ns = application(line.kernel_messages_per_s);
        line.fusewire.application_ns = application(line.fusewire_messages_per_s);
        line.fusewire.device_ns = device_ns(&rounds, protocol, size);
        let alone = match protocol {
            Protocol::Udp => processing::measure(size, self.plan.rounds),
            Protocol::Tcp => segments::measure(size, self.plan.rounds),
        };
        line.fusewire.protocol_ns = alone.ok().map(|p| p.integrated_ns);
        columns::kernel(&mut self.runner, self.plan.rounds, &mut line, &rounds);
        (self.report)(Ok(&Line::Messages(line)));
    }

    fn bulk(&mut self, direction: Direction) {
        let what = format!("tcp {} bulk", direction.name());
        let mut pairs = pairs(Protocol::Tcp, direction, super::task::BULK_BYTES);
        let mut apis = vec![Api::Plain];
        if direction != Direction::Receive {
            apis.push(Api::Shared);
            let shares = |(_, pair): (_, Pair)| Pair { subject: Means::FusewireShared, ..pair };
            let shared = pairs.iter().find(|(name, _)| *name == Api::Plain.name()).copied();
            pairs.extend(shared.map(|plain| (Api::Shared.name(), shares(plain))));
        }
        for (_, pair) in &mut pairs {
            pair.bulk = true;
        }
        self.runner.seconds *= BULK_FACTOR;
        let mut rounds = Rounds::new();
        let mut iperf = IperfRounds::new();
        for round in 0..self.plan.rounds {
            self.round(round, &pairs, &what, &mut rounds);
            for (name, zero_copy) in [("iperf3", false), ("iperf3_zero_copy", true)] {
                if direction == Direction::Both || zero_copy && direction == Direction::Receive {
                    continue;
                }
                let result = iperf::run(&self.runner.between(), direction, zero_copy).ok();
                iperf.entry(name).or_default().push(result);
            }
        }
        self.runner.seconds /= BULK_FACTOR;
        for api in apis {
            (self.report)(Ok(&Line::Bulk(bulk_line(direction, api, &rounds, &iperf))));
        }
    }

    fn round_trip(&mut self, size: usize) {
        let pair = |between, subject, peer| Pair {
            between,
            protocol: Protocol::Udp,
            role: Role::Ask,
            subject,
            peer,
            size,
            bulk: false,
            peer_bulk: false,
            packets: 0,
        };
        let spinning = Means::KernelSpinning;
        let pairs = [
            ("kernel", pair(Between::Kernels, Means::Kernel, Means::Kernel)),
            ("kernel_spinning", pair(Between::Kernels, spinning, spinning)),
            ("raw", pair(Between::KernelAndTap, Means::Raw, spinning)),
            ("fusewire", pair(Between::KernelAndTap, Means::Fusewire, spinning)),
        ];
        let rounds = self.rounds(&pairs, &format!("round trip of {size} bytes"));
        let of =
            |r: &[Round]| median(r.iter().flatten().filter_map(|(_, r)| r.subject.round_trip_ns));
        let round_trip_ns = rounds.iter().filter_map(|(n, r)| Some((*n, of(r)?))).collect();
        // Rates, so the other way round.
        let ratio_to_raw = median(ratios(&rounds, "raw", "fusewire"));
        let line =
            RoundTrip { protocol: Protocol::Udp, size_bytes: size, round_trip_ns, ratio_to_raw };
        (self.report)(Ok(&Line::RoundTrip(line)));
    }
}

/// What iperf3 said in each round.
type IperfRounds = BTreeMap<&'static str, Vec<Option<iperf::Iperf>>>;

/// What the rounds of bulk say of one way to write.
fn bulk_line(direction: Direction, api: Api, rounds: &Rounds, iperf: &IperfRounds) -> Bulk {
    let mut bits_per_s = BTreeMap::new();
    let mut cpu_s_per_gib = BTreeMap::new();
    for (name, rounds) in rounds {
        if let Some(rates) = rates(rounds) {
            bits_per_s.insert(*name, rates.messages_per_s * 8.0);
            cpu_s_per_gib.insert(*name, rates.cpu_ns * 1e-9 * f64::from(1 << 30));
        }
    }
    for (name, rounds) in iperf {
        let of = |what: fn(&iperf::Iperf) -> f64| median(rounds.iter().flatten().map(what));
        bits_per_s.extend(of(|i| i.bits_per_s).map(|bits| (*name, bits)));
        cpu_s_per_gib.extend(of(|i| i.cpu_s_per_gib).map(|cpu| (*name, cpu)));
    }
    let to_iperf = |name: &str| -> Vec<f64> {
        let (Some(ours), Some(theirs)) = (rounds.get(api.name()), iperf.get(name)) else {
            return Vec::new();
        };
        let ratio = |(ours, theirs): (&Round, &Option<iperf::Iperf>)| {
            Some(ours.as_ref()?.0 * 8.0 / theirs.as_ref()?.bits_per_s)
        };
        ours.iter().zip(theirs).filter_map(ratio).collect()
    };
    let mut to_theirs = to_iperf("iperf3");
    if to_theirs.is_empty() {
        to_theirs = ratios(rounds, api.name(), "kernel");
    }
    Bulk {
        protocol: Protocol::Tcp,
        direction,
        api,
        bits_per_s,
        cpu_s_per_gib,
        ratio: median(to_theirs.iter().copied()),
        ratio_range: range(to_theirs),
        ratio_to_zero_copy: median(to_iperf("iperf3_zero_copy")),
        ratio_to_raw: median(ratios(rounds, api.name(), "raw")),
    }
}

/// Who competes.
fn pairs(protocol: Protocol, direction: Direction, size: usize) -> Vec<(&'static str, Pair)> {
    use Between::{BridgedKernels, BridgedTaps, KernelAndTap, Kernels};
    use Means::{Fusewire, FusewireBatch, FusewireXdr, Kernel, KernelOffload, KernelXdr, Raw};
    let role = if direction == Direction::Receive { Role::Receive } else { Role::Send };
    let pair = |between, subject, peer| {
        let (bulk, peer_bulk) = (false, true);
        Pair { between, protocol, role, subject, peer, size, bulk, peer_bulk, packets: 0 }
    };
    match (protocol, direction) {
        (Protocol::Udp, Direction::Both) => vec![
            ("kernel", pair(BridgedKernels, Kernel, Kernel)),
            ("kernel_offload", pair(BridgedKernels, KernelOffload, KernelOffload)),
            ("fusewire", pair(BridgedTaps, Fusewire, Fusewire)),
            ("fusewire_batch", pair(BridgedTaps, FusewireBatch, FusewireBatch)),
        ],
        (Protocol::Udp, _) => {
            let mut all = vec![
                ("kernel", pair(Kernels, Kernel, KernelOffload)),
                ("kernel_offload", pair(Kernels, KernelOffload, KernelOffload)),
                ("raw", pair(KernelAndTap, Raw, KernelOffload)),
                ("fusewire", pair(KernelAndTap, FusewireBatch, KernelOffload)),
                ("fusewire_single", pair(KernelAndTap, Fusewire, KernelOffload)),
            ];
            if direction == Direction::Receive && size.is_multiple_of(DOUBLE_BYTES) {
                all.push(("kernel_xdr", pair(Kernels, KernelXdr, KernelOffload)));
                all.push(("fusewire_xdr", pair(KernelAndTap, FusewireXdr, KernelOffload)));
            }
            all
        }
        (Protocol::Tcp, Direction::Both) => vec![
            ("kernel", pair(BridgedKernels, Kernel, Kernel)),
            ("fusewire", pair(BridgedTaps, Fusewire, Fusewire)),
        ],
        (Protocol::Tcp, _) => vec![
            ("kernel", pair(Kernels, Kernel, Kernel)),
            ("raw", pair(KernelAndTap, Raw, Kernel)),
            ("fusewire", pair(KernelAndTap, Fusewire, Kernel)),
        ],
    }
}

/// Time a message inside the interface, where processes of ours measured it: Fusewire's own, at both ends if both are,
/// or else the raw device's.
fn device_ns(rounds: &Rounds, protocol: Protocol, size: usize) -> Option<f64> {
    // Who reads a stream at the other end counts bytes.
    let unit = if protocol == Protocol::Tcp { size as f64 } else { 1.0 };
    let each = |r: &Report| r.device_s.map(|s| s * 1e9 / r.messages.max(1) as f64);
    ["fusewire", "raw"].into_iter().find_map(|name| {
        let reports = rounds.get(name)?.iter().flatten().map(|(_, r)| r);
        median(
            reports.filter_map(|r| Some(each(&r.subject)? + each(&r.peer).unwrap_or(0.0) * unit)),
        )
    })
}

fn rates(rounds: &[Round]) -> Option<Rates> {
    let rates = || rounds.iter().flatten().map(|(rate, _)| *rate);
    let cpu_ns = median(rounds.iter().flatten().map(|(_, r)| r.subject.cpu_ns()))?;
    Some(Rates { messages_per_s: median(rates())?, range: range(rates())?, cpu_ns })
}

/// Rates of `a` by those of `b` in the same round.
fn ratios(rounds: &Rounds, a: &str, b: &str) -> Vec<f64> {
    let (Some(a), Some(b)) = (rounds.get(a), rounds.get(b)) else { return Vec::new() };
    let ratio = |(a, b): (&Round, &Round)| Some(a.as_ref()?.0 / b.as_ref()?.0);
    a.iter().zip(b).filter_map(ratio).filter(|r| r.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rate: f64) -> Option<(f64, Reports)> {
        let reports = Reports { subject: Report::default(), peer: Report::default() };
        Some((rate, reports))
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ours = vec![round(10.0), None, round(90.0)];
        let theirs = vec![round(5.0), round(7.0), round(30.0)];
        let rounds = Rounds::from([("fusewire", ours), ("kernel", theirs)]);
        assert_eq!(ratios(&rounds, "fusewire", "kernel"), [2.0, 3.0]);
        assert!(ratios(&rounds, "fusewire", "raw").is_empty());
    }

    #[test]
    fn time_at_the_device_is_that_of_both_ends() {
        let report = |messages, device_s| Report { messages, device_s, ..Report::default() };
        let round = |subject, peer| Some((1.0, Reports { subject, peer }));
        let mut rounds =
            Rounds::from([("raw", vec![round(report(10, Some(1e-6)), report(9, None))])]);
        assert_eq!(device_ns(&rounds, Protocol::Udp, 100).map(f64::round), Some(100.0));
        let both = round(report(10, Some(2e-6)), report(2000, Some(2e-6)));
        rounds.insert("fusewire", vec![both]);
        assert_eq!(device_ns(&rounds, Protocol::Tcp, 100).map(f64::round), Some(300.0));
        assert_eq!(device_ns(&Rounds::new(), Protocol::Tcp, 100), None);
    }

    #[test]
    fn every_direction_has_a_kernel_and_us() {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            for &direction in Direction::ALL {
                let pairs = pairs(protocol, direction, 100);
                let has = |name| pairs.iter().any(|(n, _)| *n == name);
                assert!(has("kernel") && has("fusewire"), "{protocol:?} {direction:?}");
            }
        }
    }
}
