//! What was chosen: all that code generation reads.
//!
//! A plan has no doubt left in it: it says which mechanism serves each type of ADU and with which figures, never why.
//! Times are in microseconds and rates in bytes a second unless a name says otherwise. Whoever makes code of a plan
//! asks nothing of the specification that it came of; what both ends must have alike is in [`Plan::wire`].

use serde::Serialize;

/// A subsystem: what all its types of ADU share, and each of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// What it is called: the specification's file without its ending, as a name of a crate may be.
    pub name: String,
    /// BLAKE3 of [`Plan::wire`]: what the two ends of a session compare.
    pub digest: [u8; 32],
    /// What both ends must have alike, in the order of the specification: what differs is named by who refuses.
    pub wire: Vec<WireClause>,
    /// The ends: the one that opens, and the one that is opened to.
    pub roles: [String; 2],
    /// Files of ASN.1 that the types are in, as the specification names them.
    pub asn1: Vec<String>,
    /// Who talks to whom.
    pub peers: Peers,
    /// The network that the user vouches for, by its corners.
    pub network: Network,
    /// The transport machine.
    pub machine: Machine,
    /// How an association begins.
    pub set_up: SetUp,
    /// How ADUs are sealed.
    pub suite: Suite,
    /// Congestion control of the path.
    pub congestion: Congestion,
    /// What holds a sender back beside it.
    pub flow: Flow,
    /// What tells an ADU or packet that was changed by accident, beside or in place of a tag.
    pub sum: Sum,
    /// How arrivals are told to the sender.
    pub acknowledge: Acknowledge,
    /// What carries the packets.
    pub device: Device,
    /// Bytes of the largest packet of IP.
    pub mtu_bytes: u32,
    /// Bytes of an ADU's encoding that fit into one packet with all headers and the tag.
    pub payload_bytes: u32,
    /// Bits a second that may be sent at the worst corner: what the slowest rate has room for and, unless it is reserved, a TCP would
    /// get there.
    pub allowed_bits_per_s: u64,
    /// Bytes that may wait to be acknowledged or resent, for one end of one association: the least that the rates
    /// that were promised need.
    pub ring_bytes: u64,
    /// Bytes of all buffers that one end of one association has, of the end that has more (`rust::memory`).
    pub memory_bytes: u64,
    /// Short ADUs wait to fill a packet (Nagle); never beside a type of low latency.
    pub is_nagle: bool,
    /// The code point of differentiated services in packets of the association (RFC 2474).
    pub dscp: u8,
    /// Of a group.
    pub group: Option<Group>,
    /// The types of ADU, by number.
    pub adus: Vec<AduPlan>,
}

/// One thing that both ends must have alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WireClause {
    /// What it is: `adu.Audio.order`, `network.mtu_bytes`, `asn1.Conf`, or of what was chosen `chosen.Audio.fec`.
    pub name: String,
    /// Its value in words, never more than a line; of ASN.1 the hash of the module.
    pub value: String,
}

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Peers {
    /// Two ends.
    Pair,
    /// One sender and many receivers; how many is in [`Group`].
    Group,
}

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The fewest and the most receivers.
    pub receivers: (u32, u32),
    /// The rate that never falls below, whoever is slow.
    pub floor_bytes_per_s: u64,
    /// What may be sent at the worst corner, headers and resending with it; a number without meaning where the network's rate
    /// is not known.
    pub rate_bytes_per_s: u64,
    /// The first guess of the greatest round trip time, before any was measured.
    pub grtt_first_us: u64,
}

/// The least and the most of each quality that the user vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Network {
    /// Round trip times.
    pub rtt_us: (u64, u64),
    /// Rates of the slowest hop.
    pub rate_bytes_per_s: (u64, u64),
    /// The share of packets that are lost, at most.
    pub loss: f64,
    /// Packets that are lost in a row, in the mean.
    pub loss_burst: f64,
    /// Variation of the time on the way, at most.
    pub jitter_us: u64,
    /// Whether capacity is reserved, so that no controller need find it.
    pub is_reserved: bool,
}

