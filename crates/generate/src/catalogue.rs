//! The mechanisms: for each what it does, what it needs, what it excludes, and what it costs. This is the one list of
//! them; who adds one adds a variant and an entry, and says in `choice` where it is feasible.

/// What a mechanism is for. A subsystem has one mechanism for each function, a type of ADU one for each that
/// [`Function::is_of_adu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// The transport machine.
    Machine,
    /// How an association begins.
    SetUp,
    /// What is sent again.
    Resend,
    /// How arrivals are told.
    Acknowledge,
    /// In which order ADUs are delivered.
    Order,
    /// Forward error correction.
    Fec,
    /// Congestion control.
    Congestion,
    /// What else holds a sender back.
    Flow,
    /// What tells accidents.
    Sum,
    /// How ADUs are sealed.
    Suite,
    /// What makes each nonce another one.
    Nonce,
    /// The transfer syntax.
    Codec,
    /// How arrivals are made even.
    Playout,
    /// What carries packets.
    Device,
}

impl Function {
    /// All of them.
    pub const ALL: [Function; 14] = [
        Function::Machine,
        Function::SetUp,
        Function::Resend,
        Function::Acknowledge,
        Function::Order,
        Function::Fec,
        Function::Congestion,
        Function::Flow,
        Function::Sum,
        Function::Suite,
        Function::Nonce,
        Function::Codec,
        Function::Playout,
        Function::Device,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Function::Machine => "machine",
            Function::SetUp => "set-up",
            Function::Resend => "resending",
            Function::Acknowledge => "acknowledgement",
            Function::Order => "order",
            Function::Fec => "correction",
            Function::Congestion => "congestion control",
            Function::Flow => "flow control",
            Function::Sum => "sum",
            Function::Suite => "suite",
            Function::Nonce => "nonce",
            Function::Codec => "codec",
            Function::Playout => "playout",
            Function::Device => "device",
        }
    }

    /// Whether each type of ADU has its own.
    pub fn is_of_adu(self) -> bool {
        matches!(self, Function::Resend | Function::Order | Function::Fec | Function::Playout)
    }

    /// Its mechanisms.
    pub fn choices(self) -> impl Iterator<Item = Mechanism> {
        CATALOGUE.iter().filter(move |entry| entry.function == self).map(|entry| entry.mechanism)
    }
}

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the catalogue says what each is")]
pub enum Mechanism {
    Tcp,
    Xtp,
    Datagram,
    Group,
    Explicit,
    First,
    Transaction,
    NoResend,
    Selective,
    GoBackN,
    UntilDeadline,
    AckDelayed,
    AckEach,
    Slotted,
    Reports,
    OrderAll,
    OrderType,
    OrderNone,
    Newest,
    NoFec,
    Copy,
    Xor,
    ReedSolomon,
    Cubic,
    Bbr,
    NewReno,
    Media,
    Bucket,
    Window,
    NoFlow,
    NoSum,
    Internet,
    Cxor,
    Crc32c,
    Sealed,
    Plain,
    StreamOffset,
    Number,
    Lws,
    Xdr,
    Oer,
    Ber,
    Der,
    NoPlayout,
    Fixed,
    Adaptive,
    Udp,
    KernelTcp,
    Shm,
    Tap,
    Packet,
    Xdp,
}

/// A set of mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u64);

impl Set {
    /// Of these.
    pub fn of(all: impl IntoIterator<Item = Mechanism>) -> Set {
        all.into_iter().fold(Set(0), |set, one| Set(set.0 | one.bit()))
    }

    /// Whether one is in it.
    pub fn has(self, one: Mechanism) -> bool {
        self.0 & one.bit() != 0
    }

    /// Whether any of these is in it.
    pub fn has_any(self, of: &[Mechanism]) -> bool {
        of.iter().any(|one| self.has(*one))
    }

    /// Takes one out.
    pub fn remove(&mut self, one: Mechanism) {
        self.0 &= !one.bit();
    }

    /// Those of a function, in the order of the catalogue.
    pub fn of_function(self, function: Function) -> Vec<Mechanism> {
        function.choices().filter(|one| self.has(*one)).collect()
    }
}

