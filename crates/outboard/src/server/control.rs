//! Control connections: who comes in, and the requests of each in turn.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::{Received, Sender, receive_from};
use fusewire_stack::ip::Stack;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, IoSlice};
use rustix::net::sockopt::{set_socket_passcred, socket_cookie};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, sendmsg, socket_with,
};

use super::closer::{Closer, has_files};
use super::commands::{Commands, Table};
use super::engine::Engine;
use super::requests::Asker;
use super::table::Owner;
use super::{Settings, tokens};
use crate::protocol::{MESSAGE_MAX, Message, Reply, Request};

/// Requests of a connection in its turn.
const REQUESTS: usize = 16;
/// Connections that have a turn before sockets have theirs again.
const ASKED: usize = 16;
/// Who waits to be let in.
const BACKLOG: i32 = 128;
/// Who is let in at a time.
const GUESTS: usize = 16;
/// Connections of users who are not named, and have shown no placeholder yet. When another comes, the oldest goes of the user
/// who has most.
const STRANGERS: usize = 64;
/// How long one may take for that.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// Guests who may do nothing yet but show a placeholder, the oldest first.
    strangers: VecDeque<Stranger>,
    /// Control connections of each process that has a host, by its process ID, the oldest first.
    hosted: HashMap<i32, Vec<u32>>,
    closer: Closer,
    /// Guests who have slots for requests.
    with_slots: Vec<u32>,
    commands: Arc<Commands>,
    /// The processor that all of them are told we are on.
    processor: u64,
}

struct Stranger {
    index: u32,
    uid: u32,
    since: Instant,
}

struct Guest {
    socket: OwnedFd,
    /// User and process that opened the connection. Rights are those of each message's sender.
    uid: u32,
    pid: i32,
    /// His socket may have a message.
    has_asked: bool,
    /// His slots, once he has asked for some.
    slots: Option<Box<Table>>,
    /// Whose guest he is: his own where the policy names his user, or else that of whose placeholder he has shown, which
    /// somebody has handed to him. What he has is that one's expense.
    host: Option<u32>,
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
        // Connections inherit it since Linux 6.16, and each is told in any case.
        set_socket_passcred(&socket, true)?;
        // Inherited by those who come; Linux 6.16.
        let _ = fusewire_device::pass_rights(socket.as_fd(), false);
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
            strangers: VecDeque::new(),
            hosted: HashMap::new(),
            closer: Closer::default(),
            with_slots: Vec::new(),
            commands: Arc::default(),
            processor: 0,
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

    /// How many requests there were.
    pub fn commands(&self) -> &Arc<Commands> {
        &self.commands
    }

    /// A guest may have sent a message.
    pub fn ask(&mut self, index: u32) {
        if let Some(Some(guest)) = self.guests.get_mut(index as usize) {
            guest.has_asked = true;
        }
        self.enqueue(index);
    }

    /// Guests have told of requests in their slots; true if there were some. What they did before, the kernel shows when it is
    /// asked after this.
    pub fn hear(&mut self) -> bool {
        let mut has_news = false;
        for n in 0..self.with_slots.len() {
            let index = self.with_slots[n];
            let slots = self.slots_of(index);
            if slots.is_some_and(|slots| slots.hear()) {
                self.enqueue(index);
                has_news = true;
            }
        }
        has_news
    }

    /// Says whether the outboard is about to sleep; false when it had better not sleep.
    pub fn sleep(&self, is_asleep: bool) -> bool {
        let slots = |index: &u32| self.guests.get(*index as usize)?.as_ref()?.slots.as_deref();
        let tables = self.with_slots.iter().filter_map(slots);
        // Each is told.
        tables.fold(true, |all, slots| slots.sleep(is_asleep) & all)
    }

    /// Says which processor the outboard is on.
    pub fn note_processor(&mut self, now: u64) {
        if std::mem::replace(&mut self.processor, now) != now {
            for n in 0..self.with_slots.len() {
                if let Some(slots) = self.slots_of(self.with_slots[n]) {
                    slots.note_processor(now);
                }
            }
        }
    }

    fn slots_of(&mut self, index: u32) -> Option<&mut Table> {
        self.guests.get_mut(index as usize)?.as_mut()?.slots.as_deref_mut()
    }

