//! The end that receives: two streams of the group's, and the session that says how to read them.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fusewire_device::{Device, random};
use fusewire_session::{ClientConfig, Fingerprint, Identity, Terms, Trust};
use fusewire_stack::group::{ReceiverConfig, ReceiverEvent};
use fusewire_stack::{self as stack, Clock, Connection, Endpoint};
use zeroize::Zeroizing;

use super::ear::Ear;
use super::opener::HOLDING;
use super::wait::{STREAMS, Sleeper};
use super::wire::{self, Head, Keys, TOLD_MAX, Welcome};
use super::{ONCE, Place, RESENT, TURN, body_max, buffer, code, door, stream_of};
use crate::playout::{Mode, Playout};
use crate::profile::{self, Adu, Order, Profile, is_without};
use crate::{Error, Result};

/// How long one end may be told of before the other is.
const ENDING: Duration = Duration::from_secs(3);
/// Sleeps are no longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What became of what the group was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// ADUs that were handed over.
    pub delivered: u64,
    /// That were handed over late.
    pub late: u64,
    /// That were dropped, as they were late.
    pub expired: u64,
    /// That a newer one took the place of before they were handed over.
    pub overtaken: u64,
    /// That did not come, by the numbers of those that did.
    pub lost: u64,
    /// Messages that were not genuine, or none of the specification's: whoever has the keys could have sent those.
    pub refused: u64,
}

/// Keys of one type of which an ADU may wait to be handed over: of more, one that waits is overtaken.
const KEYS_MAX: usize = 4096;

