//! ADUs on an encrypted connection, in the words of C: who listens, who is connected, whatever carries it.
#![forbid(unsafe_code)]

mod alone;
mod calls;
mod gate;
mod settings;

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fusewire_session::{Cipher, Execution, Fingerprint, Swap};
use fusewire_stack::{Connection, Error, Link, Listener, Readiness, Session, kernel_tcp, shm};

use crate::address::Family;
use crate::errno::{Errno, Result};
use crate::open;
use alone::Alone;
use calls::{Call, Ours};
use gate::Gate;
use settings::{CARRIERS, Carrier, EXECUTIONS};
pub use settings::{Settings, identity};

/// How long a call waits at a time: who closes its descriptor meanwhile is not waited for longer.
const TURN: Duration = Duration::from_millis(100);
/// How long a client tries to reach a server over kernel TCP, and how long a handshake there may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// A listener, a connection, or a call beside one.
pub struct Adus {
    end: End,
    local: SocketAddr,
    carrier: Carrier,
    execution: Execution,
    /// Our side has ended.
    has_ended: AtomicBool,
    is_closed: AtomicBool,
}

enum End {
    /// And a connection that `poll` has found.
    Listener(Listener, Mutex<Option<Connection>>),
    Gate(Gate),
    Connection(Arc<Connection>),
    Alone(Alone),
    Call(Call),
}

/// A connection that threads share: each call waits as long as its caller has patience.
trait Carried: Send + Sync {
    fn session(&self) -> Session;
    /// The longest ADU that travels in one piece now, and the longest at all.
    fn adu_len(&self) -> (usize, usize);
    /// The longest request and the longest answer of a call; 0 where there are no calls.
    fn call_len(&self) -> (usize, usize) {
        (0, 0)
    }
    fn send(&self, adu: &[u8], patience: &Patience<'_>) -> Result<()>;
    fn recv(&self, out: &mut [u8], patience: &Patience<'_>) -> Result<Option<usize>>;
    fn finish_sending(&self) -> Result<()>;
    fn finish(&self, patience: &Patience<'_>) -> Result<()>;
    fn close(&self, code: u64) -> Result<()>;
}

/// How long a caller waits, and that its descriptor is still open.
pub struct Patience<'a> {
    until: Option<Instant>,
    is_closed: &'a AtomicBool,
}

impl Patience<'_> {
    /// How long it may sleep now; zero when the time is over.
    ///
    /// # Errors
    /// `EBADF`.
    fn turn(&self) -> Result<Duration> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Errno(libc::EBADF));
        }
        let left = self.until.map(|at| at.saturating_duration_since(Instant::now()));
        Ok(left.map_or(TURN, |left| left.min(TURN)))
    }

    /// Tries again and again, a turn at a time, until there is a result, or time has run out.
    fn each_turn<T>(
        &self,
        mut attempt: impl FnMut(Duration) -> fusewire_stack::Result<T>,
    ) -> Result<T> {
        loop {
            let turn = self.turn()?;
            match attempt(turn) {
                Err(Error::Elapsed) if turn.is_zero() => return Err(Errno(libc::EAGAIN)),
                Err(Error::Elapsed) => {}
                result => return result.map_err(failed),
            }
        }
    }
}

/// What was agreed on: `struct fw_adu_info`.
pub struct Agreed {
    pub peer: Fingerprint,
    pub cipher: Cipher,
    pub execution: i32,
    pub element: u32,
    pub header_protection: u32,
    pub carrier: i32,
    pub adu_len: usize,
    pub adu_len_max: usize,
    pub call_len_max: usize,
    pub answer_len_max: usize,
}

fn wrong(what: &str) -> Errno {
    open::tell(what.to_string());
    Errno(libc::EINVAL)
}

/// Keeps the reason, and gives its number.
fn failed(error: impl Into<Error>) -> Errno {
    let error = error.into();
    open::tell(error.to_string());
    error.into()
}

