//! The UDP handle.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Duration;

use fusewire_kernels::message::{Marshal, Unmarshal};
use fusewire_kernels::stage::AnyStage;
use fusewire_net::MembershipChange;

use super::inner::{Attempt, Inner};
use super::socket::{Socket, Timeouts};
use super::{Host, Interest};
use crate::ip::config::Error;
use crate::ip::stack::Stack;
use crate::ip::udp::{Messages, Received, Taker, Through, Viewer};

/// A socket for messages. Dropping it closes it.
#[derive(Debug)]
pub struct UdpSocket(pub(super) Socket);

impl UdpSocket {
    /// A socket at `local`.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`].
    pub fn bind(host: &Host, local: SocketAddr) -> io::Result<UdpSocket> {
        let id = host.with(|stack: &mut Stack, _| stack.udp_bind(local))??;
        Ok(UdpSocket(Socket::new(host, id)))
    }

    /// Takes messages from `remote` alone from now on, and sends to it what names nobody.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        self.look(|stack, id| stack.udp_connect(id, Some(remote)))
    }

    /// Changes from whom it takes what is sent to `group`.
    ///
    /// # Errors
    /// As [`Stack::udp_change_membership`].
    pub fn change_membership(&self, group: IpAddr, change: MembershipChange) -> io::Result<()> {
        self.with(|stack, now, id| stack.udp_change_membership(now, id, group, change))
    }

    /// How long receiving waits; `None`: for as long as it takes.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.0.set_timeouts(Timeouts { read: timeout, write: None });
    }

    // ---- sending

    fn attempt_send(
        &self,
        inner: &mut Inner,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> Attempt<usize> {
        let now = inner.now();
        Ok(inner.stack.udp_send(now, self.id(), bytes, to)??.then_some(bytes.len()))
    }

    fn send_to_or(&self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        self.block(Interest::Write, None, |inner| {
            let now = inner.now();
            if let Some(most) = inner.config.udp_gather
                && inner.stack.udp_gather(now, self.id(), bytes, to, most)??
            {
                return Ok(Some(bytes.len()));
            }
            self.attempt_send(inner, bytes, to)
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
        let (mut at, mut sent) = (0, 0);
        loop {
            let left = &bytes[at..];
            let count = self.block(Interest::Write, None, |inner| {
                let now = inner.now();
                let count = inner.stack.udp_send_batch(now, self.id(), left, message_len, to)??;
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
        self.block(Interest::Write, None, |inner| {
            let now = inner.now();
            let sent = inner.stack.udp_send_with(now, self.id(), pipeline, message, to)??;
            Ok(sent.then_some(()))
        })
    }

    fn attempt_send_message<M: Marshal + ?Sized>(
        &self,
        inner: &mut Inner,
        message: &M,
        to: Option<SocketAddr>,
    ) -> Attempt<()> {
        let now = inner.now();
        Ok(inner.stack.udp_send_message(now, self.id(), message, to)??.then_some(()))
    }

    /// Sends one message, which is marshalled in the loop that sums and stores it; see [`Stack::udp_send_message`]. `None`: to
    /// whom it is connected.
    ///
    /// # Errors
    /// As [`Stack::udp_send_message`].
    pub fn send_message<M: Marshal + ?Sized>(
        &self,
        message: &M,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let attempt = |inner: &mut Inner| self.attempt_send_message(inner, message, to);
        self.block(Interest::Write, None, attempt)
    }

    /// [`UdpSocket::send_message`] for tasks.
    ///
    /// # Errors
    /// As [`Stack::udp_send_message`].
    pub async fn send_message_async<M: Marshal + ?Sized>(
        &self,
        message: &M,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        self.wait(Interest::Write, |inner| self.attempt_send_message(inner, message, to)).await
    }

    // ---- receiving

    /// The next message. Of one that is longer than `out` the rest is lost.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_from(&self, out: &mut [u8]) -> io::Result<Received> {
        let attempt = |inner: &mut Inner| Ok(inner.stack.udp_recv(self.id(), out)?);
        self.block(Interest::Read, self.timeouts().read, attempt)
    }

    /// Shows every message that is there to `view`, a super-frame at a time, where they lie; waits until
    /// there are some. Returns how many. `view` must not call this host.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_batch(&self, view: impl FnMut(Messages<'_>)) -> io::Result<usize> {
        let mut viewer = Viewer(view);
        self.receive(|inner, receives| self.attempt_take(inner, receives, &mut viewer))
    }

    /// Gives `taker` what is there, and the interface's when it `receives`; how many messages.
    fn attempt_take(
        &self,
        inner: &mut Inner,
        receives: bool,
        taker: &mut dyn Taker,
    ) -> Attempt<usize> {
        let count = match receives {
            true => inner.stack.udp_take(inner.now(), self.id(), taker)??,
            false => inner.stack.udp_take_queue(self.id(), taker)?,
        };
        Ok((count > 0).then_some(count))
    }

    /// Runs `pipeline` over every message that is there, on its interest into `memory`; see
    /// [`Stack::udp_recv_with`]. Waits until there are some; returns the bytes used.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_with<S: AnyStage>(
        &self,
        pipeline: &S,
        memory: &mut [u8],
        told: impl FnMut(SocketAddr, Range<usize>),
    ) -> io::Result<usize> {
        let mut through = Through { pipeline, memory, filled: 0, told };
        self.receive(|inner, receives| self.attempt_take(inner, receives, &mut through))?;
        Ok(through.filled)
    }

    /// Unmarshals every message that is there into `into`, in the loop that verifies it, and tells of each; see
    /// [`Stack::udp_recv_messages`]. Waits until there are some; returns how many. `told` must not call this host.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_messages<U: Unmarshal + ?Sized>(
        &self,
        into: &mut U,
        mut told: impl FnMut(Received, &mut U) -> bool,
    ) -> io::Result<usize> {
        self.receive(|inner, receives| {
            let (now, stack) = (inner.now(), &mut inner.stack);
            let count = match receives {
                true => stack.udp_recv_messages(now, self.id(), into, &mut told)??,
                false => stack.udp_read_messages(self.id(), into, &mut told)?,
            };
            Ok((count > 0).then_some(count))
        })
    }

    /// The next message, unmarshalled in the loop that verifies it, or from the queue if it came before it was asked for.
    /// `codec::pipeline::Placed` says whether it was a value of the type.
    ///
    /// # Errors
    /// What ICMP said, once; `TimedOut`.
    pub fn recv_message(&self, into: &mut dyn Unmarshal) -> io::Result<Received> {
        let mut got = None;
        self.recv_messages(into, |received, _| {
            got = Some(received);
            false
        })?;
        got.ok_or_else(|| Error::TimedOut.into())
    }

    /// [`UdpSocket::recv_message`] for tasks: from the queue. Dropped before its end, it has taken nothing.
    ///
    /// # Errors
    /// What ICMP said, once.
    pub async fn recv_message_async(
        &self,
        into: &mut (dyn Unmarshal + Send),
    ) -> io::Result<Received> {
        self.wait(Interest::Read, |inner| {
            let mut got = None;
            inner.stack.udp_read_messages(self.id(), into, |received, _| {
                got = Some(received);
                false
            })?;
            Ok(got)
        })
        .await
    }

    /// The next message, when there is one. One task at a time may poll so: the last one is woken.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        self.poll(context, Interest::Read, |inner| Ok(inner.stack.udp_recv(self.id(), out)?))
    }

    /// The next message. Any number of tasks may wait; dropped before its end, it has taken nothing.
    ///
    /// # Errors
    /// What ICMP said, once.
    pub async fn recv_from_async(&self, out: &mut [u8]) -> io::Result<Received> {
        self.wait(Interest::Read, |inner| Ok(inner.stack.udp_recv(self.id(), out)?)).await
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub async fn send_to_async(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.wait(Interest::Write, |inner| self.attempt_send(inner, bytes, Some(to))).await
    }
}
