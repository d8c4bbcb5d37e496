//! What is done for sockets between the calls on them: frames of a connection collected, what happened to it told,
//! its timers run, its end.

use std::net::IpAddr;

use fusewire_base::Instant;
use fusewire_net::NoPath;
use fusewire_transport::machine::Listener as _;
use fusewire_transport::tcp::State;

use super::{CONFIRM, Core, RESOLVE_RETRY, mss};
use crate::ip::config::{Error, Event, Result, SocketId};
use crate::ip::output::Offload;
use crate::ip::sums::Sums;
use crate::ip::table::{Flow, Protocol, Socket};
use crate::ip::tcp::Stream;

/// Timeouts in a row after which IP is told that the next hop may be gone (RFC 9293, section 3.8.3, R1).
const R1: u8 = 3;

impl Core {
    /// The interface had no room for what the IP layer has to say.
    pub(super) fn layer_is_blocked(&self) -> bool {
        self.frame_len > 0
    }

    /// There is an event for a socket's owner.
    #[inline]
    pub(in crate::ip) fn notify(&mut self, index: u32, event: Event) {
        let slot = &mut self.table.slots[index as usize];
        slot.events.add(event);
        if !slot.eventful {
            slot.eventful = true;
            self.eventful.push_back(index);
        }
    }

