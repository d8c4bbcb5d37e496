//! What clauses forbid and what mechanisms need, to the end: which candidates are left, and why the others are not.

use std::collections::BTreeSet;

use super::adu::mechanism_of;
use crate::catalogue::{CATALOGUE, Function, Mechanism, Mechanism as M, Set};
use crate::language::specification::{
    Adu, CODECS, Foreign, Integrity, Preference, Shape, Specification,
};
use crate::plan::{Device, Late, Order};

/// Why a mechanism is no candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Which.
    pub mechanism: Mechanism,
    /// For which type of ADU, by its place; nothing of what all share.
    pub adu: Option<usize>,
    /// The rule, in words.
    pub why: String,
    /// The clauses that it comes of, by name.
    pub clauses: Vec<String>,
}

/// What is left to choose from.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Of what all types share.
    pub shared: Set,
    /// Of each type of ADU.
    pub adus: Vec<Set>,
    /// What is not, in the order in which it was found.
    pub removals: Vec<Removal>,
}

impl Candidates {
    /// What clauses and the catalogue leave.
    pub fn of(specification: &Specification) -> Candidates {
        let all = |is_of_adu: bool| {
            let of = CATALOGUE.iter().filter(|e| e.function.is_of_adu() == is_of_adu);
            Set::of(of.map(|e| e.mechanism))
        };
        let adus = vec![all(true); specification.adus.len()];
        let mut candidates = Candidates { shared: all(false), adus, removals: Vec::new() };
        candidates.shared_clauses(specification);
        for (place, adu) in specification.adus.iter().enumerate() {
            candidates.adu_clauses(place, adu, specification);
        }
        candidates.settle();
        candidates
    }

    /// The same with only one candidate for its function.
    pub fn with_only(&self, one: Mechanism, adu: Option<usize>) -> Candidates {
        let mut candidates = self.clone();
        for other in one.entry().function.choices().filter(|other| *other != one) {
            candidates.remove(other, adu, format!("{} is looked at", one.name()), &[]);
        }
        candidates.settle();
        candidates
    }

    /// The first function without a candidate, and of which type of ADU.
    pub fn missing(&self) -> Option<(Function, Option<usize>)> {
        let is_empty = |set: Set, f: Function| !f.choices().any(|one| set.has(one));
        Function::ALL.into_iter().find_map(|f| match f.is_of_adu() {
            false => is_empty(self.shared, f).then_some((f, None)),
            true => {
                let place = self.adus.iter().position(|set| is_empty(*set, f))?;
                Some((f, Some(place)))
            }
        })
    }

    /// Why a mechanism is none of them.
    pub fn removal(&self, mechanism: Mechanism, adu: Option<usize>) -> Option<&Removal> {
        self.removals.iter().find(|r| r.mechanism == mechanism && r.adu == adu)
    }

    fn set(&mut self, adu: Option<usize>) -> &mut Set {
        match adu {
            Some(place) => &mut self.adus[place],
            None => &mut self.shared,
        }
    }

    fn remove(&mut self, mechanism: Mechanism, adu: Option<usize>, why: String, clauses: &[&str]) {
        let set = self.set(adu);
        if set.has(mechanism) {
            set.remove(mechanism);
            let clauses = clauses.iter().map(|c| (*c).to_owned()).collect();
            self.removals.push(Removal { mechanism, adu, why, clauses });
        }
    }

    fn remove_all(&mut self, which: &[Mechanism], adu: Option<usize>, why: &str, clauses: &[&str]) {
        which.iter().for_each(|one| self.remove(*one, adu, why.to_owned(), clauses));
    }

    /// Leaves only one of its function.
    fn only(&mut self, one: Mechanism, adu: Option<usize>, why: &str, clauses: &[&str]) {
        for other in one.entry().function.choices().filter(|other| *other != one) {
            self.remove(other, adu, why.to_owned(), clauses);
        }
    }

