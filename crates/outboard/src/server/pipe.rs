//! Bytes between placeholders and the stack. Nothing waits here in memory of ours: what the stack has no room for stays
//! in the placeholder, whose writer the kernel stops, and what the application does not read stays in the stack, which
//! closes its window.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use fusewire_base::Instant;
use fusewire_stack::ip::posix::{self, errno};
use fusewire_stack::ip::{Ancillary, Error, SocketId, Stack, State as TcpState};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown,
};

use super::policy::Policy;
use super::table::{Meant, Socket, State};
use crate::placeholder;
use crate::protocol::{HEADING_LEN, Heading};

/// Bytes that a socket moves in its turn, each way.
pub const QUANTUM: usize = 256 << 10;
/// Datagrams that it moves.
pub const DATAGRAMS: usize = 64;
/// Bytes of the longest datagram with its heading.
pub const DATAGRAM_MAX: usize = HEADING_LEN + 65_535;

/// What becomes of a socket after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits for news.
    Waits,
    /// It has more to do.
    Goes,
    /// Nobody has its placeholder any more: the stack ends it in order.
    Left,
    /// And with something unread: the stack resets it.
    Dropped,
    /// It has no lease any more: its placeholder is all.
    Unleased,
    /// It failed, which the application is to be told.
    Failed(Errno),
}

/// The kernel's number for an error of the stack's.
pub fn number_of(error: Error) -> Errno {
    Errno::from_raw_os_error(errno(error))
}

/// A stream's turn: what the application has written goes to the stack, what has come to the application.
pub fn stream(socket: &mut Socket, stack: &mut Stack, id: SocketId) -> Turn {
    if let Err(error) = refuse_more(socket, stack, id, false) {
        return Turn::Failed(number_of(error));
    }
    let out = match leave(socket, stack, id) {
        Ok(goes) => goes,
        Err(turn) => return turn,
    };
    if socket.shown.error {
        // What it wrote goes before the reset.
        return if out { Turn::Goes } else { Turn::Dropped };
    }
    let back = match arrive(socket, stack, id) {
        Ok(goes) => goes,
        Err(turn) => return turn,
    };
    match (out, back) {
        // What it wrote is in the stack, and so is its end.
        _ if socket.shown.hangup && socket.has_finished => Turn::Left,
        (false, false) => Turn::Waits,
        _ => Turn::Goes,
    }
}

/// Where the connection has failed, and what came before has not all been read, here or elsewhere (`has_unread`), nobody writes any
/// more, nor waits to: whoever asks first is told why, who writes now or who reads when he has read that. Once, the bytes that were
/// taken out of the placeholder, and are nobody's.
///
/// # Errors
/// The stack does not know it.
pub fn refuse_more(
    socket: &mut Socket,
    stack: &mut Stack,
    id: SocketId,
    has_unread: bool,
) -> Result<Option<usize>, Error> {
    if socket.is_refused || !has_unread && stack.tcp_peek(id)?.0.is_empty() {
        return Ok(None);
    }
    let Some(error) = failure(stack, id)? else { return Ok(None) };
    (socket.error, socket.is_refused) = (Some(number_of(error)), true);
    socket.has_finished = true;
    let _ = shutdown(&socket.q, Shutdown::Read);
    // A writer that sleeps is woken by the room.
    let (mut bytes, mut taken) = ([0; 4096], 0);
    while let Ok((_, len @ 1..)) = recv(&socket.q, &mut bytes, RecvFlags::DONTWAIT) {
        taken += len;
    }
    Ok(Some(taken))
}

/// Why the connection has failed, if it has.
///
/// # Errors
/// The stack does not know it.
pub fn failure(stack: &mut Stack, id: SocketId) -> Result<Option<Error>, Error> {
    Ok(match stack.tcp_state(id)? {
        TcpState::Closed => stack.take_error(id)?,
        _ => None,
    })
}

