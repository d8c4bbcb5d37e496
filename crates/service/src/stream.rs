//! ADUs of many types on one connection over TCP or XTP, each marshalled in the pass that seals it, and calls beside
//! them.
//!
//! ```text
//!  0        1               4
//! +--------+---------------+----------------
//! | number | 0, or sent    | the ADU …            a record of the connection, or a call's
//! +--------+---------------+----------------
//! ```
//! Where the profile says so ([`Profile::TELLS_AGE`]) the header has when the ADU was sent, in milliseconds of its sender's clock.
//! The connection loses nothing and keeps an order; so what is left to do for a type's clauses is to hand it over before
//! others, and not to begin to send it too late: what is sealed cannot expire.

mod ages;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fusewire_base as base;
use fusewire_codec::lws::{self, Word};
use fusewire_codec::pipeline::{self, Encoding, Lws, Marshal, Oer, Sealing, Xdr};
use fusewire_codec::{oer, xdr};
use fusewire_device::Device;
use fusewire_session::{Allow, Fingerprint, Identity, Terms};
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{self as stack, Config, Connection, PeerCall, Turn};

use crate::profile::{self, Adu, AduType, Machine, Profile};
use crate::{Error, Result, opening};
use ages::Ages;

/// Bytes in front of an ADU: a word of the widest of LWS's but one, so that arrays stay where they are aligned.
pub const HEADER_LEN: usize = 4;

/// Deadlines of a call for which an answer is waited that is wanted when it is late, too: nobody is waited for without an end.
pub const PATIENCE: u32 = 16;

/// An encoding by which a type is read from where it lies.
pub trait Reads<'a, T> {
    /// Reads it.
    ///
    /// # Errors
    /// The bytes are none.
    fn read(bytes: &'a [u8]) -> std::result::Result<T, fusewire_codec::Error>;
}

impl<'a, W: Word, T: lws::Decode<'a>> Reads<'a, T> for Lws<W> {
    fn read(bytes: &'a [u8]) -> std::result::Result<T, fusewire_codec::Error> {
        lws::from_bytes::<W, T>(bytes)
    }
}

impl<'a, T: oer::Decode<'a>> Reads<'a, T> for Oer {
    fn read(bytes: &'a [u8]) -> std::result::Result<T, fusewire_codec::Error> {
        oer::from_bytes(bytes, oer::Rules::Oer)
    }
}

impl<'a, T: xdr::Decode<'a>> Reads<'a, T> for Xdr {
    fn read(bytes: &'a [u8]) -> std::result::Result<T, fusewire_codec::Error> {
        xdr::from_bytes(bytes)
    }
}

/// The ADU of this type that lies in `bytes`.
///
/// # Errors
/// [`Error::Codec`]: the peer sent something else.
#[inline]
pub fn read<'a, A: AduType, T>(bytes: &'a [u8]) -> Result<T>
where
    A::Encoding: Reads<'a, T>,
{
    A::Encoding::read(bytes).map_err(|error| Error::Codec { adu: A::ADU.name, error })
}

/// An ADU behind its header.
struct Headed<M> {
    number: u8,
    /// When it is sent; 0 where nobody says.
    sent: [u8; 3],
    message: M,
}

/// Milliseconds of 24 bits.
fn units(of: Duration) -> [u8; 3] {
    let [.., a, b, c] = (of.as_millis() as u32).to_be_bytes();
    [a, b, c]
}

impl<'v, T, E: Encoding<T>> Headed<pipeline::Message<'v, T, E>> {
    #[inline]
    fn of<A: AduType<Encoding = E>>(adu: &'v T) -> Result<Self> {
        let message = pipeline::Message::of(adu);
        let message = message.map_err(|error| Error::Codec { adu: A::ADU.name, error })?;
        Ok(Headed { number: A::ADU.number, sent: [0; 3], message })
    }
}

impl Marshal for Headed<&[u8]> {
    fn marshalled_len(&self) -> usize {
        HEADER_LEN + self.message.len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&head(self.number, self.sent));
        to.put(self.message);
    }
}

