//! Buffers that a device fills with received frames, reused so that they stay in the cache.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::slice::Chunks;

use fusewire_base::Lines;

use crate::Ecn;

/// Bytes in a slot: more than the largest datagram, a whole number of pages.
pub const SLOT_BYTES: usize = 1 << 16;

/// What a device says about a filled slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub peer: SocketAddr,
    /// Where the first frame begins in the slot's memory.
    pub start: usize,
    pub len: usize,
    pub segment_len: usize,
    pub ecn: Ecn,
}

impl Filled {
    pub const EMPTY: Filled = Filled {
        peer: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        start: 0,
        len: 0,
        segment_len: 1,
        ecn: Ecn::NotEct,
    };
}

/// A fixed number of slots, each of which holds one super-packet.
///
/// Invariant: `filled ≤ slots.len()`, and for each filled slot `1 ≤ segment_len`, `len ≤ slot_bytes`, and
/// `start + len` lies within its memory.
#[derive(Debug)]
pub struct RxBatch {
    slot_bytes: usize,
    pub(crate) memory: Box<[Lines]>,
    slots: Box<[Filled]>,
    filled: usize,
}

/// Frames of one peer that came together: all `segment_len` bytes long but the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct SuperPacket<'a> {
    /// Who sent them.
    pub peer: SocketAddr,
    /// Length of each frame but the last.
    pub segment_len: usize,
    /// The congestion bits of the IP header around them.
    pub ecn: Ecn,
    /// All frames, one after the other.
    pub bytes: &'a [u8],
}

impl<'a> SuperPacket<'a> {
    /// The frames, in the order of their arrival.
    #[inline]
    pub fn frames(&self) -> Chunks<'a, u8> {
        self.bytes.chunks(self.segment_len.max(1))
    }
}

impl RxBatch {
    /// A batch of `slots` super-packets of up to [`SLOT_BYTES`]. Four to eight stay in a second-level
    /// cache; see `examples/udp_rate.rs` for what the number costs.
    ///
    /// # Panics
    /// When `slots` is 0.
    pub fn new(slots: usize) -> Self {
        Self::with_slot_bytes(slots, SLOT_BYTES)
    }

    /// A batch for frames larger than a datagram can be.
    ///
    /// # Panics
    /// When one of the numbers is 0.
    pub fn with_slot_bytes(slots: usize, slot_bytes: usize) -> Self {
        assert!(slots > 0 && slot_bytes > 0, "a batch needs a slot with room");
        RxBatch {
            slot_bytes,
            memory: (0..slots).map(|_| Lines::new(slot_bytes)).collect(),
            slots: vec![Filled::EMPTY; slots].into_boxed_slice(),
            filled: 0,
        }
    }

    /// How many super-packets fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How long a super-packet can be.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// True when no frame of `len` bytes may be added any more, not even to the last super-packet.
    pub fn is_full_for(&self, len: usize) -> bool {
        let last = self.filled - usize::from(self.filled > 0);
        self.filled == self.slots.len() && self.slots[last].len + len > self.slot_bytes
    }

    /// Forgets all super-packets.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// The super-packets in the order of their arrival.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SuperPacket<'_>> {
        self.memory.iter().zip(&self.slots[..self.filled]).map(|(memory, slot)| SuperPacket {
            peer: slot.peer,
            segment_len: slot.segment_len,
            ecn: slot.ecn,
            bytes: &memory[slot.start..slot.start + slot.len],
        })
    }

    /// Adds a super-packet by copying it; false when the batch is full or `bytes` does not fit a slot.
    #[inline]
    pub fn push(&mut self, packet: SuperPacket<'_>) -> bool {
        let Some(slot) = self.free_slot() else { return false };
        let Some(room) = slot.get_mut(..packet.bytes.len()) else { return false };
        room.copy_from_slice(packet.bytes);
        self.fill(Filled {
            peer: packet.peer,
            start: 0,
            len: packet.bytes.len(),
            segment_len: packet.segment_len,
            ecn: packet.ecn,
        });
        true
    }

    /// Adds one frame: to the last super-packet, when `coalesce` and it continues it as `UDP_GRO`
    /// would, else as one of its own. False when there is no room.
    pub fn push_frame(&mut self, peer: SocketAddr, ecn: Ecn, bytes: &[u8], coalesce: bool) -> bool {
        if coalesce && let Some(at) = self.filled.checked_sub(1) {
            let last = &mut self.slots[at];
            let alike = last.peer == peer && last.ecn == ecn && bytes.len() <= last.segment_len;
            let whole = last.len > 0 && last.len.is_multiple_of(last.segment_len);
            let end = last.start + last.len;
            let room = self.memory[at].get_mut(end..end + bytes.len());
            if alike
                && whole
                && last.len + bytes.len() <= self.slot_bytes
                && !bytes.is_empty()
                && let Some(room) = room
            {
                room.copy_from_slice(bytes);
                last.len += bytes.len();
                return true;
            }
        }
        self.push(SuperPacket { peer, segment_len: bytes.len(), ecn, bytes })
    }

    /// The memory of the next slot.
    pub(crate) fn free_slot(&mut self) -> Option<&mut [u8]> {
        let room = self.slot_bytes;
        self.memory.get_mut(self.filled).map(|slot| &mut slot[..room])
    }

    /// The memory of each slot, for a device that fills several at once.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let room = self.slot_bytes;
        self.memory.iter_mut().map(move |slot| &mut slot[..room])
    }

    /// Takes the next slot as filled. One without a byte counts too, and has no frames.
    pub(crate) fn fill(&mut self, filled: Filled) {
        debug_assert!(filled.len <= self.slot_bytes && self.filled < self.slots.len());
        self.slots[self.filled] = Filled { segment_len: filled.segment_len.max(1), ..filled };
        self.filled += 1;
    }
}
