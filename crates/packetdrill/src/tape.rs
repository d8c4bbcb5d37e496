//! The interface under the stack: two queues in memory. Packets of scripts may be longer than the MTU, as
//! those are that a card has merged; what the stack sends is not.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fusewire_device::Waker;
use fusewire_device::interface::{
    Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, TxPacket,
};

/// Both queues, shared between the stack's side and the script's.
#[derive(Clone, Default)]
pub struct Queues(Arc<Mutex<Both>>);

#[derive(Default)]
struct Both {
    inward: VecDeque<Vec<u8>>,
    outward: VecDeque<Vec<u8>>,
}

impl Queues {
    fn with<T>(&self, f: impl FnOnce(&mut Both) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A packet for the stack.
    pub fn put(&self, packet: &[u8]) {
        self.with(|both| both.inward.push_back(packet.to_vec()));
    }

    /// A packet of the stack's.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.with(|both| both.outward.pop_front())
    }
}

/// The stack's side.
pub struct Tape {
    queues: Queues,
    current: Option<Vec<u8>>,
    capabilities: Capabilities,
    waker: Waker,
}

impl Tape {
    /// An interface that carries IP packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(mtu: usize, queues: Queues) -> io::Result<Tape> {
        let capabilities = Capabilities {
            name: "memory",
            link: Link::Ip,
            mac: None,
            mtu,
            checksum: false,
            tcp_segmentation: false,
            udp_segmentation: false,
            receive_offload: true,
            max_packet_bytes: 65_535,
            notes: Vec::new(),
        };
        Ok(Tape { queues, current: None, capabilities, waker: Waker::new()? })
    }
}

impl Interface for Tape {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        for packet in packets {
            let mut bytes = packet.header.to_vec();
            packet.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
            self.queues.with(|both| both.outward.push_back(bytes));
        }
        Ok(packets.len())
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.current = self.queues.with(|both| both.inward.pop_front());
        Ok(usize::from(self.current.is_some()))
    }

    fn packet(&self, _index: usize) -> RxPacket<'_> {
        // packetdrill gives right checksums, but for packets of which it says so.
        RxPacket {
            bytes: self.current.as_deref().unwrap_or_default(),
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        }
    }

    fn wait(&mut self, _timeout: Option<Duration>, _want_write: bool) -> io::Result<bool> {
        Ok(true)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
