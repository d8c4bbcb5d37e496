//! What carries records, whatever it is.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use fusewire_session::{Fingerprint, Marshal, Options, Unmarshal};

use crate::application::{Adu, Application, Keep, Message};
use crate::driver::after;
use crate::{ConnectionId, Error, Result};

/// Who is at the other end of a link, and what was agreed on with him.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The peer's key.
    pub peer: Fingerprint,
    /// What was agreed on.
    pub options: Options,
    /// The peer's address, where it is known: over shared memory, that of the session's beginning.
    pub remote: Option<SocketAddr>,
}

/// A connection that carries ADUs as encrypted records, each whole and in order: an
/// [`Endpoint`](crate::Endpoint)'s, one over [kernel TCP](crate::kernel_tcp), one over
/// [shared memory](crate::shm), or your own.
///
/// A link is one that has the methods without a body, none of which waits but [`Link::wait`]; those that wait follow
/// from them. What only some links can do is not here: tasks, ADUs out of order and many threads on one connection are
/// [`Connection`](crate::Connection)'s own methods.
///
/// An ADU that was sent may stay here until [`Link::try_flush`] or a call that waits, so that many leave together.
/// Without [`Link::finish`] or [`Link::close`] a link that is dropped ends for its peer as if the process were gone.
pub trait Link: Send {
    /// What carries the records: `udp`, `kernel-tcp`, `shm`, …
    fn carrier(&self) -> &'static str;

    /// What its device says of itself by now, where there is one.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The other end.
    fn session(&self) -> Session;

    /// The longest ADU, in bytes, that travels in one piece now.
    fn adu_len(&self) -> usize;

    /// The longest ADU, in bytes, that can be sent.
    fn adu_len_max(&self) -> usize {
        self.adu_len()
    }

    /// Bytes of records that would be taken now, as far as that is known: at least `len`, the bytes of one of them, or
    /// zero where there is no room for it and there will be.
    fn room_for(&mut self, len: usize) -> usize;

    /// Sends one ADU if there is room; the memory is free again when this returns.
    ///
    /// # Errors
    /// [`Error::TooLong`]; those of [`Link::try_recv_with`].
    fn try_send(&mut self, adu: &[u8]) -> Poll<Result<()>>;

    /// [`Link::try_send`] of an ADU that is marshalled in the one pass that seals it: `codec::pipeline::Message` makes
    /// one of a value.
    ///
    /// # Errors
    /// As [`Link::try_send`]; [`Error::Session`] when the message is not as long as it says, which ends the connection.
    fn try_send_message(&mut self, adu: &dyn Marshal) -> Poll<Result<()>>;

    /// Lets what was sent leave; ready when all of it has left.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv_with`].
    fn try_flush(&mut self) -> Poll<Result<()>>;

    /// Receives what is there, into the memory that `app` has for it, until it wants no more: true if that was an ADU at
    /// least, false after the peer's last. ADUs that `app` does not place are lost.
    ///
    /// # Errors
    /// What ended the connection: [`Error::PeerClosed`]; [`Error::Silent`], [`Error::TimedOut`] or
    /// [`Error::Unreachable`] when the peer or the way to it is gone; [`Error::Reset`]; [`Error::Session`] or
    /// [`Error::Protocol`] when something came that is not the peer's record, truncation included; [`Error::Os`];
    /// [`Error::Closed`] when this side gave it up.
    fn try_recv_with(&mut self, app: &mut dyn Application) -> Poll<Result<bool>>;

    /// The next ADU, in a buffer of the link's; `None` after the peer's last.
    ///
    /// # Errors
    /// As [`Link::try_recv_with`].
    fn try_recv_adu(&mut self) -> Poll<Result<Option<Vec<u8>>>>;

    /// Gives a buffer of [`Link::try_recv_adu`] back, so that the next needs no allocation.
    fn recycle(&mut self, buffer: Vec<u8>);

