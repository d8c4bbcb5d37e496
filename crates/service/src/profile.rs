//! What a specification has become: constants. A carrier is generic over them, and asks in `if const { … }` or of a
//! `const`, so that the compiler leaves out what was not chosen.

use std::time::Duration;

use fusewire_session::Cipher;
use fusewire_stack::Congestion;

/// What moves the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// TCP in UDP datagrams.
    Tcp,
    /// XTP, with calls beside the stream.
    Xtp,
    /// Datagrams by number, beside a session.
    Datagram,
    /// XTP to a group.
    Group,
}

/// In which order ADUs are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Behind all that were sent before.
    All,
    /// Behind those of its type.
    Type,
    /// As they come.
    None,
    /// As they come, but none behind a newer one of its type.
    Newest,
}

/// A type of ADU, as its clauses have it.
#[derive(Clone, Copy, Debug)]
pub struct Adu {
    /// `Module.Type`'s own name in the specification.
    pub name: &'static str,
    /// In the header of each; from 1.
    pub number: u8,
    /// Its order.
    pub order: Order,
    /// Types, bit n for number n, of which all that were sent before are handed over before it.
    pub after: u64,
    /// How long it is worth something, from when it is sent.
    pub deadline: Option<Duration>,
    /// It is dropped when that is over; otherwise handed over all the same.
    pub drops_late: bool,
    /// Bytes of the longest.
    pub len_max: usize,
    /// The number of the type that answers it: it is a call, beside the stream.
    pub answered_by: Option<u8>,
    /// It answers, and nothing else.
    pub is_answer: bool,
}

impl Adu {
    /// A type that everything is required of and nothing is known of.
    pub const fn new(name: &'static str, number: u8) -> Adu {
        Adu {
            name,
            number,
            order: Order::All,
            after: 0,
            deadline: None,
            drops_late: true,
            len_max: 1 << 20,
            answered_by: None,
            is_answer: false,
        }
    }

    /// It may be handed over as soon as it has come.
    pub const fn is_free(&self) -> bool {
        matches!(self.order, Order::None | Order::Newest) && self.after == 0
    }
}

/// What one role's end is: of all ends of a specification the same, but for who sends what.
pub trait Profile: Sized {
    /// The specification's name.
    const NAME: &'static str;
    /// The clauses that both ends must have alike, as text: their digests are in the handshake.
    const CLAUSES: &'static [&'static str];
    /// What moves the packets.
    const MACHINE: Machine;
    /// What controls congestion.
    const CONGESTION: Congestion;
    /// Ciphers that may be chosen, best first.
    const CIPHERS: &'static [Cipher];
    /// Short ADUs that wait share a packet.
    const PACKS: bool = true;
    /// How long who waits looks for what comes before it sleeps, after there was work.
    const SPIN: Duration = Duration::from_micros(50);
    /// What this end sends.
    const SENDS: &'static [Adu];
    /// What it takes.
    const TAKES: &'static [Adu];
}

/// Names a type of ADU where code is generic over it. What its values are in Rust is not said here: two types may have the
/// same.
pub trait AduType {
    /// Its clauses.
    const ADU: Adu;
    /// How its values are written.
    type Encoding;
}

/// The type of a number.
#[inline]
pub fn of_number(adus: &'static [Adu], number: u8) -> Option<&'static Adu> {
    adus.iter().find(|adu| adu.number == number)
}

/// Types by number, bit n.
pub const fn numbers(adus: &[Adu]) -> u64 {
    let (mut at, mut bits) = (0, 0);
    while at < adus.len() {
        bits |= 1 << adus[at].number;
        at += 1;
    }
    bits
}

/// Types that may be handed over as soon as they have come, by number.
pub const fn numbers_of_free(adus: &[Adu]) -> u64 {
    let (mut at, mut bits) = (0, 0);
    while at < adus.len() {
        if adus[at].is_free() {
            bits |= 1 << adus[at].number;
        }
        at += 1;
    }
    bits
}

/// Bytes of the longest ADU.
pub const fn len_max(adus: &[Adu]) -> usize {
    let (mut at, mut longest) = (0, 0);
    while at < adus.len() {
        if adus[at].len_max > longest {
            longest = adus[at].len_max;
        }
        at += 1;
    }
    longest
}
