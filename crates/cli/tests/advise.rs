//! `fusewire advise` says what to do with functions of one's own, and what cannot be done with them.

mod support;

use support::{Done, World};

/// A small machine of round numbers, so that the answers are known.
const MACHINE: &str = include_str!("../../model/tests/machine.json");

struct Asked {
    world: World,
    machine: String,
    file: String,
}

impl Asked {
    fn new() -> Asked {
        let world = World::new();
        let path = |name| world.path(name).to_str().unwrap().to_owned();
        let (machine, file) = (path("machine.json"), path("functions.json"));
        std::fs::write(&machine, MACHINE).unwrap();
        Asked { world, machine, file }
    }

    fn about(&self, description: &str, more: &[&str]) -> Done {
        std::fs::write(&self.file, description).unwrap();
        let options = ["advise", &self.file, "--machine", &self.machine];
        self.world.run("alice", &[&options, more].concat())
    }
}

fn functions(functions: &str) -> String {
    format!(r#"{{ "version": 1, "words": "scalar64", "bytes": 4096, "functions": [{functions}] }}"#)
}

const SMALL: &str = r#"{ "name": "small", "block_bytes": 8, "state_words": 1, "instructions": 4 }"#;
const LARGE: &str = r#"{ "name": "large", "block_bytes": 8, "state_words": 8, "instructions": 8 }"#;

#[test]
fn small_state_is_integrated_and_large_is_not() {
    let asked = Asked::new();
    let small = asked.about(&functions(&[SMALL; 3].join(",")), &["--json"]).ok().lines();
    assert_eq!(small.len(), 2);
    assert!(small[0]["integrate"] == true && small[0]["gain"].as_f64().unwrap() > 1.2, "{small:?}");
    let large = asked.about(&functions(&[LARGE; 4].join(",")), &["--json"]).ok().lines();
    assert!(
        large[0]["integrate"] == false && large[0]["gain"].as_f64().unwrap() < 0.8,
        "{large:?}"
    );
    let words = asked.about(&functions(&[LARGE; 4].join(",")), &[]).ok().out;
    assert!(words.contains("Do not integrate") && words.contains("32 words of state"), "{words}");
    let words = asked.about(&functions(&[SMALL; 3].join(",")), &[]).ok().out;
    assert!(words.contains("Integrate:") && words.contains("All state (3 words)"), "{words}");
}

/// The same functions, told in another way.
#[test]
fn cycles_of_ports_stand_for_instructions() {
    let asked = Asked::new();
    let by = |work: &str| {
        let one = format!(r#"{{ "name": "a", "block_bytes": 8, "state_words": 1, {work} }}"#);
        let lines = asked.about(&functions(&one), &["--json"]).ok().lines();
        lines[0]["integrated_cycles_per_byte"].as_f64().unwrap()
    };
    assert_eq!(by(r#""instructions": 12"#), by(r#""port_cycles": 3.0"#), "4 a cycle");
    assert!(by(r#""port_cycles": 6.0"#) > by(r#""port_cycles": 3.0"#) * 1.5);
}

#[test]
fn what_cannot_be_one_loop_is_refused_by_rule() {
    let asked = Asked::new();
    let with = |more: &str| SMALL.replace('}', &format!(", {more} }}"));
    let top = |more: &str, all: &str| functions(all).replacen('{', &format!("{{ {more}, "), 1);
    let crc = with(r#""order": "first-to-last""#);
    for (description, rule) in [
        (top(r#""arrives": "any-order""#, &crc), "rule `order`: small is ordering-constrained"),
        (top(r#""arrives": "parts""#, &crc), "in parts, the first of them last"),
        (
            functions(&[&crc, &with(r#""order": "last-to-first""#) as &str].join(",")),
            "one loop has one order",
        ),
        (
            functions(&[&with(r#""needs_whole_message": true"#) as &str, LARGE].join(",")),
            "rule `whole-message`: what small",
        ),
        (functions(&with(r#""output": "other-length""#)), "rule `same-length`"),
        (top(r#""header_length_known": false"#, SMALL), "rule `header-length`"),
        (
            functions(&[SMALL.replace(": 8,", ": 56,"), SMALL.replace(": 8,", ": 40,")].join(",")),
            "rule `unit`: blocks of 56, 40 bytes join to units of 35 words",
        ),
    ] {
        let done = asked.about(&description, &[]);
        assert!(done.code == 3 && done.err.contains(rule), "{rule}: {done:?}");
    }
    asked.about(&functions(&crc), &[]).ok();
    asked.about(&functions(&with(r#""needs_whole_message": true"#)), &[]).ok();
}

#[test]
fn what_is_no_description_is_named() {
    let asked = Asked::new();
    for (description, expected) in [
        ("", "EOF"),
        ("[1]", "invalid"),
        (r#"{ "version": 1 }"#, "missing field"),
        (&functions(SMALL).replacen("1,", "9,", 1), "version 9"),
        (&functions(SMALL).replacen("scalar64", "decimal", 1), "has no `decimal`"),
        (&functions(SMALL).replacen("4096", "0", 1), "bytes is 0"),
        (&functions(""), "1 to 64 functions, not 0"),
        (&functions(&[SMALL; 65].join(",")), "not 65"),
        (&functions(&SMALL.replacen("8", "0", 1)), "block_bytes is 0"),
        (&functions(&SMALL.replacen("8", "12", 1)), "block_bytes is 12"),
        (&functions(&SMALL.replacen("4", "-4", 1)), "invalid value"),
        (&functions(&SMALL.replacen("4", "99999999", 1)), "instructions is 99999999"),
        (&functions(&SMALL.replacen("\"instructions\": 4", "\"colour\": 4", 1)), "unknown field"),
        (&functions(&SMALL.replacen(", \"instructions\": 4", "", 1)), "must say its work"),
        (&functions(&SMALL.replacen("4", "4, \"port_cycles\": 1", 1)), "only one of them"),
        (
            &functions(&SMALL.replacen("\"instructions\": 4", "\"port_cycles\": -1", 1)),
            "port_cycles is -1",
        ),
        (&functions(&SMALL.replacen("4", "4, \"lookups\": 1", 1)), "a table that has no bytes"),
    ] {
        let done = asked.about(description, &[]);
        assert!(done.code == 2 && done.err.contains(expected), "{expected}: {done:?}");
    }
    let missing =
        asked.world.run("alice", &["advise", "/nowhere.json", "--machine", &asked.machine]);
    assert!(missing.code == 1 && missing.err.contains("/nowhere.json"), "{missing:?}");
    let huge = asked.about(&" ".repeat(2 << 20), &[]);
    assert!(huge.code == 1 && huge.err.contains("more than"), "{huge:?}");
}