    /// A socket may have something to send, or events to tell.
    #[inline]
    pub(in crate::ip) fn mark(&mut self, index: u32) {
        let slot = &mut self.table.slots[index as usize];
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push_back(index);
        }
    }

    pub(in crate::ip) fn settle_dirty(&mut self) {
        for at in 0..self.dirty.len() {
            self.settle(self.dirty[at]);
        }
    }

    /// Takes a connection's events.
    pub(in crate::ip) fn settle(&mut self, index: u32) {
        let slot = &mut self.table.slots[index as usize];
        let Some(Socket::Stream(stream)) = &mut slot.socket else { return };
        stream.settle(&mut slot.events);
        let has_come =
            stream.deferred.is_some() && (stream.readable() > 0 || stream.peer_has_finished());
        if !slot.events.is_empty() && !slot.eventful {
            slot.eventful = true;
            self.eventful.push_back(index);
        }
        if has_come {
            self.offer(index);
        }
    }

    /// A connection is there for its listener's owner to accept.
    pub(in crate::ip) fn offer(&mut self, index: u32) {
        let id = self.table.id(index);
        let Some(stream) = self.table.stream_at(index) else { return };
        stream.deferred = None;
        if let Some(parent) = stream.parent
            && let Ok(listener) = self.table.listener(parent)
        {
            listener.waiting.push_back(id);
            self.notify(parent.index, Event::Acceptable);
        }
    }

    /// Plans what sockets have to send; false when there was more than room.
    pub(super) fn collect(&mut self, now: Instant) -> bool {
        while let Some(index) = self.dirty.front().copied() {
            if !self.collect_one(now, index) {
                return false;
            }
            self.dirty.pop_front();
            self.table.slots[index as usize].dirty = false;
        }
        true
    }

    pub(super) fn collect_one(&mut self, now: Instant, index: u32) -> bool {
        let id = self.table.id(index);
        let Some(stream) = self.table.stream_at(index) else { return true };
        let (local, remote) = (stream.tuple.local.ip(), stream.tuple.remote.ip());
        let known = stream.via.filter(|via| via.generation == self.layer.generation());
        let via = match known {
            Some(via) => Ok(via),
            None => {
                self.layer_speaks = true;
                self.layer.route(now, remote, Some(local))
            }
        };
        let mut all = true;
        match via {
            Ok(via) => {
                if stream.via.is_none_or(|known| known.mtu != via.mtu) {
                    stream.tcp.set_send_mss(mss(via.mtu, remote.is_ipv4()));
                }
                stream.via = Some(via);
                if std::mem::take(&mut stream.mtu_fell) {
                    stream.tcp.resend_all(now);
                }
                let una = stream.tcp.snd_una_offset();
                if una > stream.confirmed && now.saturating_since(stream.confirmed_at) > CONFIRM {
                    (stream.confirmed, stream.confirmed_at) = (una, now);
                    self.layer.confirm(now, via.next_hop);
                    self.layer.path_delivered(remote, via.mtu);
                }
                all = self.output.collect(now, &via, id, stream);
            }
            Err(NoPath::Resolving) => {
                let waits = &mut self.table.slots[index as usize].resolving;
                if !std::mem::replace(waits, true) {
                    self.resolving.push(index);
                }
                self.resolve_later(now);
            }
            Err(why) => {
                let error = Error::from(why);
                stream.soft_error = Some(error);
                // Without its address a connection has no way to go on.
                if stream.tcp.state() == State::SynSent || why == NoPath::NotOurs {
                    stream.error.get_or_insert(error);
                    stream.tcp.abort();
                }
            }
        }
        if all {
            if let Some(stream) = self.table.stream_at(index) {
                stream.settle_backlog(now);
            }
            self.settle(index);
            self.after(index);
        }
        all
    }

    /// A connection has done what there was to do: when to look at it again, or that it is gone.
    pub(super) fn after(&mut self, index: u32) {
        let id = self.table.id(index);
        let Some(stream) = self.table.stream_at(index) else { return };
        let state = stream.tcp.state();
        if stream.over && (stream.orphaned.is_some() || state == State::Closed) {
            self.timers.cancel(index);
            self.forget_flow(index);
            return;
        }
        let patience = [stream.orphaned, stream.deferred].into_iter().flatten().min();
        let due = match (stream.tcp.poll_timeout(), patience) {
            (Some(a), Some(b)) if state != State::TimeWait => Some(a.min(b)),
            (None, Some(b)) => Some(b),
            (a, _) => a,
        };
        if state == State::TimeWait && stream.orphaned.is_some() && !stream.in_time_wait {
            stream.in_time_wait = true;
            stream.send.release();
            stream.recv.release();
            self.time_wait.push_back(id);
        }
        self.timers.set(index, due);
        while self.time_wait.len() > self.config.max_time_wait {
            self.forget_oldest();
        }
    }

    /// Forgets the connection that came into TIME-WAIT first; false when there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.time_wait.pop_front() else { return false };
        // Some of the list are gone already.
        if self.table.stream(oldest).is_ok_and(|stream| stream.in_time_wait) {
            self.forget_flow(oldest.index);
        }
        true
    }

    /// A connection's addresses are free again; so is its place, when the application has closed.
    pub(in crate::ip) fn forget_flow(&mut self, index: u32) {
        let Some(stream) = self.table.stream_at(index) else { return };
        let flow = Flow::new(stream.tuple.local, stream.tuple.remote);
        let port = stream.tuple.local.port();
        let (orphaned, parent) = (stream.orphaned.is_some(), stream.parent);
        let deferred = stream.deferred.is_some();
        if self.table.flows.get(&flow) == Some(&index) {
            self.table.flows.remove(&flow);
        }
        if self.last.is_some_and(|(_, last)| last == index) {
            self.last = None;
        }
        let id = self.table.id(index);
        let mut unaccepted = false;
        if let Some(parent) = parent {
            // It died before it was accepted.
            let v6 = self.table.stream_at(index).is_some_and(|s| s.tuple.local.is_ipv6());
            if let Ok(listener) = self.table.listener(parent) {
                let before = listener.waiting.len();
                listener.waiting.retain(|waiting| *waiting != id);
                unaccepted = listener.waiting.len() < before || deferred;
                if unaccepted && let Some(machine) = &mut listener.machines[usize::from(v6)] {
                    machine.taken();
                }
            }
        }
        if orphaned || unaccepted {
            self.timers.cancel(index);
            self.table.remove(index);
        }
        self.free_port(Protocol::Tcp, port);
    }

    /// A socket does not use its port any more; perhaps others do.
    pub(in crate::ip) fn free_port(&mut self, protocol: Protocol, port: u16) {
        if self.shares {
            self.freed.push((protocol, port));
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// [`Error::TooManySockets`].
    pub(in crate::ip) fn insert_stream(&mut self, mut stream: Stream) -> Result<u32> {
        stream.sums = (!self.output.offload.checksum).then(Sums::default);
        let flow = Flow::new(stream.tuple.local, stream.tuple.remote);
        while !self.table.has_room() && self.forget_oldest() {}
        let index = self.table.insert(Socket::Stream(Box::new(stream)))?;
        self.table.flows.insert(flow, index);
        Ok(index)
    }

    /// A socket whose port we have.
    ///
    /// # Errors
    /// [`Error::TooManySockets`].
    pub(in crate::ip) fn insert_bound(
        &mut self,
        protocol: Protocol,
        socket: Socket,
    ) -> Result<SocketId> {
        let port = socket.local().port();
        let index = self.table.insert(socket).inspect_err(|_| self.free_port(protocol, port))?;
        self.table.bind(protocol, port, index);
        Ok(self.table.id(index))
    }

    pub(super) fn close_stream(&mut self, now: Instant, id: SocketId) -> Result<()> {
        let patience = self.config.orphan_timeout;
        let stream = self.table.stream(id)?;
        let over = stream.close(now, patience);
        stream.orphaned = Some(now + patience);
        if over && stream.over && !self.table.slots[id.index as usize].dirty {
            self.forget_flow(id.index);
            return Ok(());
        }
        // What it has to send goes first, a reset too.
        self.mark(id.index);
        Ok(())
    }

    pub(in crate::ip) fn schedule_listener(&mut self, index: u32) {
        let Some(listener) = self.table.listener_at(index) else { return };
        let due = listener.machines.iter().flatten().filter_map(|m| m.poll_timeout()).min();
        self.timers.set(index, due);
    }

    pub(super) fn run_timers(&mut self, now: Instant) -> bool {
        let mut any = false;
        if self.layer.poll_timeout().is_some_and(|at| at <= now) {
            // What it has to say waits where the interface is full, and is due as long as it does.
            any = !self.layer_is_blocked();
            self.layer_speaks = true;
            self.layer.handle_timeout(now);
        }
        if self.generation != self.layer.generation() {
            self.generation = self.layer.generation();
            self.resolve_at = self.resolve_at.map(|_| now);
        }
        self.timers.advance(now);
        while let Some(index) = self.timers.pop_expired() {
            any = true;
            self.timer(now, index);
        }
        if self.resolve_at.is_some_and(|at| at <= now) {
            self.retry_resolving(now);
        }
        any
    }

    /// Something waits for the MAC address of its next hop: tried again in a while, and at once when the IP layer has
    /// learned something.
    pub(in crate::ip) fn resolve_later(&mut self, now: Instant) {
        // What comes later does not put it off.
        self.resolve_at.get_or_insert(now + RESOLVE_RETRY);
    }

    /// What waited for the MAC address of its next hop tries again.
    pub(super) fn retry_resolving(&mut self, now: Instant) {
        self.resolve_at = None;
        self.retry_replies(now);
        while let Some(index) = self.resolving.pop() {
            self.table.slots[index as usize].resolving = false;
            self.mark(index);
        }
    }

    pub(super) fn timer(&mut self, now: Instant, index: u32) {
        match &mut self.table.slots[index as usize].socket {
            Some(Socket::Stream(stream)) => {
                stream.tcp.handle_timeout(now);
                let timeouts = stream.tcp.counters().timeouts;
                if timeouts > stream.timeouts {
                    stream.timeouts = timeouts;
                    if let Some(via) = stream.via
                        && stream.tcp.info().timeouts_in_a_row >= R1
                    {
                        self.layer_speaks = true;
                        self.layer.doubt(via.next_hop);
                    }
                    if let (Some(via), State::Established) = (stream.via, stream.tcp.state())
                        && self.layer.path_lost(now, via.destination, via.mtu)
                    {
                        stream.mtu_fell = true;
                    }
                }
                let is_offered = stream.deferred.is_some_and(|at| at <= now);
                let orphan = stream.orphaned.is_some_and(|at| at <= now);
                if orphan && stream.tcp.state() != State::TimeWait {
                    stream.tcp.abort();
                }
                self.mark(index);
                self.settle(index);
                if is_offered {
                    self.offer(index);
                }
            }
            Some(Socket::Listener(_)) => self.listener_timer(now, index),
            _ => {}
        }
    }

    pub(super) fn listener_timer(&mut self, now: Instant, index: u32) {
        let marking = self.table.listener_seen(index).map(|listener| listener.marking);
        let marking = marking.unwrap_or_default();
        for family in 0..2 {
            while let Some((tuple, header)) = self
                .table
                .listener_at(index)
                .and_then(|listener| listener.machines[family].as_mut())
                .and_then(|machine| machine.poll_reply(now))
            {
                self.reply(now, &tuple, &header, marking);
            }
        }
        self.schedule_listener(index);
    }

    /// Our address towards `remote`.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoRoute`].
    pub(in crate::ip) fn source(
        &mut self,
        now: Instant,
        remote: IpAddr,
        asked: Option<IpAddr>,
    ) -> Result<IpAddr> {
        self.layer_speaks = true;
        match self.layer.route(now, remote, asked) {
            Ok(via) => Ok(via.source),
            Err(NoPath::Resolving) => {
                asked.or_else(|| self.layer.source_for(remote)).ok_or(Error::NoRoute)
            }
            Err(why) => Err(why.into()),
        }
    }

    /// The offload of the interface, which may change under way.
    pub(in crate::ip) fn offload(&self) -> Offload {
        self.output.offload
    }
}
