//! Calls beside the ADUs of a connection over XTP, in the words of C: each that was begun, and each of the peer's, is a
//! descriptor of its own, whose message in is received and whose message out is sent as an ADU is.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fusewire_stack::{CallId, Connection, Error, PeerCall, Readiness};

use super::{Patience, failed};
use crate::errno::{Errno, Result};
use crate::open;

/// One call.
pub enum Call {
    Ours(Ours),
    Peers(Peers),
}

/// One that we have begun.
pub struct Ours {
    /// Who closes its descriptor has it closed, whatever is under way.
    connection: Weak<Connection>,
    call: CallId,
    answer: Mutex<Answer>,
}

enum Answer {
    Awaited,
    Here(fusewire_stack::Result<Vec<u8>>),
    Received,
}

/// One of the peer's.
pub struct Peers {
    /// Until it is received.
    request: Mutex<Option<Vec<u8>>>,
    /// Until it is answered; what is dropped is refused.
    call: Mutex<Option<PeerCall>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies a message to `out`; its length.
///
/// # Errors
/// `EMSGSIZE`.
fn copy(message: &[u8], out: &mut [u8]) -> Result<usize> {
    let (len, room) = (message.len(), out.len());
    let place = out.get_mut(..len).ok_or_else(|| failed(Error::NoRoom { len, room }))?;
    place.copy_from_slice(message);
    Ok(len)
}

/// Why there is no answer, where the connection goes on.
fn unanswered(error: Error) -> Errno {
    match error {
        Error::Reset(_) => {
            open::tell("the peer's application does not answer the call".to_string());
            Errno(libc::ECONNREFUSED)
        }
        error => failed(error),
    }
}

impl Call {
    /// The next of the peer's.
    ///
    /// # Errors
    /// `ENODATA` after its end, while none waits; `EAGAIN`, `EBADF`, what ended the connection.
    pub fn next(connection: &Connection, patience: &Patience<'_>) -> Result<Call> {
        let call = patience.each_turn(|turn| connection.next_call_timeout(turn))?;
        let mut call = call.ok_or(Errno(libc::ENODATA))?;
        let request = Mutex::new(Some(call.take_request()));
        Ok(Call::Peers(Peers { request, call: Mutex::new(Some(call)) }))
    }

    /// Receives the answer, or the request; its length. Where it does not fit it stays.
    ///
    /// # Errors
    /// `ENODATA` once it was received, `EMSGSIZE`, `EAGAIN`, `EBADF`; of an answer, why there is none.
    pub fn recv(&self, out: &mut [u8], patience: &Patience<'_>) -> Result<usize> {
        match self {
            Call::Ours(ours) => ours.recv(out, patience),
            Call::Peers(peers) => {
                let mut request = lock(&peers.request);
                let len = copy(request.as_ref().ok_or(Errno(libc::ENODATA))?, out)?;
                *request = None;
                Ok(len)
            }
        }
    }

    /// Answers it; the answer's length.
    ///
    /// # Errors
    /// `EPIPE` for one of ours, for one that was answered, and where the connection was closed here; `EMSGSIZE`, after which it
    /// is refused; what ended the connection.
    pub fn send(&self, answer: &[u8]) -> Result<usize> {
        let call = match self {
            Call::Ours(_) => None,
            Call::Peers(peers) => lock(&peers.call).take(),
        };
        call.ok_or(Errno(libc::EPIPE))?.answer(answer).map_err(failed)?;
        Ok(answer.len())
    }

    /// What is the case now.
    pub fn readiness(&self) -> Readiness {
        match self {
            Call::Ours(ours) => ours.readiness(),
            Call::Peers(peers) => {
                let (readable, writable) =
                    (lock(&peers.request).is_some(), lock(&peers.call).is_some());
                Readiness { readable, writable, called: false, over: !writable }
            }
        }
    }
}

impl Ours {
    /// Begins it.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EAGAIN` while too many are under way, `EBADF`, what ended the connection.
    pub fn begin(
        connection: &Arc<Connection>,
        request: &[u8],
        patience: &Patience<'_>,
    ) -> Result<Ours> {
        let call = patience.each_turn(|turn| connection.begin_call_timeout(request, turn))?;
        let connection = Arc::downgrade(connection);
        Ok(Ours { connection, call, answer: Mutex::new(Answer::Awaited) })
    }

    /// Waits for a turn at most until it is known what became of it.
    fn look(&self, turn: Duration) -> fusewire_stack::Result<()> {
        let is_awaited = matches!(*lock(&self.answer), Answer::Awaited);
        if is_awaited {
            // Not locked: who polls looks meanwhile, too, and is told that nothing has come.
            let connection = self.connection.upgrade().ok_or(Error::Closed)?;
            let answer = connection.answer_to(self.call, turn)?;
            *lock(&self.answer) = Answer::Here(answer);
        }
        Ok(())
    }

    /// Receives the answer; its length. Where it does not fit it stays.
    ///
    /// # Errors
    /// `ENODATA` once it was received, `EMSGSIZE`, `EAGAIN`, `EBADF`; `ECONNREFUSED` and `ETIMEDOUT` when there is none; what
    /// ended the connection.
    pub fn recv(&self, out: &mut [u8], patience: &Patience<'_>) -> Result<usize> {
        patience.each_turn(|turn| self.look(turn))?;
        let mut answer = lock(&self.answer);
        let len = match &*answer {
            Answer::Here(Ok(message)) => copy(message, out)?,
            Answer::Here(Err(error)) => return Err(unanswered(error.clone())),
            Answer::Awaited | Answer::Received => return Err(Errno(libc::ENODATA)),
        };
        *answer = Answer::Received;
        Ok(len)
    }

    fn readiness(&self) -> Readiness {
        let is_over = match self.look(Duration::ZERO) {
            Err(Error::Elapsed) => return Readiness::default(),
            Err(_) => true,
            Ok(()) => !matches!(*lock(&self.answer), Answer::Here(Ok(_))),
        };
        Readiness { readable: true, writable: false, called: false, over: is_over }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.cancel_call(self.call);
        }
    }
}
