//! Memory that packets are read into by calls of their own, each whole, or cut in two on its way: its head here, and what
//! follows in memory of somebody else's.
//!
//! ```text
//!   whole   [virtio header][packet ...........]
//!   cut     [virtio header][head]                 and  [memory ....][memory ....]
//! ```

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::intake::Summing;
use super::vnet::{self, HEADER_BYTES};
use super::{Checksum, RxPacket, Segmentation, Split};

/// Most bytes of a packet: IPv4 and IPv6 end at 64 KiB, and Ethernet and two tags come before them.
pub(super) const PACKET_BYTES: usize = 65_536 + 64;
/// Packets of that length that it has room for: they fit into the second-level cache.
pub(super) const PACKETS: usize = 4;
/// Packets lie so that what follows an Ethernet header is aligned to 16 bytes.
const ALIGN: usize = 64;

/// Bytes of its memory, where each packet is the longest and the next begins behind it as it has to lie.
const ARENA_BYTES: usize = PACKETS * (PACKET_BYTES.next_multiple_of(ALIGN) + ALIGN) + ALIGN;

/// The packets of a batch.
pub struct Arena {
    bytes: Vec<u8>,
    /// Bytes of a virtio header before each packet, or 0.
    before: usize,
    batch: Vec<Slot>,
    /// Where the next packet goes.
    at: usize,
    /// Bytes of the packet that was cut, before it was.
    uncut_len: usize,
    /// Packets that came and were none, as their virtio header contradicts them or they could not be read.
    pub(super) malformed: u64,
}

/// A packet.
struct Slot {
    at: usize,
    len: usize,
    checksum: Checksum,
    segmentation: Segmentation,
}

impl Arena {
    /// For batches of so many packets, with a virtio header before each if there is one.
    pub(super) fn new(packets: usize, has_vnet: bool) -> Arena {
        Arena {
            bytes: vec![0; ARENA_BYTES],
            before: if has_vnet { HEADER_BYTES } else { 0 },
            batch: Vec::with_capacity(packets),
            at: ALIGN - 14,
            uncut_len: 0,
            malformed: 0,
        }
    }

    /// Forgets the batch.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        (self.at, self.uncut_len) = (ALIGN - 14, 0);
    }

    /// Packets of the batch.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// There is room for another one.
    pub fn has_room(&self) -> bool {
        self.batch.len() < self.batch.capacity() && self.at + PACKET_BYTES <= self.bytes.len()
    }

    /// Copies a packet, which becomes the last of the batch, and sums it on the way where nobody has looked at its checksum.
    ///
    /// # Panics
    /// When there is no room.
    pub fn push(&mut self, packet: &RxPacket<'_>, summing: &dyn Summing) {
        let len = packet.bytes.len().min(PACKET_BYTES);
        let (from, to) = (&packet.bytes[..len], &mut self.bytes[self.at..self.at + len]);
        let checksum = match packet.checksum {
            Checksum::InPlace => Checksum::Summed(summing.copy(from, to)),
            known => {
                to.copy_from_slice(from);
                known
            }
        };
        self.lay(Slot { at: self.at, len, checksum, segmentation: packet.segmentation });
    }

    /// Sums those packets at whose checksums nobody has looked.
    pub(super) fn sum(&mut self, summing: &dyn Summing) {
        let unseen = |slot: &&mut Slot| slot.checksum == Checksum::InPlace;
        for slot in self.batch.iter_mut().filter(unseen) {
            slot.checksum = Checksum::Summed(summing.sum(&self.bytes[slot.at..slot.at + slot.len]));
        }
    }

    /// A packet that lies where the next one goes is the last of the batch.
    fn lay(&mut self, slot: Slot) {
        self.at = (slot.at + slot.len).next_multiple_of(ALIGN) + ALIGN - 14;
        self.batch.push(slot);
    }

    /// Reads a packet, which becomes the last of the batch unless it is malformed; false when nothing waits.
    ///
    /// # Panics
    /// When there is no room: there always is for [`PACKETS`].
    pub(super) fn read(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let room = &mut self.bytes[self.at - self.before..self.at + PACKET_BYTES];
        let len = loop {
            match rustix::io::read(fd, &mut *room) {
                Ok(len) => break len,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        };
        let header = &room[..self.before.min(len)];
        match described(header, len, self.before) {
            Some((len, checksum, segmentation)) => {
                self.lay(Slot { at: self.at, len, checksum, segmentation });
            }
            None => self.malformed += 1,
        }
        Ok(true)
    }

    /// As [`Interface::receive_split`](super::Interface::receive_split), of the next packet of `fd`.
    pub(super) fn read_split(
        &mut self,
        fd: BorrowedFd<'_>,
        head_len: usize,
        [first, second]: [&mut [u8]; 2],
    ) -> io::Result<Split> {
        self.clear();
        let (at, head_len) = (self.at, head_len.min(PACKET_BYTES));
        // A packet longer than all: what is over lies where it would, were the packet whole.
        let (front, behind) = self.bytes.split_at_mut(at + head_len);
        let room = PACKET_BYTES - head_len;
        let first_len = first.len().min(room);
        let len = first_len + second.len().min(room - first_len);
        let (first, second) = (&mut first[..first_len], &mut second[..len - first_len]);
        let before = &mut front[at - self.before..];
        let mut pieces = [before, first, second, &mut behind[len..room]].map(IoSliceMut::new);
        let len = loop {
            match rustix::io::readv(fd, &mut pieces) {
                Ok(len) => break len,
                Err(Errno::AGAIN) => return Ok(Split::Nothing),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        };
        let header = &front[at - self.before..at];
        let Some((len, checksum, segmentation)) = described(header, len, self.before) else {
            self.malformed += 1;
            return Ok(Split::Nothing);
        };
        self.uncut_len = len;
        self.batch.push(Slot { at, len: len.min(head_len), checksum, segmentation });
        Ok(Split::Packet { len })
    }

    /// As [`Interface::rejoin`](super::Interface::rejoin).
    pub(super) fn rejoin(&mut self, memory: [&[u8]; 2]) {
        let Some(slot) = self.batch.first_mut() else { return };
        let (mut at, end) = (slot.at + slot.len, slot.at + self.uncut_len);
        for part in memory {
            let len = end.saturating_sub(at).min(part.len());
            self.bytes[at..at + len].copy_from_slice(&part[..len]);
            at += len;
        }
        slot.len = slot.len.max(self.uncut_len);
    }

    /// A packet of the batch.
    pub fn packet(&self, index: usize) -> RxPacket<'_> {
        let Slot { at, len, checksum, segmentation } = self.batch[index];
        RxPacket { bytes: &self.bytes[at..at + len], checksum, segmentation }
    }
}

/// The length of a packet of which `len` bytes were read, its virtio header included, and what that says of it.
fn described(header: &[u8], len: usize, before: usize) -> Option<(usize, Checksum, Segmentation)> {
    let len = len.checked_sub(before)?;
    if before == 0 {
        return Some((len, Checksum::InPlace, Segmentation::None));
    }
    vnet::describe(header, len).map(|(checksum, segmentation)| (len, checksum, segmentation))
}