    fn shared_clauses(&mut self, of: &Specification) {
        let device = match of.platform.device.value {
            Device::Udp => M::Udp,
            Device::KernelTcp => M::KernelTcp,
            Device::Shm => M::Shm,
            Device::Tap => M::Tap,
            Device::Packet => M::Packet,
            Device::Xdp => M::Xdp,
        };
        self.only(device, None, "another device is asked for", &["platform.device"]);
        match of.peers.shape.value {
            Shape::Group => self.only(M::Group, None, "the peers are a group", &["peers.shape"]),
            Shape::Pair => {
                let why = "the peers are a pair";
                self.remove_all(&[M::Group], None, why, &["peers.shape"]);
            }
        }
        if of.adus.iter().all(|adu| adu.reliability.value == Preference::Require) {
            let by: Vec<_> =
                of.adus.iter().map(|adu| adu.reliability.clause.name.as_str()).collect();
            let why = "all of it must arrive, and a stream alone carries that";
            self.remove(M::Datagram, None, why.to_owned(), &by);
        }
        let foreign = match of.peers.foreign.value {
            Foreign::None => None,
            Foreign::Xdr => Some(M::Xdr),
            Foreign::Oer => Some(M::Oer),
            Foreign::Ber => Some(M::Ber),
            Foreign::Der => Some(M::Der),
        };
        let by = &["peers.foreign"];
        match foreign {
            Some(codec) => {
                self.only(codec, None, "peers that are not ours speak another syntax", by);
                let ours = [M::Xtp, M::Group, M::First, M::Transaction, M::Sealed, M::Reports];
                self.remove_all(&ours, None, "only peers of ours speak it", by);
            }
            // Nobody asks for bytes that more work makes, and both ends know the types.
            None => {
                let why = "both ends are ours, and what it writes beside values tells them nothing";
                self.remove_all(&[M::Ber, M::Der], None, why, by);
            }
        }
        let calls: Vec<_> = of.adus.iter().filter(|adu| adu.reply.value.is_some()).collect();
        let is_ours = foreign.is_none();
        match calls.first() {
            Some(adu) if is_ours => {
                let by = [adu.reply.clause.name.as_str()];
                self.only(M::Transaction, None, "a request and its answer are one exchange", &by);
            }
            Some(_) => {}
            None => self.remove_all(&[M::Transaction], None, "nothing is answered", &[]),
        }
    }

    fn adu_clauses(&mut self, place: usize, adu: &Adu, of: &Specification) {
        let at = Some(place);
        self.recovery(at, adu);
        let order = match adu.order.value {
            Order::All => M::OrderAll,
            Order::Type => M::OrderType,
            Order::None => M::OrderNone,
            Order::Newest => M::Newest,
        };
        self.only(order, at, "another order is asked for", &[&adu.order.clause.name]);
        let deadline = [adu.deadline_ms.clause.name.as_str(), &adu.late.clause.name];
        if adu.deadline_ms.value.is_some() && adu.late.value == Late::Drop {
            let why = format!(
                "{} is dropped when it is late, and what is sealed into a stream cannot be",
                adu.name
            );
            self.remove(M::Tcp, None, why, &deadline);
        }
        match adu.jitter_ms.value {
            None => {
                let by = [adu.jitter_ms.clause.name.as_str()];
                self.remove_all(&[M::Fixed, M::Adaptive], at, "nobody asks for even arrivals", &by);
            }
            Some(most) if most < of.network.jitter_ms.value => {
                let by = [adu.jitter_ms.clause.name.as_str(), "network.jitter_ms"];
                let why = format!(
                    "arrivals vary by {} ms, and may by {most} ms",
                    of.network.jitter_ms.value
                );
                self.remove(M::NoPlayout, at, why, &by);
            }
            Some(_) => {}
        }
        self.rates(adu, of);
        self.protection(adu);
        self.sizes(adu);
    }

    /// Codecs in which no value is as long as it is to be.
    fn sizes(&mut self, adu: &Adu) {
        let Some(size) = adu.size_bytes.value.filter(|size| size.high > 0.0) else { return };
        for ((codec, _), extent) in CODECS.into_iter().zip(adu.extents) {
            let why = match extent.high {
                _ if size.high < extent.low as f64 => format!("at least {}", extent.low),
                Some(high) if size.low > high as f64 => format!("at most {high}"),
                _ => continue,
            };
            let why = format!("a value of {} takes {why} bytes", adu.name);
            self.remove(mechanism_of(codec), None, why, &[&adu.size_bytes.clause.name]);
        }
    }

