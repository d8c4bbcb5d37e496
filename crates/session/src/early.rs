//! ADUs that go with the handshake: behind the client's Hello, each in a TLS record of its own, before the server's
//! Choice is known. `docs/records.md`, section 3.1.
//!
//! They are no early data of TLS's: the client has verified the server by then, and the server hears nothing of them
//! before it has verified the client.

use crate::record::HeaderProtection;
use core::ops::Range;
use fusewire_kernels::Swap;

/// The most bytes that all of them have together, as messages.
pub const EARLY_LEN_MAX: usize = 8 << 10;

const ADU: u8 = 4;
/// Type and length of the body.
const HEADER_LEN: usize = 5;

/// What a client has to say before it has been answered, as messages. By default nothing.
#[derive(Default)]
pub struct Early {
    messages: Vec<u8>,
    /// Where each of them ends, and the length of its body.
    ends: Vec<(usize, usize)>,
}

impl Early {
    /// Takes an ADU, in the machine's byte order, if there is room for it.
    pub fn push(
        &mut self,
        body: &[u8],
        element: Swap,
        protection: Option<HeaderProtection>,
    ) -> bool {
        let filled = protection.map_or(body.len(), |p| p.padded(body.len(), EARLY_LEN_MAX));
        let end = self.messages.len() + HEADER_LEN + filled;
        if end > EARLY_LEN_MAX || self.ends.len() >= usize::from(u8::MAX) {
            return false;
        }
        self.messages.push(ADU);
        self.messages.extend((body.len() as u32).to_be_bytes());
        let at = self.messages.len();
        self.messages.extend(body);
        swap(element, &mut self.messages[at..]);
        self.messages.resize(end, 0);
        self.ends.push((end, body.len()));
        true
    }

    /// How many there are.
    pub fn count(&self) -> u8 {
        self.ends.len() as u8
    }

    /// Each message.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges().map(|(message, _)| &self.messages[message])
    }

    /// The ADUs as they were given.
    pub fn into_bodies(self, element: Swap) -> Vec<Vec<u8>> {
        let body = |(message, len): (Range<usize>, usize)| {
            let mut body = self.messages[message][HEADER_LEN..][..len].to_vec();
            swap(element, &mut body);
            body
        };
        self.ranges().map(body).collect()
    }

    fn ranges(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.ends.iter().scan(0, |from, (end, len)| {
            let begin = core::mem::replace(from, *end);
            Some((begin..*end, *len))
        })
    }
}

/// The ADU of a message, of at most `body_len_max` bytes, in the machine's byte order. `None`: it is none.
pub fn parse(message: &[u8], body_len_max: u32, element: Swap) -> Option<Vec<u8>> {
    let (head, filled) = message.split_first_chunk::<HEADER_LEN>()?;
    let [kind, len @ ..] = *head;
    let len = u32::from_be_bytes(len);
    let (body, filling) = filled.split_at_checked(len as usize)?;
    if kind != ADU || len > body_len_max || filling.iter().any(|byte| *byte != 0) {
        return None;
    }
    let mut body = body.to_vec();
    swap(element, &mut body);
    Some(body)
}

/// Between the machine's byte order and big-endian; bytes behind the last whole element stay.
fn swap(element: Swap, bytes: &mut [u8]) {
    if cfg!(target_endian = "little") && element != Swap::None {
        bytes.chunks_exact_mut(element.bytes()).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(bodies: &[&[u8]], element: Swap, padding: Option<usize>) -> Early {
        let mut early = Early::default();
        let protection = padding.and_then(HeaderProtection::with_padding);
        assert!(bodies.iter().all(|body| early.push(body, element, protection)));
        early
    }

    #[test]
    fn what_is_said_is_heard_and_can_be_had_back() {
        let bodies = [&b"one"[..], b"", b"123456789", &[7; 300]];
        for element in [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64] {
            for padding in [None, Some(1), Some(64)] {
                let early = pushed(&bodies, element, padding);
                assert_eq!(early.count(), 4);
                let heard = early.messages().map(|m| parse(m, 300, element).unwrap());
                assert_eq!(heard.collect::<Vec<_>>(), bodies);
                let multiple = padding.unwrap_or(1);
                assert!(early.messages().all(|m| (m.len() - HEADER_LEN).is_multiple_of(multiple)));
                assert_eq!(early.into_bodies(element), bodies);
            }
        }
    }

    #[test]
    fn elements_are_big_endian_on_the_way() {
        let body = [&0x0102_0304u32.to_ne_bytes()[..], &[9]].concat();
        let early = pushed(&[&body], Swap::Bytes32, None);
        assert_eq!(early.messages().next().unwrap(), [4, 0, 0, 0, 5, 1, 2, 3, 4, 9]);
    }

    #[test]
    fn what_has_no_room_is_not_taken() {
        let mut early = Early::default();
        assert!(early.push(&[1; EARLY_LEN_MAX - 2 * HEADER_LEN - 1], Swap::None, None));
        assert!(!early.push(&[2; 2], Swap::None, None));
        assert!(early.push(&[3], Swap::None, None) && !early.push(&[], Swap::None, None));
        let mut many = Early::default();
        assert_eq!((0..300).filter(|_| many.push(&[], Swap::None, None)).count(), 255);
        let mut padded = Early::default();
        let to_1024 = HeaderProtection::with_padding(1024);
        assert_eq!((0..300).filter(|_| padded.push(&[1], Swap::None, to_1024)).count(), 7);
    }

    #[test]
    fn a_message_is_an_adu_by_its_type_its_length_and_its_filling() {
        let good = [4, 0, 0, 0, 2, b'a', b'b', 0];
        let parse = |message: &[u8]| parse(message, 2, Swap::None);
        assert_eq!(parse(&good).unwrap(), b"ab");
        assert!((0..7).all(|len| parse(&good[..len]).is_none()));
        for (at, byte) in [(0, 1), (0, 3), (4, 3), (4, 4), (1, 1), (7, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(parse(&bad), None, "byte {at} as {byte}");
        }
    }
}
