//! What goes through placeholders with a form of its own: connections to accept, and datagrams. (Bytes of a stream have
//! none: any call on the placeholder sends and receives them.)

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fusewire_stack::ip::Ancillary;
use rustix::cmsg_space;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendFlags, recv, recvmsg, send, sendmsg,
};

use super::leased::PIECES_MAX;
use super::{Client, Result};
use crate::protocol::{
    ABOUT_LEN, ADU_MAX, About, HEADING_LEN, Handle, Heading, OFFER_LEN, Offer, Verdict,
};

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// Its placeholder.
    pub p: OwnedFd,
    /// The right to command it.
    pub handle: Handle,
    /// The other end.
    pub peer: SocketAddr,
    /// This one.
    pub local: SocketAddr,
}

/// Takes a connection from a listener's placeholder, and waits for one unless that does not wait; `with_cloexec`: it closes
/// at `exec`. Several threads and processes may wait at one listener: each connection is one's.
///
/// # Errors
/// `EAGAIN`; `EINTR`; `EMFILE`: there was no number for it, and it is offered again; `ENETDOWN`: the outboard is gone, or
/// nothing is listened to.
pub fn accept(listener: BorrowedFd<'_>, with_cloexec: bool) -> Result<Accepted> {
    let flags = if with_cloexec { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::empty() };
    accept_with(listener, flags)
}

