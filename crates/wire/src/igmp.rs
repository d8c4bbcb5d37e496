//! IGMP, versions 1 to 3 (RFC 1112 appendix I, RFC 2236, RFC 3376): what a host reads and writes.
//!
//! Sources of groups are passed over: a host that wants none in particular need not look.

use core::net::Ipv4Addr;
use core::time::Duration;

use fusewire_base::Sum;

use crate::Error;

/// Length of a query and of a report of the versions 1 and 2, in bytes.
pub const HEADER_LEN: usize = 8;
/// Protocol number in an IPv4 header.
pub const NUMBER: u8 = 2;
/// Length of a record of a report of version 3 that names no sources, in bytes.
pub const RECORD_LEN: usize = 8;

const PROTOCOL: &str = "igmp";
const QUERY_V3_LEN: usize = 12;
const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 1112; for IPv6 there is none such.
    V1,
    /// RFC 2236; for IPv6 MLD of version 1, RFC 2710.
    V2,
    /// RFC 3376; for IPv6 MLD of version 2, RFC 3810.
    V3,
}

/// A query, of IGMP or MLD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<A> {
    /// The querier's version.
    pub version: Version,
    /// The group that is asked for; unspecified: all.
    pub group: A,
    /// Answers are to come within this time.
    pub max_response: Duration,
    /// The querier's robustness variable; 0: unspecified.
    pub robustness: u8,
    /// Time between queries; zero: unspecified.
    pub interval: Duration,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who is in the group?
    Query(Query<Ipv4Addr>),
    /// The sender is (version 1 or 2).
    Report(Ipv4Addr),
    /// The sender is not any more.
    Leave(Ipv4Addr),
    /// A report of version 3, or something else that a host has no use for.
    Other(u8),
}

/// What a record of a report says of its group (RFC 3376, section 4.2.12; RFC 3810, section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// `MODE_IS_EXCLUDE` without sources: in the group.
    IsMember,
    /// `CHANGE_TO_EXCLUDE_MODE` without sources: in the group from now on.
    Joins,
    /// `CHANGE_TO_INCLUDE_MODE` without sources: out of the group from now on.
    Leaves,
}

impl RecordKind {
    pub(crate) const fn number(self) -> u8 {
        match self {
            RecordKind::IsMember => 2,
            RecordKind::Joins => 4,
            RecordKind::Leaves => 3,
        }
    }
}

impl Message {
    /// Reads the message that `bytes` are, and verifies its checksum.
    ///
    /// # Errors
    /// `Truncated`, `Checksum`; `Length` for a query of no version.
    pub fn parse(bytes: &[u8]) -> Result<Message, Error> {
        let Some(&[kind, code, _, _, a, b, c, d]) = bytes.first_chunk::<HEADER_LEN>() else {
            let found = bytes.len();
            return Err(Error::Truncated { protocol: PROTOCOL, needed: HEADER_LEN, found });
        };
        if !Sum::of(bytes).verifies() {
            return Err(Error::Checksum { protocol: PROTOCOL });
        }
        let group = Ipv4Addr::new(a, b, c, d);
        Ok(match kind {
            QUERY => Message::Query(query(bytes, code, group)?),
            REPORT_V1 | REPORT_V2 => Message::Report(group),
            LEAVE => Message::Leave(group),
            other => Message::Other(other),
        })
    }
}

/// RFC 3376, section 7.1, tells versions apart.
fn query(bytes: &[u8], code: u8, group: Ipv4Addr) -> Result<Query<Ipv4Addr>, Error> {
    let tenths = |n: u32| Duration::from_millis(u64::from(n) * 100);
    let (version, max_response) = match (bytes.len(), code) {
        (HEADER_LEN, 0) => (Version::V1, tenths(100)),
        (HEADER_LEN, _) => (Version::V2, tenths(code.into())),
        (QUERY_V3_LEN.., _) => (Version::V3, tenths(floating(code).into())),
        (found, _) => return Err(Error::Length { protocol: PROTOCOL, field: "query", found }),
    };
    let (robustness, interval) = match (version, bytes.get(8..10)) {
        (Version::V3, Some(&[flags, code])) => (flags & 7, floating(code)),
        _ => (0, 0),
    };
    let interval = Duration::from_secs(interval.into());
    Ok(Query { version, group, max_response, robustness, interval })
}

/// Codes from 128 on are floating-point (RFC 3376, section 4.1.1).
pub(crate) const fn floating(code: u8) -> u16 {
    match code {
        0..=127 => code as u16,
        _ => ((code & 0xf) as u16 | 0x10) << (((code >> 4) & 7) + 3),
    }
}

