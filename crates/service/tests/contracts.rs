//! Contracts that hold, and what each says where a mechanism is switched off at one of two ends: a contract that cannot be
//! broken proves nothing.

use std::time::Duration;

use fusewire_service::contract::{self, Broken};
use fusewire_service::profile::{Adu, Machine, Order, Profile};
use fusewire_service::stream::Stream;
use fusewire_service::{Cipher, Congestion, Error};

const CLAUSES: &[&str] = &["the one", "the other"];

/// An end: what it sends and takes, over which machine.
macro_rules! end {
    ($name:ident: $machine:ident, $sends:expr, $takes:expr) => {
        struct $name(#[expect(dead_code)] Stream<$name>);

        impl From<Stream<$name>> for $name {
            fn from(stream: Stream<$name>) -> $name {
                $name(stream)
            }
        }

        impl Profile for $name {
            const NAME: &'static str = "tested";
            const CLAUSES: &'static [&'static str] = CLAUSES;
            const MACHINE: Machine = Machine::$machine;
            const CONGESTION: Congestion = Congestion::Cubic;
            const CIPHERS: &'static [Cipher] = &Cipher::DEFAULT;
            const PACKS: bool = false;
            const SENDS: &'static [Adu] = $sends;
            const TAKES: &'static [Adu] = $takes;
        }
    };
}

const fn adu(name: &'static str, number: u8) -> Adu {
    Adu { len_max: 2000, ..Adu::new(name, number) }
}

/// Handed over as it comes.
const FREE: Adu = Adu { order: Order::None, ..adu("Free", 0) };
/// Behind all that are sent before it.
const LAST: Adu = Adu { after: 1, ..adu("Last", 1) };
const BEHIND_ALL: Adu = adu("Row", 0);

end!(Sends: Tcp, &[FREE, LAST], &[]);
end!(Takes: Tcp, &[], &[FREE, LAST]);
end!(SendsInARow: Tcp, &[BEHIND_ALL], &[]);
end!(TakesInARow: Tcp, &[], &[BEHIND_ALL]);
// The order queue is switched off: everything is handed over as it comes.
const ANY: Adu = Adu { order: Order::None, after: 0, ..LAST };
end!(TakesAny: Tcp, &[], &[FREE, ANY]);
end!(TakesNoRow: Tcp, &[], &[Adu { order: Order::None, ..BEHIND_ALL }]);

#[test]
fn order_is_kept_and_without_its_queue_broken() {
    contract::arrives::<Sends, Takes>().unwrap();
    contract::arrives::<SendsInARow, TakesInARow>().unwrap();
    let broken = contract::arrives::<Sends, TakesAny>().unwrap_err().to_string();
    assert!(broken.starts_with("Last: ") && broken.contains("has come before"), "{broken}");
    let broken = contract::arrives::<SendsInARow, TakesNoRow>().unwrap_err().to_string();
    assert!(broken.starts_with("Row: ") && broken.contains("has come b"), "{broken}");
}

const DEADLINE: Duration = Duration::from_millis(150);
const ASK: Adu = Adu {
    answered_by: Some(1),
    deadline: Some(DEADLINE),
    drops_late: false,
    order: Order::None,
    ..adu("Ask", 0)
};
const ANSWER: Adu = Adu { is_answer: true, order: Order::None, ..adu("Answer", 1) };

end!(Asks: Xtp, &[ASK], &[ANSWER]);
end!(Answers: Xtp, &[ANSWER], &[ASK]);
end!(AsksInTime: Xtp, &[Adu { drops_late: true, ..ASK }], &[ANSWER]);
// Without a transport that has calls.
end!(AsksOverTcp: Tcp, &[ASK], &[ANSWER]);
end!(AnswersOverTcp: Tcp, &[ANSWER], &[ASK]);

#[test]
fn calls_are_answered_and_over_a_transport_without_them_not() {
    contract::answers::<Asks, Answers>().unwrap();
    let broken = contract::answers::<AsksOverTcp, AnswersOverTcp>().unwrap_err();
    let Broken::Seed { broken, .. } = broken else { panic!("{broken}") };
    assert!(matches!(*broken, Broken::End(Error::Stack(_))), "{broken}");
}

