//! XTP straight on IP over a stack that has other sockets, and that somebody else drives: what came waits in its socket's
//! queue until it is taken, which is one copy more than on an interface of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fusewire_device::{Capabilities, Device, Event, RxBatch, TxFrame, Waker, sleep};
use rustix::event::{PollFd, PollFlags};

use super::{Carrier, Fill, describe, failed, failure, sum_of};
use crate::clock::Clock;
use crate::ip::{self, SocketId};

/// All of XTP to and from one address of such a stack. Each call takes the stack's lock for itself.
pub struct Shared {
    stack: Arc<Mutex<ip::Stack>>,
    socket: SocketId,
    local: SocketAddr,
    clock: Clock,
    caps: Capabilities,
    /// The interface's MTU that `caps` were made for.
    mtu: usize,
    waker: Waker,
}

impl Shared {
    /// All of XTP of the address `local`. `stack` is what lies in `shared`: its lock is the caller's, and not taken. Its
    /// time is `clock`'s; `waker` wakes who drives it. The socket stays the stack's when this is dropped.
    ///
    /// # Errors
    /// As [`ip::Stack::xtp_bind`].
    pub fn over_ip(
        stack: &mut ip::Stack,
        shared: Arc<Mutex<ip::Stack>>,
        local: IpAddr,
        clock: Clock,
        waker: Waker,
    ) -> ip::Result<Shared> {
        let (socket, local) = (stack.xtp_bind(local)?, SocketAddr::new(local, 0));
        let (caps, mtu) = (described(stack, local), stack.capabilities().mtu);
        Ok(Shared { stack: shared, socket, local, clock, caps, mtu, waker })
    }

    /// The stack's name for the socket.
    pub fn socket(&self) -> SocketId {
        self.socket
    }
}

fn lock(stack: &Mutex<ip::Stack>) -> MutexGuard<'_, ip::Stack> {
    stack.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As on an interface of its own, with what fits into the socket's queue.
fn described(stack: &ip::Stack, local: SocketAddr) -> Capabilities {
    let caps = describe(stack, Carrier::Ip, local);
    let config = stack.config();
    let queued = config.udp_queue_entries.saturating_mul(caps.max_datagram);
    let receive_buffer_bytes = caps.receive_buffer_bytes.min(queued.min(config.udp_queue_bytes));
    Capabilities { receive_buffer_bytes, ..caps }
}

impl Device for Shared {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn named(&self, mut peer: SocketAddr) -> SocketAddr {
        peer.set_port(0);
        peer
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let (now, mut stack) = (self.clock.now(), lock(&self.stack));
        let level = stack.config().level;
        let sum = |frame: &TxFrame<'_>| sum_of(level, frame.header, frame.payload);
        let sent = stack.udp_send_frames(now, self.socket, frames, sum)?;
        // Questions for neighbours go at once.
        if stack.wants_transmit() {
            stack.transmit(now)?;
        }
        sent.map_err(failed)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let mut stack = lock(&self.stack);
        let mtu = stack.capabilities().mtu;
        if mtu != self.mtu {
            (self.caps, self.mtu) = (described(&stack, self.local), mtu);
        }
        batch.clear();
        let mut fill = Fill { batch, waits: false };
        stack.udp_take_queue(self.socket, &mut fill).map_err(failed)?;
        Ok(batch.len())
    }

    /// Until somebody wakes who drives the stack: he alone knows of all else.
    fn wait(&mut self, timeout: Option<Duration>, _want_write: bool) -> io::Result<bool> {
        let is_woken = sleep(&mut [PollFd::new(&self.waker, PollFlags::IN)], timeout)? > 0;
        self.waker.drain();
        Ok(is_woken)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        lock(&self.stack).udp_poll_failure(self.socket).map(failure)
    }
}
