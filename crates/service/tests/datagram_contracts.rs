//! Contracts of ends over datagrams that hold, and what each says where a mechanism is switched off at one of two ends: a contract
//! that cannot be broken proves nothing.

use core::time::Duration;
use std::sync::Arc;

use fusewire_service::contract::datagrams;
use fusewire_service::datagram::session::{self, Listener, Session};
use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adapted, Adu, Fec, Machine, Network, Order, Profile, Step};
use fusewire_service::{Allow, Identity, Stream, Yields, stream};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An end: what it sends and takes, and at which rates.
macro_rules! end {
    ($name:ident: $sends:expr, $takes:expr, $rates:expr $(, beside $sent:expr, $taken:expr)?) => {
        struct $name(#[expect(dead_code)] Session<$name>);

        impl From<Session<$name>> for $name {
            fn from(session: Session<$name>) -> $name {
                $name(session)
            }
        }

        impl Profile for $name {
            const NAME: &'static str = "tested";
            const CLAUSES: &'static [&'static str] = &["the one", "the other"];
            const MACHINE: Machine = Machine::Datagram;
            const SENDS: &'static [Adu] = $sends;
            const TAKES: &'static [Adu] = $takes;
            const RATES: (u64, u64) = $rates;
            $(
                const SENDS_BESIDE: &'static [Adu] = $sent;
                const TAKES_BESIDE: &'static [Adu] = $taken;
            )?
            const NETWORK: Network =
                Network { one_way: ms(60), jitter: ms(30), loss: 0.02, loss_burst: 2.0, rate: 0 };
        }
    };
}

const SOUND: Adu = Adu {
    priority: 0,
    order: Order::Newest,
    deadline: Some(ms(180)),
    fec: Fec::Copy { distance: 3 },
    playout: Mode::Fixed(ms(113)),
    fixed_bits: 64_000,
    hz: 50.0,
    loss_max: 0.005,
    ..Adu::as_it_comes("Sound", 200)
};
const PICTURE: Adu = Adu {
    order: Order::Type,
    deadline: Some(ms(250)),
    fec: Fec::Parity(&[Step { packets_max: 4, repairs: 1 }, Step { packets_max: 60, repairs: 3 }]),
    adapted: Some(Adapted {
        bits: (150_000, 2_500_000),
        hz: (5.0, 30.0),
        order: &[Yields::Quality, Yields::Frequency],
    }),
    hz: 30.0,
    loss_max: 0.03,
    number: 1,
    ..Adu::as_it_comes("Picture", 65_000)
};
const ALL: &[Adu] = &[SOUND, PICTURE];
const RATES: (u64, u64) = (400_000, 3_500_000);

end!(Whole: ALL, ALL, RATES);

#[test]
fn all_of_it_is_kept() {
    datagrams::carries::<Whole, Whole>().unwrap();
    datagrams::expires::<Whole, Whole>().unwrap();
    datagrams::judges_late::<Whole, Whole>().unwrap();
    datagrams::evens::<Whole, Whole>().unwrap();
    datagrams::adapts::<Whole, Whole>().unwrap();
    datagrams::keeps_rate::<Whole, Whole>(RATES.1).unwrap();
    datagrams::bounds::<Whole, Whole>().unwrap();
    datagrams::hides::<Whole, Whole>().unwrap();
    datagrams::judges_forged::<Whole, Whole>().unwrap();
    datagrams::refuses::<Whole, Whole>().unwrap();
}

/// An end that opens a session, and says nothing in it.
struct Silent(#[expect(dead_code)] Stream<Silent>);

impl From<Stream<Silent>> for Silent {
    fn from(stream: Stream<Silent>) -> Silent {
        Silent(stream)
    }
}

impl Profile for Silent {
    const NAME: &'static str = Whole::NAME;
    const CLAUSES: &'static [&'static str] = Whole::CLAUSES;
    const MACHINE: Machine = Machine::Tcp;
    const SENDS: &'static [Adu] = ALL;
    const TAKES: &'static [Adu] = ALL;
}