impl<T, E: Encoding<T>> Marshal for Headed<pipeline::Message<'_, T, E>> {
    #[inline]
    fn marshalled_len(&self) -> usize {
        HEADER_LEN + self.message.marshalled_len()
    }

    #[inline]
    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&head(self.number, self.sent));
        self.message.marshal(to);
    }
}

#[inline]
fn head(number: u8, sent: [u8; 3]) -> [u8; HEADER_LEN] {
    [number, sent[0], sent[1], sent[2]]
}

/// The number of a type that this end takes, and the bytes of an ADU of it.
fn parsed<P: Profile>(adu: &[u8]) -> Result<(u8, &[u8])> {
    let Some(([number, sent @ ..], body)) = adu.split_first_chunk::<HEADER_LEN>() else {
        return Err(Error::Unknown { number: u8::MAX });
    };
    if !P::TELLS_AGE && *sent != [0; 3] {
        return Err(Error::Unknown { number: u8::MAX });
    }
    let Some(taken) = profile::of_number(P::TAKES, *number) else {
        return Err(Error::Unknown { number: *number });
    };
    fits(taken, body.len())?;
    Ok((*number, body))
}

/// Whether an ADU is as short as its clauses say.
pub(crate) fn fits(adu: &Adu, len: usize) -> Result<()> {
    match len <= adu.len_max {
        true => Ok(()),
        false => Err(Error::TooLong { adu: adu.name, len, max: adu.len_max }),
    }
}

/// Settings of an endpoint of a profile's.
pub fn config<P: Profile>() -> Config {
    let protocol = match P::MACHINE {
        Machine::Xtp => Protocol::Xtp,
        _ => Protocol::Tcp,
    };
    let mut transport = transport::Config::of_records(protocol);
    transport.set_congestion(P::CONGESTION);
    let longest = (HEADER_LEN + profile::len_max(P::SENDS)).max(taken_len_max::<P>());
    let max_adu = Some(u32::try_from(longest).unwrap_or(u32::MAX));
    Config { transport, max_adu, packs: P::PACKS, spin: P::SPIN, ..Config::default() }
}

/// Bytes of the longest ADU that this end takes, with its header. Datagrams beside the stream are no longer, either.
pub(crate) const fn taken_len_max<P: Profile>() -> usize {
    let longest = HEADER_LEN + profile::len_max(P::TAKES);
    match P::MACHINE {
        Machine::Datagram if longest < P::MTU => P::MTU,
        _ => longest,
    }
}

/// Opens the connection of an end to a server with this key.
///
/// # Errors
/// [`Error::Differs`]; [`Error::Stack`].
pub fn connect<P: Profile + From<Stream<P>>>(
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
) -> Result<P> {
    Ok(Stream::new(opening::connect::<P>(server, identity, key)?).into())
}

/// [`connect`], over a device and with these terms.
pub(crate) fn open<P: Profile>(
    device: Box<dyn Device>,
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    terms: Terms,
) -> Result<Stream<P>> {
    Ok(Stream::new(opening::open::<P>(device, server, identity, key, terms)?))
}

/// Takes the connections of one role's ends.
pub struct Listener<P>(opening::Listener<P>);

impl<P: Profile> Listener<P> {
    /// At an address, for those clients.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn bind(local: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Result<Listener<P>> {
        Ok(Listener(opening::Listener::bind(local, identity, allow)?))
    }

    /// Where it is.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// The end for the next client. Who is of another specification is refused, and is not one.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn accept(&self) -> Result<P>
    where
        P: From<Stream<P>>,
    {
        Ok(self.accept_stream()?.into())
    }

    pub(crate) fn accept_stream(&self) -> Result<Stream<P>> {
        Ok(Stream::new(self.0.listener.accept()?))
    }
}

/// One end: what it sends and asks, and what comes to it. The two may be in threads of their own.
pub struct Stream<P> {
    /// Its ADUs and calls.
    pub sending: Sending<P>,
    /// The peer's.
    pub receiving: Receiving<P>,
}

impl<P: Profile> Stream<P> {
    fn new(connection: Connection) -> Stream<P> {
        Stream::behind(0, connection)
    }

