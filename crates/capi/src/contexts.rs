//! Contexts of XTP, in the words of C: who listens, who is connected.
//!
//! All contexts of a listener, and that of who connects, are driven by whoever is in a call that waits. He sleeps with
//! them in his hands; who comes wakes him.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_device::udp::{self, Udp};
use fusewire_outboard::sockets;
use fusewire_stack::Error;
use fusewire_stack::context::{
    About, Check, Config, Context, Contexts, ControlBlock, Ended, Event, Kept, Kind, Message, Rate,
    Retransmission, Secrets,
};

use crate::errno::{Errno, Result};
use crate::open;

/// How long a call waits at a time.
const TURN: Duration = Duration::from_millis(100);

/// `struct fw_context_config`, as its user says it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub mechanisms: u32,
    pub sort: i32,
    pub packet: u32,
    pub send: u32,
    pub receive: u32,
    pub kind: i32,
    /// Bytes a second and in a burst: the most that we send.
    pub out: [u32; 2],
    /// The most that we want to be sent.
    pub want: [u32; 2],
    /// Empty: the usual controller; `none`: none.
    pub congestion: String,
}

/// In the order of `enum fw_kind`.
const KINDS: [Kind; 4] = [Kind::Stream, Kind::Datagram, Kind::Acknowledged, Kind::Transaction];

/// In the order of the bits of `enum fw_mechanism`.
const MECHANISMS: [fn(&mut ControlBlock); 8] = [
    |block| block.retransmission = Retransmission::GoBackN,
    |block| block.noerr = true,
    |block| block.noflow = true,
    |block| block.edge = true,
    |block| block.check = Check::Cxor,
    |block| block.tags = true,
    |block| block.overtaking = true,
    |block| block.fastnak = false,
];

impl Settings {
    fn block(&self) -> Result<ControlBlock> {
        let mut block = ControlBlock::default();
        if self.mechanisms >> MECHANISMS.len() != 0 {
            open::tell("mechanisms: expected bits of enum fw_mechanism".to_string());
            return Err(Errno(libc::EINVAL));
        }
        let kind = usize::try_from(self.kind).ok().and_then(|kind| KINDS.get(kind));
        block.kind = *kind.ok_or_else(|| {
            open::tell("kind: expected one of enum fw_kind".to_string());
            Errno(libc::EINVAL)
        })?;
        for (bit, set) in MECHANISMS.iter().enumerate() {
            if self.mechanisms >> bit & 1 == 1 {
                set(&mut block);
            }
        }
        block.sort = sort(self.sort)?;
        [block.out_rate, block.in_rate] =
            [self.out, self.want].map(|[rate, burst]| Rate { rate, burst });
        block.congestion = match self.congestion.as_str() {
            "" => block.congestion,
            "none" => None,
            name => Some(name.parse().map_err(|why: String| {
                open::tell(format!("congestion: {why}, none"));
                Errno(libc::EINVAL)
            })?),
        };
        block.packet_bytes = (self.packet > 0).then_some(self.packet as usize);
        if self.send > 0 {
            block.send_bytes = self.send;
        }
        if self.receive > 0 {
            block.receive_bytes = self.receive;
        }
        Ok(block)
    }
}

/// A priority; 0 is none.
fn sort(sort: i32) -> Result<Option<u16>> {
    match sort {
        0 => Ok(None),
        _ => u16::try_from(sort).map(Some).map_err(|_| Errno(libc::EINVAL)),
    }
}

/// What was heard of a context and not asked for yet.
#[derive(Default)]
struct Heard {
    is_open: bool,
    messages: VecDeque<Message>,
    has_finished: bool,
    ended: Option<Ended>,
}

struct Inner {
    contexts: Contexts,
    heard: HashMap<Context, Heard>,
    arrived: VecDeque<Context>,
}

impl Inner {
    /// What waits is received, and noted.
    fn turn(&mut self) -> Result<()> {
        self.contexts.poll(&mut Kept).map_err(failed)?;
        self.take_events();
        Ok(())
    }

    fn take_events(&mut self) {
        while let Some((context, event)) = self.contexts.poll_event() {
            if let Event::Accepted { .. } = event {
                self.heard.insert(context, Heard::default());
                self.arrived.push_back(context);
            }
            // Who has closed his descriptor hears nothing more.
            let Some(heard) = self.heard.get_mut(&context) else { continue };
            match event {
                Event::Open => heard.is_open = true,
                Event::Message(message) => heard.messages.push_back(message),
                Event::Finished => heard.has_finished = true,
                Event::Closed(ended) => heard.ended = Some(ended),
                _ => {}
            }
        }
    }

    fn heard(&mut self, context: Context) -> &mut Heard {
        self.heard.entry(context).or_default()
    }
}

