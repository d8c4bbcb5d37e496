//! The crates that specifications become, and what differs when one is changed. `examples/` builds and runs the same text.

use std::path::{Path, PathBuf};

use fusewire_generate::make::{self, Error};
use fusewire_generate::rust::{self, Against, CrateFile, Drift};

fn specification(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}/{name}.toml"))
}

fn written(name: &str, folder: &Path) -> Vec<CrateFile> {
    make::write(&specification(name), folder, Some(&Against::Workspace)).unwrap()
}

#[test]
fn the_same_specification_gives_the_same_bytes() {
    for name in ["bulk", "rpc", "conference", "telemetry"] {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(written(name, one.path()), written(name, other.path()));
        assert_eq!(make::check(&specification(name), one.path()).unwrap(), []);
    }
}

#[test]
fn what_was_changed_is_found_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    written("bulk", folder.path());
    let lib = folder.path().join("src/lib.rs");
    let text = std::fs::read_to_string(&lib).unwrap();
    std::fs::write(&lib, text.replacen("//!\n", "//! Mine.\n", 1)).unwrap();
    std::fs::remove_file(folder.path().join("src/types.rs")).unwrap();
    std::fs::write(folder.path().join("notes"), "the user's").unwrap();
    let changed = Drift::Differs { path: "src/lib.rs".into(), line: 2 };
    let drift = make::check(&specification("bulk"), folder.path()).unwrap();
    assert_eq!(drift, [changed, Drift::Missing("src/types.rs".into())]);
    // Another specification in its place is another crate.
    let other = make::check(&specification("rpc"), folder.path()).unwrap();
    assert_eq!(other.len(), 5, "{other:?}");
}

/// What is the user's stays, behind a link too, and nothing else is written then.
#[test]
fn what_is_not_ours_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    let refused = |path: &str| {
        let all = Some(&Against::Workspace);
        let error = make::write(&specification("bulk"), folder.path(), all).unwrap_err();
        assert!(
            matches!(&error, Error::Crate(rust::Error::NotOurs(of)) if *of == at(path)),
            "{error}"
        );
        assert!(error.to_string().contains(path), "{error}");
    };
    std::fs::write(at("Cargo.toml"), "# mine\n").unwrap();
    refused("Cargo.toml");
    assert_eq!(std::fs::read_to_string(at("Cargo.toml")).unwrap(), "# mine\n");
    assert!(!at("src").exists() && !at("EXPLAIN.md").exists());
    std::fs::remove_file(at("Cargo.toml")).unwrap();
    // The same bytes behind a link: neither written over nor what the specification gives.
    written("bulk", folder.path());
    written("bulk", folder.path());
    for path in ["src/lib.rs", "src/types.rs", "EXPLAIN.md", "tests/contract.rs"] {
        std::fs::rename(at(path), at("elsewhere")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at(path)).unwrap();
        refused(path);
        let drift = make::check(&specification("bulk"), folder.path()).unwrap();
        assert_eq!(drift, [Drift::Differs { path: path.into(), line: 1 }]);
        std::fs::remove_file(at(path)).unwrap();
        std::fs::rename(at("elsewhere"), at(path)).unwrap();
    }
    // Ours may be written over by another of ours.
    written("rpc", folder.path());
    assert_eq!(make::check(&specification("rpc"), folder.path()).unwrap(), []);
    std::fs::create_dir(at("other")).unwrap();
    std::fs::create_dir_all(at("other/EXPLAIN.md")).unwrap();
    let other = make::write(&specification("bulk"), &at("other"), Some(&Against::Workspace));
    assert!(matches!(other, Err(Error::Crate(rust::Error::NotOurs(_)))), "{other:?}");
}

/// A crate is looked at against the crates that it was written against.
#[test]
fn where_ours_are_is_no_drift() {
    for against in [Against::Workspace, Against::Path("../ours/crates".into())] {
        let folder = tempfile::tempdir().unwrap();
        make::write(&specification("bulk"), folder.path(), Some(&against)).unwrap();
        assert_eq!(Against::of_crate(folder.path()), Some(against));
        assert_eq!(make::check(&specification("bulk"), folder.path()).unwrap(), []);
    }
}

