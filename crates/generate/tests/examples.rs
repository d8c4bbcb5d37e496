//! The four specifications in `examples/`: what is chosen for each, as the research says.

mod support;

use fusewire_asn1::Source;
use fusewire_generate::choice::{Choice, Refusal, choose};
use fusewire_generate::language::{Checked, check};
use fusewire_generate::plan::*;
use fusewire_generate::rust::{self, memory};
use fusewire_model::machine::Machine as Calibrated;

use support::{changed, machine};

fn chosen(checked: &Checked) -> Choice {
    assert!(checked.is_ok(), "{}", checked.wrong());
    choose(&checked.specification, None).unwrap_or_else(|refusal| panic!("{refusal:#?}"))
}

fn refused(name: &str, from: &str, to: &str) -> Refusal {
    let checked = changed(name, from, to);
    assert!(checked.is_ok(), "{}", checked.wrong());
    *choose(&checked.specification, None).expect_err("it cannot be had")
}

fn plan(name: &str) -> Plan {
    chosen(&changed(name, "", "")).plan
}

#[test]
fn bulk_is_a_stream_that_losses_do_not_slow() {
    let plan = plan("bulk");
    assert!(matches!(plan.machine, Machine::Tcp | Machine::Xtp), "{plan:#?}");
    assert_eq!(plan.congestion, Congestion::Bbr);
    assert!(plan.adus.iter().all(|adu| adu.resend == Resend::Selective && adu.fec.is_empty()));
    assert_eq!(plan.adus[1].after, [0]);
}

#[test]
fn rpc_is_a_transaction_without_waiting() {
    let plan = plan("rpc");
    assert_eq!((plan.machine, plan.set_up), (Machine::Xtp, SetUp::Transaction));
    assert_eq!((plan.is_nagle, plan.acknowledge), (false, Acknowledge::Each));
    assert_eq!(plan.adus[0].reply, Some(1));
}

#[test]
fn conference_is_datagrams_that_are_corrected() {
    let plan = plan("conference");
    assert_eq!((plan.machine, plan.congestion), (Machine::Datagram, Congestion::Media));
    assert_eq!(plan.suite, Suite::Sealed);
    let [audio, video] = &plan.adus[..] else { panic!("{plan:#?}") };
    assert_eq!((audio.resend, video.resend), (Resend::None, Resend::None));
    assert_eq!(audio.fec, [FecStep { packets_max: 1, fec: Fec::Copy { distance: 3 } }]);
    assert!(matches!(audio.playout, Some(Playout::Fixed { .. })));
    assert_eq!(video.playout, None);
    let of =
        |packets| video.fec.iter().find(|step| step.packets_max >= packets).map(|step| step.fec);
    assert_eq!(of(4), Some(Fec::None));
    assert_eq!(of(10), Some(Fec::ReedSolomon { parity: 2 }));
}

/// What may be sent again in time is, unless that is to be avoided or none can; then it is corrected.
#[test]
fn what_is_of_use_for_long_enough_is_sent_again() {
    let way_of = |rtt: &str, burst: &str, with: &str| {
        let text = format!(
            "roles = [\"a\", \"b\"]\nnetwork = {{rtt_ms = [5, {rtt}], rate_mbit = [1, 10], loss = 0.02{burst}}}\n\
             adu.X = {{type = \"M.X\", rate_hz = [30, 30], loss = 0.002{with}}}\n"
        );
        let module = b"M DEFINITIONS AUTOMATIC TAGS ::= BEGIN X ::= INTEGER (0..9) END";
        let checked = check(
            Source::new("s.toml", text.as_bytes()),
            vec![Source::new("M.asn1", module.as_slice())],
        );
        let choice = chosen(&checked);
        let figures = &choice.combination.ways[0].figures;
        (choice.plan.adus[0].resend, figures.resends, choice.plan.adus[0].fec.is_empty())
    };
    let way = |rtt: &str, with: &str| way_of(rtt, "", &format!(", deadline_ms = 300{with}"));
    let again = (Resend::UntilDeadline, 1, true);
    assert_eq!(way("40", ", order = \"type\", reliability = \"prefer\""), again);
    assert_eq!(way("40", ", order = \"none\", reliability = \"none\""), again);
    let corrected = (Resend::None, 0, false);
    assert_eq!(way("40", ", order = \"type\", reliability = \"avoid\""), corrected);
    assert_eq!(way("40", ", order = \"newest\", reliability = \"prefer\""), corrected);
    // 100 + 200 + 33 + 27 ms are too long.
    assert_eq!(way("200", ", order = \"type\", reliability = \"prefer\""), corrected);
    // Where losses come in rows, so is what nobody tells of: 20 + 40 + 225 ms of fifteen sixteenths.
    let in_rows = |deadline: u32| {
        let with =
            format!(", order = \"type\", reliability = \"prefer\", deadline_ms = {deadline}");
        way_of("40", ", loss_burst = 2", &with)
    };
    assert_eq!(in_rows(300), corrected);
    assert_eq!(in_rows(310), again);
}

