//! What of a plan ends do: what they would silently leave out is refused, and what costs no promise is said.

use super::datagrams::{is_beside, piece};
use super::{Error, group};
use crate::choice::adu::ADU_BYTES_MAX;
use crate::choice::rank::STREAM_RING_BYTES;
use crate::explain::{Figure, cause};
use crate::language::Checked;
use crate::language::specification::{Adu, Foreign, Integrity, Preference, Specification};
use crate::language::value::{Clausal, Clause, Origin, Value};
use crate::plan::{
    Acknowledge, AduPlan, Device, Execution, Fec, Late, Machine, Order, Plan, Resend, Sender,
    SetUp, Suite, Sum,
};

/// Packets of an ADU over datagrams, with their parity no more than 255.
const PACKETS_MAX: u64 = 200;
/// What is no ADU, in what an end over datagrams gets.
const TOLD: &str = "Told";

/// What is not opened by a handshake before the first ADU.
const FIRST: &str = "a session that its first packet opens";
/// Bytes of a record's body, without what stands before an ADU to a group.
const BODY_MAX: u64 = ADU_BYTES_MAX as u64;

/// Whether code is made of all of a plan.
///
/// # Errors
/// [`Error::NotApplied`] with each clause that an end would not keep.
pub fn check(checked: &Checked, plan: &Plan) -> Result<(), Error> {
    if plan.set_up == SetUp::First {
        return Err(Error::Unsupported(FIRST.to_owned()));
    }
    let line = |Lack { clause, value, why }: Lack| {
        let (place, name) = (checked.place(&clause), &clause.name);
        let value = checked.value(&clause, value);
        format!("{place}: cannot be generated yet: `{name} = {value}`: {why}")
    };
    let lines: Vec<_> = lacks(&checked.specification, plan).into_iter().map(line).collect();
    if lines.is_empty() { Ok(()) } else { Err(Error::NotApplied(lines)) }
}

/// Whether code is made of all of a plan.
pub(crate) fn has_code(of: &Specification, plan: &Plan) -> bool {
    plan.set_up != SetUp::First && lacks(of, plan).is_empty()
}

/// Why no code is made of a plan, in words, and by which clause.
pub(crate) fn why_no_code(of: &Specification, plan: &Plan) -> Option<(String, Option<String>)> {
    if plan.set_up == SetUp::First {
        return Some((FIRST.to_owned(), None));
    }
    let Lack { clause, why, .. } = lacks(of, plan).into_iter().next()?;
    Some((why, Some(clause.name)))
}

/// What ends would not keep.
fn lacks(specification: &Specification, plan: &Plan) -> Vec<Lack> {
    let mut broken = Broken { specification, lacks: Vec::new() };
    broken.session(plan);
    if !broken.lacks.is_empty() {
        // What is of other sessions is not asked of these.
        return broken.lacks;
    }
    if plan.machine == Machine::Group {
        broken.group(plan);
        return broken.lacks;
    }
    broken.shared(plan);
    for (adu, of) in specification.adus.iter().zip(&plan.adus) {
        if is_beside(plan, of) {
            broken.beside(plan, adu, of);
            continue;
        }
        if plan.machine == Machine::Datagram {
            broken.datagram(plan, adu, of);
            continue;
        }
        broken.adu(plan, adu, of);
        if is_called(plan, of) {
            broken.call(adu, of);
        } else if let Some(other) = of.after.iter().find(|n| is_called(plan, at(plan, **n))) {
            let other = &at(plan, *other).name;
            let why = format!("{other} is of a call, and calls go beside the stream");
            broken.clause(&adu.after, &why);
        }
    }
    broken.lacks
}

fn at(plan: &Plan, number: u8) -> &AduPlan {
    &plan.adus[usize::from(number)]
}

/// Whether a type is a request, or answers one.
fn is_called(plan: &Plan, of: &AduPlan) -> bool {
    of.reply.is_some() || plan.adus.iter().any(|asks| asks.reply == Some(of.number))
}

/// Whether a type goes in a stream.
fn is_streamed(plan: &Plan, of: &AduPlan) -> bool {
    plan.machine != Machine::Datagram || is_beside(plan, of)
}

/// Whether one role sends both.
fn shares(one: &AduPlan, other: &AduPlan) -> bool {
    one.from == other.from || one.from == Sender::Both || other.from == Sender::Both
}

fn is_written(clause: &dyn Clausal) -> bool {
    clause.clause().origin == Origin::Written
}

/// A clause that would not be kept, and why.
struct Lack {
    clause: Clause,
    value: String,
    why: String,
}