/// From the placeholder into the connection's own memory; true when there may be more at once.
fn leave(socket: &mut Socket, stack: &mut Stack, id: SocketId) -> Result<bool, Turn> {
    pour(socket, stack, id, QUANTUM, &mut |_| {})
}

/// The same for at most so many bytes, of which `count` hears.
pub fn pour(
    socket: &mut Socket,
    stack: &mut Stack,
    id: SocketId,
    most: usize,
    count: &mut dyn FnMut(usize),
) -> Result<bool, Turn> {
    let mut left = most;
    while socket.shown.readable && !socket.has_finished && socket.may_send {
        if left == 0 {
            return Ok(true);
        }
        let q = &socket.q;
        let read = |[a, b]: [&mut [u8]; 2]| -> io::Result<usize> {
            if b.is_empty() {
                return Ok(recv(q, a, RecvFlags::DONTWAIT)?.1);
            }
            Ok(rustix::io::readv(q, &mut [IoSliceMut::new(a), IoSliceMut::new(b)])?)
        };
        let read = match stack.tcp_write_from(id, left, read) {
            // There will be room, and an event.
            Ok(None) => return Ok(false),
            Ok(Some(read)) => read,
            // Nothing can be written any more: what is unread resets the placeholder.
            Err(error) => return Err(Turn::Failed(number_of(error))),
        };
        match read {
            // The last close may be what gave the end: then it depends on more than on the stream what the peer is sent.
            Ok(0) if socket.is_newly_left() => return Ok(true),
            Ok(0) => {
                socket.has_finished = true;
                // One that is over has nothing to finish.
                let _ = stack.tcp_finish(id);
            }
            Ok(len) => {
                count(len);
                socket.moved += len as u64;
                left = left.saturating_sub(len);
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => socket.shown.readable = false,
                Some(Errno::INTR) => {}
                _ => return Err(Turn::Dropped),
            },
        }
    }
    Ok(false)
}

/// From the connection's memory into the placeholder; true when there may be more at once.
fn arrive(socket: &mut Socket, stack: &mut Stack, id: SocketId) -> Result<bool, Turn> {
    let failed = |error| Turn::Failed(number_of(error));
    let mut left = QUANTUM;
    loop {
        let (a, b) = stack.tcp_peek(id).map_err(failed)?;
        if a.is_empty() {
            // Nothing yet, the end, or why the connection is over.
            if let Some(error) = failure(stack, id).map_err(failed)? {
                return Err(failed(error));
            }
            let at_end = stack.tcp_read(id, &mut []).map_err(failed)?.is_some();
            if at_end && !std::mem::replace(&mut socket.peer_is_told, true) {
                let _ = shutdown(&socket.q, Shutdown::Write);
            }
            return Ok(false);
        }
        if !socket.shown.writable {
            return Ok(false);
        }
        if left == 0 {
            return Ok(true);
        }
        if socket.must_wait() {
            return Ok(false);
        }
        let a = &a[..a.len().min(left)];
        let b = &b[..b.len().min(left - a.len())];
        let offered = a.len() + b.len();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let pieces = [IoSlice::new(a), IoSlice::new(b)];
        match sendmsg(&socket.q, &pieces, &mut SendAncillaryBuffer::default(), flags) {
            Ok(len) => {
                socket.has_piped = true;
                stack.tcp_consume(id, len).map_err(failed)?;
                socket.moved += len as u64;
                left -= len;
            }
            Err(Errno::AGAIN) => socket.shown.writable = false,
            Err(Errno::INTR) => {}
            Err(_) if placeholder::is_left(socket.q.as_fd()) => {
                // Nobody has read this. What he has written meanwhile goes before the reset.
                (socket.shown.error, socket.shown.readable) = (true, true);
                return Ok(true);
            }
            // It has shut down this side: as a kernel's socket would, it is deaf.
            Err(_) => {
                stack.tcp_consume(id, offered).map_err(failed)?;
            }
        }
    }
}