fn emit_checksum(out: &mut [u8]) {
    out[2..4].fill(0);
    let checksum = Sum::of(out).checksum();
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes a query, as tests and routers do, and returns its length.
///
/// # Panics
/// When `out` is too short.
pub fn emit_query(version: Version, group: Ipv4Addr, code: u8, out: &mut [u8]) -> usize {
    let len = if version == Version::V3 { QUERY_V3_LEN } else { HEADER_LEN };
    let out = &mut out[..len];
    out.fill(0);
    out[..2].copy_from_slice(&[QUERY, code]);
    out[4..8].copy_from_slice(&group.octets());
    emit_checksum(out);
    len
}

/// Writes a report of version 1 or 2 and returns its length.
///
/// # Panics
/// When `out` is shorter than [`HEADER_LEN`].
pub fn emit_report(version: Version, group: Ipv4Addr, out: &mut [u8]) -> usize {
    let kind = if version == Version::V1 { REPORT_V1 } else { REPORT_V2 };
    emit_short(kind, group, out)
}

/// Writes a message that says that the sender leaves `group`, and returns its length.
///
/// # Panics
/// When `out` is shorter than [`HEADER_LEN`].
pub fn emit_leave(group: Ipv4Addr, out: &mut [u8]) -> usize {
    emit_short(LEAVE, group, out)
}

fn emit_short(kind: u8, group: Ipv4Addr, out: &mut [u8]) -> usize {
    let out = &mut out[..HEADER_LEN];
    out[..4].copy_from_slice(&[kind, 0, 0, 0]);
    out[4..8].copy_from_slice(&group.octets());
    emit_checksum(out);
    HEADER_LEN
}

/// Writes a report of version 3 and returns its length: 8 bytes, and [`RECORD_LEN`] for each group.
///
/// # Panics
/// When `out` is too short.
pub fn emit_records(
    records: impl Iterator<Item = (RecordKind, Ipv4Addr)>,
    out: &mut [u8],
) -> usize {
    let mut len = HEADER_LEN;
    let mut count = 0u16;
    for (kind, group) in records {
        let record = &mut out[len..len + RECORD_LEN];
        record[..4].copy_from_slice(&[kind.number(), 0, 0, 0]);
        record[4..].copy_from_slice(&group.octets());
        len += RECORD_LEN;
        count += 1;
    }
    let [high, low] = count.to_be_bytes();
    out[..HEADER_LEN].copy_from_slice(&[REPORT_V3, 0, 0, 0, 0, 0, high, low]);
    emit_checksum(&mut out[..len]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

    #[test]
    fn queries_of_each_version() {
        let read = |version, code| {
            let mut out = [0; 16];
            let len = emit_query(version, GROUP, code, &mut out);
            let Ok(Message::Query(query)) = Message::parse(&out[..len]) else { panic!() };
            assert_eq!((query.version, query.group), (version, GROUP));
            query.max_response.as_millis()
        };
        assert_eq!(read(Version::V1, 0), 10_000);
        assert_eq!(read(Version::V2, 25), 2_500);
        assert_eq!(read(Version::V3, 127), 12_700);
        assert_eq!(read(Version::V3, 0x80), 12_800);
        assert_eq!(read(Version::V3, 0xff), 3_174_400);
    }

    #[test]
    fn reports_and_layout() {
        let mut out = [0xee; 32];
        assert_eq!(emit_report(Version::V2, GROUP, &mut out), 8);
        assert_eq!(out[..8], [0x16, 0, 0xf8, 0xfa, 239, 1, 2, 3]);
        assert_eq!(Message::parse(&out[..8]), Ok(Message::Report(GROUP)));
        emit_report(Version::V1, GROUP, &mut out);
        assert_eq!(Message::parse(&out[..8]), Ok(Message::Report(GROUP)));
        emit_leave(GROUP, &mut out);
        assert_eq!(Message::parse(&out[..8]), Ok(Message::Leave(GROUP)));
        let records = [(RecordKind::IsMember, GROUP), (RecordKind::Leaves, GROUP)];
        let len = emit_records(records.into_iter(), &mut out);
        assert_eq!(len, 24);
        assert_eq!(out[6..16], [0, 2, 2, 0, 0, 0, 239, 1, 2, 3]);
        assert_eq!(out[16..24], [3, 0, 0, 0, 239, 1, 2, 3]);
        assert_eq!(Message::parse(&out[..24]), Ok(Message::Other(REPORT_V3)));
    }

    #[test]
    fn every_truncation_and_wrong_checksum_is_told() {
        let mut out = [0; 12];
        emit_query(Version::V3, GROUP, 9, &mut out);
        // The first eight are a query of version 2.
        for len in (0..8).chain(9..12) {
            assert!(Message::parse(&out[..len]).is_err(), "{len}");
        }
        out[9] ^= 1;
        assert_eq!(Message::parse(&out), Err(Error::Checksum { protocol: PROTOCOL }));
        let odd = [QUERY, 0, !QUERY, 0xff, 0, 0, 0, 0, 0, 0];
        assert!(matches!(Message::parse(&odd), Err(Error::Length { found: 10, .. })));
    }
}
