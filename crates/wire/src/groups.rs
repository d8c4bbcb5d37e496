//! Who listens to which group: IGMP, versions 1 to 3 (RFC 1112 appendix I, RFC 2236, RFC 3376), and MLD, versions 1 and 2
//! (RFC 2710, RFC 3810), which is IGMP for IPv6; what a host reads and writes.
//!
//! ```text
//!   IGMP   type, code, checksum (2), group (4)                            query   ▸ flags, interval, sources (2), sources
//!   MLD    type, 0, checksum (2), code (2), 0 (2), group (16)             query   ▸ as there
//!   both   type, 0, checksum (2), 0 (2), records (2)                      report  ▸ kind, 0, sources (2), group, sources
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use fusewire_base::Sum;

use crate::Error;

/// IGMP's protocol number in an IPv4 header.
pub const IGMP: u8 = 2;

/// Where the records of a report of version 3 begin.
const RECORDS_AT: usize = 8;
const IGMP_REPORT_V1: u8 = 0x12;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// For IPv4. Its messages hold their own checksum, which is verified and written here.
    Igmp,
    /// For IPv6: whole ICMPv6 messages, whose checksum the caller has verified, or will write; here it is zero.
    Mld,
}

/// Numbers of the kinds of messages: those of version 2, and of version 3's report.
struct Kinds {
    query: u8,
    report: u8,
    leave: u8,
    records: u8,
}

/// A version of IGMP; MLD's 1 and 2 are called V2 and V3, as IGMP's that they are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 1112; for IPv6 there is none such.
    V1,
    /// RFC 2236; for IPv6 MLD of version 1, RFC 2710.
    V2,
    /// RFC 3376; for IPv6 MLD of version 2, RFC 3810.
    V3,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The querier's version.
    pub version: Version,
    /// The group that is asked for; unspecified: all.
    pub group: IpAddr,
    /// Answers are to come within this time.
    pub max_response: Duration,
    /// The querier's robustness variable; 0: unspecified.
    pub robustness: u8,
    /// Time between queries; zero: unspecified.
    pub interval: Duration,
    /// The sources that are asked for; none: the group, whatever its sources.
    pub sources: Sources<'a>,
}

/// Addresses of sources, as they lie in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources<'a> {
    bytes: &'a [u8],
    is_v6: bool,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Who is in the group?
    Query(Query<'a>),
    /// The sender is (version 1 or 2).
    Report(IpAddr),
    /// The sender is not any more (version 2).
    Leave(IpAddr),
    /// A report of version 3, or something else that a host has no use for: its type.
    Other(u8),
}

/// What a record of a report says of its group and the sources in it (RFC 3376, section 4.2.12; RFC 3810, section
/// 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// `MODE_IS_INCLUDE`: these sources alone are wanted.
    IsInclude = 1,
    /// `MODE_IS_EXCLUDE`: all are wanted but these.
    IsExclude,
    /// `CHANGE_TO_INCLUDE_MODE`: from now on these alone.
    ToInclude,
    /// `CHANGE_TO_EXCLUDE_MODE`: from now on all but these.
    ToExclude,
    /// `ALLOW_NEW_SOURCES`: these too.
    Allow,
    /// `BLOCK_OLD_SOURCES`: these no more.
    Block,
}

impl<'a> Sources<'a> {
    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.bytes.chunks_exact(if self.is_v6 { 16 } else { 4 }).filter_map(address)
    }
}

/// The address that 4 or 16 bytes are.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    match *bytes {
        [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).into()),
        _ => bytes.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()),
    }
}

