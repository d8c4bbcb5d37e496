//! What an end takes: packets are opened, each once, ADUs put together, made even, and put into order.

use core::marker::PhantomData;
use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::{Instant, Seq};
use fusewire_session as session;
use fusewire_session::record::NumberedReceiver;
use fusewire_transport::media::{Arrivals, DELTA};

use super::packet::{self, Clock, HEADER_LEN, Header, Kind, NUMBER_LEN};
use super::sender::{lens, limits};
use super::{Counters, Event};
use crate::fec::{Bits, Decoder, Repair};
use crate::lifetime::Skip;
use crate::order::{self, Orders};
use crate::playout::{Late, Playout};
use crate::profile::{Adu, Fec, Profile, kept};

/// Blocks of a lane that are kept for what may be restored.
const BLOCKS: usize = 4;

/// A report's units of time, and the clock's.
const SLACK: Duration = Duration::from_millis(2);

/// ADUs that are told to be late; of more the oldest are not.
const LATE_MAX: usize = 256;

/// Blocks of a lane that are restored by more than an exclusive or, of a second and at once: each costs as much as the largest.
const RESTORED_HZ: u64 = 256;
const RESTORED_BURST: u32 = 32;

/// Of a deadline, what is left to whoever is to ask for what is due: nothing is held for longer.
const LEFT: u32 = 16;

/// An ADU that is put together, or held.
#[derive(Clone, Debug)]
struct Slot {
    state: State,
    number: u32,
    sent: u32,
    count: u8,
    /// Pieces that came.
    have: Bits,
    len: usize,
    behind: Duration,
    /// When its deadline is over.
    over: Option<Instant>,
    is_late: bool,
    bytes: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Filling,
    Held,
    /// Whole, and too far in front of what its order has.
    Ahead,
}

/// What a lane needs.
struct Taking {
    piece: usize,
    slots: Box<[Slot]>,
    /// Numbers that were complete, of the last 64: bit n modulo 64; and one past the highest.
    done: u64,
    end: u64,
    /// What comes of numbers below makes nothing whole.
    below: u64,
    decoder: Option<Decoder>,
    /// Until then it was allowed to restore.
    allowed: Instant,
    playout: Playout<usize>,
    clock: Clock,
}

pub(super) struct Receiver<P> {
    id: u32,
    records: NumberedReceiver,
    arrivals: Arrivals,
    /// The highest number of a datagram that reports tell of.
    path: Highest,
    /// Packets that the peer keeps to send them again.
    gap_max: u64,
    lanes: Box<[Taking]>,
    orders: Orders<usize>,
    /// Adu and slot of what was delivered last.
    last: Option<(usize, usize)>,
    body: Box<[u8]>,
    /// Bytes of a packet that came back from others, while it is opened.
    restored: Box<[u8]>,
    /// Those that were late, and are to be told.
    dropped: VecDeque<(usize, u64)>,
    counters: Counters,
    /// Why the session is at its end.
    error: Option<session::Error>,
    profile: PhantomData<fn() -> P>,
}

/// Numbers of 32 bits that go on.
#[derive(Clone, Copy, Debug, Default)]
struct Highest(u64);

impl Highest {
    fn read(&mut self, low: u32) -> u64 {
        let number = Seq(low).to_offset(Seq(0), self.0).unwrap_or(0);
        self.0 = self.0.max(number);
        number
    }
}

/// What came of a packet.
enum Came {
    Nothing,
    /// So many bytes of a report at the body's end.
    Report(usize),
    /// It may have restored others.
    Protected(usize),
}

