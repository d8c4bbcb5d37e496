//! Calls on TCP sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use fusewire_base::Instant;
use fusewire_kernels::stage::AnyStage;
use fusewire_transport::machine::{Cut, Info, Listener as _};
use fusewire_transport::tcp::{self, Connection, Listener, Ports, State, Tuple};

use super::config::{Error, Marking, Result, SocketId};
use super::input::Direct;
use super::reader::{Piped, Place};
use super::sharing::{Claim, Sharing};
use super::stack::{Stack, mss};
use super::table::{Flow, Protocol, Socket, Table};
use super::tcp::{ListenerSocket, Stream};
use crate::trace::Entry;

impl Stack {
    /// Takes connections to `local`; port 0 asks for any, an unspecified IPv6 address takes IPv4 too. At
    /// most `backlog` of them wait to be accepted.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotOurs`], [`Error::TooManySockets`], [`Error::NoPort`].
    pub fn tcp_listen(&mut self, local: SocketAddr, backlog: usize) -> Result<SocketId> {
        let config = self.core.config.tcp.clone();
        self.tcp_listen_with(local, backlog, &config)
    }

    /// The same with settings of its own for the connections to come.
    ///
    /// # Errors
    /// As [`Stack::tcp_listen`].
    pub fn tcp_listen_with(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        config: &tcp::Config,
    ) -> Result<SocketId> {
        self.tcp_listen_sharing(local, backlog, config, Sharing::default())
    }

    /// The same beside others.
    ///
    /// # Errors
    /// As [`Stack::tcp_listen`].
    pub fn tcp_listen_sharing(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        config: &tcp::Config,
        sharing: Sharing,
    ) -> Result<SocketId> {
        let local = self.reserve_bound_port(Protocol::Tcp, Claim { local, sharing })?;
        let core = &mut self.core;
        let mtu = core.output.offload.mtu;
        let machine = |ipv4: bool| {
            Listener::new(&config.for_path(mss(mtu, ipv4), ipv4), backlog, &core.secrets)
        };
        let v4 = local.is_ipv4() || (local.ip().is_unspecified() && !sharing.v6_only);
        let machines = [v4.then(|| machine(true)), local.is_ipv6().then(|| machine(false))];
        let listener = ListenerSocket {
            local,
            sharing,
            defer: None,
            machines,
            config: config.clone(),
            marking: Marking::default(),
            waiting: VecDeque::with_capacity(backlog.clamp(1, 4096)),
        };
        core.insert_bound(Protocol::Tcp, Socket::Listener(Box::new(listener)))
    }