#[test]
fn who_says_nothing_keeps_nobody_waiting() {
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let key = identity.fingerprint();
    let loopback = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let listener = Listener::<Whole>::bind(loopback, identity.clone(), Allow::OwnKey).unwrap();
    let at = listener.local_addr();
    let silent = [(); 3].map(|()| stream::connect::<Silent>(at, identity.clone(), key).unwrap());
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept().unwrap());
        let begun = std::time::Instant::now();
        let client = session::connect::<Whole>(at, identity.clone(), key).unwrap();
        let server = accepted.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        drop((client, server));
    });
    drop(silent);
}

/// What a contract says of a broken end.
fn says(broken: Result<(), datagrams::Broken>, what: [&str; 2]) {
    let broken = broken.expect_err(what[1]).to_string();
    assert!(broken.starts_with(what[0]) && broken.contains(what[1]), "{broken}");
}

const BARE: &[Adu] =
    &[Adu { fec: Fec::None, ..SOUND }, Adu { fec: Fec::None, loss_max: 0.01, ..PICTURE }];
end!(Bare: BARE, BARE, RATES);

#[test]
fn without_correction_more_is_lost_than_may_be() {
    says(datagrams::carries::<Bare, Bare>(), ["Sound: ", "are lost, and"]);
    const PICTURES: &[Adu] = &[BARE[1]];
    end!(BarePictures: PICTURES, PICTURES, RATES);
    says(datagrams::carries::<BarePictures, BarePictures>(), ["Picture: ", "are lost, and"]);
}

#[test]
fn without_an_order_what_is_older_comes_behind() {
    // Playout puts into order, too: without it.
    const NEWEST: &[Adu] = &[Adu { fec: Fec::None, playout: Mode::None, ..SOUND }];
    const ANY: &[Adu] = &[Adu { order: Order::None, ..NEWEST[0] }];
    end!(Sends: NEWEST, NEWEST, RATES);
    end!(TakesAny: NEWEST, ANY, RATES);
    says(datagrams::carries::<Sends, TakesAny>(), ["Sound: ", "has come behind"]);
    const IN_A_ROW: &[Adu] = &[Adu { order: Order::Type, loss_max: 0.1, ..NEWEST[0] }];
    const NO_ROW: &[Adu] = &[Adu { order: Order::None, ..IN_A_ROW[0] }];
    end!(SendsInARow: IN_A_ROW, IN_A_ROW, RATES);
    end!(TakesNoRow: IN_A_ROW, NO_ROW, RATES);
    datagrams::carries::<SendsInARow, SendsInARow>().unwrap();
    says(datagrams::carries::<SendsInARow, TakesNoRow>(), ["Sound: ", "has come behind"]);
}

#[test]
fn without_a_deadline_nothing_expires_and_nothing_is_late() {
    const EVER: &[Adu] = &[Adu { deadline: None, ..SOUND }, Adu { deadline: None, ..PICTURE }];
    end!(SendsForEver: EVER, ALL, RATES);
    says(datagrams::expires::<SendsForEver, Whole>(), ["Sound: ", "0 of 3 are told"]);
    const PICTURES: &[Adu] = &[PICTURE];
    end!(Pictures: PICTURES, PICTURES, RATES);
    end!(TakesForEver: PICTURES, &[EVER[1]], RATES);
    says(datagrams::judges_late::<Pictures, TakesForEver>(), ["Picture: ", "not told to be late"]);
    // One that is handed over late is told to be so.
    const TOLD: &[Adu] = &[Adu { drops_late: false, ..PICTURE }];
    end!(Tells: TOLD, TOLD, RATES);
    datagrams::judges_late::<Tells, Tells>().unwrap();
    says(datagrams::judges_late::<Pictures, Tells>(), ["Picture: ", "old, and not told"]);
}

#[test]
fn without_playout_it_is_uneven() {
    const AT_ONCE: &[Adu] = &[Adu { playout: Mode::None, ..SOUND }, PICTURE];
    end!(TakesAtOnce: ALL, AT_ONCE, RATES);
    says(datagrams::evens::<Whole, TakesAtOnce>(), ["Sound: ", "come unevenly"]);
}

