//! Every combination that is left, those that are feasible at every corner, and the least of them.

use std::cmp::Ordering;

use super::adu::{
    Carrier, Failure, Figures, IP_BYTES, Known, RATE_SHARE, Subject, TCP_BYTES, Told, Way,
    allowed_bits, fair_bits, percent,
};
use super::plans::{plan, without_wire};
use super::rules::{Candidates, any_of, fits};
use crate::catalogue::{Function, Mechanism as M, Set};
use crate::language::specification::{Adu, Integrity, Prefer, Preference, Specification};
use crate::language::value::{Clause, Origin, rounded};
use crate::plan::Profile;
use crate::rust::has_code;

/// Of what nobody promised a rate for, no more than this waits for acknowledgements.
const RING_BYTES_MAX: f64 = 67_108_864.0;
/// Bytes that a stream sends before they are acknowledged, at most: the stack's own, which no clause changes.
pub const STREAM_RING_BYTES: u64 = 2 << 20;

/// Bytes of a control of XTP's that answers, without IP and UDP (`docs/xtp.md`, sections 2 and 3).
const XTP_CONTROL_BYTES: f64 = 56.0;
/// Reports of datagrams, as they go while something comes (RFC 8698's DELTA), bytes of one without its packets, and of each packet
/// (RFC 8888, section 3.1), of which one report has no more than so many.
const REPORTS_A_SECOND: f64 = 10.0;
const REPORT_BYTES: f64 = 10.0;
const METRIC_BYTES: f64 = 2.0;
const REPORT_PACKETS_MAX: f64 = 500.0;

/// What a stream beside datagrams is made of, which costs what it costs.
const BESIDE: [M; 5] = [M::Tcp, M::AckDelayed, M::Cubic, M::Window, M::StreamOffset];

/// A combination that is feasible.
#[derive(Clone, Debug)]
pub struct Combination {
    /// What all types share.
    pub shared: Set,
    /// Each type of ADU.
    pub ways: Vec<Way>,
    /// What carries them.
    pub carrier: Carrier,
    /// Figures of all together.
    pub totals: Totals,
    /// By what it was compared.
    pub score: Score,
}

/// Figures of all types together, at the worst corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Bits a second that must be sent, in the direction that has more.
    pub least_bits: f64,
    /// Bits a second that may be.
    pub allowed_bits: f64,
    /// The same with what tells the peer what has come of its own, in the direction in which that is more; and what of it that is.
    pub reported_bits: (f64, f64),
    /// Bits a second that congestion control finds at the longest round trip, and a stream's memory has room for.
    pub found_bits: f64,
    /// Bytes that wait to be acknowledged.
    pub ring_bytes: f64,
    /// Bytes of all buffers of an end, where somebody asks for them; otherwise 0.
    pub memory_bytes: f64,
    /// Milliseconds of all types together.
    pub ms: f64,
}

/// What combinations are compared by, first first; less is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Preferences that are written and broken.
    pub broken: u32,
    /// Preferences by default that are broken.
    pub broken_default: u32,
    /// It sends in the clear: only who is to, or would rather, does.
    pub is_bare: bool,
    /// No code is made of it yet.
    pub is_without_code: bool,
    /// What `prefer` and profiles name, in their order.
    pub preferred: Vec<f64>,
    /// Work.
    pub work: f64,
    /// Mechanisms that do something.
    pub mechanisms: u32,
    /// All their names.
    pub name: String,
}