impl Mechanism {
    fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Its entry.
    pub fn entry(self) -> &'static Entry {
        // The catalogue is in the order of the variants, as a test sees.
        &CATALOGUE[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

/// What is known of a mechanism.
#[derive(Debug)]
pub struct Entry {
    /// Which.
    pub mechanism: Mechanism,
    /// For what.
    pub function: Function,
    /// Its name in plans and explanations.
    pub name: &'static str,
    /// What it does, to go on after "it".
    pub does: &'static str,
    /// Of each of these, one at least. A need of what each type of ADU has is one for every type.
    pub needs: &'static [&'static [Mechanism]],
    /// None of these.
    pub excludes: &'static [Mechanism],
    /// What it costs, to compare with others of its function.
    pub cost: Cost,
}

/// Costs, each by a scale of its own: only of mechanisms of one function they say which is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Work for each packet.
    pub cpu: u32,
    /// Memory.
    pub memory: u32,
    /// Code.
    pub code: u32,
    /// Milliseconds that it may add, whatever the network is like.
    pub ms: u32,
}

const fn cost(cpu: u32, memory: u32, code: u32) -> Cost {
    Cost { cpu, memory, code, ms: 0 }
}

use Function as F;
use Mechanism::*;

const fn entry(
    mechanism: Mechanism,
    function: Function,
    name: &'static str,
    does: &'static str,
    cost: Cost,
) -> Entry {
    Entry { mechanism, function, name, does, needs: &[], excludes: &[], cost }
}

const ENCAPSULATED: &[Mechanism] = &[Udp, Tap, Packet, Xdp];
const CORRECTED: &[&[Mechanism]] = &[&[Datagram, Group]];

