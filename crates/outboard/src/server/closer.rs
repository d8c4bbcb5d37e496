//! Descriptors that applications hand over, and where those are closed that are not placeholders of ours.
//!
//! The last close of a descriptor takes as long as whoever made it likes: a connection of the kernel's that lingers behind a
//! peer that does not read, a file of a file system in user space. One that lies unread in a socket is closed with that
//! socket. So neither happens in the thread that serves all; each user has a thread of his own for it while he needs it,
//! and waits for nobody but himself.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, recv, recvmsg, shutdown};

/// Descriptors of a user that are not closed yet, until no more are taken from him.
const UNCLOSED: usize = 256;
/// Those of all users together, until no more are taken from one who is not named. Each who has some has a thread.
const UNCLOSED_OF_ALL: usize = 4096;
/// Messages that are looked at in a connection that ends.
const LOOKS: usize = 64;

/// Who closes them.
#[derive(Clone)]
pub struct Closer {
    unclosed: Arc<Mutex<Unclosed>>,
    /// Makes the thread that closes what a user has.
    spawn: fn(Closer, u32) -> io::Result<()>,
}

/// What is not closed yet.
#[derive(Default)]
struct Unclosed {
    /// Of each user; no entry: he has nothing here, and no thread.
    users: HashMap<u32, Waiting>,
    /// Descriptors of all users, with those that their threads are at.
    all: usize,
    /// Users for whom there was no thread. What they have stays open and counts: to close it elsewhere might take for ever.
    unserved: Vec<u32>,
}

#[derive(Default)]
struct Waiting {
    files: VecDeque<OwnedFd>,
    /// His thread is at one besides.
    is_closing: bool,
}

impl Unclosed {
    /// What the thread of a user closes next; `None`: he has nothing any more.
    fn next(&mut self, uid: u32) -> Option<OwnedFd> {
        let waiting = self.users.get_mut(&uid)?;
        let next = waiting.files.pop_front();
        waiting.is_closing = next.is_some();
        if next.is_none() {
            self.users.remove(&uid);
        }
        next
    }
}

impl Drop for Unclosed {
    fn drop(&mut self) {
        // Each thread has a share of this: these have none, and whoever is the last would wait.
        let left = self.users.drain().flat_map(|(_, waiting)| waiting.files);
        left.for_each(std::mem::forget);
    }
}

impl Default for Closer {
    fn default() -> Closer {
        let spawn = |closer: Closer, uid| {
            let thread = std::thread::Builder::new().name("closer".into());
            thread.spawn(move || closer.run(uid)).map(|_| ())
        };
        Closer { unclosed: Arc::default(), spawn }
    }
}

impl Closer {
    /// Closes what came from this user, some time.
    pub fn close(&self, uid: u32, files: impl IntoIterator<Item = OwnedFd>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_none() {
            return;
        }
        let mut unclosed = self.lock();
        let Unclosed { users, all, unserved } = &mut *unclosed;
        let waiting = users.entry(uid).or_insert_with(|| {
            unserved.push(uid);
            Waiting::default()
        });
        let before = waiting.files.len();
        waiting.files.extend(files);
        *all += waiting.files.len() - before;
        self.serve(&mut unclosed);
    }

    /// Ends a connection, which its peer sees at once. Only one in which descriptors may lie is closed some time.
    pub fn end(&self, uid: u32, socket: OwnedFd) {
        let _ = shutdown(&socket, Shutdown::Both);
        if may_hold_files(&socket) {
            self.close(uid, [socket]);
        } else {
            // Where no more are taken, nothing else comes by here.
            self.serve(&mut self.lock());
        }
    }

    /// Many of a user's are not closed yet, or of all, where he is not named.
    pub fn is_stuck(&self, uid: u32, is_named: bool) -> bool {
        let unclosed = self.lock();
        let of = |waiting: &Waiting| waiting.files.len() + usize::from(waiting.is_closing);
        unclosed.users.get(&uid).is_some_and(|waiting| of(waiting) >= UNCLOSED)
            || !is_named && unclosed.all >= UNCLOSED_OF_ALL
    }

