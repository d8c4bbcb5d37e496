//! What an endpoint's callers share: the stack, and of each connection what those who wait for it must know.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::task::{Poll, Waker};
use std::time::Duration;

use fusewire_session::{Fingerprint, Options, ServerConfig};
use fusewire_transport::machine::Secrets;

use crate::application::Keep;
use crate::calls::{Answer, CallId, place_of};
use crate::connection::Event;
use crate::driver::{Machine, Waiters, Wakes};
use crate::stack::Stack;
use crate::{ConnectionId, Error, Result};

/// What a caller waits for.
#[derive(Clone, Copy, Debug)]
pub enum Interest {
    /// Nothing but the time.
    Time,
    /// A connection to accept.
    Arrival,
    /// That all connections have ended.
    Idle,
    /// ADUs, or the peer's end.
    Read(ConnectionId),
    /// Room to send.
    Write(ConnectionId),
    /// That the handshake is complete, or the connection over.
    Over(ConnectionId),
    /// Both the peer's ADUs and the end.
    Finish(ConnectionId),
    /// Calls, those of ours that are answered and those of the peer's.
    Calls(ConnectionId),
    /// ADUs, room to send, the end.
    Any(ConnectionId),
}

/// What a handshake has led to.
#[derive(Clone, Copy)]
pub struct Connected {
    pub peer: Fingerprint,
    pub trusted: bool,
    pub options: Options,
}

/// What may be done with a connection without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is an ADU, or the peer's end, or an error.
    pub readable: bool,
    /// There is room for an ADU, a short one at least, or an error.
    pub writable: bool,
    /// The peer calls: there is something for [`Connection::next_call`](super::Connection::next_call).
    pub called: bool,
    /// Nothing more is sent or comes that is not here.
    pub over: bool,
}

/// A connection that was accepted.
pub type Arrival = (ConnectionId, Connected);

/// One connection, as those who wait see it.
#[derive(Default)]
struct Status {
    connected: Option<Connected>,
    finished: bool,
    /// There may be room again where there was none, and nobody who sleeps for anything has been told.
    has_room: bool,
    /// It is over, and why if not in order.
    over: Option<Option<Error>>,
    /// ADUs that had come when it ended: in order, and behind a lost one.
    left: VecDeque<(u64, Vec<u8>)>,
    loose: VecDeque<(u64, Vec<u8>)>,
    /// What had become by then of calls that were begun.
    answers: VecDeque<(CallId, Answer)>,
    readers: Waiters,
    writers: Waiters,
    others: Waiters,
}

impl Status {
    fn waiters(&mut self) -> [&mut Waiters; 3] {
        [&mut self.readers, &mut self.writers, &mut self.others]
    }

    fn wake(&mut self, wakes: &mut Wakes) {
        self.waiters().into_iter().for_each(|waiters| waiters.wake(wakes));
    }
}

/// For names of connections, which a stack gives and no peer chooses: who waits asks for one in each turn.
#[derive(Default)]
struct IdHash(u64);

impl Hasher for IdHash {
    fn finish(&self) -> u64 {
        // Both halves of the product, as a table looks at the lowest bits and the highest (the odd number is the golden ratio's).
        let product = u128::from(self.0) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u32(&mut self, part: u32) {
        self.0 = self.0 << 32 | u64::from(part);
    }
}

/// What lies behind the endpoint's lock.
pub struct State {
    pub stack: Stack,
    statuses: HashMap<ConnectionId, Status, BuildHasherDefault<IdHash>>,
    /// Connections of the listener that nobody has accepted.
    arrived: VecDeque<ConnectionId>,
    /// Number of the listener whose connections are accepted, while there is one.
    listener: Option<u64>,
    /// Listeners that there were.
    listeners: u64,
    /// `true` once the endpoint is closed.
    is_closed: bool,
    /// `true` if a call has ended the waits of others, who have not been notified.
    has_ended: bool,
    acceptors: Waiters,
    idlers: Waiters,
}

impl State {
    pub fn new(stack: Stack) -> State {
        State {
            stack,
            statuses: HashMap::default(),
            arrived: VecDeque::new(),
            listener: None,
            listeners: 0,
            is_closed: false,
            has_ended: false,
            acceptors: Waiters::default(),
            idlers: Waiters::default(),
        }
    }

