//! What a specification has become: constants. A carrier is generic over them, and asks in `if const { … }` or of a
//! `const`, so that the compiler leaves out what was not chosen. Streams, datagrams and groups have one list of them; each
//! says at a constant where it is for some of them alone.

use std::marker::PhantomData;
use std::time::Duration;

use fusewire_session::{Cipher, DataPass};
use fusewire_stack::Congestion;
use fusewire_transport::media::{self, Yields};

use crate::playout::Mode;

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
    /// Behind those of its type, by their numbers.
    Type,
    /// As they come.
    None,
    /// As they come, but none behind a newer one of its type.
    Newest,
}

/// Correction of ADUs of up to so many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Packets of data, at most.
    pub packets_max: u8,
    /// Packets of parity behind them; 0: none.
    pub repairs: u8,
}

/// How ADUs of a type are corrected ([`fec`](crate::fec)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fec {
    /// Not.
    None,
    /// Each goes again with that which is so many later; it has one packet.
    Copy {
        /// How many.
        distance: u8,
    },
    /// Parity behind each, by its packets: the first step that is long enough, or else the last.
    Parity(&'static [Step]),
}

impl Fec {
    /// Packets of parity behind so many.
    pub const fn repairs(&self, packets: usize) -> u8 {
        let Fec::Parity(steps) = self else { return 0 };
        let mut at = 0;
        while at + 1 < steps.len() && (steps[at].packets_max as usize) < packets {
            at += 1;
        }
        if at < steps.len() { steps[at].repairs } else { 0 }
    }

    /// The most packets of parity.
    pub const fn repairs_max(&self) -> usize {
        let Fec::Parity(steps) = self else { return 0 };
        let (mut at, mut most) = (0, 0);
        while at < steps.len() {
            if steps[at].repairs > most {
                most = steps[at].repairs;
            }
            at += 1;
        }
        most as usize
    }
}

/// How much an application makes of a type when it is told, and what it lowers first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adapted {
    /// Bits a second: the least and the most.
    pub bits: (u64, u64),
    /// ADUs a second.
    pub hz: (f64, f64),
    /// What yields, in this order.
    pub order: &'static [Yields],
}

/// The worst that is vouched for of a network: by which contracts are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Half of the longest round trip.
    pub one_way: Duration,
    /// What comes on top of it, at most.
    pub jitter: Duration,
    /// The share of packets that are lost.
    pub loss: f64,
    /// Packets that are lost in a row, in the mean.
    pub loss_burst: f64,
    /// Bytes a second that the slowest hop has at least; 0: nobody says.
    pub rate: u64,
}

