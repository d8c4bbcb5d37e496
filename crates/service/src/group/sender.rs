//! The end that sends: two streams to the group, the sessions of its receivers, and the thread that serves them.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_codec::pipeline::{self, Encoding, Marshal};
use fusewire_device::{Device, random};
use fusewire_session::group::{GroupKey, GroupSender};
use fusewire_session::{Allow, Cipher, Fingerprint, Identity};
use fusewire_stack::group::{AskId, Leaving, MemberId, SenderConfig, SenderEvent};
use fusewire_stack::{self as stack, Clock};

use super::door::{Change, Door, Part, Session};
use super::wait::{STREAMS, Sleeper};
use super::wire::{Head, Headed, Keys, Welcome};
use super::{ONCE, Place, RESENT, SILENCE, body_len_max, body_max, buffer, code, stream_of};
use crate::profile::{Adu, AduType, Profile, is_without};
use crate::{Error, Result};

/// Sessions are looked at so often although they say nothing: for who says nothing for too long.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Epochs begin so often though nothing is sent, so that their keys are there before what is; what is sent waits for none.
const RENEW_EVERY: Duration = Duration::from_millis(100);
/// Bytes that are sealed in an epoch, well below what it has.
const EPOCH_BYTES: u64 = 1 << 47;
/// How long who has everything may take to end its session.
const ENDING: Duration = Duration::from_secs(2);
/// What happened and nobody has asked for: of more, the oldest is forgotten.
const EVENTS_MAX: usize = 1024;

/// What happened at a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody is a receiver: it gets what is sent from now on.
    Joined {
        /// Its key.
        peer: Fingerprint,
    },
    /// Somebody is one no more, and is told no new keys.
    Left {
        /// Its key.
        peer: Fingerprint,
        /// Why: who is not heard any more is [`Leaving::Silent`].
        why: Leaving,
    },
}

/// The device of a stream.
type Carrier = Box<dyn Device>;

/// A stream to the group, and what seals for it.
struct Cast {
    sender: stack::group::Sender<Carrier>,
    seals: GroupSender,
    /// Bytes in this epoch.
    sealed: u64,
    /// The stream's offset behind the last message.
    end: u64,
    /// Somebody has left who knows its keys.
    is_stale: bool,
    /// When it began.
    renewed: Instant,
}

/// What the lock guards.
struct State {
    casts: [Option<Cast>; STREAMS],
    door: Door,
    clock: Clock,
    keys: Keys,
    /// Numbers of the next ADUs, by type.
    next: [u32; 64],
    events: VecDeque<Event>,
    looked: Instant,
    /// Whoever leaves is told no new keys, and there are such.
    renews: bool,
    /// Sessions are to be looked at whatever they say.
    looks: bool,
    /// When the thread wakes by itself.
    sleeps_until: Option<Instant>,
    /// Nothing more is sent.
    is_finishing: bool,
    is_stopped: bool,
    failed: Option<Error>,
}

struct Shared {
    state: Mutex<State>,
    /// The thread has had a turn: there may be room, or an event.
    turned: Condvar,
    sleeper: Sleeper,
}

/// The end that sends. It may be shared by threads; it ends with [`Sender::finish`], or at once when it is dropped.
pub struct Sender<P> {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    local: SocketAddr,
    profile: PhantomData<fn() -> P>,
}

