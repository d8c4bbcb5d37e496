//! The stack for applications that block or await.
//!
//! An [`Endpoint`] shares one [`Stack`] between threads and tasks. Whoever waits in a thread drives it as long as it
//! waits; otherwise a thread of the library's does, so that timers ring and peers are answered while nobody calls
//! ([`Driver`](crate::Driver)). Each caller is woken for its own news and for nothing else.

mod calls;
mod connection;
mod link;
mod listener;
mod runs;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fusewire_device::{Device, udp};
use fusewire_session::{ClientConfig, Fingerprint, ServerConfig};
use fusewire_transport::machine::Secrets;

pub use calls::{Next, PeerCall, Turn};
pub use connection::Connection;
use connection::{Held, or_elapsed};
pub use listener::Listener;
pub use state::Readiness;
use state::{Interest, State};

use crate::application::{Application, Keep};
use crate::config::Config;
use crate::driver::{Driven, Driver, SHARED_KEY, Wait, after};
use crate::stack::Stack;
use crate::{Error, Result};

/// The TCP port inside of the encapsulation that a server of ours listens on; the UDP port is the user's.
pub const PORT: u16 = 9293;

/// What endpoint, listener and connections hold together. The last one dropped ends it: thread, descriptors,
/// connections.
type Handle = Driven<State>;

/// What a call attempts until it is done.
trait Attempt<T>: FnMut(&mut State) -> Poll<Result<T>> {}
impl<T, F: FnMut(&mut State) -> Poll<Result<T>>> Attempt<T> for F {}

/// Waits in a thread until `attempt` is ready; `app` says where ADUs go that come meanwhile.
fn block<A: Application, T>(
    handle: &Handle,
    interest: Interest,
    deadline: Option<Instant>,
    app: &mut A,
    attempt: impl FnMut(&mut State, &mut A) -> Poll<Result<T>>,
) -> Result<T> {
    let wait = Wait { on: &[interest], deadline, sleep_max: None };
    let turn = |state: &mut State, app: &mut A| state.stack.poll(app);
    handle.block(&wait, app, turn, attempt)?.unwrap_or(Err(Error::Elapsed))
}

/// A call that waits for something, in whichever of the three ways.
struct Call<'a, F> {
    handle: &'a Handle,
    interest: Interest,
    attempt: F,
}

impl<F> Call<'_, F> {
    /// In a thread.
    fn block<T>(self) -> Result<T>
    where
        F: Attempt<T>,
    {
        self.block_until(None)
    }

    /// In a thread, for as long as there is time.
    fn block_until<T>(mut self, deadline: Option<Instant>) -> Result<T>
    where
        F: Attempt<T>,
    {
        let attempt = |state: &mut _, _: &mut _| (self.attempt)(state);
        block(self.handle, self.interest, deadline, &mut Keep, attempt)
    }

    /// In a task: registered with what it waits for, once however often it is polled, and no longer when it is dropped.
    async fn wait<T>(self) -> Result<T>
    where
        F: Attempt<T>,
    {
        self.handle.wait(self.interest, self.attempt).await?
    }

    /// In a task that polls: the last one that did is woken.
    fn poll<T>(self, cx: &mut Context<'_>) -> Poll<Result<T>>
    where
        F: Attempt<T>,
    {
        let polled = self.handle.poll(self.interest, Some(SHARED_KEY), cx.waker(), self.attempt);
        polled.0.map(|done| done?)
    }
}

