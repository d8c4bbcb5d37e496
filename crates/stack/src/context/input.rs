//! Packets in: the context is found by its key in one step, its machine looks at the header, and one pass brings the data
//! where they belong.

use fusewire_device::RxBatch;
use fusewire_kernels::stages::Cxor;
use fusewire_transport::machine::{
    DropCause, Header as _, Initial, Listener as _, PayloadPlan, Verdict,
};
use fusewire_transport::xtp::{Header, ListenerAction, SPANS};
use fusewire_wire::xtp::{Body, HEADER_LEN, Options, Packet};

use super::output::header_sum;
use super::place::{Buffer, Proof};
use super::*;
use crate::trace::Kind;

/// A packet, taken apart.
pub(super) struct Came<'a> {
    pub peer: SocketAddr,
    pub header: Header,
    /// All before the data.
    head: &'a [u8],
    pub data: &'a [u8],
    trailer: Option<u32>,
}

impl Came<'_> {
    /// What proves its data; `None` if the header is wrong, or nothing proves them.
    pub fn proof(&self) -> Option<Proof> {
        if self.header.checks_all() {
            return Some(Proof::Sum { head: header_sum(self.head) });
        }
        let (head, tag) = self.head.split_at(HEADER_LEN);
        let trailer = self.trailer.filter(|_| header_sum(head).verifies())?;
        Some(Proof::Cxor { before: Cxor::of(tag), before_len: tag.len(), trailer })
    }
}