/// A turn of a socket for datagrams.
pub fn datagrams(
    socket: &mut Socket,
    stack: &mut Stack,
    now: Instant,
    policy: &Policy,
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Turn> {
    let State::Datagrams { id, .. } = socket.state else { return Ok(Turn::Waits) };
    let mut way = Leaving { stack: &mut *stack, id, now, policy };
    let mut goes = match leave_datagrams(socket, &mut way, scratch, usize::MAX)? {
        Ok(goes) => goes,
        Err(ends) => return Ok(ends),
    };
    // What finds no room waits in the stack.
    stack.flush_udp(now, id)?;
    goes |= bring(socket, stack, id).map_err(io::Error::from)?;
    Ok(match goes {
        _ if socket.has_finished => Turn::Left,
        true => Turn::Goes,
        false => Turn::Waits,
    })
}

/// How datagrams of a socket leave.
pub struct Leaving<'a> {
    pub stack: &'a mut Stack,
    pub id: SocketId,
    pub now: Instant,
    pub policy: &'a Policy,
}

impl Leaving<'_> {
    /// Gives one to the stack, which is the next that is taken unless it names whom it is for; false: it has no room. What is wrong
    /// with it is the socket's to tell.
    ///
    /// # Errors
    /// The interface's.
    pub fn leave(
        &mut self,
        socket: &mut Socket,
        message: &[u8],
        heading: &Heading,
    ) -> io::Result<bool> {
        let meant = socket.meant(heading);
        self.leave_to(socket, message, meant)
    }

    /// As [`Leaving::leave`], of one of which is known whom it is for.
    fn leave_to(&mut self, socket: &mut Socket, message: &[u8], meant: Meant) -> io::Result<bool> {
        let Leaving { stack, id, now, policy } = self;
        let Heading { address, beside } = meant.heading;
        let is_told = socket.is_told_of(&meant);
        let told = |socket: &mut Socket, sent: Result<bool, Error>| {
            told(socket, sent.map_err(number_of), is_told)
        };
        let Some(address) = address else {
            return Ok(told(socket, Err(Error::NotConnected)));
        };
        let address = match posix::without_zone(address, stack.interface().index()) {
            None => return Ok(told(socket, Err(Error::NoRoute))),
            plain => plain,
        };
        if beside == Ancillary::default() {
            // Those of one length to one peer leave together.
            return Ok(told(socket, stack.udp_stage(*now, *id, message, address)?));
        }
        // What was chosen for it is anybody's, as where nothing is said of where it leaves from.
        let port = if let State::Datagrams { port, .. } = socket.state { port } else { 0 };
        let is_his = |local| {
            let local = SocketAddr::new(local, port);
            policy.place(socket.owner(), local) == Ok(local)
        };
        let own = beside.local.filter(|local| !stack.layer().is_group(*local));
        if !own.is_none_or(is_his) {
            return Ok(self::told(socket, Err(Errno::ACCESS), is_told));
        }
        Ok(told(socket, stack.udp_send_beside(*now, *id, message, address, &beside)?))
    }
}

/// Whether a datagram is gone, one way or the other; what is wrong with it is told or not.
fn told(socket: &mut Socket, sent: Result<bool, Errno>, is_told: bool) -> bool {
    sent.unwrap_or_else(|error| {
        if is_told {
            socket.error = Some(error);
        }
        true
    })
}