/// A transport machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Machine {
    /// A stream of records, in TCP's machine.
    Tcp,
    /// Messages of contexts of XTP.
    Xtp,
    /// Datagrams with records of their own.
    Datagram,
    /// A group of XTP.
    Group,
}

/// How an association begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum SetUp {
    /// A handshake, and then ADUs.
    Explicit,
    /// XTP's FIRST: the first packet opens the context.
    First,
    /// XTP's transaction: request and answer are one exchange, after one handshake of the two ends.
    Transaction,
}

/// How ADUs are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Suite {
    /// Encrypted and authenticated, by whichever cipher the two ends agree on.
    Sealed,
    /// In the clear: the specification says of every type that it need be neither confidential nor authentic.
    Plain,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Congestion {
    /// RFC 9438.
    Cubic,
    /// BBR, by rate and round trip time.
    Bbr,
    /// RFC 6582.
    NewReno,
    /// NADA (RFC 8698): a target for the application, by delay, loss and marks.
    Media,
    /// A rate that is fixed by the specification, within a circuit breaker (RFC 8084); for a group the group's.
    Bucket,
}

/// What holds a sender back beside congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Flow {
    /// The receiver's window.
    Window,
    /// Nothing: rates are bounded, or new ADUs replace old ones.
    None,
}

/// A check of what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sum {
    /// Nothing: the tag tells, or shared memory carries.
    None,
    /// RFC 1071.
    Internet,
    /// XTP's.
    Cxor,
    /// RFC 3720.
    Crc32c,
}

/// How arrivals are told to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Acknowledge {
    /// Each packet at once.
    Each,
    /// Every other packet, or after a while.
    Delayed,
    /// By negative acknowledgements in slots, as groups do (RFC 5740).
    Slotted,
    /// By reports of what arrived when (RFC 8888).
    Reports,
}

/// What carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Device {
    /// Datagrams of the kernel's UDP.
    Udp,
    /// Connections of the kernel's TCP.
    KernelTcp,
    /// Shared memory, between processes of one host.
    Shm,
    /// A TAP interface.
    Tap,
    /// AF_PACKET.
    Packet,
    /// AF_XDP.
    Xdp,
}

/// A type of ADU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AduPlan {
    /// Its name in the specification, as Rust names types.
    pub name: String,
    /// Its number in the constant header, from 0 in the order of the specification.
    pub number: u8,
    /// Module and name of its type in ASN.1.
    pub asn1: (String, String),
    /// Who sends it.
    pub from: Sender,
    /// The transfer syntax.
    pub codec: Codec,
    /// The least and the most bytes of an encoded value. Longer ones are refused before they are sent, and when
    /// they arrive.
    pub size_bytes: (u64, u64),
    /// Whether its values may be longer than [`Plan::payload_bytes`], and so go in several packets.
    pub is_cut: bool,
    /// What is sent again.
    pub resend: Resend,
    /// In which order it is delivered.
    pub order: Order,
    /// The ASN.1 component whose value is the key of [`Order::Newest`]. Only a newer ADU with the same key replaces an older one.
    pub newest: Option<String>,
    /// Numbers of types of which all that were sent before must have been delivered, or be known to be lost, before
    /// one of this type is.
    pub after: Vec<u8>,
    /// From when it is given to the sender to when it is of no more use.
    pub deadline_us: Option<u64>,
    /// What becomes of it then.
    pub late: Late,
    /// Forward error correction, by the packets that an ADU has: the first step whose `packets_max` is not less
    /// serves it. Empty where there is none.
    pub fec: Vec<FecStep>,
    /// The share of ADUs that may be lost; 0 where all must arrive.
    pub loss: f64,
    /// How many of them may be lost in a row; `None`: any. Contracts read it.
    pub loss_run: Option<u32>,
    /// How far times of delivery may vary; `None`: nobody says. Contracts read it.
    pub jitter_us: Option<u64>,
    /// Bits a second that it takes on its way, headers and correction with it: the least that it can do with, and the most;
    /// `None` where nobody says how much of it there is.
    pub load_bits_per_s: (u64, Option<u64>),
    /// What its sender may not exceed.
    pub bucket: Option<Bucket>,
    /// How its arrivals are made even.
    pub playout: Option<Playout>,
    /// What its application lowers when the path's target falls, in this order; empty: nothing.
    pub adapt: Vec<Adapt>,
    /// Rates at which the application makes it, in thousandths of a hertz: the least that it can do with, and the
    /// most. `None`: it did not say.
    pub rate_millihertz: Option<(u64, u64)>,
    /// Bits a second that the application makes of it: the least that it can do with, and the most.
    pub bitrate_bits_per_s: Option<(u64, u64)>,
    /// The number of the type that answers it.
    pub reply: Option<u8>,
    /// Of a request: to execute it twice does no harm; else the answers are kept, and what comes again gets its
    /// answer from there.
    pub is_replayable: bool,
    /// The least goes first (RFC 9622, msgPriority).
    pub priority: u32,
    /// What it wants of the path.
    pub profile: Profile,
    /// The execution of the data pass.
    pub execution: Execution,
}