    /// Of a connection of which so many of the peer's ADUs are taken already.
    pub(crate) fn behind(taken: u64, connection: Connection) -> Stream<P> {
        let connection = Arc::new(connection);
        Stream {
            sending: Sending {
                connection: connection.clone(),
                answer: Vec::new(),
                is_late: false,
                begun: Instant::now(),
                profile: PhantomData,
            },
            receiving: Receiving::behind(taken, connection),
        }
    }

    /// The connection itself: addresses, the peer's key, counters.
    pub fn connection(&self) -> &Connection {
        &self.sending.connection
    }
}

/// What an end sends and asks. A copy may send and ask beside it, from a thread of its own.
pub struct Sending<P> {
    connection: Arc<Connection>,
    /// The answer that was handed over last.
    answer: Vec<u8>,
    /// It came after the deadline of its request.
    is_late: bool,
    /// When its clock began.
    begun: Instant,
    profile: PhantomData<fn() -> P>,
}

impl<P> Clone for Sending<P> {
    fn clone(&self) -> Self {
        let (connection, begun) = (self.connection.clone(), self.begun);
        Sending { connection, answer: Vec::new(), is_late: false, begun, profile: PhantomData }
    }
}

impl<P: Profile> Sending<P> {
    /// The connection itself.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The same, to be kept by a caller that outlives a borrow of the end.
    pub(crate) fn shared(&self) -> Arc<Connection> {
        self.connection.clone()
    }

    /// Sends an ADU; returns when it is on its way, and in memory until it has arrived.
    ///
    /// # Errors
    /// [`Error::Codec`] for a value that is none of its type; [`Error::TooLong`]; [`Error::Expired`] where there was no room
    /// before its deadline; [`Error::Stack`].
    #[inline]
    pub fn send<A: AduType, T>(&self, adu: &T) -> Result<()>
    where
        A::Encoding: Encoding<T>,
    {
        self.send_with(&A::ADU, &Headed { sent: self.sent(), ..Headed::of::<A>(adu)? })
    }

    /// [`Sending::send`], where there is room at once.
    ///
    /// # Errors
    /// As [`Sending::send`]; [`Error::NoRoom`].
    #[inline]
    pub fn try_send<A: AduType, T>(&self, adu: &T) -> Result<()>
    where
        A::Encoding: Encoding<T>,
    {
        self.try_send_with(&A::ADU, &Headed { sent: self.sent(), ..Headed::of::<A>(adu)? })
    }

    /// When what is sent now is.
    fn sent(&self) -> [u8; 3] {
        if P::TELLS_AGE { units(self.begun.elapsed()) } else { [0; 3] }
    }

    /// The same with an ADU of which only the bytes are known.
    pub(crate) fn try_send_bytes(&self, adu: &Adu, bytes: &[u8]) -> Result<()> {
        self.try_send_with(adu, &Headed { number: adu.number, sent: self.sent(), message: bytes })
    }

    #[inline]
    fn try_send_with(&self, adu: &Adu, message: &impl Marshal) -> Result<()> {
        fits(adu, message.marshalled_len() - HEADER_LEN)?;
        match self.connection.try_send_message(message) {
            Poll::Ready(sent) => Ok(sent?),
            Poll::Pending => Err(Error::NoRoom { adu: adu.name }),
        }
    }

    /// An ADU of which only the bytes are known.
    pub(crate) fn send_bytes(&self, adu: &Adu, bytes: &[u8]) -> Result<()> {
        self.send_with(adu, &Headed { number: adu.number, sent: self.sent(), message: bytes })
    }

    /// One that may be longer than this end would send.
    pub(crate) fn send_unchecked(&self, adu: &Adu, bytes: &[u8]) -> Result<()> {
        let sent = self.sent();
        Ok(self.connection.send_message(&Headed { number: adu.number, sent, message: bytes })?)
    }

    #[inline]
    fn send_with(&self, adu: &Adu, message: &impl Marshal) -> Result<()> {
        fits(adu, message.marshalled_len() - HEADER_LEN)?;
        match adu.deadline.filter(|_| adu.drops_late) {
            Some(deadline) => match self.connection.send_message_timeout(message, deadline) {
                Err(stack::Error::Elapsed) => Err(Error::Expired { adu: adu.name }),
                sent => Ok(sent?),
            },
            None => Ok(self.connection.send_message(message)?),
        }
    }

