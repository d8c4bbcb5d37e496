//! A connection, for threads; for tasks see `tasks`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use fusewire_session::{Fingerprint, Marshal, Options, Rendezvous, Unmarshal, unmarshal};
use fusewire_transport::machine::Info;

use super::Handle;
use super::state::{Connected, Interest, State};
use crate::application::{Adu, Application, Message, hand_over};
use crate::driver::after;
use crate::{ConnectionId, Error, Result};

/// An encrypted connection that carries ADUs. Dropped without [`Connection::finish`] or [`Connection::close`] it
/// is reset.
///
/// `Send` and `Sync`, and all calls take `&self`: in an [`Arc`], or borrowed by scoped threads, one thread may
/// receive while others send. Each ADU goes to one receiver; ADUs of several senders arrive each whole.
pub struct Connection {
    pub(super) handle: Arc<Handle>,
    pub(super) id: ConnectionId,
    session: Connected,
    _held: Held,
}

/// Somebody will ask for a connection of the stack's; nobody any more when this is dropped.
pub(super) struct Held {
    pub handle: Arc<Handle>,
    pub id: ConnectionId,
}

impl Connection {
    pub(super) fn new(held: Held, session: Connected) -> Connection {
        Connection { handle: held.handle.clone(), id: held.id, session, _held: held }
    }

    /// Its name in [`Endpoint::with_stack`](crate::Endpoint::with_stack).
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// What the session can go on with over shared memory ([`shm`](crate::shm)), if both sides want it; once.
    pub fn take_rendezvous(&self) -> Option<Rendezvous> {
        self.handle.shared.call(|state| state.stack.take_rendezvous(self.id))
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.shared.look(|state| state.stack.local_addr())
    }

    /// The peer's key.
    pub fn peer(&self) -> Fingerprint {
        self.session.peer
    }

    /// What was agreed on.
    pub fn options(&self) -> Options {
        self.session.options
    }

