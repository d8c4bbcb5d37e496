//! Connections of listeners: offered to whoever accepts, counted until somebody says that he has them, and offered again where they
//! were lost.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fusewire_base::Instant;
use fusewire_stack::ip::Stack;
use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use super::Engine;
use crate::placeholder::{self, Pair};
use crate::protocol::{OFFER_LEN, Offer, VERDICT_LEN, Verdict};
use crate::server::pipe::Turn;
use crate::server::requests::zoned;
use crate::server::table::{Listens, Partial, Shown, Socket, State};

/// Connections of a listener that were offered and that nobody has said to have: their descriptors are counted as ours.
const OFFERS: usize = 16;
/// How soon a connection is offered again that the kernel had no room for, or no descriptor.
pub const AGAIN: std::time::Duration = std::time::Duration::from_millis(10);
/// How long an application that had no number for a connection may take to say so.
const LOST: std::time::Duration = std::time::Duration::from_secs(1);

impl Engine {
    /// An offer of a listener's is none any more.
    pub(super) fn settled(&mut self, listener: u64) {
        let Some(index) = self.table.index_of(listener) else { return };
        if let Some(Socket { state: State::Listening { offers, .. }, .. }) = self.table.at(index) {
            *offers = offers.saturating_sub(1);
            self.table.mark(index);
        }
    }

    /// What is due now and then: sockets whose application has taken too long to say what became of an offer.
    pub fn upkeep(&mut self, stack: &mut Stack, now: Instant) {
        for index in std::mem::take(&mut self.lost) {
            match self.table.at(index).and_then(|socket| socket.lost_at) {
                Some(at) if now.saturating_since(at) >= LOST => {
                    if let Some(socket) = self.table.remove(index) {
                        self.end(*socket, stack, now, false);
                    }
                }
                Some(_) => self.lost.push(index),
                None => {}
            }
        }
    }

    /// Listeners try again to offer what they could not, now and then.
    pub fn offer_again(&mut self, now: Instant) {
        if self.offered_at.is_none_or(|at| now.saturating_since(at) >= AGAIN) {
            self.offered_at = Some(now);
            std::mem::take(&mut self.unoffered)
                .into_iter()
                .for_each(|index| self.table.mark(index));
        }
    }

    /// A listener's turn: what became of its offers, and new ones.
    pub(super) fn listening(
        &mut self,
        index: u32,
        socket: &mut Socket,
        stack: &mut Stack,
        now: Instant,
    ) -> Turn {
        if socket.shown.readable {
            // Of one turn's offers there are no more: who says more waits for his next turn.
            let mut bytes = [0; OFFERS * VERDICT_LEN];
            match recv(&socket.q, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Turn::Left,
                Ok((len, _)) => {
                    if self.verdicts(socket, stack, now, &bytes[..len]).is_err() {
                        return Turn::Failed(Errno::PROTO);
                    }
                }
                Err(Errno::AGAIN) => socket.shown.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => return Turn::Left,
            }
        }
        let owner = socket.owner();
        let State::Listening { to, offers, held, is_refused, .. } = &mut socket.state else {
            return Turn::Waits;
        };
        // Each failure is an event by itself, by which one would try without end.
        while !self.unoffered.contains(&index) {
            match held.take() {
                None => {}
                Some(one) => match offer(&socket.q, &one.0, one.1.as_fd()) {
                    Ok(()) => {}
                    // The kernel has no room for now, as there may be no descriptor below.
                    Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => {
                        *held = Some(one);
                        self.unoffered.insert(index);
                        break;
                    }
                    Err(_) => return Turn::Failed(Errno::PROTO),
                },
            }
            if *offers >= OFFERS || !self.is_called(stack, to) {
                break;
            }
            let opened = match self.accounts.admit_waiting(owner.payer, socket.of.kind, is_refused)
            {
                true => self.open(socket.of, owner, State::Fresh, now).ok(),
                false => None,
            };
            let Some((handle, p)) = opened else {
                // When its user has less, or the kernel more, nobody says so.
                self.unoffered.insert(index);
                break;
            };
            let index = self.table.index_of_taken(handle.socket);
            let Some((accepted, peer, local)) = self.accept(stack, to) else {
                let other = self.table.remove(index);
                other.into_iter().for_each(|other| self.end(*other, stack, now, true));
                break;
            };
            if let Some(other) = self.table.at(index) {
                if let State::Context(used) = &accepted {
                    self.xtp.give(used, index);
                }
                other.state = accepted;
                other.offered_by = Some(socket.handle.socket);
                other.options = socket.options.clone();
                other.block = socket.block.clone();
                self.table.reindex(index);
            }
            *offers += 1;
            let (peer, local) = (zoned(stack, peer), zoned(stack, local));
            *held = Some(Box::new((Offer { handle, peer, local }, p)));
        }
        if socket.shown.readable { Turn::Goes } else { Turn::Waits }
    }

