//! `src/lib.rs`: constants, and an end for each role ([`super::role`]).

use std::fmt;

use fusewire_asn1::rust::{Generated, Lines, camel};

use super::{Error, Input, group, quoted};
use crate::language::names;
use crate::plan::{AduPlan, Codec, Congestion, Late, Machine, Order, Plan, Profile};

/// How long who waits looks for what comes before it sleeps, where a type wants short times: a sleep costs both ends more.
const SPIN_US: u32 = 200;

/// Terms of a session (docs/records.md, section 3, extension 5): of more than these not each could be named.
const TERMS_MAX: usize = 128;

/// All of it.
///
/// # Errors
/// [`Error::NoType`], [`Error::Unsupported`].
pub fn text(input: &Input<'_>, generated: &[Generated]) -> Result<String, Error> {
    let mut adus = Vec::new();
    for plan in &input.plan.adus {
        adus.push(Adu::new(plan, generated)?);
    }
    let mut writer = Writer { input, plan: input.plan, adus: &adus, out: Lines::new() };
    writer.head();
    writer.adu_types();
    match input.plan.machine {
        Machine::Datagram => writer.datagrams(),
        Machine::Group => (0..2).for_each(|role| writer.end_of_group(role)),
        Machine::Tcp | Machine::Xtp => (0..2).for_each(|role| writer.end(role)),
    }
    writer.answer_types();
    if terms(writer.plan).len() > TERMS_MAX {
        return Err(Error::Unsupported("a specification of so many modules".to_owned()));
    }
    writer.clauses();
    // Each item begins behind an empty line, the first of a block too.
    Ok(writer.out.into_text().replace("{\n\n", "{\n"))
}

/// A type of ADU, by its names in Rust.
pub(super) struct Adu<'a> {
    pub plan: &'a AduPlan,
    /// Of its marker and its alternative.
    pub camel: String,
    /// Of its calls.
    pub snake: String,
    /// Its type, without a lifetime.
    pub path: String,
    pub borrows: bool,
    /// Its codec's.
    pub encoding: &'static str,
}

impl<'a> Adu<'a> {
    fn new(plan: &'a AduPlan, generated: &[Generated]) -> Result<Adu<'a>, Error> {
        let (module, name) = (&plan.asn1.0, &plan.asn1.1);
        // A module's text begins with what it is of.
        let of = |g: &&Generated| g.text.starts_with(&format!("//! `{module}`,"));
        let found = generated
            .iter()
            .filter(of)
            .find_map(|g| g.types.iter().find(|ty| ty.asn == *name).map(|ty| (g, ty)));
        let Some((module, ty)) = found else {
            let (adu, ty) = (plan.name.clone(), format!("{module}.{name}"));
            return Err(Error::NoType { adu, ty });
        };
        Ok(Adu {
            plan,
            camel: camel(&plan.name),
            snake: names::of_call(&plan.name),
            path: format!("types::{}::{}", module.name, ty.rust),
            borrows: ty.borrows,
            encoding: match plan.codec {
                Codec::Lws => "service::codec::pipeline::Lws<u32>",
                Codec::Xdr => "service::codec::pipeline::Xdr",
                Codec::Oer => "service::codec::pipeline::Oer",
                Codec::Ber | Codec::Der => {
                    return Err(Error::Unsupported("BER and DER of ADUs".to_owned()));
                }
            },
        })
    }

    pub fn ty(&self, lifetime: &str) -> String {
        if self.borrows { format!("{}<{lifetime}>", self.path) } else { self.path.clone() }
    }
}

pub(super) struct Writer<'a> {
    pub input: &'a Input<'a>,
    pub plan: &'a Plan,
    pub adus: &'a [Adu<'a>],
    out: Lines,
}

impl<'a> Writer<'a> {
    /// What `writeln!` calls.
    pub fn write_fmt(&mut self, lines: fmt::Arguments<'_>) {
        self.out.write_fmt(lines);
    }