/// A stack to open and take connections on; cheap to clone, and all clones are the same.
///
/// `Send` and `Sync`: threads and tasks share it freely. When it, its clones, its [`Listener`] and all its
/// [`Connection`]s are dropped, its thread and its descriptors are gone as the last drop returns.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
/// use fusewire_stack::{Endpoint, Error};
///
/// # let dir = std::env::temp_dir().join(format!("fusewire-doc-{}", std::process::id()));
/// let identity = Arc::new(Identity::load_or_create(&dir.join("key"))?);
/// # std::fs::remove_dir_all(&dir)?;
/// let server = Endpoint::udp("127.0.0.1:0".parse()?)?;
/// let listener = server.listen(ServerConfig::new(identity.clone()))?;
/// let address = server.local_addr();
/// let served = std::thread::spawn(move || -> fusewire_stack::Result<()> {
///     let connection = listener.accept()?;
///     let mut adu = [0; 64];
///     while let Some(len) = connection.recv(&mut adu)? {
///         connection.send(&adu[..len])?;
///     }
///     connection.finish()
/// });
///
/// let client = Endpoint::udp("127.0.0.1:0".parse()?)?;
/// let trust = Trust::Pinned(identity.fingerprint());
/// let mut config = ClientConfig::new(identity, trust);
/// // Each side says how long it lets a peer be silent; the smaller counts. 30 s unless set.
/// config.settings.idle_timeout = Some(Duration::from_secs(10));
/// let connection = client.connect(address, &config)?;
/// connection.send(b"one message")?;
/// let mut adu = [0; 64];
/// let len = connection.recv(&mut adu)?.expect("an echo");
/// assert_eq!(&adu[..len], b"one message");
///
/// // A wait has an end where one is said, and what did not come is still to come.
/// let nothing = connection.recv_timeout(&mut adu, Duration::from_millis(20));
/// assert!(matches!(nothing, Err(Error::Elapsed)));
/// assert!(connection.try_recv(&mut adu).is_pending());
///
/// // All calls take `&self`: one thread receives while others send.
/// std::thread::scope(|s| {
///     let received = s.spawn(|| {
///         let mut adu = [0; 64];
///         (0..1000).filter(|_| matches!(connection.recv(&mut adu), Ok(Some(4)))).count()
///     });
///     for n in 0..1000u32 {
///         connection.send(&n.to_be_bytes())?;
///     }
///     assert_eq!(received.join().unwrap(), 1000);
///     fusewire_stack::Result::Ok(())
/// })?;
/// connection.finish()?;
/// served.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
/// Every call that waits has a form for tasks, on any runtime or none. Its future is `Send`; what is said of cancelling
/// holds for dropping it and for `select!`:
/// ```
/// # use std::sync::Arc;
/// # use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
/// # use fusewire_stack::{Endpoint, Error};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("fusewire-doc-tasks-{}", std::process::id()));
/// # let identity = Arc::new(Identity::load_or_create(&dir.join("key"))?);
/// # std::fs::remove_dir_all(&dir)?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async move {
/// let server = Endpoint::udp("127.0.0.1:0".parse()?)?;
/// let listener = server.listen(ServerConfig::new(identity.clone()))?;
/// let client = Endpoint::udp("127.0.0.1:0".parse()?)?;
/// let config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
/// // What is sent first goes with the handshake, and saves a round trip.
/// let (address, first) = (server.local_addr(), [&b"a question"[..]]);
/// let connecting = client.connect_sending_async(address, &config, &first);
/// let (here, there) = tokio::join!(connecting, listener.accept_async());
/// let (here, there) = (here?, there?);
/// assert_eq!(there.recv_async().await?.as_deref(), Some(&b"a question"[..]));
///
/// // One side gives the connection up, and the other's application learns its code.
/// there.close(404);
/// assert!(matches!(here.recv_async().await, Err(Error::PeerClosed { code: 404, .. })));
/// server.wait_idle_async().await?;
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    handle: Arc<Handle>,
}

impl Endpoint {
    /// Opens an endpoint on UDP encapsulation, with default settings. By default an ADU has up to
    /// [`Config::MAX_ADU_DEFAULT`] bytes; [`Endpoint::udp_with`] takes [`Config::max_adu`] for longer ones.
    ///
    /// # Errors
    /// [`Error::Os`] when the address cannot be bound.
    pub fn udp(addr: SocketAddr) -> Result<Endpoint> {
        Endpoint::udp_with(addr, Config::default())
    }

