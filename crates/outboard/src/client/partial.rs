//! Receiving that no placeholder does as TCP does it: bytes that are discarded (`MSG_TRUNC`, tcp(7)), and a peek that waits for all
//! bytes (`MSG_PEEK` with `MSG_WAITALL`). The caller gives its own way to receive, whatever carries the stream.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::IoSliceMut;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::thread::{NanosleepRelativeResult, nanosleep};

use super::shown::shown;
use super::{Result, Socket};
use crate::ring::RING_BYTES;

/// Bytes that are discarded at a time.
const PART: usize = 4096;
/// Pause between two looks at a stream, in nanoseconds: a bell does not ring for bytes behind those that wait.
const PAUSE: i64 = 1_000_000;

/// Discards up to `len` bytes of a stream, which `recv` receives; returns how many. With `WAITALL` it waits for all of them.
///
/// # Errors
/// The error of `recv`, if nothing was discarded before.
pub fn discard(
    len: usize,
    flags: RecvFlags,
    mut recv: impl FnMut(&mut [u8], RecvFlags) -> Result<usize>,
) -> Result<usize> {
    let (mut nowhere, mut flags, mut done) = ([0; PART], flags - RecvFlags::TRUNC, 0);
    loop {
        let room = PART.min(len - done);
        match recv(&mut nowhere[..room], flags) {
            Ok(0) => return Ok(done),
            Ok(more) => done += more,
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        }
        if done == len {
            return Ok(done);
        }
        if !flags.contains(RecvFlags::WAITALL) {
            flags |= RecvFlags::DONTWAIT;
        }
    }
}

/// Repeats a peek at the stream of placeholder `p` until it finds `wanted` bytes or as many as a ring holds, the stream ends,
/// `SO_RCVTIMEO` is over, or a signal arrives. One that must not wait is made once.
///
/// # Errors
/// The error of the first peek.
pub fn peek_all(
    p: BorrowedFd<'_>,
    wanted: usize,
    flags: RecvFlags,
    mut peek: impl FnMut(RecvFlags) -> Result<usize>,
) -> Result<usize> {
    let (flags, begun) = (flags - RecvFlags::WAITALL, Instant::now());
    let wanted = wanted.min(RING_BYTES as usize);
    let limit = socket_timeout(p, Timeout::Recv)?;
    let is_dontwait = flags.contains(RecvFlags::DONTWAIT)
        || rustix::fs::fcntl_getfl(p)?.contains(OFlags::NONBLOCK);
    let mut found = None;
    loop {
        // Before the peek, which then finds all that came before the end.
        let now = Some(Duration::ZERO);
        let is_last = is_dontwait || !shown(p, PollFlags::RDHUP, now)?.is_empty();
        let len = match (peek(flags), found) {
            (Err(_), Some(before)) => return Ok(before),
            (done, _) => done?,
        };
        let is_late = limit.is_some_and(|limit| begun.elapsed() >= limit);
        if is_last || is_late || len == 0 || len >= wanted {
            return Ok(len);
        }
        found = Some(len);
        let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE };
        if !matches!(nanosleep(&pause), NanosleepRelativeResult::Ok) {
            return Ok(len);
        }
    }
}

impl Socket {
    /// Discards up to `len` bytes of a stream (`MSG_TRUNC`); with `PEEK` it only says how many there are.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub fn discard(&self, len: usize, flags: RecvFlags) -> Result<usize> {
        let recv = |room: &mut [u8], flags| self.recv(&mut [IoSliceMut::new(room)], flags);
        if flags.contains(RecvFlags::PEEK) {
            let first = recv(&mut [0][..len.min(1)], flags - RecvFlags::WAITALL)?;
            return Ok(if first == 0 { 0 } else { self.unread()?.clamp(1, len) });
        }
        discard(len, flags, recv)
    }
}