    /// The peer's address.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.handle.shared.look(|state| state.stack.remote_addr(self.id))
    }

    /// Estimates and counters of the transport.
    pub fn info(&self) -> Option<Info> {
        self.handle.shared.look(|state| state.stack.info(self.id))
    }

    /// The longest ADU, in bytes, that travels as one segment on this path now.
    pub fn adu_len(&self) -> usize {
        self.handle
            .shared
            .look(|state| state.stack.adu_len(self.id))
            .map_or(0, |(fitting, _)| fitting)
    }

    /// The longest ADU, in bytes, that can be sent: the peer takes no longer one, or our memory holds none.
    /// What this side takes is [`Options::receive_body_len_max`]; see `Config::max_adu`.
    pub fn adu_len_max(&self) -> usize {
        self.handle
            .shared
            .look(|state| state.stack.adu_len(self.id))
            .map_or(0, |(_, longest)| longest)
    }

    // ---- send ---------------------------------------------------------------------------------

    /// Sends one ADU; returns when it is in the retransmission memory and on its way.
    ///
    /// # Errors
    /// [`Error::TooLong`]; those of [`Connection::closed`].
    pub fn send(&self, adu: &[u8]) -> Result<()> {
        let id = self.id;
        self.handle.until(Interest::Write(id), None, |state| send(state, id, adu))
    }

    /// [`Connection::send`] if there is room now.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn try_send(&self, adu: &[u8]) -> Poll<Result<()>> {
        self.handle.shared.call(|state| send(state, self.id, adu))
    }

    /// Sends ADUs together: many leave with one system call.
    ///
    /// # Errors
    /// As [`Connection::send`]; ADUs before the one that failed are sent.
    pub fn send_batch<'a>(&self, adus: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        let id = self.id;
        let mut batch = Batch::new(adus.into_iter());
        self.handle.until(Interest::Write(id), None, |state| batch.send(state, id))
    }

    /// Sends one ADU that is marshalled in the one pass that seals it: `codec::pipeline::Message` makes one of a
    /// value.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_message<M: Marshal + ?Sized>(&self, adu: &M) -> Result<()> {
        let id = self.id;
        self.handle.until(Interest::Write(id), None, |state| send_message(state, id, adu))
    }

    // ---- receive ------------------------------------------------------------------------------

    /// Receives the next ADU in order into `adu` and returns its length; `None` after the peer's last.
    /// An ADU that comes while we wait is deciphered straight into `adu`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `adu` is too short (the ADU is lost); those of [`Connection::closed`].
    pub fn recv(&self, adu: &mut [u8]) -> Result<Option<usize>> {
        self.recv_until(adu, None)
    }

    /// [`Connection::recv`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`]; [`Error::Elapsed`] when nothing came in time.
    pub fn recv_timeout(&self, adu: &mut [u8], timeout: Duration) -> Result<Option<usize>> {
        self.recv_until(adu, after(timeout))
    }

    fn recv_until(&self, adu: &mut [u8], deadline: Option<Instant>) -> Result<Option<usize>> {
        let mut direct = Direct { id: self.id, memory: adu, got: None };
        self.handle.block(Interest::Read(self.id), deadline, &mut direct, |state, direct| {
            direct.next(state)
        })
    }

    /// [`Connection::recv`] if an ADU has come: it does not wait.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`].
    pub fn try_recv(&self, adu: &mut [u8]) -> Poll<Result<Option<usize>>> {
        let mut direct = Direct { id: self.id, memory: adu, got: None };
        let turn = |state: &mut State, direct: &mut Direct<'_>| state.stack.poll(direct);
        let attempt = |state: &mut _, direct: &mut Direct<'_>| direct.next(state);
        self.handle.shared.attempt(&mut direct, turn, attempt)?
    }

    /// Receives the next ADU in order, unmarshalled by `into` in the pass that opens it if it comes while we wait, and
    /// returns its length in bytes; `None` after the peer's last. See [`Link::try_recv_message`](crate::Link).
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn recv_message(&self, into: &mut dyn Unmarshal) -> Result<Option<usize>> {
        self.recv_message_until(into, None)
    }

    /// [`Connection::recv_message`], for at most so long.
    ///
    /// # Errors
    /// Why the connection is over; [`Error::Elapsed`].
    pub fn recv_message_timeout(
        &self,
        into: &mut dyn Unmarshal,
        timeout: Duration,
    ) -> Result<Option<usize>> {
        self.recv_message_until(into, after(timeout))
    }

    fn recv_message_until(
        &self,
        into: &mut dyn Unmarshal,
        deadline: Option<Instant>,
    ) -> Result<Option<usize>> {
        let mut message = Message { id: Some(self.id), into, got: None };
        self.handle.block(Interest::Read(self.id), deadline, &mut message, |state, message| {
            match message.got.take() {
                Some(len) => Poll::Ready(Ok(Some(len))),
                None => recv_message(state, self.id, message.into),
            }
        })
    }

    /// Receives the next ADU in order into a buffer of the stack's, without a copy; `None` after the
    /// peer's last.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn recv_adu(&self) -> Result<Option<Vec<u8>>> {
        self.handle.until(Interest::Read(self.id), None, |state| recv_adu(state, self.id))
    }

    /// [`Connection::recv_adu`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_adu`]; [`Error::Elapsed`] when nothing came in time.
    pub fn recv_adu_timeout(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let interest = Interest::Read(self.id);
        self.handle.until(interest, after(timeout), |state| recv_adu(state, self.id))
    }

    /// Receives any ADU that is complete, with its index: those behind a lost one too.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn recv_any(&self) -> Result<Option<(u64, Vec<u8>)>> {
        self.handle.until(Interest::Read(self.id), None, |state| recv_any(state, self.id))
    }

    /// Gives a buffer of [`Connection::recv_adu`] back, so that the next needs no allocation.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.handle.shared.call(|state| state.stack.recycle(self.id, buffer));
    }

    /// Lets `app` say where ADUs go, until `done` is true: the pass writes straight into its memory.
    /// False when the peer's last ADU came first.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn recv_with<A: Application>(
        &self,
        app: &mut A,
        mut done: impl FnMut(&mut A) -> bool,
    ) -> Result<bool> {
        let id = self.id;
        self.handle
            .block(Interest::Read(id), None, app, |state, app| recv_with(state, id, app, &mut done))
    }

    // ---- end ----------------------------------------------------------------------------------

    /// Ends our side in order and waits until the peer has everything and has ended its own. What it sends
    /// until then is thrown away: who wants it calls [`Connection::finish_sending`] and receives to the end first.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn finish(&self) -> Result<()> {
        let id = self.id;
        self.finish_sending();
        self.handle.until(Interest::Finish(id), None, |state| finish(state, id))
    }

    /// Ends our side in order; the peer may go on. [`Connection::recv`] still works.
    pub fn finish_sending(&self) {
        self.handle.shared.call(|state| {
            state.stack.finish(self.id);
            state.stack.flush();
        });
    }

    /// Gives the connection up, and says why in a number of the application's: the peer gets all that was sent
    /// before and then [`Error::PeerClosed`] with it, in an authenticated record. All calls here get
    /// [`Error::Closed`] from now on. Does not wait: [`Endpoint::wait_idle`](crate::Endpoint::wait_idle) does,
    /// before a program ends. After [`Connection::finish_sending`] nothing can be said, and the peer sees a reset.
    pub fn close(&self, code: u64) {
        self.handle.shared.call(|state| state.stack.close(self.id, code));
    }

    /// Waits until the connection is over: `Ok` when both sides have ended in order. ADUs that came before can
    /// still be received.
    ///
    /// # Errors
    /// What ended it: [`Error::PeerClosed`]; [`Error::Silent`], [`Error::TimedOut`] or [`Error::Unreachable`] when the
    /// peer or the way to it is gone; [`Error::Reset`]; [`Error::Session`] or [`Error::Protocol`] when something came
    /// that is not the peer's record, truncation included; [`Error::Os`] when the device is broken; [`Error::Closed`]
    /// when this side gave it up.
    pub fn closed(&self) -> Result<()> {
        self.handle.until(Interest::Over(self.id), None, |state| state.closed(self.id))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.handle.shared.call_waking(|state, wakes| state.forget(self.id, wakes));
    }
}

