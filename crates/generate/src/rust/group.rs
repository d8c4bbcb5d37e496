//! The ends of a group: one that sends, and the one that each receiver has.

use fusewire_asn1::rust::{camel, snake};

use super::ends::{Kind, Writer};
use crate::plan::{AduPlan, Late, Plan, Resend};

/// Buckets are filled by the mean rate, and timers of applications are not even.
const UNEVEN: f64 = 1.25;
/// Bytes of memory of a stream at least: some packets.
pub const BUFFER_MIN: u64 = 64 << 10;

/// Whether ADUs of a type are sent again until they have arrived.
pub fn is_resent(adu: &AduPlan) -> bool {
    adu.resend == Resend::Selective
}

/// Bytes a second that all that is sent once may make, with all headers; `None`: nobody says.
pub fn once(plan: &Plan) -> Option<f64> {
    let once = plan.adus.iter().filter(|adu| !is_resent(adu));
    once.map(|adu| adu.bucket.map(|bucket| bucket.bytes_per_s as f64)).sum()
}

/// What a type has beside what every end has of it.
pub fn fields(of: &AduPlan) -> Vec<String> {
    if is_resent(of) {
        return Vec::new();
    }
    let mut fields = vec!["is_resent: false".to_owned(), format!("loss_max: {:?}", of.loss)];
    fields.extend(of.loss_run.map(|run| format!("loss_run: Some({run})")));
    fields
}

/// Bytes a second of what is sent again, and of what is not; `None`: nobody says the network's rate.
pub fn rates(plan: &Plan) -> Option<[u32; 2]> {
    // More than a rate can be in XTP is none that somebody has said.
    let allowed = plan.group.as_ref()?.rate_bytes_per_s as f64;
    let is_known = allowed < f64::from(u32::MAX);
    let buckets = once(plan);
    if buckets.is_none() && !is_known {
        return None;
    }
    // What is sent again needs its part for repairs and bursts.
    let most = if plan.adus.iter().any(is_resent) { allowed / 2.0 } else { allowed };
    let once = buckets.map_or(most, |buckets| (buckets * UNEVEN).min(most));
    let again = allowed - once;
    Some([again, once].map(|rate| rate.clamp(1.0, f64::from(u32::MAX)) as u32))
}

/// Bytes of memory of what is sent again, at least.
pub fn buffer(plan: &Plan) -> u64 {
    plan.ring_bytes.max(BUFFER_MIN)
}