    /// Types that a role sends by themselves, or those that it asks with.
    pub fn of(&self, role: usize, kind: Kind) -> impl Iterator<Item = &'a Adu<'a>> + use<'a> {
        let plan = self.plan;
        self.adus.iter().filter(move |adu| {
            let is_kind = match kind {
                Kind::Message => adu.plan.reply.is_none() && !is_answer(plan, adu),
                Kind::Request => adu.plan.reply.is_some(),
            };
            is_kind && adu.plan.from.is(role)
        })
    }

    /// The type that answers one.
    pub fn answer(&self, adu: &Adu<'_>) -> Option<&'a Adu<'a>> {
        self.adus.iter().find(|answer| Some(answer.plan.number) == adu.plan.reply)
    }

    /// The part of a doc comment that says what may go wrong.
    pub(super) fn errors(&mut self, errors: &[&str]) {
        let link = |error: &&str| format!("[`service::Error::{error}`]");
        let links: Vec<_> = errors.iter().map(link).collect();
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// {}.", links.join("; "));
    }

    fn head(&mut self) {
        let (plan, specification) = (self.plan, &self.input.specification);
        let carrier = match plan.machine {
            Machine::Xtp => "XTP",
            Machine::Datagram if super::datagrams::has_beside(plan) => {
                "datagrams, and TCP beside them"
            }
            Machine::Datagram => "datagrams",
            Machine::Group => "XTP to a group",
            _ => "TCP",
        };
        let roles = plan.roles.iter().map(|r| format!("[`{}`]", camel(r))).collect::<Vec<_>>();
        writeln!(self, "//! The ends of `{}`, {}, over {carrier}.", plan.name, roles.join(" and "));
        writeln!(self, "//!");
        writeln!(
            self,
            "//! Generated by `fusewire generate` from {specification}. Changes here are lost."
        );
        writeln!(self, "//! What was chosen, and why, is in EXPLAIN.md.");
        writeln!(self, "#![forbid(unsafe_code)]");
        writeln!(self);
        writeln!(self, "/// The types of the ASN.1 modules, and their codecs.");
        writeln!(self, "pub mod types;");
        writeln!(self);
        writeln!(self, "use fusewire_service as service;");
        let of = if plan.machine == Machine::Datagram { "datagram::" } else { "" };
        writeln!(self, "pub use service::{of}ends::*;");
        if plan.machine == Machine::Group {
            writeln!(self, "pub use service::group::ends::*;");
        }
        let mut modules: Vec<String> = self.adus.iter().map(|adu| adu.path.clone()).collect();
        modules.sort();
        modules.dedup();
        writeln!(self);
        let alone: Vec<_> = modules.iter().filter(|path| self.is_alone(path, &modules)).collect();
        for path in alone {
            writeln!(self, "pub use {path};");
        }
    }

    /// Whether the last name of a type's path is nothing else in the crate, so that it may stand beside the ends.
    fn is_alone(&self, path: &str, paths: &[String]) -> bool {
        let last = |path: &str| path.rsplit("::").next().map(str::to_owned);
        let name = last(path);
        let is_ours = |ours: &String| Some(ours) == name.as_ref();
        name.as_deref() != Some("CLAUSES")
            && !self
                .plan
                .roles
                .iter()
                .flat_map(|role| names::of_role(role))
                .any(|ours| is_ours(&ours))
            && !self.adus.iter().any(|adu| is_ours(&names::of_answer(&adu.plan.name)))
            && paths.iter().filter(|path| last(path) == name).count() == 1
    }

    fn adu_types(&mut self) {
        writeln!(self);
        writeln!(self, "/// The types of ADU, as their clauses have it.");
        writeln!(self, "pub mod adu {{");
        writeln!(self, "use fusewire_service as service;");
        for adu in self.adus {
            let (plan, name, encoding) = (adu.plan, &adu.camel, adu.encoding);
            let deadline =
                plan.deadline_us.map(|us| format!("Some(std::time::Duration::from_micros({us}))"));
            let mut fields = Vec::new();
            if plan.order != Order::All {
                fields.push(format!("order: service::profile::Order::{:?}", plan.order));
            }
            let after: u64 = plan.after.iter().map(|number| 1 << number).sum();
            if after != 0 {
                fields.push(format!("after: {after:#b}"));
            }
            if let Some(deadline) = deadline {
                fields.push(format!("deadline: {deadline}"));
                fields.push(format!("drops_late: {}", plan.late == Late::Drop));
            }
            fields.push(format!("len_max: {}", plan.size_bytes.1));
            if self.plan.machine == Machine::Datagram
                && !super::datagrams::is_beside(self.plan, plan)
            {
                fields.extend(super::datagrams::fields(self.plan, plan));
            }
            if self.plan.machine == Machine::Group {
                fields.extend(group::fields(plan));
            }
            if let Some(number) = plan.reply {
                fields.push(format!("answered_by: Some({number})"));
            } else if is_answer(self.plan, adu) {
                fields.push("is_answer: true".to_owned());
            }
            writeln!(self);
            writeln!(self, "/// `{}`.", plan.name);
            writeln!(self, "#[derive(Debug)]");
            writeln!(self, "pub enum {name} {{}}");
            writeln!(self);
            writeln!(self, "impl service::profile::AduType for {name} {{");
            writeln!(self, "type Encoding = {encoding};");
            writeln!(self, "const ADU: service::profile::Adu = service::profile::Adu {{");
            for field in fields {
                writeln!(self, "{field},");
            }
            writeln!(self, "..service::profile::Adu::new({}, {})", quoted(&plan.name), plan.number);
            writeln!(self, "}};");
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    /// The end of a role: what it is made of, by which field, and its constants.
    pub(super) fn item(&mut self, role: usize, says: &str, field: &str, inner: &str) {
        let name = camel(&self.plan.roles[role]);
        writeln!(self);
        writeln!(self, "/// The end of the role `{}`{says}.", self.plan.roles[role]);
        writeln!(self, "pub struct {name} {{ {field}: {inner} }}");
        self.profile(role, &name);
        writeln!(self);
        writeln!(self, "impl std::convert::From<{inner}> for {name} {{");
        writeln!(self, "fn from({field}: {inner}) -> {name} {{");
        writeln!(self, "{name} {{ {field} }}");
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self);
    }

    fn profile(&mut self, role: usize, name: &str) {
        let plan = self.plan;
        let [sends, takes] = [role, 1 - role].map(|role| self.list(role, false));
        writeln!(self);
        writeln!(self, "impl service::profile::Profile for {name} {{");
        writeln!(self, "const NAME: &'static str = {};", quoted(&plan.name));
        writeln!(self, "const CLAUSES: &'static [&'static str] = CLAUSES;");
        writeln!(
            self,
            "const MACHINE: service::profile::Machine = service::profile::Machine::{:?};",
            plan.machine
        );
        writeln!(self, "const SENDS: &'static [service::profile::Adu] = {sends};");
        writeln!(self, "const TAKES: &'static [service::profile::Adu] = {takes};");
        if plan.dscp != 0 {
            writeln!(self, "const DSCP: u8 = {};", plan.dscp);
        }
        match plan.machine {
            Machine::Datagram => self.of_datagrams(role),
            Machine::Group => {
                self.of_stream();
                self.of_group();
            }
            Machine::Tcp | Machine::Xtp => self.of_stream(),
        }
        writeln!(self, "}}");
    }

    /// Types that a role sends: those beside datagrams, or all others.
    pub(super) fn list(&self, role: usize, is_beside: bool) -> String {
        let plan = self.plan;
        let is_one = |adu: &AduPlan| super::datagrams::is_beside(plan, adu) == is_beside;
        let sent = self.adus.iter().filter(|adu| adu.plan.from.is(role) && is_one(adu.plan));
        let all: Vec<_> = sent
            .map(|adu| format!("<adu::{} as service::profile::AduType>::ADU", adu.camel))
            .collect();
        format!("&[{}]", all.join(", "))
    }

    /// What of a profile is of records in a stream.
    fn of_stream(&mut self) {
        let congestion = match self.plan.congestion {
            Congestion::Bbr => "Bbr",
            Congestion::NewReno => "NewReno",
            _ => "Cubic",
        };
        writeln!(
            self,
            "const CONGESTION: service::Congestion = service::Congestion::{congestion};"
        );
        writeln!(self, "const CIPHERS: &'static [service::Cipher] = &service::Cipher::DEFAULT;");
        self.waits();
    }

    /// Whether short ADUs in a stream wait for others, and who waits for them sleeps.
    pub(super) fn waits(&mut self) {
        // Who packs waits for nothing, but a packet of several is there when its last is.
        if is_low_latency(self.plan) {
            writeln!(self, "const PACKS: bool = false;");
            writeln!(
                self,
                "const SPIN: std::time::Duration = std::time::Duration::from_micros({SPIN_US});"
            );
        }
    }

    /// What answers each request, whichever ends ask.
    fn answer_types(&mut self) {
        for adu in self.adus {
            let Some(answer) = self.answer(adu) else { continue };
            let (camel, answer, answer_ty) = (&adu.camel, &answer.camel, answer.ty("'_"));
            writeln!(self);
            writeln!(self, "/// Answers one `{camel}`; dropped, it refuses.");
            writeln!(self, "#[derive(Debug)]");
            writeln!(self, "pub struct Answer{camel} {{ answer: service::stream::Answer }}");
            writeln!(self);
            writeln!(self, "impl Answer{camel} {{");
            writeln!(self, "/// With this.");
            self.errors(&["Codec", "TooLong", "Stack"]);
            writeln!(self, "pub fn send(self, value: &{answer_ty}) -> service::Result<()> {{");
            writeln!(self, "self.answer.send::<adu::{answer}, _>(value)");
            writeln!(self, "}}");
            writeln!(self, "}}");
        }
    }

    fn clauses(&mut self) {
        writeln!(self);
        writeln!(
            self,
            "/// What both ends must have alike; who has not is refused, and told the first that differs."
        );
        writeln!(self, "pub const CLAUSES: &[&str] = &[");
        for text in terms(self.plan) {
            writeln!(self, "{},", quoted(&text));
        }
        writeln!(self, "];");
    }
}

