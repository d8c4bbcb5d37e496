//! Clauses that cannot hold together whatever the network is like, and clauses that nobody could observe.

use super::reader::Reader;
use super::specification::{Adu, Integrity, Preference, Shape, Specification};
use super::value::{Clausal, Origin};
use crate::plan::{Adapt, Late, Order, Sender};

/// Says which there are.
pub fn check(reader: &mut Reader<'_>, specification: &Specification) {
    shared(reader, specification);
    for adu in &specification.adus {
        reliability(reader, adu);
        times(reader, adu);
        rates(reader, adu);
        protection(reader, adu);
        others(reader, specification, adu);
    }
}

fn is_written(clause: &dyn Clausal) -> bool {
    clause.clause().origin == Origin::Written
}

/// Says that a clause stands against others.
fn against(reader: &mut Reader<'_>, clause: &dyn Clausal, why: &str, help: &str) {
    let (key, text) = (key_of(clause), clause.text());
    reader.error(clause.clause().span, format!("`{key} = {text}` {why}"), help);
}

fn key_of(clause: &dyn Clausal) -> &str {
    clause.clause().name.rsplit('.').next().unwrap_or_default()
}

fn shared(reader: &mut Reader<'_>, of: &Specification) {
    let (network, peers) = (&of.network, &of.peers);
    if is_written(&network.loss_burst)
        && network.loss_burst.value > 1.0
        && network.loss.value == 0.0
    {
        let why = "says how losses come, and `loss` that there are none";
        against(reader, &network.loss_burst, why, "leave it out, or say how much is lost");
    }
    let is_group = peers.shape.value == Shape::Group;
    for clause in [&peers.receivers as &dyn Clausal, &peers.floor_kbit] {
        if is_written(clause) && !is_group {
            against(
                reader,
                clause,
                "is of a group, and there is none",
                "write `shape = \"group\"`",
            );
        }
    }
    if is_group && peers.foreign.is_demanding() {
        let why = "asks for peers that are not ours, and groups are XTP's";
        against(reader, &peers.foreign, why, "leave it out, or be a pair");
    }
}

fn reliability(reader: &mut Reader<'_>, adu: &Adu) {
    let said = match is_written(&adu.reliability) {
        true => "`reliability = \"require\"`",
        false => "`reliability`, which is \"require\" where nothing is written,",
    };
    if adu.reliability.value != Preference::Require {
        return;
    }
    let help = "write `reliability` as \"prefer\", \"none\" or \"avoid\", or leave this out";
    if is_written(&adu.loss) && adu.loss.value > 0.0 {
        against(reader, &adu.loss, &format!("lets some be lost, and {said} none"), help);
    }
    if adu.loss_run.value.is_some_and(|run| run > 0.0) {
        against(reader, &adu.loss_run, &format!("lets some be lost, and {said} none"), help);
    }
    if adu.deadline_ms.value.is_some() && adu.late.value == Late::Drop {
        let why = format!("drops what is late, and {said} lets nothing be lost");
        let help =
            "write `late = \"deliver\"`, or `reliability` as \"prefer\", \"none\" or \"avoid\"";
        let clause: &dyn Clausal = match is_written(&adu.late) {
            true => &adu.late,
            false => &adu.deadline_ms,
        };
        against(reader, clause, &why, help);
    }
    if adu.order.value == Order::Newest {
        let why =
            format!("drops what is older than what was delivered, and {said} lets nothing be lost");
        against(reader, &adu.order, &why, help);
    }
}

fn times(reader: &mut Reader<'_>, adu: &Adu) {
    if is_written(&adu.late) && adu.deadline_ms.value.is_none() {
        against(reader, &adu.late, "says nothing without `deadline_ms`", "say when it is late");
    }
    if adu.deadline_ms.value == Some(0.0) {
        against(reader, &adu.deadline_ms, "leaves no time", "write more than 0, or leave it out");
    }
}

fn rates(reader: &mut Reader<'_>, adu: &Adu) {
    let wants = |what| adu.adapt.value.contains(&what);
    let is_fixed = |range: &Option<super::value::Range>| range.is_none_or(|r| r.low == r.high);
    if wants(Adapt::Quality) && is_fixed(&adu.bitrate_kbit.value) {
        let why = "lowers quality, and `bitrate_kbit` says no range for it";
        against(reader, &adu.adapt, why, "write `bitrate_kbit = [least, most]`");
    }
    if wants(Adapt::Frequency) && is_fixed(&adu.rate_hz.value) {
        let why = "lowers the frequency, and `rate_hz` says no range for it";
        against(reader, &adu.adapt, why, "write `rate_hz = [least, most]`");
    }
    for (clause, range) in [
        (&adu.rate_hz as &dyn Clausal, adu.rate_hz.value),
        (&adu.bitrate_kbit, adu.bitrate_kbit.value),
    ] {
        if range.is_some_and(|r| r.high == 0.0) {
            against(reader, clause, "lets nothing be sent", "say how much is sent at most");
        }
    }
    let least = adu.bitrate_kbit.value.map(|r| r.low * 125.0);
    let hz = adu.rate_hz.value.map(|r| r.high);
    let size = adu.size_bytes.value.map(|r| r.high).or(largest(adu));
    if let (Some(least), Some(hz), Some(size)) = (least, hz, size)
        && least > hz * size
    {
        let why = format!("is more than {hz} ADUs a second of {size} bytes can be");
        against(reader, &adu.bitrate_kbit, &why, "write less, or a higher `rate_hz` or size");
    }
    if let Some(size) = adu.size_bytes.value {
        let least = adu.extents.iter().map(|e| e.low).min().unwrap_or(0);
        if size.high < least as f64 {
            let why = format!("is less than its type takes: {least} bytes at least");
            against(reader, &adu.size_bytes, &why, "write what an encoded value takes");
        }
    }
}

