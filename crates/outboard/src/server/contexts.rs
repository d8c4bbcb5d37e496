//! Contexts of XTP as sockets of applications: whole ADUs through their placeholders. For each address of the outboard's
//! that somebody uses so there is a set of contexts, over a socket of the stack's that has all of XTP there.
//!
//! Keys of contexts are drawn here and told to nobody; an application commands its sockets by their handles, as all others.
//! What a peer has sent and the application has not read stays in the context's memory, and keeps the peer's window closed.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::{Waker, random};
use fusewire_stack::Clock;
use fusewire_stack::context::{
    self, Check, Config, Context, Contexts, ControlBlock, Ended, Event, Kept, Load, Message,
    Secrets,
};
use fusewire_stack::ip::{SocketId, Stack};
use fusewire_stack::on_interface::Shared;
use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};

use super::pipe::{Turn, number_of};
use super::table::{Socket, Table};
use crate::protocol::{
    ABOUT_LEN, ADU_MAX, About, XTP_CHECK, XTP_NOERR, XTP_OVERTAKING, XTP_SORT, XTP_TAGS,
};

/// Bytes of a context each way that wait or are not acknowledged.
const BUFFER: u32 = 1 << 20;
/// Contexts of an address: more than one user has by his sockets, by those that he has closed and by those that wait to be accepted.
const CONTEXTS: usize = 65_536;
/// ADUs that a socket moves in its turn, each way.
const ADUS: usize = 64;
/// Looks at what waits for one address, before it is somebody else's turn.
const LOOKS: usize = 4;
/// Services that are chosen where none is named.
const FREE: std::ops::RangeInclusive<u16> = 49_152..=65_535;
/// How long a peer may take to end its side of what nobody has here any more.
const PATIENCE: Duration = Duration::from_secs(60);

type Result<T, E = Errno> = std::result::Result<T, E>;

/// The context of a socket.
#[derive(Clone, Copy)]
pub struct Used {
    line: usize,
    context: Context,
    /// Our end: with the service that was called, or the socket is bound to.
    pub local: SocketAddr,
    /// The other: with the service that we have called, or 0.
    pub peer: SocketAddr,
}

/// A service that a socket offers, at each of these addresses.
#[derive(Clone)]
pub struct Service {
    number: u16,
    lines: Vec<usize>,
}

/// All contexts.
pub struct Xtp {
    stack: Arc<Mutex<Stack>>,
    clock: Clock,
    waker: Waker,
    lines: Vec<Line>,
    /// Services that sockets are bound to.
    claims: HashMap<u16, Vec<SocketAddr>>,
    /// An ADU between a placeholder and its context.
    scratch: Box<[u8]>,
    is_observed: bool,
}

/// The contexts of one address.
struct Line {
    local: IpAddr,
    /// The stack's.
    socket: SocketId,
    contexts: Contexts,
    services: HashMap<u16, Offered>,
    talks: HashMap<Context, Talk>,
    /// Contexts that no socket has any more, and since when.
    left: VecDeque<(Instant, Context)>,
    /// The address is ours no more.
    is_broken: bool,
}

/// A service that is listened to.
struct Offered {
    listener: u32,
    backlog: usize,
    waiting: VecDeque<Context>,
}

/// Who has a context.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It waits to be accepted.
    Listener,
    Socket(u32),
    Nobody,
}

/// What a context has for its socket.
struct Talk {
    owner: Owner,
    inbox: VecDeque<Message>,
    /// An ADU of the socket's that found no room.
    pending: Vec<u8>,
    has_finished: bool,
    /// Something came that the application can read no more.
    is_deaf: bool,
    ended: Option<Ended>,
}

impl Talk {
    fn of(owner: Owner) -> Talk {
        let (inbox, pending) = (VecDeque::new(), Vec::new());
        Talk { owner, inbox, pending, has_finished: false, is_deaf: false, ended: None }
    }

    fn mark(&self, table: &mut Table) {
        if let Owner::Socket(index) = self.owner {
            table.mark(index);
        }
    }
}

impl Xtp {
    /// Without contexts, over a stack whose time is the clock's; `waker` wakes who drives them.
    pub fn new(stack: Arc<Mutex<Stack>>, clock: Clock, waker: Waker) -> Xtp {
        let scratch = vec![0; ABOUT_LEN + ADU_MAX].into_boxed_slice();
        let (lines, claims) = (Vec::new(), HashMap::new());
        Xtp { stack, clock, waker, lines, claims, scratch, is_observed: false }
    }

    /// From now on other processes of this user may look.
    pub fn observe(&mut self) {
        self.is_observed = true;
    }

