//! Sockets of a process whose outboard is gone: listeners and sockets for datagrams, which the next outboard takes over.
//!
//! Such a socket keeps its number. There, [`placeholder::waiting`](crate::placeholder::waiting) takes the place of the
//! placeholder, which would show a hangup for ever: it shows nothing until the next outboard wakes it. The placeholder is kept
//! under a high number, because it is the proof by which the next outboard knows the socket
//! ([`Client::restore`](super::Client::restore)).
//!
//! The list lies in memory that a forked child inherits, as it inherits both descriptors.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_device::known;
use rustix::net::sockopt::socket_cookie;

/// Sockets of a process that can wait at the same time.
const PLACES: usize = 64;
/// First word of an entry that is being made.
const IS_CHANGING: u64 = u64::MAX;

/// The list. Each call may be made in a signal handler.
#[derive(Debug)]
pub struct Lost {
    /// Cookie of the socket that waits (0: none), number of the placeholder plus one, cookie of the placeholder, and a note of
    /// the caller's.
    entries: Box<[[AtomicU64; 4]; PLACES]>,
    /// Process whose thread changes a socket of the list; 0: none.
    changing: AtomicU64,
}

impl Default for Lost {
    fn default() -> Lost {
        let entries = Box::new([const { [const { AtomicU64::new(0) }; 4] }; PLACES]);
        Lost { entries, changing: AtomicU64::new(0) }
    }
}

/// Right of one thread to change the list; the others do not wait for it.
#[derive(Debug)]
pub struct Changing<'a>(&'a AtomicU64);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Lost {
    /// Returns the right to change a socket of the list, or `None` if another thread of this process has it.
    pub fn change(&self) -> Option<Changing<'_>> {
        let own = rustix::process::getpid().as_raw_nonzero().get() as u64;
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let before = self.changing.load(relaxed);
        // A thread of the parent may have had it at the time of the fork.
        let is_free = before != own;
        let taken =
            is_free && self.changing.compare_exchange(before, own, acquire, relaxed).is_ok();
        taken.then_some(Changing(&self.changing))
    }

    /// Adds a socket: `waiting` is to take the place of `placeholder`. Returns `false` if the list is full.
    pub fn add(&self, waiting: BorrowedFd<'_>, placeholder: OwnedFd, note: u64) -> bool {
        let (Ok(key), Ok(cookie)) = (socket_cookie(waiting), socket_cookie(&placeholder)) else {
            return false;
        };
        for [first, number, of_placeholder, noted] in self.entries.iter() {
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            if first.compare_exchange(0, IS_CHANGING, acquire, relaxed).is_ok() {
                of_placeholder.store(cookie, relaxed);
                noted.store(note, relaxed);
                number.store(placeholder.into_raw_fd() as u64 + 1, relaxed);
                first.store(key, Ordering::Release);
                return true;
            }
        }
        false
    }

    /// Returns the placeholder and the note of the socket that waits with this cookie.
    pub fn find(&self, cookie: u64) -> Option<(ManuallyDrop<OwnedFd>, u64)> {
        let is_it = |entry: &&[AtomicU64; 4]| entry[0].load(Ordering::Acquire) == cookie;
        let [_, number, of_placeholder, note] = self.entries.iter().find(is_it)?;
        let number = number.load(Ordering::Relaxed) as i32 - 1;
        let placeholder = known(number, of_placeholder.load(Ordering::Relaxed))?;
        Some((placeholder, note.load(Ordering::Relaxed)))
    }

    /// Removes the socket that waits with this cookie, and closes its placeholder.
    pub fn remove(&self, cookie: u64) {
        for [first, number, of_placeholder, _] in self.entries.iter() {
            if first.load(Ordering::Acquire) == cookie {
                let found = known(
                    number.load(Ordering::Relaxed) as i32 - 1,
                    of_placeholder.load(Ordering::Relaxed),
                );
                first.store(0, Ordering::Release);
                drop(found.map(ManuallyDrop::into_inner));
            }
        }
    }
}

/// Duplicates a placeholder to a high number that closes at `exec`.
///
/// # Errors
/// No number is left.
pub fn keep(placeholder: BorrowedFd<'_>) -> super::Result<OwnedFd> {
    debug_assert!(placeholder.as_raw_fd() >= 0);
    rustix::io::fcntl_dupfd_cloexec(placeholder, super::numbers_from())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_lost_socket_is_found_until_it_is_removed() {
        let lost = Lost::default();
        let ((waiting, _a), (placeholder, _b)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let cookie = socket_cookie(&waiting).unwrap();
        let kept = keep(placeholder.as_fd()).unwrap();
        let number = kept.as_raw_fd();
        assert!(lost.find(cookie).is_none());
        assert!(lost.add(waiting.as_fd(), kept, 7));
        let (found, note) = lost.find(cookie).unwrap();
        assert_eq!((found.as_raw_fd(), note), (number, 7));
        lost.remove(cookie);
        assert!(lost.find(cookie).is_none());
        let closed = known(number, socket_cookie(&placeholder).unwrap());
        assert!(closed.is_none());
    }

    #[test]
    fn one_thread_changes_the_list_at_a_time() {
        let lost = Lost::default();
        let changing = lost.change();
        assert!(changing.is_some() && lost.change().is_none());
        drop(changing);
        assert!(lost.change().is_some());
    }
}
