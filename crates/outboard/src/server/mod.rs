//! The outboard: a stack, the placeholders of its sockets, and those who ask for them, in one loop.
//!
//! ```text
//!  turn   stack.poll ▸ events ▸ sockets that have something to do, each so much ▸ requests ▸ transmit ▸ bells
//!  sleep  spinning for a while after work, where others may have the processor, then in epoll: interface, placeholders, control connections, timers
//! ```
//! Who asks may not harm others: a user has so many sockets and control connections and so many requests in a turn, a socket
//! moves so many bytes in its turn, and a stream's bytes wait where its own writer is stopped.

mod accounts;
mod applications;
mod before;
mod closed;
mod closer;
mod commands;
mod confine;
mod contexts;
mod control;
mod engine;
mod journal;
mod lease;
mod pipe;
mod policy;
mod requests;
mod restore;
mod spin;
mod table;
mod turns;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker;
use fusewire_device::interface::relay;
use fusewire_stack::Clock;
use fusewire_stack::ip::{self, Stack};
use fusewire_view::Observed;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};

pub use accounts::Budget;
pub use commands::Commands;
pub use confine::{Confined, Rights};
use contexts::Xtp;
use control::Door;
use engine::Engine;
use journal::Journal;
use lease::INFO_EVERY;
use policy::Policy;
pub use policy::{Allow, NotAllow};
use spin::Spin;

/// What epoll says who has news: the upper bits, with an index below.
mod tokens {
    pub const INTERFACE: u64 = 1 << 32;
    pub const STOP: u64 = 2 << 32;
    pub const DOOR: u64 = 3 << 32;
    pub const CONTROL: u64 = 4 << 32;
    pub const SOCKET: u64 = 5 << 32;
    pub const KIND: u64 = !0 << 32;
}

/// Events that one look takes.
const EVENTS: usize = 256;
/// Connections of closed sockets that are looked at then.
const CLOSED: usize = 16;
/// Turns of sockets between two looks at the interface.
const TURNS: usize = 64;
/// How soon an interface that was full is tried again.
const RETRY: Duration = Duration::from_micros(500);
/// How often is looked at what tells no news: an interface without a descriptor, budgets that are full.
const UNSEEN: Duration = Duration::from_millis(1);
/// How long it sleeps at most: what becomes of the interface itself is not told otherwise.
const SLEEP: Duration = Duration::from_secs(1);

/// Settings of a [`Server`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where its socket lies.
    pub path: PathBuf,
    /// In its place a SEQPACKET socket that listens already, and whose name is another's to take away.
    pub listener: Option<Arc<OwnedFd>>,
    /// Users besides its own and root who may use it.
    pub allow: Vec<Allow>,
    /// What each may have.
    pub budget: Budget,
    /// How long it looks at most without sleeping after there was work.
    pub spin: Duration,
}

impl Settings {
    /// At `path`, for its own user and root.
    pub fn at(path: impl Into<PathBuf>) -> Settings {
        let spin = Duration::from_micros(50);
        let (path, budget) = (path.into(), Budget::default());
        Settings { path, listener: None, allow: Vec::new(), budget, spin }
    }
}

/// Which processors its threads stay on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// That of the thread that does all that no other does; any, if there is none.
    pub first: Option<usize>,
    /// That of a thread of its own which sends what was made ready to be sent; there is one if this is given.
    pub transmit: Option<usize>,
    /// That of a thread of its own which receives, and sums what it receives; there is one if this is given.
    pub receive: Option<usize>,
}

/// Where the socket of an outboard lies unless somebody says otherwise: `fusewire-outboard.sock` in the folder that
/// `XDG_RUNTIME_DIR` names, or else `/run/fusewire-outboard.sock`.
pub fn default_path() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => Path::new(&folder).join("fusewire-outboard.sock"),
        None => "/run/fusewire-outboard.sock".into(),
    }
}

