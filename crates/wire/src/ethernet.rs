//! The Ethernet II header (IEEE 802.3, clause 3), with 802.1Q tags passed over.
//!
//! A type field below 0x0600 is a length of the older framing and is refused.

use core::fmt;

use crate::Error;

/// Length of a header without tags, in bytes.
pub const HEADER_LEN: usize = 14;
/// Most tags that `parse` passes over: one of the provider, one of the customer.
pub const MAX_TAGS: usize = 2;

const PROTOCOL: &str = "ethernet";
const TAG_LEN: usize = 4;
/// Smallest value of the type field that is a type (IEEE 802.3, 3.2.6).
const MIN_TYPE: u16 = 0x0600;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IP version 4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address resolution.
    pub const ARP: EtherType = EtherType(0x0806);
    /// A customer's tag (IEEE 802.1Q).
    pub const TAG: EtherType = EtherType(0x8100);
    /// IP version 6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// A provider's tag (IEEE 802.1ad).
    pub const PROVIDER_TAG: EtherType = EtherType(0x88a8);
}

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// All hosts of the link: broadcast.
    pub const BROADCAST: Address = Address([0xff; 6]);

    /// For a group of hosts, or for all.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who shall take the frame.
    pub destination: Address,
    /// Who sent it.
    pub source: Address,
    /// What it carries, behind all tags.
    pub ethertype: EtherType,
    /// Length of this header with its tags in bytes; set by `parse` and ignored by `emit`.
    pub header_len: u8,
}

impl Header {
    /// Reads a header and passes over up to [`MAX_TAGS`] tags.
    ///
    /// # Errors
    /// `Truncated`; `Value` when the type field holds a length, or a tag too many.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(truncated(HEADER_LEN, bytes.len()));
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *fixed;
        let mut ethertype = EtherType(u16::from_be_bytes([t0, t1]));
        let mut header_len = HEADER_LEN;
        for _ in 0..MAX_TAGS {
            if ethertype != EtherType::TAG && ethertype != EtherType::PROVIDER_TAG {
                break;
            }
            header_len += TAG_LEN;
            let Some(&[.., t0, t1]) = bytes.get(..header_len) else {
                return Err(truncated(header_len, bytes.len()));
            };
            ethertype = EtherType(u16::from_be_bytes([t0, t1]));
        }
        let tag = ethertype == EtherType::TAG || ethertype == EtherType::PROVIDER_TAG;
        if ethertype.0 < MIN_TYPE || tag {
            let found = u32::from(ethertype.0);
            return Err(Error::Value { protocol: PROTOCOL, field: "type", found });
        }
        Ok(Header {
            destination: Address([d0, d1, d2, d3, d4, d5]),
            source: Address([s0, s1, s2, s3, s4, s5]),
            ethertype,
            header_len: header_len as u8,
        })
    }

    /// Writes the header without tags and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..HEADER_LEN];
        out[0..6].copy_from_slice(&self.destination.0);
        out[6..12].copy_from_slice(&self.source.0);
        out[12..14].copy_from_slice(&self.ethertype.0.to_be_bytes());
        HEADER_LEN
    }
}

const fn truncated(needed: usize, found: usize) -> Error {
    Error::Truncated { protocol: PROTOCOL, needed, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [u8; 16] =
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 0x86, 0xdd, 0xaa, 0xbb];

    #[test]
    fn round_trip() {
        let header = Header::parse(&PLAIN).unwrap();
        assert_eq!(header.destination, Address::BROADCAST);
        assert!(header.destination.is_multicast() && !header.source.is_multicast());
        assert_eq!(header.source.to_string(), "02:00:00:00:00:07");
        assert_eq!(header.ethertype, EtherType::IPV6);
        let mut out = [0; 14];
        assert_eq!(header.emit(&mut out), 14);
        assert_eq!(out, PLAIN[..14]);
    }

    #[test]
    fn passes_over_two_tags_and_no_third() {
        let mut bytes = PLAIN[..12].to_vec();
        bytes.extend([0x88, 0xa8, 0, 5, 0x81, 0x00, 0x20, 6, 0x08, 0x00, 0x45]);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!((header.ethertype, header.header_len), (EtherType::IPV4, 22));
        for len in 14..22 {
            assert!(matches!(Header::parse(&bytes[..len]), Err(Error::Truncated { .. })), "{len}");
        }
        bytes.splice(12..12, [0x81, 0, 0, 9]);
        assert!(matches!(Header::parse(&bytes), Err(Error::Value { found: 0x8100, .. })));
    }

    #[test]
    fn refuses_short_frames_and_length_fields() {
        for len in 0..HEADER_LEN {
            let error = Header::parse(&PLAIN[..len]).unwrap_err();
            assert_eq!(error, truncated(HEADER_LEN, len));
        }
        let mut bytes = PLAIN;
        bytes[12..14].copy_from_slice(&0x05ffu16.to_be_bytes());
        assert!(matches!(Header::parse(&bytes), Err(Error::Value { found: 0x5ff, .. })));
    }
}