    /// Ends our side in order, as soon as there is room; ready when all of it has left. The peer may go on.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv_with`].
    fn try_finish(&mut self) -> Poll<Result<()>>;

    /// Gives the connection up, and says why in a number of the application's: the peer gets all that was sent before
    /// and then [`Error::PeerClosed`] with it, in an authenticated record. All other calls here get [`Error::Closed`]
    /// from now on. Does not wait; where there was no room for it, [`Link::flush`] does.
    fn close(&mut self, code: u64);

    /// Sleeps until there is something to receive, or room where a call had none, or the connection is over, or until
    /// `timeout`; now and then for a shorter time. What was sent leaves before.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv_with`].
    fn wait(&mut self, timeout: Option<Duration>) -> Result<()>;

    // ---- what follows ---------------------------------------------------------------------------

    /// Sends one ADU as soon as there is room.
    ///
    /// # Errors
    /// As [`Link::try_send`].
    fn send(&mut self, adu: &[u8]) -> Result<()> {
        until(self, None, |link| link.try_send(adu))
    }

    /// Sends ADUs together: many leave with one system call.
    ///
    /// # Errors
    /// As [`Link::try_send`]; ADUs before the one that failed are sent.
    fn send_batch<'a>(&mut self, adus: impl IntoIterator<Item = &'a [u8]>) -> Result<()>
    where
        Self: Sized,
    {
        adus.into_iter().try_for_each(|adu| self.send(adu))
    }

    /// [`Link::try_send_message`] as soon as there is room.
    ///
    /// # Errors
    /// The errors of [`Link::try_send_message`].
    fn send_message(&mut self, adu: &dyn Marshal) -> Result<()> {
        until(self, None, |link| link.try_send_message(adu))
    }

    /// Sends messages together, each by [`Link::send_message`]: many small ones share a segment, and leave with one
    /// system call.
    ///
    /// # Errors
    /// The errors of [`Link::try_send_message`]; ADUs before the one that failed are sent.
    fn send_messages<M: Marshal>(&mut self, adus: impl IntoIterator<Item = M>) -> Result<()>
    where
        Self: Sized,
    {
        adus.into_iter().try_for_each(|adu| self.send_message(&adu))
    }

    /// Lets what was sent leave, and waits until it has.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv_with`].
    fn flush(&mut self) -> Result<()> {
        until(self, None, Self::try_flush)
    }

    /// The next ADU, straight into `memory`, and its length; `None` after the peer's last.
    ///
    /// # Errors
    /// As [`Link::try_recv_with`]; [`Error::NoRoom`] when `memory` is too short (the ADU is lost).
    fn try_recv(&mut self, memory: &mut [u8]) -> Poll<Result<Option<usize>>> {
        let room = memory.len();
        let mut into = Into { memory, len: None };
        let Poll::Ready(_) = self.try_recv_with(&mut into)? else { return Poll::Pending };
        Poll::Ready(match into.len {
            Some(len) if len > room => Err(Error::NoRoom { len, room }),
            len => Ok(len),
        })
    }

    /// [`Link::try_recv`] as soon as an ADU is there.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv`].
    fn recv(&mut self, memory: &mut [u8]) -> Result<Option<usize>> {
        until(self, None, |link| link.try_recv(memory))
    }

    /// [`Link::recv`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Link::recv`]; [`Error::Elapsed`] when nothing came in time.
    fn recv_timeout(&mut self, memory: &mut [u8], timeout: Duration) -> Result<Option<usize>> {
        until(self, after(timeout), |link| link.try_recv(memory))
    }

    /// The next ADU, unmarshalled in the pass that opens it, and its length in bytes; `None` after the peer's last.
    /// `codec::pipeline::Placed` unmarshals what is in LWS, OER or XDR, and says whether it was a value of the type. What
    /// is in BER goes by [`Link::try_recv_adu`] and a pass of its own, as does an ADU that came before it was asked for.
    ///
    /// Nothing may be read out of `into` before this is ready: see [`Unmarshal`] (Law 3).
    ///
    /// # Errors
    /// As [`Link::try_recv_with`].
    fn try_recv_message(&mut self, into: &mut dyn Unmarshal) -> Poll<Result<Option<usize>>> {
        let mut message = Message { id: None, into, any: false, got: None };
        let Poll::Ready(_) = self.try_recv_with(&mut message)? else { return Poll::Pending };
        Poll::Ready(Ok(message.got))
    }

    /// [`Link::try_recv_message`] in whatever order ADUs come, where the link hands them on behind a hole: for who has
    /// messages that say by themselves where they belong.
    ///
    /// # Errors
    /// Those of [`Link::try_recv_with`].
    fn try_recv_any_message(&mut self, into: &mut dyn Unmarshal) -> Poll<Result<Option<usize>>> {
        self.try_recv_message(into)
    }

    /// [`Link::try_recv_message`] as soon as an ADU is there.
    ///
    /// # Errors
    /// Those of [`Link::try_recv_with`].
    fn recv_message(&mut self, into: &mut dyn Unmarshal) -> Result<Option<usize>> {
        until(self, None, |link| link.try_recv_message(into))
    }

    /// [`Link::recv_message`], for at most so long.
    ///
    /// # Errors
    /// Those of [`Link::try_recv_with`]; [`Error::Elapsed`].
    fn recv_message_timeout(
        &mut self,
        into: &mut dyn Unmarshal,
        timeout: Duration,
    ) -> Result<Option<usize>> {
        until(self, after(timeout), |link| link.try_recv_message(into))
    }

    /// [`Link::try_recv_adu`] as soon as an ADU is there.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv_adu`].
    fn recv_adu(&mut self) -> Result<Option<Vec<u8>>> {
        until(self, None, Self::try_recv_adu)
    }

    /// [`Link::recv_adu`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Link::recv_adu`]; [`Error::Elapsed`] when nothing came in time.
    fn recv_adu_timeout(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        until(self, after(timeout), Self::try_recv_adu)
    }

    /// Lets `app` say where ADUs go, until `done` is true: the pass writes straight into its memory.
    /// False when the peer's last ADU came first.
    ///
    /// # Errors
    /// As [`Link::try_recv_with`].
    fn recv_with<A: Application>(
        &mut self,
        app: &mut A,
        mut done: impl FnMut(&mut A) -> bool,
    ) -> Result<bool>
    where
        Self: Sized,
    {
        while !done(app) {
            if !until(self, None, |link| link.try_recv_with(app))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends our side in order and waits until the peer has ended its own. What it sends until then is thrown away.
    ///
    /// # Errors
    /// The errors of [`Link::try_recv_with`].
    fn finish(&mut self) -> Result<()> {
        let (mut has_ended, mut peer_has) = (false, false);
        until(self, None, |link| {
            has_ended = has_ended || link.try_finish()?.is_ready();
            while !peer_has && let Poll::Ready(more) = link.try_recv_with(&mut Keep)? {
                peer_has = !more;
            }
            if has_ended && peer_has { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
    }
}

/// Attempts and sleeps in turn.
fn until<L: Link + ?Sized, T>(
    link: &mut L,
    deadline: Option<Instant>,
    mut attempt: impl FnMut(&mut L) -> Poll<Result<T>>,
) -> Result<T> {
    loop {
        if let Poll::Ready(result) = attempt(link) {
            return result;
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(Error::Elapsed);
        }
        link.wait(left)?;
    }
}

/// The caller's memory for the next ADU.
struct Into<'a> {
    memory: &'a mut [u8],
    /// The ADU's length, also when that is more than there is memory.
    len: Option<usize>,
}

impl Application for Into<'_> {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        if self.len.is_some() {
            return None;
        }
        self.len = Some(adu.len);
        self.memory.get_mut(..adu.len)
    }

    fn delivered(&mut self, _: ConnectionId, _: Adu) {}

    fn wants_more(&self) -> bool {
        self.len.is_none()
    }
}
