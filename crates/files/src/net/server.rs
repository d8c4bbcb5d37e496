//! The server: one thread, one stack, a session for each connection.

use super::channel::StackChannel;
use super::refusals::Refusals;
use crate::channel::ChannelError;
use crate::server::{Session, Share};
use crate::{Element, Error, Scratch};
use fusewire_base::Instant;
use fusewire_session::Options;
use fusewire_stack::shm::{Ends, Invitation, Invitations};
use fusewire_stack::{Clock, ConnectionId, Event, Fingerprint, Keep, Stack};
use fusewire_view::End;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sessions turned before the device is looked at again.
const TURNS: usize = 8;
/// After so long a session that has something to do and could not do it is turned again, whatever happened.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Steps without a look at the device, at most: a session that has much to do on its own does not keep frames
/// waiting.
const STEPS_UNPOLLED: u32 = 16;
/// How often what was dropped is told, if it changed.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// While the server drains, how often it looks whether it may stop.
pub(super) const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// How long resets may take to leave, and how often it is tried meanwhile.
const RESETTING: Duration = Duration::from_millis(200);
const RESET_LOOK: Duration = Duration::from_millis(5);
/// While the server drains, how long a client may ask for nothing before it is let go.
const DRAIN_IDLE: Duration = Duration::from_millis(500);

/// Stops a server from outside, tells it of clients that it serves no more, and counts what is served beside it,
/// not over the stack.
#[derive(Debug, Default)]
pub struct Control {
    draining: AtomicBool,
    /// What goes on has no time to end.
    given_up: AtomicBool,
    over: AtomicBool,
    others: Mutex<Others>,
    admission: Mutex<Admission>,
}

/// What is served beside the stack, oldest first.
#[derive(Debug, Default)]
struct Others {
    count: u64,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    other: Other,
    number: u64,
    /// Since when nothing is asked for and nothing is begun.
    idle_since: Option<std::time::Instant>,
    /// It has to go.
    goes: Arc<AtomicBool>,
}

/// Who may stay, once that has changed.
#[derive(Clone, Default)]
struct Admission {
    /// How often it has changed.
    changes: u64,
    admits: Option<Admits>,
}

/// Whether the client with this key may stay.
type Admits = Arc<dyn Fn(Fingerprint) -> bool + Send + Sync>;

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("changes", &self.changes).finish_non_exhaustive()
    }
}

/// A connection outside of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Other {
    /// `kernel-tcp`, `outboard`, `shm`.
    pub protocol: &'static str,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

impl Control {
    /// No connection is taken any more; transfers that go on may end. Wake the stack after it.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// [`Control::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// No connection is taken any more, and those that there are get no time: they are reset. Wake the stack after it.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.drain();
    }

    /// [`Control::give_up`] was called.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// What was served has ended, or was reset: nothing more is said.
    pub fn has_ended(&self) -> bool {
        self.is_over() && self.others() == 0
    }

    /// The connections of clients that `admits` does not admit are closed, of whatever kind. Who is let in from now
    /// on is the affair of the configuration that the listeners have. Wake the stack after it.
    pub fn readmit(&self, admits: impl Fn(Fingerprint) -> bool + Send + Sync + 'static) {
        let mut admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        admission.changes += 1;
        admission.admits = Some(Arc::new(admits));
    }

    /// The judge of who may stay, if there is another than when `seen` was told.
    pub(super) fn news(&self, seen: &mut u64) -> Option<Admits> {
        let admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = std::mem::replace(seen, admission.changes) != admission.changes;
        admission.admits.clone().filter(|_| is_new)
    }

    /// Transfers had their time to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Transfers have had their time.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A place for one more connection outside of the stack, if there are fewer of its kind than `bounds` allow, or
    /// one of them has been idle for so long that it has to make room: the one that was longest.
    pub(super) fn enter(self: &Arc<Self>, bounds: Bounds, other: Other) -> Option<Place> {
        let mut others = self.lock();
        let of_kind = |held: &&Held| held.other.protocol == other.protocol;
        if others.held.iter().filter(of_kind).count() >= bounds.max {
            let idle = others.held.iter().filter(of_kind).filter_map(|held| {
                let since = held.idle_since.filter(|since| since.elapsed() >= bounds.idle_min)?;
                Some((since, held.number))
            });
            let (_, longest) = idle.min()?;
            let at = others.held.iter().position(|held| held.number == longest)?;
            others.held.remove(at).goes.store(true, Ordering::Relaxed);
        }
        let (number, goes) = (others.count, Arc::default());
        others.count += 1;
        others.held.push(Held { other, number, idle_since: None, goes: Arc::clone(&goes) });
        Some(Place { control: Arc::clone(self), number, goes, is_idle: false })
    }

    /// How many connections there are outside of the stack.
    pub(super) fn others(&self) -> usize {
        self.lock().held.len()
    }

    /// The connections outside of the stack.
    pub(super) fn list(&self) -> Vec<Other> {
        self.lock().held.iter().map(|held| held.other).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many connections of a kind there may be outside of the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max: usize,
    /// How long one must have been idle that makes room.
    pub(super) idle_min: Duration,
}

