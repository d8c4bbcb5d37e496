//! A connection: each call in its forms for threads and for tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fusewire_session::{
    Datagrams, Fingerprint, Marshal, Options, Rendezvous, Unmarshal, unmarshal,
};
use fusewire_transport::machine::Info;

use super::runs::Runs;
use super::state::{Connected, Interest, Readiness, State};
use super::{Attempt, Call, Handle, block};
use crate::application::{Application, Keep, Message, One, hand_over};
use crate::driver::after;
use crate::stack::Stack;
use crate::{ConnectionId, Error, Result};

/// An ADU behind its index in the stream.
type Indexed = (u64, Vec<u8>);

/// An encrypted connection that carries ADUs. Dropped without [`Connection::finish`] or [`Connection::close`] it
/// is reset.
///
/// `Send` and `Sync`, and all calls take `&self`: in an [`Arc`], or borrowed by scoped threads, one thread may
/// receive while others send. Each ADU goes to one receiver; ADUs of several senders arrive each whole.
pub struct Connection {
    pub(super) held: Held,
    session: Connected,
}

/// Somebody will ask for a connection of the stack's; nobody any more when this is dropped.
pub(super) struct Held {
    pub handle: Arc<Handle>,
    pub id: ConnectionId,
}

impl Held {
    /// What the handshake leads to.
    pub fn connecting(&self) -> Call<'_, impl Attempt<Connected>> {
        let id = self.id;
        let attempt = move |state: &mut State| state.connected(id);
        Call { handle: &self.handle, interest: Interest::Over(id), attempt }
    }

    /// The connection, whose peer is believed.
    pub fn trust(self, session: Connected) -> Connection {
        if !session.trusted {
            self.handle.call(|state| state.stack.trust(self.id));
        }
        self.connection(session)
    }

    /// The connection, if the configuration has judged its peer.
    pub fn believed(self, session: Connected) -> Result<Connection> {
        if !session.trusted {
            return Err(Error::Untrusted(session.peer));
        }
        Ok(self.connection(session))
    }

    pub fn connection(self, session: Connected) -> Connection {
        Connection { held: self, session }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.handle.call_waking(|state, wakes| state.forget(self.id, wakes));
    }
}

impl Connection {
    /// Looks at the stack.
    pub(super) fn look<T>(&self, f: impl FnOnce(&Stack, ConnectionId) -> T) -> T {
        self.held.handle.look(|state| f(&state.stack, self.held.id))
    }

    /// Does something that waits for nothing.
    pub(super) fn call<T>(&self, f: impl FnOnce(&mut Stack, ConnectionId) -> T) -> T {
        self.held.handle.call(|state| f(&mut state.stack, self.held.id))
    }

