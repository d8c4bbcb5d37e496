//! An end of datagrams with the session that its keys are of: what generated ends over datagrams are made of.
//!
//! The two meet by a session over TCP in UDP, and tell each other within it at which port each has its socket for datagrams: so
//! nobody may translate addresses between them. The session stays as long as the end, and tells that the peer has ended.

use std::io;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_codec::pipeline::{Encoding, Message};
use fusewire_device::Device;
use fusewire_session::{Allow, ClientConfig, Fingerprint, Identity, ServerConfig, Terms, Trust};
use fusewire_stack::{self as stack, Connection, Endpoint};
use fusewire_transport::media::{Cause, Made, Seen};

use super::udp::Udp;
use super::{Counters, Event};
use crate::lifetime::Why;
use crate::profile::{self, AduType, Profile};
use crate::stream::{config, device, fits, say};
use crate::{Error, Result};

/// How long is waited for the peer to say where its socket is.
const MEETING: Duration = Duration::from_secs(5);
/// How often is looked whether the peer has ended.
const LOOK: Duration = Duration::from_millis(50);
/// An ADU of the session: a port.
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
    /// One of one's own was not sent, or not all of it: its deadline was over.
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
    /// Nothing is sent any more: what is sent at a fixed rate is lost, or nobody reports (RFC 8084).
    Tripped(Cause),
    /// The peer has ended; each call says it again.
    Ended,
}

/// What is heard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heard<'a> {
    /// An ADU: its lane, its bytes, and how it came.
    Adu(usize, &'a [u8], Came),
    /// Something else.
    Told(Told),
}

/// An end of datagrams, and its session.
pub struct Session<P: Profile> {
    call: Connection,
    udp: Udp<P>,
    looked: Instant,
    has_ended: bool,
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
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    Ok(open::<P>(device(local)?, server, identity, key, Terms::of(P::CLAUSES))?.into())
}

/// [`connect`], over a device and with these terms.
pub(crate) fn open<P: Profile>(
    device: Box<dyn Device>,
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    terms: Terms,
) -> Result<Session<P>> {
    let mut client = ClientConfig::new(identity, Trust::Pinned(key));
    say::<P>(&mut client.settings);
    client.settings.terms = terms;
    let call = Endpoint::new(device, config::<P>())?.connect(server, &client);
    Session::meet(call.map_err(|error| Error::of(error, P::CLAUSES))?)
}

/// Takes the sessions of one role's ends.
pub struct Listener<P> {
    endpoint: Endpoint,
    listener: stack::Listener,
    profile: PhantomData<fn() -> P>,
}

impl<P: Profile> Listener<P> {
    /// At an address, for those clients.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn bind(local: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Result<Listener<P>> {
        let endpoint = Endpoint::new(device(local)?, config::<P>())?;
        let mut server = ServerConfig::new(identity);
        server.allow = allow;
        say::<P>(&mut server.settings);
        let listener = endpoint.listen(server)?;
        Ok(Listener { endpoint, listener, profile: PhantomData })
    }

    /// Where it is.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// The end for the next client. Who is of another specification is refused, and is not one; nor is who does not say in a few
    /// seconds where its socket is.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn accept(&self) -> Result<P>
    where
        P: From<Session<P>>,
    {
        loop {
            // What a client does wrong after its handshake is its own.
            if let Ok(session) = Session::<P>::meet(self.listener.accept()?) {
                return Ok(session.into());
            }
        }
    }
}

impl<P: Profile> Session<P> {
    /// The two tell each other where their sockets for datagrams are.
    fn meet(call: Connection) -> Result<Session<P>> {
        let os = |what| stack::Error::os(what);
        let socket = UdpSocket::bind((call.local_addr().ip(), 0));
        let socket = socket.map_err(os("binding the socket for datagrams"))?;
        let port = socket.local_addr().map_err(os("binding the socket for datagrams"))?.port();
        call.send(&port.to_be_bytes())?;
        let said = call.recv_adu_timeout(MEETING)?;
        let port = said.and_then(|said| said.as_slice().try_into().ok()).map(u16::from_be_bytes);
        let at = call.remote_addr().zip(port);
        let (Some((peer, port)), Some(keys)) = (at, call.take_datagrams()) else {
            return Err(Error::Unknown { number: u8::MAX });
        };
        let udp = Udp::new(socket, SocketAddr::new(peer.ip(), port), keys);
        let udp = udp.map_err(os("connecting the socket for datagrams"))?;
        Ok(Session { call, udp, looked: Instant::ZERO, has_ended: false })
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

    /// What is next, which is waited for so long at most; `None`: nothing is. Whatever time it is given, what is due is sent and
    /// what is there taken: an application calls it whenever it has nothing else to do.
    ///
    /// # Errors
    /// [`Error::Stack`]: the session or the socket is broken.
    pub fn recv(&mut self, timeout: Duration) -> Result<Option<Heard<'_>>> {
        let until = self.udp.now() + timeout;
        let event = loop {
            let now = self.udp.now();
            if let Some(event) = self.udp.end().poll(now) {
                break event;
            }
            if self.is_over(now)? {
                return Ok(Some(Heard::Told(Told::Ended)));
            }
            self.udp.drive(until.min(now + LOOK)).map_err(of_socket)?;
            let now = self.udp.now();
            match self.udp.end().poll(now) {
                Some(event) => break event,
                None if now >= until => return Ok(None),
                None => {}
            }
        };
        Ok(Some(match event {
            Event::Adu { lane, number, behind, is_late, .. } => {
                Heard::Adu(lane, self.udp.end().bytes(), Came { number, behind, is_late })
            }
            event => Heard::Told(told::<P>(event)),
        }))
    }

    /// The peer has ended: looked at every now and then.
    fn is_over(&mut self, now: Instant) -> Result<bool> {
        if !self.has_ended && now.saturating_since(self.looked) >= LOOK {
            self.looked = now;
            let mut said = [0; PORT_LEN];
            self.has_ended = match self.call.try_recv(&mut said) {
                Poll::Pending | Poll::Ready(Ok(Some(_))) => false,
                Poll::Ready(Ok(None)) => true,
                Poll::Ready(Err(error)) => return Err(error.into()),
            };
        }
        Ok(self.has_ended)
    }

    /// The session itself: addresses, the peer's key.
    pub fn connection(&self) -> &Connection {
        &self.call
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

    /// Ends this side, and waits until the peer has ended its own. What waits to be sent is not.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn finish(self) -> Result<()> {
        Ok(self.call.finish()?)
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
