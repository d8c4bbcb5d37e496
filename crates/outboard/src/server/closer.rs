//! Descriptors that applications hand over, and where those are closed that are not placeholders of ours.
//!
//! The last close of a descriptor takes as long as whoever made it likes: a connection of the kernel's that lingers behind a
//! peer that does not read, a file of a file system in user space. One that lies unread in a socket is closed with that
//! socket. So neither happens in the thread that serves all; each user has a thread of his own for it while he needs it,
//! and waits for nobody but himself.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Descriptors that one message has at most (`SCM_MAX_FD` of Linux).
const SCM_MAX: usize = 253;

/// Descriptors of a user that wait to be closed, until he is not heard any more.
const UNCLOSED: usize = 256;
/// How long a close takes that is no ordinary one.
const PATIENCE: Duration = Duration::from_millis(100);

/// Who closes them.
#[derive(Clone, Default)]
pub struct Closer {
    /// What a user's thread has yet to close; no entry: there is no such thread.
    users: Arc<Mutex<HashMap<u32, Waiting>>>,
}

/// What waits for a user's thread.
struct Waiting {
    files: VecDeque<OwnedFd>,
    /// Since when the thread closes what it does.
    since: Instant,
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
            Entry::Occupied(mut waiting) => waiting.get_mut().files.extend(files),
            Entry::Vacant(place) => {
                place.insert(Waiting { files: files.collect(), since: Instant::now() });
                let closer = self.clone();
                let thread = std::thread::Builder::new().name("closer".into());
                if let Err(error) = thread.spawn(move || closer.run(uid)) {
                    tracing::warn!(%error, "no thread to close descriptors by");
                    // They stay open: to close them here might take for ever.
                    let files = users.remove(&uid).map(|waiting| waiting.files);
                    files.into_iter().flatten().for_each(std::mem::forget);
                }
            }
        }
    }

    /// Many of a user's wait behind one whose close takes its time.
    pub fn is_stuck(&self, uid: u32) -> bool {
        let is_it = |waiting: &Waiting| {
            waiting.files.len() >= UNCLOSED && waiting.since.elapsed() >= PATIENCE
        };
        self.lock().get(&uid).is_some_and(is_it)
    }

    fn run(&self, uid: u32) {
        loop {
            let next = match self.lock().entry(uid) {
                Entry::Occupied(mut waiting) => {
                    let next = waiting.get_mut().files.pop_front();
                    waiting.get_mut().since = Instant::now();
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

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Waiting>> {
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
