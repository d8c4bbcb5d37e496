//! A datagram as it lies in a ring of a lease: records one behind the other, each at a multiple of [`UNIT`] bytes, so that its
//! head lies in one piece.
//!
//! ```text
//!   0  4  bytes of the message
//!   4  4  zero
//!   8  24 address of who sent it, or of whom it is for (zeros: whom the socket is connected to)
//!  32  …  the message, which may go on at the ring's beginning, and anything up to the next multiple of 32
//! ```

use std::net::SocketAddr;

use crate::protocol::{ADDRESS_LEN, Malformed, emit_address, parse_address};

/// Bytes before a message.
pub const HEAD_LEN: usize = 8 + ADDRESS_LEN;
/// What a record's length is a multiple of.
pub const UNIT: usize = 32;
/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 65_535;

/// What is said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its bytes, at most [`MESSAGE_MAX`].
    pub len: usize,
    /// Who sent it, or whom it is for.
    pub address: Option<SocketAddr>,
}

/// Bytes of a ring that a message takes.
pub fn len_in_ring(message_len: usize) -> u64 {
    (HEAD_LEN + message_len).next_multiple_of(UNIT) as u64
}

impl Head {
    /// Reads one.
    ///
    /// # Errors
    /// A message that is longer than any, an address that is none, bytes that belong to nothing.
    pub fn parse(bytes: &[u8; HEAD_LEN]) -> Result<Head, Malformed> {
        let [l0, l1, l2, l3, z0, z1, z2, z3, address @ ..] = *bytes;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let bad = |what, expected, found| Err(Malformed { what, expected, found });
        if len as usize > MESSAGE_MAX {
            return bad("a record's length", "at most 65535", u64::from(len));
        }
        match u32::from_le_bytes([z0, z1, z2, z3]) {
            0 => Ok(Head { len: len as usize, address: parse_address(&address)? }),
            other => bad("a record's flags", "0", u64::from(other)),
        }
    }

    /// Lays it down.
    pub fn emit(&self) -> [u8; HEAD_LEN] {
        debug_assert!(self.len <= MESSAGE_MAX);
        let mut bytes = [0; HEAD_LEN];
        bytes[..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&emit_address(self.address));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_what_was_laid_down() {
        for (len, address) in [(0, None), (10, Some("10.0.0.1:53")), (65_535, Some("[fe80::1]:9"))]
        {
            let address = address.map(|address| address.parse().unwrap());
            let head = Head { len, address };
            assert_eq!(Head::parse(&head.emit()), Ok(head));
        }
        assert_eq!([0, 1, 32, 33].map(len_in_ring), [32, 64, 64, 96]);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let right = Head { len: 7, address: Some("10.0.0.1:53".parse().unwrap()) }.emit();
        // A length beyond any, flags, another version, a prefix, a scope of IPv4's, bytes behind its address.
        for (at, value) in [(2, 1), (3, 128), (4, 1), (7, 1), (8, 5), (9, 1), (12, 1), (31, 1)] {
            let mut wrong = right;
            wrong[at] = value;
            assert!(Head::parse(&wrong).is_err(), "byte {at}");
        }
    }
}