#[test]
fn telemetry_is_a_group_whose_first_guess_keeps_the_deadline() {
    let plan = plan("telemetry");
    assert_eq!((plan.machine, plan.peers), (Machine::Group, Peers::Group));
    assert_eq!((plan.adus[0].resend, plan.adus[1].resend), (Resend::None, Resend::Selective));
    assert_eq!(plan.group.map(|group| group.grtt_first_us), Some(20_000));
}

#[test]
fn the_same_specification_gives_the_same_plan() {
    for name in ["bulk", "rpc", "conference", "telemetry"] {
        assert_eq!(plan(name), plan(name));
    }
}

/// The names of the clauses of a conflict, written ones alone.
fn names(refusal: &Refusal) -> Vec<&str> {
    refusal.clauses.iter().map(|c| c.clause.name.as_str()).collect()
}

#[test]
fn a_conflict_is_minimal_and_says_what_would_pass() {
    for (name, from, to) in [
        ("conference", "deadline_ms = 180", "deadline_ms = 100"),
        ("conference", "loss = 0.005", "loss = 0.00001"),
        ("conference", "rate_mbit = [0.6, 50]", "rate_mbit = [0.2, 50]"),
        ("rpc", "deadline_ms = 250", "deadline_ms = 100"),
        ("telemetry", "deadline_ms = 1000", "deadline_ms = 50"),
        ("telemetry", "rate_hz = [10, 10]", "authentic = \"require\", rate_hz = [10, 10]"),
    ] {
        let refusal = refused(name, from, to);
        assert!(!refusal.clauses.is_empty() && !refusal.why.is_empty(), "{refusal:#?}");
        println!("{name} {to}: {} | {:?}", refusal.why, names(&refusal));
        for one in &refusal.clauses {
            println!("  {} = {} passes {:?}", one.clause.name, one.value, one.passes);
        }
        // Without any one of them there is a plan, or would be one if nothing else conflicted.
        let checked = changed(name, from, to);
        for one in &refusal.clauses {
            let mut without = checked.specification.clone();
            without.clause_mut(&one.clause.name).expect("it is there").relax();
            assert_eq!(choose(&without, None).is_ok(), one.goes, "{}", one.clause.name);
            if one.goes {
                continue;
            }
            let others = refusal.clauses.iter().chain(&refusal.defaults);
            let kept: Vec<_> = others.map(|c| c.clause.name.clone()).collect();
            let all: Vec<String> =
                without.clauses().iter().map(|c| c.clause().name.clone()).collect();
            for clause in all.iter().filter(|clause| !kept.contains(clause)) {
                without.clause_mut(clause).expect("it is there").relax();
            }
            assert!(choose(&without, None).is_ok(), "{} is not needed", one.clause.name);
        }
    }
}

#[test]
fn a_calibrated_machine_says_how_data_passes_run_and_nothing_else() {
    let sealed = changed("bulk", "", "");
    let execution = |checked: &Checked, machine: Option<&Calibrated>| {
        let choice = choose(&checked.specification, machine).expect("it can be had");
        (choice.plan.adus[0].execution, choice.executions[0].clone(), choice.plan)
    };
    let (unknown, _, plan) = execution(&sealed, None);
    let (found, why, mut measured) = execution(&sealed, Some(&machine("aes-256-gcm")));
    assert_eq!((unknown, found), (Execution::Integrated, Execution::Sequential));
    assert!(why.starts_with("sequential: by the model"), "{why}");
    for (adu, other) in measured.adus.iter_mut().zip(&plan.adus) {
        adu.execution = other.execution;
    }
    assert_eq!(measured, plan);
    // Of what is sealed a machine without ciphers says nothing, and of what is not it does.
    let none = machine("none");
    assert_eq!(execution(&sealed, Some(&none)).0, Execution::Integrated);
    let open = "confidential = \"prohibit\", authentic = \"none\", order = \"none\"";
    let mut open = changed("bulk", "order = \"none\"", open);
    let done = open.specification.adus[1].clone();
    open.specification.adus[1].confidential.value = open.specification.adus[0].confidential.value;
    open.specification.adus[1].authentic.value = open.specification.adus[0].authentic.value;
    assert_ne!(done, open.specification.adus[1]);
    assert_eq!(execution(&open, Some(&none)).0, Execution::Sequential);
}