    /// Asks, and gives the bytes of the answer; they stay until the next call.
    ///
    /// # Errors
    /// As [`Sending::send`]; [`Error::Unknown`] where what comes is not of the type that answers.
    pub fn call<A: AduType, T>(&mut self, request: &T) -> Result<&[u8]>
    where
        A::Encoding: Encoding<T>,
    {
        self.call_with(&A::ADU, &Headed::of::<A>(request)?)
    }

    /// [`Sending::call`] with a request of which only the bytes are known.
    pub(crate) fn call_bytes(&mut self, adu: &Adu, request: &[u8]) -> Result<&[u8]> {
        self.call_with(adu, &Headed { number: adu.number, sent: [0; 3], message: request })
    }

    #[inline]
    fn call_with(&mut self, adu: &Adu, request: &impl Marshal) -> Result<&[u8]> {
        fits(adu, request.marshalled_len() - HEADER_LEN)?;
        let timeout = adu.deadline.filter(|_| adu.drops_late);
        let bound = adu.deadline.filter(|_| !adu.drops_late);
        let asked = bound.map(|deadline| (Instant::now(), deadline));
        // A peer that never answers is not waited for without an end.
        let timeout = timeout.or(bound.map(|deadline| deadline.saturating_mul(PATIENCE)));
        self.answer = match self.connection.call_peer_message(request, timeout) {
            Err(stack::Error::Elapsed) => return Err(Error::Expired { adu: adu.name }),
            answered => answered?,
        };
        self.is_late = asked.is_some_and(|(at, deadline)| at.elapsed() > deadline);
        match parsed::<P>(&self.answer)? {
            (number, body) if Some(number) == adu.answered_by => Ok(body),
            (number, _) => Err(Error::Unknown { number }),
        }
    }

    /// The last answer came after the deadline of its request, and is handed over all the same.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Ends this side in order. What the peer still sends can be received.
    pub fn finish(&self) {
        self.connection.finish_sending();
    }
}

/// What comes to an end.
pub struct Receiving<P> {
    connection: Arc<Connection>,
    /// The ADU that was handed over last, where ADUs are taken in order.
    memory: Vec<u8>,
    /// The one that was handed over last, otherwise.
    last: Vec<u8>,
    early: Early,
    ages: Ages,
    /// A call is before an ADU where both have come: each time the other.
    calls_first: bool,
    profile: PhantomData<fn() -> P>,
}

