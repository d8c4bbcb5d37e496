//! The sockets of an outboard, and what each is.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use fusewire_base::Instant;
use fusewire_stack::context::ControlBlock;
use fusewire_stack::ip::SocketId;
use fusewire_stack::ip::posix::Options;
use rustix::io::Errno;

use super::accounts::Charged;
use super::applications::Applications;
use super::before::Earlier;
use super::contexts::{Service, Used};
use super::journal::Journal;
use super::lease::Lease;
use super::turns::Turns;
use crate::placeholder;
use crate::protocol::{Handle, Heading, Kind, Offer, SocketType, VERDICT_LEN};

/// How many sockets that ended in an error are remembered, for who asks why.
const OBITUARIES_MAX: usize = 4096;

/// Whose something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user who asked for it.
    pub uid: u32,
    /// His process.
    pub pid: i32,
    /// Whose budget it comes out of: of a user who is not named, and was handed a placeholder, that of whoever had it made.
    pub payer: u32,
}

/// A socket of an application's.
pub struct Socket {
    pub handle: Handle,
    /// `SO_COOKIE` of its placeholder.
    pub cookie: u64,
    /// Who made it.
    pub uid: u32,
    /// The process that did.
    pub pid: i32,
    /// Whose budget it comes out of.
    pub payer: u32,
    /// Connections that may wait to be accepted here.
    pub backlog: usize,
    /// Something was sent to the application by the placeholder, and may lie there.
    pub has_piped: bool,
    /// It takes as little as it can of what comes.
    pub is_held_back: bool,
    /// What that user was charged for it.
    pub charged: Charged,
    /// Its user may send: what the application has written may go to the stack.
    pub may_send: bool,
    pub of: SocketType,
    /// Our end of the placeholder.
    pub q: OwnedFd,
    pub state: State,
    pub options: Options,
    /// What a context of XTP is to be.
    pub block: Option<Box<ControlBlock>>,
    /// What a socket for connections is bound to.
    pub bound: Option<SocketAddr>,
    /// An error that waits to be told.
    pub error: Option<Errno>,
    /// What has ended its connection is that error, or was, and is not told anew when the last of what came before has been read.
    pub is_refused: bool,
    /// Word of an error lies where datagrams come, as far as is known.
    pub has_word: bool,
    pub shown: Shown,
    /// The application has finished its stream.
    pub has_finished: bool,
    /// It was told that the peer has.
    pub peer_is_told: bool,
    /// The listener that offers it, until somebody has taken it.
    pub offered_by: Option<u64>,
    /// Since when its placeholder is gone although nobody has said that he had it.
    pub lost_at: Option<Instant>,
    /// Bytes of a stream that went through the placeholder.
    pub moved: u64,
    /// Bytes of datagrams, as they lie in the placeholder and in its ring, that were taken from the application.
    pub taken: u64,
    /// Rings of the one process that uses it.
    pub lease: Option<Lease>,
    /// Somebody has attached: more than one process may know it, and none gets a lease.
    pub is_shared: bool,
}

impl Socket {
    /// Whose it is.
    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, pid: self.pid, payer: self.payer }
    }

    /// Its error is for who writes or asks: who reads is at the end that the peer has made before.
    pub fn is_writers_alone(&self) -> bool {
        self.of.kind == Kind::Stream && self.error == Some(Errno::PIPE)
    }

    /// Its application is to find an error where datagrams come, as that of a socket of the kernel's would which is connected.
    pub fn owes_word(&self) -> bool {
        let is_connected = matches!(self.state, State::Datagrams { peer: Some(_), .. });
        is_connected && self.error.is_some() && !self.has_word
    }

    /// Whom the datagram is for that is taken next.
    pub fn meant(&self, heading: &Heading) -> Meant {
        let (mut heading, names) = (*heading, heading.address.is_some());
        if let State::Datagrams { peer, earlier, .. } = &self.state
            && !names
        {
            heading.address = earlier.first().unwrap_or(*peer);
        }
        Meant { heading, names }
    }

    /// What is wrong with a datagram is to be told: it has named whom it is for, or is the present peer's.
    pub fn is_told_of(&self, meant: &Meant) -> bool {
        let peer = if let State::Datagrams { peer, .. } = &self.state { *peer } else { None };
        meant.names || meant.heading.address == peer
    }

    /// Nothing is left of what its application had sent when it was connected last.
    pub fn note_all_taken(&mut self) {
        if let State::Datagrams { earlier, .. } = &mut self.state {
            earlier.clear();
        }
    }

    /// What its application has sent, so many bytes of it, is taken.
    pub fn note_taken(&mut self, len: u64) {
        if let State::Datagrams { earlier, .. } = &mut self.state {
            earlier.note_taken(len);
        }
        self.taken += len;
    }

    /// At the end of what was sent by its placeholder: the last who had that is gone, which was not shown yet.
    pub fn is_newly_left(&mut self) -> bool {
        let was_shown = self.shown.hangup;
        self.shown.hangup = was_shown || placeholder::is_left(self.q.as_fd());
        self.shown.hangup && !was_shown
    }

    /// Its user has all the memory that he may have, and what was sent to it by the placeholder lies there yet.
    pub fn must_wait(&self) -> bool {
        self.is_held_back && self.has_piped
    }
}

