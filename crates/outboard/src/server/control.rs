//! Control connections: who comes in, and the requests of each in turn.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_stack::ip::Stack;
use rustix::event::epoll;
use rustix::io::{Errno, IoSlice};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, sendmsg, socket_with,
};

use super::engine::Engine;
use super::requests::Asker;
use super::{Settings, tokens};
use crate::client::receive;
use crate::protocol::{MESSAGE_MAX, Reply, Request};

/// Requests of a connection in its turn.
const REQUESTS: usize = 16;
/// Who waits to be let in.
const BACKLOG: i32 = 128;
/// Who is let in at a time.
const GUESTS: usize = 16;

/// The place where applications come in, and those that are.
pub struct Door {
    socket: Arc<OwnedFd>,
    /// What it made itself, and takes away.
    name: Option<PathBuf>,
    guests: Vec<Option<Guest>>,
    free: Vec<u32>,
    /// Guests who may have asked something, in turn.
    asking: VecDeque<u32>,
    /// Somebody waits to be let in.
    is_knocked: bool,
    /// There was no descriptor for him.
    is_deaf_until: Option<Instant>,
}

struct Guest {
    socket: OwnedFd,
    uid: u32,
    pid: i32,
    /// The policy names his user, or he has shown a placeholder, which somebody it names has handed to him.
    is_admitted: bool,
}

