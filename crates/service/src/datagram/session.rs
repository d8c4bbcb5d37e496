//! An end of datagrams with the session that its keys are of: what generated ends over datagrams are made of.
//!
//! The two meet by a session over TCP in UDP, and tell each other within it at which port each has its socket for datagrams: so
//! nobody may translate addresses between them. The session stays as long as the end, and tells that the peer has ended. What must
//! arrive goes on its stream, beside the datagrams.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use fusewire_codec::pipeline::{Encoding, Message};
use fusewire_device::Device;
use fusewire_session::{Allow, Fingerprint, Identity, Terms};
use fusewire_stack::{self as stack, Connection};
use fusewire_transport::media::{Cause, Made, Seen};

use super::udp::Udp;
use super::{Counters, Event};
use crate::lifetime::Why;
use crate::profile::{self, Adu, AduType, Beside, Profile};
use crate::stream::{Stream, fits};
use crate::{Error, Result, opening};

/// How long is waited for the peer to say where its socket is.
const MEETING: Duration = Duration::from_secs(5);
/// Those that have not said it, at most.
const MEETINGS_MAX: usize = 64;
/// Datagrams that are read before the end is told, when the peer has ended: what was sent before, and is in the socket, is less.
const LAST_READ: usize = 4096;
/// The first ADU of the session: a port.
const PORT_LEN: usize = 2;

/// How an ADU came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its number among those of its type.
    pub number: u64,
    /// How long it was on its way, and held, beyond the fastest of its type.
    pub behind: Duration,
    /// It came after its deadline, and is handed over all the same.
    pub is_late: bool,
}

/// How an ADU came that was sent beside datagrams, until it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// How old it is: what it took longer than the fastest of the last ones that came so, and half of the least round trip.
    pub age: Duration,
    /// It came after its deadline.
    pub is_late: bool,
}

/// What an application is told beside ADUs. Types are named as in the specification, numbers are those of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// These of the peer's will not come: lost, expired, or overtaken by a newer one.
    Gap {
        /// Of which type.
        adu: &'static str,
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
    /// One of the peer's came after its deadline, and was dropped.
    Late {
        /// Of which type.
        adu: &'static str,
        /// Its number.
        number: u64,
    },
    /// One of one's own was not sent, or not all of it, or was lost and could not be sent again: its deadline was over.
    Expired {
        /// Of which type.
        adu: &'static str,
        /// Its number.
        number: u64,
    },
    /// One of one's own was not sent: it made room for one that is more important.
    Displaced {
        /// Of which type.
        adu: &'static str,
        /// Its number.
        number: u64,
    },
    /// One of one's own was sent, and nobody has said in time whether it came.
    Unknown {
        /// Of which type.
        adu: &'static str,
        /// Its number.
        number: u64,
    },
    /// What to make of this type from now on: by its `adapt` clause first of less quality, or fewer of them.
    Target {
        /// Which type.
        adu: &'static str,
        /// Bits of one.
        bits: u64,
        /// How many a second.
        hz: f64,
        /// It is the least, and more than the path has.
        is_below: bool,
    },
    /// Nothing is sent any more: what is sent at a fixed rate is lost, or nobody reports (RFC 8084). [`Session::close_breaker`] is for
    /// who knows that the path is good again.
    Tripped(Cause),
    /// The peer has ended: behind what was there of datagrams by then. It is said again, each second time at least where there is
    /// something else, as what is one's own goes on, and what comes of datagrams.
    Ended,
}