/// Whom a datagram is for.
#[derive(Clone, Copy)]
pub struct Meant {
    pub heading: Heading,
    /// It says so itself: it is not for a peer.
    pub names: bool,
}

/// How far a socket is.
pub enum State {
    /// The stack does not know it yet.
    Fresh,
    /// A handshake goes on, and so many bytes of stuffing lie in the placeholder.
    Connecting { id: SocketId, stuffed: usize },
    /// A connection.
    Stream(SocketId),
    /// A listener.
    Listening {
        to: Listens,
        offers: usize,
        verdict: Partial,
        /// An offer that waits until the kernel has room for it.
        held: Option<Box<(Offer, OwnedFd)>>,
        /// A connection waits until its user may have another socket.
        is_refused: bool,
    },
    /// A context of XTP.
    Context(Used),
    /// A socket for datagrams.
    Datagrams {
        id: SocketId,
        /// The port that it was to have; 0: any, which was chosen for it.
        port: u16,
        peer: Option<SocketAddr>,
        /// What was sent to those before, and has not been taken yet.
        earlier: Earlier,
        /// One that the interface had no room for: whom it is for, and its message.
        pending: Option<Box<(Meant, Vec<u8>)>>,
    },
}

impl State {
    /// A listener to which nobody has come yet.
    pub fn listening(to: Listens) -> State {
        let (verdict, held) = (Partial::default(), None);
        State::Listening { to, offers: 0, verdict, held, is_refused: false }
    }

    /// What the stack calls it.
    pub fn id(&self) -> Option<SocketId> {
        match self {
            State::Fresh | State::Context(_) => None,
            State::Listening { to: Listens::Service(_), .. } => None,
            State::Connecting { id, .. }
            | State::Stream(id)
            | State::Listening { to: Listens::Tcp(id), .. }
            | State::Datagrams { id, .. } => Some(*id),
        }
    }
}

/// What a listener offers connections of.
#[derive(Clone)]
pub enum Listens {
    Tcp(SocketId),
    /// A service of XTP.
    Service(Service),
}

/// The beginning of a verdict whose end has not come.
#[derive(Default)]
pub struct Partial {
    pub bytes: [u8; VERDICT_LEN],
    pub len: usize,
}

/// What our end of the placeholder has shown, and nothing has been found to the contrary since.
#[derive(Clone, Copy, Default)]
pub struct Shown {
    /// There is something to read, or an end.
    pub readable: bool,
    /// There is room.
    pub writable: bool,
    /// Nobody has the other end any more.
    pub hangup: bool,
    /// Who had it left something unread.
    pub error: bool,
}

/// What is known of a socket that ended before its placeholder did.
struct Obituary {
    /// At whose expense it was.
    payer: u32,
    handle: Handle,
    /// Why, until it was told.
    error: Option<Errno>,
    local: Option<SocketAddr>,
    /// Of a stream what it was told, of which kind it was: its application may ask, and another may take its place.
    told: Option<Box<(SocketType, Options)>>,
}

