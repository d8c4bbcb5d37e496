//! Sending: segments from the transport, headers before their payloads, frames to the device.

use fusewire_base::Sum;
use fusewire_device::{Region, TxFrame};
use fusewire_transport::machine::{self as transport, Says};

use super::*;
use crate::machine::{HEADROOM, emit};
use crate::path::Probe;
use crate::pieces::{Payload, Pieces, put_trailer};

impl Stack {
    // ---- transmission -------------------------------------------------------------------------

    /// Gives every dirty connection its turn. Returns the number of segments sent.
    pub(super) fn transmit(&mut self) -> usize {
        let now = self.clock.now();
        self.watch.now = now;
        let mut total = 0;
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            while let n @ 1.. = self.transmit_batch(now, index) {
                total += n;
                if n < TRANSMIT_FRAMES {
                    break;
                }
            }
            if let Some(connection) = &mut self.connections[index as usize] {
                connection.is_dirty = false;
                connection.flushed();
                connection.await_last_word(now);
                let to = connection.ends.remote;
                if connection.machine.owes_ack()
                    && !std::mem::replace(&mut connection.is_owing, true)
                {
                    if self.owing.is_empty() {
                        self.owing_since = now;
                    }
                    self.owing.push(index);
                }
                if let Some(probe) = connection.path.poll_probe(now, to, &mut self.nonces) {
                    self.send_probe(index, probe);
                }
            }
            self.settle_quietly(index);
            self.reschedule(index);
        }
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
        self.take_device_events(now);
        total
    }

    /// Events that transmission itself made, without marking the connection dirty again.
    fn settle_quietly(&mut self, index: u32) {
        let Some(connection) = &mut self.connections[index as usize] else { return };
        connection.poll_transport();
        if !connection.events.is_empty() {
            if !std::mem::replace(&mut connection.is_eventful, true) {
                self.eventful.push_back(index);
            }
        } else if !connection.is_eventful {
            self.reap(index);
        }
    }

    fn transmit_batch(&mut self, now: Instant, index: u32) -> usize {
        let Some(connection) = &mut self.connections[index as usize] else { return 0 };
        let start = self.profile.is_some().then(std::time::Instant::now);
        let settings = settings(&self.config);
        self.planned.clear();
        let mut data_segments = 0;
        while self.planned.len() < TRANSMIT_FRAMES {
            let Some(transmit) = connection.machine.poll_transmit(now) else { break };
            let kind = crate::trace::Kind::leaving(&transmit, connection.machine.again());
            let len = transmit.payload.as_ref().map_or(0, |range| range.end - range.start);
            connection.trace.segment(kind, now, &transmit.header, len as u32);
            let ecn = if transmit.ecn_capable { Ecn::Ect0 } else { Ecn::NotEct };
            let scratch = self.planned.len();
            let planned = match &transmit.payload {
                None => {
                    let header_len =
                        emit(settings, &transmit.header, &mut self.headers[scratch], Sum::ZERO, 0);
                    let header = HeaderAt::Scratch(scratch);
                    Planned { header, header_len, payload: Payload::Ring(0, 0), ecn, kind }
                }
                Some(range) => {
                    data_segments += 1;
                    if transmit.retransmission {
                        let len = (range.end - range.start) as usize;
                        connection.lost(now, transmit.header.emit_len() + len);
                    }
                    let located = connection.ring.locate(range);
                    let (from, to) = (located.payload.start, located.payload.end);
                    let level = self.config.level;
                    let sum = match (transmit.header.sums_payload(), located.found.sum()) {
                        (false, _) => Sum::ZERO,
                        (true, Some(sum)) => sum,
                        (true, None) => {
                            fusewire_kernels::sum(level, connection.ring.bytes(from..to))
                        }
                    };
                    let payload = match transmit.header.trailer_len() {
                        0 => Payload::Ring(from, to),
                        _ => {
                            let (ring, begin) = (&mut connection.ring, Pieces::behind_tag(None));
                            put_trailer(ring, &located, begin, level, &mut self.detour)
                        }
                    };
                    let is_beside = located.headroom && matches!(payload, Payload::Ring(..));
                    let header_len = transmit.header.emit_len();
                    let header = if is_beside && header_len == HEADROOM {
                        let room = connection.ring.headroom_mut(from);
                        emit(settings, &transmit.header, room, sum, to - from);
                        HeaderAt::Ring(from - HEADROOM)
                    } else {
                        emit(
                            settings,
                            &transmit.header,
                            &mut self.headers[scratch],
                            sum,
                            to - from,
                        );
                        HeaderAt::Scratch(scratch)
                    };
                    Planned { header, header_len, payload, ecn, kind }
                }
            };
            self.planned.push(planned);
        }
        if data_segments > 0 {
            (self.streamed, self.napped_at) = (0, 0);
        }
        if !self.planned.is_empty() {
            connection.ring.leave();
        }
        if let (Some(start), Some(profile)) = (start, &mut self.profile) {
            profile.send_s += start.elapsed().as_secs_f64();
            profile.segments_sent += data_segments;
        }
        if self.planned.is_empty() {
            return 0;
        }
        // What is made room for is written: an acknowledgement alone needs little.
        if self.planned.len() <= FEW_FRAMES {
            self.give::<FEW_FRAMES>(index);
        } else {
            self.give::<TRANSMIT_FRAMES>(index);
        }
        self.planned.len()
    }

    /// Gives the device what is planned for a connection: at most `N` frames.
    fn give<const N: usize>(&mut self, index: u32) {
        let Some(connection) = &self.connections[index as usize] else { return };
        let memory = connection.ring.memory();
        let peer = connection.ends.remote;
        let nothing = TxFrame { peer, header: &[], payload: &[], ecn: Ecn::NotEct };
        let mut frames = [nothing; N];
        for (frame, planned) in frames.iter_mut().zip(&self.planned) {
            frame.header = match planned.header {
                HeaderAt::Ring(at) => &memory[at..at + planned.header_len],
                HeaderAt::Scratch(i) => &self.headers[i][..planned.header_len],
            };
            frame.payload = match planned.payload {
                Payload::Ring(from, to) => &memory[from..to],
                Payload::Detour(from, to) => &self.detour[from..to],
            };
            frame.ecn = planned.ecn;
        }
        let (frames, planned) = (&frames[..self.planned.len()], &self.planned);
        self.watch.sent_tpdus(frames, |at| planned[at].kind.words());
        hand_over(&mut *self.device, Some(memory), frames);
        self.detour.clear();
        let is_taken = self.device.takes_memory(peer);
        if let Some(connection) = &mut self.connections[index as usize] {
            connection.is_taken = is_taken;
        }
    }

    /// Acknowledgements that waited for what comes with the segments that they are for leave: nothing does.
    pub(crate) fn rest(&mut self) {
        if !self.owing.is_empty() {
            self.acknowledge();
        }
    }

    pub(super) fn acknowledge(&mut self) {
        let mut owing = std::mem::take(&mut self.owing);
        for index in owing.drain(..) {
            if let Some(connection) = &mut self.connections[index as usize] {
                connection.is_owing = false;
                connection.machine.acknowledge();
            }
            self.mark_dirty(index);
        }
        self.owing = owing;
        self.transmit();
    }

    pub(super) fn send_alone(&mut self, remote: SocketAddr, header: Header) {
        self.send_with(remote, header, &[], "");
    }

    /// A TPDU that is no connection's segment.
    pub(super) fn send_with(
        &mut self,
        remote: SocketAddr,
        header: Header,
        payload: &[u8],
        word: &'static str,
    ) {
        let buffer = &mut self.headers[0];
        let sum = fusewire_kernels::sum(self.config.level, payload);
        let len = emit(settings(&self.config), &header, buffer, sum, payload.len());
        let frame = TxFrame { peer: remote, header: &buffer[..len], payload, ecn: Ecn::NotEct };
        self.watch.sent_tpdus(&[frame], |_| [word, ""]);
        if let Err(error) = self.device.transmit(&[frame]) {
            tracing::debug!(%error, "cannot send to {remote}");
        }
    }

    /// Asks the peer of a connection a question about the path.
    pub(super) fn send_probe(&mut self, index: u32, probe: Probe) {
        let Some(connection) = &self.connections[index as usize] else { return };
        let Some(keys) = connection.path.keys() else { return };
        let question = keys.question(probe.kind, probe.nonce, probe.to);
        let says = transport::Probe { says: Says::Question, nonce: probe.nonce };
        let Some(header) = connection.machine.probe(says, 0) else { return };
        let len = probe.size.saturating_sub(header.emit_len()).max(question.len());
        let Some(header) = connection.machine.probe(says, len as u32) else { return };
        let mut payload = std::mem::take(&mut self.question);
        payload.clear();
        payload.extend_from_slice(&question);
        payload.resize(len, 0);
        self.send_with(probe.to, header, &payload, "path probe");
        self.question = payload;
    }

    /// What the device tells of frames that it took.
    fn take_device_events(&mut self, now: Instant) {
        while let Some(event) = self.device.poll_event() {
            let peer = match event {
                fusewire_device::Event::TooBig { peer, .. }
                | fusewire_device::Event::Unreachable { peer, .. } => peer,
            };
            let theirs = |(_, c): &(usize, &mut Box<Connection>)| c.ends.remote == peer;
            let connections = self.connections.iter_mut().enumerate();
            let connections = connections.filter_map(|(index, c)| Some((index, c.as_mut()?)));
            for (index, connection) in connections.filter(theirs) {
                match event {
                    fusewire_device::Event::TooBig { len, .. }
                        if connection.path.too_big(now, len) =>
                    {
                        connection.use_path();
                    }
                    // Anyone can forge it once there is a connection; before, it saves a long wait.
                    fusewire_device::Event::Unreachable { .. }
                        if connection.machine.stage() == Stage::Calling =>
                    {
                        connection.fail(Error::Unreachable(peer));
                        self.unreachable.push(index as u32);
                    }
                    fusewire_device::Event::Unreachable { is_closed: true, .. }
                        if connection.is_gone(now) =>
                    {
                        connection.fail(Error::Unreachable(peer));
                        self.unreachable.push(index as u32);
                    }
                    _ => {}
                }
            }
        }
        while let Some(index) = self.unreachable.pop() {
            self.settle(index);
        }
    }
}

/// As many frames as most batches have that are no bulk.
const FEW_FRAMES: usize = 4;
/// How long the device may stay full before what is left counts as lost.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// Gives frames, which may lie in a region, to the device, which may have to drain first.
pub(crate) fn hand_over(
    device: &mut dyn Device,
    region: Option<&Region>,
    mut frames: &[TxFrame<'_>],
) {
    loop {
        let taken = match region {
            Some(region) => device.transmit_from(region, frames),
            None => device.transmit(frames),
        };
        match taken {
            Ok(taken) if taken >= frames.len() => return,
            Ok(taken) => frames = &frames[taken..],
            Err(error) => {
                tracing::warn!(%error, "cannot send");
                return;
            }
        }
        if !device.wait(Some(FULL_WAIT), true).unwrap_or(false) {
            return;
        }
    }
}
