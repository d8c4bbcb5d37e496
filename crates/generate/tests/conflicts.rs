//! Planted conflicts: each is named by exactly the clauses that make it, whatever else is written, and what is said to pass
//! does.

mod support;

use std::sync::LazyLock;

use fusewire_asn1::Source;
use fusewire_generate::choice::{Refusal, choose};
use fusewire_generate::language::{Checked, Specification, check};
use fusewire_generate::plan::Machine;

const MODULE: &str = "M DEFINITIONS AUTOMATIC TAGS ::= BEGIN
    Small ::= SEQUENCE { n INTEGER (0..9) }
    Large ::= SEQUENCE { bytes OCTET STRING (SIZE (1..60000)) }
END";

fn checked(text: &str) -> Checked {
    check(Source::new("s.toml", text.as_bytes()), vec![Source::new("M.asn1", MODULE.as_bytes())])
}

/// What is planted: lines of a specification, and the clauses that do not go together, with those that nobody wrote.
struct Planted {
    name: &'static str,
    lines: &'static [&'static str],
    clauses: &'static [&'static str],
    defaults: &'static [&'static str],
}

const ROLES: &str = "roles = [\"a\", \"b\"]\n";
/// Demands of a type that conflict with nothing.
const DEMANDS: &str = "confidential = \"none\", authentic = \"none\", reliability = \"none\", loss = 0.95, loss_run = 900, \
                       deadline_ms = 80000, late = \"deliver\", order = \"type\", priority = 7";