/// All sockets.
#[derive(Default)]
pub struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By the stack's places: which of our sockets has one, and its name there.
    by_id: Vec<Option<(SocketId, u32)>>,
    by_cookie: HashMap<u64, u32>,
    obituaries: VecDeque<Obituary>,
    /// Whose sockets are, for who looks.
    pub applications: Applications,
    /// Places of sockets that may have something to do.
    turns: Turns,
    /// Sockets among these that the next outboard can restore.
    pub journal: Journal,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    socket: Option<Box<Socket>>,
}

/// The number of a socket by its place and how often that was used.
fn number(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

impl Table {
    /// All of them.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number that the next socket will have.
    pub fn next_number(&mut self) -> u64 {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            // Never 0, which is nobody's.
            self.slots.push(Slot { generation: 1, ..Slot::default() });
        }
        let index = self.free[self.free.len() - 1];
        number(index, self.slots[index as usize].generation)
    }

    /// Puts a socket in, whose number is [`Table::next_number`].
    pub fn insert(&mut self, socket: Socket) -> u32 {
        debug_assert_eq!(socket.handle.socket, self.next_number());
        let index = self.free.pop().expect("a number was given");
        self.turns.insert(index, socket.payer, socket.pid);
        self.by_cookie.insert(socket.cookie, index);
        self.slots[index as usize].socket = Some(Box::new(socket));
        self.reindex(index);
        self.mark(index);
        index
    }

    /// The socket at `index` has another name in the stack, or another placeholder.
    pub fn reindex(&mut self, index: u32) {
        let Some(socket) = &self.slots[index as usize].socket else { return };
        self.by_cookie.insert(socket.cookie, index);
        if let Some(id) = socket.state.id() {
            if self.by_id.len() <= id.place() {
                self.by_id.resize(id.place() + 1, None);
            }
            if self.by_id[id.place()].replace((id, index)) != Some((id, index)) {
                self.applications.add(id, socket.pid);
            }
        }
    }

    /// A placeholder is no more.
    pub fn forget_cookie(&mut self, cookie: u64) {
        self.by_cookie.remove(&cookie);
    }

    /// Takes a socket out, for good.
    pub fn remove(&mut self, index: u32) -> Option<Box<Socket>> {
        let slot = &mut self.slots[index as usize];
        let socket = slot.socket.take()?;
        self.forget(index, &socket);
        Some(socket)
    }

    /// A socket that was [taken out](Table::take) does not come back.
    pub fn forget(&mut self, index: u32, socket: &Socket) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1).max(1);
        self.free.push(index);
        self.by_cookie.remove(&socket.cookie);
        if let Some(id) = socket.state.id() {
            self.by_id.get_mut(id.place()).and_then(|named| named.take_if(|named| named.0 == id));
            self.applications.remove(id);
        }
        self.turns.remove(index);
        self.journal.forget(index);
    }

    /// Takes a socket out for a while.
    pub fn take(&mut self, index: u32) -> Option<Box<Socket>> {
        self.slots.get_mut(index as usize)?.socket.take()
    }

    /// Puts it back.
    pub fn put(&mut self, index: u32, socket: Box<Socket>) {
        self.slots[index as usize].socket = Some(socket);
    }

    /// The socket at `index`.
    pub fn at(&mut self, index: u32) -> Option<&mut Socket> {
        self.slots.get_mut(index as usize)?.socket.as_deref_mut()
    }

    /// The number of the socket at `index`, unless there is none, or it was [taken out](Table::take).
    pub fn number_at(&self, index: u32) -> Option<u64> {
        let slot = self.slots.get(index as usize)?;
        slot.socket.as_ref().map(|_| number(index, slot.generation))
    }

    /// The place of a socket by its number alone: for our own use.
    pub fn index_of(&self, number_of: u64) -> Option<u32> {
        let index = number_of as u32;
        let slot = self.slots.get(index as usize)?;
        (slot.socket.is_some() && number(index, slot.generation) == number_of).then_some(index)
    }

    /// The place of a socket that was [taken out](Table::take).
    pub fn index_of_taken(&self, number_of: u64) -> u32 {
        number_of as u32
    }

    /// The place of a socket of whoever shows its token.
    pub fn commanded(&mut self, handle: &Handle) -> Option<u32> {
        let index = self.index_of(handle.socket)?;
        let known = self.at(index)?.handle.token;
        is_same(&known, &handle.token).then_some(index)
    }

    /// The place of a socket by its placeholder's cookie.
    pub fn by_cookie(&self, cookie: u64) -> Option<u32> {
        self.by_cookie.get(&cookie).copied()
    }

    /// The place of a socket by the stack's name.
    pub fn by_id(&self, id: SocketId) -> Option<u32> {
        let named = self.by_id.get(id.place()).copied().flatten();
        named.filter(|named| named.0 == id).map(|(_, index)| index)
    }

    /// Keeps why a socket ended that was at this user's expense, and its address. Who has half of all that is kept makes others
    /// forget nothing.
    pub fn bury(&mut self, socket: &Socket, error: Errno, local: Option<SocketAddr>) {
        let error = if socket.is_refused { socket.error } else { Some(error) };
        let Socket { payer, handle, .. } = *socket;
        let is_stream = matches!(socket.state, State::Connecting { .. } | State::Stream(_));
        let told = is_stream.then(|| Box::new((socket.of, socket.options.clone())));
        if self.obituaries.len() == OBITUARIES_MAX {
            let is_his = |dead: &Obituary| dead.payer == payer;
            let has_half = self.obituaries.iter().filter(|dead| is_his(dead)).count();
            let oldest = match has_half >= OBITUARIES_MAX / 2 {
                true => self.obituaries.iter().position(is_his),
                false => None,
            };
            self.obituaries.remove(oldest.unwrap_or(0));
        }
        self.obituaries.push_back(Obituary { payer, handle, error, local, told });
    }

    /// Why a socket ended; told once, `None` from then on. Who `reads` is not told what is [for writers alone](Socket::is_writers_alone).
    ///
    /// # Errors
    /// `EBADF`: it is not known to have ended.
    pub fn exhume(&mut self, handle: &Handle, reads: bool) -> Result<Option<Errno>, Errno> {
        let at = self.grave(handle).ok_or(Errno::BADF)?;
        Ok(self.obituaries[at].error.take_if(|error| !(reads && *error == Errno::PIPE)))
    }

    /// The address that it had.
    ///
    /// # Errors
    /// As [`Table::exhume`].
    pub fn epitaph(&self, handle: &Handle) -> Result<Option<SocketAddr>, Errno> {
        let at = self.grave(handle).ok_or(Errno::BADF)?;
        Ok(self.obituaries[at].local)
    }

    /// Of which kind it was, and the options that it had, where it was a stream.
    ///
    /// # Errors
    /// As [`Table::exhume`].
    pub fn epitaph_options(
        &mut self,
        handle: &Handle,
    ) -> Result<(SocketType, &mut Options), Errno> {
        let at = self.grave(handle).ok_or(Errno::BADF)?;
        let told = self.obituaries[at].told.as_deref_mut().ok_or(Errno::BADF)?;
        Ok((told.0, &mut told.1))
    }

    fn grave(&self, handle: &Handle) -> Option<usize> {
        let is_it = |dead: &Obituary| {
            dead.handle.socket == handle.socket && is_same(&dead.handle.token, &handle.token)
        };
        self.obituaries.iter().rposition(is_it)
    }

    /// The socket at `index` may have something to do.
    pub fn mark(&mut self, index: u32) {
        self.turns.mark(index);
    }

    /// The next socket that may: of each application one in turn.
    pub fn next_ready(&mut self) -> Option<u32> {
        self.turns.next()
    }

    /// How many may.
    pub fn ready(&self) -> usize {
        self.turns.len()
    }

    /// Places that are in use.
    pub fn indices(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }
}