/// All mechanisms, in the order of [`Mechanism`].
pub const CATALOGUE: [Entry; 52] = [
    Entry {
        needs: &[
            &[Selective, GoBackN],
            &[Explicit],
            &[AckEach, AckDelayed],
            &[Cubic, Bbr, NewReno],
            &[Window],
            &[StreamOffset],
        ],
        excludes: &[Newest],
        ..entry(
            Tcp,
            F::Machine,
            "tcp",
            "carries a stream of records; what is sealed has its place in it, and cannot expire",
            cost(2, 2, 2),
        )
    },
    Entry {
        needs: &[
            &[AckEach, AckDelayed],
            &[Cubic, Bbr, NewReno],
            &[Window],
            &[StreamOffset],
            ENCAPSULATED,
        ],
        ..entry(
            Xtp,
            F::Machine,
            "xtp",
            "carries a stream of records in a context, and calls beside it, each by itself",
            cost(3, 2, 3),
        )
    },
    Entry {
        needs: &[
            &[NoResend, UntilDeadline, Selective],
            &[Explicit],
            &[Reports, AckEach],
            &[Media, Bucket],
            &[NoFlow],
            &[Number],
            &[Udp, Tap, Packet, Xdp],
        ],
        ..entry(
            Datagram,
            F::Machine,
            "datagram",
            "carries records that stand for themselves; what is sent until it arrives goes beside them, in a stream of the same session",
            cost(1, 1, 1),
        )
    },
    Entry {
        needs: &[
            &[NoResend, Selective],
            &[Explicit],
            &[Slotted],
            &[Bucket],
            &[NoFlow],
            &[Number],
            ENCAPSULATED,
        ],
        ..entry(
            Group,
            F::Machine,
            "group",
            "carries messages to a group of XTP, under the group's key",
            cost(2, 3, 4),
        )
    },
    entry(Explicit, F::SetUp, "explicit", "shakes hands before the first ADU", cost(1, 1, 1)),
    Entry {
        needs: &[&[Xtp]],
        ..entry(
            First,
            F::SetUp,
            "first",
            "opens a context by its first packet, behind a cookie",
            cost(1, 2, 2),
        )
    },
    Entry {
        needs: &[&[Xtp]],
        ..entry(
            Transaction,
            F::SetUp,
            "transaction",
            "makes request and answer one exchange of their own",
            cost(1, 2, 2),
        )
    },
    entry(NoResend, F::Resend, "none", "sends nothing again", cost(0, 0, 0)),
    entry(
        Selective,
        F::Resend,
        "selective",
        "sends again what is missing, until it arrives",
        cost(2, 2, 2),
    ),
    Entry {
        needs: &[&[Tcp, Xtp]],
        ..entry(
            GoBackN,
            F::Resend,
            "go-back-n",
            "sends again all from what is missing",
            cost(3, 1, 1),
        )
    },
    Entry {
        needs: &[&[Datagram], &[Reports]],
        ..entry(
            UntilDeadline,
            F::Resend,
            "until-deadline",
            "sends again what is missing, while it can arrive in time",
            cost(2, 2, 3),
        )
    },
    Entry {
        cost: Cost { cpu: 1, memory: 1, code: 1, ms: 25 },
        ..entry(
            AckDelayed,
            F::Acknowledge,
            "delayed",
            "tells of every other packet, or after a while",
            cost(0, 0, 0),
        )
    },
    entry(AckEach, F::Acknowledge, "each", "tells of each packet at once", cost(2, 1, 1)),
    Entry {
        needs: &[&[Group]],
        ..entry(
            Slotted,
            F::Acknowledge,
            "slotted",
            "tells what is missing, each receiver in the slot that the sender gives it",
            cost(1, 2, 2),
        )
    },
    Entry {
        needs: &[&[Datagram]],
        ..entry(
            Reports,
            F::Acknowledge,
            "reports",
            "tells what arrived when, and with which marks (RFC 8888)",
            cost(1, 1, 2),
        )
    },
    entry(OrderAll, F::Order, "all", "delivers as was sent, all types together", cost(2, 2, 1)),
    entry(OrderType, F::Order, "type", "delivers as was sent, within the type", cost(2, 2, 2)),
    entry(OrderNone, F::Order, "none", "delivers as it arrives", cost(0, 0, 0)),
    entry(Newest, F::Order, "newest", "delivers what is newer than all before", cost(1, 0, 1)),
    entry(NoFec, F::Fec, "none", "sends nothing beside the data", cost(0, 0, 0)),
    Entry {
        needs: CORRECTED,
        ..entry(Copy, F::Fec, "copy", "sends each packet again with a later one", cost(1, 1, 1))
    },
    Entry {
        needs: CORRECTED,
        ..entry(Xor, F::Fec, "xor", "sends one packet of parity behind an ADU", cost(2, 1, 1))
    },
    Entry {
        needs: CORRECTED,
        ..entry(
            ReedSolomon,
            F::Fec,
            "reed-solomon",
            "sends packets of parity behind an ADU, of which any as many as are lost restore it",
            cost(4, 2, 3),
        )
    },
    Entry {
        needs: &[&[Tcp, Xtp]],
        ..entry(Cubic, F::Congestion, "cubic", "keeps a window by losses (RFC 9438)", cost(1, 1, 1))
    },
    Entry {
        needs: &[&[Tcp, Xtp]],
        ..entry(Bbr, F::Congestion, "bbr", "keeps a rate by what the path delivers", cost(2, 2, 3))
    },
    Entry {
        needs: &[&[Tcp, Xtp]],
        ..entry(
            NewReno,
            F::Congestion,
            "newreno",
            "keeps a window by losses (RFC 6582)",
            cost(1, 1, 1),
        )
    },
    Entry {
        needs: &[&[Datagram], &[Reports]],
        ..entry(
            Media,
            F::Congestion,
            "nada",
            "gives the application a target by delay, loss and marks (RFC 8698)",
            cost(2, 1, 2),
        )
    },
    Entry {
        needs: &[&[Datagram, Group]],
        ..entry(
            Bucket,
            F::Congestion,
            "bucket",
            "keeps to a rate that is known; where the peer answers, behind a circuit breaker (RFC 8084)",
            cost(0, 0, 1),
        )
    },
    entry(Window, F::Flow, "window", "keeps within what the receiver has room for", cost(1, 1, 1)),
    entry(
        NoFlow,
        F::Flow,
        "none",
        "asks for no room: rates are bounded, or newer ADUs replace older ones; what a group is sent again keeps within XTP's window",
        cost(0, 0, 0),
    ),
    entry(NoSum, F::Sum, "none", "looks at nothing beside the tag", cost(0, 0, 0)),
    entry(Internet, F::Sum, "internet", "adds up words (RFC 1071)", cost(1, 0, 1)),
    Entry {
        needs: &[&[Xtp, Group]],
        ..entry(Cxor, F::Sum, "cxor", "folds words with a turn for each", cost(2, 0, 1))
    },
    entry(Crc32c, F::Sum, "crc-32c", "divides by a polynomial (RFC 3720)", cost(3, 0, 1)),
    entry(
        Sealed,
        F::Suite,
        "sealed",
        "encrypts and authenticates, by a cipher that all ends have",
        cost(3, 1, 2),
    ),
    entry(Plain, F::Suite, "plain", "sends in the clear", cost(0, 0, 0)),
    Entry {
        needs: &[&[Tcp, Xtp]],
        ..entry(
            StreamOffset,
            F::Nonce,
            "stream offset",
            "takes the record's place in its stream",
            cost(0, 0, 0),
        )
    },
    Entry {
        needs: &[&[Datagram, Group]],
        ..entry(Number, F::Nonce, "number", "counts records, and takes none twice", cost(1, 1, 1))
    },
    entry(Lws, F::Codec, "lws", "writes words without tags", cost(1, 1, 1)),
    entry(Xdr, F::Codec, "xdr", "writes words of four bytes (RFC 4506)", cost(2, 1, 1)),
    entry(Oer, F::Codec, "oer", "writes as few bytes as can be told apart (X.696)", cost(3, 1, 2)),
    entry(Ber, F::Codec, "ber", "writes tag, length and contents (X.690)", cost(5, 2, 3)),
    entry(
        Der,
        F::Codec,
        "der",
        "writes tag, length and contents in one way alone (X.690)",
        cost(5, 2, 3),
    ),
    entry(NoPlayout, F::Playout, "none", "hands on as it arrives", cost(0, 0, 0)),
    Entry {
        excludes: &[Tcp],
        ..entry(
            Fixed,
            F::Playout,
            "fixed",
            "hands on so long after it was sent, by its timestamp",
            cost(1, 1, 1),
        )
    },
    Entry {
        excludes: &[Tcp],
        ..entry(
            Adaptive,
            F::Playout,
            "adaptive",
            "hands on as late as most need, by timestamps",
            cost(2, 1, 2),
        )
    },
    entry(Udp, F::Device, "udp", "carries packets in datagrams of the kernel's", cost(3, 1, 1)),
    Entry {
        needs: &[&[Tcp]],
        ..entry(
            KernelTcp,
            F::Device,
            "kernel-tcp",
            "carries records over the kernel's TCP",
            cost(2, 2, 1),
        )
    },
    Entry {
        needs: &[&[Tcp]],
        ..entry(
            Shm,
            F::Device,
            "shm",
            "carries records through memory that both share",
            cost(1, 2, 2),
        )
    },
    entry(Tap, F::Device, "tap", "carries packets over an interface of its own", cost(4, 1, 2)),
    entry(
        Packet,
        F::Device,
        "packet",
        "carries packets beside the kernel's on an interface",
        cost(3, 2, 2),
    ),
    entry(Xdp, F::Device, "xdp", "carries packets past the kernel on an interface", cost(2, 3, 3)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_has_its_entry_and_no_need_contradicts_another() {
        for (place, entry) in CATALOGUE.iter().enumerate() {
            assert_eq!(entry.mechanism as usize, place, "{}", entry.name);
            for one in entry.needs.iter().flat_map(|of| of.iter()) {
                assert!(
                    !entry.excludes.contains(one),
                    "{} needs and excludes {}",
                    entry.name,
                    one.name()
                );
                assert_ne!(one.entry().function, entry.function, "{}", entry.name);
            }
        }
        for function in Function::ALL {
            assert!(function.choices().count() > 1, "{function:?} has no choice");
            let mut names: Vec<_> = function.choices().map(Mechanism::name).collect();
            names.dedup();
            assert_eq!(names.len(), function.choices().count());
        }
    }
}
