//! Each clause of the four examples, changed: something of the plan changes with it, or it cannot be had, or contradicts others
//! and is said to, or it is in the table of `docs/generate.md` that says why nothing does.
//!
//! What changes the plan changes the code of both ends as well, but for what another table says of its fields, over the machines
//! that it names; constants that only contracts read are no code. That no code is made of a plan is no effect of a clause: those
//! that have no other are in a third table.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-generate --test mutation` writes the tables anew.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use fusewire_generate::choice::{Choice, choose};
use fusewire_generate::language::Checked;
use fusewire_generate::plan::{Machine, Plan};
use fusewire_generate::rust::{Against, crate_of};

use support::{EXAMPLES, changed, machine, page, with_text, with_value};

/// Other values of a clause, each of them one that it may have: each is tried that is not the one it has.
#[rustfmt::skip]
const VALUES: &[(&str, &[&str])] = &[
    ("rtt_ms", &["[0.05, 10]", "[1, 100]", "[10, 400]"]),
    ("rate_mbit", &["[0.2, 50]", "[1, 1000]", "[100, 100000]"]),
    ("loss", &["0", "0.001", "0.04", "0.2", "0.5"]),
    ("loss_burst", &["1", "4", "10"]),
    ("loss_burst_ms", &["20", "200"]),
    ("jitter_ms", &["0", "2", "15", "100"]),
    ("machine", &["\"machine.json\""]),
    ("mtu_bytes", &["576", "1000", "9000"]),
    ("control", &["\"reserved\"", "\"open\""]),
    ("shape", &["\"group\"", "\"pair\""]),
    ("receivers", &["[1, 2]", "[4, 500]"]),
    ("floor_kbit", &["0", "100", "600"]),
    ("foreign", &["\"xdr\"", "\"ber\""]),
    ("device", &["\"kernel-tcp\"", "\"tap\"", "\"xdp\""]),
    ("memory_kib", &["10", "4000", "1000000"]),
    ("prefer", &["[\"latency\"]", "[\"throughput\"]", "[\"cpu\"]", "[\"memory\"]", "[\"code\"]"]),
    ("size_bytes", &["[20, 30]", "[100, 150]", "[50, 5000]"]),
    ("reliability", &["\"require\"", "\"prefer\"", "\"none\"", "\"avoid\"", "\"prohibit\""]),
    ("loss_run", &["0", "3"]),
    ("deadline_ms", &["100", "300", "2000"]),
    ("late", &["\"deliver\"", "\"drop\""]),
    ("order", &["\"all\"", "\"type\"", "\"none\"", "\"newest\""]),
    ("rate_hz", &["[1, 10]", "[20, 60]", "[1000, 1000]"]),
    ("bitrate_kbit", &["[1, 50]", "[10, 8000]", "[400, 4000]"]),
    ("adapt", &["[]", "[\"quality\"]", "[\"frequency\", \"quality\"]"]),
    ("replayable", &["true", "false"]),
    ("confidential", &["\"require\"", "\"prefer\"", "\"none\"", "\"avoid\"", "\"prohibit\""]),
    ("authentic", &["\"require\"", "\"prefer\"", "\"none\"", "\"avoid\"", "\"prohibit\""]),
    ("integrity", &["\"tag\"", "\"full\"", "\"bytes\"", "\"none\""]),
    ("priority", &["0", "7", "300"]),
    ("profile", &["\"default\"", "\"scavenger\"", "\"low-latency-interactive\"",
                  "\"constant-rate-streaming\"", "\"capacity-seeking\""]),
];

/// Clauses that change nothing but the digest, in which examples, and why. NAME is any type of ADU.
#[rustfmt::skip]
const WITHOUT: &[(&str, &[&str], &str)] = &[
    ("platform.machine", &["conference"],
     "datagrams run as they do: an ADU is marshalled into the memory where it waits, and sealed from there"),
    ("network.loss_burst_ms", &["bulk"],
     "a stream loses nothing, and no type has a deadline"),
    ("adu.NAME.jitter_ms", &["bulk", "rpc", "telemetry"],
     "`network.jitter_ms` is 0: no times vary that a buffer could make even"),
    ("adu.Audio.jitter_ms", &["conference"],
     "copies, which bring `loss` about, come behind newer ones: without a playout buffer they would be dropped"),
];

