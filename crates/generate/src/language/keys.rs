//! The keys of the language and the words of its values: one list of each, for reading, for the nearest word of what
//! is none of them, and for the page that describes them.

use super::specification::{Control, Foreign, Integrity, Prefer, Preference, Shape};
use super::value::Looser;
use crate::plan::{Adapt, Device, Late, Order, Profile};

/// A key that a table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key, its unit in it.
    pub name: &'static str,
    /// What its value must be, in words.
    pub expects: &'static str,
    /// What holds without it, as the page has it.
    pub default: &'static str,
    /// What it says, for the page.
    pub says: &'static str,
    /// The property of TAPS that it comes of, with its section of RFC 9622; empty where there is none.
    pub taps: &'static str,
    /// Both ends must have it alike.
    pub is_wire: bool,
}

const fn key(
    name: &'static str,
    expects: &'static str,
    default: &'static str,
    says: &'static str,
) -> Key {
    Key { name, expects, default, says, taps: "", is_wire: true }
}

impl Key {
    const fn local(self) -> Key {
        Key { is_wire: false, ..self }
    }

    const fn taps(self, taps: &'static str) -> Key {
        Key { taps, ..self }
    }
}

/// A preference of TAPS (RFC 9622, section 6.2).
pub const PREFERENCE: &str = "\"require\", \"prefer\", \"none\", \"avoid\" or \"prohibit\"";

/// The tables with their keys, as the page has them; of a type of ADU the name is `adu.NAME`.
pub const TABLES: [(&str, &[Key]); 5] =
    [("", FILE), ("network", NETWORK), ("peers", PEERS), ("platform", PLATFORM), ("adu.NAME", ADU)];

/// Of the file.
pub const FILE: &[Key] = &[
    key(
        "asn1",
        "a list of files of ASN.1",
        "Module.asn1 for each module of a type",
        "where the types are; beside the specification",
    ),
    key("roles", "two names", "must be there", "the ends; the first opens"),
    key("network", "a table", "must be there", "what its user vouches for"),
    key("peers", "a table", "a pair", "who talks to whom"),
    key("platform", "a table", "UDP, any memory, no calibrated machine", "what it runs on").local(),
    key(
        "prefer",
        "a list of \"latency\", \"throughput\", \"cpu\", \"memory\" and \"code\"",
        "[]",
        "what decides where clauses leave a choice, first first",
    )
    .local(),
    key(
        "adu",
        "a table for each type of ADU",
        "must be there",
        "what is sent; numbers are given in the order of the file",
    ),
];

/// Of `network`.
pub const NETWORK: &[Key] = &[
    key(
        "rtt_ms",
        "milliseconds, as a range [least, most]",
        "must be there",
        "round trip times without queues of ours",
    ),
    key(
        "rate_mbit",
        "megabits a second, as a range [least, most]",
        "must be there",
        "rate of the slowest hop",
    ),
    key(
        "loss",
        "a share of packets, from 0 to 0.9",
        "must be there",
        "packets that are lost, at most",
    ),
    key(
        "loss_burst",
        "packets lost in a row, in the mean",
        "1",
        "how losses come (Gilbert's channel)",
    ),
    key(
        "loss_burst_ms",
        "milliseconds, from 1",
        "none: bursts are counted in packets",
        "how long a burst of losses lasts, in the mean: of outages in time, in place of `loss_burst`",
    ),
    key("jitter_ms", "milliseconds", "0", "how far times on the way vary"),
    key(
        "mtu_bytes",
        "bytes of a packet, from 576 to 65535",
        "1500",
        "the largest packet of IP that passes",
    ),
    key(
        "control",
        "\"open\" or \"reserved\"",
        "\"open\"",
        "others share the path, so what is sent is fair to a TCP; or the rate is reserved",
    )
    .taps("congestionControl, 6.2.9"),
];

