//! What is said of the four specifications in `examples/`: kept in `explained/`, to be read by people.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-generate --test explained` writes it anew.

mod support;

use fusewire_generate::choice::choose;
use fusewire_generate::explain::explain;

use support::{EXAMPLES, changed};

#[test]
fn explanations_are_those_that_were_read() {
    for name in EXAMPLES {
        let checked = changed(name, "", "");
        assert!(checked.is_ok(), "{}", checked.wrong());
        let choice = choose(&checked.specification, None).expect("it can be had");
        let found = explain(&checked, &choice).markdown();
        let path = format!("{}/tests/explained/{name}.md", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("FUSEWIRE_UPDATE_DOCS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(found, kept, "{path} differs");
    }
}

/// Why a mechanism was not chosen is what stands against it beside what was chosen before it, and no other combination's reason.
#[test]
fn reasons_are_those_of_the_choice() {
    let checked = support::case("game", "", "");
    let choice = choose(&checked.specification, None).expect("it can be had");
    let explanation = explain(&checked, &choice);
    let why = |function: &str, mechanism: &str| {
        let decision = explanation.shared.iter().find(|one| one.function == function);
        let mut others = decision.expect("a function").alternatives.iter();
        others.find(|other| other.mechanism == mechanism).expect("a mechanism").why.clone()
    };
    // Words of four bytes make too much for the slowest rate; datagrams were chosen whatever the codec.
    let lws = why("codec", "lws");
    assert!(lws.starts_with("Snapshot: ") && lws.ends_with("at the slowest rate"), "{lws}");
    assert_eq!(
        why("sum", "cxor"),
        "cxor needs machine xtp or group, and machine datagram was chosen"
    );
    let xtp = why("machine", "xtp");
    assert!(!xtp.contains("acknowledgement"), "{xtp}");
    assert_eq!(why("nonce", "stream offset"), "machine datagram needs nonce number");
}

/// Clauses that change nothing are listed, before everything else.
#[test]
fn clauses_without_effect_are_listed_first() {
    let from = "type = \"Game.Snapshot\"";
    let checked = support::case("game", from, &format!("{from}\nprofile = \"scavenger\""));
    let choice = choose(&checked.specification, None).expect("it can be had");
    let text = explain(&checked, &choice).markdown();
    let section = text.split("\n## ").nth(1).expect("a section");
    assert!(section.starts_with("Not applied"), "{section}");
    for clause in ["adu.Snapshot.profile = \"scavenger\"", "adu.Event.priority = 3"] {
        assert!(section.contains(clause), "{clause}: {section}");
    }
    // A priority that orders something has an effect.
    assert!(!section.contains("adu.Voice.priority"), "{section}");
}

/// Loss is that of the network; what a newer ADU replaces at the receiver is said, by its key.
#[test]
fn loss_of_the_newest_says_what_is_not_counted() {
    let from = "order = \"newest\"";
    for (to, said) in [
        (from, "a newer one of the type comes"),
        ("order = \"newest\"\nnewest = \"symbol\"", "a newer one of its `symbol` comes"),
    ] {
        let checked = support::case("ticker", from, to);
        assert!(checked.is_ok(), "{}", checked.wrong());
        let choice = choose(&checked.specification, None).expect("it can be had");
        let text = explain(&checked, &choice).markdown();
        assert!(text.contains(said), "{text}");
    }
}
