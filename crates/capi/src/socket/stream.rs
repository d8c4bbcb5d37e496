//! Calls on connections.
#![forbid(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::{Error, Interest, SendFlags, SocketId, Stack, State as TcpState};

use super::{Flags, Socket, State, Wait};
use crate::errno::{Errno, Result};

/// How far a handshake is: `None` while it goes on.
fn handshake(stack: &mut Stack, id: SocketId) -> io::Result<Option<()>> {
    match stack.tcp_state(id)? {
        TcpState::SynSent | TcpState::SynReceived => Ok(None),
        TcpState::Closed => {
            let error = stack.take_error(id)?;
            Err(error.unwrap_or(Error::Aborted).into())
        }
        _ => Ok(Some(())),
    }
}

impl Socket {
    /// Connects, and waits for it unless the socket does not block.
    pub(super) fn connect_stream(&self, remote: SocketAddr) -> Result<()> {
        let (id, timeout) = {
            let mut inner = self.lock();
            match inner.state {
                State::Fresh => {}
                State::Listening(_) | State::Datagram(_) => return Err(Errno(libc::EISCONN)),
                State::Stream { id, is_told } => {
                    let how = self.opened.host().with(|stack, _| handshake(stack, id))?;
                    return match how {
                        Ok(None) => Err(Errno(libc::EALREADY)),
                        Ok(Some(())) if is_told => Err(Errno(libc::EISCONN)),
                        Ok(Some(())) => {
                            inner.state = State::Stream { id, is_told: true };
                            Ok(())
                        }
                        Err(error) => {
                            drop(inner);
                            self.forget(id);
                            // One that was told is no news: this is another attempt.
                            match self.first_told() {
                                true => Err(error.into()),
                                false => self.connect_stream(remote),
                            }
                        }
                    };
                }
            }
            let (local, config) = (inner.bound, self.config(&inner.options)?);
            let set = inner.options.set.clone();
            let id = self.with_stack(|stack, now| {
                let id = stack.tcp_connect_with(now, remote, local, &config)?;
                set.tune(stack, now, id)?;
                stack.set_marking(id, set.marking).map(|()| id)
            })?;
            inner.state = State::Stream { id, is_told: false };
            self.stir();
            inner.error = None;
            self.error_told.store(false, Ordering::Release);
            (id, inner.options.send_wait(Flags::default()))
        };
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            // An answer that is quicker than this call is told like any other.
            return Err(Errno(libc::EINPROGRESS));
        }
        let wait = Wait { id, interest: Interest::Write, timeout };
        match self.wait(&wait, |stack, _| handshake(stack, id)) {
            Ok(()) => {
                self.lock().state = State::Stream { id, is_told: true };
                Ok(())
            }
            Err(Errno(libc::EAGAIN)) => Err(Errno(libc::EINPROGRESS)),
            Err(error) => {
                self.forget(id);
                Err(error)
            }
        }
    }

    /// A handshake has failed: the socket may try again.
    fn forget(&self, id: SocketId) {
        let mut inner = self.lock();
        if matches!(inner.state, State::Stream { id: known, .. } if known == id) {
            inner.state = State::Fresh;
            // A stack whose interface is gone has nobody to tell.
            let _ = self.with_stack(|stack, now| stack.close(now, id));
        }
    }

    /// The handshake is over and the connection is not.
    pub(super) fn connected_now(&self, id: SocketId) -> Result<()> {
        match self.with_stack(|stack, _| stack.tcp_state(id))? {
            TcpState::SynSent | TcpState::SynReceived | TcpState::Closed => {
                Err(Errno(libc::ENOTCONN))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn stream(&self) -> Result<SocketId> {
        match self.lock().state {
            State::Stream { id, .. } => Ok(id),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// What ended the connection is told once.
    fn first_told(&self) -> bool {
        !self.error_told.swap(true, Ordering::AcqRel)
    }

    /// Sends all of it, or what there is room for if the socket does not block.
    pub fn send_stream(&self, bytes: &[u8], flags: Flags) -> Result<usize> {
        let id = self.stream()?;
        if self.shut_write.load(Ordering::Acquire) {
            return Err(Errno(libc::EPIPE));
        }
        let timeout = self.lock().options.send_wait(flags);
        let how = SendFlags { more: flags.more, end_of_record: flags.end_of_record };
        let mut done = 0;
        let wait = Wait { id, interest: Interest::Write, timeout };
        let result = self.wait(&wait, |stack, _| {
            done += stack.tcp_send(id, &bytes[done..], how)?;
            Ok((done == bytes.len()).then_some(()))
        });
        match result {
            Ok(()) => Ok(done),
            Err(_) if done > 0 => Ok(done),
            Err(Errno(libc::EAGAIN | libc::EBADF | libc::ENETDOWN | libc::EPIPE)) => {
                result.map(|()| done)
            }
            Err(error) if self.first_told() => Err(error),
            Err(_) => Err(Errno(libc::EPIPE)),
        }
    }

    /// Sends up to `count` bytes of a file, read straight into the connection's memory: from `offset`, or from where the
    /// file is read; returns how many.
    pub fn send_file(
        &self,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        count: usize,
    ) -> Result<usize> {
        let id = self.stream()?;
        if self.shut_write.load(Ordering::Acquire) {
            return Err(Errno(libc::EPIPE));
        }
        let timeout = self.lock().options.send_wait(Flags::default());
        let mut done = 0;
        let wait = Wait { id, interest: Interest::Write, timeout };
        let result = self.wait(&wait, |stack, _| {
            while done < count {
                let read = stack.tcp_write_from(id, count - done, |room| {
                    let mut room = room.map(IoSliceMut::new);
                    Ok(match offset {
                        Some(offset) => rustix::io::preadv(file, &mut room, offset + done as u64),
                        None => rustix::io::readv(file, &mut room),
                    }?)
                })?;
                match read {
                    None => return Ok(None),
                    Some(Ok(0)) => break,
                    Some(read) => done += read?,
                }
            }
            Ok(Some(()))
        });
        match result {
            Err(error) if done == 0 => Err(error),
            _ => Ok(done),
        }
    }

    /// Receives what is there, waiting for the first byte; 0 at the end of the stream.
    pub fn recv_stream(&self, out: &mut [u8], flags: Flags) -> Result<usize> {
        let id = self.stream()?;
        let timeout = self.lock().options.recv_wait(flags);
        if flags.peek {
            return self
                .peek_stream((id, timeout), out.len(), flags.all, |stack| peek(stack, id, out));
        }
        let mut done = 0;
        let result = self.wait_receiving(id, timeout, |stack, now, receives| {
            let got = match take(stack, now, id, &mut out[done..], receives)? {
                None if self.shut_read.load(Ordering::Acquire) => Some(0),
                got => got,
            };
            Ok(match got {
                None => None,
                Some(0) => Some(()),
                Some(len) => {
                    done += len;
                    (!flags.all || done == out.len()).then_some(())
                }
            })
        });
        match result {
            Err(_) if done > 0 => Ok(done),
            result => self.received(result.map(|()| done)),
        }
    }

    /// What a call to receive gives: what ended the connection is told once, and is the end of the stream
    /// then.
    fn received(&self, result: Result<usize>) -> Result<usize> {
        match result {
            Ok(_) | Err(Errno(libc::EAGAIN | libc::EBADF | libc::ENETDOWN)) => result,
            Err(_) if self.first_told() => result,
            Err(_) => Ok(0),
        }
    }

    /// Shows what is there and leaves it there, waiting for the first of `wanted` bytes, or for all that a receive buffer holds
    /// of them; 0 at the end of the stream.
    fn peek_stream(
        &self,
        (id, timeout): (SocketId, Option<Duration>),
        wanted: usize,
        all: bool,
        mut peek: impl FnMut(&mut Stack) -> io::Result<Option<usize>>,
    ) -> Result<usize> {
        let room = self.config(&self.lock().options)?.recv_window as usize;
        let (enough, mut found) = (if all { wanted.min(room) } else { 1 }, 0);
        let wait = Wait { id, interest: Interest::Read, timeout };
        let peeked = self.wait(&wait, |stack, _| {
            let is_shut = self.shut_read.load(Ordering::Acquire);
            let Some(len) = peek(stack)? else { return Ok(is_shut.then_some(0)) };
            found = len;
            let is_last = is_shut || len == 0 || has_ended(stack.tcp_state(id)?);
            Ok((is_last || len >= enough).then_some(len))
        });
        match peeked {
            Err(_) if found > 0 => Ok(found),
            peeked => self.received(peeked),
        }
    }

    /// Discards up to `len` bytes (`MSG_TRUNC`), waiting for the first; 0 at the end of the stream. With [`Flags::peek`] it only
    /// says how many there are.
    pub fn discard(&self, len: usize, flags: Flags) -> Result<usize> {
        let id = self.stream()?;
        let timeout = self.lock().options.recv_wait(flags);
        let waiting = |stack: &mut Stack, most: usize| -> io::Result<Option<usize>> {
            match stack.tcp_room(id)?.0 {
                0 => Ok(stack.tcp_read(id, &mut [])?),
                unread => Ok(Some(unread.min(most))),
            }
        };
        if flags.peek {
            return self.peek_stream((id, timeout), len, flags.all, |stack| waiting(stack, len));
        }
        let mut done = 0;
        let wait = Wait { id, interest: Interest::Read, timeout };
        let result = self.wait(&wait, |stack, _| {
            let is_shut = self.shut_read.load(Ordering::Acquire);
            let Some(found) = waiting(stack, len - done)? else {
                return Ok(is_shut.then_some(()));
            };
            stack.tcp_consume(id, found)?;
            done += found;
            Ok((found == 0 || !flags.all || done == len).then_some(()))
        });
        match result {
            Err(_) if done > 0 => Ok(done),
            result => self.received(result.map(|()| done)),
        }
    }
}

/// The peer has finished, or nothing comes any more.
fn has_ended(state: TcpState) -> bool {
    !matches!(state, TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2)
}

fn take(
    stack: &mut Stack,
    now: Instant,
    id: SocketId,
    out: &mut [u8],
    receives: bool,
) -> io::Result<Option<usize>> {
    if receives {
        return Ok(stack.tcp_read_into(now, id, out)??);
    }
    Ok(stack.tcp_read(id, out)?)
}

/// Copies out what is there and leaves it there.
fn peek(stack: &mut Stack, id: SocketId, out: &mut [u8]) -> io::Result<Option<usize>> {
    let (front, back) = stack.tcp_peek(id)?;
    let first = front.len().min(out.len());
    let second = back.len().min(out.len() - first);
    out[..first].copy_from_slice(&front[..first]);
    out[first..first + second].copy_from_slice(&back[..second]);
    if first + second > 0 {
        return Ok(Some(first + second));
    }
    Ok(stack.tcp_read(id, &mut [])?)
}