    /// A connection that waits, and its peer.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_accept(&mut self, id: SocketId) -> Result<Option<(SocketId, SocketAddr)>> {
        loop {
            let listener = self.core.table.listener(id)?;
            let Some(accepted) = listener.waiting.pop_front() else { return Ok(None) };
            let Ok(stream) = self.core.table.stream(accepted) else { continue };
            stream.parent = None;
            let tuple = stream.tuple;
            let listener = self.core.table.listener(id)?;
            if let Some(machine) = &mut listener.machines[usize::from(tuple.local.is_ipv6())] {
                machine.taken();
            }
            return Ok(Some((accepted, tuple.remote)));
        }
    }

    /// Begins a connection; `Event::Connected` or `Event::Closed` follows.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoRoute`], [`Error::InUse`], [`Error::NotOurs`], [`Error::NoPort`],
    /// [`Error::TooManySockets`].
    pub fn tcp_connect(&mut self, now: Instant, remote: SocketAddr) -> Result<SocketId> {
        let config = self.core.config.tcp.clone();
        self.tcp_connect_with(now, remote, None, &config)
    }

    /// The same from a chosen address (and port, unless it is 0), with settings of its own.
    ///
    /// # Errors
    /// As [`Stack::tcp_connect`].
    pub fn tcp_connect_with(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        config: &tcp::Config,
    ) -> Result<SocketId> {
        let remote = SocketAddr::new(self.core.layer.meant(remote.ip()), remote.port());
        let nobody = remote.port() == 0 || remote.ip().is_unspecified();
        if nobody || self.core.layer.is_group(remote.ip()) {
            return Err(Error::Unreachable);
        }
        if let Some(local) = local {
            self.check_local(Protocol::Tcp, local)?;
        }
        let asked = local.map(|l| l.ip()).filter(|ip| !ip.is_unspecified());
        let core = &mut self.core;
        let source = core.source(now, remote.ip(), asked)?;
        let is_free = |table: &Table, port: u16| {
            let at = SocketAddr::new(source, port);
            !table.flows.contains_key(&Flow::new(at, remote))
                && table.bound(Protocol::Tcp, port).is_empty()
        };
        let local = match local.map_or(0, |l| l.port()) {
            0 => self.reserve_any_port(Protocol::Tcp, source, Some(remote), is_free)?,
            port => {
                let local = SocketAddr::new(source, port);
                if core.table.flows.contains_key(&Flow::new(local, remote)) {
                    return Err(Error::InUse(local));
                }
                self.reserve_port(Protocol::Tcp, local)?;
                local
            }
        };
        let core = &mut self.core;
        let config = {
            let ipv4 = remote.is_ipv4();
            config.for_path(mss(core.output.offload.mtu, ipv4), ipv4)
        };
        let port = local.port();
        let flow = Ports { local: port, remote: remote.port() };
        let tuple = Tuple { local, remote, flow };
        let start = core.isn.start(now, &tuple);
        let tcp = Connection::connect(&config, port, remote.port(), start, now);
        let inserted = core.insert_stream(Stream::new(tuple, tcp, &config, core.config.level));
        let index = inserted.inspect_err(|_| core.free_port(Protocol::Tcp, port))?;
        core.mark(index);
        Ok(core.table.id(index))
    }

    /// Takes up to `bytes.len()` bytes to be sent; 0 when there is no room: `Event::Writable` follows.
    ///
    /// # Errors
    /// What ended the connection; [`Error::Finished`] after [`Stack::tcp_finish`].
    pub fn tcp_write(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize> {
        self.write_by(id, |stream| stream.write(bytes, Cut::Stream))
    }

    /// As [`Stack::tcp_write`], without a copy: the connection refers to the bytes where they are until the peer has
    /// acknowledged them or the connection is over, and frames are gathered from there. Each call takes one reference
    /// of 1024 at the most; a piece of less than 512 bytes, or one too many, is copied. Both kinds of write may
    /// alternate, and count alike towards `send_buffer`.
    ///
    /// The reference is dropped inside the stack: an owner of the bytes (`Bytes::from_owner`) must not call the stack
    /// or its host when it is dropped.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`].
    pub fn tcp_write_shared(&mut self, id: SocketId, bytes: &Bytes) -> Result<usize> {
        self.write_by(id, |stream| stream.write_shared(bytes, Cut::Stream))
    }

    /// As [`Stack::tcp_write`] of what `fill` lays into the connection's own memory: it is given room for up to `most`
    /// bytes, in one piece or two, and says how many it has filled; 0 and errors change nothing. So a read from a descriptor
    /// needs no memory in between. `None`: there is no room, and `fill` was not called.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`].
    pub fn tcp_write_from(
        &mut self,
        id: SocketId,
        most: usize,
        fill: impl FnOnce([&mut [u8]; 2]) -> io::Result<usize>,
    ) -> Result<Option<io::Result<usize>>> {
        let stream = self.core.table.stream(id)?;
        stream.tcp.set_more(stream.corked);
        let filled = stream.write_from(most, fill)?;
        if let Some(Ok(1..)) = filled {
            self.core.mark(id.index);
        }
        Ok(filled)
    }

    /// As [`Stack::tcp_write`] of what `pipeline` makes of a message: it stores its bytes in the retransmission memory, and
    /// sums them where the interface does not, in one loop. Takes whole blocks of the pipeline, or all that is left, so that
    /// what it makes of the message is the same in however many calls it is written.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`].
    pub fn tcp_write_with<S: AnyStage>(
        &mut self,
        id: SocketId,
        pipeline: &S,
        message: &[u8],
    ) -> Result<usize> {
        self.write_by(id, |stream| stream.write_with(pipeline, message))
    }

    /// Writes, and sees to it that what was written leaves.
    pub(super) fn write_by(
        &mut self,
        id: SocketId,
        write: impl FnOnce(&mut Stream) -> Result<usize>,
    ) -> Result<usize> {
        let stream = self.core.table.stream(id)?;
        // Unless who writes says more.
        stream.tcp.set_more(stream.corked);
        let written = write(stream)?;
        if written > 0 {
            self.core.mark(id.index);
        }
        Ok(written)
    }

    /// What was written last is urgent (RFC 6093).
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_mark_urgent(&mut self, id: SocketId) -> Result<()> {
        self.core.table.stream(id)?.tcp.mark_urgent();
        Ok(())
    }

    /// Copies what was received into `out`. `None`: nothing is there yet; `Some(0)`: the end of the stream.
    ///
    /// # Errors
    /// What ended the connection before its end.
    #[inline]
    pub fn tcp_read(&mut self, id: SocketId, out: &mut [u8]) -> Result<Option<usize>> {
        let stream = self.core.table.stream(id)?;
        let len = stream.read(out);
        if len > 0 {
            if stream.tcp.wants_ack() {
                self.core.mark(id.index);
            }
            return Ok(Some(len));
        }
        if out.is_empty() && stream.readable() > 0 {
            return Ok(Some(0));
        }
        Self::end_of(stream)
    }

    pub(super) fn end_of(stream: &Stream) -> Result<Option<usize>> {
        if let Some(error) = stream.error.filter(|error| *error != Error::Broken) {
            return Err(error);
        }
        Ok(stream.at_end().then_some(0))
    }

    /// As [`Stack::tcp_read`], and when nothing is there receives a batch of packets whose next bytes of
    /// this stream go straight from the interface to `out`, verified on the way.
    ///
    /// # Errors
    /// The interface's, and what ended the connection as an error of the kind `Other`.
    pub fn tcp_read_into(
        &mut self,
        now: Instant,
        id: SocketId,
        out: &mut [u8],
    ) -> io::Result<Result<Option<usize>, Error>> {
        match self.tcp_read(id, out) {
            Ok(None) => {}
            done => return Ok(done),
        }
        let mut place = Place::new(out);
        if self.receive_placed(now, id.index, &mut place)?.is_none() {
            self.receive(now, &mut Direct::Stream { index: id.index, reader: &mut place })?;
        }
        let (filled, out) = (place.filled, place.memory);
        if filled > 0 {
            return Ok(Ok(self.was_read(id, filled)));
        }
        Ok(self.tcp_read(id, out))
    }

    /// So many bytes went from the interface to their reader.
    pub(super) fn was_read(&mut self, id: SocketId, len: usize) -> Option<usize> {
        if let Ok(stream) = self.core.table.stream(id) {
            stream.consume(0);
        }
        Some(len)
    }

    /// As [`Stack::tcp_read`] of what `pipeline` makes of the bytes: whole blocks of it, and what is left of one at the end of
    /// the stream. It is a pass of its own over what was received before; [`Stack::tcp_recv_with`] needs none.
    ///
    /// # Errors
    /// As [`Stack::tcp_read`]; [`Error::CutShort`] when the stream ends within a block, of a pipeline that takes whole ones
    /// alone; [`Error::Misuse`] when `out` has no room for a block.
    pub fn tcp_read_with<S: AnyStage>(
        &mut self,
        id: SocketId,
        pipeline: &S,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        if out.len() < S::BLOCK {
            return Err(Error::Misuse("there is no room for a block of the pipeline"));
        }
        let stream = self.core.table.stream(id)?;
        let len = stream.read_with(pipeline, out)?;
        if len == 0 {
            return Self::end_of(stream);
        }
        if stream.tcp.wants_ack() {
            self.core.mark(id.index);
        }
        Ok(Some(len))
    }

    /// As [`Stack::tcp_read_with`], and when nothing is there receives a batch of packets: `pipeline` runs over the next bytes
    /// of this stream in the loop that verifies and stores them. What is left of a block at the end of a segment waits for the
    /// next: those few bytes alone are read again.
    ///
    /// # Errors
    /// As [`Stack::tcp_read_into`] and [`Stack::tcp_read_with`].
    pub fn tcp_recv_with<S: AnyStage>(
        &mut self,
        now: Instant,
        id: SocketId,
        pipeline: &S,
        out: &mut [u8],
    ) -> io::Result<Result<Option<usize>, Error>> {
        match self.tcp_read_with(id, pipeline, out) {
            Ok(None) => {}
            done => return Ok(done),
        }
        let mut piped = Piped { pipeline, place: Place::new(out) };
        self.receive(now, &mut Direct::Stream { index: id.index, reader: &mut piped })?;
        let Place { filled, memory, .. } = piped.place;
        if filled > 0 {
            return Ok(Ok(self.was_read(id, filled)));
        }
        Ok(self.tcp_read_with(id, pipeline, memory))
    }

    /// What was received and not read, in one piece or two.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_peek(&mut self, id: SocketId) -> Result<(&[u8], &[u8])> {
        Ok(self.core.table.stream(id)?.peek())
    }

    /// The application is done with the first `len` bytes of what [`Stack::tcp_peek`] shows.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_consume(&mut self, id: SocketId, len: usize) -> Result<()> {
        self.core.table.stream(id)?.consume(len);
        self.core.mark(id.index);
        Ok(())
    }

    /// Bytes that may be read, and bytes that may be written.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_room(&mut self, id: SocketId) -> Result<(usize, usize)> {
        let stream = self.core.table.stream(id)?;
        Ok((stream.readable(), stream.room()))
    }

    /// No more will be written; reading goes on (half close).
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_finish(&mut self, id: SocketId) -> Result<()> {
        self.core.table.stream(id)?.tcp.finish();
        self.core.mark(id.index);
        self.core.settle(id.index);
        Ok(())
    }

    /// Ends a handshake that the application has begun: the connection fails with [`Error::Reset`].
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_cancel(&mut self, id: SocketId) -> Result<()> {
        let stream = self.core.table.stream(id)?;
        stream.error.get_or_insert(Error::Reset);
        stream.tcp.abort();
        self.core.mark(id.index);
        self.core.settle(id.index);
        Ok(())
    }

    /// The state of a connection.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_state(&mut self, id: SocketId) -> Result<State> {
        Ok(self.core.table.stream(id)?.tcp.state())
    }

    /// Estimates and counters of a connection.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_info(&mut self, id: SocketId) -> Result<Info> {
        Ok(self.core.table.stream(id)?.tcp.info())
    }

    /// Both ends of a connection.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_tuple(&mut self, id: SocketId) -> Result<Tuple> {
        Ok(self.core.table.stream(id)?.tuple)
    }

    /// What a connection did last, oldest first.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_trace(&mut self, id: SocketId) -> Result<Vec<Entry>> {
        Ok(self.core.table.stream(id)?.trace.iter().copied().collect())
    }

    /// Off, and on again: for who measures what the trace costs.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    #[doc(hidden)]
    pub fn tcp_set_trace(&mut self, id: SocketId, on: bool) -> Result<()> {
        self.core.table.stream(id)?.trace.off = !on;
        Ok(())
    }

    /// The machine itself, for what no call of the stack gives. Whoever changes it calls
    /// [`Stack::transmit`] afterwards.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_machine(&mut self, id: SocketId) -> Result<&mut Connection> {
        self.core.mark(id.index);
        Ok(&mut self.core.table.stream(id)?.tcp)
    }

    /// Has the port of a socket that is to be bound; any where `local` has none.
    pub(super) fn reserve_bound_port(
        &mut self,
        protocol: Protocol,
        claim: Claim,
    ) -> Result<SocketAddr> {
        let local = claim.local;
        if local.port() == 0 {
            self.check_local(protocol, local)?;
            let is_free = |table: &Table, port: u16| table.bound(protocol, port).is_empty();
            return self.reserve_any_port(protocol, local.ip(), None, is_free);
        }
        self.reserve_whole(protocol, claim)
    }

    /// Has what is named by all of `local`: a port, or what has port 0 for having none.
    pub(super) fn reserve_whole(&mut self, protocol: Protocol, claim: Claim) -> Result<SocketAddr> {
        let local = claim.local;
        self.check_local(protocol, local)?;
        let table = &self.core.table;
        let others = table.bound(protocol, local.port()).iter();
        let mut others = others.filter_map(|at| table.slots[*at as usize].socket.as_ref());
        let shares = protocol == Protocol::Udp && local.ip().is_multicast();
        if !shares && others.any(|other| other.claim().excludes(&claim)) {
            return Err(Error::InUse(local));
        }
        self.reserve_port(protocol, local).map(|()| local)
    }

    fn check_local(&self, protocol: Protocol, local: SocketAddr) -> Result<()> {
        let (addr, layer) = (local.ip(), &self.core.layer);
        // Who is bound to all of a network takes what comes for all of it.
        let is_all = protocol == Protocol::Udp && layer.is_group(addr);
        if addr.is_unspecified() || addr.is_multicast() || is_all || layer.is_own(addr) {
            return Ok(());
        }
        Err(Error::NotOurs(local))
    }
}