/// Ends a [`Server::run`].
#[derive(Clone, Debug)]
pub struct Stop {
    is_over: Arc<AtomicBool>,
    waker: Waker,
}

impl Stop {
    /// Ends it soon.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// An outboard. Its socket is there as soon as it is; [`Server::run`] answers.
pub struct Server {
    stack: Arc<Mutex<Stack>>,
    clock: Clock,
    engine: Engine,
    door: Door,
    stop: Stop,
    spin: Duration,
    has_descriptor: bool,
    _observed: Option<Observed>,
}

fn lock(stack: &Mutex<Stack>) -> MutexGuard<'_, Stack> {
    stack.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Serves a stack that nobody else drives, and whose time is the clock's.
    ///
    /// # Errors
    /// `AddrInUse`: an outboard is there already; what the kernel says of the socket's place; no descriptor is left.
    pub fn new(stack: Stack, clock: Clock, settings: Settings) -> io::Result<Server> {
        // Each socket takes a descriptor.
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
        let own = rustix::process::geteuid().as_raw();
        let stop = Stop { is_over: Arc::default(), waker: Waker::new()? };
        let stack = Arc::new(Mutex::new(stack));
        let max_contexts = settings.budget.entries();
        let xtp = Xtp::new(stack.clone(), clock.clone(), stop.waker.clone(), max_contexts);
        let mut engine = Engine::new(settings.budget, Policy::new(&settings.allow, own), xtp)?;
        let door = Door::open(&settings, &engine.epoll)?;
        let beside = journal::path_beside(&settings.path);
        match Journal::open(beside.clone()) {
            Ok(journal) => engine.table.journal = journal,
            Err(error) => {
                let path = beside.display();
                tracing::warn!(%error, %path, "the next outboard will not have the sockets of this one");
            }
        }
        restore::wake();
        let data = epoll::EventData::new_u64(tokens::STOP);
        epoll::add(&engine.epoll, &stop.waker, data, epoll::EventFlags::IN)?;
        let has_descriptor = engine.hear_of(&lock(&stack))?;
        Ok(Server {
            stack,
            clock,
            engine,
            door,
            stop,
            spin: settings.spin,
            has_descriptor,
            _observed: None,
        })
    }

    /// What ends it, from anywhere.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// From now on other processes of this user may look, as at an [`ip::Host`].
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn observe(&mut self) -> io::Result<()> {
        let (stack, clock) = (Arc::downgrade(&self.stack), self.clock.clone());
        let refused = self.engine.accounts.refused().clone();
        let leases = self.engine.regions.leases().clone();
        let commands = self.commands();
        let ask = move |question: &mut dyn FnMut(&mut Stack, Instant)| {
            let Some(stack) = stack.upgrade() else { return false };
            question(&mut lock(&stack), clock.now());
            true
        };
        let count = move || [&refused.named()[..], &leases.named(), &commands.named()].concat();
        let applications = self.engine.table.applications.clone();
        let names = move |id| applications.names(id);
        let observed = ip::observe_with(ask, count, names)?;
        self._observed = Some(observed);
        self.engine.xtp.observe();
        Ok(())
    }