/// The most bytes of a value, if ASN.1 says so.
fn largest(adu: &Adu) -> Option<f64> {
    adu.extents.iter().map(|extent| extent.high).max().flatten().map(|bytes| bytes as f64)
}

fn protection(reader: &mut Reader<'_>, adu: &Adu) {
    let is_secret = adu.confidential.value == Preference::Require;
    let is_authentic = adu.authentic.value == Preference::Require;
    let against_tag = match (is_secret, is_authentic) {
        (true, _) => "`confidential = \"require\"`",
        (_, true) => "`authentic = \"require\"`",
        _ => return,
    };
    if matches!(adu.integrity.value, Integrity::Bytes | Integrity::None) {
        let why = format!("lets changed bytes through, and {against_tag} has a tag that does not");
        let help = "leave it out, or write \"none\" for `confidential` and `authentic`";
        against(reader, &adu.integrity, &why, help);
    }
    if is_secret && adu.authentic.value == Preference::Prohibit {
        let why = "forbids the tag that `confidential = \"require\"` has";
        against(
            reader,
            &adu.authentic,
            why,
            "leave it out: ciphers without a tag hide nothing for long",
        );
    }
}

/// Clauses about other types.
fn others(reader: &mut Reader<'_>, of: &Specification, adu: &Adu) {
    let find = |name: &str| of.adus.iter().find(|other| other.name == name);
    let mut unknown = |clause: &dyn Clausal, name: &str| {
        let names = of.adus.iter().map(|other| other.name.as_str());
        let help = match fusewire_asn1::names::nearest(name, names) {
            Some(meant) => format!("is \"{meant}\" meant?"),
            None => "expected the name of a type of ADU".to_owned(),
        };
        let shown = fusewire_asn1::diagnostic::shortened(name);
        reader.error(clause.clause().span, format!("no type of ADU is called `{shown}`"), help);
    };
    for name in adu.after.value.iter().filter(|name| find(name).is_none()) {
        unknown(&adu.after, name);
    }
    let answer = adu.reply.value.as_deref().map(|name| (name, find(name)));
    if let Some((name, None)) = answer {
        unknown(&adu.reply, name);
    }
    for other in adu.after.value.iter().filter_map(|name| find(name)) {
        if reaches(of, other, &adu.name) {
            let why = "goes in a circle: neither could ever be delivered";
            against(reader, &adu.after, why, "name only types that do not wait for this one");
        } else if other.from.value != adu.from.value {
            let why = format!("waits for `{}`, which the other end sends", other.name);
            against(reader, &adu.after, &why, "name types that the same role sends");
        }
    }
    if let Some((_, Some(reply))) = answer {
        let is_other = match (adu.from.value, reply.from.value) {
            (Sender::Role(a), Sender::Role(b)) => a != b,
            (Sender::Both, Sender::Both) => reply.name != adu.name,
            _ => false,
        };
        if !is_other {
            let help = format!("write `from` of `{}` so that who is asked sends it", reply.name);
            against(reader, &adu.reply, "is not sent by the other end", &help);
        } else if reply.reply.value.is_some() {
            against(
                reader,
                &adu.reply,
                "is a request itself",
                "answer with a type that has no `reply`",
            );
        }
    }
    if is_written(&adu.replayable) && adu.reply.value.is_none() {
        against(reader, &adu.replayable, "is of requests, and this has no `reply`", "leave it out");
    }
    if of.peers.shape.value == Shape::Group {
        if adu.from.value != Sender::Role(0) {
            let help = format!("only \"{}\", the first role, sends to a group", of.roles[0]);
            against(reader, &adu.from, "is none of the group's sender", &help);
        }
        if adu.reply.value.is_some() {
            against(reader, &adu.reply, "asks a group for an answer", "be a pair, or leave it out");
        }
    }
}

/// Whether a type waits for one of that name, itself or through others.
fn reaches(of: &Specification, from: &Adu, name: &str) -> bool {
    let mut waiting = vec![from];
    let mut seen: Vec<&str> = Vec::new();
    while let Some(adu) = waiting.pop() {
        if adu.name == name {
            return true;
        }
        if seen.contains(&adu.name.as_str()) {
            continue;
        }
        seen.push(&adu.name);
        waiting.extend(of.adus.iter().filter(|other| adu.after.value.contains(&other.name)));
    }
    false
}
