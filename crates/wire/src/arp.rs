//! Address resolution for IPv4 over Ethernet (RFC 826), and nothing else that ARP could resolve.

use core::net::Ipv4Addr;

use crate::Error;
use crate::ethernet::Address;

/// Length of a packet, in bytes.
pub const PACKET_LEN: usize = 28;

const PROTOCOL: &str = "arp";
const HARDWARE_ETHERNET: u16 = 1;
const PROTOCOL_IPV4: u16 = 0x0800;

/// What the sender wants (`ar$op`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target's protocol address?
    Request,
    /// The sender has its protocol address.
    Reply,
}

/// A packet. `sender_ip` is unspecified in a probe (RFC 5227, section 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// `ar$op`.
    pub operation: Operation,
    /// `ar$sha`.
    pub sender_mac: Address,
    /// `ar$spa`.
    pub sender_ip: Ipv4Addr,
    /// `ar$tha`; means nothing in a request.
    pub target_mac: Address,
    /// `ar$tpa`.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// Reads a packet; what follows it is padding.
    ///
    /// # Errors
    /// `Truncated`; `Value` for other hardware, another protocol or another operation; `Length` for
    /// address lengths that do not go with them.
    pub fn parse(bytes: &[u8]) -> Result<Packet, Error> {
        let Some(b) = bytes.first_chunk::<PACKET_LEN>() else {
            return Err(Error::Truncated {
                protocol: PROTOCOL,
                needed: PACKET_LEN,
                found: bytes.len(),
            });
        };
        let half = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        let value =
            |field, found: u16| Error::Value { protocol: PROTOCOL, field, found: found.into() };
        if half(0) != HARDWARE_ETHERNET {
            return Err(value("ar$hrd", half(0)));
        }
        if half(2) != PROTOCOL_IPV4 {
            return Err(value("ar$pro", half(2)));
        }
        for (field, found, expected) in [("ar$hln", b[4], 6), ("ar$pln", b[5], 4)] {
            if found != expected {
                return Err(Error::Length { protocol: PROTOCOL, field, found: found.into() });
            }
        }
        let operation = match half(6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            other => return Err(value("ar$op", other)),
        };
        Ok(Packet {
            operation,
            sender_mac: Address([b[8], b[9], b[10], b[11], b[12], b[13]]),
            sender_ip: Ipv4Addr::new(b[14], b[15], b[16], b[17]),
            target_mac: Address([b[18], b[19], b[20], b[21], b[22], b[23]]),
            target_ip: Ipv4Addr::new(b[24], b[25], b[26], b[27]),
        })
    }

    /// Writes the packet and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`PACKET_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..PACKET_LEN];
        let operation = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        out[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, operation]);
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..28].copy_from_slice(&self.target_ip.octets());
        PACKET_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Packet = Packet {
        operation: Operation::Request,
        sender_mac: Address([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: Address([0; 6]),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };

    #[test]
    fn round_trip_and_layout() {
        for operation in [Operation::Request, Operation::Reply] {
            let packet = Packet { operation, ..REQUEST };
            let mut bytes = [0xee; 46];
            assert_eq!(packet.emit(&mut bytes), PACKET_LEN);
            assert_eq!(Packet::parse(&bytes), Ok(packet));
        }
        let mut bytes = [0; PACKET_LEN];
        REQUEST.emit(&mut bytes);
        assert_eq!(bytes[..18], [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    }

    #[test]
    fn every_truncation_and_foreign_value_is_told() {
        let mut bytes = [0; PACKET_LEN];
        REQUEST.emit(&mut bytes);
        for len in 0..PACKET_LEN {
            let error = Error::Truncated { protocol: PROTOCOL, needed: PACKET_LEN, found: len };
            assert_eq!(Packet::parse(&bytes[..len]), Err(error));
        }
        for at in 0..8 {
            let mut other = bytes;
            other[at] ^= 0x40;
            let error = Packet::parse(&other).unwrap_err();
            assert_eq!(matches!(error, Error::Length { .. }), at == 4 || at == 5, "{error}");
        }
    }
}