impl<P: Profile> Receiver<P> {
    pub fn new(id: u32, records: NumberedReceiver) -> Receiver<P> {
        let record_len = |len| records.record_len(len);
        let lane = |lane: &Adu| {
            let (piece, packet_max) = lens::<P>(lane, record_len);
            let slot = Slot {
                state: State::Free,
                number: 0,
                sent: 0,
                count: 0,
                have: Bits::default(),
                len: 0,
                behind: Duration::ZERO,
                over: None,
                is_late: false,
                bytes: vec![0; lane.len_max].into(),
            };
            let decoder = match lane.fec {
                Fec::Parity(_) => Some(Decoder::new(&limits(lane, piece, packet_max, BLOCKS))),
                _ => None,
            }
            .map(|mut decoder| {
                decoder.allow(RESTORED_BURST);
                decoder
            });
            Taking {
                piece,
                slots: vec![slot; lane.window.max(4)].into(),
                done: 0,
                end: 0,
                below: 0,
                decoder,
                allowed: Instant::ZERO,
                playout: Playout::new(lane.playout, (lane.window / 2).max(2)),
                clock: Clock::default(),
            }
        };
        let packets_kept = |lane: &Adu| {
            let (piece, _) = lens::<P>(lane, record_len);
            (lane.kept * lane.len_max.div_ceil(piece)) as u64
        };
        let order = |lane: &Adu| order::Lane {
            order: lane.order,
            window: 64,
            patience: lane.deadline.map(|deadline| deadline - deadline / LEFT),
            after: &[],
        };
        let orders: Vec<_> = P::TAKES.iter().map(order).collect();
        Receiver {
            id,
            arrivals: Arrivals::new(DELTA),
            path: Highest::default(),
            gap_max: P::TAKES.iter().map(packets_kept).sum(),
            lanes: P::TAKES.iter().map(lane).collect(),
            orders: Orders::new(&orders),
            last: None,
            body: vec![0; P::MTU].into(),
            restored: vec![0; P::MTU].into(),
            dropped: VecDeque::with_capacity(LATE_MAX),
            counters: Counters::default(),
            error: None,
            records,
            profile: PhantomData,
        }
    }

    pub fn arrivals(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn take_error(&mut self) -> Option<session::Error> {
        self.error.take()
    }

    pub fn playout_delay(&self, lane: usize) -> Duration {
        self.lanes[lane].playout.delay()
    }

    /// A datagram came; the peer's report, if it was one.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        one_way: Duration,
        datagram: &[u8],
        ecn: u8,
    ) -> Option<&[u8]> {
        let mut report = None;
        let mut ecn = Some(ecn);
        for (number, packet) in packet::packets(self.id, datagram) {
            // What lies behind the first is a copy: reports do not tell of it.
            match self.handle_packet(now, one_way, number, packet, ecn.take()) {
                Came::Nothing => {}
                Came::Report(len) => {
                    report = Some(HEADER_LEN..HEADER_LEN + len);
                    // Nothing lies behind it, and the next would be opened over it.
                    break;
                }
                Came::Protected(lane) => self.restore(now, one_way, lane),
            }
        }
        report.map(|at| &self.body[at])
    }

    fn restore(&mut self, now: Instant, one_way: Duration, lane: usize) {
        while let Some(found) = self.lanes[lane].decoder.as_mut().and_then(Decoder::poll) {
            let len = found.packet.len();
            let Some(place) = self.restored.get_mut(..len) else { continue };
            place.copy_from_slice(found.packet);
            let Some(number) = place.first_chunk::<NUMBER_LEN>() else { continue };
            let number = u32::from_be_bytes(*number);
            let memory = core::mem::take(&mut self.restored);
            self.counters.restored += 1;
            self.handle_packet(now, one_way, number, &memory[..len], None);
            self.restored = memory;
        }
    }