impl<P: Profile> Sender<P> {
    /// Begins: whoever is allowed, and of the same specification, may come.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn open(place: &Place, identity: Arc<Identity>, allow: Allow) -> Result<Sender<P>> {
        Self::over(place, identity, allow, |config| Ok(Box::new(config.udp_device()?)))
    }

    /// [`Sender::open`], where `device` makes what carries each of the streams.
    ///
    /// # Errors
    /// As [`Sender::open`].
    pub fn over(
        place: &Place,
        identity: Arc<Identity>,
        allow: Allow,
        device: impl Fn(&SenderConfig) -> Result<Carrier>,
    ) -> Result<Sender<P>> {
        let epochs = [draw(1, P::CIPHERS[0])?, draw(1, P::CIPHERS[0])?];
        let keys = Keys { epochs, begins: [0; STREAMS] };
        let (mut sleeper, now) = (Sleeper::new()?, Instant::now());
        let mut casts = [None, None];
        let welcome = Welcome { group: place.group, streams: [0; STREAMS], ports: [0; STREAMS] };
        let most = P::RECEIVERS.1;
        let mut door = Door::open::<P>(place.sessions, identity, allow, most, welcome)?;
        for stream in [RESENT, ONCE] {
            let Some(body_max) = body_max(P::SENDS, stream) else { continue };
            let config = config::<P>(place, stream, body_max, door.local_addr().port());
            let sender = stack::group::Sender::over(device(&config)?, &config)?;
            sleeper.watch(stream, &**sender.device())?;
            door.welcome.streams[stream] = sender.key();
            door.welcome.ports[stream] = sender.local_addr().port();
            let seals =
                GroupSender::new(&keys.epochs[stream], body_len_max(body_max), P::data_pass());
            let seals = seals.map_err(stack::Error::from)?;
            casts[stream] =
                Some(Cast { sender, seals, sealed: 0, end: 0, is_stale: false, renewed: now });
        }
        let local = door.local_addr();
        let state = Mutex::new(State {
            casts,
            door,
            clock: Clock::new(),
            keys,
            next: [0; 64],
            events: VecDeque::with_capacity(EVENTS_MAX),
            looked: now,
            renews: !is_without::<P>("new keys"),
            looks: true,
            sleeps_until: None,
            is_finishing: false,
            is_stopped: false,
            failed: None,
        });
        let shared = Arc::new(Shared { state, turned: Condvar::new(), sleeper });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("fusewire-group".into());
        let thread = thread.spawn(move || served.serve());
        let thread = Some(thread.map_err(stack::Error::os("starting the group's thread"))?);
        Ok(Sender { shared, thread, local, profile: PhantomData })
    }

    /// Where its sessions are.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Receivers that are there.
    pub fn receivers(&self) -> usize {
        self.shared.lock().receivers()
    }

    /// Waits until as many receivers are there as the group has at least.
    ///
    /// # Errors
    /// [`Error::Stack`]: among them `Elapsed`.
    pub fn wait_for_receivers(&self, timeout: Duration) -> Result<()> {
        let is_there = |state: &mut State| (state.receivers() >= P::RECEIVERS.0).then_some(());
        self.shared.wait(Some(timeout), is_there)
    }

    /// What has happened; `None`: nothing, in this time.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn next_event(&self, timeout: Duration) -> Result<Option<Event>> {
        match self.shared.wait(Some(timeout), |state| state.events.pop_front()) {
            Err(Error::Stack(stack::Error::Elapsed)) => Ok(None),
            event => event.map(Some),
        }
    }

    /// Who has this key is a receiver no more, and what is sent from now on it cannot read. It may come again, if it is
    /// allowed.
    pub fn remove(&self, peer: Fingerprint) {
        let mut state = self.shared.lock();
        while let Some(session) = state.door.end(|session| session.peer == peer, code::LET_GO) {
            state.forget(session.part(), Leaving::Removed);
        }
        drop(state);
        self.shared.sleeper.news.nudge();
    }

    /// Sends an ADU. False: it is not sent. What is sent again waits for room, and is not where nobody is there; what is not
    /// waits for none.
    ///
    /// # Errors
    /// [`Error::Codec`] for a value that is none of its type; [`Error::TooLong`]; [`Error::Expired`] where there was no room
    /// before its deadline; [`Error::Stack`].
    #[inline]
    pub fn send<A: AduType, T>(&self, adu: &T) -> Result<bool>
    where
        A::Encoding: Encoding<T>,
    {
        let message = pipeline::Message::<T, A::Encoding>::of(adu);
        let message = message.map_err(|error| Error::Codec { adu: A::ADU.name, error })?;
        crate::stream::fits(&A::ADU, message.marshalled_len())?;
        self.send_message(&A::ADU, &message)
    }

    /// An ADU of which only the bytes are known, and which may be longer than its clauses let it be.
    pub(crate) fn send_message(&self, adu: &Adu, message: &impl Marshal) -> Result<bool> {
        let stream = stream_of(adu);
        let asked = Instant::now();
        let mut state = self.shared.lock();
        let sent = state.clock.now();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.is_finishing {
                return Err(stack::Error::Closed.into());
            }
            if stream == RESENT && state.members() == 0 {
                return Ok(false);
            }
            if state.cast(stream, adu.number, sent, message)? {
                break;
            }
            if stream == ONCE {
                return Ok(false);
            }
            let left = adu.deadline.filter(|_| adu.drops_late);
            let left = left.map(|deadline| deadline.saturating_sub(asked.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(Error::Expired { adu: adu.name });
            }
            state = self.shared.turned(state, left);
        }
        // The thread is to ring timers that this has set.
        let next = state.next_timeout();
        let is_late = state.sleeps_until.is_none_or(|until| next.is_some_and(|at| at < until));
        drop(state);
        if is_late {
            self.shared.sleeper.news.nudge();
        }
        Ok(true)
    }

    /// Sends no more, and waits until every receiver has all that is sent again, or was let go; and a while for each to end its
    /// session.
    ///
    /// # Errors
    /// [`Error::Stack`]: among them `Elapsed`, where that has taken too long.
    pub fn finish(self, timeout: Duration) -> Result<()> {
        self.finish_here(timeout)
    }

    pub(crate) fn finish_here(&self, timeout: Duration) -> Result<()> {
        {
            let mut state = self.shared.lock();
            state.is_finishing = true;
            state.casts.iter_mut().flatten().for_each(|cast| cast.sender.finish());
        }
        self.shared.sleeper.news.nudge();
        let has_ended = |state: &mut State| {
            state.casts.iter().flatten().all(|cast| cast.sender.has_ended()).then_some(())
        };
        self.shared.wait(Some(timeout), has_ended)?;
        {
            let mut state = self.shared.lock();
            state.door.close();
            state.looks = true;
        }
        self.shared.sleeper.news.nudge();
        let is_alone = |state: &mut State| state.door.sessions().is_empty().then_some(());
        match self.shared.wait(Some(ENDING), is_alone) {
            Err(Error::Stack(stack::Error::Elapsed)) => Ok(()),
            ended => ended,
        }
    }
}