pub(super) fn send(state: &mut State, id: ConnectionId, adu: &[u8]) -> Poll<Result<()>> {
    let sent = state.stack.send(id, adu);
    state.stack.flush();
    state.sent(id, sent)
}

pub(super) fn send_message<M: Marshal + ?Sized>(
    state: &mut State,
    id: ConnectionId,
    adu: &M,
) -> Poll<Result<()>> {
    let sent = state.stack.send_message(id, adu);
    state.stack.flush();
    state.sent(id, sent)
}

/// ADUs that leave together.
pub(super) struct Batch<'a, I> {
    current: Option<&'a [u8]>,
    rest: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Batch<'a, I> {
    pub fn new(mut adus: I) -> Self {
        Batch { current: adus.next(), rest: adus }
    }

    /// As many as there is room for.
    pub fn send(&mut self, state: &mut State, id: ConnectionId) -> Poll<Result<()>> {
        while let Some(adu) = self.current {
            match state.stack.send(id, adu) {
                Ok(true) => self.current = self.rest.next(),
                stopped => {
                    state.stack.flush();
                    return state.sent(id, stopped);
                }
            }
        }
        state.stack.flush();
        Poll::Ready(Ok(()))
    }
}

pub(super) fn recv_adu(state: &mut State, id: ConnectionId) -> Poll<Result<Option<Vec<u8>>>> {
    match state.next(id) {
        Some((_, buffer)) => Poll::Ready(Ok(Some(buffer))),
        None => state.end_or_pending(id),
    }
}

/// An ADU and its index.
type Indexed = (u64, Vec<u8>);

pub(super) fn recv_any(state: &mut State, id: ConnectionId) -> Poll<Result<Option<Indexed>>> {
    match state.any(id) {
        Some(adu) => Poll::Ready(Ok(Some(adu))),
        None => state.end_or_pending(id),
    }
}

/// The next ADU that waits, copied to `memory`.
pub(super) fn recv_into(
    state: &mut State,
    id: ConnectionId,
    memory: &mut [u8],
) -> Poll<Result<Option<usize>>> {
    let Some((_, buffer)) = state.next(id) else { return state.end_or_pending(id) };
    let (len, room) = (buffer.len(), memory.len());
    if let Some(memory) = memory.get_mut(..len) {
        memory.copy_from_slice(&buffer);
    }
    state.stack.recycle(id, buffer);
    Poll::Ready(if len <= room { Ok(Some(len)) } else { Err(Error::NoRoom { len, room }) })
}

/// The next ADU that waits, unmarshalled.
pub(super) fn recv_message(
    state: &mut State,
    id: ConnectionId,
    into: &mut dyn Unmarshal,
) -> Poll<Result<Option<usize>>> {
    let Some((_, mut buffer)) = state.next(id) else { return state.end_or_pending(id) };
    unmarshal(&mut buffer, into);
    let len = buffer.len();
    state.stack.recycle(id, buffer);
    Poll::Ready(Ok(Some(len)))
}

/// What waits, into the memory of `app`.
pub(super) fn recv_with<A: Application>(
    state: &mut State,
    id: ConnectionId,
    app: &mut A,
    done: &mut impl FnMut(&mut A) -> bool,
) -> Poll<Result<bool>> {
    // What came before `app` was there.
    while let Some((index, mut buffer)) = state.next(id) {
        hand_over(app, id, index, &mut buffer);
        state.stack.recycle(id, buffer);
    }
    if done(app) {
        return Poll::Ready(Ok(true));
    }
    state.end_or_pending::<()>(id).map(|result| result.map(|_| false))
}

pub(super) fn finish(state: &mut State, id: ConnectionId) -> Poll<Result<()>> {
    // Nobody will ask for them.
    while let Some((_, buffer)) = state.any(id) {
        state.stack.recycle(id, buffer);
    }
    state.stack.flush();
    state.closed(id)
}

/// The caller's memory for the next ADU in order.
struct Direct<'a> {
    id: ConnectionId,
    memory: &'a mut [u8],
    got: Option<usize>,
}

impl Direct<'_> {
    fn next(&mut self, state: &mut State) -> Poll<Result<Option<usize>>> {
        match self.got.take() {
            Some(len) => Poll::Ready(Ok(Some(len))),
            None => recv_into(state, self.id, self.memory),
        }
    }
}

impl Application for Direct<'_> {
    fn place(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        let fits =
            from == self.id && self.got.is_none() && adu.is_next && adu.len <= self.memory.len();
        if fits { Some(&mut self.memory[..adu.len]) } else { None }
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.got = Some(adu.len);
    }
}
