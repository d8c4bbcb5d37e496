//! Each clause of the four examples, changed: something of the plan changes with it, or it cannot be had, or contradicts others
//! and is said to, or it is in the table of `docs/generate.md` that says why nothing does.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-generate --test mutation` writes that table anew.

mod support;

use std::fmt::Write;

use fusewire_generate::choice::choose;
use fusewire_generate::language::Checked;
use fusewire_generate::plan::Plan;

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
    /// Other fields of the plan.
    Changes(Vec<String>),
    Refused,
    /// It contradicts others.
    Wrong,
    Same,
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

fn outcome(name: &str, kept: &[(String, String)], text: &str) -> Outcome {
    let checked = with_text(name, text);
    if !checked.is_ok() {
        return Outcome::Wrong;
    }
    match choose(&checked.specification, None) {
        Err(_) => Outcome::Refused,
        Ok(choice) => {
            let found = fields(&choice.plan);
            let differing = found.iter().zip(kept).filter(|(a, b)| a != b);
            match differing.map(|(a, _)| a.0.clone()).collect::<Vec<_>>() {
                of if of.is_empty() => Outcome::Same,
                of => Outcome::Changes(of),
            }
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

/// All that other values of a clause come to.
fn outcomes(name: &str, checked: &Checked, clause: &str, is: &str) -> Vec<(String, Outcome)> {
    let plan = choose(&checked.specification, None).expect("it can be had").plan;
    let kept = fields(&plan);
    let key = clause.rsplit('.').next().unwrap_or_default();
    let others = values(checked, key).into_iter().filter(|value| *value != is);
    let outcome = |value: &str| outcome(name, &kept, &with_value(checked, clause, value));
    others.map(|value| (value.clone(), outcome(&value))).collect()
}

/// A clause that changes nothing: the example, its name.
fn without_effect() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for name in EXAMPLES {
        let checked = changed(name, "", "");
        for clause in checked.specification.clauses() {
            let of = clause.clause().name.clone();
            // Which type it is, and a file that is read elsewhere.
            if of.ends_with(".type") || of == "platform.machine" {
                continue;
            }
            let found = outcomes(name, &checked, &of, &clause.text());
            if found.iter().all(|(_, outcome)| *outcome == Outcome::Same) {
                println!("{name} {of} = {}: {found:?}", clause.text());
                all.push((name, of));
            }
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
    page("<!-- table: without effect -->\n", "\n## Limits", &text);
}
