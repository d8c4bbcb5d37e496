//! ADUs on an encrypted connection, in the words of C: what it is made of, who listens, who is connected.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_session::{
    Allow, AllowList, Cipher, ClientConfig, Execution, Fingerprint, HeaderProtection, Identity,
    ServerConfig, Settings as Session, Swap, Trust,
};
use fusewire_stack::{Config, Connection, Endpoint, Error, Listener};

use crate::address::Family;
use crate::errno::{Errno, Result};
use crate::open;

/// What a connection is made of, as its user says it: `struct fw_adu_config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub identity: String,
    pub peer: String,
    pub ciphers: String,
    pub execution: i32,
    pub element: u32,
    pub max_adu: u32,
    pub idle_ms: u32,
    pub header_protection: u32,
}

/// How long a call waits at a time: who closes its descriptor meanwhile is not waited for longer.
const TURN: Duration = Duration::from_millis(100);
/// In the order of `enum fw_execution`.
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

/// A listener or a connection.
pub struct Adus {
    end: End,
    local: SocketAddr,
    execution: Execution,
    /// Our side has ended.
    has_ended: AtomicBool,
    is_closed: AtomicBool,
}

enum End {
    Listener(Listener),
    Connection(Connection),
}

/// What was agreed on: `struct fw_adu_info`.
pub struct Agreed {
    pub peer: Fingerprint,
    pub cipher: Cipher,
    pub execution: i32,
    pub element: u32,
    pub header_protection: u32,
    pub adu_len: usize,
    pub adu_len_max: usize,
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

impl Settings {
    fn identity(&self) -> Result<Arc<Identity>> {
        identity(&self.identity).map(Arc::new)
    }

    fn execution(&self) -> Result<Execution> {
        let known = usize::try_from(self.execution).ok().and_then(|at| EXECUTIONS.get(at));
        known.copied().ok_or_else(|| wrong("execution: expected one of enum fw_execution"))
    }

    fn element(&self) -> Result<Swap> {
        match self.element {
            0 | 1 => Ok(Swap::None),
            bytes @ (2 | 4 | 8) => Ok(Swap::of(bytes as usize)),
            _ => Err(wrong("element: expected 0, 2, 4 or 8 bytes")),
        }
    }

    fn session(&self, identity: Arc<Identity>) -> Result<Session> {
        let mut session = Session::new(identity);
        if !self.ciphers.is_empty() {
            let ciphers = self.ciphers.split(',').map(|name| name.trim().parse::<Cipher>());
            let ciphers = ciphers.collect::<std::result::Result<_, _>>();
            session.ciphers = ciphers.map_err(|unknown| wrong(&unknown.to_string()))?;
            session.allow_insecure = session.ciphers.iter().any(|cipher| cipher.is_insecure());
        }
        session.data_pass.execution = self.execution()?;
        if self.idle_ms > 0 {
            session.idle_timeout = Some(Duration::from_millis(self.idle_ms.into()));
        }
        if self.header_protection > 0 {
            let padding = HeaderProtection::with_padding(self.header_protection as usize);
            let expected = "header_protection: expected 0 or a power of two up to 1024";
            session.protection = Some(padding.ok_or_else(|| wrong(expected))?);
        }
        Ok(session)
    }

    fn endpoint(&self, local: SocketAddr) -> Result<Endpoint> {
        let device = Udp::bind(local, &udp::Config::default());
        let device = device.map_err(|error| failed(Error::os("binding the UDP socket")(error)))?;
        let max_adu = (self.max_adu > 0).then_some(self.max_adu);
        let config = Config { max_adu, ..Config::default() };
        Endpoint::new(Box::new(device), config).map_err(failed)
    }

