//! Connecting where it is not known what gets through: over the stack's device, and if that is not answered at
//! once over kernel TCP too. Whichever is there first carries the records (RFC 8305, section 5).

use super::first::Call;
use fusewire_stack::byte_stream::{ByteStream, Connection};
use fusewire_stack::single::Opening;
use fusewire_stack::{Clock, Error, Result, Stack, kernel_tcp};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// How long each way may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// When kernel TCP is tried too, if the other way has not been answered: the Connection Attempt Delay of RFC
    /// 8305, section 8.
    pub head_start: Duration,
    /// How long kernel TCP may take, and each step of its handshake too. The stack has its own time.
    pub kernel_tcp: Duration,
}

impl Patience {
    /// The head start that RFC 8305 recommends.
    pub const fn new(kernel_tcp: Duration) -> Patience {
        Patience { head_start: Duration::from_millis(250), kernel_tcp }
    }
}

/// Which way was there first, and what is left to be told it.
pub(super) enum Winner<'a> {
    Stack(Box<Opening>, &'a [Vec<u8>]),
    /// Besides, what the stack's way met, if it has failed.
    KernelTcp(Box<kernel_tcp::Connection>, &'a [Vec<u8>], Option<Error>),
}

/// Connects both ways; nobody has judged the server's key yet.
///
/// # Errors
/// What the stack's way met, if the other does not lead there either; what is wrong with the session.
pub(super) fn connect<'a>(stack: Stack, call: &Call<'a>, patience: Patience) -> Result<Winner<'a>> {
    let clock = Clock::new();
    let until = clock.now() + patience.head_start;
    let (mut opening, rest) = call.open(stack)?;
    let mut other: Option<Receiver<Result<kernel_tcp::Connection>>> = None;
    let mut other_failed = false;
    loop {
        let left = until.saturating_since(clock.now());
        let failed = match opening.poll(other.is_none().then_some(left)) {
            Ok(true) => return Ok(Winner::Stack(Box::new(opening), rest)),
            Ok(false) => None,
            Err(error) if !is_unreached(&error) || other_failed => return Err(error),
            Err(error) => Some(error),
        };
        if other.is_none() && (failed.is_some() || left.is_zero()) {
            other = Some(begin_kernel_tcp(call, patience.kernel_tcp, &opening));
        }
        let Some(answer) = &other else { continue };
        let answer = match (&failed, other_failed) {
            (_, true) => continue,
            (Some(_), _) => answer.recv().map_err(|_| TryRecvError::Disconnected),
            (None, _) => answer.try_recv(),
        };
        match answer {
            Ok(Ok(connection)) => {
                opening.abort();
                let rest = call.rest_over_stream();
                return Ok(Winner::KernelTcp(Box::new(connection), rest, failed));
            }
            // What the session's other end says counts, whatever carried it.
            Ok(Err(error)) if matches!(error, Error::Session(_)) => return Err(error),
            Ok(Err(error)) => {
                tracing::debug!(%error, "not over kernel TCP either");
                other_failed = true;
            }
            Err(TryRecvError::Disconnected) => other_failed = true,
            Err(TryRecvError::Empty) => {}
        }
        if let Some(error) = failed.filter(|_| other_failed) {
            return Err(error);
        }
    }
}

/// It is not known that anybody is there; another way may lead to him.
fn is_unreached(error: &Error) -> bool {
    matches!(
        error,
        Error::TimedOut(_)
            | Error::Unreachable(_)
            | Error::Refused(_)
            | Error::OtherTransport { .. }
            | Error::Reset(_)
            | Error::Os { .. }
            | Error::Closed
    )
}

/// Begins a thread that connects, and wakes the stack when it is through. Who does not wait for it loses nothing.
fn begin_kernel_tcp(
    call: &Call<'_>,
    patience: Duration,
    opening: &Opening,
) -> Receiver<Result<kernel_tcp::Connection>> {
    let (sender, receiver) = channel();
    let (remote, config, first) = (call.remote, call.config.clone(), call.first.to_vec());
    let waker = opening.waker();
    let spawned = std::thread::Builder::new().name("kernel-tcp".into()).spawn(move || {
        let call = Call { remote, config: &config, first: &first };
        let _ = sender.send(over_kernel_tcp(&call, patience));
        waker.wake();
    });
    if let Err(error) = spawned {
        tracing::debug!(%error, "cannot start a thread");
    }
    receiver
}

/// A session over a kernel TCP socket.
///
/// # Errors
/// What went wrong.
pub(super) fn over_kernel_tcp(
    call: &Call<'_>,
    patience: Duration,
) -> Result<kernel_tcp::Connection> {
    let stream = TcpStream::connect_timeout(&call.remote, patience);
    let stream = stream.map_err(Error::os("connecting"))?;
    over_stream(call, stream, patience)
}

/// A session over a stream, each step of whose handshake may take as long as `patience`.
///
/// # Errors
/// What went wrong.
pub(super) fn over_stream<S: ByteStream>(
    call: &Call<'_>,
    stream: S,
    patience: Duration,
) -> Result<Connection<S>> {
    stream.set_timeouts(Some(patience)).map_err(Error::os("setting a timeout"))?;
    let connection = call.over(stream)?;
    connection.stream().set_timeouts(None).map_err(Error::os("setting a timeout"))?;
    connection.give_up_silent()?;
    Ok(connection)
}