/// What the peer has sent: the number of its type, and its bytes.
pub enum Next<'a> {
    /// An ADU.
    Adu(u8, &'a [u8]),
    /// A call, and what it is answered by.
    Call(u8, &'a [u8], Answer),
}

impl<P: Profile> Receiving<P> {
    /// ADUs of this end's that are handed over as soon as they have come.
    const FREE: u64 = profile::numbers_of_free(P::TAKES);
    /// None is.
    const IN_ORDER: bool = Self::FREE == 0;
    /// All are.
    const IS_FREE: bool = Self::FREE == profile::numbers(P::TAKES);
    /// There are none: whatever comes is refused.
    const TAKES_NONE: bool = P::TAKES.is_empty();

    fn behind(taken: u64, connection: Arc<Connection>) -> Receiving<P> {
        Receiving {
            connection,
            memory: Vec::new(),
            last: Vec::new(),
            early: Early { next: taken, slots: VecDeque::new() },
            ages: if P::TELLS_AGE { Ages::new() } else { Ages::NONE },
            calls_first: false,
            profile: PhantomData,
        }
    }

    /// The connection itself.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The next ADU: the number of its type, and its bytes, which stay until the next call; `None` after the peer's last.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::TooLong`]; [`Error::Stack`].
    #[inline]
    pub fn recv(&mut self) -> Result<Option<(u8, &[u8])>> {
        if Self::IN_ORDER {
            if self.memory.is_empty() {
                self.memory = vec![0; taken_len_max::<P>()];
            }
            let Some(len) = self.connection.recv(&mut self.memory)? else { return Ok(None) };
            return parsed::<P>(&self.memory[..len]).map(Some);
        }
        self.connection.recycle(std::mem::take(&mut self.last));
        let next = if Self::IS_FREE {
            self.connection.recv_any()?.map(|(_, adu)| adu)
        } else {
            self.next_free()?
        };
        let Some(next) = next else { return Ok(None) };
        self.last = next;
        parsed::<P>(&self.last).map(Some)
    }

    /// One that is free, or whose turn it is.
    fn next_free(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(adu) = self.early.take_next() {
                return Ok(Some(adu));
            }
            let Some((index, adu)) = self.connection.recv_any()? else { return Ok(None) };
            if let Some(adu) = self.free(index, adu)? {
                return Ok(Some(adu));
            }
        }
    }

    /// Hands it over if its type is free, and holds it until its turn otherwise.
    fn free(&mut self, index: u64, adu: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let number = match parsed::<P>(&adu) {
            Ok((number, _)) => number,
            Err(error) => {
                // Those behind it do not wait for what is refused.
                self.early.passed(index);
                self.connection.recycle(adu);
                return Err(error);
            }
        };
        if Self::FREE >> number & 1 == 1 {
            self.early.passed(index);
            return Ok(Some(adu));
        }
        self.early.hold(index, adu);
        Ok(None)
    }

    /// [`Receiving::recv`] for a task that polls, which is woken: the number of its type; its bytes are those of
    /// [`Receiving::last`].
    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u8>>> {
        self.connection.recycle(std::mem::take(&mut self.last));
        loop {
            if !Self::TAKES_NONE
                && let Some(adu) = self.early.take_next()
            {
                self.last = adu;
                break;
            }
            let Some((index, adu)) = std::task::ready!(self.connection.poll_recv_any(cx))? else {
                return Poll::Ready(Ok(None));
            };
            if Self::TAKES_NONE {
                self.last = adu;
                break;
            }
            if let Some(adu) = self.free(index, adu)? {
                self.last = adu;
                break;
            }
        }
        Poll::Ready(parsed::<P>(&self.last).map(|(number, _)| Some(number)))
    }

    /// The ADU that [`Receiving::poll_recv`] has taken.
    pub(crate) fn last(&self) -> &[u8] {
        self.last.get(HEADER_LEN..).unwrap_or_default()
    }

    /// How old the ADU is that [`Receiving::poll_recv`] has taken, by what it took longer than the fastest that came lately, and this
    /// long on the way.
    pub(crate) fn age_of_last(&mut self, now: base::Instant, one_way: Duration) -> Duration {
        let sent = self.last.first_chunk::<HEADER_LEN>().copied().unwrap_or_default();
        self.ages.behind(now, sent) + one_way
    }

    /// What the peer asks next: the number of its type, its bytes, which stay until the next call, and what it is answered
    /// by; `None` when the peer has ended.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Stack`].
    pub fn next_call(&mut self) -> Result<Option<(u8, &[u8], Answer)>> {
        let Some(call) = self.connection.next_call()? else { return Ok(None) };
        self.handed(call).map(Some)
    }

    fn handed(&mut self, mut call: PeerCall) -> Result<(u8, &[u8], Answer)> {
        self.last = call.take_request();
        let (number, body) = parsed::<P>(&self.last)?;
        Ok((number, body, Answer(call)))
    }

    /// What the peer sends or asks next, the one or the other in turns where both have come, for at most so long; its bytes stay
    /// until the next call. `None` when it has ended.
    ///
    /// # Errors
    /// As [`Receiving::recv`]; [`Error::Stack`] with [`stack::Error::Elapsed`].
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Next<'_>>> {
        self.connection.recycle(std::mem::take(&mut self.last));
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if !Self::IN_ORDER
                && !Self::IS_FREE
                && let Some(adu) = self.early.take_next()
            {
                return self.adu(adu).map(Some);
            }
            let turn = Turn { in_order: Self::IN_ORDER, calls_first: self.calls_first };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let adu = match self.connection.next(turn, left)? {
                None => return Ok(None),
                Some(stack::Next::Call(call)) => {
                    self.calls_first = false;
                    let (number, body, answer) = self.handed(call)?;
                    return Ok(Some(Next::Call(number, body, answer)));
                }
                Some(stack::Next::Adu(_, adu)) if Self::IN_ORDER || Self::IS_FREE => Some(adu),
                Some(stack::Next::Adu(index, adu)) => self.free(index, adu)?,
            };
            self.calls_first = true;
            if let Some(adu) = adu {
                return self.adu(adu).map(Some);
            }
        }
    }

    fn adu(&mut self, adu: Vec<u8>) -> Result<Next<'_>> {
        self.last = adu;
        let (number, body) = parsed::<P>(&self.last)?;
        Ok(Next::Adu(number, body))
    }

    /// Ends this side, and waits until the peer has everything and has ended its own. What it sends until then is thrown away.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn finish(self) -> Result<()> {
        Ok(self.connection.finish()?)
    }

    /// [`Receiving::finish`], for at most so long.
    ///
    /// # Errors
    /// [`Error::Stack`], with [`stack::Error::Elapsed`] where the peer has not ended.
    pub fn finish_timeout(self, timeout: Duration) -> Result<()> {
        Ok(self.connection.finish_timeout(timeout)?)
    }
}

