//! Clauses that cannot hold together whatever the network is like, and clauses that nobody could observe.

use super::reader::Reader;
use super::specification::{Adu, CODECS, Foreign, Integrity, Preference, Shape, Specification};
use super::value::{Clausal, Origin, Range, Value};
use crate::plan::{Adapt, Codec, Late, Order, Sender};
use fusewire_asn1::rust::Extent;

/// Says which there are.
pub fn check(reader: &mut Reader<'_>, specification: &Specification) {
    shared(reader, specification);
    for adu in &specification.adus {
        reliability(reader, adu);
        times(reader, adu);
        rates(reader, specification, adu);
        protection(reader, adu);
        others(reader, specification, adu);
    }
}

fn is_written(clause: &dyn Clausal) -> bool {
    clause.clause().origin == Origin::Written
}

/// Whether one of these is written so that nobody could read it: what it says is not known, and stands against nothing.
fn is_unread(clauses: &[&dyn Clausal]) -> bool {
    clauses.iter().any(|clause| clause.clause().origin == Origin::Unread)
}

/// Says that a clause stands against others.
fn against(reader: &mut Reader<'_>, clause: &dyn Clausal, why: &str, help: &str) {
    let (key, text) = (key_of(clause), reader.value_of(clause));
    reader.error(clause.clause().span, format!("`{key} = {text}` {why}"), help);
}

fn key_of(clause: &dyn Clausal) -> &str {
    clause.clause().name.rsplit('.').next().unwrap_or_default()
}

fn shared(reader: &mut Reader<'_>, of: &Specification) {
    let (network, peers) = (&of.network, &of.peers);
    if is_written(&network.loss_burst)
        && !is_unread(&[&network.loss])
        && network.loss_burst.value > 1.0
        && network.loss.value == 0.0
    {
        let why = "says how losses come, and `loss` that there are none";
        against(reader, &network.loss_burst, why, "leave it out, or say how much is lost");
    }
    if network.loss_burst_ms.value.is_some() {
        let help = "write one of the two";
        if is_written(&network.loss_burst) && network.loss_burst.value > 1.0 {
            let why = "says how long losses last, and `loss_burst` how many there are";
            against(reader, &network.loss_burst_ms, why, help);
        } else if network.loss.value == 0.0 && !is_unread(&[&network.loss]) {
            let why = "says how losses come, and `loss` that there are none";
            against(reader, &network.loss_burst_ms, why, "leave it out, or say how much is lost");
        }
    }
    let is_group = peers.shape.value == Shape::Group;
    for clause in [&peers.receivers as &dyn Clausal, &peers.floor_kbit] {
        if is_written(clause) && !is_group && !is_unread(&[&peers.shape]) {
            let help = group_help(of);
            against(reader, clause, "is of a group, and there is none", &help);
        }
    }
    if is_group && peers.foreign.is_demanding() {
        let why = "asks for peers that are not ours, and groups are XTP's";
        against(reader, &peers.foreign, why, "leave it out, or be a pair");
    }
}

/// Advice about a clause of groups in a pair.
fn group_help(of: &Specification) -> String {
    let [first, second] = &of.roles;
    let pair = format!(
        "leave it out: a `{second}` accepts any number of peers, each with a session of its own"
    );
    let is_sent_one_way =
        of.adus.iter().all(|adu| adu.from.value == Sender::Role(0) && adu.reply.value.is_none());
    match is_sent_one_way {
        true => {
            format!("{pair}; or write `shape = \"group\"` if one `{first}` sends the same to all")
        }
        false => format!("{pair}; in a group only `{first}` sends"),
    }
}