/// One connection outside of the stack, until it is dropped.
pub(super) struct Place {
    control: Arc<Control>,
    number: u64,
    goes: Arc<AtomicBool>,
    is_idle: bool,
}

impl Place {
    /// Whether its client asks for nothing now.
    pub(super) fn set_idle(&mut self, is_idle: bool) {
        if std::mem::replace(&mut self.is_idle, is_idle) != is_idle
            && let Some(held) =
                self.control.lock().held.iter_mut().find(|held| held.number == self.number)
        {
            held.idle_since = is_idle.then(std::time::Instant::now);
        }
    }

    /// Another has its place by now.
    pub(super) fn is_lost(&self) -> bool {
        self.goes.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.control.lock().held.retain(|held| held.number != self.number);
    }
}

/// What was dropped, by cause, and how many cookies were given out.
type Dropped = (Vec<(&'static str, u64)>, u64);

/// A server over one stack that listens.
pub struct Server {
    stack: Stack,
    share: Arc<Share>,
    served: HashMap<ConnectionId, Served>,
    /// Sessions that have news or work.
    ready: VecDeque<ConnectionId>,
    /// Sessions to be turned at a time, by that time and a number that tells equal times apart.
    alarms: BTreeMap<(Instant, u64), ConnectionId>,
    alarms_set: u64,
    scratch: Scratch,
    clock: Clock,
    /// As it was last told, and when that was.
    logged: (Dropped, Instant),
    /// Where clients are invited that want shared memory.
    invitations: Option<Invitations>,
    /// Steps since the device was looked at.
    unpolled: u32,
    /// The change of [`Control::readmit`] that was heeded last, and who may stay since.
    readmitted: u64,
    admits: Option<Admits>,
    refusals: Refusals,
}

struct Served {
    session: Session,
    peer: Fingerprint,
    address: Option<SocketAddr>,
    is_ready: bool,
    peer_finished: bool,
    alarm: Option<(Instant, u64)>,
    /// When it last did something.
    worked: Instant,
    /// The client may go on over shared memory as long as this session lasts.
    _invitation: Option<Invitation>,
}

impl Served {
    /// Returns the client's address, for the log.
    fn address(&self) -> Option<tracing::field::DisplayValue<End>> {
        self.address.map(|address| tracing::field::display(End(address)))
    }
}

impl Server {
    /// Serves `share` to the connections of `stack`, which listens already.
    pub fn new(stack: Stack, share: Arc<Share>) -> Server {
        Server {
            stack,
            share,
            served: HashMap::new(),
            ready: VecDeque::new(),
            alarms: BTreeMap::new(),
            alarms_set: 0,
            scratch: Scratch::new(),
            clock: Clock::new(),
            logged: (Default::default(), Instant::ZERO),
            invitations: None,
            unpolled: 0,
            readmitted: 0,
            admits: None,
            refusals: Refusals::default(),
        }
    }

    /// Invites clients that ask for shared memory there.
    #[must_use]
    pub fn with_shared_memory(mut self, invitations: Option<Invitations>) -> Server {
        self.invitations = invitations;
        self
    }

    /// The stack, for its address and figures.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Serves until `control` says to drain and all transfers have ended, or for `grace` after that.
    /// Returns how many connections were broken off.
    ///
    /// # Errors
    /// The device is broken.
    pub fn run(&mut self, control: &Control, grace: Duration) -> fusewire_stack::Result<usize> {
        let mut deadline = None;
        loop {
            if let Some(admits) = control.news(&mut self.readmitted) {
                self.dismiss(&*admits);
                self.admits = Some(admits);
            }
            if control.is_draining() {
                let now = self.clock.now();
                let deadline = *deadline.get_or_insert_with(|| {
                    self.stack.stop_listening();
                    now + grace
                });
                self.let_idle_go(now);
                let is_late = now >= deadline || control.is_given_up();
                if is_late || self.served.is_empty() && control.others() == 0 {
                    break;
                }
            }
            if !self.step()? {
                let mut timeout = self.until_alarm();
                if control.is_draining() {
                    timeout = Some(timeout.map_or(DRAIN_LOOK, |t| t.min(DRAIN_LOOK)));
                }
                self.stack.wait(timeout)?;
            }
        }
        self.log_drops(self.clock.now());
        let broken = self.served.len() + control.others();
        let done = self.break_off();
        control.end();
        done.map(|()| broken)
    }

    /// Resets all connections, and stays until their resets have left, if they do soon.
    fn break_off(&mut self) -> fusewire_stack::Result<()> {
        let ids: Vec<_> = self.served.keys().copied().collect();
        let until = self.clock.now() + RESETTING;
        loop {
            // What a device had no room for is tried again.
            ids.iter().for_each(|id| self.stack.abort(*id));
            self.take_events();
            let is_there = |id: &ConnectionId| self.stack.remote_addr(*id).is_some();
            if !ids.iter().any(is_there) || self.clock.now() >= until {
                return Ok(());
            }
            self.stack.poll(&mut Keep)?;
            self.stack.wait(Some(RESET_LOOK))?;
        }
    }

    /// Closes the connections of those who are served no more.
    fn dismiss(&mut self, admits: &dyn Fn(Fingerprint) -> bool) {
        let stack = &mut self.stack;
        for (id, served) in self.served.iter().filter(|(_, served)| !admits(served.peer)) {
            tracing::info!(key = %served.peer, "not served any more");
            stack.abort(*id);
        }
    }

    /// Whoever asks for nothing need not be waited for.
    fn let_idle_go(&mut self, now: Instant) {
        let stack = &mut self.stack;
        self.served.retain(|id, served| {
            let idle = now.saturating_since(served.worked) >= DRAIN_IDLE;
            let goes = idle && served.session.is_idle();
            if goes {
                stack.abort(*id);
            }
            !goes
        });
    }

    /// Turns some sessions; looks at the device if that was all. False when there was nothing to do.
    fn step(&mut self) -> fusewire_stack::Result<bool> {
        self.take_events();
        let now = self.clock.now();
        self.ring_alarms(now);
        let mut worked = false;
        for _ in 0..TURNS.min(self.ready.len()) {
            let Some(id) = self.ready.pop_front() else { break };
            worked |= self.turn(id, now);
        }
        self.stack.flush();
        if now >= self.logged.1 + LOG_EVERY {
            self.log_drops(now);
        }
        if worked && !self.timers_are_due() && self.unpolled < STEPS_UNPOLLED {
            self.unpolled += 1;
            return Ok(true);
        }
        self.unpolled = 0;
        let polled = self.stack.poll(&mut Keep)?;
        Ok(worked || polled || !self.ready.is_empty())
    }

    /// Tells what was dropped since the last time, by cause: somebody may be knocking.
    fn log_drops(&mut self, now: Instant) {
        let dropped = (self.stack.dropped(), self.stack.cookies());
        if dropped != self.logged.0 {
            let causes: Vec<_> =
                dropped.0.iter().map(|(cause, n)| format!("{cause}={n}")).collect();
            tracing::info!(cookies = dropped.1, "dropped so far: {}", causes.join(" "));
        }
        self.logged = (dropped, now);
    }

    fn timers_are_due(&self) -> bool {
        self.stack.next_timeout() == Some(Duration::ZERO)
    }

    fn take_events(&mut self) {
        while let Some((id, event)) = self.stack.poll_event() {
            match event {
                Event::Connected { peer, trusted, options } => {
                    self.begin(id, peer, trusted, options);
                }
                Event::Readable | Event::Writable => self.make_ready(id),
                Event::Finished => {
                    if let Some(served) = self.served.get_mut(&id) {
                        served.peer_finished = true;
                    }
                    self.make_ready(id);
                }
                Event::Closed(error) => self.end(id, error),
                _ => {}
            }
        }
    }

    fn begin(&mut self, id: ConnectionId, peer: Fingerprint, trusted: bool, options: Options) {
        let is_dismissed = self.admits.as_ref().is_some_and(|admits| !admits(peer));
        if !trusted || is_dismissed {
            // A server judges by its list, which may have changed since the handshake; there is nobody to ask.
            self.refusals.log_key(self.stack.remote_addr(id), peer);
            self.stack.abort(id);
            return;
        }
        let remote = self.stack.remote_addr(id);
        let address = remote.map(|remote| tracing::field::display(End(remote)));
        tracing::info!(peer = address, key = %peer, cipher = %options.cipher, "connected");
        let element = Element::of_swap(options.element);
        let name = remote.map(|remote| End(remote).to_string()).unwrap_or_default();
        let session = self.share.session_of(Some(peer), element).named(name);
        let session = session.tagged(!options.cipher.is_insecure());
        let worked = self.clock.now();
        let (is_ready, peer_finished, alarm) = (false, false, None);
        let _invitation = self.invite(id);
        let address = remote;
        let served =
            Served { session, peer, address, is_ready, peer_finished, alarm, worked, _invitation };
        self.served.insert(id, served);
        self.make_ready(id);
    }

    fn invite(&mut self, id: ConnectionId) -> Option<Invitation> {
        let invitations = self.invitations.as_ref()?;
        let rendezvous = self.stack.take_rendezvous(id)?;
        let ends = Ends { local: self.stack.local_addr(), peer: self.stack.remote_addr(id)? };
        Some(invitations.invite(rendezvous, ends))
    }

    fn end(&mut self, id: ConnectionId, error: Option<fusewire_stack::Error>) {
        let served = self.served.remove(&id);
        if let Some(at) = served.as_ref().and_then(|s| s.alarm) {
            self.alarms.remove(&at);
        }
        if let Some(info) = self.stack.info(id) {
            let counters = info.counters;
            tracing::debug!(?counters, "counted");
        }
        match (served, error) {
            (Some(served), None) => {
                tracing::info!(peer = served.address(), key = %served.peer, "closed");
            }
            (Some(served), Some(error)) => {
                tracing::info!(peer = served.address(), key = %served.peer, %error, "broken off");
            }
            // Its handshake failed.
            (None, Some(error)) => self.refusals.log(self.stack.remote_addr(id), &error),
            (None, None) => {}
        }
    }

    fn make_ready(&mut self, id: ConnectionId) {
        if let Some(served) = self.served.get_mut(&id)
            && !std::mem::replace(&mut served.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// One turn of one session; true if it did something.
    fn turn(&mut self, id: ConnectionId, now: Instant) -> bool {
        let Some(served) = self.served.get_mut(&id) else { return false };
        served.is_ready = false;
        if let Some(at) = served.alarm.take() {
            self.alarms.remove(&at);
        }
        let peer_finished = served.peer_finished;
        let mut channel = StackChannel { stack: &mut self.stack, id, peer_finished };
        let turn = match served.session.turn(&mut channel, &mut self.scratch, now) {
            Ok(turn) => turn,
            Err(error) => {
                self.broke(id, &error);
                return true;
            }
        };
        if turn.worked {
            served.worked = now;
            served.is_ready = true;
            self.ready.push_back(id);
        } else if !turn.finished && (turn.wait_until.is_some() || !served.session.is_idle()) {
            let at = (turn.wait_until.unwrap_or(now + LOOK_AGAIN), self.alarms_set);
            self.alarms_set += 1;
            served.alarm = Some(at);
            self.alarms.insert(at, id);
        }
        turn.worked
    }

    fn broke(&mut self, id: ConnectionId, error: &Error) {
        let Some(served) = self.served.remove(&id) else { return };
        // That the connection broke is told by its own event, with the reason.
        if !matches!(error, Error::Channel(ChannelError { .. })) {
            tracing::warn!(peer = served.address(), key = %served.peer, %error, "broken off");
        }
        self.stack.abort(id);
    }

    fn ring_alarms(&mut self, now: Instant) {
        while let Some(entry) = self.alarms.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let id = entry.remove();
            if let Some(served) = self.served.get_mut(&id) {
                served.alarm = None;
            }
            self.make_ready(id);
        }
    }

    fn until_alarm(&self) -> Option<Duration> {
        let (at, _) = self.alarms.first_key_value()?.0;
        Some(at.saturating_since(self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_kind() {
        let control = Arc::new(Control::default());
        let other = |protocol| {
            let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
            Other { protocol, local: nowhere, peer: nowhere }
        };
        let of = |max| Bounds { max, idle_min: Duration::ZERO };
        let memory: Vec<Place> =
            (0..3).filter_map(|_| control.enter(of(3), other("shm"))).collect();
        assert_eq!((memory.len(), control.others()), (3, 3));
        assert!(control.enter(of(3), other("shm")).is_none());
        let tcp = control.enter(of(1), other("kernel-tcp"));
        assert!(tcp.is_some() && control.enter(of(1), other("kernel-tcp")).is_none());
        drop(memory);
        assert_eq!(control.others(), 1);
        assert!(control.enter(of(3), other("shm")).is_some());
    }

    #[test]
    fn who_was_idle_longest_makes_room() {
        let control = Arc::new(Control::default());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let other = Other { protocol: "shm", local: nowhere, peer: nowhere };
        let at_once = Bounds { max: 3, idle_min: Duration::ZERO };
        let mut places: Vec<Place> = (0..3).filter_map(|_| control.enter(at_once, other)).collect();
        for at in [2, 1, 0, 1] {
            places[at].set_idle(true);
            places[at].set_idle(at != 2);
        }
        let later = Bounds { idle_min: Duration::from_secs(60), ..at_once };
        assert!(control.enter(later, other).is_none(), "nobody was idle for so long");
        let lost = |places: &[Place]| -> Vec<bool> { places.iter().map(Place::is_lost).collect() };
        let fourth = control.enter(at_once, other).unwrap();
        assert_eq!(lost(&places), [false, true, false]);
        // What it says now moves nobody.
        places[1].set_idle(false);
        let fifth = control.enter(at_once, other).unwrap();
        assert_eq!(lost(&places), [true, true, false]);
        assert!(control.enter(at_once, other).is_none());
        drop(places);
        assert_eq!(control.others(), 2);
        assert!(!fourth.is_lost() && !fifth.is_lost());
    }
}
