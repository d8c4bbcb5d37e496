//! Packets out: whose turn it is, headers before their data, frames to the device in batches.

use fusewire_base::Sum;
use fusewire_device::{Ecn, Event as DeviceEvent, TxFrame};
use fusewire_transport::machine::Header as _;
use fusewire_transport::xtp::single::Id;
use fusewire_transport::xtp::{Header, State, Transmit};
use fusewire_wire::xtp::{Body, CHECK_AT, First, HEADER_LEN};

use super::exchange::Said;
use super::*;
use crate::machine::HEADROOM;
use crate::pieces::{Payload, Pieces, put_trailer};
use crate::stack::hand_over;
use crate::trace::{Kind, Trace};

/// Frames given to the device in one call.
const FRAMES: usize = 128;
/// As many as most batches have that are no bulk.
const FEW_FRAMES: usize = 4;

/// Where bytes of a packet lie.
#[derive(Clone, Copy)]
enum At {
    Memory(usize, usize),
    /// The header of that number, with its length.
    Scratch(usize, usize),
    Detour(usize, usize),
}

/// Whose memory a packet's data lie in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Context(u32),
    /// What a service of ours says to a message that came.
    Answer(u16, Id, SocketAddr),
}

/// One packet between `poll_transmit` and the device.
#[derive(Clone, Copy)]
struct Planned {
    owner: Owner,
    header: At,
    payload: At,
    kind: Kind,
}

/// What leaves next.
pub(super) struct Output {
    headers: Box<[[u8; Header::LEN_MAX]; FRAMES]>,
    planned: Vec<Planned>,
    /// Data whose trailer has no room behind them where they lie.
    detour: Vec<u8>,
}

impl Output {
    pub fn new() -> Output {
        Output {
            headers: Box::new([[0; Header::LEN_MAX]; FRAMES]),
            planned: Vec::with_capacity(FRAMES),
            detour: Vec::new(),
        }
    }

    /// Plans a packet of a context.
    fn plan(
        &mut self,
        context: u32,
        association: &mut Association,
        (t, kind): (&Transmit, Kind),
        level: Level,
    ) {
        let (scratch, owner) = (self.planned.len(), Owner::Context(context));
        let Some(range) = &t.payload else {
            let len = emit(&t.header, &mut self.headers[scratch], Sum::ZERO);
            let (header, payload) = (At::Scratch(scratch, len), At::Memory(0, 0));
            return self.planned.push(Planned { owner, header, payload, kind });
        };
        let located = association.ring.locate(range);
        let (from, to) = (located.payload.start, located.payload.end);
        let (sum, payload) = if t.header.trailer_len() > 0 {
            let (ring, begin) = (&mut association.ring, Pieces::behind_tag(tag(&t.header)));
            (Sum::ZERO, put_trailer(ring, &located, begin, level, &mut self.detour))
        } else {
            let made = || fusewire_kernels::sum(level, association.ring.bytes(from..to));
            (located.found.sum().unwrap_or_else(made), Payload::Ring(from, to))
        };
        let is_beside = located.headroom
            && t.header.emit_len() == HEADROOM
            && matches!(payload, Payload::Ring(..));
        let header = if is_beside {
            emit(&t.header, association.ring.headroom_mut(from), sum);
            At::Memory(from - HEADROOM, from)
        } else {
            At::Scratch(scratch, emit(&t.header, &mut self.headers[scratch], sum))
        };
        let payload = match payload {
            Payload::Ring(from, to) => At::Memory(from, to),
            Payload::Detour(from, to) => At::Detour(from, to),
        };
        self.planned.push(Planned { owner, header, payload, kind });
    }

    /// Plans a packet of one message, or of an answer, that lies there.
    fn plan_said(
        &mut self,
        owner: Owner,
        said: Option<&Said>,
        (t, kind): (&Transmit, Kind),
        level: Level,
    ) {
        let scratch = self.planned.len();
        let range = t.payload.as_ref().map_or(0..0, |r| r.start as usize..r.end as usize);
        let sum = match said {
            _ if range.is_empty() => Sum::ZERO,
            Some(said) => said.sum(level, range.clone()),
            // It was let go.
            None => return,
        };
        let header = At::Scratch(scratch, emit(&t.header, &mut self.headers[scratch], sum));
        let payload = At::Memory(range.start, range.end);
        self.planned.push(Planned { owner, header, payload, kind });
    }
}

/// Notes a packet that leaves.
fn note<Of: Copy + PartialEq>(
    trace: &mut Trace<Of>,
    of: Of,
    kind: Kind,
    now: Instant,
    t: &Transmit,
) {
    trace.segment_of(of, kind, now, &t.header, t.header.data_len);
}