    /// Who may connect.
    fn allow(&self) -> Result<Allow> {
        match self.peer.trim() {
            "" => Ok(Allow::OwnKey),
            "any" => Ok(Allow::Public),
            list => {
                let prints = list.split(',').map(|print| print.trim().parse::<Fingerprint>());
                let list = prints.collect::<std::result::Result<AllowList, _>>().map_err(failed)?;
                Ok(Allow::List(Arc::new(list)))
            }
        }
    }
}

/// The key in a file, made there on first use.
///
/// # Errors
/// `EINVAL` without a name, `EPERM` when the file is open to others or not the user's, what the kernel says.
pub fn identity(path: &str) -> Result<Identity> {
    if path.is_empty() {
        return Err(wrong("identity: expected a file for the key"));
    }
    Identity::load_or_create(Path::new(path)).map_err(failed)
}

/// Takes connections at `local`.
///
/// # Errors
/// `EINVAL`, `EADDRINUSE`, what the kernel says; `fw_reason` says more.
pub fn listen(settings: &Settings, local: SocketAddr) -> Result<Adus> {
    let session = settings.session(settings.identity()?)?;
    if settings.element > 1 {
        return Err(wrong("element: who connects says it"));
    }
    let execution = session.data_pass.execution;
    let config = ServerConfig { settings: session, allow: settings.allow()?, shared_memory: None };
    // What it refuses would else be told to the first client.
    fusewire_session::Handshake::server(&config).map_err(failed)?;
    let endpoint = settings.endpoint(local)?;
    let listener = endpoint.listen(config).map_err(failed)?;
    Ok(Adus::new(End::Listener(listener), endpoint.local_addr(), execution))
}

/// Connects to the server at `remote`, whose key the settings name, and waits for the handshake.
///
/// # Errors
/// `EINVAL`, `EACCES` when one side refuses the other, `ECONNREFUSED`, `ETIMEDOUT`; `fw_reason` says more.
pub fn connect(settings: &Settings, remote: SocketAddr) -> Result<Adus> {
    let identity = settings.identity()?;
    let trust = match settings.peer.trim() {
        "" => identity.fingerprint(),
        print => print.parse().map_err(|error: fusewire_session::Error| failed(error))?,
    };
    let session = settings.session(identity.clone())?;
    let execution = session.data_pass.execution;
    let mut config = ClientConfig::new(identity, Trust::Pinned(trust));
    (config.settings, config.element) = (session, settings.element()?);
    let family = if remote.is_ipv4() { Family::V4 } else { Family::V6 };
    let endpoint = settings.endpoint(family.unspecified())?;
    let connection = endpoint.connect(remote, &config).map_err(failed)?;
    Ok(Adus::of(connection, execution))
}

impl Adus {
    fn of(connection: Connection, execution: Execution) -> Adus {
        let local = connection.local_addr();
        Adus::new(End::Connection(connection), local, execution)
    }

    fn new(end: End, local: SocketAddr, execution: Execution) -> Adus {
        let no = || AtomicBool::new(false);
        Adus { end, local, execution, has_ended: no(), is_closed: no() }
    }

    fn connection(&self) -> Result<&Connection> {
        match &self.end {
            End::Connection(connection) => Ok(connection),
            End::Listener(_) => Err(Errno(libc::ENOTCONN)),
        }
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
        self.connection()?.remote_addr().ok_or(Errno(libc::ENOTCONN))
    }

    /// The next connection.
    ///
    /// # Errors
    /// `EINVAL` for a connection, `EAGAIN` when none came in time, `EBADF` when it was closed meanwhile.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Adus> {
        let End::Listener(listener) = &self.end else { return Err(Errno(libc::EINVAL)) };
        let connection = self.wait(timeout, |turn| listener.accept_timeout(turn))?;
        Ok(Adus::of(connection, self.execution))
    }