    /// Gives up what an outboard does not need once it has its interface and its socket ([`Rights`]): of the calling thread,
    /// and of those that it makes from now on. `folders`, besides that of its socket, are those where sockets of this
    /// process lie.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn confine(&self, folders: &[&Path]) -> io::Result<Confined> {
        let all: Vec<&Path> =
            self.door.folder().into_iter().chain(folders.iter().copied()).collect();
        confine::confine(&lock(&self.stack), &all)
    }

    /// Has its threads on processors; the calling thread is to [run](Server::run) it. To be called after [`Server::confine`].
    ///
    /// # Errors
    /// The interface sends, or receives, by one thread alone; there is no such processor.
    pub fn stay_on(&mut self, processors: Processors) -> io::Result<()> {
        let Processors { first, transmit, receive } = processors;
        if let Some(cpu) = first {
            relay::stay_on(cpu)?;
        }
        let mut stack = lock(&self.stack);
        let on = |cpu| relay::Config { cpu: Some(cpu), spin: self.spin };
        if let Some(cpu) = transmit {
            stack.send_by_thread(on(cpu))?;
        }
        if let Some(cpu) = receive {
            if let Some(interface) = stack.as_fd() {
                epoll::delete(&self.engine.epoll, interface)?;
            }
            let begun = stack.receive_by_thread(on(cpu));
            // Where it could not begin, the descriptor is the interface's as before.
            self.has_descriptor = self.engine.hear_of(&stack)?;
            begun?;
        }
        Ok(())
    }

    /// Sockets of applications at present.
    pub fn sockets(&self) -> usize {
        self.engine.table.len()
    }

    /// What its stack has counted.
    pub fn counters(&self) -> ip::Counters {
        *lock(&self.stack).counters()
    }

    /// How many requests applications have made.
    pub fn commands(&self) -> Arc<Commands> {
        self.door.commands().clone()
    }

    /// Serves until it is stopped; then connections are reset, and every placeholder shows a hangup.
    ///
    /// # Errors
    /// The interface is broken or gone.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut spin = Spin::new(self.spin);
        let shared = self.stack.clone();
        while !self.stop.is_over.load(Ordering::Acquire) {
            let now = self.clock.now();
            let worked = self.work(now)?;
            if worked {
                spin.worked(now);
            }
            let looks = worked || spin.looks(now);
            // Who waits for more of what he has waits for that alone.
            if looks && !worked && !self.engine.gathers() && spin.lends(now) {
                rustix::thread::sched_yield();
                spin.lent(now, self.clock.now());
            }
            let timeout = self.timeout(&lock(&shared), now, looks);
            self.sleep(timeout, &mut events)?;
        }
        let now = self.clock.now();
        self.engine.end_all(&mut lock(&shared), now);
        self.engine.poll_contexts();
        lock(&shared).transmit(now).map(|_| ())
    }

    /// Does all that there is to do at this moment of its clock: for who owns the clock, and calls this in the place of
    /// [`Server::run`].
    ///
    /// # Errors
    /// The interface is broken or gone.
    pub fn settle(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.says_asleep(false);
            let worked = self.work(self.clock.now())?;
            self.sleep(Duration::ZERO, &mut events)?;
            let is_busy = self.engine.table.ready() > 0 || self.door.is_busy();
            // Who has news from then on wakes who waits for [`Server::news`].
            if !worked && !is_busy && events.is_empty() && self.says_asleep(true) {
                return Ok(());
            }
        }
    }

    /// When something happens by itself; [`Server::settle`] does it then.
    pub fn next_timeout(&self) -> Option<Instant> {
        let (stack, xtp) = (lock(&self.stack).poll_timeout(), self.engine.xtp.next_timeout());
        let xtp = xtp.map(|left| self.clock.now() + left);
        [stack, xtp].into_iter().flatten().min()
    }

    /// A descriptor that can be read when applications have news, which [`Server::settle`] then takes.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn news(&self) -> io::Result<OwnedFd> {
        self.engine.epoll.try_clone()
    }

    /// TCP's settings of sockets that are made from now on.
    pub fn set_tcp_config(&mut self, config: ip::TcpConfig) {
        lock(&self.stack).set_tcp_config(config);
    }

    /// One round. True if there was something to do.
    fn work(&mut self, now: Instant) -> io::Result<bool> {
        let shared = self.stack.clone();
        let worked = self.turn(&mut lock(&shared), now)?;
        // Contexts take the lock where they need the stack.
        Ok(self.engine.poll_contexts() || worked)
    }

    /// What there is to do now, of all a part. True if there was something.
    fn turn(&mut self, stack: &mut Stack, now: Instant) -> io::Result<bool> {
        let received = self.engine.receive(stack, now)?;
        let mut worked = stack.poll_rest(now)? || received;
        while let Some((id, event)) = stack.poll_event() {
            self.engine.happened(id, event);
        }
        worked |= self.engine.hear(now);
        let Engine { retry, table, .. } = &mut self.engine;
        retry.drain(..).for_each(|index| table.mark(index));
        if !self.engine.closed.is_empty() {
            self.engine.look_at_closed(stack, CLOSED);
        }
        if self.engine.accounts.is_full() {
            self.engine.release(stack, now);
        }
        for _ in 0..self.engine.table.ready().min(TURNS) {
            let Some(index) = self.engine.table.next_ready() else { break };
            worked |= self.engine.turn(stack, now, index)?;
        }
        if !self.engine.stale.is_empty() {
            self.engine.refresh(stack, now);
        }
        worked |= self.door.answer(&mut self.engine, stack, now);
        if !self.engine.unoffered.is_empty() {
            self.engine.offer_again(now);
        }
        if self.engine.keeps_restored() {
            self.engine.let_restored_go(now, None);
        }
        if !self.engine.lost.is_empty() {
            self.engine.upkeep(stack, now);
        }
        if stack.wants_transmit() && !stack.is_blocked() {
            stack.transmit(now)?;
        }
        // Who is woken on this processor has it at once: what was ready to leave has left.
        self.engine.ring_bells();
        Ok(worked)
    }

    /// How long to sleep.
    fn timeout(&self, stack: &Stack, now: Instant, looks: bool) -> Duration {
        let is_busy = self.engine.table.ready() > 0 || self.door.is_busy() || stack.has_unread();
        if is_busy || looks {
            return Duration::ZERO;
        }
        let due = stack.poll_timeout().map_or(SLEEP, |at| at.saturating_since(now));
        let due = due.min(self.engine.xtp.next_timeout().unwrap_or(SLEEP));
        let is_full = stack.is_blocked() || !self.engine.retry.is_empty();
        let retry = if is_full { RETRY } else { SLEEP };
        let unseen =
            if self.has_descriptor && !self.engine.accounts.is_full() { SLEEP } else { UNSEEN };
        let stale = if self.engine.stale.is_empty() { SLEEP } else { INFO_EVERY };
        let offers = if self.engine.unoffered.is_empty() { SLEEP } else { engine::AGAIN };
        let restored = if self.engine.keeps_restored() { restore::LOOKS } else { SLEEP };
        due.min(restored).min(retry).min(unseen).min(stale).min(offers).min(SLEEP)
    }

    /// Tells applications whether it sleeps; false when it had better not.
    fn says_asleep(&self, is_asleep: bool) -> bool {
        self.engine.regions.sleep(is_asleep) & self.door.sleep(is_asleep)
    }

    /// Sleeps, and hands news to whom they concern.
    fn sleep(&mut self, timeout: Duration, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let timeout = if self.door.hear() { Duration::ZERO } else { timeout };
        let is_long = !timeout.is_zero();
        let processor = self.engine.regions.note_processor();
        self.door.note_processor(processor);
        // Who has news while it sleeps wakes it.
        let timeout = match is_long && !self.says_asleep(true) {
            true => Duration::ZERO,
            false => timeout,
        };
        let timeout = Timespec::try_from(timeout).ok();
        events.clear();
        let room = rustix::buffer::spare_capacity(events);
        let waited = epoll::wait(&self.engine.epoll, room, timeout.as_ref());
        if is_long {
            self.says_asleep(false);
        }
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter() {
            let (data, flags) = (event.data.u64(), event.flags);
            let index = data as u32;
            match data & tokens::KIND {
                tokens::SOCKET => self.engine.shown(index, flags),
                tokens::CONTROL => self.door.ask(index),
                tokens::DOOR => self.door.knock(),
                // Whoever wakes it has said elsewhere why.
                tokens::STOP => self.stop.waker.drain(),
                _ => {}
            }
        }
        Ok(())
    }
}