/// The tag before the data.
pub(super) fn tag(header: &Header) -> Option<u64> {
    match header.body {
        Body::Data { btag } | Body::First(First { btag, .. }) => btag,
        _ => None,
    }
}

/// The sum of a header, whose length is a multiple of four.
pub(super) fn header_sum(head: &[u8]) -> Sum {
    let (words, _) = head.as_chunks::<4>();
    Sum::from_words(words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum())
}

/// Writes a header with its check, before data with that sum.
fn emit(header: &Header, room: &mut [u8], sum: Sum) -> usize {
    let len = header.emit(room);
    let sum = match header.checks_all() {
        true => header_sum(&room[..len]) + sum,
        false => header_sum(&room[..HEADER_LEN]),
    };
    room[CHECK_AT..][..2].copy_from_slice(&sum.checksum().to_be_bytes());
    len
}

impl Contexts {
    /// Puts everything that may leave on the wire.
    pub fn flush(&mut self) {
        self.transmit();
    }

    /// Gives turns to contexts until none has anything that may leave. Returns the number of packets.
    pub(super) fn transmit(&mut self) -> usize {
        let now = self.clock.now();
        self.watch.now = now;
        let mut total = 0;
        while let Some(turn) = self.ready.pick() {
            let (sent, sort) = match turn.item {
                Waiter::Context(index) => self.take_turn(now, index, turn.turns),
                Waiter::Service(service) => self.take_service_turn(now, service, turn.turns),
            };
            self.ready.used(sent);
            total += sent as usize;
            if let Waiter::Context(index) = turn.item
                && let Some(standing) = self.standing(index)
            {
                standing.ready = sort;
            }
            match (sort, turn.item) {
                (Some(sort), waiter) => self.ready.push(sort, waiter),
                (None, Waiter::Context(index)) => self.rest(index),
                (None, Waiter::Service(service)) => self.rest_service(service),
            }
        }
        self.give();
        self.take_device_events();
        total
    }

    /// Up to `turns` packets of a context; its sort if it may have more.
    fn take_turn(&mut self, now: Instant, index: u32, turns: u32) -> (u32, Option<u16>) {
        for sent in 0..turns {
            if self.output.planned.len() >= FRAMES {
                self.give();
            }
            let association = match self.places.get_mut(index as usize) {
                Some(Some(Place::Open(association))) => association,
                Some(Some(Place::Single(exchange))) => {
                    let Role::Asks { request, said, .. } = &mut exchange.role else {
                        return (sent, None);
                    };
                    let Some(transmit) = request.poll_transmit(now) else { return (sent, None) };
                    let kind = Kind::leaving(&transmit, request.again());
                    let of = Context { index, generation: self.generations.of(index) };
                    note(&mut self.requests, Some(of), kind, now, &transmit);
                    let (owner, leaves) = (Owner::Context(index), (&transmit, kind));
                    self.output.plan_said(owner, Some(said), leaves, self.config.level);
                    continue;
                }
                _ => return (sent, None),
            };
            let transmit = loop {
                match association.machine.poll_transmit(now) {
                    None if association.next_message(now) => {}
                    transmit => break transmit,
                }
            };
            let Some(transmit) = transmit else { return (sent, None) };
            if transmit.retransmission && transmit.payload.is_some() {
                association.lost(now, transmit.header.packet_len());
            }
            let kind = Kind::leaving(&transmit, association.machine.again());
            note(&mut association.trace, (), kind, now, &transmit);
            self.output.plan(index, association, (&transmit, kind), self.config.level);
        }
        let place = self.places.get(index as usize).and_then(Option::as_ref);
        (turns, place.map(Place::sort))
    }

