//! Sleeping until a descriptor is ready, and waking a sleeper from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Wakes the `wait` of the device that it came from. Cheap to clone; a wake that comes before the
/// wait is not lost.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker of its own, for a device to sleep on.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Ends the current or the next `wait`.
    pub fn wake(&self) {
        // The only failure is a full counter, and then the sleeper is awake already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Forgets wakes that came until now.
    pub fn drain(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until `fd` can be read (or written, when `want_write`) or `waker` wakes; false when `timeout` passed.
pub(crate) fn wait(
    fd: BorrowedFd<'_>,
    waker: &Waker,
    timeout: Option<Duration>,
    want_write: bool,
) -> io::Result<bool> {
    wait_for(fd, want_write.then_some(fd), waker, timeout)
}

/// Sleeps until `readable` can be read, `writable` written, or `waker` wakes; false when `timeout`
/// passed.
pub(crate) fn wait_for(
    readable: BorrowedFd<'_>,
    writable: Option<BorrowedFd<'_>>,
    waker: &Waker,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let mut fds = [
        PollFd::from_borrowed_fd(readable, PollFlags::IN),
        PollFd::new(waker, PollFlags::IN),
        PollFd::from_borrowed_fd(writable.unwrap_or(readable), PollFlags::OUT),
    ];
    let count = if writable.is_some() { 3 } else { 2 };
    sleep_waking(&mut fds[..count], waker, timeout)
}

/// Sleeps on `fds`, the second of which is `waker`; false when `timeout` passed.
pub(crate) fn sleep_waking(
    fds: &mut [PollFd<'_>],
    waker: &Waker,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let ready = poll_once(fds, timeout)?;
    if !fds[1].revents().is_empty() {
        waker.drain();
    }
    Ok(ready != Some(0))
}

/// Sleeps until one of `fds` is ready, for at most so long; `None`: for ever. Returns how many are: 0 when the time has
/// passed, or a signal has come.
///
/// # Errors
/// What `poll(2)` says.
pub fn sleep(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    Ok(poll_once(fds, timeout)?.unwrap_or(0))
}

/// `None`: a signal came.
fn poll_once(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<Option<usize>> {
    // A time beyond the kernel's is for ever.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        Ok(ready) => Ok(Some(ready)),
        Err(Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_before_the_wait_is_kept_and_counts_once() {
        let waker = Waker::new().unwrap();
        let (idle, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        waker.wake();
        waker.wake();
        assert!(wait(idle.as_fd(), &waker, None, false).unwrap());
        assert!(!wait(idle.as_fd(), &waker, Some(Duration::from_millis(1)), false).unwrap());
    }

    #[test]
    fn another_thread_wakes() {
        let waker = Waker::new().unwrap();
        let (idle, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let remote = waker.clone();
        let thread = std::thread::spawn(move || remote.wake());
        assert!(wait(idle.as_fd(), &waker, Some(Duration::from_secs(10)), false).unwrap());
        thread.join().unwrap();
    }
}
