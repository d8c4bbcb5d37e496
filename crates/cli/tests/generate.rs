//! `fusewire generate`: what a user of the program sees, and the tutorial of `docs/generate.md` as it stands there.
//!
//! `FUSEWIRE_UPDATE_DOCS=1` writes what the tutorial's commands print anew.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::World;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    root().join(format!("examples/{name}/{name}.toml")).to_str().unwrap().to_owned()
}

/// A specification beside the modules of an example, one text of it replaced.
fn changed(world: &World, name: &str, from: &str, to: &str) -> PathBuf {
    for entry in fs::read_dir(root().join("examples").join(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "asn1") {
            fs::copy(&path, world.here(path.file_name().unwrap().to_str().unwrap())).unwrap();
        }
    }
    let text = fs::read_to_string(example(name)).unwrap();
    assert!(text.contains(from), "{from}");
    let path = world.here(&format!("{name}.toml"));
    fs::write(&path, text.replacen(from, to, 1)).unwrap();
    path
}

#[test]
fn examples_can_be_had_and_are_explained() {
    let world = World::new();
    for name in ["bulk", "rpc", "conference", "telemetry"] {
        let done = world.run("alice", &["generate", &example(name)]).ok();
        assert!(done.out.starts_with(&format!("{name}: machine ")), "{}", done.out);
        let explained = world.run("alice", &["generate", &example(name), "--explain"]).ok();
        assert!(explained.out.contains(&format!(" [{name}.toml:")), "{}", explained.out);
        // The same in another process, of a specification that lies elsewhere.
        changed(&world, name, "roles", "roles");
        let again = world.run("alice", &["generate", &format!("{name}.toml"), "--explain"]).ok();
        assert_eq!(explained.out, again.out);
        let line = world.run("alice", &["generate", &example(name), "--json"]).ok().summary();
        assert_eq!((&line["ok"], &line["plan"]["name"]), (&true.into(), &name.into()));
        assert!(line["refused"].is_null(), "{line}");
        let shared = line["explanation"]["shared"].as_array().unwrap();
        assert!(shared.len() == 10 && shared[0]["alternatives"][0]["why"].is_string(), "{line}");
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_what_would_pass() {
    let world = World::new();
    let path = changed(&world, "rpc", "deadline_ms = 250", "deadline_ms = 100");
    let done = world.run("alice", &["generate", "rpc.toml"]).failed(3, "refused: Get: it takes");
    assert!(done.out.is_empty(), "{}", done.out);
    let clause = "\n  rpc.toml:3:60: `adu.Get.deadline_ms = 100`, and would pass as 250\n";
    assert!(done.err.contains(clause), "{}", done.err);
    // It does.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("deadline_ms = 100", "deadline_ms = 250")).unwrap();
    world.run("alice", &["generate", "rpc.toml"]).ok();
    fs::write(&path, text).unwrap();
    let done = world.run("alice", &["generate", "rpc.toml", "--json"]).failed(3, "refused");
    let refused = &done.lines()[0]["refused"];
    assert_eq!(refused["clauses"][1]["clause"], "adu.Get.deadline_ms", "{refused}");
    assert_eq!(
        (&refused["clauses"][1]["line"], &refused["clauses"][1]["passes"]),
        (&3.into(), &"250".into())
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let world = World::new();
    changed(&world, "bulk", "order", "oder");
    let done = world.run("alice", &["generate", "bulk.toml"]).failed(1, "bulk.toml: 1 error");
    let place = "bulk.toml:3:35: error: `adu.Block` has no key `oder`\n";
    assert!(done.err.starts_with(place), "{}", done.err);
    assert!(done.err.contains("help: is `order` meant?"), "{}", done.err);
    let line = world.run("alice", &["generate", "bulk.toml", "--json"]).failed(1, "1 error");
    let wrong = &line.lines()[0]["diagnostics"][0];
    assert_eq!(
        (&wrong["line"], &wrong["column"], &wrong["token"]),
        (&3.into(), &35.into(), &"oder".into())
    );
    world.run("alice", &["generate", "none.toml"]).failed(1, "none.toml: ");
    fs::remove_file(world.here("Bulk.asn1")).unwrap();
    changed(&world, "rpc", "Kv.Get", "Other.Get");
    let path = changed(&world, "rpc", "Kv.Get", "Ky.Get");
    let done = world.run("alice", &["generate", "rpc.toml"]).failed(1, "rpc.toml: 1 error");
    let place = "rpc.toml:3:12: error: `Ky.asn1` cannot be read: No such file";
    assert!(
        done.err.starts_with(place) && done.err.contains("is `Kv.asn1` meant?"),
        "{}",
        done.err
    );
    // What else is wrong is said beside it, for machines as well.
    let text = fs::read_to_string(&path).unwrap();
    for (asn1, why) in [
        ("[\"Kv.asn1\", \"Kv.asn1\"]", "`Kv.asn1` stands twice"),
        ("[\"../Kv.asn1\"]", "it does not lie beside the specification"),
        ("[\"/etc/hostname\"]", "it does not lie beside the specification"),
        ("[\".\"]", "is a directory"),
    ] {
        fs::write(&path, format!("bogus = 3\nasn1 = {asn1}\n{text}")).unwrap();
        let line = world.run("alice", &["generate", "rpc.toml", "--json"]).failed(1, "errors");
        let said = line.lines()[0]["diagnostics"].to_string();
        assert!(said.contains(why) && said.contains("no key `bogus`"), "{asn1}: {said}");
    }
    world.run("alice", &["generate"]).failed(2, "SPEC.toml");
}

#[test]
fn a_crate_is_written_and_drift_is_found() {
    let world = World::new();
    changed(&world, "bulk", "roles", "roles");
    let write = ["generate", "bulk.toml", "-o", "crate"];
    let check = [&write[..], &["--check"]].concat();
    world.run("alice", &check).failed(1, "crate: Cargo.toml is missing");
    let done = world.run("alice", &write).ok();
    assert!(done.out.ends_with("crate: 5 files\n"), "{}", done.out);
    world.run("alice", &check).ok();
    let explained = fs::read_to_string(world.here("crate/EXPLAIN.md")).unwrap();
    let said = world.run("alice", &["generate", "bulk.toml", "--explain"]).ok().out;
    assert_eq!(said, explained);
    let lib = world.here("crate/src/lib.rs");
    fs::write(&lib, fs::read_to_string(&lib).unwrap() + "\n").unwrap();
    world.run("alice", &check).failed(1, "crate: src/lib.rs:");
    // Nothing is written of what cannot be had, or has no code yet.
    changed(&world, "telemetry", "order = \"type\"", "order = \"type\", after = [\"Sample\"]");
    let why = "cannot be generated yet: `adu.Alarm.after = [\"Sample\"]`";
    world.run("alice", &["generate", "telemetry.toml", "-o", "none"]).failed(3, why);
    assert!(!world.here("none").exists());
    let said = world.run("alice", &["generate", "telemetry.toml"]).ok().out;
    assert!(said.contains("no code is made of it: ") && said.contains(why), "{said}");
    let line = world.run("alice", &["generate", "telemetry.toml", "--json"]).ok().summary();
    assert!(line["without_code"].as_str().unwrap().contains(why), "{line}");
    let line = world.run("alice", &["generate", "bulk.toml", "--json"]).ok().summary();
    assert!(line["without_code"].is_null(), "{line}");
    world.run("alice", &["generate", "bulk.toml", "--check"]).failed(2, "--output");
}

/// The crates are named as they lie from where the program runs, and found from where the generated one lies.
#[test]
fn crates_are_named_from_anywhere() {
    let world = World::new();
    changed(&world, "bulk", "roles", "roles");
    std::os::unix::fs::symlink(root().join("crates"), world.here("ours")).unwrap();
    let args = ["generate", "bulk.toml", "-o", "deep/crate", "--against", "./ours"];
    world.run("alice", &args).ok();
    let manifest = fs::read_to_string(world.here("deep/crate/Cargo.toml")).unwrap();
    let codec = root().join("crates").canonicalize().unwrap().join("codec");
    assert!(manifest.contains(&format!("path = \"{}\"", codec.display())), "{manifest}");
    world.run("alice", &["generate", "bulk.toml", "-o", "deep/crate", "--check"]).ok();
    let args = ["generate", "bulk.toml", "-o", "other", "--against", "deep"];
    world.run("alice", &args).failed(2, "deep: Fusewire's crates are not there");
    assert!(!world.here("other").exists());
}

#[test]
fn a_machine_that_is_none_is_said() {
    let world = World::new();
    fs::write(world.here("machine.json"), "{}").unwrap();
    let example = example("bulk");
    let args = ["generate", &example, "--machine", "machine.json"];
    world.run("alice", &args).failed(1, "machine.json: ");
    let head = "platform.machine = \"machine.json\"\nroles";
    changed(&world, "bulk", "roles", head);
    world.run("alice", &["generate", "bulk.toml"]).failed(1, "machine.json: ");
    changed(&world, "bulk", "roles", &head.replace("machine.json", "/etc/passwd"));
    let done = world.run("alice", &["generate", "bulk.toml"]).failed(1, "lie beside");
    assert!(!done.err.contains("root"), "{}", done.err);
}

#[test]
fn nothing_of_a_specification_reaches_the_terminal_as_it_is() {
    let world = World::new();
    fs::write(world.here("a.toml"), "roles = [\"\\u001b[2J\", \"b\"]\n\"\u{1b}x\" = 1").unwrap();
    let done = world.run("alice", &["generate", "a.toml"]).failed(1, "a.toml");
    assert!(!done.err.contains('\u{1b}'), "{:?}", done.err);
}

/// A block of the tutorial: what stands in the mark before it, and where its lines lie.
struct Block {
    mark: String,
    lines: std::ops::Range<usize>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("<!-- ") {
        let begin = at + found + "<!-- ".len();
        let end = begin + text[begin..].find(" -->").expect("a mark ends");
        let mark = text[begin..end].to_owned();
        at = end;
        if mark.starts_with("file: ") || mark.starts_with("run") {
            let open = end + text[end..].find("```\n").expect("a block") + "```\n".len();
            let close = open + text[open..].find("```").expect("an end of the block");
            blocks.push(Block { mark, lines: open..close });
            at = close;
        }
    }
    blocks
}

#[test]
fn the_tutorial_does_what_it_says() {
    let page = root().join("docs/generate.md");
    let mut text = fs::read_to_string(&page).unwrap();
    let kept = text.clone();
    let world = World::new();
    let mut runs = 0;
    for place in 0..blocks(&text).len() {
        let Block { mark, lines } = &blocks(&text)[place];
        if let Some(file) = mark.strip_prefix("file: ") {
            fs::write(world.here(file), &text[lines.clone()]).unwrap();
            continue;
        }
        let command = text[lines.clone()].lines().next().expect("a command").to_owned();
        let args: Vec<&str> =
            command.strip_prefix("$ fusewire ").expect("ours").split(' ').collect();
        let done = world.run("alice", &args);
        let all = format!("{}{}", done.err, done.out);
        let most = mark.strip_prefix("run: ").and_then(|m| m.strip_suffix(" lines")?.parse().ok());
        let mut shown: String =
            all.lines().take(most.unwrap_or(usize::MAX)).map(|line| format!("{line}\n")).collect();
        if done.code != 0 {
            shown += &format!("$ echo $?\n{}\n", done.code);
        }
        text.replace_range(lines.clone(), &format!("{command}\n{shown}"));
        runs += 1;
    }
    assert_eq!(runs, 6, "commands in the tutorial");
    if std::env::var_os("FUSEWIRE_UPDATE_DOCS").is_some() {
        fs::write(&page, &text).unwrap();
    } else {
        assert_eq!(kept, text, "docs/generate.md differs from what the program prints");
    }
}

#[test]
fn estimates_know_the_headers_that_are_written() {
    use fusewire_generate::choice::adu;
    use fusewire_wire::{ipv6, tcp, udp, xtp};
    /// Bytes of a message's tag in front of its data (docs/xtp.md, section 2, BTAG).
    const BTAG: usize = 8;
    let is = |estimate: f64, bytes: usize| assert_eq!(estimate, bytes as f64);
    is(adu::IP_BYTES, ipv6::HEADER_LEN + udp::HEADER_LEN);
    is(adu::TCP_BYTES, tcp::TIMESTAMP_HEADER_LEN);
    is(adu::XTP_BYTES, xtp::HEADER_LEN + BTAG);
    is(adu::RECORD_BYTES, fusewire_session::record::HEADER_LEN);
    is(adu::TAG_BYTES, fusewire_session::TAG_LEN);
}
