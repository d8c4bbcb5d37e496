//! Calls beside a connection's stream: each a request and its answer, in a packet each where they fit one. The connection's
//! transport is XTP.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use fusewire_session::Marshal;

use super::connection::Connection;
use super::state::{Interest, State};
use super::{Attempt, Call as Wait, Handle};
use crate::calls::{Asked, CallId};
use crate::driver::after;
use crate::stack::Stack;
use crate::{ConnectionId, Result};

/// A request of the peer's. It is answered, or when this is dropped, refused.
pub struct PeerCall {
    handle: Arc<Handle>,
    connection: ConnectionId,
    asked: Option<Asked>,
    request: Vec<u8>,
}

/// What has come of the peer's.
#[derive(Debug)]
pub enum Next {
    /// An ADU, and its place among those of the stream, from 0.
    Adu(u64, Vec<u8>),
    /// A call.
    Call(PeerCall),
}

/// Which of several that have come is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// ADUs come in order; otherwise as they are complete.
    pub in_order: bool,
    /// Calls come before ADUs. Who lets the two take turns keeps neither waiting for all of the other.
    pub calls_first: bool,
}

impl PeerCall {
    /// What the peer asks.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// What the peer asks, without a copy; [`PeerCall::request`] has nothing after that.
    pub fn take_request(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.request)
    }

    /// Answers it.
    ///
    /// # Errors
    /// [`Error::TooLong`](crate::Error::TooLong), after which it is refused; those of [`Connection::closed`], and
    /// [`Error::Closed`](crate::Error::Closed) where the connection is over in order or was dropped.
    pub fn answer(self, answer: &[u8]) -> Result<()> {
        self.answer_message(answer)
    }

    /// Answers it with a message that is marshalled in the one pass that seals it.
    ///
    /// # Errors
    /// The errors of [`PeerCall::answer`].
    pub fn answer_message<M: Marshal + ?Sized>(mut self, answer: &M) -> Result<()> {
        let id = self.connection;
        match self.asked.take() {
            Some(asked) => self.handle.call(|state| {
                let answered = state.stack.answer_call(id, asked, answer);
                answered.map_err(|error| state.first_cause(id, error))
            }),
            None => Ok(()),
        }
    }
}

impl Drop for PeerCall {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.handle.call(|state| state.stack.refuse_call(asked));
        }
    }
}

impl std::fmt::Debug for PeerCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerCall").field("len", &self.request.len()).finish_non_exhaustive()
    }
}

impl Connection {
    // ---- ours