#[rustfmt::skip]
const PLANTED: &[Planted] = &[
    Planted {
        name: "the way alone takes longer",
        lines: &["network = {rtt_ms = [10, 200], rate_mbit = 10, loss = 0}",
                 "adu.X = {type = \"M.Small\", deadline_ms = 50, late = \"deliver\"}"],
        clauses: &["network.rtt_ms", "adu.X.deadline_ms"],
        defaults: &[],
    },
    Planted {
        name: "newer ones overtake more in a row than may be lost",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0, jitter_ms = 30}",
                 "adu.X = {type = \"M.Small\", reliability = \"none\", order = \"newest\", rate_hz = [100, 100], loss = 0.9, loss_run = 1}"],
        clauses: &["network.jitter_ms", "adu.X.loss_run", "adu.X.order", "adu.X.rate_hz"],
        defaults: &[],
    },
    Planted {
        name: "its bytes take longer to leave",
        lines: &["network = {rtt_ms = 10, rate_mbit = [0.1, 10], loss = 0}",
                 "adu.X = {type = \"M.Large\", deadline_ms = 1000, late = \"deliver\"}"],
        clauses: &["network.rate_mbit", "adu.X.deadline_ms"],
        defaults: &[],
    },
    Planted {
        name: "times vary by more",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0, jitter_ms = 300}",
                 "adu.X = {type = \"M.Small\", deadline_ms = 100, late = \"deliver\"}"],
        clauses: &["network.jitter_ms", "adu.X.deadline_ms"],
        defaults: &[],
    },
    Planted {
        name: "what is sent again comes too late",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0.05}",
                 "adu.X = {type = \"M.Small\", deadline_ms = 100, late = \"deliver\"}"],
        clauses: &["network.loss", "adu.X.deadline_ms"],
        defaults: &["adu.X.reliability"],
    },
    Planted {
        name: "nothing may be sent again, and more is lost",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0.1}",
                 "adu.X = {type = \"M.Small\", reliability = \"prohibit\", loss = 0.001}"],
        clauses: &["network.loss", "adu.X.reliability", "adu.X.loss"],
        defaults: &[],
    },
    Planted {
        name: "more are lost in a row",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0.1, loss_burst = 5}",
                 "adu.X = {type = \"M.Small\", reliability = \"prohibit\", loss_run = 2}"],
        clauses: &["network.loss", "network.loss_burst", "adu.X.reliability", "adu.X.loss_run"],
        defaults: &[],
    },
    Planted {
        name: "more bits than the path carries",
        lines: &["network = {rtt_ms = 10, rate_mbit = [1, 10], loss = 0}",
                 "adu.X = {type = \"M.Large\", bitrate_kbit = [2000, 3000]}"],
        clauses: &["network.rate_mbit", "adu.X.bitrate_kbit"],
        defaults: &[],
    },
    Planted {
        name: "more ADUs than the path carries",
        lines: &["network = {rtt_ms = 10, rate_mbit = [1, 10], loss = 0}",
                 "adu.X = {type = \"M.Large\", rate_hz = [10, 10]}"],
        clauses: &["network.rate_mbit", "adu.X.rate_hz"],
        defaults: &[],
    },
    Planted {
        name: "more than others on the path would be left",
        lines: &["network = {rtt_ms = [10, 200], rate_mbit = 100, loss = 0.1}",
                 "adu.X = {type = \"M.Large\", bitrate_kbit = [2000, 3000]}"],
        clauses: &["network.rtt_ms", "network.loss", "adu.X.bitrate_kbit"],
        defaults: &["network.control"],
    },
    Planted {
        name: "buffers for one do not fit",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "platform = {memory_kib = 100}",
                 "adu.X = {type = \"M.Large\"}"],
        clauses: &["platform.memory_kib"],
        defaults: &[],
    },
    Planted {
        name: "what is sealed into a stream cannot expire",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "platform = {device = \"kernel-tcp\"}",
                 "adu.X = {type = \"M.Small\", reliability = \"prefer\", deadline_ms = 100}"],
        clauses: &["platform.device", "adu.X.deadline_ms"],
        defaults: &["adu.X.late"],
    },
    Planted {
        name: "a stream has no newest",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "platform = {device = \"shm\"}",
                 "adu.X = {type = \"M.Small\", reliability = \"none\", order = \"newest\"}"],
        clauses: &["platform.device", "adu.X.order"],
        defaults: &[],
    },
    Planted {
        name: "a stream has no target for who adapts",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "platform = {device = \"kernel-tcp\"}",
                 "adu.X = {type = \"M.Small\", reliability = \"none\", rate_hz = [1, 10], adapt = [\"frequency\"]}"],
        clauses: &["platform.device", "adu.X.adapt"],
        defaults: &[],
    },
    Planted {
        name: "a stream makes nothing even",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0, jitter_ms = 30}",
                 "platform = {device = \"kernel-tcp\"}", "adu.X = {type = \"M.Small\", jitter_ms = 5}"],
        clauses: &["network.jitter_ms", "platform.device", "adu.X.jitter_ms"],
        defaults: &[],
    },
    Planted {
        name: "who is not ours deciphers nothing",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "peers = {foreign = \"xdr\"}",
                 "adu.X = {type = \"M.Small\", confidential = \"require\", authentic = \"none\"}"],
        clauses: &["peers.foreign", "adu.X.confidential"],
        defaults: &[],
    },
    Planted {
        name: "one is hidden and another may not be",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}",
                 "adu.X = {type = \"M.Small\", confidential = \"prohibit\", authentic = \"none\"}",
                 "adu.Y = {type = \"M.Large\", confidential = \"require\", authentic = \"none\"}"],
        clauses: &["adu.X.confidential", "adu.Y.confidential"],
        defaults: &[],
    },
    Planted {
        name: "what must arrive goes in no datagrams",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}",
                 "adu.X = {type = \"M.Small\", reliability = \"require\", rate_hz = [1, 10], adapt = [\"frequency\"]}"],
        clauses: &["adu.X.reliability", "adu.X.adapt"],
        defaults: &[],
    },
    Planted {
        name: "newer ones overtake too many",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0, jitter_ms = 30}",
                 "adu.X = {type = \"M.Small\", rate_hz = [50, 60], adapt = [\"frequency\"], reliability = \"none\", \
                  order = \"newest\", loss = 0.05}"],
        clauses: &["network.jitter_ms", "adu.X.loss", "adu.X.order", "adu.X.rate_hz"],
        defaults: &[],
    },
    Planted {
        name: "an answer is no stream's",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "platform = {device = \"kernel-tcp\"}",
                 "adu.X = {type = \"M.Small\", reply = \"Y\"}", "adu.Y = {type = \"M.Large\", from = \"b\"}"],
        clauses: &["platform.device", "adu.X.reply"],
        defaults: &[],
    },
    Planted {
        name: "every member could forge",
        lines: &["network = {rtt_ms = 10, rate_mbit = 10, loss = 0}", "peers = {shape = \"group\"}",
                 "adu.X = {type = \"M.Small\", authentic = \"require\"}"],
        clauses: &["adu.X.authentic"],
        defaults: &[],
    },
    Planted {
        name: "a group asks again too late",
        lines: &["network = {rtt_ms = [10, 100], rate_mbit = 10, loss = 0.01}", "peers = {shape = \"group\"}",
                 "adu.X = {type = \"M.Small\", deadline_ms = 300, late = \"deliver\"}"],
        clauses: &["network.rtt_ms", "network.loss", "adu.X.deadline_ms"],
        defaults: &["adu.X.reliability"],
    },
    Planted {
        name: "a group's floor is above the path",
        lines: &["network = {rtt_ms = 10, rate_mbit = [1, 10], loss = 0}",
                 "peers = {shape = \"group\", receivers = [1, 8], floor_kbit = 2000}", "adu.X = {type = \"M.Small\"}"],
        clauses: &["network.rate_mbit", "peers.floor_kbit"],
        defaults: &[],
    },
];

/// All of them, refused once.
static REFUSED: LazyLock<Vec<(&Planted, Checked, Refusal)>> = LazyLock::new(|| {
    let refused = PLANTED.iter().map(|of| {
        let (checked, refusal) = refused(of);
        (of, checked, refusal)
    });
    refused.collect()
});

