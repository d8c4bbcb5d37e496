//! The keys of the language and the words of its values: one list of each, for reading, for the nearest word of what
//! is none of them, and for the page that describes them.

use super::specification::{Control, Foreign, Integrity, Prefer, Preference, Shape};
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
    /// Both ends must have it alike.
    pub is_wire: bool,
}

const fn key(name: &'static str, expects: &'static str, default: &'static str) -> Key {
    Key { name, expects, default, is_wire: true }
}

const fn local(name: &'static str, expects: &'static str, default: &'static str) -> Key {
    Key { name, expects, default, is_wire: false }
}

/// A preference of TAPS (RFC 9622, section 6.2).
pub const PREFERENCE: &str = "\"require\", \"prefer\", \"none\", \"avoid\" or \"prohibit\"";

/// Of the file.
pub const FILE: &[Key] = &[
    key("asn1", "a list of files of ASN.1", "Module.asn1 for each module of a type"),
    key("roles", "two names", "must be there"),
    key("network", "a table", "nothing is vouched for"),
    key("peers", "a table", "a pair"),
    local("platform", "a table", "UDP, any memory, no calibrated machine"),
    local(
        "prefer",
        "a list of \"latency\", \"throughput\", \"cpu\", \"memory\" and \"code\"",
        "[]",
    ),
    key("adu", "a table for each type of ADU", "must be there"),
];

/// Of `network`.
pub const NETWORK: &[Key] = &[
    key("rtt_ms", "milliseconds, as a range [least, most]", "unknown"),
    key("rate_mbit", "megabits a second, as a range [least, most]", "unknown"),
    key("loss", "a share of packets, from 0 to 1", "0"),
    key("loss_burst", "packets lost in a row, in the mean", "1"),
    key("jitter_ms", "milliseconds", "0"),
    key("mtu_bytes", "bytes of a packet, from 576 to 65535", "1500"),
    key("control", "\"open\" or \"reserved\"", "\"open\""),
];

/// Of `peers`.
pub const PEERS: &[Key] = &[
    key("shape", "\"pair\" or \"group\"", "\"pair\""),
    key("receivers", "a range [fewest, most] of receivers", "[1, 1]"),
    key("floor_kbit", "kilobits a second", "0"),
    key("foreign", "\"none\", \"xdr\", \"oer\", \"ber\" or \"der\"", "\"none\""),
];

/// Of `platform`.
pub const PLATFORM: &[Key] = &[
    local("device", "\"udp\", \"kernel-tcp\", \"shm\", \"tap\", \"packet\" or \"xdp\"", "\"udp\""),
    local("memory_kib", "kibibytes for one association", "any"),
    local("machine", "a file of `fusewire model calibrate`", "none"),
];

/// Of a type of ADU.
pub const ADU: &[Key] = &[
    key("type", "\"Module.Type\"", "must be there"),
    key("from", "a role, or \"both\"", "the first role"),
    key("size_bytes", "bytes of an encoded value, as a range [least, most]", "from SIZE"),
    key("reliability", PREFERENCE, "\"require\""),
    key(
        "loss",
        "a share of ADUs, from 0 to 1",
        "none is lost where reliability is required; else any",
    ),
    key("loss_run", "ADUs lost in a row, from 0", "the same"),
    key("deadline_ms", "milliseconds", "none"),
    key("late", "\"drop\" or \"deliver\"", "\"drop\""),
    key("order", "\"all\", \"type\", \"none\" or \"newest\"", "\"all\""),
    key("after", "a list of types of ADU", "[]"),
    key("rate_hz", "ADUs a second, as a range [least, most]", "[0, any]"),
    key("bitrate_kbit", "kilobits a second, as a range [least, most]", "[0, any]"),
    local("jitter_ms", "milliseconds", "none"),
    key("adapt", "a list of \"quality\" and \"frequency\"", "[]"),
    key("reply", "a type of ADU", "none"),
    key("replayable", "true or false", "false"),
    key("confidential", PREFERENCE, "\"require\""),
    key("authentic", PREFERENCE, "\"require\"; of a group \"prefer\""),
    key("integrity", "\"tag\", \"full\", \"bytes\" or \"none\"", "\"tag\""),
    key("priority", "a number, the least first", "100; by profile"),
    key(
        "profile",
        "\"default\", \"scavenger\", \"low-latency-interactive\", \"low-latency-non-interactive\", \
         \"constant-rate-streaming\" or \"capacity-seeking\"",
        "\"default\"",
    ),
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
