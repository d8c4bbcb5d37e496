//! ICMP (RFC 792), with the next hop's MTU (RFC 1191, section 4), and ICMPv6 (RFC 4443): two numberings of the same
//! messages. [`crate::icmpv6`] has codes of the latter; the bodies of neighbour discovery are [`crate::ndp`]'s, those of
//! multicast listeners [`crate::groups`]'s.
//!
//! The checksum of ICMPv6 covers a pseudo-header, too. Where its sum is given the message is ICMPv6's, else ICMP's.

use fusewire_base::Sum;

use crate::Error;

/// Length of the header of every message read and written here, in bytes.
pub const HEADER_LEN: usize = 8;
/// ICMP's protocol number in an IPv4 header.
pub const NUMBER: u8 = 1;

/// Numbers of types.
struct Kinds {
    unreachable: u8,
    time_exceeded: u8,
    parameter_problem: u8,
    echo_request: u8,
    echo_reply: u8,
}

const V4: Kinds = Kinds {
    unreachable: 3,
    time_exceeded: 11,
    parameter_problem: 12,
    echo_request: 8,
    echo_reply: 0,
};
const V6: Kinds = Kinds {
    unreachable: 1,
    time_exceeded: 3,
    parameter_problem: 4,
    echo_request: 128,
    echo_reply: 129,
};
const TOO_BIG_V6: u8 = 2;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;

/// ICMP's codes of "destination unreachable" (RFC 792; RFC 1122, section 3.2.2.1; RFC 1812, section 5.2.7.1).
pub mod unreachable {
    /// Protocol unreachable.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and DF set.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
}