/// What cannot be had, with a type beside that has nothing to do with it.
fn refused(of: &Planted) -> (Checked, Refusal) {
    let mut text = ROLES.to_owned() + &of.lines.join("\n") + "\n";
    let other = match (text.contains("M.Large"), text.contains("M.Small")) {
        (false, _) => Some("\"M.Large\", size_bytes = [1, 10]"),
        (_, false) => Some("\"M.Small\""),
        _ => None,
    };
    if let Some(ty) = other {
        text += &format!("adu.Other = {{type = {ty}, {DEMANDS}}}\n");
    }
    let checked = checked(&text);
    assert!(checked.is_ok(), "{}: {}", of.name, checked.wrong());
    let refusal = choose(&checked.specification, None).expect_err(of.name);
    (checked, *refusal)
}

fn without(of: &Specification, clause: &str) -> Specification {
    let mut without = of.clone();
    without.clause_mut(clause).expect("it is there").relax();
    without
}

#[test]
fn conflicts_are_named_by_the_clauses_that_make_them() {
    for (of, _, refusal) in REFUSED.iter() {
        let names = |all: &[fusewire_generate::choice::Conflicting]| -> Vec<String> {
            all.iter().map(|c| c.clause.name.clone()).collect()
        };
        let found = (names(&refusal.clauses), names(&refusal.defaults));
        let expected = (of.clauses, of.defaults);
        let expected = (expected.0.to_vec(), expected.1.to_vec());
        assert!(
            found.0 == expected.0 && found.1 == expected.1,
            "{}: {found:?}\n{}",
            of.name,
            refusal.why
        );
        assert!(refusal.why.len() > 20, "{}", refusal.why);
    }
}

#[test]
fn each_clause_of_a_conflict_is_needed_and_no_other_is() {
    for (of, checked, refusal) in REFUSED.iter() {
        let all: Vec<&str> = refusal
            .clauses
            .iter()
            .chain(&refusal.defaults)
            .map(|c| c.clause.name.as_str())
            .collect();
        for one in &all {
            let without = without(&checked.specification, one);
            assert!(choose(&without, None).is_ok(), "{}: {one} is not needed", of.name);
        }
        let mut alone = checked.specification.clone();
        let names: Vec<_> =
            alone.clauses().iter().map(|clause| clause.clause().name.clone()).collect();
        for other in names.iter().filter(|name| !all.contains(&name.as_str())) {
            alone = without(&alone, other);
        }
        assert!(choose(&alone, None).is_err(), "{}: {all:?} alone go together", of.name);
    }
}

#[test]
fn what_is_said_to_pass_passes() {
    let mut passing = 0;
    for (of, checked, refusal) in REFUSED.iter() {
        let mut own = 0;
        for one in refusal.clauses.iter().chain(&refusal.defaults) {
            let Some(value) = &one.passes else { continue };
            let text = support::with_value(checked, &one.clause.name, value);
            let changed = self::checked(&text);
            // A word that another clause rules out is said to be, and where.
            if !changed.is_ok() {
                continue;
            }
            let chosen = choose(&changed.specification, None);
            assert!(chosen.is_ok(), "{}: {} = {value} does not pass", of.name, one.clause.name);
            own += 1;
        }
        assert!(own > 0, "{}: nothing is said to pass: {refusal:#?}", of.name);
        passing += own;
    }
    assert!(passing > PLANTED.len(), "{passing}");
}

#[test]
fn a_conflict_behind_another_is_said_to_be_there() {
    // Below the group's floor, and too slow for a deadline.
    let changed = support::changed("telemetry", "rtt_ms = [1, 20]", "rtt_ms = [1, 900]");
    let refusal = choose(&changed.specification, None).expect_err("it is too slow");
    let floor = refusal.clauses.iter().find(|c| c.clause.name == "peers.floor_kbit");
    let floor = floor.expect("it is part of it");
    assert_eq!(floor.passes, None);
    let value = floor.ends.as_deref().expect("a value that ends this conflict");
    let text = support::with_value(&changed, "peers.floor_kbit", value);
    let behind = choose(&support::with_text("telemetry", &text).specification, None);
    let behind = behind.expect_err("the deadline is left");
    let names: Vec<_> = behind.clauses.iter().map(|c| c.clause.name.as_str()).collect();
    assert!(!names.contains(&"peers.floor_kbit"), "{names:?}");
    assert!(names.contains(&"adu.Alarm.deadline_ms"), "{names:?}");
}

/// Beside a module that has the types that are carried, and no other.
fn checked_of(text: &str) -> Checked {
    let types = [
        ("Small", "SEQUENCE { n INTEGER (0..9) }"),
        ("Short", "SEQUENCE { bytes OCTET STRING (SIZE (1..1000)) }"),
        ("Mid", "SEQUENCE { bytes OCTET STRING (SIZE (1..5600)) }"),
        ("Large", "SEQUENCE { bytes OCTET STRING (SIZE (1..60000)) }"),
    ];
    let carried = types.iter().filter(|(name, _)| text.contains(&format!("\"M.{name}\"")));
    let carried: String = carried.map(|(name, ty)| format!("{name} ::= {ty}\n")).collect();
    let module = format!("M DEFINITIONS AUTOMATIC TAGS ::= BEGIN\n{carried}END");
    let modules = vec![Source::new("M.asn1", module.as_bytes())];
    check(Source::new("s.toml", text.as_bytes()), modules)
}

