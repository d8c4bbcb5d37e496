//! What an end sends: ADUs by importance, cut, sealed, corrected, at the rate that the path has.

use core::marker::PhantomData;
use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_session as session;
use fusewire_session::record::NumberedSender;
use fusewire_transport::media::{self, Arrivals, Breaker, DELTA, Nada, Seen};
use fusewire_transport::pacing::Pacer;
use fusewire_wire::feedback::Report;

use super::again::{Again, Kept};
use super::packet::{
    self, AROUND_IPV4, AROUND_MAX, Body, FRAME_LEN, HEADER_LEN, Header, ID_LEN, Kind,
};
use super::{Counters, Refused};
use crate::fec::{self, Copies, Encoder};
use crate::lifetime::{Item, Lifetime, Limits, Queue, Why};
use crate::playout::Mode;
use crate::profile::{Adu, Fec, Network, Profile, kept};

/// ADUs that may be taken from other lanes while one waits, or the next packet of one.
const PATIENCE: u32 = 64;
/// What the bucket lets out at once, in datagrams.
const BURST: u64 = 2;
/// Packets that a path is told of and has not reported.
const PACKETS_MAX: usize = 4096;
/// Bytes of a report: 500 packets, which is 25 Mbit/s.
const REPORT_MAX: usize = 1024;
/// ADUs that are told to be lost; of more the oldest are not.
const LOST_MAX: usize = 256;
/// Of the rate, what reports may take that go early, one part in so many; and how many go at once.
const EARLY_SHARE: u64 = 20;
const EARLY_BURST: u64 = 4;
/// Weight of an ADU in what share of a lane's bytes is its own.
const SMOOTHING: f64 = 1.0 / 16.0;

/// How often it is looked at what a lane makes.
const LOOK: Duration = Duration::from_millis(500);
/// A queue that is no longer than this is none: each packet that leaves makes one.
const QUEUE_LEAST: Duration = Duration::from_millis(15);
/// Beyond its round trip and the reports' interval, how long a report may take.
const SLACK: Duration = Duration::from_millis(25);

/// An ADU that is being sent.
#[derive(Clone, Debug)]
struct Progress {
    item: Item<usize>,
    sent: u32,
    /// Packets of it, and of its parity; and which is next.
    packets: u8,
    repairs: u8,
    next: usize,
    /// ADUs of other lanes that began since its last packet.
    passed: u32,
    /// Bytes that it took on its way.
    bytes: usize,
}

/// What goes next.
enum Turn {
    /// The next packet of a lane's ADU.
    First(usize),
    /// One of a lane that was lost.
    Again(usize),
}

/// What a lane needs.
struct Sending {
    progress: Option<Progress>,
    copies: Option<Copies>,
    encoder: Option<Encoder>,
    /// When it had a turn last, counted in packets that went for the first time.
    served: u64,
    /// Bytes on the way for one of an ADU's.
    load: f64,
    /// Bytes on the way since it was looked at last, and bits a second of that before, and before that; infinite: not yet.
    bytes: usize,
    bits: [f64; 2],
}

pub(super) struct Sender<P> {
    id: u32,
    records: NumberedSender,
    next: u32,
    /// Packets that went for the first time.
    turns: u64,
    queue: Queue<usize>,
    /// Memory of ADUs that wait, with when each was pushed; and which of it is free.
    slots: Box<[(Instant, Vec<u8>)]>,
    free: Vec<usize>,
    /// What is to be told.
    lost: VecDeque<(usize, u64, Why)>,
    lanes: Box<[Sending]>,
    again: Again,
    /// When the last report came.
    reported: Instant,
    nada: Nada,
    breaker: Breaker,
    pacer: Pacer,
    /// Of reports that go early.
    early: Pacer,
    /// Bytes of the headers around a datagram.
    around: usize,
    /// When it was looked at what lanes make.
    looked: Instant,
    counters: Counters,
    profile: PhantomData<fn() -> P>,
}