impl<P> Drop for Sender<P> {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.sleeper.news.nudge();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Settings of a stream.
fn config<P: Profile>(
    place: &Place,
    stream: usize,
    body_max: usize,
    sessions: u16,
) -> SenderConfig {
    let group = Place::of(place.group, stream);
    SenderConfig {
        interface: place.interface.clone(),
        local: SocketAddr::new(place.sessions.ip(), 0),
        sessions,
        hops: place.hops,
        reliable: stream == RESENT,
        rate: Some(P::CAST_RATES[stream]),
        carried_by: headers(group) as u32,
        // Who takes nothing at all while others wait holds them for no longer than any other.
        floor: if is_without::<P>("silence") { 0 } else { P::FLOOR.max(1) },
        silence: if is_without::<P>("silence") { Duration::from_secs(3600) } else { SILENCE },
        members_max: P::RECEIVERS.1,
        buffer: buffer::<P>(stream, body_max),
        // What is damaged goes again only if it is found to be before it is acknowledged.
        nocheck: stream == ONCE,
        // The rate is what the user vouches for. A window would be full of what one that is frozen has not got.
        congestion: None,
        packet_len: P::MTU.saturating_sub(headers(group)).min(SenderConfig::new(group).packet_len),
        udp: crate::opening::udp_config::<P>(),
        ..SenderConfig::new(group)
    }
}

/// Bytes of IP and UDP before XTP's.
fn headers(group: SocketAddr) -> usize {
    if group.is_ipv4() { 28 } else { 48 }
}

/// A key that nobody foretells.
fn draw(epoch: u32, cipher: Cipher) -> Result<GroupKey> {
    let secret = random().map_err(stack::Error::os("drawing a key"))?;
    Ok(GroupKey::new(epoch, cipher, secret))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the thread has had a turn.
    fn turned<'s>(
        &self,
        state: MutexGuard<'s, State>,
        most: Option<Duration>,
    ) -> MutexGuard<'s, State> {
        let most = most.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
        let turned = self.turned.wait_timeout(state, most);
        turned.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for what `of` looks for.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut of: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(found) = of(&mut state) {
                return Ok(found);
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(stack::Error::Elapsed.into());
            }
            state = self.turned(state, left);
        }
    }

    /// The thread.
    fn serve(&self) {
        let waker = Waker::from(Arc::clone(&self.sleeper.news));
        let mut cx = Context::from_waker(&waker);
        loop {
            let has_news = self.sleeper.news.take();
            let mut state = self.lock();
            if state.is_stopped {
                return;
            }
            let turned = state.turn(&mut cx, has_news);
            let next = state.next_timeout();
            state.sleeps_until = next;
            drop(state);
            self.turned.notify_all();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = turned.and_then(|()| self.sleeper.sleep(left)) {
                self.lock().failed = Some(error);
                self.turned.notify_all();
                return;
            }
        }
    }
}

impl State {
    /// Receivers of what is sent again; of a group that has none such, all.
    fn members(&self) -> usize {
        match &self.casts[RESENT] {
            Some(cast) => cast.sender.members().count(),
            None => self.receivers(),
        }
    }