fn of_text(text: &str) -> Checked {
    let checked = checked_of(&format!("{ROLES}{text}"));
    assert!(checked.is_ok(), "{text}: {}", checked.wrong());
    checked
}

fn plan_of(text: &str) -> fusewire_generate::Plan {
    let checked = of_text(text);
    choose(&checked.specification, None).unwrap_or_else(|why| panic!("{text}: {why:?}")).plan
}

fn refusal_of(text: &str) -> (Checked, Box<Refusal>) {
    let checked = of_text(text);
    let refusal = choose(&checked.specification, None).map(|choice| choice.plan);
    (checked, refusal.expect_err(text))
}

/// A packet of parity is as long as the longest behind which it goes, however short the last one is.
#[test]
fn parity_is_counted_as_long_as_it_is() {
    let plan = plan_of(
        "network = {rtt_ms = [10, 40], rate_mbit = [10, 100], loss = 0.01}\n\
         adu.X = {type = \"M.Mid\", rate_hz = 20, reliability = \"avoid\", order = \"newest\", loss = 0.02, deadline_ms = 150}\n\
         adu.Y = {type = \"M.Small\"}\n",
    );
    let adu = &plan.adus[0];
    assert!(!adu.fec.is_empty());
    // Five packets and one of parity, each with a hundred bytes of headers at least.
    let least = 20 * 8 * (adu.size_bytes.1 + u64::from(plan.payload_bytes) + 6 * 100);
    let counted = adu.load_bits_per_s.1.unwrap();
    assert!(counted > least, "{counted} bit/s, and more than {least} are sent");
}

/// What the other end sends is in nobody's way.
#[test]
fn an_end_waits_for_what_it_sends_itself() {
    let text = |from: &str| {
        format!(
            "network = {{rtt_ms = [10, 20], rate_mbit = [0.1, 1], loss = 0, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Small\", deadline_ms = 100, late = \"deliver\"}}\n\
             adu.Y = {{type = \"M.Large\", from = \"{from}\"}}\n"
        )
    };
    plan_of(&text("b"));
    let (_, refusal) = refusal_of(&text("a"));
    assert!(refusal.why.contains("queue"), "{}", refusal.why);
}

/// Where nothing else is sent, what a stream sends again is lost with what was lost before it.
#[test]
fn losses_in_a_row_take_what_is_sent_again_too() {
    let text = |burst: u32, other: &str| {
        format!(
            "network = {{rtt_ms = [10, 50], rate_mbit = [1, 10], loss = 0.02, loss_burst = {burst}}}\n\
             adu.X = {{type = \"M.Small\", deadline_ms = 400, late = \"deliver\"}}\n{other}"
        )
    };
    plan_of(&text(1, ""));
    let (_, refusal) = refusal_of(&text(10, ""));
    let clauses: Vec<_> = refusal.clauses.iter().map(|one| one.clause.name.as_str()).collect();
    assert!(clauses.contains(&"network.loss_burst"), "{clauses:?}");
    plan_of(&text(10, "adu.Y = {type = \"M.Small\", rate_hz = [500, 500]}\n"));
}

/// Sizes that no codec can have are refused; those that some cannot are for others.
#[test]
fn a_codec_is_chosen_that_can_be_so_short() {
    let network = "network = {rtt_ms = 10, rate_mbit = 10, loss = 0}\n";
    let plan = plan_of(&format!("{network}adu.X = {{type = \"M.Small\", size_bytes = [1, 2]}}\n"));
    assert_eq!(plan.adus[0].codec, fusewire_generate::plan::Codec::Oer);
    assert!(plan.adus[0].size_bytes.0 <= plan.adus[0].size_bytes.1);
}

/// What is said to pass contradicts nothing that is written; what does not pass says what would; and why says what is so.
#[test]
fn a_refusal_says_what_is_so() {
    let network = "network = {rtt_ms = [7, 8], rate_mbit = [2, 39], loss = 0.01}\n";
    let adu = |with: &str| format!("{network}adu.X = {{type = \"M.Small\", {with}}}\n");
    let (_, refusal) = refusal_of(&adu("reliability = \"prohibit\", loss = 0.001"));
    let passes = |name: &str| {
        let one = refusal.clauses.iter().find(|one| one.clause.name == name);
        one.and_then(|one| one.passes.clone())
    };
    assert_ne!(passes("adu.X.reliability").as_deref(), Some("\"require\""), "{refusal:?}");
    assert!(!refusal.why.contains("in time"), "{}", refusal.why);
    // Behind the first conflict is another: nobody says that there is none.
    let (checked, refusal) = refusal_of(
        "network = {rtt_ms = [1, 50], rate_mbit = [12, 960], loss = 0.001}\nplatform = {device = \"shm\"}\n\
         adu.X = {type = \"M.Small\", reliability = \"avoid\", deadline_ms = 92}\n",
    );
    let text = fusewire_generate::report::refused(&checked, &refusal).text("s.toml");
    let all_go = refusal.clauses.iter().chain(&refusal.defaults).all(|one| one.goes);
    assert_eq!(text.contains("without any one of them the others do"), all_go, "{text}");
    for one in refusal.clauses.iter().chain(&refusal.defaults) {
        let mut without = checked.specification.clone();
        without.clause_mut(&one.clause.name).unwrap().relax();
        assert_eq!(choose(&without, None).is_ok(), one.goes, "{}: {text}", one.clause.name);
    }
    assert!(text.lines().skip(2).all(|line| line.contains(", ") || line.ends_with(':')), "{text}");
    assert!(!text.contains("another conflict"), "{text}");
    assert!(!text.contains("explicit delayed"), "{text}");
}

