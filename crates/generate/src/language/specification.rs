//! What a specification says once it is read: every clause, written or not, with its place.

use fusewire_asn1::rust::Extent;

use super::value::{Clausal, Range, Value};
use crate::plan::{Adapt, Device, Late, Order, Profile, Sender};

/// A preference (RFC 9622, section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preference {
    /// Nothing else will do.
    Require,
    /// Rather.
    Prefer,
    /// Nobody minds.
    None,
    /// Rather not.
    Avoid,
    /// Never.
    Prohibit,
}

/// What a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// The tag of the cipher is enough.
    Tag,
    /// A sum over everything, beside it.
    Full,
    /// A sum over headers: changed bytes of an ADU are better than none.
    Bytes,
    /// Nothing.
    None,
}

/// Whether others share the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// They do.
    Open,
    /// The rate is reserved.
    Reserved,
}

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two.
    Pair,
    /// One to many.
    Group,
}

/// A peer that is none of ours, and the transfer syntax that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// All are ours.
    None,
    /// RFC 4506.
    Xdr,
    /// X.696.
    Oer,
    /// X.690.
    Ber,
    /// X.690.
    Der,
}

/// What a choice goes by where clauses leave one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// Times.
    Latency,
    /// Rates.
    Throughput,
    /// Cycles.
    Cpu,
    /// Bytes kept.
    Memory,
    /// Bytes of code.
    Code,
}

/// A specification.
#[derive(Clone, Debug, PartialEq)]
pub struct Specification {
    /// The file's name without its ending.
    pub name: String,
    /// Files of ASN.1, as written, or one for each module of a type.
    pub asn1: Vec<String>,
    /// Modules with the hash of their tokens, in the order of the files.
    pub modules: Vec<(String, String)>,
    /// The ends.
    pub roles: [String; 2],
    /// What the user vouches for.
    pub network: Network,
    /// Who talks.
    pub peers: Peers,
    /// What it runs on.
    pub platform: Platform,
    /// What a choice goes by.
    pub prefer: Value<Vec<Prefer>>,
    /// The types of ADU, in the order of the file.
    pub adus: Vec<Adu>,
}

/// `network`.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Round trip times.
    pub rtt_ms: Value<Range>,
    /// Rates of the slowest hop.
    pub rate_mbit: Value<Range>,
    /// Share of packets lost.
    pub loss: Value<f64>,
    /// Lost in a row, in the mean.
    pub loss_burst: Value<f64>,
    /// How long losses last, in the mean; `None`: they are counted in packets.
    pub loss_burst_ms: Value<Option<f64>>,
    /// Variation of times.
    pub jitter_ms: Value<f64>,
    /// The largest packet.
    pub mtu_bytes: Value<f64>,
    /// Whether others share it.
    pub control: Value<Control>,
}

/// `peers`.
#[derive(Clone, Debug, PartialEq)]
pub struct Peers {
    /// Pair or group.
    pub shape: Value<Shape>,
    /// Receivers of a group.
    pub receivers: Value<Range>,
    /// A rate that a group never falls below.
    pub floor_kbit: Value<f64>,
    /// Peers that are not ours.
    pub foreign: Value<Foreign>,
}

/// `platform`.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// The device.
    pub device: Value<Device>,
    /// Memory for one association.
    pub memory_kib: Value<Option<f64>>,
    /// A calibrated machine.
    pub machine: Value<Option<String>>,
}

/// A type of ADU.
#[derive(Clone, Debug, PartialEq)]
pub struct Adu {
    /// Its name.
    pub name: String,
    /// Where its name stands.
    pub span: fusewire_asn1::Span,
    /// `type`.
    pub ty: Value<String>,
    /// `from`.
    pub from: Value<Sender>,
    /// `size_bytes`; nothing where ASN.1 says it.
    pub size_bytes: Value<Option<Range>>,
    /// What ASN.1 says, in each codec of [`CODECS`].
    pub extents: [Extent; 5],
    /// `reliability`.
    pub reliability: Value<Preference>,
    /// `loss`.
    pub loss: Value<f64>,
    /// `loss_run`.
    pub loss_run: Value<Option<f64>>,
    /// `deadline_ms`.
    pub deadline_ms: Value<Option<f64>>,
    /// `late`.
    pub late: Value<Late>,
    /// `order`.
    pub order: Value<Order>,
    /// `newest`: the component whose value is the key.
    pub newest: Value<Option<String>>,
    /// `after`.
    pub after: Value<Vec<String>>,
    /// Where each of these stands.
    pub after_spans: Vec<fusewire_asn1::Span>,
    /// `rate_hz`.
    pub rate_hz: Value<Option<Range>>,
    /// `bitrate_kbit`.
    pub bitrate_kbit: Value<Option<Range>>,
    /// `jitter_ms`.
    pub jitter_ms: Value<Option<f64>>,
    /// `adapt`.
    pub adapt: Value<Vec<Adapt>>,
    /// `reply`.
    pub reply: Value<Option<String>>,
    /// `replayable`.
    pub replayable: Value<bool>,
    /// `confidential`.
    pub confidential: Value<Preference>,
    /// `authentic`.
    pub authentic: Value<Preference>,
    /// `integrity`.
    pub integrity: Value<Integrity>,
    /// `priority`.
    pub priority: Value<f64>,
    /// `profile`.
    pub profile: Value<Profile>,
}

