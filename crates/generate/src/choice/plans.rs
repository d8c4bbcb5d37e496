//! A combination as a plan.

use fusewire_model::advise::Rule;
use fusewire_model::{Implementation, Machine, choose_transform};

use super::adu::{Carrier, Way, mechanism_of};
use super::rank::{Combination, of_function};
use crate::catalogue::{Function, Mechanism as M};
use crate::language::Specification;
use crate::language::keys;
use crate::language::specification::{Adu, CODECS, Control, Shape};
use crate::language::value::Range;
use crate::plan::*;
use crate::rust::memory;

/// The plan, and for each type of ADU why its data pass runs as it does.
pub fn plan(
    of: &Specification,
    chosen: &Combination,
    machine: Option<&Machine>,
) -> (Plan, Vec<String>) {
    let (mut plan, executions) = without_wire(of, chosen, machine);
    plan.wire = wire(of, chosen);
    let mut hash = blake3::Hasher::new();
    for clause in &plan.wire {
        for text in [&clause.name, &clause.value] {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
    plan.digest = *hash.finalize().as_bytes();
    (plan, executions)
}

/// The same without what both ends compare.
pub fn without_wire(
    of: &Specification,
    chosen: &Combination,
    machine: Option<&Machine>,
) -> (Plan, Vec<String>) {
    let shared = |function| of_function(chosen.shared, function);
    let adus: Vec<_> =
        (0..of.adus.len()).map(|place| adu_plan(of, chosen, place, machine)).collect();
    let (adus, executions): (Vec<_>, Vec<_>) = adus.into_iter().unzip();
    let is_low = |adu: &Adu| {
        matches!(
            adu.profile.value,
            Profile::LowLatencyInteractive | Profile::LowLatencyNonInteractive
        )
    };
    let mut plan = Plan {
        name: of.name.clone(),
        digest: [0; 32],
        wire: Vec::new(),
        roles: of.roles.clone(),
        asn1: of.asn1.clone(),
        peers: match of.peers.shape.value {
            Shape::Pair => Peers::Pair,
            Shape::Group => Peers::Group,
        },
        network: network(of, chosen),
        machine: match shared(Function::Machine) {
            M::Tcp => crate::plan::Machine::Tcp,
            M::Xtp => crate::plan::Machine::Xtp,
            M::Group => crate::plan::Machine::Group,
            _ => crate::plan::Machine::Datagram,
        },
        set_up: match shared(Function::SetUp) {
            M::First => SetUp::First,
            M::Transaction => SetUp::Transaction,
            _ => SetUp::Explicit,
        },
        suite: if chosen.carrier.is_sealed { Suite::Sealed } else { Suite::Plain },
        congestion: match shared(Function::Congestion) {
            M::Cubic => Congestion::Cubic,
            M::Bbr => Congestion::Bbr,
            M::NewReno => Congestion::NewReno,
            M::Media => Congestion::Media,
            _ => Congestion::Bucket,
        },
        flow: if shared(Function::Flow) == M::Window { Flow::Window } else { Flow::None },
        sum: match shared(Function::Sum) {
            M::Internet => Sum::Internet,
            M::Cxor => Sum::Cxor,
            M::Crc32c => Sum::Crc32c,
            _ => Sum::None,
        },
        acknowledge: match shared(Function::Acknowledge) {
            M::AckEach => Acknowledge::Each,
            M::Slotted => Acknowledge::Slotted,
            M::Reports => Acknowledge::Reports,
            _ => Acknowledge::Delayed,
        },
        device: of.platform.device.value,
        mtu_bytes: of.network.mtu_bytes.value as u32,
        payload_bytes: chosen.carrier.payload(of) as u32,
        allowed_bits_per_s: chosen.totals.allowed_bits as u64,
        ring_bytes: chosen.totals.ring_bytes.ceil() as u64,
        memory_bytes: 0,
        is_nagle: chosen.carrier.machine == M::Tcp && !of.adus.iter().any(is_low),
        dscp: dscp(of),
        group: (of.peers.shape.value == Shape::Group).then(|| Group {
            receivers: (of.peers.receivers.value.low as u32, of.peers.receivers.value.high as u32),
            floor_bytes_per_s: (of.peers.floor_kbit.value * 125.0) as u64,
            rate_bytes_per_s: (chosen.totals.allowed_bits / 8.0) as u64,
            grtt_first_us: us(of.network.rtt_ms.value.high),
        }),
        adus,
    };
    plan.memory_bytes = memory::most(&plan);
    (plan, executions)
}

fn us(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}

fn network(of: &Specification, chosen: &Combination) -> Network {
    let n = &of.network;
    // Contracts count a burst in packets: those that all types send meanwhile.
    let of_way = |way: &Way| way.figures.most_packets.unwrap_or(way.figures.least_packets);
    let in_time = |ms: f64| (chosen.ways.iter().map(of_way).sum::<f64>() * ms / 1000.0).max(1.0);
    let bytes = |mbit: f64| (mbit * 125_000.0) as u64;
    Network {
        rtt_us: (us(n.rtt_ms.value.low), us(n.rtt_ms.value.high)),
        rate_bytes_per_s: (bytes(n.rate_mbit.value.low), bytes(n.rate_mbit.value.high)),
        loss: n.loss.value,
        loss_burst: n.loss_burst_ms.value.map_or(n.loss_burst.value, in_time),
        jitter_us: us(n.jitter_ms.value),
        is_reserved: n.control.value == Control::Reserved,
    }
}

/// One code point where all types agree on a profile (RFC 9622, section 8.1.6; RFC 7657, section 6).
fn dscp(of: &Specification) -> u8 {
    let first = of.adus.first().map_or(Profile::Default, |adu| adu.profile.value);
    if of.adus.iter().any(|adu| adu.profile.value != first) {
        return 0;
    }
    match first {
        Profile::Default => 0,
        Profile::Scavenger => 1,
        Profile::LowLatencyInteractive => 34,
        Profile::LowLatencyNonInteractive => 18,
        Profile::ConstantRateStreaming => 26,
        Profile::CapacitySeeking => 10,
    }
}

fn adu_plan(
    of: &Specification,
    chosen: &Combination,
    place: usize,
    machine: Option<&Machine>,
) -> (AduPlan, String) {
    let (adu, way) = (&of.adus[place], &chosen.ways[place]);
    let carrier = chosen.carrier.of_way(way.set);
    let size = carrier.size(adu);
    let number = |name: &String| of.adus.iter().position(|a| a.name == *name).map(|n| n as u8);
    let (execution, why) = execution(&carrier, way.figures.bytes, machine);
    let (module, ty) = adu.ty.value.split_once('.').unwrap_or_default();
    let scaled =
        |range: Option<Range>| range.map(|r| ((r.low * 1000.0) as u64, (r.high * 1000.0) as u64));
    let resend = match of_function(way.set, Function::Resend) {
        M::Selective => Resend::Selective,
        M::GoBackN => Resend::GoBackN,
        M::UntilDeadline => Resend::UntilDeadline,
        _ => Resend::None,
    };
    let codec = CODECS.iter().find(|(codec, _)| mechanism_of(*codec) == chosen.carrier.codec);
    let plan = AduPlan {
        name: adu.name.clone(),
        number: place as u8,
        asn1: (module.to_owned(), ty.to_owned()),
        from: adu.from.value,
        codec: codec.map_or(Codec::Lws, |(codec, _)| *codec),
        size_bytes: (size.low as u64, size.high as u64),
        is_cut: size.high > carrier.payload(of),
        resend,
        order: adu.order.value,
        newest: adu.newest.value.clone(),
        after: adu.after.value.iter().filter_map(number).collect(),
        deadline_us: adu.deadline_ms.value.map(us),
        late: adu.late.value,
        fec: way.fec.clone(),
        loss: adu.loss.value,
        loss_run: adu.loss_run.value.filter(|_| resend != Resend::Selective).map(|run| run as u32),
        jitter_us: adu.jitter_ms.value.map(us),
        load_bits_per_s: (
            way.figures.least_bits.floor() as u64,
            way.figures.most_bits.map(|bits| bits.ceil() as u64),
        ),
        bucket: way.figures.most_bits.map(|bits| Bucket {
            bytes_per_s: (bits / 8.0).ceil() as u64,
            burst_bytes: (way.figures.bytes * way.figures.load.max(1.0)
                + f64::from(way.figures.packets) * carrier.overhead() * way.figures.load.max(1.0))
            .ceil() as u64,
        }),
        playout: way.playout,
        adapt: adu.adapt.value.clone(),
        rate_millihertz: scaled(adu.rate_hz.value),
        bitrate_bits_per_s: scaled(adu.bitrate_kbit.value),
        reply: adu.reply.value.as_ref().and_then(number),
        is_replayable: adu.replayable.value,
        priority: adu.priority.value as u32,
        profile: adu.profile.value,
        execution,
    };
    (plan, why)
}

/// How the data pass runs, by the model's advice and rules.
fn execution(carrier: &Carrier, bytes: f64, machine: Option<&Machine>) -> (Execution, String) {
    if matches!(carrier.codec, M::Ber | M::Der) {
        return (
            Execution::Sequential,
            Rule::OtherLength(carrier.codec.name().to_owned()).to_string(),
        );
    }
    if carrier.machine == M::Datagram {
        let why = "sequential: it is marshalled into the memory where it waits, from where each packet is sealed in one loop";
        return (Execution::Sequential, why.to_owned());
    }
    // A machine is measured at its own level; of ciphers the first is the one that sessions offer first.
    let is_its = |cipher: &str| carrier.is_sealed == (cipher != "none");
    let advice = machine.map(|machine| {
        let known = machine.transforms.iter().find(|known| is_its(&known.cipher))?;
        choose_transform(machine, &known.cipher, 4, &known.level, bytes)
    });
    let Some(advice) = advice else {
        let why = "integrated: no machine that was calibrated says otherwise";
        return (Execution::Integrated, why.to_owned());
    };
    match advice {
        None => (
            Execution::Integrated,
            "integrated: nothing of it was measured on the machine that was calibrated".to_owned(),
        ),
        Some(Implementation::Integrated) => (
            Execution::Integrated,
            format!("integrated: by the model nothing is faster for {bytes:.0} bytes"),
        ),
        Some(other) => {
            let execution = match other {
                Implementation::Blocked => Execution::Blocked,
                _ => Execution::Sequential,
            };
            (execution, format!("{}: by the model it is faster for {bytes:.0} bytes", other.name()))
        }
    }
}

/// The format of what goes beside datagrams: from 2 on its header has when it was sent.
const FORMAT_BESIDE: &str = "2";

/// What both ends must have alike: clauses of the wire, and what was chosen by them.
fn wire(of: &Specification, chosen: &Combination) -> Vec<WireClause> {
    let clause = |name: &str, value: String| WireClause { name: name.to_owned(), value };
    let mut all = vec![clause("roles", of.roles.join(", "))];
    // Of formats that have changed: who has another one has another plan, whatever the specification.
    if chosen.ways.iter().any(|way| chosen.carrier.is_beside(way.set)) {
        all.push(clause("format.beside", FORMAT_BESIDE.to_owned()));
    }
    for (module, hash) in &of.modules {
        all.push(clause(&format!("asn1.{module}"), hash.clone()));
    }
    for one in of.clauses() {
        let name = one.clause().name.as_str();
        if is_wire(name) {
            all.push(clause(name, one.text()));
        }
    }
    for function in Function::ALL.into_iter().filter(|f| !f.is_of_adu() && *f != Function::Device) {
        let name = format!("chosen.{}", function.name());
        all.push(clause(&name, of_function(chosen.shared, function).name().to_owned()));
    }
    for (adu, way) in of.adus.iter().zip(&chosen.ways) {
        let resend = of_function(way.set, Function::Resend).name().to_owned();
        all.push(clause(&format!("chosen.{}.resending", adu.name), resend));
        all.push(clause(&format!("chosen.{}.correction", adu.name), format!("{:?}", way.fec)));
    }
    all
}

fn is_wire(name: &str) -> bool {
    let key = name.rsplit('.').next().unwrap_or(name);
    let keys = match name.split('.').next() {
        Some("network") => keys::NETWORK,
        Some("peers") => keys::PEERS,
        Some("platform") => keys::PLATFORM,
        Some("adu") => keys::ADU,
        _ => keys::FILE,
    };
    keys.iter().any(|k| k.name == key && k.is_wire)
}
