//! What an application asks for its sockets: one answer to each request.

mod options;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fusewire_base::Instant;
use fusewire_stack::ip::posix::{self, Effect, KindOf, Options};
use fusewire_stack::ip::{Stack, State as TcpState, TcpConfig, unconnected_tcp_info};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;

use options::{apply, change_membership, is_here, value_of};

use super::before::Earlier;
use super::contexts;
use super::engine::Engine;
use super::lease::{Asked, MUCH, WIDE};
use super::pipe::number_of;
use super::table::{Listens, Owner, Shown, Socket, State};
use crate::placeholder;
use crate::protocol::{
    Addresses, FAILURE, Family, Handle, KEY_LEN, Kind, Message, OptionName, Reply, Request,
    SOL_XTP, SocketType, UNSENT, VALUE_MAX, VERSION, emit_addresses,
};

/// What a request is answered, before it is laid down.
pub enum Answer {
    Done,
    Opened(Handle, SocketType, Option<OwnedFd>),
    Address(Option<SocketAddr>),
    Value(Vec<u8>),
    Region([u8; KEY_LEN], [OwnedFd; 2]),
    Leased(usize),
}

/// Calls that throw away what was sent before there was a connection: as much as a placeholder takes, in pieces of a page.
const DISCARDS: usize = 64;

type Result<T, E = Errno> = std::result::Result<T, E>;

/// The sender of a request, and what came with it.
pub struct Asker<'a> {
    /// The control connection that it came by.
    pub guest: u32,
    /// User and process that sent it. Those of a request in a slot are the ones that opened its connection, because memory
    /// does not tell which thread has written there: such a request needs no rights beside its handle.
    pub owner: Owner,
    /// The first descriptor.
    pub fd: Option<BorrowedFd<'a>>,
}

impl Engine {
    /// Answers a request; descriptors may go with it.
    pub fn answer(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        request: &Request<'_>,
        asker: Asker<'_>,
    ) -> (Message, [Option<OwnedFd>; 2]) {
        if let Request::Hello { version } = request {
            return (self.hello(stack, *version), [None, None]);
        }
        let only = |message| (message, [None, None]);
        let answered = self.carry_out(stack, now, request, asker);
        if answered.is_ok() {
            self.note(stack, request);
        }
        match answered {
            Ok(Answer::Done) => only(Reply::Done.emit()),
            Ok(Answer::Opened(handle, of, p)) => (Reply::Opened(handle, of).emit(), [p, None]),
            Ok(Answer::Address(address)) => only(Reply::Address(address).emit()),
            Ok(Answer::Value(mut value)) => {
                value.truncate(VALUE_MAX);
                only(Reply::Value(&value).emit())
            }
            Ok(Answer::Region(key, files)) => (Reply::Region(key).emit(), files.map(Some)),
            Ok(Answer::Leased(slot)) => only(Reply::Leased(slot as u32).emit()),
            Err(error) => only(Reply::Failed(error.raw_os_error() as u32).emit()),
        }
    }

