//! What a type waits for at its own end: one packet of each other type over a stream; of datagrams what goes before it, however much
//! comes meanwhile.

use std::cmp::Ordering;

use super::waiting::{Before, Demand, Own, response_ms};
use super::{Failure, Figures, Subject};
use crate::language::specification::{Adu, Preference};

impl Subject<'_> {
    /// Milliseconds that bytes take at the slowest rate: bits by kilobits a second.
    pub(super) fn leave(&self, bytes: f64) -> f64 {
        let rate = self.of.network.rate_mbit.value.low * 1000.0;
        if rate.is_finite() { bytes * 8.0 / rate } else { 0.0 }
    }

    /// The longest packet of a type.
    fn packet(&self, adu: &Adu) -> f64 {
        let bytes = self.carrier.size(adu).high + self.carrier.overhead();
        self.leave(bytes.min(self.of.network.mtu_bytes.value))
    }

    /// Other types that a role sends.
    fn others(&self, role: usize) -> impl Iterator<Item = (Subject<'_>, &Adu)> {
        let others = self.of.adus.iter().enumerate();
        let others = others.filter(move |(at, adu)| *at != self.place && adu.from.value.is(role));
        others.map(|(place, adu)| (Subject { place, ..*self }, adu))
    }

    /// Milliseconds behind one packet of each other type that the same end sends.
    pub(super) fn queue(&self) -> f64 {
        let from = self.adu().from.value;
        let both = [0, 1].map(|role| if from.is(role) { Some(self.others(role)) } else { None });
        let mut others: Vec<_> = both.into_iter().flatten().flatten().collect();
        others.sort_by_key(|(of, _)| of.place);
        others.dedup_by_key(|(of, _)| of.place);
        others.iter().map(|(_, adu)| self.packet(adu)).sum()
    }

    /// Milliseconds behind what else the same end sends in datagrams, infinite where nobody can say, and those of its own bytes:
    /// with parity they take `left` in so many packets.
    pub(super) fn among_datagrams(
        &self,
        bytes: f64,
        hz: f64,
        (left, packets): (f64, f64),
    ) -> (f64, f64) {
        let of_role = |role| {
            let own = self.demand(role, left, hz);
            let mut blocked = 0.0;
            let mut others = Vec::new();
            for (other, adu) in self.others(role) {
                // What has begun to leave is not taken back, whatever its priority.
                let packet_ms = self.packet(adu);
                let goes_beside = adu.reliability.value == Preference::Require;
                let importance = adu.priority.value.total_cmp(&self.adu().priority.value);
                match importance {
                    _ if goes_beside => blocked += packet_ms,
                    Ordering::Greater => blocked += packet_ms,
                    Ordering::Equal => {
                        others.push((other.made(role), Before::InTurn { packet_ms }));
                    }
                    Ordering::Less => others.push((other.made(role), Before::All)),
                }
            }
            let pieces = f64::from(self.packets(bytes));
            let last = bytes - (pieces - 1.0) * self.carrier.payload(self.of);
            let last_ms = match packets > 1.0 && pieces > 1.0 {
                true => self.leave(last.max(1.0) + self.carrier.overhead()),
                false => own.ms,
            };
            let own = Own { demand: own, packets, last_ms: last_ms.min(own.ms) };
            let all = response_ms(blocked, &own, &others).unwrap_or(f64::INFINITY);
            (all - own.demand.ms, own.demand.ms)
        };
        let roles = [0, 1].into_iter().filter(|role| self.adu().from.value.is(*role));
        let longer = |a: (f64, f64), b: (f64, f64)| if b.0 + b.1 > a.0 + a.1 { b } else { a };
        roles.map(of_role).fold((0.0, 0.0), longer)
    }

    /// What an ADU of this type takes that leaves in so long, and how far from the next one.
    fn demand(&self, role: usize, left: f64, hz: f64) -> Demand {
        let hz_most = self.hz_most(hz);
        if self.adu().adapt.value.is_empty() || hz <= 0.0 {
            let is_known = hz_most > 0.0 && hz_most.is_finite();
            let period_ms = if is_known { 1000.0 / hz_most } else { f64::INFINITY };
            return Demand { ms: left, period_ms };
        }
        // Who adapts makes no more than what the others leave of the path's target, so one has left when the next is made.
        let fixed = self.others(role).filter(|(_, adu)| {
            adu.adapt.value.is_empty() && adu.reliability.value != Preference::Require
        });
        let fixed: f64 = fixed.map(|(other, _)| other.made(role).share()).sum();
        let loads = self.loads().into_iter();
        let least = loads.map(|(bytes, hz)| hz * self.leave(self.sent_bytes(bytes, &[])) / 1000.0);
        let share = least.fold(f64::INFINITY, f64::min).max(1.0 - fixed);
        Demand { ms: left.min(share * 1000.0 / hz), period_ms: f64::INFINITY }
    }

    /// What is made of this type, without correction, at most.
    fn made(&self, role: usize) -> Demand {
        let mut figures = Figures::default();
        self.rates(&mut figures, &[], 1.0);
        let whole = |(bytes, hz): &(f64, f64)| {
            self.demand(role, self.leave(self.sent_bytes(*bytes, &[])), *hz)
        };
        let loads = self.loads();
        let ms = loads.iter().map(|load| whole(load).ms).fold(0.0, f64::max);
        if !self.adu().adapt.value.is_empty() && loads.iter().all(|(_, hz)| *hz > 0.0) {
            let share =
                loads.iter().map(|load| whole(load).ms * load.1 / 1000.0).fold(0.0, f64::max);
            let period_ms = if share > 0.0 { ms / share } else { f64::INFINITY };
            return Demand { ms, period_ms };
        }
        let share = figures.most_bits.map(|bits| self.leave(bits / 8.0) / 1000.0);
        let period_ms = match share {
            None => 0.0,
            Some(share) if share > 0.0 => ms / share,
            Some(_) => f64::INFINITY,
        };
        Demand { ms, period_ms }
    }

    /// Why there is no time in which it has left.
    pub(super) fn without_end(&self) -> Failure {
        let (adu, mut clauses) =
            (self.adu(), self.clauses(&["deadline_ms", "priority"], &["rate_mbit"]));
        let before = |other: &&Adu| {
            let is_of = |role| adu.from.value.is(role) && other.from.value.is(role);
            other.name != adu.name
                && (is_of(0) || is_of(1))
                && other.reliability.value != Preference::Require
                && other.priority.value <= adu.priority.value
        };
        let others: Vec<&Adu> = self.of.adus.iter().filter(before).collect();
        let own = ["rate_hz", "bitrate_kbit", "size_bytes"];
        for other in &others {
            clauses.extend(own.map(|key| format!("adu.{}.{key}", other.name)));
        }
        clauses.extend(self.clauses(&own, &[]));
        let names: Vec<_> = others.iter().map(|other| other.name.as_str()).collect();
        let why = match names.is_empty() {
            true => "it may wait without end: as much is made of it as leaves at the slowest rate"
                .to_owned(),
            false => format!(
                "it may wait without end: {} goes before it or in turn, and as much may be made of both as leaves at the slowest rate",
                names.join(", ")
            ),
        };
        Failure::new(why, clauses)
    }
}