/// Clauses that would not be kept.
struct Broken<'s> {
    specification: &'s Specification,
    lacks: Vec<Lack>,
}

impl<'s> Broken<'s> {
    fn clause(&mut self, clause: &dyn Clausal, why: &str) {
        let (value, why) = (clause.text(), why.to_owned());
        self.lacks.push(Lack { clause: clause.clause().clone(), value, why });
    }

    /// Of what is no session over UDP that is sealed.
    fn session(&mut self, plan: &Plan) {
        let specification: &'s Specification = self.specification;
        if plan.device != Device::Udp {
            let why = "an end goes over UDP: `\"udp\"` would pass";
            self.clause(&specification.platform.device, why);
        }
        if plan.suite == Suite::Plain {
            if specification.peers.foreign.value != Foreign::None {
                let why = "an end talks to one of ours: `\"none\"` would pass";
                self.clause(&specification.peers.foreign, why);
            }
            let is_against = |clause: &Value<Preference>| {
                matches!(clause.value, Preference::Avoid | Preference::Prohibit)
            };
            let why = "a session is sealed";
            for adu in &specification.adus {
                for clause in [&adu.confidential, &adu.authentic] {
                    if is_against(clause) {
                        self.clause(clause, &format!("{why}: `\"none\"` would pass"));
                    }
                }
                if adu.integrity.value == Integrity::Bytes {
                    self.clause(&adu.integrity, &format!("{why}: `\"tag\"` would pass"));
                }
            }
        }
    }

    fn shared(&mut self, plan: &Plan) {
        let specification: &'s Specification = self.specification;
        self.promised(plan);
        // TCP has RFC 1071's in any case, and so have the kernel's datagrams; over XTP there is none beside a tag.
        match (plan.machine, plan.sum) {
            (_, Sum::None) | (Machine::Tcp | Machine::Datagram, Sum::Internet) => return,
            (_, Sum::Internet | Sum::Cxor | Sum::Crc32c) => {}
        }
        let is_summed = |adu: &&Adu| adu.integrity.value == Integrity::Full;
        for adu in specification.adus.iter().filter(is_summed) {
            self.clause(&adu.integrity, "what is sealed has no such sum beside its tag");
        }
    }

    /// What must be sent a second over a stream is under way for a round trip, and has its memory.
    fn promised(&mut self, plan: &Plan) {
        let of_role = |role| {
            let own = plan.adus.iter().filter(|adu| adu.from.is(role) && is_streamed(plan, adu));
            own.map(|adu| adu.load_bits_per_s.0 as f64 / 8.0).sum::<f64>()
        };
        let rtt_s = plan.network.rtt_us.1 as f64 / 1e6;
        let under_way = of_role(0).max(of_role(1)) * rtt_s;
        if under_way > STREAM_RING_BYTES as f64 {
            let why = format!(
                "what must be sent has {:.0} KiB under way, and a stream sends {} before they are acknowledged",
                under_way / 1024.0,
                STREAM_RING_BYTES / 1024
            );
            let specification: &'s Specification = self.specification;
            self.clause(&specification.network.rtt_ms, &why);
        }
    }

    fn adu(&mut self, plan: &Plan, adu: &Adu, of: &AduPlan) {
        let is_request = of.reply.is_some();
        let drops = of.deadline_us.is_some() && of.late == Late::Drop;
        if of.size_bytes.1 > BODY_MAX {
            self.too_long(adu, of);
        }
        if drops && !is_request {
            let why = "what is late is dropped, and a sealed stream sends it until it has arrived";
            self.clause(&adu.deadline_ms, why);
        }
        match of.resend {
            Resend::Selective => {}
            Resend::None | Resend::GoBackN | Resend::UntilDeadline => {
                let why = "a sealed stream sends again what is missing until it has arrived";
                self.clause(&adu.reliability, why);
            }
        }
        match of.order {
            Order::All | Order::Type | Order::None => {}
            Order::Newest => {
                let why = "a stream hands over what is older, too";
                self.clause(&adu.order, why);
            }
        }
        if of.playout.is_some() {
            self.clause(&adu.jitter_ms, "a stream hands over what has come, and has no playout");
        }
        if !of.adapt.is_empty() {
            self.clause(&adu.adapt, "an end over a stream tells its application no target");
        }
        if of.deadline_us.is_some() && is_called(plan, of) && !is_request {
            let why = "an answer has no deadline but that of its request";
            self.clause(&adu.deadline_ms, why);
        }
    }

