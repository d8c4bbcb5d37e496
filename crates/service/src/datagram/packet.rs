//! Datagrams as they travel, and what is in their records. `docs/service.md`, section Datagrams.
//!
//! ```text
//!  datagram   id (4) ─ packet ─ packet …              the first is new, one behind it is a copy
//!  packet     len (2) ─ number (4) ─ record (len)     records.md, section 12
//!  body       kind (1) index (1) count (1) 0 (1) ─ adu (4) ─ sent (4) ─ path (4) ─ payload
//! ```
//! `kind` is a lane's number; with the highest bit set a repair of that lane's ADU, whose payload is [`Repair`]'s; and 127 a report of
//! arrivals, whose payload is [`wire::feedback`](fusewire_wire::feedback)'s. `sent` is the sender's clock in units of 100 µs. `path`
//! numbers the datagrams that reports tell of: not those with reports.
//!
//! [`Repair`]: crate::fec::Repair

use fusewire_base::Instant;
use fusewire_session::{Marshal, Sealing};

/// Bytes of the session's id.
pub const ID_LEN: usize = 4;
/// Bytes in front of a record: its length, and its number.
pub const FRAME_LEN: usize = 2 + NUMBER_LEN;
/// Of that, what is protected with the record: its number.
pub const NUMBER_LEN: usize = 4;
/// Bytes of a body before its payload.
pub const HEADER_LEN: usize = 16;
/// What may lie around a datagram on its way: headers of UDP and IPv6.
pub const AROUND_MAX: usize = 48;
/// Where it is IPv4: those of UDP and IPv4.
pub const AROUND_IPV4: usize = 28;

const REPAIR: u8 = 0x80;
const REPORT: u8 = 127;
/// Nanoseconds of a unit of `sent`.
const UNIT: u64 = 100_000;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of an ADU of this lane.
    Piece(u8),
    /// A repair of one.
    Repair(u8),
    /// A report.
    Report,
}

/// In front of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// Of a piece: its place among so many, from 0.
    pub index: u8,
    pub count: u8,
    pub adu: u32,
    pub sent: u32,
    pub path: u32,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_LEN] {
        let kind = match self.kind {
            Kind::Piece(lane) => lane,
            Kind::Repair(lane) => lane | REPAIR,
            Kind::Report => REPORT,
        };
        let mut bytes = [0; HEADER_LEN];
        bytes[..3].copy_from_slice(&[kind, self.index, self.count]);
        for (place, word) in
            bytes[4..].as_chunks_mut::<4>().0.iter_mut().zip([self.adu, self.sent, self.path])
        {
            *place = word.to_be_bytes();
        }
        bytes
    }

    /// Of a body, and its payload; `None` where it is none.
    pub fn parse(body: &[u8]) -> Option<(Header, &[u8])> {
        let (header, payload) = body.split_first_chunk::<HEADER_LEN>()?;
        let [kind, index, count, 0, rest @ ..] = *header else { return None };
        let kind = match kind {
            REPORT => Kind::Report,
            kind if kind & REPAIR != 0 => Kind::Repair(kind & !REPAIR),
            kind => Kind::Piece(kind),
        };
        let word =
            |at: usize| u32::from_be_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let is_piece = !matches!(kind, Kind::Piece(_)) || index < count;
        let header = Header { kind, index, count, adu: word(0), sent: word(4), path: word(8) };
        is_piece.then_some((header, payload))
    }
}

/// A body: a header, and a payload in up to two pieces.
pub struct Body<'a> {
    pub header: Header,
    pub payload: [&'a [u8]; 2],
}

impl Marshal for Body<'_> {
    fn marshalled_len(&self) -> usize {
        HEADER_LEN + self.payload[0].len() + self.payload[1].len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&self.header.to_bytes());
        to.put(self.payload[0]);
        to.put(self.payload[1]);
    }
}

/// Packets of a datagram with this id, each as number and bytes that begin with the number; what is cut short ends it.
pub fn packets(id: u32, datagram: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let (head, mut rest) = datagram.split_first_chunk::<ID_LEN>().unwrap_or((&[0; 4], &[]));
    if u32::from_be_bytes(*head) != id {
        rest = &[];
    }
    core::iter::from_fn(move || {
        let (len, behind) = rest.split_first_chunk::<2>()?;
        let len = NUMBER_LEN + usize::from(u16::from_be_bytes(*len));
        let (packet, behind) = behind.split_at_checked(len)?;
        rest = behind;
        let number = packet.first_chunk::<NUMBER_LEN>()?;
        Some((u32::from_be_bytes(*number), packet))
    })
}

/// An instant of the sender's clock as it travels.
pub fn units(now: Instant) -> u32 {
    (now.as_ns() / UNIT) as u32
}

/// The sender's clock, which runs on over the 119 hours that 32 bits hold, where something comes in each half of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    last: Option<(u32, u64)>,
}

impl Clock {
    /// When that was, by the sender's clock: its origin is such that nothing lies before it.
    pub fn read(&mut self, sent: u32) -> Instant {
        let (last, units) = self.last.unwrap_or((sent, 1 << 32));
        let units = units.saturating_add_signed((sent.wrapping_sub(last) as i32).into());
        self.last = Some((sent, units));
        Instant::from_ns(units.saturating_mul(UNIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_nothing() {
        for kind in
            [Kind::Piece(0), Kind::Piece(126), Kind::Repair(0), Kind::Repair(126), Kind::Report]
        {
            let header = Header { kind, index: 1, count: 2, adu: 3, sent: 4, path: 5 };
            let bytes = header.to_bytes();
            assert_eq!(Header::parse(&bytes), Some((header, &[][..])));
            assert!((0..HEADER_LEN).all(|n| Header::parse(&bytes[..n]).is_none()));
            let reserved = {
                let mut b = bytes;
                b[3] = 1;
                b
            };
            assert_eq!(Header::parse(&reserved), None);
        }
        let piece = Header { kind: Kind::Piece(1), index: 2, count: 2, adu: 0, sent: 0, path: 0 };
        assert_eq!(Header::parse(&piece.to_bytes()), None, "the third of two");
        let datagram = [0, 0, 0, 9, 0, 2, 0, 0, 0, 7, 1, 2, 0, 1, 0, 0, 0, 5, 3];
        let of = |id, bytes| packets(id, bytes).map(|(n, p)| (n, p.len())).collect::<Vec<_>>();
        assert_eq!(of(9, &datagram), [(7, 6), (5, 5)]);
        assert_eq!(of(8, &datagram), []);
        for n in 0..datagram.len() {
            assert_eq!(of(9, &datagram[..n]).len(), usize::from(n >= 12), "{n}");
        }
    }

    #[test]
    fn a_clock_runs_on_over_its_32_bits() {
        let mut clock = Clock::default();
        let first = clock.read(u32::MAX - 5);
        assert_eq!(clock.read(4) - first, core::time::Duration::from_millis(1));
        assert!(clock.read(u32::MAX - 9) < first);
    }
}
