//! What is done for the sockets of an outboard in their turns.

mod offers;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::posix::Bound;
use fusewire_stack::ip::{Event, Places, SocketId, Stack, State as TcpState};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, getrlimit};

use super::accounts::{Accounts, Budget, Charged};
use super::closed::{Closed, Gone};
use super::contexts::Xtp;
use super::lease::{self, INFO_EVERY, Lease, Regions};
use super::pipe::{self, DATAGRAM_MAX, Turn};
use super::policy::Policy;
use super::requests::{bind_datagrams, local};
use super::restore::{Restored, record_of};
use super::table::{Listens, Socket, State, Table};
use super::tokens;
use crate::placeholder;
use crate::protocol::Kind;
pub use offers::AGAIN;

/// Turns of a socket that was closed, when somebody wants its port.
const TURNS_OF_CLOSED: usize = 16;

/// Bytes that are taken before their readers are shown all of them, and the peers are told: two super-frames, so that readers copy
/// the ones while the next come.
const AT_ONCE: usize = 128 << 10;

/// Sockets whose bytes are looked at while a user has too many.
const LOOKS: u32 = 512;

/// The sockets, and what they share.
pub struct Engine {
    pub table: Table,
    pub epoll: OwnedFd,
    pub instance: u64,
    pub bound: Bound,
    pub accounts: Accounts,
    pub policy: Policy,
    /// Memory that applications share with us.
    pub regions: Regions,
    /// Contexts of XTP.
    pub xtp: Xtp,
    /// Sockets of which their applications know less than there is to know.
    pub stale: Vec<u32>,
    /// When they were last told.
    refreshed_at: Option<Instant>,
    /// Leased streams of which something was laid into their rings in the batch at hand.
    laid: Vec<u32>,
    scratch: Box<[u8; DATAGRAM_MAX]>,
    /// Sockets that the interface had no room for.
    pub retry: Vec<u32>,
    /// What somebody wrote in this round waits for more of it.
    gathers: bool,
    /// Sockets for which somebody is to be woken who waits for several.
    bells: Vec<u32>,
    /// Sockets whose descriptor may be lost.
    pub lost: Vec<u32>,
    /// Connections whose sockets are gone.
    pub closed: Closed,
    /// Sockets that take as little as they can of what comes.
    held_back: BTreeSet<u32>,
    /// Listeners with a connection that could not be offered for now: the kernel has no room for it, or their user.
    pub unoffered: BTreeSet<u32>,
    /// When it was last reported that no descriptor is left.
    limit_reported: Option<Instant>,
    /// Sockets that were made anew a moment ago.
    pub restored: Vec<Restored>,
    /// When they last tried.
    offered_at: Option<Instant>,
    /// Where the next look begins at what sockets have waiting, while somebody has too much.
    looked_at: u32,
}

/// The rings of leases, as places of what comes.
struct InRings<'a> {
    table: &'a mut Table,
    regions: &'a mut Regions,
    laid: &'a mut Vec<u32>,
}

impl Places for InRings<'_> {
    fn room(&mut self, id: SocketId, len: usize) -> Option<[&mut [u8]; 2]> {
        let socket = self.table.at(self.table.by_id(id)?)?;
        if socket.peer_is_told {
            return None;
        }
        self.regions.room(socket.lease.as_mut()?, len)
    }

    fn landed(&mut self, id: SocketId, len: usize) {
        let Some(index) = self.table.by_id(id) else { return };
        if let Some(lease) = self.table.at(index).and_then(|socket| socket.lease.as_mut()) {
            self.regions.landed(lease, len);
        }
        if !self.laid.contains(&index) {
            self.laid.push(index);
        }
    }
}

/// Datagrams that a stack has sent, or taken for neighbours whom it asks for, and copies that it has given to sockets of its own. Those
/// that leave when the answer comes leave in nobody's turn.
fn messages_of(stack: &Stack) -> u64 {
    let counters = stack.counters();
    counters.udp_messages_sent + counters.udp_messages_unresolved + counters.udp_messages_returned
}