    /// What may have to wait for news of the connection.
    pub(super) fn ask<T>(
        &self,
        interest: fn(ConnectionId) -> Interest,
        mut attempt: impl FnMut(&mut State, ConnectionId) -> Poll<Result<T>>,
    ) -> Call<'_, impl Attempt<T>> {
        let id = self.held.id;
        let attempt = move |state: &mut State| attempt(state, id);
        Call { handle: &self.held.handle, interest: interest(id), attempt }
    }

    /// Its name in [`Endpoint::with_stack`](crate::Endpoint::with_stack).
    pub fn id(&self) -> ConnectionId {
        self.held.id
    }

    /// What the session can go on with over shared memory ([`shm`](crate::shm)), if both sides want it; once.
    pub fn take_rendezvous(&self) -> Option<Rendezvous> {
        self.call(|stack, id| stack.take_rendezvous(id))
    }

    /// What seals and opens datagrams beside the stream, which the application carries itself; once. `None` where the cipher
    /// has no tag.
    pub fn take_datagrams(&self) -> Option<Datagrams> {
        self.call(|stack, id| stack.take_datagrams(id))
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.look(|stack, _| stack.local_addr())
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
        self.look(|stack, id| stack.remote_addr(id))
    }

    /// Estimates and counters of the transport.
    pub fn info(&self) -> Option<Info> {
        self.look(|stack, id| stack.info(id))
    }

    /// The longest ADU, in bytes, that travels as one segment on this path now.
    pub fn adu_len(&self) -> usize {
        self.look(|stack, id| stack.adu_len(id)).map_or(0, |(fitting, _)| fitting)
    }

    /// The longest ADU, in bytes, that can be sent: the peer takes no longer one, or our memory holds none.
    /// What this side takes is [`Options::receive_body_len_max`]; see `Config::max_adu`.
    pub fn adu_len_max(&self) -> usize {
        self.look(|stack, id| stack.adu_len(id)).map_or(0, |(_, longest)| longest)
    }

    // ---- send ---------------------------------------------------------------------------------

    fn sending(&self, adu: &[u8]) -> Call<'_, impl Attempt<()>> {
        self.ask(Interest::Write, move |state, id| state.send(id, |stack| stack.send(id, adu)))
    }

    fn sending_message<M: Marshal + ?Sized>(&self, adu: &M) -> Call<'_, impl Attempt<()>> {
        let attempt =
            move |state: &mut State, id| state.send(id, |stack| stack.send_message(id, adu));
        self.ask(Interest::Write, attempt)
    }

    /// Runs of one length go together, as there is room; none of them leaves by itself.
    fn sending_batch<'a>(
        &self,
        adus: impl IntoIterator<Item = &'a [u8]>,
    ) -> Call<'_, impl Attempt<()>> {
        let mut runs = Runs::of(adus.into_iter());
        self.ask(Interest::Write, move |state, id| {
            state.send(id, |stack| {
                while let run @ [_, ..] = runs.run() {
                    let sent = stack.send_run(id, run)?;
                    if sent == 0 {
                        return Ok(false);
                    }
                    runs.take(sent);
                }
                Ok(true)
            })
        })
    }

    /// One after the other, as there is room; none of them leaves by itself.
    fn sending_messages<M: Marshal>(
        &self,
        adus: impl IntoIterator<Item = M>,
    ) -> Call<'_, impl Attempt<()>> {
        let mut rest = adus.into_iter();
        let mut current = rest.next();
        self.ask(Interest::Write, move |state, id| {
            state.send(id, |stack| {
                while let Some(adu) = &current {
                    if !stack.send_message(id, adu)? {
                        return Ok(false);
                    }
                    current = rest.next();
                }
                Ok(true)
            })
        })
    }

    /// Sends one ADU; returns when it is in the retransmission memory and on its way.
    ///
    /// # Errors
    /// [`Error::TooLong`]; those of [`Connection::closed`].
    pub fn send(&self, adu: &[u8]) -> Result<()> {
        self.sending(adu).block()
    }

    /// [`Connection::send`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::send`]; [`Error::Elapsed`] when there was no room in time.
    pub fn send_timeout(&self, adu: &[u8], timeout: Duration) -> Result<()> {
        self.sending(adu).block_until(after(timeout))
    }

    /// [`Connection::send`] if there is room now.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn try_send(&self, adu: &[u8]) -> Poll<Result<()>> {
        self.held.handle.call(self.sending(adu).attempt)
    }

    /// [`Connection::send`] for tasks. Cancelled, the ADU is not sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub async fn send_async(&self, adu: &[u8]) -> Result<()> {
        self.sending(adu).wait().await
    }

    /// [`Connection::send`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn poll_send(&self, cx: &mut Context<'_>, adu: &[u8]) -> Poll<Result<()>> {
        self.sending(adu).poll(cx)
    }

    /// Sends ADUs together: many leave with one system call.
    ///
    /// # Errors
    /// The errors of [`Connection::send`]; ADUs before the one that failed are sent.
    pub fn send_batch<'a>(&self, adus: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        self.sending_batch(adus).block()
    }

    /// [`Connection::send_batch`] for tasks. Cancelled, some of the first are sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send_batch`].
    pub async fn send_batch_async<'a>(
        &self,
        adus: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<()> {
        self.sending_batch(adus).wait().await
    }

    /// Sends one ADU that is marshalled in the one pass that seals it: `codec::pipeline::Message` makes one of a
    /// value.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn send_message<M: Marshal + ?Sized>(&self, adu: &M) -> Result<()> {
        self.sending_message(adu).block()
    }

    /// [`Connection::send_message`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::send_timeout`].
    pub fn send_message_timeout<M: Marshal + ?Sized>(
        &self,
        adu: &M,
        timeout: Duration,
    ) -> Result<()> {
        self.sending_message(adu).block_until(after(timeout))
    }

    /// [`Connection::send_message`] if there is room now.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn try_send_message<M: Marshal + ?Sized>(&self, adu: &M) -> Poll<Result<()>> {
        self.held.handle.call(self.sending_message(adu).attempt)
    }

    /// [`Connection::send_message`] for tasks. Cancelled, the ADU is not sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub async fn send_message_async<M: Marshal + ?Sized>(&self, adu: &M) -> Result<()> {
        self.sending_message(adu).wait().await
    }

    /// Sends messages together, each marshalled in the one pass that seals it: many small ones share a segment, and
    /// leave with one system call.
    ///
    /// # Errors
    /// The errors of [`Connection::send`]; ADUs before the one that failed are sent.
    pub fn send_messages<M: Marshal>(&self, adus: impl IntoIterator<Item = M>) -> Result<()> {
        self.sending_messages(adus).block()
    }

    /// [`Connection::send_messages`] for tasks. Cancelled, some of the first are sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send_messages`].
    pub async fn send_messages_async<M: Marshal>(
        &self,
        adus: impl IntoIterator<Item = M>,
    ) -> Result<()> {
        self.sending_messages(adus).wait().await
    }

    // ---- receive ------------------------------------------------------------------------------

    /// What waits, copied to `adu`.
    fn receiving(&self, adu: &mut [u8]) -> Call<'_, impl Attempt<Option<usize>>> {
        self.ask(Interest::Read, move |state, id| recv_into(state, id, adu))
    }

    pub(super) fn receiving_adu(&self) -> Call<'_, impl Attempt<Option<Vec<u8>>>> {
        self.ask(Interest::Read, |state, id| match state.next(id) {
            Some((_, buffer)) => Poll::Ready(Ok(Some(buffer))),
            None => state.end_or_pending(id),
        })
    }

    fn receiving_any(&self) -> Call<'_, impl Attempt<Option<Indexed>>> {
        self.ask(Interest::Read, |state, id| match state.any(id) {
            Some(adu) => Poll::Ready(Ok(Some(adu))),
            None => state.end_or_pending(id),
        })
    }

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
        let mut one = One::in_order(self.held.id, adu);
        block(&self.held.handle, Interest::Read(self.held.id), deadline, &mut one, next_of)
    }

    /// [`Connection::recv`] if an ADU has come: it does not wait.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`].
    pub fn try_recv(&self, adu: &mut [u8]) -> Poll<Result<Option<usize>>> {
        let mut one = One::in_order(self.held.id, adu);
        let turn = |state: &mut State, one: &mut One<'_>| state.stack.poll(one);
        self.held.handle.attempt(&mut one, turn, next_of)?
    }

    /// [`Connection::recv`] for tasks: what the driver has received is copied. Cancelled, no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`].
    pub async fn recv_into_async(&self, adu: &mut [u8]) -> Result<Option<usize>> {
        self.receiving(adu).wait().await
    }

    /// [`Connection::recv`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>, adu: &mut [u8]) -> Poll<Result<Option<usize>>> {
        self.receiving(adu).poll(cx)
    }

    /// Receives the next ADU in order, unmarshalled by `into` in the pass that opens it if it comes while we wait, and
    /// returns its length in bytes; `None` after the peer's last. See [`Link::try_recv_message`](crate::Link).
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn recv_message(&self, into: &mut dyn Unmarshal) -> Result<Option<usize>> {
        self.recv_message_until(into, None)
    }

    /// [`Connection::recv_message`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`]; [`Error::Elapsed`] when nothing came in time.
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
        let id = self.held.id;
        let mut message = Message { id: Some(id), into, any: false, got: None };
        let attempt = |state: &mut _, message: &mut Message<'_>| match message.got.take() {
            Some(len) => Poll::Ready(Ok(Some(len))),
            None => recv_message(state, id, message.into),
        };
        block(&self.held.handle, Interest::Read(id), deadline, &mut message, attempt)
    }

    /// [`Connection::recv_message`] for tasks: what the driver has received is opened, and unmarshalled here. Cancelled,
    /// no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub async fn recv_message_async(
        &self,
        into: &mut (dyn Unmarshal + Send),
    ) -> Result<Option<usize>> {
        self.ask(Interest::Read, |state, id| recv_message(state, id, into)).wait().await
    }

    /// Receives the next ADU in order into a buffer of the stack's, without a copy; `None` after the
    /// peer's last.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn recv_adu(&self) -> Result<Option<Vec<u8>>> {
        self.receiving_adu().block()
    }

    /// [`Connection::recv_adu`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_adu`]; [`Error::Elapsed`] when nothing came in time.
    pub fn recv_adu_timeout(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        self.receiving_adu().block_until(after(timeout))
    }

    /// [`Connection::recv_adu`] for tasks. Cancelled, no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_adu`].
    pub async fn recv_async(&self) -> Result<Option<Vec<u8>>> {
        self.receiving_adu().wait().await
    }

    /// Receives any ADU that is complete, with its index: those behind a lost one too.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn recv_any(&self) -> Result<Option<Indexed>> {
        self.receiving_any().block()
    }

    /// [`Connection::recv_any`] for tasks. Cancelled, no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_any`].
    pub async fn recv_any_async(&self) -> Result<Option<Indexed>> {
        self.receiving_any().wait().await
    }

    /// [`Connection::recv_any`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn poll_recv_any(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Indexed>>> {
        self.receiving_any().poll(cx)
    }

    /// Gives a buffer of [`Connection::recv_adu`] back, so that the next needs no allocation.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.call(|stack, id| stack.recycle(id, buffer));
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
        let id = self.held.id;
        let attempt = |state: &mut _, app: &mut A| recv_with(state, id, app, &mut done);
        block(&self.held.handle, Interest::Read(id), None, app, attempt)
    }

    /// [`Connection::recv_with`] for tasks: what the driver has received is copied. Cancelled, what was delivered to
    /// `app` stays delivered.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_with`].
    pub async fn recv_with_async<A: Application>(
        &self,
        app: &mut A,
        mut done: impl FnMut(&mut A) -> bool,
    ) -> Result<bool> {
        let attempt = |state: &mut _, id| recv_with(state, id, app, &mut done);
        self.ask(Interest::Read, attempt).wait().await
    }

    /// What may be done without waiting. Does not wait.
    pub fn readiness(&self) -> Readiness {
        let id = self.held.id;
        let now = |state: &mut State| state.readiness(id);
        let attempt = |state: &mut State, _: &mut ()| match now(state) {
            Readiness { readable: false, called: false, .. } => Poll::Pending,
            ready => Poll::Ready(ready),
        };
        let turn = |state: &mut State, _: &mut ()| state.stack.poll(&mut Keep);
        match self.held.handle.attempt(&mut (), turn, attempt) {
            Ok(Poll::Ready(ready)) => ready,
            // A call will tell why the device is broken.
            Ok(Poll::Pending) | Err(_) => self.held.handle.call(now),
        }
    }

    // ---- end ----------------------------------------------------------------------------------

    fn finishing(&self) -> Call<'_, impl Attempt<()>> {
        self.finish_sending();
        self.ask(Interest::Finish, |state, id| {
            // Nobody will ask for them.
            while let Some((_, buffer)) = state.any(id) {
                state.stack.recycle(id, buffer);
            }
            state.stack.flush();
            state.closed(id)
        })
    }

    /// Ends our side in order and waits until the peer has everything and has ended its own. What it sends
    /// until then is thrown away: who wants it calls [`Connection::finish_sending`] and receives to the end first.
    /// Of a peer that has ended, and has acknowledged all ADUs, it is not waited for longer than 3 seconds and 16 round trips that
    /// it says that our end has come: it says that once, and may have gone.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub fn finish(&self) -> Result<()> {
        self.finishing().block()
    }

    /// [`Connection::finish`], for at most so long. Our side has ended, and it may be called again.
    ///
    /// # Errors
    /// The errors of [`Connection::finish`]; [`Error::Elapsed`] when the peer has not ended in time.
    pub fn finish_timeout(&self, timeout: Duration) -> Result<()> {
        self.finishing().block_until(after(timeout))
    }

    /// [`Connection::finish`] for tasks. Cancelled, our side has ended, and it may be called again.
    ///
    /// # Errors
    /// The errors of [`Connection::finish`].
    pub async fn finish_async(&self) -> Result<()> {
        self.finishing().wait().await
    }

    /// Ends our side in order; the peer may go on. [`Connection::recv`] still works.
    pub fn finish_sending(&self) {
        self.call(|stack, id| {
            stack.finish(id);
            stack.flush();
        });
    }

    /// Gives the connection up, and says why in a number of the application's: the peer gets all that was sent
    /// before and then [`Error::PeerClosed`] with it, in an authenticated record. All calls here get
    /// [`Error::Closed`] from now on. Does not wait: [`Endpoint::wait_idle`](crate::Endpoint::wait_idle) does,
    /// before a program ends. After [`Connection::finish_sending`] nothing can be said, and the peer sees a reset.
    pub fn close(&self, code: u64) {
        self.call(|stack, id| stack.close(id, code));
    }

    fn closing(&self) -> Call<'_, impl Attempt<()>> {
        self.ask(Interest::Over, |state, id| state.closed(id))
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
        self.closing().block()
    }

    /// [`Connection::closed`] for tasks. Cancelled, nothing has changed.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub async fn closed_async(&self) -> Result<()> {
        self.closing().wait().await
    }
}

