//! Two interfaces joined in the process, for tests and for measuring what lies above: what goes into one
//! comes out of the other, in order, as it was sent: super-frames and unfinished checksums too, where the
//! configuration lets them through. A full queue drops and counts, as a network does.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::arena::Arena;
use super::intake::{self, Receiver, Summing};
use super::{Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, Split, TxPacket};
use crate::{Waker, wake};

/// Packets that a thread of its own takes at a time.
const RECEIVED: usize = 64;

/// What the pair is like.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What packets begin with.
    pub link: Link,
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Checksums may be left to the interface, and the other side gets them unfinished.
    pub checksum: bool,
    /// TCP and UDP super-frames may be sent, and the other side gets them whole. Needs `checksum`.
    pub segmentation: bool,
    /// Packets that wait before more are dropped.
    pub queue_packets: usize,
    /// Packets that one `receive` takes.
    pub batch_packets: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            link: Link::Ethernet,
            mtu: 1500,
            checksum: false,
            segmentation: false,
            queue_packets: 4096,
            batch_packets: 64,
        }
    }
}

/// Two interfaces, each with an address of its own where there is Ethernet.
///
/// # Errors
/// No descriptor is left.
pub fn pair(config: Config) -> io::Result<(Memory, Memory)> {
    let directions = [OneWay::new()?, OneWay::new()?];
    let end = |own: usize| {
        let link_bytes = if config.link == Link::Ethernet { 14 } else { 0 };
        Ok::<_, io::Error>(Memory {
            inward: directions[own].clone(),
            outward: directions[1 - own].clone(),
            batch: Vec::with_capacity(config.batch_packets),
            cut: None,
            config,
            capabilities: Capabilities {
                name: "memory",
                link: config.link,
                mac: (config.link == Link::Ethernet).then_some([2, 0, 0, 0, 0, own as u8 + 1]),
                mtu: config.mtu,
                checksum: config.checksum,
                tcp_segmentation: config.segmentation && config.checksum,
                udp_segmentation: config.segmentation && config.checksum,
                receive_offload: config.segmentation,
                max_packet_bytes: link_bytes
                    + if config.segmentation { 65_535 } else { config.mtu },
                notes: Vec::new(),
            },
            waker: Waker::new()?,
            is_received: false,
        })
    };
    Ok((end(0)?, end(1)?))
}

/// One direction.
#[derive(Clone)]
struct OneWay {
    queue: Arc<Mutex<Queue>>,
    /// Readable as long as the queue is not empty.
    filled: Waker,
}

#[derive(Default)]
struct Queue {
    packets: VecDeque<Packet>,
    /// Buffers that were emptied, to be filled again.
    spare: Vec<Vec<u8>>,
    dropped: u64,
}

struct Packet {
    bytes: Vec<u8>,
    checksum: Checksum,
    segmentation: Segmentation,
}

impl OneWay {
    fn new() -> io::Result<OneWay> {
        Ok(OneWay { queue: Arc::default(), filled: Waker::new()? })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of two interfaces whose packets stay in the process.
pub struct Memory {
    inward: OneWay,
    outward: OneWay,
    batch: Vec<Packet>,
    /// Bytes of the head of a packet that was cut.
    cut: Option<usize>,
    config: Config,
    capabilities: Capabilities,
    waker: Waker,
    /// Another thread receives.
    is_received: bool,
}

/// What another thread receives by.
struct Receiving(OneWay);

impl Receiver for Receiving {
    fn batch(&self) -> Arena {
        Arena::new(RECEIVED, false)
    }

    fn receive(&mut self, into: &mut Arena, summing: &dyn Summing) -> io::Result<()> {
        let mut queue = self.0.lock();
        while into.has_room()
            && let Some(Packet { bytes, checksum, segmentation }) = queue.packets.pop_front()
        {
            into.push(&RxPacket { bytes: &bytes, checksum, segmentation }, summing);
            queue.spare.push(bytes);
        }
        if into.len() > 0 && queue.packets.is_empty() {
            self.0.filled.drain();
        }
        Ok(())
    }

    fn wait(&mut self, waker: &Waker) -> io::Result<()> {
        wake::wait(self.0.filled.as_fd(), waker, None, false).map(|_| ())
    }
}

impl Memory {
    /// Takes packets off the queue, `most` of them; those before go back.
    fn take(&mut self, most: usize) -> usize {
        let mut queue = self.inward.lock();
        queue.spare.extend(self.batch.drain(..).map(|packet| packet.bytes));
        let most = if self.is_received { 0 } else { most };
        let count = queue.packets.len().min(most);
        self.batch.extend(queue.packets.drain(..count));
        self.cut = None;
        if count > 0 && queue.packets.is_empty() {
            self.inward.filled.drain();
        }
        count
    }
}

impl Interface for Memory {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        let mut queue = self.outward.lock();
        let was_empty = queue.packets.is_empty();
        for packet in packets {
            packet.admit(&self.capabilities)?;
            if queue.packets.len() >= self.config.queue_packets {
                queue.dropped += 1;
                continue;
            }
            let mut bytes = queue.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(packet.header);
            packet.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
            let (checksum, segmentation) = (packet.checksum, packet.segmentation);
            queue.packets.push_back(Packet { bytes, checksum, segmentation });
        }
        if was_empty && !queue.packets.is_empty() {
            self.outward.filled.wake();
        }
        Ok(packets.len())
    }

    fn receive(&mut self) -> io::Result<usize> {
        Ok(self.take(self.config.batch_packets))
    }

    fn receiver(&mut self) -> io::Result<Box<dyn Receiver>> {
        if std::mem::replace(&mut self.is_received, true) {
            return Err(intake::taken());
        }
        Ok(Box::new(Receiving(self.inward.clone())))
    }

    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        if self.take(1) == 0 {
            return Ok(Split::Nothing);
        }
        let bytes = &mut self.batch[0].bytes;
        let (len, head_len) = (bytes.len(), head_len.min(bytes.len()));
        let mut behind = &mut bytes[head_len..];
        for part in memory {
            let (placed, rest) = behind.split_at_mut(part.len().min(behind.len()));
            part[..placed.len()].copy_from_slice(placed);
            // They are in one place only, as with a device that cuts.
            placed.fill(0);
            behind = rest;
        }
        self.cut = Some(head_len);
        Ok(Split::Packet { len })
    }

    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        if let (Some(at), Some(packet)) = (self.cut.take(), self.batch.first_mut()) {
            let mut behind = &mut packet.bytes[at..];
            for part in memory {
                let (placed, rest) = behind.split_at_mut(part.len().min(behind.len()));
                placed.copy_from_slice(&part[..placed.len()]);
                behind = rest;
            }
        }
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        let Packet { bytes, checksum, segmentation } = &self.batch[index];
        let bytes = &bytes[..self.cut.unwrap_or(bytes.len())];
        RxPacket { bytes, checksum: *checksum, segmentation: *segmentation }
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        if want_write {
            return Ok(true);
        }
        wake::wait(self.inward.filled.as_fd(), &self.waker, timeout, false)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inward.filled.as_fd())
    }

    fn queue_packets(&self) -> usize {
        self.config.queue_packets
    }

    /// Packets for this side that found the queue full.
    fn dropped(&self) -> u64 {
        self.inward.lock().dropped
    }
}
