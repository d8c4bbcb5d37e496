//! `src/lib.rs` of ends over datagrams: constants, and an end for each role.

use fusewire_asn1::rust::camel;

use super::ends::{Adu, Kind, Writer};
use super::role::SESSION;
use crate::plan::{Adapt, AduPlan, Congestion, Fec, Machine, Plan, Playout, Resend};

/// Bytes around an ADU's piece in a datagram that is copied, or has parity behind it: no fewer than there are
/// (`docs/service.md`, section Datagrams).
const AROUND: u64 = 160;
/// ADUs that a receiver puts together, or holds, at least.
const WINDOW: u64 = 16;
/// Of what is held for playout a receiver's lane may be half full.
const HELD: u64 = 2;
/// Microseconds that a report takes at most beside its round trip: two intervals, and what it may be late.
const REPORTED_US: u64 = 250_000;
/// Bits a second, where neither a specification nor its network says how much there is, and beyond which nothing is spread.
pub(crate) const RATE_MAX: u64 = 1_000_000_000;
/// Of ADUs for adaptive playout so many may come too late, in thousandths.
const LATE: f64 = 0.001;
/// Bits a second below which no rate is a rate.
pub(crate) const RATE_MIN: u64 = 16_000;

/// Whether a type goes beside datagrams, in the stream of their session.
pub fn is_beside(plan: &Plan, of: &AduPlan) -> bool {
    plan.machine == Machine::Datagram && of.resend == Resend::Selective
}

/// Whether a plan has a stream beside its datagrams.
pub fn has_beside(plan: &Plan) -> bool {
    plan.adus.iter().any(|adu| is_beside(plan, adu))
}

/// Bytes of an ADU in one datagram, at least.
pub fn piece(plan: &Plan, of: &AduPlan) -> u64 {
    let mtu = u64::from(plan.mtu_bytes);
    match of.fec.first().map(|step| step.fec) {
        Some(Fec::Copy { .. }) => (mtu / 2).saturating_sub(AROUND / 2),
        _ => mtu.saturating_sub(AROUND),
    }
}

/// ADUs a second, at most; 0: nobody says.
fn hz(of: &AduPlan) -> f64 {
    of.rate_millihertz.map_or(0.0, |(_, most)| most as f64 / 1000.0)
}

/// How long a receiver holds an ADU for playout, in microseconds. The plan counts from when it is sent, a receiver from the
/// fastest: on the longest way the two are half of a round trip apart.
fn held_us(plan: &Plan, of: &AduPlan) -> u64 {
    let (Some(Playout::Fixed { delay_us }) | Some(Playout::Adaptive { delay_us_max: delay_us })) =
        of.playout
    else {
        return 0;
    };
    delay_us.saturating_sub(plan.network.rtt_us.1 / 2)
}

/// ADUs of a type that a receiver puts together, or holds: behind one that is sent again, all that come meanwhile.
pub fn window(plan: &Plan, of: &AduPlan) -> u64 {
    let held = HELD * made_in(of, held_us(plan, of)) + 4;
    let behind = match of.resend {
        Resend::UntilDeadline => made_in(of, of.deadline_us.unwrap_or(0)) + 4,
        _ => 0,
    };
    WINDOW.max(held).max(behind)
}

/// ADUs of a type that are made in so many microseconds, at most.
fn made_in(of: &AduPlan, us: u64) -> u64 {
    (hz(of) * us as f64 / 1e6).ceil() as u64
}

/// ADUs of a type that are kept to be sent again: those that come in time, and whose last packets may yet be reported.
pub fn kept(plan: &Plan, of: &AduPlan) -> u64 {
    if of.resend != Resend::UntilDeadline {
        return 0;
    }
    let told_us = plan.network.rtt_us.1 + plan.network.jitter_us + REPORTED_US;
    made_in(of, of.deadline_us.unwrap_or(0) + told_us) + 2
}

