//! Devices in one process, for tests: a network of mailboxes.
//!
//! It behaves as UDP does: a frame for a full mailbox is dropped and counted, one for an address that
//! nobody has is told as unreachable. Nothing is lost otherwise and order is kept.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::frame::Events;
use crate::{Capabilities, Device, Ecn, Event, RxBatch, TxFrame, Waker, wake};

/// How large mailboxes and frames are.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Payload bytes that a mailbox holds before frames for it are dropped.
    pub mailbox_bytes: usize,
    /// The largest frame; larger ones are told as too big. A batch's slots must be able to hold it.
    pub max_datagram: usize,
    /// Neighbours of equal length come as one super-packet, as with `UDP_GRO`.
    pub coalesce: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { mailbox_bytes: 1 << 20, max_datagram: 65_507, coalesce: true }
    }
}

/// Joins memory devices by their addresses. Clones are the same network.
#[derive(Clone, Default)]
pub struct Network {
    mailboxes: Arc<Mutex<HashMap<SocketAddr, Arc<Mailbox>>>>,
    config: Config,
}

struct Mailbox {
    queue: Mutex<Queue>,
    /// Readable as long as the queue is not empty.
    filled: Waker,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Queued>,
    /// Buffers that were emptied, to be filled again.
    spare: Vec<Vec<u8>>,
    bytes: usize,
    dropped: u64,
}

struct Queued {
    from: SocketAddr,
    ecn: Ecn,
    bytes: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// An empty network.
    pub fn new(config: Config) -> Self {
        Network { mailboxes: Arc::default(), config }
    }

    /// A device with this address; it leaves the network when dropped.
    ///
    /// # Errors
    /// `AddrInUse`, or no descriptor is left.
    pub fn attach(&self, addr: SocketAddr) -> io::Result<Memory> {
        let mailbox = Arc::new(Mailbox { queue: Mutex::default(), filled: Waker::new()? });
        let waker = Waker::new()?;
        let mut mailboxes = lock(&self.mailboxes);
        if mailboxes.contains_key(&addr) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        mailboxes.insert(addr, mailbox.clone());
        let caps = Capabilities {
            name: "memory",
            max_datagram: self.config.max_datagram,
            segmentation_offload: true,
            receive_offload: self.config.coalesce,
            is_whole_path: true,
            max_batch_bytes: self.config.max_datagram,
            receive_buffer_bytes: self.config.mailbox_bytes,
            notes: Vec::new(),
        };
        Ok(Memory {
            local: addr,
            mailbox,
            network: self.clone(),
            caps,
            events: Events::default(),
            waker,
        })
    }
}

/// Two devices on a network of their own: `192.0.2.1:1` and `192.0.2.2:2`.
///
/// # Errors
/// No descriptor is left.
pub fn pair(config: Config) -> io::Result<(Memory, Memory)> {
    let network = Network::new(config);
    Ok((network.attach(([192, 0, 2, 1], 1).into())?, network.attach(([192, 0, 2, 2], 2).into())?))
}

/// A device whose frames stay in the process.
pub struct Memory {
    local: SocketAddr,
    mailbox: Arc<Mailbox>,
    network: Network,
    caps: Capabilities,
    events: Events,
    waker: Waker,
}

impl Memory {
    /// Frames for this device that were dropped because its mailbox was full.
    pub fn dropped(&self) -> u64 {
        lock(&self.mailbox.queue).dropped
    }

    fn send(&mut self, frame: &TxFrame<'_>) {
        if frame.len() > self.network.config.max_datagram {
            self.events.push(Event::TooBig { peer: frame.peer, len: frame.len() });
            return;
        }
        let mailbox = lock(&self.network.mailboxes).get(&frame.peer).cloned();
        let Some(mailbox) = mailbox else {
            self.events.push(Event::Unreachable { peer: frame.peer, is_closed: false });
            return;
        };
        let mut queue = lock(&mailbox.queue);
        if queue.bytes + frame.len() > self.network.config.mailbox_bytes {
            queue.dropped += 1;
            return;
        }
        let mut bytes = queue.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame.header);
        bytes.extend_from_slice(frame.payload);
        queue.bytes += bytes.len();
        queue.frames.push_back(Queued { from: self.local, ecn: frame.ecn, bytes });
        if queue.frames.len() == 1 {
            mailbox.filled.wake();
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        lock(&self.network.mailboxes).remove(&self.local);
    }
}

impl Device for Memory {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        frames.iter().filter(|frame| !frame.is_empty()).for_each(|frame| self.send(frame));
        Ok(frames.len())
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        batch.clear();
        let mut queue = lock(&self.mailbox.queue);
        while let Some(first) = queue.frames.front() {
            let coalesce = self.network.config.coalesce;
            if first.bytes.len() > batch.slot_bytes() {
                queue.dropped += 1;
            } else if !batch.push_frame(first.from, first.ecn, &first.bytes, coalesce) {
                break;
            }
            if let Some(frame) = queue.frames.pop_front() {
                queue.bytes -= frame.bytes.len();
                queue.spare.push(frame.bytes);
            }
        }
        if queue.frames.is_empty() {
            self.mailbox.filled.drain();
        }
        Ok(batch.len())
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        if want_write {
            return Ok(true);
        }
        wake::wait(self.mailbox.filled.as_fd(), &self.waker, timeout, false)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mailbox.filled.as_fd())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
}
