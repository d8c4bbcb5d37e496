//! What contracts of groups say where a mechanism is switched off that no clause names, and of what was seen.

use super::*;
use crate::profile::Machine;

/// Of two types of which the newest count, what was overtaken is of one or the other, and excuses no loss of both.
#[test]
fn what_was_overtaken_counts_once() {
    let newest =
        Adu { order: Order::Newest, is_resent: false, loss_max: 0.01, ..Adu::new("Sample", 0) };
    let adus = [newest, Adu { number: 1, ..newest }];
    let came: Vec<_> = (0..20).map(|n| (n, Instant::now())).collect();
    let seen = |overtaken| Seen {
        came: [0, 1].map(|number| (number, came.clone())).into(),
        places: Vec::new(),
        counters: Counters { overtaken, ..Counters::default() },
    };
    let turns = Turns { adus: adus.to_vec(), turns: vec![0, 1] };
    has_lost_few(&turns, &[seen(20)], 60).unwrap();
    let broken = has_lost_few(&turns, &[seen(10)], 60).unwrap_err().to_string();
    assert!(broken.contains("10 of 60 are lost"), "{broken}");
}

/// Each stream is in order by itself: what comes in another one is of no receiver, and so it is made here.
#[test]
fn what_comes_behind_what_waits_for_it_is_seen() {
    let of = |order, after| Adu { order, after, ..Adu::new("Last", 1) };
    let turns = |last| Turns { adus: vec![Adu::new("First", 0), last], turns: vec![0, 1] };
    let once = Adu { is_resent: false, ..of(Order::All, 0) };
    for last in [of(Order::Type, 0), of(Order::None, 0b10), once] {
        has_come_in_order(&turns(last), &[1, 0, 2, 3]).unwrap();
    }
    for last in [of(Order::All, 0), of(Order::None, 0b1)] {
        has_come_in_order(&turns(last), &[0, 1, 2, 3]).unwrap();
        let broken = has_come_in_order(&turns(last), &[1, 0, 2, 3]).unwrap_err().to_string();
        assert_eq!(broken, "Last: 0, a First, has come behind 1");
    }
}

#[test]
fn more_in_a_row_than_may_be_is_seen() {
    let adu =
        Adu { order: Order::Type, is_resent: false, loss_run: Some(1), ..Adu::new("Sample", 0) };
    let turns = Turns { adus: vec![adu], turns: vec![0] };
    let seen = |lost: &[u32]| {
        let came = (0..100).filter(|n| !lost.contains(n)).map(|n| (n, Instant::now())).collect();
        Seen { came: [(0, came)].into(), ..Seen::default() }
    };
    // As many, and by themselves.
    let alone: Vec<u32> = (0..50).map(|n| 2 * n).collect();
    has_lost_few(&turns, &[seen(&alone)], 100).unwrap();
    let two: Vec<u32> = (0..25).flat_map(|n| [4 * n, 4 * n + 1]).collect();
    let broken = has_lost_few(&turns, &[seen(&two)], 100).unwrap_err().to_string();
    assert!(broken.contains("25 of 100 begin a run of more than 1 lost"), "{broken}");
}

const ALARM: Adu = Adu {
    order: Order::Type,
    deadline: Some(Duration::from_secs(1)),
    drops_late: false,
    len_max: 300,
    ..Adu::new("Alarm", 0)
};

macro_rules! end {
    ($name:ident: $sends:expr, $takes:expr, $called:expr) => {
        struct $name;

        impl Profile for $name {
            const NAME: &'static str = $called;
            const CLAUSES: &'static [&'static str] = &["the one"];
            const MACHINE: Machine = Machine::Group;
            const SENDS: &'static [Adu] = $sends;
            const TAKES: &'static [Adu] = $takes;
            const RECEIVERS: (usize, usize) = (1, 2);
            const FLOOR: u32 = 10_000;
            const CAST_RATES: [u32; 2] = [400_000, 40_000];
        }
    };
}

end!(Takes: &[], &[ALARM], "tested");

#[track_caller]
fn says(contract: Outcome, what: &str) {
    let broken = contract.expect_err(what).to_string();
    assert!(broken.contains(what), "{broken}");
}

#[test]
fn without_new_keys_who_has_left_reads_on() {
    end!(Sends: &[ALARM], &[], "without new keys");
    says(forgets::<Sends, Takes>(), "is read by who had left before it was sent");
}

#[test]
#[ignore = "waits for as long as a contract has patience: cargo xtask soak"]
fn without_an_end_of_patience_who_is_frozen_stays() {
    end!(Sends: &[ALARM], &[], "without silence");
    let broken = goes_on::<Sends, Takes>().unwrap_err().to_string();
    // Before that who sends may find no room any more.
    assert!(broken.contains("is not let go") || broken.contains("is not sent"), "{broken}");
}

#[test]
fn without_judgement_what_is_forged_is_handed_over() {
    end!(Sends: &[ALARM], &[], "tested");
    end!(TakesAll: &[], &[ALARM], "without judgement");
    says(passes_over::<Sends, TakesAll>(), "Alarm: ");
}