    fn recovery(&mut self, at: Option<usize>, adu: &Adu) {
        let by = [adu.reliability.clause.name.as_str()];
        match adu.reliability.value {
            Preference::Require => {
                let why = "what must arrive is sent again until it does";
                self.remove_all(&[M::NoResend, M::UntilDeadline], at, why, &by);
            }
            Preference::Prohibit => {
                let why = "nothing may be sent again";
                self.remove_all(&[M::Selective, M::GoBackN, M::UntilDeadline], at, why, &by);
            }
            _ => {}
        }
        match (adu.deadline_ms.value, adu.late.value) {
            (None, _) => {
                let by = [adu.deadline_ms.clause.name.as_str()];
                self.remove(M::UntilDeadline, at, "there is no deadline".to_owned(), &by);
            }
            // Of a request who asks is told when its time is over: what is under way goes on, and nobody waits for it.
            (Some(_), Late::Drop)
                if adu.reliability.value != Preference::Require && adu.reply.value.is_none() =>
            {
                let by = [adu.deadline_ms.clause.name.as_str(), &adu.late.clause.name];
                let why = "what is late is dropped, and this sends on";
                self.remove_all(&[M::Selective, M::GoBackN], at, why, &by);
            }
            _ => {}
        }
        if adu.rate_hz.value.is_none_or(|rate| !rate.high.is_finite()) {
            let by = [adu.rate_hz.clause.name.as_str()];
            let why = "nobody says how many are to be kept until they are known to have come";
            self.remove(M::UntilDeadline, at, why.to_owned(), &by);
        }
        if adu.order.value == Order::Newest {
            let by = [adu.order.clause.name.as_str()];
            let why = "what is older than the newest is dropped, and this sends it again";
            self.remove_all(&[M::Selective, M::GoBackN], at, why, &by);
        }
        if adu.rate_hz.value.is_none_or(|rate| rate.low <= 0.0) {
            let by = [adu.rate_hz.clause.name.as_str()];
            let why = "nobody says when the next one comes that could carry the copy";
            self.remove(M::Copy, at, why.to_owned(), &by);
        }
    }

    fn rates(&mut self, adu: &Adu, of: &Specification) {
        let adapt = [adu.adapt.clause.name.as_str()];
        if !adu.adapt.value.is_empty() {
            self.only(M::Media, None, "an application that adapts wants a target", &adapt);
        } else if of.adus.iter().all(|adu| adu.adapt.value.is_empty()) {
            self.remove(M::Media, None, "nobody adapts to its target".to_owned(), &adapt);
        }
        let is_bounded = adu.rate_hz.value.is_some() || adu.bitrate_kbit.value.is_some();
        // What is sent again goes beside datagrams.
        let is_resent = matches!(adu.reliability.value, Preference::Require | Preference::Prefer);
        if !is_bounded && !is_resent && of.peers.shape.value == Shape::Pair {
            let by = [adu.rate_hz.clause.name.as_str(), &adu.bitrate_kbit.clause.name];
            let why = format!("nobody says how much of {} there is", adu.name);
            self.remove(M::Bucket, None, why, &by);
        }
        if adu.profile.value == crate::plan::Profile::LowLatencyInteractive {
            let why = format!("somebody waits for {}", adu.name);
            self.remove(M::AckDelayed, None, why, &[&adu.profile.clause.name]);
        }
    }

    fn protection(&mut self, adu: &Adu) {
        let wants = [&adu.confidential, &adu.authentic];
        for clause in wants.into_iter().filter(|c| c.value == Preference::Require) {
            let by = [clause.clause.name.as_str()];
            self.remove(M::Plain, None, format!("{} is protected", adu.name), &by);
        }
        for clause in wants.into_iter().filter(|c| c.value == Preference::Prohibit) {
            let by = [clause.clause.name.as_str()];
            self.remove(M::Sealed, None, format!("{} may not be sealed", adu.name), &by);
        }
        if adu.authentic.value == Preference::Require {
            let by = [adu.authentic.clause.name.as_str()];
            let why = "every member has the group's key and can forge: only signatures would tell, and there are none yet";
            self.remove(M::Group, None, why.to_owned(), &by);
        }
        let by = [adu.integrity.clause.name.as_str()];
        match adu.integrity.value {
            Integrity::Full => {
                let why = format!("all of {} is summed, beside its tag", adu.name);
                self.remove(M::NoSum, None, why, &by);
            }
            Integrity::Bytes => {
                let why = format!("{} is summed in part, and a tag covers all", adu.name);
                self.remove(M::NoSum, None, why.clone(), &by);
                self.remove(M::Sealed, None, why, &by);
            }
            Integrity::Tag | Integrity::None => {}
        }
    }

