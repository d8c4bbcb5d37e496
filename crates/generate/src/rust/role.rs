//! The items of a role: its end, the two halves of it, and what comes to it.

use fusewire_asn1::rust::camel;

use super::ends::{Adu, Kind, Writer};
use crate::plan::{Late, Machine};

/// Where the calls of an end stand.
#[derive(Clone, Copy)]
pub(super) struct Half {
    /// What sends.
    sending: Option<&'static str>,
    /// What receives.
    receiving: Option<&'static str>,
}

const WHOLE: Half =
    Half { sending: Some("self.stream.sending"), receiving: Some("self.stream.receiving") };
/// Of an end over datagrams.
pub(super) const SESSION: Half =
    Half { sending: Some("self.session"), receiving: Some("self.session") };
const SENDER: Half = Half { sending: Some("self.sending"), receiving: None };
const RECEIVER: Half = Half { sending: None, receiving: Some("self.receiving") };

impl Writer<'_> {
    pub(super) fn end(&mut self, role: usize) {
        let name = camel(&self.plan.roles[role]);
        self.item(role, "", "stream", &format!("service::Stream<{name}>"));
        writeln!(self, "impl {name} {{");
        self.opens(role, &name);
        self.calls(role, &name, WHOLE);
        writeln!(self);
        writeln!(self, "/// What sends and asks, and what receives, each for a thread of its own.");
        writeln!(self, "pub fn split(self) -> ({name}Sender, {name}Receiver) {{");
        writeln!(self, "let service::Stream {{ sending, receiving }} = self.stream;");
        writeln!(self, "({name}Sender {{ sending }}, {name}Receiver {{ receiving }})");
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(
            self,
            "/// What a [`{name}`] sends and asks; copies of it do so beside each other."
        );
        writeln!(self, "#[derive(Clone)]");
        writeln!(self, "pub struct {name}Sender {{ sending: service::stream::Sending<{name}> }}");
        writeln!(self);
        writeln!(self, "impl {name}Sender {{");
        self.calls(role, &name, SENDER);
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// What comes to a [`{name}`].");
        writeln!(
            self,
            "pub struct {name}Receiver {{ receiving: service::stream::Receiving<{name}> }}"
        );
        writeln!(self);
        writeln!(self, "impl {name}Receiver {{");
        self.calls(role, &name, RECEIVER);
        writeln!(self, "}}");
        self.alternatives(role, &name);
    }

    pub(super) fn opens(&mut self, role: usize, name: &str) {
        let other = camel(&self.plan.roles[1 - role]);
        let (module, listener) = match self.plan.machine {
            Machine::Datagram => ("datagram::session", "datagram::session::Listener"),
            _ => ("stream", "Listener"),
        };
        let identity = "at: std::net::SocketAddr, identity: std::sync::Arc<service::Identity>";
        if role == 0 {
            writeln!(
                self,
                "/// Opens the session with the [`{other}`] at an address, which has this key."
            );
            self.errors(&["Differs", "Stack"]);
            writeln!(
                self,
                "pub fn connect({identity}, key: service::Fingerprint) -> service::Result<{name}> {{"
            );
            writeln!(self, "service::{module}::connect(at, identity, key)");
        } else {
            writeln!(
                self,
                "/// Takes sessions at an address, of each [`{other}`] that is allowed."
            );
            self.errors(&["Stack"]);
            writeln!(
                self,
                "pub fn listen({identity}, allow: service::Allow) -> service::Result<service::{listener}<{name}>> {{"
            );
            writeln!(self, "service::{listener}::bind(at, identity, allow)");
        }
        writeln!(self, "}}");
    }

    /// All calls of an end or of a half of it.
    fn calls(&mut self, role: usize, name: &str, half: Half) {
        if let Some(sending) = half.sending {
            self.sends(role, sending);
            self.asks(role, sending);
        }
        if let Some(receiving) = half.receiving {
            self.takes(role, name, receiving);
        }
        self.ends(half);
    }

    fn sends(&mut self, role: usize, sending: &str) {
        for adu in self.of(role, Kind::Message) {
            let Adu { camel, snake, plan, .. } = adu;
            let ty = adu.ty("'_");
            let expires = plan.deadline_us.is_some() && plan.late == Late::Drop;
            writeln!(self);
            writeln!(self, "/// Sends one; returns when it is on its way.");
            let expired = if expires { &["Expired"][..] } else { &[] };
            self.errors(&[&["Codec", "TooLong"], expired, &["Stack"]].concat());
            writeln!(self, "pub fn send_{snake}(&self, value: &{ty}) -> service::Result<()> {{");
            writeln!(self, "{sending}.send::<adu::{camel}, _>(value)");
            writeln!(self, "}}");
        }
    }

    fn asks(&mut self, role: usize, sending: &str) {
        for adu in self.of(role, Kind::Request) {
            let Some(answer) = self.answer(adu) else { continue };
            let Adu { camel, snake, .. } = adu;
            let (ty, answer, answer_ty) = (adu.ty("'_"), &answer.camel, answer.ty("'_"));
            writeln!(self);
            writeln!(self, "/// Asks, and waits for the answer.");
            self.errors(&["Codec", "TooLong", "Expired", "Stack"]);
            writeln!(
                self,
                "pub fn ask_{snake}(&mut self, value: &{ty}) -> service::Result<{answer_ty}> {{"
            );
            writeln!(self, "let answer = {sending}.call::<adu::{camel}, _>(value)?;");
            writeln!(self, "service::stream::read::<adu::{answer}, _>(answer)");
            writeln!(self, "}}");
        }
        let delivers =
            |adu: &Adu<'_>| adu.plan.deadline_us.is_some() && adu.plan.late == Late::Deliver;
        if self.of(role, Kind::Request).any(delivers) {
            writeln!(self);
            writeln!(self, "/// Whether the last answer came after the deadline of its request.");
            writeln!(self, "pub fn is_late(&self) -> bool {{");
            writeln!(self, "{sending}.is_late()");
            writeln!(self, "}}");
        }
    }

    fn takes(&mut self, role: usize, name: &str, receiving: &str) {
        let errors = ["Codec", "Unknown", "TooLong", "Stack"];
        let gets = self.of(1 - role, Kind::Message).next().is_some();
        let is_asked = self.of(1 - role, Kind::Request).next().is_some();
        if gets {
            let lifetime = self.lifetime(1 - role, &[Kind::Message], "'_");
            writeln!(self);
            writeln!(
                self,
                "/// The next ADU of the peer's, which stays until the next call; `None` after its last."
            );
            self.errors(&errors);
            writeln!(
                self,
                "pub fn recv(&mut self) -> service::Result<Option<To{name}{lifetime}>> {{"
            );
            writeln!(
                self,
                "let Some((number, adu)) = {receiving}.recv()? else {{ return Ok(None) }};"
            );
            writeln!(self, "To{name}::read(number, adu).map(Some)");
            writeln!(self, "}}");
        }
        if is_asked {
            let lifetime = self.lifetime(1 - role, &[Kind::Request], "'_");
            writeln!(self);
            writeln!(
                self,
                "/// What the peer asks next, and what it is answered by; `None` when it has ended."
            );
            self.errors(&errors);
            writeln!(
                self,
                "pub fn next_call(&mut self) -> service::Result<Option<Ask{name}{lifetime}>> {{"
            );
            writeln!(
                self,
                "let Some((number, adu, answer)) = {receiving}.next_call()? else {{ return Ok(None) }};"
            );
            writeln!(self, "Ask{name}::read(number, adu, answer).map(Some)");
            writeln!(self, "}}");
        }
        if gets && is_asked {
            let lifetime = self.lifetime(1 - role, &[Kind::Message, Kind::Request], "'_");
            writeln!(self);
            writeln!(
                self,
                "/// What the peer sends or asks next, in turns where both have come, for at most so long; `None` when it has \
                 ended."
            );
            self.errors(&errors);
            writeln!(
                self,
                "pub fn next(&mut self, timeout: Option<std::time::Duration>) -> service::Result<Option<Next{name}{lifetime}>> {{"
            );
            writeln!(
                self,
                "let Some(next) = {receiving}.next(timeout)? else {{ return Ok(None) }};"
            );
            writeln!(self, "Ok(Some(match next {{");
            writeln!(
                self,
                "service::stream::Next::Adu(number, adu) => Next{name}::To(To{name}::read(number, adu)?),"
            );
            writeln!(
                self,
                "service::stream::Next::Call(number, adu, answer) => Next{name}::Ask(Ask{name}::read(number, adu, answer)?),"
            );
            writeln!(self, "}}))");
            writeln!(self, "}}");
        }
    }

    /// Calls about the session itself.
    pub(super) fn ends(&mut self, half: Half) {
        let Some(any) = half.sending.or(half.receiving) else { return };
        writeln!(self);
        writeln!(self, "/// The peer's key.");
        writeln!(self, "pub fn peer(&self) -> service::Fingerprint {{");
        writeln!(self, "{any}.connection().peer()");
        writeln!(self, "}}");
        writeln!(self);
        let is_stream = self.plan.machine != Machine::Datagram;
        let then = match is_stream {
            true => "all calls fail from now on, here and there",
            false => "there `Ended` is told, and what is sent from now on is for nobody",
        };
        writeln!(
            self,
            "/// Gives the session up, and says why in a number of the application's: {then}."
        );
        writeln!(self, "pub fn close(&self, code: u64) {{");
        writeln!(self, "{any}.connection().close(code);");
        writeln!(self, "}}");
        let Some(receiving) = half.receiving else {
            writeln!(self);
            writeln!(self, "/// Ends this side in order; the receiver goes on.");
            writeln!(self, "pub fn finish(&self) {{");
            writeln!(self, "{any}.finish();");
            writeln!(self, "}}");
            return;
        };
        writeln!(self);
        let senders = if half.sending.is_none() { ", whose senders send no more" } else { "" };
        let waits = match is_stream {
            true => ", and waits until the peer has everything and has ended its own.",
            false => ", and waits until the peer has ended its own; what waits to be sent is not.",
        };
        writeln!(self, "/// Ends this side{senders}{waits}");
        self.errors(&["Stack"]);
        writeln!(self, "pub fn finish(self) -> service::Result<()> {{");
        writeln!(self, "{receiving}.finish()");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// The same, for at most so long.");
        self.errors(&["Stack"]);
        writeln!(
            self,
            "pub fn finish_timeout(self, timeout: std::time::Duration) -> service::Result<()> {{"
        );
        writeln!(self, "{receiving}.finish_timeout(timeout)");
        writeln!(self, "}}");
    }

    /// `<'a>` where one of the types that a role sends so borrows.
    pub(super) fn lifetime(&self, role: usize, kinds: &[Kind], lifetime: &str) -> String {
        let borrows = |kind: &Kind| self.of(role, *kind).any(|adu| adu.borrows);
        if kinds.iter().any(borrows) { format!("<{lifetime}>") } else { String::new() }
    }

    /// What comes to a role.
    pub(super) fn alternatives(&mut self, role: usize, name: &str) {
        let other = 1 - role;
        let mut both = Vec::new();
        for (kind, prefix, what) in
            [(Kind::Message, "To", "gets"), (Kind::Request, "Ask", "is asked")]
        {
            if self.of(other, kind).next().is_none() {
                continue;
            }
            let lifetime = self.lifetime(other, &[kind], "'a");
            both.push(format!("{prefix}({prefix}{name}{lifetime}),"));
            writeln!(self);
            writeln!(self, "/// What a [`{name}`] {what}.");
            writeln!(self, "#[derive(Debug)]");
            writeln!(self, "pub enum {prefix}{name}{lifetime} {{");
            for adu in self.of(other, kind) {
                let (camel, ty) = (&adu.camel, adu.ty("'a"));
                let answer = match kind {
                    Kind::Request => format!(", Answer{camel}"),
                    Kind::Message => String::new(),
                };
                writeln!(self, "/// `{camel}`.");
                writeln!(self, "{camel}({ty}{answer}),");
            }
            writeln!(self, "}}");
            self.read(other, kind, &format!("{prefix}{name}{lifetime}"), &lifetime);
        }
        if both.len() == 2 {
            let lifetime = self.lifetime(other, &[Kind::Message, Kind::Request], "'a");
            writeln!(self);
            writeln!(self, "/// What comes to a [`{name}`].");
            writeln!(self, "#[derive(Debug)]");
            writeln!(self, "pub enum Next{name}{lifetime} {{");
            for (says, alternative) in ["It gets this.", "It is asked this."].iter().zip(both) {
                writeln!(self, "/// {says}");
                writeln!(self, "{alternative}");
            }
            writeln!(self, "}}");
        }
    }

    /// The alternative of a number.
    fn read(&mut self, role: usize, kind: Kind, name: &str, lifetime: &str) {
        let (answer, answers) = match kind {
            Kind::Request => (", answer: service::stream::Answer", true),
            Kind::Message => ("", false),
        };
        let bytes = if lifetime.is_empty() { "&[u8]" } else { "&'a [u8]" };
        writeln!(self);
        writeln!(self, "impl{lifetime} {name} {{");
        writeln!(self, "fn read(number: u8, adu: {bytes}{answer}) -> service::Result<{name}> {{");
        writeln!(self, "Ok(match number {{");
        for Adu { camel, plan, .. } in self.of(role, kind) {
            let number = plan.number;
            let answer =
                if answers { format!(", Answer{camel} {{ answer }}") } else { String::new() };
            writeln!(
                self,
                "{number} => Self::{camel}(service::stream::read::<adu::{camel}, _>(adu)?{answer}),"
            );
        }
        writeln!(self, "number => return service::stream::unknown(number),");
        writeln!(self, "}})");
        writeln!(self, "}}");
        writeln!(self, "}}");
    }
}
