//! Calls on UDP sockets: messages, one or many a call.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use fusewire_stack::ip::{Ancillary, Interest, Received, SocketId, Stack, posix};

use super::{Flags, Inner, Kind, Socket, State, Wait};
use crate::address::Named;
use crate::errno::{Errno, Result};

/// A message to send.
pub struct Outgoing<'a> {
    pub to: Option<SocketAddr>,
    pub beside: Ancillary,
    pub bytes: Cow<'a, [u8]>,
}

/// Where a message is to go.
pub enum Place<'a> {
    One(&'a mut [u8]),
    Several(Vec<&'a mut [u8]>),
}

impl Place<'_> {
    /// Bytes that it holds.
    pub fn len(&self) -> usize {
        match self {
            Place::One(memory) => memory.len(),
            Place::Several(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
        }
    }

    /// Runs `read` with memory in one piece, which is then spread over the pieces; `read` says how many
    /// bytes are there.
    pub fn fill<T>(&mut self, read: impl FnOnce(&mut [u8]) -> (usize, T)) -> T {
        match self {
            Place::One(memory) => read(memory).1,
            Place::Several(_) => {
                // No message is longer.
                let mut whole = vec![0; self.len().min(1 << 17)];
                let (filled, result) = read(&mut whole);
                self.spread(&whole[..filled.min(whole.len())]);
                result
            }
        }
    }

    fn spread(&mut self, mut bytes: &[u8]) {
        let Place::Several(pieces) = self else { return };
        for piece in pieces {
            let (now, rest) = bytes.split_at(piece.len().min(bytes.len()));
            piece[..now.len()].copy_from_slice(now);
            bytes = rest;
        }
    }
}

/// A message that is to come, and what became of it.
pub struct Incoming<'a> {
    pub place: Place<'a>,
    pub got: Option<Got>,
}

/// A message that came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Got {
    /// Who sent it, where that is not known by the socket.
    pub from: Option<SocketAddr>,
    /// How long it was.
    pub len: usize,
    /// What the socket's options let be told beside it.
    pub beside: Ancillary,
}

/// The beginning of a datagram whose end is still to come (`MSG_MORE`).
pub struct Begun {
    to: Option<SocketAddr>,
    beside: Ancillary,
    bytes: Vec<u8>,
}

/// No datagram has more bytes, over IPv6 nor IPv4 (RFC 768).
const DATAGRAM_MAX: usize = 65_535 - 8;

/// Bytes that leave in one call at most.
const RUN_BYTES: usize = 60 << 10;

impl Socket {
    pub(super) fn connect_datagram(&self, named: Named) -> Result<()> {
        let id = self.datagram()?;
        let peer = match named {
            Named::Nobody => None,
            Named::Somebody(peer) => Some(peer),
        };
        let mut inner = self.lock();
        if let Some(peer) = peer {
            self.may_send_to(&inner, peer)?;
        }
        self.with_stack(|stack, now| {
            if let Some(peer) = peer {
                stack.source_for(now, peer.ip())?;
            }
            stack.udp_connect(id, peer)
        })?;
        inner.peer = peer;
        Ok(())
    }

    /// Checks that the socket's options allow to send there.
    fn may_send_to(&self, inner: &Inner, to: SocketAddr) -> Result<()> {
        let set = &inner.options.set;
        self.opened.host().with(|stack, _| set.may_send_to(stack, to.ip()))?.map_err(Errno)
    }

    pub(super) fn bind_datagram(
        &self,
        local: SocketAddr,
        set: &posix::Options,
    ) -> Result<SocketId> {
        self.with_stack(|stack, _| {
            let id = stack.udp_bind_sharing(local, set.sharing(false, 0))?;
            set.make_room(stack, id)?;
            stack.set_marking(id, set.marking).map(|()| id)
        })
    }