/// What is heard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heard<'a> {
    /// An ADU: its lane, its bytes, and how it came.
    Adu(usize, &'a [u8], Came),
    /// One that came on the session's stream: the number of its type, its bytes, and how it came.
    Beside(u8, &'a [u8], Arrived),
    /// Something else.
    Told(Told),
}

/// An end of datagrams, and its session.
pub struct Session<P: Profile> {
    stream: Stream<Beside<P>>,
    udp: Udp<P>,
    bell: Arc<Bell>,
    /// Where something has come both ways: each time the other.
    is_streams_turn: bool,
    has_ended: bool,
    /// Datagrams that are still read before the end is told: a peer may go on sending.
    reads_left: usize,
    /// The end was told, and whether it was what was told last.
    end_told: Option<bool>,
}

/// What the session rings where something comes on it, or ends it.
struct Bell {
    rings: AtomicBool,
    waker: fusewire_device::Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// What is next.
enum Next {
    /// On the stream: the number of its type.
    Beside(u8),
    Event(Event<'static>),
    Ended,
}

/// Opens the session of an end with the one at an address, which has this key.
///
/// # Errors
/// [`Error::Differs`]; [`Error::Stack`].
pub fn connect<P: Profile + From<Session<P>>>(
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
) -> Result<P> {
    Ok(Session::meet(opening::connect::<Beside<P>>(server, identity, key)?)?.into())
}

/// [`connect`], over a device and with these terms.
pub(crate) fn open<P: Profile>(
    device: Box<dyn Device>,
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    terms: Terms,
) -> Result<Session<P>> {
    Session::meet(opening::open::<Beside<P>>(device, server, identity, key, terms)?)
}

/// Takes the sessions of one role's ends.
pub struct Listener<P> {
    sessions: opening::Listener<Beside<P>>,
    meetings: Mutex<VecDeque<Meeting>>,
}

impl<P: Profile> Listener<P> {
    /// At an address, for those clients.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn bind(local: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Result<Listener<P>> {
        let sessions = opening::Listener::bind(local, identity, allow)?;
        Ok(Listener { sessions, meetings: Mutex::default() })
    }

    /// Where it is.
    pub fn local_addr(&self) -> SocketAddr {
        self.sessions.local_addr()
    }

    /// The end for the next client. Who is of another specification is refused, and is not one; nor is who does not say in five
    /// seconds where its socket is, for whom no other waits. Of more than 64 that have not yet the first is given up.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn accept(&self) -> Result<P>
    where
        P: From<Session<P>>,
    {
        Ok(self.accept_session(None)?.into())
    }

    /// [`Listener::accept`], for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::Stack`] with [`stack::Error::Elapsed`] if no client has come by then.
    pub(crate) fn accept_session(&self, timeout: Option<Duration>) -> Result<Session<P>> {
        let begun = std::time::Instant::now();
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let mut meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut at = 0;
            while let Some(meeting) = meetings.get(at) {
                let Poll::Ready(said) = meeting.poll(&mut cx) else {
                    at += 1;
                    continue;
                };
                match meetings.remove(at).map(|meeting| meeting.met::<P>(&said)) {
                    Some(Ok(session)) => return Ok(session),
                    Some(Err(error @ Error::Stack(_))) => return Err(error),
                    // What a client does wrong after its handshake is its own.
                    Some(Err(_)) | None => {}
                }
            }
            if let Poll::Ready(call) = self.sessions.listener.poll_accept(&mut cx) {
                if meetings.len() == MEETINGS_MAX {
                    meetings.pop_front();
                }
                meetings.push_back(Meeting::of(call?)?);
                continue;
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(stack::Error::Elapsed.into());
            }
            match meetings.front().map(Meeting::left).into_iter().chain(left).min() {
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
        }
    }
}

/// Wakes a thread that is parked.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A session whose ends tell each other where their sockets for datagrams are.
struct Meeting {
    call: Connection,
    socket: UdpSocket,
    begun: std::time::Instant,
}

impl Meeting {
    /// With a socket of its own. The errors are this side's.
    fn of(call: Connection) -> Result<Meeting> {
        let socket = UdpSocket::bind((call.local_addr().ip(), 0));
        let socket = socket.map_err(stack::Error::os("binding the socket for datagrams"))?;
        // What a broken connection does not take, it does not answer.
        let port = socket.local_addr().map_err(of_socket)?.port();
        let _ = call.send(&port.to_be_bytes());
        Ok(Meeting { call, socket, begun: std::time::Instant::now() })
    }

    fn left(&self) -> Duration {
        MEETING.saturating_sub(self.begun.elapsed())
    }

    /// What the other end says; nothing where it says something else, or is not heard in time.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        let mut said = [0; PORT_LEN];
        match self.call.poll_recv(cx, &mut said) {
            Poll::Pending if self.left().is_zero() => Poll::Ready(Vec::new()),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Some(len))) => Poll::Ready(said[..len].to_vec()),
            Poll::Ready(_) => Poll::Ready(Vec::new()),
        }
    }

    fn met<P: Profile>(self, said: &[u8]) -> Result<Session<P>> {
        let port = said.try_into().ok().map(u16::from_be_bytes).filter(|port| *port != 0);
        let at = self.call.remote_addr().zip(port);
        let (Some((peer, port)), Some(keys)) = (at, self.call.take_datagrams()) else {
            return Err(Error::Unknown { number: u8::MAX });
        };
        let udp = Udp::new(self.socket, SocketAddr::new(peer.ip(), port), keys);
        let udp = udp.map_err(stack::Error::os("connecting the socket for datagrams"))?;
        let waker = fusewire_device::Waker::new();
        let waker = waker.map_err(stack::Error::os("making the session's descriptor"))?;
        Ok(Session {
            // The port was its first.
            stream: Stream::behind(1, self.call),
            udp,
            bell: Arc::new(Bell { rings: AtomicBool::new(true), waker }),
            is_streams_turn: false,
            has_ended: false,
            reads_left: LAST_READ,
            end_told: None,
        })
    }
}