    /// Opens an endpoint on UDP encapsulation.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fusewire_stack::{Config, Endpoint};
    ///
    /// // This side takes ADUs of up to 4 MiB.
    /// let config = Config { max_adu: Some(4 << 20), ..Config::default() };
    /// let endpoint = Endpoint::udp_with("127.0.0.1:0".parse()?, config)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Os`] when the address cannot be bound; the errors of [`Endpoint::new`].
    pub fn udp_with(addr: SocketAddr, config: Config) -> Result<Endpoint> {
        let device = udp::Udp::bind(addr, &udp::Config::default())
            .map_err(Error::os("binding the UDP socket"))?;
        Endpoint::new(Box::new(device), config)
    }

    /// An endpoint on any device.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no randomness, no descriptor or no thread left; [`Error::MaxAdu`];
    /// [`Error::Misuse`] for a check that the transport has not.
    pub fn new(device: Box<dyn Device>, config: Config) -> Result<Endpoint> {
        config.check_fits()?;
        let frames = device.as_fd().map(|fd| fd.try_clone_to_owned()).transpose();
        let frames = frames.map_err(Error::os("duplicating the device's descriptor"))?;
        let (waker, driver) = (device.waker(), config.driver);
        let stack = Stack::new(device, config, &random()?);
        stack.check_max_adu()?;
        let mut handle = Driven::new(State::new(stack), frames, waker)
            .map_err(Error::os("making the driver's descriptor"))?;
        if driver == Driver::Thread {
            handle.start("fusewire-driver").map_err(Error::os("starting the driver's thread"))?;
        }
        Ok(Endpoint { handle: Arc::new(handle) })
    }