    /// A packet came by itself, if it has bits of ECN, or as a copy, or from others.
    fn handle_packet(
        &mut self,
        now: Instant,
        one_way: Duration,
        number: u32,
        packet: &[u8],
        ecn: Option<u8>,
    ) -> Came {
        // What was restored, or came as a copy, and comes itself has not been lost on the path.
        let is_new = self.records.is_new(number);
        let header = self.open(number, &packet[NUMBER_LEN..], is_new || ecn.is_none());
        if let (Some((header, _)), Some(ecn)) = (&header, ecn)
            && header.kind != Kind::Report
        {
            let path = self.path.read(header.path);
            let end = self.arrivals.end();
            self.arrivals.on_packet(now, path, ecn);
            // What is missing is told as soon as it cannot just be late any more, where it would be sent again: no more than the
            // peer keeps.
            if const { kept(P::TAKES) > 0 } && path > end && path - end <= self.gap_max {
                self.arrivals.hasten(now + P::NETWORK.jitter + SLACK, end..path);
            }
        }
        let Some((header, len)) = header.filter(|_| is_new) else {
            self.counters.refused += 1;
            return Came::Nothing;
        };
        self.counters.opened += 1;
        let lane = match header.kind {
            Kind::Report => return Came::Report(len),
            Kind::Piece(lane) | Kind::Repair(lane) => usize::from(lane),
        };
        let Some(taking) = self.lanes.get_mut(lane) else { return Came::Nothing };
        taking.allow(now);
        let payload = &self.body[HEADER_LEN..][..len];
        if let Kind::Repair(_) = header.kind {
            if let (Some(decoder), Some(repair)) = (&mut taking.decoder, Repair::parse(payload))
                && repair.block == header.adu
            {
                let _ = decoder.on_repair(&repair);
            }
            return Came::Protected(lane);
        }
        if let Some(decoder) = &mut taking.decoder {
            decoder.on_packet(header.adu, header.index, packet);
        }
        taking.forget(self.orders.base(lane), &mut self.counters);
        if let Some(slot) = taking.piece(&header, payload, &mut self.counters) {
            self.whole(now, one_way, lane, slot);
        }
        Came::Protected(lane)
    }

    /// Opens a record, for the first time or again: its header, and the bytes behind it. `None`: it is not the peer's.
    fn open(&mut self, number: u32, record: &[u8], is_first: bool) -> Option<(Header, usize)> {
        let opened = match is_first {
            true => self.records.open_into(number, record, &mut self.body),
            false => self.records.reopen_into(number, record, &mut self.body),
        };
        match opened {
            Ok(len) => {
                let (header, payload) = Header::parse(&self.body[..len])?;
                Some((header, payload.len()))
            }
            Err(error) => {
                if let session::Error::IntegrityLimit { .. } = error {
                    self.error = Some(error);
                }
                None
            }
        }
    }

    /// An ADU is whole.
    fn whole(&mut self, now: Instant, one_way: Duration, lane: usize, at: usize) {
        let clauses = &P::TAKES[lane];
        let taking = &mut self.lanes[lane];
        let sent = taking.clock.read(taking.slots[at].sent);
        taking.slots[at].state = State::Held;
        let most = clauses.deadline.map(|d| (d - d / LEFT).saturating_sub(one_way));
        let pushed = taking.playout.push(now, sent, most.unwrap_or(Duration::MAX), at);
        let behind = taking.playout.behind();
        let left = clauses.deadline.map(|deadline| deadline.checked_sub(behind + one_way));
        let slot = &mut taking.slots[at];
        (slot.behind, slot.is_late) = (behind, left == Some(None));
        slot.over = left.flatten().map(|left| now + left);
        // With the last slot nothing that is missing is waited for any more: those behind it make room.
        if taking.slots.iter().all(|slot| slot.state != State::Free) {
            let held = taking.slots.iter().filter(|slot| slot.state == State::Held);
            let count = held.map(|slot| slot.number).min().map_or(0, u64::from);
            self.orders.skip(Skip { lane, first: 0, count });
        }
        // Those beyond the room go on at once, also before events are asked for.
        while let Some(at) = self.lanes[lane].playout.poll_overflow() {
            self.play(now, lane, at);
        }
        if let Err(Late { adu, .. }) = pushed {
            self.lanes[lane].slots[adu].is_late = true;
            // It need not be made even any more.
            if clauses.drops_late {
                self.drop_late(lane, adu);
            } else {
                self.order(now, lane, adu);
            }
        }
    }

    /// What playout held goes on.
    fn play(&mut self, now: Instant, lane: usize, at: usize) {
        match self.lanes[lane].slots[at].is_late && P::TAKES[lane].drops_late {
            true => self.drop_late(lane, at),
            false => self.order(now, lane, at),
        }
    }