/// A type of ADU, as its clauses have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adu {
    /// `Module.Type`'s own name in the specification.
    pub name: &'static str,
    /// Of streams: in the header of each. Datagrams have its place among those that are sent, a lane.
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
    /// It is sent again until it has arrived, or else once: of groups.
    pub is_resent: bool,
    /// The least goes first (RFC 9622, msgPriority): of datagrams.
    pub priority: u32,
    /// Its correction: of datagrams.
    pub fec: Fec,
    /// Its playout: of datagrams.
    pub playout: Mode,
    /// What it makes by the path's target: of datagrams. Of the types that a profile sends, one may.
    pub adapted: Option<Adapted>,
    /// Bits a second that it makes otherwise, at most: of datagrams.
    pub fixed_bits: u64,
    /// ADUs that a receiver puts together, or holds: of datagrams.
    pub window: usize,
    /// ADUs that are kept to be sent again as long as they come in time, at most, and have a deadline; 0: nothing is. Of
    /// datagrams, without correction.
    pub kept: usize,
    /// ADUs a second, at most; 0: nobody says. For contracts.
    pub hz: f64,
    /// The share of them that may be lost. For contracts.
    pub loss_max: f64,
    /// How many of them may be lost in a row. For contracts.
    pub loss_run: Option<u32>,
    /// How far times of delivery may vary. For contracts.
    pub jitter: Option<Duration>,
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
            is_resent: true,
            priority: 100,
            fec: Fec::None,
            playout: Mode::None,
            adapted: None,
            fixed_bits: 0,
            window: 16,
            kept: 0,
            hz: 0.0,
            loss_max: 1.0,
            loss_run: None,
            jitter: None,
        }
    }

    /// One of datagrams, by hand: handed over as it comes, of up to so many bytes. Its number nobody reads.
    pub const fn as_it_comes(name: &'static str, len_max: usize) -> Adu {
        Adu { order: Order::None, len_max, ..Adu::new(name, 0) }
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
    /// The clauses that both ends must have alike, as text: their digests are in the handshake. An end by hand may have none.
    const CLAUSES: &'static [&'static str] = &[];
    /// What moves the packets.
    const MACHINE: Machine;
    /// What controls congestion of the stream.
    const CONGESTION: Congestion = Congestion::Cubic;
    /// Ciphers that may be chosen, best first.
    const CIPHERS: &'static [Cipher] = &Cipher::DEFAULT;
    /// At which level records are sealed and opened, and by which execution.
    fn data_pass() -> DataPass {
        DataPass::detect()
    }

    /// Short ADUs that wait share a packet.
    const PACKS: bool = true;
    /// How long who waits looks for what comes before it sleeps, after there was work.
    const SPIN: Duration = Duration::from_micros(50);
    /// The code point of differentiated services of what leaves (RFC 2474).
    const DSCP: u8 = 0;
    /// What this end sends: the peer's `TAKES`, in the same order.
    const SENDS: &'static [Adu];
    /// What it takes.
    const TAKES: &'static [Adu];

    /// Of datagrams and groups: bytes of a packet at most, headers of UDP and IP included; both ends have the same.
    const MTU: usize = 1200;
    /// Of datagrams, which must have them: rates of all that it sends, headers included, in bits a second. With both alike
    /// nothing adapts.
    const RATES: (u64, u64) = (0, 0);
    /// Of datagrams: when to stop, where nobody answers, and where so much is lost at the least rate.
    const BREAKER: media::Limits =
        media::Limits { interval: Duration::from_secs(1), loss: 0.2, intervals: 10 };
    /// Of datagrams: what this end sends beside them, on the session's stream, until it has arrived: the peer's `TAKES_BESIDE`.
    const SENDS_BESIDE: &'static [Adu] = &[];
    /// Of datagrams: what it takes from there.
    const TAKES_BESIDE: &'static [Adu] = &[];
    /// Of the stream beside datagrams: its headers say when an ADU was sent, so that its age is known.
    const TELLS_AGE: bool = false;
    /// Of datagrams: what is vouched for.
    const NETWORK: Network = Network {
        one_way: Duration::from_millis(20),
        jitter: Duration::ZERO,
        loss: 0.0,
        loss_burst: 1.0,
        rate: 0,
    };
    /// Of datagrams: ADUs that wait at most.
    const ADUS: usize = 32;

    /// Of groups: the fewest and the most receivers.
    const RECEIVERS: (usize, usize) = (1, 256);
    /// Of groups: bytes a second below which a receiver is let go that others wait for; of 0, who takes nothing is.
    const FLOOR: u32 = 0;
    /// Of groups: bytes a second at most of what is sent again, and of what is not; all headers count.
    const CAST_RATES: [u32; 2] = [125_000, 12_500];
    /// Of groups: bytes of memory for each of the two, at both ends, at least.
    const CAST_BUFFERS: [usize; 2] = [1 << 20, 64 << 10];
}

/// A profile that is called "without" a mechanism has none, so that its contract is seen to fail: in tests of this crate alone.
pub(crate) fn is_without<P: Profile>(mechanism: &str) -> bool {
    cfg!(test) && P::NAME.strip_prefix("without ") == Some(mechanism)
}

/// The stream of the session of an end over datagrams, as a profile: its types are those that go beside them.
#[derive(Debug)]
pub struct Beside<P>(PhantomData<fn() -> P>);

impl<P: Profile> Profile for Beside<P> {
    const NAME: &'static str = P::NAME;
    const CLAUSES: &'static [&'static str] = P::CLAUSES;
    const MACHINE: Machine = P::MACHINE;
    const CONGESTION: Congestion = P::CONGESTION;
    const CIPHERS: &'static [Cipher] = P::CIPHERS;
    fn data_pass() -> DataPass {
        P::data_pass()
    }
    const PACKS: bool = P::PACKS;
    const SPIN: Duration = P::SPIN;
    const DSCP: u8 = P::DSCP;
    const SENDS: &'static [Adu] = P::SENDS_BESIDE;
    const TAKES: &'static [Adu] = P::TAKES_BESIDE;
    const MTU: usize = P::MTU;
    const TELLS_AGE: bool = true;
}

/// Names a type of ADU where code is generic over it. What its values are in Rust is not said here: two types may have the
/// same.
pub trait AduType {
    /// Its clauses.
    const ADU: Adu;
    /// How its values are written.
    type Encoding;
}

/// The lane of a type: its place among those of an end.
///
/// # Panics
/// If it is none of them.
pub const fn lane_of(adus: &[Adu], number: u8) -> usize {
    let mut at = 0;
    while adus[at].number != number {
        at += 1;
    }
    at
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

/// ADUs of all types that are kept to be sent again.
pub const fn kept(adus: &[Adu]) -> usize {
    let (mut at, mut all) = (0, 0);
    while at < adus.len() {
        all += adus[at].kept;
        at += 1;
    }
    all
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