struct Shared {
    inner: Mutex<Inner>,
    waker: Waker,
    /// Threads that want the lock.
    waiting: AtomicUsize,
}

impl Shared {
    fn new(local: SocketAddr) -> Result<Shared> {
        let device = Udp::bind(local, &udp::Config::default());
        let device = device.map_err(|error| failed(Error::os("binding the UDP socket")(error)))?;
        let mut contexts = Contexts::new(Box::new(device), Config::default(), &random()?);
        sockets::observe(|| contexts.observe())?;
        let waker = contexts.waker();
        let inner = Inner { contexts, heard: HashMap::new(), arrived: VecDeque::new() };
        Ok(Shared { inner: Mutex::new(inner), waker, waiting: AtomicUsize::new(0) })
    }

    /// Whoever sleeps with it wakes, and goes out of the way.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        match self.inner.try_lock() {
            Ok(inner) => return inner,
            Err(TryLockError::Poisoned(inner)) => return inner.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.waker.wake();
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        inner
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    fusewire_device::random().map_err(Errno::from)
}

impl Shared {
    /// Sleeps with what is shared in hand, for a turn at most; who wants it has it then.
    fn sleep(&self, mut inner: MutexGuard<'_, Inner>, timeout: Option<Duration>) -> Result<()> {
        let turn = timeout.map_or(TURN, |timeout| timeout.min(TURN));
        inner.contexts.wait(Some(turn)).map_err(failed)?;
        drop(inner);
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// A listener, or one context.
pub struct Contextual {
    shared: Arc<Shared>,
    /// `None`: it listens.
    context: Option<Context>,
    local: SocketAddr,
    is_closed: AtomicBool,
}

/// Keeps the reason, and gives its number.
fn failed(error: Error) -> Errno {
    open::tell(error.to_string());
    error.into()
}

fn ended(ended: Ended) -> Errno {
    open::tell(match ended {
        Ended::Refused(diag) => format!("the peer refuses the context: {:?}", diag.reason),
        Ended::Abandoned(diag) => format!("the peer gave the context up: {:?}", diag.reason),
        other => format!("the context is over: {other:?}"),
    });
    Errno(match ended {
        Ended::InOrder | Ended::Ours => libc::EPIPE,
        Ended::Refused(_) | Ended::Unreachable => libc::ECONNREFUSED,
        Ended::Abandoned(_) => libc::ECONNABORTED,
        Ended::Aborted => libc::ECONNRESET,
        Ended::TimedOut => libc::ETIMEDOUT,
        Ended::TooLong => libc::EMSGSIZE,
    })
}

/// Takes contexts of `service` at `local`.
///
/// # Errors
/// `EINVAL`, what the kernel says.
pub fn listen(settings: &Settings, service: u16, local: SocketAddr) -> Result<Contextual> {
    let (block, shared) = (settings.block()?, Shared::new(local)?);
    let secrets = Secrets { isn: random()?, cookie: random()? };
    shared.lock().contexts.listen(service, block, &secrets);
    Ok(Contextual::new(Arc::new(shared), None))
}

/// Opens a context to a service of the peer's; what is sent at once leaves with the packet that opens it.
///
/// # Errors
/// `EINVAL`, what the kernel says.
pub fn connect(settings: &Settings, service: u16, remote: SocketAddr) -> Result<Contextual> {
    let block = settings.block()?;
    let local = if remote.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    connect_over(Arc::new(Shared::new(local)?), block, service, remote)
}

fn connect_over(
    shared: Arc<Shared>,
    block: ControlBlock,
    service: u16,
    remote: SocketAddr,
) -> Result<Contextual> {
    let mut inner = shared.lock();
    let context = inner.contexts.context(block).map_err(failed)?;
    inner.contexts.connect(context, remote, service).map_err(failed)?;
    inner.heard(context);
    drop(inner);
    Ok(Contextual::new(shared, Some(context)))
}

impl Contextual {
    fn new(shared: Arc<Shared>, context: Option<Context>) -> Contextual {
        let local = shared.lock().contexts.local_addr();
        Contextual { shared, context, local, is_closed: AtomicBool::new(false) }
    }

    fn context(&self) -> Result<Context> {
        self.context.ok_or(Errno(libc::ENOTCONN))
    }

    /// As [`connect`], over the same socket.
    ///
    /// # Errors
    /// The errors of [`connect`].
    pub fn beside(
        &self,
        settings: &Settings,
        service: u16,
        remote: SocketAddr,
    ) -> Result<Contextual> {
        connect_over(self.shared.clone(), settings.block()?, service, remote)
    }

    /// Time until a timer is due.
    pub fn timeout(&self) -> Option<Duration> {
        self.shared.lock().contexts.next_timeout()
    }

    /// Both are of one socket.
    pub fn is_beside(&self, other: &Contextual) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// One turn of all contexts of its socket, and what is the case with this one then (`poll`).
    ///
    /// # Errors
    /// What the device says.
    pub fn poll(&self) -> Result<i16> {
        if self.is_closed.load(Ordering::Acquire) {
            return Ok(libc::POLLNVAL);
        }
        let mut inner = self.shared.lock();
        inner.turn()?;
        let Some(context) = self.context else {
            return Ok(if inner.arrived.is_empty() { 0 } else { libc::POLLIN });
        };
        let takes = inner.contexts.takes_message(context);
        let is_known = inner.contexts.remote_addr(context).is_some();
        let heard = inner.heard(context);
        let is_over = heard.ended.is_some() || !is_known;
        let reads = is_over || !heard.messages.is_empty() || heard.has_finished;
        let flag = |is: bool, flag: i16| if is { flag } else { 0 };
        Ok(flag(reads, libc::POLLIN) | flag(is_over, libc::POLLHUP) | flag(takes, libc::POLLOUT))
    }

    /// Sleeps until something may be the case that was not, for `timeout` at most.
    ///
    /// # Errors
    /// What the device says.
    pub fn sleep(&self, timeout: Option<Duration>) -> Result<()> {
        self.shared.sleep(self.shared.lock(), timeout)
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
        let context = self.context()?;
        self.shared.lock().contexts.remote_addr(context).ok_or(Errno(libc::ENOTCONN))
    }

    /// Tries again after each turn, until there is a result or time has run out.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Inner) -> Result<Option<T>>,
    ) -> Result<T> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let mut inner = self.shared.lock();
            if self.is_closed.load(Ordering::Acquire) {
                return Err(Errno(libc::EBADF));
            }
            inner.turn()?;
            if let Some(result) = attempt(&mut inner)? {
                inner.contexts.flush();
                return Ok(result);
            }
            let left = until.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno(libc::EAGAIN));
            }
            self.shared.sleep(inner, left)?;
        }
    }

    /// The next context.
    ///
    /// # Errors
    /// `EINVAL` for a context, `EAGAIN`, `EBADF`.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Contextual> {
        if self.context.is_some() {
            return Err(Errno(libc::EINVAL));
        }
        let context = self.wait(timeout, |inner| Ok(inner.arrived.pop_front()))?;
        Ok(Contextual::new(self.shared.clone(), Some(context)))
    }

    /// Sends a message of these pieces; its length.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL`, `EAGAIN`, `EBADF`, what ended the context.
    pub fn send(
        &self,
        pieces: &[IoSlice<'_>],
        tag: Option<u64>,
        priority: i32,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let (context, about) = (self.context()?, About { tag, sort: sort(priority)? });
        self.wait(timeout, |inner| {
            if let Some(why) = inner.heard(context).ended {
                return Err(ended(why));
            }
            let is_taken = inner.contexts.send(context, pieces, about).map_err(failed)?;
            Ok(is_taken.then_some(()))
        })?;
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    /// Receives the next message to these pieces, one after the other; its length and tag.
    ///
    /// # Errors
    /// `ENODATA` after the peer's last, `EMSGSIZE` when it does not fit and `EBADMSG` when some of it has not come and will
    /// not (it is lost), `EAGAIN`, `EBADF`, what ended the context.
    pub fn recv(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        timeout: Option<Duration>,
    ) -> Result<(usize, Option<u64>)> {
        let context = self.context()?;
        let room: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.wait(timeout, |inner| {
            let heard = inner.heard(context);
            let Some(message) = heard.messages.pop_front() else {
                let is_known = inner.contexts.remote_addr(context).is_some();
                let heard = inner.heard(context);
                return match (heard.has_finished, heard.ended) {
                    (true, _) | (_, Some(Ended::InOrder)) => Err(Errno(libc::ENODATA)),
                    (false, Some(why)) => Err(ended(why)),
                    // Its one message was taken, or answered.
                    (false, None) if !is_known => Err(Errno(libc::ENODATA)),
                    (false, None) => Ok(None),
                };
            };
            let why = match message.len() <= room {
                true if message.is_whole => {
                    scatter(inner.contexts.message(context, &message), pieces);
                    None
                }
                true => Some(libc::EBADMSG),
                false => Some(libc::EMSGSIZE),
            };
            inner.contexts.release(context, &message);
            why.map_or(Ok(Some((message.len(), message.tag))), |why| Err(Errno(why)))
        })
    }

    /// Another bound on what we want to be sent: bytes a second, and at once.
    ///
    /// # Errors
    /// `EINVAL` for what is no open stream, `ENOTCONN`, `EBADF`.
    pub fn set_in_rate(&self, rate: u32, burst: u32) -> Result<()> {
        let context = self.context()?;
        self.wait(None, |inner| {
            let rate = Rate { rate, burst };
            inner.contexts.set_in_rate(context, rate).map_err(failed).map(Some)
        })
    }

    /// Our side ends, and waits until the peer has everything and has ended, too; what it still sends is lost.
    ///
    /// # Errors
    /// `EAGAIN`, `EBADF`, what ended the context.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<()> {
        let context = self.context()?;
        self.shared.lock().contexts.finish(context);
        self.wait(timeout, |inner| {
            // Of a stream. One message that nobody has taken was not handed over.
            if inner.contexts.info(context).is_some() {
                for message in std::mem::take(&mut inner.heard(context).messages) {
                    inner.contexts.release(context, &message);
                }
            }
            let is_known = inner.contexts.remote_addr(context).is_some();
            match inner.heard(context).ended {
                Some(Ended::InOrder) => Ok(Some(())),
                Some(why) => Err(ended(why)),
                // Its one message was taken, or answered.
                None if !is_known => Ok(Some(())),
                None => Ok(None),
            }
        })
    }

    /// Our side has ended; the peer may go on.
    ///
    /// # Errors
    /// `ENOTCONN`; `EINVAL` for another half than that of writing.
    pub fn shutdown(&self, how: i32) -> Result<()> {
        let context = self.context()?;
        if how != libc::SHUT_WR {
            return Err(Errno(libc::EINVAL));
        }
        let mut inner = self.shared.lock();
        inner.contexts.finish(context);
        inner.contexts.flush();
        Ok(())
    }

    /// Nobody asks for it any more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let mut inner = self.shared.lock();
        if let Some(context) = self.context {
            let is_over = inner.heard.remove(&context).is_some_and(|heard| heard.ended.is_some());
            if !is_over {
                inner.contexts.abort(context);
            }
            inner.contexts.flush();
            // A context is forgotten once its end was reported.
            inner.take_events();
        }
    }
}