impl Engine {
    /// Without a socket.
    ///
    /// # Errors
    /// No descriptor or randomness is left.
    pub fn new(budget: Budget, policy: Policy, xtp: Xtp) -> io::Result<Engine> {
        let scratch = vec![0; DATAGRAM_MAX].into_boxed_slice();
        Ok(Engine {
            table: Table::default(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            instance: u64::from_le_bytes(fusewire_device::random()?),
            bound: Bound::default(),
            accounts: Accounts::new(budget),
            policy,
            regions: Regions::default(),
            xtp,
            stale: Vec::new(),
            refreshed_at: None,
            laid: Vec::new(),
            scratch: scratch.try_into().expect("of this length"),
            retry: Vec::new(),
            gathers: false,
            bells: Vec::new(),
            lost: Vec::new(),
            closed: Closed::default(),
            held_back: BTreeSet::new(),
            unoffered: BTreeSet::new(),
            limit_reported: None,
            restored: Vec::new(),
            offered_at: None,
            looked_at: 0,
        })
    }

    /// The stack's descriptor tells of packets from now on; false if it has none.
    ///
    /// # Errors
    /// No room for it is left in the kernel.
    pub fn hear_of(&self, stack: &Stack) -> Result<bool, Errno> {
        let Some(interface) = stack.as_fd() else { return Ok(false) };
        let data = epoll::EventData::new_u64(tokens::INTERFACE);
        epoll::add(&self.epoll, interface, data, epoll::EventFlags::IN)?;
        Ok(true)
    }

    /// Logs that the outboard, or the host, has no descriptor left, at most every 10 seconds. Returns `true` if `error` means that.
    pub fn report_limit(&mut self, now: Instant, error: Errno) -> bool {
        const EVERY: Duration = Duration::from_secs(10);
        let is_limit = matches!(error, Errno::MFILE | Errno::NFILE);
        let is_due =
            self.limit_reported.is_none_or(|reported| now.saturating_since(reported) >= EVERY);
        if is_limit && is_due {
            self.limit_reported = Some(now);
            let (sockets, limit) = (self.table.len(), getrlimit(Resource::Nofile).current);
            tracing::warn!(
                %error, sockets, limit,
                "cannot make a socket: no descriptor is left; raise the outboard's limit (ulimit -Hn, LimitNOFILE=)"
            );
        }
        is_limit
    }

    /// Our end of the placeholder of the socket at `index` tells its news from now on.
    ///
    /// # Errors
    /// No room for it is left in the kernel.
    pub fn watch(&mut self, index: u32) -> Result<(), Errno> {
        let Some(socket) = self.table.at(index) else { return Ok(()) };
        let data = epoll::EventData::new_u64(tokens::SOCKET | u64::from(index));
        epoll::add(&self.epoll, &socket.q, data, wanted(false))
    }

    /// From now on our end tells of room too, or, of a leased socket, in which nothing but doorbells lies, no more.
    pub fn rewatch(&self, index: u32, socket: &mut Socket, is_leased: bool) -> Result<(), Errno> {
        socket.shown.writable = true;
        let data = epoll::EventData::new_u64(tokens::SOCKET | u64::from(index));
        epoll::modify(&self.epoll, &socket.q, data, wanted(is_leased))
    }

    /// Takes a batch of packets, of which what is the next of a leased stream goes straight into its ring; true if there were
    /// some.
    ///
    /// # Errors
    /// The interface's.
    pub fn receive(&mut self, stack: &mut Stack, now: Instant) -> io::Result<bool> {
        let Engine { table, regions, laid, .. } = self;
        laid.clear();
        let mut rings = InRings { table: &mut *table, regions: &mut *regions, laid: &mut *laid };
        let taken = stack.receive_into(now, &mut rings, AT_ONCE)?;
        for index in laid.drain(..) {
            if let Some(lease) = table.at(index).and_then(|socket| socket.lease.as_mut()) {
                regions.defer(lease, taken.has_more);
            }
            // For bell and end, and room that it waits for.
            table.mark(index);
        }
        Ok(taken.packets > 0)
    }

    /// What applications are told of their connections is what is true, now and then.
    pub fn refresh(&mut self, stack: &mut Stack, now: Instant) {
        if self.refreshed_at.is_some_and(|at| now.saturating_since(at) < INFO_EVERY) {
            return;
        }
        self.refreshed_at = Some(now);
        let Engine { stale, table, regions, .. } = self;
        stale.retain(|index| match table.at(*index) {
            Some(Socket { lease: Some(lease), state: State::Stream(id), .. }) => {
                regions.refresh(lease, stack, now, *id)
            }
            _ => false,
        });
    }

    /// Applications have told news in shared memory; true if there was some. A round begins.
    pub fn hear(&mut self, now: Instant) -> bool {
        self.gathers = false;
        let (regions, table) = (&mut self.regions, &mut self.table);
        let mut has_news = false;
        regions.news(now, |index| {
            has_news = true;
            table.mark(index);
        });
        has_news
    }

    /// What somebody wrote in this round waits for more of it, which is to be looked for soon.
    pub fn gathers(&self) -> bool {
        self.gathers
    }

    /// Wakes those who wait for several leases, each once for all that came in these turns.
    pub fn ring_bells(&mut self) {
        let Engine { bells, table, regions, .. } = self;
        for index in bells.drain(..) {
            if let Some(Socket { lease: Some(lease), q, .. }) = table.at(index) {
                regions.ring(lease, q);
            }
        }
    }

    /// A control connection has ended, and with it the memory that came by it.
    pub fn guest_left(&mut self, guest: u32) {
        for index in self.regions.left(guest) {
            if let Some(Socket { lease: Some(lease), q, .. }) = self.table.at(index) {
                // What is left to do is done in the socket's turn.
                let _ = self.regions.revoke(lease, None, q.as_fd());
            }
            self.table.mark(index);
        }
    }

    /// A placeholder has shown something.
    pub fn shown(&mut self, index: u32, flags: epoll::EventFlags) {
        let Some(socket) = self.table.at(index) else { return };
        let shown = &mut socket.shown;
        let has = |flag: epoll::EventFlags| flags.contains(flag);
        shown.hangup |= has(epoll::EventFlags::HUP);
        shown.error |= has(epoll::EventFlags::ERR);
        shown.readable |=
            shown.hangup || has(epoll::EventFlags::IN) || has(epoll::EventFlags::RDHUP);
        shown.writable |= has(epoll::EventFlags::OUT);
        self.table.mark(index);
    }

    /// What is to be done for contexts of XTP; true if there was something. Nobody has the stack's lock.
    pub fn poll_contexts(&mut self) -> bool {
        self.xtp.poll(&mut self.table)
    }

    /// Something happened to a socket of the stack's.
    pub fn happened(&mut self, id: SocketId, event: Event) {
        let Some(index) = self.table.by_id(id) else { return };
        if event != Event::Congestion {
            return self.table.mark(index);
        }
        if let Some(Socket { lease: Some(lease), .. }) = self.table.at(index)
            && lease.note_stale()
        {
            self.stale.push(index);
        }
    }

    /// The turn of the socket at `index`; false when it waits for more of what it has to do, and did nothing.
    ///
    /// # Errors
    /// The interface's.
    pub fn turn(&mut self, stack: &mut Stack, now: Instant, index: u32) -> io::Result<bool> {
        let Some(mut socket) = self.table.take(index) else { return Ok(true) };
        let before = socket.state.id();
        socket.may_send = self.accounts.may_send(socket.payer, now);
        let messages = messages_of(stack);
        let turn = self.turn_of(index, &mut socket, stack, now)?;
        let messages = messages_of(stack) - messages;
        self.charge(&mut socket, stack, messages);
        self.hold_back(index, &mut socket, stack);
        let has_more = socket.shown.readable
            || socket.lease.is_some()
            || matches!(socket.state, State::Context(_));
        if !socket.may_send && has_more && !socket.has_finished {
            self.accounts.hold(socket.payer, index);
        }
        let is_changed = socket.state.id() != before;
        let has_worked = !socket.lease.as_ref().is_some_and(Lease::gathers);
        self.gathers |= !has_worked;
        if let Some(lease) = socket.lease.as_ref().filter(|lease| lease.rests()) {
            self.regions.rest(lease);
        }
        match turn {
            Turn::Waits | Turn::Goes | Turn::Unleased => {
                let waits = socket.lease.as_ref().is_some_and(|lease| lease.is_blocked());
                if waits || matches!(socket.state, State::Datagrams { pending: Some(_), .. }) {
                    self.retry.push(index);
                }
                self.table.put(index, socket);
                if is_changed {
                    self.table.reindex(index);
                }
                if turn != Turn::Waits {
                    self.table.mark(index);
                }
            }
            Turn::Left if socket.offered_by.is_some() => {
                // Nobody has said that he has it: it may be one to be offered again.
                self.table.forget_cookie(socket.cookie);
                socket.lost_at = Some(now);
                self.lost.push(index);
                self.table.put(index, socket);
            }
            Turn::Left | Turn::Dropped | Turn::Failed(_) => {
                self.table.forget(index, &socket);
                let error = match turn {
                    Turn::Failed(error) => Some(error),
                    // A placeholder of which neither way is used any more is as one that nobody has.
                    _ => socket.error.filter(|_| socket.is_refused),
                };
                if let Some(error) = error {
                    let local = local(stack, now, &socket).ok();
                    self.table.bury(&socket, error, local);
                }
                self.end(*socket, stack, now, turn == Turn::Dropped);
            }
        }
        Ok(has_worked)
    }

    /// Charges a socket's user for what it has waiting and has sent: so many datagrams since the last time.
    pub fn charge(&mut self, socket: &mut Socket, stack: &mut Stack, messages: u64) {
        let before = socket.charged;
        let (bytes, packets) = match &socket.state {
            State::Context(used) => {
                let load = self.xtp.load(used);
                (load.bytes, load.packets)
            }
            state => {
                let load = state.id().and_then(|id| stack.load(id).ok()).unwrap_or_default();
                (load.bytes, load.segments)
            }
        };
        // Memory of the kernel's, for what the application has yet to read.
        let piped = match socket.has_piped {
            true => placeholder::untaken(socket.q.as_fd()).unwrap_or(0),
            false => 0,
        };
        socket.has_piped = piped > 0;
        let shared = socket.lease.as_ref().map_or(0, Lease::charged);
        let room = match socket.of.kind {
            Kind::Datagram => socket.options.extra_room(stack, socket.state.id()),
            Kind::Stream | Kind::Messages => 0,
        };
        let bytes = bytes + piped as u64 + shared + room;
        socket.charged = Charged { bytes, packets: packets.max(before.packets + messages) };
        self.accounts.charge(socket.payer, &before, &socket.charged);
    }

    /// Lets sockets send again whose user has used up less meanwhile.
    pub fn release(&mut self, stack: &mut Stack, now: Instant) {
        // What was acknowledged or read of others of his, nobody has said.
        let all = self.table.indices().end;
        for _ in 0..LOOKS.min(all) {
            self.looked_at = (self.looked_at + 1) % all;
            let has_all = |socket: &mut Socket| self.accounts.has_all(socket.payer);
            if self.table.at(self.looked_at).is_some_and(has_all)
                && let Some(mut socket) = self.table.take(self.looked_at)
            {
                self.charge(&mut socket, stack, 0);
                self.hold_back(self.looked_at, &mut socket, stack);
                let is_read = socket.is_held_back && !socket.has_piped;
                self.table.put(self.looked_at, socket);
                if is_read {
                    self.table.mark(self.looked_at);
                }
            }
        }
        self.look_at_closed(stack, LOOKS as usize);
        let Engine { accounts, table, held_back, .. } = self;
        if accounts.release(now, |index| table.mark(index)) {
            // In their turn.
            held_back.retain(|index| {
                let is_over = |socket: &mut Socket| accounts.is_over(socket.payer);
                let stays = table.at(*index).is_some_and(is_over);
                if !stays {
                    table.mark(*index);
                }
                stays
            });
        }
    }

    /// What comes for a socket of a user who has all the memory that he may have finds little room, until he has less.
    fn hold_back(&mut self, index: u32, socket: &mut Socket, stack: &mut Stack) {
        let is_over = self.accounts.is_over(socket.payer);
        if !is_over && !socket.is_held_back {
            return;
        }
        if is_over {
            self.held_back.insert(index);
        }
        socket.is_held_back = is_over;
        if let Some(id) = socket.state.id() {
            // One that is over has nothing to come.
            let _ = stack.set_held_back(id, is_over);
        }
    }

    fn turn_of(
        &mut self,
        index: u32,
        socket: &mut Socket,
        stack: &mut Stack,
        now: Instant,
    ) -> io::Result<Turn> {
        Ok(match &socket.state {
            _ if socket.lost_at.is_some() => Turn::Waits,
            // It sends without having been bound, and may have closed behind that.
            State::Fresh if socket.of.kind == Kind::Datagram && has_sent(socket) => {
                let any = socket.of.family.unspecified();
                let bound = self.policy.place(socket.owner(), any);
                match bound.and_then(|local| bind_datagrams(stack, socket, local)) {
                    Ok(()) => {
                        let record = record_of(stack, socket);
                        record
                            .into_iter()
                            .for_each(|record| self.table.journal.note(index, record));
                        Turn::Goes
                    }
                    Err(error) => Turn::Failed(error),
                }
            }
            State::Fresh if socket.shown.hangup => Turn::Left,
            State::Fresh => Turn::Waits,
            State::Connecting { id, stuffed } => {
                let (id, stuffed) = (*id, *stuffed);
                connecting(socket, stack, id, stuffed)
            }
            // Not a byte moves before somebody has it: what went with a lost placeholder would be lost.
            State::Stream(_) | State::Context(_) if socket.offered_by.is_some() => {
                let is_gone = socket.shown.hangup || socket.shown.error;
                if is_gone { Turn::Left } else { Turn::Waits }
            }
            State::Stream(id) => {
                let id = *id;
                match socket.lease {
                    Some(_) => self.leased(index, socket, stack, now, id),
                    None => pipe::stream(socket, stack, id),
                }
            }
            State::Listening { .. } => self.listening(index, socket, stack, now),
            State::Context(used) => {
                let used = *used;
                self.xtp.turn(socket, &used)
            }
            State::Datagrams { .. } if socket.lease.is_some() => {
                let scratch = &mut self.scratch;
                let with = (&mut self.regions, &self.policy);
                let turn = lease::datagrams(socket, stack, now, with, scratch)?;
                self.after_lease(index, socket, turn)
            }
            State::Datagrams { .. } => {
                pipe::datagrams(socket, stack, now, &self.policy, &mut self.scratch)?
            }
        })
    }

    /// The turn of a stream that has a lease.
    fn leased(
        &mut self,
        index: u32,
        socket: &mut Socket,
        stack: &mut Stack,
        now: Instant,
        id: SocketId,
    ) -> Turn {
        let turn = lease::stream(socket, stack, (now, id), &mut self.regions);
        if let Some(lease) = &mut socket.lease
            && self.regions.tell(lease, stack, now, id)
        {
            self.stale.push(index);
        }
        if socket.lease.as_ref().is_some_and(Lease::owes_bell) {
            self.bells.push(index);
        }
        self.after_lease(index, socket, turn)
    }

    /// What the turn of a leased socket comes to: one whose lease is over is told of room again. To ask for that tells it anew, so it
    /// is asked for when the lease turns out to be over and when it ends, not in each turn between.
    fn after_lease(&mut self, index: u32, socket: &mut Socket, turn: Turn) -> Turn {
        let asks = socket.lease.as_mut().is_none_or(Lease::begins_to_hear);
        if asks && !matches!(turn, Turn::Left | Turn::Dropped | Turn::Failed(_)) {
            let has_room = socket.shown.writable;
            let _ = self.rewatch(index, socket, false);
            socket.shown.writable = has_room || turn == Turn::Unleased;
        }
        turn
    }

    /// Ends the sockets of this port, but for connections, that nobody has any more, which epoll has yet to say; true if there
    /// was one.
    pub fn end_closed(&mut self, stack: &mut Stack, now: Instant, port: u16) -> bool {
        let mut ended = false;
        for index in self.table.indices() {
            let Some(socket) = self.table.at(index) else { continue };
            let is_connection = matches!(socket.state, State::Connecting { .. } | State::Stream(_));
            let has_port = |local: SocketAddr| local.port() == port;
            let has_it = socket.bound.is_some_and(has_port)
                || socket.state.id().is_some_and(|id| stack.local_addr(id).is_ok_and(has_port));
            if is_connection || !has_it || !placeholder::is_left(socket.q.as_fd()) {
                continue;
            }
            self.shown(index, epoll::EventFlags::HUP);
            let number = self.table.number_at(index);
            // What it has sent goes first.
            for _ in 0..TURNS_OF_CLOSED {
                let is_there = number.is_some() && self.table.number_at(index) == number;
                if !is_there || self.turn(stack, now, index).is_err() {
                    break;
                }
            }
            ended |= self.table.number_at(index) != number;
        }
        ended
    }

    /// A socket is no more: `is_dropped`, with something that its application has not read.
    fn end(&mut self, mut socket: Socket, stack: &mut Stack, now: Instant, is_dropped: bool) {
        // The last that it has sent.
        self.charge(&mut socket, stack, 0);
        if let Some(lease) = &mut socket.lease {
            if let State::Stream(id) = socket.state {
                self.regions.keep(lease, stack, id);
            }
            self.regions.end(lease, true);
        }
        let is_reset = is_dropped || socket.options.aborts();
        let gone = match &socket.state {
            State::Stream(id) | State::Connecting { id, .. } => Some(Gone::Tcp(*id)),
            State::Context(used) => Some(Gone::Context(*used)),
            state => {
                // What the stack does not know any more has ended by itself.
                let _ = state.id().map(|id| stack.close(now, id));
                None
            }
        };
        if let Some(gone) = gone {
            self.close(stack, now, (socket.payer, gone), is_reset);
        }
        // Not before: who has nothing else has an account as long as his connection does.
        self.accounts.remove_backlog(socket.payer, socket.backlog);
        self.accounts.remove_socket(socket.payer, socket.of.kind, &socket.charged);
        if let State::Listening { to: Listens::Service(service), .. } = &socket.state {
            self.xtp.stop(service);
        }
        if let Some(local) = socket.bound {
            self.accounts.remove_bound(socket.payer, socket.of.kind);
            match socket.of.kind {
                Kind::Messages => self.xtp.release(local),
                _ => self.bound.release(stack, local),
            }
        }
        if let Some(listener) = socket.offered_by {
            self.settled(listener);
        }
        if let State::Listening { .. } = socket.state {
            let listener = Some(socket.handle.socket);
            for index in self.table.indices() {
                if self.table.at(index).is_some_and(|other| other.offered_by == listener)
                    && let Some(other) = self.table.remove(index)
                {
                    // As the stack does with what nobody has accepted.
                    self.end(*other, stack, now, true);
                }
            }
        }
    }

    /// Ends every socket; connections are reset.
    pub fn end_all(&mut self, stack: &mut Stack, now: Instant) {
        // The record is for the next outboard, unless its program has just ended.
        for index in self.table.indices() {
            let is_left = |socket: &mut Socket| placeholder::is_left(socket.q.as_fd());
            if self.table.at(index).is_some_and(is_left) {
                self.table.journal.forget(index);
            }
        }
        self.table.journal.close();
        for index in self.table.indices() {
            if let Some(socket) = self.table.remove(index) {
                self.end(*socket, stack, now, true);
            }
        }
    }
}

/// The application has sent something.
fn has_sent(socket: &Socket) -> bool {
    let has_come = || rustix::io::ioctl_fionread(&socket.q).unwrap_or(0) > 0;
    socket.shown.readable && (!socket.shown.hangup || has_come())
}

/// What our end of a placeholder tells.
fn wanted(is_leased: bool) -> epoll::EventFlags {
    let out = if is_leased { epoll::EventFlags::empty() } else { epoll::EventFlags::OUT };
    epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET | out
}

/// A connection whose handshake goes on.
fn connecting(socket: &mut Socket, stack: &mut Stack, id: SocketId, stuffed: usize) -> Turn {
    if socket.shown.hangup {
        return Turn::Left;
    }
    match stack.tcp_state(id) {
        Ok(TcpState::SynSent | TcpState::SynReceived) => Turn::Waits,
        Ok(TcpState::Closed) | Err(_) => {
            let error = stack.take_error(id).ok().flatten();
            Turn::Failed(error.map_or(Errno::CONNREFUSED, pipe::number_of))
        }
        Ok(_) => {
            // Its writer has room from now on.
            let mut left = stuffed;
            let mut bytes = [0; placeholder::STUFFING];
            while left > 0 {
                let room = left.min(bytes.len());
                match recv(&socket.q, &mut bytes[..room], RecvFlags::DONTWAIT) {
                    Ok((_, len)) if len > 0 => left -= len,
                    Err(Errno::INTR) => {}
                    _ => return Turn::Left,
                }
            }
            socket.state = State::Stream(id);
            socket.shown.readable = true;
            Turn::Goes
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