    /// Makes threads for those who have none, as far as there are some.
    fn serve(&self, unclosed: &mut Unclosed) {
        while let Some(uid) = unclosed.unserved.last() {
            if let Err(error) = (self.spawn)(self.clone(), *uid) {
                tracing::warn!(%error, users = unclosed.unserved.len(), "no thread to close descriptors by");
                return;
            }
            unclosed.unserved.pop();
        }
    }

    /// Closes what a user has, and then what those have for whom there was no thread.
    fn run(&self, mut uid: u32) {
        loop {
            let mut next = self.lock().next(uid);
            while let Some(file) = next {
                // Outside of the lock.
                drop(file);
                let mut unclosed = self.lock();
                unclosed.all -= 1;
                next = unclosed.next(uid);
            }
            let other = self.lock().unserved.pop();
            match other {
                Some(other) => uid = other,
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unclosed> {
        self.unclosed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if the next message of a control connection carries descriptors.
///
/// # Errors
/// `EAGAIN`: there is no message.
pub fn has_files(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    // With credentials, each message carries something. Those of messages that lie there already stay with them.
    set_socket_passcred(socket, false)?;
    let found = has_more_than_bytes(socket);
    set_socket_passcred(socket, true)?;
    found
}

/// The next message has something with it: of a socket that is not told who sends, descriptors.
///
/// # Errors
/// `EAGAIN`: there is none.
fn has_more_than_bytes(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let message = recvmsg(socket, &mut [], &mut RecvAncillaryBuffer::default(), flags)?;
    Ok(message.flags.contains(ReturnFlags::CTRUNC))
}

/// Whether descriptors lie in a connection by which nobody sends any more, as far as can be seen. What lies before them is
/// thrown away.
fn may_hold_files(socket: &OwnedFd) -> bool {
    let looks = || match has_more_than_bytes(socket.as_fd()) {
        // That the peer left something unread is told first.
        Err(Errno::CONNRESET | Errno::INTR) => has_more_than_bytes(socket.as_fd()),
        looked => looked,
    };
    for _ in 0..LOOKS {
        match set_socket_passcred(socket, false).and_then(|()| looks()) {
            Ok(false) => {}
            Ok(true) => return true,
            Err(error) => return error != Errno::AGAIN,
        }
        // It may be an empty message, or the end. A message has its sender with it now, the end has nothing.
        match set_socket_passcred(socket, true).and_then(|()| looks()) {
            Ok(true) => drop(recv(socket, &mut [0; 1], RecvFlags::DONTWAIT)),
            found => return found.is_err(),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use rustix::cmsg_space;
    use rustix::net::sockopt::{
        set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
    };
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    };

    use super::*;

    /// A connection that was closed behind these messages, each with a descriptor or without.
    fn closed(messages: &[(&[u8], bool)]) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        for (bytes, has_file) in messages {
            let files = [ours.as_fd()];
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if *has_file {
                control.push(SendAncillaryMessage::ScmRights(&files));
            }
            sendmsg(&theirs, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
        }
        // Something that it has not read.
        rustix::net::send(&ours, b"unread", SendFlags::empty()).unwrap();
        ours
    }

    const EMPTY: (&[u8], bool) = (b"", false);
    const SOME: (&[u8], bool) = (b"some", false);

    #[test]
    fn a_connection_that_holds_no_descriptors_takes_no_thread_to_be_closed() {
        let closer = Closer::default();
        for messages in [&[][..], &[EMPTY], &[EMPTY, SOME, EMPTY]] {
            closer.end(7, closed(messages));
            assert!(closer.lock().users.is_empty(), "{messages:?}");
        }
    }

    #[test]
    fn descriptors_are_seen_behind_whatever_lies_before_them() {
        for before in [&[][..], &[EMPTY], &[SOME, EMPTY, EMPTY]] {
            for last in [(&b""[..], true), (b"last", true)] {
                assert!(may_hold_files(&closed(&[before, &[last]].concat())), "{before:?}");
            }
        }
        assert!(may_hold_files(&closed(&[EMPTY; LOOKS + 1])), "nobody looks for ever");
    }

    /// A descriptor whose close takes until its peer, the other one, is gone.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (deaf, _) = listener.accept().unwrap();
        set_socket_send_buffer_size(&slow, 4096).unwrap();
        slow.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut &slow, &[0; 1 << 16]).is_ok() {}
        set_socket_linger(&slow, Some(Duration::from_secs(3600))).unwrap();
        (slow.into(), deaf)
    }

    fn file() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn until(what: &str, is: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn none_waits(closer: &Closer) -> bool {
        closer.lock().users.values().all(|waiting| waiting.files.is_empty())
    }

    #[test]
    fn what_a_thread_is_at_counts_until_it_is_closed() {
        let closer = Closer::default();
        let users = 100..108;
        let deaf: Vec<_> = users
            .clone()
            .map(|uid| {
                let (slow, deaf) = lingering();
                closer.close(uid, [slow]);
                deaf
            })
            .collect();
        until("each has a thread that is at it", || none_waits(&closer));
        assert_eq!(closer.lock().all, users.len(), "one of each is not closed");
        closer.close(100, (2..UNCLOSED).map(|_| file()));
        assert!(!closer.is_stuck(100, true), "one more is taken");
        closer.close(100, [file()]);
        assert!(closer.is_stuck(100, true) && !closer.is_stuck(101, false));
        // As if many users had one each.
        closer.lock().all += UNCLOSED_OF_ALL;
        assert!(closer.is_stuck(99, false) && !closer.is_stuck(99, true));
        closer.lock().all -= UNCLOSED_OF_ALL;
        drop(deaf);
        until("all are closed", || closer.lock().users.is_empty());
        assert_eq!(closer.lock().all, 0);
    }

    #[test]
    fn what_finds_no_thread_counts_and_is_closed_once_there_is_one() {
        let none: fn(Closer, u32) -> io::Result<()> = |_, _| Err(Errno::AGAIN.into());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let is_open =
            || recv(&theirs, &mut [0; 1], RecvFlags::DONTWAIT).is_err_and(|e| e == Errno::AGAIN);
        let mut closer = Closer { spawn: none, ..Closer::default() };
        closer.close(8, [OwnedFd::from(ours)]);
        closer.close(7, (0..UNCLOSED).map(|_| file()));
        assert!(closer.is_stuck(7, true), "what he hands over stays open");
        assert!(is_open());
        assert_eq!(closer.lock().all, UNCLOSED + 1);
        assert_eq!(closer.lock().unserved, [8, 7]);
        // Nobody hands over any more: who comes and goes is enough.
        closer.spawn = Closer::default().spawn;
        closer.end(9, closed(&[]));
        until("all are closed", || closer.lock().users.is_empty());
        assert!(!is_open() && !closer.is_stuck(7, true));
        assert_eq!(closer.lock().all, 0);
        // A thread that has nothing more to close takes on those who have none.
        let mut closer = Closer::default();
        let (slow, deaf) = lingering();
        closer.close(7, [slow]);
        until("the thread is at it", || none_waits(&closer));
        closer.spawn = none;
        closer.close(8, [file()]);
        assert_eq!(closer.lock().unserved, [8]);
        drop(deaf);
        until("all are closed", || closer.lock().users.is_empty());
        assert!(closer.lock().unserved.is_empty());
        // With the last who knows of it nobody waits.
        let closer = Closer { spawn: none, ..Closer::default() };
        let (slow, _deaf) = lingering();
        closer.close(7, [slow]);
        drop(closer);
    }
}