impl Score {
    fn order(&self, other: &Score) -> Ordering {
        let first = |of: &Score| (of.broken, of.broken_default, of.is_bare, of.is_without_code);
        let pairs = self.preferred.iter().zip(&other.preferred);
        let preferred = pairs.map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne());
        first(self)
            .cmp(&first(other))
            .then(preferred.unwrap_or(Ordering::Equal))
            .then(self.work.total_cmp(&other.work))
            .then(self.mechanisms.cmp(&other.mechanisms))
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// The least of what is feasible: of that of which code is made, if there is such.
///
/// # Errors
/// Nothing is: why, of what comes first.
pub fn least(of: &Specification, candidates: &Candidates) -> Result<Combination, Failure> {
    let mut best: Option<Combination> = None;
    let found = feasible_ones(of, candidates, Told::First, |mut one| {
        let is_less =
            |one: &Combination| best.as_ref().is_none_or(|b| one.score.order(&b.score).is_lt());
        // Whether there is code is asked of what would be chosen if there were.
        if is_less(&one) {
            one.score.is_without_code = !has_code(of, &plan(of, &one, None).0);
            if is_less(&one) {
                best = Some(one);
            }
        }
        true
    });
    match best {
        Some(best) => Ok(best),
        None => Err(found.err().unwrap_or_else(|| nothing_fits(candidates))),
    }
}

/// Whether anything is feasible.
///
/// # Errors
/// Nothing is: why, of what is to be told.
pub fn any(of: &Specification, candidates: &Candidates, told: Told) -> Result<(), Failure> {
    let mut is_any = false;
    let found = feasible_ones(of, candidates, told, |_| {
        is_any = true;
        false
    });
    if is_any { Ok(()) } else { Err(found.err().unwrap_or_else(|| nothing_fits(candidates))) }
}

/// Gives what is feasible as long as it is taken.
///
/// # Errors
/// Why something is not, if there was such: what is to be told.
fn feasible_ones(
    of: &Specification,
    candidates: &Candidates,
    told: Told,
    mut take: impl FnMut(Combination) -> bool,
) -> Result<(), Failure> {
    if let Some((function, place)) = candidates.missing() {
        return Err(nothing_left(of, candidates, function, place));
    }
    let mut failure: Option<Failure> = None;
    let mut carried: Vec<(Carrier, Result<Ways, Failure>)> = Vec::new();
    for shared in combinations(candidates.shared) {
        let Some(carrier) = carrier_of(shared) else { continue };
        // Needs of single mechanisms among those that all share: most combinations end here.
        if !fits(shared, &[]) {
            continue;
        }
        if let Some(why) = untold(of, shared) {
            failure = Some(told.of(failure, why));
            continue;
        }
        let ways = match carried.iter().find(|(known, _)| *known == carrier) {
            Some((_, ways)) => ways,
            None => {
                let ways = all_ways(of, candidates, carrier, told);
                carried.push((carrier, ways));
                &carried[carried.len() - 1].1
            }
        };
        match ways.as_ref().map_err(Clone::clone).and_then(|ways| joined(of, shared, carrier, ways))
        {
            Ok(one) => {
                if !take(one) {
                    break;
                }
            }
            Err(why) => failure = Some(told.of(failure, why)),
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Why mechanisms will not do where neither a tag nor a sum tells a type that was changed by accident. Shared memory changes
/// nothing.
fn untold(of: &Specification, shared: Set) -> Option<Failure> {
    let is_told = shared.has_any(&[M::Sealed, M::Internet, M::Cxor, M::Crc32c, M::Shm]);
    let adu = of.adus.iter().find(|adu| adu.integrity.value != Integrity::None)?;
    let why = || format!("nothing would tell that {} was changed by accident", adu.name);
    (!is_told).then(|| Failure::new(why(), vec![adu.integrity.clause.name.clone()]))
}

/// The ways that are feasible, of each type, the least first.
type Ways = Vec<Vec<Way>>;

fn all_ways(
    of: &Specification,
    candidates: &Candidates,
    carrier: Carrier,
    told: Told,
) -> Result<Ways, Failure> {
    let mut all = Vec::new();
    for (place, set) in candidates.adus.iter().enumerate() {
        let known = Known::default();
        let subject = Subject::new(of, place, carrier, &known);
        let (mut good, mut bad) = (Vec::new(), None);
        for (_, way) in subject.ways(*set) {
            match way {
                Ok(way) => good.push(way),
                // The simplest way comes first.
                Err(failure) => bad = Some(told.of(bad, failure)),
            }
        }
        match (good.is_empty(), bad) {
            (true, Some(failure)) => {
                let why = format!("{}: {}", of.adus[place].name, failure.why);
                return Err(Failure { why, ..failure });
            }
            _ => {
                let mut scored: Vec<_> =
                    good.into_iter().map(|way| (way_score(&subject, &way), way)).collect();
                scored.sort_by(|a, b| a.0.order(&b.0));
                all.push(scored.into_iter().map(|(_, way)| way).collect());
            }
        }
    }
    Ok(all)
}

/// Puts together what goes together, and asks for rates and memory.
fn joined(
    of: &Specification,
    shared: Set,
    carrier: Carrier,
    ways: &Ways,
) -> Result<Combination, Failure> {
    let mut chosen = Vec::new();
    for (place, ways) in ways.iter().enumerate() {
        match ways.iter().find(|way| fits(shared, &[way.set])) {
            Some(way) => chosen.push(way.clone()),
            None => {
                let name = &of.adus[place].name;
                let why = ways.first().and_then(|way| misfit(shared, way.set));
                let why = why.unwrap_or_else(|| "no way of it goes together with the rest".into());
                return Err(Failure::new(format!("{name}: {why}"), Vec::new()));
            }
        }
    }
    if chosen.iter().all(|way| carrier.is_beside(way.set)) {
        let why = "all of it is sent again: a stream alone carries it";
        return Err(Failure::new(why, Vec::new()));
    }
    let together = |ways: &[Way]| {
        let totals = totals(of, shared, carrier, ways);
        with_memory(of, shared, carrier, ways, totals)
    };
    let mut totals = together(&chosen);
    if let Err(failure) = feasible(of, &totals) {
        // What loads least, whatever it costs besides.
        for (place, ways) in ways.iter().enumerate() {
            let fitting = ways.iter().filter(|way| fits(shared, &[way.set]));
            let least =
                fitting.min_by(|a, b| a.figures.least_bits.total_cmp(&b.figures.least_bits));
            if let Some(way) = least {
                chosen[place] = way.clone();
            }
        }
        totals = together(&chosen);
        feasible(of, &totals).map_err(|_| failure)?;
    }
    check_bucket(of, shared, carrier, &chosen)?;
    check_adapting(of, shared, &chosen, &totals)?;
    let score = score(of, shared, &chosen, &totals);
    Ok(Combination { shared, ways: chosen, carrier, totals, score })
}

/// With the memory of the ends that are made of it, where somebody asks for it.
fn with_memory(
    of: &Specification,
    shared: Set,
    carrier: Carrier,
    ways: &[Way],
    totals: Totals,
) -> Totals {
    if of.platform.memory_kib.value.is_none() && !preferred(of).contains(&Prefer::Memory) {
        return totals;
    }
    let score = score(of, shared, ways, &totals);
    let one = Combination { shared, ways: ways.to_vec(), carrier, totals, score };
    let memory_bytes = without_wire(of, &one, None).0.memory_bytes as f64;
    Totals { memory_bytes, ..totals }
}

/// Of a way of a type and what all share, what needs something that is not there.
fn misfit(shared: Set, own: Set) -> Option<String> {
    let both = Function::ALL.into_iter().flat_map(|f| {
        let set = if f.is_of_adu() { own } else { shared };
        set.of_function(f)
    });
    both.collect::<Vec<_>>().iter().find_map(|one| {
        let entry = one.entry();
        let is_there = |need: &[M]| {
            let is_of_adu = need.first().is_some_and(|n| n.entry().function.is_of_adu());
            (if is_of_adu { own } else { shared }).has_any(need)
        };
        let need = entry.needs.iter().find(|need| !is_there(need))?;
        Some(format!("{} {} needs {}", entry.function.name(), entry.name, any_of(need)))
    })
}

/// One mechanism of each function that all share.
fn combinations(shared: Set) -> Vec<Set> {
    let mut all: Vec<Vec<M>> = vec![Vec::new()];
    for function in Function::ALL.into_iter().filter(|f| !f.is_of_adu()) {
        let choices = shared.of_function(function);
        let mut next = Vec::new();
        for set in &all {
            for choice in &choices {
                let mut one = set.clone();
                one.push(*choice);
                // What contradicts what is there already is not looked at any further.
                if agrees(*choice, set) {
                    next.push(one);
                }
            }
        }
        all = next;
    }
    all.into_iter().map(Set::of).collect()
}

/// Whether one more mechanism agrees with those that stand for their functions.
fn agrees(one: M, with: &[M]) -> bool {
    let allows = |a: M, b: M| {
        let needs = a.entry().needs.iter().all(|need| {
            let is_about = need.first().is_some_and(|n| n.entry().function == b.entry().function);
            !is_about || need.contains(&b)
        });
        needs && !a.entry().excludes.contains(&b)
    };
    with.iter().all(|other| allows(one, *other) && allows(*other, one))
}

fn only(set: Set, function: Function) -> Option<M> {
    set.of_function(function).first().copied()
}

/// The mechanism of a function among those that were chosen.
pub fn of_function(set: Set, function: Function) -> M {
    only(set, function).unwrap_or(M::NoSum)
}

fn carrier_of(shared: Set) -> Option<Carrier> {
    Some(Carrier {
        machine: only(shared, Function::Machine)?,
        is_sealed: only(shared, Function::Suite)? == M::Sealed,
        codec: only(shared, Function::Codec)?,
    })
}

/// All names, for messages and as the last thing to compare.
pub fn names(set: Set) -> String {
    let names: Vec<_> =
        Function::ALL.into_iter().flat_map(|f| set.of_function(f)).map(M::name).collect();
    names.join(" ")
}

/// What the path carries at its worst corner, and what has to be sent.
fn totals(of: &Specification, shared: Set, carrier: Carrier, ways: &[Way]) -> Totals {
    let network = &of.network;
    let fast = network.rate_mbit.value.high * 1e6;
    let rtt_s = network.rtt_ms.value.high / 1000.0;
    let mss_bits = carrier.payload(of) * 8.0;
    let loss = network.loss.value;
    let fair = fair_bits(of, carrier);
    let of_role = |role: usize| {
        let own = ways.iter().enumerate().filter(|(place, _)| of.adus[*place].from.value.is(role));
        own.map(|(_, way)| way.figures.least_bits).sum::<f64>()
    };
    let least_bits = of_role(0).max(of_role(1));
    let reported_bits = [0, 1].map(|role| {
        let told = told_bits(of, shared, carrier, ways, 1 - role, |way| way.least_packets);
        (of_role(role) + told, told)
    });
    let [first, second] = reported_bits;
    let reported_bits = if second.0 > first.0 { second } else { first };
    // Rates that controllers find where losses are not theirs (RFC 9438, section 5.1; RFC 5348, section 3.1).
    let root = loss.sqrt();
    let found = match of_function(shared, Function::Congestion) {
        _ if loss == 0.0 || rtt_s == 0.0 => fast,
        M::Bbr => fast * (1.0 - loss),
        M::NewReno => fair,
        M::Cubic => {
            let by_loss = root * root.sqrt();
            (1.054 * mss_bits / (by_loss * rtt_s.sqrt().sqrt())).max(fair)
        }
        _ => RATE_SHARE * fast,
    };
    let ring_bits = match carrier.machine {
        M::Tcp | M::Xtp if rtt_s > 0.0 => STREAM_RING_BYTES as f64 * 8.0 / rtt_s,
        _ => f64::INFINITY,
    };
    let timer_s = rtt_s.max(0.2);
    let promised = least_bits / 8.0 * (rtt_s + timer_s);
    let unbounded = ways.iter().any(|way| way.figures.most_bits.is_none());
    let rings = matches!(carrier.machine, M::Tcp | M::Xtp | M::Group)
        || ways.iter().any(|way| way.set.has_any(&[M::UntilDeadline, M::Selective]));
    let largest = ways.iter().map(|way| way.figures.bytes).fold(0.0, f64::max);
    let wished = if fast.is_finite() { fast / 8.0 * (rtt_s + timer_s) } else { RING_BYTES_MAX };
    let memory = of.platform.memory_kib.value.map_or(f64::INFINITY, |kib| kib * 1024.0);
    // Of a group that is what ends have, and the least of it is enough.
    let room = match carrier.machine {
        M::Group if memory.is_finite() => 0.0,
        _ => f64::INFINITY,
    };
    let ring_bytes = match (rings, unbounded) {
        (false, _) => 0.0,
        (true, false) => promised.max(2.0 * largest),
        (true, true) => promised.max(2.0 * largest).max(wished.min(RING_BYTES_MAX).min(room)),
    };
    let allowed_bits = allowed_bits(of, carrier);
    let found_bits = found.min(fast).min(ring_bits);
    let ms = ways.iter().map(|way| way.figures.time.all()).sum::<f64>();
    let ack_ms = f64::from(of_function(shared, Function::Acknowledge).entry().cost.ms);
    let calls = ways.iter().filter(|way| way.set.has_any(&[M::Selective, M::GoBackN])).count();
    Totals {
        least_bits,
        allowed_bits,
        reported_bits,
        found_bits,
        ring_bytes,
        memory_bytes: 0.0,
        ms: ms + ack_ms * calls as f64,
    }
}

/// Bits a second that tell a role what has come of all that it sends: acknowledgements of a stream, reports of datagrams. What
/// receivers of a group say is not counted.
fn told_bits(
    of: &Specification,
    shared: Set,
    carrier: Carrier,
    ways: &[Way],
    role: usize,
    packets: impl Fn(&Figures) -> f64,
) -> f64 {
    let own = || ways.iter().zip(&of.adus).filter(|(_, adu)| adu.from.value.is(role));
    let of_stream = |machine: M, packets: f64| match machine {
        M::Tcp | M::Xtp => {
            let ack = IP_BYTES + if machine == M::Tcp { TCP_BYTES } else { XTP_CONTROL_BYTES };
            // Each packet has one, or every other.
            let share = if shared.has(M::AckDelayed) { 0.5 } else { 1.0 };
            packets * share * ack
        }
        _ => 0.0,
    };
    let mut bytes = 0.0;
    let (mut of_datagrams, mut again) = (0.0, 0.0);
    for (way, _) in own() {
        let packets = packets(&way.figures);
        let machine = carrier.of_way(way.set).machine;
        bytes += of_stream(machine, packets);
        if machine == M::Datagram {
            of_datagrams += packets;
            again += if way.set.has(M::UntilDeadline) { packets } else { 0.0 };
        }
    }
    if of_datagrams > 0.0 {
        // One an interval while something comes, or when one is full, and one for each loss that is told early; each packet
        // is told of twice.
        let full = of_datagrams * 2.0 / REPORT_PACKETS_MAX;
        let early = again * of.network.loss.value;
        let reports = of_datagrams.min(REPORTS_A_SECOND.max(full)) + early;
        bytes += reports * (carrier.overhead() + REPORT_BYTES) + of_datagrams * 2.0 * METRIC_BYTES;
    }
    bytes * 8.0
}

/// Bits a second in words.
fn kbit(bits: f64) -> String {
    format!("{:.0} kbit/s", bits / 1000.0)
}

/// More must be sent at least than may be.
pub fn too_much(of: &Specification, least_bits: f64, allowed_bits: f64) -> Failure {
    let slow = of.network.rate_mbit.value.low * 1e6;
    let bound = if allowed_bits < RATE_SHARE * slow {
        format!(
            "{} are what a TCP would get at {} ms and {} lost",
            kbit(allowed_bits),
            of.network.rtt_ms.value.high,
            percent(of.network.loss.value)
        )
    } else {
        format!("{} are nine tenths of the slowest rate", kbit(allowed_bits))
    };
    let clauses = of.adus.iter().flat_map(|adu| {
        [&adu.rate_hz.clause, &adu.bitrate_kbit.clause]
            .into_iter()
            .filter(|clause| clause.origin == Origin::Written)
            .map(|clause| clause.name.clone())
    });
    let network = ["rate_mbit", "rtt_ms", "loss", "control"].map(|key| format!("network.{key}"));
    let least = kbit(least_bits);
    let why = format!("{least} at least must be sent, with headers and correction; {bound}");
    let failure = Failure::new(why, clauses.chain(network).collect());
    failure.by(least_bits, allowed_bits)
}

fn feasible(of: &Specification, totals: &Totals) -> Result<(), Failure> {
    if totals.least_bits > totals.allowed_bits {
        return Err(too_much(of, totals.least_bits, totals.allowed_bits));
    }
    let slow = RATE_SHARE * of.network.rate_mbit.value.low * 1e6;
    let (all, told) = totals.reported_bits;
    if all > slow {
        let why = format!(
            "{} at least must be sent, with headers and correction, of which {} tell what has come; {} are nine tenths of the slowest rate",
            kbit(all),
            kbit(told),
            kbit(slow)
        );
        let rates = of.adus.iter().flat_map(|adu| {
            ["rate_hz", "bitrate_kbit"].map(|key| format!("adu.{}.{key}", adu.name))
        });
        let clauses = rates.chain(["network.rate_mbit".to_owned(), "network.loss".to_owned()]);
        return Err(Failure::new(why, clauses.collect()).by(all, slow));
    }
    let floor = of.peers.floor_kbit.value * 1000.0;
    if floor > totals.allowed_bits {
        let (least, most) = (kbit(floor), kbit(totals.allowed_bits));
        let why = format!("the group never falls below {least}, and {most} are allowed");
        let clauses = ["peers.floor_kbit", "network.rate_mbit", "network.rtt_ms", "network.loss"];
        let failure = Failure::new(why, clauses.map(String::from).to_vec());
        return Err(failure.by(floor, totals.allowed_bits));
    }
    if let Some(kib) = of.platform.memory_kib.value
        && totals.memory_bytes > kib * 1024.0
    {
        let needed = (totals.memory_bytes / 1024.0).ceil();
        let why =
            format!("an end has buffers of {needed} KiB for an association, and there are {kib}");
        let mut clauses = vec!["platform.memory_kib".to_owned()];
        clauses.extend(["rtt_ms", "rate_mbit", "mtu_bytes"].map(|key| format!("network.{key}")));
        let own = ["size_bytes", "rate_hz", "deadline_ms", "loss", "jitter_ms", "reliability"];
        clauses.extend(
            of.adus.iter().flat_map(|adu| own.map(|key| format!("adu.{}.{key}", adu.name))),
        );
        return Err(Failure::new(why, clauses).by(needed, kib));
    }
    Ok(())
}

/// A rate that is fixed must be had at the worst corner, and harm nobody there.
fn check_bucket(
    of: &Specification,
    shared: Set,
    carrier: Carrier,
    ways: &[Way],
) -> Result<(), Failure> {
    if of_function(shared, Function::Congestion) != M::Bucket || carrier.machine == M::Group {
        return Ok(());
    }
    // What goes beside datagrams has a controller of its own.
    let held = |role: usize| {
        let own = of.adus.iter().zip(ways).filter(move |(adu, _)| adu.from.value.is(role));
        let own = own.filter(|(_, way)| !carrier.is_beside(way.set));
        own.map(|(_, way)| way.figures.most_bits.unwrap_or(f64::INFINITY)).sum::<f64>()
    };
    let most = held(0).max(held(1));
    let allowed = totals(of, shared, carrier, ways).allowed_bits;
    if most <= allowed {
        return check_reports(of, shared, carrier, ways);
    }
    let why = format!(
        "up to {:.0} kbit/s are sent at rates that nothing holds back, and {:.0} are allowed at the worst corner",
        most / 1000.0,
        allowed / 1000.0
    );
    let clauses = ["rate_mbit", "rtt_ms", "loss", "control"].map(|key| format!("network.{key}"));
    Err(Failure::new(why, clauses.to_vec()).by(most, allowed))
}

/// Next to a type that adapts, the others do not: all that they make at most is sent at the worst corner, with the least of that one.
fn check_adapting(
    of: &Specification,
    shared: Set,
    ways: &[Way],
    totals: &Totals,
) -> Result<(), Failure> {
    if of_function(shared, Function::Congestion) != M::Media {
        return Ok(());
    }
    for role in [0, 1] {
        let own = || of.adus.iter().zip(ways).filter(move |(adu, _)| adu.from.value.is(role));
        let in_datagrams = || own().filter(|(_, way)| !way.set.has(M::Selective));
        if in_datagrams().all(|(adu, _)| adu.adapt.value.is_empty()) {
            continue;
        }
        let bits = |(adu, way): (&Adu, &Way)| way.figures.unyielding_bits(adu).unwrap_or(0.0);
        let all: f64 = in_datagrams().map(bits).sum();
        if all <= totals.allowed_bits {
            continue;
        }
        let fixed = in_datagrams().filter(|(adu, _)| adu.adapt.value.is_empty());
        let fixed: f64 = fixed.map(bits).sum();
        let why = format!(
            "types that do not adapt make up to {}, and {} with the least of what adapts; {} are allowed at the worst corner",
            kbit(fixed),
            kbit(all),
            kbit(totals.allowed_bits)
        );
        let rates = in_datagrams().flat_map(|(adu, _)| {
            ["rate_hz", "bitrate_kbit"].map(|key| format!("adu.{}.{key}", adu.name))
        });
        let network = ["rate_mbit", "rtt_ms", "loss", "control"];
        let clauses = rates.chain(network.map(|key| format!("network.{key}"))).collect();
        return Err(Failure::new(why, clauses).by(all, totals.allowed_bits));
    }
    Ok(())
}

/// What is sent at a rate that is fixed has room beside what tells of the other end's.
fn check_reports(
    of: &Specification,
    shared: Set,
    carrier: Carrier,
    ways: &[Way],
) -> Result<(), Failure> {
    let slow = RATE_SHARE * of.network.rate_mbit.value.low * 1e6;
    for role in [0, 1] {
        let is_held = |(_, way): &(&Adu, &Way)| !carrier.is_beside(way.set);
        let own = of.adus.iter().zip(ways).filter(|(adu, _)| adu.from.value.is(role));
        let own = own.filter(is_held).map(|(_, way)| way.figures.most_bits.unwrap_or(0.0));
        let made: f64 = own.sum();
        let told = told_bits(of, shared, carrier, ways, 1 - role, |of| {
            of.most_packets.unwrap_or(of.least_packets)
        });
        if made + told > slow {
            let why = format!(
                "up to {:.0} kbit/s are sent at rates that nothing holds back, with {:.0} that tell what has come, and {:.0} are nine tenths of the slowest rate",
                (made + told) / 1000.0,
                told / 1000.0,
                slow / 1000.0
            );
            let failure = Failure::new(why, vec!["network.rate_mbit".to_owned()]);
            return Err(failure.by(made + told, slow));
        }
    }
    Ok(())
}

/// What a choice goes by, `prefer` first and then what profiles suggest.
pub fn preferred(of: &Specification) -> Vec<Prefer> {
    let mut all = of.prefer.value.clone();
    for by_profile in of.adus.iter().filter_map(|adu| profiled(adu.profile.value)) {
        if !all.contains(&by_profile) {
            all.push(by_profile);
        }
    }
    all
}

/// What a profile suggests.
pub fn profiled(profile: Profile) -> Option<Prefer> {
    match profile {
        Profile::LowLatencyInteractive | Profile::LowLatencyNonInteractive => Some(Prefer::Latency),
        Profile::CapacitySeeking => Some(Prefer::Throughput),
        Profile::Default | Profile::Scavenger | Profile::ConstantRateStreaming => None,
    }
}

/// Times that differ by less than their digits say are the same: a few bytes more are no reason for more work.
fn latency(ms: f64) -> f64 {
    rounded(ms, true)
}

/// Preferences that these mechanisms go against.
pub fn broken<'s>(of: &'s Specification, shared: Set, ways: &[Way]) -> Vec<&'s Clause> {
    let is_sealed = shared.has(M::Sealed);
    let of_adu = of.adus.iter().zip(ways).flat_map(|(adu, way)| {
        let resends = !way.set.has(M::NoResend);
        [(&adu.reliability, resends), (&adu.confidential, is_sealed), (&adu.authentic, is_sealed)]
    });
    let broken = of_adu.filter(|(clause, is_there)| is_against(clause.value, *is_there));
    broken.map(|(clause, _)| &clause.clause).collect()
}

fn score(of: &Specification, shared: Set, ways: &[Way], totals: &Totals) -> Score {
    let broken = broken(of, shared, ways);
    let written = broken.iter().filter(|clause| clause.origin == Origin::Written).count() as u32;
    let by_default = broken.len() as u32 - written;
    let all = || ways.iter().map(|way| way.set).chain([shared]);
    let chosen =
        all().flat_map(|set| Function::ALL.into_iter().flat_map(move |f| set.of_function(f)));
    let mut chosen: Vec<M> = chosen.collect();
    if shared.has(M::Datagram) && ways.iter().any(|way| way.set.has(M::Selective)) {
        chosen.extend(BESIDE);
    }
    let sum = |cost: fn(&M) -> u32| chosen.iter().map(cost).sum::<u32>();
    let load: f64 = ways.iter().map(|way| way.figures.load).sum::<f64>() / ways.len().max(1) as f64;
    let work = f64::from(sum(|m| m.entry().cost.cpu)) * load.max(1.0);
    let preferred = preferred(of).into_iter().map(|prefer| match prefer {
        Prefer::Latency => latency(totals.ms),
        Prefer::Throughput => -totals.found_bits,
        Prefer::Cpu => work,
        Prefer::Memory => totals.memory_bytes + f64::from(sum(|m| m.entry().cost.memory)),
        Prefer::Code => f64::from(sum(|m| m.entry().cost.code)),
    });
    let mechanisms = chosen.iter().filter(|m| m.entry().cost.code > 0).count() as u32;
    let name = all().map(names).collect::<Vec<_>>().join(" ");
    Score {
        broken: written,
        broken_default: by_default,
        is_bare: shared.has(M::Plain),
        is_without_code: false,
        preferred: preferred.collect(),
        work,
        mechanisms,
        name,
    }
}

fn way_score(subject: &Subject<'_>, way: &Way) -> Score {
    let Subject { of, place, carrier, .. } = *subject;
    let adu = &of.adus[place];
    // Ends over streams send again what is missing.
    let is_stream = matches!(carrier.machine, M::Tcp | M::Xtp);
    let resends = !way.set.has(M::NoResend);
    let is_broken = is_against(adu.reliability.value, resends);
    let is_written = adu.reliability.clause.origin == Origin::Written;
    let chosen: Vec<M> = Function::ALL.into_iter().flat_map(|f| way.set.of_function(f)).collect();
    let sum = |cost: fn(&M) -> u32| chosen.iter().map(cost).sum::<u32>();
    let cpu = f64::from(sum(|m| m.entry().cost.cpu));
    let preferred = preferred(of).into_iter().map(|prefer| match prefer {
        Prefer::Latency => latency(way.figures.time.all()),
        Prefer::Throughput => way.figures.load,
        Prefer::Cpu => cpu,
        Prefer::Memory => f64::from(sum(|m| m.entry().cost.memory)),
        Prefer::Code => f64::from(sum(|m| m.entry().cost.code)),
    });
    Score {
        broken: u32::from(is_broken && is_written),
        broken_default: u32::from(is_broken && !is_written),
        is_bare: false,
        is_without_code: is_stream && !way.set.has(M::Selective),
        preferred: preferred.collect(),
        // What is sent costs everybody more than what is computed.
        work: way.figures.load * 100.0 + cpu,
        mechanisms: chosen.iter().filter(|m| m.entry().cost.code > 0).count() as u32,
        name: names(way.set),
    }
}

fn is_against(preference: Preference, is_there: bool) -> bool {
    match preference {
        Preference::Prefer => !is_there,
        Preference::Avoid => is_there,
        _ => false,
    }
}

fn nothing_left(
    of: &Specification,
    candidates: &Candidates,
    function: Function,
    place: Option<usize>,
) -> Failure {
    let mut clauses = Vec::new();
    let mut parts = Vec::new();
    for one in function.choices() {
        if let Some(removal) = candidates.removal(one, place) {
            parts.push(format!("{}: {}", one.name(), removal.why));
            clauses.extend(removal.clauses.iter().cloned());
        }
    }
    clauses.sort();
    clauses.dedup();
    let whose = place.map_or(String::new(), |place| format!(" for {}", of.adus[place].name));
    let why = format!("no {}{whose} is left ({})", function.name(), parts.join("; "));
    Failure::new(why, clauses)
}

fn nothing_fits(candidates: &Candidates) -> Failure {
    let mut clauses: Vec<_> =
        candidates.removals.iter().flat_map(|r| r.clauses.iter().cloned()).collect();
    clauses.sort();
    clauses.dedup();
    let left = Function::ALL.into_iter().filter(|f| !f.is_of_adu()).map(|f| {
        let names: Vec<_> = candidates.shared.of_function(f).into_iter().map(M::name).collect();
        format!("{} {}", f.name(), names.join(" or "))
    });
    let left = left.collect::<Vec<_>>().join(", ");
    Failure::new(format!("what is left does not go together: {left}"), clauses)
}