    fn receivers(&self) -> usize {
        self.door.sessions().iter().filter(|session| session.is_in).count()
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// When the thread has something to do.
    fn next_timeout(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.looks {
            return Some(now);
        }
        let timers = self.casts.iter().flatten().filter_map(|cast| cast.sender.next_timeout());
        let next = timers.chain([LOOK_EVERY]).min().map(|left| now + left);
        next.into_iter().chain(self.door.next_admission()).min()
    }

    /// Seals an ADU into its stream, and sends what can be; false: there is no room now.
    #[inline]
    fn cast(
        &mut self,
        stream: usize,
        number: u8,
        sent: fusewire_base::Instant,
        message: &impl Marshal,
    ) -> Result<bool> {
        let next = self.next[usize::from(number) % 64];
        let body = Headed::new(Head { number, index: next, sent }, message);
        let Some(cast) = &self.casts[stream] else { return Ok(false) };
        let len = cast.seals.message_len(body.marshalled_len());
        // An epoch in which nothing is sealed would be told for nothing, and kept by every receiver.
        if cast.sender.room() < len {
            return Ok(false);
        }
        self.renew_if_stale(stream)?;
        let Some(cast) = &mut self.casts[stream] else { return Ok(false) };
        let (seals, mut sealed) = (&mut cast.seals, Ok(()));
        let range = cast.sender.send(len, |_, bytes| sealed = seals.seal(&body, bytes))?;
        let Some(range) = range else { return Ok(false) };
        cast.end = range.end;
        sealed.map_err(stack::Error::from)?;
        self.next[usize::from(number) % 64] = next.wrapping_add(1);
        cast.sealed += len as u64;
        cast.is_stale |= cast.sealed > EPOCH_BYTES;
        cast.sender.drive(Some(Duration::ZERO))?;
        Ok(true)
    }

    /// Nothing is sealed by keys that somebody knows who has left.
    fn renew_if_stale(&mut self, stream: usize) -> Result<()> {
        let Some(cast) = self.casts[stream].as_mut().filter(|cast| cast.is_stale) else {
            return Ok(());
        };
        let key = &mut self.keys.epochs[stream];
        *key = draw(key.epoch + 1, key.cipher)?;
        cast.seals.renew(key).map_err(stack::Error::from)?;
        self.keys.begins[stream] = cast.end;
        (cast.is_stale, cast.sealed, cast.renewed) = (false, 0, Instant::now());
        // The others are told at once, and who has no room now by the thread.
        self.door.owe(&self.keys);
        self.looks = true;
        Ok(())
    }

    /// Frames, timers, sessions.
    fn turn(&mut self, cx: &mut Context<'_>, has_news: bool) -> Result<()> {
        for stream in [RESENT, ONCE] {
            let Some(cast) = &mut self.casts[stream] else { continue };
            cast.sender.drive(Some(Duration::ZERO))?;
            // Of an epoch of which nothing was sealed the next need not be told before something is: so receivers keep as many
            // keys as there are messages for them, about, and not as many as have left.
            let renews = cast.sealed > 0 && cast.renewed.elapsed() >= RENEW_EVERY;
            while let Some(event) = self.casts[stream].as_mut().and_then(|c| c.sender.poll_event())
            {
                self.take_event(stream, event)?;
            }
            if renews {
                self.renew_if_stale(stream)?;
            }
        }
        let admits = self.door.next_admission().is_some_and(|at| at <= Instant::now());
        if has_news || self.looks || admits || self.looked.elapsed() >= LOOK_EVERY {
            (self.looked, self.looks) = (Instant::now(), false);
            self.look(cx);
        }
        Ok(())
    }

    fn look(&mut self, cx: &mut Context<'_>) {
        let mut changes = Vec::new();
        self.door.look(cx, &self.keys, |change| changes.push(change));
        for change in changes {
            match change {
                Change::Hears(peer) => self.tell(Event::Joined { peer }),
                Change::Gone { part, in_order } => {
                    let why = if in_order { Leaving::Left } else { Leaving::Silent };
                    self.forget(part, why);
                }
            }
        }
    }

    /// A session has ended: what it knew is worth nothing from now on.
    fn forget(&mut self, part: Part, why: Leaving) {
        let is_stale = part.knows && self.renews;
        self.casts.iter_mut().flatten().for_each(|cast| cast.is_stale |= is_stale);
        if let (Some(member), Some(cast)) = (part.member, &mut self.casts[RESENT]) {
            cast.sender.remove(member);
        }
        if part.is_in {
            self.tell(Event::Left { peer: part.peer, why });
        }
    }

    fn take_event(&mut self, stream: usize, event: SenderEvent) -> Result<()> {
        match event {
            SenderEvent::Asked { ask, .. } => self.take_ask(stream, ask)?,
            SenderEvent::Left { member, why } => self.let_go(member, why),
            _ => {}
        }
        Ok(())
    }

    /// Only who has said so in a session is let in.
    fn take_ask(&mut self, stream: usize, ask: AskId) -> Result<()> {
        let Some(cast) = &mut self.casts[stream] else { return Ok(()) };
        let is_its = |session: &Session| session.key == Some(ask.bits()) && session.knows;
        match self.door.session(is_its) {
            // A session is one member.
            Some(session) if session.member.is_none() => {
                session.member = cast.sender.accept(ask)?;
            }
            _ => cast.sender.deny(ask),
        }
        Ok(())
    }

    /// The stream of what is sent again goes on without somebody.
    fn let_go(&mut self, member: MemberId, why: Leaving) {
        let is_its = |session: &Session| session.member == Some(member);
        if let Some(session) = self.door.end(is_its, code::LET_GO) {
            self.forget(session.part(), why);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