/// What a type has beside what every end has of it.
pub fn fields(plan: &Plan, of: &AduPlan) -> Vec<String> {
    let us = |us: u64| format!("std::time::Duration::from_micros({us})");
    let mut fields = vec![format!("priority: {}", of.priority)];
    let steps: Vec<String> = of
        .fec
        .iter()
        .map(|step| {
            let repairs = match step.fec {
                Fec::None | Fec::Copy { .. } => 0,
                Fec::Xor => 1,
                Fec::ReedSolomon { parity } => parity,
            };
            format!(
                "service::profile::Step {{ packets_max: {}, repairs: {repairs} }}",
                step.packets_max.min(255)
            )
        })
        .collect();
    match of.fec.first().map(|step| step.fec) {
        _ if of.fec.iter().all(|step| step.fec == Fec::None) => {}
        None => {}
        Some(Fec::Copy { distance }) => {
            fields.push(format!("fec: service::profile::Fec::Copy {{ distance: {distance} }}"));
        }
        Some(_) => {
            fields.push(format!("fec: service::profile::Fec::Parity(&[{}])", steps.join(", ")))
        }
    }
    let held = held_us(plan, of);
    match of.playout {
        None => {}
        Some(Playout::Fixed { .. }) => {
            fields.push(format!("playout: service::playout::Mode::Fixed({})", us(held)));
        }
        Some(Playout::Adaptive { .. }) => {
            let least = held.saturating_sub(plan.network.jitter_us);
            fields.push(format!(
                "playout: service::playout::Mode::Adaptive {{ least: {}, most: {}, late: {LATE:?} }}",
                us(least),
                us(held)
            ));
        }
    }
    let bits = of.bitrate_bits_per_s;
    if of.adapt.is_empty() {
        let most = bits.map(|(_, most)| most);
        let most = most.or((hz(of) > 0.0).then(|| (hz(of) * of.size_bytes.1 as f64 * 8.0) as u64));
        fields.push(format!("fixed_bits: {}", most.unwrap_or(0)));
    } else if let (Some(bits), Some((least, most))) = (bits, of.rate_millihertz) {
        let yields = |adapt: &Adapt| format!("service::Yields::{adapt:?}");
        let order: Vec<String> = of.adapt.iter().map(yields).collect();
        let hz = |millihertz: u64| millihertz as f64 / 1000.0;
        fields.push(format!(
            "adapted: Some(service::profile::Adapted {{ bits: {bits:?}, hz: ({:?}, {:?}), order: &[{}] }})",
            hz(least),
            hz(most),
            order.join(", ")
        ));
    }
    let window = window(plan, of);
    if window > WINDOW {
        fields.push(format!("window: {window}"));
    }
    let kept = kept(plan, of);
    if kept > 0 {
        fields.push(format!("kept: {kept}"));
    }
    fields.push(format!("hz: {:?}", hz(of)));
    fields.push(format!("loss_max: {:?}", of.loss));
    fields.extend(of.loss_run.map(|run| format!("loss_run: Some({run})")));
    fields.extend(of.jitter_us.map(|jitter| format!("jitter: Some({})", us(jitter))));
    fields
}

/// Rates of all datagrams that a role sends, in bits a second: where nothing adapts, what may be sent at the worst corner, so that
/// an ADU leaves as fast as its time was counted. Otherwise from what is made of all types whatever the path's target, the least of
/// what adapts and the most of what does not, to the most of all.
pub fn rates(plan: &Plan, role: usize) -> (u64, u64) {
    let sent = plan.adus.iter().filter(|adu| adu.from.is(role) && !is_beside(plan, adu));
    let sent: Vec<&AduPlan> = sent.collect();
    let unyielding = |adu: &&AduPlan| match (adu.adapt.is_empty(), adu.load_bits_per_s) {
        (true, (_, Some(most))) => most,
        (_, (least, _)) => least,
    };
    let least: u64 = sent.iter().map(unyielding).sum();
    let most: Option<u64> = sent.iter().map(|adu| adu.load_bits_per_s.1).sum();
    let path = plan.network.rate_bytes_per_s.1 * 8;
    let path = if path == 0 { RATE_MAX } else { path };
    // Who sends nothing sends reports, which are not paced.
    let most = most.filter(|most| *most > 0);
    match plan.congestion {
        Congestion::Media => {
            let most = most.unwrap_or(path).max(RATE_MIN);
            (least.clamp(RATE_MIN, most), most)
        }
        _ => {
            let may_be = plan.allowed_bits_per_s.min(RATE_MAX);
            let pace = may_be.max(most.unwrap_or(0)).max(RATE_MIN);
            (pace, pace)
        }
    }
}