    /// Up to `turns` packets of what a service says; its sort if it may have more.
    fn take_service_turn(&mut self, now: Instant, service: u16, turns: u32) -> (u32, Option<u16>) {
        for sent in 0..turns {
            if self.output.planned.len() >= FRAMES {
                self.give();
            }
            let Some((id, to, transmit)) = self.poll_service(now, service) else {
                return (sent, None);
            };
            let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) else {
                return (sent, None);
            };
            let again = singles.responder.again(id).map_or(Kind::SaidAgain, Kind::from);
            let kind = Kind::leaving(&transmit, again);
            note(&mut singles.trace, None, kind, now, &transmit);
            let (owner, leaves) = (Owner::Answer(service, id, to), (&transmit, kind));
            let said = singles.answers.get(&id);
            self.output.plan_said(owner, said, leaves, self.config.level);
        }
        match self.listening.get(&service) {
            Some(Listening::Singles(singles)) => (turns, Some(singles.block.sort.unwrap_or(0))),
            _ => (turns, None),
        }
    }

    /// A context has nothing more to send now.
    fn rest(&mut self, index: u32) {
        self.settle(index);
        self.ask_path(index);
        self.reschedule(index);
        if self.standing(index).is_some_and(|standing| !standing.is_eventful) {
            self.reap(index);
        }
    }

    /// Gives the device what is planned.
    fn give(&mut self) {
        match self.output.planned.len() {
            0 => {}
            1..=FEW_FRAMES => self.give_frames::<FEW_FRAMES>(),
            _ => self.give_frames::<FRAMES>(),
        }
    }

    fn give_frames<const N: usize>(&mut self) {
        let Contexts { device, places, listening, output, watch, .. } = self;
        let peer = device.local_addr();
        let mut frames = [TxFrame { peer, header: &[], payload: &[], ecn: Ecn::NotEct }; N];
        let mut kinds = [Kind::Sent; N];
        let mut region = None;
        let mut is_one = true;
        let mut count = 0;
        for planned in &output.planned {
            is_one &= planned.owner == output.planned[0].owner;
            let (memory, peer) = match planned.owner {
                Owner::Context(index) => match places.get(index as usize) {
                    Some(Some(Place::Open(association))) => {
                        let ring = association.ring.memory();
                        region = Some(ring);
                        (&ring[..], association.standing.remote)
                    }
                    Some(Some(Place::Single(exchange))) => {
                        (exchange.said(), exchange.standing.remote)
                    }
                    _ => continue,
                },
                Owner::Answer(service, id, peer) => match listening.get(&service) {
                    Some(Listening::Singles(singles)) => {
                        (singles.answers.get(&id).map_or(&[][..], |said| said.bytes()), peer)
                    }
                    _ => continue,
                },
            };
            let bytes = |at| match at {
                At::Memory(from, to) => &memory[from..to],
                At::Scratch(number, len) => &output.headers[number][..len],
                At::Detour(from, to) => &output.detour[from..to],
            };
            let (header, payload) = (bytes(planned.header), bytes(planned.payload));
            frames[count] = TxFrame { peer, header, payload, ecn: Ecn::NotEct };
            kinds[count] = planned.kind;
            count += 1;
        }
        watch.sent_tpdus(&frames[..count], |at| kinds[at].words());
        hand_over(&mut **device, region.filter(|_| is_one), &frames[..count]);
        output.planned.clear();
        output.detour.clear();
    }

    /// A packet that is none of a stream's or a message's.
    pub(super) fn send_alone(&mut self, peer: SocketAddr, header: &Header, payload: &[u8]) {
        let mut room = [0; Header::LEN_MAX];
        let sum = fusewire_kernels::sum(self.config.level, payload);
        let len = emit(header, &mut room, sum);
        let frame = TxFrame { peer, header: &room[..len], payload, ecn: Ecn::NotEct };
        self.watch.sent_tpdus(&[frame], |_| ["", ""]);
        if let Err(error) = self.device.transmit(&[frame]) {
            tracing::debug!(%error, "cannot send to {peer}");
        }
    }

    /// What the device tells of frames that it took.
    fn take_device_events(&mut self) {
        while let Some(event) = self.device.poll_event() {
            let now = self.clock.now();
            let peer = match event {
                DeviceEvent::TooBig { peer, .. } | DeviceEvent::Unreachable { peer, .. } => peer,
            };
            for index in 0..self.places.len() as u32 {
                if self.standing(index).is_none_or(|standing| standing.remote != peer) {
                    continue;
                }
                let Some(association) = self.at_mut(index) else {
                    if matches!(event, DeviceEvent::Unreachable { .. }) {
                        self.unreachable(index);
                    }
                    continue;
                };
                match event {
                    DeviceEvent::TooBig { len, .. } if association.path.too_big(now, len) => {
                        association.use_path();
                        association.machine.resend_all(now);
                    }
                    DeviceEvent::TooBig { len, .. }
                        if association.path.size().is_none() && len > block::BASE_PACKET =>
                    {
                        association.machine.set_tpdu_len(block::BASE_PACKET);
                        association.machine.resend_all(now);
                    }
                    // Anyone can forge it once there is a context; before, it saves a long wait.
                    DeviceEvent::Unreachable { .. }
                        if matches!(association.machine.state(), State::Opening) =>
                    {
                        association.standing.close(Ended::Unreachable);
                        association.machine.abort();
                    }
                    _ => continue,
                }
                self.make_ready(index);
                self.settle(index);
            }
        }
    }
}
