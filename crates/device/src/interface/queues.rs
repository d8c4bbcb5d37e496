//! All queues of an interface as one: packets of our flows come by whichever queue the card or the kernel chose
//! for them, and leave by the first.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;

use super::flows::Flows;
use super::xdp::Xdp;
use super::{Capabilities, Change, Interface, RxPacket, TxPacket};
use crate::Waker;

/// The queues of one interface, under one program.
pub struct Queues {
    /// At least one.
    queues: Vec<Xdp>,
    capabilities: Capabilities,
    /// Of the last `receive`: the queue of each packet, and which of it.
    taken: Vec<(u32, u32)>,
    /// Ready when one of the queues is.
    ready: OwnedFd,
    /// It is ready, too, when the first queue can be written to.
    wants_write: bool,
}

impl Queues {
    /// Makes one of them.
    ///
    /// # Errors
    /// `InvalidInput` for none at all; what the kernel says.
    pub fn new(mut queues: Vec<Xdp>) -> io::Result<Queues> {
        let Some((first, others)) = queues.split_first_mut() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no queue"));
        };
        // They would hear the same.
        others.iter_mut().for_each(Xdp::stop_watching);
        let mut capabilities = first.capabilities().clone();
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for queue in &queues {
            let fd = queue.socket();
            epoll::add(&ready, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        capabilities.notes[0] += &format!(" to {}", queues.len() - 1);
        let taken = Vec::with_capacity(queues.len() * super::xdp::BATCH_PACKETS);
        Ok(Queues { queues, capabilities, taken, ready, wants_write: false })
    }
}

impl Interface for Queues {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.queues[0].transmit(packets)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let Queues { queues, taken, .. } = self;
        taken.clear();
        let mut failed = None;
        for (queue, number) in queues.iter_mut().zip(0..) {
            match queue.receive() {
                Ok(count) => taken.extend((0..count as u32).map(|packet| (number, packet))),
                Err(e) => failed = Some(e),
            }
        }
        match failed {
            Some(e) if taken.is_empty() => Err(e),
            _ => Ok(taken.len()),
        }
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        let (queue, packet) = self.taken[index];
        self.queues[queue as usize].packet(packet as usize)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let Queues { queues, ready, wants_write, .. } = self;
        let (first, others) = queues.split_first_mut().expect("at least one");
        if want_write != *wants_write {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, want_write);
            epoll::modify(&*ready, first.socket(), epoll::EventData::new_u64(0), flags)?;
            *wants_write = want_write;
        }
        let woken = first.wait_on(ready.as_fd(), timeout)?;
        others.iter().try_for_each(Xdp::check)?;
        Ok(woken)
    }

    fn waker(&self) -> Waker {
        self.queues[0].waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        // The program is one.
        self.queues[0].steer(flows)
    }

    fn poll_change(&mut self) -> Option<Change> {
        let first = &mut self.queues[0];
        let change = first.poll_change();
        let now = first.capabilities();
        (self.capabilities.mtu, self.capabilities.max_packet_bytes) =
            (now.mtu, now.max_packet_bytes);
        change
    }

    fn dropped(&self) -> u64 {
        self.queues.iter().map(Interface::dropped).sum()
    }

    fn queue_packets(&self) -> usize {
        self.queues.iter().map(Interface::queue_packets).sum()
    }
}