    /// The contexts of an address of ours. Whoever calls has the stack's lock.
    fn line(&mut self, stack: &mut Stack, now: Instant, local: IpAddr) -> Result<usize> {
        if let Some(at) = self.lines.iter().position(|line| line.local == local && !line.is_broken)
        {
            return Ok(at);
        }
        for gone in self.lines.iter().filter(|line| line.local == local) {
            // It was ours before; it may be again.
            let _ = stack.close(now, gone.socket);
        }
        let (shared, waker) = (self.stack.clone(), self.waker.clone());
        let device = Shared::over_ip(stack, shared, local, self.clock.clone(), waker);
        let device = device.map_err(number_of)?;
        let socket = device.socket();
        let config = Config {
            level: stack.config().level,
            clock: self.clock.clone(),
            max_contexts: CONTEXTS,
            ..Config::default()
        };
        let seed = random().map_err(|_| Errno::NOMEM)?;
        let mut contexts = Contexts::new(Box::new(device), config, &seed);
        if self.is_observed
            && let Err(error) = contexts.observe()
        {
            tracing::debug!(%error, "contexts that cannot be looked at");
        }
        self.lines.push(Line {
            local,
            socket,
            contexts,
            services: HashMap::new(),
            talks: HashMap::new(),
            left: VecDeque::new(),
            is_broken: false,
        });
        Ok(self.lines.len() - 1)
    }

    // ---- what applications ask

    /// Binds a socket to a service of an address, or of all; 0 takes a free one.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`.
    pub fn bind(&mut self, stack: &Stack, local: SocketAddr) -> Result<SocketAddr> {
        let ip = local.ip();
        if !ip.is_unspecified() && !stack.layer().is_own(ip) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let excludes = |claim: &SocketAddr| {
            let either = claim.ip().is_unspecified() || ip.is_unspecified();
            claim.is_ipv4() == local.is_ipv4() && (either || claim.ip() == ip)
        };
        let is_free =
            |port: &u16| !self.claims.get(port).is_some_and(|all| all.iter().any(excludes));
        let port = match local.port() {
            0 => FREE.into_iter().find(is_free),
            port => Some(port).filter(is_free),
        };
        let bound = SocketAddr::new(ip, port.ok_or(Errno::ADDRINUSE)?);
        self.claims.entry(bound.port()).or_default().push(bound);
        Ok(bound)
    }

    /// A socket that was bound there is no more.
    pub fn release(&mut self, bound: SocketAddr) {
        let Some(all) = self.claims.get_mut(&bound.port()) else { return };
        if let Some(at) = all.iter().position(|claim| *claim == bound) {
            all.swap_remove(at);
        }
        if all.is_empty() {
            self.claims.remove(&bound.port());
        }
    }

