//! A datagram as it lies in a ring of a lease: records one behind the other, each at a multiple of [`UNIT`] bytes, so that its
//! head lies in one piece.
//!
//! ```text
//!   0  4  bytes of the message
//!   4  4  1: something goes beside it, which lies in 32 bytes behind this; 0: nothing does
//!   8  24 address of who sent it, or of whom it is for (zeros: whom the socket is connected to; of a record without a message
//!         that the outboard has laid down: an error waits, for which it is asked)
//!  32  24 what goes beside it (`protocol::Heading`), 8 of zero
//!  32 or 64 … the message, which may go on at the ring's beginning, and anything up to the next multiple of 32
//! ```

use crate::protocol::{
    ANCILLARY_LEN, Heading, Malformed, emit_address, emit_ancillary, parse_address, parse_ancillary,
};
use crate::region::{Slot, Way, places};

/// Bytes before a message, where nothing goes beside it.
pub const HEAD_LEN: usize = UNIT;
/// What a record's length is a multiple of.
pub const UNIT: usize = 32;
/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 65_535;

/// What is said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its bytes, at most [`MESSAGE_MAX`].
    pub len: usize,
    /// Who sent it, or whom it is for, and what goes beside it.
    pub heading: Heading,
}

/// A head as it is laid down.
#[derive(Clone, Copy)]
pub struct Laid {
    bytes: [u8; HEAD_LEN + UNIT],
    len: usize,
}

impl std::ops::Deref for Laid {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Laid {
    /// The same before another message.
    pub fn set_len(&mut self, message_len: usize) {
        self.bytes[..4].copy_from_slice(&(message_len as u32).to_le_bytes());
    }
}

impl Head {
    /// Reads one; `second` gives what lies behind the first 32 bytes, where there is more of it.
    ///
    /// # Errors
    /// A message that is longer than any, an address that is none, bytes that belong to nothing.
    pub fn parse(
        first: &[u8; HEAD_LEN],
        second: impl FnOnce() -> [u8; UNIT],
    ) -> Result<Head, Malformed> {
        let [l0, l1, l2, l3, f0, f1, f2, f3, address @ ..] = *first;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let bad = |what, expected, found| Err(Malformed { what, expected, found });
        if len as usize > MESSAGE_MAX {
            return bad("a record's length", "at most 65535", u64::from(len));
        }
        let mut heading = Heading::from(parse_address(&address)?);
        match u32::from_le_bytes([f0, f1, f2, f3]) {
            0 => {}
            1 => {
                let [beside @ .., z0, z1, z2, z3, z4, z5, z6, z7] = second();
                let zero = u64::from_le_bytes([z0, z1, z2, z3, z4, z5, z6, z7]);
                if zero != 0 {
                    return bad("the end of a record's head", "0", zero);
                }
                heading.beside = parse_ancillary(&beside)?;
                if heading.beside == Default::default() {
                    return bad("what goes beside a record", "something", 0);
                }
            }
            other => return bad("a record's flags", "0 and 1", u64::from(other)),
        }
        Ok(Head { len: len as usize, heading })
    }

    /// Lays it down.
    pub fn emit(&self) -> Laid {
        debug_assert!(self.len <= MESSAGE_MAX);
        let mut laid = Laid { bytes: [0; HEAD_LEN + UNIT], len: self.head_len() };
        laid.set_len(self.len);
        laid.bytes[8..HEAD_LEN].copy_from_slice(&emit_address(self.heading.address));
        if laid.len > HEAD_LEN {
            laid.bytes[4] = 1;
            let beside = emit_ancillary(&self.heading.beside);
            laid.bytes[HEAD_LEN..][..ANCILLARY_LEN].copy_from_slice(&beside);
        }
        laid
    }

    /// Reads the one at `position` of a ring.
    ///
    /// # Errors
    /// As [`Head::parse`].
    pub fn read(slot: &Slot<'_>, way: Way, position: u64) -> Result<Head, Malformed> {
        // A unit lies in one piece, but where none begins.
        let unit = |position| {
            let mut unit = [0; UNIT];
            let [(at, len), _] = places(slot.index, way, position, UNIT);
            slot.rings.read(at, &mut unit[..len]);
            unit
        };
        Head::parse(&unit(position), || unit(position + HEAD_LEN as u64))
    }

    /// Bytes before its message.
    pub fn head_len(&self) -> usize {
        let is_plain = self.heading.beside == Default::default();
        if is_plain { HEAD_LEN } else { HEAD_LEN + UNIT }
    }

    /// Bytes of a ring that it takes with its message.
    pub fn len_in_ring(&self) -> u64 {
        (self.head_len() + self.len).next_multiple_of(UNIT) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_stack::ip::Ancillary;

    fn parse(laid: &[u8]) -> Result<Head, Malformed> {
        let second = || *laid.last_chunk().unwrap();
        Head::parse(laid.first_chunk().unwrap(), second)
    }

    #[test]
    fn a_head_is_what_was_laid_down() {
        let told = Ancillary { hop_limit: Some(1), ..Ancillary::default() };
        for (len, address) in [(0, None), (10, Some("10.0.0.1:53")), (65_535, Some("[fe80::1]:9"))]
        {
            for beside in [Ancillary::default(), told] {
                let address = address.map(|address| address.parse().unwrap());
                let head = Head { len, heading: Heading { address, beside } };
                assert_eq!(parse(&head.emit()), Ok(head));
            }
        }
        let taken = |len| Head { len, heading: Heading::default() }.len_in_ring();
        assert_eq!([0, 1, 32, 33].map(taken), [32, 64, 64, 96]);
        assert_eq!(
            Head { len: 1, heading: Heading { address: None, beside: told } }.len_in_ring(),
            96
        );
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let mut heading = Heading::from(Some("10.0.0.1:53".parse().unwrap()));
        let right = Head { len: 7, heading }.emit();
        // A length beyond any, flags, another version, a prefix, a scope of IPv4's, bytes behind its address.
        for (at, value) in [(2, 1), (3, 128), (4, 2), (7, 1), (8, 5), (9, 1), (12, 1), (31, 1)] {
            let mut wrong = right;
            wrong.bytes[at] = value;
            assert!(parse(&wrong).is_err(), "byte {at}");
        }
        let mut nothing = right;
        nothing.bytes[4] = 1;
        nothing.len = HEAD_LEN + UNIT;
        assert!(parse(&nothing).is_err());
        heading.beside.hop_limit = Some(9);
        let right = Head { len: 7, heading }.emit();
        for (at, value) in [(32, 128), (33, 1), (35, 1), (63, 1)] {
            let mut wrong = right;
            wrong.bytes[at] = value;
            assert!(parse(&wrong).is_err(), "byte {at}");
        }
    }
}