    /// Of what no record holds.
    fn too_long(&mut self, adu: &Adu, of: &AduPlan) {
        let least = of.size_bytes.0;
        let why = format!("a record holds no more: `[{least}, {BODY_MAX}]` would pass");
        self.clause(&adu.size_bytes, &why);
    }

    /// Of a type in the stream beside datagrams: what it waits for is there.
    fn beside(&mut self, plan: &Plan, adu: &Adu, of: &AduPlan) {
        if of.size_bytes.1 > BODY_MAX {
            self.too_long(adu, of);
        }
        let is_lane = |n: &&u8| !is_beside(plan, at(plan, **n));
        if let Some(other) = of.after.iter().find(is_lane) {
            let other = &at(plan, *other).name;
            let why = format!("{other} goes in datagrams, which a stream does not wait for");
            self.clause(&adu.after, &why);
        }
        if of.name == TOLD {
            self.clause(&adu.ty, "an end over datagrams has another `Told`");
        }
    }

    /// Of an end over datagrams.
    fn datagram(&mut self, plan: &Plan, adu: &Adu, of: &AduPlan) {
        let others = |with: fn(&AduPlan) -> bool| {
            plan.adus
                .iter()
                .any(|other| other.number != of.number && shares(of, other) && with(other))
        };
        let is_waited_for =
            |other: &AduPlan| other.order == Order::All || other.resend != Resend::Selective;
        if of.order == Order::All && others(is_waited_for) {
            let why = "types do not wait for each other in datagrams: `\"type\"` is kept";
            self.clause(&adu.order, why);
        }
        if of.newest.is_some() {
            let why =
                "an end over datagrams judges the newest by its type: a group's does by a key";
            self.clause(&adu.newest, why);
        }
        if !of.after.is_empty() {
            self.clause(&adu.after, "types do not wait for each other in datagrams");
        }
        if is_called(plan, of) {
            self.clause(&adu.reply, "calls go beside a stream");
        }
        if !of.adapt.is_empty() {
            if others(|other| !other.adapt.is_empty()) {
                self.clause(&adu.adapt, "one type of a role adapts");
            }
            let is_known = of.rate_millihertz.is_some_and(|(least, _)| least > 0)
                && of.bitrate_bits_per_s.is_some();
            if !is_known {
                let why = "what adapts says how many there are, above 0, and how many bits: `rate_hz` and `bitrate_kbit`";
                self.clause(&adu.adapt, why);
            }
        }
        if of.size_bytes.0 == 0 {
            self.clause(&adu.size_bytes, "an ADU over datagrams has a byte");
        }
        let piece = piece(plan, of);
        let is_copied = of.fec.iter().any(|step| matches!(step.fec, Fec::Copy { .. }));
        if is_copied && of.size_bytes.1 > piece {
            let why = format!("what is copied fits into half of a datagram: {piece} bytes");
            self.clause(&adu.size_bytes, &why);
        }
        if of.size_bytes.1 > piece * PACKETS_MAX {
            let why = format!("an ADU over datagrams has at most {} bytes", piece * PACKETS_MAX);
            self.clause(&adu.size_bytes, &why);
        }
        if of.name == TOLD {
            self.clause(&adu.ty, "an end over datagrams has another `Told`");
        }
    }

    /// Of a group: what its ends would not keep.
    fn group(&mut self, plan: &Plan) {
        let specification: &'s Specification = self.specification;
        if group::rates(plan).is_none() {
            let why = "what is sent once has a rate, and neither it nor the network's is said";
            self.clause(&specification.network.rate_mbit, why);
        }
        // The share of what is sent once: its buckets are what the choice has promised.
        let rates = group::once(plan).zip(group::rates(plan));
        if let Some((makes, [_, share])) =
            rates.filter(|(makes, [_, share])| *makes > (*share).into())
        {
            let kbit = |bytes_per_s: f64| bytes_per_s / 125.0;
            let why = format!(
                "what is sent once makes up to {:.0} kbit/s, and has {:.0}: half of what is allowed beside what is sent again",
                kbit(makes),
                kbit(share.into())
            );
            for (adu, of) in specification.adus.iter().zip(&plan.adus) {
                let clause: &dyn Clausal =
                    if is_written(&adu.bitrate_kbit) { &adu.bitrate_kbit } else { &adu.rate_hz };
                if !group::is_resent(of) {
                    self.clause(clause, &why);
                }
            }
        }
        let all = |is_resent| {
            let of_all = |adu: &&AduPlan| adu.order == Order::All;
            plan.adus.iter().filter(of_all).any(|adu| group::is_resent(adu) == is_resent)
        };
        let is_split = all(true) && all(false);
        for (adu, of) in specification.adus.iter().zip(&plan.adus) {
            if adu.integrity.value == Integrity::Full && plan.sum != Sum::None {
                self.clause(&adu.integrity, "a group's records have no sum beside their tag");
            }
            self.of_group(plan, adu, of);
            if is_split && of.order == Order::All && !group::is_resent(of) {
                let why =
                    "what is sent again and what is not go in two streams, each in its own order";
                self.clause(&adu.order, why);
            }
        }
    }