/// What both ends must have alike, as they compare it: each clause, and all of a type in one where there are more than a
/// session has terms. Which types there are stands before them, so that it is this that differs where they do.
fn terms(plan: &Plan) -> Vec<String> {
    let names = plan.adus.iter().map(|adu| adu.name.as_str()).collect::<Vec<_>>().join(", ");
    let joins = plan.wire.len() + 1 > TERMS_MAX;
    let mut terms: Vec<(&str, String)> = Vec::new();
    for (at, clause) in plan.wire.iter().enumerate() {
        let text = format!("{} = {}", clause.name, clause.value);
        let mut parts = clause.name.split('.');
        let kind = parts.next();
        let of = parts.next().filter(|of| plan.adus.iter().any(|adu| adu.name == **of));
        let of = of.filter(|_| joins && matches!(kind, Some("adu" | "chosen"))).unwrap_or("");
        match terms.iter_mut().find(|(adu, _)| !of.is_empty() && *adu == of) {
            Some((_, term)) => *term += &format!("; {text}"),
            None => terms.push((of, text)),
        }
        if at == 0 {
            terms.push(("", format!("adu = {names}")));
        }
    }
    terms.into_iter().map(|(_, text)| text).collect()
}

/// Whether somebody waits for an ADU.
fn is_low_latency(plan: &Plan) -> bool {
    let is_low = |adu: &AduPlan| {
        matches!(adu.profile, Profile::LowLatencyInteractive | Profile::LowLatencyNonInteractive)
    };
    plan.adus.iter().any(is_low)
}

/// Whether a type is nothing but an answer.
fn is_answer(plan: &Plan, adu: &Adu<'_>) -> bool {
    plan.adus.iter().any(|asks| asks.reply == Some(adu.plan.number))
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Sent by itself.
    Message,
    /// Answered.
    Request,
}