    /// A connection that this side opens.
    pub fn opened(&mut self, id: ConnectionId) {
        self.statuses.insert(id, Status::default());
    }

    /// Nobody will ask for the connection any more.
    pub fn forget(&mut self, id: ConnectionId, wakes: &mut Wakes) {
        self.stack.abort(id);
        if let Some(mut status) = self.statuses.remove(&id) {
            status.waiters().into_iter().for_each(|waiters| waiters.retire(wakes));
        }
    }

    /// Takes connections from now on, and returns the listener's number.
    pub fn listen(&mut self, port: u16, server: ServerConfig, secrets: &Secrets) -> Result<u64> {
        self.check_open()?;
        if self.stack.is_listening() {
            return Err(Error::Misuse(
                "this endpoint listens already: drop or close its listener first",
            ));
        }
        self.stack.listen(port, server, secrets);
        self.listeners += 1;
        self.listener = Some(self.listeners);
        Ok(self.listeners)
    }

    /// Ends a listener, unless it has ended: connections that were not accepted are reset, and callers in `accept` get
    /// [`Error::Closed`].
    pub fn stop_listening(&mut self, listener: u64, wakes: &mut Wakes) {
        if self.listener != Some(listener) {
            return;
        }
        self.listener = None;
        self.has_ended = true;
        self.stack.stop_listening();
        self.acceptors.wake(wakes);
        for id in std::mem::take(&mut self.arrived) {
            self.forget(id, wakes);
        }
    }