    /// A connection waits to be accepted.
    fn is_called(&self, stack: &mut Stack, listens: &Listens) -> bool {
        match listens {
            Listens::Tcp(id) => stack.tcp_waiting(*id).is_ok_and(|waiting| waiting > 0),
            Listens::Service(service) => self.xtp.is_called(service),
        }
    }

    /// The next one: what it is, its peer, and its own address.
    fn accept(
        &mut self,
        stack: &mut Stack,
        listens: &Listens,
    ) -> Option<(State, SocketAddr, SocketAddr)> {
        match listens {
            Listens::Tcp(id) => {
                let (accepted, peer) = stack.tcp_accept(*id).ok()??;
                let local = stack.local_addr(accepted).unwrap_or(peer);
                Some((State::Stream(accepted), peer, local))
            }
            Listens::Service(service) => {
                let used = self.xtp.accept(service)?;
                Some((State::Context(used), used.peer, used.local))
            }
        }
    }

    /// What became of offers, each in 32 bytes of a stream.
    fn verdicts(
        &mut self,
        socket: &mut Socket,
        stack: &mut Stack,
        now: Instant,
        mut bytes: &[u8],
    ) -> Result<(), ()> {
        loop {
            let State::Listening { verdict, .. } = &mut socket.state else { return Err(()) };
            let len = bytes.len().min(VERDICT_LEN - verdict.len);
            verdict.bytes[verdict.len..verdict.len + len].copy_from_slice(&bytes[..len]);
            (verdict.len, bytes) = (verdict.len + len, &bytes[len..]);
            if verdict.len < VERDICT_LEN {
                return Ok(());
            }
            let Partial { bytes: whole, .. } = std::mem::take(verdict);
            let verdict = Verdict::parse(&whole).map_err(|_| ())?;
            let (Verdict::Taken(handle) | Verdict::Lost(handle)) = verdict;
            let Some(index) = self.table.commanded(&handle) else { continue };
            let Some(mut other) = self.table.take(index) else { continue };
            if other.offered_by != Some(socket.handle.socket) {
                self.table.put(index, other);
                continue;
            }
            let again =
                matches!(verdict, Verdict::Lost(_)) && { self.again(socket, &mut other, stack) };
            if !again {
                // Taken, and perhaps closed already; or it cannot be offered any more.
                (other.offered_by, other.lost_at) = (None, None);
                if let State::Listening { offers, .. } = &mut socket.state {
                    *offers = offers.saturating_sub(1);
                }
            }
            let is_lost = matches!(verdict, Verdict::Lost(_)) && !again;
            self.table.put(index, other);
            self.table.reindex(index);
            self.table.mark(index);
            if again {
                let _ = self.watch(index);
            } else if is_lost && let Some(other) = self.table.remove(index) {
                self.end(*other, stack, now, true);
            }
        }
    }

    /// Offers a connection by a new placeholder.
    fn again(&mut self, listener: &Socket, other: &mut Socket, stack: &mut Stack) -> bool {
        let (peer, local) = match other.state {
            State::Stream(id) => match stack.tcp_tuple(id) {
                Ok(tuple) => (tuple.remote, tuple.local),
                Err(_) => return false,
            },
            State::Context(used) => (used.peer, used.local),
            _ => return false,
        };
        let Ok(Pair { p, q, cookie }) = placeholder::pair(other.of.kind) else { return false };
        self.table.forget_cookie(other.cookie);
        // With the old one its name is gone.
        (other.q, other.cookie, other.lost_at) = (q, cookie, None);
        placeholder::name_it(&other.q, self.instance);
        other.shown = Shown { writable: true, ..Default::default() };
        (other.has_finished, other.peer_is_told) = (false, false);
        let (peer, local) = (zoned(stack, peer), zoned(stack, local));
        let offered = Offer { handle: other.handle, peer, local };
        offer(&listener.q, &offered, p.as_fd()).is_ok()
    }
}

/// Hands a connection to whoever accepts at a listener's placeholder.
fn offer(listener: &OwnedFd, offer: &Offer, p: BorrowedFd<'_>) -> Result<(), Errno> {
    let bytes: [u8; OFFER_LEN] = offer.emit();
    let fds = [p];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(listener, &[IoSlice::new(&bytes)], &mut control, flags).map(|_| ())
}
