//! `tests/contract.rs`: what the specification promises, looked at from outside of the two ends.

use fusewire_asn1::rust::{Lines, camel};

use super::datagrams::{is_beside, rates};
use super::{Input, group};
use crate::plan::{AduPlan, Late, Machine, Plan, Resend};

/// A test: its name, the contract's, and which roles it is for as the one that sends; or both ways at once.
type Test = (&'static str, &'static str, fn(&Plan, &AduPlan) -> bool, Way);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From each role that sends such a type to the other.
    Each,
    /// What the contract itself does.
    Both,
    /// From each role, with the rates that it may send at.
    Rate,
}

const TESTS: &[Test] = &[
    ("all_that_is_sent_arrives_in_the_order_of_its_clauses", "arrives", is_told_apart, Way::Both),
    ("each_call_is_answered_and_the_peer_asked_once", "answers", is_numbered_call, Way::Both),
    ("what_is_late_is_dropped_and_told", "expires", is_dropped, Way::Each),
    ("an_answer_that_is_late_says_so", "tells_late", is_told, Way::Each),
    ("what_is_too_long_is_refused", "bounds", |plan, adu| !is_answer(plan, adu), Way::Each),
    ("nothing_is_seen_on_the_link", "hides", is_marked, Way::Each),
    ("another_specification_is_refused_by_its_clause", "refuses", any, Way::Both),
];

/// Those of a group, from the one that sends to all others.
const OF_GROUPS: &[Test] = &[
    (
        "each_receiver_gets_what_must_arrive_in_time_and_in_the_order_of_its_clauses",
        "group::reaches",
        is_told_apart,
        Way::Both,
    ),
    ("of_what_may_be_lost_no_more_is", "group::loses_few", is_of_loss, Way::Both),
    ("no_more_is_sent_once_than_may_be", "group::keeps_rate", is_of_rate, Way::Both),
    ("who_is_frozen_holds_nobody_and_is_let_go", "group::goes_on", is_waited_for, Way::Both),
    ("who_has_left_reads_nothing_more", "group::forgets", is_of_many, Way::Both),
    (
        "what_a_member_forges_or_a_stranger_announces_ends_nobody",
        "group::passes_over",
        is_told_apart,
        Way::Both,
    ),
    ("nothing_is_seen_on_the_link", "group::hides", is_marked, Way::Both),
    ("as_many_receivers_come_as_may", "group::admits", is_admitted_at_once, Way::Both),
    ("another_specification_is_refused_by_its_clause", "group::refuses", any, Way::Both),
];

fn any(_: &Plan, _: &AduPlan) -> bool {
    true
}

/// Bytes by which contracts tell ADUs apart, and those that a listener looks for: of shorter types there are no tests.
const NUMBER_LEN: u64 = 4;
const MARK_LEN: u64 = 16;
/// Bytes of the longest that a test sends to a group, and of the packets around it.
const TEST_LEN: u64 = 1503;
const PACKETS: u64 = 320;
/// Bytes a second of what a group is sent once, of which a test looks whether it keeps them: at less, the burst that may leave at
/// once is more than all the rest, and what waits takes longer than a test does.
const RATES: std::ops::RangeInclusive<u32> = 10_000..=10_000_000;
/// Nor are there of types that a test would wait for longer, in microseconds.
const DEADLINE_US_MAX: u64 = 10_000_000;
/// Receivers that a group admits at once.
const ADMITTED_MAX: u32 = 1024;
/// Nor of types of which two take longer than so many seconds.
const RARE_S: u64 = 240;

fn is_told_apart(plan: &Plan, adu: &AduPlan) -> bool {
    is_message(plan, adu) && adu.size_bytes.1 >= NUMBER_LEN && !is_slow(plan, adu)
}