impl Writer<'_> {
    /// What of a profile is of groups.
    pub fn of_group(&mut self) {
        let plan = self.plan;
        let Some(group) = plan.group else { return };
        let [again, once] = rates(plan).unwrap_or([u32::MAX; 2]);
        let floor = u32::try_from(group.floor_bytes_per_s).unwrap_or(u32::MAX);
        let buffer = buffer(plan);
        let (fewest, most) = group.receivers;
        writeln!(self, "const MTU: usize = {};", plan.mtu_bytes);
        self.network_constant();
        writeln!(self, "const RECEIVERS: (usize, usize) = ({fewest}, {most});");
        writeln!(self, "const FLOOR: u32 = {floor};");
        writeln!(self, "const CAST_RATES: [u32; 2] = [{again}, {once}];");
        writeln!(self, "const CAST_BUFFERS: [usize; 2] = [{buffer}, {BUFFER_MIN}];");
    }

    /// The end that sends, or that receives.
    pub fn end_of_group(&mut self, role: usize) {
        let name = camel(&self.plan.roles[role]);
        let kind = if role == 0 { "Sender" } else { "Receiver" };
        let inner = format!("service::group::{kind}<{name}>");
        let does = if role == 0 { ", which sends to all" } else { ", one of many" };
        self.item(role, does, "end", &inner);
        writeln!(self, "impl {name} {{");
        match role {
            0 => self.sender_of_group(&name),
            _ => self.receiver_of_group(&name),
        }
        writeln!(self, "}}");
        if role == 1 {
            self.alternatives(1, &name);
        }
    }

    fn sender_of_group(&mut self, name: &str) {
        let other = camel(&self.plan.roles[1]);
        writeln!(
            self,
            "/// Begins: each [`{other}`] may come that is allowed, and of this specification."
        );
        self.errors(&["Stack"]);
        writeln!(
            self,
            "pub fn open(place: &service::group::Place, identity: std::sync::Arc<service::Identity>, allow: service::Allow) -> service::Result<{name}> {{"
        );
        writeln!(
            self,
            "Ok({name} {{ end: service::group::Sender::open(place, identity, allow)? }})"
        );
        writeln!(self, "}}");
        for adu in self.of(0, Kind::Message) {
            let (ty, is_resent) = (adu.ty("'_"), is_resent(adu.plan));
            let expires = adu.plan.deadline_us.is_some() && adu.plan.late == Late::Drop;
            let expired = if is_resent && expires { &["Expired"][..] } else { &[] };
            let says = match is_resent {
                true => "Sends one, again until each has it. False: nobody is there.",
                false => "Sends one, once. False: there is no room for it now.",
            };
            writeln!(self);
            writeln!(self, "/// {says}");
            self.errors(&[&["Codec", "TooLong"], expired, &["Stack"]].concat());
            writeln!(
                self,
                "pub fn send_{}(&self, value: &{ty}) -> service::Result<bool> {{",
                adu.snake
            );
            writeln!(self, "self.end.send::<adu::{}, _>(value)", adu.camel);
            writeln!(self, "}}");
        }
        for (doc, call, result) in [
            (
                format!("Where each [`{other}`] finds its session."),
                "local_addr(&self)",
                "std::net::SocketAddr",
            ),
            (format!("How many [`{other}`]s are there."), "receivers(&self)", "usize"),
            (
                format!("Waits until as many [`{other}`]s are there as there must be."),
                "wait_for_receivers(&self, timeout: std::time::Duration)",
                "service::Result<()>",
            ),
            (
                "Who has come, or has left; `None`: nobody, in this time.".to_owned(),
                "next_event(&self, timeout: std::time::Duration)",
                "service::Result<Option<service::group::Event>>",
            ),
            (
                "Who has this key is let go, and reads nothing that is sent from now on."
                    .to_owned(),
                "remove(&self, peer: service::Fingerprint)",
                "()",
            ),
            (
                "Sends no more, and waits until each has what must arrive, or was let go."
                    .to_owned(),
                "finish(self, timeout: std::time::Duration)",
                "service::Result<()>",
            ),
        ] {
            self.forwarded(&doc, call, result);
        }
    }

    /// A call that the end's inner part answers.
    fn forwarded(&mut self, doc: &str, call: &str, result: &str) {
        let (name, rest) = call.split_once('(').unwrap_or((call, ""));
        let arguments = rest.trim_end_matches(')').split(", ").skip(1);
        let arguments = arguments.map(|argument| argument.split(':').next().unwrap_or_default());
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        writeln!(self);
        writeln!(self, "/// {doc}");
        if result.starts_with("service::Result") {
            self.errors(&["Stack"]);
        }
        let (result, end) = match result {
            "()" => (String::new(), ";"),
            result => (format!(" -> {result}"), ""),
        };
        writeln!(self, "pub fn {call}{result} {{");
        writeln!(self, "self.end.{name}({arguments}){end}");
        writeln!(self, "}}");
    }

    /// The key of an ADU, where one of the types has one.
    fn keys(&self, name: &str) -> Option<String> {
        let all: Vec<_> = self.of(0, Kind::Message).collect();
        let keyed = all.iter().filter_map(|adu| {
            let component = snake(adu.plan.newest.as_ref()?);
            let camel = &adu.camel;
            Some(format!("To{name}::{camel}(adu) => service::group::key_of(&adu.{component}), "))
        });
        let keyed: Vec<_> = keyed.collect();
        let others = if keyed.len() < all.len() { "_ => 0, " } else { "" };
        let arms = keyed.concat();
        let read = format!("To{name}::read(number, adu).ok()?");
        (!keyed.is_empty()).then(|| format!("Some(match {read} {{ {arms}{others}}})"))
    }

    fn receiver_of_group(&mut self, name: &str) {
        let other = camel(&self.plan.roles[0]);
        let lifetime = self.lifetime(0, &[Kind::Message], "'_");
        writeln!(
            self,
            "/// Becomes one of those that the [`{other}`] sends to which has its sessions at an address, and this key. `interface`"
        );
        writeln!(self, "/// leads to the group, by name; or else the kernel chooses.");
        self.errors(&["Differs", "Full", "Stack"]);
        writeln!(
            self,
            "pub fn join(at: std::net::SocketAddr, interface: Option<&str>, identity: std::sync::Arc<service::Identity>, key: service::Fingerprint) -> service::Result<{name}> {{"
        );
        writeln!(
            self,
            "Ok({name} {{ end: service::group::Receiver::join(at, interface, identity, key)? }})"
        );
        writeln!(self, "}}");
        for (call, arguments, timeout, says) in [
            (
                "recv",
                "",
                "None",
                "The next ADU, which stays until the next call; `None` after the last.",
            ),
            (
                "recv_timeout",
                ", timeout: std::time::Duration",
                "Some(timeout)",
                "The same, if it comes in this time; else the error is `Elapsed`.",
            ),
        ] {
            writeln!(self);
            writeln!(self, "/// {says}");
            if call == "recv" {
                writeln!(
                    self,
                    "/// Only who calls hears the group: who stays away for two seconds is let go."
                );
            }
            self.errors(&["LetGo", "Group", "Stack"]);
            writeln!(
                self,
                "pub fn {call}(&mut self{arguments}) -> service::Result<Option<To{name}{lifetime}>> {{"
            );
            let recv = match self.keys(name) {
                None => {
                    writeln!(
                        self,
                        "let is_one = |number, adu: &[u8]| To{name}::read(number, adu).is_ok();"
                    );
                    format!("recv({timeout}, is_one)")
                }
                Some(keys) => {
                    writeln!(self, "let key_of = |number, adu: &[u8]| {keys};");
                    format!("recv_by({timeout}, key_of)")
                }
            };
            writeln!(
                self,
                "let Some((number, adu)) = self.end.{recv}? else {{ return Ok(None) }};"
            );
            writeln!(self, "To{name}::read(number, adu).map(Some)");
            writeln!(self, "}}");
        }
        for (doc, call, result) in [
            ("How old the last was when it was handed over.", "age(&self)", "std::time::Duration"),
            ("The last came after its deadline.", "is_late(&self)", "bool"),
            ("What became of what was sent.", "counters(&self)", "service::group::Counters"),
            ("Is one of them no more, and says so.", "leave(self)", "service::Result<()>"),
        ] {
            self.forwarded(doc, call, result);
        }
    }
}