/// What comes nearest to what is asked for is told where no single value ends the first conflict.
#[test]
fn a_refusal_is_of_what_comes_nearest() {
    // Corrected it makes a little more than may be sent; uncorrected half as many again are lost as may be.
    let (_, refusal) = refusal_of(
        "network = {rtt_ms = [10, 100], rate_mbit = [2, 100], loss = 0.01, loss_burst = 2, jitter_ms = 15}\n\
         adu.X = {type = \"M.Mid\", rate_hz = [22, 22], reliability = \"avoid\", order = \"newest\", loss = 0.02, deadline_ms = 150}\n\
         adu.Y = {type = \"M.Small\", rate_hz = [50, 50], reliability = \"none\"}\n",
    );
    assert!(refusal.why.contains("1361 kbit/s are what a TCP would get"), "{refusal:#?}");
    let passes = |name: &str| {
        let one = refusal.clauses.iter().find(|one| one.clause.name == name);
        one.is_some_and(|one| one.goes && one.passes.is_some())
    };
    assert!(passes("network.loss") && passes("adu.X.loss"), "{refusal:#?}");
    assert!(passes("network.rtt_ms"), "{refusal:#?}");
}

/// A value that would end a conflict contradicts nothing that is written, with another conflict behind it, too.
#[test]
fn a_value_that_ends_a_conflict_contradicts_nothing() {
    let (checked, refusal) = refusal_of(
        "network = {rtt_ms = [10, 200], rate_mbit = [1, 10], loss = 0.1, loss_burst = 3}\n\
         adu.Y = {type = \"M.Small\", deadline_ms = 50, late = \"deliver\"}\n\
         adu.X = {type = \"M.Mid\", reliability = \"prohibit\", loss = 0}\n",
    );
    let ends =
        refusal.clauses.iter().filter_map(|one| Some((&one.clause.name, one.ends.as_ref()?)));
    let mut count = 0;
    for (name, value) in ends {
        let text = support::with_value(&checked, name, value);
        assert!(self::checked_of(&text).is_ok(), "{name} = {value}: {}", checked_of(&text).wrong());
        count += 1;
    }
    assert!(count > 0, "{refusal:#?}");
}

/// Datagrams of what is more important go before it, all of an ADU; of what is as important one goes, in its turn.
#[test]
fn what_is_more_important_is_waited_for() {
    let text = |priority: u32| {
        format!(
            "network = {{rtt_ms = [10, 20], rate_mbit = [0.5, 10], jitter_ms = 5, loss = 0.001, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = 20, reliability = \"avoid\", loss = 0.1, deadline_ms = 60, jitter_ms = 1}}\n\
             adu.Y = {{type = \"M.Mid\", rate_hz = 1, reliability = \"avoid\", loss = 0.1, deadline_ms = 400, priority = {priority}}}\n"
        )
    };
    // 5,600 bytes are 90 ms at the slowest rate, and a packet of them 20. By XTP nothing is more important.
    let machine = |priority| plan_of(&text(priority)).machine;
    assert_eq!([100, 200].map(machine), [Machine::Datagram; 2]);
    assert_ne!(machine(50), Machine::Datagram);
}

/// As many of what goes before as come while an ADU leaves, and not one alone.
#[test]
fn all_that_comes_meanwhile_is_waited_for() {
    let text = |deadline: &str, priority: u32, hz: u32| {
        format!(
            "network = {{rtt_ms = 10, rate_mbit = [2, 10], loss = 0.001, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Mid\", rate_hz = 1, reliability = \"avoid\", loss = 0.1, order = \"type\", late = \"deliver\", deadline_ms = {deadline}}}\n\
             adu.Y = {{type = \"M.Short\", rate_hz = {hz}, reliability = \"avoid\", loss = 0.1, order = \"type\", priority = {priority}}}\n"
        )
    };
    let ms = |deadline: &str, priority: u32, hz: u32| {
        let choice = choose(&of_text(&text(deadline, priority, hz)).specification, None).unwrap();
        assert_eq!(choice.plan.machine, Machine::Datagram, "{priority} {hz}");
        choice.combination.ways[0].figures.time.all().round()
    };
    // 5 ms on the way, 28 for its bytes at nine tenths of the slowest rate: with 4.9 each 6.7 ms sixteen go before it, and in turn five.
    let all = [ms("200", 50, 150), ms("200", 100, 150)];
    // One a second goes before it, or one packet.
    let one = [ms("200", 50, 1), ms("200", 150, 150)];
    assert_eq!((all, one), ([111.0, 57.0], [37.0, 37.0]));
    // By XTP, of which no code is made, nothing is more important.
    assert_ne!(plan_of(&text("60", 50, 150)).machine, Machine::Datagram);
}