    /// Offers the service that the socket at `index` is bound to.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL`; `EADDRINUSE`: another process has XTP there.
    pub fn listen(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (index, local, backlog): (u32, SocketAddr, usize),
        block: &ControlBlock,
    ) -> Result<Service> {
        let all: Vec<IpAddr> = match local.ip() {
            any if any.is_unspecified() => {
                let usable = stack.layer().addresses().filter(|entry| entry.is_usable());
                let all = usable.map(|entry| entry.cidr.address());
                all.filter(|one| one.is_ipv4() == any.is_ipv4()).collect()
            }
            one => vec![one],
        };
        let mut service = Service { number: local.port(), lines: Vec::new() };
        for address in all {
            let begun = self.line(stack, now, address).and_then(|at| {
                let secrets = Secrets {
                    isn: random().map_err(|_| Errno::NOMEM)?,
                    cookie: random().map_err(|_| Errno::NOMEM)?,
                };
                Ok((at, secrets))
            });
            let (at, secrets) = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    self.stop(&service);
                    return Err(error);
                }
            };
            let line = &mut self.lines[at];
            line.contexts.listen(service.number, block.clone(), &secrets);
            let offered = Offered { listener: index, backlog, waiting: VecDeque::new() };
            line.services.insert(service.number, offered);
            service.lines.push(at);
        }
        if service.lines.is_empty() { Err(Errno::ADDRNOTAVAIL) } else { Ok(service) }
    }

    /// The service is offered no more; who waits is sent away.
    pub fn stop(&mut self, service: &Service) {
        for at in &service.lines {
            let line = &mut self.lines[*at];
            line.contexts.stop_listening(service.number);
            let Some(offered) = line.services.remove(&service.number) else { continue };
            for context in offered.waiting {
                line.leave(context, true, Instant::ZERO);
            }
        }
    }

    /// Somebody waits to be accepted.
    pub fn is_called(&self, service: &Service) -> bool {
        let mut offered =
            service.lines.iter().filter_map(|at| self.lines[*at].services.get(&service.number));
        offered.any(|offered| !offered.waiting.is_empty())
    }

    /// Who has waited longest, of one address.
    pub fn accept(&mut self, service: &Service) -> Option<Used> {
        service.lines.iter().find_map(|at| {
            let line = &mut self.lines[*at];
            let context = line.services.get_mut(&service.number)?.waiting.pop_front()?;
            let local = SocketAddr::new(line.local, service.number);
            // One that is over already has its end to tell, and perhaps something before.
            let peer = line.contexts.remote_addr(context).unwrap_or(SocketAddr::new(line.local, 0));
            Some(Used { line: *at, context, local, peer })
        })
    }

    /// The socket at `index` has it from now on.
    pub fn give(&mut self, used: &Used, index: u32) {
        if let Some(talk) = self.lines[used.line].talks.get_mut(&used.context) {
            talk.owner = Owner::Socket(index);
        }
    }

    /// Calls a service of another host's. It can be sent to at once, before the peer has answered.
    ///
    /// # Errors
    /// What is wrong with the address; `ENOBUFS`: there are too many.
    pub fn connect(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (index, own, remote): (u32, SocketAddr, SocketAddr),
        block: &ControlBlock,
    ) -> Result<Used> {
        if remote.port() == 0 {
            return Err(Errno::CONNREFUSED);
        }
        let local = match own.ip() {
            any if any.is_unspecified() => stack.source_for(now, remote.ip()).map_err(number_of)?,
            one => one,
        };
        let at = self.line(stack, now, local)?;
        let line = &mut self.lines[at];
        let context = line.contexts.context(block.clone()).map_err(|_| Errno::NOBUFS)?;
        line.contexts.connect(context, remote, remote.port()).map_err(|_| Errno::INVAL)?;
        line.talks.insert(context, Talk::of(Owner::Socket(index)));
        let local = SocketAddr::new(local, own.port());
        Ok(Used { line: at, context, local, peer: remote })
    }

    /// Its socket is no more. What it has sent goes on, unless it `is_dropped`.
    pub fn leave(&mut self, used: &Used, is_dropped: bool, now: Instant) {
        self.lines[used.line].leave(used.context, is_dropped, now);
    }

    /// What a socket costs its user.
    pub fn load(&self, used: &Used) -> Load {
        let line = &self.lines[used.line];
        let told = line.talks.get(&used.context).map_or(0, |talk| talk.inbox.len());
        let load = line.contexts.load(used.context);
        let bytes = load.bytes + (told * size_of::<Message>()) as u64;
        Load { bytes, ..load }
    }

    /// Bytes that a context has waiting which nobody has any more; `None`: it is over.
    pub fn waits(&self, used: &Used) -> Option<u64> {
        let talk = self.lines[used.line].talks.get(&used.context)?;
        (talk.owner == Owner::Nobody).then(|| self.load(used).bytes)
    }

    // ---- turns

    /// What came for contexts, what leaves, and what their timers say; true if there was something. Nobody has the
    /// stack's lock.
    pub fn poll(&mut self, table: &mut Table) -> bool {
        let mut worked = false;
        for line in self.lines.iter_mut().filter(|line| !line.is_broken) {
            for _ in 0..LOOKS {
                match line.contexts.poll(&mut Kept) {
                    Ok(true) => worked = true,
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(%error, address = %line.local, "XTP ends there");
                        line.break_off(table);
                        worked = true;
                        break;
                    }
                }
            }
            worked |= line.hear(table);
            line.forget(self.clock.now());
        }
        worked
    }

    /// How soon there is something to do by itself.
    pub fn next_timeout(&self) -> Option<Duration> {
        let alive = self.lines.iter().filter(|line| !line.is_broken);
        alive.filter_map(|line| line.contexts.next_timeout()).min()
    }

    /// The turn of a socket that has a context.
    pub fn turn(&mut self, socket: &mut Socket, used: &Used) -> Turn {
        let line = &mut self.lines[used.line];
        let Some(talk) = line.talks.get_mut(&used.context) else {
            return Turn::Failed(Errno::CONNRESET);
        };
        if socket.shown.error {
            return Turn::Dropped;
        }
        let moved = send(socket, &mut line.contexts, used.context, talk, &mut self.scratch)
            .and_then(|out| Ok((out, bring(socket, &mut line.contexts, used.context, talk)?)));
        match moved {
            Err(turn) => turn,
            // What it wrote is in the context, and so is its end.
            Ok(_) if socket.shown.hangup && socket.has_finished => Turn::Left,
            Ok((false, false)) => Turn::Waits,
            Ok(_) => Turn::Goes,
        }
    }

    // ---- options

    /// The value of an option of a socket.
    ///
    /// # Errors
    /// `ENOPROTOOPT`.
    pub fn option(&self, name: i32, block: &ControlBlock, used: Option<&Used>) -> Result<i32> {
        let in_use = |used: &Used| self.lines[used.line].contexts.check(used.context);
        Ok(match name {
            XTP_CHECK => i32::from(used.and_then(in_use).unwrap_or(block.check) == Check::Cxor),
            XTP_TAGS => i32::from(block.tags),
            XTP_SORT => block.sort.map_or(-1, i32::from),
            XTP_NOERR => i32::from(block.noerr),
            XTP_OVERTAKING => i32::from(block.overtaking),
            _ => return Err(Errno::NOPROTOOPT),
        })
    }

    /// Sets one: all but the priority before there is a context.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL`, `EISCONN`.
    pub fn set_option(
        &mut self,
        name: i32,
        value: &[u8],
        block: &mut ControlBlock,
        used: Option<&Used>,
    ) -> Result<()> {
        let value = value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        let value = value.ok_or(Errno::INVAL)?;
        if used.is_some() && name != XTP_SORT {
            return Err(Errno::ISCONN);
        }
        let is_set = value != 0;
        match (name, value) {
            (XTP_CHECK, 0) => block.check = Check::Internet,
            (XTP_CHECK, 1) => block.check = Check::Cxor,
            (XTP_TAGS, _) => block.tags = is_set,
            (XTP_SORT, -1) => block.sort = None,
            (XTP_SORT, _) => block.sort = Some(value.try_into().map_err(|_| Errno::INVAL)?),
            (XTP_NOERR, _) => block.noerr = is_set,
            (XTP_OVERTAKING, _) => block.overtaking = is_set,
            (XTP_CHECK, _) => return Err(Errno::INVAL),
            _ => return Err(Errno::NOPROTOOPT),
        }
        if let Some(used) = used {
            self.lines[used.line].contexts.set_sort(used.context, block.sort);
        }
        Ok(())
    }
}