/// Compares tokens in a time that does not depend on them.
pub fn is_same(a: &[u8; 16], b: &[u8; 16]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::protocol::Family;

    fn socket(number: u64, cookie: u64) -> Socket {
        Socket {
            handle: Handle { socket: number, token: [3; 16] },
            cookie,
            uid: 7,
            pid: 1,
            payer: 7,
            backlog: 0,
            has_piped: false,
            is_held_back: false,
            charged: Charged::default(),
            may_send: true,
            of: SocketType { family: Family::V4, kind: Kind::Stream },
            q: UnixStream::pair().unwrap().0.into(),
            state: State::Fresh,
            block: None,
            options: Options::default(),
            bound: None,
            error: None,
            is_refused: false,
            has_word: false,
            shown: Shown::default(),
            has_finished: false,
            peer_is_told: false,
            offered_by: None,
            lost_at: None,
            moved: 0,
            taken: 0,
            lease: None,
            is_shared: false,
        }
    }

    #[test]
    fn a_number_alone_commands_nothing_and_is_never_used_again() {
        let mut table = Table::default();
        let first = table.next_number();
        let index = table.insert(socket(first, 11));
        let handle = Handle { socket: first, token: [3; 16] };
        assert_eq!(table.commanded(&handle), Some(index));
        for wrong in [
            Handle { token: [4; 16], ..handle },
            Handle { socket: first + 1, ..handle },
            Handle { socket: first + (1 << 32), ..handle },
            Handle::default(),
        ] {
            assert_eq!(table.commanded(&wrong), None, "{wrong:?}");
        }
        assert_eq!((table.by_cookie(11), table.len()), (Some(index), 1));
        table.remove(index);
        assert_eq!((table.by_cookie(11), table.len()), (None, 0));
        let second = table.next_number();
        table.insert(socket(second, 12));
        assert_eq!(second as u32, first as u32);
        assert_eq!(table.commanded(&handle), None);
    }

    #[test]
    fn a_name_of_the_stacks_finds_the_socket_that_has_it_and_no_other() {
        let mut table = Table::default();
        let [old, new, other]: [SocketId; 3] = ["5.1", "5.2", "0.1"].map(|id| id.parse().unwrap());
        let add = |table: &mut Table, cookie, id| {
            let number = table.next_number();
            table.insert(Socket { state: State::Stream(id), ..socket(number, cookie) })
        };
        let first = add(&mut table, 11, old);
        assert_eq!([old, new, other].map(|id| table.by_id(id)), [Some(first), None, None]);
        // The stack has forgotten the first, and given its place to another.
        let second = add(&mut table, 12, new);
        assert_eq!([old, new, other].map(|id| table.by_id(id)), [None, Some(second), None]);
        table.remove(first);
        assert_eq!(table.by_id(new), Some(second), "what ended was not this one");
        table.remove(second);
        assert_eq!([old, new, other].map(|id| table.by_id(id)), [None; 3]);
    }

    #[test]
    fn why_a_socket_ended_is_told_once_and_only_to_its_owner() {
        let mut table = Table::default();
        let handle = Handle { socket: 5, token: [1; 16] };
        let local = Some("10.0.0.1:7".parse().unwrap());
        let dead = |payer: u32, handle: Handle| Socket { payer, handle, ..socket(0, 0) };
        table.bury(&dead(7, handle), Errno::CONNREFUSED, local);
        let stranger = Handle { token: [2; 16], ..handle };
        assert_eq!(table.exhume(&stranger, false), Err(Errno::BADF));
        assert_eq!(table.epitaph(&stranger), Err(Errno::BADF));
        assert_eq!(table.exhume(&handle, true), Ok(Some(Errno::CONNREFUSED)));
        let of_writers = Handle { socket: 6, ..handle };
        table.bury(&dead(7, of_writers), Errno::PIPE, local);
        assert_eq!(table.exhume(&of_writers, true), Ok(None));
        assert_eq!(table.exhume(&of_writers, false), Ok(Some(Errno::PIPE)));
        assert_eq!((table.exhume(&handle, false), table.epitaph(&handle)), (Ok(None), Ok(local)));
        let of = |socket: u64| Handle { socket, ..handle };
        for n in 0..100 {
            table.bury(&dead(8, of(1 << 32 | n)), Errno::HOSTUNREACH, None);
        }
        for n in 0..2 * OBITUARIES_MAX as u64 {
            table.bury(&dead(7, of(n)), Errno::TIMEDOUT, None);
        }
        assert_eq!(
            table.exhume(&of(1 << 32), false),
            Ok(Some(Errno::HOSTUNREACH)),
            "another user's"
        );
        assert_eq!(table.exhume(&of(0), false), Err(Errno::BADF));
        table.bury(&dead(7, of(0)), Errno::TIMEDOUT, None);
        assert_eq!(table.obituaries.len(), OBITUARIES_MAX);
    }
}
