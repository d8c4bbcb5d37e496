//! The client's side of one connection, whatever carries it.

use super::first::Call;
use super::line::LinkChannel;
use super::race::{self, Patience, Winner};
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN};
use crate::{Element, Error, Scratch, Turn};
use fusewire_base::Instant;
use fusewire_session::{Fingerprint, Options};
use fusewire_stack::byte_stream::{ByteStream, Connection};
use fusewire_stack::single::Single;
use fusewire_stack::{Clock, Link, Session, Stack, shm};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// How long an idle connection sleeps before it looks whether others have left work for it, or whether the
/// user wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long to wait for the peer's end after our own.
const CLOSE_WAIT: Duration = Duration::from_secs(3);
/// Judges the server's key where the configuration has not.
pub type Judge<'a> = &'a mut dyn FnMut(Fingerprint) -> fusewire_stack::Result<()>;

/// Turns a machine once: its connection, the thread's buffers, the time.
pub type TurnFn<'a> =
    &'a mut dyn FnMut(&mut dyn Channel, &mut Scratch, Instant) -> Result<Turn, Error>;

/// An open connection to a server.
pub struct Client {
    link: Box<dyn Link>,
    peer: Fingerprint,
    options: Options,
    clock: Clock,
    missed: Option<fusewire_stack::Error>,
}

impl Client {
    /// Over a link whose peer has been judged, and which is still to be told the `rest` of what goes first.
    fn new(mut link: impl Link + 'static, rest: &[Vec<u8>]) -> fusewire_stack::Result<Client> {
        rest.iter().try_for_each(|adu| link.send(adu))?;
        let Session { peer, options, .. } = link.session();
        Ok(Client { link: Box::new(link), peer, options, clock: Clock::new(), missed: None })
    }

    /// Connects over a stack that has nothing else to do.
    ///
    /// # Errors
    /// What went wrong, and what `judge` returns.
    pub fn over_stack(
        stack: Stack,
        call: &Call<'_>,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let (opening, rest) = call.open(stack)?;
        Client::new(opening.connect(judge)?, rest)
    }

    /// Connects over a stack that has nothing else to do, and goes on over shared memory.
    ///
    /// # Errors
    /// As [`Client::over_stack`]; the server is on another host or does not want to. The configuration must ask for it.
    pub fn over_shared_memory(
        stack: Stack,
        call: &Call<'_>,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let (opening, rest) = call.open(stack)?;
        let mut single = opening.connect(judge)?;
        let shared = single.call_shared_memory()?;
        Client::of_shared_memory(single, shared, rest)
    }

    /// Over what there is: shared memory, if the configuration asks for it and the server has it; the stack; or kernel
    /// TCP, where the stack's device is not answered and kernel TCP is.
    ///
    /// # Errors
    /// As [`Client::over_stack`].
    pub fn over_the_best(
        stack: Stack,
        call: &Call<'_>,
        patience: Patience,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let (mut single, rest) = match race::connect(stack, call, patience)? {
            Winner::KernelTcp(connection, rest, missed) => {
                let client = Client::of_stream(*connection, rest, judge)?;
                return Ok(Client { missed, ..client });
            }
            Winner::Stack(opening, rest) => (opening.connect(judge)?, rest),
        };
        if call.config.shared_memory {
            match single.call_shared_memory() {
                Ok(shared) => return Client::of_shared_memory(single, shared, rest),
                Err(error) => tracing::debug!(%error, "going on over UDP"),
            }
        }
        Client::new(single, rest)
    }

    fn of_shared_memory(
        mut single: Single,
        shared: shm::Connection,
        rest: &[Vec<u8>],
    ) -> fusewire_stack::Result<Client> {
        // It has done its duty: the server may forget it.
        close(&mut single, &Clock::new());
        Client::new(shared, rest)
    }

    /// Connects over a kernel TCP socket, which may take as long as `patience`, and each step of the handshake
    /// too.
    ///
    /// # Errors
    /// What went wrong, and what `judge` returns.
    pub fn over_kernel_tcp(
        call: &Call<'_>,
        patience: Duration,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let connection = race::over_kernel_tcp(call, patience)?;
        Client::of_stream(connection, call.rest_over_stream(), judge)
    }

