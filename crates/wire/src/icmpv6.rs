//! ICMPv6 (RFC 4443). The bodies of neighbour discovery are [`crate::ndp`]'s, those of multicast
//! listeners [`crate::groups`]'s.

use fusewire_base::Sum;

use crate::Error;

/// Length of the header of errors and echoes, in bytes.
pub const HEADER_LEN: usize = 8;
/// Next header's number in an IPv6 header.
pub const NUMBER: u8 = 58;

const PROTOCOL: &str = "icmpv6";
const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// Codes of "destination unreachable" (RFC 4443, section 3.1).
pub mod unreachable {
    /// No route to destination.
    pub const NO_ROUTE: u8 = 0;
    /// Communication administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond scope of source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// Address unreachable.
    pub const ADDRESS: u8 = 3;
    /// Port unreachable.
    pub const PORT: u8 = 4;
}

/// Codes of "time exceeded" (RFC 4443, section 3.3).
pub mod time_exceeded {
    /// Hop limit exceeded in transit.
    pub const HOP_LIMIT: u8 = 0;
    /// Fragment reassembly time exceeded.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of "parameter problem" (RFC 4443, section 3.4; RFC 7112, section 5).
pub mod parameter_problem {
    /// Erroneous header field.
    pub const FIELD: u8 = 0;
    /// Unrecognised next header type.
    pub const NEXT_HEADER: u8 = 1;
    /// Unrecognised option.
    pub const OPTION: u8 = 2;
    /// The first fragment has an incomplete header chain.
    pub const INCOMPLETE_CHAIN: u8 = 3;
}

/// A message, without its payload: what follows the header of [`HEADER_LEN`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Destination unreachable; the packet's beginning follows.
    Unreachable {
        /// See [`mod@unreachable`].
        code: u8,
    },
    /// Packet too big; the packet's beginning follows.
    TooBig {
        /// The next hop's MTU.
        mtu: u32,
    },
    /// Time exceeded; the packet's beginning follows.
    TimeExceeded {
        /// See [`time_exceeded`].
        code: u8,
    },
    /// Parameter problem; the packet's beginning follows.
    ParameterProblem {
        /// See [`parameter_problem`].
        code: u8,
        /// The octet where the problem lies.
        pointer: u32,
    },
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
    /// Reads the header of the message that `bytes` are, and verifies the checksum over them and
    /// the pseudo-header.
    ///
    /// # Errors
    /// `Truncated`, `Checksum`.
    pub fn parse(pseudo_header: Sum, bytes: &[u8]) -> Result<Message, Error> {
        let Some(&[kind, code, _, _, a, b, c, d]) = bytes.first_chunk::<HEADER_LEN>() else {
            let found = bytes.len();
            return Err(Error::Truncated { protocol: PROTOCOL, needed: HEADER_LEN, found });
        };
        if !(pseudo_header + Sum::of(bytes)).verifies() {
            return Err(Error::Checksum { protocol: PROTOCOL });
        }
        let (id, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let word = u32::from_be_bytes([a, b, c, d]);
        Ok(match (kind, code) {
            (UNREACHABLE, _) => Message::Unreachable { code },
            // The code is ignored by the receiver (RFC 4443, section 3.2).
            (TOO_BIG, _) => Message::TooBig { mtu: word },
            (TIME_EXCEEDED, _) => Message::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Message::ParameterProblem { code, pointer: word },
            (ECHO_REQUEST, 0) => Message::EchoRequest { id, seq },
            (ECHO_REPLY, 0) => Message::EchoReply { id, seq },
            _ => Message::Other { kind, code, rest: [a, b, c, d] },
        })
    }

    /// Writes the header in front of the payload that already lies in `out` behind it, and the
    /// checksum over both and the pseudo-header.
    ///
    /// # Panics
    /// When `out`, which is the whole message, is shorter than [`HEADER_LEN`].
    pub fn emit(&self, pseudo_header: Sum, out: &mut [u8]) {
        let two = |a: u16, b: u16| {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Message::Unreachable { code } => (UNREACHABLE, code, [0; 4]),
            Message::TooBig { mtu } => (TOO_BIG, 0, mtu.to_be_bytes()),
            Message::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Message::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, pointer.to_be_bytes())
            }
            Message::EchoRequest { id, seq } => (ECHO_REQUEST, 0, two(id, seq)),
            Message::EchoReply { id, seq } => (ECHO_REPLY, 0, two(id, seq)),
            Message::Other { kind, code, rest } => (kind, code, rest),
        };
        out[..4].copy_from_slice(&[kind, code, 0, 0]);
        out[4..8].copy_from_slice(&rest);
        emit_checksum(pseudo_header, out);
    }
}

/// Writes the checksum of the message that `out` is.
///
/// # Panics
/// When `out` is shorter than 4 bytes.
pub fn emit_checksum(pseudo_header: Sum, out: &mut [u8]) {
    out[2..4].fill(0);
    let checksum = (pseudo_header + Sum::of(out)).checksum();
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Whether messages of this type are errors (RFC 4443, section 2.1). A redirect is none, but is treated
/// like one (section 2.4).
pub const fn is_error_type(kind: u8) -> bool {
    kind < 128
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Message; 7] = [
        Message::Unreachable { code: unreachable::PORT },
        Message::TooBig { mtu: 1280 },
        Message::TimeExceeded { code: time_exceeded::REASSEMBLY },
        Message::ParameterProblem { code: parameter_problem::OPTION, pointer: 42 },
        Message::EchoRequest { id: 0x1234, seq: 7 },
        Message::EchoReply { id: 0x1234, seq: 7 },
        Message::Other { kind: 135, code: 0, rest: [0; 4] },
    ];

    #[test]
    fn round_trip_and_checksum() {
        let pseudo = Sum::from_folded(0x5a5a);
        for message in ALL {
            let mut bytes = [0x77; 13];
            message.emit(pseudo, &mut bytes);
            assert_eq!(Message::parse(pseudo, &bytes), Ok(message));
            assert_eq!(is_error_type(bytes[0]), bytes[0] < 5);
            for at in 0..bytes.len() {
                let mut wrong = bytes;
                wrong[at] ^= 1;
                let error = Error::Checksum { protocol: PROTOCOL };
                assert_eq!(Message::parse(pseudo, &wrong), Err(error));
            }
            assert!(Message::parse(Sum::ZERO, &bytes).is_err());
        }
    }

    #[test]
    fn every_truncation_is_told() {
        let mut bytes = [0; 8];
        ALL[4].emit(Sum::ZERO, &mut bytes);
        for len in 0..8 {
            let error = Error::Truncated { protocol: PROTOCOL, needed: 8, found: len };
            assert_eq!(Message::parse(Sum::ZERO, &bytes[..len]), Err(error));
        }
    }
}
