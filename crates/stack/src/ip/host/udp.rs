//! The UDP handle.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_kernels::stage::AnyStage;

use super::wait::Attempt;
use super::{Host, Way};
use crate::ip::config::{Marking, SocketId};
use crate::ip::stack::Stack;
use crate::ip::udp::{Messages, Received};

/// A socket for messages. Dropping it closes it.
pub struct UdpSocket {
    host: Host,
    id: SocketId,
    timeout: Mutex<Option<Duration>>,
}

impl UdpSocket {
    /// A socket at `local`.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`].
    pub fn bind(host: &Host, local: SocketAddr) -> io::Result<UdpSocket> {
        let id = host.with(|stack, _| stack.udp_bind(local))??;
        Ok(UdpSocket { host: host.clone(), id, timeout: Mutex::default() })
    }

    /// The name of the socket, for the stack's own calls.
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.host.shared.lock().stack.local_addr(self.id)?)
    }

    /// Takes messages from `remote` alone from now on, and sends to it what names nobody.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        Ok(self.host.shared.lock().stack.udp_connect(self.id, Some(remote))?)
    }

    /// Takes what is sent to `group` too.
    ///
    /// # Errors
    /// As [`Stack::udp_join`].
    pub fn join(&self, group: IpAddr) -> io::Result<()> {
        self.host.with(|stack, now| stack.udp_join(now, self.id, group))??;
        Ok(())
    }

    /// Undoes [`UdpSocket::join`].
    ///
    /// # Errors
    /// The socket is gone.
    pub fn leave(&self, group: IpAddr) -> io::Result<()> {
        self.host.with(|stack, now| stack.udp_leave(now, self.id, group))??;
        Ok(())
    }

    /// What the IP headers of its packets say from now on: differentiated services, ECN, hops.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_marking(&self, marking: Marking) -> io::Result<()> {
        Ok(self.host.with(|stack, _| stack.set_marking(self.id, marking))??)
    }

    /// How long receiving waits; `None`: for as long as it takes.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        *self.timeout.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = timeout;
    }

    fn timeout(&self) -> Option<Duration> {
        *self.timeout.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    // ---- sending

    fn attempt_send(
        &self,
        stack: &mut Stack,
        now: Instant,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> Attempt<usize> {
        Ok(stack.udp_send(now, self.id, bytes, to)??.then_some(bytes.len()))
    }

    fn send_to_or(&self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        let shared = &self.host.shared;
        if let Some(most) = shared.config.udp_gather {
            let now = shared.clock.now();
            let mut inner = shared.lock();
            inner.check()?;
            if inner.stack.udp_gather(now, self.id, bytes, to, most)?? {
                inner.schedule(now);
                return Ok(bytes.len());
            }
        }
        shared.block_on(self.id, Way::Write, None, |stack, now| {
            self.attempt_send(stack, now, bytes, to)
        })
    }

    /// Sends one message. With [`HostConfig::udp_gather`](super::HostConfig::udp_gather) it may wait for
    /// others to leave with it.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.send_to_or(bytes, Some(to))
    }

    /// Sends one message to whom it is connected.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_to_or(bytes, None)
    }

    /// Sends messages of `message_len` bytes each that lie one after the other, in super-frames where the
    /// interface takes them; returns how many. `None`: to whom it is connected.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub fn send_batch(
        &self,
        bytes: &[u8],
        message_len: usize,
        to: Option<SocketAddr>,
    ) -> io::Result<usize> {
        let shared = &self.host.shared;
        let (mut at, mut sent) = (0, 0);
        loop {
            let left = &bytes[at..];
            let count = shared.block_on(self.id, Way::Write, None, |stack, now| {
                let count = stack.udp_send_batch(now, self.id, left, message_len, to)??;
                Ok((count > 0).then_some(count))
            })?;
            sent += count;
            at = (at + count * message_len).min(bytes.len());
            if at == bytes.len() {
                return Ok(sent);
            }
        }
    }

    /// Sends one message of which `pipeline` makes the bytes on the wire.
    ///
    /// # Errors
    /// As [`Stack::udp_send_with`].
    pub fn send_with<S: AnyStage>(
        &self,
        pipeline: &S,
        message: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let shared = &self.host.shared;
        shared.block_on(self.id, Way::Write, None, |stack, now| {
            Ok(stack.udp_send_with(now, self.id, pipeline, message, to)??.then_some(()))
        })
    }

    // ---- receiving

    /// The next message. Of one that is longer than `out` the rest is lost.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_from(&self, out: &mut [u8]) -> io::Result<Received> {
        let shared = &self.host.shared;
        // What waits already needs no clock.
        if let Some(received) = shared.lock().stack.udp_recv(self.id, out)? {
            return Ok(received);
        }
        shared.block_on(self.id, Way::Read, self.timeout(), |stack, _| {
            Ok(stack.udp_recv(self.id, out)?)
        })
    }

    /// Shows every message that is there to `view`, a super-frame at a time, where they lie; waits until
    /// there are some. Returns how many. `view` must not call this host.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_batch(&self, mut view: impl FnMut(Messages<'_>)) -> io::Result<usize> {
        let shared = &self.host.shared;
        shared.receive_on(self.id, self.timeout(), |stack, now| {
            let count = stack.udp_recv_batch(now, self.id, &mut view)??;
            Ok((count > 0).then_some(count))
        })
    }

    /// Runs `pipeline` over every message that is there, on its way into `memory`; see
    /// [`Stack::udp_recv_with`]. Waits until there are some; returns the bytes used.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_with<S: AnyStage>(
        &self,
        pipeline: &S,
        memory: &mut [u8],
        mut told: impl FnMut(SocketAddr, Range<usize>),
    ) -> io::Result<usize> {
        let shared = &self.host.shared;
        shared.receive_on(self.id, self.timeout(), |stack, now| {
            let mut count = 0;
            let filled =
                stack.udp_recv_with(now, self.id, pipeline, memory, |from, range| {
                    count += 1;
                    told(from, range);
                })??;
            Ok((count > 0).then_some(filled))
        })
    }

    /// The next message, when there is one. One task at a time may poll so: the last one is woken.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        let shared = &self.host.shared;
        shared.poll_on(context, self.id, Way::Read, |stack, _| Ok(stack.udp_recv(self.id, out)?))
    }

    /// The next message. Any number of tasks may wait; dropped before its end, it has taken nothing.
    ///
    /// # Errors
    /// What ICMP said, once.
    pub async fn recv_from_async(&self, out: &mut [u8]) -> io::Result<Received> {
        let shared = &self.host.shared;
        shared.wait(self.id, Way::Read, |stack, _| Ok(stack.udp_recv(self.id, out)?)).await
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub async fn send_to_async(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        let shared = &self.host.shared;
        let attempt = |stack: &mut Stack, now| self.attempt_send(stack, now, bytes, Some(to));
        shared.wait(self.id, Way::Write, attempt).await
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UdpSocket").field(&self.id).finish()
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        // A stack whose interface is gone has nobody to tell.
        let _ = self.host.with(|stack, now| stack.close(now, self.id));
    }
}
