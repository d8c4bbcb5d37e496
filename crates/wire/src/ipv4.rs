//! The IPv4 header (RFC 791, section 3.1), with ECN (RFC 3168).
//!
//! Options are told, not obeyed. Fragments are told, not put together.

use core::net::Ipv4Addr;

use fusewire_base::Sum;

use crate::Error;

/// Length of a header without options, in bytes.
pub const MIN_HEADER_LEN: usize = 20;
/// Length of a header that carries the router alert and nothing else, in bytes.
pub const ROUTER_ALERT_LEN: usize = 24;

const PROTOCOL: &str = "ipv4";
const END: u8 = 0;
const NOP: u8 = 1;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of service: six bits of DSCP, two of ECN.
    pub tos: u8,
    /// Length of header and payload in bytes; `header_len ≤ total_len ≤` bytes given to `parse`.
    pub total_len: u16,
    /// Which fragments belong together.
    pub identification: u16,
    /// Routers must not fragment.
    pub dont_fragment: bool,
    /// Not the last fragment.
    pub more_fragments: bool,
    /// Where the fragment lies in the payload, in bytes; a multiple of eight, at most 65528.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Length of this header with its options in bytes; set by `parse`, ignored by `emit`.
    pub header_len: u8,
}

impl Header {
    /// Reads and verifies a header.
    ///
    /// # Errors
    /// `Truncated`, `Value` for another version, `Length` for a header or total length that cannot
    /// be, `Checksum`.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let header = Header::parse_quoted(bytes)?;
        if !Sum::of_few(&bytes[..header.header_len.into()]).verifies() {
            return Err(Error::Checksum { protocol: PROTOCOL });
        }
        if usize::from(header.total_len) > bytes.len() {
            return Err(truncated(header.total_len.into(), bytes.len()));
        }
        Ok(header)
    }

    /// Reads the header of a packet whose beginning an ICMP error quotes: its payload may be cut off, and a
    /// router may have changed it.
    ///
    /// # Errors
    /// `Truncated`, `Value` for another version, `Length` for a header or total length that cannot
    /// be.
    pub fn parse_quoted(bytes: &[u8]) -> Result<Header, Error> {
        let Some(fixed) = bytes.first_chunk::<MIN_HEADER_LEN>() else {
            return Err(truncated(MIN_HEADER_LEN, bytes.len()));
        };
        let version = fixed[0] >> 4;
        if version != 4 {
            return Err(Error::Value {
                protocol: PROTOCOL,
                field: "version",
                found: version.into(),
            });
        }
        let header_len = usize::from(fixed[0] & 0xf) * 4;
        if header_len < MIN_HEADER_LEN {
            return Err(length("ihl", header_len / 4));
        }
        if header_len > bytes.len() {
            return Err(truncated(header_len, bytes.len()));
        }
        let total_len = half(fixed, 2);
        if usize::from(total_len) < header_len {
            return Err(length("total length", total_len.into()));
        }
        let fragment = half(fixed, 6);
        Ok(Header {
            tos: fixed[1],
            total_len,
            identification: half(fixed, 4),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: (fragment & FRAGMENT_OFFSET) * 8,
            ttl: fixed[8],
            protocol: fixed[9],
            source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
            destination: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
            header_len: header_len as u8,
        })
    }

    /// Part of a packet, not a whole one.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// The payload within the bytes that `parse` saw; what follows it (padding) is left out.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.header_len.into()..self.total_len.into()).unwrap_or_default()
    }

    /// Writes the header without options, with its checksum; returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`MIN_HEADER_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.fragment_offset.is_multiple_of(8));
        let out = &mut out[..MIN_HEADER_LEN];
        let mut fragment = self.fragment_offset / 8;
        if self.dont_fragment {
            fragment |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            fragment |= MORE_FRAGMENTS;
        }
        out[0] = 0x45;
        out[1] = self.tos;
        out[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        out[4..6].copy_from_slice(&self.identification.to_be_bytes());
        out[6..8].copy_from_slice(&fragment.to_be_bytes());
        out[8] = self.ttl;
        out[9] = self.protocol;
        out[10..12].fill(0);
        out[12..16].copy_from_slice(&self.source.octets());
        out[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::of_few(out).checksum();
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
        MIN_HEADER_LEN
    }

    /// Writes the header with the option that makes routers look (RFC 2113); returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`ROUTER_ALERT_LEN`].
    pub fn emit_router_alert(&self, out: &mut [u8]) -> usize {
        self.emit(out);
        let out = &mut out[..ROUTER_ALERT_LEN];
        out[0] = 0x46;
        out[10..12].fill(0);
        out[20..24].copy_from_slice(&[ROUTER_ALERT, 4, 0, 0]);
        let checksum = Sum::of_few(out).checksum();
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
        ROUTER_ALERT_LEN
    }
}

/// Whether the options of the header that `bytes` begin with, of `header_len` bytes, lay down a route.
///
/// # Errors
/// `OptionLength`.
pub fn is_source_routed(bytes: &[u8], header_len: usize) -> Result<bool, Error> {
    let mut at = MIN_HEADER_LEN;
    while let Some(&kind) = bytes.get(at..header_len).and_then(<[u8]>::first) {
        match kind {
            END => break,
            NOP => at += 1,
            LOOSE_ROUTE | STRICT_ROUTE => return Ok(true),
            _ => {
                let found = bytes.get(at + 1).copied().unwrap_or(0);
                let end = at + usize::from(found);
                if found < 2 || end > header_len {
                    return Err(Error::OptionLength { protocol: PROTOCOL, kind, at, found });
                }
                at = end;
            }
        }
    }
    Ok(false)
}

