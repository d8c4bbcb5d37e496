//! Readiness of placeholders, and calls that are repeated after signals.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Result;

/// Calls until no signal comes between.
pub(super) fn again<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Readiness of a descriptor within a time limit, or without one for `None`. Returns no events when the time is up.
pub(super) fn shown(
    p: BorrowedFd<'_>,
    wanted: PollFlags,
    timeout: Option<Duration>,
) -> Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(p, wanted)];
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    again(|| poll(&mut fds, timeout.as_ref()))?;
    Ok(fds[0].revents())
}