/// The longest queue of the path with which what is more important than what adapts comes in time at the worst that is vouched for: of
/// others, which have no deadline or are less important, nobody says.
fn queue_max<P: Profile>() -> Option<Duration> {
    let Network { one_way, jitter, .. } = P::NETWORK;
    let adapting = P::SENDS.iter().find(|lane| lane.adapted.is_some())?;
    let room = |lane: &Adu| {
        // The rest of a deadline is left to who asks for it.
        let deadline = lane.deadline?;
        let held = match lane.playout {
            Mode::None => Duration::MAX,
            Mode::Fixed(held) | Mode::Adaptive { most: held, .. } => held,
        };
        let most = held.min((deadline - deadline / 16).saturating_sub(one_way));
        let copies = match lane.fec {
            // So seldom may they come that a copy never does.
            Fec::Copy { distance } if lane.hz > 0.0 => {
                Duration::try_from_secs_f64(f64::from(distance) / lane.hz).unwrap_or(Duration::MAX)
            }
            _ => Duration::ZERO,
        };
        Some(most.saturating_sub(jitter.saturating_add(copies)).max(QUEUE_LEAST))
    };
    P::SENDS.iter().filter(|lane| lane.priority < adapting.priority).filter_map(room).min()
}

/// Bytes of an ADU in one packet.
pub(super) fn piece_len(lane: &Adu, mtu: usize, record_len: impl Fn(usize) -> usize) -> usize {
    let room = mtu.saturating_sub(AROUND_MAX + ID_LEN);
    let whole = match lane.fec {
        Fec::Copy { .. } => room / 2,
        _ => room,
    };
    // A repair is as long as the longest packet, and has its own headers.
    let repair = match lane.fec.repairs_max() {
        0 => 0,
        _ => FRAME_LEN + record_len(HEADER_LEN + fec::HEADER_LEN) + 4,
    };
    let piece = whole.checked_sub(repair + FRAME_LEN + record_len(HEADER_LEN));
    piece.filter(|piece| *piece > 0).unwrap_or_else(|| {
        panic!("datagrams of {mtu} bytes have no room for {}", lane.name);
    })
}

/// Bytes of an ADU of this lane in one packet, and of its longest packet.
///
/// # Panics
/// If its constants do not go together.
pub(super) fn lens<P: Profile>(lane: &Adu, record_len: impl Fn(usize) -> usize) -> (usize, usize) {
    let piece = piece_len(lane, P::MTU, &record_len);
    let packets = lane.len_max.div_ceil(piece);
    assert!(lane.len_max > 0 && packets <= fec::PACKETS_MAX, "{} is too long", lane.name);
    let is_bounded = lane.deadline.is_some() && lane.drops_late;
    let is_once = lane.kept == 0 || lane.fec == Fec::None && is_bounded;
    assert!(is_once, "{} is sent again, and corrected, or comes however late", lane.name);
    let is_copied = matches!(lane.fec, Fec::Copy { .. });
    assert!(!is_copied || packets == 1, "{} is copied, and has {packets} packets", lane.name);
    (piece, packet_max(piece, record_len))
}

/// What blocks of a lane keep within, with so many of them.
pub(super) fn limits(lane: &Adu, piece: usize, packet_max: usize, blocks: usize) -> fec::Limits {
    let packets = lane.len_max.div_ceil(piece).max(1);
    fec::Limits { packets, repairs: lane.fec.repairs_max().max(1), blocks, len_max: packet_max }
}

/// Bytes of the longest packet of a lane, with its number.
pub(super) fn packet_max(piece: usize, record_len: impl Fn(usize) -> usize) -> usize {
    packet::NUMBER_LEN + record_len(HEADER_LEN + piece)
}

