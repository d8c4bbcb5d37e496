//! Multicast listener discovery for IPv6 (RFC 2710, RFC 3810): what a host reads and writes.
//!
//! Whole ICMPv6 messages, whose checksum the caller has verified, or will write.

use core::net::Ipv6Addr;
use core::time::Duration;

use crate::Error;
use crate::igmp::{Query, RecordKind, Version, floating};

/// ICMPv6 type of a query.
pub const QUERY: u8 = 130;
/// ICMPv6 type of a report of version 1.
pub const REPORT: u8 = 131;
/// ICMPv6 type of a message of version 1 that says that its sender leaves.
pub const DONE: u8 = 132;
/// ICMPv6 type of a report of version 2.
pub const REPORT_V2: u8 = 143;
/// Length of the messages of version 1, in bytes.
pub const HEADER_LEN: usize = 24;
/// Where the records of a report of version 2 begin.
pub const RECORDS_AT: usize = 8;
/// Length of a record of a report of version 2 that names no sources, in bytes.
pub const RECORD_LEN: usize = 20;

const PROTOCOL: &str = "mld";
const QUERY_V2_LEN: usize = 28;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who listens to the group?
    Query(Query<Ipv6Addr>),
    /// The sender does (version 1).
    Report(Ipv6Addr),
    /// Something that a host has no use for.
    Other(u8),
}

impl Message {
    /// Reads the message that `bytes` are.
    ///
    /// # Errors
    /// `Truncated`; `Length` for a query of no version.
    pub fn parse(bytes: &[u8]) -> Result<Message, Error> {
        let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
            let found = bytes.len();
            return Err(Error::Truncated { protocol: PROTOCOL, needed: HEADER_LEN, found });
        };
        let mut octets = [0; 16];
        octets.copy_from_slice(&fixed[8..]);
        let group = Ipv6Addr::from(octets);
        let code = u16::from_be_bytes([fixed[4], fixed[5]]);
        Ok(match fixed[0] {
            QUERY => Message::Query(query(bytes, code, group)?),
            REPORT => Message::Report(group),
            other => Message::Other(other),
        })
    }
}

/// RFC 3810, section 8.1, tells versions apart.
fn query(bytes: &[u8], code: u16, group: Ipv6Addr) -> Result<Query<Ipv6Addr>, Error> {
    let ms = |n: u64| Duration::from_millis(n);
    let (version, max_response) = match bytes.len() {
        HEADER_LEN => (Version::V2, ms(code.into())),
        QUERY_V2_LEN.. => (Version::V3, ms(floating_16(code))),
        found => return Err(Error::Length { protocol: PROTOCOL, field: "query", found }),
    };
    let (robustness, interval) = match (version, bytes.get(24..26)) {
        (Version::V3, Some(&[flags, code])) => (flags & 7, floating(code)),
        _ => (0, 0),
    };
    let interval = Duration::from_secs(interval.into());
    Ok(Query { version, group, max_response, robustness, interval })
}

/// Codes from 32768 on are floating-point (RFC 3810, section 5.1.3).
const fn floating_16(code: u16) -> u64 {
    match code {
        0..=0x7fff => code as u64,
        _ => ((code & 0xfff) as u64 | 0x1000) << (((code >> 12) & 7) + 3),
    }
}

/// Writes a query, as tests and routers do, with a checksum of zero, and returns its length.
///
/// # Panics
/// When `out` is too short.
pub fn emit_query(version: Version, group: Ipv6Addr, code: u16, out: &mut [u8]) -> usize {
    let len = if version == Version::V3 { QUERY_V2_LEN } else { HEADER_LEN };
    out[..len].fill(0);
    emit_short(QUERY, group, out);
    out[4..6].copy_from_slice(&code.to_be_bytes());
    len
}

/// Writes a message of version 1, [`REPORT`] or [`DONE`], with a checksum of zero, and returns its length.
///
/// # Panics
/// When `out` is shorter than [`HEADER_LEN`].
pub fn emit_short(kind: u8, group: Ipv6Addr, out: &mut [u8]) -> usize {
    let out = &mut out[..HEADER_LEN];
    out[..8].copy_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    out[8..].copy_from_slice(&group.octets());
    HEADER_LEN
}

/// Writes a report of version 2 with a checksum of zero and returns its length: 8 bytes, and [`RECORD_LEN`] for
/// each group.
///
/// # Panics
/// When `out` is too short.
pub fn emit_records(
    records: impl Iterator<Item = (RecordKind, Ipv6Addr)>,
    out: &mut [u8],
) -> usize {
    let mut len = RECORDS_AT;
    let mut count = 0u16;
    for (kind, group) in records {
        let record = &mut out[len..len + RECORD_LEN];
        record[..4].copy_from_slice(&[kind.number(), 0, 0, 0]);
        record[4..].copy_from_slice(&group.octets());
        len += RECORD_LEN;
        count += 1;
    }
    let [high, low] = count.to_be_bytes();
    out[..RECORDS_AT].copy_from_slice(&[REPORT_V2, 0, 0, 0, 0, 0, high, low]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Ipv6Addr {
        "ff15::7".parse().unwrap()
    }

    #[test]
    fn queries_of_each_version() {
        let read = |version, code| {
            let mut out = [0; 32];
            let len = emit_query(version, group(), code, &mut out);
            let Ok(Message::Query(query)) = Message::parse(&out[..len]) else { panic!() };
            assert_eq!((query.version, query.group), (version, group()));
            query.max_response.as_millis()
        };
        assert_eq!(read(Version::V2, 10_000), 10_000);
        assert_eq!(read(Version::V2, 0xffff), 65_535);
        assert_eq!(read(Version::V3, 0x7fff), 32_767);
        assert_eq!(read(Version::V3, 0x8000), 32_768);
        assert_eq!(read(Version::V3, 0xffff), 8_387_584);
    }

    #[test]
    fn reports() {
        let mut out = [0xee; 64];
        assert_eq!(emit_short(REPORT, group(), &mut out), 24);
        assert_eq!(Message::parse(&out[..24]), Ok(Message::Report(group())));
        emit_short(DONE, group(), &mut out);
        assert_eq!(Message::parse(&out[..24]), Ok(Message::Other(DONE)));
        let len = emit_records([(RecordKind::Joins, group())].into_iter(), &mut out);
        assert_eq!((len, &out[..12]), (28, &[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0][..]));
    }

    #[test]
    fn every_truncation_is_told() {
        let mut out = [0; 28];
        emit_query(Version::V3, group(), 9, &mut out);
        for len in (0..24).chain(25..28) {
            assert!(Message::parse(&out[..len]).is_err(), "{len}");
        }
    }
}
