//! The IPv6 header (RFC 8200), its extension headers passed over, and jumbograms (RFC 2675).

use core::net::Ipv6Addr;

use fusewire_base::Sum;

use crate::Error;

/// Length of the fixed header, in bytes.
pub const HEADER_LEN: usize = 40;
/// Length of a hop-by-hop header that holds the jumbo payload option alone, in bytes.
pub const JUMBO_LEN: usize = 8;
/// Most extension headers that [`upper_layer`] passes over.
pub const MAX_EXTENSIONS: usize = 8;

const PROTOCOL: &str = "ipv6";
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
/// Next header of a fragment, at which [`upper_layer`] stops.
pub const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
const JUMBO_OPTION: u8 = 0xc2;

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Six bits of DSCP, two of ECN.
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Bytes behind this header; 0 in a jumbogram.
    pub payload_len: u16,
    /// What follows.
    pub next_header: u8,
    /// Hops that the packet may still go.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// `Truncated`, also when the payload is; `Value` for another version.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let header = Header::parse_quoted(bytes)?;
        let needed = HEADER_LEN + usize::from(header.payload_len);
        if needed > bytes.len() {
            return Err(truncated(needed, bytes.len()));
        }
        Ok(header)
    }

    /// Reads the header of a packet whose beginning an ICMPv6 error quotes: its payload may be cut off.
    ///
    /// # Errors
    /// `Truncated`; `Value` for another version.
    pub fn parse_quoted(bytes: &[u8]) -> Result<Header, Error> {
        let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(truncated(HEADER_LEN, bytes.len()));
        };
        let version = fixed[0] >> 4;
        if version != 6 {
            return Err(Error::Value {
                protocol: PROTOCOL,
                field: "version",
                found: version.into(),
            });
        }
        let payload_len = u16::from_be_bytes([fixed[4], fixed[5]]);
        let word = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
        Ok(Header {
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            payload_len,
            next_header: fixed[6],
            hop_limit: fixed[7],
            source: address(fixed, 8),
            destination: address(fixed, 24),
        })
    }

    /// The payload within the bytes that `parse` saw: `payload_len` bytes, or all that follow when
    /// it is 0 and a hop-by-hop header may make it a jumbogram.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let rest = bytes.get(HEADER_LEN..).unwrap_or_default();
        match self.payload_len {
            0 if self.next_header == HOP_BY_HOP => rest,
            len => rest.get(..len.into()).unwrap_or_default(),
        }
    }

    /// Writes the header and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.flow_label <= 0xf_ffff);
        let out = &mut out[..HEADER_LEN];
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        out[0..4].copy_from_slice(&word.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.source.octets());
        out[24..40].copy_from_slice(&self.destination.octets());
        HEADER_LEN
    }

    /// Writes this header and, when `upper_len` bytes do not fit its length field, the hop-by-hop
    /// header of a jumbogram; sets `payload_len` and `next_header` for a payload of `protocol`.
    /// Returns the length of both.
    ///
    /// # Panics
    /// When `out` is shorter than [`HEADER_LEN`] + [`JUMBO_LEN`], or `upper_len` not below 2^32 - 8.
    pub fn emit_for(mut self, protocol: u8, upper_len: usize, out: &mut [u8]) -> usize {
        if let Ok(len) = u16::try_from(upper_len) {
            self.payload_len = len;
            self.next_header = protocol;
            return self.emit(out);
        }
        let jumbo_len = u32::try_from(upper_len + JUMBO_LEN).expect("a jumbogram of under 4 GiB");
        self.payload_len = 0;
        self.next_header = HOP_BY_HOP;
        let at = self.emit(out);
        let [a, b, c, d] = jumbo_len.to_be_bytes();
        out[at..at + JUMBO_LEN].copy_from_slice(&[protocol, 0, JUMBO_OPTION, 4, a, b, c, d]);
        at + JUMBO_LEN
    }
}

/// Where the upper layer's header starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Its protocol; [`FRAGMENT`] when the packet is one.
    pub protocol: u8,
    /// Bytes from the end of the fixed header.
    pub offset: usize,
}

