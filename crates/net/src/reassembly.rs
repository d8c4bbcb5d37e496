//! Datagrams put together from fragments (RFC 791, section 3.2; RFC 8200, section 4.5).
//!
//! ```text
//!   room for headers │ fragmentable part
//!   ─────────────────┼────────────▓▓▓▓▓▓▓▓▓▓▓▓▓────▓▓▓▓▓────
//!            ◀── IP ─┤ pieces, sorted, none overlapping another
//! ```
//! One block of memory for all, a place of 64 KiB each. The place's set follows from a keyed hash of the
//! sender, so that one sender cannot push out another's unless they share a set. A datagram whose pieces
//! overlap is dropped whole, and what still comes of it (RFC 5722); a piece that is there already is passed
//! over, if it is the same. A byte once stored is never written again.

use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;

use fusewire_base::Instant;

use crate::counters::Cause;
use crate::random::{Keyed, Purpose};

/// Places of one set.
const WAYS: usize = 16;
/// Pieces of one datagram that are kept: enough for 64 KiB over an MTU of 576.
const MAX_PIECES: usize = 128;
/// Longest fragmentable part.
pub const MAX_LEN: usize = 65_535;
/// Room in front for an IP header.
const ROOM: usize = 64;
const STRIDE: usize = ROOM + MAX_LEN + 1;

/// What fragments have in common (RFC 791: with the protocol; RFC 8200: without).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who sent them.
    pub source: IpAddr,
    /// Whom to.
    pub destination: IpAddr,
    /// Identification.
    pub identification: u32,
    /// IPv4 only; 0 over IPv6.
    pub protocol: u8,
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// What it has in common with others.
    pub key: Key,
    /// Where it begins in the datagram.
    pub offset: usize,
    /// Not the last.
    pub more: bool,
    /// Its bytes.
    pub data: &'a [u8],
    /// First header of the fragmentable part, as this fragment says.
    pub next_header: u8,
    /// Six bits of DSCP, two of ECN.
    pub traffic_class: u8,
    /// Hops that it could still have gone.
    pub hop_limit: u8,
}

/// A datagram that is whole: until the next fragment comes, it lies in [`Reassembly::memory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// First header of the fragmentable part, as the first fragment says.
    pub next_header: u8,
    /// DSCP of the first fragment; ECN of all (RFC 3168, section 5.3).
    pub traffic_class: u8,
    /// Hops that the first fragment could still have gone.
    pub hop_limit: u8,
    /// Where the fragmentable part lies; there is room for an IP header in front.
    pub place: Range<usize>,
}

/// A datagram that was not whole in time, of which there was the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Whose it was.
    pub key: Key,
    /// The first fragment's.
    pub whole: Whole,
}

#[derive(Clone, Copy, Debug)]
struct First {
    next_header: u8,
    traffic_class: u8,
    hop_limit: u8,
}

#[derive(Clone, Debug)]
struct Slot {
    key: Option<Key>,
    poisoned: bool,
    pieces: [(u16, u16); MAX_PIECES],
    count: usize,
    /// Sum of the pieces' lengths.
    have: usize,
    total: Option<usize>,
    first: Option<First>,
    /// A bit for each ECN codepoint that came.
    ecn: u8,
    until: Instant,
    touched: Instant,
}

/// Datagrams being put together.
#[derive(Debug)]
pub struct Reassembly {
    slots: Vec<Slot>,
    memory: Vec<u8>,
    keyed: Keyed,
    timeout: Duration,
    active: usize,
}

impl Reassembly {
    /// Room for `limit` datagrams, rounded up, each given up after `timeout`.
    pub fn new(limit: usize, timeout: Duration, keyed: Keyed) -> Reassembly {
        let limit = limit.max(1).next_multiple_of(WAYS);
        let slot = Slot {
            key: None,
            poisoned: false,
            pieces: [(0, 0); MAX_PIECES],
            count: 0,
            have: 0,
            total: None,
            first: None,
            ecn: 0,
            until: Instant::ZERO,
            touched: Instant::ZERO,
        };
        let memory = vec![0; limit * STRIDE];
        Reassembly { slots: vec![slot; limit], memory, keyed, timeout, active: 0 }
    }

    /// Where whole datagrams lie. Taken out while one is looked at, and put back.
    pub fn memory(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }

    /// Where whole datagrams lie.
    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// Takes a fragment; gives the datagram when that makes it whole. With a second cause: another datagram was
    /// dropped to make room.
    ///
    /// # Errors
    /// Why it was dropped, perhaps with all of its datagram.
    pub fn insert(
        &mut self,
        now: Instant,
        piece: &Piece<'_>,
    ) -> (Result<Option<Whole>, Cause>, Option<Cause>) {
        let end = piece.offset + piece.data.len();
        let cut = piece.more && !piece.data.len().is_multiple_of(8);
        if piece.data.is_empty() || cut || end > MAX_LEN {
            return (Err(Cause::FragmentMalformed), None);
        }
        let (at, evicted) = self.place(now, &piece.key);
        let result = self.store(now, at, piece, end);
        if matches!(result, Err(Cause::FragmentOverlap | Cause::FragmentMany)) {
            self.slots[at].poisoned = true;
        }
        if matches!(result, Ok(Some(_))) {
            self.release(at);
        }
        (result, evicted)
    }

    fn release(&mut self, at: usize) {
        self.active -= usize::from(self.slots[at].key.take().is_some());
    }

