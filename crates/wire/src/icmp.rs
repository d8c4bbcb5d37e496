//! ICMP for IPv4 (RFC 792), with the next hop's MTU (RFC 1191, section 4).

use fusewire_base::Sum;

use crate::Error;

/// Length of the header of every message read and written here, in bytes.
pub const HEADER_LEN: usize = 8;
/// Protocol number in an IPv4 header.
pub const NUMBER: u8 = 1;

const PROTOCOL: &str = "icmp";
const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// Codes of "destination unreachable" (RFC 792; RFC 1122, section 3.2.2.1; RFC 1812, section 5.2.7.1).
pub mod unreachable {
    /// Network unreachable.
    pub const NETWORK: u8 = 0;
    /// Host unreachable.
    pub const HOST: u8 = 1;
    /// Protocol unreachable.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and DF set.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Communication administratively prohibited.
    pub const PROHIBITED: u8 = 13;
}

/// Codes of "time exceeded".
pub mod time_exceeded {
    /// Time to live exceeded in transit.
    pub const TTL: u8 = 0;
    /// Fragment reassembly time exceeded.
    pub const REASSEMBLY: u8 = 1;
}

/// A message, without its payload: what follows the header of [`HEADER_LEN`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Echo request; its data follow.
    EchoRequest {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Echo reply; its data follow.
    EchoReply {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Destination unreachable; the packet's beginning follows.
    Unreachable {
        /// See [`mod@unreachable`].
        code: u8,
        /// With [`unreachable::FRAGMENTATION_NEEDED`]; 0 from a router that does not know RFC 1191.
        next_hop_mtu: u16,
    },
    /// Time exceeded; the packet's beginning follows.
    TimeExceeded {
        /// See [`time_exceeded`].
        code: u8,
    },
    /// Parameter problem; the packet's beginning follows.
    ParameterProblem {
        /// 0: the pointer says where; 1: a required option is missing.
        code: u8,
        /// The octet where the problem lies.
        pointer: u8,
    },
    /// A router's advice to use another; the packet's beginning follows.
    Redirect {
        /// For what: network, host, and type of service.
        code: u8,
        /// The other router.
        gateway: [u8; 4],
    },
    /// Source quench, which is to be ignored (RFC 6633, section 3).
    SourceQuench,
    /// Any other message.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Bytes 4 to 7.
        rest: [u8; 4],
    },
}

impl Message {
    /// Reads the header of the message that `bytes` are, and verifies the checksum over all of them.
    ///
    /// # Errors
    /// `Truncated`, `Checksum`.
    pub fn parse(bytes: &[u8]) -> Result<Message, Error> {
        let Some(&[kind, code, _, _, a, b, c, d]) = bytes.first_chunk::<HEADER_LEN>() else {
            let found = bytes.len();
            return Err(Error::Truncated { protocol: PROTOCOL, needed: HEADER_LEN, found });
        };
        if !Sum::of(bytes).verifies() {
            return Err(Error::Checksum { protocol: PROTOCOL });
        }
        let (id, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Ok(match (kind, code) {
            (ECHO_REPLY, 0) => Message::EchoReply { id, seq },
            (ECHO_REQUEST, 0) => Message::EchoRequest { id, seq },
            (UNREACHABLE, _) => Message::Unreachable { code, next_hop_mtu: seq },
            (SOURCE_QUENCH, 0) => Message::SourceQuench,
            (REDIRECT, _) => Message::Redirect { code, gateway: [a, b, c, d] },
            (TIME_EXCEEDED, _) => Message::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Message::ParameterProblem { code, pointer: a },
            _ => Message::Other { kind, code, rest: [a, b, c, d] },
        })
    }

    /// About another packet, whose beginning it quotes: never answered with an ICMP error (RFC 1122,
    /// section 3.2.2).
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Message::Unreachable { .. }
                | Message::TimeExceeded { .. }
                | Message::ParameterProblem { .. }
                | Message::Redirect { .. }
                | Message::SourceQuench
        )
    }

    /// Writes the header in front of the payload that already lies in `out` behind it, and the
    /// checksum over both.
    ///
    /// # Panics
    /// When `out`, which is the whole message, is shorter than [`HEADER_LEN`].
    pub fn emit(&self, out: &mut [u8]) {
        let two = |a: u16, b: u16| {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Message::EchoReply { id, seq } => (ECHO_REPLY, 0, two(id, seq)),
            Message::EchoRequest { id, seq } => (ECHO_REQUEST, 0, two(id, seq)),
            Message::Unreachable { code, next_hop_mtu } => {
                (UNREACHABLE, code, two(0, next_hop_mtu))
            }
            Message::SourceQuench => (SOURCE_QUENCH, 0, [0; 4]),
            Message::Redirect { code, gateway } => (REDIRECT, code, gateway),
            Message::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Message::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
            Message::Other { kind, code, rest } => (kind, code, rest),
        };
        out[..4].copy_from_slice(&[kind, code, 0, 0]);
        out[4..8].copy_from_slice(&rest);
        let checksum = Sum::of(out).checksum();
        out[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Whether a message of this type, of which only a quotation is at hand, is an error message.
pub const fn is_error_type(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Message; 8] = [
        Message::EchoRequest { id: 0x1234, seq: 7 },
        Message::EchoReply { id: 0x1234, seq: 7 },
        Message::Unreachable { code: unreachable::FRAGMENTATION_NEEDED, next_hop_mtu: 1400 },
        Message::TimeExceeded { code: time_exceeded::REASSEMBLY },
        Message::ParameterProblem { code: 0, pointer: 20 },
        Message::Redirect { code: 1, gateway: [10, 0, 0, 1] },
        Message::SourceQuench,
        Message::Other { kind: 13, code: 0, rest: [1, 2, 3, 4] },
    ];

    #[test]
    fn round_trip_and_checksum() {
        for message in ALL {
            let mut bytes = [0x77; 13];
            message.emit(&mut bytes);
            assert_eq!(Message::parse(&bytes), Ok(message));
            assert_eq!(bytes[8..], [0x77; 5]);
            assert_eq!(message.is_error(), is_error_type(bytes[0]));
            for at in 0..bytes.len() {
                let mut wrong = bytes;
                wrong[at] ^= 1;
                let error = Error::Checksum { protocol: PROTOCOL };
                assert_eq!(Message::parse(&wrong), Err(error));
            }
        }
    }

    #[test]
    fn layout() {
        // An echo request as Linux's ping writes it: type, code, checksum, identifier, sequence.
        let mut bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0xab];
        Message::EchoRequest { id: 0x0102, seq: 0x0304 }.emit(&mut bytes);
        assert_eq!(bytes, [8, 0, 0x48, 0xf9, 1, 2, 3, 4, 0xab]);
    }

    #[test]
    fn every_truncation_is_told() {
        let mut bytes = [0; 8];
        ALL[0].emit(&mut bytes);
        for len in 0..8 {
            let error = Error::Truncated { protocol: PROTOCOL, needed: 8, found: len };
            assert_eq!(Message::parse(&bytes[..len]), Err(error));
        }
    }
}