/// What may come faster than it leaves leaves no time for what is less important.
#[test]
fn what_fills_the_path_leaves_no_time() {
    let text = |hz: u32, deadline: &str| {
        format!(
            "network = {{rtt_ms = 10, rate_mbit = [2, 10], loss = 0.001}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = 1, reliability = \"avoid\", loss = 0.1{deadline}}}\n\
             adu.Y = {{type = \"M.Short\", rate_hz = [1, {hz}], reliability = \"avoid\", loss = 0.1, priority = 50}}\n\
             adu.Z = {{type = \"M.Short\", rate_hz = [5, 30], bitrate_kbit = [40, 200], adapt = [\"quality\"], reliability = \"avoid\", loss = 0.1, priority = 200}}\n"
        )
    };
    let drops = ", deadline_ms = 500";
    plan_of(&text(150, drops));
    // Without a deadline it is lost all the same: nothing of it yields.
    let (_, refusal) = refusal_of(&text(300, ""));
    assert!(refusal.why.starts_with("types that do not adapt make up to"), "{}", refusal.why);
    let (_, refusal) = refusal_of(&text(300, drops));
    let names: Vec<_> = refusal.clauses.iter().map(|one| one.clause.name.as_str()).collect();
    for name in ["network.rate_mbit", "adu.Y.rate_hz"] {
        assert!(names.contains(&name), "{}: {names:?}", refusal.why);
    }
}

/// What adapts takes all that others may make and do not: what is less important has nothing of its own.
#[test]
fn what_adapts_leaves_nothing_to_what_nobody_knows_of() {
    let text = |hz: &str, with: &str| {
        format!(
            "network = {{rtt_ms = 10, rate_mbit = [2, 10], loss = 0.001, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Mid\", reliability = \"avoid\", loss = 0.1{hz}{with}}}\n\
             adu.Y = {{type = \"M.Large\", rate_hz = [5, 30], bitrate_kbit = [150, 5000], adapt = [\"quality\"], reliability = \"avoid\", loss = 0.1, priority = 50}}\n"
        )
    };
    for hz in ["", ", rate_hz = 1"] {
        plan_of(&text(hz, ""));
        plan_of(&text(hz, ", deadline_ms = 100, priority = 10"));
        let (_, refusal) = refusal_of(&text(hz, ", deadline_ms = 100"));
        assert!(refusal.why.contains("without end: Y"), "{}", refusal.why);
    }
}

/// What waits at its own end comes unevenly, too.
#[test]
fn what_waits_is_made_even() {
    let text = |jitter: u32| {
        format!(
            "network = {{rtt_ms = 10, rate_mbit = [0.6, 10], loss = 0.001, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = 20, reliability = \"avoid\", loss = 0.1, deadline_ms = 100, jitter_ms = {jitter}}}\n\
             adu.Y = {{type = \"M.Short\", rate_hz = 20, reliability = \"avoid\", loss = 0.1}}\n"
        )
    };
    // Behind a packet of 16 ms and what the bucket had let out.
    assert!(plan_of(&text(5)).adus[0].playout.is_some());
    assert!(plan_of(&text(50)).adus[0].playout.is_none());
}

/// Types that fill the path nearly, as many as there may be, are looked at in no more steps than fewer are.
#[test]
fn many_types_that_fill_the_path_are_refused_at_once() {
    let network =
        "network = {rtt_ms = 10, rate_mbit = [2, 10], loss = 0.001, control = \"reserved\"}\n";
    // With 130 bytes around them, each type makes a little less than the 64th part of 1.8 Mbit/s.
    let adu = |n: usize| {
        let (bytes, hz) = (60 + n, 28_100.0 / (8.0 * (190 + n) as f64));
        format!(
            "adu.X{n} = {{type = \"M.Short\", size_bytes = [10, {bytes}], rate_hz = {hz:.3}, reliability = \"avoid\", loss = 0.1, deadline_ms = 50, priority = {n}}}\n"
        )
    };
    let text: String = (0..64).map(adu).collect();
    let (_, refusal) = refusal_of(&format!("{network}{text}"));
    assert!(!refusal.clauses.is_empty(), "{}", refusal.why);
}

