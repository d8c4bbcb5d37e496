//! What is shown to a capture of an interface ([`Watch`]).

use fusewire_device::capture::Direction;
use fusewire_device::interface::{RxPacket, TxPacket};

use crate::watch::{Watch, Words};

impl Watch {
    /// Whether there is a capture.
    pub fn is_watching(&self) -> bool {
        self.feed.is_some()
    }

    /// A packet came, and the stack is done with it.
    #[inline]
    pub fn received(&mut self, packet: &RxPacket<'_>) {
        if self.feed.is_some() {
            self.show(packet);
        }
    }

    #[cold]
    fn show(&mut self, packet: &RxPacket<'_>) {
        let words = std::mem::take(&mut self.words);
        if let Some(feed) = &mut self.feed {
            let bytes = std::iter::once(packet.bytes);
            feed.packet(self.now, Direction::In, words, packet.checksum, bytes);
        }
    }

    /// The interface has taken these packets.
    #[inline]
    pub fn sent(&mut self, packets: &[TxPacket<'_>], words: impl Fn(usize) -> Words) {
        if let Some(feed) = &mut self.feed {
            for (at, packet) in packets.iter().enumerate() {
                let payload = packet.payload.iter().map(|piece| &piece[..]);
                let bytes = std::iter::once(packet.header).chain(payload);
                feed.packet(self.now, Direction::Out, words(at), packet.checksum, bytes);
            }
            self.flush();
        }
    }
}