/// Clauses of which no value that can be had has code of its own, in which examples, and why. NAME is any type of ADU.
#[rustfmt::skip]
const NO_CODE: &[(&str, &[&str], &str)] = &[
    ("platform.device", &["bulk", "rpc", "conference", "telemetry"],
     "ends go over UDP: another device is refused with the clause, or by the choice"),
    ("adu.NAME.reliability", &["bulk", "rpc"],
     "a sealed stream sends again what is missing until it has arrived: without that it is refused with the clause"),
    ("adu.NAME.order", &["rpc"], "calls overtake each other: another order that is written is refused with the clause"),
    ("adu.NAME.integrity", &["rpc", "telemetry"],
     "over XTP and to groups there is no sum beside a tag: it is refused with the clause"),
    ("adu.NAME.after", &["conference"], "types in datagrams do not wait for each other: it is refused with the clause"),
    ("adu.NAME.after", &["telemetry"],
     "what is sent again and what is sent once do not wait for each other: it is refused with the clause"),
    ("network.loss", &["telemetry"], "what a group is sent once has no correction: where it would need some it is refused"),
    ("adu.Sample.loss", &["telemetry"], "the same: otherwise only the contract reads it"),
];

/// Fields of a plan that may change by themselves and leave the code as it is, over which machines, and why.
#[rustfmt::skip]
const UNSEEN: &[(&str, &[&str], &str)] = &[
    ("acknowledge", &["tcp"], "not applied over streams"),
    ("allowed_bits_per_s", &["tcp", "xtp"], "what the choice counts with"),
    ("bitrate_bits_per_s", &["tcp", "xtp"], "not applied over streams: no sender is held to it"),
    ("bucket", &["tcp", "xtp"], "not applied over streams"),
    ("execution", &["tcp", "xtp", "group"], "not applied: all run integrated"),
    ("is_replayable", &["xtp"], "every answer is kept"),
    ("load_bits_per_s", &["tcp", "xtp", "group"], "what the choice counts with"),
    ("loss", &["tcp", "xtp"], "a stream loses nothing"),
    ("loss", &["group"], "a group sends again all or nothing, and contracts count what is lost"),
    ("mtu_bytes", &["tcp", "xtp"], "a stream finds what a path carries"),
    ("network", &["tcp", "xtp", "datagram", "group"],
     "what the choice counts with: over datagrams and to groups rates, windows and times of it are in the code, over streams congestion control alone, where it is another; contracts have the rest"),
    ("payload_bytes", &["tcp", "xtp"], "of `mtu_bytes`"),
    ("playout", &["datagram"], "an end counts from the fastest: a longer way that is longer for all changes nothing"),
    ("priority", &["tcp", "xtp", "group"], "not applied over streams and to groups"),
    ("profile", &["tcp", "xtp", "datagram", "group"],
     "its code point is seen, and that nothing packs: others are one in the code"),
    ("rate_millihertz", &["tcp", "xtp"], "not applied over streams: no sender is held to it"),
    ("rate_millihertz", &["group"], "of the most, rates of all that is sent once are in the code"),
    ("ring_bytes", &["tcp"], "a stream's buffers are the stack's own"),
    ("sum", &["tcp", "datagram"], "there is one in any case"),
];

/// Whether a clause is the one of that name.
fn is_called(clause: &str, name: &str) -> bool {
    match name.split_once("NAME") {
        Some((begin, end)) => clause.starts_with(begin) && clause.ends_with(end),
        None => clause == name,
    }
}

/// What a value comes to.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// Other fields of the plan, and whether the code is another.
    Changes {
        machine: Machine,
        fields: Vec<String>,
        is_seen: bool,
    },
    /// The plan is another, and no code is made of it.
    NoCode,
    Refused,
    /// It contradicts others.
    Wrong,
    Same,
}

/// Another value of a clause.
struct Mutation {
    example: &'static str,
    clause: String,
    /// What it is in the example.
    is: String,
    value: String,
    outcome: Outcome,
}

/// The fields of a plan, those of its types of ADU each by itself, as text; without what compares two ends, and what only contracts
/// read.
fn fields(plan: &Plan) -> Vec<(String, String)> {
    let whole = serde_json::to_value(plan).expect("a plan is JSON");
    let mut all = Vec::new();
    for (name, value) in whole.as_object().expect("an object") {
        match name.as_str() {
            "wire" | "digest" => {}
            "adus" => {
                for (place, adu) in value.as_array().expect("a list").iter().enumerate() {
                    let fields = adu.as_object().expect("an object").iter();
                    let is_of_contracts = |name: &str| matches!(name, "loss_run" | "jitter_us");
                    for (name, value) in fields.filter(|(name, _)| !is_of_contracts(name)) {
                        all.push((format!("adus[{place}].{name}"), value.to_string()));
                    }
                }
            }
            _ => all.push((name.clone(), value.to_string())),
        }
    }
    all
}