impl Door {
    /// Opens it.
    ///
    /// # Errors
    /// As [`super::Server::new`].
    pub fn open(settings: &Settings, events: &OwnedFd) -> io::Result<Door> {
        let (socket, name) = match &settings.listener {
            Some(listener) => (listener.clone(), None),
            None => (Arc::new(bound(settings)?), Some(settings.path.clone())),
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        let data = epoll::EventData::new_u64(tokens::DOOR);
        epoll::add(events, &socket, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Door {
            socket,
            name,
            guests: Vec::new(),
            free: Vec::new(),
            asking: VecDeque::new(),
            is_knocked: true,
            is_deaf_until: None,
        })
    }

    /// The folder of its socket, if it made that.
    pub fn folder(&self) -> Option<&Path> {
        let folder = self.name.as_ref()?.parent()?;
        Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    }

    /// Somebody waits.
    pub fn knock(&mut self) {
        self.is_knocked = true;
    }

    /// A guest may have asked something.
    pub fn ask(&mut self, index: u32) {
        if !self.asking.contains(&index) {
            self.asking.push_back(index);
        }
    }

    /// There is something to do at once.
    pub fn is_busy(&self) -> bool {
        !self.asking.is_empty() || self.is_knocked && self.is_deaf_until.is_none()
    }

    /// Lets in who waits and answers what is asked, of each a few. True if there was something.
    pub fn answer(&mut self, engine: &mut Engine, stack: &mut Stack, now: Instant) -> bool {
        let is_deaf = self.is_deaf_until.is_some_and(|until| now < until);
        if self.is_knocked && !is_deaf {
            self.is_deaf_until = None;
            self.let_in(engine, now);
        }
        let asking = self.asking.len();
        for _ in 0..asking {
            let Some(index) = self.asking.pop_front() else { break };
            match self.serve(engine, stack, now, index) {
                Ok(true) => self.asking.push_back(index),
                Ok(false) => {}
                Err(_) => self.leave(index, engine),
            }
        }
        asking > 0
    }

    fn let_in(&mut self, engine: &mut Engine, now: Instant) {
        for _ in 0..GUESTS {
            match accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    // Who has no room sees a connection that ends.
                    let _ = self.admit(socket, engine, now);
                }
                Err(Errno::AGAIN) => return self.is_knocked = false,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    tracing::warn!(%error, "nobody can be let in for now");
                    self.is_deaf_until = Some(now + std::time::Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, engine: &mut Engine, now: Instant) -> Result<(), Errno> {
        let credentials = socket_peercred(&socket)?;
        let (uid, pid) = (credentials.uid.as_raw(), credentials.pid.as_raw_nonzero().get());
        engine.accounts.add_control(uid, now)?;
        let index = self.free.pop().unwrap_or_else(|| {
            self.guests.push(None);
            self.guests.len() as u32 - 1
        });
        let data = epoll::EventData::new_u64(tokens::CONTROL | u64::from(index));
        if let Err(error) = epoll::add(&engine.epoll, &socket, data, epoll::EventFlags::IN) {
            self.free.push(index);
            engine.accounts.remove_control(uid);
            return Err(error);
        }
        let is_admitted = engine.policy.admits(uid);
        self.guests[index as usize] = Some(Guest { socket, uid, pid, is_admitted });
        self.ask(index);
        Ok(())
    }

    fn leave(&mut self, index: u32, engine: &mut Engine) {
        engine.guest_left(index);
        let Some(guest) = self.guests[index as usize].take() else { return };
        self.free.push(index);
        engine.accounts.remove_control(guest.uid);
    }

    /// Answers some of a guest's requests; true when there may be more.
    ///
    /// # Errors
    /// He is gone, does not listen to answers, or speaks another language.
    fn serve(
        &mut self,
        engine: &mut Engine,
        stack: &mut Stack,
        now: Instant,
        index: u32,
    ) -> Result<bool, Errno> {
        let Some(Some(guest)) = self.guests.get_mut(index as usize) else { return Ok(false) };
        let mut bytes = [0; MESSAGE_MAX + 1];
        for _ in 0..REQUESTS {
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let (len, [fd, _]) = match receive(guest.socket.as_fd(), &mut bytes, flags) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let request = match Request::parse(&bytes[..len]) {
                Ok(request) => request,
                Err(error) => {
                    tracing::debug!(%error, uid = guest.uid, "no request");
                    let no = Reply::Failed(Errno::PROTO.raw_os_error() as u32).emit();
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    rustix::net::send(&guest.socket, &no, flags)?;
                    return Err(Errno::PROTO);
                }
            };
            if request == Request::Wake {
                // What there is to do is told in shared memory.
                continue;
            }
            let asker = Asker { guest: index, uid: guest.uid, pid: guest.pid, fd };
            let (message, files) = match guest.is_admitted || is_for_strangers(&request) {
                true => engine.answer(stack, now, &request, asker),
                false => {
                    let uid = guest.uid;
                    tracing::warn!(uid, "a user who may not use this outboard (--allow)");
                    (Reply::Failed(Errno::ACCESS.raw_os_error() as u32).emit(), [None, None])
                }
            };
            guest.is_admitted |= request == Request::Attach
                && matches!(Reply::parse(&message), Ok(Reply::Opened(..)));
            let fds: Vec<_> = files.iter().flatten().map(AsFd::as_fd).collect();
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&fds));
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            sendmsg(&guest.socket, &[IoSlice::new(&message)], &mut control, flags)?;
        }
        Ok(true)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// What asks for nothing that is not the asker's already: he shows a placeholder, or has what commands a socket.
fn is_for_strangers(request: &Request<'_>) -> bool {
    !matches!(request, Request::Hello { .. } | Request::Socket(_) | Request::Region)
}

/// A socket that listens at the place of the settings.
fn bound(settings: &Settings) -> io::Result<OwnedFd> {
    let path = &settings.path;
    let address = SocketAddrUnix::new(path)?;
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(unix, kind, SocketFlags::CLOEXEC, None)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    if let Err(error) = bind(&socket, &address) {
        if error != Errno::ADDRINUSE {
            return Err(error.into());
        }
        let probe = socket_with(unix, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        match connect(&probe, &address) {
            // One that was killed has left it.
            Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
            _ => {
                let what = format!("{}: somebody listens there already", path.display());
                return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
            }
        }
        bind(&socket, &address)?;
    }
    // Everybody may knock: who may have sockets is told by his user, which the kernel says, or by what he shows.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o666))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