    fn of_group(&mut self, plan: &Plan, adu: &Adu, of: &AduPlan) {
        if matches!(of.resend, Resend::GoBackN | Resend::UntilDeadline) {
            let why = "a group sends again what is missing until it has arrived, or nothing";
            self.clause(&adu.reliability, why);
        }
        if !of.fec.is_empty() {
            self.clause(&adu.loss, "an end of a group sends nothing beside the data");
        }
        if of.playout.is_some() {
            self.clause(&adu.jitter_ms, "a group hands over what has come, and has no playout");
        }
        if !of.adapt.is_empty() {
            self.clause(&adu.adapt, "an end of a group tells its application no target");
        }
        if of.size_bytes.1 > BODY_MAX {
            self.too_long(adu, of);
        }
        let waits = |n: &u8| {
            let other = at(plan, *n);
            group::is_resent(other) != group::is_resent(of) || other.order == Order::Newest
        };
        if let Some(other) = of.after.iter().find(|n| waits(n)) {
            let other = &at(plan, *other).name;
            self.clause(
                &adu.after,
                &format!("{other} goes by another way, which this does not wait for"),
            );
        }
    }

    /// Of a request, or an answer.
    fn call(&mut self, adu: &Adu, of: &AduPlan) {
        let why = "calls overtake each other, and what is on the stream";
        if is_written(&adu.order) && of.order != Order::None {
            self.clause(&adu.order, why);
        }
        if !of.after.is_empty() {
            self.clause(&adu.after, why);
        }
    }
}

/// What of ends over datagrams is not as it was written, though every promise is kept.
fn datagrams_not_applied(checked: &Checked, plan: &Plan) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut say = |of, clause: &dyn Clausal, says: &str| {
        all.push(Figure { of, says: says.to_owned(), causes: vec![cause(checked, clause)] });
    };
    let machine = &checked.specification.platform.machine;
    if is_written(machine) {
        say("data pass", machine, "runs as it does whatever was measured");
    }
    for (adu, of) in checked.specification.adus.iter().zip(&plan.adus) {
        if is_beside(plan, of) {
            let says = "goes beside datagrams, as fast as CUBIC lets it: much of it takes their rate, and is held to none of its own";
            say("congestion control", &adu.reliability, says);
            if is_written(&adu.priority) {
                say(
                    "priority",
                    &adu.priority,
                    "has no effect: it goes in a stream, and datagrams may go first",
                );
            }
            continue;
        }
        if is_written(&adu.priority) && !has_priority(plan, of) {
            let says = "orders nothing: no other type of its role goes in datagrams with another";
            say("priority", &adu.priority, says);
        }
        if is_written(&adu.rate_hz) && adu.adapt.value.is_empty() {
            let says = "an end is held to the rates of all its types together, none to its own";
            say("rate", &adu.rate_hz, says);
        }
    }
    let mut say = |of, clauses: Vec<&dyn Clausal>, says: &str| {
        let causes: Vec<_> = clauses.iter().map(|one| cause(checked, *one)).collect();
        all.push(Figure { of, says: says.to_owned(), causes });
    };
    for (adu, of) in checked.specification.adus.iter().zip(&plan.adus) {
        ordered(plan, (adu, of), &mut say);
    }
    all
}

/// Whether the priority of a type orders anything: another type of its role goes in datagrams with another one.
pub(crate) fn has_priority(plan: &Plan, of: &AduPlan) -> bool {
    let is_lane = |adu: &AduPlan| plan.machine == Machine::Datagram && !is_beside(plan, adu);
    let mut others = plan.adus.iter().filter(|other| is_lane(other) && shares(of, other));
    is_lane(of) && others.any(|other| other.priority != of.priority)
}