/// The sum of the pseudo-header of TCP and UDP over IPv4 (RFC 9293, section 3.1).
pub fn pseudo_header_sum(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    let addresses = Sum::of_few(&source.octets()) + Sum::of_few(&destination.octets());
    addresses.word(protocol.into()).word(len)
}

const fn half(bytes: &[u8; MIN_HEADER_LEN], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

const fn truncated(needed: usize, found: usize) -> Error {
    Error::Truncated { protocol: PROTOCOL, needed, found }
}

const fn length(field: &'static str, found: usize) -> Error {
    Error::Length { protocol: PROTOCOL, field, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header whose checksum is the well-known b861.
    const KNOWN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    fn packet() -> Vec<u8> {
        let mut bytes = KNOWN.to_vec();
        bytes.resize(0x73, 0xee);
        bytes
    }

    /// `bytes` with the checksum made right again.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let len = (usize::from(bytes[0] & 0xf) * 4).min(bytes.len());
        bytes[10..12].fill(0);
        let checksum = Sum::of(&bytes[..len]).checksum();
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test]
    fn reads_and_writes_a_known_header() {
        let mut bytes = packet();
        bytes.extend([9, 9, 9]);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.source, Ipv4Addr::new(192, 168, 0, 1));
        assert_eq!((header.total_len, header.ttl, header.protocol), (0x73, 64, 17));
        assert!(header.dont_fragment && !header.is_fragment());
        assert_eq!(header.payload(&bytes), [0xee; 0x73 - 20]);
        let mut out = [0xff; 20];
        assert_eq!(header.emit(&mut out), 20);
        assert_eq!(out, KNOWN);
    }

    #[test]
    fn fragments_round_trip() {
        let mut header = Header::parse(&packet()).unwrap();
        header.more_fragments = true;
        header.dont_fragment = false;
        header.fragment_offset = 65_528;
        header.tos = 0b10;
        let mut bytes = packet();
        header.emit(&mut bytes);
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert!(header.is_fragment());
    }

    #[test]
    fn options_are_passed_over() {
        let mut bytes = packet();
        bytes[0] = 0x46;
        let bytes = sealed(bytes);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.header_len, 24);
        assert_eq!(header.payload(&bytes).len(), 0x73 - 24);
    }

    #[test]
    fn every_truncation_is_told() {
        let bytes = packet();
        for len in 0..bytes.len() {
            let needed = if len < 20 { 20 } else { 0x73 };
            assert_eq!(Header::parse(&bytes[..len]), Err(truncated(needed, len)));
        }
        let mut long = packet();
        long[0] = 0x4f;
        assert_eq!(Header::parse(&long[..59]), Err(truncated(60, 59)));
    }

    #[test]
    fn illegal_fields_are_told() {
        for (at, value, error) in [
            (0, 0x65, Error::Value { protocol: PROTOCOL, field: "version", found: 6 }),
            (0, 0x44, length("ihl", 4)),
            (0, 0x40, length("ihl", 0)),
            (3, 19, length("total length", 19)),
            (3, 0, length("total length", 0)),
        ] {
            let mut bytes = packet();
            bytes[at] = value;
            assert_eq!(Header::parse(&sealed(bytes)), Err(error));
        }
        for bit in 0..160 {
            let mut bytes = packet();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn pseudo_header() {
        let sum =
            pseudo_header_sum(Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(10, 9, 8, 7), 6, 0x1234);
        assert_eq!(sum, Sum::of(&[10, 1, 2, 3, 10, 9, 8, 7, 0, 6, 0x12, 0x34]));
    }

    #[test]
    fn options_are_walked_and_every_illegal_length_is_told() {
        let header = Header { total_len: 24, ..Header::parse(&packet()).unwrap() };
        let mut bytes = [0; 60];
        assert_eq!(header.emit_router_alert(&mut bytes), ROUTER_ALERT_LEN);
        assert_eq!(Header::parse(&bytes), Ok(Header { header_len: 24, ..header }));
        assert_eq!(is_source_routed(&bytes, 24), Ok(false));
        for kind in [LOOSE_ROUTE, STRICT_ROUTE] {
            bytes[20..24].copy_from_slice(&[NOP, kind, 3, 4]);
            assert_eq!(is_source_routed(&bytes, 24), Ok(true));
        }
        for found in [0, 1, 4, 255] {
            bytes[20..24].copy_from_slice(&[NOP, 7, found, LOOSE_ROUTE]);
            let error = Error::OptionLength { protocol: PROTOCOL, kind: 7, at: 21, found };
            assert_eq!(is_source_routed(&bytes, 24), Err(error));
        }
        bytes[20..24].copy_from_slice(&[END, LOOSE_ROUTE, 0, 0]);
        assert_eq!(is_source_routed(&bytes, 24), Ok(false));
    }

    #[test]
    fn a_quoted_header_may_lack_its_payload() {
        let mut bytes = [0; 28];
        Header { total_len: 1500, ..Header::parse(&packet()).unwrap() }.emit(&mut bytes);
        assert!(matches!(Header::parse(&bytes), Err(Error::Truncated { needed: 1500, .. })));
        bytes[8] = 1;
        let quoted = Header::parse_quoted(&bytes).unwrap();
        assert_eq!((quoted.total_len, quoted.ttl), (1500, 1));
        for len in 0..20 {
            assert!(Header::parse_quoted(&bytes[..len]).is_err());
        }
    }
}