/// The code of both ends, without what is said of it and without what two ends compare; none if it is refused.
fn code(checked: &Checked, choice: &Choice) -> Option<String> {
    let files = crate_of(checked, choice, &Against::Workspace).ok()?;
    let of = |path: &str| {
        let file = files.iter().find(|file| file.path.as_os_str() == path);
        file.expect("a crate has it").text.as_str()
    };
    let (before, clauses) = of("src/lib.rs").split_once("pub const CLAUSES").expect("it compares");
    let (_, after) = clauses.split_once("];").expect("a list");
    let lines = [before, after, of("src/types.rs")].into_iter().flat_map(str::lines);
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    Some(behaviour(text, choice.plan.machine))
}

/// Code without the constants that only contracts read, and with one for those that are one to what runs (docs/service.md).
fn behaviour(mut text: String, machine: Machine) -> String {
    // `key: value`, up to what ends it.
    let without = |text: &mut String, begin: &str, end: &str| {
        while let Some(at) = text.find(begin) {
            let len = text[at..].find(end).expect("it ends") + end.len();
            text.replace_range(at..at + len, "");
        }
    };
    for key in ["hz: ", "loss_max: "] {
        without(&mut text, key, ", ");
    }
    without(&mut text, "const NETWORK", "};");
    for key in ["loss_run: ", "jitter: "] {
        without(&mut text, key, ", ");
    }
    match machine {
        Machine::Tcp | Machine::Xtp => {
            // Whether it waits at all: for what, nobody looks.
            text = text.replace("order: service::profile::Order::Type, ", "");
            while let Some(at) = text.find("after: 0b") {
                let len = text[at..].find(", ").expect("it ends");
                text.replace_range(at..at + len, "after: some");
            }
        }
        Machine::Group => {
            for order in ["Type", "None"] {
                text = text.replace(&format!("order: service::profile::Order::{order}, "), "");
            }
            without(&mut text, "after: 0b", ", ");
        }
        Machine::Datagram => {}
    }
    text
}

fn outcome(name: &str, is: &Choice, code_is: &str, text: &str) -> Outcome {
    let checked = with_text(name, text);
    if !checked.is_ok() {
        return Outcome::Wrong;
    }
    let written = &checked.specification.platform.machine.value;
    let machine = written.as_ref().map(|_| machine("aes-256-gcm"));
    let Ok(choice) = choose(&checked.specification, machine.as_ref()) else {
        return Outcome::Refused;
    };
    let (found, kept) = (fields(&choice.plan), fields(&is.plan));
    let differing = found.iter().zip(&kept).filter(|(a, b)| a != b);
    match differing.map(|(a, _)| a.0.clone()).collect::<Vec<_>>() {
        of if of.is_empty() => Outcome::Same,
        fields => match code(&checked, &choice) {
            None => Outcome::NoCode,
            Some(code) => {
                Outcome::Changes { machine: choice.plan.machine, fields, is_seen: code != code_is }
            }
        },
    }
}

/// Values of a key, of which some depend on the specification.
fn values(checked: &Checked, key: &str) -> Vec<String> {
    let of = &checked.specification;
    let quoted = |text: &str| format!("\"{text}\"");
    let types = of.adus.iter().map(|adu| quoted(&adu.name));
    match key {
        "from" => of.roles.iter().map(|role| quoted(role)).chain([quoted("both")]).collect(),
        // Of another type of ADU: its own is carried by none then, if it is not a third's.
        "type" => of.adus.iter().map(|adu| quoted(&adu.ty.value)).collect(),
        "reply" => types.collect(),
        "newest" => Vec::new(),
        "after" => types.map(|name| format!("[{name}]")).chain(["[]".to_owned()]).collect(),
        _ => {
            let (_, values) =
                VALUES.iter().find(|(of, _)| *of == key).expect("values of every key");
            values.iter().map(|value| (*value).to_owned()).collect()
        }
    }
}