/// Writes an address at the beginning of `out` and returns its length in bytes.
fn emit_address(address: IpAddr, out: &mut [u8]) -> usize {
    match address {
        IpAddr::V4(address) => out[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => out[..16].copy_from_slice(&address.octets()),
    }
    if address.is_ipv4() { 4 } else { 16 }
}

impl Protocol {
    /// The one that speaks of groups like this one.
    pub const fn of(group: IpAddr) -> Protocol {
        if group.is_ipv6() { Protocol::Mld } else { Protocol::Igmp }
    }

    /// Whether an ICMPv6 message of this type is MLD's and a host's to read.
    pub const fn is_mld(kind: u8) -> bool {
        matches!(kind, 130..=132)
    }

    /// Length of a query and of a report of the versions 1 and 2, in bytes.
    pub const fn header_len(self) -> usize {
        match self {
            Protocol::Igmp => 8,
            Protocol::Mld => 24,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Protocol::Igmp => "igmp",
            Protocol::Mld => "mld",
        }
    }

    const fn address_len(self) -> usize {
        match self {
            Protocol::Igmp => 4,
            Protocol::Mld => 16,
        }
    }

    const fn kinds(self) -> Kinds {
        match self {
            Protocol::Igmp => Kinds { query: 0x11, report: 0x16, leave: 0x17, records: 0x22 },
            Protocol::Mld => Kinds { query: 130, report: 131, leave: 132, records: 143 },
        }
    }

    /// Reads the message that `bytes` are.
    ///
    /// # Errors
    /// `Truncated`; `Checksum` of IGMP's; `Length` for a query of no version, or of fewer sources than it says.
    pub fn parse(self, bytes: &[u8]) -> Result<Message<'_>, Error> {
        let (protocol, needed, found) = (self.name(), self.header_len(), bytes.len());
        let truncated = Error::Truncated { protocol, needed, found };
        let group = bytes.get(needed - self.address_len()..needed).and_then(address);
        let group = group.ok_or(truncated)?;
        if self == Protocol::Igmp && !Sum::of(bytes).verifies() {
            return Err(Error::Checksum { protocol });
        }
        let kinds = self.kinds();
        Ok(match (bytes[0], self) {
            (kind, _) if kind == kinds.query => Message::Query(self.query(bytes, group)?),
            (kind, _) if kind == kinds.report => Message::Report(group),
            (kind, _) if kind == kinds.leave => Message::Leave(group),
            (IGMP_REPORT_V1, Protocol::Igmp) => Message::Report(group),
            (kind, _) => Message::Other(kind),
        })
    }

    /// RFC 3376, section 7.1, and RFC 3810, section 8.1, tell versions apart.
    fn query(self, bytes: &[u8], group: IpAddr) -> Result<Query<'_>, Error> {
        let (fixed, rest) = bytes.split_at(self.header_len());
        let is_v6 = self == Protocol::Mld;
        let (code, unit_ms) = match self {
            Protocol::Igmp => (fixed[1].into(), 100),
            Protocol::Mld => (u16::from_be_bytes([fixed[4], fixed[5]]), 1),
        };
        let (version, time, robustness, interval) = match *rest {
            [flags, interval, _, _, ..] => {
                let time = floating(code.into(), if is_v6 { 12 } else { 4 });
                (Version::V3, time, flags & 7, floating(interval.into(), 4))
            }
            [] if code == 0 && !is_v6 => (Version::V1, 100, 0, 0),
            [] => (Version::V2, code.into(), 0, 0),
            _ => return Err(self.length("query", bytes.len())),
        };
        let sources = match *rest {
            [_, _, high, low, ref sources @ ..] => {
                let count = usize::from(u16::from_be_bytes([high, low]));
                let sources = sources.get(..count * self.address_len());
                sources.ok_or(self.length("number of sources", count))?
            }
            _ => &[],
        };
        Ok(Query {
            version,
            group,
            max_response: Duration::from_millis(time * unit_ms),
            robustness,
            interval: Duration::from_secs(interval),
            sources: Sources { bytes: sources, is_v6 },
        })
    }

    const fn length(self, field: &'static str, found: usize) -> Error {
        Error::Length { protocol: self.name(), field, found }
    }

    /// Writes a message of one group and returns its length.
    fn emit(self, kind: u8, group: IpAddr, out: &mut [u8]) -> usize {
        let len = self.header_len();
        out[..len].fill(0);
        out[0] = kind;
        emit_address(group, &mut out[len - self.address_len()..]);
        self.emit_checksum(&mut out[..len]);
        len
    }

    fn emit_checksum(self, out: &mut [u8]) {
        out[2..4].fill(0);
        if self == Protocol::Igmp {
            let checksum = Sum::of(out).checksum();
            out[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Codes with their highest bit set are floating-point: three bits of exponent above `mantissa_bits` (RFC 3376, section
/// 4.1.1; RFC 3810, section 5.1.3).
const fn floating(code: u64, mantissa_bits: u32) -> u64 {
    if code >> (mantissa_bits + 3) == 0 {
        return code;
    }
    let one = 1 << mantissa_bits;
    (code & (one - 1) | one) << ((code >> mantissa_bits & 7) + 3)
}

/// Writes a query, as tests and routers do, and returns its length. `code` is that of the time to answer within: in tenths
/// of a second for IPv4, where it has 8 bits, in milliseconds for IPv6. Only version 3 names `sources`.
///
/// # Panics
/// When `out` is too short.
pub fn emit_query(
    version: Version,
    group: IpAddr,
    code: u16,
    sources: &[IpAddr],
    out: &mut [u8],
) -> usize {
    let protocol = Protocol::of(group);
    let mut len = protocol.emit(protocol.kinds().query, group, out);
    match protocol {
        Protocol::Igmp => out[1] = code as u8,
        Protocol::Mld => out[4..6].copy_from_slice(&code.to_be_bytes()),
    }
    if version == Version::V3 {
        let [high, low] = (sources.len() as u16).to_be_bytes();
        out[len..len + 4].copy_from_slice(&[0, 0, high, low]);
        len += 4;
        for source in sources {
            len += emit_address(*source, &mut out[len..]);
        }
    }
    protocol.emit_checksum(&mut out[..len]);
    len
}

/// Writes a report of version 1 or 2 and returns its length.
///
/// # Panics
/// When `out` is shorter than [`Protocol::header_len`].
pub fn emit_report(version: Version, group: IpAddr, out: &mut [u8]) -> usize {
    let protocol = Protocol::of(group);
    let kind = match (version, protocol) {
        (Version::V1, Protocol::Igmp) => IGMP_REPORT_V1,
        _ => protocol.kinds().report,
    };
    protocol.emit(kind, group, out)
}

/// Writes a message that says that the sender leaves `group`, and returns its length.
///
/// # Panics
/// When `out` is shorter than [`Protocol::header_len`].
pub fn emit_leave(group: IpAddr, out: &mut [u8]) -> usize {
    let protocol = Protocol::of(group);
    protocol.emit(protocol.kinds().leave, group, out)
}

/// A report of version 3, written record by record.
#[derive(Debug)]
pub struct Records<'a> {
    protocol: Protocol,
    out: &'a mut [u8],
    len: usize,
    count: u16,
}

impl<'a> Records<'a> {
    /// One without records yet, which may become as long as `out`.
    ///
    /// # Panics
    /// When `out` is shorter than 8 bytes.
    pub fn new(protocol: Protocol, out: &'a mut [u8]) -> Records<'a> {
        out[..RECORDS_AT].fill(0);
        Records { protocol, out, len: RECORDS_AT, count: 0 }
    }

    /// Adds a record. False when there is no room for it: the report is as it was.
    pub fn push(
        &mut self,
        kind: RecordKind,
        group: IpAddr,
        sources: impl Iterator<Item = IpAddr> + Clone,
    ) -> bool {
        let count = sources.clone().count();
        let record_len = 4 + (1 + count) * self.protocol.address_len();
        let Some(record) = self.out.get_mut(self.len..self.len + record_len) else { return false };
        let [high, low] = (count as u16).to_be_bytes();
        record[..4].copy_from_slice(&[kind as u8, 0, high, low]);
        let mut at = 4 + emit_address(group, &mut record[4..]);
        for source in sources {
            at += emit_address(source, &mut record[at..]);
        }
        self.len += record_len;
        self.count += 1;
        true
    }

    /// Completes the report and returns its length, unless it holds no record.
    pub fn finish(self) -> Option<usize> {
        self.out[0] = self.protocol.kinds().records;
        self.out[6..8].copy_from_slice(&self.count.to_be_bytes());
        self.protocol.emit_checksum(&mut self.out[..self.len]);
        (self.count > 0).then_some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> [IpAddr; 2] {
        [[239, 1, 2, 3].into(), "ff15::7".parse().unwrap()]
    }

    fn source(group: IpAddr, n: u8) -> IpAddr {
        match group {
            IpAddr::V4(_) => [10, 0, 0, n].into(),
            IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into()).into(),
        }
    }

    #[test]
    fn queries_of_each_version() {
        let [v4, v6] = groups();
        for (version, group, code, ms) in [
            (Version::V1, v4, 0, 10_000),
            (Version::V2, v4, 25, 2_500),
            (Version::V3, v4, 127, 12_700),
            (Version::V3, v4, 0x80, 12_800),
            (Version::V3, v4, 0xff, 3_174_400),
            (Version::V2, v6, 10_000, 10_000),
            (Version::V2, v6, 0xffff, 65_535),
            (Version::V3, v6, 0x7fff, 32_767),
            (Version::V3, v6, 0x8000, 32_768),
            (Version::V3, v6, 0xffff, 8_387_584),
        ] {
            let mut out = [0xee; 64];
            let named = [source(group, 1), source(group, 2)];
            let named = if version == Version::V3 { &named[..] } else { &[] };
            let len = emit_query(version, group, code, named, &mut out);
            let Ok(Message::Query(query)) = Protocol::of(group).parse(&out[..len]) else {
                panic!()
            };
            assert_eq!((query.version, query.group), (version, group));
            assert_eq!(query.max_response.as_millis(), ms);
            assert_eq!(query.sources.iter().collect::<Vec<_>>(), named);
        }
    }

    #[test]
    fn reports_and_layout() {
        let [v4, v6] = groups();
        let mut out = [0xee; 80];
        assert_eq!(emit_report(Version::V2, v4, &mut out), 8);
        assert_eq!(out[..8], [0x16, 0, 0xf8, 0xfa, 239, 1, 2, 3]);
        for group in [v4, v6] {
            let protocol = Protocol::of(group);
            for version in [Version::V1, Version::V2] {
                let len = emit_report(version, group, &mut out);
                assert_eq!(protocol.parse(&out[..len]), Ok(Message::Report(group)));
            }
            let len = emit_leave(group, &mut out);
            assert_eq!(protocol.parse(&out[..len]), Ok(Message::Leave(group)));
        }
        let mut records = Records::new(Protocol::Igmp, &mut out[..28]);
        assert!(records.push(RecordKind::IsExclude, v4, [].into_iter()));
        assert!(records.push(RecordKind::Block, v4, [source(v4, 9)].into_iter()));
        assert!(!records.push(RecordKind::Allow, v4, [].into_iter()), "no room");
        assert_eq!(records.finish(), Some(28));
        assert_eq!(out[6..16], [0, 2, 2, 0, 0, 0, 239, 1, 2, 3]);
        assert_eq!(out[16..28], [6, 0, 0, 1, 239, 1, 2, 3, 10, 0, 0, 9]);
        assert_eq!(Protocol::Igmp.parse(&out[..28]), Ok(Message::Other(0x22)));
        let mut records = Records::new(Protocol::Mld, &mut out);
        assert!(records.push(RecordKind::ToExclude, v6, [source(v6, 1)].into_iter()));
        assert_eq!(records.finish(), Some(44));
        assert_eq!(out[..12], [143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 1]);
        assert_eq!(Records::new(Protocol::Mld, &mut out).finish(), None);
    }

    #[test]
    fn every_truncation_and_wrong_checksum_is_told() {
        for group in groups() {
            let protocol = Protocol::of(group);
            let mut out = [0; 64];
            let len = emit_query(Version::V3, group, 9, &[source(group, 1)], &mut out);
            for cut in 0..len {
                // IGMP's checksum is right, as far as it goes; the header alone is a query of version 2.
                let mut bytes = out[..cut].to_vec();
                if cut >= protocol.header_len() {
                    protocol.emit_checksum(&mut bytes);
                }
                let is_v2 = cut == protocol.header_len();
                assert_eq!(protocol.parse(&bytes).is_ok(), is_v2, "{group} {cut}");
            }
        }
        let [v4, _] = groups();
        let mut out = [0; 12];
        emit_query(Version::V3, v4, 9, &[], &mut out);
        out[9] ^= 1;
        assert_eq!(Protocol::Igmp.parse(&out), Err(Error::Checksum { protocol: "igmp" }));
    }
}