/// Of what goes in datagrams an end would not keep these.
#[test]
fn what_datagrams_would_not_keep_is_refused_with_its_clause() {
    let head = "network.jitter_ms = 10\n";
    let adapts = "adapt = [\"quality\"], rate_hz = [5, 30], bitrate_kbit = [100, 1000]";
    let of = |name: &str, with: &str| {
        format!(
            "adu.{name} = {{type = \"Mm.T\", reliability = \"avoid\", deadline_ms = 500, {with}}}\n"
        )
    };
    let other = "adu.W = {type = \"Mm.U\", from = \"b\", reliability = \"none\", deadline_ms = 100, rate_hz = [0, 2]}\n";
    let one = |with: &str| format!("{head}{}{}{other}", of("X", adapts), of("Y", with));
    let kept = one("order = \"type\", rate_hz = [0, 5]")
        .replace("\"quality\"]", "\"quality\"], order = \"newest\"");
    let files = made(&kept).unwrap();
    let lib = &files.iter().find(|file| file.path == Path::new("src/lib.rs")).unwrap().text;
    for text in
        ["Machine::Datagram", "Yields::Quality", "Order::Newest", "fn send_x", "Told(service::"]
    {
        assert!(lib.contains(text), "{text}: {lib}");
    }
    for (lines, clause) in [
        (one("rate_hz = [0, 5]"), "`adu.X.order = \"all\"`"),
        (kept.replace("order = \"type\"", "order = \"type\", after = [\"X\"]"), "`adu.Y.after = "),
        (kept.replace("rate_hz = [0, 5]", adapts), "`adu.X.adapt = "),
    ] {
        let error = made(&lines).expect_err(&lines).to_string();
        let is_refused = error.contains(clause) && error.contains("cannot be generated yet");
        assert!(is_refused, "{clause}: {lines}{error}");
    }
}

/// Ends that were made before what goes beside datagrams had when it was sent are told so: that is the first in which they differ.
#[test]
fn the_format_of_what_goes_beside_datagrams_is_a_clause() {
    let lane = "network.jitter_ms = 10\nadu.X = {type = \"Mm.T\", reliability = \"avoid\", deadline_ms = 500, adapt = [\"quality\"], rate_hz = [5, 30], bitrate_kbit = [100, 1000], order = \"newest\"}\n";
    let terms = |with: &str| -> Vec<String> {
        let files = made(&format!("{lane}adu.Y = {{type = \"Mm.U\", {with}}}\n")).unwrap();
        let lib = files.iter().find(|file| file.path == Path::new("src/lib.rs")).unwrap();
        let (_, clauses) = lib.text.split_once("pub const CLAUSES: &[&str] = &[\n").unwrap();
        clauses.lines().take_while(|line| *line != "];").map(str::to_owned).collect()
    };
    let beside = terms("order = \"type\"");
    let format = "\"format.beside = 2\",";
    let without: Vec<_> = beside.iter().filter(|term| term.trim() != format).collect();
    let first = beside.iter().zip(&without).find(|(a, b)| a != *b);
    assert_eq!(first.map(|(term, _)| term.trim()), Some(format), "{beside:?}");
    let alone =
        terms("order = \"type\", reliability = \"none\", deadline_ms = 100, rate_hz = [0, 2]");
    assert!(!alone.iter().any(|term| term.contains("format.")), "{alone:?}");
}

/// Of what is feasible that is chosen of which code is made, though another were less work; and of what was not the reason is said.
#[test]
fn what_has_code_is_chosen() {
    let text = "roles = [\"a\", \"b\"]\n\
        network = {rtt_ms = [20, 150], rate_mbit = [0.5, 20], loss = 0.02, jitter_ms = 20, mtu_bytes = 1280}\n\
        adu.X = {type = \"Mm.U\", rate_hz = [10, 50], reliability = \"avoid\", order = \"newest\", loss = 0.05, deadline_ms = 500}\n\
        adu.Y = {type = \"Mm.T\", order = \"none\", deadline_ms = 2000, late = \"deliver\"}\n\
        adu.Z = {type = \"Mm.T\", from = \"b\", order = \"none\", after = [\"W\"]}\n\
        adu.W = {type = \"Mm.T\", from = \"b\", order = \"none\", profile = \"scavenger\"}\n";
    let files = made_of_all(MODULE, text).unwrap();
    let explanation = &files.iter().find(|file| file.path == Path::new("EXPLAIN.md")).unwrap().text;
    let says = "  - xtp: no, no code is made of it yet: ";
    assert!(explanation.contains("**machine: datagram**"), "{explanation}");
    assert!(explanation.contains(says), "{explanation}");
}

