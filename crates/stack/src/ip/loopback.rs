//! Packets to ourselves, between when they are sent and when they come back: whole super-frames, with checksums that were
//! never made (as partial ones are), in one of two buffers of fixed size. The other is read meanwhile.
//!
//! Who sends them takes them too, as the kernel does: [`Stack::transmit`](super::Stack::transmit) goes on until nothing is on
//! its way any more, so that what was written is there to be read when the call returns.

use fusewire_device::interface::{Checksum, RxPacket, Segmentation, TxPacket};

/// Bytes that wait; a packet more is refused, as a device does that is full.
const BYTES: usize = 1 << 20;
/// Packets that wait.
const PACKETS: usize = 1024;

struct Looped {
    /// Behind its last byte.
    end: usize,
    checksum: Checksum,
    segmentation: Segmentation,
}

/// Packets one after the other.
pub struct Batch {
    bytes: Vec<u8>,
    packets: Vec<Looped>,
}

impl Batch {
    fn new() -> Batch {
        // Not touched before it is used.
        Batch { bytes: Vec::with_capacity(BYTES), packets: Vec::with_capacity(PACKETS) }
    }

    /// False when there is no room.
    fn push(&mut self, packet: &TxPacket<'_>) -> bool {
        let len =
            packet.header.len() + packet.payload.iter().map(|piece| piece.len()).sum::<usize>();
        if self.bytes.len() + len > BYTES || self.packets.len() == PACKETS {
            return false;
        }
        self.bytes.extend_from_slice(packet.header);
        packet.payload.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.packets.push(Looped {
            end: self.bytes.len(),
            checksum: packet.checksum,
            segmentation: packet.segmentation,
        });
        true
    }

    /// Each packet, as a device would give it.
    pub fn iter(&self) -> impl Iterator<Item = RxPacket<'_>> {
        let mut start = 0;
        self.packets.iter().map(move |packet| {
            let bytes = &self.bytes[std::mem::replace(&mut start, packet.end)..packet.end];
            RxPacket { bytes, checksum: packet.checksum, segmentation: packet.segmentation }
        })
    }
}

/// What is on its way back.
pub struct Loopback {
    waiting: Batch,
    /// `None` while it is read.
    spare: Option<Batch>,
}

impl Loopback {
    pub fn new() -> Loopback {
        Loopback { waiting: Batch::new(), spare: Some(Batch::new()) }
    }

    /// Takes packets in order; returns how many there was room for.
    pub fn push(&mut self, packets: &[TxPacket<'_>]) -> usize {
        packets.iter().take_while(|packet| self.waiting.push(packet)).count()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.packets.is_empty()
    }

    /// All that waits; it is given back when it was read.
    pub fn take(&mut self) -> Option<Batch> {
        if self.is_empty() {
            return None;
        }
        let spare = self.spare.take()?;
        Some(std::mem::replace(&mut self.waiting, spare))
    }

    pub fn give_back(&mut self, mut batch: Batch) {
        batch.bytes.clear();
        batch.packets.clear();
        self.spare = Some(batch);
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    #[test]
    fn packets_come_back_in_order_and_a_full_one_refuses() {
        let mut loopback = Loopback::new();
        let payload = [7; 60_000];
        let pieces = [IoSlice::new(&payload[..1]), IoSlice::new(&payload[1..])];
        let long = TxPacket { header: b"long", payload: &pieces, ..TxPacket::default() };
        let short = TxPacket { header: b"short", ..TxPacket::default() };
        assert_eq!(loopback.push(&[long, short]), 2);
        let batch = loopback.take().unwrap();
        let lens: Vec<_> = batch.iter().map(|packet| packet.bytes.len()).collect();
        assert_eq!(lens, [60_004, 5]);
        assert_eq!(batch.iter().nth(1).unwrap().bytes, b"short");
        let taken = loopback.push(&[long; 64]);
        assert_eq!(taken, BYTES / 60_004, "while another is read");
        assert!(loopback.take().is_none(), "one at a time");
        loopback.give_back(batch);
        assert_eq!(loopback.take().unwrap().iter().count(), taken);
        let mut loopback = Loopback::new();
        assert_eq!(loopback.push(&vec![short; 2 * PACKETS]), PACKETS);
    }
}