/// Codes of "time exceeded", of both.
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
        /// See [`mod@unreachable`] and [`crate::icmpv6::unreachable`].
        code: u8,
    },
    /// Packet too big, or fragmentation needed and DF set; the packet's beginning follows.
    TooBig {
        /// The next hop's MTU in bytes; ICMP's has 16 bits, and is 0 from a router that does not know RFC 1191.
        mtu: u32,
    },
    /// Time exceeded; the packet's beginning follows.
    TimeExceeded {
        /// See [`time_exceeded`].
        code: u8,
    },
    /// Parameter problem; the packet's beginning follows.
    ParameterProblem {
        /// ICMP: 0: the pointer says where; 1: a required option is missing. ICMPv6: see
        /// [`crate::icmpv6::parameter_problem`].
        code: u8,
        /// The octet where the problem lies; ICMP's has 8 bits.
        pointer: u32,
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
    /// Reads the header of the message that `bytes` are, and verifies the checksum over all of them, and over ICMPv6's
    /// pseudo-header.
    ///
    /// # Errors
    /// `Truncated`, `Checksum`.
    pub fn parse(pseudo_header: Option<Sum>, bytes: &[u8]) -> Result<Message, Error> {
        let is_v6 = pseudo_header.is_some();
        let (protocol, kinds) = if is_v6 { ("icmpv6", V6) } else { ("icmp", V4) };
        let Some(&[kind, code, _, _, a, b, c, d]) = bytes.first_chunk::<HEADER_LEN>() else {
            let found = bytes.len();
            return Err(Error::Truncated { protocol, needed: HEADER_LEN, found });
        };
        if !(pseudo_header.unwrap_or_default() + Sum::of(bytes)).verifies() {
            return Err(Error::Checksum { protocol });
        }
        let (id, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let word = u32::from_be_bytes([a, b, c, d]);
        let is_too_big = match is_v6 {
            false => (kind, code) == (kinds.unreachable, unreachable::FRAGMENTATION_NEEDED),
            // The code is ignored by the receiver (RFC 4443, section 3.2).
            true => kind == TOO_BIG_V6,
        };
        Ok(match kind {
            _ if is_too_big => Message::TooBig { mtu: if is_v6 { word } else { seq.into() } },
            _ if kind == kinds.unreachable => Message::Unreachable { code },
            _ if kind == kinds.time_exceeded => Message::TimeExceeded { code },
            _ if kind == kinds.parameter_problem => {
                Message::ParameterProblem { code, pointer: if is_v6 { word } else { a.into() } }
            }
            _ if kind == kinds.echo_request && code == 0 => Message::EchoRequest { id, seq },
            _ if kind == kinds.echo_reply && code == 0 => Message::EchoReply { id, seq },
            _ => Message::Other { kind, code, rest: [a, b, c, d] },
        })
    }

    /// Writes the header in front of the payload that already lies in `out` behind it, and the
    /// checksum over both and ICMPv6's pseudo-header.
    ///
    /// # Panics
    /// When `out`, which is the whole message, is shorter than [`HEADER_LEN`].
    pub fn emit(&self, pseudo_header: Option<Sum>, out: &mut [u8]) {
        let is_v6 = pseudo_header.is_some();
        let kinds = if is_v6 { V6 } else { V4 };
        let two = |a: u16, b: u16| {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Message::EchoRequest { id, seq } => (kinds.echo_request, 0, two(id, seq)),
            Message::EchoReply { id, seq } => (kinds.echo_reply, 0, two(id, seq)),
            Message::Unreachable { code } => (kinds.unreachable, code, [0; 4]),
            Message::TooBig { mtu } if is_v6 => (TOO_BIG_V6, 0, mtu.to_be_bytes()),
            Message::TooBig { mtu } => {
                (kinds.unreachable, unreachable::FRAGMENTATION_NEEDED, two(0, mtu as u16))
            }
            Message::TimeExceeded { code } => (kinds.time_exceeded, code, [0; 4]),
            Message::ParameterProblem { code, pointer } => {
                let pointer = if is_v6 { pointer } else { pointer << 24 };
                (kinds.parameter_problem, code, pointer.to_be_bytes())
            }
            Message::Other { kind, code, rest } => (kind, code, rest),
        };
        out[..4].copy_from_slice(&[kind, code, 0, 0]);
        out[4..8].copy_from_slice(&rest);
        emit_checksum(pseudo_header.unwrap_or_default(), out);
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

/// Whether an ICMP message of this type, of which only a quotation is at hand, is an error message: never answered with
/// another (RFC 1122, section 3.2.2).
pub const fn is_error_type(kind: u8) -> bool {
    kind == V4.unreachable
        || kind == V4.time_exceeded
        || kind == V4.parameter_problem
        || matches!(kind, SOURCE_QUENCH | REDIRECT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmpv6;

    const ALL: [Message; 7] = [
        Message::EchoRequest { id: 0x1234, seq: 7 },
        Message::EchoReply { id: 0x1234, seq: 7 },
        Message::Unreachable { code: unreachable::PORT },
        Message::TooBig { mtu: 1400 },
        Message::TimeExceeded { code: time_exceeded::REASSEMBLY },
        Message::ParameterProblem { code: 0, pointer: 20 },
        Message::Other { kind: 135, code: 0, rest: [1, 2, 3, 4] },
    ];

    #[test]
    fn round_trip_and_checksum() {
        for pseudo in [None, Some(Sum::from_folded(0x5a5a))] {
            for (at, message) in ALL.into_iter().enumerate() {
                let mut bytes = [0x77; 13];
                message.emit(pseudo, &mut bytes);
                assert_eq!(Message::parse(pseudo, &bytes), Ok(message));
                assert_eq!(bytes[8..], [0x77; 5]);
                let is_error = match pseudo {
                    None => is_error_type(bytes[0]),
                    Some(_) => icmpv6::is_error_type(bytes[0]),
                };
                assert_eq!(is_error, (2..6).contains(&at), "{message:?}");
                for at in 0..bytes.len() {
                    let mut wrong = bytes;
                    wrong[at] ^= 1;
                    let error = Message::parse(pseudo, &wrong);
                    assert!(matches!(error, Err(Error::Checksum { .. })));
                }
            }
        }
        assert!(is_error_type(SOURCE_QUENCH) && is_error_type(REDIRECT));
    }

    #[test]
    fn layout() {
        // An echo request as Linux's ping writes it: type, code, checksum, identifier, sequence.
        let mut bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0xab];
        Message::EchoRequest { id: 0x0102, seq: 0x0304 }.emit(None, &mut bytes);
        assert_eq!(bytes, [8, 0, 0x48, 0xf9, 1, 2, 3, 4, 0xab]);
        let rest = |message: Message, pseudo| {
            let mut bytes = [0; 8];
            message.emit(pseudo, &mut bytes);
            (bytes[0], bytes[1], u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
        };
        let v6 = Some(Sum::ZERO);
        assert_eq!([None, v6].map(|pseudo| rest(ALL[3], pseudo)), [(3, 4, 1400), (2, 0, 1400)]);
        assert_eq!([None, v6].map(|pseudo| rest(ALL[5], pseudo)), [(12, 0, 20 << 24), (4, 0, 20)]);
    }

    #[test]
    fn every_truncation_is_told() {
        for (pseudo, protocol) in [(None, "icmp"), (Some(Sum::ZERO), "icmpv6")] {
            let mut bytes = [0; 8];
            ALL[0].emit(pseudo, &mut bytes);
            for len in 0..8 {
                let error = Error::Truncated { protocol, needed: 8, found: len };
                assert_eq!(Message::parse(pseudo, &bytes[..len]), Err(error));
            }
        }
    }
}