    fn beginning<M: Marshal + ?Sized>(&self, request: &M) -> Wait<'_, impl Attempt<CallId>> {
        self.ask(Interest::Calls, move |state, id| match state.stack.begin_call(id, request) {
            Ok(Some(call)) => Poll::Ready(Ok(call)),
            Ok(None) => state.pending(id),
            Err(error) => state.cause(id, error),
        })
    }

    fn answering(&self, call: CallId) -> Wait<'_, impl Attempt<Result<Vec<u8>>>> {
        self.ask(Interest::Calls, move |state, id| match state.take_answer(id, Some(call)) {
            Some((_, answer)) => Poll::Ready(Ok(answer)),
            None => state.pending(id),
        })
    }

    fn any_answer(&self) -> Wait<'_, impl Attempt<(CallId, Result<Vec<u8>>)>> {
        self.ask(Interest::Calls, |state, id| match state.take_answer(id, None) {
            Some(answer) => Poll::Ready(Ok(answer)),
            None => state.pending(id),
        })
    }

    /// Calls the peer's application: it gets `request`, and what it answers is returned. Beside the stream: what is lost of
    /// that does not hold a call up, nor the other way round, and calls overtake each other. A request of at most
    /// [`Connection::call_len_max`] bytes whose answer fits one packet costs one packet each way, if it does too. The peer's
    /// application gets a request once, or never; when none is returned it may have got it.
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) where the transport is not XTP, or the cipher has no tag; `TooLong`; `Reset`
    /// when the peer's application does not answer; `TimedOut` when nobody does; those of [`Connection::closed`].
    pub fn call_peer(&self, request: &[u8]) -> Result<Vec<u8>> {
        self.call_until(request, None)
    }

    /// [`Connection::call_peer`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::call_peer`]; `Elapsed`.
    pub fn call_peer_timeout(&self, request: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        self.call_until(request, after(timeout))
    }

    /// [`Connection::call_peer_timeout`], of a message that is marshalled in the one pass that seals it; `None`: however long
    /// it takes.
    ///
    /// # Errors
    /// The errors of [`Connection::call_peer_timeout`].
    pub fn call_peer_message<M: Marshal + ?Sized>(
        &self,
        request: &M,
        timeout: Option<Duration>,
    ) -> Result<Vec<u8>> {
        self.call_until(request, timeout.and_then(after))
    }

    fn call_until<M: Marshal + ?Sized>(
        &self,
        request: &M,
        deadline: Option<Instant>,
    ) -> Result<Vec<u8>> {
        let mut begun = Begun { connection: self, call: None };
        let call = &mut begun.call;
        let answered = self.ask(Interest::Calls, |state, id| {
            if call.is_none() {
                match state.stack.begin_call(id, request) {
                    Ok(None) => return state.pending(id),
                    Ok(begun) => *call = begun,
                    Err(error) => return state.cause(id, error),
                }
            }
            match state.take_answer(id, *call) {
                Some((_, answer)) => {
                    *call = None;
                    Poll::Ready(answer)
                }
                None => state.pending(id),
            }
        });
        answered.block_until(deadline)
    }

    /// [`Connection::call_peer`] for tasks. Cancelled, the peer's application may get the request.
    ///
    /// # Errors
    /// The errors of [`Connection::call_peer`].
    pub async fn call_peer_async(&self, request: &[u8]) -> Result<Vec<u8>> {
        let call = self.beginning(request).wait().await?;
        let mut begun = Begun { connection: self, call: Some(call) };
        let answer = self.answering(call).wait().await?;
        begun.call = None;
        answer
    }

    /// Begins a call, with a message that is marshalled in the one pass that seals it; waits only while 256 are under way or
    /// have an answer that nobody has taken: who begins more than that takes answers between, or waits for ever.
    /// [`Connection::next_answer`] or [`Connection::answer_to`] gives what becomes of it.
    ///
    /// # Errors
    /// The errors of [`Connection::call_peer`].
    pub fn begin_call<M: Marshal + ?Sized>(&self, request: &M) -> Result<CallId> {
        self.beginning(request).block()
    }

    /// [`Connection::begin_call`], which waits for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::begin_call`]; `Elapsed`.
    pub fn begin_call_timeout<M: Marshal + ?Sized>(
        &self,
        request: &M,
        timeout: Duration,
    ) -> Result<CallId> {
        self.beginning(request).block_until(after(timeout))
    }

    /// What became of a call that was begun, for at most so long: the answer, or why there is none. Told once.
    ///
    /// # Errors
    /// Those of [`Connection::closed`]; `Elapsed`.
    pub fn answer_to(&self, call: CallId, timeout: Duration) -> Result<Result<Vec<u8>>> {
        self.answering(call).block_until(after(timeout))
    }

    /// What became of one of the calls that were begun, for at most so long.
    ///
    /// # Errors
    /// Those of [`Connection::closed`]; `Elapsed`.
    pub fn next_answer(&self, timeout: Option<Duration>) -> Result<(CallId, Result<Vec<u8>>)> {
        self.any_answer().block_until(timeout.and_then(after))
    }

    /// [`Connection::next_answer`] for tasks. Cancelled, none is lost.
    ///
    /// # Errors
    /// Those of [`Connection::closed`].
    pub async fn next_answer_async(&self) -> Result<(CallId, Result<Vec<u8>>)> {
        self.any_answer().wait().await
    }

    /// Nobody wants to know any more what becomes of a call. True when its answer had come, and was not taken.
    pub fn cancel_call(&self, call: CallId) -> bool {
        self.held.handle.call(|state| state.cancel_call(self.held.id, call))
    }

    /// The longest request of a call, in bytes, on this path now.
    ///
    /// # Errors
    /// The errors of [`Connection::call_peer`].
    pub fn call_len_max(&self) -> Result<usize> {
        self.call(Stack::call_len_max)
    }

    /// The longest answer, in bytes.
    ///
    /// # Errors
    /// The errors of [`Connection::call_peer`].
    pub fn answer_len_max(&self) -> Result<usize> {
        self.call(Stack::answer_len_max)
    }

    // ---- the peer's

    fn take_call(&self, state: &mut State, connection: ConnectionId) -> Option<PeerCall> {
        let (asked, request) = state.stack.next_call(connection)?;
        let handle = self.held.handle.clone();
        Some(PeerCall { handle, connection, asked: Some(asked), request })
    }

    fn asked(&self) -> Wait<'_, impl Attempt<Option<PeerCall>>> {
        self.ask(Interest::Calls, |state, id| match self.take_call(state, id) {
            Some(call) => Poll::Ready(Ok(Some(call))),
            None => state.end_or_pending(id),
        })
    }

    fn coming(&self, turn: Turn) -> Wait<'_, impl Attempt<Option<Next>>> {
        // What waits for both and the end.
        self.ask(Interest::Finish, move |state, id| {
            let adu = |state: &mut State| {
                let adu = if turn.in_order { state.next(id) } else { state.any(id) };
                adu.map(|(index, adu)| Next::Adu(index, adu))
            };
            let call = |state: &mut State| self.take_call(state, id).map(Next::Call);
            let next = match turn.calls_first {
                true => call(state).or_else(|| adu(state)),
                false => adu(state).or_else(|| call(state)),
            };
            match next {
                Some(next) => Poll::Ready(Ok(Some(next))),
                None => state.end_or_pending(id),
            }
        })
    }

    /// What the peer sends or asks next, for at most so long; `None` once it has ended its stream and nothing waits here. A
    /// call that was lost on the way may still come after that.
    ///
    /// # Errors
    /// Those of [`Connection::closed`]; `Elapsed`.
    pub fn next(&self, turn: Turn, timeout: Option<Duration>) -> Result<Option<Next>> {
        self.coming(turn).block_until(timeout.and_then(after))
    }

    /// [`Connection::next`] for tasks. Cancelled, nothing is lost.
    ///
    /// # Errors
    /// Those of [`Connection::closed`].
    pub async fn next_async(&self, turn: Turn) -> Result<Option<Next>> {
        self.coming(turn).wait().await
    }

    /// The next call of the peer's; `None` once it has ended its stream and none waits here. One that was lost on the way may
    /// still come after that: who ends his stream has his answers before, if he wants them.
    ///
    /// # Errors
    /// Those of [`Connection::closed`].
    pub fn next_call(&self) -> Result<Option<PeerCall>> {
        self.asked().block()
    }

    /// [`Connection::next_call`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Connection::next_call`]; `Elapsed`.
    pub fn next_call_timeout(&self, timeout: Duration) -> Result<Option<PeerCall>> {
        self.asked().block_until(after(timeout))
    }

    /// [`Connection::next_call`] for tasks. Cancelled, no call is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::next_call`].
    pub async fn next_call_async(&self) -> Result<Option<PeerCall>> {
        self.asked().wait().await
    }
}

/// A call that is cancelled when nobody waits for it any more.
struct Begun<'a> {
    connection: &'a Connection,
    call: Option<CallId>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.connection.cancel_call(call);
        }
    }
}
