//! Each clause of the four examples, changed: something of the plan changes with it, or it cannot be had, or contradicts others
//! and is said to, or it is in the table of `docs/generate.md` that says why nothing does.
//!
//! What changes the plan changes the code of both ends as well, but for what another table says of its fields.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-generate --test mutation` writes the tables anew.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use fusewire_generate::choice::{Choice, choose};
use fusewire_generate::language::Checked;
use fusewire_generate::plan::Plan;
use fusewire_generate::rust::{Against, crate_of};

use support::{EXAMPLES, changed, page, with_text, with_value};

/// Other values of a clause, each of them one that it may have: each is tried that is not the one it has.
#[rustfmt::skip]
const VALUES: &[(&str, &[&str])] = &[
    ("rtt_ms", &["[0.05, 10]", "[1, 100]", "[10, 400]"]),
    ("rate_mbit", &["[0.2, 50]", "[1, 1000]", "[100, 100000]"]),
    ("loss", &["0", "0.001", "0.04", "0.2", "0.5"]),
    ("loss_burst", &["1", "4", "10"]),
    ("jitter_ms", &["0", "2", "15", "100"]),
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
    ("adu.NAME.jitter_ms", &["bulk", "rpc", "telemetry"],
     "`network.jitter_ms` is 0: no times vary that a buffer could make even"),
    ("prefer", &["conference"], "of what the other clauses leave, one choice is the least by every measure"),
];

/// Fields of a plan that may change by themselves and leave the code as it is, and why.
#[rustfmt::skip]
const UNSEEN: &[(&str, &str)] = &[
    ("acknowledge", "not applied over streams"),
    ("bitrate_bits_per_s", "not applied over streams: no sender is held to it"),
    ("bucket", "not applied over streams, and of a group what is sent again has the rate of all"),
    ("is_replayable", "every answer is kept"),
    ("load_bits_per_s", "what the choice counts with"),
    ("loss", "a stream loses nothing, and a group sends again all or nothing"),
    ("memory_bytes", "an estimate: `memory_kib` is refused"),
    ("mtu_bytes", "a stream finds what a path carries"),
    ("network", "what the choice counts with: its rates, windows and times are in the code"),
    ("payload_bytes", "of `mtu_bytes`"),
    ("priority", "not applied over streams and to groups"),
    ("profile", "its code point is seen, and that nothing packs: others are one in the code"),
    ("rate_millihertz", "not applied over streams: no sender is held to it"),
    ("ring_bytes", "a stream's buffers are the stack's own"),
    ("size_bytes", "of the least length: the longest is in the code"),
    ("sum", "TCP and datagrams have one in any case"),
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
        fields: Vec<String>,
        is_seen: bool,
    },
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

/// The fields of a plan, those of its types of ADU each by itself, as text; without what compares two ends.
fn fields(plan: &Plan) -> Vec<(String, String)> {
    let whole = serde_json::to_value(plan).expect("a plan is JSON");
    let mut all = Vec::new();
    for (name, value) in whole.as_object().expect("an object") {
        match name.as_str() {
            "wire" | "digest" => {}
            "adus" => {
                for (place, adu) in value.as_array().expect("a list").iter().enumerate() {
                    for (name, value) in adu.as_object().expect("an object") {
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
    Some(lines.flat_map(|line| [line, "\n"]).collect())
}

fn outcome(name: &str, is: &Choice, code_is: &str, text: &str) -> Outcome {
    let checked = with_text(name, text);
    if !checked.is_ok() {
        return Outcome::Wrong;
    }
    let Ok(choice) = choose(&checked.specification, None) else { return Outcome::Refused };
    let (found, kept) = (fields(&choice.plan), fields(&is.plan));
    let differing = found.iter().zip(&kept).filter(|(a, b)| a != b);
    match differing.map(|(a, _)| a.0.clone()).collect::<Vec<_>>() {
        of if of.is_empty() => Outcome::Same,
        fields => {
            let is_seen = code(&checked, &choice).is_none_or(|code| code != code_is);
            Outcome::Changes { fields, is_seen }
        }
    }
}

/// Values of a key, of which some depend on the specification.
fn values(checked: &Checked, key: &str) -> Vec<String> {
    let of = &checked.specification;
    let quoted = |text: &str| format!("\"{text}\"");
    let types = of.adus.iter().map(|adu| quoted(&adu.name));
    match key {
        "from" => of.roles.iter().map(|role| quoted(role)).chain([quoted("both")]).collect(),
        "reply" => types.collect(),
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
            // Which type it is, and a file that is read elsewhere.
            if clause.ends_with(".type") || clause == "platform.machine" {
                continue;
            }
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

/// Clauses that change nothing: the example, their names.
fn without_effect() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let of_a_clause = |a: &Mutation, b: &Mutation| a.example == b.example && a.clause == b.clause;
    for found in ALL.chunk_by(of_a_clause) {
        if found.iter().all(|one| one.outcome == Outcome::Same) {
            let (first, values) = (&found[0], found.iter().map(|one| &one.value));
            println!(
                "{} {} = {}: {:?}",
                first.example,
                first.clause,
                first.is,
                values.collect::<Vec<_>>()
            );
            all.push((first.example, first.clause.clone()));
        }
    }
    all
}

#[test]
fn each_clause_has_an_effect_or_says_why_not() {
    let found = without_effect();
    let mut text = "| clause | of | why |\n|---|---|---|\n".to_owned();
    let mut said = Vec::new();
    for (called, examples, why) in WITHOUT {
        let _ = writeln!(text, "| `{called}` | {} | {why} |", examples.join(", "));
        for name in *examples {
            let own: Vec<_> = found
                .iter()
                .filter(|(of, clause)| of == name && is_called(clause, called))
                .collect();
            assert!(!own.is_empty(), "{called} of {name} has an effect");
            said.extend(own.into_iter().cloned());
        }
    }
    let unsaid: Vec<_> = found.iter().filter(|one| !said.contains(one)).collect();
    assert!(unsaid.is_empty(), "nobody says why these have none: {unsaid:#?}");
    page("<!-- table: without effect -->\n", "\nOf a plan", &text);
}

#[test]
fn what_changes_a_plan_changes_the_code_or_says_why_not() {
    let mut found = BTreeMap::new();
    for one in &*ALL {
        let Outcome::Changes { fields, is_seen: false } = &one.outcome else { continue };
        for field in fields {
            let of_a_type = field.rsplit('.').next().unwrap_or_default();
            found.entry(of_a_type).or_insert((one.example, &one.clause, &one.value));
        }
    }
    let mut text = "| of the plan | why no code shows it |\n|---|---|\n".to_owned();
    for (field, why) in UNSEEN {
        let _ = writeln!(text, "| `{field}` | {why} |");
        assert!(found.remove(field).is_some(), "{field} is always seen");
    }
    assert!(found.is_empty(), "the plan is another, and the code is not: {found:#?}");
    page("<!-- table: not in the code -->\n", "\n## What is in", &text);
}