/// What is chosen or written and has no effect in ends, without which every promise of the specification is
/// kept all the same.
pub fn not_applied(checked: &Checked, plan: &Plan) -> Vec<Figure> {
    match plan.machine {
        Machine::Tcp | Machine::Xtp | Machine::Group => {}
        Machine::Datagram => return datagrams_not_applied(checked, plan),
    }
    let mut all = Vec::new();
    let mut say = |of, clauses: Vec<&dyn Clausal>, says: &str| {
        let causes: Vec<_> = clauses.iter().map(|one| cause(checked, *one)).collect();
        if !causes.is_empty() {
            all.push(Figure { of, says: says.to_owned(), causes });
        }
    };
    let is_group = plan.machine == Machine::Group;
    let adus = &checked.specification.adus;
    if is_group {
        of_group(checked, plan, &mut say);
    }
    if !is_group && is_written(&checked.specification.network.mtu_bytes) {
        let says = "what a path carries the stack finds by itself";
        say("packets", vec![&checked.specification.network.mtu_bytes], says);
    }
    if plan.acknowledge == Acknowledge::Each {
        let low = adus.iter().map(|adu| &adu.profile as &dyn Clausal);
        let low = low.filter(|profile| is_written(*profile));
        say(
            "acknowledgement",
            low.collect(),
            "goes when the machine sends it, not for each packet",
        );
    }
    if plan.adus.iter().any(|adu| adu.execution != Execution::Integrated) {
        let machine = &checked.specification.platform.machine;
        say("data pass", vec![machine], "runs integrated");
    }
    for (adu, of) in adus.iter().zip(&plan.adus) {
        ordered(plan, (adu, of), &mut say);
        if is_written(&adu.priority) {
            say("priority", vec![&adu.priority], "what is sent first goes first");
        }
        if of.is_replayable {
            say("replay", vec![&adu.replayable], "answers are kept, as of every request");
        }
        if is_called(plan, of) {
            if of.order != Order::None {
                say(
                    "order",
                    vec![&adu.order],
                    "calls overtake each other, and what is on the stream",
                );
            }
        } else if of.deadline_us.is_some() && of.late == Late::Deliver && !is_group {
            let says = "no receiver of what is no answer is told that it is late";
            say("lateness", vec![&adu.deadline_ms], says);
        }
        for rate in [&adu.rate_hz, &adu.bitrate_kbit] {
            // What a group is sent once is held to its rate.
            if is_written(rate) && (!is_group || group::is_resent(of)) {
                say("rate", vec![rate], "is what the choice counts with; no sender is held to it");
            }
        }
    }
    all
}

/// Where more is in order than was asked for: what waits for what it need not wait for is late, and never wrong.
fn ordered(
    plan: &Plan,
    (adu, of): (&Adu, &AduPlan),
    say: &mut impl FnMut(&'static str, Vec<&dyn Clausal>, &str),
) {
    let is_group = plan.machine == Machine::Group;
    // What goes the same way, and can be waited for: what a group is sent once is not, nor what goes in datagrams.
    let is_there = |other: &AduPlan| {
        let is_waited_for = !is_group || group::is_resent(other);
        shares(of, other) && !is_called(plan, other) && is_waited_for && is_streamed(plan, other)
    };
    if is_called(plan, of) || !is_there(of) {
        return;
    }
    let others = || plan.adus.iter().filter(|other| other.number != of.number && is_there(other));
    let is_asked = |other: &AduPlan| {
        of.after.contains(&other.number) || of.order == Order::All && other.order == Order::All
    };
    if !of.after.is_empty() && others().any(|other| !is_asked(other)) {
        let says = "waits for all that was sent before it, of types that it does not name, too";
        say("order", vec![&adu.after], says);
    }
    let is_more = match of.order {
        Order::Type => others().next().is_some(),
        Order::None => is_group,
        Order::All | Order::Newest => false,
    };
    if of.order == Order::None && of.is_cut && !is_group {
        let says =
            "one that is longer than a packet comes when all that was sent before it is there";
        say("order", vec![&adu.order], says);
    }
    if is_more {
        say(
            "order",
            vec![&adu.order],
            "as all types were sent: what is lost of another holds it up",
        );
    }
}

/// The same, of groups alone.
fn of_group(
    checked: &Checked,
    plan: &Plan,
    say: &mut impl FnMut(&'static str, Vec<&dyn Clausal>, &str),
) {
    let shape: &dyn Clausal = &checked.specification.peers.shape;
    if plan.adus.iter().any(group::is_resent) {
        let says = "what is sent again goes with XTP's own: a packet that was damaged is missed before it is acknowledged";
        say("sum", vec![shape], says);
    }
    let says = "both streams keep to the rates that the network's clauses allow, whatever is lost: no breaker stops what is sent once, as nobody answers it, nor what is sent again, which lets go who falls behind";
    say("congestion control", vec![shape], says);
}