/// Takes connections at `local`.
///
/// # Errors
/// `EINVAL`, `EADDRINUSE`, what the kernel says; `fw_reason` says more.
pub fn listen(settings: &Settings, local: SocketAddr) -> Result<Adus> {
    let (carrier, config) = (settings.carrier()?, settings.server()?);
    let execution = config.settings.data_pass.execution;
    let (end, local) = match carrier {
        Carrier::Udp | Carrier::Xtp => {
            let endpoint = settings.endpoint(local)?;
            let listener = endpoint.listen(config).map_err(failed)?;
            (End::Listener(listener, Mutex::default()), endpoint.local_addr())
        }
        Carrier::KernelTcp => {
            let (gate, local) = Gate::kernel_tcp(local, config)?;
            (End::Gate(gate), local)
        }
        Carrier::Shm => {
            let endpoint = settings.endpoint(local)?;
            (End::Gate(Gate::shm(&endpoint, config)?), endpoint.local_addr())
        }
    };
    Ok(Adus::new(end, local, carrier, execution))
}

/// Connects to the server at `remote`, whose key the settings name, and waits for the handshake.
///
/// # Errors
/// `EINVAL`, `EACCES` when one side refuses the other, `ECONNREFUSED`, `ETIMEDOUT`; `fw_reason` says more.
pub fn connect(settings: &Settings, remote: SocketAddr) -> Result<Adus> {
    let (carrier, mut config) = (settings.carrier()?, settings.client()?);
    let execution = config.settings.data_pass.execution;
    if carrier == Carrier::KernelTcp {
        let os = |error| failed(Error::os("connecting over kernel TCP")(error));
        let stream = TcpStream::connect_timeout(&remote, HANDSHAKE_TIME).map_err(os)?;
        let local = stream.local_addr().map_err(os)?;
        let connection = kernel_tcp::Connection::connect_within(stream, &config, HANDSHAKE_TIME);
        let alone = Alone::kernel_tcp(connection.map_err(failed)?).map_err(failed)?;
        return Ok(Adus::new(End::Alone(alone), local, carrier, execution));
    }
    config.shared_memory = carrier == Carrier::Shm;
    let family = if remote.is_ipv4() { Family::V4 } else { Family::V6 };
    let endpoint = settings.endpoint(family.unspecified())?;
    let connection = endpoint.connect(remote, &config).map_err(failed)?;
    if carrier == Carrier::Shm {
        let local = connection.local_addr();
        let alone = Alone::shm(shm::go_on(connection).map_err(failed)?);
        return Ok(Adus::new(End::Alone(alone), local, carrier, execution));
    }
    Ok(Adus::of(connection, carrier, execution))
}

impl Adus {
    fn of(connection: Connection, carrier: Carrier, execution: Execution) -> Adus {
        let local = connection.local_addr();
        Adus::new(End::Connection(Arc::new(connection)), local, carrier, execution)
    }

    fn new(end: End, local: SocketAddr, carrier: Carrier, execution: Execution) -> Adus {
        let no = || AtomicBool::new(false);
        Adus { end, local, carrier, execution, has_ended: no(), is_closed: no() }
    }