/// Another type's clauses are not blamed for a deadline that is too short: with a longer one all of them hold.
#[test]
fn a_deadline_that_is_too_short_is_blamed_itself() {
    for ms in [100, 120] {
        let with =
            |ms: &str| changed("conference", "deadline_ms = 180", &format!("deadline_ms = {ms}"));
        let refusal = refused("conference", "deadline_ms = 180", &format!("deadline_ms = {ms}"));
        let its = refusal.clauses.iter().find(|one| one.clause.name == "adu.Audio.deadline_ms");
        let passes = its.and_then(|one| one.passes.as_ref());
        let passes = passes.unwrap_or_else(|| panic!("{ms}: {refusal:#?}"));
        assert!(choose(&with(passes).specification, None).is_ok(), "{ms}: {passes}");
    }
}

/// `memory_kib` is held against what ends have: with as much there is code, with less a refusal that says how much is needed.
#[test]
fn memory_is_that_of_the_ends() {
    for name in support::EXAMPLES {
        let with = |kib: &str| {
            let checked = changed(
                name,
                "network = ",
                &format!("platform = {{memory_kib = {kib}}}\nnetwork = "),
            );
            assert!(checked.is_ok(), "{}", checked.wrong());
            let choice = choose(&checked.specification, None);
            (checked, choice)
        };
        let bytes = plan(name).memory_bytes;
        let [first, second] = [0, 1].map(|role| memory::of_end(&plan(name), role));
        assert_eq!(bytes, first.max(second));
        let kib = bytes.div_ceil(1024);
        let (checked, choice) = with(&kib.to_string());
        let choice = choice.unwrap_or_else(|why| panic!("{name}: {why:?}"));
        assert!(choice.plan.memory_bytes <= 1024 * kib, "{name}");
        assert!(rust::without_code(&checked, &choice).is_none(), "{name}");
        // Where a stream's rates may be any, its ring shrinks first: a group's.
        let (_, refused) = with("64");
        let refusal = refused.map(|choice| choice.plan).expect_err(name);
        let clause = refusal.clauses.iter().find(|one| one.clause.name == "platform.memory_kib");
        let value = clause.and_then(|clause| clause.passes.clone());
        let value = value.unwrap_or_else(|| panic!("{name}: {refusal:#?}"));
        println!("{name}: {kib} KiB; {}; {value} would pass", refusal.why);
        let (checked, choice) = with(&value);
        let choice = choice.unwrap_or_else(|why| panic!("{name} {value}: {why:?}"));
        let may_be = 1024.0 * value.parse::<f64>().unwrap();
        assert!(choice.plan.memory_bytes as f64 <= may_be, "{name} {value}");
        assert!(rust::without_code(&checked, &choice).is_none(), "{name}");
    }
}

/// What goes in the clear has a sum, unless a type does without or memory carries it.
#[test]
fn accidents_are_told_without_a_tag() {
    let sum = |with: &str| {
        let text = format!(
            "roles = [\"a\", \"b\"]\nnetwork = {{rtt_ms = 10, rate_mbit = 10, loss = 0}}\n\
             adu.X = {{type = \"M.X\", authentic = \"avoid\", confidential = \"avoid\"{with}}}\n"
        );
        let module = b"M DEFINITIONS AUTOMATIC TAGS ::= BEGIN X ::= INTEGER (0..9) END";
        let checked = check(
            Source::new("s.toml", text.as_bytes()),
            vec![Source::new("M.asn1", module.as_slice())],
        );
        let plan = chosen(&checked).plan;
        assert_eq!(plan.suite, Suite::Plain);
        plan.sum
    };
    assert_eq!(sum(""), Sum::Internet);
    assert_eq!(sum(", integrity = \"none\""), Sum::None);
}