/// What a socket has before anything else is said.
pub fn control_block() -> ControlBlock {
    ControlBlock { send_bytes: BUFFER, receive_bytes: BUFFER, ..ControlBlock::default() }
}

impl Line {
    /// Hears what happened to contexts; true if something did.
    fn hear(&mut self, table: &mut Table) -> bool {
        let mut has_news = false;
        while let Some((context, event)) = self.contexts.poll_event() {
            has_news = true;
            if let Event::Accepted { service } = event {
                self.called(context, service, table);
                continue;
            }
            let Some(talk) = self.talks.get_mut(&context) else {
                if let Event::Message(message) = &event {
                    self.contexts.release(context, message);
                }
                continue;
            };
            match event {
                Event::Message(message) if talk.owner == Owner::Nobody => {
                    // As TCP's: it was closed with something unread.
                    self.contexts.release(context, &message);
                    self.contexts.abort(context);
                }
                Event::Message(message) => talk.inbox.push_back(message),
                Event::Finished => talk.has_finished = true,
                Event::Closed(_) if talk.owner == Owner::Nobody => {
                    self.talks.remove(&context);
                    continue;
                }
                Event::Closed(ended) => talk.ended = Some(ended),
                _ => {}
            }
            talk.mark(table);
        }
        has_news
    }

    /// Somebody calls a service.
    fn called(&mut self, context: Context, service: u16, table: &mut Table) {
        match self.services.get_mut(&service) {
            Some(offered) if offered.waiting.len() < offered.backlog => {
                offered.waiting.push_back(context);
                self.talks.insert(context, Talk::of(Owner::Listener));
                table.mark(offered.listener);
            }
            _ => self.contexts.abort(context),
        }
    }

    fn leave(&mut self, context: Context, is_dropped: bool, now: Instant) {
        let Some(talk) = self.talks.get_mut(&context) else { return };
        let is_unread = !talk.inbox.is_empty() || talk.is_deaf;
        talk.owner = Owner::Nobody;
        for message in talk.inbox.drain(..) {
            self.contexts.release(context, &message);
        }
        if talk.ended.is_some() {
            self.talks.remove(&context);
            return;
        }
        self.contexts.finish(context);
        if is_dropped || is_unread {
            self.contexts.abort(context);
        }
        self.left.push_back((now, context));
    }

