//! Descriptors that applications hand over, and where those are closed that are not placeholders of ours.
//!
//! The last close of a descriptor takes as long as whoever made it likes: a connection of the kernel's that lingers behind a
//! peer that does not read, a file of a file system in user space. One that lies unread in a socket is closed with that
//! socket. So neither happens in the thread that serves all; each user has a thread of his own for it while he needs it,
//! and waits for nobody but himself.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::cmsg_space;
use rustix::io::{Errno, IoSliceMut};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, Shutdown, recv, recvmsg,
    shutdown,
};

/// Descriptors that one message has at most (`SCM_MAX_FD` of Linux).
const SCM_MAX: usize = 253;

/// Descriptors of a user that wait to be closed, until no more are taken from him.
const UNCLOSED: usize = 256;
/// Those of all users together, until no more are taken from one who is not named.
const UNCLOSED_OF_ALL: usize = 4096;
/// Messages that are looked at in a connection that ends.
const LOOKS: usize = 64;

/// Who closes them.
#[derive(Clone, Default)]
pub struct Closer {
    /// What a user's thread has yet to close; no entry: there is no such thread.
    users: Arc<Mutex<HashMap<u32, VecDeque<OwnedFd>>>>,
}

impl Closer {
    /// Closes what came from this user, some time.
    pub fn close(&self, uid: u32, files: impl IntoIterator<Item = OwnedFd>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_none() {
            return;
        }
        let mut users = self.lock();
        match users.entry(uid) {
            Entry::Occupied(mut waiting) => waiting.get_mut().extend(files),
            Entry::Vacant(place) => {
                place.insert(files.collect());
                let closer = self.clone();
                let thread = std::thread::Builder::new().name("closer".into());
                if let Err(error) = thread.spawn(move || closer.run(uid)) {
                    tracing::warn!(%error, "no thread to close descriptors by");
                    // They stay open: to close them here might take for ever.
                    users.remove(&uid).into_iter().flatten().for_each(std::mem::forget);
                }
            }
        }
    }

    /// Ends a connection, which its peer sees at once. Only one in which descriptors may lie is closed some time.
    pub fn end(&self, uid: u32, socket: OwnedFd) {
        let _ = shutdown(&socket, Shutdown::Both);
        if may_hold_files(&socket) {
            self.close(uid, [socket]);
        }
    }

    /// Many of a user's wait to be closed, or of all, where he is not named.
    pub fn is_stuck(&self, uid: u32, is_named: bool) -> bool {
        let users = self.lock();
        let all = || users.values().map(VecDeque::len).sum::<usize>();
        users.get(&uid).is_some_and(|files| files.len() >= UNCLOSED)
            || !is_named && all() >= UNCLOSED_OF_ALL
    }

    fn run(&self, uid: u32) {
        loop {
            let next = match self.lock().entry(uid) {
                Entry::Occupied(mut waiting) => {
                    let next = waiting.get_mut().pop_front();
                    if next.is_none() {
                        waiting.remove();
                    }
                    next
                }
                Entry::Vacant(_) => None,
            };
            // Outside of the lock.
            match next {
                Some(file) => drop(file),
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, VecDeque<OwnedFd>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives a request and all descriptors that are with it: those that found no place would be closed by this call.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SCM_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok((message.bytes, files.flatten().collect()))
}

/// The next message has something with it: of a socket that is not told who sends, descriptors.
///
/// # Errors
/// `EAGAIN`: there is none.
pub fn has_more_than_bytes(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
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
    use std::io::IoSlice;

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
            assert!(closer.lock().is_empty(), "{messages:?}");
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
}