/// Of what a group is sent once, less than one in five seconds: who waits for some of them waits long.
fn is_slow(plan: &Plan, adu: &AduPlan) -> bool {
    let rates = group::rates(plan).filter(|_| !group::is_resent(adu));
    rates.is_some_and(|[_, once]| adu.size_bytes.1.min(TEST_LEN) + PACKETS > 5 * u64::from(once))
}

/// Of what is sent once at a rate that two threads of a test may come to.
fn is_of_rate(plan: &Plan, adu: &AduPlan) -> bool {
    let rates = group::rates(plan).filter(|_| !group::is_resent(adu));
    rates.is_some_and(|[_, once]| RATES.contains(&once))
}

fn is_of_loss(plan: &Plan, adu: &AduPlan) -> bool {
    is_told_apart(plan, adu) && !group::is_resent(adu) && adu.loss < 1.0
}

/// Of a group of more than one receiver.
fn is_of_many(plan: &Plan, adu: &AduPlan) -> bool {
    is_told_apart(plan, adu) && plan.group.is_some_and(|group| group.receivers.1 > 1)
}

fn is_waited_for(plan: &Plan, adu: &AduPlan) -> bool {
    is_of_many(plan, adu) && group::is_resent(adu)
}

fn is_numbered_call(plan: &Plan, adu: &AduPlan) -> bool {
    is_call(plan, adu) && adu.size_bytes.1 >= NUMBER_LEN
}

fn is_marked(plan: &Plan, adu: &AduPlan) -> bool {
    !is_answer(plan, adu) && adu.size_bytes.1 >= MARK_LEN
}

fn is_soon(adu: &AduPlan) -> bool {
    adu.deadline_us.is_some_and(|us| us <= DEADLINE_US_MAX)
}

/// Of ends over datagrams: what contracts look at there.
const DATAGRAMS: &[Test] = &[
    ("what_must_arrive_does_beside_what_may_not", "arrives", is_arriving, Way::Both),
    (
        "what_arrives_late_is_told",
        "tells_late",
        |plan, adu| is_beside(plan, adu) && is_soon(adu),
        Way::Each,
    ),
    ("each_comes_once_whole_in_order_and_no_more_is_lost_than_may", "carries", is_lane, Way::Each),
    ("what_is_too_old_is_not_sent_and_told", "expires", is_expiring, Way::Each),
    (
        "what_comes_late_is_dropped_or_told",
        "judges_late",
        |plan, adu| is_lane(plan, adu) && is_soon(adu) && !is_rare(adu),
        Way::Each,
    ),
    (
        "what_cannot_be_sent_again_in_time_is_told",
        "gives_up",
        |_, adu| adu.resend == Resend::UntilDeadline,
        Way::Each,
    ),
    (
        "what_nobody_tells_of_is_not_told_to_be_lost",
        "is_sure",
        |_, adu| adu.resend == Resend::UntilDeadline,
        Way::Each,
    ),
    (
        "what_comes_unevenly_is_handed_over_evenly",
        "evens",
        |plan, adu| is_lane(plan, adu) && (adu.playout.is_some() || adu.jitter_us.is_some()),
        Way::Each,
    ),
    (
        "what_is_more_important_goes_first_and_not_for_ever",
        "puts_first",
        is_more_important,
        Way::Each,
    ),
    ("no_datagram_is_longer_than_packets_may_be", "fits", is_lane, Way::Each),
    ("what_adapts_is_told_by_its_clause", "adapts", |_, adu| !adu.adapt.is_empty(), Way::Each),
    ("no_more_is_sent_than_may_be", "keeps_rate", is_lane, Way::Rate),
    ("what_is_too_long_is_refused", "bounds", |_, _| true, Way::Each),
    ("nothing_is_seen_on_the_link", "hides", is_marked, Way::Each),
    ("what_was_changed_is_nothing", "judges_forged", is_lane, Way::Each),
    ("another_specification_is_refused_by_its_clause", "refuses", |_, _| true, Way::Both),
];

fn is_lane(plan: &Plan, adu: &AduPlan) -> bool {
    !is_beside(plan, adu)
}