#[test]
fn what_yields_in_another_order_is_seen() {
    const OTHER: &[Adu] = &[
        SOUND,
        Adu {
            adapted: Some(Adapted {
                bits: (150_000, 2_500_000),
                hz: (5.0, 30.0),
                order: &[Yields::Frequency, Yields::Quality],
            }),
            ..PICTURE
        },
    ];
    end!(YieldsOtherwise: OTHER, OTHER, RATES);
    datagrams::adapts::<YieldsOtherwise, YieldsOtherwise>().unwrap();
    says(datagrams::adapts::<YieldsOtherwise, Whole>(), ["Picture: ", "yield first"]);
}

#[test]
fn without_its_bounds_more_and_longer_is_sent() {
    end!(Fast: ALL, ALL, (40_000_000, 40_000_000));
    says(datagrams::keeps_rate::<Fast, Whole>(RATES.1), ["Sound: ", "bit/s are sent"]);
    const LONG: &[Adu] = &[Adu { len_max: 400, ..SOUND }, PICTURE];
    end!(SendsLong: LONG, ALL, RATES);
    says(datagrams::bounds::<SendsLong, Whole>(), ["Sound: ", "too long"]);
}

#[test]
fn without_a_bound_of_packets_they_are_too_long() {
    datagrams::fits::<Whole, Whole>().unwrap();
    struct Long(#[expect(dead_code)] Session<Long>);
    impl From<Session<Long>> for Long {
        fn from(session: Session<Long>) -> Long {
            Long(session)
        }
    }
    impl Profile for Long {
        const NAME: &'static str = "tested";
        const MACHINE: Machine = Machine::Datagram;
        const SENDS: &'static [Adu] = ALL;
        const TAKES: &'static [Adu] = ALL;
        const RATES: (u64, u64) = RATES;
        const MTU: usize = 1300;
    }
    says(datagrams::fits::<Long, Whole>(), ["Picture: ", "bytes, and 1200 fit"]);
}

#[test]
fn without_its_priority_nothing_goes_first() {
    datagrams::puts_first::<Whole, Whole>().unwrap();
    datagrams::puts_first::<Again, Again>().unwrap();
    const ALIKE: &[Adu] = &[Adu { priority: 100, ..SOUND }, PICTURE];
    end!(SendsAlike: ALIKE, ALL, RATES);
    says(datagrams::puts_first::<SendsAlike, Whole>(), ["Sound: ", "which is less important"]);
    // One that waits, and is told of when it goes alone.
    const PATIENT: &[Adu] = &[SOUND, Adu { deadline: None, ..PICTURE }];
    end!(Patient: PATIENT, PATIENT, RATES);
    datagrams::puts_first::<Patient, Patient>().unwrap();
    const LAST: &[Adu] = &[Adu { priority: 200, ..MOVE }, Adu { priority: 300, ..MAP }];
    end!(SendsLast: LAST, AGAIN, FIXED);
    says(datagrams::puts_first::<SendsLast, Again>(), ["Map: ", "which is less important"]);
}

#[test]
fn without_correction_more_are_lost_in_a_row() {
    const NONE: &[Adu] = &[Adu { loss_run: Some(1), ..SOUND }];
    const BARE: &[Adu] = &[Adu { fec: Fec::None, loss_max: 0.1, ..NONE[0] }];
    end!(Corrects: NONE, NONE, RATES);
    datagrams::carries::<Corrects, Corrects>().unwrap();
    end!(SendsBare: BARE, BARE, RATES);
    says(datagrams::carries::<SendsBare, SendsBare>(), ["Sound: ", "a run of more than 1 lost"]);
}

#[test]
fn what_varies_more_than_its_clause_is_uneven() {
    const EVEN: &[Adu] = &[Adu { jitter: Some(ms(5)), ..SOUND }];
    end!(Even: EVEN, EVEN, RATES);
    datagrams::evens::<Even, Even>().unwrap();
    const AT_ONCE: &[Adu] = &[Adu { playout: Mode::None, ..EVEN[0] }];
    end!(AtOnce: AT_ONCE, AT_ONCE, RATES);
    says(datagrams::evens::<AtOnce, AtOnce>(), ["Sound: ", "come unevenly"]);
}

/// Ends that ask for nothing alike take whoever comes.
#[test]
fn clauses_that_nobody_compares_refuse_nobody() {
    struct Other(#[expect(dead_code)] Session<Other>);
    impl From<Session<Other>> for Other {
        fn from(session: Session<Other>) -> Other {
            Other(session)
        }
    }
    impl Profile for Other {
        const NAME: &'static str = "other";
        const CLAUSES: &'static [&'static str] = &["another", "the other"];
        const MACHINE: Machine = Machine::Datagram;
        const SENDS: &'static [Adu] = ALL;
        const TAKES: &'static [Adu] = ALL;
        const RATES: (u64, u64) = RATES;
    }
    let broken = datagrams::refuses::<Whole, Other>().unwrap_err();
    assert!(matches!(broken, datagrams::Broken::Accepted("the one")), "{broken}");
}

/// What must arrive, beside sound.
const BESIDE: &[Adu] = &[
    Adu { len_max: 2000, ..Adu::new("Event", 2) },
    Adu { order: Order::None, len_max: 300, ..Adu::new("Line", 3) },
    Adu { order: Order::None, after: 0b100, len_max: 10, ..Adu::new("Mark", 4) },
];

#[test]
fn what_must_arrive_does_beside_what_may_not() {
    end!(Mixed: &[SOUND], &[SOUND], RATES, beside BESIDE, BESIDE);
    datagrams::arrives::<Mixed, Mixed>().unwrap();
    datagrams::bounds::<Mixed, Mixed>().unwrap();
    datagrams::hides::<Mixed, Mixed>().unwrap();
    // One that only takes, and one whose datagrams go the other way.
    end!(Speaks: &[SOUND], &[], RATES, beside &[], BESIDE);
    end!(Hears: &[], &[SOUND], RATES, beside BESIDE, &[]);
    datagrams::arrives::<Speaks, Hears>().unwrap();
}

#[test]
fn what_arrives_late_is_told() {
    const SOON: &[Adu] = &[Adu { deadline: Some(ms(500)), drops_late: false, ..BESIDE[0] }];
    end!(Soon: &[SOUND], &[SOUND], RATES, beside SOON, SOON);
    datagrams::tells_late::<Soon, Soon>().unwrap();
    // One that nobody waits for, and one that may be late at once.
    const ANY: &[Adu] = &[
        Adu { deadline: Some(Duration::from_secs(3600)), ..SOON[0] },
        Adu { number: 3, deadline: Some(ms(1)), ..SOON[0] },
    ];
    end!(Any: &[SOUND], &[SOUND], RATES, beside ANY, ANY);
    datagrams::tells_late::<Any, Any>().unwrap();
    end!(ForEver: &[SOUND], &[SOUND], RATES, beside SOON, &[BESIDE[0]]);
    says(datagrams::tells_late::<Soon, ForEver>(), ["Event: ", "said to be in time"]);
}

#[test]
fn what_is_beside_datagrams_without_its_clauses_is_seen() {
    const FREE: &[Adu] = &[Adu { order: Order::None, ..BESIDE[0] }];
    end!(Sends: &[SOUND], &[SOUND], RATES, beside &[BESIDE[0]], &[]);
    end!(TakesFree: &[SOUND], &[SOUND], RATES, beside &[], FREE);
    says(datagrams::arrives::<Sends, TakesFree>(), ["Event: ", "has come b"]);
    const SHORT: &[Adu] = &[Adu { len_max: 300, ..BESIDE[0] }];
    end!(TakesShort: &[SOUND], &[SOUND], RATES, beside &[], SHORT);
    says(datagrams::arrives::<Sends, TakesShort>(), ["Event of ", "clauses let it have 300"]);
    // One that hears nothing of datagrams, whichever of the two it is.
    end!(Hears: &[SOUND], &[SOUND], RATES, beside BESIDE, BESIDE);
    end!(Deaf: &[SOUND], &[], RATES, beside BESIDE, BESIDE);
    says(datagrams::arrives::<Hears, Deaf>(), ["Sound: ", "nothing of it has come"]);
    says(datagrams::arrives::<Deaf, Hears>(), ["Sound: ", "nothing of it has come"]);
}

/// Sent again while it comes in time, over the network that is vouched for at its worst: with a deadline that the choice accepts there.
const MOVE: Adu = Adu {
    order: Order::Type,
    deadline: Some(ms(560)),
    fixed_bits: 48_000,
    hz: 30.0,
    loss_max: 0.002,
    window: 30,
    kept: 30,
    ..Adu::as_it_comes("Move", 200)
};
/// As it comes, of several packets, and more important.
const MAP: Adu = Adu {
    order: Order::None,
    priority: 7,
    fixed_bits: 240_000,
    hz: 10.0,
    loss_max: 0.01,
    kept: 11,
    number: 1,
    ..Adu { deadline: Some(ms(600)), ..Adu::as_it_comes("Map", 3_000) }
};
const AGAIN: &[Adu] = &[MOVE, MAP];
const FIXED: (u64, u64) = (500_000, 500_000);
end!(Again: AGAIN, AGAIN, FIXED);

#[test]
fn what_is_sent_again_in_time_is_kept() {
    datagrams::carries::<Again, Again>().unwrap();
    datagrams::expires::<Again, Again>().unwrap();
    datagrams::judges_late::<Again, Again>().unwrap();
    datagrams::gives_up::<Again, Again>().unwrap();
    datagrams::is_sure::<Again, Again>().unwrap();
    datagrams::keeps_rate::<Again, Again>(FIXED.1).unwrap();
    datagrams::bounds::<Again, Again>().unwrap();
    datagrams::hides::<Again, Again>().unwrap();
    datagrams::judges_forged::<Again, Again>().unwrap();
}

#[test]
fn without_sending_again_more_is_lost_than_may_be_and_nobody_is_told() {
    const ONCE: &[Adu] = &[Adu { kept: 0, ..MOVE }, Adu { kept: 0, ..MAP }];
    end!(SendsOnce: ONCE, AGAIN, FIXED);
    says(datagrams::carries::<SendsOnce, Again>(), ["Move: ", "are lost, and"]);
    says(datagrams::gives_up::<SendsOnce, Again>(), ["Move: ", "neither came nor is told"]);
    const MAPS: &[Adu] = &[Adu { number: 0, ..MAP }];
    const MAPS_ONCE: &[Adu] = &[Adu { kept: 0, ..MAPS[0] }];
    end!(Maps: MAPS, MAPS, FIXED);
    end!(MapsOnce: MAPS_ONCE, MAPS, FIXED);
    datagrams::carries::<Maps, Maps>().unwrap();
    says(datagrams::carries::<MapsOnce, Maps>(), ["Map: ", "are lost, and"]);
}

#[test]
fn what_is_rare_or_held_is_judged_as_it_is() {
    // Once a second, and five hundred in the time of all others.
    const RARE: &[Adu] =
        &[Adu { hz: 1.0, jitter: Some(ms(5)), fec: Fec::None, fixed_bits: 1_600, ..SOUND }];
    end!(Rare: RARE, RARE, RATES);
    datagrams::evens::<Rare, Rare>().unwrap();
    const AT_ONCE: &[Adu] = &[Adu { playout: Mode::None, ..RARE[0] }];
    end!(AtOnce: AT_ONCE, AT_ONCE, RATES);
    says(datagrams::evens::<AtOnce, AtOnce>(), ["Sound: ", "come unevenly"]);
    // The least important is held, and has left long before.
    const HELD: &[Adu] = &[
        Adu { priority: 0, ..Adu::as_it_comes("Map", 200) },
        Adu { number: 1, playout: Mode::Fixed(ms(800)), ..Adu::as_it_comes("Held", 200) },
    ];
    end!(Held: HELD, HELD, FIXED);
    datagrams::puts_first::<Held, Held>().unwrap();
}

#[test]
fn at_a_slow_rate_priority_is_seen_too() {
    const SLOW: (u64, u64) = (32_000, 32_000);
    const ALIKE: &[Adu] = &[Adu { number: 0, ..MAP }, Adu { number: 1, priority: 7, ..MOVE }];
    const FIRST: &[Adu] = &[Adu { number: 0, ..MAP }, Adu { number: 1, ..MOVE }];
    end!(Slow: FIRST, FIRST, SLOW);
    datagrams::puts_first::<Slow, Slow>().unwrap();
    end!(SlowAlike: ALIKE, FIRST, SLOW);
    says(datagrams::puts_first::<SlowAlike, Slow>(), ["Map: ", "which is less important"]);
}

#[test]
fn packets_are_too_long_with_copies_that_come_late() {
    struct Copies(#[expect(dead_code)] Session<Copies>);
    impl From<Session<Copies>> for Copies {
        fn from(session: Session<Copies>) -> Copies {
            Copies(session)
        }
    }
    impl Profile for Copies {
        const NAME: &'static str = "tested";
        const MACHINE: Machine = Machine::Datagram;
        const SENDS: &'static [Adu] =
            &[Adu { fec: Fec::Copy { distance: 6 }, ..Adu::as_it_comes("Sound", 560) }];
        const TAKES: &'static [Adu] = Self::SENDS;
        const RATES: (u64, u64) = RATES;
        const MTU: usize = 1300;
    }
    const SHORT: &[Adu] = &[Adu { len_max: 500, ..Copies::SENDS[0] }];
    end!(Takes: SHORT, SHORT, RATES);
    says(datagrams::fits::<Copies, Takes>(), ["Sound: ", "bytes, and 1200 fit"]);
}

/// ADUs that are late only after seconds are waited for, and those that come seldom.
#[test]
fn late_is_judged_of_long_deadlines_and_rare_types() {
    const SLOW: Adu = Adu { deadline: Some(ms(5000)), hz: 10.0, ..Adu::as_it_comes("Slow", 8) };
    const RARE: Adu = Adu { deadline: Some(ms(9000)), hz: 0.1, ..Adu::as_it_comes("Rare", 8) };
    end!(Patient: &[SLOW, RARE], &[SLOW, RARE], (400_000, 400_000));
    datagrams::judges_late::<Patient, Patient>().unwrap();
    // Without the deadline at the receiver nothing is told.
    const ENDLESS: Adu = Adu { deadline: None, ..SLOW };
    end!(Deaf: &[SLOW], &[ENDLESS], (400_000, 400_000));
    says(datagrams::judges_late::<Deaf, Deaf>(), ["Slow: ", "old, and not told to be late"]);
}

/// Frames that adapt come in time next to a bulky type that does not: the rate never falls below what both need.
#[test]
fn frames_come_in_time_beside_long_adus() {
    const CAMERA: Adu = Adu {
        order: Order::Newest,
        deadline: Some(ms(600)),
        len_max: 65_548,
        priority: 20,
        fec: Fec::Parity(&[
            Step { packets_max: 4, repairs: 0 },
            Step { packets_max: 8, repairs: 1 },
        ]),
        adapted: Some(Adapted {
            bits: (100_000, 2_500_000),
            hz: (5.0, 30.0),
            order: &[Yields::Quality, Yields::Frequency],
        }),
        hz: 30.0,
        loss_max: 0.05,
        ..Adu::new("Camera", 0)
    };
    const SCREEN: Adu = Adu {
        order: Order::Newest,
        deadline: Some(ms(500)),
        len_max: 12_500,
        priority: 10,
        fec: Fec::Parity(&[
            Step { packets_max: 4, repairs: 0 },
            Step { packets_max: 8, repairs: 1 },
            Step { packets_max: 9, repairs: 2 },
        ]),
        fixed_bits: 200_000,
        hz: 2.0,
        loss_max: 0.05,
        ..Adu::new("Screen", 1)
    };
    struct Shares(#[expect(dead_code)] Session<Shares>);
    impl From<Session<Shares>> for Shares {
        fn from(session: Session<Shares>) -> Shares {
            Shares(session)
        }
    }
    impl Profile for Shares {
        const NAME: &'static str = "tested";
        const MACHINE: Machine = Machine::Datagram;
        const SENDS: &'static [Adu] = &[CAMERA, SCREEN];
        const TAKES: &'static [Adu] = Self::SENDS;
        const MTU: usize = 1500;
        // All that does not adapt at most, and the least of what does.
        const RATES: (u64, u64) = (390_000, 3_328_480);
        const NETWORK: Network =
            Network { one_way: ms(75), jitter: ms(30), loss: 0.02, loss_burst: 2.0, rate: 125_000 };
    }
    datagrams::carries::<Shares, Shares>().unwrap();
}