/// A request that is dropped when it is late is a call that ends.
#[test]
fn a_request_may_be_dropped_when_it_is_late() {
    for reliability in ["prefer", "none"] {
        let lines = format!(
            "adu.Y = {{type = \"Mm.U\", reply = \"Z\", reliability = \"{reliability}\", deadline_ms = 500}}\n\
             adu.Z = {{type = \"Mm.T\", from = \"b\"}}\n"
        );
        let files = made(&lines).unwrap_or_else(|error| panic!("{reliability}: {error}"));
        let contract = &files.iter().find(|file| file.path.ends_with("contract.rs")).unwrap().text;
        assert!(contract.contains("contract::expires::<A, B>"), "{contract}");
    }
}

/// What no record holds is refused with what one does; of what has no bound that is assumed.
#[test]
fn what_is_longer_than_a_record_is_refused() {
    let module = |size: &str| MODULE.replace("OCTET STRING (SIZE (0..1000))", size);
    let lines = "adu.X = {type = \"Mm.T\"}\nadu.W = {type = \"Mm.U\"}\n";
    for size in ["OCTET STRING", "OCTET STRING (SIZE (0..16000000))"] {
        made_of(&module(size), lines).unwrap_or_else(|error| panic!("{size}: {error}"));
    }
    let error = made_of(&module("OCTET STRING (SIZE (0..17000000))"), lines).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("16777200]` would pass") && error.contains("size_bytes"), "{error}");
}

const HEAD: &str = "roles = [\"a\", \"b\"]\nnetwork.rtt_ms = [1, 20]\nnetwork.rate_mbit = [100, 1000]\nnetwork.loss = 0.001\n";
const MODULE: &str = "Mm DEFINITIONS AUTOMATIC TAGS ::= BEGIN
T ::= SEQUENCE { a INTEGER (0..10), b OCTET STRING (SIZE (0..1000)) }
U ::= SEQUENCE { b INTEGER (0..10) }
END
";

/// What is written of these lines behind [`HEAD`].
fn made(lines: &str) -> Result<Vec<CrateFile>, Error> {
    made_of(MODULE, lines)
}

/// The same, where the types are of this module.
fn made_of(module: &str, lines: &str) -> Result<Vec<CrateFile>, Error> {
    made_of_all(module, &format!("{HEAD}{lines}"))
}

/// The same, of a specification without a head.
fn made_of_all(module: &str, text: &str) -> Result<Vec<CrateFile>, Error> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Mm.asn1"), module).unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, text).unwrap();
    make::write(&path, &folder.path().join("out"), Some(&Against::Workspace))
}

#[test]
fn what_an_end_would_not_keep_is_refused_with_its_clause() {
    let x =
        |with: &str| format!("adu.X = {{type = \"Mm.T\", {with}}}\nadu.W = {{type = \"Mm.U\"}}\n");
    let call = |y: &str, z: &str| {
        format!(
            "adu.X = {{type = \"Mm.T\"}}\nadu.Y = {{type = \"Mm.U\", reply = \"Z\", {y}}}\n\
             adu.Z = {{type = \"Mm.U\", from = \"b\", {z}}}\n"
        )
    };
    let none = "order = \"none\"";
    let [plain, plain_call] = [x(none), call(none, none)];
    for fine in [&plain, &plain_call, &call("deadline_ms = 500, late = \"deliver\"", none)] {
        made(fine).unwrap_or_else(|error| panic!("{fine}: {error}"));
    }
    for (lines, clause) in [
        (
            call("integrity = \"full\"", none),
            "s.toml:6: cannot be generated yet: `adu.Y.integrity = \"full\"`",
        ),
        (
            x("reliability = \"prohibit\""),
            "s.toml:5: cannot be generated yet: `adu.X.reliability = \"prohibit\"`",
        ),
        (
            x("reliability = \"none\", deadline_ms = 500, order = \"none\""),
            "`adu.X.deadline_ms = 500`",
        ),
        (x("reliability = \"none\", order = \"newest\""), "`adu.X.order = \"newest\"`"),
        (call(none, "deadline_ms = 500, late = \"deliver\""), "`adu.Z.deadline_ms = 500`"),
        (call("order = \"all\"", none), "`adu.Y.order = \"all\"`"),
        (
            // A call, so that there are no datagrams.
            format!(
                "network.jitter_ms = 10\n{}",
                call(none, none).replace("\"Mm.T\"", "\"Mm.T\", jitter_ms = 1")
            ),
            "`adu.X.jitter_ms = 1`",
        ),
        (call("after = [\"X\"]", none), "`adu.Y.after = "),
        (call(none, none).replace("\"Mm.T\"", "\"Mm.T\", after = [\"Y\"]"), "`adu.X.after = "),
    ] {
        let error = made(&lines).expect_err(&lines).to_string();
        assert!(
            error.contains(clause) && error.contains("cannot be generated yet"),
            "{lines}{error}"
        );
    }
}

