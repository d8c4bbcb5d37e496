//! The client's side of one connection, whatever carries it.

use super::line::LinkChannel;
use super::race::{self, Patience, Winner};
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN};
use crate::{Element, Error, Scratch, Turn};
use fusewire_base::Instant;
use fusewire_session::{ClientConfig, Fingerprint, Options};
use fusewire_stack::single::{Opening, Single};
use fusewire_stack::{Clock, Link, Session, Stack, kernel_tcp, shm};
use std::net::SocketAddr;
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
}

impl Client {
    /// Over a link whose peer has been judged.
    fn new(link: impl Link + 'static) -> Client {
        let Session { peer, options, .. } = link.session();
        Client { link: Box::new(link), peer, options, clock: Clock::new() }
    }

    /// Connects over a stack that has nothing else to do.
    ///
    /// # Errors
    /// What went wrong, and what `judge` returns.
    pub fn over_stack(
        stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        Ok(Client::new(Opening::new(stack, remote, config)?.connect(judge)?))
    }

    /// Connects over a stack that has nothing else to do, and goes on over shared memory.
    ///
    /// # Errors
    /// As [`Client::over_stack`]; the server is on another host or does not want to. `config` must ask for it.
    pub fn over_shared_memory(
        stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let mut single = Opening::new(stack, remote, config)?.connect(judge)?;
        let shared = single.call_shared_memory()?;
        Ok(Client::of_shared_memory(single, shared))
    }

    /// Over what there is: shared memory, if `config` asks for it and the server has it; the stack; or kernel TCP,
    /// where the stack's device is not answered and kernel TCP is.
    ///
    /// # Errors
    /// As [`Client::over_stack`].
    pub fn over_the_best(
        stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
        patience: Patience,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        let mut single = match race::connect(stack, remote, config, patience)? {
            Winner::KernelTcp(connection) => return Client::of_kernel_tcp(*connection, judge),
            Winner::Stack(opening) => opening.connect(judge)?,
        };
        if config.shared_memory {
            match single.call_shared_memory() {
                Ok(shared) => return Ok(Client::of_shared_memory(single, shared)),
                Err(error) => tracing::debug!(%error, "going on over UDP"),
            }
        }
        Ok(Client::new(single))
    }

    fn of_shared_memory(mut single: Single, shared: shm::Connection) -> Client {
        // It has done its duty: the server may forget it.
        close(&mut single, &Clock::new());
        Client::new(shared)
    }

    /// Connects over a kernel TCP socket, which may take as long as `patience`, and each step of the handshake
    /// too.
    ///
    /// # Errors
    /// What went wrong, and what `judge` returns.
    pub fn over_kernel_tcp(
        remote: SocketAddr,
        config: &ClientConfig,
        patience: Duration,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        Client::of_kernel_tcp(race::over_kernel_tcp(remote, config, patience)?, judge)
    }

    fn of_kernel_tcp(
        connection: kernel_tcp::Connection,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Client> {
        if !connection.is_trusted() {
            judge(connection.session().peer)?;
        }
        Ok(Client::new(connection))
    }

    /// The server's key.
    pub fn peer(&self) -> Fingerprint {
        self.peer
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