    fn drop_late(&mut self, lane: usize, at: usize) {
        let slot = &mut self.lanes[lane].slots[at];
        slot.state = State::Free;
        self.counters.late += 1;
        let number = slot.number.into();
        // Nobody waits for it.
        self.orders.skip(Skip { lane, first: number, count: 1 });
        if self.dropped.len() == LATE_MAX {
            self.dropped.pop_front();
        }
        self.dropped.push_back((lane, number));
    }

    /// An ADU's time has come.
    fn order(&mut self, now: Instant, lane: usize, at: usize) {
        let Slot { number, over, .. } = self.lanes[lane].slots[at];
        // What it waits for is waited for as long as its own deadline lets it: as if it had come when it was pushed.
        let pushed = match (over, P::TAKES[lane].deadline) {
            (Some(over), Some(deadline)) => {
                Instant::ZERO + over.saturating_since(Instant::ZERO).saturating_sub(deadline)
            }
            _ => now,
        };
        if let Err((why, at)) = self.orders.push(pushed, lane, number.into(), &[], at) {
            // So many were lost in a row that nothing of the window will come: it moves on, and then this one is taken.
            let is_ahead = why == order::Refused::Beyond;
            if is_ahead {
                self.orders.make_room(lane, number.into());
            }
            let state = if is_ahead { State::Ahead } else { State::Free };
            self.lanes[lane].slots[at].state = state;
        }
    }

    /// Of what is too far ahead the first.
    fn take_ahead(&mut self, now: Instant) -> bool {
        let first = |(lane, taking): (usize, &Taking)| {
            let ahead =
                taking.slots.iter().enumerate().filter(|(_, slot)| slot.state == State::Ahead);
            ahead.min_by_key(|(_, slot)| slot.number).map(|(at, _)| (lane, at))
        };
        let Some((lane, at)) = self.lanes.iter().enumerate().find_map(first) else { return false };
        self.lanes[lane].slots[at].state = State::Held;
        self.order(now, lane, at);
        true
    }

    /// The next event, of which an ADU's bytes are [`bytes_of_last`](Self::bytes_of_last).
    pub fn poll_event(&mut self, now: Instant) -> Option<Event<'static>> {
        if let Some((lane, at)) = self.last.take() {
            self.lanes[lane].slots[at].state = State::Free;
        }
        loop {
            if let Some((lane, number)) = self.dropped.pop_front() {
                return Some(Event::Late { lane, number });
            }
            match self.orders.poll(now) {
                Some(order::Event::Gap(skip)) => return Some(Event::Gap(skip)),
                Some(order::Event::Adu { lane, number, adu }) => {
                    let slot = &mut self.lanes[lane].slots[adu];
                    slot.is_late |= slot.over.is_some_and(|over| now > over);
                    if slot.is_late && P::TAKES[lane].drops_late {
                        self.drop_late(lane, adu);
                        continue;
                    }
                    self.last = Some((lane, adu));
                    self.counters.delivered += 1;
                    let Slot { behind, is_late, .. } = self.lanes[lane].slots[adu];
                    return Some(Event::Adu { lane, number, bytes: &[], behind, is_late });
                }
                None => {}
            }
            if self.take_ahead(now) {
                continue;
            }
            let due =
                |(lane, taking): (usize, &mut Taking)| Some((lane, taking.playout.poll(now)?));
            let (lane, at) = self.lanes.iter_mut().enumerate().find_map(due)?;
            self.play(now, lane, at);
        }
    }

    /// The ADU that was delivered last, until the next event is asked for.
    pub fn bytes_of_last(&self) -> &[u8] {
        let Some((lane, at)) = self.last else { return &[] };
        let slot = &self.lanes[lane].slots[at];
        &slot.bytes[..slot.len]
    }

    /// A lane has no room for what one more datagram may make whole: two ADUs, where one is a copy.
    pub fn is_crowded(&self) -> bool {
        self.lanes.iter().any(|lane| {
            let count = |state| lane.slots.iter().filter(|slot| slot.state == state).count();
            count(State::Held) + count(State::Ahead) > 0 && count(State::Free) < 2
        })
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.lanes.iter().filter_map(|lane| lane.playout.poll_timeout()).min();
        [due, self.orders.poll_timeout(), self.arrivals.poll_timeout()].into_iter().flatten().min()
    }
}