/// Passes over the extension headers in `payload`, the first of which is `next_header`.
///
/// # Errors
/// `Truncated` when one leaves the payload; `Length` when there are more than [`MAX_EXTENSIONS`].
pub fn upper_layer(next_header: u8, payload: &[u8]) -> Result<UpperLayer, Error> {
    let mut at = UpperLayer { protocol: next_header, offset: 0 };
    for _ in 0..=MAX_EXTENSIONS {
        if !matches!(at.protocol, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            return Ok(at);
        }
        let Some(&[next, len]) = payload.get(at.offset..at.offset + 2) else {
            return Err(truncated(at.offset + 8, payload.len()));
        };
        at = UpperLayer { protocol: next, offset: at.offset + 8 + 8 * usize::from(len) };
        if at.offset > payload.len() {
            return Err(truncated(at.offset, payload.len()));
        }
    }
    Err(Error::Length { protocol: PROTOCOL, field: "extension headers", found: MAX_EXTENSIONS + 1 })
}

/// The sum of the pseudo-header of TCP and UDP over IPv6 (RFC 8200, section 8.1).
pub fn pseudo_header_sum(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, len: u32) -> Sum {
    let addresses = Sum::of_few(&source.octets()) + Sum::of_few(&destination.octets());
    addresses
        + Sum::from_words(u64::from(len >> 16) + u64::from(len & 0xffff) + u64::from(protocol))
}

fn address(bytes: &[u8; HEADER_LEN], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}

const fn truncated(needed: usize, found: usize) -> Error {
    Error::Truncated { protocol: PROTOCOL, needed, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            traffic_class: 0xab,
            flow_label: 0xc_def1,
            payload_len: 5,
            next_header: 17,
            hop_limit: 63,
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8:1:2:3:4:5:6".parse().unwrap(),
        }
    }

    #[test]
    fn round_trip_and_layout() {
        let mut bytes = vec![0x11; 48];
        assert_eq!(header().emit(&mut bytes), 40);
        assert_eq!(bytes[..8], [0x6a, 0xbc, 0xde, 0xf1, 0, 5, 17, 63]);
        assert_eq!(Header::parse(&bytes), Ok(header()));
        assert_eq!(header().payload(&bytes), [0x11; 5]);
    }

    #[test]
    fn every_truncation_and_another_version_are_told() {
        let mut bytes = vec![0; 45];
        header().emit(&mut bytes);
        for len in 0..45 {
            let needed = if len < 40 { 40 } else { 45 };
            assert_eq!(Header::parse(&bytes[..len]), Err(truncated(needed, len)));
        }
        bytes[0] = 0x45;
        let error = Error::Value { protocol: PROTOCOL, field: "version", found: 4 };
        assert_eq!(Header::parse(&bytes), Err(error));
    }

    #[test]
    fn a_long_payload_makes_a_jumbogram() {
        let mut bytes = vec![0; 48 + 70_000];
        assert_eq!(header().emit_for(6, 65_535, &mut bytes), 40);
        assert_eq!(Header::parse(&bytes).map(|h| (h.payload_len, h.next_header)), Ok((65_535, 6)));
        assert_eq!(header().emit_for(6, 70_000, &mut bytes), 48);
        let parsed = Header::parse(&bytes).unwrap();
        let payload = parsed.payload(&bytes);
        assert_eq!(payload.len(), 70_008);
        let upper = upper_layer(parsed.next_header, payload).unwrap();
        assert_eq!(upper, UpperLayer { protocol: 6, offset: 8 });
        assert_eq!(payload[..8], [6, 0, 0xc2, 4, 0, 1, 0x11, 0x78]);
    }

    #[test]
    fn extension_headers_are_passed_over_and_bounded() {
        let mut payload = vec![0u8; 40];
        payload[..2].copy_from_slice(&[ROUTING, 1]);
        payload[16..18].copy_from_slice(&[DESTINATION_OPTIONS, 0]);
        payload[24..26].copy_from_slice(&[FRAGMENT, 0]);
        let upper = UpperLayer { protocol: FRAGMENT, offset: 32 };
        assert_eq!(upper_layer(HOP_BY_HOP, &payload), Ok(upper));
        for len in 0..32 {
            assert!(matches!(
                upper_layer(HOP_BY_HOP, &payload[..len]),
                Err(Error::Truncated { .. })
            ));
        }
        assert_eq!(upper_layer(6, &[]), Ok(UpperLayer { protocol: 6, offset: 0 }));
        assert!(matches!(upper_layer(HOP_BY_HOP, &[0; 800]), Err(Error::Length { found: 9, .. })));
    }

    #[test]
    fn pseudo_header() {
        let (a, b) = (header().source, header().destination);
        let mut bytes = Vec::from(a.octets());
        bytes.extend(b.octets());
        bytes.extend([0, 2, 0xff, 0xfe, 0, 0, 0, 6]);
        assert_eq!(pseudo_header_sum(a, b, 6, 0x2_fffe), Sum::of(&bytes));
    }
}
