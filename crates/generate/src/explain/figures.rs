//! The figures of a plan in words: of all together, of each type of ADU, and those that a mechanism is set to.

use super::{Cause, Figure, Why};
use crate::catalogue::{Function, Mechanism as M};
use crate::choice::adu::percent;
use crate::choice::rank;
use crate::language::specification::{Adu, Preference};
use crate::language::value::{Clausal, Origin};
use crate::plan::{Fec, FecStep, Order, Playout, Sender};
use crate::rust::memory;

/// Bits a second.
pub fn rate(bits: f64) -> String {
    match bits {
        b if !b.is_finite() => "any rate".to_owned(),
        b if b >= 1e9 => format!("{:.1} Gbit/s", b / 1e9),
        b if b >= 1e7 => format!("{:.0} Mbit/s", b / 1e6),
        b if b >= 1e6 => format!("{:.1} Mbit/s", b / 1e6),
        b => format!("{:.0} kbit/s", b / 1e3),
    }
}

impl Why<'_> {
    /// Who sends a type.
    pub(super) fn sender(&self, place: usize) -> String {
        match self.of.adus[place].from.value {
            Sender::Role(role) => self.of.roles[usize::from(role)].clone(),
            Sender::Both => "both".to_owned(),
        }
    }

    /// Those of these clauses that somebody wrote.
    fn of_clauses(&self, clauses: &[&dyn Clausal]) -> Vec<Cause> {
        let written = clauses.iter().filter(|c| c.clause().origin != Origin::Default);
        written.map(|clause| self.cause(*clause)).collect()
    }

    /// Figures of all together.
    pub(super) fn shared_figures(&self) -> Vec<Figure> {
        let totals = &self.choice.combination.totals;
        let network = &self.of.network;
        let mut all = Vec::new();
        if totals.least_bits > 0.0 {
            let told = match totals.reported_bits.1 {
                told if told >= 500.0 => format!(", and {} to tell what has come", rate(told)),
                _ => String::new(),
            };
            let says = format!(
                "at least {} must be sent, headers and correction with it{told}; {} may be at the worst corner",
                rate(totals.least_bits),
                rate(totals.allowed_bits)
            );
            let by: [&dyn Clausal; 4] =
                [&network.rate_mbit, &network.rtt_ms, &network.loss, &network.control];
            all.push(Figure { of: "rate", says, causes: self.of_clauses(&by) });
        }
        let mut says = memory::words(&self.choice.plan);
        if let Some(may_be) = self.of.platform.memory_kib.value {
            let kib = self.choice.plan.memory_bytes.div_ceil(1024);
            says += &format!("; all together {kib} KiB of an end, {may_be} may be");
        }
        all.push(Figure {
            of: "memory",
            says,
            causes: self.of_clauses(&[&self.of.platform.memory_kib]),
        });
        all
    }

    /// Figures of a type.
    pub(super) fn adu_figures(&self, place: usize) -> Vec<Figure> {
        let (adu, plan) = (&self.of.adus[place], &self.choice.plan);
        let figures = &self.choice.combination.ways[place].figures;
        let planned = &plan.adus[place];
        let (least, most) = planned.size_bytes;
        let bytes = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        let combination = &self.choice.combination;
        let carrier = combination.carrier.of_way(combination.ways[place].set);
        let room = carrier.payload(self.of) as u32;
        let packets = match planned.is_cut {
            false => format!("one packet, which has room for {room}"),
            true => format!("packets with room for {room} each"),
        };
        let mut all = vec![Figure {
            of: "size",
            says: format!("{bytes} bytes, in {packets}"),
            causes: self.of_clauses(&[&adu.size_bytes, &self.of.network.mtu_bytes]),
        }];
        let deadline = match adu.deadline_ms.value {
            Some(ms) => format!("; {ms} may pass"),
            None => String::new(),
        };
        let time = figures.time.words();
        all.push(Figure {
            of: "time",
            says: format!("at the worst corner it takes {time}{deadline}"),
            causes: self.of_clauses(&[&adu.deadline_ms, &self.of.network.rtt_ms]),
        });
        let says = match adu.reliability.value {
            Preference::Require => "none is lost".to_owned(),
            _ => {
                let newer = match figures.overtaken > 0.0 {
                    true => format!(", {} as newer ones overtake them", percent(figures.overtaken)),
                    false => String::new(),
                };
                let (lost, may_be) = (percent(figures.loss), percent(adu.loss.value));
                format!("{lost} are lost{newer}, {may_be} may be{}", replaced(adu))
            }
        };
        let network = &self.of.network;
        let causes = match figures.overtaken > 0.0 {
            false => self.of_clauses(&[&adu.reliability, &adu.loss, &network.loss]),
            true => self.of_clauses(&[
                &adu.reliability,
                &adu.loss,
                &adu.order,
                &adu.rate_hz,
                &network.loss,
                &network.jitter_ms,
            ]),
        };
        all.push(Figure { of: "loss", says, causes });
        if let Some(most) = figures.most_bits {
            let says = match (rate(figures.least_bits), rate(most)) {
                (least, most) if least == most => most,
                (least, most) => format!("{least} to {most}"),
            };
            let says = format!("{says} with headers and correction");
            let causes = self.of_clauses(&[&adu.rate_hz, &adu.bitrate_kbit]);
            all.push(Figure { of: "rate", says, causes });
        }
        all
    }

    /// What a mechanism is set to.
    pub(super) fn with(&self, function: Function, place: Option<usize>) -> Option<String> {
        let (plan, chosen) = (&self.choice.plan, &self.choice.combination);
        let Some(place) = place else {
            let found = rank::of_function(chosen.shared, function);
            return match function {
                Function::Machine if chosen.carrier.machine == M::Tcp => {
                    let nagle = if plan.is_nagle { "with" } else { "without" };
                    Some(format!("{nagle} waiting to fill packets (Nagle)"))
                }
                Function::Machine => {
                    let ways = chosen.ways.iter().zip(&plan.adus);
                    let beside = ways.filter(|(way, _)| chosen.carrier.is_beside(way.set));
                    let names: Vec<_> = beside.map(|(_, adu)| adu.name.as_str()).collect();
                    (!names.is_empty()).then(|| format!("in TCP's stream {}", names.join(", ")))
                }
                Function::Congestion if found != M::Bucket && found != M::Media => {
                    let finds = rate(chosen.totals.found_bits);
                    Some(format!(
                        "finds {finds} at the longest round trip, where the path is fastest and losses are not its own"
                    ))
                }
                _ => None,
            };
        };
        let planned = &plan.adus[place];
        let figures = &chosen.ways[place].figures;
        match function {
            Function::Resend if figures.resends > 0 => {
                Some(format!("{} in time", times(figures.resends)))
            }
            Function::Fec if !planned.fec.is_empty() => Some(steps(&planned.fec)),
            Function::Playout => match planned.playout? {
                Playout::Fixed { delay_us } => Some(format!("{} ms", delay_us / 1000)),
                Playout::Adaptive { delay_us_max } => {
                    Some(format!("at most {} ms", delay_us_max / 1000))
                }
            },
            _ => None,
        }
    }
}

/// What else is not handed over, and is no loss of the network: how much depends on the application that takes it.
fn replaced(adu: &Adu) -> String {
    if adu.order.value != Order::Newest {
        return String::new();
    }
    let of = match &adu.newest.value {
        Some(key) => format!(" of its `{key}`"),
        None => " of the type".to_owned(),
    };
    format!("; not counted are those that wait at the receiver when a newer one{of} comes")
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Correction by packets of an ADU.
fn steps(fec: &[FecStep]) -> String {
    let mut from = 1;
    let mut all = Vec::new();
    for step in fec {
        let packets = match (from, step.packets_max) {
            (1, 1) => "of one packet".to_owned(),
            (from, to) if from == to => format!("of {to} packets"),
            (from, to) => format!("of {from} to {to} packets"),
        };
        all.push(match step.fec {
            Fec::None => format!("{packets} none"),
            Fec::Copy { distance } => format!("{packets} a copy {distance} packets later"),
            Fec::Xor => format!("{packets} one of parity"),
            Fec::ReedSolomon { parity } => format!("{packets} {parity} of parity"),
        });
        from = step.packets_max.saturating_add(1);
    }
    format!("ADUs {}", all.join(", "))
}