/// Who sends a type of ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sender {
    /// One role, by its place in [`Plan::roles`].
    Role(u8),
    /// Each of the two.
    Both,
}

impl Sender {
    /// Whether a role sends it, by its place in [`Plan::roles`].
    pub fn is(self, role: usize) -> bool {
        match self {
            Sender::Both => true,
            Sender::Role(by) => usize::from(by) == role,
        }
    }
}

/// A transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Codec {
    /// Fusewire's light-weight syntax, with words of 32 bits.
    Lws,
    /// RFC 4506.
    Xdr,
    /// X.696.
    Oer,
    /// X.690, basic.
    Ber,
    /// X.690, distinguished.
    Der,
}

/// What is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Resend {
    /// Nothing.
    None,
    /// What is missing, until it arrives.
    Selective,
    /// All from what is missing.
    GoBackN,
    /// What is missing, while it can still arrive before its deadline.
    UntilDeadline,
}

/// In which order ADUs are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Order {
    /// As they were sent, with all other types that say so.
    All,
    /// As they were sent, among those of the type.
    Type,
    /// As they arrive.
    None,
    /// As they arrive, if none that was sent later has been delivered.
    Newest,
}

/// What becomes of an ADU after its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Late {
    /// It is dropped wherever it is, and both ends are told.
    Drop,
    /// It is delivered, and the receiver is told that it is late.
    Deliver,
}

/// Forward error correction of ADUs of up to so many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FecStep {
    /// Packets of data in an ADU, at most.
    pub packets_max: u16,
    /// How they are protected.
    pub fec: Fec,
}

/// Forward error correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fec {
    /// Nothing.
    None,
    /// Each packet is sent again with the packet of this type that is so many later.
    Copy {
        /// How many later.
        distance: u8,
    },
    /// One packet behind an ADU's packets, each bit of it the parity of theirs.
    Xor,
    /// Packets of parity behind an ADU's packets: any as many as there is data restore it.
    ReedSolomon {
        /// How many.
        parity: u8,
    },
}

/// A bucket of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// What flows in, headers and correction with it.
    pub bytes_per_s: u64,
    /// What it holds.
    pub burst_bytes: u64,
}

/// A playout buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Playout {
    /// Each ADU is given to the application so long after it was sent.
    Fixed {
        /// How long.
        delay_us: u64,
    },
    /// As long after it was sent as most need, at most so long.
    Adaptive {
        /// How long at most.
        delay_us_max: u64,
    },
}

/// What an application lowers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Adapt {
    /// Bits of an ADU.
    Quality,
    /// ADUs a second.
    Frequency,
}

/// What a type of ADU wants of the path (RFC 9622, connCapacityProfile).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Profile {
    /// Nothing in particular.
    Default,
    /// What nobody else wants.
    Scavenger,
    /// Short times, for somebody waits.
    LowLatencyInteractive,
    /// Short times.
    LowLatencyNonInteractive,
    /// An even rate.
    ConstantRateStreaming,
    /// All that there is.
    CapacitySeeking,
}

/// How the data pass runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Execution {
    /// One loop.
    Integrated,
    /// Each stage in turn over a strip.
    Blocked,
    /// Each stage over the whole message.
    Sequential,
}