    fn enqueue(&mut self, index: u32) {
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
        while let Some(&Stranger { index, since, .. }) = self.strangers.front()
            && now.saturating_since(since) >= PATIENCE
        {
            self.leave(index, engine);
        }
        let asking = self.asking.len().min(ASKED);
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
                Ok(socket) => self.admit(socket, engine, now),
                Err(Errno::AGAIN) => return self.is_knocked = false,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    if !engine.report_limit(now, error) {
                        tracing::debug!(%error, "cannot accept connections for now");
                    }
                    self.is_deaf_until = Some(now + std::time::Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    /// Lets one in; who has no room sees a connection that ends.
    fn admit(&mut self, socket: OwnedFd, engine: &mut Engine, now: Instant) {
        if set_socket_passcred(&socket, true).is_err() {
            return;
        }
        let Ok(Sender { uid, pid }) = Sender::of_peer(socket.as_fd()) else { return };
        let host = engine.policy.admits(uid).then_some(uid);
        let has_room = !self.closer.is_stuck(uid, host.is_some())
            && host.is_none_or(|host| engine.accounts.add_control(host, now).is_ok());
        if !has_room {
            return self.closer.end(uid, socket);
        }
        if host.is_none()
            && self.strangers.len() >= STRANGERS
            && let Some(stranger) = self.one_of_most()
        {
            self.leave(stranger, engine);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.guests.push(None);
            self.guests.len() as u32 - 1
        });
        let data = epoll::EventData::new_u64(tokens::CONTROL | u64::from(index));
        if let Err(error) = epoll::add(&engine.epoll, &socket, data, epoll::EventFlags::IN) {
            tracing::warn!(%error, "who came cannot be heard");
            self.free.push(index);
            host.into_iter().for_each(|host| engine.accounts.remove_control(host));
            return self.closer.end(uid, socket);
        }
        let _ = fusewire_device::pass_rights(socket.as_fd(), true);
        engine.table.applications.came(pid);
        self.guests[index as usize] =
            Some(Guest { socket, uid, pid, has_asked: true, slots: None, host });
        match host {
            Some(_) => self.note_hosted(index, pid),
            None => self.strangers.push_back(Stranger { index, uid, since: now }),
        }
        self.ask(index);
    }

    /// The oldest stranger of the user who has most of them.
    fn one_of_most(&self) -> Option<u32> {
        let of = |uid| self.strangers.iter().filter(|stranger| stranger.uid == uid).count();
        let most = self.strangers.iter().map(|stranger| of(stranger.uid)).max()?;
        let found = self.strangers.iter().find(|stranger| of(stranger.uid) == most);
        found.map(|stranger| stranger.index)
    }

    fn leave(&mut self, index: u32, engine: &mut Engine) {
        engine.guest_left(index);
        let Some(guest) = self.guests[index as usize].take() else { return };
        self.with_slots.retain(|with| *with != index);
        self.free.push(index);
        engine.table.applications.left(guest.pid);
        match guest.host {
            Some(host) => {
                engine.accounts.remove_control(host);
                if let Some(all) = self.hosted.get_mut(&guest.pid) {
                    all.retain(|connection| *connection != index);
                    if all.is_empty() {
                        self.hosted.remove(&guest.pid);
                    }
                }
            }
            None => self.strangers.retain(|stranger| stranger.index != index),
        }
        let _ = epoll::delete(&engine.epoll, &guest.socket);
        self.closer.end(guest.uid, guest.socket);
    }

    /// A stranger has shown a placeholder of `host`'s.
    ///
    /// # Errors
    /// `EMFILE`: that one has no connection left.
    fn welcome(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        index: u32,
        host: u32,
    ) -> Result<(), Errno> {
        engine.accounts.add_control(host, now)?;
        self.strangers.retain(|stranger| stranger.index != index);
        if let Some(Some(guest)) = self.guests.get_mut(index as usize) {
            guest.host = Some(host);
            let pid = guest.pid;
            self.note_hosted(index, pid);
        }
        Ok(())
    }

    /// Notes that the process that opened a connection has a host.
    fn note_hosted(&mut self, index: u32, pid: i32) {
        // Processes of other PID namespaces are all 0 here: each of their connections has its host for itself.
        if pid != 0 {
            self.hosted.entry(pid).or_default().push(index);
        }
    }

    /// Returns the user whose budget pays for requests of `sender`: its own user if the policy names that, or else the host
    /// of its process. A process keeps its host when its threads change their user.
    fn payer(&self, engine: &Engine, guest: &Guest, sender: Sender) -> Option<u32> {
        if engine.policy.admits(sender.uid) {
            return Some(sender.uid);
        }
        let is_own = sender.pid == guest.pid && (sender.pid != 0 || sender.uid == guest.uid);
        guest.host.filter(|_| is_own).or_else(|| {
            // `exec` closes its connections before another program begins, which has no host then.
            let connections = self.hosted.get(&sender.pid)?;
            connections.iter().find_map(|index| {
                let guest = self.guests.get(*index as usize)?.as_ref()?;
                (!is_closed(&guest.socket)).then_some(guest.host).flatten()
            })
        })
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
        let mut bytes = [0; MESSAGE_MAX + 1];
        for n in 0..REQUESTS {
            // A message comes first: who always has requests in his slots is seen to be gone, too.
            let has_asked =
                n == 0 && matches!(self.guests.get(index as usize), Some(Some(g)) if g.has_asked);
            if !has_asked && self.by_slot(engine, stack, now, index)? {
                continue;
            }
            let Some(Some(guest)) = self.guests.get(index as usize) else { return Ok(false) };
            if !guest.has_asked {
                return Ok(false);
            }
            let (uid, is_named) = (guest.uid, guest.host.is_some());
            let Received { len, mut files, sender } = match self.receive(guest, &mut bytes) {
                Ok(received) => received,
                Err(Errno::AGAIN) => {
                    if let Some(Some(guest)) = self.guests.get_mut(index as usize) {
                        guest.has_asked = false;
                    }
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let answered =
                self.one(engine, stack, now, index, (&bytes[..len], files.first(), sender));
            // A placeholder's close takes no time.
            let is_placeholder = |cookie| {
                engine.table.by_cookie(cookie).is_some() || engine.table.journal.knows(cookie)
            };
            files.retain(|file| !socket_cookie(file).is_ok_and(is_placeholder));
            let has_handed = !files.is_empty();
            self.closer.close(uid, files);
            answered?;
            if has_handed && !is_named {
                // A placeholder is all that he is asked for.
                return Err(Errno::ACCESS);
            }
        }
        Ok(true)
    }

    /// A guest's next request, and what is with it.
    ///
    /// # Errors
    /// `EAGAIN`: there is none. `EMFILE`: he hands over descriptors, and many of his wait to be closed.
    fn receive(&self, guest: &Guest, bytes: &mut [u8]) -> Result<Received, Errno> {
        let socket = guest.socket.as_fd();
        if self.closer.is_stuck(guest.uid, guest.host.is_some()) && has_files(socket)? {
            return Err(Errno::MFILE);
        }
        receive_from(socket, bytes)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Answers the next request in a guest's slots; false when there is none.
    ///
    /// # Errors
    /// He speaks another language.
    fn by_slot(
        &mut self,
        engine: &mut Engine,
        stack: &mut Stack,
        now: Instant,
        index: u32,
    ) -> Result<bool, Errno> {
        let Some(Some(Guest { uid, pid, host, slots: Some(slots), .. })) =
            self.guests.get_mut(index as usize)
        else {
            return Ok(false);
        };
        let mut bytes = [0; MESSAGE_MAX];
        let found = slots.take(&mut bytes).map_err(|error| {
            tracing::debug!(%error, uid, "no request");
            Errno::PROTO
        });
        let Some((slot, asked)) = found? else { return Ok(false) };
        let request = Request::parse(&bytes[..asked.len]);
        let Some(request) = request.ok().filter(Request::is_plain) else {
            tracing::debug!(uid, "no request that may lie in a slot");
            return Err(Errno::PROTO);
        };
        self.commands.came_by_slot();
        let owner = Owner { uid: *uid, pid: *pid, payer: host.unwrap_or(*uid) };
        let (message, _) =
            engine.answer(stack, now, &request, Asker { guest: index, owner, fd: None });
        slots.complete((slot, asked), &message);
        Ok(true)
    }

    /// Gives a guest slots for his requests, or says why not: he has some, or his host has as many as he may, or
    /// few control connections left, of which they would keep this one.
    fn give_slots(&mut self, engine: &Engine, index: u32) -> (Message, [Option<OwnedFd>; 2]) {
        let host = |index: u32| {
            let guest = self.guests.get(index as usize).and_then(Option::as_ref);
            guest.and_then(|guest| guest.host)
        };
        let (own, has_some) = (host(index), self.with_slots.contains(&index));
        let of_host = self.with_slots.iter().filter(|with| host(**with) == own).count();
        let is_short = own.is_some_and(|own| engine.accounts.is_short_of_controls(own));
        let made = match has_some || is_short || of_host >= engine.accounts.regions() {
            true => Err(Errno::NFILE),
            false => Table::new(self.processor),
        };
        match (made, self.guests.get_mut(index as usize)) {
            (Ok((slots, files)), Some(Some(guest))) => {
                guest.slots = Some(Box::new(slots));
                self.with_slots.push(index);
                (Reply::Commands.emit(), files.map(Some))
            }
            (made, _) => {
                let error = made.err().unwrap_or(Errno::BADF);
                (Reply::Failed(error.raw_os_error() as u32).emit(), [None, None])
            }
        }
    }

    /// Answers one request, with the descriptor that came with it.
    fn one(
        &mut self,
        engine: &mut Engine,
        stack: &mut Stack,
        now: Instant,
        index: u32,
        (bytes, fd, sender): (&[u8], Option<&OwnedFd>, Option<Sender>),
    ) -> Result<(), Errno> {
        let Some(Some(guest)) = self.guests.get(index as usize) else { return Ok(()) };
        if bytes.is_empty() {
            return Err(Errno::PIPE);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(%error, uid = guest.uid, "no request");
                let no = Reply::Failed(Errno::PROTO.raw_os_error() as u32).emit();
                rustix::net::send(&guest.socket, &no, flags)?;
                return Err(Errno::PROTO);
            }
        };
        if request == Request::Wake {
            // What there is to do is told in shared memory.
            return Ok(());
        }
        let Some(sender) = sender else {
            // It was sent before the connection was let in.
            tracing::debug!(uid = guest.uid, "a request without credentials");
            let no = Reply::Failed(Errno::ACCESS.raw_os_error() as u32).emit();
            rustix::net::send(&guest.socket, &no, flags)?;
            return Ok(());
        };
        let Sender { uid, pid } = sender;
        let (is_stranger, guest_pid) = (guest.host.is_none(), guest.pid);
        let payer = self.payer(engine, guest, sender);
        if let (true, Some(payer)) = (is_stranger && pid == guest_pid, payer) {
            // Another thread of its process has a host.
            self.welcome(engine, now, index, payer)?;
        }
        let owner = Owner { uid, pid, payer: payer.unwrap_or(uid) };
        let asker = Asker { guest: index, owner, fd: fd.map(AsFd::as_fd) };
        self.commands.came_by_message();
        let (message, files) = match payer.is_some() || is_for_strangers(&request) {
            true if request == Request::Commands => self.give_slots(engine, index),
            true => engine.answer(stack, now, &request, asker),
            false => {
                tracing::warn!(uid, "a user who may not use this outboard (--allow)");
                (Reply::Failed(Errno::ACCESS.raw_os_error() as u32).emit(), [None, None])
            }
        };
        if is_stranger
            && payer.is_none()
            && pid == guest_pid
            && matches!(request, Request::Attach | Request::Restore)
            && let Ok(Reply::Opened(handle, _)) = Reply::parse(&message)
            && let Some(shown) = engine.table.index_of(handle.socket)
            && let Some(host) = engine.table.at(shown).map(|socket| socket.payer)
        {
            self.welcome(engine, now, index, host)?;
        }
        let Some(Some(guest)) = self.guests.get(index as usize) else { return Ok(()) };
        let fds: Vec<_> = files.iter().flatten().map(AsFd::as_fd).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        sendmsg(&guest.socket, &[IoSlice::new(&message)], &mut control, flags)?;
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Returns `true` if no process has the other end of a connection open any more.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    fds[0].revents().contains(PollFlags::HUP)
}

/// What asks for nothing that is not the asker's already: he shows a placeholder, or has what commands a socket.
fn is_for_strangers(request: &Request<'_>) -> bool {
    use Request::{Commands, Hello, Region, Socket};
    !matches!(request, Hello { .. } | Socket(_) | Region | Commands)
}

fn is_socket(path: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.file_type().is_socket())
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
            Err(Errno::CONNREFUSED) if is_socket(path)? => std::fs::remove_file(path)?,
            Err(Errno::CONNREFUSED) => {
                let what = "it is something else than a socket, and stays";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            _ => {
                let what = "somebody listens there already";
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
