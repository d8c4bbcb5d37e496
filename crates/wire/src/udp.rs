//! The UDP header (RFC 768).

use fusewire_base::Sum;

use crate::Error;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;
/// Protocol number in an IP header.
pub const NUMBER: u8 = 17;

const PROTOCOL: &str = "udp";

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port; 0 when no answer is wanted.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of header and payload in bytes; `8 ≤ len ≤` bytes given to `parse`.
    pub len: u16,
    /// Checksum field; 0 when the sender made none.
    pub checksum: u16,
}

impl Header {
    /// Reads a header. The checksum is left to [`Header::verifies`].
    ///
    /// # Errors
    /// `Truncated`, also when the payload is; `Length` for one below 8.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(truncated(HEADER_LEN, bytes.len()));
        };
        let len = u16::from_be_bytes([l0, l1]);
        if usize::from(len) < HEADER_LEN {
            return Err(Error::Length { protocol: PROTOCOL, field: "length", found: len.into() });
        }
        if usize::from(len) > bytes.len() {
            return Err(truncated(len.into(), bytes.len()));
        }
        Ok(Header {
            src_port: u16::from_be_bytes([s0, s1]),
            dst_port: u16::from_be_bytes([d0, d1]),
            len,
            checksum: u16::from_be_bytes([c0, c1]),
        })
    }

    /// The payload within the bytes that `parse` saw; what follows it is left out.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(HEADER_LEN..self.len.into()).unwrap_or_default()
    }

    /// True when the checksum over pseudo-header and the bytes that `parse` saw is right, or there
    /// is none, which only IPv4 allows (RFC 8200, section 8.1, forbids it).
    pub fn verifies(&self, pseudo_header: Sum, bytes: &[u8]) -> bool {
        let datagram = bytes.get(..self.len.into()).unwrap_or_default();
        self.checksum == 0 || (pseudo_header + Sum::of(datagram)).verifies()
    }

    /// Writes the header and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..HEADER_LEN];
        out[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        out[4..6].copy_from_slice(&self.len.to_be_bytes());
        out[6..8].copy_from_slice(&self.checksum.to_be_bytes());
        HEADER_LEN
    }
}

/// The checksum field for a datagram whose own field is zero; never 0, which means "none".
pub fn checksum(pseudo_header: Sum, datagram: &[u8]) -> u16 {
    match (pseudo_header + Sum::of(datagram)).checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

const fn truncated(needed: usize, found: usize) -> Error {
    Error::Truncated { protocol: PROTOCOL, needed, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { src_port: 0x1234, dst_port: 443, len: 11, checksum: 0 };

    #[test]
    fn round_trip() {
        let mut bytes = [0x77; 13];
        assert_eq!(HEADER.emit(&mut bytes), 8);
        assert_eq!(bytes[..8], [0x12, 0x34, 0x01, 0xbb, 0, 11, 0, 0]);
        assert_eq!(Header::parse(&bytes), Ok(HEADER));
        assert_eq!(HEADER.payload(&bytes), [0x77; 3]);
    }

    #[test]
    fn every_truncation_and_short_length_is_told() {
        let mut bytes = [0; 11];
        HEADER.emit(&mut bytes);
        for len in 0..11 {
            let needed = if len < 8 { 8 } else { 11 };
            assert_eq!(Header::parse(&bytes[..len]), Err(truncated(needed, len)));
        }
        for len in 0..8 {
            Header { len, ..HEADER }.emit(&mut bytes);
            let error = Error::Length { protocol: PROTOCOL, field: "length", found: len.into() };
            assert_eq!(Header::parse(&bytes), Err(error));
        }
    }

    #[test]
    fn checksums() {
        let pseudo = Sum::from_folded(0x1111);
        let mut bytes = [0x5c; 13];
        HEADER.emit(&mut bytes);
        assert!(HEADER.verifies(pseudo, &bytes), "no checksum is no wrong one");
        let right = Header { checksum: checksum(pseudo, &bytes[..11]), ..HEADER };
        right.emit(&mut bytes);
        assert!(right.verifies(pseudo, &bytes));
        bytes[9] ^= 1;
        assert!(!right.verifies(pseudo, &bytes));
        assert_eq!(checksum(Sum::ZERO, &[0xff, 0xff]), 0xffff, "zero would mean none");
    }
}