/// Datagrams from the placeholder into the stack, of at most so many bytes there and of the one that the interface had no
/// room for, which goes first. True when there may be more at once.
pub fn leave_datagrams(
    socket: &mut Socket,
    way: &mut Leaving<'_>,
    scratch: &mut [u8; DATAGRAM_MAX],
    most: usize,
) -> io::Result<Result<bool, Turn>> {
    let State::Datagrams { pending, .. } = &mut socket.state else { return Ok(Ok(false)) };
    if let Some(waiting) = pending.take()
        && !way.leave_to(socket, &waiting.1, waiting.0)?
    {
        keep(socket, waiting);
        return Ok(Ok(false));
    }
    let mut left = most;
    for _ in 0..DATAGRAMS {
        if !socket.shown.readable || !socket.may_send || left == 0 {
            return Ok(Ok(false));
        }
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (message, whole) = match recv(&socket.q, &mut scratch[..], flags) {
            Ok((_, 0)) => {
                socket.has_finished = true;
                return Ok(Ok(false));
            }
            Ok((len, whole)) => (&scratch[..len], whole),
            Err(Errno::AGAIN) => {
                socket.shown.readable = false;
                // Of rings nothing waits either, or this would not be looked at.
                socket.note_all_taken();
                return Ok(Ok(false));
            }
            Err(Errno::INTR) => continue,
            Err(_) => return Ok(Err(Turn::Left)),
        };
        left = left.saturating_sub(whole);
        let parsed = message.split_first_chunk();
        let parsed = parsed.and_then(|(h, m)| Some((Heading::parse(h).ok()?, m)));
        let is_gone = match parsed {
            Some((heading, _)) if whole > message.len() => {
                let is_told = socket.is_told_of(&socket.meant(&heading));
                told(socket, Err(Errno::MSGSIZE), is_told)
            }
            Some((heading, bytes)) => way.leave(socket, bytes, &heading)?,
            None => {
                // Not from a client of ours.
                socket.error = Some(Errno::DESTADDRREQ);
                true
            }
        };
        if let Some((heading, bytes)) = parsed
            && !is_gone
        {
            keep(socket, Box::new((socket.meant(&heading), bytes.to_vec())));
        }
        socket.note_taken(whole as u64);
        if !is_gone {
            return Ok(Ok(false));
        }
    }
    Ok(Ok(true))
}

/// Keeps a datagram until the interface has room for it.
fn keep(socket: &mut Socket, datagram: Box<(Meant, Vec<u8>)>) {
    if let State::Datagrams { pending, .. } = &mut socket.state {
        *pending = Some(datagram);
    }
}

/// Keeps what failed in the stack until it is told.
pub fn note_error(socket: &mut Socket, stack: &mut Stack, id: SocketId) -> Result<(), Error> {
    if let Some(error) = stack.take_error(id)? {
        socket.error = Some(number_of(error));
    }
    Ok(())
}

/// Datagrams from the stack into the placeholder, and word of an error behind them.
fn bring(socket: &mut Socket, stack: &mut Stack, id: SocketId) -> Result<bool, Error> {
    let interface = stack.interface().index().unwrap_or(0);
    for _ in 0..DATAGRAMS {
        if !socket.shown.writable || socket.must_wait() {
            return Ok(false);
        }
        let Some(messages) = stack.udp_peek(id)? else {
            note_error(socket, stack, id)?;
            if socket.owes_word() {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let sent = send(&socket.q, &Heading::default().emit(), flags);
                socket.has_word = sent.is_ok();
                socket.has_piped |= sent.is_ok();
                socket.shown.writable &= !matches!(sent, Err(Errno::AGAIN | Errno::NOBUFS));
            }
            return Ok(false);
        };
        let beside = socket.options.tells.told(messages.beside(interface));
        let from = posix::with_zone(messages.from, interface);
        let heading = Heading { address: Some(from), beside }.emit();
        let message = messages.iter().next().unwrap_or(&[]);
        let pieces = [IoSlice::new(&heading), IoSlice::new(message)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut none = SendAncillaryBuffer::default();
        match sendmsg(socket.q.as_fd(), &pieces, &mut none, flags) {
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                socket.shown.writable = false;
                return Ok(false);
            }
            // Sent, or for nobody.
            sent => {
                socket.has_piped |= sent.is_ok();
                stack.udp_recv(id, &mut [])?;
            }
        }
    }
    Ok(true)
}