/// Of `peers`.
pub const PEERS: &[Key] = &[
    key("shape", "\"pair\" or \"group\"", "\"pair\"", "two ends, or one sender and many receivers")
        .taps("direction, 6.2.16"),
    key("receivers", "a range [fewest, most] of receivers", "[1, 1]", "how many a group has"),
    key(
        "floor_kbit",
        "kilobits a second",
        "0",
        "a group's rate never falls below, whoever is slow",
    )
    .taps("minSendRate, 8.1.8"),
    key(
        "foreign",
        "\"none\", \"xdr\", \"oer\", \"ber\" or \"der\"",
        "\"none\"",
        "peers that are not ours: plain TCP or UDP, and this transfer syntax",
    ),
];

/// Of `platform`.
pub const PLATFORM: &[Key] = &[
    key(
        "device",
        "\"udp\", \"kernel-tcp\", \"shm\", \"tap\", \"packet\" or \"xdp\"",
        "\"udp\"",
        "what carries packets",
    )
    .local()
    .taps("interface, 6.2.11"),
    key("memory_kib", "kibibytes for one association", "any", "all buffers of one end stay within")
        .local(),
    key(
        "machine",
        "a file of `fusewire model calibrate`",
        "none",
        "says how data passes run; beside the specification",
    )
    .local(),
];

/// Of a type of ADU.
pub const ADU: &[Key] = &[
    key("type", "\"Module.Type\"", "must be there", "its type in ASN.1"),
    key("from", "a role, or \"both\"", "the first role", "who sends it").taps("direction, 6.2.16"),
    key(
        "size_bytes",
        "bytes of an encoded value, as a range [least, most]",
        "from SIZE",
        "narrower than ASN.1 says",
    )
    .taps("sendMsgMaxLen, 8.1.11.5"),
    key(
        "reliability",
        PREFERENCE,
        "\"require\"",
        "whether what is lost is sent again; required, none is lost",
    )
    .taps("reliability, 6.2.1; msgReliable, 9.1.3.7"),
    key(
        "loss",
        "a share of ADUs, from 0 to 1",
        "none is lost where reliability is required; else any",
        "how many may be lost: resending until the deadline, or correction",
    ),
    key("loss_run", "ADUs lost in a row, from 0", "the same", "how many in a row"),
    key(
        "deadline_ms",
        "milliseconds",
        "none",
        "from when it is given to the sender to when it is of no more use; of a request until its answer has come",
    )
    .taps("msgLifetime, 9.1.3.1"),
    key(
        "late",
        "\"drop\" or \"deliver\"",
        "\"drop\"",
        "what becomes of it then; delivered, one in 1,000 may be late",
    ),
    key(
        "order",
        "\"all\", \"type\", \"none\" or \"newest\"",
        "\"all\"",
        "as sent, with all types or within its own; as it comes; only what is newer",
    )
    .taps("preserveOrder, 6.2.4; msgOrdered, 9.1.3.3"),
    key(
        "newest",
        "a component of its type",
        "none: by its type",
        "with `order = \"newest\"`: only an older one of the same value of this component is dropped (a symbol, a sensor)",
    ),
    key(
        "after",
        "a list of types of ADU",
        "[]",
        "delivered behind all of these that were sent before it",
    ),
    key(
        "rate_hz",
        "ADUs a second, as a range [least, most]",
        "[0, any]",
        "how often the application makes one",
    )
    .taps("minSendRate, maxSendRate, 8.1.8"),
    key(
        "bitrate_kbit",
        "kilobits a second, as a range [least, most]",
        "[0, any]",
        "what the application makes of it, without headers",
    )
    .taps("minSendRate, maxSendRate, 8.1.8"),
    key(
        "jitter_ms",
        "milliseconds",
        "none",
        "how far times of delivery may vary: a playout buffer where the network's vary by more",
    )
    .local(),
    key(
        "adapt",
        "a list of \"quality\" and \"frequency\"",
        "[]",
        "what the application lowers when the path's target falls, first first",
    ),
    key("reply", "a type of ADU", "none", "the type that answers it: a transaction"),
    key(
        "replayable",
        "true or false",
        "false",
        "a request that may be executed twice: no answers are kept",
    )
    .taps("safelyReplayable, 9.1.3.4"),
    key("confidential", PREFERENCE, "\"require\"", "nobody else reads it").taps("6.3"),
    key("authentic", PREFERENCE, "\"require\"; of a group \"prefer\"", "nobody else wrote it")
        .taps("6.3"),
    key(
        "integrity",
        "\"tag\", \"full\", \"bytes\" or \"none\"",
        "\"tag\"",
        "what tells accidents: the tag; a sum beside it; a sum of headers alone; nothing",
    )
    .taps("fullChecksumSend, 6.2.7; msgChecksumLen, 9.1.3.6"),
    key("priority", "a number, the least first", "100; by profile", "who goes first")
        .taps("msgPriority, 9.1.3.2"),
    key(
        "profile",
        "\"default\", \"scavenger\", \"low-latency-interactive\", \"low-latency-non-interactive\", \
         \"constant-rate-streaming\" or \"capacity-seeking\"",
        "\"default\"",
        "what it wants of the path: no Nagle and no delayed ACK, throughput first, code point",
    )
    .taps("connCapacityProfile, 8.1.6; msgCapacityProfile, 9.1.3.8"),
];