impl<P: Profile> Sender<P> {
    pub fn new(
        now: Instant,
        id: u32,
        records: NumberedSender,
    ) -> Result<Sender<P>, session::Error> {
        // What the peer has said in its hello.
        let max = records.body_len_max();
        let room = P::MTU.saturating_sub(AROUND_MAX + ID_LEN + FRAME_LEN);
        if records.record_len(max) < room {
            let len = room - records.record_len(0);
            return Err(session::Misuse::BodyTooLong { len, max }.into());
        }
        let record_len = |len| records.record_len(len);
        let lane = |lane: &Adu| {
            let (piece, packet_max) = lens::<P>(lane, record_len);
            let (mut copies, mut encoder) = (None, None);
            match lane.fec {
                Fec::None => {}
                Fec::Copy { distance } => copies = Some(Copies::new(distance, packet_max)),
                Fec::Parity(_) => {
                    encoder = Some(Encoder::new(&limits(lane, piece, packet_max, 1)));
                }
            }
            let bits = [f64::INFINITY; 2];
            Sending { progress: None, copies, encoder, served: 0, load: 1.2, bytes: 0, bits }
        };
        let len_max = P::SENDS.iter().map(|lane| lane.len_max).max().unwrap_or(0);
        let priorities: Vec<u32> = P::SENDS.iter().map(|lane| lane.priority).collect();
        let bytes = P::ADUS * len_max;
        let config = media::Config {
            rate_min: P::RATES.0,
            rate_max: P::RATES.1,
            queue_max: queue_max::<P>(),
            packets_max: PACKETS_MAX,
            ..media::Config::default()
        };
        // Those that wait, those that are being sent, those that are kept, and one that takes the place of others.
        let slots = P::ADUS + P::SENDS.len() + kept(P::SENDS) + 1;
        let slot = || (now, Vec::with_capacity(len_max));
        let again =
            Again::new(P::SENDS, |lane| lane.len_max.div_ceil(piece_len(lane, P::MTU, record_len)));
        let mut sender = Sender {
            lanes: P::SENDS.iter().map(lane).collect(),
            again,
            reported: now,
            id,
            records,
            next: 0,
            turns: 0,
            queue: Queue::new(Limits { adus: P::ADUS, bytes, patience: PATIENCE }, &priorities),
            slots: core::iter::repeat_with(slot).take(slots).collect(),
            free: (0..slots).collect(),
            lost: VecDeque::with_capacity(LOST_MAX),
            nada: Nada::new(now, config),
            breaker: Breaker::new(now, P::BREAKER),
            pacer: Pacer::new(BURST * P::MTU as u64, Duration::ZERO),
            early: Pacer::new(EARLY_BURST * REPORT_MAX as u64, Duration::ZERO),
            around: AROUND_IPV4,
            looked: now,
            counters: Counters::default(),
            profile: PhantomData,
        };
        sender.pace();
        Ok(sender)
    }

    pub fn set_ipv6(&mut self) {
        self.around = AROUND_MAX;
    }