impl Taking {
    /// What will not be whole any more, or would come after what was given up for it, makes room: below this number.
    fn forget(&mut self, below: u64, counters: &mut Counters) {
        self.below = below.max(self.end.saturating_sub(64));
        for slot in &mut self.slots {
            if slot.state == State::Filling && u64::from(slot.number) < self.below {
                slot.state = State::Free;
                counters.incomplete += 1;
            }
        }
    }

    /// Time has passed: blocks may be restored again.
    fn allow(&mut self, now: Instant) {
        let Some(decoder) = &mut self.decoder else { return };
        let each = Duration::from_nanos(1_000_000_000 / RESTORED_HZ);
        let count = now.saturating_since(self.allowed).as_nanos() / each.as_nanos();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count > 0 {
            decoder.allow(decoder.allowed().saturating_add(count).min(RESTORED_BURST));
            // What is left of the time counts, unless it is more than a burst.
            self.allowed = if count < RESTORED_BURST { self.allowed + each * count } else { now };
        }
    }

    /// A piece came; the slot of its ADU, if it is whole with it.
    fn piece(&mut self, header: &Header, bytes: &[u8], counters: &mut Counters) -> Option<usize> {
        let (index, last) = (usize::from(header.index), usize::from(header.count) - 1);
        let from = index * self.piece;
        // All but the last are full, and it is not empty.
        let fits = if index < last { bytes.len() == self.piece } else { !bytes.is_empty() };
        let len_max = self.slots[0].bytes.len();
        if !fits || from + bytes.len() > len_max || last * self.piece >= len_max {
            return None;
        }
        let at = self.slot(header, counters)?;
        let slot = &mut self.slots[at];
        if slot.count != header.count || slot.have.has(index) {
            return None;
        }
        slot.have.set(index);
        slot.bytes[from..][..bytes.len()].copy_from_slice(bytes);
        if index == last {
            slot.len = from + bytes.len();
        }
        if slot.have.count(header.count.into()) < header.count.into() {
            return None;
        }
        self.finish(header.adu.into());
        Some(at)
    }

    /// Where an ADU is put together; `None`: it is done, or older than what is remembered, or there is no room.
    fn slot(&mut self, header: &Header, counters: &mut Counters) -> Option<usize> {
        let number = u64::from(header.adu);
        if number < self.below || number < self.end && self.done >> (number % 64) & 1 == 1 {
            return None;
        }
        let is = |slot: &Slot| slot.state == State::Filling && slot.number == header.adu;
        if let Some(at) = self.slots.iter().position(is) {
            return Some(at);
        }
        let free = self.slots.iter().position(|slot| slot.state == State::Free);
        let at = match free {
            Some(at) => at,
            None => {
                let filling = self.slots.iter().enumerate();
                let filling = filling.filter(|(_, slot)| slot.state == State::Filling);
                let Some((at, oldest)) = filling.min_by_key(|(_, slot)| slot.number) else {
                    counters.no_room += 1;
                    return None;
                };
                if oldest.number > header.adu {
                    counters.no_room += 1;
                    return None;
                }
                counters.incomplete += 1;
                at
            }
        };
        let slot = &mut self.slots[at];
        (slot.state, slot.number, slot.sent) = (State::Filling, header.adu, header.sent);
        (slot.count, slot.have, slot.len) = (header.count, Bits::default(), 0);
        Some(at)
    }

    /// This number is whole, and does not begin again.
    fn finish(&mut self, number: u64) {
        if number >= self.end {
            for new in self.end.max((number + 1).saturating_sub(64))..=number {
                self.done &= !(1 << (new % 64));
            }
            self.end = number + 1;
        }
        self.done |= 1 << (number % 64);
    }
}