/// Where no clause leaves a session that is sealed, over UDP: which, where, and what would do.
#[test]
fn a_session_that_is_none_of_ours_is_refused_with_its_clause() {
    let of = |head: &str, x: &str| {
        format!("{head}adu.X = {{type = \"Mm.T\"{x}}}\nadu.W = {{type = \"Mm.U\"}}\n")
    };
    let bare = ", confidential = \"none\", authentic = \"none\"";
    let all_bare = |head: &str| of(head, bare).replace("\"Mm.U\"", &format!("\"Mm.U\"{bare}"));
    // Nobody minds, and so it is sealed like any other.
    let files = made(&all_bare("prefer = [\"cpu\"]\n")).unwrap();
    let text = |path: &str| &files.iter().find(|file| file.path == Path::new(path)).unwrap().text;
    assert!(text("src/lib.rs").contains("chosen.suite = sealed"), "{}", text("src/lib.rs"));
    assert!(text("EXPLAIN.md").contains("protection, which nobody asks to go without"));
    for (lines, clause, passes) in [
        (
            of("platform.device = \"tap\"\n", ""),
            "s.toml:5: cannot be generated yet: `platform.device = \"tap\"`",
            "`\"udp\"`",
        ),
        (
            all_bare("peers.foreign = \"oer\"\n"),
            "s.toml:5: cannot be generated yet: `peers.foreign = \"oer\"`",
            "`\"none\"`",
        ),
        (
            all_bare("peers.foreign = \"ber\"\n"),
            "s.toml:5: cannot be generated yet: `peers.foreign = \"ber\"`",
            "`\"none\"`",
        ),
        (
            all_bare("").replacen("\"none\"", "\"prohibit\"", 1),
            "s.toml:5: cannot be generated yet: `adu.X.confidential = \"prohibit\"`",
            "`\"none\"`",
        ),
        (
            all_bare("").replace("authentic = \"none\"", "authentic = \"avoid\""),
            "s.toml:6: cannot be generated yet: `adu.W.authentic = \"avoid\"`",
            "`\"none\"`",
        ),
        (
            all_bare("").replacen(bare, &format!("{bare}, integrity = \"bytes\""), 1),
            "s.toml:5: cannot be generated yet: `adu.X.integrity = \"bytes\"`",
            "`\"tag\"`",
        ),
    ] {
        let error = made(&lines).expect_err(&lines).to_string();
        let says = error.contains(clause) && error.contains(passes);
        assert!(says, "{clause}: {lines}{error}");
    }
}

/// What must be under way for a round trip has to fit into a stream's memory.
#[test]
fn what_a_stream_has_no_memory_for_is_refused() {
    let of = |rtt_ms: u32| {
        let adu = "bitrate_kbit = [100000, 200000]";
        let network = format!("rtt_ms = [1, {rtt_ms}], rate_mbit = [500, 1000], loss = 0");
        let text = format!(
            "roles = [\"a\", \"b\"]\nnetwork = {{{network}}}\nadu.X = {{type = \"Mm.T\", {adu}}}\nadu.Y = {{type = \"Mm.U\"}}\n"
        );
        made_of_all(MODULE, &text)
    };
    of(100).unwrap();
    let error = of(300).expect_err("it does not fit").to_string();
    let clause = "s.toml:2: cannot be generated yet: `network.rtt_ms = [1, 300]`";
    assert!(error.contains(clause) && error.contains("2048 before they are"), "{error}");
}