/// All that other values come to, of all clauses of the examples.
static ALL: LazyLock<Vec<Mutation>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for example in EXAMPLES {
        let checked = changed(example, "", "");
        let choice = choose(&checked.specification, None).expect("it can be had");
        let code = code(&checked, &choice).expect("code is made of it");
        for clause in checked.specification.clauses() {
            let (is, clause) = (clause.text(), clause.clause().name.clone());
            let key = clause.rsplit('.').next().unwrap_or_default();
            for value in values(&checked, key).into_iter().filter(|value| *value != is) {
                let text = with_value(&checked, &clause, &value);
                let outcome = outcome(example, &choice, &code, &text);
                let (is, clause) = (is.clone(), clause.clone());
                all.push(Mutation { example, clause, is, value, outcome });
            }
        }
    }
    all
});

/// Clauses of which each other value comes to this, and some to the last of it: the example, their names.
fn clauses_of(which: fn(&Outcome) -> bool, some: &Outcome) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let of_a_clause = |a: &Mutation, b: &Mutation| a.example == b.example && a.clause == b.clause;
    for found in ALL.chunk_by(of_a_clause) {
        if found.iter().all(|one| which(&one.outcome))
            && found.iter().any(|one| one.outcome == *some)
        {
            let (first, values) = (&found[0], found.iter().map(|one| &one.value));
            let values = values.collect::<Vec<_>>();
            println!("{} {} = {}: {values:?}", first.example, first.clause, first.is);
            all.push((first.example, first.clause.clone()));
        }
    }
    all
}

/// The table of clauses of which that was found, if it says each and no other.
fn table(found: &[(&'static str, String)], of: &[(&str, &[&str], &str)]) -> String {
    let mut text = "| clause | of | why |\n|---|---|---|\n".to_owned();
    let mut said = Vec::new();
    for (called, examples, why) in of {
        let _ = writeln!(text, "| `{called}` | {} | {why} |", examples.join(", "));
        for name in *examples {
            let own = found.iter().filter(|(of, clause)| of == name && is_called(clause, called));
            let own: Vec<_> = own.collect();
            assert!(!own.is_empty(), "{called} of {name} is another");
            said.extend(own.into_iter().cloned());
        }
    }
    let unsaid: Vec<_> = found.iter().filter(|one| !said.contains(one)).collect();
    assert!(unsaid.is_empty(), "nobody says why: {unsaid:#?}");
    text
}

#[test]
fn each_clause_has_an_effect_or_says_why_not() {
    let found = clauses_of(|one| *one == Outcome::Same, &Outcome::Same);
    page("<!-- table: without effect -->\n", "\nOf a plan", &table(&found, WITHOUT));
}

#[test]
fn a_clause_that_no_code_is_made_of_says_why() {
    let is_without = |one: &Outcome| match one {
        Outcome::Same | Outcome::Refused | Outcome::Wrong | Outcome::NoCode => true,
        Outcome::Changes { is_seen, .. } => !is_seen,
    };
    let found = clauses_of(is_without, &Outcome::NoCode);
    page("<!-- table: no code -->\n", "\n## What is in", &table(&found, NO_CODE));
}

#[test]
fn what_changes_a_plan_changes_the_code_or_says_why_not() {
    let mut found = BTreeMap::new();
    for one in &*ALL {
        let Outcome::Changes { machine, fields, is_seen: false } = &one.outcome else { continue };
        for field in fields {
            let of_a_type = field.rsplit('.').next().unwrap_or_default();
            let machine = format!("{machine:?}").to_lowercase();
            let by = (one.example, &one.clause, &one.value);
            found.entry((of_a_type.to_owned(), machine)).or_insert(by);
        }
    }
    let mut text = "| of the plan | over | why no code shows it |\n|---|---|---|\n".to_owned();
    let mut seen = Vec::new();
    for (field, machines, why) in UNSEEN {
        let _ = writeln!(text, "| `{field}` | {} | {why} |", machines.join(", "));
        for machine in *machines {
            let is_there = found.remove(&((*field).to_owned(), (*machine).to_owned())).is_some();
            seen.extend((!is_there).then(|| format!("{field} over {machine}")));
        }
    }
    let is_said = found.is_empty() && seen.is_empty();
    assert!(is_said, "always seen: {seen:?}; the plan is another, and the code is not: {found:#?}");
    page("<!-- table: not in the code -->\n", "\nNo code is made", &text);
}