impl<P: Profile> Session<P> {
    /// The client's side of a meeting.
    fn meet(call: Connection) -> Result<Session<P>> {
        let meeting = Meeting::of(call)?;
        let said = meeting.call.recv_adu_timeout(MEETING)?;
        meeting.met(&said.unwrap_or_default())
    }

    /// Sends an ADU as soon as the path's rate lets it; its number among those of its type. It is marshalled into the memory
    /// where it waits, and sealed from there.
    ///
    /// # Errors
    /// [`Error::Codec`] for a value that is none of its type; [`Error::TooLong`]; [`Error::NoRoom`]; [`Error::Stack`].
    #[inline]
    pub fn send<A: AduType, T>(&mut self, adu: &T) -> Result<u64>
    where
        A::Encoding: Encoding<T>,
    {
        let lane = const { profile::lane_of(P::SENDS, A::ADU.number) };
        let wrong = |error| Error::Codec { adu: A::ADU.name, error };
        let len = Message::<T, A::Encoding>::of(adu).map_err(wrong)?.len();
        fits(&A::ADU, len)?;
        let now = self.udp.now();
        let pushed = self.udp.end().push_with(now, lane, len, |bytes| {
            // It was counted: it is of its type, and has so many bytes.
            let _ = A::Encoding::encode(adu, bytes);
        });
        let number = pushed.map_err(|_| Error::NoRoom { adu: A::ADU.name })?;
        self.udp.send().map_err(of_socket)?;
        Ok(number)
    }

    /// Sends an ADU on the session's stream, where there is room at once. It is in memory until it has arrived, whatever becomes of
    /// datagrams.
    ///
    /// # Errors
    /// [`Error::Codec`] for a value that is none of its type; [`Error::TooLong`]; [`Error::NoRoom`]; [`Error::Stack`].
    #[inline]
    pub fn send_beside<A: AduType, T>(&self, adu: &T) -> Result<()>
    where
        A::Encoding: Encoding<T>,
    {
        self.stream.sending.try_send::<A, T>(adu)
    }

    /// [`Session::send`] with bytes of an ADU; whether there was room.
    pub(crate) fn push(&mut self, lane: usize, bytes: &[u8]) -> Result<bool> {
        let now = self.udp.now();
        let is_pushed = self.udp.end().push(now, lane, bytes).is_ok();
        self.udp.send().map_err(of_socket)?;
        Ok(is_pushed)
    }