/// Returns `true` for a type that is sent so seldom that a test would wait long for two of them.
fn is_rare(adu: &AduPlan) -> bool {
    adu.rate_millihertz.is_some_and(|(_, most)| most * RARE_S < 2_000)
}

/// Returns `true` for a group that admits all of its receivers at the same time: the test opens a session for each.
fn is_admitted_at_once(plan: &Plan, _: &AduPlan) -> bool {
    plan.group.is_some_and(|group| group.receivers.1 <= ADMITTED_MAX)
}

/// Than another that the same role sends.
fn is_more_important(plan: &Plan, adu: &AduPlan) -> bool {
    let lanes = || plan.adus.iter().filter(|adu| is_lane(plan, adu));
    let of_one = |other: &AduPlan| (0..2).any(|role| adu.from.is(role) && other.from.is(role));
    is_lane(plan, adu) && lanes().any(|other| of_one(other) && adu.priority < other.priority)
}

fn is_arriving(plan: &Plan, adu: &AduPlan) -> bool {
    is_beside(plan, adu) && is_told_apart(plan, adu)
}

fn is_expiring(_: &Plan, adu: &AduPlan) -> bool {
    adu.deadline_us.is_some() && adu.late == Late::Drop
}

fn is_call(_: &Plan, adu: &AduPlan) -> bool {
    adu.reply.is_some()
}

fn is_answer(plan: &Plan, adu: &AduPlan) -> bool {
    plan.adus.iter().any(|asks| asks.reply == Some(adu.number))
}

fn is_message(plan: &Plan, adu: &AduPlan) -> bool {
    !is_call(plan, adu) && !is_answer(plan, adu)
}

fn is_dropped(plan: &Plan, adu: &AduPlan) -> bool {
    is_soon(adu) && adu.late == Late::Drop && !is_answer(plan, adu)
}

fn is_told(plan: &Plan, adu: &AduPlan) -> bool {
    is_soon(adu) && adu.late == Late::Deliver && is_call(plan, adu)
}

/// All of it.
pub fn text(input: &Input<'_>) -> String {
    let plan = input.plan;
    let roles = [camel(&plan.roles[0]), camel(&plan.roles[1])];
    let [first, second] = &roles;
    let name = plan.name.replace('-', "_");
    let mut out = Lines::new();
    writeln!(
        out,
        "//! The contract of `{}`: what its clauses promise, observed between the two ends.",
        plan.name
    );
    writeln!(out, "//!");
    writeln!(
        out,
        "//! Generated by `fusewire generate` from {}. Changes here are lost.",
        input.specification
    );
    writeln!(out);
    writeln!(out, "use {name}::{{{first}, {second}}};");
    let (tests, module) = match plan.machine {
        Machine::Datagram => (DATAGRAMS, "contract::datagrams"),
        Machine::Group => (OF_GROUPS, "contract"),
        Machine::Tcp | Machine::Xtp => (TESTS, "contract"),
    };
    for (test, contract, is_for, way) in tests {
        let sends = |role: usize| {
            plan.adus.iter().filter(|adu| adu.from.is(role)).any(|adu| is_for(plan, adu))
        };
        let ways: Vec<usize> = (0..2).filter(|role| sends(*role)).collect();
        if ways.is_empty() {
            continue;
        }
        writeln!(out);
        writeln!(out, "#[test]");
        writeln!(out, "fn {test}() {{");
        let ways = if *way == Way::Both { vec![0] } else { ways };
        for from in ways {
            let rate =
                if *way == Way::Rate { rates(plan, from).1.to_string() } else { String::new() };
            let (from, to) = (&roles[from], &roles[1 - from]);
            writeln!(
                out,
                "fusewire_service::{module}::{contract}::<{from}, {to}>({rate}).unwrap();"
            );
        }
        writeln!(out, "}}");
    }
    out.into_text()
}