/// Of how many there are nobody says: as many as there may be have headers.
#[test]
fn headers_are_counted_of_the_shortest() {
    let text = |least: u32| {
        format!(
            "network = {{rtt_ms = 10, rate_mbit = [2, 10], loss = 0.001, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Short\", size_bytes = [{least}, 900], bitrate_kbit = [0, 500], reliability = \"avoid\", loss = 0.1, deadline_ms = 100}}\n"
        )
    };
    let plan = plan_of(&text(200));
    assert_eq!(plan.machine, Machine::Datagram);
    // A hundred bytes around each at least.
    let counted = plan.adus[0].load_bits_per_s.1.unwrap();
    assert!((750_000..850_000).contains(&counted), "{counted}");
    // Of 20 bytes they are more than may be sent.
    let checked = of_text(&text(20));
    let chosen = choose(&checked.specification, None).map(|choice| choice.plan.machine);
    assert_ne!(chosen.ok(), Some(Machine::Datagram));
}

/// What tells an end what has come of its own takes its part of what the other end may send.
#[test]
fn reports_have_room_beside_what_is_sent() {
    let text = |hz: u32| {
        format!(
            "network = {{rtt_ms = 10, rate_mbit = [0.1, 1], loss = 0, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = {hz}, reliability = \"avoid\", loss = 0.1, order = \"type\"}}\n\
             adu.Y = {{type = \"M.Short\", from = \"b\", rate_hz = 9, reliability = \"avoid\", loss = 0.1, order = \"type\"}}\n"
        )
    };
    // 80 kbit/s of 90, and ten reports a second, of ten packets.
    let choice = choose(&of_text(&text(10)).specification, None).unwrap();
    assert_eq!(choice.plan.machine, Machine::Datagram);
    let (all, told) = choice.combination.totals.reported_bits;
    assert!((all - 89_500.0).abs() < 1_000.0 && (told - 9_600.0).abs() < 300.0, "{all} {told}");
    // Of 80 packets they are longer, and acknowledgements of a stream are more.
    let (checked, refusal) = refusal_of(&text(80));
    assert!(refusal.why.contains("tell what has come"), "{}", refusal.why);
    for name in ["network.rate_mbit", "adu.X.rate_hz", "adu.Y.rate_hz"] {
        let one = refusal.clauses.iter().find(|one| one.clause.name == name);
        let value = one.and_then(|one| one.passes.as_ref());
        let value = value.unwrap_or_else(|| panic!("{name}: {refusal:#?}"));
        let passes = checked_of(&support::with_value(&checked, name, value));
        assert!(choose(&passes.specification, None).is_ok(), "{name} = {value}");
    }
}

/// A request's deadline is kept until its answer has come, so it is checked for both ways.
#[test]
fn deadline_of_a_request_covers_the_round_trip() {
    let text = |deadline: u32, with: &str| {
        format!(
            "network = {{rtt_ms = [40, 40], rate_mbit = [100, 10000], loss = 0}}\n\
             adu.X = {{type = \"M.Small\", reply = \"Y\", order = \"none\", deadline_ms = {deadline}, {with}}}\n\
             adu.Y = {{type = \"M.Mid\", from = \"b\", order = \"none\"}}\n"
        )
    };
    for with in ["late = \"deliver\"", "reliability = \"prefer\""] {
        let (checked, refusal) = refusal_of(&text(25, with));
        assert!(refusal.why.contains("X: it takes 41 ms (way 20 + answer 20)"), "{}", refusal.why);
        for name in ["network.rtt_ms", "adu.X.deadline_ms"] {
            let one = refusal.clauses.iter().find(|one| one.clause.name == name);
            let value = one.and_then(|one| one.passes.as_ref());
            let value = value.unwrap_or_else(|| panic!("{name}: {refusal:#?}"));
            let passes = checked_of(&support::with_value(&checked, name, value));
            assert!(choose(&passes.specification, None).is_ok(), "{name} = {value}");
        }
        plan_of(&text(50, with));
    }
    // The answer's bytes take their time, and its packets may be lost as well.
    let slow = text(50, "late = \"deliver\"").replace("[100, 10000]", "[1, 10]");
    assert!(refusal_of(&slow).1.why.contains("answer 70"), "{}", refusal_of(&slow).1.why);
}

/// A refusal because of bytes offers a size that passes, though only ASN.1 says one.
#[test]
fn refusal_for_size_offers_size_bytes() {
    let (checked, refusal) = refusal_of(
        "network = {rtt_ms = 10, rate_mbit = [0.1, 10], loss = 0}\n\
         adu.X = {type = \"M.Large\", deadline_ms = 1000, late = \"deliver\"}\n",
    );
    let [size] = &refusal.sizes[..] else { panic!("{refusal:#?}") };
    let text = fusewire_generate::report::refused(&checked, &refusal).text("s.toml");
    assert!(text.contains("or with shorter ADUs:\n  from ASN.1: `adu.X.size_bytes = [2, 60016]`, and would pass as [2, "), "{text}");
    let value = size.passes.as_ref().unwrap();
    let passes = checked_of(&support::with_value(&checked, "adu.X.size_bytes", value));
    assert!(choose(&passes.specification, None).is_ok(), "{value}");
    // A deadline below the way's is not met by any size.
    let (_, refusal) = refusal_of(
        "network = {rtt_ms = 200, rate_mbit = [0.1, 10], loss = 0}\n\
         adu.X = {type = \"M.Large\", deadline_ms = 50, late = \"deliver\"}\n",
    );
    assert_eq!(refusal.sizes, [], "{}", refusal.why);
}