fn reliability(reader: &mut Reader<'_>, adu: &Adu) {
    let said = match is_written(&adu.reliability) {
        true => "`reliability = \"require\"`",
        false => "`reliability`, which is \"require\" where nothing is written,",
    };
    if adu.reliability.value != Preference::Require || is_unread(&[&adu.reliability]) {
        return;
    }
    let help = "write `reliability` as \"prefer\", \"none\" or \"avoid\", or leave this out";
    if is_written(&adu.loss) && adu.loss.value > 0.0 {
        against(reader, &adu.loss, &format!("lets some be lost, and {said} none"), help);
    }
    if adu.loss_run.value.is_some_and(|run| run > 0.0) {
        against(reader, &adu.loss_run, &format!("lets some be lost, and {said} none"), help);
    }
    if adu.deadline_ms.value.is_some() && adu.late.value == Late::Drop && !is_unread(&[&adu.late]) {
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
    let has_none = adu.deadline_ms.value.is_none() && !is_unread(&[&adu.deadline_ms]);
    if is_written(&adu.late) && has_none {
        against(reader, &adu.late, "says nothing without `deadline_ms`", "say when it is late");
    }
    let is_newest = adu.order.value == Order::Newest || is_unread(&[&adu.order]);
    if adu.newest.value.is_some() && !is_newest {
        let help = "write `order = \"newest\"`, or leave it out";
        against(reader, &adu.newest, "says nothing without `order = \"newest\"`", help);
    }
    if adu.deadline_ms.value == Some(0.0) {
        against(reader, &adu.deadline_ms, "leaves no time", "write more than 0, or leave it out");
    }
}

fn rates(reader: &mut Reader<'_>, of: &Specification, adu: &Adu) {
    let wants = |what| adu.adapt.value.contains(&what);
    let is_fixed = |clause: &Value<Option<Range>>| {
        !is_unread(&[clause]) && clause.value.is_none_or(|r| r.low == r.high)
    };
    if wants(Adapt::Quality) && is_fixed(&adu.bitrate_kbit) {
        let why = "lowers quality, and `bitrate_kbit` says no range for it";
        against(reader, &adu.adapt, why, "write `bitrate_kbit = [least, most]`");
    }
    if wants(Adapt::Frequency) && is_fixed(&adu.rate_hz) {
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
    let size = adu.size_bytes.value.map(|r| r.high).or(largest(of, adu));
    if let (Some(least), Some(hz), Some(size)) = (least, hz, size)
        && least > hz * size
    {
        let why = format!("is more than {hz} ADUs a second of {size} bytes can be");
        against(reader, &adu.bitrate_kbit, &why, "write less, or a higher `rate_hz` or size");
    }
    if let Some(size) = adu.size_bytes.value {
        let least = extents(of, adu).map(|extent| extent.low).min().unwrap_or(0);
        let help = "write what an encoded value takes, or leave it out";
        if size.high < least as f64 {
            let why = format!("is less than its type takes: {least} bytes at least");
            against(reader, &adu.size_bytes, &why, help);
        } else if let Some(most) = largest(of, adu).filter(|most| size.high > *most) {
            let why = format!("is more than its type takes: {most} bytes at most");
            against(reader, &adu.size_bytes, &why, help);
        }
    }
}

/// What values take in each codec that may be chosen.
fn extents(of: &Specification, adu: &Adu) -> impl Iterator<Item = Extent> {
    let foreign = match of.peers.foreign.value {
        Foreign::None => None,
        Foreign::Xdr => Some(Codec::Xdr),
        Foreign::Oer => Some(Codec::Oer),
        Foreign::Ber => Some(Codec::Ber),
        Foreign::Der => Some(Codec::Der),
    };
    let all = CODECS.into_iter().zip(adu.extents);
    let may_be = move |codec| match foreign {
        Some(foreign) => codec == foreign,
        None => !matches!(codec, Codec::Ber | Codec::Der),
    };
    all.filter(move |((codec, _), _)| may_be(*codec)).map(|(_, extent)| extent)
}

/// The most bytes of a value, if ASN.1 says so.
fn largest(of: &Specification, adu: &Adu) -> Option<f64> {
    let high: Option<Vec<u64>> = extents(of, adu).map(|extent| extent.high).collect();
    high?.into_iter().max().map(|bytes| bytes as f64)
}

fn protection(reader: &mut Reader<'_>, adu: &Adu) {
    let requires = |of: &Value<Preference>| of.value == Preference::Require && !is_unread(&[of]);
    let (is_secret, is_authentic) = (requires(&adu.confidential), requires(&adu.authentic));
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
    let mut unknown = |span, name: &str| {
        let names = of.adus.iter().map(|other| other.name.as_str());
        let help = match fusewire_asn1::names::nearest(name, names) {
            Some(meant) => format!("is \"{meant}\" meant?"),
            None => "expected the name of a type of ADU".to_owned(),
        };
        let shown = fusewire_asn1::diagnostic::shortened(name);
        reader.error(span, format!("no type of ADU is called `{shown}`"), help);
    };
    let after = || adu.after.value.iter().zip(&adu.after_spans);
    for (name, span) in after().filter(|(name, _)| find(name).is_none()) {
        unknown(*span, name);
    }
    let answer = adu.reply.value.as_deref().map(|name| (name, find(name)));
    if let Some((name, None)) = answer {
        unknown(adu.reply.clause.span, name);
    }
    for other in after().filter_map(|(name, _)| find(name)) {
        if reaches(of, other, &adu.name) {
            let why = "goes in a circle: neither could ever be delivered";
            against(reader, &adu.after, why, "name only types that do not wait for this one");
        } else if is_unread(&[&other.from, &adu.from]) {
            // Nobody knows who sends it.
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
        if !is_other && !is_unread(&[&adu.from, &reply.from]) {
            let help = format!("write `from` of `{}` so that who is asked sends it", reply.name);
            against(reader, &adu.reply, "is not sent by the other end", &help);
        } else if is_other && reply.reply.value.is_some() {
            against(
                reader,
                &adu.reply,
                "is a request itself",
                "answer with a type that has no `reply`",
            );
        }
    }
    if is_written(&adu.replayable) && adu.reply.value.is_none() && !is_unread(&[&adu.reply]) {
        against(reader, &adu.replayable, "is of requests, and this has no `reply`", "leave it out");
    }
    if of.peers.shape.value == Shape::Group {
        if adu.from.value != Sender::Role(0) && !is_unread(&[&adu.from]) {
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