#[test]
fn an_answer_says_that_it_is_late_or_does_not_come() {
    contract::tells_late::<Asks, Answers>().unwrap();
    contract::expires::<AsksInTime, AnswersInTime>().unwrap();
}

// Nobody drops anything, or says that it is late.
const EVER: Adu = Adu { deadline: None, ..ASK };
end!(AsksForEver: Xtp, &[EVER], &[ANSWER]);
end!(AnswersInTime: Xtp, &[ANSWER], &[Adu { drops_late: true, ..ASK }]);

#[test]
fn without_its_deadline_an_answer_neither_expires_nor_is_late() {
    let broken = contract::expires::<AsksForEver, AnswersInTime>().unwrap_err().to_string();
    assert!(broken.starts_with("Ask: is not dropped when 150ms are over"), "{broken}");
    let broken = contract::tells_late::<AsksForEver, Answers>().unwrap_err().to_string();
    assert!(broken.starts_with("Ask: its answer is late: true"), "{broken}");
}

const SOON: Adu = Adu { deadline: Some(DEADLINE), ..adu("Soon", 0) };
end!(SendsInTime: Tcp, &[SOON], &[]);
end!(TakesInTime: Tcp, &[], &[SOON]);

#[test]
fn what_has_no_room_in_time_is_dropped() {
    contract::expires::<SendsInTime, TakesInTime>().unwrap();
    contract::arrives::<SendsInTime, TakesInTime>().unwrap();
    end!(SendsForEver: Tcp, &[Adu { deadline: None, ..SOON }], &[]);
    let broken = contract::expires::<SendsForEver, TakesInTime>().unwrap_err().to_string();
    assert!(broken.starts_with("Soon: is not dropped when 150ms are over"), "{broken}");
}

// A bound that only the sender has.
const SHORT: Adu = Adu { len_max: 100, ..adu("Short", 0) };
end!(SendsShort: Tcp, &[SHORT], &[]);
end!(TakesShort: Tcp, &[], &[SHORT, adu("Other", 1)]);
end!(TakesLong: Tcp, &[], &[adu("Short", 0)]);
end!(SendsShortOrNot: Tcp, &[SHORT, adu("Other", 1)], &[]);

#[test]
fn what_is_too_long_is_refused_at_both_ends() {
    contract::bounds::<SendsShort, TakesShort>().unwrap();
    contract::bounds::<SendsShortOrNot, TakesShort>().unwrap();
    contract::bounds::<Asks, Answers>().unwrap();
    let broken = contract::bounds::<SendsShortOrNot, TakesLong>().unwrap_err().to_string();
    assert!(broken.starts_with("Short: is taken although it is too long"), "{broken}");
}

#[test]
fn nothing_is_seen() {
    contract::hides::<Sends, Takes>().unwrap();
    contract::hides::<Asks, Answers>().unwrap();
}

/// Ends that ask for nothing alike take whoever comes.
#[test]
fn clauses_that_nobody_compares_refuse_nobody() {
    contract::refuses::<Sends, Takes>().unwrap();
    struct Silent(#[expect(dead_code)] Stream<Silent>);
    impl From<Stream<Silent>> for Silent {
        fn from(stream: Stream<Silent>) -> Silent {
            Silent(stream)
        }
    }
    impl Profile for Silent {
        const NAME: &'static str = "silent";
        const CLAUSES: &'static [&'static str] = &["another", "the other"];
        const MACHINE: Machine = Machine::Tcp;
        const CONGESTION: Congestion = Congestion::Cubic;
        const CIPHERS: &'static [Cipher] = &Cipher::DEFAULT;
        const SENDS: &'static [Adu] = &[];
        const TAKES: &'static [Adu] = &[FREE, LAST];
    }
    // The peer has a clause that this side's contract takes for one of nobody's.
    let broken = contract::refuses::<Sends, Silent>().unwrap_err();
    assert!(matches!(broken, Broken::Accepted("the one")), "{broken}");
}