/// The codecs, in the order of [`Adu::extents`].
pub const CODECS: [(crate::plan::Codec, fusewire_asn1::rust::Encoding); 5] = {
    use crate::plan::Codec;
    use fusewire_asn1::rust::Encoding;
    [
        (Codec::Lws, Encoding::Lws),
        (Codec::Xdr, Encoding::Xdr),
        (Codec::Oer, Encoding::Oer),
        (Codec::Ber, Encoding::Ber),
        (Codec::Der, Encoding::Der),
    ]
};

impl Specification {
    /// Every clause, in the order of the language: the one list of them.
    pub fn clauses(&self) -> Vec<&dyn Clausal> {
        let Specification { network: n, peers: p, platform, prefer, .. } = self;
        let mut all: Vec<&dyn Clausal> = vec![
            &n.rtt_ms,
            &n.rate_mbit,
            &n.loss,
            &n.loss_burst,
            &n.loss_burst_ms,
            &n.jitter_ms,
            &n.mtu_bytes,
            &n.control,
            &p.shape,
            &p.receivers,
            &p.floor_kbit,
            &p.foreign,
            &platform.device,
            &platform.memory_kib,
            &platform.machine,
            prefer,
        ];
        all.extend(self.adus.iter().flat_map(Adu::clauses));
        all
    }

    /// One of [`Specification::clauses`], to be changed.
    pub fn clause_mut(&mut self, name: &str) -> Option<&mut dyn Clausal> {
        let Specification { network: n, peers: p, platform, prefer, .. } = self;
        let all: [&mut dyn Clausal; 16] = [
            &mut n.rtt_ms,
            &mut n.rate_mbit,
            &mut n.loss,
            &mut n.loss_burst,
            &mut n.loss_burst_ms,
            &mut n.jitter_ms,
            &mut n.mtu_bytes,
            &mut n.control,
            &mut p.shape,
            &mut p.receivers,
            &mut p.floor_kbit,
            &mut p.foreign,
            &mut platform.device,
            &mut platform.memory_kib,
            &mut platform.machine,
            prefer,
        ];
        let adus = self.adus.iter_mut().flat_map(Adu::clauses_mut);
        all.into_iter().chain(adus).find(|clause| clause.clause().name == name)
    }
}

impl Adu {
    fn clauses(&self) -> [&dyn Clausal; 22] {
        [
            &self.ty,
            &self.from,
            &self.size_bytes,
            &self.reliability,
            &self.loss,
            &self.loss_run,
            &self.deadline_ms,
            &self.late,
            &self.order,
            &self.newest,
            &self.after,
            &self.rate_hz,
            &self.bitrate_kbit,
            &self.jitter_ms,
            &self.adapt,
            &self.reply,
            &self.replayable,
            &self.confidential,
            &self.authentic,
            &self.integrity,
            &self.priority,
            &self.profile,
        ]
    }

    fn clauses_mut(&mut self) -> [&mut dyn Clausal; 22] {
        [
            &mut self.ty,
            &mut self.from,
            &mut self.size_bytes,
            &mut self.reliability,
            &mut self.loss,
            &mut self.loss_run,
            &mut self.deadline_ms,
            &mut self.late,
            &mut self.order,
            &mut self.newest,
            &mut self.after,
            &mut self.rate_hz,
            &mut self.bitrate_kbit,
            &mut self.jitter_ms,
            &mut self.adapt,
            &mut self.reply,
            &mut self.replayable,
            &mut self.confidential,
            &mut self.authentic,
            &mut self.integrity,
            &mut self.priority,
            &mut self.profile,
        ]
    }
}