    /// Contexts that nobody has, and whose peer takes too long to end, are ended.
    fn forget(&mut self, now: Instant) {
        while let Some((since, context)) = self.left.front().copied() {
            if now.saturating_since(since) < PATIENCE {
                return;
            }
            self.left.pop_front();
            if self.talks.remove(&context).is_some() {
                self.contexts.abort(context);
            }
        }
    }

    /// Nothing is sent or comes any more.
    fn break_off(&mut self, table: &mut Table) {
        self.is_broken = true;
        for talk in self.talks.values_mut() {
            talk.ended.get_or_insert(Ended::Unreachable);
            talk.mark(table);
        }
    }
}

/// From the placeholder into the context; true when there may be more at once.
fn send(
    socket: &mut Socket,
    contexts: &mut Contexts,
    context: Context,
    talk: &mut Talk,
    scratch: &mut [u8],
) -> Result<bool, Turn> {
    for _ in 0..ADUS {
        if socket.has_finished || !socket.may_send {
            return Ok(false);
        }
        let is_pending = !talk.pending.is_empty();
        let message = match is_pending {
            true => &talk.pending[..],
            false if !socket.shown.readable => return Ok(false),
            false => match receive(&socket.q, scratch) {
                Ok(0) => {
                    socket.has_finished = true;
                    contexts.finish(context);
                    return Ok(false);
                }
                Ok(len) => &scratch[..len],
                Err(Errno::AGAIN) => {
                    socket.shown.readable = false;
                    return Ok(false);
                }
                Err(Errno::INTR) => continue,
                Err(_) => return Err(Turn::Dropped),
            },
        };
        let parsed = message.split_first_chunk::<ABOUT_LEN>();
        let Some((about, adu)) = parsed.and_then(|(a, adu)| Some((About::parse(a).ok()?, adu)))
        else {
            // Not from a client of ours.
            return Err(Turn::Failed(Errno::PROTO));
        };
        let about = context::About { tag: about.tag, sort: about.sort };
        match contexts.send(context, &[std::io::IoSlice::new(adu)], about) {
            Ok(true) => talk.pending.clear(),
            Ok(false) => {
                if !is_pending {
                    let message = message.to_vec();
                    talk.pending = message;
                }
                return Ok(false);
            }
            // Why it is over is told when what came before was read.
            Err(fusewire_stack::Error::Closed) => talk.pending.clear(),
            Err(_) => return Err(Turn::Failed(Errno::INVAL)),
        }
    }
    Ok(true)
}

fn receive(q: &OwnedFd, scratch: &mut [u8]) -> Result<usize> {
    recv(q, scratch, RecvFlags::DONTWAIT).map(|(_, len)| len)
}

/// From the context's memory into the placeholder; true when there may be more at once.
fn bring(
    socket: &mut Socket,
    contexts: &mut Contexts,
    context: Context,
    talk: &mut Talk,
) -> Result<bool, Turn> {
    for _ in 0..ADUS {
        let Some(message) = talk.inbox.front() else {
            if talk.has_finished && !std::mem::replace(&mut socket.peer_is_told, true) {
                let _ = shutdown(&socket.q, Shutdown::Write);
            }
            return match talk.ended.and_then(why) {
                Some(error) => Err(Turn::Failed(error)),
                None => Ok(false),
            };
        };
        if !socket.shown.writable {
            return Ok(false);
        }
        let about = About { tag: message.tag, sort: None, is_broken: !message.is_whole }.emit();
        let [front, rest] = contexts.message(context, message);
        if front.len() + rest.len() > ADU_MAX {
            return Err(Turn::Failed(Errno::MSGSIZE));
        }
        let pieces = [IoSlice::new(&about), IoSlice::new(front), IoSlice::new(rest)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&socket.q, &pieces, &mut SendAncillaryBuffer::default(), flags) {
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                socket.shown.writable = false;
                return Ok(false);
            }
            Err(Errno::INTR) => continue,
            // It has shut down this side, or closed all.
            sent => {
                talk.is_deaf |= sent.is_err();
                socket.has_piped |= sent.is_ok();
                if let Some(message) = talk.inbox.pop_front() {
                    contexts.release(context, &message);
                }
            }
        }
    }
    Ok(true)
}

/// What an application is told of an end; nothing of one in order.
fn why(ended: Ended) -> Option<Errno> {
    Some(match ended {
        Ended::InOrder => return None,
        Ended::Refused(_) => Errno::CONNREFUSED,
        Ended::Abandoned(_) | Ended::Aborted => Errno::CONNRESET,
        Ended::Ours => Errno::CONNABORTED,
        Ended::TimedOut => Errno::TIMEDOUT,
        Ended::Unreachable => Errno::HOSTUNREACH,
        Ended::TooLong => Errno::MSGSIZE,
    })
}