    /// Sends one ADU, whole.
    ///
    /// # Errors
    /// `EMSGSIZE` when the peer takes none so long, `EAGAIN`, `EBADF`, `EPIPE` after the end, what ended the connection.
    pub fn send(&self, adu: &[u8], timeout: Option<Duration>) -> Result<usize> {
        let connection = self.connection()?;
        if self.has_ended.load(Ordering::Acquire) {
            return Err(Errno(libc::EPIPE));
        }
        self.wait(timeout, |turn| connection.send_timeout(adu, turn))?;
        Ok(adu.len())
    }

    /// Receives the next ADU; its length.
    ///
    /// # Errors
    /// `ENODATA` after the peer's last, `EMSGSIZE` when it does not fit (it is lost), `EAGAIN`, `EBADF`, what ended
    /// the connection.
    pub fn recv(&self, out: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        let connection = self.connection()?;
        let received = self.wait(timeout, |turn| connection.recv_timeout(out, turn))?;
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
        connection.finish_sending();
        Ok(())
    }

    /// Ends in order: the peer has everything, and has ended, too. What it sends meanwhile is lost.
    ///
    /// # Errors
    /// `EAGAIN`, `EBADF`, what ended the connection.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<()> {
        let connection = self.connection()?;
        self.has_ended.store(true, Ordering::Release);
        self.wait(timeout, |turn| connection.finish_timeout(turn))
    }

    /// Gives the connection up, with a number for the peer's application.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn give_up(&self, code: u64) -> Result<()> {
        self.connection()?.close(code);
        Ok(())
    }

    /// What was agreed on.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn agreed(&self) -> Result<Agreed> {
        let connection = self.connection()?;
        let options = connection.options();
        let execution = EXECUTIONS.iter().position(|known| *known == self.execution);
        Ok(Agreed {
            peer: connection.peer(),
            cipher: options.cipher,
            execution: execution.map_or(-1, |at| at as i32),
            element: if options.element == Swap::None { 0 } else { options.element.bytes() as u32 },
            header_protection: options.protection.map_or(0, |asked| asked.padding() as u32),
            adu_len: connection.adu_len(),
            adu_len_max: connection.adu_len_max(),
        })
    }

    /// Nobody waits for it any more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Tries again and again, a turn at a time, until there is a result, or time has run out.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(Duration) -> fusewire_stack::Result<T>,
    ) -> Result<T> {
        let begin = Instant::now();
        loop {
            if self.is_closed.load(Ordering::Acquire) {
                return Err(Errno(libc::EBADF));
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            match attempt(left.map_or(TURN, |left| left.min(TURN))) {
                Err(Error::Elapsed) if left.is_none_or(|left| left > TURN) => {}
                Err(Error::Elapsed) => return Err(Errno(libc::EAGAIN)),
                result => return result.map_err(failed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_mean_nothing_are_refused_with_a_reason() {
        let identity = || Arc::new(Identity::ephemeral().unwrap());
        let good = Settings::default();
        assert!(good.session(identity()).is_ok() && good.element() == Ok(Swap::None));
        for (wrong, says) in [
            (Settings { execution: 3, ..good.clone() }, "fw_execution"),
            (Settings { execution: -1, ..good.clone() }, "fw_execution"),
            (Settings { ciphers: "rot13".into(), ..good.clone() }, "rot13"),
            (Settings { header_protection: 3, ..good.clone() }, "power of two"),
            (Settings { header_protection: 2048, ..good.clone() }, "power of two"),
        ] {
            assert_eq!(wrong.session(identity()).err(), Some(Errno(libc::EINVAL)), "{wrong:?}");
            assert!(open::reason().contains(says), "{}", open::reason());
        }
        for element in [3, 5, 16, u32::MAX] {
            let wrong = Settings { element, ..good.clone() };
            assert_eq!(wrong.element(), Err(Errno(libc::EINVAL)));
        }
        let wrong = Settings { peer: "fw1:short".into(), ..good.clone() };
        assert_eq!(wrong.allow().err(), Some(Errno(libc::EINVAL)));
        assert_eq!(super::identity("").err(), Some(Errno(libc::EINVAL)));
    }
}