    /// Goes on over a stream that is connected; each step of the handshake may take as long as `patience`.
    ///
    /// # Errors
    /// As [`Client::over_kernel_tcp`].
    pub fn over_stream(
        call: &Call<'_>,
        stream: impl ByteStream + 'static,
        patience: Duration,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let connection = race::over_stream(call, stream, patience)?;
        Client::of_stream(connection, call.rest_over_stream(), judge)
    }

    fn of_stream(
        connection: Connection<impl ByteStream + 'static>,
        rest: &[Vec<u8>],
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        if !connection.is_trusted() {
            judge(connection.session().peer)?;
        }
        Client::new(connection, rest)
    }

    /// The server's key.
    pub fn peer(&self) -> Fingerprint {
        self.peer
    }

    /// Why kernel TCP carries the records in place of the stack, if the stack's way failed.
    pub fn missed(&self) -> Option<&fusewire_stack::Error> {
        self.missed.as_ref()
    }

    /// What was agreed on.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The name of what carries the records.
    pub fn carrier(&self) -> &'static str {
        self.link.carrier()
    }

    /// What the device says of itself by now, where there is one.
    pub fn notes(&self) -> Vec<String> {
        self.link.notes()
    }

    /// What contents are marshalled as on this connection.
    pub fn element(&self) -> Element {
        Element::of_swap(self.options.element)
    }

    /// Turns a machine until it is finished, then waits for the peer's end. False if `stop` became true before:
    /// what was begun can be resumed.
    ///
    /// # Errors
    /// The connection broke, or the machine says that the peer broke the protocol.
    pub fn run(&mut self, stop: &AtomicBool, turn: TurnFn<'_>) -> Result<bool, Error> {
        let (mut scratch, clock, link) = (Scratch::new(), &self.clock, self.link.as_mut());
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            let done = turn(&mut LinkChannel(link), &mut scratch, now);
            let flushed = link.try_flush();
            let done = done.map_err(|error| reason(link, error))?;
            let _ = flushed.map_err(ChannelError::from)?;
            if done.finished {
                close(link, clock);
                return Ok(true);
            }
            if !done.worked {
                let timeout = done.wait_until.map_or(LOOK_EVERY, |at| at.saturating_since(now));
                wait(link, timeout.min(LOOK_EVERY))?;
            }
        }
        Ok(false)
    }
}

/// Everything has come: the peer's end is a courtesy, and its absence no error.
fn close(link: &mut dyn Link, clock: &Clock) {
    let deadline = clock.now() + CLOSE_WAIT;
    let (mut unwanted, mut has_ended) = (vec![0; MAX_ADU_LEN], false);
    loop {
        match link.try_finish() {
            Poll::Ready(Ok(())) => has_ended = true,
            Poll::Ready(Err(_)) => return,
            Poll::Pending => {}
        }
        let more = loop {
            match link.try_recv(&mut unwanted) {
                Poll::Ready(Ok(Some(_))) => {}
                Poll::Ready(_) => break false,
                Poll::Pending => break true,
            }
        };
        let left = deadline.saturating_since(clock.now());
        if has_ended && !more || left.is_zero() || link.wait(Some(left)).is_err() {
            return;
        }
    }
}

/// Waits; where the connection is over in order, the machine has not ended.
fn wait(link: &mut dyn Link, timeout: Duration) -> Result<(), Error> {
    match link.wait(Some(timeout)) {
        Err(fusewire_stack::Error::Closed) => Err(Error::Ended),
        waited => waited.map_err(|error| ChannelError::from(error).into()),
    }
}

/// That a connection is closed says little; the link knows why.
fn reason(link: &mut dyn Link, error: Error) -> Error {
    match error {
        Error::Channel(_) | Error::Ended => wait(link, Duration::ZERO).err().unwrap_or(error),
        error => error,
    }
}