#[test]
fn what_an_end_of_a_group_would_not_keep_is_refused_with_its_clause() {
    let group = |x: &str, y: &str| {
        format!(
            "peers = {{shape = \"group\", receivers = [1, 8], floor_kbit = 200}}\n\
             adu.X = {{type = \"Mm.T\", {x}}}\nadu.Y = {{type = \"Mm.U\", {y}}}\n"
        )
    };
    let (again, once) =
        ("order = \"type\"", "reliability = \"avoid\", order = \"newest\", rate_hz = [10, 10]");
    for fine in [
        group(again, once),
        group(again, again),
        group(once, once),
        group("order = \"all\"", "order = \"all\""),
    ] {
        let files = made(&fine).unwrap_or_else(|error| panic!("{fine}: {error}"));
        let text = |path: &str| &files.iter().find(|f| f.path == Path::new(path)).unwrap().text;
        let is_once = text("src/lib.rs").contains("is_resent: false");
        assert_eq!(is_once, fine.contains("avoid"));
        let is_again = text("EXPLAIN.md").contains("is missed before it is acknowledged");
        assert_eq!(is_again, fine.contains("\"type\"") || fine.contains("\"all\""), "{fine}");
    }
    let late = "reliability = \"avoid\", order = \"newest\", rate_hz = [10, 10], loss = 0.0001";
    for (lines, clause) in [
        (
            group("order = \"all\"", "reliability = \"avoid\", order = \"all\""),
            "`adu.Y.order = \"all\"`",
        ),
        (group(again, &format!("{once}, after = [\"X\"]")), "`adu.Y.after = "),
        (group(&format!("{again}, after = [\"Y\"]"), once), "`adu.X.after = "),
        (group(again, late), "`adu.Y.loss = 0.0001`"),
        (
            format!("network.jitter_ms = 10\n{}", group(again, &format!("{once}, jitter_ms = 1"))),
            "`adu.Y.jitter_ms = 1`",
        ),
    ] {
        let error = made(&lines).expect_err(&lines).to_string();
        assert!(
            error.contains(clause) && error.contains("cannot be generated yet"),
            "{lines}{error}"
        );
    }
}

/// What is sent once has half of what is allowed beside what goes again, and all where nothing does: what makes more is refused.
#[test]
fn what_a_group_is_sent_once_has_its_rate_and_packets_their_length() {
    let of = |hz: u64, y: &str| {
        format!(
            "network.mtu_bytes = 1300\npeers = {{shape = \"group\", receivers = [1, 8]}}\n\
             adu.X = {{type = \"Mm.T\", reliability = \"avoid\", order = \"newest\", rate_hz = [{hz}, {hz}]}}\n\
             adu.Y = {{type = \"Mm.U\", {y}}}\n"
        )
    };
    let rates = |lines: &str| -> [u64; 2] {
        let files = made(lines).unwrap_or_else(|error| panic!("{lines}: {error}"));
        let lib = &files.iter().find(|file| file.path == Path::new("src/lib.rs")).unwrap().text;
        assert!(lib.contains("const MTU: usize = 1300;"), "{lib}");
        let (_, rates) = lib.split_once("const CAST_RATES: [u32; 2] = [").unwrap();
        let rates = rates.split_once(']').unwrap().0.split(", ").map(|rate| rate.parse().unwrap());
        rates.collect::<Vec<_>>().try_into().unwrap()
    };
    let (again, once) = ("order = \"type\"", "reliability = \"avoid\", rate_hz = [1, 1]");
    let allowed: u64 = rates(&of(10, again)).iter().sum();
    // Of a thousand bytes and their headers.
    let hz = allowed * 6 / 10 / 1130;
    assert!(rates(&of(hz, once))[1] > allowed * 6 / 10);
    let refused = made(&of(hz, again)).expect_err("too much").to_string();
    let says = ["cannot be generated yet", "`adu.X.rate_hz", "half of what is allowed"];
    assert!(says.iter().all(|text| refused.contains(text)), "{refused}");
}