impl<'a> Writer<'a> {
    /// The two ends.
    pub fn datagrams(&mut self) {
        self.network();
        for role in 0..2 {
            self.datagrams_end(role);
        }
    }

    /// What is vouched for.
    fn network(&mut self) {
        writeln!(self);
        writeln!(self, "/// The worst that is vouched for of the network.");
        self.network_constant();
    }

    pub fn network_constant(&mut self) {
        let network = &self.plan.network;
        writeln!(self, "const NETWORK: service::profile::Network = service::profile::Network {{");
        writeln!(self, "one_way: std::time::Duration::from_micros({}),", network.rtt_us.1 / 2);
        writeln!(self, "jitter: std::time::Duration::from_micros({}),", network.jitter_us);
        writeln!(self, "loss: {:?},", network.loss);
        writeln!(self, "loss_burst: {:?},", network.loss_burst.max(1.0));
        writeln!(self, "rate: {},", network.rate_bytes_per_s.0);
        writeln!(self, "}};");
    }

    fn datagrams_end(&mut self, role: usize) {
        let name = camel(&self.plan.roles[role]);
        let session = format!("service::datagram::session::Session<{name}>");
        self.item(role, "", "session", &session);
        writeln!(self, "impl {name} {{");
        self.opens(role, &name);
        self.datagrams_sends(role);
        self.datagrams_takes(role, &name);
        writeln!(self);
        writeln!(
            self,
            "/// The session: its addresses, the path as it is seen, what became of datagrams."
        );
        writeln!(self, "pub fn session(&mut self) -> &mut {session} {{");
        writeln!(self, "&mut self.session");
        writeln!(self, "}}");
        self.ends(SESSION);
        writeln!(self, "}}");
        self.datagrams_alternatives(role, &name);
    }

    /// What of a profile is of datagrams.
    pub fn of_datagrams(&mut self, role: usize) {
        let plan = self.plan;
        writeln!(self, "const MTU: usize = {};", plan.mtu_bytes);
        writeln!(self, "const RATES: (u64, u64) = {:?};", rates(plan, role));
        writeln!(self, "const NETWORK: service::profile::Network = NETWORK;");
        if has_beside(plan) {
            self.waits();
            let [sends, takes] = [role, 1 - role].map(|role| self.list(role, true));
            writeln!(self, "const SENDS_BESIDE: &'static [service::profile::Adu] = {sends};");
            writeln!(self, "const TAKES_BESIDE: &'static [service::profile::Adu] = {takes};");
        }
    }

    fn datagrams_sends(&mut self, role: usize) {
        for adu in self.of(role, Kind::Message) {
            let Adu { camel, snake, .. } = adu;
            let ty = adu.ty("'_");
            writeln!(self);
            if is_beside(self.plan, adu.plan) {
                writeln!(
                    self,
                    "/// Sends one, which arrives, if there is room for it now: until others have arrived there may be none."
                );
                self.errors(&["Codec", "TooLong", "NoRoom", "Stack"]);
                writeln!(
                    self,
                    "pub fn send_{snake}(&self, value: &{ty}) -> service::Result<()> {{"
                );
                writeln!(self, "self.session.send_beside::<adu::{camel}, _>(value)");
                writeln!(self, "}}");
                continue;
            }
            writeln!(
                self,
                "/// Sends one as soon as the path lets it; its number. What else becomes of it is told."
            );
            self.errors(&["Codec", "TooLong", "NoRoom", "Stack"]);
            writeln!(
                self,
                "pub fn send_{snake}(&mut self, value: &{ty}) -> service::Result<u64> {{"
            );
            writeln!(self, "self.session.send::<adu::{camel}, _>(value)");
            writeln!(self, "}}");
        }
    }

