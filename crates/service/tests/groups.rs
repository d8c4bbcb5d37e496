//! Contracts of groups that hold, and what each says where the two ends are not alike in what they keep.

use std::time::Duration;

use fusewire_service::Congestion;
use fusewire_service::contract::{Broken, group};
use fusewire_service::profile::{Adu, Machine, Order, Profile};

const SAMPLE: Adu =
    Adu { order: Order::Newest, is_resent: false, len_max: 100, ..Adu::new("Sample", 0) };
const ALARM: Adu = Adu {
    order: Order::Type,
    deadline: Some(Duration::from_secs(1)),
    drops_late: false,
    len_max: 3000,
    ..Adu::new("Alarm", 1)
};
const CLAUSES: &[&str] = &["the one", "the other"];

macro_rules! end {
    ($name:ident: $sends:expr, $takes:expr, $clauses:expr) => {
        struct $name;

        impl Profile for $name {
            const NAME: &'static str = "tested";
            const CLAUSES: &'static [&'static str] = $clauses;
            const MACHINE: Machine = Machine::Group;
            const CONGESTION: Congestion = Congestion::Bbr;
            const SENDS: &'static [Adu] = $sends;
            const TAKES: &'static [Adu] = $takes;
            const RECEIVERS: (usize, usize) = (1, 8);
            const FLOOR: u32 = 10_000;
            const CAST_RATES: [u32; 2] = [400_000, 40_000];
            const CAST_BUFFERS: [usize; 2] = [256 << 10, 64 << 10];
        }
    };
}

end!(Plant: &[SAMPLE, ALARM], &[], CLAUSES);
end!(Viewer: &[], &[SAMPLE, ALARM], CLAUSES);

#[test]
fn what_must_arrive_does_and_the_rest_in_bounds() {
    group::reaches::<Plant, Viewer>().unwrap();
}

/// A clause that no path could keep, and a receiver that takes less than is sent.
#[test]
fn and_where_it_does_not_it_is_said() {
    const SOON: Adu = Adu { deadline: Some(Duration::from_micros(1)), ..ALARM };
    end!(InTime: &[SAMPLE, SOON], &[], CLAUSES);
    let broken = group::reaches::<InTime, Viewer>().unwrap_err().to_string();
    assert!(broken.contains("Alarm: ") && broken.contains("were late"), "{broken}");
    end!(TakesShort: &[], &[SAMPLE, Adu { len_max: 1000, ..ALARM }], CLAUSES);
    let broken = group::reaches::<Plant, TakesShort>().unwrap_err().to_string();
    assert!(broken.contains("Alarm: ") && broken.contains("of 30 have come"), "{broken}");
}

#[test]
fn who_is_frozen_holds_nobody() {
    group::goes_on::<Plant, Viewer>().unwrap();
}

#[test]
fn who_has_left_reads_nothing_more() {
    group::forgets::<Plant, Viewer>().unwrap();
}

#[test]
fn what_is_forged_is_passed_over() {
    group::passes_over::<Plant, Viewer>().unwrap();
}

#[test]
fn nothing_is_seen_and_no_more_come_than_may() {
    group::hides::<Plant, Viewer>().unwrap();
    group::admits::<Plant, Viewer>().unwrap();
}

#[test]
fn another_specification_is_refused() {
    group::refuses::<Plant, Viewer>().unwrap();
    end!(Other: &[], &[SAMPLE, ALARM], &["a third", "the other"]);
    let broken = group::refuses::<Plant, Other>().unwrap_err();
    assert!(matches!(broken, Broken::Accepted("the other")), "{broken}");
}

/// What is late is dropped where its clause says so, and what goes nowhere but once is not waited for.
#[test]
fn of_a_group_that_sends_nothing_again() {
    end!(Once: &[SAMPLE], &[], CLAUSES);
    end!(Hears: &[], &[SAMPLE], CLAUSES);
    group::reaches::<Once, Hears>().unwrap();
    group::forgets::<Once, Hears>().unwrap();
    group::passes_over::<Once, Hears>().unwrap();
}

#[test]
fn of_a_group_that_sends_all_again() {
    end!(Again: &[ALARM], &[], CLAUSES);
    end!(Hears: &[], &[ALARM], CLAUSES);
    group::reaches::<Again, Hears>().unwrap();
    group::goes_on::<Again, Hears>().unwrap();
}