/// The key of what the newest is judged by, of an ADU: the hash of a component's value, alike in one process.
pub fn key_of(value: &impl fmt::Debug) -> u64 {
    struct Into(DefaultHasher);
    impl fmt::Write for Into {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    let mut hash = Into(KEYS.get_or_init(RandomState::new).build_hasher());
    // It writes all: a hasher has no errors.
    let _ = write!(hash, "{value:?}");
    hash.0.finish()
}

/// One ADU of a type of which the newest counts, of each key, until it is handed over.
struct Newest {
    number: u8,
    key: u64,
    /// Since when one of this key waits.
    since: fusewire_base::Instant,
    body: Vec<u8>,
    /// How old it was, and when.
    age: Duration,
    opened: fusewire_base::Instant,
    is_there: bool,
}

/// The end that receives. Dropped, it is a receiver no more.
pub struct Receiver<P> {
    connection: Connection,
    sleeper: Sleeper,
    waker: Waker,
    ears: [Option<Ear>; STREAMS],
    /// This end's key in the group.
    own: u64,
    clock: Clock,
    /// How long ADUs were on their way.
    times: Playout<()>,
    /// Half of the least round trip of the session.
    one_way: Duration,
    /// The index that the next ADU of a type has, if one has come.
    next: [Option<u32>; 64],
    newest: Vec<Newest>,
    /// The stream that is looked at first: they take turns.
    turn: usize,
    /// What was opened last, its head with it.
    body: Vec<u8>,
    age: Duration,
    is_late: bool,
    counters: Counters,
    /// The sender was told that this end hears.
    is_ready: bool,
    /// What the session says waits, as no more epochs can be kept.
    is_behind: bool,
    /// The session has ended in order.
    has_ended: Option<Instant>,
    /// Nothing more comes, for this.
    failed: Option<Error>,
    profile: PhantomData<fn() -> P>,
}

impl<P: Profile> Receiver<P> {
    /// Becomes a receiver of the group whose sender has its sessions there, and this key; `interface` leads to the group, by
    /// name, or is the kernel's choice.
    ///
    /// # Errors
    /// [`Error::Differs`]; [`Error::Full`]; [`Error::Stack`].
    pub fn join(
        sender: SocketAddr,
        interface: Option<&str>,
        identity: Arc<Identity>,
        key: Fingerprint,
    ) -> Result<Receiver<P>> {
        let device = |config: &ReceiverConfig| Ok(Box::new(config.udp_device()?) as Box<_>);
        Self::over(sender, interface, identity, key, device)
    }

    /// [`Receiver::join`], where `device` makes what carries each of the streams.
    ///
    /// # Errors
    /// As [`Receiver::join`].
    pub fn over(
        sender: SocketAddr,
        interface: Option<&str>,
        identity: Arc<Identity>,
        key: Fingerprint,
        device: impl FnMut(&ReceiverConfig) -> Result<Box<dyn Device>>,
    ) -> Result<Receiver<P>> {
        Self::with_terms(sender, interface, identity, key, Terms::of(P::CLAUSES), device)
    }

    /// [`Receiver::over`], with these terms.
    pub(crate) fn with_terms(
        sender: SocketAddr,
        interface: Option<&str>,
        identity: Arc<Identity>,
        key: Fingerprint,
        terms: Terms,
        mut device: impl FnMut(&ReceiverConfig) -> Result<Box<dyn Device>>,
    ) -> Result<Receiver<P>> {
        let connection = session::<P>(sender, identity, key, terms)?;
        let own = draw_key()?;
        connection.send(&wire::join(own))?;
        let mut told = [0; TOLD_MAX];
        // Who comes when many do waits for its turn. A sender that is gone is noticed sooner.
        let len = connection.recv_timeout(&mut told, TURN).map_err(ended)?.unwrap_or(0);
        let welcome = Welcome::parse(&told[..len]).ok_or(Error::Group("says no group"))?;
        let from = connection.remote_addr().unwrap_or(sender).ip();
        let sleeper = Sleeper::new()?;
        let waker = Waker::from(Arc::clone(&sleeper.news));
        let newest = |adu: &&Adu| adu.order == Order::Newest;
        let newest = P::TAKES.iter().filter(newest).map(|adu| Newest {
            number: adu.number,
            key: 0,
            since: fusewire_base::Instant::ZERO,
            body: Vec::with_capacity(wire::HEAD_LEN + adu.len_max),
            age: Duration::ZERO,
            opened: fusewire_base::Instant::ZERO,
            is_there: false,
        });
        let mut receiver = Receiver {
            connection,
            sleeper,
            waker,
            ears: [None, None],
            own,
            clock: Clock::new(),
            times: Playout::new(Mode::None, 1),
            one_way: Duration::ZERO,
            next: [None; 64],
            newest: newest.collect(),
            turn: RESENT,
            body: Vec::with_capacity(wire::HEAD_LEN + profile::len_max(P::TAKES)),
            age: Duration::ZERO,
            is_late: false,
            counters: Counters::default(),
            is_ready: false,
            is_behind: false,
            has_ended: None,
            failed: None,
            profile: PhantomData,
        };
        for stream in [RESENT, ONCE] {
            let Some(body_max) = body_max(P::TAKES, stream) else { continue };
            if welcome.streams[stream] == 0 {
                return Err(Error::Group("has no such stream"));
            }
            let config = ReceiverConfig {
                interface: interface.map(str::to_owned),
                buffer: buffer::<P>(stream, body_max),
                nocheck: stream == ONCE,
                udp: crate::opening::udp_config::<P>(),
                ..ReceiverConfig::new(Place::of(welcome.group, stream))
            };
            let from = (from, welcome.ports[stream]);
            let named = (stream, welcome.streams[stream], from);
            let ear = Ear::new(device(&config)?, &config, named, (body_max, P::data_pass()));
            receiver.sleeper.watch(stream, &**ear.receiver.device())?;
            receiver.ears[stream] = Some(ear);
        }
        Ok(receiver)
    }

    /// The next ADU that is one of its type, by `is_one`: its number and bytes, which stay until the next call; `None` after
    /// the sender's end.
    ///
    /// # Errors
    /// [`Error::LetGo`]; [`Error::Group`]; [`Error::Stack`], among them `Elapsed` where nothing has come in time.
    pub fn recv(
        &mut self,
        timeout: Option<Duration>,
        is_one: impl Fn(u8, &[u8]) -> bool,
    ) -> Result<Option<(u8, &[u8])>> {
        self.recv_by(timeout, |number, bytes| is_one(number, bytes).then_some(0))
    }

    /// [`Receiver::recv`], where `key_of` gives the key by which the newest of its type is judged, if it is one: an ADU takes the
    /// place of an earlier one of its key alone.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub fn recv_by(
        &mut self,
        timeout: Option<Duration>,
        key_of: impl Fn(u8, &[u8]) -> Option<u64>,
    ) -> Result<Option<(u8, &[u8])>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.hear_session();
            self.drive()?;
            self.say_ready();
            if let Some(number) = self.next_adu(&key_of)? {
                self.counters.delivered += 1;
                return Ok(Some((number, &self.body[wire::HEAD_LEN..])));
            }
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            if self.is_over()? {
                // The sender waits for this a while, and has said all.
                let _ = self.connection.finish_timeout(ENDING);
                return Ok(None);
            }
            if self.hears_again() {
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(stack::Error::Elapsed.into());
            }
            let timers = self.ears.iter().flatten().filter_map(|ear| ear.receiver.next_timeout());
            let most = match self.ears.iter().flatten().any(|ear| ear.opener.is_waiting()) {
                true => LOOK_EVERY.min(HOLDING[ONCE] / 4),
                false => LOOK_EVERY,
            };
            self.sleeper.sleep(timers.chain(left).chain([most]).min())?;
        }
    }

    /// How old the last ADU was when it was handed over, counted from the fastest that came lately, and half of the session's
    /// least round trip: the sender's clock is another.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// The last ADU came after its deadline, and is handed over all the same.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// What became of what the group was sent.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Is a receiver no more, and says so.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn leave(mut self) -> Result<()> {
        if let Some(ear) = &mut self.ears[RESENT] {
            ear.receiver.leave();
            ear.receiver.drive(Some(Duration::ZERO))?;
        }
        // The sender ends the session in its turn, or has done so already.
        let _ = self.connection.finish_timeout(ENDING);
        Ok(())
    }

    /// Ends the session, and hears the group as before.
    pub(crate) fn hang_up(&mut self) {
        self.connection.close(0);
    }

    /// What the sender says in the session.
    fn hear_session(&mut self) {
        let hears = self.sleeper.news.take() | self.hears_again();
        if !hears || self.has_ended.is_some() || self.failed.is_some() {
            return;
        }
        self.one_way = self.connection.info().map_or(Duration::ZERO, |info| info.min_rtt) / 2;
        let (waker, mut told) = (self.waker.clone(), Zeroizing::new([0; TOLD_MAX]));
        let mut cx = Context::from_waker(&waker);
        loop {
            // The sender tells more as it is taken.
            self.is_behind = self.is_full();
            if self.is_behind {
                return;
            }
            match self.connection.poll_recv(&mut cx, &mut *told) {
                Poll::Pending => return,
                Poll::Ready(Ok(Some(len))) => match Keys::parse(&told[..len]) {
                    Some(keys) => {
                        if let Err(error) = self.learn(&keys) {
                            self.failed = Some(error);
                            return;
                        }
                    }
                    None => {
                        self.failed = Some(Error::Group("says what is none of this protocol"));
                        return;
                    }
                },
                Poll::Ready(Ok(None)) => {
                    self.has_ended = Some(Instant::now());
                    let ears = self.ears.iter_mut().flatten();
                    ears.for_each(|ear| ear.opener.has_all_keys = true);
                    return;
                }
                Poll::Ready(Err(error)) => {
                    self.failed = Some(self.why(ended(error)));
                    return;
                }
            }
        }
    }

    /// As many epochs of what must arrive are told as can be kept.
    fn is_full(&self) -> bool {
        self.ears[RESENT].as_ref().is_some_and(|ear| ear.opener.is_full())
    }

    /// What the session says has waited, and need not any more.
    fn hears_again(&self) -> bool {
        self.is_behind && !self.is_full()
    }

    fn learn(&mut self, keys: &Keys) -> Result<()> {
        let told = keys.epochs.iter().zip(keys.begins);
        for (ear, (key, begins)) in self.ears.iter_mut().zip(told) {
            ear.as_mut().map_or(Ok(()), |ear| ear.opener.learn(key, begins))?;
        }
        Ok(())
    }

    /// Who was let go as it heard nothing may know better why.
    fn why(&self, error: Error) -> Error {
        match error {
            Error::LetGo if self.ears.iter().flatten().any(Ear::is_elsewhere) => {
                Error::Group("is announced from another address than its sessions have")
            }
            error => error,
        }
    }

    /// Frames and timers of both streams, and what is heard of them.
    fn drive(&mut self) -> Result<()> {
        for stream in [RESENT, ONCE] {
            let Some(ear) = &mut self.ears[stream] else { continue };
            ear.receiver.drive(Some(Duration::ZERO))?;
            while let Some(event) = ear.receiver.poll_event() {
                match event {
                    // Anybody can announce a group: the session says which, and where it comes from.
                    ReceiverEvent::Heard(heard) => ear.hear(&heard, self.own)?,
                    ReceiverEvent::Joined { .. } => ear.hears = true,
                    ReceiverEvent::Finished { .. } | ReceiverEvent::Ended => {
                        ear.has_finished = true;
                    }
                    // The session says why, if it still can.
                    ReceiverEvent::Refused(_) | ReceiverEvent::Dropped(_) => {
                        self.failed.get_or_insert(Error::LetGo);
                    }
                    ReceiverEvent::TimedOut => {
                        self.failed.get_or_insert(Error::Group("is not heard any more"));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Says, once, that what is sent from now on is heard.
    fn say_ready(&mut self) {
        let hears = |ear: &Ear| ear.hears;
        if !self.is_ready && self.failed.is_none() && self.ears.iter().flatten().all(hears) {
            // The sender's end, if it is that, is told by what comes. Where there is no room it is said again.
            self.is_ready = self.connection.try_send(&wire::READY).is_ready();
        }
    }

    /// The sender has ended, and nothing waits.
    fn is_over(&self) -> Result<bool> {
        let Some(since) = self.has_ended else { return Ok(false) };
        match &self.ears[RESENT] {
            Some(ear) => match ear.has_finished && !ear.opener.is_waiting() {
                true if !ear.opener.is_spoiled => Ok(true),
                // All keys were told before the session's end; a stream's may be heard behind it.
                false if since.elapsed() <= ENDING => Ok(false),
                _ => Err(Error::Group("has ended, and not all has come")),
            },
            None => Ok(true),
        }
    }

    /// Opens what has come until there is one to hand over, which is then in `body`; its number. No stream waits for the other
    /// to be empty.
    fn next_adu(&mut self, key_of: &impl Fn(u8, &[u8]) -> Option<u64>) -> Result<Option<u8>> {
        for stream in [self.turn, 1 - self.turn] {
            if let Some(adu) = self.next_of(stream, key_of)? {
                self.turn = 1 - stream;
                return Ok(Some(adu.number));
            }
        }
        Ok(None)
    }

    /// The next of a stream: of types of which the newest counts once all has been opened that has come.
    fn next_of(
        &mut self,
        stream: usize,
        key_of: &impl Fn(u8, &[u8]) -> Option<u64>,
    ) -> Result<Option<&'static Adu>> {
        while let Some(ear) = &mut self.ears[stream] {
            if !ear.open_next(&mut self.body, &mut self.counters)? {
                break;
            }
            let Some((adu, age, key)) = self.judge(stream, key_of) else { continue };
            let now = self.clock.now();
            let Some(slot) = self.slot_of(adu.number, key) else {
                if self.hands_over(adu, age) {
                    return Ok(Some(adu));
                }
                continue;
            };
            let slot = &mut self.newest[slot];
            self.counters.overtaken += u64::from(slot.is_there);
            // A key that is said again keeps its place.
            if !slot.is_there || slot.key != key {
                slot.since = now;
            }
            std::mem::swap(&mut slot.body, &mut self.body);
            (slot.key, slot.age, slot.opened, slot.is_there) = (key, age, now, true);
        }
        loop {
            let waits = self.newest.iter().enumerate().filter(|(_, slot)| slot.is_there);
            let waits = waits.filter_map(|(at, slot)| {
                let adu = profile::of_number(P::TAKES, slot.number)?;
                (stream_of(adu) == stream).then_some((slot.since, at, adu))
            });
            let first = waits.min_by_key(|(since, at, _)| (*since, *at));
            let Some((_, at, adu)) = first else { break };
            let slot = &mut self.newest[at];
            slot.is_there = false;
            std::mem::swap(&mut slot.body, &mut self.body);
            let age = slot.age + (self.clock.now() - slot.opened);
            if self.hands_over(adu, age) {
                return Ok(Some(adu));
            }
        }
        Ok(None)
    }

    /// The place of the newest of a type and key; nothing where all of the type are handed over.
    fn slot_of(&mut self, number: u8, key: u64) -> Option<usize> {
        let its = || self.newest.iter().enumerate().filter(|(_, slot)| slot.number == number);
        let is_key = |(_, slot): &(usize, &Newest)| slot.is_there && slot.key == key;
        if let Some((at, _)) = its().find(is_key).or_else(|| its().find(|(_, slot)| !slot.is_there))
        {
            return Some(at);
        }
        let (count, oldest) = (its().count(), its().min_by_key(|(_, slot)| slot.since)?.0);
        if count >= KEYS_MAX {
            return Some(oldest);
        }
        let now = self.clock.now();
        let body = Vec::with_capacity(self.newest[oldest].body.capacity());
        let (age, is_there) = (Duration::ZERO, false);
        self.newest.push(Newest { number, key, since: now, body, age, opened: now, is_there });
        Some(self.newest.len() - 1)
    }

    /// Whether what is so old now is handed over.
    fn hands_over(&mut self, adu: &Adu, age: Duration) -> bool {
        let is_late = adu.deadline.is_some_and(|deadline| age > deadline);
        if is_late && adu.drops_late {
            self.counters.expired += 1;
            return false;
        }
        (self.age, self.is_late) = (age, is_late);
        self.counters.late += u64::from(is_late);
        true
    }

    /// Whether what lies in `body` is an ADU that is handed over; how old it is, and its key.
    fn judge(
        &mut self,
        stream: usize,
        key_of: &impl Fn(u8, &[u8]) -> Option<u64>,
    ) -> Option<(&'static Adu, Duration, u64)> {
        let (now, taken) = (self.clock.now(), Head::parse(&self.body));
        let taken = taken.and_then(|(head, bytes)| {
            let adu = profile::of_number(P::TAKES, head.number)?;
            let is_its = stream_of(adu) == stream;
            let is_right = is_its && bytes.len() <= adu.len_max;
            let key = if is_right { key_of(head.number, bytes) } else { None };
            let key = key.or(is_without::<P>("judgement").then_some(0))?;
            Some((head, adu, key))
        });
        let Some((head, adu, key)) = taken else {
            self.counters.refused += 1;
            return None;
        };
        let next = &mut self.next[usize::from(head.number) % 64];
        let missing = next.map_or(0, |next| head.index.wrapping_sub(next));
        if missing < 1 << 31 {
            self.counters.lost += u64::from(missing);
        }
        *next = Some(head.index.wrapping_add(1));
        let _ = self.times.push(now, head.sent, Duration::MAX, ());
        while self.times.poll(now).is_some() {}
        Some((adu, self.times.behind() + self.one_way, key))
    }
}

/// A session of a sender's, whose other side says that it is a receiver by this key, or nothing.
pub(crate) fn visit<P: Profile>(
    sender: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    says: Option<u64>,
) -> Result<Connection> {
    visit_from::<P>(&visitors::<P>(sender)?, sender, identity, key, says)
}

/// An endpoint of sessions with a sender: several may share one.
pub(crate) fn visitors<P: Profile>(sender: SocketAddr) -> Result<Endpoint> {
    let local: SocketAddr = match sender {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    Ok(Endpoint::new(crate::opening::device::<P>(local)?, door::config())?)
}

/// [`visit`], from one of [`visitors`].
pub(crate) fn visit_from<P: Profile>(
    endpoint: &Endpoint,
    sender: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    says: Option<u64>,
) -> Result<Connection> {
    let connection = session_from::<P>(endpoint, sender, identity, key, Terms::of(P::CLAUSES))?;
    if let Some(own) = says {
        connection.send(&wire::join(own))?;
    }
    Ok(connection)
}

fn session<P: Profile>(
    sender: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    terms: Terms,
) -> Result<Connection> {
    session_from::<P>(&visitors::<P>(sender)?, sender, identity, key, terms)
}

fn session_from<P: Profile>(
    endpoint: &Endpoint,
    sender: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    terms: Terms,
) -> Result<Connection> {
    let mut client = ClientConfig::new(identity, Trust::Pinned(key));
    door::say::<P>(&mut client.settings, terms);
    endpoint.connect(sender, &client).map_err(|error| Error::of(error, P::CLAUSES))
}

/// What ended a session, as the group has it.
fn ended(error: stack::Error) -> Error {
    match error {
        stack::Error::PeerClosed { code: code::FULL, .. } => Error::Full,
        stack::Error::PeerClosed { code: code::LET_GO, .. } => Error::LetGo,
        error => Error::Stack(error),
    }
}

/// A key in the group that nobody foretells.
fn draw_key() -> Result<u64> {
    loop {
        let drawn = random().map_err(stack::Error::os("drawing a key"))?;
        let key = u64::from_be_bytes(drawn) >> 1;
        if key != 0 {
            return Ok(key);
        }
    }
}

#[cfg(test)]
mod tests;