    fn hello(&self, stack: &Stack, version: u32) -> Message {
        let mut list = Vec::new();
        let all = stack.layer().addresses().filter(|entry| entry.is_usable());
        let all = all.map(|entry| (entry.cidr.address(), entry.cidr.prefix_len()));
        let back = [(Ipv4Addr::LOCALHOST.into(), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
        let back = back.into_iter().filter(|_| stack.layer().config().loopback);
        emit_addresses(back.chain(all), &mut list);
        match (version, Addresses::parse(&list)) {
            (VERSION, Ok(addresses)) => {
                let interface = stack.interface().index().unwrap_or(0);
                Reply::Welcome { instance: self.instance, interface, addresses }.emit()
            }
            _ => Reply::Failed(Errno::PROTO.raw_os_error() as u32).emit(),
        }
    }

    pub(super) fn carry_out(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        request: &Request<'_>,
        asker: Asker<'_>,
    ) -> Result<Answer> {
        let mut left = 0;
        if let Request::Connect(handle, _) | Request::SetOption(handle, ..) = request
            && self.table.commanded(handle).is_some()
        {
            left = self.send_before(stack, now, handle)?;
        }
        match *request {
            Request::Hello { .. } | Request::Wake | Request::Commands => Err(Errno::PROTO),
            Request::Socket(of) => self.make(of, asker.owner, now),
            Request::Attach => self.attach(asker.fd),
            Request::Restore => self.restore(stack, now, asker.fd, &asker),
            Request::Bind(handle, local) => {
                let local = canonical(local);
                let local = posix::without_zone(local, stack.interface().index());
                let local = local.ok_or(Errno::NODEV)?;
                self.on(&handle, |engine, socket| {
                    match engine.bind(stack, now, socket, local, asker.owner) {
                        Err(Errno::ADDRINUSE) if engine.keeps_restored() => {
                            engine.let_restored_go(now, Some(local.port()));
                            engine.end_closed(stack, now, local.port());
                            engine.bind(stack, now, socket, local, asker.owner)
                        }
                        // Who had the port may have closed, of which we hear by another way than of this.
                        Err(Errno::ADDRINUSE) if engine.end_closed(stack, now, local.port()) => {
                            engine.bind(stack, now, socket, local, asker.owner)
                        }
                        bound => bound,
                    }
                })
            }
            Request::Listen(handle, backlog) => self.on(&handle, |engine, socket| {
                engine.listen(stack, now, socket, backlog, asker.owner)
            }),
            Request::Connect(handle, None) if self.is_stream(&handle) => {
                let answer = self.on(&handle, |_, socket| cancel(stack, socket))?;
                // Its placeholder shows the end before the caller is answered.
                if let Some(index) = self.table.commanded(&handle) {
                    self.turn(stack, now, index).map_err(|_| Errno::NETDOWN)?;
                }
                Ok(answer)
            }
            Request::Connect(handle, remote) => self.on(&handle, |engine, socket| {
                let (p, own) = (asker.fd.ok_or(Errno::INVAL)?, stack.interface().index());
                let plain = |remote| posix::without_zone(canonical(remote), own);
                let remote = remote.map(|remote| plain(remote).ok_or(Errno::NETUNREACH));
                let remote = remote.transpose()?;
                if socket_cookie(p)? != socket.cookie {
                    return Err(Errno::INVAL);
                }
                match (socket.of.kind, remote) {
                    (Kind::Stream, Some(remote)) => {
                        engine.connect(stack, now, socket, remote, p, asker.owner)
                    }
                    (Kind::Messages, Some(remote)) => {
                        engine.call(stack, now, socket, remote, asker.owner)
                    }
                    (Kind::Stream | Kind::Messages, None) => Err(Errno::OPNOTSUPP),
                    (Kind::Datagram, remote) => {
                        engine.connect_datagrams(stack, now, socket, (remote, left), asker.owner)
                    }
                }
            }),
            Request::Local(handle) if self.table.commanded(&handle).is_none() => {
                self.table.epitaph(&handle).map(Answer::Address)
            }
            Request::Local(handle) => self.on(&handle, |_, socket| {
                let local = local(stack, now, socket)?;
                Ok(Answer::Address(Some(zoned(stack, local))))
            }),
            Request::Peer(handle) => self.on(&handle, |_, socket| {
                let peer = peer(stack, socket)?;
                Ok(Answer::Address(peer.map(|peer| zoned(stack, peer))))
            }),
            Request::Option(handle, name) => match self.table.commanded(&handle) {
                Some(_) => self.on(&handle, |engine, socket| {
                    engine.option(stack, now, socket, name).map(Answer::Value)
                }),
                // It ended; its placeholder may be asked why, and of a connection that was refused what was set.
                None if matches!(
                    (name.level, name.name),
                    (libc::SOL_SOCKET, libc::SO_ERROR | FAILURE)
                ) =>
                {
                    let reads = name.name == FAILURE;
                    let error = self.table.exhume(&handle, reads)?.map_or(0, Errno::raw_os_error);
                    Ok(Answer::Value(error.to_ne_bytes().to_vec()))
                }
                None => {
                    let (of, options) = self.table.epitaph_options(&handle)?;
                    let kind = kind_of(of);
                    kind.asks(name.level).map_err(Errno::from_raw_os_error)?;
                    let value = match (name.level, name.name) {
                        (libc::IPPROTO_TCP, libc::TCP_INFO) => unconnected_tcp_info(false),
                        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                            options.segment().to_ne_bytes().to_vec()
                        }
                        _ => value_of(stack, options, name, kind.is_tcp)?,
                    };
                    Ok(Answer::Value(value))
                }
            },
            Request::SetOption(handle, name, value) if self.table.commanded(&handle).is_none() => {
                let (of, options) = self.table.epitaph_options(&handle)?;
                let kind = kind_of(of);
                kind.sets(name.level).map_err(Errno::from_raw_os_error)?;
                let set = options.set((name.level, name.name), value, kind.is_tcp);
                set.map(|_| Answer::Done).map_err(Errno::from_raw_os_error)
            }
            Request::SetOption(handle, name, value) => self.on(&handle, |engine, socket| {
                if name.level == SOL_XTP {
                    return engine.set_xtp(socket, name.name, value);
                }
                let kind = kind_of(socket.of);
                kind.sets(name.level).map_err(Errno::from_raw_os_error)?;
                if posix::is_membership(name.level, name.name) {
                    let any = socket.of.family.unspecified();
                    let any = engine.policy.place(socket.owner(), any)?;
                    return change_membership(stack, now, (socket, any), (name, value));
                }
                if (name.level, name.name) == (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX) {
                    // Another interface is refused when the socket becomes the outboard's: it may become the kernel's.
                    let is_fresh = matches!(socket.state, State::Fresh) && socket.bound.is_none();
                    let own = stack.interface().index().filter(|_| !is_fresh);
                    let wanted = value.first_chunk().map(|wanted| u32::from_ne_bytes(*wanted));
                    let own = if is_fresh { wanted } else { own };
                    let bound = socket.options.bind_to(value, own);
                    return bound.map(|()| Answer::Done).map_err(Errno::from_raw_os_error);
                }
                let asked = socket.options.recv_buffer;
                let before = socket.options.extra_room(stack, socket.state.id());
                socket.options.is_privileged = asker.owner.uid == 0;
                let effect = socket.options.set((name.level, name.name), value, kind.is_tcp);
                let effect = effect.map_err(Errno::from_raw_os_error)?;
                let after = socket.options.extra_room(stack, socket.state.id());
                let is_room = socket.of.kind == Kind::Datagram && after > before;
                if is_room && !engine.accounts.admits_reserved(socket.payer, after - before) {
                    // As beyond the kernel's limit: it has what it had, and nothing is said.
                    socket.options.recv_buffer = asked;
                    return Ok(Answer::Done);
                }
                if let Some(lease) = &mut socket.lease {
                    // Its application may have changed that since it was looked at.
                    let is_cork = (name.level, name.name) == (libc::IPPROTO_TCP, libc::TCP_CORK);
                    if is_cork {
                        engine.regions.cork(lease, socket.options.cork);
                    }
                    if effect == Effect::Push || is_cork && !socket.options.cork {
                        lease.push();
                    }
                }
                let answer = apply(stack, now, socket, effect)?;
                engine.charge(socket, stack, 0);
                Ok(answer)
            }),
            Request::Region => {
                let made =
                    self.regions.make(asker.guest, asker.owner.payer, self.accounts.regions());
                made.map(|(key, files)| Answer::Region(key, files))
            }
            Request::Lease(handle, key) => self.on(&handle, |engine, socket| {
                engine.lease(stack, socket, &key).map(Answer::Leased)
            }),
        }
    }

    fn is_stream(&mut self, handle: &Handle) -> bool {
        let index = self.table.commanded(handle);
        let socket = index.and_then(|index| self.table.at(index));
        socket.is_some_and(|socket| socket.of.kind == Kind::Stream)
    }

    /// Gives a socket's one user its rings. What lies in the placeholder, either way, goes before what they have.
    fn lease(
        &mut self,
        stack: &mut Stack,
        socket: &mut Socket,
        key: &[u8; KEY_LEN],
    ) -> Result<usize> {
        let has_rings = matches!(socket.state, State::Stream(_) | State::Datagrams { .. });
        if !has_rings || socket.is_shared || socket.has_finished {
            return Err(Errno::OPNOTSUPP);
        }
        if socket.lease.is_some() || socket.offered_by.is_some() {
            return Err(Errno::AGAIN);
        }
        let before = rustix::io::ioctl_fionread(&socket.q)?;
        let index = self.table.index_of_taken(socket.handle.socket);
        let asked = Asked {
            before,
            peer_has_finished: socket.peer_is_told,
            is_corked: socket.options.cork,
            is_wide: socket.moved >= MUCH && self.accounts.admits_reserved(socket.payer, WIDE),
        };
        let (lease, slot) = self.regions.lease(key, index, asked)?;
        socket.lease = Some(lease);
        self.charge(socket, stack, 0);
        socket.shown.readable |= before > 0;
        self.rewatch(index, socket, true)?;
        Ok(slot)
    }

    /// Runs `f` on the socket that a handle commands.
    fn on(
        &mut self,
        handle: &Handle,
        f: impl FnOnce(&mut Engine, &mut Socket) -> Result<Answer>,
    ) -> Result<Answer> {
        let index = self.table.commanded(handle).ok_or(Errno::BADF)?;
        let mut socket = self.table.take(index).ok_or(Errno::BADF)?;
        let answer = f(self, &mut socket);
        self.table.put(index, socket);
        self.table.reindex(index);
        self.table.mark(index);
        answer
    }

    fn make(&mut self, of: SocketType, owner: Owner, now: Instant) -> Result<Answer> {
        self.accounts.admit_socket(owner.payer, of.kind)?;
        let (handle, p) = self.open(of, owner, State::Fresh, now)?;
        Ok(Answer::Opened(handle, of, Some(p)))
    }

    /// Makes a socket of a user and a process of his, with its placeholder.
    pub fn open(
        &mut self,
        of: SocketType,
        Owner { uid, pid, payer }: Owner,
        state: State,
        now: Instant,
    ) -> Result<(Handle, OwnedFd)> {
        let number = self.table.next_number();
        let pair = placeholder::pair(of.kind);
        let pair = pair.inspect_err(|error| {
            self.report_limit(now, *error);
        })?;
        placeholder::name_it(&pair.q, self.instance);
        let token = fusewire_device::random().map_err(|_| Errno::NOMEM)?;
        let handle = Handle { socket: number, token };
        let index = self.table.insert(Socket {
            handle,
            cookie: pair.cookie,
            uid,
            pid,
            payer,
            backlog: 0,
            has_piped: false,
            is_held_back: false,
            charged: Default::default(),
            may_send: true,
            of,
            q: pair.q,
            state,
            block: (of.kind == Kind::Messages).then(|| Box::new(contexts::control_block())),
            options: Default::default(),
            bound: None,
            error: None,
            is_refused: false,
            has_word: false,
            shown: Shown { writable: true, ..Shown::default() },
            has_finished: false,
            peer_is_told: false,
            offered_by: None,
            lost_at: None,
            moved: 0,
            taken: 0,
            lease: None,
            is_shared: false,
        });
        self.accounts.add_socket(payer, of.kind, now);
        if let Err(error) = self.watch(index) {
            self.table.remove(index);
            self.accounts.remove_socket(payer, of.kind, &Default::default());
            return Err(error);
        }
        Ok((handle, pair.p))
    }

    pub(super) fn attach(&mut self, p: Option<BorrowedFd<'_>>) -> Result<Answer> {
        let p = p.ok_or(Errno::INVAL)?;
        let cookie = socket_cookie(p)?;
        let index = self.table.by_cookie(cookie).ok_or(Errno::NOTSOCK)?;
        let socket = self.table.at(index).ok_or(Errno::NOTSOCK)?;
        socket.is_shared = true;
        if let Some(lease) = &mut socket.lease {
            self.regions.revoke(lease, Some(p), socket.q.as_fd())?;
        }
        if socket.of.kind == Kind::Datagram {
            // Whole messages of any length go there from now on.
            let _ = placeholder::widen(p);
        }
        let answer = Answer::Opened(socket.handle, socket.of, None);
        self.table.mark(index);
        Ok(answer)
    }

    /// Returns where a socket is bound for a sender that wants `local`. The rights are those of the sender as they are now,
    /// whoever made the socket, whose budget pays for it.
    ///
    /// # Errors
    /// `EACCES`: the sender must not bind there.
    fn place(&self, socket: &Socket, local: SocketAddr, asker: Owner) -> Result<SocketAddr> {
        self.policy.place(Owner { payer: socket.payer, ..asker }, local)
    }

    /// Binds a socket of TCP's or XTP's.
    fn reserve(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        local: SocketAddr,
    ) -> Result<SocketAddr> {
        is_here(stack, socket)?;
        self.accounts.admit_bound(socket.payer, socket.of.kind)?;
        let bound = match socket.of.kind {
            Kind::Messages => self.xtp.bind(stack, local)?,
            _ => {
                let sharing = socket.options.sharing(true, socket.uid);
                self.bound.reserve(stack, local, sharing).map_err(number_of)?
            }
        };
        self.accounts.add_bound(socket.payer, socket.of.kind, now);
        socket.bound = Some(bound);
        Ok(bound)
    }

    fn bind(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        local: SocketAddr,
        asker: Owner,
    ) -> Result<Answer> {
        if socket.bound.is_some() || !matches!(socket.state, State::Fresh) {
            return Err(Errno::INVAL);
        }
        let local = self.place(socket, local, asker)?;
        match socket.of.kind {
            Kind::Datagram => bind_datagrams(stack, socket, local)?,
            Kind::Stream | Kind::Messages => {
                self.reserve(stack, now, socket, local)?;
            }
        }
        Ok(Answer::Done)
    }

    fn listen(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        backlog: u32,
        asker: Owner,
    ) -> Result<Answer> {
        match socket.state {
            _ if socket.of.kind == Kind::Datagram => return Err(Errno::OPNOTSUPP),
            State::Listening { .. } => return Ok(Answer::Done),
            State::Fresh => {}
            _ => return Err(Errno::INVAL),
        }
        let any = self.place(socket, socket.of.family.unspecified(), asker)?;
        let wanted = backlog.clamp(1, 4096) as usize;
        self.accounts.remove_backlog(socket.payer, std::mem::take(&mut socket.backlog));
        let backlog = self.accounts.add_backlog(socket.payer, wanted, now)?;
        socket.backlog = backlog;
        if socket.of.kind == Kind::Messages {
            return self.offer(stack, now, socket, any, backlog);
        }
        let local = match socket.bound {
            Some(local) => local,
            None => self.reserve(stack, now, socket, any)?,
        };
        let sharing = socket.options.sharing(true, socket.uid);
        let config = settings(stack, socket);
        let id = stack.tcp_listen_sharing(local, backlog, &config, sharing).map_err(number_of)?;
        socket.state = State::listening(Listens::Tcp(id));
        apply(stack, now, socket, Effect::Tune)?;
        apply(stack, now, socket, Effect::Marking)
    }

    /// Offers a service of XTP.
    fn offer(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        any: SocketAddr,
        backlog: usize,
    ) -> Result<Answer> {
        let local = match socket.bound {
            Some(local) => local,
            None => self.reserve(stack, now, socket, any)?,
        };
        let index = self.table.index_of_taken(socket.handle.socket);
        let block = socket.block.as_deref().ok_or(Errno::OPNOTSUPP)?;
        let service = self.xtp.listen(stack, now, (index, local, backlog), block)?;
        socket.state = State::listening(Listens::Service(service));
        Ok(Answer::Done)
    }

    /// Calls a service of XTP. What is sent leaves before the peer has answered.
    fn call(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        remote: SocketAddr,
        asker: Owner,
    ) -> Result<Answer> {
        if !matches!(socket.state, State::Fresh) {
            return Err(Errno::ISCONN);
        }
        discard(socket)?;
        let any = match socket.bound {
            Some(local) => local,
            None => self.place(socket, socket.of.family.unspecified(), asker)?,
        };
        let index = self.table.index_of_taken(socket.handle.socket);
        let block = socket.block.as_deref().ok_or(Errno::OPNOTSUPP)?;
        let used = self.xtp.connect(stack, now, (index, any, remote), block)?;
        socket.state = State::Context(used);
        Ok(Answer::Done)
    }

    fn set_xtp(&mut self, socket: &mut Socket, name: i32, value: &[u8]) -> Result<Answer> {
        let used = match &socket.state {
            State::Context(used) => Some(used),
            State::Listening { .. } => return Err(Errno::INVAL),
            _ => None,
        };
        let block = socket.block.as_deref_mut().ok_or(Errno::NOPROTOOPT)?;
        self.xtp.set_option(name, value, block, used).map(|()| Answer::Done)
    }

    fn connect(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        remote: SocketAddr,
        p: BorrowedFd<'_>,
        asker: Owner,
    ) -> Result<Answer> {
        match socket.state {
            State::Fresh => {}
            State::Connecting { .. } => return Err(Errno::ALREADY),
            _ => return Err(Errno::ISCONN),
        }
        is_here(stack, socket)?;
        if !self.accounts.may_connect(socket.payer, now) {
            return Err(Errno::AGAIN);
        }
        discard(socket)?;
        // Of a user with addresses of his own the stack chooses none.
        let any = socket.of.family.unspecified();
        let own = self.place(socket, any, asker)?;
        if socket.bound.is_none() && own != any {
            self.reserve(stack, now, socket, own)?;
        }
        let config = settings(stack, socket);
        let id = stack.tcp_connect_with(now, remote, socket.bound, &config).map_err(number_of)?;
        let stuffed = placeholder::stuff(p).inspect_err(|_| {
            let _ = stack.close(now, id);
        })?;
        socket.state = State::Connecting { id, stuffed };
        apply(stack, now, socket, Effect::Tune)?;
        apply(stack, now, socket, Effect::Marking)
    }

    fn connect_datagrams(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        (remote, left): (Option<SocketAddr>, u64),
        asker: Owner,
    ) -> Result<Answer> {
        if matches!(socket.state, State::Fresh) {
            let any = socket.of.family.unspecified();
            bind_datagrams(stack, socket, self.place(socket, any, asker)?)?;
        }
        let State::Datagrams { id, peer, earlier, .. } = &mut socket.state else {
            return Err(Errno::INVAL);
        };
        let meant = |to: SocketAddr| SocketAddr::new(stack.layer().meant(to.ip()), to.port());
        let remote = remote.map(meant);
        if let Some(remote) = remote {
            let options = &socket.options;
            options.may_send_to(stack, remote.ip()).map_err(Errno::from_raw_os_error)?;
            stack.source_for(now, remote.ip()).map_err(number_of)?;
        }
        if remote != *peer && !earlier.has_room(left) {
            return Err(Errno::AGAIN);
        }
        stack.udp_connect(*id, remote).map_err(number_of)?;
        if remote != *peer {
            earlier.add(*peer, left);
        }
        *peer = remote;
        Ok(Answer::Done)
    }

    fn option(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: &mut Socket,
        name: OptionName,
    ) -> Result<Vec<u8>> {
        let kind = kind_of(socket.of);
        if name.level != SOL_XTP {
            kind.asks(name.level).map_err(Errno::from_raw_os_error)?;
        }
        let is_tcp = kind.is_tcp;
        let is_listening = matches!(socket.state, State::Listening { .. });
        let int = match (name.level, name.name) {
            (libc::SOL_SOCKET, libc::SO_ERROR | FAILURE) => {
                let reads = name.name == FAILURE;
                socket.has_word &= !reads;
                let is_told = !reads || !socket.is_writers_alone();
                socket.error.take_if(|_| is_told).map_or(0, Errno::raw_os_error)
            }
            (libc::SOL_SOCKET, libc::SO_TYPE) => match socket.of.kind {
                Kind::Stream => libc::SOCK_STREAM,
                Kind::Datagram => libc::SOCK_DGRAM,
                Kind::Messages => libc::SOCK_SEQPACKET,
            },
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => match socket.of.kind {
                Kind::Stream => libc::IPPROTO_TCP,
                Kind::Datagram => libc::IPPROTO_UDP,
                Kind::Messages => SOL_XTP,
            },
            (SOL_XTP, name) => {
                let block = socket.block.as_deref().ok_or(Errno::NOPROTOOPT)?;
                let used = match &socket.state {
                    State::Context(used) => Some(used),
                    _ => None,
                };
                self.xtp.option(name, block, used)?
            }
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => match socket.of.family {
                Family::V4 => libc::AF_INET,
                Family::V6 => libc::AF_INET6,
            },
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => i32::from(is_listening),
            (libc::IPPROTO_TCP, libc::TCP_INFO) if is_tcp => {
                return match socket.state {
                    State::Stream(id) | State::Connecting { id, .. } => {
                        stack.linux_tcp_info(now, id).map_err(number_of)
                    }
                    _ => Ok(unconnected_tcp_info(is_listening)),
                };
            }
            (libc::SOL_SOCKET, UNSENT) if is_tcp => match socket.state {
                State::Stream(id) => {
                    let unacked = stack.tcp_info(id).map_err(number_of)?.unacked;
                    let unsent = stack.tcp_unsent(id).map_err(number_of)?;
                    i32::try_from(unacked + unsent).unwrap_or(i32::MAX)
                }
                _ => 0,
            },
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if is_tcp => match socket.state {
                State::Stream(id) => stack.tcp_info(id).map_err(number_of)?.max_payload as i32,
                _ => socket.options.segment(),
            },
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
                let (option, peer) = ((name.level, name.name), peer(stack, socket)?);
                let mtu = Options::path_mtu(stack, now, option, peer.map(|peer| peer.ip()));
                mtu.unwrap_or(Err(libc::ENOPROTOOPT)).map_err(Errno::from_raw_os_error)?
            }
            _ => return value_of(stack, &socket.options, name, is_tcp),
        };
        Ok(int.to_ne_bytes().to_vec())
    }
}