    /// The place of the datagram: its own, a free one, or that of the datagram of the set that waits
    /// longest for its next piece.
    fn place(&mut self, now: Instant, key: &Key) -> (usize, Option<Cause>) {
        let sets = (self.slots.len() / WAYS) as u64;
        let hash = self.keyed.hash(Purpose::Fragment, &(key.source, key.destination));
        let first = (hash % sets) as usize * WAYS;
        let set = first..first + WAYS;
        if let Some(at) = set.clone().find(|&at| self.slots[at].key.as_ref() == Some(key)) {
            return (at, None);
        }
        let free = set.clone().find(|&at| self.slots[at].key.is_none());
        let at = free.unwrap_or_else(|| {
            let rank = |&at: &usize| (!self.slots[at].poisoned, self.slots[at].touched);
            set.min_by_key(rank).unwrap_or(first)
        });
        self.active += usize::from(free.is_some());
        let slot = &mut self.slots[at];
        let evicted = (slot.key.is_some() && !slot.poisoned).then_some(Cause::FragmentEvicted);
        slot.key = Some(*key);
        (slot.poisoned, slot.count, slot.have, slot.ecn) = (false, 0, 0, 0);
        (slot.total, slot.first) = (None, None);
        (slot.until, slot.touched) = (now + self.timeout, now);
        (at, evicted)
    }

    fn store(
        &mut self,
        now: Instant,
        at: usize,
        piece: &Piece<'_>,
        end: usize,
    ) -> Result<Option<Whole>, Cause> {
        let slot = &mut self.slots[at];
        if slot.poisoned {
            return Err(Cause::FragmentOverlap);
        }
        slot.touched = now;
        let start = piece.offset;
        let base = at * STRIDE + ROOM;
        let have = &slot.pieces[..slot.count];
        let after = have.partition_point(|p| usize::from(p.0) < start);
        if let Some(&(s, e)) = have.get(after)
            && (usize::from(s), usize::from(e)) == (start, end)
        {
            let last = slot.total == Some(end);
            let same = self.memory[base + start..base + end] == *piece.data && last != piece.more;
            return Err(if same { Cause::FragmentDuplicate } else { Cause::FragmentOverlap });
        }
        let before = after.checked_sub(1).map(|n| usize::from(have[n].1));
        let next = have.get(after).map(|p| usize::from(p.0));
        if before.is_some_and(|e| e > start) || next.is_some_and(|s| s < end) {
            return Err(Cause::FragmentOverlap);
        }
        let furthest = have.last().map_or(0, |p| usize::from(p.1));
        let beyond = slot.total.is_some_and(|total| end > total || !piece.more);
        if beyond || !piece.more && furthest > end {
            return Err(Cause::FragmentOverlap);
        }
        if slot.count == MAX_PIECES {
            return Err(Cause::FragmentMany);
        }
        slot.pieces.copy_within(after..slot.count, after + 1);
        slot.pieces[after] = (start as u16, end as u16);
        slot.count += 1;
        slot.have += piece.data.len();
        slot.ecn |= 1 << (piece.traffic_class & 3);
        if !piece.more {
            slot.total = Some(end);
        }
        if start == 0 {
            slot.first = Some(First {
                next_header: piece.next_header,
                traffic_class: piece.traffic_class,
                hop_limit: piece.hop_limit,
            });
        }
        self.memory[base + start..base + end].copy_from_slice(piece.data);
        if slot.total != Some(slot.have) {
            return Ok(None);
        }
        let ecn = joined_ecn(slot.ecn).ok_or(Cause::FragmentOverlap)?;
        let whole = slot.whole(base, slot.have, ecn);
        Ok(whole)
    }

    /// The next datagram that is given up: with its beginning, when that came. Ask until there is none.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<(Option<Expired>, bool)> {
        if self.active == 0 {
            return None;
        }
        let at = self.slots.iter().position(|s| s.key.is_some() && s.until <= now)?;
        let key = self.slots[at].key;
        self.release(at);
        let slot = &self.slots[at];
        let counts = !slot.poisoned;
        let first_len = slot.pieces[..slot.count].first().map_or(0, |p| usize::from(p.1));
        let whole = slot.whole(at * STRIDE + ROOM, first_len, 0);
        let expired = whole.filter(|_| counts).zip(key);
        Some((expired.map(|(whole, key)| Expired { key, whole }), counts))
    }

    /// When a datagram is given up.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.active == 0 {
            return None;
        }
        self.slots.iter().filter(|s| s.key.is_some()).map(|s| s.until).min()
    }
}

impl Slot {
    fn whole(&self, base: usize, len: usize, ecn: u8) -> Option<Whole> {
        let First { next_header, traffic_class, hop_limit } = self.first?;
        let traffic_class = traffic_class & !3 | ecn;
        Some(Whole { next_header, traffic_class, hop_limit, place: base..base + len })
    }
}

/// What the whole bears, when its fragments bore these codepoints (RFC 3168, section 5.3): `None` for
/// "congestion" beside "not capable".
fn joined_ecn(seen: u8) -> Option<u8> {
    const NOT_ECT: u8 = 1;
    const CE: u8 = 1 << 3;
    match seen {
        _ if seen & CE != 0 && seen & NOT_ECT != 0 => None,
        _ if seen & CE != 0 => Some(3),
        _ if seen & NOT_ECT != 0 => Some(0),
        0b010 => Some(1),
        _ => Some(2),
    }
}