/// What came straight into the caller's memory, or what waits.
fn next_of(state: &mut State, one: &mut One<'_>) -> Poll<Result<Option<usize>>> {
    match one.got.take() {
        Some(len) => Poll::Ready(Ok(Some(len))),
        None => recv_into(state, one.id, one.memory),
    }
}

/// The next ADU that waits, copied to `memory`.
fn recv_into(
    state: &mut State,
    id: ConnectionId,
    memory: &mut [u8],
) -> Poll<Result<Option<usize>>> {
    let Some((_, buffer)) = state.next(id) else { return state.end_or_pending(id) };
    Poll::Ready(state.stack.copy_out(id, buffer, memory).map(Some))
}

/// The next ADU that waits, unmarshalled.
fn recv_message(
    state: &mut State,
    id: ConnectionId,
    into: &mut dyn Unmarshal,
) -> Poll<Result<Option<usize>>> {
    let Some((_, buffer)) = state.next(id) else { return state.end_or_pending(id) };
    unmarshal(&buffer, into);
    let len = buffer.len();
    state.stack.recycle(id, buffer);
    Poll::Ready(Ok(Some(len)))
}

/// What waits, into the memory of `app`.
fn recv_with<A: Application>(
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
    state.end_or_pending::<()>(id).map_ok(|more| more.is_some())
}

/// Time that is up is no error to who waits for anything.
pub(super) fn or_elapsed(waited: Result<()>) -> Result<()> {
    match waited {
        Err(Error::Elapsed) => Ok(()),
        other => other,
    }
}