    fn connection(&self) -> Result<&dyn Carried> {
        match &self.end {
            End::Connection(connection) => Ok(&**connection),
            End::Alone(alone) => Ok(alone),
            End::Listener(..) | End::Gate(_) | End::Call(_) => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// The connection, beside which there are calls.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where there are none, `ENOTCONN`.
    fn caller(&self) -> Result<&Arc<Connection>> {
        self.connection()?;
        let asked = match &self.end {
            End::Connection(connection) => connection.call_len_max().map(|_| connection),
            _ => Err(Error::Misuse("calls go over XTP: choose it as the carrier")),
        };
        match (asked, &self.end) {
            (Err(none @ Error::Misuse(_)), _) => {
                open::tell(none.to_string());
                Err(Errno(libc::EOPNOTSUPP))
            }
            // What ended it the call itself is told.
            (_, End::Connection(connection)) => Ok(connection),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    fn of_call(&self, call: Call) -> Adus {
        Adus::new(End::Call(call), self.local, self.carrier, self.execution)
    }

    fn patience(&self, timeout: Option<Duration>) -> Patience<'_> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Patience { until, is_closed: &self.is_closed }
    }

    /// The address of our side.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn peer(&self) -> Result<SocketAddr> {
        self.connection()?.session().remote.ok_or(Errno(libc::ENOTCONN))
    }

    /// The next connection.
    ///
    /// # Errors
    /// `EINVAL` for a connection, `EAGAIN` when none came in time, `EBADF` when it was closed meanwhile.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Adus> {
        let patience = self.patience(timeout);
        match &self.end {
            End::Listener(listener, found) => {
                let connection = patience.each_turn(|turn| {
                    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
                    found.map_or_else(|| listener.accept_timeout(turn), Ok)
                })?;
                Ok(Adus::of(connection, self.carrier, self.execution))
            }
            End::Gate(gate) => {
                let (alone, local) = gate.accept(&patience)?;
                Ok(Adus::new(End::Alone(alone), local, self.carrier, self.execution))
            }
            End::Connection(_) | End::Alone(_) | End::Call(_) => Err(Errno(libc::EINVAL)),
        }
    }

    /// Calls the peer's application: the call, and how long its answer is waited for. The request's memory is free.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where there are none, `EMSGSIZE`, `EAGAIN` while too many are under way, `EBADF`, what ended the connection.
    pub fn call(&self, request: &[u8], timeout: Option<Duration>) -> Result<(Ours, Patience<'_>)> {
        let (connection, patience) = (self.caller()?, self.patience(timeout));
        Ok((Ours::begin(connection, request, &patience)?, patience))
    }

    /// Begins a call, whose answer is received of what this gives.
    ///
    /// # Errors
    /// The errors of [`Adus::call`].
    pub fn begin_call(&self, request: &[u8], timeout: Option<Duration>) -> Result<Adus> {
        let (ours, _) = self.call(request, timeout)?;
        Ok(self.of_call(Call::Ours(ours)))
    }

    /// The next call of the peer's: the request is received of what this gives, and the answer sent by it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where there are none, `ENODATA` after the peer's end, `EAGAIN`, `EBADF`, what ended the connection.
    pub fn next_call(&self, timeout: Option<Duration>) -> Result<Adus> {
        let call = Call::next(self.caller()?, &self.patience(timeout))?;
        Ok(self.of_call(call))
    }

    /// Sends one ADU, whole; or answers a call.
    ///
    /// # Errors
    /// `EMSGSIZE` when the peer takes none so long, `EAGAIN`, `EBADF`, `EPIPE` after the end, what ended the connection.
    pub fn send(&self, adu: &[u8], timeout: Option<Duration>) -> Result<usize> {
        if let End::Call(call) = &self.end {
            return call.send(adu);
        }
        let connection = self.connection()?;
        let has_ended = || self.has_ended.load(Ordering::Acquire);
        if has_ended() {
            return Err(Errno(libc::EPIPE));
        }
        match connection.send(adu, &self.patience(timeout)) {
            Ok(()) => Ok(adu.len()),
            // While it waited for room.
            Err(Errno(libc::EINVAL)) if has_ended() => Err(failed(Error::Closed)),
            Err(error) => Err(error),
        }
    }

    /// Receives the next ADU, or what a call brings; its length.
    ///
    /// # Errors
    /// `ENODATA` after the peer's last, `EMSGSIZE` when it does not fit (it is lost), `EAGAIN`, `EBADF`, what ended
    /// the connection.
    pub fn recv(&self, out: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        if let End::Call(call) = &self.end {
            return call.recv(out, &self.patience(timeout));
        }
        let received = self.connection()?.recv(out, &self.patience(timeout))?;
        received.ok_or(Errno(libc::ENODATA))
    }

    /// Our side ends; the peer may go on.
    ///
    /// # Errors
    /// `ENOTCONN`; `EINVAL` for another half than that of writing.
    pub fn shutdown(&self, how: i32) -> Result<()> {
        let connection = self.connection()?;
        if how != libc::SHUT_WR {
            return Err(Errno(libc::EINVAL));
        }
        self.has_ended.store(true, Ordering::Release);
        connection.finish_sending()
    }

    /// Ends in order: the peer has everything, and has ended, too. What it sends meanwhile is lost.
    ///
    /// # Errors
    /// `EAGAIN`, `EBADF`, what ended the connection.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<()> {
        let connection = self.connection()?;
        self.has_ended.store(true, Ordering::Release);
        connection.finish(&self.patience(timeout))
    }