/// How long a type takes is said of the specification as it is: raised to that, its deadline passes.
#[test]
fn time_that_is_said_does_not_grow_with_the_deadline() {
    let text = |deadline: u32| {
        format!(
            "network = {{rtt_ms = [40, 800], rate_mbit = [0.05, 20], loss = 0.05, loss_burst = 3, jitter_ms = 200}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = [0.1, 1], reliability = \"avoid\", loss = 0.2, order = \"newest\", deadline_ms = 5000}}\n\
             adu.Y = {{type = \"M.Short\", deadline_ms = {deadline}, late = \"deliver\"}}\n"
        )
    };
    let takes = |deadline: u32| {
        let why = refusal_of(&text(deadline)).1.why;
        let takes = why.split_once("it takes ").and_then(|(_, of)| of.split_once(" ms"));
        takes.and_then(|(ms, _)| ms.parse::<u32>().ok()).unwrap_or_else(|| panic!("{why}"))
    };
    let first = takes(10_000);
    assert_eq!((takes(51_000), takes(first - 1000)), (first, first));
    plan_of(&text(first + 1));
}

/// Types that do not adapt are sent at the worst corner as fast as they are made, beside the least of what adapts: otherwise one of
/// the two is lost.
#[test]
fn fixed_types_have_room_beside_what_adapts() {
    let checked = support::case("adapt1", "", "");
    let choice = choose(&checked.specification, None).unwrap();
    let fits = |rate: &str| {
        let checked = support::case("adapt1", "rate_mbit = [1, 50]", rate);
        choose(&checked.specification, None).map(|_| ()).map_err(|refusal| refusal.why)
    };
    // All of Screen with its parity, and the least of Camera.
    let [camera, screen] = &choice.plan.adus[..] else { panic!("two types") };
    let all = screen.load_bits_per_s.1.unwrap() + camera.load_bits_per_s.0;
    assert!((350_000..450_000).contains(&all), "{all}");
    assert_eq!(fits("rate_mbit = [0.5, 50]"), Ok(()));
    let why = fits("rate_mbit = [0.4, 50]").unwrap_err();
    assert!(why.starts_with("types that do not adapt make up to"), "{why}");
}

/// Where one conflict stands against a specification, the reason is that of the specification as it is.
#[test]
fn reason_is_that_of_the_whole_specification() {
    let checked = support::case("meeting", "", "");
    let refusal = choose(&checked.specification, None).map(|_| ()).unwrap_err();
    let why = "types that do not adapt make up to 607 kbit/s, and 715 kbit/s with the least of what adapts; ";
    assert!(refusal.why.starts_with(why), "{}", refusal.why);
    assert!(refusal.clauses.iter().all(|one| one.passes.is_some()), "{refusal:#?}");
}

/// Losses that last for some time are over when something is sent again seconds later.
#[test]
fn bursts_of_loss_are_given_in_milliseconds() {
    let text = |burst: &str| {
        format!(
            "network = {{rtt_ms = [40, 800], rate_mbit = [0.05, 20], loss = 0.05, {burst}, jitter_ms = 200}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = [0.1, 1], reliability = \"avoid\", loss = 0.2, order = \"newest\", deadline_ms = 5000}}\n\
             adu.Y = {{type = \"M.Short\", deadline_ms = 10000, late = \"deliver\"}}\n"
        )
    };
    assert!(refusal_of(&text("loss_burst = 3")).1.why.contains("Y: it takes"));
    plan_of(&text("loss_burst_ms = 200"));
    // An outage that lasts as long as what is sent again takes is met again.
    assert!(refusal_of(&text("loss_burst_ms = 20000")).1.why.contains("Y: it takes"));
    // Parity that leaves at once is lost with its ADU; a copy that goes later is not.
    let lossy = |burst: &str| {
        format!(
            "network = {{rtt_ms = [10, 40], rate_mbit = [10, 100], loss = 0.02, {burst}, control = \"reserved\"}}\n\
             adu.X = {{type = \"M.Small\", rate_hz = 50, reliability = \"prohibit\", loss = 0.005, deadline_ms = 900, jitter_ms = 5}}\n"
        )
    };
    let fec = |burst: &str| plan_of(&lossy(burst)).adus[0].fec.clone();
    assert!(
        matches!(fec("loss_burst_ms = 40")[0].fec, fusewire_generate::plan::Fec::Copy { distance } if distance > 2)
    );
    // The two contradict each other.
    let both = checked_of(&format!("{ROLES}{}", text("loss_burst = 3, loss_burst_ms = 9")));
    assert!(both.wrong().contains("write one of the two"), "{}", both.wrong());
}
