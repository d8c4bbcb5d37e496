//! What a type waits for at its own end: one packet of each other type over a stream; of datagrams what goes before it, however much
//! comes meanwhile.

use std::cell::RefCell;
use std::cmp::Ordering;

use super::waiting::{Before, Demand, Own, response_ms};
use super::{Carrier, Failure, Figures, Subject, Time};
use crate::catalogue::Mechanism as M;
use crate::choice::rank::too_much;
use crate::language::specification::{Adu, Control, Preference, Specification};
use crate::plan::FecStep;
use crate::rust::{RATE_MAX, RATE_MIN};

/// The share of the slowest rate that what must be sent may take.
pub const RATE_SHARE: f64 = 0.9;

/// Bits a second that a TCP would get at the worst corner; infinite where nobody asks.
pub fn fair_bits(of: &Specification, carrier: Carrier) -> f64 {
    let network = &of.network;
    let (rtt_s, loss) = (network.rtt_ms.value.high / 1000.0, network.loss.value);
    match (network.control.value, loss > 0.0 && rtt_s > 0.0) {
        (Control::Open, true) => 1.22 * carrier.payload(of) * 8.0 / (rtt_s * loss.sqrt()),
        _ => f64::INFINITY,
    }
}

/// Bits a second that may be sent at the worst corner.
pub fn allowed_bits(of: &Specification, carrier: Carrier) -> f64 {
    (RATE_SHARE * of.network.rate_mbit.value.low * 1e6).min(fair_bits(of, carrier))
}

/// How long one of a type waits and takes to leave, with what it was asked of.
pub type Known = RefCell<Vec<([u64; 5], (f64, f64))>>;

impl<'s> Subject<'s> {
    /// A type of ADU, and what carries it.
    pub fn new(
        of: &'s Specification,
        place: usize,
        carrier: Carrier,
        known: &'s Known,
    ) -> Subject<'s> {
        let mut subject = Subject { of, place, carrier, pace_kbit: f64::INFINITY, known };
        let slow = of.network.rate_mbit.value.low * 1000.0;
        subject.pace_kbit = match carrier.machine {
            // Where nobody says how slow the path may be, nothing waits.
            _ if !slow.is_finite() => slow,
            M::Datagram => slow.min(subject.pace_bits().max(RATE_MIN as f64) / 1000.0),
            _ => slow,
        };
        subject
    }

    /// Bits a second that an end's bucket lets out, whatever the path has: what may be sent; where something adapts no more than
    /// all of its role's types may make.
    fn pace_bits(&self) -> f64 {
        if self.of.adus.iter().all(|adu| adu.adapt.value.is_empty()) {
            return allowed_bits(self.of, self.carrier).min(RATE_MAX as f64);
        }
        let of_role = |role: usize| -> f64 {
            let all = self.of.adus.iter().enumerate().filter(|(_, adu)| {
                adu.from.value.is(role) && adu.reliability.value != Preference::Require
            });
            let most = all.map(|(place, _)| {
                let mut figures = Figures::default();
                Subject { place, ..*self }.rates(&mut figures, &[], 1.0);
                figures.most_bits.unwrap_or(f64::INFINITY)
            });
            most.sum()
        };
        let roles = [0, 1].into_iter().filter(|role| self.adu().from.value.is(*role));
        roles.map(of_role).fold(RATE_MAX as f64, f64::min)
    }

    /// Milliseconds that bytes take at the worst corner: bits by kilobits a second.
    pub(super) fn leave(&self, bytes: f64) -> f64 {
        let slow = self.of.network.rate_mbit.value.low * 1000.0;
        let rate = if self.carrier.machine == M::Datagram { self.pace_kbit } else { slow };
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
        let [bytes_of, hz_of, left_of, packets_of] = [bytes, hz, left, packets].map(f64::to_bits);
        let asked = [self.place as u64, bytes_of, hz_of, left_of, packets_of];
        let known = self.known.borrow().iter().find(|(of, _)| *of == asked).map(|(_, ms)| *ms);
        if let Some(known) = known {
            return known;
        }
        let of_role = |role| {
            let own = self.demand(role, left, hz);
            let (mut blocked, mut others) = (0.0, Vec::new());
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
        let found = roles.map(of_role).fold((0.0, 0.0), longer);
        self.known.borrow_mut().push((asked, found));
        found
    }

    /// What an ADU of this type takes that leaves in so long, and how far from the next one.
    fn demand(&self, role: usize, left: f64, hz: f64) -> Demand {
        let hz_most = self.hz_most(hz);
        if self.adu().adapt.value.is_empty() || hz <= 0.0 {
            let is_known = hz_most > 0.0 && hz_most.is_finite();
            let period_ms = if is_known { 1000.0 / hz_most } else { f64::INFINITY };
            return Demand { ms: left, period_ms };
        }
        // Who adapts makes no more than what the others leave of the path's target, so one has left when the next is made; but all
        // of what others may make and do not, as those do of which nobody says how often they come.
        let fixed = self.others(role).filter(|(_, adu)| {
            adu.adapt.value.is_empty() && adu.reliability.value != Preference::Require
        });
        let shares = fixed.map(|(other, _)| other.made(role).share());
        let fixed: f64 = shares.filter(|share| share.is_finite()).sum();
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

    /// What varies on its way varies by no more than it may where nothing makes it even: what it waits for counts, too.
    pub(super) fn check_even(&self, figures: &Figures) -> Result<(), Failure> {
        let may = self.adu().jitter_ms.value.filter(|_| self.carrier.machine == M::Datagram);
        let Some(may) = may else { return Ok(()) };
        let Time { queue, jitter, correction, resends, .. } = figures.time;
        let varies = queue + jitter + correction + resends;
        if varies <= may {
            return Ok(());
        }
        let mut clauses = self.without_end().clauses;
        clauses.extend(self.clauses(&["jitter_ms"], &["jitter_ms"]));
        let why =
            format!("it comes unevenly by {varies:.0} ms where nothing holds it, and may by {may}");
        Err(Failure::new(why, clauses).by(varies, may))
    }

    /// More of it and of others, without their correction, must be sent than may be: that is why.
    pub(super) fn too_much(&self, steps: &[FecStep]) -> Option<Failure> {
        let least = |place: usize, steps: &[FecStep]| {
            let mut figures = Figures::default();
            Subject { place, ..*self }.rates(&mut figures, steps, 1.0);
            figures.least_bits
        };
        let roles = [0, 1].into_iter().filter(|role| self.adu().from.value.is(*role));
        let of_role = |role| {
            let others: f64 = self.others(role).map(|(of, _)| least(of.place, &[])).sum();
            least(self.place, steps) + others
        };
        let all = roles.map(of_role).fold(0.0, f64::max);
        let allowed = allowed_bits(self.of, self.carrier);
        (all > allowed).then(|| too_much(self.of, all, allowed))
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
