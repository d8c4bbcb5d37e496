//! Receiving: the batch's frames, one after the other, and what is no segment of a connection.

use fusewire_device::TxFrame;
use fusewire_session::{Unmarshal, unmarshal};
use fusewire_transport::machine::{DropCause, Probe, Says};

use super::*;
use crate::application::{Application, Keep, Message, One};
use crate::machine::{as_xtp, emit, header_sum};
use crate::path::Answered;

impl Stack {
    /// The frame at hand is dropped.
    pub(super) fn drop_frame(&mut self, cause: Cause) {
        self.drops.count(cause);
        self.watch.dropped(cause.name());
    }

    // ---- the loop -----------------------------------------------------------------------------

    /// Receives what waits, runs timers, sends what may leave. True if there was work.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn poll(&mut self, app: &mut dyn Application) -> Result<bool> {
        let received = self.receive(app)?;
        self.answer();
        let now = self.clock.now();
        let waited = now.saturating_since(self.owing_since) >= ACK_WAIT_MAX;
        if !self.owing.is_empty() && (waited || !received && self.is_quiet(now)) {
            self.acknowledge();
        }
        let timed = self.run_timers(now);
        let sent = self.transmit();
        let worked = received || timed || sent > 0;
        if worked {
            self.last_work = now;
        }
        Ok(worked)
    }

    /// Nothing has come for a while, or nobody will look for a while.
    fn is_quiet(&self, now: Instant) -> bool {
        now.saturating_since(self.last_work) >= ACK_WAIT.min(self.config.spin)
    }

    /// The next ADU of a connection, straight into `memory`: works through received frames only as far
    /// as is needed. Returns its length, or `None` when nothing is there. ADUs of other connections
    /// that come before it wait for their turn. In any order.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `memory` is too short (the ADU is lost); [`Error::Os`].
    pub fn recv_into(&mut self, id: ConnectionId, memory: &mut [u8]) -> Result<Option<usize>> {
        if let Some((_, buffer)) = self.recv_any(id) {
            return self.copy_out(id, buffer, memory).map(Some);
        }
        let mut one = One::any(id, memory);
        self.receive_until(&mut one, |one| one.got)
    }

    /// [`Stack::recv_into`], unmarshalled in the pass that opens it, or where it waits, in one of its own.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn recv_any_message(
        &mut self,
        id: ConnectionId,
        into: &mut dyn Unmarshal,
    ) -> Result<Option<usize>> {
        if let Some((_, buffer)) = self.recv_any(id) {
            unmarshal(&buffer, into);
            let len = buffer.len();
            self.recycle(id, buffer);
            return Ok(Some(len));
        }
        let mut message = Message { id: Some(id), into, any: true, got: None };
        self.receive_until(&mut message, |message| message.got)
    }

    /// Works through received frames until `app` has got an ADU; its length.
    fn receive_until<A: Application>(
        &mut self,
        app: &mut A,
        got: impl Fn(&A) -> Option<usize>,
    ) -> Result<Option<usize>> {
        loop {
            let worked = self.receive(app)?;
            if worked {
                self.last_work = self.cursor.now;
            }
            let got = got(app);
            if got.is_some() || !worked {
                return Ok(got);
            }
        }
    }

    /// Copies an ADU out, whose buffer comes back; its length.
    pub(crate) fn copy_out(
        &mut self,
        id: ConnectionId,
        buffer: Vec<u8>,
        memory: &mut [u8],
    ) -> Result<usize> {
        let (len, room) = (buffer.len(), memory.len());
        let copied = memory.get_mut(..len).map(|memory| memory.copy_from_slice(&buffer));
        self.recycle(id, buffer);
        copied.map(|()| len).ok_or(Error::NoRoom { len, room })
    }

    /// Works through the batch at hand, or the next; all of it unless `app` has enough before.
    fn receive(&mut self, app: &mut dyn Application) -> Result<bool> {
        let mut batch = self.batch.take().unwrap_or_else(|| RxBatch::new(RECEIVE_SLOTS));
        if self.cursor.packet >= batch.len() {
            self.cursor = Cursor::default();
            let received =
                self.device.receive(&mut batch).map_err(Error::os("receiving from the device"));
            if !matches!(received, Ok(1..)) {
                batch.clear();
                self.batch = Some(batch);
                return received.map(|_| false);
            }
            self.cursor.now = self.clock.now();
            self.watch.now = self.cursor.now;
            self.streamed += batch.iter().map(|packet| packet.bytes.len() as u64).sum::<u64>();
        }
        let start = self.profile.is_some().then(|| self.clock.now());
        let segments = self.take_frames(&batch, app);
        if let (Some(start), Some(profile)) = (start, &mut self.profile) {
            profile.receive_s += self.clock.now().saturating_since(start).as_secs_f64();
            profile.segments_received += segments;
        }
        self.watch.flush();
        let at_end = self.cursor.packet >= batch.len();
        self.batch = Some(batch);
        if at_end && let Some((_, index)) = self.cursor.last.take() {
            self.settle(index);
            // Acknowledge what came before more is asked for.
            self.transmit();
        }
        Ok(true)
    }

    /// True shortly after there was work, and while the answer to a call may come at any moment: looking again is cheaper
    /// than sleeping.
    pub fn wants_spin(&self) -> bool {
        let unread = self.batch.as_ref().is_some_and(|b| self.cursor.packet < b.len());
        let now = self.clock.now();
        let worked = now.saturating_since(self.last_work) < self.config.spin;
        unread || worked || self.calls.eager.is_eager(now)
    }

    /// A stream comes, all of it that is here was taken, and more is about to come: for how long nobody need look.
    ///
    /// Who looks all the time takes every frame by itself, and burns what time is left between two; who sleeps until one
    /// comes is woken by its sender, at the sender's cost. A sleep for a time costs neither, and what comes meanwhile is
    /// taken at once.
    pub(crate) fn nap(&mut self) -> Option<Duration> {
        let unread = self.batch.as_ref().is_some_and(|b| self.cursor.packet < b.len());
        if self.streamed < STREAM_BYTES || unread || self.has_events() {
            return None;
        }
        let brought = self.streamed - self.napped_at;
        self.napped_at = self.streamed;
        if brought < NAP_BYTES {
            // It has paused, and begins anew.
            (self.streamed, self.napped_at) = (0, 0);
            return None;
        }
        self.rest();
        Some(NAP)
    }

    /// Time until the next timer is due, or the device has something by itself.
    pub fn next_timeout(&self) -> Option<Duration> {
        let now = self.clock.now();
        let listener = self.listening.as_ref().and_then(|l| l.listener.poll_timeout());
        let timers = [self.timers.next_deadline(), listener, self.calls.poll_timeout()];
        let next = timers.into_iter().flatten().min().map(|at| at.saturating_since(now));
        next.into_iter().chain(self.device.next_timeout()).min()
    }

    /// Sleeps until frames wait, a timer is due, another thread wakes us, or `timeout` passes; does
    /// not sleep while [`Stack::wants_spin`], nor over events that [`Stack::poll_event`] has not given yet.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.wants_spin() {
            match self.nap() {
                Some(nap) => std::thread::sleep(nap),
                // The peer may be a process on this very processor.
                None => std::thread::yield_now(),
            }
            return Ok(());
        }
        // What a call took from the device for another connection, or besides an ADU, is known here alone:
        // no frame will end the sleep for it.
        if self.has_events() {
            return Ok(());
        }
        self.rest();
        let timeout = match (timeout, self.next_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.device.wait(timeout, false).map_err(Error::os("waiting for the device"))?;
        Ok(())
    }

    fn run_timers(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((ends, header)) =
            self.listening.as_mut().and_then(|l| l.listener.poll_reply(now))
        {
            any = true;
            self.send_alone(ends.remote, header);
        }
        any |= self.run_call_timers(now);
        self.timers.advance(now);
        while let Some(index) = self.timers.pop_expired() {
            any = true;
            let moved = self.connections[index as usize].as_mut();
            if let Some(to) = moved.and_then(|c| c.path.poll_move(now)) {
                self.follow(now, index, to);
            }
            if let Some(connection) = &mut self.connections[index as usize] {
                if connection.handshake_deadline.is_some_and(|at| at <= now) {
                    connection.handshake_deadline = None;
                    if connection.is_in_handshake() {
                        connection.fail(Error::TimedOut(connection.ends.remote));
                        self.drops.count(Cause::Handshake);
                    }
                }
                if connection.told_until.is_some_and(|at| at <= now) {
                    connection.told_until = None;
                    connection.machine.abort();
                }
                connection.machine.handle_timeout(now);
                connection.listen_for_peer(now);
                connection.rest(now);
                self.settle(index);
            }
        }
        any
    }

    /// Frames from the cursor on, until the batch ends or `app` has enough. One look-up a
    /// super-packet: its frames have one sender.
    fn take_frames(&mut self, batch: &RxBatch, app: &mut dyn Application) -> u64 {
        let mut segments = 0;
        for packet in batch.iter().skip(self.cursor.packet) {
            while self.cursor.at < packet.bytes.len() {
                let end = (self.cursor.at + packet.segment_len).min(packet.bytes.len());
                let frame = &packet.bytes[self.cursor.at..end];
                let marked = packet.ecn == Ecn::Ce;
                let Some(payloads) = self.take_frame(packet.peer, marked, frame, app) else {
                    // The rest of this one is for the next call.
                    self.cursor.again = true;
                    return segments;
                };
                self.cursor.again = false;
                segments += payloads;
                self.cursor.at = end;
                self.watch.received_tpdu(packet.peer, packet.ecn, frame);
                if !app.wants_more() {
                    return segments;
                }
            }
            self.cursor.packet += 1;
            self.cursor.at = 0;
        }
        segments
    }

    /// One frame; 1 if it had payload, and `None` if it is to come again ([`Connection::handle_segment`]).
    #[inline]
    fn take_frame(
        &mut self,
        peer: SocketAddr,
        marked: bool,
        frame: &[u8],
        app: &mut dyn Application,
    ) -> Option<u64> {
        let settings = settings(&self.config);
        let Ok(header) = settings.parse(frame) else {
            if !self.refuse_other(peer, frame) {
                self.drop_frame(Cause::Malformed);
            }
            return Some(0);
        };
        let (head, rest) = frame.split_at(header.header_len().min(frame.len()));
        let (payload, trailer) = rest.split_at(rest.len().saturating_sub(header.trailer_len()));
        let summed = &head[..header.summed_len().min(head.len())];
        let header_sum = header_sum(settings, summed, frame.len());
        let again = self.cursor.again;
        let segment = Segment { header: &header, header_sum, payload, trailer, marked, again };
        if let Some(probe) = header.probe() {
            self.take_probe(peer, probe, &segment);
            return Some(0);
        }
        let now = self.cursor.now;
        let is_for_call = as_xtp(&header).is_some_and(|header| self.calls.is_for_one(header));
        if is_for_call && self.take_call(now, peer, &header, frame) {
            return Some(0);
        }
        let key = Key { remote: peer, flow: header.flow() };
        let index = match self.cursor.last {
            Some((known, index)) if known == key => Some(index),
            _ => self.table.get(&key).copied(),
        };
        let Some(index) = index else {
            if is_for_call || !self.take_call(now, peer, &header, frame) {
                self.take_stray(now, peer, &segment, frame);
            }
            return Some(0);
        };
        if self.cursor.last.is_none_or(|(_, last)| last != index)
            && let Some((_, previous)) = self.cursor.last.replace((key, index))
        {
            self.settle(previous);
        }
        let id = self.id(index);
        if let Some(connection) = &mut self.connections[index as usize] {
            let kind = connection.handle_segment(now, id, &segment, app)?;
            self.watch.became(kind);
        }
        Some(u64::from(!payload.is_empty()))
    }

    /// A segment for no connection: the listener's, or answered with a reset.
    fn take_stray(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        segment: &Segment<'_>,
        frame: &[u8],
    ) {
        if !segment.verifies(self.config.level) {
            // The other transport's packets may look like one of this one's.
            if !self.refuse_other(remote, frame) {
                self.drop_frame(Cause::Checksum);
            }
            return;
        }
        let header = segment.header;
        if self.has_moved(now, remote, segment) {
            return;
        }
        let names_a_context = crate::machine::as_xtp(header).is_some_and(|xtp| xtp.returned);
        if names_a_context && self.by_flow.contains_key(&header.flow()) {
            // The key is right, and known here. An answer would tell the peer, should its address have changed, that
            // its context is not.
            self.past.drops.count(DropCause::Closed);
            return self.watch.dropped(DropCause::Closed.name());
        }
        let Some(listening) = self.listening.as_mut().filter(|l| header.service() == Some(l.port))
        else {
            let cause = crate::machine::as_xtp(header).map_or(Cause::Stray, crate::machine::stray);
            self.drops.count(cause);
            self.watch
                .note(["no such connection or port", "answered with RST or DIAG, if one is due"]);
            if let Some(reply) = header.refusal(segment.payload.len() as u32) {
                self.refuse(now, remote, reply);
            }
            return;
        };
        let ends = Ends { local: self.device.local_addr(), remote, flow: header.flow() };
        match listening.listener.handle_stray(now, &ends, header, segment.payload.len() as u32) {
            ListenerAction::Reply(reply) if reply.is_refusal() => {
                self.past.drops.count(DropCause::Refused);
                self.refuse(now, remote, reply);
            }
            ListenerAction::Reply(reply) => self.send_alone(remote, reply),
            ListenerAction::Accept(machine) => self.accept(now, ends, *machine, segment),
            ListenerAction::Drop(cause) => {
                self.past.drops.count(cause);
                self.watch.dropped(cause.name());
            }
        }
    }

    /// Answers a packet that opens a connection by the other transport, so that its sender learns at once which one this
    /// side uses. Returns `false` if the packet is anything else.
    #[cold]
    fn refuse_other(&mut self, remote: SocketAddr, frame: &[u8]) -> bool {
        let (settings, level) = (settings(&self.config), self.config.level);
        let refusal = self.listening.as_ref().and_then(|listening| {
            crate::machine::refusal_of_other(settings, level, frame, listening.port)
        });
        let Some((other, header, text)) = refusal else { return false };
        self.past.drops.count(DropCause::Refused);
        if self.config.refusals.allows(self.cursor.now) {
            tracing::debug!(%remote, used = other.name(), served = text, "transports differ");
            let mut room = [0; Header::LEN_MAX];
            let sum = fusewire_kernels::sum(level, text.as_bytes());
            let len = emit(&other, &header, &mut room, sum, text.len());
            let (header, payload) = (&room[..len], text.as_bytes());
            let frame = TxFrame { peer: remote, header, payload, ecn: Ecn::NotEct };
            self.watch.sent_tpdus(&[frame], |_| ["refusal", "of another transport"]);
            if let Err(error) = self.device.transmit(&[frame]) {
                tracing::debug!(%error, "cannot send to {remote}");
            }
        } else {
            self.drop_frame(Cause::Refusal);
        }
        true
    }

    /// Says no, as far as the limit of that lets it.
    fn refuse(&mut self, now: Instant, remote: SocketAddr, refusal: Header) {
        if self.config.refusals.allows(now) {
            self.send_alone(remote, refusal);
        } else {
            self.drop_frame(Cause::Refusal);
        }
    }

    fn accept(&mut self, now: Instant, ends: Ends, machine: Transport, segment: &Segment<'_>) {
        let Some(listening) = &mut self.listening else { return };
        listening.listener.taken();
        let handshake = match Handshake::server(&listening.server) {
            Ok(handshake) => handshake,
            Err(error) => {
                tracing::error!(%error, "cannot begin a handshake");
                return;
            }
        };
        self.push_out_handshake();
        match self.insert(ends, machine, handshake) {
            Ok(index) => {
                self.schedule_handshake(index, now);
                let id = self.id(index);
                // The listener's address says nothing of the path: it may be every address of this host.
                let known = self.knows_path(ends.remote);
                let sizes = known.then(|| self.settings(ends.remote).sizes());
                if let Some(connection) = &mut self.connections[index as usize] {
                    if let Some(sizes) = sizes {
                        connection.machine.set_tpdu_len(sizes.send_tpdu_len);
                    }
                    connection.handle_segment(now, id, segment, &mut Keep);
                }
                self.settle(index);
            }
            Err(_) => self.drop_frame(Cause::TooManyConnections),
        }
    }

    /// A question about the path, or the answer to one of ours.
    fn take_probe(&mut self, remote: SocketAddr, probe: Probe, segment: &Segment<'_>) {
        if !segment.verifies(self.config.level) {
            return self.drop_frame(Cause::Checksum);
        }
        let (flow, nonce) = (segment.header.flow(), probe.nonce);
        let known = self.table.get(&Key { remote, flow }).copied();
        // Who has moved answers from an address that we do not know; asked is only who does not move meanwhile.
        let index = known.or_else(|| self.by_flow.get(&flow).copied());
        let connection = index.and_then(|index| self.connections[index as usize].as_mut());
        let done = match (probe.says, index, connection) {
            (Says::Question, _, Some(c)) if known.is_some() => {
                let answer = c.path.keys().and_then(|keys| keys.answer(nonce, segment.payload));
                let says = Probe { says: Says::Answer, nonce };
                let header = answer.as_ref().and_then(|a| c.machine.probe(says, a.len() as u32));
                if let (Some(answer), Some(header)) = (&answer, header) {
                    self.send_with(remote, header, answer, "path answer");
                }
                answer.is_some()
            }
            (Says::Answer, Some(index), Some(c)) => {
                let (from, round_trip) = ((remote, c.ends.remote), c.machine.info().srtt);
                let now = self.cursor.now;
                let answered = c.path.handle_answer(now, from, nonce, segment.payload, round_trip);
                match answered {
                    Some(Answered::Size { is_larger: true }) => c.use_path(),
                    Some(Answered::Moved(again)) => self.send_probe(index, again),
                    Some(Answered::Size { .. } | Answered::Stays) | None => {}
                }
                if answered.is_some() {
                    self.settle(index);
                }
                answered.is_some()
            }
            _ => false,
        };
        if !done {
            self.drops.count(Cause::Stray);
        }
    }

    /// A segment from an address that we do not know, with ports that we do: the peer's address may have
    /// changed. If the segment could be the peer's, that address is asked to prove it, and the one we know
    /// whether the peer is still there.
    fn has_moved(&mut self, now: Instant, remote: SocketAddr, segment: &Segment<'_>) -> bool {
        let header = segment.header;
        let Some(&index) = self.by_flow.get(&header.flow()) else { return false };
        let Some(connection) = &mut self.connections[index as usize] else { return false };
        if connection.session().is_none()
            || !connection.machine.could_be_the_peers(now, header, segment.payload.len() as u32)
        {
            return false;
        }
        let len = header.header_len() + segment.payload.len();
        let addresses = (remote, connection.ends.remote);
        let probes = connection.path.suspect(now, addresses, len, &mut self.nonces);
        for probe in probes.into_iter().flatten() {
            self.send_probe(index, probe);
        }
        true
    }

    /// The peer answered at another address, and no longer where it was.
    fn follow(&mut self, now: Instant, index: u32, to: SocketAddr) {
        let max = self.largest_datagram(to);
        let Some(connection) = &mut self.connections[index as usize] else { return };
        let ends = Ends { remote: to, ..connection.ends };
        // Somebody else may have opened a connection from there meanwhile.
        if self.table.contains_key(&key(&ends)) {
            return;
        }
        for flow in connection.flows() {
            self.table.remove(&Key { remote: connection.ends.remote, flow });
            self.table.insert(Key { remote: to, flow }, index);
        }
        connection.follow(now, to, max);
        self.cursor.last = self.cursor.last.filter(|(_, last)| *last != index);
    }
}