/// The same with flags: `CMSG_CLOEXEC`, and `DONTWAIT` to return `EAGAIN` in place of waiting.
///
/// # Errors
/// As [`accept`].
pub fn accept_with(listener: BorrowedFd<'_>, flags: RecvFlags) -> Result<Accepted> {
    let mut bytes = [0; OFFER_LEN];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(listener, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    if message.bytes == 0 {
        return Err(Errno::NETDOWN);
    }
    let whole = message.bytes == OFFER_LEN;
    let offer = whole.then(|| Offer::parse(&bytes).ok()).flatten().ok_or(Errno::PROTO)?;
    let (verdict, taken) = match fd {
        Some(p) => (Verdict::Taken(offer.handle), Ok(p)),
        None => (Verdict::Lost(offer.handle), Err(Errno::MFILE)),
    };
    // Nobody there to hear it is nobody to offer it again.
    let _ = send(listener, &verdict.emit(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    taken.map(|p| Accepted { p, handle: offer.handle, peer: offer.peer, local: offer.local })
}

/// Sends a datagram to `to`, or to whom the socket is connected. What became of others before, [`Client::told`] says.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EMSGSIZE`; `ECONNRESET` and `EPIPE`: the outboard is gone.
pub fn send_to(
    p: impl AsFd,
    bytes: &[IoSlice<'_>],
    to: impl Into<Heading>,
    flags: SendFlags,
) -> Result<usize> {
    send_behind(p, &to.into().emit(), bytes, flags)
}

/// Sends one message: a head of ours, and these pieces behind it, whose bytes alone are counted.
fn send_behind(
    p: impl AsFd,
    head: &[u8],
    pieces: &[IoSlice<'_>],
    flags: SendFlags,
) -> Result<usize> {
    let mut all = [IoSlice::new(&[]); PIECES_MAX + 1];
    if pieces.len() > PIECES_MAX {
        return Err(Errno::MSGSIZE);
    }
    all[0] = IoSlice::new(head);
    all[1..=pieces.len()].copy_from_slice(pieces);
    let sent = sendmsg(p, &all[..=pieces.len()], &mut SendAncillaryBuffer::default(), flags)?;
    Ok(sent - head.len())
}

/// Sends an ADU of these pieces through the placeholder of a context of XTP: all of it, or nothing.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EMSGSIZE`: longer than [`ADU_MAX`], or of too many pieces, `EINVAL`: it has no byte; `ECONNRESET`
/// and `EPIPE`: it is over, and [`Client::error`](super::Client::error) says why.
pub fn send_message(
    p: impl AsFd,
    pieces: &[IoSlice<'_>],
    about: &About,
    flags: SendFlags,
) -> Result<usize> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    match len {
        0 => return Err(Errno::INVAL),
        1..=ADU_MAX => {}
        _ => return Err(Errno::MSGSIZE),
    }
    send_behind(p, &about.emit(), pieces, flags)
}

/// An ADU that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Bytes of it, which may be more than there was room for where the flags say `TRUNC`; otherwise those that were stored.
    pub len: usize,
    /// What is said of it.
    pub about: About,
    /// There were more.
    pub is_cut: bool,
}

/// Receives an ADU; `None` when the peer sends no more.
///
/// # Errors
/// `EAGAIN`, `EINTR`; `ECONNRESET`: it is over, and [`Client::error`](super::Client::error) says why.
pub fn recv_message(p: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> Result<Option<Came>> {
    let mut about = [0; ABOUT_LEN];
    let mut pieces = [IoSliceMut::new(&mut about), IoSliceMut::new(bytes)];
    let message = recvmsg(p, &mut pieces, &mut RecvAncillaryBuffer::default(), flags)?;
    match message.bytes.checked_sub(ABOUT_LEN) {
        Some(len) => {
            let about = About::parse(&about).map_err(|_| Errno::PROTO)?;
            Ok(Some(Came { len, about, is_cut: message.flags.contains(ReturnFlags::TRUNC) }))
        }
        None if message.bytes == 0 => Ok(None),
        None => Err(Errno::PROTO),
    }
}

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// How long it was, which may be more than there was room for.
    pub len: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// What goes beside it, of what the socket's options ask for.
    pub beside: Ancillary,
    /// There was more than room for it.
    pub is_cut: bool,
}

/// What a socket for datagrams is found to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A datagram.
    Datagram(Datagram),
    /// Word of an error, which is taken out: the outboard knows which.
    Word,
}

/// Takes what comes first in a placeholder; `None`: the socket was shut down, or the outboard is gone.
pub(super) fn take(
    p: impl AsFd,
    pieces: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> Result<Option<Found>> {
    let peeks = flags.contains(RecvFlags::PEEK);
    loop {
        let none = &mut RecvAncillaryBuffer::default();
        let bytes = recvmsg(&p, pieces, none, flags | RecvFlags::TRUNC)?.bytes;
        match bytes.checked_sub(HEADING_LEN) {
            Some(len) => {
                let heading = pieces.first().and_then(|heading| heading.first_chunk());
                let heading = heading.and_then(|heading| Heading::parse(heading).ok());
                let room: usize = pieces.iter().skip(1).map(|piece| piece.len()).sum();
                return match heading.ok_or(Errno::PROTO)? {
                    Heading { address: Some(from), beside } => {
                        Ok(Some(Found::Datagram(Datagram {
                            len,
                            from,
                            beside,
                            is_cut: len > room,
                        })))
                    }
                    _ if len > 0 => Err(Errno::PROTO),
                    _ if peeks && !takes_word(&p) => continue,
                    _ => Ok(Some(Found::Word)),
                };
            }
            None if bytes == 0 => return Ok(None),
            // A doorbell of a lease that is over.
            None if peeks => {
                let _ = recv(&p, &mut [0], RecvFlags::DONTWAIT);
            }
            None => {}
        }
    }
}

/// Word of an error comes first in a placeholder, which [`Client::recv_from`] takes out.
pub fn has_word(p: impl AsFd) -> bool {
    let mut heading = [0; HEADING_LEN];
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let found = recv(p, &mut heading, flags).map(|(_, len)| len);
    found == Ok(HEADING_LEN) && heading == [0; HEADING_LEN]
}

/// What was taken out of a placeholder by who has seen that word of an error comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Removed {
    Nothing,
    /// That.
    Word,
    /// Somebody else had taken it out, and this was what came behind it, of so many bytes: it is lost, as a datagram may be.
    Other(usize),
}

/// Takes word of an error out, if that comes first.
pub(super) fn remove_word(p: impl AsFd) -> Removed {
    if !has_word(&p) {
        return Removed::Nothing;
    }
    let mut heading = [0; HEADING_LEN];
    match recv(p, &mut heading, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Ok((_, HEADING_LEN)) if heading == [0; HEADING_LEN] => Removed::Word,
        Ok((_, len)) => Removed::Other(len),
        Err(_) => Removed::Nothing,
    }
}

pub(super) fn takes_word(p: impl AsFd) -> bool {
    remove_word(p) == Removed::Word
}

/// How long the next datagram is that a placeholder has; 0 where there is none.
///
/// # Errors
/// As `recv(2)`.
pub fn next_len(p: impl AsFd) -> Result<usize> {
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    match recv(p, &mut [0; HEADING_LEN], flags) {
        Ok((_, len)) => Ok(len.saturating_sub(HEADING_LEN)),
        Err(Errno::AGAIN) => Ok(0),
        Err(error) => Err(error),
    }
}

impl Client {
    /// Receives a datagram by the placeholder into `pieces`, of which the first is room for its heading ([`HEADING_LEN`]); `None`:
    /// the socket was shut down, or the outboard is gone.
    ///
    /// # Errors
    /// As `recvmsg(2)`; of a connected socket what became of a datagram that it has sent: `ECONNREFUSED`, `EHOSTUNREACH`, …
    pub fn recv_from(
        &self,
        (p, handle): (BorrowedFd<'_>, Handle),
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<Option<Datagram>> {
        loop {
            match take(p, pieces, flags)? {
                None => return Ok(None),
                Some(Found::Datagram(datagram)) => return Ok(Some(datagram)),
                Some(Found::Word) => self.failure(handle)?.map_or(Ok(()), Err)?,
            }
        }
    }

    /// What became of a datagram that a connected socket has sent before: what is to leave, to whomever, leaves when that was
    /// told.
    ///
    /// # Errors
    /// That: `ECONNREFUSED`, `EHOSTUNREACH`, …
    pub fn told(&self, (p, handle): (BorrowedFd<'_>, Handle)) -> Result<()> {
        match takes_word(p) {
            true => self.failure(handle)?.map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    /// The error of a socket for datagrams that was not told yet (`SO_ERROR`), which waits no longer where they come, unless some
    /// came before it.
    ///
    /// # Errors
    /// As [`Client::error`].
    pub fn take_error(&self, (p, handle): (BorrowedFd<'_>, Handle)) -> Result<Option<Errno>> {
        if takes_word(p) { self.failure(handle) } else { self.error(handle) }
    }
}