    /// What the catalogue says, until nothing changes.
    fn settle(&mut self) {
        loop {
            let before = self.removals.len();
            for entry in &CATALOGUE {
                let scopes: Vec<Option<usize>> = match entry.function.is_of_adu() {
                    false => vec![None],
                    true => (0..self.adus.len()).map(Some).collect(),
                };
                for scope in scopes {
                    if self.set(scope).has(entry.mechanism) {
                        self.settle_one(entry.mechanism, scope);
                    }
                }
            }
            if self.removals.len() == before {
                return;
            }
        }
    }

    fn settle_one(&mut self, one: Mechanism, scope: Option<usize>) {
        for need in one.entry().needs {
            let Some(first) = need.first() else { continue };
            for place in self.places(first.entry().function, scope) {
                if !self.set(place).has_any(need) {
                    let why = format!("{} needs {}", one.name(), any_of(need));
                    let clauses = self.because(need, place);
                    return self.push(one, scope, why, clauses);
                }
            }
        }
        for other in one.entry().excludes {
            let function = other.entry().function;
            for place in self.places(function, scope) {
                let left = self.set(place).of_function(function);
                if left == [*other] {
                    let why =
                        format!("{} excludes {} {}", one.name(), function.name(), other.name());
                    let gone: Vec<_> = function.choices().filter(|m| m != other).collect();
                    let clauses = self.because(&gone, place);
                    return self.push(one, scope, why, clauses);
                }
            }
        }
        // One that excludes this, and is the only one left.
        for entry in CATALOGUE.iter().filter(|entry| entry.excludes.contains(&one)) {
            for place in self.places(entry.function, scope) {
                let left = self.set(place).of_function(entry.function);
                if left == [entry.mechanism] {
                    let why = format!("{} excludes it", entry.name);
                    let gone: Vec<_> =
                        entry.function.choices().filter(|m| *m != entry.mechanism).collect();
                    let clauses = self.because(&gone, place);
                    return self.push(one, scope, why, clauses);
                }
            }
        }
    }

    fn push(
        &mut self,
        one: Mechanism,
        scope: Option<usize>,
        why: String,
        clauses: BTreeSet<String>,
    ) {
        let clauses: Vec<_> = clauses.iter().map(String::as_str).collect();
        self.remove(one, scope, why, &clauses);
    }

    /// Where a function is looked for from a scope: of a type of ADU at itself, of what all share at every type.
    fn places(&self, function: Function, scope: Option<usize>) -> Vec<Option<usize>> {
        match (function.is_of_adu(), scope) {
            (false, _) => vec![None],
            (true, Some(place)) => vec![Some(place)],
            (true, None) => (0..self.adus.len()).map(Some).collect(),
        }
    }

    /// The clauses by which these are gone.
    fn because(&self, gone: &[Mechanism], adu: Option<usize>) -> BTreeSet<String> {
        let removals = gone.iter().filter_map(|one| self.removal(*one, adu));
        removals.flat_map(|removal| removal.clauses.iter().cloned()).collect()
    }
}

/// `resending selective or go-back-n`.
pub fn any_of(need: &[Mechanism]) -> String {
    let function = need.first().map_or("", |one| one.entry().function.name());
    let names: Vec<_> = need.iter().map(|one| one.name()).collect();
    format!("{function} {}", names.join(" or "))
}

/// Whether mechanisms go together: those of all, and of each type of ADU.
pub fn fits(shared: Set, adus: &[Set]) -> bool {
    let holds = |one: Mechanism, own: Option<&Set>| {
        let met = |of: &[Mechanism]| {
            let Some(first) = of.first() else { return true };
            match (first.entry().function.is_of_adu(), own) {
                (false, _) => shared.has_any(of),
                (true, Some(own)) => own.has_any(of),
                (true, None) => adus.iter().all(|set| set.has_any(of)),
            }
        };
        let clashes = |other: &Mechanism| match (other.entry().function.is_of_adu(), own) {
            (false, _) => shared.has(*other),
            (true, Some(own)) => own.has(*other),
            (true, None) => adus.iter().any(|set| set.has(*other)),
        };
        one.entry().needs.iter().all(|need| met(need)) && !one.entry().excludes.iter().any(clashes)
    };
    CATALOGUE.iter().all(|entry| match entry.function.is_of_adu() {
        false => !shared.has(entry.mechanism) || holds(entry.mechanism, None),
        true => {
            adus.iter().all(|set| !set.has(entry.mechanism) || holds(entry.mechanism, Some(set)))
        }
    })
}
