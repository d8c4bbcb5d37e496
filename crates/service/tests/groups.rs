//! Contracts of groups that hold, and what each says where the two ends are not alike in what they keep.

use std::time::Duration;

use fusewire_service::Congestion;
use fusewire_service::contract::{Broken, group};
use fusewire_service::profile::{Adu, Machine, Network, Order, Profile};

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
    ($name:ident: $sends:expr, $takes:expr, $clauses:expr $(, $network:expr)?) => {
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
            $(const NETWORK: Network = $network;)?
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
    assert!(broken.contains("has ended, and not all has come"), "{broken}");
    end!(Drops: &[], &[SAMPLE, Adu { drops_late: true, ..SOON }], CLAUSES);
    let broken = group::reaches::<Plant, Drops>().unwrap_err().to_string();
    assert!(broken.contains("Alarm: ") && broken.contains("of 30 have come"), "{broken}");
}

/// Over a network as it is vouched for, and over one that loses more than the clause lets.
#[test]
fn no_more_is_lost_than_may_be() {
    const FEW: Adu = Adu { order: Order::Type, loss_max: 0.05, ..SAMPLE };
    end!(Good: &[FEW, ALARM], &[], CLAUSES);
    end!(Hears: &[], &[FEW, ALARM], CLAUSES);
    group::loses_few::<Good, Hears>().unwrap();
    end!(Bad: &[FEW], &[], CLAUSES, Network { loss: 0.2, ..Good::NETWORK });
    end!(Listens: &[], &[FEW], CLAUSES);
    let broken = group::loses_few::<Bad, Listens>().unwrap_err().to_string();
    assert!(broken.contains("Sample: ") && broken.contains("are lost"), "{broken}");
}

/// Bounds that only the receivers have.
struct Wide;

impl Profile for Wide {
    const NAME: &'static str = "tested";
    const CLAUSES: &'static [&'static str] = CLAUSES;
    const MACHINE: Machine = Machine::Group;
    const SENDS: &'static [Adu] = Plant::SENDS;
    const TAKES: &'static [Adu] = &[];
    const RECEIVERS: (usize, usize) = (1, 9);
    const MTU: usize = 1300;
    const CAST_RATES: [u32; 2] = [400_000, 400_000];
}

#[test]
fn no_more_is_sent_once_than_the_rate_leaves() {
    group::keeps_rate::<Plant, Viewer>().unwrap();
}

#[test]
fn without_a_bound_of_the_rate_more_is_sent_once() {
    let broken = group::keeps_rate::<Wide, Viewer>().unwrap_err().to_string();
    assert!(broken.contains("Sample: ") && broken.contains("bytes are sent"), "{broken}");
}

#[test]
fn without_bounds_of_packets_and_receivers_longer_ones_and_more_of_them_come() {
    let broken = group::reaches::<Wide, Viewer>().unwrap_err().to_string();
    assert!(broken.contains("a packet has 13") && broken.contains("1200 may be"), "{broken}");
    let broken = group::admits::<Wide, Viewer>().unwrap_err().to_string();
    assert!(broken.contains("more receivers are let in than may be"), "{broken}");
}

/// Of what there is nothing to look at nothing is said to hold.
#[test]
fn no_contract_holds_of_nothing() {
    end!(One: &[SAMPLE], &[], CLAUSES);
    end!(Short: &[Adu { len_max: 3, ..SAMPLE }], &[], CLAUSES);
    end!(Hears: &[], &[SAMPLE], CLAUSES);
    for looked_at in [
        group::reaches::<Short, Hears>(),
        group::loses_few::<One, Hears>(),
        group::goes_on::<One, Hears>(),
        group::forgets::<Short, Hears>(),
        group::passes_over::<Short, Hears>(),
        group::hides::<Short, Hears>(),
    ] {
        let broken = match looked_at {
            Err(Broken::Seed { broken, .. }) => Err(*broken),
            broken => broken,
        };
        assert!(matches!(broken, Err(Broken::Nothing)), "{broken:?}");
    }
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
    group::forgets::<Again, Hears>().unwrap();
}

/// All receivers of a large group may come together: the first is not let go before the last is there.
#[test]
fn large_groups_admit_all_of_their_receivers() {
    macro_rules! large {
        ($name:ident: $sends:expr, $takes:expr) => {
            struct $name;
            impl Profile for $name {
                const NAME: &'static str = "tested";
                const MACHINE: Machine = Machine::Group;
                const SENDS: &'static [Adu] = $sends;
                const TAKES: &'static [Adu] = $takes;
                const RECEIVERS: (usize, usize) = (1, 500);
                const CAST_RATES: [u32; 2] = [400_000, 40_000];
                const CAST_BUFFERS: [usize; 2] = [256 << 10, 64 << 10];
            }
        };
    }
    large!(Exchange: &[SAMPLE, ALARM], &[]);
    large!(Trader: &[], &[SAMPLE, ALARM]);
    group::admits::<Exchange, Trader>().unwrap();
}