    /// Its name in the stack; one that is not bound is bound to any port.
    pub(super) fn datagram(&self) -> Result<SocketId> {
        if self.kind != Kind::Datagram {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut inner = self.lock();
        if let State::Datagram(id) = inner.state {
            return Ok(id);
        }
        self.alive()?;
        let local = self.family.unspecified();
        let id = self.bind_datagram(local, &inner.options.set)?;
        inner.state = State::Datagram(id);
        self.stir();
        Ok(id)
    }

    /// Sends messages in order; returns how many. Runs of one length to one peer leave together. The error
    /// of a later one waits for the next call.
    pub fn send_messages(&self, messages: &[Outgoing<'_>], flags: Flags) -> Result<usize> {
        let id = self.datagram()?;
        let timeout = {
            let mut inner = self.lock();
            if self.shut_write.load(Ordering::Acquire) {
                return Err(Errno(libc::EPIPE));
            }
            if let Some(error) = inner.error.take() {
                return Err(error);
            }
            if inner.peer.is_none() && messages.iter().any(|message| message.to.is_none()) {
                return Err(Errno(libc::EDESTADDRREQ));
            }
            if !inner.options.set.broadcast {
                for to in messages.iter().filter_map(|message| message.to) {
                    self.may_send_to(&inner, to)?;
                }
            }
            if flags.more || inner.begun.is_some() {
                drop(inner);
                return self.send_pieces(messages, flags);
            }
            inner.options.send_wait(flags)
        };
        let mut sent = 0;
        let mut staging = Vec::new();
        while sent < messages.len() {
            let run = run(&messages[sent..]);
            let of_run = &messages[sent..sent + run];
            let bytes = if run == 1 {
                &of_run[0].bytes[..]
            } else {
                staging.clear();
                of_run.iter().for_each(|message| staging.extend_from_slice(&message.bytes));
                &staging[..]
            };
            let Outgoing { to, beside, .. } = of_run[0];
            let to = match to {
                Some(to @ SocketAddr::V6(_)) => match self.plain(to)? {
                    None if sent == 0 => return Err(Errno(libc::ENETUNREACH)),
                    None => return Ok(sent),
                    plain => plain,
                },
                to => to,
            };
            let len = of_run[0].bytes.len();
            let wait = Wait { id, interest: Interest::Write, timeout };
            let mut at = 0;
            let result = self.wait(&wait, |stack, now| {
                let rest = &bytes[(at * len).min(bytes.len())..];
                at += match beside == Ancillary::default() {
                    true => stack.udp_send_batch(now, id, rest, len, to)??,
                    false => {
                        if let Some(error) = stack.take_error(id)? {
                            return Err(error.into());
                        }
                        usize::from(stack.udp_send_beside(now, id, rest, to, &beside)??)
                    }
                };
                Ok((at >= run).then_some(()))
            });
            sent += at.min(run);
            match result {
                Ok(()) => {}
                Err(error) if sent == 0 => return Err(error),
                Err(Errno(libc::EAGAIN)) => return Ok(sent),
                Err(error) => {
                    self.lock().error = Some(error);
                    return Ok(sent);
                }
            }
        }
        Ok(sent)
    }

    /// Takes pieces of one datagram, which leaves with the first that is not followed by more. The first says
    /// whom it goes to.
    fn send_pieces(&self, pieces: &[Outgoing<'_>], flags: Flags) -> Result<usize> {
        for piece in pieces {
            let mut inner = self.lock();
            let Outgoing { to, beside, .. } = *piece;
            let begun = inner.begun.get_or_insert(Begun { to, beside, bytes: Vec::new() });
            if begun.bytes.len() + piece.bytes.len() > DATAGRAM_MAX {
                inner.begun = None;
                return Err(Errno(libc::EMSGSIZE));
            }
            begun.bytes.extend_from_slice(&piece.bytes);
            if flags.more {
                continue;
            }
            let whole = inner.begun.take();
            drop(inner);
            if let Some(Begun { to, beside, bytes }) = whole {
                self.send_messages(&[Outgoing { to, beside, bytes: bytes.into() }], flags)?;
            }
        }
        Ok(pieces.len())
    }

    /// Receives messages; returns how many. Waits for all of them, or for the first alone
    /// (`MSG_WAITFORONE`).
    pub fn recv_messages(
        &self,
        messages: &mut [Incoming<'_>],
        flags: Flags,
        most: Option<std::time::Duration>,
    ) -> Result<usize> {
        let id = self.datagram()?;
        let (timeout, tells) = {
            let mut inner = self.lock();
            if let Some(error) = inner.error.take() {
                return Err(error);
            }
            let tells = inner.options.set.tells;
            let timeout = [inner.options.recv_wait(flags), most].into_iter().flatten().min();
            (timeout, tells)
        };
        if messages.is_empty() {
            return Ok(0);
        }
        let mut done = 0;
        let wait = Wait { id, interest: Interest::Read, timeout };
        let result = self.wait(&wait, |stack, _| {
            while done < messages.len()
                && receive(stack, id, &mut messages[done], tells, flags.peek)?
            {
                done += 1;
                if flags.peek {
                    return Ok(Some(()));
                }
            }
            let enough = done == messages.len() || (flags.for_one && done > 0);
            Ok((enough || self.shut_read.load(Ordering::Acquire)).then_some(()))
        });
        match result {
            Ok(()) => Ok(done),
            Err(error) if done == 0 => Err(error),
            Err(Errno(libc::EAGAIN)) => Ok(done),
            Err(error) => {
                self.lock().error = Some(error);
                Ok(done)
            }
        }
    }
}

/// How many of the first messages go to one peer, all as long as the first but the last, which may be
/// shorter.
fn run(messages: &[Outgoing<'_>]) -> usize {
    let Some(first) = messages.first() else { return 0 };
    let (len, to) = (first.bytes.len(), first.to);
    let is_plain = |message: &Outgoing<'_>| message.beside == Ancillary::default();
    if len == 0 || !is_plain(first) {
        return 1;
    }
    let mut run = 1;
    for message in &messages[1..] {
        let now = message.bytes.len();
        if message.to != to
            || !is_plain(message)
            || now > len
            || now == 0
            || (run + 1) * len > RUN_BYTES
        {
            break;
        }
        run += 1;
        if now < len {
            break;
        }
    }
    run
}

/// Takes one message, if there is one.
fn receive(
    stack: &mut Stack,
    id: SocketId,
    incoming: &mut Incoming<'_>,
    tells: posix::Telling,
    peek: bool,
) -> io::Result<bool> {
    let interface = stack.interface().index().unwrap_or(0);
    let got = incoming.place.fill(|out| {
        let got = if peek { look(stack, id, out) } else { stack.udp_recv(id, out) };
        let filled = got.ok().flatten().map_or(0, |received| received.len);
        (filled, got)
    })?;
    incoming.got = got.map(|received| Got {
        from: Some(posix::with_zone(received.from, interface)),
        len: received.len,
        beside: tells.told(received.beside(interface)),
    });
    Ok(got.is_some())
}

/// Copies the next message and leaves it there.
fn look(
    stack: &mut Stack,
    id: SocketId,
    out: &mut [u8],
) -> fusewire_stack::ip::Result<Option<Received>> {
    let Some(messages) = stack.udp_peek(id)? else {
        // An error, if there is one; nothing to take.
        return stack.udp_recv(id, &mut []);
    };
    let message = messages.iter().next().unwrap_or(&[]);
    let len = message.len().min(out.len());
    out[..len].copy_from_slice(&message[..len]);
    Ok(Some(messages.received(message.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_one_length_and_one_peer() {
        let peers: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 1).into()];
        let of = |what: &[(usize, usize)]| {
            let messages: Vec<_> = what
                .iter()
                .map(|(len, peer)| Outgoing {
                    to: Some(peers[*peer]),
                    beside: Ancillary::default(),
                    bytes: vec![0; *len].into(),
                })
                .collect();
            run(&messages)
        };
        assert_eq!(of(&[(8, 0), (8, 0), (8, 0)]), 3);
        assert_eq!(of(&[(8, 0), (8, 1)]), 1);
        assert_eq!(of(&[(8, 0), (5, 0), (5, 0)]), 2);
        assert_eq!(of(&[(8, 0), (9, 0)]), 1);
        assert_eq!(of(&[(8, 0), (0, 0)]), 1);
        assert_eq!(of(&[(0, 0), (0, 0)]), 1);
        assert_eq!(of(&[(30 << 10, 0), (30 << 10, 0), (30 << 10, 0)]), 2);
        assert_eq!(of(&[]), 0);
    }

    #[test]
    fn pieces_are_filled_in_order() {
        let (mut a, mut b) = ([0; 3], [0; 4]);
        let mut place = Place::Several(vec![&mut a, &mut b]);
        assert_eq!(place.len(), 7);
        let told = place.fill(|whole| {
            whole[..5].copy_from_slice(b"hello");
            (5, "told")
        });
        assert_eq!((told, &a, &b), ("told", b"hel", b"lo\0\0"));
    }
}