    /// Our address.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.look(|state| state.stack.local_addr())
    }

    /// Runs `f` on the stack itself: figures, settings. Nothing else goes on meanwhile.
    pub fn with_stack<T>(&self, f: impl FnOnce(&mut Stack) -> T) -> T {
        self.handle.call(|state| f(&mut state.stack))
    }

    /// Takes connections from now on, until the listener is dropped or closed.
    ///
    /// # Errors
    /// [`Error::Misuse`] when this endpoint has a listener; [`Error::Closed`] after [`Endpoint::close`]; [`Error::Os`] when
    /// there is no randomness.
    pub fn listen(&self, server: ServerConfig) -> Result<Listener> {
        let secrets = Secrets { isn: random()?, cookie: random()? };
        let number = self.handle.call(|state| state.listen(PORT, server, &secrets))?;
        Ok(Listener::new(self.handle.clone(), number))
    }

    /// Closes every connection with an application's `code`, as [`Connection::close`] does, and ends the listener: callers in
    /// [`Listener::accept`] get [`Error::Closed`], and so do later calls of [`Endpoint::connect`] and
    /// [`Endpoint::listen`]. Does not wait: [`Endpoint::wait_idle`] does, before a program ends.
    pub fn close(&self, code: u64) {
        self.handle.call_waking(|state, wakes| state.close(code, wakes));
    }

    /// Opens a connection to a server whose key the configuration pins.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`], [`Error::Session`]; [`Error::Untrusted`] when the
    /// configuration pins no key: then see [`Endpoint::connect_with`]; [`Error::Closed`] after [`Endpoint::close`].
    pub fn connect(&self, remote: SocketAddr, client: &ClientConfig) -> Result<Connection> {
        self.connect_with(remote, client, |peer| Err(Error::Untrusted(peer)))
    }

    /// Opens a connection to a server whose key `judge` accepts. It is asked only when the
    /// configuration has not decided.
    ///
    /// # Errors
    /// As [`Endpoint::connect`], and what `judge` returns.
    pub fn connect_with(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        judge: impl FnOnce(Fingerprint) -> Result<()>,
    ) -> Result<Connection> {
        let held = self.begin(remote, client)?;
        let session = held.connecting().block()?;
        if !session.trusted {
            judge(session.peer)?;
        }
        Ok(held.trust(session))
    }

    /// [`Endpoint::connect`] for tasks. Cancelled, the connection is reset.
    ///
    /// # Errors
    /// The errors of [`Endpoint::connect`].
    pub async fn connect_async(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
    ) -> Result<Connection> {
        self.connect_with_async(remote, client, async |peer| Err(Error::Untrusted(peer))).await
    }

    /// [`Endpoint::connect_with`] for tasks. Cancelled, the connection is reset.
    ///
    /// # Errors
    /// The errors of [`Endpoint::connect_with`].
    pub async fn connect_with_async<F: Future<Output = Result<()>>>(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        judge: impl FnOnce(Fingerprint) -> F,
    ) -> Result<Connection> {
        let held = self.begin(remote, client)?;
        let session = held.connecting().wait().await?;
        if !session.trusted {
            judge(session.peer).await?;
        }
        Ok(held.trust(session))
    }

    /// [`Endpoint::connect`], and sends these ADUs first. They go with the handshake, and are there a round trip sooner, as
    /// far as there is room for them in it ([`EARLY_LEN_MAX`](fusewire_session::EARLY_LEN_MAX)) and the server takes
    /// them so; those that do not go as soon as they can.
    ///
    /// # Errors
    /// The errors of [`Endpoint::connect`] and of [`Connection::send`].
    pub fn connect_sending(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        adus: &[&[u8]],
    ) -> Result<Connection> {
        let (held, sent) = self.begin_sending(remote, client, adus)?;
        let session = held.connecting().block()?;
        let connection = held.believed(session)?;
        connection.send_batch(adus[sent..].iter().copied())?;
        Ok(connection)
    }

    /// [`Endpoint::connect_sending`] for tasks. Cancelled, the connection is reset.
    ///
    /// # Errors
    /// The errors of [`Endpoint::connect_sending`].
    pub async fn connect_sending_async(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        adus: &[&[u8]],
    ) -> Result<Connection> {
        let (held, sent) = self.begin_sending(remote, client, adus)?;
        let session = held.connecting().wait().await?;
        let connection = held.believed(session)?;
        connection.send_batch_async(adus[sent..].iter().copied()).await?;
        Ok(connection)
    }

    /// Begins, and says how many of the ADUs go with the handshake.
    fn begin_sending(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        adus: &[&[u8]],
    ) -> Result<(Held, usize)> {
        let (id, sent) = self.handle.call(|state| {
            state.check_open()?;
            let id = state.stack.connect(remote, PORT, client)?;
            state.opened(id);
            Result::Ok((id, state.stack.send_run(id, adus)))
        })?;
        // From here on who fails drops it.
        let held = Held { handle: self.handle.clone(), id };
        Ok((held, sent?))
    }

    fn begin(&self, remote: SocketAddr, client: &ClientConfig) -> Result<Held> {
        Ok(self.begin_sending(remote, client, &[])?.0)
    }

    /// Waits until all connections have ended: what was closed has been told, what was finished has arrived.
    /// Connections that nobody ends are waited for.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn wait_idle(&self) -> Result<()> {
        self.idle().block()
    }

    /// [`Endpoint::wait_idle`] for tasks. Cancelled, nothing has changed.
    ///
    /// # Errors
    /// The errors of [`Endpoint::wait_idle`].
    pub async fn wait_idle_async(&self) -> Result<()> {
        self.idle().wait().await
    }

    fn idle(&self) -> Call<'_, impl Attempt<()>> {
        let attempt = |state: &mut State| match state.stack.active() {
            0 => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        };
        Call { handle: &self.handle, interest: Interest::Idle, attempt }
    }

    /// Drives the stack for so long, `None` for ever: for an application that has chosen
    /// [`Driver::Caller`](crate::Driver::Caller) and gives a thread of its own to tasks and timers.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn drive(&self, timeout: Option<Duration>) -> Result<()> {
        let attempt = |_: &mut State| Poll::<Result<()>>::Pending;
        let call = Call { handle: &self.handle, interest: Interest::Time, attempt };
        or_elapsed(call.block_until(timeout.and_then(after)))
    }
}

/// Secret bytes for sequence numbers and cookies.
fn random<const N: usize>() -> Result<[u8; N]> {
    fusewire_device::random().map_err(Error::os("reading random bytes"))
}