/// The address as the application reads it.
pub fn zoned(stack: &Stack, address: SocketAddr) -> SocketAddr {
    posix::with_zone(address, stack.interface().index().unwrap_or(0))
}

/// Ends the handshake of a stream, whose placeholder shows then that it has failed.
fn cancel(stack: &mut Stack, socket: &Socket) -> Result<Answer> {
    match socket.state {
        State::Connecting { id, .. } => {
            stack.tcp_cancel(id).map(|()| Answer::Done).map_err(number_of)
        }
        State::Fresh => Err(Errno::NOTCONN),
        _ => Err(Errno::ISCONN),
    }
}

/// The address that is meant: an IPv4-mapped one is IPv4's.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Of which kind a socket is to its options.
fn kind_of(of: SocketType) -> KindOf {
    KindOf { is_v4: of.family == Family::V4, is_tcp: of.kind == Kind::Stream }
}

/// TCP's settings as a socket's options want them.
fn settings(stack: &Stack, socket: &Socket) -> TcpConfig {
    socket.options.apply(stack.config().tcp.clone())
}

/// Makes a socket for datagrams known to the stack.
pub fn bind_datagrams(stack: &mut Stack, socket: &mut Socket, local: SocketAddr) -> Result<()> {
    is_here(stack, socket)?;
    let sharing = socket.options.sharing(false, socket.uid);
    let id = stack.udp_bind_sharing(local, sharing).map_err(number_of)?;
    stack.set_marking(id, socket.options.marking).map_err(number_of)?;
    socket.options.make_room(stack, id).map_err(number_of)?;
    let (port, earlier) = (local.port(), Earlier::default());
    socket.state = State::Datagrams { id, port, peer: None, earlier, pending: None };
    Ok(())
}

