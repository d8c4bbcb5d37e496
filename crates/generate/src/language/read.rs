//! A file into its clauses.

use fusewire_asn1::rust::Extent;
use fusewire_asn1::{Source, Span};
use toml::de::DeValue;

use super::keys::{self, Key, Word};
use super::reader::{Item, Reader, Table};
use super::specification::*;
use super::value::{Bounds, Looser, Origin, Range, Value};
use crate::plan::{Device, Late, Order, Profile, Sender};

/// More types of ADU are refused: their numbers travel in a byte, and nobody means so many.
pub const ADUS_MAX: usize = 64;
/// Crates that every other may name, beside ours, and words that no crate can be called.
const TAKEN: &[&str] = &["alloc", "core", "crate", "proc-macro", "self", "std", "super", "test"];
/// The longest name.
const NAME_CHARS_MAX: usize = 60;

const MS: Bounds = Bounds::new(0.0, 86_400_000.0);
const SHARE: Bounds = Bounds::new(0.0, 1.0);
const RATE: Bounds = Bounds::new(0.0, 1e9);
const BYTES: Bounds = Bounds::new(0.0, 1_073_741_824.0).whole();

/// What reads one file, and what it has read.
pub struct Read {
    /// The clauses; types are not looked at yet.
    pub specification: Specification,
    /// Where the files of ASN.1 stand, if they are written.
    pub asn1_spans: Vec<Span>,
    /// Where the roles stand.
    pub role_spans: Vec<Span>,
}

/// Reads a file.
pub fn read(reader: &mut Reader<'_>, source: &Source) -> Read {
    let document = reader.document();
    let table = reader.table("", Span::new(0, 0), document.get_ref(), keys::FILE);
    for key in ["roles", "network", "adu"] {
        reader.required(&table, key);
    }
    let (roles, role_spans) = roles(reader, &table);
    let network = network(reader, &table);
    let peers = peers(reader, &table);
    let platform = platform(reader, &table);
    let none = (Vec::new(), Vec::new(), Looser::Never);
    let prefer = reader.value(&table, "prefer", none, |r, k, i| r.words(k, i));
    let shape = peers.shape.value;
    let adus = adus(reader, &table, &roles, shape);
    let written = table.entry("asn1").and_then(|(key, _, item)| reader.strings(key, item));
    let (asn1, asn1_spans) = match written {
        Some(files) => {
            twice(reader, &files);
            files.into_iter().unzip()
        }
        None => (files_of(&adus), Vec::new()),
    };
    let specification = Specification {
        name: name_of(source.name()),
        asn1,
        modules: Vec::new(),
        roles,
        network,
        peers,
        platform,
        prefer,
        adus,
    };
    Read { specification, asn1_spans, role_spans }
}

/// Says which of a list are named a second time.
fn twice(reader: &mut Reader<'_>, names: &[(String, Span)]) {
    for (place, (name, span)) in names.iter().enumerate() {
        if names[..place].iter().any(|(before, _)| before == name) {
            let shown = fusewire_asn1::diagnostic::shortened(name);
            reader.error(*span, format!("`{shown}` stands twice"), "leave one out");
        }
    }
}

/// The file's name without folder and ending, as a crate may be called that hides none that it needs.
fn name_of(file: &str) -> String {
    let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = stem.strip_suffix(".toml").unwrap_or(stem);
    let words = stem.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    name.truncate(NAME_CHARS_MAX);
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "s-");
    }
    let is_word = fusewire_asn1::rust::snake(&name).starts_with("r#");
    if is_word || TAKEN.contains(&name.as_str()) || name.starts_with("fusewire") {
        name += "-ends";
    }
    name.trim_end_matches('-').to_owned()
}