/// A type of values that are words.
pub trait Word: Copy + PartialEq + 'static {
    /// The words and what they mean.
    const WORDS: &'static [(&'static str, Self)];

    /// The word for a value.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

impl<T: Word> super::value::Written for T {
    fn written(&self) -> String {
        format!("\"{}\"", self.word())
    }

    fn loosened(&self, _looser: Looser, share: f64) -> Option<Self> {
        let own = Self::WORDS.iter().position(|(_, value)| value == self)?;
        let others = Self::WORDS.len() - 1;
        // Those behind it, and then those before it.
        let step = (share * others as f64).ceil().clamp(0.0, others as f64) as usize;
        Some(Self::WORDS[(own + step) % Self::WORDS.len()].1)
    }
}

impl Word for Preference {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("require", Preference::Require),
        ("prefer", Preference::Prefer),
        ("none", Preference::None),
        ("avoid", Preference::Avoid),
        ("prohibit", Preference::Prohibit),
    ];
}

impl Word for Late {
    const WORDS: &'static [(&'static str, Self)] =
        &[("drop", Late::Drop), ("deliver", Late::Deliver)];
}

impl Word for Order {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("all", Order::All),
        ("type", Order::Type),
        ("none", Order::None),
        ("newest", Order::Newest),
    ];
}

impl Word for Adapt {
    const WORDS: &'static [(&'static str, Self)] =
        &[("quality", Adapt::Quality), ("frequency", Adapt::Frequency)];
}

impl Word for Integrity {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("tag", Integrity::Tag),
        ("full", Integrity::Full),
        ("bytes", Integrity::Bytes),
        ("none", Integrity::None),
    ];
}

impl Word for Profile {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("default", Profile::Default),
        ("scavenger", Profile::Scavenger),
        ("low-latency-interactive", Profile::LowLatencyInteractive),
        ("low-latency-non-interactive", Profile::LowLatencyNonInteractive),
        ("constant-rate-streaming", Profile::ConstantRateStreaming),
        ("capacity-seeking", Profile::CapacitySeeking),
    ];
}

impl Word for Control {
    const WORDS: &'static [(&'static str, Self)] =
        &[("open", Control::Open), ("reserved", Control::Reserved)];
}

impl Word for Shape {
    const WORDS: &'static [(&'static str, Self)] =
        &[("pair", Shape::Pair), ("group", Shape::Group)];
}

impl Word for Foreign {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("none", Foreign::None),
        ("xdr", Foreign::Xdr),
        ("oer", Foreign::Oer),
        ("ber", Foreign::Ber),
        ("der", Foreign::Der),
    ];
}

impl Word for Device {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("udp", Device::Udp),
        ("kernel-tcp", Device::KernelTcp),
        ("shm", Device::Shm),
        ("tap", Device::Tap),
        ("packet", Device::Packet),
        ("xdp", Device::Xdp),
    ];
}

impl Word for Prefer {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("latency", Prefer::Latency),
        ("throughput", Prefer::Throughput),
        ("cpu", Prefer::Cpu),
        ("memory", Prefer::Memory),
        ("code", Prefer::Code),
    ];
}