    fn datagrams_takes(&mut self, role: usize, name: &str) {
        let lifetime = self.lifetime(1 - role, &[Kind::Message], "'_");
        writeln!(self);
        writeln!(
            self,
            "/// What comes or is told next, which is waited for so long at most; an ADU stays until the next call. What is due"
        );
        writeln!(
            self,
            "/// is sent in that time: it is called whenever there is nothing else to do."
        );
        self.errors(&["Codec", "Unknown", "TooLong", "Stack"]);
        writeln!(
            self,
            "pub fn recv(&mut self, timeout: std::time::Duration) -> service::Result<Option<To{name}{lifetime}>> {{"
        );
        writeln!(self, "Ok(match self.session.recv(timeout)? {{");
        writeln!(self, "None => None,");
        writeln!(
            self,
            "Some(service::datagram::session::Heard::Told(told)) => Some(To{name}::Told(told)),"
        );
        let taken = self.adus.iter().filter(|adu| adu.plan.from.is(1 - role));
        let (beside, lanes): (Vec<&Adu<'_>>, Vec<_>) =
            taken.partition(|adu| is_beside(self.plan, adu.plan));
        for Adu { camel, plan, .. } in beside {
            let number = plan.number;
            let (how, with) = if plan.deadline_us.is_some() { ("how", ", how") } else { ("_", "") };
            writeln!(
                self,
                "Some(service::datagram::session::Heard::Beside({number}, adu, {how})) => Some(To{name}::{camel}(service::stream::read::<adu::{camel}, _>(adu)?{with})),"
            );
        }
        writeln!(
            self,
            "Some(service::datagram::session::Heard::Beside(number, ..)) => return service::stream::unknown(number),"
        );
        for (lane, Adu { camel, .. }) in lanes.iter().enumerate() {
            writeln!(
                self,
                "Some(service::datagram::session::Heard::Adu({lane}, adu, came)) => Some(To{name}::{camel}(service::stream::read::<adu::{camel}, _>(adu)?, came)),"
            );
        }
        writeln!(self, "Some(service::datagram::session::Heard::Adu(..)) => None,");
        writeln!(self, "}})");
        writeln!(self, "}}");
    }

    fn datagrams_alternatives(&mut self, role: usize, name: &str) {
        let other = 1 - role;
        let lifetime = self.lifetime(other, &[Kind::Message], "'a");
        writeln!(self);
        writeln!(self, "/// What a {name} gets.");
        writeln!(self, "#[derive(Debug)]");
        writeln!(self, "pub enum To{name}{lifetime} {{");
        for adu in self.of(other, Kind::Message) {
            let (camel, ty) = (&adu.camel, adu.ty("'a"));
            if is_beside(self.plan, adu.plan) {
                if adu.plan.deadline_us.is_some() {
                    writeln!(self, "/// `{camel}`, how old it is, and whether it is late.");
                    writeln!(self, "{camel}({ty}, service::datagram::session::Arrived),");
                    continue;
                }
                writeln!(self, "/// `{camel}`.");
                writeln!(self, "{camel}({ty}),");
                continue;
            }
            writeln!(self, "/// `{camel}`, and how it came.");
            writeln!(self, "{camel}({ty}, service::datagram::session::Came),");
        }
        writeln!(self, "/// What is no ADU.");
        writeln!(self, "Told(service::datagram::session::Told),");
        writeln!(self, "}}");
    }
}
