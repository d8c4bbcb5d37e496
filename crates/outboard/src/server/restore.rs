//! Sockets of an outboard that is gone, made anew for the processes that have their placeholders.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::Stack;
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;

use super::engine::Engine;
use super::journal::Record;
use super::requests::{Answer, Asker};
use super::table::{Listens, Owner, Socket, State};
use crate::placeholder;
use crate::protocol::{Handle, Kind, Request};

/// For how long the new placeholder is kept, so that each process that had the one before gets it. Meanwhile its last close is
/// not seen.
const KEPT: Duration = Duration::from_secs(3);
/// How often is looked at whether that is over.
pub const LOOKS: Duration = Duration::from_millis(500);

/// A socket that was made anew a moment ago.
pub struct Restored {
    socket: u64,
    p: OwnedFd,
    since: Instant,
}

impl Engine {
    /// Makes anew what the placeholder `old` was at an outboard before, or returns what was made anew for another process.
    ///
    /// # Errors
    /// `ENOTSOCK`: nothing is recorded of it, or another process has its successor for so long that it cannot be shared; as to make,
    /// bind and set a socket.
    pub(super) fn restore(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        old: Option<BorrowedFd<'_>>,
        asker: &Asker<'_>,
    ) -> Result<Answer, Errno> {
        let old = old.ok_or(Errno::INVAL)?;
        let cookie = socket_cookie(old)?;
        if let Some(index) = self.table.journal.restored(cookie) {
            return self.share(index);
        }
        let record = self.table.journal.left(cookie).ok_or(Errno::NOTSOCK)?;
        self.accounts.admit_socket(record.payer, record.of.kind)?;
        let owner = Owner { uid: record.uid, pid: asker.owner.pid, payer: record.payer };
        let (handle, p) = self.open(record.of, owner, State::Fresh, now)?;
        let kept = p.try_clone().map_err(|_| Errno::MFILE)?;
        // On an error both ends of the descriptor go, and the socket with them.
        self.set_as(stack, now, (handle, p.as_fd()), &record, (owner, asker.guest))?;
        let index = self.table.index_of(handle.socket).ok_or(Errno::NOTSOCK)?;
        self.table.journal.revive(cookie, index, socket_cookie(&p)?);
        self.restored.push(Restored { socket: handle.socket, p: kept, since: now });
        Ok(Answer::Opened(handle, record.of, Some(p)))
    }

    /// Sets and binds a new socket as it is recorded, with the rights of the user who did it then.
    fn set_as(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (handle, p): (Handle, BorrowedFd<'_>),
        record: &Record,
        (owner, guest): (Owner, u32),
    ) -> Result<(), Errno> {
        let asker = |fd| Asker { guest, owner, fd };
        for (name, value) in &record.options {
            // One that this outboard does not take is as it was set by none.
            let set = Request::SetOption(handle, *name, value);
            let _ = self.answer(stack, now, &set, asker(None));
        }
        if let Some(local) = record.local {
            self.carry_out(stack, now, &Request::Bind(handle, local), asker(None))?;
        }
        if record.backlog > 0 {
            let listen = Request::Listen(handle, record.backlog);
            self.carry_out(stack, now, &listen, asker(None))?;
        }
        if record.peer.is_some() {
            let connect = Request::Connect(handle, record.peer);
            self.carry_out(stack, now, &connect, asker(Some(p)))?;
        }
        Ok(())
    }

    /// Gives a socket that was made anew to another process that had the placeholder before.
    fn share(&mut self, index: u32) -> Result<Answer, Errno> {
        let number = self.table.number_at(index).ok_or(Errno::NOTSOCK)?;
        let kept = self.restored.iter().find(|one| one.socket == number).ok_or(Errno::NOTSOCK)?;
        let p = kept.p.try_clone().map_err(|_| Errno::MFILE)?;
        self.attach(Some(p.as_fd())).map(|answer| match answer {
            Answer::Opened(handle, of, _) => Answer::Opened(handle, of, Some(p)),
            other => other,
        })
    }

    /// Some placeholders of sockets that were made anew are kept.
    pub fn keeps_restored(&self) -> bool {
        !self.restored.is_empty()
    }

    /// Closes the placeholders that were kept for long enough, or those of a port that is wanted: what only the outboard has open is
    /// seen to be closed then.
    pub fn let_restored_go(&mut self, now: Instant, wanted: Option<u16>) {
        let Engine { restored, table, .. } = self;
        restored.retain(|one| {
            let socket = table.index_of(one.socket).and_then(|index| table.at(index));
            let has_port = |port| {
                let local = socket.as_ref().and_then(|socket| socket.bound);
                local.is_none_or(|local| local.port() == port)
            };
            now.saturating_since(one.since) < KEPT && !wanted.is_some_and(has_port)
        });
    }

    /// Records the socket that a handle commands, if the next outboard can make it anew.
    pub(super) fn note(&mut self, stack: &mut Stack, request: &Request<'_>) {
        let (handle, option) = match request {
            Request::SetOption(handle, name, value) => (handle, Some((*name, *value))),
            Request::Bind(handle, _) | Request::Listen(handle, _) | Request::Connect(handle, _) => {
                (handle, None)
            }
            _ => return,
        };
        let Some(index) = self.table.commanded(handle) else { return };
        if let Some((name, value)) = option {
            self.table.journal.note_option(index, name, value);
        }
        let record = self.table.at(index).and_then(|socket| record_of(stack, socket));
        if let Some(record) = record {
            self.table.journal.note(index, record);
        }
    }
}

/// Record of a TCP listener or of a bound datagram socket.
pub(super) fn record_of(stack: &mut Stack, socket: &Socket) -> Option<Record> {
    let mut record = Record::new(socket.of, (socket.uid, socket.payer), socket.cookie);
    match &socket.state {
        State::Listening { to: Listens::Tcp(id), .. } => {
            record.backlog = u32::try_from(socket.backlog).unwrap_or(u32::MAX).max(1);
            record.local = stack.local_addr(*id).ok();
        }
        State::Datagrams { id, peer, .. } if socket.of.kind == Kind::Datagram => {
            record.local = stack.local_addr(*id).ok();
            record.peer = *peer;
        }
        _ => return None,
    }
    Some(record)
}

/// Wakes the processes that wait for an outboard.
pub fn wake() {
    if let Err(error) = placeholder::wake_waiting() {
        tracing::warn!(%error, "processes that wait for an outboard are not woken");
    }
}