    /// [`Session::send_beside`] with an ADU of which only the bytes are known.
    pub(crate) fn send_bytes_beside(&self, adu: &Adu, bytes: &[u8]) -> Result<()> {
        self.stream.sending.try_send_bytes(adu, bytes)
    }

    /// What is next, which is waited for so long at most; `None`: nothing is. Whatever time it is given, what is due is sent and
    /// what is there taken: an application calls it whenever it has nothing else to do.
    ///
    /// # Errors
    /// [`Error::Stack`]: the session or the socket is broken; [`Error::Unknown`], [`Error::TooLong`]: the peer sends on the stream
    /// what is none of its types.
    pub fn recv(&mut self, timeout: Duration) -> Result<Option<Heard<'_>>> {
        let until = self.udp.now() + timeout;
        let mut is_driven = false;
        let next = loop {
            if let Some(next) = self.next()? {
                break next;
            }
            if is_driven && self.udp.now() >= until {
                return Ok(None);
            }
            self.udp.drive_waking(until, Some(&self.bell.waker)).map_err(of_socket)?;
            is_driven = true;
        };
        Ok(Some(match next {
            Next::Beside(number) => {
                let arrived = self.arrived(number);
                Heard::Beside(number, self.stream.receiving.last(), arrived)
            }
            Next::Event(Event::Adu { lane, number, behind, is_late, .. }) => {
                Heard::Adu(lane, self.udp.end().bytes(), Came { number, behind, is_late })
            }
            Next::Event(event) => Heard::Told(told::<P>(event)),
            Next::Ended => Heard::Told(Told::Ended),
        }))
    }

    fn next(&mut self) -> Result<Option<Next>> {
        if self.has_ended {
            return self.next_behind_the_end().map(Some);
        }
        self.is_streams_turn = !self.is_streams_turn;
        if self.is_streams_turn
            && let Some(number) = self.poll_stream()?
        {
            return Ok(Some(Next::Beside(number)));
        }
        // Nobody sleeps on the socket, and reads it then, while the stream has something.
        let is_busy = self.bell.rings.load(Ordering::Acquire);
        if let Some(event) = self.poll_datagrams(is_busy && !self.is_streams_turn)? {
            return Ok(Some(Next::Event(event)));
        }
        if let Some(number) = self.poll_stream()? {
            return Ok(Some(Next::Beside(number)));
        }
        if self.has_ended { self.next_behind_the_end().map(Some) } else { Ok(None) }
    }

    /// What is next where the peer has ended: what was sent before is in front of the end.
    fn next_behind_the_end(&mut self) -> Result<Next> {
        loop {
            if self.end_told != Some(false)
                && let Some(event) = self.poll_datagrams(false)?
            {
                self.end_told = self.end_told.map(|_| false);
                return Ok(Next::Event(event));
            }
            if self.end_told.is_none() && self.reads_left == 0 {
                break;
            }
            // What one's own datagrams are told of comes with the peer's, and time goes on for them.
            let (taken, is_left) = self.udp.turn().map_err(of_socket)?;
            self.reads_left = if is_left { self.reads_left.saturating_sub(taken) } else { 0 };
            if self.end_told.is_some() {
                break;
            }
        }
        self.end_told = Some(true);
        Ok(Next::Ended)
    }

    /// What is next of datagrams; where nothing is left of those that were read and `reads` is said, of those that are there.
    fn poll_datagrams(&mut self, reads: bool) -> Result<Option<Event<'static>>> {
        let now = self.udp.now();
        let event = self.udp.end().poll(now);
        if event.is_some() || !reads {
            return Ok(event);
        }
        self.udp.turn().map_err(of_socket)?;
        let now = self.udp.now();
        Ok(self.udp.end().poll(now))
    }

    /// The number of the type of what has come on the stream, which is asked only where that says that it has something.
    fn poll_stream(&mut self) -> Result<Option<u8>> {
        if self.has_ended || !self.bell.rings.swap(false, Ordering::Acquire) {
            return Ok(None);
        }
        let waker = Waker::from(self.bell.clone());
        let Poll::Ready(came) = self.stream.receiving.poll_recv(&mut Context::from_waker(&waker))
        else {
            return Ok(None);
        };
        // There may be more, or an error that is said each time.
        self.bell.rings.store(true, Ordering::Release);
        let number = came?;
        self.has_ended = number.is_none();
        Ok(number)
    }

    /// How what was taken of the stream came.
    fn arrived(&mut self, number: u8) -> Arrived {
        let now = self.udp.now();
        let rtt = self.connection().info().map_or(Duration::ZERO, |info| info.min_rtt);
        let age = self.stream.receiving.age_of_last(now, rtt / 2);
        let deadline = profile::of_number(P::TAKES_BESIDE, number).and_then(|adu| adu.deadline);
        Arrived { age, is_late: deadline.is_some_and(|deadline| age > deadline) }
    }

    /// The session itself: addresses, the peer's key.
    pub fn connection(&self) -> &Connection {
        self.stream.connection()
    }

    /// Where its socket for datagrams is.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.udp.local_addr().map_err(of_socket)
    }

    /// From now on datagrams go to this address, and come from there: of a relay between the two.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn go_by(&mut self, relay: SocketAddr) -> Result<()> {
        self.udp.go_by(relay).map_err(of_socket)
    }

    /// What the peer's last report showed.
    pub fn seen(&mut self) -> Seen {
        *self.udp.end().seen()
    }

    /// What became of datagrams and ADUs.
    pub fn counters(&mut self) -> Counters {
        self.udp.end().counters()
    }

    /// What to make now of the type that adapts, if there is one and it was told.
    pub fn made(&mut self) -> Option<Made> {
        self.udp.end().made()
    }

    /// Somebody has seen to it: after [`Told::Tripped`] datagrams go again.
    pub fn close_breaker(&mut self) {
        let now = self.udp.now();
        self.udp.end().close_breaker(now);
    }

    /// Ends this side, and waits until the peer has everything of the stream and has ended its own. What of datagrams waits to be
    /// sent is not.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn finish(self) -> Result<()> {
        self.stream.receiving.finish()
    }

    /// [`Session::finish`], for at most so long.
    ///
    /// # Errors
    /// [`Error::Stack`], which is [`stack::Error::Elapsed`] where the peer has not ended in time.
    pub fn finish_timeout(self, timeout: Duration) -> Result<()> {
        self.stream.receiving.finish_timeout(timeout)
    }
}

/// An event that is no ADU.
pub(crate) fn told<P: Profile>(event: Event<'_>) -> Told {
    let (ours, theirs) = (|lane: usize| P::SENDS[lane].name, |lane: usize| P::TAKES[lane].name);
    match event {
        Event::Gap(skip) => {
            Told::Gap { adu: theirs(skip.lane), first: skip.first, count: skip.count }
        }
        Event::Late { lane, number } => Told::Late { adu: theirs(lane), number },
        Event::Lost { lane, number, why: Why::Expired } => {
            Told::Expired { adu: ours(lane), number }
        }
        Event::Lost { lane, number, why: Why::Displaced } => {
            Told::Displaced { adu: ours(lane), number }
        }
        Event::Lost { lane, number, why: Why::Unknown } => {
            Told::Unknown { adu: ours(lane), number }
        }
        Event::Target { lane, made: Made { bits, hz, is_below } } => {
            Told::Target { adu: ours(lane), bits, hz, is_below }
        }
        Event::Tripped(cause) => Told::Tripped(cause),
        Event::Adu { .. } => unreachable!("it is no ADU"),
    }
}

fn of_socket(error: io::Error) -> Error {
    stack::Error::os("the socket for datagrams")(error).into()
}