/// A test is written where there is something that it can look at.
#[test]
fn a_group_has_the_tests_that_can_fail() {
    let of = |receivers: u32, x: &str, y: &str| {
        let lines = format!(
            "peers = {{shape = \"group\", receivers = [1, {receivers}]}}\n\
             adu.X = {{type = \"Mm.{x}}}\nadu.Y = {{type = \"Mm.{y}}}\n"
        );
        // `U` is too short to be told apart; every type of a module is carried.
        let is_carried = |line: &&str| !line.starts_with('T') || lines.contains("Mm.T");
        let module: Vec<_> = MODULE.lines().filter(is_carried).collect();
        let module = module.join("\n").replace("{ b INTEGER (0..10) }", "{ }");
        let files = made_of(&module, &lines).unwrap_or_else(|error| panic!("{lines}: {error}"));
        let text = &files.iter().find(|f| f.path == Path::new("tests/contract.rs")).unwrap().text;
        let all = ["reaches", "loses_few", "goes_on", "forgets", "passes_over", "hides", "admits"];
        let has = |test: &&str| text.contains(&format!("contract::group::{test}::<"));
        all.into_iter().filter(has).collect::<Vec<_>>().join(" ")
    };
    let once = "reliability = \"avoid\", loss = 0.05, order = \"newest\", rate_hz = [10, 10]";
    let (long, short) = (format!("T\", {once}"), format!("U\", {once}"));
    let all_again = "reaches goes_on forgets passes_over hides admits";
    assert_eq!(of(8, "T\"", "U\""), all_again);
    assert_eq!(of(8, "T\"", &short), all_again);
    assert_eq!(of(8, "U\"", &long), "reaches loses_few forgets passes_over hides admits");
    assert_eq!(of(1, "T\"", &short), "reaches passes_over hides admits");
    assert_eq!(of(8, "U\"", &short), "admits");
}

/// A session has 128 terms: of each specification every clause is in one of its own, or in that of its type.
#[test]
fn every_clause_is_in_a_term_that_a_session_has() {
    for count in [1, 4, 5, 6, 16, 64] {
        let adus: String = (0..count)
            .map(|n| {
                format!("adu.X{n} = {{type = \"Mm.{}\", priority = {n}}}\n", ["T", "U"][n % 2])
            })
            .collect();
        let adus = if count == 1 { format!("{adus}adu.W = {{type = \"Mm.U\"}}\n") } else { adus };
        let files = made(&adus).unwrap();
        let lib = files.iter().find(|file| file.path == Path::new("src/lib.rs")).unwrap();
        let (_, clauses) = lib.text.split_once("pub const CLAUSES: &[&str] = &[\n").unwrap();
        let terms: Vec<&str> = clauses.lines().take_while(|line| *line != "];").collect();
        assert!(terms.len() <= 128, "{count}: {}", terms.len());
        assert!(terms[1].contains("\"adu = X0, "), "{}", terms[1]);
        for n in 0..count {
            for clause in ["adu.X{}.type = ", "adu.X{}.profile = ", "chosen.X{}.resending = "] {
                let clause = clause.replace("{}", &n.to_string());
                let of = |term: &&&str| term.contains(&clause);
                assert_eq!(terms.iter().filter(of).count(), 1, "{count}: {clause}");
            }
            // No other type's clause is told in its place.
            let of = |term: &&&str| term.contains(&format!("adu.X{n}."));
            let others =
                |term: &str| (0..count).any(|m| m != n && term.contains(&format!("adu.X{m}.")));
            assert!(!terms.iter().filter(of).any(|term| others(term)), "{count}: X{n}");
        }
    }
}

/// What costs no promise is written into the crate.
#[test]
fn what_is_not_applied_is_said() {
    let files = made(
        "adu.X = {type = \"Mm.T\", priority = 1, rate_hz = [0, 5]}\nadu.Y = {type = \"Mm.U\", reply = \"Z\", replayable = true}\n\
         adu.Z = {type = \"Mm.U\", from = \"b\"}\n",
    )
    .unwrap();
    let said = files.iter().find(|file| file.path == Path::new("EXPLAIN.md")).unwrap();
    let (_, said) = said.text.split_once("## Not applied").expect("it is said");
    let said = said.split("\n## ").next().unwrap_or_default();
    for clause in ["adu.X.priority = 1", "adu.X.rate_hz", "adu.Y.replayable = true", "adu.Y.order"]
    {
        assert!(said.contains(clause), "{clause}: {said}");
    }
    assert!(!said.contains("adu.X.order"), "{said}");
}