    /// # Errors
    /// [`Error::Closed`] after [`State::close`].
    pub fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::Closed) } else { Ok(()) }
    }

    /// Closes every connection with `code`, and ends the listener; there are no new connections.
    pub fn close(&mut self, code: u64, wakes: &mut Wakes) {
        self.is_closed = true;
        let open = self.statuses.iter().filter(|(_, status)| status.over.is_none());
        let open: Vec<_> = open.map(|(id, _)| *id).collect();
        for id in open {
            self.stack.close(id, code);
        }
        // Their peers get the code too, instead of a reset.
        for id in std::mem::take(&mut self.arrived) {
            self.statuses.remove(&id);
        }
        if let Some(listener) = self.listener {
            self.stop_listening(listener, wakes);
        }
        self.stack.flush();
    }

    pub fn next_arrival(&mut self, listener: u64) -> Poll<Result<Arrival>> {
        if self.listener != Some(listener) {
            return Poll::Ready(Err(Error::Closed));
        }
        while let Some(id) = self.arrived.pop_front() {
            if let Some(connected) = self.statuses.get(&id).and_then(|s| s.connected) {
                return Poll::Ready(Ok((id, connected)));
            }
        }
        Poll::Pending
    }

    pub fn connected(&mut self, id: ConnectionId) -> Poll<Result<Connected>> {
        match self.statuses.get(&id).and_then(|s| s.connected) {
            Some(connected) => Poll::Ready(Ok(connected)),
            None => self.pending(id),
        }
    }

    /// The next ADU in order.
    pub fn next(&mut self, id: ConnectionId) -> Option<(u64, Vec<u8>)> {
        self.stack.recv(id).or_else(|| self.statuses.get_mut(&id)?.left.pop_front())
    }

    /// Any ADU.
    pub fn any(&mut self, id: ConnectionId) -> Option<(u64, Vec<u8>)> {
        self.stack.recv_any(id).or_else(|| {
            let status = self.statuses.get_mut(&id)?;
            status.left.pop_front().or_else(|| status.loose.pop_front())
        })
    }

    /// What became of a call, or of any.
    pub fn take_answer(
        &mut self,
        id: ConnectionId,
        call: Option<CallId>,
    ) -> Option<(CallId, Answer)> {
        self.stack.take_answer(id, call).or_else(|| {
            let answers = &mut self.statuses.get_mut(&id)?.answers;
            answers.remove(place_of(answers, call)?)
        })
    }

    /// Nobody wants to know any more what becomes of a call. True when its answer had come.
    pub fn cancel_call(&mut self, id: ConnectionId, call: CallId) -> bool {
        let mut had_come = self.stack.cancel_call(id, call);
        if let Some(status) = self.statuses.get_mut(&id) {
            status.answers.retain(|(answered, answer)| {
                had_come |= *answered == call && answer.is_ok();
                *answered != call
            });
        }
        had_come
    }

    /// Why the connection is over; pending while it is not.
    pub fn pending<T>(&self, id: ConnectionId) -> Poll<Result<T>> {
        match self.statuses.get(&id).map(|s| &s.over) {
            Some(None) => Poll::Pending,
            Some(Some(Some(error))) => Poll::Ready(Err(error.clone())),
            Some(Some(None)) | None => Poll::Ready(Err(Error::Closed)),
        }
    }

    pub fn readiness(&mut self, id: ConnectionId) -> Readiness {
        let Some(status) = self.statuses.get(&id) else { return Readiness::default() };
        let over = status.over.is_some();
        let has_ended = over || status.finished || !status.left.is_empty();
        Readiness {
            readable: has_ended || self.stack.has_next(id),
            writable: over || self.stack.room_for(id, 1) > 0,
            called: self.stack.has_call(id),
            over,
        }
    }

    /// `None` once the peer has ended in order.
    pub fn end_or_pending<T>(&self, id: ConnectionId) -> Poll<Result<Option<T>>> {
        match self.statuses.get(&id) {
            Some(status) if status.finished => Poll::Ready(Ok(None)),
            _ => self.pending(id),
        }
    }

    /// Both sides ended, in order or not.
    pub fn closed(&self, id: ConnectionId) -> Poll<Result<()>> {
        match self.statuses.get(&id).map(|s| &s.over) {
            Some(Some(None)) => Poll::Ready(Ok(())),
            _ => self.pending(id),
        }
    }

    /// Sends by `send`, which says whether there was room, and lets it leave; ready with why the connection is over.
    pub fn send(
        &mut self,
        id: ConnectionId,
        send: impl FnOnce(&mut Stack) -> Result<bool>,
    ) -> Poll<Result<()>> {
        let sent = send(&mut self.stack);
        self.stack.flush();
        match sent {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => self.pending(id),
            Err(error) => self.cause(id, error),
        }
    }

    /// [`State::first_cause`], for who waits.
    pub fn cause<T>(&self, id: ConnectionId, error: Error) -> Poll<Result<T>> {
        Poll::Ready(Err(self.first_cause(id, error)))
    }

    /// An error; or the first cause, where it only says that the connection is gone.
    pub fn first_cause(&self, id: ConnectionId, error: Error) -> Error {
        match (error, self.statuses.get(&id).map(|s| &s.over)) {
            (Error::Closed, Some(Some(Some(first)))) => first.clone(),
            (error, _) => error,
        }
    }

    fn take_event(&mut self, id: ConnectionId, event: Event, wakes: &mut Wakes) {
        let status = match self.statuses.entry(id) {
            Entry::Occupied(status) => status.into_mut(),
            Entry::Vacant(place) => match event {
                Event::Connected { .. } if self.stack.is_listening() => {
                    self.arrived.push_back(id);
                    self.acceptors.wake(wakes);
                    place.insert(Status::default())
                }
                // Its listener was dropped within the handshake.
                Event::Connected { .. } => return self.stack.abort(id),
                // A connection that never came to be, or that was dropped.
                _ => return,
            },
        };
        match event {
            Event::Connected { peer, trusted, options } => {
                status.connected = Some(Connected { peer, trusted, options });
                status.others.wake(wakes);
            }
            Event::Readable => status.readers.wake(wakes),
            Event::Writable => {
                status.has_room = true;
                status.writers.wake(wakes);
            }
            Event::Called | Event::Answered => status.others.wake(wakes),
            Event::Finished => {
                status.finished = true;
                status.readers.wake(wakes);
                status.others.wake(wakes);
            }
            Event::Closed(error) => {
                status.over = Some(error);
                // The stack forgets it soon, and what has come came before the end.
                status.left.extend(std::iter::from_fn(|| self.stack.recv(id)));
                status.loose.extend(std::iter::from_fn(|| self.stack.recv_any(id)));
                status.answers.extend(std::iter::from_fn(|| self.stack.take_answer(id, None)));
                status.wake(wakes);
            }
        }
    }

    /// Something has come of what [`Interest::Any`] waits for.
    pub fn news(&mut self, id: ConnectionId) -> Poll<Result<()>> {
        let Some(status) = self.statuses.get_mut(&id) else { return Poll::Ready(Ok(())) };
        let is_over = status.finished || status.over.is_some();
        if std::mem::take(&mut status.has_room) || is_over || self.stack.has_next(id) {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Those who wait for it, in up to three lists.
    fn waiters(&mut self, interest: Interest) -> [Option<&mut Waiters>; 3] {
        let id = match interest {
            Interest::Time => return [None, None, None],
            Interest::Arrival => return [Some(&mut self.acceptors), None, None],
            Interest::Idle => return [Some(&mut self.idlers), None, None],
            Interest::Read(id)
            | Interest::Write(id)
            | Interest::Over(id)
            | Interest::Finish(id)
            | Interest::Calls(id)
            | Interest::Any(id) => id,
        };
        let Some(status) = self.statuses.get_mut(&id) else { return [None, None, None] };
        let [readers, writers, others] = status.waiters().map(Some);
        match interest {
            Interest::Read(_) => [readers, None, None],
            Interest::Write(_) => [None, writers, None],
            Interest::Finish(_) => [readers, None, others],
            Interest::Any(_) => [readers, writers, others],
            _ => [None, None, others],
        }
    }
}

impl Machine for State {
    type Interest = Interest;
    type Error = Error;

    fn turn(&mut self) -> Result<bool> {
        self.stack.poll(&mut Keep)
    }

    fn dispatch(&mut self, wakes: &mut Wakes) -> bool {
        self.stack.flush_due();
        let mut any = std::mem::take(&mut self.has_ended);
        while let Some((id, event)) = self.stack.poll_event() {
            any = true;
            self.take_event(id, event, wakes);
        }
        if !self.idlers.is_empty() && self.stack.active() == 0 {
            self.idlers.wake(wakes);
        }
        any
    }

    fn wants_spin(&self) -> bool {
        self.stack.wants_spin()
    }

    fn rest(&mut self) {
        self.stack.rest();
    }

    fn nap(&mut self) -> Option<Duration> {
        self.stack.nap()
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.stack.next_timeout()
    }

    fn register(&mut self, interest: Interest, key: u64, waker: &Waker, wakes: &mut Wakes) {
        self.waiters(interest).into_iter().flatten().for_each(|w| w.register(key, waker, wakes));
    }

    fn unregister(&mut self, interest: Interest, key: u64, wakes: &mut Wakes) {
        self.waiters(interest).into_iter().flatten().for_each(|w| w.unregister(key, wakes));
    }

    fn wake_all(&mut self, wakes: &mut Wakes) {
        self.acceptors.wake(wakes);
        self.idlers.wake(wakes);
        self.statuses.values_mut().for_each(|status| status.wake(wakes));
    }

    fn again(error: &Error) -> Error {
        error.clone()
    }

    fn sleep_failed(error: io::Error) -> Error {
        Error::os("waiting for the device")(error)
    }
}