impl Contexts {
    /// Receives what waits, runs timers, sends what may leave. True if there was work.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn poll(&mut self, app: &mut dyn Placement) -> Result<bool> {
        if let Some(question) = self.asked.as_ref().and_then(Asked::next) {
            question(self);
        }
        let received = self.receive(app)?;
        let now = self.clock.now();
        let timed = self.run_timers(now) | self.run_service_timers(now);
        let sent = self.transmit();
        let worked = received || timed || sent > 0;
        if worked {
            self.last_work = now;
        }
        Ok(worked)
    }

    fn receive(&mut self, app: &mut dyn Placement) -> Result<bool> {
        let mut batch = self.batch.take().unwrap_or_else(|| RxBatch::new(RECEIVE_SLOTS));
        let received =
            self.device.receive(&mut batch).map_err(Error::os("receiving from the device"));
        if !matches!(received, Ok(1..)) {
            self.batch = Some(batch);
            return received.map(|_| false);
        }
        let now = self.clock.now();
        self.watch.now = now;
        for packet in batch.iter() {
            for frame in packet.frames() {
                self.take_frame(now, packet.peer, frame, app);
                self.watch.received_tpdu(packet.peer, packet.ecn, frame);
            }
        }
        self.watch.flush();
        self.batch = Some(batch);
        let mut touched = std::mem::take(&mut self.touched);
        for index in touched.drain(..) {
            self.settle(index);
            self.make_ready(index);
        }
        self.touched = touched;
        Ok(true)
    }

    fn take_frame(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        frame: &[u8],
        app: &mut dyn Placement,
    ) {
        let Ok(packet) = Packet::parse(frame) else {
            return self.drop_frame(Cause::Malformed);
        };
        let header = packet.header.keep::<SPANS>();
        let head = &frame[..header.emit_len().min(frame.len())];
        let came = Came { peer, header, head, data: packet.data, trailer: packet.trailer };
        let found = match header.returned {
            true => self.by_key.get(&header.key.bits()),
            false => self.by_peer.get(&(peer, header.key)),
        };
        match found.copied() {
            Some(index) if self.standing(index).is_some_and(|its| its.remote == peer) => {
                match self.at(index) {
                    Some(_) => self.take_packet(now, index, &came, app),
                    None => self.take_answer(now, index, &came, app),
                }
            }
            // It is somebody else's key, or its owner has moved.
            Some(_) => self.drop_frame(Cause::Stray),
            None => self.take_stray(now, &came, app),
        }
    }

    /// A packet of a context's: initial, integrated and final step.
    fn take_packet(&mut self, now: Instant, index: u32, came: &Came<'_>, app: &mut dyn Placement) {
        if let Some(probe) = came.header.probe() {
            return self.take_probe(now, index, probe, came);
        }
        let (id, level) = (self.id(index), self.config.level);
        self.touch(index);
        let Some(Some(Place::Open(association))) = self.places.get_mut(index as usize) else {
            return;
        };
        let (header, len) = (&came.header, came.header.data_len);
        let initial = association.machine.handle_initial(now, header, len);
        if let Initial::Drop(cause) = initial {
            association.trace.segment(Kind::Dropped(cause), now, header, len);
            return self.watch.dropped(cause.name());
        }
        let verdict = match (&initial, came.proof()) {
            (_, None) => Verdict::Reject(DropCause::Checksum),
            (Initial::Payload(plan), Some(proof)) if !plan.duplicate => {
                take_payload(id, &mut **association, came, plan, &proof, level, app)
            }
            (_, Some(proof)) if proof.of(level, came.data) => Verdict::Control,
            _ => Verdict::Reject(DropCause::Checksum),
        };
        let kind = Kind::of(&initial, &verdict);
        association.trace.segment(kind, now, header, len);
        association.machine.handle_final(now, header, &initial, verdict, false);
        self.watch.became(kind);
    }

    /// A packet of this context's came: it is looked at behind the batch.
    pub(super) fn touch(&mut self, index: u32) {
        if self.touched.last() != Some(&index) {
            self.touched.push(index);
        }
    }

    /// A packet for no context: a listener's, or refused.
    fn take_stray(&mut self, now: Instant, came: &Came<'_>, app: &mut dyn Placement) {
        let header = &came.header;
        let service = self.service_of(came.peer, header);
        let listening = service.and_then(|service| self.listening.get(&service));
        if let (Some(Listening::Singles(_)), Some(service)) = (listening, service) {
            return self.take_single(now, service, came, app);
        }
        if !came.proof().is_some_and(|proof| proof.of(self.config.level, came.data)) {
            return self.drop_frame(Cause::Checksum);
        }
        let ends = Ends { local: self.device.local_addr(), remote: came.peer, flow: header.flow() };
        let listening = service.and_then(|service| self.listening.get_mut(&service));
        let (Some(Listening::Streams(streams)), Some(service)) = (listening, service) else {
            self.drop_frame(crate::machine::stray(header));
            if let Some(diag) = header.refusal(header.data_len) {
                self.refuse(now, came.peer, &diag);
            }
            return;
        };
        match streams.listener.handle_stray(now, &ends, header, header.data_len) {
            ListenerAction::Reply(reply) => self.reply(now, came.peer, &reply),
            ListenerAction::Accept(machine) => self.accept(now, service, machine, came, app),
            ListenerAction::Drop(cause) => self.refused(cause),
        }
    }

    /// A listener drops a packet.
    pub(super) fn refused(&mut self, why: DropCause) {
        self.past.drops.count(why);
        self.watch.dropped(why.name());
    }

    /// A packet is dropped that is no context's.
    pub(super) fn drop_frame(&mut self, cause: Cause) {
        self.drops.count(cause);
        self.watch.dropped(cause.name());
    }

    /// Says at once what is to be said to a packet that is right.
    pub(super) fn reply(&mut self, now: Instant, peer: SocketAddr, reply: &Header) {
        match reply.body {
            Body::Diag(_) => {
                self.past.drops.count(DropCause::Refused);
                self.refuse(now, peer, reply);
            }
            _ => self.send_alone(peer, reply, &[]),
        }
    }

    /// Says no, as far as the limit of that lets it.
    pub(super) fn refuse(&mut self, now: Instant, peer: SocketAddr, refusal: &Header) {
        if self.config.refusals.allows(now) {
            self.send_alone(peer, refusal, &[]);
        } else {
            self.drop_frame(Cause::Refusal);
        }
    }

    fn accept(
        &mut self,
        now: Instant,
        service: u16,
        mut machine: Box<xtp::Connection>,
        came: &Came<'_>,
        app: &mut dyn Placement,
    ) {
        let Some(block) = self.streams(service).map(|streams| streams.block.clone()) else {
            return;
        };
        // The listener's address says nothing of the path: it may be every address of this host.
        let packet = block.packet(&self.config, self.device.caps(), self.is_whole_path(came.peer));
        machine.set_tpdu_len(packet);
        let mut association = self.associate(came.peer, machine, block);
        association.standing.push(Event::Accepted { service });
        match self.insert(Place::Open(Box::new(association))) {
            Ok(context) => {
                self.name(context.index);
                self.take_packet(now, context.index, came, app);
            }
            Err(_) => {
                if let Some(streams) = self.streams(service) {
                    streams.listener.taken();
                }
                self.drop_frame(Cause::TooManyConnections);
            }
        }
    }

    fn run_timers(&mut self, now: Instant) -> bool {
        self.timers.advance(now);
        let mut any = false;
        while let Some(index) = self.timers.pop_expired() {
            any = true;
            match self.places.get_mut(index as usize) {
                Some(Some(Place::Open(association))) => association.machine.handle_timeout(now),
                Some(Some(Place::Single(exchange))) => exchange.handle_timeout(now),
                _ => continue,
            }
            self.settle(index);
            self.make_ready(index);
        }
        any
    }

    /// Time until the next timer is due: how long there is nothing to do, if nothing comes.
    pub fn next_timeout(&self) -> Option<Duration> {
        let now = self.clock.now();
        let at = [self.timers.next_deadline(), self.services_due()].into_iter().flatten().min();
        let next = at.map(|at| at.saturating_since(now));
        next.into_iter().chain(self.device.next_timeout()).min()
    }

    /// Sleeps until packets wait, a timer is due, another thread wakes us, or `timeout` passes. Does not sleep shortly
    /// after there was work, nor over events that [`Contexts::poll_event`] has not given yet.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        if !self.eventful.is_empty() || !self.ready.is_empty() {
            return Ok(());
        }
        if self.clock.now().saturating_since(self.last_work) < self.config.spin {
            // The peer may be a process on this very processor.
            std::thread::yield_now();
            return Ok(());
        }
        let timeout = match (timeout, self.next_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.device.wait(timeout, false).map_err(Error::os("waiting for the device"))?;
        Ok(())
    }
}

/// The integrated step: data go where the application says, or to the context's buffer.
pub(super) fn take_payload(
    id: Context,
    own: &mut impl Buffer,
    came: &Came<'_>,
    plan: &PayloadPlan,
    proof: &Proof,
    level: Level,
    app: &mut dyn Placement,
) -> Verdict {
    let (front, len) = (plan.trim_front as usize, plan.len as usize);
    let facts = Facts {
        offset: plan.offset,
        len,
        tag: output::tag(&came.header).filter(|_| plan.trim_front == 0),
        ends: came.header.options.has(Options::EOM) && plan.trim_back == 0,
        in_order: plan.in_order,
    };
    let mut memory = Scatter::default();
    app.place(id, &facts, &mut memory);
    if memory.is_empty() {
        own.buffer(&(plan.offset..plan.offset + u64::from(plan.len)), &mut memory);
    }
    match proof.copy(level, came.data, front..front + len, &mut memory) {
        None => Verdict::Reject(DropCause::Checksum),
        Some(0) => Verdict::Reject(DropCause::NoMemory),
        Some(taken) if taken < len => {
            Verdict::Part { len: taken as u32, rest: DropCause::NoMemory }
        }
        Some(taken) => Verdict::Accept { len: taken as u32 },
    }
}