/// What is in order with more than was asked for is said, over streams and to groups.
#[test]
fn what_waits_for_more_than_it_has_to_is_said() {
    let said = |lines: &str| {
        let files = made(lines).unwrap();
        let said = files.iter().find(|file| file.path == Path::new("EXPLAIN.md")).unwrap();
        let said = said.text.split_once("## Not applied").map_or("", |(_, said)| said);
        let said = said.split("\n## ").next().unwrap_or_default();
        said.lines().filter(|line| line.contains("- order: ")).collect::<Vec<_>>().join("\n")
    };
    let of = |x: &str, y: &str| {
        format!(
            "adu.X = {{type = \"Mm.T\"{x}}}\nadu.Y = {{type = \"Mm.U\"{y}}}\nadu.W = {{type = \"Mm.U\"}}\n"
        )
    };
    let group = |lines: String| {
        format!("peers = {{shape = \"group\", receivers = [1, 8], floor_kbit = 200}}\n{lines}")
    };
    let has = |said: String, clauses: &[&str]| {
        assert_eq!(said.lines().count(), clauses.len(), "{said}");
        assert!(clauses.iter().all(|clause| said.contains(clause)), "{clauses:?}: {said}");
    };
    let (each, free) = (", order = \"type\"", ", order = \"none\"");
    let (x, y) = ("adu.X.order = \"type\"", "adu.Y.after = ");
    let after = ", order = \"none\", after = [\"X\"]";
    has(said(&of("", ", after = [\"X\"]")), &[]);
    has(said(&of(free, free)), &[]);
    has(said(&of(each, after)), &[x, y]);
    has(said(&group(of("", ""))), &[]);
    has(said(&group(of(each, after))), &[x, y, "adu.Y.order = \"none\""]);
}

#[test]
fn what_is_wrong_or_cannot_be_had_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let changed = |from: &str, to: &str| {
        let rpc = specification("rpc");
        let text = std::fs::read_to_string(&rpc).unwrap();
        let path = folder.path().join("rpc.toml");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        std::fs::copy(rpc.with_file_name("Kv.asn1"), folder.path().join("Kv.asn1")).unwrap();
        make::write(&path, &folder.path().join("out"), None).unwrap_err()
    };
    let wrong = changed("Kv.Get", "Kv.Gett");
    assert!(
        matches!(wrong, Error::Wrong(_)) && wrong.to_string().contains("rpc.toml:3:"),
        "{wrong}"
    );
    let refused = changed("deadline_ms = 250", "deadline_ms = 1");
    assert!(matches!(refused, Error::Refused(..)), "{refused}");
    let clause = "rpc.toml:3:60: `adu.Get.deadline_ms = 1`";
    assert!(refused.to_string().contains(clause), "{refused}");
    let missing = make::write(Path::new("nowhere.toml"), folder.path(), None).unwrap_err();
    assert!(missing.to_string().starts_with("nowhere.toml: "), "{missing}");
}

/// Generated code says nothing by `unsafe`, has no states, and is small.
#[test]
fn generated_code_is_safe_and_small() {
    for name in ["bulk", "rpc", "conference", "telemetry"] {
        let folder = tempfile::tempdir().unwrap();
        let files = written(name, folder.path());
        let text = |path: &str| &files.iter().find(|f| f.path == Path::new(path)).unwrap().text;
        let lib = text("src/lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]") && !lib.contains("unsafe {"), "{lib}");
        assert!(!lib.contains("loop") && !lib.contains("while") && !lib.contains("Vec"), "{lib}");
        assert!(lib.lines().count() < 500, "{}", lib.lines().count());
    }
}

/// What is written is a crate by itself, with tests that compile.
#[test]
#[ignore = "builds what a session is made of once more: `cargo xtask soak` runs it"]
fn a_crate_builds_by_itself() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["bulk", "rpc", "conference", "telemetry"] {
        let folder = tempfile::tempdir().unwrap();
        make::write(&specification(name), folder.path(), None).unwrap();
        // The versions that are there.
        std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let checked = std::process::Command::new(cargo)
            .args(["check", "--offline", "--tests"])
            .current_dir(folder.path())
            // As the workspace has it, so that what is built already is not built again.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env("CARGO_TARGET_DIR", root.join("target"))
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