/// `Module.asn1` for each module of a type.
fn files_of(adus: &[Adu]) -> Vec<String> {
    let mut files = Vec::new();
    for adu in adus {
        if let Some((module, _)) = adu.ty.value.split_once('.') {
            let file = format!("{module}.asn1");
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// The roles, and where they stand.
fn roles(reader: &mut Reader<'_>, table: &Table<'_>) -> ([String; 2], Vec<Span>) {
    let default = || (["a".to_owned(), "b".to_owned()], Vec::new());
    let Some((key, _, item)) = table.entry("roles") else { return default() };
    let Some(texts) = reader.strings(key, item) else { return default() };
    for (text, span) in &texts {
        if !is_name(text, |c| c.is_ascii_lowercase()) || text == "both" {
            let help = "expected letters, digits and `_`, a small letter first; `both` is taken";
            reader.error(*span, "a role cannot be called so", help);
        }
    }
    match <[(String, Span); 2]>::try_from(texts) {
        Ok([(a, _), (b, span)]) if a == b => {
            reader.error(span, format!("both roles are called `{a}`"), "give each its own name");
            default()
        }
        Ok([(a, at), (b, span)]) => ([a, b], vec![at, span]),
        Err(_) => {
            reader.expected(key, item);
            default()
        }
    }
}

fn is_name(text: &str, is_first: impl Fn(char) -> bool) -> bool {
    text.chars().count() <= NAME_CHARS_MAX
        && text.starts_with(is_first)
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A packet is as long as it is: no length of it demands less than another.
fn itself<T: Clone>(value: Value<T>) -> Value<T> {
    Value { relaxed: value.value.clone(), ..value }
}

fn network(reader: &mut Reader<'_>, file: &Table<'_>) -> Network {
    let table = &reader.within(file, "network", keys::NETWORK);
    if file.entry("network").is_some() {
        for key in ["rtt_ms", "rate_mbit", "loss"] {
            reader.required(table, key);
        }
    }
    let nothing = (Range::new(0.0, 0.0), Range::new(0.0, 0.0), Looser::HighDown(MS));
    let any = Range::new(f64::INFINITY, f64::INFINITY);
    let burst = Bounds::new(1.0, 1000.0);
    let burst_ms = Bounds::new(1.0, 3_600_000.0);
    let mtu = Bounds::new(576.0, 65_535.0).whole();
    let share = Bounds::new(0.0, 0.9);
    let rate = Bounds::new(0.001, 1e7);
    Network {
        rtt_ms: reader.value(table, "rtt_ms", nothing, |r, k, i| r.range(k, i, MS)),
        rate_mbit: reader.value(table, "rate_mbit", (any, any, Looser::LowUp(rate)), |r, k, i| {
            r.range(k, i, rate)
        }),
        loss: reader
            .value(table, "loss", (0.0, 0.0, Looser::Down(share)), |r, k, i| r.number(k, i, share)),
        loss_burst: reader.value(
            table,
            "loss_burst",
            (1.0, 1.0, Looser::Down(burst)),
            |r, k, i| r.number(k, i, burst),
        ),
        loss_burst_ms: reader.value(
            table,
            "loss_burst_ms",
            (None, None, Looser::Down(burst_ms)),
            |r, k, i| r.number(k, i, burst_ms).map(Some),
        ),
        jitter_ms: reader
            .value(table, "jitter_ms", (0.0, 0.0, Looser::Down(MS)), |r, k, i| r.number(k, i, MS)),
        mtu_bytes: itself(reader.value(
            table,
            "mtu_bytes",
            (1500.0, 1500.0, Looser::Never),
            |r, k, i| r.number(k, i, mtu),
        )),
        control: word(reader, table, "control", Control::Open, Control::Reserved),
    }
}

fn word<T: Word>(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    key: &str,
    default: T,
    relaxed: T,
) -> Value<T> {
    reader.value(table, key, (default, relaxed, Looser::Never), |r, k, i| r.word(k, i))
}

fn peers(reader: &mut Reader<'_>, file: &Table<'_>) -> Peers {
    let table = &reader.within(file, "peers", keys::PEERS);
    let shape = word(reader, table, "shape", Shape::Pair, Shape::Pair);
    // To be a group or not is no demand that could be dropped.
    let shape = Value { relaxed: shape.value, ..shape };
    let one = Range::new(1.0, 1.0);
    let receivers = Bounds::new(1.0, 100_000.0).whole();
    Peers {
        shape,
        receivers: reader.value(
            table,
            "receivers",
            (one, one, Looser::HighDown(receivers)),
            |r, k, i| r.range(k, i, receivers),
        ),
        floor_kbit: reader.value(table, "floor_kbit", (0.0, 0.0, Looser::Down(RATE)), |r, k, i| {
            r.number(k, i, RATE)
        }),
        foreign: word(reader, table, "foreign", Foreign::None, Foreign::None),
    }
}

fn platform(reader: &mut Reader<'_>, file: &Table<'_>) -> Platform {
    let table = &reader.within(file, "platform", keys::PLATFORM);
    let memory = Bounds::new(1.0, 1e9);
    Platform {
        device: word(reader, table, "device", Device::Udp, Device::Udp),
        memory_kib: reader.value(
            table,
            "memory_kib",
            (None, None, Looser::Up(memory)),
            |r, k, i| r.number(k, i, memory).map(Some),
        ),
        machine: reader.value(table, "machine", (None, None, Looser::Never), |r, k, i| {
            r.string(k, i).map(Some)
        }),
    }
}

fn adus(reader: &mut Reader<'_>, file: &Table<'_>, roles: &[String; 2], shape: Shape) -> Vec<Adu> {
    let Some((key, span, item)) = file.entry("adu") else { return Vec::new() };
    let DeValue::Table(of) = item.get_ref() else {
        reader.expected(key, item);
        return Vec::new();
    };
    let mut entries: Vec<_> = of.iter().collect();
    // The order of the file: numbers are given by it.
    entries.sort_by_key(|(name, _)| name.span().start);
    if entries.is_empty() || entries.len() > ADUS_MAX {
        let message = format!("`adu` has {} types", entries.len());
        reader.error(span, message, format!("expected 1 to {ADUS_MAX}"));
        entries.truncate(ADUS_MAX);
    }
    let mut adus = Vec::new();
    for (name, item) in entries {
        let at = reader.span(name.span());
        let DeValue::Table(table) = item.get_ref() else {
            reader.expected(key, item);
            continue;
        };
        if !is_name(name.get_ref(), |c| c.is_ascii_uppercase()) || *name.get_ref() == "Self" {
            let help = "expected letters and digits, a capital first: it is a type of Rust";
            reader.error(at, "a type of ADU cannot be called so", help);
            continue;
        }
        let path = format!("adu.{}", name.get_ref());
        let table = reader.table(&path, at, table, keys::ADU);
        reader.required(&table, "type");
        adus.push(adu(reader, name.get_ref(), &table, roles, shape));
    }
    adus
}

fn adu(
    reader: &mut Reader<'_>,
    name: &str,
    table: &Table<'_>,
    roles: &[String; 2],
    shape: Shape,
) -> Adu {
    let profile = word(reader, table, "profile", Profile::Default, Profile::Default);
    let reliability = word(reader, table, "reliability", Preference::Require, Preference::None);
    let authentic = match shape {
        Shape::Pair => Preference::Require,
        Shape::Group => Preference::Prefer,
    };
    let itself = |value: String| (value.clone(), value, Looser::Never);
    let runs = Bounds::new(0.0, 1000.0).whole();
    let optional = (None, None, Looser::Up(MS));
    let rates = (None, None, Looser::LowDown(RATE));
    let some = Bounds { low: 1.0, ..BYTES };
    let size =
        reader.value(table, "size_bytes", (None, None, Looser::HighDown(some)), |r, k, i| {
            r.range(k, i, BYTES).map(Some)
        });
    // How much there is at most says how large one is: that is no demand.
    let bits = reader.value(table, "bitrate_kbit", rates, |r, k, i| r.range(k, i, RATE).map(Some));
    let bits_relaxed = bits.value.map(|of| Range { low: 0.0, ..of });
    let size_relaxed = size.value.map(|_| Range::new(0.0, 0.0));
    let from = reader.value(
        table,
        "from",
        (Sender::Role(0), Sender::Role(0), Looser::Never),
        |r, k, i| role(r, k, i, roles),
    );
    let newest = reader
        .value(table, "newest", (None, None, Looser::Never), |r, k, i| r.string(k, i).map(Some));
    let mut after_spans = Vec::new();
    let after = reader.value(table, "after", (Vec::new(), Vec::new(), Looser::Never), |r, k, i| {
        let names = r.strings(k, i)?;
        twice(r, &names);
        let (names, spans) = names.into_iter().unzip();
        after_spans = spans;
        Some(names)
    });
    Adu {
        name: name.to_owned(),
        span: table.span,
        ty: reader.value(table, "type", itself(String::new()), |r, k, i| type_name(r, k, i)),
        from: Value { relaxed: from.value, ..from },
        size_bytes: Value { relaxed: size_relaxed, ..size },
        extents: [Extent::default(); 5],
        loss: reader
            .value(table, "loss", (1.0, 1.0, Looser::Up(SHARE)), |r, k, i| r.number(k, i, SHARE)),
        loss_run: reader.value(table, "loss_run", (None, None, Looser::Up(runs)), |r, k, i| {
            r.number(k, i, runs).map(Some)
        }),
        deadline_ms: reader
            .value(table, "deadline_ms", optional, |r, k, i| r.number(k, i, MS).map(Some)),
        late: word(reader, table, "late", Late::Drop, Late::Deliver),
        order: word(reader, table, "order", Order::All, Order::None),
        // It says what a newer one is, and is no demand.
        newest: Value { relaxed: newest.value.clone(), ..newest },
        after,
        after_spans,
        rate_hz: reader.value(table, "rate_hz", rates, |r, k, i| r.range(k, i, RATE).map(Some)),
        bitrate_kbit: Value { relaxed: bits_relaxed, ..bits },
        jitter_ms: reader
            .value(table, "jitter_ms", optional, |r, k, i| r.number(k, i, MS).map(Some)),
        adapt: reader.value(table, "adapt", (Vec::new(), Vec::new(), Looser::Never), |r, k, i| {
            r.words(k, i)
        }),
        reply: reader
            .value(table, "reply", (None, None, Looser::Never), |r, k, i| r.string(k, i).map(Some)),
        replayable: reader
            .value(table, "replayable", (false, true, Looser::Never), |r, k, i| r.boolean(k, i)),
        confidential: word(reader, table, "confidential", Preference::Require, Preference::None),
        authentic: word(reader, table, "authentic", authentic, Preference::None),
        integrity: word(reader, table, "integrity", Integrity::Tag, Integrity::None),
        priority: priority(reader, table, &profile),
        reliability,
        profile,
    }
}

/// What a profile says of priority where nothing is written.
fn priority(reader: &mut Reader<'_>, table: &Table<'_>, profile: &Value<Profile>) -> Value<f64> {
    let by_profile = match profile.value {
        Profile::LowLatencyInteractive | Profile::LowLatencyNonInteractive => Some(50.0),
        Profile::ConstantRateStreaming => Some(50.0),
        Profile::Scavenger => Some(200.0),
        Profile::Default | Profile::CapacitySeeking => None,
    };
    let default = by_profile.unwrap_or(100.0);
    let bounds = Bounds::new(0.0, 1_000_000.0).whole();
    let mut value =
        reader.value(table, "priority", (default, default, Looser::Never), |r, k, i| {
            r.number(k, i, bounds)
        });
    value.relaxed = value.value;
    if value.clause.origin == Origin::Default && by_profile.is_some() {
        value.clause.origin = Origin::Profile;
        value.clause.span = profile.clause.span;
    }
    value
}

/// A role, or both.
fn role(
    reader: &mut Reader<'_>,
    key: &'static Key,
    item: &Item<'_>,
    roles: &[String; 2],
) -> Option<Sender> {
    let text = reader.string(key, item)?;
    if text == "both" {
        return Some(Sender::Both);
    }
    if let Some(place) = roles.iter().position(|role| *role == text) {
        return Some(Sender::Role(place as u8));
    }
    let names = || roles.iter().map(String::as_str).chain(["both"]);
    let help = match fusewire_asn1::names::nearest(&text, names()) {
        Some(meant) => format!("is \"{meant}\" meant?"),
        None => format!("expected \"{}\", \"{}\" or \"both\"", roles[0], roles[1]),
    };
    let span = reader.span(item.span());
    let shown = fusewire_asn1::diagnostic::shortened(&text);
    reader.error(span, format!("no role is called `{shown}`"), help);
    None
}

/// `Module.Type`.
fn type_name(reader: &mut Reader<'_>, key: &'static Key, item: &Item<'_>) -> Option<String> {
    let text = reader.string(key, item)?;
    let is_word = |w: &str| {
        w.starts_with(|c: char| c.is_ascii_uppercase())
            && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    match text.split_once('.') {
        Some((module, ty)) if is_word(module) && is_word(ty) => Some(text),
        _ => {
            reader.expected(key, item);
            None
        }
    }
}