/// Forgets what was sent before there was a connection: nobody can have meant it.
///
/// # Errors
/// `EAGAIN`: there is more than a few calls take, or somebody goes on sending.
fn discard(socket: &Socket) -> Result<()> {
    let mut nowhere = [0; 4096];
    let flags = rustix::net::RecvFlags::DONTWAIT;
    for _ in 0..DISCARDS {
        match rustix::net::recv(&socket.q, &mut nowhere, flags) {
            Ok((_, 1..)) => {}
            _ => return Ok(()),
        }
    }
    Err(Errno::AGAIN)
}

/// The address of a socket's own.
pub fn local(stack: &mut Stack, now: Instant, socket: &Socket) -> Result<SocketAddr> {
    if let State::Context(used) = &socket.state {
        return Ok(used.local);
    }
    let Some(id) = socket.state.id() else {
        return Ok(socket.bound.unwrap_or(socket.of.family.unspecified()));
    };
    let local = stack.local_addr(id).map_err(number_of)?;
    let peer: Option<IpAddr> = match &socket.state {
        State::Datagrams { peer, .. } => peer.map(|peer| peer.ip()),
        _ => None,
    };
    match peer.filter(|_| local.ip().is_unspecified()) {
        Some(peer) => {
            let source = stack.source_for(now, peer).unwrap_or(local.ip());
            Ok(SocketAddr::new(source, local.port()))
        }
        None => Ok(local),
    }
}

fn peer(stack: &mut Stack, socket: &Socket) -> Result<Option<SocketAddr>> {
    match &socket.state {
        State::Datagrams { peer, .. } => Ok(*peer),
        State::Context(used) => Ok(Some(used.peer)),
        State::Stream(id) if stack.tcp_state(*id).map_err(number_of)? != TcpState::Closed => {
            Ok(Some(stack.tcp_tuple(*id).map_err(number_of)?.remote))
        }
        _ => Ok(None),
    }
}