    /// Gives the connection up, with a number for the peer's application.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn give_up(&self, code: u64) -> Result<()> {
        self.connection()?.close(code)
    }

    /// What was agreed on.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn agreed(&self) -> Result<Agreed> {
        let connection = self.connection()?;
        let Session { peer, options, .. } = connection.session();
        let (adu_len, adu_len_max) = connection.adu_len();
        let (call_len_max, answer_len_max) = connection.call_len();
        let number = |at: Option<usize>| at.map_or(-1, |at| at as i32);
        Ok(Agreed {
            peer,
            cipher: options.cipher,
            execution: number(EXECUTIONS.iter().position(|known| *known == self.execution)),
            element: if options.element == Swap::None { 0 } else { options.element.bytes() as u32 },
            header_protection: options.protection.map_or(0, |asked| asked.padding() as u32),
            carrier: number(CARRIERS.iter().position(|known| *known == self.carrier)),
            adu_len,
            adu_len_max,
            call_len_max,
            answer_len_max,
        })
    }

    /// What is the case now, in the bits of `poll`.
    pub fn poll(&self) -> i16 {
        if self.is_closed.load(Ordering::Acquire) {
            return libc::POLLNVAL;
        }
        let ready = match &self.end {
            End::Listener(listener, found) => {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                if found.is_none() {
                    // What is broken is told to who accepts.
                    *found = listener.accept_timeout(Duration::ZERO).ok();
                }
                Readiness { readable: found.is_some(), ..Readiness::default() }
            }
            End::Gate(gate) => Readiness { readable: gate.has_arrival(), ..Readiness::default() },
            End::Connection(connection) => Connection::readiness(connection),
            End::Alone(alone) => match alone.readiness() {
                Ok(ready) => ready,
                Err(_) => return libc::POLLERR | libc::POLLHUP,
            },
            End::Call(call) => call.readiness(),
        };
        let bits = [
            (ready.readable, libc::POLLIN | libc::POLLRDNORM),
            (ready.writable, libc::POLLOUT | libc::POLLWRNORM),
            (ready.called, libc::POLLPRI),
            (ready.over, libc::POLLHUP),
        ];
        bits.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit)
    }

    /// Nobody waits for it any more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        if let End::Gate(gate) = &self.end {
            gate.close();
        }
    }
}

impl Carried for Connection {
    fn session(&self) -> Session {
        Link::session(self)
    }

    fn adu_len(&self) -> (usize, usize) {
        (Connection::adu_len(self), self.adu_len_max())
    }

    fn call_len(&self) -> (usize, usize) {
        (self.call_len_max().unwrap_or(0), self.answer_len_max().unwrap_or(0))
    }

    fn send(&self, adu: &[u8], patience: &Patience<'_>) -> Result<()> {
        patience.each_turn(|turn| self.send_timeout(adu, turn))
    }

    fn recv(&self, out: &mut [u8], patience: &Patience<'_>) -> Result<Option<usize>> {
        patience.each_turn(|turn| self.recv_timeout(out, turn))
    }

    fn finish_sending(&self) -> Result<()> {
        Connection::finish_sending(self);
        Ok(())
    }

    fn finish(&self, patience: &Patience<'_>) -> Result<()> {
        patience.each_turn(|turn| self.finish_timeout(turn))
    }

    fn close(&self, code: u64) -> Result<()> {
        Connection::close(self, code);
        Ok(())
    }
}