/// For a number that none of the peer's types has.
///
/// # Errors
/// [`Error::Unknown`], always.
pub fn unknown<T>(number: u8) -> Result<T> {
    Err(Error::Unknown { number })
}

/// Answers one request of the peer's; dropped, it refuses.
#[derive(Debug)]
pub struct Answer(PeerCall);

impl Answer {
    /// With this ADU.
    ///
    /// # Errors
    /// [`Error::Codec`] for a value that is none of its type; [`Error::Stack`].
    pub fn send<A: AduType, T>(self, adu: &T) -> Result<()>
    where
        A::Encoding: Encoding<T>,
    {
        let answer = Headed::of::<A>(adu)?;
        fits(&A::ADU, answer.marshalled_len() - HEADER_LEN)?;
        Ok(self.0.answer_message(&answer)?)
    }

    /// With an ADU of which only the bytes are known.
    pub(crate) fn send_bytes(self, number: u8, adu: &[u8]) -> Result<()> {
        Ok(self.0.answer_message(&Headed { number, sent: [0; 3], message: adu })?)
    }
}

/// ADUs that have come before their turn, where others do not wait for it. What may lie ahead of a lost one is bounded by
/// the connection's receive window, and so is this.
#[derive(Debug, Default)]
struct Early {
    /// The index whose turn it is.
    next: u64,
    /// From `next` on: what was handed over, and what is held.
    slots: VecDeque<Slot>,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Missing,
    Passed,
    Held(Vec<u8>),
}

impl Early {
    fn put(&mut self, index: u64, slot: Slot) {
        let at = (index - self.next) as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Slot::default);
        }
        self.slots[at] = slot;
    }

    fn passed(&mut self, index: u64) {
        self.put(index, Slot::Passed);
    }

    fn hold(&mut self, index: u64, adu: Vec<u8>) {
        self.put(index, Slot::Held(adu));
    }

    /// The one that is held and whose turn it is.
    fn take_next(&mut self) -> Option<Vec<u8>> {
        while let Some(slot @ (Slot::Passed | Slot::Held(_))) = self.slots.front_mut() {
            let slot = std::mem::take(slot);
            self.slots.pop_front();
            self.next += 1;
            if let Slot::Held(adu) = slot {
                return Some(adu);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_in_its_turn_and_what_is_free_at_once() {
        let mut early = Early::default();
        early.hold(3, vec![3]);
        early.passed(1);
        assert_eq!(early.take_next(), None, "0 is missing");
        early.hold(0, vec![0]);
        assert_eq!(early.take_next(), Some(vec![0]));
        assert_eq!(early.take_next(), None, "2 is missing");
        early.passed(2);
        assert_eq!(early.take_next(), Some(vec![3]));
        assert_eq!(early.take_next(), None);
        assert_eq!((early.next, early.slots.len()), (4, 0));
    }
}
