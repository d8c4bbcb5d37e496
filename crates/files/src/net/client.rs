//! The client's side of one connection, whatever carries it.

use super::channel::StackChannel;
use super::line::{Line, LineChannel};
use super::race::{self, Patience, Winner};
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN};
use crate::{Element, Error, Scratch, Turn};
use fusewire_base::Instant;
use fusewire_session::{ClientConfig, Fingerprint, Options};
use fusewire_stack::{Clock, ConnectionId, Event, Keep, PORT, Stack, kernel_tcp, shm};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
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
pub struct Link {
    over: Over,
    peer: Fingerprint,
    options: Options,
    clock: Clock,
    /// It went on over shared memory.
    is_shared: bool,
}

enum Over {
    Stack(Box<OverStack>),
    Line(Box<dyn Line>),
}

pub(super) struct OverStack {
    stack: Stack,
    id: ConnectionId,
    /// The server's key, and whether the configuration has judged it.
    peer: Option<(Fingerprint, bool)>,
    peer_finished: bool,
    /// The connection is over: why, if not in order.
    closed: Option<Option<fusewire_stack::Error>>,
}

impl Link {
    /// Connects over a stack that has nothing else to do.
    ///
    /// # Errors
    /// What went wrong, and what `judge` returns.
    pub fn over_stack(
        stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Link> {
        let mut over = OverStack::begin(stack, remote, config)?;
        while !over.connected(None)? {}
        Link::of_stack(over, judge)
    }

    fn of_stack(mut over: OverStack, judge: Judge<'_>) -> fusewire_stack::Result<Link> {
        over.judge(judge)?;
        let Some((peer, options)) = over.stack.session(over.id) else {
            return Err(fusewire_stack::Error::Closed);
        };
        let over = Over::Stack(Box::new(over));
        Ok(Link { over, peer, options, clock: Clock::new(), is_shared: false })
    }

    /// Connects over a stack that has nothing else to do, and goes on over shared memory.
    ///
    /// # Errors
    /// As [`Link::over_stack`]; the server is on another host or does not want to. `config` must ask for it.
    pub fn over_shared_memory(
        stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Link> {
        let mut link = Link::over_stack(stack, remote, config, judge)?;
        if let Err(error) = link.go_on(remote) {
            if let Over::Stack(over) = &mut link.over {
                over.stack.abort(over.id);
            }
            return Err(error);
        }
        Ok(link)
    }

    /// Over what there is: shared memory, if `config` asks for it and the server has it; the stack; or kernel TCP,
    /// where the stack's device is not answered and kernel TCP is.
    ///
    /// # Errors
    /// As [`Link::over_stack`].
    pub fn over_the_best(
        stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
        patience: Patience,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Link> {
        let over = match race::connect(stack, remote, config, patience)? {
            Winner::KernelTcp(connection) => return Link::of_kernel_tcp(*connection, judge),
            Winner::Stack(over) => *over,
        };
        let mut link = Link::of_stack(over, judge)?;
        if config.shared_memory
            && let Err(error) = link.go_on(remote)
        {
            tracing::debug!(%error, "going on over UDP");
        }
        Ok(link)
    }

    /// Goes on over shared memory; after an error the connection is what it was.
    fn go_on(&mut self, peer: SocketAddr) -> fusewire_stack::Result<()> {
        let Over::Stack(over) = &mut self.over else { return Ok(()) };
        let Some(rendezvous) = over.stack.take_rendezvous(over.id) else {
            let why = "the server does not offer any".into();
            return Err(fusewire_stack::Error::NoSharedMemory { peer, why });
        };
        let ends = shm::Ends { local: over.stack.local_addr(), peer };
        let connection = shm::call(rendezvous, ends)?;
        // It has done its duty: the server may forget it.
        over.stack.finish(over.id);
        self.close();
        self.over = Over::Line(Box::new(connection));
        self.is_shared = true;
        Ok(())
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
    ) -> fusewire_stack::Result<Link> {
        Link::of_kernel_tcp(race::over_kernel_tcp(remote, config, patience)?, judge)
    }

    fn of_kernel_tcp(
        mut connection: kernel_tcp::Connection,
        judge: Judge<'_>,
    ) -> fusewire_stack::Result<Link> {
        let (peer, trusted) = connection.peer();
        if !trusted {
            judge(peer)?;
        }
        connection.set_nonblocking()?;
        let options = connection.options();
        let over = Over::Line(Box::new(connection));
        Ok(Link { over, peer, options, clock: Clock::new(), is_shared: false })
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
        match &self.over {
            Over::Stack(over) => over.stack.device().caps().name,
            Over::Line(_) if self.is_shared => "shm",
            Over::Line(_) => "kernel-tcp",
        }
    }

    /// What the device says of itself, where there is one.
    pub fn notes(&self) -> &[String] {
        match &self.over {
            Over::Stack(over) => &over.stack.device().caps().notes,
            Over::Line(_) => &[],
        }
    }

    /// What contents are marshalled as on this connection.
    pub fn element(&self) -> Element {
        Element::of_swap(self.options.element)
    }

    /// The stack below, where there is one: to measure it.
    pub fn stack_mut(&mut self) -> Option<&mut Stack> {
        match &mut self.over {
            Over::Stack(over) => Some(&mut over.stack),
            Over::Line(_) => None,
        }
    }

    /// Turns a machine until it is finished, then waits for the peer's end. False if `stop` became true before:
    /// what was begun can be resumed.
    ///
    /// # Errors
    /// The connection broke, or the machine says that the peer broke the protocol.
    pub fn run(&mut self, stop: &AtomicBool, turn: TurnFn<'_>) -> Result<bool, Error> {
        let mut scratch = Scratch::new();
        let clock = self.clock.clone();
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            let done = match &mut self.over {
                Over::Stack(over) => over.turn(now, &mut scratch, turn)?,
                Over::Line(over) => turn_line(over.as_mut(), now, &mut scratch, turn)?,
            };
            if done {
                self.close();
                return Ok(true);
            }
        }
        if let Over::Stack(over) = &mut self.over {
            over.stack.abort(over.id);
        }
        Ok(false)
    }

    /// Everything has come: the peer's end is a courtesy, and its absence no error.
    fn close(&mut self) {
        let deadline = self.clock.now() + CLOSE_WAIT;
        while self.clock.now() < deadline {
            let left = deadline.saturating_since(self.clock.now());
            let over = match &mut self.over {
                Over::Stack(over) => over.close_step(left),
                Over::Line(over) => match over.try_finish() {
                    Ok(sent) => over.is_finished() || sent && close_step(over.as_mut(), left),
                    Err(_) => true,
                },
            };
            if over {
                return;
            }
        }
    }
}

/// One step of waiting for the peer's end; true when there is nothing to wait for.
fn close_step(over: &mut dyn Line, left: Duration) -> bool {
    let mut unwanted = vec![0; MAX_ADU_LEN];
    match over.recv_into(&mut unwanted) {
        Ok(None) if !over.is_finished() => over.wait(Some(left)).is_err(),
        Ok(None) | Err(_) => true,
        Ok(Some(_)) => false,
    }
}

fn sleep(now: Instant, turn: &Turn) -> Duration {
    turn.wait_until.map_or(LOOK_EVERY, |at| at.saturating_since(now).min(LOOK_EVERY))
}

fn turn_line(
    over: &mut dyn Line,
    now: Instant,
    scratch: &mut Scratch,
    turn: TurnFn<'_>,
) -> Result<bool, Error> {
    let done = turn(&mut LineChannel(over), scratch, now)?;
    over.try_flush().map_err(ChannelError::from)?;
    if !done.worked && !done.finished {
        over.wait(Some(sleep(now, &done))).map_err(ChannelError::from)?;
    }
    Ok(done.finished)
}

impl OverStack {
    /// Begins to connect.
    pub(super) fn begin(
        mut stack: Stack,
        remote: SocketAddr,
        config: &ClientConfig,
    ) -> fusewire_stack::Result<OverStack> {
        let id = stack.connect(remote, PORT, config)?;
        Ok(OverStack { stack, id, peer: None, peer_finished: false, closed: None })
    }

    /// Goes on with connecting, and sleeps for `timeout` at most; true when it is through.
    pub(super) fn connected(&mut self, timeout: Option<Duration>) -> fusewire_stack::Result<bool> {
        let worked = self.stack.poll(&mut Keep)?;
        match self.stack.poll_event() {
            Some((_, Event::Connected { peer, trusted })) => {
                self.peer = Some((peer, trusted));
                return Ok(true);
            }
            Some((_, Event::Closed(error))) => {
                return Err(error.unwrap_or(fusewire_stack::Error::Closed));
            }
            Some(_) => {}
            None if worked => {}
            None => self.stack.wait(timeout)?,
        }
        Ok(false)
    }

    /// Ends the sleep of [`OverStack::connected`].
    pub(super) fn waker(&self) -> impl FnOnce() + Send + 'static {
        let waker = self.stack.waker();
        move || waker.wake()
    }

    /// Another way was quicker.
    pub(super) fn give_up(&mut self) {
        self.stack.abort(self.id);
    }

    /// Has the server's key judged, where the configuration has not.
    fn judge(&mut self, judge: Judge<'_>) -> fusewire_stack::Result<()> {
        let Some((peer, false)) = self.peer else { return Ok(()) };
        judge(peer).inspect_err(|_| self.stack.abort(self.id))?;
        self.stack.trust(self.id);
        Ok(())
    }

    fn turn(
        &mut self,
        now: Instant,
        scratch: &mut Scratch,
        turn: TurnFn<'_>,
    ) -> Result<bool, Error> {
        let (id, peer_finished) = (self.id, self.peer_finished);
        let mut channel = StackChannel { stack: &mut self.stack, id, peer_finished };
        let result = turn(&mut channel, scratch, now);
        self.stack.flush();
        self.take_events();
        let done = result.map_err(|error| self.reason(error))?;
        if done.finished || done.worked {
            return Ok(done.finished);
        }
        if !self.stack.poll(&mut Keep).map_err(ChannelError::from)? {
            if self.closed.is_some() {
                return Err(self.reason(Error::Ended));
            }
            self.stack.wait(Some(sleep(now, &done))).map_err(ChannelError::from)?;
        }
        self.take_events();
        Ok(false)
    }

    fn take_events(&mut self) {
        while let Some((id, event)) = self.stack.poll_event() {
            match event {
                _ if id != self.id => {}
                Event::Finished => self.peer_finished = true,
                Event::Closed(error) => self.closed = Some(error),
                _ => {}
            }
        }
    }

    /// That the connection is closed says little; the stack knows why.
    fn reason(&mut self, error: Error) -> Error {
        match (error, &self.closed) {
            (Error::Channel(_) | Error::Ended, Some(Some(why))) => {
                Error::Channel(ChannelError { reason: super::reason(why) })
            }
            (error, _) => error,
        }
    }

    fn close_step(&mut self, left: Duration) -> bool {
        self.take_events();
        if self.closed.is_some() || self.peer_finished {
            // What is still to be said (the acknowledgement of the peer's end) is said by `poll`.
            return true;
        }
        match self.stack.poll(&mut Keep) {
            Ok(true) => false,
            Ok(false) => self.stack.wait(Some(left)).is_err(),
            Err(_) => true,
        }
    }
}