/// Copies a message, which has room, to pieces one after the other.
fn scatter(message: [&[u8]; 2], pieces: &mut [IoSliceMut<'_>]) {
    let mut bytes = message.into_iter();
    let mut from: &[u8] = bytes.next().unwrap_or_default();
    for piece in pieces {
        let mut to: &mut [u8] = piece;
        while !to.is_empty() {
            if from.is_empty() {
                let Some(next) = bytes.next() else { return };
                from = next;
                continue;
            }
            let len = from.len().min(to.len());
            to[..len].copy_from_slice(&from[..len]);
            from = &from[len..];
            to = &mut to[len..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

    /// Hands on what comes from whichever of two, and drops the first long packet but one of the first of them.
    fn loses_one(relay: UdpSocket, server: SocketAddr) {
        let (mut client, mut long, mut bytes) = (None, 0, [0; 1 << 16]);
        while let Ok((len, from)) = relay.recv_from(&mut bytes) {
            if from != server {
                client = Some(from);
                long += u32::from(len > 1000);
            }
            let is_lost = from != server && len > 1000 && long == 2;
            let to = if from == server { client } else { Some(server) };
            if let Some(to) = to.filter(|_| !is_lost) {
                let _ = relay.send_to(&bytes[..len], to);
            }
        }
    }

    #[test]
    fn what_has_holes_is_not_handed_over() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = listen(&Settings::default(), 7, any).unwrap();
        let relay = UdpSocket::bind(any).unwrap();
        relay.set_read_timeout(PATIENCE).unwrap();
        let (by, server) = (relay.local_addr().unwrap(), listener.local());
        std::thread::spawn(move || loses_one(relay, server));
        // NOERR is what the sender says: nothing goes again.
        let noerr = Settings { mechanisms: 1 << 1, packet: 1400, ..Settings::default() };
        let client = connect(&noerr, 7, by).unwrap();
        client.send(&[IoSlice::new(&[1; 6000])], None, 0, PATIENCE).unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let server = listener.accept(PATIENCE)?;
                let mut bytes = [0; 8000];
                let mut recv = || server.recv(&mut [IoSliceMut::new(&mut bytes)], PATIENCE);
                Ok::<_, Errno>([recv(), recv()])
            });
            client.send(&[IoSlice::new(&[2; 10])], None, 0, PATIENCE).unwrap();
            while !server.is_finished() {
                client.poll().unwrap();
                client.sleep(Some(Duration::from_millis(10))).unwrap();
            }
            let [first, second] = server.join().unwrap().unwrap();
            assert_eq!(first.unwrap_err().0, libc::EBADMSG);
            assert_eq!(second.unwrap(), (10, None));
        });
    }
}