    /// Queues an ADU of so many bytes, which `fill` writes.
    pub fn push(
        &mut self,
        now: Instant,
        lane: usize,
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, Refused> {
        let clauses = &P::SENDS[lane];
        if len == 0 || len > clauses.len_max {
            return Err(Refused::Length);
        }
        let slot = self.free.pop().ok_or(Refused::Full)?;
        let lifetime = match clauses.deadline {
            Some(deadline) if clauses.drops_late => Lifetime::of(now, deadline),
            _ => Lifetime::ENDLESS,
        };
        let pushed = self.queue.push(lane, len, lifetime, slot);
        if pushed.is_ok() {
            let (at, bytes) = &mut self.slots[slot];
            *at = now;
            bytes.clear();
            fill(bytes);
            debug_assert_eq!(bytes.len(), len);
        }
        self.note_lost();
        self.pace();
        pushed.map_err(|slot| {
            self.free.push(slot);
            Refused::Full
        })
    }

    /// What is lost leaves its memory.
    fn note_lost(&mut self) {
        // Receivers find gaps themselves: by what is newer, or by their patience.
        while self.queue.poll_skip().is_some() {}
        while let Some((item, why)) = self.queue.poll_lost() {
            self.free.push(item.adu);
            self.tell_lost(item.lane, item.number, why);
        }
        if const { kept(P::SENDS) > 0 } {
            while let Some(gone) = self.again.poll_gone() {
                self.free.push(gone.slot);
                if let Some(why) = gone.why {
                    self.tell_lost(gone.lane, gone.number, why);
                }
            }
        }
    }

    fn tell_lost(&mut self, lane: usize, number: u64, why: Why) {
        if self.lost.len() == LOST_MAX {
            self.lost.pop_front();
        }
        self.lost.push_back((lane, number, why));
    }

    /// How long what leaves now is on its way, as far as reports have shown: a queue of which nobody has told since drains.
    fn one_way(&self, now: Instant) -> Duration {
        let Seen { rtt, rtt_least, queue, .. } = *self.nada.seen();
        if rtt_least.is_zero() {
            return P::NETWORK.one_way;
        }
        let untold = now.saturating_since(self.reported).saturating_sub(2 * DELTA + rtt);
        rtt_least / 2 + queue.saturating_sub(untold)
    }

    /// How long a report may take that tells of what leaves now: one may be lost.
    fn patience(&self) -> Duration {
        let Seen { rtt, .. } = *self.nada.seen();
        let rtt = if rtt.is_zero() { 2 * P::NETWORK.one_way } else { rtt };
        rtt + 2 * DELTA + P::NETWORK.jitter + SLACK
    }

    /// Bytes that wait for the bucket.
    fn waiting(&self) -> usize {
        let left = |p: &Progress| {
            let pieces = usize::from(p.packets);
            p.item.bytes * pieces.saturating_sub(p.next) / pieces
        };
        let under_way = self.lanes.iter().filter_map(|lane| lane.progress.as_ref());
        let mut again = 0;
        if const { kept(P::SENDS) > 0 } {
            let lost = |(at, lane): (usize, &Adu)| match self.again.waiting(at) {
                0 => 0,
                lost => lost * piece_len(lane, P::MTU, |len| self.records.record_len(len)),
            };
            again = P::SENDS.iter().enumerate().map(lost).sum();
        }
        self.queue.len().1 + under_way.map(left).sum::<usize>() + again
    }

    /// Whether something of a lane waits to leave for the first time, but for parity.
    pub fn is_waiting(&self, lane: usize) -> bool {
        let progress = self.lanes[lane].progress.as_ref();
        self.queue.waits(lane) || progress.is_some_and(|p| p.next < usize::from(p.packets))
    }

    pub fn target_bits(&self) -> u64 {
        self.nada.target(self.waiting()).media
    }

    /// Bits a second that an application may make of this lane: of the target what others leave, without what goes around. Of
    /// what others may make at most it counts what they do make: NADA ramps up by what is received, and what is left to
    /// nobody would keep it where it is.
    pub fn share_of(&self, lane: usize) -> u64 {
        let others = P::SENDS.iter().zip(&self.lanes).enumerate().filter(|(at, _)| *at != lane);
        let others: f64 = others
            .map(|(_, (lane, state))| {
                let [last, before] = state.bits;
                last.max(before).min(lane.fixed_bits as f64 * state.load)
            })
            .sum();
        let left = (self.target_bits() as f64 - others).max(0.0);
        (left / self.lanes[lane].load) as u64
    }

    fn pace(&mut self) {
        let send = self.nada.target(self.waiting()).send;
        self.pacer.set_pace(send / 8, BURST * P::MTU as u64);
        self.early.set_pace((send / 8 / EARLY_SHARE).max(1), EARLY_BURST * REPORT_MAX as u64);
    }

    pub fn on_report(&mut self, now: Instant, report: &Report<'_>) {
        self.nada.on_report(now, report);
        if const { kept(P::SENDS) > 0 } {
            self.reported = now;
            self.again.on_report(report, self.nada.next_number(), P::NETWORK.jitter);
            self.note_lost();
        }
        self.breaker.on_report(report);
        self.look(now);
        self.pace();
    }

    /// What lanes make.
    fn look(&mut self, now: Instant) {
        let time = now.saturating_since(self.looked);
        if time < LOOK {
            return;
        }
        for lane in &mut self.lanes {
            let bits = 8.0 * std::mem::take(&mut lane.bytes) as f64 / time.as_secs_f64();
            lane.bits = [bits, lane.bits[0]];
        }
        self.looked = now;
    }

    pub fn poll_transmit(
        &mut self,
        now: Instant,
        arrivals: &mut Arrivals,
        out: &mut [u8],
    ) -> Result<Option<usize>, session::Error> {
        if let Some(len) = self.report(now, arrivals, out)? {
            return Ok(Some(len));
        }
        if self.tripped().is_some() {
            return Ok(None);
        }
        // What is too old is not sent, and what is not sent for it makes no room in the bucket.
        let Some(turn) = self.begin(now) else { return Ok(None) };
        if self.pacer.room(now) == 0 {
            return Ok(None);
        }
        let len = match turn {
            Turn::First(lane) => self.piece(now, lane, out)?,
            Turn::Again(lane) => self.piece_again(now, lane, out)?,
        };
        self.pacer.on_sent(now, (len + self.around) as u64);
        self.nada.on_sent(now, len + self.around);
        self.breaker.on_sent();
        self.counters.sent += 1;
        self.counters.sent_bytes += (len + self.around) as u64;
        Ok(Some(len))
    }

    /// A report, if one is due: it is neither counted nor paced, but for those that go early.
    fn report(
        &mut self,
        now: Instant,
        arrivals: &mut Arrivals,
        out: &mut [u8],
    ) -> Result<Option<usize>, session::Error> {
        let around = AROUND_MAX + ID_LEN + FRAME_LEN + self.records.record_len(HEADER_LEN);
        let mut bytes = [0; REPORT_MAX];
        let room = P::MTU.saturating_sub(around).min(REPORT_MAX);
        let is_early = arrivals.is_early(now);
        let Some(len) = arrivals.report(now, &mut bytes[..room]) else { return Ok(None) };
        if is_early {
            self.early.on_sent(now, (len + around) as u64);
            if self.early.room(now) == 0 {
                arrivals.hold_early(self.early.next_send().unwrap_or(now));
            }
        }
        let header = Header {
            kind: Kind::Report,
            index: 0,
            count: 0,
            adu: 0,
            sent: packet::units(now),
            path: 0,
        };
        let body = Body { header, payload: [&bytes[..len], &[]] };
        let len = ID_LEN + self.seal(&body, &mut out[ID_LEN..])?;
        out[..ID_LEN].copy_from_slice(&self.id.to_be_bytes());
        Ok(Some(len))
    }

    /// The lane whose ADU goes on, or begins, or of which something goes again.
    fn begin(&mut self, now: Instant) -> Option<Turn> {
        let way = self.one_way(now);
        for at in 0..self.lanes.len() {
            let progress = &mut self.lanes[at].progress;
            // Where what is missing of it cannot come in time, the rest is of no use.
            let is_over = |p: &mut Progress| {
                p.item.lifetime.is_over(now) || self.again.is_hopeless(at, p.item.number, now, way)
            };
            if let Some(old) = progress.take_if(is_over) {
                self.again.forget(at, old.item.number);
                self.queue.give_up(old.item);
            }
        }
        let mut again = None;
        if const { kept(P::SENDS) > 0 } {
            again = self.again.next_lane(now, way, |lane| P::SENDS[lane].priority);
        }
        let active = || {
            let lanes = self.lanes.iter().enumerate();
            lanes.filter_map(|(at, lane)| Some((at, lane.progress.as_ref()?.passed)))
        };
        let starved = active().filter(|(_, passed)| *passed >= PATIENCE);
        let starved = starved.max_by_key(|(_, passed)| *passed).map(|(at, _)| at);
        self.queue.handle_timeout(now);
        self.note_lost();
        if let Some(starved) = starved {
            return Some(Turn::First(starved));
        }
        let is_active = |lane: usize| self.lanes[lane].progress.is_some();
        let waits_long = self.queue.starved(|lane| !is_active(lane));
        let goes = |lane: &usize| is_active(*lane) || self.queue.waits(*lane);
        // Of those that are as important each has a packet in turn: what is short does not wait for all of what is long.
        let turn = |lane: &usize| (P::SENDS[*lane].priority, self.lanes[*lane].served);
        let first = (0..self.lanes.len()).filter(goes).min_by_key(turn);
        // It is older than what is as important.
        if let Some(again) = again
            && waits_long.is_none()
            && first.is_none_or(|first| P::SENDS[again].priority <= P::SENDS[first].priority)
        {
            return Some(Turn::Again(again));
        }
        let lane = waits_long.or(first)?;
        if is_active(lane) {
            return Some(Turn::First(lane));
        }
        let item = self.queue.take_of(lane)?;
        for progress in self.lanes.iter_mut().filter_map(|lane| lane.progress.as_mut()) {
            progress.passed += 1;
        }
        let record_len = |len| self.records.record_len(len);
        let piece = piece_len(&P::SENDS[lane], P::MTU, record_len);
        let packets = item.bytes.div_ceil(piece) as u8;
        let repairs = P::SENDS[lane].fec.repairs(packets.into());
        if repairs > 0
            && let Some(encoder) = &mut self.lanes[lane].encoder
        {
            let longest = packet_max(item.bytes.min(piece), record_len);
            encoder.begin(item.number as u32, packets, repairs, longest);
        }
        let pushed = self.slots[item.adu].0;
        let sent = packet::units(pushed);
        let Adu { kept, deadline, .. } = P::SENDS[lane];
        if kept > 0
            && let Some(deadline) = deadline
        {
            let (number, slot, until) = (item.number, item.adu, pushed + deadline);
            self.again.begin(lane, kept, Kept { number, slot, sent, packets, until });
            self.note_lost();
        }
        // Its turn stays its own where the bucket has no room for it yet.
        let passed = if waits_long.is_some() { PATIENCE } else { 0 };
        self.lanes[lane].progress =
            Some(Progress { item, sent, packets, repairs, next: 0, passed, bytes: 0 });
        Some(Turn::First(lane))
    }

    /// Writes a packet with a piece of an ADU: sealed anew where it goes again, so that reports tell of it by itself.
    fn seal_piece(
        &mut self,
        lane: usize,
        kept: &Kept,
        index: usize,
        out: &mut [u8],
    ) -> Result<usize, session::Error> {
        let path = self.nada.next_number() as u32;
        let piece = piece_len(&P::SENDS[lane], P::MTU, |len| self.records.record_len(len));
        let slot = core::mem::take(&mut self.slots[kept.slot].1);
        let end = slot.len().min((index + 1) * piece);
        let (kind, count, adu) = (Kind::Piece(lane as u8), kept.packets, kept.number as u32);
        let header = Header { kind, index: index as u8, count, adu, sent: kept.sent, path };
        let body = Body { header, payload: [&slot[index * piece..end], &[]] };
        let sealed = self.seal(&body, &mut out[ID_LEN..]);
        self.slots[kept.slot].1 = slot;
        Ok(ID_LEN + sealed?)
    }

    /// Writes a packet of a lane's that was lost.
    fn piece_again(
        &mut self,
        now: Instant,
        lane: usize,
        out: &mut [u8],
    ) -> Result<usize, session::Error> {
        let (kept, index) = self.again.take(lane).expect("it waits");
        out[..ID_LEN].copy_from_slice(&self.id.to_be_bytes());
        let len = self.seal_piece(lane, &kept, index.into(), out)?;
        self.again.on_sent(now, self.nada.next_number(), lane, kept.number, index);
        // It goes before others like one of its ADUs.
        self.queue.pass(lane);
        for progress in self.lanes.iter_mut().filter_map(|lane| lane.progress.as_mut()) {
            progress.passed += 1;
        }
        let bytes = len + self.around;
        let state = &mut self.lanes[lane];
        state.bytes += bytes;
        state.load += SMOOTHING * bytes as f64 / self.slots[kept.slot].1.len() as f64;
        self.counters.sent_again += 1;
        Ok(len)
    }

    /// Writes the next packet of a lane's ADU.
    fn piece(
        &mut self,
        now: Instant,
        lane: usize,
        out: &mut [u8],
    ) -> Result<usize, session::Error> {
        let mut progress = self.lanes[lane].progress.take().expect("it goes on");
        self.turns += 1;
        self.lanes[lane].served = self.turns;
        let path = self.nada.next_number() as u32;
        let Progress { packets, repairs, next, sent, .. } = progress;
        let adu = progress.item.number as u32;
        out[..ID_LEN].copy_from_slice(&self.id.to_be_bytes());
        let mut len;
        if next < packets.into() {
            let (number, slot) = (progress.item.number, progress.item.adu);
            let kept = Kept { number, slot, sent, packets, until: Instant::ZERO };
            len = self.seal_piece(lane, &kept, next, out)?;
            if P::SENDS[lane].kept > 0 {
                self.again.on_sent(now, self.nada.next_number(), lane, number, next as u8);
            }
            let (head, behind) = out.split_at_mut(len);
            let packet = &head[ID_LEN + 2..];
            if repairs > 0
                && let Some(encoder) = &mut self.lanes[lane].encoder
            {
                encoder.push(packet);
            }
            if let Some(copies) = &mut self.lanes[lane].copies
                && let Some(copy) = copies.push(now, packet, progress.item.lifetime)
            {
                let record = (copy.len() - packet::NUMBER_LEN) as u16;
                behind[..2].copy_from_slice(&record.to_be_bytes());
                behind[2..][..copy.len()].copy_from_slice(copy);
                len += 2 + copy.len();
                self.counters.sent_correction_bytes += 2 + copy.len() as u64;
            }
        } else {
            let encoder = self.lanes[lane].encoder.take().expect("it has parity");
            let repair = encoder.repair((next - usize::from(packets)) as u8);
            let kind = Kind::Repair(lane as u8);
            let header = Header { kind, index: 0, count: 0, adu, sent, path };
            let body = Body { header, payload: [&repair.header(), repair.symbol] };
            let sealed = self.seal(&body, &mut out[ID_LEN..]);
            self.lanes[lane].encoder = Some(encoder);
            len = ID_LEN + sealed?;
            self.counters.sent_correction_bytes += (len + self.around) as u64;
        }
        (progress.next, progress.passed) = (progress.next + 1, 0);
        progress.bytes += len + self.around;
        if progress.next < usize::from(packets) + usize::from(repairs) {
            self.lanes[lane].progress = Some(progress);
        } else {
            if P::SENDS[lane].kept > 0 {
                self.again.whole(lane, progress.item.number);
                self.note_lost();
            } else {
                self.free.push(progress.item.adu);
            }
            let load = progress.bytes as f64 / progress.item.bytes as f64;
            let state = &mut self.lanes[lane];
            state.load += SMOOTHING * (load - state.load);
            state.bytes += progress.bytes;
        }
        Ok(len)
    }

    /// Seals a body behind its length and number; bytes of all that.
    fn seal(&mut self, body: &Body<'_>, out: &mut [u8]) -> Result<usize, session::Error> {
        use fusewire_session::Marshal as _;
        let record = self.records.record_len(body.marshalled_len());
        let (number, last) = (self.next, self.next == u32::MAX);
        self.records.seal_into(number, body, &mut out[FRAME_LEN..][..record])?;
        // The last number is used up: what is sealed after it fails.
        self.next = if last { number } else { number + 1 };
        out[..2].copy_from_slice(&(record as u16).to_be_bytes());
        out[2..FRAME_LEN].copy_from_slice(&number.to_be_bytes());
        Ok(FRAME_LEN + record)
    }

    pub fn poll_lost(&mut self) -> Option<(usize, u64, Why)> {
        self.lost.pop_front()
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let is_under_way = || self.lanes.iter().any(|lane| lane.progress.is_some());
        let waits = !self.queue.is_empty() || is_under_way() || self.again.waits();
        let untold = self.again.poll_timeout(self.patience());
        let goes = (waits && self.tripped().is_none()).then(|| self.pacer.next_send());
        let goes = goes.map(|at| at.unwrap_or(Instant::ZERO));
        let breaks = self.breaker.poll_timeout();
        let all = [goes, self.queue.poll_timeout(), self.nada.poll_timeout(), breaks, untold];
        all.into_iter().flatten().min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.queue.handle_timeout(now);
        if const { kept(P::SENDS) > 0 } {
            self.again.handle_timeout(now, self.patience());
            self.again.next_lane(now, self.one_way(now), |_| 0);
        }
        self.note_lost();
        if self.nada.poll_timeout().is_some_and(|at| at <= now) {
            self.nada.handle_timeout(now);
            self.pace();
        }
        // With one rate there is nothing to yield (RFC 8083, section 4).
        self.breaker.set_yields(!self.nada.is_at_least());
        self.breaker.handle_timeout(now);
    }

    pub fn tripped(&self) -> Option<media::Cause> {
        self.breaker.tripped()
    }

    pub fn close_breaker(&mut self, now: Instant) {
        self.breaker.close(now);
    }

    pub fn seen(&self) -> &Seen {
        self.nada.seen()
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Yields;
    use crate::profile::{Adapted, Machine};

    /// A copy that comes after an age is waited for by no queue.
    #[test]
    fn any_rate_of_what_is_copied_has_a_longest_queue() {
        struct Rare;
        impl Profile for Rare {
            const NAME: &'static str = "tested";
            const MACHINE: Machine = Machine::Datagram;
            const SENDS: &'static [Adu] = &[
                Adu {
                    priority: 200,
                    adapted: Some(Adapted {
                        bits: (100_000, 200_000),
                        hz: (5.0, 30.0),
                        order: &[Yields::Quality],
                    }),
                    ..Adu::as_it_comes("Picture", 1000)
                },
                Adu {
                    number: 1,
                    priority: 1,
                    hz: 1e-300,
                    fec: Fec::Copy { distance: 3 },
                    deadline: Some(Duration::from_millis(100)),
                    ..Adu::as_it_comes("Sound", 100)
                },
            ];
            const TAKES: &'static [Adu] = &[];
            const RATES: (u64, u64) = (400_000, 400_000);
        }
        assert_eq!(queue_max::<Rare>(), Some(QUEUE_LEAST));
    }
}
